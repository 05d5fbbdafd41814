"""Sizes beyond the address space, and products of sizes that i64 does not hold: an error with its place."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import AssertionFailed, OutOfMemory, ShapeError
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.testing.build import c_backend
from tests.support.cli_helpers import Runner
from tests.support.needs import needs_cc, needs_cxx

BACKENDS = [
    "interp",
    pytest.param("c", marks=needs_cc),
    pytest.param("multicore", marks=needs_cc),
    pytest.param("emulated", marks=needs_cxx),
]

SOURCE = """
entry read (n: i64) (m: i64) (xs: []f64): f64 =
  let a = unflatten (xs :> [n * m]f64) in if n > 0 && m > 0 then a[0, 0] else -1
entry whole (n: i64) (m: i64) (xs: []f64): [n][m]f64 = unflatten (xs :> [n * m]f64)
entry three (n: i64) (m: i64) (k: i64) (xs: []f64): [n][m][k]f64 = unflatten_3d (xs :> [n * m * k]f64)
entry given (n: i64) (m: i64) (xs: [n * m]f64): f64 = f64.sum (map f64.sum (unflatten xs))
entry made (n: i64) (m: i64): [n][m]f64 = unflatten (replicate (n * m) 1)
entry rows [r] (n: i64) (m: i64) (xss: [r][]f64): f64 =
  f64.sum (map (\\xs -> let a = unflatten xs in if m > 0 then f64.sum a[0] else 0) (xss :> [r][n * m]f64))
entry change (n: i64) (m: i64) (xs: []f64): []f64 =
  vjp (\\ys -> f64.sum (map f64.product (unflatten (ys :> [n * m]f64)))) xs 1
entry none (n: i64): [0][n]f64 = replicate 0 (replicate n 1)
entry bare (n: i64) (m: i64): [n][m][0]f64 = replicate n (replicate m [])
"""
HALF, EMPTY = 1 << 32, np.zeros(0)


@pytest.fixture(scope="module", params=BACKENDS)
def prog(request: pytest.FixtureRequest) -> futad.Program:
    return futad.compile(SOURCE, "large.fut", backend=request.param)


CASES: dict[str, tuple[str, tuple[Any, ...], int]] = {
    "zero elements": ("read", (HALF, HALF, EMPTY), 3),
    "zero elements, more": ("read", (HALF, 2 * HALF, EMPTY), 3),
    "one element": ("read", ((1 << 63) - 1, (1 << 63) - 1, np.ones(1)), 3),
    "a result": ("whole", (HALF, HALF, EMPTY), 4),
    "three sizes": ("three", (1 << 31, 1 << 31, 4, EMPTY), 5),
    "a parameter": ("given", (HALF, HALF, EMPTY), 6),
    "made so": ("made", (HALF, HALF), 7),
    "in a map": ("rows", (HALF, HALF, np.zeros((3, 0))), 9),
    "in a derivative": ("change", (HALF, HALF, EMPTY), 11),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", list(CASES))
def test_a_product_that_wraps_around(prog: futad.Program, case: str) -> None:
    """It is that of a smaller array, so elements would be read where none are."""
    name, args, line = CASES[case]
    with pytest.raises(AssertionFailed, match=r"an array of [\d times]+ elements exceeds the address space") as e:
        prog[name](*args)
    # The derivative's function is checked by the entry whose code it becomes a part of.
    assert e.value.span is not None and abs(e.value.span.line - line) <= 1


@pytest.mark.slow
def test_products_that_do_not(prog: futad.Program) -> None:
    xs = np.arange(6.0)
    assert prog.read(2, 3, xs) == 0 and prog.read(0, 1 << 62, EMPTY) == -1 and prog.given(3, 2, xs) == 15
    np.testing.assert_array_equal(prog.whole(2, 3, xs), xs.reshape(2, 3))
    np.testing.assert_array_equal(prog.made(3, 2), np.ones((3, 2)))
    assert prog.rows(2, 3, xs.reshape(1, 6)) == 3
    np.testing.assert_array_equal(prog.change(3, 2, xs), [1, 0, 3, 2, 5, 4])
    with pytest.raises(AssertionFailed, match=re.escape("shape")):
        prog.read(2, 4, xs)


@pytest.mark.slow
@pytest.mark.parametrize("name, args", [("none", (1 << 62,)), ("none", (1 << 61,)), ("bare", (HALF, HALF)),
                                        ("whole", (0, 1 << 62, EMPTY)), ("three", (HALF, HALF, 0, EMPTY))])  # fmt: skip
def test_results_that_numpy_has_no_shape_for(prog: futad.Program, name: str, args: tuple[Any, ...]) -> None:
    with pytest.raises(OutOfMemory, match="size exceeds the address space"):
        prog[name](*args)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_of_arguments(backend: str) -> None:
    """Of an array without elements too, so that sums of two sizes do not wrap around."""
    p = futad.compile("entry main [n] (xs: [n][0]i8) = length (xs ++ xs)", backend=backend)
    most = (1 << 62) - 1
    for _ in range(2):
        assert p.main(np.empty((most, 0), np.int8)) == 2 * most
        with pytest.raises(ShapeError, match=re.escape(f"dimension 0 is {most + 1}; it can be {most} at most")):
            p.main(np.empty((most + 1, 0), np.int8))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_on_the_command_line(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    """Also of a program that was compiled before."""
    run = Runner(tmp_path, monkeypatch, capfdbinary)
    run.file("p.fut", SOURCE)
    for _ in range(2):
        done = run("run", "p.fut", "-e", "none", "-b", backend, stdin=str(1 << 62))
        assert (done.code, done.out) == (1, "") and done.err.startswith("Error: a") and "address space" in done.err
        done = run("run", "p.fut", "-e", "read", "-b", backend, stdin=f"{HALF} {HALF} empty([0]f64)")
        assert done.code == 1 and done.err.startswith("p.fut:3:") and "address space" in done.err


@pytest.mark.slow
@needs_cc
def test_results_of_executables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    """They are refused, and printed, where they are from Python."""
    run = Runner(tmp_path, monkeypatch, capfdbinary)
    run.file("p.fut", SOURCE)
    assert run("c", "p.fut", "--executable", "-o", "p").code == 0
    for entry, given in (
        ("none", str(1 << 62)), ("none", str(1 << 60)), ("none", str((1 << 60) - 1)), ("none", "3"),
        ("bare", f"{HALF} {HALF}"), ("bare", f"{HALF} {HALF >> 4}"), ("whole", f"0 {1 << 62} empty([0]f64)"),
    ):  # fmt: skip
        done = run("run", "p.fut", "-e", entry, "-b", "c", stdin=given)
        own = subprocess.run([str(tmp_path / "p"), "-e", entry], input=given, capture_output=True, text=True)
        assert (own.returncode, own.stdout, own.stderr) == (done.code, done.out, done.err)
        assert (done.code == 1) is ("address space" in done.err) is (done.out == "")


@needs_cc
def test_what_rows_are_made_of_costs_nothing() -> None:
    """No check in a map whose rows have sizes that were there before."""
    text = """
    def loss [r][b] (xss: [r][4 * b]f64): f64 = f64.sum (map (\\a -> f64.sum (map f64.product a)) (map unflatten xss))
    entry main [r][b] (_: [b]f64) (xss: [r][4 * b]f64): f64 = loss xss
    """
    source = c_backend(compile_program(compile_text(text, "p.fut"))).source
    assert source.count("futad_fail(ctx, 2") <= 2, "the parameter's sizes, and that their product is one"
