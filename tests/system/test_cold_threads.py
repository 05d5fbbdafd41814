"""The first programs of a process, compiled by eight threads at once: equal and different ones, in all ways in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import needs_cc, needs_cxx
from tests.support.paths import ROOT

SCRIPT = """
import sys, threading, traceback
import numpy as np
import futad

sys.setswitchinterval(1e-5)
begin, failed, xs = threading.Barrier(8), [], np.linspace(-1.0, 2.0, 5)

def work(k):  # programs k and k + 4 are equal, k + 4 as a file
    body = f"x * x + {k % 4}" if k % 2 else f"(loop y = x for i < 2 do f64.cos y) + {k % 4}"
    text = f"entry main (xs: []f64): f64 = f64.sum (map (\\\\x -> {body}) xs)"
    value = xs * xs if k % 2 else np.cos(np.cos(xs))
    slope = 2 * xs if k % 2 else np.sin(np.cos(xs)) * np.sin(xs)
    begin.wait()
    try:
        if k < 4:
            program = futad.compile(text, backend=BACKEND)
        else:
            with open(f"p{k}.fut", "w") as file:
                file.write(text)
            program = futad.load(f"p{k}.fut", backend=BACKEND)
        for i in range(2):
            np.testing.assert_allclose(program.main(xs), (value + k % 4).sum(), rtol=1e-12)
            np.testing.assert_allclose(futad.grad(program.main)(xs), slope, rtol=1e-12)
    except BaseException:
        failed.append(traceback.format_exc())

threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(*failed[:2], sep="\\n")
sys.exit(len(failed))
"""


def _counting(compiler: str, at: Path) -> str:
    """A compiler that adds a line to a log for each library that it makes."""
    at.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) echo >> {at}.log;; esac\nexec {shutil.which(compiler)} "$@"\n')
    at.chmod(0o700)
    return str(at)


@pytest.mark.parametrize(
    "backend",
    [pytest.param("interp", marks=pytest.mark.slow), pytest.param("c", marks=needs_cc),
     pytest.param("multicore", marks=[needs_cc, pytest.mark.slow]), pytest.param("auto", marks=pytest.mark.slow),
     pytest.param("emulated", marks=[needs_cxx, pytest.mark.slow])],
)  # fmt: skip
def test_threads_begin_at_once(backend: str, tmp_path: Path) -> None:
    """All values and gradients are right, and what is equal is compiled once."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FUTAD_CACHE_DIR": str(tmp_path / "cache"),}
    environment["FUTAD_OPT"] = "2" if backend == "auto" else "0"  # there is a quick build, too, or none
    if shutil.which("cc") and shutil.which("c++"):
        environment |= {"FUTAD_CC": _counting("cc", tmp_path / "cc"), "FUTAD_CXX": _counting("c++", tmp_path / "c++")}
    environment.pop("FUTAD_CHECK", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("BACKEND", repr(backend))],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    built = sum(len(log.read_text().splitlines()) for log in tmp_path.glob("*.log"))
    assert built <= {"interp": 0, "auto": 3 * 8}.get(backend, 8), "four programs and their gradients"
