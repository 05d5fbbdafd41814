"""Checked lanes: iterations that are said to be independent and are not are found, whatever the C compiler makes of
them; what is right runs as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad import checks, legality
from futad.errors import CheckFailure
from tests.support.needs import needs_cc
from tests.support.slow import slow_but

pytestmark = needs_cc

SHARED = """
entry main [m][d][n] (xs: [m][d]f64) (ws: [n]f64) (is: [n]i64) (js: [n]i64) : [m][d]f64 =
  vjp (\\xs -> f64.sum (map3 (\\i j w -> f64.sum (map2 (\\a b -> f64.exp (-a * a * w) * b) xs[i] xs[j])) is js ws)) xs 1
"""
MAPS = """
entry main [n] (xs: [n]f64) (is: [n]i64) : ([n]f64, [n]f64, f64, bool) =
  let ys = map2 (\\i x -> x + xs[(i + 1) % n]) (iota n) xs
  let zs = loop zs = copy ys for k < 3 do map2 (\\i z -> z * 0.5 + f64.exp (-ys[i]) * f64.i64 k) is zs
  in (ys, zs, f64.sum (map2 (*) ys zs), and (map (< 9) zs))
"""


@pytest.fixture(autouse=True)
def _no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CFLAGS", "-O1")


def checked(text: str, backend: str, *more: str) -> Any:
    with checks.checking({checks.LANES, *more}):
        program = futad.compile(text, backend=backend)
        program.executor()
    return program


def arguments(n: int) -> list[Any]:
    rng = np.random.default_rng(n)
    return [rng.normal(size=(2, 3)), rng.random(n), rng.integers(0, 2, n), rng.integers(0, 2, n)]


@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_lanes_that_meet_are_found(backend: str) -> None:
    args = arguments(40)
    with legality.dropping("outer-loop-vectorisation/places of its own"):
        plain = futad.compile(SHARED, backend=backend)
        wrong = checked(SHARED, backend)
    plain.main(*args)  # whose result is right without vectors
    with pytest.raises(CheckFailure, match=r"iteration \d+ of the loop over 'lane', .* iteration \d+ writes"):
        wrong.main(*args)
    for n in (0, 1, 3, 40):
        args = arguments(n)
        np.testing.assert_allclose(
            checked(SHARED, backend).main(*args), futad.compile(SHARED, backend="interp").main(*args), rtol=1e-12
        )


@pytest.mark.parametrize("more", [(), (checks.VALUES,), (checks.MEMORY, checks.VALUES)])
def test_independent_iterations_run_as_before(more: tuple[str, ...]) -> None:
    program, expected = checked(MAPS, "c", *more), futad.compile(MAPS, backend="interp")
    for n in (1, 2, 17, 5000):  # more than are remembered at a time
        xs = np.random.default_rng(n).normal(size=n)
        args = xs, np.arange(n)[::-1].copy()
        for x, y in zip(program.main(*args), expected.main(*args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9)


def test_a_loop_whose_lanes_add_to_one_element_is_found() -> None:
    """Of `vector-lanes`, whose loops are not in blocks."""
    text = "entry main [n][m] (is: [n]i64) (xs: [m]f64) = vjp (\\xs -> f64.sum (map (\\i -> f64.sin xs[i]) is)) xs 1"
    xs = np.arange(4.0)
    with legality.dropping("vector-lanes/added disjoint"):
        wrong = checked(text, "c")
    with pytest.raises(CheckFailure, match="of iterations said to be independent"):
        wrong.main(np.array([0, 1, 2, 3, 3, 2, 1, 0, 0]), xs)
    np.testing.assert_allclose(wrong.main(np.arange(4), xs), np.cos(xs))  # where they do not meet
