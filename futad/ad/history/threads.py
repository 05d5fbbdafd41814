"""The two sweeps of a chain (`chains.py`), wherever what it saves is held.

A `Log` is some values that statements hand on, to which the forward sweep adds (`logged`); the return sweep reads what
became of them, a `History` (`Undoer`).  Branches return these values, loops have them as variables; that is here, once
for all logs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from futad.ad.emit import read_or_zero
from futad.ad.history.chains import (
    LEGAL,
    Branch,
    Element,
    Elements,
    Finder,
    Iterations,
    Scattered,
    Slot,
    Write,
    cell,
)
from futad.ad.history.stripmine import bound_of, within
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import I64, ONE, ZERO, Atom, Const, Type, Var, array_of, elem_of, i64, shape_of

Key = TypeVar("Key", bound=Hashable)
State = tuple[Atom, ...]


class Log(ABC, Generic[Key]):
    """Where the forward sweep puts what chains save: a value for each key.  `at`: the place of an iteration."""

    @abstractmethod
    def keys(self, elements: Elements) -> dict[Key, Type]:
        """What changes where these save something."""

    @abstractmethod
    def keep(self, b: Builder, now: dict[Key, Atom], el: Element, at: ir.Atoms, values: Sequence[Atom]) -> None:
        """Save the values of an element (`chains.saved`)."""

    def iteration(
        self, now: Mapping[Key, Atom], el: Iterations, at: ir.Atoms
    ) -> Callable[[Builder, Atom], ir.Atoms]:
        """The places of an inner loop's iterations."""
        return lambda b, i: (*at, i)

    def left(self, b: Builder, now: dict[Key, Atom], el: Iterations, at: ir.Atoms, count: Atom) -> None:
        """The inner loop has taken so many iterations."""


class History(ABC):
    """Where the return sweep finds what chains save.  `back`: the types of what it carries from element to element;
    `at`: the place of an iteration."""

    back: tuple[Type, ...] = ()

    @abstractmethod
    def read(self, b: Builder, el: Element, at: ir.Atoms, values: Sequence[Var], state: State) -> State:
        """Bind the values to what was saved (`chains.saved`)."""

    def iteration_back(self, b: Builder, el: Iterations, at: ir.Atoms) -> Callable[[Builder, Atom], ir.Atoms]:
        """The places of an inner loop's iterations."""
        return lambda b, i: (*at, i)


def logged(
    log: Log[Key], stms: Sequence[ir.Stm], elements: Elements, at: ir.Atoms, now: dict[Key, Atom]
) -> list[ir.Stm]:
    """The statements of the forward sweep; `now`: the log's values before, and then after them."""
    LEGAL.fired()
    todo = {el.stm.pat[0]: el for el in elements}
    b = Builder()
    for s in stms:
        el = todo.get(s.pat[0]) if s.pat else None
        e = s.exp
        match el:
            case None:
                b.add(s)
            case Write():
                assert isinstance(e, ir.Update)
                log.keep(b, now, el, at, [*el.places, b.let(ir.At(e.array, e.index, e.check), "old")])
                b.add(s)
            case Scattered():
                assert isinstance(e, ir.Scatter)
                x = e.dests[el.which]
                t = cell(x.type, len(e.idxs))
                old = b.map_(lambda c, *ix, x=x, t=t: [read_or_zero(c, x, ix, t)], *e.idxs, hint="old")[0]
                log.keep(b, now, el, at, [*el.places, old])
                b.add(s)
            case Branch():
                assert isinstance(e, ir.If)
                keys = log.keys([*el.then, *el.orelse])
                sides = []
                for lam, part in ((e.then, el.then), (e.orelse, el.orelse)):
                    mine = dict(now)
                    body = logged(log, lam.stms, part, at, mine)
                    sides.append(ir.Lambda((), tuple(body), (*lam.result, *[mine[k] for k in keys])))
                fresh = [Var("saved", t) for t in keys.values()]
                b.add(ir.Stm((*s.pat, *fresh), ir.If(e.cond, *sides), s.attrs))
                now.update(zip(keys, fresh, strict=True))
                if el.cond:
                    log.keep(b, now, el, at, [e.cond])
            case Iterations():
                _loop(b, log, s, el, at, now)
    return b.stms


def _loop(b: Builder, log: Log[Key], s: ir.Stm, el: Iterations, at: ir.Atoms, now: dict[Key, Atom]) -> None:
    loop, count = (s, s.exp.bound) if isinstance(s.exp, ir.For) else counted(s)
    e = loop.exp
    assert isinstance(e, ir.Loop)
    index = e.body.params[0] if isinstance(e, ir.For) else e.body.params[-1]
    keys = log.keys(el.body)
    params = [Var("saved", t) for t in keys.values()]
    mine = {**now, **dict(zip(keys, params, strict=True))}
    c = Builder()
    place = log.iteration(now, el, at)(c, index)
    body = logged(log, e.body.stms, el.body, place, mine)
    lam = ir.Lambda(
        (*e.body.params, *params), (*c.stms, *body), (*e.body.result, *[mine[k] for k in keys])
    )
    fresh = [Var("saved", t) for t in keys.values()]
    new: ir.Exp = e.remade((*e.inits, *[now[k] for k in keys]), lam)
    b.add(ir.Stm((*loop.pat, *fresh), new, s.attrs))
    now.update(zip(keys, fresh, strict=True))
    log.left(b, now, el, at, count)
    if el.count:
        log.keep(b, now, el, at, [count])


def counted(s: ir.Stm) -> tuple[ir.Stm, Var]:
    """The while loop with its iterations counted in one more variable, and the count; more than its bound, if it has
    one, are an error."""
    e, limit = s.exp, bound_of(s)
    assert isinstance(e, ir.While)
    iteration, count = Var("iteration", I64), Var("iterations", I64)
    b = Builder()
    if limit is not None:
        b.add(within(b.op("lt", iteration, i64(limit)), limit))
    b.extend(e.body.stms)
    result = (*e.body.result, b.op("add", iteration, ONE))
    body = ir.Lambda((*e.body.params, iteration), tuple(b.stms), result)
    return ir.Stm((*s.pat, count), ir.While((*e.inits, ZERO), body), s.attrs), count


class Undoer:
    """Emits the code that takes the updates of one iteration back.

    What it computes again (an index, a condition) the forward sweep has computed in that iteration, of the same numbers
    and in the same branch: a division fails there or not at all.
    """

    def __init__(self, finder: Finder, history: History) -> None:
        self.finder = finder
        self.history = history

    def run(
        self, b: Builder, y: Var, elements: Elements, at: ir.Atoms, env: Mapping[Var, Atom], state: State = ()
    ) -> tuple[Var, State]:
        """The array before the elements, given the one after them; and what the history carries.

        `env`: loop indices of the forward code to those of the iteration."""
        for el in reversed(elements):
            e = el.stm.exp
            match el:
                case Write():
                    assert isinstance(e, ir.Update)
                    again, old, state = self._overwritten(b, el, at, env, state)
                    index = tuple([
                        Range(*[again(x) for x in (i.start, i.count, i.stride)]) if isinstance(i, Range) else again(i)
                        for i in e.index
                    ])  # fmt: skip
                    y = b.let(ir.Update(y, index, old), y.name)
                case Scattered():
                    assert isinstance(e, ir.Scatter)
                    again, old, state = self._overwritten(b, el, at, env, state)
                    (y,) = b.emit(ir.Scatter(e.width, (y,), tuple([again(a) for a in e.idxs]), (old,)), y.name)
                case Branch():
                    assert isinstance(e, ir.If)
                    y, state = self._branch(b, y, el, e, at, env, state)
                case Iterations():
                    assert isinstance(e, ir.Loop)
                    y, state = self._iterations(b, y, el, e, at, env, state)
        return y, state

    def _overwritten(
        self, b: Builder, el: Write | Scattered, at: ir.Atoms, env: Mapping[Var, Atom], state: State
    ) -> tuple[Callable[[Atom], Atom], Var, State]:
        """What is computed again where it is, and what was overwritten."""
        places = {a: Var(a.name, k.type) for a, k in el.places.items()}
        t = el.old.type
        shape = [places.get(n, n) if isinstance(n, Var) else n for n in shape_of(t)]
        old = Var("old", array_of(elem_of(t), *shape))
        state = self.history.read(b, el, at, [*places.values(), old], state)
        return self.again(b, {**env, **places}), old, state

    def _value(self, b: Builder, el: Element, slot: Slot, at: ir.Atoms, name: str, state: State) -> tuple[Var, State]:
        v = Var(name, slot.type)
        return v, self.history.read(b, el, at, [v], state)

    def _branch(
        self, b: Builder, y: Var, el: Branch, e: ir.If, at: ir.Atoms, env: Mapping[Var, Atom], state: State
    ) -> tuple[Var, State]:
        cond: Atom
        if el.cond is None:
            cond = self.again(b, env)(e.cond)
        else:
            cond, state = self._value(b, el, el.cond, at, "cond", state)

        def side(part: Elements) -> ir.Lambda:
            return b.body(lambda c: _flat(self.run(c, y, part, at, env, state)))

        types = [y.type, *self.history.back]
        y, *after = b.emit(ir.If(cond, side(el.then), side(el.orelse)), y.name, *["log" for _ in state], types=types)
        return y, tuple(after)

    def _iterations(
        self, b: Builder, y: Var, el: Iterations, e: ir.Loop, at: ir.Atoms, env: Mapping[Var, Atom], state: State
    ) -> tuple[Var, State]:
        count: Atom
        if el.count is not None:
            count, state = self._value(b, el, el.count, at, "iterations", state)
        else:
            assert isinstance(e, ir.For)
            count = self.again(b, env)(e.bound)
        place = self.history.iteration_back(b, el, at)

        def iteration(c: Builder, j: Var, z: Var, *now: Var) -> list[Atom]:
            i = c.op("sub", c.op("sub", count, j), ONE)
            index = {e.body.params[0]: i} if isinstance(e, ir.For) else {}
            return _flat(self.run(c, z, el.body, place(c, i), {**env, **index}, now))

        body = b.lambda_([("j", I64), (y.name, y.type), *[("log", t) for t in self.history.back]], iteration)
        names = [y.name, *["log" for _ in state]]
        y, *after = b.emit(ir.For(count, (y, *state), body), *names, types=[y.type, *self.history.back])
        return y, tuple(after)

    def again(self, b: Builder, known: Mapping[Var, Atom]) -> Callable[[Atom], Atom]:
        """What computes atoms of the forward code again, of those that are known."""
        return recomputed(b, self.finder, known)


def _flat(found: tuple[Var, State]) -> list[Atom]:
    y, state = found
    return [y, *state]


def recomputed(b: Builder, finder: Finder, known: Mapping[Var, Atom]) -> Callable[[Atom], Atom]:
    """Code for atoms of a loop's body that follow from `known` ones; an element that is not there is zero."""
    done = dict(known)

    def again(a: Atom) -> Atom:
        if isinstance(a, Const):
            return a
        if a not in done:
            if a not in finder.bound:
                return a
            if a in finder.reads:
                array, index = finder.reads[a]
                done[a] = read_or_zero(b, array, tuple([again(i) for i in index]), a.type)
            else:
                d = finder.defs[a]
                done[a] = b.op(d.op, *[again(x) for x in d.args], hint=a.name, place=d.place)
        return done[a]

    return again


__all__ = ["History", "Log", "State", "Undoer", "counted", "logged", "recomputed"]
