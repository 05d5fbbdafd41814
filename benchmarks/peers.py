"""What the versions for other libraries (`peers_jax.py`, `peers_torch.py`) share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
# An objective and its derivative, each ready to be called.
Calls = tuple[Callable[[], Any], Callable[[], Any]]


def joints(bones: int) -> tuple[Array, Array]:
    """For each bone of the hand which elements of theta bend and spread it; 26 (one past the end) stands for 0."""
    bends, spreads = np.full(bones, 26), np.full(bones, 26)
    for finger in range(5):
        first = 2 + 4 * finger
        bends[first : first + 3] = 6 + 4 * finger + np.array([0, 2, 3])
        spreads[first] = 7 + 4 * finger
    return bends, spreads


def expansion(n: int) -> tuple[Array, Array, Array]:
    """The expansion by minors of the upper rows of an n by n matrix, all but the last five: a term for every choice of
    different columns.  Signs [t], columns [t][n - 5], and the columns that are left, in order [t][5]."""
    base = min(n, 5)
    terms = math.perm(n, n - base)
    upper = np.array(list(itertools.permutations(range(n), n - base)), np.int64).reshape(terms, n - base)
    taken = np.zeros((terms, n), bool)
    signs = np.ones(terms)
    for column in upper.T:
        smaller = (np.arange(n) < column[:, None]) & ~taken
        signs *= 1 - 2 * (smaller.sum(axis=1) % 2)
        taken[np.arange(terms), column] = True
    lower = np.broadcast_to(np.arange(n), taken.shape)[~taken].reshape(terms, base)
    return signs, upper, lower
