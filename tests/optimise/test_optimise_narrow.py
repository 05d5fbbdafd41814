"""Maps of which only a slice is read make that slice; gradients then see nothing of the rest."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.parse import parse_program
from futad.errors import AssertionFailed
from futad.optimise import narrow as narrowing
from futad.optimise.inline import inline
from futad.rewrite.simplify import simplify
from futad.source import compile_text
from tests.support.optimise_support import becomes, body, passes


def narrow(p: ir.Program) -> ir.Program:
    return narrowing.narrow(p, everywhere=True)


ROOT = r"\(x_20: f64) -> { let s_21: f64 = sqrt(x_20) in (s_21) }"
PARAMS = "n_1: i64, m_4: i64, xs_2: [n_1]f64, ys_3: [n_1]f64"


def test_a_slice_of_a_map_is_a_map_of_a_slice() -> None:
    whole = f"let a_5: [n_1]f64 = map(n_1, [xs_2], {ROOT}) let b_6: [m_4]f64 = a_5[2i64:m_4:3i64] in (b_6)"
    part = f"let a_5: [m_4]f64 = xs_2[2i64:m_4:3i64] let b_6: [m_4]f64 = map(m_4, [a_5], {ROOT}) in (b_6)"
    becomes(body(whole, PARAMS, "[m_4]f64"), body(part, PARAMS, "[m_4]f64"), narrow, simplify)


def test_what_makes_the_inputs_is_narrowed_too() -> None:
    """And both results, of which one is read further inside."""
    p = parse_program(
        body(
            f"let a_5: [n_1]f64 = map(n_1, [xs_2], {ROOT})"
            r" let (b_6: [n_1]f64, c_7: [n_1][2]f64) = map(n_1, [a_5, ys_3], \(x_30: f64, y_31: f64) -> {"
            "   let p_32: f64 = mul(x_30, y_31) let q_33: [2]f64 = replicate([2i64], y_31) in (p_32, q_33) })"
            " let d_8: [m_4]f64 = b_6[0i64:m_4:1i64] let e_9: [m_4]f64 = c_7[0i64:m_4:1i64, 1i64] in (d_8, e_9)",
            PARAMS,
            "[m_4]f64;[m_4]f64",
        )
    )
    (fun,) = passes(p, narrow, simplify).funs.values()
    widths = [s.exp.width for s in fun.body.stms if isinstance(s.exp, ir.Map)]
    assert len(widths) == 2 and set(widths) == {fun.body.params[1]}


@pytest.mark.parametrize(
    "text",
    [
        "let b_6: [m_4]f64 = a_5[0i64:m_4:1i64] let c_7: f64 = a_5[4i64] in (b_6, c_7)",
        "let b_6: [m_4]f64 = a_5[0i64:m_4:1i64] let c_7: [m_4]f64 = a_5[1i64:m_4:1i64] in (b_6, c_7)",
        "let b_6: [m_4]f64 = a_5[0i64:m_4:1i64] in (b_6, a_5)",
        "let b_6: [m_4]f64 = a_5[0i64:m_4:0i64] in (b_6)",
        r"let b_6: [m_4]f64 = a_5[0i64:m_4:1i64] let c_7: f64 = for(m_4, [0.0f64], \(i_8: i64, s_9: f64) -> {"
        " let t_10: f64 = a_5[i_8] in (t_10) }) in (b_6, c_7)",
    ],
)
def test_what_is_read_elsewhere_is_made(text: str) -> None:
    """Other elements, others slices, the whole array; and a slice that repeats an element, which would be more work."""
    rets = ";".join({"b": "[m_4]f64", "a": "[n_1]f64"}.get(x[0], "[m_4]f64" if "c_7: [" in text else "f64")
                    for x in text.rsplit("in (", 1)[1].rstrip(")").split(", "))  # fmt: skip
    p = parse_program(body(f"let a_5: [n_1]f64 = map(n_1, [xs_2], {ROOT}) {text}", PARAMS, rets))
    assert passes(p, narrow) is p


def test_a_map_stays_before_what_overwrites_its_input() -> None:
    p = parse_program(
        body(
            f"let z_5: [n_1]f64 = copy(xs_2) let a_6: [n_1]f64 = map(n_1, [z_5], {ROOT})"
            " let z_7: [n_1]f64 = update(z_5, [0i64], 1.0f64, None)"
            " let b_8: [m_4]f64 = a_6[0i64:m_4:1i64] in (b_8, z_7)",
            PARAMS,
            "[m_4]f64;[n_1]f64",
        )
    )
    assert passes(p, narrow) is p


TEXT = """
def f1 [n] (xs: [n]f64) = take n (map (\\y -> xs[0] * (y / y)) (xs ++ [0]))
def f2 [n] (xs: [n]f64) = (map f64.sin (map (\\y -> xs[0] * (y / y)) ([0] ++ xs)))[1:]
def f3 [n] (xs: [n]f64) = take n (map (.0) (map (\\y -> (xs[0] * (y / y), y * y)) (xs ++ [0])))
def f4 [n] (xs: [n]f64) = map f64.sum (take n (map (\\y -> map (\\z -> xs[0] * (y / y) * z) xs) (xs ++ [0])))
entry r1 [n] (xs: [n]f64) = vjp f1 xs (replicate n 1)
entry r2 [n] (xs: [n]f64) = vjp f2 xs (replicate n 1)
entry r3 [n] (xs: [n]f64) = vjp f3 xs (replicate n 1)
entry r4 [n] (xs: [n]f64) = vjp f4 xs (replicate n 1)
entry j1 [n] (xs: [n]f64) (ds: [n]f64) = f64.sum (jvp f1 xs ds)
entry j2 [n] (xs: [n]f64) (ds: [n]f64) = f64.sum (jvp f2 xs ds)
entry j3 [n] (xs: [n]f64) (ds: [n]f64) = f64.sum (jvp f3 xs ds)
entry j4 [n] (xs: [n]f64) (ds: [n]f64) = f64.sum (jvp f4 xs ds)
-- The remedy: what nobody shall see is not computed.
def remedy [n] (xs: [n]f64) = let ys = map (\\y -> if y == 0 then 0 else xs[0] * (y / y)) (xs ++ [0])
                              in loop s = 0 for i < n do s + ys[i]
entry r5 [n] (xs: [n]f64) = vjp remedy xs 1
entry j5 [n] (xs: [n]f64) (ds: [n]f64) = jvp remedy xs ds
entry asserted [n] (xs: [n]f64) =
  vjp (\\xs -> take (n - 1) (map (\\x -> assert (x > 0) (f64.sqrt x)) xs)) xs (replicate (n - 1) 1)
"""


def test_only_what_reverse_mode_meets() -> None:
    """And may meet infinite derivatives in: elsewhere nothing is gained, and maps of equal widths run together."""
    text = """
    #[noinline] def f [n] (xs: [n]f64) = take (n - 1) (map f64.sqrt (map (+ 1) xs))
    #[noinline] def g [n] (xs: [n]f64) = f64.sum (f xs)
    entry plain [n] (xs: [n]f64) = f xs
    entry along [n] (xs: [n]f64) = jvp (\\xs -> take (n - 1) (map f64.exp xs)) xs xs
    entry gradient [n] (xs: [n]f64) = vjp g xs 1
    entry inside [n] (xs: [n]f64) = vjp (\\xs -> take (n - 1) (map f64.exp xs)) xs (replicate (n - 1) 1)
    entry smooth [n] (xs: [n]f64) = vjp (\\xs -> take (n - 1) (map (\\x -> x * f64.sin x) xs)) xs (replicate (n - 1) 1)
    """
    before = simplify(inline(simplify(compile_text(text, "narrow.fut"))))
    after = narrowing.narrow(before)
    assert {name for name, f in after.funs.items() if f is not before.funs[name]} == {"gradient", "inside"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c", "multicore", "emulated"])
def test_elements_that_nobody_reads_leave_no_trace_in_a_gradient(backend: str) -> None:
    """The element 0 / 0 is not read: forward mode does not see it, and no more does reverse mode."""
    p = futad.compile(TEXT, backend=backend)
    rng = np.random.default_rng(4)
    for n in (1, 2, 5):
        xs, ds = rng.uniform(1, 2, n), rng.standard_normal(n)
        for k in range(1, 6):
            gradient = p[f"r{k}"](xs)
            assert np.all(np.isfinite(gradient)), (k, n)
            np.testing.assert_allclose(gradient @ ds, p[f"j{k}"](xs, ds), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_an_assertion_about_an_element_that_nobody_reads_is_made() -> None:
    p = futad.compile(TEXT, backend="c")
    np.testing.assert_allclose(p.asserted([4.0, 16.0, 1.0]), [0.25, 0.125, 0])
    with pytest.raises(AssertionFailed):
        p.asserted([4.0, 9.0, -1.0])
