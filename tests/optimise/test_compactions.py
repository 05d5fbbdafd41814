"""Folds of what a filter keeps: fires, values on every backend, gradients, what is no such fold."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from futad import strategies
from futad.core import ir
from futad.core.interp import Interpreter
from futad.errors import Error
from futad.fires import counting
from futad.pipeline import compile_program
from futad.runtime.device import EmulatedDevice
from futad.source import compile_text
from futad.target import CUDA, INTERP, MULTICORE, C
from futad.testing.build import c_backend, common, device_backend
from tests.support.needs import needs_cxx
from tests.support.paths import ROOT

TEXT = (ROOT / "tests" / "legality" / "compactions.fut").read_text()
FOLDED = ("moments", "extrema", "counts", "pairs", "fails", "divides", "slopes", "own", "in_maps")
MADE = ("others_counted", "two_apart", "one_more", "by_place", "overwritten", "returned")


@cache
def source() -> ir.Program:
    return compile_text(TEXT)


@cache
def made(name: str, folds: bool) -> ir.Program:
    schedule = strategies.default() if folds else strategies.default().without("compactions")
    one = ir.Program({n: f for n, f in source().funs.items() if n == name or f.entry is None})
    return compile_program(one, schedule=schedule, check=True)


def arguments(name: str, n: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    f = source().funs[name]
    out: list[Any] = [np.int64(n)]
    for p in f.body.params[1:]:
        is_float = p.type.elem.is_float
        values = rng.choice([-1.5, -0.0, 0.0, 0.25, 0.5, 1.0, 3.0], n) if is_float else rng.integers(-1, 5, n)
        out.append(values.astype(p.type.elem.dtype))
    return out


def result(run: Any, name: str, args: list[Any]) -> Any:
    try:
        return run.run(name, args)
    except Error as error:
        return type(error)


def backend_of(program: ir.Program, backend: str) -> Any:
    if backend == "interp":
        return Interpreter(common(program, INTERP))
    if backend == "emulated":
        return device_backend(common(program, CUDA)).on(EmulatedDevice())
    return c_backend(common(program, MULTICORE if backend == "multicore" else C), multicore=backend == "multicore")


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend",
    ["interp", pytest.param("c", marks=pytest.mark.slow), pytest.param("multicore", marks=pytest.mark.slow),
     pytest.param("emulated", marks=[pytest.mark.slow, needs_cxx])],
)  # fmt: skip
def test_values_are_those_of_the_compaction(backend):
    run = backend_of(source(), backend)
    for name, f in source().funs.items():
        if f.entry is None:
            continue
        plain = Interpreter(made(name, False))
        for n in (0, 1, 2, 7, 40):
            args = arguments(name, n, n)
            with np.errstate(all="ignore"):
                expected, got = result(plain, name, [np.copy(a) for a in args]), result(run, name, args)
            if isinstance(expected, type):
                assert got is expected, (name, n)
                continue
            assert not isinstance(got, type), (name, n, got)
            for a, b in zip(got, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=f"{name} {n}")


def places(program: ir.Program) -> int:
    """How many statements scan, or write at places."""
    every = [s.exp for f in program.funs.values() for s in ir.statements(f.body.stms)]
    return sum(isinstance(e, ir.Scatter) or isinstance(e, ir.Screma) and bool(e.scans) for e in every)


@pytest.mark.parametrize("name", FOLDED)
def test_what_is_kept_is_not_made(name):
    assert not places(made(name, True)) and places(made(name, False))


@pytest.mark.parametrize("name", MADE)
def test_what_is_read_otherwise_is_made(name):
    assert "scatter(" in str(made(name, True))


@pytest.mark.parametrize("backend", ["interp", "c"])
def test_a_fold_starts_once(backend):
    """From five, which is not neutral: one after the other it is taken once."""
    program = futad.compile("entry main [n] (xs: [n]f64): f64 = reduce (+) 5 (filter (> 0) xs)", backend=backend)
    assert program.main(np.array([1.0, -1.0, 2.0, -3.0])) == 8.0


def test_how_many_are_kept_is_a_sum():
    with counting() as counts:
        program = compile_program(compile_text("entry main [n] (xs: [n]f64) = length (filter (> 0) xs)"))
    assert not places(program) and counts["compactions"] == 1
    assert places(made("up_to_half", True)) and not places(made("last_of_sums", True))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_gradients(backend):
    """Against differences, and along a direction forwards and backwards."""
    loss = """entry main [n] (xs: [n]f64): f64 =
      let kept = filter (> 0.3) (map f64.sin xs)
      let mean = f64.sum kept / f64.i64 (length kept)
      in mean * f64.maximum kept + f64.sum (map (\\v -> f64.sqrt (v - 0.3)) kept)"""
    program = futad.compile(loss, backend=backend)
    rng = np.random.default_rng(1)
    xs, d = rng.uniform(0, 3, 30), rng.normal(size=30)
    g = futad.grad(program.main)(xs)
    h = 1e-6
    differences = (program.main(xs + h * d) - program.main(xs - h * d)) / (2 * h)
    np.testing.assert_allclose(g @ d, differences, rtol=1e-6)
    _, tangent = futad.jvp(program.main, (xs,), (d,))
    np.testing.assert_allclose(g @ d, tangent, rtol=1e-12)


def test_elements_that_are_not_kept_have_no_derivative():
    """The root of what is not kept has an infinite one."""
    root = "entry main [n] (xs: [n]f64): f64 = f64.sum (map f64.sqrt (filter (> 0) xs))"
    program = futad.compile(root, backend="interp")
    np.testing.assert_array_equal(futad.grad(program.main)(np.array([0.0, 4.0, -1.0])), [0, 0.25, 0])


def test_beside_a_branch_without_results():
    """Of whose branches checks alone are left: a length that is compared."""
    text = """entry main [n] (xs: [n]f64) (k: i64): [n]f64 =
      let u = if k > 3 then map (* 2) (take k xs :> [4]f64) else [0, 1, 2, 3]
      in map (+ f64.i64 (length u)) (scan (+) 0 xs)"""
    for backend in ("interp", "c"):
        program = futad.compile(text, backend=backend)
        for k in (0, 4):
            np.testing.assert_array_equal(program.main(np.arange(5.0), k), [4, 5, 7, 10, 14])
        with pytest.raises(Error):
            program.main(np.arange(5.0), 5)
