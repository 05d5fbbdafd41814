"""The interpreter of the core IR, with all constructs: its machine is in `interp_machine.py`."""

from __future__ import annotations

from futad.core import interp_arrays, interp_records, interp_soacs  # noqa: F401  (they register their handlers)
from futad.core.interp_machine import HANDLERS, TOP, Acc, Interpreter, TooLong, Value
from futad.core.work import Work

__all__ = ["HANDLERS", "TOP", "Acc", "Interpreter", "TooLong", "Value", "Work"]
