"""The rewriting of accumulator updates, innermost maps first.

    map (\\x -> acc[k] += f x) xs                -->   acc[k] += sum (map f xs)              k invariant
    map (\\x i -> acc[k, i] += f x) xs (iota n)  -->   acc[k] += map f xs                    n is the row's size
    withAcc ys (\\acc -> acc += vs)              -->   map2 (+) ys vs      (vs where ys are zeros)

The second form needs the contributions as an array, so it is used only where the accumulator then goes
altogether (the third form applies); otherwise updating in place is better.  A map may update an accumulator
once in a turn, unconditionally; what else it computes stays in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Fun, Lambda, Program, Stm
from futad.core.types import (
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Var,
    array_of,
    elem_of,
    shape_of,
    zero,
)
from futad.rewrite.ranges import is_index
from futad.rewrite.strategy import Stats, with_lambdas


@dataclass(slots=True)
class _Update:
    """The one update of accumulator argument `arg` (a position among the arrays), whose result is number `out`,
    in a map's body: statement `at`."""

    arg: int
    out: int
    at: int
    exp: ir.UpdateAcc


class _Accs:
    def __init__(self, stats: Stats | None, report: list[str] | None) -> None:
        self.stats = stats
        self.report = report
        self.roots: dict[Var, Var] = {}
        self.notes: dict[Var, list[tuple[str, str]]] = {}
        self.defs: dict[Var, ir.Exp] = {}

    def note(self, what: str, acc: Atom, why: str) -> None:
        if self.stats is not None:
            self.stats.count(what)
        if self.report is not None and type(acc) is Var:
            self.notes.setdefault(self.roots.get(acc, acc), []).append((what, why))

    def trace(self, lam: Lambda) -> None:
        """Note which accumulator each variable of such a type leads back to, and list them in order."""
        for stm in lam.stms:
            e = stm.exp
            match e:
                case ir.WithAcc():
                    for p in e.lam.params:
                        self.roots[p] = p
                        self.notes.setdefault(p, [])
                case ir.Map() | ir.Fused():
                    self.follow(e.lam.params, e.arrays)
                case ir.For():
                    self.follow(e.body.params[1:], e.inits)
                case ir.While():
                    self.follow(e.body.params, e.inits)
            for inner in e.lambdas():
                self.trace(inner)
            match e:
                case ir.UpdateAcc():
                    self.follow(stm.pat, (e.acc,))
                case ir.Map() | ir.Fused():
                    self.follow(stm.pat, e.lam.result)
                case ir.For() | ir.While():
                    self.follow(stm.pat, e.body.result)
                case ir.If():
                    self.follow(stm.pat, e.then.result)

    def follow(self, to: Sequence[Var], source: Sequence[Atom]) -> None:
        for v, a in zip(to, source, strict=False):
            if type(a) is Var and a in self.roots:
                self.roots[v] = self.roots[a]

    def explain(self) -> None:
        """Write the report: a line per accumulator."""
        assert self.report is not None
        for acc, notes in self.notes.items():
            kinds = [what for what, _ in notes]
            last = "acc_removed" if "acc_removed" in kinds else "acc_kept"
            reasons = list(dict.fromkeys(why for what, why in notes if what in (last, "acc_reduced")))
            self.report.append(f"{acc!r}: {'; '.join(reasons) or 'kept: updated outside of maps'}")

    # -- scopes

    def lam(self, lam: Lambda) -> Lambda:
        """The scope rewritten, inner scopes first; the same object if nothing applied."""
        out: list[Stm] = []
        for stm in lam.stms:
            lams = stm.exp.lambdas()
            if lams:
                new = [self.lam(inner) for inner in lams]
                if any(a is not b for a, b in zip(lams, new, strict=True)):
                    stm = Stm(stm.pat, with_lambdas(stm.exp, new), stm.attrs)
            if len(stm.pat) == 1:
                self.defs[stm.pat[0]] = stm.exp
            if type(stm.exp) is ir.Map:
                out += self.map(stm, stm.exp)
            elif type(stm.exp) is ir.WithAcc:
                out += self.with_acc(stm, stm.exp)
            else:
                out.append(stm)
        same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
        return lam if same else Lambda(lam.params, tuple(out), lam.result)

    # -- maps

    def update(self, e: ir.Map, arg: int, out: int) -> _Update | None:
        """The update of an accumulator argument, if the body has just one and that unconditionally."""
        acc = e.lam.params[arg]
        for at, s in enumerate(e.lam.stms):
            if type(s.exp) is ir.UpdateAcc and s.exp.acc is acc:
                return _Update(arg, out, at, s.exp) if e.lam.result[out] is s.pat[0] else None
        return None

    def map(self, stm: Stm, e: ir.Map) -> list[Stm]:
        """A map with each accumulator updated at an invariant scalar place reduced instead."""
        bound = {v for s in e.lam.stms for v in s.pat} | set(e.lam.params)
        found = []
        for out, k in enumerate(_acc_arguments(e)):
            u = self.update(e, k, out)
            if u is None:
                self.note("acc_kept", e.arrays[k], "kept: not one unconditional update in each turn of the map")
            elif any(i in bound for i in u.exp.index):
                self.note("acc_kept", e.arrays[k], "kept: the place varies with the map")
            elif not isinstance(u.exp.value.type, Prim):
                self.note("acc_kept", e.arrays[k], "kept: a row is added, in place")
            else:
                found.append(u)
        if not found:
            return [stm]
        b = Builder()
        rest, values = self.without(stm, e, found)
        b.add(rest)
        for u, vs in zip(found, values, strict=True):
            elem = elem_of(vs.type)
            op = "or" if elem.is_bool else "add"
            lam = b.lambda_([("x", elem), ("y", elem)], lambda inner, x, y, op=op: [inner.op(op, x, y)])
            (total,) = b.emit(ir.Reduce(e.width, (vs,), lam, (zero(elem),), True), "total")
            b.add(Stm((stm.pat[u.out],), ir.UpdateAcc(e.arrays[u.arg], u.exp.index, total)))
            self.note("acc_reduced", e.arrays[u.arg], "reduced: the place does not vary with the map")
        return b.stms

    def without(self, stm: Stm, e: ir.Map, found: list[_Update]) -> tuple[Stm, list[Var]]:
        """The map without those accumulators, and its new results: the arrays of what was added to them."""
        gone = {u.arg for u in found}
        lost = {u.out for u in found}
        drop = {u.at for u in found}
        keep = [k for k in range(len(e.arrays)) if k not in gone]
        stms = [s for i, s in enumerate(e.lam.stms) if i not in drop]
        results = [r for k, r in enumerate(e.lam.result) if k not in lost]
        pat = [v for k, v in enumerate(stm.pat) if k not in lost]
        values = [Var("part", array_of(u.exp.value.type, e.width)) for u in found]
        lam = Lambda(
            tuple([e.lam.params[k] for k in keep]),
            tuple(stms),
            tuple(results + [u.exp.value for u in found]),
        )
        arrays = tuple([e.arrays[k] for k in keep])
        return Stm(tuple(pat + values), ir.Map(e.width, arrays, lam), stm.attrs), values

    # -- accumulators that go altogether

    def with_acc(self, stm: Stm, e: ir.WithAcc) -> list[Stm]:
        """An accumulator that gets one whole array of contributions, or one from a map in the order of its index,
        becomes that array plus the old one."""
        for k in range(len(e.arrays)):
            new = self.whole(stm, e, k) or self.consecutive(stm, e, k)
            if new is not None:
                return new
        return [stm]

    def whole(self, stm: Stm, e: ir.WithAcc, k: int) -> list[Stm] | None:
        acc = e.lam.params[k]
        for at, s in enumerate(e.lam.stms):
            x = s.exp
            if type(x) is ir.UpdateAcc and x.acc is acc and not x.index and e.lam.result[k] is s.pat[0]:
                stms = e.lam.stms[:at] + e.lam.stms[at + 1 :]
                return self.added(stm, e, k, stms, x.value)
        return None

    def consecutive(self, stm: Stm, e: ir.WithAcc, k: int) -> list[Stm] | None:
        acc = e.lam.params[k]
        for at, s in enumerate(e.lam.stms):
            x = s.exp
            if type(x) is not ir.Map or acc not in x.arrays:
                continue
            arg = x.arrays.index(acc)
            out = _acc_arguments(x).index(arg)
            if e.lam.result[k] is not s.pat[out]:
                return None
            u = self.update(x, arg, out)
            if u is None or shape_of(acc.type)[0] is not x.width or len(u.exp.index) != 1:
                return None
            (i,) = u.exp.index
            if i not in x.lam.params:
                return None
            source = x.arrays[x.lam.params.index(i)]  # type: ignore[arg-type]
            if type(source) is not Var or not is_index(self.defs.get(source)):
                return None
            if array_of(u.exp.value.type, x.width) != ArrayType(elem_of(acc.type), shape_of(acc.type)):
                return None
            rest, (vs,) = self.without(s, x, [u])
            return self.added(stm, e, k, (*e.lam.stms[:at], rest, *e.lam.stms[at + 1 :]), vs)
        return None

    def added(self, stm: Stm, e: ir.WithAcc, k: int, stms: tuple[Stm, ...], vs: Atom) -> list[Stm]:
        """`stm` with body `stms`, which no longer uses accumulator k: its array is the old one plus `vs`."""
        n = len(e.arrays)
        acc = e.lam.params[k]
        keep = [j for j in range(n) if j != k]
        b = Builder()
        inside = {v for s in stms for v in s.pat}
        extra = list(e.lam.result[n:])
        pat = [stm.pat[j] for j in keep] + list(stm.pat[n:])
        contribution: Atom = vs
        if vs in inside and keep:
            contribution = Var("part", vs.type)
            extra.append(vs)
            pat.append(contribution)
        if keep:
            lam = Lambda(
                tuple([e.lam.params[j] for j in keep]),
                stms,
                tuple([e.lam.result[j] for j in keep] + extra),
            )
            b.add(Stm(tuple(pat), ir.WithAcc(tuple([e.arrays[j] for j in keep]), e.op, lam), stm.attrs))
        else:
            b.extend(stms)
            b.extend(Stm((v,), ir.Alias(a)) for v, a in zip(pat, extra, strict=True))
        old = e.arrays[k]
        if self.zeros(old):
            final: ir.Exp = ir.Copy(contribution)
        else:
            inner = Builder()
            total = inner.plus(old, contribution)
            last = inner.stms.pop()
            b.extend(inner.stms)
            assert last.pat == (total,)
            final = last.exp
        tail = Stm((stm.pat[k],), final)
        self.note("acc_removed", acc, "removed: the contributions come in the order of the array")
        (first, *more) = b.stms
        if type(first.exp) is ir.WithAcc and keep:
            return [*self.with_acc(first, first.exp), *more, tail]
        return [*b.stms, tail]

    def zeros(self, a: Atom) -> bool:
        d = self.defs.get(a) if type(a) is Var else None
        while type(d) is ir.Replicate:
            if type(d.value) is Const:
                return d.value is zero(d.value.type)
            d = self.defs.get(d.value) if type(d.value) is Var else None
        return False


def _acc_arguments(e: ir.Map) -> list[int]:
    """The positions of the accumulators among the arrays; the map returns them first, in this order."""
    return [k for k, a in enumerate(e.arrays) if type(a.type) is AccType]


def accs(program: Program, stats: Stats | None = None, report: list[str] | None = None) -> Program:
    """The program with accumulators removed where their places are known; `report` gets a line for each."""
    funs: dict[str, Fun] = {}
    for name, f in program.funs.items():
        a = _Accs(stats, report)
        if report is not None:
            a.trace(f.body)
        body = a.lam(f.body)
        if report is not None:
            a.explain()
        same = body is f.body
        funs[name] = f if same else Fun(f.name, body, f.num_sizes, f.ret, f.entry, f.attrs, f.span)
    if all(funs[n] is f for n, f in program.funs.items()):
        return program
    return Program(funs, program.name)


__all__ = ["accs"]
