"""Nested and successive loops as one loop over a program counter: the same values bit for bit, from any tick on; the
same derivatives; what is updated in place stays there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
import futad.ad.expand
from futad.ad.spine.machine import flatten
from futad.ad.tidy.unfuse import unfuse
from futad.backend.c import CBackend
from futad.backend.cuda import DeviceBackend
from futad.core import ir
from futad.core.budget import Budget
from futad.core.builder import Builder
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.types import I64, ONE, ZERO, Var
from futad.errors import Error
from futad.pipeline import compile_program
from futad.runtime.device import EmulatedDevice
from futad.source import compile_text
from futad.target import target_of
from futad.testing.programs.core_derived import derived_program
from futad.testing.programs.core_loops import loops
from tests.support.budgets import flattened, under
from tests.support.needs import needs_cc, needs_cxx
from tests.support.paths import BENCHMARK_PROGRAMS
from tests.support.slow import slow_but
from tests.support.spine_programs import PROGRAMS, function

X = np.array([0.4, -0.3, 0.25, 0.7])
V = np.array([1.0, -0.5, 0.75, 0.3])


@cache
def core(name: str) -> ir.Program:
    """The program as derivatives find it."""
    return compile_program(compile_text(function(name)), stop_after="views", check=True)


def machine_of(lam: ir.Lambda) -> ir.Stm:
    """The loop over a program counter that a function has become."""
    (found,) = [s for s in lam.stms if isinstance(s.exp, ir.While) and s.pat[1].name == "pc"]
    return found


def is_machine(lam: ir.Lambda) -> bool:
    return any(isinstance(s.exp, ir.While) and len(s.pat) > 1 and s.pat[1].name == "pc" for s in lam.stms)


def interrupted(fun: ir.Fun) -> ir.Fun:
    """The function with one more parameter k: its machine runs k ticks, then the rest.  Its first result is how many
    ticks the first part took."""
    machine = machine_of(fun.body)
    e = machine.exp
    assert isinstance(e, ir.While)
    k = Var("k", I64)
    b = Builder()
    body = ir.Renamer()
    going, ticks = Var("going", e.body.params[0].type), Var("ticks", I64)
    params = tuple([body.bind(p) for p in e.body.params])
    b.extend(body.stms(e.body.stms))
    now = [body.atom(a) for a in e.body.result]
    more = b.op("add", ticks, ONE)
    further = b.op("and", now[0], b.op("lt", more, k))
    lam = ir.Lambda((going, *params, ticks), tuple(b.stms), (further, *now, more))
    start = Builder()
    first = start.op("and", e.inits[0], start.op("lt", ZERO, k))
    between = ir.Renamer()
    pat = tuple([between.bind(v) for v in (going, *machine.pat, ticks)])
    stms: list[ir.Stm] = []
    for s in fun.body.stms:
        if s is machine:
            rest = ir.Stm(s.pat, ir.While(pat[1:-1], e.body), s.attrs)
            stms += [*start.stms, ir.Stm(pat, ir.While((first, *e.inits, ZERO), lam)), rest]
        else:
            stms.append(s)
    new = ir.Lambda((*fun.body.params, k), tuple(stms), (pat[-1], *fun.body.result))
    return ir.Fun(fun.name, new, fun.num_sizes, (Var("ticks", I64), *fun.ret))


def bits(values: Sequence[Any]) -> list[bytes]:
    return [np.asarray(v).tobytes() for v in values]


def check_interrupts(plain: ir.Program, name: str, args: Sequence[Any], most: int = 40) -> int:
    """That running k ticks, then the rest, gives the function's bits, for every k; the number of ticks."""
    want = bits(Interpreter(plain).run(name, list(args)))
    flat = flattened(plain)
    check_program(flat, "spine")
    assert bits(Interpreter(flat).run(name, list(args))) == want
    split = ir.Program({name: interrupted(flat.funs[name])})
    check_program(split, "interrupted")
    run = Interpreter(split)
    total = int(run.run(name, [*args, np.int64(1 << 40)])[0])
    for k in sorted({*range(0, total, total // most + 1), total}):
        ticks, *values = run.run(name, [*args, np.int64(k)])
        assert int(ticks) == k
        assert bits(values) == want, k
    return total


def compiled_for(backend: str, program: ir.Program) -> Any:
    """What runs the program's functions."""
    target = target_of(backend)
    compiled = compile_program(program, target=target, check=True)
    if backend == "interp":
        return Interpreter(compiled)
    if backend == "emulated":
        return DeviceBackend(compiled).on(EmulatedDevice())
    return CBackend(compiled, target)


@pytest.fixture(params=slow_but([1], [1, 2000]))
def least(request, monkeypatch):
    """How much a tick does at least: an iteration of a loop, or as much as it does by default."""
    monkeypatch.setattr("futad.ad.spine.grain.LEAST", request.param)
    return request.param


@pytest.mark.parametrize("name", slow_but(list(PROGRAMS)[::3], PROGRAMS))
def test_interrupts(name, least):
    only = ir.Program({"f": core(name).funs["f"]})
    for n in PROGRAMS[name][1]:
        total = check_interrupts(only, "f", [np.int64(n), X])
    assert total > 1


@pytest.mark.slow
@pytest.mark.parametrize("seeds", slow_but([range(10)], [range(at, at + 10) for at in range(0, 40, 10)]), ids=str)
def test_interrupts_of_random_programs(seeds, least):
    found = 0
    for seed in seeds:
        sample = loops(seed)
        plain = ir.map_bodies(compile_program(sample.program, stop_after="views"), unfuse)
        fun = flattened(plain).funs["main"]
        if is_machine(fun.body):
            check_interrupts(plain, "main", sample.args, 6)
            found += 1
    assert found


COMPILED = [pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=needs_cc),
            pytest.param("emulated", marks=needs_cxx)]  # fmt: skip


def check_compiled_interrupts(backend: str, plain: ir.Program, name: str, args: Sequence[Any]) -> int:
    """As `check_interrupts`, on a backend, whose own run without an interrupt has the bits."""
    split = ir.Program({name: interrupted(flattened(plain).funs[name])})
    run = compiled_for(backend, split)
    none, *want = run.run(name, [*args, np.int64(0)])
    total = int(run.run(name, [*args, np.int64(1 << 40)])[0])
    assert int(none) == 0
    for k in range(1, total + 1):
        ticks, *values = run.run(name, [*args, np.int64(k)])
        assert int(ticks) == k
        assert bits(values) == bits(want), k
    exact = Interpreter(plain).run(name, list(args))
    for v, w in zip(want, exact, strict=True):
        np.testing.assert_allclose(v, w, rtol=1e-12, atol=1e-14)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("backend", COMPILED)
@pytest.mark.parametrize("name", ["two_deep", "branch_of_two", "while_in_for_in_while", "growing", "updates"])
def test_interrupts_on_backends(name, backend, monkeypatch):
    monkeypatch.setattr("futad.ad.spine.grain.LEAST", 1)
    only = ir.Program({"f": core(name).funs["f"]})
    assert check_compiled_interrupts(backend, only, "f", [np.int64(PROGRAMS[name][1][-1]), X]) > 1


@pytest.mark.slow
@pytest.mark.parametrize("backend", COMPILED)
def test_interrupts_of_random_programs_on_backends(backend, monkeypatch):
    monkeypatch.setattr("futad.ad.spine.grain.LEAST", 1)
    found = 0
    for seed in range(40, 52):
        sample = loops(seed)
        plain = ir.map_bodies(compile_program(sample.program, stop_after="views"), unfuse)
        if found < 3 and is_machine(flattened(plain).funs["main"].body):
            found += check_compiled_interrupts(backend, plain, "main", sample.args) > 1
    assert found == 3


# --- derivatives ----------------------------------------------------------------------------------------------------

BUDGET = Budget(checkpoints=3)


@pytest.fixture
def flattenings(monkeypatch):
    """A list to which every derivative under a budget adds whether its function was flattened."""
    found: list[bool] = []

    def noting(lam: ir.Lambda) -> ir.Lambda:
        out = flatten(lam)
        found.append(out is not lam)
        return out

    monkeypatch.setattr(futad.ad.expand, "flatten", noting)
    return found


def run_on(backend: str, program: ir.Program, name: str, args: Sequence[Any]) -> list[Any]:
    return compiled_for(backend, program).run(name, list(args))


def close(got: Sequence[Any], want: Sequence[Any], tolerance: float) -> None:
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(list(PROGRAMS)[1::6], PROGRAMS))
def test_derivatives(name, flattenings):
    plain = compile_text(function(name))
    budgeted = under(plain, BUDGET)
    compiled = compile_program(budgeted, check=True)
    assert flattenings == [True]
    reference = compile_program(plain)
    assert flattenings == [True]
    for n in PROGRAMS[name][1]:
        args = [np.int64(n), X, V]
        want = Interpreter(reference).run("gradient", list(args))
        close(Interpreter(compiled).run("gradient", list(args)), want, 1e-13)


ON_BACKENDS = ["sizes_inside", "updates", "while_in_for_in_while", "growing", "scalars"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", COMPILED)
@pytest.mark.parametrize("name", slow_but(["updates"], ON_BACKENDS))
def test_backends(name, backend):
    plain = compile_text(function(name))
    args = [np.int64(PROGRAMS[name][1][-1]), X, V]
    want = Interpreter(compile_program(plain)).run("gradient", list(args))
    close(run_on(backend, under(plain, BUDGET), "gradient", args), want, 1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds", slow_but([range(100, 106)], [range(at, at + 6) for at in range(100, 124, 6)]), ids=str
)
def test_derivatives_of_random_programs(seeds, flattenings):
    for seed in seeds:
        sample = loops(seed)
        values = Interpreter(sample.program).run("main", list(sample.args))
        rng = np.random.default_rng(seed)
        seeds_of = [rng.normal(size=np.shape(v)) if np.ndim(v) else np.float64(rng.normal()) for v in values]
        args = [*sample.args, *seeds_of]
        plain = derived_program(sample.program, "main", "vjp", [0, 1, 2])
        got = run_on("interp", under(plain, BUDGET), "main_vjp", args)
        want = run_on("interp", plain, "main_vjp", args)
        close(got, want, 1e-12)
    assert any(flattenings)


# --- what stays as it is --------------------------------------------------------------------------------------------

AS_THEY_ARE = {
    "no loop": "map (* l') x",
    "one loop": "loop x for i < l do map (* f64.i64 i) x",
    "a loop in a map": "map (\\p -> loop p for i < l do (loop p for j < i do f64.sin p)) x",
    "constant counts inside": "loop x for i < l do loop x for j < 100 do map (* f64.i64 j) x",
    "short ones": "loop x for i < 3 do loop x for j < 4 do map (* f64.i64 j) x",
    "one of two": "if l > 3 then (loop x for i < l do map f64.sin x) else (loop x for i < l + 1 do map f64.cos x)",
    "split by hand": "#[stripmine(1)] loop x for i < l do loop x for j < i do map f64.sin x",
    "bound by hand": "#[bound(9)] loop x while x[0] < 3 do loop x for j < l do map (+ 1) x",
    "of integers": "let k = loop k = 1i64 for i < l do (loop k for j < i do k * 3 + j) in map (* f64.i64 k) x",
}


@pytest.mark.parametrize("what", AS_THEY_ARE)
def test_nothing_to_flatten(what):
    text = f"entry f (l: i64) (x: [4]f64) : [4]f64 = let l' = f64.i64 l in {AS_THEY_ARE[what]}"
    p = compile_program(compile_text(text), stop_after="views")
    lam = unfuse(p.funs["f"].body)
    assert flatten(lam) is lam


@pytest.mark.slow
def test_no_budget_no_flattening(flattenings):
    plain = compile_text(function("three_deep"))
    for budget in (Budget(), Budget(checkpoints=3, nest=False)):
        compile_program(under(plain, budget))
    assert flattenings == []


# --- effects --------------------------------------------------------------------------------------------------------


def test_traces_and_failures_in_order(capfd):
    text = """
entry f (l: i64) (x: f64) : f64 =
  let x = loop x for i < l do
    let x = loop x for j < (i * 5) % 4 do
      let y = assert (x < 3) (trace (x * 1.1 + f64.i64 (i + j) * 0.1))
      in y
    in trace (x - 0.01)
  in loop x for i < l do trace (x * 0.9)
"""
    plain = compile_program(compile_text(text), stop_after="views")
    flat = flattened(plain)
    assert is_machine(flat.funs["f"].body)
    for n, x in ((6, 0.5), (6, 2.5), (0, 1.0), (1, 9.0)):
        said = []
        for p in (plain, flat):
            try:
                value: Any = Interpreter(p).run("f", [np.int64(n), np.float64(x)])
            except Error as e:
                value = str(e)
            said.append((value, capfd.readouterr().err))
        assert said[0] == said[1]


# --- memory ---------------------------------------------------------------------------------------------------------


def test_updates_stay_in_place():
    """A tick writes what it changes: no array of the state is copied."""
    text = """
entry f [n] (l: i64) (x: *[n]f64) : [n]f64 =
  let x = loop x for i < l do
    let x = loop x for j < i % n do x with [j] = f64.sin (x[(j + i) % n]) * 0.8
    in x with [i % n] = x[(i + 1) % n] * 1.1
  in loop x for i < 2 * l do x with [i % n] = x[(i + 3) % n] + 1
"""
    plain = compile_program(compile_text(text), stop_after="views")
    flat = flattened(plain)
    assert is_machine(flat.funs["f"].body)
    target = target_of("c")
    source = CBackend(compile_program(flat, target=target), target).source
    ticks = source[source.index("while (going") :]
    assert "[" in ticks and "copy(" not in ticks and "memcpy(" not in ticks


@pytest.mark.slow
def test_the_seeds_example():
    """The gradient of half the squared norm of what was rotated is x itself."""
    text = (BENCHMARK_PROGRAMS / "adaptive.fut").read_text()
    program = under(compile_text(text), Budget(checkpoints=10))
    x = np.random.default_rng(3).normal(size=9) / 3
    (got,) = run_on("interp", program, "gradient", [np.int64(9), np.int64(53), np.float64(3), x])
    assert np.abs(got - x).max() <= 1e-7 * np.abs(x).max()
