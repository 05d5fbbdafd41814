"""Loops over vectors of a few elements, written out: their derivatives save nothing, and are the interpreter's."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting

BOOR = """
def fit [k] (c: [k]f64) (x: f64): f64 =
  let u = x * f64.i64 (k - 3)
  let j = i64.min (k - 4) (i64.f64 u)
  let d0 = map (\\i -> c[j + i]) (iota 4)
  let d = loop d = d0 for r in 1...3 do
    map (\\i -> if i < r then d[i] else
      let al = (u - f64.i64 (j + i - 3)) / f64.i64 (4 - r)
      in (1 - al) * d[i - 1] + al * d[i]) (iota 4)
  in d[3]
entry main [k][n] (c: [k]f64) (x: [n]f64) = map (fit c) x
entry back [k][n] (c: [k]f64) (x: [n]f64) (s: [n]f64) = vjp (\\(c, x) -> map (fit c) x) (c, x) s
"""
CASTELJAU = """
def curve (p: [4]f64) (t: f64): f64 =
  let q = loop q = p for _k < 3 do map (\\i -> (1 - t) * q[i] + t * q[(i + 1) % 4]) (iota 4)
  in q[0]
entry main [n] (p: [4]f64) (t: [n]f64) = map (curve p) t
entry back [n] (p: [4]f64) (t: [n]f64) (s: [n]f64) = vjp (\\(p, t) -> map (curve p) t) (p, t) s
"""
# The vector that the loop begins with is of elements that are overwritten before it.
WRITTEN = """
entry main [n] (c: *[n]f64) (x: f64): ([4]f64, [n]f64) =
  let d0 = map (\\i -> c[(i + 1) % n]) (iota 4)
  let c[0] = x
  in (loop d = d0 for r < 2 do map (\\i -> if i < r then d[i] else d[i] * x + d[3 - i]) (iota 4), c)
"""


@pytest.mark.slow
@pytest.mark.parametrize("source", [BOOR, CASTELJAU])
def test_splines(source):
    with counting() as counts:
        program = futad.compile(source, backend="c")
        program.back(np.ones(4), np.ones(1), np.ones(1))
    assert counts["few-elements"]
    plain = futad.compile(source, backend="interp")
    rng = np.random.default_rng(0)
    for n in (0, 1, 37):
        c, x, s = rng.normal(size=4 if source is CASTELJAU else 9), rng.random(n), rng.normal(size=n)
        np.testing.assert_allclose(program.main(c, x), plain.main(c, x), rtol=1e-12, atol=1e-12)
        for got, wanted in zip(program.back(c, x, s), plain.back(c, x, s), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
def test_an_index_out_of_range_is_an_error():
    program = futad.compile(BOOR, backend="c")
    with pytest.raises(futad.BoundsError):
        program.main(np.zeros(5), np.array([-9.0]))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "interp"])
def test_what_is_overwritten_before_the_loop(backend):
    program = futad.compile(WRITTEN, backend=backend)
    d, c = program.main(np.arange(5.0), 2.0)
    first = np.array([1.0, 2.0, 3.0, 4.0])
    second = first * 2 + first[::-1]
    third = second * 2 + second[::-1]
    np.testing.assert_array_equal(d, [second[0], *third[1:]])
    np.testing.assert_array_equal(c, [2.0, 1.0, 2.0, 3.0, 4.0])
