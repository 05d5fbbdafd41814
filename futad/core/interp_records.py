"""Records in the interpreter: what `Keep` keeps, until `Kept` reads it.

A record's handle is its number, 0 is none.  Under maps that are evaluated at once each active iteration has a record of
its own, so that one that is read one by one finds what another kept at once.  What an attempt that is repeated has kept
and read is as it was before (Note [Batched evaluation] in `interp_machine.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.interp_machine import Interpreter, Irregular, Scope, Values, handler, lift_value, rank_of
from futad.core.types import Prim, Type


@handler(ir.Keep)
def _keep(m: Interpreter, e: ir.Keep, stm: ir.Stm, sc: Scope) -> Values:
    values = [m.value(a) for a in e.values]
    if sc.depth == 0:
        return (np.int64(m.records.keep([np.array(v) for v in values])),)
    lifted = [lift_value(v, rank_of(a.type), sc.depth) for v, a in zip(values, e.values, strict=True)]
    out = np.zeros(sc.batch, np.int64)
    for lane in zip(*np.nonzero(sc.full_mask()), strict=True):
        out[lane] = m.records.keep([np.array(v[_at(v, lane)]) for v in lifted])
    return (out,)


def _at(v: Any, lane: Sequence[Any]) -> tuple[Any, ...]:
    """A lane's place in the batch dimensions of a value."""
    return tuple([0 if n == 1 else i for n, i in zip(v.shape, lane, strict=False)])


@handler(ir.Kept)
def _kept(m: Interpreter, e: ir.Kept, stm: ir.Stm, sc: Scope) -> Values:
    types = [v.type for v in stm.pat]
    handles = m.value(e.record)
    if sc.depth == 0:
        return [_out(v, t) for v, t in zip(m.records.read(int(handles)), types, strict=True)]
    handles = np.broadcast_to(lift_value(np.asarray(handles), 0, sc.depth), sc.batch)
    lanes = list(zip(*np.nonzero(sc.full_mask()), strict=True))
    rows = [m.records.read(int(handles[lane])) for lane in lanes]
    out = []
    for k, first in enumerate(rows[0]):
        if any(row[k].shape != first.shape for row in rows):
            raise Irregular
        whole = np.empty(sc.batch + first.shape, first.dtype)
        whole[...] = first
        for lane, row in zip(lanes, rows, strict=True):
            whole[lane] = row[k]
        out.append(whole)
    return out


def _out(v: np.ndarray, t: Type) -> Any:
    return v[()] if isinstance(t, Prim) else v
