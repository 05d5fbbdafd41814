"""Lowering to kernels for checked execution (docs/checking.md).

What host code does is watched: the statement that it is doing, the arrays that the statement reads, which are to be
what they were when they were bound, and the claims of `imp/watch.py`.  Accesses inside kernels are looked up where they
are made (`kernels/check_device.h`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from futad.core import ir as core
from futad.core.types import Var
from futad.flatten.fused_products import Deferred
from futad.flatten.lower import DeviceLowerer
from futad.imp import ir
from futad.imp.claims import Doing, Iteration
from futad.imp.ir import Expr
from futad.imp.lower import Scope
from futad.imp.views import Joined, Value, View
from futad.imp.watch import Watching, looks
from futad.target import CUDA, Target


class WatchingDevice(Watching, DeviceLowerer):
    """A lowering whose host code says what checked execution needs."""

    plain = False

    def __init__(self, program: core.Program, target: Target = CUDA) -> None:
        super().__init__(program, target)

    @property
    def watched(self) -> bool:
        return self.mode == "host"

    def receive(self, param: ir.Param, shape: Sequence[Expr]) -> None:
        """The device has copied it."""
        self.argument(param.name, param)

    def begins(self, stm: core.Stm) -> None:
        self.emit(Doing(self.binding))
        e = stm.exp
        if looks(e) or stm in self.deferred or stm in self.products:
            return
        changed = e.consumes()  # need not be whole any more
        self.examine(v for v in core.stm_free(stm) if v not in changed)

    def ended(self) -> None:
        self.emit(Doing(self.binding))

    def examine(self, read: Iterable[Var]) -> None:
        """What is read is as it was; arrays that are deferred, what they are made from."""
        for v in read:
            x = self.env.get(v)
            if not isinstance(x, View):
                continue
            if isinstance(x.base, Deferred):
                self.examine(core.stm_free(x.base.stm))
            elif isinstance(x.base, Joined):
                for part in x.base.views:
                    self.uses(part)
            else:
                self.uses(x)

    def stm(self, stm: core.Stm, sc: Scope) -> None:
        super().stm(stm, sc)
        taken = self.products.get(stm)
        if self.watched and taken is not None and taken.sums is not None:
            # The product has put them where they were said to be.
            self.renew([v for v in taken.sums.pat if v in self.env])

    def emit(self, stmt: ir.Stmt) -> None:
        if isinstance(stmt, ir.Stack | Doing | Iteration) and not self.watched:
            DeviceLowerer.emit(self, stmt)
            return
        super().emit(stmt)

    def verify(self, stm: core.Stm, sc: Scope, before: dict[Var, Value], since: str) -> None:
        """Products take other statements along, before or after which they run."""
        taken = self.products.get(stm)
        if taken is None and all(p.sums is not stm for p in self.products.values()):
            super().verify(stm, sc, before, since)


__all__ = ["WatchingDevice"]
