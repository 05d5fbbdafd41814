"""Loops that one block runs: as the interpreter computes them, in a handful of launches; wide ones are the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core import ir
from futad.core.types import I64, Var
from futad.errors import Error
from futad.flatten import kernel as kir
from futad.flatten.barriers import fewer_barriers, stop_at_failures
from futad.flatten.narrow_loops import narrow
from futad.imp import ir as imp
from futad.imp.walk import statements
from futad.runtime.device import EmulatedDevice
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
def affine [m][n] (a: [m][n]f64) (b: [m]f64) (x: [n]f64): [m]f64 = map2 (\\row c -> f64.sum (map2 (*) row x) + c) a b
def matmul [n][m][k] (a: [n][m]f64) (b: [m][k]f64): [n][k]f64 =
  map (\\row -> map (\\col -> f64.sum (map2 (*) row col)) (transpose b)) a

-- A neural differential equation, and its gradient: histories, accumulators, folds of rows.
def ode [d][h] (k: i64) (w1: [h][d]f64) (b1: [h]f64) (w2: [d][h]f64) (b2: [d]f64) (y: [d]f64): f64 =
  let f y = affine w2 b2 (map f64.tanh (affine w1 b1 y))
  let y = loop y for _i < k do
    let k1 = f y
    let k2 = f (map2 (\\a k -> a + 0.05 * k) y k1)
    in map3 (\\a p q -> a + 0.05 * (p + q)) y k1 k2
  in f64.sum (map (\\a -> a * a) y)
entry neural [d][h] (k: i64) (w1: [h][d]f64) (b1: [h]f64) (w2: [d][h]f64) (b2: [d]f64) (y: [d]f64) =
  (ode k w1 b1 w2 b2 y, vjp (\\(w1, b1, w2, b2, y) -> ode k w1 b1 w2 b2 y) (w1, b1, w2, b2, y) 1)

-- Element by element, in place: nested loops, branches, parts whose sizes iterations compute.
def factor [n] (a: [n][n]f64): [n][n]f64 =
  loop l = replicate n (replicate n 0) for i < n do
    loop l for j < i + 1 do
      let s = f64.sum (map2 (*) l[i, :j] l[j, :j])
      in if i == j then l with [i, j] = f64.sqrt (a[i, i] - s) else l with [i, j] = (a[i, j] - s) / l[j, j]
def solve [n] (l: [n][n]f64) (b: [n]f64): [n]f64 =
  loop x = replicate n 0 for i < n do x with [i] = (b[i] - f64.sum (map2 (*) l[i, :i] x[:i])) / l[i, i]
entry cholesky [n] (a: [n][n]f64) (b: [n]f64) =
  let f a b = f64.sum (map (\\x -> x * x) (solve (factor a) b))
  in (factor a, f a b, vjp (\\(a, b) -> f a b) (a, b) 1)

-- Small products, of constant sizes.
def filter [t] (q: f64) (z: [t][6]f64): f64 =
  let f = tabulate_2d 6 6 (\\i j -> if i == j then 1 else if i + 3 == j then 0.1 else 0)
  in (loop (x, p, s) = (replicate 6 0, f, 0) for i < t do
        let p = map2 (map2 (+)) (matmul f (matmul p (transpose f))) (map (map (* q)) f)
        let det = p[0, 0] * p[1, 1] - p[0, 1] * p[1, 0] + 1
        let x = map2 (\\row e -> f64.sum (map2 (*) row x) + e / det) p z[i]
        in (x, map (map (/ (1 + det))) p, s + f64.log det + f64.sum (map2 (*) x z[i]))).2
entry kalman [t] (q: f64) (z: [t][6]f64) = (filter q z, vjp (\\q -> filter q z) q 1)

-- Loops that stop by what they compute; several variables, that change places.
entry until [n] (limit: f64) (xs: [n]f64): (i64, [n]f64) =
  loop (k, xs) = (0, xs) while k < 50 && f64.sum xs > limit do (k + 1, map (\\x -> x / (1.5 + f64.i64 k)) xs)
entry swapped [n] (k: i64) (xs: [n]f64) (ys: [n]f64): ([n]f64, [n]f64, f64) =
  loop (a, b, s) = (xs, ys, 0) for i < k do (b, map2 (\\p q -> p * 0.5 + q + f64.i64 i) a b, s + f64.maximum a)
entry fibonacci [n] (k: i64) (xs: [n]i64): i64 =
  let (a, b) = loop (a, b) = (1, 1) for i < k do (b, (a + b + i64.sum (map (* a) xs)) % 1000) in a * 1000 + b

-- Bins, scans, parts, literals, writes, branches with arrays, matrices of rows.
entry mixed [n] (k: i64) (xs: [n]i64): ([n]i64, [4]i64, [n]i64) =
  loop (xs, bins, ys) = (copy xs, [0, 1, 2, 3], map (* 2) xs) for i < k do
    let bins = reduce_by_index bins (+) 0 (map (% 5) xs) xs
    let ys = if i % 2 == 0 then scan (+) 0 ys else rotate 1 ys
    let xs = if n > 0 then xs with [i % n] = bins[i % 4] else xs
    let part = xs[n / 3:n - n / 3]
    in (map2 (\\x y -> (x + y + i64.sum part) % 17) xs ys, bins, scatter ys (map (\\j -> (j + i) % n) (iota n)) xs)
entry rows [n][m] (k: i64) (a: [n][m]f64): ([n][m]f64, f64) =
  loop (a, s) = (a, 0) for _i < k do
    let b = map (\\r -> let top = f64.maximum r in let e = map (\\x -> f64.exp (x - top)) r
                       let z = f64.sum e in map (\\x -> x / (z + 1)) e) a
    in (b, s + f64.sum (map2 (\\p q -> f64.sum (map2 (*) p q)) a b))

-- Loops inside in which nothing is parallel: in place, with scalars, with accumulators, failing.
entry inner [n] (k: i64) (xs: [n]f64) (is: [n]i64): ([n]f64, f64) =
  loop (xs, s) = (copy xs, 0) for _i < k do
    let (xs, t) = loop (xs, t) = (xs, 0) for j < n do
      let y = if j == 0 then s else xs[j - 1] in (xs with [j] = 0.5 * (xs[j] + y), t + y)
    let u = loop u = 1 for j < n do 0.5 * u + xs[j]
    let ys = loop ys = map (* 0.5) xs for j < n do ys with [is[j]] = t + ys[is[j]]
    in (map2 (\\x y -> f64.cos (x + y)) (rotate 1 xs) ys, s + u + f64.sum ys)
entry relaxed [n] (k: i64) (xs: [n]f64) =
  vjp (\\xs -> loop xs for _i < k do
                let ys = loop ys = copy xs for j < n do ys with [j] = f64.sin (ys[j] + if j > 0 then ys[j - 1] else 0)
                in map2 (*) ys (reverse ys)) xs (map (const 1) xs)

-- A check that fails in some iteration, in a thread, and what follows from that.
entry fails [n] (k: i64) (is: [n]i64) (xs: [n]f64): f64 =
  (loop (s, is) = (0, is) while s < 1e9 && s < f64.i64 k do
     let ys = map (\\i -> xs[i]) is
     in (s + f64.abs (f64.sum ys) + 1, map (+ 1) is)).0
entry ends [n] (k: i64) (xs: [n]f64): f64 =
  loop s = 0 for i < k do
    let j = if n > 0 then i64.f64 (xs[i % n]) else 0
    in s + f64.sum (map (\\x -> x * xs[j]) xs)
"""
R = np.random.default_rng(3)
SPD = [(lambda m: m @ m.T + n * np.eye(n))(R.normal(size=(n, n))) for n in (0, 1, 7)]


def net(k: int, d: int, h: int) -> list[Any]:
    shapes = [(h, d), (h,), (d, h), (d,), (d,)]
    return [*map(np.int64, (h, d, k)), *[0.3 * R.normal(size=s) for s in shapes]]


def ints(n: int) -> Any:
    return R.integers(0, 9, n)


CASES: dict[str, list[list[Any]]] = {
    "neural": [net(k, d, h) for k, d, h in ((6, 3, 9), (1, 1, 1), (0, 2, 3), (2, 0, 3), (3, 2, 0), (2, 3, 40))],
    "cholesky": [[np.int64(len(a)), a, R.normal(size=len(a))] for a in SPD],
    "kalman": [[np.int64(t), np.float64(0.3), R.normal(size=(t, 6))] for t in (0, 1, 6)],
    "until": [[np.int64(n), np.float64(x), R.random(n)] for n, x in ((9, 0.5), (9, 100.0), (0, 0.5), (1, 1e-3))]
    + [[np.int64(3), np.float64(0.1), np.array([1, np.nan, 2])]],
    "swapped": [[*map(np.int64, (n, k)), R.random(n), R.random(n)]
                for n, k in ((5, 4), (5, 3), (1, 0), (0, 2), (70, 2))],
    "fibonacci": [[*map(np.int64, (n, k)), ints(n)] for n, k in ((5, 9), (0, 4), (40, 1), (3, 0))],
    "mixed": [[*map(np.int64, (n, k)), ints(n)] for n, k in ((6, 5), (1, 3), (0, 3), (40, 4), (4, 0))],
    "rows": [[*map(np.int64, (n, m, k)), R.normal(size=(n, m))]
             for n, m, k in ((3, 40, 3), (40, 3, 2), (1, 65, 2), (0, 4, 2), (4, 0, 1), (2, 2, 0))],
    "inner": [[*map(np.int64, (n, k)), R.random(n), np.array(x, np.int64)]
              for n, k, x in ((4, 3, [0, 1, 3, 2]), (1, 2, [0]), (0, 3, []), (3, 0, [9, 9, 9]), (3, 2, [1, 5, 0]))],
    "relaxed": [[*map(np.int64, (n, k)), R.random(n)] for n, k in ((5, 3), (1, 2), (0, 2), (40, 2), (3, 0))],
    "fails": [[*map(np.int64, (n, k)), np.arange(n) % 3, R.random(n) + 1] for n, k in ((5, 3), (5, 40), (40, 1000))],
    "ends": [[*map(np.int64, (n, k)), np.array(x, float)]
             for n, k, x in ((3, 9, [0, 1, 2]), (3, 9, [0, 1, 5]), (3, 0, [7, 7, 7]), (2, 4, [1, np.nan]))],
}  # fmt: skip
DEVICE = OnDevice(SOURCE, "one_block.fut", check=True)


def outcome(run: Any, name: str, args: list[Any]) -> Any:
    """The results, or the error and the place that it names."""
    try:
        return run(name, [a.copy() if isinstance(a, np.ndarray) else a for a in args])
    except Error as e:
        return type(e), str(e)


def same(got: Any, want: Any, about: Any) -> None:
    if isinstance(want, tuple):
        assert got == want, about
        return
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12, err_msg=str(about))


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", list(CASES))
def test_equal_to_the_interpreter(name: str) -> None:
    """By one block whatever the sizes, by the host, and as the sizes say."""
    own = DEVICE.emulated.device.limits.thresholds
    for args in CASES[name]:
        want = outcome(DEVICE.interpreted, name, args)
        for limit in (1 << 40, -1, own.one_block):
            DEVICE.emulated.choose(own._replace(one_block=limit))
            for _ in range(3):  # run, captured, replayed
                same(outcome(DEVICE.run, name, args), want, (name, limit))
    DEVICE.emulated.choose(own)


def test_each_loop_is_made_for_one_block() -> None:
    for name in CASES:
        f = next(f for f in DEVICE.backend.module.functions if f.name == DEVICE.symbol(name))
        kinds = [s.kernel.kind for s in statements(f.body) if isinstance(s, kir.Launch)]
        assert sum(k.startswith("alone") for k in kinds) >= (name in ("neural", "cholesky", "kalman")) + 1, name


@pytest.mark.slow
@needs_cxx
def test_a_handful_of_launches() -> None:
    """However many iterations there are; the host reads nothing to go on, and wide iterations are the host's."""
    own = DEVICE.emulated.device.limits.thresholds

    def launches(name: str, args: list[Any], limit: int) -> int:
        DEVICE.emulated.choose(own._replace(one_block=limit))
        DEVICE.run(name, args)
        counts = DEVICE.emulated.runtime.counts
        if limit > 0:
            assert counts.reads <= (name == "until"), name  # a result that the host wants
        return counts.launches

    calls = {
        "neural": [net(k, 3, 8) for k in (5, 20)],
        "cholesky": [CASES["cholesky"][-1]] * 2,
        "kalman": [[np.int64(t), np.float64(0.3), R.normal(size=(t, 6))] for t in (5, 20)],
        "until": [[np.int64(6), np.float64(x), 9 * R.random(6)] for x in (20.0, 0.01)],
    }
    for name, (short, long) in calls.items():
        by_block = launches(name, short, own.one_block)
        assert by_block == launches(name, long, own.one_block) <= 24, name
        if name != "kalman":  # whose sizes are constants: no version of the host's is made
            assert launches(name, long, -1) > 3 * by_block, name
    wide = [*map(np.int64, (5000, 3)), R.random(5000), R.random(5000)]
    assert launches("swapped", wide, own.one_block) == launches("swapped", wide, -1) > 3
    DEVICE.emulated.choose(own)


@pytest.mark.slow(apart=True)
@needs_cxx
@pytest.mark.parametrize("sanitize", ["address", "thread"])
def test_under_the_sanitizers(sanitize: str) -> None:
    """Every access is inside its array, and barriers order those of different threads."""
    device = EmulatedDevice(sanitize=sanitize)
    running = DEVICE.on(device)
    running.choose(device.limits.thresholds._replace(one_block=1 << 40))
    for name in CASES:
        args = CASES[name][0]
        same(running.run(DEVICE.symbol(name), args), DEVICE.interpreted(name, args), name)


def loops(source: str) -> list[ir.Stm]:
    """The loops of a program that the host meets."""
    program = OnDevice(source).program
    found = [s for f in program.funs.values() for s in f.body.stms if isinstance(s.exp, ir.Loop)]
    assert found
    return found


UNBOUNDED = {
    "entry main [n] (xs: [n]f64) = loop xs = copy xs for i < 9 do map (\\x -> loop x while x > 1 do x / 2) xs",
    "entry main (k: i64) (xs: []f64) = loop xs for i < k do xs ++ [f64.i64 i]",
    "entry main [n] (k: i64) (is: [n]i64) = loop s = 0 for i < k do s + i64.sum (iota (is[i] + s))",
}


@pytest.mark.parametrize("source", sorted(UNBOUNDED))
def test_loops_that_sizes_do_not_bound_are_the_hosts(source: str) -> None:
    assert not any(narrow(s, ir.Program({})) for s in loops(source))


def test_work_and_launches() -> None:
    """A loop over rows of a matrix: its work is the matrix and the row, and what few lanes do alone counts more."""
    (s,) = loops("entry main [n][m] (k: i64) (a: [n][m]f64) (x: [m]f64): [n]f64 ="
                 " loop y = replicate n 0 for _i < k do map2 (\\r c -> f64.sum (map2 (*) r x) + c) a y")  # fmt: skip
    found = narrow(s, ir.Program({}))
    assert found is not None and found.fewest == 1 and found.constant() is None
    assert sorted(len([a for a in term if isinstance(a, Var)]) for term in found.work) == [0, 1, 1, 2]


def test_all_threads_stop_at_the_barrier_after_a_failure() -> None:
    def made(check: bool) -> list[imp.Stmt]:
        inside: list[imp.Stmt] = [imp.Check(imp.TRUE, 1, 0)] if check else []
        shared: list[imp.Stmt] = [kir.Sync(), kir.Stride("i", "futad_tid", imp.ONE, "futad_width", inside), kir.Sync()]
        return [imp.For("k", imp.ONE, [*shared, kir.Sync(), imp.If(imp.TRUE, [kir.Single([*inside])], [])])]

    plain, failing = made(False), made(True)
    for body in (plain, failing):
        stop_at_failures(body)
    assert not any(isinstance(s, kir.Stop) for s in statements(plain))
    (loop,) = failing
    assert isinstance(loop, imp.For)
    kinds = [type(s).__name__ for s in loop.body]
    assert kinds == ["Sync", "Stride", "Stop", "Sync", "If", "Stop"]  # the last for what the branch may have failed in


def test_barriers_with_nothing_between_are_one() -> None:
    def store() -> imp.Stmt:
        return imp.Store("a", imp.ZERO, imp.ONE)

    def count(body: list[imp.Stmt]) -> int:
        fewer_barriers(body)
        return sum(isinstance(s, kir.Sync) for s in statements(body))

    declared = imp.Decl("x", I64, imp.ONE)
    loaded = imp.Decl("y", I64, imp.Load("a", imp.ZERO, I64))
    assert count([kir.Sync(), declared, kir.Sync(), store()]) == 1
    assert count([kir.Sync(), loaded, kir.Sync(), store()]) == 2
    assert count([kir.Single([store()]), kir.Sync(), declared, kir.Single([store()]), kir.Sync()]) == 1
    assert count([kir.Single([store()]), kir.Sync(), loaded, kir.Single([store()]), kir.Sync()]) == 2
    # What ends an iteration is before the next one's begin.
    assert count([kir.Sync(), imp.For("i", imp.ONE, [kir.Sync(), store(), kir.Sync()])]) == 2
    assert count([kir.Sync(), imp.For("i", imp.ONE, [kir.Sync(), store()])]) == 2
    assert count([kir.Sync(), kir.Stop(), store()]) == 0
