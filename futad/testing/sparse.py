"""Sparse Jacobians and Hessians of random programs against the dense ones.

    python -m futad.testing.sparse [--first N] [--count N] [--backend B]

One program a seed: in turn one of those that the fuzzer compares backends with, a skeleton of an algorithm, and one of
maps that read near and far elements.  The pattern must hold every element of the dense matrix that is not zero, and
elements must agree to 1e-12 of the largest.  A line for each seed where they do not; the exit status is 1 if there is
any.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.api.derivatives import hessian, jacfwd
from futad.api.program import Function, compile
from futad.errors import ExecutionError
from futad.sparse import sparse_hessian
from futad.sparse.matrix import SparseMatrix
from futad.testing import skeletons
from futad.testing.programs import source

CLOSE = 1e-12


@dataclass(frozen=True, slots=True)
class Case:
    """A program with the entry `main`, its arguments, and those differentiated with respect to."""

    text: str
    args: tuple[Any, ...]
    argnums: tuple[int, ...]


def case(seed: int) -> Case:
    """The program of a seed."""
    return (_fuzzed, _skeleton, _local)[seed % 3](seed // 3)


def _fuzzed(seed: int) -> Case:
    text = source.source(seed)[0]
    wrapper = "\nentry main [n][k] (xs: [n]t) (ms: [n][k]t) (s: t): (t, [n]t, [k]t, t) = f xs ms s\n"
    r = np.random.default_rng(seed)
    return Case(text + wrapper, (r.normal(size=5), r.normal(size=(5, 3)), float(r.normal())), (0, 1, 2))


def _skeleton(seed: int) -> Case:
    names = list(skeletons.FAMILIES)
    made = skeletons.program(names[seed % len(names)], seed)
    r = np.random.default_rng(seed)
    sizes = {s: min(max(made.least.get(s, 1), 4), made.most.get(s, 99)) for s in made.sizes}
    args: list[Any] = []
    for p in made.params:
        shape = [sizes[d] if isinstance(d, str) else d for d in p.shape]
        if p.is_float:
            args.append(r.normal(size=shape) if shape else float(r.normal()))
        else:
            top = 2 if p.bound is None else sizes[p.bound] if isinstance(p.bound, str) else p.bound
            args.append(r.integers(0, top, shape or None))
    given = " ".join(f"({p.name}: {p.type})" for p in made.params)
    head = "".join(f"[{s}]" for s in made.sizes)
    results = ", ".join(made.result_types)
    passed = " ".join(p.name for p in made.params)
    entry = f"\nentry main {head} {given}: ({results}) = f@ {passed}\n"
    text = (skeletons.HEAD.format(t="f64") + made.text + entry).replace("@", "")
    return Case(text, tuple(args), tuple([i for i, p in enumerate(made.params) if p.is_float]))


def _local(seed: int) -> Case:
    """Maps whose iterations read rows of x, elements of y, their own of z: by their number, shifted, by indices."""
    g = random.Random(seed)
    n, m, k = g.randint(3, 9), g.randint(2, 6), g.randint(1, 7)

    def term(i: str) -> str:
        column = g.choice(["0", "1", "2", f"({i} % 3)"])
        row = g.choice([i, f"({i} + 1) % n", f"({i} + n - 1) % n", f"is[{i} % k]", "0"])
        x = g.choice([f"x[{row}, {column}]", f"y[{i} % m]", f"y[js[{i} % k]]", f"z[{row}]", f"c[{row}]"])
        return g.choice(["f64.sin {0}", "{0} ** 2", "({0} - 0.5)", "small {0}", "f64.max {0} 0"]).format(x)

    def body(i: str) -> str:
        terms = [term(i) for _ in range(g.randint(1, 4))]
        out = terms[0]
        for t in terms[1:]:
            out = f"{out} {g.choice('+-*')} {t}"
        return out

    shapes = {
        "[n]f64": lambda: f"tabulate n (\\i -> {body('i')})",
        "[k]f64": lambda: f"tabulate k (\\e -> let i = is[e] in {body('i')})",
        "[n][2]f64": lambda: f"tabulate n (\\i -> [{body('i')}, {body('i')}])",
        "[n][k]f64": lambda: f"tabulate_2d n k (\\i j -> ({body('i')}) * ({body('is[j]')}))",
        "[n][3]f64": lambda: "map (\\row -> let s = f64.sum row in map (\\e -> e * s) row) x",
        "f64": lambda: f"f64.sum (tabulate n (\\i -> {body('i')}))",
        "([n]f64, f64)": lambda: f"(map2 (*) z (tabulate n (\\i -> {body('i')})), c[0])",
    }
    kinds = [g.choice(list(shapes)) for _ in range(g.randint(1, 3))]
    text = "def small (x: f64): f64 = x / (1 + x * x)\n"
    text += "entry main [n][m][k] (x: [n][3]f64) (y: [m]f64) (z: [n]f64) (c: [n]f64) (is: [k]i64) (js: [k]i64): ("
    text += ", ".join(kinds) + ") = (" + ",\n  ".join([shapes[t]() for t in kinds]) + ")\n"
    r = np.random.default_rng(seed)
    args = (r.normal(size=(n, 3)), r.normal(size=m), r.normal(size=n), r.normal(size=n),
            r.integers(0, n, k), r.integers(0, m, k))  # fmt: skip
    argnums = g.choice([(0, 1, 2), (0,), (1, 0), (2,), (0, 1, 2, 3)])
    return Case(text, args, argnums)


def dense_jacobian(f: Function, argnums: tuple[int, ...], args: tuple[Any, ...]) -> Any:
    """The dense Jacobian as a matrix, by `jacfwd`."""
    blocks = jacfwd(f, argnums)(*args)
    outs = blocks if f.entry.result.kind == "tuple" else (blocks,)
    sizes = [np.size(args[i]) for i in argnums]
    rows: list[Any] = []

    def visit(part: Any) -> None:
        if part and isinstance(part[0], tuple):
            for p in part:
                visit(p)
        else:
            rows.append(np.concatenate([np.reshape(b, (-1, s)) for b, s in zip(part, sizes, strict=True)], axis=1))

    for out in outs:
        visit(out)
    return np.concatenate(rows)


def dense_hessian(f: Function, argnums: tuple[int, ...], args: tuple[Any, ...]) -> Any:
    """The dense Hessian as a matrix."""
    blocks = hessian(f, argnums)(*args)
    sizes = [np.size(args[i]) for i in argnums]
    return np.block([[np.reshape(b, (s, t)) for b, t in zip(row, sizes, strict=True)]
                     for row, s in zip(blocks, sizes, strict=True)])  # fmt: skip


def difference(made: Any, pattern: Any, dense: Any) -> str:
    """What a sparse matrix lacks of the dense one; "" if nothing."""
    if made.shape != dense.shape:
        return f"shape {made.shape}, dense {dense.shape}"
    missing = (dense != 0) & ~pattern.toarray()
    if missing.any():
        return f"the pattern lacks {np.argwhere(missing)[:3].tolist()}"
    most = max(1.0, float(np.abs(dense).max(initial=0)))
    error = float(np.abs(made.toarray() - dense).max(initial=0)) / most
    return "" if error <= CLOSE else f"values differ by {error:.1e}"


def found(seed: int, backend: str = "interp") -> str | None:
    """What is wrong with the program of a seed; "" if nothing, None if it has no finite derivative there."""
    c = case(seed)
    prog = compile(c.text, backend=backend)
    with np.errstate(all="ignore"):
        try:
            dense = dense_jacobian(prog.main, c.argnums, c.args)
        except ExecutionError:
            return None
        if not np.isfinite(dense).all():
            return None
        for blocks in (True, False):
            sparse = SparseMatrix(prog.main, c.argnums, symmetric=False, blocks=blocks)
            if wrong := difference(sparse(*c.args), sparse.pattern(*c.args), dense):
                return f"Jacobian, {sparse.report}: {wrong}"
        if prog.main.entry.result.kind != "scalar":
            return ""
        dense = dense_hessian(prog.main, c.argnums, c.args)
        twice = sparse_hessian(prog.main, c.argnums)
        wrong = difference(twice(*c.args), twice.pattern(*c.args), dense)
        return wrong and f"Hessian: {wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--count", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--backend", default="interp")
    options = parser.parse_args()
    wrong = compared = 0
    for seed in range(options.first, options.first + options.count):
        text = found(seed, options.backend)
        compared += text is not None
        if text:
            wrong += 1
            print(f"seed {seed}: {text}", flush=True)
    print(f"{options.count} programs, {compared} of them with finite derivatives, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
