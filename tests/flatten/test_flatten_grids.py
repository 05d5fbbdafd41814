"""What a device does with each statement is decided before anything is lowered: the record, its text, its check."""

from __future__ import annotations

import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.core.grid import Grid, Version, comparisons
from futad.core.parse import alpha_equal, parse_program
from futad.core.text import program_text
from futad.core.types import I64, Const
from futad.errors import InternalError
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import CUDA


def decided(source: str) -> ir.Program:
    """The program after the last pass of devices, checked, and read back from its text."""
    program = compile_program(compile_text(source, "main"), target=CUDA, check=True)
    again = parse_program(program_text(program))
    assert alpha_equal(again, program)
    check_program(again)
    return again


def grids(lam: ir.Lambda) -> list[Grid]:
    """The decisions of a scope and of the versions in it, in order."""
    out: list[Grid] = []
    for s in lam.stms:
        if s.grid is not None:
            out.append(s.grid)
            for v in s.grid.versions:
                out += grids(v.body) if v.body is not None else []
        if isinstance(s.exp, ir.Control):
            out += [g for f in s.exp.lambdas() for g in grids(f)]
    return out


def of(source: str) -> list[Grid]:
    return grids(decided(source).funs["main"].body)


FOLDS = {
    "entry main [n] (xs: [n]f64) = f64.sum xs": ["reduce"],
    "entry main [n] (xs: [n]f64) = scan (+) 0 xs": ["scan"],
    "entry main [n] (xs: [n]f64) = map (+ 1) xs": ["map"],
    "entry main [n] (xs: [n]f64) = loop x = 0 for i < n do f64.sin (x + xs[i])": ["one-thread"],
    "entry main [n][m] (xss: [n][m]f64) = reduce (map2 (+)) (replicate m 0) xss": ["scope", "map"],
    "entry main [n] (xs: [n]f64) (k: i64) = loop ys = copy xs for _i < k do map (* 2) ys": ["loop", "map"],
}


@pytest.mark.parametrize("source", FOLDS)
def test_each_statement_of_the_host_has_a_template(source: str) -> None:
    found = of(source)
    assert [g.template for g in found if g.template != "map"] == [t for t in FOLDS[source] if t != "map"]
    assert {g.template for g in found} == set(FOLDS[source])


def test_a_tile_of_a_scan_fits_into_shared_memory() -> None:
    (small,) = of("entry main [n] (xs: [n]f64) = scan (+) 0 xs")
    assert small.shared == 7 * 256 * 8  # of 16 KiB; an odd number of elements a thread


def test_elements_too_large_for_one_pass_are_scanned_in_chunks() -> None:
    fields = ", ".join(["f64"] * 13)
    names = [", ".join([f"{c}{i}" for i in range(13)]) for c in "ab"]
    sums = ", ".join([f"a{i} + b{i}" for i in range(13)])
    source = f"""
entry main [n] (xs: [n]({fields})) =
  scan (\\({names[0]}) ({names[1]}) -> ({sums})) ({", ".join(["0"] * 13)}) xs"""
    assert [g.template for g in of(source)] == ["scan-in-chunks"]


BINS = "entry main [n] (k: i64) (is: [n]i64) (xs: [n]f64) = "
HISTOGRAMS = {
    f"{BINS} reduce_by_index (replicate k 0) (+) 0 is xs": ["histogram: shared atomic"],
    f"{BINS} reduce_by_index (replicate k 0) (\\a b -> a + b + a * b) 0 is xs": [
        "histogram: sorted locks", "sort", "scan",
    ],
    f"""{BINS} unzip (reduce_by_index (replicate k (0, f64.inf)) (\\(a, b) (c, d) -> (a + c, f64.min b d))
      (0, f64.inf) is (zip xs xs))""": ["scope: bins-apart", *["histogram: shared atomic"] * 2],
    """entry main [n][m] (k: i64) (is: [n]i64) (xss: [n][m]f64) =
      reduce_by_index (replicate k (replicate m 1)) (map2 (\\a b -> a * b + a)) (replicate m 1) is xss""": [
        "histogram: locks"
    ],
}


@pytest.mark.parametrize("source", HISTOGRAMS)
def test_histograms_have_versions(source: str) -> None:
    found = [g for g in of(source) if g.template != "map"]
    versions = [" ".join([f"{g.template}:", *[v.level for v in g.versions]]).rstrip(":") for g in found]
    assert versions == HISTOGRAMS[source]


def broken(source: str, change: object) -> None:
    """The checker refuses the program after a change of its first decision."""
    program = decided(source)
    (stm,) = [s for s in program.funs["main"].body.stms if s.grid is not None][:1]
    assert stm.grid is not None and callable(change)
    change(stm.grid)
    with pytest.raises(InternalError):
        check_program(program)


REDUCE = "entry main [n] (xs: [n]f64) = f64.sum xs"
COUNTS = "entry main [n] (bins: *[5]i64) (is: [n]i64) = reduce_by_index bins (+) 0 is is"
COLUMNS = "entry main [n][m] (xss: [n][m]f64) = reduce (map2 (+)) (replicate m 0) xss"


@pytest.mark.parametrize(
    ("source", "change"),
    [
        (REDUCE, lambda g: setattr(g, "template", "tower")),
        (REDUCE, lambda g: setattr(g, "template", "scan")),
        (REDUCE, lambda g: setattr(g, "template", "map")),
        (REDUCE, lambda g: setattr(g, "space", ())),
        (REDUCE, lambda g: setattr(g, "space", (Const(I64, 3),))),
        (REDUCE, lambda g: setattr(g, "shared", 64 << 10)),
        (COUNTS, lambda g: setattr(g, "space", (*g.space, *g.space))),
        (COUNTS, lambda g: setattr(g, "versions", g.versions[:1])),
        (COUNTS, lambda g: setattr(g.versions[0], "level", "thread")),
        (COLUMNS, lambda g: setattr(g, "versions", ())),
        (COLUMNS, lambda g: setattr(g.versions[0], "when", "inner < BLOCK_INNER")),
        (COLUMNS, lambda g: setattr(g, "versions", (*g.versions, *g.versions))),
        (COLUMNS, lambda g: setattr(g, "versions", (Version("other", "inner < 3"), *g.versions))),
        (COLUMNS, lambda g: setattr(g, "versions", (Version("other", "points << 3"), *g.versions))),
        (COLUMNS, lambda g: setattr(g.versions[0].body, "result", ())),
        (COLUMNS, lambda g: setattr(g.versions[0].body, "stms", g.versions[0].body.stms[1:])),
    ],
)
def test_the_checker_refuses_a_decision_that_does_not_fit(source: str, change: object) -> None:
    broken(source, change)


def test_conditions_are_sums_of_products() -> None:
    left, op, right = [["inner"]], "<", [["BLOCK_INNER"]]
    assert comparisons("inner < BLOCK_INNER || points*32 <= work + 1 && inner < 8") == [
        [(left, op, right)],
        [([["points", "32"]], "<=", [["work"], ["1"]]), (left, "<", [["8"]])],
    ]
