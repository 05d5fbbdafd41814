"""Which function lowers a construct at host level and in block mode (Note [Modes] in `lower.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from futad.core import ir as core
from futad.imp.dispatch import Destination
from futad.imp.ir import Expr
from futad.imp.views import Acc, Value

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer

Dispatch = Callable[["DeviceLowerer", core.Stm, Any, list[Destination]], Sequence[Value]]
HOST: dict[type, Dispatch] = {}
BLOCK: dict[type, Dispatch] = {}


class SharedAcc(Acc):
    """An accumulator that several threads update."""

    __slots__ = ()


def on_host(*classes: type) -> Callable[[Dispatch], Dispatch]:
    """Register the lowering of node classes at host level."""

    def register(f: Dispatch) -> Dispatch:
        for cls in classes:
            HOST[cls] = f
        return f

    return register


def in_block(*classes: type) -> Callable[[Dispatch], Dispatch]:
    """Register the lowering of node classes in block mode."""

    def register(f: Dispatch) -> Dispatch:
        for cls in classes:
            BLOCK[cls] = f
        return f

    return register


@contextmanager
def over(lo: DeviceLowerer, sizes: Sequence[Expr], what: str) -> Iterator[list[Expr]]:
    """The points of a space: a kernel of its own at host level, shared out between the threads in block mode."""
    if lo.mode == "block":
        with lo.shared_out(sizes) as point:
            yield point
        return
    with lo.kernel() as body, lo.space(sizes) as (point, total):
        yield point
    lo.launch(body, "thread", total, what)
