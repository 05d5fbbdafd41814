"""What programs tell of a loop that is reversed under a budget."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from futad.ad.history.leaves import LEAF
from futad.ad.history.points import Points
from futad.ad.history.save import Restore
from futad.core import ir
from futad.core.budget import Budget, place_of, placed
from futad.core.builder import Builder
from futad.core.measures import bits_of
from futad.core.types import I64, ZERO, Atom, Const, elem_of, i64

if TYPE_CHECKING:
    from futad.ad.reverse import Scope


def told(
    s: Scope, stm: ir.Stm, bound: Atom, restores: Sequence[tuple[str, Restore]], points: Points | None,
    deviations: list[Atom],
) -> None:  # fmt: skip
    """Under a budget emit what a user may ask about a loop that is not run again; `restores`: with the names of
    their variables, which the fields of a record have in common."""
    budget = Budget.of(stm.attrs) or s.ctx.how.budget
    if budget is None or budget == Budget() or (LEAF,) in stm.attrs:
        return
    saved = [name for name, r in restores if r.saved]
    bits = [r.bits for _, r in restores if r.bits is not None]
    undone = [name for name, r in restores if r.last is not None]
    if not saved and not undone:
        return
    way = ("way", "kept" if saved else "undone")
    state = ("state", " ".join(saved or undone))
    facts = (("loop", place_of(placed(stm))), ("what", "loop"), way, state, *inverse_of(s, stm, undone))
    numbers: dict[str, Atom] = {"iterations": iterations_as_i64(s.b, bound)}
    if points is not None:
        numbers |= {"points": points.number, "held": points.held(s.b)}
        if points.runs is not None:
            numbers["runs"] = points.runs
    if bits:
        numbers["held"] = reduce(lambda x, y: s.b.op("add", x, y), [x.held(s.b) for x in bits])
        numbers["whole"] = reduce(lambda x, y: s.b.op("add", x, y), [x.top for x in bits])
    if deviations:
        most = reduce(lambda x, y: s.b.op("max", x, y), deviations)
        numbers["deviation"] = s.b.convert(I64, s.b.op("bits_f64", most))
        allowed = max(r.returns.tolerance(elem_of(r.last.type)) for _, r in restores if r.returns and r.last)
        numbers["allowed"] = i64(bits_of(allowed))
    s.b.add(ir.Stm((), ir.Measure(facts, tuple(numbers), tuple(numbers.values()))))


def inverse_of(s: Scope, stm: ir.Stm, undone: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The fact about a loop whether it is run backwards: which variables are, why one is not, and which others."""
    why = s.ctx.not_undone.get(stm.pat[0], {})
    parts = [f"yes ({' '.join(undone)})"] if undone else []
    if left := [name for name in why if name not in undone]:
        parts.append(f"no ({why[left[0]]}{'; nor ' if left[1:] else ''}{' '.join(left[1:])})")
    return (("inverse", ", ".join(parts)),) if parts else ()


def iterations_as_i64(b: Builder, bound: Atom) -> Atom:
    """The number of iterations of a for loop as an i64."""
    if isinstance(bound, Const):
        return i64(max(0, bound.value))
    return b.op("max", b.convert(I64, bound), ZERO, hint="iterations")
