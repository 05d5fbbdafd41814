"""Warnings: what is allowed and probably not meant.  Collected while a program is checked, shown by `futad check`.

Only the program's own file is looked at; what it imports is not for its author to change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from futad.errors import Lint, Span
from futad.source import ast as A
from futad.source import budgets
from futad.source.causality import children
from futad.source.opaque import opened
from futad.source.sizes import is_intrinsic
from futad.source.traversals import parts
from futad.source.types import Binding, SType, TFun, TPrim

if TYPE_CHECKING:
    from futad.source.check import Checker

# Attributes with an effect here, and those that only other compilers of the language give one.
ATTRIBUTES = frozenset(
    "stripmine bound true_dep noinline inline unroll sequential sequential_inner sequential_outer unsafe scratch blank "
    "trace flattening incremental_flattening prop checkpoint reversible again".split()
)
NO_EFFECT = frozenset(
    "opaque break doc warn param lambda scalar_only inconsistent only_intra no_intra only_inner no_outer".split()
)


CONSTRUCTS = ("sequential", "sequential_inner", "sequential_outer", "flattening", "incremental_flattening")


def warn(ck: Checker, message: str, span: Span, hint: str | None = None) -> None:
    """Note a warning, once for a place (bodies of parametric modules are checked several times)."""
    if span.file == ck.root.path:
        ck.warnings.setdefault((span.line, span.col, message), Lint(message, span, hint=hint))


def unused(ck: Checker, b: Binding) -> None:
    """Warn of a local name that nothing mentions."""
    if not b.used and b.span is not None and not b.name.startswith("_"):
        warn(ck, f"'{b.name}' is not used", b.span, f"remove it, or call it '_{b.name}'")


def shadows(ck: Checker, name: str, span: Span) -> None:
    """Warn of a definition that hides one of the prelude."""
    if name in ck.prelude:
        warn(ck, f"this hides the prelude's '{name}'", span)


def elsewhere(ck: Checker, attrs: list[A.Attr]) -> None:
    """Warn of attributes of declarations and patterns that are without meaning or effect."""
    attributes(ck, attrs)
    for a in attrs:
        if a.name in budgets.NAMES:
            warn(ck, f"'{a.name}' has no effect here", a.span, "it is for loops, 'vjp' and 'mjp'")


def attributes(ck: Checker, attrs: list[A.Attr]) -> None:
    """Warn of attributes without meaning or effect."""
    for a in attrs:
        if a.name in NO_EFFECT:
            warn(ck, f"the attribute '{a.name}' has no effect", a.span)
        elif a.name not in ATTRIBUTES:
            near = ck.near(a.name, list(ATTRIBUTES))
            warn(ck, f"unknown attribute '{a.name}'", a.span, f"did you mean '{near}'?" if near else None)


def on_expression(ck: Checker, e: A.EAttr) -> None:
    """Warn of an attribute without meaning, or that does not belong on such an expression."""
    attributes(ck, [e.attr])
    x = _inside(e)
    name, iterations = e.attr.name, type(x) is A.ELoop and type(x.form) is not A.WhileForm
    if name == "unroll" and not iterations and type(x) is not A.EApp:
        warn(ck, "'unroll' has no effect here", e.attr.span, "it is for 'for' loops, 'jmp' and 'mjp'")
    elif name in CONSTRUCTS and type(x) in (A.ELoop, A.EVar, A.ELit, A.ELambda, A.EIndex, A.ETuple, A.ERecord):
        warn(ck, f"'{name}' has no effect here", e.attr.span, "it is for applications of 'map', 'reduce' and the like")


def on_budgeted(ck: Checker, e: A.EAttr) -> None:
    """Warn of a budget of an expression that keeps nothing, once inference knows what is applied, and to how much."""
    if not budgets.takes_one(e) or _function(e.type) is not None:
        warn(ck, f"'{e.attr.name}' has no effect here", e.attr.span, "it is for loops, 'vjp' and 'mjp'")


def _inside(e: A.EAttr) -> A.Expr:
    """What an attribute is on, behind other attributes and types."""
    x = e.expr
    while type(x) is A.EAttr or type(x) is A.EAscript or type(x) is A.ECoerce:
        x = x.expr
    return x


def never_unrolled(ck: Checker, body: A.Expr, given: set[Binding]) -> None:
    """Warn of `#[unroll]` in an entry point on a loop whose iterations are as many as a caller says: one of `given`."""
    stack = [body]
    while stack:
        e = stack.pop()
        stack += children(e)
        if type(e) is A.EAttr and e.attr.name == "unroll":
            loop = _inside(e)
            iterations = loop.form.bound if type(loop) is A.ELoop and type(loop.form) is A.ForI else None
            if type(iterations) is A.EVar and iterations.binding in given:
                warn(
                    ck,
                    "'unroll' has no effect here",
                    e.attr.span,
                    f"it is for loops whose number of iterations is a constant, and callers give '{iterations.name}'",
                )


DERIVATIVES = frozenset(("jvp", "jvp2", "vjp", "vjp2", "jmp", "jmp2", "mjp", "mjp2"))


def derivatives_of_integers(ck: Checker, body: A.Expr) -> None:
    """Warn of derivatives of integers that a function makes from floats: they are as if it did not round."""
    stack = [body]
    while stack:
        e = stack.pop()
        stack += children(e)
        if type(e) is A.EApp and type(e.fun) is A.EVar and e.fun.name in DERIVATIVES and is_intrinsic(e.fun):
            f = _function(e.arg.type)
            if f is None or not _holds(f.param, "is_float") or not _holds(f.result, "is_integral"):
                continue
            if name := _rounds(e.arg):
                warn(
                    ck,
                    f"the derivative of the result's integers is taken as if '{name}' did not round",
                    e.fun.span,
                    "it is 0 almost everywhere: keep what is rounded out of the result, or as a float",
                )


def _function(t: SType | None) -> TFun | None:
    f = opened(t) if t is not None else None
    return f if type(f) is TFun else None


def _holds(t: SType, kind: str) -> bool:
    """Whether there are numbers of a kind in a value of that type."""
    t = opened(t)
    if type(t) is TPrim:
        return bool(getattr(t.prim, kind))
    return any(_holds(x, kind) for x in parts(t))


def _rounds(e: A.Expr) -> str:
    """The name of a conversion from floats to integers in an expression or in a function that it may call; else ''."""
    seen: set[Any] = set()
    stack = [e]
    while stack:
        x = stack.pop()
        stack += children(x)
        if type(x) is not A.EVar or x.binding is None:
            continue
        if x.binding.decl is not None and x.binding not in seen:
            seen.add(x.binding)
            stack.append(x.binding.decl.body)
        f = _function(x.type) if is_intrinsic(x) and not x.binding.name.endswith("to_bits") else None
        if f is not None and type(opened(f.param)) is TPrim and type(opened(f.result)) is TPrim:
            if _holds(f.param, "is_float") and _holds(f.result, "is_integral"):
                return x.binding.name
    return ""


FOLDS = frozenset(("reduce", "reduce_comm", "scan"))
UNITS = {"+": 0, "*": 1}


def starts_of_folds(ck: Checker, f: A.FunDef) -> None:
    """Warn of sums and products that begin with a parameter, or with a number that is not their unit.  A fold begins
    with it in each thread, so that the result depends on the machine, and derivatives do not flow to it."""
    given: set[Binding | None] = {v.binding for p in f.params for v in A.pattern_names(p)}
    folds: list[tuple[A.EApp, A.EVar]] = []
    stack: list[A.Expr] = [f.body]
    while stack:
        e = stack.pop()
        stack += children(e)
        if type(e) is A.ELambda:
            given |= {v.binding for p in e.params for v in A.pattern_names(p)}
        elif type(e) is A.ELoop:
            given |= {v.binding for v in A.pattern_names(e.pat)}
        elif type(e) is A.EApp and type(e.fun) is A.EApp and type(e.fun.arg) is A.EVar and type(e.fun.fun) is A.EVar:
            fold, operator = e.fun.fun, e.fun.arg
            if fold.name in FOLDS and is_intrinsic(fold) and is_intrinsic(operator):
                folds.append((e, operator))
    for e, operator in folds:
        sign, start = operator.name[-1], e.arg
        if sign not in UNITS or operator.name[-2:] == "**":
            continue
        number = type(start) is A.ELit and start.value != UNITS[sign]
        if number or type(start) is A.EVar and start.binding in given:
            warn(
                ck,
                f"a fold by '{sign}' has to begin with {UNITS[sign]}: each thread begins with this value",
                start.span,
                f"begin with {UNITS[sign]}, and combine the result with this value; derivatives flow to it then, too",
            )


def copied_update(ck: Checker, e: A.EUpdate) -> None:
    """Warn of an update, inside a loop, of a copy of the loop's own parameter: each iteration copies all of it."""
    b = _copied_param(ck, e.array)
    if b is not None:
        _warn_copy(ck, b, e.span)


def copied_to_update(ck: Checker, e: A.ELet) -> None:
    """The same where the copy has a name: `let ys = copy xs in ... ys with [i] = ...`, and xs is not used any more."""
    b = _copied_param(ck, e.rhs)
    if b is None or type(e.pat) is not A.PVar:
        return
    updated = False
    stack: list[A.Expr] = [e.body]
    while stack:
        x = stack.pop()
        if type(x) is A.EVar and x.binding is b:
            return
        updated = updated or (type(x) is A.EUpdate and type(x.array) is A.EVar and x.array.binding is e.pat.binding)
        stack += children(x)
    if updated:
        _warn_copy(ck, b, e.rhs.span)


def _copied_param(ck: Checker, x: A.Expr) -> Binding | None:
    """The loop parameter of which an expression is a copy."""
    if type(x) is A.EApp and type(x.fun) is A.EVar and x.fun.name == "copy" and is_intrinsic(x.fun):
        b = x.arg.binding if type(x.arg) is A.EVar else None
        return b if b in ck.loop_params else None
    return None


def _warn_copy(ck: Checker, b: Binding, span: Span) -> None:
    warn(
        ck,
        f"each iteration of the loop copies all of '{b.name}' to change a part of it",
        span,
        f"update '{b.name}' itself: a loop may overwrite its own parameters",
    )
