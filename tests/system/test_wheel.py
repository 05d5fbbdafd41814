"""The package as it is installed: with all that it reads, and without the repository."""

from __future__ import annotations

import re
import subprocess
import sys
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


def checkout(tree: Path) -> None:
    """The repository's files in a folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no git here")
    for name in filter(None, listed.stdout.split("\0")):
        if name.split("/")[0] in ("futad", "kernels", "datasets", "docs") or "/" not in name or "/programs/" in name:
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_bytes((ROOT / name).read_bytes())


@pytest.mark.slow
@needs_cc
def test_what_is_installed_is_all_that_is_needed(tmp_path):
    pytest.importorskip("setuptools")
    tree, site = tmp_path / "tree", tmp_path / "site"
    checkout(tree)
    build = [sys.executable, "setup.py", "-q", "build", "--build-lib", str(site)]  # what a wheel holds
    done = subprocess.run(build, cwd=tree, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    names = {str(p.relative_to(site)) for p in site.rglob("*")}
    source = {f"futad/{p.relative_to(ROOT / 'futad')}" for p in (ROOT / "futad").rglob("*") if p.is_file()}
    assert {n for n in source - names if "__pycache__" not in n} == set()
    kernels = [p.name for p in (ROOT / "kernels").iterdir() if p.is_file() and p.suffix != ".md"]
    assert {f"futad/kernels/{name}" for name in kernels} <= names
    [block] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    out = python(tmp_path, site, "-c", f"{block}\nprint(futad.__file__)")
    assert str(site) in out and "array(" in out
    assert python(tmp_path, site, "-m", "futad", "explain", "E0401").startswith("E0401: sizes do not fit")
    assert python(tmp_path, site, "-m", "futad", "--version").startswith("futad ")


@pytest.mark.slow
def test_an_editable_install_of_a_clone_that_is_named_futad(tmp_path):
    """Python takes a folder `futad` in the one it was started in for a package, unless it finds a real one."""
    checkout(tmp_path / "above" / "futad")
    made = subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no virtual environments here: {made.stderr}")
    own = str(tmp_path / "venv" / "bin" / "python")
    pip = [own, "-m", "pip", "install", "-q", "--no-deps", "-e", str(tmp_path / "above" / "futad")]
    done = subprocess.run(pip, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    if "setuptools>=68" in done.stderr and done.returncode:
        pytest.skip("setuptools cannot be installed here")
    assert done.returncode == 0, done.stderr
    needed = [str(Path(__import__(name).__file__).parent.parent) for name in ("numpy", "lark", "networkx", "rich")]
    text = "import futad, futad.datasets as d\n"
    text += "print(futad.__file__, d.__file__, futad.compile('entry main: i32 = 41', backend='interp').main())"
    for folder in (tmp_path, tmp_path / "above", tmp_path / "above" / "futad", tmp_path / "above" / "futad" / "docs"):
        environment = {"PYTHONPATH": ":".join(needed), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        for command in ([own, "-c", text], [own, "-m", "futad", "--version"],
                        [str(Path(own).with_name("futad")), "--version"]):  # fmt: skip
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)
            assert done.returncode == 0, done.stderr
            package = tmp_path / "above" / "futad"
            said = f"{package}/futad/__init__.py {package}/datasets/__init__.py 41\n"
            assert done.stdout == said if command[1] == "-c" else done.stdout.startswith("futad 0")
