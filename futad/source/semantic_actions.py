"""What each production of grammar.lark builds: an action gets its span and the values of its symbols."""

from __future__ import annotations

import itertools
from typing import Any

from futad.core.literals import integer
from futad.core.types import PRIMS
from futad.errors import ParseError, Span
from futad.source import ast as A
from futad.source import semantic_actions_decl as actions_decl
from futad.source.lexer import Token, qualified
from futad.source.semantic_actions_decl import node, record_of, token_span, tuple_of, unquote

_fresh = itertools.count()


def join(a: Span, b: Span) -> Span:
    return Span(a.file, a.line, a.col, b.end_line, b.end_col)


# --- operator precedence ------------------------------------------------------------------------------------
# (first characters, precedence, associates to the right); the longest match counts.
_LEVELS: list[tuple[tuple[str, ...], int, bool]] = [
    (("|>",), 2, False),
    (("<|",), 3, True),
    (("||",), 4, False),
    (("&&",), 5, False),
    (("<=", ">=", ">", "<", "==", "!=", "!", "="), 6, False),
    (("&", "^", "|"), 7, False),
    (("<<", ">>"), 8, False),
    (("+", "-"), 9, False),
    (("*", "/", "%", "//", "%%"), 10, False),
    (("**",), 11, False),
]
_BY_PREFIX = {p: (level, right) for prefixes, level, right in _LEVELS for p in prefixes}


def precedence(op: str) -> tuple[int, bool]:
    """How tightly an operator binds (higher is tighter) and whether it associates to the right."""
    if op[0] == "`":
        return 1, False
    name = qualified(op)[1]
    found = _BY_PREFIX.get(name[:2])
    return found if found is not None else _BY_PREFIX[name[:1]]


def _binary(op: Token, left: A.Expr, right: A.Expr) -> A.Expr:
    span = join(left.span, right.span)
    text = op.text
    if text == "&&":
        return A.EAnd(span, left, right)
    if text == "||":
        return A.EOr(span, left, right)
    if text == "|>":
        return A.EApp(span, right, left)
    if text == "<|":
        return A.EApp(span, left, right, first=True)
    fun = A.EVar(token_span(op, span), text.strip("`"))
    return A.EApp(span, A.EApp(join(left.span, fun.span), fun, left), right)


def _climb(items: list[Any]) -> A.Expr:
    """Resolve `operand op operand ...` by precedence."""
    operands: list[A.Expr] = [items[0]]
    ops: list[tuple[int, Token]] = []
    for i in range(1, len(items), 2):
        op = items[i]
        level, right = precedence(op.text)
        while ops and (ops[-1][0] > level or (ops[-1][0] == level and not right)):
            rhs = operands.pop()
            operands[-1] = _binary(ops.pop()[1], operands[-1], rhs)
        ops.append((level, op))
        operands.append(items[i + 1])
    while ops:
        rhs = operands.pop()
        operands[-1] = _binary(ops.pop()[1], operands[-1], rhs)
    return operands[0]


# --- expressions --------------------------------------------------------------------------------------------


def e_range(sp: Span, start: A.Expr, kind: Token, end: A.Expr) -> A.Expr:
    return A.ERange(sp, start, None, end, kind.text)


def e_range2(sp: Span, start: A.Expr, _: Token, step: A.Expr, kind: Token, end: A.Expr) -> A.Expr:
    return A.ERange(sp, start, step, end, kind.text)


def e_with(sp: Span, e: A.Expr, _: Token, steps: list[Any], __: Token, value: A.Expr) -> A.Expr:
    return _update(sp, e, _flat(steps), value)


def _flat(steps: list[Any]) -> list[Any]:
    """Steps of an update: a str for a field, a list for an index."""
    out: list[Any] = []
    for s in steps:
        out.extend(s) if isinstance(s, tuple) else out.append(s)
    return out


def _update(sp: Span, target: A.Expr, steps: list[Any], value: A.Expr) -> A.Expr:
    """`target with steps = value`, steps alternating between fields and indexes at will."""
    fields = list(itertools.takewhile(lambda s: isinstance(s, str), steps))
    rest = steps[len(fields) :]
    if not rest:
        return A.ERecordUpdate(sp, target, fields, value)
    if not fields and len(rest) == 1:
        return A.EUpdate(sp, target, rest[0], value)
    if not isinstance(target, A.EVar):
        name = f"with'{next(_fresh)}"
        body = _update(sp, A.EVar(target.span, name), steps, value)
        return A.ELet(sp, [], A.PVar(target.span, name), target, body)
    inner: A.Expr = A.EVar(target.span, target.name)
    for f in fields:
        inner = A.EProject(target.span, inner, f)
    if fields:
        return A.ERecordUpdate(sp, target, fields, _update(sp, inner, rest, value))
    row = A.EIndex(target.span, inner, rest[0])
    return A.EUpdate(sp, target, rest[0], _update(sp, row, rest[1:], value))


def e_chain(sp: Span, items: list[Any]) -> A.Expr:
    return items[0] if len(items) == 1 else _climb(items)


def e_chain_open(sp: Span, items: list[Any], op: Token, e: A.Expr) -> A.Expr:
    return _climb([*items, op, e])


def chain_add(sp: Span, items: list[Any], op: Token, e: A.Expr) -> list[Any]:
    items.append(op)
    items.append(e)
    return items


def e_apply(sp: Span, atoms: list[A.Expr]) -> A.Expr:
    fun = atoms[0]
    if len(atoms) == 1:
        return fun
    if isinstance(fun, A.EConstr) and not fun.args:
        return A.EConstr(sp, fun.name, atoms[1:])
    for arg in atoms[1:]:
        fun = A.EApp(join(fun.span, arg.span), fun, arg)
    return fun


def e_apply_open(sp: Span, atoms: list[A.Expr], lam: A.Expr) -> A.Expr:
    return e_apply(sp, [*atoms, lam])


def case_last(sp: Span, _: Token, pat: A.Pat, __: Token, e: A.Expr) -> list[tuple[A.Pat, A.Expr]]:
    return [(pat, e)]


def case_more(
    sp: Span, _: Token, pat: A.Pat, __: Token, e: A.Expr, rest: list[tuple[A.Pat, A.Expr]]
) -> list[tuple[A.Pat, A.Expr]]:
    return [(pat, e), *rest]


def e_loop(sp: Span, _: Token, sizes: list[str], pat: A.Pat, form: Any, __: Token, body: A.Expr) -> A.Expr:
    return A.ELoop(sp, sizes, pat, None, form, body)


def e_loop_init(
    sp: Span, _: Token, sizes: list[str], pat: A.Pat, __: Token, init: A.Expr, form: Any, do: Token, body: A.Expr
) -> A.Expr:
    return A.ELoop(sp, sizes, pat, init, form, body)


def form_i(sp: Span, _: Token, name: Token, __: Token, bound: A.Expr) -> A.ForI:
    return A.ForI(sp, A.PVar(token_span(name, sp), name.text), bound)


def size_single(sp: Span, _: Token, name: Token, __: Token) -> list[str]:
    return [name.text]


def size_append(sp: Span, names: list[str], _: Token, name: Token, __: Token) -> list[str]:
    return [*names, name.text]


def e_lambda(sp: Span, _: Token, params: list[A.Pat], ret: Any, __: Token, body: A.Expr) -> A.Expr:
    return A.ELambda(sp, params, body, ret)


def e_let(sp: Span, _: Token, pat: A.Pat, __: Token, rhs: A.Expr, body: A.Expr) -> A.Expr:
    return A.ELet(sp, [], pat, rhs, body)


def e_let_sizes(sp: Span, _: Token, sizes: list[str], pat: A.Pat, __: Token, rhs: A.Expr, body: A.Expr) -> A.Expr:
    return A.ELet(sp, sizes, pat, rhs, body)


def e_letfun(
    sp: Span,
    word: Token,
    binder: Token,
    tps: list[A.TypeParam],
    params: list[A.Pat],
    ret: Any,
    _: Token,
    rhs: A.Expr,
    body: A.Expr,
) -> A.Expr:
    fun_span = Span(sp.file, word.line, word.col, rhs.span.end_line, rhs.span.end_col)
    return A.ELetFun(sp, A.FunDef(fun_span, binder.text, tps, params, ret, rhs), body)


def e_letinfix(
    sp: Span, _: Token, left: A.Pat, op: Token, right: A.Pat, ret: Any, __: Token, rhs: A.Expr, body: A.Expr
) -> A.Expr:
    fun_span = join(sp, rhs.span)
    return A.ELetFun(sp, A.FunDef(fun_span, op.text.strip("`"), [], [left, right], ret, rhs), body)


def e_letwith(sp: Span, _: Token, name: Token, steps: list[Any], __: Token, rhs: A.Expr, body: A.Expr) -> A.Expr:
    base, *fields = name.text.split(".")
    where = token_span(name, sp)
    new = _update(join(where, rhs.span), A.EVar(where, base), [*fields, *_flat(steps)], rhs)
    return A.ELet(sp, [], A.PVar(where, base), new, body)


def e_letwith0(sp: Span, let: Token, name: Token, eq: Token, rhs: A.Expr, body: A.Expr) -> A.Expr:
    return e_letwith(sp, let, name, [], eq, rhs, body)


def step_index(sp: Span, _: Token, dims: list[Any], __: Token) -> list[Any]:
    return dims


def step_path(sp: Span, name: Token) -> tuple[str, ...]:
    return tuple(name.text.split("."))


def step_field(sp: Span, tok: Token) -> tuple[str, ...]:
    return (tok.text.lstrip("."),)


def slice(sp: Span, *parts: Any) -> A.ESlice:  # noqa: A001
    """`start:end:step` of which each may be left out."""
    values: list[A.Expr | None] = [None, None, None]
    at = 0
    for p in parts:
        if isinstance(p, Token):
            at += 1
        else:
            values[at] = p
    return A.ESlice(sp, *values)


def e_array(sp: Span, _: Token, *parts: Any) -> A.Expr:
    return A.EArray(sp, parts[0] if len(parts) > 1 else [])


def e_constr(sp: Span, constr: Token) -> A.Expr:
    return A.EConstr(sp, constr.text[1:], [])


def e_local_open(sp: Span, qual: Token, _: Token, e: A.Expr, __: Token) -> A.Expr:
    return A.ELocalOpen(sp, qual.text[:-1], e)


def e_qualified_op(sp: Span, qual: Token, _: Token, op: Token, __: Token) -> A.Expr:
    return A.EVar(sp, qual.text + op.text.strip("`"))


def e_project(sp: Span, e: A.Expr, field: Token) -> A.Expr:
    return A.EProject(sp, e, field.text[1:])


def e_paren(sp: Span, _: Token, e: A.Expr, __: Token) -> A.Expr:
    # A constructor in parentheses takes no further arguments.
    if type(e) is A.ENeg:
        e.bracketed = True
    return e


def field_var(sp: Span, name: Token) -> tuple[str, A.Expr]:
    return name.text, A.EVar(sp, name.text)


def e_opsection(sp: Span, _: Token, op: Token, __: Token) -> A.Expr:
    return _op_function(op, sp)


def _op_function(op: Token, sp: Span) -> A.Expr:
    if op.text in ("&&", "||", "|>", "<|"):
        a, b = _temp(sp), _temp(sp)
        body = _binary(op, A.EVar(sp, a.name), A.EVar(sp, b.name))
        body.span = sp
        return A.ELambda(sp, [a, b], body)
    return A.EVar(token_span(op, sp), op.text.strip("`"))


def _temp(sp: Span) -> A.PVar:
    return A.PVar(sp, f"arg'{next(_fresh)}")


def e_rsection(sp: Span, _: Token, op: Token, e: A.Expr, __: Token) -> A.Expr:
    x = _temp(sp)
    return A.ELambda(sp, [x], _binary(op, A.EVar(sp, x.name), e))


def e_lsection(sp: Span, _: Token, items: list[Any], op: Token, __: Token) -> A.Expr:
    x = _temp(sp)
    return A.ELambda(sp, [x], _binary(op, e_chain(sp, items), A.EVar(sp, x.name)))


def section_field(sp: Span, tok: Token) -> A.Expr:
    return A.EProjSection(sp, [tok.text[1:]])


def section_add_field(sp: Span, e: A.Expr, tok: Token) -> A.Expr:
    if isinstance(e, A.EProjSection):
        return A.EProjSection(sp, [*e.path, tok.text[1:]])
    x = _temp(sp)
    return A.ELambda(sp, [x], A.EProject(sp, _apply_section(e, x, sp), tok.text[1:]))


def section_add_index(sp: Span, e: A.Expr, _: Token, dims: list[Any], __: Token) -> A.Expr:
    x = _temp(sp)
    return A.ELambda(sp, [x], A.EIndex(sp, _apply_section(e, x, sp), dims))


def _apply_section(e: A.Expr, x: A.PVar, sp: Span) -> A.Expr:
    return A.EApp(sp, e, A.EVar(sp, x.name))


def e_section(sp: Span, _: Token, e: A.Expr, __: Token) -> A.Expr:
    e.span = sp
    return e


# --- literals -----------------------------------------------------------------------------------------------


def e_bool(sp: Span, tok: Token) -> A.Expr:
    return A.ELit(sp, tok.kind == "TRUE", PRIMS["bool"])


def e_int(sp: Span, tok: Token) -> A.Expr:
    text = tok.text.replace("_", "")
    hexadecimal = text[:2] in ("0x", "0X")
    suffix = None
    for cut in (3, 2):
        if len(text) > cut and text[-cut:] in PRIMS and not (hexadecimal and text[-cut] == "f"):
            suffix, text = PRIMS[text[-cut:]], text[:-cut]
            break
    try:
        value = integer(text)
    except ValueError:
        raise ParseError(f"malformed number '{tok.text}'", sp, code="E0102") from None
    if value is None:
        raise ParseError(f"a number of {len(text)} digits does not fit in any type", sp, code="E0103")
    if suffix is not None and value >= 1 << suffix.bits:
        raise ParseError(f"{value} does not fit in {suffix}", sp, code="E0103")
    return A.ELit(sp, value, suffix, text[:2].lower() in ("0x", "0b"))


def e_float(sp: Span, tok: Token) -> A.Expr:
    text = tok.text.replace("_", "")
    suffix = None
    if text[-3:] in ("f16", "f32", "f64"):
        suffix, text = PRIMS[text[-3:]], text[:-3]
    try:
        value = float.fromhex(text) if text[:2] in ("0x", "0X") else float(text)
    except (ValueError, OverflowError):
        raise ParseError(f"malformed number '{tok.text}'", sp, code="E0102") from None
    return A.ELit(sp, value, suffix)


def e_string(sp: Span, tok: Token) -> A.Expr:
    return A.EString(sp, unquote(tok, sp))


def e_char(sp: Span, tok: Token) -> A.Expr:
    return A.EString(sp, unquote(tok, sp), char=True)


_HELPERS = {
    "token_span", "distinct", "unquote", "join", "precedence", "said", "node", "tuple_of", "record_of", "arrow_of",
}  # fmt: skip
ACTIONS: dict[str, Any] = {
    name: value
    for space in (vars(actions_decl), dict(globals()))
    for name, value in space.items()
    if callable(value) and name[0] != "_" and name.islower() and name not in _HELPERS
}
ACTIONS |= actions_decl.MADE | {"e_tuple": tuple_of(A.ETuple), "e_record": record_of(A.ERecord)}
ACTIONS |= {name: node(cls) for name, cls in {
    "e_ascript": A.EAscript, "e_coerce": A.ECoerce, "e_neg": A.ENeg, "e_not": A.ENot, "e_match": A.EMatch,
    "e_if": A.EIf, "form_in": A.ForIn, "form_while": A.WhileForm, "e_attr": A.EAttr, "e_assert": A.EAssert,
    "e_hole": A.EHole, "e_var": A.EVar, "e_index": A.EIndex, "section_index": A.EIndexSection,
}.items()}  # fmt: skip
