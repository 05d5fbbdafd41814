"""Instances of a rule's left side: programs in which it stands, with values for its metavariables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, ArrayType, Atom, Const, Prim, Type, Var, elem_of, i64, shape_of, subst_type
from futad.rewrite.patterns.build import Build
from futad.rewrite.patterns.infer import Cell, NoTypes, Ty, types_of
from futad.rewrite.patterns.syntax import ANY, Scheme, atoms_in


class Filling:
    """What metavariables become: here as little as possible, constants and replicated ones.

    `b` collects the statements before the instance; the function has `params`, its sizes, and `inputs`.
    """

    def __init__(self, elem: Prim, rank: int) -> None:
        self.elem, self.rank = elem, rank
        self.b = Builder()
        self.params: list[Var] = []
        self.inputs: list[Var] = []

    def pick(self, c: Cell) -> None:
        """Choose a value for what the equations leave open."""
        if c.some:
            c.value = self.elem if self.elem in c.some else c.some[0]
        else:
            c.value = tuple([i64(2)] * self.rank)

    def size(self, name: str) -> Atom:
        n = Var(name, I64)
        self.params.append(n)
        return n

    def value(self, name: str, t: Type, inside: Sequence[Atom]) -> Atom:
        """A value of the type; `inside` are those bound in the scopes around that it may be."""
        if isinstance(t, ArrayType):
            return self.b.let(ir.Replicate(shape_of(t), Const(elem_of(t), 1)), name)
        return self.input(name, t)

    def input(self, name: str, t: Type) -> Var:
        v = Var(name, t)
        self.inputs.append(v)
        return v

    def scope(self, name: str, params: Sequence[Type], results: Sequence[Type], inside: Sequence[Atom]) -> ir.Lambda:
        """A scope of these types."""
        return self.b.lambda_([("x", t) for t in params], lambda b, *xs: [b.zeros(t) for t in results])

    def between(self, s: Scheme, env: dict[Any, Any]) -> None:
        """What else is known of the values; called before the statements are built."""


@dataclass(slots=True)
class Instance:
    """Statements before a rule's left side, those of it, and what its metavariables are."""

    params: tuple[Var, ...]  # of the function; sizes first
    sizes: int
    before: tuple[ir.Stm, ...]
    stms: tuple[ir.Stm, ...]
    env: dict[Any, Any]

    def fun(self, stms: Iterable[ir.Stm]) -> ir.Fun:
        """A function of these statements, that returns all arrays and scalars that the left side binds."""
        return returning(self.params, (*self.before, *stms), [v for s in self.stms for v in s.pat], self.sizes)


def returning(params: Sequence[Var], stms: Iterable[ir.Stm], values: Sequence[Atom], sizes: int) -> ir.Fun:
    """A function `main` of these values, and of the sizes in their types that it computes."""
    own = [n for v in values for n in shape_of(v.type) if isinstance(n, Var) and n not in params]
    result = tuple(dict.fromkeys([*own, *values]))
    mapping: dict[Var, Atom] = {}
    ret: list[Var] = []
    for a in result:
        r = Var("r", subst_type(a.type, mapping))
        if isinstance(a, Var) and a in own:
            mapping[a] = r
        ret.append(r)
    return ir.Fun("main", ir.Lambda(tuple(params), tuple(stms), result), sizes, tuple(ret))


def instance(s: Scheme, f: Filling) -> Instance:
    """One instance.  Raises NoTypes where no types fit, TypeError where the left side is ill-typed."""
    types = types_of(s, f.pick)
    sizes: dict[Atom, Atom] = {}
    making: set[Atom] = set()
    sums = {types.size(n): parts for n, parts in types.sums}
    products = {types.size(n): shape for n, shape in types.products}

    def actual(n: Atom) -> Atom:
        """The atom that a size is."""
        n = types.size(n)
        if isinstance(n, Const):
            return n
        if n not in sizes:
            if n in making:
                raise NoTypes("sizes that need each other")
            making.add(n)
            if n in sums:
                sizes[n] = _sum(f.b, [actual(p) for p in sums[n]])
            elif n in products:
                sizes[n] = f.b.size_mul([actual(p) for p in products[n]])
            else:
                sizes[n] = f.size(n.name.lstrip("?") or "n")
        return sizes[n]

    def type_of(t: Ty) -> Type:
        out = types.type_of(t)
        return ArrayType(out.elem, tuple([actual(n) for n in out.shape])) if isinstance(out, ArrayType) else out

    outside = top_level(s.before)

    def unknown(p: Any, inside: Sequence[Atom]) -> Any:
        within = [] if p in outside else inside
        if isinstance(p, str):
            params, results = types.holes[p]
            return f.scope(p, [type_of(t) for t in params], [type_of(t) for t in results], within)
        return f.value(p.name.lstrip("?"), type_of(types.ty(p)), within)

    for t in list(types.of.values()):
        type_of(t)
    env: dict[Any, Any] = {v: actual(v) for v in types.of if v in types.equal or v in sizes}
    f.between(s, env)
    before = map_fields(s.before)
    build = Build(env, unknown)
    stms = build.side(before)
    return Instance((*f.params, *f.inputs), len(f.params), tuple(f.b.stms), tuple(stms), build.env)


def _sum(b: Builder, parts: Sequence[Atom]) -> Atom:
    out = parts[0]
    for p in parts[1:]:
        out = b.op("add", out, p, hint="size")
    return out


def map_fields(stms: Sequence[ir.Stm]) -> list[ir.Stm]:
    """A left side as statements to build: fields that it leaves out are the usual ones."""
    usual = {"comm": False, "check": None, "place": None, "plus": (), "many": (), "of": ()}

    def exp(e: ir.Exp) -> ir.Exp:
        fields = {k: getattr(e, k) for k in type(e).kinds}
        given = {k: usual[k] if v is ANY else v for k, v in fields.items()}
        out = type(e)(**given)
        return out if not out.scoped else out.rebuild(lambda a: a, lam)

    def lam(p: ir.Lambda) -> ir.Lambda:
        return p if type(p) is not ir.Lambda else ir.Lambda(p.params, tuple(map_fields(p.stms)), p.result)

    return [ir.Stm(s.pat, exp(s.exp), s.attrs) for s in stms]


def top_level(stms: Sequence[ir.Stm]) -> set[Any]:
    """The metavariables that stand outside of scopes, or that statements outside bind."""
    found: set[Any] = set()
    for s in stms:
        found |= set(s.pat)
        found |= {v for f, k in type(s.exp).kinds.items() if k not in ("Lambda", "Folds")
                  for v in atoms_in(getattr(s.exp, f))}  # fmt: skip
        found |= {v for f, k in type(s.exp).kinds.items() if k == "Folds"
                  for g in getattr(s.exp, f) for v in atoms_in(g.neutral)}  # fmt: skip
    return found


__all__ = ["Filling", "Instance", "instance", "returning", "top_level"]
