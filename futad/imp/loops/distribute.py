"""Maps that sum and then compute dear functions of the sums: each by itself, for some iterations at a time.

    for i: { s = 0; for j: s += a[i, j] * x[j]; y[i] = tanh(s); for j: z[j] += y[i] * a[i, j] }
  becomes, for some i at a time,
    { for i: { s = 0; for j: s += a[i, j] * x[j]; ss[i] = s }
      for i in lanes: { t = tanh(ss[i]); y[i] = t; ts[i] = t }
      for i: for j: z[j] += ts[i] * a[i, j] }

so that the functions run in vector lanes, and each sum is in a loop of its own, of which several iterations are done
together.  As the loop is a map's, no iteration reads what another one writes, but for additions to memory and folds.
(Loop distribution: Kuck, "The Structure of Computers and Computations", 1978; Allen and Kennedy, "Automatic Translation
of Fortran Programs to Vector Form", 1987.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from itertools import combinations

from futad.core.scalarops import OPS
from futad.core.types import I64, Prim
from futad.fires import refused
from futad.imp import ir
from futad.imp.ir import Expr, Ref, add, num, sub
from futad.imp.loops.facts import cost, rows_apart
from futad.imp.loops.if_conversion import can_fail
from futad.imp.loops.vectorise import accumulations, annotate
from futad.imp.walk import has_load, loads_in, parts, statements
from futad.legality import Legality

LEGAL = Legality(
    "loop-distribution",
    "a map's sums and the dear functions of them run in loops of their own, for some iterations at a time",
    worth="a logistic regression 0.18 to 0.10 ms, its gradient 0.38 to 0.16: "
    "`benchmarks/without.py 'no loop-distribution' logistic`",
)
FOLDS_STAY = LEGAL.condition("folds in one part", "a part reads a fold that the other one has continued, or will have")
ADDED_ONCE = LEGAL.condition("added to in one part", "sums in memory are continued in another order, or read too early")
ASSIGNED_ONCE = LEGAL.condition("assigned in one part", "a part has the value of another iteration")
FAILS_FIRST = LEGAL.condition("fails first", "a failure would come before that of an earlier iteration")

TOGETHER = 64  # iterations
MOST = 12  # scalars that go from one part to another
DEAR = 15  # the cost of an operation that is worth vector lanes
CHEAP = 3  # what is computed again rather than handed on
LARGEST = 200  # statements


@dataclass(slots=True)
class _Part:
    """Statements that run by themselves, in lanes or not; `again`: scalars of earlier parts that it computes again, and
    `given` those that are handed to it."""

    body: list[ir.Stmt]
    lanes: bool = False
    again: list[ir.Stmt] = field(default_factory=list)
    given: list[str] = field(default_factory=list)


def distributed(
    loop: ir.For,
    reassociate: bool,
    name: Callable[[str], str],
    folds: Set[str],
    then: Callable[[ir.For], list[ir.Stmt]],
) -> list[ir.Stmt] | None:
    """The loop in parts, some iterations at a time; None unless it has dear functions beside loops, and its parts can
    run apart.  `folds`: pointers to arrays that it folds into; `then` schedules a part that is not for lanes."""
    body = accumulations(loop.body) if reassociate else loop.body
    every = list(statements(body))
    if loop.step != 1 or not any(isinstance(s, ir.For) for s in body):
        return refused("there is no loop inside")
    if len(every) > LARGEST or not all(_plain(s) for s in every):
        return refused("its body is large, or does more than scalars, stores and loops")
    found = _parts(body)
    if not any(p.lanes for p in found):
        return refused("no dear functions beside the loops inside")
    declared = {s.name: (k, s) for k, p in enumerate(found) for s in p.body if isinstance(s, ir.Decl)}
    if not _disjoint(found, declared, folds):
        return None
    shared = _hand_on(found, declared)
    if len(shared) > MOST:
        return refused(f"{len(shared)} scalars go from one part to another, at most {MOST} may")
    here, end = name("first"), name("end")
    place = sub(Ref(loop.var, I64), Ref(here, I64))
    arrays = {n: name(n.split("_")[0]) for n in shared}
    stop: Expr = ir.Scalar("min", (add(Ref(here, I64), num(TOGETHER)), loop.bound), I64, I64)
    out: list[ir.Stmt] = [ir.Stack(arrays[n], t, TOGETHER) for n, t in shared.items()]
    out.append(ir.Decl(end, I64, stop))
    for k, p in enumerate(found):
        loaded = [ir.Decl(n, shared[n], ir.Load(arrays[n], place, shared[n])) for n in p.given]
        stored = [ir.Store(arrays[n], place, Ref(n, t)) for n, t in shared.items() if declared[n][0] == k]
        part = ir.For(loop.var, Ref(end, I64), [*loaded, *p.again, *p.body, *stored], Ref(here, I64), map=True)
        if not p.lanes:
            out += then(part)
        elif annotate(part, reassociate):
            out.append(part)
        else:
            return refused("its dear functions do not run in vector lanes")
    return [ir.For(here, loop.bound, out, loop.start, step=TOGETHER)]


def _plain(s: ir.Stmt) -> bool:
    if isinstance(s, ir.For):
        return s.step == 1 and s.lanes == 0
    return isinstance(s, ir.Decl | ir.Assign | ir.Accumulate | ir.Store | ir.Check)


def _dear(s: ir.Stmt) -> bool:
    return any(isinstance(x, ir.Scalar) and OPS[x.op].cost >= DEAR for e in s.exprs() for x in parts(e))


def _parts(body: list[ir.Stmt]) -> list[_Part]:
    """The statements in parts: each sum with what it starts from, stretches with dear functions, all else."""
    out: list[_Part] = []
    now: list[ir.Stmt] = []
    run: list[ir.Stmt] = []

    def close() -> None:
        if now:
            out.append(_Part(now.copy()))
            now.clear()

    def end_run() -> None:
        if any(map(_dear, run)):
            close()
            late = [s for s in run if isinstance(s, ir.Decl) and s.mutable]
            out.append(_Part([s for s in run if s not in late], lanes=True))
            now.extend(late)
        else:
            now.extend(run)
        run.clear()

    for s in body:
        if not isinstance(s, ir.For):
            run.append(s)
            continue
        end_run()
        if now and _adds(now[-1]) and _adds(s):
            close()
        now.append(s)
        if s.partials and not any(isinstance(t, ir.For | ir.Store) for t in s.body):
            close()
    end_run()
    close()
    return out


def _adds(s: ir.Stmt) -> bool:
    """Whether all that a statement does is a loop, whose iterations only add to memory."""
    if not isinstance(s, ir.For) or not s.independent or s.partials:
        return False
    return all(isinstance(t, ir.Decl) or (isinstance(t, ir.Store) and t.op is not None) for t in s.body)


def _disjoint(found: list[_Part], declared: dict[str, tuple[int, ir.Decl]], folds: Set[str]) -> bool:
    """Whether the parts can run one after the other for several iterations each."""
    # By each name or pointer, the parts where it is.
    mentioned, assigned, loaded, stored = [defaultdict[str, set[int]](set) for _ in range(4)]
    added = defaultdict[str, list[tuple[int, ir.Store]]](list)
    for k, p in enumerate(found):
        for s in statements(p.body):
            for n in s.uses():
                mentioned[n].add(k)
            for x in loads_in(s):
                loaded[x.pointer].add(k)
            if isinstance(s, ir.Assign | ir.Accumulate):
                mentioned[s.name].add(k)
                assigned[s.name].add(k)
            if isinstance(s, ir.Store) and (s.op is not None or s.pointer in folds):
                added[s.pointer].append((k, s))
            elif isinstance(s, ir.Store):
                stored[s.pointer].add(k)
            if k and not FAILS_FIRST(not isinstance(s, ir.Check) and not any(map(can_fail, s.exprs()))):
                return False
    inside = [s for p in found for t in p.body for b in t.bodies() for s in statements(b)]
    inner = {s.name for s in inside if isinstance(s, ir.Decl)}
    for n, ks in assigned.items():
        if n in declared:
            if not ASSIGNED_ONCE(ks == {declared[n][0]}):
                return False
        elif n not in inner and not FOLDS_STAY(len(mentioned[n]) == 1):
            return False
    for to, sums in added.items():
        ks = {k for k, _ in sums}
        once = len(ks) == 1 or all(rows_apart(s, t) for (k, s), (m, t) in combinations(sums, 2) if k != m)
        others = loaded.get(to, set()) | stored.get(to, set())
        if not ADDED_ONCE(once and (not others or others == ks and len(ks) == 1)):
            return False
    # What a part stores no later one reads: it could be memory that each iteration uses for itself.
    return not any(len(ks) > 1 or max(loaded.get(to, {0})) > min(ks) for to, ks in stored.items())


def _hand_on(found: list[_Part], declared: dict[str, tuple[int, ir.Decl]]) -> dict[str, Prim]:
    """Note what parts compute again; the scalars that are handed on."""
    shared: dict[str, Prim] = {}

    def cheap(s: ir.Decl) -> bool:
        if s.mutable or s.init is None or has_load(s.init) or can_fail(s.init) or cost([s]) > CHEAP:
            return False
        return all(n not in declared or cheap(declared[n][1]) for n in s.init.uses())

    def need(n: str, k: int, p: _Part) -> None:
        if n not in declared or declared[n][0] == k or n in p.given or any(declared[n][1] is s for s in p.again):
            return
        s = declared[n][1]
        if cheap(s):
            assert s.init is not None
            for m in s.init.uses():
                need(m, k, p)
            p.again.append(s)
        else:
            shared[n] = s.type
            p.given.append(n)

    for k, p in enumerate(found):
        for s in statements(p.body):
            for n in s.uses():
                need(n, k, p)
    return shared


__all__ = ["distributed"]
