"""Which function lowers a construct at host level and in block mode (Note [Modes] in `lower.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from futad.core import ir as core
from futad.imp.dispatch import Destination
from futad.imp.ir import Expr
from futad.imp.views import Acc, Value
from futad.registry import registering

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer

Dispatch = Callable[["DeviceLowerer", core.Stm, Any, list[Destination]], Sequence[Value]]
HOST: dict[type, Dispatch] = {}
BLOCK: dict[type, Dispatch] = {}
on_host = registering(HOST)  # the lowering of node classes at host level
in_block = registering(BLOCK)  # in block mode


class SharedAcc(Acc):
    """An accumulator that several threads update."""

    __slots__ = ()


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
