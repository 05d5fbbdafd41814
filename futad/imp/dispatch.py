"""Which function lowers a construct, and the words that these functions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from futad.core import ir as core
from futad.imp.views import AccumulateInto, Hint, SlotDestination, Value, View
from futad.registry import registering

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

STACK_LIMIT = 64  # elements; larger arrays go to slots

BOUNDS, ASSERT, DIVISION, MEMORY = 1, 2, 3, 4

Destination = View | Hint | AccumulateInto | SlotDestination | None

Handler = Callable[["Lowerer", core.Stm, Any, list[Destination]], Sequence[Value]]
HANDLERS: dict[type, Handler] = {}
handles = registering(HANDLERS)
TAKE_DESTINATIONS = (
    core.Map, core.Fused, core.Scan, core.Concat, core.ArrayLit, core.Copy, core.MatMul, core.Contraction,
)  # fmt: skip
