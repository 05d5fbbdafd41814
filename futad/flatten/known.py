"""What the host must know: sizes, bounds, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.core import ir as core
from futad.core.node import Range
from futad.core.types import ArrayType, Var, shape_of


def known_on_host(program: core.Program) -> set[Var]:
    """Scalars the host needs: sizes, bounds, ranges, conditions."""
    out: set[Var] = set()

    def need(atoms: Sequence[Any]) -> None:
        out.update(a for a in atoms if isinstance(a, Var))

    def walk(lam: core.Lambda) -> None:
        for p in lam.params:
            need(shape_of(p.type))
        for stm in lam.stms:
            e = stm.exp
            for v in stm.pat:
                need(shape_of(v.type))
            if hasattr(e, "width"):
                need([e.width])
            match e:
                case core.For(bound):
                    need([bound])
                case core.ArgSort(_, bound):
                    need([bound])
                case core.Iota(count):
                    need([count])
                case core.Replicate(shape) | core.Reshape(_, shape) | core.Scratch(_, shape):
                    need(shape)
                case core.At(_, index) | core.Update(_, index):
                    for i in index:
                        if isinstance(i, Range):
                            need([i.start, i.count, i.stride])
                    if isinstance(e, core.At) and isinstance(stm.pat[0].type, ArrayType):
                        need(index)
                case core.If(cond):
                    need([cond])
                case core.While(inits):
                    need([inits[0], e.body.result[0]])
            for inner in e.lambdas():
                walk(inner)

    for f in program.funs.values():
        walk(f.body)
        for v in f.ret:
            need(shape_of(v.type))
    return out
