"""Random programs of the source language, differentiated in all modes and orders.

For each: forward mode against central differences; <ybar, J xdot> = <J^T ybar, xdot>; jvp of vjp against differences of
vjp, vjp of vjp and vjp of jvp against jvp of vjp (the Hessian is symmetric); many directions against one; and every
result by dual numbers and on other backends.  Over integers all but the differences, exactly.  Once more at zeros and
ties.

FUTAD_SEED moves the seeds, FUTAD_PROGRAMS scales their number (from 2 on all backends); failures name seed and sizes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import futad
from futad.testing.programs.source import source
from tests.support.needs import needs_cc

FIRST = int(os.environ.get("FUTAD_SEED", "1"))
SCALE = float(os.environ.get("FUTAD_PROGRAMS", "1"))
BACKENDS = ["c"] if SCALE < 2 else ["c", "multicore", "emulated"]
SIZES = [(3, 2), (1, 1), (0, 2), (2, 0), (5, 3)]
INTEGERS = {"i8": "i1", "i32": "i4", "i64": "i8", "u8": "u1", "u64": "u8"}

X, D, B = "(xs: [n]t) (ms: [n][k]t) (s: t)", "(dx: [n]t) (dm: [n][k]t) (ds: t)", "(b0: t) (b1: [n]t) (b2: [k]t) (b3: t)"
ENTRIES = f"""
def at [n][k] ((xs, ms, s): ([n]t, [n][k]t, t)) : (t, [n]t, [k]t, t) = f xs ms s
def grad [n][k] (x: ([n]t, [n][k]t, t)) (b: (t, [n]t, [k]t, t)) = vjp at x b
entry primal [n][k] {X} = f xs ms s
entry fwd [n][k] {X} {D} = jvp at (xs, ms, s) (dx, dm, ds)
entry rev [n][k] {X} {B} = grad (xs, ms, s) (b0, b1, b2, b3)
entry fwdrev [n][k] {X} {D} {B} = jvp (\\x -> grad x (b0, b1, b2, b3)) (xs, ms, s) (dx, dm, ds)
entry revrev [n][k] {X} {D} {B} = vjp (\\x -> grad x (b0, b1, b2, b3)) (xs, ms, s) (dx, dm, ds)
entry revfwd [n][k] {X} {D} {B} = vjp (\\x -> jvp at x (dx, dm, ds)) (xs, ms, s) (b0, b1, b2, b3)
entry many_fwd [n][k] {X} {D} = jmp at (xs, ms, s) [(dx, dm, ds), (map (* 2) dx, map (map (* 2)) dm, 2 * ds)]
entry many_rev [n][k] {X} {B} = mjp at (xs, ms, s) [(b0, b1, b2, b3), (2 * b0, map (* 2) b1, map (* 2) b2, 2 * b3)]
"""


def leaves(x: Any) -> list[Any]:
    return [z for y in x for z in leaves(y)] if isinstance(x, tuple) else [np.asarray(x)]


def near(got: Sequence[Any], want: Sequence[Any], tol: float, what: str) -> None:
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape, what
        if g.dtype.kind == "f":
            np.testing.assert_allclose(g, w, rtol=tol, atol=tol * (1 + np.abs(w).max(initial=0)), err_msg=what)
        else:
            np.testing.assert_array_equal(g, w, err_msg=what)


def dot(xs: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """The sum of the products, and of their magnitudes."""
    products = [np.asarray(x * y, float) for x, y in zip(xs, ys, strict=True)]
    return sum(float(p.sum()) for p in products), sum(float(np.abs(p).sum()) for p in products)


def dot_modulo(xs: Sequence[Any], ys: Sequence[Any], bits: int) -> int:
    pairs = [(int(p), int(q)) for x, y in zip(xs, ys, strict=True) for p, q in zip(x.flat, y.flat, strict=True)]
    return sum(p * q for p, q in pairs) % (1 << bits)


def as_differences(f: Any, got: Sequence[Any], what: str) -> None:
    """`got` is the derivative of f at 0: at one of three steps extrapolated central differences are as near as their
    own error and that of rounding allow."""

    def at(h: float) -> list[Any]:
        return [(u - v) / (2 * h) for u, v in zip(f(h), f(-h), strict=True)]

    found: list[Any] = []
    for h in (1e-4, 1e-5, 3e-6):
        found = [(u, v, w) for u, v, w in zip(at(h), at(h / 2), got, strict=True)]
        bounds = [3 * np.abs(u - v).max(initial=0) + 1e-10 / h * (0.1 + np.abs(w).max(initial=0)) for u, v, w in found]
        errors = [np.abs((4 * v - u) / 3 - w).max(initial=0) for u, v, w in found]
        if all(e <= b for e, b in zip(errors, bounds, strict=True)):
            return
    raise AssertionError(f"{what}: differences {[v for _, v, _ in found]}, derivative {list(got)}")


def check(seed: int, elem: str, draw: Any, backends: Sequence[str] = (), differences: bool = False) -> None:
    text, repeats = source(seed, elem)
    text += ENTRIES
    program = futad.compile(text, f"seed{seed}.fut", backend="interp")
    duals = futad.compile(text, f"seed{seed}.fut", method="dual")
    others = [futad.compile(text, f"seed{seed}.fut", backend=b) for b in backends if b == "c" or not repeats]
    for n, k in SIZES:
        rng = np.random.default_rng(seed + n)

        def values(*shapes: tuple[int, ...], rng: Any = rng) -> list[Any]:
            return [draw(rng, shape)[()] for shape in shapes]

        x, xdot, ybar = values((n,), (n, k), ()), values((n,), (n, k), ()), values((), (n,), (k,), ())
        args = {"primal": x, "fwd": x + xdot, "rev": x + ybar, "many_fwd": x + xdot, "many_rev": x + ybar}
        args |= {e: x + xdot + ybar for e in ("fwdrev", "revrev", "revfwd")}
        out = {e: leaves(program[e](*a)) for e, a in args.items()}
        what = f"seed {seed} at {elem}, n = {n}, k = {k}"
        ys, vs = [np.asarray(y) for y in ybar], [np.asarray(v) for v in xdot]
        if elem.startswith("f"):
            (a, size), (b, _) = dot(ys, out["fwd"]), dot(out["rev"], vs)
            assert abs(a - b) <= 1e-10 * (size + 1e-3), f"{what}: <ybar, J xdot> = {a}, <J^T ybar, xdot> = {b}"
        else:
            bits = 8 * ys[0].dtype.itemsize
            assert dot_modulo(ys, out["fwd"], bits) == dot_modulo(out["rev"], vs, bits), what
        if differences:

            def moved(entry: str, h: float, x: Any = x, xdot: Any = xdot, more: Any = ()) -> list[Any]:
                return leaves(program[entry](*[u + h * d for u, d in zip(x, xdot, strict=True)], *more))

            as_differences(lambda h: moved("primal", h), out["fwd"], f"{what}, fwd")  # noqa: B023
            as_differences(lambda h: moved("rev", h, more=ybar), out["fwdrev"], f"{what}, fwdrev")  # noqa: B023
        near(out["revrev"], out["fwdrev"], 1e-9, f"{what}, revrev")
        near(out["revfwd"], out["fwdrev"], 1e-9, f"{what}, revfwd")
        for many, one in (("many_fwd", "fwd"), ("many_rev", "rev")):
            twice = [np.stack([y, y + y]) for y in out[one]]
            near(out[many], twice, 1e-9, f"{what}, {many}")
        for e, a in args.items():
            got = leaves(duals[e](*a))
            finite = [np.isfinite(w) for w in out[e]]  # see docs/dual.md, Zero
            got = [np.where(m, g, w) if g.shape == w.shape else g for m, g, w in zip(finite, got, out[e], strict=True)]
            near(got, out[e], 1e-9, f"{what}, {e} by dual numbers")
        for p in others:
            for e, a in args.items():
                kept = [np.copy(v) for v in a]
                near(leaves(p[e](*a)), out[e], 1e-8, f"{what}, {e} on {p.backend}")
                assert all(np.array_equal(u, v) for u, v in zip(a, kept, strict=True)), f"{what}: an argument changed"


def seeds(count: int, first: int = 0) -> range:
    return range(FIRST + first, FIRST + first + round(count * SCALE))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(6))
def test_smooth(seed: int) -> None:
    check(seed, "f64", lambda rng, shape: np.asarray(rng.normal(size=shape)), differences=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(3, 1000))
def test_zeros_and_ties(seed: int) -> None:
    check(seed, "f64", lambda rng, shape: np.asarray(rng.choice([0.0, 0.0, 1.0, -1.0, 0.5, -0.0], shape)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4, 2000))
def test_integers(seed: int) -> None:
    elem = list(INTEGERS)[seed % len(INTEGERS)]
    low = 0 if elem.startswith("u") else -4
    check(seed, elem, lambda rng, shape: np.asarray(rng.integers(low, 9, shape), INTEGERS[elem]))


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("seed", seeds(2, 3000))
def test_backends(seed: int) -> None:
    check(seed, "f64", lambda rng, shape: np.asarray(rng.normal(size=shape)), BACKENDS)
