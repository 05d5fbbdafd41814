"""Rules as text: parsed, checked when they are defined, applied by matching (syntax: `patterns/syntax.py`).

    r = rule('''
        rule scale_out_of_sum:
          let ?ys = map(?n, [?xs], \\(?x) -> { let ?y = mul(?x, ?c) in (?y) })
          let ?s = reduce(?n, [?ys], \\(?a, ?b) -> { let ?t = add(?a, ?b) in (?t) }, [0.0f64])
          =>
          let ?r = reduce(?n, [?xs], \\(?a, ?b) -> { let ?t = add(?a, ?b) in (?t) }, [0.0f64])
          let ?s = mul(?r, ?c)
          where invariant(?c)
    ''')

A rule replaces the root alone; dead code removes what nothing needs any more.  It applies only where what it moves is
not overwritten meanwhile, and where arrays that become one may be one: rules need not say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import dedent, indent
from typing import Any

from futad.core import ir
from futad.core.alias import flows
from futad.core.check import check_program
from futad.core.operator import may_fail
from futad.core.types import BOOL, F64, I32, I64, Prim, Var
from futad.core.union_find import UnionFind
from futad.errors import InternalError, RuleError, Span
from futad.rewrite.context import Context
from futad.rewrite.patterns.build import Build
from futad.rewrite.patterns.conditions import CONDITIONS, Match, holds
from futad.rewrite.patterns.infer import NoTypes
from futad.rewrite.patterns.instance import Filling, Instance, instance, top_level
from futad.rewrite.patterns.match import matches
from futad.rewrite.patterns.syntax import Apply, Hole, Scheme, atoms_in, expanded, holes_in, is_many, parse
from futad.rewrite.strategy import Result, Rule

_TRIED: tuple[tuple[Prim, int], ...] = ((F64, 0), (I64, 0), (F64, 1), (I32, 0), (BOOL, 0), (F64, 2))


class TextRule(Rule):
    """A rule of a text: `source` has it, and `str` gives it."""

    __slots__ = ("scheme", "source")

    def __init__(self, scheme: Scheme) -> None:
        root = scheme.root.exp
        ops = (root.op,) if isinstance(root, ir.Op) else ()
        super().__init__(scheme.name, (type(root),), self.rewritten, scheme.text, ops, scheme.changes)
        first, _, rest = scheme.text.partition("\n")
        self.scheme, self.source = scheme, f"{first}\n{indent(dedent(rest), '  ')}".rstrip()

    def __str__(self) -> str:
        return self.source

    def rewritten(self, stm: ir.Stm, ctx: Context) -> Result:
        """What the right side makes of a statement that is the root of a match; None if there is none."""
        s = self.scheme
        if ctx is None and len(s.before) > 1:
            return None
        for bindings, found in matches(s, stm, lambda a: ctx.exp(a)):
            m = Match(bindings, stm, found, ctx)
            if all(holds(m, c.name, [_bound(bindings, a) for a in c.args], c.limit) for c in s.where):
                out = self.replacement(m)
                if out is not None:
                    return out
        return None

    def replacement(self, m: Match) -> Result:
        """The right side, unless it would share or move what is overwritten."""
        s = self.scheme
        # What the left side's scopes bind is not known on the right: there the names are of its own scopes.
        outer = top_level(s.before) | {v for c in s.where for v in atoms_in(s.before) if v.name in c.args}
        keep = {p: a for p, a in m.bindings.items() if isinstance(p, str) or p in outer}
        build = Build(keep)
        try:
            out = build.side(s.after)
        except TypeError:  # of types that the rule is not for
            return None
        if out and type(out[-1].exp) is type(m.stm.exp):
            out[-1].attrs = m.stm.attrs
        return out if _safe(m, out) else None


def _bound(b: dict[Any, Any], name: str) -> Any:
    return b[name[1:]] if name[1:] in b else next(a for p, a in b.items() if not isinstance(p, str) and p.name == name)


def _safe(m: Match, out: list[ir.Stm]) -> bool:
    """Whether the statements read nothing that may have been overwritten since, and share no arrays that must not."""
    ctx, old = m.ctx, ir.stm_free(m.stm)
    made = {v for s in out for v in s.pat}
    free = [v for s in out for v in ir.stm_free(s) if v not in made]
    if any(v not in old and not isinstance(v.type, Prim) and ctx.mutable(v) for v in free):
        return False
    new = UnionFind[Var]()
    for t in ir.statements(out):
        for v, a in flows(t):
            if type(a) is Var and not isinstance(v.type, Prim):
                new.join(v, a)
    arrays = dict.fromkeys([v for v in (*m.stm.pat, *free) if not isinstance(v.type, Prim)])
    for v in m.stm.pat:
        for a in arrays:
            if a is v or new.find(a) is not new.find(v) or ctx.aliases.share(v, a):
                continue
            if not ctx.shareable(v, a):
                return False
    return True


# --- definition ---------------------------------------------------------------------------------------------


def parse_rules(text: str, file: str = "<rule>", line: int = 1) -> list[Rule]:
    """The rules of a text that begins on a line of a file, each checked.  Raises RuleError with the rule, the line and
    the cause."""
    found = parse("\n" * (line - 1) + text, file)
    names: set[str] = set()
    for s in found:
        if s.name in names:
            s.fail("there are two rules of this name")
        names.add(s.name)
        _check(s)
    return [TextRule(s) for s in found]


def rule(text: str, file: str = "<rule>", line: int = 1) -> Rule:
    """The rule of a text.  Raises RuleError."""
    found = parse_rules(text, file, line)
    if len(found) != 1:
        raise RuleError(f"one rule is wanted, here are {len(found)}", Span(file, line, 1, line, 2))
    return found[0]


def _check(s: Scheme) -> None:
    if not s.before:
        s.fail("the left side is empty")
    if not s.after:
        s.fail("the right side is empty: what it binds may be an alias, `let ?s = ?x`")
    _check_left(s)
    _check_where(s)
    _check_bound(s)
    _check_consumed(s)
    _check_types(s)


def _check_left(s: Scheme) -> None:
    root = s.root
    if isinstance(root.exp, ir.Alias | ir.Derivative | ir.WithVjp | ir.WithJvp | ir.WithInverse | ir.Invert | ir.Call):
        s.fail(f"a rule's root is no {type(root.exp).__name__.lower()}", root)
    for t in s.before[:-1]:
        if len(t.pat) != 1 or is_many(t.pat[0]):
            s.fail("a statement above the root binds one variable", t)
    bound = Counter(v for t in s.before for v in t.pat)
    twice = next((t for t in s.before if any(bound[v] > 1 for v in t.pat)), None)
    if twice is not None:
        s.fail("the left side binds a variable twice", twice)
    known = set(atoms_in(root.exp))
    left = list(s.before[:-1])
    while left:
        reached = next((t for t in left if t.pat[0] in known), None)
        if reached is None:
            s.fail(f"{left[0].pat[0].name} is not reached from the root, which is the last statement", left[0])
        left.remove(reached)
        known |= set(atoms_in(reached.exp))


def _check_where(s: Scheme) -> None:
    names = {v.name for v in atoms_in(s.before)} | {f"?{h}" for h in holes_in(s.before)}
    for c in s.where:
        known = CONDITIONS.get(c.name)
        if known is None:
            s.fail(f"there is no condition {c.name}; there are: {', '.join(CONDITIONS)}", c.line)
        if len(c.args) != known[1]:
            s.fail(f"{c.name} takes {known[1]} argument{'s' * (known[1] > 1)}, not {len(c.args)}", c.line)
        if known[2] != (c.limit is not None):
            s.fail(f"{c.name} is {'a number: compare it, `< 10`' if known[2] else 'no number'}", c.line)
        for a in c.args:
            if a not in names:
                s.fail(f"{a} is not on the left side", c.line)


def _check_bound(s: Scheme) -> None:
    """All that the right side uses is known there, and the root's results are bound."""
    outside = top_level(s.before)
    said = {a for c in s.where if c.name == "invariant" for a in c.args}
    names = {v.name for v in atoms_in(s.before)}
    holes = set(holes_in(s.before))
    inner_holes = {h for t in s.before for lam in t.exp.lambdas() for h in holes_in(lam.stms)}
    bound_inside = set(_binders(s.before)) - outside

    def use(v: Var, known: set[Var], t: ir.Stm) -> None:
        if v in known or v in outside and v not in s.root.pat:
            return
        if v in bound_inside:
            s.fail(f"{v.name} is bound inside of a scope on the left", t)
        if v.name not in names or v in s.root.pat:
            s.fail(f"{v.name} is not bound", t)
        if v.name not in said:
            s.fail(f"{v.name} stands in a scope on the left: it may vary there; add `where invariant({v.name})`", t)

    def stms(of: Sequence[ir.Stm], known: set[Var], t: ir.Stm | None = None) -> None:
        for u in of:
            at = u if t is None else t
            for h in [u.exp.name] if isinstance(u.exp, Apply) else []:
                if h not in holes:
                    s.fail(f"?{h} is no scope on the left side", at)
                if h in inner_holes and f"?{h}" not in said:
                    s.fail(f"?{h} stands in a scope on the left; add `where invariant(?{h})`", at)
            for v in _direct(u.exp):
                use(v, known, at)
            for lam in u.exp.lambdas():
                if isinstance(lam, Hole):
                    if lam.name not in holes:
                        s.fail(f"\\?{lam.name} is no scope on the left side", at)
                    continue
                own = known | set(lam.params)
                stms(lam.stms, own, at)
                inner = own | {v for w in lam.stms for v in w.pat}
                for v in atoms_in(lam.result):
                    use(v, inner, at)
            if t is None:
                for v in u.pat:
                    if v in outside and v not in s.root.pat:
                        s.fail(f"{v.name} is bound on the left side already", u)
                    if v in known:
                        s.fail(f"{v.name} is bound twice", u)
            known = known | set(u.pat)

    stms(s.after, set())
    made = {v for t in s.after for v in t.pat}
    for v in s.root.pat:
        if v not in made:
            s.fail(f"the right side does not bind {v.name}, which the root binds", s.root)


def _direct(e: ir.Exp) -> Iterator[Var]:
    """The metavariables of an expression that stand outside of its scopes."""
    for f, k in type(e).kinds.items():
        if k == "Folds":
            yield from atoms_in(tuple([g.neutral for g in getattr(e, f)]))
        elif k != "Lambda":
            yield from atoms_in(getattr(e, f))


def _binders(stms: Sequence[ir.Stm]) -> Iterator[Var]:
    for t in stms:
        for lam in t.exp.lambdas():
            yield from lam.params
            yield from [v for u in lam.stms for v in u.pat]
            yield from _binders(lam.stms)


# --- what must stay ------------------------------------------------------------------------------------------

Place = tuple[str, ...]


def _kept(stms: Sequence[ir.Stm], may: Any, at: Place = ()) -> Iterator[tuple[tuple[Place, str], str]]:
    """What of statements must stay where it is: its place and kind, and what it is called."""
    for t in stms:
        e = t.exp
        name = e.op if isinstance(e, ir.Op) else type(e).__name__.lower()
        if e.effect or isinstance(e, ir.Call):
            yield (at, name), f"{name} has an effect"
        elif isinstance(e, ir.Op) and may(e):
            yield (at, name), f"{name} may fail"
        elif isinstance(e, ir.At | ir.Update) and e.check is not None:
            yield (at, name), f"{name} is checked, so it may fail"
        if e.consumes():
            yield (at, f"consuming {[getattr(a, 'name', '') for a in e.consumes()]}"), f"{name} overwrites an array"
        for lam in e.lambdas():
            if isinstance(lam, Hole):
                yield ((*at, name), f"?{lam.name}"), f"?{lam.name} may have effects"
            else:
                yield from _kept(lam.stms, may, (*at, name))
        if isinstance(e, Apply):
            yield (at, f"?{e.name}"), f"?{e.name} may have effects"


def _check_consumed(s: Scheme, may: Any = lambda e: False) -> None:
    pure = {a for c in s.where if c.name == "pure" for a in c.args}
    before, after = (dict.fromkeys(_kept(x, may)) for x in ((s.root,), s.after))
    old, new = Counter(k for k, _ in before), Counter(k for k, _ in after)
    for (key, why), at in [*[(x, s.root) for x in before], *[(x, s.after[-1]) for x in after]]:
        if old[key] == new[key] or key[1] in pure:
            continue
        if key[1].startswith("?"):
            s.fail(f"{why}, and stands elsewhere on the right side: add `where pure({key[1]})`", at)
        lost = old[key] > new[key]
        s.fail(f"{why}: the right side {'leaves it out or moves it' if lost else 'adds it'}", at)


def _check_types(s: Scheme) -> None:
    """The left side has types, and with all of them so does the right side: the same."""
    why, found = "", 0
    for elem, rank in _TRIED:
        scheme = expanded(s, 2)
        try:
            made = instance(scheme, Filling(elem, rank))
        except NoTypes as e:
            why = str(e)
            continue
        except (TypeError, AssertionError, ValueError) as e:
            s.fail(f"the left side has no types: {e}", s.root)
        found += 1
        _check_instance(scheme, made)
    if not found and not any(w in why for w in ("jvp", "vjp", "acc", "while", "fused", "scratch", "argsort", "assert")):
        s.fail(f"no types fit the left side ({why})", s.root)


def _check_instance(s: Scheme, made: Instance) -> None:
    types = {p: a.type for p, a in made.env.items() if isinstance(p, Var) and not is_many(p)}

    def may(e: ir.Op) -> bool:
        args = tuple([made.env.get(a, Var("x", types.get(a, F64))) if type(a) is Var else a for a in e.args])
        return may_fail(ir.Op(e.op, args))

    _check_consumed(s, may)
    build = Build(made.env)
    out: list[ir.Stm] = []
    for t in s.after:
        try:
            out += build.side((t,))
        except (TypeError, AssertionError, ValueError) as e:
            s.fail(f"types do not fit: {e}", t)
    for stms, at in ((made.stms, s.root), ((*made.stms[:-1], *out), s.after[-1])):
        f = made.fun(stms)
        try:
            check_program(ir.Program({f.name: f}))
        except InternalError as e:
            s.fail(f"the {'left' if at is s.root else 'right'} side is not well-formed: {e.message}", at)


__all__ = ["TextRule", "parse_rules", "rule"]
