"""Which numbers of a kernel are indices, so that 32 bits do for them wherever the host has seen that they fit.

Arithmetic in 64 bits takes several instructions where 32 bits take one.  So a kernel's text has a type `futad_ix`, and
is compiled twice, the second time only when it is needed: with 32 bits for launches of fewer points than the device's
limit `narrow`, whose arrays have fewer elements and whose parameters that are indices are less; with 64 bits for all
others.

- A place in an array is computed in `futad_ix`: sums and products are right if the place fits, and the ones on the way
  exceed it little, as the host's limit is half of what 32 bits hold.
- Variables are `futad_ix` if they are such parameters, quotients or remainders of them, or run up to one of them or to
  the number of points.
- Everything else on i64 is computed in 64 bits, data above all.
"""

from __future__ import annotations

from futad.core.types import I64
from futad.flatten import kernel as kir
from futad.flatten.kernel import Kernel
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.walk import parts, statements

SMALL = 1 << 30
WHOLE = (ir.For, kir.Stride, kir.ScanAll, kir.SubHist, kir.StagedRows, kir.Tile, ir.Pointer, ir.SetPointer)


def narrow_params(k: Kernel) -> set[str]:
    """The i64 parameters that are used as indices."""
    scalars = {name for name, t, pointer in k.params if t is I64 and not pointer}
    used: set[str] = set()

    def use(e: Expr) -> None:
        if isinstance(e, ir.Ref):
            used.add(e.name)

    for s in statements(k.body):
        for e in s.exprs() if isinstance(s, WHOLE) else ():
            use(e)
        for x in parts(s):
            if isinstance(x, ir.Bin):
                use(x.left)
                use(x.right)
            elif isinstance(x, ir.Load):
                use(x.index)
        if isinstance(s, (ir.Store, kir.Atomic)):
            use(s.index)
    return scalars & used


class Indices:
    """The variables of a kernel that are `futad_ix`."""

    def __init__(self) -> None:
        self.names = set(kir.PROVIDED)

    def narrow(self, e: Expr) -> bool:
        """Whether the text of an expression is a `futad_ix`, or a small number."""
        match e:
            case ir.Ref(name):
                return name in self.names
            case ir.Num(value, t):
                return t is I64 and abs(int(value)) < SMALL
            case ir.Bin("/" | "%", a, b):
                return self.narrow(a) and self.narrow(b)
        return False
