"""Programs compiled by schedules of users: passes, strategies, rules and nests, from Python and by the commands."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad import strategies as s
from futad.backend import aot_cache
from futad.backend.c import CBackend
from futad.cli.schedule import nests
from futad.core import ir
from futad.core.types import F64, Const, Var
from futad.errors import UsageError
from futad.pipeline import compile_program
from futad.rewrite.choices import Choices, nests_of
from futad.rewrite.strategy import rule
from futad.source import compile_text
from futad.target import EMULATED, C, Target
from tests.support.cli_helpers import Runner
from tests.support.paths import ROOT
from tests.support.slow import slow_but

GMM = ROOT / "benchmarks" / "programs" / "gmm.fut"
TEXT = """
def square (x: f64) = x * x
entry value [n][m] (xss: [n][m]f64) (w: [m]f64): [n]f64 =
  map (\\xs ->
    f64.sum (map2 (*) xs w)) xss
entry gradient [n] (xs: [n]f64) =
  vjp (\\xs -> f64.sum (map square xs)) xs 1
"""
XSS, W = np.arange(70.0).reshape(10, 7), np.arange(7.0)


def source(schedule: str, text: str = TEXT, target: Target = C) -> str:
    """The C of a program by a schedule, names of variables without their numbers."""
    made = s.parse_schedule(schedule)
    aimed = replace(target, choices=Choices(made.nests))
    c = CBackend(compile_program(compile_text(text, "p.fut"), target=aimed, schedule=made), aimed).source
    return re.sub(r"_\d+", "", c)


# --- passes, strategies and rules ----------------------------------------------------------------------------------


def test_a_schedule_of_the_default_changes_nothing() -> None:
    plain = futad.compile(TEXT, "p.fut", backend="interp")
    same = futad.compile(TEXT, "p.fut", backend="interp", schedule=str(s.default()))
    programs = [re.sub(r"_\d+", "", str(compile_program(p.core, schedule=p.schedule))) for p in (plain, same)]
    assert programs[0] == programs[1]


def test_hits_are_counted_and_passes_left_out() -> None:
    d = s.default()
    hits = futad.compile(TEXT, backend="interp").trace.hits
    assert hits["fuse"] == 1 and hits["fuse_vertical"] >= 1 and hits["ad"] == 1 and "hoist" not in hits
    without = futad.compile(TEXT, backend="interp", schedule=d.without("fuse"))
    assert "fuse" not in without.trace.hits
    assert without.schedule == d.without("fuse")
    np.testing.assert_allclose(without.value(XSS, W), XSS @ W)
    np.testing.assert_allclose(futad.grad(_sum(without))(W), 2 * W)


def _sum(p: futad.Program) -> Any:
    text = TEXT + "entry total [n] (xs: [n]f64) = f64.sum (map square xs)"
    return futad.compile(text, backend="interp", schedule=p.schedule).total


@rule(ir.Op)
def mul_self(stm: ir.Stm, ctx: Any) -> list[ir.Stm] | None:
    """`x * x` -> `x ** 2`"""
    e = stm.exp
    same = isinstance(e, ir.Op) and e.op == "mul" and e.args[0] is e.args[1] and e.args[0].type is F64
    return [ir.Stm(stm.pat, ir.Op("pow", (e.args[0], Const(F64, 2.0))))] if same else None


@rule(ir.Op)
def loses(stm: ir.Stm, ctx: Any) -> list[ir.Stm] | None:
    """`x * y` -> `z`, which is nowhere"""
    return [ir.Stm(stm.pat, ir.Alias(Var("z", F64)))] if stm.exp.op == "mul" else None


@rule(ir.Op)
def breaks(stm: ir.Stm, ctx: Any) -> list[ir.Stm] | None:
    """`x` -> an exception"""
    raise KeyError("oops")


@pytest.mark.slow
def test_a_rule_in_python_is_applied_inside_scopes_where_the_schedule_says() -> None:
    d = s.default()
    text = "entry f (xs: []f64) = map (\\x -> x * x) xs\nentry g (x: f64) = x * x"
    p = futad.compile(text, backend="interp", schedule=d.before("fuse", s.normalize(mul_self)))
    assert p.trace.hits["mul_self"] == 2
    np.testing.assert_allclose(p.f(W), W**2)
    for place, hits in (("g", 1), ("f", 1), ("main:1", 1), ("main:2", 1), ("h", 0), ("main:3", 0)):
        only = s.seq(s.at(place), s.normalize(mul_self))
        inside = s.normalize(s.seq(s.at(place), mul_self))
        found = [futad.compile(text, backend="interp", schedule=d.before("fuse", x)).trace.hits for x in (only, inside)]
        assert max(f.get("mul_self", 0) for f in found) == hits, place
    limited = futad.compile(text, backend="interp", schedule=d.before("fuse", s.normalize(s.limit(1, mul_self))))
    assert limited.trace.hits["mul_self"] == 1


def test_rules_of_the_simplifier_are_replaced() -> None:
    only = futad.compile(TEXT, backend="interp", schedule="enter: fold\nleave: fail\n")
    assert set(only.trace.hits) & {"unit", "map_inputs", "map_results"} == set()
    np.testing.assert_allclose(only.gradient(W), 2 * W)
    looping = replace(s.default(), enter=s.choice(mul_self, rule(ir.Op)(_turned)))
    with pytest.raises(UsageError, match="does not end: rule '_turned' applies again and again"):
        futad.compile(TEXT, backend="interp", schedule=looping).gradient(W)


def _turned(stm: ir.Stm, ctx: Any) -> list[ir.Stm] | None:
    """`x * y` -> `y * x`, for ever"""
    e = stm.exp
    return [ir.Stm(stm.pat, ir.Op("mul", e.args[::-1]))] if isinstance(e, ir.Op) and e.op == "mul" else None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "cause"),
    [
        (s.normalize(loses), r"a rule in 'normalize\(loses\)' is wrong: what it makes is no program: .*z_\d+"),
        (s.normalize(breaks), r"a rule in 'normalize\(breaks\)' fails: KeyError: 'oops'"),
        (s.normalize(rule(ir.Op)(_turned)), r"normalize\(_turned\) does not end: rule '_turned'"),
    ],
)
def test_wrong_rules_are_errors_that_name_them(strategy: s.Strategy, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        futad.compile(TEXT, backend="interp", schedule=s.default().before("fuse", strategy)).gradient(W)


def test_a_schedule_is_a_schedule_or_its_text() -> None:
    with pytest.raises(UsageError, match="a schedule is needed, not int"):
        futad.compile(TEXT, schedule=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the schedule has no 'fus'"):
        futad.compile(TEXT, schedule="without fus\n")


@pytest.mark.slow
def test_the_key_of_what_was_compiled_covers_the_schedule() -> None:
    d = s.default()
    keys = {aot_cache.key_of({"p.fut": TEXT}, "c", None, x) for x in (None, d, d.without("hoist"))}
    assert len(keys) == 3 and aot_cache.key_of({"p.fut": TEXT}, "c", None, s.default()) in keys


# --- nests -------------------------------------------------------------------------------------------------------


def test_nests_are_named_by_the_line_they_come_from() -> None:
    program = compile_program(compile_text(TEXT, "p.fut"), target=C)
    found = [(n.name, n.function, n.depth) for n in nests_of(program)]
    assert found == [("p.fut:4", "value", 0), ("p.fut:5", "value", 1), ("p.fut:7", "gradient", 0)]


@pytest.mark.slow
def test_a_nest_is_forced_forbidden_and_tuned() -> None:
    plain = source("")
    jammed = source('nest "p.fut:4": jam(2)')
    assert "unroll-and-jam(4)" in nests(compile_text(TEXT, "p.fut"), s.default(), C)
    assert len({plain, jammed, source('nest "p.fut:4": jam(3)'), source('nest "p.fut:4": no jam')}) == 4
    assert source('nest "p.fut:4": jam(4)') == plain == source('nest "p.fut:4": no fission')
    assert source('nest "p.fut:7": lanes(8)').count("omp simd") > plain.count("omp simd")
    assert source('nest "*": jam(3)') == source('nest "p.fut:4": jam(3)') and source('nest "*": rows') == plain
    assert source('nest "*": no lanes ; no jam').count("FUTAD_INDEPENDENT") < plain.count("FUTAD_INDEPENDENT")


@pytest.mark.parametrize(
    ("asked", "cause"),
    [
        ('nest "p.fut:7": jam(2)', "'unroll-and-jam.2.' is impossible for the nest p.fut:7: there is no loop inside"),
        ('nest "p.fut:7": fission(64)', "'loop-fission.64.' is impossible .*: there is no loop inside"),
        ('nest "p.fut:4": rows', "'rows-of-products' is impossible"),
        ('nest "p.fut:5": jam(1)', "'jam' takes a number from 2 to 16, not 1"),
        ('nest "p.fut:5": across(4)', "'across' takes no numbers, not 4"),
        ('nest "p.fut:5": jamm', "no transformation of loops is called 'jamm'"),
        ('nest "p.fut:9": jam', "there is no nest 'p.fut:9'"),
        ('nest "p.fut:4#2": jam', "there is no nest 'p.fut:4#2'"),
    ],
)
def test_what_is_impossible_is_an_error_with_the_reason(asked: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        source(asked)


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", slow_but(["ode"], ["ba", "ode", "gmm", "lbm", "det"])
)
def test_what_is_printed_of_nests_asks_for_the_same_code(program: str) -> None:
    text = (ROOT / "benchmarks" / "programs" / f"{program}.fut").read_text()
    printed = nests(compile_text(text, "p.fut"), s.default(), C)
    assert printed.count("\nnest ") > 0 and "refused" in printed
    assert source(printed, text) == source("", text)


@pytest.mark.slow
def test_gmm_by_a_schedule_of_ones_own(tmp_path: Path) -> None:
    """A nest of GMM forced, one forbidden, one tuned: other code, the same results."""
    asked = 'nest "gmm.fut:55#1": jam(2) ; no rows\nnest "gmm.fut:44#1": no across\nnest "gmm.fut:55#3": no jam\n'
    text = GMM.read_text()
    plain, own = source("", text), source(asked.replace("gmm.fut", "p.fut"), text)
    assert plain != own
    rng = np.random.default_rng(1)
    n, d, k = 50, 4, 3
    shapes = [(k,), (k, d), (k, d * (d + 1) // 2), (n, d)]
    args = [*[rng.normal(size=shape) for shape in shapes], 1.0, 2]
    programs = [futad.load(GMM, backend="c", schedule=x) for x in (None, asked)]
    assert programs[0].objective(*args) == pytest.approx(programs[1].objective(*args), rel=1e-13)
    for a, b in zip(*[p.gradient(*args) for p in programs], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


DEVICE = """
entry rows [n][m] (xss: [n][m]f64): [n]f64 =
  map (\\xs -> f64.sum (map (\\x -> x * x) xs)) xss
"""


@pytest.mark.parametrize(
    ("asked", "levels"),
    [
        ("", ["thread", "parts", "warp", "block"]),
        ("block", ["block"]),
        ("thread", ["thread"]),
        ("warp", ["warp", "block"]),
        ("no parts", ["thread", "warp", "block"]),
        ("no thread", ["parts", "warp", "block"]),
        ("no block", ["parts", "thread"]),
        ("parts", ["parts", "block"]),
    ],
)
def test_versions_of_devices_are_forced_and_forbidden(asked: str, levels: list[str]) -> None:
    made = s.parse_schedule(f'nest "p.fut:3#1": {asked}\n' if asked else "")
    aimed = replace(EMULATED, choices=Choices(made.nests))
    program = compile_program(compile_text(DEVICE, "p.fut"), target=aimed, schedule=made, check=True)
    grid = program.funs["rows"].body.stms[0].grid
    assert grid is not None
    assert [v.level for v in grid.versions if v.level != "columns"] == levels


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["block", "thread", "warp", "parts", "no block", "no thread"])
def test_forced_versions_compute_the_same(asked: str) -> None:
    xss = np.arange(12.0).reshape(3, 4)
    for x in (xss, xss[:0], xss[:, :0], np.ones((40, 3)), np.ones((2, 3000))):
        p = futad.compile(DEVICE, "p.fut", backend="emulated", schedule=f'nest "p.fut:3": {asked}\n')
        np.testing.assert_allclose(p.rows(x), (x * x).sum(1))


@pytest.mark.parametrize(
    ("asked", "cause"),
    [
        ('nest "p.fut:3": tiles', "'tiles' is impossible for the nest p.fut:3#1: it is no fold of all pairs"),
        ('nest "p.fut:3": jam(2)', "devices have no choice 'jam.2.'"),
        ('nest "p.fut:3#1": no block ; no thread', "it has thread.* block, and no other is always right"),
    ],
)
def test_impossible_versions_are_errors(asked: str, cause: str) -> None:
    made = s.parse_schedule(asked)
    with pytest.raises(UsageError, match=cause):
        compile_program(
            compile_text(DEVICE, "p.fut"), target=replace(EMULATED, choices=Choices(made.nests)), schedule=made
        )


# --- the command line --------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> Runner:
    runner = Runner(tmp_path, monkeypatch, capfdbinary)
    runner.file("p.fut", TEXT + "-- ==\n-- entry: gradient\n-- input { [1.0] } output { [2.0] }\n")
    runner.file("own.sched", "before fuse: normalize(fold)\nwithout hoist\n")
    runner.file("wrong.sched", "-- one\nbefore fus: id\n")
    runner.file("endless.sched", "before fuse: repeat(id)\n")
    return runner


def test_dev_prints_schedules(run: Runner) -> None:
    assert s.parse(run("dev", "--schedule").out) == s.default()
    own = run("dev", "p.fut", "--schedule", "--strategy", "own.sched").out
    assert s.parse(own) == s.load_schedule("own.sched") and "apply normalize(fold)\npass fuse" in own
    of_c = run("dev", "p.fut", "--schedule", "-b", "c").out
    assert 'nest "p.fut:4": unroll-and-jam(4)' in of_c and "  -- refused" in of_c and "pass grids" not in of_c
    assert "-- thread if inner < BLOCK_INNER" in run("dev", "p.fut", "--schedule", "-b", "cuda").out
    assert "pass accs" not in run("dev", "p.fut", "--schedule", "-b", "interp").out


@pytest.mark.slow
def test_what_is_printed_for_a_backend_runs_on_it(run: Runner) -> None:
    run.file("c.sched", run("dev", "p.fut", "--schedule", "-b", "c").out)
    text = "entry gradient [n] (xs: [n]f64) = vjp (\\xs -> f64.sum (map (\\x -> x * x) xs)) xs 1"
    passes = "\n".join(x for x in Path("c.sched").read_text().splitlines() if x.startswith("pass"))
    np.testing.assert_allclose(futad.compile(text, backend="c", schedule=passes).gradient(W), 2 * W)
    with pytest.raises(UsageError, match="the pass 'without-traces' is needed: devices cannot print"):
        futad.compile(text, backend="emulated", schedule=passes).gradient(W)
    assert run("check", "p.fut", "--strategy", "c.sched").code == 0


def test_dev_traces_rules(run: Runner) -> None:
    run.file("q.fut", "entry f (x: f64) = x * 1 + 0")
    shown = run("dev", "q.fut", "--trace-rules").out
    form = r"^unit in simplify at .*q\.fut(:1)?, \d+ us\n  - .*mul\(x_\d+, 1.0f64\)\n  \+ "
    assert re.search(form, shown, re.MULTILINE)


@pytest.mark.slow
def test_commands_take_schedules(run: Runner) -> None:
    assert run("run", "p.fut", "-e", "gradient", "-b", "interp", "--strategy", "own.sched", stdin="[1.0, 2.0]").out == (
        "[2.0f64, 4.0f64]\n"
    )
    for command in (["test", "p.fut"], ["bench", "p.fut", "-r", "1"]):
        assert run(*command, "-b", "interp", "--strategy", "own.sched").code == 0, command
    assert run("check", "p.fut", "--strategy", "own.sched").code == 0
    times = run("dev", "p.fut", "--time", "--strategy", "own.sched").out
    assert "normalize(fold)" in times and not re.search("^hoist ", times, re.MULTILINE)


@pytest.mark.parametrize("command", [["dev"], ["run", "-b", "interp"], ["test"], ["bench"], ["check"]])
def test_wrong_schedules_are_errors_with_line_and_cause(run: Runner, command: list[str]) -> None:
    name, *more = command
    done = run(name, "p.fut", *more, "--strategy", "wrong.sched")
    assert done.code == 1 or done.code == 2
    assert "wrong.sched:2:" in done.err and "the schedule has no 'fus'" in done.err and "Traceback" not in done.err
    assert "before fus: id" in done.err, "the line is shown"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("-- one\nbefore fuze: id\n", "own.sched:2:8: error: the schedule has no 'fuze'"),
        ("\nwithout fuze\n", "own.sched:2:9: error: the schedule has no 'fuze'"),
        ("pass simplify\npass fuze\n", "own.sched:2:6: error: no pass is called 'fuze'"),
        ("pass ad\npass ad\n", "own.sched:2:6: error: the pass 'ad' is there twice"),
    ],
)
def test_errors_are_at_the_names_they_are_about(run: Runner, text: str, place: str) -> None:
    run.file("own.sched", text)
    assert run("check", "p.fut", "--strategy", "own.sched").err.startswith(place)


def test_files_that_cannot_be_read_are_errors_that_say_why(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "own.sched").write_bytes(b"\xff\xfe")
    for name, why in (("none.sched", "No such file or directory"), ("own.sched", "it is no text in UTF-8")):
        for command in (["check", "p.fut", "--strategy"], ["dev", "p.fut", "--check-rules"]):
            assert run(*command, name).err.strip() == f"error: cannot read {name}: {why}"


def test_the_rules_of_a_schedule_are_checked(run: Runner) -> None:
    rule = "rule r:\n  let ?x = add(?a, ?b)\n  =>\n  let ?x = add(?b, ?a)\n"
    run.file("own.sched", f"{rule}before fuse: limit(1, r)\n")
    shown = run("dev", "--check-rules", "own.sched", "--cases", "5")
    assert shown.code == 0 and "1 rules, 0 not right" in shown.out


def test_a_schedule_that_does_not_end_is_an_error(run: Runner) -> None:
    for command in (["dev", "p.fut"], ["check", "p.fut"]):
        done = run(*command, "--strategy", "endless.sched")
        assert done.code != 0 and "the strategy repeat(id) does not end" in done.err
