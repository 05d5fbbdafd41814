"""The package as it is installed: with all that it reads, and without the repository."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.needs import needs_cc
from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text()


def python(folder: Path, site: Path, *args: str) -> str:
    environment = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "FUTAD_CACHE_DIR": str(folder / "cache"),
                   "HOME": str(folder), "FUTAD_CFLAGS": "-O0", "FUTAD_QUICK": "0"}  # fmt: skip
    command = [sys.executable, *args]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@needs_cc
def test_a_wheel_has_everything(tmp_path):
    pytest.importorskip("setuptools")
    pytest.importorskip("pip")
    tree, site = tmp_path / "tree", tmp_path / "site"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no git here")
    for name in filter(None, listed.stdout.split("\0")):
        if name.split("/")[0] in ("futad", "kernels", "datasets", "docs") or "/" not in name or "/programs/" in name:
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    done = subprocess.run([*build, str(tree)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = tmp_path.glob("futad-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
        names = set(file.namelist())
    source = {f"futad/{p.relative_to(ROOT / 'futad')}" for p in (ROOT / "futad").rglob("*") if p.is_file()}
    assert {n for n in source - names if "__pycache__" not in n} == set()
    kernels = [p.name for p in (ROOT / "kernels").iterdir() if p.is_file() and p.suffix != ".md"]
    assert {f"futad/kernels/{name}" for name in kernels} <= names
    [block] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    out = python(tmp_path, site, "-c", f"{block}\nprint(futad.__file__)")
    assert str(site) in out and "array(" in out
    assert python(tmp_path, site, "-m", "futad", "explain", "E0401").startswith("E0401: sizes do not fit")
    assert python(tmp_path, site, "-m", "futad", "--version").startswith("futad ")
