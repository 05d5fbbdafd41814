"""Colours of the columns of a sparse matrix: those of one colour can be found by one product with a vector.

Sources: A. R. Curtis, M. J. D. Powell, J. K. Reid, "On the estimation of sparse Jacobian matrices" (1974): columns that
share no row; T. F. Coleman, J. J. More, "Estimation of sparse Hessian matrices and graph coloring problems" (1984), and
A. H. Gebremedhin, F. Manne, A. Pothen, "What color is your Jacobian?" (SIAM Review 2005), algorithm 4.1: star colours,
by which each element of a symmetric matrix is found in its own row or in the mirrored one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Pattern = Any  # a scipy.sparse.csr_array, of which only the places count
Colours = np.ndarray[Any, np.dtype[np.int64]]
MOST_STEPS = 20_000_000  # of star colouring: beyond, columns are coloured as of any matrix


def column_colours(pattern: Pattern) -> Colours:
    """A colour from 0 on for each column; no two columns of one colour have an element in the same row.

    Greedy, in the order of columns and then from the fullest one down; the better one counts.
    """
    per_row = np.diff(pattern.indptr)
    count = pattern.shape[1]
    least = int(per_row.max(initial=0))
    if least == count:
        return np.arange(count)
    by_column = pattern.tocsc()
    starts, rows = by_column.indptr.tolist(), by_column.indices.tolist()
    made = _greedy(range(count), starts, rows, pattern.shape[0])
    if made.max(initial=-1) + 1 > least:  # which no colouring is below
        fullest = np.argsort(-np.diff(by_column.indptr), kind="stable").tolist()
        other = _greedy(fullest, starts, rows, pattern.shape[0])
        if other.max() < made.max():
            made = other
    return made


def _greedy(order: Any, starts: list[int], rows: list[int], height: int) -> Colours:
    taken = [0] * height  # by row the colours of columns in it, as bits
    out = np.zeros(len(starts) - 1, np.int64)
    for j in order:
        mine = rows[starts[j] : starts[j + 1]]
        near = 0
        for i in mine:
            near |= taken[i]
        free = ~near & (near + 1)  # the lowest bit that is not set
        for i in mine:
            taken[i] |= free
        out[j] = free.bit_length() - 1
    return out


def star_colours(pattern: Pattern) -> Colours | None:
    """Colours of the columns of a symmetric pattern: neighbours differ, and each path of four has three colours.

    None where that would take too long.
    """
    count = pattern.shape[0]
    degree = np.diff(pattern.indptr).astype(float)
    if float((degree * (pattern @ degree)).sum()) > MOST_STEPS:
        return None
    starts, columns = pattern.indptr.tolist(), pattern.indices.tolist()
    near = [[j for j in columns[starts[i] : starts[i + 1]] if j != i] for i in range(count)]
    colour = [-1] * count
    for v in range(count):
        forbidden = set()
        for w in near[v]:
            own = colour[w]
            forbidden.add(own)
            for x in near[w]:
                if (c := colour[x]) < 0 or x == v or c in forbidden:
                    continue
                if own < 0 or any(y != w and colour[y] == own for y in near[x]):
                    forbidden.add(c)
        c = 0
        while c in forbidden:
            c += 1
        colour[v] = c
    return np.array(colour, np.int64)


__all__ = ["Colours", "Pattern", "column_colours", "star_colours"]
