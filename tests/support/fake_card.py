"""A card for `fake_cupy.py`: memory, streams and graphs as CUDA has them, kernels run on the CPU.

It is as unkind as CUDA may be.  Work that was started waits until somebody waits for it; then streams take turns at
random (`seed`), each in its own order, so that a missing wait shows.  Memory given back to the pool is overwritten
as soon as another program could have it.  A kernel's fault is there for good: every call after it fails.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from futad.runtime.device import RUBBISH, EmulatedDevice
from futad.runtime.emulated import EmulatedModule

ILLEGAL_ADDRESS, CONTEXT_DESTROYED, NOT_CAPTURED, INVALIDATED, INVALID = 700, 709, 900, 901, 1


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class CUDADriverError(RuntimeError):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class OutOfMemoryError(MemoryError):
    pass


class Op:
    """Work of a stream: what it does, and what must be done before beside the stream's earlier work."""

    def __init__(self, step: Callable[[], Any], needs: list[Op]) -> None:
        self.step, self.needs, self.done = step, needs, False


class Card:
    """Its state: memory, streams, the current one, what is being captured.  `room`: bytes of memory."""

    def __init__(
        self, count: int = 1, status: int = 0, driver: int = 13000, seed: int = 0, room: int = 1 << 40
    ) -> None:
        self.count, self.status, self.driver, self.room = count, status, driver, room
        self.random = Random(seed)
        self.memory = EmulatedDevice()
        self.log: list[tuple[Any, ...]] = []
        self.streams: dict[int, Stream] = {}
        self.legacy = Stream(self, 0)
        self.current: Stream = self.legacy
        self.source = ""
        self.kernels: list[tuple[EmulatedModule, str, int]] = []  # module, name, threads of a block
        self.products: list[tuple[Any, ...]] = []
        self.heap, self.loaded = 8 << 20, False  # what threads may allocate; whether it is there
        self.pool = Pool(self)
        self.lost: tuple[int, str] | None = None  # the error that all calls have from now on
        self.planted: dict[str, int] = {}  # faults by what has them: a kernel, or "end_capture"

    def alive(self) -> None:
        """Raises what went wrong for good."""
        if self.lost is not None:
            raise CUDARuntimeError(*self.lost)

    def fails(self, what: str) -> bool:
        """Whether a fault was planted here; it is counted down."""
        left = self.planted.get(what, 0)
        self.planted[what] = max(0, left - 1)
        return left > 0

    def work(self, what: str, stream: int, step: Callable[[], Any], *about: Any) -> None:
        """Something is started on a stream, or recorded if the stream is being captured."""
        self.alive()
        self.log.append((what, stream, *about))
        s = self.streams[stream]
        if s.captured is None:
            s.add(step)
        else:
            s.captured.append(step)
        while self.random.random() < 0.2 and self.iteration():
            pass

    def idle(self, what: str, stream: int | None = None) -> None:
        """Something that no capture allows, of this stream or (for memory) of any."""
        self.alive()
        for s in self.streams.values():
            if s.captured is not None and stream in (None, s.ptr):
                raise CUDARuntimeError(NOT_CAPTURED, f"cudaErrorStreamCaptureUnsupported: {what}")
        self.log.append((what, stream))

    def iteration(self) -> bool:
        """One piece of work of a stream that can go on; whether there was any."""
        ready = [s for s in self.streams.values() if s.queue and all(op.done for op in s.queue[0].needs)]
        if not ready:
            return False
        op = self.random.choice(ready).queue.popleft()
        if self.lost is None:
            op.step()
        op.done, op.needs = True, []
        return True

    def finish(self, stream: int | None = None) -> None:
        """Wait for the work of a stream, or all."""
        while any(s.queue for s in self.streams.values() if stream in (None, s.ptr)):
            assert self.iteration(), "streams wait for each other"
        self.alive()


class Stream:
    def __init__(self, card: Card, ptr: int, blocking: bool = True) -> None:
        self.card, self.ptr, self.blocking = card, ptr, blocking
        self.captured: list[Any] | None = None
        self.queue: deque[Op] = deque()
        self.last: Op | None = None
        card.streams.setdefault(ptr, self)

    def add(self, step: Callable[[], Any], *needs: Op | None) -> Op:
        """Work of this stream.  The legacy one waits for the blocking ones, and they for it."""
        others = [s for s in self.card.streams.values() if s is not self and s.blocking and self.blocking]
        before = [s.last for s in others if self.ptr == 0 or s.ptr == 0]
        op = Op(step, [o for o in (*needs, *before) if o is not None and not o.done])
        self.queue.append(op)
        self.last = op
        return op

    def use(self) -> Stream:
        self.card.current = self
        return self

    def __enter__(self) -> Stream:
        self.before = self.card.current
        return self.use()

    def __exit__(self, *_: Any) -> None:
        self.card.current = self.before

    def begin_capture(self) -> None:
        self.card.alive()
        if self.ptr == 0:
            raise CUDARuntimeError(NOT_CAPTURED, "the legacy stream cannot be captured")
        assert self.captured is None
        self.captured = []

    def end_capture(self) -> Graph:
        assert self.captured is not None
        made, self.captured = self.captured, None
        self.card.alive()
        if self.card.fails("end_capture"):
            raise CUDARuntimeError(INVALIDATED, "cudaErrorStreamCaptureInvalidated: operation failed")
        return Graph(self.card, made)


class Graph:
    """It does not run at the same time as itself."""

    def __init__(self, card: Card, steps: list[Any]) -> None:
        self.card, self.steps = card, steps
        self.last: Op | None = None

    def launch(self, stream: Stream | None = None) -> None:
        self.card.alive()
        s = stream or self.card.current
        self.card.log.append(("graph", s.ptr, len(self.steps)))
        for step in self.steps:
            self.last = s.add(step, self.last)


class Event:
    """A place in a stream's work.  CUDA knows it no more once CuPy's object is thrown away."""

    made: weakref.WeakValueDictionary[int, Event] = weakref.WeakValueDictionary()
    pointers = itertools.count(5000)

    def __init__(self, **_: Any) -> None:
        self.ptr = next(Event.pointers)
        self.op: Op | None = None
        self.card: Card | None = None
        Event.made[self.ptr] = self

    @staticmethod
    def known(ptr: int) -> Event:
        found = Event.made.get(ptr)
        if found is None:
            raise CUDARuntimeError(CONTEXT_DESTROYED, "cudaErrorContextIsDestroyed: context is destroyed")
        return found

    @property
    def done(self) -> bool:
        return self.op is None or self.op.done

    def synchronize(self) -> None:
        assert self.card is not None
        self.card.idle("wait for event")
        while not self.done:
            assert self.card.iteration(), "streams wait for each other"
        self.card.alive()


class Pinned(bytearray):
    """Memory of the host that the card can reach: a copy to it is work of a stream, like others."""

    made: dict[int, int] = {}  # sizes by address

    def __init__(self, nbytes: int) -> None:
        super().__init__(RUBBISH.to_bytes(1, "little") * nbytes)
        self.ptr = ctypes.addressof(ctypes.c_char.from_buffer(self))
        Pinned.made[self.ptr] = nbytes

    def __del__(self) -> None:
        Pinned.made.pop(self.ptr, None)


class Pool:
    """CuPy's pool: what is given back serves who asks on the same stream."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.used = 0  # bytes had from the card
        self.spare: dict[tuple[int, int], list[int]] = {}  # by stream and size
        self.blocks: dict[int, int] = {}  # of the device, by the address in each that is given out

    def take(self, nbytes: int) -> Memory:
        self.card.idle("alloc")
        size = max(512, -(-nbytes // 512) * 512)
        stream = self.card.current.ptr
        found = self.spare.get((stream, size))
        if found:
            return Memory(self, stream, found.pop(), size)
        if self.used + size > self.card.room:
            self.free_all_blocks()
        if self.used + size > self.card.room:
            raise OutOfMemoryError(f"Out of memory allocating {size} bytes")
        self.used += size
        block = self.card.memory.alloc(size + 256)
        address = -(-block // 256) * 256
        self.blocks[address] = block
        return Memory(self, stream, address, size)

    def give(self, stream: int, address: int, size: int) -> None:
        """From here on somebody else on that stream may write it."""
        self.spare.setdefault((stream, size), []).append(address)
        if self.card.lost is None:
            self.card.streams[stream].add(lambda: ctypes.memset(address, RUBBISH, size))

    def free_bytes(self) -> int:
        return sum(size * len(blocks) for (_, size), blocks in self.spare.items())

    def free_all_blocks(self, stream: Stream | None = None) -> None:
        self.card.finish()
        for (of, size), blocks in self.spare.items():
            if stream is None or of == stream.ptr:
                self.used -= size * len(blocks)
                for address in blocks:
                    self.card.memory.free(self.blocks.pop(address))
                blocks.clear()


class Memory:
    """Memory of the pool, given back when nobody refers to it."""

    def __init__(self, pool: Pool, stream: int, address: int, size: int) -> None:
        self.pool, self.stream, self.address, self.size = pool, stream, address, size

    def __del__(self) -> None:
        self.pool.give(self.stream, self.address, self.size)


class Pointer:
    def __init__(self, card: Card, ptr: int, mem: Any = None) -> None:
        self.card, self.ptr, self.mem = card, ptr, mem
        self.device_id = 0

    def __add__(self, offset: int) -> Pointer:
        return Pointer(self.card, self.ptr + offset, self.mem)


class Array:
    """cupy.ndarray: dense or strided memory of the card."""

    def __init__(self, shape: Any, dtype: Any, memptr: Any = None, strides: Any = None) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        self.card: Card = memptr.card
        self.data = memptr
        self.strides = strides
        self.ndim = len(self.shape)
        self.flags = SimpleNamespace(c_contiguous=strides is None)

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
        self.card.finish(self.card.current.ptr)
        return self.host().copy()

    def item(self) -> Any:
        return self.get().item()

    def copy(self) -> Array:
        memory = self.card.pool.take(max(1, self.nbytes))
        made = Array(self.shape, self.dtype, Pointer(self.card, memory.address, memory))
        made[...] = self
        return made

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False), "strides": self.strides,
            "stream": self.card.current.ptr or 1, "version": 3,
        }  # fmt: skip


Array.__module__ = "cupy"


def loaded(card: Card, source: str) -> Callable[[str], int]:
    """A module's kernels, by name to their handles."""
    made = EmulatedModule(source)
    bounds = {n: int(b) for b, n in re.findall(r"__launch_bounds__\((\d+)[^)]*\)\s+(\w+)\(", source)}

    def handle(name: str) -> int:
        card.kernels.append((made, name, bounds[name]))
        return len(card.kernels)

    return handle


def launch(card: Card, f: int, grid: tuple[int, int, int], threads: int, stream: int, table: int) -> None:
    """A kernel is started with the arguments at the addresses in a table."""
    module, name, bound = card.kernels[f - 1]
    if not (0 < threads <= bound and 0 < grid[0] < 1 << 31 and 0 < grid[2] <= 65535):
        raise CUDADriverError(INVALID, f"CUDA_ERROR_INVALID_VALUE: {grid} blocks of {threads} threads, at most {bound}")
    sizes = module.sizes(name)
    places = (ctypes.c_void_p * len(sizes)).from_address(table)
    packed = ctypes.create_string_buffer(8 * max(1, len(sizes)))
    for i, (n, _) in enumerate(sizes):
        ctypes.memmove(ctypes.addressof(packed) + 8 * i, places[i], n)
    own = (ctypes.c_void_p * max(1, len(sizes)))(*[ctypes.addressof(packed) + 8 * i for i in range(len(sizes))])

    def run() -> None:
        words = np.frombuffer(packed, np.uint64)
        foreign = [int(w) for w, (_, pointer) in zip(words, sizes, strict=False)
                   if pointer and w and card.memory.place_of(int(w)) is None]  # fmt: skip
        if foreign or card.fails(name):
            card.lost = ILLEGAL_ADDRESS, "cudaErrorIllegalAddress: an illegal memory access was encountered"
            return
        module.launch_packed(name, grid, threads, ctypes.addressof(own))

    card.work("launch", stream, run, name)


@contextmanager
def planted(card: Card, what: str, times: int = 1) -> Iterator[None]:
    """A fault: of a kernel when it runs, or of "end_capture"."""
    card.planted[what] = times
    yield
    card.planted[what] = 0
