"""`futad.vmap` beside the map somebody would write in the language, and beside calls one by one.

    python benchmarks/batches.py [--backend B] [--runs N] [--only NAME...] [--json OUT]

For five programs and their gradients: medians of CPU time on one processor, all of a row in turn; answers are compared
first.  Wanted: at most 1.1 of the map that is written, and never slower than calls one by one.  Exit status 1 if an
answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cases import gmm, hand, kmeans, lstm
from imported import leaves, times

import futad

PROGRAMS = Path(__file__).resolve().parent / "programs"
ROOTS = """
def root (x: f64): f64 =
  loop y = x / 3 + 1 while f64.abs (y * y * y - x) > 1e-12 * x do y - (y * y * y - x) / (3 * y * y)
entry objective (x: f64): f64 = root x
"""
# The arguments that differ from one of a batch to the next, and the maps of value and gradient in the language.
MAPS = {
    "root": ((0,), """
entry values [c] (xs: [c]f64): [c]f64 = map root xs
entry slopes [c] (xs: [c]f64): [c]f64 = map (\\x -> vjp root x 1) xs
"""),
    "kmeans": ((1,), """
entry values [n][k][d][c] (points: [n][d]f64) (cs: [c][k][d]f64): [c]f64 = map (cost points) cs
entry slopes [n][k][d][c] (points: [n][d]f64) (cs: [c][k][d]f64): [c][k][d]f64 = map (\\x -> vjp (cost points) x 1) cs
"""),
    "gmm": ((0, 1, 2), """
entry values [n][d][k][l][c] (as: [c][k]f64) (ms: [c][k][d]f64) (is: [c][k][l]f64) (x: [n][d]f64) (gamma: f64) (m: i64)
    : [c]f64 = map3 (\\a u i -> log_likelihood a u i x gamma m) as ms is
entry slopes [n][d][k][l][c] (as: [c][k]f64) (ms: [c][k][d]f64) (is: [c][k][l]f64) (x: [n][d]f64) (gamma: f64) (m: i64)
    : [c]([k]f64, [k][d]f64, [k][l]f64) =
  map3 (\\a u i -> vjp (\\(a, u, i) -> log_likelihood a u i x gamma m) (a, u, i) 1) as ms is
"""),
    "lstm": ((5, 6), """
entry values [t][b][d][h][o][c] (wx: [4][h][d]f32) (wh: [4][h][h]f32) (bias: [4][h]f32) (wy: [o][h]f32) (by: [o]f32)
    (hs: [c][b][h]f32) (ss: [c][b][h]f32) (inputs: [t][b][d]f32) (targets: [t][b][o]f32): [c]f32 =
  map2 (\\h s -> loss wx wh bias wy by h s inputs targets) hs ss
entry slopes [t][b][d][h][o][c] (wx: [4][h][d]f32) (wh: [4][h][h]f32) (bias: [4][h]f32) (wy: [o][h]f32) (by: [o]f32)
    (hs: [c][b][h]f32) (ss: [c][b][h]f32) (inputs: [t][b][d]f32) (targets: [t][b][o]f32)
    : [c]([b][h]f32, [b][h]f32) =
  map2 (\\h s -> vjp (\\(h, s) -> loss wx wh bias wy by h s inputs targets) (h, s) 1) hs ss
"""),
    "hand": ((8,), """
def square [n] (xs: [n][3]f64): f64 = f64.sum (map (\\r -> r[0] * r[0] + r[1] * r[1] + r[2] * r[2]) xs)
def error [b][v][c] (parents: [b]i32) (relatives: [b][4][4]f64) (inverses: [b][4][4]f64) (positions: [v][4]f64)
    (weights: [v][b]f64) (mirrored: bool) (correspondences: [c]i32) (points: [c][3]f64) (theta: [26]f64): f64 =
  square (simple {parents, relatives, inverses, positions, weights, mirrored} correspondences points theta)
entry objective [b][v][c] (parents: [b]i32) (relatives: [b][4][4]f64) (inverses: [b][4][4]f64) (positions: [v][4]f64)
    (weights: [v][b]f64) (mirrored: bool) (correspondences: [c]i32) (points: [c][3]f64) (theta: [26]f64): f64 =
  error parents relatives inverses positions weights mirrored correspondences points theta
entry values [b][v][c][m] (parents: [b]i32) (relatives: [b][4][4]f64) (inverses: [b][4][4]f64) (positions: [v][4]f64)
    (weights: [v][b]f64) (mirrored: bool) (correspondences: [c]i32) (points: [c][3]f64) (thetas: [m][26]f64): [m]f64 =
  map (error parents relatives inverses positions weights mirrored correspondences points) thetas
entry slopes [b][v][c][m] (parents: [b]i32) (relatives: [b][4][4]f64) (inverses: [b][4][4]f64) (positions: [v][4]f64)
    (weights: [v][b]f64) (mirrored: bool) (correspondences: [c]i32) (points: [c][3]f64) (thetas: [m][26]f64)
    : [m][26]f64 =
  map (\\x -> vjp (error parents relatives inverses positions weights mirrored correspondences points) x 1) thetas
"""),
}  # fmt: skip
WANTED = 1.1


def program(name: str, backend: str) -> futad.Program:
    text = ROOTS if name == "root" else (PROGRAMS / f"{name}.fut").read_text()
    return futad.compile(text + MAPS[name][1], f"{name} in batches", backend=backend)


def batch(name: str) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Arguments of the map, and those of each call."""
    r = np.random.default_rng(20)
    if name == "root":
        xs = 1 + 1000 * r.random(1000) ** 6  # of different numbers of turns
        return (xs,), [(x,) for x in xs]
    case = {"kmeans": lambda: kmeans(10, 2000, 8), "gmm": lambda: gmm(200, 5, 5), "lstm": lambda: lstm(4, 5, 8, 8),
            "hand": lambda: hand(300, 50, False)}[name]()  # fmt: skip
    varied, count = MAPS[name][0], 16
    many = {i: np.stack([case.args[i] * (1 + 0.1 * r.random()) for _ in range(count)]).astype(case.args[i].dtype)
            for i in varied}  # fmt: skip
    every = tuple([many.get(i, a) for i, a in enumerate(case.args)])
    return every, [tuple([many[i][k] if i in many else a for i, a in enumerate(case.args)]) for k in range(count)]


def measured(name: str, backend: str, runs: int) -> list[dict[str, Any]]:
    p, varied = program(name, backend), MAPS[name][0]
    every, each = batch(name)
    axes = [0 if i in varied else None for i in range(len(every))]
    slope = futad.grad(p.objective, varied if len(varied) > 1 else varied[0])
    rows = []
    for what, f, written in (("value", p.objective, p.values), ("gradient", slope, p.slopes)):
        mapped = futad.vmap(f, axes)
        calls = [lambda m=mapped: m(*every), lambda w=written: w(*every), lambda f=f: [f(*args) for args in each]]
        made, by_hand = leaves(calls[0]()), leaves(calls[1]())
        ones = [np.stack(parts) for parts in zip(*[leaves(y) for y in calls[2]()], strict=True)]
        pairs = zip(made * 2, by_hand + ones, strict=True)
        error = max([float(np.abs(x - y).max() / np.abs(y).max()) for x, y in pairs])
        rows.append({"name": name, "what": what, "error": error, "f32": made[0].dtype == np.float32,
                     "seconds": times(calls, runs, 0.5)})  # fmt: skip
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="c")
    parser.add_argument("--runs", type=int, default=9, help="timed rounds, at least (default 9)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these programs alone")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the measurements here")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    print(f"{'milliseconds':18} {'vmap':>9} {'map':>9} {'calls':>9} {'/ map':>8} {'/ calls':>8} {'error':>9}")
    rows = []
    for name in options.only or MAPS:
        for row in measured(name, options.backend, options.runs):
            rows.append(row)
            mine, written, calls = row["seconds"]
            print(f"{row['name'] + ', ' + row['what']:18} {1e3 * mine:9.3f} {1e3 * written:9.3f} {1e3 * calls:9.3f} "
                  f"{mine / written:8.2f} {mine / calls:8.2f} {row['error']:9.1e}", flush=True)  # fmt: skip
    limits = [min(WANTED * r["seconds"][1], r["seconds"][2]) for r in rows]
    slow = [f"{r['name']}, {r['what']}" for r, most in zip(rows, limits, strict=True) if r["seconds"][0] > most]
    print(f"above {WANTED} of the map, or slower than calls: {'; '.join(slow) or 'none'} (wanted: none)")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(not r["error"] <= (1e-4 if r["f32"] else 1e-10) for r in rows))


if __name__ == "__main__":
    sys.exit(main())
