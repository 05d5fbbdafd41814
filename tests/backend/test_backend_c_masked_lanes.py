"""The C backends: maps around loops of different lengths, some iterations at a time in lanes under masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.types import BOOL, F64, I64
from futad.errors import Error
from futad.fires import counting
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Load, Ref, Scalar
from futad.imp.loops.lockstep import Steps, in_step
from futad.imp.loops.masked_lanes import masked
from futad.imp.walk import parts, statements
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.needs import needs_cc
from tests.support.slow import slow_but

TEXT = """
def newton (a: f64): f64 =
  (loop (x, k) = (a, 0) while k < 60 && f64.abs (x * x - a) > 1e-12 * a do (0.5 * (x + a / x), k + 1i64)).0
def escape (c: f64) (d: f64): i64 =
  (loop (x, y, k) = (0, 0, 0) while k < 50 && x * x + y * y < 4 do (x * x - y * y + c, 2 * x * y + d, k + 1i64)).2
def path [m] (z: [m]f64) (s: f64): f64 =
  (loop (x, i) = (s, 0) while i < m && x > 0.7 do (x * f64.exp (0.3 * z[i]), i + 1)).0
def partly (k: i64) (x: f64): f64 = loop y = x for i < k do f64.sin (y + f64.i64 i)

entry roots [n] (xs: [n]f64): [n]f64 = map newton (map (+ 1) xs)
entry largest_root [n] (xs: [n]f64): (f64, i64) =
  (f64.maximum (map newton (map (+ 1) xs)), i64.sum (map (\\x -> escape x 0.3) xs))
entry escapes [n] (xs: [n]f64): [n][3]i64 = map (\\x -> map (\\k -> escape (x - 1) (0.3 * f64.i64 k)) (iota 3)) xs
entry paths [n] (xs: [n]f64): f64 =
  let z = map (\\x -> map (\\y -> f64.sin (9 * x * y + y)) xs) xs in f64.sum (map2 path z (map (+ 1) xs))
entry path_slopes [n] (xs: [n]f64): ([n]f64, [n][n]f64) =
  let z = map (\\x -> map (\\y -> f64.sin (9 * x * y + y)) xs) xs
  in vjp (\\(s, z) -> f64.sum (map2 path z s)) (map (+ 1) xs, z) 1
entry lengths [n] (xs: [n]f64): [n]f64 = map2 partly (map (\\x -> i64.f64 (20 * x)) xs) xs
entry length_slopes [n] (xs: [n]f64): [n]f64 =
  vjp (\\ys -> f64.sum (map2 partly (map (\\x -> i64.f64 (20 * x)) xs) ys)) xs 1
entry length_curves [n] (xs: [n]f64): [n]f64 =
  map (\\x -> jvp (\\x -> vjp (partly (i64.f64 (20 * x))) x 1) x 1) xs
entry loops_in_loops [n] (xs: [n]f64): [n]f64 =
  map (\\x -> (loop (y, k) = (x, 0) while k < 9 && y < 3 do
                ((loop z = y for j < i64.f64 (5 * x) + k do z + 0.1 * f64.cos (z + f64.i64 j)) + 0.2, k + 1i64)).0) xs
entry branches [n] (xs: [n]f64): [n]f64 =
  map (\\x -> (loop (y, k) = (x, 0) while k < 20 && f64.abs y < 5 do
     (if y < 0.5 then (loop z = y for j < k % 3 do z + xs[(k + j) % n]) else f64.exp (0.1 * y) * y, k + 1i64)).0) xs
entry singles [n] (xs: [n]f64): [n]f32 =
  map (\\x -> (loop (y, k) = (f32.f64 x, 0) while k < 30 && y < 4 do (y + f32.sin y + 0.1, k + 1i32)).0) xs
entry words [n] (xs: [n]f64): [n]i32 =
  map (\\x -> (loop (m, k) = (1 + i32.f64 (999 * x), 0) while m != 1 && k < 99 do
                (if m % 2 == 0 then m / 2 else 3 * m + 1, k + 1i32)).1) xs
entry histories [n] (xs: [n]f64): [n]f64 =
  map (\\x -> let a = loop a = replicate 8 x for i < 1 + i64.f64 (6 * x) do a with [i + 1] = f64.sin (a[i] + xs[i % n])
              in f64.sum a) xs
entry tail_sums [n] (xs: [n]f64): [n]f64 =
  map (\\x -> (loop (s, i) = (0, i64.f64 (f64.i64 n * x)) while i < n do (s + f64.exp (xs[i] * x), i + 1)).0) xs
entry stops [n] (xs: [n]f64): [n]i64 =
  map (\\x -> (loop (s, i) = (x, 0) while i < n && s < 3 do (s + f64.exp (-xs[i]), i + 1)).1) xs
entry rests [n] (xs: [n]f64): [n]f64 =
  map (\\x -> (loop (s, i, j) = (x, 0, 1) while (i + i64.f64 (9 * x)) % 5 != 4 do
               (s + f64.exp (xs[(i + j) % n] * x), i + 1, 2 * j + i)).0) xs
entry searches [n] (xs: [n]f64): [n]i64 =
  let ys = scan (+) 0 xs
  in map (\\x -> (loop (l, h) = (0, n) while l < h do
                   let m = (l + h) / 2 in if f64.sqrt (ys[m] * ys[m]) < 3 * x then (m + 1, h) else (l, m)).0) xs
entry counted [n] (xs: [n]f64): [n]f64 =
  let ks = map (\\x -> i64.f64 (7 * x)) xs
  in reduce_by_index (replicate n 0) (+) 0 ks (map newton (map (+ 1) xs))
entry idle [n] (xs: [n]f64): [n]f64 =
  tabulate n (\\i -> (loop (y, k) = (xs[i], 0) while k < (if i % 16 == 3 then 200 else 1) do
                       (f64.cos (y + f64.exp (-y)), k + 1i32)).0)
"""
NAMES = [line.split()[1] for line in TEXT.splitlines() if line.startswith("entry")]


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    return {b: futad.compile(TEXT, backend=b) for b in ("interp", "c", "multicore")}


def several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 40])
@pytest.mark.parametrize("name", NAMES)
def test_equal_to_the_interpreter(programs, name, n):
    xs = np.random.default_rng(n).random(n)
    if name in ("largest_root", "branches") and n == 0:
        n, xs = 1, np.array([0.5])
    wanted = getattr(programs["interp"], name)(xs)
    for backend in ("c", "multicore"):
        got = getattr(programs[backend], name)(xs)
        for a, b in zip(several(wanted), several(got), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


@needs_cc
@pytest.mark.parametrize("name", NAMES)
def test_each_runs_in_lanes(name):
    """All but these: a return sweep that checks places after it has added to rows of the result, and loops of which
    too little is arithmetic on floats."""
    lines = TEXT[: TEXT.index("entry")]
    text = TEXT[TEXT.index(f"entry {name} ") :].split("\nentry")[0]
    with counting() as counts:
        CBackend(compile_program(compile_text(lines + text), target=C))
    assert counts["masked-lanes"] or name in ("path_slopes", "branches", "words", "searches")


# Loops that are undone, compared with where they began, and told of.
UNDONE = """
def series (x: f64): f64 =
  (loop (s, t, k) = (x, x, 1i64) while f64.abs t > 1e-6 do
     let t = t * x * 0.5 / f64.i64 k in (s + t, t, k + 1)).0
entry slopes [n] (xs: [n]f64): [n]f64 = map (\\x -> vjp series x 1) xs
"""


def test_undone_loops_run_in_lanes():
    with counting() as counts:
        CBackend(compile_program(compile_text(UNDONE.replace("(loop", "(#[reversible] loop")), target=C))
    assert counts["masked-lanes"]


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("n", [1, 16, 35])
def test_each_lane_is_told_of_once(n):
    xs = np.linspace(0.1, 2, n)
    wanted = futad.compile(UNDONE, backend="interp", reversible=True)
    slopes = wanted.slopes(xs)
    says = wanted.explain_memory().split("\n")[1]
    for backend in ("c", "multicore"):
        found = futad.compile(UNDONE, backend=backend, reversible=True)
        np.testing.assert_allclose(found.slopes(xs), slopes, rtol=1e-12)
        assert found.explain_memory().split("\n")[1] == says


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_an_undone_loop_that_is_elsewhere_is_an_error_in_lanes(backend):
    program = futad.compile(UNDONE.replace("/ f64.i64 k", "/ f64.i64 k + 0.3 * t"), backend=backend, reversible=1e-17)
    with pytest.raises(Error, match="run backwards, the loop does not come to where it was: 't' is off by"):
        program.slopes(np.linspace(0.1, 1, 40))


FAILS = """
entry main [n] (xs: [n]f64) (ys: [n]f64): [n]f64 =
  map (\\x -> (loop (s, i) = (x, 0) while s < 4 do (s + f64.exp (-ys[i]) + 0.01, i + 1)).0) xs
"""


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("bad", [0, 3, 11, 19])
def test_failures_are_those_of_the_first_iteration(backend, bad):
    """Iterations without end of what they read fail; the index is that of the first one."""
    ys = np.full(20, 0.5)
    xs = np.full(20, 3.0)
    f, g = (futad.compile(FAILS, backend=b).main for b in ("interp", backend))
    np.testing.assert_allclose(g(xs, ys), f(xs, ys), rtol=1e-12)
    ys[:] = 9.0
    xs[bad:] = np.linspace(3.9, 1, 20 - bad)
    messages = []
    for call in (f, g):
        with pytest.raises(Error) as raised:
            call(xs, ys)
        messages.append(str(raised.value))
    assert messages[0] == messages[1] and "out of bounds" in messages[0]


NOT_TAKEN = """
entry main [n][m] (xs: [n]f64) (ks: [m]i64) (d: i64): [n]f64 =
  map (\\x -> (loop (y, k) = (x, 0) while k < 9 && y < 3 do
    (if y > 2.5 then (loop z = y for j < #[unsafe] ks[5] do f64.exp z + f64.i64 j)
     else if y > 2 then (if #[unsafe] (10 / d) == 2 then f64.exp y else f64.sin y + 1)
     else y + f64.exp (-y) + 0.1 * f64.cos y, k + 1i64)).0) xs
"""


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_what_no_lane_does_is_not_done(backend):
    """A length that is not there, and a division by zero, where all lanes take other branches."""
    xs = np.linspace(-1, 0, 40)
    text = NOT_TAKEN.replace("k < 9", "k < 2")
    wanted = futad.compile(text, backend="interp").main(xs, [1, 2], 0)
    np.testing.assert_allclose(futad.compile(text, backend=backend).main(xs, [1, 2], 0), wanted, rtol=1e-12)


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_special_values(backend):
    xs = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e308, -1e-308, 2.0] * 3)
    text = """entry main [n] (xs: [n]f64): [n]f64 =
      map (\\x -> (loop (y, k) = (x, 0) while k < 9 && !(y > 5) do (f64.exp y - y * x, k + 1i32)).0) xs"""
    with np.errstate(all="ignore"):
        wanted = futad.compile(text, backend="interp").main(xs)
    np.testing.assert_allclose(futad.compile(text, backend=backend).main(xs), wanted, rtol=1e-13)


# -- random programs

OPS = (
    "{0} + {1}", "{0} - 0.5 * {1}", "{0} * {1}", "f64.sin ({0} + {1})", "f64.exp (-({0} * {0}))", "f64.max {0} {1}",
    "f64.sqrt ({0} * {0} + 1)", "if {0} < {1} then {0} else f64.cos {1}", "zs[(k * 3 + 1) % m] * {0}",
    "{0} / ({1} * {1} + 1)",
)  # fmt: skip


def expression(rng: np.random.Generator, names: list[str], depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return str(rng.choice([*names, "0.3", "1.7", "x"]))
    a, b = (f"({expression(rng, names, depth - 1)})" for _ in range(2))
    return str(rng.choice(OPS)).format(a, b)


def program(seed: int) -> str:
    """A map around a loop that ends by its data, whose body may have loops and branches."""
    rng = np.random.default_rng(seed)
    names = ["y", "z"][: rng.integers(1, 3)]
    body = [expression(rng, names, 3) for _ in names]
    if rng.random() < 0.4:
        k = rng.choice(["k % 4", "i64.f64 (f64.abs x * 3) % 5", "3"])
        body[0] = f"loop q = {names[0]} for j < {k} do f64.sin (q + 0.1 * f64.i64 j + {body[0]})"
    if rng.random() < 0.3:
        body[-1] = f"if y > 0.4 then ({body[-1]}) else (loop q = y for j < k % 3 do q * 0.5 + zs[j % m])"
    stop = rng.choice(["f64.abs y < 2 + f64.abs x", "y * y < 9", "f64.sin y < 0.9", f"k < {rng.integers(1, 9)}"])
    some, step = ", ".join(names), ", ".join(f"f64.min 9 (f64.max (-9) ({e}))" for e in body)
    starts = ", ".join(["x", "0.5 * x"][: len(names)])
    return f"""
def step [m] (zs: [m]f64) (x: f64): f64 =
  let ({some}, _) = loop ({some}, k) = ({starts}, 0i64) while k < 12 && {stop} do ({step}, k + 1) in y
entry value [n][m] (xs: [n]f64) (zs: [m]f64): [n]f64 = map (step zs) xs
entry sum [n][m] (xs: [n]f64) (zs: [m]f64): f64 = f64.sum (map (step zs) xs)
entry slopes [n][m] (xs: [n]f64) (zs: [m]f64): ([n]f64, [m]f64) =
  vjp (\\(xs, zs) -> f64.sum (map (step zs) xs)) (xs, zs) 1
"""


def agrees(seed: int) -> None:
    xs = np.random.default_rng(seed).normal(size=21)
    zs = np.random.default_rng(seed + 1).normal(size=5)
    plain, fast = (futad.compile(program(seed), backend=b) for b in ("interp", "c"))
    for name in ("value", "sum", "slopes"):
        wanted, got = (getattr(p, name)(xs, zs) for p in (plain, fast))
        for a, b in zip(several(wanted), several(got), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9, err_msg=program(seed))


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("seed", slow_but(range(2), range(6)))
def test_random_programs(seed):
    agrees(seed)


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 40))
def test_more_random_programs(seed):
    agrees(seed)


# -- what is refused

i, n = Ref("i", I64), Ref("n", I64)
GO = Ref("go", BOOL)
HEAVY = Scalar("exp", (Scalar("sin", (Ref("y", F64),), F64, F64),), F64, F64)


def loop_of(inside: list[ir.Stmt], before: list[ir.Stmt] | None = None, after: list[ir.Stmt] | None = None) -> ir.For:
    first = [ir.Decl("go", BOOL, ir.TRUE, mutable=True), ir.Decl("y", F64, Load("x", i, F64), mutable=True)]
    again = ir.Assign("go", Scalar("lt", (Ref("y", F64), ir.Num(2.0, F64)), BOOL, F64))
    loop = ir.While(GO, [*inside, ir.Assign("y", HEAVY), again])
    return ir.For("i", n, [*first, *(before or []), loop, *(after or [])], map=True)


CHECK = ir.Check(ir.compare("<", i, n), 1, 0)
SOME = Scalar("lt", (Ref("y", F64), ir.Num(1.0, F64)), F64, BOOL)
LENGTH = Load("ks", ir.num(5), I64)
QUOTIENT = Scalar("div", (ir.num(10), Ref("d", I64)), I64, I64)
TIMES = [ir.For("j", LENGTH, [ir.Assign("y", HEAVY)])]
CASES = {
    "length read in a branch": (loop_of([ir.If(SOME, TIMES, [])]), False),
    "length read in all lanes": (loop_of(TIMES), True),
    "plain": (loop_of([]), True),
    "stores after": (loop_of([], after=[ir.Store("r", i, Ref("y", F64))]), True),
    "stores to one place": (loop_of([], after=[ir.Store("r", ZERO, Ref("y", F64))]), False),
    "stores inside": (loop_of([ir.Store("r", i, Ref("y", F64))]), True),
    "stores to one place inside": (loop_of([ir.Store("r", ONE, Ref("y", F64))]), False),
    "checks": (loop_of([CHECK]), True),
    "checks before a store": (loop_of([CHECK], after=[ir.Store("r", i, Ref("y", F64))]), True),
    "checks after a store": (loop_of([], after=[ir.Store("r", i, Ref("y", F64)), CHECK]), False),
    "checks and adds inside": (loop_of([ir.Store("a", ONE, Ref("y", F64), "add"), CHECK]), False),
    "adds inside": (loop_of([ir.Store("a", ONE, Ref("y", F64), "add")]), True),
    "reads what is folded": (loop_of([], before=[ir.Decl("v", F64, Load("a", ONE, F64))]), False),
    "continues a sum": (loop_of([], after=[ir.Accumulate("s", "add", Ref("y", F64))]), True),
    "reads a sum": (
        loop_of([], before=[ir.Decl("v", F64, Ref("s", F64))], after=[ir.Accumulate("s", "add", Ref("v", F64))]),
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_taken(case):
    loop, taken = CASES[case]
    count = iter(range(1000))
    made = masked(loop, loop.body, {"a"}, lambda hint: f"{hint}_{next(count)}", True)
    assert (made is not None) == taken


def test_what_may_fail_in_a_branch_is_left_to_the_lanes_that_take_it():
    equal = Scalar("eq", (QUOTIENT, ir.num(2)), I64, BOOL)
    inner = ir.If(equal, [ir.Assign("y", HEAVY)], [ir.Store("r", i, Ref("y", F64))])
    loop = loop_of([ir.If(SOME, [inner], [ir.Store("r", i, HEAVY)])])
    count = iter(range(1000))
    made = masked(loop, loop.body, set(), lambda hint: f"{hint}_{next(count)}", True)
    assert made is not None
    blocks, (in_lanes, _one_by_one) = made[-1], [s for s in made[-1].body if isinstance(s, ir.If)]
    assert isinstance(blocks, ir.For)
    divides = [s for s in statements(in_lanes.then) if any(QUOTIENT in parts(e) for e in s.exprs())]
    assert len(divides) == 1 and isinstance(divides[0], ir.Assign)
    branches = [s for s in statements(in_lanes.then) if isinstance(s, ir.If) and divides[0] in s.then]
    assert len(branches) == 1 and isinstance(branches[0].cond, Ref)


# -- what all lanes share

K = Ref("k", I64)


def steps_of(
    inside: list[ir.Stmt], start: ir.Expr = ZERO, same: bool = True, after: list[ir.Stmt] | None = None
) -> Steps:
    loop = ir.While(GO, [*inside, ir.Assign("y", HEAVY), ir.Assign("go", ir.compare("<", K, n))])
    every = list(statements([ir.Decl("k", I64, start, mutable=True), loop, *(after or [])]))
    count = iter(range(1000))
    return in_step(loop, {"k": (start, same)}, {"i", "k", "y", "go"}, every, lambda hint: f"{hint}_{next(count)}")


MORE = ir.Assign("k", ir.add(K, ONE))
LANES_OWN = Scalar("to_i64", (Ref("y", F64),), F64, I64)


COUNTERS = {
    "counts": (dict(inside=[MORE]), True),
    "by a name": (dict(inside=[ir.Decl("t", I64, ir.add(K, n)), ir.Assign("k", Ref("t", I64))]), True),
    "begins with others": (dict(inside=[MORE], start=i, same=False), False),
    "begins again": (dict(inside=[MORE], after=[ir.Assign("k", ZERO)]), False),
    "a lane's own": (dict(inside=[ir.Assign("k", LANES_OWN)]), False),
    "a lane's own by a name": (dict(inside=[ir.Decl("t", I64, LANES_OWN), ir.Assign("k", Ref("t", I64))]), False),
    "read": (dict(inside=[ir.Assign("k", Load("ks", K, I64))]), False),
    "in a branch": (dict(inside=[ir.If(SOME, [MORE], [])]), False),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTERS)
def test_a_counter_that_lanes_share_is_one_scalar(case):
    args, one = COUNTERS[case]
    made = steps_of(**args)
    assert bool(made.before) == bool(made.end) == one
    assigned = [s.name for s in statements(made.body) if isinstance(s, ir.Assign)]
    assert ("k" in assigned) != one


SMALL = Scalar("lt", (Ref("y", F64), ir.Num(3.0, F64)), F64, BOOL)
ASKS = ir.Assign("go", SMALL)
READS = ir.Store("r", i, Scalar("to_i64", (GO,), BOOL, I64))
CONDITIONS = {
    "changed before": ([ir.Assign("y", HEAVY), ASKS], [], True),
    "changed since": ([ASKS, ir.Assign("y", HEAVY)], [], False),
    "changed in a branch since": ([ASKS, ir.If(SOME, [ir.Assign("y", HEAVY)], [])], [], False),
    "read in the loop": ([READS, ir.Assign("y", HEAVY), ASKS], [], False),
    "read after it": ([ir.Assign("y", HEAVY), ASKS], [READS], False),
    "of memory": ([ir.Assign("go", ir.compare("<", Load("ks", K, I64), n))], [], False),
    "in a branch": ([ir.If(SOME, [ASKS], [])], [], False),
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_what_only_the_loop_asks_is_no_variable(case):
    body, after, gone = CONDITIONS[case]
    loop = ir.While(GO, body)
    every = list(statements([ir.Decl("go", BOOL, SMALL, mutable=True), loop, *after]))
    made = in_step(loop, {}, {"i", "k", "y", "go"}, every, lambda hint: hint)
    assert made.later == (SMALL if gone else GO)
    assert ("go" in [s.name for s in statements(made.body) if isinstance(s, ir.Assign)]) != gone
    assert made.first == GO


MORE_TO_COME = ir.Decl("more", BOOL, ir.compare("<", ir.add(K, ONE), ir.num(9)))
STILL_SMALL = ir.Decl("small", BOOL, Scalar("lt", (Ref("y", F64), Ref("a", F64)), F64, BOOL))
POSITIVE = ir.Decl("positive", BOOL, Scalar("lt", (Ref("b", F64), Ref("y", F64)), F64, BOOL))


@pytest.mark.parametrize(
    "sides, shared",
    [((MORE_TO_COME, STILL_SMALL), 0), ((STILL_SMALL, MORE_TO_COME), 1), ((STILL_SMALL, POSITIVE), None),
     ((STILL_SMALL, ir.Decl("more", BOOL, MORE_TO_COME.init, mutable=True)), None)],
)  # fmt: skip
def test_what_all_lanes_share_of_the_condition_is_asked_once(sides: tuple[ir.Decl, ir.Decl], shared: int | None):
    both = ir.Decl("both", BOOL, Scalar("and", (Ref(sides[0].name, BOOL), Ref(sides[1].name, BOOL)), BOOL, BOOL))
    end = ir.Assign("go", Ref("both", BOOL))
    loop = ir.While(GO, [*sides, both, ir.Assign("y", HEAVY), MORE, end])
    every = list(statements([ir.Decl("k", I64, ZERO, mutable=True), loop]))
    made = in_step(loop, {"k": (ZERO, True)}, {"i", "k", "y", "go"}, every, lambda hint: hint)
    if shared is None:
        assert (made.later, made.shared) == (Ref("both", BOOL), None)
    else:
        assert (made.later, made.shared) == tuple(Ref(sides[n].name, BOOL) for n in (1 - shared, shared))


def test_a_counter_that_is_read_after_the_loop_is_each_lanes_too():
    made = steps_of([MORE], after=[ir.Store("r", i, K)])
    assert made.before and "k" in [s.name for s in made.body if isinstance(s, ir.Assign)]


@pytest.mark.parametrize(("branch", "rests"), [(False, True), (True, False)])
def test_lanes_at_rest_read_the_first_element_if_some_lane_reads_one(branch, rests):
    """In a branch that no lane may take the array may have none."""
    read = ir.Decl("v", F64, Load("x", ir.add(i, K), F64))
    inside = [ir.If(SOME, [read, ir.Store("r", i, Ref("v", F64))], [])] if branch else [read]
    loop = loop_of([*inside, ir.Assign("k", ir.add(K, i))], before=[ir.Decl("k", I64, ZERO, mutable=True)])
    count = iter(range(1000))
    made = masked(loop, loop.body, set(), lambda hint: f"{hint}_{next(count)}", True)
    assert made is not None
    lanes = next(s for s in made[-1].body if isinstance(s, ir.If))
    reads = [e for s in statements(lanes.then) for e in parts(s) if isinstance(e, Load) and e.pointer == "x"]
    assert any(isinstance(e.index, Scalar) and e.index.op == "and" for e in reads) == rests
