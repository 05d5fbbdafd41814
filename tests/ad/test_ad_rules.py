"""Every construct x mode: duality, central differences, second order, edge cases.

`CASES` has a row (at least) per node class and, through `operators`, per scalar operation;
`test_every_construct_has_a_row` fails for a new construct without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from futad.ad.expand import expand
from futad.core import ir
from futad.core.interp import HANDLERS, Interpreter
from futad.core.node import NODES
from futad.core.types import F32, F64, I64, Atom
from futad.rewrite.simplify import simplify
from futad.testing.programs.core_derived import derived_program
from tests.support.ad_cases_all import CASES, Case
from tests.support.ad_support import Derivs, differences, directions, duality, make, nodes_of, retyped, second_order

IDS = [f"{c.name}-{i}" for i, c in enumerate(CASES)]


def rows(wanted: Callable[[Case], bool]) -> Any:
    return pytest.mark.parametrize("c", [pytest.param(c, id=i) for c, i in zip(CASES, IDS, strict=True) if wanted(c)])


@rows(lambda c: True)
def test_reverse_is_the_transpose_of_forward(c: Case) -> None:
    duality(make(c.params, c.f), c.args)


@rows(lambda c: c.once)
def test_forward_agrees_with_differences(c: Case) -> None:
    differences(make(c.params, c.f), c.args)


@pytest.mark.slow
@rows(lambda c: c.smooth)
def test_second_order(c: Case) -> None:
    second_order(make(c.params, c.f), c.args)


def _reads_bits(lam: ir.Lambda) -> bool:
    return any(
        isinstance(s.exp, ir.Op) and "bits" in s.exp.op or any(map(_reads_bits, s.exp.lambdas())) for s in lam.stms
    )


@rows(lambda c: c.smooth and not _reads_bits(make(c.params, c.f).funs["f"].body))
def test_single_precision(c: Case) -> None:
    """Duality at f32, to the same number of units in the last place."""
    args = [np.asarray(a, np.float32)[()] if np.asarray(a).dtype == np.float64 else a for a in c.args]
    duality(retyped(make(c.params, c.f), F64, F32), args, tol=1e-12 * 2**29)


@pytest.mark.slow
@rows(lambda c: True)
def test_many_directions(c: Case) -> None:
    directions(make(c.params, c.f), c.args, c.smooth)


def test_every_construct_has_a_row() -> None:
    # No derivative is taken of these.
    every = set(NODES) - {ir.Call, ir.Invert, ir.Keep, ir.Kept, ir.Part, ir.Whole}
    seen: set[type] = set()
    for c in CASES:
        seen |= nodes_of(make(c.params, c.f).funs["f"].body)
    assert every == seen


def stripmined(k: int) -> Callable[..., Sequence[Atom]]:
    def f(b, s, x, c, n):
        body = b.lambda_([("i", I64), ("x", F64)], lambda q, i, x: [q.op("add", q.op("sin", x), c)])
        return b.emit(ir.For(n, (x,), body), attrs=(("stripmine", k),))

    return f


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 7, 30])
def test_stripmined_loops(k: int, n: int) -> None:
    """The same derivative, bit for bit, as of the plain loop."""
    types, args = ["f64", "f64", "i64"], [0.3, 0.4, n]
    plain, split = make(types, stripmined(0)), make(types, stripmined(k))
    duality(split, args)
    got, want = Derivs(split).vjp(args, [1.0]), Derivs(plain).vjp(args, [1.0])
    assert got == want


@pytest.mark.parametrize("k", [1, 2, 3])
def test_stripmined_loops_run_k_plus_two_times(k: int) -> None:
    p = derived_program(make(["f64", "f64", "i64"], stripmined(k)), "f", "vjp")
    g = p.funs["f_vjp"]
    p = simplify(expand(ir.Program({"f_vjp": g})))
    saved = [0]
    runs = [0]
    interp = Interpreter(p)
    evaluate = HANDLERS[ir.Op]

    def counted(m: Any, e: Any, stm: Any, sc: Any) -> Any:
        runs[0] += e.op == "sin"
        return evaluate(m, e, stm, sc)

    def room(m: Any, e: Any, stm: Any, sc: Any) -> Any:
        out = scratch(m, e, stm, sc)
        saved[0] = max(saved[0], out[0].size)
        return out

    scratch = HANDLERS[ir.Scratch]
    HANDLERS[ir.Op], HANDLERS[ir.Scratch] = counted, room
    try:
        interp.run("f_vjp", [0.3, 0.4, 200, 1.0])
    finally:
        HANDLERS[ir.Op], HANDLERS[ir.Scratch] = evaluate, scratch
    # sin is part of the primal only: in the last execution, dead, as its derivative is a cosine.
    assert runs[0] == (k + 1) * 200
    assert saved[0] <= np.ceil(200 ** (1 / (k + 1))) + 1
