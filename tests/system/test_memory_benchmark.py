"""`benchmarks/memory.py`: its figures, and that a missed bar is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import memory
import pytest

from tests.support.needs import needs_cc
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="no peak of memory to read")


def test_bars() -> None:
    assert memory.Bar("x", 1.0, 1.0).holds and not memory.Bar("x", 1.01, 1.0).holds
    assert str(memory.Bar("kB", 600, 512)) == "MISSED kB: 600 (at most 512)"
    assert not memory.Bar("x", float("nan"), 1.0).holds


@needs_cc
@pytest.mark.slow
def test_rows_of_the_nest() -> None:
    rows, bars = memory.adaptive(1, (13,))
    assert [r["states"] for r in rows] == [None, 10, 64, 201]
    assert all(r["error"] < 1e-12 and r["seconds"] > 0 for r in rows)
    assert "states fit" in rows[1]["told"] and len(bars) == 5


@needs_cc
@pytest.mark.slow
def test_command(tmp_path) -> None:
    command = [sys.executable, ROOT / "benchmarks" / "memory.py", "leapfrog", "--iterations", "500", "--runs", "1"]
    done = subprocess.run([*command, "--json", tmp_path / "m.json"], capture_output=True, text=True, timeout=300)
    found = json.loads((tmp_path / "m.json").read_text())
    assert done.returncode == (0 if all(b["holds"] for b in found["bars"]) else 1), done.stderr
    assert "undone iteration by iteration" in found["rows"][0]["told"]
    assert found["bars"][-1]["value"] < 1e-10
