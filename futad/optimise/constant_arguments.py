"""Arguments of recursive functions that are the same constant in all calls, as sizes of parameters often are.

    f n x = ... f n (g x) ...      f 10 y      -->      f n x = ... f n (g x) ...   with 10 for n in it
"""

from __future__ import annotations

from collections.abc import Iterator

from futad.core import ir
from futad.core.callgraph import recursive
from futad.core.ir import Fun, Program
from futad.core.types import Atom, Const, Var
from futad.legality import Legality

LEGAL = Legality(
    "constant-arguments",
    "what is the same constant in all calls of a recursive function is one in its body",
    worth="the gradient of a tree LSTM 4.9 to 3.9 ms (4 states), 6.2 to 4.8 (64): "
    "`benchmarks/recursion.py --only lstm`, FUTAD_MUTANT=constant-arguments",
)
ALWAYS = LEGAL.condition("one constant", "other calls have other values")
INSIDE = LEGAL.condition("no entry", "it is called from outside of the program with any values")


def constant_arguments(program: Program) -> Program:
    """The program with such parameters replaced in bodies and types; the same one if there are none."""
    names = [n for n in recursive(program) if INSIDE(program.funs[n].entry is None)]
    if not names:
        return program
    given: dict[Var, list[Atom]] = {p: [] for n in names for p in program.funs[n].body.params}
    for e in _calls(program):
        if e.name in names:
            for p, a in zip(program.funs[e.name].body.params, e.args, strict=True):
                given[p].append(a)
    constants = _constants(given)
    if not constants:
        return program
    LEGAL.fired()
    return Program({n: _with(f, constants) if n in names else f for n, f in program.funs.items()}, program.name)


def _calls(program: Program) -> Iterator[ir.Call]:
    for f in program.funs.values():
        for s in ir.statements(f.body.stms):
            if isinstance(s.exp, ir.Call):
                yield s.exp


def _constants(given: dict[Var, list[Atom]]) -> dict[Var, Atom]:
    """The parameters that are a constant, of those that these atoms are passed as; parameters of such functions that
    are passed on are what they are themselves."""
    known: dict[Var, Const] = {}
    unknown = {p for p, atoms in given.items() if any(not isinstance(a, Const) and a not in given for a in atoms)}
    changed = True
    while changed:
        changed = False
        for p, atoms in given.items():
            if p in unknown:
                continue
            values = dict.fromkeys([known.get(a, a) if isinstance(a, Var) else a for a in atoms])
            found = [v for v in values if isinstance(v, Const)]
            if not ALWAYS(len(found) <= 1 and not any(a in unknown for a in atoms)):
                unknown.add(p)
                known.pop(p, None)
                changed = True
            elif found and p not in known:
                known[p] = found[0]
                changed = True
    return {p: c for p, c in known.items() if p not in unknown}


def _with(f: Fun, constants: dict[Var, Atom]) -> Fun:
    mine: dict[Var, Atom] = {p: constants[p] for p in f.body.params if p in constants}
    if not mine:
        return f
    r = ir.Renamer(mine)
    params = []
    for p in f.body.params:
        params.append(r.bind(p))
        r.mapping.update({p: mine[p]} if p in mine else {})
    stms = tuple(r.stms(f.body.stms))
    body = ir.Lambda(tuple(params), stms, tuple([r.atom(a) for a in f.body.result]))
    return Fun(f.name, body, f.num_sizes, tuple([r.bind(v) for v in f.ret]), None, f.attrs, f.span)


__all__ = ["constant_arguments"]
