"""What loops keep for the return sweep, and where it is found again."""
