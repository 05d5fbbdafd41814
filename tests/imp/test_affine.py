"""Indices by how they move with a loop's variable."""

from __future__ import annotations

import pytest

from futad.core.types import I64
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Num, Ref, add, mul, num
from futad.imp.loops.affine import Affine, affine, inits_of

VAR, N, M, T, U = [Ref(name, I64) for name in "inmtu"]
LOAD = ir.Load("p", N, I64)
INITS = {"t": add(mul(VAR, num(3)), N), "u": None}


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
def test_affine(index, found):
    assert affine(index, "i", INITS) == found


def test_values_of_what_does_not_change():
    body = [ir.Decl("t", I64, N), ir.Decl("u", I64, ZERO, mutable=True), ir.Assign("u", Num(1, I64))]
    assert inits_of(body) == {"t": N, "u": None}
