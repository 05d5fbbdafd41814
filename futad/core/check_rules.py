"""The checker's rules: one per node class, given the checker, the expression and its statement.

A rule checks operands and nested scopes.  It returns None if the type rule of `type_rules.py` gives the pattern's
types, else the results that the pattern must fit, whose sizes the pattern may bind itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.core import ir
from futad.core.checker import RULES, Checker, Existential, fail, rule
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.type_rules import exp_types, index_type
from futad.core.types import (
    BOOL,
    I64,
    MOST_SHOWN,
    REC,
    AccType,
    ArrayType,
    Atom,
    Prim,
    Type,
    Var,
    array_of,
    elem_of,
    row_type,
    shape_of,
    subst_type,
)


def _no_more(c: Checker, e: Any, s: ir.Stm) -> Existential:
    return None


for _cls in (ir.Alias, ir.Copy):
    RULES[_cls] = _no_more


@rule(ir.Op)
def _op(c: Checker, e: ir.Op, s: ir.Stm) -> Existential:
    if e.op not in OPS:
        fail(f"unknown operation {e.op}")
    try:
        exp_types(e)
    except TypeError as err:
        fail(str(err))
    return None


def _index(c: Checker, array: Atom, index: ir.Index) -> Type:
    if type(array.type) is not ArrayType:
        fail(f"{array!r} is indexed but is not an array")
    if len(index) > array.type.rank:
        fail(f"{len(index)} indices into {array!r} of type {array.type!r}")
    for i in index:
        for a in (i.start, i.count, i.stride) if isinstance(i, Range) else (i,):
            c.is_a("index", a, I64)
    return index_type(array.type, index)


@rule(ir.At)
def _at(c: Checker, e: ir.At, s: ir.Stm) -> Existential:
    _index(c, e.array, e.index)
    return None


@rule(ir.Update)
def _update(c: Checker, e: ir.Update, s: ir.Stm) -> Existential:
    c.is_a("value", e.value, _index(c, e.array, e.index))
    return None


@rule(ir.Iota)
def _iota(c: Checker, e: ir.Iota, s: ir.Stm) -> Existential:
    c.is_a("count", e.count, I64)
    if type(e.start.type) is not Prim or e.start.type is BOOL:
        fail(f"iota of {e.start.type!r}")
    c.is_a("step", e.step, e.start.type)
    return None


def _shape(c: Checker, shape: ir.Atoms) -> None:
    for a in shape:
        c.is_a("size", a, I64)


@rule(ir.Replicate)
def _replicate(c: Checker, e: ir.Replicate, s: ir.Stm) -> Existential:
    _shape(c, e.shape)
    if not e.shape:
        fail("replicate over no dimensions")
    return None


@rule(ir.ArrayLit)
def _array_lit(c: Checker, e: ir.ArrayLit, s: ir.Stm) -> Existential:
    c.type_(e.type)
    for a in e.elems:
        c.is_a("element", a, e.type)
    return None


@rule(ir.Concat)
def _concat(c: Checker, e: ir.Concat, s: ir.Stm) -> Existential:
    if not e.arrays:
        fail("concat of nothing")
    first = row_type(e.arrays[0].type)
    for a in e.arrays:
        c.same(f"row of {a!r}", row_type(a.type), first)
    c.is_a("size", e.size, I64)
    return None


@rule(ir.Reshape)
def _reshape(c: Checker, e: ir.Reshape, s: ir.Stm) -> Existential:
    if type(e.array.type) is not ArrayType or not e.shape:
        fail("reshape of or to a scalar")
    _shape(c, e.shape)
    return None


@rule(ir.Rearrange)
def _rearrange(c: Checker, e: ir.Rearrange, s: ir.Stm) -> Existential:
    if sorted(e.perm) != list(range(len(shape_of(e.array.type)))):
        fail(f"{e.perm} does not permute the dimensions of {e.array!r}")
    return None


@rule(ir.ArgSort)
def _argsort(c: Checker, e: ir.ArgSort, s: ir.Stm) -> Existential:
    if len(shape_of(e.keys.type)) != 1 or elem_of(e.keys.type) is not I64:
        fail(f"{e.keys!r} of type {e.keys.type!r} are no keys")
    c.is_a("bound", e.bound, I64)
    return None


@rule(ir.MatMul)
def _matmul(c: Checker, e: ir.MatMul, s: ir.Stm) -> Existential:
    return None


@rule(ir.Contraction)
def _contraction(c: Checker, e: ir.Contraction, s: ir.Stm) -> Existential:
    _shape(c, e.sizes)
    if not 0 < e.outs <= len(e.sizes):
        fail(f"{e.outs} of {len(e.sizes)} axes are the result's")
    for f in e.factors:
        rank = len(shape_of(f.array.type))
        if len(f.start) != rank or len(f.steps) != rank or any(len(steps) != len(e.sizes) for steps in f.steps):
            fail(f"no place in {f.array!r} of type {f.array.type!r}")
        for a in f.start:
            c.is_a("start", a, I64)
        for steps in f.steps:
            for a in steps:
                c.is_a("step", a, I64)
    return None


@rule(ir.Scratch)
def _scratch(c: Checker, e: ir.Scratch, s: ir.Stm) -> Existential:
    _shape(c, e.shape)
    return None


@rule(ir.Assert)
def _assert(c: Checker, e: ir.Assert, s: ir.Stm) -> Existential:
    c.is_a("condition", e.cond, BOOL)
    if e.message.count("{}") != len(e.values) or any(type(a.type) is not Prim for a in e.values):
        fail("the values do not fit the message")
    if len(e.values) > MOST_SHOWN:
        fail("an assertion shows more values than compiled programs report")
    if any(type(a.type) is AccType for a in e.of):
        fail("an accumulator under an assertion")
    return None


@rule(ir.Trace)
def _trace(c: Checker, e: ir.Trace, s: ir.Stm) -> Existential:
    if type(e.value.type) is AccType:
        fail("an accumulator has no value to show")
    return None


@rule(ir.Measure)
def _measure(c: Checker, e: ir.Measure, s: ir.Stm) -> Existential:
    if len(e.names) != len(e.values) or any(a.type is not I64 for a in e.values):
        fail("a measure has i64 numbers with a name each")
    return None


@rule(ir.If)
def _if(c: Checker, e: ir.If, s: ir.Stm) -> Existential:
    c.is_a("condition", e.cond, BOOL)
    if e.then.params or e.orelse.params:
        fail("a branch with parameters")
    accs, dead = set(c.accs), dict(c.dead)
    c.lam(e.then, once=True)
    after, killed = c.accs, c.dead
    c.accs, c.dead = accs, dead
    c.lam(e.orelse, once=True)
    if c.accs != after:
        fail("the branches use different accumulators")
    c.dead = {**killed, **c.dead}
    return [e.then.result, e.orelse.result]


@rule(ir.Par)
def _par(c: Checker, e: ir.Par, s: ir.Stm) -> Existential:
    if e.first.params or e.second.params:
        fail("a task with parameters")
    c.lam(e.first, adds=True)
    c.lam(e.second, adds=True)
    return [e.first.result + e.second.result]


def _loop(c: Checker, s: ir.Stm, body: ir.Lambda, params: tuple[Var, ...], inits: ir.Atoms) -> Existential:
    if len(params) != len(inits):
        fail(f"{len(inits)} initial values for {len(params)} loop variables")
    c.lam(body)
    c.existential("initial value", params, inits)
    c.existential("loop result", params, body.result)
    if len(s.pat) != len(params):
        fail(f"binds {len(s.pat)} variables for {len(params)} loop variables")
    mapping: dict[Var, Atom] = dict(zip(params, s.pat, strict=True))
    for v, p in zip(s.pat, params, strict=True):
        want = subst_type(p.type, mapping)
        if not c.equal(v.type, want):
            fail(f"{v!r} has type {v.type!r}, not the loop variable's {want!r}")
    return []


@rule(ir.For)
def _for(c: Checker, e: ir.For, s: ir.Stm) -> Existential:
    if type(e.bound.type) is not Prim or not e.bound.type.is_integral:
        fail(f"bound {e.bound!r} is not an integer")
    if not e.body.params:
        fail("a loop body without an index")
    c.is_a("loop index", e.body.params[0], e.bound.type)
    return _loop(c, s, e.body, e.body.params[1:], e.inits)


@rule(ir.While)
def _while(c: Checker, e: ir.While, s: ir.Stm) -> Existential:
    if not e.inits:
        fail("a while loop without a condition")
    c.is_a("condition", e.inits[0], BOOL)
    return _loop(c, s, e.body, e.body.params, e.inits)


@rule(ir.Call)
def _call(c: Checker, e: ir.Call, s: ir.Stm) -> Existential:
    f = c.done.get(e.name) or c.recursive(e.name)
    if f is None:
        fail(f"function {e.name} is not defined before its call")
    c.called[e.name] = f
    c.existential("argument", f.body.params, e.args)
    mapping: dict[Var, Atom] = dict(zip(f.body.params, e.args, strict=True))
    if len(s.pat) != len(f.ret):
        fail(f"binds {len(s.pat)} variables for {len(f.ret)} results")
    mapping.update(zip(f.ret, s.pat, strict=True))
    for v, r in zip(s.pat, f.ret, strict=True):
        c.same(f"{v!r}", v.type, subst_type(r.type, mapping))
    return []


@rule(ir.Map)
def _map(c: Checker, e: ir.Map, s: ir.Stm) -> Existential:
    c.params(e.lam, c.rows(e.arrays, e.width))
    c.lam(e.lam)
    _accs_first(c, e.arrays, e.lam)
    return None


def _accs_first(c: Checker, arrays: ir.Atoms, lam: ir.Lambda) -> None:
    accs = [a.type for a in arrays if type(a.type) is AccType]
    for i, r in enumerate(lam.result):
        if i < len(accs):
            c.is_a("result", r, accs[i])
        elif type(r.type) is AccType:
            fail(f"accumulator {r!r} among the results that are not")
    if len(lam.result) < len(accs):
        fail("an accumulator is not returned")


@rule(ir.Reduce)
@rule(ir.Scan)
def _reduce(c: Checker, e: ir.Reduce | ir.Scan, s: ir.Stm) -> Existential:
    c.operator(e.lam, e.neutral, c.rows(e.arrays, e.width))
    return None


@rule(ir.Fused)
def _fused(c: Checker, e: ir.Fused, s: ir.Stm) -> Existential:
    c.params(e.lam, c.rows(e.arrays, e.width))
    c.lam(e.lam)
    _accs_first(c, e.arrays, e.lam)
    parts = e.parts([r.type for r in e.lam.result])
    for f, types in zip(e.folds, parts.scans + parts.reduces, strict=True):
        c.operator(f.lam, f.neutral, types)
    return None


def _by_index(c: Checker, e: ir.Scatter | ir.Hist) -> list[Type]:
    """Row types written."""
    if not e.idxs or len(e.dests) != len(e.values):
        fail("no indices, or as many values as destinations are not given")
    for t in c.rows(e.idxs, e.width):
        c.same("an index", t, I64)
    rows: list[Type] = []
    for d, t in zip(e.dests, c.rows(e.values, e.width), strict=True):
        if len(shape_of(d.type)) < len(e.idxs):
            fail(f"{len(e.idxs)} indices into {d!r} of type {d.type!r}")
        want = row_type(d.type, len(e.idxs))
        c.same(f"value for {d!r}", t, want)
        rows.append(want)
    return rows


@rule(ir.Scatter)
def _scatter(c: Checker, e: ir.Scatter, s: ir.Stm) -> Existential:
    _by_index(c, e)
    return None


@rule(ir.Hist)
def _hist(c: Checker, e: ir.Hist, s: ir.Stm) -> Existential:
    c.operator(e.lam, e.neutral, _by_index(c, e))
    return None


@rule(ir.WithAcc)
def _with_acc(c: Checker, e: ir.WithAcc, s: ir.Stm) -> Existential:
    if e.op != "add":
        fail(f"accumulators add, they cannot {e.op}")
    accs: list[Type] = [AccType(elem_of(a.type), shape_of(a.type)) for a in e.arrays]
    c.params(e.lam, accs)
    c.lam(e.lam, once=True)
    k = len(accs)
    for r, t in zip(e.lam.result[:k], accs, strict=True):
        c.is_a("result", r, t)
    if len(s.pat) != len(e.lam.result):
        fail(f"binds {len(s.pat)} variables for {len(e.lam.result)} results")
    for v, a in zip(s.pat, e.arrays, strict=False):
        c.same(f"{v!r}", v.type, a.type)
    # The arrays cannot be sizes, so the extra results alone are existential.
    return _extras(c, s.pat[k:], e.lam.result[k:])


def _extras(c: Checker, pat: Sequence[Var], results: ir.Atoms) -> Existential:
    c.existential("result", pat, results)
    return []


@rule(ir.UpdateAcc)
def _update_acc(c: Checker, e: ir.UpdateAcc, s: ir.Stm) -> Existential:
    t = e.acc.type
    if type(t) is not AccType:
        fail(f"{e.acc!r} is not an accumulator")
    if len(e.index) > len(t.shape):
        fail(f"{len(e.index)} indices into {t!r}")
    for a in e.index:
        c.is_a("index", a, I64)
    c.is_a("value", e.value, array_of(t.elem, *t.shape[len(e.index) :]))
    return None


@rule(ir.Part)
def _part(c: Checker, e: ir.Part, s: ir.Stm) -> Existential:
    t = e.acc.type
    if type(t) is not AccType:
        fail(f"{e.acc!r} is not an accumulator")
    if len(e.index) > len(t.shape):
        fail(f"{len(e.index)} indices into {t!r}")
    for i in e.index:
        for a in (i.start, i.count, i.stride) if isinstance(i, Range) else (i,):
            c.is_a("index", a, I64)
    return None


@rule(ir.Whole)
def _whole(c: Checker, e: ir.Whole, s: ir.Stm) -> Existential:
    for a in (e.part, e.rest):
        if type(a.type) is not AccType:
            fail(f"{a!r} is not an accumulator")
    return None


@rule(ir.Keep)
def _keep(c: Checker, e: ir.Keep, s: ir.Stm) -> Existential:
    if any(type(a.type) is AccType for a in e.values):
        fail("an accumulator in a record")
    return None


@rule(ir.Kept)
def _kept(c: Checker, e: ir.Kept, s: ir.Stm) -> Existential:
    c.is_a("record", e.record, REC)
    if not s.pat or any(type(v.type) is AccType for v in s.pat):
        fail("a record has values, none of them an accumulator")
    return []


@rule(ir.Jvp)
@rule(ir.Vjp)
def _derivative(c: Checker, e: ir.Jvp | ir.Vjp, s: ir.Stm) -> Existential:
    c.existential("argument", e.lam.params, e.args)
    c.lam(e.lam)
    k = len(e.lam.result)
    if isinstance(e, ir.Jvp):
        directions, of = e.tangents, e.args
    else:
        directions, of = e.adjoints, e.lam.result
    if len(directions) != len(of):
        fail(f"{len(directions)} directions for {len(of)}")
    for d, a in zip(directions, of, strict=True):
        # Sizes of results known only inside cannot be compared.
        t = array_of(a.type, *e.many)
        if elem_of(d.type) is not elem_of(t) or len(shape_of(d.type)) != len(shape_of(t)):
            c.is_a("direction", d, t)
    rest = e.lam.result if isinstance(e, ir.Jvp) else e.args
    if len(s.pat) != k + len(rest):
        fail(f"binds {len(s.pat)} variables for {k + len(rest)} results")
    c.existential("result", s.pat[:k], e.lam.result)
    mapping: dict[Var, Atom] = dict(zip(s.pat[:k], e.lam.result, strict=True))
    for v, a in zip(s.pat[k:], rest, strict=True):
        t = array_of(a.type, *e.many)
        c.same(f"{v!r}", v.type if isinstance(e, ir.Vjp) else subst_type(v.type, mapping), t)
    return []


@rule(ir.WithVjp)
def _custom(c: Checker, e: ir.WithVjp, s: ir.Stm) -> Existential:
    c.existential("argument", e.lam.params, e.args)
    c.lam(e.lam)
    c.lam(e.pull)
    n = len(e.lam.result)
    if not n <= len(e.pull.params) <= 2 * n:
        fail(f"a derivative of {len(e.pull.params)} parameters for {n} results")
    given = (*e.lam.result, *e.lam.result[2 * n - len(e.pull.params) :])
    for p, a in zip(e.pull.params, given, strict=True):
        c.same(f"{p!r}", p.type, a.type)
    if len(e.pull.result) != len(e.args):
        fail(f"{len(e.pull.result)} adjoints for {len(e.args)} arguments")
    for r, a in zip(e.pull.result, e.args, strict=True):
        c.same("adjoint", r.type, a.type)
    return None


@rule(ir.WithJvp)
def _own_tangents(c: Checker, e: ir.WithJvp, s: ir.Stm) -> Existential:
    c.existential("argument", e.lam.params, e.args)
    c.lam(e.lam)
    c.lam(e.push)
    for what, given, of in (("parameter", e.push.params, e.args * 2), ("tangent", e.push.result, e.lam.result)):
        if len(given) != len(of):
            fail(f"a derivative with {len(given)} {what}s for {len(of)}")
        for x, a in zip(given, of, strict=True):
            c.same(what, x.type, a.type)
    return None


@rule(ir.Invert)
def _invert(c: Checker, e: ir.Invert, s: ir.Stm) -> Existential:
    c.lam(e.lam)
    if len(e.args) != len(e.lam.result):
        fail(f"{len(e.args)} values for {len(e.lam.result)} results")
    for r, a in zip(e.lam.result, e.args, strict=True):
        c.same("result", r.type, a.type)
    return None


@rule(ir.WithInverse)
def _inverse(c: Checker, e: ir.WithInverse, s: ir.Stm) -> Existential:
    c.existential("argument", e.lam.params, e.args)
    c.lam(e.lam)
    c.lam(e.back)
    for what, scope, of in (("result", e.back.params, e.lam.result), ("argument", e.back.result, e.args)):
        if len(scope) != len(of):
            fail(f"an inverse with {len(scope)} {what}s for {len(of)}")
        for x, a in zip(scope, of, strict=True):
            c.same(what, x.type, a.type)
    return None
