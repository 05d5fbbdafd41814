"""C for loops whose iterations are independent and call functions, the last vector of which ends with the loop.

A loop of 14 iterations is one vector of 8 and six more, one by one, each with its calls of functions that are made for
vectors.  Instead the last eight iterations are computed first, into arrays of their own, then the others in vectors,
and of the last eight what these do not cover is stored.  Where results replace what they are computed from, that has
not happened yet when the last iterations read it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from futad.backend.emit import c_type
from futad.core.scalarops import OPS
from futad.core.types import I64
from futad.imp import ir
from futad.imp.ir import Expr, Ref
from futad.imp.walk import has_load, parts, refs

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter

LONGEST = 200  # statements of a body, which is there twice


def possible(loop: ir.For) -> bool:
    """Whether the loop is worth it, and stores what it computes at the end of each iteration, at known places."""
    body = loop.body
    if not loop.independent or loop.partials or loop.step != 1 or len(body) > LONGEST:
        return False
    if isinstance(loop.bound, ir.Num) and isinstance(loop.start, ir.Num):
        count = loop.bound.value - loop.start.value
        if count % 16 == 0 or count < 4 or count == 12:  # 12 are three half vectors, of which GCC makes use
            return False
    if not any(_calls(e) for s in body for e in parts(s)):
        return False
    stores = [s for s in body if isinstance(s, ir.Store)]
    if not all(isinstance(s, (ir.Decl, ir.Store)) for s in body) or body[len(body) - len(stores) :] != stores:
        return False
    declared = {s.name for s in body if isinstance(s, ir.Decl)}
    for s in stores:
        if refs(s.index) & declared or has_load(s):
            return False
    return True


def _calls(e: Expr) -> bool:
    return isinstance(e, ir.Scalar) and OPS[e.op].vector != "" and e.arg.is_float


def emit(em: CEmitter, loop: ir.For) -> None:
    """The loop with its last vector first."""
    start, bound, i = em.expr(loop.start), em.expr(loop.bound), loop.var
    size = min(e.type.bits for s in loop.body for e in s.exprs() if not e.type.is_bool) // 8
    width = f"(FUTAD_VECTOR / {max(4, size)})"
    stores = [s for s in loop.body if isinstance(s, ir.Store)]
    # The lanes of the last vector that the others do not cover; none if there is no whole vector.
    rest, last, lane = f"rest_{i}", f"last_{i}", f"lane_{i}"
    em.line("{")
    em.depth += 1
    some = f"FUTAD_VECTOR_CALLS && {bound} - {start} > {width}"
    em.line(f"const int64_t {rest} = {some} ? ({bound} - {start}) % {width} : 0;")
    em.line(f"const int64_t {last} = {bound} - {width};")
    into: dict[ir.Store, ir.Store] = {}
    for k, s in enumerate(stores):
        em.line(f"{c_type(s.value.type)} out_{i}_{k}[{width}];")
        into[s] = ir.Store(f"out_{i}_{k}", Ref(lane, I64), s.value)
    em.line(f"if ({rest}) {{")
    em.depth += 1
    at = ir.Decl(i, I64, ir.add(Ref(last, I64), Ref(lane, I64)))
    body: list[ir.Stmt] = [at, *[into[s] if isinstance(s, ir.Store) else s for s in loop.body]]
    em.plain_for(replace(loop, var=lane, start=ir.ZERO, bound=Ref(width, I64), body=body, lanes=size))
    em.depth -= 1
    em.line("}")
    em.plain_for(replace(loop, bound=ir.sub(loop.bound, Ref(rest, I64))))
    em.line(f"for (int64_t {lane} = {width} - {rest}; {rest} && {lane} < {width}; {lane}++) {{")
    em.depth += 1
    em.line(f"const int64_t {i} = {last} + {lane};")
    for k, s in enumerate(stores):
        em.store(ir.Store(s.pointer, s.index, ir.Load(f"out_{i}_{k}", Ref(lane, I64), s.value.type), s.op))
    em.depth -= 1
    em.line("}")
    em.depth -= 1
    em.line("}")
