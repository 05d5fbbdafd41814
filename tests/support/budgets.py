"""Programs whose derivatives have a budget, and functions of which the spine is flattened."""

from __future__ import annotations

import functools
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
