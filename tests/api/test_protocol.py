"""What other frameworks need of entries: shapes without running, pickling, results into given memory, derivatives by
name."""

from __future__ import annotations

import copy
import ctypes
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import futad
from futad import strategies
from futad.api.program import Program
from futad.errors import BoundsError, DtypeError, FileNotFound, ShapeError, UsageError
from tests.support.needs import needs_cc
from tests.support.paths import ROOT

SOURCE = """
entry sines [n] (xs: [n]f64): [n]f64 = map f64.sin xs
entry loss [n] (w: {a: [n]f64, b: f64}) (x: [n]f64) (k: i64): f64 =
  f64.sum (map2 (\\a x -> (a * x + w.b) ** f64.i64 k) w.a x)
entry positive (xs: []f64): ([]f64, i64) = let ys = filter (> 0) xs in (ys, length ys)
entry copies (k: i64) (x: f32): [k]f32 = replicate k x
entry table [n][m] (xss: [n][m]f64): {sums: [n]f64, turned: [m][n]f64} =
  {sums = map f64.sum xss, turned = transpose xss}
entry swap [n] (xs: [n]f64) (ys: [n]f64): ([n]f64, [n]f64) = (ys, xs)
entry pairs [n] (ps: [n](f64, i64)): [n](i64, f64) = map (\\(x, k) -> (k, x)) ps
entry second (xs: []f64): f64 = xs[1]
entry named [n] (xs: [n]f64) (out: f64): [n]f64 = map (* out) xs
def with_last 't [n] (xs: [n]t) (x: t): [n + 1]t = xs ++ [x]
entry longer [n] (xs: [n]f64): [n + 1]f64 = with_last xs 1
entry table2 [n] (xs: [n]f64) (k: i64): [2 * n][k - 1]f64 = map (\\x -> replicate (k - 1) x) (xs ++ xs :> [2 * n]f64)
"""
F64 = np.dtype(np.float64)


@pytest.fixture(scope="module", params=["interp", "c"])
def prog(request: pytest.FixtureRequest) -> Program:
    return futad.compile(SOURCE, "things.fut", backend=request.param)


# -- shapes


def test_shapes_of_results(prog: Program) -> None:
    assert prog.sines.shapes((3,)) == ((3,), F64) == futad.Spec((3,), F64)
    assert prog.copies.shapes(5, ()) == ((5,), np.float32)
    assert prog.table.shapes(np.zeros((2, 3))) == {"sums": ((2,), F64), "turned": ((3, 2), F64)}
    assert prog.pairs.shapes(((4,), (4,))) == (((4,), np.int64), ((4,), F64))
    g = futad.grad(prog.loss).shapes({"a": (4,), "b": ()}, x=[1.0, 2.0, 3.0, 4.0], k=())
    assert (g.a.shape, g.b.shape) == ((4,), ())
    assert prog.sines.shapes(prog.sines.shapes((7,))).shape == (7,)


@pytest.mark.parametrize(
    ("entry", "args", "error", "text"),
    [
        ("positive", ((3,),), UsageError, "is found by running it"),
        ("table2", ((3,), ()), UsageError, "depends on the value of argument 'k': give the number"),
        ("table2", ((3,), 0), ShapeError, "the shape of the result of table2 would have the size -1"),
        ("copies", ((), ()), UsageError, "depends on the value of argument 'k': give the number"),
        ("swap", ((3,), (4,)), ShapeError, "'ys' of swap: dimension 0 is 4, where 3 is needed by argument 'xs'"),
        ("sines", ((3, 4),), ShapeError, "argument 'xs' of sines: expected []f64, which has rank 1, got rank 2"),
        ("sines", (), UsageError, "sines takes 1 argument, not 0"),
        ("sines", ([[1.0], [1.0, 2.0]],), ShapeError, "differ in length"),
    ],
)
def test_shapes_that_are_not_told(prog: Program, entry: str, args: tuple, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        prog[entry].shapes(*args)


@pytest.mark.slow
def test_sizes_that_follow_from_others(prog: Program) -> None:
    assert prog.longer.shapes((3,)).shape == (4,) and prog.table2.shapes((3,), 5).shape == (6, 4)
    assert futad.grad(prog.loss).size_numbers() == prog.longer.size_numbers() == set()
    assert prog.table2.size_numbers() == {1} and prog.copies.size_numbers() == {0}
    value, _ = futad.vjp(prog.longer, [1.0, 2.0])
    assert value.shape == prog.longer.shapes(np.zeros(2)).shape
    assert prog.longer.derivative("jvp").shapes((3,), (3,))[1].shape == (4,)


def test_sizes_may_be_symbols(prog: Program) -> None:
    n, m = object(), object()
    assert prog.table.shapes((n, m))["turned"].shape == (m, n)
    with pytest.raises(ShapeError):
        prog.swap.shapes((n,), (m,))


@pytest.mark.slow
def test_shapes_of_benchmark_entries_are_those_of_results() -> None:
    """All entries of the benchmark programs tell their shapes, or that these are found by running."""
    told = refused = 0
    for file in sorted((ROOT / "benchmarks" / "programs").glob("*.fut")):
        program = futad.load(file, backend="interp")
        for f in program.entries.values():
            sizes = {name: 3 + i for i, name in enumerate(f.signature.size_names)}
            shapes = [tuple(d if isinstance(d, int) else (3 + d[1]) for d in x.dims) for x in f.signature.params]
            leaves = [s if s or not x.elem.is_integral else 3 + len(sizes) + i
                      for i, (s, x) in enumerate(zip(shapes, f.signature.params, strict=True))]  # fmt: skip
            try:
                specs = f.shapes_of_leaves(leaves)
            except UsageError as e:
                assert "is found by running" in str(e)
                refused += 1
                continue
            assert [len(s.shape) for s in specs] == [len(r.dims) for r in f.signature.results]
            told += 1
    assert told > 30 and refused < told / 4, (told, refused)


# -- pickling


def test_what_is_pickled_and_lives_is_itself(prog: Program) -> None:
    gradient = futad.grad(prog.loss)
    for f in (prog.sines, gradient, futad.hessian(prog.second)):
        assert pickle.loads(pickle.dumps(f)) is f is copy.deepcopy(f) is copy.copy(f)
    again = pickle.loads(pickle.dumps(prog))
    assert again.sines is prog.sines and repr(again) == repr(prog)


@pytest.mark.slow
def test_the_source_goes_along_and_no_code(tmp_path: Path) -> None:
    """Files, imports too, are not looked at again, and their places are told from the texts."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "shift.fut").write_text("def shift (x: f64) = x + 1\n")
    (tmp_path / "p.fut").write_text('import "lib/shift"\nentry f (xs: []f64) (i: i64): f64 = shift xs[i]\n')
    program = futad.load(tmp_path / "p.fut", backend="c")
    gradient = futad.grad(program.f)
    data = pickle.dumps((program, program.f, gradient, futad.grad(program.f, memory="1kB")))
    assert gradient([1.0, 2.0], 1).tolist() == [0, 1]
    assert b"\x7fELF" not in data
    for file in tmp_path.rglob("*.fut"):
        file.unlink()
    code = """if True:
        import pickle, sys, numpy as np
        program, f, gradient, bounded = pickle.load(sys.stdin.buffer)
        assert program.f is f and pickle.loads(pickle.dumps(gradient)) is gradient
        assert gradient(np.array([1.0, 2.0]), 1).tolist() == [0, 1]
        assert ('futad.source' in sys.modules) == (sys.argv[1] == 'first'), 'the compiled gradient is in the cache'
        assert f(np.array([1.0, 2.0]), 1) == 3 and bounded(np.ones(2), 0).tolist() == [1, 0]
        try:
            f(np.ones(2), 2)
        except IndexError as e:
            print(e)
    """
    # What is checked is not taken from the cache.
    environment = {**os.environ, "FUTAD_CHECK": "", "FUTAD_CACHE_DIR": str(tmp_path / "cache"), "FUTAD_OPT": "0"}
    for time in ("first", "second"):
        command = [sys.executable, "-c", code, time]
        done = subprocess.run(command, input=data, capture_output=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr.decode()
        assert "entry f (xs: []f64) (i: i64): f64 = shift xs[i]" in done.stdout.decode()


@pytest.mark.slow
def test_workers_take_functions() -> None:
    f = futad.compile(SOURCE, backend="interp")
    data = [np.full(3, float(i)) for i in range(4)]
    for method in ("spawn", "fork"):
        with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
            assert [r.tolist() for r in pool.map(f.sines, data, timeout=100)] == [np.sin(x).tolist() for x in data]


def test_what_has_no_source_does_not_pickle() -> None:
    core = futad.compile("entry f (x: f64) = x").core
    with pytest.raises(TypeError, match="not made by load or compile"):
        pickle.dumps(Program(core).f)


def test_a_schedule_pickles_by_its_text() -> None:
    schedule = strategies.default().without("fuse")
    f = futad.compile("entry f (x: f64) = x * x", backend="interp", schedule=schedule).f
    told = f.__reduce__()
    executable_made, recipe = told[1][0].__reduce__()
    other = executable_made("another digest", *recipe[1:])
    assert other is not f.executable and other.schedule == schedule
    assert futad.Function(other, f.symbol)(3.0) == 9

    @strategies.rule(type(f.executable.core.funs["f"].body.stms[0].exp))
    def own(stm, ctx):
        return None

    ruled = strategies.default().before("fuse", strategies.topdown(own))
    with pytest.raises(TypeError, match="written in Python"):
        pickle.dumps(futad.compile("entry f (x: f64) = x * x", backend="interp", schedule=ruled).f)


def test_a_text_that_is_missing_is_named() -> None:
    from futad.source import compile_texts

    with pytest.raises(FileNotFound, match="the program was kept without b.fut"):
        compile_texts({"a.fut": 'import "b"\nentry f (x: f64) = x'}, "a.fut")


# -- memory for results


def test_results_go_to_given_memory(prog: Program) -> None:
    xs, out = np.arange(4.0), np.full(4, np.nan)
    assert prog.sines(xs, out=out) is out and out.tolist() == np.sin(xs).tolist()
    number = np.zeros(())
    assert prog.loss({"a": xs, "b": 1.0}, xs, k=2, out=number) is number
    assert number == prog.loss({"a": xs, "b": 1.0}, xs, 2)
    tree = {"sums": np.empty(2), "turned": np.empty((3, 2))}
    prog.table(np.arange(6.0).reshape(2, 3), out=tree)
    assert tree["sums"].tolist() == [3, 12] and tree["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    found = (np.empty(2), np.zeros((), np.int64))
    prog.positive([1.0, -1.0, 2.0], out=found)
    assert found[0].tolist() == [1, 2] and found[1] == 2
    prog.sines(np.empty(0), out=np.empty(0))


def test_given_memory_may_be_that_of_arguments(prog: Program) -> None:
    xs, ys = np.arange(3.0), np.arange(3.0) + 10
    prog.swap(xs, ys, out=(xs, ys))
    assert xs.tolist() == [10, 11, 12] and ys.tolist() == [0, 1, 2]
    whole = np.arange(8.0)
    prog.sines(whole[::2], out=whole[1::2])
    assert whole[1::2].tolist() == np.sin([0.0, 2, 4, 6]).tolist() and whole[::2].tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("entry", "args", "out", "error", "text"),
    [
        ("sines", (np.ones(3),), np.empty(4), ShapeError, "the result has shape (3,), the memory for it (4,)"),
        ("sines", (np.ones(3),), np.empty((3, 1)), ShapeError, "of rank 1, got one of rank 2"),
        ("sines", (np.ones(3),), np.empty(3, np.float32), DtypeError, "'out': expected []f64 (float64), got an array"),
        ("sines", (np.ones(3),), [0.0] * 3, DtypeError, "'out': expected a NumPy array of float64, got list"),
        ("sines", (np.ones(3),), np.broadcast_to(0.0, (3,)), UsageError, "'out' is read-only"),
        ("swap", (np.ones(2), np.ones(2)), (np.empty(2),) * 2, UsageError, "two parts of out share memory"),
        ("swap", (np.ones(2), np.ones(2)), (np.empty(2), np.empty(3)), ShapeError, "'out.1' of swap"),
        ("table", (np.ones((2, 2)),), {"sums": np.empty(2)}, futad.InputError, "field 'turned' is missing"),
        ("second", (np.ones(1),), np.empty(()), BoundsError, "Index [1] out of bounds"),
    ],
)  # fmt: skip
def test_memory_that_does_not_fit(prog: Program, entry: str, args: tuple, out: object, error: type, text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        prog[entry](*args, out=out)


def test_a_parameter_called_out_is_one(prog: Program) -> None:
    assert prog.named([1.0, 2.0], out=3.0).tolist() == [3, 6]
    made = np.empty(2)
    prog.named.call_into([np.array([1.0, 2.0]), np.float64(2)], [made])
    assert made.tolist() == [2, 4]
    with pytest.raises(UsageError, match="the result of named has 1 component, but memory is given for 2"):
        prog.named.call_into([np.ones(2), np.float64(2)], [made, made])


# -- derivatives by name


@pytest.mark.slow
def test_derivatives_by_name_are_those_of_the_functions(prog: Program) -> None:
    w, x = {"a": np.array([1.0, 2.0]), "b": 0.5}, np.array([3.0, -1.0])
    assert prog.loss.derivative("grad", 0) is futad.grad(prog.loss)
    assert prog.loss.derivative("grad", memory="1kB") is not prog.loss.derivative("grad")
    pulled = prog.loss.derivative("vjp").call_leaves([w["a"], np.float64(0.5), x, np.int64(2), np.float64(1)])
    adjoints = futad.vjp(prog.loss, w, x, 2)[1](1.0)
    assert [p.tolist() for p in pulled] == [adjoints[0].a.tolist(), adjoints[0].b, adjoints[1].tolist()]
    value, tangent = prog.loss.derivative("jvp", [1])(w, x, 2, np.ones(2))
    assert value == prog.loss(w, x, 2) and tangent == pytest.approx(adjoints[1].sum())


def test_nothing_to_differentiate_is_an_error(prog: Program) -> None:
    counts = futad.compile("entry f (k: i64) = k * 2", backend="interp").f
    with pytest.raises(UsageError, match="no argument of f holds floating-point numbers"):
        counts.derivative("vjp")
    with pytest.raises(UsageError, match="argnums is empty"):
        prog.sines.derivative("vjp", ())
    with pytest.raises(UsageError, match="there is no derivative 'pull'; there are: jvp, vjp"):
        prog.sines.derivative("pull")


@pytest.mark.slow
@needs_cc
def test_native_code_is_called_with_its_lock() -> None:
    program = futad.compile(SOURCE, "p.fut", backend="c")
    f, xs, out = program.longer.native(), np.array([1.0, 2.0]), np.zeros((2, 8), np.int64)
    assert [(p.name, p.dtype, p.rank) for p in f.params] == [("n", np.int64, 0), ("xs", F64, 1)]
    assert [(r.name, r.rank) for r in f.results] == [("", 0), ("result", 1)] and f.stride <= out.shape[1]
    entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(f.address)
    size = np.array(2, np.int64)
    pointers = (ctypes.c_void_p * 2)(size.ctypes.data, xs.ctypes.data)
    with f.lock:
        assert entry(f.context, pointers, out.ctypes.data) == 0
        words = out.reshape(-1)[: 2 * f.stride].reshape(2, f.stride)
        assert words[0, 0] == words[1, 2] == 3
        np.testing.assert_array_equal(np.ctypeslib.as_array(ctypes.cast(int(words[1, 0]), DOUBLES), (3,)), [1, 2, 1])
    g = program.second.native()
    one, size = np.ones(1), np.array(1, np.int64)
    pointers = (ctypes.c_void_p * 2)(size.ctypes.data, one.ctypes.data)
    failing = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(g.address)
    with g.lock:
        assert failing(g.context, pointers, out.ctypes.data) != 0
        assert isinstance(g.failure(), BoundsError) and "Index [1] out of bounds" in str(g.failure())
    assert f.key == futad.compile(SOURCE, "p.fut", backend="c").longer.native().key != g.key
    with pytest.raises(UsageError, match="runs on backend 'interp', which has no code"):
        futad.compile(SOURCE, backend="interp").longer.native()
    with pytest.raises(UsageError, match="has bound arguments"):
        futad.bind(program.longer, xs).native()


DOUBLES = ctypes.POINTER(ctypes.c_double)
