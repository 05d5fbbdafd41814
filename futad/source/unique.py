"""Consumption: in-place updates happen to values that nothing else can see.

Every array that a name holds has a token; a value's aliases are the tokens of all arrays that it may share
memory with.  Consuming a value consumes its tokens; using a name one of whose tokens is consumed is an
error, and so is consuming what is not ours: a parameter that is not unique, a name that a lambda or loop
body gets from outside, a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from futad.errors import ConsumptionError, Span
from futad.source import ast as A
from futad.source.stypes import Binding, SType, TArray, TFun, TPrim, TRecord, TSum, resolve


class Token:
    """One array (or closure) that a name holds; `path` names it, `depth` says in which function or loop."""

    __slots__ = ("path", "depth", "why", "span")

    def __init__(self, path: str, depth: int, why: str, span: Span | None) -> None:
        self.path = path
        self.depth = depth
        self.why = why  # why it may not be consumed, or ''
        self.span = span


Set = frozenset[Token]
# Aliases of a value: a set, or a tree of them that follows a record's fields.
Tree = Any
NONE: Set = frozenset()
_CONSTANT = "it is a constant"
_Why = str | Callable[[SType], str]


def flat(t: Tree) -> Set:
    """All tokens of a tree."""
    if isinstance(t, dict):
        out: Set = NONE
        for x in t.values():
            out |= flat(x)
        return out
    return t


def union(a: Tree, b: Tree) -> Tree:
    if isinstance(a, dict) and isinstance(b, dict):
        return {n: union(a[n], b[n]) if n in b else a[n] for n in a}
    if isinstance(a, dict):
        return {n: union(x, b) for n, x in a.items()}
    if isinstance(b, dict):
        return {n: union(a, x) for n, x in b.items()}
    return a | b


def prune(tree: Tree, gone: Set) -> Tree:
    """The tree without some tokens."""
    if isinstance(tree, dict):
        return {n: prune(x, gone) for n, x in tree.items()}
    return tree - gone


def overlap(tree: Tree, t: SType) -> Token | None:
    """A token that a unique part of `tree` shares with another part."""
    leaves: list[tuple[Set, bool]] = []

    def go(tree: Tree, t: SType) -> None:
        t = resolve(t)
        if type(t) is TRecord:
            for n, f in t.fields:
                go(tree.get(n, NONE) if isinstance(tree, dict) else tree, f)
        else:
            leaves.append((flat(tree), marked(t)))

    go(tree, t)
    for i, (a, unique) in enumerate(leaves):
        if unique:
            for j, (b, _) in enumerate(leaves):
                if i != j and a & b:
                    return min(a & b, key=lambda x: x.path)
    return None


def has_memory(t: SType) -> bool:
    """Whether values of a type may share memory with others."""
    t = resolve(t)
    if type(t) is TSum:
        return any(has_memory(a) for _, args in t.constrs for a in args)
    if type(t) is TRecord:
        return any(has_memory(f) for _, f in t.fields)
    return type(t) is not TPrim


def shape(t: SType, leaf: Callable[[SType, str], Set], path: str = "") -> Tree:
    """A tree in the form of a type; scalars have no aliases."""
    t = resolve(t)
    if type(t) is TPrim:
        return NONE
    if type(t) is TRecord:
        return {n: shape(f, leaf, f"{path}.{n}") for n, f in t.fields}
    return leaf(t, path) if has_memory(t) else NONE


def conform(tree: Tree, t: SType) -> Tree:
    """`tree` in the form of type `t`: scalars drop out, a set spreads over fields."""
    t = resolve(t)
    if type(t) is TPrim:
        return NONE
    if type(t) is TRecord:
        if isinstance(tree, dict):
            return {n: conform(tree.get(n, NONE), f) for n, f in t.fields}
        return {n: conform(tree, f) for n, f in t.fields}
    return flat(tree) if has_memory(t) else NONE


def marked(t: SType) -> bool:
    """Whether a part that is not a record is `*` (a sum type is, if its payloads are)."""
    if type(t) is TSum:
        return any(is_unique(a) for _, args in t.constrs for a in args)
    return type(t) is TArray and t.unique


def is_unique(t: SType) -> bool:
    """Whether any part of a parameter's or result's type is `*`."""
    t = resolve(t)
    if type(t) is TRecord:
        return any(is_unique(f) for _, f in t.fields)
    return marked(t)


def unique_part(tree: Tree, t: SType, unique: bool = True) -> Set:
    """The tokens in those parts of `tree` that type `t` marks `*` (or, with unique=False, does not)."""
    t = resolve(t)
    if type(t) is TRecord:
        out: Set = NONE
        for n, f in t.fields:
            out |= unique_part(tree.get(n, NONE) if isinstance(tree, dict) else tree, f, unique)
        return out
    return flat(tree) if marked(t) == unique else NONE


class Consumption:
    """Checks the definitions of one program, in order."""

    def __init__(self) -> None:
        self.env: dict[Binding, Tree] = {}
        self.consumed: dict[Token, Span] = {}
        self.depth = 0
        self.barriers: list[tuple[int, str]] = []  # (depth, what lies there), for messages
        self.captured: list[set[Token]] = []
        # By function: its inferred result type with uniqueness, and the constants its result may share.
        self.results: dict[Binding, SType | None] = {}
        self.shared: dict[Binding, Set] = {}
        self.last_result: SType | None = None
        self.lambdas: dict[int, SType | None] = {}

    # -- tokens

    def own(self, name: str, t: SType, span: Span, why: _Why = "") -> Tree:
        """New tokens for a name of type `t`."""

        def leaf(part: SType, path: str) -> Set:
            reason = why if isinstance(why, str) else why(part)
            return frozenset((Token(name + path, self.depth, reason, span),))

        return shape(t, leaf)

    def use(self, tree: Tree, name: str, span: Span) -> None:
        """A name is read: none of its tokens may be consumed."""
        for tok in flat(tree):
            where = self.consumed.get(tok)
            if where is not None:
                self.used_after(name, tok, span, where)
            if self.captured and tok.depth < self.depth:
                for got in self.captured:
                    got.add(tok)

    def used_after(self, name: str, tok: Token, span: Span, where: Span) -> NoReturn:
        base = tok.path
        if name == base:
            said = f"'{name}' is used here, but it was consumed at line {where.line}, column {where.col}"
        else:
            said = (
                f"'{name}' is used here, but it may share memory with '{base}', which was consumed at "
                f"line {where.line}, column {where.col}"
            )
        raise ConsumptionError(said, span, hint=f"use 'copy {name}' where it is consumed, or read it before")

    def consume(self, tree: Tree, span: Span) -> None:
        """A value is overwritten or handed over for that."""
        for tok in sorted(flat(tree), key=lambda t: (t.depth, t.path)):
            if tok.why:
                raise ConsumptionError(f"this consumes '{tok.path}', but {tok.why}", span, hint=self._hint(tok))
            for depth, what in reversed(self.barriers):
                if tok.depth < depth:
                    raise ConsumptionError(
                        f"this consumes '{tok.path}', which is bound outside {what} that may run many times",
                        span,
                        hint=f"consume 'copy {tok.path}' instead",
                    )
            self.consumed.setdefault(tok, span)

    def _hint(self, tok: Token) -> str:
        if "parameter" in tok.why:
            return f"declare it unique (*) if callers may give it up, or consume 'copy {tok.path}'"
        return f"consume 'copy {tok.path}' instead"

    # -- names

    def bind(self, p: A.Pat, tree: Tree, why: _Why | None = None, typed: bool = False) -> None:
        """Bind a pattern's names to a value with these aliases; `typed`: under an ascription."""
        if isinstance(p, A.PVar):
            assert p.binding is not None and p.type is not None
            free = why is None or (why is _loop_why and not typed)
            mine = self.own(p.name, p.type, p.span, "" if free else why or "")
            self.env[p.binding] = union(mine, conform(tree, p.type))
        elif isinstance(p, A.PAscript):
            self.bind(p.pat, tree, why, True)
        elif isinstance(p, A.PAttr):
            self.bind(p.pat, tree, why, typed)
        elif isinstance(p, A.PTuple):
            for i, q in enumerate(p.elems):
                self.bind(q, tree.get(str(i), NONE) if isinstance(tree, dict) else tree, why, typed)
        elif isinstance(p, A.PRecord):
            for n, q in p.fields:
                self.bind(q, tree.get(n, NONE) if isinstance(tree, dict) else tree, why, typed)
        elif isinstance(p, A.PConstr):
            for q in p.args:
                self.bind(q, flat(tree), why, typed)

    # -- functions

    def top(self, fd: A.FunDef) -> None:
        self.function(fd.params, fd.body, fd.ret_type if fd.ret is not None else None, fd)
        self.env.clear()
        self.consumed.clear()
        self.lambdas.clear()

    def function(
        self, params: list[A.Pat], body: A.Expr, ret: SType | None, fd: A.FunDef | None = None
    ) -> set[Token]:
        """Check a function's body; the outer tokens that it captures."""
        saved = dict(self.consumed)
        self.depth += 1
        self.barriers.append((self.depth, f"function '{fd.name}'" if fd else "a lambda"))
        self.captured.append(set())

        def why(t: SType) -> str:
            return "" if marked(t) else "it is a parameter that is not unique"

        for p in params:
            self.bind(p, NONE, why)
        tree = self.exp(body)
        constants = frozenset(t for t in flat(tree) if t.why == _CONSTANT)
        if constants and fd is not None and fd.binding is not None:
            self.shared[fd.binding] = constants
        if ret is not None and body.type is not None:
            _check_function(self, body, ret)
        if ret is not None and is_unique(ret):
            self.returned(tree, ret, body.span, fd.name if fd else "this lambda")
        if body.type is not None:
            self.last_result = self.fresh_parts(tree, body.type)
            if fd is not None and fd.binding is not None and ret is None:
                self.results[fd.binding] = self.last_result
        self.barriers.pop()
        self.depth -= 1
        self.consumed = saved
        got = self.captured.pop()
        return {t for t in got if t.depth <= self.depth}

    def fresh_parts(self, tree: Tree, t: SType) -> SType:
        """`t` with `*` on what shares no memory with parameters, names from outside, or other parts."""
        count: dict[Token, int] = {}

        def tally(tree: Tree) -> None:
            if isinstance(tree, dict):
                for x in tree.values():
                    tally(x)
            else:
                for tok in tree:
                    count[tok] = count.get(tok, 0) + 1

        def go(tree: Tree, t: SType) -> SType:
            t = resolve(t)
            if type(t) is TRecord:
                return TRecord(
                    tuple((n, go(tree.get(n, NONE) if isinstance(tree, dict) else tree, f)) for n, f in t.fields)
                )
            if type(t) is TArray:
                own = all(tok.depth >= self.depth and not tok.why and count[tok] == 1 for tok in flat(tree))
                return TArray(t.size, t.elem, own)
            return t

        tree = conform(tree, t)
        tally(tree)
        return go(tree, t)

    def returned(self, tree: Tree, ret: SType, span: Span, name: str) -> None:
        """A result declared unique: nothing outside may share it, nor another part of it."""
        ret = resolve(ret)
        if type(ret) is TRecord:
            for n, f in ret.fields:
                self.returned(tree.get(n, NONE) if isinstance(tree, dict) else tree, f, span, name)
            tok = overlap(tree, ret)
            if tok is not None:
                raise ConsumptionError(
                    f"a unique part of the result of '{name}' shares '{tok.path}' with another part",
                    span,
                    hint="copy one of them",
                )
            return
        if marked(ret):
            for tok in sorted(flat(tree), key=lambda t: t.path):
                if tok.why or tok.depth < self.depth:
                    reason = tok.why or "it is bound outside"
                    raise ConsumptionError(
                        f"the result of '{name}' is declared unique, but may share memory with '{tok.path}': {reason}",
                        span,
                        hint="return a copy",
                    )

    # -- expressions

    def exp(self, e: A.Expr) -> Tree:
        """Check an expression; the aliases of its value."""
        return _RULES[type(e)](self, e)

    def index(self, index: list[A.Expr | A.ESlice]) -> None:
        for ix in index:
            if isinstance(ix, A.ESlice):
                for x in (ix.start, ix.end, ix.stride):
                    if x is not None:
                        self.exp(x)
            else:
                self.exp(ix)

    def branches(self, runs: list[Callable[[], Tree]]) -> Tree:
        """Alternatives: what one consumes is consumed afterwards."""
        before = dict(self.consumed)
        after = dict(before)
        tree: Tree = NONE
        for i, run in enumerate(runs):
            self.consumed = dict(before)
            got = run()
            tree = got if i == 0 else union(tree, got)
            for tok, span in self.consumed.items():
                after.setdefault(tok, span)
        self.consumed = after
        # What one branch consumes, its result no longer names; another branch's result then stands alone.
        return prune(tree, frozenset(after.keys() - before.keys()))

    def loop(self, e: A.ELoop) -> Tree:
        assert e.init is not None
        init = self.exp(e.init)
        form = e.form
        elems: Tree = NONE
        if isinstance(form, A.ForI):
            self.exp(form.bound)
        elif isinstance(form, A.ForIn):
            elems = flat(self.exp(form.array))
        self.depth += 1
        self.barriers.append((self.depth, "a loop"))
        saved = dict(self.consumed)
        self.captured.append(set())
        self.bind(e.pat, NONE, _loop_why)
        entering = pattern_tree(self, e.pat)
        if isinstance(form, A.WhileForm):
            self.exp(form.cond)
        elif isinstance(form, A.ForI):
            self.bind(form.var, NONE)
        else:
            self.bind(form.pat, elems)
        result = self.exp(e.body)
        consumed = self.consumed
        self.consumed = saved
        self.barriers.pop()
        self.depth -= 1
        used = frozenset(t for t in self.captured.pop() if t.depth <= self.depth)
        if self.captured:
            self.captured[-1] |= {t for t in used if t.depth < self.depth}
        if e.pat.type is not None and (tok := overlap(result, _written(entering, e.pat.type, consumed))) is not None:
            raise ConsumptionError(
                f"the loop overwrites two of its parameters in place, but their next values share '{tok.path}'",
                e.body.span,
                hint="copy one of them",
            )
        out = self._loop_result(e, init, entering, result, consumed, e.pat.type, used)
        return conform(out, e.type) if e.type is not None else out

    def _loop_result(
        self,
        e: A.ELoop,
        init: Tree,
        entering: Tree,
        result: Tree,
        consumed: dict[Token, Span],
        t: SType | None,
        used: Set,
    ) -> Tree:
        assert e.init is not None
        if isinstance(entering, dict):
            fields = dict(t.fields) if t is not None and type(t := resolve(t)) is TRecord else {}

            def part(tree: Tree, n: str) -> Tree:
                return tree.get(n, NONE) if isinstance(tree, dict) else tree

            return {
                n: self._loop_result(e, part(init, n), x, part(result, n), consumed, fields.get(n), used)
                for n, x in entering.items()
            }
        mine = flat(entering)
        written = next((consumed[tok] for tok in mine if tok in consumed), None)
        if written is None and not (t is not None and is_unique(t)):
            return flat(init) | (flat(result) - mine)
        # The body overwrites this loop parameter, so its first value must be ours, and the next ones too.
        for tok in flat(result):
            if tok.depth <= self.depth:
                raise ConsumptionError(
                    f"the loop overwrites a parameter in place, but its next value may share '{tok.path}', "
                    "which is bound outside the loop",
                    e.body.span,
                    hint=f"use 'copy {tok.path}'",
                )
        both = flat(init) & used
        if both:
            tok = min(both, key=lambda t: t.path)
            raise ConsumptionError(
                f"the loop overwrites its first value in place, but '{tok.path}', which may share its memory, is "
                "used inside the loop",
                e.init.span,
                hint=f"start the loop from 'copy {tok.path}'",
            )
        self.consume(init, e.init.span)
        return flat(result) - mine


def _loop_why(t: SType) -> str:
    return "" if marked(t) else "its declared type is not unique"


def _written(entering: Tree, t: SType, consumed: dict[Token, Span]) -> SType:
    """`t` with `*` on the loop parameters that are overwritten."""
    t = resolve(t)
    if type(t) is TRecord:
        parts = entering if isinstance(entering, dict) else {}
        return TRecord(tuple((n, _written(parts.get(n, NONE), f, consumed)) for n, f in t.fields))
    if type(t) is TArray:
        return TArray(t.size, t.elem, t.unique or any(tok in consumed for tok in flat(entering)))
    return t


def pattern_tree(c: Consumption, p: A.Pat) -> Tree:
    """The tokens of a pattern's names, in the form of its value."""
    if isinstance(p, A.PVar):
        assert p.binding is not None
        return c.env[p.binding]
    if isinstance(p, (A.PAscript, A.PAttr)):
        return pattern_tree(c, p.pat)
    if isinstance(p, A.PTuple):
        return {str(i): pattern_tree(c, q) for i, q in enumerate(p.elems)}
    if isinstance(p, A.PRecord):
        return {n: pattern_tree(c, q) for n, q in p.fields}
    return NONE


# --- rules -------------------------------------------------------------------------------------------------------

_Rule = Callable[[Consumption, Any], Tree]
_RULES: dict[type, _Rule] = {}


def _rule(*classes: type) -> Callable[[_Rule], _Rule]:
    def register(f: _Rule) -> _Rule:
        for c in classes:
            _RULES[c] = f
        return f

    return register


@_rule(A.ELit, A.EString, A.EProjSection)
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
            made_anew = b.scheme is not None and bool(b.scheme.sizes or b.scheme.tparams)

            def leaf(t: SType, path: str) -> Set:
                return NONE if made_anew or type(t) is TFun else frozenset((Token(e.name + path, 0, _CONSTANT, e.span),))

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
        r = resolve(ft)
        if type(r) is not TFun:
            return NONE
        _check_function(c, node.arg, r.param)
        taken = unique_part(tree, r.param)
        shared = overlap(tree, r.param)
        if shared is not None:
            raise ConsumptionError(
                f"this argument is consumed, but two of its parts share '{shared.path}'", node.arg.span, hint="copy one"
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
            if type(resolve(e.type)) is TFun:  # type: ignore[arg-type]
                raise ConsumptionError(
                    "this partial application consumes its argument, but may be applied many times",
                    node.arg.span,
                    hint="write a lambda that copies it",
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
        rest |= c.shared.get(fun.binding, NONE)
        decl = fun.binding.decl
        if inferred is not None and isinstance(decl, A.FunDef) and len(decl.params) == len(spine):
            result = inferred
        if fun.binding.kind == "intrinsic" and fun.name in _FRESH:
            return NONE
    assert result is not None and e.type is not None
    if type(resolve(e.type)) is TRecord:
        # Parts that are not unique may share memory with each other.
        rest |= {Token(_head_name(fun), c.depth, "", e.span)}
    return _result_tree(rest, result, e.type)


def _head_name(fun: A.Expr) -> str:
    return f"the result of {fun.name}" if isinstance(fun, A.EVar) else "a result"


def _result_tree(rest: Set, declared: SType, t: SType) -> Tree:
    """What a call's result may share: all arguments that were not consumed, unless it is unique."""
    declared, t = resolve(declared), resolve(t)
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
    )


def _check_function(c: Consumption, arg: A.Expr, expected: SType) -> None:
    """A function that consumes its argument does not serve where one that does not is expected, nor one
    whose result may share memory where a unique result is."""
    actual = resolve(arg.type) if arg.type is not None else None
    wanted = resolve(expected)
    if type(actual) is not TFun:
        return
    arity = 0
    while type(actual) is TFun and type(wanted) is TFun:
        if is_unique(actual.param) and not is_unique(wanted.param):
            raise ConsumptionError(
                "this function consumes its argument, which it may not do here", arg.span, hint="let it copy first"
            )
        actual, wanted = resolve(actual.result), resolve(wanted.result)
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
        )


@_rule(A.ELambda)
def _lambda(c: Consumption, e: A.ELambda) -> Tree:
    ret = resolve(e.type) if e.type is not None else None
    for _ in e.params:
        ret = resolve(ret.result) if type(ret) is TFun else None
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
    value = flat(c.exp(e.value))
    c.index(e.index)
    target = flat(c.exp(e.array))
    both = target & value
    if both:
        tok = min(both, key=lambda t: t.path)
        raise ConsumptionError(
            f"the new value may share memory with '{tok.path}', which the update overwrites",
            e.value.span,
            hint="write 'copy (...)' around the value",
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
        t = resolve(t)
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
