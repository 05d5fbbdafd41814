"""The return sweep of a map nest: what is mapped, what is accumulated, what is summed afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, ONE, ZERO, AccType, Atom, Var, row_type

if TYPE_CHECKING:
    from futad.ad.reverse import Scope


class MapSweep:
    """The return sweep of a map: an inner scope, and the arguments of the map that will hold it.

    `bind` adds an array argument and returns its element; `finish` emits the map and distributes the
    adjoints.
    """

    def __init__(self, s: Scope, width: Atom) -> None:
        self.s = s
        self.width = width
        self.inner = s.child("map")
        self.inner.widths = (*s.widths, width)
        self.params: list[Var] = []
        self.args: list[Atom] = []
        self.elements: list[tuple[Var, Atom]] = []
        self._index: Var | None = None

    def bind(self, array: Atom, param: Var | None = None) -> Var:
        p = Var("x", row_type(array.type)) if param is None else param
        self.params.append(p)
        self.args.append(array)
        return p

    def index(self) -> Var:
        """The position of the element."""
        if self._index is None:
            self._index = self.bind(self.s.b.let(ir.Iota(self.width, ZERO, ONE), "is"), Var("i", I64))
        return self._index

    def primal(self, param: Var, array: Atom) -> None:
        """Bind a primal argument; its adjoint goes to that of the array."""
        self.bind(array, param)
        self.inner.local.add(param)
        if not self.s.is_active(array):
            return
        assert isinstance(array, Var)
        self.s.ctx.active.add(param)
        if self.s.in_acc(array):
            self.inner.views[param] = (array, (self.index(),))
        self.elements.append((param, array))

    def seed(self, adjoint: Atom) -> Atom:
        """The element of a result's adjoint."""
        known = self.s.element(adjoint)
        return self.bind(adjoint) if known is None else known

    def finish(self) -> None:
        s, inner, b = self.s, self.inner, self.s.b
        mapped: list[tuple[Var, Atom]] = []
        for p, a in self.elements:
            d = inner.adj.get(p)
            if d is None:
                continue
            if p in inner.views:
                base, prefix = inner.views[p]
                inner.add(base, d, prefix)
            else:
                assert isinstance(a, Var)
                mapped.append((a, d))
        captured = list(inner.captured)
        scalars = [v for v in inner.outside() if v not in inner.captured and not isinstance(v.type, AccType)]
        if not (captured or mapped or scalars):
            return
        threaded = [v for v in captured if s.in_acc(v)]
        opened = [v for v in captured if not s.in_acc(v)]
        values = [d for _, d in mapped] + [inner.adj[v] for v in scalars]
        order = opened + threaded
        accs_in: list[Atom] = []
        for v in threaded:
            now = s.grab(v)
            assert now is not None
            accs_in.append(now)
        lam = ir.Lambda(
            tuple([inner.captured[v] for v in order] + self.params),
            tuple(inner.code()),
            tuple([inner.adj[v] for v in order] + values),
        )
        names = [f"{v.name}_bar" for v in order] + [f"{a.name}_bar" for a, _ in mapped]
        names += [f"{v.name}_part" for v in scalars]

        def emit(into: Builder, accs: tuple[Atom, ...]) -> list[Atom]:
            exp = ir.Map(self.width, (*accs, *accs_in, *self.args), lam)
            return list(into.emit(exp, *names))

        if opened:
            start = []
            for v in opened:
                now = s.grab(v)
                start.append((v, b.zeros(v.type, f"{v.name}_bar") if now is None else now))
            out = list(s.scatter_add(start, emit))
        else:
            out = emit(b, ())
        for v, x in zip(order, out, strict=False):
            s.adj[v] = x
        rest = out[len(order) :]
        for (a, _), x in zip(mapped, rest, strict=False):
            s.add(a, x)
        for v, x in zip(scalars, rest[len(mapped) :], strict=True):
            s.add(v, b.sum_outer(self.width, x, f"{v.name}_bar"))
