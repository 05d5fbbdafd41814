"""Facts of loops: how indices move with the variable, what is folded, how much is computed."""

from __future__ import annotations

import pytest

from futad.core.scalarops import OPS
from futad.core.types import F64, I64
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Ref, add, mul, num
from futad.imp.loops.facts import Affine, LoopFacts, cost

VAR, N, M, T, U = [Ref(name, I64) for name in "inmtu"]
LOAD = ir.Load("p", N, I64)
DECLARED = [ir.Decl("t", I64, add(mul(VAR, num(3)), N)), ir.Decl("u", I64, ZERO, mutable=True)]


@pytest.mark.parametrize(
    ("index", "found"),
    [
        (num(7), Affine(0, 7)),
        (VAR, Affine(1, 0)),
        (N, Affine(0, 0, N)),
        (add(VAR, add(N, num(2))), Affine(1, 2, N)),
        (add(VAR, mul(N, M)), Affine(1, 0, mul(N, M))),
        (add(T, VAR), Affine(4, 0, N)),
        (mul(num(2), add(T, ONE)), Affine(6, 2, mul(N, num(2)))),
        (mul(add(VAR, ONE), num(0)), Affine(0, 0)),
        (ir.sub(N, M), Affine(0, 0, ir.sub(N, M))),
        (mul(VAR, N), None),  # the row of a matrix: no number that is known
        (mul(VAR, VAR), None),
        (mul(T, N), None),
        (ir.sub(N, VAR), None),
        (add(VAR, U), None),  # what changes may change with i
        (add(VAR, LOAD), None),  # what is in memory may change, too
        (mul(U, num(2)), None),
    ],
)
def test_places(index, found):
    facts = LoopFacts("i", DECLARED)
    assert facts.place(index) == found
    assert facts.beside(index) == (found is not None and found.scale == 1)


def test_others_may_differ_too():
    facts = LoopFacts("i", DECLARED, "n")
    assert facts.own == {"i", "t", "u", "n"} and facts.place(add(VAR, N)) is None and facts.place(T) is None
    assert facts.invariant(M) and not facts.invariant(M, N)


def test_folds_are_those_of_variables_from_outside():
    body = [*DECLARED, ir.Accumulate("u", "add", ONE), ir.Accumulate("s", "mul", T)]
    (p,) = LoopFacts("i", body).partials()
    assert (p.name, p.type, p.op, p.unit) == ("s", I64, "mul", ONE)


def test_cost_is_of_the_statements_alone():
    root = ir.Scalar("sqrt", (ir.Load("p", add(VAR, ONE), F64),), F64, F64)
    body = [ir.Store("q", VAR, ir.Scalar("add", (root, root), F64, F64))]
    assert cost(body) == 2 * (OPS["sqrt"].cost + 1) + OPS["add"].cost
    assert cost([ir.For("j", N, body)]) == 0
