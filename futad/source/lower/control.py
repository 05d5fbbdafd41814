"""Lowering of branches, matches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from futad.core import ir
from futad.core.budget import PLACE
from futad.core.scalarops import OPS
from futad.core.types import BOOL, FALSE, I64, TRUE, ArrayType, Atom, Const, Var
from futad.source import ast
from futad.source.lower.core import Lowerer, TypeAt, handles, lam_of
from futad.source.lower.patterns import bind, matches, pattern_value, pattern_vars
from futad.source.lower.scope import Scope
from futad.source.lower.sizes import Placed, bind_sizes, hoist_size, placed_sizes, recast, size_atom
from futad.source.lower.values import (
    Arr,
    Frame,
    Leaf,
    Rec,
    Value,
    dims_of,
    has_function,
    inner,
    leaves,
    rebuild,
    scalar,
    typed_vars,
)
from futad.source.types import Binding, SizeVar

Branch = Callable[[], Value]


@handles(ast.EIf)
def lower_if(lw: Lowerer, e: ast.EIf, fr: Frame) -> Value:
    cond = lw.scalar(e.cond, fr)
    rt = (e.type, fr) if e.type is not None else None
    v = branch(lw, cond, lambda: lw.expr(e.then, fr), lambda: lw.expr(e.orelse, fr), rt)
    if e.new_sizes and e.type is not None:
        bind_sizes(e.type, v, fr)
    return v


def branch(lw: Lowerer, cond: Atom, then: Branch, orelse: Branch, rt: TypeAt | None) -> Value:
    """One of two values.  Sizes on which the branches differ are results of the `If`, before the values."""
    if type(cond) is Const:
        return then() if cond.value else orelse()
    scopes = (lw.new_scope(), lw.new_scope())
    with lw.within(scopes[0]):
        x = then()
    with lw.within(scopes[1]):
        y = orelse()
    if has_function(x):
        raise lw.broken("a branch that yields a function")
    known, unknown = agree(lw, scopes, (x, y), rt)
    results: list[list[Atom]] = []
    for s, v, side in ((scopes[0], x, 0), (scopes[1], y, 1)):
        with lw.within(s):
            want = [k if k is not None else d for k, d in zip(known, dims_of(v), strict=True)]
            results.append([pair[side] for pair in unknown] + leaves(recast(lw, v, want)))
    size_vars = {pair: Var("n", I64) for pair in unknown}
    pairs = zip(dims_of(x), dims_of(y), strict=True)
    dims: list[Atom] = [k if k is not None else size_vars[p] for k, p in zip(known, pairs, strict=True)]
    v, fresh = typed_vars(x, "b", dims)
    if not unknown and not fresh and not any(s.stms for s in scopes):
        return v
    bodies = [lam_of(s, (), r) for s, r in zip(scopes, results, strict=True)]
    lw.b.emit_pat((*size_vars.values(), *fresh), ir.If(cond, *bodies))
    return v


def agree(
    lw: Lowerer, scopes: tuple[Scope, Scope], values: tuple[Value, Value], rt: TypeAt | None
) -> tuple[list[Atom | None], list[tuple[Atom, Atom]]]:
    """For each size of the two values the atom both agree on (None if unknown), and the unknown pairs."""
    xs, ys = dims_of(values[0]), dims_of(values[1])
    places = placed_sizes(rt[0], values[0], rt[1]) if rt is not None else [None] * len(xs)
    known: list[Atom | None] = []
    unknown: dict[tuple[Atom, Atom], None] = {}
    for x, y, place in zip(xs, ys, places, strict=True):
        hx, hy = hoist_size(lw, x, scopes[0]), hoist_size(lw, y, scopes[1])
        atom = hx if hx is hy else None
        if atom is None and place is not None:
            atom = size_atom(lw, *place)
        known.append(atom)
        if atom is None:
            unknown[(x, y)] = None
    return known, list(unknown)


def cheap(scope: Scope) -> bool:
    """Whether evaluating the scope's statements costs little and cannot fail."""
    if len(scope.stms) > 4:
        return False
    ops = [OPS[s.exp.op] if type(s.exp) is ir.Op else None for s in scope.stms]
    return all(o is not None and not o.can_fail and o.cost <= 2 for o in ops)


def short_circuit(lw: Lowerer, left: Atom, right: Branch, is_and: bool) -> Value:
    """`&&` and `||`: an `If`, or a plain operation where the right side is cheap and cannot fail."""
    scope = lw.new_scope()
    with lw.within(scope):
        r = scalar(right())
    name = "and" if is_and else "or"
    if cheap(scope):
        for s in scope.stms:
            lw.b.emit_pat(s.pat, s.exp)
        return Leaf(lw.b.scalar(name, left, r))
    other = lam_of(Scope(), (), [FALSE if is_and else TRUE])
    mine = lam_of(scope, (), [r])
    bodies = (mine, other) if is_and else (other, mine)
    return Leaf(lw.b.let(ir.If(left, *bodies), "c"))


@handles(ast.EAnd)
def lower_and(lw: Lowerer, e: ast.EAnd, fr: Frame) -> Value:
    return short_circuit(lw, lw.scalar(e.left, fr), lambda: lw.expr(e.right, fr), True)


@handles(ast.EOr)
def lower_or(lw: Lowerer, e: ast.EOr, fr: Frame) -> Value:
    return short_circuit(lw, lw.scalar(e.left, fr), lambda: lw.expr(e.right, fr), False)


@handles(ast.EMatch)
def lower_match(lw: Lowerer, e: ast.EMatch, fr: Frame) -> Value:
    """A chain of branches; inference has shown that the last case that is reached matches."""
    v = lw.expr(e.scrutinee, fr)
    rt = (e.type, fr) if e.type is not None else None

    def case(i: int) -> Value:
        pat, body = e.cases[i]
        if i == len(e.cases) - 1:
            bind(lw, pat, v, fr)
            return lw.expr(body, fr)
        ok = matches(lw, pat, v, fr)

        def taken() -> Value:
            bind(lw, pat, v, fr)
            return lw.expr(body, fr)

        return branch(lw, ok, taken, lambda: case(i + 1), rt)

    out = case(0)
    if e.new_sizes and e.type is not None:
        bind_sizes(e.type, out, fr)
    return out


# --- loops ----------------------------------------------------------------------------------------------


@handles(ast.ELoop)
def lower_loop(lw: Lowerer, e: ast.ELoop, fr: Frame) -> Value:
    return loop(lw, e, fr, ())


def loop(lw: Lowerer, e: ast.ELoop, fr: Frame, attrs: tuple[Any, ...]) -> Value:
    """The loop variables of the core loop are the sizes that vary, then the leaves of the source's.

    A while loop's first variable is its condition, computed at entry and at the end of the body.
    """
    init = lw.expr(e.init, fr) if e.init is not None else pattern_value(e.pat, fr)
    assert e.pat.type is not None
    frame = Frame(fr)
    own: list[Binding] = []
    places = placed_sizes(e.pat.type, init, fr, own=own)
    varying = {*e.size_bindings, *e.loop_sizes, *own}
    first_at: dict[Binding, int] = {}
    want: list[Atom] = []
    for i, (place, d) in enumerate(zip(places, dims_of(init), strict=True)):
        want.append(d)
        if place is None:
            continue
        s, where = place
        if type(s) is SizeVar and s.binding in varying:
            first_at.setdefault(s.binding, i)
        else:
            atom = size_atom(lw, s, where)
            want[i] = d if atom is None else atom
    init = recast(lw, init, want)
    params, size_params, value = loop_params(e, places, init, first_at)
    for b, v in size_params.items():
        frame.vals[b] = Leaf(v)
    inits: list[Atom] = [want[i] for i in first_at.values()] + leaves(init)
    form = e.form
    if isinstance(form, ast.WhileForm):
        entry = Frame(fr)
        for b, i in first_at.items():
            entry.vals[b] = Leaf(want[i])
        bind(lw, e.pat, init, entry)
        go = lw.scalar(form.cond, entry)
        inits.insert(0, go)
        params.insert(0, Var("go", BOOL))
        head_params: list[Var] = []
    elif isinstance(form, ast.ForI):
        bound = lw.scalar(form.bound, fr)
        head_params = [Var(form.var.name, bound.type)]
    else:
        array = lw.expr(form.array, fr)
        assert isinstance(array, Arr)
        bound = array.dims[0]
        head_params = [Var("i", I64)]
    # What changes its size from iteration to iteration is in memory.
    lw.stored_sizes.update(n for p in params if type(p.type) is ArrayType for n in p.type.shape if n in params)
    scope = lw.new_scope(head_params + params)
    with lw.within(scope):
        bind(lw, e.pat, value, frame)
        if isinstance(form, ast.ForI):
            assert form.var.binding is not None
            frame.vals[form.var.binding] = Leaf(head_params[0])
        elif isinstance(form, ast.ForIn):
            assert isinstance(array, Arr)
            row = rebuild(inner(array), iter([lw.b.at(a, head_params[0]) for a in leaves(array)]))
            if form.pat.type is not None:
                bind_sizes(form.pat.type, row, frame)
            bind(lw, form.pat, row, frame)
        out = lw.expr(e.body, frame)
        new_sizes = [dims_of(out)[i] for i in first_at.values()]
        loose = _varying_places(places, first_at)
        pairs = enumerate(zip(dims_of(out), dims_of(value), strict=True))
        kept = [d if i in loose else w for i, (d, w) in pairs]
        out = recast(lw, out, kept)
        result: list[Atom] = new_sizes + leaves(out)
        if isinstance(form, ast.WhileForm):
            last = Frame(fr)
            for b, n in zip(first_at, new_sizes, strict=True):
                last.vals[b] = Leaf(n)
            bind(lw, e.pat, out, last)
            result.insert(0, lw.scalar(form.cond, last))
    body = lam_of(scope, head_params + params, result)
    exp: ir.Exp
    if isinstance(form, ast.WhileForm):
        exp = ir.While(tuple(inits), body)
    else:
        exp = ir.For(bound, tuple(inits), body)
    return loop_results(lw, e, fr, exp, value, params, size_params, (*attrs, *loop_attrs(e), (PLACE, e.span)))


def _varying_places(places: list[Placed], first_at: dict[Binding, int]) -> set[int]:
    return {
        i
        for i, place in enumerate(places)
        if place is not None and type(place[0]) is SizeVar and place[0].binding in first_at
    }


def loop_params(
    e: ast.ELoop, places: list[Placed], init: Value, first_at: dict[Binding, int]
) -> tuple[list[Var], dict[Binding, Var], Value]:
    """Fresh loop variables: sizes, then leaves; with the value they make up."""
    size_params = {b: Var(b.name, I64) for b in first_at}
    dims: list[Atom] = []
    for place, d in zip(places, dims_of(init), strict=True):
        size = place[0] if place is not None else None
        dims.append(size_params.get(size.binding, d) if type(size) is SizeVar else d)
    value, fresh = typed_vars(init, "x", dims)
    names = iter(leaf_names(e.pat, value))
    for v in fresh:
        v.name = next(names)
    return [*size_params.values(), *fresh], size_params, value


def leaf_names(p: ast.Pat, v: Value) -> list[str]:
    """For each leaf of a value the name of the pattern variable it belongs to."""
    if type(p) is ast.PVar:
        return [p.name] * len(leaves(v))
    if type(p) is ast.PAscript or type(p) is ast.PAttr:
        return leaf_names(p.pat, v)
    out: list[str] = []
    if type(p) is ast.PTuple and type(v) is Rec:
        for i, q in enumerate(p.elems):
            out += leaf_names(q, v.fields[str(i)])
        return out
    if type(p) is ast.PRecord and type(v) is Rec:
        by_name = dict(p.fields)
        for n, f in v.fields.items():
            out += leaf_names(by_name[n], f) if n in by_name else ["x"] * len(leaves(f))
        return out
    return ["x"] * len(leaves(v))


def loop_results(
    lw: Lowerer,
    e: ast.ELoop,
    fr: Frame,
    exp: ir.Exp,
    value: Value,
    params: list[Var],
    size_params: dict[Binding, Var],
    attrs: tuple[Any, ...],
) -> Value:
    fresh_sizes = {v: Var(v.name, I64) for v in size_params.values()}
    dims: list[Atom] = [fresh_sizes.get(d, d) if type(d) is Var else d for d in dims_of(value)]
    out, fresh = typed_vars(value, "x", dims)
    for v, p in zip(fresh, leaves(value), strict=True):
        assert type(p) is Var, p
        v.name = p.name
    extra = [Var("go", BOOL)] if isinstance(exp, ir.While) else []
    lw.b.emit_pat((*extra, *fresh_sizes.values(), *fresh), exp, attrs)
    if e.type is not None:
        bind_sizes(e.type, out, fr)
    return out


def loop_attrs(e: ast.ELoop) -> tuple[Any, ...]:
    """Attributes on loop parameters, as (name, parameter, ..., place)."""
    return tuple([(a.name, v.name, *a.args, a.span) for v, attrs in pattern_vars(e.pat) for a in attrs])
