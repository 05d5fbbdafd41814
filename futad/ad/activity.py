"""Which variables depend differentiably on the inputs: only those have tangents and adjoints.

`flow(exp, active)` says of each result whether it depends on an active operand in a position that has a
derivative (so not through an index, a size or a comparison).  Over-approximates; loops run to a fixed point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from futad.ad.registry import Flags as Flags
from futad.ad.registry import current
from futad.core import ir
from futad.core.scalarops import OPS
from futad.core.types import PRIMS, REC, AccType, Atom, Var, elem_of, prim_of
from futad.errors import InternalError
from futad.legality import Legality

LEGAL = Legality("activity", "what does not depend on the inputs in a way that has a derivative gets none", fires=False)
CONSTANT = LEGAL.condition("no derivative", "what the operation passes on is lost")
ALL_ITERATIONS = LEGAL.condition(
    "no more in later iterations", "a variable depends on the inputs by way of others, iterations later"
)
ALL_COMPONENTS = LEGAL.condition("no more in later folds", "a component depends on the inputs by way of others")

NO_DERIVATIVE = ("no-derivative",)  # an attribute of a statement, see `shifts.py`


def is_active(a: Atom, active: set[Var]) -> bool:
    return type(a) is Var and a in active


def propagate(stms: Iterable[ir.Stm], active: set[Var]) -> None:
    """Add to `active` what the statements bind."""
    for s in stms:
        if NO_DERIVATIVE in s.attrs:
            continue
        e = s.exp
        if isinstance(e, ir.Kept):
            flags = tuple([is_active(e.record, active) and has_tangent(v) for v in s.pat])
        else:
            flags = flow(e, active)
        active.update(v for v, f in zip(s.pat, flags, strict=True) if f)


def lambda_flow(lam: ir.Lambda, params: Sequence[bool], active: set[Var]) -> Flags:
    """Activity of the results when these parameters are active."""
    active.update(p for p, f in zip(lam.params, params, strict=True) if f)
    propagate(lam.stms, active)
    return tuple([is_active(a, active) for a in lam.result])


def loop_flow(exp: ir.Loop, active: set[Var]) -> Flags:
    """Activity of the loop variables: the fixed point over iterations."""
    flags = [is_active(a, active) for a in exp.inits]
    lead = [False] * (len(exp.body.params) - len(exp.inits))
    while True:
        out = lambda_flow(exp.body, lead + flags, active)
        merged = [f or g for f, g in zip(flags, out, strict=True)]
        if ALL_ITERATIONS(merged == flags):
            return tuple(flags)
        flags = merged


def operator_flow(lam: ir.Lambda, elems: Sequence[bool], active: set[Var]) -> Flags:
    """Activity of the results of a reduction or scan with an operator of 2k parameters."""
    flags = list(elems)
    while True:
        out = lambda_flow(lam, flags + list(elems), active)
        merged = [f or g for f, g in zip(flags, out, strict=True)]
        if ALL_COMPONENTS(merged == flags):
            return tuple(flags)
        flags = merged


def carries(e: ir.Op) -> bool:
    """Whether an operation that changes a value's type carries a derivative over as it carries the value.

    A float made from an integer or a bool has none: adjoints of these hold no fractions, so what they would pass on to
    what they were made of is not linear.  Integers made from floats carry theirs, as Futhark's tests have it, so that
    of `f64.i64 (i64.f64 x)` is 0, as that of any function that is constant but for steps.
    """
    if not e.op.startswith("to_"):
        return e.op.startswith(("bits_", "from_bits_"))
    source, target = prim_of(e.args[0]), PRIMS[e.op.removeprefix("to_")]
    return source is target or source.is_float == target.is_float or source.is_float and target.is_integral


def _op(e: ir.Op, active: set[Var]) -> Flags:
    # Comparisons and bit counts have no derivative.
    if CONSTANT(OPS[e.op].partials is None and not carries(e)):
        return (False,)
    return (any([a in active for a in e.args if type(a) is Var]),)


def _map(e: ir.Map, active: set[Var]) -> Flags:
    return lambda_flow(e.lam, [is_active(a, active) for a in e.arrays], active)


def _if(e: ir.If, active: set[Var]) -> Flags:
    t, f = lambda_flow(e.then, (), active), lambda_flow(e.orelse, (), active)
    return tuple([a or b for a, b in zip(t, f, strict=True)])


def _par(e: ir.Par, active: set[Var]) -> Flags:
    return lambda_flow(e.first, (), active) + lambda_flow(e.second, (), active)


def _fold(e: ir.Reduce | ir.Scan, active: set[Var]) -> Flags:
    return operator_flow(e.lam, [is_active(a, active) for a in e.arrays], active)


def _hist(e: ir.Hist, active: set[Var]) -> Flags:
    elems = [is_active(d, active) or is_active(v, active) for d, v in zip(e.dests, e.values, strict=True)]
    return operator_flow(e.lam, elems, active)


def _scatter(e: ir.Scatter, active: set[Var]) -> Flags:
    return tuple([is_active(d, active) or is_active(v, active) for d, v in zip(e.dests, e.values, strict=True)])


def _with_acc(e: ir.WithAcc, active: set[Var]) -> Flags:
    return lambda_flow(e.lam, [is_active(a, active) for a in e.arrays], active)


def _custom(e: ir.WithVjp | ir.WithJvp, active: set[Var]) -> Flags:
    # Forward mode sees free variables of the function, reverse mode any argument that the derivative takes.
    given = [is_active(a, active) for a in e.args]
    return tuple([f or any(given) for f in lambda_flow(e.lam, given, active)])


def _any(*fields: str) -> Callable[[Any, set[Var]], Flags]:
    def go(e: Any, active: set[Var]) -> Flags:
        atoms: list[Atom] = []
        for f in fields:
            value = getattr(e, f)
            atoms.extend(value if isinstance(value, tuple) else (value,))
        return (any(is_active(a, active) for a in atoms),)

    return go


def has_tangent(v: Atom) -> bool:
    """Whether a record of a value has the tangent of it, in a record of tangents: of floats, of their bits, and of
    records.  Who reads a record knows the types of what is in it and no more."""
    t = elem_of(v.type)
    return t.is_float or t is REC or t.kind == "uint" and t.bits >= 16


def _keep(e: ir.Keep, active: set[Var]) -> Flags:
    # Whatever depends on the inputs, as who reads it does not know.
    return (any(map(has_tangent, e.values)),)


FLOW: dict[type, Callable[[Any, set[Var]], Flags]] = {
    ir.Alias: _any("atom"),
    ir.Op: _op,
    ir.At: _any("array"),
    ir.Update: _any("array", "value"),
    ir.Iota: _any("start", "step"),
    ir.Replicate: _any("value"),
    ir.ArrayLit: _any("elems"),
    ir.Concat: _any("arrays"),
    ir.Reshape: _any("array"),
    ir.Rearrange: _any("array"),
    ir.ArgSort: lambda e, active: (False,),
    ir.MatMul: _any("a", "b", "plus"),
    ir.Contraction: _any("a", "b"),
    ir.Copy: _any("array"),
    ir.Scratch: lambda e, active: (False,),
    ir.Assert: lambda e, active: (),
    ir.Trace: lambda e, active: (),
    ir.Measure: lambda e, active: (),
    ir.If: _if,
    ir.Par: _par,
    ir.For: loop_flow,
    ir.While: loop_flow,
    ir.Map: _map,
    ir.Reduce: _fold,
    ir.Scan: _fold,
    ir.Hist: _hist,
    ir.Scatter: _scatter,
    ir.WithAcc: _with_acc,
    ir.WithVjp: _custom,
    ir.WithJvp: _custom,
    ir.WithInverse: lambda e, active: lambda_flow(e.lam, [is_active(a, active) for a in e.args], active),
    ir.UpdateAcc: _any("acc", "value"),
    ir.Part: lambda e, active: (is_active(e.acc, active),) * 2,
    ir.Whole: _any("part", "rest"),
    ir.Keep: _keep,
    ir.Call: lambda e, active: current().flow(e.name, current().marked(e, active)),
}


def flow(exp: ir.Exp, active: set[Var]) -> Flags:
    """Activity of each result of `exp`.  Raises InternalError for a node that is gone by now."""
    rule = FLOW.get(type(exp))
    if rule is None:
        raise InternalError(f"no activity rule for {type(exp).__name__}")
    return rule(exp, active)


def has_acc(atoms: Iterable[Any]) -> bool:
    return any(isinstance(a.type, AccType) for a in atoms)
