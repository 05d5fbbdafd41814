"""Parallel constructs with an attribute that asks for loops become loops, for backends on which that is slower.

    #[sequential] map ..          a loop, and so is everything inside
    #[sequential_outer] map ..    a loop around what is parallel inside
    #[sequential_inner] map ..    parallel, with loops inside

`#[flattening(only_inner)]` means `sequential_outer`.

`map`, `reduce`, `scan` and what they are fused to are meant; `scatter` and histograms stay as they are.
"""

from __future__ import annotations

from functools import partial

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import I64, AccType, Atom, Var, elem_of, shape_of

FLATTENING = (("flattening",), ("incremental_flattening",))
Fold = tuple[Lambda, ir.Atoms]


def attributes(stm: Stm) -> frozenset[str]:
    """The names of a statement's attributes, that of a meaning they share for one that has another."""
    names = [a[0] for a in stm.attrs if isinstance(a, tuple) and a]
    if any("only_inner" in a for a in stm.attrs if isinstance(a, tuple) and a[:1] in FLATTENING):
        names.append("sequential_outer")
    return frozenset(names)


def sequentialise(program: Program) -> Program:
    """The program with these loops; functions without such attributes stay the same objects."""
    return ir.map_bodies(program, lambda body: _scope(body, False))


def _scope(lam: Lambda, inside: bool) -> Lambda:
    out: list[Stm] = []
    for s in lam.stms:
        names = attributes(s)
        everything = inside or "sequential" in names
        s = ir.map_scopes(s, partial(_scope, inside=everything or "sequential_inner" in names))
        out += as_loop(s) if everything or "sequential_outer" in names else [s]
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


def as_loop(s: Stm) -> list[Stm]:
    """A map, reduction or scan, fused ones too, one element after the other; any other statement as it is."""
    return _loop(s, s.exp) if isinstance(s.exp, ir.Screma) else [s]


def _loop(s: Stm, e: ir.Screma) -> list[Stm]:
    accs = [a for a in e.arrays if isinstance(a.type, AccType)]
    totals = [x for f in e.scans for x in f.neutral]
    sums = [x for f in e.reduces for x in f.neutral]
    parts = e.parts(s.pat)
    scanned, mapped = parts.folded[: len(totals)], parts.mapped
    i = Var("i", I64)
    rooms = [Var("room", v.type) for v in (*scanned, *mapped)]
    starts = [ir.Scratch(elem_of(v.type), shape_of(v.type)) for v in rooms]
    b = Builder()
    # Loop variables: accumulators, the arrays that are filled, totals of scans, reductions.
    now_accs = [Var("acc", a.type) for a in accs]
    now_rooms = [Var(v.name, v.type) for v in (*scanned, *mapped)]
    now_folds = [Var("sum", x.type) for x in (*totals, *sums)]
    given = iter(now_accs)
    elements = [next(given) if isinstance(a.type, AccType) else b.at(a, i) for a in e.arrays]
    values = list(b.inline(e.mapper, elements)) if e.mapper is not None else elements
    after, values = values[: len(accs)], values[len(accs) :]
    folded: list[Atom] = []
    for f in e.folds:
        k = len(f)
        folded += b.inline(f.lam, [*now_folds[len(folded) : len(folded) + k], *values[:k]])
        values = values[k:]
    filled = [
        b.let(ir.Update(room, (i,), x), room.name)
        for room, x in zip(now_rooms, [*folded[: len(totals)], *values], strict=True)
    ]
    body = Lambda((i, *now_accs, *now_rooms, *now_folds), tuple(b.stms), (*after, *filled, *folded))
    rest = [Var("total", x.type) for x in totals]
    pat = (*parts.accs, *scanned, *mapped, *rest, *parts.folded[len(totals) :])
    made = [Stm((v,), start) for v, start in zip(rooms, starts, strict=True)]
    return [*made, Stm(pat, ir.For(e.width, (*accs, *rooms, *totals, *sums), body), s.attrs)]


__all__ = ["as_loop", "attributes", "sequentialise"]
