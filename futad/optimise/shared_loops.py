"""Loops whose iterations another loop makes, too, are not made.

    loop x = a while p x do f x;  ..  loop (x, k) = (a, 0) while p x do (f x, k + 1)
  becomes
    loop (x, k) = (a, 0) while p x do (f x, k + 1);  ..

Reverse mode leaves such pairs where a value and its gradient are asked for together: the return sweep of a map executes
its loops again, and counts or saves on the way.  (Equal loops are common subexpressions already, unless each overwrites
an array that it makes for itself: both begin with equal ones, made by replications or maps.)  The one loop stands where
the first of the two stood, after what it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.alias import Aliases, aliases, consumed_roots
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import AccType, Atom, Prim, Var, shape_of, subst_type
from futad.legality import Legality
from futad.optimise.subst import Subst
from futad.optimise.total import total
from futad.rewrite.equal import alike

LEGAL = Legality(
    "shared-loops",
    "a loop whose iterations another one makes as well is not made",
    worth="a barrier option with its gradient 8.8 to 6.0 ms: `benchmarks/without.py shared-loops barrier`",
)
SAME_START = LEGAL.condition("the same first values", "the other loop begins with other values")
SAME_STEP = LEGAL.condition("the same iterations", "the other loop's iterations make other values")
NOTHING_MORE = LEGAL.condition("nothing more fails", "the other loop fails where this one would not, or prints")
NOT_WRITTEN = LEGAL.condition("results not overwritten", "one of the two results is overwritten, or both are returned")
KNOWN_BEFORE = LEGAL.condition("known before", "what the loop needs is made of the result that it is to give")
TOTAL = LEGAL.condition("what moves fails not", "what fails later would be reported first, or a check moves")
UNREAD = LEGAL.condition("not read between", "what the loop overwrites is read later")

LARGEST = 100  # statements of a body

Made = dict[Var, tuple[ir.Exp, int]]  # what makes arrays, and which of its results they are


def shared_loops(program: Program) -> Program:
    """Leave such loops out in every scope; the same program if there are none."""
    return ir.map_bodies(program, lambda lam: _scope(lam, aliases(lam, lam.result + lam.params), {}))


def _scope(lam: Lambda, alias: Aliases, made: Made) -> Lambda:
    """The scope without such loops; `made`: the arrays that replications and maps make outside."""
    arrays = [s for s in lam.stms if isinstance(s.exp, ir.Replicate | ir.Map)]
    made = made | {v: (s.exp, k) for s in arrays for k, v in enumerate(s.pat)}
    stms = [ir.map_scopes(s, lambda inner: _scope(inner, alias, made)) for s in lam.stms]
    if sum(isinstance(s.exp, ir.Loop) for s in stms) < 2:
        same = all(a is b for a, b in zip(stms, lam.stms, strict=True))
        return lam if same else Lambda(lam.params, tuple(stms), lam.result)
    left = Subst()
    done = False
    while not done:
        done = True
        loops = [k for k, s in enumerate(stms) if isinstance(s.exp, ir.Loop)]
        pairs = [(i, j) for i in loops for j in loops if i != j]
        for i, j in sorted(pairs, key=lambda p: p[0] < p[1]):  # first those of which nothing moves
            others = [s for k, s in enumerate(stms) if k not in (i, j)]
            if not _within(stms[i], stms[j], made) or not _unwritten(stms[i], stms[j], others, lam.result, alias):
                continue
            if (new := _one(stms, i, j, alias, made)) is not None:
                own = Subst(dict(zip(stms[i].pat, stms[j].pat, strict=False)))
                for v, w in own.mapping.items():
                    alias.join(v, w)
                left.mapping |= own.mapping
                stms = own.stms(new)
                LEGAL.fired()
                done = False
                break
    if not left.mapping and all(a is b for a, b in zip(stms, lam.stms, strict=True)):
        return lam
    return Lambda(lam.params, tuple(stms), tuple([left.atom(a) for a in lam.result]))


def _within(first: Stm, second: Stm, made: Made) -> bool:
    """Whether the second loop's first variables are those of the first loop, in each iteration."""
    a, b = first.exp, second.exp
    assert isinstance(a, ir.Loop) and isinstance(b, ir.Loop)
    n = len(a.inits)
    if type(a) is not type(b) or n > len(b.inits):
        return False
    if not SAME_START(all(_equal(x, y, made) for x, y in zip(a.inits, b.inits, strict=False))):
        return False
    if isinstance(a, ir.For) and (not isinstance(b, ir.For) or a.bound is not b.bound):
        return False
    if len(b.body.stms) > LARGEST or any(isinstance(v.type, AccType) for v in (*first.pat, *second.pat)):
        return False
    names = _same_step(a, b, n)
    if not SAME_STEP(names is not None):
        return False
    assert names is not None
    more = [t for t in b.body.stms if not (t.pat and t.pat[0] in names)]
    return NOTHING_MORE(all(map(total, more)))


def _equal(x: Atom, y: Atom, made: Made) -> bool:
    """Whether two first values are equal."""
    if x is y or not isinstance(x, Var) or not isinstance(y, Var):
        return x is y
    if x not in made or y not in made:
        return False
    (e, k), (other, n) = made[x], made[y]
    return alike(e, other) and (k == n or isinstance(e, ir.Map) and e.lam.result[k] is e.lam.result[n])


def _unwritten(first: Stm, second: Stm, others: Sequence[Stm], result: Sequence[Atom], alias: Aliases) -> bool:
    """Whether one array may be the result of both loops: but for these, nothing overwrites it."""
    arrays = [(v, w) for v, w in zip(first.pat, second.pat, strict=False) if not isinstance(v.type, Prim)]

    def written(v: Var) -> bool:
        if not alias.mutable(v):
            return False
        root = alias.root(v)
        leaves = any(isinstance(a, Var) and not isinstance(a.type, Prim) and alias.root(a) is root for a in result)
        return leaves or any(root in consumed_roots(s.exp, alias) for s in others)

    unwritten = not any(written(v) or written(w) for v, w in arrays)
    return NOT_WRITTEN(unwritten and not any(alias.escaping(v) and alias.escaping(w) for v, w in arrays))


def _same_step(a: ir.Loop, b: ir.Loop, n: int) -> dict[Var, Atom] | None:
    """For the variables of the second body those of the first that are equal to them, if its results are."""
    skip = len(a.body.params) - n
    pairs = list(zip(a.body.params, b.body.params[: skip + n], strict=True))
    if any(p.type != q.type for p, q in pairs):
        return None
    names: dict[Var, Atom] = {q: p for p, q in pairs}
    left = list(b.body.stms)
    for s in a.body.stms:
        for t in left:
            inner = dict(names)
            types = [(p.type, subst_type(q.type, names)) for p, q in zip(s.pat, t.pat, strict=False)]
            same = len(t.pat) == len(s.pat) and all(x == y for x, y in types)
            if same and alike(s.exp, t.exp, inner):
                names |= zip(t.pat, s.pat, strict=True)
                left.remove(t)
                break
        else:
            return None
    results = zip(a.body.result, b.body.result, strict=False)
    return names if all(x is (names.get(y, y) if isinstance(y, Var) else y) for x, y in results) else None


def _one(stms: list[Stm], i: int, j: int, alias: Aliases, made: Made) -> list[Stm] | None:
    """The statements without loop i, where loop j, and what it needs, stands before what uses its results."""
    if j < i:
        return [*stms[:i], *stms[i + 1 :]]
    needed, moved = set(ir.stm_free(stms[j])), [stms[j]]
    for s in reversed(stms[i + 1 : j]):
        if needed & set(s.pat):
            moved.insert(0, s)
            needed |= ir.stm_free(s).keys()
    if not KNOWN_BEFORE(not needed & set(stms[i].pat)):
        return None
    loop = stms[i].exp
    assert isinstance(loop, ir.Loop)
    sizes: set[Atom] = {d for v in ir.stm_free(stms[i]) for d in shape_of(v.type)}
    sizes |= {loop.bound} if isinstance(loop, ir.For) else set()
    starts = [made[a][0] for a in loop.inits if isinstance(a, Var) and a in made]
    if not TOTAL(all(total(s) or _room(s, sizes) or any(alike(s.exp, x) for x in starts) for s in moved[:-1])):
        return None
    rest = [s for s in stms[i + 1 : j] if not any(s is m for m in moved)]
    written = {r for m in moved for r in consumed_roots(m.exp, alias) if alias.mutable(r)}
    if not UNREAD(not any(alias.root(v) in written for s in rest for v in ir.stm_free(s))):
        return None
    return [*stms[:i], *moved, *rest, *stms[j + 1 :]]


def _room(s: Stm, sizes: set[Atom]) -> bool:
    """Whether the statement makes an array that the loop begins with, of sizes that are known, or those of arrays that
    are there, or a row for each of the loop's iterations: of less than none the other loop has none either, so it does
    not fail before."""
    e = s.exp
    if not isinstance(e, (ir.Scratch, ir.Replicate)):
        return False
    return all(a in sizes if isinstance(a, Var) else a.value >= 0 for a in e.shape)


__all__ = ["shared_loops"]
