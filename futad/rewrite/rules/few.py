"""Maps and folds of a few elements that are known one by one: written out."""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.ir import Lambda, Renamer, Stm
from futad.core.types import Atom, Const, Prim, row_type
from futad.rewrite.context import Context
from futad.rewrite.rules.control import aliases_of
from futad.rewrite.strategy import Result, rule

FEW = 8  # elements
MOST = 64  # scalar operations that one construct may become


@rule(ir.Map, ir.Reduce, ir.Fused)
def few_elements(stm: Stm, ctx: Context) -> Result:
    """`reduce (+) 0 (map f [x, y])` -> `let a = f x in let b = f y in 0 + a + b`, of scalar operations.

    It is the meaning of the construct, element by element, and a fold's from the neutral element on, so there is no
    condition.  Only after differentiation, whose rules for folds make less than those for their operations would.
    Values that two such constructs compute are then computed once, and saved for a return sweep as any others.
    """
    e: Any = stm.exp
    n = e.width.value if type(e.width) is Const else 0
    if ctx.differentiates or not 0 < n <= FEW or e.scans or e.accs:
        return None
    literals = [d for a in e.arrays if isinstance(d := ctx.exp(a), ir.ArrayLit)]
    given = [d.elems for d in literals if isinstance(d.elems[0].type, Prim)]
    if not given or len(given) != len(e.arrays):
        return None
    lams: list[Lambda] = [*([] if e.mapper is None else [e.mapper]), *[f.lam for f in e.reduces]]
    if n * sum([len(lam.stms) for lam in lams]) > MOST or not all(type(s.exp) is ir.Op for f in lams for s in f.stms):
        return None
    out: list[Stm] = []

    def applied(lam: Lambda, args: tuple[Atom, ...]) -> tuple[Atom, ...]:
        copy = Renamer(dict(zip(lam.params, args, strict=True)))
        out.extend(copy.stms(lam.stms))
        return tuple([copy.atom(a) for a in lam.result])

    rows = list(zip(*given, strict=True))
    if e.mapper is not None:
        rows = [applied(e.mapper, row) for row in rows]
    folded: list[Atom] = []
    for f in e.reduces:
        at, now = len(folded), tuple(f.neutral)
        for row in rows:
            now = applied(f.lam, (*now, *row[at : at + len(f)]))
        folded += now
    k = len(folded)
    arrays = [
        Stm((v,), ir.ArrayLit(tuple([row[i] for row in rows]), row_type(v.type)))
        for i, v in enumerate(stm.pat[k:], k)
    ]
    return [*out, *aliases_of(stm.pat[:k], tuple(folded)), *arrays]


FEW_ENTER = (few_elements,)
