"""Loops in and after one another as one loop, for a budget of what reverse mode keeps."""
