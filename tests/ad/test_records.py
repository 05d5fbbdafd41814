"""Records of recursive calls: each is read once, none is left, and what the return sweep then costs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import futad
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.core.text import program_text
from futad.errors import AssertionFailed, BoundsError, InternalError
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from tests.ad.test_recursion import CASES, ENTRIES, TREE, differences, tree
from tests.support.compiled import library_of
from tests.support.needs import needs_cc

pytestmark = needs_cc
BACKENDS = ["interp", "c", "multicore"]


def left(program):
    """Records that the last call kept, and how many of them nothing read."""
    made, rest, most = library_of(program).records()
    assert most >= 0
    return made, rest


def interpreted(text):
    return Interpreter(compile_program(compile_text(text), check=True), count=True)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_each_record_is_read_once(case):
    """The interpreter fails where one is read twice."""
    text, _ = CASES[case]
    m = interpreted(text + "entry gradient [n] (xs: [n]f64): [n]f64 = vjp f xs 1\n")
    for n in (1, 6):
        xs = np.random.default_rng(n).uniform(0.3, 1.5, n)
        m.run("gradient", [np.int64(n), xs])
        assert m.records.left == 0 and m.records.made == m.records.were_read
        if case not in ("ackermann", "depths", "filter"):  # functions of numbers, and a loop
            assert n == 1 or m.records.made > 0


MUTUAL = """
#[bound(80)]
def go [n] (x: [n]f64) (i: i64) (w: f64) : f64 = if i >= n then w else let a = to x (i + 1) w in f64.sin (a * x[i])
def to [n] (x: [n]f64) (i: i64) (w: f64) : f64 =
  if i >= n then w else if i % 3 == 0 then w * x[i] else go x (i + 1) w
def f [n] (x: [n]f64) (p: f64) : f64 = loop p for _j < 3 do go x 0 p
entry twice [n] (x: [n]f64) (p: f64) (d_x: [n]f64) (d_p: f64) (y: f64) =
  #[checkpoint(7)] vjp (\\(x, p) -> #[checkpoint(7)] vjp (\\(x, p) -> f x p) (x, p) y) (x, p) (d_x, d_p)
"""


@pytest.mark.slow
def test_sizes_of_what_is_kept_may_be_those_of_what_is_outside():
    """Without the simplifier each call inlined has a name of its own for the size of one array."""
    plain = Interpreter(compile_program(compile_text(MUTUAL), passes=["inline", "asserts", "invert", "ad"], check=True))
    whole = Interpreter(compile_program(compile_text(MUTUAL), check=True))
    x, d = np.random.default_rng(1).normal(size=(2, 5))
    args = [np.int64(5), x, np.float64(0.7), d, np.float64(0.3), np.float64(1.1)]
    for a, e in zip(plain.run("twice", args), whole.run("twice", args), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("case", CASES)
def test_no_record_is_left(case, backend):
    p = futad.compile(CASES[case][0] + ENTRIES, backend=backend)
    xs = np.random.default_rng(2).uniform(0.3, 1.5, 40)
    for f in (p.gradient, p.jacobian, lambda xs: p.reverse_of_reverse(xs, xs), lambda xs: p.forward_of_reverse(xs, xs)):
        f(xs)
        assert left(p)[1] == 0


PRODUCTS = """
def tree [n] (xs: [n]f64): f64 =
  if n == 1 then xs[0] else let h = n / 2 in tree (take h xs) * tree (drop h xs) + xs[0]
entry value [n] (xs: [n]f64): f64 = tree xs
"""


def costs(text, n):
    m = interpreted(text)
    xs = np.random.default_rng(0).uniform(0.5, 1.0, n)
    out = []
    for name in ("value", "gradient"):
        m.counts.clear()
        m.run(name, [np.int64(n), xs])
        out.append(sum(w.ops + w.read + w.written for w in m.counts.values()))
    return out[1] / out[0]


@pytest.mark.slow
def test_the_factor_does_not_grow_with_the_depth():
    """A tree that multiplies the results of its calls: by records a constant factor, else as often as it is deep."""
    gradient = "entry gradient [n] (xs: [n]f64): [n]f64 = vjp tree xs 1\n"
    small, large = costs(PRODUCTS + gradient, 16), costs(PRODUCTS + gradient, 512)
    assert large < 1.1 * small < 10
    again = PRODUCTS.replace("def tree", "#[again] def tree") + gradient
    assert costs(again, 512) > 1.5 * costs(again, 16)
    assert "keep(" not in str(compile_program(compile_text(again))) and large < costs(again, 512)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_that_are_run_again(backend):
    text = TREE.replace("\ndef tree", "\n#[again]\ndef tree") + ENTRIES
    p = futad.compile(text, backend=backend)
    xs = np.random.default_rng(1).uniform(0.3, 1.5, 7)
    np.testing.assert_allclose(p.gradient(xs), differences(tree, xs), rtol=1e-6, atol=1e-8)
    if backend != "interp":
        assert left(p) == (0, 0)


def test_the_adjoint_of_what_all_calls_read_is_one_array():
    """It is an accumulator, of which each call gets its part."""
    with counting() as counts:
        program = compile_program(compile_text(TREE + "entry main [n] (xs: [n]f64) = vjp f xs 1\n"), check=True)
    assert counts["records"] >= 1
    back = next(f for name, f in program.funs.items() if name.endswith("back1"))
    text = str(back.body)
    assert "part(" in text and "whole(" in text and "withacc(" not in text and "replicate(" not in text
    again = parse_program(program_text(program))
    check_program(again)
    assert program_text(again, normal=True) == program_text(program, normal=True)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_calls_gave_is_overwritten(backend):
    """In place, after it has been read; and what is asserted of several values at once."""
    text = """
def f [n] (xs: [n]f64) (k: i64): *[n]f64 =
  if k == 0 then map (* 2) xs
  else let ys = f xs (k - 1)
       let z = ys[0] * ys[1]
       let (a, b) = assert (k < 9) (z * 0.5, f64.sin ys[n - 1])
       in ys with [k % n] = z * b + a * xs[k % n]
entry value [n] (xs: [n]f64): f64 = f64.sum (f xs 5)
entry gradient [n] (xs: [n]f64) = vjp value xs 1
"""
    p = futad.compile(text, backend=backend)
    for n in (2, 3, 9):
        xs = np.random.default_rng(n).uniform(0.3, 0.8, n)
        np.testing.assert_allclose(p.gradient(xs), differences(p.value, xs), rtol=1e-6, atol=1e-8)


LOOPS = """
-- Trees of many branches: calls in loops, whose variables are numbers, small arrays, and one that no iteration reads.
def node [n] (xs: [n]f64) (k: i32): f64 =
  if n <= 2 then f64.sum xs
  else let h = n / 3
       let (s, ps, t) = loop (s, ps, t) = (1, [0.5, xs[0]], 0) for c < k do
                          let j = i64.i32 c % 3
                          let y = node xs[j * h:(j + 1) * h] k
                          let zs = map (\\p -> p * f64.sin (y * s)) ps
                          in (s * 0.7 + y * ps[1], zs, t + y)
       in s * ps[0] + t + xs[n - 1]
def f [n] (xs: [n]f64): f64 = node xs 3 + node xs 0 + node xs (i32.i64 (n - 1000))
"""


def loops(xs, k=None):
    if k is None:
        return loops(xs, 3) + loops(xs, 0) + loops(xs, len(xs) - 1000)
    if len(xs) <= 2:
        return xs.sum()
    h = len(xs) // 3
    s, ps, t = 1.0, np.array([0.5, xs[0]]), 0.0
    for c in range(k):
        y = loops(xs[c * h : (c + 1) * h], k)
        s, ps, t = s * 0.7 + y * ps[1], ps * np.sin(y * s), t + y
    return s * ps[0] + t + xs[-1]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_in_loops(backend):
    p = futad.compile(LOOPS + ENTRIES, backend=backend)
    for n in (1, 3, 10, 30):
        xs = np.random.default_rng(n).uniform(0.3, 1.0, n)
        np.testing.assert_allclose(p.value(xs), loops(xs), rtol=1e-12)
        np.testing.assert_allclose(p.gradient(xs), differences(loops, xs), rtol=1e-5, atol=1e-7)
        if backend != "interp":
            assert left(p)[1] == 0 and (n < 3 or left(p)[0] > 3)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_array_twice(backend):
    """A call that is given an array twice, parts of it that overlap, and its rows."""
    text = """
def f [n][m] (xs: [n]f64) (ys: [m]f64) (i: i64): f64 =
  if i >= n || i >= m then 1 else xs[i] * ys[i] * f xs ys (i + 1) + ys[m - 1 - i]
def g [k][n] (xss: [k][n]f64): f64 =
  if k == 0 then 0 else f xss[0] xss[k - 1] 0 + f xss[0] (reverse xss[0]) 0 + 0.5 * g (drop 1 xss)
entry value [n] (xs: [n]f64): f64 = f xs xs 0 + f (take (n - 1) xs) (drop 1 xs) 0 + f xs (reverse xs) 0
                                    + g [xs, reverse xs, map (* 2) xs]
entry gradient [n] (xs: [n]f64) = vjp value xs 1
"""
    p = futad.compile(text, backend=backend)
    for n in (1, 2, 5):
        xs = np.random.default_rng(n).uniform(0.3, 1.5, n)
        np.testing.assert_allclose(p.gradient(xs), differences(p.value, xs), rtol=1e-6, atol=1e-7)
        if backend != "interp":
            assert left(p)[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_array_of_other_sizes(backend):
    """Its rows are not those of the array that it is made of."""
    text = """
def f [n][m] (xs: [n]f64) (ys: [m]f64) (i: i64): f64 =
  if i >= n || i >= m then 1 else xs[i] * ys[m - 1 - i] * f xs ys (i + 1) + 0.5 * xs[i]
def g (xss: [2][3]f64) (k: i64): f64 =
  if k == 0 then 1
  else let yss: [3][2]f64 = unflatten (flatten xss :> [3 * 2]f64) in f yss[2] yss[k % 2] 0 * g xss (k - 1) + yss[1, 0]
entry value (xs: [6]f64) = g (unflatten (sized (2 * 3) xs)) 3
entry gradient (xs: [6]f64) = vjp (\\xs -> g (unflatten (sized (2 * 3) xs)) 3) xs 1
"""
    p = futad.compile(text, backend=backend)
    xs = np.array([1.0, 2.0, 3.0, 0.5, 0.7, 0.9])
    np.testing.assert_allclose(p.gradient(xs), differences(p.value, xs), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_of_all_types_in_records(backend):
    """Records with arrays of bools, small integers and f32, of sizes that only the call knows, larger than a chunk."""
    text = """
def f [n] (xs: [n]f32) (k: i64): ([]f32, []bool, []i8, i64) =
  if k == 0 then (xs, map (> 0.5) xs, map i8.f32 xs, n)
  else let (ys, bs, is, m) = f (map (* 0.9) xs) (k - 1)
       let zs = map3 (\\y b i -> if b then y * y else y + f32.i8 i) (ys :> [m]f32) (bs :> [m]bool) (is :> [m]i8)
       in (zs ++ [xs[0] * f32.i64 m], map (> 0.4) zs ++ [true], map i8.f32 zs ++ [1], m + 1)
entry value [n] (xs: [n]f32): f32 = f32.sum (f xs 3).0
entry gradient [n] (xs: [n]f32) = vjp value xs 1
"""
    p, oracle = futad.compile(text, backend=backend), futad.compile(text.replace("f32", "f64"), backend="interp")
    for n in (1, 3, 50) if backend == "interp" else (1, 3, 50, 20000):
        xs = np.random.default_rng(n).uniform(0.6, 0.99, n).astype(np.float32)
        found = p.gradient(xs)
        np.testing.assert_allclose(found, oracle.gradient(xs.astype(float)), rtol=1e-4)
        if backend != "interp":
            assert left(p)[0] > 0 and left(p)[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_failures_leave_nothing_for_the_next_call(backend):
    text = """
def f [n] (xs: [n]f64) (i: i64): f64 =
  if i == 0 then 1 else assert (xs[0] < 3) (xs[i] * f xs (i - 1) * f xs (i / 2))
entry gradient [n] (xs: [n]f64) (i: i64) = vjp (\\xs -> f xs i) xs 1
"""
    p = futad.compile(text, backend=backend)
    xs = np.array([1.0, 2.0, 0.5, 1.5])
    first = p.gradient(xs, 3)
    for _ in range(2):
        with pytest.raises(BoundsError, match=r"Index \[4\]"):
            p.gradient(xs, 4)
        with pytest.raises(AssertionFailed):
            p.gradient(xs * 4, 3)
        np.testing.assert_array_equal(p.gradient(xs, 3), first)
        if backend != "interp":
            assert left(p)[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_records_of_threads(backend):
    """Maps that make records in one nest and read them in another, on whatever threads these run."""
    text = """
def f (ps: [3]f64) (x: f64) (k: i64): f64 = if k <= 0 then x else ps[k % 3] * f ps (x * 0.99) (k - 1) * f ps x (k - 2)
entry value [n] (ps: [3]f64) (xs: [n]f64): f64 = f64.sum (map2 (\\x i -> f ps x (i % 11)) xs (iota n))
entry gradient [n] (ps: [3]f64) (xs: [n]f64) = vjp (\\(ps, xs) -> value ps xs) (ps, xs) 1
"""
    p, q = futad.compile(text, backend=backend), futad.compile(text, backend="interp")
    ps, xs = np.array([1.01, 0.98, 1.02]), np.random.default_rng(0).uniform(0.9, 1.1, 3000)
    for _ in range(3):
        found = p.gradient(ps, xs)
        assert left(p)[0] > 10000 and left(p)[1] == 0
    few = p.gradient(ps, xs[:30])
    for x, y in zip(few, q.gradient(ps, xs[:30]), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10)
    eps = np.array([1e-6, 0, 0])
    slope = (p.value(ps + eps, xs) - p.value(ps - eps, xs)) / 2e-6
    np.testing.assert_allclose(found[0][0], slope, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_records_of_tasks(backend):
    """Each task keeps what it called, and its return sweep, a task in turn, reads that."""
    text = """
def f [n] (xs: [n]f64): f64 =
  if n == 1 then f64.sin xs[0]
  else let (a, b) = par f f (take (n / 2) xs, drop (n / 2) xs) in a * b + 0.5 * f64.sin a
"""
    p = futad.compile(text + ENTRIES, backend=backend)
    for n in (1, 2, 9):
        xs = np.random.default_rng(n).uniform(0.8, 1.5, n)
        np.testing.assert_allclose(p.gradient(xs), differences(p.value, xs), rtol=1e-6, atol=1e-8)
    if backend != "interp":
        p.gradient(np.random.default_rng(0).uniform(0.8, 1.5, 5000))
        assert left(p) == (4999, 0)
    gradient = "entry value [n] (xs: [n]f64) = f xs\nentry gradient [n] (xs: [n]f64): [n]f64 = vjp f xs 1\n"
    m = interpreted(text + gradient)
    m.run("gradient", [np.int64(64), np.ones(64)])
    assert m.records.made == 63 and m.records.left == 0


DEEP = """
def f [n] (xs: [n]f64) (i: i64): f64 = if i == n then 1 else xs[i] * f64.sin (f xs (i + 1)) + 0.5
entry gradient [n] (xs: [n]f64) = vjp (\\xs -> f xs 0) xs 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_a_million_calls_deep(backend):
    p = futad.compile(DEEP, backend=backend)
    n = 10**6
    xs = np.random.default_rng(0).uniform(0.9, 1.1, n)
    values = np.ones(n + 1)
    for i in range(n - 1, -1, -1):
        values[i] = xs[i] * np.sin(values[i + 1]) + 0.5
    bar, expected = 1.0, np.empty(n)
    for i in range(n):
        expected[i] = bar * np.sin(values[i + 1])
        bar *= xs[i] * np.cos(values[i + 1])
    np.testing.assert_allclose(p.gradient(xs), expected, rtol=1e-9, atol=1e-300)
    assert left(p) == (n, 0)


@pytest.mark.slow
def test_memory_of_a_tree():
    p = futad.compile(PRODUCTS + "entry gradient [n] (xs: [n]f64): [n]f64 = vjp tree xs 1\n", backend="c")
    n = 1 << 20
    p.gradient(np.full(n, 0.001))
    made, rest, most = library_of(p).records()
    assert made == n - 1 and rest == 0 and most <= 60 * n


def test_a_record_is_not_read_twice():
    text = """
fun main (x_1: f64) -> (y_9: f64) = {
  let r_2: rec = keep([x_1])
  let a_3: f64 = kept(r_2)
  let b_4: f64 = kept(r_2)
  let y_5: f64 = add(a_3, b_4)
  in (y_5)
}
"""
    with pytest.raises(InternalError, match="read twice"):
        Interpreter(parse_program(text)).run("main", [np.float64(1)])


def test_wrong_programs():
    parts = {
        "an accumulator in a record": "let r_2: rec = keep([a_1])\n in (r_2)",
        "used twice": "let (p_2: acc([n_0]f64), s_3: acc([n_0]f64)) = part(a_1, [])\n"
        "let b_4: acc([n_0]f64) = whole(p_2, a_1)\n in (b_4)",
        "2 indices": "let (p_2: acc([n_0]f64), s_3: acc([n_0]f64)) = part(a_1, [0i64, 0i64])\n in (a_1)",
        "is not an accumulator": "let (p_2: acc([n_0]f64), s_3: [n_0]f64) = part(xs_9, [])\n in (xs_9)",
    }
    for message, body in parts.items():
        text = f"fun main [n_0: i64] (a_1: acc([n_0]f64), xs_9: [n_0]f64) -> (r_8: rec) = {{ {body} }}"
        with pytest.raises(InternalError, match=re.escape(message)):
            check_program(parse_program(text))


@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_records_of_no_bytes(backend):
    """The first of a program, and those at the end of a chunk: a row of no elements keeps none of their records."""
    text = """
    def go [n] (xs: [n]f64) (i: i64) (w: f64): f64 = if i >= n then w else f64.sin (xs[i] + go xs (i + 1) w)
    def f [b][n][m] (xs: [b][n]f64) (ps: [b][m]f64): [b][m]f64 = map2 (\\x row -> map (go x 0) row) xs ps
    entry back [b][n][m] (xs: [b][n]f64) (ps: [b][m]f64) (ys: [b][m]f64) = vjp (\\(xs, ps) -> f xs ps) (xs, ps) ys
    """
    program = futad.compile(text, backend=backend)
    for b, n, m in ((0, 3, 2), (4, 3, 0), (3000, 2, 1), (3000, 2, 0), (1, 5000, 3)):
        xs, ps = np.full((b, n), 0.5), np.full((b, m), 0.25)
        dx, dp = program.back(xs, ps, np.ones((b, m)))
        assert left(program)[1] == 0
        if m == 0:  # nothing is derived
            assert not np.any(dx)
            assert dp.shape == (b, 0)
