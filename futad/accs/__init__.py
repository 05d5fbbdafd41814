"""Accumulators turned into maps and reductions where every update's place is known.

Section 6.1 of "AD for an Array Language with Nested Parallelism" (Schenck, Rønning, Henriksen, Oancea, SC 2022):
an update whose place does not vary with the map around it is a reduction of its contributions; one whose place
is the map's own index is the mapped contributions themselves.  Matrix products among them are the business of
`optimise/matmul.py`, which runs on what is left.
"""

from futad.accs.reduce import accs

__all__ = ["accs"]
