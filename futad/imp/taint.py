"""Which variables may share memory with something that is consumed.

A loop variable whose memory some `Update` in the body may overwrite must own a buffer; any other can read its
initial value where it lies.  One conservative pass a program: every expression that may return an operand's
memory is an edge, and being consumed travels backwards along the edges.
"""

from __future__ import annotations

from collections.abc import Iterable

from futad.core import ir
from futad.core.types import Atom, Const, Prim, Var


def consumed_vars(program: ir.Program) -> set[Var]:
    """The variables that may be, or alias, an array which an update overwrites."""
    sources: dict[Var, list[Var]] = {}
    work: list[Var] = []

    def edge(result: Atom, source: Atom) -> None:
        if not isinstance(result, Const) and not isinstance(source, Const) and not isinstance(result.type, Prim):
            sources.setdefault(result, []).append(source)

    def edges(results: Iterable[Atom], origins: Iterable[Atom]) -> None:
        for r, o in zip(results, origins, strict=False):
            edge(r, o)

    def consume(atoms: Iterable[Atom]) -> None:
        work.extend(a for a in atoms if isinstance(a, Var))

    def walk(lam: ir.Lambda) -> None:
        for stm in lam.stms:
            visit(stm)
            for inner in stm.exp.lambdas():
                walk(inner)

    def visit(stm: ir.Stm) -> None:
        e, pat = stm.exp, stm.pat
        match e:
            case ir.Alias(a) | ir.At(a) | ir.Reshape(a) | ir.Rearrange(a) | ir.Copy(a):
                edge(pat[0], a)
            case ir.Assert(of=of):
                edges(pat, of)
            case ir.Replicate(_, value):
                edge(pat[0], value)
            case ir.Update(a):
                edge(pat[0], a)
                consume((a,))
            case ir.MatMul(plus=(a,)):  # the sum is taken in the array's place where that is free
                edge(pat[0], a)
                consume((a,))
            case ir.Scatter() | ir.Hist():
                edges(pat, e.dests)
                consume(e.dests)
            case ir.WithAcc(arrays, _, lam):
                edges(pat, arrays)
                edges(pat[len(arrays) :], lam.result[len(arrays) :])
                consume(arrays)
            case ir.If(_, then, orelse):
                edges(pat, then.result)
                edges(pat, orelse.result)
            case ir.For() | ir.While():
                params = e.body.params[1:] if isinstance(e, ir.For) else e.body.params
                edges(params, e.inits)
                edges(params, e.body.result)
                edges(pat, params)
            case ir.Call(name, args):
                body = program.funs[name].body
                edges(body.params, args)
                edges(pat, body.result)
            case ir.Map() | ir.Fused():
                edges(e.lam.params, e.arrays)
                if isinstance(e, ir.Fused):
                    neutrals = (*e.scan_neutrals, *e.red_neutrals)
                    for lam, neutral in zip((*e.scan_lams, *e.red_lams), neutrals, strict=True):
                        fold(lam, neutral, e.lam.result)
            case ir.Reduce() | ir.Scan():
                fold(e.lam, e.neutral, e.arrays)
        if isinstance(e, ir.Hist):
            fold(e.lam, e.dests, e.values)

    def fold(lam: ir.Lambda, start: ir.Atoms, values: ir.Atoms) -> None:
        k = len(start)
        edges(lam.params, start)
        edges(lam.params, lam.result)
        for p in lam.params[k:]:
            for v in values:
                edge(p, v)

    for fun in program.funs.values():
        walk(fun.body)
    seen: set[Var] = set()
    while work:
        v = work.pop()
        if v not in seen:
            seen.add(v)
            work.extend(sources.get(v, ()))
    return seen
