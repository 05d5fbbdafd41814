"""What people who know NumPy write in traced functions: the place and the hint of each error, and that what the hint
says works."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import scipy.special

import futad
import futad.numpy as fnp
from futad.errors import TraceError
from futad.numpy import f64, i64
from futad.python import instead


def no_return(x: f64["n"], a: f64):
    y = x + a  # noqa: F841


def with_return(x: f64["n"], a: f64):
    y = x + a
    return y


def recursion(x: f64["n"], a: f64):
    return recursion(x, a - 1)


def halves(x: f64["n"], a: f64):
    return fnp.while_loop(lambda b: b > 1, lambda b: b / 2, a)


def total(x: f64["n"], a: f64):
    s = 0.0
    for v in x:
        s += v
    return s


def assigned(x: f64["n"], a: f64):
    x[0] = a
    return x


def added(x: f64["n"], a: f64):
    x[0] += a
    return x


def branched(x: f64["n"], a: f64):
    if a > 0:
        return x
    return -x


def listed(x: f64["n"], a: f64):
    return [x, x]


def text(x: f64["n"], a: f64):
    return f"{x}"


X = np.array([0.5, -1.5, 2.0])
# The mistake, what its line has, what the hint says, what is written then, and NumPy's value of that at X and 0.5.
MISTAKES = {
    "no return": (no_return, "def no_return", "end it with return", with_return, X + 0.5),
    "recursion": (recursion, "def recursion", "fnp.while_loop", halves, 0.5),
    "for": (total, "for v in x", "fnp.sum", lambda x, a: fnp.sum(x), X.sum()),
    "sum": (lambda x, a: sum(x), "sum(x)", "fnp.sum", lambda x, a: fnp.sum(x), X.sum()),
    "sorted": (lambda x, a: sorted(x), "sorted(x)", "fnp.sort", lambda x, a: fnp.sort(x), np.sort(X)),
    "assigned": (assigned, "x[0] = a", "x.at[i].set(value)", lambda x, a: x.at[0].set(a), np.array([0.5, -1.5, 2])),
    "added": (added, "x[0] += a", "x.at[i].add(value)", lambda x, a: x.at[0].add(a), np.array([1, -1.5, 2])),
    "if": (branched, "if a > 0", "fnp.cond", lambda x, a: fnp.cond(a > 0, lambda: x, lambda: -x), X),
    "ternary": (lambda x, a: a if a > 0 else -a, "a if a > 0", "fnp.where", lambda x, a: fnp.where(a > 0, a, -a), 0.5),
    "max": (lambda x, a: max(a, x[0]), "max(a, x[0])", "fnp.maximum", lambda x, a: fnp.maximum(a, x[0]), 0.5),
    "chained": (lambda x, a: fnp.where(0 < x < 1, x, a), "0 < x < 1", "&",
                lambda x, a: fnp.where((x > 0) & (x < 1), x, a), np.array([0.5, 0.5, 0.5])),
    "round": (lambda x, a: round(a), "round(a)", "fnp.rint(x)", lambda x, a: fnp.rint(x), np.rint(X)),
    "math": (lambda x, a: math.exp(a), "math.exp(a)", "write fnp.exp", lambda x, a: fnp.exp(a), math.exp(0.5)),
    "np.sin": (lambda x, a: np.sin(x), "np.sin(x)", "write fnp.sin", lambda x, a: fnp.sin(x), np.sin(X)),
    "np.sum": (lambda x, a: np.sum(x), "np.sum(x)", "write fnp.sum", lambda x, a: fnp.sum(x), X.sum()),
    "norm": (lambda x, a: np.linalg.norm(x), "np.linalg.norm(x)", "write fnp.norm", lambda x, a: fnp.norm(x),
             np.linalg.norm(X)),
    "scipy": (lambda x, a: scipy.special.logsumexp(x), "scipy.special.logsumexp(x)", "write fnp.logsumexp",
              lambda x, a: fnp.logsumexp(x), scipy.special.logsumexp(X)),
    "softmax": (lambda x, a: fnp.softmax(x), "fnp.softmax(x)", "fnp.exp(x - fnp.logsumexp(x))",
                lambda x, a: fnp.exp(x - fnp.logsumexp(x)), scipy.special.softmax(X)),
    "median": (lambda x, a: fnp.median(x), "fnp.median(x)", "write fnp.sort(x), and index it",
               lambda x, a: fnp.sort(x)[1], 0.5),
    "hstack": (lambda x, a: np.hstack([x, x]), "np.hstack([x, x])", "fnp.concatenate([x, y])",
               lambda x, a: fnp.concatenate([x, x]), np.hstack([X, X])),
    "copy": (lambda x, a: x.copy(), "x.copy()", "write x", lambda x, a: x, X),
    "flatten": (lambda x, a: x.flatten(), "x.flatten()", "write x.ravel()", lambda x, a: x.ravel(), X),
    "item": (lambda x, a: a.item(), "a.item()", "write x without .item()", lambda x, a: a, 0.5),
    "tolist": (lambda x, a: x.tolist(), "x.tolist()", "write x without .tolist()", lambda x, a: x, X),
    "clip": (lambda x, a: x.clip(0, 1), "x.clip(0, 1)", "write fnp.clip",
             lambda x, a: fnp.clip(x, 0, 1), X.clip(0, 1)),
    "argwhere": (lambda x, a: fnp.argwhere(x > a), "fnp.argwhere(x > a)", "fnp.filter(lambda i: mask[i], ",
                 lambda x, a: fnp.filter(lambda i: (x > a)[i], fnp.arange(x.shape[0])), np.array([2])),
    "where": (lambda x, a: fnp.where(x > 0), "fnp.where(x > 0)", "write fnp.where(test, a, b)",
              lambda x, a: fnp.where(x > 0, x, 0), np.maximum(X, 0)),
    "mask": (lambda x, a: x[x > 0], "x[x > 0]", "fnp.where(mask, x, 0)", lambda x, a: fnp.where(x > 0, x, 0),
             np.maximum(X, 0)),
    "keyword": (lambda x, a: fnp.sum(x, axes=0), "fnp.sum(x, axes=0)", "it is fnp.sum(x, axis=None, keepdims=False)",
                lambda x, a: fnp.sum(x, axis=0), X.sum()),
    "out": (lambda x, a: fnp.exp(x, out=x), "fnp.exp(x, out=x)", "it is fnp.exp(x)",
            lambda x, a: fnp.exp(x), np.exp(X)),
    "zeros": (lambda x, a: np.zeros(x.shape[0]) + x, "np.zeros(x.shape[0])", "fnp.zeros(n)",
              lambda x, a: fnp.zeros(x.shape[0]) + x, X),
    "len": (lambda x, a: fnp.zeros(len(x)), "len(x)", "write x.shape[0]", lambda x, a: fnp.zeros(x.shape[0]),
            np.zeros(3)),
    "list": (lambda x, a: fnp.array([a, x[0]]), "fnp.array([a, x[0]])", "fnp.stack", lambda x, a: fnp.stack([a, x[0]]),
             np.array([0.5, 0.5])),
    "returned list": (listed, "def listed", "fnp.stack", lambda x, a: fnp.stack([x, x]), np.array([X, X])),
    "constant": (lambda x, a: x + np.arange(3.0), "x + np.arange(3.0)", "x.sized(3)",
                 lambda x, a: x.sized(3) + np.arange(3.0), X + np.arange(3)),
    "gradient": (lambda x, a: fnp.grad(lambda v: v * 2)(x), "fnp.grad(lambda v: v * 2)(x)", "write fnp.sum of an array",
                 lambda x, a: fnp.grad(lambda v: fnp.sum(v * 2))(x), np.full(3, 2.0)),
    "text": (text, "def text", "traced functions compute with numbers", lambda x, a: x, X),
    "axis": (lambda x, a: fnp.sum(x, axis=1), "fnp.sum(x, axis=1)", "axis 1 of an array of rank 1",
             lambda x, a: fnp.sum(x, axis=0), X.sum()),
}  # fmt: skip


def typed(f):
    if not f.__annotations__:
        f.__annotations__ = {"x": f64["n"], "a": f64}
    return futad.function(backend="interp")(f)


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    wrong, line, hint, right, value = MISTAKES[name]
    with pytest.raises(TraceError) as e:
        typed(wrong).source()
    assert e.value.span.file == __file__ and line in e.value.source_line and hint in str(e.value)
    np.testing.assert_allclose(typed(right)(X, 0.5), value, rtol=1e-14)
    # No hint names a function that futad.numpy does not have.
    assert all(instead.has(n) for n in re.findall(r"fnp\.(\w+)", e.value.hint or ""))


def test_hints_name_what_there_is():
    for name in (*instead._OTHERS, *instead._LINALG, "sin", "mediam", "xyz"):
        hint = instead.instead(name)
        written = re.findall(r"(?<!no )fnp\.(\w+)", hint)
        assert all(instead.has(n) for n in written), hint


@pytest.mark.parametrize("name", instead._LINALG)
def test_linear_algebra_of_the_language(name):
    """What the hint for np.linalg's functions says is a program, which computes the same."""

    def f(x: f64["n", "n"]):
        return getattr(np.linalg, name)(x, x[0]) if name in ("solve", "lstsq") else getattr(np.linalg, name)(x)

    with pytest.raises(TraceError) as e:
        futad.function(f).source()
    text = re.fullmatch(r"the language has it: futad\.compile\('(.*)'\)", e.value.hint)[1]
    program = futad.compile(text, backend="interp")
    assert name in program.entries
    if name in ("inv", "det", "cholesky"):
        a = np.array([[2.0, 0.5], [0.5, 1.0]])
        np.testing.assert_allclose(program.entries[name](a), getattr(np.linalg, name)(a), rtol=1e-13)


def test_results_of_other_types_than_annotated():
    def rank(x: f64["n"]) -> f64:
        return x

    def kind(x: f64["n"]) -> i64["n"]:
        return x

    def size(x: f64["n"], y: f64["m"]) -> f64["m"]:
        return x

    for f, hint in ((rank, r"-> f64\['n'\]"), (kind, r"x.astype\(i64\)"), (size, r"x.sized\('n'\)")):
        with pytest.raises(futad.UsageError, match=f"def {f.__name__}(.|\n)*hint: .*{hint}"):
            futad.function(f).source()


def test_gradients_of_functions_of_python():
    with pytest.raises(futad.UsageError, match=r"f = futad\.function\(f\), with types on its parameters"):
        futad.grad(lambda x: x)

    def f(x: f64):
        return x * x

    assert futad.grad(futad.function(backend="interp")(f))(3.0) == 6
