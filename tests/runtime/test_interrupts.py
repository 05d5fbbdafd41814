"""Ctrl-C ends a call wherever it is (`kernels/interrupts.h`), and the program is as good as before."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.needs import needs_cc, needs_cxx
from tests.support.paths import ROOT

T = TypeVar("T")

# Name: the entry, the arguments of a call that does not end while anybody waits, those of one that does.
COMMON = r"""
import os, random, signal, sys, threading, time
import numpy as np
import futad

SOURCE = r'''
def endless (n: i64) (x: f64): f64 = (loop (y, i) = (x, 0i64) while i < n do (f64.cos (y + 1), i + 1)).0
entry while_ (n: i64) (x: f64): f64 = endless n x
entry line (n: i64) (x: f64): f64 = loop s = x for i < n do s * 0.5 + f64.i64 (i % 7)
entry wide (n: i64) (xs: []f64): []f64 = map (\x -> loop y = x for i < n do f64.cos y) xs
entry nests (n: i64) (xs: []f64): f64 = f64.sum (loop ys = xs for i < n do map (\y -> f64.cos (y + 1)) ys)
entry slope (n: i64) (xs: []f64): f64 = f64.sum (wide n xs)
def fib (n: i64): i64 = if n < 2 then n else fib (n - 1) + fib (n - 2)
entry recursion (n: i64): i64 = fib n
def tree [k] (n: i64) (xs: [k]f64): f64 =
  if n < 1 then f64.sum xs
  else let (a, b) = par (tree (n - 1)) (tree (n - 1)) (map (* 0.5) xs, map (+ 0.25) xs) in a + b
entry tasks (n: i64) (xs: []f64): f64 = tree n xs
MORE'''
rng, many = np.random.default_rng(1), 1 << 44
x, few, large = 0.5, rng.normal(size=200), rng.normal(size=30000)
matrix, whole = rng.normal(size=(200, 200)), np.arange(9000)
program = futad.compile(SOURCE, backend=BACKEND)
gradient = futad.grad(program.slope, argnums=1)
CASES = {
    "while": (program.while_, (many, x), (10, x)),
    "line": (program.line, (many, x), (10, x)),
    "wide": (program.wide, (many, large), (5, large)),
    "nests": (program.nests, (many, large), (10, large)),
    "gradient": (gradient, (100000, few), (5, few)),
    "recursion": (program.recursion, (70,), (12,)),
    "tasks": (program.tasks, (50, few), (6, few)),
}
"""
MORE = r"""
entry sums (n: i64) (xs: []f64): f64 = f64.sum (map (\i -> f64.sin xs[i % 100]) (iota n))
entry small (n: i64) (xs: []f64): f64 =
  f64.sum (loop ys = xs for i < n do let s = ys[0] in map (\y -> f64.cos y + s) ys)
entry products [m] (n: i64) (a: [m][m]f64): f64 =
  let times b = map (\r -> map (\c -> f64.sum (map2 (*) r c) / 300) (transpose a)) b
  in f64.sum (flatten (iterate (i32.i64 n) times a))
entry grows (n: i64) (x: f64): i64 =
  loop k = 0 for i < n do
    k + length (filter (> 0.3) (map (\j -> f64.sin (x + f64.i64 (i + j))) (iota (1000 + i % 5000))))
entry appends (n: i64) (x: f64): f64 =
  loop s = x for i < n do f64.sum (loop ys = [s] for j < 200 do ys ++ [ys[j] * 0.5])
entry bins (n: i64) (xs: []i64): i64 =
  loop s = 0 for i < n do s + (hist (+) 0 64 (map (\x -> (x + s) % 64) xs) (map (% 5) xs))[3]
def leaf (n: i64) (m: i64) (x: f64): f64 =
  if n < 1 then endless m x else leaf (n - 1) m (x / 2) + leaf (n - 1) m (x / 3)
entry leaves (m: i64) (x: f64): f64 = leaf 3 m x
entry inside (n: i64) (xs: []f64): []f64 = map (\x -> f64.i64 (fib n) + x) xs
"""
CASES = r"""
CASES |= {
    "sums": (program.sums, (many, few), (1000, few)),
    "small": (program.small, (many, few), (10, few)),
    "products": (program.products, (1 << 30, matrix), (3, matrix)),
    "grows": (program.grows, (many, x), (20, x)),
    "appends": (program.appends, (many, x), (20, x)),
    "bins": (program.bins, (many, whole), (10, whole)),
    "leaves": (program.leaves, (many, x), (20, x)),
    "inside": (program.inside, (60, few), (10, few)),
    "tree's gradient": (futad.grad(program.tasks, argnums=1), (26, few), (6, few)),
}
"""
RUN = r"""
def same(k):
    np.testing.assert_allclose(CASES[k][0](*CASES[k][2]), wanted[k], rtol=1e-9, err_msg=k)

def interrupt(sent):
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)

delays = random.Random(5)
wanted = {k: f(*short) for k, (f, _, short) in CASES.items()}
for k, (f, long, _) in CASES.items():
    if k in LEFT_OUT:
        continue
    for turn in range(TURNS):
        sent = []
        timer = threading.Timer(delays.uniform(0, 0.1), interrupt, (sent,))
        try:
            timer.start()
            f(*long)
        except KeyboardInterrupt:
            took = time.perf_counter() - sent[0]
            assert took < 5, (k, took)
            if took > 0.5:
                print(k, took)
        else:
            raise AssertionError(f"{k} ended")
        if turn % 2:  # else twice in a row
            same(k)
for k in CASES:
    same(k)
"""


def _run(tmp_path: Path, backend: str, script: str, **environment: str) -> None:
    base = {k: v for k, v in os.environ.items() if k not in ("FUTAD_CHECK", "FUTAD_CFLAGS", "FUTAD_QUICK")}
    done = subprocess.run(
        [sys.executable, "-c", f"BACKEND = {backend!r}\n{script}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**base, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "3", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@needs_cc
@pytest.mark.parametrize("backend", ["multicore", pytest.param("c", marks=pytest.mark.slow)])
def test_a_call_ends_and_the_next_is_right(tmp_path: Path, backend: str) -> None:
    script = COMMON.replace("MORE", "") + "LEFT_OUT, TURNS = (), 2\n" + RUN
    _run(tmp_path, backend, script, FUTAD_OPT="1")


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "auto"])
def test_a_call_ends_wherever_it_is(tmp_path: Path, backend: str) -> None:
    """All kinds of code, while it is optimised: in the pool's threads, in memory that grows, in products."""
    _run(tmp_path, backend, COMMON.replace("MORE", MORE) + CASES + "LEFT_OUT, TURNS = (), 4\n" + RUN)


@pytest.mark.slow
def test_the_interpreter_ends(tmp_path: Path) -> None:
    _run(tmp_path, "interp", COMMON.replace("MORE", "") + "LEFT_OUT, TURNS = ('gradient',), 4\n" + RUN)


@needs_cxx
@pytest.mark.slow
def test_a_device_ends_between_launches(tmp_path: Path) -> None:
    nests = re.search("entry nests.*\\n", COMMON)
    assert nests is not None
    script = f"""
import os, random, signal, threading, time
import numpy as np
import futad
few = np.random.default_rng(1).normal(size=200)
program = futad.compile({nests[0]!r}, backend=BACKEND)
CASES = {{"nests": (program.nests, (1 << 44, few), (10, few))}}
LEFT_OUT, TURNS = (), 12
"""
    _run(tmp_path, "emulated", script + RUN)


OTHERS = """
import os, signal, threading, time
import numpy as np
import futad
TEXT = "entry main (n: i64) (xs: []f64): []f64 = map (\\\\x -> loop y = x for i < n do f64.cos y) xs"
program = futad.compile(TEXT, backend=BACKEND)
xs = np.linspace(0, 1, 3000)
wanted = program.main(300, xs)
"""


@needs_cc
@pytest.mark.slow
def test_calls_of_other_threads_go_on(tmp_path: Path) -> None:
    """Those of the same library, by a call of its own, and of one that shares the pool's threads."""
    script = OTHERS + """
second = futad.compile(TEXT.replace("cos", "sin"), backend=BACKEND)
expected = second.main(300, xs)
over, wrong = threading.Event(), []

def work():
    while not over.is_set():
        wrong.append(not np.array_equal(second.main(300, xs), expected))

threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
[t.start() for t in threads]
for turn in range(20):
    try:
        threading.Timer(0.005 * turn, os.kill, (os.getpid(), signal.SIGINT)).start()
        program.main(1 << 44, xs)
        raise AssertionError("it ended")
    except KeyboardInterrupt:
        assert np.array_equal(program.main(300, xs), wanted)
over.set()
[t.join() for t in threads]
assert len(wrong) > 20 and not any(wrong)
"""
    _run(tmp_path, "multicore", script)


@needs_cc
@pytest.mark.slow
def test_handlers_of_the_user_are_run_when_the_call_is_over(tmp_path: Path) -> None:
    """A handler that does not raise costs no call: one that notes that a training loop is to stop, say."""
    script = OTHERS + """
heard = []
signal.signal(signal.SIGINT, lambda *a: heard.append(len(heard)))
for turn in range(2):
    threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    while len(heard) == turn:
        assert np.array_equal(program.main(300, xs), wanted)
for turn in range(3):  # as notebooks do with each cell
    signal.signal(signal.SIGINT, signal.default_int_handler)
    time.sleep(0.002)
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        program.main(1 << 44, xs)
        raise AssertionError("it ended")
    except KeyboardInterrupt:
        assert np.array_equal(program.main(300, xs), wanted)

# A process that was forked while a thread called, and interrupts a call of its own.
child = os.fork()
if not child:
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        program.main(1 << 44, xs)
    except KeyboardInterrupt:
        os._exit(0 if np.array_equal(program.main(300, xs), wanted) else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0
"""
    _run(tmp_path, "multicore", script, FUTAD_OPT="1")


@needs_cc
@pytest.mark.parametrize("sent", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_the_c_compiler_ends_with_the_process(tmp_path: Path, sent: signal.Signals) -> None:
    """By a signal, with its status: the compiler and its children end, and nothing half-written is left."""
    compiler = tmp_path / "cc"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *-shared*) sleep 100 & echo $! > {tmp_path}/child; wait;; *) exec cc "$@";; esac\n'
    )
    compiler.chmod(0o700)
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FUTAD_CC": str(compiler), "FUTAD_PROGRESS": "0"}
    environment |= {"FUTAD_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "temporary")}
    script = "import futad; futad.compile('entry main (x: f64) = x', backend='c').main(1.0)"
    with subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, env=environment) as process:
        child = int(_soon(lambda: (tmp_path / "child").read_text()))
        process.send_signal(sent)
        assert process.wait(30) == -sent
    assert _soon(lambda: not Path(f"/proc/{child}/cmdline").exists() or "sleep" not in _command(child))
    assert _soon(lambda: not list((tmp_path / "temporary").iterdir()))
    assert {p.suffix for p in (tmp_path / "cache").rglob("*") if p.is_file()} <= {".lock"}


def _command(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text()


def _soon(condition: Callable[[], T]) -> T:
    """What the condition gives, as soon as that is true."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if found := condition():
                return found
        time.sleep(0.02)
    raise AssertionError("nothing came of it")
