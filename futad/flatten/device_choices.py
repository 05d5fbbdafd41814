"""What a device can do with a nest, by name: what a user's schedule may ask for or forbid (docs/strategies.md).

Choices of one group exclude each other.  Of the group `way` a statement is run by one, or the host picks one by sizes;
of the group `tiles` the host picks one for each product; any other choice is a group of its own, done or not.

Most ways are versions of grids, decided by the pass `grids`.  What depends on where arrays lie is decided while a
program is lowered, which asks `permitted` and tells the nest what became of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from futad.core.grid import Grid
from futad.errors import UsageError
from futad.rewrite.choices import Choice, Nest
from futad.rewrite.words import nearest

WAY, TILES = "way", "tiles"
ANOTHER = "another one is asked for"


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """A choice: `what` it does; the `templates` of grids for which it is tried; `otherwise`: why it is not done, where
    nothing else is known.  `late`: it is decided while the program is lowered."""

    name: str
    what: str
    templates: tuple[str, ...]
    otherwise: str
    group: str = WAY
    late: bool = False


def _map(name: str, what: str, otherwise: str, late: bool = False) -> DeviceChoice:
    return DeviceChoice(name, what, ("map",), otherwise, late=late)


def _scope(name: str, what: str, otherwise: str) -> DeviceChoice:
    return DeviceChoice(name, what, ("scope",), otherwise)


_FLAT = "nothing in a point is parallel, and wide enough for a block"
_PRODUCTS = ("product", "tiles", "map")
EVERY = [
    # maps
    _map("loop", "a loop on the host around a map", "it is no map of loops that are alike in all points, and wide"),
    _map("thread", "a thread a point", "its rows are shared out by threads already"),
    _map("columns", "rows that are columns in memory, in parts for all threads", "it is no map of reductions alike"),
    _map("parts", "few long rows, cut into parts", "it is no map of reductions alike"),
    _map("one-scan", "few long rows, scanned as one array", "it is no map of one scan"),
    _map("folds", "few long rows, fold by fold", "it is no map of several folds, or cannot be distributed over them"),
    _map("warp", "a warp a point", f"{_FLAT}, or points are known to be few"),
    _map("block", "a block a point", _FLAT),
    _map("distributed", "its statements, each a kernel", "its statements have one dimension, or need each other"),
    _map("sub-histograms", "its updates are added up in shared memory", "it does more than few scalar updates", True),
    _map("rows-in-shared-memory", "rows, and sums of them, in shared memory", "it adds no rows at dear places", True),
    DeviceChoice("tiles", "folds of all pairs of rows", ("tiles", "map"), "it is no fold of all pairs of rows"),
    # folds, and what becomes of statements before they are run
    DeviceChoice("reduce", "chunks, one a block", ("reduce",), "it is no reduction of scalars"),
    DeviceChoice("one-pass", "a scan with look-back", ("scan", "scan-in-chunks"), "it is no scan of scalars"),
    DeviceChoice("three-passes", "a scan of chunks", ("scan", "scan-in-chunks"), "one pass is faster"),
    _scope("one-batch", "products over batches of batches as one batch", "it is no map of maps of products"),
    _scope("rows-reshaped", "rows are reshaped outside of the map", "it is no map that reshapes rows"),
    _scope("updates-as-sums", "updates of one place as sums", "its updates have places of their own, or are no nest"),
    _scope("one-fold", "folds of folds as one over all elements", "it is no fold of folds by one operator"),
    _scope("map-then-folds", "a map, then folds of its results", "nothing in an element of its folds is parallel"),
    _scope("folds-by-columns", "folds of arrays as maps of folds", "it is no fold of arrays by a map over them"),
    _scope("folds-of-arrays", "log2 n maps over pairs", "its elements are scalars, or folded by columns"),
    # histograms, sorts, loops
    DeviceChoice("bins-apart", "one for each array", ("histogram",), "it has one array, or its operator is not atomic"),
    DeviceChoice("shared", "sub-histograms", ("histogram",), "its operator has no atomic operation"),
    DeviceChoice("atomic", "an atomic operation an update", ("histogram",), "its operator has no atomic operation"),
    DeviceChoice("sorted", "updates sorted by bin", ("histogram",), "its operator is atomic, or on arrays"),
    DeviceChoice("locks", "a lock a bin", ("histogram",), "its operator is atomic"),
    DeviceChoice("radix-sort", "count, scan, scatter over the grid", ("sort", "one-thread"), "it is no sort"),
    DeviceChoice("one-block", "a loop by one block, in one launch", ("loop",), "iterations are not known to be narrow"),
    DeviceChoice("by-host", "a loop by the host, a launch a statement", ("loop",), "nothing in it is parallel"),
    DeviceChoice("one-thread", "one thread of the device", ("sort", "one-thread"), "the grid is faster"),
    # products
    DeviceChoice("product", "a matrix product in tiles", ("product",), "it is no matrix product"),
    DeviceChoice("elements", "a thread an element of the product", ("product", "elements"), "tiles are faster"),
    *[
        DeviceChoice(name, what, _PRODUCTS, "no product in tiles is made", TILES, late=True)
        for name, what in (
            ("narrow-tiles", "for few columns and many rows"), ("large-tiles", "for many tiles"),
            ("sums-in-parts", "few tiles of long sums"), ("small-tiles", "for few tiles"),
        )
    ],
    DeviceChoice(
        "deferred-arrays", "it computes its operands, the nest over it, sums of rows", ("product",),
        "nothing around it is cheap and used by it alone", "deferred-arrays", late=True,
    ),
    # memory
    DeviceChoice(
        "by-columns", "its rows lie by columns in memory", ("map",),
        "threads make no rows of it, or what reads them wants them by rows", "by-columns", late=True,
    ),
    DeviceChoice(
        "transposed-copies", "arrays are turned round before it", ("map",),
        "its threads read what is side by side, or once", "transposed-copies", late=True,
    ),
    DeviceChoice(
        "rows-by-warps", "rows of its threads are written by warps", ("map",),
        "no thread writes whole rows of 3 to 64 elements, by rows", "rows-by-warps", late=True,
    ),
    DeviceChoice(
        "interleaved", "arrays of each thread's own lie side by side", ("map", "one-thread"),
        "its threads have no arrays of their own that lie in one piece", "interleaved", late=True,
    ),
]  # fmt: skip
BY_NAME = {c.name: c for c in EVERY}
OF_TEMPLATE = {
    "scan": "one-pass", "scan-in-chunks": "three-passes", "sort": "radix-sort", "tiles": "tiles", "reduce": "reduce",
    "one-thread": "one-thread", "product": "product", "elements": "elements",
}  # fmt: skip


def known(c: Choice) -> Choice:
    """A choice of devices.  Raises UsageError if there is none of its name, or it takes no numbers."""
    if c.name not in BY_NAME or c.args:
        raise UsageError(f"devices have no choice '{c}'", hint=nearest(c.name, [*BY_NAME]))
    return replace(c)


def way_of(grid: Grid | None) -> str | None:
    """The choice that a grid is as a whole; None if its versions are."""
    if grid is None:
        return None
    return grid.versions[0].level if grid.template == "scope" else OF_TEMPLATE.get(grid.template)


def ways(nest: Nest) -> set[str]:
    """The ways that are asked for."""
    return {c.name for c in nest.forced if BY_NAME[c.name].group == WAY}


def permitted(nest: Nest, name: str) -> bool:
    """Whether a schedule leaves a choice; if not, that is noted as the reason against it."""
    if not nest.allows(name):
        return False
    forced = {c.name for c in nest.forced if BY_NAME[c.name].group == BY_NAME[name].group}
    if forced and name not in forced:
        nest.was_not(name, ANOTHER)
        return False
    return True


def left(nest: Nest | None, names: Sequence[str]) -> list[str]:
    """Those of some choices that a schedule leaves."""
    return [x for x in names if nest is None or permitted(nest, x)]


__all__ = ["BY_NAME", "EVERY", "WAY", "DeviceChoice", "known", "left", "permitted", "way_of", "ways"]
