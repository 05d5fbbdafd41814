"""Checked execution of memory: what is wrong is found where it first shows, what is right runs as before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import futad
from futad import checks, legality
from futad.core import ir as core
from futad.core.interp import Interpreter
from futad.core.types import ArrayType
from futad.errors import AssertionFailed, BoundsError, CheckFailure, InternalError
from futad.flatten.lower import DeviceLowerer
from futad.imp import elements, ir, outline, records
from futad.imp.dispatch import HANDLERS
from futad.imp.lower import Lowerer
from futad.imp.views import Mem, View
from futad.pipeline import compile_program
from futad.source import compile_text, load_program
from futad.target import C
from futad.testing.build import c_backend, common
from tests.support.device_support import BY_HOST
from tests.support.needs import needs_cc
from tests.support.paths import ROOT
from tests.support.program_groups import check_cases

pytestmark = needs_cc

BACKENDS = ["c", "multicore", "emulated"]


@pytest.fixture(autouse=True)
def _fewer_optimisations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CFLAGS", "-O1")


def checked(text: str, backend: str) -> Any:
    """The program, compiled with checks of its memory; of a device the host runs its loops, and sees what they bind."""
    by_host = BY_HOST if backend == "emulated" else None
    with checks.checking({"memory"}):
        program = futad.compile(text, name="program.fut", backend=backend, schedule=by_host)
        program.executor()
    return program


def finding(text: str, backend: str, *args: Any) -> str:
    with pytest.raises(CheckFailure) as caught:
        checked(text, backend).main(*args)
    assert isinstance(caught.value, InternalError)
    return str(caught.value)


# --- what is found ---------------------------------------------------------------------------------------

TWICE = """entry main [l] [d] (x: [l][d]f64): ([l][d]f64, [l][d]f64) =
  loop (a, b) = (replicate l (replicate d 1), replicate l (replicate d 2)) for j < l do
    let v = map f64.sin x[j]
    in (a with [j] = v, b with [l - 1 - j] = v)
"""
# The same memory as before in both arrays, so that nobody sees in the results where `v` went.
TWICE_ALIKE = TWICE.replace("replicate d 2", "replicate d 1").replace("l - 1 - j", "j")


@contextmanager
def placed_by_name(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The place of a value in one array is taken for that in another one."""
    update = HANDLERS[core.Update]
    places: dict[Any, Any] = {}

    def mutant(lo: Lowerer, stm: core.Stm, e: core.Update, wants: Any) -> Any:
        if e.value not in places or not isinstance(e.value.type, ArrayType):
            places[e.value] = update(lo, stm, e, wants)
        return places[e.value]

    with patch.context() as p:
        p.setitem(HANDLERS, core.Update, mutant)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", [TWICE, TWICE_ALIKE], ids=["different", "alike"])
def test_a_value_in_the_memory_of_another_array_is_stale(text, backend, monkeypatch):
    x = np.arange(12.0).reshape(4, 3)
    with placed_by_name(monkeypatch):
        if text is TWICE_ALIKE:
            a, b = futad.compile(text, backend=backend).main(x)
            np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(a, np.sin(x))
        message = finding(text, backend, x)
    # The second of the updates is wrong.
    assert re.search(
        r"stale memory: '([ab])' \(update, program.fut:1:1\) in iteration 0 is said to be there, but element \d+ of "
        r"its memory was last written by '(?!\1)[abv]' \((for|map), program.fut:1:1\)",
        message,
    )


# An array that is read after an update was to go elsewhere; what is written is what is there already.
LATER = """entry main [n] (xs: [n]f64): ([n]f64, [n]f64) =
  let ys = map (* 2) xs
  let zs = copy ys with [1] = 2 * xs[1]
  in (map2 (+) ys (reverse zs), scan (+) 0 ys)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_live_array_that_is_updated_in_place_is_overwritten(backend, monkeypatch):
    xs = np.arange(10.0)
    expected = futad.compile(LATER, backend="interp").main(xs)
    monkeypatch.setattr(Lowerer, "roots_live", lambda self, roots: False)
    for a, e in zip(futad.compile(LATER, backend=backend).main(xs), expected, strict=True):
        np.testing.assert_array_equal(a, e)
    message = finding(LATER, backend, xs)
    assert re.search(
        r"overwritten memory: element 1 of its memory, read as '\w+' \((fused|map|scan), program.fut:\d+:\d+\), was "
        r"last written by '\w+' \(update, program.fut:3:12\)",
        message,
    )


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_copy_that_is_left_out_leaves_uninitialised_memory(backend, monkeypatch):
    owner, name = (DeviceLowerer, "copy") if backend == "emulated" else (Lowerer, "copy_here")
    monkeypatch.setattr(owner, name, lambda self, dst, src: None)
    message = finding(LATER, backend, np.arange(10.0))
    assert re.search(r"uninitialised memory: '\w+' \((copy|update), .* reads element 0 of its memory", message)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_beside_an_array_is_foreign_memory(backend, monkeypatch):
    element = elements.element

    def mutant(lo: Lowerer, v: View, i: ir.Expr, hint: str) -> Any:
        return element(lo, v, ir.add(i, ir.ONE), hint)

    monkeypatch.setattr(elements, "element", mutant)
    message = finding("entry main [n] (xs: [n]f64): [n]f64 = map f64.sqrt xs", backend, np.ones(10))
    # The device tells which kernel reads, of all the arrays that it reads.
    assert re.search(r"foreign memory: '\w+' \((an argument|map), .*\) reads where no array is", message)


GATHERED = """entry main [n] [m] (xs: [n]f64) (is: [m]i64): [n]f64 =
  vjp (\\xs -> f64.sum (map (\\i -> xs[i] * xs[i]) is)) xs 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 0.0])
def test_threads_that_add_to_one_element_race(factor):
    """Each time, whichever thread is first, and though sums of zeros come out right."""
    args = np.full(5, factor), np.arange(40) % 5
    right = checked(GATHERED, "multicore")
    right.executor().library.futad_pool_set_threads(4)
    np.testing.assert_array_equal(right.main(*args), np.full(5, 16 * factor))
    with legality.dropping("parallel-nests/places of its own"):
        message = finding(GATHERED, "multicore", *args)
    assert re.search(
        r"race: 'x_bar' \(map, program.fut:2:35\) needs element \d of its memory, which another piece of the same "
        r"parallel nest wrote, as 'x_bar' \(map, program.fut:2:35\)",
        message,
    )


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_an_iteration_too_few_is_found(backend, monkeypatch):
    """A map that does not reach its end."""
    loop = Lowerer.loop

    @contextmanager
    def shorter(self: Lowerer, size: ir.Expr, hint: str = "i", *args: Any, **named: Any) -> Iterator[Any]:
        with loop(self, size, hint, *args, **named) as (i, made):
            if hint == "i":
                made.bound = ir.sub(made.bound, ir.ONE)
            yield i, made

    monkeypatch.setattr(Lowerer, "loop", shorter)
    text = "entry main [n] (xs: [n]f64): f64 = let ys = scan (+) 0 xs in ys[0]"
    message = finding(text, backend, np.ones(10))
    assert re.search(r"uninitialised memory: '\w+' \(scan, .*\) reads element \d of its memory", message)


@pytest.mark.slow
def test_the_iterations_of_both_are_named(monkeypatch):
    text = """entry main [n] (xs: [n]f64): f64 =
      let (_, s) = loop (ys, s) = (copy xs, 0) for i < n do
        let zs = copy ys with [i] = xs[n - 1 - i]
        in (zs, s + ys[i] * zs[0])
      in s"""
    monkeypatch.setattr(Lowerer, "roots_live", lambda self, roots: False)
    message = finding(text, "c", np.arange(1.0, 7.0))
    assert re.search(
        r"read as 'ys' \(.*\) in iteration 0, was last written by '\w+' \(update, .*\) in iteration 0", message
    )


# --- recursive functions ---------------------------------------------------------------------------------

SORT = """def halves [n] (xs: [n]f64): [n]f64 =
  if n <= 1 then xs
  else let h = n / 2
       let (a, b) = (halves (take h xs), halves (drop h xs))
       in (map (* 2) b ++ map f64.sin a) :> [n]f64
entry main [n] (xs: [n]f64): [n]f64 = halves xs
"""
CHAIN = """def chain [k][n] (ws: [n][k]f64) (x: [k]f64): [k]f64 =
  if n == 0 then x else let y = chain (drop 1 ws) x in map3 (\\w y i -> f64.sin (w * y) * f64.sum y' + i) ws[0] y y
entry main [k][n] (ws: [n][k]f64) (x: [k]f64) = vjp (\\(ws, x) -> chain ws x) (ws, x) (replicate k 1)
""".replace("let y = chain (drop 1 ws) x in", "let y = chain (drop 1 ws) x let y' = map f64.cos y in")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_recursive_programs_run_clean(backend):
    """Results in slots of callers, records, accumulators as parameters, maps of calls and tasks."""
    text = (
        SORT.replace("entry main", "entry sort") + CHAIN
        + "entry each [m][n] (xs: [m][n]f64) = vjp (\\xs -> map (\\r -> f64.sum (halves r)) xs) xs (replicate m 1)\n"
        "def both [n] (xs: [n]f64): f64 = if n <= 1 then f64.sum xs else let h = n / 2 in\n"
        "  let (a, b) = par (\\i -> both (take i xs)) (\\i -> both (drop i xs)) (h, h) in a * f64.sin b\n"
        "entry tasks [n] (xs: [n]f64) = vjp both xs 1\n"
    )
    program, plain = checked(text, backend), futad.compile(text, backend="interp")
    r = np.random.default_rng(1)
    for n, k in ((0, 2), (1, 1), (5, 3), (12, 4)):
        ws, x = r.normal(size=(n, k)), r.normal(size=k)
        for name, args in (("sort", [x]), ("main", [ws, x]), ("each", [ws]), ("tasks", [x])):
            got, want = (p[name](*args) for p in (program, plain))
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)
        assert program.executor().compiled.records()[1] == 0


LATE = "in loop ys = (a ++ b) :> [n]f64 for i < n do map2 (+) ys (reverse ys)"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_a_result_that_stays_in_an_activation_is_found(backend, monkeypatch):
    """Its memory was given back when the call returned, and the next one has it."""
    monkeypatch.setattr(Lowerer, "move", lambda self, v, destination: v)
    text = SORT.replace("in (map (* 2) b ++ map f64.sin a) :> [n]f64", LATE)
    message = finding(text, backend, np.arange(5.0)[::-1].copy())
    says = r"stale memory: 'halves' \(call, program.fut:5:22\) reads what 'm' \(map, .* has given back"
    assert re.search(says, message), message


@pytest.mark.slow
def test_activations_with_common_memory_overwrite_each_other(monkeypatch):
    def shared(lo: Lowerer, fun: core.Fun) -> ir.Function:
        return lo.function(fun, local=True)

    monkeypatch.setattr(outline, "activation", shared)
    message = finding(SORT, "c", np.arange(9.0))
    assert re.search(r"overwritten memory: element \d+ of its memory, read as '\w+' \(call, .*last written", message)


@pytest.mark.slow
@pytest.mark.parametrize("defect", ["before it is read", "twice"])
def test_a_record_that_was_given_back_is_stale(defect, monkeypatch):
    emit = Lowerer.emit

    def early(self: Lowerer, stmt: ir.Stmt) -> None:
        if defect == "twice" and isinstance(stmt, records.Release):
            emit(self, records.Release(stmt.record))
        if isinstance(stmt, records.Field) and isinstance(stmt.record, ir.Ref) and stmt.number == 0:
            given = not any(isinstance(s, records.Keep) and s.name == stmt.record.name for s in self.out)
            if given and defect != "twice":
                emit(self, records.Release(stmt.record))
        emit(self, stmt)

    monkeypatch.setattr(Lowerer, "emit", early)
    message = finding(CHAIN, "c", np.ones((3, 2)), np.ones(2))
    assert re.search(r"stale memory: .* reads what '\w*record\w*' \(keep, .*\) has given back", message)


@pytest.mark.slow
def test_a_value_that_was_not_kept_is_uninitialised(monkeypatch):
    """A record's values in another order than they are read in."""
    copy = Lowerer.copy

    def mutant(self: Lowerer, dst: View, src: View) -> None:
        if not (isinstance(dst.base, Mem) and dst.base.pointer.startswith("field")):
            copy(self, dst, src)

    monkeypatch.setattr(Lowerer, "copy", mutant)
    message = finding(CHAIN, "c", np.ones((3, 2)), np.ones(2))
    assert re.search(r"uninitialised memory: .* memory for '\w+' \(\w+, .*\) that nobody has written", message)


# --- what is right ---------------------------------------------------------------------------------------

SAMPLE = [
    "array_basics", "concat_rotate", "filter_partition", "flatten_family", "hist_tuples", "loop_sizes", "matrix",
    "nested", "reduce_arrays", "scan_family", "scatter_rows",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_right_programs_run_clean(backend, capsys):
    from futad.cli import main

    paths = [ROOT / "tests" / "programs" / f"{name}.fut" for name in SAMPLE]
    with checks.checking({"memory"}):
        for path in paths[1:]:
            check_cases(path, paths[1:], 1, backend)
        code = main(["test", "-b", backend, str(paths[0])])
    assert code == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_failures_of_the_program_are_what_they_were(backend):
    """What a kernel that failed has not written is no finding."""
    program = checked("entry main [n] (xs: [n]f64) (is: [3]i64): [3]f64 = map (\\i -> xs[i]) is", backend)
    with pytest.raises(BoundsError, match=r"Index \[3\] out of bounds for array of shape \[3\]"):
        program.main(np.ones(3), np.array([0, 3, 1]))
    np.testing.assert_array_equal(program.main(np.ones(3), np.array([0, 2, 1])), np.ones(3))
    nothing = checked("entry main (xs: []i32): []i32 = map ??? xs", backend)
    with pytest.raises(AssertionFailed, match="Reached hole"):
        nothing.main(np.ones(1, np.int32))


SHARED_OUT = """entry main [n] (is: [n]i64) (xs: [n]f64) (ms: [n][8]f64): ([5]f64, [n]f64, [n]f64, f64) =
  let h = reduce_by_index (replicate 5 1) (+) 0 is xs
  let w = tabulate_2d 8 9 (\\i j -> f64.i64 (i - j))
  let p = map (\\m -> map (\\c -> f64.sum (map2 (*) m c)) (transpose w)) ms
  in (h, map (\\r -> f64.maximum (scan (+) 0 r)) p, scan (+) 0 xs, reduce (*) 1 (map (+ 0.5) xs))
"""


@pytest.mark.slow
def test_nests_that_threads_share_run_clean():
    """Parts so small that all nests are shared out."""
    program = common(compile_text(SHARED_OUT, "program.fut"), C)
    r = np.random.default_rng(0)
    args = [300, r.integers(0, 5, 300), r.random(300), r.random((300, 8))]
    results = c_backend(program, multicore=True, grain=1, carries=frozenset({checks.MEMORY})).run("main", args)
    for x, y in zip(results, Interpreter(program).run("main", args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11)


@pytest.mark.slow
def test_results_live_on_and_memory_comes_back():
    """Large results change owner; blocks go back to their space when they die."""
    program = checked("entry main [n] (xs: [n]f64): [n]f64 = map (+ 1) xs", "c")
    kept = [program.main(np.full(20_000, float(k))) for k in range(5)]
    for k, ys in enumerate(kept):
        np.testing.assert_array_equal(ys, k + 1)


# --- without checks --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("multicore", [False, True])
def test_code_without_checks_knows_nothing_of_them(multicore, monkeypatch):
    monkeypatch.delenv(checks.VARIABLE, raising=False)
    program = compile_program(load_program(str(ROOT / "benchmarks" / "programs" / "gmm.fut")))
    plain = c_backend(program, multicore=multicore)
    text = plain.source
    for word in ("check_arena", "check_memory", "futad_read_", "futad_wrote", "futad_now", "futad_iteration"):
        assert word not in text
    assert plain.layout().bindings == ()
    assert "futad_read_f64" in c_backend(program, multicore=multicore, carries=frozenset({"memory"})).source
    assert c_backend(program, multicore=multicore).source == text
