"""Expressions: inference, and elaboration in place (qualified names, sections).

`INFER` maps a syntax class to a function that types a node and returns it, or the node that replaces it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from futad.errors import ScopeError, Span, TypeCheckError
from futad.source import ast as A
from futad.source import budgets, hint_types, hints, limits
from futad.source.ast import type_of
from futad.source.check_data import project
from futad.source.check_funs import fundef, lambda_exp
from futad.source.check_loops import keeps_size, loop_exp
from futad.source.check_match import check_exhaustive, require_irrefutable
from futad.source.check_pats import bind_pattern, distinct_sizes, require_constr
from futad.source.check_rules import INFER, T_BOOL, T_I64, T_U8, infers
from futad.source.lexer import qualified
from futad.source.lints import (
    BIND_BEFORE,
    WITH_BINDING,
    copied_to_update,
    has_binding,
    negated_base,
    on_budgeted,
    on_expression,
    shadows,
    unused,
    warn,
)
from futad.source.opaque import is_abstract
from futad.source.pretty import show_type
from futad.source.sizes import MAX_WEIGHT, is_i64, key, poly, size_of_expr, value_of_expr, weight
from futad.source.traversals import (
    forgotten,
    mapped,
    size_names,
    sizes_in,
    strip,
    substitute,
    substitute_size,
    witnesses,
)  # fmt: skip
from futad.source.types import (
    Binding,
    Scheme,
    Size,
    SizeConst,
    SizeMeta,
    SizeVar,
    SType,
    TArray,
    TFun,
    TMeta,
    TPrim,
    TRecord,
    TSum,
    resolve,
    resolve_size,
)
from futad.source.unify import Mismatch

if TYPE_CHECKING:
    from futad.source.check import Checker

# --- atoms --------------------------------------------------------------------------------------------------


@infers(A.ELit)
def _lit(ck: Checker, e: A.ELit) -> A.Expr:
    if e.suffix is not None:
        e.type = TPrim(e.suffix)
    else:
        e.type = ck.meta(e.span, "num" if type(e.value) is int else "float")
    ck.literals.append(e)
    return e


@infers(A.EString)
def _string(ck: Checker, e: A.EString) -> A.Expr:
    if e.char:
        lit = A.ELit(e.span, ord(e.value), None)
        return _lit(ck, lit)
    e.type = TArray(SizeConst(len(e.value.encode())), T_U8)
    return e


@infers(A.EHole)
def _hole(ck: Checker, e: A.EHole) -> A.Expr:
    e.type = ck.meta(e.span)
    warn(ck, "a hole (???): evaluating it is an error", e.span)
    return e


@infers(A.EVar)
def _var(ck: Checker, e: A.EVar) -> A.Expr:
    b = ck.lookup(e.name)
    if b is None:
        module, last = qualified(e.name)
        parts = [*module.split("."), last] if module else [last]
        for cut in range(len(parts) - 1, 0, -1):
            if ck.lookup(".".join(parts[:cut])) is not None:
                out: A.Expr = A.EVar(e.span, ".".join(parts[:cut]))
                for f in parts[cut:]:
                    out = A.EProject(e.span, out, f)
                return ck.exp(out)
        ck.unknown("value", e.name, e.span)
    assert b is not None
    b.used = True
    if e.name[0] == "_" and b.kind == "value":
        raise ScopeError(
            f"'{e.name}' is used, but its underscore says that it is not",
            e.span,
            hint=f"call it '{e.name.lstrip('_') or 'x'}'",
            code="E0205",
        )
    if b.kind == "failed":
        ck.abandon()
    inside = ck.open_functions.get(b)
    scheme = b.scheme if inside is None else inside.use(e)
    assert scheme is not None
    e.type, e.targs, e.sargs = ck.instantiate(scheme, e.span)
    while b.via is not None:
        types, sizes = e.targs, e.sargs
        e.targs = {p: substitute(t, types, sizes) for p, t in b.via.types.items()}
        e.sargs = {p: substitute_size(s, sizes) for p, s in b.via.sizes.items()}
        b = b.via.binding
    e.binding = b
    if e.sargs:
        ck.sized.append(e)
    if e.targs and b.level and type(b.decl) is A.FunDef:
        for p in b.decl.implicit:
            if p in ck.local_tparams:
                ck.local_uses.setdefault(p, []).append(e)
    return e


@infers(A.ELocalOpen)
def _local_open(ck: Checker, e: A.ELocalOpen) -> A.Expr:
    with ck.scoped():
        ck.open_module(e.module, e.span)
        return ck.exp(e.expr)


@infers(A.ETuple)
def _tuple(ck: Checker, e: A.ETuple) -> A.Expr:
    e.elems = [ck.exp(x) for x in e.elems]
    e.type = TRecord(tuple((str(i), type_of(x)) for i, x in enumerate(e.elems)))
    return e


@infers(A.ERecord)
def _record(ck: Checker, e: A.ERecord) -> A.Expr:
    e.fields = [(n, ck.exp(x)) for n, x in e.fields]
    e.type = TRecord(tuple((n, type_of(x)) for n, x in e.fields))
    return e


def _hidden_alike(ck: Checker, a: SType, b: SType) -> bool:
    """Whether two types are one abstract type whose arguments differ in unknown sizes only.

    What is hidden may have these sizes; that it has the same in all elements is checked at run time.
    """
    a, b = resolve(a), resolve(b)
    if not (is_abstract(a) and is_abstract(b) and type(a) is TRecord and type(b) is TRecord):
        return False
    unknown = [type(s) is SizeVar and s.binding.kind == "skolem" for t in (a, b) for s in sizes_in(t)]
    if not unknown or not all(unknown):
        return False
    try:
        ck.unify_shape(a, b)
    except Mismatch:
        return False
    return True


@infers(A.EArray)
def _array(ck: Checker, e: A.EArray) -> A.Expr:
    e.elems = [ck.exp(x) for x in e.elems]
    elem: SType = strip(type_of(e.elems[0])) if e.elems else ck.meta(e.span, "data")
    if e.elems:
        ck.require_data(elem, e.elems[0].span)
    for x in e.elems[1:]:
        if not _hidden_alike(ck, type_of(x), elem):
            try:
                ck.fit(x.type, elem, x.span, "the elements of an array have one type")
            except TypeCheckError as err:
                err.hint = err.hint or hint_types.either(ck, e.elems[0], x)
                raise
    e.type = TArray(SizeConst(len(e.elems)), elem)
    limits.dimensions(elem, e.span)
    return e


# --- operators and application --------------------------------------------------------------------------------


@infers(A.EAnd)
@infers(A.EOr)
def _and(ck: Checker, e: A.EAnd | A.EOr) -> A.Expr:
    op = "&&" if type(e) is A.EAnd else "||"
    e.left = ck.exp(e.left)
    try:
        ck.fit(e.left.type, T_BOOL, e.left.span, f"the left operand of '{op}'", e.left)
        e.right = ck.exp(e.right)
        ck.fit(e.right.type, T_BOOL, e.right.span, f"the right operand of '{op}'", e.right)
    except TypeCheckError as err:
        err.hint = err.hint or hint_types.on_conjunct(ck, e, op)
        raise
    e.type = T_BOOL
    return e


@infers(A.ENeg)
def _neg(ck: Checker, e: A.ENeg) -> A.Expr:
    if type(e.arg) is A.ELit and type(e.arg.value) in (int, float):
        return _lit(ck, A.ELit(e.span, -e.arg.value, e.arg.suffix, e.arg.bits))
    e.arg = ck.exp(e.arg)
    try:
        ck.fit(e.arg.type, ck.meta(e.span, "num"), e.arg.span, "the operand of '-'")
    except TypeCheckError as err:
        err.hint = hint_types.on_prefix(ck, "-", e.arg)
        raise
    e.type = e.arg.type
    return e


@infers(A.ENot)
def _not(ck: Checker, e: A.ENot) -> A.Expr:
    e.arg = ck.exp(e.arg)
    try:
        ck.fit(e.arg.type, ck.meta(e.span, "bits"), e.arg.span, "the operand of '!'")
    except TypeCheckError as err:
        err.hint = hint_types.on_prefix(ck, "!", e.arg)
        raise
    e.type = e.arg.type
    return e


@infers(A.EApp)
def _app(ck: Checker, e: A.EApp) -> A.Expr:
    spine: list[A.EApp] = []
    fun: A.Expr = e
    while type(fun) is A.EApp:
        spine.append(fun)
        fun = fun.fun
    if len(spine) == 2:
        negated_base(ck, e)
    try:
        head = ck.exp(fun)
    except ScopeError as err:
        if type(fun) is A.EVar and fun.name[-1].isalnum():
            err.hint = hints.of_call(ck, fun.name, [n.arg for n in reversed(spine)], err.hint)
        raise
    ft = type_of(head)
    prev = head
    for i, node in enumerate(reversed(spine)):
        node.fun = prev
        r = resolve(ft)
        if type(r) is TMeta:
            node.arg = ck.exp(node.arg)
            made = TFun(strip(type_of(node.arg)), ck.meta(node.span))
            try:
                ck.fit(r, made, head.span, f"{_described(head)} is applied to an argument")
            except TypeCheckError as err:
                err.hint = _of_argument(node) or hint_types.not_a_function(ck, node, head, r) or err.hint
                raise
            r = made
        elif type(r) is not TFun:
            if i == 0:
                what = _described(head) if type(head) is A.EVar else "what is applied here"
                said = f"{what} is not a function: it is a {show_type(r)}"
                hint = _of_argument(node) or hint_types.not_a_function(ck, node, head, r)
                raise TypeCheckError(said, node.span, code="E0302", hint=hint)
            raise TypeCheckError(
                f"{_described(head)} takes {i} argument{'s' * (i != 1)}, but {len(spine)} are given",
                node.arg.span,
                code="E0302",
            )
        else:
            node.arg = ck.exp(node.arg)
            try:
                ck.fit(node.arg.type, r.param, node.arg.span, partial(_argument, i, head))
            except TypeCheckError as err:
                err.hint = err.hint or hint_types.on_argument(ck, spine[::-1], i, head, r.param)
                if err.hint is None and type(head) is A.EVar and head.binding in ck.open_functions:
                    err.hint = f"'{head.name}' is the function that is being defined, as everywhere in its definition"
                elif err.code == "E0404" and err.hint is None and type(resolve(type_of(node.arg))) is TFun:
                    err.hint = f"Cannot apply {_described(head)} to a function whose results have sizes of their own"
                raise
        ck.limits.made(r.result, node.span)
        ft = applied(ck, node, r)
        node.type = ft
        prev = node
    if type(resolve(ft)) is TFun:
        e.type = reopened(ck, e, ft)
    return e


def _of_argument(e: A.EApp) -> str | None:
    return hints.of_argument(e.arg.name) if isinstance(e.arg, A.EVar) else None


def reopened(ck: Checker, e: A.EApp, t: SType) -> SType:
    """The type of a call with sizes of its own for each value whose type is that of a lifted type parameter."""
    if not ck.loose:
        return t
    new: list[Binding] = []

    def renamed(t: SType, fresh: list[Binding]) -> SType:
        mapping: dict[Binding, Size] = {}
        for s in sizes_in(t):
            for b in size_names(s):
                if b.loose and b not in mapping:
                    fresh.append(ck.skolem("n", e.span, _OF_CALL))
                    mapping[b] = SizeVar(fresh[-1])
        return substitute(t, {}, mapping) if mapping else t

    def go(t: SType) -> SType:
        if type(t) is TMeta and t.ref is not None:
            r = resolve(t)
            return go(r) if type(r) is TFun else renamed(r, new)
        if type(t) is TRecord or type(t) is TSum:
            return mapped(t, go)
        if type(t) is TFun:
            own: list[Binding] = []
            result = go(t.result) if type(resolve(t.result)) is TFun else renamed(t.result, own)
            return TFun(t.param, result, t.name, (*t.exists, *own))
        return renamed(t, new)

    t = go(t)
    e.new_sizes = (*e.new_sizes, *new)
    return t


def _described(head: A.Expr) -> str:
    return f"'{head.name}'" if type(head) is A.EVar else "this function"


def _argument(i: int, head: A.Expr) -> str:
    return f"argument {i + 1} of {_described(head)}"


def applied(ck: Checker, node: A.EApp, fun: TFun) -> SType:
    """The type of an application, with a fresh size for each that the call makes."""
    if fun.name is None and not fun.exists:
        return _complete(ck, node, fun.result)
    sizes: dict[Binding, Size] = {}
    new: list[Binding] = []
    result = fun.result
    if fun.name is not None:
        s = value_of_expr(node.arg)
        if s is None and is_i64(node.arg):
            if has_binding(node.arg):
                warn(ck, WITH_BINDING, node.arg.span, BIND_BEFORE)
            b = ck.skolem(fun.name.name, node.arg.span, "computed by the argument")
            new.append(b)
            s = SizeVar(b)
        if s is None:
            # The sizes that mention the argument are unknown.
            made: dict[str, Binding] = {}
            result = forgotten(result, {fun.name}.__contains__, lambda: ck.skolem("n", node.span, _OF_CALL), made)
            new += made.values()
        else:
            sizes[fun.name] = s
    for ex in fun.exists:
        b = ck.skolem(ex.name, node.span, _OF_CALL)
        new.append(b)
        sizes[ex] = SizeVar(b)
    node.new_sizes = tuple(new)
    return _complete(ck, node, substitute(result, {}, sizes))


def _complete(ck: Checker, node: A.EApp, t: SType) -> SType:
    return t if type(resolve(t)) is TFun else limits.small_sizes(ck, node, strip(reopened(ck, node, t)))


_OF_CALL = limits.OF_CALL


@infers(A.ELambda)
def _lambda(ck: Checker, e: A.ELambda) -> A.Expr:
    lambda_exp(ck, e)
    return e


@infers(A.EProjSection)
def _proj_section(ck: Checker, e: A.EProjSection) -> A.Expr:
    t: SType = ck.meta(e.span)
    out = t
    for f in e.path:
        out = project(ck, out, f, e.span)
    e.type = TFun(t, out)
    return e


@infers(A.EIndexSection)
def _index_section(ck: Checker, e: A.EIndexSection) -> A.Expr:
    x = A.PVar(e.span, "xs'")
    return ck.exp(A.ELambda(e.span, [x], A.EIndex(e.span, A.EVar(e.span, x.name), e.index)))


# --- control -----------------------------------------------------------------------------------------------------


def most_common(ck: Checker, a: SType, b: SType, span: Span, new: dict[tuple[str, str], Binding]) -> SType:
    """The type of a value that has type `a` on one path and `b` on another: sizes that differ are unknown."""
    a, b = resolve(a), resolve(b)
    if type(a) is TArray and type(b) is TArray:
        elem = most_common(ck, a.elem, b.elem, span, new)
        sa, sb = resolve_size(a.size), resolve_size(b.size)
        try:
            for x, y in ((sa, sb), (sb, sa)):
                # What a loop parameter's size is, its initial value and the body's result decide.
                free = type(y) is SizeMeta and y not in ck.soft_sizes
                if x in ck.soft_sizes and x is not y and not free and not keeps_size(ck, x, y):
                    raise Mismatch()
            if type(sa) is not SizeMeta and type(sb) is not SizeMeta and poly(sa) != poly(sb):
                # Equal if something that is still to be found is what makes them so.
                if not ck.supposes:
                    raise Mismatch()
                ck.supposed = True
            ck.unify_size(sa, sb)
            return TArray(sa, elem)
        except Mismatch:
            k = (key(poly(sa)), key(poly(sb)))
            if k not in new:
                new[k] = ck.skolem("n", span, "the size of a branch's result")
            return TArray(SizeVar(new[k]), elem)
    if type(a) is TRecord and type(b) is TRecord and dict(a.fields).keys() == dict(b.fields).keys():
        other = dict(b.fields)
        return TRecord(tuple((n, most_common(ck, x, other[n], span, new)) for n, x in a.fields))
    ck.unify(a, b)
    return a


@infers(A.EIf)
def _if(ck: Checker, e: A.EIf) -> A.Expr:
    e.cond = ck.exp(e.cond)
    ck.fit(e.cond.type, T_BOOL, e.cond.span, "the condition of 'if'", e.cond)
    e.then = ck.exp(e.then)
    e.orelse = ck.exp(e.orelse)
    new: dict[tuple[str, str], Binding] = {}
    a, b = strip(type_of(e.then)), strip(type_of(e.orelse))
    try:
        e.type = most_common(ck, a, b, e.span, new)
    except Mismatch as err:
        error = ck.describe(b, a, e.orelse.span, "the branches of 'if' have different types", err)
        error.hint = error.hint or hint_types.either(ck, e.then, e.orelse)
        raise error from None
    ck.no_functions(type_of(e), "the result of 'if'", e.span)
    e.new_sizes = tuple(new.values())
    return e


@infers(A.EMatch)
def _match(ck: Checker, e: A.EMatch) -> A.Expr:
    e.scrutinee = ck.exp(e.scrutinee)
    out: SType | None = None
    cases: list[tuple[A.Pat, A.Expr]] = []
    new: dict[tuple[str, str], Binding] = {}
    for p, body in e.cases:
        with ck.scoped():
            bind_pattern(ck, p, type_of(e.scrutinee))
            body = ck.exp(body)
        cases.append((p, body))
        t = strip(type_of(body))
        try:
            out = t if out is None else most_common(ck, out, t, e.span, new)
        except Mismatch as err:
            assert out is not None
            ck.mismatch(t, out, body.span, "the cases of 'match' have different types", err, body)
    e.cases = cases
    e.type = out
    ck.no_functions(type_of(e), "the result of 'match'", e.span)
    check_exhaustive(ck, e)
    e.new_sizes = tuple(new.values())
    return e


@infers(A.ELet)
def _let(ck: Checker, e: A.ELet) -> A.Expr:
    e.rhs = ck.exp(e.rhs)
    with ck.scoped():
        sizes = []
        distinct_sizes(e.sizes, e.pat, e.span)
        for n in e.sizes:
            b = Binding(n, "size", Scheme((), (), T_I64), e.span, level=ck.level)
            b.alias = size = ck.size_meta(e.span)
            ck.declared.append((f"size '{n}'", size))
            ck.bind(n, b)
            sizes.append(b)
        e.size_bindings = tuple(sizes)
        bind_pattern(ck, e.pat, strip(type_of(e.rhs)))
        require_irrefutable(ck, e.pat)
        given = witnesses(e.pat.type) if e.pat.type is not None and sizes else set()
        for b in sizes:
            if b not in given:
                raise TypeCheckError(
                    f"size '{b.name}' is not that of an array in the pattern",
                    e.span,
                    hint=f"declare the array: (xs: [{b.name}]t)",
                    code="E0403",
                )
        _note_value(e)
        e.body = ck.exp(e.body)
    for v in A.pattern_names(e.pat):
        assert v.binding is not None
        unused(ck, v.binding)
        shadows(ck, v.name, v.span)
    copied_to_update(ck, e)
    e.type = e.body.type
    own = {v.binding for v in A.pattern_names(e.pat)}
    if own:
        gone = {s.binding: None for s in sizes_in(type_of(e)) if type(s) is SizeVar and s.binding in own}
        e.new_sizes = tuple(gone)
    return e


def _note_value(e: A.ELet) -> None:
    """`let m = n * 2`: m is known to be that, and the size."""
    p = e.pat
    while isinstance(p, A.PAscript):
        p = p.pat
    if type(p) is not A.PVar or p.binding is None:
        return
    p.binding.value = e.rhs
    if not is_i64(e.rhs):
        return
    s = size_of_expr(e.rhs, data=False)
    if s is not None and weight(s) <= MAX_WEIGHT:
        p.binding.alias = s


@infers(A.ELetFun)
def _letfun(ck: Checker, e: A.ELetFun) -> A.Expr:
    b = fundef(ck, e.fun, top=False)
    with ck.scoped():
        ck.bind(e.fun.name, b)
        e.body = ck.exp(e.body)
    shadows(ck, e.fun.name, e.fun.span)
    unused(ck, b)
    e.type = e.body.type
    return e


@infers(A.EAssert)
def _assert(ck: Checker, e: A.EAssert) -> A.Expr:
    e.cond = ck.exp(e.cond)
    ck.fit(e.cond.type, T_BOOL, e.cond.span, "the condition of 'assert'")
    e.expr = ck.exp(e.expr)
    e.type = e.expr.type
    return e


def _constant(ck: Checker, name: str, a: A.Attr) -> int:
    """A number in place of a name in an attribute, which is to be a constant: lowering knows its value."""
    b = ck.names.get(name)
    if b is None:
        ck.unknown("name", name, a.span)
    b.used = True
    return 1


@infers(A.EAttr)
def _attr(ck: Checker, e: A.EAttr) -> A.Expr:
    on_expression(ck, e)
    if e.attr.name in budgets.NAMES:
        budgets.budget(budgets.attributes_of(e)[0], lambda name, a: _constant(ck, name, a))
    e.expr = ck.exp(e.expr)
    e.type = e.expr.type
    if e.attr.name in budgets.NAMES:
        on_budgeted(ck, e)
    return e


@infers(A.EConstr)
def _constr(ck: Checker, e: A.EConstr) -> A.Expr:
    e.args = [ck.exp(a) for a in e.args]
    t = ck.meta(e.span)
    require_constr(ck, t, e.name, tuple(strip(type_of(a)) for a in e.args), e)
    e.type = t
    return e


@infers(A.ELoop)
def _loop(ck: Checker, e: A.ELoop) -> A.Expr:
    return loop_exp(ck, e)


__all__ = ["INFER", "applied"]
