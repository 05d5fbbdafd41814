"""FUTAD_CHECK=values: every value bound outside of maps is compared with the interpreter's; nothing else changes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.cli import main
from futad.core import ir
from futad.errors import BoundsError, CheckFailure
from futad.flatten import lower as device_lower
from futad.imp import lower
from futad.imp.ir import Check
from futad.runtime import valuecheck
from futad.source import compile_text, load_program
from futad.target import C, target_of
from futad.testing.build import c_backend, common, device_backend
from tests.support.needs import needs_cc, needs_cxx
from tests.support.paths import ROOT

BACKENDS = [
    pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=needs_cc),
    pytest.param("emulated", marks=needs_cxx),
]  # fmt: skip
VALUES = frozenset({"values"})


@pytest.fixture(autouse=True)
def _fewer_optimisations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CFLAGS", "-O1")


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CHECK", "values")


def check_of(program: futad.Program) -> valuecheck.ValueCheck:
    """What checks a program's calls."""
    made: Any = program.executor()
    return made.compiled.values if isinstance(made, CBackend) else made.running.runtime.reports.check


# --- what is found --------------------------------------------------------------------------------------------------

TWO_ARRAYS = """
entry main [l] [d] (x: [l][d]f64) : ([l][d]f64, [l][d]f64) =
  loop (a, b) = (replicate l (replicate d 1), replicate l (replicate d 2)) for j < l do
    let v = map f64.sin x[j]
    in (a with [j] = v, b with [l - 1 - j] = v)

entry two [l] [d] (x: [l][d]f64) : ([l][d]f64, [l][d]f64) =
  loop (a, b) = (replicate l (replicate d 1), replicate l (replicate d 2)) for j < l do
    (a with [j] = map f64.sin x[j], b with [l - 1 - j] = x[j])

entry either [l] [d] (x: [l][d]f64) : ([l][d]f64, bool) =
  let (a, b) = main x
  in (a, b[0, 0] > 2)

-- The result is the same, whatever b is, if no element is above 2.
entry agrees [l] [d] (x: [l][d]f64) : ([l][d]f64, bool) =
  let (a, b) = two x
  in (a, b[0, 0] > 2)

-- The first iteration of the outer loop writes nothing to b.
entry deeper [l] [d] (x: [l][d]f64) : ([l][d]f64, bool) =
  loop (a, found) = (x, false) for i < 3 do
    let b = loop b = replicate l (replicate d 2) for j < i do
      b with [l - 1 - j] = a[j]
    in (map (map (/ 2)) a, found || b[0, 0] > 2)
"""


def nothing_written(monkeypatch: pytest.MonkeyPatch, array: str) -> None:
    """An update of an array of that name writes nothing: what a defect in placing values came to."""
    for table in (lower.HANDLERS, device_lower.HOST):
        written = table[ir.Update]

        def update(lo: Any, stm: ir.Stm, e: ir.Update, wants: Any, written: Any = written) -> Any:
            if stm.pat[0].name != array:
                return written(lo, stm, e, wants)
            with lo.block() as body:
                values = written(lo, stm, e, wants)
            stores = (lower.ir.Store, lower.ir.Copy, lower.ir.For, lower.ir.Parallel)
            lo.out += [s for s in body if not isinstance(s, stores) and type(s).__name__ != "Launch"]
            return values

        monkeypatch.setitem(table, ir.Update, update)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("entry", ["two", "agrees"])
def test_the_first_wrong_binding_is_named(
    checked: None, monkeypatch: pytest.MonkeyPatch, backend: str, entry: str
) -> None:
    nothing_written(monkeypatch, "b")
    program = futad.compile(TWO_ARRAYS, backend=backend)
    with pytest.raises(CheckFailure) as found:
        program[entry](np.ones((4, 3)))
    text = str(found.value)
    assert "checked execution: b_" in text and "has another value" in text
    assert f"in {entry}, j = 0" in text, "the iteration"
    assert "]: 2.0 in the compiled program, 1.0 in the interpreter" in text, "both values"
    assert ": [l_" in text and "update(b_" in text, "the statement"
    assert found.value.span is not None, "a place"


def placed_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a value is computed in place is noted by the value, not by the update: one that is written into two arrays
    goes into the first of them only."""

    def short_circuit(lo: Any, stm: ir.Stm, sc: Any, makers: Any) -> None:
        right(lo, stm, sc, makers)
        updates = [s for s in sc.lam.stms if isinstance(s.exp, ir.Update)]
        places = {s.exp.value: sc.placed[s.pat[0]] for s in updates if s.pat[0] in sc.placed}  # type: ignore[attr-defined]
        for s in updates:
            if s.exp.value in places:  # type: ignore[attr-defined]
                sc.placed.setdefault(s.pat[0], places[s.exp.value])  # type: ignore[attr-defined]

    right = lower.short_circuit
    for module in (lower, device_lower):
        monkeypatch.setattr(module, "short_circuit", short_circuit)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("entry", ["main", "either"])
def test_a_value_written_into_the_first_of_two_arrays_only(
    monkeypatch: pytest.MonkeyPatch, backend: str, entry: str
) -> None:
    placed_by_value(monkeypatch)
    x = np.linspace(0, 1, 12).reshape(4, 3)
    results = [futad.compile(TWO_ARRAYS, backend=b)[entry](x) for b in ("interp", backend)]
    same = [np.allclose(a, b, rtol=1e-14) for a, b in zip(*results, strict=True)]
    assert same == [True, entry == "either"], "the defect is back, and shows in the results of one of the two"
    monkeypatch.setenv("FUTAD_CHECK", "values")
    with pytest.raises(CheckFailure, match="checked execution: b_.* has another value"):
        futad.compile(TWO_ARRAYS, backend=backend)[entry](x)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wrong_value_is_found_whatever_the_result_is(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    nothing_written(monkeypatch, "b")
    x = np.linspace(0, 1, 12).reshape(4, 3)
    for entry in ("agrees", "deeper"):
        right = futad.compile(TWO_ARRAYS, backend="interp")[entry](x)
        result = futad.compile(TWO_ARRAYS, backend=backend)[entry](x)
        np.testing.assert_allclose(result[0], right[0], rtol=1e-15)
        assert result[1] == right[1]
        monkeypatch.setenv("FUTAD_CHECK", "values")
        with pytest.raises(CheckFailure, match="b_.* has another value"):
            futad.compile(TWO_ARRAYS, backend=backend)[entry](x)
        monkeypatch.delenv("FUTAD_CHECK")


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_iterations_of_all_loops_are_named(checked: None, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    nothing_written(monkeypatch, "b")
    program = futad.compile(TWO_ARRAYS, backend=backend)
    with pytest.raises(CheckFailure, match="in deeper, i = 1, j = 0"):
        program.deeper(np.ones((4, 3)))


@pytest.mark.slow
def test_after_a_failure_the_program_can_be_called_again(checked: None) -> None:
    source = "entry main [n] (x: [n]f64) (i: i64) = let y = map f64.sin x in y[i] + f64.sum y"
    program = futad.compile(source, backend="c")
    x = np.linspace(0, 1, 5)
    good = program.main(x, 1)
    with pytest.raises(BoundsError):
        program.main(x, 7)
    assert program.main(x, 1) == good


@pytest.mark.slow
@needs_cc
def test_a_failure_of_one_side_only_is_found(checked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "entry main [n] (x: [n]f64) (i: i64) = let y = map f64.sin x in y[i]"
    emit = lower.Lowerer.emit
    unchecked = lambda self, s: None if isinstance(s, Check) and s.place >= 0 else emit(self, s)  # noqa: E731
    monkeypatch.setattr(lower.Lowerer, "emit", unchecked)
    program = futad.compile(source, backend="c")
    program.main(np.ones(5), 2)
    with pytest.raises(CheckFailure, match="the compiled program succeeds, but the interpreter fails"):
        program.main(np.ones(5), 5)


# --- what is allowed ------------------------------------------------------------------------------------------------

ROUNDING = """
-- Whatever rounding does to a sum, a chaotic sequence makes more of it.
entry chaos [n] (x: [n]f64) = let s = f64.sum x in loop s for i < 200 do let t = s - f64.floor s in 3.9 * t * (1 - t)
entry inside [n] (x: [n]f64) = map (\\s -> loop s for i < 60 do 3.9 * f64.sin s * (1 - s)) x
entry cancels [n] (x: [n]f32) = f32.sum (map (\\v -> v * 1e8f32) x) - f32.sum (map (* 1e8f32) x)
entry boundary [n] (x: [n]f64) = map (\\v -> i64.f64 (f64.exp (f64.log v) * 10)) x
entry product [n] (x: [n][n]f32) : [n][n]f32 = map (\\r -> map (\\c -> f32.sum (map2 (*) r c)) (transpose x)) x
entry half [n] (x: [n]f16) = f16.sum (map f16.exp x)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_rounding_is_no_defect(checked: None, backend: str) -> None:
    program = futad.compile(ROUNDING, backend=backend)
    r = np.random.default_rng(1)
    program.chaos(r.normal(size=1000))
    program.inside(r.uniform(size=100))
    program.cancels(r.normal(size=1000).astype(np.float32))
    program.boundary(np.arange(1, 500) / 10)
    program.product(r.normal(size=(40, 40)).astype(np.float32))
    program.half(r.normal(size=100).astype(np.float16))


def test_agreement_is_of_each_element() -> None:
    want = np.array([1e12, 1.0, np.nan, np.inf, -np.inf, 0.0, 5e-324])
    assert valuecheck.disagreement(want.copy(), want, None) is None
    assert valuecheck.disagreement(want * (1 + 1e-13), want, None) is None
    for i, other in enumerate((1e12 + 10, 1 + 1e-9, 0.0, -np.inf, 1e308, 1e-300, 1e-320)):
        got = want.copy()
        got[i] = other
        bad = valuecheck.disagreement(got, want, None)
        assert bad is not None and np.flatnonzero(bad).tolist() == [i]
        known = np.arange(len(want)) != i
        assert valuecheck.disagreement(got, want, known) is None
    assert valuecheck.disagreement(np.array([1, 2]), np.array([1, 3]), None) is not None
    # A bool is a byte of 0 or 1, and no other.
    odd = np.array([0, 2], np.uint8).view(bool)
    assert valuecheck.disagreement(odd, np.array([False, True]), None) is not None


def test_what_rounding_cannot_do_is_wrong() -> None:
    """However ill-conditioned a binding is, a value is right only as far as its own rounding goes."""
    want, others = np.array([1.0, 1.0]), [np.array([1.001, 1.0]), np.array([0.999, 1.0])]
    bad = np.array([True, True])
    beyond = valuecheck._beyond(np.array([1.0035, 1.001]), want, bad, others)
    assert beyond is not None and beyond.tolist() == [False, True]
    beyond = valuecheck._beyond(np.array([1.1, 1.0]), want, np.array([True, False]), others)
    assert beyond is not None and beyond.tolist() == [True, False]
    assert valuecheck._beyond(np.array([3]), np.array([2]), np.array([True]), [np.array([2]), np.array([3])]) is None
    assert valuecheck._beyond(np.array([3]), np.array([2]), np.array([True]), [np.array([2])]) is not None


# --- what is compared -----------------------------------------------------------------------------------------------

KINDS = """
entry main [n] (x: [n]f64) (k: i64) =
  let (y, s) = loop (y, s) = (x, 0) for i < k do
    let z = map (\\v -> f64.sin (v * f64.i64 i) + s) y
    in (z, f64.sum z)
  let (_, w) = loop (go, w) = (true, s) while go do (w < 100, w * 2 + 1)
  let h = reduce_by_index (replicate 5 0i64) (+) 0 (map (\\v -> i64.f64 (v * 3)) y) (map (const 1) y)
  let t = if w > 3 then map (+ 1) y else reverse y
  let u = scatter (copy y) (iota k) (map f64.cos (take k t))
  in (transpose [t, u], scan (+) 0 (map (\\b -> if b > 0 then 1i8 else 0) t), h, all (> 0) t)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_scalars_and_arrays_are_compared_in_every_iteration(checked: None, backend: str) -> None:
    program = futad.compile(KINDS, backend=backend)
    check = check_of(program)
    counts = []
    for k in (0, 3, 4):
        program.main(np.linspace(-1, 1, 7), k)
        counts.append(check.compared)
    first, second = counts[0], counts[1] - counts[0]
    assert first >= 8
    assert second >= first + 3 * 4, "each iteration's counter, loop variables, and what it binds"
    compared = {v.name for v in check.plan.stops}
    assert {"y", "s", "i", "w", "t"} <= compared
    assert len(check.plan.skipped) <= 2


# --- nothing else changes -------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_cc
def test_the_records_of_either_side_are_its_own(checked: None) -> None:
    """A loop outside of maps carries the record of its last iteration."""
    text = """
def f (d: i64) (x: f64) (y: f64): (f64, f64) =
  if d == 0 then (f64.sin x, y)
  else (loop (a, b, c) = (x, y, d) while c > 0 do let (a, b) = f (c - 1) a b in (a * b, b * 0.9, c - 1))
       |> \\(a, b, _) -> (a, b)
entry main (x: f64) = vjp (\\x -> let (a, b) = loop (a, b) = (x, x) for i < 3 do f i a b in a + b) x 1
"""
    found = futad.compile(text, backend="c").main(0.7)
    assert found == pytest.approx(futad.compile(text, backend="interp", method="dual").main(0.7), rel=1e-12)


def texts(program: ir.Program, backend: str, checks: frozenset[str]) -> tuple[list[str], int]:
    """The lines of emitted code but for reports, and how many of these there are."""
    if backend == "emulated":
        device = device_backend(program, checks)
        lines = [*device.source.splitlines(), *device.host.splitlines()]
        kept = [line.strip() for line in lines if "R.reports." not in line and line.strip() not in ("pass", "else:")]
        kept = [line if "K[" not in line else line.partition("K[")[0] for line in kept]
        kept = [line for line in kept if not line.startswith("if ")]  # one whose branches are empty goes
        return kept, sum("R.reports." in line for line in lines)
    made = c_backend(program, multicore=backend == "multicore", carries=checks)
    text = made.source
    if checks:
        from futad.backend.c_reports import RUNTIME

        assert text.count(RUNTIME) == 1
        text = text.replace(RUNTIME, "\n")
    lines = text.splitlines()
    kept = [line for line in lines if line.strip() and "futad_report" not in line]
    return kept, sum("futad_report(" in line for line in lines)


TILES = """
def before [n] (x: [n]f64): [n]f64 = sized n ([1] ++ take (n - 1) x)
def down [n] (x: [n]f64): [n]f64 = map2 (\\a b -> f64.sin a + 0.5 * b) (before x) x
entry main [n] (x: [n]f64): ([n]f64, [n]f64) = let a = down (down x) let b = down (down a) in (a, down b)
entry iterations [n] (x: [n]f64): [n]f64 = loop x for i < 5 do down (down (map (+ f64.i64 (i % n) / f64.i64 (i / n)) x))
"""
SOURCES = sorted((ROOT / "tests" / "programs").glob("*.fut"))[::9] + [
    ROOT / "benchmarks" / "programs" / f"{name}.fut" for name in ("lstm", "kmeans")
]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
@pytest.mark.parametrize("path", [None, *SOURCES], ids=lambda p: p.stem if p else "tiles")
def test_checked_code_is_the_code_that_runs_unchecked(path: Path | None, backend: str) -> None:
    source = compile_text(TILES, "tiles") if path is None else load_program(str(path))
    program = common(source, target_of(backend))
    plain, none = texts(program, backend, frozenset())
    shown, reports = texts(program, backend, VALUES)
    assert none == 0 and reports > 0
    assert shown == plain


@pytest.mark.slow
@needs_cc
def test_without_the_variable_nothing_is_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    program = common(compile_text(KINDS, "kinds"), C)
    monkeypatch.delenv("FUTAD_CHECK", raising=False)
    assert c_backend(program).source == c_backend(program, carries=frozenset()).source
    assert "report" not in c_backend(program).source.replace("reported", "")
    monkeypatch.setenv("FUTAD_CHECK", "values")
    assert c_backend(program).source == c_backend(program, carries=VALUES).source
    assert c_backend(program).source != c_backend(program, carries=frozenset()).source


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_cc
def test_futad_test_checks_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delenv("FUTAD_CHECK", raising=False)
    path = tmp_path / "two.fut"
    path.write_text(f"-- ==\n-- entry: agrees\n-- input {{ [[1.0, 2.0], [3.0, 4.0]] }}\n{TWO_ARRAYS}")
    assert main(["test", "-b", "c", "--check", str(path)]) == 0
    nothing_written(monkeypatch, "b")
    assert main(["test", "-b", "c", str(path)]) == 0
    capsys.readouterr()
    assert main(["test", "-b", "c", "--check", str(path)]) == 1
    assert "this is a defect of futad" in capsys.readouterr().out


CRASH = """
import numpy as np, futad
from futad.core import ir
from futad.imp import lower
at = lower.HANDLERS[ir.At]
lower.HANDLERS[ir.At] = lambda lo, stm, e, wants: at(lo, stm, ir.At(e.array, e.index, None), wants)
source = "entry main [n] (x: [n]f64) (i: i64) = let y = map f64.sin x let early = f64.sum y in y[i] + early"
program = futad.compile(source, backend="c")
print(program.main(np.ones(3), 1) > 0, flush=True)
program.main(np.ones(3), -(1 << 40))
"""


@pytest.mark.slow
@needs_cc
def test_a_crash_tells_how_far_the_program_came() -> None:
    """A read far outside of any array, as a check that was left out wrongly lets happen."""
    done = subprocess.run(
        [sys.executable, "-c", CRASH], env={**os.environ, "FUTAD_CHECK": "values"}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.stdout == "True\n"
    assert done.returncode == -signal.SIGSEGV
    assert re.search(r"^checked execution: crashed after \w+_\d+$", done.stderr, re.MULTILINE), done.stderr
