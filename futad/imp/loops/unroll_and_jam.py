"""Unroll-and-jam: several iterations of a loop run together inside its inner loops.

    for i: { s = 0; for j: s += a[i, j] * x[j]; y[i] = s }
  becomes, for i in steps of four,
    { s0 = s1 = s2 = s3 = 0; for j: { s0 += a[i, j] * x[j]; ... s3 += a[i+3, j] * x[j] }; y[i] = s0; ... }

so that x[j] is loaded once for four rows and the four sums do not wait for one another; and

    for n: for i: for j: a[i, j] += u[n, i] * v[n, j]
  becomes, for n in steps,
    for i: for j: a[i, j] = a[i, j] + u[n, i] * v[n, j] + u[n+1, i] * v[n+1, j] + ...

so that a[i, j] is loaded and stored once for several n.  (Callahan, Carr and Kennedy, "Improving Register
Allocation for Subscripted Variables", 1990.)
"""

from __future__ import annotations

from futad.fires import by_number, refused
from futad.imp import ir
from futad.imp.ir import Expr, Num, Ref, Stmt, add, mul, num, sub
from futad.imp.loops.facts import LoopFacts
from futad.imp.walk import statements, substitute
from futad.legality import Legality

LEGAL = Legality("unroll-and-jam", "several iterations of a loop run together inside its inner loops")
SAME_ITERATIONS = LEGAL.condition("inner loops alike", "the iterations' inner loops have different iterations")
FOLDS_STAY = LEGAL.condition("folds in one run", "an iteration sees a fold that others have continued")
ONE_PLACE = LEGAL.condition("added to one place", "sums of different places are stored in one")

ROWS = 4
STEPS = 8
LARGEST_BODY = 24  # statements; a larger body is not copied


def _simple(s: Stmt) -> bool:
    """Whether iterations of a loop around may do the statement together."""
    return isinstance(s, (ir.Decl, ir.Store, ir.Accumulate)) or (isinstance(s, ir.For) and s.map and s.step == 1)


def jammed(loop: ir.For, reassociate: bool, asked: int = 0) -> list[Stmt] | None:
    """The loop, jammed; None if that is not possible or does not pay.  `asked`: so many iterations, if it is possible.

    `loop` is a map's: its iterations are independent apart from additions to memory, which none of them reads, and
    folds of scalars.  What an iteration writes over an input of the map is its own element, or row, of that.
    """
    facts = LoopFacts(loop.var, statements(loop.body))
    # An assignment deeper down to a variable of this loop is a step of something sequential.
    if not all(_simple(s) or (isinstance(s, ir.Assign) and s in loop.body) for s in facts.body):
        return refused("its body does more than scalars, stores and maps inside")
    if not facts.inner:
        return refused("there is no loop inside")
    if len(facts.body) > LARGEST_BODY and not asked:
        return refused(f"its body is large: {len(facts.body)} statements, {LARGEST_BODY} are copied at most")
    if not SAME_ITERATIONS(facts.invariant(*facts.inner)):
        return None
    copies = _pays(loop, facts, reassociate)
    if copies == 0:
        return refused("it has not one loop inside that sums, or that adds to places which stay where they are")
    if not FOLDS_STAY(_folds_stay(loop)):
        return None
    copies = asked or copies
    by_number(copies)
    if isinstance(loop.bound, Num) and isinstance(loop.start, Num):
        return _counted(loop, loop.start.value, loop.bound.value, copies)
    main = ir.For(loop.var, sub(loop.bound, num(copies - 1)), [], loop.start, map=True, step=copies)
    main.body = _jammed(loop.body, loop.var, copies)
    done = mul(ir.Bin("/", sub(loop.bound, loop.start), num(copies)), num(copies))
    rest = ir.For(loop.var, loop.bound, loop.body, add(loop.start, done), map=True)
    return [main, rest]


def _counted(loop: ir.For, start: int, end: int, copies: int) -> list[Stmt]:
    """The jammed loop from a known number to another: what is left in the end runs together, too."""
    whole = start + max(0, end - start) // copies * copies
    out: list[Stmt] = []
    for first, last, step in ((start, whole, copies), (whole, end, end - whole)):
        if first < last:
            body = _jammed(loop.body, loop.var, step) if step > 1 else loop.body
            out.append(ir.For(loop.var, num(last), body, num(first), map=True, step=step))
    return out


def _pays(loop: ir.For, facts: LoopFacts, reassociate: bool) -> int:
    """How many iterations to run together; 0 for none."""
    direct = [s for s in loop.body if isinstance(s, ir.For)]
    if len(direct) != 1:
        return 0
    inner = direct[0]
    if inner.independent and inner.partials and not any(isinstance(s, ir.Store) for s in inner.body):
        return ROWS
    # A nest that only adds to places that do not move with this loop.
    stores = [s for s in facts.body if isinstance(s, ir.Store)]
    if not reassociate or any(s.op is None for s in stores) or not isinstance(inner.body[-1], (ir.For, ir.Store)):
        return 0
    innermost = [f for f in facts.inner if not any(isinstance(s, ir.For) for s in f.body)]
    if len(innermost) != 1 or not innermost[0].independent or innermost[0].partials:
        return 0
    sums = [s for s in innermost[0].body if isinstance(s, ir.Store)]
    return STEPS if len(sums) == 1 and facts.invariant(sums[0].index) else 0


def _folds_stay(loop: ir.For) -> bool:
    """Whether each outer variable that the body assigns is only used in one straight run of it."""
    runs: dict[str, set[int]] = {}
    run = 0
    for s in loop.body:
        inner = isinstance(s, ir.For)  # is a run of its own
        run += inner
        for name in [n for x in statements([s]) for n in (*x.uses(), *x.assigns())]:
            runs.setdefault(name, set()).add(run)
        run += inner
    own = LoopFacts(loop.var, loop.body).own
    return all(len(runs[n]) == 1 for s in loop.body for n in s.assigns() if n not in own)


def _jammed(body: list[Stmt], var: str, copies: int) -> list[Stmt]:
    """The statements for `copies` values of `var` at once."""
    maps: list[dict[str, Expr]] = [{var: add(Ref(var, ir.ZERO.type), num(u))} for u in range(copies)]
    return _jam_inner(body, maps)


def _jam_inner(body: list[Stmt], maps: list[dict[str, Expr]]) -> list[Stmt]:
    out: list[Stmt] = []
    run: list[Stmt] = []

    def flush() -> None:
        for m in maps:
            out.extend(_copy(s, m) for s in run)
        run.clear()

    for k, s in enumerate(body):
        if isinstance(s, ir.Decl):
            for u, m in enumerate(maps):
                m[s.name] = Ref(f"{s.name}_{u}", s.type)
        if isinstance(s, ir.For):
            flush()
            inner = ir.For(s.var, s.bound, _jam_inner(s.body, maps), s.start, s.independent, map=True)
            inner.partials = [
                ir.Partial(_name(m, p.name), p.type, p.op, p.unit) for p in s.partials for m in maps
            ]
            out.append(inner)
        elif isinstance(s, ir.Store) and s.op is not None and k == len(body) - 1:
            flush()
            out += _merged(s, maps)
        else:
            run.append(s)
    flush()
    return out


def _merged(s: ir.Store, maps: list[dict[str, Expr]]) -> list[Stmt]:
    """The copies of an addition to memory; one load and one store if all go to the same place."""
    places = [substitute(s.index, m) for m in maps]
    if s.op is None or not ONE_PLACE(all(p == places[0] for p in places)):
        return [_copy(s, m) for m in maps]
    t = s.value.type
    total: Expr = ir.Load(s.pointer, s.index, t)
    for m in maps:
        total = ir.Scalar(s.op, (total, substitute(s.value, m)), t, t)
    return [ir.Store(s.pointer, s.index, total)]


def _name(m: dict[str, Expr], name: str) -> str:
    e = m.get(name)
    return e.name if isinstance(e, Ref) else name


def _copy(s: Stmt, m: dict[str, Expr]) -> Stmt:
    return s.map_names(lambda name: _name(m, name)).map_exprs(lambda e: substitute(e, m))
