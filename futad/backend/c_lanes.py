"""C for loops around reductions whose iterations run in vector lanes (`imp/loops/vectorise.py`).

GCC does not vectorise a loop around another one whose length it does not know, so such a loop is written in its vector
types: some vectors of iterations at a time, which stay in registers while the reduction runs, then what follows the
reduction, lane by lane; the same for one vector at a time; the rest by a vector that ends where the loop does; and
one by one if there are fewer iterations than lanes, of f32 than half of these.  Where an iteration may be done twice
(a minimum, not a sum), the last two vectors run together, so that neither waits for its additions alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.backend.emit import c_type
from futad.core.types import F32, F64, I64, Prim
from futad.imp import ir
from futad.imp.ir import Expr, Ref
from futad.imp.walk import has_load, refs, substitute

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter

VECTORS = 4  # registers that sum at the same time, so that none waits for its last addition
_IDEMPOTENT = ("min", "max", "and", "or")
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


@dataclass(frozen=True, slots=True)
class _Vector:
    """A vector type of C, how many lanes it has, and the type of these."""

    name: str
    lanes: str
    elem: Prim


OF_F64 = _Vector("futad_lanes_t", "FUTAD_VECTOR / 8", F64)
OF_F32 = _Vector("futad_wide_f32", "FUTAD_VECTOR / 4", F32)
HALF_OF_F32 = _Vector("futad_half_f32", "FUTAD_VECTOR / 8", F32)


def emit(em: CEmitter, s: ir.VectorisedFor) -> None:
    """The loops described above."""
    loop = s.loop
    repeats = _repeats(s)
    single = s.fold.partials[0].type is F32
    vector = OF_F32 if single else OF_F64
    em.line(f"int64_t {loop.var} = {em.expr(loop.start)};")
    _vectors(em, s, vector, VECTORS)
    _vectors(em, s, vector, 1, left=repeats)
    if repeats:
        _vectors(em, s, vector, 2, tail=True, repeats=True)
    _vectors(em, s, vector, 1, tail=True, repeats=repeats)
    if single and repeats:
        _vectors(em, s, HALF_OF_F32, 2, tail=True, repeats=True)
    if single:
        _vectors(em, s, HALF_OF_F32, 1)
    if single and not repeats:
        _vectors(em, s, HALF_OF_F32, 1, tail=True)
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
    em: CEmitter,
    s: ir.VectorisedFor,
    vector: _Vector,
    vectors: int,
    tail: bool = False,
    repeats: bool = False,
    left: bool = False,
) -> None:
    """The loop over so many vectors of iterations at a time (until two are `left`), or what is left by vectors of which
    the last one ends where the loop does: it does some iterations again, and skips them after the reduction unless they
    may be done `repeats`."""
    loop, fold, lanes = s.loop, s.fold, vector.lanes
    i, elem = loop.var, c_type(vector.elem)
    width = f"({vectors} * ({lanes}))"
    stride = "stride" if tail and vectors > 1 else f"({lanes})"
    sums = {a.name: a for a in loop.body if isinstance(a, ir.Decl) and a.name in {p.name for p in fold.partials}}
    bound = em.expr(loop.bound)
    first: Expr = ir.ZERO
    if tail and vectors > 1:
        em.line(f"if ({bound} - {i} > {lanes}) {{")
        em.depth += 1
        em.line(f"const int64_t stride = {bound} - {lanes} - {i};")
    elif tail:
        em.line(f"if ({i} < {bound} && {bound} - {em.expr(loop.start)} >= {width}) {{")
        em.depth += 1
        if not repeats:
            first = Ref("skipped", I64)
            em.line(f"const int64_t skipped = {i} + {width} - {bound};")
        em.line(f"{i} = {bound} - {width};")
    else:
        limit = f"{i} + 2 * ({lanes}) < {bound}" if left else f"{i} + {width} <= {bound}"
        em.line(f"for (; {limit}; {i} += {width}) {{")
        em.depth += 1
    for a in loop.body[: loop.body.index(fold)]:
        if isinstance(a, ir.Decl) and a.name not in sums:
            em.decl(a)
    for name, a in sums.items():
        assert a.init is not None
        em.line(f"{vector.name} {name}_v[{vectors}];")
        em.line(f"for (int u = 0; u < {vectors}; u++) {name}_v[u] = ({vector.name}){{0}} + {em.expr(a.init)};")
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
            text = _text(em, a.init, i, vector, stride)
            em.line(f"const {vector.name if wide else elem} {a.name} = {text};")
        else:
            assert isinstance(a, ir.Accumulate)
            em.line(f"{a.name}_v[u] += {_text(em, a.value, i, vector, stride)};")
    for _ in range(2):
        em.depth -= 1
        em.line("}")
    em.line("{")
    em.depth += 1
    for name in sums:
        em.line(f"{elem} {name}_l[{width}];")
        em.line(f"memcpy({name}_l, {name}_v, sizeof {name}_l);")
    after = loop.body[loop.body.index(fold) + 1 :]
    if stride == "stride" and any(i in refs(a) for a in after):
        for u in range(vectors):
            place = ir.add(Ref(i, I64), ir.mul(ir.num(u), Ref(stride, I64)))
            _after(em, s, after, f"({lanes})", place, ir.mul(ir.num(u), Ref(f"({lanes})", I64)), first)
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
    rest: list[ir.Stmt] = [ir.Decl(p.name, p.type, ir.Load(f"{p.name}_l", ir.add(offset, lane), p.type)) for p in sums]
    rest += [a.map_exprs(lambda e: substitute(e, moved)) for a in after]
    em.for_(ir.For("lane", Ref(width, I64), rest, first, independent=True, partials=s.partials))


def _text(em: CEmitter, e: Expr, i: str, vector: _Vector, stride: str) -> str:
    """The expression of vectors (and scalars, which stand for vectors of them)."""
    match e:
        case ir.Load(p, index) if i in refs(index):
            return f"*(const {vector.name} *)({p} + ({em.expr(index)}) + u * {stride})"
        case ir.Scalar("neg", (a,)):
            return f"(-{_text(em, a, i, vector, stride)})"
        case ir.Scalar(op, (a, b)):
            return f"({_text(em, a, i, vector, stride)} {OPERATORS[op]} {_text(em, b, i, vector, stride)})"
    return em.expr(e)
