# ruff: noqa: E501 (programs read better unbroken)
"""Rules on scalar operations: before -> after, and the same values on hard arguments."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from futad.core import ir
from futad.core.parse import parse_program
from futad.core.scalarops import OPS
from futad.core.types import Const, Prim
from futad.rewrite.simplify import simplify
from tests.support.optimise_support import becomes, passes, run

# (parameter types, statements before, result before, statements after, result after); x_1, y_2, ... are parameters.
CASES = {
    "fold": ("i64", "let t_9: i64 = add(2i64, 3i64) let u_8: i64 = mul(t_9, x_1)", "u_8", "let u_8: i64 = mul(5i64, x_1)", "u_8"),
    "no-fold-division-by-zero": ("i64", "let t_9: i64 = div(2i64, 0i64)", "t_9", "let t_9: i64 = div(2i64, 0i64)", "t_9"),
    "add-zero": ("f64", "let t_9: f64 = add(x_1, 0.0f64)", "t_9", "", "x_1"),
    "zero-add": ("f64", "let t_9: f64 = add(0.0f64, x_1)", "t_9", "", "x_1"),
    "mul-one": ("f64", "let t_9: f64 = mul(1.0f64, x_1)", "t_9", "", "x_1"),
    "mul-zero-int": ("i64", "let t_9: i64 = mul(x_1, 0i64)", "t_9", "", "0i64"),
    "mul-zero-float-stays": ("f64", "let t_9: f64 = mul(x_1, 0.0f64)", "t_9", "let t_9: f64 = mul(x_1, 0.0f64)", "t_9"),
    "or-false": ("bool", "let t_9: bool = or(false, x_1)", "t_9", "", "x_1"),
    "and-false": ("bool", "let t_9: bool = and(x_1, false)", "t_9", "", "false"),
    "and-ones": ("i32", "let t_9: i32 = and(-1i32, x_1)", "t_9", "", "x_1"),
    "and-ones-unsigned": ("u8", "let t_9: u8 = and(x_1, 255u8)", "t_9", "", "x_1"),
    "and-other-bits-stays": ("u8", "let t_9: u8 = and(x_1, 127u8)", "t_9", "let t_9: u8 = and(x_1, 127u8)", "t_9"),
    "or-ones": ("i64", "let t_9: i64 = or(x_1, -1i64)", "t_9", "", "-1i64"),
    "xor-ones-stays": ("i64", "let t_9: i64 = xor(x_1, -1i64)", "t_9", "let t_9: i64 = xor(x_1, -1i64)", "t_9"),
    "sub-zero": ("f64", "let t_9: f64 = sub(x_1, 0.0f64)", "t_9", "", "x_1"),
    "div-one": ("f64", "let t_9: f64 = div(x_1, 1.0f64)", "t_9", "", "x_1"),
    "pow-two": ("f64", "let t_9: f64 = pow(x_1, 2.0f64)", "t_9", "let t_9: f64 = mul(x_1, x_1)", "t_9"),
    "pow-three": (
        "f64", "let t_9: f64 = pow(x_1, 3.0f64)", "t_9",
        "let t_9: f64 = mul(x_1, x_1) let u_8: f64 = mul(t_9, x_1)", "u_8"),
    "pow-five-int": (
        "i32", "let t_9: i32 = pow(x_1, 5i32)", "t_9",
        "let t_9: i32 = mul(x_1, x_1) let u_8: i32 = mul(t_9, t_9) let v_7: i32 = mul(u_8, x_1)", "v_7"),
    "pow-minus-two-int-stays": ("i64", "let t_9: i64 = pow(x_1, -2i64)", "t_9", "let t_9: i64 = pow(x_1, -2i64)", "t_9"),
    "pow-minus-one": ("f64", "let t_9: f64 = pow(x_1, -1.0f64)", "t_9", "let t_9: f64 = div(1.0f64, x_1)", "t_9"),
    "pow-nine-stays": ("f64", "let t_9: f64 = pow(x_1, 9.0f64)", "t_9", "let t_9: f64 = pow(x_1, 9.0f64)", "t_9"),
    "pow-third-stays": ("f64", "let t_9: f64 = pow(x_1, 0.25f64)", "t_9", "let t_9: f64 = pow(x_1, 0.25f64)", "t_9"),
    "mod-one": ("i64", "let t_9: i64 = mod(x_1, 1i64)", "t_9", "", "0i64"),
    "zero-minus-int": ("i64", "let t_9: i64 = sub(0i64, x_1)", "t_9", "let t_9: i64 = neg(x_1)", "t_9"),
    "zero-minus-float-stays": ("f64", "let t_9: f64 = sub(0.0f64, x_1)", "t_9", "let t_9: f64 = sub(0.0f64, x_1)", "t_9"),
    "minus-itself": ("i64", "let t_9: i64 = sub(x_1, x_1)", "t_9", "", "0i64"),
    "minus-itself-float-stays": ("f64", "let t_9: f64 = sub(x_1, x_1)", "t_9", "let t_9: f64 = sub(x_1, x_1)", "t_9"),
    "max-itself": ("f64", "let t_9: f64 = max(x_1, x_1)", "t_9", "", "x_1"),
    "equal-itself": ("i64", "let t_9: bool = eq(x_1, x_1)", "t_9", "", "true"),
    "less-than-itself": ("f64", "let t_9: bool = lt(x_1, x_1)", "t_9", "", "false"),
    "double-neg": ("f64", "let t_9: f64 = neg(x_1) let u_8: f64 = neg(t_9)", "u_8", "", "x_1"),
    "double-not": ("bool", "let t_9: bool = not(x_1) let u_8: bool = not(t_9)", "u_8", "", "x_1"),
    "not-eq": ("f64 f64", "let t_9: bool = eq(x_1, y_2) let u_8: bool = not(t_9)", "u_8", "let u_8: bool = ne(x_1, y_2)", "u_8"),
    "not-less-int": ("i64 i64", "let t_9: bool = lt(x_1, y_2) let u_8: bool = not(t_9)", "u_8", "let u_8: bool = le(y_2, x_1)", "u_8"),
    "not-less-float-stays": (
        "f64 f64", "let t_9: bool = lt(x_1, y_2) let u_8: bool = not(t_9)", "u_8",
        "let t_9: bool = lt(x_1, y_2) let u_8: bool = not(t_9)", "u_8"),
    "add-neg": ("f64 f64", "let t_9: f64 = neg(y_2) let u_8: f64 = add(x_1, t_9)", "u_8", "let u_8: f64 = sub(x_1, y_2)", "u_8"),
    "neg-add": ("f64 f64", "let t_9: f64 = neg(x_1) let u_8: f64 = add(t_9, y_2)", "u_8", "let u_8: f64 = sub(y_2, x_1)", "u_8"),
    "sub-neg": ("f64 f64", "let t_9: f64 = neg(y_2) let u_8: f64 = sub(x_1, t_9)", "u_8", "let u_8: f64 = add(x_1, y_2)", "u_8"),
    "times-minus-one": ("f64", "let t_9: f64 = mul(x_1, -1.0f64)", "t_9", "let t_9: f64 = neg(x_1)", "t_9"),
    "neg-times-neg": (
        "f64 f64", "let t_9: f64 = neg(x_1) let u_8: f64 = neg(y_2) let v_7: f64 = mul(t_9, u_8)", "v_7",
        "let v_7: f64 = mul(x_1, y_2)", "v_7"),
    "collect": ("i64", "let t_9: i64 = add(x_1, 1i64) let u_8: i64 = add(t_9, 2i64)", "u_8", "let u_8: i64 = add(x_1, 3i64)", "u_8"),
    "collect-cancel": ("i64", "let t_9: i64 = add(x_1, 5i64) let u_8: i64 = sub(t_9, 5i64)", "u_8", "", "x_1"),
    "collect-sub": ("i64", "let t_9: i64 = sub(x_1, 1i64) let u_8: i64 = sub(t_9, 2i64)", "u_8", "let u_8: i64 = sub(x_1, 3i64)", "u_8"),
    "add-then-sub": ("i64 i64", "let t_9: i64 = add(x_1, y_2) let u_8: i64 = sub(t_9, y_2)", "u_8", "", "x_1"),
    "sub-then-add": ("i64 i64", "let t_9: i64 = sub(x_1, y_2) let u_8: i64 = add(t_9, y_2)", "u_8", "", "x_1"),
    "sub-of-sub": ("i64 i64", "let t_9: i64 = sub(x_1, y_2) let u_8: i64 = sub(x_1, t_9)", "u_8", "", "y_2"),
    "select-same": ("bool f64", "let t_9: f64 = select(x_1, y_2, y_2)", "t_9", "", "y_2"),
    "select-true-false": ("bool", "let t_9: bool = select(x_1, true, false)", "t_9", "", "x_1"),
    "select-false-true": ("bool", "let t_9: bool = select(x_1, false, true)", "t_9", "let t_9: bool = not(x_1)", "t_9"),
    "select-not": (
        "bool f64 f64", "let t_9: bool = not(x_1) let u_8: f64 = select(t_9, y_2, z_3)", "u_8",
        "let u_8: f64 = select(x_1, z_3, y_2)", "u_8"),
    "select-and": ("bool bool", "let t_9: bool = select(x_1, y_2, false)", "t_9", "let t_9: bool = and(x_1, y_2)", "t_9"),
    "convert-to-itself": ("f64", "let t_9: f64 = to_f64(x_1)", "t_9", "", "x_1"),
    "convert-there-and-back": ("i32", "let t_9: i64 = to_i64(x_1) let u_8: i32 = to_i32(t_9)", "u_8", "", "x_1"),
    "convert-narrow-stays": (
        "i64", "let t_9: i32 = to_i32(x_1) let u_8: i64 = to_i64(t_9)", "u_8",
        "let t_9: i32 = to_i32(x_1) let u_8: i64 = to_i64(t_9)", "u_8"),
    "bool-there-and-back": ("bool", "let t_9: f64 = to_f64(x_1) let u_8: bool = to_bool(t_9)", "u_8", "", "x_1"),
    "bool-is-one": ("bool", "let t_9: i32 = to_i32(x_1) let u_8: bool = eq(t_9, 1i32)", "u_8", "", "x_1"),
    "bool-not-above-zero": (
        "bool", "let t_9: f64 = to_f64(x_1) let u_8: bool = le(t_9, 0.0f64)", "u_8", "let u_8: bool = not(x_1)", "u_8"),
    "bool-above-zero": ("bool", "let t_9: u8 = to_u8(x_1) let u_8: bool = lt(0u8, t_9)", "u_8", "", "x_1"),
    "bool-below-two": ("bool", "let t_9: i64 = to_i64(x_1) let u_8: bool = lt(t_9, 2i64)", "u_8", "", "true"),
    "bool-of-nan": ("bool", "let t_9: f32 = to_f32(x_1) let u_8: bool = eq(nanf32, t_9)", "u_8", "", "false"),
    "bool-and-variable-stays": (
        "bool i32", "let t_9: i32 = to_i32(x_1) let u_8: bool = lt(t_9, y_2)", "u_8",
        "let t_9: i32 = to_i32(x_1) let u_8: bool = lt(t_9, y_2)", "u_8"),
    "eq-true": ("bool", "let t_9: bool = eq(x_1, true)", "t_9", "", "x_1"),
    "divide-by-a-power-of-two": ("f64", "let t_9: f64 = div(x_1, 4.0f64)", "t_9", "let t_9: f64 = mul(x_1, 0.25f64)", "t_9"),
    "fma-one": ("f64 f64", "let t_9: f64 = fma(x_1, 1.0f64, y_2)", "t_9", "let t_9: f64 = add(x_1, y_2)", "t_9"),
    "common": (
        "f64 f64", "let t_9: f64 = mul(x_1, y_2) let u_8: f64 = mul(y_2, x_1) let v_7: f64 = div(t_9, u_8)", "v_7",
        "let t_9: f64 = mul(x_1, y_2) let v_7: f64 = div(t_9, t_9)", "v_7"),
    "dead": ("f64", "let t_9: f64 = exp(x_1)", "x_1", "", "x_1"),
}  # fmt: skip

FLOATS = [0.0, 1.0, -1.0, 2.5, -3.75, math.inf, -math.inf, math.nan, 1e308, 5e-324]
INTS = [0, 1, -1, 2, 7, -(2**31), 2**31 - 1]
VALUES = {"f64": FLOATS, "i64": [*INTS, 2**63 - 1, -(2**63)], "i32": INTS, "u8": [0, 1, 127, 128, 255], "bool": [False, True]}


def make(types: str, stms: str, result: str) -> str:
    names = ["x_1", "y_2", "z_3"]
    params = ", ".join(f"{n}: {t}" for n, t in zip(names, types.split(), strict=False))
    env = dict(zip(names, types.split(), strict=False))
    for word in stms.split(" let "):
        name, _, rest = word.removeprefix("let ").partition(": ")
        env[name] = rest.split(" ")[0]
    ret = env.get(result) or ("bool" if result in ("true", "false") else result.lstrip("-0123456789."))
    return f"fun main ({params}) -> (r_99: {ret}) = {{ {stms} in ({result}) }}"


@pytest.mark.parametrize("name", CASES)
def test_rule(name):
    types, before, result, after, want = CASES[name]
    old, new = make(types, before, result), make(types, after, want)
    becomes(old, new, simplify)
    p, q = parse_program(old), parse_program(new)
    for args in itertools.product(*[VALUES[t] for t in types.split()]):
        try:
            a = run(p, args)
        except Exception as e:  # the same failure, then (division by zero)
            with pytest.raises(type(e)):
                run(q, args)
            continue
        b = run(q, args)
        np.testing.assert_array_equal(a[0], b[0], err_msg=str(args))


def _example(t: Prim) -> list[Const]:
    return [Const(t, v) for v in ([0.5, -2.0, 3.0] if t.is_float else [0, 1] if t.is_bool else [0, 3, 100])]


@pytest.mark.parametrize("name", OPS)
def test_folding_agrees_with_the_interpreter(name):
    """Every operation at every type folds to what the interpreter computes, in the declared type."""
    record = OPS[name]
    for t in record.types:
        left = record.sig.split("->")[0].split()
        types = [t if n == "a" else next(p for p in (*_prims(),) if p.name == n) for n in left]
        for k in range(3):
            args = tuple([_example(p)[k % len(_example(p))] for p in types])
            if record.can_fail and t.is_integral and not args[1].value:
                continue
            ret = record.result_type(tuple(types))
            params = ", ".join(f"p_{i}: {p}" for i, p in enumerate(types))
            given = ", ".join(f"p_{i}" for i in range(len(types)))
            p = parse_program(f"fun main ({params}) -> (r_99: {ret}) = {{ let t_50: {ret} = {name}({given}) in (t_50) }}")
            (want,) = run(p, [a.type.dtype.type(a.value) for a in args])
            f = p.funs["main"]
            f.body.stms[0].exp = ir.Op(name, args)
            (got,) = passes(p, simplify).funs["main"].body.result
            assert isinstance(got, Const) and got.type is ret
            np.testing.assert_array_equal(ret.dtype.type(got.value), want)


def _prims() -> list[Prim]:
    from futad.core.types import PRIMS

    return list(PRIMS.values())
