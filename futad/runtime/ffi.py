"""Calling compiled C: a shared library whose entries follow the convention described in `backend/c.py`.

A `Layout` says how the entries of a library are called; it is kept (`aot_cache.py`), so that a program compiled before
runs without the compiler being imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import signal
import struct
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from futad import forks
from futad.bindings import Binding, Loop
from futad.core.failure import FailureSite
from futad.core.measures import WRITTEN, Measured, Site, gathered, words_of
from futad.core.types import Prim
from futad.errors import EXCEEDS, Error, InternalError, OutOfMemory, UsageError, failed_check, negative_size
from futad.runtime.findings import finding, lanes_met

# The codes of failures in `ctx->error.code`.
BOUNDS, ASSERT, DIVISION, MEMORY, CHECK, STOPPED, LANES = 1, 2, 3, 4, 5, 6, 7
COPY_LIMIT = 1 << 16  # bytes; smaller results are copied into NumPy's memory, larger ones change owner
MANY = 2  # arrays whose addresses are found at once
WASTE_LIMIT = 1 << 22  # bytes a result may hold beyond twice its own size


@dataclass(frozen=True, slots=True)
class CFunction:
    """An entry: its symbol, the element type and rank of each parameter and result."""

    symbol: str
    params: tuple[tuple[str, Prim, int], ...]
    results: tuple[tuple[Prim, int], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The entries of a library by core name, the places that can fail, the largest rank of a result; what checked
    execution can name, if it is for that; the places that tell numbers."""

    functions: dict[str, CFunction]
    places: tuple[FailureSite, ...]
    max_rank: int
    bindings: tuple[Binding, ...] = ()
    loops: tuple[Loop, ...] = ()
    sites: tuple[Site, ...] = ()


class Native(NamedTuple):
    """The code of an entry (`backend/c.py` has the convention), what makes a context for it, which one call at a time
    may use, and the words that it writes for each result; as addresses."""

    call: int
    new_context: int
    stride: int


_stops: Counter[int] = Counter()  # how many want the calls of a library to end
_stop_lock = threading.Lock()


class Stopped(Exception):
    """A call that was told to end (`CLibrary.stopping`)."""


class Misfit(Exception):
    """The memory for a result, by its number, is not of the shape that the result has."""

    def __init__(self, place: int, shape: tuple[int, ...]) -> None:
        super().__init__(place, shape)
        self.place, self.shape = place, shape


class _Frame:
    """An entry of a library, and the memory through which its arguments and results pass, set up once: a call only
    fills it in."""

    def __init__(self, lib: ctypes.CDLL, f: CFunction, stride: int) -> None:
        self.entry: int = ctypes.cast(getattr(lib, f.symbol), ctypes.c_void_p).value or 0
        self.call = lib.futad_call  # of the entry, whose address is before those of the arguments
        self.call.restype = ctypes.c_int64
        self.call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        self.labels = [label for label, _, _ in f.params]
        self.kinds = [(elem.dtype, rank) for _, elem, rank in f.params]
        pointers: Any = np.zeros(1 + max(1, len(f.params)), np.uintp)
        pointers[0] = self.entry
        self.pointers = memoryview(pointers[1:])
        self.pointers_address = pointers[1:].ctypes.data
        self.raw = np.zeros((max(1, len(f.results)), stride), np.int64)
        self.raw_address = self.raw.ctypes.data
        numbers = [words[:1].view(t.dtype)[:1] for words, (t, _) in zip(self.raw, f.results, strict=False)]
        self.results = [(t.dtype, rank, n) for (t, rank), n in zip(f.results, numbers, strict=True)]
        self.alone = [n.reshape(()) for n in numbers]  # as arrays of rank 0
        self.single = numbers[0] if len(numbers) == 1 and not f.results[0][1] else None  # all there is is a number
        self.views: list[tuple[list[int], np.ndarray[Any, Any] | None]] = [([], None)] * len(f.results)
        scalars = np.zeros(max(1, len(f.params)), np.int64)
        self.scalars: list[Any] = []  # arrays of one element
        for i, (_, elem, _) in enumerate(f.params):
            self.scalars.append(scalars[i : i + 1].view(elem.dtype))
            self.pointers[i] = self.scalars[-1].ctypes.data
        self._filler: Callable[[Sequence[Any]], None] | None = None
        self._numbers = [i for i, (_, rank) in enumerate(self.kinds) if rank == 0]
        self._elements: Callable[[], int] | None = None
        if _TELLS and len(self.kinds) - len(self._numbers) >= MANY:
            self._elements = self._at_once(lib)

    def _at_once(self, lib: ctypes.CDLL) -> Callable[[], int]:
        """What finds the addresses of all arrays at once, of objects that `_pack` has noted."""
        count = len(self.kinds)
        objects: Any = np.zeros(count, np.intp)
        self._objects = memoryview(objects)
        self._told = np.array([(id(dtype) if rank else 0, rank) for dtype, rank in self.kinds], np.int64)
        self._pack = struct.Struct(f"{count}P").pack_into
        words = [objects.ctypes.data, self._told.ctypes.data, self.pointers_address]
        numbers = [count, id(np.ndarray), object.__basicsize__]
        lib.futad_addresses.argtypes = [*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3]
        lib.futad_addresses.restype = ctypes.c_int64
        return functools.partial(lib.futad_addresses, *map(ctypes.c_void_p, words), *map(ctypes.c_int64, numbers))

    def fill(self, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Put the arguments in; they and what is returned must live until the call is over."""
        if self._elements is not None and len(args) == len(self.kinds):
            self._pack(self._objects, 0, *map(id, args))
            if self._elements() == len(args):
                for i in self._numbers:
                    self.scalars[i][0] = args[i]
                return []
        keep: list[np.ndarray[Any, Any]] = []
        i = 0
        for (dtype, rank), a in zip(self.kinds, args, strict=True):
            if rank == 0:
                self.scalars[i][0] = a
            else:
                if type(a) is not np.ndarray or a.dtype is not dtype or not a.flags.c_contiguous:
                    a = np.ascontiguousarray(a, dtype)
                    keep.append(a)
                if a.ndim != rank:
                    raise InternalError(f"argument '{self.labels[i]}' has rank {a.ndim}, not {rank}")
                self.pointers[i] = _address(a)
            i += 1
        return keep

    def fill_at(self, args: Sequence[Any]) -> None:
        """As `fill`, arrays being given by their addresses."""
        if self._filler is None:
            self._filler = self._fills_at()
        self._filler(args)

    def _fills_at(self) -> Callable[[Sequence[Any]], None]:
        """One assignment to views, which are written in less time than arrays of NumPy."""
        views: dict[str, Any] = {"pointers": self.pointers}
        views |= {f"number{i}": memoryview(of) for i, of in enumerate(self.scalars)}
        places = [f"pointers[{i}]" if rank else f"number{i}[0]" for i, (_, rank) in enumerate(self.kinds)]
        exec(f"def fill(args): [{', '.join(places)}] = args", views)
        made: Callable[[Sequence[Any]], None] = views["fill"]
        return made

    def told(self) -> list[list[int]]:
        """The words of each result."""
        words: list[list[int]] = self.raw.tolist()
        return words if self.results else []

    def array(self, i: int, context: _Context, words: list[int]) -> np.ndarray[Any, Any]:
        """An array among the results.  Where it lies as that of the call before, it is a copy of the same view: calls
        on small arrays are short, and NumPy copies in less time than it takes to say where from."""
        known, view = self.views[i]
        if words == known:
            if view is not None:
                return view.copy()
            self.views[i] = words, self._view(i, words)
        else:
            self.views[i] = words, None
        dtype, rank, _ = self.results[i]
        return _array(context, dtype, words[0], words[1], tuple(words[2 : 2 + rank]))

    def _view(self, i: int, words: list[int]) -> np.ndarray[Any, Any] | None:
        """The memory of a small result as an array; nothing is read of it where a later result lies elsewhere."""
        dtype, rank, _ = self.results[i]
        shape = tuple(words[2 : 2 + rank])
        if not 0 < (count := math.prod(shape) * dtype.itemsize) <= COPY_LIMIT:
            return None
        return np.frombuffer(memoryview((ctypes.c_char * count).from_address(words[0])), dtype).reshape(shape)


def _in_object(x: np.ndarray[Any, Any]) -> int:
    """The address of an array's elements: what stands first in the object, behind the head that all have, says
    NumPy's interface for C.  In a tenth of the time of `x.ctypes.data`."""
    return _WORD(id(x) + object.__basicsize__).value or 0


def _by_name(x: np.ndarray[Any, Any]) -> int:
    return x.ctypes.data


_WORD = ctypes.c_void_p.from_address
_PROBES: list[np.ndarray[Any, Any]] = [np.ones(3), np.ones((2, 3))[1:, 1:], np.zeros((0, 2)), np.ones(5, np.int8)[4:]]


def _as_told(x: np.ndarray[Any, Any]) -> bool:
    """Whether the object has what `futad_addresses` (`backend/c_runtime.py`) reads of it where that looks for it."""
    head, int_at = id(x) + object.__basicsize__, ctypes.c_int.from_address
    facts = (_WORD(head - 8).value, _in_object(x), int_at(head + 8).value, _WORD(head + 40).value)
    return facts == (id(type(x)), x.ctypes.data, x.ndim, id(x.dtype)) and int_at(head + 48).value == x.flags.num


_TELLS = sys.implementation.name == "cpython" and ctypes.sizeof(ctypes.c_void_p) == 8 and all(map(_as_told, _PROBES))
_address = _in_object if _TELLS else _by_name


class _Context:
    """The memory that calls use, and that of results whose arrays have died, on its way back to the slots it was taken
    from.

    Arrays die in any thread, and whenever Python collects garbage, which may be in the middle of a call: so what
    comes back waits here for the next call.  After `close` it is freed at once.
    """

    def __init__(self, lib: ctypes.CDLL) -> None:
        self.lib = lib
        self.address = lib.futad_new()
        if not self.address:
            raise OutOfMemory("out of memory")
        self.waiting: deque[tuple[int, int, int]] = deque()  # slot, address, bytes
        self.given: dict[int, tuple[int, int]] = {}  # of the last call's results: bytes, and those of their memory
        self.closed = False

    def add(self, slot: int, address: int, size: int) -> None:
        self.given.pop(address, None)
        self.waiting.append((slot, address, size))
        if self.closed:
            self.free()

    def to_slots(self) -> None:
        """What has come back is put into its slots; while no call runs."""
        while self.waiting:
            slot, address, size = self.waiting.popleft()
            self.lib.futad_return(self.address, slot, address, size)

    def close(self) -> None:
        """The context goes; results of its calls may live on."""
        self.abandon()
        self.lib.futad_free(self.address)

    def abandon(self) -> None:
        """No call uses the context again, and what it has is lost: a thread that is no more was changing it."""
        self.closed = True
        self.free()

    def free(self) -> None:
        while True:
            try:
                _, address, _ = self.waiting.popleft()
            except IndexError:  # perhaps another thread took the last one
                return
            self.lib.futad_release(address)


_shared: dict[str, int] = {}


def share_pool(lib: ctypes.CDLL) -> None:
    """Let the library use the same threads as those loaded before it (`kernels/thread_pool.h`), and the same handlers
    of signals (`kernels/interrupts.h`)."""
    for name in ("futad_interrupts_share", "futad_pool_share"):
        if (share := getattr(lib, name, None)) is not None:
            share.restype, share.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
            share(_shared.setdefault(name, share(None)))


RENEWED = 2e-4  # seconds after which a call looks whether an interrupt would still end it; looking takes about 1e-6


def _armed(lib: ctypes.CDLL, now: float) -> float:
    """From now on an interrupt ends calls, if this is Python's main thread and its handler the usual one; until when
    nobody need look."""
    if threading.get_ident() != threading.main_thread().ident or (arm := getattr(lib, "futad_arm", None)) is None:
        return 0.0
    arm(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    return now + RENEWED


class CLibrary:
    """A loaded library with the memory its calls use; one call at a time."""

    fresh = True

    def __init__(self, lib: ctypes.CDLL, layout: Layout) -> None:
        self.lib = lib
        self.layout = layout
        lib.futad_new.restype = ctypes.c_void_p
        lib.futad_take.restype = ctypes.c_void_p
        lib.futad_take.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        lib.futad_free.argtypes = [ctypes.c_void_p]
        lib.futad_release.argtypes = [ctypes.c_void_p]
        lib.futad_slot_bytes.restype = ctypes.c_int64
        lib.futad_slot_bytes.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        lib.futad_return.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]
        for name in ("futad_memory", "futad_allocations"):
            getattr(lib, name).argtypes = [ctypes.c_void_p]
            getattr(lib, name).restype = ctypes.c_int64
        self._frames = {name: _Frame(lib, f, 2 + layout.max_rank) for name, f in layout.functions.items()}
        self._lock = threading.Lock()
        self._armed_until = 0.0
        share_pool(lib)
        self._context = _Context(lib)
        self._finalizer = self._closing()
        forks.watch(self)

    def _closing(self) -> weakref.finalize[Any, Any]:
        """Closes the context with the library; not at the end of the process, when a thread may still be in a call."""
        finalizer = weakref.finalize(self, self._context.close)
        finalizer.atexit = False
        return finalizer

    def _renewed(self) -> _Context:
        """The context before, which a new one without memory takes the place of."""
        before, self._context = self._context, _Context(self.lib)
        self._finalizer.detach()
        self._finalizer = self._closing()
        return before

    def forked(self) -> None:
        """See `forks.py`."""
        if forks.is_held(self._lock):
            self._renewed().abandon()
            self._lock = threading.Lock()
        self._armed_until = 0.0
        if (forked := getattr(self.lib, "futad_interrupts_forked", None)) is not None:
            forked()

    def forget(self) -> None:
        """Give back the memory of earlier calls."""
        with self._lock:
            self._renewed().close()

    @contextlib.contextmanager
    def stopping(self) -> Iterator[None]:
        """For a while calls of the library, which was compiled so (`Target.stops`), end and raise `Stopped`; also those
        of others who have loaded it."""
        handle = self.lib._handle
        with _stop_lock:
            _stops[handle] += 1
            self.lib.futad_stop(ctypes.c_int32(True))
        try:
            yield
        finally:
            with _stop_lock:
                _stops[handle] -= 1
                self.lib.futad_stop(ctypes.c_int32(_stops[handle] > 0))

    def memory(self) -> tuple[int, int]:
        """Bytes of temporary memory held, and how many times it has grown."""
        context = self._context.address
        return self.lib.futad_memory(context), self.lib.futad_allocations(context)

    def records(self) -> tuple[int, int, int]:
        """Records that the last call kept (`core/ir.py`, `Keep`), those of them that nothing read, and the bytes that
        they took at most."""
        out = (ctypes.c_int64 * 3)()
        if (count := getattr(self.lib, "futad_records_of", None)) is not None:
            count.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
            count.restype = None
            count(self._context.address, out)
        return out[0], out[1], out[2]

    def measured(self) -> list[Measured]:
        """What the last call told of itself."""
        count = words_of(self.layout.sites)
        if not count:
            return []
        lib, context = self.lib, self._context.address
        lib.futad_measures.restype = ctypes.POINTER(ctypes.c_int64)
        lib.futad_measures.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        with self._lock:
            self._context.to_slots()  # results that nobody has any more are memory of the program
            blocks = [lib.futad_measures(context, i) for i in range(lib.futad_measures_threads())]
            told = [b[:count] for b in blocks if b]
            lib.futad_peak.restype, lib.futad_peak.argtypes = ctypes.c_int64, [ctypes.c_void_p]
            lib.futad_pages_of.restype, lib.futad_pages_of.argtypes = ctypes.c_int64, [ctypes.c_void_p, ctypes.c_int64]
            # A result may have memory that held something larger before.
            results = sum(max(0, lib.futad_pages_of(at, size) - count)
                          for at, (count, size) in list(self._context.given.items()))  # fmt: skip
            return gathered(self.layout.sites, told, lib.futad_peak(context) + results, WRITTEN)

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Run an entry on all of its core parameters (see docs/architecture.md, Backends).

        Raises BoundsError, AssertionFailed, OutOfMemory or ExecutionError with the source place.
        """
        return self.timed(name, args)[1]

    def timed(self, name: str, args: Sequence[Any]) -> tuple[float, list[Any]]:
        """As `run`, with the seconds the compiled code took."""
        with self._lock:
            context, frame, seconds = self._call(name, args)
            if frame.single is not None:
                return seconds, [frame.single[0]]
            return seconds, [
                frame.array(i, context, words) if frame.results[i][1] else frame.results[i][2][0]
                for i, words in enumerate(frame.told())
            ]

    def run_into(self, name: str, args: Sequence[Any], outs: Sequence[np.ndarray[Any, Any] | None]) -> None:
        """As `run`, the results written to `outs`, dense arrays of their dtypes that share no memory with each other or
        with arguments; None for one that is not wanted.  Raises Misfit, and writes nothing, where one is of another
        shape."""
        with self._lock:
            _, frame, _ = self._call(name, args)
            told = list(zip(outs, frame.results, frame.raw.tolist(), strict=False))
            for i, (out, (_, rank, _), words) in enumerate(told):
                if out is not None and out.shape != tuple(words[2 : 2 + rank]):
                    raise Misfit(i, tuple(words[2 : 2 + rank]))
            for out, (_, rank, number), words in told:
                if out is not None and out.size:
                    ctypes.memmove(_address(out), words[0] if rank else number.ctypes.data, out.nbytes)

    def run_at(self, name: str, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """As `run`, an array among the arguments being given by its address, and numbers among the results being arrays
        of rank 0: for those who have arrays of another library."""
        with self._lock:
            frame, context = self._frames[name], self._context
            if context.waiting:
                context.to_slots()
            context.given.clear()
            frame.fill_at(args)
            if (now := perf_counter()) > self._armed_until:
                self._armed_until = _armed(self.lib, now)
            if frame.call(context.address, frame.pointers_address, frame.raw_address):
                raise self.failure_in(context.address)
            if frame.single is not None:
                return [frame.alone[0].copy()]
            return [
                frame.array(i, context, words) if frame.results[i][1] else frame.alone[i].copy()
                for i, words in enumerate(frame.told())
            ]

    def _call(self, name: str, args: Sequence[Any]) -> tuple[_Context, _Frame, float]:
        """Run an entry's code; what it has made lies in the context and the frame until the next call, so the lock is
        held.  The seconds that it took."""
        frame = self._frames.get(name)
        if frame is None:
            raise UsageError(f"no entry is called '{name}'; there are: {', '.join(self.layout.functions)}")
        context = self._context
        if context.waiting:
            context.to_slots()
        context.given.clear()
        keep = frame.fill(args)
        start = perf_counter()
        if start > self._armed_until:
            self._armed_until = _armed(self.lib, start)
        code = frame.call(context.address, frame.pointers_address, frame.raw_address)
        seconds = perf_counter() - start
        del keep
        if code:
            raise self.failure_in(context.address)
        return context, frame, seconds

    def native(self, name: str) -> Native:
        """An entry for those who call its code themselves, in contexts of their own."""
        made = ctypes.cast(self.lib.futad_new, ctypes.c_void_p).value
        assert made is not None
        return Native(self._frames[name].entry, made, 2 + self.layout.max_rank)

    def failure_in(self, context: int) -> BaseException:
        """The exception of the call that has failed in a context, given by its address."""
        words = (ctypes.c_int64 * 8).from_address(context)
        if words[0] == STOPPED:
            return Stopped() if hasattr(self.lib, "futad_stop") else KeyboardInterrupt()
        if words[0] == CHECK:
            return self._finding(context)
        index = words[1]
        place = self.layout.places[index] if index >= 0 else FailureSite(None)
        return failure(place, words[0], list(words[4:8]))

    def _finding(self, context: int) -> Error:
        """What checked execution found."""
        words = (ctypes.c_int64 * 5)()
        self.lib.futad_finding(ctypes.c_void_p(context), words)
        self.lib.futad_iteration_at.restype = ctypes.c_int64
        self.lib.futad_iteration_at.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64]

        def iteration_at(loop: int, time: int) -> int:
            return self.lib.futad_iteration_at(context, loop, time)

        return finding(list(words), self.layout.bindings, self.layout.loops, iteration_at)


def _array(
    context: _Context, dtype: np.dtype[Any], address: int, slot: int, shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """A result, in memory taken from its slot or copied."""
    count = math.prod(shape) * dtype.itemsize
    if count > COPY_LIMIT and slot >= 0:
        # A slot an earlier result of this call has taken is empty; its memory is valid while that one lives.
        size = context.lib.futad_slot_bytes(context.address, slot)
        if count <= size <= 2 * count + WASTE_LIMIT and context.lib.futad_take(context.address, slot) == address:
            buffer = (ctypes.c_char * count).from_address(address)
            # At the end of the process nobody needs the memory, but somebody may still read the array.
            weakref.finalize(buffer, context.add, slot, address, size).atexit = False
            context.given[address] = (count, size)
            return np.frombuffer(memoryview(buffer), dtype).reshape(shape)
    copy = empty_result(shape, dtype)
    if count:
        ctypes.memmove(_address(copy), address, count)
    return copy


def copy_into(results: Sequence[Any], outs: Sequence[np.ndarray[Any, Any] | None]) -> None:
    """Results to the memory of the caller, None for one that is not wanted.  Raises Misfit, and writes nothing, where
    one is of another shape."""
    pairs = list(enumerate(zip(results, outs, strict=True)))
    for i, (result, out) in pairs:
        if out is not None and out.shape != np.shape(result):
            raise Misfit(i, np.shape(result))
    for _, (result, out) in pairs:
        if out is not None:
            np.copyto(out, result, casting="no")


def empty_result(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Memory for a result.  Raises OutOfMemory, also where NumPy knows no such shape: it counts the elements of an
    empty array as if no dimension were 0."""
    try:
        return np.empty(shape, dtype)
    except (ValueError, MemoryError):
        text = "".join(f"[{n}]" for n in shape)
        if math.prod(shape) and math.prod(shape) * dtype.itemsize < 1 << 62:
            raise OutOfMemory(f"out of memory: a result of shape {text} is needed") from None
        raise OutOfMemory(f"a result of shape {text} is needed, whose size exceeds the address space") from None


def failure(place: FailureSite, code: int, words: list[int]) -> Error:
    """The exception of a failing check; `words` are the four values it reports."""
    a, b = words[0], words[1]
    if code == MEMORY:
        if a < 0:
            return negative_size(a)
        if a == (1 << 63) - 1:
            return OutOfMemory(EXCEEDS)
        return OutOfMemory(f"out of memory: {a * b} bytes are needed for an array")
    if code == LANES:
        return lanes_met(place.message, a, b)
    assert code in (BOUNDS, DIVISION, ASSERT)
    return failed_check(place.message, _fill(place, words), place.span)


def _fill(place: FailureSite, words: list[int]) -> str:
    """A check's message with its values in place of the {}s."""
    text = place.message
    for t, w in zip(place.types, words, strict=False):
        if t.is_float:
            value: Any = np.array(w, np.int64).view(np.float64)[()]
        elif t.is_bool:
            value = "true" if w else "false"
        else:
            value = int(np.array(w & (1 << 64) - 1, np.uint64).astype(t.dtype))  # words are signed or not
        text = text.replace("{}", str(value), 1)
    return text
