"""Transformations of loops for C: which are tried, and in which order, is in `schedule.py`."""
