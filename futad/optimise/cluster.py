"""A common form of `Map`, `Reduce`, `Scan` and `Fused`, and how two of them become one.

A cluster is a lambda over the elements of its inputs whose results feed, in this order: accumulators, scans,
reductions, mapped outputs.  The statement's pattern has the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import AccType, ArrayType, Atom, Var, row_type
from futad.optimise.subst import Subst
from futad.optimise.values import Table, computed

DEAR = 15  # cost of scalar operations for which two loops become one that does them once

Part = tuple[Var, Atom]
"""A variable the statement binds, and the lambda's result that feeds it."""


@dataclass(slots=True)
class Acc:
    """One accumulator threaded through a cluster: bound as `out`, given as `arg`, inside `param` to `result`."""

    out: Var
    arg: Atom
    param: Var
    result: Atom


@dataclass(slots=True)
class Cluster:
    """One loop over `width` elements of `arrays` (elements: `params`)."""

    width: Atom
    arrays: list[Atom]
    params: list[Var]
    stms: list[Stm]
    accs: list[Acc]
    scans: list[tuple[ir.Fold, list[Part]]]
    reds: list[tuple[ir.Fold, list[Part]]]
    maps: list[Part]
    attrs: tuple[object, ...] = ()

    def bound(self) -> list[Var]:
        """Everything the statement binds, in its order."""
        out = [a.out for a in self.accs]
        for _, parts in self.scans + self.reds:
            out += [v for v, _ in parts]
        return out + [v for v, _ in self.maps]


def to_cluster(stm: Stm) -> Cluster | None:
    """The statement as a cluster; None if it is not a map, reduction, scan or fused nest."""
    e = stm.exp
    if not isinstance(e, ir.Screma):
        return None
    if e.mapper is None:
        rows = tuple([Var("x", row_type(a.type)) for a in e.arrays])
        lam = Lambda(rows, (), rows)
    else:
        lam = e.mapper
    cluster = Cluster(e.width, [], [], list(lam.stms), [], [], [], [], stm.attrs)
    parts = e.parts(list(zip(stm.pat, lam.result, strict=True)))
    for a, p in zip(e.arrays, lam.params, strict=True):
        if isinstance(a.type, AccType):
            v, r = parts.accs[len(cluster.accs)]
            cluster.accs.append(Acc(v, a, p, r))
        else:
            cluster.arrays.append(a)
            cluster.params.append(p)
    cluster.scans = [(f, list(part)) for f, part in zip(e.scans, parts.scans, strict=True)]
    cluster.reds = [(f, list(part)) for f, part in zip(e.reduces, parts.reduces, strict=True)]
    cluster.maps = list(parts.mapped)
    return cluster


def from_cluster(n: Cluster) -> Stm:
    """The smallest statement for a cluster: a `Map`, a plain `Reduce` or `Scan`, or a `Fused`."""
    pat = tuple(n.bound())
    results = [a.result for a in n.accs]
    for _, parts in n.scans + n.reds:
        results += [a for _, a in parts]
    results += [a for _, a in n.maps]
    params = [a.param for a in n.accs] + n.params
    arrays = tuple([a.arg for a in n.accs] + n.arrays)
    if len(n.scans) + len(n.reds) == 1 and not n.stms and results == params:
        (f, _), *_ = n.scans + n.reds
        return Stm(pat, ir.folding(n.width, arrays, f, bool(n.scans)), n.attrs)
    lam = Lambda(tuple(params), tuple(n.stms), tuple(results))
    if not n.scans and not n.reds:
        return Stm(pat, ir.Map(n.width, arrays, lam), n.attrs)
    fused = ir.Fused(n.width, arrays, lam, tuple([f for f, _ in n.scans]), tuple([f for f, _ in n.reds]))
    return Stm(pat, fused, n.attrs)


def elementwise(p: Cluster, c: Cluster) -> bool:
    """Whether every input of `c` that `p` binds can be taken over element by element, at the same type."""
    results = dict(p.maps)
    mine = set(p.bound())
    for a, param in zip(c.arrays, c.params, strict=True):
        if a in mine:
            r = results.get(a)
            if r is None or r.type != param.type:
                return False
    return True


def merge(p: Cluster, c: Cluster, keep: set[Var]) -> Cluster:
    """`p` then `c` as one cluster.

    Inputs of `c` that `p` binds become results of `p`'s lambda, equal inputs are shared, accumulators run
    through both, and of the mapped outputs of `p` those in `keep` remain.
    """
    results = dict(p.maps)
    r = Subst()
    arrays, params = list(p.arrays), list(p.params)
    at = dict(zip(arrays, params, strict=True))
    for a, q in zip(c.arrays, c.params, strict=True):
        if a in results:
            r.mapping[q] = results[a]
        elif a in at and at[a].type == q.type:
            r.mapping[q] = at[a]
        else:
            arrays.append(a)
            params.append(q)
            at[a] = q
    earlier: dict[Atom, Acc] = {a.out: a for a in p.accs}
    later: list[Acc] = []
    for acc in c.accs:
        first = earlier.pop(acc.arg, None)
        if first is None:
            later.append(acc)
        else:
            r.mapping[acc.param] = first.result
            later.append(Acc(acc.out, first.arg, first.param, acc.result))
    stms = p.stms + r.stms(c.stms)

    def moved(parts: list[Part]) -> list[Part]:
        return [(v, r.atom(a)) for v, a in parts]

    return Cluster(
        p.width,
        arrays,
        params,
        stms,
        list(earlier.values()) + [Acc(a.out, a.arg, a.param, r.atom(a.result)) for a in later],
        p.scans + [(op, moved(parts)) for op, parts in c.scans],
        p.reds + [(op, moved(parts)) for op, parts in c.reds],
        [x for x in p.maps if x[0] in keep] + moved(c.maps),
        p.attrs + tuple([a for a in c.attrs if a not in p.attrs]),
    )


def worth_one_loop(p: Cluster, c: Cluster) -> bool:
    """Whether a nest and one that updates accumulators should be one: both read rows, so that one more pass over these
    costs more than a loop, or compute something dear of the same elements, as a function's value and its derivative
    do: scalars, or loops."""
    if any(isinstance(a.type, ArrayType) and a.type.rank > 1 for a in p.arrays if a in c.arrays):
        return True
    if not _loops(p).isdisjoint(_loops(c)):
        return True
    table = Table()
    mine, other = (computed(table, n.params, n.arrays, n.stms).values() for n in (p, c))
    numbers = {number for number, _ in other}
    return any(price >= DEAR and number in numbers for number, price in mine)


def _loops(n: Cluster) -> set[tuple[object, ...]]:
    """The operations of the loops in a nest, loop by loop."""
    return {
        tuple([t.exp.op if isinstance(t.exp, ir.Op) else type(t.exp) for t in ir.statements(s.exp.body.stms)])
        for s in n.stms
        if isinstance(s.exp, ir.Loop)
    }


__all__ = ["Acc", "Cluster", "Part", "elementwise", "from_cluster", "merge", "to_cluster", "worth_one_loop"]
