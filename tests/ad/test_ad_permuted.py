"""Loops that read or write an array in another order: undone where each place is shown to be met once."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.legality import dropping
from tests.support.needs import needs_cxx
from tests.support.slow import slow_but

# The place of element k, of m elements, and whether it is seen to be a permutation for m = 6 and m = 7.
PLACES = {
    "k": (True, True), "m - 1 - k": (True, True), "(k + 3) % m": (True, True), "(3 - k) % m": (True, True),
    "(k + m - 1) % m": (True, True), "(m - k) % m": (True, True), "(5 * k + 2) % m": (True, True),
    "(-5 * k - 2) % m": (True, True), "(8 * k) % m": (False, True), "(2 * k) % m": (False, True),
    "(7 * k + 1) % m": (True, False), "(k * k) % m": (False, False), "(k + k / 2) % m": (False, False),
    "(k + 4000000000 * 4000000000) % m": (False, False), "m - 1 - k / 2": (False, False), "(k + 1) % 5": (False, False),
    "k - k % 2": (False, False),
}  # fmt: skip
WAYS = {
    "read": "map (\\k -> xs[{}]) (iota m)",
    "written": "scatter (replicate m 0) (map (\\k -> {}) (iota m)) xs",
    "written over": "scatter (copy xs) (map (\\k -> {}) (iota m)) xs",
}


def source(place: str, way: str, m: str, size: str = "") -> str:
    body = WAYS[way].format(place)
    return f"""
        def f {size} (n: i64) (vs: [{m}]f64): f64 = let m = {m} in
          (loop (xs, s) = (copy vs :> [m]f64, 0) for i < n do
            let ys = {body} in (ys, s * 0.9 + f64.sin ys[0] * ys[m - 1])).1
        entry undone {size} (n: i64) (vs: [{m}]f64): [{m}]f64 = vjp (f n) vs 1
        entry plain {size} (n: i64) (vs: [{m}]f64): [{m}]f64 = #[reversible(false)] vjp (f n) vs 1
        entry told {size} (n: i64) (vs: [{m}]f64): [{m}]f64 = #[checkpoint(memory="1MB")] vjp (f n) vs 1"""


def check(text: str, m: int, backend: str, undone: bool | None) -> None:
    p = futad.compile(text, backend=backend)
    vs = np.linspace(0.3, 2.0, m)
    for n in (0, 1, 2, 9):
        np.testing.assert_array_equal(p.undone(n, vs), p.plain(n, vs))
    p.told(9, vs)
    assert undone is None or ("undone" in str(p.explain_memory())) == undone, p.explain_memory()


@pytest.mark.slow
@pytest.mark.parametrize("way", slow_but(["read"], WAYS))
@pytest.mark.parametrize("place", slow_but(["m - 1 - k", "(5 * k + 2) % m", "(8 * k) % m", "(k * k) % m"], PLACES))
def test_orders(place: str, way: str) -> None:
    for m, undone in zip((6, 7), PLACES[place], strict=True):
        if way == "read" or undone:  # of places that are written twice the last one to write is not said
            check(source(place, way, str(m)), m, "interp", undone)


@pytest.mark.slow
@pytest.mark.parametrize("way", slow_but(["written"], WAYS))
@pytest.mark.parametrize("place", ["k", "m - 1 - k", "(k + 3) % m", "(3 - k) % m", "(k + m - 1) % m"])
def test_of_sizes_that_are_not_known(place: str, way: str) -> None:
    for m in (2, 5):
        check(source(place, way, "l", "[l]"), m, "interp", True)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_backends(backend: str) -> None:
    for way in WAYS:
        check(source("(5 * k + 2) % m", way, "7"), 7, backend, None)


def test_rows() -> None:
    text = """
        def f (n: i64) (vs: [5][2]f64): f64 =
          (loop (xs, s) = (copy vs, 0) for i < n do
            let ys = map (\\k -> xs[(2 * k + 1) % 5]) (iota 5) in (ys, s * 0.9 + f64.sin ys[0, 1] * ys[4, 0])).1
        entry undone (n: i64) (vs: [5][2]f64) = vjp (f n) vs 1
        entry plain (n: i64) (vs: [5][2]f64) = #[reversible(false)] vjp (f n) vs 1"""
    p = futad.compile(text, backend="interp")
    vs = np.arange(10.0).reshape(5, 2)
    for n in (0, 1, 7):
        np.testing.assert_array_equal(p.undone(n, vs), p.plain(n, vs))


@pytest.mark.parametrize("way", WAYS)
def test_inverses(way: str) -> None:
    body = WAYS[way].format("(3 * k + 1) % m")
    p = futad.compile(f"""
        def g (xs: [8]f64): [8]f64 = let m = 8 let xs = xs :> [m]f64 in {body} :> [8]f64
        entry there (xs: [8]f64) = g xs
        entry back (ys: [8]f64): [8]f64 = invert g ys""", backend="interp")  # fmt: skip
    xs = np.arange(8.0)
    np.testing.assert_array_equal(p.back(p.there(xs)), xs)
    np.testing.assert_array_equal(p.there(p.back(xs)), xs)


@pytest.mark.slow
def test_an_element_that_is_read_twice_is_missed_without_the_condition() -> None:
    text = source("(2 * k) % m", "read", "6")
    with dropping("inverse/each place once"):
        p = futad.compile(text, backend="interp")
        vs = np.linspace(0.3, 2.0, 6)
        assert not np.array_equal(p.undone(3, vs), p.plain(3, vs))
