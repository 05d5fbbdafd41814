"""C for loops around reductions whose iterations run in vector lanes (`imp/loops/vectorise.py`).

GCC does not vectorise a loop around another one whose length it does not know, so such a loop is written in its vector
types: some vectors of iterations at a time, which stay in registers while the reduction runs, then what follows the
reduction, lane by lane; the same for one vector at a time; the rest by a vector that ends where the loop does; and
one by one if there are fewer iterations than lanes.  Where an iteration may be done twice (a minimum, not a sum), the
last two vectors run together, so that neither waits for its additions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.core.types import F64, I64
from futad.imp import ir
from futad.imp.ir import Expr, Ref
from futad.imp.walk import has_load, refs, substitute

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter

VECTORS = 4  # registers that sum at the same time, so that none waits for its last addition
_IDEMPOTENT = ("min", "max", "and", "or")
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
LANES = "FUTAD_VECTOR / 8"


def emit(em: CEmitter, s: ir.VectorisedFor) -> None:
    """The loops described above."""
    loop = s.loop
    repeats = _repeats(s)
    em.line(f"int64_t {loop.var} = {em.expr(loop.start)};")
    _vectors(em, s, VECTORS)
    _vectors(em, s, 1, left=repeats)
    if repeats:
        _vectors(em, s, 2, tail=True, repeats=True)
    _vectors(em, s, 1, tail=True, repeats=repeats)
    em.line(f"for (; {loop.var} < {em.expr(loop.bound)}; {loop.var}++) {{")
    em.nested(loop.body)
    em.line("}")


def _repeats(s: ir.VectorisedFor) -> bool:
    """Whether iterations may be done twice."""
    after = s.loop.body[s.loop.body.index(s.fold) + 1 :]
    if any(p.op not in _IDEMPOTENT for p in s.partials):
        return False
    return not any(map(has_load, after)) or not any(isinstance(a, ir.Store) for a in after)


def _vectors(
    em: CEmitter, s: ir.VectorisedFor, vectors: int, tail: bool = False, repeats: bool = False, left: bool = False
) -> None:
    """The loop over so many vectors of iterations at a time (until two are `left`), or what is left by vectors of which
    the last one ends where the loop does: it does some iterations again, and skips them after the reduction unless they
    may be done `repeats`."""
    loop, fold = s.loop, s.fold
    i = loop.var
    width = f"({vectors} * ({LANES}))"
    stride = "stride" if tail and vectors > 1 else f"({LANES})"
    sums = {a.name: a for a in loop.body if isinstance(a, ir.Decl) and a.name in {p.name for p in fold.partials}}
    bound = em.expr(loop.bound)
    first: Expr = ir.ZERO
    if tail and vectors > 1:
        em.line(f"if ({bound} - {i} > {LANES}) {{")
        em.depth += 1
        em.line(f"const int64_t stride = {bound} - {LANES} - {i};")
    elif tail:
        em.line(f"if ({i} < {bound} && {bound} - {em.expr(loop.start)} >= {width}) {{")
        em.depth += 1
        if not repeats:
            first = Ref("skipped", I64)
            em.line(f"const int64_t skipped = {i} + {width} - {bound};")
        em.line(f"{i} = {bound} - {width};")
    else:
        limit = f"{i} + 2 * ({LANES}) < {bound}" if left else f"{i} + {width} <= {bound}"
        em.line(f"for (; {limit}; {i} += {width}) {{")
        em.depth += 1
    for a in loop.body[: loop.body.index(fold)]:
        if isinstance(a, ir.Decl) and a.name not in sums:
            em.decl(a)
    for name, a in sums.items():
        assert a.init is not None
        em.line(f"futad_lanes_t {name}_v[{vectors}];")
        em.line(f"for (int u = 0; u < {vectors}; u++) {name}_v[u] = (futad_lanes_t){{0}} + {em.expr(a.init)};")
    em.line(f"for (int64_t {fold.var} = {em.expr(fold.start)}; {fold.var} < {em.expr(fold.bound)}; {fold.var}++) {{")
    em.depth += 1
    em.line(f"#pragma GCC unroll {vectors}")
    em.line(f"for (int u = 0; u < {vectors}; u++) {{")
    em.depth += 1
    varying = {i}
    for a in fold.body:
        if isinstance(a, ir.Decl):
            assert a.init is not None
            wide = bool(varying & refs(a.init))
            if wide:
                varying.add(a.name)
            text = _text(em, a.init, i, varying, stride)
            em.line(f"const {'futad_lanes_t' if wide else 'double'} {a.name} = {text};")
        else:
            assert isinstance(a, ir.Accumulate)
            em.line(f"{a.name}_v[u] += {_text(em, a.value, i, varying, stride)};")
    for _ in range(2):
        em.depth -= 1
        em.line("}")
    em.line("{")
    em.depth += 1
    for name in sums:
        em.line(f"double {name}_l[{width}];")
        em.line(f"memcpy({name}_l, {name}_v, sizeof {name}_l);")
    after = loop.body[loop.body.index(fold) + 1 :]
    if stride == "stride" and any(i in refs(a) for a in after):
        for u in range(vectors):
            place = ir.add(Ref(i, I64), ir.mul(ir.num(u), Ref(stride, I64)))
            _after(em, s, after, f"({LANES})", place, ir.mul(ir.num(u), Ref(f"({LANES})", I64)), first)
    else:
        _after(em, s, after, width, Ref(i, I64), ir.ZERO, first)
    em.depth -= 1
    em.line("}")
    if tail:
        em.line(f"{i} = {bound};")
    em.depth -= 1
    em.line("}")


def _after(
    em: CEmitter, s: ir.VectorisedFor, after: list[ir.Stmt], width: str, place: Expr, offset: Expr, first: Expr
) -> None:
    """What follows the reduction, for lanes from `first` on: iterations from `place`, their sums from `offset` on."""
    lane = ir.Ref("lane", I64)
    moved: dict[str, Expr] = {s.loop.var: ir.add(place, lane)}
    sums = s.fold.partials
    rest: list[ir.Stmt] = [ir.Decl(p.name, F64, ir.Load(f"{p.name}_l", ir.add(offset, lane), F64)) for p in sums]
    rest += [a.map_exprs(lambda e: substitute(e, moved)) for a in after]
    em.for_(ir.For("lane", Ref(width, I64), rest, first, independent=True, partials=s.partials))


def _text(em: CEmitter, e: Expr, i: str, varying: set[str], stride: str) -> str:
    """The expression of vectors (and scalars, which stand for vectors of them)."""
    match e:
        case ir.Load(p, index) if i in refs(index):
            return f"*(const futad_lanes_t *)({p} + ({em.expr(index)}) + u * {stride})"
        case ir.Scalar("neg", (a,)):
            return f"(-{_text(em, a, i, varying, stride)})"
        case ir.Scalar(op, (a, b)):
            return f"({_text(em, a, i, varying, stride)} {OPERATORS[op]} {_text(em, b, i, varying, stride)})"
    return em.expr(e)
