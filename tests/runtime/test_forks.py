"""Processes made by a fork, also while other threads are inside calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import needs_cc, needs_cxx
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")

# Each program is called by a thread all the time; its results are large enough to take memory from their slots.
CALLED = """
import os, signal, sys, threading, time, warnings
import numpy as np
import futad
warnings.simplefilter("ignore")
backend = sys.argv[1]
TEXT = '''
entry main [n] (xs: [n]f64): ([n]f64, f64) = let ys = scan (+) 0 (map f64.sin xs) in (ys, f64.sum ys)
entry down [n] (xs: [n]f64): [n]f64 = vjp (\\\\ys -> f64.sum (map f64.exp (scan (+) 0 ys))) xs 1
entry sorted [n] (xs: [n]f64): [n]f64 = loop ys = copy xs for i < 40 do map2 (+) ys (rotate i xs)
'''
prog = futad.compile(TEXT, backend=backend)
xs = np.random.default_rng(1).random(2_000 if backend == "emulated" else 60_000) / 1000
calls = (prog.main, prog.down, prog.sorted)
want = [f(xs) for f in calls]
def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b)) if isinstance(a, tuple) else np.array_equal(a, b)
stop = threading.Event()
def busy():
    kept = []
    while not stop.is_set():
        for f in calls:
            kept = kept[-5:] + [f(xs)]
"""

BUSY = CALLED + """
threads = [threading.Thread(target=busy, daemon=True) for _ in range(2)]
for t in threads: t.start()
failed = []
for k in range(12):
    time.sleep(0.003 * k)
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        code = 1
        try:
            code = 0 if all(equal(f(xs), w) for _ in range(2) for f, w in zip(calls, want)) else 2
        finally:
            os._exit(code)
    failed.append(os.waitpid(child, 0)[1])
stop.set()
for t in threads: t.join()
good = all(equal(f(xs), w) for f, w in zip(calls, want))
print(failed, good)
sys.exit(any(failed) or not good)
"""

POOL = CALLED + """
import multiprocessing
def work(i):
    return all(equal(f(xs), w) for f, w in zip(calls, want))
if __name__ == "__main__":
    signal.alarm(300)
    threading.Thread(target=busy, daemon=True).start()
    for _ in range(3):
        with multiprocessing.get_context("fork").Pool(3) as pool:
            assert pool.map(work, range(6)) == [True] * 6
    stop.set()
"""

CAPTURING = CALLED + """
from futad.runtime.device import EmulatedDevice
capturing, go_on = threading.Event(), threading.Event()
real = EmulatedDevice._record
def record(device, what, step):  # by a call whose work is being captured
    if device.recording and threading.current_thread() is other:
        capturing.set()
        go_on.wait()
    real(device, what, step)
EmulatedDevice._record = record
programs = [futad.compile(f"{TEXT} -- {i}", backend=backend) for i in range(8)]
failed = []
for p in programs:
    p.sorted(xs), p.sorted(xs)  # what the third call does is captured
    capturing.clear(), go_on.clear()
    other = threading.Thread(target=p.sorted, args=(xs,))
    other.start()
    assert capturing.wait(300)
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        code = 1
        try:
            code = 0 if all(equal(p.sorted(xs), want[2]) for _ in range(3)) else 2
        finally:
            os._exit(code)
    go_on.set()
    other.join()
    failed.append(os.waitpid(child, 0)[1])
print(failed)
sys.exit(any(failed))
"""

COMPILING = CALLED + """
terms = " + ".join(f"x * {i}" for i in range(60))
late = futad.compile(f"entry main (x: f64): f64 = f64.sin x + {terms}", backend=backend)
t = threading.Thread(target=late.executor)
t.start()
time.sleep(0.05)
child = os.fork()
if child == 0:
    signal.alarm(300)
    code = 1
    try:
        code = 0 if abs(late.main(0.5) - (np.sin(0.5) + 0.5 * 59 * 30)) < 1e-9 else 2
    finally:
        os._exit(code)
t.join()
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


ORDER = """
import os, sys
from futad import forks
class Owner:
    def __init__(self, number):
        self.number = number
        forks.watch(self)
    def forked(self):
        heard.append(self.number)
heard = []
owners = [Owner(i) for i in range(100)]
del owners[::3]
child = os.fork()
if child == 0:
    os._exit(heard != [owner.number for owner in owners])
sys.exit(os.waitpid(child, 0)[1] != 0 or heard != [])
"""


def run(text: str, backend: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(text)
    where = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2", **environment}
    return subprocess.run([sys.executable, "script.py", backend], cwd=folder, env={**os.environ, **where},
                          capture_output=True, text=True, timeout=400)  # fmt: skip


BACKENDS = [
    "interp",
    pytest.param("c", marks=needs_cc),
    pytest.param("multicore", marks=needs_cc),
    pytest.param("emulated", marks=needs_cxx),
]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_while_other_threads_call(backend: str, tmp_path: Path) -> None:
    done = run(BUSY, backend, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pool_of_processes(backend: str, tmp_path: Path) -> None:
    done = run(POOL, backend, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@needs_cxx
def test_while_another_thread_captures_a_graph(tmp_path: Path) -> None:
    done = run(CAPTURING, "emulated", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_owners_are_told_in_the_order_of_their_making(tmp_path: Path) -> None:
    done = run(ORDER, "interp", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_while_another_thread_compiles(backend: str, tmp_path: Path) -> None:
    """Also if that one has the lock of the cache's entry: here the cache is empty."""
    done = run(COMPILING, backend, tmp_path, FUTAD_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stdout + done.stderr


IMPORTING = """
import os, signal, sys, threading, time
import futad.forks
begun = threading.Event()
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "futad.optimise.views" and not begun.is_set():
            begun.set()
            time.sleep(0.3)
sys.meta_path.insert(0, Slow())
def other():
    import futad.optimise.views
threading.Thread(target=other).start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    from futad.optimise.views import hoist_views
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


def test_while_another_thread_imports(tmp_path: Path) -> None:
    done = run(IMPORTING, "interp", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


STARTING = """
import os, signal, sys, threading
from futad import deep
stacks = threading.stack_size(), sys.getrecursionlimit()
begun, go_on = threading.Event(), threading.Event()
real = threading.Thread.start
def start(thread):  # by others while one of ours is started, or has been
    begun.set()
    go_on.wait()
    real(thread)
depth = lambda n: 0 if n == 0 else 1 + depth(n - 1)
if sys.argv[1] == "starting":
    threading.Thread.start = start
    other = threading.Thread(target=deep.deep(go_on.wait), daemon=True)
    real(other)
else:
    other = threading.Thread(target=deep.deep(lambda: (begun.set(), go_on.wait())), daemon=True)
    other.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(300)
    threading.Thread.start = real
    code = 1
    try:
        good = (threading.stack_size(), sys.getrecursionlimit()) == stacks
        code = 0 if good and deep.deep(depth)(20_000) == 20_000 else 2
    finally:
        os._exit(code)
go_on.set()
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.parametrize("when", ["starting", "running"])
def test_while_another_thread_gets_its_stack(when: str, tmp_path: Path) -> None:
    done = run(STARTING, when, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
