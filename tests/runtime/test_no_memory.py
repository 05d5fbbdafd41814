"""Memory that runs out inside a call, or in the compiler: OutOfMemory or a BackendError, and all goes on afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import futad
from futad.errors import BackendError
from futad.runtime import cc
from tests.support.needs import needs_cc
from tests.support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")]

TEXT = """
entry result (n: i64): [n]f64 = map f64.i64 (iota n)
entry several (n: i64): ([n]f64, [n]i64, [2][n]f32) = (replicate n 1, iota n, replicate 2 (replicate n 2))
entry between (n: i64): f64 = let a = scan (+) 0 (map f64.i64 (iota n)) in a[n / 2] + f64.sum (map2 (*) a (reverse a))
entry filtered (n: i64): []i64 = filter (\\i -> i % 3 == 0) (iota n)
entry bins (n: i64): []i64 = hist (+) 0 n (iota n) (iota n)
entry scattered (n: i64): []i64 = scatter (replicate n 0) (iota n) (iota n)
entry grown (n: i64): []f64 = loop a = replicate n 1.5 for _i < 2 do concat a (map (* 2) a)
entry turned (n: i64): [n][4]f64 = transpose (tabulate_2d 4 n (\\i j -> f64.i64 (i + j)))
entry gradient (n: i64): [n]f64 =
  vjp (\\x -> f64.sum (loop y = x for _i < 3 do map2 (*) (scan (+) 0 y) y)) (replicate n 0.5) 1
entry kept (n: i64) (x: f64): f64 = vjp (\\x -> loop y = x for _i < n do f64.sin y) x 1
entry forward (n: i64): [n]f64 =
  jvp (\\x -> let y = scan (+) 0 x in map2 (*) y (reverse y)) (replicate n 0.5) (replicate n 1)
entry jacobian (n: i64): [n][3]f64 = map (\\i -> vjp (\\x -> x[0] * x[1] + x[2] * f64.i64 i) [1, 2, 3] 1) (iota n)
"""
# What is far too much, and sizes around what there is room for: some of a call's memory is there, and then no more.
CALLS = """
import os, resource, sys
import numpy as np
import futad
backend, warm = sys.argv[1], sys.argv[2] == "warm"
text = open("p.fut").read()
prog = futad.compile(text, backend=backend)
names = [name for name in prog.entries if backend != "interp" or name != "kept"]  # which would take it hours
def call(prog, name, n):
    made = prog[name](n, 0.5) if name == "kept" else prog[name](n)
    return [np.asarray(x) for x in (made if isinstance(made, tuple) else (made,))]
want = {name: call(futad.compile(text, backend="interp"), name, 1000) for name in names}
for name in names:
    prog[name].executable.executor()
    if warm: call(prog, name, 200_000)
with open("/proc/self/statm") as f: now = int(f.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (now + (120 << 20), hard))
wrong, refused = [], 0
for n in (100_000_000, 2_000_000, 4_000_000, *((7_000_000, 14_000_000) if backend != "interp" else ()), 100_000_000):
    for name in names:
        try:
            call(prog, name, n)
            if n == 100_000_000: wrong.append((name, n, "worked"))
        except futad.OutOfMemory:
            refused += 1
        except BaseException as e:
            wrong.append((name, n, repr(e)))
        if not all(np.allclose(a, b, rtol=1e-12) for a, b in zip(call(prog, name, 1000), want[name], strict=True)):
            wrong.append((name, n, "then wrong"))
print(wrong, refused >= 2 * len(names))
"""


@pytest.mark.parametrize(
    ("backend", "warm"),
    [("interp", "cold"), *[pytest.param(b, w, marks=needs_cc) for b in ("c", "multicore") for w in ("warm", "cold")]],
)
def test_inside_a_call(backend: str, warm: str, tmp_path: Path) -> None:
    (tmp_path / "p.fut").write_text(TEXT)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "FUTAD_CFLAGS": "-O1"}
    done = subprocess.run([sys.executable, "-c", CALLS, backend, warm], cwd=tmp_path, env=env, capture_output=True,
                          text=True, timeout=300)  # fmt: skip
    assert (done.stdout, done.stderr) == ("[] True\n", "")


@needs_cc
@pytest.mark.parametrize("command", ("c", "multicore"))
def test_inside_an_executable(command: str, tmp_path: Path) -> None:
    (tmp_path / "p.fut").write_text(TEXT)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "FUTAD_CFLAGS": "-O1"}
    made = [sys.executable, "-m", "futad", command, "p.fut", "--executable", "-o", "program"]
    assert subprocess.run(made, cwd=tmp_path, env=env, timeout=100).returncode == 0
    for entry in ("result", "between", "gradient", "jacobian"):
        line = f"ulimit -v 400000; echo %d | OMP_NUM_THREADS=2 ./program -e {entry} > out"
        done = subprocess.run(["sh", "-c", line % 10**8], cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert done.returncode == 1 and "out of memory" in done.stderr, (entry, done.stderr)
        assert (tmp_path / "out").read_text() == ""
        done = subprocess.run(["sh", "-c", line % 1000], cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert (done.returncode, done.stderr) == (0, "")


@needs_cc
def test_in_the_c_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not said that the code is wrong, and what it does with more memory is right."""
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path / "cache"))
    gcc = " ".join(cc.find_compiler().command)
    for size in (8_000, 25_000, 40_000, 45_000, 50_000, 60_000, 4_000_000):
        path = tmp_path / f"cc-{size}"
        path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {gcc} --version\nulimit -v {size}; exec {gcc} "$@"\n')
        path.chmod(0o755)
        monkeypatch.setenv("FUTAD_CC", str(path))
        try:
            assert futad.compile(f"entry main (x: i64): i64 = x + {size}", backend="c").main(1) == size + 1
        except BackendError as e:
            assert size < 4_000_000 and ("does not work" in str(e) or "was stopped" in str(e) or "crashed" in str(e))
    assert len(list((tmp_path / "cache").rglob("*.lock"))) == 0
