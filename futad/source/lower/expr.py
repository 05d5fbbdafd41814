"""Lowering of expressions without control flow of their own: literals, records, let, indexing, updates."""

from __future__ import annotations

from functools import partial

from futad.core import ir
from futad.core.node import Range
from futad.core.types import (
    FALSE,
    I64,
    TRUE,
    U8,
    AccType,
    Atom,
    Const,
    Prim,
    Var,
    i64,
)
from futad.errors import Span
from futad.source import ast
from futad.source.lower.control import branch
from futad.source.lower.core import Lowerer, handles
from futad.source.lower.patterns import bind, constr_tag
from futad.source.lower.ranges import Slot, resolve_slots
from futad.source.lower.sizes import (
    bind_sizes,
    fields_of,
    fit,
    head,
    like,
    payload_name,
    placed_sizes,
    recast,
    size_atom,
    zero_value,
)
from futad.source.lower.values import (
    Arr,
    Fn,
    Frame,
    Leaf,
    Rec,
    Value,
    dims_of,
    has_function,
    in_order,
    inner,
    leaves,
    outer,
    rebuild,
)
from futad.source.paths import update_path
from futad.source.pretty import show_type
from futad.source.types import SType, TFun, TPrim, TRecord, TSum


def prim_of(lw: Lowerer, e: ast.Expr, fr: Frame) -> Prim:
    """The scalar type of an expression."""
    assert e.type is not None
    t, _ = head(e.type, fr)
    assert type(t) is TPrim, t
    return t.prim


@handles(ast.ELit)
def lower_lit(lw: Lowerer, e: ast.ELit, fr: Frame) -> Value:
    return Leaf(Const(e.suffix or prim_of(lw, e, fr), e.value))


@handles(ast.EString)
def lower_string(lw: Lowerer, e: ast.EString, fr: Frame) -> Value:
    if e.char:
        return Leaf(Const(prim_of(lw, e, fr), ord(e.value)))
    codes = tuple([Const(U8, c) for c in e.value.encode()])
    return Arr((i64(len(codes)),), Leaf(lw.b.let(ir.ArrayLit(codes, U8), "string")))


@handles(ast.ETuple)
def lower_tuple(lw: Lowerer, e: ast.ETuple, fr: Frame) -> Value:
    return Rec({str(i): lw.expr(x, fr) for i, x in enumerate(e.elems)})


@handles(ast.ERecord)
def lower_record(lw: Lowerer, e: ast.ERecord, fr: Frame) -> Value:
    return Rec(in_order({n: lw.expr(x, fr) for n, x in e.fields}))


@handles(ast.EArray)
def lower_array(lw: Lowerer, e: ast.EArray, fr: Frame) -> Value:
    assert e.type is not None
    if not e.elems:
        return zero_value(lw, e.type, fr)
    return array_literal(lw, [lw.expr(x, fr) for x in e.elems], e.elems[1:])


def array_literal(lw: Lowerer, elems: list[Value], places: list[ast.Expr]) -> Arr:
    """An array of equally shaped values; sizes not evidently equal to the first one's are checked."""
    first = elems[0]
    rest = zip(elems[1:], places, strict=True)
    rows = [first] + [like(lw, v, first, lw.check_span(x.span)) for v, x in rest]
    columns = zip(*[leaves(r) for r in rows], strict=True)
    made = [lw.b.let(ir.ArrayLit(tuple(c), c[0].type), "lit") for c in columns]
    return outer((i64(len(elems)),), rebuild(first, iter(made)))


# --- let, ascription, records ---------------------------------------------------------------------------


@handles(ast.ELet)
def lower_let(lw: Lowerer, e: ast.ELet, fr: Frame) -> Value:
    # A chain of lets is one loop, so that long bodies need no deep recursion.
    chain: list[ast.ELet] = []
    here: ast.Expr = e
    while type(here) is ast.ELet:
        chain.append(here)
        v = lw.expr(here.rhs, fr)
        assert here.pat.type is not None
        v = name_leaves(v, here.pat)
        bind_sizes(here.pat.type, v, fr)
        bind(lw, here.pat, fit(lw, here.pat.type, v, fr), fr)
        here = here.body
    out = lw.expr(here, fr)
    for node in reversed(chain):
        if node.new_sizes and node.type is not None:
            bind_sizes(node.type, out, fr)
    return out


def name_leaves(v: Value, p: ast.Pat) -> Value:
    """Give the variables that a plain name is bound to that name, if they have none of their own."""
    while type(p) is ast.PAscript or type(p) is ast.PAttr:
        p = p.pat
    if type(p) is ast.PVar:
        for a in leaves(v):
            if isinstance(a, Var) and a.name in ("t", "m", "e"):
                a.name = p.name
    return v


@handles(ast.EAscript)
def lower_ascript(lw: Lowerer, e: ast.EAscript, fr: Frame) -> Value:
    v = lw.expr(e.expr, fr)
    if e.type is None or type(v) is Fn:
        return v
    return fit(lw, e.type, v, fr)


@handles(ast.ECoerce)
def lower_coerce(lw: Lowerer, e: ast.ECoerce, fr: Frame) -> Value:
    v = lw.expr(e.expr, fr)
    assert e.type is not None
    return coerced(lw, e.type, v, fr, lw.check_span(e.span))


def coerced(lw: Lowerer, t: SType, v: Value, fr: Frame, check: Span | None) -> Value:
    """`v` with the sizes of `t`, which are checked; in a sum type those of the constructor that it is."""
    t, where = head(t, fr)
    if type(v) is not Rec or type(t) not in (TRecord, TSum):
        return fit(lw, t, v, where, check)
    parts = fields_of(t)
    if type(t) is TRecord:
        return Rec({n: coerced(lw, parts[n], f, where, check) for n, f in v.fields.items()})
    assert type(t) is TSum
    out = dict(v.fields)
    for name, args in t.constrs:
        for n in (payload_name(name, i) for i in range(len(args))):
            have, want = v.fields[n], parts[n]
            sizes = [size_atom(lw, p[0], p[1]) if p is not None else None for p in placed_sizes(want, have, where)]
            if all(s is None or s is d for s, d in zip(sizes, dims_of(have), strict=True)):
                out[n] = fit(lw, want, have, where)
                continue
            tag = v.fields["#"]
            assert type(tag) is Leaf
            out[n] = branch(
                lw,
                lw.b.scalar("eq", tag.atom, constr_tag(t, name)),
                partial(coerced, lw, want, have, where, check),
                partial(zero_value, lw, want, where),
                (want, where),
            )
    return Rec(out)


@handles(ast.EProject)
def lower_project(lw: Lowerer, e: ast.EProject, fr: Frame) -> Value:
    v = lw.expr(e.record, fr)
    assert type(v) is Rec, v
    return v.fields[e.field_name]


@handles(ast.ERecordUpdate)
def lower_record_update(lw: Lowerer, e: ast.ERecordUpdate, fr: Frame) -> Value:
    record = lw.expr(e.record, fr)
    new = lw.expr(e.value, fr)

    def go(v: Value, path: list[str]) -> Value:
        if not path:
            return new
        assert type(v) is Rec
        return Rec({n: go(f, path[1:]) if n == path[0] else f for n, f in v.fields.items()})

    return go(record, e.path)


@handles(ast.EConstr)
def lower_constr(lw: Lowerer, e: ast.EConstr, fr: Frame) -> Value:
    """A tag and the fields of all constructors, zeros where another one is meant."""
    assert e.type is not None
    t, where = head(e.type, fr)
    assert type(t) is TSum
    own = {f"#{e.name}.{i}": lw.expr(a, fr) for i, a in enumerate(e.args)}
    fields: dict[str, Value] = {"#": Leaf(constr_tag(t, e.name))}
    for n, ft in fields_of(t).items():
        fields[n] = own[n] if n in own else zero_value(lw, ft, where)
    return Rec(fields)


@handles(ast.EAssert)
def lower_assert(lw: Lowerer, e: ast.EAssert, fr: Frame) -> Value:
    """An assertion before its value, in two parts: `Assert` of true, which fails, and one of the parts of the value if
    that is true.  So it goes with these; it stays whatever is used if the value has functions or accumulators, or an
    i64, which types may mention as a size."""
    if lw.check_span(e.span) is None:
        return lw.expr(e.expr, fr)
    cond = lw.scalar(e.cond, fr)
    shown = lw.text_of(e.cond.span).replace("{}", "{ }")
    text = f"Assertion is false: {shown}" if shown else "Assertion is false."
    (holds,) = lw.b.emit(ir.Assert(cond, text, (), e.span, (TRUE,)), "holds")
    v = lw.expr(e.expr, fr)
    parts = leaves(v)
    if has_function(v) or any(a.type is I64 or type(a.type) is AccType for a in parts):
        lw.b.emit(ir.Assert(holds, "", (), e.span))
        return v
    if not parts:
        return v
    again = lw.b.emit(ir.Assert(holds, "", (), e.span, tuple(parts)), "claimed")
    lw.borrowed.update(b for a, b in zip(parts, again, strict=True) if a in lw.borrowed)
    return rebuild(v, iter(again))


@handles(ast.EHole)
def lower_hole(lw: Lowerer, e: ast.EHole, fr: Frame) -> Value:
    """An error at run time, and something of the type for what comes after; a function that is such a hole."""
    assert e.type is not None
    params: list[ast.Pat] = []
    t, where = head(e.type, fr)
    while type(t) is TFun:
        p = ast.PWild(e.span)
        p.type = t.param
        params.append(p)
        t, where = head(t.result, where)
    if params:
        body = ast.EHole(e.span)
        body.type = t
        return Fn(ast.ELambda(e.span, params, body), where, (), None, len(params))
    what = show_type(e.type).replace("{}", "{ }")
    lw.b.emit(ir.Assert(FALSE, f"Reached hole of type: {what}", (), e.span))
    return zero_value(lw, t, where)


@handles(ast.EProjSection)
def lower_proj_section(lw: Lowerer, e: ast.EProjSection, fr: Frame) -> Value:
    return Fn("#project." + ".".join(e.path), lw.root, (), None, 1)


# --- operators ------------------------------------------------------------------------------------------


@handles(ast.ENeg)
def lower_neg(lw: Lowerer, e: ast.ENeg, fr: Frame) -> Value:
    return Leaf(lw.b.scalar("neg", lw.scalar(e.arg, fr)))


@handles(ast.ENot)
def lower_not(lw: Lowerer, e: ast.ENot, fr: Frame) -> Value:
    return Leaf(lw.b.scalar("not", lw.scalar(e.arg, fr)))


# --- indexing -------------------------------------------------------------------------------------------


@handles(ast.EIndex)
def lower_index(lw: Lowerer, e: ast.EIndex, fr: Frame) -> Value:
    array = lw.expr(e.array, fr)
    assert type(array) is Arr, array
    index = resolve_slots(lw, array.dims, slots_of(lw, e.index, fr), e.span)
    v = index_value(lw, array, index, lw.check_span(e.span))
    if e.new_sizes and e.type is not None:
        bind_sizes(e.type, v, fr)
    return v


@handles(ast.EIndexSection)
def lower_index_section(lw: Lowerer, e: ast.EIndexSection, fr: Frame) -> Value:
    """`(.[i])` as a lambda over the parameter that its type gives."""
    parts: list[Value] = []
    form: list[str] = []
    for i in e.index:
        if isinstance(i, ast.ESlice):
            for letter, x in (("s", i.start), ("e", i.end), ("t", i.stride)):
                if x is not None:
                    form.append(letter)
                    parts.append(Leaf(lw.index(x, fr)))
            form.append(":")
        else:
            form.append("i")
            parts.append(Leaf(lw.index(i, fr)))
    return Fn("#index." + "".join(form), lw.root, tuple(parts), None, len(parts) + 1)


def slots_of(lw: Lowerer, index: list[ast.Expr | ast.ESlice], fr: Frame) -> list[Atom | Slot]:
    """The atoms of an index; a slice is (start, end, stride), None where left out."""
    slots: list[Atom | Slot] = []
    for i in index:
        if isinstance(i, ast.ESlice):
            start, end, stride = [None if x is None else lw.index(x, fr) for x in (i.start, i.end, i.stride)]
            slots.append((start, end, stride))
        else:
            slots.append(lw.index(i, fr))
    return slots


def index_value(lw: Lowerer, array: Arr, index: list[Atom | Range], check: Span | None) -> Value:
    """The part of an array that an index keeps."""
    kept = tuple([i.count for i in index if type(i) is Range])
    rest = inner(array, len(index))
    tree: Value = outer(kept, rest) if kept else rest
    made = [lw.b.at(a, *index, check=check) for a in leaves(array)]
    return rebuild(tree, iter(made))


# --- updates ----------------------------------------------------------------------------------------------

@handles(ast.EUpdate)
def lower_update(lw: Lowerer, e: ast.EUpdate, fr: Frame) -> Value:
    # Index and value may read what computing `e.array` consumes: they come first.
    path, new = update_path(e)
    steps: list[Placed] = [s if isinstance(s, tuple) else slots_of(lw, s, fr) for s in path]
    value = lw.expr(new, fr)
    return put(lw, lw.owned(lw.expr(e.array, fr)), steps, [], value, e)


Placed = list[Atom | Slot] | tuple[str, ...]


def put(
    lw: Lowerer, v: Value, steps: list[Placed], prefix: list[Atom | Range], value: Value, e: ast.EUpdate
) -> Value:
    """`v` with `value` at the end of the steps; its leaves are whole arrays, of which `v` is at `prefix`."""
    if steps and type(steps[0]) is tuple:
        assert type(v) is Rec
        name, *rest = steps[0]
        deeper: list[Placed] = [tuple(rest), *steps[1:]] if rest else steps[1:]
        new = put(lw, v.fields[name], deeper, prefix, value, e)
        return Rec({n: new if n == name else f for n, f in v.fields.items()})
    if steps:
        assert type(v) is Arr and type(steps[0]) is list
        index = resolve_slots(lw, v.dims, steps[0], e.span)
        new = put(lw, inner(v, len(index)), steps[1:], prefix + index, value, e)
        return rebuild(v, iter(leaves(new)))
    kept = [i.count for i in prefix if type(i) is Range]
    value = recast(lw, value, kept + dims_of(v), lw.check_span(e.value.span) if kept else None)
    made = [
        lw.b.let(ir.Update(a, tuple(prefix), x, lw.check_span(e.span)), a.name if isinstance(a, Var) else "u")
        for a, x in zip(leaves(v), leaves(value), strict=True)
    ]
    return rebuild(v, iter(made))
