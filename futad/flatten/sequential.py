"""Scopes in which nothing is worth more than one thread."""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.ir import Lambda, Program
from futad.core.types import Atom, Const, shape_of

TINY = 16  # elements


def works(lam: Lambda) -> bool:
    """Whether a loop's body has arrays, or loops: then the host would take long over it."""
    return lam.has(ir.At, ir.Update, ir.UpdateAcc, ir.Loop, ir.Soac)


def _tiny(atoms: Sequence[Atom]) -> bool:
    """Whether these are constant sizes of so few elements that a kernel is not worth it."""
    count = 1
    for a in atoms:
        if not isinstance(a, Const):
            return False
        count *= int(a.value)
    return count <= TINY


def parallel_inside(lam: Lambda, program: Program) -> bool:
    """Whether a scope has work for more than one thread."""
    for s in lam.stms:
        match e := s.exp:
            case ir.Soac() if not _tiny([e.width]):
                return True
            case ir.MatMul() if not _tiny([*shape_of(e.a.type), *shape_of(e.b.type)]):
                return True
            case ir.Copy() | ir.Concat() if not _tiny(shape_of(s.pat[0].type)):
                return True
            case ir.Update() | ir.UpdateAcc() if not _tiny(shape_of(e.value.type)):
                return True
            case ir.WithAcc() if not all(_tiny(shape_of(a.type)) for a in e.arrays):
                return True
            case ir.Call() if parallel_inside(program.funs[e.name].body, program):
                return True
        if any(parallel_inside(inner, program) for inner in e.lambdas()):
            return True
    return False


__all__ = ["parallel_inside", "works"]
