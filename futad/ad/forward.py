"""Forward mode: every variable that depends on the arguments gets a tangent beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from futad.ad.activity import propagate
from futad.ad.emit import coerce
from futad.ad.table import rule_of
from futad.ad.tidy.opened import opened
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import Atom, Const, Type, Var, shape_of, subst_type


class Tangents:
    """The tangents known in a scope and its code; a nested scope sees those of the enclosing ones.

    The statements themselves are kept as they are, so a lambda handed to `nested` must appear only once
    in the output.
    """

    __slots__ = ("b", "tan", "active", "steep")

    def __init__(self, b: Builder, tan: dict[Var, Atom], active: set[Var], steep: set[Var]) -> None:
        self.b = b
        self.tan = tan
        self.active = active
        self.steep = steep  # results of operations that overflow at ordinary arguments

    def of(self, a: Atom) -> Atom | None:
        """The tangent of an atom, None for zero."""
        return self.tan.get(a) if type(a) is Var else None

    def set(self, v: Var, tangent: Atom) -> None:
        self.tan[v] = tangent

    def dense(self, a: Atom) -> Atom:
        """The tangent as a value, zero if there is none."""
        found = self.of(a)
        return self.b.zeros(a.type, "zeros") if found is None else found

    def run(self, stms: Iterable[ir.Stm]) -> None:
        for stm in opened(stms):
            propagate((stm,), self.active)
            if any(v in self.active for v in stm.pat):
                first = len(self.b.stms)
                rule_of(stm.exp).jvp(self, stm)
                self.b.locate(first, stm.pat[0].at)
            else:
                self.b.add(stm)

    def fresh(self, v: Var, t: Type | None = None) -> Var:
        """A variable for the tangent of `v`, set as such."""
        out = Var(f"{v.name}_tan", v.type if t is None else t)
        self.tan[v] = out
        return out

    def nested(self, lam: ir.Lambda, active: Sequence[bool]) -> tuple[list[Var], Tangents]:
        """Run the body of `lam` with tangent parameters for the active ones; they, and the inner scope."""
        inner = Tangents(Builder(), self.tan, self.active, self.steep)
        extra = [inner.fresh(p) for p, f in zip(lam.params, active, strict=True) if f]
        self.active.update(p for p, f in zip(lam.params, active, strict=True) if f)
        inner.run(lam.stms)
        return extra, inner

    def operator(self, lam: ir.Lambda, active: Sequence[bool]) -> ir.Lambda:
        """A reduction operator of 2k parameters on dual numbers: primal elements, then active tangents."""
        k = len(lam.result)
        extra, inner = self.nested(lam, list(active) * 2)
        n = len(extra) // 2
        params = lam.params[:k] + tuple(extra[:n]) + lam.params[k:] + tuple(extra[n:])
        tans = [inner.dense(r) for r, f in zip(lam.result, active, strict=True) if f]
        return ir.Lambda(params, tuple(inner.b.stms), lam.result + tuple(tans))


def expand_jvp(b: Builder, e: ir.Jvp) -> tuple[list[Atom], list[Atom]]:
    """Emit the code of a `Jvp`: primal results, their tangents."""
    copy = ir.Renamer()
    t = Tangents(b, {}, set(), set())
    for p, a, d in zip(e.lam.params, e.args, e.tangents, strict=True):
        q = Var(p.name, subst_type(p.type, copy.mapping))
        copy.mapping[p] = q
        b.add(ir.Stm((q,), ir.Alias(a) if a.type == q.type else ir.Reshape(a, shape_of(q.type))))
        if type(d) is Const and d.value == 0:
            continue  # no tangent, as reverse mode has no adjoint of what nothing reads
        t.set(q, coerce(b, d, q.type))
        t.active.add(q)
    t.run(copy.stms(e.lam.stms))
    results = [copy.atom(r) for r in e.lam.result]
    return results, [t.dense(r) for r in results]
