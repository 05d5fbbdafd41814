"""Derivatives of recursive functions: gradients, tangents, Hessian-vector products against Python and differences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import futad
from futad.core.callgraph import recursive
from futad.core.interp import Interpreter
from futad.errors import BoundsError, TooDeep, UnsupportedError
from futad.pipeline import compile_program
from futad.source import compile_text
from tests.support.needs import needs_cc
from tests.support.slow import slow_but

pytestmark = needs_cc
BACKENDS = ["interp", "c", "multicore"]

ENTRIES = """
entry value [n] (xs: [n]f64): f64 = f xs
entry gradient [n] (xs: [n]f64): [n]f64 = vjp f xs 1
entry tangent [n] (xs: [n]f64) (vs: [n]f64): f64 = jvp f xs vs
entry forward_of_reverse [n] (xs: [n]f64) (vs: [n]f64): [n]f64 = jvp (\\xs -> vjp f xs 1) xs vs
entry reverse_of_reverse [n] (xs: [n]f64) (vs: [n]f64): [n]f64 = vjp (\\xs -> vjp f xs 1) xs vs
entry reverse_of_forward [n] (xs: [n]f64) (vs: [n]f64): [n]f64 = vjp (\\xs -> jvp f xs vs) xs 1
entry jacobian [n] (xs: [n]f64): [2][n]f64 = mjp (\\xs -> [f xs, 2 * f xs]) xs [[1, 0], [0, 1]]
"""

TREE = """
def tree [n] (xs: [n]f64): f64 =
  if n == 0 then 0 else if n == 1 then f64.sin xs[0]
  else let h = n / 2 in 0.5 * tree (take h xs) * tree (drop h xs) + tree (drop h xs)
def f [n] (xs: [n]f64): f64 = tree xs
"""


def tree(xs):
    n = len(xs)
    if n < 2:
        return np.sin(xs).sum()
    return 0.5 * tree(xs[: n // 2]) * tree(xs[n // 2 :]) + tree(xs[n // 2 :])


PLACES = """
def sum (xs: []f64) (a: i64) (b: i64): f64 =
  if b <= a then 0 else if b - a == 1 then xs[a] ** 3 else let m = (a + b) / 2 in sum xs a m + sum xs m b
def f [n] (xs: [n]f64): f64 = f64.exp (0.1 * sum xs 0 n)
"""

SIMPSON = """
def simpson (g: f64 -> f64) (a: f64) (b: f64) (ga: f64) (gm: f64) (gb: f64) (whole: f64) (d: i64): f64 =
  let m = (a + b) / 2
  let gl = g ((a + m) / 2)
  let gr = g ((m + b) / 2)
  let left = (m - a) / 6 * (ga + 4 * gl + gm)
  let right = (b - m) / 6 * (gm + 4 * gr + gb)
  in if d <= 0 || f64.abs (left + right - whole) < 1e-4 then left + right + (left + right - whole) / 15
     else simpson g a m ga gl gm left (d - 1) + simpson g m b gm gr gb right (d - 1)
def quadrature (g: f64 -> f64) (a: f64) (b: f64): f64 =
  let (ga, gm, gb) = (g a, g ((a + b) / 2), g b) in simpson g a b ga gm gb ((b - a) / 6 * (ga + 4 * gm + gb)) 20
def f [n] (xs: [n]f64): f64 =
  quadrature (\\t -> f64.sum (map2 (\\x i -> x * f64.sin (x * t * f64.i64 i)) xs (iota n))) 0 2
"""


def quadrature(xs):
    def g(t):
        return (xs * np.sin(xs * t * np.arange(len(xs)))).sum()

    def simpson(a, b, ga, gm, gb, whole, d):
        m = (a + b) / 2
        gl, gr = g((a + m) / 2), g((m + b) / 2)
        left, right = (m - a) / 6 * (ga + 4 * gl + gm), (b - m) / 6 * (gm + 4 * gr + gb)
        if d <= 0 or abs(left + right - whole) < 1e-4:
            return left + right + (left + right - whole) / 15
        return simpson(a, m, ga, gl, gm, left, d - 1) + simpson(m, b, gm, gr, gb, right, d - 1)

    ga, gm, gb = g(0.0), g(1.0), g(2.0)
    return simpson(0.0, 2.0, ga, gm, gb, 2 / 6 * (ga + 4 * gm + gb), 20)


SORT = """
def merge [n][m] (a: [n]f64) (b: [m]f64): [n + m]f64 =
  (loop (r, i, j) = (replicate (n + m) 0.0, 0, 0) for k < n + m do
     if j >= m || (i < n && a[i] <= b[j]) then (r with [k] = a[i], i + 1, j) else (r with [k] = b[j], i, j + 1)).0
def msort [n] (xs: [n]f64): [n]f64 =
  if n <= 1 then xs else let h = n / 2 in merge (msort (take h xs)) (msort (drop h xs)) :> [n]f64
def f [n] (xs: [n]f64): f64 = f64.sum (map2 (\\x i -> x * x * f64.i64 (i + 1)) (msort xs) (iota n))
"""

QUICK = """
def quick [n] (xs: [n]f64): []f64 =
  if n <= 1 then xs else let (a, b) = partition (<= xs[0]) (drop 1 xs) in quick a ++ [xs[0]] ++ quick b
def f [n] (xs: [n]f64): f64 = let ys = quick xs in f64.sum (map2 (\\x i -> x * x * f64.i64 (i + 1)) ys (indices ys))
"""


def ranked(xs):
    return (np.sort(xs) ** 2 * np.arange(1, len(xs) + 1)).sum()


FILTER = """
def filtered [n] (xs: [n]f64) (i: i64): (f64, f64) =
  if i == 0 then (0, 1)
  else let (y, e) = filtered xs (i - 1) in (0.9 * y + f64.tanh (xs[i - 1] * e), e * 0.99 + 0.1 * y)
def f [n] (xs: [n]f64): f64 = let (y, e) = filtered xs n in y * e
"""


def filtered(xs):
    y, e = 0.0, 1.0
    for x in xs:
        y, e = 0.9 * y + np.tanh(x * e), e * 0.99 + 0.1 * y
    return y * e


MUTUAL = """
def even [n] (xs: [n]f64) (i: i64): f64 = if i >= n then 1 else xs[i] * odd xs (i + 1)
def odd [n] (xs: [n]f64) (i: i64): f64 = if i >= n then 2 else f64.sin xs[i] + even xs (i + 1)
def f [n] (xs: [n]f64): f64 = even xs 0
"""


def mutual(xs, i=0):
    if i >= len(xs):
        return 1 + i % 2
    return xs[i] * mutual(xs, i + 1) if i % 2 == 0 else np.sin(xs[i]) + mutual(xs, i + 1)


ACKERMANN = """
def ack (m: i64) (n: i64) (x: f64): (i64, f64) =
  if m == 0 then (n + 1, f64.sin (x + 0.1))
  else if n == 0 then ack (m - 1) 1 (x * 1.01)
  else let (k, y) = ack m (n - 1) (x * 0.99) in ack (m - 1) k (y + 0.05 * x)
def f [n] (xs: [n]f64): f64 = f64.sum (map (\\x -> (ack 2 2 x).1) xs)
"""


def ackermann(m, n, x):
    if m == 0:
        return n + 1, np.sin(x + 0.1)
    if n == 0:
        return ackermann(m - 1, 1, x * 1.01)
    k, y = ackermann(m, n - 1, x * 0.99)
    return ackermann(m - 1, k, y + 0.05 * x)


DEPTHS = """
def poly (x: f64) (c: f64) (k: i64): f64 = if k <= 0 then c else x * poly x (c + 0.5) (k - 1) + f64.cos x
def f [n] (xs: [n]f64): f64 = f64.product (map2 (\\x i -> poly x 1 (i % 4)) xs (iota n))
"""


def poly(x, c, k):
    return c if k <= 0 else x * poly(x, c + 0.5, k - 1) + np.cos(x)


NETWORK = """
-- A tree network: a state of two numbers a node, weights shared by all.
def node [m] (w: [4]f64) (xs: [m]f64): [2]f64 =
  if m <= 1 then (if m == 0 then [0, 0] else [xs[0], 1])
  else let a = node w (take (m / 2) xs)
       let b = node w (drop (m / 2) xs)
       let g = 1 / (1 + f64.exp (-(w[0] * a[0] + w[1] * b[0])))
       in map3 (\\x y k -> g * x + (1 - g) * f64.tanh (w[2] * y + w[3] * f64.i64 k)) a b (iota 2)
def f [n] (xs: [n]f64): f64 = let w = [0.3, -0.2, 0.5, 0.1] in
  f64.sum (node (map2 (+) w (map (\\i -> 0.1 * xs[i % n]) (iota 4))) xs)
"""


def network(xs):
    w = np.array([0.3, -0.2, 0.5, 0.1]) + 0.1 * xs[np.arange(4) % len(xs)]

    def node(xs):
        if len(xs) <= 1:
            return np.array([xs[0], 1.0]) if len(xs) else np.zeros(2)
        a, b = node(xs[: len(xs) // 2]), node(xs[len(xs) // 2 :])
        g = 1 / (1 + np.exp(-(w[0] * a[0] + w[1] * b[0])))
        return g * a + (1 - g) * np.tanh(w[2] * b + w[3] * np.arange(2))

    return node(xs).sum()


GROWS = """
-- What goes down grows and shrinks, results have sizes of their own.
def grow [n] (xs: [n]f64) (k: i64): []f64 =
  if k == 0 then map (\\x -> x * x) xs
  else if k % 2 == 0 then grow (xs ++ [f64.sum xs]) (k - 1) else map (* 0.5) (grow (drop 1 xs) (k - 1)) ++ take 1 xs
def f [n] (xs: [n]f64): f64 = f64.sum (map f64.sin (grow xs 4))
"""


def grow(xs, k):
    if k == 0:
        return xs * xs
    if k % 2 == 0:
        return grow(np.append(xs, xs.sum()), k - 1)
    return np.append(0.5 * grow(xs[1:], k - 1), xs[:1])


LSTM = """
-- A binary tree LSTM of two states: five gates, each of both children's outputs; parameters shared by all nodes.
def sigmoid (x: f64): f64 = 1 / (1 + f64.exp (-x))
def gate (w: [2][2]f64) (a: [2]f64) (u: [2][2]f64) (b: [2]f64): [2]f64 =
  map2 (\\r s -> f64.sum (map2 (*) r a) + f64.sum (map2 (*) s b) + 0.1) w u
def lstm [m] (ws: [10][2][2]f64) (xs: [m]f64): ([2]f64, [2]f64) =
  if m <= 1 then let c = if m == 0 then [0, 0] else [f64.tanh xs[0], xs[0] * xs[0]] in (map f64.tanh c, c)
  else let h = m / 2
       let (ha, ca) = lstm ws (take h xs)
       let (hb, cb) = lstm ws (drop h xs)
       let (i, fa, fb) = (gate ws[0] ha ws[1] hb, gate ws[2] ha ws[3] hb, gate ws[4] ha ws[5] hb)
       let (o, u) = (gate ws[6] ha ws[7] hb, gate ws[8] ha ws[9] hb)
       let c = map3 (\\i u rest -> sigmoid i * f64.tanh u + rest) i u
                    (map4 (\\fa ca fb cb -> sigmoid fa * ca + sigmoid fb * cb) fa ca fb cb)
       in (map2 (\\o c -> sigmoid o * f64.tanh c) o c, c)
def f [n] (xs: [n]f64): f64 =
  let ws = tabulate_3d 10 2 2 (\\g i j -> f64.sin (xs[(g + i) % n] * f64.i64 (1 + g + 2 * i + 3 * j)))
  let (h, c) = lstm ws xs in f64.sum (map2 (\\x y -> x * x + y) h c)
"""


def lstm(xs):
    n = len(xs)
    g, i, j = np.indices((10, 2, 2))
    ws = np.sin(xs[(g + i) % n] * (1 + g + 2 * i + 3 * j))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def node(xs):
        if len(xs) <= 1:
            c = np.array([np.tanh(xs[0]), xs[0] ** 2]) if len(xs) else np.zeros(2)
            return np.tanh(c), c
        (ha, ca), (hb, cb) = node(xs[: len(xs) // 2]), node(xs[len(xs) // 2 :])
        i, fa, fb, o, u = [ws[k] @ ha + ws[k + 1] @ hb + 0.1 for k in range(0, 10, 2)]
        c = sigmoid(i) * np.tanh(u) + sigmoid(fa) * ca + sigmoid(fb) * cb
        return sigmoid(o) * np.tanh(c), c

    h, c = node(xs)
    return (h * h + c).sum()


BARNES_HUT = """
-- The potential of bodies in the plane: those that are far away count as one, in the middle of them.
def walk [m] (xs: [m]f64) (ys: [m]f64) (x: f64) (y: f64) (level: i64): f64 =
  let (cx, cy) = (f64.sum xs / f64.i64 m, f64.sum ys / f64.i64 m)
  let d = (x - cx) * (x - cx) + (y - cy) * (y - cy)
  let extent = f64.max (f64.maximum xs - f64.minimum xs) (f64.maximum ys - f64.minimum ys)
  in if m == 0 then 0 else if m == 1 || level > 8 || extent * extent < 0.3 * d then f64.i64 m / f64.sqrt (d + 0.05)
     else let (a, b) = partition (\\(x, y) -> if level % 2 == 0 then x < cx else y < cy) (zip xs ys)
          let ((ax, ay), (bx, by)) = (unzip a, unzip b)
          in walk ax ay x y (level + 1) + walk bx by x y (level + 1)
def f [n] (xs: [n]f64): f64 =
  let ys = map2 (\\x i -> x * f64.cos (f64.i64 (3 * i))) xs (iota n)
  let zs = map2 (\\x i -> x * f64.sin (f64.i64 (3 * i))) xs (iota n)
  in f64.sum (map2 (\\y z -> walk ys zs y z 0) ys zs)
"""


def barnes_hut(xs):
    i = 3 * np.arange(len(xs))
    ys, zs = xs * np.cos(i), xs * np.sin(i)

    def walk(xs, ys, x, y, level):
        if not len(xs):
            return 0.0
        cx, cy = xs.mean(), ys.mean()
        d = (x - cx) ** 2 + (y - cy) ** 2
        extent = max(np.ptp(xs), np.ptp(ys))
        if len(xs) == 1 or level > 8 or extent**2 < 0.3 * d:
            return len(xs) / np.sqrt(d + 0.05)
        a = xs < cx if level % 2 == 0 else ys < cy
        return walk(xs[a], ys[a], x, y, level + 1) + walk(xs[~a], ys[~a], x, y, level + 1)

    return sum(walk(ys, zs, y, z, 0) for y, z in zip(ys, zs, strict=True))


CASES = {
    "tree": (TREE, tree),
    "places": (PLACES, lambda xs: np.exp(0.1 * (xs**3).sum())),
    "simpson": (SIMPSON, quadrature),
    "mergesort": (SORT, ranked),
    "quicksort": (QUICK, ranked),
    "filter": (FILTER, filtered),
    "mutual": (MUTUAL, mutual),
    "ackermann": (ACKERMANN, lambda xs: sum(ackermann(2, 2, x)[1] for x in xs)),
    "depths": (DEPTHS, lambda xs: np.prod([poly(x, 1.0, i % 4) for i, x in enumerate(xs)])),
    "network": (NETWORK, network),
    "lstm": (LSTM, lstm),
    "barnes-hut": (BARNES_HUT, barnes_hut),
    "grows": (GROWS, lambda xs: np.sin(grow(xs, 4)).sum()),
}


def differences(f, xs, h=1e-6):
    """The gradient of f, by central differences."""
    return np.array([(f(xs + h * e) - f(xs - h * e)) / (2 * h) for e in np.eye(len(xs))])


FAST = [("places", "interp"), ("mutual", "interp"), ("depths", "interp"), ("tree", "c"), ("quicksort", "c"),
        ("filter", "multicore")]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("case", "backend"), slow_but(FAST, product(CASES, BACKENDS)))
def test_derivatives(case, backend):
    text, oracle = CASES[case]
    p = futad.compile(text + ENTRIES, backend=backend)
    rng = np.random.default_rng(7)
    for n in (5, 1, 2) if backend == "interp" else (9, 5, 2, 1):
        xs, vs = rng.uniform(0.3, 1.5, n), rng.normal(size=n)
        np.testing.assert_allclose(p.value(xs), oracle(xs), rtol=1e-12)
        gradient = differences(oracle, xs)
        np.testing.assert_allclose(p.gradient(xs), gradient, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(p.jacobian(xs), [gradient, 2 * gradient], rtol=1e-6, atol=1e-7)
        # <grad f, v> = df(v), to the last digits
        np.testing.assert_allclose(p.tangent(xs, vs), p.gradient(xs) @ vs, rtol=1e-10, atol=1e-12)
        product = (p.gradient(xs + 1e-6 * vs) - p.gradient(xs - 1e-6 * vs)) / 2e-6
        exact = p.forward_of_reverse(xs, vs)
        np.testing.assert_allclose(exact, product, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(p.reverse_of_reverse(xs, vs), exact, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(p.reverse_of_forward(xs, vs), exact, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_to_differentiate(backend):
    """Of no elements, and where no input matters: by an index alone, or by what is never reached."""
    p = futad.compile(TREE + ENTRIES, backend=backend)
    none = np.zeros(0)
    assert p.value(none) == 0 and p.gradient(none).shape == (0,) and p.tangent(none, none) == 0
    text = """
def count (x: f64) (n: i64): i64 = if n <= 0 then i64.f64 x else 1 + count x (n - 1)
entry gradient (x: f64) = vjp (\\x -> f64.i64 (count x 3) + x) x 1
"""
    assert futad.compile(text, backend=backend).gradient(2.5) == 1


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_ties_nan_and_infinities(backend):
    text = """
def largest [n] (xs: [n]f64): f64 =
  if n == 1 then xs[0]
  else let h = n / 2 in let (a, b) = (largest (take h xs), largest (drop h xs)) in if a >= b then a else b
entry gradient [n] (xs: [n]f64) = vjp largest xs 1
"""
    p = futad.compile(text, backend=backend)
    np.testing.assert_array_equal(p.gradient([1.0, 3.0, 3.0, 2.0]), [0, 1, 0, 0])
    np.testing.assert_array_equal(p.gradient([1.0, np.inf, 0.0]), [0, 1, 0])
    assert p.gradient([np.nan, 1.0]).sum() == 1


def python_power(x, n):
    return 1.0 if n == 0 else x * python_power(x, n - 1)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_in_constructs_of_all_kinds(backend):
    """Calls in maps over rows, loops, branches, reductions; derivatives inside maps; free variables."""
    text = """
def power (x: f64) (n: i64): f64 = if n <= 0 then 1 else x * power x (n - 1)
def row [n] (xs: [n]f64): f64 = if n == 0 then 0 else xs[0] * xs[0] + row (drop 1 xs) * 0.5
def f [n][m] (xss: [n][m]f64): f64 =
  let a = f64.sum (map row xss)
  let b = loop s = 0 for i < n do s + power (row xss[i]) 2
  let c = reduce (\\x y -> x + power y 1) 0 (map (\\xs -> if xs[0] > 0.5 then row xs else power xs[0] 3) xss)
  in a + b * c
entry value [n][m] (xss: [n][m]f64) = f xss
entry gradient [n][m] (xss: [n][m]f64) = vjp f xss 1
entry inner [n][m] (xss: [n][m]f64) (ks: [n]i64) = map2 (\\xs k -> vjp (\\xs -> power (row xs) k) xs 1) xss ks
"""
    p = futad.compile(text, backend=backend)
    xss = np.random.default_rng(3).uniform(0.2, 0.9, (4, 3))
    flat = differences(lambda xs: p.value(xs.reshape(4, 3)), xss.ravel())
    np.testing.assert_allclose(p.gradient(xss).ravel(), flat, rtol=1e-6, atol=1e-8)

    def row(xs):
        return xs[0] ** 2 + 0.5 * row(xs[1:]) if len(xs) else 0.0

    ks = np.array([0, 1, 3, 2])
    inner = [differences(lambda xs, k=k: python_power(row(xs), k), xs) for xs, k in zip(xss, ks, strict=True)]
    np.testing.assert_allclose(p.inner(xss, ks), inner, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_fails_in_the_function_fails_in_its_derivative(backend, capfd):
    text = """
def f [n] (xs: [n]f64) (i: i64): f64 = #[trace] (if i < 0 then 0 else xs[i] * xs[i] + f xs (i - 2))
def g [n] (xs: [n]f64): f64 = if n == 0 then 0 else assert (xs[0] < 3) xs[0] + g (drop 2 xs)
entry gradient [n] (xs: [n]f64) (i: i64) = vjp (\\xs -> f xs i) xs 1
entry sums [n] (xs: [n]f64) = vjp g xs 1
entry forward [n] (xs: [n]f64) = jvp g xs xs
"""
    p = futad.compile(text, backend=backend)
    xs = np.array([1.0, 2.0, 0.5])
    np.testing.assert_array_equal(p.gradient(xs, 2), [2, 0, 1])
    if backend != "multicore":
        assert len(capfd.readouterr().err.splitlines()) >= 3
    with pytest.raises(BoundsError, match=r"Index \[3\]"):
        p.gradient(xs, 3)
    np.testing.assert_array_equal(p.sums(xs[:2]), [1, 0])
    for f in (p.sums, p.forward):
        with pytest.raises(BoundsError, match="out of bounds"):
            f(xs)
        with pytest.raises(futad.errors.AssertionFailed):
            f(np.array([1.0, 0, 4, 0]))


def test_the_return_sweep_runs_no_checks_and_prints_nothing_again(capfd):
    """Note [Checked once] in ad/calls.py."""
    text = "def f [n] (xs: [n]f64) (i: i64): f64 = if i == n then 1 else #[trace] (xs[i] * f xs (i + 1))\n"
    text += "entry main [n] (xs: [n]f64) = vjp (\\xs -> f xs 0) xs 1\n"
    program = compile_program(compile_text(text), check=True)
    assert len(recursive(program)) == 3
    np.testing.assert_array_equal(futad.compile(text, backend="interp").main([1.0, 2, 3, 4, 5]), [120, 60, 40, 30, 24])
    assert len(capfd.readouterr().err.splitlines()) == 5


def operations(text, name, *args):
    """Scalar operations that the interpreter takes for a call, of code as it comes from the passes."""
    m = Interpreter(compile_program(compile_text(text)), count=True)
    m.run(name, [np.float64(a) if isinstance(a, float) else np.int64(a) for a in args])
    return m.counts["op"].ops


ONE_NUMBER = {
    "a chain of products": "def f (x: f64) (n: i64): f64 = if n <= 0 then 1 else x * f x (n - 1)",
    "branches in branches": (
        "def f (x: f64) (n: i64): f64 = if n <= 0 then x else let y = if n % 2 == 0 then f (x * 0.9) (n - 1) * x "
        "else if n % 3 == 0 then f x (n - 2) else x * x in y * f64.sin y"
    ),
    "a tree of products": (
        "def f (x: f64) (n: i64): f64 = if n <= 1 then x else f (x * 0.9) (n / 2) * f (x + 1) (n / 2)"
    ),
    "each other": (
        "def f (x: f64) (n: i64): f64 = if n <= 0 then x else g x (n - 1) * 0.5\n"
        "def g (x: f64) (n: i64): f64 = if n <= 0 then 1 else f64.sin (f (x + 0.1) (n - 1)) + x"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", slow_but(["branches in branches"], ONE_NUMBER))
def test_gradients_of_numbers_take_one_pass(case):
    """Note [Gradients in one pass]: a constant number of operations for each of the function's, however deep."""
    text = ONE_NUMBER[case] + """
entry value (x: f64) (n: i64) = f x n
entry gradient (x: f64) (n: i64) = vjp (\\x -> f x n) x 1
entry curvature (x: f64) (n: i64) = vjp (\\x -> vjp (\\x -> f x n) x 1) x 1
entry curvature_forward (x: f64) (n: i64) = jvp (\\x -> vjp (\\x -> f x n) x 1) x 1
"""
    costs = [operations(text, "gradient", 1.1, n) / operations(text, "value", 1.1, n) for n in (32, 256)]
    assert costs[1] < 6 and costs[1] < 1.2 * costs[0]
    for backend in BACKENDS:
        p = futad.compile(text, backend=backend)
        for x in (0.7, 1.3):
            for n in (0, 1, 2, 9):
                slope = (p.value(x + 1e-6, n) - p.value(x - 1e-6, n)) / 2e-6
                np.testing.assert_allclose(p.gradient(x, n), slope, rtol=1e-6, atol=1e-8)
                curve = (p.gradient(x + 1e-6, n) - p.gradient(x - 1e-6, n)) / 2e-6
                np.testing.assert_allclose(p.curvature(x, n), curve, rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(p.curvature_forward(x, n), p.curvature(x, n), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("case", slow_but(["tree", "grows"], CASES))
def test_the_dual_engine_agrees(case):
    """An oracle that shares no rule with the transformation."""
    text = CASES[case][0] + ENTRIES
    p, q = futad.compile(text, backend="c"), futad.compile(text, method="dual")
    rng = np.random.default_rng(11)
    xs, vs = rng.uniform(0.3, 1.5, 6), rng.normal(size=6)
    np.testing.assert_allclose(q.gradient(xs), p.gradient(xs), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(q.forward_of_reverse(xs, vs), p.forward_of_reverse(xs, vs), rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "stack", "depth"), slow_but(
    [("c", "64M", 10**4)], [("c", "64M", 10**4), ("c", None, 10**6), ("multicore", None, 10**6)]
))
def test_deep_and_endless(backend, stack, depth, monkeypatch):
    if stack is not None:
        monkeypatch.setenv("FUTAD_STACK", stack)
    text = """
def f (x: f64) (n: i64): f64 = if n == 0 then x else f (x * 1.000001) (n - 1) + 1
entry gradient (x: f64) (n: i64) = vjp (\\x -> f x n) x 1
entry tangent (x: f64) (n: i64) = jvp (\\x -> f x n) x 1
"""
    p = futad.compile(text, backend=backend)
    for f in (p.gradient, p.tangent):
        np.testing.assert_allclose(f(1.0, depth), 1.000001**depth, rtol=1e-6)
        with pytest.raises(TooDeep):
            f(1.0, -1)


def test_a_derivative_in_its_own_definition_is_refused():
    text = """
def f (x: f64) (n: i64): f64 = if n == 0 then x * x else vjp (\\x -> f x (n - 1)) x 1
entry main (x: f64) (n: i64) = f x n
"""
    with pytest.raises(UnsupportedError, match="derivative of 'f_1' inside of its own definition") as caught:
        futad.compile(text, backend="interp").main(1.0, 2)
    assert caught.value.span is not None and caught.value.span.line == 2


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_the_python_interface(backend):
    p = futad.compile(TREE + "entry main [n] (xs: [n]f64): f64 = f xs", backend=backend)
    xs = np.random.default_rng(0).uniform(0.2, 1, 7)
    np.testing.assert_allclose(futad.grad(p.main)(xs), differences(tree, xs), rtol=1e-6, atol=1e-9)
    hessian = np.array(futad.jacfwd(futad.grad(p.main))(xs)) if hasattr(futad, "jacfwd") else None
    if hessian is not None:
        np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-12)
