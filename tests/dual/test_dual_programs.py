"""The engine on every program with derivatives of the tests and the benchmarks, at the inputs of their test blocks:
what its entries compute, and the gradients of its entries."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.api.derivatives import _derived, has_floats
from futad.api.program import Function, Program
from futad.errors import AssertionFailed, Error
from futad.source import compile_text, load_program
from futad.testing.blocks import read_test_file
from futad.testing.fuzz.oracle import equal, equal_where_finite
from futad.testing.inputs import make_input
from tests.support.paths import BENCHMARK_PROGRAMS, TESTS

LARGE = 3000  # elements of arguments
DERIVATIVE = re.compile(r"\b(vjp|jvp|jmp|mjp)2?\b")
# Descents of thousands of steps: the last test.
LONG = ("particle.fut", "saddle.fut")
# All of their inputs are larger.
WIDE = ("devicerows.fut", "lanes.fut")
# Loops that fail as they are run backwards.
BACKWARDS = [("inverse", "forgotten"), ("inverse", "near_another")]
FOLDERS = (TESTS / "programs", BENCHMARK_PROGRAMS, TESTS / "legality")
FILES = [f for folder in FOLDERS for f in sorted(folder.glob("*.fut")) if f.name not in LONG + WIDE]
FILES = [f for f in FILES if read_test_file(f).cases]
WITH = [f for f in FILES if DERIVATIVE.search(f.read_text())]


def named(files: list[Path], each: int = 1) -> Any:
    """The files as cases, all but every so many slow."""
    marks = [[pytest.mark.slow] * (k % each > 0) for k in range(len(files))]
    cases = [pytest.param(f, id=f"{f.parent.name}-{f.stem}", marks=m) for f, m in zip(files, marks, strict=True)]
    return pytest.mark.parametrize("file", cases)


def cases(file: Path) -> Any:
    """The program by transformation and by the engine, and the small inputs of its tests."""
    core = load_program(str(file))
    plain, dual = Program(core, backend="interp"), Program(core, engine="dual")
    for case in read_test_file(file).cases:
        if case.entry in plain.entries:
            flat = make_input(plain, plain.entries[case.entry], case)
            if sum(np.size(x) for x in flat) <= LARGE:
                yield plain.entries[case.entry], dual.entries[case.entry], flat


def compared(plain: Function, dual: Function, flat: list[Any]) -> bool:
    """Whether both give a result, which must be equal, as must errors."""
    try:
        want = plain.executable.run(plain.symbol, [np.copy(x)[()] for x in flat])
    except Error as e:
        with pytest.raises(type(e)):
            dual.executable.run(dual.symbol, [np.copy(x)[()] for x in flat])
        return False
    got = dual.executable.run(dual.symbol, [np.copy(x)[()] for x in flat])
    single = any(np.asarray(w).dtype in (np.float32, np.float16) for w in want)
    assert equal(got, want, "f4" if single else "f8") == ""
    return True


@pytest.mark.slow
@named(WITH, 6)
def test_what_programs_compute(file: Path) -> None:
    if file.stem == "hoist":
        pytest.skip("two failures of which the passes change the order")
    assert [compared(*c) for c in cases(file) if (file.stem, c[0].entry.name) not in BACKWARDS], "no case is small"


@pytest.mark.slow
@pytest.mark.parametrize("stem, entry", BACKWARDS)
def test_the_engine_runs_no_loop_backwards(stem: str, entry: str) -> None:
    """So it does not fail where that is too inexact: it computes what the loop gives with its history kept."""
    file = TESTS / "legality" / f"{stem}.fut"
    kept = Program(compile_text(file.read_text().replace("#[reversible] ", ""), file.name), backend="interp")
    (case,) = [c for c in cases(file) if c[0].entry.name == entry]
    undone, dual, flat = case
    with pytest.raises(AssertionFailed, match="where it was"):
        undone.executable.run(undone.symbol, flat)
    assert compared(kept[entry], dual, flat)


@pytest.mark.slow
@named(FILES)
def test_gradients_of_entries(file: Path) -> None:
    """Reverse mode along a random cotangent, where it is finite."""
    for plain, dual, flat in cases(file):
        t = plain.entry.result
        active = tuple([i for i, (_, p) in enumerate(plain.entry.params) if has_floats(p)])
        if not active or not has_floats(t):
            continue
        sizes = len(plain.signature.size_names)
        try:
            results = plain.call_leaves(flat[sizes:])
        except Error:
            continue
        rng = np.random.default_rng(zlib.crc32(f"{file.name} {plain.entry.name}".encode()))
        seeds = [_like(rng, r) for r in results]
        args = [*flat[sizes:], *seeds]
        both = [_derived(f, "vjp", active, False) for f in (plain, dual)]
        try:
            want = both[0].call_leaves(args)
        except Error:
            continue
        got = both[1].call_leaves(args)
        single = any(np.asarray(w).dtype in (np.float32, np.float16) for w in want)
        assert equal_where_finite(got, want, "f4" if single else "f8") == "", plain.entry.name


def _like(rng: np.random.Generator, x: Any) -> Any:
    a = np.asarray(x)
    made = rng.normal(size=a.shape) if a.dtype.kind == "f" else np.zeros(a.shape)
    return made.astype(a.dtype)[()]


PIECES = {
    "particle": (
        "entry out{m} (w: f64): f64 = jvp (\\w -> p.miss p.{m}_gradient w) w 1\n"
        "entry back{m} (w: f64): f64 = vjp (\\w -> p.miss p.{m}_gradient w) w 1\n",
        [np.float64(0.3)],
    ),
    "saddle": (
        "entry out{m} (x: [2]f64): [2]f64 = p.{m}_gradient (\\x -> let y = p.{m}_gradient (p.f x) x "
        "in p.f x y * y[0]) x\n"
        "entry back{m} (x: [2]f64): [2]f64 =\n"
        "  vjp (\\x -> p.saddle p.reverse_gradient p.{m}_gradient x) x [1, 1, 1, 1]\n",
        [np.array([1e-7, 1e-7])],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PIECES)
def test_pieces_of_descents(name: str) -> None:
    text, args = PIECES[name]
    source = (BENCHMARK_PROGRAMS / f"{name}.fut").read_text()
    source = source.replace('import "descent"', (BENCHMARK_PROGRAMS / "descent.fut").read_text())
    source += "".join(text.replace("{m}", m).replace("p.", "") for m in ("forward", "reverse"))
    plain, dual = (futad.compile(source, backend="interp", method=m) for m in ("transform", "dual"))
    for entry in ("outforward", "outreverse", "backforward", "backreverse"):
        got, want = dual[entry](*args), plain[entry](*args)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-18)
