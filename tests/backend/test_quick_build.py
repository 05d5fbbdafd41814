"""A quick build that runs at once, and the full one that takes its place: the same values, at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.backend import quick
from futad.backend.c import CBackend
from futad.backend.quick import QuickThenFull
from futad.core.interp import Interpreter
from futad.errors import FutadWarning
from futad.pipeline import compile_program
from futad.runtime import background, cc
from futad.runtime.ffi import Stopped
from futad.source import compile_text
from futad.target import target_of
from tests.support.needs import needs_cc
from tests.support.paths import ROOT

pytestmark = needs_cc

X = np.random.default_rng(5).normal(size=(9, 9))
PROGRAMS = {
    "products": "let y = map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) (transpose x)) x in map f64.sum y",
    "of a transpose": "let y = map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) x) (transpose x) in map f64.sum y",
    "loops": "loop s = x[0] for i < n do loop s for j < i do map2 (\\a b -> f64.sin (a + b)) s x[j]",
    "while": "map (\\r -> (loop (a, k) = (r[0], 0) while f64.abs a < 3 && k < 50 do (a * 1.3 + 0.1, k + 1)).0) x",
    "scan": "map (\\r -> f64.sum (scan (+) 0 r)) x",
    "histogram": "hist (+) 0 n (map (\\i -> (i * i) % n) (iota n)) (map f64.maximum x)",
    "convolution": "let k = x[:2,:2] in map f64.sum (tabulate_2d n n (\\i j -> f64.sum (flatten (tabulate_2d 2 2"
    " (\\a b -> let (p, q) = (i + a - 1, j + b - 1) in if p >= 0 && q >= 0 then x[p, q] * k[a, b] else 0)))))",
    "filter": "let big = filter (> 0) (flatten x) in map (\\r -> f64.sum big * r[0]) x",
    "sizes": "map (\\r -> f64.sum (loop y = [r[0]] for i < 5 do y ++ [f64.cos y[i]])) x",
}


def text_of(expression: str) -> str:
    return f"""
entry f [n] (x: [n][n]f64): [n]f64 = {expression}
entry g [n] (x: [n][n]f64): [n][n]f64 = vjp f x (replicate n 1)"""


def backends_of(text: str) -> tuple[CBackend, Interpreter]:
    program = compile_text(text)
    target = target_of("multicore")
    return CBackend(compile_program(program, target=target), quick.TARGET), Interpreter(compile_program(program))


@pytest.mark.slow
@pytest.mark.parametrize("unhurried", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_quick_build_is_the_interpreter(name: str, unhurried: bool) -> None:
    made, reference = backends_of(text_of(PROGRAMS[name]))
    made = made.unhurried() if unhurried else made
    for x in (X, X[:1, :1], X[:0, :0]):
        for entry in "fg":
            if len(x) > 1 or name not in ("histogram", "loops", "convolution"):  # which need elements
                args = [np.int64(len(x)), x]
                for got, want in zip(made.run(entry, args), reference.run(entry, args), strict=True):
                    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("t", "dtype"), [("f32", "f4"), ("f64", "f8")])
def test_products_in_vectors_and_what_is_left_of_them(t: str, dtype: str) -> None:
    text = "def product x y = map (\\r -> map (\\c -> f32.sum (map2 (*) r c)) (transpose y)) x"
    text += "\nentry f [m][n][k] (x: [m][k]f32) (y: [k][n]f32): [m][n]f32 = product x y"
    text += "\nentry g [m][n][k] (x: [m][k]f32) (y: [n][k]f32): [m][n]f32 = product x (transpose y)"
    made, _ = backends_of(text.replace("f32", t))
    assert f"futad_gemm_{t}(" in made.source
    # Blocks are of 4 rows, 8 to 32 columns and 128 terms; where there are fewer columns than rows these change places.
    narrow = ((40, 2, 130), (9, 1, 7), (33, 5, 128), (2, 1, 3))
    for m, n, k in ((3, 19, 5), (2, 8, 1), (1, 7, 2), (2, 3, 0), (0, 9, 4), (1, 40, 9), (5, 67, 300), *narrow):
        r = np.random.default_rng(m)
        x, y = (
            r.normal(size=(m, k)).astype(t.replace("32", "4").replace("64", "8")),
            r.normal(size=(k, n)).astype(t.replace("32", "4").replace("64", "8")),
        )
        sizes = [np.int64(m), np.int64(k), np.int64(n)]
        for got in (made.run("f", [*sizes, x, y]), made.run("g", [*sizes, x, np.ascontiguousarray(y.T)])):
            np.testing.assert_allclose(got[0], x @ y, rtol=1e-4, atol=1e-4 if t == "f32" else 1e-12)


@pytest.mark.slow
def test_failures_are_those_of_other_builds() -> None:
    made, _ = backends_of("entry f (x: []f64) (i: i64): f64 = x[i]")
    with pytest.raises(futad.BoundsError, match=r"Index \[4\] out of bounds for array of shape \[3\]"):
        made.run("f", [np.int64(3), np.zeros(3), np.int64(4)])


LONG = "entry f [n] (x: [n][n]f64) (k: i64): f64 = loop s = x[0,0] for _i < k do f64.sin s + 1"
LONG_PRODUCTS = "entry f [n] (x: [n][n]f64) (k: i64): f64 = f64.sum (flatten (loop y = x for _i < k do" \
    " map (\\r -> map (\\c -> f64.sum (map2 (*) r c) / 9) (transpose y)) y))"  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("text", [LONG, LONG_PRODUCTS, LONG.replace("for _i < k", "while s < f64.i64 k")])
def test_a_call_is_stopped(text: str) -> None:
    made, reference = backends_of(text)
    ended: list[BaseException] = []

    def call() -> None:
        try:
            made.run("f", [np.int64(9), X, np.int64(1 << 50)])
        except BaseException as e:
            ended.append(e)

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.2)
    assert thread.is_alive()
    with made.compiled.stopping():
        thread.join(30)
        assert [type(e) for e in ended] == [Stopped]
    if "while" not in text:
        args = [np.int64(9), X, np.int64(2)]
        np.testing.assert_allclose(made.run("f", args), reference.run("f", args), rtol=1e-12)


# --- the two together -------------------------------------------------------------------------------------------------


class Builder:
    """In place of `background.Builds`: builds end when the test says so; the middle one may end without a library."""

    def __init__(self) -> None:
        self.go, self.middle, self.made, self.error = threading.Event(), threading.Event(), False, ""

    def __call__(self) -> Jobs:
        return Jobs(self)


class Jobs:
    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.jobs: list[cc.Build] = []

    def add(self, wanted: cc.Build, *, yields: int = 0, only_here: bool = False) -> None:
        assert ("-pthread" in wanted.options) == bool(yields) == (not only_here)
        self.jobs.append(wanted)

    def end(self) -> None:
        assert len(self.jobs) == 2

    def wait(self) -> None:
        wanted, by = self.jobs.pop(0), self.builder
        if "-pthread" in wanted.options:
            by.go.wait(60)
            return
        until(lambda: by.middle.is_set() or by.go.is_set(), 0.01)
        if by.middle.is_set():
            by.made = bool(cc.build_library(wanted.source))

    def finish(self) -> None:
        while self.jobs:
            self.wait()
        if self.builder.error:
            raise futad.BackendError(self.builder.error)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Builder]:
    made = Builder()
    monkeypatch.setenv(quick.VARIABLE, "1")
    monkeypatch.delenv("FUTAD_CFLAGS", raising=False)
    monkeypatch.setattr(background, "Builds", made)
    done = cc.Build.done.fget
    monkeypatch.setattr(cc.Build, "done", property(lambda wanted: "-pthread" not in wanted.options and done(wanted)))
    yield made
    made.go.set()


def executor_of(prog: futad.Program) -> QuickThenFull:
    made = prog._executable._executor
    assert isinstance(made, QuickThenFull)
    return made


def until(condition: Callable[[], bool], pause: float = 0.1) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(pause)
    raise AssertionError("it takes too long")


@pytest.mark.slow
def test_the_full_build_takes_over(builder: Builder) -> None:
    prog = futad.compile(text_of(PROGRAMS["products"]))
    want = futad.compile(text_of(PROGRAMS["products"]), backend="interp")
    np.testing.assert_allclose(prog.f(X), want.f(X), rtol=1e-12)
    assert prog.backend == "multicore"
    made = executor_of(prog)
    assert made._full is None and made._last is made._quick
    np.testing.assert_allclose(prog.g(X), want.g(X), rtol=1e-12)
    builder.go.set()
    assert prog.executor() is made._full, "which waits for it"
    np.testing.assert_allclose(prog.g(X), want.g(X), rtol=1e-12)
    assert made._last is made._full
    until(lambda: made._quick.memory()[0] == 0)


@pytest.mark.slow
def test_a_program_that_is_asked_for_its_executor_first_has_one_build(builder: Builder) -> None:
    prog = futad.compile(LONG)
    assert isinstance(prog.executor(), CBackend) and not builder.go.is_set()


@pytest.mark.parametrize(
    "change", [("FUTAD_QUICK", "0"), ("FUTAD_OPT", "1"), ("FUTAD_CFLAGS", "-O0"), ("FUTAD_CHECK", "memory")]
)
def test_one_build_is_enough(builder: Builder, change: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*change)
    assert not quick.wanted(target_of("multicore"))


@pytest.mark.slow
def test_a_program_that_prints_or_recurses_has_one_build(builder: Builder, capfd: pytest.CaptureFixture[str]) -> None:
    prog = futad.compile("entry f (x: f64): f64 = trace (x + 1)")
    assert prog.f(2.0) == 3.0 and isinstance(prog._executable._executor, CBackend)
    assert capfd.readouterr().err.count("3") == 1
    deep = futad.compile("def f (n: i64): i64 = if n < 2 then 1 else f (n - 1) + f (n - 2)\nentry g n = f n")
    assert deep.g(10) == 89 and isinstance(deep._executable._executor, CBackend)


def full_gives(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Full builds answer at once."""
    run = CBackend.run
    monkeypatch.setattr(CBackend, "run", lambda self, *a: [value] if self.multicore else run(self, *a))


@pytest.mark.slow
def test_a_call_under_way_goes_over_to_the_full_build(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    full_gives(42.0, monkeypatch)
    prog = futad.compile(LONG)
    timer = threading.Timer(0.5, builder.go.set)
    timer.start()
    others: list[Any] = []
    threads = [threading.Thread(target=lambda: others.append(prog.f(X, 1 << 50))) for _ in range(3)]
    for t in threads:
        t.start()
    assert prog.f(X, 1 << 50) == 42.0
    for t in threads:
        t.join(60)
    assert others == [42.0] * 3 and not executor_of(prog)._calls


@pytest.mark.slow
def test_the_middle_build_takes_over(builder: Builder) -> None:
    prog = futad.compile(text_of(PROGRAMS["products"]))
    want = prog.f(X)
    made = executor_of(prog)
    assert made._middle is None and made._last is made._quick
    builder.middle.set()
    until(lambda: made._middle is not None)
    assert builder.made and made._middle is not None
    for _ in range(3):
        np.testing.assert_allclose(prog.f(X), want, rtol=1e-12)
        assert made._last is made._middle
    until(lambda: made._quick.memory()[0] == 0)
    assert made._middle.memory()[0] > 0
    builder.go.set()
    np.testing.assert_allclose(prog.executor().run("f", [np.int64(9), X])[0], want, rtol=1e-12)
    np.testing.assert_allclose(prog.f(X), want, rtol=1e-12)
    assert made._last is made._full
    until(lambda: made._middle is not None and made._middle.memory()[0] == 0)


@pytest.mark.slow
def test_a_call_under_way_goes_over_to_the_middle_build_and_then_to_the_full_one(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_gives(42.0, monkeypatch)
    prog = futad.compile(LONG)
    prog.f(X, 3)
    made = executor_of(prog)
    got: list[Any] = []
    callers = [threading.Thread(target=lambda: got.append(prog.f(X, 1 << 50)), daemon=True) for _ in range(3)]
    for t in callers:
        t.start()
    until(lambda: len(made._calls) == 3)
    assert {call.build for call in made._calls} == {made._quick}
    builder.middle.set()
    until(lambda: len(made._calls) == 3 and {call.build for call in made._calls} == {made._middle})
    assert not got
    builder.go.set()
    for t in callers:
        t.join(60)
    assert got == [42.0] * 3 and not made._calls


@pytest.mark.slow
def test_an_interrupt_stops_a_call(builder: Builder) -> None:
    prog = futad.compile(LONG)
    want = prog.f(X, 3)
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        prog.f(X, 1 << 50)
    assert prog.f(X, 3) == want


@pytest.mark.slow
def test_arguments_that_may_be_overwritten_are_the_calls_own(builder: Builder) -> None:
    prog = futad.compile("entry f [n] (x: *[n]f64) = x with [0] = 9\nentry g [n] (x: [n]f64) = map (+ 1) x")
    prog.g(np.zeros(2))
    made, x = executor_of(prog), np.zeros(2)
    args = [np.int64(2), x]
    assert made._private("f", args)[1] is not x and made._private("g", args)[1] is x
    (got,) = made.run("f", args)
    assert got[0] == 9 and not x.any()


@pytest.mark.slow
def test_without_a_full_build_the_quick_one_goes_on(builder: Builder) -> None:
    builder.error = "no space"
    builder.go.set()
    prog = futad.compile(LONG.replace("+ 1", "+ 1.25"))
    with pytest.warns(FutadWarning, match="goes on with code that is not optimised: no space"):
        want = prog.f(X, 3)
        executor_of(prog)._ended.wait(60)
    assert prog.f(X, 3) == want
    with pytest.raises(futad.BackendError, match="no space"):
        prog.executor()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_waits_for_a_full_build_of_its_own(builder: Builder) -> None:
    prog = futad.compile(LONG)
    want = prog.f(X, 3)
    child = os.fork()
    if not child:
        code = 1
        try:
            builder.go.set()
            made = prog.executor()
            code = 0 if prog.f(X, 3) == pytest.approx(want, rel=1e-12) and isinstance(made, CBackend) else 2
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert executor_of(prog)._full is None and prog.f(X, 3) == want


# --- processes --------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys, time
import numpy as np, futad
prog = futad.load("p.fut")
g = futad.grad(prog.f)
print(g(np.ones((2, 2)), 3).sum(), "futad.pipeline" in sys.modules, type(g.executable._executor).__name__)
"""


def run_script(folder: Path, script: str = SCRIPT, **more: str) -> list[str]:
    left_out = ("FUTAD_CHECK", "FUTAD_CFLAGS", "FUTAD_QUICK", "FUTAD_PROGRESS")
    env = {k: v for k, v in os.environ.items() if k not in left_out}
    (folder / "tmp").mkdir(exist_ok=True)
    env |= {"PYTHONPATH": str(ROOT), "FUTAD_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(folder / "tmp"), **more}
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def libraries(folder: Path) -> int:
    return len(list((folder / "cache").rglob("*.so.sum")))


@pytest.mark.slow
def test_a_process_that_ends_leaves_the_full_build_to_the_next(tmp_path: Path) -> None:
    """Which neither parses nor compiles; another text, or another one that is imported, is another program."""
    (tmp_path / "p.fut").write_text('import "q"\n' + LONG.replace("+ 1", "+ one"))
    (tmp_path / "q.fut").write_text("def one = 1f64")
    first = run_script(tmp_path)
    assert first[1:] == ["True", "QuickThenFull"]
    until(lambda: libraries(tmp_path) >= 2)  # with the middle one if that is begun before the process ends
    until(lambda: not list((tmp_path / "tmp").iterdir()))
    again = run_script(tmp_path)
    assert again[1:] == ["False", "CLibrary"] and float(again[0]) == pytest.approx(float(first[0]), rel=1e-12)
    (tmp_path / "q.fut").write_text("def one = 2f64")
    other = run_script(tmp_path)
    assert other[1] == "True" and other[0] != first[0]
    (tmp_path / "q.fut").write_text("def one = 1f64")
    assert run_script(tmp_path) == again
    added = "import futad.pipeline as p\np.PASSES.append(p.PASSES[0])\n"
    assert run_script(tmp_path, added + SCRIPT)[2] == "QuickThenFull", "nobody knows what an addition does"
    value = SCRIPT.replace("futad.grad(prog.f)", "futad.grad(prog.f, memory='1MB')")
    assert run_script(tmp_path, value)[1] == "True", "another budget"


@pytest.mark.slow
def test_a_killed_build_leaves_nothing_that_is_taken_for_whole(tmp_path: Path) -> None:
    (tmp_path / "p.fut").write_text(LONG)
    compiler = tmp_path / "slow-cc"
    slow = 'case "$*" in *-pthread*) echo $$ > pid; sleep 60;; esac'
    compiler.write_text(f'#!/bin/sh\n{slow}\nexec cc "$@"\n')
    compiler.chmod(0o755)
    begun = time.monotonic()
    assert run_script(tmp_path, FUTAD_CC=str(compiler))[2] == "QuickThenFull"
    assert time.monotonic() - begun < 30, "it does not wait for the full build"
    until(lambda: (tmp_path / "pid").exists())
    os.killpg(os.getpgid(int((tmp_path / "pid").read_text())), signal.SIGKILL)
    assert libraries(tmp_path) <= 2, "the quick and the middle one"
    assert run_script(tmp_path, FUTAD_CC="cc")[1:] == ["True", "QuickThenFull"]
