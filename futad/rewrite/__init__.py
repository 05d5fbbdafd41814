"""Rules, the combinators that schedule them (`strategy.py`), and the simplifier (`simplify.py`)."""
