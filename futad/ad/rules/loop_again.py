"""Loops that the forward sweep runs twice, first to count, then to save; `while` loops as `for` loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from futad.ad.emit import reexecution
from futad.ad.history.counts import Counts
from futad.ad.history.save import Counted, Grower, Restore, Saver, Undo, counting
from futad.ad.history.stripmine import NEST
from futad.ad.history.variables import convert, varying
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, ArrayType, Atom, Var

if TYPE_CHECKING:
    from futad.ad.reverse import Scope


def with_count(loop: ir.While, iterations: Atom) -> ir.For:
    """The loop as one of that many iterations."""
    body = ir.Lambda((Var("i", I64), *loop.body.params), loop.body.stms, loop.body.result)
    return ir.For(iterations, loop.inits, body)


def as_for(loop: ir.Loop, iterations: Atom, origins: dict[Var, Var] | None = None) -> ir.For:
    """A copy of the loop as one of that many iterations, its index an i64; `origins` as of `reexecution`."""
    body = reexecution(loop.body, origins)
    i = Var("i", I64)
    own = body.params[len(body.params) - len(loop.inits) :]
    b = Builder()
    for p in body.params[: len(body.params) - len(own)]:
        b.add(ir.Stm((p,), ir.Alias(convert(b, p.type, i))))
    return ir.For(iterations, loop.inits, ir.Lambda((i, *own), (*b.stms, *body.stms), body.result))


def reexecute(
    s: Scope,
    loop: ir.Loop,
    final: Sequence[Var],
    iterations: Atom,
    plain: Sequence[int],
    second: Counted,
    rooms: dict[int, Var],
    undo: Undo,
    attrs: tuple[Any, ...],
    counts: Counts | None = None,
) -> dict[int, Restore]:
    """Run the loop a second time to save variables, with the room that the first run has found.

    `attrs`: of that run; `rooms`: arrays to fill, each iteration, with what a loop inside (see `inner_rooms`) counts;
    `counts`: what is saved of `while` loops inside.
    """
    origins: dict[Var, Var] = {}
    reexecuted = as_for(loop, iterations, origins)
    before, head = Builder(), Builder()
    saver = Saver(reexecuted, final, head, reexecuted.body.params[0], iterations, before, undo)
    saver.save(plain, saver.ways(plain), second.counts)
    Grower(saver, second.totals, second.grown)
    if counts is not None:
        counts.save(saver, {old: new for new, old in origins.items()})
    if rooms:
        at = next(k for k, x in enumerate(saver.stms) if (NEST,) in x.attrs)
        counted, found = counting(saver.stms[at], list(rooms))
        stms = [*saver.stms[:at], counted]
        for room, total in zip(rooms.values(), found, strict=True):
            p, _ = saver.more(before.let(ir.Scratch(I64, (iterations,)), room.name), room.name)
            saver.pat[-1] = room
            filled = Var(room.name, room.type)
            stms.append(ir.Stm((filled,), ir.Update(p, (saver.index,), total)))
            saver.results.append(filled)
        saver.stms = (*stms, *saver.stms[at + 1 :])
    if saver.params:
        names = ir.Renamer()
        pat = (*[names.bind(v) for v in final], *saver.pat)
        before.add(ir.Stm(pat, ir.For(iterations, (*loop.inits, *saver.inits), saver.lambda_()), attrs))
        s.b.extend(before.stms)
    return saver.restores


def inner_rooms(s: Scope, stm: ir.Stm, body: ir.Lambda) -> dict[int, Var]:
    """For a loop that stripmining split: arrays for how many elements the loop inside it will save each iteration.

    A second run of this loop fills them, so that the loop inside need not be run once more to count.
    """
    inner = next((x for x in body.stms if (NEST,) in x.attrs), None)
    if inner is None:
        return {}
    assert isinstance(stm.exp, ir.For) and isinstance(inner.exp, ir.For)
    own = inner.exp.variables
    rooms = {q: Var("rooms", ArrayType(I64, (stm.exp.bound,))) for q in range(len(own)) if varying([own[q]], own)}
    s.ctx.rooms[inner.pat[0]] = rooms, body.params[0]
    return rooms


def count_alone(first: ir.Stm, count: Var) -> list[ir.Stm]:
    """The loop, run for its count alone."""
    alone = ir.rename(ir.Lambda((), (first,), (count,)))
    return [alone.stms[0], ir.Stm((count,), ir.Alias(alone.result[0]))]


def by_size(loop: ir.Loop, which: Sequence[int]) -> tuple[list[int], list[int]]:
    """Loop variables whose size stays, and those whose size changes from iteration to iteration."""
    own = loop.variables
    grown = [k for k in which if varying([own[k]], own)]
    return [k for k in which if k not in grown], grown


__all__ = ["as_for", "by_size", "count_alone", "inner_rooms", "reexecute", "with_count"]
