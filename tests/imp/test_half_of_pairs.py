"""Pairs of which half are left out: by intervals, with checks and reads of the other half alone."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.errors import BoundsError
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.slow import slow_but

PAIRS = """
entry main [n][k] (pos: [n][3]f64) (table: [k][k]f64) (seq: [n]i64): f64 =
  let dist i j = f64.sqrt ((pos[i, 0] - pos[j, 0]) ** 2 + (pos[i, 1] - pos[j, 1]) ** 2 + (pos[i, 2] - pos[j, 2]) ** 2)
  in f64.sum (map (\\i -> f64.sum (map (\\j ->
    if j < i + 3 then 0 else
    let r = dist i j in table[seq[i], seq[j]] / (1 + f64.exp (4 * (r - 2))) + (0.8 / r) ** 12) (iota n))) (iota n))
"""
# The condition is in the data, so that both sides are computed; `pos` is read wherever a lane is.
MASKED = """
entry main [n][k] (pos: [n][3]f64) (table: [k][k]f64) (seq: [n]i64): f64 =
  f64.sum (map (\\i -> f64.sum (map (\\j ->
    if seq[i] < seq[j] && pos[i, 1] < 0.5 then
      let r = f64.sqrt ((pos[i, 0] - pos[j, 0]) ** 2 + (pos[i, 1] - pos[j, 1]) ** 2 + (pos[i, 2] - pos[j, 2]) ** 2)
      in table[seq[i], seq[j]] / (1 + f64.exp (4 * (r - 2))) + (0.8 / (1 + r)) ** 12 + f64.log (1 + r)
    else 0) (iota n))) (iota n))
"""


def entry(text: str, backend: str) -> futad.Function:
    return futad.compile(text, backend=backend).main


def fires(text: str) -> dict[str, int]:
    with counting() as counts:
        CBackend(compile_program(compile_text(text), target=C))
    return counts


def test_transformations_fire() -> None:
    assert fires(PAIRS)["index-set-splitting"]
    assert fires(MASKED)["guarded-reads"]


@pytest.mark.parametrize("n", [0, 1, 3, 4, 11, 40, 140])
@pytest.mark.parametrize("text", [PAIRS, MASKED])
@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_sums_are_those_of_the_interpreter(backend: str, text: str, n: int) -> None:
    random = np.random.default_rng(n)
    args = random.normal(size=(n, 3)), random.uniform(size=(4, 4)), random.integers(0, 4, size=n)
    np.testing.assert_allclose(entry(text, backend)(*args), entry(text, "interp")(*args), rtol=1e-12)


def test_elements_of_pairs_left_out_are_not_checked() -> None:
    random = np.random.default_rng(0)
    pos, table = random.normal(size=(40, 3)), random.uniform(size=(4, 4))
    seq = random.integers(0, 4, size=40)
    c, interp = entry(PAIRS, "c"), entry(PAIRS, "interp")
    few = np.full(3, 9)  # no pair of three is counted
    assert c(pos[:3], table, few) == interp(pos[:3], table, few) == 0
    for place in (0, 20, 39):
        bad = seq.copy()
        bad[place] = 4
        for f in (c, interp):
            with pytest.raises(BoundsError, match=r"Index \[4\]"):
                f(pos, table, bad)
