"""The everyday programs of `benchmarks/textbook`: right gradients, and the same answers as their peers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import futad

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS / "textbook"))
from inputs import ROWS, arguments  # noqa: E402

SMALL = 0.01  # of the sizes that are timed
LONG = ("neural_ode", "barrier")  # too many iterations for the interpreter


def test_each_program_says_that_it_is_not_tuned():
    files = {p.stem: p.read_text().splitlines() for p in (BENCHMARKS / "textbook").glob("*.fut")}
    assert files.keys() == ROWS.keys()
    assert all("Never rewritten for speed." in lines[1] for lines in files.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_gradients_are_right(name, monkeypatch):
    monkeypatch.setenv("FUTAD_CFLAGS", "-O1")  # results are all
    row, args = ROWS[name], arguments(name, SMALL)
    entry = futad.load(BENCHMARKS / "textbook" / f"{name}.fut", backend="c" if name in LONG else "interp").value
    value, parts = futad.value_and_grad(entry, argnums=tuple(range(row.wrt)))(*args)
    assert np.isfinite(value)
    single = any(getattr(a, "dtype", None) == np.float32 for a in args)
    random = np.random.default_rng(1)
    ways = [np.asarray(random.normal(size=np.shape(p)), np.asarray(p).dtype) for p in parts]
    slope = sum(float(np.vdot(w, p)) for w, p in zip(ways, parts, strict=True))

    if single:  # differences of single precision say little
        given = [*[w[()] if w.ndim == 0 else w for w in ways], *[None] * (len(args) - row.wrt)]
        assert futad.jvp(entry, args, given)[1] == pytest.approx(slope, rel=1e-3)
        return

    def along(t: float) -> float:
        moved = [a + t * w for a, w in zip(args[: row.wrt], ways, strict=True)]
        return float(entry(*[np.float64(m) if m.ndim == 0 else m for m in moved], *args[row.wrt :]))

    assert (along(1e-6) - along(-1e-6)) / 2e-6 == pytest.approx(slope, rel=1e-5, abs=1e-5)


def test_memory_of_a_call_is_what_it_had_at_once(tmp_path):
    """What it has freed when it returns as well as what is left; and neither what was free before, nor code."""
    text = """if True:
        import everyday, numpy as np
        def call():
            for _ in range(3):
                np.ones(1 << 17).sum()
            return np.ones(1 << 15)
        np.ones(1 << 20)
        print(everyday.growth(call))
        print(everyday.growth(lambda: None))
    """
    sys.path.insert(0, str(BENCHMARKS))
    import everyday

    environment = os.environ | everyday.KEEPING | {"PYTHONPATH": str(BENCHMARKS), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment, check=True)
    growth, nothing = map(int, done.stdout.split())
    page = os.sysconf("SC_PAGE_SIZE")  # the first and the last of the block's pages may be there before: less than one
    assert (1 << 20) - page <= growth <= (1 << 20) + (1 << 16), growth
    assert nothing <= 1 << 16


@pytest.mark.slow
def test_the_command_compares_and_times(tmp_path):
    pytest.importorskip("jax")
    command = [sys.executable, str(BENCHMARKS / "everyday.py"), "--only", "rosenbrock", "--size", "0.01"]
    done = subprocess.run([*command, "--rounds", "1", "--systems", "jax"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout and "first gradient, warm cache" in done.stdout


@pytest.mark.slow
def test_other_compilers_stand_beside_the_default_one():
    command = [sys.executable, str(BENCHMARKS / "everyday.py"), "--only", "rosenbrock", "--size", "0.01"]
    command += ["--rounds", "1", "--systems", "futad", "--compilers", "cc -O1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cc -O1: gradient: geometric mean" in done.stdout


@pytest.mark.slow
def test_rows_stand_beside_the_bound_of_the_machine(tmp_path):
    out = tmp_path / "out.json"
    command = [sys.executable, str(BENCHMARKS / "everyday.py"), "--only", "rosenbrock", "barrier", "--size", "0.01"]
    command += ["--rounds", "1", "--systems", "futad", "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is not known" not in done.stdout, done.stdout
    rows = json.loads(out.read_text())["rows"]
    shown = [line for line in done.stdout.splitlines() if "% of the bound (" in line]
    assert [line.split()[:2] for line in shown[:-2]] == [[r["row"], w] for r in rows for w in ("value", "gradient")]
    assert [line.split(":")[0] for line in shown[-2:]] == ["value", "gradient"]  # of the dense row
    assert [r["dense"] for r in rows] == [True, False]
    for bound in [r["bound"][w] for r in rows for w in ("value", "gradient")]:
        parts = bound["parts"]
        assert 0 < bound["seconds"] == max(parts["products"] + parts["functions"], parts["divisions"], parts["copying"])
    steps = rows[1]["bound"]["value"]["needs"]["calls"]["exp f64"]  # a path ends at the barrier
    assert 1000 < steps < 12_000


@pytest.mark.slow
@pytest.mark.parametrize("left_out", ("no vector-lanes", "contractions"))
def test_what_a_transformation_brings(left_out):
    command = [sys.executable, str(BENCHMARKS / "without.py"), left_out, "rosenbrock"]
    command += ["--size", "0.01", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["rosenbrock", w] for w in ("value", "gradient")]


@pytest.mark.slow
def test_what_is_left_out_has_a_name():
    for wrong in ("nothing", "no such"):
        command = [sys.executable, str(BENCHMARKS / "without.py"), wrong, "rosenbrock", "--size", "0.01"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr
        assert wrong.removeprefix("no ") in done.stderr
