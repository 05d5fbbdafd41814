"""`futad stub`: the types of a program's entries, in Python's."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

import futad
from futad.cli import main
from futad.cli.stub import argument_type, result_type
from tests.support.paths import ROOT

SOURCE = r'''
type kernel = #rbf f64 | #linear
-- | The loss \ of it, "quoted"
entry loss [n][k] (w: [k]f64) (x: [n][k]f64) (flag: bool): f64 = if flag then f64.sum w else f64.sum (map f64.sum x)
entry sums (k: kernel) (n: i64) (p: (f32, {a: i32})): (kernel, [](f32, i64), {w: f64}) =
  (k, replicate n (p.0, n), {w = 1})
entry rows [n] (ks: [n]kernel) (ps: [n](f32, i8)): [n]kernel = ks
entry backend (x: f64) = x
entry lambda (x: f64) = x
entry f' (x: f64) = x
'''
USER = """
from __future__ import annotations
from typing import TYPE_CHECKING, cast
import numpy as np
import futad
if TYPE_CHECKING:
    from my_model import MyModel
prog = cast("MyModel", futad.load("my_model.fut"))
value: np.float64 = prog.loss(np.zeros(3), np.zeros((2, 3), np.float32), True)
prog.loss(w=[1.0], x=[[1.0]], flag=False)
kernel, (a, b), record = prog.sums(("rbf", 1.0), 3, (1.0, {"a": 1}))
prog.sums("linear", 3, (1.0, {"a": 1}))
futad.grad(prog.loss)(np.zeros(3), np.zeros((2, 3)), True)
whole = np.arange(3)
"""
WRONG = {
    "prog.loss(whole, np.zeros((2, 3)), True)": "incompatible type",
    "prog.loss(np.zeros(3))": "Missing positional arguments",
    "prog.sums(('rbf', 'x'), 3, (1.0, 2))": "incompatible type",
    "prog.sums('rbf', 3, (1.0, 2))": "incompatible type",
}


@pytest.fixture
def stub(tmp_path, monkeypatch):
    (tmp_path / "my_model.fut").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    assert main(["stub", "my_model.fut", "-o", "my_model.pyi"]) == 0
    return (tmp_path / "my_model.pyi").read_text()


def test_classes_of_the_entries(stub, capsys):
    classes = {c.name: c for c in ast.parse(stub).body if isinstance(c, ast.ClassDef)}
    assert list(classes) == ["MyModel_loss", "MyModel_sums", "MyModel_rows", "MyModel"]
    call = classes["MyModel_loss"].body[0]
    assert isinstance(call, ast.FunctionDef)
    assert [a.arg for a in call.args.args] == ["self", "w", "x", "flag"]
    doc = 'loss (w: [k]f64) (x: [n][k]f64) (flag: bool): f64\n\nThe loss \\ of it, "quoted"'
    assert ast.get_docstring(call).strip() == doc
    for taken in ("backend", "lambda", "f'"):  # of the class, a keyword, no name of Python's
        assert f'# `{taken}` is program["{taken}"]' in stub
    assert main(["stub", "my_model.fut"]) == 0
    assert capsys.readouterr().out == stub


def test_types():
    entries = futad.compile(SOURCE, backend="interp").entries
    types = [t for _, t in entries["sums"].entry.params]
    assert [argument_type(t) for t in types] == [
        'tuple[Literal["linear"]] | Literal["linear"] | tuple[Literal["rbf"], _f64] | Mapping[str, Any]',
        "_i64",
        "tuple[_f32, Any]",
    ]
    assert result_type(entries["sums"].entry.result) == (
        'tuple[tuple[Literal["linear"]] | tuple[Literal["rbf"], np.float64], '
        "tuple[NDArray[np.float32], NDArray[np.int64]], futad.Record]"
    )
    assert [argument_type(t) for _, t in entries["rows"].entry.params] == [
        "Sequence[Any] | Mapping[str, Any]",
        "tuple[_f32_array, _i8_array] | Sequence[Any] | NDArray[np.void]",
    ]
    assert result_type(entries["rows"].entry.result) == "futad.Record"


def test_a_program_without_entries(tmp_path, capsys):
    (tmp_path / "1.fut").write_text("def one = 1")
    assert main(["stub", str(tmp_path / "1.fut")]) == 0
    ast.parse(capsys.readouterr().out)
    assert main(["stub", str(tmp_path / "none.fut")]) == 1


@pytest.mark.slow
def test_a_file_that_uses_it_is_checked(stub, tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER + "\n".join(WRONG))
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-incremental", "user.py",
               "my_model.pyi"]  # fmt: skip
    environment = os.environ | {"MYPYPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    lines = [line for line in done.stdout.splitlines() if ": error:" in line]
    first = len(USER.splitlines()) + 1
    assert [line.split(":")[1] for line in lines] == [str(first + i) for i in range(len(WRONG))], done.stdout
    assert all(said in line for said, line in zip(WRONG.values(), lines, strict=True))
