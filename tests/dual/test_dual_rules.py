"""The engine on every row of the AD tables against the transformation: first and second order in all ways, many
directions, inside maps and under masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from futad.ad.expand import expand
from futad.core import ir
from futad.core.builder import Builder
from futad.core.interp import Interpreter
from futad.core.types import BOOL, I64, Var, array_of
from futad.dual.engine import DualInterpreter
from futad.testing.fuzz.oracle import equal
from futad.testing.programs.core_derived import derived_program, result_sizes
from tests.support.ad_cases_all import CASES, Case
from tests.support.ad_support import Derivs, like, make, many_program, sizes_of

NEAR = 1e-9


def each(nth: int, cases: Sequence[Case]) -> list[Any]:
    """The cases in the order of the tables, all but every n-th slow."""
    return [pytest.param(c, id=f"{c.name}-{i}", marks=[pytest.mark.slow] * (i % nth > 0)) for i, c in enumerate(cases)]


def agree(program: ir.Program, name: str, args: Sequence[Any]) -> None:
    """A function of derivatives computes by the engine what it does by the transformation, with each backpropagator
    called once at most."""
    want = Interpreter(expand(program)).run(name, list(args))
    engine = DualInterpreter(program)
    got = engine.run(name, list(args))
    assert equal(got, want, "f8") == ""
    assert engine.counts_of_run.most <= 1


class Row:
    """A row's function with its derivatives, and random values for them."""

    def __init__(self, c: Case) -> None:
        self.derivs = Derivs(make(c.params, c.f))
        self.base = self.derivs.base
        values = self.derivs.primal(c.args)
        skip = self.derivs.skip
        self.args = list(c.args)
        self.sizes = sizes_of(self.derivs.program, c.args)
        self.extra = [int(r) for i, r in enumerate(values) if i in skip]
        self.results = [r for i, r in enumerate(values) if i not in skip]
        self.rng = np.random.default_rng(3)

    def any(self, *values: Any) -> list[Any]:
        return [like(self.rng, v) for v in values]


@pytest.mark.parametrize("c", each(3, CASES))
def test_first_order(c: Case) -> None:
    r = Row(c)
    agree(r.base, "f_vjp", [*r.sizes, *r.extra, *r.args, *r.any(*r.results)])
    agree(r.base, "f_jvp", [*r.sizes, *r.args, *r.any(*r.args)])


# Sums of bools are `or`, which has no inverse: what a derivative of a derivative of bools is depends on the formula.
SECOND = [c for c in CASES if not any("bool" in p for p in c.params)]


@pytest.mark.slow
@pytest.mark.parametrize("c", each(8, SECOND))
def test_second_order(c: Case) -> None:
    r = Row(c)
    ys, xs = r.any(*r.results), r.any(*r.args)
    p = derived_program(r.base, "f_vjp", "jvp", None, "d")
    agree(p, "d", [*r.sizes, *r.extra, *r.args, *ys, *r.any(*r.args, *ys)])
    p = derived_program(r.base, "f_vjp", "vjp", None, "d")
    agree(p, "d", [*r.sizes, *r.extra, *r.extra, *r.args, *ys, *r.any(*r.results, *r.args)])
    p = derived_program(r.base, "f_jvp", "vjp", None, "d")
    agree(p, "d", [*r.sizes, *r.extra, *r.args, *xs, *r.any(*r.results, *r.results)])
    p = derived_program(r.base, "f_jvp", "jvp", None, "d")
    agree(p, "d", [*r.sizes, *r.args, *xs, *r.any(*r.args, *xs)])


@pytest.mark.parametrize("c", each(5, CASES))
@pytest.mark.parametrize("d", [0, 3])
def test_many_directions(c: Case, d: int) -> None:
    r = Row(c)
    for name, more, along in (("f_vjp", r.extra, r.results), ("f_jvp", [], r.args)):
        n = r.base.funs[name].num_sizes
        own = [*r.sizes, *more, *r.args]
        stacked = [np.stack([np.asarray(x) for x in r.any(*[v] * d)]) if d else
                   np.zeros((0, *np.shape(v)), np.asarray(v).dtype) for v in along]  # fmt: skip
        agree(many_program(r.base, name), "many", [*own[:n], d, *own[n:], *stacked])


def mapped(program: ir.Program, name: str, active: str) -> ir.Program:
    """A function that maps another one over its arguments: `all` iterations, or under `mask` those whose flag is set,
    else all results are zero."""
    fun = program.funs[name]
    copy = ir.Renamer()
    sizes = [copy.bind(p) for p in fun.body.params[: fun.num_sizes]]
    width = Var("w", I64)
    values = [copy.bind(p) for p in fun.body.params[fun.num_sizes :]]
    wide = [Var(v.name, array_of(v.type, width)) for v in values]
    flags = Var("flags", array_of(BOOL, width))
    flag = Var("flag", BOOL)
    inner = Builder()
    inner.extend(copy.stms(fun.body.stms))
    results = tuple([copy.atom(a) for a in fun.body.result])
    body = ir.Lambda((*values, flag), tuple(inner.stms), results)
    if active == "mask":
        inner = Builder()
        other = inner.body(lambda b: [b.zeros(r.type) for r in results])
        pat = tuple([Var("r", r.type) for r in results])
        inner.add(ir.Stm(pat, ir.If(flag, ir.Lambda((), body.stms, results), other)))
        body = ir.Lambda((*values, flag), tuple(inner.stms), pat)
    b = Builder()
    out = b.emit(ir.Map(width, (*wide, flags), body), "r")
    lam = ir.Lambda((*sizes, width, *wide, flags), tuple(b.stms), out)
    return ir.Program({"f": ir.Fun("f", lam, fun.num_sizes + 1, tuple([Var("r", v.type) for v in out]))})


def regular(c: Case) -> bool:
    """Whether iterations agree on all sizes: those of the results are those of the arguments."""
    fun = make(c.params, c.f).funs["f"]
    return not result_sizes(fun) and all(np.asarray(a).dtype.kind == "f" for a in c.args)


REGULAR = [c for c in CASES if regular(c)]


@pytest.mark.slow
@pytest.mark.parametrize("active", ["all", "mask"])
@pytest.mark.parametrize("c", REGULAR, ids=[f"{c.name}-{i}" for i, c in enumerate(REGULAR)])
def test_inside_maps(c: Case, active: str) -> None:
    """A derivative in each iteration of a map, of iterations of which some are left out, and the derivative of that."""
    r = Row(c)
    width, rng = 3, np.random.default_rng(4)
    flags = np.array([True, False, True])

    def wide(values: Sequence[Any]) -> list[Any]:
        return [np.stack([np.asarray(like(rng, v)) for _ in range(width)]) for v in values]

    own = [np.stack([np.asarray(a)] * width) for a in r.args]
    if active == "mask":  # what the branch would not do: all sorts of infinities
        for a in own:
            a[1] = 0
    program = mapped(r.derivs.program, "f", active)
    args = [*r.sizes, width, *own, flags]
    active_args = list(range(len(own)))
    of = derived_program(program, "f", "vjp", active_args)
    results = DualInterpreter(program).run("f", args)
    agree(of, "f_vjp", [*args, *[like(rng, x) for x in results]])
    inner = mapped(r.base, "f_vjp", active)
    args = [*r.sizes, *r.extra, width, *own, *wide(r.results), flags]
    agree(inner, "f", args)
    of = derived_program(inner, "f", "vjp", active_args)
    results = Interpreter(expand(inner)).run("f", args)
    agree(of, "f_vjp", [*args, *[like(rng, x) for x in results]])
