"""Array constructs: indexing, update, and the linear ones (replicate, concat, reshape, rearrange, ...)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.node import Range
from futad.core.type_rules import index_type
from futad.core.types import (
    ONE,
    ZERO,
    Atom,
    Const,
    Prim,
    Var,
    elem_of,
    shape_of,
    zero,
)
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope

TURNS = Legality(
    "turned-back",
    "the adjoint of an array that is turned along its axis is turned back, in one piece",
    worth="the gradient of a function of a turned array 0.128 to 0.119 ms: `benchmarks/without.py turned-back"
    " tests/legality/turned.fut:back --values '[100000]f64'`",
)
ADJACENT = TURNS.condition("parts adjacent", "an element between the parts, or in both, has another one's adjoint")
WHOLE = TURNS.condition("all of the array", "elements in neither part have no adjoint")


# --- forward mode ---------------------------------------------------------------------------------------


def _linear(*fields: str) -> Callable[[Tangents, ir.Stm], None]:
    """The jvp of a construct linear in these fields: the same construct on tangents."""

    def jvp(t: Tangents, stm: ir.Stm) -> None:
        e: Any = stm.exp
        t.b.add(stm)
        values = [getattr(e, f) for f in fields]
        if all(t.of(a) is None for v in values for a in (v if isinstance(v, tuple) else (v,))):
            return
        swap = {}
        for f in fields:
            v = getattr(e, f)
            swap[f] = tuple([t.dense(a) for a in v]) if isinstance(v, tuple) else t.dense(v)
        args = [swap.get(f, getattr(e, f)) for f in e.kinds]
        new = type(e)(*args)  # with the check of an index, if there is one: the primal may be dead
        out = Var(f"{stm.pat[0].name}_tan", stm.pat[0].type)
        t.b.add(ir.Stm((out,), new, (ir.DERIVED,) if getattr(new, "check", None) is not None else ()))
        t.set(stm.pat[0], out)

    return jvp


def _matmul_jvp(t: Tangents, stm: ir.Stm) -> None:
    e: Any = stm.exp
    t.b.add(stm)
    parts: list[Atom] = []
    if (da := t.of(e.a)) is not None:
        parts.append(t.b.let(ir.MatMul(da, e.b), "tan"))
    if (db := t.of(e.b)) is not None:
        parts.append(t.b.let(ir.MatMul(e.a, db), "tan"))
    parts += [d for p in e.plus if (d := t.of(p)) is not None]
    if parts:
        t.set(stm.pat[0], functools.reduce(t.b.plus, parts))


# --- reverse mode ---------------------------------------------------------------------------------------

Pull = Callable[["Scope", Any, Atom], None]


def _rule(pull: Pull) -> Callable[[Scope, ir.Stm, ir.Stm], None]:
    def vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
        seed = s.take(stm.pat[0])
        if seed is not None:
            pull(s, stm.exp, seed)

    return vjp


def _at(s: Scope, e: ir.At, seed: Atom) -> None:
    s.add(e.array, seed, e.index, e.check)


def _update(s: Scope, e: ir.Update, seed: Atom) -> None:
    part = index_type(seed.type, e.index)
    if s.is_active(e.value):
        read = s.b.let(ir.At(seed, e.index, e.check), f"{_name(e.value)}_bar")
        # A part that is an array is copied: the seed is about to be overwritten there.
        s.add(e.value, read if isinstance(part, Prim) else s.b.let(ir.Copy(read), read.name))
    if s.is_active(e.array):
        s.add(e.array, s.b.let(ir.Update(seed, e.index, s.b.zeros(part), e.check), f"{_name(e.array)}_bar"))


def _name(a: Atom) -> str:
    return a.name if isinstance(a, Var) else "c"


def _iota(s: Scope, e: ir.Iota, seed: Atom) -> None:
    if s.is_active(e.start):
        s.add(e.start, s.b.sum_outer(e.count, seed))
    if s.is_active(e.step):
        t = elem_of(seed.type)
        iterations = s.b.let(ir.Iota(e.count, zero(t), Const(t, 1)), "i")
        parts = s.b.zip_with(lambda b, i, y: b.op("mul", i, y), iterations, seed)
        s.add(e.step, s.b.sum_outer(e.count, parts))


def _replicate(s: Scope, e: ir.Replicate, seed: Atom) -> None:
    if not s.is_active(e.value):
        return
    total = seed
    if len(e.shape) > 1:
        n = s.b.size_mul(e.shape)
        total = s.b.let(ir.Reshape(total, (n, *shape_of(e.value.type))), "flat")
        s.add(e.value, s.b.sum_outer(n, total))
    elif e.shape:
        s.add(e.value, s.b.sum_outer(e.shape[0], total))
    else:
        s.add(e.value, seed)


def _literal(s: Scope, e: ir.ArrayLit, seed: Atom) -> None:
    for i, a in enumerate(e.elems):
        if s.is_active(a):
            s.add(a, s.b.at(seed, Const(ZERO.type, i)))


def _concat(s: Scope, e: ir.Concat, seed: Atom) -> None:
    if (turned := _turned(s, e)) is not None:
        _turn_back(s, e, seed, *turned)
        return
    offset: Atom = ZERO
    last = len(e.arrays) - 1
    for i, a in enumerate(e.arrays):
        n = shape_of(a.type)[0]
        if s.is_active(a):
            s.add(a, s.coerce(s.b.at(seed, Range(offset, n, ONE)), a.type))
        if i < last:
            offset = n if offset is ZERO else s.b.op("add", offset, n, hint="offset")


def _turned(s: Scope, e: ir.Concat) -> tuple[Var, int] | None:
    """The array of which this is the two parts, and which of them is its first."""
    match [s.ctx.stretches.get(a) for a in e.arrays if isinstance(a, Var)]:
        case [(x, i), (y, j)] if len(e.arrays) == 2 and x is y and s.is_active(x) and not s.in_acc(x):
            pass
        case _:
            return None
    first, then = (i, j) if i.start == ZERO else (j, i)
    if first.start != ZERO or not ADJACENT(then.start == first.count) or not WHOLE(shape_of(x.type)[0] == e.size):
        return None
    return x, 0 if first is i else 1


def _turn_back(s: Scope, e: ir.Concat, seed: Atom, x: Var, first: int) -> None:
    TURNS.fired()
    n, m = [shape_of(a.type)[0] for a in e.arrays]
    parts = [s.b.at(seed, Range(ZERO, n, ONE)), s.b.at(seed, Range(n, m, ONE))]
    if first:
        parts.reverse()
    s.add(x, s.coerce(s.b.let(ir.Concat(tuple(parts), e.size), f"{x.name}_bar"), x.type))


def _reshape(s: Scope, e: ir.Reshape, seed: Atom) -> None:
    s.add(e.array, s.b.let(ir.Reshape(seed, shape_of(e.array.type)), "view"))


def _rearrange(s: Scope, e: ir.Rearrange, seed: Atom) -> None:
    inverse = tuple(sorted(range(len(e.perm)), key=lambda i: e.perm[i]))
    s.add(e.array, s.b.let(ir.Rearrange(seed, inverse), "view"))


def _matmul(s: Scope, e: ir.MatMul, seed: Atom) -> None:
    # C = A B: the adjoint of A is C' B^T, that of B is A^T C' (Giles, "Collected matrix derivative results", 2008).
    def transposed(a: Atom) -> Var:
        return s.b.let(ir.Rearrange(a, (1, 0)), "tr")

    if e.a in s.ctx.active:
        s.add(e.a, s.b.let(ir.MatMul(seed, transposed(e.b)), "a_bar"))
    if e.b in s.ctx.active:
        s.add(e.b, s.b.let(ir.MatMul(transposed(e.a), seed), "b_bar"))
    for p in e.plus:
        s.add(p, seed)


def _same(field: str) -> Pull:
    return lambda s, e, seed: s.add(getattr(e, field), seed)


def _nothing(t: Tangents, stm: ir.Stm) -> None:
    t.b.add(stm)


RULES[ir.Alias] = Rule(_linear("atom"), _rule(_same("atom")))
RULES[ir.At] = Rule(_linear("array"), _rule(_at))
RULES[ir.Update] = Rule(_linear("array", "value"), _rule(_update))
RULES[ir.Iota] = Rule(_linear("start", "step"), _rule(_iota))
RULES[ir.Replicate] = Rule(_linear("value"), _rule(_replicate))
RULES[ir.ArrayLit] = Rule(_linear("elems"), _rule(_literal))
RULES[ir.Concat] = Rule(_linear("arrays"), _rule(_concat))
RULES[ir.Reshape] = Rule(_linear("array"), _rule(_reshape))
RULES[ir.Rearrange] = Rule(_linear("array"), _rule(_rearrange))
RULES[ir.ArgSort] = Rule(_nothing, lambda s, stm, emitted: None)  # piecewise constant
RULES[ir.MatMul] = Rule(_matmul_jvp, _rule(_matmul))
RULES[ir.Copy] = Rule(_linear("array"), _rule(_same("array")))
RULES[ir.Scratch] = Rule(_nothing, lambda s, stm, emitted: None)
RULES[ir.Assert] = Rule(_nothing, lambda s, stm, emitted: None)
RULES[ir.Trace] = Rule(_nothing, lambda s, stm, emitted: None)
RULES[ir.Measure] = Rule(_nothing, lambda s, stm, emitted: None)
