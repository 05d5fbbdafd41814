"""In which versions a device runs a map: what Note [Nests] in `nests.py` says, decided.

The host takes the first of a map's versions whose condition holds:

    loop         a loop on the host around a map, where points are few and iterations wide (`interchange.py`)
    thread       a thread does a point, one after the other what is parallel in it
    columns      rows that are columns of a matrix, in parts for all threads (`segments.py`)
    parts        few long rows, cut into parts; `one-scan`: scanned as one array; `folds`: fold by fold
    warp, block  the threads of a warp, or of a block, share out what is parallel in a point
    distributed  the map's statements, each a kernel or several (`fission.py`, `row_scatter.py`); `tiles`: folds of all
                 pairs of rows (`all_pairs.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from futad.core import ir
from futad.core.grid import Grid, Version
from futad.core.ir import Lambda, Program, Stm
from futad.core.nest import Nest
from futad.core.types import I64, AccType, Atom, Const, Var, shape_of
from futad.fires import asking
from futad.flatten import fission, segments
from futad.flatten.all_pairs import all_pairs_of, peeled
from futad.flatten.flat_folds import flat_inside
from futad.flatten.interchange import loop_out
from futad.flatten.kernel import BLOCK_LIMIT, FEW_BINS, WARP
from futad.flatten.levels import MOST_LEVELS, levels_of
from futad.flatten.row_scatter import rows_after

UNKNOWN_INNER = 64  # assumed for an inner width that the host does not know
ALL = ("loop", "thread", "columns", "parts", "one-scan", "folds", "warp", "block")
LONG_ROWS = 8  # times as many elements as a thread does at most make a row worth several blocks
FEW_ROWS = 128  # a number of points up to here that is known is done by blocks at once
LARGE_COLUMNS = 16  # times as many elements as threads make columns worth a launch for their parts
HEAVY = 8  # elements that one element of a row does, one after the other, make few points worth a warp each
SMALL_INNER = 8  # inner widths up to here are not worth a block

MANY = "ENOUGH_THREADS < points"
WIDE = f"{MANY} && inner < LONG_INNER"
SHORT = "inner < BLOCK_INNER"
BUSY = f"{SHORT} && ENOUGH_THREADS*inner <= points*{WARP}"  # with a warp a point, of which `inner` threads work
BY_WARPS = f"inner < WARP_INNER && ENOUGH_THREADS < points*{WARP}"
FEW_LONG = f"points < ENOUGH_TILES && LONG_INNER*{LONG_ROWS} <= inner"
LARGE = f"ENOUGH_THREADS*{LARGE_COLUMNS} < points*inner"
HARDLY_ANY = f"points*{BLOCK_LIMIT} < ENOUGH_THREADS && LONG_INNER < inner"
NEIGHBOURS = f"{SHORT} && points*inner <= {FEW_BINS}*work"


@dataclass(frozen=True, slots=True)
class Note:
    """What has been found out of a statement: reasons against choices (`device_choices.py`); `again` decides it without
    choices of these names."""

    why: dict[str, str]
    again: Callable[[frozenset[str]], Stm]


@dataclass(frozen=True, slots=True)
class Deciding:
    """What is being decided: `scope` decides another scope that the host runs.  `cut_up`: rows are in parts already.
    `distributed`: the map has been, so that its rows can be put in parts.  `by_threads`: maps of which each point is
    done by a thread, whatever is inside."""

    program: Program
    scope: Callable[[Lambda, Deciding], Lambda]
    cut_up: bool = False
    distributed: bool = False
    by_threads: frozenset[Stm] = field(default=frozenset())
    notes: dict[Stm, Note] | None = None  # of each statement, where a schedule is asked for
    indices: set[Var] = field(default_factory=set)  # arrays of 0, 1, and so on

    def instead(self, stms: Sequence[Stm], s: Stm, params: tuple[Var, ...] = ()) -> Lambda:
        """Other statements that bind what a statement binds, decided."""
        return self.scope(Lambda(params, tuple(stms), s.pat), self)


def flattening(s: Stm) -> frozenset[str]:
    """What an attribute says about the versions to make: `flattening(no_intra)` and the like."""
    named = ("flattening", "incremental_flattening")
    return frozenset([str(x) for a in s.attrs if isinstance(a, tuple) and a and a[0] in named for x in a[1:]])


def map_grid(s: Stm, e: ir.Mapping, d: Deciding, without: frozenset[str], why: dict[str, str]) -> Grid:
    """The versions of a map, not those `without`; `why`: reasons against others."""
    nest = levels_of(e.lam)
    space = (e.width, *[m.width for m in nest.maps])
    inner, least = _inner(s, nest)
    wide = bool(inner or least)

    def grid(*versions: Version | None, work: tuple[ir.Atoms, ...] = (), reason: str = "") -> Grid:
        there = tuple([v for v in versions if v is not None])
        return Grid("map", space, inner, least, work, versions=there, why=reason)

    thread = Version("thread")
    rows = segments.rows_of(s, nest) if d.distributed and wide else None
    if rows is not None:
        why |= dict.fromkeys(ALL, "it is one of the folds that the map around is done by")
        return grid(_in_parts(s, rows, replace(d, distributed=False)))
    modes = flattening(s) if wide and not d.cut_up else frozenset()
    with asking() as told:
        apart, when, work = _distributed(s, nest, d, without)
    if told.why:
        why["distributed"] = told.why
    if apart is None and wide and not nest.inner:
        apart, when, work = _rows_after(s, e, d)
    if modes:
        why |= dict.fromkeys(ALL, f"the attribute says {', '.join(sorted(modes))}")
    elif apart is not None:
        why |= dict.fromkeys(ALL, "it is distributed")
    elif s in d.by_threads:
        why |= dict.fromkeys(ALL, "each thread has a part of a column")
    elif d.cut_up and wide:
        why |= dict.fromkeys(ALL, "its rows are cut into parts, a block each")
    if apart is not None and ("no_outer" in modes or not when):
        return grid(apart, work=work)
    if not modes.isdisjoint(("only_intra", "no_outer")) and "no_intra" not in modes:
        only = grid(*_by_blocks(space))
        only.otherwise = grid(thread)
        return only
    if apart is not None:
        return grid(Version("thread", when), apart, work=work)
    if s in d.by_threads:
        return grid(thread, reason="each thread has a part of a column")
    if not wide or "no_intra" in modes:
        return grid(thread)
    if d.cut_up:
        return grid(Version("block"))
    with asking() as told:
        loop = loop_out(s) if not nest.inner and not modes else None
    if told.why:
        why["loop"] = told.why
    outside = Version("loop", HARDLY_ANY, d.instead(loop, s)) if loop is not None else None
    # Few points are worth several threads, though few.
    narrow = WIDE if _long_elements(nest.body) else BUSY if _heavy_elements(nest.body) else SHORT
    columns = _by_columns(s, nest, d) if not modes else None
    thread = Version("thread", f"{narrow} || {WIDE}")
    if columns is not None:
        thread = Version("thread", f"{narrow} || {MANY}", spare=thread.when)
    return grid(outside, thread, columns, _cut_up(s, e, nest, d), *_by_blocks(space))


def _inner(s: Stm, nest: Nest) -> tuple[ir.Atoms, int]:
    """How wide the parallel work in the innermost body is: sizes that are known outside, and the least that it is
    besides (0: not worth a block)."""
    inside = {v for lam in s.exp.lambdas() for v in bound_in(lam)}
    known: list[Atom] = []
    widest = 0
    for w in fission.widths(nest.body):
        if isinstance(w, Const):
            widest = max(widest, int(w.value))
        elif w in inside:
            widest = max(widest, UNKNOWN_INNER)
        else:
            known.append(w)
    return tuple(known), widest if widest > SMALL_INNER else 0


def bound_in(lam: Lambda) -> set[Var]:
    """What a scope, and those in it, bind."""
    out = {*lam.params}
    for s in ir.statements(lam.stms):
        out.update(s.pat)
        out.update(p for f in s.exp.lambdas() for p in f.params)
    return out


def _by_blocks(space: ir.Atoms) -> list[Version]:
    """A block a point, or as these are short a warp if there are enough of them."""
    points = 1
    for n in space:
        points *= int(n.value) if isinstance(n, Const) else FEW_ROWS
    return [Version("warp", BY_WARPS), Version("block")] if points >= FEW_ROWS else [Version("block")]


def _long_elements(lam: Lambda) -> bool:
    """Whether something parallel inside has loops of unknown length in each element."""
    return any(
        isinstance(s.exp, ir.Soac) and any(fission.looping(f) for f in s.exp.lambdas()) for s in lam.stms
    )


def _heavy_elements(lam: Lambda) -> bool:
    """Whether each element of something parallel inside does as much as `HEAVY` elements, one after the other."""
    inside = [f for s in lam.stms if isinstance(s.exp, ir.Soac) for f in s.exp.lambdas()]
    return any(fission.elements(f, UNKNOWN_INNER) >= HEAVY for f in inside)


Part = tuple[Version | None, str, tuple[ir.Atoms, ...]]
"""A version, when the one by threads is better, and the `work` that this depends on."""


def _distributed(s: Stm, nest: Nest, d: Deciding, without: frozenset[str]) -> Part:
    """The map distributed over its body's statements, None if that is not possible or there is no need."""
    deep = fission.deep(nest.body) or _long_elements(nest.body)
    if not deep and not fission.summed(nest.body):
        return None, "", ()
    tiled = "tiles" not in without
    whole = all_pairs_of(s) if tiled else None
    if whole is not None:
        work: tuple[ir.Atoms, ...] = ((whole.inner.width, whole.fold.width),)
        return Version("tiles"), f"{MANY} && work < BLOCK_INNER", work
    peel = peeled(s) if tiled and not nest.inner else None
    if peel is not None:
        stms, pairs, loops = peel
        work = tuple([(p.inner.width, p.fold.width) for p in pairs])
        terms = [*(["BLOCK_INNER"] if loops else []), *(["work"] if work else [])]  # loops are long
        return Version("distributed", body=d.instead(stms, s)), f"{MANY} && {' + '.join(terms)} < BLOCK_INNER", work
    whole_folds = flat_inside(s) if "one-fold" not in without else None
    if whole_folds is not None:
        return Version("distributed", body=d.instead(whole_folds, s)), MANY, ()
    found = segments.as_one_sort(s) or fission.distribute(s)
    # However many threads there are, those that update one place wait for each other.
    when = MANY if deep else ""
    return (Version("distributed", body=d.instead(found, s)) if found is not None else None), when, ()


def _rows_after(s: Stm, e: ir.Mapping, d: Deciding) -> Part:
    """Rows that are added to accumulators.  Updates that contend go by way of shared memory, as neighbours."""
    stms = rows_after(s)
    if stms is None:
        return None, "", ()
    acc = next(a for a in e.arrays if isinstance(a.type, AccType))
    return Version("distributed", body=d.instead(stms, s)), NEIGHBOURS, (shape_of(acc.type),)


def _in_parts(s: Stm, rows: segments.Rows, d: Deciding, when: str = "") -> Version:
    """Rows by several blocks each."""
    d = replace(d, cut_up=True)
    if rows.scans:
        return Version("one-scan", when, d.scope(segments.as_one_scan(rows), d))
    count, size = Var("parts", I64), Var("part", I64)
    return Version("parts", when, d.instead(segments.in_parts(rows, count, size), s, (count, size)))


def _cut_up(s: Stm, e: ir.Mapping, nest: Nest, d: Deciding) -> Version | None:
    """Several blocks a point, where points are few and long (`segments.py`), fold by fold."""
    if not isinstance(e, ir.Map):
        return None
    rows = segments.rows_of(s, nest)
    if rows is not None:
        return _in_parts(s, rows, d, FEW_LONG)
    stms = _fold_by_fold(s, e) if not nest.inner else None
    if stms is None:
        return None
    return Version("folds", FEW_LONG, replace(d, cut_up=True, distributed=True).instead(stms, s))


def _fold_by_fold(s: Stm, e: ir.Map) -> list[Stm] | None:
    """A map distributed over its body's statements, with the folds apart from what is mapped beside them."""
    stms: list[Stm] = []
    for x in e.lam.stms:
        beside = isinstance(x.exp, ir.Fused) and len(x.pat) > sum(map(len, x.exp.folds))
        stms += fission.map_and_folds(x) if beside else [x]
    lam = Lambda(e.lam.params, tuple(stms), e.lam.result)
    return fission.distribute(Stm(s.pat, ir.Map(e.width, e.arrays, lam), s.attrs))


def _by_columns(s: Stm, nest: Nest, d: Deciding) -> Version | None:
    """Reductions of columns, which are neighbours in memory, in as many parts as there are threads for."""
    rows = segments.rows_of(s, nest)
    if rows is None or rows.scans or nest.depth == MOST_LEVELS:
        return None
    count, size = Var("parts", I64), Var("part", I64)
    stms = segments.in_parts(rows, count, size, columns=True)
    own = set(s.pat)  # of none, where a map asserts something and no more
    parts = frozenset([x for x in stms if isinstance(x.exp, ir.Map) and x.pat and own.isdisjoint(x.pat)])
    body = replace(d, cut_up=True, by_threads=parts).instead(stms, s, (count, size))
    return Version("columns", f"{LARGE} || {FEW_LONG}", body)


__all__ = ["Deciding", "map_grid"]
