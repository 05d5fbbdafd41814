"""What loops inside a return sweep would compute and save again, the forward sweep saves, if that is not too much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.interp import Interpreter
from futad.core.types import ArrayType
from futad.errors import BoundsError
from futad.pipeline import compile_program, own_passes, pass_names
from futad.source import compile_text, load_program
from futad.target import C
from futad.testing.build import common
from tests.support.paths import BENCHMARK_PROGRAMS as PROGRAMS

TEXT = """
-- The state of each layer is carried from iteration to iteration, and what goes through the layers only within
-- an iteration.
def deep [n][l][b] (start: [l][b]f64) (ws: [l][b]f64) (xs: [n][b]f64): f64 =
  let (_, total) =
    loop (s, total) = (copy start, 0) for t < n do
      let (s, x) =
        loop (s, x) = (copy s, map (* 0.5) xs[t]) for i < l do
          let new = map3 (\\w s x -> f64.tanh (w * s + x) + f64.exp (-s * s) / (1 + f64.exp (w * x))) ws[i] s[i] x
          in (s with [i] = new, map2 (\\a x -> a * f64.cos x) new x)
      in (s, total + f64.sum (map2 (\\x s -> x * s) x s[0]))
  in total
entry value [n][l][b] (start: [l][b]f64) (ws: [l][b]f64) (xs: [n][b]f64): f64 = deep start ws xs
entry gradient [n][l][b] (start: [l][b]f64) (ws: [l][b]f64) (xs: [n][b]f64): ([l][b]f64, [l][b]f64) =
  vjp (\\(start, ws) -> deep start ws xs) (start, ws) 1

-- The return sweep goes on with the state that the iteration ended with, and overwrites it.
entry ended [n][l][b] (start: [l][b]f64) (ws: [l][b]f64) (xs: [n][b]f64): ([l][b]f64, [l][b]f64) =
  vjp (\\(start, ws) ->
         f64.sum (flatten (loop s = copy start for t < n do
           let s = loop s = copy s for i < l do
             s with [i] = map3 (\\w s x -> f64.tanh (w * s + x) + f64.exp (-s * s) * f64.cos (w + x)) ws[i] s[i] xs[t]
           in s with [0] = map2 (\\a b -> f64.sin a * b) s[0] s[l - 1])))
      (start, ws) 1

-- An iteration has many steps and a small state: to save them all would be more memory than there is for the state.
entry long [n][l][b] (start: [l][b]f64) (ws: [l][b]f64) (xs: [n][b]f64): ([l][b]f64, [l][b]f64) =
  vjp (\\(start, ws) ->
         f64.sum (loop s = copy start[0] for t < n do
           loop s for i < l do
             map3 (\\w s x -> f64.tanh (w * s + x) + f64.exp (-s * s) * f64.cos (w + x)) ws[i] s xs[t]))
      (start, ws) 1

-- Nothing in it is dear.
entry cheap [n][l][b] (start: [l][b]f64) (ws: [l][b]f64) (xs: [n][b]f64): ([l][b]f64, [l][b]f64) =
  vjp (\\(start, ws) ->
         f64.sum (flatten (loop s = copy start for t < n do
           loop s = copy s for i < l do s with [i] = map3 (\\w s x -> w * s * s + x) ws[i] s[i] xs[t])))
      (start, ws) 1

-- What could fail in the forward sweep's iterations does so there; the return sweep has no assertions.
entry checked [n][l][b] (start: [l][b]f64) (ws: [l][b]f64) (xs: [n][b]f64): ([l][b]f64, [l][b]f64) =
  vjp (\\(start, ws) ->
         f64.sum (flatten (loop s = copy start for t < n do
           loop s = copy s for i < l do
             s with [i] = map3 (\\w s x -> f64.tanh (w * s + x) + f64.exp (-s * s) * f64.cos (w + x))
                               (assert (b < 100) ws[i]) s[i] xs[t])))
      (start, ws) 1
"""
SAVED = {"gradient": 1, "ended": 1, "long": 0, "cheap": 0, "checked": 0}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("saved") / "saved.fut"
    file.write_text(TEXT)
    return file


@pytest.fixture(scope="module")
def programs(file: Path) -> list[Any]:
    return [futad.load(file, backend=backend) for backend in ("c", "multicore")]


@pytest.fixture(scope="module")
def plain(file: Path) -> Interpreter:
    return Interpreter(compile_program(load_program(str(file)), stop_after="simplify-ad"))


def count(lam: ir.Lambda, ops: tuple[str, ...]) -> int:
    """Operations in a scope's text."""
    here = sum(isinstance(s.exp, ir.Op) and s.exp.op in ops for s in lam.stms)
    return here + sum(count(inner, ops) for s in lam.stms for inner in s.exp.lambdas())


def sweeps(core: Any, name: str) -> list[ir.For]:
    """The loops of a function's body: forward, return."""
    return [s.exp for s in core.funs[name].body.stms if isinstance(s.exp, ir.For)]


def loops(e: ir.For) -> int:
    return sum(isinstance(s.exp, ir.For) for s in e.body.stms)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
def test_return_sweeps_do_not_run_inner_loops_again(file: Path, name: str) -> None:
    """Neither where memory would grow by more than a factor, nor where it is as cheap to run them again."""
    core = common(load_program(str(file)), C, check=True)
    forward, back = sweeps(core, name)
    assert loops(forward) == 1 and loops(back) == 2 - SAVED[name]
    if SAVED[name]:
        assert count(back.body, ("tanh", "exp")) == 0 < count(forward.body, ("tanh", "exp"))
    devices = compile_program(load_program(str(file)), check=True)
    assert [loops(e) for e in sweeps(devices, name)] == [1, 2]


@pytest.mark.slow
def test_dlstm() -> None:
    """Only the normaliser's exponential is left to the return sweep, once; what is saved has the sizes of the state."""
    program = load_program(str(PROGRAMS / "dlstm.fut"))
    forward, back = sweeps(compile_program(program, target=C), "gradient")
    assert (count(forward.body, ("tanh", "exp")), count(back.body, ("tanh", "exp"))) == (5, 1)
    forward, back = sweeps(common(program, C), "gradient")
    saved = [p.type for p in forward.body.params if isinstance(p.type, ArrayType) and p.name == "saved"]
    state = set(forward.body.params[1].type.shape)  # type: ignore[union-attr]
    assert saved and all(set(t.shape[1:]) <= state for t in saved)
    assert sum(2 if len(t.shape) == 4 else 1 for t in saved if len(t.shape) > 2) == 8


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
@pytest.mark.parametrize("n,l,b", [(0, 2, 3), (1, 1, 1), (1, 2, 14), (3, 4, 5), (2, 3, 0), (2, 0, 3)])
def test_answers(programs: list[Any], plain: Interpreter, name: str, n: int, l: int, b: int) -> None:  # noqa: E741
    """The interpreter's, of the program before; where there is no layer some look for one in vain."""
    rng = np.random.default_rng(n + l + b)
    args = (rng.standard_normal((l, b)), rng.standard_normal((l, b)), rng.standard_normal((n, b)))
    fails = l == 0 and name in ("gradient", "ended", "long")
    expected = None if fails else plain.run(name, [l, b, n, *args])
    for p in programs:
        f = p[name]
        if expected is None:
            with pytest.raises(BoundsError):
                f(*args)
            continue
        for a, e in zip(f(*args), expected, strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_slopes(programs: list[Any]) -> None:
    """The gradient beside central differences."""
    rng = np.random.default_rng(5)
    start, ws, xs = rng.standard_normal((3, 4)), rng.standard_normal((3, 4)), rng.standard_normal((5, 4))
    p = programs[0]
    bars = p.gradient(start, ws, xs)
    for k in range(2):
        way = rng.standard_normal((3, 4))
        up, down = [start, ws], [start, ws]
        up[k], down[k] = up[k] + 1e-6 * way, down[k] - 1e-6 * way
        slope = (p.value(*up, xs) - p.value(*down, xs)) / 2e-6
        assert abs(slope - np.vdot(bars[k], way)) < 1e-6 * max(1, abs(slope))


@pytest.mark.slow
def test_loops_that_are_split_save_no_more(tmp_path: Path) -> None:
    """Stripmining makes inner loops for the memory's sake: only within one of them more is saved."""
    text = (PROGRAMS / "dlstm.fut").read_text()
    split = text.replace("loop (s, total) = (unflatten", "#[stripmine(1)] loop (s, total) = (unflatten")
    assert split != text
    file = tmp_path / "split.fut"
    file.write_text(split)
    shared = [name for name in pass_names(C) if name not in own_passes(C)]
    without = [name for name in shared if name != "remat"]
    ours, before = (
        compile_program(load_program(str(file)), target=C, passes=passes, check=True)
        for passes in (shared, without)
    )
    scratch = [[s.exp for s in p.funs["gradient"].body.stms if isinstance(s.exp, ir.Scratch)] for p in (ours, before)]
    assert len(scratch[0]) == len(scratch[1]) > 0
    assert count(ours.funs["gradient"].body, ("tanh",)) < count(before.funs["gradient"].body, ("tanh",))


ROWS = """
-- The row before, which the loop carries, is read in the inner loop: it is saved in the iteration, and only then.
def rows [m] (p: [m]f64) (xs: []f64): f64 =
  let last = loop prev = map f64.sin (p ++ [1]) for x in xs do
    let row = replicate (m + 1) x
    in loop row for j < m do row with [j + 1] = f64.sin (prev[j] + f64.tanh (prev[j + 1] * row[j]))
  in f64.sum last
-- A distance of sequences by dynamic programming, two rows at a time.
def distance [m][n] (a: [n]f64) (b: [m]f64): f64 =
  let last = loop prev = map f64.i64 (iota (m + 1)) for i < n do
    let row = replicate (m + 1) 0 with [0] = f64.i64 (i + 1)
    in loop row for j < m do
      let c = (a[i] - b[j]) ** 2
      let low = f64.log (f64.exp (-prev[j] - c) + f64.exp (-prev[j + 1] - 1) + f64.exp (-row[j] - 1))
      in row with [j + 1] = -low
  in last[m]
-- What the inner loop starts from is saved; it reads what lies between the loops.
def between [m] (start: [m]f64) (xs: []f64): f64 =
  let last = loop s = start for x in xs do
    let t = map (* x) s
    in loop s = copy s for j < m do s with [j] = f64.sin (t[j] + f64.tanh (s[j] * s[(j + 1) % m])) * s[j]
  in f64.sum last
entry rows_value [m] (p: [m]f64) (x: []f64) = rows p x
entry rows_gradient [m][n] (p: [m]f64) (x: [n]f64) = vjp (\\(p, x) -> rows p x) (p, x) 1
entry distance_value [m][n] (a: [m]f64) (b: [n]f64) = distance a b
entry distance_gradient [m][n] (a: [m]f64) (b: [n]f64) = vjp (\\(a, b) -> distance a b) (a, b) 1
entry between_value [m] (p: [m]f64) (x: []f64) = between p x
entry between_gradient [m][n] (p: [m]f64) (x: [n]f64) = vjp (\\(p, x) -> between p x) (p, x) 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c", "multicore", "emulated"])
@pytest.mark.parametrize("name", ["rows", "distance", "between"])
def test_rows_that_are_read_while_the_next_is_made(backend: str, name: str) -> None:
    """The history of the row is read inside the loop that is run again: gradients beside central differences."""
    p = futad.compile(ROWS, backend=backend, check=True)
    value, gradient = p[f"{name}_value"], p[f"{name}_gradient"]
    for m, n in [(1, 1), (4, 3), (5, 1), (3, 6), (2, 0)]:
        rng = np.random.default_rng(m + 10 * n)
        args = [rng.standard_normal(m), rng.standard_normal(n)]
        bars = gradient(*args)
        for k, bar in enumerate(bars):
            for at in range(len(bar)):
                up, down = [a.copy() for a in args], [a.copy() for a in args]
                up[k][at] += 1e-6
                down[k][at] -= 1e-6
                slope = (value(*up) - value(*down)) / 2e-6
                assert abs(slope - bar[at]) < 1e-7 * max(1, abs(slope)), (name, m, n, k, at)


@pytest.mark.slow
def test_the_row_is_read_where_it_is() -> None:
    """The forward sweep reads the row itself; what it saves is what the return sweep then reads."""
    core = common(compile_text(ROWS, "rows.fut"), C, check=True)
    for name in ("rows_gradient", "distance_gradient", "between_gradient"):
        forward, back = sweeps(core, name)
        assert loops(forward) == 1 and loops(back) == 1
        bound = {v for s in core.funs[name].body.stms if s.exp is forward for v in s.pat}
        assert not bound & forward.body.free().keys()


# The forward sweep's loop saves what it overwrites for its own return sweep, and beside it what the outer one wants.
OVERWRITES = """
entry gradient [n] (v: [n]f64) (y: [n]f64): [n]f64 =
  let loss (w: [n]f64) =
    f64.sum (loop u = copy w for i < n do u with [i] = f64.tanh (f64.sin (f64.log (1.2 + u[n - 1 - i] ** 2) + u[i])))
  in vjp (\\v -> loop w = v for _r < 2 do map2 (\\p q -> p - 0.1 * q) w (vjp loss w 1)) v y
"""


def test_what_is_besides_reads_what_is_overwritten_then() -> None:
    core = compile_program(compile_text(OVERWRITES), target=C, check=True)
    given = [np.array([0.3, -0.7, 1.2]), np.array([1.0, -0.5, 0.25])]
    (got,) = Interpreter(core).run("gradient", [3, *given])
    (want,) = Interpreter(compile_program(compile_text(OVERWRITES), passes=["inline", "asserts", "invert", "ad"])).run(
        "gradient", [3, *given]
    )
    np.testing.assert_allclose(got, want, rtol=1e-10)
