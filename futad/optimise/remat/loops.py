"""A loop that the return sweep runs again, for what it saves on the way, saves that in the forward sweep.

    loop x for i < n do hs[i] = x; .. (loop x for k < m do f x)
    loop .. for j < n do let i = n-1-j; x = hs[i]
                         loop (x, es) for k < m do es[k] = e x; f x       a loop, and what it saves for its return sweep
      -->
    loop .. for i < n do hs[i] = x; .. (loop (x, es) for k < m do es[i,k] = e x; f x)
    loop .. for j < n do let i = n-1-j; ... es[i] ...

Where it saves nothing on the way, the forward sweep's loop stays as it is, and its results are saved.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from futad.core import ir
from futad.core.alias import consumed_roots
from futad.core.ir import Lambda, Stm
from futad.core.sweeps import forward_of
from futad.core.types import ArrayType, Atom, Var, shape_of
from futad.optimise.remat.costs import known, operations
from futad.optimise.remat.legal import (
    EACH_ROW,
    FAILS_NOT,
    KNOWN,
    OWN_OVERWRITTEN,
    SAME,
    SAME_BITS,
    SAVES_ALONE,
    SAVING,
    THERE,
)
from futad.optimise.remat.policy import Policy
from futad.optimise.remat.sweeps import Sweeps, as_i64


@dataclass(slots=True, eq=False)
class _Match:
    """A loop of the forward sweep's iterations, by its place, and the return sweep's that runs it again: for each
    variable of the first that of the second (None: the second has no use for it), and the variables of the second that
    save."""

    forward: int
    back: int
    same: list[int | None]
    saving: list[int] = field(default_factory=list)


def loops(pair: Sweeps, policy: Policy) -> bool:
    """A loop that the return sweep runs again, for what it saves on the way."""
    if not pair.rows or not policy.more_kinds:
        return False
    inner = [k for k, s in enumerate(pair.r.body.stms) if type(s.exp) is ir.For]
    matches = [m for k in inner if (m := _match(pair, k)) is not None]
    # The last one first: if its results are saved, nobody may need those of the others.
    return any(_loop_pays(pair, m, policy) and _save_loop(pair, m) for m in reversed(matches))


def _match(pair: Sweeps, back: int) -> _Match | None:
    """The forward sweep's loop that a loop of the return sweep runs again."""
    second = pair.r.body.stms[back]
    assert type(second.exp) is ir.For
    for k, s in enumerate(pair.f.body.stms):
        first = s.exp
        if type(first) is not ir.For or forward_of(s) != forward_of(second) or first.bound != second.exp.bound:
            continue
        m = _same(pair, _Match(k, back, []), first, second.exp)
        if m is not None and (not m.saving or FAILS_NOT(not _checks(first.body))):
            for v, q in zip(s.pat, m.same, strict=True):
                if q is not None:
                    pair.back.of[second.pat[q]] = pair.forward.atom(v)
            return m
    return None


def _same(pair: Sweeps, m: _Match, first: ir.For, second: ir.For) -> _Match | None:
    """Whether a loop computes what another does; the variables that the second has besides must be for saving."""
    one, two = pair.forward.inner(), pair.back.inner()
    one.of[first.body.params[0]] = two.of[second.body.params[0]] = one.number("counter")
    params, others = first.body.params[1:], second.body.params[1:]
    left = list(range(len(others)))
    begin, again = [one.atom(a) for a in first.inits], [two.atom(a) for a in second.inits]
    m.same = [None] * len(params)
    for named in (True, False):  # several may begin with one value: those of one name are rather the same
        for j, p in enumerate(params):
            like = [q for q in left if again[q] == begin[j] and (not named or others[q].name == p.name)]
            if m.same[j] is None and like:
                m.same[j] = like[0]
                left.remove(like[0])
    for j, (p, at) in enumerate(zip(params, m.same, strict=True)):
        one.of[p] = one.number("carried", j)
        if at is not None:
            two.of[others[at]] = one.of[p]
    for s in first.body.stms:
        one.note(s)
    for s in second.body.stms:
        two.note(s)
    pairs = [(a, second.body.result[q]) for a, q in zip(first.body.result, m.same, strict=True) if q is not None]
    if not pairs or not SAME(all(one.atom(a) == two.atom(b) for a, b in pairs)):
        return None
    m.saving = left
    return m if SAVING(all(_saves(pair, second, q) for q in left)) else None


def _saves(pair: Sweeps, loop: ir.For, q: int) -> bool:
    """Whether all that a loop does with the variable is to save a row in each iteration."""
    p, counters = loop.body.params[q + 1], as_i64(loop.body, loop.body.params[:1])
    users = [s for s in loop.body.stms if p in ir.stm_free(s)]
    if len(users) != 1 or p in loop.body.result:
        return False
    (s,) = users
    e = s.exp
    if type(e) is not ir.Update or e.array is not p or [*e.index] not in [[c] for c in counters] or e.check:
        return False
    read = any(s.pat[0] in ir.stm_free(x) for x in loop.body.stms)
    # What the forward sweep saves in starts as scratch.
    scratch = {s.pat[0] for s in pair.r.body.stms if type(s.exp) is ir.Scratch}
    if not EACH_ROW(loop.inits[q] in scratch or shape_of(p.type)[0] is loop.bound):
        return False
    return loop.body.result[q] is s.pat[0] and SAVES_ALONE(not read)


def _wanted(pair: Sweeps, m: _Match) -> list[int]:
    """The results of the loop that the return sweep's other statements use."""
    used = {v for k, x in enumerate(pair.r.body.stms) if k != m.back for v in ir.stm_free(x)}
    used.update(a for a in pair.r.body.result if type(a) is Var)
    return [q for q, v in enumerate(pair.r.body.stms[m.back].pat) if v in used]


def _loop_pays(pair: Sweeps, m: _Match, policy: Policy) -> bool:
    s = pair.r.body.stms[m.back]
    found, rows = [s.pat[q].type for q in _wanted(pair, m)], [row.unknown_sizes for row in pair.rows]
    types = [t for t in found if isinstance(t, ArrayType) and any(t.unknown_sizes <= row for row in rows)]
    if types != found:
        return False
    assert type(s.exp) is ir.For
    saved = sum(t.known_size for t in types)
    cost = known(s.exp.bound) * operations(s.exp.body)
    return policy.saves(cost // max(saved, 1), saved, max(t.known_size for t in pair.rows))


def _save_results(pair: Sweeps, m: _Match) -> bool:
    """Let the forward sweep save results of its loop, where the return sweep's has no others."""
    old, again, wanted = pair.f.body.stms[m.forward], pair.r.body.stms[m.back], _wanted(pair, m)
    if not SAME_BITS(not any(pair.compared.origins_differ(again.pat[q]) for q in wanted)):
        return False
    reads = [pair.read(again.pat[q], pair.save(m.forward, old.pat[m.same.index(q)]), m.back) for q in wanted]
    pair.stms[1][m.back] = [s for read in reads for s in read]
    return True


def _save_loop(pair: Sweeps, m: _Match) -> bool:
    """Let the forward sweep's loop be that of the return sweep, saving straight to where it is kept."""
    if not m.saving:
        return _save_results(pair, m)
    old, again = pair.f.body.stms[m.forward], pair.r.body.stms[m.back]
    first, second = old.exp, again.exp
    assert type(first) is ir.For and type(second) is ir.For
    names = _names(pair, m)
    known = {v: names[n] for v, n in pair.back.of.items() if n in names and v in pair.own[1]}
    body = _without_histories(pair, second.body, names)
    free = {v for v in body.free() if v in pair.own[1]}
    if not KNOWN(free <= known.keys()):
        return False
    # An array that is overwritten is still there if the forward sweep's own loop reads it.
    read = first.body.free()
    arrays = {known[v] for v in free if v in known} | {v for v in body.free() if v not in second.body.free()}
    if not THERE(not any(pair.alias.mutable(a) and a not in read for a in arrays)):
        return False
    rest = _besides(pair, m, first)
    if rest is None:
        return False
    wanted = _wanted(pair, m)
    if not SAME_BITS(not any(pair.compared.origins_differ(again.pat[q]) for q in wanted)):
        return False
    final: dict[int, Var] = {}
    for q in wanted:
        if q in m.saving:
            pair.room_for(again.pat[q].type)
        else:
            pair.save(m.forward, old.pat[m.same.index(q)])
        final[q] = pair.kept[-1][3]
    filled = {q: next(k for k in pair.kept if k[3] is final[q]) for q in wanted if q in m.saving}
    copy = ir.rename(body, dict[Var, Atom](known))
    pairs = zip(first.body.params[1:], m.same, strict=True)
    params = [Var(p.name, p.type) if q is None else copy.params[q + 1] for p, q in pairs]
    own = ir.Renamer(dict(zip(first.body.params, (copy.params[0], *params), strict=True)))
    besides = own.stms(rest)
    ends = zip(first.body.result, m.same, strict=True)
    results = [own.atom(a) if q is None else copy.result[q] for a, q in ends]
    params += [Var("saved", now.type) for _, now, _, _ in filled.values()]
    stms = list(copy.stms)
    for q, p in zip(filled, params[len(m.same) :], strict=True):
        at = next(k for k, s in enumerate(stms) if s.pat and s.pat[0] is copy.result[q])
        e = stms[at].exp
        assert type(e) is ir.Update
        new = Var("saved", p.type)
        stms[at] = Stm((new,), ir.Update(p, (pair.at, *e.index), e.value, None))
        results.append(new)
    gone = {copy.params[q + 1] for q in m.saving if q not in filled}
    # What is besides overwrites nothing of the others, which may overwrite what it reads.
    stms = besides + [s for s in stms if not gone & ir.stm_free(s).keys()]
    inits = (*first.inits, *[now for _, now, _, _ in filled.values()])
    pat = (*old.pat, *[then for _, _, then, _ in filled.values()])
    body = Lambda((copy.params[0], *params), tuple(stms), tuple(results))
    pair.stms[0][m.forward][0] = Stm(pat, ir.For(first.bound, inits, body), old.attrs)
    pair.stms[1][m.back] = [s for q in wanted for s in pair.read(again.pat[q], final[q], m.back)]
    return True


def _besides(pair: Sweeps, m: _Match, first: ir.For) -> list[Stm] | None:
    """What the forward sweep's loop does for variables of which the return sweep's has none; None if that
    overwrites others."""
    own = [k for k, q in enumerate(m.same) if q is None]
    needed = {a for k in own if type(a := first.body.result[k]) is Var}
    stms: list[Stm] = []
    for s in reversed(first.body.stms):
        if not needed.isdisjoint(s.pat):
            stms.append(s)
            needed.update(ir.stm_free(s))
    root, params = pair.alias.root, first.body.params[1:]
    mine = {root(params[k]) for k in own} | {root(v) for s in stms for v in s.pat}
    mine -= {root(p) for p, q in zip(params, m.same, strict=True) if q is not None}
    overwritten = {r for s in stms for r in consumed_roots(s.exp, pair.alias)}
    return stms[::-1] if OWN_OVERWRITTEN(overwritten <= mine) else None


def _names(pair: Sweeps, m: _Match) -> dict[int, Var]:
    """The variables of the forward sweep's iteration, by value numbers, as far as they are there before the
    loop."""
    names: dict[int, Var] = {pair.forward.atom(p): p for p in pair.f.body.params}
    for s in pair.f.body.stms[: m.forward]:
        for v in s.pat:
            if v in pair.forward.of:
                names.setdefault(pair.forward.of[v], v)
    return names


def _without_histories(pair: Sweeps, lam: Lambda, names: dict[int, Var]) -> Lambda:
    """The scope with reads of what the forward sweep saved in this iteration, which it has saved only when its loop
    is done, as reads of the values it saves."""

    def read(s: Stm) -> Stm:
        e = s.exp
        if type(e) is not ir.At or e.array not in pair.back.saved:
            return ir.map_scopes(s, scope)
        value = names.get(pair.back.saved[e.array])
        if value is None or pair.back.atom(e.index[0]) != pair.back.iteration:
            return s
        rest = e.index[1:]
        return Stm(s.pat, ir.At(value, rest, e.check) if rest else ir.Alias(value), s.attrs)

    def scope(inner: Lambda) -> Lambda:
        return Lambda(inner.params, tuple([read(s) for s in inner.stms]), inner.result)

    return scope(lam)


def _checks(lam: Lambda) -> bool:
    """Whether anything in the scope may fail or is seen from outside."""
    for s in lam.stms:
        e = s.exp
        if e.effect or getattr(e, "check", None) is not None:
            return True
        if any(_checks(inner) for inner in e.lambdas()):
            return True
    return False


__all__ = ["loops"]
