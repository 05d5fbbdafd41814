"""Recursive functions on the backends: against Python, deep and endless, in maps, with arrays; Futhark's own tests."""

from __future__ import annotations

import re
import subprocess
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import futad
from futad.backend.backends import Interpreted
from futad.cli import main as command
from futad.errors import BackendError, BoundsError, ExecutionError, TooDeep
from tests.support.compiled import library_of
from tests.support.needs import needs_cc
from tests.support.slow import slow_but

BACKENDS = ["interp", "c", "multicore"]
pytestmark = needs_cc

PROGRAM = """
def even (n: i64): bool = if n == 0 then true else odd (n - 1)
def odd (n: i64): bool = if n == 0 then false else even (n - 1)

def ack (m: i64) (n: i64): i64 =
  if m == 0 then n + 1 else if n == 0 then ack (m - 1) 1 else ack (m - 1) (ack m (n - 1))

def tree [n] (xs: [n]f64): f64 =
  if n == 0 then 0 else if n == 1 then xs[0] else let h = n / 2 in tree (take h xs) + tree (drop h xs)

def merge [n][m] (a: [n]f64) (b: [m]f64): [n + m]f64 =
  (loop (r, i, j) = (replicate (n + m) 0.0, 0, 0) for k < n + m do
     if j >= m || (i < n && a[i] <= b[j]) then (r with [k] = a[i], i + 1, j) else (r with [k] = b[j], i, j + 1)).0

def msort [n] (xs: [n]f64): [n]f64 =
  if n <= 1 then xs
  else let h = n / 2 in merge (msort (take h xs)) (msort (drop h xs)) :> [n]f64

def quick [n] (xs: [n]f64): []f64 =
  if n <= 1 then xs
  else let (a, b) = partition (<= xs[0]) (drop 1 xs) in quick a ++ [xs[0]] ++ quick b

def hanoi (n: i64) (a: i64) (b: i64) (c: i64): [](i64, i64) =
  if n == 0 then [] else hanoi (n - 1) a c b ++ [(a, c)] ++ hanoi (n - 1) b a c

def depth (n: i64): (i64, f64) =
  if n <= 0 then (0, 1) else let (d, x) = depth (n - 1) in let (e, y) = depth (n - 2) in (1 + i64.max d e, x + y)

def power [n] (a: [n][n]f64) (k: i64): [n][n]f64 =
  let product (x: [n][n]f64) (y: [n][n]f64) =
    map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) (transpose y)) x
  in if k == 0 then tabulate_2d n n (\\i j -> f64.bool (i == j))
     else let h = power a (k / 2) in let s = product h h in if k % 2 == 0 then s else product a s

entry parity (n: i64) = (even n, odd n)
entry ackermann (m: i64) (n: i64) = ack m n
entry sum [n] (xs: [n]f64) = tree xs
entry sorted [n] (xs: [n]f64) = msort xs
entry quicksorted [n] (xs: [n]f64) = quick xs
entry moves (n: i64) = unzip (hanoi n 1 2 3)
entry fibonacci (n: i64) = depth n
entry powers [n] (a: [n][n]f64) (k: i64) = power a k
entry sums [n] (ks: [n]i64) = map (\\k -> tree (map f64.i64 (iota k))) ks
entry depths [n] (ks: [n]i64) = map (\\k -> (depth k).1 + f64.i64 (ack 1 k)) ks
entry in_loop [n] (xs: [n]f64) (k: i64) = loop ys = xs for i < k do map (+ f64.i64 i) (msort (reverse ys))
"""


@pytest.fixture(scope="module", params=BACKENDS)
def program(request):
    return futad.compile(PROGRAM, backend=request.param)


def fibonacci(n):
    if n <= 0:
        return 0, 1.0
    (d, x), (e, y) = fibonacci(n - 1), fibonacci(n - 2)
    return 1 + max(d, e), x + y


def hanoi(n, a, b, c):
    return [] if n == 0 else [*hanoi(n - 1, a, c, b), (a, c), *hanoi(n - 1, b, a, c)]


@pytest.mark.slow
def test_scalars(program):
    assert [program.parity(n)[0] for n in range(6)] == [True, False] * 3
    assert program.ackermann(2, 3) == 9 and program.ackermann(0, 0) == 1
    for n in range(-1, 10):
        assert tuple(program.fibonacci(n)) == fibonacci(n)


@pytest.mark.slow
@pytest.mark.parametrize("n", slow_but([0, 1, 7, 64], [0, 1, 2, 3, 7, 64, 501]))
def test_arrays(program, n):
    rng = np.random.default_rng(n)
    xs = np.round(rng.normal(size=n), 1)
    np.testing.assert_allclose(program.sum(xs), xs.sum(), atol=1e-12)
    np.testing.assert_array_equal(program.sorted(xs), np.sort(xs))
    np.testing.assert_array_equal(program.quicksorted(xs), np.sort(xs))
    ys = xs
    for i in range(3):
        ys = np.sort(ys[::-1]) + i
    np.testing.assert_array_equal(program.in_loop(xs, 3), ys)


def test_results_of_any_size(program):
    for n in range(6):
        found = program.moves(n)
        assert list(zip(*[x.tolist() for x in found], strict=True)) == hanoi(n, 1, 2, 3)


def test_matrices(program):
    a = np.random.default_rng(0).normal(size=(3, 3))
    for k in range(6):
        np.testing.assert_allclose(program.powers(a, k), np.linalg.matrix_power(a, k), atol=1e-12)


def test_in_maps_with_other_depths(program):
    ks = np.array([0, 1, 5, 9, 2, 30, 0])
    np.testing.assert_allclose(program.sums(ks), [k * (k - 1) / 2 for k in ks])
    ks = np.arange(12)
    np.testing.assert_allclose(program.depths(ks), [fibonacci(k)[1] + k + 2 for k in ks])
    assert program.sums(np.array([], np.int64)).shape == (0,)
    many = np.arange(30 if program.backend == "interp" else 3000) % 50
    np.testing.assert_allclose(program.sums(many), many * (many - 1) / 2)


def test_calls_give_back_their_memory(program):
    if program.backend == "interp":
        pytest.skip("the interpreter has no memory of its own")
    xs = np.random.default_rng(0).normal(size=1000)
    program.sorted(xs)
    library = library_of(program)
    held = [program.sorted(xs) is not None and library.memory()[0] for _ in range(5)]
    assert held[0] == held[-1] < 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_par(backend):
    text = """
def quick [n] (xs: [n]f64): []f64 =
  if n <= 1 then xs
  else let (a, b) = par quick quick (partition (<= xs[0]) (drop 1 xs)) in a ++ [xs[0]] ++ b
def tree [n] (xs: [n]f64): f64 =
  if n == 1 then xs[0] else let (a, b) = par tree tree (take (n / 2) xs, drop (n / 2) xs) in a * b + f64.sin a
entry sorted [n] (xs: [n]f64) = quick xs
entry gradient [n] (xs: [n]f64) = vjp tree xs 1
entry value [n] (xs: [n]f64) = tree xs
"""
    p = futad.compile(text, backend=backend)
    xs = np.random.default_rng(5).uniform(0.5, 1.5, 9)
    np.testing.assert_array_equal(p.sorted(xs), np.sort(xs))
    slopes = [(p.value(xs + 1e-6 * e) - p.value(xs - 1e-6 * e)) / 2e-6 for e in np.eye(9)]
    np.testing.assert_allclose(p.gradient(xs), slopes, rtol=1e-6, atol=1e-8)


# --- how deep --------------------------------------------------------------------------------------------------

COUNT = "def f (n: i64): i64 = if n == 0 then 0 else 1 + f (n - 1)\nentry main (n: i64) = f n\n"
ENDLESS = "def g (n: i64): i64 = if n < 0 then 0 else 1 + g (n + 1)\nentry main (n: i64) = g n\n"
ARRAYS = """
def f [n] (xs: [n]f64) (k: i64): [n]f64 =
  if k == 0 then xs else let ys = map (+ 1) xs in map2 (+) ys (f (map (* 0.5) ys) (k - 1))
entry main [n] (xs: [n]f64) (k: i64) = f xs k
"""


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "depth"), [("interp", 10**4), ("c", 10**6), ("multicore", 10**6)])
def test_deep_recursion_runs(backend, depth):
    assert futad.compile(COUNT, backend=backend).main(depth) == depth


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "stack"), slow_but(
    [("interp", None), ("c", "64M")], [("interp", None), ("c", "64M"), ("c", None), ("multicore", None)]
))
def test_endless_recursion_is_an_error_with_its_place(backend, stack, monkeypatch):
    if stack is not None:
        monkeypatch.setenv("FUTAD_STACK", stack)
    program = futad.compile(ENDLESS, backend=backend)
    assert program.main(-1) == 0
    for _ in range(1 if backend == "interp" else 2):
        start = time.perf_counter()
        with pytest.raises(TooDeep, match=r"recursion is deeper than \d+ calls") as caught:
            program.main(0)
        assert caught.value.span is not None and caught.value.span.line == 1
        assert time.perf_counter() - start < 20  # the limit of 5 s is for a machine that does nothing else
    assert isinstance(caught.value, ExecutionError) and isinstance(caught.value, RecursionError)


@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_the_stack_is_as_large_as_asked_for(backend, monkeypatch):
    program = futad.compile(COUNT, backend=backend)
    depths = []
    for size in ("8M", "16M", "16384K"):
        monkeypatch.setenv("FUTAD_STACK", size)
        with pytest.raises(TooDeep, match=r"a stack of \d+ MiB") as caught:
            program.main(10**9)
        depths.append(int(re.findall(r"than (\d+) calls", str(caught.value))[0]))
    assert depths[1] == depths[2] > 1.9 * depths[0]
    assert program.main(depths[0] - 100) == depths[0] - 100
    monkeypatch.delenv("FUTAD_STACK")
    assert program.main(depths[1] + 100) == depths[1] + 100


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_frames_with_arrays(backend):
    program = futad.compile(ARRAYS, backend=backend)

    def f(xs, k):
        if k == 0:
            return xs
        ys = xs + 1
        return ys + f(ys * 0.5, k - 1)

    xs = np.linspace(0, 1, 9)
    np.testing.assert_allclose(program.main(xs, 200), f(xs, 200), rtol=1e-13)
    np.testing.assert_allclose(program.main(xs[:0], 5), xs[:0])


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_failures_inside(backend):
    program = futad.compile(
        "def f [n] (xs: [n]f64) (i: i64): f64 = if xs[i] < 0 then 0 else xs[i] + f (map (+ 1) xs) (i + 1) * 2\n"
        "entry main [n] (xs: [n]f64) = f xs 0",
        backend=backend,
    )
    assert program.main([1.0, -5.0]) == 1.0
    for _ in range(3):
        with pytest.raises(BoundsError, match=r"Index \[2\] out of bounds for array of shape \[2\]"):
            program.main([1.0, 3.0])


@pytest.mark.slow
def test_executables_report_the_depth(tmp_path, monkeypatch):
    source = tmp_path / "deep.fut"
    source.write_text(ENDLESS)
    assert command(["c", str(source), "--executable", "-o", str(tmp_path / "deep")]) == 0
    monkeypatch.setenv("FUTAD_STACK", "64M")
    done = subprocess.run([tmp_path / "deep"], input=b"1i64", capture_output=True, check=False, timeout=60)
    assert done.returncode == 1 and b"deep.fut:1:1: Error: recursion is deeper than" in done.stderr


# --- random programs -------------------------------------------------------------------------------------------------

LEAVES = ["n", "x", "1", "2", "k"]


def _expressions(calls):
    """Expressions over n, x, k and recursive calls, as pairs of Futhark and Python."""
    leaf = hs.sampled_from(LEAVES).map(lambda t: (t, t))

    def larger(inner):
        two = hs.tuples(inner, inner)
        return hs.one_of(
            two.map(lambda p: (f"({p[0][0]} + {p[1][0]})", f"({p[0][1]} + {p[1][1]})")),
            two.map(lambda p: (f"({p[0][0]} - {p[1][0]})", f"({p[0][1]} - {p[1][1]})")),
            two.map(lambda p: (f"i64.min ({p[0][0]}) ({p[1][0]})", f"min({p[0][1]}, {p[1][1]})")),
            hs.tuples(hs.sampled_from(calls), hs.sampled_from([1, 2, 3]), inner).map(
                lambda p: (f"{p[0]} (n - {p[1]}) ({p[2][0]} %% 1009)", f"{p[0]}(n - {p[1]}, _rem({p[2][1]}, 1009))")
            ),
        )

    return hs.recursive(leaf, larger, max_leaves=5)


def _rem(a, b):
    return abs(a) % b * (1 if a >= 0 else -1)


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(hs.data())
def test_random_groups(data):
    check_random_group(data)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(hs.data())
def test_many_random_groups(data):
    check_random_group(data)


def check_random_group(data):
    """Functions that call themselves and each other, against Python."""
    names = ["f", "g"]
    fut, py = [], []
    for name in names:
        small, step, other = [data.draw(_expressions(names)) for _ in range(3)]
        if name == "g":  # names of later functions are those of a group alone
            step = f"f (n - 2) x - {step[0]}", f"f(n - 2, x) - ({step[1]})"
        leaf = data.draw(hs.sampled_from(["x", "k", "7"]))
        fut.append(
            f"def {name} (n: i64) (x: i64): i64 = let k = (n * 3 + x) %% 17 in "
            f"if n <= 0 then {leaf} else if k < 3 then {small[0]} else if x %% 2 == 0 then {step[0]} else {other[0]}"
        )
        py.append(
            f"def {name}(n, x):\n k = _rem(n * 3 + x, 17)\n if n <= 0: return {leaf}\n"
            f" return ({small[1]}) if k < 3 else ({step[1]}) if _rem(x, 2) == 0 else ({other[1]})"
        )
    scope = {"_rem": _rem}
    exec("\n".join(py), scope)
    text = "\n".join([*fut, "entry main (n: i64) (x: i64) = f n x", "entry both (ns: []i64) = map (\\n -> g n n) ns"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUTAD_CFLAGS", "-O1")  # results are all
        programs = [futad.compile(text, backend=b) for b in ("interp", "c")]
    for n, x in [(0, 3), (1, 5), (4, 2), (7, -11)]:
        for p in programs:
            assert p.main(n, x) == scope["f"](n, x)
    for p in programs:
        np.testing.assert_array_equal(p.both(np.arange(7)), [scope["g"](n, n) for n in range(7)])


# --- other backends, and Futhark's tests ------------------------------------------------------------------------------


def test_devices_say_what_they_cannot_run():
    with pytest.raises(BackendError, match="backend 'emulated' does not run the recursive function 'f_1'") as caught:
        futad.compile(COUNT, backend="emulated").main(1)
    assert caught.value.span is not None and caught.value.span.line == 1
    assert "'interp', 'c' and 'multicore' run it" in (caught.value.hint or "")


def test_auto_takes_a_backend_that_runs_it():
    program = futad.compile(COUNT, backend="auto")
    assert program.main(5) == 5 and not isinstance(program._executable.executor(), Interpreted)
