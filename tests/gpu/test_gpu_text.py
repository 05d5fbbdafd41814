"""The kernels' text: the same whenever and after whatever a program is loaded, so that compiled code is found again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from futad.backend.device_emit import DeviceEmitter
from futad.flatten import kernel as kir
from futad.imp.walk import statements
from futad.pipeline import compile_program
from futad.source import compile_text, load_program
from futad.testing.build import device_backend
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx
from tests.support.paths import ROOT

TEMPLATES = [f for f in sorted((ROOT / "kernels").glob("*.cuh")) if f.stem not in ("device", "futad_scalar")]
#: those of the benchmarks whose kernels have products that take something along
PRODUCTS = ("gmm", "kmeans", "lstm")

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


@pytest.mark.slow
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


NAME = re.compile(r"\bfutad_\w+")
END = re.compile(r"[};]\s*$|^#.*[^\\]$|^FUTAD_\w+\(.*\)$")
DEFINED = re.compile(r"^(?:struct|union) (futad_\w+)|[ *&](futad_\w+)\(|^FUTAD_\w+\((futad_\w+)", re.MULTILINE)


def definitions(text: str) -> Iterator[tuple[str, set[str]]]:
    """The functions and types that a header defines, each with the names that occur in it."""
    piece, depth = "", 0
    for line in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).splitlines():
        piece += line + "\n"
        depth += line.count("{") - line.count("}")
        if depth == 0 and END.search(line):
            found = DEFINED.search(piece)
            if found is not None and not piece.lstrip().startswith("#"):
                yield next(name for name in found.groups() if name), set(NAME.findall(piece))
            piece = ""


# A product that is added to a sum in place, in every iteration.
ADDED = """
entry added [n][m] (a: [n][m]f64) (b: [n][m]f64) (k: i64) =
  loop c = map (\\x -> map (\\y -> x[0] + y[0]) b) a for i < k do
    map2 (map2 (+)) c (map (\\x -> map (\\y -> f64.sum (map2 (\\p q -> p * q) x y)) b) (map (map (* f64.i64 i)) a))
"""


@pytest.mark.slow
def test_every_template_is_in_the_kernels_of_some_program() -> None:
    uses: dict[str, set[str]] = {}
    for header in TEMPLATES:
        for name, names in definitions(header.read_text()):
            uses.setdefault(name, set()).update(names)
    assert {"futad_block_reduce_upto", "futad_scan_flat", "futad_update", "futad_gemm", "futad_radix_scan"} <= set(uses)
    paths = sorted((ROOT / "tests" / "programs").glob("*.fut"))
    paths += [ROOT / "benchmarks" / "programs" / f"{name}.fut" for name in PRODUCTS]
    used: set[str] = set()
    programs = [*[load_program(str(p)) for p in paths], compile_text(ADDED, "added.fut")]
    called = set().union(*[NAME.findall(device_backend(compile_program(p)).source) for p in programs])
    while called:
        name = called.pop()
        if name not in used and name in uses:
            used.add(name)
            called |= uses[name]
    assert set(uses) - used == set()
    page = (ROOT / "docs" / "kernels.md").read_text()
    table = page[page.index("## Templates") : page.index("**Reduce.**")]
    assert set(NAME.findall(table)) - set(uses) == set()


FAILING = """
entry before_and_after [n] (xs: [n]f64) (is: [n]i64) =
  let a = f64.sum (map f64.sin xs)
  let b = map (\\i -> xs[i] * a) is
  in (b, map (\\i -> f64.i64 i * f64.sum b) is)
entry iterations [n] (k: i64) (xs: [n]f64) (is: [n]i64) =
  loop ys = xs for _j < k do
    let s = f64.sum (map f64.sin ys)
    in map (\\i -> ys[i] + s) is
entry never [n] (xs: [n]f64) = let s = f64.sum (map f64.sin xs) in map (* s) xs
"""


def test_kernels_look_for_failures_that_may_have_been() -> None:
    """Those after one that may fail, in its loop also those before it; no others."""
    device = OnDevice(FAILING, "failing.fut", loops_by_host=True)
    module = device.backend.module
    after = kir.after_failures(module)

    def launched(entry: str) -> list[tuple[bool, bool]]:
        (f,) = [f for f in module.functions if f.name == device.symbol(entry)]
        kernels = [s.kernel for s in statements(f.body) if isinstance(s, kir.Launch)]
        return list(dict.fromkeys((k.fails, k in after) for k in kernels))

    assert launched("never") == [(False, False)]
    assert launched("before_and_after") == [(False, False), (True, False), (False, True)]
    assert set(launched("iterations")) == {(False, True), (True, True)}
    for k in module.kernels:
        assert ("futad_failed(futad_error)" in DeviceEmitter(follows=k in after).kernel(k)) == (k in after)
