"""Sums in memory that are additions to it, and those that only look like one."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core.types import F64, I64
from futad.imp import ir
from futad.imp.loops.if_conversion import additions

A, B, T, X, Y = "a", "b", ir.Ref("t", F64), ir.Ref("x", F64), ir.Ref("y", F64)
J, K, ONE = ir.Ref("j", I64), ir.Ref("k", I64), ir.Num(1.0, F64)
READ = ir.Decl("x", F64, ir.Load(A, J, F64))


def total(e: ir.Expr) -> ir.Stmt:
    return ir.Decl("t", F64, ir.Scalar("add", (X, e), F64, F64))


def store(pointer: str, index: ir.Expr, value: ir.Expr, op: str | None = None) -> ir.Stmt:
    return ir.Store(pointer, index, value, op)


def inside(s: ir.Stmt) -> ir.Stmt:
    return ir.For("i", ir.num(2), [s])


SET = store(A, J, T)
ADDED = {
    "at once": [READ, total(ONE), SET],
    "another array is written before the sum": [READ, store(B, J, ONE), total(ONE), SET],
    "the array is read between": [READ, ir.Decl("y", F64, ir.Load(A, K, F64)), total(Y), SET],
    "twice": [
        READ, total(ONE), SET, ir.Decl("y", F64, ir.Load(A, J, F64)),
        ir.Decl("z", F64, ir.Scalar("add", (ONE, Y), F64, F64)), store(A, J, ir.Ref("z", F64))],
    "in a branch": [ir.If(ir.TRUE, [READ, total(ONE), SET], [])],
}  # fmt: skip
KEPT = {
    "another element is stored": [READ, total(ONE), store(A, K, T)],
    "written between": [READ, store(A, K, ONE), total(ONE), SET],
    "written by a loop between": [READ, inside(store(A, K, ONE, "add")), total(ONE), SET],
    "its place moves": [ir.Decl("j", I64, ir.ZERO, mutable=True), READ, ir.Assign("j", ir.ONE), total(ONE), SET],
    "what is added is written after the sum": [READ, total(ir.Load(B, J, F64)), store(B, J, ONE), SET],
    "what is added is assigned after the sum": [
        ir.Decl("y", F64, ONE, mutable=True), READ, total(Y), ir.Assign("y", X), SET],
    "the old value is used": [READ, total(X), SET],
    "the sum is used": [READ, total(ONE), SET, store(B, J, T)],
}  # fmt: skip


@pytest.mark.parametrize("name", [*ADDED, *KEPT])
def test_which_sums_are_additions(name: str) -> None:
    made = additions(ADDED.get(name) or KEPT[name], {A})
    line = [t for s in made for t in (s.then if isinstance(s, ir.If) else [s])]
    ops = {s.op for s in line if isinstance(s, ir.Store) and s.pointer == A}
    assert ops == ({"add"} if name in ADDED else {None})


NESTED = """
entry main [n][m] (xs: [n][m]f64) (qs: [n]f64): ([m]f64, f64) =
  #[sequential] reduce (\\(a, p) (b, q) ->
    let (a, y) = loop (a, y) = (copy a, 1) for j < m do
      let t = a[j]
      let a = loop a for k < i64.min 2 m do a with [k] = a[k] + q
      in (a with [j] = t + b[j], f64.exp (f64.sin (y * 0.3)))
    in (a, p + (q + y))) (replicate m 0, 0) (zip xs qs)
"""


@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_a_loop_adds_to_what_is_then_overwritten(backend: str) -> None:
    expected, made = futad.compile(NESTED, backend="interp"), futad.compile(NESTED, backend=backend)
    rng = np.random.default_rng(1)
    for n, m in ((0, 3), (1, 1), (21, 2), (9, 5)):
        args = rng.normal(size=(n, m)), rng.normal(size=n)
        for a, b in zip(expected.main(*args), made.main(*args), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-13)


def test_only_arrays_that_are_folded_into_are_added_to() -> None:
    made = additions([READ, total(ONE), SET], set())
    assert [s.op for s in made if isinstance(s, ir.Store)] == [None]
