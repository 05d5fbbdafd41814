"""futad/linalg beside NumPy and SciPy; derivatives of all orders beside differences, and each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import futad
from tests.support.needs import needs_cc, needs_cxx

scipy_linalg = pytest.importorskip("scipy.linalg")

# What each function is called with: symmetric positive definite a, triangular l and u, regular g, symmetric s, tall r.
MATRICES = {"a": "[n][n]f64", "l": "[n][n]f64", "u": "[n][n]f64", "g": "[n][n]f64", "s": "[n][n]f64", "r": "[n][k]f64"}
TYPES = MATRICES | {"b": "[n]f64", "bs": "[n][3]f64"}


def triangular(lower: bool, trans: int, m: Any, b: Any) -> Any:
    return scipy_linalg.solve_triangular(m, b, lower=lower, trans=trans) if len(m) else b


def least_squares(r: Any, b: Any) -> Any:
    return np.linalg.lstsq(r, b, rcond=None)[0] if r.size else np.zeros(r.shape[1])


SOLVES: dict[str, tuple[str, str, Callable[..., Any]]] = {
    f"solve_{side}{'_t' * trans}{many}": (side[0], right, partial(triangular, side == "lower", trans))
    for side in ("lower", "upper")
    for trans in (0, 1)
    for many, right in (("", "b"), ("_many", "bs"))
}
FUNCTIONS: dict[str, tuple[tuple[str, ...], str, Callable[..., Any]]] = {
    "cholesky": (("a",), "flatten (cholesky a)", np.linalg.cholesky),
    "cholesky_solve": (("a", "b"), "cholesky_solve (cholesky a) b", np.linalg.solve),
    "cholesky_solve_many": (("a", "bs"), "flatten (cholesky_solve_many (cholesky a) bs)", np.linalg.solve),
    "cholesky_logdet": (("a",), "[cholesky_logdet (cholesky a)]", lambda a: np.linalg.slogdet(a)[1]),
    **{f: ((m, b), f"{f} {m} b" if b == "b" else f"flatten ({f} {m} bs)", g) for f, (m, b, g) in SOLVES.items()},
    "solve": (("g", "b"), "solve g b", np.linalg.solve),
    "solve_many": (("g", "bs"), "flatten (solve_many g bs)", np.linalg.solve),
    "inv": (("g",), "flatten (inv g)", np.linalg.inv),
    "det": (("g",), "[det (map (map (/ 1.5)) g)]", lambda g: np.linalg.det(g / 1.5)),
    "slogdet": (("g",), "let (s, l) = slogdet g in [s, l]", lambda g: np.array(np.linalg.slogdet(g))),
    "qr": (
        ("r",),  # r's diagonal made positive, as signs are anybody's choice
        "let (q, r) = qr r let s = map f64.sgn (diagonal r) "
        "in flatten (map (map2 (*) s) q) ++ flatten (map2 (\\s row -> map (* s) row) s r)",
        lambda r: positive(*np.linalg.qr(r)),
    ),
    "lstsq": (("r", "b"), "lstsq r b", least_squares),
    "eigh": (
        ("s",),
        "let (w, v) = eigh s in w ++ flatten (map (map (\\x -> x * x)) v)",
        lambda s: joined(np.linalg.eigh(s)[0], np.linalg.eigh(s)[1] ** 2),
    ),
    "svd": (
        ("r",),
        "let (u, s, vt) = svd r in s ++ flatten (map (map (\\x -> x * x)) u) ++ flatten (map (map (\\x -> x * x)) vt)",
        lambda r: joined(*[np.linalg.svd(r, False)[k] ** (1 if k == 1 else 2) for k in (1, 0, 2)]),
    ),
}


def joined(*arrays: Any) -> Any:
    return np.concatenate([np.ravel(x) for x in arrays])


def positive(q: Any, r: Any) -> Any:
    s = np.sign(np.diag(r))
    return joined(q * s, s[:, None] * r)


def program(name: str, order: int) -> str:
    """Value; derivatives of a sum of sines of the value's elements: forward, reverse; both again of the latter."""
    args, exp, _ = FUNCTIONS[name]
    sizes = "[n][k]" if "r" in args else "[n]"
    types = [TYPES[a] for a in args]
    params = " ".join(f"({a}: {t})" for a, t in zip(args, types, strict=True))
    moves = " ".join(f"(d{a}: {t})" for a, t in zip(args, types, strict=True))
    whole, at, along = (f"({', '.join(x)})" for x in (types, args, ["d" + a for a in args]))
    text = f"""
import "futad/linalg"
def of {sizes} {params} = {exp}
def loss {sizes} ({at}: {whole}): f64 =
  let y = of {" ".join(args)}
  in f64.sum (map2 (\\x i -> f64.sin (x * (1 + 0.1 * f64.i64 (i % 17)))) y (indices y))
"""
    entries = f"""
entry value {sizes} {params} = of {" ".join(args)}
---
entry first {sizes} {params} {moves} = (loss {at}, jvp loss {at} {along}, vjp loss {at} 1)
---
entry second {sizes} {params} {moves}: ({whole}, {whole}) =
  (jvp (\\z -> vjp loss z 1) {at} {along}, vjp (\\z -> vjp loss z 1) {at} {along})
"""
    return text + entries.split("---")[order]


@cache
def compiled(name: str, backend: str, order: int = 0) -> Any:
    return futad.compile(program(name, order), backend=backend)


def arguments(name: str, n: int) -> tuple[list[Any], list[Any]]:
    """Of size n, well conditioned, and directions."""
    r = np.random.default_rng(n)
    m = r.normal(size=(n, n)) / max(n, 1) ** 0.5
    a = m @ m.T + np.eye(n)
    made = {
        "a": a, "l": np.tril(m) + 2 * np.eye(n), "u": np.triu(m) + 2 * np.eye(n), "g": m + 1.5 * np.eye(n),
        "s": m + m.T, "r": r.normal(size=(n, (n + 1) // 2)), "b": r.normal(size=n), "bs": r.normal(size=(n, 3)),
    }  # fmt: skip
    xs = [made[a] for a in FUNCTIONS[name][0]]
    return xs, [r.normal(size=x.shape) for x in xs]


def parts(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def close(x: Any, y: Any, tolerance: float) -> None:
    for a, b in zip(parts(x), parts(y), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def check_value(name: str, n: int, backend: str) -> None:
    xs, _ = arguments(name, n)
    expected = FUNCTIONS[name][2](*xs) if n else np.zeros(0)
    got = compiled(name, backend).value(*xs)
    if n:
        close(got, np.ravel(expected), 1e-10)
    else:
        assert np.all(np.isfinite(got))


def check_derivatives(name: str, n: int, backend: str, order: int) -> None:
    """Forward mode beside differences, reverse mode beside forward mode; the same of the gradient."""
    xs, ds = arguments(name, n)
    first, h = compiled(name, backend, 1).first, 1e-5

    def moved(by: float) -> list[Any]:
        return [x + by * d for x, d in zip(xs, ds, strict=True)]

    def slope(f: Callable[[list[Any]], Any]) -> Any:  # of fourth order
        near = f(moved(h)) - f(moved(-h))
        return (8 * near - (f(moved(2 * h)) - f(moved(-2 * h)))) / (12 * h)

    _, forward, gradient = first(*xs, *ds)
    close(forward, slope(lambda z: first(*z, *ds)[0]), 1e-8)
    close(sum((g * d).sum() for g, d in zip(parts(gradient), ds, strict=True)), forward, 1e-11)
    if order == 2:
        by_forward, by_reverse = compiled(name, backend, 2).second(*xs, *ds)
        close(by_reverse, by_forward, 1e-10)
        for k, g in enumerate(parts(by_forward)):
            close(g, slope(lambda z, k=k: parts(first(*z, *ds)[2])[k]), 1e-7)


FEW = ("solve_lower", "lstsq", "eigh")


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(f, marks=[] if f in FEW else pytest.mark.slow) for f in FUNCTIONS])
def test_values(name):
    for n in (0, 1, 5, 40):
        check_value(name, n, "interp")


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_first_and_second_order(name):
    for n in (1, 5, 11):
        check_derivatives(name, n, "interp", 2)


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_derivatives_compiled(name, backend):
    for n in (0, 1, 5, 70):
        check_value(name, n, backend)
        check_derivatives(name, n, backend, 1)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ["cholesky", "solve", "lstsq", "eigh"])
def test_values_on_a_device(name):
    for n in (1, 5, 40):
        check_value(name, n, "emulated")


EDGES = """
import "futad/linalg"
module linalg32 = mk_linalg f32
entry factor [n] (a: [n][n]f64) = cholesky a
entry solved [n] (a: [n][n]f64) (b: [n]f64) = solve a b
entry signed [n] (a: [n][n]f64) = let (s, l) = slogdet a in (det a, s, l)
entry spectrum [n] (a: [n][n]f64) = eigh a
entry values [m][n] (a: [m][n]f64) = svd a
entry triangle [m][n] (a: [m][n]f64) = qr a
entry trace_of_eigenvalues [n] (a: [n][n]f64) = vjp (\\a -> f64.sum (eigh a).0) a 1
entry batch [k][n] (a: [k][n][n]f64) (b: [k][n]f64) = map2 (\\a b -> cholesky_solve (cholesky a) b) a b
entry batch_slope [k][n] (a: [k][n][n]f64) (b: [k][n]f64) =
  vjp (\\a -> f64.sum (map2 (\\a b -> f64.sum (cholesky_solve (cholesky a) b)) a b)) a 1
entry single [n] (a: [n][n]f32) (b: [n]f32) = linalg32.solve a b
"""


@cache
def edges() -> Any:
    return futad.compile(EDGES, backend="interp")


@pytest.mark.slow
def test_a_matrix_that_is_not_positive_definite_has_nan_from_there_on():
    made = edges().factor(np.array([[4.0, 0, 0], [2, -1, 0], [1, 1, 5]]))
    np.testing.assert_array_equal(made[:, 0], [2, 1, 0.5])
    assert np.isnan(made[[1, 2, 2], [1, 1, 2]]).all() and not made[[0, 0, 1], [1, 2, 2]].any()
    assert np.isnan(edges().factor(np.zeros((1, 1)))).all()
    assert np.isnan(edges().factor(np.full((40, 40), np.nan))[39, 39])


def test_singular_matrices():
    a = np.array([[1.0, 2], [2, 4]])
    assert not np.isfinite(edges().solved(a, np.ones(2))).all()
    assert edges().signed(a) == (0, 0, -np.inf)
    assert edges().signed(np.array([[0.0, 1], [1, 0]])) == (-1, -1, 0)
    assert edges().signed(np.zeros((0, 0))) == (1, 1, 0)


def test_rows_change_places():
    a = np.array([[0.0, 2, 1], [1, 0, 0], [3, 0, 1]])
    np.testing.assert_allclose(edges().solved(a, np.arange(3.0)), np.linalg.solve(a, np.arange(3.0)), rtol=1e-14)


def test_equal_eigenvalues_and_nan():
    w, v = edges().spectrum(np.eye(4))
    np.testing.assert_array_equal(w, np.ones(4))
    np.testing.assert_allclose(v @ v.T, np.eye(4))
    np.testing.assert_array_equal(edges().trace_of_eigenvalues(np.eye(3)), np.eye(3))
    assert np.isnan(edges().spectrum(np.full((3, 3), np.nan))[0]).all()
    w, v = edges().spectrum(np.diag([3.0, 1, 2]))
    np.testing.assert_array_equal(w, [1, 2, 3])
    np.testing.assert_array_equal(np.abs(v), np.eye(3)[:, [1, 2, 0]])


def test_batches_and_other_floats():
    r = np.random.default_rng(0)
    m = r.normal(size=(3, 5, 5))
    a, b = m @ m.transpose(0, 2, 1) + np.eye(5), r.normal(size=(3, 5))
    inverse = np.linalg.inv(a)
    np.testing.assert_allclose(edges().batch(a, b), np.einsum("kij,kj->ki", inverse, b), rtol=1e-9)
    slope = -np.einsum("ki,kj->kij", inverse.sum(1), np.einsum("kij,kj->ki", inverse, b))
    made = edges().batch_slope(a, b)  # of the lower triangle
    np.testing.assert_allclose(made + made.transpose(0, 2, 1), slope + slope.transpose(0, 2, 1), rtol=1e-8, atol=1e-10)
    x = edges().single(a[0].astype(np.float32), b[0].astype(np.float32))
    assert x.dtype == np.float32
    np.testing.assert_allclose(x, np.linalg.solve(a[0], b[0]), rtol=1e-3)


def test_singular_values_of_little_rank_and_nan():
    """Left vectors are orthonormal even where singular values are 0, and their product is the matrix."""
    r = np.random.default_rng(2)
    low = r.normal(size=(6, 2)) @ r.normal(size=(2, 4))
    with_zeros = np.zeros((5, 3))
    with_zeros[1, 2] = -2
    for a in (low, with_zeros, np.zeros((3, 3)), np.diag([1e-5, 1.0, 1e100])):
        u, s, vt = edges().values(a)
        np.testing.assert_allclose(u * s @ vt, a, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(s, np.linalg.svd(a)[1], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(u.T @ u, np.eye(len(s)), atol=1e-14)
        np.testing.assert_allclose(vt @ vt.T, np.eye(len(s)), atol=1e-14)
    assert np.isnan(edges().values(np.full((3, 2), np.nan))[1]).all()
    with pytest.raises(futad.errors.Error, match="Assertion is false"):
        edges().values(np.ones((2, 3)))


def test_factors_have_the_signs_of_lapack():
    r = np.random.default_rng(3)
    some = (r.normal(size=(4, 4)), r.normal(size=(5, 3)), np.triu(r.normal(size=(3, 3))), np.array([[0.0, 1], [2, 3]]))
    for a in some:
        for mine, theirs in zip(edges().triangle(a), np.linalg.qr(a), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-14)
