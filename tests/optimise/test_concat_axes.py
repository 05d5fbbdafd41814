"""Concatenations along the second dimension are put together without transposing."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import INTERP, MULTICORE, C
from tests.support.needs import needs_cxx

BESIDE = "transpose (concat (transpose a) (transpose b))"
# What is done with matrices of as many rows, and whether they are put side by side.
PROGRAMS = {
    "beside": (f"{BESIDE}", True),
    "read by a map": (f"map (map f64.sin) ({BESIDE})", True),
    "three": ("transpose (concat (transpose a) (concat (transpose b) (transpose a)))", True),
    "parts": ("transpose (concat (transpose a[:, 1:]) (transpose b[:, ::2]))", True),
    "overwritten": (f"let c = copy ({BESIDE}) in (c with [0, 0] = 7)", True),
    "read otherwise": (
        "let c = concat (transpose a) (transpose b) in map (\\r -> map (* f64.sum (map f64.sum c)) r) (transpose c)",
        False),
    "one value": ("transpose (concat (transpose a) (replicate 2 (replicate n 1)))", True),
    "one is no transposition": ("transpose (concat (transpose a) (map (scan (+) 0) (transpose b)))", False),
    "along the first": ("concat a a", False),
}  # fmt: skip


def program(body: str) -> str:
    return f"""
    entry f [n][k][l] (a: [n][k]f64) (b: [n][l]f64) = {body}
    entry g [n][k][l] (a: [n][k]f64) (b: [n][l]f64) =
      vjp (\\(a, b) -> f64.sum (map f64.sum (map (map f64.sin) ({body})))) (a, b) 1"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_it_is_done(name: str) -> None:
    body, expected = PROGRAMS[name]
    text = program(body).split("entry g")[0]
    for target in (C, MULTICORE):
        with counting() as counts:
            compile_program(compile_text(text), target=target, check=True)
        assert (counts["concat-axes"] > 0) == expected
    with counting() as counts:
        compile_program(compile_text(text), target=INTERP, check=True)
    assert not counts["concat-axes"]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_the_interpreter(name: str) -> None:
    text = program(PROGRAMS[name][0])
    plain = futad.compile(text, backend="interp")
    others = [futad.compile(text, backend=b, check=True) for b in ("c", "multicore")]
    sizes = [(4, 3, 5), (1, 1, 1), (3, 0, 2), (2, 17, 33)]
    if name not in ("overwritten", "parts"):
        sizes.append((0, 2, 3))
    for n, k, m in sizes:
        if name == "parts" and k == 0:
            continue
        rng = np.random.default_rng(10 * n + k)
        a, b = rng.normal(size=(n, k)), rng.normal(size=(n, m))
        for other in others:
            np.testing.assert_allclose(other.f(a, b), plain.f(a, b), rtol=1e-13, atol=1e-15)
            for x, y in zip(other.g(a, b), plain.g(a, b), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)
