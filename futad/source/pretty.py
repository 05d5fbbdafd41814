"""Types and sizes as text, for messages."""

from __future__ import annotations

from futad.source import ast as A
from futad.source.types import (
    Binding,
    Size,
    SizeConst,
    SizeExp,
    SizeMeta,
    SizeVar,
    SType,
    TArray,
    TFun,
    TMeta,
    TParam,
    TPrim,
    TRecord,
    TSum,
    resolve,
    resolve_size,
)

KIND_WORDS = {
    "num": "a number",
    "int": "an integer",
    "float": "a floating-point number",
    "bits": "an integer or bool",
    "ord": "a number or bool",
    "any": "a value that is not a function",
    "data": "a value of one size and no function",
    "eq": "a value that can be compared",
}


def show_size(s: Size) -> str:
    s = resolve_size(s)
    if type(s) is SizeConst:
        return str(s.value)
    if type(s) is SizeVar:
        return show_binding(s.binding)
    if type(s) is SizeMeta:
        return ""
    assert type(s) is SizeExp
    return show_expr(s.expr, dict(zip(s.params, s.args, strict=True)))


def show_binding(b: Binding) -> str:
    return f"{b.name}?" if b.kind == "skolem" else b.name


def show_expr(e: A.Expr, env: dict[Binding, Size], outer: int = 0) -> str:
    """A size expression as text."""
    if type(e) is A.ELit:
        return str(e.value)
    if type(e) is A.EVar:
        if e.binding in env:
            s = resolve_size(env[e.binding])
            text = show_size(s) or "_"
            return f"({text})" if outer and " " in text else text
        return e.name
    if type(e) is A.EApp and type(e.fun) is A.EApp and type(e.fun.fun) is A.EVar and not e.fun.fun.name[0].isalpha():
        op = e.fun.fun.name
        level = 2 if op in "*/%" else 1
        text = f"{show_expr(e.fun.arg, env, level)} {op} {show_expr(e.arg, env, level + 1)}"
        return f"({text})" if level < outer else text
    if type(e) is A.EApp:
        text = f"{show_expr(e.fun, env, 3)} {show_expr(e.arg, env, 4)}"
        return f"({text})" if outer > 3 else text
    if type(e) is A.EProject:
        return f"{show_expr(e.record, env, 4)}.{e.field_name}"
    if type(e) is A.EAscript:
        return show_expr(e.expr, env, outer)
    return "_"


def show_type(t: SType, outer: int = 0) -> str:
    """`outer` 1: an arrow or sum needs parentheses."""
    t = resolve(t)
    if type(t) is TPrim:
        return t.prim.name
    if type(t) is TArray:
        star = "*" if t.unique else ""
        return f"{star}[{show_size(t.size)}]{show_type(t.elem, 1)}"
    if type(t) is TRecord:
        if t.fields and t.fields[0][0][-1] == ":":
            args = [resolve(f) for _, f in t.fields[1:]]
            shown = [f"[{show_size(a.size)}]" if type(a) is TArray else show_type(a, 1) for a in args]
            return " ".join([t.fields[0][0][:-1], *shown])
        if t.is_tuple:
            return "(" + ", ".join(show_type(f) for _, f in t.fields) + ")"
        return "{" + ", ".join(f"{n}: {show_type(f)}" for n, f in t.fields) + "}"
    if type(t) is TFun:
        param = show_type(t.param, 1)
        if t.name is not None:
            param = f"({t.name.name}: {show_type(t.param)})"
        ex = "?" + "".join(f"[{show_binding(b)}]" for b in t.exists) + "." if t.exists else ""
        text = f"{param} -> {ex}{show_type(t.result)}"
        return f"({text})" if outer else text
    if type(t) is TParam:
        return t.binding.name
    if type(t) is TSum:
        text = " | ".join("#" + n + "".join(" " + show_type(a, 1) for a in args) for n, args in t.constrs)
        return f"({text})" if outer else text
    assert type(t) is TMeta
    if t.fields:
        return "{" + ", ".join(f"{n}: {show_type(f)}" for n, f in t.fields.items()) + ", ...}"
    if t.constrs:
        return " | ".join(f"#{n}" for n in t.constrs) + " | ..."
    return KIND_WORDS[t.kind] if t.kind not in (None, "any", "data", "eq") else "_"
