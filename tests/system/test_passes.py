"""The one list of passes: `futad dev --list` prints those that run, for every backend; one line adds a pass."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import futad
from futad import checks, pipeline
from futad.core import ir
from futad.core.text import program_text
from futad.core.types import F64, I64, Const, Var
from futad.errors import InternalError, UsageError
from futad.pipeline import Pass, Trace, compile_program, pass_names
from futad.rewrite.simplify import Simplifier, simplify
from futad.rewrite.strategy import Stats
from futad.runtime import cc
from futad.source import compile_text, load_program
from futad.target import FEW, INTERP, TARGETS, Target, target_of
from futad.testing.freeze import emitted
from tests.support.cli_helpers import Runner
from tests.support.needs import has_cxx

TEXT = """
entry value [n][m] (xss: [n][m]f64) (is: [m]i64): [m]f64 =
  reduce_by_index (replicate m 0) (+) 0 is (map f64.sum (transpose (map (map trace) xss)))
entry gradient [n][m] (xss: [n][m]f64) (w: [m]f64) =
  vjp (\\w -> f64.sum (map (\\xs -> f64.sum (map2 (*) xs w)) xss)) w 1
"""
HERE = ["interp", "c", "multicore", "emulated"]


def ran(monkeypatch: pytest.MonkeyPatch, backend: str) -> list[str]:
    """The passes whose functions were called when a program was loaded and run, in order."""
    names: list[str] = []

    def watched(p: Pass) -> Pass:
        def run(program: ir.Program, target: Target, **more: Any) -> ir.Program:
            names.append(p.name)
            return p.run(program, target, **more)

        return replace(p, run=run)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "PASSES", [watched(p) for p in pipeline.PASSES])
        futad.compile(TEXT, backend=backend).gradient([[1.0, 2.0]], [3.0, 4.0])
    return names


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::futad.FutadWarning")
@pytest.mark.parametrize("backend", HERE)
def test_what_is_listed_is_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any, backend: str
) -> None:
    if backend in ("c", "multicore") and not cc.compiler_available():
        pytest.skip("no C compiler")
    if backend == "emulated" and not has_cxx():
        pytest.skip("no C++ compiler")
    lines = Runner(tmp_path, monkeypatch, capfdbinary)("dev", "--list", "-b", backend).out.splitlines()
    listed = {line.split()[0]: line.split(" if ")[1].split()[0] if " if " in line else "" for line in lines}
    trace = Trace()
    compile_program(compile_text(TEXT, "p.fut"), target=target_of(backend), trace=trace)
    assert [r.name for r in trace.records] == list(listed) == pass_names(target_of(backend))
    changed = {r.name for r in trace.records if r.changed}
    names = [r.name for r in trace.records if r.ran]
    assert ran(monkeypatch, backend) == names
    assert all(not after or after in changed for name, after in listed.items() if name in names)
    quiet = {p.name for p in pipeline.PASSES if p.needs or p.settles}
    assert all(name in quiet or after and after not in changed for name, after in listed.items() if name not in names)


def test_cuda_runs_what_the_emulated_device_runs() -> None:
    assert pass_names(TARGETS["cuda"]) == pass_names(TARGETS["emulated"])
    c, many = pass_names(TARGETS["c"]), pass_names(TARGETS["multicore"])
    few = pass_names(replace(TARGETS["multicore"], threads=FEW))
    assert "in-order" in c and "at-once" in few, "tasks run in order, or at once"
    assert [name for name in c if name != "in-order"] == [name for name in few if name != "at-once"]
    assert set(c) - set(many) == {"in-order", "sink-into-loop"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "emulated"])
def test_every_pass_of_a_backend_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any, backend: str
) -> None:
    run = Runner(tmp_path, monkeypatch, capfdbinary)
    run.file("p.fut", TEXT)
    for name in pipeline.own_passes(TARGETS[backend]):
        done = run("dev", "p.fut", "--after", name, "-b", backend)
        assert done.code == 0 and done.out.startswith('program "main"'), (name, done.err)
        assert run("dev", "p.fut", "--after", name).code == 0, "a backend that has the pass is found"
    times = run("dev", "p.fut", "--time", "-b", backend).out
    assert [line.split()[0] for line in times.splitlines()[1:-1]] == pass_names(TARGETS[backend])


def test_passes_that_do_not_run() -> None:
    program = compile_text(TEXT, "p.fut")
    with pytest.raises(UsageError, match="'own-rows' does not run for c"):
        compile_program(program, target=TARGETS["c"], stop_after="own-rows")
    with pytest.raises(UsageError, match="no pass is called 'lost'"):
        compile_program(program, passes=["lost"])
    with pytest.raises(UsageError, match="no backend is called 'gpu'; there are: interp, c"):
        target_of("gpu")


# --- a pass of somebody else ----------------------------------------------------------------------------------------


def marked(program: ir.Program, _target: Target) -> ir.Program:
    """A statement that nobody needs in every function."""
    return ir.map_bodies(
        program,
        lambda f: ir.Lambda(f.params, (*f.stms, ir.Stm((Var("mark", I64),), ir.Alias(Const(I64, 7)))), f.result),
    )


def broken(program: ir.Program, _target: Target) -> ir.Program:
    return ir.map_bodies(program, lambda f: ir.Lambda(f.params, f.stms, (Var("lost", I64),) * len(f.result)))


@pytest.mark.slow
def test_a_pass_is_added_by_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    monkeypatch.setattr(pipeline, "PASSES", [*pipeline.PASSES, Pass("mark", marked, lambda t: t.code == "c")])
    trace = Trace()
    program = compile_program(compile_text(TEXT, "p.fut"), target=TARGETS["c"], trace=trace)
    assert trace.records[-1].name == "mark" and trace.records[-1].changed and trace.records[-1].seconds > 0
    assert program_text(program).count("let mark_") == 2
    run = Runner(tmp_path, monkeypatch, capfdbinary)
    run.file("p.fut", TEXT)
    assert run("dev", "--list", "-b", "c").out.split()[-1] == "mark"
    assert "mark" not in run("dev", "--list", "-b", "interp").out
    assert run("dev", "p.fut", "--after", "mark").out.count("let mark_") == 2
    assert run("dev", "p.fut", "--after", "by-columns").out.count("let mark_") == 0
    assert re.search(r"^mark +[\d.]+ +\d+$", run("dev", "p.fut", "--time", "-b", "c").out, re.MULTILINE)


def test_an_added_pass_is_checked_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "PASSES", [*pipeline.PASSES, Pass("break", broken)])
    with checks.also(checks.IR), pytest.raises(InternalError, match="after break, function value: lost_"):
        compile_program(compile_text(TEXT, "p.fut"))


def test_what_follows_a_pass_runs_if_that_changed_something(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    shared = pipeline.PASSES

    def tidy(program: ir.Program, _target: Target) -> ir.Program:
        seen.append("tidy")
        return program

    for run, times in ((marked, 1), (lambda program, _target: program, 0)):
        seen.clear()
        more = [Pass("mark", run), Pass("tidy", tidy, after="mark")]
        monkeypatch.setattr(pipeline, "PASSES", [*more, *shared])
        compile_program(compile_text(TEXT, "p.fut"), target=INTERP, passes=["mark", "tidy"])
        assert seen == ["tidy"] * times


def test_rules_are_counted_in_the_passes_of_a_backend_too() -> None:
    counts = []
    for target in (INTERP, TARGETS["c"]):
        trace = Trace(rules=Stats())
        compile_program(compile_text(TEXT, "p.fut"), target=target, trace=trace)
        assert trace.rules is not None
        counts.append({name for name, hits, *_ in trace.rules.table() if hits})
    assert counts[1] - counts[0] >= {"acc_reduced", "acc_removed"}


PROGRAMS = sorted((Path(__file__).parent.parent / "programs").glob("*.fut"))
EVERY = [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if k % 24 else []) for k, p in enumerate(PROGRAMS)]


@pytest.mark.parametrize("path", EVERY)
def test_a_pass_changes_only_programs_with_what_it_needs(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Passes that are left out for want of a construct, run all the same."""
    concerned = pipeline._concerns
    left_out: list[str] = []

    def always(p: Pass, program: ir.Program) -> bool:
        if not concerned(p, program):
            left_out.append(p.name)
        return True

    monkeypatch.setattr(pipeline, "_concerns", always)
    for name in ("c", "cuda"):
        trace, before = Trace(), len(left_out)
        compile_program(load_program(str(path)), target=target_of(name), trace=trace)
        changed = {r.name for r in trace.records if r.changed}
        assert len(left_out) > before, "some pass is about what the program has not"
        assert changed.isdisjoint(left_out[before:])


@pytest.mark.parametrize("path", EVERY)
def test_the_simplifier_finds_as_much_where_it_looks_at_everything_again(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """Statements that it left alone before, and whose operands are as they were, are not tried again."""

    def code() -> list[str]:
        return [re.sub(r"_\d+\b", "", emitted(load_program(str(path)), backend)) for backend in ("c", "emulated")]

    quick = code()
    monkeypatch.setattr(Simplifier, "as_it_was", lambda self, stm: False)
    assert code() == quick


def test_a_statement_is_tried_again_where_an_operand_is_made_otherwise() -> None:
    program = simplify(compile_text("entry main (x: f64) (k: f64): f64 = f64.sin x + k"))
    assert simplify(program) is program
    (fun,) = program.funs.values()
    sine, total = fun.body.stms
    x, k = fun.body.params

    def left(params: ir.Atoms, stms: tuple[ir.Stm, ...]) -> list[str]:
        """The operations that the simplifier leaves of the statements."""
        body = ir.Lambda(params, stms, fun.body.result)
        (made,) = simplify(ir.Program({"main": replace(fun, body=body)})).funs.values()
        return [s.exp.op for s in made.body.stms if isinstance(s.exp, ir.Op)]

    assert left((x, k), (sine, total)) == ["sin", "add"]
    assert left((x, k), (ir.Stm(sine.pat, ir.Op("neg", (x,))), total)) == ["sub"], "k + (-x)"
    assert left((x,), (ir.Stm((k,), ir.Alias(Const(F64, 0.0))), sine, total)) == ["sin"], "sin x + 0"
