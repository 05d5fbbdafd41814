"""Choices of devices: each forced and forbidden, on programs in which it is made, computes the same."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from futad import strategies as s
from futad.backend.cuda import DeviceBackend
from futad.cli.schedule import nests
from futad.core.check_grid import LEVELS
from futad.errors import UsageError
from futad.flatten.device_choices import BY_NAME, EVERY, OF_TEMPLATE
from futad.pipeline import compile_program
from futad.rewrite.choices import Choices
from futad.source import compile_text
from futad.target import CUDA, EMULATED
from tests.support.needs import needs_cxx
from tests.support.paths import ROOT
from tests.support.slow import slow_but

BENCHMARKS = ROOT / "benchmarks" / "programs"

HISTOGRAMS = """
entry few [n] (is: [n]i64) (xs: [n]f64) = reduce_by_index (replicate 3 0) (+) 0 is xs
entry many [n] (is: [n]i64) (xs: [n]f64) = reduce_by_index (replicate 5000 0) (+) 0 is xs
entry general [n] (is: [n]i64) (xs: [n]f64) = reduce_by_index (replicate 3 1) (*) 1 is xs
entry product [n] (is: [n]i64) (xs: [n]f64) =
  reduce_by_index (replicate 3 (0, 1)) (\\(a, b) (c, d) -> (a + c, b * d)) (0, 1) is (zip xs xs)
entry complex [n] (is: [n]i64) (xs: [n]f64) =
  reduce_by_index (replicate 3 (1, 0)) (\\(a, b) (c, d) -> (a * c - b * d, a * d + b * c)) (1, 0) is
                  (zip xs (map (+ 1) xs))
entry adjoint [n] (is: [n]i64) (xs: [n]f64) =
  vjp (\\ys -> map (\\i -> let x = ys[i] in x * x) is) xs (map (+ 1) xs)
"""
SORTS = """
entry sorted [n] (is: [n]i64) (xs: [n]f64) =
  vjp (\\ys -> reduce_by_index (replicate 4 1) (*) 1 is ys) xs [1, 2, 3, 4]
entry places [n] (is: [n]i64) (xs: [n]f64) =
  vjp (\\ys -> let (a, b) = reduce_by_index (replicate 3 (1, 0))
                            (\\(a, b) (c, d) -> (a * c - b * d, a * d + b * c)) (1, 0) is
                            (zip ys (map (+ 1) ys)) |> unzip
              in f64.sum a + f64.sum b) xs 1
entry scans [n] (is: [n]i64) (xs: [n]f64) =
  (scan (+) 0 xs, scan (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (zip xs (map f64.i64 is)) |> map (.1))
"""
PAIRS = """
entry distances [n][m][d] (xss: [n][d]f64) (yss: [m][d]f64): [n][m]f64 =
  map (\\xs -> map (\\ys -> f64.sum (map2 (\\x y -> (x - y) * (x - y)) xs ys)) yss) xss
entry nearest [n][m][d] (xss: [n][d]f64) (yss: [m][d]f64): [n]f64 =
  map (\\xs -> f64.minimum (map (\\ys -> f64.sum (map2 (\\x y -> (x - y) * (x - y)) xs ys)) yss)) xss
entry layer [n][m][d] (xss: [n][d]f64) (yss: [m][d]f64): [n][m]f64 =
  map (\\xs -> map (\\ys -> f64.tanh (f64.sum (map2 (*) (map (+ 1) xs) ys))) yss) xss
entry batch [n][m][d] (xss: [n][d]f64) (yss: [m][d]f64): [3][n][m]f64 =
  let xsss = map (\\k -> map (map (* f64.i64 k)) xss) (iota 3)
  in map (\\xss -> map (\\xs -> map (\\ys -> f64.sum (map2 (*) xs ys)) yss) xss) xsss
entry batches [n][m][d] (xss: [n][d]f64) (yss: [m][d]f64): [2][3][n][m]f64 =
  let xssss = map (\\i -> map (\\k -> map (map (* f64.i64 (i + k))) xss) (iota 3)) (iota 2)
  in map (map (\\xss -> map (\\xs -> map (\\ys -> f64.sum (map2 (*) xs ys)) yss) xss)) xssss
entry bias [n][m][d] (xss: [n][d]f64) (yss: [m][d]f64) =
  vjp (\\(w, b) -> f64.sum (map (\\xs -> f64.sum (map2 (\\ys c -> f64.tanh (f64.sum (map2 (*) xs ys) + c)) w b)) xss))
      (yss, replicate m 0.5) 1
"""
ROWS = """
entry rows [n][m] (xss: [n][m]f64): [n]f64 = map (\\xs -> f64.sum (map (\\x -> x * x) xs)) xss
entry whole [n][m] (xss: [n][m]f64): f64 = f64.sum (map (\\xs -> f64.sum (map (** 3) xs)) xss)
entry columns [n][m] (xss: [n][m]f64): [m]f64 = map f64.sum (transpose xss)
entry scanned [n][m] (xss: [n][m]f64): [n][m]f64 = map (scan (+) 0) xss
entry folds [n][m] (xss: [n][m]f64): [n](f64, f64) =
  map (\\xs -> let a = f64.sum xs in (a, f64.sum (map (\\x -> (x - a) * (x - a)) xs))) xss
entry loops [n][m] (xss: [n][m]f64) (k: i64): [n]f64 =
  map (\\xs -> f64.sum (loop ys = xs for _i < k do map2 (+) ys (rotate 1 ys))) xss
entry outside [n][m] (xss: [n][m]f64): [n][m]f64 =
  map (\\xs -> loop ys = xs for _i < 3 do let s = f64.sum ys in map (\\y -> y + 1 / (1 + s * s)) ys) xss
entry matrices [n][m] (xss: [n][m]f64): (f64, f64, f64, f64) =
  reduce (\\a b -> let c = [[a.0, a.1], [a.2, a.3]] let d = [[b.0, b.1], [b.2, b.3]]
                   let e = map (\\r -> map (\\q -> f64.sum (map2 (*) r q)) (transpose d)) c
                   in (e[0, 0], e[0, 1], e[1, 0], e[1, 1])) (1, 0, 0, 1) (map (\\x -> (x[0], x[1], 1, 0.5)) xss)
entry powers [n][m] (xss: [n][m]f64): [2][2]f64 =
  reduce (\\a b -> map (\\r -> map (\\q -> f64.sum (map2 (*) r q)) (transpose b)) a) [[1, 0], [0, 1]]
         (map (\\x -> [[x[0], 0.5], [0.25, x[1]]]) xss)
entry shaped [n][m] (xss: [n][m]f64): [n][2]f64 =
  map (\\xs -> map (\\p -> p[0] * p[1]) (unflatten (xs[:4] :> [2 * 2]f64))) xss
entry twice [m][n] (xss: [m][n]f64): [n]f64 =
  map (\\xs -> let a = f64.sum xs in f64.sum (map (\\x -> f64.exp (x - a)) xs)) (transpose xss)
entry written [n][m] (xss: [n][m]f64): [n][4]f64 = map (\\xs -> [xs[0], xs[1] * 2, xs[0] + xs[1], 7]) xss
entry own [n][m] (xss: [n][m]f64): [n]f64 =
  map (\\xs -> let ys = loop ys = copy xs for i < m - 1 do ys with [i + 1] = ys[i] * 0.5 + ys[i + 1]
               in ys[m - 1] * ys[0]) xss
entry arrays [n][m] (xss: [n][m]f64): [m]f64 = reduce (map2 (+)) (replicate m 0) xss
entry one [n][m] (xss: [n][m]f64): f64 = loop a = 0 for i < n do if xss[i, 0] > 0 then a * 0.5 + xss[i, 1] else a - 1
"""

TEXTS = {
    "histograms": HISTOGRAMS, "sorts": SORTS, "pairs": PAIRS, "rows": ROWS,
    "kmeans": (BENCHMARKS / "kmeans.fut").read_text(), "gmm": (BENCHMARKS / "gmm.fut").read_text(),
}  # fmt: skip


def arguments(program: str, n: int) -> dict[str, list[Any]]:
    """Those of each entry that is run, for one size."""
    rng = np.random.default_rng(17)
    entries = re.findall(r"^entry (\w+)", TEXTS[program], re.MULTILINE)
    if program in ("histograms", "sorts"):
        values = rng.normal(size=n)
        inside = [rng.integers(0, max(n, 1), n), values]
        given = [rng.integers(-1, 5, n), values]
        return {name: inside if name == "adjoint" else given for name in entries}
    if program == "pairs":
        return dict.fromkeys(entries, [rng.normal(size=(n, 9)), rng.normal(size=(n // 2, 9))])
    if program == "rows":
        xss = rng.normal(size=(n, 5))
        return {name: [xss, 3] if name == "loops" else [xss] for name in entries}
    if program == "kmeans":
        return {"gradient": [rng.normal(size=(n, 3)), rng.normal(size=(4, 3))]}
    k, d = 3, 4
    shapes = [(k,), (k, d), (k, d * (d + 1) // 2), (n, d)]
    return {"gradient": [*[rng.normal(size=shape) for shape in shapes], 1.0, 2]}


def emitted(program: str, asked: str) -> str:
    """What the program becomes by a schedule, without the numbers of names."""
    made = s.parse_schedule(asked)
    aimed = replace(EMULATED, choices=Choices(made.nests))
    core = compile_program(compile_text(TEXTS[program], "p.fut"), target=aimed, schedule=made)
    device = DeviceBackend(core, target=aimed)
    return re.sub(r"_\d+\b", "_", f"{device.source}\n{device.host}")


@cache
def printed(program: str) -> str:
    """What `futad dev --schedule` prints of the nests."""
    return nests(compile_text(TEXTS[program], "p.fut"), s.default(), EMULATED)


def done(text: str) -> set[str]:
    """The choices that are made in some nest."""
    lines = [x.partition(" --")[0].partition(": ")[2] for x in text.splitlines() if x.startswith("nest")]
    return {name.strip() for line in lines for name in line.split(";")}


def same(mine: Any, other: Any) -> None:
    if isinstance(mine, tuple):
        for a, b in zip(mine, other, strict=True):
            same(a, b)
    else:
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)


def test_every_way_to_run_a_statement_has_a_name() -> None:
    levels = {level for of in LEVELS.values() for level in of}
    assert levels | {*OF_TEMPLATE.values()} <= set(BY_NAME) and len(BY_NAME) == len(EVERY)
    page = (ROOT / "docs" / "strategies.md").read_text()
    assert [c.name for c in EVERY if f"`{c.name}`" not in page] == []


# Not made unless it is asked for: f16's products, scans of large elements and rows that are reshaped are elsewhere.
ASKED_FOR = {"three-passes", "elements", "rows-reshaped", "map-then-folds", "rows-in-shared-memory"}


@pytest.mark.slow
def test_every_choice_is_made_and_told() -> None:
    told = {p: printed(p) for p in ("histograms", "sorts", "pairs", "rows")}
    assert set(BY_NAME) - set().union(*map(done, told.values())) == ASKED_FOR
    for text in told.values():
        assert "  -- refused " in text and not re.search(r"refused [^:]*: *$", text, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("program", slow_but(["sorts"], ["histograms", "sorts", "pairs", "rows", "kmeans", "gmm"]))
def test_what_is_printed_asks_for_the_same_code(program: str) -> None:
    plain = DeviceBackend(compile_program(compile_text(TEXTS[program], "p.fut"), target=CUDA))
    assert re.sub(r"_\d+\b", "_", f"{plain.source}\n{plain.host}") == emitted(program, "")
    assert emitted(program, printed(program)) == emitted(program, "")


@needs_cxx
@pytest.mark.slow(apart=True)
@pytest.mark.parametrize("program", [*TEXTS])
def test_every_choice_forced_and_forbidden_computes_the_same(program: str) -> None:
    expected = {}
    plain = futad.compile(TEXTS[program], "p.fut", backend="c")
    for n in (0, 1, 13, 37):  # 13: pairs with 6, which narrow tiles are for
        expected[n] = {name: plain.entries[name](*args) for name, args in arguments(program, n).items()}
    seen: dict[str, str] = {}
    for asked in [f'nest "*": {no}{c.name}\n' for c in EVERY for no in ("", "no ")]:
        seen.setdefault(emitted(program, asked), asked)
    assert len(seen) > 4
    for asked in seen.values():
        made = futad.compile(TEXTS[program], "p.fut", backend="emulated", schedule=asked)
        for n, results in expected.items():
            for name, args in arguments(program, n).items():
                try:
                    same(made.entries[name](*args), results[name])
                except AssertionError as e:
                    raise AssertionError(f"{asked.strip()}, {name}, {n} rows: {e}") from None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "line", "asked", "cause"),
    [
        ("rows", "entry rows", "columns", "'columns' is impossible .*: its rows are no columns in memory"),
        ("rows", "entry rows", "product", "'product' is impossible for the nest .*: it has thread"),
        ("rows", "entry rows", "tiles", "'tiles' is impossible .*: it is no fold of all pairs of rows"),
        ("rows", "entry rows", "interleaved", "'interleaved' is impossible .*: its threads have no arrays"),
        ("rows", "entry rows", "sub-histograms", "'sub-histograms' is impossible .*: it does more than few scalar"),
        ("rows", "entry arrays", "no folds-by-columns ; no folds-of-arrays", "and no other is always right"),
        ("rows", "entry rows", "colums", "devices have no choice 'colums'"),
        ("rows", "entry rows", "thread(2)", "devices have no choice 'thread.2.'"),
        ("pairs", "entry bias", "no large-tiles ; no sums-in-parts ; no small-tiles", "one shape of tiles is needed"),
        ("pairs", "entry bias", "narrow-tiles", "'narrow-tiles' is impossible .*: it is no fold of pairs of rows"),
        ("histograms", "entry few", "locks", "'locks' is impossible .*: its operator is atomic"),
        ("histograms", "entry few", "no atomic", "and no other is always right"),
    ],
)
def test_impossible_choices_are_errors_with_the_reason(program: str, line: str, asked: str, cause: str) -> None:
    lines = TEXTS[program].splitlines()
    at = next(k for k, text in enumerate(lines, 1) if re.match(line, text))
    with pytest.raises(UsageError, match=cause):
        emitted(program, f'nest "p.fut:{at}": {asked}\n')


@pytest.mark.slow
def test_a_choice_for_one_nest_leaves_others_alone() -> None:
    """Nests of one line are numbered; the choice of the first one is not the second one's."""
    every = re.findall(r'^nest "(p\.fut:\d+(?:#\d+)?)": .*\bdeferred-arrays\b', printed("pairs"), re.MULTILINE)
    assert len(every) > 1
    texts = {emitted("pairs", f'nest "{name}": no deferred-arrays\n') for name in every}
    assert len(texts | {emitted("pairs", "")}) == len(every) + 1
