"""The examples: each runs at a small size, prints what its page says, and draws where matplotlib is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import needs_cc
from tests.support.paths import ROOT

FOLDER = ROOT / "examples"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if "picture import" in p.read_text())
# What a small run must come near to: a number of its output, found by a pattern, and the most it may be.
MOST = {
    "mixture": (r"largest error of a mean ([\d.]+)", 0.2),
    "bundle_adjustment": (r"([\d.]+) after", 0.0011),
    "hmc": (r"variance ([\d.]+) \(4\)", 6),
    "deconvolution": (r"([\d.]+) after", 0.15),
    "option_greeks": (r"delta +([\d.]+)", 0.03),
    "neural_ode": (r"([\d.]+) at last", 0.7),
}


def example(name: str, folder: Path, *more: str) -> str:
    environment = os.environ | {"FUTAD_CFLAGS": "-O0", "OMP_NUM_THREADS": "1"}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--small", *more]
    done = subprocess.run(command, cwd=folder, env=environment | {"PYTHONPATH": os.pathsep.join(paths)},
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_are_six_with_a_picture_each():
    assert set(NAMES) == set(MOST)
    page = (ROOT / "docs" / "examples.md").read_text()
    for name in NAMES:
        picture = (ROOT / "docs" / f"{name}.svg").read_text()
        assert f"({name}.svg)" in page and f"../examples/{name}.py" in page
        assert picture.rstrip().endswith("</svg>") and len(picture) < 100_000


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("name", NAMES)
def test_small_runs(name, tmp_path):
    pytest.importorskip("scipy")
    text = example(name, tmp_path)
    pattern, most = MOST[name]
    found = re.search(pattern, text)
    assert found is not None, text
    assert 0 <= float(found[1]) <= most, text
    drawn = (tmp_path / f"{name}.svg").exists()
    assert drawn is not text.endswith("no picture: pip install matplotlib\n")


@needs_cc
@pytest.mark.slow
def test_without_matplotlib_numbers_are_printed(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('none')\n")
    os_path = os.environ.get("PYTHONPATH", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os_path]))
        text = example("hmc", tmp_path)
    assert "accepted" in text and text.endswith("no picture: pip install matplotlib\n")
    assert not (tmp_path / "hmc.svg").exists()
