"""`futad gradcheck` compares inverses that a call comes to."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.cli import main
from futad.testing.inverses import compare_inverses

SOURCE = """-- ==
-- entry: good
-- input { 0.4 [0.1, 0.3] }
entry good [n] (a: f64) (xs: [n]f64) : f64 =
  let f = with_inverse f64.sinh f64.asinh
  in f64.sum (map (\\x -> f (a * x)) xs) + invert (\\x -> x * a + 1) 3
-- ==
-- entry: bad
-- input { 0.4 [0.1, 0.3] }
entry bad [n] (a: f64) (xs: [n]f64) : f64 =
  f64.sum (with_inverse (\\(xs: [n]f64) -> map f64.sinh xs) (map f64.asin) (map (* a) xs))
-- ==
-- entry: unsafe
-- input { 0.4 }
entry unsafe (a: f64) : f64 = #[unsafe] invert (\\x -> (x + 1, x + 2)) (a, a)
-- ==
-- entry: whole
-- input { 0.4 }
entry whole (a: f64) : f64 =
  f64.i32 (loop k = 3 for _i < 4 do with_inverse (\\k -> k * 3) (\\k -> k / 3i32) k) * a
-- ==
-- entry: bits
-- input { 0.4 }
entry bits (a: f64) : f64 = f64.u8 (with_inverse (\\(k: u8) -> k << 1) (\\k -> k >> 1) 200) * a
"""


@pytest.mark.parametrize(
    ("entry", "status", "says"),
    [
        ("good", 0, ["ok   with_inverse f g: g (f x) against x", "compared 2 times", "ok   invert f: f (invert f y)"]),
        ("bad", 1, ["FAIL with_inverse f g: g (f x) against x", "f.fut:11:12 (error 0.0", "1e-08, compared once"]),
        ("unsafe", 1, ["FAIL invert f: f (invert f y) against y"]),
        ("whole", 0, ["ok   with_inverse f g", "(error 0, tolerance 0, compared 4 times)"]),
        ("bits", 1, ["FAIL with_inverse f g", "(error 1, tolerance 0, compared once)", "1 beyond tolerance"]),
    ],
)
def test_inverses_are_compared(entry, status, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.fut").write_text(SOURCE)
    assert main(["gradcheck", "f.fut", "-e", entry, "-b", "interp"]) == status
    out = capsys.readouterr().out
    for part in says:
        assert part in out


def test_inverses_inside_derivatives_and_calls():
    program = futad.compile("""
        def f (x: f64) : f64 = with_inverse f64.exp (\\y -> f64.log y + 1e-3) x
        entry main (x: f64) : f64 = vjp (\\x -> loop x for _i < 3 do f x * 0.1) x 1
        entry none (x: f64) : f64 = x""", backend="interp")
    (found,) = compare_inverses(program.core, program.main, [np.float64(0.3)])
    assert found.fails and found.error == pytest.approx(1e-3 / (1 + 0.3), rel=0.3)
    assert compare_inverses(program.core, program.none, [np.float64(0.3)]) == []
