"""Rules that make code of their own (sorts, trees, segmented scans) on every backend: as the interpreter."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import futad
from futad.ad.expand import expand
from futad.backend import backends
from futad.core import ir
from futad.core.check import check_program
from futad.runtime import cc
from futad.source import compile_text
from futad.target import MANY, C, target_of, thread_count
from futad.testing.build import common
from futad.testing.programs.core_derived import derived_program
from tests.support.ad_cases_all import CASES
from tests.support.ad_support import Derivs, like, make, nodes_of, run, sizes_of
from tests.support.processor_time import is_below

SOURCE = """
def mm (a: [2][2]f64) (b: [2][2]f64): [2][2]f64 =
  map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) (transpose b)) a
def weights (k: i64) = tabulate k (\\i -> f64.i64 (i + 1))
def bins [n] (k: i64) (is: [n]i64) (c: f64) (xs: [n]f64) =
  reduce_by_index (replicate k 0.1) (\\a b -> a + b + c * a * b) 0 is xs
entry general [n] (k: i64) (is: [n]i64) (xs: [n]f64) = vjp (\\(xs, c) -> bins k is c xs) (xs, 0.3) (weights k)
entry second [n] (k: i64) (is: [n]i64) (xs: [n]f64) =
  jvp (\\xs -> vjp (bins k is 0.3) xs (weights k)) xs (replicate n 1)
entry pairs [n] (k: i64) (is: [n]i64) (xs: [n]f64) =
  let after (a, b) (c, d) = (a * c, b * c + d)
  let f xs ys = unzip (reduce_by_index (replicate k (1, 0)) after (1, 0) is (zip xs ys))
  in vjp (\\(xs, ys) -> f xs ys) (xs, map (+ 1) xs) (weights k, replicate k 1)
entry products [n] (k: i64) (is: [n]i64) (xs: [n]f64) =
  vjp (reduce_by_index (replicate k 1) (*) 1 is) (map (\\x -> if x < 0.05 then 0 else x) xs) (weights k)
entry rows [n] (k: i64) (is: [n]i64) (xs: [n]f64) =
  tabulate 3 (\\r -> vjp (bins k (map (+ r) is) (f64.i64 r)) xs (weights k))
entry matrices [n] (k: i64) (is: [n]i64) (xs: [n]f64) =
  let f xs = scan mm [[1, 0], [0, 1]] (map (\\x -> [[x, 1], [0.5, -x]]) xs)
  in vjp (\\xs -> map (\\m -> f64.sum (flatten m)) (f xs)) xs (map f64.i64 (map (% k) is))
"""
NAMES = ["general", "second", "pairs", "products", "rows", "matrices"]
BACKENDS = ["c", "multicore", "emulated"]


@pytest.fixture(scope="module", params=BACKENDS)
def both(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    if not cc.compiler_available():
        pytest.skip("no C compiler")
    return futad.compile(SOURCE, backend=request.param), futad.compile(SOURCE, backend="interp")


def parts(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 200])
def test_as_the_interpreter(both: tuple[Any, Any], n: int) -> None:
    rng = np.random.default_rng(n)
    k = 9
    args = (k, rng.integers(-2, k + 2, n), rng.normal(size=n) * 0.1)
    got, want = both
    for name in NAMES:
        pairs = zip(parts(getattr(got, name)(*args)), parts(getattr(want, name)(*args)), strict=True)
        for g, w in pairs:
            np.testing.assert_allclose(g, w, rtol=1e-11, atol=1e-12, err_msg=name)


FOLDS = [c for c in CASES if c.name.startswith(("hist", "reduce", "scan", "integers", "bools", "nested"))]


@pytest.mark.slow
@pytest.mark.parametrize("c", FOLDS, ids=lambda c: c.name)
def test_what_one_thread_does_as_what_many_do(c: Any) -> None:
    """First derivatives, second ones and many directions by the loops of sequential code, and by sorts and scans."""
    program = make(c.params, c.f)
    d = Derivs(program)
    sizes, results = sizes_of(program, c.args), d.primal(c.args)
    rng = np.random.default_rng(0)
    ybar = [like(rng, y) for y in results]
    xdot = [like(rng, x) for x in (*c.args, *ybar)]
    hvp = derived_program(d.base, "f_vjp", "jvp", range(len(xdot)), "hvp")
    calls = [("f_vjp", [*sizes, *c.args, *ybar]), ("hvp", [*sizes, *c.args, *ybar, *xdot])]
    loops = expand(hvp, sequential=True)
    check_program(loops, "ad")
    for name, args in calls:
        for x, y in zip(run(loops, name, args), run(expand(hvp), name, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-11, err_msg=name)


def test_which_backends_are_sequential(monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted, few in (("1", True), ("8,2", True), ("9", False), ("64", False)):
        monkeypatch.setenv("OMP_NUM_THREADS", wanted)
        assert target_of("multicore").few == few
        assert target_of("c").few and not any(target_of(b).few for b in ("interp", "cuda", "emulated"))
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert thread_count() >= 1


@pytest.mark.slow
def test_a_histogram_on_one_thread_is_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a general histogram takes less than half the time that it takes by the sort."""
    if not cc.compiler_available():
        pytest.skip("no C compiler")
    monkeypatch.setenv("FUTAD_CFLAGS", "-O3")
    rng = np.random.default_rng(0)
    args = (1000, rng.integers(0, 1000, 200_000), rng.normal(size=200_000) * 0.1)
    loops = futad.compile(SOURCE, backend="c")
    loops.general(*args)
    monkeypatch.setattr(backends, "target_of", lambda backend: replace(C, threads=MANY))
    sort = futad.compile(SOURCE, backend="c")
    sort.general(*args)

    def seconds(p: Any) -> float:
        start = time.process_time()
        p.general(*args)
        return time.process_time() - start

    assert is_below(lambda: seconds(loops), lambda: seconds(sort), 0.5)


FOLDED = """
def lse (a: f64) (b: f64) = let m = f64.max a b in m + f64.log (f64.exp (a - m) + f64.exp (b - m))
def mm [k] (a: [k][k]f64) (b: [k][k]f64): [k][k]f64 =
  map (\\r -> map (\\c -> reduce lse (-1e30) (map2 (+) r c)) (transpose b)) a
entry reduced [n] (xs: [n]f64) = vjp (reduce lse (-1e30)) xs 1
entry scanned [n] (xs: [n]f64) (ys: [n]f64) = vjp (scan lse (-1e30)) xs ys
entry matrices [n][k] (ms: [n][k][k]f64) =
  let unit = tabulate_2d k k (\\i j -> if i == j then 0 else -1e30)
  in vjp (\\ms -> f64.sum (flatten (reduce mm unit ms))) ms 1
entry largest [n] (xs: [n]f64) (ys: [n]f64) =
  let pick (a: (f64, f64)) (b: (f64, f64)) = if a.0 >= b.0 then a else b
  in vjp (\\(xs, ys) -> let (x, y) = reduce pick (-f64.inf, 0) (zip xs ys) in x * y) (xs, ys) 1
entry started [n] (x: f64) (xs: [n]f64) = vjp (\\(x, xs) -> reduce lse x xs) (x, xs) 1
entry mixed [n] (xs: [n]f64) =
  vjp (\\xs -> let (a, b) = reduce (\\(a, b) (c, d) -> (a + c, lse b d)) (0, -1e30) (zip xs xs) in a * b) xs 1
"""


@pytest.fixture(scope="module", params=["c", "multicore"])
def folded(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    if not cc.compiler_available():
        pytest.skip("no C compiler")
    return futad.compile(FOLDED, backend=request.param), futad.compile(FOLDED, backend="interp")


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 2, 33])
def test_folds_as_loops_as_the_interpreter(folded: tuple[Any, Any], n: int) -> None:
    rng = np.random.default_rng(n)
    got, want = folded
    xs, ys = rng.normal(size=(2, n))
    ms = rng.normal(size=(n, 6, 6))
    args = {"scanned": (xs, ys), "matrices": (ms,), "largest": (xs, ys), "started": (0.5, xs)}
    for name in ("reduced", "scanned", "matrices", "largest", "started", "mixed"):
        given = args.get(name, (xs,))
        for g, w in zip(parts(getattr(got, name)(*given)), parts(getattr(want, name)(*given)), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-11, atol=1e-12, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "folds"), [("reduced", set()), ("scanned", set()), ("largest", set()), ("mixed", {ir.Reduce}),
                        ("started", {ir.Scan})]
)  # fmt: skip
def test_which_folds_become_loops(name: str, folds: set[type]) -> None:
    """All but those that have a cheap rule, and those that start from what is differentiated."""
    program = common(compile_text(FOLDED), C)
    assert nodes_of(program.funs[name].body) & {ir.Reduce, ir.Scan} == folds
