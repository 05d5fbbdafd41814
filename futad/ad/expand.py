"""Differentiation as a transformation of the core IR.

`expand(program)` removes every `Jvp`, `Vjp`, `WithVjp` and `WithInverse` node.  `forward.py` and `reverse.py` have the
state of each mode; the rules are one record per construct, both modes side by side, in `rules/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import futad.ad.rules  # noqa: F401  (fills the table)
from futad.ad.calls import Derived
from futad.ad.directions.unroll import unrolled
from futad.ad.directions.widen import CannotWiden, all_directions
from futad.ad.forward import expand_jvp
from futad.ad.history.final import prepared, without_notes
from futad.ad.inverse.lost_bits import Functions
from futad.ad.kept import NO_REVERSE, ONE_DIRECTION
from futad.ad.registry import using
from futad.ad.reverse import How, SplitSweeps, expand_vjp
from futad.ad.rules import custom
from futad.ad.shifts import unmarked, without_shifts
from futad.ad.spine.machine import flatten
from futad.ad.tidy.fold_loops import folds_as_loops
from futad.ad.tidy.live import live
from futad.ad.tidy.opened import opened
from futad.ad.tidy.protect import protect, protect_scope
from futad.ad.tidy.unfuse import unfuse
from futad.core import ir
from futad.core.budget import Budget
from futad.core.builder import Builder
from futad.core.callgraph import components
from futad.core.calls import calls, reached
from futad.core.types import Atom, Const, Var, elem_of, row_type


def _one(
    b: Builder, e: ir.Jvp | ir.Vjp, lam: ir.Lambda, directions: ir.Atoms, how: How, split: SplitSweeps | None = None
) -> tuple[list[Atom], list[Atom]]:
    lam = ir.Lambda(lam.params, tuple(opened(lam.stms)), lam.result)
    if isinstance(e, ir.Jvp):
        return expand_jvp(b, ir.Jvp(without_shifts(lam), e.args, directions))
    if how.budget is not None and how.budget.limits and how.budget.nest:
        lam = flatten(lam)
    if how.sequential:
        lam = folds_as_loops(lam)
    lam = without_shifts(prepared(lam))
    if how.budget is not None:
        how = replace(how, loops=max(1, _keeping(lam)))
    out = expand_vjp(b, ir.Vjp(lam, e.args, directions), how, split)
    b.stms[:] = without_notes(b.stms)
    return out


def _keeping(lam: ir.Lambda) -> int:
    """How many loops may keep states: those of other numbers than integers."""
    loops = [s.exp for s in ir.statements(lam.stms) if isinstance(s.exp, ir.Loop)]
    return sum(any(elem_of(x.type).is_float for x in e.variables) for e in loops)


def _many(
    e: ir.Jvp | ir.Vjp, lam: ir.Lambda, unroll: bool, how: How
) -> tuple[Builder, list[Atom], list[Atom]]:
    """Many directions: widened code if possible, else a map over the code of one."""
    (d,) = e.many
    directions = e.tangents if isinstance(e, ir.Jvp) else e.adjoints
    inner = Builder()
    params = [Var("dir", row_type(x.type)) for x in directions]
    values, derivatives = _one(inner, e, lam, tuple(params), how)
    k = len(values)
    stms, _ = live(inner.stms, values + derivatives)
    code = ir.Lambda(tuple(params), tuple(stms), (*values, *derivatives))
    b = Builder()
    try:
        if unroll and isinstance(d, Const) and d.value > 0:
            out, varied = unrolled(b, d.value, code, directions)
        else:
            out, varied = all_directions(b, d, code, directions)
    except CannotWiden:
        b = Builder()
        first = b.inline(lam, e.args)
        one = ir.rename(ir.Lambda(code.params, code.stms, tuple(derivatives)))
        one = ir.Lambda(one.params, tuple(protect(live(one.stms, one.result)[0], one.result)), one.result)
        return b, list(first), list(b.emit(ir.Map(d, directions, one), "d"))
    wide = [x if f else b.let(ir.Replicate((d,), x), "rep") for x, f in zip(out[k:], varied[k:], strict=True)]
    values = out[:k]
    if any(varied[:k]):  # what functions return beside derivatives seems to depend on the direction, too
        once = b.inline(lam, e.args)
        values = [y if f else x for x, y, f in zip(values, once, varied[:k], strict=True)]
    return b, values, wide


class _Expander(ir.Renamer):
    """Rebuilds a function without `Jvp` and `Vjp`, the innermost first."""

    def __init__(self, sequential: bool, functions: Functions, keeps: bool) -> None:
        super().__init__()
        self.sequential = sequential
        self.keeps = keeps  # records of calls, where no reverse mode is around
        self.functions = functions
        self.around: Counter[type[ir.Exp]] = Counter()  # derivatives of what is being expanded
        self.many = 0  # those of them that are in many directions

    def stms(self, stms: Iterable[ir.Stm]) -> list[ir.Stm]:
        out: list[ir.Stm] = []
        for s in stms:
            if not isinstance(s.exp, ir.Derivative):
                out.append(self.stm(s))
                continue
            inside = any(isinstance(x.exp, ir.Vjp) for x in ir.statements(s.exp.lam.stms))
            many = len(s.exp.many)
            self.around[type(s.exp)] += 1
            self.many += many
            e = self.exp(s.exp)
            self.many -= many
            self.around[type(s.exp)] -= 1
            b = Builder()
            assert isinstance(e, ir.Jvp | ir.Vjp)
            lam = unfuse(e.lam)
            keeps = (
                e.lam.has(ir.Call)
                and NO_REVERSE(self.keeps and not self.around[ir.Vjp])
                and ONE_DIRECTION(not e.many and not self.many)
            )
            how = How(
                self.sequential, Budget.of(s.attrs), self.around[ir.Jvp], self.around[ir.Vjp], inside=inside,
                keeps=keeps, functions=self.functions,
            )  # fmt: skip
            if e.many:
                b, values, derivatives = _many(e, lam, ("unroll",) in s.attrs, how)
            else:
                directions = e.tangents if isinstance(e, ir.Jvp) else e.adjoints
                values, derivatives = _one(b, e, lam, directions, how)
            results = values + derivatives
            out += unmarked(protect(live(b.stms, results)[0], results, how.put_back))
            self.mapping.update(zip(s.pat, values + derivatives, strict=True))
        return out

    def lam(self, lam: ir.Lambda) -> ir.Lambda:
        params = tuple([self.bind(p) for p in lam.params])
        stms = tuple(self.stms(lam.stms))
        return ir.Lambda(params, stms, tuple([self.atom(a) for a in lam.result]))


def expand(program: ir.Program, sequential: bool = False) -> ir.Program:
    """The program without `Jvp`, `Vjp`, `WithVjp`, `WithJvp` and `WithInverse`; what they compute is spelled out.

    `sequential`: on one thread, or few; where a parallel rule takes more work than one that is not, the other is taken.

    Functions that are called (inlining comes first, so they are recursive) get derivatives of their own (`calls.py`).
    Raises UnsupportedError for an attribute of a loop without the number it takes, and for a function whose definition
    contains its own derivative.
    """
    functions = Functions(program.funs)
    again = _differentiated(program)
    put_back: dict[Var, list[Var]] = {}

    def plain(f: ir.Fun) -> ir.Fun:
        keeps = f.name not in again
        return _renamed(f, _Expander(sequential, functions, keeps)) if f.body.has(ir.Derivative) else f

    def of_function(
        b: Builder, e: ir.Jvp | ir.Vjp, directions: ir.Atoms, keeps: bool
    ) -> tuple[list[Atom], list[Atom]]:
        lam = unfuse(e.lam)
        inside = any(isinstance(x.exp, ir.Vjp) for x in ir.statements(lam.stms))
        how = How(sequential, inside=inside, keeps=keeps, functions=functions, put_back=put_back)
        return _one(b, e, lam, directions, how)

    def of_sweeps(b: Builder, e: ir.Vjp, split: SplitSweeps) -> tuple[list[Atom], list[Atom]]:
        lam = unfuse(e.lam)
        inside = any(isinstance(x.exp, ir.Vjp) for x in ir.statements(lam.stms))
        how = How(sequential, inside=inside, keeps=True, functions=functions, put_back=put_back)
        return _one(b, e, lam, (), how, split)

    def tidy(stms: list[ir.Stm], results: list[Atom]) -> list[ir.Stm]:
        return protect(live(stms, results)[0], results, put_back)

    derived = Derived(program, plain, of_function, of_sweeps, tidy)
    with using(derived):
        funs = derived.all()
    funs = functions.made | funs
    for name, f in funs.items():
        if custom.told(f.body):
            funs[name] = _renamed(f, custom.Plain())
    made = ir.Program(funs, program.name)
    if len(funs) > len(program.funs):
        made.funs = {name: funs[name] for group in components(made) for name in group}
    return made


def _differentiated(program: ir.Program) -> frozenset[str]:
    """The functions that are called where reverse mode is around, or many directions are."""
    found: set[str] = set()
    for f in program.funs.values():
        for s in ir.statements(f.body.stms):
            if isinstance(s.exp, ir.Vjp) or isinstance(s.exp, ir.Jvp) and s.exp.many:
                found.update(calls(s.exp.lam))
    return frozenset(reached(program, found))


def _renamed(f: ir.Fun, r: ir.Renamer) -> ir.Fun:
    body = protect_scope(r.lam(f.body))
    return ir.Fun(f.name, body, f.num_sizes, tuple([r.bind(v) for v in f.ret]), f.entry, f.attrs, f.span)


__all__ = ["expand"]
