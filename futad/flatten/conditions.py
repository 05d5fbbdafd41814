"""What the host computes to pick a version (`core/grid.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce

from futad.core.grid import Sum, comparisons
from futad.core.types import I64
from futad.imp import ir
from futad.imp.ir import Expr, Ref, compare, num


def condition(when: str, quantities: Mapping[str, Sequence[Expr]]) -> Expr:
    """A condition of a version; each quantity is a sum of these, other names are thresholds of the machine."""

    def total(terms: Sum) -> Expr:
        out: Expr = ir.ZERO
        for factors in terms:
            for x in quantities.get(factors[0], [_scalar(factors[0])]) if len(factors) == 1 else [product(factors)]:
                out = ir.add(out, x)
        return out

    def product(factors: list[str]) -> Expr:
        return ir.product([quantities[f][0] if f in quantities else _scalar(f) for f in factors])

    each = [
        reduce(partial(compare, "&&"), [compare(op, total(left), total(right)) for left, op, right in tests])
        for tests in comparisons(when)
    ]
    return reduce(partial(compare, "||"), each)


def _scalar(name: str) -> Expr:
    return num(int(name)) if name.isdecimal() else Ref(name, I64)


__all__ = ["condition"]
