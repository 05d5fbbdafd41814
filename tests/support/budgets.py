"""Programs whose derivatives have a budget, and functions of which the spine is flattened."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from futad.ad.spine.machine import flatten
from futad.ad.tidy.unfuse import unfuse
from futad.core import ir
from futad.core.budget import Budget
from futad.core.interp import Interpreter
from futad.core.measures import Measured
from futad.pipeline import compile_program
from futad.source import compile_text


class _Under(ir.Renamer):
    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self.attribute = budget.attribute()

    def stm(self, stm: ir.Stm) -> ir.Stm:
        s = super().stm(stm)
        return ir.Stm(s.pat, s.exp, (*s.attrs, self.attribute)) if isinstance(s.exp, ir.Vjp) else s


def under(program: ir.Program, budget: Budget) -> ir.Program:
    """The program, each of its reverse derivatives under the budget."""
    funs = {}
    for name, f in program.funs.items():
        r = _Under(budget)
        body = r.lam(f.body)
        ret = tuple([r.bind(v) for v in f.ret])
        funs[name] = ir.Fun(f.name, body, f.num_sizes, ret, f.entry, f.attrs, f.span)
    return ir.Program(funs, program.name)


def flattened(program: ir.Program) -> ir.Program:
    """The program with the spine of each function flattened."""
    return ir.map_bodies(program, lambda lam: flatten(unfuse(lam)))


def gradient_text(e: str) -> str:
    """An entry `main k x`, the gradient of the expression by x."""
    return f"entry main [n] (k: i64) (x: [n]f64): [n]f64 = vjp (\\x -> {e}) x 1"


@functools.cache
def gradient_of(e: str) -> ir.Program:
    return compile_text(gradient_text(e))


@functools.cache
def compiled_gradient_of(e: str) -> ir.Program:
    return compile_program(gradient_of(e), check=True)


def run_measured(program: ir.Program, k: int, x: np.ndarray) -> tuple[Any, list[Measured]]:
    """What `main` gives, and what its loops told."""
    machine = Interpreter(program)
    (got,) = machine.run("main", [len(x), k, x])
    return got, machine.measured()


# Derivatives of derivatives by x of `{e}`, an expression of x and k; "rows": the gradient along several directions.
HIGHER = {
    "jvp of vjp": "jvp (\\x -> vjp (\\x -> {e}) x 1) x (map f64.cos x)",
    "vjp of vjp": "vjp (\\x -> vjp (\\x -> {e}) x 1) x (map f64.cos x)",
    "vjp of jvp": "vjp (\\x -> jvp (\\x -> {e}) x (map f64.sin x)) x 1",
    "rows": "map (\\d -> vjp (\\x -> map (* {e}) x) x d) (tabulate_2d n n (\\i j -> f64.bool (i == j)))"
    " |> map f64.sum",
}


@functools.cache
def _higher(name: str, e: str) -> tuple[ir.Program, ir.Program]:
    source = compile_text(f"entry main [n] (k: i64) (x: [n]f64): [n]f64 = {HIGHER[name].format(e=e)}")
    return source, compile_program(source)


def check_higher(
    name: str, e: str, budget: Budget, lengths: Iterable[int], x: np.ndarray, atol: float
) -> list[list[Measured]]:
    """Under the budget the derivative `HIGHER[name]` of `e` is the one without; what the run of each length told."""
    source, free = _higher(name, e)
    bounded = compile_program(under(source, budget), check=True)
    told = []
    for k in lengths:
        want, _ = run_measured(free, k, x)
        got, found = run_measured(bounded, k, x)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=atol)
        told.append(found)
    return told
