"""Bounds checks are dropped only where no index can be out of range: random index arithmetic, run on many sizes."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.builder import Builder
from futad.core.interp import Interpreter
from futad.core.types import BOOL, F64, I64, ArrayType, Atom, Const, Var, i64
from futad.errors import DivisionByZero, ExecutionError, Span
from futad.rewrite.simplify import simplify
from tests.support.optimise_support import passes

SPAN = Span("t.fut", 1, 1, 1, 2)


def expression(rng: random.Random, b: Builder, leaves: list[Atom], depth: int) -> Atom:
    """Random i64 arithmetic over the leaves."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*leaves, i64(rng.randint(-1, 2))])

    def sub() -> Atom:
        return expression(rng, b, leaves, depth - 1)

    op = rng.choice(["add", "sub", "sub", "mul", "min", "max", "mod", "div", "select"])
    if op == "select":
        test = b.op(rng.choice(["lt", "le", "eq"]), sub(), sub())
        return b.op("select", test, sub(), sub())
    return b.op(op, sub(), sub())


def condition(rng: random.Random, b: Builder, leaves: list[Atom]) -> Atom:
    def one() -> Atom:
        return b.op(rng.choice(["lt", "le", "eq", "ne"]), expression(rng, b, leaves, 1), expression(rng, b, leaves, 1))

    c: Atom = one()
    if rng.random() < 0.5:
        c = b.op(rng.choice(["and", "or"]), c, one())
    return b.op("not", c) if rng.random() < 0.3 else c


def program(seed: int) -> ir.Program:
    """for i < n: for j < m: if some condition: read xs at some index, in an array of some size."""
    rng = random.Random(seed)
    n, m, k = Var("n", I64), Var("m", I64), Var("k", I64)
    size: Atom = n
    xs, zs = Var("xs", ArrayType(F64, (n,))), Var("zs", ArrayType(F64, (n, m)))
    b = Builder()
    array: Atom = xs
    if rng.random() < 0.4:
        size = b.op("mul", n, m)
        array = b.let(ir.Reshape(zs, (size,)), "flat")

    def inner(c: Builder, j: Var, s: Var) -> list[Atom]:
        leaves: list[Atom] = [outer[0], j, n, m, k]

        def read(d: Builder) -> list[Atom]:
            index = expression(rng, d, leaves, rng.randint(1, 3))
            e = d.let(ir.At(array, (index,), SPAN), "e")
            return [d.op("add", s, e)]

        if rng.random() < 0.5:
            return read(c)
        test = condition(rng, c, leaves)
        return list(c.emit(ir.If(test, c.body(read), c.body(lambda d: [s])), "s"))

    outer: list[Var] = []

    def iteration(c: Builder, i: Var, s: Var) -> list[Atom]:
        outer.append(i)
        return [c.let(ir.For(m, (s,), c.lambda_([("j", I64), ("s", F64)], inner)), "s")]

    total = b.let(ir.For(n, (Const(F64, 0.0),), b.lambda_([("i", I64), ("s", F64)], iteration)), "s")
    body = ir.Lambda((n, m, k, xs, zs), tuple(b.stms), (total,))
    return ir.Program({"main": ir.Fun("main", body, 2, (Var("r", F64),))})


def outcome(p: ir.Program, n: int, m: int, k: int) -> object:
    try:
        xs, zs = np.arange(1.0, n + 1), np.arange(1.0, n * m + 1).reshape(n, m)
        return Interpreter(p, batched=False).run("main", [n, m, k, xs, zs])[0]
    except ExecutionError as e:  # a bounds error, or a division by zero
        return type(e)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_no_check_is_dropped_that_could_fail(block):
    dropped = 0
    for seed in range(100 * block, 100 * block + 100):
        p = program(seed)
        q = passes(p, simplify)
        if "t.fut" in repr(q):
            continue
        dropped += 1
        for n, m, k in itertools.product((1, 2, 3), (1, 2, 3), (-2, 0, 1, 4)):
            a, b = outcome(p, n, m, k), outcome(q, n, m, k)
            # A division by zero whose result the simplifier shows to be unneeded goes with it.
            assert a is DivisionByZero or a == b, f"seed {seed}, n={n} m={m} k={k}: {a} and {b}\n{p}\n{q}"
    assert dropped >= 10


@pytest.mark.slow
def test_comparisons_are_decided_only_if_always_so():
    """Comparisons of random arithmetic keep their value."""
    for seed in range(80):
        rng = random.Random(seed)
        n, k = Var("n", I64), Var("k", I64)
        b = Builder()

        def iteration(c: Builder, i: Var, s: Var, rng: random.Random = rng, n: Var = n, k: Var = k) -> list[Atom]:
            x, y = (expression(rng, c, [i, n, k], 2) for _ in range(2))
            test = c.op(rng.choice(["lt", "le", "eq", "ne"]), x, y)
            return [c.op("ne", s, test)]

        parity = b.let(ir.For(n, (Const(BOOL, False),), b.lambda_([("i", I64), ("s", BOOL)], iteration)), "s")
        xs = Var("xs", ArrayType(F64, (n,)))
        p = ir.Program({"main": ir.Fun("main", ir.Lambda((n, k, xs), tuple(b.stms), (parity,)), 1, (Var("r", BOOL),))})
        q = passes(p, simplify)
        for size, value in itertools.product((0, 1, 2, 3), (-3, -1, 0, 2, 5)):
            args = [size, value, np.zeros(size)]
            try:
                want = Interpreter(p).run("main", args)[0]
            except ExecutionError:
                continue
            assert Interpreter(q).run("main", args)[0] == want, f"seed {seed}\n{p}\n{q}"


@pytest.mark.parametrize(
    "condition, index, given",
    [
        ("i >= 0 && i + 1 <= n", "i", 2**63 - 1),
        ("i >= 0 && i + 5 < n", "i + 5", 2**63 - 3),
        ("i >= 0 && i * 2 < n", "i * 2", 2**62 + 1),
        ("i < n && i - 1 >= 0", "i", -(2**63)),
    ],
)
def test_conditions_on_sums_that_wrap(condition, index, given):
    """A sum beyond 64 bits passes the condition, but its terms are no index."""
    parts = condition.split(" && ")
    tests, ends = " ".join(f"if {c} then (" for c in parts), " ".join(") else 0" for _ in parts)
    text = f"""entry flat [n] (xs: [n]f64) (i: i64) : f64 = if {condition} then xs[{index}] else 0
entry nested [n] (xs: [n]f64) (i: i64) : f64 = {tests} xs[{index}] {ends}
entry told [n] (xs: [n]f64) (i: i64) : f64 = assert ({condition}) xs[{index}]"""
    program = futad.compile(text, backend="interp")
    for entry in program:
        with pytest.raises(futad.errors.BoundsError):
            program[entry](np.ones(3), given)


SIZES_INSIDE = {
    "for": "loop s = 0 for i < k do s + i64.sum (map (+ i) (iota m))",
    "while": "(loop (s, i) = (0, 0) while i < k do (s + i64.sum (map (+ i) (iota m)), i + 1)).0",
    "map": "i64.sum (map (\\i -> i64.product (map (+ i) (iota m))) (iota k))",
    "reduce": "reduce (\\x y -> x + i64.product (map (+ y) (iota m))) 0 (iota k)",
    "branch": "if k > 0 then i64.sum (map (+ k) (iota m)) else 0",
}


@pytest.mark.parametrize("scope", SIZES_INSIDE)
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_a_size_in_a_scope_that_is_not_run_may_be_negative(scope: str, backend: str) -> None:
    source = f"entry f (k: i64) (m: i64): i64 = let s = {SIZES_INSIDE[scope]} in if m < 0 then s - 7 else s + 7"
    f = futad.compile(source, backend=backend).f
    assert f(0, -3) == -7
    assert f(0, 3) == 7
    with pytest.raises(ExecutionError):
        f(2, -3)


def test_a_sum_with_a_size_in_a_scope_may_wrap_outside() -> None:
    source = """
      entry f (k: i64) (m: i64): i64 =
        let s = loop s = 0 for i < k do s + i64.sum (map (\\j -> if m + 5 > j then i else 2) (iota m))
        in if m + 5 < 3 then (if m < 0 then s - 7 else s) else s + 7
    """
    f = futad.compile(source, backend="interp").f
    assert f(0, 2**63 - 2) == 0
    assert f(0, -4) == -7
    assert f(0, 1) == 7
