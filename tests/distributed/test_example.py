"""`examples/cluster.py`: one command, from a file of each kind."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.support.needs import needs_cc
from tests.support.paths import ROOT

pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, needs_cc]


def run(*args):
    command = [sys.executable, str(ROOT / "examples" / "cluster.py"), "--steps", "12", *args]
    there = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=there, timeout=200)


def test_a_mixture_from_zarr():
    pytest.importorskip("zarr")
    done = run("--points", "20000")
    assert done.returncode == 0, done.stderr
    assert re.search(r"dashboard: http://", done.stdout) and "loss " in done.stderr
    found = np.array([[float(x) for x in line.split()] for line in done.stdout.splitlines() if line.startswith("   ")])
    np.testing.assert_allclose(found, [[-2, 0], [0, 3], [2, 1]], atol=0.2)


def test_a_mixture_from_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    x = np.random.default_rng(0).normal(size=(3000, 2))
    write_table(pyarrow.table({"a": x[:, 0], "b": x[:, 1]}), tmp_path / "x.parquet", row_group_size=500)
    done = run("--data", str(tmp_path / "x.parquet"), "--clusters", "1", "--workers", "1")
    assert done.returncode == 0, done.stderr
    found = [float(v) for v in done.stdout.split("means:")[1].split()[:2]]
    np.testing.assert_allclose(found, x.mean(axis=0), atol=0.05)


def test_a_file_that_is_not_there(tmp_path):
    done = run("--data", str(tmp_path / "none.zarr"))
    assert done.returncode != 0 and "there is no file" in done.stderr and "Traceback" not in done.stderr
