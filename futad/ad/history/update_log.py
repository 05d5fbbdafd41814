"""What chains save (`chains.py`) in arrays, each a place for an iteration.

The memory is had before the loop.  How many places a run has (Note [Runs] in `chains.py`) is added up by a nest of
loops that computes nothing else, where it follows from the indices of loops and elements of arrays from outside; else
the loop is run once to count them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from futad.ad.history.chains import (
    Branch,
    Element,
    Elements,
    Finder,
    Iterations,
    Run,
    Slot,
    Write,
    own_runs,
    runs,
    saved,
    slots,
)
from futad.ad.history.threads import History, Log, State, logged, recomputed
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import I64, ONE, ZERO, ArrayType, Atom, Type, Var, shape_of

Key = Slot | Run


class Counting(Log[Key]):
    """Counts places, and saves nothing."""

    def keys(self, elements: Elements) -> dict[Key, Type]:
        return {r: r.array() for r in runs(elements)}

    def keep(self, b: Builder, now: dict[Key, Atom], el: Element, at: ir.Atoms, values: Sequence[Atom]) -> None:
        for r in own_runs(el) if isinstance(el, Write) else []:
            now[r] = b.op("add", now[r], b.size_mul(shape_of(values[-1].type)), hint="end")

    def left(self, b: Builder, now: dict[Key, Atom], el: Iterations, at: ir.Atoms, count: Atom) -> None:
        if el.run is not None:
            now[el.run] = b.op("add", now[el.run], b.op("max", count, ZERO), hint="end")


class ArrayLog(Counting):
    """Counts places, and saves in arrays."""

    def keys(self, elements: Elements) -> dict[Key, Type]:
        return {k: k.array() for k in keys_of(elements)}

    def keep(self, b: Builder, now: dict[Key, Atom], el: Element, at: ir.Atoms, values: Sequence[Atom]) -> None:
        for k, value in zip(saved(el), values, strict=True):
            index: ir.Index = at
            if k.run is not None:
                base = now[k.run]
                now[k.run.base] = b.let(ir.Update(now[k.run.base], at, base), "saved")
                n = b.size_mul(shape_of(value.type))
                index, value = (Range(base, n, ONE),), b.let(ir.Reshape(value, (n,)), "row")
            now[k] = b.let(ir.Update(now[k], index, value), "saved")
        super().keep(b, now, el, at, values)

    def iteration(
        self, now: Mapping[Key, Atom], el: Iterations, at: ir.Atoms
    ) -> Callable[[Builder, Atom], ir.Atoms]:
        return _places(at, None if el.run is None else now[el.run])

    def left(self, b: Builder, now: dict[Key, Atom], el: Iterations, at: ir.Atoms, count: Atom) -> None:
        if el.run is not None:
            now[el.run.base] = b.let(ir.Update(now[el.run.base], at, now[el.run]), "saved")
        super().left(b, now, el, at, count)


class Arrays(History):
    """The arrays of all slots and runs: `held`."""

    def __init__(self, held: Mapping[Key, Var]) -> None:
        self.held = held

    def read(self, b: Builder, el: Element, at: ir.Atoms, values: Sequence[Var], state: State) -> State:
        for k, v in zip(saved(el), values, strict=True):
            e: ir.Exp = ir.At(self.held[k], at)
            if k.run is not None:
                base = b.let(ir.At(self.held[k.run.base], at), "base")
                row = b.let(ir.At(self.held[k], (Range(base, b.size_mul(shape_of(v.type)), ONE),)), "row")
                e = ir.Reshape(row, shape_of(v.type))
            b.add(ir.Stm((v,), e))
        return state

    def iteration_back(self, b: Builder, el: Iterations, at: ir.Atoms) -> Callable[[Builder, Atom], ir.Atoms]:
        return _places(at, None if el.run is None else b.let(ir.At(self.held[el.run.base], at), "base"))


def keys_of(elements: Elements) -> list[Key]:
    """What holds what elements save: arrays, and the counters of runs."""
    return [*slots(elements), *runs(elements)]


def _places(at: ir.Atoms, base: Atom | None) -> Callable[[Builder, Atom], ir.Atoms]:
    if base is None:
        return lambda b, i: (*at, i)
    return lambda b, i: (b.op("add", base, i, hint="place"),)


def room(b: Builder, k: Key) -> Atom:
    """What a key begins with: uninitialised space for a slot."""
    t = k.array()
    return b.let(ir.Scratch(t.elem, t.shape), "saved") if isinstance(t, ArrayType) else ZERO


# --- how many places there are -------------------------------------------------------------------------------------


def totals(
    b: Builder, finder: Finder, elements: Elements, iterations: Atom,
    indices: Callable[[Builder, Atom], Mapping[Var, Atom]],
) -> None:  # fmt: skip
    """Emit code for the totals of all runs, each of a count known before the loop; `indices`: what the loop's indices
    are in an iteration."""
    found = _sums(b, iterations, lambda c, i: _totals(c, finder, elements, indices(c, i)))
    for r, total in found.items():
        b.add(ir.Stm((r.total,), ir.Alias(total)))


def _totals(b: Builder, finder: Finder, elements: Elements, env: Mapping[Var, Atom]) -> dict[Run, Atom]:
    """How many places once through the elements takes; those of a branch as if it were taken."""
    out: dict[Run, Atom] = {}
    for el in elements:
        again = recomputed(b, finder, env)
        match el:
            case Write() if el.old.run is not None and el.old.run.count is not None:
                # May be negative where a branch is not taken.
                out[el.old.run] = b.op("max", again(el.old.run.count), ZERO, hint="count")
            case Branch():
                out |= _totals(b, finder, [*el.then, *el.orelse], env)
            case Iterations() if runs([el]):
                assert isinstance(el.stm.exp, ir.For)
                index = el.stm.exp.body.params[0]
                count = b.op("max", again(el.stm.exp.bound), ZERO, hint="count")
                if el.run is not None:
                    out[el.run] = count

                def iteration(c: Builder, i: Atom, el: Iterations = el, index: Var = index) -> dict[Run, Atom]:
                    return _totals(c, finder, el.body, {**env, index: i})

                out |= _sums(b, count, iteration)
    return out


def _sums(b: Builder, count: Atom, each: Callable[[Builder, Atom], dict[Run, Atom]]) -> dict[Run, Atom]:
    """The sums over iterations; of what is the same in all of them a product."""
    i, c = Var("i", I64), Builder()
    found = each(c, i)
    used = {v for s in c.stms for v in ir.stm_free(s)} | set(found.values())
    if i not in used:
        b.extend(c.stms)
        return {r: b.op("mul", count, n, hint="total") for r, n in found.items()}
    sums = [Var("sum", I64) for _ in found]
    results = [c.op("add", s, n) for s, n in zip(sums, found.values(), strict=True)]
    body = ir.Lambda((i, *sums), tuple(c.stms), tuple(results))
    out = b.emit(ir.For(count, (ZERO,) * len(sums), body), *["total"] * len(sums))
    return dict(zip(found, out, strict=True))


def counting_updates(stm: ir.Stm, chains: Mapping[int, Elements]) -> tuple[ir.Stm, dict[int, list[Var]]]:
    """The loop, with variables that count the places of the chains' runs; by chain, their results in the order of
    `runs`."""
    e = stm.exp
    assert isinstance(e, ir.Loop)
    stms: Sequence[ir.Stm] = e.body.stms
    params = {r: Var("count", I64) for chain in chains.values() for r in runs(chain)}
    now: dict[Key, Atom] = {}
    for r, v in params.items():
        now[r] = v
    for chain in chains.values():
        stms = logged(Counting(), stms, chain, (), now)
    body = ir.Lambda((*e.body.params, *params.values()), tuple(stms), (*e.body.result, *now.values()))
    out = {q: [Var("total", I64) for _ in runs(chain)] for q, chain in chains.items()}
    new: ir.Exp = e.remade((*e.inits, *[ZERO] * len(params)), body)
    return ir.Stm((*stm.pat, *[v for vs in out.values() for v in vs]), new, stm.attrs), out


__all__ = ["ArrayLog", "Arrays", "Key", "counting_updates", "keys_of", "room", "totals"]
