"""What an iteration computes of its result is handed on to the next one."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core.interp import Interpreter
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.needs import needs_cxx
from tests.support.slow import slow_but

# The body of a loop over (x, y), and how many operations are handed on.
SCALARS = {
    "leapfrog": ("let y = y - f64.sin x let x = x + 0.1 * y in (x, y - f64.sin x)", 1),
    "two": ("let y = y - f64.sin x * f64.cos x let x = x + y in (x, y - f64.sin x / f64.cos x)", 2),
    "with an operand": ("let y = y + x ** c let x = f64.abs (0.5 * y) + 0.1 in (x, y - x ** c)", 1),
    "other operand": ("let y = y + x ** c let x = f64.abs (0.5 * y) + 0.1 in (x, y - x ** (c + 1))", 0),
    "of the iteration": ("let k = f64.i64 i in let y = y + (2 + x) ** k let x = 0.1 * y in (x, y - (2 + x) ** k)", 0),
    "other operation": ("let y = y - f64.sin x let x = x + 0.1 * y in (x, y - f64.cos x)", 0),
    "cheap": ("let y = y - x * c let x = x + 0.1 * y in (x, y - x * c)", 0),
    "same variable": ("let y = y - f64.sin x in (x, y)", 0),
    "swapped": ("(f64.sin y, f64.sin x)", 0),
}  # fmt: skip


def scalar(body: str) -> str:
    return f"entry f (n: i64) (c: f64) (x: f64) (y: f64) = loop (x, y) for i < n do {body}"


def mapped(body: str) -> str:
    return f"""entry f [m] (n: i64) (c: f64) (xs: [m]f64) (ys: [m]f64) =
      loop (xs, ys) for i < n do unzip (map2 (\\x y -> {body}) xs ys)"""


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("row", slow_but(list(SCALARS)[::3], SCALARS))
@pytest.mark.parametrize("form", [scalar, mapped])
def test_hand_on(form, row):
    body, fires = SCALARS[row]
    text = form(body)
    with counting() as counts:
        compiled = compile_program(compile_text(text), target=C, check=True)
    assert counts["hand-on"] == fires
    plain = futad.compile(text, backend="interp")
    made = futad.compile(text, backend="c", check=True)
    for n in (0, 1, 2, 5):
        for m in (0, 1, 3) if form is mapped else (1,):
            x, y = np.linspace(0.3, 1.1, m), np.linspace(-0.5, 0.4, m)
            args = [0.7, x, y] if form is mapped else [0.7, float(x[0]), float(y[0])]
            want = plain.f(n, *args)
            again = Interpreter(compiled).run("f", [*[m] * (form is mapped), n, *args])
            for a, b, c in zip(made.f(n, *args), want, again, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)
                np.testing.assert_allclose(c, b, rtol=1e-14)


def test_rows_are_not_handed_on():
    """A map over rows has no operation of the variable itself."""
    text = """entry f [m][k] (n: i64) (xs: [m][k]f64) =
      loop xs for _i < n do map (\\r -> let r = map f64.sin r in map (\\x -> x + f64.sin x) r) xs"""
    with counting() as counts:
        compile_program(compile_text(text), target=C, check=True)
    assert counts["hand-on"] == 0
