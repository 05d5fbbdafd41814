"""Random programs: every pass and every backend keeps their meaning, and derivatives are right.

The environment variable FUTAD_SEED moves the seeds, FUTAD_PROGRAMS scales their number; a failure prints the
seed and the program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import alpha_equal, parse_program
from futad.core.text import program_text
from futad.pipeline import PASSES, compile_program
from futad.target import C
from futad.testing.build import c_backend
from futad.testing.programs.core import Sample, differentiable, program
from tests.support.derivatives import with_jvp, with_vjp
from tests.support.needs import needs_cc

FIRST = int(os.environ.get("FUTAD_SEED", "1"))
SCALE = float(os.environ.get("FUTAD_PROGRAMS", "1"))
BATCH = 30
GENERAL = [range(FIRST + k * BATCH, FIRST + (k + 1) * BATCH) for k in range(round(10 * SCALE))]
SMOOTH = [range(FIRST + k * BATCH, FIRST + (k + 1) * BATCH) for k in range(round(5 * SCALE))]

# Programs are some hundred contracting operations deep: rounding differs by some hundred units at most.
RTOL = {"d": 1e-10, "f": 3e-5}
ATOL = {"d": 1e-11, "f": 3e-6}


def same(got: Sequence[Any], want: Sequence[Any]) -> None:
    assert len(got) == len(want)
    for x, y in zip(got, want, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype and x.shape == y.shape
        if x.dtype.kind == "f":
            scale = max(1, np.abs(y[np.isfinite(y)]).max(initial=0))  # sums cancel: the error is that of the whole
            np.testing.assert_allclose(x, y, rtol=RTOL[x.dtype.char], atol=ATOL[x.dtype.char] * scale)
        else:
            np.testing.assert_array_equal(x, y)


def each(samples: Sequence[Sample], f: Callable[[Sample], None]) -> None:
    """`f` on every sample; all failing seeds are reported, the first in full."""
    failures: list[tuple[Sample, Exception]] = []
    for s in samples:
        try:
            f(s)
        except Exception as e:  # noqa: BLE001  (reported below with its seed)
            failures.append((s, e))
    if failures:
        s, e = failures[0]
        seeds = ", ".join(str(t.seed) for t, _ in failures)
        raise AssertionError(f"seeds {seeds} fail; {s.describe()}\n{type(e).__name__}: {e}") from e


def reference(s: Sample, name: str = "main") -> list[Any]:
    """The results by the semantics that copies on every update."""
    return Interpreter(s.program, in_place=False).run(name, s.args)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(10_000, 2**32))
def test_text_and_batched_evaluation(seed):
    """A program checks, survives printing and parsing, and means the same evaluated one iteration at a time,
    with the same work."""
    s = program(seed)
    check_program(s.program)
    again = parse_program(program_text(s.program))
    assert alpha_equal(again, s.program)
    check_program(again)
    want = reference(s)
    runs = [Interpreter(again, count=True, batched=b) for b in (True, False)]
    for m in runs:
        same(m.run("main", s.args), want)
    assert runs[0].counts == runs[1].counts and runs[0].tally.operations == runs[1].tally.operations


@pytest.mark.slow
@pytest.mark.parametrize("seeds", GENERAL, ids=str)
def test_every_pass_keeps_the_meaning(seeds):
    def one(s: Sample) -> None:
        want = reference(s)
        p = s.program
        text = program_text(p, normal=True)
        for each_pass in PASSES:
            try:
                q = each_pass.run(p, C)
                check_program(q, each_pass.name)
                after = program_text(q, normal=True)
                assert program_text(p, normal=True) == text, "the pass changed its argument"
                if after != text:
                    assert program_text(parse_program(program_text(q)), normal=True) == after
                    same(Interpreter(q).run("main", s.args), want)
            except Exception as e:
                raise AssertionError(f"pass {each_pass.name}: {type(e).__name__}: {e}") from e
            p, text = q, after

    each([program(i) for i in seeds], one)


def joined(samples: Sequence[Sample]) -> ir.Program:
    return ir.Program({name: f for s in samples for name, f in s.program.funs.items()})


@pytest.fixture
def quick_builds(monkeypatch, tmp_path):
    """Hardly optimised C, cached nowhere that lasts."""
    monkeypatch.setenv("FUTAD_CFLAGS", "-O1")
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path))


def build(p: ir.Program, multicore: bool) -> Any:
    made = c_backend(p, multicore=multicore)
    assert made.library is not None
    return made


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("k", range(len(GENERAL)))
def test_backends_agree(k, quick_builds, monkeypatch):
    """All programs after all passes on `c`; in turn also as they are, or after all passes on `multicore`: more
    code, which is not optimised."""
    samples = [program(i, f"f{i}") for i in GENERAL[k]]
    p = joined(samples)
    q = compile_program(p)
    built = [build(q, False)]
    monkeypatch.setenv("FUTAD_CFLAGS", "-O0")
    built.append(build(p, False) if k % 3 else build(q, True))

    def one(s: Sample) -> None:
        want = reference(s, f"f{s.seed}")
        for b in built:
            same(b.run(f"f{s.seed}", s.args), want)

    each(samples, one)


@pytest.mark.slow
@needs_cc
def test_backends_agree_at_full_optimisation(monkeypatch, tmp_path):
    """A few programs with the flags that users get."""
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path))
    samples = [program(i, f"f{i}") for i in range(FIRST + 5000, FIRST + 5010)]
    b = build(compile_program(joined(samples)), False)
    each(samples, lambda s: same(b.run(f"f{s.seed}", s.args), reference(s, f"f{s.seed}")))


# --- derivatives ------------------------------------------------------------


def is_float(x: Any) -> bool:
    return np.asarray(x).dtype.kind == "f"


def direction(rng: np.random.Generator, x: Any) -> Any:
    """A random value like `x`; zero where `x` is not a float."""
    return np.asarray(rng.normal(size=np.shape(x)) if is_float(x) else np.zeros(np.shape(x)), np.asarray(x).dtype)[()]


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """The sum of the products of the floats, and of their magnitudes."""
    pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if is_float(x)]
    return sum(float(np.sum(x * y)) for x, y in pairs), sum(float(np.sum(np.abs(x * y))) for x, y in pairs)


def close_to_differences(f: Callable[[float], list[Any]], dot: Sequence[Any]) -> None:
    """`dot` is the derivative of `f` at 0: central differences at two steps, extrapolated; their difference
    bounds the truncation error, 1e-8 of the magnitude the rounding error."""
    h = 1e-4

    def difference(h: float) -> list[Any]:
        return [
            (np.asarray(u) - np.asarray(d)) / (2 * h) if is_float(u) else None for u, d in zip(f(h), f(-h), strict=True)
        ]

    for u, v, w in zip(difference(h), difference(h / 2), dot, strict=True):
        if u is not None and np.size(u):
            tolerance = 2 * np.abs(u - v).max() + 1e-8 * (1 + np.abs(w).max())
            error = np.abs((4 * v - u) / 3 - w).max()
            assert error <= tolerance, f"differences {(4 * v - u) / 3}, derivative {w}"


class Derived:
    """A smooth sample with its derivatives, and random directions."""

    def __init__(self, s: Sample, name: str) -> None:
        self.sample, self.name = s, name
        fun = s.program.funs[name]
        self.funs = {
            **s.program.funs,
            f"{name}_vjp": with_vjp(fun, f"{name}_vjp"),
            f"{name}_jvp": with_jvp(fun, f"{name}_jvp"),
        }
        self.primal = compile_program(s.program)  # the sample itself may hold derivatives
        self.sizes, self.values = s.args[: fun.num_sizes], s.args[fun.num_sizes :]
        self.ys = Interpreter(self.primal, in_place=False).run(name, s.args)
        rng = np.random.default_rng(s.seed)
        self.xdot = [direction(rng, x) for x in self.values]
        self.ybar = [direction(rng, y) for y in self.ys]

    def moved(self, h: float) -> list[Any]:
        """The arguments, `h` along the direction."""
        return [
            *self.sizes,
            *[x + h * d if is_float(x) else x for x, d in zip(self.values, self.xdot, strict=True)],
        ]

    def jvp(self, m: Any) -> list[Any]:
        out = m.run(f"{self.name}_jvp", [*self.sample.args, *self.xdot])
        same(out[: len(self.ys)], self.ys)
        return out[len(self.ys) :]

    def vjp(self, m: Any, args: Sequence[Any] | None = None) -> list[Any]:
        out = m.run(f"{self.name}_vjp", [*(args or self.sample.args), *self.ybar])
        if args is None:
            same(out[: len(self.ys)], self.ys)
        return out[len(self.ys) :]

    def check(self, m: Any) -> None:
        """Forward against differences, reverse against forward."""
        primal = Interpreter(self.primal)
        ydot, xbar = self.jvp(m), self.vjp(m)
        close_to_differences(lambda h: primal.run(self.name, self.moved(h)), ydot)
        a, size_a = inner(self.ybar, ydot)
        b, size_b = inner(xbar, self.xdot)
        assert abs(a - b) <= 1e-12 * (size_a + size_b), f"<ybar, J xdot> = {a}, <J^T ybar, xdot> = {b}"


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("seeds", SMOOTH, ids=str)
def test_derivatives(seeds, quick_builds):
    """Both modes by the interpreter; the same programs on `c`."""
    derived = [Derived(differentiable(i, f"f{i}"), f"f{i}") for i in seeds]
    by_seed = {d.sample.seed: d for d in derived}
    p = ir.Program({name: f for d in derived for name, f in d.funs.items()})
    check_program(p)
    q = compile_program(p, check=True)
    m, c = Interpreter(q), build(q, False)

    def one(s: Sample) -> None:
        d = by_seed[s.seed]
        d.check(m)
        same(d.jvp(c), d.jvp(m))
        same(d.vjp(c), d.vjp(m))

    each([d.sample for d in derived], one)


@pytest.mark.slow
def test_nested_derivatives():
    """Programs that take derivatives inside maps, loops and branches, differentiated in both modes."""

    def one(s: Sample) -> None:
        d = Derived(s, "main")
        d.check(Interpreter(compile_program(ir.Program(d.funs), check=True)))

    each([differentiable(i, nested=True) for i in range(FIRST, FIRST + round(30 * SCALE))], one)


@pytest.mark.slow
def test_second_derivatives():
    """Forward over reverse against differences of reverse."""

    def one(s: Sample) -> None:
        d = Derived(s, "main")
        funs = {**d.funs, "second": with_jvp(d.funs["main_vjp"], "second")}
        q = compile_program(ir.Program(funs), check=True)
        m = Interpreter(q)
        still = [direction(np.random.default_rng(0), y) * 0 for y in d.ys]
        out = m.run("second", [*s.args, *d.ybar, *d.xdot, *still])
        n = len(d.ys) + len(d.values)
        close_to_differences(lambda h: m.run("main_vjp", [*d.moved(h), *d.ybar]), out[n:])

    each([differentiable(i) for i in range(FIRST + 3000, FIRST + 3000 + round(30 * SCALE))], one)
