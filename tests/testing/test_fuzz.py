"""The fuzzer: that its programs are valid, a fixed sample of them, and that it finds, places and keeps what is wrong.

`FUTAD_PROGRAMS=20` makes the sample twenty times as large, `FUTAD_SEED` moves it.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from futad import legality
from futad.api.program import Program
from futad.backend import c
from futad.core.text import program_text
from futad.core.types import ONE
from futad.fires import counting
from futad.source import compile_text
from futad.testing import skeletons
from futad.testing.freeze import emitted
from futad.testing.fuzz import __main__ as fuzz
from futad.testing.fuzz import batch, budgets, oracle, workers
from futad.testing.fuzz.__main__ import main
from futad.testing.fuzz.batch import Task
from futad.testing.fuzz.cases import MODES, case, inputs
from futad.testing.skeletons import monoids
from tests.support.needs import has_cxx, needs_cc

FIRST = int(os.environ.get("FUTAD_SEED", "1"))
SCALE = float(os.environ.get("FUTAD_PROGRAMS", "1"))
CHUNK = 14


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "futad-fuzz-cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("kind", skeletons.FAMILIES)
def test_skeletons_are_valid(kind: str) -> None:
    for seed in range(6):
        c = case(kind, seed, "f32" if seed == 0 else "f64", MODES if seed == 1 else ("value",))
        compile_text(c.text(), f"{kind}-{seed}.fut")
        again = skeletons.program(kind, seed)
        assert case(kind, seed, c.elem, c.modes) == c and (again == c.program or c.attribute)
        for number in range(2):
            made = inputs(c, number)
            assert all(made.sizes[s] >= least for s, least in again.least.items())
            assert sum(n > 9 for n in made.sizes.values()) <= number


def sample(backend: str, kinds: list[str], each: int) -> list[Task]:
    programs = [(k, 500 + FIRST + i) for i in range(round(each * SCALE)) for k in kinds]
    starts = range(0, len(programs), CHUNK)
    return [Task(3 * (i // CHUNK), backend, "f64", tuple(programs[i : i + CHUNK])) for i in starts]


FAMILIES = list(skeletons.FAMILIES)
ORDERS = ("rev", "fwdrev", "revfwd", "revrev")
DERIVATIVES = [
    Task(t.number, "interp", "f64", t.programs, ("rev",) if i % 4 else ORDERS)
    for i, t in enumerate([*sample("interp", FAMILIES, 2), *sample("interp", ["source"], 14)])
]


def test_files_of_programs() -> None:
    """All programs of a file have budgets or none has, every name of it is defined once, and no program is lost."""
    made = list(itertools.islice(fuzz.tasks(500002, FAMILIES, ["c"], False, (), 0), 12))
    for task in made:
        cases = task.cases()
        assert len({budgets.drawn(kind, seed, False) is None for kind, seed in task.programs}) == 1
        text = "".join(c.source(str(k)) for k, c in enumerate(cases))
        names = re.findall(r"^(?:def|entry) (\w+)", text, re.MULTILINE)
        assert len(names) == len(set(names)) and len(cases) == fuzz.BATCH
    programs = [p for task in made for p in task.programs]
    assert len(set(programs)) == len(programs) and {kind for kind, _ in programs} == set(FAMILIES)


@pytest.mark.slow
@pytest.mark.parametrize("task", DERIVATIVES, ids=lambda t: f"{t.programs[0][0]}-{t.programs[0][1]}-{len(t.modes)}")
def test_derivatives_are_those_by_dual_numbers(task: Task) -> None:
    done = batch.run(task)
    assert [(f.kind, f.seed, f.mode, f.what, f.detail) for f in done.findings] == []
    assert done.programs == len(task.programs) and done.calls


@pytest.mark.slow
def test_dual_numbers_find_what_both_modes_have_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that forward and reverse mode share: they agree, and at ties no difference tells."""
    from futad.ad.rules import scalar

    whole = scalar._choice
    monkeypatch.setattr(scalar, "_choice", lambda cond, seed, taken: whole(cond, seed, not taken))
    tasks = [Task(0, "interp", "f64", (("ties", 700 + s),), ("rev",)) for s in range(6)]
    found = [f for task in tasks for f in batch.run(task).findings]
    assert found and all(f.what == "mismatch" for f in found)
    assert any(f.detail.startswith("dual numbers against the transformation") for f in found)


SAMPLE = [
    *sample("c", FAMILIES, 1),
    *sample("c", ["inplace"], 14),
    *sample("emulated", FAMILIES[::2], 1),
    *sample("multicore", FAMILIES[::6], 1),
    *sample("c", ["source"], 4),
]


@pytest.mark.slow(apart=True)
@needs_cc
@pytest.mark.parametrize("task", SAMPLE, ids=lambda t: f"{t.backend}-{t.programs[0][0]}-{t.programs[0][1]}")
def test_sample(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    if task.backend == "multicore":  # the same loops four times: those of `c` have the flags that users get
        monkeypatch.setenv("FUTAD_CFLAGS", "-O1")
    if task.backend == "emulated" and not has_cxx():
        pytest.skip("no C++ compiler")
    done = batch.run(task)
    assert done.programs == len(task.programs)
    assert not done.findings


# Kinds of many small programs, of which each file has all, tried around the lengths of vectors.
SMALL = ("handover", "aliases", "masks", "borders", "clamps", "monoids", "duplicates", "widths", "specials")


@needs_cc
def test_small_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CFLAGS", "-O0")
    done = batch.run(Task(1, "c", "f64", tuple((kind, seed) for kind in SMALL for seed in (3, 4)), ("value",)))
    assert done.findings == [] and done.programs == 2 * len(SMALL) and done.calls >= 2 * done.programs


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_small_programs_and_their_derivatives(backend: str) -> None:
    done = batch.run(Task(0, backend, "f64", tuple((kind, 600 + FIRST) for kind in SMALL)))
    assert done.findings == [] and done.programs == len(SMALL)


def test_operators_are_associative_and_have_their_neutral_elements() -> None:
    """On the values that are made for them: else results hang on how many elements are combined at a time."""
    text = skeletons.HEAD.format(t="f64")
    for k, o in enumerate(monoids.TABLE):
        same = " && ".join(
            f"t.abs (a{j} - b{j}) < 1e-9" if t == "t" else f"a{j} == b{j}" for j, t in enumerate(o.types)
        )
        text += f"""
            def op{k} ({o.parts("a")}: {o.type}) ({o.parts("b")}: {o.type}) : {o.type} = {o.lets}{o.of(o.op)}
            def same{k} ({o.parts("a")}: {o.type}) ({o.parts("b")}: {o.type}) = {same}
            entry neutral{k} [n] (xs: [n]t) (ys: [n]t) (is: [n]i64) =
              let vs = map3 (\\x y i -> {o.of(o.made)}) xs ys (iota n)
              let e = {o.of(o.neutral)}
              in map (\\v -> same{k} (op{k} e v) v && same{k} (op{k} v e) v) vs
            entry associative{k} [n] (xs: [n]t) (ys: [n]t) (is: [n]i64) =
              let vs = map3 (\\x y i -> {o.of(o.made)}) xs ys (iota n)
              in map (\\(p, q, r) -> same{k} (op{k} (op{k} vs[p] vs[q]) vs[r]) (op{k} vs[p] (op{k} vs[q] vs[r])))
                     (flatten_3d (tabulate_3d n n n (\\p q r -> (p, q, r))))
        """
    rng = np.random.default_rng(0)
    xs, ys, places = rng.normal(size=6), rng.normal(size=6), rng.integers(0, 6, 6)
    program = Program(compile_text(text), backend="interp")
    wrong = [name for name, f in program.entries.items() if not np.all(f(xs, ys, places))]
    assert wrong == [] and len(program.entries) == 2 * len(monoids.TABLE) > 50


# Conditions of transformations, and kinds of which some program is wrong without them.
NEEDED = {
    "loop variables/first value not needed": "handover", "in place/not read later": "aliases",
    "ranges/below the size": "borders", "ranges/greater of two": "clamps",
}  # fmt: skip


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("condition", NEEDED)
def test_small_programs_find_mutants(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CFLAGS", "-O0")
    for start in range(0, 5 * CHUNK, CHUNK):
        task = Task(1, "c", "f64", tuple((NEEDED[condition], start + i) for i in range(CHUNK)), ("value",))
        with legality.dropping(condition):
            found = batch.run(task).findings
        if found:
            break
    assert found and {f.what for f in found} == {"mismatch"}
    assert not batch.run(replace(task, programs=tuple((f.kind, f.seed) for f in found))).findings


def test_inputs_are_around_vectors_and_special() -> None:
    sizes: set[int] = set()
    dtypes: set[str] = set()
    values: list[Any] = []
    for seed in range(60):
        c = case("widths", seed, "f64", ("rev",))
        for number in range(c.calls):
            made = inputs(c, number)
            sizes |= set(made.sizes.values())
            dtypes |= {np.asarray(x).dtype.name for x in made.args}
            ranks = [np.ndim(x) for x in made.cotangents]
            assert ranks == [len(r) for r in c.program.results]
        values += [x.ravel() for x in inputs(case("specials", seed, "f32", ("value",)), 1).args if x.dtype.kind == "f"]
    assert {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65} <= sizes
    assert {f"{k}{b}" for k, b in itertools.product(("int", "uint"), (8, 16, 32, 64))} <= dtypes
    assert {"float16", "float32", "float64", "bool"} <= dtypes
    every = np.concatenate(values)
    assert np.isnan(every).any() and np.isposinf(every).any() and np.isneginf(every).any()
    assert (np.signbit(every) & (every == 0)).any() and every.dtype == np.float32


def test_narrow_results_are_compared_by_their_width() -> None:
    x = np.array([1.0, 2.0])
    for dtype, near, far in (("f2", 0.02, 0.2), ("f4", 1e-3, 0.1), ("f8", 1e-10, 1e-6)):
        a = x.astype(dtype)
        assert not oracle.equal([a], [(x + near).astype(dtype)], "f8")
        assert oracle.equal([a], [(x + far).astype(dtype)], "f8")
    special = np.array([np.nan, np.inf, 1.0])
    assert oracle.equal([special], [np.array([1.0, np.inf, 1.0])], "f8")
    assert oracle.equal([special], [np.array([np.nan, -np.inf, 1.0])], "f8")
    assert not oracle.equal([special], [special.copy()], "f8")
    one, other = np.array([np.nan, 0.0, 1.0]), np.array([0.0, np.inf, 1.0])
    assert not oracle.equal_where_both_finite([one], [other], "f8", 0)
    assert "at [0]" in oracle.equal_where_both_finite([one], [other], "f8", 1)
    assert "at [2]" in oracle.equal_where_both_finite([special, one], [special, other + 0.5], "f8", 1)


def test_what_a_function_returns_is_not_overwritten_beside_its_argument() -> None:
    compile_text(case("source", 26112731148693, "f64", ("value",)).text(), "source.fut")


def test_threads_share_small_programs() -> None:
    """By default a nest of a few thousand operations is one thread's, and sizes here are small."""
    made = batch.Compiled([case("stencil", 5, "f64", ("rev",))], "multicore", check=False)
    assert made.program is not None
    assert "#define FUTAD_GRAIN 1\n" in made.program.executor().source
    assert c.GRAIN > 1


@needs_cc
def test_the_middle_build_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = (("chains", 7), ("cholesky", 3), ("stencil", 5))
    task = Task(0, batch.MIDDLE, "f64", chosen, ("rev",))
    texts: list[str] = []
    source = c.CBackend.source
    monkeypatch.setattr(c.CBackend, "source", property(lambda made: texts.append(source.fget(made)) or texts[-1]))
    out = batch.run(task)
    assert not out.findings and sum(out.tried.values()) == len(chosen)
    assert texts and all('"stops.h"' in text and "FUTAD_GRAIN" not in text for text in texts)


@pytest.mark.slow
def test_passes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The IR is checked after each pass, and what the passes of C make has the values it should have."""
    task = Task(1, batch.PASSES, "f64", (("twice", 1),), ("rev",))
    done = batch.run(task)
    assert done.programs == 1 and done.calls and not done.findings

    def wrong(program: Any) -> Any:
        raise KeyError("a variable")

    monkeypatch.setattr("futad.optimise.rounded.rounded", wrong)
    assert {(f.what, f.mode) for f in batch.run(task).findings} == {("internal", "rev")}


@pytest.mark.slow
def test_recursion_that_devices_refuse_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(s for s in range(20) if "#[bound" not in skeletons.program("trees", s).text)
    task = Task(1, batch.PASSES, "f64", (("trees", seed),), ("value",))
    done = batch.run(task)
    assert (done.programs, done.calls, done.findings) == (1, 0, [])
    monkeypatch.setattr(batch, "THROUGH", ("c",))
    done = batch.run(task)
    assert done.calls and not done.findings
    monkeypatch.setattr(batch, "THROUGH", ("cuda",))
    monkeypatch.setattr(batch, "NOT_ON_DEVICES", "another message")
    assert [f.what for f in batch.run(task).findings] == ["refused"]


@pytest.mark.slow
@needs_cc
def test_what_fires_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "BATCH", 4)
    options = ["--programs", "4", "--backends", "passes", "--modes", "value", "--kinds", "tails", "--fires"]
    assert main(options) == 0
    fires, _, never = capsys.readouterr().out.partition(" never: ")
    assert re.search(r"^ +\d+ tail-calls$", fires, re.MULTILINE)
    assert "tail-calls" not in never and "hand-on" in never.split(", ")


# Of each file of skeletons that were made for them, transformations that its programs make fire: else no random program
# tries these.
REACHED = {
    "tails": "tail-calls", "trees": "bounded-recursion records constant-arguments", "windows": "contractions",
    "coupled": "invert", "leapfrog": "hand-on", "once": "nest-interchange",
    "cells": "sink-into-loop", "nearest": "hot-rows", "messages": "added-rows", "kept": "compactions",
    "beside": "concat-axes rows-copied-at-once", "components": "staged-rows narrow", "stencils": "overlapped-tiling",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", REACHED)
def test_skeletons_reach_what_they_are_for(kind: str) -> None:
    missing = set(REACHED[kind].split())
    for seed in range(40):
        with counting() as fires:
            emitted(compile_text(case(kind, seed, "f64", ("rev",)).text()), "c")
        missing -= fires.keys()
        if not missing:
            break
    assert not missing


@pytest.mark.slow
@needs_cc
def test_places_that_are_the_same_one_are_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores to small rows that are taken to be apart: some programs of a few are wrong then."""
    monkeypatch.setenv("FUTAD_CFLAGS", "-O1")
    found: list[Any] = []
    for seed in range(100):
        task = Task(1, "c", "f64", (("colliding", seed),), ("value",))
        with legality.dropping("branches-written-out/stored apart"):
            with counting() as fires:
                emitted(compile_text(case("colliding", seed, "f64", ("value",)).text()), "c")
            if fires["branches-written-out"]:
                found += batch.run(task).findings
        if found:
            break
    assert [f.what for f in found] == ["mismatch"]
    assert not batch.run(task).findings


WRONG = Task(1, "c", "f64", (("twice", 1), ("prefix", 2)), ("value", "rev"))


@pytest.mark.slow
@needs_cc
def test_a_wrong_result_is_found_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = batch.Compiled.call

    def wrong(self: Any, entry: str, args: Any) -> list[Any]:
        out = call(self, entry, args)
        if entry.startswith("rev") and np.size(out[0]) > 1:
            out[0] = out[0] + 1e-6 * np.arange(np.size(out[0])).reshape(np.shape(out[0]))
        return out

    monkeypatch.setattr(batch.Compiled, "call", wrong)
    monkeypatch.setenv("FUTAD_CFLAGS", "-O1")
    monkeypatch.setattr(fuzz, "BATCH", 3)
    done = batch.run(WRONG)
    assert [(f.kind, f.mode, f.what) for f in done.findings] == [(k, "rev", "mismatch") for k in ("twice", "prefix")]
    assert all(f.suspect == "lowering or code" for f in done.findings)
    log = tmp_path / "log"
    options = ["--seconds", "60", "--programs", "3", "--backends", "c", "--modes", "rev", "--kinds", "twice,prefix"]
    assert main([*options, "--keep", str(tmp_path / "kept"), "--log", str(log)]) == 1
    kept = list((tmp_path / "kept").glob("*.fut"))
    assert len(kept) == json.loads(log.read_text())["findings"] > 0
    for path in kept:  # what is kept compiles, and says what was wrong
        assert path.read_text().startswith("-- mismatch on c, entry rev")
        compile_text(path.read_text(), path.name)


@pytest.mark.slow
def test_an_interpreter_that_stops_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(self: Any, name: str, args: Any) -> Any:
        raise KeyError("a variable")

    monkeypatch.setattr(batch.Interpreter, "run", stops)
    (f,) = batch.run(Task(1, batch.PASSES, "f64", (("twice", 1),), ("rev",))).findings
    assert (f.what, f.detail) == ("interpreter", "KeyError: 'a variable'")
    assert "interpreter" in f.suspect


@pytest.mark.slow
@needs_cc
def test_rounding_is_no_finding() -> None:
    # Rotations by angles that are what was rotated before: in f32 nothing is left of the inputs' digits.
    done = batch.run(Task(1, "c", "f32", (("givens", 11928631),), ("value",)))
    assert (done.ties, done.findings) == (1, [])


def _stopping(program: tuple[str, int], how: str) -> Any:
    real = batch.run

    def run(task: Task) -> Any:
        if program in task.programs:
            if how == "crash":
                os._exit(3)
            time.sleep(600)
        return real(task)

    return run


@pytest.mark.slow
def test_budgets_are_left_out_of_what_is_compared_with() -> None:
    """With budgets a program is the same one but for attributes; some have them, or all."""
    drawn = 0
    for kind in ("stacked", "ring", "descent", "source"):
        for seed in range(4):
            c = case(kind, seed, "f64", ("rev",), budgeted=True)
            drawn += case(kind, seed, "f64", ("rev",)) == c
            bare = replace(c, program=replace(c.program, text=_no_attributes(c.program.text)), attribute="")
            assert c.attribute and bare.program.text == _no_attributes(case(kind, seed, "f64", ("rev",)).program.text)
            core = compile_text(c.text(), "p.fut")
            assert "checkpoint" in program_text(core)
            one, other = [program_text(p) for p in (budgets.without(core), compile_text(bare.text()))]
            assert re.sub(r"_\d+|@\S+", "", one) == re.sub(r"_\d+|@\S+", "", other)
    assert 0 < drawn < 16


def _no_attributes(text: str) -> str:
    return re.sub(r"#\[(checkpoint|reversible)(\([^\]]*\))?\] ", "", text)


@needs_cc
@pytest.mark.slow
def test_wrong_states_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """States that are those of another iteration; a budget that is too small is no finding, another error is."""
    from futad.ad.history import rerun

    task = Task(1, "c", "f64", (("ring", 3),), ("rev",), budgeted=True)
    small = replace(case("ring", 3, "f64", ("rev",), True), attribute="#[checkpoint(1)] ")
    monkeypatch.setattr(batch, "case", lambda *_: small)
    assert not batch.run(task).findings
    right = rerun.run
    monkeypatch.setattr(rerun, "run", lambda b, step, at, *rest: right(b, step, b.op("add", at, ONE), *rest))
    [found] = batch.run(task).findings
    assert (found.what, found.mode, found.suspect) == ("mismatch", "rev", "pass ad")
    monkeypatch.setattr(rerun, "run", right)
    small.attribute = '#[checkpoint(memory="9B")] '
    assert not batch.run(task).findings
    monkeypatch.setattr(budgets, "ALLOWED", ())
    [found] = batch.run(task).findings
    assert found.what == "error" and "is too small" in found.detail


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("how", ["crash", "hang"])
def test_what_crashes_or_hangs_is_found(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "run", _stopping(("prefix", 2), how))
    task = Task(1, "c", "f64", (("prefix", 1), ("prefix", 2)), ("value",))
    found: list[Any] = []
    for limit in (3, 20, 60):  # seconds by the clock: other work on the machine takes some of them
        pool = workers.Pool(1, limit)
        try:
            done = list(pool.outcomes([task]))
        finally:
            pool.close()
        assert sum(o.programs for o in done) == 2
        found = [(f.kind, f.seed, f.what) for o in done for f in o.findings]
        if found == [("prefix", 2, how)]:
            break
    assert found == [("prefix", 2, how)]


@needs_cc
def test_what_does_not_compile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import futad.pipeline

    def broken(program: Any, *_: Any, **_more: Any) -> Any:
        if any("1" in f.name for f in program.funs.values() if f.entry is None) or len(program.funs) < 3:
            raise KeyError("x_12")
        return program

    passes = [replace(p, run=broken) if p.name == "fuse" else p for p in futad.pipeline.PASSES]
    monkeypatch.setattr(futad.pipeline, "PASSES", passes)
    done = batch.run(Task(1, "c", "f64", (("prefix", 1),), ("value",)))
    assert [(f.what, f.mode) for f in done.findings] == [("internal", "value")]
    assert "KeyError" in done.findings[0].detail


@pytest.mark.slow
@needs_cc
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--seconds", "60", "--programs", "5", "--backends", "c", "--kinds", "fft", "--modes", "value"]
    log = tmp_path / "log"
    for runs in (1, 2):
        assert main([*options, "--log", str(log)]) == 0
        assert f"0 findings, {runs} runs" in capsys.readouterr().out
    assert json.loads(log.read_text().splitlines()[0])["programs by kind"] == {"fft": 14}
    for bad in (["--kinds", "nothing"], ["--modes", "up"], ["--backends", "metal"], ["--jobs", "0"]):
        assert main(bad) == 2
        assert "error: " in capsys.readouterr().err


def test_oracles() -> None:
    x = np.array([1.0, 2.0, np.nan])
    assert not oracle.equal([x], [x + 1e-12], "f8")
    assert "at [1]" in oracle.equal([np.array([1.0, 2.1, np.nan])], [x], "f8")
    assert "at [2]" in oracle.equal([np.array([1.0, 2.0, 3.0])], [x], "f8")
    assert "[2]" in oracle.equal([x[:2]], [x], "f8")
    assert oracle.same([x], [x]) == "" and oracle.same([x], [x + 1e-15])
    assert not oracle.identity([2.0], [3.0], [6.0, 0.0], [1.0, 5.0], "f8")
    assert oracle.identity([2.0], [3.0], [6.0, 1e-3], [1.0, 5.0], "f8")

    def f(h: float) -> list[Any]:
        return [np.sin(np.array([1.0, 2.0]) + h)]

    assert not oracle.differences(f, [np.cos([1.0, 2.0])])
    assert "at [1]" in oracle.differences(f, [np.cos([1.0, 2.0]) + [0, 1e-3]])
    assert not oracle.differences(f, [np.cos(1.0) + 2 * np.cos(2.0)], [np.array([1.0, 2.0])])


@pytest.mark.slow
@needs_cc
def test_findings_are_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    call = batch.Compiled.call

    def wrong(self: Any, entry: str, args: Any) -> list[Any]:  # where a program has a logistic function
        out = call(self, entry, args)
        uses = "logistic" in self.text.split("def f")[1]
        return [y + 1 if uses and np.size(y) else y for y in out]

    monkeypatch.setattr(batch.Compiled, "call", wrong)
    seed = next(s for s in range(100) if "logistic" in skeletons.program("ring", s).text)
    [found] = batch.run(Task(1, "c", "f64", (("ring", seed),), ("value",), shrink=600)).findings
    before, after = skeletons.program("ring", seed).text, found.text.split("def softmax")[1]
    assert "logistic" in after and len(after) < len(before)
    compile_text(found.text, "small.fut")
    assert sum(found.sizes.values()) <= 2
