"""Loops that are undone with round-off go on from states that are kept on the way."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import futad
from futad.ad.history import points
from futad.ad.inverse import remainders
from futad.core import ir
from futad.core.builder import Builder
from futad.core.interp import Interpreter
from futad.core.types import F64, I64, Const, Var, array_of
from futad.runtime.arena import bytes_text
from futad.runtime.explain import least_runs
from tests.support.needs import needs_cxx
from tests.support.slow import slow_but


@pytest.mark.slow
@pytest.mark.parametrize("n", slow_but([0, 1, 64, 129], [0, 1, 63, 64, 127, 128, 129, 600]))
def test_points_of_return(kept: Any, n: int) -> None:
    """At most 8 states, one for 64 iterations at least; as many as a budget has room for, at least one."""
    text = """
        def f (n: i64) (x: f64) : f64 =
          let (q, p, _) = loop (q, p, r) = (x, 1, 7u32) for i < n do
            let p = p - f64.sin q / f64.i64 (i + 2)
            in (q + 0.1 * p * p, p, r * 5 + u32.i64 i)
          in q + p
        entry plain (n: i64) (x: f64) : f64 = vjp (f n) x 1"""
    for budget, most in (("reversible", 8), ('checkpoint(memory="100B")', 6), ('checkpoint(memory="40B")', 2)):
        text += f"\nentry reverse{most} (n: i64) (x: f64) : f64 = #[{budget}] vjp (f n) x 1"
    text = text.replace('#[checkpoint(', '#[reversible] #[checkpoint(')
    (want,), _ = kept(text, "plain", n, 0.7)
    for most in (8, 6, 2):
        (got,), room = kept(text, f"reverse{most}", n, 0.7)
        size = 24 if most == 8 else 16  # those that iterations may be run again from have their places beside them
        assert got == pytest.approx(want, rel=1e-11) and room == size * max(1, min(most, n // 64))


LOOP = """
    def f (n: i64) (x: f64) : f64 =
      let (_, q, p, s, _) = loop (s, q, p, r, k) = (0, x, 1, 7u32, 0i64) for i < n do
        let p = p - 0.01 * f64.sin q * f64.u32 (r >> 24) / 256
        in (s + q * p / f64.i64 (k + 1), q + 0.01 * p, p, r * 5 + u32.i64 i, k + i64.u32 (r & 1))
      in q + p + s
    entry plain (n: i64) (x: f64) : f64 = vjp (f n) x 1
    entry undone (n: i64) (x: f64) : f64 = #[reversible] vjp (f n) x 1
    entry twice (n: i64) (x: f64) : f64 = jvp (undone n) x 1
    entry plain_twice (n: i64) (x: f64) : f64 = jvp (plain n) x 1
    entry turned (n: i64) (x: f64) : f64 = vjp (undone n) x 1
    entry plain_turned (n: i64) (x: f64) : f64 = vjp (plain n) x 1
""".replace("(_, q, p, s, _)", "(s, q, p, _, _)")


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_long_loops_are_run_again_from_few_states(backend: str) -> None:
    """From states that have what the variables with round-off need, an integer that is undone exactly among it; no more
    runs than have to be, and as much memory for a million iterations as for a few thousand."""
    made = futad.compile(LOOP, backend=backend)
    held = set()
    most, long = points.STATES, points.LONG
    for n, number in (
        (0, 1), (long, points.MOST), (long + 1, 1 + long // points.SHORTEST), (20_000, points.STRETCHES),
        (60_000, 1 + 60_000 // points.LONGEST), (1_000_000, 1 + 1_000_000 // points.LONGEST),
    ):  # fmt: skip
        got = made.undone(n, 0.7)
        told = made.explain_memory()
        assert f", {number:,} states compared" in told
        again = least_runs(number + 1, most) - number if number > most else 0
        stretch = min(max(-(-n // points.STRETCHES), points.SHORTEST), points.LONGEST)
        assert n == 0 or f"each iteration run {1 + again * stretch / n:.1f} times" in told
        assert got == pytest.approx(made.plain(n, 0.7), rel=1e-9)
        held.add(re.search("held (.*)", told)[1] if number > most else "")
    assert len(held) == 2
    assert made.twice(5000, 0.7) == pytest.approx(made.plain_twice(5000, 0.7), rel=1e-8)
    assert made.turned(5000, 0.7) == pytest.approx(made.plain_turned(5000, 0.7), rel=1e-8)


@pytest.mark.slow
def test_leapfrog_keeps_one_state_in_any_order(kept: Any) -> None:
    text = """
        def f (n: i64) (x: f64) : f64 =
          (loop (q, p) = (x, 1) for _i < n do let p = p - 0.1 * f64.sin q in (q + 0.1 * p * p, p)).0
        entry reverse (n: i64) (x: f64) : f64 = #[reversible] vjp (f n) x 1
        entry plain (n: i64) (x: f64) : f64 = vjp (f n) x 1
        entry twice (n: i64) (x: f64) : f64 = jvp (reverse n) x 1
        entry plain_twice (n: i64) (x: f64) : f64 = jvp (plain n) x 1
        entry backwards (n: i64) (x: f64) : f64 = vjp (reverse n) x 1"""
    state = 24  # with its place
    for n in (0, 1, 2, 20):
        (got,), room = kept(text, "reverse", n, 0.7)
        (want,), much = kept(text, "plain", n, 0.7)
        assert got == pytest.approx(want, rel=1e-11) and room == state and much >= 8 * n
        (got,), room = kept(text, "twice", n, 0.7)
        (want,), _ = kept(text, "plain_twice", n, 0.7)
        assert got == pytest.approx(want, rel=1e-11) and room <= 2 * state
        (got,), _ = kept(text, "backwards", n, 0.7)
        assert got == pytest.approx(want, rel=1e-11)


@pytest.mark.parametrize("allowed", [1e-12, 1e-8, 1e-3, 0.01])
def test_numbers_tell_floats_apart_that_may_be_near(allowed: float) -> None:
    """In order, as far apart as 32 bits can tell where they differ by what is allowed; back up to a part of that."""
    rng = np.random.default_rng(1)
    sizes = np.concatenate([2.0 ** rng.uniform(-80, 300, 2000), [0.0, 5e-324, 0.125, 1.0, np.nextafter(1, 0), 1.7e308]])
    xs = np.sort(np.concatenate([-sizes, sizes]))
    b, numbers = Builder(), remainders.Numbers(allowed)
    x, y = Var("x", F64), Var("y", F64)
    u, v = numbers.of(b, x), numbers.of(b, y)
    found = numbers.float(b, u)
    code = ir.Lambda((x, y), tuple(b.stms), (u, v, found))
    size = Const(I64, len(xs))
    arrays = tuple([Var(p.name, array_of(F64, size)) for p in code.params])
    results = tuple([Var("r", array_of(a.type, size)) for a in code.result])
    every = ir.Lambda(arrays, (ir.Stm(results, ir.Map(size, arrays, code)),), results)
    main = ir.Fun("main", every, 0, tuple([Var("r", r.type) for r in results]))
    run = Interpreter(ir.Program({"main": main})).run
    with np.errstate(over="ignore"):
        told = [*zip(*run("main", [xs, xs + allowed * (1 + np.abs(xs))]), strict=True)]
    us = [int(u) for u, _, _ in told]
    assert all(a <= b for a, b in itertools.pairwise(us)) and us[0] == -us[-1]
    assert all(0 <= int(v) - int(u) < 2**31 for u, v, _ in told[1:-1])
    part = max(allowed, 1e-9) * 2.0**-27
    assert all(abs(z - x) <= part * (1 + abs(x)) for x, (_, _, z) in zip(xs, told, strict=True))
    exact = allowed <= 1e-8 and [z for x, (_, _, z) in zip(xs, told, strict=True) if abs(x) >= 0.125]
    assert not exact or exact == [x for x in xs if abs(x) >= 0.125]


ARRAYS = """
    def step [n] (h: f64) (k: [n]f64) (q: [n]f64, p: [n]f64) =
      let p = map3 (\\k q p -> p - h * k * f64.sin q) k q p in (map2 (\\q p -> q + h * p) q p, p)
    def f [n] (m: i64) (k: [n]f64) (q: [n]f64) : f64 =
      let (q, p, r) = loop (q, p, r) = (q, replicate n 0.5, 1.5) for i < m do
        let (q, p) = step (0.01 * r) k (q, p) in (q, p, r + 0.001 * f64.cos (f64.i64 i))
      in r * f64.sum (map2 (*) q p)
    entry plain [n] (m: i64) (k: [n]f64) (q: [n]f64) : [n]f64 = vjp (f m k) q 1
    entry undone [n] (m: i64) (k: [n]f64) (q: [n]f64) : [n]f64 = #[reversible] vjp (f m k) q 1
    entry twice [n] (m: i64) (k: [n]f64) (q: [n]f64) : [n]f64 = jvp (undone m k) q (replicate n 1)
    entry plain_twice [n] (m: i64) (k: [n]f64) (q: [n]f64) : [n]f64 = jvp (plain m k) q (replicate n 1)
"""


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("backend", ["interp", "c", "multicore", "emulated"])
def test_points_of_arrays_are_kept_by_their_remainders(backend: str) -> None:
    """In half the memory, so that no iteration is run again up to 30 points; not below another derivative."""
    made, rng = futad.compile(ARRAYS, backend=backend), np.random.default_rng(1)
    for m, n in ((0, 3), (63, 3), (64, 1), (128, 4), (600, 0), (600, 3)):
        k, q = rng.uniform(0.5, 2, n), rng.normal(size=n)
        assert made.undone(m, k, q) == pytest.approx(made.plain(m, k, q), rel=1e-10)
    assert made.twice(600, k, q) == pytest.approx(made.plain_twice(600, k, q), rel=1e-9)
    if backend == "interp":
        return
    k, q = rng.uniform(0.5, 2, 100), rng.normal(size=100)
    state, remainder, long = 2 * 800 + 8 + 8, 2 * (400 + 8) + 8, 30 * points.LONGEST
    for m, number, held, runs in (
        (600, 8, state + 7 * remainder, 1.0), (20_000, 28, state + 27 * remainder, 1.0),
        (long, 30, state + 29 * remainder, 1.0), (long + 1, 31, 13 * state, 1.6),
    ):  # fmt: skip
        got = made.undone(m, k, q)
        told = made.explain_memory()
        assert got == pytest.approx(made.plain(m, k, q), rel=1e-8)
        assert f", {number} states compared; each iteration run {runs} times" in told
        assert f"held {bytes_text(held)}" in told
    with pytest.raises(futad.AssertionFailed, match="does not come to where it was"):
        made.undone(600, k, np.where(q > 0, q, np.nan))
