"""Checked execution on the CPU simulator (docs/checking.md): its memory is one block, with a word for every byte
that tells when it was last written; what host code does is looked up here, what kernels do in
`kernels/check_device.h`."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.errors import CheckFailure, OutOfMemory
from futad.runtime.device import RUBBISH, Device, EmulatedDevice, Frame
from futad.runtime.findings import report, shown, span_of
from futad.runtime.host import Layout, Runtime

NONE, UNWRITTEN, FREED, MOVED, FIRST = range(5)  # words; from FIRST on they are times
BYTES = 1 << 32  # of the block, of which only what is used is there
MARGIN = 256

Words = np.ndarray[Any, np.dtype[np.uint32]]


class _Shadowed:
    """The memory of all checked devices of the process."""

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        try:
            self.data = np.frombuffer(mmap.mmap(-1, BYTES, flags=flags), np.uint8)
            self.words: Words = np.frombuffer(mmap.mmap(-1, 4 * BYTES, flags=flags), np.uint32)
        except OSError as e:
            raise OutOfMemory(f"no room for checked execution: {e}") from None
        self.base = self.data.ctypes.data
        self.next = MARGIN
        self.free: dict[int, list[int]] = {}

    def take(self, nbytes: int) -> int:
        """The place of so many bytes, rounded up to a power of 2."""
        size = 1 << (nbytes + MARGIN - 1).bit_length()
        places = self.free.get(size)
        if places:
            return places.pop()
        if self.next + size > BYTES:
            raise OutOfMemory(f"{nbytes} bytes cannot be allocated")
        at, self.next = self.next, self.next + size
        return at

    def give(self, at: int, nbytes: int) -> None:
        self.free.setdefault(1 << (nbytes + MARGIN - 1).bit_length(), []).append(at)


_shadowed: list[_Shadowed] = []


def _dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements lie row by row without gaps."""
    step = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and s != step:
            return False
        step *= n
    return True


@dataclass(frozen=True, slots=True)
class Event:
    """A write: what wrote, for which binding, and the iterations of the loops then."""

    what: str
    binding: int
    iterations: dict[int, int]


class CheckedDevice(EmulatedDevice):
    """The CPU simulator, whose kernels and copies look up the memory they access."""

    looks_up = True

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        if not _shadowed:
            _shadowed.append(_Shadowed())
        self.shadowed = _shadowed[0]
        self.time = FIRST + 1
        self.events: dict[int, Event] = {}
        self.owners: dict[int, Event] = {}  # of memory that is had, by where it begins
        self.doing: Callable[[str], Event] = lambda what: Event(what, 0, {})
        self.found: Callable[[str, int, int], CheckFailure] | None = None

    def compile(self, source: str, names: Sequence[str], wide: bool = False) -> None:
        super().compile(source, names, wide)
        if names:
            s = self.shadowed
            memory, words = ctypes.c_void_p(s.base), ctypes.c_void_p(s.words.ctypes.data)
            self.modules[wide].lib.futad_check_memory(memory, ctypes.c_size_t(BYTES), words)

    # -- words

    def place(self, address: int) -> int:
        """The place in the block."""
        return address - self.shadowed.base

    def range(self, address: int, nbytes: int) -> Words:
        at = self.place(address)
        return self.shadowed.words[at : at + nbytes]

    def now(self, what: str) -> int:
        """A new time, at which this is done."""
        self.time += 1
        self.events[self.time] = self.doing(what)
        return self.time

    def had(self, address: int, nbytes: int, room: int) -> None:
        """An array of so many bytes begins in memory of `room` bytes."""
        words = self.range(address, room)
        words[:nbytes] = UNWRITTEN
        words[nbytes:] = NONE
        self.owners[address] = self.doing("")

    def require(self, words: Words, address: int, unwritten: bool = False) -> None:
        """All has been written, or may not have been."""
        bad = words < FIRST
        if unwritten:
            bad &= (words != UNWRITTEN) & (words != MOVED)
        if bad.any():
            at = int(bad.argmax())
            self.fail("read", address + at, int(words[at]))

    def fail(self, what: str, address: int, word: int) -> None:
        assert self.found is not None
        raise self.found(what, address, word)

    # -- what devices do

    def alloc(self, nbytes: int) -> int:
        self._immediate("alloc")
        at = self.shadowed.take(nbytes)
        buffer = self.shadowed.data[at : at + nbytes]
        buffer[:] = RUBBISH
        address = self.shadowed.base + at
        self.starts.append(address)
        self.starts.sort()
        self.buffers[address] = buffer
        self.used += nbytes
        self.had(address, nbytes, nbytes)
        return address

    def free(self, address: int) -> None:
        nbytes = self.buffers[address].nbytes
        super().free(address)
        self.range(address, nbytes)[:] = FREED
        self.shadowed.give(self.place(address), nbytes)

    def upload(self, address: int, array: np.ndarray[Any, Any]) -> None:
        super().upload(address, array)
        self.range(address, array.nbytes)[:] = self.now("the caller")

    def download(self, address: int, array: np.ndarray[Any, Any]) -> None:
        super().download(address, array)
        self.require(self.range(address, array.nbytes), address)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        super().copy(to, source, nbytes)
        there, here = self.range(source, nbytes), self.range(to, nbytes)
        self.require(there, source, unwritten=True)
        if (here == NONE).any() or (here == FREED).any():
            self.fail("write", to, NONE)
        here[:] = np.where(there < FIRST, MOVED, self.now("a copy"))

    def gather(self, to: int, source: int, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int]) -> None:
        super().gather(to, source, dtype, shape, strides)
        self.range(to, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)[:] = self.now("the caller")

    def zero(self, address: int, nbytes: int) -> None:
        super().zero(address, nbytes)
        self.range(address, nbytes)[:] = self.now("zeros")

    def launch(self, frame: Frame, blocks: tuple[int, int], threads: int, wide: bool = False) -> None:
        lib = self.modules[wide].lib
        lib.futad_check_begin(ctypes.c_uint32(self.now(f"kernel {frame.name}")))
        super().launch(frame, blocks, threads, wide)
        out = (ctypes.c_int64 * 3)()
        lib.futad_check_found(out)
        if out[0]:
            self.fail("read" if out[0] == 1 else "write", out[1], out[2])


class CheckedRuntime(Runtime):
    """What emitted host code calls, in checked execution."""

    graphs = False

    def __init__(self, device: Device, layout: Layout) -> None:
        assert isinstance(device, CheckedDevice), "checked execution is on a device for it"
        self.checked = device
        self.doing = 0
        self.iterations: dict[int, int] = {}
        self.marks: dict[int, int] = {}  # times of claims, by binding
        self.before: tuple[int, Words] = 0, np.empty(0, np.uint32)
        device.doing = lambda what: Event(what, self.doing, dict(self.iterations))
        device.found = self.found
        super().__init__(device, layout)

    def ensure(self, slot: Any, count: int, size: int, label: str = "") -> int:
        address = super().ensure(slot, count, size, label)
        room = self.arena.slots[slot][1]
        self.before = address, self.checked.range(address, room).copy()
        self.checked.had(address, count * size, room)
        return address

    def copy(self, to: int, source: int, nbytes: int) -> None:
        super().copy(to, source, nbytes)
        if to == source == self.before[0]:
            # A loop's next value, in its place already when room for it was had there.
            self.checked.range(to, nbytes)[:] = self.before[1][:nbytes]

    def post(self) -> None:
        """What failed is raised here: results that it has not written are not read."""
        self.hear(super().post())

    def now(self) -> int:
        """The time; whatever is written from here on is later."""
        self.checked.time += 1
        return self.checked.time

    def iteration(self, loop: int, number: int) -> None:
        """A loop is in this iteration."""
        self.iterations[loop] = number

    def claim(
        self, kind: str, about: int, reader: int, address: int, size: int, shape: tuple[int, ...],
        strides: tuple[int, ...], since: int, limit: int, other: int, others: tuple[int, ...],
    ) -> None:  # fmt: skip
        """See `imp.claims.Claim`."""
        if 0 in shape:
            return
        if kind in ("holds", "stays"):
            alike = all(n <= 1 or a == b for n, a, b in zip(shape, strides, others, strict=True))
            if address == other and alike:
                if kind == "stays":
                    return
                kind = "copied"
            else:
                kind = "made"
        at = self.checked.place(address)
        if kind != "mine" and self._clearly(kind, about, at, size, shape, strides, since, limit):
            return
        low = at + sum(min(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True)) * size
        high = at + sum(max(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True)) * size
        inside = self.checked.shadowed.words[low : high + 1]
        words = np.lib.stride_tricks.as_strided(inside[at - low :], shape, [4 * size * s for s in strides])
        if kind == "mine":
            self.marks[about] = self.mark(about, at, size, shape, strides)
            return
        if kind == "own":
            good = words == self.marks[about]
        else:
            good = (words >= since) if kind == "made" else (words < limit) & (words >= FIRST)
        if kind == "copied":
            good |= words == UNWRITTEN
            if since:  # it is in its place, or was written there again
                good |= words >= since
        if kind in ("copied", "made"):
            good |= words == MOVED
        if not good.all():
            index = np.unravel_index(int(np.argmin(good)), shape)
            place = address + size * sum(int(i) * s for i, s in zip(index, strides, strict=True))
            text = "stale" if kind == "made" else "overwritten"
            raise self.found(text, place, int(words[index]), about if kind == "made" else reader, size)

    def _clearly(
        self, kind: str, about: int, at: int, size: int, shape: tuple[int, ...], strides: tuple[int, ...], since: int,
        limit: int,
    ) -> bool:  # fmt: skip
        """Whether a claim of a dense array holds for the first and the last of its times, and so for all."""
        if not _dense(shape, strides):
            return False
        words = self.checked.shadowed.words[at : at + size * math.prod(shape) : size]
        first = int(words.min()) if len(words) > 1 else int(words[0])
        if kind == "made":
            return first >= since
        last = int(words.max()) if len(words) > 1 else first
        return first == last == self.marks[about] if kind == "own" else FIRST <= first and last < limit

    def mark(self, binding: int, at: int, size: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
        """All of an array is written by a binding; the time."""
        doing, self.doing = self.doing, binding
        time = self.checked.now("")
        self.doing = doing
        if _dense(shape, strides):
            self.checked.shadowed.words[at : at + size * math.prod(shape)] = time
            return time
        index = sum(np.ix_(*[np.arange(n) * (s * size) for n, s in zip(shape, strides, strict=True)]), start=at)
        for byte in range(size):
            self.checked.shadowed.words[index + byte] = time
        return time

    def found(self, what: str, address: int, word: int, reader: int = 0, size: int = 0) -> CheckFailure:
        """The error of a finding; `size` is that of an element, if it is known.  Raises what the program failed with
        before, if it has: kernels then return at once."""
        self.check()
        reader = reader or self.doing
        names = self.layout.bindings, self.layout.loops
        here = shown(reader, *names, lambda loop: self.iterations.get(loop, -1))
        owner = max((a for a in self.checked.owners if a <= address), default=0)
        event = self.checked.events.get(word) or self.checked.owners.get(owner)
        there = "a value of its own"
        if event is not None and event.binding:
            there = shown(event.binding, *names, lambda loop: event.iterations.get(loop, -1))
        elif event is not None and event.what:
            there = event.what
        kinds = {NONE: "foreign read", UNWRITTEN: "uninitialised", MOVED: "uninitialised", FREED: "freed"}
        kind = kinds.get(word, what)
        if what == "write":
            kind = "foreign write"
        element = (address - owner) // size if size and owner else -1
        return report(kind, here, there, element, span_of(reader, self.layout.bindings))


__all__ = ["CheckedDevice", "CheckedRuntime"]
