"""Programs compiled by clang, as it comes from PyPI (the extra `compiler`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import futad
from futad.core.scalarops import OPS

ROOT = Path(__file__).resolve().parents[2]
CLANG = f"{sys.executable} -m ziglang cc"
PROGRAMS = "ad_control floats floats_special half hist_derivatives loop_while scan_family vjp_basic".split()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed: pip install 'futad[compiler]'"),
]


@pytest.fixture(autouse=True)
def clang(monkeypatch):
    monkeypatch.setenv("FUTAD_CC", CLANG)


VECTORS = [op for op in OPS.values() if op.library and op.vector]
# Where every one of them is defined, and where the ways to compute them meet.
ORDINARY = np.concatenate([np.linspace(1e-3, 0.999, 4001), np.geomspace(1e-300, 1e-3, 97)])
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -1e-20, 40.0, -40.0, 1e5, -1e5])


@pytest.mark.parametrize("dtype", (np.float64, np.float32))
def test_functions_in_vectors(dtype):
    """Each function at lengths that fill vectors and that do not, against NumPy: glibc promises four units."""
    t = "f64" if dtype == np.float64 else "f32"
    lines = []
    for i, op in enumerate(VECTORS):
        name = f"{t}.{op.name}" if op.name != "pow" else "(**)"
        call = f"map {name} x" if op.arity == 1 else f"map (\\a -> {name} a 0.7) x"
        lines.append(f"entry f{i} [n] (x: [n]{t}): [n]{t} = {call}")
    prog = futad.compile("\n".join(lines), backend="c")
    with np.errstate(all="ignore"):
        for i, op in enumerate(VECTORS):
            rest = [dtype(0.7)] * (op.arity - 1)
            for x in (ORDINARY, -ORDINARY, 30 * ORDINARY, SPECIAL, SPECIAL[:5], SPECIAL[:0]):
                x = x.astype(dtype)
                got, want = np.asarray(getattr(prog, f"f{i}")(x)), op.eval(x, *rest).astype(dtype)
                assert np.array_equal(np.isnan(got), np.isnan(want)), op.name
                finite = np.isfinite(want)
                assert np.array_equal(got[~finite], want[~finite], equal_nan=True), op.name
                assert np.array_equal(np.signbit(got[finite]), np.signbit(want[finite])), op.name
                tiny = np.finfo(dtype).tiny  # a quarter of a unit there, as vector functions may flush
                error = np.abs(got[finite] - want[finite]) / np.maximum(np.spacing(np.abs(want[finite])), tiny)
                assert error.max(initial=0) <= 8, (op.name, x[finite][error.argmax()])


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    file = ROOT / "tests" / "programs" / f"{name}.fut"
    done = subprocess.run(
        [sys.executable, "-m", "futad", "test", str(file), "-b", "c"], capture_output=True, text=True, timeout=300,
        env={**os.environ, "FUTAD_CFLAGS": "-O1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


@pytest.mark.parametrize("backend", ("auto", "multicore"))
def test_a_gradient_at_full_optimisation(backend):
    """Two builds under `auto`; loops over lanes with vector functions in both sweeps."""
    source = (ROOT / "benchmarks" / "textbook" / "mixture.fut").read_text()
    r = np.random.default_rng(3)
    args = r.normal(size=4), r.normal(size=(4, 2)), 0.3 * r.normal(size=4), r.normal(size=(501, 2))
    value, gradient = futad.value_and_grad(futad.compile(source, backend=backend).value, argnums=(0, 1, 2))(*args)
    wanted, others = futad.value_and_grad(futad.compile(source, backend="interp").value, argnums=(0, 1, 2))(*args)
    assert value == pytest.approx(wanted, rel=1e-12)
    for a, b in zip(gradient, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_the_first_program_of_the_readme_needs_no_other_compiler(tmp_path):
    """Where nothing is on the PATH it runs as machine code, which is right, not on the interpreter."""
    text = (ROOT / "README.md").read_text()
    program = re.search(r"```python\n(import numpy as np, futad\n.*?)```", text, re.DOTALL)
    assert program is not None
    empty = tmp_path / "empty"
    empty.mkdir()
    code = f"{program[1]}\nprog.loss(np.ones(3), np.ones((2, 3)))\nprint(prog.backend)"
    dropped = ("FUTAD_CC", "CC", "FUTAD_CFLAGS")
    env = {name: value for name, value in os.environ.items() if name not in dropped}
    env |= {"PATH": str(empty), "FUTAD_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    assert "interpreter" not in done.stderr and done.stdout.splitlines()[-1] == "multicore"
    value, gradient = eval(done.stdout.splitlines()[0], {"np": np, "array": np.array})
    x = np.arange(6.0).reshape(2, 3)
    e = np.exp(x)
    assert value == pytest.approx(np.log(e.sum(axis=1)).sum(), rel=1e-12)
    np.testing.assert_allclose(gradient, (x * e / e.sum(axis=1, keepdims=True)).sum(axis=0), rtol=1e-7)  # of 8 digits
    assert list((tmp_path / "cache").glob("*/*.so"))
