"""Loops that are undone with round-off go on from states that are kept on the way."""

from __future__ import annotations

import re
from typing import Any

import pytest

import futad
from futad.ad.history import points
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
