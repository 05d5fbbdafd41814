"""The device suite's everyday programs beside JAX, on the CPU simulator: the same gradients, a table of times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import needs_cxx
from tests.support.paths import ROOT

pytest.importorskip("jax")


@pytest.mark.slow
@needs_cxx
def test_everyday_programs_beside_jax(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), "--everyday", "--device", "emulated", "--toy",
               "--only", "rosenbrock", "trimmed", "--json", str(out)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    made = {d["name"]: d for d in json.loads(out.read_text())["everyday"]}
    assert sorted(made) == ["rosenbrock", "trimmed"]
    assert all(d["off"] < 1e-9 and d["jax"]["ms"] > 0 and d["futad"]["first_s"] > 0 for d in made.values())
    assert "gradients in ms" in done.stdout
