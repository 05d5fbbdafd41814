"""`with_inverse`: iterations that are undone by an inverse of the program's own."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.check import check_program
from futad.core.parse import parse_program
from futad.optimise.inline import inline
from futad.rewrite.simplify import simplify
from futad.source import compile_text
from tests.support.ad_support import differences, duality, second_order
from tests.support.needs import needs_cxx
from tests.support.slow import slow_but

# f, its inverse, and the loop around: the state, and what an iteration makes of it.
BODIES = {
    "scalar": ("f64.sinh", "f64.asinh", "x", "with_inverse f back x * 0.5 + 0.1"),
    "pair": ("\\(x, y) -> (x * f64.exp y, y + f64.sin (x * f64.exp y))",
             "\\(u, v) -> let y = v - f64.sin u in (u / f64.exp y, y)",
             "(x, y)", "let (p, q) = with_inverse f back (y * 0.3, x * 0.3) in (p + 0.1, q * 0.9)"),
    "given": ("\\x -> x * x * x + c * f64.i64 i", "\\y -> f64.cbrt (y - c * f64.i64 i)", "x",
              "0.7 * f64.sinh 0.4 + with_inverse f back x * 0.5"),
    "branch": ("f64.sinh", "f64.asinh", "x", "if i % 3 == 0 then with_inverse f back x * 0.5 else x + c"),
    "inner loop": ("f64.sinh", "f64.asinh", "x", "loop x for j < 3 do with_inverse f back (x + 0.1) * 0.7"),
    "map": ("f64.sinh", "f64.asinh", "xs", "map (\\x -> with_inverse f back x * 0.5 + 0.1) xs"),
    "array": ("\\(xs: [3]f64) -> map f64.sinh (rotate 1 xs)", "\\(ys: [3]f64) -> rotate (-1) (map f64.asinh ys)",
              "xs", "map (\\x -> x * 0.5 + 0.1) (with_inverse f back xs)"),
    "overwriting": ("\\(xs: [3]f64) -> let ys = copy xs in ys with [1] = f64.sinh ys[1] + ys[0]",
                    "\\(ys: [3]f64) -> let xs = copy ys in xs with [1] = f64.asinh (xs[1] - xs[0])",
                    "xs", "map (\\x -> x * 0.5 + 0.1) (with_inverse f back xs)"),
    "loop of its own": ("\\x -> loop x for _i < 3 do f64.sinh x * 0.5", "\\y -> loop y for _i < 3 do f64.asinh (y * 2)",
                        "x", "with_inverse f back x + 0.1"),
}  # fmt: skip
STATES = {"x": "a", "(x, y)": "(a, 0.3 * a)", "xs": "[a, 2 * a, 0.3]"}
ENDS = {"x": "x", "(x, y)": "x + y * y", "xs": "f64.sum (map2 (*) xs (map f64.cos xs))"}


def program(name: str, plain: bool = False) -> str:
    """Entries `f` of a body, its gradient, and with it undone; the second derivatives of both."""
    f, back, state, body = BODIES[name]
    body = body.replace("with_inverse f back", "f" if plain else "with_inverse f back")
    return f"""
        entry f (n: i64) (c: f64) (a: f64) : f64 =
          let {state} = loop {state} = {STATES[state]} for i < n do (let f = {f} let back = {back} in {body})
          in {ENDS[state]}
        entry plain (n: i64) (c: f64) (a: f64) = vjp (\\(c, a) -> f n c a) (c, a) 1
        entry undone (n: i64) (c: f64) (a: f64) = #[reversible] vjp (\\(c, a) -> f n c a) (c, a) 1
        entry twice (n: i64) (c: f64) (a: f64) = jvp (\\(c, a) -> undone n c a) (c, a) (0.3, 1)
        entry plain_twice (n: i64) (c: f64) (a: f64) = jvp (\\(c, a) -> plain n c a) (c, a) (0.3, 1)
        entry back_twice (n: i64) (c: f64) (a: f64) = vjp (\\(c, a) -> undone n c a) (c, a) (0.3, 1)"""


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["scalar", "map"], BODIES))
def test_gradients_are_those_without_it(name: str) -> None:
    without = futad.compile(program(name, plain=True), backend="interp")
    made = futad.compile(program(name), backend="interp", check=True)
    for n in (0, 1, 2, 9):
        assert made.f(n, 0.2, 0.4) == without.f(n, 0.2, 0.4)
        want = without.plain(n, 0.2, 0.4)
        assert made.plain(n, 0.2, 0.4) == pytest.approx(want, rel=1e-13)
        assert made.undone(n, 0.2, 0.4) == pytest.approx(want, rel=1e-9)
        want = without.plain_twice(n, 0.2, 0.4)
        for twice in (made.twice, made.plain_twice):
            assert twice(n, 0.2, 0.4) == pytest.approx(want, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["scalar"], BODIES))
def test_nothing_is_kept_but_where_the_loop_begins(kept: Any, name: str) -> None:
    inside = {"loop of its own": 24, "inner loop": 8}.get(name, 0)  # what an iteration keeps while it is reversed
    for n in (2, 5, 9):  # longer loops of these bodies lose digits
        _, room = kept(program(name), "undone", n, 0.2, 0.4)
        place = 8 * n if name == "inner loop" else 0  # of the state that it is undone from
        assert room <= 8 * 4 + inside * n + place
        _, much = kept(program(name), "plain", n, 0.2, 0.4)
        assert much >= (8 + inside) * n


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scalar", "pair", "map"])
def test_central_differences(name: str) -> None:
    text = program(name)
    p = simplify(inline(simplify(compile_text(text[: text.index("entry plain")]))))
    for n in (0, 3):
        args = [np.int64(n), 0.2, 0.4]
        differences(p, args)
        duality(p, args)
        second_order(p, args)


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
@pytest.mark.parametrize("name", BODIES)
def test_backends(name: str, backend: str) -> None:
    made = futad.compile(program(name), backend=backend)
    reference = futad.compile(program(name), backend="interp")
    for n in (0, 1, 7):
        for entry in ("f", "undone", "twice", "back_twice"):
            want = getattr(reference, entry)(n, 0.2, 0.4)
            assert getattr(made, entry)(n, 0.2, 0.4) == pytest.approx(want, rel=1e-10)


@pytest.mark.slow
def test_while_loops_and_loops_in_maps(kept: Any) -> None:
    text = """
        def f [n] (a: f64) (xs: [n]f64) : f64 = f64.sum (map (\\x ->
          let (x, y) = loop (x, y) = (x, 0) while f64.abs x < 3 do
            let z = with_inverse f64.sinh f64.asinh x
            in (z + 0.1, y + a * f64.sin z)
          in x * y) xs)
        entry plain [n] (a: f64) (xs: [n]f64) = vjp (f a) xs 1
        entry undone [n] (a: f64) (xs: [n]f64) = #[reversible] vjp (f a) xs 1"""
    xs = np.array([0.3, 2.9, 4.0, 0.0])
    (want,), _ = kept(text, "plain", 4, 0.7, xs)
    (got,), room = kept(text, "undone", 4, 0.7, xs)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    assert room <= 8 * 4


def looped(f: str, back: str, attr: str = "", state: str = "x", start: str = "a", use: str = "f64.sin x") -> str:
    return f"""
        entry f (n: i64) (a: f64) : f64 =
          ({attr} loop ({state}, s) = ({start}, 0) for i < n do
            (with_inverse ({f}) ({back}) {state}, s + a * {use})).1"""


INTS = "\\x -> (x * 48271u64) % 2147483647u64", "\\y -> (y * 1899818559u64) % 2147483647u64"


@pytest.mark.slow
def test_integers_are_undone_without_an_option(kept: Any) -> None:
    """A generator whose inverse no row finds: 48271 * 1899818559 = 1 modulo 2^31 - 1."""
    assert 48271 * 1899818559 % (2**31 - 1) == 1
    text = looped(*INTS, start="17u64", use="f64.sin (f64.u64 x * a)")
    text += "\nentry reverse (n: i64) (a: f64) = vjp (f n) a 1"
    (got,), room = kept(text, "reverse", 50, 0.7)
    (want,), much = kept(text.replace(" vjp", " #[reversible(false)] vjp"), "reverse", 50, 0.7)
    assert got == want and room <= 8 + 8 and much == 50 * 8  # the state and its place


@pytest.mark.slow
def test_exact_keeps_the_bits_that_an_inverse_of_floats_loses(kept: Any) -> None:
    text = program("scalar").replace("#[reversible] vjp", "#[reversible(exact)] vjp")
    got, room = kept(text, "undone", 400, 0.2, 1e-3)
    want, much = kept(text, "plain", 400, 0.2, 1e-3)
    assert got == want and room == 400 + 8 * 100 and much == 400 * 8


WRONG = {
    "float": (looped("f64.sinh", "\\y -> f64.asinh y * 0.999"), True),
    "not a number": (looped("f64.sinh", "\\y -> y / 0 - y / 0"), True),
    "integer": (looped(INTS[0], "\\y -> y * 3", start="17u64", use="f64.sin (f64.u64 x * a)"), None),
    "array": (looped("\\(xs: [2]f64) -> map f64.sinh xs", "\\ys -> rotate 1 (map f64.asinh ys)", "", "xs",
                     "[a, 0.2]", "f64.sin xs[0]"), True),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_inverse_is_an_error(name: str) -> None:
    text, how = WRONG[name]
    f = futad.compile(text, backend="interp").f
    futad.grad(f, argnums=1, reversible=False)(5, 0.3)
    with pytest.raises(futad.errors.AssertionFailed, match="does not come to where it was: 'xs?' "):
        futad.grad(f, argnums=1, **({} if how is None else {"reversible": how}))(5, 0.3)


def test_what_is_lost_before_it_names_variable_and_statement() -> None:
    text = looped("\\x -> f64.sinh x", "\\y -> f64.asinh y", "#[reversible]").replace(") x, s", ") (f64.max x 0.1), s")
    f = futad.compile(text, backend="interp").f
    says = re.escape("the loop cannot be run backwards: 'x' does not follow from ") + r"('\w+' = )?max\(x, 0.1f64\)"
    with pytest.raises(futad.errors.UnsupportedError, match=says):
        futad.grad(f, argnums=1)(5, 0.3)


def test_an_inverse_that_reads_what_is_lost_is_named() -> None:
    text = """
        entry f (n: i64) (a: f64) : f64 =
          (#[reversible] loop (x, z, s) = (a, a, 0) for i < n do
            (with_inverse (\\x -> x * x * z) (\\y -> f64.sqrt (y / z)) x, f64.max z 1, s + f64.sin (x * z))).2"""
    f = futad.compile(text, backend="interp").f
    with pytest.raises(futad.errors.UnsupportedError, match="'(x' does not .*with_inverse|z' does not .*max)"):
        futad.grad(f, argnums=1)(5, 0.3)


def test_the_core_text_is_read_back() -> None:
    p = compile_text(program("pair"))
    again = parse_program(str(p))
    check_program(again, "parse")
    assert again.funs["f"].body.has(ir.WithInverse)
    assert re.sub(r"_\d+", "", str(again)) == re.sub(r"_\d+", "", str(p))


def test_wrong_types_are_errors() -> None:
    for f, back in (("f64.sinh", "f64.i64"), ("\\x -> (x, x)", "f64.asinh")):
        with pytest.raises(futad.errors.TypeCheckError):
            futad.compile(f"entry f (x: f64) = with_inverse ({f}) ({back}) x")
