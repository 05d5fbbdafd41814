"""Indices out of bounds in derivatives, where nothing needs the value itself: an error all the same."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.errors import BoundsError, Error, InternalError
from futad.runtime import cc
from futad.testing.programs import source as gensource
from futad.testing.programs import source_base as gensource_base
from tests.support.needs import has_cxx

SOURCE = """
entry rev [n] (xs: [n]f64) (i: i64) = vjp (\\xs -> xs[i]) xs 1
entry fwd [n] (xs: [n]f64) (i: i64) = jvp (\\xs -> xs[i]) xs (map (* 2) xs)
entry rev_slice [n] (xs: [n]f64) (i: i64) = vjp (\\xs -> f64.sum xs[i:i + 2]) xs 1
entry fwd_slice [n] (xs: [n]f64) (i: i64) = jvp (\\xs -> f64.sum xs[i:i + 2]) xs (map (* 2) xs)
entry rev_twice [n] (xs: [n]f64) (i: i64) = vjp (\\xs -> 3 * xs[i] + xs[0] + xs[i]) xs 1
entry rev_row [n] (xs: [n]f64) (i: i64) = vjp (\\xs -> f64.sum ((map (\\x -> [x, 2 * x]) xs)[i])) xs 1
entry rev_value [n] (xs: [n]f64) (i: i64) = vjp (\\x -> f64.sum (copy xs with [i] = x)) 3 1
entry rev_array [n] (xs: [n]f64) (i: i64) = vjp (\\xs -> f64.sum (copy xs with [i] = 3)) xs 1
entry fwd_update [n] (xs: [n]f64) (i: i64) =
  jvp (\\xs -> (copy xs with [i] = 2 * xs[1])) xs (map (* 2) xs)
entry rev_loop [n] (xs: [n]f64) (i: i64) =
  vjp (\\xs -> (loop (s, p) = (1, 1) for k < 3 do (s + p, p * (if k == 2 then xs[i] else 2))).1) xs 1
entry twice [n] (xs: [n]f64) (i: i64) = jvp (\\xs -> vjp (\\xs -> xs[i] * xs[i]) xs 1) xs (map (* 2) xs)
"""
N = 4
EXPECTED = {
    "rev": lambda xs, i: np.eye(N)[i],
    "fwd": lambda xs, i: 2 * xs[i],
    "rev_slice": lambda xs, i: np.eye(N)[i] + np.eye(N)[i + 1],
    "fwd_slice": lambda xs, i: 2 * (xs[i] + xs[i + 1]),
    "rev_twice": lambda xs, i: 4 * np.eye(N)[i] + np.eye(N)[0],
    "rev_row": lambda xs, i: 3 * np.eye(N)[i],
    "rev_value": lambda xs, i: 1,
    "rev_array": lambda xs, i: 1 - np.eye(N)[i],
    "fwd_update": lambda xs, i: np.where(np.arange(N) == i, 4 * xs[1], 2 * xs),
    "rev_loop": lambda xs, i: 4 * np.eye(N)[i],
    "twice": lambda xs, i: 4 * xs * np.eye(N)[i],
}
BACKENDS = ["interp", *(["c"] if cc.compiler_available() else []), *(["emulated"] if has_cxx() else [])]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_out_of_bounds(backend: str) -> None:
    program = futad.compile(SOURCE, "bounds.fut", backend=backend)
    assert set(EXPECTED) == set(program)
    xs = np.array([1.0, -2.0, 0.5, 3.0])
    lines = ["", *SOURCE.splitlines()]
    for entry, expected in EXPECTED.items():
        line = next(k for k, text in enumerate(lines) if text.startswith(f"entry {entry} "))
        for i in (0, 1, 2):
            np.testing.assert_allclose(program[entry](xs, i), expected(xs, i), err_msg=f"{entry} {i}")
        for i in (N, -1, 1 << 40):
            with pytest.raises(BoundsError) as e:
                program[entry](xs, i)
            assert e.value.span is not None and e.value.span.line in (line, line + 1), entry


IN_MAPS = {
    "gather": "2 * xs[i]",
    "square": "xs[i] * xs[i]",
    "slice": "f64.sum xs[i:i + 2]",
    "strided": "f64.sum xs[i:i + 2 * (i + 1):i + 1]",
    "row": "f64.sum (map (\\x -> [x, 2 * x]) xs)[i]",
    "matrix": "(unflatten (xs :> [2 * 2]f64))[i / 2, i % 2]",
    "nest": "f64.sum (map (* xs[i]) (map f64.i64 (iota 3)))",
    "loop": "(loop s = 0 for k < 2 do s + xs[i + k])",
    "branch": "(if i == 0 then 0 else xs[i])",
    "sum": "f64.sum (map (\\j -> xs[i + j]) (iota 2))",
}
MODES = """
entry NAME_value [n] (xs: [n]f64) (is: []i64) = map (\\i -> BODY) is
entry NAME_rev [n] (xs: [n]f64) (is: []i64) = vjp (\\(xs: [n]f64) -> map (\\i -> BODY) is) xs (map (const 1) is)
entry NAME_fwd [n] (xs: [n]f64) (is: []i64) = jvp (\\(xs: [n]f64) -> map (\\i -> BODY) is) xs (map (* 2) xs)
entry NAME_for_rev [n] (xs: [n]f64) (is: []i64) =
  jvp (\\xs -> vjp (\\(xs: [n]f64) -> map (\\i -> BODY) is) xs (map (const 1) is)) xs (map (* 2) xs)
entry NAME_rev_rev [n] (xs: [n]f64) (is: []i64) =
  vjp (\\ys -> vjp (\\(xs: [n]f64) -> map (\\i -> BODY) is) xs ys) (map (const 1) is) (map (* 2) xs)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_in_maps(backend: str) -> None:
    """There the adjoint of `xs` is an accumulator; those ignore updates that are out of range."""
    text = "".join(MODES.replace("NAME", name).replace("BODY", body) for name, body in IN_MAPS.items())
    program = futad.compile(text, "maps.fut", backend=backend)
    lines = [line.split()[1] if line.startswith("entry") else "" for line in ["", *text.splitlines()]]
    xs = np.array([1.0, -2.0, 0.5, 3.0])
    for name in IN_MAPS:
        modes = {mode: program[f"{name}_{mode}"] for mode in ("value", "rev", "fwd", "for_rev", "rev_rev")}
        for places in (np.array([0, 1, 1]), np.array([], int)):
            adjoint, along = modes["rev"](xs, places), modes["fwd"](xs, places)
            np.testing.assert_allclose(adjoint @ (2 * xs), along.sum(), err_msg=name)
            np.testing.assert_allclose(modes["rev_rev"](xs, places), along, err_msg=name)
        assert modes["for_rev"](xs, np.array([2, 0])).any() == (name == "square")
        if name != "square":
            del modes["for_rev"]  # zero, whatever the places
        for places in (np.array([0, N]), np.array([-1, 0]), np.array([1, 1 << 40, 0])):
            for mode, entry in modes.items():
                with pytest.raises(BoundsError) as e:
                    entry(xs, places)
                assert e.value.span is not None
                assert lines[e.value.span.line] in (f"{name}_{mode}", ""), (name, mode)


ENTRIES = """
def at [n][k] ((xs, ms, s): ([n]t, [n][k]t, t)) : (t, [n]t, [k]t, t) = f xs ms s
entry primal [n][k] (xs: [n]t) (ms: [n][k]t) (s: t) = f xs ms s
entry fwd [n][k] (xs: [n]t) (ms: [n][k]t) (s: t) = jvp at (xs, ms, s) (xs, ms, s)
entry rev [n][k] (xs: [n]t) (ms: [n][k]t) (s: t) =
  let (y, ys, zs, x) = f xs ms s in vjp at (xs, ms, s) (y, map (+ 1) ys, map (+ 1) zs, x)
entry part [n][k] (xs: [n]t) (ms: [n][k]t) (s: t) = vjp (\\x -> (at x).1) (xs, ms, s) (map (const 1) xs)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(2, 9), pytest.param((26, 31), marks=pytest.mark.slow)], ids=str)
def test_random_programs(seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """With any indices: the interpreter finds none out of bounds where the compiler has left out the check."""
    plain = gensource_base.Base.at

    def anywhere(self: gensource_base.Base, e: gensource_base.Env, size: str) -> str:
        return f"({self.iexp(e)} - {self.r.randint(0, 2)})" if self.p(0.3) else plain(self, e, size)

    monkeypatch.setattr(gensource_base.Base, "at", anywhere)
    raised = 0
    for seed in seeds:
        program = futad.compile(gensource.source(seed, "f64", 6)[0] + ENTRIES, f"seed{seed}.fut", backend="interp")
        for n, k in ((3, 2), (1, 1), (2, 3), (0, 2), (2, 0)):
            rng = np.random.default_rng(seed + n)
            args = rng.normal(size=n), rng.normal(size=(n, k)), rng.normal()
            for entry in program:
                try:
                    program[entry](*args)
                except InternalError as e:
                    raise AssertionError(f"seed {seed}, {entry}, n = {n}, k = {k}") from e
                except Error:
                    raised += 1
    assert raised
