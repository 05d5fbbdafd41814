"""Inlining of calls, callees first, with a budget.

Small functions and functions called once are always inlined, larger ones while the copies stay within the
budget.  What a derivative is taken of has no calls left (a `Jvp` or `Vjp` lambda, and the functions it would
call), since AD works on bodies.  A function with the attribute `noinline` is left alone elsewhere, one that calls
itself, perhaps by way of others, everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from futad.core import ir
from futad.core.callgraph import components
from futad.core.calls import calls, reached
from futad.core.ir import Fun, Lambda, Program, Renamer, Stm
from futad.core.types import Atom
from futad.rewrite.strategy import with_lambdas

SMALL = 40  # statements: inlined wherever it is called
BUDGET = 4000  # statements that copies of larger functions may add to a program


def size(lam: Lambda) -> int:
    """Statements, nested scopes included."""
    return sum(1 for _ in ir.statements(lam.stms))


class _Inliner:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.done: dict[str, Fun] = {}
        self.sizes: dict[str, int] = {}
        self.calls: dict[str, Counter[str]] = {}
        self.uses: Counter[str] = Counter()
        self.budget = BUDGET
        self.recursive: set[str] = set()
        self.has_entries = any(f.entry is not None for f in program.funs.values())
        for name, f in program.funs.items():
            self.calls[name] = calls(f.body)
            self.uses.update(self.calls[name])

    def wanted(self, name: str, in_ad: bool) -> bool:
        if name in self.recursive:
            return False
        if in_ad:
            return True
        f = self.done[name]
        if ("noinline",) in f.attrs:
            return False
        if self.uses[name] <= 1 or self.sizes[name] <= SMALL:
            return True
        if self.sizes[name] <= self.budget:
            self.budget -= self.sizes[name]
            return True
        return False

    def goes(self, f: Fun) -> bool:
        """Whether a function is no part of the program once it is called nowhere."""
        return f.entry is None and self.has_entries and ("noinline",) not in f.attrs

    def fun(self, f: Fun) -> None:
        if self.calls[f.name]:
            body = self.lam(f.body, False)
            if body is not f.body:
                f = Fun(f.name, body, f.num_sizes, f.ret, f.entry, f.attrs, f.span)
        self.done[f.name] = f
        self.sizes[f.name] = size(f.body)

    def lam(self, lam: Lambda, in_ad: bool) -> Lambda:
        """The scope with its calls inlined; the same object if there are none."""
        out: list[Stm] = []
        changed = False
        for stm in lam.stms:
            if self.stm(stm, in_ad, out):
                changed = True
        return Lambda(lam.params, tuple(out), lam.result) if changed else lam

    def stm(self, stm: Stm, in_ad: bool, out: list[Stm]) -> bool:
        """Append what the statement becomes; whether it changed."""
        e = stm.exp
        if type(e) is ir.Call and self.wanted(e.name, in_ad):
            stms, results = self.copy(self.done[e.name], e.args, in_ad)
            out += stms
            out += [Stm((v,), ir.Alias(a)) for v, a in zip(stm.pat, results, strict=True)]
            return True
        lams = e.lambdas()
        if not lams:
            out.append(stm)
            return False
        inner = in_ad or isinstance(e, ir.Derivative | ir.Invert)
        new = [self.lam(lam, inner) for lam in lams]
        if all(a is b for a, b in zip(new, lams, strict=True)):
            out.append(stm)
            return False
        out.append(Stm(stm.pat, with_lambdas(e, new), stm.attrs))
        return True

    def copy(self, f: Fun, args: Iterable[Atom], in_ad: bool) -> tuple[list[Stm], ir.Atoms]:
        """The statements of a call, renamed unless they are nowhere else afterwards, and its results."""
        body = f.body
        if in_ad and calls(body):
            body = self.lam(body, True)
        if self.uses[f.name] == 1 and self.goes(f):
            return [*[Stm((p,), ir.Alias(a)) for p, a in zip(body.params, args, strict=True)], *body.stms], body.result
        r = Renamer(dict(zip(body.params, args, strict=True)))
        stms = r.stms(body.stms)
        return stms, tuple([r.atom(a) for a in body.result])


def reachable(program: Program) -> Program:
    """The program without functions that no entry calls (all stay if there is no entry)."""
    roots = [n for n, f in program.funs.items() if f.entry is not None]
    if not roots:
        return program
    kept = reached(program, roots)
    return program if len(kept) == len(program.funs) else Program({n: program.funs[n] for n in kept}, program.name)


def inline(program: Program) -> Program:
    """The program with calls inlined (callees first) and unreachable functions removed."""
    program = reachable(program)
    if not any(calls(f.body) for f in program.funs.values()):
        return program
    inliner = _Inliner(program)
    for group in components(program):
        if group.cyclic:
            inliner.recursive.update(group)
        for name in group:
            inliner.fun(program.funs[name])
    return reachable(Program(inliner.done, program.name))


__all__ = ["BUDGET", "SMALL", "inline", "reachable", "size"]
