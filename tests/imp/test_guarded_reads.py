"""Maps with branches that read: done in vector lanes under masks, as the interpreter does them."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.errors import BoundsError
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

DEAR = "f64.exp (0.1 * f64.sin q) + f64.log (1 + q * q) * f64.tanh q"
# What q is, at place i of x and k; and the transformations that this takes.
READS = {
    "of neighbours": ("if i > 0 && k[i] > 0 then x[i - 1] else 2 * x[i]", {"guarded-reads"}),
    "in a branch in a branch": (
        "if k[i] > 0 then (if i > 1 then x[i - 2] * x[i] else 1) else (if i + 1 < n then x[i + 1] else -1)",
        {"guarded-reads"},
    ),
    "that decide": ("if (if i > 0 && k[i] != 1 then k[i - 1] else 1) > 0 then x[i] else 0", {"guarded-reads"}),
    "elsewhere": ("if 0 <= k[i] && k[i] < n then x[k[i]] else x[i]", {"guarded-reads", "staged-reads"}),
    "backwards": ("if k[i] > 0 then x[n - 1 - i] else x[i]", {"guarded-reads", "staged-reads"}),
    "elsewhere, twice": (
        "if 0 <= k[i] && k[i] < n && k[k[i]] < 2 then x[k[i]] * x[i] else x[i]", {"guarded-reads", "staged-reads"},
    ),
    "of small numbers": ("if k[i] > 0 && b[i64.max 0 (i - 1)] > 1 then x[i] else -x[i]", {"guarded-reads"}),
    "that are checked": ("if k[i] >= 0 then x[k[i] % 3] else x[i]", {"guarded-reads", "checks-first"}),
}  # fmt: skip
SIZES = (3, 4, 7, 127, 128, 129, 300)


def source(name: str) -> str:
    return f"""
def f [n] (k: [n]i64) (b: [n]i8) (x: [n]f64): [n]f64 = tabulate n (\\i -> let q = {READS[name][0]} in {DEAR})
entry value [n] (k: [n]i64) (b: [n]i8) (x: [n]f64): [n]f64 = f k b x
entry back [n] (k: [n]i64) (b: [n]i8) (x: [n]f64) (s: [n]f64): [n]f64 = vjp (f k b) x s"""


@pytest.mark.parametrize("name", READS)
def test_they_run_in_lanes(name: str) -> None:
    text = source(name).replace("entry back", "def back")
    with counting() as counts:
        CBackend(compile_program(compile_text(text), target=C))
    assert {"vector-lanes", *READS[name][1]} <= {n for n, k in counts.items() if k > 0}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("name", READS)
def test_they_are_right(name: str, backend: str) -> None:
    made, expected = (futad.compile(source(name), backend=b) for b in (backend, "interp"))
    for n in SIZES:
        rng = np.random.default_rng(n)
        k, b = rng.integers(-2, 5, n), rng.integers(0, 4, n).astype(np.int8)
        x, s = rng.normal(size=(2, n))
        # Functions in vectors are wrong by up to 4 units in the last place, of terms of about 1.
        np.testing.assert_allclose(made.value(k, b, x), expected.value(k, b, x), rtol=0, atol=1e-14)
        np.testing.assert_allclose(made.back(k, b, x, s), expected.back(k, b, x, s), rtol=0, atol=1e-13)


def test_additions_in_branches_are_staged() -> None:
    """The return sweep of such reads adds where the branch is taken."""
    with counting() as counts:
        CBackend(compile_program(compile_text(source("elsewhere").replace("entry value", "def value")), target=C))
    assert counts["guarded-reads"] and counts["staged-additions"]


LITTLE = "entry value [n] (x: [n]f64): [n]f64 = tabulate n (\\i -> if x[i] > 0 && i > 0 then x[i - 1] else x[i])"


def test_little_work_is_left_to_the_c_compiler() -> None:
    with counting() as counts:
        CBackend(compile_program(compile_text(LITTLE), target=C))
    assert not counts["guarded-reads"]


@pytest.mark.parametrize("backend", ["c", "interp"])
def test_the_first_failure_is_reported(backend: str) -> None:
    text = f"""entry value [n] (k: [n]i64) (x: [n]f64): [n]f64 =
      tabulate n (\\i -> let q = if x[i] > 0 then x[k[i]] else x[i] in {DEAR})"""
    k = np.array([9, 1, 7, 8, 0])
    with pytest.raises(BoundsError, match=r"Index \[7\] out of bounds"):
        futad.compile(text, backend=backend).value(k, np.array([-1.0, 1, 2, 3, 4]))


# Elements that are gathered: GCC does so for elements as wide as places.
GATHERED = {
    "at a place": ("x[k[i] % n]", {"f32": True, "f64": False}),
    "at two": ("x[k[i] % n] - x[(k[i] + i) % n]", {"f32": True, "f64": False}),
    "at a place that is read": ("x[i64.T (5 * T.abs x[k[i] % n]) % n]", {"f32": True, "f64": False}),
    "in order": ("x[n - 1 - i]", {"f32": False, "f64": False}),
}


def gathering(name: str, t: str) -> str:
    text = f"""entry value [n] (k: [n]i64) (x: [n]T): [n]T =
      tabulate n (\\i -> let q = {GATHERED[name][0]} in {DEAR})"""
    return text.replace("f64.", "T.").replace("i64.T", "i64." + t).replace("T", t)


@pytest.mark.parametrize("name", GATHERED)
@pytest.mark.parametrize("t", ["f32", "f64"])
def test_gathers_of_elements_narrower_than_places_are_made_before(name: str, t: str) -> None:
    with counting() as counts:
        CBackend(compile_program(compile_text(gathering(name, t)), target=C))
    assert bool(counts["staged-reads"]) == GATHERED[name][1][t]


@pytest.mark.slow
@pytest.mark.parametrize("name", GATHERED)
def test_gathers_are_right(name: str) -> None:
    made, expected = (futad.compile(gathering(name, "f32"), backend=b) for b in ("c", "interp"))
    for n in (0, 1, *SIZES):
        rng = np.random.default_rng(n)
        k, x = rng.integers(0, 1000, n), rng.normal(size=n).astype(np.float32)
        np.testing.assert_allclose(made.value(k, x), expected.value(k, x), rtol=0, atol=1e-5)


MASKED = """entry value [n][m] (k: [n][m]i64) (x: [m]T): [n]T =
  map (\\row -> (loop (s, i) = (0.5, 0) while s < 20 && i < m do
                let q = x[row[i]] in (s + T.abs q + T.exp (0.1 * T.sin s), i + 1 + i64.bool (q > 0))).0) k
entry back [n][m] (k: [n][m]i64) (x: [m]T): [m]T = vjp (\\x -> T.sum (value k x)) x 1"""


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_gathers_of_masked_lanes_are_made_before(t: str) -> None:
    with counting() as counts:
        CBackend(compile_program(compile_text(MASKED.replace("T", t)), target=C))
    assert counts["masked-lanes"] and bool(counts["gathers-before-lanes"]) == (t == "f32")


@pytest.mark.slow
def test_gathers_of_masked_lanes_are_right() -> None:
    made, expected = (futad.compile(MASKED.replace("T", "f32"), backend=b) for b in ("c", "interp"))
    for n, m in ((0, 3), (1, 1), (15, 4), (16, 30), (17, 40), (70, 9)):
        rng = np.random.default_rng(n)
        k, x = rng.integers(0, m, (n, m)), rng.normal(size=m).astype(np.float32)
        for special in (None, np.inf, np.nan):
            if special is not None:
                x[m // 2] = special
            np.testing.assert_allclose(made.value(k, x), expected.value(k, x), rtol=1e-5)
            np.testing.assert_allclose(made.back(k, x), expected.back(k, x), rtol=1e-4)
