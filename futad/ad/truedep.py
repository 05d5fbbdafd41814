"""`#[true_dep]` on an array loop parameter: no element is overwritten after it was read.

Then the return sweep finds in the loop's final array whatever a turn read, and nothing need be saved.  That the
promise holds is checked as the loop runs: a flag per element says whether it was read.  The check sees elements and
slices that the loop, its branches and inner for loops read and write; an array used in any other way is saved as
one without the attribute.  Source: Schenck et al., SC 2022, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import BOOL, FALSE, TRUE, Atom, Prim, Type, Var, shape_of
from futad.core.typing import index_type


def promised(stm: ir.Stm) -> set[str]:
    """The names of the loop parameters with the attribute."""
    return {str(a[1]) for a in stm.attrs if isinstance(a, tuple) and a[0] == "true_dep" and len(a) > 1}


class _Unseen(Exception):
    """The array is used in a way that is not checked."""


def checked(stms: Sequence[ir.Stm], x: Var, result: Atom, read: Var) -> tuple[list[ir.Stm], Var] | None:
    """The statements of a loop's body with checks added, and the flags after them; None if uses are unseen.

    `x` is the loop variable, `result` what it becomes, `read` the flags: an array of bool of its shape.
    """
    names = {x}
    c = _Check(x.name)
    try:
        out, flags = c.scope(stms, names, read)
    except _Unseen:
        return None
    return (out, flags) if result in names else None


@dataclass
class _Check:
    name: str
    stale: set[Var] = field(default_factory=set)

    def scope(self, stms: Sequence[ir.Stm], names: set[Var], flags: Var) -> tuple[list[ir.Stm], Var]:
        """`names` are the variables that stand for the array now; the scope adds to them."""
        b = Builder()
        for s in stms:
            e = s.exp
            free = ir.stm_free(s)
            if any(v in self.stale for v in free):
                raise _Unseen
            if not any(v in names for v in free):
                b.add(s)
                continue
            match e:
                case ir.Alias() | ir.Copy():
                    b.add(s)
                    names.add(s.pat[0])
                case ir.At():
                    b.add(s)
                    part = index_type(flags.type, e.index)
                    value: Atom = TRUE
                    if not isinstance(part, Prim):
                        value = b.let(ir.Replicate(shape_of(part), TRUE), "read")
                    flags = b.let(ir.Update(flags, e.index, value), "read")
                case ir.Update() if e.array in names and e.value not in names:
                    self.write(b, e, flags)
                    b.add(s)
                    self.replace(names, s.pat)
                case ir.If():
                    flags = self.branch(b, s, e, names, flags)
                case ir.For():
                    flags = self.turns(b, s, e, names, flags)
                case _:
                    raise _Unseen
        return b.stms, flags

    def replace(self, names: set[Var], new: Sequence[Var]) -> None:
        """The array has changed: its old values, copies for instance, are not to be used."""
        self.stale |= names
        names.clear()
        names.update(new)

    def write(self, b: Builder, e: ir.Update, flags: Var) -> None:
        old: Atom = b.let(ir.At(flags, e.index, e.check), "read")
        if not isinstance(old.type, Prim):
            n = b.size_mul(shape_of(old.type))
            row = b.let(ir.Reshape(old, (n,)), "read")
            either = b.lambda_([("x", BOOL), ("y", BOOL)], lambda q, x, y: [q.op("or", x, y)])
            (old,) = b.emit(ir.Reduce(n, (row,), either, (FALSE,), True), "read")
        message = f"the attribute true_dep of {self.name} is wrong: an element is overwritten after it was read"
        places = tuple([i for i in e.index if not isinstance(i, Range)])
        if places:
            message += " (at " + ", ".join("{}" for _ in places) + ")"
        b.add(ir.Stm((), ir.Assert(b.op("not", old), message, places, e.check)))

    def branch(self, b: Builder, s: ir.Stm, e: ir.If, names: set[Var], flags: Var) -> Var:
        sides: list[ir.Lambda] = []
        same: list[set[int]] = []
        stale = self.stale
        for lam in (e.then, e.orelse):
            inner = set(names)
            self.stale = set(stale)
            stms, after = self.scope(lam.stms, inner, flags)
            same.append({k for k, r in enumerate(lam.result) if r in inner})
            sides.append(ir.Lambda((), tuple(stms), (*lam.result, after)))
            if not same[-1] and inner != names:
                raise _Unseen
        if same[0] != same[1]:
            raise _Unseen
        self.stale = stale
        return self.bound(b, s, ir.If(e.cond, *sides), names, same[0], flags.type)

    def turns(self, b: Builder, s: ir.Stm, e: ir.For, names: set[Var], flags: Var) -> Var:
        own = [q for q, a in enumerate(e.inits) if a in names]
        if len(own) > 1:
            raise _Unseen
        read = Var("read", flags.type)
        inner = {e.body.params[1 + q] for q in own} or set(names)
        before = set(inner)
        if own:
            self.stale |= names
        stms, after = self.scope(e.body.stms, inner, read)
        if own and e.body.result[own[0]] not in inner or not own and inner != before:
            raise _Unseen
        body = ir.Lambda((*e.body.params, read), tuple(stms), (*e.body.result, after))
        return self.bound(b, s, ir.For(e.bound, (*e.inits, flags), body), names, set(own), flags.type)

    def bound(self, b: Builder, s: ir.Stm, e: ir.Exp, names: set[Var], same: set[int], t: Type) -> Var:
        flags = Var("read", t)
        b.add(ir.Stm((*s.pat, flags), e, s.attrs))
        if same:
            self.replace(names, [s.pat[k] for k in same])
        return flags
