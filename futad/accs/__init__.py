"""Accumulators turned into maps, reductions and products where every update's place is known.

Section 6.1 of "AD for an Array Language with Nested Parallelism" (Schenck, Rønning, Henriksen, Oancea, SC 2022):
an update whose place does not vary with the map around it is a reduction of its contributions; one whose place
is the map's own index is the mapped contributions themselves.

Only the C backends run it.  Devices have their own (`flatten/column_sums.py`): they sum columns where a thread sums
rows.
"""
