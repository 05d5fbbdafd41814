"""The handler through which XLA on CPUs calls compiled C (`kernels/xla_handler.c`): one for all programs, built by the
C compiler for the interface of the installed jaxlib, and the table of entries that it calls.

Calls name their entry by `Call.digest`, so that what XLA keeps on disk is right in every process.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import functools
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any

import jax
import numpy as np

from futad.api.executable import Executable
from futad.api.program import Function
from futad.core.types import MOST_SIZE
from futad.errors import BackendError, Error, FutadWarning, ShapeError
from futad.jax.calls.entries import Call, call_of
from futad.runtime import cc
from futad.runtime.ffi import CLibrary
from futad.runtime.values import Leaf

TARGET = "futad_call"
# Element types by their numbers in XLA's interface (`XLA_FFI_DataType`).
_TYPES = {
    "bool": 1, "i8": 2, "i16": 3, "i32": 4, "i64": 5, "u8": 6, "u16": 7, "u32": 8, "u64": 9, "f16": 10, "f32": 11,
    "f64": 12,
}  # fmt: skip
_EXPLAIN = ctypes.CFUNCTYPE(
    None, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.c_void_p,
    ctypes.c_int64,
)  # fmt: skip
_WANTED = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)
_FAILED = 0

_lock = threading.RLock()
_added: list[tuple[Call, CLibrary]] = []  # by the number that the table knows; as XLA may call them, they stay
_numbers: dict[str, int] = {}  # by digest
_known: weakref.WeakValueDictionary[str, Call] = weakref.WeakValueDictionary()
_sources: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()


def exact(leaf: Leaf, x: Any, own: bool) -> Any:
    """An array of JAX in CPU memory as `Function.call_leaves` takes it; a copy if it may be overwritten."""
    array = np.asarray(x)
    if not leaf.dims:
        return leaf.elem.dtype.type(array[()])
    return np.array(array, leaf.elem.dtype, order="C") if own else np.ascontiguousarray(array, leaf.elem.dtype)


def know(call: Call) -> None:
    """Compiled code that a process finds may call the entry and its derivatives from now on, as long as it lives."""
    _known.setdefault(call.digest, call)
    if call.recipe:
        _sources.setdefault(call.recipe.split()[0], call.f.executable)
    _start(call)


def offers(call: Call) -> bool:
    """Whether XLA can call the entry's code, which is compiled now; if not, a warning says so once."""
    try:
        executor = call.f.executable.executor()
    except MemoryError as e:
        raise call.f.executable.explained(e) from None
    library = getattr(executor, "compiled", executor)
    if type(library) is not CLibrary:
        warn(call, f"its code for backend '{call.f.executable.backend}' is called by Python")
        return False
    try:
        _add(call, library)
    except BackendError as e:
        warn(call, e.message + (f"; {e.hint}" if e.hint else ""))
        return False
    return True


@functools.lru_cache(maxsize=4096)
def _warn(name: str, why: str) -> None:
    text = f"{name} is called through jax.pure_callback, which costs some hundred microseconds a call: {why}"
    warnings.warn(text, FutadWarning, stacklevel=2)


def warn(call: Call, why: str) -> None:
    """Once a program."""
    program = call.f.executable
    _warn(program.origin.main if program.origin is not None else program.core.name, why)


def _add(call: Call, library: CLibrary) -> None:
    with _lock:
        if call.digest in _numbers:
            return
        number = len(_added)
        native, plan = library.native(call.f.symbol), _plan(call, library, number)
        plan[5] = native.stride
        words = (ctypes.c_int64 * len(plan))(*plan)
        done = _handler().futad_xla_add(
            call.digest.encode(), ctypes.c_void_p(native.call), ctypes.c_void_p(native.new_context), words, len(plan)
        )
        if not done:
            raise MemoryError
        _added.append((call, library))
        _numbers[call.digest] = number


def _plan(call: Call, library: CLibrary, number: int) -> list[int]:
    """What the table holds of an entry, as numbers: see `struct entry`.  The stride is not filled in."""
    s = call.f.signature
    made = len(s.results) + len(s.witnesses)
    shown = [i for i in range(made) if i not in s.witnesses]
    plan = [number, len(s.size_names), len(s.params), len(s.results), made, 0, MOST_SIZE]
    for leaf, consumed in zip(s.params, call.consumed, strict=True):
        dims = [d if isinstance(d, int) else -1 - d[1] for d in leaf.dims]
        plan += [_TYPES[leaf.elem.name], leaf.elem.dtype.itemsize, len(dims), int(consumed), *dims]
    for i, leaf in zip(shown, s.results, strict=True):
        plan += [i, _TYPES[leaf.elem.name], leaf.elem.dtype.itemsize, len(leaf.dims)]
    return plan


@functools.cache
def _handler() -> ctypes.CDLL:
    """The library with the handler, which XLA knows from then on.  Raises BackendError."""
    folder = jax.ffi.include_dir()
    interface = (Path(folder) / "xla" / "ffi" / "api" / "c_api.h").read_text(encoding="utf-8")
    source = cc.kernel_file("xla_handler.c").replace('#include "xla/ffi/api/c_api.h"', interface)
    made = cc.build_library(source, threads=True)
    made.futad_xla_add.restype = ctypes.c_int64
    made.futad_xla_add.argtypes = [
        ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64,
    ]  # fmt: skip
    made.futad_xla_start.restype = None
    made.futad_xla_start(_explain, _wanted)
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(made.futad_xla_call), platform="cpu")
    return made


def _start(call: Call) -> None:
    """Have the handler, for compiled code that is found before anything is traced."""
    if call.f.executable.requested in ("auto", "c", "multicore"):
        with _lock, contextlib.suppress(BackendError):
            _handler()


def _tell(number: int, what: int, words: Any, context: int, out: int, room: int) -> None:
    """Write what has gone wrong to C's memory: an error's text."""
    call, library = _added[number]
    if what == _FAILED:
        raised = library.failure_in(context)
        text = str(call.f.executable.explained(raised) if isinstance(raised, Error) else raised)
    else:
        leaf, axis, given, wanted = call.params[words[0]], words[1], words[2], words[3]
        message = f"argument '{leaf.path}' of {call.f.__name__}: dimension {axis} is {given}, where {wanted} is needed"
        text = str(ShapeError(message))
    raw = text.encode()[: room - 1].decode(errors="ignore").encode() + b"\0"
    ctypes.memmove(out, raw, len(raw))


def _add_known(digest: bytes, recipe: int, length: int) -> int:
    """Add an entry that compiled code wants; whether it is there."""
    call = _known.get(digest.decode())
    if call is None and length:
        call = _made(ctypes.string_at(recipe, length).decode())
    return int(call is not None and call.digest == digest.decode() and offers(call))


def _made(recipe: str) -> Call | None:
    """The entry of a recipe, made again from a program that is known; None if there is none."""
    source, symbol, steps = recipe.split(maxsplit=2)
    if (program := _sources.get(source)) is None:
        return None
    try:
        made = program.derived(ast.literal_eval(steps))
    except (ValueError, TypeError):  # a budget is no literal
        return None
    return call_of(made.functions.get(symbol) or Function(made, symbol))


_explain, _wanted = _EXPLAIN(_tell), _WANTED(_add_known)


__all__ = ["TARGET", "exact", "know", "offers", "warn"]
