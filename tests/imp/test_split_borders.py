"""Borders of maps: where places are cut off at the ends, or branches taken there, what lies between runs in lanes."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

PLACES = {
    "clamped": "x[i64.max 0 (i64.min (n - 1) (i - 3))] * x[i64.min (n - 1) (i + 1)]",
    "clamped the other way": "x[i64.max 0 (i64.min (n - 1) (n - i))]",
    "zero": "(if i < 2 || i + 1 >= n then 0 else x[i - 2] * x[i + 1])",
    "zero, twice": "(if i < 1 then 0 else x[i - 1]) - (if i + 2 >= n then 0 else x[i + 2] * x[i])",
    "a branch in a branch": "(if i < 1 then 0 else if i + 1 < n then x[i - 1] + x[i + 1] else 0)",
    "by what is there": "(if x[i] < 0 then 0 else x[i] * x[i64.max 0 (i - 1)])",
    "both sides": "(if i < 70 then x[i] * 2 else x[i - 70])",
    "a border inside": "(if i == 100 then 0 else x[i64.max i 100 - 100])",
}
SIZES = (0, 1, 2, 63, 64, 65, 66, 67, 130, 201)


def source(place: str) -> str:
    return f"""
def f [n] (x: [n]f64): [n]f64 = tabulate n (\\i -> 1 + {place})
entry value [n] (x: [n]f64): [n]f64 = f x
entry back [n] (x: [n]f64) (s: [n]f64): [n]f64 = vjp f x s"""


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PLACES))
def test_borders(name: str) -> None:
    text = source(PLACES[name])
    made, expected = (futad.compile(text, backend=b) for b in ("c", "interp"))
    for n in SIZES:
        rng = np.random.default_rng(n)
        x, s = rng.integers(-3, 4, (2, n)).astype(float)
        np.testing.assert_array_equal(made.value(x), expected.value(x))
        np.testing.assert_array_equal(made.back(x, s), expected.back(x, s))


@pytest.mark.parametrize("name", ["clamped", "clamped the other way", "zero", "zero, twice", "a branch in a branch"])
def test_they_are_split(name: str) -> None:
    with counting() as counts:
        CBackend(compile_program(compile_text(source(PLACES[name])), target=C))
    assert counts["index-set-splitting"] >= 1


@pytest.mark.parametrize("n", [70, 200])
def test_an_element_out_of_range(n: int) -> None:
    """Only in the last iterations."""
    text = "entry value [n] (x: [n]f64): [n]f64 = tabulate n (\\i -> if i < 1 then 0 else x[i64.max 1 i + 1])"
    for backend in ("c", "interp"):
        with pytest.raises(futad.errors.BoundsError, match=rf"Index \[{n}\] out of bounds"):
            futad.compile(text, backend=backend).value(np.ones(n))


NEIGHBOURS = """
def f [n] (x: [n]f64) = f64.sum (tabulate (n - 2) (\\i -> f64.exp (x[i + 2] - x[i] * x[i + 1])))
entry back [n] (x: [n]f64): [n]f64 = vjp f x 1
entry outside [n] (x: [n]f64) (k: i64): [n]f64 =
  reduce_by_index (replicate n 0) (+) 0 (map (+ k) (iota n)) (map (** 2) x)
entry few (x: [8]f64): [8]f64 = vjp (\\x -> f64.sum (tabulate 7 (\\i -> x[i] * x[i + 1]))) x 1
"""


@pytest.mark.parametrize(("name", "fires"), [("back", 1), ("few", 0)])
def test_additions_to_neighbours_run_in_lanes(name: str, fires: int) -> None:
    """As where none is left out; not where there are few iterations."""
    entries = NEIGHBOURS if name == "back" else NEIGHBOURS.replace("entry back", "def back")
    entries = entries.replace("entry outside", "def outside")
    entries = entries if name == "few" else entries.replace("entry few", "def few")
    with counting() as counts:
        CBackend(compile_program(compile_text(entries), target=C))
    assert (counts["index-set-splitting"], counts["staged-additions"]) == (fires, fires)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_additions_out_of_range_are_left_out(backend: str) -> None:
    made, expected = (futad.compile(NEIGHBOURS, backend=b) for b in (backend, "interp"))
    for n in (2, 3, 33, 34, 35, 36, 130, 300):
        x = np.random.default_rng(n).integers(-3, 4, n).astype(float)
        np.testing.assert_allclose(made.back(x), expected.back(x), rtol=1e-13, atol=1e-9)
        for k in (0, 3, -3, n - 1, -n, 2**62, -(2**62)):
            np.testing.assert_array_equal(made.outside(x, k), expected.outside(x, k))
    np.testing.assert_array_equal(made.few(x[:8]), expected.few(x[:8]))


def test_values_too_large_to_compare() -> None:
    """Sums of the iteration and numbers that wrap around, or are not far from it."""
    text = """
    entry main [n] (x: [n]i64) (k: i64): [n]i64 =
      map2 (\\a i -> a + x[(i + k) % n] * 3 + (if i + k < n then x[(i - k) % n] else 7) + i64.min (i + 2 * k) 5)
           x (iota n)
    """
    made, expected = (futad.compile(text, backend=b) for b in ("c", "interp"))
    x = np.arange(200) ** 2
    large = (1 << 49, (1 << 50) - 1, 1 << 50, 1 << 61, (1 << 63) - 100, (1 << 63) - 1, -(1 << 62), -(1 << 63))
    for k in (0, 1, 199, *large):
        np.testing.assert_array_equal(made.main(x, k), expected.main(x, k), err_msg=str(k))
