"""`futad dev --ops`: the table of scalar operations, as their records say it."""

from __future__ import annotations

from futad.core.builder import Builder, Ex
from futad.core.scalarops import ALL, FLOATS, INTS, NUMS, OPS, ScalarOp
from futad.core.types import BOOL, F64, Prim, Var
from futad.draw import names as drawn

_HEAD = ("operation", "signature", "types", "in the source", "C", "derivatives")
_GROUPS = {ALL: "all", NUMS: "numbers", INTS: "integers", FLOATS: "floats", (*INTS, BOOL): "integers, bool"}


def table() -> str:
    """One line an operation.

    C is at f64 where the operation has it, else at bool, of arguments x, y and z; so are the derivatives, by each
    argument in turn, where r is the result: '-' where there are none.
    """
    rows = [_HEAD, *[_row(op) for op in OPS.values()]]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD) - 1)]
    lines = ["  ".join([*[x.ljust(n) for x, n in zip(row, widths, strict=False)], row[-1]]) for row in rows]
    return "\n".join(lines) + "\n"


def _row(op: ScalarOp) -> tuple[str, ...]:
    t = next((p for p in (F64, BOOL) if p in op.types), op.types[0])
    types = _GROUPS.get(op.types) or ", ".join(p.name for p in op.types)
    names = list(dict.fromkeys(name for p in op.types for name, _ in op.names(p)))
    derivatives = "; ".join(derivative(op, i, t) for i in range(op.arity)) if op.partials else "-"
    return op.name, op.sig, types, " ".join(names), _c(op, t), derivatives


def _c(op: ScalarOp, t: Prim) -> str:
    result = op.result_type(op.arg_types(t)).name
    return op.c_template(t).format(*"xyz"[: op.arity], t=t.name, T=t.name, r=result, u=t.name.replace("i", "u"))


def derivative(op: ScalarOp, i: int, t: Prim) -> str:
    """The partial derivative by argument `i` as a formula."""
    assert op.partials is not None
    b = Builder()
    args = [Ex(b, Var(x, p)) for x, p in zip("xyz", op.arg_types(t), strict=False)]
    value = op.partials[i](*args, Ex(b, Var("r", op.result_type(op.arg_types(t)))))
    if not isinstance(value, Ex):
        return f"{value:g}" if isinstance(value, float) else str(value)
    made = {s.pat[0]: s.exp for s in b.stms}
    names = drawn.Names()
    return names.formula(made[value.atom], made) if value.atom in made else names.data(value.atom)


__all__ = ["derivative", "table"]
