"""What the tests of the CPU simulator need: a C++ compiler, and a source program compiled for the device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from futad.backend.cuda import DeviceBackend
from futad.backend.device_cost import Account, count
from futad.core.interp import Interpreter
from futad.core.ir import Fun, Program
from futad.pipeline import compile_program
from futad.runtime.device import EmulatedDevice
from futad.runtime.deviceprogram import DeviceProgram
from futad.source import compile_text
from futad.testing.build import device_backend

BY_HOST = 'nest "*": no one-block'  # a schedule: the host runs every loop, as it does wide ones


class OnDevice:
    """A source program, and what tests look at of it: each made when a test first asks for it.

    Entries go by their names in the source; `args` are all of the core function's parameters, sizes first.
    """

    def __init__(
        self, source: str, name: str = "main", check: bool = False, *, loops_by_host: bool = False
    ) -> None:
        self.source, self.name, self.check, self.loops_by_host = source, name, check, loops_by_host

    @cached_property
    def program(self) -> Program:
        return compile_program(compile_text(self.source, self.name), check=self.check)

    @cached_property
    def backend(self) -> DeviceBackend:
        return device_backend(self.program, loops_by_host=self.loops_by_host)

    @cached_property
    def emulated(self) -> DeviceProgram:
        return self.on(EmulatedDevice())

    def on(self, device: EmulatedDevice) -> DeviceProgram:
        """The program on a device of its own."""
        return self.backend.on(device)

    def fun(self, entry: str) -> Fun:
        """An entry's function in core."""
        return next(f for f in self.program.funs.values() if f.entry is not None and f.entry.name == entry)

    def symbol(self, entry: str) -> str:
        return self.fun(entry).name

    def run(self, entry: str, args: Sequence[Any]) -> list[Any]:
        return self.emulated.run(self.symbol(entry), args)

    def interpreted(self, entry: str, args: Sequence[Any]) -> list[Any]:
        """What the interpreter gives; what it overwrites are copies."""
        args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        return Interpreter(self.program).run(self.symbol(entry), args)

    def count(self, entry: str, sizes: dict[str, int]) -> Account:
        """What a call costs, from sizes alone."""
        return count(self.backend.module, self.program, self.symbol(entry), sizes)
