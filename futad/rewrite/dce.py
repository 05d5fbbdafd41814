"""Dead code, one backward walk: unused statements, results, loop variables and lambda parameters go.

Assertions and what prints stay, and so does what contains one (its results may go).  An indexing or division that
would have failed goes with its result, as in Futhark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import AccType, Prim, Var
from futad.legality import Legality

LEGAL = Legality("dead-code", "what nothing needs is not computed", fires=False)
NO_EFFECT = LEGAL.condition("no effect", "assertions and what prints are there for themselves")
LOOP_NEEDS = LEGAL.condition("variable of no use to others", "another variable's next value needs it")
OPERATOR_NEEDS = LEGAL.condition("component of no use to others", "another component's fold needs it")

Live = set[Var]


class _DeadCode:
    def __init__(self, asserting: frozenset[str] | set[str], settled: object = ...) -> None:
        self.functions = asserting
        self.settled = settled
        self.live: Live = set()
        self.removed = 0
        self._asserts: dict[int, bool] = {}
        self._alive: list[Lambda] = []  # so that no id is used twice

    # -- marking

    def use(self, atoms: Any) -> None:
        live = self.live
        for a in atoms:
            if type(a) is Var:
                live.add(a)

    def use_types(self, variables: Any) -> None:
        for v in variables:
            if not isinstance(v.type, Prim):
                self.use(v.type.shape)

    def use_exp(self, e: ir.Exp) -> None:
        live = self.live
        for a in e.operands():
            if type(a) is Var:
                live.add(a)
        for t in e.types():
            if not isinstance(t, Prim):
                self.use(t.shape)

    def asserts(self, lam: Lambda) -> bool:
        """Whether the scope contains an assertion, or a call of a function that does."""
        if not any(c.effect or c is ir.Call for c in lam.inside()):
            return False
        got = self._asserts.get(id(lam))
        if got is None:
            got = any(self.stays(s.exp) for s in lam.stms)
            self._asserts[id(lam)] = got
            self._alive.append(lam)
        return got

    def stays(self, e: ir.Exp) -> bool:
        """Whether the expression is kept whatever becomes of its results."""
        if type(e) is ir.Assert and e.of:
            return False
        if e.effect or type(e) is ir.Call and e.name in self.functions:
            return True
        return e.scoped and any(map(self.asserts, e.lambdas()))

    # -- scopes

    def body(self, lam: Lambda) -> Lambda:
        """The scope without what its results (marked here) do not need; parameters stay."""
        live = self.live
        self.use(lam.result)
        out: list[Stm] = []
        changed = False
        for stm in reversed(lam.stms):
            e = stm.exp
            head = type(e)
            wanted = False
            for v in reversed(stm.pat):
                if v in live:
                    wanted = True
                    if type(v.type) is not Prim:
                        self.use(v.type.shape)
            handler = _SCOPES.get(head, _DeadCode.plain if head.scoped else None)
            if not wanted and NO_EFFECT(not self.stays(e)):
                self.removed += 1
                changed = True
                continue
            if handler is not None and stm.settled is self.settled and live.issuperset(stm.pat):
                live.update(ir.stm_free(stm))
                out.append(stm)
                continue
            if handler is not None:
                new = handler(self, stm, e)
                if new is not stm:
                    changed = True
                out.append(new)
                self.use_exp(new.exp)
                continue
            for a in e.operands():
                if type(a) is Var:
                    live.add(a)
            if head is ir.ArrayLit or len(stm.pat) > 1 or head is ir.Call:
                self.use_exp(e)
                self.use_types(stm.pat)
            out.append(stm)
        self.use_types(lam.params)
        if not changed:
            return lam
        out.reverse()
        return Lambda(lam.params, tuple(out), lam.result)

    def live_pat(self, pat: tuple[Var, ...]) -> list[int]:
        return [k for k, v in enumerate(pat) if v in self.live]

    def selected(self, lam: Lambda, keep: list[int]) -> Lambda:
        """The scope with only these results."""
        if len(keep) == len(lam.result):
            return lam
        self.removed += len(lam.result) - len(keep)
        return Lambda(lam.params, lam.stms, tuple([lam.result[k] for k in keep]))

    def branch(self, stm: Stm, e: ir.If) -> Stm:
        keep = self.live_pat(stm.pat)
        then, orelse = (self.body(self.selected(lam, keep)) for lam in (e.then, e.orelse))
        if then is e.then and orelse is e.orelse:
            return stm
        return Stm(tuple([stm.pat[k] for k in keep]), ir.If(e.cond, then, orelse), stm.attrs)

    def tasks(self, stm: Stm, e: ir.Par) -> Stm:
        keep = self.live_pat(stm.pat)
        k = len(e.first.result)
        first = self.body(self.selected(e.first, [j for j in keep if j < k]))
        second = self.body(self.selected(e.second, [j - k for j in keep if j >= k]))
        if first is e.first and second is e.second:
            return stm
        return Stm(tuple([stm.pat[j] for j in keep]), ir.Par(first, second), stm.attrs)

    def loop(self, stm: Stm, e: ir.Loop) -> Stm:
        """Drops the variables that neither the results nor (transitively) the live variables need."""
        skip = 1 if type(e) is ir.For else 0
        params = e.body.params[skip:]
        keep = set(self.live_pat(stm.pat))
        if not skip:
            keep.add(0)
        if not LOOP_NEEDS(len(keep) == len(params)):
            self.needed(e.body, list(params), [e.body.result], keep)
        order = sorted(keep)
        body = self.body(self.selected(e.body, order))
        if body is e.body:
            return stm
        body = Lambda(e.body.params[:skip] + tuple([params[k] for k in order]), body.stms, body.result)
        inits = tuple([e.inits[k] for k in order])
        return Stm(tuple([stm.pat[k] for k in order]), e.remade(inits, body), stm.attrs)

    def needed(self, lam: Lambda, params: list[Var], results: list[tuple[Any, ...]], keep: set[int]) -> None:
        """Grow `keep` to every position whose parameter a kept result needs."""
        deps = self.dependences(lam)
        seen: Live = set()
        position = {p: k for k, p in enumerate(params)}
        count = len(results[0])
        work = list(keep)
        for a in deps.get(None, ()):
            self._reach(a, deps, seen, position, count, keep, work)
        while work:
            k = work.pop()
            for a in (results[0][k], *([params[k]] if k < len(params) else [])):
                if type(a) is Var:
                    self._reach(a, deps, seen, position, count, keep, work)
                    if not isinstance(a.type, Prim):
                        for s in a.type.shape:
                            if type(s) is Var:
                                self._reach(s, deps, seen, position, count, keep, work)

    def _reach(self, v: Any, deps: Any, seen: Live, position: Any, count: int, keep: set[int], work: list[int]) -> None:
        stack = [v]
        while stack:
            x = stack.pop()
            if x in seen:
                continue
            seen.add(x)
            k = position.get(x)
            if k is not None and k % count not in keep:
                keep.add(k % count)
                work.append(k % count)
            stack.extend(deps.get(x, ()))

    def dependences(self, lam: Lambda) -> dict[Any, list[Var]]:
        """For each variable bound directly in the scope, the variables its statement needs; under None, those
        that statements which stay need."""
        deps: dict[Any, list[Var]] = {}
        for stm in lam.stms:
            free = list(ir.stm_free(stm))
            for v in stm.pat:
                deps[v] = free
            if self.stays(stm.exp):
                deps.setdefault(None, []).extend(free)
        return deps

    def mapped(self, stm: Stm, e: ir.Map) -> Stm:
        keep = self.live_pat(stm.pat)
        lam = self.body(self.selected(e.lam, keep))
        used = [k for k, p in enumerate(lam.params) if p in self.live or isinstance(p.type, AccType)]
        if lam is e.lam and len(used) == len(lam.params):
            return stm
        arrays, lam = self.pruned(e.arrays, lam, used)
        return Stm(tuple([stm.pat[k] for k in keep]), ir.Map(e.width, arrays, lam), stm.attrs)

    def pruned(self, arrays: ir.Atoms, lam: Lambda, used: list[int]) -> tuple[ir.Atoms, Lambda]:
        if len(used) == len(lam.params):
            return arrays, lam
        self.removed += len(lam.params) - len(used)
        return tuple([arrays[k] for k in used]), Lambda(tuple([lam.params[k] for k in used]), lam.stms, lam.result)

    def operator(self, lam: Lambda, keep: set[int]) -> Lambda | None:
        """An associative operator of 2k parameters restricted to the components `keep` needs (which it grows);
        None if it is already that."""
        k = len(lam.result)
        if not OPERATOR_NEEDS(len(keep) == k):
            self.needed(lam, list(lam.params), [lam.result], keep)
        order = sorted(keep)
        new = self.body(self.selected(lam, order))
        if new is lam:
            return None
        params = tuple([lam.params[j] for j in order] + [lam.params[k + j] for j in order])
        return Lambda(params, new.stms, new.result)

    def folded(self, stm: Stm, e: Any) -> Stm:
        """Reduce, Scan, Hist: components nothing needs go."""
        keep = set(self.live_pat(stm.pat))
        lam = self.operator(e.lam, keep)
        if lam is None:
            return stm
        order = sorted(keep)

        def pick(xs: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple([xs[k] for k in order])

        new: ir.Exp
        if type(e) is ir.Reduce:
            new = ir.Reduce(e.width, pick(e.arrays), lam, pick(e.neutral), e.comm)
        elif type(e) is ir.Scan:
            new = ir.Scan(e.width, pick(e.arrays), lam, pick(e.neutral))
        else:
            new = ir.Hist(e.width, pick(e.dests), e.idxs, pick(e.values), lam, pick(e.neutral))
        return Stm(pick(stm.pat), new, stm.attrs)

    def fused(self, stm: Stm, e: ir.Fused) -> Stm:
        live = set(self.live_pat(stm.pat))
        parts = e.parts(range(len(stm.pat)))
        keep = list(parts.accs)
        folds: list[ir.Fold] = []
        scans = 0
        for j, (f, part) in enumerate(zip(e.folds, parts.scans + parts.reduces, strict=True)):
            mine = {k for k, at in enumerate(part) if at in live}
            if mine:
                lam = self.operator(f.lam, mine)
                order = sorted(mine)
                folds.append(ir.Fold(lam, tuple([f.neutral[k] for k in order]), f.comm) if lam is not None else f)
                keep += [part[k] for k in order]
                scans += j < len(e.scans)
        keep += [k for k in parts.mapped if k in live]
        lam = self.body(self.selected(e.lam, keep))
        used = [k for k, p in enumerate(lam.params) if p in self.live or isinstance(p.type, AccType)]
        if lam is e.lam and len(used) == len(lam.params) and tuple(folds) == e.folds:
            return stm
        arrays, lam = self.pruned(e.arrays, lam, used)
        pat = tuple([stm.pat[k] for k in keep])
        if not folds:
            return Stm(pat, ir.Map(e.width, arrays, lam), stm.attrs)
        return Stm(pat, ir.Fused(e.width, arrays, lam, tuple(folds[:scans]), tuple(folds[scans:])), stm.attrs)

    def scattered(self, stm: Stm, e: ir.Scatter) -> Stm:
        keep = self.live_pat(stm.pat)
        if len(keep) == len(stm.pat):
            return stm
        self.removed += len(stm.pat) - len(keep)
        new = ir.Scatter(e.width, tuple([e.dests[k] for k in keep]), e.idxs, tuple([e.values[k] for k in keep]))
        return Stm(tuple([stm.pat[k] for k in keep]), new, stm.attrs)

    def with_acc(self, stm: Stm, e: ir.WithAcc) -> Stm:
        n = len(e.arrays)
        keep = list(range(n)) + [k for k in self.live_pat(stm.pat) if k >= n]
        lam = self.body(self.selected(e.lam, keep))
        if lam is e.lam:
            return stm
        return Stm(tuple([stm.pat[k] for k in keep]), ir.WithAcc(e.arrays, e.op, lam), stm.attrs)

    def plain(self, stm: Stm, e: ir.Exp) -> Stm:
        """A construct that needs all its results."""
        return ir.map_scopes(stm, self.body)


_SCOPES: dict[type, Any] = {
    ir.If: _DeadCode.branch,
    ir.Par: _DeadCode.tasks,
    ir.For: _DeadCode.loop,
    ir.While: _DeadCode.loop,
    ir.Map: _DeadCode.mapped,
    ir.Fused: _DeadCode.fused,
    ir.Reduce: _DeadCode.folded,
    ir.Scan: _DeadCode.folded,
    ir.Hist: _DeadCode.folded,
    ir.Scatter: _DeadCode.scattered,
    ir.WithAcc: _DeadCode.with_acc,
}


def asserting_functions(program: ir.Program) -> set[str]:
    """The functions that contain an assertion, or call one that does."""
    out: set[str] = set()
    while True:
        before = len(out)
        for name, f in program.funs.items():
            if name not in out and _DeadCode(out).asserts(f.body):
                out.add(name)
        if before == len(out) or len(out) == len(program.funs):
            return out


def asserts(lam: Lambda, asserting: frozenset[str] | set[str]) -> bool:
    """Whether a scope contains what stays where nobody needs it: an assertion, what prints, a call of `asserting`."""
    return _DeadCode(asserting).asserts(lam)


def effects(stms: Iterable[Stm]) -> bool:
    """Whether something among statements, or in their scopes, is to be done though nothing needs its results; a call
    may be that."""
    return any(c.effect or c is ir.Call for c in Lambda((), tuple(stms), ()).inside())


def dead_code(
    lam: Lambda, asserting: frozenset[str] | set[str] = frozenset(), settled: object = ...
) -> tuple[Lambda, int]:
    """A function's body without dead code, and how many statements, results and parameters went.

    Calls of the `asserting` functions stay.  Scopes of statements that are `settled` are free of it if all their
    results are needed.
    """
    d = _DeadCode(asserting, settled)
    return d.body(lam), d.removed


__all__ = ["asserting_functions", "asserts", "dead_code", "effects"]
