"""`#[unroll]` on `jmp` and `mjp`: a fixed number of directions as that many copies of what depends on them.

What does not depend on the direction is still computed once, in maps, branches and loops too:

    map2 (\\x y' -> let c = cos x in c * y') xs ys'
    -->   map3 (\\x y1 y2 -> let c = cos x in (c * y1, c * y2)) xs ys1 ys2
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from futad.ad.directions.widen import in_set, vary
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import Atom, Var, i64


def unrolled(b: Builder, d: int, lam: ir.Lambda, directions: ir.Atoms) -> tuple[list[Atom], list[bool]]:
    """Emit `lam`, the code of one direction, for d directions along dimension 0 of the arrays.

    Returns its results, those that depend on the direction with a new outer dimension, and which do.
    """
    varied = set(lam.params)
    vary(lam.stms, varied)
    u = _Unroller(d, varied)
    for p, x in zip(lam.params, directions, strict=True):
        for k, copy in enumerate(u.copies):
            copy.mapping[p] = b.at(x, i64(k))
    u.stms(b, lam.stms)
    flags = in_set(lam.result, varied)
    out: list[Atom] = []
    for r, f in zip(lam.result, flags, strict=True):
        rows = u.atoms([r])
        out.append(b.let(ir.ArrayLit(rows, rows[0].type), "dirs") if f else r)
    return out, flags


class _Unroller:
    def __init__(self, d: int, varied: set[Var]) -> None:
        self.copies = [ir.Renamer() for _ in range(d)]
        self.varied = varied

    def atoms(self, atoms: Iterable[Atom]) -> ir.Atoms:
        """The atoms, each that varies in all copies."""
        out: list[Atom] = []
        for a in atoms:
            out += [c.atom(a) for c in self.copies] if in_set([a], self.varied)[0] else [a]
        return tuple(out)

    def bind(self, pat: Sequence[Var]) -> tuple[Var, ...]:
        out: list[Var] = []
        for v in pat:
            out += [c.bind(v) for c in self.copies] if v in self.varied else [v]
        return tuple(out)

    def lam(self, lam: ir.Lambda, wide: Sequence[bool]) -> ir.Lambda:
        """A scope with all copies in it; a result that is `wide` has one for each."""
        params = self.bind(lam.params)
        inner = Builder()
        self.stms(inner, lam.stms)
        result: list[Atom] = []
        for r, f in zip(lam.result, wide, strict=True):
            result += [c.atom(r) for c in self.copies] if f else [r]
        return ir.Lambda(params, tuple(inner.stms), tuple(result))

    def stms(self, b: Builder, stms: Sequence[ir.Stm]) -> None:
        for s in stms:
            if not any(in_set(ir.stm_free(s), self.varied)):
                b.add(s)
                continue
            new = self.exp(s.exp, [v in self.varied for v in s.pat])
            if new is None:
                b.extend([c.stm(s) for c in self.copies])
                same = [v for v in s.pat if v not in self.varied]
                for v in same:
                    b.add(ir.Stm((v,), ir.Alias(self.copies[0].atom(v))))
                    for c in self.copies:
                        del c.mapping[v]
            else:
                b.add(ir.Stm(self.bind(s.pat), new, s.attrs))

    def exp(self, e: ir.Exp, flags: list[bool]) -> ir.Exp | None:
        """The scope with all copies in it; None where the statement is copied as a whole."""
        if any(in_set(_control(e), self.varied)):
            return None
        match e:
            case ir.Map():
                return ir.Map(e.width, self.atoms(e.arrays), self.lam(e.lam, flags))
            case ir.If():
                return ir.If(e.cond, self.lam(e.then, flags), self.lam(e.orelse, flags))
            case ir.Par():
                k = len(e.first.result)
                return ir.Par(self.lam(e.first, flags[:k]), self.lam(e.second, flags[k:]))
            case ir.For():
                return ir.For(e.bound, self.starts(e.inits, flags), self.lam(e.body, flags))
            case ir.While() if not flags[0]:
                return ir.While(self.starts(e.inits, flags), self.lam(e.body, flags))
            case ir.WithAcc():
                return ir.WithAcc(self.starts(e.arrays, flags), e.op, self.lam(e.lam, flags))
        return None

    def starts(self, inits: ir.Atoms, flags: list[bool]) -> ir.Atoms:
        out: list[Atom] = []
        for a, f in zip(inits, flags, strict=False):
            out += [c.atom(a) for c in self.copies] if f else [a]
        return tuple(out)


def _control(e: ir.Exp) -> list[Atom]:
    match e:
        case ir.Map():
            return [e.width]
        case ir.If():
            return [e.cond]
        case ir.For():
            return [e.bound]
    return []
