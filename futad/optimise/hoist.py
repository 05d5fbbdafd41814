"""Moving statements between scopes: invariant ones out of loops and maps, single-branch ones into branches.

Out of what may run no time at all only goes what cannot fail (an index is proved in range again outside);
where the trip count is known to be positive, checked indexing and divisions go as well.  Assertions and
whatever consumes an array stay.  Out of branches go only the integer operations that compute sizes.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.alias import Aliases, aliases, consumed_roots
from futad.core.ir import Fun, Lambda, Program, Stm
from futad.core.operator import divisor, may_fail
from futad.core.scalarops import OPS
from futad.core.types import I64, ONE, ZERO, AccType, Var, shape_of
from futad.legality import Legality
from futad.rewrite.dce import effects
from futad.rewrite.ranges import Ranges, index_in_range, is_index
from futad.rewrite.strategy import Stats, with_lambdas

LEGAL = Legality("hoist", "invariant statements leave loops and maps; what one branch alone needs moves into it")
INVARIANT = LEGAL.condition("invariant", "outside there is no value yet of what it depends on")
RUNS = LEGAL.condition("runs at least once", "a failure would be reported of iterations that are none")
CHECKS_ITSELF = LEGAL.condition("checks itself", "an assertion that stays inside is what guards it")
FIRST_TO_FAIL = LEGAL.condition("no assertion before", "it fails in place of the assertion before it")
AS_MANY = LEGAL.condition("as many elements", "what has another shape is there before the check of the sizes")
MADE_ANEW = LEGAL.condition("not overwritten", "each iteration overwrites an array that is to be new in each")
USED_ONCE = LEGAL.condition("sunk used there only", "other statements use what only a branch makes then")
ONE_BRANCH = LEGAL.condition("sunk used by one branch", "the other branch uses it too")
SUNK_PURE = LEGAL.condition("sunk has no effects", "its assertions and updates would happen on one side only")
SUNK_FAILS_NOT = LEGAL.condition("sunk fails not", "a failure would be reported on one side only")
SUNK_UNCONSUMED = LEGAL.condition("sunk inputs unconsumed", "what it reads is overwritten before its new place")

_SINK_COST = 4  # scalar operations below this are not worth moving into a branch


class _Hoister:
    def __init__(self, alias: Aliases, stats: Stats | None) -> None:
        self.alias = alias
        self.stats = stats
        self.defs: dict[Var, ir.Exp] = {}
        self.ranges = Ranges(self.defs)

    def count(self, what: str, n: int = 1) -> None:
        if n:
            LEGAL.fired()
        if self.stats is not None:
            self.stats.count(what, n)

    # -- scopes

    def lam(self, lam: Lambda) -> Lambda:
        """The scope with what leaves nested scopes in it; the same object if nothing moved."""
        self.declare(lam.params)
        stms = self.sink(lam)
        out: list[Stm] = []
        for stm in stms:
            self.declare(stm.pat)
            if len(stm.pat) == 1:
                self.defs[stm.pat[0]] = stm.exp
            if stm.exp.lambdas():
                stm, before = self.nested(stm)
                out += before
            elif type(stm.exp) is ir.Assert:
                self.ranges.assume(stm.exp.cond, True)
            out.append(stm)
        same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
        return lam if same else Lambda(lam.params, tuple(out), lam.result)

    def declare(self, variables: tuple[Var, ...]) -> None:
        for v in variables:
            for s in shape_of(v.type):
                if type(s) is Var:
                    self.ranges.size(s)

    def nested(self, stm: Stm) -> tuple[Stm, list[Stm]]:
        """The statement with its scopes rewritten, and the statements that leave them."""
        e = stm.exp
        before: list[Stm] = []
        new: list[Lambda] = []
        changed = False
        for k, lam in enumerate(e.lambdas()):
            mark = self.ranges.mark()
            self.facts(e, k, lam)
            inner = self.lam(lam)
            self.ranges.release(mark)
            inner, taken = self.extract(e, inner)
            before += taken
            new.append(inner)
            changed = changed or inner is not lam
        if not changed:
            return stm, []
        self.count("hoist", len(before))
        return Stm(stm.pat, with_lambdas(e, new), stm.attrs), before

    def facts(self, e: ir.Exp, k: int, lam: Lambda) -> None:
        ranges = self.ranges
        match e:
            case ir.If():
                ranges.assume(e.cond, k == 0)
            case ir.For():
                ranges.index(lam.params[0], e.bound)
            case ir.Mapping():
                ranges.positive(e.width)
                if lam is e.lam:
                    for a, p in zip(e.arrays, lam.params, strict=True):
                        if isinstance(a, Var) and is_index(self.defs.get(a)):
                            ranges.index(p, e.width)

    def runs(self, e: ir.Exp) -> bool:
        """Whether the scopes of the construct certainly run at least once."""
        match e:
            case ir.For():
                return self.ranges.less(ZERO, e.bound) if e.bound.type is I64 else False
            case ir.Screma():
                return self.ranges.less(ZERO, e.width)
        return False

    def once(self, e: ir.Exp) -> bool:
        """Whether it is a loop of at most one iteration: nothing is gained before it, and lost if it takes none."""
        return type(e) is ir.For and self.ranges.at_most(e.bound, ONE)

    def extract(self, e: ir.Exp, lam: Lambda) -> tuple[Lambda, list[Stm]]:
        """The scope without the statements that may leave it, and those."""
        if isinstance(e, ir.WithAcc | ir.Derivative | ir.Par):
            return lam, []
        branch = type(e) is ir.If or self.once(e)
        bound: set[Var] = set(lam.params)
        stay: list[Stm] = []
        out: list[Stm] = []
        runs: bool | None = None
        for stm in lam.stms:
            if INVARIANT(not any(v in bound for v in ir.stm_free(stm))):
                if branch:
                    x = stm.exp
                    ok = type(x) is ir.Op and stm.pat[0].type is I64 and cheap(x) and self.total(x)
                else:
                    ok = self.pure(stm)
                    if ok and not self.safe(stm.exp):
                        runs = self.runs(e) if runs is None else runs
                        ok = RUNS(runs) and CHECKS_ITSELF(self.failing(stm.exp)) and FIRST_TO_FAIL(not effects(stay))
                if ok:
                    out.append(stm)
                    continue
            bound.update(stm.pat)
            stay.append(stm)
        if not out:
            return lam, []
        return Lambda(lam.params, tuple(stay), lam.result), out

    # -- what may move

    def pure(self, stm: Stm) -> bool:
        """Consumes nothing, asserts nothing, and binds and reads nothing that is ever overwritten."""
        mutable = self.alias.mutable
        if any(isinstance(v.type, AccType) for v in (*stm.pat, *ir.stm_free(stm))):
            return False
        if not MADE_ANEW(not any(mutable(v) for v in stm.pat)):
            return False
        return not any(mutable(v) for v in ir.stm_free(stm)) and not _impure(stm.exp)

    def total(self, e: ir.Op) -> bool:
        """Whether a scalar operation cannot fail."""
        d = divisor(e)
        return d is None or not may_fail(e) or d.type is I64 and self.ranges.less(ZERO, d)

    def safe(self, e: ir.Exp) -> bool:
        """Whether the expression cannot fail under the present facts alone."""
        match e:
            case ir.Op():
                return self.total(e)
            case ir.At():
                return index_in_range(self.ranges, shape_of(e.array.type), e.index)
            case ir.Iota():
                return self.ranges.nonneg(e.count)
            case ir.Replicate() | ir.Scratch():
                return all(self.ranges.nonneg(s) for s in e.shape)
            case ir.Reshape():
                return AS_MANY(self.ranges.as_many(shape_of(e.array.type), e.shape))
        if e.fails:
            return False
        for k, lam in enumerate(e.lambdas()):
            mark = self.ranges.mark()
            self.facts(e, k, lam)
            ok = self.safe_scope(lam)
            self.ranges.release(mark)
            if not ok:
                return False
        return True

    def safe_scope(self, lam: Lambda) -> bool:
        self.declare(lam.params)
        for s in lam.stms:
            self.declare(s.pat)
            if len(s.pat) == 1:
                self.defs[s.pat[0]] = s.exp
            if not self.safe(s.exp):
                return False
        return True

    def failing(self, e: ir.Exp) -> bool:
        """Whether the expression checks for itself what it could do wrong (so that it may move above an
        assertion): a checked index or a division."""
        return type(e) is ir.Op or type(e) is ir.At and e.check is not None

    # -- into branches

    def sink(self, lam: Lambda) -> tuple[Stm, ...]:
        """The statements with each that one branch alone needs moved into that branch."""
        stms = lam.stms
        if not any(type(s.exp) is ir.If for s in stms):
            return stms
        uses: dict[Var, int] = {a: 1 for a in lam.result if type(a) is Var}
        user: dict[Var, int] = {}
        out: list[Stm | None] = list(stms)
        consumed: dict[int, set[Var]] = {}
        for k in range(len(stms) - 1, -1, -1):
            stm = out[k]
            assert stm is not None
            target = self.branch_of(stm, uses, user, out)
            if target is not None and self.may_sink(stm, out[k + 1 : target[0]], consumed):
                at, which = target
                old = out[at]
                assert old is not None and type(old.exp) is ir.If
                e = old.exp
                inner = e.then if which == 0 else e.orelse
                grown = Lambda((), (stm, *inner.stms), inner.result)
                if_ = ir.If(e.cond, grown, e.orelse) if which == 0 else ir.If(e.cond, e.then, grown)
                out[at] = Stm(old.pat, if_, old.attrs)
                out[k] = None
                k = at
                self.count("sink")
            for v in ir.stm_free(stm):
                uses[v] = uses.get(v, 0) + (0 if user.get(v) == k else 1)
                user[v] = k
        return tuple([s for s in out if s is not None])

    def branch_of(
        self, stm: Stm, uses: dict[Var, int], user: dict[Var, int], out: list[Stm | None]
    ) -> tuple[int, int] | None:
        """(position of the `If`, 0 or 1) if one of its branches is the only user of what `stm` binds."""
        found: tuple[int, int] | None = None
        for v in stm.pat:
            n = uses.get(v, 0)
            if n == 0:
                continue
            if v not in user or not USED_ONCE(n == 1):
                return None
            at = user[v]
            host = out[at]
            assert host is not None
            if type(host.exp) is not ir.If or v is host.exp.cond:
                return None
            sides = [v in host.exp.then.free(), v in host.exp.orelse.free()]
            if (
                not any(sides)
                or not ONE_BRANCH(not all(sides))
                or not (not any(v in shape_of(w.type) for w in host.pat))
            ):
                return None
            where = (at, sides.index(True))
            if found is not None and found != where:
                return None
            found = where
        return found

    def may_sink(self, stm: Stm, between: list[Stm | None], consumed: dict[int, set[Var]]) -> bool:
        e = stm.exp
        if type(e) is ir.Op:
            if OPS[e.op].cost < _SINK_COST or not self.total(e):
                return False
        elif isinstance(e, ir.Loop) or not (e.lambdas() or type(e) in (ir.MatMul, ir.Contraction, ir.ArgSort)):
            return False
        if any(isinstance(v.type, AccType) for v in ir.stm_free(stm)):
            return False
        if not SUNK_PURE(not _impure(e)) or not SUNK_FAILS_NOT(not _fails(e)):
            return False
        alias = self.alias
        if any(alias.mutable(v) for v in stm.pat):
            return False
        reads = {alias.root(v) for v in ir.stm_free(stm) if alias.mutable(v)}
        if not reads:
            return True
        return SUNK_UNCONSUMED(all(reads.isdisjoint(consumed_roots(s.exp, alias)) for s in between if s is not None))


class _LoopHoister(_Hoister):
    """Moves only out of loops, and only what costs something, with what that needs."""

    def sink(self, lam: Lambda) -> tuple[Stm, ...]:
        return lam.stms

    def extract(self, e: ir.Exp, lam: Lambda) -> tuple[Lambda, list[Stm]]:
        if not isinstance(e, ir.Loop):
            return lam, []
        rest, taken = super().extract(e, lam)
        needed: set[Var] = set()
        out: list[Stm] = []
        back: list[Stm] = []
        for stm in reversed(taken):
            if _costs(stm.exp) or any(v in needed for v in stm.pat):
                out.append(stm)
                needed.update(ir.stm_free(stm))
            else:
                back.append(stm)
        if not out:
            return lam, []
        return Lambda(rest.params, (*back[::-1], *rest.stms), rest.result), out[::-1]


def _costs(e: ir.Exp) -> bool:
    """Whether computing it again is dearer than keeping it."""
    if type(e) is ir.Op:
        return OPS[e.op].cost >= _SINK_COST
    if isinstance(e, ir.Reduce | ir.Scan | ir.Hist | ir.ArgSort | ir.MatMul | ir.Contraction | ir.Loop):
        return True
    return any(_costs(s.exp) for lam in e.lambdas() for s in lam.stms)


def hoist_from_loops(lam: Lambda) -> Lambda:
    """The function with the dearer loop-invariant statements out of its loops: then neither sweep of its derivative
    repeats them, nor what their own derivatives need."""
    return _LoopHoister(aliases(lam, lam.result + lam.params), None).lam(lam)


def cheap(e: ir.Op) -> bool:
    return OPS[e.op].cost <= 1


def _impure(e: ir.Exp) -> bool:
    """Whether it asserts, calls, or consumes anything (arrays made inside a nested scope included)."""
    return not e.pure or any(not s.exp.pure for lam in e.lambdas() for s in ir.statements(lam.stms))


def _fails(e: ir.Exp) -> bool:
    """Whether it contains a check that might fail."""
    if type(e) is ir.At and e.check is not None or type(e) is ir.While:
        return True
    if type(e) is ir.Op:
        return may_fail(e)
    return any(_fails(s.exp) for lam in e.lambdas() for s in lam.stms)


def hoist_fun(fun: Fun, stats: Stats | None = None) -> Fun:
    """One function with statements moved; the same object if none was."""
    h = _Hoister(aliases(fun.body, fun.body.result + fun.body.params), stats)
    h.ranges.sizes.update(fun.body.params[: fun.num_sizes])
    body = h.lam(fun.body)
    if body is fun.body:
        return fun
    return Fun(fun.name, body, fun.num_sizes, fun.ret, fun.entry, fun.attrs, fun.span)


def hoist(program: Program, stats: Stats | None = None) -> Program:
    """The program with loop-invariant statements hoisted and single-branch ones sunk."""
    funs = {n: hoist_fun(f, stats) for n, f in program.funs.items()}
    if all(funs[n] is f for n, f in program.funs.items()):
        return program
    return Program(funs, program.name)


__all__ = ["hoist", "hoist_from_loops", "hoist_fun"]
