"""The rewrite rules, by the part of the language they speak of; those of the simplifier: `shipped.py`."""
