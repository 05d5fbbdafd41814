"""Sizes of results that follow from the sizes and numbers among the arguments, such as `n + 1` and `2 * n`.

Core functions return such a size beside the array, as they do one that only running finds (that of `filter`).  Here
they are told apart: what an entry's own statements compute of its parameters, by operations on integers alone, is a
formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from futad.core import ir
from futad.core.calls import reached
from futad.core.types import I64, Const, Var

# A number, the parameter of a place, or an operation of formulas.
Formula = int | tuple[str, tuple[Any, ...]]
PARAM = "param"
_OPS: Mapping[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "neg": lambda x: -x,
    "div": lambda x, y: x // y, "max": lambda x, y: max(x, y), "min": lambda x, y: min(x, y),
}  # fmt: skip
OPERATIONS = frozenset(_OPS)
# The most operations that are looked at: a formula that shares parts is written out.
MOST = 64


def size_formulas(program: ir.Program, name: str) -> dict[int, Formula]:
    """By their place among the core results of a function, the sizes that are formulas of its parameters."""
    from futad.optimise.inline import inline
    from futad.rewrite.simplify import simplify

    plain = simplify(inline(ir.Program({n: program.funs[n] for n in reached(program, [name])}, program.name)))
    body = plain.funs[name].body
    params = {p: i for i, p in enumerate(body.params)}
    made = _definitions(body.stms)

    def formula(x: Any, left: int) -> Formula | None:
        if isinstance(x, Const):
            return int(x.value)
        if x in params:
            return PARAM, (params[x],)
        e = made.get(x)
        if isinstance(e, Var | Const):
            return formula(e, left - 1)
        if e is None or e.op not in _OPS or left <= 0:
            return None
        if e.op == "div" and not (isinstance(e.args[1], Const) and e.args[1].value):
            return None
        parts = [formula(a, left // len(e.args)) for a in e.args]
        return None if any(p is None for p in parts) else (e.op, tuple(parts))

    found = {i: formula(x, MOST) for i, x in enumerate(body.result) if isinstance(x, Const | Var) and x.type is I64}
    return {i: f for i, f in found.items() if f is not None}


def _definitions(stms: Iterable[ir.Stm]) -> dict[Var, Any]:
    """What is computed by an operation on numbers, and what is another atom: results of derivatives are first those of
    the function that is differentiated."""
    made: dict[Var, Any] = {}
    for s in stms:
        e = s.exp
        if isinstance(e, ir.Op) and len(s.pat) == 1:
            made[s.pat[0]] = e
        elif isinstance(e, ir.Jvp | ir.Vjp | ir.WithVjp):
            made |= _definitions(e.lam.stms)
            made |= zip(e.lam.params, e.args, strict=True)
            made |= zip(s.pat, e.lam.result, strict=False)
    return made


def params_of(f: Formula) -> set[int]:
    """The places of the parameters that a formula is about."""
    if isinstance(f, int):
        return set()
    op, parts = f
    return {parts[0]} if op == PARAM else {i for p in parts for i in params_of(p)}


def is_size(f: Formula, sizes: int) -> bool:
    """Whether a formula cannot be negative, the first `sizes` parameters being none."""
    if isinstance(f, int):
        return f >= 0
    op, parts = f
    if op == PARAM:
        return bool(parts[0] < sizes)
    return op in ("add", "mul", "max", "min") and all(is_size(p, sizes) for p in parts)


def evaluated(
    f: Formula, known: Callable[[int], Any], number: Callable[[int], Any] = int,
    ops: Mapping[str, Callable[..., Any]] = _OPS,
) -> Any:  # fmt: skip
    """The value of a formula, `known` giving parameters; `number` and `ops`: numbers and operations, for values of
    another kind than Python's."""
    if isinstance(f, int):
        return number(f)
    op, parts = f
    return known(parts[0]) if op == PARAM else ops[op](*[evaluated(p, known, number, ops) for p in parts])


__all__ = ["OPERATIONS", "Formula", "evaluated", "is_size", "params_of", "size_formulas"]
