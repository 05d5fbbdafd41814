"""How the compiler's modules depend on each other: in one direction."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from tests.support.paths import ROOT

ROOT = ROOT / "futad"


def imported(node: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """The modules that code imports when it runs, also inside functions, with the names taken from them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr | ast.arguments):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.ImportFrom) and child.module:
            yield child.module, [a.name for a in child.names]
        elif isinstance(child, ast.Import):
            yield from [(a.name, []) for a in child.names]
        yield from imported(child)


def dependencies(root: Path) -> dict[str, set[str]]:
    """Of each module of a package the others that it imports."""
    paths = {".".join((root.name, *p.relative_to(root).with_suffix("").parts)): p for p in root.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    out: dict[str, set[str]] = {}
    for name, path in modules.items():
        found: set[str] = set()
        for module, names in imported(ast.parse(path.read_text())):
            inner = {f"{module}.{n}" for n in names} & modules.keys()
            found |= inner
            if module in modules and len(inner) < max(1, len(names)):
                found.add(module)
        out[name] = found - {name}
    return out


def circles(graph: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """Modules that import each other by way of others."""
    whole = nx.from_dict_of_lists(graph, nx.DiGraph)
    return {tuple(sorted(c)) for c in nx.strongly_connected_components(whole) if len(c) > 1}


def folders(graph: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Pairs of folders of which each imports from the other."""
    edges = {(a.split(".")[1], b.split(".")[1]) for a, bs in graph.items() for b in bs if "." in a and "." in b}
    return {(a, b) for a, b in edges if a < b and (b, a) in edges}


@cache
def compiler() -> dict[str, set[str]]:
    return dependencies(ROOT)


@pytest.mark.slow
def test_no_module_imports_itself_by_way_of_others() -> None:
    assert len(compiler()) > 300 and "futad.core.types" in compiler()["futad.core.ir"]
    assert circles(compiler()) == set()


def test_no_two_folders_import_each_other() -> None:
    assert folders(compiler()) == set()


@cache
def entered(path: Path) -> set[str]:
    """The modules that a file's code imports by their names, those in strings too.  Python takes the lock of `a.b`
    first, then that of `a`; of `from a import b`, which is not among these, that of `a` first."""
    tree = ast.parse(path.read_text())
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return {name for name, _ in imported(tree)} | {s for s in strings if re.fullmatch(r"futad(\.\w+)+", s)}


def entered_from_outside(root: Path) -> set[tuple[str, str]]:
    """Files that enter a module of a package whose `__init__` imports modules of its own, and these modules."""
    out: set[tuple[str, str]] = set()
    for init in root.rglob("__init__.py"):
        package = ".".join((root.name, *init.parent.relative_to(root).parts)) + "."
        tree = ast.parse(init.read_text())
        tree.body = [s for s in tree.body if not isinstance(s, ast.FunctionDef)]
        if any(name.startswith(package) or name + "." == package for name, _ in imported(tree)):
            files = [p for p in root.rglob("*.py") if init.parent not in p.parents]
            out |= {(p.stem, name) for p in files for name in entered(p) if name.startswith(package)}
    return out


@pytest.mark.slow
def test_threads_that_import_do_not_wait_for_each_other() -> None:
    """A thread that imports a module has its lock, and waits for those of what that imports, and of its package if that
    is not there yet.  A package that imports its own modules waits for these: two threads would wait for each other,
    and Python ends one of them by an error.  So others get modules of such packages by `from package import`."""
    assert entered_from_outside(ROOT) == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [("from futad.a.m import x", True), ("from futad.a import m", False), ("import futad.a.m", True),
     ("PLACES = {'x': 'futad.a.m'}", True), ("def f():\n    from futad.a.m import x", True)],
)  # fmt: skip
def test_what_is_entered(tmp_path: Path, text: str, found: bool) -> None:
    for name, content in (("a/__init__", "from futad.a.m import x"), ("a/m", "x = 1"), ("b", text), ("__init__", "")):
        path = tmp_path / "futad" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert entered_from_outside(tmp_path / "futad") == ({("b", "futad.a.m")} if found else set())


@pytest.mark.slow
def test_types_are_not_silenced() -> None:
    """What the types do not say is said by a better type, or asserted; a module that a system may lack has none."""
    ignored = [f"{p.relative_to(ROOT)}: {line}" for p in sorted(ROOT.rglob("*.py"))
               for line in p.read_text().splitlines() if re.search(r"#\s*type:\s*ignore", line)]  # fmt: skip
    assert [x.partition(":")[0] for x in ignored] == ["cache/locks.py"], ignored


@pytest.mark.parametrize(
    ("text", "circle", "pair"),
    [("from futad.b.n import x", True, True), ("def f():\n    import futad.b.n", True, True), ("", False, False),
     ("if TYPE_CHECKING:\n    from futad.b.n import x", False, False)],
)  # fmt: skip
def test_what_is_found(tmp_path: Path, text: str, circle: bool, pair: bool) -> None:
    for name, content in (("a/m", text), ("b/n", "from futad.a import m"), ("a/__init__", ""), ("b/__init__", "")):
        path = tmp_path / "futad" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    graph = dependencies(tmp_path / "futad")
    assert circles(graph) == ({("futad.a.m", "futad.b.n")} if circle else set())
    assert folders(graph) == ({("a", "b")} if pair else set())


def test_files_are_short() -> None:
    """Of the compiler and its tests and benchmarks; one past the limit is asking to be two."""
    root = ROOT.parent
    long = {str(p.relative_to(root)): n for folder in ("futad", "tests", "benchmarks", "examples")
            for p in sorted((root / folder).rglob("*.py")) if (n := len(p.read_text().splitlines())) > 600}  # fmt: skip
    assert long == {}
