"""The kernels' text: the same whenever and after whatever a program is loaded, so that compiled code is found again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from device_support import needs_cxx

PROGRAM = """
def row [m] (xs: [m]f64): f64 = f64.sum (map f64.exp xs)
entry main [n][m] (xss: [n][m]f64): ([n]f64, f64, [n]i64) =
  let ys = map row xss
  in (ys, f64.maximum ys, scan (+) 0 (map i64.f64 ys))
entry gradient [n][m] (xss: [n][m]f64) = vjp (\\xss -> f64.sum (map row xss)) xss 1
"""
LOAD = """
import sys
import numpy as np
import futad
from futad.pipeline import compile_program
from futad.source import compile_text

for i in range(int(sys.argv[2])):  # so that variables have other numbers
    compile_program(compile_text(f"entry main [n] (xs: [n]f64) = map (* {i}) xs", "main"))
program = futad.load(sys.argv[1], backend="emulated")
assert program.gradient(np.zeros((3, 4))).tolist() == [[1.0] * 4] * 3
print(program.executor().source)
"""


@needs_cxx
def test_another_process_finds_the_compiled_kernels(tmp_path: Path) -> None:
    file, cache = tmp_path / "p.fut", tmp_path / "cache"
    file.write_text(PROGRAM)

    def load(others: int) -> tuple[str, set[str]]:
        """The text of the kernels, and the names of what is in the cache then."""
        environment = {**os.environ, "FUTAD_CACHE_DIR": str(cache), "PYTHONHASHSEED": str(others)}
        command = [sys.executable, "-c", LOAD, str(file), str(others)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout, {f.name for f in cache.rglob("*") if f.suffix != ".lock"}

    first, second = load(0), load(3)
    assert "__global__" in first[0] and first[1]
    assert second == first
