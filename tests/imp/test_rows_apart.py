"""Loops that add to several rows of an accumulator: in lanes where these are apart, or the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.needs import needs_cc

pytestmark = needs_cc

TEXT = """
def f [n] (ws: [3][n]f64) (k: i64) (i: i64) (j: i64): f64 =
  if k == 0 then 1
  else f64.sum (map2 (\\x y -> x * f64.sin y) ws[{a}] ws[{b}]) * f ws (k - 1) j i + 0.1
entry value [n] (ws: [3][n]f64) (k: i64) (i: i64): f64 = f ws k i (2 - i)
entry gradient [n] (ws: [3][n]f64) (k: i64) (i: i64) = vjp (\\ws -> f ws k i (2 - i)) ws 1
"""


def in_lanes(source):
    """Of the loops that add to memory twice, whether their iterations are independent."""
    loops = re.findall(r"(FUTAD_INDEPENDENT\n)?\s*for \([^\n]*\{\n((?:[^{}]*\n)*?)\s*\}", source)
    return [bool(mark) for mark, body in loops if len(re.findall(r"\[[^\n]*\] \+= ", body)) == 2]


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b", "fires"), [("0", "2", True), ("i", "j", False), ("0", "i", False)])
def test_additions_to_rows(a, b, fires):
    text = TEXT.replace("{a}", a).replace("{b}", b)
    source = CBackend(compile_program(compile_text(text), target=C)).source
    assert any(in_lanes(source)) is fires
    p, q = futad.compile(text, backend="c"), futad.compile(text, backend="interp")
    ws = np.random.default_rng(0).uniform(0.5, 1.5, (3, 37))
    for i in range(3):
        np.testing.assert_allclose(p.gradient(ws, 3, i), q.gradient(ws, 3, i), rtol=1e-11)
