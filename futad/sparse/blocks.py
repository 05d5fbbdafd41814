"""The two programs of local blocks (`local.py`), and how a matrix is made of what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from futad.api.bind import Bound
from futad.api.executable import Executable
from futad.api.program import Function
from futad.core import ir
from futad.core.calls import reached
from futad.core.types import I64, Prim, Var, elem_of, shape_of
from futad.errors import InternalError
from futad.pipeline import compile_program
from futad.runtime.structure import count_leaves
from futad.sparse.colours import Pattern
from futad.sparse.local import Blocks, Cannot

# What makes bodies of maps simple, but takes no derivatives and makes nothing that has none.
PASSES = (
    "in-order", "simplify", "bounded", "tail-calls", "inline", "simplify-inlined", "asserts", "simplify-asserts",
    "narrow", "simplify-narrow", "compactions", "simplify-compactions", "views", "fuse", "simplify-fused",
)  # fmt: skip
_OTHER = (ir.Jvp, ir.Vjp, ir.WithVjp, ir.WithInverse, ir.Invert, ir.Call, ir.Trace)


@dataclass(frozen=True, slots=True)
class Local:
    """The programs: `columns` gives how many iterations each part has, and the columns of all elements; `values`
    these.  `widths`: by part how many elements the rows of an iteration have."""

    columns: Function
    values: Function
    widths: tuple[tuple[int, ...], ...]
    by_values: bool  # whether columns depend on numbers

    def plan(self, leaves: Sequence[Any], shape: tuple[int, int]) -> LocalPlan:
        """How the matrix of that shape is made at arguments like these."""
        iterations, column = self.columns.call_leaves(leaves)
        each = [np.tile(np.array(w, np.int64), int(k)) for w, k in zip(self.widths, iterations, strict=True)]
        in_row = np.concatenate(each) if each else np.zeros(0, np.int64)
        if len(in_row) != shape[0] or in_row.sum() != len(column):
            raise InternalError("blocks of a Jacobian have other rows than the result")
        row = np.repeat(np.arange(shape[0]), in_row)
        order, starts = None, None
        same_row = row[1:] == row[:-1]
        if not (column[1:] > column[:-1])[same_row].all():
            order = np.lexsort((column, row))
            row, column = row[order], column[order]
            new = np.concatenate([[True], (row[1:] != row[:-1]) | (column[1:] != column[:-1])])
            if not new.all():  # elements that are read twice in an iteration
                starts = np.flatnonzero(new)
                row, column = row[starts], column[starts]
        narrow = np.int32 if max(len(column), *shape) < 2**31 else np.int64
        ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0]))])
        data = np.ones(len(column), bool)
        pattern = scipy.sparse.csr_array((data, column.astype(narrow), ends.astype(narrow)), shape=shape)
        return LocalPlan(self, pattern, order, starts)


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """How the elements of a pattern are computed: those of all parts, in this order, equal places added."""

    of: Local
    pattern: Pattern
    order: np.ndarray[Any, Any] | None
    starts: np.ndarray[Any, Any] | None

    @property
    def report(self) -> str:
        """How the elements are computed."""
        most = max([w for widths in self.of.widths for w in widths], default=0)
        return f"blocks of each iteration, {most} element{'s' * (most != 1)} a row"

    def values(self, leaves: Sequence[Any]) -> np.ndarray[Any, Any]:
        """The elements at a point, in the order of the pattern."""
        data: np.ndarray[Any, Any]
        (data,) = self.of.values.call_leaves(leaves)
        if self.order is not None:
            data = data[self.order]
        return data if self.starts is None else np.add.reduceat(data, self.starts)


def local(f: Function, active: tuple[int, ...]) -> Local | None:
    """The local blocks of the Jacobian of f with respect to arguments; None if there are none."""
    if isinstance(f, Bound):
        inner = local(f.of, tuple([f.free[i] for i in active]))
        if inner is None:
            return None
        return Local(Bound(inner.columns, f.given), Bound(inner.values, f.given), inner.widths, inner.by_values)
    made: Local | None = f.derived(("local", active), lambda: _local(f, active))
    return made


def _local(f: Function, active: tuple[int, ...]) -> Local | None:
    of = f.executable
    if any(f.entry.unique) or of.engine != "transform":
        return None
    core = of.core
    alone = ir.Program({name: core.funs[name] for name in reached(core, [f.symbol])}, core.name)
    fun = compile_program(alone, passes=PASSES).funs[f.symbol]
    if any(isinstance(s.exp, _OTHER) for s in ir.statements(fun.body.stms)):
        return None
    owners = [i for i, (_, t) in enumerate(f.entry.params) for _ in range(count_leaves(t))]
    params = list(zip(fun.body.params[fun.num_sizes :], owners, strict=True))
    leaves = [p for i in active for p, owner in params if owner == i and _is_float(p)]
    try:
        columns, values = Blocks(fun, leaves, columns=True), Blocks(fun, leaves, columns=False)
    except Cannot:
        return None
    widths = tuple([tuple(p.widths) for p in columns.parts])
    numbers = _program(f, fun, columns, "columns")
    return Local(
        Function(_executable(f, numbers), "columns"),
        Function(_executable(f, _program(f, fun, values, "values")), "values"),
        widths,
        _reads_floats(numbers),
    )


def _executable(f: Function, program: ir.Program) -> Executable:
    of = f.executable
    return Executable(program, of.requested, of.check, of.texts, of.budget, of.schedule)


def _program(f: Function, fun: ir.Fun, blocks: Blocks, name: str) -> ir.Program:
    """The program that computes the parts; for columns how many iterations each has before them."""
    b, params = blocks.b, blocks.params
    results: list[Any] = []
    types: list[ir.EntryType] = []
    entries = blocks.entries()
    if blocks.columns:
        iterations = tuple([p.iterations for p in blocks.parts])
        results.append(b.let(ir.ArrayLit(iterations, I64), "iterations"))
        types.append(_array(I64, len(iterations)))
    (size,) = shape_of(entries.type)
    if isinstance(size, Var) and size not in params:
        results.append(size)
    results.append(entries)
    types.append(_array(elem_of(entries.type), None))
    text = "(" + ", ".join([t.text for t in types]) + ")"
    shown = ir.EntryType("tuple", text, None, (), tuple([(str(i), t) for i, t in enumerate(types)]))
    entry = ir.Entry(f"{name} of the Jacobian of {f.__name__}", f.entry.params, shown)
    mapping: dict[Var, Any] = {}
    ret = []
    for a in results:
        v = ir.Renamer(mapping).bind(a)
        mapping[a] = v
        ret.append(v)
    body = ir.Lambda(params, tuple(b.stms), tuple(results))
    return ir.Program({name: ir.Fun(name, body, fun.num_sizes, tuple(ret), entry)}, name)


def _array(elem: Prim, size: int | None) -> ir.EntryType:
    return ir.EntryType("array", f"[{'' if size is None else size}]{elem.name}", elem, (size,))


def _reads_floats(program: ir.Program) -> bool:
    """Whether what a program computes depends on floating-point arguments."""
    (fun,) = compile_program(program, passes=PASSES).funs.values()
    numbers = {p for p in fun.body.params if _is_float(p)}
    return any(v in numbers for s in fun.body.stms for v in ir.stm_free(s))


def _is_float(v: Var) -> bool:
    return elem_of(v.type).is_float


__all__ = ["Local", "LocalPlan", "local"]
