"""Iterations of a product of sizes by quotient and remainder are axes: values and gradients are the interpreter's."""

from __future__ import annotations

import re

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.slow import slow_but

AT = "let at b u v = if u < 0 || u >= h || v < 0 || v >= w then 0 else x[b, u, v]"
SUM = "f64.sum (tabulate c (\\b -> f64.sum (flatten (tabulate_2d 3 3 (\\p q -> {})))))"
TERM = "k[a, b, p, q] * at b (y + p - 1) (z + q - 1)"
LAYERS = {
    "pixels": f"{AT} in flatten (tabulate_2d o (h * w) (\\a s -> let (y, z) = (s / w, s % w) in {SUM.format(TERM)}))",
    "all": f"""{AT} in tabulate (o * h * w) (\\s ->
       let (a, y, z) = (s / (h * w), s / w % h, s % w) in {SUM.format(TERM)})""",
    "summed": f"""{AT} in flatten_3d (tabulate_3d o h w (\\a y z -> f64.sum (tabulate (c * 9) (\\s ->
       let (b, p, q) = (s / 9, s % 9 / 3, s % 3) in {TERM}))))""",
    "in_rows": f"""let flat = map flatten x
       let at b u v = if u < 0 || u >= h || v < 0 || v >= w then 0 else flat[b, u * w + v]
       in flatten_3d (tabulate_3d o h w (\\a y z -> {SUM.format(TERM)}))""",
    "strided": f"""let (h, w) = ((h - 3) / 2 + 1, (w - 3) / 2 + 1)
       in flatten (tabulate_2d o (h * w) (\\a s -> let (y, z) = (s / w, s % w)
       in {SUM.format("k[a, b, p, q] * x[b, 2 * y + p, 2 * z + q]")}))""",
}
SIZES = [(3, 2, 5, 4), (1, 1, 1, 1), (2, 0, 3, 3), (2, 3, 0, 4), (1, 2, 3, 0), (0, 1, 2, 2), (1, 1, 0, 0), (2, 1, 3, 7)]


def program(layer: str) -> str:
    return f"""entry main [o][c][h][w] (k: [o][c][3][3]f64) (x: [c][h][w]f64): f64 =
  let y = {LAYERS[layer]} in f64.sum (map2 (\\v i -> v * f64.i64 (1 + i % 5)) y (indices y))"""


@pytest.mark.parametrize("layer", slow_but(["pixels"], LAYERS))
def test_values_and_gradients(layer: str) -> None:
    source = program(layer)
    with counting() as counts:
        compile_program(compile_text(source), target=C)
    assert counts["contractions"] == 1
    entries = [futad.compile(source, backend=b).main for b in ("c", "interp")]
    made, expected = [futad.value_and_grad(entry, argnums=(0, 1)) for entry in entries]
    rng = np.random.default_rng(1)
    for o, c, h, w in SIZES:
        args = [rng.integers(-3, 4, shape).astype(float) for shape in ((o, c, 3, 3), (c, h, w))]
        try:
            value, grads = expected(*args)
        except futad.Error as error:  # what is read is out of range
            with pytest.raises(futad.Error, match=re.escape(str(error).partition("error: ")[2].partition("\n")[0])):
                made(*args)
            continue
        got, parts = made(*args)
        assert got == value
        for a, b in zip(parts, grads, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("size", "by"),
    [("h * w", "w + 1"), ("h + w", "w"), ("h * w", "h * h"), ("60", "7"), ("h * w * 2", "4")],
)
def test_parts_that_are_none(size: str, by: str) -> None:
    """Quotients by other numbers stay where they are."""
    source = f"""entry main [h][w] (k: [3]f64) (x: [h][w]f64): []f64 =
      tabulate ({size}) (\\s -> let (y, z) = (s / ({by}), s % ({by}))
        in f64.sum (tabulate 3 (\\p -> k[p] * (if y + p < h && z < w then x[y + p, z] else 0))))"""
    with counting() as counts:
        compile_program(compile_text(source), target=C)
    assert counts["contractions"] == 0
