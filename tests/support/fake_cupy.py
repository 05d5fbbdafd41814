"""As much of CuPy, and of cuBLAS, as futad uses, over `fake_card.py`.

`install(monkeypatch, card)` puts it in the place of CuPy.  A stream being captured takes no allocation, synchronisation
or transfer to the host, as on a card.
"""

from __future__ import annotations

import ctypes
import sys
import types
from typing import Any
from weakref import WeakSet

import numpy as np

from futad.runtime import deviceprogram
from futad.runtime.device import EmulatedDevice
from tests.support.fake_card import (
    Array,
    Card,
    CUDADriverError,
    CUDARuntimeError,
    Event,
    Memory,
    OutOfMemoryError,
    Pinned,
    Pointer,
    Stream,
    launch,
    loaded,
    planted,
)  # fmt: skip


class Cublas:
    """cuBLAS as a library of C functions."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.stream = 0
        self.workspace = 0
        for name in ("cublasSgemm_v2", "cublasDgemm_v2"):
            setattr(self, name, _Function(lambda *a, t=_TYPES[name[6]]: self.single(t, *a)))
        for name in ("cublasSgemmStridedBatched", "cublasDgemmStridedBatched"):
            setattr(self, name, _Function(lambda *a, t=_TYPES[name[6]]: self.gemm(t, *a)))
        self.cublasCreate_v2 = _Function(self.create)
        self.cublasSetStream_v2 = _Function(self.set_stream)
        self.cublasSetWorkspace_v2 = _Function(self.set_workspace)
        self.cublasSetMathMode = _Function(lambda h, mode: card.log.append(("math", mode)))

    def create(self, out: Any) -> None:
        self.card.idle("cublasCreate")
        out._obj.value = 77

    def set_stream(self, handle: int, stream: int) -> None:
        assert handle == 77
        self.stream, self.workspace = stream, 0

    def set_workspace(self, handle: int, address: int, nbytes: int) -> int:
        if address % 256 or self.card.memory.place_of(address) is None or len(self.card.memory.view(address)) < nbytes:
            return 7
        self.workspace = address
        return 0

    def single(self, dtype: Any, *args: Any) -> int:
        handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = args
        return self.gemm(dtype, handle, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1)

    def gemm(self, dtype: Any, *args: Any) -> int:
        handle, ta, tb, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, batches = args
        card = self.card
        assert handle == 77 and np.ctypeslib.as_array(ctypes.cast(alpha, ctypes.POINTER(_C[dtype])), (1,))[0] == 1
        if not self.workspace and card.streams[self.stream].captured is not None:
            return 3  # it would allocate
        keep = float(np.ctypeslib.as_array(ctypes.cast(beta, ctypes.POINTER(_C[dtype])), (1,))[0])
        card.products.append((np.dtype(dtype).name, ta, tb, m, n, k, batches))
        operands = (a, lda, sa), (b, ldb, sb), (c, ldc, sc)
        card.work("gemm", self.stream,
                  lambda: column_major(card.memory, dtype, (ta, tb, m, n, k), *operands, keep, batches))  # fmt: skip
        return 0


_TYPES = {"S": np.float32, "D": np.float64}


class _Function:
    """A function of a C library."""

    argtypes: Any = None

    def __init__(self, do: Any) -> None:
        self.do = do

    def __call__(self, *args: Any) -> int:
        assert len(args) == len(self.argtypes)
        return self.do(*args) or 0


def install(monkeypatch: Any, card: Card) -> Card:
    """Put a CuPy that drives `card` into `sys.modules`, and compile kernels for the CPU.

    Programs on other cards, which may be lost for good, are not waited for.
    """
    monkeypatch.setattr(deviceprogram, "_programs", WeakSet())

    def count() -> int:
        if card.status:
            raise CUDARuntimeError(card.status, "cudaError")
        return card.count

    def memcpy(to: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        if kind == 3:
            card.work("copy", stream, lambda: ctypes.memmove(to, source, nbytes))
        elif kind == 1:
            card.idle("upload", stream)
            staged = ctypes.string_at(source, nbytes)
            card.streams[stream].add(lambda: ctypes.memmove(to, staged, nbytes))
        elif Pinned.made.get(to, 0) >= nbytes:
            card.idle("post", stream)
            card.streams[stream].add(lambda: ctypes.memmove(to, source, nbytes) if to in Pinned.made else None)
        else:
            card.idle("download", stream)
            card.finish(stream)
            ctypes.memmove(to, source, nbytes)

    def alloc(nbytes: int) -> Pointer:
        memory = card.pool.take(nbytes)
        return Pointer(card, memory.address, memory)

    def launch_kernel(f: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int,
                      table: int, extra: int) -> None:  # fmt: skip
        assert (gy, by, bz, shared, extra) == (1, 1, 1, 0, 0)
        launch(card, f, (gx, 1, gz), bx, stream, table)

    class Module:
        def load(self, code: bytes) -> None:
            if card.driver < 13000:
                raise CUDADriverError(222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION")
            self.handle = loaded(card, card.source)
            card.loaded = card.loaded or "  struct futad_slot " in card.source

        def get_function(self, name: str) -> Any:
            return types.SimpleNamespace(ptr=self.handle(name))

    class Device:
        id = 0
        compute_capability = "90"
        attributes = {"MultiProcessorCount": 2}

        def use(self) -> None:
            card.log.append(("use", 0))

    def record(event: int, stream: int) -> None:
        card.alive()
        stream = 0 if stream in (1, 2) else stream
        card.log.append(("record", stream))
        s = card.streams[stream]
        assert s.captured is None
        known = Event.known(event)
        known.op, known.card = s.add(lambda: None), card

    def wait(stream: int, event: int) -> None:
        card.alive()
        card.log.append(("wait", stream))
        card.streams[stream].add(lambda: None, Event.known(event).op)

    def synchronise(stream: int) -> None:
        card.idle("synchronise", stream)
        card.finish(stream)

    def pointer_attributes(ptr: int) -> Any:
        # Of memory that is not the device's CUDA says so without an error.
        here = card.memory.place_of(ptr) is not None
        return types.SimpleNamespace(device=0 if here else -2, devicePointer=ptr if here else 0)

    def set_limit(what: int, nbytes: int) -> None:
        if what != 2 or card.loaded:  # the heap is made when the first module that uses it is loaded
            raise CUDARuntimeError(1, "cudaErrorInvalidValue")
        card.heap = nbytes

    def zero(at: int, value: int, nbytes: int, stream: int) -> None:
        if card.streams[stream].captured is not None and not nbytes:
            raise CUDARuntimeError(1, "cudaErrorInvalidValue: a node of no bytes")
        card.work("zero", stream, lambda: ctypes.memset(at, value, nbytes))

    runtime = types.SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError, getDeviceCount=count, getDevice=lambda: 0,
        driverGetVersion=lambda: card.driver, runtimeGetVersion=lambda: 13000, memcpyAsync=memcpy, memsetAsync=zero,
        streamSynchronize=synchronise, streamWaitEvent=wait, eventRecord=record, deviceSynchronize=card.finish,
        pointerGetAttributes=pointer_attributes, cudaLimitMallocHeapSize=2,
        memGetInfo=lambda: (card.room - card.pool.used, card.room),
        deviceGetLimit=lambda what: card.heap, deviceSetLimit=set_limit,
        getDeviceProperties=lambda n: {"name": b"Fake card"},
    )  # fmt: skip
    cuda = types.SimpleNamespace(
        runtime=runtime, Device=Device, Event=Event, get_current_stream=lambda: card.current, alloc=alloc,
        alloc_pinned_memory=Pinned,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError, PooledMemory=Memory),
        function=types.SimpleNamespace(Module=Module),
        Stream=lambda non_blocking=False: Stream(card, 100 + len(card.streams), blocking=not non_blocking),
        UnownedMemory=lambda ptr, nbytes, owner, device: Pointer(card, ptr),
        MemoryPointer=lambda memory, offset: Pointer(card, memory.ptr + offset),
    )  # fmt: skip
    cupy = types.ModuleType("cupy")
    cupy.cuda = cuda  # type: ignore[attr-defined]
    cupy.ndarray = Array  # type: ignore[attr-defined]
    cupy.__version__ = "0.0"  # type: ignore[attr-defined]
    cupy.empty = lambda shape, dtype: Array(  # type: ignore[attr-defined]
        shape, dtype, alloc(max(1, int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize))
    )

    def not_equal(x: Array, y: int, out: Array) -> None:
        card.work("not_equal", card.current.ptr, lambda: np.not_equal(x.host(), y, out=out.host()))

    cupy.not_equal = not_equal  # type: ignore[attr-defined]
    cupy.get_default_memory_pool = lambda: card.pool  # type: ignore[attr-defined]
    driver = types.SimpleNamespace(CUDADriverError=CUDADriverError, launchKernel=launch_kernel)
    for name, module in {
        "cupy": cupy, "cupy_backends": types.ModuleType("cupy_backends"),
        "cupy_backends.cuda": types.ModuleType("cupy_backends.cuda"),
        "cupy_backends.cuda.api": types.SimpleNamespace(driver=driver),
    }.items():  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)

    def compile_cubin(source: str, arch: str, *, fmad: bool = True) -> Any:
        assert arch == "sm_90"
        card.source = source
        return types.SimpleNamespace(code=b"\x7fELF")

    monkeypatch.setattr("futad.runtime.cubin.compile_cubin", compile_cubin)
    monkeypatch.setattr("futad.runtime.cublas.load", lambda: typed(Cublas(card)))
    monkeypatch.setattr("futad.runtime.cublas._handles", {})
    _check_arguments(monkeypatch, card)
    return card


def array(card: Card, values: np.ndarray) -> Array:
    """Values in a new array, brought there by the current stream."""
    made = sys.modules["cupy"].empty(values.shape, values.dtype)
    staged = np.ascontiguousarray(values).tobytes()
    card.work("fill", card.current.ptr, lambda: ctypes.memmove(made.data.ptr, staged, len(staged)))
    return made


def typed(lib: Cublas) -> Cublas:
    """The library with the types that `futad.runtime.cublas` gives its functions."""
    from futad.runtime.cublas import SIGNATURES

    for name, argtypes in SIGNATURES.items():
        getattr(lib, name).argtypes = argtypes
    return lib


def _check_arguments(monkeypatch: Any, card: Card) -> None:
    """Launches pass as many arguments of the sizes that a kernel has: CUDA only reads what it is pointed to."""
    from futad.runtime.cupydevice import CupyDevice

    plain = CupyDevice.launch

    def checked(self: Any, frame: Any, blocks: Any, threads: int, wide: bool = False) -> None:
        module, name, _ = card.kernels[self.functions[wide][frame.name] - 1]
        given = [(8, True) if t is None else (t.itemsize, False) for t in frame.fields]
        assert module.sizes(name) == given, name
        plain(self, frame, blocks, threads, wide)

    monkeypatch.setattr(CupyDevice, "launch", checked)


_C = {np.float32: ctypes.c_float, np.float64: ctypes.c_double}
Matrix = tuple[int, int, int]


def column_major(
    memory: EmulatedDevice, dtype: Any, shape: tuple[int, int, int, int, int], a: Matrix, b: Matrix, c: Matrix,
    keep: float, batches: int,
) -> None:
    """What cuBLAS's strided batched product does: c = op(a) op(b) + keep * c, all column-major."""
    ta, tb, m, n, k = shape
    size = np.dtype(dtype).itemsize

    def matrix(x: Matrix, rows: int, columns: int, i: int) -> np.ndarray:
        address, leading, step = x
        assert leading >= max(1, rows)
        start = address + i * step * size
        return np.ndarray((rows, columns), dtype, memory.view(start), 0, (size, leading * size))

    for i in range(batches):
        left = matrix(a, k, m, i).T if ta else matrix(a, m, k, i)
        right = matrix(b, n, k, i).T if tb else matrix(b, k, n, i)
        out = matrix(c, m, n, i)
        out[...] = left @ right + (keep * out if keep else 0)


__all__ = ["Array", "CUDADriverError", "CUDARuntimeError", "Card", "Memory", "OutOfMemoryError", "Pointer", "Stream",
           "array", "column_major", "install", "planted"]  # fmt: skip
