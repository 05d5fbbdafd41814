"""Many directions of one derivative at once."""
