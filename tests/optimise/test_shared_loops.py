"""Loops whose iterations another loop makes, too."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core.interp import Interpreter
from futad.errors import Error
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.needs import needs_cc

HEAD = "entry main [n] (x: f64) (zs: [n]f64) (k: i64) =\n"
FIRST = "  let (a, _) = loop (s, i) = (x, 0) while s < 9 && i < n do (s * 1.1 + zs[i], i + 1)\n"
COUNTS = "  let (b, _, c) = loop (s, i, c) = (x, 0, {}) while s < 9 && i < n do (s * 1.1 + zs[i], i + 1, c + {})\n"
ROWS = "  let {} = loop {} for i < 3 do {}\n"
TAKEN = {
    "counts": FIRST + COUNTS.format(1, "s") + "  in (a, b, c)",
    "counts before": COUNTS.format(1, "s") + FIRST + "  in (a, b, c)",
    "fold": ROWS.format("a", "s = x", "s * zs[i]")
    + ROWS.format("(b, c)", "(s, h) = (x, replicate 3 0)", "(s * zs[i], h with [0] = s)")
    + "  in (a, b, c)",
    "rows": ROWS.format("a", "s = map (+ 1) zs", "map (* 2) s")
    + ROWS.format("(b, c)", "(s, t) = (map (+ 1) zs, 0)", "(map (* 2) s, t + f64.i64 n)")
    + "  in (f64.sum a, f64.sum b, c)",
    "what it needs": FIRST + "  let q = f64.sum (map f64.exp zs)\n" + COUNTS.format("q", "s") + "  in (a, b, c)",
}
STEP = "s with [i] = x * zs[i] + f64.sum s"
TAKEN |= {
    "arrays of their own": ROWS.format("a", "s = replicate n 0", STEP)
    + ROWS.format("b", "s = replicate n 0", STEP)
    + "  in (f64.sum a, b[0], b[k])",
    "an array and its history": ROWS.format("a", "s = replicate n x", STEP)
    + ROWS.format("(b, c)", "(s, h) = (replicate n x, replicate 3 0)", f"let t = f64.sum s in ({STEP}, h with [i] = t)")
    + "  in (f64.sum a, b[k], f64.sum c)",
}
TAKEN |= {
    "arrays that maps make": ROWS.format("a", "s = map (+ x) zs", STEP)
    + ROWS.format("b", "s = map (+ x) zs", STEP)
    + "  in (f64.sum a, b[0], b[k])",
    "read between, not overwritten": "  let w = map (+ 1) zs\n"
    + ROWS.format("a", "s = w", "map (* 2) s")
    + "  let q = a[k] + w[0]\n"
    + ROWS.format("(b, c)", "(s, t) = (w, 0)", "(map (* 2) s, t + f64.i64 n)")
    + "  in (f64.sum a + q, f64.sum b, c)",
}
SUBSTITUTED = "s with [i] = zs[i] - f64.sum (map (\\j -> s[j] * f64.exp zs[j]) (iota i))"
TAKEN |= {
    "arrays of sizes of their own": ROWS.format("a", "s = replicate n 0", SUBSTITUTED)
    + ROWS.format("b", "s = replicate n 0", SUBSTITUTED)
    + "  in (f64.sum a, b[0], b[k])",
}
LEFT = {
    "arrays that other maps make": ROWS.format("a", "s = map (+ x) zs", STEP)
    + ROWS.format("b", "s = map (+ k_) zs", STEP).replace("k_", "f64.i64 k")
    + "  in (f64.sum a, b[0], b[k])",
    "other arrays": ROWS.format("a", "s = replicate n 0", STEP)
    + ROWS.format("b", "s = replicate n 1", STEP)
    + "  in (f64.sum a, b[0], b[k])",
    "overwritten later": ROWS.format("a", "s = replicate n 0", STEP)
    + ROWS.format("b", "s = replicate n 0", STEP)
    + "  let a = a with [k] = 7 in (f64.sum a, b[0], b[k])",
    "both go on": "  let (a, b) = loop (a, b) = (replicate n 0, replicate n 0) for _j < 2 do\n"
    + "  " + ROWS.format("p", "s = replicate n (f64.sum a)", STEP)
    + "  " + ROWS.format("q", "s = replicate n (f64.sum a)", STEP)
    + "    in (p with [k] = 7, q)\n"
    + "  in (f64.sum a, b[0], b[k])",
    "another step": FIRST + COUNTS.format(1, "s").replace("1.1", "1.2") + "  in (a, b, c)",
    "another start": FIRST + COUNTS.format(1, "s").replace("(x,", "(x + 1,") + "  in (a, b, c)",
    "made of the first": FIRST + COUNTS.format("a", "s") + "  in (a, b, c)",
    "overwritten": ROWS.format("a", "s = map (+ 1) zs", "map (* 2) s")
    + ROWS.format("(b, c)", "(s, t) = (map (+ 1) zs, 0)", "(map (* 2) s, t + f64.i64 n)")
    + "  let a = a with [k] = 7 in (f64.sum a, f64.sum b, c)",
    "both returned": "  let w = map (+ 1) zs\n"
    + ROWS.format("a", "s = w", "map (* 2) s")
    + ROWS.format("(b, c)", "(s, t) = (w, 0)", "(map (* 2) s, t + f64.i64 n)")
    + "  in (a, b, c)",
    "read between": "  let w = map (\\j -> x + f64.i64 j) (iota 3)\n"
    + FIRST
    + "  let q = w[k]\n"
    + "  let (b, _, c) = loop (s, i, h) = (x, 0, w) while s < 9 && i < n do (s * 1.1 + zs[i], i + 1, h with [0] = s)\n"
    + "  in (a + q, b, c)",
}


def outcomes(text: str, k: int = 1, n: int = 4) -> tuple[list, int]:
    """Results, or the failure, as the program was lowered and after the passes of C; how many loops were left out."""
    program = compile_text(HEAD + text)
    with counting() as counts:
        compiled = compile_program(program, target=C, check=True)
    zs = np.linspace(0.5, 2, n)
    out = []
    for p in (program, compiled):
        try:
            out.append(Interpreter(p).run("main", [np.int64(n), 1.5, zs.copy(), np.int64(k)]))
        except Error as e:
            out.append(str(e))
    return out, counts["shared-loops"]


@pytest.mark.parametrize("name", [*TAKEN, *LEFT])
@pytest.mark.parametrize("n", [3, 4])
def test_values(name, n):
    (wanted, got), fired = outcomes((TAKEN | LEFT)[name], n=n)
    assert fired == (name in TAKEN)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        # The read between fails before the loop's own one.
        FIRST + "  let q = zs[k]\n" + COUNTS.format(1, "zs[2 * k]") + "  in (a + q, b, c)",
        # The first loop fails before what the second one needs.
        FIRST.replace("zs[i]", "zs[i + k]") + COUNTS.format("zs[k]", "s").replace("zs[i]", "zs[i + k]")
        + "  in (a, b, c)",
    ],
    ids=["0", "1"],
)  # fmt: skip
def test_failures_come_in_order(text):
    (wanted, got), fired = outcomes(text, k=5)
    assert isinstance(wanted, str) and wanted == got
    assert not fired


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_a_value_with_its_gradient_runs_each_loop_once(backend):
    """The return sweep of the map counts the iterations; the value's loop is the same one."""
    source = """entry value [n][m] (s: f64) (z: [n][m]f64): f64 =
      let path zs = (loop (x, i) = (s, 0) while i < m && x > 0.5 do (x * f64.exp (0.3 * zs[i]), i + 1)).0
      in f64.sum (map path z)"""
    z = np.random.default_rng(1).normal(size=(40, 6))
    made = [futad.compile(source, backend=b).value for b in ("interp", backend)]
    both = [futad.value_and_grad(f, argnums=(0, 1)) for f in made]
    with counting() as counts:
        got = both[1](1.0, z)
    assert counts["shared-loops"] == 1
    wanted = both[0](1.0, z)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-12)
    for a, b in zip(wanted[1], got[1], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)
