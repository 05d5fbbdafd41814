"""Test runs check the IR after every pass; what a pass breaks has its name."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib import import_module

import pytest

import futad as library
from futad import checks, pipeline
from futad.core import ir
from futad.core.check import check_program
from futad.core.parse import parse_program
from futad.core.types import F64, Var
from futad.errors import InternalError
from futad.pipeline import compile_program, own_passes
from futad.source import compile_text
from futad.target import TARGETS
from futad.testing import check_grads
from tests.support.cli_helpers import Runner
from tests.support.paths import ROOT

TEXT = """
-- ==
-- input { [1.0, 2.0] } output { 5.0 }
entry main [n] (xs: [n]f64): f64 = f64.sum (map (\\x -> x * x) xs)
"""

# A pass that all targets share, and those of one or some; not what cleans up after them.
OWN = [(t.name, name) for t in TARGETS.values() for name in own_passes(t)]
NAMED = [("c", "hoist"), *OWN]


def with_pass(monkeypatch, name, **changes):
    """In the test the pass of that name is another one."""
    passes = [replace(p, **changes) if p.name == name else p for p in pipeline.PASSES]
    monkeypatch.setattr(pipeline, "PASSES", passes)


def out_of_scope(program, _target, **_options):
    """The program with a statement in each function that uses what nothing binds."""

    def body(lam):
        lost = ir.Stm((Var("kept", F64),), ir.Alias(Var("lost", F64)))
        return ir.Lambda(lam.params, (*lam.stms, lost), lam.result)

    return ir.map_bodies(program, body)


@pytest.mark.parametrize(("backend", "name"), [(b, n) for b, n in NAMED if b != "cuda"])
def test_a_test_run_names_the_pass_that_breaks_a_program(tmp_path, monkeypatch, capfdbinary, backend, name):
    monkeypatch.delenv(checks.VARIABLE)
    futad = Runner(tmp_path, monkeypatch, capfdbinary)
    futad.file("p.fut", TEXT)
    with_pass(monkeypatch, name, run=out_of_scope, after="", needs=(), settles=False)
    done = futad("test", "-b", backend, "p.fut")
    assert done.code == 1
    text = done.out + done.err
    assert f"after {name}, function main: lost_" in text and "is not in scope" in text
    assert "Traceback" not in text


def test_a_pass_that_raises_is_named(monkeypatch):
    def hoist(_program):
        return {}["lost"]

    monkeypatch.setattr(import_module("futad.optimise.hoist"), "hoist", hoist)
    with pytest.raises(InternalError, match="in hoist: KeyError: 'lost'"):
        compile_program(compile_text(TEXT, "p.fut"))


def test_what_is_malformed_beyond_the_rules_is_a_failure_too():
    program = parse_program("fun main [n_1: i64] (xs_2: [n_1]f64) -> (r_3: f64) = { in (1.0f64) }")
    (fun,) = program.funs.values()
    fun.ret = None  # type: ignore[assignment]
    with pytest.raises(InternalError, match="after somebody, function main: malformed: TypeError"):
        check_program(program, "somebody")


def test_derivatives_that_tests_look_at_are_checked_too(monkeypatch):
    monkeypatch.delenv(checks.VARIABLE)
    function = library.compile(TEXT, backend="c").main
    with_pass(monkeypatch, "by-columns", run=out_of_scope)
    with pytest.raises(InternalError, match="after by-columns"):
        check_grads(function, [1.0, 2.0])


def test_gradcheck_checks_too(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.delenv(checks.VARIABLE)
    futad = Runner(tmp_path, monkeypatch, capfdbinary)
    futad.file("p.fut", TEXT)
    with_pass(monkeypatch, "eliminate-transposes", run=out_of_scope)
    done = futad("gradcheck", "-b", "c", "p.fut")
    assert done.code == 1 and "after eliminate-transposes" in done.err and "Traceback" not in done.err


def test_all_of_these_tests_check():
    assert checks.IR in checks.modes()


@pytest.mark.slow
def test_nothing_is_checked_where_nobody_asks():
    """Compiling for use costs nothing for the checker: it is not even imported."""
    code = (
        "import sys, futad\n"
        f"f = futad.compile({TEXT!r}, backend='interp').main\n"
        "assert f([1.0, 2.0]) == 5\n"
        "assert 'futad.core.check' not in sys.modules\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != checks.VARIABLE}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, timeout=300)


def test_each_pass_has_a_name_of_its_own():
    names = [p.name for p in pipeline.PASSES]
    assert len(set(names)) == len(names)
    for p in pipeline.PASSES:
        assert not p.after or p.after in names[: names.index(p.name)], "a pass follows one that has run"
