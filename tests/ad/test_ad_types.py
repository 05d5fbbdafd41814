"""The rows of the AD table at other element types and values: f16, integers of all sizes, zeros and ties, inf and NaN.

All are made from the rows themselves: a row of floats is run at another type if its operations and constants exist
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from futad.core import ir
from futad.core.node import NODES
from futad.core.scalarops import OPS
from futad.core.types import F16, F64, Const, Prim, prim
from tests.support.ad_cases_all import CASES, Case
from tests.support.ad_support import Derivs, duality, like, make, nodes_of, retyped

INTEGERS = [prim(t) for t in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")]
IDS = [f"{c.name}-{i}" for i, c in enumerate(CASES)]
every_row = pytest.mark.parametrize("c", CASES, ids=IDS)


def program(c: Case) -> ir.Program:
    return make(c.params, c.f)


def statements(lam: ir.Lambda) -> Iterator[ir.Stm]:
    for s in lam.stms:
        yield s
        for inner in s.exp.lambdas():
            yield from statements(inner)


def constants(lam: ir.Lambda) -> Iterator[Any]:
    for scope in (lam, *[inner for s in statements(lam) for inner in s.exp.lambdas()]):
        atoms = [*scope.result, *[a for s in scope.stms for a in s.exp.operands()]]
        yield from (a.value for a in atoms if isinstance(a, Const) and a.type is F64)


def exists_at(c: Case, t: Prim) -> bool:
    """Whether a row of f64 is one of integers of type `t` too: whole constants, operations that cannot fail."""
    body = program(c).funs["f"].body
    if not any(np.asarray(a).dtype == np.float64 for a in c.args) or {ir.MatMul, ir.Contraction} & nodes_of(body):
        return False
    ops = [s.exp.op for s in statements(body) if isinstance(s.exp, ir.Op)]
    floats = {s.exp.op for s in statements(body) if isinstance(s.exp, ir.Op) and any(a.type is F64 for a in s.exp.args)}
    if any(op.startswith(("to_f", "bits", "from_bits")) for op in ops) or any(op.startswith("to_") for op in floats):
        return False
    if not all(t in OPS[op].types and not OPS[op].can_fail for op in floats):
        return False
    return all(abs(x) == np.inf or float(x).is_integer() for x in constants(body))


WHOLE = [(c, i) for c, i in zip(CASES, IDS, strict=True) if exists_at(c, INTEGERS[0])]


@pytest.mark.slow
@pytest.mark.parametrize("c", [pytest.param(c, id=i) for c, i in WHOLE])
def test_integers_of_all_sizes(c: Case) -> None:
    """Exact: the adjoints of wrapping arithmetic are wrapping arithmetic."""
    rng = np.random.default_rng(3)
    base = program(c)
    for t in INTEGERS:
        info = np.iinfo(t.dtype)

        def whole(a: Any, info: Any = info, t: Prim = t) -> Any:
            if np.asarray(a).dtype != np.float64:
                return a
            return rng.integers(info.min, info.max, np.shape(a), dtype=t.dtype, endpoint=True)[()]

        duality(retyped(base, F64, t), [whole(a) for a in c.args], bits=t.bits)


def test_integers_reach_every_construct() -> None:
    seen = set().union(*[nodes_of(program(c).funs["f"].body) for c, _ in WHOLE])
    elsewhere = {ir.WithInverse, ir.Invert}  # tests/ad/test_ad_with_inverse.py, test_ad_invert.py
    every = set(NODES) - elsewhere - {ir.Call, ir.MatMul, ir.Contraction, ir.Keep, ir.Kept, ir.Part, ir.Whole}
    assert seen == every


def as_type(args: list[Any], old: Any, new: Any) -> list[Any]:
    return [np.asarray(a, new)[()] if np.asarray(a).dtype == old else a for a in args]


def of(types: type, c: Case, args: list[Any], seeds: list[Any]) -> list[np.ndarray]:
    """The floating-point adjoints of a row run in f16 or f64."""
    p = program(c) if types is np.float64 else retyped(program(c), F64, F16)
    _, xbar = Derivs(p).vjp(as_type(args, np.float16, types), as_type(seeds, np.float16, types))
    return [np.asarray(x, np.float64) for x in xbar if np.asarray(x).dtype == types]


@pytest.mark.slow
@pytest.mark.parametrize("c", [pytest.param(c, id=i) for c, i in zip(CASES, IDS, strict=True) if c.smooth])
def test_half_precision(c: Case) -> None:
    """Adjoints in f16 are those in f64, up to some units of its precision and to what changing the arguments by one
    unit makes of them."""
    args = as_type(list(c.args), np.float64, np.float16)
    d = Derivs(program(c))
    outs = [r for k, r in enumerate(d.primal(as_type(args, np.float16, np.float64))) if k not in d.skip]
    seeds = as_type([like(np.random.default_rng(0), r) for r in outs], np.float64, np.float16)
    got, want = of(np.float16, c, args, seeds), of(np.float64, c, args, seeds)
    unit = 2.0**-10
    moved = of(np.float64, c, [a * (1 + unit) if np.asarray(a).dtype == np.float16 else a for a in args], seeds)
    for g, w, m in zip(got, want, moved, strict=True):
        size = np.max(np.abs(w), initial=unit)
        assert np.max(np.abs(g - w), initial=0) <= 16 * unit * size + 16 * np.max(np.abs(m - w), initial=0)


def jacobians(c: Case, args: list[Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The derivative of every float of the results in every float of the arguments: forward, and reverse."""
    floats = [i for i, a in enumerate(args) if np.asarray(a).dtype == np.float64]
    d = Derivs(program(c), floats)
    sizes = [np.size(args[i]) for i in floats]
    columns = []
    for k in range(sum(sizes)):
        hot = np.split(np.eye(sum(sizes))[k], np.cumsum(sizes)[:-1])
        tangents = [h.reshape(np.shape(args[i]))[()] for h, i in zip(hot, floats, strict=True)]
        moved = d.jvp(args, tangents)[1]
        columns.append(np.concatenate([np.ravel(y) for y in moved if np.asarray(y).dtype.kind == "f"]))
    outs = [r for k, r in enumerate(d.primal(args)) if k not in d.skip]
    ends = [np.size(r) if np.asarray(r).dtype.kind == "f" else 0 for r in outs]
    rows = []
    for k in range(sum(ends)):
        hot = iter(np.split(np.eye(sum(ends))[k], np.cumsum(ends)[:-1]))
        seeds = []
        for r in outs:
            h = next(hot)
            seeds.append(h.reshape(np.shape(r))[()] if h.size == np.size(r) else np.zeros_like(r))
        rows.append(np.concatenate([np.ravel(x) for x in d.vjp(args, seeds)[1]]))
    return columns, rows


def with_values(c: Case, pool: list[float], seed: int) -> list[Any]:
    """The row's arguments with floats drawn from a pool."""
    rng = np.random.default_rng(seed)
    return [rng.choice(pool, np.shape(a))[()] if np.asarray(a).dtype == np.float64 else a for a in c.args]


BRANCHING = ("while_counted", "while_bounded", "while_in_map", "while_shapes")  # for ever from some values
HERE = [(c, i) for c, i in zip(CASES, IDS, strict=True) if c.name not in BRANCHING]


@pytest.mark.slow
@pytest.mark.parametrize("c", [pytest.param(c, id=i) for c, i in HERE])
def test_zeros_and_ties(c: Case) -> None:
    """At 0, 1, -1 and among equal values both modes choose the same derivative."""
    columns, rows = jacobians(c, with_values(c, [0.0, 1.0, -1.0, 2.0], 1))
    if columns and rows:
        np.testing.assert_allclose(np.array(rows), np.array(columns).T, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("c", [pytest.param(c, id=i) for c, i in HERE])
def test_infinities_and_nan(c: Case) -> None:
    """Where both modes give a number it is the same one.  (0 times infinity may make NaN of either.)"""
    columns, rows = jacobians(c, with_values(c, [0.0, 1.0, -1.0, 0.5, 3.0, np.inf, -np.inf, np.nan], 1))
    if columns and rows:
        forward, reverse = np.array(columns).T, np.array(rows)
        both = np.isfinite(forward) & np.isfinite(reverse)
        np.testing.assert_allclose(reverse[both], forward[both], rtol=1e-9, atol=1e-9)
