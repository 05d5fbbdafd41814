"""Tasks that may run at once: values, derivatives, failures, depth; who does them; random programs."""

from __future__ import annotations

import time
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import futad
from futad.backend.c import CBackend
from futad.dual.engine import DualInterpreter
from futad.errors import BoundsError, TooDeep
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import TARGETS
from tests.support.compiled import library_of
from tests.support.needs import needs_cc
from tests.support.slow import slow_but

BACKENDS = ["interp", "c", "multicore"]
pytestmark = needs_cc

PROGRAM = """
def tree [n] (xs: [n]f64): f64 =
  if n == 1 then xs[0] else let (a, b) = par tree tree (take (n / 2) xs, drop (n / 2) xs) in a * b + f64.sin a

def scalars (d: i64) (x: f64): f64 =
  if d == 0 then f64.sin x
  else let (a, b) = par (scalars (d - 1)) (scalars (d - 1)) (x * 1.01, x * 0.99 + 0.1) in f64.tanh (a * b + f64.sin a)

def pairs (d: i64) (x: f64) (y: f64): (f64, f64) =
  if d == 0 then (f64.sin x, x * y) else
  let ((a, b), (c, e)) = par (\\(x, y) -> pairs (d - 1) x y) (\\z -> pairs (d - 1) (z * y) x) ((x * 0.9, y), x + y)
  in (f64.tanh (a * c), f64.tanh (b * e + y))

def captured [n] (xs: [n]f64) (at: i64) (k: i64): f64 =
  if k == 1 then xs[at % n] * xs[(at + 1) % n] else
  let (a, b) = par (captured xs at) (captured xs (at + k / 2)) (k / 2, k - k / 2) in f64.sin (a + 2 * b)

def merge [n][m] (a: [n]f64) (b: [m]f64): [n + m]f64 =
  (loop (r, i, j) = (replicate (n + m) 0.0, 0, 0) for k < n + m do
     if j >= m || (i < n && a[i] <= b[j]) then (r with [k] = a[i], i + 1, j) else (r with [k] = b[j], i, j + 1)).0
def msort [n] (xs: [n]f64): [n]f64 =
  if n <= 1 then xs
  else let (a, b) = par msort msort (take (n / 2) xs, drop (n / 2) xs) in merge a b :> [n]f64
def loss [n] (xs: [n]f64) = f64.sum (map2 (\\x i -> x * f64.sin (f64.i64 i)) (msort xs) (iota n))

def loops (x: f64, ys: [3]f64): f64 =
  let f y = loop z = y for i < 5 do f64.sin (z * x) + ys[i % 3]
  let (a, b) = par f f (x, 2 * x) in a * b

def quick [n] (xs: [n]f64): []f64 =
  if n <= 1 then xs
  else let (a, b) = par quick quick (partition (<= xs[0]) (drop 1 xs)) in a ++ [xs[0]] ++ b
def left (n: i64) (x: f64): f64 = if n == 0 then x else (par (right (n - 1)) (left (n - 1)) (x * 0.5, x + 1)).0
def right (n: i64) (x: f64): f64 = let (a, b) = par (left (n - 1)) (left (n - 1)) (x, 1 - x) in
  if n <= 0 then x else a + 0.5 * b
def mutual (n: i64) (x: f64): f64 = if n <= 0 then x * x else let (a, b) = par (mutual (n - 1)) (other (n - 2)) (x, x)
  in a * 0.5 + b
def other (n: i64) (x: f64): f64 = if n <= 0 then f64.cos x else f64.sin (mutual (n - 1) (x * 0.9))
"""

ENTRIES = {
    "tree": "entry tree_grad [n] (xs: [n]f64) = vjp tree xs 1\nentry tree_ [n] (xs: [n]f64) = tree xs\n"
    "entry tree_jvp [n] (xs: [n]f64) (d: [n]f64) = jvp tree xs d\n"
    "entry tree_hvp [n] (xs: [n]f64) (d: [n]f64) = jvp (\\x -> vjp tree x 1) xs d\n",
    "scalars": "entry scalars_ (x: f64) = scalars 5 x\nentry scalars_grad (x: f64) = vjp (scalars 4) x 1\n"
    "entry scalars_second (x: f64) = vjp (\\x -> vjp (scalars 3) x 1) x 1\n"
    "entry scalars_map [n] (xs: [n]f64) = map (\\x -> vjp (scalars 3) x 1) xs\n"
    "entry scalars_of_map [n] (xs: [n]f64) = vjp (\\xs -> f64.sum (map (scalars 3) xs)) xs 1\n",
    "pairs": "entry pairs_grad (x: f64) (y: f64) = vjp (\\(x, y) -> let (a, b) = pairs 3 x y in a + 2 * b) (x, y) 1\n"
    "entry pairs_jvp (x: f64) (y: f64) = jvp (\\(x, y) -> let (a, b) = pairs 3 x y in a + 2 * b) (x, y) (0.5, 2)\n",
    "captured": "entry captured_grad [n] (xs: [n]f64) = vjp (\\x -> captured x 0 n) xs 1\n"
    "entry captured_jvp [n] (xs: [n]f64) (d: [n]f64) = jvp (\\x -> captured x 0 n) xs d\n"
    "entry captured_map [n] (xs: [n]f64) = vjp (\\xs -> f64.sum (map (\\i -> captured xs i 3) (iota n))) xs 1\n",
    "msort": "entry msort_ [n] (xs: [n]f64) = msort xs\nentry msort_grad [n] (xs: [n]f64) = vjp loss xs 1\n"
    "entry msort_hvp [n] (xs: [n]f64) (d: [n]f64) = jvp (\\x -> vjp loss x 1) xs d\n"
    "entry quick_ [n] (xs: [n]f64) = quick xs\n",
    "loops": "entry loops_ (x: f64) (ys: [3]f64) = loops (x, ys)\n"
    "entry loops_grad (x: f64) (ys: [3]f64) = vjp loops (x, ys) 1\n"
    "entry loops_second (x: f64) (ys: [3]f64) = vjp (\\x -> (vjp loops x 1).0) (x, ys) 1\n",
    "mutual": "entry mutual_ (x: f64) = mutual 9 x\nentry mutual_grad (x: f64) = vjp (mutual 7) x 1\n"
    "entry mutual_jvp (x: f64) = jvp (mutual 7) x 1\n",
}


def arguments(entry: str, program) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = {"xs": 9, "d": 9, "ys": 3, "x": None, "y": None}
    return [rng.uniform(0.4, 1.6, shapes[name]) for name in names_of(entry)]


def names_of(entry: str) -> list[str]:
    (line,) = [x for text in ENTRIES.values() for x in text.splitlines() if x.startswith(f"entry {entry} ")]
    return [part.split(":")[0].lstrip("(") for part in line.split("=")[0].split(" (")[1:]]


def flat(v) -> np.ndarray:
    return np.concatenate([np.ravel(x) for x in v]) if isinstance(v, tuple | list) else np.ravel(v)


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(["scalars"], ENTRIES))
def test_programs_against_dual_numbers(kind):
    """Values and derivatives of first and second order of all backends, and by the other way of taking them."""
    text = PROGRAM + ENTRIES[kind]
    oracle = futad.compile(text, backend="interp", method="dual")
    programs = [futad.compile(text, backend=b) for b in BACKENDS]
    for line in ENTRIES[kind].splitlines():
        entry = line.split()[1]
        args = arguments(entry, oracle)
        expected = flat(getattr(oracle, entry)(*args))
        for p in programs:
            found = flat(getattr(p, entry)(*args))
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12, err_msg=f"{entry} on {p.backend}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tree", "captured"])
def test_gradients_are_slopes(kind):
    function = "tree" if kind == "tree" else "(\\x -> captured x 0 n)"
    text = f"{PROGRAM}entry value [n] (xs: [n]f64) = {function} xs\n"
    text += f"entry gradient [n] (xs: [n]f64) = vjp {function} xs 1"
    p = futad.compile(text, backend="multicore")
    xs = np.random.default_rng(1).uniform(0.5, 1.5, 7)
    slopes = [(p.value(xs + 1e-6 * e) - p.value(xs - 1e-6 * e)) / 2e-6 for e in np.eye(7)]
    np.testing.assert_allclose(p.gradient(xs), slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("kind", "derivatives"), [("tree", True), ("scalars", True), ("pairs", True), ("loops", True)])
def test_jobs(kind, derivatives):
    """Each fork makes three jobs of one, and no backpropagator is called twice."""
    m = DualInterpreter(compile_text(PROGRAM + ENTRIES[kind]))
    for line in ENTRIES[kind].splitlines():
        entry = line.split()[1]
        if entry.endswith(("_grad", "_")):
            given = [np.asarray(a) for a in arguments(entry, m)]
            sizes = [np.int64(len(a)) for a in given if a.ndim and "[n]" in line]
            m.gradient(entry, [*sizes, *given])
            c = m.counts_of_run
            opened = 2 if entry.endswith("_grad") else 1  # the derivative in the program is one more
            assert c.forks > 0 and c.jobs == 3 * c.forks + opened and c.most == 1 and c.calls <= c.made


# --- who does them -----------------------------------------------------------------------------------------------


@contextmanager
def threads(program, n):
    """So many threads for a while, and how many tasks others have done."""
    library = library_of(program).lib
    pool = futad.compile("entry main (x: f64) = x", backend="multicore")
    pool.main(0.0)
    library.futad_pool_set_threads(n)
    try:
        yield library.futad_tasks_taken
    finally:
        from futad.target import thread_count

        library.futad_pool_set_threads(thread_count())


SHARED = """
def tree (d: i64) (xs: [4]f64): [4]f64 =
  if d == 0 then map f64.sin xs
  else let (a, b) = par (tree (d - 1)) (tree (d - 1)) (map (* 0.9) xs, map2 (*) xs (rotate 1 xs)) in map2 (+) a b
def sum (d: i64) (x: f64): f64 =
  if d == 0 then f64.cos x else let (a, b) = par (sum (d - 1)) (sum (d - 1)) (0.4 * x, x + 1) in 0.7 * a + b
entry arrays (d: i64) (xs: [4]f64) = tree d xs
entry value (d: i64) (x: f64) = sum d x
entry gradient (d: i64) (x: f64) = vjp (sum d) x 1
entry adjoint (d: i64) (xs: [4]f64) = vjp (tree d) xs (replicate 4 1)
"""


@pytest.mark.slow
def test_others_take_tasks_and_results_stay_the_same():
    p, c = (futad.compile(SHARED, backend=b) for b in ("multicore", "c"))
    xs = np.array([0.3, 0.5, 0.7, 1.1])
    calls = [("arrays", 12, xs), ("value", 14, 0.3), ("gradient", 14, 0.3), ("adjoint", 7, xs)]
    for name, d, x in calls:
        np.testing.assert_allclose(getattr(p, name)(d, x), getattr(c, name)(d, x), rtol=1e-12)
    with threads(p, 4) as taken:
        for name, d, x in calls:
            first, before, end = np.asarray(getattr(p, name)(d, x)), taken(), time.monotonic() + 30
            for k in range(1_000_000):
                np.testing.assert_array_equal(getattr(p, name)(d, x), first)
                if k >= 20 and taken() > before or time.monotonic() > end:
                    break
            assert taken() > before
    with threads(p, 1) as taken:
        before = taken()
        for name, d, x in calls:
            np.testing.assert_allclose(getattr(p, name)(d, x), getattr(c, name)(d, x), rtol=1e-12)
        assert taken() == before


@pytest.mark.slow
def test_records_of_tasks():
    """Whoever does a task makes its records, whoever does its return sweep gives them back: none is left."""
    text = PROGRAM + ENTRIES["pairs"] + ENTRIES["tree"] + "entry deep (x: f64) = vjp (\\x -> (pairs 12 x 0.7).0) x 1\n"
    p, c = (futad.compile(text, backend=b) for b in ("multicore", "c"))
    xs = np.linspace(0.2, 1.2, 300)
    with threads(p, 4):
        for _ in range(20):
            np.testing.assert_allclose(p.deep(0.3), c.deep(0.3), rtol=1e-12)
            made, left, most = library_of(p).records()
            assert made > 2**11 and left == 0 < most
            np.testing.assert_allclose(p.tree_grad(xs), c.tree_grad(xs), rtol=1e-12)
            assert library_of(p).records()[1] == 0


FAILS = """
def f [n] (d: i64) (i: i64) (xs: [n]f64): f64 =
  if d == 0 then f64.sqrt xs[i] else
  let (a, b) = par (f (d - 1) (2 * i)) (f (d - 1) (2 * i + 1)) (xs, xs) in a + b
entry main [n] (d: i64) (xs: [n]f64) = f d 0 xs
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_failure_is_reported(backend):
    """Of several tasks that fail, the one that would fail if there was one thread."""
    p = futad.compile(FAILS, backend=backend)
    many = backend == "multicore"
    depth = 12 if many else 5
    xs = np.ones(2**depth - 1 - 2 ** (depth - 2))
    for _ in range(20 if many else 1):
        text = rf"Index \[{len(xs)}\] out of bounds for array of shape \[{len(xs)}\]"
        with pytest.raises(BoundsError, match=text) as e:
            p.main(depth, xs)
        assert e.value.span is not None and e.value.span.line == 3
        assert p.main(depth, np.ones(2**depth)) == 2.0**depth


ENDLESS = """
def f (n: i64) (x: f64): f64 = let (a, b) = par (f (n + 1)) (f (n + 2)) (x, x) in if n < 0 then 0 else a + b
def g (n: i64) (x: f64): f64 = if n == 0 then x else let (a, b) = par (g 0) (g (n - 1)) (x, x + 1) in f64.max a b
entry endless (x: f64) = f 0 x
entry deep (n: i64) (x: f64) = g n x
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_depth(backend, monkeypatch):
    p = futad.compile(ENDLESS, backend=backend)
    assert p.deep(10**6, 0.5) == 10**6 + 0.5
    monkeypatch.setenv("FUTAD_STACK", "64M")
    for _ in range(2):
        start = time.perf_counter()
        with pytest.raises(TooDeep, match=r"recursion is deeper than \d+ calls") as caught:
            p.endless(0.5)
        assert caught.value.span is not None and caught.value.span.line == 2
        assert time.perf_counter() - start < 20


@pytest.mark.slow
def test_maps_inside_tasks_and_tasks_inside_maps():
    text = """
def f (d: i64) (xs: [500]f64): f64 =
  if d == 0 then f64.sum (map f64.sqrt xs)
  else let (a, b) = par (f (d - 1)) (f (d - 1)) (map (+ 1) xs, scan (+) 0 xs) in a + f64.log b
entry one (d: i64) (xs: [500]f64) = f d xs
entry many [n] (d: i64) (ks: [n]f64) = map (\\k -> f d (tabulate 500 (\\i -> k + f64.i64 i))) ks
"""
    p, c = (futad.compile(text, backend=b) for b in ("multicore", "c"))
    xs = np.linspace(0.5, 2, 500)
    ks = np.linspace(0, 1, 40)
    for _ in range(3):
        np.testing.assert_allclose(p.one(7, xs), c.one(7, xs), rtol=1e-12)
        np.testing.assert_allclose(p.many(3, ks), c.many(3, ks), rtol=1e-12)


# --- random programs ---------------------------------------------------------------------------------------------


def _expressions():
    """Expressions over floats x and y, a number n, an array zs, recursive calls and forks."""
    leaf = hs.sampled_from(["x", "y", "0.5", "zs[n % 3]", "(f64.i64 n)"])

    def larger(inner):
        call = hs.tuples(hs.sampled_from("fg"), hs.sampled_from([1, 2]), inner, inner).map(
            lambda t: f"({t[0]} (n - {t[1]}) (bound ({t[2]})) (bound ({t[3]})) zs)"
        )
        task = hs.one_of(
            hs.tuples(hs.sampled_from("fg"), hs.sampled_from([1, 2]), inner).map(
                lambda t: (f"(\\x -> {t[0]} (n - {t[1]}) (bound x) y zs)", t[2])
            ),
            hs.tuples(inner, inner).map(lambda t: (f"(\\y -> {t[0]})", t[1])),
            hs.tuples(inner, inner).map(lambda t: (f"(\\x -> loop y = x for i < 2 do bound ({t[0]}))", t[1])),
        )
        fork = hs.tuples(task, task, inner).map(
            lambda t: f"(let (x, y) = par {t[0][0]} {t[1][0]} ({t[0][1]}, {t[1][1]}) in x - {t[2]})"
        )
        plain = hs.tuples(inner, inner, hs.sampled_from("+-*")).map(lambda t: f"({t[0]} {t[2]} {t[1]})")
        choice = hs.tuples(inner, inner, inner).map(lambda t: f"(if {t[0]} < 0.3 then {t[1]} else {t[2]})")
        return hs.one_of(plain, call, fork, fork, choice, inner.map(lambda t: f"(f64.sin {t})"))

    return hs.recursive(leaf, larger, max_leaves=4)


def _random(data) -> str:
    """`f` forks and calls `g`; `g` may call `f`."""
    f, g = data.draw(_expressions()), data.draw(_expressions())
    return f"""
def bound (x: f64) = f64.sin x
def g (n: i64) (x: f64) (y: f64) (zs: [3]f64): f64 = if n <= 0 then x - y * zs[2] else bound ({g})
def f (n: i64) (x: f64) (y: f64) (zs: [3]f64): f64 =
  if n <= 0 then x * y + zs[1]
  else let (x, y) = par (\\x -> g (n - 1) (bound x) y zs) (\\y -> {f}) (x, y) in x * y
entry value (n: i64) (x: f64) (y: f64) (zs: [3]f64) = f n x y zs
entry gradient (n: i64) (x: f64) (y: f64) (zs: [3]f64) = vjp (\\(x, y, zs) -> f n x y zs) (x, y, zs) 1
entry tangent (n: i64) (x: f64) (y: f64) (zs: [3]f64) =
  jvp (\\(x, y, zs) -> f n x y zs) (x, y, zs) (0.3, -0.7, [0.2, 1.0, -0.4])
"""


def _agree(data, backends):
    text = _random(data)
    oracle = futad.compile(text, backend="interp", method="dual")
    programs = [futad.compile(text, backend=b) for b in backends]
    zs = np.array([0.4, -0.3, 0.9])
    for n in (0, 1, 3):
        for entry in ("value", "gradient", "tangent"):
            expected = flat(getattr(oracle, entry)(n, 0.6, -0.2, zs))
            for p in programs:
                found = flat(getattr(p, entry)(n, 0.6, -0.2, zs))
                what = f"{entry}, {p.backend}\n{text}"
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11, err_msg=what)
        direction = np.array([0.3, -0.7, 0.2, 1.0, -0.4])
        x_dot = flat(programs[0].tangent(n, 0.6, -0.2, zs))
        dot = flat(programs[0].gradient(n, 0.6, -0.2, zs)) @ direction
        np.testing.assert_allclose(dot, x_dot[0], rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(hs.data())
def test_random_programs(data):
    _agree(data, ["interp"])


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(hs.data())
def test_random_programs_on_all_backends(data):
    _agree(data, BACKENDS)


# --- what is done in order ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tasks_of_maps_are_not_forked():
    """Maps run on all threads, which two tasks would not."""
    text = "entry main [n] (xs: [n]f64) = par (map f64.sin) (map f64.cos) (xs, xs)"
    target = TARGETS["multicore"]
    source = CBackend(compile_program(compile_text(text), target=target), target).source
    assert "main" in source and "futad_forks" not in source.replace('#include "tasks.h"', "")
    p = futad.compile(text, backend="multicore")
    xs = np.linspace(0, 1, 9)
    for found, f in zip(p.main(xs), (np.sin, np.cos), strict=True):
        np.testing.assert_allclose(found, f(xs))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["emulated", "c"])
def test_other_machines_do_them_in_order(backend):
    text = (
        "entry main [n] (xs: [n]f64) = map (\\x -> let f y = loop z = y for i < 3 do z * x + f64.i64 i "
        "let (a, b) = par f f (x, 1 - x) in a * b) xs\n"
        "entry gradient [n] (xs: [n]f64) = vjp main xs (replicate n 1)"
    )
    with counting():
        p, q = futad.compile(text, backend=backend), futad.compile(text, backend="interp")
    xs = np.linspace(0.1, 1, 5)
    np.testing.assert_allclose(p.main(xs), q.main(xs), rtol=1e-13)
    np.testing.assert_allclose(p.gradient(xs), q.gradient(xs), rtol=1e-12)
