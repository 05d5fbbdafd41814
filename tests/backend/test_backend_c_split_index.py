"""The C backends: maps that choose places by the iteration, a stretch at a time."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.imp import ir
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import target_of
from futad.testing.build import c_backend
from tests.support.agreement import agree

TEXT = """
def wrapped (n: i64) (j: i64): i64 = if j < 0 then j + n else if j >= n then j - n else j

entry shifted [n] (c: i64) (x: [n]i64): [n]i64 = tabulate n (\\i -> x[wrapped n (i + c)] - x[i])
entry both [n] (c: i64) (x: [n]i64): [n]i64 =
  tabulate n (\\i -> 3 * x[wrapped n (i - c)] + 5 * x[wrapped n (i + c)] + x[wrapped n (i + 1 - 2 * c)])
entry modulo [n] (c: i64) (x: [n]i64): [n]i64 = tabulate n (\\i -> x[(i + c) % n])
entry backwards [n] (c: i64) (x: [n]i64): [n]i64 = tabulate n (\\i -> x[(c - i) % n])
entry next [n] (c: i64) (x: [n]i64): [n]i64 =
  tabulate n (\\i -> c * x[if i == n - 1 then 0 else i + 1] + x[if i != 0 then i - 1 else n - 1])
entry turned [n] (c: i64) (x: [n]i64): [n]i64 =
  tabulate n (\\i -> x[if i < c then n - 1 - i else i] + x[if c <= i then n - 1 - i else n - 1 - i])
entry tiles [n] (c: i64) (x: [n]i64): [n]i64 =
  tabulate n (\\i -> x[i % i64.max 1 c] + x[i / (1 + i64.abs c)])
entry rows [n] (c: i64) (x: [n]i64): [n]i64 =
  let w = 1 + i64.abs c
  in tabulate n (\\i -> let (a, b) = (i / w, i % w)
                       let j = a * w + (if b == w - 1 then 0 else b + 1)
                       in x[j % n])
entry two [n] (c: i64) (x: [n]i64): [n]i64 =
  tabulate n (\\i -> let j = wrapped n (i + c) in x[wrapped n (j + c)])
entry flagged [n] (c: i64) (x: [n]i64): [n]i64 =
  tabulate n (\\i -> let edge = i < c || i >= n - c in if edge then -i else x[if edge then i else i - 1])
entry pieces [n] (c: i64) (x: [n]i64): [n]i64 =
  tabulate n (\\i -> x[if i < c && i != 3 then i else if !(i < 2 * c) then i - c else n - 1 - i])
entry total [n] (c: i64) (x: [n]i64): i64 = i64.sum (tabulate n (\\i -> (i % 7) * x[wrapped n (i + c)]))
entry prefixes [n] (c: i64) (x: [n]i64): [n]i64 = scan (+) 0 (tabulate n (\\i -> x[wrapped n (i + c)] - 1))
entry narrow [n] (c: i64) (x: [n]i64): [n]i8 =
  tabulate n (\\i -> i8.i64 x[wrapped n (i + c)] * i8.i64 x[wrapped n (i - c)])
entry around [n] (c: i64) (x: [n]i64): [n][n]i64 =
  tabulate n (\\i -> tabulate n (\\j -> x[wrapped n (j + i)] + x[wrapped n (i + c)]))
"""
ENTRIES = (
    "shifted", "both", "modulo", "backwards", "next", "turned", "tiles", "rows", "two", "flagged", "pieces", "total",
    "prefixes", "narrow", "around",
)  # fmt: skip
SIZES = (0, 1, 2, 3, 63, 64, 65, 200, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_as_the_interpreter(core: Any, backend: CBackend, name: str) -> None:
    results = 0
    for n in SIZES[: -2 if name == "around" else None]:
        x = np.random.default_rng(n).integers(-99, 99, n)
        for c in sorted({0, 1, -1, 2, n // 3, n // 2 + 1, n - 1, n, n + 1, -n, 1 - n, 64, 70, -80}):
            results += agree(core, backend, name, [n, c, x])
    assert results > len(SIZES)


EXTREMES = (2**63 - 1, -(2**63), 2**60, 2**60 - 1, -(2**60), 2**62 + 5, 1 - 2**60)


@pytest.mark.slow
@pytest.mark.parametrize("name", [e for e in ENTRIES if e not in ("around", "tiles", "rows")])
def test_sums_that_wrap_around(core: Any, backend: CBackend, name: str) -> None:
    x = np.arange(200)
    for c in EXTREMES:
        agree(core, backend, name, [200, c, x])


@pytest.mark.slow
def test_failures_are_where_they_were(core: Any) -> None:
    backend = c_backend(core)
    x = np.arange(1000)
    for c in (1001, 1500, -1001, 2000, -1999):
        with pytest.raises(Exception, match=r"index\.fut:\d+") as expected:
            Interpreter(core).run("shifted", [1000, c, x])
        with pytest.raises(type(expected.value)) as raised:
            backend.run("shifted", [1000, c, x])
        assert str(raised.value) == str(expected.value)


def loops(body: list[ir.Stmt]) -> list[ir.While]:
    """The loops over intervals in statements."""
    here = [s for s in body if isinstance(s, ir.While)]
    return here + [w for s in body for part in ("body", "then", "orelse") for w in loops(getattr(s, part, []))]


PLAIN = ("turned", "flagged", "pieces", "prefixes")
"""The first goes up here and down there, the second reads in a branch, the third does both; a scan is in order."""


@pytest.mark.parametrize("name", [e for e in ENTRIES if e not in PLAIN])
def test_what_is_done_in_intervals(core: Any, backend: CBackend, name: str) -> None:
    """With all of the body in vector lanes."""
    function = next(f for f in backend.module.functions if f.name == name)
    assert loops(function.body)
    for w in loops(function.body):
        choice = next(s for s in w.body if isinstance(s, ir.If))
        assert any(isinstance(s, ir.For) and s.independent for s in choice.then)


@pytest.mark.slow
def test_random_places() -> None:
    """Sums, choices and remainders put together at random."""
    rng = np.random.default_rng(11)

    def place(depth: int) -> str:
        if depth == 0:
            return str(rng.choice(["i", "i", "i + c", "n - 1 - i", "c - i", "i - 2 * c"]))
        a, b = place(depth - 1), place(depth - 1)
        return str(
            rng.choice(
                [
                    f"(if {a} < {rng.choice(['n', 'c', '0', b])} then {a} else {a} - n)",
                    f"(if {rng.integers(0, 99)} <= {b} then {a} + c else {a})",
                    f"(if {a} == {rng.integers(0, 99)} then {b} else {a})",
                    f"(({a}) % (n + {rng.integers(1, 9)}))",
                    f"({a} + {rng.integers(-3, 3)})",
                ]
            )
        )

    names = [f"place{k}" for k in range(24)]
    head = "(c: i64) (x: [n]i64): [n]i64 =\n  tabulate n"
    text = "".join(f"entry {name} [n] {head} (\\i -> x[({place(3)}) % n] - x[({place(2)}) % n])\n" for name in names)
    core = compile_program(compile_text(text, "places.fut"), check=True)
    backend = c_backend(core)
    assert sum(bool(loops(f.body)) for f in backend.module.functions) > len(names) // 2
    for name in names:
        for n in (1, 65, 300):
            x = rng.integers(-99, 99, n)
            for c in (0, 1, -1, n - 1, 3 * n, -97):
                assert agree(core, backend, name, [n, c, x])


def test_sums_of_intervals_that_are_not_in_lanes_are_taken_apart() -> None:
    """Neighbours change places, so no interval is long: the sums that adjoints of `c` and `s` are have variables of the
    loop's own."""
    text = """
def rotated [n] (c: f64) (s: f64) (x: [n]f64) : [n]f64 =
  tabulate n (\\k -> if k >= n / 2 * 2 then x[k] else if k % 2 == 0 then c * x[k] - s * x[k + 1]
                    else s * x[k - 1] + c * x[k])
entry gradient [n] (a: f64) (x: [n]f64) : f64 =
  vjp (\\a -> let y = rotated (f64.cos a) (f64.sin a) x
             in f64.sum (map2 (*) (rotated (f64.sin a) (f64.cos a) y) (map f64.sin y))) a 1"""
    made, want = futad.compile(text, backend="c"), futad.compile(text, backend="interp")
    for n in (0, 1, 2, 31, 33, 100):
        x = np.random.default_rng(n).normal(size=n)
        assert made.gradient(0.3, x) == pytest.approx(want.gradient(0.3, x), rel=1e-12, abs=1e-13)
    source = CBackend(compile_program(made._executable.core, target=target_of("c")), target=target_of("c")).source
    sums = re.findall(r"^ *double (\w+)_s_\d+ = -?0\.0;$", source, re.M)
    assert sums and all(re.search(rf"^ *{name} \+= {name}_s_\d+;$", source, re.M) for name in sums)
