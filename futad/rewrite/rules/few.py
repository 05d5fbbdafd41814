"""Maps, folds and loops of a few elements that are known one by one: written out."""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.ir import Lambda, Renamer, Stm
from futad.core.types import I64, ArrayType, Atom, Const, Prim, Var, i64, row_type, shape_of
from futad.legality import Legality
from futad.rewrite.context import Context
from futad.rewrite.rules.control import aliases_of
from futad.rewrite.strategy import Result, rule

LEGAL = Legality(
    "few-elements",
    "loops over vectors of a few elements are written out, as scalars",
    worth="the gradient of a spline's curve 0.20 to 0.12 ms: `benchmarks/without.py few-elements"
    " tests/programs/spline_curve.fut:gradient --values '[40]f64' '[10000]f64' '[10000]f64'`",
)
UNWRITTEN = LEGAL.condition("map's inputs unwritten", "elements that a loop begins with are made of what was written")

FEW = 8  # elements
MOST = 64  # scalar operations that one construct may become
SHORT = 4  # iterations of a loop
LARGEST = 256  # statements that a loop may become


@rule(ir.Map, ir.Reduce, ir.Fused)
def few_elements(stm: Stm, ctx: Context) -> Result:
    """`reduce (+) 0 (map f [x, y])` -> `let a = f x in let b = f y in 0 + a + b`, of scalar operations.

    It is the meaning of the construct, element by element, and a fold's from the neutral element on, so there is no
    condition.  Folds only after differentiation, whose rules for them make less than those for their operations would.
    Values that two such constructs compute are then computed once, and saved for a return sweep as any others.
    """
    e: Any = stm.exp
    n = e.width.value if type(e.width) is Const else 0
    if not 0 < n <= FEW or e.scans or e.accs or ctx.differentiates and e.reduces:
        return None
    literals = [_elements(a, n, ctx) for a in e.arrays]
    given = [d for d in literals if d is not None]
    if len(given) != len(e.arrays):
        return None
    if not any(type(ctx.exp(a)) is ir.ArrayLit for a in e.arrays):
        return None
    lams: list[Lambda] = [*([] if e.mapper is None else [e.mapper]), *[f.lam for f in e.reduces]]
    sizes = [_operations(lam) if e.reduces else _size(lam) for lam in lams]
    known = [k for k in sizes if k is not None]
    if len(known) < len(sizes) or n * sum(known) > MOST:
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


def _elements(a: Atom, n: int, ctx: Context) -> tuple[Atom, ...] | None:
    """The elements of an array, if they are known scalars."""
    d = ctx.exp(a)
    if isinstance(d, ir.ArrayLit) and isinstance(d.elems[0].type, Prim):
        return d.elems
    if isinstance(d, ir.Iota) and type(d.start) is Const and type(d.step) is Const and d.start.type is I64:
        return tuple([i64(d.start.value + k * d.step.value) for k in range(n)])
    return None


def _operations(lam: Lambda) -> int | None:
    """How many scalar operations a scope is; None if there is anything else."""
    return len(lam.stms) if all(type(s.exp) is ir.Op for s in lam.stms) else None


def _size(lam: Lambda) -> int | None:
    """How many statements a scope has, of scalars, elements, branches and maps of a few elements; None if there are
    others."""
    total = 0
    for s in lam.stms:
        e = s.exp
        if isinstance(e, ir.Map) and type(e.width) is Const and 0 < e.width.value <= FEW:
            times = e.width.value
        elif isinstance(e, ir.Op | ir.At | ir.Alias | ir.If | ir.ArrayLit | ir.Iota):
            times = 1
        else:
            return None
        inside = [_size(inner) for inner in e.lambdas()]
        known = [k for k in inside if k is not None]
        if len(known) < len(inside) or not all(isinstance(v.type, Prim) or _length(v) for v in s.pat):
            return None
        total += 1 + times * sum(known)
    return total


def _length(v: Var) -> int:
    """How many elements a vector has; 0 if it has not a few."""
    shape = shape_of(v.type)
    return n.value if len(shape) == 1 and type(n := shape[0]) is Const and 0 < n.value <= FEW else 0


@rule(ir.For)
def few_iterations(stm: Stm, ctx: Context) -> Result:
    """`loop d = map f (iota 3) for i < 2 do body` -> `let d = [f 0, f 1, f 2]`, and the body twice, for vectors of a
    few elements and bodies of scalars and maps over such: nothing is left to be saved for a return sweep.

    It is the meaning of the loop; only the map that it begins with is computed later.
    """
    e: Any = stm.exp
    n = e.bound.value if type(e.bound) is Const else 0
    _, *params = e.body.params
    if any(a[0] != "place" for a in stm.attrs) or not 1 < n <= SHORT or not any(_length(p) for p in params):
        return None
    size = _size(e.body)
    if size is None or n * size > LARGEST or not all(isinstance(p.type, Prim) or _length(p) for p in params):
        return None
    made = [d for p, a in zip(params, e.inits, strict=True) if _length(p) and isinstance(d := ctx.exp(a), ir.Map)]
    read = [v for d in made for v in d.lam.free() if isinstance(v.type, ArrayType)]
    if not UNWRITTEN(not any(ctx.mutable(v) for v in read)):
        return None
    out: list[Stm] = []
    values: list[Atom] = []
    for p, a in zip(params, e.inits, strict=True):
        d = ctx.exp(a)
        if not _length(p) or isinstance(d, ir.ArrayLit):
            values.append(a)
            continue
        elems = _made_here(d, out, ctx)
        if elems is None:
            own = [Var(p.name, row_type(p.type)) for _ in range(_length(p))]
            out += [Stm((x,), ir.At(a, (i64(k),), None)) for k, x in enumerate(own)]
            elems = [*own]
        literal = Var(p.name, p.type)
        out.append(Stm((literal,), ir.ArrayLit(tuple(elems), row_type(p.type))))
        values.append(literal)
    i = e.body.params[0]
    for k in range(n):
        iteration = Renamer({i: Const(i.type, k), **dict(zip(params, values, strict=True))})
        out += iteration.stms(e.body.stms)
        values = [iteration.atom(a) for a in e.body.result]
    LEGAL.fired()
    return [*out, *aliases_of(stm.pat, tuple(values))]


def _made_here(d: ir.Exp | None, out: list[Stm], ctx: Context) -> list[Atom] | None:
    """The elements of a map of a few, computed by statements that `out` gets."""
    if not isinstance(d, ir.Map) or type(d.width) is not Const:
        return None
    given = [_elements(a, d.width.value, ctx) for a in d.arrays]
    rows = [row for row in given if row is not None]
    size = _size(d.lam)
    if len(rows) < len(given) or len(d.lam.result) != 1 or size is None or size * d.width.value > MOST:
        return None
    elems: list[Atom] = []
    for args in zip(*rows, strict=True):
        copy = Renamer(dict(zip(d.lam.params, args, strict=True)))
        out += copy.stms(d.lam.stms)
        elems.append(copy.atom(d.lam.result[0]))
    return elems


FEW_ENTER = (few_elements, few_iterations)
