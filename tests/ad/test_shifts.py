"""Extrema that a result is shifted by and back (`ad/shifts.py`) have no derivative; all others have theirs."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

import futad
from futad.ad import shifts
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from tests.support.slow import slow_but

LOGSUMEXP = "let m = f64.maximum v in m + f64.log (f64.sum (map (\\u -> f64.exp (u - m)) v))"
CANCELS = {
    "log-sum-exp": LOGSUMEXP,
    "by the least": LOGSUMEXP.replace("maximum", "minimum"),
    "softmax": "let m = f64.maximum v let e = map (\\u -> f64.exp (u - m)) v "
    "in f64.sum (map2 (\\a u -> a / f64.sum e * u) e v)",
    "halves": "let m = f64.maximum v in 0.5 * m + f64.log (f64.sqrt (f64.sum (map (\\u -> f64.exp (u - m)) v)))",
    "smooth minimum": "let m = f64.minimum v in m - f64.log (f64.sum (map (\\u -> f64.exp (m - u)) v))",
    "masked": "let m = f64.maximum v in m + f64.log (f64.sum (map (\\u -> if u > 0 then f64.exp (u - m) else 0) v))",
    "masked by infinity": "let m = f64.maximum v "
    "in m + f64.log (f64.sum (map (\\u -> f64.exp (if u > 0 then u - m else -f64.inf)) v))",
    "of two": "let m = f64.max v[0] (v[1] * v[1]) in m + f64.log (f64.exp (v[0] - m) + f64.exp (v[1] * v[1] - m))",
    "compared": "let m = f64.maximum v in f64.sum (map (\\u -> if u - m > v[0] - m then u * u else u) v)",
}
STAYS = {
    "left out": "let m = f64.maximum v in f64.log (f64.sum (map (\\u -> f64.exp (u - m)) v))",
    "twice": LOGSUMEXP.replace("in m", "in 2 * m"),
    "one more": LOGSUMEXP.replace("f64.exp (u - m)", "1 + f64.exp (u - m)"),
    "sum of differences": "let m = f64.maximum v in m + f64.sum (map (\\u -> u - m) v)",
    "product": LOGSUMEXP.replace("f64.sum", "f64.product"),
    "sine": "let m = f64.maximum v in m + f64.sin (m - 1)",
    "branch": "let m = f64.maximum v in if m > 2 then m * m else v[0] - m",
    "a loop": "let m = f64.maximum v in m + f64.log (loop s = 0 for u in v do s + f64.exp (u - m))",
    "clamped": "let m = f64.maximum v in m + f64.log (f64.sum (map (\\u -> f64.exp (f64.max (u - m) (-1))) v))",
}
POINTS = [
    [0.5], [1.0, 1.0], [0.3, 2.0, -1.0], [3.0, -2.0, 3.0, 0.1], [700.0, 710.0, -700.0],
    [np.inf, 1.0], [-np.inf, 2.0], [-np.inf, -np.inf], [np.nan, 1.0],
]  # fmt: skip


def derivatives(body: str, backend: str = "interp"):
    program = futad.compile(f"entry main [n] (v: [n]f64): f64 = {body}", backend=backend)
    return program.main, futad.grad(program.main)


def fired(source: str) -> int:
    with counting() as counts:
        compile_program(compile_text(source), check=True)
    return counts["shifts"]


def of_vjp(body: str) -> str:
    return f"entry main [n] (v: [n]f64): [n]f64 = vjp (\\(v: [n]f64) -> {body}) v 1"


@pytest.mark.parametrize("name", [*CANCELS, *STAYS])
def test_fires_where_the_shift_cancels(name):
    assert fired(of_vjp(CANCELS.get(name) or STAYS[name])) == (name in CANCELS)


ALL = ["log-sum-exp", "softmax", "masked by infinity", "twice", "branch"]
FAST = [*[("interp", name) for name in ALL], ("c", "softmax"), ("multicore", "of two")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "name"), slow_but(FAST, product(["interp", "c", "multicore", "emulated"], [*CANCELS, *STAYS]))
)
def test_values_and_derivatives(name, backend, monkeypatch):
    """As without the marks, also at ties and infinities; and as differences at ordinary points."""
    body = CANCELS.get(name) or STAYS[name]
    value, gradient = derivatives(body, backend)
    monkeypatch.setattr(shifts, "_extremum", lambda s: False)
    plain, reference = derivatives(body)
    with np.errstate(all="ignore"):
        for point in POINTS:
            v = np.array(point if len(point) > 1 else [point[0], -1.0])
            np.testing.assert_allclose(value(v), plain(v), rtol=1e-12)
            if np.isfinite(plain(v)):
                np.testing.assert_allclose(gradient(v), reference(v), rtol=1e-9, atol=1e-9)
        v = np.array([0.31, 1.7, -0.4, 1.1])
        for i, g in enumerate(gradient(v)):
            h = np.eye(4)[i] * 1e-6
            assert abs((plain(v + h) - plain(v - h)) / 2e-6 - g) < 1e-6


@pytest.mark.slow
def test_nothing_and_one():
    for backend in ("interp", "c"):
        value, gradient = derivatives(LOGSUMEXP, backend)
        assert value(np.zeros(0)) == -np.inf and gradient(np.zeros(0)).shape == (0,)
        assert value(np.array([3.5])) == 3.5
        np.testing.assert_allclose(gradient(np.array([3.5])), [1.0])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_modes_and_orders(backend):
    """Forward mode, duality, and the Hessian, which is diag p - p p^T."""
    main, gradient = derivatives(LOGSUMEXP, backend)
    v, d = np.array([0.2, 1.5, 1.5, -3.0]), np.array([1.0, -2.0, 0.5, 0.25])
    p = np.exp(v) / np.exp(v).sum()
    _, tangent = futad.jvp(main, (v,), (d,))
    np.testing.assert_allclose(tangent, p @ d, rtol=1e-12)
    np.testing.assert_allclose(gradient(v) @ d, tangent, rtol=1e-12)
    hessian = futad.hessian(main)(v)
    np.testing.assert_allclose(hessian, np.diag(p) - np.outer(p, p), atol=1e-12)
    np.testing.assert_allclose(futad.jacrev(gradient)(v), hessian, atol=1e-12)


def _random(r: Random) -> str:
    """A function of a vector by way of one of its extrema, whose shift may cancel or not."""
    k, sign = r.choice([1, 2, -1]), r.choice(["u - m", "m - u", "u + m", "2 * (u - m)", "u - 0.5 * m"])
    term = r.choice(
        ["f64.exp (X)", "f64.exp (X) * u", "f64.exp (X) / (1 + u * u)", "if u > 0.3 then f64.exp (X) else 0"]
    )
    fold = r.choice(["f64.sum", "f64.maximum", "reduce (+) 0.5"])
    after = r.choice(["K * m + f64.log s", "s / f64.exp m", "s * f64.exp (-K * m)", "f64.log s - K * m", "f64.sqrt s"])
    before, more = r.choice([("", ""), ("", ""), ("0.1 + ", ""), ("", " - 1e-3"), ("2 * ", "")])
    return (
        f"let m = {r.choice(['f64.maximum', 'f64.minimum'])} v "
        f"let s = {before}{fold} (map (\\u -> {term.replace('X', sign)}) v){more} "
        f"let t = {after.replace('K', f'({k})')} in {r.choice(['t', 't * t', 't + f64.sum (map (* t) v)'])}"
    )


@pytest.mark.parametrize("seed", slow_but(range(10), range(40)))
def test_random_functions(seed, monkeypatch):
    r = Random(seed)
    body = _random(r)
    v = np.array([r.uniform(0.1, 1.5) for _ in range(r.randint(1, 6))])
    values = [f(v) for f in derivatives(body)]
    monkeypatch.setattr(shifts, "_extremum", lambda s: False)
    with np.errstate(all="ignore"):
        for found, expected in zip(values, [f(v) for f in derivatives(body)], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8, err_msg=body)
