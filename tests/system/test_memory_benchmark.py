"""`benchmarks/memory.py`: its figures, and that a missed bar is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import memory
import memory_equinox
import memory_seeds
import pytest
from memory_figures import Bar, needed, relative
from memory_variants import variants

from tests.support.needs import needs_cc
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="no peak of memory to read")


def command(*args: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, ROOT / "benchmarks" / "memory.py", *map(str, args)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300)


def test_bars() -> None:
    assert Bar("x", 1.0, 1.0).holds and not Bar("x", 1.01, 1.0).holds
    assert str(Bar("kB", 600, 512)) == "MISSED kB: 600 (at most 512)"
    assert not Bar("x", float("nan"), 1.0).holds
    assert relative([[1.0, 4.0], [0.0, 1.0]], [[1.0, 2.0], [0.0, 1.0]]) == 1.0


@needs_cc
@pytest.mark.slow
def test_rows_of_the_nest() -> None:
    rows, bars = memory.adaptive(1, (13,))
    assert [r["states"] for r in rows[:4]] == [None, 10, 64, 201]
    assert all(r["error"] < 1e-12 and r["seconds"] > 0 for r in rows[:4])
    assert "states fit" in rows[1]["told"]
    assert [b.what.split()[0] for b in bars[:5]] == ["time"] * 3 + ["kB", "largest"]


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 13, 53])
def test_variants_are_those_of_theory(length: int) -> None:
    rows, bars = variants(length)
    assert [(r["method"], r["limit"]) for r in rows] == [
        (m, k) for m in ("binomial", "bisection") for k in ("space", "time", "logarithm")
    ]
    assert all(b.holds for b in bars), [str(b) for b in bars if not b.holds]
    if length > 1:
        assert len({(r["states"], r["runs"]) for r in rows}) > 3


@needs_cc
@pytest.mark.slow
def test_command(tmp_path) -> None:
    done = command("leapfrog", "--iterations", "500", "--runs", "1", "--json", tmp_path / "m.json")
    found = json.loads((tmp_path / "m.json").read_text())
    assert done.returncode == (0 if all(b["holds"] for b in found["bars"]) else 1), done.stderr
    assert "undone iteration by iteration" in found["rows"][0]["told"]
    assert found["bars"][-1]["value"] < 1e-10


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in memory_seeds.APPLICATIONS if n != "nest"])
def test_applications(name: str) -> None:
    """Small: all that is judged but times and memory holds."""
    row = memory_seeds.measured(name, 0, True)
    assert row["ours"]
    for what, value, most in row["bars"]:
        assert value <= most or " over " in what or "kB" in what, (what, value)


@needs_cc
@pytest.mark.slow
def test_table_of_applications() -> None:
    done = command("seeds", "--small", "--only", "bessel", "nest")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("bessel, J_2(1)") and "published: Julia O 18 ns" in lines[1], done.stderr
    assert lines[2].startswith("nest, l = 13 and 53")
    assert done.returncode == any(line.startswith("MISSED") for line in lines)
    assert "ok     nest, l = 13 and 53: largest relative error" in done.stdout


@pytest.mark.slow
def test_unknown_application() -> None:
    done = command("seeds", "--only", "fish")
    assert done.returncode == 1 and done.stderr.startswith("no application is called 'fish'; there are: nest, bessel")


def test_published_figures_are_those_of_the_tables() -> None:
    """Parameters and observations as the paper counts them."""
    parameters = [k * (1 + d + d * (d + 1) // 2) for d, k in memory_seeds.MIXTURE]
    assert parameters == [30, 330, 1200, 3300, 10725, 21450, 53625, 429000]
    assert [p for *_, p in memory_seeds.BUNDLE][-1] == 9125125
    assert memory_seeds.time_text(5.821e-4) == "582 us" and memory_seeds.time_text(33.42) == "33.4 s"


def test_what_is_missing_is_said() -> None:
    with pytest.raises(SystemExit, match="no_such_module is not installed here: pip install it"):
        needed("no_such_module", "it")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["flat", "nested"])
def test_peer(form: str) -> None:
    pytest.importorskip("equinox", reason="a peer, not a dependency")
    found = memory_equinox.gradient_by_equinox(form, 13, 5)
    assert found["error"] < 1e-12 and found["seconds"] > 0
