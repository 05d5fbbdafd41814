"""What to write instead of what has another type than its place asks for.

What is proposed is in the program's own words, so that it can be typed as it stands.  No hint loses anything: numbers
are only converted to types that hold them, and the operands of a quotient of integers are, not what it was rounded to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from futad.core.types import PRIMS, Prim
from futad.errors import Error
from futad.source import ast as A
from futad.source import numeric
from futad.source.causality import children
from futad.source.pretty import show_type
from futad.source.sizes import is_intrinsic
from futad.source.types import SType, TArray, TFun, TMeta, TPrim, TRecord, resolve
from futad.source.written import atom, fresh, negated_after, written

if TYPE_CHECKING:
    from futad.source.check import Checker

ARITHMETIC = frozenset(("+", "-", "*", "/", "%", "**"))


def lossless(a: Prim, b: Prim) -> bool:
    """Whether conversion from type a to b keeps numbers; where b is f32 or f64 integers may be rounded to it."""
    if a is b or b.is_bool:
        return False
    if a.is_bool:
        return True
    if a.is_float:
        return b.is_float and a.bits < b.bits
    if b.is_float:
        return b.bits >= 32 or a.bits < 16
    return a.bits < b.bits and (a.kind == b.kind or b.kind == "int")


def scalar(t: SType | None) -> Prim | None:
    """The scalar type of a value, or of an array's elements; of a literal with a point f64."""
    t = innermost(t) if t is not None else None
    if type(t) is TMeta:
        return PRIMS["f64"] if t.kind == "float" else None
    return t.prim if type(t) is TPrim else None


def innermost(t: SType) -> SType:
    t = resolve(t)
    while type(t) is TArray:
        t = resolve(t.elem)
    return t


def rank(t: SType | None) -> int:
    n, t = 0, resolve(t) if t is not None else None
    while type(t) is TArray:
        n, t = n + 1, resolve(t.elem)
    return n


def mapped(f: str, depth: int, x: str) -> str:
    """`f x`, `map f x`, `map (map f) x`: x is in parentheses where that is needed."""
    for _ in range(depth):
        f = f"map {atom(f)}"
    return f"{f} {atom(x)}"


# --- conversions ---------------------------------------------------------------------------------------------


def converted(ck: Checker, e: A.Expr | None, found: SType | None, wanted: SType | None) -> str | None:
    """The expression with its numbers of the type that is wanted, if nothing is lost; None otherwise."""
    a, b = scalar(found), scalar(wanted)
    text = written(ck, e) if e is not None else None
    if a is None or b is None or text is None or e is None or rank(found) != rank(wanted) or not lossless(a, b):
        return None
    if a.is_integral and b.is_float and quotient(e) is not None:
        return None
    return mapped(f"{b.name}.{a.name}", rank(found), text)


def conversion(
    ck: Checker, e: A.Expr | None, found: SType | None, wanted: SType | None, argument: bool = False
) -> str | None:
    """A hint for a value of another scalar type; `argument`: it is one of a function."""
    if type(e) is A.ELit and e.suffix is not None and not e.suffix.is_bool and not rank(wanted):
        fits = (p := scalar(wanted)) is not None and not p.is_bool and (p.is_float or type(e.value) is int)
        return f"leave out its type: {e.value}" if fits else None
    made = converted(ck, e, found, wanted)
    if made is not None:
        return f"convert it: {atom(made) if argument else made}"
    a, b = scalar(found), scalar(wanted)
    if e is None or a is None or b is None or rank(found) != rank(wanted):
        return None
    if b.is_bool and not a.is_bool and not rank(found) and (text := written(ck, e)) is not None:
        return f"a number is no condition: compare it, {atom(text)} != 0"
    if not lossless(a, b) or not b.is_float or (divided := quotient(e)) is None:
        return None
    leaves = _operands(divided)
    texts = [(x, written(ck, x)) for x in leaves]
    whole = e if _in_arithmetic(divided, e) else divided
    if whole is e:
        texts = [(x, written(ck, x)) for x in _operands(e)]
    said = written(ck, whole, [(x, f"{b.name}.{scalar(x.type) or a} {atom(t)}") for x, t in texts if t is not None])
    if said is None or None in [t for _, t in texts]:
        return "'/' of integers rounds down: convert what is divided"
    if whole is e:
        return f"'/' of integers rounds down: convert before, {atom(said) if argument else said}"
    return f"'/' of integers rounds down, at line {divided.span.line}: convert before, {said}"


def quotient(e: A.Expr, seen: set[object] | None = None) -> A.Expr | None:
    """A quotient of integers in an expression, or in what its names stand for."""
    seen = set() if seen is None else seen
    stack = [e]
    while stack:
        x = stack.pop()
        if _is_operator(x, "/") and (p := scalar(x.type)) is not None and p.is_integral:
            return x
        stack += reversed(children(x))
        if type(x) is A.EVar and x.binding is not None and x.binding not in seen:
            seen.add(x.binding)
            inside = x.binding.value if x.binding.value is not None else getattr(x.binding.decl, "body", None)
            if isinstance(inside, A.Expr) and (found := quotient(inside, seen)) is not None:
                return found
    return None


def _is_operator(e: A.Expr, *names: str) -> bool:
    """Whether an expression applies one of the operators to two operands."""
    return (
        type(e) is A.EApp and type(e.fun) is A.EApp and type(e.fun.fun) is A.EVar
        and e.fun.fun.name.rpartition(".")[2] in names and is_intrinsic(e.fun.fun)
    )  # fmt: skip


def _inside(e: A.Expr) -> list[A.Expr] | None:
    """The operands of arithmetic; None of what is none."""
    if type(e) is A.ENeg:
        return [e.arg]
    if _is_operator(e, *ARITHMETIC):
        assert type(e) is A.EApp and type(e.fun) is A.EApp
        return [e.fun.arg, e.arg]
    return None


def _operands(e: A.Expr) -> list[A.Expr]:
    """What arithmetic is done with, but for literals that have any type."""
    inside = _inside(e)
    if inside is not None:
        return [x for part in inside for x in _operands(part)]
    return [] if type(e) is A.ELit and e.suffix is None else [e]


def _in_arithmetic(part: A.Expr, e: A.Expr) -> bool:
    return part is e or any(_in_arithmetic(part, x) for x in _inside(e) or [])


def either(ck: Checker, first: A.Expr, second: A.Expr, argument: bool = False) -> str | None:
    """A hint for two values of which the types should be the same: the one is converted that loses nothing."""
    a, b = scalar(first.type), scalar(second.type)
    if a is None or b is None or rank(first.type) != rank(second.type):
        return None
    if lossless(b, a) or type(second) is A.ELit and second.suffix is not None:
        return conversion(ck, second, second.type, first.type, argument)
    said = conversion(ck, first, first.type, TPrim(b) if not rank(first.type) else second.type, argument)
    return said.replace("convert it", "convert the other one") if said is not None else None


# --- operators on arrays -------------------------------------------------------------------------------------


def elementwise(ck: Checker, op: str, left: A.Expr, right: A.Expr) -> str | None:
    """`xs + ys` as `map2 (+) xs ys`, and so on for all ranks, as NumPy means it."""
    texts = [written(ck, left), written(ck, right)]
    a, b = texts
    if a is None or b is None or type(left) is A.EString or type(right) is A.EString:
        return None
    ra, rb = rank(left.type), rank(right.type)
    pa, pb = scalar(left.type), scalar(right.type)
    rounds = "'/' of integers rounds down; " if op == "/" and pa is not None and pa.is_integral and pa is pb else ""
    how = "element by element: "
    f = f"({op})"
    # Elements of one type: those of the other are converted, where nothing is lost.
    x, y = "{x}", "{y}"
    if pa is not None and pb is not None and pa is not pb:
        if lossless(pb, pa):
            y = f"{pa.name}.{pb.name} {{y}}"
        elif lossless(pa, pb):
            x = f"{pb.name}.{pa.name} {{x}}"
        else:
            return None
    if ra and rb:
        if abs(ra - rb) > 1:
            return None
        n, m = fresh(a, b), fresh(a, b, fresh(a, b))
        if x != "{x}" or y != "{y}":
            f = f"(\\{n} {m} -> {x.format(x=n)} {op} {y.format(y=m)})"
        for _ in range(min(ra, rb) - 1):
            f = f"(map2 {f})"
        if ra == rb:
            return f"{how}map2 {f} {atom(a)} {atom(b)}"
        row = "row" if "row" not in a + b else fresh(a, b)
        pair = f"{row} {atom(b)}" if ra > rb else f"{atom(a)} {row}"
        return f"{how}map (\\{row} -> map2 {f} {pair}) {atom(a if ra > rb else b)}"
    name = fresh(a, b)
    if ra:
        k = y.format(y=atom(b))
        simple = x == "{x}" and op != "-"
        f = f"({op} {k if y != '{y}' else b})" if simple and not b.startswith("-") else ""
        f = f or f"(\\{name} -> {x.format(x=name)} {op} {k if y != '{y}' else atom(b)})"
        return rounds + how + mapped(f, ra, a)
    if rb:
        k = x.format(x=atom(a)) if x != "{x}" else atom(a)
        f = f"({k} {op})" if y == "{y}" else f"(\\{name} -> {k} {op} {y.format(y=name)})"
        return rounds + how + mapped(f, rb, b)
    return None


def on_operand(ck: Checker, e: A.EApp, op: str, i: int) -> str | None:
    """For operand i of a binary operator `e` that does not fit; the operands after it are not typed yet."""
    assert type(e.fun) is A.EApp
    left, right = e.fun.arg, e.arg
    found = resolve(left.type) if left.type is not None else None
    if i == 0 and type(found) is TFun:
        return _lacks(ck, left)
    if i == 0 and op == "^" and (p := scalar(found)) is not None and p.is_float:
        return "'^' is the exclusive or of bits; powers are written '**'"
    if op == "//" and i == 0 and (p := scalar(found)) is not None and p.is_float:
        return "'//' is the quotient of integers; a comment begins with '--'"
    if i == 0 and e.arg.type is None:
        e.arg = ck.exp(e.arg)  # if that has an error, it is the one to be told first
    right = e.arg
    if rank(left.type) or rank(right.type):
        return elementwise(ck, op, left, right) if numeric.operator(op) is not None else _appended(ck, op, left, right)
    if type(resolve(right.type)) is TFun if right.type is not None else False:
        return _lacks(ck, right)
    return either(ck, left, right)


def _appended(ck: Checker, op: str, left: A.Expr, right: A.Expr) -> str | None:
    """`xs ++ x`"""
    a, b = written(ck, left), written(ck, right)
    alike = abs(rank(left.type) - rank(right.type)) == 1 and scalar(left.type) is scalar(right.type)
    if op != "++" or a is None or b is None or not alike:
        return None
    one = f"{atom(a)} ++ [{b}]" if rank(left.type) > rank(right.type) else f"[{a}] ++ {atom(b)}"
    return f"what is added is an array, too: {one}"


def on_conjunct(ck: Checker, e: A.EAnd | A.EOr, op: str) -> str | None:
    """`bs && cs` of arrays."""
    try:
        e.right = e.right if e.right.type is not None else ck.exp(e.right)
    except Error:
        return None
    return elementwise(ck, op, e.left, e.right)


def on_prefix(ck: Checker, op: str, e: A.Expr) -> str | None:
    """`-xs` of an array."""
    text = written(ck, e)
    if text is None or not rank(e.type):
        return None
    x = fresh(text)
    return "element by element: " + mapped(f"(\\{x} -> {op}{x})", rank(e.type), text)


def _typed(ck: Checker, e: A.EApp) -> bool:
    """Whether the argument of an application has a type: it is found if it has not been looked at."""
    if e.arg.type is None:
        try:
            e.arg = ck.exp(e.arg)
        except Error:
            return False
    return True


def _name(text: str) -> bool:
    return text[0].isalpha() or text[0] == "_"


def _lacks(ck: Checker, e: A.Expr) -> str | None:
    """For a function where a number is needed: `f64.exp -x`, or one without all of its arguments."""
    t, n = resolve(e.type) if e.type is not None else None, 0
    while type(t) is TFun:
        n, t = n + 1, resolve(t.result)
    text = written(ck, e)
    if text is None or not n:
        return None
    if (negated := negated_after(ck, e)) is not None:
        return f"a negative argument stands in parentheses: {text} ({negated})"
    return f"{text} is a function, and lacks {n} argument{'s' * (n > 1)}"


# --- arguments of functions -----------------------------------------------------------------------------------


def on_argument(ck: Checker, spine: list[A.EApp], i: int, head: A.Expr, wanted: SType) -> str | None:
    """For argument i of a function that does not fit; `spine` are the applications, innermost first."""
    name = head.name if type(head) is A.EVar else ""
    node = spine[i]
    e, found, want = node.arg, resolve(node.arg.type or wanted), resolve(wanted)
    if name and not _name(name.rpartition(".")[2] or name) and len(spine) == 2:
        return on_operand(ck, spine[1], name.rpartition(".")[2] or name, i)
    text, f = written(ck, e), written(ck, head)
    if text is None or f is None:
        return None
    if type(e) is A.ETuple and len(e.elems) > 1 and not _is_tuple(want):
        parts = [written(ck, x) for x in e.elems]
        return "arguments stand side by side, without commas: " + " ".join([f, *[atom(p) for p in parts if p]])
    if type(want) is TRecord and _is_tuple(want) and not _is_tuple(found) and len(spine) - i == len(want.fields) > 1:
        parts = [written(ck, n.arg) for n in spine[i:]]
        if i == 0 and None not in parts:
            return f"the argument is a tuple: {f} ({', '.join(p for p in parts if p)})"
    if (swapped := _swapped(ck, spine, head)) is not None:
        return swapped
    if type(found) is TFun and type(want) is not TFun:
        return _lacks(ck, e)
    depth = rank(found) - rank(want)
    if depth > 0 and type(innermost(want)) is TPrim:
        return _of_elements(ck, spine, i, f, depth)
    module, _, member = name.rpartition(".")
    a, b = scalar(found), scalar(want)
    if type(head) is A.EVar and head.binding is not None and type(head.binding.decl) is A.FunDef:
        p = head.binding.decl.params[i] if i < len(head.binding.decl.params) else None
        if type(p) is A.PVar and a is not None and b is PRIMS["i32"] and rank(found) == rank(want) == 0:
            return f"declare the type of the parameter: ({p.name}: {a})"  # which is i32 where nothing tells
    said = conversion(ck, e, found, want, argument=True)
    if said is None and a is not None and b is not None and rank(found) == rank(want) and a is not b:
        if module == b.name and numeric.member(a.name, member) is not None and not a.is_bool:
            return f"of {a} it is {a}.{member}"
        if rank(found) and i:
            return _in_function(ck, spine[:i], b, a)
    return said


def _is_tuple(t: SType) -> bool:
    return type(t) is TRecord and t.is_tuple and len(t.fields) > 1


def _of_elements(ck: Checker, spine: list[A.EApp], i: int, f: str, depth: int) -> str | None:
    """A function of numbers applied to an array, or one of arrays to an array of them."""
    nodes = list(spine)
    for node in nodes:
        if not _typed(ck, node):
            return None
    texts = [written(ck, n.arg) for n in nodes]
    if any(t is None for t in texts):
        return None
    args = [atom(t) for t in texts if t is not None]
    module, _, member = f.rpartition(".")
    x = args[i]
    if len(nodes) == 1:
        whole = {"max": "maximum", "min": "minimum"}.get(member)
        if whole is not None and numeric.is_module(module):
            flat = x
            for _ in range(depth - 1):
                flat = f"(flatten {flat})"
            return f"of all elements: {module}.{whole} {flat}"
        if member in ("sum", "product", "maximum", "minimum") and numeric.is_module(module):
            flat = x
            for _ in range(depth):
                flat = f"(flatten {flat})"
            return f"of all elements: {f} {flat}; of each row: {mapped(f, 1, x)}"
        want = resolve(nodes[0].fun.type) if nodes[0].fun.type is not None else None
        inner = scalar(want.param) if type(want) is TFun else None
        a = scalar(nodes[0].arg.type)
        if a is not None and inner is not None and a is not inner:
            if not lossless(a, inner):
                return None
            x = f"({mapped(f'{inner}.{a}', rank(nodes[0].arg.type), x)})"
        return "element by element: " + mapped(f, depth, x)
    arrays = [rank(n.arg.type) for n in nodes]
    if len(nodes) == 2 and arrays == [1, 1]:
        return f"element by element: map2 {f} {args[0]} {args[1]}"
    if len(nodes) == 2 and depth == 1 and sorted(arrays) == [0, 1]:
        if arrays[1]:
            return f"element by element: map ({f} {args[0]}) {args[1]}"
        name = fresh(f, *args)
        return f"element by element: map (\\{name} -> {f} {name} {args[1]}) {args[0]}"
    return None


def _in_function(ck: Checker, before: list[A.EApp], have: Prim, elements: Prim) -> str | None:
    """`map (* k) xs` where k is of type `have` and the elements of `elements`: what is to be converted is k."""
    for node in before:
        g = node.arg
        if type(g) is A.EVar and (member := g.name.removeprefix(f"{have}.")) != g.name:
            if numeric.member(elements.name, member) is not None:
                return f"of {elements} it is {elements}.{member}"
        if type(g) is A.ELambda and lossless(have, elements) and _inside(g.body) is not None:
            own = {v.binding for p in g.params for v in A.pattern_names(p)}
            others = [x for x in _operands(g.body) if not (type(x) is A.EVar and x.binding in own)]
            texts = [(x, written(ck, x)) for x in others]
            if any(t is None or scalar(x.type) is not have or quotient(x) is not None for x, t in texts):
                return None
            said = written(ck, g, [(x, f"{elements}.{have} {atom(t)}") for x, t in texts if t is not None])
            return None if said is None or not texts else f"the elements are {elements}: convert in {atom(said)}"
    return None


def _swapped(ck: Checker, spine: list[A.EApp], head: A.Expr) -> str | None:
    """Arguments in another order: `map xs f`."""
    if len(spine) < 2 or not all(_typed(ck, n) for n in spine):
        return None
    params: list[SType] = []
    t = resolve(head.type) if head.type is not None else None
    while type(t) is TFun and len(params) < len(spine):
        params.append(resolve(t.param))
        t = resolve(t.result)
    args = [n.arg for n in spine]
    if len(params) < len(args) or all(_alike(a.type, p) for a, p in zip(args, params, strict=True)):
        return None
    for j in range(1, len(args)):
        for i in range(j):
            order = list(args)
            order[i], order[j] = order[j], order[i]
            if all(_alike(a.type, p) for a, p in zip(order, params, strict=True)):
                texts = [written(ck, a) for a in order]
                f = written(ck, head)
                if f is None or any(t is None for t in texts):
                    return None
                return "the arguments in order: " + " ".join([f, *[atom(t) for t in texts if t]])
    return None


def _alike(a: SType | None, p: SType) -> bool:
    """Whether a value of type `a` may be what `p` asks for, by their forms."""
    a, p = resolve(a) if a is not None else p, resolve(p)
    if type(p) is TMeta and p.kind in (None, "any", "data", "eq"):
        return type(a) is not TFun
    if type(a) is TMeta:
        return type(p) in (TPrim, TMeta) if a.kind is not None else True
    if type(a) is TPrim and type(p) is TPrim:
        return a.prim is p.prim
    if type(a) is TArray and type(p) is TArray:
        return _alike(a.elem, p.elem)
    return type(a) is type(p)


# --- results ---------------------------------------------------------------------------------------------------


def on_result(found: SType, never: bool) -> str:
    """For the value of a function whose declared type has other sizes; `never`: they are not equal."""
    shown = re.sub(r"\[(?:[^\[\]]*\?[^\[\]]*|_)\]", "[]", show_type(found))  # those that have no name
    said = f"declare the size that it has: {shown}"
    return said if never else f"{said}; or say with ':>' that the sizes are equal when it runs"


def not_a_function(ck: Checker, e: A.EApp, head: A.Expr, found: SType) -> str | None:
    """For a number or an array that is applied to something."""
    f, t = written(ck, head), resolve(found)
    if type(e.arg) is A.EConstr or f is None:
        return "a comment begins with '--'" if type(e.arg) is A.EConstr else None
    if not _typed(ck, e) or (x := written(ck, e.arg)) is None:
        return None
    if type(t) is TArray:
        parts = e.arg.elems if type(e.arg) is A.ETuple and len(e.arg.elems) > 1 else [e.arg]
        if all((p := scalar(a.type)) is None or p.is_integral for a in parts):
            return f"an element is {f}[{x[1:-1] if len(parts) > 1 else x}]"
    if type(t) is TPrim and not t.prim.is_bool or type(t) is TMeta:
        if type(resolve(e.arg.type)) in (TPrim, TMeta) if e.arg.type is not None else False:
            return f"a product is {f} * {atom(x)}"
    return None


__all__ = [
    "conversion", "either", "elementwise", "lossless", "not_a_function", "on_argument", "on_conjunct", "on_operand",
    "on_prefix", "on_result",
]  # fmt: skip
