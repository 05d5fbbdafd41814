"""Running the host side of a device program: memory, launches, failures.

Memory is a set of slots that grow and persist, so that a call like one before allocates nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.core.scalarops import OPS
from futad.errors import InternalError, MemoryError_, UsageError
from futad.runtime.clib import CPlace, failure
from futad.runtime.device import Device

ERROR_WORDS = 6
TILE_THREADS = 256  # of flatten/kernel.py


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """How a kernel is launched: its symbol and kind, the dtype of each parameter (None: a pointer), and the scratch
    memory as (parameter, bytes an element, slot, whether a block's or a thread's)."""

    symbol: str
    kind: str
    params: tuple[np.dtype[Any] | None, ...]
    scratch: tuple[tuple[int, int, int, bool], ...]
    fails: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """A device program without its texts: entries by name as (Python name, dtypes, ranks)."""

    functions: dict[str, tuple[str, tuple[tuple[np.dtype[Any], int], ...]]]
    kernels: tuple[KernelInfo, ...]
    places: tuple[CPlace, ...]


class Runtime:
    """What emitted host code calls; `launches` and `reads` count what one call did."""

    def __init__(self, device: Device, layout: Layout) -> None:
        self.device = device
        self.layout = layout
        self.limits = device.limits
        self.thresholds = device.limits.thresholds
        self.slots: dict[Any, tuple[int, int]] = {}
        self.error = device.alloc(8 * ERROR_WORDS)
        device.zero(self.error, 8 * ERROR_WORDS)
        self.dirty = False
        self.keep = False  # leave array results on the device
        self.launches = 0
        self.reads = 0
        self.allocations = 0
        self.names: list[str] = []
        self.pointers = [tuple([True, *[p is None for p in k.params]]) for k in layout.kernels]

    # -- memory

    def ensure(self, slot: Any, count: int, size: int, label: str = "") -> int:
        """The slot's address, its memory at least `count` elements of `size` bytes."""
        nbytes = count * size
        found = self.slots.get(slot)
        if found is not None:
            if nbytes <= found[1]:
                return found[0]
            self.device.free(found[0])
            nbytes += nbytes // 4
            del self.slots[slot]
        if nbytes > 1 << 46:
            raise MemoryError_("an array is needed whose size exceeds the address space")
        nbytes = (nbytes + 127) // 64 * 64
        address = self.device.alloc(nbytes)
        self.slots[slot] = address, nbytes
        self.allocations += 1
        return address

    def copy(self, to: int, source: int, nbytes: int) -> None:
        if nbytes and to != source:
            self.device.copy(to, source, nbytes)

    def zero(self, address: int, nbytes: int) -> None:
        self.device.zero(address, nbytes)

    def memory(self) -> tuple[int, int]:
        """Bytes held, and how many times memory was allocated."""
        return sum(n for _, n in self.slots.values()), self.allocations

    # -- launches

    def chunks(self, count: int, segments: int) -> int:
        """Into how many parts to cut a fold."""
        return max(1, min(self.limits.blocks, -(-count // self.limits.chunk)))

    def launch(self, number: int, units: int, inner: int, args: Sequence[Any], counts: Sequence[int]) -> None:
        if units <= 0:
            return
        k = self.layout.kernels[number]
        limits = self.limits
        if k.kind == "single":
            blocks = threads = 1
        elif k.kind == "thread":
            threads = limits.thread_block
            blocks = min(-(-units // threads), limits.blocks * 8)
        elif k.kind == "tile":
            blocks, threads = units, TILE_THREADS
        else:
            threads = 32
            while threads < inner and threads < limits.fold_block:
                threads *= 2
            blocks = min(units, limits.blocks * 8)
        values: list[Any] = [self.error, *args]
        if k.scratch:
            each = sum(n * size * (1 if b else threads) for (_, size, _, b), n in zip(k.scratch, counts, strict=True))
            if each * blocks > limits.scratch:
                blocks = max(1, limits.scratch // each)
            for (at, size, slot, per_block), n in zip(k.scratch, counts, strict=True):
                values[at + 1] = self.ensure(slot, n * (blocks if per_block else blocks * threads), size)
        for i, t in enumerate(k.params):
            if t is not None:
                values[i + 1] = t.type(values[i + 1])
        self.launches += 1
        self.dirty = self.dirty or k.fails
        depth = inner if k.kind == "tile" else 1
        self.device.launch(k.symbol, (blocks, depth), threads, values, self.pointers[number])

    # -- values

    def read(self, address: int, dtype: np.dtype[Any]) -> Any:
        """A scalar of the device's memory."""
        self.check()
        self.reads += 1
        out = np.empty((), dtype)
        self.device.download(address, out)
        return _host_scalar(out[()])

    def op(self, name: str, arg: np.dtype[Any], result: np.dtype[Any], *args: Any) -> Any:
        """A scalar operation of the table."""
        values = [arg.type(a) for a in args]
        with np.errstate(all="ignore"):
            return _host_scalar(result.type(OPS[name].eval(*values)))

    def scalar(self, value: Any, dtype: np.dtype[Any]) -> Any:
        """A scalar result."""
        return dtype.type(value)

    def array(self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """An array result."""
        self.check()
        if self.keep:
            return np.empty(0, dtype)
        out = np.empty(shape, dtype)
        if out.nbytes:
            self.device.download(address, out)
        return out

    # -- failures

    def fail(self, code: int, place: int, *values: Any) -> None:
        """Raise what a check on the host found; an earlier failure on the device comes first."""
        self.check()
        words = [int(np.float64(v).view(np.int64)) if isinstance(v, np.floating) else int(v) for v in values]
        self.raise_(code, place, (words + [0, 0, 0, 0])[:4])

    def raise_(self, code: int, place: int, words: list[int]) -> None:
        where = self.layout.places[place] if place >= 0 else CPlace(None, "", ())
        if code == 4 and place < 0 and words[0] >= 0 and words[1] == 0:
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
            self.raise_(int(words[0]), int(words[1]), [int(w) for w in words[2:]])


def _on_device(a: Any, dtype: np.dtype[Any]) -> int | None:
    """The address of an array that is on the GPU already and fits, None for any other."""
    about = getattr(a, "__cuda_array_interface__", None)
    if about is None or np.dtype(about["typestr"]) != dtype:
        return None
    return int(about["data"][0]) if about.get("strides") is None else None


def _host_scalar(x: Any) -> Any:
    if x.dtype == np.int64:
        return int(x)
    return bool(x) if x.dtype == np.bool_ else x


class DeviceProgram:
    """A program on a device: kernels compiled, host code ready."""

    def __init__(self, device: Device, layout: Layout, source: str, host: str, constants: list[Any]) -> None:
        self.device, self.layout, self.constants = device, layout, constants
        device.compile(source, sorted({k.symbol for k in layout.kernels}))
        self.runtime = Runtime(device, layout)
        scope: dict[str, Any] = {}
        exec(compile(host, "<host code>", "exec"), scope)
        self._functions = {name: scope[f] for name, (f, _) in layout.functions.items()}
        self._lock = threading.Lock()

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Run an entry on all of its core parameters (see docs/architecture.md, Backends).

        Raises BoundsError, AssertionError_, MemoryError_ or RuntimeError_ with the source place.
        """
        if name not in self._functions:
            raise UsageError(f"no entry is called '{name}'; there are: {', '.join(self._functions)}")
        with self._lock:
            return self._call(name, self._upload(name, args))

    def timed(self, name: str, args: Sequence[Any], runs: int) -> list[float]:
        """Seconds of each of some runs, from arguments on the device to array results left there."""
        with self._lock:
            values = self._upload(name, args)
            r, out = self.runtime, []
            r.keep = True
            try:
                for _ in range(runs):
                    self.device.synchronise()
                    start = time.perf_counter()
                    self._call(name, values)
                    self.device.synchronise()
                    out.append(time.perf_counter() - start)
            finally:
                r.keep = False
            return out

    def close(self) -> None:
        """Give all memory back to the device."""
        r = self.runtime
        for address, _ in r.slots.values():
            self.device.free(address)
        r.slots.clear()

    def _upload(self, name: str, args: Sequence[Any]) -> list[Any]:
        """The arguments as the host code takes them."""
        values: list[Any] = []
        for i, ((dtype, rank), a) in enumerate(zip(self.layout.functions[name][1], args, strict=True)):
            if rank == 0:
                values.append(_host_scalar(dtype.type(a)))
                continue
            found = _on_device(a, dtype) if self.device.cuda else None
            if found is not None:
                values.append(found)
                continue
            x = np.ascontiguousarray(a, dtype=dtype)
            if x.ndim != rank:
                raise InternalError(f"argument {i} has rank {x.ndim}, not {rank}")
            address = self.runtime.ensure((name, i), x.size, dtype.itemsize)
            if x.nbytes:
                self.device.upload(address, x)
            values.append(address)
        return values

    def _call(self, name: str, values: list[Any]) -> list[Any]:
        r = self.runtime
        r.launches = r.reads = 0
        try:
            out = self._functions[name](r, self.constants, *values)
            r.check()
        except BaseException:
            r.dirty = False
            self.device.zero(r.error, 8 * ERROR_WORDS)
            raise
        return list(out)
