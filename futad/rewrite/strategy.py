"""Strategies: how rules are applied, as values that compose and print themselves.

After ELEVATE (Hagedorn et al., ICFP 2020) and Stratego (Visser, 2001).  A strategy takes a statement and a
context and returns the statements that replace it, or None when it does not apply.

    print(normalize(choice(fold, unit)))        # normalize(fold | unit)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from futad.core import ir
from futad.core.ir import Exp, Lambda, Stm

Result = list[Stm] | None
Apply = Callable[[Stm, Any], Result]


@dataclass(slots=True)
class Stats:
    """How often each rule applied, and the seconds spent in it (failed attempts included)."""

    hits: dict[str, int] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

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

    __slots__ = ("text", "apply", "loose")

    def __init__(self, text: str, apply: Apply, loose: bool = False) -> None:
        self.text = text
        self.apply = apply
        self.loose = loose  # binds weaker than an argument: bracketed inside a sequence

    def __call__(self, stm: Stm, ctx: Any = None) -> Result:
        return self.apply(stm, ctx)

    def __repr__(self) -> str:
        return self.text

    def __or__(self, other: Strategy) -> Strategy:
        return choice(self, other)

    def __rshift__(self, other: Strategy) -> Strategy:
        return seq(self, other)


class Rule(Strategy):
    """A named rewrite of statements whose expression is one of `heads`; `doc` shows before -> after.

    `ops` narrows a rule on `Op` to these operations (empty: all).
    """

    __slots__ = ("name", "heads", "fn", "doc", "ops")

    def __init__(self, name: str, heads: tuple[type, ...], fn: Apply, doc: str, ops: tuple[str, ...] = ()) -> None:
        super().__init__(name, self._apply)
        self.name, self.heads, self.fn, self.doc, self.ops = name, heads, fn, doc, ops

    def _apply(self, stm: Stm, ctx: Any) -> Result:
        e = stm.exp
        if type(e) not in self.heads or self.ops and not (type(e) is ir.Op and e.op in self.ops):
            return None
        stats = getattr(ctx, "stats", None)
        if stats is None:
            return self.fn(stm, ctx)
        start = time.perf_counter()
        out = self.fn(stm, ctx)
        stats.record(self.name, out is not None, time.perf_counter() - start)
        return out


def rule(*heads: type[Exp]) -> Callable[[Apply], Rule]:
    """Make a function a `Rule` on statements that bind one of the expressions `heads`."""

    def make(fn: Apply) -> Rule:
        return Rule(fn.__name__, heads, fn, (fn.__doc__ or "").strip())

    return make


def op_rule(*ops: str) -> Callable[[Apply], Rule]:
    """Make a function a `Rule` on these scalar operations."""

    def make(fn: Apply) -> Rule:
        return Rule(fn.__name__, (ir.Op,), fn, (fn.__doc__ or "").strip(), ops)

    return make


class Rules(Strategy):
    """The first of many rules that applies, found by the head of the expression (and a scalar operation's name)."""

    __slots__ = ("rules", "by_head", "by_op")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        super().__init__(" | ".join(r.name for r in self.rules), self._apply, loose=True)
        self.by_head: dict[type, tuple[Rule, ...]] = {}
        self.by_op: dict[str, tuple[Rule, ...]] = {}
        for r in self.rules:
            for h in r.heads:
                self.by_head[h] = (*self.by_head.get(h, ()), r)
        general = self.by_head.get(ir.Op, ())
        self.by_head[ir.Op] = tuple(r for r in general if not r.ops)
        for name in {op for r in general for op in r.ops}:
            self.by_op[name] = tuple(r for r in general if not r.ops or name in r.ops)

    def _apply(self, stm: Stm, ctx: Any) -> Result:
        e = stm.exp
        rules = self.by_head.get(type(e))
        if type(e) is ir.Op:
            rules = self.by_op.get(e.op, rules)
        if rules is not None:
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


def _text(s: Strategy) -> str:
    return f"({s.text})" if s.loose else s.text


id_ = Strategy("id", lambda stm, ctx: [stm])
fail = Strategy("fail", lambda stm, ctx: None)


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

    return Strategy(" ; ".join(_text(p) for p in parts), go, loose=True)


def choice(*parts: Strategy) -> Strategy:
    """The first that applies."""

    def go(stm: Stm, ctx: Any) -> Result:
        for p in parts:
            out = p.apply(stm, ctx)
            if out is not None:
                return out
        return None

    return Strategy(" | ".join(_text(p) if " ; " in p.text else p.text for p in parts), go, loose=True)


def try_(s: Strategy) -> Strategy:
    """`s`, or the statement unchanged."""
    made = choice(s, id_)
    return Strategy(f"try({s.text})", made.apply)


def repeat(s: Strategy) -> Strategy:
    """`s` again and again, on all it leaves, until it does not apply.  Always succeeds."""

    def go(stm: Stm, ctx: Any) -> Result:
        todo, done = [stm], []
        while todo:
            x = todo.pop()
            out = s.apply(x, ctx)
            if out is None:
                done.append(x)
            else:
                todo.extend(reversed(out))
        return done

    return Strategy(f"repeat({s.text})", go)


def with_lambdas(exp: Exp, new: Iterable[Lambda]) -> Exp:
    """The same expression over other scopes, in the order of `lambdas`."""
    it = iter(new)
    return exp.rebuild(lambda a: a, lambda _: next(it))


def _children(s: Strategy, every: bool) -> Apply:
    """`s` on the statements one scope down: on all of them, or on the first where it applies."""

    def go(stm: Stm, ctx: Any) -> Result:
        lams = stm.exp.lambdas()
        hit = False
        new: list[Lambda] = []
        for lam in lams:
            stms: list[Stm] = []
            for x in lam.stms:
                out = None if hit and not every else s.apply(x, ctx)
                if out is None:
                    if every:
                        return None
                    stms.append(x)
                else:
                    hit = True
                    stms += out
            new.append(Lambda(lam.params, tuple(stms), lam.result))
        if not hit and not every:
            return None
        return [Stm(stm.pat, with_lambdas(stm.exp, new), stm.attrs)] if lams else [stm]

    return go


def one(s: Strategy) -> Strategy:
    """`s` on the first statement of the nested scopes where it applies."""
    return Strategy(f"one({s.text})", _children(s, every=False))


def all_(s: Strategy) -> Strategy:
    """`s` on every statement of the nested scopes (one level down); fails if it fails on any."""
    return Strategy(f"all({s.text})", _children(s, every=True))


def topdown(s: Strategy) -> Strategy:
    """`s` at the first place, outermost first, where it applies."""

    def go(stm: Stm, ctx: Any) -> Result:
        out = s.apply(stm, ctx)
        return out if out is not None else inner.apply(stm, ctx)

    made = Strategy(f"topdown({s.text})", go)
    inner = one(made)
    return made


def bottomup(s: Strategy) -> Strategy:
    """`s` at the first place, innermost first, where it applies."""

    def go(stm: Stm, ctx: Any) -> Result:
        out = inner.apply(stm, ctx)
        return out if out is not None else s.apply(stm, ctx)

    made = Strategy(f"bottomup({s.text})", go)
    inner = one(made)
    return made


def innermost(s: Strategy) -> Strategy:
    """Normal form by rewriting innermost places first."""
    return Strategy(f"innermost({s.text})", repeat(bottomup(s)).apply)


def normalize(s: Strategy) -> Strategy:
    """Normal form by rewriting outermost places first (`repeat(topdown(s))`)."""
    return Strategy(f"normalize({s.text})", repeat(topdown(s)).apply)


def apply_to(s: Strategy, lam: Lambda, ctx: Any = None) -> Lambda:
    """`s` tried on each statement of a scope; the scope itself if nothing applied."""
    out: list[Stm] = []
    changed = False
    for stm in lam.stms:
        new = s.apply(stm, ctx)
        if new is None:
            out.append(stm)
        else:
            out += new
            changed = True
    return Lambda(lam.params, tuple(out), lam.result) if changed else lam


__all__ = [
    "Rule", "Rules", "Stats", "Strategy", "all_", "apply_to", "bottomup", "choice", "fail", "id_", "innermost",
    "normalize", "one", "op_rule", "repeat", "rule", "seq", "topdown", "try_", "with_lambdas",
]  # fmt: skip
