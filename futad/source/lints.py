"""Warnings: what is allowed and probably not meant.  Collected while a program is checked, shown by `futad check`.

Only the program's own file is looked at; what it imports is not for its author to change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from futad.core.scalarops import OPS
from futad.core.types import PRIMS
from futad.errors import Lint, Span
from futad.source import ast as A
from futad.source import budgets
from futad.source import modast as M
from futad.source.ast import type_of
from futad.source.causality import children
from futad.source.lexer import qualified
from futad.source.opaque import opened
from futad.source.operators import Path, components, plain
from futad.source.sizes import is_intrinsic
from futad.source.traversals import parts
from futad.source.types import Binding, SType, TArray, TFun, TPrim
from futad.source.written import atom, written

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
        if asks_for_checks(a):
            continue
        if a.name in NO_EFFECT:
            warn(ck, f"the attribute '#[{a.name}]' has no effect", a.span)
        elif a.name not in ATTRIBUTES:
            near = ck.near(a.name, list(ATTRIBUTES))
            warn(ck, f"unknown attribute '{a.name}'", a.span, f"did you mean '{near}'?" if near else None)


def asks_for_checks(a: A.Attr) -> bool:
    """Whether it is `#[warn(safety_checks)]`, which is for expressions."""
    return a.name == "warn" and a.args == ("safety_checks",)


def on_expression(ck: Checker, e: A.EAttr) -> None:
    """Warn of an attribute without meaning, or that does not belong on such an expression."""
    attributes(ck, [e.attr])
    x = plain(e)
    name, iterations = e.attr.name, type(x) is A.ELoop and type(x.form) is not A.WhileForm
    if name == "unroll" and not iterations and type(x) is not A.EApp:
        warn(ck, "'#[unroll]' has no effect here", e.attr.span, "it is for 'for' loops, 'jmp' and 'mjp'")
    elif name in CONSTRUCTS and type(x) in (A.ELoop, A.EVar, A.ELit, A.ELambda, A.EIndex, A.ETuple, A.ERecord):
        warn(ck, f"'{name}' has no effect here", e.attr.span, "it is for applications of 'map', 'reduce' and the like")


def on_budgeted(ck: Checker, e: A.EAttr) -> None:
    """Warn of a budget of an expression that keeps nothing, once inference knows what is applied, and to how much."""
    if not budgets.takes_one(e) or _function(e.type) is not None:
        warn(ck, f"'{e.attr.name}' has no effect here", e.attr.span, "it is for loops, 'vjp' and 'mjp'")


def never_unrolled(ck: Checker, body: A.Expr, given: set[Binding]) -> None:
    """Warn of `#[unroll]` in an entry point on a loop whose iterations are as many as a caller says: one of `given`."""
    stack = [body]
    while stack:
        e = stack.pop()
        stack += children(e)
        if type(e) is A.EAttr and e.attr.name == "unroll":
            loop = plain(e)
            iterations = loop.form.bound if type(loop) is A.ELoop and type(loop.form) is A.ForI else None
            if type(iterations) is A.EVar and iterations.binding in given:
                warn(
                    ck,
                    "'#[unroll]' has no effect here",
                    e.attr.span,
                    f"it is for loops whose number of iterations is a constant, and callers give '{iterations.name}'",
                )


def negated_base(ck: Checker, e: A.EApp) -> None:
    """Warn of `-x ** 2`, which is `(-x) ** 2`: a prefix operator binds more tightly than all others."""
    f = e.fun
    if type(f) is A.EApp and type(f.fun) is A.EVar and type(f.arg) is A.ENeg and not f.arg.bracketed:
        if qualified(f.fun.name)[1][:2] == "**":
            base, power = written(ck, f.arg.arg), written(ck, e.arg)
            hint = "write -(x ** 2) for the negative of a power, (-x) ** 2 if this is meant"
            if base is not None and power is not None and not power.endswith("**)"):
                base, power = atom(base), atom(power)
                hint = f"write -({base} ** {power}) for the negative of a power, (-{base}) ** {power} if this is meant"
            warn(ck, "the '-' belongs to what stands left of '**': this is a power of a negative", f.arg.span, hint)


def negative_indices(ck: Checker, e: A.EIndex | A.EUpdate) -> None:
    """Warn of `xs[-1]` and `xs[:-1]`, which are out of bounds."""
    for i, ix in enumerate(e.index):
        forwards = type(ix) is A.ESlice and (ix.stride is None or type(ix.stride) is A.ELit and ix.stride.value > 0)
        for x in (ix.start, ix.end) if isinstance(ix, A.ESlice) and forwards else (ix,):
            if type(x) is A.ELit and x.value < 0:
                array = written(ck, e.array) if i == 0 else None
                size = f"length {atom(array)}" if array is not None else "its size"
                hint = f"write {size} - {-x.value}"
                warn(ck, f"indices do not count from the end: {x.value} is out of bounds", x.span, hint)


def has_binding(e: A.Expr | None) -> bool:
    """Whether names are bound in an expression: it is no size that types can mention."""
    return e is not None and (isinstance(e, BINDING) or any(map(has_binding, children(e))))


BINDING = (A.ELet, A.ELetFun, A.ELambda, A.ELoop, A.EMatch)
WITH_BINDING = "a size expression with binding: the size is not known to the rest of the program"
BIND_BEFORE = "bind what it computes by a 'let' before this"


def included(ck: Checker, spec: M.IncludeSpec, shown: list[str], more: list[str]) -> None:
    """Warn of types that come into a module type twice, which are one."""
    for name in more:
        if name in shown:
            warn(ck, f"Inclusion shadows type '{name}'", spec.span, "it is the same type then; name one otherwise")


def of_uses(ck: Checker, body: A.Expr) -> None:
    """Warn of arrays that are compared, and of checks where `#[warn(safety_checks)]` asks for that."""
    stack = [body]
    while stack:
        e = stack.pop()
        stack += children(e)
        if type(e) is A.EApp and type(e.fun) is A.EVar and e.fun.name in ("==", "!=") and is_intrinsic(e.fun):
            if _holds_array(type_of(e.arg)):
                what = f"comparing arrays by '{e.fun.name}' is deprecated, and will stop working in Futhark"
                warn(ck, what, e.fun.span, "and (map2 (==) xs ys)")
        elif type(e) is A.EAttr and asks_for_checks(e.attr):
            for span in _checked(e.expr):
                at = span if span.file == ck.root.path else e.attr.span
                warn(ck, "Safety check required at run time, unless it is shown that this cannot fail", at)


def _holds_array(t: SType) -> bool:
    t = opened(t)
    return type(t) is TArray or any(map(_holds_array, parts(t)))


def _checked(e: A.Expr) -> list[Span]:
    """What may fail in an expression and in the functions that it may call."""
    found: list[Span] = []
    seen: set[Any] = set()
    stack = [e]
    while stack:
        x = stack.pop()
        stack += children(x)
        if type(x) is A.EVar and x.binding is not None and type(x.binding.decl) is A.FunDef:
            if x.binding not in seen:
                seen.add(x.binding)
                stack.append(x.binding.decl.body)
        elif isinstance(x, (A.EIndex, A.EUpdate, A.ECoerce, A.EAssert, A.ERange)):
            found.append(x.span)
        elif type(x) is A.EVar and is_intrinsic(x) and x.name in FAILING:
            f = _function(x.type)
            if x.name not in ("/", "%", "//", "%%") or f is not None and _holds(f.param, "is_integral"):
                found.append(x.span)
    return found


# Of the prelude: what fails for some arguments; divisions of integers.
FAILING = frozenset("/ % // %% head last tail init take drop split unflatten iota replicate tabulate".split())
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


# Folds, with the number of their argument that is the operator, and of the one that they begin with.
FOLDS = {
    "reduce": (0, 1), "reduce_comm": (0, 1), "scan": (0, 1), "exscan": (0, 1), "hist": (0, 1),
    "reduce_by_index": (1, 2), "reduce_by_index_2d": (1, 2), "reduce_by_index_3d": (1, 2),
}  # fmt: skip
TWICE = ("add", "mul", "xor")  # operations for which it matters how often a value is there


def starts_of_folds(ck: Checker, f: A.FunDef) -> None:
    """Warn of sums and products that begin with a parameter, or with a number that is not their unit.  A fold begins
    with it in each thread, so that the result depends on the machine, and derivatives do not flow to it."""
    look = _Starts({v.binding for p in f.params for v in A.pattern_names(p)}, {})
    folds: list[tuple[A.Expr, A.Expr]] = []
    stack: list[A.Expr] = [f.body]
    while stack:
        e = stack.pop()
        stack += children(e)
        look.note(e)
        if type(e) is A.EApp and (found := _fold(e)) is not None:
            folds.append(found)
    for operator, start in folds:
        for path, c in components(operator, look.named).items():
            o = OPS[c.operator.op]
            if o.name not in TWICE:
                continue
            unit = int(o.neutral(c.prim))
            if (begun := look.other(start, path, unit)) is not None:
                warn(
                    ck,
                    f"a fold by '{o.infix}' has to begin with {unit}: each thread begins with this value",
                    begun.span,
                    f"begin with {unit}, and combine the result with this value; derivatives flow to it then, too",
                )


def _fold(e: A.EApp) -> tuple[A.Expr, A.Expr] | None:
    """The operator of a fold, and what it begins with, where the latter is the last argument so far."""
    args: list[A.Expr] = []
    f: A.Expr = e
    while type(f) is A.EApp:
        args.insert(0, f.arg)
        f = f.fun
    places = FOLDS.get(f.name) if type(f) is A.EVar and is_intrinsic(f) else None
    return (args[places[0]], args[-1]) if places is not None and len(args) == places[1] + 1 else None


@dataclass(slots=True)
class _Starts:
    """What is known of the names in a function: those that somebody gives a value, and what the others stand for."""

    given: set[Binding | None]
    named: dict[Binding, A.Expr]

    def note(self, e: A.Expr) -> None:
        """Note the names that an expression binds; those around it are known."""
        pats: list[A.Pat] = []
        if type(e) is A.ELambda:
            pats = e.params
        elif type(e) is A.ELetFun:
            pats = e.fun.params
        elif type(e) is A.ELoop:
            form = e.form
            counted = [form.pat] if type(form) is A.ForIn else [form.var] if type(form) is A.ForI else []
            pats = [e.pat, *counted]
        elif type(e) is A.EMatch:
            pats = [p for p, _ in e.cases]
        elif type(e) is A.ELet and type(e.pat) is A.PVar and e.pat.binding is not None:
            self.named[e.pat.binding] = e.rhs
        elif type(e) is A.ELet and self.data(e.rhs):
            pats = [e.pat]
        self.given |= {v.binding for p in pats for v in A.pattern_names(p)}

    def data(self, e: A.Expr) -> bool:
        """Whether somebody gives the value: it is a parameter, or a part of one."""
        e = self.meant(e)
        while isinstance(e, (A.EProject, A.EIndex)):
            e = self.meant(e.record if isinstance(e, A.EProject) else e.array)
        return type(e) is A.EVar and (e.binding in self.given or e.binding is not None and e.binding.kind == "size")

    def meant(self, e: A.Expr) -> A.Expr:
        """What a name stands for."""
        e = plain(e)
        while type(e) is A.EVar and e.binding is not None:
            fd = e.binding.decl
            if e.binding in self.named:
                e = plain(self.named[e.binding])
            elif type(fd) is A.FunDef and not fd.params and not fd.recursive:
                e = plain(fd.body)
            else:
                break
        return e

    def other(self, begun: A.Expr, path: Path, unit: int) -> A.Expr | None:
        """Where it is said, if a component of a value is known to be something other than the unit, or may be."""
        e = self.meant(begun)
        found: A.Expr | None = None
        if self.data(e) or type(e) is A.ELit and e.value != unit:
            found = e
        elif type(e) is A.ENeg and type(e.arg) is A.ELit:
            found = e if -e.arg.value != unit else None
        elif type(e) is A.ETuple and path:
            found = self.other(e.elems[int(path[0])], path[1:], unit)
        elif type(e) is A.ERecord and path:
            found = self.other(dict(e.fields)[path[0]], path[1:], unit)
        elif type(e) is A.EArray and any(self.other(x, path, unit) for x in e.elems):
            found = e
        elif type(e) is A.EApp and _keeps(e.fun) and self.other(e.arg, path, unit):
            found = e
        return found if found is None or e is plain(begun) else begun


def _keeps(f: A.Expr) -> bool:
    """Whether a function repeats a value, or converts a number."""
    f = f.fun if type(f) is A.EApp else f
    return type(f) is A.EVar and is_intrinsic(f) and (f.name in ("replicate", "rep") or _converts(f.binding))


def _converts(b: Binding | None) -> bool:
    module, _, name = b.name.rpartition(".") if b is not None else ("", "", "")
    return module in PRIMS and name in PRIMS


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
