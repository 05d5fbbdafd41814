"""Rows that a map makes for a histogram of sums are added where they are made."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core.interp import Interpreter
from futad.errors import Error
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import TARGETS
from tests.support.needs import needs_cc

HEAD = "entry main [n][k][e] (x: [n][k]f64) (from: [e]i64) (to: [e]i64) (w: [e]f64) =\n"
SUMS = "reduce_by_index (replicate n (replicate k 0)) (map2 (+)) (replicate k 0) to "
GREATEST = "reduce_by_index (replicate n (replicate k 0)) (map2 f64.max) (replicate k 0) to "
TAKEN = {
    "rows": SUMS + "(map (\\i -> x[i]) from)",
    "computed": SUMS + "(map2 (\\i u -> map (* u) x[i]) from w)",
    "added to": "let d = map (map (* 2)) x in reduce_by_index d (map2 (+)) (replicate k 0) to (map (\\i -> x[i]) from)",
    "before zeros": "let m = map (\\i -> x[i]) from in " + SUMS + "m",
    "in a map": f"map (\\c -> {SUMS} (map (\\i -> map (* c) x[i]) from)) w",
    "by two places": """let zeros = replicate n (replicate n (replicate k 0))
      let y = reduce_by_index_2d zeros (map2 (+)) (replicate k 0) (zip to from) (map (\\i -> x[i]) from) in y""",
}
LEFT = {
    "greatest": GREATEST + "(map (\\i -> x[i]) from)",
    "read too": f"let m = map (\\i -> map (+ 1) x[i]) from in ({SUMS} m, f64.sum m[0])",
    "returned too": f"let m = map (\\i -> map (+ 1) x[i]) from in ({SUMS} m, m)",
    "numbers": "reduce_by_index (replicate n 0) (+) 0 to (map (\\i -> x[i, 0]) from)",
    "overwritten": f"""let y = map (map (+ 1)) x
      let m = map (\\i -> y[i]) from
      let y = #[unsafe] (y with [0] = replicate k 9)
      in ({SUMS} m, y)""",
}


def compiled(text: str, target: str = "c"):
    program = compile_text(HEAD + text)
    with counting() as counts:
        made = compile_program(program, target=TARGETS[target], check=True)
    return program, made, counts["added-rows"]


@pytest.mark.parametrize("name", [*TAKEN, *LEFT])
@pytest.mark.parametrize("e", [0, 1, 6])
def test_values(name, e):
    """Places out of range, too, to which nothing is added."""
    program, made, fired = compiled((TAKEN | LEFT)[name])
    assert bool(fired) == (name in TAKEN)
    if name == "read too":
        e = max(e, 1)
    args = [
        *map(np.int64, (3, 2, e)),
        np.arange(6.0).reshape(3, 2),
        np.arange(e) % 3,
        np.arange(e) - 2,
        np.arange(1.0, e + 1),
    ]
    wanted, got = (Interpreter(p).run("main", [np.copy(a) for a in args]) for p in (program, made))
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-14)


def test_failures_come_in_order():
    """The map's read fails before the one after it."""
    program, made, fired = compiled(f"let m = map (\\i -> x[i]) from let q = w[to[0]] in ({SUMS} m, q)")
    messages = []
    for p in (program, made):
        with pytest.raises(Error) as raised:
            args = [*map(np.int64, (1, 1, 1)), np.ones((1, 1)), np.array([7]), np.array([9]), np.ones(1)]
            Interpreter(p).run("main", args)
        messages.append(str(raised.value))
    assert messages[0] == messages[1] and not fired


@pytest.mark.slow
@needs_cc
def test_native_code_and_gradients():
    source = HEAD + "let y = " + TAKEN["computed"] + " in f64.sum (map (\\r -> f64.sum (map f64.sin r)) y)"
    r = np.random.default_rng(1)
    args = r.normal(size=(30, 7)), r.integers(0, 30, 200), r.integers(-1, 31, 200), r.normal(size=200)
    programs = [futad.compile(source, backend=b).main for b in ("interp", "c", "multicore")]
    wanted, *others = (futad.value_and_grad(f, argnums=(0, 3))(*args) for f in programs)
    for got in others:
        np.testing.assert_allclose(got[0], wanted[0], rtol=1e-12)
        for a, b in zip(wanted[1], got[1], strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


def test_devices_have_a_kernel_for_it():
    assert not compiled(TAKEN["rows"], "cuda")[2]
