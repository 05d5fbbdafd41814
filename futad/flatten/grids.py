"""How a device runs what the host meets: decided here, once, before anything is lowered (`core/grid.py`).

The pass goes over the scopes that the host runs.  Each statement in them that can be run in more than one way gets its
`Grid`; statements that are run by way of others get these as the body of a version, decided in turn.  Lowering follows.
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.grid import Grid, Version
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import AccType, ArrayType, Prim, Type, elem_of, shape_of
from futad.flatten import fission, prepare
from futad.flatten import kernel as kir
from futad.flatten.all_pairs import all_pairs_of
from futad.flatten.chosen import chosen
from futad.flatten.flat_folds import flat
from futad.flatten.fused_products import ELEMENTS, is_batch, one_batch
from futad.flatten.histogram_versions import histogram_grid
from futad.flatten.map_versions import Deciding, Note, map_grid
from futad.flatten.narrow_loops import narrow
from futad.flatten.sequential import parallel_inside, works
from futad.flatten.tree_folds import in_iterations
from futad.flatten.update_sums import sums_first
from futad.rewrite.choices import Choices
from futad.rewrite.ranges import is_index

TILE_BYTES = 16 << 10  # of a scan's tile in shared memory
SCANNED = 96  # bytes of what one scan can carry along


def decided(program: Program, choices: Choices | None = None) -> Program:
    """The program with the decisions for all scopes that the host runs; `choices`: what a schedule asks of nests."""
    if choices is None:
        return ir.map_bodies(program, lambda body: scope(body, program))
    notes: dict[Stm, Note] = {}
    made = ir.map_bodies(program, lambda body: _scope(body, Deciding(program, _scope, notes=notes)))
    return chosen(made, choices, notes)


def scope(lam: Lambda, program: Program) -> Lambda:
    """A scope that the host runs, with what is decided."""
    return _scope(lam, Deciding(program, _scope))


def _scope(lam: Lambda, d: Deciding) -> Lambda:
    d.indices.update(s.pat[0] for s in lam.stms if is_index(s.exp))
    return Lambda(lam.params, tuple([_statement(s, d) for s in lam.stms]), lam.result)


def _statement(s: Stm, d: Deciding, without: frozenset[str] = frozenset()) -> Stm:
    """A statement that the host runs, with what is decided; `without`: not by these choices (`device_choices.py`)."""
    e = s.exp
    grid = None
    why: dict[str, str] = {}
    match e:
        case ir.Screma() if is_batch(s) and "product" not in without:
            grid = _product(s, e, d)
        case ir.Screma():
            grid = _screma(s, e, d, without, why)
        case ir.Hist():
            grid = histogram_grid(s, e, d)
        case ir.MatMul():
            tiled = elem_of(e.a.type).name in ELEMENTS and "product" not in without
            # f16: products are not worth a tile of their own
            grid = Grid("product") if tiled else Grid("elements")
        case ir.ArgSort():
            grid = Grid("one-thread" if "radix-sort" in without else "sort")
        case ir.Loop() if "one-thread" not in without and _by_one_thread(s, e, d.program):
            grid = Grid("one-thread")
        case ir.Control():
            s = ir.map_scopes(s, lambda f: _scope(f, d))
            if isinstance(e, ir.Loop) and parallel_inside(e.body, d.program):
                grid = _loop(s, d.program)
    if grid is None:
        return s
    made = Stm(s.pat, s.exp, s.attrs, grid)
    if d.notes is not None and not without:
        plain = s
        d.notes[made] = Note(why, lambda names: _statement(plain, d, names))
    return made


def _product(s: Stm, e: ir.Screma, d: Deciding) -> Grid:
    why = "maps products over a batch, in tiles unless an operand is neither in memory nor computed by a nest of maps"
    return Grid("product", otherwise=_screma(s, e, d), why=why)


# --- maps and folds ---------------------------------------------------------------------------------------------------


def _screma(
    s: Stm, e: ir.Screma, d: Deciding, without: frozenset[str] = frozenset(), why: dict[str, str] | None = None
) -> Grid:
    """How a map or fold is run, not by the choices `without`; `why`: reasons against others."""
    found = all_pairs_of(s) if "tiles" not in without else None
    if found is not None and isinstance(found.inner, ir.Map):
        return Grid("tiles", (e.width, found.inner.width, found.fold.width))
    ways = (
        ("one-batch", lambda x: one_batch(x) or [x]), ("rows-reshaped", prepare.reshaped),
        ("updates-as-sums", lambda x: sums_first(x, d.indices) or [x]),
        ("one-fold", lambda x: flat(x) or [x]), ("map-then-folds", fission.split),
    )  # fmt: skip
    for way, instead in ways:
        stms = instead(s) if way not in without else [s]
        if len(stms) > 1 or stms[0] is not s:
            return _other(way, stms, s, d)
    if _of_arrays(e):
        stms = [x for y in ir.unfused(s) for x in fission.interchange(y) or [y]]
        if len(stms) > 1 and "folds-by-columns" not in without:
            return _other("folds-by-columns", stms, s, d)
        if isinstance(e, ir.Reduce | ir.Scan):
            return _other("folds-of-arrays", in_iterations(s), s, d)
        return _other("folds-by-columns", stms, s, d)
    if e.folds:
        return _fold(e, without)
    assert isinstance(e, ir.Mapping)
    return map_grid(s, e, d, without, {} if why is None else why)


WHY = {
    "one-batch": "batches of batches of products are one",
    "rows-reshaped": "rows are reshaped outside of the map",
    "updates-as-sums": "updates of one place are summed first",
    "one-fold": "folds of folds are one fold",
    "map-then-folds": "a map in which more is parallel, then folds of its results",
    "folds-by-columns": "folds of columns",
    "folds-of-arrays": "no kernel folds arrays",
}


def _other(way: str, stms: Sequence[Stm], s: Stm, d: Deciding) -> Grid:
    """Other statements in place of one."""
    return Grid("scope", versions=(Version(way, body=d.instead(stms, s)),), why=WHY[way])


def _of_arrays(e: ir.Screma) -> bool:
    """Whether a fold is of arrays."""
    return any(not isinstance(a.type, Prim) for f in e.folds for a in f.neutral)


def _fold(e: ir.Screma, without: frozenset[str]) -> Grid:
    """A fold over one dimension; see Note [Folds] in `folds.py`."""
    if not e.scans:
        return Grid("reduce", (e.width,))
    size = tuple_bytes([a.type for f in e.folds for a in f.neutral])
    if size > SCANNED:
        return Grid("scan-in-chunks", (e.width,), why="too large elements for one pass, so three")
    if "one-pass" in without:
        return Grid("scan-in-chunks", (e.width,), why="the schedule says so")
    items = max(1, TILE_BYTES // (kir.TILE_THREADS * size))
    items -= items > 1 and items % 2 == 0  # odd numbers keep threads out of each other's banks
    return Grid("scan", (e.width,), shared=items * kir.TILE_THREADS * size)


def tuple_bytes(types: Sequence[Type]) -> int:
    """The size of a struct of scalars."""
    at = most = 0
    for t in types:
        assert isinstance(t, Prim)
        at = -(-at // t.bytes) * t.bytes + t.bytes
        most = max(most, t.bytes)
    return -(-at // most) * most


# --- loops ------------------------------------------------------------------------------------------------------------


def _by_one_thread(s: Stm, e: ir.Loop, program: Program) -> bool:
    """Whether a loop of scalars and single elements runs as one thread on the device, and not on the host."""
    unknown = set(s.pat)
    return (
        not parallel_inside(e.body, program)
        and any(isinstance(v.type, ArrayType) or works(e.body) for v in s.pat)
        and not any(isinstance(v.type, AccType) or unknown & {*shape_of(v.type)} for v in s.pat)
    )


def _loop(s: Stm, program: Program) -> Grid:
    """A loop with something parallel inside; see Note [One block] in `narrow_loops.py`."""
    found = narrow(s, program)
    by_host = Version("by-host")
    if found is None:
        return Grid("loop", versions=(by_host,), why="what an iteration does is not bounded by sizes known before")
    when = f"work <= ONE_BLOCK*{found.fewest}"
    return Grid("loop", work=tuple(found.work), versions=(Version("one-block", when), by_host))


__all__ = ["decided", "scope", "tuple_bytes"]
