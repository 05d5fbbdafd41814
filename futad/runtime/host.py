"""Running the host side of a device program: memory, launches, replays, failures."""

from __future__ import annotations

import functools
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.bindings import Binding, Loop
from futad.core.scalarops import OPS
from futad.core.types import PRIMS, with_true_as_one
from futad.errors import InternalError, MemoryError_, UsageError
from futad.runtime import cache, forks, tuning
from futad.runtime.arena import Arena, bytes_text
from futad.runtime.clib import MEMORY, CPlace, empty_result, failure
from futad.runtime.counts import Counts
from futad.runtime.device import Device, Frame, Product, Thresholds
from futad.runtime.devicereports import DeviceReports, host_scalar
from futad.runtime.exchange import DeviceArray
from futad.runtime.tape import ENOUGH_LAUNCHES, MOST_NODES, Step, Tape, Tapes

if TYPE_CHECKING:
    from futad.runtime.valuecheck import ValueCheck

ERROR_WORDS = 7  # code, place, four values; then how many blocks have come to the end of the kernel
TILE_THREADS = 256  # of flatten/kernel.py

@functools.cache
def _argument_types(name: str, arg: np.dtype[Any]) -> list[type[np.generic]]:
    """What the arguments of a scalar operation are as NumPy scalars, where those of any type are `arg`."""
    t = next(p for p in PRIMS.values() if p.dtype == arg)
    return [p.dtype.type for p in OPS[name].arg_types(t)]


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
    memory as (parameter, bytes an element, slot, whether a block's or a thread's), if it is nothing but a matrix
    product which, and the parameters that are indices (`backend/device_index.py`)."""

    symbol: str
    kind: str
    params: tuple[np.dtype[Any] | None, ...]
    scratch: tuple[tuple[int, int, int, bool], ...]
    fails: bool
    product: ProductInfo | None = None
    indices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """A device program without its texts: entries by name as (Python name, dtypes and ranks, names of parameters); what
    checked execution can name, if it is for that."""

    functions: dict[str, tuple[str, tuple[tuple[np.dtype[Any], int], ...], tuple[str, ...]]]
    kernels: tuple[KernelInfo, ...]
    places: tuple[CPlace, ...]
    bindings: tuple[Binding, ...] = ()
    loops: tuple[Loop, ...] = ()


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
        self.thresholds: tuple[int, ...] = device.limits.thresholds[:-1]
        self.blas = device.limits.thresholds.blas
        self.arena = Arena(device)
        self.error = device.alloc(8 * ERROR_WORDS)
        device.zero(self.error, 8 * ERROR_WORDS)
        self.dirty = False
        self.counts = Counts()
        self.widest = 0  # elements of an array of the present call, at most
        self.wide: Callable[[], None] | None = None  # makes the kernels with wide indices ready, unless they are
        self.trace = False
        self.reports: DeviceReports | None = None  # to whoever checks what calls bind
        self.frames = [Frame(k.symbol, (None, *k.params)) for k in layout.kernels]
        # How the present call is recorded; see Note [Tapes].
        self.tape: Tape | None = None
        self.step: Step | None = None  # being captured
        self.answers: list[Any] = []  # what the values read in the part of a call that is skipped were
        self.skipping: Step | None = None  # what follows the part that is skipped
        self.answered = 0

    def choose(self, thresholds: Thresholds) -> None:
        """By which sizes to choose between versions from now on."""
        self.thresholds, self.blas = thresholds[:-1], thresholds.blas

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

    def chunks(self, count: int, segments: int) -> int:
        """Into how many parts to cut each of some folds of so many elements."""
        return max(1, min(self.limits.blocks // max(1, segments), -(-count // self.limits.chunk)))

    def launch(self, number: int, units: int, inner: int, args: Sequence[Any], counts: Sequence[int]) -> None:
        if units <= 0:
            return
        k = self.layout.kernels[number]
        if k.kind == "tile" and inner <= 0:
            return  # a batch of no products
        if k.scratch:
            blocks, threads, args = self._with_scratch(k, units, inner, args, counts)
        else:
            blocks, threads = self._grid(k.kind, units, inner)
        if self.skipping is not None:
            return
        if k.product is not None and self._by_blas(k.product, args):
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
        frame.pack(self.error, *args)
        wide = max(self.widest, units, *[abs(args[i]) for i in k.indices]) >= self.limits.narrow
        if wide and self.wide is not None:
            self.wide()
            self.wide = None
        self.device.launch(frame, (blocks, inner if k.kind == "tile" else 1), threads, wide)
        self._recorded()

    def _grid(self, kind: str, units: int, inner: int) -> tuple[int, int]:
        """Blocks and threads of a block."""
        limits = self.limits
        if kind == "thread":
            return min(-(-units // limits.thread_block), limits.blocks * 8), limits.thread_block
        if kind == "warp":
            return min(-(-units // (limits.warp_block // 32)), limits.blocks * 8), limits.warp_block
        if kind == "single":
            return 1, 1
        if kind == "tile":
            return units, TILE_THREADS
        threads = 32
        while threads < inner and threads < limits.fold_block:
            threads *= 2
        return min(units, limits.blocks * 8), threads

    def _with_scratch(
        self, k: KernelInfo, units: int, inner: int, args: Sequence[Any], counts: Sequence[int]
    ) -> tuple[int, int, list[Any]]:
        """The grid, smaller if its threads want more memory of their own than there is for that, and the arguments
        with that memory."""
        blocks, threads = self._grid(k.kind, units, inner)
        together = threads // 32 if k.kind == "warp" else 1  # how many units a block does at a time
        each = sum(
            n * size * (together if b else threads) for (_, size, _, b), n in zip(k.scratch, counts, strict=True)
        )
        if each * blocks > self.limits.scratch:
            blocks = max(1, self.limits.scratch // each)
        filled = list(args)
        for (at, size, slot, per_block), n in zip(k.scratch, counts, strict=True):
            many = blocks * (together if per_block else threads)
            filled[at] = self.ensure(slot, n * many, size, "scratch memory_")
        return blocks, threads, filled

    def _by_blas(self, info: ProductInfo, args: Sequence[Any]) -> bool:
        """Whether the BLAS computes a product: it is large enough, and there is one that can."""
        p = info.of(args)
        work = p.m * p.n * p.k * p.batches
        return 0 < work >= self.blas and self.device.product(p)

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
        assert self.tape is not None
        step.read, step.known = (address, dtype), True
        value = self.fetch(address, dtype)
        self.begin_step(self.tape.next(step, value))
        return value

    def fetch(self, address: int, dtype: np.dtype[Any]) -> Any:
        """A scalar of the device's memory, now."""
        self.check()
        self.counts.reads += 1
        out = np.empty((), dtype)
        self.device.download(address, out)
        return host_scalar(out[()])

    def op(self, name: str, arg: np.dtype[Any], result: np.dtype[Any], *args: Any) -> Any:
        """A scalar operation of the table."""
        values = [t(a) for t, a in zip(_argument_types(name, arg), args, strict=True)]
        with np.errstate(all="ignore"):
            return host_scalar(result.type(OPS[name].eval(*values)))

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

    # -- recording; see Note [Tapes]

    def begin_step(self, step: Step) -> None:
        """Capture what follows, unless that stretch is not to be."""
        if not step.plain:
            step.nodes = 0
            self.device.begin_capture()
            self.step = step

    def end_step(self) -> Step | None:
        """Do what was captured; the stretch, None if nothing was being captured."""
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
            assert self.tape is not None
            step.known = True
            self.begin_step(self.tape.next(step, None))

    def _resume(self) -> None:
        """What was done before has been skipped."""
        step, self.skipping = self.skipping, None
        assert step is not None
        self.begin_step(step)

    def give_up(self) -> None:
        """Something happens that no graph can hold: do what was captured, and forget it."""
        if self.skipping is not None:
            raise InternalError("a call that was the same so far needs other memory")
        if self.end_step() is not None and self.tape is not None:
            self.tape.reset(-1)
        self.tape = None

    # -- failures

    def fail(self, code: int, place: int, *values: Any) -> None:
        """Raise what a check on the host found; an earlier failure on the device comes first."""
        self.give_up()
        self.check()
        words = [int(np.float64(v).view(np.int64)) if isinstance(v, np.floating) else int(v) for v in values]
        self.raise_(code, place, (words + [0, 0, 0, 0])[:4])

    def raise_(self, code: int, place: int, words: list[int]) -> None:
        where = self.layout.places[place] if place >= 0 else CPlace(None, "", ())
        if code == MEMORY and place < 0 and words[0] >= 0 and words[1] == 0:
            words[1] = 1
        raise failure(where, code, words)

    def check(self) -> None:
        """Raise the first failure of the kernels so far, if any."""
        if not self.dirty:
            return
        self.dirty = False
        words = np.zeros(ERROR_WORDS, np.int64)
        self.device.download(self.error, words)
        if words[0]:
            self.device.zero(self.error, 8 * ERROR_WORDS)
            if words[0] == MEMORY and words[2] > 0 and self.device.heap is not None:
                needed, heap = bytes_text(int(words[2]) * int(words[3])), bytes_text(self.device.heap)
                raise MemoryError_(
                    f"out of device memory: {needed} are needed for an array of one thread, of the {heap} that all "
                    "threads of a kernel have for arrays whose sizes they compute"
                )
            self.raise_(int(words[0]), int(words[1]), [int(w) for w in words[2:6]])


class DeviceProgram:
    """A program on a device: kernels compiled, host code ready; one call at a time."""

    def __init__(
        self, device: Device, layout: Layout, source: str, host: str, constants: list[Any],
        values: ValueCheck | None = None, runtime: type[Runtime] = Runtime,
    ) -> None:  # fmt: skip
        """`values` checks what the host code binds, which then reports it."""
        self.device, self.layout, self.constants = device, layout, constants
        names = sorted({k.symbol for k in layout.kernels})
        device.compile(source, names)
        self._values, self._runtime = values, runtime
        self._widen = lambda: device.compile(f"#define FUTAD_WIDE 1\n{source}", names, wide=True)
        self.runtime = self._new_runtime()
        scope: dict[str, Any] = {}
        exec(compile(host, "<host code>", "exec"), scope)
        self._functions: dict[str, Callable[..., list[Out]]] = {
            name: scope[f] for name, (f, _, _) in layout.functions.items()
        }
        self._lock = threading.Lock()
        self.tapes = Tapes()
        # Variables are numbered as they come in a process, so their numbers are no part of what a program is.
        self.host, self.key = host, cache.digest(*[re.sub(r"_\d+\b", "_", text) for text in (source, host)])
        self.has_products = any(k.product is not None for k in layout.kernels)
        tuned = tuning.stored(device.model, self.key)
        if tuned is not None:
            self.runtime.choose(tuned)
        # What is replayed reports nothing.
        self.graphs = self.runtime.graphs and values is None and os.environ.get("FUTAD_GRAPHS", "1") != "0"
        forks.watch(self)

    def _new_runtime(self) -> Runtime:
        made = self._runtime(self.device, self.layout)
        made.wide = self._widen
        made.reports = DeviceReports(self._values, made) if self._values is not None else None
        return made

    def forked(self) -> None:
        """See `forks.py`.  The state of a GPU does not come along; its device says so when it is used."""
        if forks.is_held(self._lock):
            self._lock = threading.Lock()
            if not self.device.cuda:
                before, self.runtime = self.runtime, self._new_runtime()
                self.runtime.thresholds, self.runtime.blas = before.thresholds, before.blas
                self.tapes = Tapes()

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Run an entry on all of its core parameters (see docs/architecture.md, Backends).

        An array may be a `DeviceArray`; if one is, all results are arrays of the device's library in its memory,
        scalars ones of rank 0, and nothing waits for the device unless the host must.  Raises BoundsError,
        AssertionError_, MemoryError_, RuntimeError_ with the source place; DtypeError, UsageError for an array that
        cannot be used.
        """
        if name not in self._functions:
            raise UsageError(f"no entry is called '{name}'; there are: {', '.join(self._functions)}")
        with self._lock:
            self.runtime.counts = Counts()
            values = self._upload(name, args)
            reports = self.runtime.reports
            outs = self.call(name, values) if reports is None else reports.call(self, name, args, values)
            there = [a for a in args if isinstance(a, DeviceArray)]
            results = [self._to_device(o) if there else self.to_numpy(o) for o in outs]
            if there:
                self.device.hold([a.owner for a in there])
            self.runtime.arena.settle()
            return results

    def timed(self, name: str, args: Sequence[Any], runs: int) -> list[float]:
        """Seconds of each of some runs, from arguments on the device to results left there, after one that is not
        timed."""
        with self._lock:
            self.runtime.counts = Counts()
            self.call(name, self._upload(name, args))
            self.runtime.arena.settle()
            values = self._upload(name, args)
            out = []
            for _ in range(runs):
                self.runtime.counts = Counts()
                self.device.synchronise()
                start = time.perf_counter()
                self.call(name, values)
                self.device.synchronise()
                out.append(time.perf_counter() - start)
            return out

    def choose(self, thresholds: Thresholds) -> None:
        """By which sizes to choose between versions from now on."""
        with self._lock:
            self.runtime.choose(thresholds)
            self.tapes.clear()

    def close(self) -> None:
        """Give all memory back to the device."""
        self.tapes.clear()
        self.runtime.arena.release()

    def call(self, name: str, values: list[Any]) -> list[Out]:
        """Run an entry on arguments that are on the device; its results, there."""
        r = self.runtime
        tape = self.tapes.of(name, values) if self.graphs else Tape()
        if tape.version != r.arena.version:
            tape.reset(r.arena.version)
        r.dirty = False
        try:
            if not tape.pays:
                outs = self._functions[name](r, self.constants, *values)
                tape.pays = r.counts.launches >= ENOUGH_LAUNCHES * (r.counts.reads + 1)
            else:
                outs = self._replay(name, values, tape)
            r.check()
            return outs
        except BaseException:
            if r.step is not None:
                r.step = None
                self.device.end_capture()
                tape.reset(-1)
            self.device.zero(r.error, 8 * ERROR_WORDS)
            raise
        finally:
            r.tape = r.skipping = None

    def _replay(self, name: str, values: list[Any], tape: Tape) -> list[Out]:
        """Down the tape, and on from where it ends; see Note [Tapes]."""
        r, step = self.runtime, tape.root
        answers: list[Any] = []
        while step.known:
            if step.graph is not None:
                step.graph.launch()
                r.counts.replayed += 1
                r.counts.launches += step.nodes
                r.dirty = r.dirty or step.fails
            if step.results is not None:
                return step.results
            if step.read is None:
                step = tape.next(step, None)
            else:
                answers.append(r.fetch(*step.read))
                step = tape.next(step, answers[-1])
        r.tape, r.answers, r.answered = tape, answers, 0
        if answers:
            r.skipping = step
        else:
            assert step is tape.root, "a stretch that was cut goes on"
            r.begin_step(step)
        outs = self._functions[name](r, self.constants, *values)
        last = r.end_step()
        if last is not None and r.tape is not None:
            last.results, last.known = outs, True
        return outs

    def _upload(self, name: str, args: Sequence[Any]) -> list[Any]:
        """The arguments as the host code takes them."""
        r, device = self.runtime, self.device
        r.widest = 0
        device.enter()
        values: list[Any] = []
        _, kinds, names = self.layout.functions[name]
        for i, ((dtype, rank), a) in enumerate(zip(kinds, args, strict=True)):
            if rank == 0:
                values.append(host_scalar(dtype.type(a)))
                continue
            if isinstance(a, DeviceArray):
                r.widest = max(r.widest, a.size)
                values.append(self._imported(a, (name, i), names[i]))
                continue
            x = with_true_as_one(np.ascontiguousarray(a, dtype=dtype))
            if x.ndim != rank:
                raise InternalError(f"argument {i} has rank {x.ndim}, not {rank}")
            address = r.ensure((name, i), x.size, dtype.itemsize, names[i])
            if x.nbytes:
                device.upload(address, x)
                r.counts.uploaded += x.nbytes
            values.append(address)
        return values

    def _imported(self, a: DeviceArray, slot: Any, label: str) -> int:
        """The address of a dense array in our device's memory: its own, or that of a copy where there must be one."""
        device = self.device
        if a.size == 0:
            return 0
        number = device.place_of(a.address)
        if number != device.number:
            where = f"on GPU {number}" if number is not None else "in memory of another device"
            here = f"GPU {device.number}" if device.cuda else "the emulated device"
            raise UsageError(f"argument '{a.path}': the array is {where}, the program runs on {here}",
                             hint="copy it there first")  # fmt: skip
        if a.stream is not None:
            device.wait_for(a.stream)
        bools = a.dtype == np.bool_  # which may have bytes other than 0 and 1, on which kernels rely
        if a.strides is None and not a.own and not bools and a.address % a.dtype.itemsize == 0:
            return a.address
        address = self.runtime.ensure(slot, a.size, a.dtype.itemsize, label)
        self.runtime.counts.copied += a.nbytes
        if a.strides is None and not bools:
            device.copy(address, a.address, a.nbytes)
        else:
            shape, strides = (a.shape, a.strides) if a.strides is not None else ((a.size,), (a.dtype.itemsize,))
            device.gather(address, a.address, a.dtype, shape, strides)
        return address

    def to_numpy(self, out: Out) -> Any:
        """A result as a NumPy array or scalar."""
        if out.value is not None:
            return out.value
        host = empty_result(out.shape, out.dtype)
        if host.nbytes:
            self.device.download(out.address, host)
            self.runtime.counts.downloaded += host.nbytes
        return host if out.shape else host[()]

    def _to_device(self, out: Out) -> Any:
        made, address = self.device.result(out.dtype, out.shape)
        nbytes = int(np.prod(out.shape, dtype=np.int64)) * out.dtype.itemsize
        if out.value is not None:
            self.device.upload(address, np.array(out.value, out.dtype))
        elif nbytes:
            self.device.copy(address, out.address, nbytes)
        return made
