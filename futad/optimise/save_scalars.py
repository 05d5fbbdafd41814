"""Costly scalars that both sweeps of an inner loop compute are saved by the forward sweep.

The return sweep of a loop executes each iteration's statements again, on the loop variables that the forward sweep
saved. Maps of scalars in the two bodies are compared by value numbers:

    loop x for i < n do hs[i] = x; ys = map (\\x w -> ... exp (x * w) ...) x ws[i]; ...       saves es[i] = exp (x * w)
    loop ... for j < n do let i = n-1-j; x = hs[i]; map (\\x w e -> ... e ...) x ws[i] es[i]

An element saved costs a store and a load, an operation of cost `COSTLY` or more some times that.  Memory: as much as a
mapped array for each iteration and each scalar saved, at most `MOST` of them.  It is done for loops inside loops only,
where the memory is used again in every iteration of the outer loop, and the loop variables that are saved are as large.
For an outermost loop it would add to the largest arrays there are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from futad.core import ir
from futad.core.ir import Lambda, Program, Stm
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.types import I64, ZERO, Atom, Const, Prim, Var, array_of, elem_of, shape_of
from futad.legality import Legality
from futad.optimise.subst import Subst

LEGAL = Legality(
    "save-scalars",
    "a return sweep reads scalars that the forward sweep saves for it",
    worth="exponentials once: D-LSTM's gradient 14% fewer operations, for 7% more bytes",
)
SAME_ITERATIONS = LEGAL.condition(
    "as many iterations", "the return sweep wants scalars of iterations that there were none"
)
LAST_FIRST = LEGAL.condition("last iteration first", "the return sweep's index is not that of the iteration it undoes")
AT_ITERATION = LEGAL.condition(
    "saved at the iteration", "the history's row is not the value of the iteration of that number"
)
READ_AT_ITERATION = LEGAL.condition("read at the iteration", "another iteration's value is read from the history")
SAME_PLACE = LEGAL.condition("element read was written", "the element read is not the one the update wrote")
NOT_NEGATIVE = LEGAL.condition("iterations not negative", "memory for a negative number of iterations is asked for")
WIDTH_OUTSIDE = LEGAL.condition("width known outside", "the memory for all scalars is had before the loop")

COSTLY = 10
MOST = 8

Key = Any  # a value number: nested tuples
ITERATION = ("iteration",)


def save_scalars(program: Program) -> Program:
    """Let forward sweeps of inner loops save the costly scalars that return sweeps need."""
    return ir.map_bodies(program, lambda lam: _scope(lam, {}, set(), False))


def _scope(lam: Lambda, defs: dict[Var, ir.Exp], sizes: set[Atom], inside: bool) -> Lambda:
    """The scope with the loops in it rewritten; `defs`: single definitions around it; `sizes` of the arrays around it;
    `inside` a loop."""
    defs = defs | {s.pat[0]: s.exp for s in lam.stms if len(s.pat) == 1}
    sizes = sizes.union(*[shape_of(p.type) for p in lam.params])
    stms = list(lam.stms)
    changed = False
    if inside:
        for j in range(len(stms)):
            for i in range(j - 1, -1, -1):
                new = _pair(stms[i], stms[j], defs, partial(_is_size, sizes, stms[:i]))
                if new is not None:
                    LEGAL.fired()
                    before, first, second = new
                    stms[i], stms[j] = first, second
                    stms[i:i] = before
                    return _scope(Lambda(lam.params, tuple(stms), lam.result), defs, sizes, inside)
    there = sizes
    for k, s in enumerate(stms):
        loop = inside or type(s.exp) is ir.For
        kept = ir.map_scopes(s, partial(_scope, defs=defs, sizes=there, inside=loop))
        changed |= kept is not s
        stms[k] = kept
        if any(not isinstance(v.type, Prim) for v in s.pat):
            there = there.union(*[shape_of(v.type) for v in s.pat])
    return Lambda(lam.params, tuple(stms), lam.result) if changed else lam


class _Values:
    """Value numbers of one loop's body."""

    def __init__(self, loop: ir.For, iteration: set[Atom]) -> None:
        self.iteration = iteration
        self.keys: dict[Var, Key] = {}
        self.own = set(loop.body.params)
        for s in loop.body.stms:
            self.own.update(s.pat)

    def key(self, a: Atom) -> Key:
        if a in self.iteration:
            return ITERATION
        if isinstance(a, Const):
            return ("constant", a.type.name, repr(a.value))
        return self.keys.get(a, ("variable", a))

    def place(self, index: ir.Index) -> tuple[Key, ...] | None:
        """The keys of an index; None if it has ranges."""
        keys = tuple([self.key(i) for i in index if type(i) is not Range])
        return keys if len(keys) == len(index) else None

    def at(self, base: Key, index: tuple[Key, ...]) -> Key:
        """The element or row of the array at an index; an update that it does not see, or sees only, is left out."""
        while base[0] == "updated":
            _, array, place, value = base
            if SAME_PLACE(index[: len(place)] == place):
                index = index[len(place) :]
                if not index:
                    return value
                base = value
            else:
                return ("at", base, index)
        if base[0] == "at":
            return ("at", base[1], (*base[2], *index))
        return ("at", base, index)

    def note(self, s: Stm, saved: dict[Var, Key]) -> None:
        """Number what the statement binds; `saved`: histories, and what is in them at this iteration."""
        e = s.exp
        v = s.pat[0] if s.pat else None
        if v is None:
            return
        match e:
            case ir.Op(op, args):
                self.keys[v] = ("op", op, *[self.key(a) for a in args])
            case ir.Alias(a) | ir.Copy(a):
                self.keys[v] = self.key(a)
            case ir.At(a, index) if (keys := self.place(index)) is not None:
                if a in saved and READ_AT_ITERATION(keys[0] == ITERATION):
                    self.keys[v] = self.at(saved[a], keys[1:]) if keys[1:] else saved[a]
                else:
                    self.keys[v] = self.at(self.key(a), keys)
            case ir.Update(a, index, value) if (place := self.place(index)) is not None:
                self.keys[v] = ("updated", self.key(a), place, self.key(value))

    def scalars(self, s: Stm) -> dict[Key, Var]:
        """The costly scalars of a map, by value numbers."""
        e = s.exp
        assert isinstance(e, ir.Mapping)
        for a, p in zip(e.arrays, e.lam.params, strict=True):
            self.keys[p] = ("element", self.key(e.width), self.key(a))
        out: dict[Key, Var] = {}
        for t in e.lam.stms:
            if type(t.exp) is ir.Op:
                self.note(t, {})
                if OPS[t.exp.op].cost >= COSTLY and not OPS[t.exp.op].can_fail and _depends(self.keys[t.pat[0]]):
                    out.setdefault(self.keys[t.pat[0]], t.pat[0])
        return out


def _depends(key: Key) -> bool:
    """Whether the value is one of an element."""
    return type(key) is tuple and (key[:1] == ("element",) or any(_depends(k) for k in key))


def _maps(loop: ir.For) -> dict[int, ir.Mapping]:
    """The maps without scopes inside among the loop's statements, by place."""
    return {
        k: s.exp
        for k, s in enumerate(loop.body.stms)
        if isinstance(s.exp, ir.Mapping)
        and not any(t.exp.lambdas() for t in s.exp.lam.stms)
    }


def _is_size(sizes: set[Atom], before: list[Stm], a: Atom) -> bool:
    """Whether an array that is there has the size: one of `sizes`, or of what statements bind."""
    return a in sizes or any(a in shape_of(v.type) for s in before for v in s.pat)


def _pair(
    first: Stm, second: Stm, defs: dict[Var, ir.Exp], is_size: Callable[[Atom], bool]
) -> tuple[list[Stm], Stm, Stm] | None:  # fmt: skip
    """What goes before the loops, and the loops, if the second computes again what the first did; else None."""
    f, r = first.exp, second.exp
    if type(f) is not ir.For or type(r) is not ir.For or not SAME_ITERATIONS(f.bound is r.bound):
        return None
    if f.body.params[0].type is not I64 or not any(v in ir.stm_free(second) for v in first.pat):
        return None
    forward = _Values(f, {f.body.params[0]})
    made: dict[Key, tuple[int, Var]] = {}
    maps = _maps(f)
    for k, s in enumerate(f.body.stms):
        if k in maps:
            if WIDTH_OUTSIDE(maps[k].width not in forward.own):
                for key, v in forward.scalars(s).items():
                    made.setdefault(key, (k, v))
        else:
            forward.note(s, {})
    if not made:
        return None
    saved: dict[Var, Key] = {}
    for v, p, result in zip(first.pat, f.body.params[1:], f.body.result, strict=True):
        for s in f.body.stms:
            e = s.exp
            if type(e) is not ir.Update or s.pat[0] is not result or e.array is not p:
                continue
            if AT_ITERATION(e.index == (f.body.params[0],)):
                saved[v] = forward.key(e.value)
    iteration = iterations_back(r, defs)
    back = _Values(r, iteration)
    reexecuted: dict[int, list[tuple[Key, Var]]] = {}
    wanted: dict[Key, None] = {}
    maps = _maps(r)
    for k, s in enumerate(r.body.stms):
        if k in maps:
            for key, v in back.scalars(s).items():
                if key in made and len(wanted) < MOST:
                    wanted[key] = None
                    reexecuted.setdefault(k, []).append((key, v))
        else:
            back.note(s, saved)
    if not wanted:
        return None
    if NOT_NEGATIVE(is_size(f.bound)):
        return _rewritten(first, second, made, list(wanted), reexecuted, iteration, f.bound)
    iterations = Var("iterations", I64)
    before, first, second = _rewritten(first, second, made, list(wanted), reexecuted, iteration, iterations)
    return [Stm((iterations,), ir.Op("max", (f.bound, ZERO))), *before], first, second


def iterations_back(r: ir.For, defs: dict[Var, ir.Exp]) -> set[Atom]:
    """The index of the forward sweep's iteration in the return sweep's body: bound - 1 - its own iteration."""
    counter = r.body.params[0]
    out: set[Atom] = set()
    for s in r.body.stms:
        e = s.exp
        if type(e) is ir.Op and e.op == "sub" and e.args[1] is counter and type(e.args[0]) is Var:
            base, more = _plus(e.args[0], defs)
            bound, rest = _plus(r.bound, defs)
            if base is bound and LAST_FIRST(more == rest - 1):
                out.add(s.pat[0])
    return out


def _plus(a: Atom, defs: dict[Var, ir.Exp]) -> tuple[Atom, int]:
    """The integer as another one and a constant."""
    more = 0
    while type(a) is Var and type(e := defs.get(a)) is ir.Op and e.op in ("add", "sub") and type(e.args[1]) is Const:
        more += e.args[1].value if e.op == "add" else -e.args[1].value
        a = e.args[0]
    return a, more


def _rewritten(
    first: Stm, second: Stm, made: dict[Key, tuple[int, Var]], wanted: list[Key],
    reexecuted: dict[int, list[tuple[Key, Var]]], iteration: set[Atom], iterations: Atom,
) -> tuple[list[Stm], Stm, Stm]:  # fmt: skip
    f, r = first.exp, second.exp
    assert type(f) is ir.For and type(r) is ir.For
    before: list[Stm] = []
    stms = [[s] for s in f.body.stms]
    params, inits, results, finals = [], [], [], []
    history: dict[Key, Var] = {}
    for key in wanted:
        k, scalar = made[key]
        s = stms[k][0]
        e = s.exp
        assert isinstance(e, ir.Mapping)
        row = Var(scalar.name, array_of(scalar.type, e.width))
        t = array_of(row.type, iterations)
        start, now, then, final = (Var("saved", t) for _ in range(4))
        lam = Lambda(e.lam.params, e.lam.stms, (*e.lam.result, scalar))
        stms[k][0] = Stm((*s.pat, row), e.over(e.arrays, lam), s.attrs)
        stms[k].append(Stm((then,), ir.Update(now, (f.body.params[0],), row)))
        before.append(Stm((start,), ir.Scratch(elem_of(t), shape_of(t))))
        params.append(now)
        inits.append(start)
        results.append(then)
        finals.append(final)
        history[key] = final
    body = Lambda((*f.body.params, *params), tuple([s for part in stms for s in part]), (*f.body.result, *results))
    new_first = Stm((*first.pat, *finals), ir.For(f.bound, (*f.inits, *inits), body), first.attrs)
    (index,) = [a for a in iteration][:1]
    out: list[Stm] = []
    for k, s in enumerate(r.body.stms):
        if k not in reexecuted:
            out.append(s)
            continue
        e = s.exp
        assert isinstance(e, ir.Mapping)
        arrays, elements = list(e.arrays), list(e.lam.params)
        known: dict[Var, Atom] = {}
        for key, scalar in reexecuted[k]:
            row = Var("saved", array_of(scalar.type, e.width))
            out.append(Stm((row,), ir.At(history[key], (index,), None)))
            element = Var(scalar.name, scalar.type)
            arrays.append(row)
            elements.append(element)
            known[scalar] = element
        inner = Subst(known)
        kept = [t for t in e.lam.stms if t.pat[0] not in known]
        lam = Lambda(tuple(elements), tuple(inner.stms(kept)), tuple([inner.atom(a) for a in e.lam.result]))
        out.append(Stm(s.pat, e.over(tuple(arrays), lam), s.attrs))
    lam = Lambda(r.body.params, tuple(out), r.body.result)
    return before, new_first, Stm(second.pat, ir.For(r.bound, r.inits, lam), second.attrs)


__all__ = ["save_scalars", "iterations_back"]
