"""Actions of declarations, modules, attributes, types and patterns; and what all actions share."""

from __future__ import annotations

from typing import Any

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


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


def _unescape(body: str, sp: Span) -> str:
    out = []
    i = 0
    while i < len(body):
        c = body[i]
        i += 1
        if c != "\\":
            out.append(c)
            continue
        c = body[i]
        digits = ""
        base = 10
        if c in "xuo" and i + 1 < len(body):
            base = 8 if c == "o" else 16
            i += 1
            braced = body[i] == "{"
            i += braced
            while i < len(body) and body[i] in "0123456789abcdefABCDEF"[: base + (6 if base == 16 else 0)]:
                digits += body[i]
                i += 1
            i += braced
        else:
            while i < len(body) and body[i].isdigit():
                digits += body[i]
                i += 1
        if digits:
            try:
                out.append(chr(int(digits, base)))
            except (ValueError, OverflowError):
                raise ParseError("an escape names no Unicode character", sp, code="E0102") from None
        else:
            out.append(_ESCAPES.get(c, c))
            i += 1
    return "".join(out)


def unquote(tok: Token, sp: Span) -> str:
    return _unescape(tok.text[1:-1], sp)


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


def append(sp: Span, xs: list[Any], x: Any) -> list[Any]:
    xs.append(x)
    return xs


def append3(sp: Span, xs: list[Any], _: Any, x: Any) -> list[Any]:
    xs.append(x)
    return xs


def cons(sp: Span, x: Any, _: Any, xs: list[Any]) -> list[Any]:
    return [x, *xs]


def cons2(sp: Span, x: Any, xs: list[Any]) -> list[Any]:
    return [x, *xs]


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


def dec_local(sp: Span, _: Token, dec: Any) -> A.LocalDecl:
    return A.LocalDecl(sp, dec)


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


def dec_open(sp: Span, _: Token, mod: Any) -> A.OpenDecl:
    return A.OpenDecl(sp, mod)


def dec_module(sp: Span, _: Token, name: Token, params: list[M.ModParam], sig: Any, __: Token, mod: M.ModExp) -> A.Decl:
    if isinstance(mod, M.MImport) and not params and sig is None:
        return A.ImportDecl(sp, mod.path, name.text)
    return A.ModDecl(sp, name.text, M.ModBody(params, sig, mod))


def dec_modtype(sp: Span, _: Token, __: Token, name: Token, ___: Token, sig: M.ModType) -> A.ModDecl:
    return A.ModDecl(sp, name.text, M.ModTypeBody(sig))


def binder_id(sp: Span, name: Token) -> Token:
    return name


def binder_op(sp: Span, _: Token, op: Token, __: Token) -> Token:
    return Token("ID", op.text.strip("`"), op.line, op.col, op.end_line, op.end_col)


def tparam_size(sp: Span, _: Token, name: Token, __: Token) -> A.TypeParam:
    return A.TypeParam(sp, name.text, "size")


def tparam_type(sp: Span, name: Token) -> A.TypeParam:
    kind = {"~": "lifted", "^": "fullylifted"}.get(name.text[1], "type")
    return A.TypeParam(sp, name.text.lstrip("'~^"), kind)


def mparam(sp: Span, _: Token, name: Token, __: Token, sig: M.ModType, ___: Token) -> M.ModParam:
    return M.ModParam(sp, name.text, sig)


def mod_ascript(sp: Span, mod: M.ModExp, _: Token, sig: M.ModType) -> M.ModExp:
    return M.MAscript(sp, mod, sig)


def mod_lambda(
    sp: Span, _: Token, __: Token, name: Token, ___: Token, sig: M.ModType, rp: Token, ret: Any, ar: Token, body: Any
) -> M.ModExp:
    return M.MLambda(sp, M.ModParam(token_span(name, sp), name.text, sig), ret, body)


def mod_apply(sp: Span, fun: M.ModExp, arg: M.ModExp) -> M.ModExp:
    return M.MApply(sp, fun, arg)


def mod_name(sp: Span, name: Token) -> M.ModExp:
    return M.MName(sp, name.text)


def mod_struct(sp: Span, _: Token, decs: list[Any], __: Token) -> M.ModExp:
    return M.MStruct(sp, decs)


def mod_import(sp: Span, _: Token, path: Token) -> M.ModExp:
    return M.MImport(sp, unquote(path, sp))


def sig_arrow(sp: Span, param: M.ModType, _: Token, result: M.ModType) -> M.ModType:
    return M.SArrow(sp, None, param, result)


def sig_named_arrow(
    sp: Span, _: Token, name: Token, __: Token, param: M.ModType, ___: Token, ar: Token, result: M.ModType
) -> M.ModType:
    return M.SArrow(sp, name.text, param, result)


def sig_name(sp: Span, name: Token) -> M.ModType:
    return M.SName(sp, name.text)


def sig_specs(sp: Span, _: Token, specs: list[Any], __: Token) -> M.ModType:
    return M.SSpecs(sp, specs)


def sig_with(
    sp: Span, sig: M.ModType, _: Token, name: Token, tps: list[A.TypeParam], __: Token, t: A.TypeExp
) -> M.ModType:
    return M.SWith(sp, sig, name.text, tps, t)


def spec_type(sp: Span, word: Token, name: Token, params: list[A.TypeParam]) -> M.TypeSpec:
    return M.TypeSpec(sp, name.text, params, word.text[4:])


def spec_module(sp: Span, _: Token, name: Token, __: Token, sig: M.ModType) -> M.ModSpec:
    return M.ModSpec(sp, name.text, sig)


def spec_include(sp: Span, _: Token, sig: M.ModType) -> M.IncludeSpec:
    return M.IncludeSpec(sp, sig)


# --- attributes ---------------------------------------------------------------------------------------------


def attr_name(sp: Span, tok: Token) -> A.Attr:
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


def attr_args0(sp: Span, name: Token, _: Token, __: Token) -> A.Attr:
    return A.Attr(sp, name.text)


# --- types --------------------------------------------------------------------------------------------------


def te_arrow(sp: Span, param: A.TypeExp, _: Token, result: A.TypeExp) -> A.TypeExp:
    return A.TEArrow(sp, None, param, result)


def te_named_arrow(
    sp: Span, _: Token, name: Token, __: Token, param: A.TypeExp, ___: Token, ar: Token, result: A.TypeExp
) -> A.TypeExp:
    return A.TEArrow(sp, name.text, param, result)


def te_exists(sp: Span, tok: Token, elem: A.TypeExp) -> A.TypeExp:
    names = [part.split("]")[0].strip() for part in tok.text.split("[")[1:]]
    return A.TEExists(sp, names, elem)


def te_unique(sp: Span, _: Token, elem: A.TypeExp) -> A.TypeExp:
    return A.TEUnique(sp, elem)


def te_array(sp: Span, size: tuple[A.Expr | None], elem: A.TypeExp) -> A.TypeExp:
    return A.TEArray(sp, size[0], elem)


def te_sum(sp: Span, constrs: list[tuple[str, list[A.TypeExp]]]) -> A.TypeExp:
    return A.TESum(sp, constrs)


def te_apply(sp: Span, fun: A.TypeExp, arg: A.TypeExp) -> A.TypeExp:
    if not isinstance(fun, A.TEName):
        raise ParseError("only a named type can be applied to arguments", sp, code="E0105")
    return A.TEName(sp, fun.name, [*fun.args, arg])


def te_apply_size(sp: Span, fun: A.TypeExp, size: tuple[A.Expr | None]) -> A.TypeExp:
    if not isinstance(fun, A.TEName):
        raise ParseError("sizes come before the element type: write [n]t", sp, code="E0105")
    return A.TEName(sp, fun.name, [*fun.args, size[0]])


def te_name(sp: Span, name: Token) -> A.TypeExp:
    return A.TEName(sp, name.text)


def te_unit(sp: Span, *_: Token) -> A.TypeExp:
    return A.TETuple(sp, [])


def te_tuple(sp: Span, _: Token, head: A.TypeExp, __: Token, rest: list[A.TypeExp], ___: Token) -> A.TypeExp:
    return A.TETuple(sp, [head, *rest])


def te_record0(sp: Span, *_: Token) -> A.TypeExp:
    return A.TERecord(sp, [])


def te_record(sp: Span, _: Token, fields: list[tuple[str, A.TypeExp]], *__: Token) -> A.TypeExp:
    distinct([n for n, _ in fields], "field", sp)
    return A.TERecord(sp, fields)


def dim(sp: Span, _: Token, size: A.Expr, __: Token) -> tuple[A.Expr | None]:
    return (size,)


def dim0(sp: Span, *_: Token) -> tuple[A.Expr | None]:
    return (None,)


def sum0(sp: Span, constr: Token) -> tuple[str, list[A.TypeExp]]:
    return constr.text[1:], []


def sum_add(sp: Span, s: tuple[str, list[A.TypeExp]], t: A.TypeExp) -> tuple[str, list[A.TypeExp]]:
    s[1].append(t)
    return s


# --- patterns -----------------------------------------------------------------------------------------------


def p_attr(sp: Span, attr: A.Attr, pat: A.Pat) -> A.Pat:
    return A.PAttr(sp, attr, pat)


def p_ascript(sp: Span, pat: A.Pat, _: Token, t: A.TypeExp) -> A.Pat:
    return A.PAscript(sp, pat, t)


def p_constr(sp: Span, constr: Token, args: list[A.Pat]) -> A.Pat:
    return A.PConstr(sp, constr.text[1:], args)


def p_constr0(sp: Span, constr: Token) -> A.Pat:
    return A.PConstr(sp, constr.text[1:], [])


def p_neg(sp: Span, _: Token, lit: A.ELit) -> A.Pat:
    return A.PLit(sp, A.ELit(sp, -lit.value, lit.suffix, lit.bits))


def p_lit(sp: Span, lit: A.Expr) -> A.Pat:
    return A.PLit(sp, lit)


def p_var(sp: Span, name: Token) -> A.Pat:
    return A.PVar(sp, name.text)


def p_wild(sp: Span, _: Token) -> A.Pat:
    return A.PWild(sp)


def p_unit(sp: Span, *_: Token) -> A.Pat:
    return A.PTuple(sp, [])


def p_tuple(sp: Span, _: Token, head: A.Pat, __: Token, rest: list[A.Pat], ___: Token) -> A.Pat:
    return A.PTuple(sp, [head, *rest])


def p_record0(sp: Span, *_: Token) -> A.Pat:
    return A.PRecord(sp, [])


def p_record(sp: Span, _: Token, fields: list[tuple[str, A.Pat]], *__: Token) -> A.Pat:
    distinct([n for n, _ in fields], "field", sp)
    return A.PRecord(sp, fields)


def fpat_var(sp: Span, name: Token) -> tuple[str, A.Pat]:
    return name.text, A.PVar(sp, name.text)


def fpat_ascript(sp: Span, name: Token, _: Token, t: A.TypeExp) -> tuple[str, A.Pat]:
    return name.text, A.PAscript(sp, A.PVar(token_span(name, sp), name.text), t)
