"""The C backends: reductions of bools, and choices by bools from memory, in vector lanes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from futad.testing.build import c_backend

TEXT = """
entry any [n] (xs: [n]f64): bool = or (map f64.isnan xs)
entry all [n] (xs: [n]f64): bool = and (map (> 0) xs)
entry odd [n] (xs: [n]f64): bool = reduce (!=) false (map (< 0) xs)
entry least [n] (xs: [n]f64): (f64, bool) =
  (f64.minimum xs, or (map (\\x -> f64.isnan (x - 1)) xs))
entry single [n] (xs: [n]f64): bool = or (map (\\x -> f32.isnan (f32.f64 x + 1)) xs)
"""
NUMPY = {
    "any": lambda xs: np.isnan(xs).any(), "all": lambda xs: (xs > 0).all(), "odd": lambda xs: bool((xs < 0).sum() % 2),
    "least": lambda xs: (np.nanmin(xs, initial=np.inf), np.isnan(xs).any()), "single": lambda xs: np.isnan(xs).any(),
}  # fmt: skip


@cache
def program(backend: str) -> futad.Program:
    return futad.compile(TEXT, backend=backend)


@pytest.mark.parametrize("name", [name for name in NUMPY if name != "odd"])
def test_they_are_integers_in_the_loop(name: str) -> None:
    """GCC 12 has no lanes for a reduction of bools."""
    source = c_backend(compile_program(compile_text(TEXT), target=C)).source
    body = source[source.index(f"int64_t futad_entry_{name}(") :]
    assert "int x_" in body[: body.index("\n}\n")]


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_as_numpy(name: str, backend: str) -> None:
    for n in (0, 1, 7, 8, 19, 100):
        plain = np.random.default_rng(n).random(n) + 0.5
        inputs: list[Any] = [plain]
        for at in {0, n // 2, n - 1} if n else ():
            inputs += [np.where(np.arange(n) == at, odd, plain) for odd in (np.nan, -1.0)]
        for xs in inputs:
            got, want = program(backend)[name](xs), NUMPY[name](xs)
            assert np.array_equal(np.asarray(got), np.asarray(want)), (n, xs)


def test_choices_by_bools_in_memory_have_lanes() -> None:
    """For GCC 12 only if a comparison decides, as of the elements that a `while` of many goes on for."""
    text = """
      entry f [n] (go: [n]bool) (ks: [n]i64) (xs: [n]f64): ([n]i64, [n]f64, [n]bool) =
        map3 (\\g k x -> (if g then k + 1 else k, if g then x * 0.5 else x, g && x > 1)) go ks xs |> unzip3
    """
    assert c_backend(compile_program(compile_text(text), target=C)).source.count("FUTAD_IS_SET(") == 1
    for backend in ("c", "multicore", "interp"):
        f = futad.compile(text, backend=backend).f
        for n in (0, 1, 7, 64, 131):
            r = np.random.default_rng(n)
            go, ks, xs = r.random(n) < 0.5, r.integers(-9, 9, n), r.normal(size=n) * 2
            for got, want in zip(f(go, ks, xs), (ks + go, np.where(go, xs * 0.5, xs), go & (xs > 1)), strict=True):
                assert np.array_equal(got, want)


def test_calls_stay_out_of_the_branches_of_choices() -> None:
    """GCC takes no vectors where a choice that alone has use for a function calls it in a branch."""
    text = """
      entry f [n] (xs: [n]f64) (ys: [n]f32): ([n]f64, [n]f32) =
        unzip (map2 (\\x y -> let p = f64.log (f64.exp x + 1) let q = f32.exp y
                             in (if x > 0 then p else x, if f32.isnan y then y else q)) xs ys)
      entry g [n] (xs: [n]f64): [n]f64 = map (\\x -> let p = x * 2 in if x > 0 then p else x) xs
    """
    source = c_backend(compile_program(compile_text(text), target=C)).source
    of = {name: source[source.index(f"int64_t futad_entry_{name}(") :].split("\n}\n")[0] for name in "fg"}
    assert "futad_lanes_select_f64(" in of["f"] and "futad_lanes_select_f32(" in of["f"]
    assert "futad_lanes_select" not in of["g"]
    xs = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 3.5, -7.0, 1.0])
    ys = xs.astype(np.float32)
    with np.errstate(over="ignore"):
        wanted = np.where(xs > 0, np.log(np.exp(xs) + 1), xs), np.where(np.isnan(ys), ys, np.exp(ys))
    for backend in ("c", "multicore"):
        made = futad.compile(text, backend=backend).f(xs, ys)
        np.testing.assert_allclose(made[0], wanted[0], rtol=1e-14)
        np.testing.assert_allclose(made[1], wanted[1], rtol=1e-6)
