"""Building statements from a pattern whose metavariables are known: the right side of a rule, or an instance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from futad.core import ir
from futad.core.node import Range
from futad.core.type_rules import exp_types
from futad.core.types import I64, AccType, ArrayType, Atom, Type, Var, elem_of, row_type, shape_of
from futad.rewrite.patterns.match import Bindings
from futad.rewrite.patterns.syntax import Apply, Hole, is_many

Lookup = Callable[[Any, Sequence[Atom]], Any]  # of a metavariable without a value; the atoms bound in its scope


def _missing(p: Any, inside: Sequence[Atom]) -> Any:
    raise KeyError(p)


class Build:
    """Makes statements.  `env` grows by what is bound; `unknown` gives what it lacks."""

    def __init__(self, env: Bindings, unknown: Lookup = _missing) -> None:
        self.env = dict(env)
        self.unknown = unknown
        self.inside: list[Atom] = []  # what the scopes around bind
        self.stms: list[ir.Stm] = []

    # -- atoms

    def atom(self, p: Any) -> Any:
        if type(p) is not Var:
            return Range(*map(self.atom, (p.start, p.count, p.stride))) if isinstance(p, Range) else p
        if p not in self.env:
            self.env[p] = self.unknown(p, self.inside)
        return self.env[p]

    def atoms(self, ps: Iterable[Any]) -> tuple[Any, ...]:
        out: list[Any] = []
        for p in ps:
            out += self.atom(p) if is_many(p) else [self.atom(p)]
        return tuple(out)

    def type_(self, t: Type) -> Type:
        return type(t)(elem_of(t), self.atoms(shape_of(t))) if isinstance(t, ArrayType | AccType) else t

    # -- statements

    def side(self, stms: Iterable[ir.Stm]) -> list[ir.Stm]:
        """The statements made of those of a pattern; metavariables with a value are bound as they are."""
        outer, self.stms = self.stms, []
        for s in stms:
            self.stm(s)
        out, self.stms = self.stms, outer
        return out

    def stm(self, s: ir.Stm) -> None:
        if isinstance(s.exp, Apply):
            lam = self.scope(s.exp.name)
            args = self.atoms(s.exp.args)
            if len(args) != len(lam.params):
                raise TypeError(f"?{s.exp.name} takes {len(lam.params)} arguments, not {len(args)}")
            copy = ir.Renamer(dict(zip(lam.params, args, strict=True)))
            self.stms += copy.stms(lam.stms)
            self.bind(s.pat, [copy.atom(a) for a in lam.result], None)
            return
        e = self.exp(s.exp)
        self.bind(s.pat, exp_types(e), e)

    def bind(self, pat: tuple[Var, ...], values: Sequence[Any], e: ir.Exp | None) -> None:
        """Bind results: of an expression by their types, or atoms, which are named only where they have to be."""
        many = next((k for k, p in enumerate(pat) if is_many(p)), None)
        known: Any
        groups: list[tuple[Var, Any]] = []
        if many is None:
            groups = list(zip(pat, values, strict=True))
        else:
            end = len(values) - (len(pat) - many - 1)
            groups = [*zip(pat[:many], values[:many], strict=True), (pat[many], tuple(values[many:end])),
                      *zip(pat[many + 1 :], values[end:], strict=True)]  # fmt: skip
        made: list[Var] = []
        for p, v in groups:
            known = self.env.get(p)
            if e is None:
                if known is None:
                    self.env[p] = v
                    continue
                pairs = list(zip(known, v, strict=True)) if is_many(p) else [(known, v)]
                for w, a in pairs:
                    _same(p, w, a.type)
                self.stms += [ir.Stm((w,), ir.Alias(a)) for w, a in pairs]
            else:
                if known is None:
                    name = p.name.lstrip("?").replace(".", "_")
                    known = self.env[p] = tuple([Var(name, t) for t in v]) if is_many(p) else Var(name, v)
                for w, t in zip(known, v, strict=True) if is_many(p) else [(known, v)]:
                    _same(p, w, t)
                    made.append(w)
        if e is not None:
            self.stms.append(ir.Stm(tuple(made), e))

    def scope(self, name: str) -> ir.Lambda:
        if name not in self.env:
            self.env[name] = self.unknown(name, self.inside)
        out: ir.Lambda = self.env[name]
        return out

    def exp(self, p: ir.Exp) -> ir.Exp:
        """An expression; scopes get parameters of the types that the operands say."""
        done: dict[str, Any] = {}
        for f, kind in type(p).kinds.items():
            v = getattr(p, f)
            if kind in ("Atom", "Atoms", "Index"):
                done[f] = self.atom(v) if kind == "Atom" else self.atoms(v)
            elif kind == "Lambda":
                done[f] = None
            elif kind == "Folds":
                done[f] = tuple([ir.Fold(g.lam, self.atoms(g.neutral), g.comm) for g in v])
            else:
                done[f] = self.type_(v) if kind == "Type" else v
        for f, kind in type(p).kinds.items():
            if kind == "Lambda":
                done[f] = self.lam(getattr(p, f), _params(type(p), f, done))
            elif kind == "Folds":
                done[f] = tuple([ir.Fold(self.lam(g.lam, _twice(g.neutral)), g.neutral, g.comm) for g in done[f]])
        return type(p)(**done)

    def lam(self, p: ir.Lambda, types: list[Type]) -> ir.Lambda:
        if isinstance(p, Hole):
            return ir.rename(self.scope(p.name))
        outer, mark = self.env, len(self.inside)
        self.env = dict(outer)
        names = [q.name.lstrip("?").replace(".", "_") for q in p.params]
        if any(map(is_many, p.params)):
            at = next(k for k, q in enumerate(p.params) if is_many(q))
            names = [*names[:at], *[names[at]] * (len(types) - len(names) + 1), *names[at + 1 :]]
        params = tuple([Var(n, t) for n, t in zip(names, types, strict=True)])
        rest = list(params)
        for q in p.params:
            after = len(p.params) - 1 - p.params.index(q)
            k = len(rest) - after if is_many(q) else 1
            self.env[q] = tuple(rest[:k]) if is_many(q) else rest[0]
            rest = rest[k:]
        for s in p.stms:  # what is bound here is new, though a scope on the other side may bind its name
            for v in s.pat:
                self.env.pop(v, None)
        self.inside += params
        outer_stms, self.stms = self.stms, []
        for s in p.stms:
            self.stm(s)
            self.inside += self.stms[-1].pat if self.stms else ()
        stms, self.stms = self.stms, outer_stms
        result = self.atoms(p.result)
        bound = {q for q in p.params} | {v for s in p.stms for v in s.pat}
        known = {q: v for q, v in self.env.items() if q not in bound and q not in outer}
        del self.inside[mark:]
        self.env = {**outer, **known}
        return ir.Lambda(params, tuple(stms), result)


def _same(p: Var, v: Var, t: Type) -> None:
    if v.type != t:
        raise TypeError(f"{p.name} is bound as {t}, and is {v.type} on the left side")


def _rows(arrays: Iterable[Atom]) -> list[Type]:
    return [a.type if isinstance(a.type, AccType) else row_type(a.type) for a in arrays]


def _twice(atoms: Sequence[Atom]) -> list[Type]:
    return [a.type for a in atoms] * 2


def _params(cls: type, field: str, e: dict[str, Any]) -> list[Type]:
    """The types of the parameters of a construct's scope."""
    if cls in (ir.Map, ir.Fused):
        return _rows(e["arrays"])
    if cls in (ir.Reduce, ir.Scan):
        return _twice(e["neutral"])
    if cls is ir.Hist:
        return [row_type(d.type, len(e["idxs"])) for d in e["dests"]] * 2
    if cls is ir.For:
        return [I64, *[a.type for a in e["inits"]]]
    if cls is ir.While:
        return [a.type for a in e["inits"]]
    if cls is ir.WithAcc:
        return [AccType(elem_of(a.type), shape_of(a.type)) for a in e["arrays"]]
    if cls in (ir.Jvp, ir.Vjp):
        return [a.type for a in e["args"]]
    if cls is ir.If:
        return []
    raise TypeError(f"the parameters of {field} are not known")


__all__ = ["Build", "Lookup"]
