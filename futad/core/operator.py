"""Recognising operators: lambdas that combine two values by one scalar operation, element by element on arrays.

An operator of k components has 2k parameters, the left values and then the right ones, and k results.  The forms of one
and the same operator are all known here:

    \\x y -> x + y      \\x y -> y + x      \\x y -> let t = x + y in t      \\x y -> map2 (+) y x

The arguments of a commutative operation have either order; variables may be bound again and arrays copied on the way;
maps may lie around the operation, as deep as the values have dimensions.  A constant or a variable from outside is
never an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from futad.core import ir
from futad.core.scalarops import OPS
from futad.core.types import AccType, ArrayType, Atom, Const, Var, elem_of, row_type
from futad.legality import Legality

LEGAL = Legality(
    "row-operators", "an operator that is a map over rows is the map's operator on their elements", fires=False
)
BY_ELEMENTS = LEGAL.condition("operator by elements", "the operator looks at other elements of the rows")


@dataclass(frozen=True, slots=True)
class Operator:
    """One scalar operation of two arguments, elementwise on arrays of `rank` dimensions."""

    op: str
    rank: int = 0


@dataclass(frozen=True, slots=True)
class _Applied:
    """The value of an operation: its arguments are parameters, by number."""

    operator: Operator
    args: tuple[int, int]


SUM, VECTOR_SUM = Operator("add"), Operator("add", 1)


def is_unit(op: str, a: Atom) -> bool:
    """Whether an associative operation leaves values as they are that it combines with this one."""
    o = OPS[op]
    unit = o.unit or o.start
    return isinstance(a, Const) and o.associative and unit is not None and bool(unit(a.type) == a.value)


_Value = int | _Applied  # a parameter by its number, or an operation on two


def _values(lam: ir.Lambda, given: Mapping[Var, int]) -> list[_Value] | None:
    """The results of `lam`, of whose parameters `given` are those of the operator; None if anything else is computed,
    or anything that no result needs (it might fail)."""
    known: dict[Atom, _Value] = {p: i for p, i in given.items()}  # noqa: C416  (a wider type)
    unused: set[Var] = set()
    for s in lam.stms:
        made = _of_exp(s.exp, known)
        if made is None:
            return None
        unused.difference_update(a for a in s.exp.operands() if isinstance(a, Var))
        unused.update(s.pat)
        known.update(zip(s.pat, made, strict=True))
    out = [known[a] for a in lam.result if a in known]
    return out if len(out) == len(lam.result) and unused <= set(lam.result) else None


def _of_exp(e: ir.Exp, known: Mapping[Atom, _Value]) -> list[_Value] | None:
    """The values that an expression has; None if it is neither an operation on parameters nor a copy."""
    match e:
        case ir.Alias(a) | ir.Copy(a) if a in known:
            return [known[a]]
        case ir.Op(op, (a, b)):
            x, y = known.get(a), known.get(b)
            return [_Applied(Operator(op), (x, y))] if isinstance(x, int) and isinstance(y, int) else None
        case ir.Map(_, arrays, lam):
            given: dict[Var, int] = {}
            for a, p in zip(arrays, lam.params, strict=True):
                x = known.get(a)
                if not isinstance(x, int) or isinstance(p.type, AccType):
                    return None
                given[p] = x
            made = _values(lam, given)
            if made is None:
                return None
            return [_Applied(Operator(v.operator.op, v.operator.rank + 1), v.args) if isinstance(v, _Applied) else v
                    for v in made]  # fmt: skip
    return None


def operators_of(lam: ir.Lambda) -> tuple[Operator, ...] | None:
    """The operation of each component of an operator; None if one is not a single operation on its own two values.

    The left value is the first argument, or either if the operation commutes.
    """
    k = len(lam.result)
    values = _values(lam, {p: i for i, p in enumerate(lam.params)}) if len(lam.params) == 2 * k else None
    out: list[Operator] = []
    for i, v in enumerate(values or ()):
        if not isinstance(v, _Applied):
            return None
        in_order, swapped = v.args == (i, k + i), v.args == (k + i, i)
        if not in_order and not (swapped and OPS[v.operator.op].commutative):
            return None
        out.append(v.operator)
    return None if values is None else tuple(out)


def operator_of(lam: ir.Lambda) -> Operator | None:
    """The operation of an operator of one component."""
    found = operators_of(lam)
    return found[0] if found is not None and len(found) == 1 else None


def scalar_op(lam: ir.Lambda) -> str | None:
    """The name of the operation on two scalars that `lam` is."""
    found = operator_of(lam)
    return found.op if found is not None and found.rank == 0 else None


def commutes(lam: ir.Lambda) -> bool:
    """Whether each component of an operator is one commutative operation on its two values."""
    found = operators_of(lam)
    return found is not None and all(OPS[o.op].commutative for o in found)


@dataclass(frozen=True, slots=True)
class RowOperator:
    """An operator on rows: the width of the rows, and the operator on their elements, its parameters in order."""

    width: Atom
    lam: ir.Lambda


def row_operator(lam: ir.Lambda) -> RowOperator | None:
    """The operator whose map over its parameters, in any order, `lam` is; None for any other lambda."""
    if len(lam.stms) != 1 or not all(isinstance(p.type, ArrayType) for p in lam.params):
        return None
    (stm,) = lam.stms
    m = stm.exp
    if not isinstance(m, ir.Map) or lam.result != stm.pat or len(set(m.arrays)) != len(m.arrays):
        return None
    if not set(m.arrays) <= set(lam.params) or not BY_ELEMENTS(not set(lam.params) & m.lam.free().keys()):
        return None
    own = dict(zip(m.arrays, m.lam.params, strict=True))
    params = tuple([own.get(p) or Var(p.name, row_type(p.type)) for p in lam.params])
    return RowOperator(m.width, ir.Lambda(params, m.lam.stms, m.lam.result))


def divisor(e: ir.Op) -> Atom | None:
    """The argument for which an operation fails if it is zero: the divisor of integers; None if it cannot fail."""
    last = e.args[-1]
    return last if OPS[e.op].can_fail and elem_of(last.type).is_integral else None


def may_fail(e: ir.Op) -> bool:
    """Whether an operation fails for some values of its arguments: it divides by what may be zero."""
    d = divisor(e)
    return d is not None and not (isinstance(d, Const) and d.value != 0)


__all__ = [
    "SUM", "VECTOR_SUM", "Operator", "RowOperator",
    "commutes", "divisor", "may_fail", "operator_of", "operators_of", "row_operator", "scalar_op",
]  # fmt: skip
