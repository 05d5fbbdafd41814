"""Devices: memory by address, copies, launches, graphs.  Here the one on the CPU; `cupydevice.py` has the GPU.

A kernel's argument is an address (int) or a number; a `Frame` packs the arguments of one kernel.
"""

from __future__ import annotations

import bisect
import ctypes
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from futad import forks
from futad.core.types import with_true_as_one
from futad.errors import InternalError, OutOfMemory
from futad.runtime.handover import Piece


class Thresholds(NamedTuple):
    """By which sizes the host chooses between versions; `flatten/` compares with all but the last, the runtime gives
    products of at least `blas` multiplications to the BLAS.  `futad tune` measures them."""

    block_inner: int
    enough_threads: int
    long_inner: int
    warp_inner: int
    enough_tiles: int
    bin_updates: int
    one_block: int
    blas: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What launches are planned by: threads of a block (of independent threads, of warps, one that works together)
    and blocks of a grid, at most; `busy` blocks keep all processors at work, each of which has `chunk` elements of a
    longer fold; bytes of memory that the threads of one launch may have for themselves."""

    thread_block: int
    warp_block: int
    fold_block: int
    blocks: int
    busy: int
    chunk: int
    scratch: int
    thresholds: Thresholds
    narrow: int = 1 << 30  # launches of fewer points on arrays of fewer elements compute indices in 32 bits


def card_limits(processors: int) -> Limits:
    """Those of a card with so many multiprocessors."""
    thresholds = Thresholds(32, 64 * 1024, 1024, 1024, processors, 32, 6144, 1 << 24)
    return Limits(128, 128, 256, 16 * processors, 4 * processors, 4096, 1 << 30, thresholds)


TILE_THREADS = 256  # of flatten/kernel.py
ENDS = 4  # times as many elements as there is to do at the end of a part make it worth while


def chunks(limits: Limits, count: int, segments: int, ends: int = 1) -> int:
    """Into how many parts, one a block, to cut each of some folds of so many elements.  `ends`: updates that a part
    makes at its end.  While blocks are few, parts are as short as one element a thread: what a thread does one after
    the other takes longer than the parts' results take to be combined."""
    segments = max(1, segments)
    least = max(limits.fold_block, ENDS * ends)
    short = min(limits.busy // segments, -(-count // least))
    long = -(-count // max(limits.chunk, least))
    return max(1, min(limits.blocks // segments, max(short, long)))


def grid(limits: Limits, kind: str, units: int, inner: int) -> tuple[int, int]:
    """Blocks (in a grid's first dimension) and threads of a block, of a kernel of some kind over so many units."""
    if kind == "thread":
        return min(-(-units // limits.thread_block), limits.blocks * 8), limits.thread_block
    if kind == "warp":
        return min(-(-units // (limits.warp_block // 32)), limits.blocks * 8), limits.warp_block
    if kind == "single":
        return 1, 1
    if kind == "tile":
        return units, TILE_THREADS
    threads, most = 32, limits.fold_block * (2 if kind == "alone-wide" else 1)
    while threads < inner and threads < most:
        threads *= 2
    return min(units, limits.blocks * 8), threads


RUBBISH = 0xFB  # fresh memory of the CPU simulator: large negative numbers of every type

_CODES = {"i1": "b7x", "u1": "B7x", "b1": "?7x", "i2": "h6x", "u2": "H6x", "i4": "i4x", "u4": "I4x", "i8": "q",
          "u8": "Q", "f2": "e6x", "f4": "f4x", "f8": "d"}  # fmt: skip


class Frame:
    """The packed arguments of one kernel: eight bytes each, and the table of their addresses that a launch takes.

    `fields` are the dtypes of the parameters, None for a pointer.
    """

    __slots__ = ("name", "fields", "pack", "raw", "table", "address")

    def __init__(self, name: str, fields: Sequence[np.dtype[Any] | None]) -> None:
        self.name, self.fields = name, tuple(fields)
        layout = struct.Struct("<" + "".join("Q" if t is None else _CODES[t.str[1:]] for t in fields))
        self.raw = ctypes.create_string_buffer(8 * max(1, len(self.fields)))
        base = ctypes.addressof(self.raw)
        self.table = (ctypes.c_void_p * max(1, len(self.fields)))(*[base + 8 * i for i in range(len(self.fields))])
        self.address = ctypes.addressof(self.table)
        raw, into = self.raw, layout.pack_into
        self.pack: Callable[..., None] = lambda *values: into(raw, 0, *values)

    def values(self) -> list[Any]:
        """The arguments as they are packed: addresses, and NumPy scalars."""
        raw = bytes(self.raw)
        return [
            int.from_bytes(raw[8 * i : 8 * i + 8], "little") if t is None else np.frombuffer(raw, t, 1, 8 * i)[0]
            for i, t in enumerate(self.fields)
        ]


class Fault(NamedTuple):
    """What an exception of a device's library says: the cause in words; whether memory was short; whether the device
    is of no use to this process any more."""

    cause: str
    memory: bool
    lost: bool


class Posted(Protocol):
    """Words on their way from the device to the host."""

    @property
    def done(self) -> bool:
        """Whether they have arrived."""

    def words(self) -> np.ndarray[Any, Any]:
        """The words (i64), when they have arrived."""


class Graph(Protocol):
    """Work that was captured."""

    def launch(self) -> None:
        """Start all of it, in order, on the device's stream."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product for a BLAS: c[b] = a[b] @ b[b] (+ c[b]) for matrices given by addresses, strides of rows and
    columns, and how far one of the batch is from the one before, all in elements."""

    dtype: np.dtype[Any]
    m: int
    n: int
    k: int
    a: tuple[int, int, int, int]
    b: tuple[int, int, int, int]
    c: tuple[int, int, int, int]
    batches: int
    accumulate: bool


class Device(Protocol):
    """What the host side of a program needs of a device.  Work is in order, on one stream.

    Between `begin_capture` and `end_capture` launches, copies and zeros are recorded, not done; nothing else of a
    device may be used then.
    """

    limits: Limits
    cuda: bool
    heap: int | None  # bytes that the threads of kernels may allocate, together; None: nobody limits them
    model: str  # of which there may be several, all alike

    def compile(self, source: str, names: Sequence[str], wide: bool = False) -> None:
        """Make the kernels of a text ready; `wide`: as those that compute indices in 64 bits.  Raises BackendError."""

    def enter(self) -> None:
        """A call begins: take the caller's stream, after the work of earlier calls."""

    def alloc(self, nbytes: int) -> int:
        """The address of new memory, at least 64-byte aligned.  Raises OutOfMemory."""

    def free(self, address: int) -> None:
        """Give memory back."""

    def free_bytes(self) -> int | None:
        """How much memory is left; None if that is not known."""

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a C-contiguous array to the device."""

    def download(self, address: int, array: np.ndarray[Any, Any]) -> None:
        """Fill a C-contiguous array from the device, after all work so far."""

    def post(self, address: int, count: int) -> Posted:
        """Send so many words to the host after all work so far; nobody waits for them."""

    def look(self, address: int, array: np.ndarray[Any, Any]) -> None:
        """Fill a C-contiguous array from the device for whoever checks it, also with what nobody has written."""

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy within the device."""

    def hand_over(self, error: int, pieces: Sequence[Piece]) -> None:
        """Copy results within the device; if there is a word at `error` and it is not 0 then, fill them instead."""

    def gather(self, to: int, source: int, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int]) -> None:
        """Copy an array of any strides (in bytes) to dense memory.  Of a bool any byte but 0 becomes 1."""

    def zero(self, address: int, nbytes: int) -> None:
        """Set bytes to zero."""

    def launch(self, frame: Frame, blocks: tuple[int, int], threads: int, wide: bool = False) -> None:
        """Start a kernel with its frame's arguments on a grid of that width and depth (its x and z)."""

    def product(self, p: Product) -> bool:
        """Compute a product by the BLAS; False if it has none for it."""

    def begin_capture(self) -> None:
        """Record what follows."""

    def end_capture(self) -> Graph:
        """What was recorded."""

    def results(self, kinds: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> list[tuple[Any, int]]:
        """New arrays of the library that results go to, and their addresses."""

    def place_of(self, address: int) -> int | None:
        """The number of the device that has memory at an address; None if it is on none."""

    @property
    def number(self) -> int:
        """The number of this device."""

    def wait_for(self, stream: int) -> None:
        """Order what follows after the work on another stream (1: the legacy default one)."""

    def hold(self, owner: Any) -> None:
        """Keep an object until the work so far is done."""

    def synchronise(self) -> None:
        """Wait for all work."""

    def describe(self) -> str:
        """What the device is, with the versions of what drives it."""

    def fault(self, e: BaseException) -> Fault | None:
        """What an exception of the device's library says; None if it is none of that."""

    def relieve(self) -> None:
        """Give back what is kept for later, as memory is short."""

    def open_blas(self) -> None:
        """Make the BLAS ready, if there is one: that cannot be done while work is captured."""


class EmulatedArray:
    """A result in the CPU simulator's memory; `numpy()` copies it out."""

    def __init__(self, device: EmulatedDevice, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.device, self.dtype, self.shape = device, dtype, shape
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.address = device.alloc(max(1, self.nbytes))

    def __del__(self) -> None:
        self.device.free(self.address)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "strides": None,
            "stream": 1, "version": 3,
        }  # fmt: skip

    def numpy(self) -> np.ndarray[Any, Any]:
        out = np.empty(self.shape, self.dtype)
        self.device.download(self.address, out)
        return out

    def item(self) -> Any:
        return self.numpy().item()

    def copy(self) -> EmulatedArray:
        made = EmulatedArray(self.device, self.dtype, self.shape)
        self.device.copy(made.address, self.address, self.nbytes)
        return made

    def __repr__(self) -> str:
        return f"EmulatedArray({self.numpy()!r})"


class Arrived:
    """Words that the host has."""

    done = True

    def __init__(self, words: np.ndarray[Any, Any]) -> None:
        self._words = words

    def words(self) -> np.ndarray[Any, Any]:
        return self._words


class EmulatedGraph:
    """Captured work of the CPU simulator."""

    def __init__(self, device: EmulatedDevice, work: list[Callable[[], None]]) -> None:
        self.device, self.work = device, work

    def launch(self) -> None:
        self.device.done["graph"] += 1
        for step in self.work:
            step()


class EmulatedDevice:
    """The CPU as a device: every allocation is a NumPy array full of rubbish, kernels are compiled by the host's
    compiler.

    `seed` makes blocks interleave at random; `sanitize` is that of `EmulatedModule`; `memory` is how many bytes there
    are.  `done` counts what was done; `blas` computes a product, if there is to be such a thing.
    """

    cuda = False
    number = 0
    heap: int | None = None
    model = "emulated"
    looks_up = False  # whether kernels look up their accesses to memory (`checked.py`)
    limits = Limits(32, 64, 32, 4, 4, 64, 1 << 26, Thresholds(8, 512, 256, 64, 2, 2, 1024, 1 << 62))

    def __init__(
        self,
        *,
        seed: int | None = None,
        sanitize: str | None = None,
        memory: int | None = None,
        blas: Callable[[EmulatedDevice, Product], bool] | None = None,
    ) -> None:
        self.seed, self.sanitize, self.memory, self.blas = seed, sanitize, memory, blas
        self.starts: list[int] = []
        self.buffers: dict[int, np.ndarray[Any, Any]] = {}
        self.modules: dict[bool, Any] = {}  # by whether indices are wide
        self.used = 0
        self.done: Counter[str] = Counter()
        self.recording: list[Callable[[], None]] | None = None
        forks.watch(self)

    def forked(self) -> None:
        """See `forks.py`.  What was being recorded, if anything, is of a call that the child does not have."""
        self.recording = None

    def compile(self, source: str, names: Sequence[str], wide: bool = False) -> None:
        from futad.runtime.emulated import EmulatedModule

        if names:
            module = EmulatedModule(source, sanitize=self.sanitize, seed=self.seed, checked=self.looks_up)
            self.modules[wide] = module
        self.checked: set[str] = set()

    def enter(self) -> None:
        """There is one stream."""

    def _immediate(self, what: str) -> None:
        if self.recording is not None:
            raise InternalError(f"{what} while a graph is being captured")
        self.done[what] += 1

    def _record(self, what: str, step: Callable[[], None]) -> None:
        self.done[what] += 1
        if self.recording is None:
            step()
        else:
            self.recording.append(step)

    def alloc(self, nbytes: int) -> int:
        self._immediate("alloc")
        short = f"{nbytes} bytes cannot be allocated"
        if self.memory is not None and self.used + nbytes > self.memory:
            raise OutOfMemory(short)
        try:
            buffer = np.full(nbytes + 64, RUBBISH, np.uint8)
        except MemoryError:
            raise OutOfMemory(short) from None
        skip = -buffer.ctypes.data % 64
        buffer = buffer[skip : skip + nbytes]
        address = buffer.ctypes.data
        self.buffers[address] = buffer
        bisect.insort(self.starts, address)
        self.used += nbytes
        return address

    def free(self, address: int) -> None:
        self.starts.remove(address)
        self.used -= self.buffers.pop(address).nbytes

    def free_bytes(self) -> int | None:
        return None if self.memory is None else self.memory - self.used

    def view(self, address: int) -> np.ndarray[Any, Any] | None:
        """The memory from an address to its allocation's end."""
        at = bisect.bisect_right(self.starts, address) - 1
        if at < 0:
            return None
        start = self.starts[at]
        return self.buffers[start][address - start :]

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        self._immediate("upload")
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def download(self, address: int, array: np.ndarray[Any, Any]) -> None:
        self.look(address, array)

    def post(self, address: int, count: int) -> Posted:
        words = np.empty(count, np.int64)
        self.download(address, words)
        return Arrived(words)

    def look(self, address: int, array: np.ndarray[Any, Any]) -> None:
        self._immediate("download")
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        self._record("copy", lambda: void(ctypes.memmove(to, source, nbytes)))

    def hand_over(self, error: int, pieces: Sequence[Piece]) -> None:
        failed = error and self.post(error, 1).words()[0]
        for p in pieces:
            if failed:
                ctypes.memset(p.to, 1 if p.ones else 0xFF, p.nbytes)
            elif p.known:
                ctypes.memmove(p.to, p.source.to_bytes(8, "little"), p.nbytes)
            elif p.nbytes:
                self.copy(p.to, p.source, p.nbytes)

    def gather(self, to: int, source: int, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int]) -> None:
        self._immediate("gather")
        low = source + sum(min(0, s * (n - 1)) for n, s in zip(shape, strides, strict=True))
        memory = self.view(low)
        assert memory is not None
        dense = with_true_as_one(np.ndarray(tuple(shape), dtype, memory, source - low, tuple(strides)).copy())
        ctypes.memmove(to, dense.ctypes.data, dense.nbytes)

    def zero(self, address: int, nbytes: int) -> None:
        self._record("zero", lambda: void(ctypes.memset(address, 0, nbytes)))

    def launch(self, frame: Frame, blocks: tuple[int, int], threads: int, wide: bool = False) -> None:
        module = self.modules[wide]
        grid = (blocks[0], 1, blocks[1])
        if self.sanitize is None and frame.name not in self.checked:
            given = [(8, True) if t is None else (t.itemsize, False) for t in frame.fields]
            if module.sizes(frame.name) != given:
                raise InternalError(f"kernel {frame.name} takes {module.sizes(frame.name)}, not {given}")
            self.checked.add(frame.name)
        if self.recording is None and self.sanitize is None:
            self.done["launch"] += 1
            module.launch_packed(frame.name, grid, threads, frame.address)
            return
        if self.sanitize is None:
            kept = Frame(frame.name, frame.fields)
            ctypes.memmove(kept.raw, frame.raw, len(frame.raw))
            self._record("launch", lambda: module.launch_packed(kept.name, grid, threads, kept.address))
            return
        values = [self.view(v) if t is None else v for v, t in zip(frame.values(), frame.fields, strict=True)]
        self._record("launch", lambda: module.launch(frame.name, grid, threads, 0, values))

    def product(self, p: Product) -> bool:
        if self.blas is None:
            return False
        blas = self.blas
        self._record("product", lambda: void(blas(self, p)))
        return True

    def begin_capture(self) -> None:
        self._immediate("capture")
        self.recording = []

    def end_capture(self) -> EmulatedGraph:
        assert self.recording is not None
        work, self.recording = self.recording, None
        return EmulatedGraph(self, work)

    def results(self, kinds: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> list[tuple[EmulatedArray, int]]:
        made = [EmulatedArray(self, dtype, shape) for dtype, shape in kinds]
        return [(a, a.address) for a in made]

    def place_of(self, address: int) -> int | None:
        memory = self.view(address)
        return 0 if memory is not None and len(memory) > 0 else None

    def wait_for(self, stream: int) -> None:
        self.done["wait"] += 1

    def hold(self, owner: Any) -> None:
        """Work has ended when it was started."""

    def synchronise(self) -> None:
        self._immediate("synchronise")

    def describe(self) -> str:
        return "emulated"

    def fault(self, e: BaseException) -> Fault | None:
        """Its library is this process's own."""

    def relieve(self) -> None:
        """Nothing is kept."""

    def open_blas(self) -> None:
        """It is given ready."""


def void(_: Any) -> None:
    """Nothing, whatever came out."""
