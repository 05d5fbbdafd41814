"""Functions in scope of themselves, and of each other: how they are known before they are checked, and the rules.

Futhark's rules (since 0.27.1): recursion is monomorphic in types and polymorphic in size parameters that are written;
results hold no functions; where a function has functional parameters, a recursive application has all its arguments,
and passes these parameters on as they are.  Beyond: functions that call each other, if their types are declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from futad.errors import Span, TypeCheckError, UnsupportedError
from futad.source import ast as A
from futad.source import budgets
from futad.source.ast import type_of
from futad.source.causality import children
from futad.source.pretty import show_size
from futad.source.traversals import size_names, sizes_in, walk
from futad.source.types import Binding, Scheme, SizeVar, SType, TFun, TParam

if TYPE_CHECKING:
    from futad.source.check import Checker

CODE = "E0802"


@dataclass(slots=True, eq=False)
class Open:
    """A function whose definition is not checked yet, as its uses see it.

    `binding` is the one it will have; `make` its scheme, made when the first use asks for it; `result` the type of its
    result if that is to be inferred.
    """

    fd: A.FunDef
    binding: Binding
    make: Callable[[], Scheme]
    uses: list[A.EVar] = field(default_factory=list)
    ahead: bool = False  # declared before its turn, for others
    result: SType | None = None
    scheme: Scheme | None = None

    def use(self, e: A.EVar) -> Scheme:
        """The scheme for a use."""
        if self.scheme is None:
            self.scheme = self.make()
        self.uses.append(e)
        self.fd.recursive = True
        return self.scheme

    def close(self, scheme: Scheme) -> None:
        """The definition is checked: uses instantiate its own parameters."""
        self.binding.scheme = scheme
        before = self.scheme
        if before is None:
            return
        for e in self.uses:
            targs = dict(zip(scheme.tparams, [e.targs[b] for b in before.tparams], strict=False))
            sargs = dict(zip(scheme.sizes, [e.sargs[b] for b in before.sizes], strict=False))
            if not self.ahead:  # what inference added is the same inside
                targs = {b: targs.get(b, TParam(b)) for b in scheme.tparams}
                sargs = {b: sargs.get(b, SizeVar(b)) for b in scheme.sizes}
            e.targs, e.sargs = targs, sargs


# --- rules ----------------------------------------------------------------------------------------------------


def check_rules(ck: Checker, o: Open, result: SType) -> None:
    """The rules for a function that occurs in its own definition.  Raises TypeCheckError."""
    fd = o.fd
    if not fd.recursive:
        return
    for a in fd.attrs:
        if a.name == "bound":
            _check_bound(fd, a)
    if _functional(fd, result):
        raise TypeCheckError(
            f"the result of the recursive function '{fd.name}' is not first-order: it is a function, or holds one",
            fd.ret.span if fd.ret is not None else fd.span,
            hint="write the function's parameters as further parameters",
            code=CODE,
        )
    if fd.ret is None:
        for s in sizes_in(result):
            if any(b.level > ck.level for b in size_names(s)):
                raise TypeCheckError(
                    f"the result of the recursive function '{fd.name}' has size {show_size(s)}, "
                    "which is not the same in each call",
                    fd.span,
                    hint="declare the type of the result",
                    code=CODE,
                )
    given = [_functional(fd, type_of(p)) for p in fd.params]
    if any(given):
        _applications(o, fd.body, given)


def _check_bound(fd: A.FunDef, a: A.Attr) -> None:
    """`#[bound(d)]` before a recursive function says how many activations of it there are at most."""
    if sum(1 for x in fd.attrs if x.name == "bound") > 1:
        raise TypeCheckError("'bound' is said twice", a.span, code=budgets.WRONG)
    if len(a.args) != 1 or type(a.args[0]) is not int or a.args[0] < 1:
        raise TypeCheckError(
            f"'bound' of the recursive function '{fd.name}' takes one number from 1 on",
            a.span,
            hint="'#[bound(40)]': at most 40 activations of it are there at once",
            code=budgets.WRONG,
        )


def _functional(fd: A.FunDef, t: SType) -> bool:
    """Whether a type is that of functions, contains one, or may stand for one."""
    found = False
    lifted = {tp.binding for tp in fd.tparams if tp.kind == "fullylifted"}

    def on_type(t: SType) -> None:
        nonlocal found
        found = found or type(t) is TFun or (type(t) is TParam and t.binding in lifted)

    walk(t, on_type, lambda _: None)
    return found


def _applications(o: Open, body: A.Expr, given: Sequence[bool]) -> None:
    """Each use is an application to all arguments, with the parameters that are functions passed on unchanged."""
    fd = o.fd
    todo: list[A.Expr] = [body]
    while todo:
        e = todo.pop()
        head, args = e, []
        while type(head) is A.EApp:
            args.append(head.arg)
            head = head.fun
        if not args and type(e) is A.EVar and e.binding is o.binding:
            raise TypeCheckError(
                f"'{fd.name}' has a higher-order parameter: in its own definition it can only be applied, "
                "to all of its arguments",
                e.span,
                code=CODE,
            )
        if not args or type(head) is not A.EVar or head.binding is not o.binding:
            todo += children(e)
            continue
        args.reverse()
        if len(args) != len(fd.params):
            raise TypeCheckError(
                f"this recursive application of '{fd.name}' is not fully saturated: it has {len(args)} of "
                f"{len(fd.params)} arguments",
                e.span,
                code=CODE,
            )
        for p, x, functional in zip(fd.params, args, given, strict=True):
            own = [v.binding for v in A.pattern_names(p)]
            if functional and not (type(x) is A.EVar and x.binding in own):
                name = own[0].name if len(own) == 1 and own[0] is not None else "the parameter itself"
                raise TypeCheckError(
                    f"a function must be passed unchanged by a recursive application of '{fd.name}'",
                    x.span,
                    hint=f"write {name} here; what changes can be a parameter that is no function",
                    code=CODE,
                )
            todo.append(x)


# --- functions that call each other ------------------------------------------------------------------------------


class Groups:
    """The functions that a list of declarations defines, and which names their bodies mention."""

    def __init__(self, decls: Sequence[Any]) -> None:
        plain = [d.decl if isinstance(d, A.LocalDecl) else d for d in decls]
        self.at = {d.name: k for k, d in enumerate(plain) if isinstance(d, A.FunDef)}
        self.defs = {d.name: d for d in plain if isinstance(d, A.FunDef)}
        self._names: dict[str, dict[str, Span]] = {}

    def names(self, name: str) -> dict[str, Span]:
        """The functions of the list that the body of one of them mentions, with the first place."""
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = {}
            fd = self.defs[name]
            for e in _free(fd.body, _own(fd)):
                if e.name in self.defs:
                    found.setdefault(e.name, e.span)
        return found

    def ahead(self, fd: A.FunDef) -> Iterator[tuple[A.FunDef, Span]]:
        """The later functions that this one calls, and which call it, perhaps by way of others; the places."""
        known = self.defs.get(fd.name)
        if known is None or known.span != fd.span:
            return
        for name, span in list(self.names(fd.name).items()):
            if self.at[name] > self.at[fd.name] and fd.name in self._reached(name):
                yield self.defs[name], span

    def _reached(self, name: str) -> set[str]:
        seen: set[str] = set()
        todo = [name]
        while todo:
            for n in self.names(todo.pop()):
                if n not in seen:
                    seen.add(n)
                    todo.append(n)
        return seen


def _own(fd: A.FunDef) -> frozenset[str]:
    """The names that a function's parameters have in its body."""
    return _names(fd.params) | {p.name for p in fd.tparams}


def _names(pats: Sequence[A.Pat]) -> frozenset[str]:
    return frozenset([v.name for p in pats for v in A.pattern_names(p)])


def _free(e: A.Expr, bound: frozenset[str]) -> Iterator[A.EVar]:
    """The variables of an expression that nothing in it binds, nor `bound`."""
    own = Counter(bound)  # how often each name is bound where we are
    todo: list[tuple[A.Expr | None, Collection[str]]] = [(e, ())]

    def go(x: A.Expr, *names: str) -> None:
        """Look at an expression in which these names are bound, and forget them."""
        if names:
            todo.append((None, names))
        todo.append((x, names))

    while todo:
        at, names = todo.pop()
        if at is None:
            own.subtract(names)
            continue
        own.update(names)
        match at:
            case A.EVar():
                if own[at.name] <= 0:
                    yield at
            case A.ELambda():
                go(at.body, *_names(at.params))
            case A.ELet():
                go(at.rhs)
                go(at.body, *_names([at.pat]), *at.sizes)
            case A.ELetFun():
                go(at.fun.body, at.fun.name, *_own(at.fun))
                go(at.body, at.fun.name)
            case A.ELoop():
                inside = [*_names([at.pat]), *at.sizes]
                match at.form:
                    case A.ForIn(_, pat, array):
                        go(array)
                        inside += _names([pat])
                    case A.ForI(_, var, limit):
                        go(limit)
                        inside.append(var.name)
                    case A.WhileForm(_, cond):
                        go(cond, *inside)
                if at.init is not None:
                    go(at.init)
                go(at.body, *inside)
            case A.EMatch():
                go(at.scrutinee)
                for p, y in at.cases:
                    go(y, *_names([p]))
            case _:
                for y in children(at):
                    go(y)


def mentions_itself(fd: A.FunDef) -> bool:
    """Whether a function's name is free in its body."""
    return bool(fd.params) and any(e.name == fd.name for e in _free(fd.body, _own(fd)))


def declared(fd: A.FunDef) -> bool:
    """Whether a function's parameters and result all have types."""

    def typed(p: A.Pat) -> bool:
        return typed(p.pat) if isinstance(p, A.PAttr) else isinstance(p, A.PAscript)

    return bool(fd.params) and fd.ret is not None and all(typed(p) for p in fd.params)


def undeclared(fd: A.FunDef, by: A.FunDef, span: Span) -> UnsupportedError:
    """The error for a function that calls one before it, and is called there."""
    return UnsupportedError(
        f"'{by.name}' and '{fd.name}' call each other, but '{fd.name}' does not declare its type",
        span,
        hint=f"declare the types of all parameters of '{fd.name}' and of its result",
        code=CODE,
    )


__all__ = ["CODE", "Groups", "Open", "check_rules", "declared", "mentions_itself", "undeclared"]
