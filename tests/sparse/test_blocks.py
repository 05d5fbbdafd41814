"""Jacobians by blocks that are found when the program is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.api.program import Program
from futad.errors import BoundsError
from tests.support.paths import ROOT

pytest.importorskip("scipy")
from futad.testing.sparse import dense_jacobian, difference  # noqa: E402

SOURCE = """
entry gathered [n][k] (x: [n][3]f64) (y: [n]f64) (is: [k]i64) (c: [k]f64): [k]f64 =
  map2 (\\i a -> f64.sum x[i] * y[(i + 1) % n] + a * y[i]) is c
entry ends [n] (x: [n]f64): []f64 = map2 (-) (tail x) (init x) ++ [x[0] * x[n - 1]]
entry turned [n][m] (a: [n][m]f64) (t: f64): [m][n]f64 = map (map (\\e -> t * e ** 2)) (transpose a)
entry flat [n][m] (a: [n][m]f64): []f64 = map2 (*) (flatten a) (reverse (flatten a))
entry pairs [n] (x: [n]f32) (w: [2]f32): [n](f32, f64) = map (\\a -> (a * w[0], f64.f32 (a * a * w[1]))) x
entry tall [n] (x: [n]f64): [n][5]f64 = map (\\a -> map (\\k -> a ** f64.i64 (k + 1)) (iota 5)) x
entry iterated [n] (x: [n]f64) (p: [2]f64): [n]f64 =
  map (\\a -> loop y = a for _i < 3 do if y < p[0] then y * y - p[1] else f64.sqrt y) x
entry aliased [n] (x: [n]f64) (is: [n]i64): [n]f64 = map2 (\\i a -> a * x[i] * x[i]) is x
entry far [n] (x: [n]f64): [n]f64 = let s = f64.sum x in map (\\a -> a * s) x
entry through [n] (x: [n]f64) (is: [n]i64): [n]f64 = let z = scan (+) 0 x in map (\\i -> z[i]) is
entry by_number [n] (x: [n]f64) (t: [n]f64): [n]f64 = map (\\s -> x[i64.f64 s] ** 2) t
entry parts [n] (x: [n]f64) (q: i64): ([2]f64, [n]f64, f64, f64) =
  ([x[0] * x[1], 3], replicate n 1, x[q], 2)
entry bodies [n] (x: [n]f64) (y: [n]f64): [n][n]f64 = map (\\a -> map (\\b -> a * b - b) y) x
"""
BLOCKS, COLOURS = "blocks of each iteration", "colour"
RNG = np.random.default_rng(0)
X3, X4, X5 = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 3)), RNG.random(5)
INDICES = np.array([4, 0, 0, 2])
CASES: dict[str, tuple[tuple[Any, ...], tuple[int, ...], str]] = {
    "gathered": ((X3, X5, INDICES, RNG.normal(size=4)), (0, 1, 3), BLOCKS),
    "ends": ((X5,), (0,), BLOCKS),
    "turned": ((X4, 0.7), (0, 1), BLOCKS),
    "flat": ((X4,), (0,), BLOCKS),
    "pairs": ((X5.astype(np.float32), np.array([2, 3], np.float32)), (0, 1), BLOCKS),
    "tall": ((X5,), (0,), BLOCKS),
    "iterated": ((X5, np.array([0.4, 0.1])), (1, 0), BLOCKS),
    "aliased": ((X5, np.array([0, 1, 0, 4, 4])), (0,), BLOCKS),
    "far": ((X5,), (0,), COLOURS),
    "through": ((X5, np.array([0, 1, 0, 4, 4])), (0,), COLOURS),
    "by_number": ((X5, np.array([3.0, 1, 1, 0, 4])), (0,), BLOCKS),
    "parts": ((X5, 3), (0,), BLOCKS),
    "bodies": ((X5, X5 + 1), (0, 1), BLOCKS),
}


@pytest.fixture(scope="module")
def prog() -> Program:
    return futad.compile(SOURCE, backend="interp")


@pytest.mark.parametrize("name", CASES)
def test_blocks_are_those_of_the_dense_jacobian(prog: Program, name: str) -> None:
    args, argnums, how = CASES[name]
    made = futad.sparse_jacobian(prog[name], argnums)
    f = prog[name]
    dense = dense_jacobian(f, argnums, args)
    assert not difference(made(*args), made.pattern(*args), dense)
    assert how in made.report
    others = tuple([a if np.asarray(a).dtype.kind == "i" or name == "by_number" else a + a for a in args])
    assert not difference(made(*others), made.pattern(*others), dense_jacobian(f, argnums, others))


def test_other_indices_are_other_columns(prog: Program) -> None:
    args, argnums, _ = CASES["aliased"]
    made = futad.sparse_jacobian(prog.aliased)
    assert made(*args).nnz == 7, "three iterations read one element twice"
    for indices in ([1, 2, 3, 4, 0], [0, 1, 2, 3, 4], [4, 4, 4, 4, 4]):
        now = args[0], np.array(indices)
        assert not difference(made(*now), made.pattern(*now), dense_jacobian(prog.aliased, argnums, now))
    numbers = futad.sparse_jacobian(prog.by_number)
    assert numbers(X5, X5 * 0).indices.tolist() == [0] * 5
    assert numbers(X5, X5 * 0 + 2).indices.tolist() == [2] * 5
    for wrong in (5, -1):
        with pytest.raises(BoundsError):
            made(args[0], np.array([0, 0, wrong, 0, 0]))
        with pytest.raises(BoundsError):
            made.pattern(args[0], np.array([0, 0, wrong, 0, 0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gathered", "turned", "iterated"])
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_backends_agree(name: str, backend: str) -> None:
    args, argnums, how = CASES[name]
    text = "\n".join([f"entry {p}" for p in SOURCE.split("\nentry ") if p.startswith(name)])
    made = futad.sparse_jacobian(futad.compile(text, backend=backend)[name], argnums)
    want = futad.sparse_jacobian(futad.compile(text, backend="interp")[name], argnums)(*args)
    assert np.allclose(made(*args).toarray(), want.toarray(), rtol=1e-14, atol=1e-14) and how in made.report


def test_arguments_without_elements(prog: Program) -> None:
    made = futad.sparse_jacobian(prog.gathered, (0, 1))
    assert made(X3, X5, np.zeros(0, np.int64), []).shape == (0, 20)
    assert futad.sparse_jacobian(prog.turned)(np.zeros((0, 3)), 1.0).shape == (0, 0)
    assert futad.sparse_jacobian(prog.tall)([]).shape == (0, 0)


def test_bound_arguments(prog: Program) -> None:
    x, is_ = CASES["aliased"][0]
    made = futad.sparse_jacobian(futad.bind(prog.aliased, is_=is_))
    assert not difference(made(x), made.pattern(x), dense_jacobian(prog.aliased, (0,), (x, is_)))
    assert BLOCKS in made.report


@pytest.mark.slow
def test_bundle_adjustment_is_what_its_seeds_by_hand_give() -> None:
    program = futad.load(Path(ROOT) / "benchmarks" / "programs" / "ba.fut", backend="c")
    n, m, p = 3, 7, 20
    seen = np.stack([RNG.integers(0, n, p), RNG.integers(0, m, p)], axis=1).astype(np.int32)
    args = (RNG.normal(size=(n, 11)), RNG.normal(size=(m, 3)), RNG.random(p), seen, RNG.normal(size=(p, 2)))
    made = futad.sparse_jacobian(program.objective, (0, 1, 2))
    j = made(*args)
    starts, columns, values = program.jacobian(*args)
    dense = np.zeros(j.shape)
    dense[np.repeat(np.arange(3 * p), np.diff(starts)), columns] = values
    assert not difference(j, made.pattern(*args), dense)
    assert j.nnz == 29 * p and made.report == "blocks of each iteration, 14 elements a row"
    row = np.repeat(np.arange(3 * p), np.diff(j.indptr))
    assert j.has_canonical_format and (np.diff(j.indices)[np.diff(row) == 0] > 0).all()
