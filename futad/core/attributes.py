"""Attributes of statements and functions: what a pass has to know of them beside what they compute."""

from __future__ import annotations

# The attribute of what forward mode makes.  An index of a tangent: its check goes where nothing is read any more, as
# the value's own stands.  A product with a tangent: zero for a tangent that is zero, be the other factor infinite.
DERIVED = ("derived",)

# The attribute of a scalar operation that solves another one for an operand: x = r - c where r was x + c.  What rounds
# is not r again when it is computed of x, but may be taken for it (`rewrite/rules/scalar.py`, `solved`).
SOLVES = ("solves",)

# The attribute of a function that is to compute the same bits wherever it is called.
SAME_BITS = ("same_bits",)

__all__ = ["DERIVED", "SAME_BITS", "SOLVES"]
