"""Rows that a map makes for a histogram of sums to add are added where they are made.

    let ys = map f xs                                   with_acc d (\\acc -> map (\\acc i x ->
    let h = hist (map2 (+)) d is ys          -->          update_acc acc i (f x)) acc is xs)

Both leave out what is added out of range.  Done for C, where a row is then read where it lies: messages along the edges
of a graph are no array.  (Devices take the map along in the kernel of the histogram.)
"""

from __future__ import annotations

from futad.core import ir
from futad.core.alias import Aliases, aliases, overwritten
from futad.core.ir import Lambda, Program, Stm
from futad.core.operator import operator_of
from futad.core.types import I64, AccType, ArrayType, Atom, Var, elem_of, shape_of
from futad.legality import Legality
from futad.optimise.total import total

LEGAL = Legality(
    "added-rows",
    "rows that are made for a histogram of sums are added where they are made",
    worth="a network on a graph 0.62 to 0.35 ms, its gradient 1.06 to 0.77: "
    "`benchmarks/without.py added-rows graph_network`",
)
ADDS = LEGAL.condition("sums", "other operations add up")
ADDED_ALONE = LEGAL.condition("added alone", "others read the rows, which are not there any more")
NOT_WRITTEN = LEGAL.condition("inputs not overwritten", "rows are made of what was overwritten since")
IN_ORDER = LEGAL.condition("failures in order", "what the map fails by is reported after what follows it")


def added_rows(program: Program) -> Program:
    """Add such rows where they are made, in every scope; the same program if there are none."""
    return ir.map_bodies(program, lambda lam: _scope(lam, aliases(lam, lam.result + lam.params)))


def _scope(lam: Lambda, alias: Aliases) -> Lambda:
    stms = [ir.map_scopes(s, lambda inner: _scope(inner, alias)) for s in lam.stms]
    gone: set[int] = set()
    for k, s in enumerate(stms):
        e = s.exp
        made = [j for j in range(k) if isinstance(e, ir.Hist) and stms[j].pat == e.values]
        if made and (new := _added(stms, made[0], k, lam.result, alias)) is not None:
            LEGAL.fired()
            stms[k] = new
            gone.add(made[0])
    same = all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple([s for j, s in enumerate(stms) if j not in gone]), lam.result)


def _added(stms: list[Stm], at: int, to: int, results: tuple[Atom, ...], alias: Aliases) -> Stm | None:
    """The histogram at `to` as additions by the map at `at`."""
    rows, e, m = stms[at].pat[0], stms[to].exp, stms[at].exp
    assert isinstance(e, ir.Hist)
    if type(m) is not ir.Map or not isinstance(rows.type, ArrayType) or len(shape_of(rows.type)) < 2:
        return None
    if any(isinstance(v.type, AccType) for v in (*m.operands(), *m.lam.free())):
        return None
    adds = operator_of(e.lam)
    if not ADDS(adds is not None and adds.op == "add"):
        return None
    uses = [v for j, s in enumerate(stms) if j != to for v in ir.stm_free(s)]
    if not ADDED_ALONE(rows not in uses and rows not in results and e.operands().count(rows) == 1):
        return None
    between = stms[at + 1 : to]
    read = [*m.operands(), *m.lam.free()]
    if not NOT_WRITTEN(not overwritten(read, between, alias) and not any(alias.share(e.dests[0], v) for v in read)):
        return None
    if not IN_ORDER(all(map(total, m.lam.stms)) or all(total(s) or _zeros(s, read) for s in between)):
        return None
    dest = e.dests[0].type
    whole, inner = (Var("rows_acc", AccType(elem_of(dest), shape_of(dest))) for _ in range(2))
    places = [Var("at", I64) for _ in e.idxs]
    added, after = Var("acc", whole.type), Var("rows_acc", whole.type)
    update = Stm((added,), ir.UpdateAcc(inner, tuple(places), m.lam.result[0]))
    body = Lambda((inner, *places, *m.lam.params), (*m.lam.stms, update), (added,))
    mapped = Stm((after,), ir.Map(m.width, (whole, *e.idxs, *m.arrays), body), stms[at].attrs)
    return Stm(stms[to].pat, ir.WithAcc(e.dests, "add", Lambda((whole,), (mapped,), (after,))), stms[to].attrs)


def _zeros(s: Stm, arrays: list[Atom]) -> bool:
    """Whether the statement makes an array of sizes that others have, which are not negative."""
    e = s.exp
    sizes = {n for v in arrays for n in shape_of(v.type)}
    return isinstance(e, ir.Replicate) and all(n in sizes if isinstance(n, Var) else n.value >= 0 for n in e.shape)


__all__ = ["added_rows"]
