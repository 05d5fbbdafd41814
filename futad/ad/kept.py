"""Scopes with calls cut in two: a forward sweep that keeps a record, a return sweep that reads it.

    forward    let (y, r) = call("f_kept", [x])                     return    let (y, r) = kept(record)
               let z = mul(x, y)                                              let z = mul(x, y)
               let record = keep([y, r])                                      ... reads x, y, z, r
               in (z, record)

Where the two sweeps are two functions, or a branch that both enter, the return sweep has what is bound outside of the
scope, and executes the scope's statements again, as ever.  But not calls: what it needs of these is in the record, with
the records of the calls themselves.  So each call is made once, whatever is above it; a record has what calls gave, not
what is made of that, and not what they were given.  What takes longer to compute again than to keep is in it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core import ir
from futad.core.types import I64, REC, ZERO, Atom, Const, Prim, Var, shape_of
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.ad.reverse import Scope

RECORDS = Legality(
    "records",
    "what calls gave is kept for the return sweep, all else is computed again",
    worth="gradients of recursive functions at a constant factor: `benchmarks/recursion.py`, with `#[again]` beside",
)
NO_REVERSE = RECORDS.condition("no reverse mode around", "what keeps records and reads them has no adjoints")
ONE_DIRECTION = RECORDS.condition("one direction", "the sweep of each direction reads the one record")
SIZES_BEFORE = RECORDS.condition("sizes with their arrays", "an array is read before its size is known")

PARTS = Legality(
    "parts-of-adjoints",
    "what is added to a part of an array goes to the accumulator of the whole",
    worth="the gradient of a sum over a tree takes twice the time of its value: `benchmarks/recursion.py`",
)
APART = PARTS.condition("no other part of it", "a function adds to two accumulators as if they were apart")
SAME_SIZES = PARTS.condition("of the same sizes", "an element is at another place in an array of other sizes")

NO_RECORD = Const(REC, 0)
_CALLS = (ir.Call, ir.Keep, ir.Kept)


@dataclass(slots=True)
class Cut:
    """`forward`: the statements of the forward sweep, of new variables; `results`, `record`: what they give, and keep.
    `values`: what is in the record, by the variables of the return sweep; `again`: what this computes again; `sizes`:
    those of arrays in the record that are other names for what is bound outside."""

    forward: list[ir.Stm]
    results: tuple[Atom, ...]
    record: Atom
    values: tuple[Var, ...]
    again: list[ir.Stm]
    sizes: list[ir.Stm]

    def restored(self, record: Atom, more: Sequence[ir.Stm] = ()) -> list[ir.Stm]:
        """What the return sweep begins with; `more`: what is done in it before anything is computed again."""
        if not self.values:
            return [*more, *self.again]
        alone = len(self.values) == 1 and self.values[0].type is REC
        kept = ir.Stm(self.values, ir.Alias(record) if alone else ir.Kept(record))
        return [*self.sizes, kept, *more, *self.again]


def calls(e: ir.Exp) -> bool:
    """Whether functions are called where the expression is evaluated."""
    return isinstance(e, _CALLS) or any(lam.has(*_CALLS) for lam in e.lambdas())


def _kept(s: ir.Stm) -> bool:
    """Whether what the statement gives is in the record: what calls gave, and what takes longer to compute than to
    keep, which are folds' scalars, and all of loops and of what has a loop for each element.  It is right to keep
    anything else, or nothing: a call that is made again makes a record again, and the first one is none then."""
    e = s.exp
    if calls(e) or isinstance(e, ir.Loop | ir.MatMul | ir.Contraction | ir.Hist | ir.ArgSort):
        return True
    if not isinstance(e, ir.Soac):
        return False
    return any(type(v.type) is Prim for v in s.pat) or any(lam.has(ir.Soac, ir.Loop, ir.MatMul) for lam in e.lambdas())


def mark(s: Scope) -> Var:
    """The end of the forward sweep of a scope."""
    v = Var("sweep", I64)
    s.b.add(ir.Stm((v,), ir.Alias(ZERO)))
    return v


#: Of a loop's iteration, given its forward sweep and what the return sweep uses: the forward sweep, with more in it;
#: the loop's variables that go to the record, and what else does, by the variables that the return sweep has for it.
Iteration = Callable[[list[ir.Stm], set[Var]], "tuple[list[ir.Stm], list[Var], dict[Var, Atom]]"]


def cut(
    stms: Sequence[ir.Stm], at: Var, results: Sequence[Atom], wanted: Iterable[Atom], names: ir.Renamer,
    iteration: Iteration | None = None,
) -> tuple[Cut, list[ir.Stm]]:  # fmt: skip
    """The sweeps of a scope, which `at` separates (`mark`): how they are cut, and what the second one does then.

    `results`: of the first sweep; `wanted`: what is used of what either of them binds; `names`: for the first one;
    `iteration`: if that is a loop's.
    """
    end = next(k for k, s in enumerate(stms) if s.pat == (at,))
    first, rest = stms[:end], list(stms[end + 1 :])
    used: set[Var] = {a for a in wanted if isinstance(a, Var)}
    for s in rest:
        used.update(ir.stm_free(s))
    values: list[Var] = []
    again: list[ir.Stm] = []
    sizes: set[Atom] = set()  # of arrays in the record
    named: list[ir.Stm] = []  # those of them that only name what is bound outside: not in the record
    aliases = {s.pat[0]: s.exp.atom for s in first if isinstance(s.exp, ir.Alias)}
    bound = {v for s in first for v in s.pat}
    for s in reversed(first):
        mine = [v for v in s.pat if v in used]
        if not mine:
            continue
        source: Atom = mine[0]
        while source in aliases:
            source = aliases[source]
        sized = not SIZES_BEFORE(sizes.isdisjoint(s.pat))
        if sized and source not in bound:
            named.append(ir.Stm(s.pat, ir.Alias(source)))
        elif sized or _kept(s):
            values += mine
            sizes.update(n for v in mine for n in shape_of(v.type))
            used.update(n for v in mine for n in shape_of(v.type) if isinstance(n, Var))
            # A size that the statement itself binds
            values += [v for v in s.pat if v in sizes and v not in mine]
        else:
            again += _silent(s)[::-1]
            used.update(ir.stm_free(s))
    forward = names.stms(first)
    more: dict[Var, Atom] = {}
    if iteration is not None:
        forward, gone, more = iteration(forward, used)
        values += gone
    record: Atom = NO_RECORD
    pairs = [*more.items(), *[(v, names.atom(v)) for v in values[::-1]]] if values or len(more) > 1 else []
    pairs.sort(key=lambda pair: not isinstance(pair[0].type, Prim))
    if pairs:
        RECORDS.fired()
        record = pairs[0][1]
        if len(pairs) > 1 or record.type is not REC:
            record = Var("record", REC)
            forward.append(ir.Stm((record,), ir.Keep(tuple([a for _, a in pairs]))))
    kept = tuple([v for v, _ in pairs])
    return Cut(forward, tuple([names.atom(a) for a in results]), record, kept, again[::-1], named), rest


def finished(s: Scope, at: Var, results: Sequence[Atom], names: ir.Renamer, iteration: Iteration | None = None) -> Cut:
    """Cut a scope that has been swept both ways; its code is that of the return sweep then, for which the record is to
    be restored."""
    found, rest = cut(s.code(), at, results, s.adj.values(), names, iteration)
    s.b.stms[:] = rest
    s.settled()
    return found


def _silent(s: ir.Stm) -> list[ir.Stm]:
    """The statement as it is executed again: what the program asserts has held, and what it prints is printed."""
    e = s.exp
    if isinstance(e, ir.Assert):
        return [ir.Stm((v,), ir.Alias(a)) for v, a in zip(s.pat, e.of, strict=True)]
    return [] if e.effect else [ir.map_scopes(s, _silent_scope)]


def _silent_scope(lam: ir.Lambda) -> ir.Lambda:
    return ir.Lambda(lam.params, tuple([x for s in lam.stms for x in _silent(s)]), lam.result)


__all__ = [
    "APART", "NO_RECORD", "NO_REVERSE", "ONE_DIRECTION", "PARTS", "SAME_SIZES", "Cut", "calls", "cut", "finished",
    "mark",
]  # fmt: skip
