"""The operations of futad.numpy against NumPy's, over shapes that one compilation serves; derivatives against central
differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import futad
import futad.numpy as fnp
from futad.errors import TraceError
from futad.numpy import bool_, f32, f64, i32, i64, u8, u64

BACKENDS = ["interp", "c", "multicore", "emulated"]
SHAPES = [(3, 4), (1, 1), (5, 2), (1, 6), (7, 1)]


class NumPy:
    """NumPy with SciPy's functions under the names of futad.numpy."""

    gammaln, erf, erfc, digamma = special.gammaln, special.erf, special.erfc, special.digamma
    logsumexp = staticmethod(lambda x, axis=None, keepdims=False: special.logsumexp(x, axis=axis, keepdims=keepdims))
    cummax = staticmethod(lambda x, axis=None: np.maximum.accumulate(x, axis))
    cummin = staticmethod(lambda x, axis=None: np.minimum.accumulate(x, axis))
    norm = staticmethod(np.linalg.norm)
    astype = staticmethod(lambda x, t: x.astype(t.dtype))
    sort = staticmethod(lambda x, axis=-1: np.sort(x, axis, kind="stable"))
    argsort = staticmethod(lambda x, axis=-1: np.argsort(x, axis, kind="stable"))

    def __getattr__(self, name):
        return getattr(np, name)


SMOOTH = {  # of x [n][d], y [n][d], row [d], a number
    "exp": lambda m, x, y, r, a: m.exp(x),
    "exp2": lambda m, x, y, r, a: m.exp2(x),
    "expm1": lambda m, x, y, r, a: m.expm1(x),
    "log": lambda m, x, y, r, a: m.log(x * x + 1),
    "log2": lambda m, x, y, r, a: m.log2(m.abs(x) + 1),
    "log10": lambda m, x, y, r, a: m.log10(x**2 + 0.5),
    "log1p": lambda m, x, y, r, a: m.log1p(x * x),
    "sqrt": lambda m, x, y, r, a: m.sqrt(x * x + a * a),
    "cbrt": lambda m, x, y, r, a: m.cbrt(x + 9),
    "sin cos tan": lambda m, x, y, r, a: m.sin(x) * m.cos(y) + m.tan(x / 4),
    "inverse": lambda m, x, y, r, a: m.arcsin(x / 9) + m.arccos(y / 9) * m.arctan(x),
    "hyperbolic": lambda m, x, y, r, a: m.sinh(x) / m.cosh(y) + m.tanh(x),
    "inverse hyperbolic": lambda m, x, y, r, a: m.arcsinh(x) + m.arccosh(y * y + 2) + m.arctanh(x / 9),
    "two": lambda m, x, y, r, a: m.arctan2(x, y) + m.hypot(x, y) + m.logaddexp(x, y),
    "gamma": lambda m, x, y, r, a: m.gammaln(x * x + 1) + m.erf(x) - m.erfc(y) + m.digamma(x * x + 1),
    "arithmetic": lambda m, x, y, r, a: (x - 2 * y) / (3 + y * y) - (-x) * a + 1 - +y,
    "powers": lambda m, x, y, r, a: x**2 + x**3 + (y * y + 1) ** 0.5 + 2.0**x + m.square(x) + m.reciprocal(y + 20),
    "chained powers": lambda m, x, y, r, a: -(x**2) ** 2 - (x - (y - a)) / (1 + x**2 / (2 + y**2)),
    "rows": lambda m, x, y, r, a: x * r + r / (2 + y * y) - a,
    "columns": lambda m, x, y, r, a: x - m.sum(y, axis=1, keepdims=True) * m.mean(x, axis=1)[:, None],
    "pairs": lambda m, x, y, r, a: (x[:, None] - y[None]) ** 2,
    "outer sums": lambda m, x, y, r, a: m.sum((x[:, None, :] - y) ** 2, axis=2),
    "where": lambda m, x, y, r, a: m.where(x > y, x * y, a),
    "where row": lambda m, x, y, r, a: m.where(r > 0, x, y) + m.where(a > 0, 1.0, 2.0),
    "clip": lambda m, x, y, r, a: m.clip(x, -0.5, 0.6) + m.clip(y, a, None) + m.clip(y, None, a),
    "extrema": lambda m, x, y, r, a: m.maximum(x, y) - m.minimum(x, r),
    "sum": lambda m, x, y, r, a: m.sum(x * y),
    "sum 0": lambda m, x, y, r, a: m.sum(x, axis=0) + x.sum(0),
    "sum -1": lambda m, x, y, r, a: m.sum(x, axis=-1, keepdims=True),
    "sum 01": lambda m, x, y, r, a: m.sum(x[None] * y[:, None], axis=(0, 2)),
    "prod": lambda m, x, y, r, a: m.prod(x, axis=1) + m.prod(r),
    "mean": lambda m, x, y, r, a: m.mean(x, axis=0) * m.mean(y) + x.mean(),
    "var": lambda m, x, y, r, a: m.var(x, axis=1) + m.std(y + m.arange(r.shape[0]) ** 2),
    "max": lambda m, x, y, r, a: m.max(x, axis=0) * m.min(y) + x.max() - r.min() + m.ptp(x, axis=1)[0],
    "logsumexp": lambda m, x, y, r, a: m.logsumexp(x, axis=1) - m.logsumexp(y),
    "logsumexp keeps": lambda m, x, y, r, a: x - m.logsumexp(x, axis=0, keepdims=True),
    "norm": lambda m, x, y, r, a: m.norm(x) + m.norm(y, axis=1) + m.norm(x, axis=1, keepdims=True),
    "cumsum": lambda m, x, y, r, a: m.cumsum(x, axis=0) + m.cumsum(y, axis=1),
    "cumprod": lambda m, x, y, r, a: m.cumprod(x, axis=1) + m.cumsum(r),
    "cummax": lambda m, x, y, r, a: m.cummax(x, axis=0) - m.cummin(y, axis=1),
    "matmul": lambda m, x, y, r, a: x @ y.T @ x,
    "matmul vectors": lambda m, x, y, r, a: (x @ r) @ y + r @ x.T @ y,
    "dot": lambda m, x, y, r, a: m.dot(r, r) * m.dot(x, r),
    "matmul of many": lambda m, x, y, r, a: m.stack([x, y]) @ m.stack([y, x]).transpose(0, 2, 1),
    "einsum": lambda m, x, y, r, a: m.einsum("ij,kj,j->ki", x, y, r),
    "einsum trace": lambda m, x, y, r, a: m.einsum("ij,ij", x, y) + m.einsum("i->", r),
    "outer": lambda m, x, y, r, a: m.outer(r, x[0]) + m.outer(y[0], r),
    "transpose": lambda m, x, y, r, a: x.T * 2 - m.transpose(y),
    "transpose of 3": lambda m, x, y, r, a: m.transpose(x[:, None] * y, (2, 0, 1)),
    "axes": lambda m, x, y, r, a: m.swapaxes(x[:, None] * y, 0, 2) + m.moveaxis(x[:, None] * y, 2, 0),
    "reshape": lambda m, x, y, r, a: m.reshape(x, -1) * y.reshape(-1) + m.ravel(x),
    "reshape back": lambda m, x, y, r, a: m.reshape(x * 2, (x.shape[1], x.shape[0])) + m.reshape(y, (x.shape[1], -1)),
    "concatenate": lambda m, x, y, r, a: m.concatenate([x, y, r[None]]),
    "concatenate 1": lambda m, x, y, r, a: m.concatenate([x, y], axis=1) + m.concatenate([r, r * 2]),
    "stack": lambda m, x, y, r, a: m.stack([x, y]) + m.stack([y, x], axis=0),
    "stack last": lambda m, x, y, r, a: m.stack([x, y, x * y], axis=-1) + m.stack([a, a + 1, a * 2]),
    "vstack": lambda m, x, y, r, a: m.vstack([x, r]),
    "flip": lambda m, x, y, r, a: m.flip(x) + m.flip(y, axis=1) + r[::-1],
    "flip all": lambda m, x, y, r, a: m.flip(x[:, None] * y, (0, -1)) + m.flip(x[:, None] + y),
    "roll": lambda m, x, y, r, a: m.roll(x, 1, axis=0) - m.roll(y, -1, axis=1) + m.roll(r, 2),
    "roll all": lambda m, x, y, r, a: m.roll(x, 2) * m.roll(x[:, None] * y, -5)[0],
    "index": lambda m, x, y, r, a: x[0] * y[-1] + x[0, 0] + r[-1],
    "slices": lambda m, x, y, r, a: x[:, 1:] * x[:, :-1] + y[:1, 1:],
    "strides": lambda m, x, y, r, a: x[::2] * 2 + y[::2, ::-1],
    "new axes": lambda m, x, y, r, a: x[:, None, :] + m.expand_dims(y, 0) + r[None, None],
    "squeeze": lambda m, x, y, r, a: m.squeeze(x[:1], 0) + m.squeeze(m.sum(y, axis=0, keepdims=True), axis=0),
    "ellipsis": lambda m, x, y, r, a: x[..., 0] + y[..., -1],
    "gather": lambda m, x, y, r, a: x[m.argmax(y, axis=0)] + m.take(x, m.argmin(y, axis=0), axis=0),
    "take": lambda m, x, y, r, a: m.take(x, m.argmin(y, axis=1)) * m.take(r, 0) + m.take(x, m.argmax(x)),
    "take 1": lambda m, x, y, r, a: m.take(x[:, None] * y, m.argmin(y, 1, keepdims=True), axis=-1) * m.take(x, 0, 1)[0],
    "gather pairs": lambda m, x, y, r, a: x[m.argmax(y, axis=0), m.arange(r.shape[0])],
    "sort": lambda m, x, y, r, a: m.sort(x) + m.sort(y, axis=0) + m.sort(r),
    "by order": lambda m, x, y, r, a: r[m.argsort(-r)],
    "diff": lambda m, x, y, r, a: m.diff(x) * 2,
    "diff 0": lambda m, x, y, r, a: m.diff(x, axis=0) + m.diff(y, 1, 0) + m.sum(m.diff(m.concatenate([r, r, r]), 2)),
    "full": lambda m, x, y, r, a: x + m.zeros(x.shape) + m.full(r.shape, a) * m.ones(r.shape) + m.ones_like(x),
    "like": lambda m, x, y, r, a: m.zeros_like(x) + m.full_like(y, 2.0) * x,
    "broadcast": lambda m, x, y, r, a: m.broadcast_to(r, x.shape) * y + m.broadcast_to(a, r.shape),
    "repeat": lambda m, x, y, r, a: m.repeat(r, 3)[2] + m.repeat(x, 2) * m.repeat(y, 2),
    "repeat 1": lambda m, x, y, r, a: m.repeat(x, 2, axis=1)[:, :1] + m.repeat(y, 3, 0)[1] + m.repeat(a, 2)[0],
    "linspace": lambda m, x, y, r, a: m.linspace(a, 2.0, 5) + m.linspace(0, 1, 1),
    "range": lambda m, x, y, r, a: r * m.arange(r.shape[0]) + m.arange(2, 11, 3).sum() + m.arange(5, 0, -2).sum(),
    "triangles": lambda m, x, y, r, a: m.tril(x @ x.T) - m.triu(x.T @ x).sum() + m.trace(x @ y.T),
    "diagonals": lambda m, x, y, r, a: m.diag(r) * 2 + m.diag(x.T @ y) + m.eye(3).sum(),
    "constants": lambda m, x, y, r, a: x * 2 + np.float64(0.5) + np.arange(3.0)[1] + m.sum(np.eye(2) * a),
}


def named(n):
    return n.replace(" ", "_").replace("-", "m")


@futad.function(backend="interp")
def smooth(x: f64["n", "d"], y: f64["n", "d"], r: f64["d"], a: f64):
    return {named(n): fnp.asarray(f(fnp, x, y, r, a)) for n, f in SMOOTH.items()}


def data(shape, seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, *shape))
    return x, y, rng.normal(size=shape[1]), np.float64(rng.normal())


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_values_of_floats(shape):
    args = data(shape, sum(shape))
    made = smooth(*args)
    assert len(made) == len(SMOOTH) > 70
    for name, f in SMOOTH.items():
        expected = f(NumPy(), *args)
        assert made[named(name)].shape == np.shape(expected), name
        np.testing.assert_allclose(made[named(name)], expected, rtol=1e-11, atol=1e-11, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_backends_agree(backend):
    program = futad.compile(smooth.source(), backend=backend)
    args = data((4, 3), 7)
    expected = smooth(*args)
    made = program.smooth(*args)
    for name, value in expected.items():
        np.testing.assert_allclose(made[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


PARTS = [list(SMOOTH)[i::6] for i in range(6)]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_derivatives_of_floats(part):
    """The Jacobian of weighted sums of all results, by forward and reverse mode, against central differences."""

    @futad.function(backend="c")
    def sums(x: f64["n", "d"], y: f64["n", "d"], r: f64["d"], a: f64):
        made = [fnp.asarray(SMOOTH[n](fnp, x, y, r, a)) for n in PARTS[part]]
        flat = [fnp.ravel(v) for v in made]
        return fnp.stack([fnp.sum(v * fnp.sin(1.0 + fnp.arange(v.shape[0]))) for v in flat])

    args = data((3, 4), 3)
    reverse = futad.jacrev(sums, argnums=(0, 1, 2, 3))(*args)
    forward = futad.jacfwd(sums, argnums=(0, 1, 2, 3))(*args)
    step = 1e-6
    for k, (back, along) in enumerate(zip(reverse, forward, strict=True)):
        np.testing.assert_allclose(back, along, rtol=1e-9, atol=1e-9)
        flat = np.asarray(args[k], float)
        for place in np.ndindex(flat.shape):
            high, low = [[*args[:k], moved(flat, place, d), *args[k + 1 :]] for d in (step, -step)]
            difference = (sums(*high) - sums(*low)) / (2 * step)
            for i, name in enumerate(PARTS[part]):
                np.testing.assert_allclose(back[(i, *place)], difference[i], rtol=2e-6, atol=2e-6, err_msg=name)


def moved(x, place, by):
    out = x.copy()
    out[place] += by
    return out[()]


WHOLE = {  # of i, j [n] of i64, k [n] of i32, p, q [n] of bool, x [n] of f64, s [n] of f32
    "arithmetic": lambda m, i, j, k, p, q, x, s: i * 3 - j + (-k),
    "divide": lambda m, i, j, k, p, q, x, s: i / 3 + i // 2 + j % 3 + (-7) // m.maximum(m.abs(j), 1),
    "powers": lambda m, i, j, k, p, q, x, s: i**2 + 2 ** m.abs(j),
    "bits": lambda m, i, j, k, p, q, x, s: (i & 6) | (j ^ 3) + (~i) + (i << 2) - (j >> 1),
    "bools": lambda m, i, j, k, p, q, x, s: (p & q) | ~p ^ q,
    "logical": lambda m, i, j, k, p, q, x, s: m.logical_and(i, p) | m.logical_or(q, j) & m.logical_not(i),
    "compare": lambda m, i, j, k, p, q, x, s: (i < j) | (i <= 3) & (j > 2) ^ (i >= k) | (x == 0.5) & (s != 1),
    "mixed": lambda m, i, j, k, p, q, x, s: i * x + k * s + p * 2 + q,
    "weak": lambda m, i, j, k, p, q, x, s: s * 0.1 + 1,
    "weak ints": lambda m, i, j, k, p, q, x, s: k * 2 + True,
    "i32 and f32": lambda m, i, j, k, p, q, x, s: k + s,
    "float of int": lambda m, i, j, k, p, q, x, s: m.exp(i * 0) + m.sqrt(m.abs(j)),
    "round": lambda m, i, j, k, p, q, x, s: m.floor(x) + m.ceil(x) * m.rint(x * 2) + m.trunc(x) + m.sign(x) * m.sign(i),
    "float division": lambda m, i, j, k, p, q, x, s: x // 0.3 + x % 0.7 - x % -0.7,
    "where": lambda m, i, j, k, p, q, x, s: m.where(p, i, j) + m.where(i > 2, 1, 0),
    "where types": lambda m, i, j, k, p, q, x, s: m.where(q, s, 0.5),
    "tests": lambda m, i, j, k, p, q, x, s: m.isnan(x) | m.isinf(s / (s * 0 + 1)) | m.isfinite(x),
    "any": lambda m, i, j, k, p, q, x, s: m.any(p) ^ m.all(q | (i > -99)) ^ m.any(i),
    "sum of bools": lambda m, i, j, k, p, q, x, s: m.sum(p) + m.sum(k) + m.count_nonzero(i) + m.mean(q),
    "prod": lambda m, i, j, k, p, q, x, s: m.prod(i % 3 + 1) + m.max(k) - m.min(i),
    "argmax": lambda m, i, j, k, p, q, x, s: m.argmax(i) + 100 * m.argmin(j % 3) + 10000 * m.argmax(x),
    "cumsum": lambda m, i, j, k, p, q, x, s: m.cumsum(k) + m.cumsum(p) + m.cummax(i) - m.cummin(j),
    "sort": lambda m, i, j, k, p, q, x, s: m.sort(i) * m.sort(k) + m.sort(p),
    "argsort": lambda m, i, j, k, p, q, x, s: m.argsort(i % 3) + m.argsort(-k) + m.argsort(s) * m.argsort(q),
    "cast": lambda m, i, j, k, p, q, x, s: m.astype(x * 3, i64) + m.astype(p, i64) + i.astype(i32.dtype),
    "cast to bool": lambda m, i, j, k, p, q, x, s: m.astype(i, bool_),
    "cast down": lambda m, i, j, k, p, q, x, s: m.astype(x, f32) + s,
    "indexed": lambda m, i, j, k, p, q, x, s: x[m.abs(i) % x.shape[0]] + x[np.array([0, 0])[1]] + x[[0, -1, 0]].sum(),
    "indexed by 2": lambda m, i, j, k, p, q, x, s: x[(m.abs(i)[:, None] + m.abs(j)) % x.shape[0]],
    "sizes": lambda m, i, j, k, p, q, x, s: m.zeros(x.shape[0]) + x.shape[0] * 2,
}  # fmt: skip


@futad.function(backend="interp")
def whole(i: i64["n"], j: i64["n"], k: i32["n"], p: bool_["n"], q: bool_["n"], x: f64["n"], s: f32["n"]):
    return {named(n): fnp.asarray(f(fnp, i, j, k, p, q, x, s)) for n, f in WHOLE.items()}


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_values_and_types_of_integers_and_bools(n):
    rng = np.random.default_rng(n)
    i, j = rng.integers(-9, 9, (2, n))
    p, q = rng.random((2, n)) < 0.5
    k, x, s = rng.integers(-9, 9, n), rng.normal(size=n).round(1), rng.normal(size=n)
    args = (i, j, k.astype(np.int32), p, q, x, s.astype(np.float32))
    made = whole(*args)
    for name, f in WHOLE.items():
        expected = np.asarray(f(NumPy(), *args))
        value = made[named(name)]
        assert (value.dtype, value.shape) == (expected.dtype, expected.shape), name
        tolerance = 1e-6 if expected.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance, err_msg=name)


@futad.function(backend="c")
def edges(x: f64["n"], i: i64["n"]):
    return {
        "sum": fnp.sum(x), "prod": fnp.prod(x), "max": fnp.max(x), "min": fnp.min(i), "argmax": fnp.argmax(x),
        "argmin": fnp.argmin(x), "sort": fnp.sort(x), "argsort": fnp.argsort(x), "logsumexp": fnp.logsumexp(x),
        "cumsum": fnp.cumsum(x), "any": fnp.any(x > 0), "reverse": x[::-1], "every": x[::3], "all": fnp.all(x > 0),
    }  # fmt: skip


@pytest.mark.slow
def test_no_elements():
    made = edges(np.zeros(0), np.zeros(0, np.int64))
    empty = {n for n, v in made.items() if np.shape(v) == (0,)}
    assert empty == {"sort", "argsort", "cumsum", "reverse", "every"}
    assert (made["sum"], made["prod"], made["max"], made["argmax"]) == (0, 1, -np.inf, -1)
    assert made["min"] == np.iinfo(np.int64).max and made["logsumexp"] == -np.inf
    assert not made["any"] and made["all"]


def test_ties_infinities_and_what_is_no_number():
    x = np.array([np.nan, 2.0, -0.0, np.inf, 0.0, 2.0, -np.inf, np.inf, -1.0])
    made = edges(x, np.zeros(9, np.int64))
    np.testing.assert_array_equal(made["argsort"], np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(made["sort"], np.sort(x))
    assert (made["max"], made["argmax"], made["argmin"]) == (np.inf, np.nanargmax(x), np.nanargmin(x))
    assert np.isnan(made["sum"]) and np.isnan(made["logsumexp"])
    for y in ([np.inf, 1.0], [-np.inf, -np.inf], [-np.inf, 3.0], [1000.0, 1000.0]):
        assert edges(np.array(y), np.zeros(2, np.int64))["logsumexp"] == special.logsumexp(y)


@pytest.mark.slow
def test_gradient_of_sort_and_extrema_at_ties():
    @futad.function(backend="c")
    def ranked(x: f64["n"]) -> f64:
        return fnp.sum(fnp.sort(x) * fnp.arange(x.shape[0])) + 10 * fnp.max(x)

    np.testing.assert_array_equal(futad.grad(ranked)(np.array([2.0, 1.0, 2.0, 0.0])), [12.0, 1.0, 3.0, 0.0])


def test_slices_that_run_backwards():
    """Their sizes are told where results are, as those of steps are."""

    @futad.function(backend="interp")
    def f(x: f64["n"], y: f64["n", 3]):
        return x[4:1:-1], x[3::-1], x[:2:-1], x[2:2:-1], x[::-1], x[::-2], y[3:0:-1, ::-1], y[1:, 1::-1]

    x, y = np.arange(6.0), np.arange(18.0).reshape(6, 3)
    want = x[4:1:-1], x[3::-1], x[:2:-1], x[2:2:-1], x[::-1], x[::-2], y[3:0:-1, ::-1], y[1:, 1::-1]
    for got, w in zip(f(x, y), want, strict=True):
        assert np.array_equal(got, w)


def test_quotients_and_powers_of_unsigned_integers():
    def g(m, a, b, i):
        return a // 3, a**2, 2**a % 5, b // 3, b**2, b // b, b | 1, a & 3, i & -1, a // i, a % 7

    @futad.function(backend="interp")
    def f(a: u8["n"], b: u64["n"], i: i32["n"]):
        return g(fnp, a, b, i)

    a, b = np.array([250, 3, 7, 0], "u1"), np.array([2**63 + 5, 3, 7, 2**64 - 1], "u8")
    i = np.array([-3, 1, 7, 5], "i4")
    for got, w in zip(f(a, b, i), g(np, a, b, i), strict=True):
        assert got.dtype == w.dtype and np.array_equal(got, w)


def test_arithmetic_of_bools():
    def g(m, p, q):
        one = p | True
        numbers = p // one, q % one, p**q, p << q, p + 1, q * 0.5, p < q
        return p + q, p * q, m.maximum(p, q), m.minimum(p, q), p @ q, m.outer(p, q), *numbers

    @futad.function(backend="interp")
    def f(p: bool_["n"], q: bool_["n"]):
        return g(fnp, p, q)

    p, q = np.array([True, False, True, False]), np.array([True, True, False, False])
    for got, w in zip(f(p, q), g(np, p, q), strict=True):
        assert got.dtype == w.dtype and np.array_equal(got, w)
    with pytest.raises(TraceError, match="there is no - of bools"):
        futad.function(backend="interp")(minus)(p)


def minus(p: bool_["n"]):
    return p - p


def test_a_number_in_several_rows():
    @futad.function(backend="interp")
    def f(x: f64["n", 2], at: i64["k"]):
        return x.at[at].set(7.0)

    x = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(f(x, np.array([2, 0])), [[7, 7], [2, 3], [7, 7]])


def test_number_of_elements():
    @futad.function(backend="interp")
    def f(x: f64["n", 3], k: i64):
        return x.size, fnp.sum(x) / x.size, k.size, x[0].size, fnp.zeros(x.size), x.reshape(x.size)

    x = np.arange(6.0).reshape(2, 3)
    for got, w in zip(f(x, 5), (6, 2.5, 1, 3, np.zeros(6), x.ravel()), strict=True):
        assert np.array_equal(got, w)
