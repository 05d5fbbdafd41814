"""Maps one after another, a tile of their width at a time.

    for i < n: a[i] = f(x[i])
    for i < n: b[i] = g(a[i], a[i - 1])
  becomes, for each tile [s, e) of the width,
    { for i in [s - 1, e): t[i - s + 1] = f(x[i]); for i in [s, e): b[i] = g(t[i - s + 1], t[i - s]) }

so that what one map writes and the next one reads is still in the nearest cache, and what nobody else reads is never
written to memory at all.

Note [Tiles]
~~~~~~~~~~~~~
Each tile computes all that it reads of arrays made on the way (`t`, on the stack), so a map goes over as many
iterations more at either end as later maps look beyond theirs.  No tile then reads what another one writes, and the
tiles may be done in any order, by several threads.  What is also needed afterwards is written by the tile whose
iteration it is: straight to its place if no map looks at it from beside, else copied from `t`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from futad.core.types import I64, Prim
from futad.imp import ir
from futad.imp.ir import ZERO, Expr, Num, Ref, add, num, sub
from futad.imp.loops.facts import Affine, LoopFacts
from futad.imp.node import Node
from futad.imp.walk import blocks, has_load, loads_in, parts, rewritten, statements, substitute
from futad.legality import Legality
from futad.rewrite.choices import Nest

LEGAL = Legality(
    "overlapped-tiling",
    "maps that follow each other run a tile of their width at a time, in any order of the tiles",
    worth="what lies between maps stays in the cache: the ODE's gradient of 1,000,000 elements 57 to 26 ms",
)
READS_NOTHING = LEGAL.condition("between reads nothing", "what comes before the maps now reads what one of them writes")
USED_HERE = LEGAL.condition("used by the maps only", "what is never written to memory is read there")
STEPS = LEGAL.condition("places beside", "a tile has not computed the place that it reads")
STRAIGHT = LEGAL.condition("each place by one iteration", "a tile reads or writes what another one writes")
FILLED = LEGAL.condition("filled by the maps", "the tiles' parts are not all of the array")
DISJOINT = LEGAL.condition("memory disjoint", "what is written to memory is in another array that the maps use")
WRITTEN_FIRST = LEGAL.condition("written before read", "what was in the array before is read")

LENGTHS = (2048, 1024, 512)  # iterations of a tile
BUFFERS = 32 << 10  # bytes of all buffers, if that leaves any of these lengths
MOST = 4 * BUFFERS  # and in any case
BESIDE = 64  # iterations more at an end
MAPS = 32  # that are done together


def tiled(f: ir.Function, asked: Mapping[ir.Pieces, Nest] = MappingProxyType({})) -> list[ir.Report]:
    """Do the function's maps in tiles where they follow each other, and make all maps plain loops; the reports of
    arrays that are then nowhere as a whole, which are gone.  `asked`: the nests of maps that a schedule asks of."""
    names = _Names()
    if any(sum(isinstance(s, (ir.Pieces, ir.Threads)) for s in b) > 1 for b in blocks(f.body)):
        for p in (*f.params, *f.results):
            names.count(p)
        names.add(f.body)
    gone: list[ir.Report] = []
    _walk(f.body, names, gone, asked)
    return gone


@dataclass(slots=True)
class _Names:
    """How often statements have each name, and the sizes of arrays in slots."""

    counts: Counter[str] = field(default_factory=Counter)
    sizes: dict[str, Expr] = field(default_factory=dict)

    def add(self, body: Sequence[ir.Stmt]) -> None:
        for s in statements(body):
            if not isinstance(s, ir.Report):
                self.count(s)
            if isinstance(s, ir.Ensure):
                self.sizes[s.name] = s.count

    def count(self, x: Node) -> None:
        self.counts.update(x.names())
        for part in parts(x):
            self.counts.update(part.names())


def _walk(
    body: list[ir.Stmt], names: _Names, gone: list[ir.Report], asked: Mapping[ir.Pieces, Nest]
) -> None:
    done: list[ir.Stmt] = []
    at = 0
    while at < len(body):
        run = _run(body, at)
        lengths = range(0)
        if len(run) > 1 and (made := _made(run)):
            for m in run:
                m.look()
            # Without an array of their own all maps have nothing to gain, nor have fewer.
            lengths = range(len(run), 1, -1) if _private(run, made, names) else lengths
        tries = (_tiles(run[:k], names) for k in lengths)
        if (found := next((t for t in tries if t is not None), None)) is not None:
            LEGAL.fired()
            for nest in [asked[s] for s in body[at : found.end] if isinstance(s, ir.Pieces) and s in asked]:
                nest.was(LEGAL.name)
            done += found.statements
            gone += found.gone
            at = found.end
            continue
        s = body[at]
        at += 1
        for inner in s.bodies():
            _walk(inner, names, gone, asked)
        if isinstance(s, ir.Pieces):
            if s in asked:
                asked[s].was_not(LEGAL.name, "no map follows that reads what this one makes, or tiles would not gain")
            done += s.body
        else:
            done.append(s)
    body[:] = done


# --- what could be done together ----------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Access:
    """A load or store of a map: the pointer, and the place by how it moves with the iteration."""

    pointer: str
    place: Affine | None
    stores: bool
    elem: Prim


@dataclass(slots=True, eq=False)
class _Map:
    """A map, maybe on several threads, and the statements before it since the last one, `reports` apart.  `end`: the
    position after it; `ends`: how many iterations more are done at either end."""

    pieces: ir.Pieces
    before: list[ir.Stmt]
    end: int
    threads: ir.Threads | None = None
    parallel: ir.Parallel | None = None
    loops: list[ir.For] = field(default_factory=list)
    accesses: list[_Access] = field(default_factory=list)
    names: _Names = field(default_factory=_Names)
    ends: tuple[int, int] = (0, 0)
    reports: list[ir.Report] = field(default_factory=list)

    def look(self) -> None:
        """Find the loops, and what they do."""
        whole: dict[str, Expr] = {}
        if self.parallel is not None:
            whole = {self.parallel.start: ZERO, self.parallel.end: self.pieces.width}
        for s in self.pieces.body:
            if isinstance(s, ir.Decl):
                assert s.init is not None
                self.before.append(ir.Decl(s.name, s.type, substitute(s.init, whole)))
            else:
                assert isinstance(s, ir.For)
                self.loops.append(replace(s, start=substitute(s.start, whole), bound=substitute(s.bound, whole)))
        for loop in self.loops:
            facts = LoopFacts(loop.var, loop.body)
            for s in loop.body:
                for x in loads_in(s):
                    self.accesses.append(_Access(x.pointer, facts.place(x.index), False, x.type))
                if isinstance(s, ir.Store):
                    self.accesses.append(_Access(s.pointer, facts.place(s.index), True, s.value.type))

        self.names.add(self.loops)

    def reads(self, pointer: str) -> list[_Access]:
        return [a for a in self.accesses if a.pointer == pointer and not a.stores]

    def writes(self, pointer: str) -> list[_Access]:
        return [a for a in self.accesses if a.pointer == pointer and a.stores]


def _run(body: list[ir.Stmt], at: int) -> list[_Map]:
    """The maps from here on, with nothing between them that has to stay there."""
    run: list[_Map] = []
    before: list[ir.Stmt] = []
    reports: list[ir.Report] = []
    literals: set[str] = set()
    while at < len(body) and len(run) < MAPS:
        s = body[at]
        made = None
        if isinstance(s, ir.Pieces):
            made = _Map(s, before, at + 1)
        elif isinstance(s, ir.Threads) and at + 1 < len(body):
            p = body[at + 1]
            if isinstance(p, ir.Parallel) and p.dynamic and len(p.body) == 1 and isinstance(p.body[0], ir.Pieces):
                made = _Map(p.body[0], before, at + 2, s, p)
        if made is not None:
            if isinstance(made.pieces.width, Num) or (run and (run[0].threads is None) != (made.threads is None)):
                return run
            made.reports = reports
            run.append(made)
            before, reports = [], []
            at = made.end
        elif isinstance(s, ir.Report) and (run or before):
            reports.append(s)
            at += 1
        elif (run or before or isinstance(s, ir.Ensure)) and _may_go_first(s, literals):
            before.append(s)
            at += 1
        else:
            return run
    return run


def _may_go_first(s: ir.Stmt, literals: set[str]) -> bool:
    """Whether the statement can as well come before all maps that were before it; `literals`: small arrays that such
    statements make."""
    match s:
        case ir.Ensure(slot=slot):
            return isinstance(slot, int)
        case ir.Pointer(base=base):
            return base is not None
        case ir.Decl() | ir.Check():
            return READS_NOTHING(not has_load(s))
        case ir.Store(pointer):
            return pointer in literals and not has_load(s)
        case ir.Stack(name):
            literals.add(name)
            return True
        case ir.Seq(body):
            return not body
    return False


# --- doing it -----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Tiles:
    statements: list[ir.Stmt]
    end: int
    gone: list[ir.Report] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Buffer:
    """Where a tile keeps an array: from position `low` relative to the tile on, so many `more` elements than it has
    iterations.  `size`: that of the array, if it is also needed afterwards."""

    name: str
    elem: Prim
    low: int
    more: int
    size: Expr | None


def _tiles(run: Sequence[_Map], names: _Names) -> _Tiles | None:
    """The maps in tiles; None if they cannot be done so, or nothing would be gained."""
    before = [s for m in run for s in m.before]
    made = _made(run)
    written = {a.pointer for m in run for a in m.accesses if a.stores}
    fresh = {p for p in written if WRITTEN_FIRST(not next(m for m in run if m.reads(p) or m.writes(p)).reads(p))}
    private = _private(run, fresh & made, names)
    if not private or not all(a.pointer in m.pieces.memory for m in run for a in m.accesses):
        return None
    kept: dict[str, Expr] = {}
    while True:
        _look_beside(run, private, kept)
        wrong = {p for p in written - private - kept.keys() if not STRAIGHT(_straight(run, p))}
        if not wrong:
            break
        for p in wrong:
            size = names.sizes.get(p)
            if p not in fresh or size is None or not STEPS(_steps(run, p)):
                return None
            if not FILLED(_fills(run, p, size, p in made)):
                return None
            kept[p] = size
    if any(low < -BESIDE or high > BESIDE for low, high in (m.ends for m in run)):
        return None
    if not DISJOINT(_disjoint(run, written - private, private)):
        return None
    buffers = {p: _buffer(run, p, kept.get(p)) for p in (*sorted(private), *sorted(kept))}
    first = [s for s in before if not (isinstance(s, ir.Ensure) and s.name in private)]
    if any(isinstance(s, ir.Ensure) and s.name not in written for s in first):
        return None
    tiles = _emit(run, first, buffers)
    if tiles is not None:
        _report(run, private, tiles)
    return tiles


def _report(run: Sequence[_Map], private: set[str], tiles: _Tiles) -> None:
    """Report after the tiles what the maps made, unless it is not there or has been overwritten."""
    for k, m in enumerate(run):
        later = {a.pointer for x in run[k:] for a in x.accesses if a.stores}
        for r in m.reports:
            if r.pointer in private | later:
                tiles.gone.append(r)
            else:
                tiles.statements.append(r)


def _made(run: Sequence[_Map]) -> set[str]:
    """The arrays whose memory is had among the maps."""
    return {s.name for m in run for s in m.before if isinstance(s, ir.Ensure)}


def _private(run: Sequence[_Map], made: set[str], names: _Names) -> set[str]:
    """Which of these arrays nothing but the maps uses."""
    inside = {p: sum(m.names.counts[p] for m in run) for p in made}
    return {p for p in made if USED_HERE(names.counts[p] == inside[p] + 1) and STEPS(_steps(run, p))}


def _steps(run: Sequence[_Map], p: str) -> bool:
    """Whether the array is only used at places a constant away from the iteration."""
    used = [a.place for m in run for a in m.accesses if a.pointer == p]
    return all(x is not None and x.scale == 1 and x.invariant == ZERO for x in used)


def _fills(run: Sequence[_Map], p: str, size: Expr, unspecified: bool) -> bool:
    """Whether the maps go over all of the array, and none reads what was there before."""
    first = next(m for m in run if m.writes(p))
    whole = first.pieces.width == size and all(w.place == Affine(1, 0) for w in first.writes(p))
    return (unspecified or whole) and any(m.pieces.width == size for m in run)


def _straight(run: Sequence[_Map], p: str) -> bool:
    """Whether the maps may use the array where it lies: nothing is done twice, and at each place by one iteration."""
    users = [m for m in run if m.reads(p) or m.writes(p)]
    places = [a.place for m in users for a in m.accesses if a.pointer == p]
    if any(m.ends != (0, 0) for m in users):
        return False
    if len(users) == 1 and not users[0].reads(p):
        return True
    return places[0] is not None and places[0].scale != 0 and all(x == places[0] for x in places)


def _look_beside(run: Sequence[_Map], private: set[str], kept: Collection[str]) -> None:
    """Set how far each map goes beyond the tile for what later ones read, and for the tile's part of what is kept."""
    for k in reversed(range(len(run))):
        low = high = 0
        for w in run[k].accesses:
            if not w.stores or not (w.pointer in private or w.pointer in kept):
                continue
            readers = [(m.ends, r.place) for m in run[k + 1 :] for r in m.reads(w.pointer)]
            if w.pointer in kept:
                readers.append(((0, 0), Affine(1, 0)))
            for ends, place in readers:
                assert w.place is not None and place is not None
                shift = place.constant - w.place.constant
                low, high = min(low, ends[0] + shift), max(high, ends[1] + shift)
        run[k].ends = low, high


def _disjoint(run: Sequence[_Map], written: set[str], private: set[str]) -> bool:
    """Whether what is written to memory is in none of the other arrays."""
    memory: dict[str, frozenset[Any]] = {}
    for m in run:
        for a in m.accesses:
            memory[a.pointer] = memory.get(a.pointer, frozenset()) | m.pieces.memory[a.pointer]
    return not any(memory[p] & memory[q] for p in written for q in memory if q != p and q not in private)


def _buffer(run: Sequence[_Map], p: str, size: Expr | None) -> _Buffer:
    lows, highs = [], []
    for m in run:
        for w in m.writes(p):
            assert w.place is not None
            lows.append(w.place.constant + m.ends[0])
            highs.append(w.place.constant + m.ends[1])
            elem = w.elem
    return _Buffer(f"{p}_tile", elem, min(lows), max(highs) - min(lows), size)


def _emit(run: Sequence[_Map], first: list[ir.Stmt], buffers: dict[str, _Buffer]) -> _Tiles | None:
    size = sum(b.elem.bits // 8 for b in buffers.values())
    length = next((n for n in LENGTHS if n * size <= BUFFERS), LENGTHS[-1])
    if length * size > MOST:
        return None
    widths = list(dict.fromkeys(m.pieces.width for m in run))
    width = functools.reduce(functools.partial(_bound, "max"), widths)
    if len(widths) > 1:
        first.append(ir.Decl(f"{run[0].loops[0].var}_width", I64, width))
        width = Ref(f"{run[0].loops[0].var}_width", I64)
    var = run[0].loops[0].var
    start, end = Ref(f"{var}_tile", I64), Ref(f"{var}_end", I64)
    parallel = run[0].parallel
    last: Expr = width if parallel is None else Ref(parallel.end, I64)
    body: list[ir.Stmt] = [ir.Decl(end.name, I64, _bound("min", add(start, num(length)), last))]
    body += [ir.Stack(b.name, b.elem, length + b.more) for b in buffers.values()]
    for m in run:
        low, high = add(start, num(m.ends[0])), add(end, num(m.ends[1]))
        for loop in m.loops:
            body += _part(loop, low, high, [_moved(s, start, buffers) for s in loop.body])
    for p, b in buffers.items():
        if b.size is not None:
            i = Ref(f"{b.name}_i", I64)
            copy = ir.Store(p, i, ir.Load(b.name, _place(i, start, b), b.elem))
            body += _part(ir.For(i.name, b.size, [], independent=True), start, end, [copy])
    tiles = ir.For(start.name, last, body, ZERO if parallel is None else Ref(parallel.start, I64), step=length)
    if parallel is None:
        return _Tiles([*first, tiles], run[-1].end)
    work: Expr = ZERO
    extra: Expr = ZERO
    for m in run:
        assert m.threads is not None
        work, extra = add(work, m.threads.work), add(extra, m.threads.extra)
    threads = ir.Threads(parallel.threads, width, work, extra)
    return _Tiles([*first, threads, replace(parallel, steps=width, body=[tiles], maps=len(run))], run[-1].end)


def _part(loop: ir.For, low: Expr, high: Expr, body: list[ir.Stmt]) -> list[ir.Stmt]:
    """The loop's iterations in [low, high)."""
    bounds = _bound("max", loop.start, low), _bound("min", loop.bound, high)
    names = [Ref(f"{loop.var}_{what}", I64) for what in ("low", "high")]
    decls: list[ir.Stmt] = [ir.Decl(r.name, I64, e) for r, e in zip(names, bounds, strict=True)]
    single = loop.bound == ir.ONE  # not worth vectors
    return [*decls, replace(loop, start=names[0], bound=names[1], body=body, independent=not single)]


def _bound(op: str, a: Expr, b: Expr) -> Expr:
    return ir.Scalar(op, (a, b), I64, I64)


# --- rewriting ----------------------------------------------------------------------------------------------


def _moved(s: ir.Stmt, start: Expr, buffers: dict[str, _Buffer]) -> ir.Stmt:
    """The statement with its loads and stores in buffers where there are such."""

    def load(e: Expr) -> Expr:
        if isinstance(e, ir.Load) and (b := buffers.get(e.pointer)) is not None:
            return ir.Load(b.name, _place(e.index, start, b), e.type)
        return e

    s = s.map_exprs(lambda e: rewritten(e, load))
    if isinstance(s, ir.Store) and (b := buffers.get(s.pointer)) is not None:
        return replace(s, pointer=b.name, index=_place(s.index, start, b))
    return s


def _place(index: Expr, start: Expr, b: _Buffer) -> Expr:
    """The place in the buffer of an array's element."""
    return add(sub(index, start), num(-b.low))
