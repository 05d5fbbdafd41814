"""Rows that are added to others, in vectors (`backend/c_row_additions.py`): every length around that of vectors, halves
and quarters of them, rows that meet, rows out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from tests.support.agreement import agree

TEXT = """
entry wide [n][d][e] (a: [n][d]f64) (from: [e]i64) (to: [e]i64): [n][d]f64 =
  reduce_by_index (copy a) (map2 (+)) (replicate d 0) to (map (\\i -> a[i]) from)
entry narrow [n][d][e] (a: [n][d]f32) (from: [e]i64) (to: [e]i64): [n][d]f32 =
  reduce_by_index (replicate n (replicate d 0)) (map2 (+)) (replicate d 0) to (map (\\i -> map (* 0.5) a[i]) from)
"""
LENGTHS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 31, 32, 33, 50)


def test_structure(backend: CBackend) -> None:
    for t in ("f64", "f32"):
        assert f"futad_quarter_{t} first_" in backend.source


@pytest.mark.parametrize("d", LENGTHS)
def test_every_length(core: Any, backend: CBackend, d: int) -> None:
    r = np.random.default_rng(d)
    a = r.normal(size=(5, d))
    if d:
        a[3, d // 2], a[4, -1] = np.nan, np.inf
    for e in (0, 1, 40):
        places = r.integers(0, 5, e), r.integers(-1, 6, e)  # some are out of range, and of no account
        for name, given, tolerance in (("wide", a, 1e-14), ("narrow", a.astype(np.float32), 1e-5)):
            assert agree(core, backend, name, [5, d, e, given, *places], tolerance)
