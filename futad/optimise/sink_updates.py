"""Updates of rows move down, past reads of other rows of the array.

    let a1 = a  with [i, 1] = map2 (+) a[i, 1]  xs          let s = map2 (+) a[i, 1] xs
    let a2 = a1 with [i, 0] = map2 (+) a1[i, 0] ys   -->    let t = map2 (+) a[i, 0] ys
                                                            let a1 = a  with [i, 1] = s
                                                            let a2 = a1 with [i, 0] = t

The maps can then be fused; adjoints of rows that a program takes apart are such chains.  What is read where it, or all
around it, was just written is the value that was written; what later updates overwrite as a whole is not written.  An
update by a literal of rows is one of each row, so that rows can be computed there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from futad.core import ir
from futad.core.alias import Aliases, aliases, consumed_roots
from futad.core.ir import Lambda, Program, Stm
from futad.core.node import Range
from futad.core.scope import uses_in
from futad.core.types import ArrayType, Const, Prim, Var, i64, shape_of
from futad.legality import Legality

LEGAL = Legality(
    "sink-updates",
    "updates of rows wait for the reads of other rows; what later ones overwrite is not written",
    worth="rows of one array are updated by one nest: D-LSTM's gradient on a device 41,948 launches in place of 92,075",
)
ROWS_FOREIGN = LEGAL.condition("rows of others", "a row of the array itself is not what it was once another is written")
READS_FIT = LEGAL.condition("reads redirected", "a read between the updates sees the array before both")
UNDISTURBED = LEGAL.condition(
    "nothing between overwrites", "a value is overwritten before the update that waits stores it"
)
DISJOINT = LEGAL.condition("read elsewhere", "the row read is the one that the waiting update writes")
VALUE_CONSTANT = LEGAL.condition("value not overwritten", "the value read in place of the row has changed since")
ONLY_READ = LEGAL.condition(
    "row only read", "the row that is read is the value itself then, which must not be overwritten"
)
OVERWRITTEN = LEGAL.condition("all written later", "what an update that is left out writes is seen")

LONGEST = 32  # updates that move together
PIECES = 8  # rows that may overwrite an array between them


def sink_updates(program: Program) -> Program:
    """Let updates of rows wait for the reads of other rows."""
    return ir.map_bodies(program, lambda lam: _scope(lam, aliases(lam)))


def _scope(lam: Lambda, alias: Aliases) -> Lambda:
    stms = [ir.map_scopes(s, lambda inner: _scope(inner, alias)) for s in lam.stms]
    stms = _row_by_row(stms, lam, alias)
    if any(map(_updates_row, stms)) and any(type(s.exp) is ir.At for s in stms):
        stms = _Sinking(stms, lam, alias).run()
    if len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True)):
        return lam
    return Lambda(lam.params, tuple(stms), lam.result)


def _row_by_row(stms: list[Stm], lam: Lambda, alias: Aliases) -> list[Stm]:
    """`a with [i] = [xs, ys]` -> `a with [i, 0] = xs with [i, 1] = ys`: the rows may be computed there."""
    made: dict[ir.Atom, ir.ArrayLit] = {s.pat[0]: s.exp for s in stms if type(s.exp) is ir.ArrayLit}
    if not made:
        return stms
    uses = uses_in(stms, lam.result)
    out: list[Stm] = []
    for s in stms:
        e = s.exp
        literal = made.get(e.value) if type(e) is ir.Update and _updates_row(s) else None
        few = literal is not None and isinstance(literal.type, ArrayType) and len(literal.elems) <= PIECES
        if type(e) is not ir.Update or literal is None or not few:
            out.append(s)
            continue
        # A row of the array itself is not what it was when the others have been written.
        shared = any(alias.share(x, e.array) for x in literal.elems)
        if uses[e.value] > 1 or not ROWS_FOREIGN(not shared):
            out.append(s)
            continue
        array = e.array
        # First those that nobody outside needs, which can be computed there.
        rows = sorted(enumerate(literal.elems), key=lambda row: row[1] in lam.result)
        for k, x in rows:
            after = s.pat[0] if k == rows[-1][0] else Var(s.pat[0].name, s.pat[0].type)
            out.append(Stm((after,), ir.Update(array, (*e.index, i64(k)), x, None)))
            array = after
    return out


def _updates_row(s: Stm) -> bool:
    e = s.exp
    if type(e) is not ir.Update or e.check is not None or not isinstance(e.value.type, ArrayType):
        return False
    return type(e.array) is Var and not any(type(i) is Range for i in e.index)


@dataclass(slots=True, eq=False)
class _UpdateChain:
    """Updates, each of what the one before it made, by position, and what the reads between them become."""

    at: list[int]
    reads: dict[int, Stm] = field(default_factory=dict)


class _Sinking:
    """The statements of one scope."""

    def __init__(self, stms: list[Stm], lam: Lambda, alias: Aliases) -> None:
        self.stms, self.alias = stms, alias
        self.defs: dict[ir.Atom, ir.Exp] = {s.pat[0]: s.exp for s in stms if len(s.pat) == 1}
        self.consumed = [consumed_roots(s.exp, alias) for s in stms]
        self.users: dict[Var, list[int]] = {}
        for k, s in enumerate(stms):
            for v in ir.stm_free(s):
                self.users.setdefault(v, []).append(k)
        self.results = set(lam.result)

    def run(self) -> list[Stm]:
        new: dict[int, list[Stm]] = {}
        done: set[int] = set()
        for k, s in enumerate(self.stms):
            if k in done or not _updates_row(s):
                continue
            chain = self.chain(k)
            done.update(chain.at)
            if chain.reads:
                LEGAL.fired()
                new |= {at: [read] for at, read in chain.reads.items()}
                new |= dict.fromkeys(chain.at, [])
                new[chain.at[-1]] = self.written([self.stms[at] for at in chain.at])
        return [t for k, s in enumerate(self.stms) for t in new.get(k, (s,))]

    def chain(self, k: int) -> _UpdateChain:
        """The longest chain from this update on that can be delayed to its end."""
        chain = _UpdateChain([k])
        while True:
            x = self.stms[chain.at[-1]].pat[0]
            users = self.users.get(x, [])
            after = next((q for q in users if _updates_row(self.stms[q]) and self.stms[q].exp.operands()[0] is x), None)
            reads = {q: self.read(q, chain, after) for q in users if q != after}
            if after is None or len(chain.at) == LONGEST:
                break
            if x in self.results or not READS_FIT(None not in reads.values()):
                break
            later = self.stms[after].exp
            if type(later) is ir.Update and later.value is x:
                break
            if not self.undisturbed(chain, after):
                break
            chain.reads |= {q: s for q, s in reads.items() if s is not None}
            chain.at.append(after)
        # At the end of the chain nothing is delayed: what is read there has been written.
        last = {q: self.read(q, chain, None) for q in users}
        chain.reads |= {q: s for q, s in last.items() if s is not None}
        return chain

    def undisturbed(self, chain: _UpdateChain, end: int) -> bool:
        """Whether the chain's updates can wait until then: nothing in between overwrites what they use.  They do not
        wait for loops, as no map before one can be fused with a map after it."""
        if any(isinstance(self.stms[q].exp, ir.Loop) for q in range(chain.at[0], end)):
            return False
        moving = {*chain.at, end}
        atoms = [a for at in moving for a in self.stms[at].exp.operands()]
        roots = {self.alias.root(a) for a in atoms if type(a) is Var and not isinstance(a.type, Prim)}
        others = [q for q in range(chain.at[0], end) if q not in moving]
        return UNDISTURBED(not any(self.consumed[q] & roots for q in others))

    def read(self, at: int, chain: _UpdateChain, end: int | None) -> Stm | None:
        """The read of the chain's last array as one of the array before it, if the updates wait until `end` (as long as
        what is read may be used), or of what they write; None if it can be neither."""
        s = self.stms[at]
        e = s.exp
        if type(e) is not ir.At or e.check is not None or e.array is not self.stms[chain.at[-1]].pat[0]:
            return None
        for k in reversed(chain.at):
            update = self.stms[k].exp
            assert type(update) is ir.Update
            place = update.index
            if e.index[: len(place)] == place:
                return self.of_value(s, update.value, e.index[len(place) :])
            if not DISJOINT(disjoint(place, e.index)):
                return None
        if end is None:
            return None
        first = self.stms[chain.at[0]].exp
        assert type(first) is ir.Update
        return Stm(s.pat, ir.At(first.array, e.index, None), s.attrs)

    def of_value(self, s: Stm, value: ir.Atom, rest: ir.Index) -> Stm | None:
        """The read as one of what was written."""
        made = self.defs.get(value)
        t = s.pat[0].type
        if type(made) is ir.Replicate and isinstance(made.value.type, Prim):
            same: ir.Exp = ir.Replicate(shape_of(t), made.value) if isinstance(t, ArrayType) else ir.Alias(made.value)
            return Stm(s.pat, same, s.attrs)
        if not rest or not isinstance(value, Var):
            return None
        root = self.alias.root(value)
        if not VALUE_CONSTANT(not any(root in c for c in self.consumed)) or not ONLY_READ(self.only_read(s)):
            return None
        return Stm(s.pat, ir.At(value, rest, None), s.attrs)

    def only_read(self, s: Stm) -> bool:
        """Whether what the statement binds is only read."""
        v = s.pat[0]
        if isinstance(v.type, Prim):
            return True
        if v in self.results:
            return False
        root = self.alias.root(v)
        users = self.users.get(v, [])
        return all(self.stms[q].exp.fresh and root not in self.consumed[q] for q in users)

    def written(self, updates: list[Stm]) -> list[Stm]:
        """The updates one after the other, without those that later ones overwrite as a whole."""
        out: list[Stm] = []
        array = updates[0].exp.operands()[0]
        for k, s in enumerate(updates):
            e = s.exp
            assert type(e) is ir.Update
            rest = [u.exp for u in updates[k + 1 :]]
            if not rest or not OVERWRITTEN(self.overwritten(e, rest)):
                out.append(s if e.array is array else Stm(s.pat, ir.Update(array, e.index, e.value, None), s.attrs))
                array = s.pat[0]
        return out

    def overwritten(self, e: ir.Update, later: list[ir.Exp]) -> bool:
        """Whether later updates write all that this one does."""
        places = {u.index for u in later if type(u) is ir.Update}
        if any(e.index[: len(p)] == p for p in places):
            return True
        rows = shape_of(e.value.type)[0]
        if type(rows) is not Const or rows.value > PIECES:
            return False
        return all((*e.index, Const(rows.type, i)) in places for i in range(rows.value))


def disjoint(p: ir.Index, q: ir.Index) -> bool:
    """Whether two places of an array surely have nothing in common."""
    return any(type(i) is Const and type(j) is Const and i.value != j.value for i, j in zip(p, q, strict=False))


__all__ = ["disjoint", "sink_updates"]
