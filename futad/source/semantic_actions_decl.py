"""Actions of declarations, modules, attributes, types and patterns; and what all actions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from futad.core.literals import unescaped
from futad.errors import ParseError, Span
from futad.source import ast as A
from futad.source import modast as M
from futad.source.lexer import Token


def token_span(tok: Token, sp: Span) -> Span:
    """The place of one token (in the file of `sp`)."""
    return Span(sp.file, tok.line, tok.col, tok.end_line, tok.end_col)


def distinct(names: list[str], what: str, sp: Span) -> None:
    for i, n in enumerate(names):
        if n in names[:i]:
            raise ParseError(f"{what} '{n}' occurs twice", sp, code="E0104")


Action = Callable[..., Any]

_NAMES = ("ID", "QNAME")  # kinds of tokens


def _unescape(body: str, sp: Span) -> str:
    try:
        return unescaped(body)
    except ValueError as e:
        raise ParseError(str(e), sp, code="E0102") from None


def unquote(tok: Token, sp: Span) -> str:
    return _unescape(tok.text[1:-1], sp)


def said(parts: tuple[Any, ...]) -> list[Any]:
    """The values of symbols that say something: of tokens names alone, as text."""
    return [p.text if isinstance(p, Token) else p for p in parts if not isinstance(p, Token) or p.kind in _NAMES]


def node(cls: type) -> Action:
    """The action that makes a node of what its symbols say."""
    return lambda sp, *parts: cls(sp, *said(parts))


def tuple_of(cls: type) -> Action:
    """Of `()`, or of a first element and a list of the others."""

    def action(sp: Span, *parts: Any) -> Any:
        values = said(parts)
        return cls(sp, [values[0], *values[1]] if values else [])

    return action


def record_of(cls: type) -> Action:
    """Of named fields, if any."""

    def action(sp: Span, *parts: Any) -> Any:
        fields = [f for p in said(parts) for f in p]
        distinct([name for name, _ in fields], "field", sp)
        return cls(sp, fields)

    return action


def arrow_of(cls: type) -> Action:
    """Of a parameter, that may have a name, and a result."""

    def action(sp: Span, *parts: Any) -> Any:
        *name, param, result = said(parts)
        return cls(sp, name[0] if name else None, param, result)

    return action


# --- plumbing -----------------------------------------------------------------------------------------------


def nil(sp: Span) -> list[Any]:
    return []


def none(sp: Span) -> None:
    return None


def first(sp: Span, a: Any, *_: Any) -> Any:
    return a


def second(sp: Span, _: Any, b: Any, *__: Any) -> Any:
    return b


def single(sp: Span, x: Any, *_: Any) -> list[Any]:
    return [x]


def append(sp: Span, xs: list[Any], *parts: Any) -> list[Any]:
    """The list with the last part."""
    xs.append(parts[-1])
    return xs


def pair3(sp: Span, name: Token, _: Any, x: Any) -> tuple[str, Any]:
    return name.text, x


# --- declarations -------------------------------------------------------------------------------------------


def program(sp: Span, decs: list[Any]) -> list[Any]:
    return decs


def dec_attr(sp: Span, attr: A.Attr, dec: Any) -> Any:
    target = dec.decl if isinstance(dec, A.LocalDecl) else dec
    if isinstance(target, A.FunDef):
        target.attrs.insert(0, attr)
    return dec


def dec_fun(
    sp: Span, word: Token, binder: Token, tps: list[A.TypeParam], params: list[A.Pat], ret: Any, _: Token, e: A.Expr
) -> A.FunDef:
    return A.FunDef(sp, binder.text, tps, params, ret, e, entry=word.kind == "ENTRY")


def dec_infix(sp: Span, word: Token, left: A.Pat, op: Token, right: A.Pat, ret: Any, _: Token, e: A.Expr) -> A.FunDef:
    return A.FunDef(sp, op.text.strip("`"), [], [left, right], ret, e, entry=word.kind == "ENTRY")


def dec_type(sp: Span, word: Token, name: Token, params: list[A.TypeParam], _: Token, t: A.TypeExp) -> A.TypeDef:
    return A.TypeDef(sp, name.text, params, t, word.text[4:])


def dec_val(sp: Span, _: Token, binder: Token, tps: list[A.TypeParam], __: Token, t: A.TypeExp) -> A.ValSpec:
    return A.ValSpec(sp, binder.text, tps, t)


def dec_import(sp: Span, _: Token, path: Token) -> A.ImportDecl:
    return A.ImportDecl(sp, unquote(path, sp))


def dec_module(sp: Span, _: Token, name: Token, params: list[M.ModParam], sig: Any, __: Token, mod: M.ModExp) -> A.Decl:
    if isinstance(mod, M.MImport) and not params and sig is None:
        return A.ImportDecl(sp, mod.path, name.text)
    return A.ModDecl(sp, name.text, M.ModBody(params, sig, mod))


def dec_modtype(sp: Span, _: Token, __: Token, name: Token, ___: Token, sig: M.ModType) -> A.ModDecl:
    return A.ModDecl(sp, name.text, M.ModTypeBody(sig))


def binder_op(sp: Span, _: Token, op: Token, __: Token) -> Token:
    return Token("ID", op.text.strip("`"), op.line, op.col, op.end_line, op.end_col)


def tparam_size(sp: Span, _: Token, name: Token, __: Token) -> A.TypeParam:
    return A.TypeParam(sp, name.text, "size")


def tparam_type(sp: Span, name: Token) -> A.TypeParam:
    kind = {"~": "lifted", "^": "fullylifted"}.get(name.text[1], "type")
    return A.TypeParam(sp, name.text.lstrip("'~^"), kind)


def mod_lambda(
    sp: Span, _: Token, __: Token, name: Token, ___: Token, sig: M.ModType, rp: Token, ret: Any, ar: Token, body: Any
) -> M.ModExp:
    return M.MLambda(sp, M.ModParam(token_span(name, sp), name.text, sig), ret, body)


def mod_import(sp: Span, _: Token, path: Token) -> M.ModExp:
    return M.MImport(sp, unquote(path, sp))


def spec_type(sp: Span, word: Token, name: Token, params: list[A.TypeParam]) -> M.TypeSpec:
    return M.TypeSpec(sp, name.text, params, word.text[4:])


# --- attributes ---------------------------------------------------------------------------------------------


def attr_name(sp: Span, tok: Token, *_: Token) -> A.Attr:
    return A.Attr(sp, tok.text)


def attr_args(sp: Span, name: Token, _: Token, args: list[A.Attr], __: Token) -> A.Attr:
    return A.Attr(sp, name.text, tuple([a if a.args else _attr_value(a) for a in args]))


def attr_named(sp: Span, name: Token, _: Token, value: Token) -> A.Attr:
    """`name=value`, which is `name(value)`."""
    return A.Attr(sp, name.text, (_attr_value(attr_name(token_span(value, sp), value)),))


def _attr_value(a: A.Attr) -> Any:
    """The value of an argument without arguments: a number, a text, a truth value, else a name."""
    text = a.name
    if text in ("true", "false"):
        return text == "true"
    if text[0] == '"':
        return A.AttrText(_unescape(text[1:-1], a.span))
    if not text[0].isdigit():
        return text
    try:
        return int(text.replace("_", "")) if text.replace("_", "").isdecimal() else float(text.replace("_", ""))
    except ValueError:
        raise ParseError(f"the number {text} has no meaning in an attribute", a.span, code="E0102") from None


# --- types --------------------------------------------------------------------------------------------------


def te_exists(sp: Span, tok: Token, elem: A.TypeExp) -> A.TypeExp:
    names = [part.split("]")[0].strip() for part in tok.text.split("[")[1:]]
    return A.TEExists(sp, names, elem)


def te_array(sp: Span, size: tuple[A.Expr | None], elem: A.TypeExp) -> A.TypeExp:
    return A.TEArray(sp, size[0], elem)


def te_apply(sp: Span, fun: A.TypeExp, arg: A.TypeExp) -> A.TypeExp:
    if not isinstance(fun, A.TEName):
        raise ParseError("only a named type can be applied to arguments", sp, code="E0105")
    return A.TEName(sp, fun.name, [*fun.args, arg])


def te_apply_size(sp: Span, fun: A.TypeExp, size: tuple[A.Expr | None]) -> A.TypeExp:
    if not isinstance(fun, A.TEName):
        raise ParseError("sizes come before the element type: write [n]t", sp, code="E0105")
    return A.TEName(sp, fun.name, [*fun.args, size[0]])


def dim(sp: Span, *parts: Any) -> tuple[A.Expr | None]:
    size = said(parts)
    return (size[0] if size else None,)


def sum0(sp: Span, constr: Token) -> tuple[str, list[A.TypeExp]]:
    return constr.text[1:], []


def sum_add(sp: Span, s: tuple[str, list[A.TypeExp]], t: A.TypeExp) -> tuple[str, list[A.TypeExp]]:
    s[1].append(t)
    return s


# --- patterns -----------------------------------------------------------------------------------------------


def p_constr(sp: Span, constr: Token, args: Sequence[A.Pat] = ()) -> A.Pat:
    return A.PConstr(sp, constr.text[1:], [*args])


def p_neg(sp: Span, _: Token, lit: A.ELit) -> A.Pat:
    return A.PLit(sp, A.ELit(sp, -lit.value, lit.suffix, lit.bits))


def fpat_var(sp: Span, name: Token) -> tuple[str, A.Pat]:
    return name.text, A.PVar(sp, name.text)


def fpat_ascript(sp: Span, name: Token, _: Token, t: A.TypeExp) -> tuple[str, A.Pat]:
    return name.text, A.PAscript(sp, A.PVar(token_span(name, sp), name.text), t)


MADE: dict[str, Any] = {
    "te_tuple": tuple_of(A.TETuple), "te_record": record_of(A.TERecord), "te_arrow": arrow_of(A.TEArrow),
    "p_tuple": tuple_of(A.PTuple), "p_record": record_of(A.PRecord), "sig_arrow": arrow_of(M.SArrow),
}  # fmt: skip
MADE |= {name: node(cls) for name, cls in {
    "dec_local": A.LocalDecl, "dec_open": A.OpenDecl, "mparam": M.ModParam,
    "mod_ascript": M.MAscript, "mod_apply": M.MApply, "mod_name": M.MName, "mod_struct": M.MStruct,
    "sig_name": M.SName, "sig_specs": M.SSpecs, "sig_with": M.SWith,
    "spec_module": M.ModSpec, "spec_include": M.IncludeSpec,
    "te_unique": A.TEUnique, "te_sum": A.TESum, "te_name": A.TEName,
    "p_attr": A.PAttr, "p_ascript": A.PAscript, "p_lit": A.PLit, "p_var": A.PVar, "p_wild": A.PWild,
}.items()}  # fmt: skip
