"""Differentiation as a transformation of the core IR: `expand.py` is the driver, docs/ad.md the guide."""
