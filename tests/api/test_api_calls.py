"""Programs and entries as Python objects."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
import warnings

import numpy as np
import pytest

import futad
from futad.backend import backends
from futad.errors import (
    AssertionFailed,
    BoundsError,
    DtypeError,
    FileError,
    FutadWarning,
    ShapeError,
    TypeCheckError,
    UsageError,
)
from futad.runtime import cc
from tests.support.needs import without_compilers

SOURCE = """
-- | The dot product.
entry dot [n] (xs: [n]f64) (ys: [n]f64): f64 = f64.sum (map2 (*) xs ys)
entry scale [n] (k: f64) (x': [n]f64): [n]f64 = map (* k) x'
entry second (xs: []f64): f64 = xs[1]
entry positive (xs: []f64): []f64 = filter (> 0) xs
entry split [n] (xs: [n]f64): {count: i64, halves: ([n]f64, [n]f64)} =
  {count = n, halves = (map (/ 2) xs, map (* 0.5) xs)}
entry sum_pairs [n] (ps: [n](f64, i64)): f64 = f64.sum (map (\\(x, k) -> x * f64.i64 k) ps)
entry square (p: {x: f32, y: f32}): {x: f32, y: f32} = {x = p.x * p.x, y = p.y * p.y}
entry set [n] (xs: *[n]f64) (i: i64): [n]f64 = xs with [i] = 0
entry same [n] (xs: [n]f64): ([n]f64, [n]f64) = (xs, xs)
entry firsts (k: i64) (xs: []f64): []f64 = xs[:k]
entry small (x: i8) (y: f16): (i8, f16) = (x + 100, y * 2)
"""


@pytest.fixture(scope="module", params=["interp", "c"])
def prog(request):
    return futad.compile(SOURCE, "things.fut", backend=request.param)


@pytest.mark.slow
def test_entries_are_callable_by_position_and_name(prog):
    assert prog.dot([1, 2], [3.0, 4]) == 11.0
    assert prog.dot(ys=np.ones(2), xs=np.array([1.0, 2.0])) == 3.0
    assert type(prog.dot([1], [1])) is np.float64
    assert prog["dot"] is prog.dot


def test_entries_describe_themselves(prog):
    assert list(prog.entries) == [line.split()[1] for line in SOURCE.splitlines() if line.startswith("entry")]
    assert prog.dot.__name__ == "dot"
    assert "dot (xs: [n]f64) (ys: [n]f64): f64" in prog.dot.__doc__
    assert "The dot product." in prog.dot.__doc__
    assert list(inspect.signature(prog.scale).parameters) == ["k", "x_"]
    assert "things.fut" in repr(prog) and "dot (xs: [n]f64)" in repr(prog)
    assert "scale" in dir(prog) and "scale" in repr(prog.scale)
    assert prog.dot.entry.params[0][0] == "xs"


def test_an_unknown_entry_names_near_ones(prog):
    with pytest.raises(AttributeError, match="no entry 'dott'; did you mean 'dot'"):
        _ = prog.dott
    with pytest.raises(UsageError, match="no entry 'zzz'; there are: dot, scale"):
        prog["zzz"]
    for key in (3, [1], None):
        with pytest.raises(futad.UsageError, match="an entry's name is a str"):
            prog[key]


def test_wrong_calls(prog):
    with pytest.raises(UsageError, match="dot takes 2 arguments, not 1"):
        prog.dot([1.0])
    with pytest.raises(UsageError, match="dot: got an unexpected keyword argument 'zs'"):
        prog.dot([1.0], [1.0], zs=[1.0])
    with pytest.raises(DtypeError, match="argument 'ys'.*int64"):
        prog.dot(np.ones(2), np.ones(2, np.int64))
    with pytest.raises(ShapeError, match="argument 'ys' of dot: dimension 0 is 3, but size n is 2 by argument 'xs'"):
        prog.dot(np.ones(2), np.ones(3))


def test_a_bounds_error_shows_the_line(prog):
    with pytest.raises(BoundsError) as e:
        prog.second(np.ones(1))
    text = str(e.value)
    assert "things.fut:5:33: Error: Index [1] out of bounds for array of shape [1]" in text
    assert "entry second (xs: []f64): f64 = xs[1]" in text and text.splitlines()[-1].strip("^ ") == ""


def test_results_of_unknown_size(prog):
    assert prog.positive([1.0, -2.0, 3.0]).tolist() == [1, 3]
    assert prog.positive([]).shape == (0,)


def test_structures(prog):
    r = prog.split([2.0, 4.0])
    assert r.count == 2 and r["halves"][0].tolist() == [1, 2] and isinstance(r, dict)
    assert prog.sum_pairs([(1.0, 2), (3.0, 4)]) == prog.sum_pairs((np.array([1.0, 3.0]), np.array([2, 4]))) == 14
    p = prog.square({"x": 2.0, "y": 3})
    assert (p.x, p.y) == (4, 9) and p.x.dtype == np.float32
    assert prog.square(p).x == 16


def test_records_behave_like_dicts(prog):
    r = prog.square({"x": 2.0, "y": 3})
    r.x = np.float32(5)
    assert r["x"] == 5
    assert pickle.loads(pickle.dumps(r)) == copy.deepcopy(r) == {"x": 5, "y": 9}


def test_a_slice_out_of_bounds_is_a_bounds_error(prog):
    for k in (5, -1):
        with pytest.raises(BoundsError, match=r"things.fut:13:\d+: Error: .*out of bounds"):
            prog.firsts(k, [1.0, 2.0])


def test_arguments_are_never_changed_and_results_are_the_callers_own(prog):
    xs = np.arange(4.0)
    assert prog.set(xs, 2).tolist() == [0, 1, 0, 3]
    assert xs.tolist() == [0, 1, 2, 3]
    a, b = prog.same(xs)
    a[0] = b[1] = 9
    assert xs.tolist() == [0, 1, 2, 3] and b[0] == 0 and a[1] == 1
    frozen = np.arange(4.0)
    frozen.flags.writeable = False
    assert prog.set(frozen, 0).tolist() == [0, 1, 2, 3]


def test_results_of_many_calls_are_apart(prog):
    sizes = [3, 3, 3, 2, 2, 2, 0, 0, 3, 20000, 20000, 3, 3]  # what lies where it lay before is copied in another way
    made = [prog.scale(float(i), np.arange(float(n))) for i, n in enumerate(sizes)]
    for i, (y, n) in enumerate(zip(made, sizes, strict=True)):
        np.testing.assert_array_equal(y, i * np.arange(float(n)))
        y[:] = -1.0
    xs = np.arange(4.0)
    for i in range(4):
        xs[0] = i
        a, b = prog.same(xs)
        assert a.tolist() == b.tolist() == xs.tolist()
        a[1] = 9.0


def test_narrow_types_wrap_and_round(prog):
    x, y = prog.small(100, 0.1)
    assert x == -56 and x.dtype == np.int8 and y == np.float16(0.1) * 2 and y.dtype == np.float16


def test_layouts(prog):
    m = np.arange(12.0).reshape(3, 4)
    assert prog.dot(m[:, 1], m[::-1, 0]) == m[:, 1] @ m[::-1, 0]
    assert prog.dot(m[0].astype(">f8"), m[0]) == m[0] @ m[0]


def test_calls_from_many_threads(prog):
    from concurrent.futures import ThreadPoolExecutor

    xs = [np.full(1000, float(i)) for i in range(16)]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda x: prog.scale(2.0, x), xs))
    assert all((g == 2.0 * i).all() for i, g in enumerate(got))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", *(["c", "multicore", "emulated"] if cc.compiler_available() else [])])
def test_threads_get_their_own_results(backend):
    """Of one program, and of two with the same code, by arrays of different sizes."""
    from concurrent.futures import ThreadPoolExecutor

    text = "entry main [n] (xs: [n]f64): [n]f64 = let ys = map f64.sin xs in map2 (+) ys (map (* f64.sum ys) xs)"
    progs = [futad.compile(text, backend=backend) for _ in range(2)]
    arrays = [np.linspace(0, 1, n) for n in (3, 50, 700)]
    want = [progs[0].main(x) for x in arrays]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(6) as pool:
            for i, got in pool.map(lambda k: (k % 3, progs[k % 2].main(arrays[k % 3])), range(900)):
                np.testing.assert_array_equal(got, want[i])
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("derived", [False, True])
def test_warnings_name_the_line_that_called(tmp_path, monkeypatch, derived):
    without_compilers(monkeypatch, tmp_path)
    f = futad.compile("entry f (x: f64): f64 = x * x").f
    with pytest.warns(FutadWarning, match="slow interpreter") as caught:
        (futad.grad(f) if derived else f)(2.0)
    assert [w.filename for w in caught] == [__file__]


def test_texts_and_files_are_told_apart(tmp_path, monkeypatch):
    for text in ("entry f (x: f64) = x", "-- nothing\ndef f = 1", "  def f = 1"):
        with pytest.raises(UsageError, match=r"a program's text.*\n.*futad.compile\(text\)"):
            futad.load(text)
    with pytest.raises(UsageError, match=r"the name of a file, 'a/b.fut'.*\n.*futad.load\(path\)"):
        futad.compile("a/b.fut")
    (tmp_path / "entry of it.fut").write_text("entry f (x: f64) = x")
    monkeypatch.chdir(tmp_path)
    assert futad.load("entry of it.fut", backend="interp").f.backend == "interp"


def test_load_reads_a_file_and_its_imports(tmp_path):
    (tmp_path / "lib.fut").write_text("def twice (x: f64) = 2 * x\n")
    main = tmp_path / "main.fut"
    main.write_text('import "lib"\nentry f (x: f64): f64 = twice x\n')
    prog = futad.load(main, backend="interp")
    assert prog.f(2) == 4
    assert str(main) in repr(prog)


def test_sources_that_do_not_compile(tmp_path):
    with pytest.raises(TypeCheckError) as e:
        futad.compile("entry f (x: f64): i32 = x\n", "bad.fut")
    assert str(e.value).startswith("bad.fut:1:")
    with pytest.raises(FileError):
        futad.load(tmp_path / "missing.fut")
    for value in (None, 3, b"a", [], np.zeros(2)):
        with pytest.raises(UsageError, match="path must be a str or an os.PathLike of one, not"):
            futad.load(value)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="name must be a str, not"):
            futad.compile("entry main = 1", value)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="backend must be a str, not .*; there are: auto"):
            futad.compile("entry main = 1", backend=value)  # type: ignore[arg-type]
    square = futad.compile("entry main (x: f64) = x * x", backend="interp").main
    for number in (None, 1.5, "x", np.zeros(()), np.ones(2), object()):
        with pytest.raises(UsageError, match="argnums must be an int or a sequence of ints, not"):
            futad.grad(square, number)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="source must be a str"):
        futad.compile(b"entry f = 1")
    backend_names = "auto, interp, c, multicore, cuda, emulated"
    with pytest.raises(UsageError, match=f"no backend is called 'gpu'; there are: {backend_names}"):
        futad.compile("entry f: i32 = 1", backend="gpu")


def test_a_text_with_half_of_a_character():
    with pytest.raises(futad.Error, match="main:2:5: error: this is half of a pair of UTF-16"):
        futad.compile("entry f (x: f64) =\n x  -- \ud800".replace("-- ", ""))


def test_assertions_and_size_checks_carry_their_place():
    prog = futad.compile(
        "entry f (n: i64) (xs: []f64): [n]f64 =\n  filter (> 0) xs :> [n]f64\n", "g.fut", backend="interp"
    )
    assert prog.f(2, [1.0, 2.0]).tolist() == [1, 2]
    with pytest.raises(AssertionFailed) as e:
        prog.f(3, [1.0, 2.0])
    assert "g.fut:2:" in str(e.value)


def test_without_a_compiler_the_interpreter_runs_with_a_warning(monkeypatch, tmp_path):
    without_compilers(monkeypatch, tmp_path)
    assert not cc.compiler_available()
    prog = futad.compile("entry f (x: f64): f64 = x + 1\n")
    with pytest.warns(futad.FutadWarning, match="slow interpreter: no C compiler was found.*install one"):
        assert prog.f(1) == 2
    assert prog.backend == "interp"
    with pytest.raises(futad.Error, match="no C compiler was found"):
        futad.compile("entry f (x: f64): f64 = x + 1\n", backend="c").f(1)


@pytest.mark.slow
def test_auto_takes_a_compiled_backend():
    prog = futad.compile("entry f (x: f64): f64 = x + 1\n")
    assert prog.backend == "auto"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert prog.f(1) == 2
    assert prog.backend in backends.AUTO[:3]


def test_the_package_is_imported_lazily():
    import subprocess
    import sys

    code = "import sys, futad; sys.exit('numpy' in sys.modules or 'lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    with pytest.raises(AttributeError):
        _ = futad.nothing
    assert {"grad", "load", "testing"} <= set(dir(futad))


@pytest.mark.parametrize("backend", ["interp", "c"])
def test_sizes_beyond_memory(backend):
    """A clear error, also for arrays without elements, and the next call is as if nothing had been."""
    source = "entry some (n: i64) (m: i64): [][]f64 = replicate n (replicate m 1)\nentry one (x: f64): f64 = x"
    p = futad.compile(source, backend=backend)
    for n, m in ((2**40, 1), (2**62, 1), (2**32, 2**32), (3, 2**62), (2**62, 0), (0, 2**63 - 1)):
        with pytest.raises(futad.OutOfMemory, match="memory|exceeds the address space"):
            p.some(n, m)
    assert p.one(2.0) == 2 and p.some(2, 3).shape == (2, 3) and p.some(2**20, 0).shape == (2**20, 0)


def test_former_names(prog):
    x = np.float64(3), np.ones(2)
    assert prog.scale.unit is prog.scale.executable and prog.scale.core_name == prog.scale.symbol
    np.testing.assert_array_equal(prog.scale.call_flat(x)[0], prog.scale.call_leaves(x)[0])
