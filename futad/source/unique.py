"""Consumption: in-place updates happen to values that nothing else can see.

Every array that a name holds has a token; a value's aliases are the tokens of all arrays that it may share
memory with.  Consuming a value consumes its tokens; using a name one of whose tokens is consumed is an
error, and so is consuming what is not ours: a parameter that is not unique, a name that a lambda or loop
body gets from outside, a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from futad.errors import ConsumptionError, Span
from futad.source import ast as A
from futad.source.aliases import (
    CONSTANT,
    NONE,
    Set,
    Token,
    Tree,
    Why,
    conform,
    flat,
    is_unique,
    marked,
    overlap,
    prune,
    shape,
    union,
)
from futad.source.opaque import opened
from futad.source.types import Binding, SType, TArray, TFun, TRecord
from futad.source.unique_rules import RULES, check_function


class Consumption:
    """Checks the definitions of one program, in order."""

    def __init__(self) -> None:
        self.env: dict[Binding, Tree] = {}
        self.consumed: dict[Token, Span] = {}
        self.depth = 0
        self.again = False  # whether a parametric module's body is checked that was so without its argument
        self.barriers: list[tuple[int, str]] = []  # (depth, what lies there), for messages
        self.captured: list[set[Token]] = []
        # By function: its inferred result type with uniqueness.
        self.results: dict[Binding, SType | None] = {}
        self.last_result: SType | None = None
        self.lambdas: dict[int, SType | None] = {}

    # -- tokens

    def own(self, name: str, t: SType, span: Span, why: Why = "") -> Tree:
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
                raise ConsumptionError(
                    f"this consumes '{tok.path}', but {tok.why}", span, hint=self._hint(tok), code="E0502"
                )
            for depth, what in reversed(self.barriers):
                if tok.depth < depth:
                    raise ConsumptionError(
                        f"this consumes '{tok.path}', which is bound outside {what} that may run many times",
                        span,
                        hint=f"consume 'copy {tok.path}' instead",
                        code="E0503",
                    )
            self.consumed.setdefault(tok, span)

    def _hint(self, tok: Token) -> str:
        if "parameter" in tok.why:
            return f"declare it unique (*) if callers may give it up, or consume 'copy {tok.path}'"
        return f"consume 'copy {tok.path}' instead"

    # -- names

    def bind(self, p: A.Pat, tree: Tree, why: Why | None = None, typed: bool = False) -> None:
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
        self.reset()

    def reset(self) -> None:
        """Forget what belongs to the definition just checked."""
        self.env.clear()
        self.consumed.clear()
        self.lambdas.clear()
        self.barriers.clear()
        self.captured.clear()
        self.depth = 0

    def function(self, params: list[A.Pat], body: A.Expr, ret: SType | None, fd: A.FunDef | None = None) -> set[Token]:
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
        if params and body.type is not None and not self.again:
            self.no_constant(tree, body.type, body.span, f"'{fd.name}'" if fd else "this lambda")
        if ret is not None and body.type is not None:
            check_function(self, body, ret)
        if ret is not None and is_unique(ret):
            self.returned(tree, ret, body.span, f"'{fd.name}'" if fd else "this lambda")
        if body.type is not None:
            self.last_result = self.fresh_parts(tree, body.type)
            if fd is not None and fd.binding is not None and ret is None:
                self.results[fd.binding] = self.last_result
        self.barriers.pop()
        self.depth -= 1
        self.consumed = saved
        got = self.captured.pop()
        return {t for t in got if t.depth <= self.depth}

    def no_constant(self, tree: Tree, t: SType, span: Span, name: str) -> None:
        """A function's result may not share memory with a constant: callers could not know."""
        t = opened(t)
        if type(t) is TRecord:
            for n, f in t.fields:
                self.no_constant(tree.get(n, NONE) if isinstance(tree, dict) else tree, f, span, name)
        elif type(t) is not TFun:
            for tok in flat(conform(tree, t)):
                if tok.why == CONSTANT:
                    raise ConsumptionError(
                        f"the result of {name} may share memory with the constant '{tok.path}'",
                        span,
                        hint=f"return 'copy {tok.path}'",
                        code="E0507",
                    )

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
            t = opened(t)
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
        ret = opened(ret)
        if type(ret) is TRecord:
            for n, f in ret.fields:
                self.returned(tree.get(n, NONE) if isinstance(tree, dict) else tree, f, span, name)
            tok = overlap(tree, ret)
            if tok is not None:
                raise ConsumptionError(
                    f"a unique part of the result of {name} shares '{tok.path}' with another part",
                    span,
                    hint="copy one of them",
                    code="E0505",
                )
            return
        if marked(ret):
            for tok in sorted(flat(tree), key=lambda t: t.path):
                if tok.why or tok.depth < self.depth:
                    reason = tok.why or "it is bound outside"
                    raise ConsumptionError(
                        f"the result of {name} is declared unique, but may share memory with '{tok.path}': {reason}",
                        span,
                        hint="return a copy",
                        code="E0505",
                    )

    # -- expressions

    def exp(self, e: A.Expr) -> Tree:
        """Check an expression; the aliases of its value."""
        return RULES[type(e)](self, e)

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
                code="E0504",
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
            fields = dict(t.fields) if t is not None and type(t := opened(t)) is TRecord else {}

            def part(tree: Tree, n: str) -> Tree:
                return tree.get(n, NONE) if isinstance(tree, dict) else tree

            return {
                n: self._loop_result(e, part(init, n), x, part(result, n), consumed, fields.get(n), used)
                for n, x in entering.items()
            }
        mine = flat(entering)
        written = next((consumed[tok] for tok in mine if tok in consumed), None)
        if written is None and not (t is not None and is_unique(t) and flat(result) & mine):
            # Its type may say `*`, but what is neither overwritten nor kept need not be ours.
            return flat(init) | (flat(result) - mine)
        # The body overwrites this loop parameter, so its first value must be ours, and the next ones too.
        for tok in flat(result):
            if tok.depth <= self.depth:
                raise ConsumptionError(
                    f"the loop overwrites a parameter in place, but its next value may share '{tok.path}', "
                    "which is bound outside the loop",
                    e.body.span,
                    hint=f"use 'copy {tok.path}'",
                    code="E0504",
                )
        both = flat(init) & used
        if both:
            tok = min(both, key=lambda t: t.path)
            raise ConsumptionError(
                f"the loop overwrites its first value in place, but '{tok.path}', which may share its memory, is "
                "used inside the loop",
                e.init.span,
                hint=f"start the loop from 'copy {tok.path}'",
                code="E0504",
            )
        self.consume(init, e.init.span)
        return flat(result) - mine


def _loop_why(t: SType) -> str:
    return "" if marked(t) else "its declared type is not unique"


def _written(entering: Tree, t: SType, consumed: dict[Token, Span]) -> SType:
    """`t` with `*` on the loop parameters that are overwritten."""
    t = opened(t)
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
