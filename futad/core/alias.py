"""Aliases: which variables may share memory, and which memory may be overwritten.

All questions are answered from one relation, `flows`: the variables that a statement binds, those of its scopes
included, with the atoms whose memory each may lie in.  `Exp.shares` and `Exp.consumes` say it for constructs without
scopes, so a new one needs no line here.  It is asked in three ways:

    aliases(scope)          rewriting passes, after each step: may `a` be overwritten anywhere (`mutable`), may `a` and
                            `b` be one memory (`root`), does it leave the function (`escaping`), may these statements
                            overwrite these reads (`overwritten`)?  `flows` without its direction, by union-find, so
                            that a pass can go on joining what it rewrites.
    overwritable(program)   lowering, once a program: may this variable's memory be overwritten by anybody it flows to?
                            Directed, and through calls: an array that only flows *into* the class of another that is
                            overwritten needs no memory of its own.
    lastuse.analyse         the interpreter: may this statement overwrite this array now?  Needs the order of
                            statements and who owns memory besides (`core/lastuse.py`).

The checker (`core/checker.py`) follows views alone (`Exp.views`): a consumed array's successor is another variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, product

from futad.core import ir
from futad.core.node import NODES
from futad.core.types import Atom, Prim, Var
from futad.core.union_find import UnionFind

Flow = tuple[Var, Atom]

CONSUMING = frozenset([c for c in NODES if issubclass(c, ir.Exp) and c.consuming is not ir.Exp.consuming])
"""The constructs that overwrite an array of theirs."""
OVERWRITING = CONSUMING | {c for c in NODES if issubclass(c, ir.Call | ir.Loop)}
"""Those, and the ones that may let a function, or a loop's body, do so."""


def flows(stm: ir.Stm, program: ir.Program | None = None) -> Iterator[Flow]:
    """Each variable that the statement binds, or that is a parameter of its scopes, with atoms in whose memory it may
    lie.  Results of second-order constructs have memory of their own.  The pattern may be empty: then it is about the
    scopes alone.

    With the program it is as lowering does it: calls are looked into (else their results are the arguments'), and a
    fold hands the memory of its operator's result back to the operator (else that is a value like any other).
    """
    folded = _carried if program is not None else _fold
    e, pat = stm.exp, stm.pat
    yield from zip(pat, e.shares(), strict=False)
    if not e.scoped and not isinstance(e, ir.Call):
        return
    match e:
        case ir.If():
            yield from zip(pat, e.then.result, strict=False)
            yield from zip(pat, e.orelse.result, strict=False)
        case ir.Par():
            yield from zip(pat, e.first.result + e.second.result, strict=False)
        case ir.Loop():
            yield from zip(e.variables, e.inits, strict=True)
            yield from zip(e.variables, e.body.result, strict=True)
            yield from zip(pat, e.variables, strict=False)
        case ir.WithAcc():
            k = len(e.arrays)
            yield from zip(pat[k:], e.lam.result[k:], strict=False)
        case ir.Screma():
            values = e.parts(e.mapper.result if e.mapper is not None else e.arrays)
            if e.mapper is not None:
                yield from zip(e.mapper.params, e.arrays, strict=True)
            for f, part in zip(e.folds, values.scans + values.reduces, strict=True):
                yield from folded(f.lam, f.neutral, part)
        case ir.Hist():
            yield from folded(e.lam, e.dests, e.values)
        case ir.Call() if program is not None:
            body = program.funs[e.name].body
            yield from zip(body.params, e.args, strict=True)
            yield from zip(pat, body.result, strict=True)
        case ir.Call():
            yield from product(pat, e.args)
        case ir.Derivative():
            yield from zip(e.lam.params, e.args, strict=True)
            yield from zip(pat, e.lam.result, strict=False)
        case ir.WithVjp():
            yield from zip(e.lam.params, e.args, strict=True)
            yield from zip(pat, e.lam.result, strict=False)
            adjoints = e.lam.result[2 * len(pat) - len(e.pull.params) :]
            yield from zip(e.pull.params, (*e.lam.result, *adjoints), strict=True)
        case ir.WithJvp():
            yield from zip(e.lam.params, e.args, strict=True)
            yield from zip(pat, e.lam.result, strict=True)
            yield from zip(e.push.params, e.args, strict=False)
        case ir.WithInverse():
            yield from zip(e.lam.params, e.args, strict=True)
            yield from zip(pat, e.lam.result, strict=True)
            yield from zip(e.back.params, e.lam.result, strict=True)
        case ir.Invert():
            yield from zip(e.lam.result, e.args, strict=True)
            yield from zip(pat, e.lam.params, strict=True)


def _fold(lam: ir.Lambda, start: ir.Atoms, values: ir.Atoms) -> Iterator[Flow]:
    """An operator's parameters: what it has combined so far, then the values."""
    k = len(start)
    yield from zip(lam.params[:k], start, strict=True)
    yield from zip(lam.params[k:], values, strict=True)


def _carried(lam: ir.Lambda, start: ir.Atoms, values: ir.Atoms) -> Iterator[Flow]:
    yield from _fold(lam, start, values)
    yield from zip(lam.params, lam.result, strict=False)


class Aliases:
    """The classes of one function's variables that may share memory."""

    def __init__(self, body: ir.Lambda | None = None) -> None:
        self.body = body  # the function's, as it was
        self._groups = UnionFind[Var]()
        self.root = self._groups.find  # the representative of a variable's class
        self._mutable: set[Var] = set()  # roots
        self._escaping: set[Var] = set()

    # -- questions

    def mutable(self, a: Atom) -> bool:
        """Whether `a` may be overwritten somewhere."""
        return type(a) is Var and self.root(a) in self._mutable

    def escaping(self, a: Atom) -> bool:
        """Whether `a` may share memory with a result or parameter of the function."""
        return type(a) is Var and self.root(a) in self._escaping

    def share(self, a: Atom, b: Atom) -> bool:
        """Whether two arrays may share memory."""
        return type(a) is Var and type(b) is Var and self.root(a) is self.root(b)

    # -- building

    def join(self, a: Atom, b: Atom) -> None:
        """From here on the two may share memory."""
        if type(a) is not Var or type(b) is not Var or type(a.type) is Prim or type(b.type) is Prim:
            return
        x, y = self.root(a), self.root(b)
        if x is not y:
            self._groups.up[x] = y
            for marked in (self._mutable, self._escaping):
                if x in marked:
                    marked.add(y)

    def consume(self, atoms: Iterable[Atom]) -> None:
        for a in atoms:
            if type(a) is Var and type(a.type) is not Prim:
                self._mutable.add(self.root(a))

    def expose(self, atoms: Iterable[Atom]) -> None:
        """These atoms are known outside the function."""
        for a in atoms:
            if type(a) is Var and type(a.type) is not Prim:
                self._escaping.add(self.root(a))

    def scope(self, lam: ir.Lambda) -> None:
        """Add what the statements of a scope say, and of those in it."""
        for stm in lam.stms:
            if not stm.exp.inert:
                consumed, pairs = _memory(stm)
                for v, a in pairs:
                    self.join(v, a)
                self.consume(consumed)


def _memory(stm: ir.Stm) -> tuple[list[Var], list[tuple[Var, Var]]]:
    """The arrays that a statement may overwrite, and its `flows` between arrays; those of its scopes with them."""
    if stm._flows is None:
        e = stm.exp
        # A callee may overwrite an argument that its type calls unique.
        taken = e.args if type(e) is ir.Call else e.consumes()
        consumed = [a for a in taken if type(a) is Var and type(a.type) is not Prim]
        pairs = [
            (v, a)
            for v, a in flows(stm)
            if type(v) is Var and type(a) is Var and type(v.type) is not Prim and type(a.type) is not Prim
        ]
        if e.scoped:
            for lam in e.lambdas():
                for inner in lam.stms:
                    if not inner.exp.inert:
                        more = _memory(inner)
                        consumed += more[0]
                        pairs += more[1]
        stm._flows = consumed, pairs
    flows_: tuple[list[Var], list[tuple[Var, Var]]] = stm._flows
    return flows_


def aliases(lam: ir.Lambda, exposed: Iterable[Atom] = ()) -> Aliases:
    """The alias classes of a function's body; `exposed` are the atoms that leave it."""
    a = Aliases(lam)
    a.expose(exposed)
    a.scope(lam)
    return a


def consumed_roots(e: ir.Exp, alias: Aliases) -> set[Var]:
    """The classes of the arrays that an expression may overwrite, in nested scopes too: those that it consumes, gives
    to a function, or starts a loop's variable with, which the body may overwrite."""
    out: set[Var] = set()
    for a in e.args if type(e) is ir.Call else e.inits if isinstance(e, ir.Loop) else e.consumes():
        if type(a) is Var and type(a.type) is not Prim:
            out.add(alias.root(a))
    for lam in e.lambdas():
        if not OVERWRITING.isdisjoint(lam.inside()):
            for s in lam.stms:
                out |= consumed_roots(s.exp, alias)
    return out


def overwritten(reads: Iterable[Atom], between: Iterable[ir.Stm], alias: Aliases) -> bool:
    """Whether statements may overwrite what is read: then it cannot be read after them instead of before."""
    roots = {alias.root(a) for a in reads if type(a) is Var and alias.mutable(a)}
    return bool(roots) and not all(roots.isdisjoint(consumed_roots(s.exp, alias)) for s in between)


def _nothing(e: ir.Exp) -> Sequence[Atom]:
    return ()


def overwritable(
    program: ir.Program,
    deferred: Callable[[ir.Exp], Sequence[Atom]] = _nothing,
    taken: Callable[[ir.Exp], Sequence[Atom]] = _nothing,
) -> set[Var]:
    """The variables that may be, or alias, an array which is overwritten.

    `deferred`: the operands whose memory a backend lets results share although the IR calls these new, as long as
    nobody writes; `taken`: those that it overwrites although the IR does not say so.
    """
    sources: dict[Var, list[Var]] = {}
    work: list[Var] = []

    for stm in ir.statements(s for f in program.funs.values() for s in f.body.stms):
        e = stm.exp
        if type(e) is ir.Op:
            continue
        work.extend(a for a in (*e.consumes(), *taken(e)) if type(a) is Var)
        for v, a in chain(flows(stm, program), zip(stm.pat, deferred(e), strict=False)):
            if type(a) is Var and type(v.type) is not Prim:
                sources.setdefault(v, []).append(a)
    seen: set[Var] = set()
    while work:
        v = work.pop()
        if v not in seen:
            seen.add(v)
            work.extend(sources.get(v, ()))
    return seen


def stale(program: ir.Program) -> set[Var]:
    """The variables whose memory may be overwritten while they are in scope: of these, and of what may share the memory
    of one of them, unless a statement overwrote it to make that.  An element of any other array may be read later."""
    seen = overwritable(program)
    sharing: dict[Atom, list[Var]] = {}
    for stm in ir.statements(s for f in program.funs.values() for s in f.body.stms):
        if type(stm.exp) is ir.Op:
            continue
        consumed = set(stm.exp.consumes())
        for v, a in flows(stm, program):
            if type(v.type) is not Prim and a not in consumed:
                sharing.setdefault(a, []).append(v)
    work = list(seen)
    while work:
        for v in sharing.get(work.pop(), ()):
            if v not in seen:
                seen.add(v)
                work.append(v)
    return seen


__all__ = ["Aliases", "aliases", "consumed_roots", "flows", "overwritable", "overwritten", "stale"]
