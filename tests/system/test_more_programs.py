"""The programs of ADBench and GradBench against closed forms and complex steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from futad.datasets import read_ba, read_hand, read_lstm
from reference import adbench_forms as af

import futad
from futad.cli import main
from tests.support.needs import needs_adbench, needs_cc
from tests.support.paths import ADBENCH, ROOT

PROGRAMS = ROOT / "benchmarks" / "programs"

BACKENDS = ["interp", pytest.param("c", marks=needs_cc)]
THREADS = [*BACKENDS, pytest.param("multicore", marks=needs_cc)]

Array = np.ndarray[Any, np.dtype[Any]]
_programs: dict[tuple[str, str], Any] = {}


def program(name: str, backend: str) -> Any:
    key = (name, backend)
    if key not in _programs:
        _programs[key] = futad.load(PROGRAMS / f"{name}.fut", backend=backend)
    return _programs[key]


def close(actual: Any, expected: Any, tolerance: float = 1e-11) -> None:
    """Same shape, and equal to `tolerance` of the largest element."""
    a, e = np.asarray(actual), np.asarray(expected)
    assert a.shape == e.shape
    np.testing.assert_allclose(a, e, rtol=0, atol=tolerance * max(np.abs(e).max(initial=0), 1e-300))


# --- Bundle adjustment -------------------------------------------------------------------------------


def ba_args(seed: int, n: int = 3, m: int = 4, p: int = 7) -> tuple[Array, ...]:
    r = np.random.default_rng(seed)
    cameras = 0.3 * r.normal(size=(n, 11))
    cameras[:, 6] += 2
    cameras[0, :3] = 0  # the limit without rotation
    points = r.normal(size=(m, 3)) + [0, 0, 6]
    observations = np.stack([r.integers(n, size=p), r.integers(m, size=p)], axis=1)
    observations[0, 0] = 0
    return cameras, points, r.normal(size=p), observations.astype(np.int32), r.normal(size=(p, 2))


def dense(starts: Array, columns: Array, values: Array, width: int) -> Array:
    """A matrix in compressed sparse rows as a dense one; every entry of a row has a column of its own."""
    out = np.zeros((len(starts) - 1, width))
    for i, (a, b) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        assert len(set(columns[a:b])) == b - a
        out[i, columns[a:b]] = values[a:b]
    return out


@pytest.mark.slow
@pytest.mark.parametrize("backend", THREADS)
@pytest.mark.parametrize("sizes", [(3, 4, 7), (1, 1, 1), (2, 3, 1)])
def test_bundle_adjustment(backend: str, sizes: tuple[int, int, int]) -> None:
    args = ba_args(1, *sizes)
    p = program("ba", backend)
    errors, weight_errors = p.objective(*args)
    close(np.concatenate([errors.ravel(), weight_errors]), af.ba_errors(*args))
    starts, columns, values = p.jacobian(*args)
    n, m, count = sizes
    assert starts[-1] == len(values) == 31 * count
    close(dense(starts, columns, values, 11 * n + 3 * m + count), af.ba_jacobian(*args))


@pytest.mark.slow
@needs_cc
@needs_adbench
def test_bundle_adjustment_on_real_data() -> None:
    b = read_ba(ADBENCH / "ba" / "ba1_n49_m7776_p31843.txt")
    seen = b.observations.astype(np.int32)
    p = program("ba", "multicore")
    errors, _ = p.objective(b.cams, b.points, b.weights, seen, b.features)
    one = (b.cams[:1], b.points[:1], b.weights[:1], np.zeros((1, 2), int), b.features[:1])
    # The file repeats one camera, point and weight: all observations are alike.
    close(errors, np.tile(af.ba_errors(*one)[:2], (len(errors), 1)))
    starts, columns, values = p.jacobian(b.cams, b.points, b.weights, seen, b.features)
    close(values[: 30 * len(seen)].reshape(-1, 30), np.tile(af.ba_jacobian(*one)[:2].ravel(), (len(seen), 1)))
    assert columns[30 * 100] == 11 * (100 % 49)
    assert starts[-1] == 31 * len(seen)


# --- Hand tracking -----------------------------------------------------------------------------------


def hand_args(seed: int, mirrored: bool, v: int = 9, c: int = 6, t: int = 5) -> tuple[Any, ...]:
    """A model, triangles, correspondences to either, points, theta and us."""
    r = np.random.default_rng(seed)
    parents = np.array([-1, 0, *[2 + i - 1 if i % 4 else 1 for i in range(20)]], np.int32)
    weights = r.random((v, 22))
    weights /= weights.sum(axis=1, keepdims=True)
    frames = r.normal(size=(2, 22, 4, 4))
    frames[:, :, 3] = [0, 0, 0, 1]
    positions = np.concatenate([r.normal(size=(v, 3)), np.ones((v, 1))], axis=1)
    model = (parents, *(0.5 * frames), positions, weights, mirrored)
    triangles = r.integers(v, size=(t, 3)).astype(np.int32)
    which = r.integers(min(v, t), size=c).astype(np.int32)
    return model, triangles, which, r.normal(size=(c, 3)), 0.4 * r.normal(size=26), r.random((c, 2))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mirrored, v", [(False, 5), (False, 9), (True, 30)])
def test_hand(backend: str, mirrored: bool, v: int) -> None:
    """Few vertices and many, compared with six points and their 18 corners, take different ways."""
    model, triangles, which, points, theta, us = hand_args(2, mirrored, v)
    p = program("hand", backend)
    c = len(which)

    close(
        p.simple_objective(*model, which, points, theta), af.hand_errors(model, triangles, which, points, theta, None)
    )
    expected = af.complex_step(lambda th: af.hand_errors(model, triangles, which, points, th, None), theta)
    jacobian = p.simple_jacobian(*model, which, points, theta)
    close(jacobian.reshape(26, 3 * c).T, expected)

    args = (*model, triangles, which, points, theta, us)
    close(p.complicated_objective(*args), af.hand_errors(model, triangles, which, points, theta, us))
    by_us, by_theta = p.complicated_jacobian(*args)
    expected = af.complex_step(lambda th: af.hand_errors(model, triangles, which, points, th, us), theta)
    close(by_theta.reshape(26, 3 * c).T, expected)
    # A point's error depends on its own us only; the two seeds collect all of these.
    full = af.complex_step(lambda u: af.hand_errors(model, triangles, which, points, theta, u), us)
    close(by_us, np.einsum("cick->kci", full.reshape(c, 3, c, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_hand_that_does_not_iteration(backend: str) -> None:
    model, triangles, which, points, theta, _ = hand_args(3, False)
    theta[:3] = 1e-6
    objective = program("hand", backend).simple_objective(*model, which, points, theta)
    close(objective, af.hand_errors(model, triangles, which, points, theta, None))


@pytest.mark.slow
@needs_cc
@needs_adbench
@pytest.mark.parametrize("variant", ["simple_small", "complicated_small"])
def test_hand_on_real_data(variant: str) -> None:
    complicated = variant.startswith("complicated")
    h = read_hand(ADBENCH / "hand" / variant / "hand1_t26_c100.txt", complicated=complicated)
    m = h.model
    assert m is not None
    parents = m.parents.astype(np.int32)
    model = (parents, m.base_relatives, m.inverse_base_absolutes, m.base_positions, m.weights.T, m.is_mirrored)
    which, triangles = h.correspondences.astype(np.int32), m.triangles.astype(np.int32)
    p = program("hand", "c")

    def expected(theta: Array) -> Array:
        return af.hand_errors(model, triangles, which, h.points, theta, h.us)

    if complicated:
        args = (*model, triangles, which, h.points, h.theta, h.us)
        objective, jacobian = p.complicated_objective(*args), p.complicated_jacobian(*args)[1]
    else:
        args = (*model, which, h.points, h.theta)
        objective, jacobian = p.simple_objective(*args), p.simple_jacobian(*args)
    close(objective, expected(h.theta))
    close(jacobian.reshape(26, -1).T, af.complex_step(expected, h.theta))


# --- LSTM with diagonal weights ----------------------------------------------------------------------


def dlstm_check(p: Any, args: tuple[Array, ...]) -> None:
    main_params, extra, state, sequence = args
    close(p.objective(*args), af.dlstm_loss(*args))
    d_main, d_extra = p.gradient(*args)
    close(d_main.ravel(), af.complex_step(lambda a: af.dlstm_loss(a, extra, state, sequence), main_params)[0])
    close(d_extra.ravel(), af.complex_step(lambda a: af.dlstm_loss(main_params, a, state, sequence), extra)[0])


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sizes", [(2, 6, 3), (1, 2, 1), (3, 4, 9)])
def test_dlstm(backend: str, sizes: tuple[int, int, int]) -> None:
    layers, chars, bits = sizes
    r = np.random.default_rng(4)
    shapes = [(2 * layers, 4 * bits), (3, bits), (2 * layers, bits), (chars, bits)]
    dlstm_check(program("dlstm", backend), tuple(r.normal(size=s) for s in shapes))


@pytest.mark.slow
@needs_cc
@needs_adbench
def test_dlstm_on_real_data() -> None:
    data = read_lstm(ADBENCH / "lstm" / "lstm_l2_c1024.txt")
    args = (data.main, data.extra, data.state, data.sequence)
    p = program("dlstm", "c")
    close(p.objective(*args), af.dlstm_loss(*args))
    d_main, d_extra = p.gradient(*args)
    r = np.random.default_rng(5)
    v_main, v_extra = r.normal(size=d_main.shape), r.normal(size=d_extra.shape)
    step = af.dlstm_loss(data.main + 1e-30j * v_main, data.extra + 1e-30j * v_extra, data.state, data.sequence)
    close((d_main * v_main).sum() + (d_extra * v_extra).sum(), step.imag / 1e-30, 1e-10)


# --- The small ones ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("backend", THREADS)
@pytest.mark.parametrize("m, n", [(4, 9), (1, 2), (7, 30)])
def test_llsq(backend: str, m: int, n: int) -> None:
    x = np.random.default_rng(6).normal(size=m)
    t = np.linspace(-1, 1, n)
    powers = np.vander(t, m, increasing=True)
    residual = np.sign(t) - powers @ x
    p = program("llsq", backend)
    close(p.primal(x, n), 0.5 * residual @ residual)
    close(p.gradient(x, n), -powers.T @ residual, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("backend", THREADS)
def test_lse(backend: str) -> None:
    x = 300 * np.random.default_rng(7).normal(size=50)
    weights = np.exp(x - x.max())
    p = program("lse", backend)
    close(p.primal(x), x.max() + np.log(weights.sum()))
    close(p.gradient(x), weights / weights.sum())


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n", [1, 2, 4, 5, 6, 7])
def test_det(backend: str, n: int) -> None:
    a = np.random.default_rng(n).normal(size=(n, n))
    p = program("det", backend)
    if n == 7 and backend == "interp":
        n, a = 3, a[:3, :3]  # thousands of terms take the interpreter long
    det = np.linalg.det(a)
    close(p.primal(n, a.ravel()), det, 1e-10)
    close(p.gradient(n, a.ravel()), (det * np.linalg.inv(a).T).ravel(), 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("n, steps", [(1, 1), (3, 2), (8, 5)])
def test_ode(backend: str, n: int, steps: int) -> None:
    x = np.random.default_rng(8).random(n) + 0.5
    y = af.ode_solution(x, steps)
    p = program("ode", backend)
    close(p.primal(x, steps), y)
    # Each component is linear in each of the x it depends on.
    close(p.gradient(x, steps), y[-1] / x)


@pytest.mark.slow
@needs_cc
def test_saddle() -> None:
    """Descent stops within its tolerance of the saddle point, which is 0; all modes take the same way."""
    p = program("saddle", "c")
    results = [p[mode](np.array([1.0, -0.5])) for mode in ("ff", "fr", "rf", "rr")]
    for r in results:
        assert np.abs(r).max() < 2e-5
        close(r, results[0], 1e-9)


@pytest.mark.slow
@needs_cc
def test_particle() -> None:
    """All modes find the same w, and from a start beyond it nearly the same."""
    p = program("particle", "c")
    found = [p[mode](0.0) for mode in ("ff", "fr", "rf", "rr")]
    close(found, [0.2071918746486116] * 4, 1e-9)
    close(p.fr(0.5), found[0], 1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_hello(backend: str) -> None:
    p = program("hello", backend)
    assert p.square(-1.5) == 2.25
    assert p.double(-1.5) == -3.0


NAMES = ["hello", "lse", "llsq", "ode", "det", "saddle", "particle", "dlstm", "ba", "hand"]


@pytest.mark.slow
@needs_cc
def test_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "-b", "c", *[str(PROGRAMS / f"{name}.fut") for name in NAMES]]) == 0
    assert "0 failed" in capsys.readouterr().out
