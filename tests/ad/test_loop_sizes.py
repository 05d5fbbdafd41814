"""Sizes of arrays that go through loops in loops and branches: found without annotations."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.errors import TypeCheckError
from futad.source import check_text, compile_text

HEAD = "entry f [n] [m] (cs: [n]f64) (k: i64) (is: [m]i64)"

KEPT = {
    "an inner loop that starts anew": "loop x = cs for _i < k do (loop _y = x for _q in is do cs)",
    "from another array": "loop x = replicate n 0 for _i < k do (loop _y = x for _q in is do cs)",
    "three loops": "loop x = cs for _i < k do (loop y = copy x for _q in is do (loop _z = y for _j < 2 do cs))",
    "two that change places": (
        "(loop (x, w) = (cs, cs) for _i < k do (loop (_y, z) = (x, w) for _q in is do (z, cs))).0"
    ),
    "a branch": "loop x = cs for _i < k do (loop y = x for q in is do (if q > 0 then cs else y))",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=list(KEPT))
def test_a_loop_keeps_the_size_it_starts_with(text: str) -> None:
    program = futad.compile(f"{HEAD}: [n]f64 = {text}", backend="interp")
    expected = np.array([1.0, 2, 3])
    for k, iterations in ((2, [1, 0]), (0, [1]), (2, [])):
        if k and iterations or "replicate" not in text:
            np.testing.assert_array_equal(program.f(expected, k, iterations), expected)


CHANGING = {
    "after the inner loop": "loop x = cs for _i < k do ((loop _y = x for _q in is do cs) ++ [1])",
    "after a branch": "loop x = cs for i < k do ((if i > 3 then x else cs) ++ [1])",
    "beside it": "loop x = cs for _i < k do let _y = (loop y = x for _q in is do cs) in x ++ [1]",
}


@pytest.mark.parametrize("text", CHANGING.values(), ids=list(CHANGING))
def test_a_loop_that_does_not_keep_it(text: str) -> None:
    """What is supposed at first is wrong: the definition is checked without."""
    program = futad.compile(f"{HEAD} = {text}", backend="interp")
    assert len(program.f([1.0, 2, 3], 2, [7, 8])) == (5 if "in x ++" in text else 4)
    check_text(f"{HEAD} = {text}\nentry g [n] (xs: [n]f64) = f xs 2 [1]")


def test_an_error_is_the_first_ones() -> None:
    """Where neither way leads to a program, the message is that of the first."""
    with pytest.raises(TypeCheckError, match="'map2'|does not have the loop parameter's size"):
        compile_text(f"{HEAD}: [n]f64 = loop x = cs for _i < k do (map2 (+) (loop _y = x for _q in is do cs) [1])")


LAYERS = """
def layers [l] [d] [n] (hs0: [l][d]f64) (xs: [n][d]f64): [l][d]f64 =
  loop hs = copy hs0 for x in xs do
    loop hs = hs for j < l do
      let b = if j == 0 then copy x else copy hs[j - 1]
      in hs with [j] = map2 (\\h b -> f64.tanh (h + b)) hs[j] b
entry value [l] [d] [n] (hs: [l][d]f64) (xs: [n][d]f64) = layers hs xs
entry gradient [l] [d] [n] (hs: [l][d]f64) (xs: [n][d]f64) =
  vjp (\\(hs, xs) -> f64.sum (flatten (layers hs xs))) (hs, xs) 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c", "multicore", "emulated"])
def test_layers_that_read_the_one_before(backend: str) -> None:
    """The input, or a row that was written in this iteration; beside NumPy, and differences."""
    program = futad.compile(LAYERS, backend=backend)
    rng = np.random.default_rng(8)
    for layers, width, iterations in ((1, 2, 2), (3, 2, 2), (4, 3, 3), (2, 3, 0)):
        hs, xs = rng.standard_normal((layers, width)), rng.standard_normal((iterations, width))

        def run(hs: np.ndarray, xs: np.ndarray) -> np.ndarray:
            hs = hs.copy()
            for x in xs:
                for j in range(len(hs)):
                    hs[j] = np.tanh(hs[j] + (x if j == 0 else hs[j - 1]))
            return hs

        np.testing.assert_allclose(program.value(hs, xs), run(hs, xs), rtol=1e-13)
        for bar, way in zip(program.gradient(hs, xs), (0, 1), strict=True):
            for at in np.ndindex(bar.shape):
                step = np.zeros(bar.shape, complex)
                step[at] = 1e-30j
                args = [hs.astype(complex), xs.astype(complex)]
                args[way] = args[way] + step
                assert abs(np.sum(run(*args)).imag / 1e-30 - bar[at]) < 1e-12, (layers, width, iterations, way, at)
