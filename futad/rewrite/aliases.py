"""Which arrays are ever overwritten: the little a rewriting pass needs to know about consumption.

An array variable is *mutable* if it, or anything that may share its memory, is consumed somewhere in the
function.  Rules introduce no new read of a mutable array and never merge two of them; reads that are
already there may be reused.  `escaping` arrays are those a function returns: they must stay distinct from
each other and from its parameters.  This is a union-find over names, not a liveness analysis: cheap and
conservative (`core/lastuse.py` is precise, and is what backends use).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from futad.core import ir
from futad.core.types import Atom, Prim, Var


class Aliases:
    """The alias classes of one function's variables."""

    def __init__(self) -> None:
        self._parent: dict[Var, Var] = {}
        self._mutable: set[Var] = set()  # roots
        self._escaping: set[Var] = set()

    # -- questions

    def root(self, v: Var) -> Var:
        """The representative of the variable's class."""
        parent = self._parent
        up = parent.get(v)
        if up is None:
            return v
        root = up
        while (up := parent.get(root)) is not None:
            root = up
        while v is not root:
            parent[v], v = root, parent[v]
        return root

    def mutable(self, a: Atom) -> bool:
        """Whether `a` may be overwritten somewhere."""
        return type(a) is Var and self.root(a) in self._mutable

    def escaping(self, a: Atom) -> bool:
        """Whether `a` may share memory with a result or parameter of the function."""
        return type(a) is Var and self.root(a) in self._escaping

    # -- building

    def join(self, a: Atom, b: Atom) -> None:
        """From here on the two may share memory."""
        if type(a) is not Var or type(b) is not Var or type(a.type) is Prim or type(b.type) is Prim:
            return
        x, y = self.root(a), self.root(b)
        if x is not y:
            self._parent[x] = y
            for marked in (self._mutable, self._escaping):
                if x in marked:
                    marked.add(y)

    def joins(self, xs: Iterable[Atom], ys: Iterable[Atom]) -> None:
        for x, y in zip(xs, ys, strict=False):
            self.join(x, y)

    def consume(self, atoms: Iterable[Atom]) -> None:
        for a in atoms:
            if type(a) is Var and type(a.type) is not Prim:
                self._mutable.add(self.root(a))

    def expose(self, atoms: Iterable[Atom]) -> None:
        """These atoms are known outside the function."""
        for a in atoms:
            if type(a) is Var and type(a.type) is not Prim:
                self._escaping.add(self.root(a))

    def scope(self, lam: ir.Lambda) -> None:
        """Add what the statements of a scope say."""
        for stm in lam.stms:
            handler = _HANDLERS.get(type(stm.exp))
            if handler is not None:
                handler(self, stm.pat, stm.exp)
            for inner in stm.exp.lambdas():
                self.scope(inner)


def _share(a: Aliases, pat: tuple[Var, ...], e: ir.Exp) -> None:
    a.join(pat[0], e.operands()[0])


def _assert(a: Aliases, pat: tuple[Var, ...], e: ir.Assert) -> None:
    a.joins(pat, e.of)


def _update(a: Aliases, pat: tuple[Var, ...], e: ir.Update) -> None:
    a.consume((e.array,))
    a.join(pat[0], e.array)


def _dests(a: Aliases, pat: tuple[Var, ...], e: ir.Scatter | ir.Hist) -> None:
    a.consume(e.dests)
    a.joins(pat, e.dests)


def _with_acc(a: Aliases, pat: tuple[Var, ...], e: ir.WithAcc) -> None:
    a.consume(e.arrays)
    a.joins(pat, e.arrays)
    a.joins(pat[len(e.arrays) :], e.lam.result[len(e.arrays) :])


def _if(a: Aliases, pat: tuple[Var, ...], e: ir.If) -> None:
    a.joins(pat, e.then.result)
    a.joins(pat, e.orelse.result)


def _loop(a: Aliases, pat: tuple[Var, ...], e: ir.For | ir.While) -> None:
    params = e.body.params[1:] if type(e) is ir.For else e.body.params
    a.joins(params, e.inits)
    a.joins(params, e.body.result)
    a.joins(params, pat)


def _map(a: Aliases, pat: tuple[Var, ...], e: ir.Map | ir.Fused | ir.Reduce | ir.Scan) -> None:
    a.joins(e.lam.params, e.arrays)


def _call(a: Aliases, pat: tuple[Var, ...], e: ir.Call) -> None:
    # A callee may return what it was given, and may overwrite an argument its type calls unique.
    a.consume(e.args)
    arrays = [x for x in e.args if type(x.type) is not Prim]
    for p in pat:
        for x in arrays:
            a.join(p, x)


def _ad(a: Aliases, pat: tuple[Var, ...], e: ir.Jvp | ir.Vjp) -> None:
    a.joins(e.lam.params, e.args)
    for p, r in zip(pat, e.lam.result, strict=False):
        a.join(p, r)


def _custom(a: Aliases, pat: tuple[Var, ...], e: ir.WithVjp) -> None:
    a.joins(e.lam.params, e.args)
    a.joins(pat, e.lam.result)
    a.joins(e.pull.params, (*e.lam.result, *e.lam.result[2 * len(pat) - len(e.pull.params) :]))


_HANDLERS: dict[type, Any] = {
    ir.Alias: _share,
    ir.At: _share,
    ir.Reshape: _share,
    ir.Rearrange: _share,
    ir.Assert: _assert,
    ir.Update: _update,
    ir.Scatter: _dests,
    ir.Hist: _dests,
    ir.WithAcc: _with_acc,
    ir.If: _if,
    ir.For: _loop,
    ir.While: _loop,
    ir.Map: _map,
    ir.Fused: _map,
    ir.Reduce: _map,
    ir.Scan: _map,
    ir.Call: _call,
    ir.Jvp: _ad,
    ir.Vjp: _ad,
    ir.WithVjp: _custom,
}


def aliases(lam: ir.Lambda, exposed: Iterable[Atom] = ()) -> Aliases:
    """The alias classes of a function's body; `exposed` are the atoms that leave it."""
    a = Aliases()
    a.expose(exposed)
    a.scope(lam)
    return a


def _consumed(e: ir.Exp, out: set[Var], alias: Aliases) -> None:
    for a in _consumed_directly(e):
        if type(a) is Var and type(a.type) is not Prim:
            out.add(alias.root(a))
    for lam in e.lambdas():
        for s in lam.stms:
            _consumed(s.exp, out, alias)


def consumed_roots(e: ir.Exp, alias: Aliases) -> set[Var]:
    """The classes of the arrays that an expression consumes, nested scopes included."""
    out: set[Var] = set()
    _consumed(e, out, alias)
    return out


def overwritten(reads: Iterable[Atom], between: Iterable[ir.Stm], alias: Aliases) -> bool:
    """Whether statements may overwrite what is read: then it cannot be read after them instead of before."""
    roots = {alias.root(a) for a in reads if type(a) is Var and alias.mutable(a)}
    return bool(roots) and not all(roots.isdisjoint(consumed_roots(s.exp, alias)) for s in between)


def _consumed_directly(e: ir.Exp) -> Iterable[ir.Atom]:
    match e:
        case ir.Update():
            return (e.array,)
        case ir.Scatter() | ir.Hist():
            return e.dests
        case ir.WithAcc():
            return e.arrays
        case ir.Call():
            return e.args
        case ir.For() | ir.While():
            # A loop variable may be overwritten in the body: its initial value counts as consumed.
            return e.inits
    return ()


__all__ = ["Aliases", "aliases", "consumed_roots", "overwritten"]
