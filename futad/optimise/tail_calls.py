"""A function that calls itself only as the last thing it does is a loop.

    f x = if c x then b x else f (g x)      -->      f x = b (loop y = x while not (c y) do g y)

The loop's body is the function's, up to the call, whose arguments are the loop's next values; where the function would
return it ends.  What is returned is computed after the loop, of its last values; what led to it is computed there once
more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.callgraph import components
from futad.core.calls import calls, reached
from futad.core.ir import Fun, Lambda, Program, Stm
from futad.core.types import BOOL, Atom, Const, Var, shape_of, subst_type
from futad.legality import Legality

LEGAL = Legality(
    "tail-calls",
    "a function that calls itself as the last thing it does is a loop",
    worth="none: it runs on devices, and takes the memory of one call however deep it is",
)
LAST = LEGAL.condition("nothing after the call", "what is done with the call's result would be left out")
KEEPS = LEGAL.condition("nothing consumed before", "what is returned would be computed of an array that is overwritten")
SILENT = LEGAL.condition("nothing printed before", "what the last iteration prints or tells would be there twice")

GOES, ENDS = Const(BOOL, True), Const(BOOL, False)


def tail_calls(program: Program) -> Program:
    """The program with such functions as loops; the same one if there are none."""
    funs = dict(program.funs)
    for group in components(program):
        if group.cyclic and len(group) == 1:
            f = program.funs[group[0]]
            funs[f.name] = _loop(program, f) or f
    changed = any(funs[n] is not f for n, f in program.funs.items())
    return Program(funs, program.name) if changed else program


@dataclass(slots=True)
class _Tail:
    """How a scope ends: after `stms` with the function's `call`, with the result of `lam`, or in one of two ways."""

    stms: tuple[Stm, ...]
    lam: Lambda
    call: ir.Call | None = None
    branch: Stm | None = None
    sides: tuple[_Tail, ...] = ()

    @property
    def calls(self) -> bool:
        return self.call is not None or any(s.calls for s in self.sides)

    @property
    def returns(self) -> bool:
        return self.call is None and (not self.sides or any(s.returns for s in self.sides))


def _tail(lam: Lambda, name: str) -> _Tail | None:
    """How a scope of the function ends; None if it calls the function otherwise."""
    if not calls(lam)[name]:
        return _Tail(lam.stms, lam)
    before, last = lam.stms[:-1], lam.stms[-1]
    if not LAST(lam.result == last.pat and not calls(Lambda((), before, ()))[name]):
        return None
    e = last.exp
    if isinstance(e, ir.Call):
        return _Tail(before, lam, e)
    if not isinstance(e, ir.If):
        return None
    sides = [_tail(side, name) for side in (e.then, e.orelse)]
    made = tuple([s for s in sides if s is not None])
    return _Tail(before, lam, branch=last, sides=made) if len(made) == 2 else None


def _loop(program: Program, f: Fun) -> Fun | None:
    tail = _tail(f.body, f.name)
    if tail is None or not tail.returns or not all(_again(program, s) for s in _leading(tail)):
        return None
    params = f.body.params
    carried = changing(params, [e.args for e in _calls(tail)])
    kept = [p for p in params if p in carried]
    # The loop.
    r = ir.Renamer({p: p for p in params if p not in carried})
    go = Var("go", BOOL)
    inner = tuple([r.bind(p) for p in kept])
    body = _body(tail, params, kept, r)
    mapping: dict[Var, Atom] = {}
    out: list[Var] = []
    for p in kept:
        out.append(Var(p.name, subst_type(p.type, mapping)))
        mapping[p] = out[-1]
    loop = ir.While((GOES, *kept), Lambda((go, *inner), *body))
    pat = (Var("go", BOOL), *out)
    # What is returned, of its last values.
    after = ir.Renamer({**{p: p for p in params}, **mapping})
    stms, result = _returned(tail, after)
    LEGAL.fired()
    attrs = (("place", f.span),) if f.span is not None else ()
    new = Lambda(params, (Stm(pat, loop, attrs), *stms), result)
    return Fun(f.name, new, f.num_sizes, f.ret, f.entry, f.attrs, f.span)


def _leading(t: _Tail) -> Iterable[Stm]:
    """The statements that are executed in the loop, and after it again."""
    if t.calls and t.returns:
        yield from t.stms
    for side in t.sides:
        yield from _leading(side)


def _again(program: Program, s: Stm) -> bool:
    """Whether a statement may be executed once more."""
    inside = [s, *ir.statements(x for lam in s.exp.lambdas() for x in lam.stms)]
    if not KEEPS(not any(x.exp.consumes() for x in inside)):
        return False
    called = reached(program, [x.exp.name for x in inside if isinstance(x.exp, ir.Call)])
    tells = (ir.Trace, ir.Measure)
    return SILENT(not any(program.funs[n].body.has(*tells) for n in called) and (
        isinstance(s.exp, tells) or not any(isinstance(x.exp, tells) for x in inside)
    ))


def _calls(t: _Tail) -> Iterable[ir.Call]:
    if t.call is not None:
        yield t.call
    for side in t.sides:
        yield from _calls(side)


def changing(params: Sequence[Var], args: Sequence[ir.Atoms]) -> set[Var]:
    """The parameters that are not the same in all calls, and those whose sizes are not."""
    out = {p for k, p in enumerate(params) if any(a[k] is not p for a in args)}
    while more := {p for p in params if p not in out and not out.isdisjoint(shape_of(p.type))}:
        out |= more
    return out


def _body(
    t: _Tail, params: Sequence[Var], kept: Sequence[Var], r: ir.Renamer
) -> tuple[tuple[Stm, ...], tuple[Atom, ...]]:
    """The statements of an iteration, and whether there is another with which values."""
    if not t.calls:
        return (), (ENDS, *[r.atom(p) for p in kept])
    stms = r.stms(t.stms)
    if t.call is not None:
        given = dict(zip(params, t.call.args, strict=True))
        return tuple(stms), (GOES, *[r.atom(given[p]) for p in kept])
    assert t.branch is not None and isinstance(t.branch.exp, ir.If)
    sides = [Lambda((), *_body(side, params, kept, r)) for side in t.sides]
    mapping: dict[Var, Atom] = {p: r.atom(p) for p in params if p not in kept}
    pat = [Var("go", BOOL)]
    for p in kept:
        pat.append(Var(p.name, subst_type(p.type, mapping)))
        mapping[p] = pat[-1]
    branch = ir.If(r.atom(t.branch.exp.cond), sides[0], sides[1])
    return (*stms, Stm(tuple(pat), branch, t.branch.attrs)), tuple(pat)


def _returned(t: _Tail, r: ir.Renamer) -> tuple[tuple[Stm, ...], tuple[Atom, ...]]:
    """The statements that compute the result where the function returns."""
    if not t.calls:
        return tuple(r.stms(t.stms)), tuple([r.atom(a) for a in t.lam.result])
    stms = r.stms([s for s in t.stms if s.pat or not s.exp.effect])
    ends = [side for side in t.sides if side.returns]
    if len(ends) == 1:
        inner, result = _returned(ends[0], r)
        return (*stms, *inner), result
    assert t.branch is not None and isinstance(t.branch.exp, ir.If)
    then, orelse = [Lambda((), *_returned(side, r)) for side in t.sides]
    branch = Stm((), ir.If(r.atom(t.branch.exp.cond), then, orelse), t.branch.attrs)
    branch.pat = tuple([r.bind(v) for v in t.branch.pat])
    return (*stms, branch), branch.pat


__all__ = ["changing", "tail_calls"]
