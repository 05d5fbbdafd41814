"""Errors as Python sees them: their bases, copies, former names; and that futad's own handlers let them through."""

import builtins
import copy
import errno
import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import futad
from futad import errors
from futad.errors import Span
from futad.runtime import cc
from futad.runtime.exchange import device_array
from tests.support.paths import ROOT

CLASSES = {n: c for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.Error)}
_ROW = re.compile(r"^\| `(\w+)` \|([^|]*)\| (\d) \|", re.M)
_PAGE = (ROOT / "docs" / "errors.md").read_text()
ROWS = {name: (sorted(re.findall(r"\w+", bases)), int(code)) for name, bases, code in _ROW.findall(_PAGE)}
BACKENDS = ["interp", *(["c", "emulated"] if cc.compiler_available() else [])]

PROGRAM = """
entry at (xs: []f64) (i: i64): f64 = xs[i]
entry part (xs: []f64) (i: i64): []f64 = xs[i:]
entry div (a: i32) (b: i32): i32 = a / b
entry positive (x: f64): f64 = assert (x > 0) x
entry zeros (n: i64): []f64 = replicate n 0
"""


def test_the_page_lists_every_class_with_its_bases_and_exit_code():
    found = {}
    for name, c in CLASSES.items():
        python = [b for b in c.__mro__ if b.__module__ == "builtins" and b not in (object, Exception, BaseException)]
        roots = [b.__name__ for b in python if not any(o is not b and issubclass(o, b) for o in python)]
        found[name] = (sorted(roots), c.exit_code)
    assert found == ROWS


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_each_is_caught_by_its_python_base_and_survives_copies(name):
    place = Span("a.fut", 1, 2, 1, 4)
    made = CLASSES[name]("it failed", place, source_line="x = 1", hint="try", notes=("n",), code="E1")
    made.more.append(errors.ParseError("another"))
    for base in ROWS[name][0]:
        with pytest.raises(getattr(builtins, base), match="it failed"):
            raise made
    for other in (copy.copy(made), copy.deepcopy(made), *[pickle.loads(pickle.dumps(made, n)) for n in (2, 5)]):
        assert type(other) is type(made) and str(other) == str(made) and other.args == made.args
        assert (other.span, other.notes, other.code, other.hint) == (place, made.notes, "E1", "try")
    word = "Error" if isinstance(made, errors.ExecutionError) else "error"  # as in Futhark
    assert str(made) == f"a.fut:1:2: {word}: it failed [E1]\nx = 1\n ^^\nnote: n\nhint: try\nerror: another"


def test_file_errors_carry_what_the_system_said(tmp_path):
    with pytest.raises(FileNotFoundError) as e:
        futad.load(tmp_path / "missing.fut")
    assert isinstance(e.value, futad.FileError)
    refused = errors.file_error("read", "a.fut", PermissionError(errno.EACCES, "Permission denied"))
    for one in (refused, copy.copy(refused), pickle.loads(pickle.dumps(refused))):
        assert (one.errno, one.strerror, one.filename) == (errno.EACCES, "Permission denied", "a.fut")
        assert str(one) == "error: cannot read a.fut: Permission denied" and type(one) is errors.FileError
    missing = errors.file_error("write", "b", FileNotFoundError(errno.ENOENT, "No such file or directory"))
    assert isinstance(missing, FileNotFoundError)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_failures_of_a_program_are_pythons(backend):
    prog = futad.compile(PROGRAM, backend=backend)
    xs = np.ones(3)
    for base, made, call in [
        (IndexError, errors.BoundsError, lambda: prog.at(xs, 3)),
        (IndexError, errors.BoundsError, lambda: prog.part(xs, 4)),
        (ZeroDivisionError, errors.DivisionByZero, lambda: prog.div(1, 0)),
        (AssertionError, errors.AssertionFailed, lambda: prog.positive(-1.0)),
        (MemoryError, errors.OutOfMemory, lambda: prog.zeros(1 << 60)),
        (TypeError, errors.DtypeError, lambda: prog.at("a", 1)),
        (ValueError, errors.DtypeError, lambda: prog.at(np.ones(3, complex), 1)),
        (ValueError, errors.ShapeError, lambda: prog.at(np.ones((3, 1)), 1)),
    ]:
        with pytest.raises(base) as e:
            call()
        assert type(e.value) is made


def test_errors_of_a_programs_text_are_pythons():
    with pytest.raises(NameError, match="'y'"):
        futad.compile("entry f (x: f64) = y")
    with pytest.raises(TypeError, match=r"\[E\d+\]"):
        futad.compile("entry f (x: f64): i32 = x")
    with pytest.raises(NotImplementedError):
        raise errors.UnsupportedError("a construct")


@pytest.mark.slow
def test_an_error_of_ours_about_anothers_array_is_not_taken_for_one_of_its_library(monkeypatch):
    monkeypatch.delitem(sys.modules, "cupy", raising=False)  # which would be asked for a stream, and may have no card

    class Given:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **options):
            raise futad.DtypeError("argument 'xs': ours")

    with pytest.raises(futad.DtypeError) as e:
        device_array(Given(), "xs")
    assert e.value.message == "argument 'xs': ours"


def test_former_names():
    for old, new in {
        "AssertionError_": "AssertionFailed",
        "MemoryError_": "OutOfMemory",
        "NameError_": "ScopeError",
        "RuntimeError_": "ExecutionError",
        "TypeError_": "TypeCheckError",
        "ValueError_": "InputError",
    }.items():
        for module in (futad, errors):
            with pytest.warns(DeprecationWarning, match=rf"{module.__name__}\.{old} is now called {new}") as w:
                assert getattr(module, old) is getattr(errors, new)
            assert w[0].filename == __file__
            assert old not in dir(module)
    for module in (futad, errors):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'KeyError_'"):
            module.KeyError_  # noqa: B018


def test_all_names_are_there_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(getattr(futad, name) is not None for name in futad.__all__)
    assert not [n for n in futad.__all__ if n.endswith("_")]


def test_importing_futad_imports_no_errors():
    code = "import sys, futad; print([m for m in sys.modules if m.startswith('futad.')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
