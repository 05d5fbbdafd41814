"""Assertions and traces in every scope, of operators too: statements that bind nothing, in front of all passes.

Each scope of a program with a scalar parameter gets a check of it that holds, or a trace.  What is found out about
scopes (which operators choose, commute, are sums, ..) must not take for granted that statements bind something.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.backend.cuda import DeviceBackend
from futad.core import ir
from futad.core.interp import Interpreter
from futad.core.types import BOOL, Const, Prim, Var, shape_of
from futad.pipeline import compile_program
from futad.source import compile_text, load_program
from futad.target import TARGETS, Target

# Constructs whose scopes get checks; floats are compared in each entry, also with what was chosen from them.
CONSTRUCTS = {
    "reduce": "reduce (\\a b -> a + b) 0 xs",
    "extremum": "reduce (\\a b -> f64.max a b) (-1e3) xs",
    "pairs": "(reduce (\\(a, i) (b, j) -> if a < b then (b, j) else (a, i)) (-1e3, -1) (zip xs (iota n))).0",
    "integers": "f64.i64 (reduce (\\i j -> i64.max i j) 0 (map (\\x -> i64.f64 (x * 4)) xs))",
    "bools": "f64.bool (reduce (\\p q -> p || q) false (map (\\x -> x < 0.5) xs))",
    "scan": "(scan (\\a b -> f64.min a b) 1e3 xs)[n - 1]",
    "rows": "f64.maximum (map (\\x -> reduce (\\a b -> a + b) x (map (* x) xs)) xs)",
    "bins": "f64.sum (reduce_by_index (replicate 3 0f64) (\\a b -> f64.max a b) 0 (map (\\i -> i % 3) (iota n)) xs)",
    "for": "loop s = 0.5 for x in xs do if s < x then x else s",
    "for with an array": "(loop ys = copy xs for i < n - 1 do ys with [i + 1] = f64.min ys[i] xs[i + 1])[n - 1]",
    "while": "(loop (s, i) = (0.5, 0) while i < n && s < 1.5 do (s + xs[i] * xs[i], i + 1)).0",
    "branches": "if xs[0] < xs[1] then f64.sum (map (\\x -> x * x) xs) else xs[2]",
    "filter": "f64.sum (filter (\\x -> x > 0.5) xs)",
    "products": "f64.sum (map (\\x -> f64.sum (map2 (\\a b -> a * b + x) xs (map (\\y -> y + x) xs))) xs)",
    "matrices": "let m = map (\\x -> map (\\y -> f64.sum (map2 (*) xs (map (* x * y) xs))) xs) xs in m[1, 2]",
    "scatter": "f64.sum (scatter (copy xs) (map (\\i -> n - 1 - i) (iota n)) (map (\\x -> x + 1) xs))",
    "stencil": "f64.sum (tabulate n (\\i -> if i == 0 then xs[0] else xs[i] - xs[i - 1]))",
}
ENTRIES = {
    "value": "entry {name} [n] (xs: [n]f64) = {name}_ xs",
    "reverse": "entry {name}_bar [n] (xs: [n]f64) = vjp {name}_ xs (replicate n 1)",
    "forward": "entry {name}_tan [n] (xs: [n]f64) = jvp {name}_ xs xs",
}
X = np.array([0.25, 1.25, 0.75, 0.5, 1.5])


FOLDS = ("reduce", "extremum", "scan", "bins", "for", "branches")  # of these the quick tests are
KINDS = ("check", "assert", "trace")


def source(names: Iterable[str]) -> str:
    lines = []
    for k, text in [(k, text) for k, (name, text) in enumerate(CONSTRUCTS.items()) if name in names]:
        lines.append(
            f"def e{k}_ [n] (xs: [n]f64): [n]f64 =\n  let s = {text} in map (\\x -> if x < s then x * s else s) xs"
        )
        lines += [mode.format(name=f"e{k}") for mode in ENTRIES.values()]
    return "\n".join(lines)


def checked(lam: ir.Lambda, kind: str, inner: bool = False) -> ir.Lambda:
    """With a statement about a parameter in front of each scope inside: a check that binds nothing, one that binds the
    parameter again (the language's `assert`), or a trace."""
    stms = tuple([ir.map_scopes(s, lambda scope: checked(scope, kind, True)) for s in lam.stms])
    sizes = {d for p in lam.params for d in shape_of(p.type)}
    numbers = [p for p in lam.params if isinstance(p.type, Prim) and p.type is not BOOL and p not in sizes]
    if not inner or not numbers:
        return ir.Lambda(lam.params, stms, lam.result)
    x, holds = numbers[-1], Var("holds", BOOL)
    if kind == "trace":
        return ir.Lambda(lam.params, (ir.Stm((), ir.Trace(x, "x")), *stms), lam.result)
    test = ir.Stm((holds,), ir.Op("le", (x, Const(x.type, 10000.0 if x.type.is_float else 100))))
    same = Var(x.name, x.type)
    pat, of = ((same,), (x,)) if kind == "assert" else ((), ())
    copy = ir.Renamer({x: same} if kind == "assert" else {})
    check = ir.Stm(pat, ir.Assert(holds, "{} is too large", (x,), None, of))
    return ir.Lambda(lam.params, (test, check, *copy.stms(stms)), tuple([copy.atom(a) for a in lam.result]))


def lowered(program: ir.Program, target: Target) -> str:
    """The text for a target, the IR checked after each pass."""
    core = compile_program(program, target=target, check=True)
    if target.code == "c":
        return CBackend(core, target).source
    return DeviceBackend(core, frozenset(), target).source if target.code == "cuda" else ""


@pytest.mark.parametrize(("target", "kind"), [("c", "assert"), ("c", "trace"), ("cuda", "check")])
def test_checks_in_operators_pass_all_passes(target: str, kind: str) -> None:
    program = ir.map_bodies(compile_text(source(FOLDS)), lambda body: checked(body, kind))
    assert lowered(program, TARGETS[target])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["c", "multicore", "cuda"])
def test_checks_in_every_scope_pass_all_passes(target: str, kind: str) -> None:
    program = ir.map_bodies(compile_text(source(CONSTRUCTS)), lambda body: checked(body, kind))
    assert lowered(program, TARGETS[target])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_derivatives_are_the_same(kind: str) -> None:
    plain = compile_text(source(CONSTRUCTS))
    guarded = ir.map_bodies(compile_text(source(CONSTRUCTS)), lambda body: checked(body, kind))
    runs = [Interpreter(compile_program(p, check=True)) for p in (plain, guarded)]
    for k, name in enumerate(CONSTRUCTS):
        for suffix in ("", "_bar", "_tan"):
            wanted, made = [run.run(f"e{k}{suffix}", [np.int64(len(X)), X.copy()]) for run in runs]
            np.testing.assert_array_equal(made[0], wanted[0], err_msg=name + suffix)


def test_the_message_is_the_programs() -> None:
    text = r"""
    entry main (xs: []f64) =
      let s = reduce (\x y -> assert (x >= 0) (x + y)) 0 xs in map (\x -> if x < s then x else s) xs
    """
    for backend in ("interp", "c"):
        main = futad.compile(text, "sums.fut", backend=backend).main
        np.testing.assert_array_equal(main(X), X)
        with pytest.raises(futad.errors.AssertionFailed, match="sums.fut:3"):
            main(np.array([-1.0, 2.0]))


FILES = sorted((Path(__file__).parents[1] / "programs").glob("*.fut"))


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES[::4], ids=lambda p: p.stem)
def test_checks_in_every_scope_of_programs(path: Path) -> None:
    for target in ("c", "cuda"):
        for kind in KINDS:
            program = ir.map_bodies(load_program(str(path)), lambda body, k=kind: checked(body, k))
            compile_program(program, target=TARGETS[target], check=True)
