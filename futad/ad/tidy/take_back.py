"""Taking updates back instead of copying what they overwrite.

    y = update(x, i, v)               old = x[i]
    ... y ...                         y = update(x, i, v)
    ... x ...                ->       ... y ...
                                      x' = update(y, i, old)
                                      ... x' ...

Whatever else uses x and y, that means the same: what is overwritten and used later, `protect` copies.  So it is done
where it saves a copy, where y is not used after x is used again.  Reverse mode makes code of this shape: the return
sweep of what follows the update comes first, then that of what precedes it.  The cost is that of the elements written,
where a copy would cost the array.  Where y too is overwritten, by a loop whose return sweep has put it back, it goes on
from the array that holds y then.  Source: Schenck et al., SC 2022, section 5.3 (scatter), here for updates too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from futad.ad.emit import read_or_zero
from futad.core import ir
from futad.core.builder import Builder
from futad.core.type_rules import index_type
from futad.core.types import ArrayType, Atom, Prim, Var, elem_of, shape_of


def substitute(stm: ir.Stm, mapping: dict[Var, Atom]) -> ir.Stm:
    """The statement with free variables replaced (variables that no type mentions); binders stay."""

    def atom(a: Atom) -> Atom:
        return mapping.get(a, a) if isinstance(a, Var) else a

    def scope(lam: ir.Lambda) -> ir.Lambda:
        if not any(v in mapping for v in lam.free()):
            return lam
        return ir.Lambda(lam.params, tuple([substitute(s, mapping) for s in lam.stms]), tuple(map(atom, lam.result)))

    return ir.Stm(stm.pat, stm.exp.rebuild(atom, scope), stm.attrs)


def take_back(
    stms: Sequence[ir.Stm], result: Sequence[Atom], later: set[Var], root: dict[Var, Var],
    put_back: Mapping[Var, Sequence[Var]],
) -> tuple[list[ir.Stm], tuple[Atom, ...]]:  # fmt: skip
    """The scope with updates taken back where that saves a copy.

    `result` is used at the end of the scope, `later` after it (and cannot be replaced); `root` maps a view to
    the array it looks into; `put_back`: by array, variables that have its value.
    """
    out = list(stms)
    res = tuple(result)
    p = 0
    while p < len(out):
        stm = out[p]
        e = stm.exp
        if isinstance(e, ir.Update) and isinstance(e.array, Var):
            found = _window(out, res, later, root, put_back, p, e.array, stm.pat[0])
            if found is not None:
                out, res, p = _undo_update(out, res, p, e, *found)
        elif isinstance(e, ir.Scatter) and len(e.dests) == 1 and isinstance(e.dests[0], Var):
            found = _window(out, res, later, root, put_back, p, e.dests[0], stm.pat[0])
            if found is not None:
                out, res, p = _undo_scatter(out, res, p, e, *found)
        elif isinstance(e, ir.If):
            for x in _consumed(e, root):
                if x not in later and root.get(x, x) is x and _used_after(out, res, p, x):
                    out, res = _hand_back(out, res, p, x)
        p += 1
    return out, res


def _consumed(e: ir.If, root: dict[Var, Var]) -> list[Var]:
    """Arrays from outside that a branch updates without returning what came of it."""
    found: dict[Var, None] = {}
    for lam in (e.then, e.orelse):
        origin: dict[Var, Var] = {}
        free = lam.free()
        for s in lam.stms:
            inner = s.exp
            old: Atom | None = None
            if isinstance(inner, ir.Update):
                old = inner.array
            elif isinstance(inner, ir.Scatter) and len(inner.dests) == 1:
                old = inner.dests[0]
            elif isinstance(inner, ir.If):
                for v in _consumed(inner, root):
                    if v in free:
                        found[v] = None
                    elif v in origin:
                        found[origin[v]] = None
            if isinstance(old, Var):
                if old in free:
                    origin[s.pat[0]] = old
                    found[old] = None
                elif old in origin:
                    origin[s.pat[0]] = origin[old]
        for r in lam.result:
            if isinstance(r, Var):
                found.pop(origin.get(root.get(r, r), r), None)
    return list(found)


def _used_after(stms: list[ir.Stm], result: tuple[Atom, ...], p: int, x: Var) -> bool:
    return x in result or any(x in ir.stm_free(s) for s in stms[p + 1 :])


def _hand_back(stms: list[ir.Stm], result: tuple[Atom, ...], p: int, x: Var) -> tuple[list[ir.Stm], tuple[Atom, ...]]:
    """A branch that updates x for its own use returns x, taken back, for those after it."""
    stm = stms[p]
    e = stm.exp
    assert isinstance(e, ir.If)
    new = Var(x.name, x.type)
    sides = [ir.Lambda((), lam.stms, (*lam.result, x)) for lam in (e.then, e.orelse)]
    mapping: dict[Var, Atom] = {x: new}
    out = [*stms[:p], ir.Stm((*stm.pat, new), ir.If(e.cond, *sides), stm.attrs)]
    out += [substitute(s, mapping) for s in stms[p + 1 :]]
    return out, tuple([new if r is x else r for r in result])


def _window(
    stms: list[ir.Stm], result: tuple[Atom, ...], later: set[Var], root: dict[Var, Var],
    put_back: Mapping[Var, Sequence[Var]], p: int, x: Var, y: Var,
) -> tuple[Var, int] | None:  # fmt: skip
    """The array of y's value from which the update at p is to be taken back, and the position before that; None if that
    saves no copy."""
    now, ys = y, {y}  # the arrays of this scope that have y's value, and the newest of them
    for s in stms[p + 1 :]:
        for v in s.pat:
            if any(v in put_back.get(old, ()) for old in ys):
                now = v
                ys.add(v)
    base = root.get(x, x)
    if base is not x or any(root.get(v, v) in (x, *ys) for v in later):
        return None
    end = len(stms)
    first, last = None, p
    for q in range(p + 1, end):
        for v in ir.stm_free(stms[q]):
            if v is x:
                first = q if first is None else first
            elif root.get(v, v) is x:
                return None
            elif root.get(v, v) in ys:
                last = q
        if now in stms[q].pat:
            last = q
    finals = {root.get(v, v) for v in result if isinstance(v, Var)}
    if not ys.isdisjoint(finals) or any(root.get(v, v) is x and v is not x for v in result if isinstance(v, Var)):
        return None
    if first is None and x in finals:
        first = end
    return (now, first) if first is not None and last < first else None


def _replaced(
    stms: list[ir.Stm],
    result: tuple[Atom, ...],
    p: int,
    at: int,
    x: Var,
    before: list[ir.Stm],
    undo: list[ir.Stm],
    new: Var,
) -> tuple[list[ir.Stm], tuple[Atom, ...], int]:
    mapping: dict[Var, Atom] = {x: new}
    after = [substitute(s, mapping) for s in stms[at:]]
    out = [*stms[:p], *before, *stms[p:at], *undo, *after]
    return out, tuple([new if r is x else r for r in result]), p + len(before)


def _undo_update(
    stms: list[ir.Stm], result: tuple[Atom, ...], p: int, e: ir.Update, y: Var, at: int
) -> tuple[list[ir.Stm], tuple[Atom, ...], int]:
    x = e.array
    assert isinstance(x, Var)
    t = index_type(x.type, e.index)
    old = Var("old", t)
    before = [ir.Stm((old,), ir.At(x, e.index, e.check))]
    if not isinstance(t, Prim):
        kept = Var("old", t)
        before.append(ir.Stm((kept,), ir.Copy(old)))
        old = kept
    new = Var(x.name, x.type)
    undo = [ir.Stm((new,), ir.Update(y, e.index, old))]
    return _replaced(stms, result, p, at, x, before, undo, new)


def _undo_scatter(
    stms: list[ir.Stm], result: tuple[Atom, ...], p: int, e: ir.Scatter, y: Var, at: int
) -> tuple[list[ir.Stm], tuple[Atom, ...], int]:
    x = e.dests[0]
    assert isinstance(x, Var) and isinstance(x.type, ArrayType)
    rest = shape_of(x.type)[len(e.idxs) :]
    t = ArrayType(elem_of(x.type), rest) if rest else elem_of(x.type)
    b = Builder()
    old = b.map_(lambda c, *ix: [read_or_zero(c, x, ix, t)], *e.idxs, hint="old")[0]
    new = Var(x.name, x.type)
    undo = [ir.Stm((new,), ir.Scatter(e.width, (y,), e.idxs, (old,)))]
    return _replaced(stms, result, p, at, x, b.stms, undo, new)
