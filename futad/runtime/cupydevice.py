"""An NVIDIA GPU through CuPy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from futad.errors import BackendError, MemoryError_
from futad.runtime.device import Frame, Limits, Product, Thresholds

WITHOUT = "backends 'multicore', 'c' and 'interp' work without a GPU, and 'emulated' runs the kernels on the CPU"
INSTALL = "pip install 'futad[cuda13]' (or 'futad[cuda12]' for drivers older than 580)"
_TO_DEVICE, _TO_HOST, _WITHIN = 1, 2, 3  # cudaMemcpyKind
_NO_TRANSPOSE, _TRANSPOSE = 0, 1  # cublasOperation_t
_DEFAULT_MATH, _TF32_MATH = 0, 3  # cublasMath_t


class CupyDevice:
    """An NVIDIA GPU through CuPy: kernels compiled to a cubin, launched by the driver's own call on CuPy's current
    stream, memory from CuPy's pool.

    Raises BackendError, saying what to install and what works without, if there is no CuPy, driver or GPU.
    """

    cuda = True

    def __init__(self) -> None:
        try:
            import cupy
        except ImportError as e:
            raise BackendError(f"the cuda backend needs CuPy ({e})", hint=f"{INSTALL}; {WITHOUT}") from None
        self.cupy = cupy
        self.runtime = runtime = cupy.cuda.runtime
        _check_driver(runtime)
        from cupy_backends.cuda.api import driver

        self.driver = driver
        self.device = cupy.cuda.Device()
        self.model = str(runtime.getDeviceProperties(self.number)["name"].decode())
        processors = self.device.attributes["MultiProcessorCount"]
        thresholds = Thresholds(32, 64 * 1024, 1024, 1024, processors, 32, 1 << 24)
        self.limits = Limits(128, 128, 256, 16 * processors, 4096, 1 << 30, thresholds)
        self.memory: dict[int, Any] = {}
        self.modules: list[Any] = []  # loaded as long as they are here
        self.functions: dict[bool, dict[str, int]] = {}
        self.current = cupy.cuda.get_current_stream()
        self.stream = int(self.current.ptr)
        self.side: Any = None  # the stream that captures
        self.held: list[tuple[Any, list[Any]]] = []
        self.blas: _Blas | None = None
        self.has_blas = True
        self.heap: int | None = None
        self.process = os.getpid()

    @property
    def number(self) -> int:
        return int(self.device.id)

    def compile(self, source: str, names: Sequence[str], wide: bool = False) -> None:
        from futad.runtime.cubin import compile_cubin

        if not names:
            return
        made = compile_cubin(source, f"sm_{self.device.compute_capability}")
        if "  struct futad_slot " in source:  # threads have slots of their own
            self._reserve_heap()
        module = self.cupy.cuda.function.Module()
        try:
            module.load(made.code)
        except self.driver.CUDADriverError as e:
            raise BackendError(
                f"the driver does not load the kernels: {e}", hint=f"update the driver, or {INSTALL}; {WITHOUT}"
            ) from None
        self.modules.append(module)
        self.functions[wide] = {n: int(module.get_function(n).ptr) for n in names}

    def _reserve_heap(self) -> None:
        """Have memory for what threads allocate: a sixteenth of the card's.  It is fixed once a module is loaded."""
        limit = self.runtime.cudaLimitMallocHeapSize
        wanted = max(256 << 20, int(self.runtime.memGetInfo()[1]) // 16)
        if self.runtime.deviceGetLimit(limit) < wanted:
            try:
                self.runtime.deviceSetLimit(limit, wanted)
            except self.runtime.CUDARuntimeError:  # others' kernels have allocated already
                pass
        self.heap = int(self.runtime.deviceGetLimit(limit))

    def enter(self) -> None:
        if self.process != os.getpid():
            raise BackendError(
                "the GPU was opened by the process that this one was forked from, and CUDA does not work in both",
                hint="start processes by multiprocessing's 'spawn', or load the program in each of them first",
            )
        if self.runtime.getDevice() != self.number:
            self.device.use()
        now = self.cupy.cuda.get_current_stream()
        if now.ptr != self.stream:
            # The program's memory serves one call after the other, so this call waits for the one before.
            self.runtime.streamWaitEvent(now.ptr, self._event(self.current).ptr)
            self.current, self.stream = now, int(now.ptr)
        if self.held:
            self.held = [h for h in self.held if not h[0].done]


    def _event(self, stream: Any) -> Any:
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def wait_for(self, stream: int) -> None:
        if stream in (self.stream, 0) or (stream == 1 and self.stream == 0):
            return
        legacy = stream == 1
        other = self.cupy.cuda.Stream.null if legacy else self.cupy.cuda.ExternalStream(stream)
        self.runtime.streamWaitEvent(self.stream, self._event(other).ptr)

    def hold(self, owner: Any) -> None:
        self.held.append((self._event(self.current), [owner]))

    # -- memory

    def alloc(self, nbytes: int) -> int:
        try:
            made = self.cupy.cuda.alloc(nbytes)
        except self.cupy.cuda.memory.OutOfMemoryError:
            raise MemoryError_(f"{nbytes} bytes cannot be allocated") from None
        self.memory[int(made.ptr)] = made
        return int(made.ptr)

    def free(self, address: int) -> None:
        del self.memory[address]

    def free_bytes(self) -> int | None:
        pool = self.cupy.get_default_memory_pool()
        return int(self.runtime.memGetInfo()[0]) + int(pool.free_bytes())

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        # Pageable memory: the driver has staged the data when the call returns.
        self.runtime.memcpyAsync(address, array.ctypes.data, array.nbytes, _TO_DEVICE, self.stream)

    def download(self, address: int, array: np.ndarray[Any, Any]) -> None:
        self.runtime.memcpyAsync(array.ctypes.data, address, array.nbytes, _TO_HOST, self.stream)
        self.runtime.streamSynchronize(self.stream)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        self.runtime.memcpyAsync(to, source, nbytes, _WITHIN, self.stream)

    def gather(self, to: int, source: int, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int]) -> None:
        extent = dtype.itemsize + sum(abs(s) * (n - 1) for n, s in zip(shape, strides, strict=True))
        count = int(np.prod(shape, dtype=np.int64))
        dense = self._array(to, dtype, shape, None, count * dtype.itemsize)
        if dtype == np.bool_:
            self.cupy.not_equal(self._array(source, np.dtype(np.uint8), shape, strides, extent), 0, out=dense)
        else:
            dense[...] = self._array(source, dtype, shape, strides, extent)

    def _array(self, address: int, dtype: Any, shape: Sequence[int], strides: Any, nbytes: int) -> Any:
        memory = self.cupy.cuda.UnownedMemory(address, nbytes, self, self.number)
        return self.cupy.ndarray(tuple(shape), dtype, self.cupy.cuda.MemoryPointer(memory, 0), strides)

    def zero(self, address: int, nbytes: int) -> None:
        self.runtime.memsetAsync(address, 0, nbytes, self.stream)

    def result(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[Any, int]:
        made = self.cupy.empty(shape, dtype)
        return made, int(made.data.ptr)

    def place_of(self, address: int) -> int | None:
        try:
            about = self.runtime.pointerGetAttributes(address)
        except self.runtime.CUDARuntimeError:
            return None
        return int(about.device) if about.devicePointer else None

    # -- work

    def launch(self, frame: Frame, blocks: tuple[int, int], threads: int, wide: bool = False) -> None:
        self.driver.launchKernel(
            self.functions[wide][frame.name], blocks[0], 1, blocks[1], threads, 1, 1, 0, self.stream, frame.address, 0
        )

    def product(self, p: Product) -> bool:
        if self.blas is None and self.has_blas:
            try:
                self.blas = _Blas()
            except ImportError:  # CuPy works without it, and so do we
                self.has_blas = False
        return self.blas is not None and self.blas.product(p)

    def begin_capture(self) -> None:
        # The legacy default stream cannot be captured, so a stream of our own is; it is CuPy's current one
        # meanwhile, which is where its cuBLAS calls go.
        if self.side is None:
            self.side = self.cupy.cuda.Stream(non_blocking=True)
        self.side.use()
        self.side.begin_capture()
        self.stream = int(self.side.ptr)

    def end_capture(self) -> _Graph:
        try:
            return _Graph(self, self.side.end_capture())
        finally:
            self.current.use()
            self.stream = int(self.current.ptr)

    def synchronise(self) -> None:
        self.runtime.streamSynchronize(self.stream)

    def describe(self) -> str:
        versions = f"driver {self.runtime.driverGetVersion()}, runtime {self.runtime.runtimeGetVersion()}"
        return f"{self.model}, {versions}, CuPy {self.cupy.__version__}"


class _Graph:
    """A CUDA graph, launched on the stream of the call."""

    def __init__(self, device: CupyDevice, graph: Any) -> None:
        self.device, self.graph = device, graph

    def launch(self) -> None:
        self.graph.launch(stream=self.device.current)


class _Blas:
    """cuBLAS with a handle of our own: full precision unless FUTAD_TF32=1 asks for tensor cores in f32."""

    def __init__(self) -> None:
        from cupy_backends.cuda.libs import cublas

        self.lib = cublas
        self.handle = cublas.create()
        cublas.setMathMode(self.handle, _TF32_MATH if os.environ.get("FUTAD_TF32") == "1" else _DEFAULT_MATH)
        self.numbers = {t: (np.zeros((), t), np.ones((), t)) for t in (np.float32, np.float64)}

    def product(self, p: Product) -> bool:
        plan = blas_plan(p)
        if plan is None:
            return False
        zero, one = self.numbers[p.dtype.type]
        beta = one if p.accumulate else zero
        letter = "d" if p.dtype == np.float64 else "s"
        (ta, a, lda, sa), (tb, b, ldb, sb), (c, ldc, sc), sizes = plan
        alpha, keep = one.ctypes.data, beta.ctypes.data
        if p.batches == 1:
            gemm = getattr(self.lib, f"{letter}gemm")
            gemm(self.handle, ta, tb, *sizes, alpha, a, lda, b, ldb, keep, c, ldc)
        else:
            gemm = getattr(self.lib, f"{letter}gemmStridedBatched")
            gemm(self.handle, ta, tb, *sizes, alpha, a, lda, sa, b, ldb, sb, keep, c, ldc, sc, p.batches)
        return True


_Operand = tuple[int, int, int, int]


def blas_plan(p: Product) -> tuple[_Operand, _Operand, tuple[int, int, int], tuple[int, int, int]] | None:
    """The arguments of a column-major BLAS for a product; None if some matrix has no unit stride.

    A row-major c is the column-major transpose of itself, so the BLAS is given c' = b' a'; then its operands are
    (whether transposed, address, leading dimension, step), c's (address, leading dimension, step), and (m, n, k).
    """
    m, n, a, b, c = p.m, p.n, p.a, p.b, p.c
    if c[2] != 1 and n > 1:  # column-major, or no unit stride: the transpose of everything is row-major
        m, n, a, b, c = n, m, _flip(b), _flip(a), _flip(c)
    if (c[2] != 1 and n > 1) or (m > 1 and c[1] < n) or max(m, n, p.k, *a[1:3], *b[1:3], c[1], p.batches) >= 1 << 31:
        return None
    left, right = _operand(b, p.k, n), _operand(a, m, p.k)
    if left is None or right is None:
        return None
    return left, right, (c[0], max(c[1], n, 1), c[3]), (n, m, p.k)


def _flip(x: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    return x[0], x[2], x[1], x[3]


def _operand(x: tuple[int, int, int, int], rows: int, columns: int) -> _Operand | None:
    """A matrix of `rows` by `columns` whose transpose is to be used, as (transposed, address, leading, step)."""
    address, row, column, step = x
    if (column == 1 or columns == 1) and (rows == 1 or row >= columns):
        return _NO_TRANSPOSE, address, max(row if rows > 1 else columns, columns, 1), step
    if (row == 1 or rows == 1) and (columns == 1 or column >= rows):
        return _TRANSPOSE, address, max(column if columns > 1 else rows, rows, 1), step
    return None


def _check_driver(runtime: Any) -> None:
    """Raises BackendError unless a GPU answers."""
    try:
        if runtime.getDeviceCount() > 0:
            return
        problem = "there is no NVIDIA GPU"
    except runtime.CUDARuntimeError as e:
        status = getattr(e, "status", None)
        if status == 35:  # cudaErrorInsufficientDriver; also when there is no driver at all
            have = _driver_version(runtime)
            if have:
                need = runtime.runtimeGetVersion()
                raise BackendError(
                    f"the NVIDIA driver knows CUDA {_version(have)}, but this CuPy needs {_version(need)}",
                    hint=f"update the driver, or install the CuPy that fits it: {INSTALL}; {WITHOUT}",
                ) from None
            problem = "no NVIDIA driver is installed"
        elif status == 100:  # cudaErrorNoDevice
            problem = "there is no NVIDIA GPU"
        else:
            problem = f"no GPU can be used: {e}"
    raise BackendError(problem, hint=f"the cuda backend needs a GPU, its driver and CuPy; {WITHOUT}") from None


def _driver_version(runtime: Any) -> int:
    try:
        return int(runtime.driverGetVersion())
    except runtime.CUDARuntimeError:
        return 0


def _version(n: int) -> str:
    return f"{n // 1000}.{n % 1000 // 10}"
