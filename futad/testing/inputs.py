"""The inputs and expected outputs of test cases, made real: values, files, random data, scripts."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.core.interp import TooLong
from futad.core.types import PRIMS
from futad.errors import FileError, InputError
from futad.runtime.inputs import fit_values, read_arguments, read_data_file
from futad.runtime.randomvalues import random_value
from futad.runtime.textvalues import Reader, Value
from futad.testing.blocks import Case, Data, RandomType
from futad.testing.compare import expected_arrays

if TYPE_CHECKING:
    from futad.api.program import Executable, Function, Program

LARGE = 1 << 16  # elements of arguments
LONG = 1_000_000  # statements of the interpreter, some seconds


def make_input(program: Program, function: Function, case: Case) -> list[Any]:
    """The core arguments of a case.  Raises FileError, InputError, ShapeError."""
    data = case.input
    signature = function.signature
    if data.kind == "file":
        assert data.path is not None
        return read_arguments(signature, _read(data), str(data.path), wraps=True)
    if data.kind in ("script", "script-file"):
        from futad.testing.script import run_script

        text = data.script if data.kind == "script" else _read(data).decode("utf-8", "replace")
        return run_script(program, function, text, data.place, case.input.path)
    values = data.values if data.kind == "values" else random_values(data)
    return fit_values(signature, values, InputError("the values end here", data.place))


def random_values(data: Data) -> list[Value]:
    """Values of the types listed, always the same for the same list."""
    kinds = [f"{r.dims}{r.elem}" for r in data.random if isinstance(r, RandomType)]
    rng = np.random.default_rng(zlib.crc32(" ".join(kinds).encode()))
    out = []
    for r in data.random:
        if isinstance(r, Value):
            out.append(r)
        else:
            prim = PRIMS[r.elem]
            out.append(Value(prim, "", random_value(rng, prim, r.dims), r.dims, data.place))
    return out


def expected_values(
    program: Program, function: Function, case: Case, flat: list[Any], results: list[Any]
) -> list[Any] | str:
    """What a case expects, at the types of the results; in words what does not fit.

    `auto output` is what the interpreter computes; where that takes long (a case tagged `compiled`, large arguments,
    many statements) and there is a C compiler, what sequential C does, or C for several threads if the program runs on
    that.
    """
    if case.expected == "auto":
        large = "compiled" in case.tags or sum(np.size(a) for a in flat) > LARGE
        backend = _other_backend(program.backend) if large else "interp"
        try:
            reference = _reference(program, function, backend)
            return function.signature.visible(reference.run(function.symbol, flat))
        except TooLong:
            reference = _reference(program, function, _other_backend(program.backend))
            return function.signature.visible(reference.run(function.symbol, flat))
    assert case.output is not None
    if case.output.kind == "file":
        values = Reader(_read(case.output), str(case.output.path), wraps=True).all()
    else:
        values = case.output.values
    return expected_arrays(results, values)


def _reference(program: Program, function: Function, backend: str) -> Executable:
    """The program on that backend; the interpreter gives up after `LONG` statements if there is another one."""
    from futad.api.program import Executable

    executable = function.derived(f"reference on {backend}", lambda: Executable(program.core, backend))
    if backend == "interp" and _other_backend(program.backend) != "interp":
        interpreter: Any = executable.executor()
        interpreter.limit = LONG
    return executable


def _other_backend(backend: str) -> str:
    """A fast backend that is not this one."""
    from futad.runtime.cc import compiler_available

    if not compiler_available():
        return "interp"
    return "multicore" if backend == "c" else "c"


def _read(data: Data) -> bytes:
    assert data.path is not None
    try:
        return read_data_file(data.path)
    except FileError as e:
        raise FileError(e.message, data.place) from None
