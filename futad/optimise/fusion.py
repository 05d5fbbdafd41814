"""Fusion: neighbouring maps, reductions and scans become one loop.

Scope by scope, outside in.  A statement, taken as a consumer, is merged with an earlier one it reads element
by element (vertical fusion), or that reads an array it reads too (horizontal fusion), when nothing between
them forbids it.  The producer then moves down to its consumer, and what in between needs the producer moves
below both; a producer whose results are also used elsewhere keeps them as extra outputs of the merged loop.

Done here as well: a cheap producer that cannot be merged with all of its consumers is copied into each;
`ys[i]` of a map's result read nowhere else computes the element; a producer that only an accumulator's scope
reads moves into it, next to its consumer.

Moving keeps every statement that came after an assertion after it, and every read of an array before the
array's consumption.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.alias import Aliases, aliases, consumed_roots
from futad.core.ir import Fun, Lambda, Program, Renamer, Stm
from futad.core.node import Range
from futad.core.operator import divisor
from futad.core.scalarops import OPS
from futad.core.types import Const, Var, row_type
from futad.legality import Legality
from futad.optimise.cluster import Cluster, elementwise, from_cluster, merge, to_cluster, worth_one_loop
from futad.optimise.subst import Subst
from futad.rewrite.apply import TIDY
from futad.rewrite.context import Context
from futad.rewrite.dce import asserting_functions, effects
from futad.rewrite.simplify import Simplifier
from futad.rewrite.strategy import Stats, with_lambdas

LEGAL = Legality(
    "fusion", "a producer is computed by its consumer's loop, or neighbours that read one array by one loop"
)
READ_BY_ELEMENTS = LEGAL.condition(
    "read by elements only", "the consumer looks at other elements than its own, which are not made yet"
)
MADE_BY_ELEMENTS = LEGAL.condition(
    "made by elements", "a fold's result is complete only after the loop, and is of no use to its iterations"
)
EFFECTS_STAY = LEGAL.condition(
    "no effect moves", "an assertion that needs the producer would come after what it guards"
)
NOT_NEEDED_BETWEEN = LEGAL.condition(
    "nothing between needed by both", "what needs the producer moves below the consumer, which reads it"
)
ELEMENTS_UNWRITTEN = LEGAL.condition(
    "elements not overwritten", "one of the two overwrites elements that the other reads afterwards, or returns"
)
UNCONSUMED = LEGAL.condition("nothing between consumes", "what moves down reads arrays that were overwritten meanwhile")
COPY_READS_CONSTANTS = LEGAL.condition(
    "copies read constants", "a copy of a cheap producer computes from arrays that were overwritten since"
)
ELEMENT_ASSERTS = LEGAL.condition("elements assert nothing", "assertions of the elements not read would be lost")
CHECK_KEPT = LEGAL.condition("element's check kept", "without an array to index there is nothing that checks the index")
ELEMENT_UNCONSUMED = LEGAL.condition(
    "element's inputs unconsumed", "the element is computed from what was written since"
)
ELEMENT_NEW = LEGAL.condition("element new", "the element would lie in an array that is overwritten later")
ABSORBED_APART = LEGAL.condition("absorbed not read there", "the scope reads what now it binds itself")
SUNK_ONLY_THERE = LEGAL.condition(
    "sunk read there only", "others read what is bound inside the accumulator's scope now"
)
SUNK_INSIDE = LEGAL.condition("sunk no operand", "the scope's operands are read before its body runs")
SUNK_UNCONSUMED = LEGAL.condition("sunk inputs unconsumed", "what the nest reads is overwritten before its new place")

CHEAP = 5  # total cost of scalar operations below which recomputing beats storing and loading
UNROLL = 8  # elements and statements of a map that may be unrolled


@dataclass(slots=True, eq=False)
class _Item:
    """A statement of the scope being fused, with what decides whether it may move.

    `whole` are the variables it uses other than as elementwise inputs; `consumes` the roots of the arrays it
    consumes.
    """

    stm: Stm
    free: dict[Var, None]
    cluster: Cluster | None = None
    whole: set[Var] = field(default_factory=set)
    consumes: set[Var] = field(default_factory=set)
    copied: bool = False  # a cheap producer on its way into all of its consumers
    merged: bool = False  # two nests as one


def cost(lam: Lambda) -> int | None:
    """The cost of a body of scalar operations that cannot fail; None if there is anything else."""
    total = 0
    for s in lam.stms:
        if type(s.exp) is not ir.Op:
            return None
        if divisor(s.exp) is not None:
            return None
        total += OPS[s.exp.op].cost
    return total


class _Fuser:
    """Fuses one function.  The scope at hand: `items` so far, who binds what (`by`), and use counts."""

    def __init__(self, alias: Aliases, asserting: set[str], stats: Stats | None) -> None:
        self.alias = alias
        self.asserting = asserting
        self.stats = stats
        self.items: list[_Item] = []
        self.by: dict[Var, _Item] = {}
        self.uses: dict[Var, int] = {}
        self.elementwise_uses: dict[ir.Atom, int] = {}
        self.constant_reads: dict[Var, int] = {}
        self.work: deque[_Item] = deque()

    def count(self, what: str) -> None:
        LEGAL.fired()
        if self.stats is not None:
            self.stats.count(what)

    # -- scopes

    def lam(self, lam: Lambda) -> Lambda:
        """The scope and the scopes in it, fused; the same object if nothing was."""
        stms = self.scope(lam)
        out = [self.nested(s) for s in stms]
        if len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True)):
            return lam
        return Lambda(lam.params, tuple(out), lam.result)

    def nested(self, stm: Stm) -> Stm:
        lams = stm.exp.lambdas()
        if not lams:
            return stm
        new = [self.lam(inner) for inner in lams]
        if all(a is b for a, b in zip(lams, new, strict=True)):
            return stm
        return Stm(stm.pat, with_lambdas(stm.exp, new), stm.attrs)

    def item(self, stm: Stm, nest: Cluster | None) -> _Item:
        e = stm.exp
        item = _Item(stm, ir.stm_free(stm), nest)
        if nest is not None:
            for lam in e.lambdas():
                item.whole.update(lam.free())
            inputs = set(nest.arrays) | {a.arg for a in nest.accs}
            item.whole.update(v for v in item.free if v not in inputs)
        item.consumes = consumed_roots(e, self.alias)
        return item

    def scope(self, lam: Lambda) -> list[Stm]:
        """The statements of one scope, fused (nested scopes as they were)."""
        nests = [to_cluster(s) for s in lam.stms]
        if not any(nests):
            return list(lam.stms)
        self.uses, self.elementwise_uses, self.constant_reads, self.items, self.by = {}, {}, {}, [], {}
        self.work = deque(self.item(s, n) for s, n in zip(lam.stms, nests, strict=True))
        for item in self.work:
            self.add_uses(item, 1)
        for a in lam.result:
            if type(a) is Var:
                self.uses[a] = self.uses.get(a, 0) + 1
        work = self.work
        while work:
            item = work.popleft()
            if item.cluster is not None:
                new = self.vertical(item) or self.horizontal(item) or self.join(item)
                if new is not None:
                    work.appendleft(new)
                    continue
            elif type(item.stm.exp) is ir.At and self.element(item, item.stm.exp):
                continue
            elif type(item.stm.exp) is ir.WithAcc:
                new = self.absorb(item, item.stm.exp)
                if new is not None:
                    work.appendleft(new)
                    continue
                item = self.sink(item, item.stm.exp)
            self.items.append(item)
            for v in item.stm.pat:
                self.by[v] = item
        return [self.once(i.stm) if i.merged else i.stm for i in self.items]

    def once(self, stm: Stm) -> Stm:
        """A nest made of two, with what both compute computed once, before their own nests become loops that differ."""
        if all(sum(s.exp.scoped for s in lam.stms) < 2 for lam in stm.exp.lambdas()):
            return stm
        alone = Lambda((), (stm,), ())
        ctx = Context(aliases(alone, (*ir.stm_free(stm), *stm.pat)), False, None)
        out: list[Stm] = []
        Simplifier(ctx, TIDY, self.asserting).block((stm,), out)
        (made,) = out
        return made

    def add_uses(self, item: _Item, k: int) -> None:
        uses, elements = self.uses, self.elementwise_uses
        e = item.stm.exp
        if type(e) is ir.At and type(e.index[0]) is Const and type(e.array) is Var:
            self.constant_reads[e.array] = self.constant_reads.get(e.array, 0) + k
        for v in item.free:
            uses[v] = uses.get(v, 0) + k
        if item.cluster is not None:
            for a in set(item.cluster.arrays):
                if a not in item.whole:
                    elements[a] = elements.get(a, 0) + k

    # -- pairs

    def vertical(self, c: _Item) -> _Item | None:
        assert c.cluster is not None
        tried: set[int] = set()
        for a in c.cluster.arrays + [acc.arg for acc in c.cluster.accs]:
            p = self.by.get(a) if type(a) is Var else None
            if p is not None and p.cluster is not None and id(p) not in tried:
                tried.add(id(p))
                new = self.duplicate(p, c) or self.fuse(p, c, "vertical")
                if new is not None:
                    return new
        return None

    def horizontal(self, c: _Item) -> _Item | None:
        nest = c.cluster
        assert nest is not None
        mine = {a for a in nest.arrays if not self.is_index(a)}
        if not mine:
            return None
        for p in reversed(self.items):
            q = p.cluster
            if q is None or p.copied or q.width is not nest.width:
                continue
            shared = [a for a in q.arrays if a in mine]
            if bool(q.accs) != bool(nest.accs) and not worth_one_loop(q, nest):
                continue
            if shared and not any(v in c.free for v in p.stm.pat) and not self.parted(p, c):
                new = self.fuse(p, c, "horizontal")
                if new is not None:
                    return new
        return None

    def parted(self, p: _Item, c: _Item) -> bool:
        """Whether one loop of the two could not be one, too, with a later loop that reads what `p` makes, as that one
        waits for what others make of `c`'s results."""
        assert p.cluster is not None
        mine, waits = set(c.stm.pat), set[Var]()
        for x in self.work:
            reads = x.cluster is not None and any(v in x.free for v in p.stm.pat) and self.fits(p, x)
            if reads and not waits.isdisjoint(x.free):
                return True
            if not mine.isdisjoint(x.free) or not waits.isdisjoint(x.free):
                waits.update(x.stm.pat)
        return False

    def is_index(self, a: ir.Atom) -> bool:
        made = self.by.get(a) if type(a) is Var else None
        return made is not None and type(made.stm.exp) is ir.Iota

    def fits(self, p: _Item, c: _Item) -> bool:
        """Whether the two have one width and `c` uses `p`'s results element by element only."""
        assert p.cluster is not None and c.cluster is not None
        if p.cluster.width is not c.cluster.width or not READ_BY_ELEMENTS(not any(v in c.whole for v in p.stm.pat)):
            return False
        return MADE_BY_ELEMENTS(elementwise(p.cluster, c.cluster))

    def fuse(self, p: _Item, c: _Item, how: str) -> _Item | None:
        """`p` merged into `c`, at the place of `c`; None if that is not legal."""
        assert p.cluster is not None and c.cluster is not None
        if not self.fits(p, c):
            return None
        after = self.displaced(p, c)
        if after is None or not ELEMENTS_UNWRITTEN(self.unwritten(p, c)):
            return None
        keep = self.kept(p, c)
        merged = merge(p.cluster, c.cluster, keep)
        self.remove(p)
        self.add_uses(c, -1)
        new = self.item(from_cluster(merged), merged)
        new.merged = True
        self.add_uses(new, 1)
        self.postpone(after)
        self.count(f"fuse_{how}")
        return new

    def kept(self, p: _Item, c: _Item) -> set[Var]:
        """The results of `p`'s map that others than `c` use."""
        assert p.cluster is not None
        return {v for v, _ in p.cluster.maps if self.uses.get(v, 0) > (1 if v in c.free else 0)}

    def unwritten(self, p: _Item, c: _Item) -> bool:
        """Whether `p`'s body overwrites no element that `c` reads, and `c`'s none that `p` returns.

        A map that overwrites the elements it is given gets copies where others read the array; within one body there
        is no array, and nothing may be read after it was overwritten.
        """
        assert p.cluster is not None
        mutable, root = self.alias.mutable, self.alias.root
        if any(mutable(r) for r in p.consumes) and not p.consumes.isdisjoint([root(v) for v in c.free]):
            return False
        gone = {r for r in c.consumes if mutable(r)}
        if not gone:
            return True
        results = dict(p.cluster.maps)
        keep = self.kept(p, c)
        returned: list[ir.Atom] = [a for v, a in results.items() if v in keep]
        returned += [a for _, parts in p.cluster.scans + p.cluster.reds for _, a in parts]
        for r in gone:
            # In one body what `p` makes for `c` is what `c` overwrites, not a copy.
            taken = [v for v in results if v in c.free and root(v) is r]
            memory = {root(a) for v in taken if type(a := results[v]) is Var} or {r}
            others = returned + [a for v, a in results.items() if v in c.free and v not in taken]
            if taken:
                others += [v for v in c.free if v not in results]
            if len(taken) > 1 or any(type(a) is Var and root(a) in memory for a in others):
                return False
        return True

    def displaced(self, p: _Item, c: _Item) -> list[_Item] | None:
        """The statements between `p` and `c` that need `p`, which go below `c` when `p` goes down to it; None if
        `c` needs one of them, or if the move would pass an assertion or a consumption, `c`'s own included, it must not
        pass."""
        needs_p: set[Var] = set(p.stm.pat)
        moved = [p]
        mutable, root = self.alias.mutable, self.alias.root
        start = self.items.index(p)
        reads = {root(v) for v in p.free if mutable(v)}
        for x in self.items[start + 1 :]:
            if any(v in needs_p for v in x.free):
                if not EFFECTS_STAY(not x.stm.exp.effect):
                    return None
                if not NOT_NEEDED_BETWEEN(not any(v in c.free for v in x.stm.pat)):
                    return None
                needs_p.update(x.stm.pat)
                moved.append(x)
                below = {root(v) for v in x.free if mutable(v)}
                if not UNCONSUMED(below.isdisjoint(c.consumes)):
                    return None
                reads |= below
            elif not UNCONSUMED(reads.isdisjoint(x.consumes)):
                return None
        return moved[1:]

    def duplicate(self, p: _Item, c: _Item) -> _Item | None:
        """A copy of the cheap `p` merged into `c`, where every use of `p`'s results is such a consumer and there
        are several (what ends up in one loop after all is shared again by the simplifier)."""
        n = p.cluster
        assert n is not None and c.cluster is not None
        if n.accs or n.scans or n.reds or len(n.arrays) > 2 or not self.fits(p, c):
            return None
        uses = [self.uses.get(v, 0) for v in p.stm.pat]
        if max(uses) < 2 or uses != [self.elementwise_uses.get(v, 0) for v in p.stm.pat]:
            return None
        mutable = self.alias.mutable
        if not COPY_READS_CONSTANTS(not any(mutable(v) for v in p.free)):
            return None
        lam = Lambda(tuple(n.params), tuple(n.stms), tuple([a for _, a in n.maps]))
        price = cost(lam)
        if price is None or price > CHEAP:
            return None
        r = Renamer()
        copy = r.lam(lam)
        maps = [(v, a) for (v, _), a in zip(n.maps, copy.result, strict=True)]
        twin = Cluster(n.width, n.arrays, list(copy.params), list(copy.stms), [], [], [], maps, n.attrs)
        merged = merge(twin, c.cluster, set())
        self.add_uses(c, -1)
        new = self.item(from_cluster(merged), merged)
        self.add_uses(new, 1)
        p.copied = True
        self.count("fuse_duplicate")
        return new

    def remove(self, p: _Item) -> None:
        self.add_uses(p, -1)
        self.items.remove(p)
        for v in p.stm.pat:
            self.by.pop(v, None)

    def postpone(self, items: list[_Item]) -> None:
        """Items of the scope so far go below what comes next."""
        gone = set(map(id, items))
        self.items = [x for x in self.items if id(x) not in gone]
        for x in items:
            for v in x.stm.pat:
                self.by.pop(v, None)
        self.work.extendleft(reversed(items))

    # -- one element of a map

    def element(self, item: _Item, e: ir.At) -> bool:
        """`(map f xs)[i]`, read nowhere else -> `f xs[i]`; a map of a few elements, read at constant places only, is
        unrolled in this way.  Whether it was rewritten (the result is queued)."""
        if type(e.array) is not Var:
            return False
        p, i = self.by.get(e.array), e.index[0]
        if p is None or p.cluster is None or type(i) is Range:
            return False
        n = p.cluster
        if n.accs or n.scans or n.reds or not ELEMENT_ASSERTS(not effects(n.stms)):
            return False
        once = all(self.uses.get(v, 0) == (v is e.array) for v in p.stm.pat)
        if not once and not self.unrolls(p, i):
            return False
        if not self.readable(p, e.array) or not CHECK_KEPT(e.check is None or n.arrays):
            return False
        stms: list[Stm] = []
        mapping: dict[Var, ir.Atom] = {}
        check = e.check
        for a, q in zip(n.arrays, n.params, strict=True):
            elem = Var(q.name, row_type(a.type))
            stms.append(Stm((elem,), ir.At(a, (i,), check)))
            mapping[q] = elem
            check = None
        moved = Subst(mapping) if once else Renamer(mapping)
        stms += moved.stms(n.stms)
        (result,) = [moved.atom(a) for v, a in n.maps if v is e.array]
        (v,) = item.stm.pat
        made = {w for s in stms for w in s.pat}
        if len(e.index) > 1:
            stms.append(Stm((v,), ir.At(result, e.index[1:], e.check), item.stm.attrs))
        elif type(result) is Var and result in made and result.type == v.type:
            # Bound under the element's own name, so that its consumers see what made it.
            own = Subst({result: v})
            stms = [Stm(tuple([v if w is result else w for w in s.pat]), own.exp(s.exp), s.attrs) for s in stms]
        else:
            stms.append(Stm((v,), ir.Alias(result), item.stm.attrs))
        self.add_uses(item, -1)
        if not any(self.uses.get(v, 0) for v in p.stm.pat):
            self.remove(p)
        new = [self.item(s, to_cluster(s)) for s in stms]
        for x in new:
            self.add_uses(x, 1)
        self.work.extendleft(reversed(new))
        self.count("fuse_element")
        return True

    def readable(self, p: _Item, v: Var) -> bool:
        """Whether what makes elements of `v` can be done here instead: neither `p` nor anything since consumes what `p`
        reads, and the elements are new arrays, which nothing later consumes."""
        assert p.cluster is not None
        mutable, root = self.alias.mutable, self.alias.root
        reads = {root(w) for w in p.free if mutable(w)}
        if not reads:
            return True
        between = self.items[self.items.index(p) + 1 :]
        if not ELEMENT_UNCONSUMED(all(reads.isdisjoint(x.consumes) for x in (p, *between))):
            return False
        made = {w: s.exp for s in p.cluster.stms for w in s.pat}
        (result,) = [a for w, a in p.cluster.maps if w is v]
        return ELEMENT_NEW(type(result) is Var and type(made.get(result)) in (ir.Op, ir.Map, ir.Fused))

    def unrolls(self, p: _Item, i: ir.Atom) -> bool:
        """Whether the map has few elements, each of few statements, and is read at constant places only."""
        n = p.cluster
        assert n is not None
        if type(n.width) is not Const or n.width.value > UNROLL or len(n.stms) > UNROLL:
            return False
        if type(i) is not Const or not 0 <= i.value < n.width.value:
            return False
        return all(self.uses.get(v, 0) == self.constant_reads.get(v, 0) for v in p.stm.pat)

    # -- nests into accumulator scopes

    def absorb(self, w: _Item, e: ir.WithAcc) -> _Item | None:
        """Moves a nest into the accumulator's scope that should be one with a nest there, its results becoming extra
        ones: what both read and compute is read and computed once (a function's value beside its derivative)."""
        inner = [n for s in e.lam.stms if (n := to_cluster(s)) is not None and n.accs]
        mutable, root = self.alias.mutable, self.alias.root
        for p in reversed(self.items):
            q = p.cluster
            if q is None or q.accs or p.copied or not ABSORBED_APART(not any(v in w.free for v in p.stm.pat)):
                continue
            if not any(n.width is q.width and worth_one_loop(q, n) for n in inner):
                continue
            if any(mutable(v) and root(v) in w.consumes for v in p.free):
                continue  # backends would copy the accumulator's array, as its scope reads it too
            after = self.displaced(p, w)
            if after is None:
                continue
            self.add_uses(w, -1)
            self.remove(p)
            self.postpone(after)
            copy = ir.Renamer()
            stm = copy.stm(p.stm)
            lam = Lambda(e.lam.params, (stm, *e.lam.stms), e.lam.result + stm.pat)
            new = self.item(Stm(w.stm.pat + p.stm.pat, ir.WithAcc(e.arrays, e.op, lam), w.stm.attrs), None)
            self.add_uses(new, 1)
            self.count("absorb_into_with_acc")
            return new
        return None

    def join(self, c: _Item) -> _Item | None:
        """Moves a nest that reads elements of what a nest in an accumulator's scope makes into that scope, its results
        becoming extra ones: there the two become one (an adjoint that is summed over what was mapped)."""
        nest = c.cluster
        assert nest is not None
        if nest.accs or any(map(self.alias.mutable, c.consumes)):
            return None
        for a in nest.arrays:
            w = self.by.get(a) if type(a) is Var else None
            if w is None or not isinstance(e := w.stm.exp, ir.WithAcc):
                continue
            own = len(e.arrays)
            made = {v: r for n in map(to_cluster, e.lam.stms) if n and n.width is nest.width for v, r in n.maps}
            inside = {v: r for v, r in zip(w.stm.pat[own:], e.lam.result[own:], strict=True) if r in made}
            read = [v for v in w.stm.pat if v in c.free]
            if not all(v in inside for v in read) or any(v in c.whole for v in read):
                continue  # there it would stay a loop of its own
            between = self.items[self.items.index(w) + 1 :]
            if any(v in c.free for x in between for v in x.stm.pat):
                continue
            if not EFFECTS_STAY(not any(x.stm.exp.effect for x in between)):
                continue
            self.add_uses(c, -1)
            self.remove(w)
            copy = ir.Renamer({v: inside[v] for v in read})
            stm = copy.stm(c.stm)
            lam = Lambda(e.lam.params, (*e.lam.stms, stm), e.lam.result + stm.pat)
            new = self.item(Stm(w.stm.pat + c.stm.pat, ir.WithAcc(e.arrays, e.op, lam), w.stm.attrs), None)
            self.add_uses(new, 1)
            self.postpone(between)
            self.count("join_with_acc")
            return new
        return None

    def sink(self, item: _Item, e: ir.WithAcc) -> _Item:
        """Moves nests that only this scope reads into it (its body runs once)."""
        mutable, root = self.alias.mutable, self.alias.root
        stms = list(e.lam.stms)
        changed = True
        moved = False
        wanted = {v for s in stms if (n := to_cluster(s)) is not None for v in n.arrays}
        while changed:
            changed = False
            for v in wanted:
                p = self.by.get(v) if type(v) is Var else None
                if p is None or p.cluster is None or p.cluster.accs:
                    continue
                outside = [self.uses.get(w, 0) != (w in item.free) for w in p.stm.pat]
                if not SUNK_ONLY_THERE(not any(outside)):
                    continue
                if not SUNK_INSIDE(not any(w in item.stm.exp.operands() for w in p.stm.pat)):
                    continue
                reads = {root(w) for w in p.free if mutable(w)}
                later = self.items[self.items.index(p) + 1 :]
                if not SUNK_UNCONSUMED(all(reads.isdisjoint(x.consumes) for x in (item, *later))):
                    continue
                self.add_uses(item, -1)
                self.remove(p)
                stms.insert(0, p.stm)
                lam = Lambda(e.lam.params, tuple(stms), e.lam.result)
                e = ir.WithAcc(e.arrays, e.op, lam)
                item = self.item(Stm(item.stm.pat, e, item.stm.attrs), None)
                self.add_uses(item, 1)
                wanted = (wanted - {v}) | set(p.cluster.arrays)
                changed = moved = True
                break
        if moved:
            self.count("sink_into_with_acc")
        return item


def fuse_fun(fun: Fun, asserting: set[str], stats: Stats | None = None) -> Fun:
    """One function, fused; the same object if nothing changed.  `asserting`: functions that may fail or print."""
    fuser = _Fuser(aliases(fun.body, fun.body.result + fun.body.params), asserting, stats)
    body = fuser.lam(fun.body)
    if body is fun.body:
        return fun
    return Fun(fun.name, body, fun.num_sizes, fun.ret, fun.entry, fun.attrs, fun.span)


def fuse(program: Program, stats: Stats | None = None) -> Program:
    """The program with maps, reductions and scans fused in every scope."""
    asserting = asserting_functions(program)
    funs = {n: fuse_fun(f, asserting, stats) for n, f in program.funs.items()}
    if all(funs[n] is f for n, f in program.funs.items()):
        return program
    return Program(funs, program.name)


__all__ = ["CHEAP", "cost", "fuse", "fuse_fun"]
