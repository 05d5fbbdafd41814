"""Checking the values that a compiled program binds against the interpreter, while it runs (docs/checking.md).

A `ValueCheck` runs the interpreter beside the compiled program, in steps: each report brings the interpreter to its
next binding, the two values are compared, and the interpreter goes on with the compiled one.  So each binding is
checked by itself, from inputs that both have in common.

Note [Agreement]
~~~~~~~~~~~~~~~~
Integers and bools agree if they are equal; floats if they are equal, both NaN, or differ by no more than `NEAR` times
the larger of the two, which is enough for most rounding.  What differs by more is compared with what rounding can do to
this statement on these inputs (Note [Rounding] in `core/interp_steps.py`): it agrees if it differs by at most `FACTOR`
times as much as the interpreter's own results do when operations round differently.  An integer agrees too if it comes
out differently then: it hangs on a comparison or conversion of floats.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import Any

import numpy as np

from futad.core.interp_steps import Binding, Plan, Stepper, words
from futad.core.ir import Program
from futad.core.text import stm_text
from futad.core.types import REC, elem_of, shape_of
from futad.errors import CheckFailure, Error, ExecutionError, InternalError, OutOfMemory
from futad.runtime.ffi import CLibrary, Layout, copy_into

NEAR = {8: 2.0**-40, 4: 2.0**-14, 2: 2.0**-7}  # by the bytes of a float
FACTOR = 4.0
SUBNORMAL = 8.0  # units of the smallest float, which rounding of subnormal numbers may come to
HINT = "this is a defect of futad; please report it with the program"


class ValueCheck:
    """Checks calls of one compiled program, one at a time.  `compared` counts the values compared so far."""

    def __init__(self, program: Program, plan: Plan) -> None:
        self.plan = plan
        self.stepper = Stepper(program, plan)
        self.compared = 0
        self.run: Generator[Binding, Any, list[Any]] | None = None
        self.due: Binding | None = None  # the binding that the interpreter has come to
        self.results: list[Any] | None = None  # of the interpreter
        self.failure: Error | None = None  # of the interpreter
        self.last: deque[Binding] = deque(maxlen=1)  # the last binding that agreed

    def begin(self, name: str, args: Sequence[Any]) -> None:
        """The compiled program is about to be called with these arguments."""
        self.due = self.results = self.failure = None
        self.last.clear()
        self.run = self.stepper.run_in_steps(name, [np.array(a) if np.ndim(a) else a for a in args])
        self._go_on(None)

    def report(self, number: int, got: np.ndarray[Any, Any]) -> None:
        """The compiled program has bound a variable.  Raises CheckFailure if the interpreter has another value, or
        binds another one."""
        if self.failure is not None:
            return  # the compiled program notices later, if what fails is computed later
        var, due = self.plan.variables[number], self.due
        if due is None:
            raise self._astray(f"the compiled program binds {var!r}, but the interpreter is done")
        if due.var is not var:
            raise self._astray(f"the compiled program binds {var!r} where the interpreter binds {due.var!r}")
        taken = self._compare(due, got)
        self.compared += 1
        self.last.append(due)
        self._go_on(taken)

    def report_counted(
        self, number: int, start: Any, step: Any, offset: int, shape: Sequence[int], strides: Sequence[int]
    ) -> None:
        """As `report` of an array whose elements are start + step * (offset + the index times the strides)."""
        places = np.full(tuple(shape), offset, np.int64)
        for axis, stride in enumerate(strides):
            places = places + (stride * np.arange(shape[axis])).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        with np.errstate(all="ignore"):
            self.report(number, (start + places.astype(start.dtype) * step).astype(start.dtype))

    def finish(self, results: Sequence[Any]) -> None:
        """The compiled program has returned.  Raises CheckFailure if the interpreter does not, or has other results."""
        if self.failure is not None:
            raise CheckFailure(
                "checked execution: the compiled program succeeds, but the interpreter fails", notes=self._notes(),
                hint=HINT,
            ) from self.failure  # fmt: skip
        if self.due is not None:
            raise self._astray(f"the compiled program is done, but the interpreter binds {self.due.var!r}")
        assert self.results is not None
        for i, (got, want) in enumerate(zip(results, self.results, strict=True)):
            bad = disagreement(np.asarray(got), np.asarray(want), self.stepper.written(np.asarray(want)))
            if bad is not None:
                raise self._wrong(f"result {i} is not what the program bound", None, np.asarray(got), want, bad)

    def failed(self, error: ExecutionError) -> None:
        """The compiled program has failed.  Raises CheckFailure if the interpreter does not."""
        if isinstance(error, OutOfMemory):
            return
        while self.failure is None and self.due is not None:
            self._go_on(None)
        if self.failure is None:
            raise CheckFailure(
                "checked execution: the compiled program fails, but the interpreter does not", error.span,
                notes=(error.message, *self._notes()), hint=HINT,
            ) from error  # fmt: skip

    # -- in steps

    def _go_on(self, taken: Any) -> None:
        """Bring the interpreter to its next binding."""
        assert self.run is not None
        self.due = None
        try:
            with np.errstate(all="ignore"):
                self.due = self.run.send(taken)
        except StopIteration as e:
            self.results = e.value
        except (ExecutionError, InternalError) as e:
            self.failure = e
        except MemoryError as e:
            self.failure = OutOfMemory(f"out of memory: {e}")

    def _compare(self, b: Binding, got: np.ndarray[Any, Any]) -> Any:
        """The value to go on with; None if it is the interpreter's own."""
        want = np.asarray(b.value)
        if got.shape != want.shape:
            sizes = f"{list(got.shape)} in the compiled program, {list(want.shape)} in the interpreter"
            raise self._wrong(f"{b.var!r} has shape {sizes}", b)
        if _same_bits(got, want) or elem_of(b.var.type) is REC:  # each has records of its own
            return None
        known = self.stepper.written(want)
        bad = disagreement(got, want, known)
        if bad is not None:
            with np.errstate(all="ignore"):
                bad = _beyond(got, want, bad, self.stepper.spread(b))
        if bad is not None:
            raise self._wrong(f"{b.var!r} has another value than the interpreter computes", b, got, want, bad)
        taken = np.array(got)
        if known is not None:
            taken[~known] = want[~known]
        return taken if taken.ndim else taken[()]

    # -- what is wrong

    def _astray(self, what: str) -> CheckFailure:
        return self._wrong(what, self.due)

    def _wrong(
        self, what: str, b: Binding | None, got: Any = None, want: Any = None, bad: np.ndarray[Any, Any] | None = None
    ) -> CheckFailure:
        notes: list[str] = []
        if b is not None:
            notes.append(f"in {place_text(b)}")
        if bad is not None:
            at = tuple([int(i[0]) for i in np.nonzero(bad)]) if bad.ndim else ()
            element = f"element {list(at)}: " if at else ""
            notes.append(f"{element}{got[at]} in the compiled program, {np.asarray(want)[at]} in the interpreter")
            if bad.ndim:
                notes.append(f"{int(np.count_nonzero(bad))} of {bad.size} elements differ")
        if b is not None and b.stm is not None:
            notes.append(f"the statement is {_cut(stm_text(b.stm))}")
        return CheckFailure(
            f"checked execution: {what}", None if b is None else b.span, notes=(*notes, *self._notes()), hint=HINT
        )

    def _notes(self) -> tuple[str, ...]:
        notes = [f"the last binding that agreed is {b.var!r} in {place_text(b)}" for b in self.last]
        if self.failure is not None:
            notes.append(f"the interpreter: {self.failure}")
        return tuple(notes)


def place_text(b: Binding) -> str:
    """The function and the iterations of the loops around a binding."""
    return ", ".join([b.function, *[f"{name} = {i}" for name, i in b.iterations]])


def _cut(text: str, limit: int = 300) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


# --- comparing --------------------------------------------------------------------------------------------------------


def _same_bits(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> bool:
    return bool(np.array_equal(words(got), words(want)))


def disagreement(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], known: np.ndarray[Any, Any] | None
) -> np.ndarray[Any, Any] | None:
    """Where two arrays of one shape and type do not agree at first sight (Note [Agreement]), but for elements that are
    not `known`; None if nowhere."""
    if got.dtype.kind != "f":
        bad = words(got) != words(want)
    else:
        near, least = NEAR[got.dtype.itemsize], SUBNORMAL * float(np.finfo(got.dtype).smallest_subnormal)
        with np.errstate(all="ignore"):
            x, y = got.astype(np.float64), want.astype(np.float64)
            distance = np.abs(x - y)
            close = (distance <= near * np.maximum(np.abs(x), np.abs(y))) & np.isfinite(distance)
            bad = ~(close | (x == y) | (distance <= least) | (np.isnan(x) & np.isnan(y)))
    if known is not None:
        bad = bad & known
    return np.asarray(bad) if np.any(bad) else None


def _beyond(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], bad: np.ndarray[Any, Any], others: Iterable[Any]
) -> np.ndarray[Any, Any] | None:
    """Where arrays that disagree (in `bad`) differ by more than rounding can do; `others`: what the value may as well
    be, as many as it takes."""
    reach = np.zeros(want.shape)
    w = want.astype(np.float64)
    distance = np.abs(got.astype(np.float64) - w)
    for other in others:
        o = np.asarray(other)
        if o.shape != want.shape:
            continue
        if want.dtype.kind == "f":
            far = np.abs(o.astype(np.float64) - w)
            reach = np.fmax(reach, far)
            # Where one is infinite or no number and the other is not there is no distance.
            loose = (distance <= FACTOR * reach) | (~np.isfinite(far) & (o != want) & ~(np.isnan(o) & np.isnan(want)))
        else:
            loose = o != want
        bad = np.asarray(bad & ~loose)
        if not bad.any():
            return None
    return bad


# --- compiled C -------------------------------------------------------------------------------------------------------


class _Memory:
    """Elements somewhere in memory, as NumPy takes them."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.__array_interface__ = {
            "data": (address, True), "typestr": dtype.str, "shape": shape, "strides": strides, "version": 3
        }  # fmt: skip


def array_at(address: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The array there; strides in elements."""
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(_Memory(address, dtype, shape, tuple([s * dtype.itemsize for s in strides])))


class CheckedLibrary(CLibrary):
    """A library whose emitted code reports what it binds.  `first`: calls are made there before, on copies."""

    def __init__(
        self, lib: ctypes.CDLL, layout: Layout, program: Program, plan: Plan, first: CLibrary | None = None
    ) -> None:
        super().__init__(lib, layout)
        self.first = first
        self.values = ValueCheck(program, plan)
        self._calls = threading.Lock()
        self._error: BaseException | None = None
        self._types = [(elem_of(v.type).dtype, len(shape_of(v.type))) for v in plan.variables]
        self._reporter = _REPORTER(self._report)
        lib.futad_report_to.argtypes = [ctypes.c_void_p]
        lib.futad_report_to.restype = None

    def run_into(self, name: str, args: Sequence[Any], outs: Sequence[np.ndarray[Any, Any] | None]) -> None:
        copy_into(self.timed(name, args)[1], outs)

    def timed(self, name: str, args: Sequence[Any]) -> tuple[float, list[Any]]:
        with self._calls:
            if self.first is not None:
                with contextlib.suppress(ExecutionError):  # which comes again
                    self.first.timed(name, [np.array(a) if np.ndim(a) else a for a in args])
            self._error = None
            self.values.begin(name, args)
            self.lib.futad_report_to(ctypes.cast(self._reporter, ctypes.c_void_p))
            try:
                seconds, results = super().timed(name, args)
            except ExecutionError as e:
                if self._error is not None:
                    raise self._error from None
                self.values.failed(e)
                raise
            finally:
                self.lib.futad_report_to(None)
            self.values.finish(results)
            return seconds, results

    def _report(self, number: int, data: int | None, given: int | None) -> int:
        """Called by the compiled program; whether it is to stop."""
        try:
            dtype, rank = self._types[number]
            if number in self.values.plan.sequences:
                first = (ctypes.c_int64 * (1 + 2 * rank)).from_address(given or 0)[:]
                start, step = array_at(data or 0, dtype, (2,), (1,))
                self.values.report_counted(number, start, step, first[0], first[1 : 1 + rank], first[1 + rank :])
            else:
                sizes = (ctypes.c_int64 * (2 * rank)).from_address(given)[:] if given else []
                got = array_at(data or 0, dtype, tuple(sizes[:rank]), tuple(sizes[rank:]))
                self.values.report(number, got)
            return 0
        except BaseException as e:  # it goes on in the caller of the compiled program
            self._error = e
            return 1


_REPORTER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
