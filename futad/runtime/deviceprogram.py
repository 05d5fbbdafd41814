"""Programs on a device: calls of entries, replayed from graphs where that pays; failures of the device."""

from __future__ import annotations

import atexit
import math
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from futad import cache, forks
from futad.core.measures import Measured
from futad.core.types import I64, with_true_as_one
from futad.errors import DeviceError, Error, InternalError, OutOfMemory, UsageError, warn
from futad.runtime import tuning
from futad.runtime.counts import Counts
from futad.runtime.device import Device, Fault, Posted, Thresholds
from futad.runtime.devicereports import DeviceReports, host_scalar
from futad.runtime.exchange import DeviceArray
from futad.runtime.ffi import empty_result
from futad.runtime.graph_capture import ENOUGH_LAUNCHES, Recording, Recordings
from futad.runtime.handover import piece
from futad.runtime.host import ERROR_WORDS, Layout, Out, Runtime

if TYPE_CHECKING:
    from futad.runtime.valuecheck import ValueCheck


MOST_UNHEARD = 64  # calls that may have failed, before one waits for the first

_programs: WeakSet[DeviceProgram] = WeakSet()


def synchronise() -> None:
    """Wait for all calls of this process on a GPU.

    Calls on arrays of the GPU return before they are done.  Raises the first failure of theirs that nobody has heard
    of, as the call would have.
    """
    for program in list(_programs):
        program.synchronise()


@atexit.register
def _last_words() -> None:
    """A failure that nobody has heard of when the process ends is written to stderr."""
    for program in list(_programs):
        try:
            program.last_words()
        except Error as e:
            print(f"error: {e}", *e.notes, sep="\n", file=sys.stderr)


class NotCaptured(Exception):
    """The work of a call could not be captured, for the reason that is its cause."""


class DeviceProgram:
    """A program on a device: kernels compiled, host code ready; one call at a time."""

    def __init__(
        self, device: Device, layout: Layout, source: str, host: str, constants: list[Any],
        values: ValueCheck | None = None, runtime: type[Runtime] = Runtime,
    ) -> None:  # fmt: skip
        """`values` checks what the host code binds, which then reports it."""
        self.device, self.layout, self.constants = device, layout, constants
        self._unheard: deque[tuple[str, Posted]] = deque()  # the calls that may have failed, and what says so
        names = sorted({k.symbol for k in layout.kernels})
        device.compile(source, names)
        self._values, self._runtime = values, runtime
        self._widen = lambda: device.compile(f"#define FUTAD_WIDE 1\n{source}", names, wide=True)
        self.runtime = self._new_runtime()
        scope: dict[str, Any] = {}
        exec(compile(host, "<host code>", "exec"), scope)
        quietly = np.errstate(all="ignore")  # scalar operations of the host are those of the machine
        self._functions: dict[str, Callable[..., list[Out]]] = {
            name: quietly(scope[f]) for name, (f, _, _) in layout.functions.items()
        }
        self._lock = threading.Lock()
        self.recordings = Recordings()
        # Variables are numbered as they come in a process, so their numbers are no part of what a program is.
        self.host, self.key = host, cache.digest(*[re.sub(r"_\d+\b", "_", text) for text in (source, host)])
        self._warned = False
        self.has_products = any(k.product is not None for k in layout.kernels)
        tuned = tuning.stored(device.model, self.key)
        if tuned is not None:
            self.runtime.choose(tuned)
        if values is not None:  # what iterations bind only the host can report
            self.runtime.choose(device.limits.thresholds._replace(one_block=-1))
        # What is replayed reports nothing, and nobody can wait for a launch that is captured.
        alone = values is not None or self.runtime.synchronous
        self.graphs = self.runtime.graphs and not alone and os.environ.get("FUTAD_GRAPHS", "1") != "0"
        forks.watch(self)
        _programs.add(self)

    def _new_runtime(self) -> Runtime:
        made = self._runtime(self.device, self.layout)
        made.wide = self._widen
        made.reports = DeviceReports(self._values, made) if self._values is not None else None
        return made

    def forked(self) -> None:
        """See `forks.py`.  The state of a GPU does not come along; its device says so when it is used."""
        self._unheard.clear()
        if forks.is_held(self._lock):
            self._lock = threading.Lock()
            if not self.device.cuda:
                before, self.runtime = self.runtime, self._new_runtime()
                self.runtime.thresholds, self.runtime.blas = before.thresholds, before.blas
                self.recordings = Recordings()

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Run an entry on all of its core parameters (see docs/architecture.md, Backends).

        An array may be a `DeviceArray`; if one is, all results are arrays of the device's library in its memory,
        scalars ones of rank 0, and nothing waits for the device unless the host must: a failure that the host has not
        heard of when the call ends is raised by a later call, or by `synchronise`, and the arrays are as `handover.py`
        says.  Raises BoundsError, AssertionFailed, OutOfMemory, ExecutionError with the source place; DeviceError where
        the device or its driver fails; DtypeError, UsageError for an array that cannot be used.
        """
        if name not in self._functions:
            raise UsageError(f"no entry is called '{name}'; there are: {', '.join(self._functions)}")
        with self._lock:
            return self._persistent(lambda: self._run(name, args))

    def _run(self, name: str, args: Sequence[Any]) -> list[Any]:
        r = self.runtime
        r.counts = Counts()
        self.device.enter()
        self._hear(wait=len(self._unheard) >= MOST_UNHEARD)
        try:
            values = self._upload(name, args)
            outs = self._call(name, values) if r.reports is None else r.reports.call(self, name, args, values)
            posted = r.post()
            there = [a for a in args if isinstance(a, DeviceArray)]
            results = self._to_device(outs, posted is not None) if there else [self.to_numpy(o) for o in outs]
            if not there:
                r.hear(posted)
        except Error:
            self._hear(wait=True)  # the record of failures may be that of a call before
            raise
        if there:
            self.device.hold([a.owner for a in there])
            if posted is not None:
                self._unheard.append((name, posted))
        r.arena.consolidate()
        if r.synchronous or not self.device.cuda:  # a card may be done with this call or not: a later one raises it
            self._hear(wait=True)
        return results

    def _hear(self, wait: bool) -> None:
        """Raise the first failure of earlier calls, as far as is known or, if `wait`, of all."""
        while self._unheard and (wait or self._unheard[0][1].done):
            name, posted = self._unheard.popleft()
            try:
                self.runtime.hear(posted)
            except Error as e:
                later = len(self._unheard)
                for _, p in self._unheard:  # which have the same record
                    p.words()
                self._unheard.clear()
                after = f" and of the {later} after it" if later else ""
                e.notes = (*e.notes, f"a call of '{name}' failed before; its results{after} are not valid")
                raise

    def synchronise(self) -> None:
        """Wait for all calls; raises the first failure that nobody has heard of."""
        with self._lock:
            self._hear(wait=True)
            self.device.synchronise()

    def last_words(self) -> None:
        """Raise what nobody has heard of, at the end of the process: the device's library may be gone by then."""
        try:
            self._hear(wait=True)
        except Error:
            raise
        except Exception:  # no call of the library is of use any more
            self._unheard.clear()

    def _persistent(self, do: Callable[[], Any]) -> Any:
        """What `do` gives; done again from the arguments on if its work could not be captured, and once if memory was
        short.  Raises DeviceError, OutOfMemory where the device's library fails."""
        relieved = False
        while True:
            self.runtime.failed = ""
            try:
                return do()
            except Error:
                raise
            except NotCaptured as e:
                self._not_captured(e)
            except Exception as e:
                fault = self.device.fault(e)
                if fault is None:
                    raise
                if not fault.memory or fault.lost or relieved:
                    raise self._device_error(fault) from e
                relieved = True
                self.recordings.clear()
                self.device.relieve()

    def _not_captured(self, e: NotCaptured) -> None:
        if not self._warned:
            self._warned = True
            warn(f"calls run without CUDA graphs, as the work of one could not be captured: {e.__cause__}")

    def _device_error(self, fault: Fault) -> Error:
        """What a device's library failed with, as the caller is told."""
        failed = self.runtime.failed
        where = f" in {failed}" if failed else ""
        if fault.memory:
            return OutOfMemory(f"out of device memory{where}: {fault.cause}")
        hint = None
        if not self.runtime.synchronous:
            hint = "work fails some time after it was started, perhaps in another call; FUTAD_SYNC=1 names the kernel"
        note = "the GPU cannot be used by this process any more: start it again" if fault.lost else ""
        return DeviceError(f"the GPU failed{where}: {fault.cause}", notes=(note,) if note else (), hint=hint)

    def measured(self) -> list[Measured]:
        """What the last call told of itself."""
        with self._lock:
            self.device.enter()
            return self.runtime.measured()

    def timed(self, name: str, args: Sequence[Any], runs: int) -> list[float]:
        """Seconds of each of some runs, from arguments on the device to results left there, after one that is not
        timed."""
        with self._lock:
            return self._persistent(lambda: self._timed(name, args, runs))

    def _timed(self, name: str, args: Sequence[Any], runs: int) -> list[float]:
        self.runtime.counts = Counts()
        self.device.enter()
        self._hear(wait=True)
        self.call(name, self._upload(name, args))
        self.runtime.arena.consolidate()
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
            self.recordings.clear()

    def close(self) -> None:
        """Give all memory back to the device.  Raises the first failure that nobody has heard of."""
        self.synchronise()
        self.recordings.clear()
        self.runtime.arena.release()

    def call(self, name: str, values: list[Any]) -> list[Out]:
        """Run an entry on arguments that are on the device; its results, there.  Raises what it fails with."""
        outs = self._call(name, values)
        self.runtime.check()
        return outs

    def _call(self, name: str, values: list[Any]) -> list[Out]:
        """Start an entry on arguments that are on the device; its results, there, unless the runtime's record of
        failures says otherwise.

        Raises NotCaptured if its work, or a part of it, was not done because it could not be captured: the arguments
        may have been overwritten, and such calls are not captured any more.
        """
        r = self.runtime
        recording = self.recordings.of(name, values) if self.graphs else Recording()
        if recording.version != r.arena.version:
            recording.reset(r.arena.version)
        r.dirty = False
        r.clear_measures()
        try:
            if not recording.pays:
                outs = self._functions[name](r, self.constants, *values)
                work = r.counts.launches + r.counts.products
                recording.pays = not recording.plain and work >= ENOUGH_LAUNCHES * (r.counts.reads + 1)
            else:
                outs = self._replay(name, values, recording)
            return outs
        except BaseException as e:
            captured = recording.pays
            self._clean_up(recording)
            if captured and isinstance(e, Exception) and not isinstance(e, Error):
                recording.pays, recording.plain = False, True
                raise NotCaptured from e
            raise
        finally:
            r.recording = r.skipping = None

    def _clean_up(self, recording: Recording) -> None:
        """After a failure: nothing is being captured, and no failure of a kernel is on record.  What fails here as
        well is not what the caller should hear."""
        r = self.runtime
        if r.step is not None:
            r.step = None
            recording.reset(-1)
            with suppress(Exception):
                self.device.end_capture()
        with suppress(Exception):
            self.device.zero(r.error, 8 * ERROR_WORDS)

    def _replay(self, name: str, values: list[Any], recording: Recording) -> list[Out]:
        """Down the recording, and on from where it ends; see Note [Recordings]."""
        r, step = self.runtime, recording.root
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
                step = recording.next(step, None)
            else:
                answers.append(r.fetch(*step.read))
                step = recording.next(step, answers[-1])
        r.recording, r.answers, r.answered = recording, answers, 0
        if answers:
            r.skipping = step
        else:
            assert step is recording.root, "a segment that was cut goes on"
            r.begin_step(step)
        outs = self._functions[name](r, self.constants, *values)
        last = r.end_step()
        if last is not None and r.recording is not None:
            last.results, last.known = outs, True
        return outs

    def _upload(self, name: str, args: Sequence[Any]) -> list[Any]:
        """The arguments as the host code takes them."""
        r, device = self.runtime, self.device
        r.widest = 0
        values: list[Any] = []
        _, kinds, names = self.layout.functions[name]
        for i, ((dtype, rank), a) in enumerate(zip(kinds, args, strict=True)):
            if rank == 0:
                values.append(a if type(a) is int and dtype is I64.dtype else host_scalar(dtype.type(a)))
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
        number = device.place_of(a.address) if a.device is None else a.device
        if number != device.number:
            where = f"on GPU {number}" if number is not None else "in memory of another device"
            here = f"GPU {device.number}" if device.cuda else "the CPU simulator"
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

    def _to_device(self, outs: list[Out], unsure: bool) -> list[Any]:
        """Results as arrays of the device's library; `unsure`: the call may have failed."""
        made = self.device.results([(o.dtype, o.shape) for o in outs])
        pieces = [
            piece(address, o.address, o.value, o.dtype, math.prod(o.shape) * o.dtype.itemsize)
            for o, (_, address) in zip(outs, made, strict=True)
        ]
        if pieces:
            self.device.hand_over(self.runtime.error if unsure else 0, pieces)
        return [array for array, _ in made]
