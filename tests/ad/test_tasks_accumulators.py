"""Adjoints of arrays that tasks read: accumulators that both add to, whoever does the tasks."""

from __future__ import annotations

import time

import numpy as np
import pytest

import futad
from futad.core.interp import Interpreter
from futad.core.ir import Par, statements
from futad.core.types import AccType
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import TARGETS
from tests.backend.test_tasks import threads
from tests.support.needs import needs_cc

pytestmark = needs_cc

PROGRAMS = {
    "halves": """
def f [n] (xs: [n]f64): f64 =
  if n == 0 then 0 else if n == 1 then f64.sin xs[0]
  else let (a, b) = par f f (take (n / 2) xs, drop (n / 2) xs) in 0.5 * a * b + b
""",
    "ranges": """
def g [n] (xs: [n]f64) (a: i64) (b: i64): f64 =
  if b - a == 0 then 0 else if b - a == 1 then f64.sin xs[a]
  else let m = (a + b) / 2 in let (x, y) = par (g xs a) (g xs m) (m, b) in 0.5 * x * y + y
def f [n] (xs: [n]f64): f64 = g xs 0 n
""",
    "shared": """
def g [n] (ws: [n]f64) (d: i64) (x: f64): f64 =
  if d == 0 then f64.sum (map (\\w -> f64.sin (w * x)) ws)
  else let (a, b) = par (g ws (d - 1)) (g ws (d - 1)) (x * 0.5, x + 0.1) in 0.3 * a + f64.cos b * x
def f [n] (xs: [n]f64): f64 = g xs 6 0.7
""",
    "overlapping": """
def f [n] (xs: [n]f64): f64 =
  if n <= 2 then f64.sum xs * f64.sum xs
  else let k = n - n / 3
       let (a, b) = par f f (take k xs, drop (n - k) xs) in 0.5 * a + f64.sin b * xs[n / 2]
""",
    "a part and the whole": """
def f [n] (xs: [n]f64): f64 =
  if n <= 1 then f64.sum xs
  else let h = n / 2
       let (ys, zs) = (take h xs, drop h xs)
       let (a, b) = par (\\t -> f ys * t + xs[n - 1]) (\\t -> f zs * xs[0] + f64.sin ys[0] * t) (0.3, 0.7) in a * b + a
""",
    "a part and the whole in one call": """
def g [n][m] (xs: [n]f64) (ys: [m]f64): f64 =
  if n <= 1 || m <= 1 then f64.sum xs * f64.sum ys
  else let (a, b) = par (\\xs -> g xs ys) (\\ys -> g xs ys) (take (n / 2) xs, drop (m / 2) ys) in a + f64.sin b
def f [n] (xs: [n]f64): f64 =
  let ys = take (n / 2) xs
  let (a, b) = par (\\t -> t * g xs ys) (\\t -> t + g ys xs) (0.3, 0.7) in a * b
""",
    "rows": """
def g [n][m] (xs: [n][m]f64): f64 =
  if n == 1 then f64.sum (map2 (\\x i -> x * f64.i64 (i + 1)) xs[0] (iota m))
  else let (a, b) = par g g (take (n / 2) xs, drop (n / 2) xs) in a * 0.9 + f64.sin b
def f [n] (xs: [n]f64): f64 = g (map (\\i -> map (\\x -> x * f64.i64 i) xs) (iota 5)) + g (replicate 3 xs)
""",
    "columns": """
def g [n][m] (xs: [n][m]f64): f64 =
  if m <= 1 then f64.sum (map f64.sum xs)
  else let h = m / 2
       let (a, b) = par g g (xs[:, :h], xs[:, h:]) in a * f64.sin b + b
def f [n] (xs: [n]f64): f64 = g (map (\\i -> map (\\x -> x * f64.i64 (i + 1)) xs) (iota 4))
""",
    "backwards": """
def f [n] (xs: [n]f64): f64 =
  if n <= 1 then f64.sum (map f64.sin xs)
  else let (a, b) = par f f (xs[::-1][:n / 2], xs[::2]) in a * 0.7 + f64.cos b
""",
    "few": """
def g (ws: [3]f64) (d: i64) (x: f64): f64 =
  if d == 0 then ws[0] * x + ws[1] * f64.sin (ws[2] * x)
  else let (a, b) = par (g ws (d - 1)) (g ws (d - 1)) (x * 0.5, x + 0.1) in 0.3 * a + f64.cos b
def f [n] (xs: [n]f64): f64 = g [f64.sum xs, f64.product xs, 0.5] 5 0.7
""",
    "in maps, loops and branches": """
def g [n] (xs: [n]f64) (d: i64) (x: f64): f64 =
  if d == 0 then x * f64.sum xs else
  let both i = let (a, b) = par (g xs (d - 1)) (g (reverse xs) (d - 2 |> i64.max 0)) (x, x * f64.i64 i) in a * b
  let ys = map (\\i -> if i % 2 == 0 then both i else xs[i % n]) (iota 3)
  in loop s = 0 for i < 3 do
       let (a, b) = par (\\t -> g xs (d - 1) t) (\\t -> xs[0] * t) (s * 0.1, ys[i]) in 0.1 * a + b
def f [n] (xs: [n]f64): f64 = if n == 0 then 0 else g xs 2 0.4
""",
    "asserted sizes": """
def smooth [n] (xs: [n]f64): [n]f64 =
  if n <= 1 then map f64.sin xs
  else let h = n / 2
       let (l, r) = par smooth smooth (take h xs, drop h xs)
       let m = l[h - 1] * r[0]
       in sized n (map (\\x -> x + 0.1 * m) l ++ map (\\x -> x * (1 + 0.2 * m)) r)
def f [n] (xs: [n]f64): f64 = f64.sum (map2 (\\x i -> x * f64.i64 i) (smooth xs) (iota n))
""",
    "forks in a task": """
def g [n] (xs: [n]f64) (d: i64): f64 =
  if d <= 0 then f64.sum (map (** 2) xs) else
  let (a, b) = par (\\d -> (let (p, q) = par (g xs) (g (take (n / 2) xs)) (d - 1, d - 3) in p * q * 1e-3))
                   (\\d -> (let (p, q) = par (g xs) (g (drop (n / 2) xs)) (d - 2, d - 1) in p - q)) (d, d)
  in a + 0.5 * b
def f [n] (xs: [n]f64): f64 = g xs 4
""",
}
ENTRIES = """
entry value [n] (xs: [n]f64): f64 = f xs
entry gradient [n] (xs: [n]f64): [n]f64 = vjp f xs 1
entry hvp [n] (xs: [n]f64) (v: [n]f64): [n]f64 = jvp (\\x -> vjp f x 1) xs v
entry again [n] (xs: [n]f64) (v: [n]f64): [n]f64 = vjp (\\x -> vjp f x 1) xs v
"""
#: Programs whose tasks have parts that are apart, or few elements: the same bits whoever does them.
SAME = ("halves", "rows", "few", "ranges")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name):
    text = PROGRAMS[name] + ENTRIES
    programs = [futad.compile(text, backend=b) for b in ("interp", "c", "multicore")]
    dual = futad.grad(programs[0].value, method="dual")
    for n in (0, 1, 2, 7):
        xs, v = np.random.default_rng(n).uniform(0.3, 1.2, n), np.linspace(-1, 1, n)
        expected = dual(xs)
        step = 1e-6
        ends = [programs[0].gradient(xs + s * step * v) for s in (1, -1)]
        for p in programs:
            np.testing.assert_allclose(p.gradient(xs), expected, rtol=1e-11, atol=1e-12)
            np.testing.assert_allclose(p.hvp(xs, v), (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(p.again(xs, v), p.hvp(xs, v), rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_others_take_tasks(name):
    """A thread that takes a task adds to memory of its own where that is not apart."""
    text = PROGRAMS[name] + ENTRIES[: ENTRIES.index("entry hvp")]
    p, c = futad.compile(text, backend="multicore"), futad.compile(text, backend="c")
    xs = np.random.default_rng(1).uniform(0.3, 1.2, 60)
    expected = c.gradient(xs)
    with threads(p, 4) as taken:
        first, before, end = p.gradient(xs), taken(), time.monotonic() + 3
        for k in range(300):
            found = p.gradient(xs)
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
            if name in SAME:
                np.testing.assert_array_equal(found, first)
            if k >= 20 and taken() > before + 10 or time.monotonic() > end:
                break


@pytest.mark.slow
def test_tasks_add_to_accumulators():
    program = compile_program(compile_text(PROGRAMS["ranges"] + ENTRIES), target=TARGETS["multicore"], check=True)
    tasks = [s for f in program.funs.values() for s in statements(f.body.stms) if isinstance(s.exp, Par)]
    assert any([isinstance(v.type, AccType) for v in s.pat] == [True, True] for s in tasks)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["halves", "ranges"])
def test_work(name):
    """Operations and elements that are read and written, of the gradient over those of the value: a constant."""
    m = Interpreter(compile_program(compile_text(PROGRAMS[name] + ENTRIES), check=True), count=True)
    factors = []
    for n in (32, 512):
        work = []
        for entry in ("value", "gradient"):
            m.counts.clear()
            m.run(entry, [np.int64(n), np.linspace(0, 1, n)])
            work.append(sum(w.ops + w.read + w.written for w in m.counts.values()))
        factors.append(work[1] / work[0])
    assert factors[1] < 1.2 * factors[0] < 6
