"""What host code of a device program reports to whoever checks the values it binds (docs/checking.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.errors import ExecutionError
from futad.runtime.exchange import DeviceArray

if TYPE_CHECKING:
    from futad.runtime.deviceprogram import DeviceProgram
    from futad.runtime.host import Out, Runtime
    from futad.runtime.valuecheck import ValueCheck


def host_scalar(x: Any) -> Any:
    """A scalar as host code has it: an int for i64, a bool, NumPy's own for the others."""
    if type(x) is np.int64:
        return int(x)
    return bool(x) if type(x) is np.bool_ else x


class DeviceReports:
    """Reads the device's memory for reports; the call goes on as if nobody had looked."""

    def __init__(self, check: ValueCheck, runtime: Runtime) -> None:
        self.check, self.runtime = check, runtime

    def call(self, program: DeviceProgram, name: str, args: Sequence[Any], values: list[Any]) -> list[Out]:
        """A call whose values are checked; `values` are the arguments on the device."""
        self.check.begin(name, [self._given(a) if isinstance(a, DeviceArray) else a for a in args])
        try:
            outs = program.call(name, values)
        except ExecutionError as e:
            self.check.failed(e)
            raise
        self.check.finish([program.to_numpy(o) for o in outs])
        return outs

    def peek(self, address: int, dtype: np.dtype[Any]) -> Any:
        """A scalar of the device's memory."""
        return host_scalar(self._elements(address, dtype, (), ())[()])

    def array(
        self, number: int, address: int, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int]
    ) -> None:
        """A binding is an array in memory; strides in elements."""
        self.check.report(number, self._elements(address, dtype, shape, strides))

    def one(self, number: int, value: Any, dtype: np.dtype[Any], shape: Sequence[int]) -> None:
        """A binding is a scalar, or an array of one value."""
        self.runtime.check()
        self.check.report(number, np.broadcast_to(np.array(value, dtype), tuple(shape)))

    def counted(
        self, number: int, start: Any, step: Any, dtype: np.dtype[Any], offset: int, shape: Sequence[int],
        strides: Sequence[int],
    ) -> None:  # fmt: skip
        """A binding is an array that counts."""
        self.runtime.check()
        self.check.report_counted(number, dtype.type(start), dtype.type(step), offset, shape, strides)

    def _elements(self, address: int, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int]) -> Any:
        """A copy of an array of the device's memory.  Raises what kernels so far have failed of."""
        self.runtime.check()
        if 0 in shape:
            return np.empty(shape, dtype)
        ends = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        first = sum(e for e in ends if e < 0)
        there = np.empty(1 + sum(map(abs, ends)), dtype)
        self.runtime.device.look(address + first * dtype.itemsize, there)
        steps = [s * dtype.itemsize for s in strides]
        return np.ndarray(tuple(shape), dtype, there, -first * dtype.itemsize, tuple(steps))

    def _given(self, a: DeviceArray) -> Any:
        """The elements of an array of another library."""
        size = a.dtype.itemsize
        strides = a.strides or [s * size for s in np.cumprod([1, *a.shape[:0:-1]])[::-1]]
        return self._elements(a.address, a.dtype, a.shape, [int(s) // size for s in strides])
