"""Transpositions on the C backends: in tiles, of every width of element, in whole and in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.core.types import PRIMS
from futad.pipeline import compile_program
from futad.source import load_program
from futad.testing.build import c_backend

TYPES = ["i8", "u16", "f32", "i64", "bool"]
TEXT = "".join(f"entry iteration_{t} [n][m] (xs: [n][m]{t}): [m][n]{t} = transpose xs\n" for t in TYPES) + """
entry batch [k][n][m] (xs: [k][n][m]f32): [k][m][n]f32 = map transpose xs
entry outer [k][n][m] (xs: [k][n][m]f32): [n][k][m]f32 = transpose xs
entry around [k][n][m] (xs: [k][n][m]f32): [m][n][k]f32 = transpose (map transpose (transpose xs))
entry part [n][m] (xs: [n][m]f32): [][]f32 = transpose (map (\\r -> r[1:m - 1]) xs[1:n - 2])
entry back [n][m] (xs: [n][m]f32): [m][n]f32 = transpose xs[::-1]
entry columns [n][m] (xs: [n][m]f32): [m][n]f32 =
  map (\\c -> loop c = copy c for i < n do c with [i] = c[i] + c[n - 1 - i]) (transpose xs)
entry small (xs: [3][4]f32): [4][3]f32 = transpose xs
"""
SIZES = [(0, 5), (1, 1), (1, 40), (40, 1), (2, 700), (7, 9), (16, 16), (17, 33), (64, 48), (65, 31)]
SIZES += [(3, 9000), (520, 1100)]


def values(shape: tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    raw = np.random.default_rng(7).integers(0, 120, shape)
    return raw % 2 == 0 if name == "bool" else raw.astype(PRIMS[name].dtype)


@pytest.mark.slow
@pytest.mark.parametrize("n, m", SIZES)
@pytest.mark.parametrize("name", TYPES)
def test_matrices(backend: CBackend, name: str, n: int, m: int) -> None:
    xs = values((n, m), name)
    (actual,) = backend.run(f"iteration_{name}", [n, m, xs])
    np.testing.assert_array_equal(actual, xs.T, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("n, m", SIZES)
def test_pieces(backend: CBackend, n: int, m: int) -> None:
    for k in (1, 3):
        xs = values((k, n, m), "f32")
        for name, axes in (("batch", (0, 2, 1)), ("outer", (1, 0, 2)), ("around", (2, 1, 0))):
            np.testing.assert_array_equal(backend.run(name, [k, n, m, xs])[0], xs.transpose(axes), strict=True)
    xs = values((n, m), "f32")
    np.testing.assert_array_equal(backend.run("back", [n, m, xs])[0], xs[::-1].T, strict=True)
    if n >= 3 and m >= 2:
        np.testing.assert_array_equal(backend.run("part", [n, m, xs])[-1], xs[1 : n - 2, 1 : m - 1].T, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("n, m", SIZES[:-2])
def test_rows_of_a_transposed_matrix(core: Any, backend: CBackend, n: int, m: int) -> None:
    xs = values((n, m), "f32")
    (expected,) = Interpreter(core).run("columns", [n, m, xs])
    np.testing.assert_array_equal(backend.run("columns", [n, m, xs])[0], expected, strict=True)


def test_which_are_in_tiles(backend: CBackend) -> None:
    """All but a small one of constant size, and one that only orders rows anew."""
    bodies = {f.split("(", 1)[0]: f for f in backend.source.split("\nint64_t futad_entry_")[1:]}
    for name in [f"iteration_{t}" for t in TYPES] + ["batch", "around", "part", "back", "columns"]:
        assert "futad_transpose_" in bodies[name], name
    assert not any("futad_transpose_" in bodies[name] for name in ("outer", "small"))


RECORDS = """
program "main"
fun records [n_1: i64, m_2: i64] (xs_3: [n_1][3][m_2]f64) -> (r_4: [m_2][n_1][3]f64) = {
  let tr_5: [m_2][n_1][3]f64 = rearrange(xs_3, [2, 0, 1])
  in (tr_5)
}
fun few [n_6: i64] (xs_7: [n_6][3][26]f64) -> (r_8: [26][n_6][3]f64) = {
  let tr_9: [26][n_6][3]f64 = rearrange(xs_7, [2, 0, 1])
  in (tr_9)
}
fun slices [n_10: i64, m_11: i64] (xs_12: [n_10][3][m_11]f64) -> (r_13: [m_11][n_10][2]f64) = {
  let part_14: [n_10][2][m_11]f64 = xs_12[0i64:n_10:1i64, 1i64:2i64:1i64]
  let tr_15: [m_11][n_10][2]f64 = rearrange(part_14, [2, 0, 1])
  in (tr_15)
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("multicore", [False, True])
def test_small_arrays_side_by_side_are_turned_as_one(multicore: bool) -> None:
    """A matrix of records by columns: one transposition of their parts, not one a record; slices of the records do not
    lie side by side."""
    backend = c_backend(parse_program(RECORDS), multicore=multicore, grain=1)
    if not multicore:
        bodies = {f.split("(", 1)[0]: f for f in backend.source.split("\nint64_t futad_entry_")[1:]}
        for name, loops in (("records", 0), ("few", 0), ("slices", 1)):
            body = bodies[name]
            assert body.count("futad_transpose_64(") == 1 and body.count("for (") == loops, body
    for n, m in SIZES:
        xs = values((n, 3, m), "f64")
        for name, part in (("records", xs), ("slices", xs[:, 1:])):
            (actual,) = backend.run(name, [n, m, xs])
            np.testing.assert_array_equal(actual, part.transpose(2, 0, 1), strict=True)
        xs = values((n, 3, 26), "f64")
        np.testing.assert_array_equal(backend.run("few", [n, xs])[0], xs.transpose(2, 0, 1), strict=True)


SHIFTED = """
entry small [n] (xs: [n][3]f64) (ds: [26][3]f64): [n][3][26]f64 =
  map (\\x -> map2 (\\a d -> map (+ a) d) x (transpose ds)) xs
entry any [n][m][k] (xs: [n][m]f64) (ds: [k][m]f64): [n][m][k]f64 =
  map (\\x -> map2 (\\a d -> map (+ a) d) x (transpose ds)) xs
entry changed [n] (xs: [n][3]f64) (ds: *[26][3]f64): ([n][3][26]f64, [26][3]f64) =
  let ys = map (\\x -> map2 (\\a d -> map (+ a) d) x (transpose ds)) xs
  in (ys, ds with [0] = [1, 2, 3])
entry directions [n] (xs: [n]f64) (t: [3]f64) (ds: [26][3]f64): [26][n][3]f64 =
  jmp (\\t -> map (\\x -> map (\\y -> x * f64.sin y) t) xs) t ds
"""


@pytest.mark.slow
@pytest.mark.parametrize("multicore", [False, True])
def test_small_arrays_that_each_point_reads_by_columns(
    tmp_path_factory: pytest.TempPathFactory, multicore: bool
) -> None:
    """Whether their size is known, whether they change after, and in directions of a Jacobian."""
    file = tmp_path_factory.mktemp("shifted") / "shifted.fut"
    file.write_text(SHIFTED)
    core = compile_program(load_program(str(file)))
    backend = c_backend(core, multicore=multicore, grain=1)
    interp = Interpreter(core)
    rng = np.random.default_rng(5)
    for n in (0, 1, 5, 70):
        xs, ds = rng.standard_normal((n, 3)), rng.standard_normal((26, 3))
        calls = [("small", [n, xs, ds]), ("any", [n, 3, 26, xs, ds]), ("changed", [n, xs, ds.copy()])]
        calls += [("directions", [n, xs[:, 0].copy(), rng.standard_normal(3), ds])]
        for name, args in calls:
            expected = interp.run(name, [a.copy() if isinstance(a, np.ndarray) else a for a in args])
            for got, want in zip(backend.run(name, args), expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-15, atol=1e-15, strict=True, err_msg=name)
