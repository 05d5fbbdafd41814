"""What cannot be traced is an error at the user's line, that says what to write."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest

import futad
import futad.numpy as fnp
from futad.errors import TraceError, UsageError
from futad.numpy import f32, f64, i64

here = __file__


def traced(f):
    futad.function(backend="interp")(f).source()


def branch(x: f64["n"], a: f64):
    if a > 0:
        return x
    return -x


def loop(x: f64["n"]):
    total = 0.0
    for row in x:
        total = total + row
    return total


def count(x: f64["n"], n: i64):
    return [x for _ in range(n)]


CASES = {
    "if": (branch, "if a > 0:", "fnp.cond(test, lambda: a, lambda: b)"),
    "for": (loop, "for row in x:", "fnp.map(lambda row: ..., x)"),
    "range": (count, "range(n)", "fnp.loop(n, lambda i, state: ..., initial)"),
    "and": (lambda x, a: (x > 0) and a, "(x > 0) and a", "of `and`, `or`, `not` &, |, ~"),
    "float": (lambda x, a: float(a), "float(a)", "x.astype(f64)"),
    "int": (lambda x, a: int(a), "int(a)", "x.astype(f64)"),
    "len": (lambda x, a: len(x), "len(x)", "write x.shape[0]"),
    "in": (lambda x, a: a in x, "a in x", "fnp.any(x == value)"),
    "list": (lambda x, a: [*x], "[*x]", "fnp.map"),
    "set": (lambda x, a: x.__setitem__(0, 1), "x.__setitem__(0, 1)", "x.at[i].set(value)"),
    "numpy": (lambda x, a: np.exp(x), "np.exp(x)", "write fnp.exp"),
    "numpy function": (lambda x, a: np.concatenate([x, x]), "np.concatenate([x, x])", "write fnp.concatenate"),
    "shapes": (lambda x, a: x[1:] + x, "x[1:] + x", "size n - 1 is not known to be n"),
    "shapes of matmul": (lambda x, a: x @ x[1:], "x @ x[1:]", "has sizes n and n - 1"),
    "trace": (lambda x, a: fnp.trace(fnp.outer(x, x[1:])), "fnp.trace(fnp.outer(x, x[1:]))", "known to be square"),
    "rank": (lambda x, a: x[0, 1], "x[0, 1]", "rank 1 has no 2 indices"),
    "index": (lambda x, a: x[a], "x[a]", "an index is a whole number, not f64"),
    "mask": (lambda x, a: x[x > 0], "x[x > 0]", "fnp.where(mask, x, 0)"),
    "axis": (lambda x, a: fnp.sum(x, axis=1), "fnp.sum(x, axis=1)", "axis 1 of an array of rank 1"),
    "einsum": (lambda x, a: fnp.einsum("ij->i", x), 'fnp.einsum("ij->i", x)', "names 2 dimensions"),
    "branches": (lambda x, a: fnp.cond(a > 0, lambda: x, lambda: a), "fnp.cond(a > 0, lambda: x, lambda: a)",
                 "f64 where f64 of shape (n,) is expected"),
    "branch that is none": (lambda x, a: fnp.cond(a > 0, x, a), "fnp.cond(a > 0, x, a)", "takes two functions"),
    "state": (lambda x, a: fnp.loop(3, lambda i, y: y[1:], x), "fnp.loop(3, lambda i, y: y[1:], x)",
              "f64 of shape (n - 1,) where f64 of shape (n,) is expected"),
    "parameters": (lambda x, a: fnp.map(lambda v, w: v, x), "fnp.map(lambda v, w: v, x)", "is called with 1 argument"),
    "rows": (lambda x, a: fnp.map(lambda v, w: v, x, x[1:]), "fnp.map(lambda v, w: v, x, x[1:])", "n and n - 1 rows"),
    "sizes of rows": (lambda x, a: fnp.map(lambda i: fnp.zeros(i), fnp.arange(3)), "fnp.map(lambda i: fnp.zeros(i)",
                      "different sizes"),
    "neutral": (lambda x, a: fnp.reduce(lambda p, q: p + q, x, x), "fnp.reduce(lambda p, q: p + q, x, x)",
                "neutral element is"),
    "size": (lambda x, a: x.sized("m"), 'x.sized("m")', "there is no size 'm'"),
    "dtype": (lambda x, a: x.astype("f12"), 'x.astype("f12")', "no element type"),
    "text": (lambda x, a: x + "1", 'x + "1"', "of type str"),
    "no gradient": (lambda x, a: fnp.grad(lambda v: v * 2)(x), "", "cotangent of shape"),
    "nothing": (lambda x, a: None, "", "of type NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_errors_of_traced_values(name):
    f, code, hint = CASES[name]
    if "__annotations__" not in vars(f) and not f.__annotations__:
        f.__annotations__ = {"x": f64["n"], "a": f64}
    with pytest.raises(TraceError) as e:
        traced(f)
    assert isinstance(e.value, TypeError) and hint in str(e.value)
    if code:
        assert e.value.span.file == here and code in e.value.source_line
        first, line, carets = str(e.value).split("\n")[:3]
        assert re.match(re.escape(here) + r":\d+:\d+: error: ", first)
        assert line[carets.index("^") : carets.rindex("^") + 1] in line and "^" in carets


@dataclass
class Plain:
    a: int


def test_a_value_that_outlives_its_lambda():
    kept = []

    def f(x: f64["n"]):
        fnp.map(lambda v: kept.append(v * 2) or v, x)
        return kept[0] + 1

    with pytest.raises(TraceError, match="of a lambda is used outside"):
        traced(f)

    def g(x: f64["n"]):
        return kept[0]

    with pytest.raises(TraceError, match="another call of a traced function"):
        traced(g)


def untyped(x):
    return x


def starred(*x: f64):
    return x[0]


def default(x: f64 = 3.0):
    return x


def wrong_result(x: f64["n"]) -> f64:
    return x


def wrong_name(x: f64["n"], y: Unknown):  # noqa: F821
    return x


def wrong_size(x: f64["n +"]):
    return x


def one(x: tuple[f64]):
    return x


def doubled(x: f64["2*n"], y: f64["m", "m + n"]):
    return x


DECLARED = [
    (untyped, "'x' of untyped has no type of futad's: it has no annotation"),
    (starred, r"starred takes \*x"),
    (default, "has no default"),
    (wrong_result, r"returns f64\['n'\], but its annotation says f64"),
    (wrong_name, "annotation cannot be evaluated: name 'Unknown'"),
    (wrong_size, "'n \\+' is not a size"),
    (one, "a tuple of 1 parts"),
    (doubled, "no argument has the size n by itself"),
]


@pytest.mark.parametrize(("f", "message"), DECLARED)
def test_errors_of_declarations(f, message):
    with pytest.raises(futad.UsageError, match=message):
        traced(f)


def test_errors_of_calls():
    f = futad.function(backend="interp")(lambda x, y: x + y)
    f.python.__annotations__ = {"x": f64["n"], "y": f64["n"]}
    with pytest.raises(futad.ShapeError, match="'y'"):
        f(np.ones(2), np.ones(3))
    with pytest.raises(futad.DtypeError, match="'x'"):
        f(np.ones(2, complex), np.ones(2))
    with pytest.raises(futad.UsageError, match="takes 2 arguments, not 1"):
        f(np.ones(2))
    with pytest.raises(futad.UsageError, match="decorates functions of Python"):
        futad.function(f)
    with pytest.raises(TraceError, match="futad.numpy works on traced values only"):
        fnp.exp(1.0)
    with pytest.raises(futad.UsageError, match="no parameter 'k'"):
        futad.function(static="k")(lambda x: x)


def test_errors_of_calls_of_traced_functions():
    @futad.function
    def inner(x: f64["n"], y: f64["n"]) -> f64["n"]:
        return x + y

    def shapes(x: f64["n"]):
        return inner(x, x[1:])

    def types(x: f32["n"]):
        return inner(x, x)

    with pytest.raises(TraceError, match=r"inner: shape \(n - 1,\) where \(n,\) is expected"):
        traced(shapes)
    with pytest.raises(TraceError, match="inner: the argument 'x' is f32"):
        traced(types)


def test_a_function_that_calls_itself():
    @futad.function
    def f(x: f64) -> f64:
        return f(x)

    with pytest.raises(TraceError, match="a function that calls itself is not traced"):
        f.source()


def test_errors_of_running_name_the_line_of_the_user():
    @futad.function(backend="interp")
    def f(x: f64["n"], i: i64):
        y = x * 2
        return y[i] + 1  # the line

    with pytest.raises(futad.BoundsError) as e:
        f(np.ones(2), 5)
    assert "Index [5] out of bounds" in str(e.value) and "return y[i] + 1  # the line" in str(e.value)
    with pytest.raises(futad.BoundsError) as e:
        futad.grad(f)(np.ones(2), 5)
    assert "return y[i] + 1  # the line" in str(e.value)


def test_nothing_is_left_after_an_error():
    with pytest.raises(TraceError):
        traced(branch)
    with pytest.raises(TraceError, match="traced values only"):
        fnp.exp(1.0)


def test_attributes_that_are_not_there():
    @futad.function
    def copied(x: f64["n"]):
        return x.copy().sum()

    @futad.function
    def mistyped(x: f64["n"]):
        return x * np.pie

    for use in (lambda f: f(np.ones(2)), lambda f: f.source(), lambda f: f.backend, futad.grad):
        with pytest.raises(TraceError, match=r"no attribute 'copy'(.|\n)*hint: arrays do not change"):
            use(copied)
        with pytest.raises(TraceError, match=r"test_errors\.py:\d+:.*has no attribute 'pie'"):
            use(mistyped)


@pytest.mark.parametrize("annotation", [np.ndarray, type(None), list, dict, complex, str])
def test_classes_that_are_no_types(annotation):
    def f(x):
        return x

    f.__annotations__["x"] = annotation
    with pytest.raises(UsageError, match=f"the argument 'x' of f has no type of futad's: {annotation.__name__}"):
        futad.function(f).source()
