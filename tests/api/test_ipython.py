"""Programs in the cells of a notebook."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad import ipython
from futad.errors import SourceError, UsageError

CELL = "entry double (x: f64): f64 = 2 * x\nentry total [n] (xs: [n]f64): f64 = f64.sum xs\n"


def test_the_program_of_a_cell():
    name, program = ipython.program_of_cell("model -b interp", CELL)
    assert name == "model" and program.backend == "interp" and list(program) == ["double", "total"]
    assert program.double(3.0) == 6 and program.total(np.ones(4)) == 4
    assert ipython.program_of_cell("", CELL)[0] == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [("a b", "unrecognized arguments: b"), ("--fast", "unrecognized arguments"), ("2x", "cannot be the name"),
     ("m -b fast", "fast"), ("'m", "No closing quotation"), ("-b", "expected one argument")],
)  # fmt: skip
def test_lines_that_are_wrong(line, message):
    with pytest.raises(UsageError, match=message):
        ipython.program_of_cell(line, CELL)


def test_errors_have_the_lines_of_the_cell():
    with pytest.raises(SourceError) as caught:
        ipython.program_of_cell("m", "entry f (x: f64): f64 =\n  y")
    assert str(caught.value).startswith("m:3:3: error: unknown name 'y'")


@pytest.fixture
def shell():
    interactive = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    made = interactive.instance()
    yield made
    interactive.clear_instance()


@pytest.mark.slow
def test_a_cell_with_an_error_leaves_the_kernel_usable(shell, capsys):
    assert shell.run_cell("%load_ext futad").success
    assert shell.run_cell("%%futad model -b interp\n" + CELL).success
    assert shell.run_cell("model.double(4.0)").result == 8
    done = shell.run_cell("%%futad model\nentry f (x: f64): f64 = y")
    assert not done.success
    shown = capsys.readouterr()
    assert "model:2:25: error: unknown name 'y' [E0201]" in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err
    assert shell.run_cell("model.double(5.0)").result == 10
    assert not shell.run_cell("model.double('five')").success
    assert shell.run_cell("%%futad -b interp\n" + CELL).success
    assert shell.run_cell("total([1.0, 2.0]) + double(1.0)").result == 5


def test_the_extension_is_found_where_ipython_looks_for_it():
    assert getattr(futad, "load_ipython_extension") is ipython.load_ipython_extension  # noqa: B009
    assert "load_ipython_extension" not in futad.__all__
