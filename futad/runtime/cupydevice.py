"""An NVIDIA GPU through CuPy."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from futad.core.scalarlib import SAME_BITS
from futad.errors import BackendError, OutOfMemory
from futad.runtime import handover
from futad.runtime.cublas import WORKSPACE, Blas, BlasError
from futad.runtime.device import Fault, Frame, Product, card_limits
from futad.runtime.handover import Piece

WITHOUT = "backends 'multicore', 'c' and 'interp' work without a GPU, and 'emulated' runs the kernels on the CPU"
INSTALL = "pip install 'futad[cuda13]' (or 'futad[cuda12]' for drivers older than 580)"
_TO_DEVICE, _TO_HOST, _WITHIN = 1, 2, 3  # cudaMemcpyKind
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
LARGE = 16 << 20  # bytes given back at once that the pool does not keep
TOGETHER = 512  # bytes up to which results have an allocation together: the pool gives out no less


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
        self.limits = card_limits(processors)
        self.memory: dict[int, tuple[Any, int]] = {}  # by address; and the stream that it was had on
        self.modules: list[Any] = []  # loaded as long as they are here
        self.functions: dict[bool, dict[str, int]] = {}
        self.current = cupy.cuda.get_current_stream()
        self.stream = int(self.current.ptr)
        self.side: Any = None  # the stream that captures
        self.held: deque[tuple[Any, Any]] = deque()  # events in order, and what is kept until each has happened
        self.events: list[Any] = []  # to be used again
        self.places: list[tuple[Any, np.ndarray[Any, Any]]] = []  # pinned words, to be used again
        self.blas: Blas | None = None
        self.has_blas = True  # as far as is known
        self.heap: int | None = None
        self.process = os.getpid()
        self.over = Frame(handover.NAME, handover.FIELDS)

    @property
    def number(self) -> int:
        return int(self.device.id)

    def compile(self, source: str, names: Sequence[str], wide: bool = False) -> None:
        if names:
            self.functions[wide] = self._loaded(source, names)

    def _loaded(self, source: str, names: Sequence[str]) -> dict[str, int]:
        """The kernels of a text, for launches."""
        from futad.runtime.cubin import compile_cubin

        made = compile_cubin(source, f"sm_{self.device.compute_capability}", fmad=SAME_BITS not in source)
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
        return {n: int(module.get_function(n).ptr) for n in names}

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
            self._wait(int(now.ptr), self.stream)
            self.current, self.stream = now, int(now.ptr)
        self._let_go()

    def _let_go(self) -> None:
        while self.held and self.held[0][0].done:
            self.events.append(self.held.popleft()[0])

    def _event(self, stream: int) -> Any:
        """What the work on a stream so far is followed by; streams that CUDA has no pointers for are 1 and 2."""
        event = self.events.pop() if self.events else self.cupy.cuda.Event(disable_timing=True)
        self.runtime.eventRecord(event.ptr, stream)
        return event

    def wait_for(self, stream: int) -> None:
        if stream in (self.stream, 0) or (stream == 1 and self.stream == 0):
            return
        self._wait(self.stream, stream)

    def _wait(self, stream: int, other: int) -> None:
        """The work on a stream from now on waits for that on another one so far."""
        event = self._event(other)
        self.runtime.streamWaitEvent(stream, event.ptr)
        self.events.append(event)  # what waits has been told of this place, not of the event

    def hold(self, owner: Any) -> None:
        self.held.append((self._event(self.stream), owner))

    # -- memory

    def alloc(self, nbytes: int) -> int:
        made = self._memory(nbytes)
        self.memory[int(made.ptr)] = made, self.stream
        return int(made.ptr)

    def _had(self, make: Callable[[], Any], nbytes: int) -> Any:
        """What `make` allocates, tried again once all pools are empty."""
        short = self.cupy.cuda.memory.OutOfMemoryError
        try:
            return make()
        except short:
            self.relieve()
        try:
            return make()
        except short:
            raise OutOfMemory(f"{nbytes} bytes cannot be allocated") from None

    def relieve(self) -> None:
        self.runtime.streamSynchronize(self.stream)
        self.held.clear()
        self.cupy.get_default_memory_pool().free_all_blocks()

    def free(self, address: int) -> None:
        made, stream = self.memory.pop(address)
        if stream != self.stream:
            # The pool would give it to who asks on that stream at once, where this one's work may not be done.
            self.hold(made)
        elif made.mem.size >= LARGE:
            # Kept in the pool it would be memory of ours that other libraries of the process cannot have.
            del made
            self.cupy.get_default_memory_pool().free_all_blocks(stream=self.current)

    def free_bytes(self) -> int | None:
        pool = self.cupy.get_default_memory_pool()
        return int(self.runtime.memGetInfo()[0]) + int(pool.free_bytes())

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        # Pageable memory: the driver has staged the data when the call returns.
        self.runtime.memcpyAsync(address, array.ctypes.data, array.nbytes, _TO_DEVICE, self.stream)

    def download(self, address: int, array: np.ndarray[Any, Any]) -> None:
        self.runtime.memcpyAsync(array.ctypes.data, address, array.nbytes, _TO_HOST, self.stream)
        self.runtime.streamSynchronize(self.stream)

    look = download

    def post(self, address: int, count: int) -> _Posted:
        at = next((i for i, (_, words) in enumerate(self.places) if len(words) == count), None)
        if at is not None:
            pinned, words = self.places.pop(at)
        else:  # to pageable memory the copy would be waited for
            pinned = self.cupy.cuda.alloc_pinned_memory(8 * count)
            words = np.frombuffer(pinned, np.int64, count)
        self.runtime.memcpyAsync(pinned.ptr, address, words.nbytes, _TO_HOST, self.stream)
        return _Posted(self, self._event(self.stream), words, pinned)

    def hand_over(self, error: int, pieces: Sequence[Piece]) -> None:
        if self.over.name not in self.functions.setdefault(False, {}):
            self.functions[False] |= self._loaded(handover.SOURCE, [self.over.name])
        for at in range(0, len(pieces), handover.MOST):
            some = pieces[at : at + handover.MOST]
            most = max([p.nbytes for p in some])
            if most:
                self.over.pack(*handover.arguments(error, some))
                blocks = min(-(-most // (8 * handover.THREADS)), self.limits.blocks)
                self.launch(self.over, (blocks, len(some)), handover.THREADS)

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
        if not nbytes:  # it might become a node of a graph, which then cannot be made
            return
        self.runtime.memsetAsync(address, 0, nbytes, self.stream)

    def results(self, kinds: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> list[tuple[Any, int]]:
        array = self.cupy.ndarray
        sizes = [math.prod(shape) * dtype.itemsize for dtype, shape in kinds]
        # Small ones are parts of one allocation; a part that somebody keeps keeps few bytes of others.
        few = sum([n <= TOGETHER for n in sizes])
        shared: Any = self._memory(few * TOGETHER) if few else None
        parts = iter([shared + i * TOGETHER for i in range(few)])
        places: list[Any] = [next(parts) if n <= TOGETHER else self._memory(n) for n in sizes]
        made = [array(shape, dtype, place) for (dtype, shape), place in zip(kinds, places, strict=True)]
        return [(a, place.ptr) for a, place in zip(made, places, strict=True)]

    def _memory(self, nbytes: int) -> Any:
        return self._had(lambda: self.cupy.cuda.alloc(nbytes), nbytes)

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

    def open_blas(self) -> None:
        if self.blas is None and self.has_blas:
            try:
                self.blas = Blas(self.number, self.alloc(WORKSPACE))
            except (ImportError, BlasError, OutOfMemory):  # CuPy works without it, and so do we
                self.has_blas = False

    def product(self, p: Product) -> bool:
        return self.blas is not None and self.blas.product(p, self.stream)

    def begin_capture(self) -> None:
        # The legacy default stream cannot be captured, so a stream of our own is.
        if self.side is None:
            self.side = self.cupy.cuda.Stream(non_blocking=True)
        self.side.begin_capture()
        self.stream = int(self.side.ptr)

    def end_capture(self) -> _Graph:
        self.stream = int(self.current.ptr)
        return _Graph(self, self.side.end_capture())

    def synchronise(self) -> None:
        self.runtime.streamSynchronize(self.stream)

    def describe(self) -> str:
        from futad.runtime.cubin import find_toolkit

        driver, runtime = self.runtime.driverGetVersion(), self.runtime.runtimeGetVersion()
        try:
            compiler = find_toolkit()
        except BackendError:
            compiler = "none"
        versions = f"driver for CUDA {_version(driver)}, runtime {_version(runtime)}, compiler of kernels {compiler}"
        return f"{self.model}, {versions}, CuPy {self.cupy.__version__}"

    def fault(self, e: BaseException) -> Fault | None:
        errors = (self.runtime.CUDARuntimeError, self.driver.CUDADriverError)
        if isinstance(e, (BlasError, self.cupy.cuda.memory.OutOfMemoryError)):
            return Fault(str(e) or type(e).__name__, "ALLOC" in str(e) or not isinstance(e, BlasError), False)
        if not isinstance(e, errors):
            return None
        try:
            self.runtime.deviceSynchronize()
            lost = False
        except errors:
            lost = True
        return Fault(str(e), getattr(e, "status", None) == _OUT_OF_MEMORY, lost)


class _Posted:
    """Words that arrive when an event has happened, in memory that must be kept until then."""

    def __init__(self, device: CupyDevice, event: Any, words: np.ndarray[Any, Any], pinned: Any) -> None:
        self.device, self.event, self.place, self.pinned = device, event, words, pinned
        self.arrived: np.ndarray[Any, Any] | None = None

    @property
    def done(self) -> bool:
        return self.arrived is not None or bool(self.event.done)

    def words(self) -> np.ndarray[Any, Any]:
        if self.arrived is None:
            if not self.done:
                self.event.synchronize()
            self.arrived = self.place.copy()
            self.device.places.append((self.pinned, self.place))
            self.device.events.append(self.event)
        return self.arrived


class _Graph:
    """A CUDA graph, launched on the stream of the call."""

    def __init__(self, device: CupyDevice, graph: Any) -> None:
        self.device, self.graph = device, graph

    def launch(self) -> None:
        self.graph.launch(stream=self.device.current)


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
