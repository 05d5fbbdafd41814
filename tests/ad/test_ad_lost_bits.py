"""Loops undone with round-off of which the lost bits are kept: every gradient is bitwise that of the kept values."""

from __future__ import annotations

import ctypes
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import futad
from futad.ad.inverse import lost_bits
from futad.core.builder import Builder
from futad.core.scalarops import evaluate
from futad.core.types import Atom, Const
from futad.runtime import cc
from tests.support.needs import needs_cc, needs_cxx
from tests.support.paths import ROOT
from tests.support.slow import slow_but

BACKENDS = ["interp", "c", "multicore", "emulated"]
LEAPFROG = str(ROOT / "benchmarks/programs/leapfrog.fut")


def same(actual: Any, expected: Any) -> bool:
    """Whether two results have the same bits, but for those of NaN."""
    pairs = [np.asarray(a) for a in (actual, expected)]
    if isinstance(actual, tuple):
        return all(same(a, e) for a, e in zip(actual, expected, strict=True))
    nan = np.isnan(pairs[0])
    return bool((nan == np.isnan(pairs[1])).all()) and pairs[0][~nan].tobytes() == pairs[1][~nan].tobytes()


# --- the bits ---------------------------------------------------------------------------------------------------------


def patterns(t: type, seed: int = 0) -> np.ndarray:
    """Floats of any bits, and those near zero, infinity and each other."""
    ints = np.dtype(f"i{np.dtype(t).itemsize}")
    rng = np.random.default_rng(seed)
    anything = rng.integers(np.iinfo(ints).min, np.iinfo(ints).max, 2000, dtype=ints, endpoint=True)
    info = np.finfo(t)
    some = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 1.0, -0.3], t)
    near = (some.view(ints)[:, None] + np.arange(-70, 71, dtype=ints)).ravel()
    return np.concatenate([anything, near]).astype(ints).view(t)


def rank(x: np.ndarray) -> list[int]:
    """The place of floats in their order, without bounds."""
    bits = x.dtype.itemsize * 8
    raw = [int(v) for v in x.view(f"u{x.dtype.itemsize}")]
    return [-1 - (v - (1 << bits - 1)) if v >> (bits - 1) else v for v in raw]


@pytest.mark.parametrize("t", [np.float32, np.float64])
def test_what_is_lost_is_found(t: type) -> None:
    x = patterns(t)
    for y in (x, np.roll(x, 1), np.roll(x, 7), np.roll(x, 40), x[::-1].copy(), np.zeros_like(x)):
        k = evaluate("lost", x, y)
        far = np.array([abs(a - b) > 32 for a, b in zip(rank(x), rank(y), strict=True)])
        assert k.dtype == np.int8 and ((k == -1) == far).all() and (k[~far] >= 0).all()
        back = evaluate("found", k[~far], y[~far])
        assert back.tobytes() == x[~far].tobytes()
        for moved in (-31, 31):  # where the inverse has other bits than it had
            off = (np.array(rank(y), object) + moved)[~far]
            top = np.iinfo(f"i{x.dtype.itemsize}").max
            inside = np.array([-top < r < top for r in off], bool)
            z = np.array([r if r >= 0 else r ^ top for r in off[inside]]).astype(f"i{x.dtype.itemsize}").view(t)
            assert evaluate("found", k[~far][inside], z).tobytes() == x[~far][inside].tobytes()


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("t", ["f32", "f64"])
def test_c_finds_the_same(t: str) -> None:
    c = {"f32": "float", "f64": "double"}[t]
    lib = cc.build_library(f"""#include "prelude.h"
void both(int64_t n, const {c} *x, const {c} *y, int8_t *k, {c} *z) {{
  for (int64_t i = 0; i < n; i++) {{ k[i] = futad_lost_{t}(x[i], y[i]); z[i] = futad_found_{t}(k[i], y[i]); }}
}}""")
    x = patterns(np.dtype(c.replace("float", "f4").replace("double", "f8")).type, 1)
    for shift in (0, 1, 7, 33, 100):
        y = np.roll(x, shift)
        k, z = np.empty(x.shape, np.int8), np.empty_like(x)
        lib.both(ctypes.c_int64(len(x)), *[ctypes.c_void_p(a.ctypes.data) for a in (x, y, k, z)])
        want = evaluate("lost", x, y)
        assert (k == want).all() and z.tobytes() == evaluate("found", want, y).tobytes()


# --- loops ------------------------------------------------------------------------------------------------------------

# Functions of n and x, and how many values come back with lost bits.
LOOPS = {
    "sum": ("(loop (p, q) = (x, 1) for i < n do let p = p + f64.sin q in (p, q - 0.3 * f64.cos p)).0", 2),
    "scaled": ("(loop (v, w) = (x, 0.5) for i < n do let v = 0.9 * v - f64.sin w in (v, w + 0.1 * v)).1", 2),
    "rotated": ("let (c, s) = (f64.cos 0.3, f64.sin 0.3)"
                " in (loop (z, a, b) = (0, x, 2) for i < n do (z + a * b, c * a - s * b, s * a + c * b)).0", 2),
    "far": ("(loop (a, b) = (x, 0.1) for i < n do (b, f64.sin b + 0.1 * a + f64.i64 (i % 3))).0", 1),
    "f32": ("f64.f32 (loop (p, q) = (f32.f64 x, 1) for i < n do let p = p + f32.sin q in (p, q / 1.5 - p * p)).0", 2),
    "moved": ("(loop (a, b, c) = (x, 2, 3) for i < n do (b, c, a + f64.sin b * c)).0", 1),
    "counts too": ("let (p, _, k) = loop (p, q, k) = (x, 1, 7u32) for i < n do"
                   " let p = p + f64.sin q * f64.u32 (k >> 20) in (p, q * 1.1 - p, k * 1664525 + 1013904223)"
                   " in p * f64.u32 k", 2),
    "integer of a float": ("(loop (s, p, k) = (0, x, 0i64) for i < n do"
                           " (s + p * p * f64.i64 k, f64.i64 (i % 7) - 0.9 * p, k + i64.f64 p)).0", 1),
    "decided": ("(loop (p, q) = (x, 1) for i < n do if q * p > 0.4 then (p + f64.sin q, q) else (p, q - f64.cos p)).0",
                2),
    "arrays": ("let (ps, qs) = loop (ps, qs) = (replicate 11 x, map f64.i64 (iota 11)) for i < n do"
               " let ps = map2 (\\p q -> p + 0.1 * f64.sin q) ps qs"
               " in (ps, map3 (\\q p r -> q - p * f64.exp (-r * r)) qs ps (rotate 1 ps))"
               " in f64.sum (map2 (*) ps qs)", 22),
    "rows": ("let xs = loop xs = map (\\k -> [x, f64.i64 k, 1]) (iota 5) for i < n do"
             " map (\\r -> [r[0] + 0.1 * f64.sin r[1], r[1], r[2] * 1.01]) xs in f64.sum (map f64.sum xs)", 15),
    "overwritten": ("(loop (s, xs) = (0, [x, 1, 2, 3]) for i < n do"
                    " let xs[i % 4] = xs[i % 4] * 1.25 + 0.1 let xs = map (\\y -> 0.7 * y) xs"
                    " in (s + xs[0] * xs[1], xs)).0", None),
    "inner loop": ("(loop (p, q) = (x, 1) for i < n do"
                   " loop (p, q) for j < 4 do (q, p + f64.sin q * f64.i64 j)).0", None),
    "while": ("(loop (p, q, i) = (x, 1, 0) while i < n do (q, p + 0.2 * f64.sin q, i + 1)).0", None),
    "bounded": ("(#[bound(80)] loop (p, q, i) = (x, 1, 0) while i < n do (q, p + 0.2 * f64.sin q, i + 1)).0",
                None),
    "in a map": ("f64.sum (map (\\k -> (loop (p, q) = (x, f64.i64 k) for i < n do (q, p + 0.2 * f64.sin q)).0)"
                 " (iota 6))", None),
    "arrays in a map": ("f64.sum (map (\\k -> let (ps, _) = loop (ps, qs) = (replicate 3 x, replicate 3 (f64.i64 k))"
                        " for i < n do (qs, map2 (\\p q -> p + 0.2 * f64.sin q) ps qs) in f64.sum ps) (iota 6))", None),
    "with an inverse": ("(loop (p, q) = (x, 0.1) for i < n do let p = with_inverse f64.sinh f64.asinh p in (q, p)).0",
                        None),
}  # fmt: skip
NS = (0, 1, 2, 70)


def text(name: str) -> str:
    how = f"def f (n: i64) (x: f64): f64 = {LOOPS[name][0]}"
    return how + """
        entry exact (n: i64) (x: f64) = #[reversible(exact)] vjp (f n) x 1
        entry plain (n: i64) (x: f64) = vjp (f n) x 1"""


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(list(LOOPS)[::3], LOOPS))
def test_gradients_are_the_same_bits(name: str) -> None:
    made = futad.compile(text(name), backend="interp")
    for n in NS:
        got = made.exact(n, 0.3)
        told = str(made.explain_memory())
        assert same(got, made.plain(n, 0.3))
        assert name == "integer of a float" or "undone iteration by iteration" in told
        assert "lost bits of each kept" in told


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize(("name", "backend"), slow_but(
    [("decided", "c"), ("arrays", "c"), ("while", "c"), ("f32", "multicore"), ("in a map", "emulated")],
    product(LOOPS, BACKENDS[1:]),
))
def test_gradients_are_the_same_bits_on(backend: str, name: str) -> None:
    """The two are compiled apart from one another, by different flags of devices."""
    made = futad.compile(text(name), backend=backend)
    for n in NS:
        assert same(made.exact(n, 0.3), made.plain(n, 0.3))


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(
    ["sum", "f32", "decided", "integer of a float"],
    [name for name, (_, values) in LOOPS.items() if values is not None],
))
def test_a_byte_for_each_value(kept: Any, name: str) -> None:
    """And as much room for those that are further away, 64 values at least."""
    values, n = LOOPS[name][1], 400
    (got,), room = kept(text(name), "exact", n, 0.3)
    (want,), much = kept(text(name), "plain", n, 0.3)
    assert same(got, want)
    other = {"decided": 1, "integer of a float": 8}.get(name, 0) * n
    size = 4 if name == "f32" else 8
    assert room == values * n + values * n // 4 * size + other < much


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1e308, -1e300, 0.3]


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", slow_but(["c"], ["interp", "c"]))
def test_zeros_denormals_infinities_and_nan_come_back(backend: str) -> None:
    made = futad.compile("""
        def f (n: i64) (a: f64) (x: f64) = (loop (x, y) = (x, 0) for i < n do (x * a, y + f64.sin x)).1
        entry exact (n: i64) (a: f64) (x: f64) = #[reversible(exact)] vjp (f n a) x 1
        entry plain (n: i64) (a: f64) (x: f64) = vjp (f n a) x 1""", backend=backend)  # fmt: skip
    with np.errstate(all="ignore"):
        for x in SPECIAL:
            for a in (0.9, 0.0, -0.0, 1e-200, np.nan, np.inf, 1e30):
                for n in (0, 1, 3, 40):
                    assert same(made.exact(n, a, x), made.plain(n, a, x)), (n, a, x)


FAR = "(loop (x, y) = (x, 0) for i < n do (x * a, y + f64.sin x)).1"


@pytest.mark.slow
def test_a_list_that_is_full_is_an_error_with_its_place() -> None:
    made = futad.compile(f"entry f (n: i64) (x: f64) (a: f64): f64 = {FAR}", backend="interp")
    exact, plain = futad.grad(made.f, argnums=1, reversible="exact"), futad.grad(made.f, argnums=1)
    assert same(exact(64, 0.3, 0.0), plain(64, 0.3, 0.0))
    says = "1:44: .*'x' cannot be undone .*: 65 of its values are further away, where 64 may be; reversible=False"
    with pytest.raises(futad.errors.AssertionFailed, match=says), np.errstate(all="ignore"):
        exact(70, 0.3, 0.0)


KEPT = lost_bits.Kept


class _OneWrong(KEPT):
    """Of a kept variable, with a value that comes back wrong in one iteration, so far that bits do not mend it."""

    def find(self, b: Builder, near: Atom, i: Atom) -> Atom:
        t = near.type
        hit = b.op("eq", i, Const(i.type, 5))
        wrong = b.op("select", hit, b.op("mul", near, Const(t, self.by)), near)
        return KEPT.find(self, b, wrong, i)


@pytest.mark.parametrize("by, heals", [(1 + 1e-9, False), (1 + 2e-16, True)])
def test_a_wrong_bit_on_the_way_is_an_error(monkeypatch: pytest.MonkeyPatch, by: float, heals: bool) -> None:
    """Though the loop comes back to where it began: an iteration begins with i, whatever it ends with."""
    monkeypatch.setattr(_OneWrong, "by", by, raising=False)
    monkeypatch.setattr(lost_bits, "Kept", _OneWrong)
    text = """entry f (n: i64) (x: f64): f64 =
      (loop (s, p, q) = (0, x, 1) for i < n do (s + f64.sin p * q, 1.5 * f64.i64 i - p * 1e-15, q * 1.25)).0"""
    made = futad.compile(text, backend="interp")
    exact, plain = futad.grad(made.f, argnums=1, reversible="exact"), futad.grad(made.f, argnums=1)
    if heals:
        assert same(exact(20, 0.3), plain(20, 0.3))
        return
    with pytest.raises(futad.errors.AssertionFailed, match="does not come to where it was: of '[pq]'"):
        exact(20, 0.3)


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize(("name", "backend"), slow_but(
    [("scaled", "interp"), ("in a map", "c")], product(["scaled", "arrays", "in a map"], ["interp", "c"])
))
def test_higher_derivatives(backend: str, name: str) -> None:
    """Bits have no derivative, so floats are kept where there is one more."""
    made = futad.compile(f"entry f (n: i64) (x: f64): f64 = {LOOPS[name][0]}", backend=backend)
    how = {"reversible": "exact"}
    for n in (0, 1, 12):
        exact, plain = [futad.grad(made.f, argnums=1, **options) for options in (how, {})]
        assert same(exact(n, 0.3), plain(n, 0.3))
        assert same(futad.grad(exact, argnums=1, **how)(n, 0.3), futad.grad(plain, argnums=1)(n, 0.3))
        assert same(*[futad.hvp(made.f, (n, 0.3), (None, 1.0), **options)[1] for options in (how, {})])


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize(("memory", "backend"), slow_but(
    [("600B", "c"), ("2kB", "interp")], product(["600B", "2kB", "1MB"], ["interp", "c"])
))
def test_under_a_budget_blocks_keep_their_bits(backend: str, memory: str) -> None:
    made = futad.compile(f"entry f (n: i64) (x: f64): f64 = {LOOPS['arrays'][0]}", backend=backend)
    got = futad.grad(made.f, argnums=1, reversible="exact", memory=memory)
    want = futad.grad(made.f, argnums=1, memory=memory)
    for n in (0, 1, 2, 40):
        assert same(got(n, 0.3), want(n, 0.3))


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize(("size", "backend"), slow_but(
    [(3, "c"), (8, "interp")], product([1, 3, 8, 17, 40], BACKENDS)
))
def test_leapfrog(backend: str, size: int) -> None:
    exact, plain = [futad.load(LEAPFROG, backend=backend, **how) for how in ({"reversible": "exact"}, {})]
    args = (0.1, *np.random.default_rng(size).normal(size=(3, size)))
    for n in (0, 1, 300 if backend != "emulated" else 20):
        assert same(exact.gradient(n, *args), plain.gradient(n, *args))


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """An iteration of three floats that can be undone nearly: each in turn is changed by what the others are."""
    names = draw(st.permutations("abc"))
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        x, y, z = draw(st.permutations(names))
        terms = [f"f64.sin {y}", f"{y} * {z}", f"f64.exp (-{z} * {z})", f"f64.i64 i / (1 + {y} * {y})"]
        by = draw(st.sampled_from(terms))
        lines.append(draw(st.sampled_from([
            f"let {x} = {x} + {by}", f"let {x} = {by} - {x}", f"let {x} = 0.9 * {x} - 0.1 * {by}",
            f"let ({x}, {y}) = ({y}, {x} / 1.1)", f"let {x} = if {y} > 0.2 then {x} + {by} else {x} * 1.01",
            f"let ({x}, {y}) = (0.8 * {x} - 0.6 * {y}, 0.6 * {x} + 0.8 * {y})",
        ])))  # fmt: skip
    return " ".join(lines)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(bodies(), st.floats(-2, 2), st.integers(0, 40))
def test_random_loops(body: str, x: float, n: int) -> None:
    loop = f"loop (s, a, b, c) = (0, x, 0.5, 2) for i < n do {body} in (s + a * f64.sin b * c, a, b, c)"
    made = futad.compile(f"""
        def f (n: i64) (x: f64): f64 = ({loop}).0
        entry exact (n: i64) (x: f64) = #[reversible(exact)] vjp (f n) x 1
        entry plain (n: i64) (x: f64) = vjp (f n) x 1""", backend="interp")  # fmt: skip
    with np.errstate(all="ignore"):
        assert same(made.exact(n, x), made.plain(n, x))


def test_a_name_that_the_program_has() -> None:
    text = """def undone_0 (x: f64) : f64 = f64.sin x
        def undone_lost_f64 [n] (xs: [n]f64) (y: f64) = map (+ y) xs
        def f (n: i64) (x: f64) = f64.sum (loop xs = #[noinline] (undone_lost_f64 [1, x] (#[noinline] (undone_0 x)))
          for i < n do map (\\x -> 1.1 * x + f64.i64 i) xs)
        entry g (n: i64) (x: f64) = #[reversible(exact)] vjp (\\x -> f n x * f n x) x 1
        entry h (x: f64) = #[noinline] (undone_0 x) + f64.sum (#[noinline] (undone_lost_f64 [x] x))"""
    made = futad.compile(text, backend="interp")
    assert made.h(0.5) == np.sin(0.5) + 1.0 and re.match("[0-9]", str(abs(made.g(3, 0.5))))
