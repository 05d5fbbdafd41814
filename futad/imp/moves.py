"""Parts of arrays that are copied to others which they may overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core.types import Prim
from futad.imp.node import Expr, Read, Stmt, Written
from futad.imp.views import Mem, View

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer


@dataclass(slots=True, eq=False)
class Move(Stmt):
    """As `ir.Copy`, of elements that may overlap those they go to."""

    target: Written
    offset: Expr
    source: Read
    source_offset: Expr
    count: Expr
    elem: Prim


def moved(lo: Lowerer, dst: View, src: View) -> bool:
    """Emit such a copy, if the target has it: of adjacent elements, outside of nests."""
    if not (lo.target.moves and lo.nests == 0 and dst.dense and src.dense):
        return False
    if not (isinstance(dst.base, Mem) and isinstance(src.base, Mem)):
        return False
    lo.emit(Move(dst.base.pointer, dst.offset, src.base.pointer, src.offset, dst.count(), dst.elem))
    return True


__all__ = ["Move", "moved"]
