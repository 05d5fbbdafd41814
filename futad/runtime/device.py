"""Devices: memory by address, copies, launches.  One on the CPU (emulated), one through CuPy.

A kernel's argument is an address (int) or a NumPy scalar.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from futad.errors import BackendError, MemoryError_


@dataclass(frozen=True, slots=True)
class Limits:
    """What launches are planned by: threads of a block and blocks of a grid, at most; elements a block should have
    to fold; bytes of memory that the threads of one launch may have for themselves."""

    thread_block: int
    fold_block: int
    blocks: int
    chunk: int
    scratch: int
    thresholds: tuple[int, int, int, int]  # BLOCK_INNER, ENOUGH_THREADS, LONG_INNER, ENOUGH_TILES of flatten/


class Device(Protocol):
    """What the host side of a program needs of a device.  Work is in order, on one stream."""

    limits: Limits
    cuda: bool

    def compile(self, source: str, names: Sequence[str]) -> None:
        """Make the kernels of a text ready.  Raises BackendError."""

    def alloc(self, nbytes: int) -> int:
        """The address of new memory, at least 64-byte aligned.  Raises MemoryError_."""

    def free(self, address: int) -> None:
        """Give memory back."""

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a C-contiguous array to the device."""

    def download(self, address: int, array: np.ndarray[Any, Any]) -> None:
        """Fill a C-contiguous array from the device, after all work so far."""

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy within the device."""

    def zero(self, address: int, nbytes: int) -> None:
        """Set bytes to zero."""

    def launch(
        self, name: str, blocks: tuple[int, int], threads: int, args: Sequence[Any], pointers: Sequence[bool]
    ) -> None:
        """Start a kernel on a grid of that width and depth (its x and z)."""

    def synchronise(self) -> None:
        """Wait for all work."""

    def describe(self) -> str:
        """What the device is, with the versions of what drives it."""


class EmulatedDevice:
    """The CPU as a device: every allocation is a NumPy array, kernels are compiled by the host's compiler.

    `seed` makes blocks interleave at random; `sanitize` is that of `EmulatedModule`.
    """

    cuda = False
    limits = Limits(32, 32, 4, 64, 1 << 26, (8, 512, 256, 2))

    def __init__(self, *, seed: int | None = None, sanitize: str | None = None) -> None:
        self.seed, self.sanitize = seed, sanitize
        self.starts: list[int] = []
        self.buffers: dict[int, np.ndarray[Any, Any]] = {}

    def compile(self, source: str, names: Sequence[str]) -> None:
        from futad.runtime.emulated import EmulatedModule

        self.module = EmulatedModule(source, sanitize=self.sanitize, seed=self.seed) if names else None

    def alloc(self, nbytes: int) -> int:
        try:
            buffer = np.zeros(nbytes + 64, np.uint8)
        except MemoryError:
            raise MemoryError_(f"out of memory: {nbytes} bytes are needed for an array") from None
        skip = -buffer.ctypes.data % 64
        buffer = buffer[skip : skip + nbytes]
        address = buffer.ctypes.data
        bisect.insort(self.starts, address)
        self.buffers[address] = buffer
        return address

    def free(self, address: int) -> None:
        self.starts.remove(address)
        del self.buffers[address]

    def view(self, address: int) -> np.ndarray[Any, Any] | None:
        """The memory from an address to its allocation's end."""
        at = bisect.bisect_right(self.starts, address) - 1
        if at < 0:
            return None
        start = self.starts[at]
        return self.buffers[start][address - start :]

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def download(self, address: int, array: np.ndarray[Any, Any]) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        ctypes.memmove(to, source, nbytes)

    def zero(self, address: int, nbytes: int) -> None:
        ctypes.memset(address, 0, nbytes)

    def launch(
        self, name: str, blocks: tuple[int, int], threads: int, args: Sequence[Any], pointers: Sequence[bool]
    ) -> None:
        values = [self.view(a) if p else a for a, p in zip(args, pointers, strict=True)]
        assert self.module is not None
        self.module.launch(name, (blocks[0], 1, blocks[1]), threads, 0, values)

    def synchronise(self) -> None:
        """Launches have ended when they return."""

    def describe(self) -> str:
        return "emulated"


class CupyDevice:
    """An NVIDIA GPU through CuPy: kernels compiled to a cubin, launched by the driver's own call."""

    cuda = True

    def __init__(self) -> None:
        try:
            import cupy
        except ImportError:
            raise BackendError(
                "the cuda backend needs CuPy", hint="pip install cupy-cuda13x (or cupy-cuda12x), or use 'emulated'"
            ) from None
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as e:
            raise BackendError(f"no GPU can be used: {e}", hint="use backend 'emulated', 'c' or 'multicore'") from None
        if count == 0:
            raise BackendError("there is no GPU", hint="use backend 'emulated', 'c' or 'multicore'")
        from cupy_backends.cuda.api import driver

        self.cupy, self.driver = cupy, driver
        self.runtime = cupy.cuda.runtime
        device = cupy.cuda.Device()
        processors = device.attributes["MultiProcessorCount"]
        self.limits = Limits(128, 256, 16 * processors, 4096, 1 << 30, (32, 64 * 1024, 1024, processors))
        self.memory: dict[int, Any] = {}
        self.frames: dict[str, tuple[Any, Any, Any]] = {}

    @property
    def stream(self) -> int:
        return self.cupy.cuda.get_current_stream().ptr

    def compile(self, source: str, names: Sequence[str]) -> None:
        from futad.runtime.cubin import compile_cubin

        if not names:
            return
        capability = self.cupy.cuda.Device().compute_capability
        made = compile_cubin(source, f"sm_{capability}")
        self.module = self.cupy.RawModule(path=str(made.path))
        self.functions = {n: self.module.get_function(n).kernel for n in names}
        heap = 256 << 20
        if "malloc(" in source and self.runtime.deviceGetLimit(self.runtime.cudaLimitMallocHeapSize) < heap:
            self.runtime.deviceSetLimit(self.runtime.cudaLimitMallocHeapSize, heap)

    def alloc(self, nbytes: int) -> int:
        try:
            made = self.cupy.cuda.alloc(nbytes)
        except self.cupy.cuda.memory.OutOfMemoryError:
            raise MemoryError_(f"out of device memory: {nbytes} bytes are needed for an array") from None
        self.memory[made.ptr] = made
        return int(made.ptr)

    def free(self, address: int) -> None:
        del self.memory[address]

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        # Pageable memory: the driver has staged the data when the call returns.
        self.runtime.memcpyAsync(address, array.ctypes.data, array.nbytes, 1, self.stream)

    def download(self, address: int, array: np.ndarray[Any, Any]) -> None:
        self.runtime.memcpyAsync(array.ctypes.data, address, array.nbytes, 2, self.stream)
        self.runtime.streamSynchronize(self.stream)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        self.runtime.memcpyAsync(to, source, nbytes, 3, self.stream)

    def zero(self, address: int, nbytes: int) -> None:
        self.runtime.memsetAsync(address, 0, nbytes, self.stream)

    def launch(
        self, name: str, blocks: tuple[int, int], threads: int, args: Sequence[Any], pointers: Sequence[bool]
    ) -> None:
        frame = self.frames.get(name)
        if frame is None:
            words = (ctypes.c_uint64 * max(1, len(args)))()
            base = ctypes.addressof(words)
            places = (ctypes.c_void_p * max(1, len(args)))(*[base + 8 * i for i in range(len(args))])
            frame = self.frames[name] = (words, places, np.frombuffer(memoryview(words).cast("B"), np.uint8))
        words, places, raw = frame
        for i, (a, p) in enumerate(zip(args, pointers, strict=True)):
            if p:
                words[i] = a
            else:
                b = a.tobytes()
                raw[8 * i : 8 * i + len(b)] = np.frombuffer(b, np.uint8)
        f = self.functions[name]
        address = ctypes.addressof(places)
        self.driver.launchKernel(f.ptr, blocks[0], 1, blocks[1], threads, 1, 1, 0, self.stream, address, 0)

    def synchronise(self) -> None:
        self.runtime.streamSynchronize(self.stream)

    def describe(self) -> str:
        name = self.runtime.getDeviceProperties(self.cupy.cuda.Device().id)["name"].decode()
        versions = f"driver {self.runtime.driverGetVersion()}, runtime {self.runtime.runtimeGetVersion()}"
        return f"{name}, {versions}, CuPy {self.cupy.__version__}"
