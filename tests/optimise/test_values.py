"""Value numbers of sums of integers: equal ones are equal values, whatever the order of the sums."""

from __future__ import annotations

import random

import pytest

from futad.core import ir
from futad.core.ir import Stm
from futad.core.types import I32, I64, Const, Prim, Var
from futad.optimise.values import Table, Values


def wrapped(t: Prim, x: int) -> int:
    half = 1 << (8 * t.bytes - 1)
    return (x + half) % (2 * half) - half


@pytest.mark.parametrize("t", [I32, I64])
def test_equal_numbers_are_equal_values(t: Prim) -> None:
    """Random chains of sums and differences, also such that wrap; numbers agree with values at three random points."""
    rng = random.Random(0)
    half = 1 << (8 * t.bytes - 1)
    met = 0
    for _ in range(60):
        inputs = [Var("x", t) for _ in range(2)]
        points = [{v: rng.randrange(-half, half) for v in inputs} for _ in range(3)]
        values, pool, at = Values(Table()), list(inputs), {v: [p[v] for p in points] for v in inputs}
        for _ in range(25):
            constant = Const(t, rng.choice([0, 1, 2, -1, half - 1, -half]))
            a, b = rng.choice(pool), rng.choice([*pool, constant])
            op, v = rng.choice(["add", "sub"]), Var("s", t)
            sign = 1 if op == "add" else -1
            right = at[b] if isinstance(b, Var) else [b.value] * 3
            at[v] = [wrapped(t, x + sign * y) for x, y in zip(at[a], right, strict=True)]
            values.note(Stm((v,), ir.Op(op, (a, b))))
            pool.append(v)
        for v in pool:
            for w in pool:
                assert (values.atom(v) == values.atom(w)) == (at[v] == at[w])
                met += v is not w and at[v] == at[w]
    assert met > 100


def test_the_last_iteration_first() -> None:
    """Of a loop that counts up, `last + 1 - counter` is one more than the number of the iteration that it undoes."""
    values = Values(Table())
    counter, iteration, after, next_ = (Var(name, I64) for name in ("j", "i", "after", "next"))
    values.backwards(counter, iteration, Const(I64, 69))
    values.note(Stm((iteration,), ir.Op("sub", (Const(I64, 69), counter))))
    values.note(Stm((after,), ir.Op("sub", (Const(I64, 70), counter))))
    values.note(Stm((next_,), ir.Op("add", (iteration, Const(I64, 1)))))
    assert values.atom(iteration) == values.iteration and values.atom(after) == values.atom(next_)
    assert values.atom(after) != values.atom(iteration)
