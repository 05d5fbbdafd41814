"""Calls in vector loops before what they do not need."""

import numpy as np
import pytest

import futad
from futad.backend.c_calls import MOST, calls_first
from futad.core.types import F64, I64
from futad.imp import ir
from futad.imp.ir import Ref


def decl(name, init):
    return ir.Decl(name, F64, init)


def load(array):
    return ir.Load(array, Ref("i", I64), F64)


def op(name, *args):
    return ir.Scalar(name, tuple(Ref(a, F64) for a in args), F64, F64)


A, B = decl("a", load("x")), decl("b", load("y"))
P, Q = decl("p", op("sin", "a")), decl("q", op("cos", "a"))
T = decl("t", op("mul", "b", "p"))
STORE = ir.Store("z", Ref("i", I64), Ref("t", F64))


def test_calls_come_before_what_they_do_not_need():
    assert calls_first([A, P, B, T, Q, STORE]) == [A, P, Q, B, T, STORE]


def test_what_a_call_needs_comes_before_it():
    second = decl("q", op("exp", "t"))  # needs the first call, and the load after that
    body = [A, P, B, T, second, STORE]
    assert calls_first(body) is body
    other = decl("u", op("add", "a", "b"))
    assert calls_first([A, B, other, P, T, second]) == [A, B, P, T, second, other]


@pytest.mark.parametrize("between", [STORE, ir.Accumulate("s", "add", Ref("a", F64)), ir.Decl("m", F64, None, True)])
def test_declarations_stay_on_their_side_of_other_statements(between):
    body = [B, A, between, T, Q]
    assert calls_first(body) == [B, A, between, Q, T]


def test_many_calls_and_none_stay_where_they_are():
    calls = [decl(f"p{k}", op("sin", "a")) for k in range(MOST + 1)]
    for body in ([A, B, *calls], [B, A, T], []):
        assert calls_first(body) is body


@pytest.mark.parametrize("n", [0, 1, 7, 8, 1000])
def test_results_are_the_same(n):
    source = "entry main [n] (xs: [n]f64) (ys: [n]f64) = map2 (\\x y -> (y * f64.sin x + y, y + f64.cos x)) xs ys"
    xs, ys = np.linspace(-3, 3, n), np.linspace(1, 2, n)
    for got, want in zip(futad.compile(source, backend="c").main(xs, ys),
                         (ys * np.sin(xs) + ys, ys + np.cos(xs)), strict=True):  # fmt: skip
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-15)
