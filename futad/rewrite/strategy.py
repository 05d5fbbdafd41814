"""Strategies: how rules are applied, as values that compose and print themselves.

After ELEVATE (Hagedorn et al., ICFP 2020) and Stratego (Visser, 2001).  A strategy takes a statement and a
context and returns the statements that replace it, or None when it does not apply.

    print(normalize(choice(fold, unit)))        # normalize(fold | unit)

What can go on for ever (`repeat`, `fix`) burns fuel: `MOST` applications and `MOST_EACH` a statement, of the outermost
of them, or of the run that `fuelled` opens.  Then it is an error that names the strategy and the last rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from futad.core import ir
from futad.core.ir import Exp, Lambda, Stm
from futad.core.scalarops import OPS
from futad.core.types import Const, subst_type
from futad.errors import UsageError
from futad.rewrite.words import nearest

MOST = 10_000  # applications
MOST_EACH = 100  # more for each statement

Result = list[Stm] | None
Apply = Callable[[Stm, Any], Result]


@dataclass(slots=True)
class Stats:
    """How often each rule applied, and the seconds spent in it (failed attempts included)."""

    hits: dict[str, int] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    applied: Callable[[str, Stm, list[Stm], float], None] | None = None
    """Told of each application: the rule, the statement before, those after, and the seconds that it took."""
    within: str = ""
    """The pass that runs."""

    def record(self, name: str, applied: bool, seconds: float) -> None:
        self.tries[name] = self.tries.get(name, 0) + 1
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        if applied:
            self.hits[name] = self.hits.get(name, 0) + 1

    def count(self, name: str, hits: int = 1) -> None:
        """Note `hits` applications of something that is not timed."""
        if hits:
            self.hits[name] = self.hits.get(name, 0) + hits

    def table(self) -> list[tuple[str, int, int, float]]:
        """(name, hits, tries, seconds), most hits first."""
        names = sorted(self.hits | self.tries, key=lambda n: (-self.hits.get(n, 0), n))
        return [(n, self.hits.get(n, 0), self.tries.get(n, 0), self.seconds.get(n, 0.0)) for n in names]

    def __str__(self) -> str:
        rows = [f"{n:32} {h:8} hits {t:8} tries {s * 1e3:9.3f} ms" for n, h, t, s in self.table()]
        return "\n".join(rows)


class Strategy:
    """A printable function from a statement to its replacement (None: does not apply)."""

    __slots__ = ("text", "apply", "parts", "joint")

    def __init__(self, text: str, apply: Apply, parts: tuple[Strategy, ...] = (), joint: str = "") -> None:
        self.text = text
        self.apply = apply
        self.parts = parts  # of what it is made
        self.joint = joint  # "|" or ";": what joins them, if it is a choice or a sequence

    def every_rule(self) -> list[Rule]:
        """The rules in it."""
        own = [self] if isinstance(self, Rule) else []
        return own + [r for p in self.parts for r in p.every_rule()]

    def __call__(self, stm: Stm, ctx: Any = None) -> Result:
        return self.apply(stm, ctx)

    def __repr__(self) -> str:
        return self.text

    def __or__(self, other: Strategy) -> Strategy:
        return choice(self, other)

    def __rshift__(self, other: Strategy) -> Strategy:
        return seq(self, other)


CHANGES = {
    "zeros": "the sign of zeros",
    "rounding": "the last digits of floats, where they are compared exactly",
    "nan": "results of NaN, infinities and numbers beyond the range",
    "derived": "infinities and NaN as factors in products of derivatives (`ir.DERIVED`)",
    "failures": "failures of operations whose results are not needed",
}


class Rule(Strategy):
    """A named rewrite of statements whose expression is one of `heads`; `doc` shows before -> after.

    `ops` narrows a rule on `Op` to these operations (empty: all), `constant` to operations on a constant.  `changes` is
    what it does not keep, of `CHANGES`; everything else is checked (`testing/rules`).
    """

    __slots__ = ("name", "heads", "fn", "doc", "ops", "changes", "constant")

    def __init__(
        self, name: str, heads: tuple[type, ...], fn: Apply, doc: str, ops: tuple[str, ...] = (),
        changes: tuple[str, ...] = (), constant: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name, self._apply)
        self.name, self.heads, self.fn, self.doc, self.ops, self.changes = name, heads, fn, doc, ops, changes
        self.constant = constant

    def _apply(self, stm: Stm, ctx: Any) -> Result:
        e = stm.exp
        if type(e) not in self.heads or self.ops and not (type(e) is ir.Op and e.op in self.ops):
            return None
        stats = getattr(ctx, "stats", None)
        if stats is None:
            out = self.fn(stm, ctx)
            return out if out is None else _applied(self.name, out)
        start = time.perf_counter()
        out = self.fn(stm, ctx)
        seconds = time.perf_counter() - start
        stats.record(self.name, out is not None, seconds)
        if out is None:
            return None
        if ctx.eager and ctx.subst:
            out = [substituted(x, ctx) for x in out]
        if stats.applied is not None:
            stats.applied(self.name, stm, out, seconds)
        return _applied(self.name, out)


def rule(*heads: type[Exp], changes: tuple[str, ...] = (), constant: bool = False) -> Callable[[Apply], Rule]:
    """Make a function a `Rule` on statements that bind one of the expressions `heads`."""

    def make(fn: Apply) -> Rule:
        return Rule(fn.__name__, heads, fn, (fn.__doc__ or "").strip(), changes=changes, constant=constant)

    return make


def op_rule(*ops: str, changes: tuple[str, ...] = (), constant: bool = False) -> Callable[[Apply], Rule]:
    """Make a function a `Rule` on these scalar operations."""

    def make(fn: Apply) -> Rule:
        return Rule(fn.__name__, (ir.Op,), fn, (fn.__doc__ or "").strip(), ops, changes, constant)

    return make


class Rules(Strategy):
    """The first of many rules that applies, found by the head of the expression (a scalar operation's name, and whether
    it has a constant)."""

    __slots__ = ("rules", "by_head", "by_op", "of_variables", "general")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        joint = "|" if len(self.rules) > 1 else ""
        super().__init__(" | ".join(r.name for r in self.rules) or "fail", self._apply, self.rules, joint)
        self.by_head: dict[type, tuple[Rule, ...]] = {}
        self.by_op: dict[str, tuple[Rule, ...]] = {}
        for r in self.rules:
            for h in r.heads:
                self.by_head[h] = (*self.by_head.get(h, ()), r)
        every = self.by_head.pop(ir.Op, ())
        self.general = tuple([r for r in every if not r.ops])
        for name in {op for r in every for op in r.ops}:
            self.by_op[name] = tuple([r for r in every if not r.ops or name in r.ops])
        self.of_variables = {name: tuple([r for r in rs if not r.constant]) for name, rs in self.by_op.items()}

    def _apply(self, stm: Stm, ctx: Any) -> Result:
        e = stm.exp
        if type(e) is ir.Op:
            rules: tuple[Rule, ...] | None = self.of_variables.get(e.op, self.general)
            for a in e.args:
                if type(a) is Const:
                    rules = self.by_op.get(e.op, self.general)
        else:
            rules = self.by_head.get(type(e))
        if rules:
            if ctx.stats is None:
                for r in rules:
                    out = r.fn(stm, ctx)
                    if out is not None:
                        return out
            else:
                for r in rules:
                    out = r._apply(stm, ctx)
                    if out is not None:
                        return out
        return None


# --- fuel ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Fuel:
    """How many more applications there may be in a run, the rule that applied last, and how often what is limited by
    `limit` has applied."""

    left: int
    most: int
    rule: str = ""
    limits: dict[int, int] = field(default_factory=dict)

    def burn(self, strategy: str) -> None:
        """One more application.  Raises UsageError if there may be none."""
        self.left -= 1
        if self.left < 0:
            last = f"rule '{self.rule}' applies again and again" if self.rule else "no rule applies in it"
            raise UsageError(
                f"the strategy {strategy} does not end: {last} ({self.most} applications are allowed)",
                hint="limit(n, s) bounds a strategy; s may apply only if it changes something",
            )


_FUEL: ContextVar[Fuel | None] = ContextVar("fuel", default=None)


@contextmanager
def fuelled(statements: int) -> Iterator[Fuel]:
    """A run over so many statements, unless there is one around it already."""
    found = _FUEL.get()
    if found is not None:
        yield found
        return
    most = MOST + MOST_EACH * statements
    token = _FUEL.set(made := Fuel(most, most))
    try:
        yield made
    finally:
        _FUEL.reset(token)


def _applied(name: str, out: list[Stm]) -> list[Stm]:
    fuel = _FUEL.get()
    if fuel is not None:
        fuel.rule = name
    return out


def _size(stm: Stm) -> int:
    return sum(1 for _ in ir.statements((stm,)))


# --- atoms ---------------------------------------------------------------------------------------------------


id_ = Strategy("id", lambda stm, ctx: [stm])
fail = Strategy("fail", lambda stm, ctx: None)


def where(holds: Callable[[Stm, Any], bool] | str, s: Strategy | None = None) -> Strategy:
    """`s` (or `id`) on the statements for which `holds(stm, ctx)`, `fail` elsewhere.  A text is the name of a construct
    as the IR prints it, or of a scalar operation: `where("reduce")`."""
    if isinstance(holds, str):
        name = holds
        if name not in (names := [*OPS, *_constructs()]):
            raise UsageError(f"no construct or scalar operation is called '{name}'", hint=nearest(name, names))

        def is_it(stm: Stm, ctx: Any) -> bool:
            e = stm.exp
            return name == (e.op if type(e) is ir.Op else _name(type(e)))

        return _guarded(Strategy(f'where("{name}")', lambda stm, ctx: [stm] if is_it(stm, ctx) else None), s)
    test = holds
    return _guarded(Strategy(f"where({test.__name__})", lambda stm, ctx: [stm] if test(stm, ctx) else None), s)


def _guarded(guard: Strategy, s: Strategy | None) -> Strategy:
    return guard if s is None else seq(guard, s)


def _name(construct: type) -> str:
    return construct.__name__.lower()


def _constructs(base: type = Exp) -> list[str]:
    """The names of the IR's constructs that have no kinds."""
    below: list[type] = base.__subclasses__()
    own = [_name(base)] if base is not ir.Op and base.__module__.startswith("futad.core.") else []
    return [n for c in below for n in _constructs(c)] if below else own


def at(place: str, s: Strategy | None = None) -> Strategy:
    """`s` (or `id`) in the function of that name, or on what comes from that line of the source ("FILE:LINE"); `fail`
    elsewhere.  A file is named by the end of its path."""

    def go(stm: Stm, ctx: Any) -> Result:
        return [stm] if getattr(ctx, "function", None) == place or stands_at(stm, place) else None

    return _guarded(Strategy(f'at("{place}")', go), s)


def stands_at(stm: Stm, place: str) -> bool:
    """Whether what a statement binds comes from the line "FILE:LINE" of the source."""
    file, _, line = place.rpartition(":")
    spans = [v.at for v in stm.pat if v.at is not None]
    return bool(file) and any(str(s.line) == line and f"/{s.file}".endswith(f"/{file}") for s in spans)


def limit(most: int, s: Strategy) -> Strategy:
    """`s`, at most `most` times in a run."""

    def go(stm: Stm, ctx: Any) -> Result:
        with fuelled(_size(stm)) as fuel:
            if fuel.limits.get(id(made), 0) >= most:
                return None
            out = s.apply(stm, ctx)
            if out is not None:
                fuel.limits[id(made)] = fuel.limits.get(id(made), 0) + 1
            return out

    made = Strategy(f"limit({most}, {s.text})", go, (s,))
    return made


# --- one after the other --------------------------------------------------------------------------------------


def _joined(joint: str, parts: tuple[Strategy, ...], nothing: Strategy, apply: Apply) -> Strategy:
    if len(parts) < 2:
        return parts[0] if parts else nothing
    texts = [f"({p.text})" if p.joint and p.joint + joint != "||" else p.text for p in parts]
    return Strategy(f" {joint} ".join(texts), apply, parts, joint)


def seq(*parts: Strategy) -> Strategy:
    """Each in turn, on every statement the one before left; fails if any of them does."""

    def go(stm: Stm, ctx: Any) -> Result:
        stms = [stm]
        for p in parts:
            out: list[Stm] = []
            for s in stms:
                new = p.apply(s, ctx)
                if new is None:
                    return None
                out += new
            stms = out
        return stms

    return _joined(";", parts, id_, go)


def choice(*parts: Strategy) -> Strategy:
    """The first that applies."""

    def go(stm: Stm, ctx: Any) -> Result:
        for p in parts:
            out = p.apply(stm, ctx)
            if out is not None:
                return out
        return None

    return _joined("|", parts, fail, go)


def alternatives(*parts: Strategy) -> Strategy:
    """One of several: the first, unless `futad tune --strategies` has found that another one is faster."""
    return Strategy(f"alternatives({', '.join(p.text for p in parts)})", (parts[0] if parts else fail).apply, parts)


def try_(s: Strategy) -> Strategy:
    """`s`, or the statement unchanged."""
    made = choice(s, id_)
    return Strategy(f"try({s.text})", made.apply, (s,))


def repeat(s: Strategy) -> Strategy:
    """`s` again and again, on all it leaves, until it does not apply.  Always succeeds, or runs out of fuel."""
    return _again(f"repeat({s.text})", s)


def _again(text: str, s: Strategy) -> Strategy:

    def go(stm: Stm, ctx: Any) -> Result:
        todo, done = [stm], []
        with fuelled(_size(stm)) as fuel:
            while todo:
                x = todo.pop()
                out = s.apply(x, ctx)
                if out is None:
                    done.append(x)
                else:
                    fuel.burn(text)
                    todo.extend(reversed(out))
        return done

    return Strategy(text, go, (s,))


_fixes: ContextVar[int] = ContextVar("fixes", default=0)


def fix(make: Callable[[Strategy], Strategy]) -> Strategy:
    """The strategy `s` with `s = make(s)`: `fix(lambda self: try_(seq(r, self)))` is `r` as long as it applies."""
    depth = _fixes.get()
    name = f"self{depth or ''}"

    def go(stm: Stm, ctx: Any) -> Result:
        with fuelled(_size(stm)) as fuel:
            fuel.burn(made.text)
            try:
                return body.apply(stm, ctx)
            except RecursionError:
                fuel.left = 0
                fuel.burn(made.text)
                raise

    me = Strategy(name, go)
    token = _fixes.set(depth + 1)
    try:
        body = make(me)
    finally:
        _fixes.reset(token)
    made = Strategy(f"fix({name} -> {body.text})", go, (body,))
    return made


# --- inside -------------------------------------------------------------------------------------------------------


def with_lambdas(exp: Exp, new: Iterable[Lambda]) -> Exp:
    """The same expression over other scopes, in the order of `lambdas`."""
    it = iter(new)
    return exp.rebuild(lambda a: a, lambda _: next(it))


def substituted(stm: Stm, ctx: Any) -> Stm:
    """The statement with what rules have replaced (`Context.replace`)."""

    def inside(lam: Lambda) -> Lambda:
        params = tuple([ctx.bind(p) for p in lam.params])
        stms = tuple([substituted(x, ctx) for x in lam.stms])
        return Lambda(params, stms, tuple([ctx.atom(a) for a in lam.result]))

    exp = stm.exp.rebuild(ctx.atom, inside)
    if type(exp) is ir.ArrayLit:
        exp.type = subst_type(exp.type, ctx.subst)
    return Stm(tuple([ctx.bind(v) for v in stm.pat]), exp, stm.attrs, stm.grid)


def in_scope(s: Apply, lam: Lambda, ctx: Any) -> list[Result]:
    """What `s` makes of each statement of a scope, from the first to the last.  The context, if it is one of the
    simplifier's, knows by then what has been bound before."""
    known = hasattr(ctx, "defs")
    if known:
        ctx.depth += 1
        mark = ctx.ranges.mark()
        for p in lam.params:
            ctx.bind(p)
    out: list[Result] = []
    for stm in lam.stms:
        new = s(stm, ctx)
        out.append(new)
        for x in (stm,) if new is None else new:
            if known:
                bound = [ctx.bind(v) for v in x.pat]
                if len(bound) == 1:
                    ctx.defs[bound[0]] = x.exp
    if known:
        ctx.ranges.release(mark)
        ctx.depth -= 1
    return out


def _rebuilt(stm: Stm, s: Apply, ctx: Any) -> tuple[list[Stm] | None, int, int]:
    """The statement with what `s` makes of the statements one scope down, how often it applied, and how often not."""
    lams = stm.exp.lambdas()
    new: list[Lambda] = []
    hits = misses = 0
    for lam in lams:
        results = in_scope(s, lam, ctx)
        hit = sum(r is not None for r in results)
        stms = [x for old, r in zip(lam.stms, results, strict=True) for x in ((old,) if r is None else r)]
        new.append(Lambda(lam.params, tuple(stms), lam.result) if hit else lam)
        hits, misses = hits + hit, misses + len(results) - hit
    return ([Stm(stm.pat, with_lambdas(stm.exp, new), stm.attrs, stm.grid)] if hits else [stm]), hits, misses


def one(s: Strategy) -> Strategy:
    """`s` on the first statement of the nested scopes where it applies."""

    def go(stm: Stm, ctx: Any) -> Result:
        hit = False

        def first(x: Stm, ctx: Any) -> Result:
            nonlocal hit
            out = None if hit else s.apply(x, ctx)
            hit = hit or out is not None
            return out

        out, hits, _ = _rebuilt(stm, first, ctx)
        return out if hits else None

    return Strategy(f"one({s.text})", go, (s,))


def some(s: Strategy) -> Strategy:
    """`s` on every statement of the nested scopes (one level down) where it applies; fails if it applies to none."""

    def go(stm: Stm, ctx: Any) -> Result:
        out, hits, _ = _rebuilt(stm, s.apply, ctx)
        return out if hits else None

    return Strategy(f"some({s.text})", go, (s,))


def all_(s: Strategy) -> Strategy:
    """`s` on every statement of the nested scopes (one level down); fails if it fails on any."""

    def go(stm: Stm, ctx: Any) -> Result:
        out, _, misses = _rebuilt(stm, s.apply, ctx)
        return None if misses else out

    return Strategy(f"all({s.text})", go, (s,))


def topdown(s: Strategy) -> Strategy:
    """`s` at the first place, outermost first, where it applies."""

    def go(stm: Stm, ctx: Any) -> Result:
        out = s.apply(stm, ctx)
        return out if out is not None else inner.apply(stm, ctx)

    made = Strategy(f"topdown({s.text})", go, (s,))
    inner = one(made)
    return made


def bottomup(s: Strategy) -> Strategy:
    """`s` at the first place, innermost first, where it applies."""

    def go(stm: Stm, ctx: Any) -> Result:
        out = inner.apply(stm, ctx)
        return out if out is not None else s.apply(stm, ctx)

    made = Strategy(f"bottomup({s.text})", go, (s,))
    inner = one(made)
    return made


def innermost(s: Strategy) -> Strategy:
    """Normal form by rewriting innermost places first."""
    return _again(f"innermost({s.text})", bottomup(s))


def normalize(s: Strategy) -> Strategy:
    """Normal form by rewriting outermost places first (`repeat(topdown(s))`)."""
    return _again(f"normalize({s.text})", topdown(s))


def apply_to(s: Strategy, lam: Lambda, ctx: Any = None) -> Lambda:
    """`s` tried on each statement of a scope; the scope itself if nothing applied."""
    results = in_scope(s.apply, lam, ctx)
    if all(r is None or len(r) == 1 and r[0] is old for old, r in zip(lam.stms, results, strict=True)):
        return lam
    stms = [x for old, r in zip(lam.stms, results, strict=True) for x in ((old,) if r is None else r)]
    return Lambda(lam.params, tuple(stms), lam.result)


__all__ = [
    "CHANGES", "Fuel", "Rule", "Rules", "Stats", "Strategy", "all_", "alternatives", "apply_to", "at", "bottomup",
    "choice", "fail", "fix", "fuelled", "id_", "innermost", "limit", "normalize", "one", "op_rule", "repeat", "rule",
    "seq", "some", "stands_at", "substituted", "topdown", "try_", "where", "with_lambdas",
]  # fmt: skip
