"""Rematerialisation: what is kept until it is needed again, and what is computed again.

Two passes: `iterations.py`, early, of what the return sweep of a loop needs of the forward sweep; `elements.py`, late,
of the elements that maps hand to one another.  `policy.py` alone decides, by what the machine's memory costs.
"""
