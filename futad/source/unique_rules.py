"""Consumption, construct by construct: what an expression reads, consumes, and may share memory with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from futad.errors import ConsumptionError, Span
from futad.registry import registering
from futad.source import ast as A
from futad.source.aliases import (
    ABSTRACT_CONSTANT,
    CONSTANT,
    NONE,
    Set,
    Token,
    Tree,
    conform,
    flat,
    is_unique,
    marked,
    overlap,
    shape,
    unique_part,
)
from futad.source.ast import type_of
from futad.source.opaque import abstract_at, opened
from futad.source.paths import update_path
from futad.source.types import SType, TArray, TFun, TPrim, TRecord

if TYPE_CHECKING:
    from futad.source.unique import Consumption

Rule = Callable[["Consumption", Any], Tree]
RULES: dict[type, Rule] = {}
_rule = registering(RULES)


@_rule(A.ELit, A.EString, A.EProjSection, A.EHole)
def _atom(c: Consumption, e: A.Expr) -> Tree:
    return NONE


@_rule(A.EVar)
def _var(c: Consumption, e: A.EVar) -> Tree:
    tree = _peek(c, e)
    c.use(tree, e.name, e.span)
    return tree


def _peek(c: Consumption, e: A.EVar) -> Tree:
    """The aliases of a name, without reading it."""
    b = e.binding
    assert b is not None
    tree = c.env.get(b)
    if tree is None:
        if b.kind == "fun" and isinstance(b.decl, A.FunDef) and not b.decl.params and e.type is not None:
            # A constant with size parameters is computed at each use.
            made_anew = b.scheme is not None and bool(b.scheme.sizes)

            def leaf(t: SType, path: str) -> Set:
                why = ABSTRACT_CONSTANT if e.type is not None and abstract_at(e.type, path) else CONSTANT
                return NONE if made_anew or type(t) is TFun else frozenset((Token(e.name + path, 0, why, e.span),))

            tree = shape(b.decl.ret_type or e.type, leaf)
            c.env[b] = tree
        else:
            tree = NONE
    return conform(tree, e.type) if e.type is not None else tree


@_rule(A.EProject)
def _project(c: Consumption, e: A.EProject) -> Tree:
    path: list[str] = []
    x: A.Expr = e
    while isinstance(x, A.EProject):
        path.append(x.field_name)
        x = x.record
    tree = _peek(c, x) if isinstance(x, A.EVar) else c.exp(x)
    for n in reversed(path):
        tree = tree.get(n, NONE) if isinstance(tree, dict) else tree
    if e.type is not None:
        tree = conform(tree, e.type)
    if isinstance(x, A.EVar):
        c.use(tree, ".".join([x.name, *reversed(path)]), e.span)
    return tree


@_rule(A.ETuple)
def _tuple(c: Consumption, e: A.ETuple) -> Tree:
    return {str(i): c.exp(x) for i, x in enumerate(e.elems)}


@_rule(A.ERecord)
def _record(c: Consumption, e: A.ERecord) -> Tree:
    return {n: c.exp(x) for n, x in e.fields}


@_rule(A.EArray)
def _array(c: Consumption, e: A.EArray) -> Tree:
    for x in e.elems:
        c.exp(x)
    return NONE


@_rule(A.ERange)
def _range(c: Consumption, e: A.ERange) -> Tree:
    for x in (e.start, e.second, e.end):
        if x is not None:
            c.exp(x)
    return NONE


@_rule(A.EAnd, A.EOr)
def _and(c: Consumption, e: A.EAnd | A.EOr) -> Tree:
    c.exp(e.left)
    c.exp(e.right)
    return NONE


@_rule(A.ENeg, A.ENot)
def _unary(c: Consumption, e: A.ENeg | A.ENot) -> Tree:
    c.exp(e.arg)
    return NONE


_FRESH = {"copy", "manifest", "+", "-", "*", "/", "==", "<", "!=", ">", "<=", ">="}


@_rule(A.EApp)
def _app(c: Consumption, e: A.EApp) -> Tree:
    spine: list[A.EApp] = []
    fun: A.Expr = e
    while isinstance(fun, A.EApp):
        spine.append(fun)
        fun = fun.fun
    rest: Set = flat(c.exp(fun))
    trees: dict[A.EApp, Tree] = {}
    operator = isinstance(fun, A.EVar) and not (fun.name[0].isalpha() or fun.name[0] == "_")
    for node in reversed(spine) if operator else spine:
        # The operands of an operator are evaluated from the left, arguments from the right.
        before = set(c.consumed)
        trees[node] = c.exp(node.arg)
        for other, known in trees.items():
            gone = (flat(known) & c.consumed.keys()) - before
            if gone and other is not node:
                tok = min(gone, key=lambda t: t.path)
                c.used_after(tok.path, tok, other.arg.span, c.consumed[tok])
    spine.reverse()
    given: list[tuple[Set, Span]] = []
    overwritten: Set = NONE
    ft = fun.type
    for node in spine:
        tree = trees[node]
        assert ft is not None
        r = opened(ft)
        if type(r) is not TFun:
            return NONE
        check_function(c, node.arg, r.param)
        taken = unique_part(tree, r.param)
        shared = overlap(tree, r.param)
        if shared is not None:
            raise ConsumptionError(
                f"this argument is consumed, but two of its parts share '{shared.path}'",
                node.arg.span,
                hint="copy one",
                code="E0504",
            )
        for tokens, _ in given:
            both = tokens & taken
            if both:
                _shared(min(both, key=lambda t: t.path), node.arg.span)
        if taken:
            both = taken & rest
            if both:
                _shared(min(both, key=lambda t: t.path), node.arg.span)
            c.consume(taken, node.arg.span)
            if type(opened(type_of(e))) is TFun:
                raise ConsumptionError(
                    "this partial application consumes its argument, but may be applied many times",
                    node.arg.span,
                    hint="write a lambda that copies it",
                    code="E0506",
                )
        kept = unique_part(tree, r.param, unique=False)
        both = kept & overwritten
        if both:
            _shared(min(both, key=lambda t: t.path), node.arg.span)
        overwritten |= taken
        given.append((kept, node.arg.span))
        rest |= kept
        ft = r.result
    result = ft
    if isinstance(fun, A.EVar) and fun.binding is not None:
        inferred = c.results.get(fun.binding)
        decl = fun.binding.decl
        if inferred is not None and isinstance(decl, A.FunDef) and len(decl.params) == len(spine):
            result = inferred
        if fun.binding.kind == "intrinsic" and fun.name in _FRESH:
            return NONE
    assert result is not None and e.type is not None
    if type(opened(e.type)) is TRecord:
        # Parts that are not unique may share memory with each other.
        rest |= {Token(_head_name(fun), c.depth, "", e.span)}
    return _result_tree(rest, result, e.type)


def _head_name(fun: A.Expr) -> str:
    return f"the result of {fun.name}" if isinstance(fun, A.EVar) else "a result"


def _result_tree(rest: Set, declared: SType, t: SType) -> Tree:
    """What a call's result may share: all arguments that were not consumed, unless it is unique."""
    declared, t = opened(declared), opened(t)
    if type(t) is TPrim:
        return NONE
    if type(t) is TRecord:
        parts = dict(declared.fields) if type(declared) is TRecord else {}
        return {n: _result_tree(rest, parts.get(n, f), f) for n, f in t.fields}
    return NONE if marked(declared) else rest


def _shared(tok: Token, span: Span) -> NoReturn:
    raise ConsumptionError(
        f"'{tok.path}' is consumed by one argument of this call and used by another",
        span,
        hint=f"pass 'copy {tok.path}' for one of them",
        code="E0504",
    )


def check_function(c: Consumption, arg: A.Expr, expected: SType) -> None:
    """A function that consumes its argument does not serve where one that does not is expected, nor one
    whose result may share memory where a unique result is."""
    actual = opened(arg.type) if arg.type is not None else None
    wanted = opened(expected)
    if type(actual) is not TFun:
        return
    arity = 0
    while type(actual) is TFun and type(wanted) is TFun:
        if is_unique(actual.param) and not is_unique(wanted.param):
            raise ConsumptionError(
                "this function consumes its argument, which it may not do here",
                arg.span,
                hint="let it copy first",
                code="E0506",
            )
        actual, wanted = opened(actual.result), opened(wanted.result)
        arity += 1
    known: SType | None = actual
    if isinstance(arg, A.ELambda) and len(arg.params) == arity:
        known = c.lambdas.get(id(arg), actual)
    elif isinstance(arg, A.EVar) and arg.name in _FRESH:
        return
    elif isinstance(arg, A.EVar) and arg.binding is not None and isinstance(arg.binding.decl, A.FunDef):
        if len(arg.binding.decl.params) == arity:
            known = c.results.get(arg.binding, actual)
    if known is not None and type(wanted) is TArray and wanted.unique and not is_unique(known):
        raise ConsumptionError(
            "a function with a unique result is expected, and the result of this one may share memory",
            arg.span,
            hint="let it return a copy",
            code="E0505",
        )


@_rule(A.ELambda)
def _lambda(c: Consumption, e: A.ELambda) -> Tree:
    ret = opened(e.type) if e.type is not None else None
    for _ in e.params:
        ret = opened(ret.result) if type(ret) is TFun else None
    got = c.function(e.params, e.body, ret if e.ret is not None else None)
    c.lambdas[id(e)] = ret if e.ret is not None else c.last_result
    return frozenset(got)


@_rule(A.EIf)
def _if(c: Consumption, e: A.EIf) -> Tree:
    c.exp(e.cond)
    return c.branches([lambda: c.exp(e.then), lambda: c.exp(e.orelse)])


@_rule(A.EMatch)
def _match(c: Consumption, e: A.EMatch) -> Tree:
    tree = c.exp(e.scrutinee)

    def case(p: A.Pat, body: A.Expr) -> Callable[[], Tree]:
        def run() -> Tree:
            c.bind(p, tree)
            return c.exp(body)

        return run

    return c.branches([case(p, body) for p, body in e.cases])


@_rule(A.ELet)
def _let(c: Consumption, e: A.ELet) -> Tree:
    c.bind(e.pat, c.exp(e.rhs))
    return c.exp(e.body)


@_rule(A.ELetFun)
def _letfun(c: Consumption, e: A.ELetFun) -> Tree:
    fd = e.fun
    got = c.function(fd.params, fd.body, fd.ret_type if fd.ret is not None else None, fd)
    assert fd.binding is not None
    c.env[fd.binding] = frozenset(got)
    return c.exp(e.body)


@_rule(A.EIndex)
def _index(c: Consumption, e: A.EIndex) -> Tree:
    tree = flat(c.exp(e.array))
    c.index(e.index)
    return conform(tree, e.type) if e.type is not None else tree


@_rule(A.EUpdate)
def _update(c: Consumption, e: A.EUpdate) -> Tree:
    steps, new = update_path(e)
    for step in steps:
        if isinstance(step, list):
            c.index(step)
    value = flat(c.exp(new))
    target = flat(c.exp(e.array))
    both = target & value
    if both:
        tok = min(both, key=lambda t: t.path)
        raise ConsumptionError(
            f"the new value may share memory with '{tok.path}', which the update overwrites",
            e.value.span,
            hint="write 'copy (...)' around the value",
            code="E0504",
        )
    c.consume(target, e.array.span)
    return NONE


@_rule(A.ERecordUpdate)
def _record_update(c: Consumption, e: A.ERecordUpdate) -> Tree:
    # Only what is not replaced is read.
    value = c.exp(e.value)
    x = e.record
    tree = _peek(c, x) if isinstance(x, A.EVar) else c.exp(x)

    def put(tree: Tree, t: SType, path: list[str]) -> Tree:
        t = opened(t)
        if not path or type(t) is not TRecord:
            return value
        return {
            n: put(tree.get(n, NONE) if isinstance(tree, dict) else tree, f, path[1:])
            if n == path[0]
            else (tree.get(n, NONE) if isinstance(tree, dict) else tree)
            for n, f in t.fields
        }

    assert x.type is not None
    new = put(tree, x.type, e.path)
    if isinstance(x, A.EVar):
        c.use(_without(tree, e.path), x.name, x.span)
    return new


def _without(tree: Tree, path: list[str]) -> Tree:
    """The tree but for the part at `path`."""
    if not path:
        return NONE
    if not isinstance(tree, dict):
        return tree
    return {n: _without(x, path[1:]) if n == path[0] else x for n, x in tree.items()}


@_rule(A.EAscript, A.ECoerce)
def _ascript(c: Consumption, e: A.EAscript | A.ECoerce) -> Tree:
    return c.exp(e.expr)


@_rule(A.EAttr)
def _attr(c: Consumption, e: A.EAttr) -> Tree:
    return c.exp(e.expr)


@_rule(A.EAssert)
def _assert(c: Consumption, e: A.EAssert) -> Tree:
    c.exp(e.cond)
    return c.exp(e.expr)


@_rule(A.EConstr)
def _constr(c: Consumption, e: A.EConstr) -> Tree:
    out: Set = NONE
    for x in e.args:
        out |= flat(c.exp(x))
    return out


@_rule(A.ELoop)
def _loop(c: Consumption, e: A.ELoop) -> Tree:
    return c.loop(e)
