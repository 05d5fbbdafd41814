"""The site builds without a warning, every page is in its menu, every public name on the page of functions."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys

import pytest

import futad
from futad import errors
from tests.support.paths import ROOT

API = (ROOT / "docs" / "api.md").read_text()
SHOWN = set(re.findall(r"^::: (futad\.[\w.]+)", API, re.MULTILINE))
MODULES = ("numpy", "scipy", "torch", "pytensor", "testing", "strategies", "jax", "distributed")
MENU = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]


def offered(module: str) -> set[str]:
    """The names in `__all__` of a module, which may wrap what is not installed here."""
    places = [ROOT / "futad" / f"{module}.py", ROOT / "futad" / module / "__init__.py"]
    for statement in [s for p in places if p.exists() for s in ast.parse(p.read_text()).body]:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return set(ast.literal_eval(statement.value))
    return set()


def public() -> dict[str, object]:
    """Name and object of all that users may call: of futad, of modules that it offers, and its errors; not of modules
    for which a package is missing."""
    here = {f"futad.{n}": getattr(futad, n) for n in futad.__all__}
    of_errors = {n for n, x in here.items() if getattr(x, "__module__", "") == errors.__name__}
    found = {n: x for n, x in here.items() if not inspect.ismodule(x) and n not in of_errors}
    for module in MODULES:
        try:
            place = importlib.import_module(f"futad.{module}")
            found |= {f"futad.{module}.{n}": getattr(place, n) for n in place.__all__}
        except ImportError:
            continue  # it is not there, or what it wraps is not installed
    classes = [x for x in vars(errors).values() if inspect.isclass(x) and x.__module__ == errors.__name__]
    known = [x for x in classes if issubclass(x, errors.Error | Warning) and not x.__name__.startswith("_")]
    return found | {f"futad.errors.{x.__name__}": x for x in known}


@pytest.mark.slow
def test_the_page_has_every_public_name_and_no_other():
    names = public().keys() | {f"futad.{m}.{n}" for m in MODULES for n in offered(m)}
    assert {"futad.grad", "futad.scipy.minimize", "futad.testing.check_grads", "futad.errors.ShapeError"} <= names
    told = set(re.findall(r"`(futad\.[\w.]+)`", API))  # types and numbers, which have no documentation of their own
    for module in re.findall(r"^<!-- functions of futad\.(\w+) -->$", API, re.MULTILINE):  # docs/site.py makes a table
        told |= {f"futad.{module}.{n}" for n in offered(module) if inspect.isroutine(public()[f"futad.{module}.{n}"])}
    assert sorted(names - SHOWN - told) == [], "docs/api.md lacks these"
    assert sorted(SHOWN - names) == [], "there are none of these"


def test_every_module_with_an_entry_in_the_package_is_looked_at():
    assert set(futad._MODULES) - {"errors"} <= set(MODULES)


@pytest.mark.parametrize("name", sorted(public()))
def test_every_public_name_has_a_docstring(name):
    text = vars(public()[name]).get("__doc__") if inspect.isclass(public()[name]) else inspect.getdoc(public()[name])
    assert text and len(text.split()) >= 3


def test_every_page_is_in_the_menu():
    pages = {p.name for p in (ROOT / "docs").glob("*.md")}
    named = set(re.findall(r": ([\w./-]+\.md)$", MENU, re.MULTILINE))
    others = {"index.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"}  # of README and beside it
    assert named - others == pages, "mkdocs.yml lists the pages under `nav`"


@pytest.mark.slow
def test_it_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings_handlers.python")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    first = (tmp_path / "site" / "index.html").read_text()
    assert "performance.svg" in first and (tmp_path / "site" / "repository" / "CITATION.cff").exists()
    assert (tmp_path / "site" / "repository" / "examples" / "hmc.py").exists()
