"""Products that values are computed from which are compared with what they were chosen from (`core/compared.py`).

    m = maximum (map (\\p -> p + 0.3) ps)                where ps = map2 (*) xs ys, computed where it is used
    is = map (\\p -> if p + 0.3 == m then .. else ..) ps

A C compiler may contract the product and the sum in one of the two loops, where the product has no other use, and no
sum is the maximum then.  Such products are rounded by themselves.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.compared import Compared
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import Var
from futad.legality import Legality

LEGAL = Legality("rounded-products", "what is compared is computed with the same bits wherever it is")
ROUNDED = LEGAL.condition(
    "products of what is compared", "a product contracts with a sum in one place only, and the two are not equal"
)


def rounded(program: Program) -> Program:
    """The program with such products rounded by themselves."""
    return ir.map_bodies(program, _body)


def _body(lam: Lambda) -> Lambda:
    products = {v for v in Compared(lam).products() if not ROUNDED(False)}
    if not products:
        return lam
    LEGAL.fired()
    return _scope(lam, products)


def _scope(lam: Lambda, products: set[Var]) -> Lambda:
    def statement(s: Stm) -> Stm:
        e = s.exp
        if type(e) is ir.Op and s.pat[0] in products:
            return Stm(s.pat, ir.Op("rounded_mul", e.args), s.attrs)
        return ir.map_scopes(s, lambda inner: _scope(inner, products))

    return Lambda(lam.params, tuple([statement(s) for s in lam.stms]), lam.result)


__all__ = ["rounded"]
