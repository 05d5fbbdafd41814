"""Arrays of other libraries in device memory: what they say of themselves, without a copy.

(Of bools `host.py` makes one all the same: their bytes may be others than 0 and 1.)

A GPU array is recognised by `__cuda_array_interface__` (CuPy, Numba) or by DLPack (torch, JAX), and becomes a
`DeviceArray`: address, shape, dtype, strides.  DLPack comes first for libraries other than CuPy, since only it lets
the producer order its work before ours whatever stream that is on.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from futad.errors import DtypeError, Error

_DEVICE = (2, 13)  # DLDeviceType: kDLCUDA, kDLCUDAManaged
_CODES = {0: "i", 1: "u", 2: "f", 6: "b"}  # DLDataTypeCode


@dataclass(slots=True, eq=False)
class DeviceArray:
    """An array in device memory.

    `strides` are in bytes, None if it is C-contiguous.  `stream` is where its contents are being made (an address of
    a CUDA stream, 1 the legacy default one), None if they are there already or the producer has seen to it.
    `owner` keeps the memory alive.  `own` says that the callee may overwrite it only in a copy.  `device` is the
    number of the device that has it, None if that is not known.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    owner: Any
    stream: int | None = None
    path: str = ""
    own: bool = False
    device: int | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


def device_array(value: Any, path: str) -> DeviceArray | None:
    """`value` as an array in device memory, None if it is none.

    Raises DtypeError, naming the argument `path`, for one whose elements NumPy has no type for, or which its library
    does not give away (a torch tensor that requires grad).
    """
    if isinstance(value, DeviceArray):
        return value
    kind = type(value).__module__.partition(".")[0]
    if kind in ("builtins", "numpy"):
        return None
    try:
        if kind != "cupy" and _dlpack_device(value) in _DEVICE:
            return _from_dlpack(value, path)
        about = getattr(value, "__cuda_array_interface__", None)
    except Error:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError, NotImplementedError) as e:
        raise DtypeError(f"argument '{path}': {kind} does not give its array away: {e}") from None
    return None if about is None else _from_interface(value, about, path)


def dense_cupy(value: Any, dtype: np.dtype[Any], rank: int, path: str, own: bool) -> DeviceArray | None:
    """`value` as an array in device memory if it is CuPy's, dense, of that type and rank; None if it is not.

    CuPy says nothing of the stream that an array is made on: its users wait, or work on one."""
    cupy = sys.modules.get("cupy")
    if cupy is None or type(value) is not getattr(cupy, "ndarray", None):  # another thread may be importing it
        return None
    if value.dtype != dtype or value.ndim != rank or not value.flags.c_contiguous:
        return None
    data = value.data
    device = data.device_id if type(data.mem) is cupy.cuda.memory.PooledMemory else None  # others say as they like
    return DeviceArray(data.ptr, value.shape, dtype, None, value, None, path, own, device)


def _dlpack_device(value: Any) -> int | None:
    ask = getattr(value, "__dlpack_device__", None)
    return None if ask is None or not hasattr(value, "__dlpack__") else int(ask()[0])


def _from_interface(value: Any, about: dict[str, Any], path: str) -> DeviceArray:
    if about.get("mask") is not None:
        raise DtypeError(f"argument '{path}': masked arrays are not accepted; fill the array first")
    dtype = np.dtype(about["typestr"])
    if dtype.kind not in "biuf":
        raise DtypeError(f"argument '{path}': arrays of {about['typestr']} are not accepted")
    shape = tuple([int(n) for n in about["shape"]])
    strides = about.get("strides")
    return DeviceArray(
        int(about["data"][0] or 0), shape, dtype, _odd_strides(shape, strides, dtype.itemsize), value,
        stream=about.get("stream"), path=path,
    )  # fmt: skip


def _odd_strides(shape: tuple[int, ...], strides: Any, itemsize: int) -> tuple[int, ...] | None:
    """Strides in bytes, None if they are those of a C-contiguous array."""
    if strides is None or 0 in shape:
        return None
    strides, step = tuple([int(s) for s in strides]), itemsize
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and s != step:
            return strides
        step *= n
    return None


# --- DLPack -----------------------------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def current_stream() -> int:
    """The stream our work is on, by DLPack's numbers: 1 is the legacy default stream."""
    if "cupy" not in sys.modules:
        return 1
    return int(import_module("cupy").cuda.get_current_stream().ptr) or 1


def _from_dlpack(value: Any, path: str) -> DeviceArray:
    capsule = value.__dlpack__(stream=current_stream())
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    if tensor.lanes != 1 or tensor.code not in _CODES:
        name = str(getattr(value, "dtype", f"type {tensor.code} of {tensor.bits} bits"))
        raise DtypeError(f"argument '{path}': arrays of {name} are not accepted", hint="convert it first")
    dtype = np.dtype(f"{_CODES[tensor.code]}{tensor.bits // 8}")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        strides = _odd_strides(shape, [s * dtype.itemsize for s in tensor.strides[: tensor.ndim]], dtype.itemsize)
    # The capsule frees the tensor's description when it goes, so it is kept with the array, unconsumed.
    return DeviceArray(
        (tensor.data or 0) + tensor.byte_offset, shape, dtype, strides, (value, capsule),
        path=path,
    )  # fmt: skip


def device_array_like(value: Any) -> bool:
    """Whether `value` is an array in device memory, without asking for its address."""
    if type(value).__module__.partition(".")[0] in ("builtins", "numpy"):
        return False
    try:
        device = _dlpack_device(value)
        return device in _DEVICE if device is not None else hasattr(value, "__cuda_array_interface__")
    except (BufferError, RuntimeError, TypeError, ValueError):
        return False
