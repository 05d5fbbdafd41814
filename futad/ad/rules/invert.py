"""Operators that can be undone: one scan instead of two for a general reduction.

With y = f(p, r), p and y known, r is found exactly if the elements are integers or bools and every component of f has
the form

    f(p, r)_j = r_j + g(p, r_1 ... r_(j-1))        + wrapping, or exclusive or

for some order of the components: r_j = y_j - g.  Such operators are groups: the integers modulo a power of two
under +, those of bits under exclusive or, and their products and extensions (sums beside sums of products, say).
As f(neutral, r) = r for every r, a component that is a sum in which r_j occurs, and no other of its terms depends on
r_j, has it as a term once, or as often with one sign more than with the other.

Floats are left to the second scan: r would carry the rounding of all of y, however small r is.
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.ad.operators import needed
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import Atom, Prim, Var
from futad.legality import Legality

LEGAL = Legality(
    "undone-operators",
    "what follows an element of a fold is found from the prefix and the result",
    worth="adjoints of sums and the like take one scan in place of two",
)
EXACT = LEGAL.condition("exact", "a difference of floats has the rounding of all elements")
KNOWN = LEGAL.condition("solved in order", "the rest needs components that are not known yet")

# The terms of a component other than r_j, each with whether it is subtracted.
_Terms = list[tuple[Atom, bool]]


def _split(lam: ir.Lambda, j: int) -> tuple[str, _Terms] | None:
    """The operation that joins the terms of component j, and those that are not r_j."""
    own = lam.params[len(lam.result) + j]
    defs: dict[Atom, ir.Exp] = {s.pat[0]: s.exp for s in lam.stms if len(s.pat) == 1}
    top = defs.get(lam.result[j])
    if not isinstance(top, ir.Op) or top.op not in ("add", "sub", "xor"):
        return None
    group = ("xor",) if top.op == "xor" else ("add", "sub")
    rest: _Terms = []

    def walk(a: Atom, minus: bool) -> None:
        e = defs.get(a)
        if isinstance(e, ir.Op) and e.op in group:
            walk(e.args[0], minus)
            walk(e.args[1], minus != (e.op == "sub"))
        elif a is not own:
            rest.append((a, minus))

    walk(lam.result[j], False)
    return group[0], rest


def _order(lam: ir.Lambda) -> list[tuple[int, str, _Terms]] | None:
    """The components in an order in which each can be solved, None if there is none."""
    k = len(lam.result)
    if not EXACT(all(isinstance(p.type, Prim) and not p.type.is_float for p in lam.params)):
        return None
    open_ = {j: found for j in range(k) if (found := _split(lam, j)) is not None}
    if len(open_) < k:
        return None
    out: list[tuple[int, str, _Terms]] = []
    unknown = set(lam.params[k:])

    def known(terms: _Terms) -> bool:
        return KNOWN(not needed(lam.stms, tuple([a for a, _ in terms]))[1] & unknown)

    while open_:
        j = next((j for j, (_, rest) in open_.items() if known(rest)), None)
        if j is None:
            return None
        out.append((j, *open_.pop(j)))
        unknown.discard(lam.params[k + j])
    return out


def invertible(lam: ir.Lambda) -> bool:
    """Whether `solve` can undo the operator."""
    return _order(lam) is not None


def solve(b: Builder, lam: ir.Lambda, left: Sequence[Atom], total: Sequence[Atom]) -> list[Atom]:
    """r with lam(left, r) = total, for an operator that is `invertible`."""
    LEGAL.fired()
    order = _order(lam)
    assert order is not None
    k = len(lam.result)
    right: dict[int, Atom] = {}
    for j, op, rest in order:
        stms, _ = needed(lam.stms, tuple([a for a, _ in rest]))
        given: dict[Var, Atom] = dict(zip(lam.params[:k], left, strict=True))
        given.update({lam.params[k + i]: x for i, x in right.items()})
        copy = ir.Renamer(given)
        b.extend(copy.stms(stms))
        undo = "xor" if op == "xor" else "sub"
        r = total[j]
        for a, minus in rest:
            r = b.op("add" if minus else undo, r, copy.atom(a))
        right[j] = r
    return [right[j] for j in range(k)]
