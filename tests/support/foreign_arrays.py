"""Arrays of another library in the CPU simulator's memory."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from futad.runtime import exchange
from futad.runtime.device import EmulatedDevice


class Foreign:
    """Another library's array in the CPU simulator's memory, seen through `__cuda_array_interface__`."""

    def __init__(self, device: EmulatedDevice, values: Any, stream: int | None = None, view: Any = lambda a: a) -> None:
        values = np.ascontiguousarray(values)
        self.base = device.alloc(max(1, values.nbytes))
        self.device = device
        memory = device.view(self.base)
        self.host = view(np.ndarray(values.shape, values.dtype, memory))
        np.ndarray(values.shape, values.dtype, memory)[...] = values
        self.address = self.host.ctypes.data
        about = self.host.__array_interface__
        self.about = {**about, "data": (self.address, not self.host.flags.writeable), "stream": stream}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.about

    def item(self) -> Any:
        return self.host.item()


class Tensor(Foreign):
    """The same seen through DLPack."""

    streams: list[Any] = []
    __cuda_array_interface__ = property()  # type: ignore[assignment]

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: Any = None) -> Any:
        self.streams.append(stream)
        capsule = self.host.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        exchange._Tensor.from_address(pointer(capsule, b"dltensor")).device_type = 2
        return capsule
