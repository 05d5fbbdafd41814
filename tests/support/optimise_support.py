"""Support for the tests of rewriting: parse, run passes with the checker between, compare by the interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import alpha_equal, parse_program

Pass = Callable[[ir.Program], ir.Program]


def passes(p: ir.Program, *fs: Pass) -> ir.Program:
    """The program after the passes, each result checked."""
    check_program(p, "input")
    for f in fs:
        p = f(p)
        check_program(p, f.__name__)
    return p


def heads(p: ir.Program) -> Counter[str]:
    """How many statements of each kind the program has, nested ones included."""
    out: Counter[str] = Counter()

    def go(lam: ir.Lambda) -> None:
        for s in lam.stms:
            out[type(s.exp).__name__ if not isinstance(s.exp, ir.Op) else s.exp.op] += 1
            for inner in s.exp.lambdas():
                go(inner)

    for f in p.funs.values():
        go(f.body)
    return out


def body(text: str, params: str = "n_1: i64, xs_2: [n_1]f64, ys_3: [n_1]f64", ret: str = "f64") -> str:
    """A program with one function of these statements and results (the text after the last `in`)."""
    rets = ", ".join(f"r_{900 + k}: {t}" for k, t in enumerate(ret.split(";")))
    return f"fun main ({params}) -> ({rets}) = {{ {text} }}"


def becomes(before: str, after: str, *fs: Pass) -> None:
    """The passes iteration one program into the other, up to names."""
    got = passes(parse_program(before), *fs)
    want = parse_program(after)
    assert alpha_equal(got, want), f"\n{got}\nis not\n{want}"


def run(p: ir.Program, args: Sequence[Any], name: str = "main") -> list[Any]:
    return Interpreter(p).run(name, [a.copy() if isinstance(a, np.ndarray) else a for a in args])


def same_results(p: ir.Program, q: ir.Program, args: Sequence[Any], name: str = "main") -> list[Any]:
    """Both programs give the same results (to the last bits, where sums may be regrouped)."""
    a, b = run(p, args, name), run(q, args, name)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype and np.shape(x) == np.shape(y)
        if np.asarray(x).dtype.kind != "f":
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    return b
