"""Type rules: the result types of an expression, one function per node class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from futad.core import ir
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.types import (
    REC,
    AccType,
    ArrayType,
    Atom,
    Type,
    array_of,
    elem_of,
    i64,
    shape_of,
)

Types = tuple[Type, ...]


def atom_types(atoms: ir.Atoms) -> Types:
    return tuple([a.type for a in atoms])


def index_type(t: Type, index: ir.Index) -> Type:
    """The type of `a[index]` for an `a` of type t (of an accumulator, that of its array)."""
    shape = shape_of(t)
    kept = tuple([i.count for i in index if type(i) is Range])
    rest = kept + shape[len(index) :]
    return ArrayType(elem_of(t), rest) if rest else elem_of(t)


def mapped_types(width: Atom, lam: ir.Lambda) -> Types:
    """Types of `map lam`: accumulators as they are, everything else with an outer `width`."""
    return tuple([r.type if isinstance(r.type, AccType) else array_of(r.type, width) for r in lam.result])


def _fused(e: ir.Fused) -> Types:
    accs, scans, reduces, mapped = e.parts([r.type for r in e.lam.result])
    scanned = [array_of(t, e.width) for part in scans for t in part]
    return (*accs, *scanned, *[t for part in reduces for t in part], *[array_of(t, e.width) for t in mapped])


def _op(e: ir.Op) -> Types:
    return (OPS[e.op].result_type(cast(Any, atom_types(e.args))),)


def _rearrange(e: ir.Rearrange) -> Types:
    shape = shape_of(e.array.type)
    return (ArrayType(elem_of(e.array.type), tuple([shape[p] for p in e.perm])),)


def _concat(e: ir.Concat) -> Types:
    return (ArrayType(elem_of(e.arrays[0].type), (e.size, *shape_of(e.arrays[0].type)[1:])),)


def _matmul(e: ir.MatMul) -> Types:
    (m, k), (k2, n) = shape_of(e.a.type), shape_of(e.b.type)
    elem = elem_of(e.a.type)
    if any(p.type != ArrayType(elem, (m, n)) for p in e.plus):
        raise TypeError(f"{e.plus[0].type} is no array to add a product of {e.a.type} and {e.b.type} to")
    if k is not k2 or elem is not elem_of(e.b.type) or not elem.is_float:
        raise TypeError(f"no matrix product of {e.a.type} and {e.b.type}")
    return (ArrayType(elem, (m, n)),)


def _contraction(e: ir.Contraction) -> Types:
    elem = elem_of(e.a.type)
    if elem is not elem_of(e.b.type) or not elem.is_float:
        raise TypeError(f"no contraction of {e.a.type} and {e.b.type}")
    return (ArrayType(elem, e.sizes[: e.outs]),)


def _with_acc(e: ir.WithAcc) -> Types:
    k = len(e.arrays)
    return atom_types(e.arrays) + atom_types(e.lam.result[k:])


def _part(e: ir.Part) -> Types:
    t = index_type(e.acc.type, e.index)
    return (AccType(elem_of(t), shape_of(t)), e.acc.type)


def _many(e: ir.Jvp | ir.Vjp, of: ir.Atoms) -> Types:
    return tuple([array_of(a.type, *e.many) for a in of])


_RULES: dict[type, Callable[[Any], Types]] = {
    ir.Alias: lambda e: (e.atom.type,),
    ir.Op: _op,
    ir.At: lambda e: (index_type(e.array.type, e.index),),
    ir.Update: lambda e: (e.array.type,),
    ir.Iota: lambda e: (ArrayType(e.start.type, (e.count,)),),
    ir.Replicate: lambda e: (array_of(e.value.type, *e.shape),),
    ir.ArrayLit: lambda e: (array_of(e.type, i64(len(e.elems))),),
    ir.Concat: _concat,
    ir.Reshape: lambda e: (ArrayType(elem_of(e.array.type), e.shape),),
    ir.Rearrange: _rearrange,
    ir.ArgSort: lambda e: (e.keys.type,),
    ir.MatMul: _matmul,
    ir.Contraction: _contraction,
    ir.Copy: lambda e: (e.array.type,),
    ir.Scratch: lambda e: (ArrayType(e.elem, e.shape),),
    ir.Assert: lambda e: atom_types(e.of),
    ir.Trace: lambda e: (),
    ir.Measure: lambda e: (),
    ir.If: lambda e: atom_types(e.then.result),
    ir.Par: lambda e: atom_types(e.first.result + e.second.result),
    ir.For: lambda e: atom_types(e.inits),
    ir.While: lambda e: atom_types(e.inits),
    ir.Map: lambda e: mapped_types(e.width, e.lam),
    ir.Reduce: lambda e: atom_types(e.neutral),
    ir.Scan: lambda e: tuple([array_of(n.type, e.width) for n in e.neutral]),
    ir.Fused: _fused,
    ir.Scatter: lambda e: atom_types(e.dests),
    ir.Hist: lambda e: atom_types(e.dests),
    ir.WithAcc: _with_acc,
    ir.UpdateAcc: lambda e: (e.acc.type,),
    ir.Part: _part,
    ir.Whole: lambda e: (e.rest.type,),
    ir.Keep: lambda e: (REC,),
    ir.Jvp: lambda e: atom_types(e.lam.result) + _many(e, e.lam.result),
    ir.Vjp: lambda e: atom_types(e.lam.result) + _many(e, e.args),
    ir.WithVjp: lambda e: atom_types(e.lam.result),
    ir.WithJvp: lambda e: atom_types(e.lam.result),
    ir.WithInverse: lambda e: atom_types(e.lam.result),
    ir.Invert: lambda e: atom_types(e.lam.params),
}


def exp_types(e: ir.Exp) -> Types:
    """The result types of `e`.

    Raises KeyError for `Call` and `Kept`, whose types come from the callee and from who made the record.  For `If`,
    `For`, `While` and calls of unknown result size the types may mention variables of the inner scope: then the caller
    must write the pattern itself.
    """
    return _RULES[type(e)](e)
