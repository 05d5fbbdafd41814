"""`ir.Measure`: numbers of a run, on all backends, as often as they are told, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from futad import checks
from futad.ad.emit import reexecution
from futad.api.program import Program
from futad.core import ir
from futad.core.builder import Builder
from futad.core.check import check_program
from futad.core.measures import MEMORY, WRITTEN, Measured
from futad.core.parse import parse_program
from futad.core.text import program_text
from futad.core.types import F64, I64, ZERO, ArrayType, Atom, Var, i64
from futad.errors import InternalError, Span
from futad.pipeline import compile_program
from futad.target import TARGETS
from tests.support.slow import slow_but

BACKENDS = ("interp", "c", "multicore", "emulated")
PLACE = Span("sim.fut", 31, 3, 33, 8)
FACTS = (("place", PLACE), ("way", "rerun"), ("state", "u"), ("why", None))


def numbers(prog: Program) -> list[Measured]:
    """What the statements of a program told in the last call."""
    return [m for m in prog.executor().measured() if not {MEMORY, WRITTEN} & m.most.keys()]


def entry(*params: tuple[str, str]) -> ir.Entry:
    types = {"i64": ir.EntryType("scalar", "i64", I64), "[]f64": ir.EntryType("array", "[]f64", F64, (None,))}
    return ir.Entry("main", tuple([(name, types[t]) for name, t in params]), types["i64"])


def measure(b: Builder, *values: Atom, facts: tuple[Any, ...] = FACTS) -> None:
    names = tuple(["iterations", "held", "runs"][: len(values)])
    b.add(ir.Stm((), ir.Measure(facts, names, values)))


def program(build: Callable[[Builder, Var], Atom]) -> ir.Program:
    """The program of one number."""
    b, n = Builder(), Var("n", I64)
    result = build(b, n)
    body = ir.Lambda((n,), tuple(b.stms), (result,))
    return ir.Program({"main": ir.Fun("main", body, 0, (Var("r", I64),), entry(("n", "i64")))})


def once(b: Builder, n: Var) -> Atom:
    measure(b, n, b.op("add", n, i64(7)))
    return b.op("mul", n, n)


def in_loop(b: Builder, n: Var) -> Atom:
    def step(q: Builder, i: Atom, s: Atom) -> list[Atom]:
        measure(q, i, s)
        return [q.op("add", s, i)]

    body = b.lambda_([("i", I64), ("s", I64)], step)
    return b.let(ir.For(n, (ZERO,), body), "s")


def in_branch(b: Builder, n: Var) -> Atom:
    def side(facts: tuple[Any, ...]) -> ir.Lambda:
        def f(q: Builder) -> list[Atom]:
            measure(q, n, facts=facts)
            return [q.op("add", n, i64(len(facts)))]

        return b.lambda_([], f)

    small = b.op("lt", n, i64(5))
    return b.let(ir.If(small, side(FACTS), side((*FACTS, ("other", 1)))), "r")


def in_map(b: Builder, n: Var) -> Atom:
    def point(q: Builder, x: Atom) -> list[Atom]:
        measure(q, x, q.op("mul", x, x))
        return [q.op("add", x, n)]

    xs = b.let(ir.Iota(n, ZERO, i64(1)), "xs")
    ys = b.let(ir.Map(n, (xs,), b.lambda_([("x", I64)], point)), "ys")
    return b.let(ir.Reduce(n, (ys,), b.lambda_([("a", I64), ("c", I64)], lambda q, a, c: [q.op("add", a, c)]), (ZERO,)))


def in_irregular_map(b: Builder, n: Var) -> Atom:
    """The interpreter tries the iterations together first, and then one by one."""

    def point(q: Builder, x: Atom) -> list[Atom]:
        measure(q, x, x)
        rows = q.let(ir.Iota(x, ZERO, i64(1)), "rows")
        plus = q.lambda_([("a", I64), ("c", I64)], lambda r, a, c: [r.op("add", a, c)])
        return [q.let(ir.Reduce(x, (rows,), plus, (ZERO,)), "t")]

    xs = b.let(ir.Iota(n, ZERO, i64(1)), "xs")
    ys = b.let(ir.Map(n, (xs,), b.lambda_([("x", I64)], point)), "ys")
    return b.let(ir.Reduce(n, (ys,), b.lambda_([("a", I64), ("c", I64)], lambda q, a, c: [q.op("add", a, c)]), (ZERO,)))


def twice(b: Builder, n: Var) -> Atom:
    """Two alike: each is told; nothing needs the second's operand."""
    measure(b, n)
    measure(b, n)
    return n


def told(times: int, **numbers: tuple[int, int]) -> Measured:
    return Measured(FACTS, times, {k: s for k, (s, _) in numbers.items()}, {k: m for k, (_, m) in numbers.items()})


CASES: dict[str, tuple[Callable[[Builder, Var], Atom], int, int, list[Measured]]] = {
    "once": (once, 6, 36, [told(1, iterations=(6, 6), held=(13, 13))]),
    "in_loop": (in_loop, 5, 10, [told(5, iterations=(10, 4), held=(10, 6))]),
    "no_iteration": (in_loop, 0, 0, []),
    "in_branch": (in_branch, 3, 7, [told(1, iterations=(3, 3))]),
    "in_map": (in_map, 1000, 1499500, [told(1000, iterations=(499500, 999), held=(332833500, 998001))]),
    "in_irregular_map": (in_irregular_map, 5, 10, [told(5, iterations=(10, 4), held=(10, 4))]),
    "twice": (twice, 4, 4, [told(2, iterations=(8, 4))]),
}


FAST = [*product(CASES, ["interp"]), ("in_loop", "c"), ("in_map", "multicore"), ("twice", "emulated")]


@pytest.mark.parametrize(("name", "backend"), slow_but(FAST, product(CASES, BACKENDS)))
def test_numbers_are_told(name: str, backend: str) -> None:
    build, n, result, want = CASES[name]
    with checks.also(checks.IR):
        made = Program(program(build), backend=backend)
        for _ in range(3):  # of the last call alone; on a device the third one is replayed
            assert made.main(n) == result
            assert numbers(made) == want
    assert made.main(1) == made.main(1)
    assert numbers(made) != want or not want


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_passes_keep_what_is_told(target: Any) -> None:
    for build, *_ in CASES.values():
        p = compile_program(program(build), target=target, check=True)
        count = sum(type(s.exp) is ir.Measure for f in p.funs.values() for s in ir.statements(f.body.stms))
        want = sum(type(s.exp) is ir.Measure for f in program(build).funs.values() for s in ir.statements(f.body.stms))
        assert count == want


def test_text_round_trips() -> None:
    made = program(once)
    again = parse_program(program_text(made))
    (one,), (other,) = [[s.exp for s in p.funs["main"].body.stms if type(s.exp) is ir.Measure] for p in (made, again)]
    assert (one.facts, one.names) == (other.facts, other.names) == (FACTS, ("iterations", "held"))
    assert Program(again, backend="interp").main(6) == 36


def test_wrong_measures_do_not_check() -> None:
    def wrong(b: Builder, n: Var) -> Atom:
        b.add(ir.Stm((), ir.Measure(FACTS, ("a", "b"), (n,))))
        return n

    with pytest.raises(InternalError, match="with a name each"):
        check_program(program(wrong))


def test_not_told_again_by_the_return_sweep() -> None:
    b, n = Builder(), Var("n", I64)
    r = once(b, n)
    assert any(type(s.exp) is ir.Measure for s in b.stms)
    again = reexecution(ir.Lambda((n,), tuple(b.stms), (r,)))
    assert not any(type(s.exp) is ir.Measure for s in again.stms)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_tell_once(kind: str, backend: str) -> None:
    b, xs, m = Builder(), Var("xs", ArrayType(F64, (i64(3),))), i64(3)

    def f(q: Builder, x: Atom) -> list[Atom]:
        measure(q, m)
        return [q.let(ir.Map(m, (x,), q.lambda_([("y", F64)], lambda r, y: [r.op("mul", y, y)])), "sq")]

    lam = b.lambda_([("x", xs.type)], f)
    node = ir.Jvp(lam, (xs,), (xs,)) if kind == "jvp" else ir.Vjp(lam, (xs,), (xs,))
    _, d = _pair(b, node, xs)
    body = ir.Lambda((xs,), tuple(b.stms), (d,))
    t = ir.EntryType("array", "[3]f64", F64, (3,))
    p = ir.Program({"main": ir.Fun("main", body, 0, (Var("r", xs.type),), ir.Entry("main", (("xs", t),), t))})
    made = Program(p, backend=backend)
    np.testing.assert_array_equal(made.main(np.array([1.0, 2.0, 3.0])), [2.0, 8.0, 18.0])
    assert numbers(made) == [told(1, iterations=(3, 3))]


def _pair(b: Builder, e: ir.Exp, like: Var) -> tuple[Var, Var]:
    pat = (Var("y", like.type), Var("d", like.type))
    b.add(ir.Stm(pat, e))
    return pat
