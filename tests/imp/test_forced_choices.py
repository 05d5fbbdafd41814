"""Loops whose transformations a schedule forces or forbids compute what the interpreter does, at all sizes."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting

TEXT = """
entry rows [n][m] (xss: [n][m]f64) (w: [m]f64): ([n]f64, f64) =
  let ys = map (\\xs -> f64.sum (map2 (*) xs w)) xss
  in (ys, f64.maximum ys)
entry columns [n][m] (xss: [n][m]f64): [m]f64 = map f64.sum (transpose xss)
entry horner [n][m] (cs: [m]f64) (xs: [n]f64): [n]f64 =
  map (\\x -> let y = loop y = 0 for c in cs do y * x + c in f64.exp (f64.sin y) + f64.cos (y * y)) xs
entry around [n] (xs: [n]f64): [n]f64 = tabulate n (\\i -> xs[(i + 1) % n] - 2 * xs[i] + xs[(i + n - 1) % n])
entry until [n] (xs: [n]f64): [n]f64 = map (\\x -> loop y = x while y < 3 do y + 0.1 + f64.exp y) xs
entry picked [n][k] (xs: [n]f64) (is: [k]i64): [k]f64 = map (\\i -> f64.exp xs[i] + f64.sqrt (f64.abs xs[i])) is
entry spread [n] (xs: [n]f64): [n][8]f64 =
  map (\\x -> let y = f64.exp (f64.sin x) + f64.tanh x let z = f64.log (1 + y * y) * f64.cos y
              in [x, y, z, x + y, y + z, x * z, y * z, x - z]) xs
entry gradient [n][m] (xss: [n][m]f64) (w: [m]f64): [m]f64 =
  vjp (\\w -> f64.sum (map (\\xs -> f64.tanh (f64.sum (map2 (*) xs w))) xss)) w 1
"""
CHOICES = {
    "jam(3)": "unroll-and-jam", "lanes(8)": "vector-lanes", "lanes(8) ; staged(8)": "staged-rows",
    "across": "reductions-across-lanes", "outer-lanes": "outer-loop-vectorisation", "fission(8)": "loop-fission",
    "short": "short-inner-loops",
    "masks": "masked-lanes",
    "checks-first ; lanes": "checks-first", "split ; lanes": "index-set-splitting",
    "no lanes ; no across ; no jam ; no split": "",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "fires"), CHOICES.items())
def test_results_are_those_of_the_interpreter(asked: str, fires: str) -> None:
    reference = futad.compile(TEXT, backend="interp")
    with counting() as counts:
        made = futad.compile(TEXT, backend="c", schedule=f'nest "*": {asked}\n')
        made.executor()
    assert not fires or counts[fires], "it is possible somewhere"
    rng = np.random.default_rng(0)
    for n, m in ((0, 3), (1, 1), (7, 0), (9, 5), (200, 130)):
        xss, w, xs = rng.normal(size=(n, m)), rng.normal(size=m), rng.normal(size=n)
        calls = {
            "rows": (xss, w), "columns": (xss,), "horner": (w[:6], xs), "around": (xs,), "spread": (xs,),
            "picked": (xs, rng.integers(0, max(n, 1), 40 if n else 0)), "gradient": (xss, w),
            "until": (xs,),
        }  # fmt: skip
        for name, args in calls.items():
            for got, want in zip(_all(made[name](*args)), _all(reference[name](*args)), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=f"{name} {n} {m}")
    with pytest.raises(futad.BoundsError):
        made.picked(rng.normal(size=5), [1, 5, 2])


def _all(x: object) -> tuple[object, ...]:
    return x if isinstance(x, tuple) else (x,)
