"""A map reads what an earlier one has computed of the same elements."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import INTERP, MULTICORE, C
from tests.support.needs import needs_cxx
from tests.support.slow import slow_but

# What is computed of a row of a matrix and of its neighbour, and how many maps read what was computed.
ROWS = {
    "softmax": ("let es = map f64.exp x let s = f64.sum es in map (\\a -> f64.exp a / (1 + s)) x", 1),
    "of a value": ("let c = f64.sum y let es = map (\\a -> f64.sin (a - c)) x"
                   " in map (\\a -> f64.sin (a - c) * es[0]) x", 1),
    "of two": ("let es = map2 (\\a b -> a ** b) x y in map2 (\\b a -> a ** b + es[0]) y x", 1),
    "twice": ("let es = map f64.exp x let s = f64.sum es in map (* s) (map2 (+) (map (\\a -> f64.exp a * s) x)"
              " (map (\\a -> f64.exp a + es[0]) x))", 2),
    "a part": ("let es = map (\\a -> f64.sin a * 2) x in map (\\a -> f64.cos (f64.sin a * 2) + es[0]) x", 1),
    "cheap": ("let es = map (* 2) x in map (\\a -> a * 2 + es[0]) x", 0),
    "other elements": ("let es = map f64.exp x in map (\\b -> f64.exp b + es[0]) y", 0),
    "other value": ("let (c, d) = (f64.sum y, f64.sum x) let es = map (\\a -> f64.sin (a - c)) x"
                    " in map (\\a -> f64.sin (a - d) * es[0]) x", 0),
    "other order": ("let es = map2 (\\a b -> a ** b) x y in map2 (\\a b -> b ** a + es[0]) x y", 0),
    "not elements": ("let es = map (\\_ -> f64.exp y[0]) x in map (\\a -> a + f64.exp y[0]) es", 0),
    "overwritten": ("let es = map f64.exp x let s = f64.sum es let es[0] = s let ys = map (\\a -> 2 * f64.exp a) x"
                    " in map2 (+) es ys", 0),
}  # fmt: skip


def program(body: str) -> str:
    return f"""
    def row [m] (x: [m]f64) (y: [m]f64): [m]f64 = {body}
    entry f [n][m] (xs: [n][m]f64): [n][m]f64 = map (\\i -> row xs[i] xs[(i + 1) % n]) (iota n)
    entry g [n][m] (xs: [n][m]f64): [n][m]f64 =
      loop xs = xs for i < 2 do map (\\i -> row xs[i] xs[(i + 1) % n]) (iota n)
    entry h [m] (x: [m]f64) (y: [m]f64): [m]f64 = row x y"""


def fires(text: str, target: futad.target.Target) -> int:
    with counting() as counts:
        compile_program(compile_text(text), target=target, check=True)
    return counts["equal-elements"]


@pytest.mark.parametrize("row", ROWS)
def test_where_it_is_done(row: str) -> None:
    body, times = ROWS[row]
    assert fires(program(body), C) == times  # in g: outside of loops maps are left as they are
    assert fires(program(body), MULTICORE) == times
    assert fires(program(body), INTERP) == 0


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("row", slow_but(["softmax", "overwritten"], ROWS))
def test_equal_to_the_interpreter(row: str) -> None:
    text = program(ROWS[row][0])
    plain, made = futad.compile(text, backend="interp"), futad.compile(text, backend="c", check=True)
    for n, m in ((2, 3), (1, 1), (0, 2), (3, 17)):
        xs = np.abs(np.random.default_rng(n + m).normal(size=(n, m)))
        for name, args in (("f", [xs]), ("g", [xs]), ("h", [xs[0], xs[-1]] if n else [])):
            if args:
                np.testing.assert_allclose(getattr(made, name)(*args), getattr(plain, name)(*args), rtol=1e-12)


LOSS = """
def logsumexp [m] (v: [m]f64): f64 =
  let top = f64.maximum v in top + f64.log (f64.sum (map (\\u -> f64.exp (u - top)) v))
entry value [n][m] (xs: [n][m]f64): f64 =
  let logs = loop xs for _i < 2 do map (\\x -> let z = logsumexp x in map (\\u -> u - z) x) xs
  in f64.sum (map (\\x -> x[0]) logs)
entry gradient [n][m] (xs: [n][m]f64): [n][m]f64 = vjp value xs 1"""


@pytest.mark.slow
def test_derivative_of_rows() -> None:
    """Exponentials that a return sweep needs are those of the sums, also where elements tie, are infinite or NaN."""
    assert fires(LOSS, C) > 0
    made, plain = (futad.compile(LOSS, backend=b) for b in ("c", "interp"))
    rows = np.array([[1.0, 2.0, 2.0], [0.0, -np.inf, 1.0], [np.nan, 1.0, 0.0], [700.0, -700.0, 3.0]])
    softmax = np.exp(rows - rows.max(axis=1, keepdims=True))
    softmax /= softmax.sum(axis=1, keepdims=True)
    expected = np.eye(1, 3) - softmax
    np.testing.assert_allclose(made.gradient(rows), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(made.gradient(rows), plain.gradient(rows), rtol=1e-12)
    smooth = np.random.default_rng(1).normal(size=(4, 6))
    direction, step = np.random.default_rng(2).normal(size=(4, 6)), 1e-5
    slope = (made.value(smooth + step * direction) - made.value(smooth - step * direction)) / (2 * step)
    np.testing.assert_allclose((made.gradient(smooth) * direction).sum(), slope, rtol=1e-7)
