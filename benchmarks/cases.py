"""What `cpu.py` measures: programs with inputs and NumPy references of their answers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import adbench_forms as af  # noqa: E402
import closed_forms as cf  # noqa: E402

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """A program's objective and derivative on one input.

    `numpy` and `numpy_derivative` compute the same in NumPy; they are timed where they are closed forms written
    with arrays.  `seen` takes from the derivative what is compared with `numpy_derivative`.
    """

    name: str
    size: str
    program: str
    objective: str
    derivative: str
    args: tuple[Any, ...]
    numpy: Callable[[], Any]
    numpy_derivative: Callable[[], Any]
    timed: tuple[bool, bool]
    seen: Callable[[Any], Any] = lambda result: result


def gmm(n: int, d: int, k: int) -> Case:
    r = np.random.default_rng(1)
    factors = 0.3 * r.normal(size=(k, d + d * (d - 1) // 2))
    args = (r.normal(size=k), r.random((k, d)), factors, r.normal(size=(n, d)), 1.0, 0)
    return Case(
        "gmm", f"n={n} d={d} K={k}", "gmm", "objective", "gradient", args,
        lambda: cf.gmm_objective(*args), lambda: cf.gmm_gradient(*args), (True, True),
    )  # fmt: skip


def kmeans(k: int, n: int, d: int) -> Case:
    points = np.random.default_rng(2).random((n, d))
    args = (points, points[-k:].copy())
    return Case(
        "kmeans", f"k={k} n={n} d={d}", "kmeans", "objective", "newton_step", args,
        lambda: cf.kmeans_objective(*args), lambda: cf.kmeans_newton_step(*args), (True, True),
    )  # fmt: skip


def ba_rows(z: Array, features: Array) -> Array:
    """The errors [p][2] of observations z [p][15]: camera 11, point 3, weight."""
    r, centre, x = z[:, 0:3], z[:, 3:6], z[:, 11:14]
    angle = np.sqrt((r * r).sum(axis=1, keepdims=True))
    axis, moved = r / angle, x - centre
    along = (axis * moved).sum(axis=1, keepdims=True)
    cross = np.stack([axis[:, i - 2] * moved[:, i - 1] - axis[:, i - 1] * moved[:, i - 2] for i in range(3)], axis=1)
    seen = np.cos(angle) * moved + np.sin(angle) * cross + (1 - np.cos(angle)) * along * axis
    plane = seen[:, :2] / seen[:, 2:]
    square = (plane * plane).sum(axis=1, keepdims=True)
    scale = z[:, 6:7] * (1 + z[:, 9:10] * square + z[:, 10:11] * square**2)
    return z[:, 14:] * (scale * plane + z[:, 7:9] - features)


def ba(n: int, m: int, p: int) -> Case:
    r = np.random.default_rng(3)
    cameras, points = 0.1 * r.normal(size=(n, 11)), r.normal(size=(m, 3)) + [0, 0, 6]
    cameras[:, 6] += 2
    weights, features = r.random(p), r.normal(size=(p, 2))
    seen = np.stack([np.arange(p) % n, np.arange(p) % m], axis=1).astype(np.int32)
    args = (cameras, points, weights, seen, features)

    def rows() -> Array:
        return np.concatenate([cameras[seen[:, 0]], points[seen[:, 1]], weights[:, None]], axis=1)

    def jacobian() -> Array:
        z = rows().astype(complex)
        columns = []
        for i in range(15):
            z[:, i] += 1e-30j
            columns.append(ba_rows(z, features).imag / 1e-30)
            z[:, i] = z[:, i].real
        return np.stack(columns, axis=2).ravel()

    return Case(
        "ba", f"n={n} m={m} p={p}", "ba", "objective", "jacobian", args,
        lambda: (ba_rows(rows(), features), 1 - weights * weights), jacobian, (True, False),
        lambda result: result[2][: 30 * p],
    )  # fmt: skip


def hand(v: int, c: int, complicated: bool) -> Case:
    r = np.random.default_rng(4)
    parents = np.array([-1, 0, *[2 + i - 1 if i % 4 else 1 for i in range(20)]], np.int32)
    frames = 0.3 * r.normal(size=(2, 22, 4, 4))
    frames[:, :, 3] = [0, 0, 0, 1]
    weights = r.random((v, 22))
    weights /= weights.sum(axis=1, keepdims=True)
    positions = np.concatenate([r.normal(size=(v, 3)), np.ones((v, 1))], axis=1)
    model = (parents, *frames, positions, weights, False)
    triangles = r.integers(v, size=(v, 3)).astype(np.int32)
    which, points = r.integers(v, size=c).astype(np.int32), r.normal(size=(c, 3))
    theta, us = 0.4 * r.normal(size=26), r.random((c, 2)) if complicated else None
    variant = "complicated" if complicated else "simple"
    args = (*model, triangles, which, points, theta, us) if complicated else (*model, which, points, theta)

    def by_theta() -> Array:
        return af.complex_step(lambda th: af.hand_errors(model, triangles, which, points, th, us), theta)

    return Case(
        f"hand {variant}", f"v={v} c={c}", "hand", f"{variant}_objective", f"{variant}_jacobian", args,
        lambda: af.hand_errors(model, triangles, which, points, theta, us), by_theta, (True, False),
        lambda result: (result[1] if complicated else result).reshape(26, -1).T,
    )  # fmt: skip


def dlstm(layers: int, chars: int, bits: int) -> Case:
    r = np.random.default_rng(5)
    args = (*[r.random(s) for s in ((2 * layers, 4 * bits), (3, bits), (2 * layers, bits))],
            (r.random((chars, bits)) > 0.5).astype(float))  # fmt: skip
    directions = [r.normal(size=a.shape) for a in args[:2]]

    def along() -> Array:
        moved = [a + 1e-30j * v for a, v in zip(args[:2], directions, strict=True)]
        return af.dlstm_loss(*moved, *args[2:]).imag / 1e-30

    return Case(
        "dlstm", f"l={layers} c={chars} b={bits}", "dlstm", "objective", "gradient", args,
        lambda: af.dlstm_loss(*args), along, (False, False),
        lambda result: sum((g * v).sum() for g, v in zip(result, directions, strict=True)),
    )  # fmt: skip


def llsq(n: int, m: int) -> Case:
    x = np.random.default_rng(6).random(m)
    t = np.linspace(-1, 1, n)

    def residual() -> tuple[Array, Array]:
        powers = np.vander(t, m, increasing=True)
        return powers, np.sign(t) - powers @ x

    def gradient() -> Array:
        powers, r = residual()
        return -powers.T @ r

    return Case(
        "llsq", f"n={n} m={m}", "llsq", "primal", "gradient", (x, n),
        lambda: 0.5 * (residual()[1] ** 2).sum(), gradient, (True, True),
    )  # fmt: skip


def lse(n: int) -> Case:
    x = np.random.default_rng(7).random(n)

    def softmax() -> Array:
        weights = np.exp(x - x.max())
        return weights / weights.sum()

    def value() -> Any:
        top = x.max()
        return top + np.log(np.exp(x - top).sum())

    return Case("lse", f"n={n}", "lse", "primal", "gradient", (x,), value, softmax, (True, True))


def det(n: int) -> Case:
    """NumPy's way is another one (by elimination), so it is not timed."""
    a = np.random.default_rng(8).random((n, n))
    return Case(
        "det", f"n={n}", "det", "primal", "gradient", (n, a.ravel()),
        lambda: np.linalg.det(a), lambda: (np.linalg.det(a) * np.linalg.inv(a).T).ravel(), (False, False),
    )  # fmt: skip


def ode(n: int, steps: int) -> Case:
    x = np.random.default_rng(9).random(n) + 0.5

    def solve() -> Array:
        h, y = 2 / steps, np.zeros(n)

        def slope(y: Array) -> Array:
            return x * np.concatenate([[1], y[:-1]])

        for _ in range(steps):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3))
        return y

    # The last component is linear in every x; with many x it is too small for a float, and so is its gradient.
    return Case(
        "ode", f"n={n} s={steps}", "ode", "primal", "gradient", (x, steps), solve, lambda: solve()[-1] / x,
        (True, False),
    )  # fmt: skip


def cases(small: bool) -> list[Case]:
    """The rows of the report; `small` ones take seconds altogether."""
    if small:
        return [
            gmm(100, 10, 5), kmeans(10, 500, 8), ba(5, 50, 500), hand(300, 50, False), hand(300, 50, True),
            dlstm(2, 50, 14), llsq(256, 32), lse(10000), det(6), ode(100, 10),
        ]  # fmt: skip
    return [
        gmm(1000, 10, 200), gmm(1000, 64, 200), kmeans(1000, 10000, 16), ba(257, 65132, 225911),
        hand(10000, 800, False), hand(10000, 800, True), dlstm(4, 4096, 14), llsq(16392, 128), lse(1280000),
        det(10), ode(100000, 100),
    ]  # fmt: skip
