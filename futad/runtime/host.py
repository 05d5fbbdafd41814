"""Running the host side of a device program: memory, launches, replays, failures."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.bindings import Binding, Loop
from futad.core.failure import FailureSite
from futad.core.measures import Measured, Site, gathered, words_of
from futad.core.scalarops import OPS
from futad.core.types import Prim
from futad.errors import InternalError, OutOfMemory
from futad.runtime.arena import Arena, bytes_text
from futad.runtime.counts import Counts
from futad.runtime.device import Device, Frame, Posted, Product, Thresholds, chunks, grid
from futad.runtime.devicereports import DeviceReports, host_scalar
from futad.runtime.ffi import MEMORY, failure
from futad.runtime.graph_capture import MOST_NODES, Recording, Step

ERROR_WORDS = 7  # code, place, four values; then how many blocks have come to the end of the kernel


class HostOp:
    """A scalar operation of the table on values as host code has them: those of any type are of type `arg`."""

    __slots__ = ("types", "result", "eval")

    def __init__(self, name: str, arg: Prim, result: Prim) -> None:
        self.types = [p.dtype.type for p in OPS[name].arg_types(arg)]
        self.result, self.eval = result.dtype.type, OPS[name].eval

    def __call__(self, *args: Any) -> Any:
        return host_scalar(self.result(self.eval(*[t(a) for t, a in zip(self.types, args, strict=True)])))


# Where a number of a matrix product comes from: the place of a kernel's parameter, or (-1, the number).
Source = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ProductInfo:
    """A kernel that computes a matrix product and nothing else: where its arguments say which.  `sizes` are m, n, k;
    a matrix is its pointer's place, then where its strides of rows and columns and its step in the batch come from."""

    dtype: np.dtype[Any]
    sizes: tuple[Source, Source, Source]
    a: tuple[int, Source, Source, Source]
    b: tuple[int, Source, Source, Source]
    c: tuple[int, Source, Source, Source]
    batches: Source
    accumulate: bool

    def of(self, args: Sequence[Any]) -> Product:
        """The product that a launch with these arguments computes."""

        def number(s: Source) -> int:
            return int(args[s[0]]) if s[0] >= 0 else s[1]

        def matrix(x: tuple[int, Source, Source, Source]) -> tuple[int, int, int, int]:
            return args[x[0]], number(x[1]), number(x[2]), number(x[3])

        m, n, k = [number(s) for s in self.sizes]
        a, b, c = [matrix(x) for x in (self.a, self.b, self.c)]
        return Product(self.dtype, m, n, k, a, b, c, number(self.batches), self.accumulate)


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """How a kernel is launched: its symbol and kind, the dtype of each parameter (None: a pointer), the scratch
    memory as (parameter, bytes an element, slot, how many threads have one together, 0: all of a block), if it is
    nothing but a matrix product which, and the parameters that are indices (`backend/device_index.py`); what it does,
    and the source line it is from (0: not known); the bytes a thread of the heap for arrays whose sizes threads
    compute, if there are."""

    symbol: str
    kind: str
    params: tuple[np.dtype[Any] | None, ...]
    scratch: tuple[tuple[int, int, int, int], ...]
    fails: bool
    product: ProductInfo | None = None
    indices: tuple[int, ...] = ()
    what: str = ""
    line: int = 0
    heap: int | None = None

    @property
    def types(self) -> tuple[np.dtype[Any] | None, ...]:
        """Those of all arguments: the record of failures, the heap and its size, the parameters."""
        return (None, *((None, np.dtype(np.int64)) if self.heap is not None else ()), *self.params)

    def __str__(self) -> str:
        at = f", line {self.line}" if self.line else ""
        return f"{self.symbol} ({self.what}{at})" if self.what or at else self.symbol


@dataclass(frozen=True, slots=True)
class Layout:
    """A device program without its texts: entries by name as (Python name, dtypes and ranks, names of parameters); what
    checked execution can name, if it is for that; the places that tell numbers."""

    functions: dict[str, tuple[str, tuple[tuple[np.dtype[Any], int], ...], tuple[str, ...]]]
    kernels: tuple[KernelInfo, ...]
    places: tuple[FailureSite, ...]
    bindings: tuple[Binding, ...] = ()
    loops: tuple[Loop, ...] = ()
    sites: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True)
class Out:
    """A result: an array (`shape`) or scalar at an address, or a scalar the host has (`value`)."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    address: int
    value: Any = None


class Runtime:
    """What emitted host code calls."""

    graphs = True  # whether calls may be captured

    def __init__(self, device: Device, layout: Layout) -> None:
        self.device = device
        self.layout = layout
        self.limits = device.limits
        self.thresholds: tuple[int, ...] = device.limits.thresholds
        self.blas = device.limits.thresholds.blas
        self.arena = Arena(device)
        self.error = device.alloc(8 * ERROR_WORDS)
        device.zero(self.error, 8 * ERROR_WORDS)
        words = words_of(layout.sites)
        self.measures = device.alloc(8 * words) if words else 0  # what is told of the present call
        self.clear_measures()
        self.dirty = False
        self.counts = Counts()
        self.widest = 0  # elements of an array of the present call, at most
        self.wide: Callable[[], None] | None = None  # makes the kernels with wide indices ready, unless they are
        self.trace = False
        self.synchronous = os.environ.get("FUTAD_SYNC", "0") not in ("", "0")  # wait after each launch
        self.failed = ""  # the launch that failed, if that is known
        self.reports: DeviceReports | None = None  # to whoever checks what calls bind
        self.frames = [Frame(k.symbol, k.types) for k in layout.kernels]
        # How the present call is recorded; see Note [Recordings].
        self.recording: Recording | None = None
        self.step: Step | None = None  # being captured
        self.answers: list[Any] = []  # what the values read in the part of a call that is skipped were
        self.skipping: Step | None = None  # what follows the part that is skipped
        self.answered = 0

    def choose(self, thresholds: Thresholds) -> None:
        """By which sizes to choose between versions from now on."""
        self.thresholds, self.blas = thresholds, thresholds.blas

    # -- memory

    def ensure(self, slot: Any, count: int, size: int, label: str = "") -> int:
        """The slot's address, its memory at least `count` elements of `size` bytes."""
        self.widest = max(self.widest, count)
        return self.arena.ensure(slot, count * size, label.rpartition("_")[0] or label, self.give_up)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        if nbytes and to != source and self.skipping is None:
            self.counts.copied += nbytes
            self.device.copy(to, source, nbytes)
            self._recorded()

    def zero(self, address: int, nbytes: int) -> None:
        if self.skipping is None:
            self.device.zero(address, nbytes)
            self._recorded()

    def memory(self) -> tuple[int, int]:
        """Bytes held, and how many times memory was allocated."""
        return self.arena.nbytes, self.arena.allocations

    # -- launches

    def chunks(self, count: int, segments: int, ends: int) -> int:
        """Into how many parts to cut each of some folds (`runtime/device.py`)."""
        return chunks(self.limits, count, segments, ends)

    def launch(self, number: int, units: int, inner: int, args: Sequence[Any], counts: Sequence[int]) -> None:
        if units <= 0:
            return
        k = self.layout.kernels[number]
        if k.kind == "tile" and inner <= 0:
            return  # a batch of no products
        if k.scratch:
            blocks, threads, args = self._with_scratch(k, units, inner, args, counts)
        else:
            blocks, threads = grid(self.limits, k.kind, units, inner)
        if self.skipping is not None:
            return
        if k.product is not None and self._by_blas(k, args):
            self.counts.products += 1
            if self.trace:
                self.counts.path.append(-1 - number)
            self._recorded()
            return
        self.counts.launches += 1
        if self.trace:
            self.counts.path.append(number)
        if k.fails:
            self.dirty = True
        frame = self.frames[number]
        frame.pack(self.error, *self._heap(k.heap, blocks * threads), *args)
        wide = max(self.widest, units, *[abs(args[i]) for i in k.indices]) >= self.limits.narrow
        if wide and self.wide is not None:
            self.wide()
            self.wide = None
        shape = blocks, inner if k.kind == "tile" else 1
        try:
            self.device.launch(frame, shape, threads, wide)
            if self.synchronous:
                self.device.synchronise()
        except Exception:
            values = ", ".join(map(str, frame.values()[1:]))
            self.failed = f"kernel {k} on {shape[0]} by {shape[1]} blocks of {threads} threads with ({values})"
            raise
        self._recorded()

    def _heap(self, each: int | None, threads: int) -> tuple[int, ...]:
        """The arguments that say where threads have arrays whose sizes they compute, none of which is taken yet."""
        if each is None:
            return ()
        nbytes = min(each * threads, self.limits.scratch)
        if not nbytes:
            return 0, 0
        address = self.arena.ensure("heap", nbytes, "scratch memory", self.give_up)
        self.device.zero(address, 8)
        return address, nbytes

    def _with_scratch(
        self, k: KernelInfo, units: int, inner: int, args: Sequence[Any], counts: Sequence[int]
    ) -> tuple[int, int, list[Any]]:
        """The grid, smaller if its threads want more memory of their own than there is for that, and the arguments
        with that memory."""
        blocks, threads = grid(self.limits, k.kind, units, inner)
        each = sum(
            n * size * (threads // s if s else 1) for (_, size, _, s), n in zip(k.scratch, counts, strict=True)
        )
        if each * blocks > self.limits.scratch:
            blocks = max(1, self.limits.scratch // each)
        filled = list(args)
        for (at, size, slot, sharing), n in zip(k.scratch, counts, strict=True):
            many = blocks * (threads // sharing if sharing else 1)
            filled[at] = self.ensure(slot, n * many, size, "scratch memory_")
        return blocks, threads, filled

    def _by_blas(self, k: KernelInfo, args: Sequence[Any]) -> bool:
        """Whether the BLAS computes a kernel's product: it is large enough, and there is one that can."""
        assert k.product is not None
        p = k.product.of(args)
        if not 0 < p.m * p.n * p.k * p.batches >= self.blas:
            return False
        if self.step is None:
            self.device.open_blas()
        try:
            return self.device.product(p)
        except Exception:
            self.failed = f"the BLAS, in place of kernel {k}"
            raise

    # -- values

    def read(self, address: int, dtype: np.dtype[Any]) -> Any:
        """A scalar of the device's memory, which the host needs to go on."""
        if self.skipping is not None:
            value = self.answers[self.answered]
            self.answered += 1
            if self.answered == len(self.answers):
                self._resume()
            return value
        step = self.end_step()
        if step is None:
            return self.fetch(address, dtype)
        assert self.recording is not None
        step.read, step.known = (address, dtype), True
        value = self.fetch(address, dtype)
        self.begin_step(self.recording.next(step, value))
        return value

    def fetch(self, address: int, dtype: np.dtype[Any]) -> Any:
        """A scalar of the device's memory, now."""
        posted = self.post()
        self.counts.reads += 1
        out = np.empty((), dtype)
        self.device.download(address, out)
        self.hear(posted)
        return host_scalar(out[()])

    @staticmethod
    def wrap(x: int) -> int:
        """A sum, difference or product of i64s as an i64."""
        return x if -1 << 63 <= x < 1 << 63 else (x + (1 << 63)) % (1 << 64) - (1 << 63)

    def scalar(self, value: Any, dtype: np.dtype[Any]) -> Out:
        """A scalar result that the host has."""
        return Out(dtype, (), 0, dtype.type(value))

    def cell(self, address: int, dtype: np.dtype[Any]) -> Out:
        """A scalar result on the device."""
        return Out(dtype, (), address)

    def array(self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Out:
        """An array result."""
        return Out(dtype, shape, address)

    # -- recording; see Note [Recordings]

    def begin_step(self, step: Step) -> None:
        """Capture what follows, unless that segment is not to be."""
        if not step.plain:
            step.nodes = 0
            self.device.begin_capture()
            self.step = step

    def end_step(self) -> Step | None:
        """Do what was captured; the segment, None if nothing was being captured."""
        step = self.step
        if step is None:
            return None
        self.step = None
        graph = self.device.end_capture()
        step.fails = self.dirty
        if step.nodes:
            step.graph = graph
            graph.launch()
            self.counts.captured += 1
        return step

    def _recorded(self) -> None:
        step = self.step
        if step is None:
            return
        step.nodes += 1
        if step.nodes >= MOST_NODES:
            self.end_step()
            assert self.recording is not None
            step.known = True
            self.begin_step(self.recording.next(step, None))

    def _resume(self) -> None:
        """What was done before has been skipped."""
        step, self.skipping = self.skipping, None
        assert step is not None
        self.begin_step(step)

    def give_up(self) -> None:
        """Something happens that no graph can hold: do what was captured, and forget it."""
        if self.skipping is not None:
            raise InternalError("a call that was the same so far needs other memory")
        if self.end_step() is not None and self.recording is not None:
            self.recording.reset(-1)
        self.recording = None

    # -- numbers of the run

    def clear_measures(self) -> None:
        """A call begins."""
        if self.measures:
            self.device.zero(self.measures, 8 * words_of(self.layout.sites))

    def measured(self) -> list[Measured]:
        """What the last call has told of itself."""
        words = np.zeros(words_of(self.layout.sites), np.int64)
        if self.measures:
            self.device.download(self.measures, words)
        return gathered(self.layout.sites, [words.tolist()], self.arena.nbytes)

    # -- failures

    def fail(self, code: int, place: int, *values: Any) -> None:
        """Raise what a check on the host found; an earlier failure on the device comes first."""
        self.give_up()
        self.check()
        words = [int(np.float64(v).view(np.int64)) if isinstance(v, np.floating) else int(v) for v in values]
        self.raise_(code, place, (words + [0, 0, 0, 0])[:4])

    def raise_(self, code: int, place: int, words: list[int]) -> None:
        where = self.layout.places[place] if place >= 0 else FailureSite(None)
        if code == MEMORY and place < 0 and words[0] >= 0 and words[1] == 0:
            words[1] = 1
        raise failure(where, code, words)

    def check(self) -> None:
        """Raise the first failure of the kernels so far, if any."""
        self.hear(self.post())

    def post(self) -> Posted | None:
        """The record of failures as it is after the kernels so far, if any of these may fail."""
        if not self.dirty:
            return None
        self.dirty = False
        return self.device.post(self.error, ERROR_WORDS)

    def hear(self, posted: Posted | None) -> None:
        """Raise the failure that a record has, if any, and clear it."""
        if posted is None:
            return
        words = posted.words()
        if words[0]:
            self.device.zero(self.error, 8 * ERROR_WORDS)
            if words[0] == MEMORY and words[2] > 0 and self.device.heap is not None:
                needed, heap = bytes_text(int(words[2]) * int(words[3])), bytes_text(self.device.heap)
                raise OutOfMemory(
                    f"out of device memory: {needed} are needed for an array of one thread, of the {heap} that all "
                    "threads of a kernel have for arrays whose sizes they compute"
                )
            self.raise_(int(words[0]), int(words[1]), [int(w) for w in words[2:6]])
