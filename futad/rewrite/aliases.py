"""Which arrays are ever overwritten: the little a rewriting pass needs to know about consumption.

An array variable is *mutable* if it, or anything that may share its memory, is consumed somewhere in the
function.  Rules introduce no new read of a mutable array and never merge two of them; reads that are
already there may be reused.  `escaping` arrays are those a function returns: they must stay distinct from
each other and from its parameters.  This is a union-find over names, not a liveness analysis: cheap and
conservative (`core/lastuse.py` is precise, and is what backends use).
"""

from __future__ import annotations

from collections.abc import Iterable

from futad.core import ir
from futad.core.types import Atom, Prim, Var


class Aliases:
    """The alias classes of one function's variables."""

    def __init__(self) -> None:
        self._parent: dict[Var, Var] = {}
        self._consumed: list[Var] = []
        self._escaping: list[Var] = []
        self.mutable: set[Var] = set()
        self.escaping: set[Var] = set()

    def _find(self, v: Var) -> Var:
        parent = self._parent
        root = v
        while (up := parent.get(root, root)) is not root:
            root = up
        while (up := parent.get(v, v)) is not root and v is not root:
            parent[v] = root
            v = up
        return root

    def _union(self, a: Atom, b: Atom) -> None:
        if type(a) is Var and type(b) is Var and type(a.type) is not Prim and type(b.type) is not Prim:
            x, y = self._find(a), self._find(b)
            if x is not y:
                self._parent[x] = y

    def _unions(self, xs: Iterable[Atom], ys: Iterable[Atom]) -> None:
        for x, y in zip(xs, ys, strict=False):
            self._union(x, y)

    def _consume(self, atoms: Iterable[Atom]) -> None:
        self._consumed += [a for a in atoms if type(a) is Var and type(a.type) is not Prim]

    def _scope(self, lam: ir.Lambda) -> None:
        for stm in lam.stms:
            handler = _HANDLERS.get(type(stm.exp))
            if handler is not None:
                handler(self, stm.pat, stm.exp)
            for inner in stm.exp.lambdas():
                self._scope(inner)

    def root(self, v: Var) -> Var:
        """The representative of the variable's class."""
        return self._find(v)

    def finish(self) -> None:
        """Close the classes: fill `mutable` and `escaping`."""
        bad = {self._find(v) for v in self._consumed}
        out = {self._find(v) for v in self._escaping}
        for v in list(self._parent) + self._consumed + self._escaping:
            root = self._find(v)
            if root in bad:
                self.mutable.add(v)
            if root in out:
                self.escaping.add(v)


def _share(a: Aliases, pat: tuple[Var, ...], e: ir.Exp) -> None:
    a._union(pat[0], e.operands()[0])


def _update(a: Aliases, pat: tuple[Var, ...], e: ir.Update) -> None:
    a._consume((e.array,))
    a._union(pat[0], e.array)


def _dests(a: Aliases, pat: tuple[Var, ...], e: ir.Scatter | ir.Hist) -> None:
    a._consume(e.dests)
    a._unions(pat, e.dests)


def _with_acc(a: Aliases, pat: tuple[Var, ...], e: ir.WithAcc) -> None:
    a._consume(e.arrays)
    a._unions(pat, e.arrays)
    a._unions(pat[len(e.arrays) :], e.lam.result[len(e.arrays) :])


def _if(a: Aliases, pat: tuple[Var, ...], e: ir.If) -> None:
    a._unions(pat, e.then.result)
    a._unions(pat, e.orelse.result)


def _loop(a: Aliases, pat: tuple[Var, ...], e: ir.For | ir.While) -> None:
    params = e.body.params[1:] if type(e) is ir.For else e.body.params
    a._unions(params, e.inits)
    a._unions(params, e.body.result)
    a._unions(params, pat)


def _map(a: Aliases, pat: tuple[Var, ...], e: ir.Map | ir.Fused | ir.Reduce | ir.Scan) -> None:
    a._unions(e.lam.params, e.arrays)


def _call(a: Aliases, pat: tuple[Var, ...], e: ir.Call) -> None:
    # A callee may return what it was given, and may overwrite an argument its type calls unique.
    a._consume(e.args)
    arrays = [x for x in e.args if type(x.type) is not Prim]
    for p in pat:
        for x in arrays:
            a._union(p, x)


def _ad(a: Aliases, pat: tuple[Var, ...], e: ir.Jvp | ir.Vjp) -> None:
    a._unions(e.lam.params, e.args)
    for p, r in zip(pat, e.lam.result, strict=False):
        a._union(p, r)


_HANDLERS = {
    ir.Alias: _share,
    ir.At: _share,
    ir.Reshape: _share,
    ir.Rearrange: _share,
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
}


def aliases(lam: ir.Lambda, exposed: Iterable[Atom] = ()) -> Aliases:
    """The alias classes of a function's body; `exposed` are the atoms that leave it."""
    a = Aliases()
    a._scope(lam)
    a._escaping = [v for v in exposed if type(v) is Var and type(v.type) is not Prim]
    a.finish()
    return a
