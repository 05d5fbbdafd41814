"""The C backends: maps that loop over scalars first, then compute much in a straight line, in two parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import ExecutionError
from futad.imp import ir
from futad.source import load_program
from futad.target import C
from futad.testing.build import c_backend, common

TEXT = """
-- Steps of Collatz's sequence, at most 20, and a product along it.
def walk (x: i64): (i64, f64) =
  let (_, k, p) = loop (x, k, p) = (x, 0, 1.0) while x > 1 && k < 20 do
                    (if x % 2 == 0 then x / 2 else 3 * x + 1, k + 1, p * (1 + 1 / f64.i64 x))
  in (k, p)
def digits (base: i64) (x: i64): (i64, f64) =
  let (_, k, p) = loop (x, k, p) = (x, 0, 1.0) for _i < 5 do (x / base, k + x % base, p * (1 + f64.i64 (x % base)))
  in (k, p)
def much (p: f64) (q: f64): f64 =
  let a = p * q + f64.sin p
  let b = a * a - q
  let c = f64.exp (-b * b) + f64.log (1 + b * b)
  let d = c * a + b * q - p / (1 + c * c)
  in f64.sqrt (1 + d * d) + f64.tanh (d + a) + f64.exp (-a * a)

entry total [n] (xs: [n]i64): f64 = f64.sum (map (\\x -> let (k, p) = digits 7 x in much p (f64.i64 k)) xs)
entry each [n] (xs: [n]i64): [n]f64 = map (\\x -> let (k, p) = digits 7 x in much p (f64.i64 k)) xs
entry both [n] (xs: [n]i64): ([n]f64, [n]i64, f64) =
  let (ys, ks) = unzip (map (\\x -> let (k, p) = digits 7 x in (much p (f64.i64 k), k * 2)) xs)
  in (ys, ks, f64.maximum ys)
-- The loop of the second operator reads what the first one sums.
entry products [n] (xs: [n]i64): (f64, f64) =
  let same (x: f64) = f64.exp (f64.log (f64.exp (f64.log x)))
  in reduce (\\(s, p) (t, q) -> (s + t, p + same (loop c = q for _i < 2 + n % 2 do c + s * t))) (0, 0)
            (map (\\x -> (f64.i64 x, f64.i64 x)) xs)
entry gathered [n][m] (ys: [m]f64) (xs: [n]i64): [n]f64 =
  map (\\x -> let (k, p) = digits (if x == 99999 then 0 else 7) x in much p ys[k] + much ys[k + 1] p) xs
entry little [n] (xs: [n]i64): [n]f64 = map (\\x -> let (k, p) = digits 7 x in p + f64.i64 k) xs
entry walks [n] (xs: [n]i64): [n]f64 = map (\\x -> let (k, p) = walk x in much p (f64.i64 k)) xs
entry placed [n] (xs: *[n]i64): [n]i64 =
  map (\\x -> let (k, p) = digits 7 x in i64.f64 (much p (f64.i64 k) * 1000)) xs
"""


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    return {b: futad.compile(TEXT, name="halves", backend=b) for b in ("interp", "c", "multicore")}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("name", ["total", "each", "both", "little", "walks", "placed", "products"])
def test_as_the_interpreter(programs: dict[str, Any], backend: str, name: str) -> None:
    for n in (0, 1, 63, 64, 65, 300):
        xs = np.random.default_rng(n).integers(1, 5000, n)
        expected, got = (programs[p][name](xs.copy()) for p in ("interp", backend))
        for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, expected)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10)


@pytest.mark.slow
def test_nan_stays_where_it_is(programs: dict[str, Any]) -> None:
    ys = np.linspace(-1, 1, 40)
    ys[13] = np.nan
    xs = np.arange(200)
    expected, got = (programs[b].gathered(ys, xs) for b in ("interp", "c"))
    np.testing.assert_allclose(got, expected, rtol=1e-10)
    assert np.isnan(expected).any() and not np.isnan(expected).all()


@pytest.mark.slow
@pytest.mark.parametrize("first", ["loop", "index"])
def test_the_first_failure_is_reported(programs: dict[str, Any], first: str) -> None:
    """An index out of bounds in one iteration, a division by zero in another one of the same block."""
    xs = np.zeros(100, np.int64)
    xs[[70, 71]] = (99999, 48) if first == "loop" else (48, 99999)
    with pytest.raises(ExecutionError, match="division by zero" if first == "loop" else r"Index \[12\] out of bounds"):
        programs["c"].gathered(np.ones(12), xs)


@pytest.mark.slow
def test_which_are_in_two_parts(tmp_path: Any) -> None:
    file = tmp_path / "halves.fut"
    file.write_text(TEXT)
    backend = c_backend(common(load_program(str(file)), C))
    found = {f.name: halves(f.body) for f in backend.module.functions}
    in_parts = {"total", "each", "both", "gathered", "placed"}
    assert found == {name: int(name in in_parts) for name in (*in_parts, "little", "walks", "products")}


def halves(body: list[ir.Stmt]) -> int:
    """Loops in steps around one loop that is in lanes, after one that is not."""
    count = 0
    for s in body:
        loops = [t for t in getattr(s, "body", []) if isinstance(t, ir.For)]
        count += isinstance(s, ir.For) and s.step > 1 and [t.lanes > 0 for t in loops] == [False, True]
        count += sum(halves(getattr(s, part, [])) for part in ("body", "then", "orelse"))
    return count
