"""As much of CuPy as futad uses, over the emulated device: addresses, streams, graphs; kernels run on the CPU.

`install(monkeypatch)` puts it in the place of CuPy and returns the `Card`, which keeps a log of calls.  A stream being
captured takes no allocation, synchronisation or transfer to the host, as on a card.
"""

from __future__ import annotations

import ctypes
import sys
import types
from typing import Any

import numpy as np

from futad.runtime.device import EmulatedDevice
from futad.runtime.emulated import EmulatedModule


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class CUDADriverError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


class Card:
    """The state behind the module: memory, the current stream, what is being captured."""

    def __init__(self, count: int = 1, status: int = 0, driver: int = 13000) -> None:
        self.count, self.status, self.driver = count, status, driver
        self.memory = EmulatedDevice()
        self.log: list[tuple[Any, ...]] = []
        self.streams: dict[int, Stream] = {}
        self.legacy = Stream(self, 0)
        self.current: Stream = self.legacy
        self.source = ""
        self.kernels: list[tuple[EmulatedModule, str]] = []
        self.products: list[tuple[Any, ...]] = []
        self.heap, self.loaded = 8 << 20, False  # what threads may allocate; whether it is there

    def work(self, what: str, stream: int, step: Any, *about: Any) -> None:
        """Something enqueued on a stream: done, or recorded if the stream is being captured."""
        self.log.append((what, stream, *about))
        captured = self.streams[stream].captured
        if captured is None:
            step()
        else:
            captured.append(step)

    def idle(self, what: str, stream: int | None = None) -> None:
        """Something that no capture allows, of this stream or (for memory) of any."""
        for s in self.streams.values():
            if s.captured is not None and stream in (None, s.ptr):
                raise CUDARuntimeError(900, f"cudaErrorStreamCaptureUnsupported: {what}")
        self.log.append((what, stream))


class Stream:
    def __init__(self, card: Card, ptr: int) -> None:
        self.card, self.ptr = card, ptr
        self.captured: list[Any] | None = None
        card.streams.setdefault(ptr, self)

    def use(self) -> Stream:
        self.card.current = self
        return self

    def __enter__(self) -> Stream:
        self.before = self.card.current
        return self.use()

    def __exit__(self, *_: Any) -> None:
        self.card.current = self.before

    def begin_capture(self) -> None:
        if self.ptr == 0:
            raise CUDARuntimeError(900, "the legacy stream cannot be captured")
        assert self.captured is None
        self.captured = []

    def end_capture(self) -> Graph:
        assert self.captured is not None
        made, self.captured = self.captured, None
        return Graph(self.card, made)


class Graph:
    def __init__(self, card: Card, steps: list[Any]) -> None:
        self.card, self.steps = card, steps

    def launch(self, stream: Stream | None = None) -> None:
        self.card.log.append(("graph", (stream or self.card.current).ptr, len(self.steps)))
        for s in self.steps:
            s()


class Array:
    """cupy.ndarray: dense or strided memory of the card."""

    def __init__(self, shape: Any, dtype: Any, memptr: Any = None, strides: Any = None) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        self.card: Card = memptr.card
        self.data = memptr
        self.strides = strides

    def host(self) -> np.ndarray:
        low = self.data.ptr
        for n, s in zip(self.shape, self.strides or (), strict=False):
            low += min(0, s * (n - 1))
        memory = self.card.memory.view(low)
        return np.ndarray(self.shape, self.dtype, memory, self.data.ptr - low, self.strides)

    def __setitem__(self, key: Any, value: Array) -> None:
        assert key is Ellipsis
        self.card.work("copy_strided", self.card.current.ptr, lambda: np.copyto(self.host(), value.host()))

    def get(self) -> np.ndarray:
        self.card.idle("get", self.card.current.ptr)
        return self.host().copy()

    def item(self) -> Any:
        return self.get().item()

    def copy(self) -> Array:
        made = Array(self.shape, self.dtype, Pointer(self.card, self.card.memory.alloc(max(1, self.nbytes))))
        made[...] = self
        return made

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False), "strides": self.strides,
            "stream": self.card.current.ptr or 1, "version": 3,
        }  # fmt: skip


Array.__module__ = "cupy"


class Pointer:
    def __init__(self, card: Card, ptr: int) -> None:
        self.card, self.ptr = card, ptr


def install(monkeypatch: Any, card: Card) -> Card:
    """Put a CuPy that drives `card` into `sys.modules`, and compile kernels for the CPU."""

    def count() -> int:
        if card.status:
            raise CUDARuntimeError(card.status, "cudaError")
        return card.count

    def memcpy(to: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        if kind == 3:
            card.work("copy", stream, lambda: ctypes.memmove(to, source, nbytes) and None)
            return
        card.idle("upload" if kind == 1 else "download", stream)
        ctypes.memmove(to, source, nbytes)

    def alloc(nbytes: int) -> Pointer:
        card.idle("alloc")
        return Pointer(card, card.memory.alloc(nbytes))

    def launch(f: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int,
               table: int, extra: int) -> None:  # fmt: skip
        module, name = card.kernels[f - 1]
        assert (gy, by, bz, shared, extra) == (1, 1, 1, 0, 0)
        sizes = module.sizes(name)
        places = (ctypes.c_void_p * len(sizes)).from_address(table)
        packed = ctypes.create_string_buffer(8 * max(1, len(sizes)))
        for i, (n, _) in enumerate(sizes):
            ctypes.memmove(ctypes.addressof(packed) + 8 * i, places[i], n)
        own = (ctypes.c_void_p * max(1, len(sizes)))(*[ctypes.addressof(packed) + 8 * i for i in range(len(sizes))])
        keep = packed, own
        card.work(
            "launch", stream, lambda: module.launch_packed(name, (gx, 1, gz), bx, ctypes.addressof(keep[1])), name
        )

    class Module:
        def load(self, code: bytes) -> None:
            if card.driver < 13000:
                raise CUDADriverError("CUDA_ERROR_UNSUPPORTED_PTX_VERSION")
            self.made = EmulatedModule(card.source)
            card.loaded = card.loaded or "  struct futad_slot " in card.source

        def get_function(self, name: str) -> Any:
            card.kernels.append((self.made, name))
            return types.SimpleNamespace(ptr=len(card.kernels))

    class Device:
        id = 0
        compute_capability = "90"
        attributes = {"MultiProcessorCount": 2}

        def use(self) -> None:
            card.log.append(("use", 0))

    class Event:
        done = True
        ptr = 5

        def __init__(self, **_: Any) -> None:
            pass

        def record(self, stream: Stream) -> None:
            card.log.append(("record", stream.ptr))

    def new_stream(non_blocking: bool = False) -> Stream:
        return Stream(card, 100 + len(card.streams))

    def pointer_attributes(ptr: int) -> Any:
        if card.memory.place_of(ptr) is None:
            raise CUDARuntimeError(1, "cudaErrorInvalidValue")
        return types.SimpleNamespace(device=0, devicePointer=ptr)

    def set_limit(what: int, nbytes: int) -> None:
        if what != 2 or card.loaded:  # the heap is made when the first module that uses it is loaded
            raise CUDARuntimeError(1, "cudaErrorInvalidValue")
        card.heap = nbytes

    runtime = types.SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError, getDeviceCount=count, getDevice=lambda: 0,
        driverGetVersion=lambda: card.driver, runtimeGetVersion=lambda: 13000, memcpyAsync=memcpy,
        memsetAsync=lambda at, value, n, s: card.work("zero", s, lambda: ctypes.memset(at, value, n) and None),
        streamSynchronize=lambda s: card.idle("synchronise", s),
        streamWaitEvent=lambda s, e: card.log.append(("wait", s)),
        pointerGetAttributes=pointer_attributes, memGetInfo=lambda: (1000, 5000), cudaLimitMallocHeapSize=2,
        deviceGetLimit=lambda what: card.heap, deviceSetLimit=set_limit,
        getDeviceProperties=lambda n: {"name": b"Fake card"},
    )  # fmt: skip
    cuda = types.SimpleNamespace(
        runtime=runtime, Device=Device, Event=Event, get_current_stream=lambda: card.current, alloc=alloc,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError), function=types.SimpleNamespace(Module=Module),
        Stream=type("Maker", (), {"__new__": staticmethod(lambda cls, **k: new_stream(**k)), "null": card.legacy}),
        ExternalStream=lambda ptr: card.streams.get(ptr) or Stream(card, ptr),
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
        card.work("not_equal", card.current.ptr, lambda: np.not_equal(x.host(), y, out=out.host()) is None)

    cupy.not_equal = not_equal  # type: ignore[attr-defined]
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 24)  # type: ignore[attr-defined]
    driver = types.SimpleNamespace(CUDADriverError=CUDADriverError, launchKernel=launch)

    def gemm(dtype: Any, *args: Any) -> None:
        handle, ta, tb, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, batches = args
        assert handle == 77 and np.ctypeslib.as_array(ctypes.cast(alpha, ctypes.POINTER(_C[dtype])), (1,))[0] == 1
        keep = float(np.ctypeslib.as_array(ctypes.cast(beta, ctypes.POINTER(_C[dtype])), (1,))[0])
        card.products.append((np.dtype(dtype).name, ta, tb, m, n, k, batches))
        operands = (a, lda, sa), (b, ldb, sb), (c, ldc, sc)
        card.work("gemm", card.current.ptr,
                  lambda: column_major(card.memory, dtype, (ta, tb, m, n, k), *operands, keep, batches))  # fmt: skip

    def single(dtype: Any, *args: Any) -> None:
        handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = args
        gemm(dtype, handle, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1)

    cublas = types.SimpleNamespace(
        sgemm=lambda *a: single(np.float32, *a), dgemm=lambda *a: single(np.float64, *a),
        create=lambda: 77, setMathMode=lambda h, mode: card.log.append(("math", mode)),
        sgemmStridedBatched=lambda *a: gemm(np.float32, *a), dgemmStridedBatched=lambda *a: gemm(np.float64, *a),
    )  # fmt: skip
    for name, module in {
        "cupy": cupy, "cupy_backends": types.ModuleType("cupy_backends"),
        "cupy_backends.cuda": types.ModuleType("cupy_backends.cuda"),
        "cupy_backends.cuda.api": types.SimpleNamespace(driver=driver),
        "cupy_backends.cuda.libs": types.SimpleNamespace(cublas=cublas),
    }.items():  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)

    def compile_cubin(source: str, arch: str) -> Any:
        assert arch == "sm_90"
        card.source = source
        return types.SimpleNamespace(code=b"\x7fELF")

    monkeypatch.setattr("futad.runtime.cubin.compile_cubin", compile_cubin)
    return card


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
