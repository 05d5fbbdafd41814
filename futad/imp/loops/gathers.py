"""Reads of single elements that are narrower than their places, for loops whose iterations run in vector lanes.

    for i: y[i] = f(x[k(i)])
  becomes
    for i: at[i] = k(i)
    for i: read[i] = x[at[i]]
    for i: y[i] = f(read[i])

GCC that makes a gather of reads one by one (see `compile_flags`) wants as many places in a vector as elements.  Places
have 64 bits: it has no vectors of a loop that gathers elements of 32, and so does none of its work in lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from futad.core.types import I64
from futad.fires import Transformation
from futad.imp import ir
from futad.imp.ir import Expr, Load, Num, Ref, Stmt
from futad.imp.loops.facts import LoopFacts
from futad.imp.walk import loads_in, needed, refs, statements, used

BEFORE = Transformation(
    "gathers-before-lanes",
    "elements of 32 bits are gathered, one by one, before the lanes of a block that use them",
    worth="20,000 walks over 50 numbers, `tests/programs/narrow_tables.fut:walked`, without and with the call of"
    " `before_lanes` 4.2 to 2.6 ms; the gradient of `benchmarks/textbook/barrier.fut` with f32 for f64 12.4 to 4.8 ms",
)


def gathered(loop: ir.For) -> dict[Stmt, Load]:
    """The declarations that read single elements of 32 bits, of memory that the loop does not write, at places that it
    computes by what it has not changed before."""
    if not any(isinstance(s, ir.Decl) and isinstance(s.init, Load) and s.type.bits == 32 for s in loop.body):
        return {}
    facts = LoopFacts(loop.var, loop.body)
    stored = {p for s in statements(loop.body) for p in s.writes()}
    before: set[str] = set()  # what has changed, scalars and memory
    found: dict[Stmt, Load] = {}
    for s in loop.body:
        match s:
            case ir.Decl(_, t, Load(pointer, index) as load, mutable=False) if t.bits == 32 and pointer not in stored:
                of = [s, *needed(loop.body, [s])]
                names = {n for d in of for n in (*refs(d), *(x.pointer for x in loads_in(d)))}
                if not _strides(facts, index) and not names & before:
                    found[s] = load
        for x in statements([s]):
            before |= {*x.assigns(), *x.writes()}
    return found


def _strides(facts: LoopFacts, e: Expr) -> bool:
    """Whether an index moves by the same number in each iteration, known or not: vectors have such reads."""
    match e:
        case Ref(name) if (init := facts.inits.get(name)) is not None:
            return _strides(facts, init)
        case ir.Bin("+", a, b) | ir.Scalar("add" | "sub", (a, b)):
            return _strides(facts, a) and _strides(facts, b)
        case ir.Bin("*", a, b) | ir.Scalar("mul", (a, b)):
            one_fixed = facts.invariant(a) or facts.invariant(b)
            return one_fixed and _strides(facts, a) and _strides(facts, b)
    return isinstance(e, Ref) and e.name == facts.var or facts.invariant(e)


def before_lanes(loop: ir.For, name: Callable[[str], str]) -> list[Stmt]:
    """The loop over a known number of lanes, from 0 on, after one that finds places of what it gathers, and one that
    reads that."""
    every = gathered(loop)
    found = {s: load for s, load in every.items() if not every.keys() & set(needed(loop.body, [s]))}
    if not found or not loop.independent:
        return [loop]
    BEFORE.fired()
    assert isinstance(loop.bound, Num)
    lane, most = Ref(loop.var, I64), loop.bound.value
    stacks: list[Stmt] = []
    places: list[Stmt] = []
    reads: list[Stmt] = []
    values: dict[Stmt, Expr] = {}
    for s, load in found.items():
        at, read = name("at"), name("read")
        stacks += [ir.Stack(at, I64, most), ir.Stack(read, load.type, most)]
        places.append(ir.Store(at, lane, load.index))
        reads.append(ir.Store(read, lane, replace(load, index=Load(at, lane, I64))))
        values[s] = Load(read, lane, load.type)
    lanes = [replace(s, init=values[s]) if isinstance(s, ir.Decl) and s in values else s for s in loop.body]
    finding = [*needed(loop.body, places), *places]
    return [
        *stacks,
        replace(loop, body=finding, partials=[]),
        replace(loop, body=reads, independent=False, partials=[], lanes=0),
        replace(loop, body=used(lanes)),
    ]


__all__ = ["before_lanes", "gathered"]
