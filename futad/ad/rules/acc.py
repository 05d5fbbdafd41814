"""Accumulators and records, in a program that is itself a derivative.

The tangent of a record is a record of the tangents of what is in it, made and read where it is.  Records have no
adjoints, nor have parts of accumulators, which there are where there are records: reverse mode around another reverse
mode has that run functions again (`ad/kept.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.ad.activity import has_tangent
from futad.ad.emit import read_or_zero, reexecution
from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.types import AccType, ArrayType, Atom, Type, Var, shape_of
from futad.errors import InternalError

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope


def _update_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.UpdateAcc)
    final = s.take(stm.pat[0])
    if final is None:
        return
    if s.is_active(e.value):
        s.add(e.value, read_or_zero(s.b, final, e.index, e.value.type))
    s.add(e.acc, final)


def _update_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.UpdateAcc)
    t.b.add(stm)
    acc, value = t.of(e.acc), t.of(e.value)
    assert acc is not None
    if value is None:
        t.set(stm.pat[0], acc)
    else:
        out = t.fresh(stm.pat[0])
        t.b.add(ir.Stm((out,), ir.UpdateAcc(acc, e.index, value)))


def _with_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.WithAcc)
    # The adjoint of each accumulator is that of the array it ends as, read and never changed; the body is
    # re-executed in line, without the accumulators.
    lam = reexecution(e.lam)
    k = len(e.arrays)
    seeds = [s.take(v) for v in stm.pat]
    s.local.update(lam.params)
    s.stripped.update(lam.params)
    s.ctx.active.update(p for p, y in zip(lam.params, seeds, strict=False) if y is not None)
    swept = s.forward(lam.stms)
    for r, y in zip(lam.result, seeds, strict=True):
        if y is not None:
            s.add(r, y if len(shape_of(y.type)) == 0 else s.coerce(y, _array_type(r)))
    s.back(swept)
    for p in lam.params:
        s.take(p)
    for a, y in zip(e.arrays, seeds[:k], strict=True):
        if y is not None:
            s.add(a, y)


def _array_type(a: Atom) -> Type:
    return ArrayType(a.type.elem, a.type.shape) if isinstance(a.type, AccType) else a.type


def _with_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.WithAcc)
    k = len(e.arrays)
    acc_active = [v in t.active for v in stm.pat[:k]]
    extra, inner = t.nested(e.lam, acc_active)
    tans = [r for r, f in zip(e.lam.result[:k], acc_active, strict=True) if f]
    acc_tans = [inner.of(r) for r in tans]
    extras = e.lam.result[k:]
    extra_tans = [inner.of(r) for r in extras]
    result = [*e.lam.result[:k], *acc_tans, *extras, *[x for x in extra_tans if x is not None]]
    lam = ir.Lambda((*e.lam.params, *extra), tuple(inner.b.stms), tuple([r for r in result if r is not None]))
    arrays = (*e.arrays, *[t.dense(a) for a, f in zip(e.arrays, acc_active, strict=True) if f])
    pat: list[Var] = list(stm.pat[:k])
    pat += [t.fresh(v) for v, f in zip(stm.pat, acc_active, strict=False) if f]
    pat += stm.pat[k:]
    pat += [t.fresh(v) for v, x in zip(stm.pat[k:], extra_tans, strict=True) if x is not None]
    t.b.add(ir.Stm(tuple(pat), ir.WithAcc(arrays, e.op, lam)))


def _part_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Part)
    acc = t.of(e.acc)
    assert acc is not None
    t.b.add(stm)
    t.b.add(ir.Stm(tuple([t.fresh(v) for v in stm.pat]), ir.Part(acc, e.index)))


def _whole_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Whole)
    part, rest = t.of(e.part), t.of(e.rest)
    assert part is not None and rest is not None
    t.b.add(stm)
    t.b.add(ir.Stm((t.fresh(stm.pat[0]),), ir.Whole(part, rest)))


def _keep_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Keep)
    tangents = tuple([t.dense(a) for a in e.values if has_tangent(a)])
    t.b.add(stm)
    t.b.add(ir.Stm((t.fresh(stm.pat[0]),), ir.Keep(tangents)))


def _kept_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Kept)
    record = t.of(e.record)
    assert record is not None
    t.b.add(stm)
    t.b.add(ir.Stm(tuple([t.fresh(v) for v in stm.pat if has_tangent(v)]), ir.Kept(record)))


def _none(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    raise InternalError(f"reverse mode of {type(stm.exp).__name__}")


RULES[ir.Part] = Rule(_part_jvp, _none)
RULES[ir.Whole] = Rule(_whole_jvp, _none)
RULES[ir.Keep] = Rule(_keep_jvp, _none)
RULES[ir.Kept] = Rule(_kept_jvp, _none)
RULES[ir.UpdateAcc] = Rule(_update_jvp, _update_vjp)
RULES[ir.WithAcc] = Rule(_with_jvp, _with_vjp)
