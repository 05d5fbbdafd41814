"""Arrays that loops update in place, whose inner loops take more or fewer iterations from one to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.ad.history.chains import Finder
from futad.api.program import Program
from futad.checks import checking
from futad.core import ir
from futad.core.interp import Interpreter
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.ad_support import derivative
from tests.support.needs import needs_cc

# Gaussian elimination with pivots: triangular loops.
LU = """
def f [n] (a: [n][n]f64): f64 =
  let u = loop a = copy a for k < n do
    let p = loop p = k for i in k+1..<n do if f64.abs a[i,k] > f64.abs a[p,k] then i else p
    let (row, other) = (copy a[k], copy a[p])
    let a[k] = other
    let a[p] = row
    in loop a for i in k+1..<n do
      let c = a[i,k] / a[k,k]
      let a[i,k] = c
      in loop a for j in k+1..<n do a with [i,j] = a[i,j] - c * a[k,j]
  in f64.sum (map (\\i -> f64.log (f64.abs u[i,i])) (iota n)) + u[n-1,0]
"""

# Cholesky's: ranges that get shorter, beside loops in loops whose bounds both change.
CHOLESKY = """
def f [n] (x: [n][n]f64): f64 =
  let a = map2 (\\i r -> map2 (\\j y -> y * 0.1 + if i == j then f64.i64 n else 0) (iota n) r) (iota n) x
  let l = loop a for k < n do
    let d = f64.sqrt a[k,k]
    let a[k:n,k] = map (/ d) a[k:n,k]
    in loop a for j in k+1..<n do
      loop a for i in j..<n do a with [i,j] = a[i,j] - a[i,k] * a[j,k]
  in f64.sum (map (\\i -> f64.log l[i,i]) (iota n)) + l[n-1,0]
"""

# Heap sort: while loops.
HEAP = """
def sift [n] (a: *[n]f64) (start: i64) (m: i64): *[n]f64 =
  (loop (a, i, go) = (a, start, 2 * start + 1 < m) while go do
     let l = 2 * i + 1
     let c = if l + 1 < m && a[l + 1] > a[l] then l + 1 else l
     in if a[c] > a[i]
        then let (t, u) = (a[c], a[i])
             let a[i] = t * 1.01
             let a[c] = u
             in (a, c, 2 * c + 1 < m)
        else (a, i, false)).0
def f [n] (x: [n]f64): f64 =
  let a = loop a = copy x for r < n / 2 do sift a (n / 2 - 1 - r) n
  let a = loop a for r < n - 1 do
    let m = n - 1 - r
    let (t, u) = (a[0], a[m])
    let a[0] = u
    let a[m] = t
    in sift a 0 m
  in f64.sum (map2 (\\i y -> f64.i64 i * y * y) (iota n) a)
"""

# Bounds that the elements decide, in branches, in a map.
DATA = """
def row [n] (x: [n]f64): f64 =
  f64.sum (loop a = copy x for i < n do
             let a = if a[i] > 0
                     then loop a for j < i64.f64 (a[i] * 3) do a with [(i + j) % n] = a[(i + j) % n] * 0.9 + a[i]
                     else a with [0] = a[0] * a[i]
             in if i % 3 == 0 then a else loop a for j < 4 / (i % 3) do a with [j % n] = f64.sin a[j % n])
def f [n] (x: [n][n]f64): f64 = f64.sum (map row x)
"""

PROGRAMS = {"lu": (LU, 2), "cholesky": (CHOLESKY, 2), "heap": (HEAP, 1), "data": (DATA, 2)}


def program(name: str, second: bool = False) -> str:
    """The program with its gradient as entries, and the gradient's."""
    source, rank = PROGRAMS[name]
    t = "[n]" * rank + "f64"
    source += f"entry value [n] (x: {t}): f64 = f x\nentry gradient [n] (x: {t}): {t} = vjp f x 1\n"
    return source + f"entry second [n] (x: {t}) (v: {t}): {t} = vjp (\\x -> vjp f x 1) x v\n" if second else source


def argument(name: str, n: int) -> Any:
    return np.random.default_rng(7).normal(size=(n,) * PROGRAMS[name][1])


def moved(program: ir.Program, entry: str, args: list[Any]) -> int:
    run = Interpreter(program, count=True)
    run.run(entry, args)
    return sum(w.read + w.written for w in run.counts.values())


ON = [("lu", "c"), ("cholesky", "c"), ("heap", "c"), ("heap", "emulated")]
ON += [("data", backend) for backend in ("c", "multicore", "emulated")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "backend"), ON)
def test_gradients(name: str, backend: str) -> None:
    source, x = program(name), argument(name, 7)
    expected = futad.grad(futad.compile(source, backend="interp").value, method="dual")(x)
    found = futad.compile(source, backend=backend).gradient(x)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lu", "heap", "data"])
def test_second_derivatives(name: str) -> None:
    x, v = argument(name, 5), np.random.default_rng(8).normal(size=(5,) * PROGRAMS[name][1])
    compiled = futad.compile(program(name, second=True), backend="c")
    found = compiled.second(x, v)
    np.testing.assert_allclose(found, futad.hvp(compiled.value, (x,), (v,))[0], rtol=1e-9, atol=1e-9)
    away = 1e-6
    differences = (compiled.gradient(x + away * v) - compiled.gradient(x - away * v)) / (2 * away)
    np.testing.assert_allclose(found, differences, rtol=1e-4, atol=1e-4)


def test_elements_that_only_branches_read_are_not_added_up() -> None:
    """The first derivative saves bounds where a branch is taken; the second one's memory is not had by the others."""
    x, v = argument("data", 5), np.random.default_rng(8).normal(size=(5, 5))
    interp = futad.compile(program("data", second=True), backend="interp")
    dual = futad.hvp(interp.value, (x,), (v,), method="dual")[0]
    np.testing.assert_allclose(interp.second(x, v), dual, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lu", "cholesky", "heap"])
def test_work_grows_as_the_value_does(name: str) -> None:
    """What is overwritten is saved, not the array; no array is copied where an inner loop begins or ends."""
    compiled = compile_program(compile_text(program(name)), target=C)
    for n in (16, 32):
        args = [np.int64(n), argument(name, n)]
        assert moved(compiled, "gradient", args) < 10 * moved(compiled, "value", args)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"checkpoints": 2}, {"memory": "4kB"}])
def test_budgets(options: dict[str, Any]) -> None:
    x = argument("lu", 6)
    f = futad.compile(program("lu"), backend="c")
    np.testing.assert_allclose(futad.grad(f.value, **options)(x), f.gradient(x), rtol=1e-12, atol=1e-14)


# How long a range is would be negative where the branch is not taken.
UNTAKEN = """
entry loss [n] (k: i64) (xs: [n]f64) : f64 =
  f64.sum (loop xs = copy xs for i < k do
    if i < 3
    then let len = 5 - i in xs with [0:len] = map (\\x -> f64.sin (x * xs[i])) xs[0:len]
    else xs with [i % n] = xs[i % n] * xs[0])
"""


@pytest.mark.parametrize("k", [0, 1, 9, 10, 12, 40])
def test_sizes_of_branches_that_are_not_taken(k: int) -> None:
    x = np.random.default_rng(1).normal(size=7)
    loss = futad.compile(UNTAKEN, backend="interp").loss
    np.testing.assert_allclose(futad.grad(loss, 1)(k, x), futad.grad(loss, 1, method="dual")(k, x), rtol=1e-12)


NEGATIVE = """
entry loss [n] (k: i64) (m: i64) (xs: [n]f64) : f64 =
  f64.sum (loop xs = copy xs for i < k do
    if m > 0 then xs with [0:m] = map (\\x -> f64.sin (x * xs[i % n])) xs[0:m]
    else loop xs for j < m + 4 do xs with [j % n] = xs[j % n] * xs[i % n])
"""


@pytest.mark.parametrize("m", [-5, -3, 0, 2])
@pytest.mark.parametrize("k", [0, 5])
def test_a_size_from_outside_that_is_negative(k: int, m: int) -> None:
    x = np.random.default_rng(1).normal(size=7)
    loss = futad.compile(NEGATIVE, backend="interp").loss
    np.testing.assert_allclose(futad.grad(loss, 2)(k, m, x), futad.grad(loss, 2, method="dual")(k, m, x), rtol=1e-12)


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("k", [9, 10, 40])
def test_room_for_branches_that_are_not_taken(k: int) -> None:
    x = np.random.default_rng(1).normal(size=7)
    expected = futad.grad(futad.compile(UNTAKEN, backend="interp").loss, 1)(k, x)
    with checking(["memory"]):
        found = futad.grad(futad.compile(UNTAKEN, backend="c").loss, 1)(k, x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# Bounds that are elements of arrays which the loop does not write, as of the rows of a sparse matrix.
ROWS = """
entry loss [n] [m] (starts: []i64) (columns: [m]i64) (v: [m]f64) (x: [n]f64) : f64 =
  f64.sum (loop y = copy x for i < n do
    loop y for j in starts[i]..<starts[i+1] do y with [i] = y[i] + f64.sin (v[j] * y[columns[j]]))
"""
# Such elements in a branch, at places that are not there where it is not taken; of elements that the loop writes.
LISTED = """
entry loss [n] (lengths: [n]i64) (x: [n]f64) : f64 =
  f64.sum (loop y = copy x for i < n do
    if i + 2 < n
    then let l = lengths[lengths[i + 2] % n] in y with [0:l] = map (* y[i]) y[0:l]
    else y with [i] = y[i] * y[0])
"""
OWN = """
entry loss [n] (lengths: [n]i64) (x: [n]f64) : f64 =
  (loop (y, l) = (copy x, copy lengths) for i < n do
    let y = loop y for j < l[i] do y with [j % n] = f64.sin y[j % n] * y[i]
    in (y, l with [(i + 1) % n] = 3 - l[i])).0 |> f64.sum
"""


def lengths(n: int) -> Any:
    return np.array([2, 0, 3, 1, 0, 4, 1])[:n]


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("source", [ROWS, LISTED, OWN])
def test_bounds_that_are_elements(source: str, n: int) -> None:
    rng = np.random.default_rng(2)
    of, x = lengths(n), rng.normal(size=n)
    starts = np.concatenate([[0], np.cumsum(of)]).astype(np.int64)
    columns = rng.integers(0, max(n, 1), starts[-1])
    args = [starts, columns, rng.normal(size=starts[-1]), x] if source is ROWS else [of, x]
    loss = futad.compile(source, backend="interp").loss
    found, expected = (futad.grad(loss, len(args) - 1, **how)(*args) for how in ({}, {"method": "dual"}))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_bounds_that_are_elements_are_added_up_alone() -> None:
    """Of the loop that has them there are the two sweeps, no run before that counts."""
    stms = derivative(ROWS + "entry rev [n] [m] (s: []i64) (c: [m]i64) (v: [m]f64) (x: [n]f64) = vjp (loss s c v) x 1")
    assert sum(type(s.exp) is ir.Op and s.exp.op == "sin" for s in stms) == 2


def test_a_bound_that_is_not_there_fails_as_in_the_value() -> None:
    rng = np.random.default_rng(2)
    columns, v, x = rng.integers(0, 3, 4), rng.normal(size=4), rng.normal(size=3)
    for starts in (np.array([0, 2]), np.array([0, 2, 1, 4]), np.array([0, 2, 9, 9])):
        loss = futad.compile(ROWS, backend="interp").loss
        with pytest.raises(futad.ExecutionError) as value:
            loss(starts, columns, v, x)
        with pytest.raises(futad.ExecutionError) as gradient:
            futad.grad(loss, 3)(starts, columns, v, x)
        assert str(value.value) == str(gradient.value)


def nested_branches(depth: int) -> str:
    """Three arrays through branches in branches, of which one is updated at the bottom."""
    body = "(a with [i] = b[i] * c[i], b, c)"
    for k in range(depth):
        other = ("(a with [0] = 0.5, b, c)", "(a, b with [i] = a[i], c)")[k % 2]
        body = f"(if is[i] == {k} then {body} else {other})"
    return f"""entry main [n] (xs: [n]f64) (is: [n]i64) (y: [n]f64) = vjp (\\xs ->
      (loop (a: *[n]f64, b: *[n]f64, c: *[n]f64) = (copy xs, copy xs, copy xs) for i < n do {body}).0) xs y"""


def test_chains_through_nested_branches_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    step = Finder._step

    def counted(*args: Any) -> Any:
        nonlocal steps
        steps += 1
        assert steps < 2000
        return step(*args)

    monkeypatch.setattr(Finder, "_step", counted)
    taken = []
    for depth in (3, 6, 9):
        before = steps
        compile_program(compile_text(nested_branches(depth)), passes=("inline", "asserts", "invert", "ad"), check=True)
        taken.append(steps - before)
    assert taken[2] - taken[1] <= 1.1 * (taken[1] - taken[0])
    x, is_, y = np.array([0.5, -1.0, 2.0]), np.array([3, 0, 1]), np.array([1.0, 0.5, -2.0])
    core = compile_text(nested_branches(4))
    one, other = Program(core, backend="interp"), Program(core, engine="dual")
    np.testing.assert_allclose(one.main(x, is_, y), other.main(x, is_, y), rtol=1e-12)
