"""What `cpu.py` measures: programs with inputs and NumPy references of their answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from futad.datasets.make_neutrons import cavity
from reference import adbench_forms as af
from reference import closed_forms as cf
from reference import physics_forms as pf

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """A program's objective and derivative on one input.

    `more` are the derivative's arguments after the objective's.  `numpy` and `numpy_derivative` compute the same in
    NumPy; they are timed where they are closed forms written with arrays.  `seen` takes from futad's derivative what is
    compared with `numpy_derivative`, `peer_seen` from other libraries'; `tolerance` is relative to the largest element.
    `work` grows with the size as the number of operations does.  `flops` are those of the matrix products (or of
    matrices and vectors) that both parts need, `bytes` what they read and write at least; 0 where neither bounds the
    time.
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
    peer_seen: Callable[[Any], Any] = lambda result: result
    work: float = 0
    flops: tuple[float, float] = (0, 0)
    bytes: tuple[float, float] = (0, 0)
    tolerance: float = 1e-9
    more: tuple[Any, ...] = ()


def gmm(n: int, d: int, k: int) -> Case:
    r = np.random.default_rng(1)
    factors = 0.3 * r.normal(size=(k, d + d * (d - 1) // 2))
    args = (r.normal(size=k), r.random((k, d)), factors, r.normal(size=(n, d)), 1.0, 0)
    return Case(
        "gmm", f"n={n} d={d} K={k}", "gmm", "objective", "gradient", args,
        lambda: cf.gmm_objective(*args), lambda: cf.gmm_gradient(*args), (True, True),
        work=n * k * d * d, flops=(2 * n * k * d * d, 6 * n * k * d * d),
    )  # fmt: skip


def kmeans(k: int, n: int, d: int) -> Case:
    points = np.random.default_rng(2).random((n, d))
    args = (points, points[-k:].copy())

    def distances(points: Array, centroids: Array) -> Array:
        norms = (points**2).sum(axis=1)[:, None] + (centroids**2).sum(axis=1)
        return norms - 2 * points @ centroids.T

    def objective() -> Any:
        return distances(*args).min(axis=1).sum()

    def centroids_moved(args: tuple[Array, Array]) -> Array:
        """To the mean of the points nearest to each; none is without."""
        nearest = distances(*args).argmin(axis=1)
        sums = np.zeros((k, d))
        np.add.at(sums, nearest, points)
        return sums / np.bincount(nearest, minlength=k)[:, None]

    return Case(
        "kmeans", f"k={k} n={n} d={d}", "kmeans", "objective", "newton_step", args,
        objective, lambda: centroids_moved(args), (True, True),
        work=k * n * d, flops=(2 * k * n * d, 2 * k * n * d),
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
        lambda result: result[2][: 30 * p], lambda result: np.asarray(result[0]).ravel(),
        work=p, bytes=(p * (4 * 8 + 2 * 4 + 3 * 8), p * (4 * 8 + 2 * 4 + 31 * 12 + 3 * 4)),
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
        lambda result: result[0] if complicated else result, work=c,
    )  # fmt: skip


def dlstm(layers: int, chars: int, bits: int) -> Case:
    r = np.random.default_rng(5)
    args = (*[r.random(s) for s in ((2 * layers, 4 * bits), (3, bits), (2 * layers, bits))],
            (r.random((chars, bits)) > 0.5).astype(float))  # fmt: skip
    directions = [r.normal(size=a.shape) for a in args[:2]]

    def along() -> Array:
        moved = [a + 1e-30j * v for a, v in zip(args[:2], directions, strict=True)]
        return af.dlstm_loss(*moved, *args[2:]).imag / 1e-30

    def seen(result: Any) -> Any:
        return sum((np.asarray(g) * v).sum() for g, v in zip(result, directions, strict=True))

    return Case(
        "dlstm", f"l={layers} c={chars} b={bits}", "dlstm", "objective", "gradient", args,
        lambda: af.dlstm_loss(*args), along, (False, False), seen, seen, work=layers * chars * bits,
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
        work=n * m, flops=(2 * n * m, 4 * n * m),
    )  # fmt: skip


def lse(n: int) -> Case:
    x = np.random.default_rng(7).random(n)

    def softmax() -> Array:
        weights = np.exp(x - x.max())
        return weights / weights.sum()

    def value() -> Any:
        top = x.max()
        return top + np.log(np.exp(x - top).sum())

    return Case(
        "lse", f"n={n}", "lse", "primal", "gradient", (x,), value, softmax, (True, True), work=n, bytes=(8 * n, 16 * n)
    )


def det(n: int) -> Case:
    """NumPy's way is another one (by elimination), so it is not timed."""
    a = np.random.default_rng(8).random((n, n))
    return Case(
        "det", f"n={n}", "det", "primal", "gradient", (n, a.ravel()),
        lambda: np.linalg.det(a), lambda: (np.linalg.det(a) * np.linalg.inv(a).T).ravel(), (False, False),
        work=math.factorial(n),
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
        (True, False), work=n * steps,
    )  # fmt: skip


def lstm(batch: int, steps: int, d: int, h: int) -> Case:
    """The paper's, in f32; predictions have the size of the hidden state."""
    r = np.random.default_rng(10)
    shapes = [(4, h, d), (4, h, h), (4, h), (h, h), (h,), (batch, h), (batch, h), (steps, batch, d), (steps, batch, h)]
    args = tuple((0.1 * r.normal(size=s)).astype(np.float32) for s in shapes)
    products = 2 * steps * batch * (4 * h * (d + h) + h * h)
    return Case(
        "lstm", f"bs={batch} n={steps} d={d} h={h}", "lstm", "objective", "gradient", args,
        lambda: cf.lstm_objective(*args), lambda: cf.lstm_gradient(*args), (True, True),
        work=products, flops=(products, 3 * products), tolerance=1e-4,
    )  # fmt: skip


def lbm(x: int, y: int, z: int, steps: int) -> Case:
    """In f32; what is compared is the derivative along one direction."""
    kinds, grid = cavity(x, y, z)
    r = np.random.default_rng(11)
    grid *= 1 + 0.1 * r.random(grid.shape, np.float32)
    seed, direction = r.normal(size=(2, *grid.shape)).astype(np.float32)
    wide = grid.astype(float)

    def along() -> Array:
        return (pf.lbm(steps, kinds, wide + 1e-30j * direction).imag / 1e-30 * seed).sum()

    def seen(result: Any) -> Any:
        return (np.asarray(result, float) * direction).sum()

    cells = 19 * 4 * x * y * z * steps
    return Case(
        "lbm", f"{x}x{y}x{z} s={steps}", "lbm", "primal", "gradient", (steps, kinds, grid),
        lambda: pf.lbm(steps, kinds, wide), along, (False, False), seen, seen,
        work=cells, bytes=(2 * cells, 5 * cells), tolerance=1e-4, more=(seed,),
    )  # fmt: skip


SMALL: list[tuple[Callable[..., Case], str, list[tuple[Any, ...]]]] = [
    (gmm, "gmm", [(100, 10, 5)]),
    (kmeans, "kmeans", [(10, 500, 8)]),
    (ba, "ba", [(5, 50, 500)]),
    (hand, "hand", [(300, 50, False), (300, 50, True)]),
    (dlstm, "dlstm", [(2, 50, 14)]),
    (lstm, "lstm", [(8, 4, 5, 6)]),
    (llsq, "llsq", [(256, 32)]),
    (lse, "lse", [(10000,)]),
    (det, "det", [(6,)]),
    (ode, "ode", [(100, 10)]),
    (lbm, "lbm", [(6, 5, 7, 3)]),
]
FULL: list[tuple[Callable[..., Case], str, list[tuple[Any, ...]]]] = [
    (gmm, "gmm", [(1000, 10, 25), (1000, 10, 200), (1000, 64, 25), (1000, 64, 200)]),
    (kmeans, "kmeans", [(10, 10000, 16), (100, 10000, 16), (1000, 10000, 16)]),
    (ba, "ba", [(49, 7776, 31843), (257, 65132, 225911), (356, 226730, 1255268)]),
    (hand, "hand", [(10000, c, complicated) for complicated in (False, True) for c in (100, 800, 6400)]),
    (dlstm, "dlstm", [(2, 1024, 14), (4, 4096, 14)]),
    (lstm, "lstm", [(64, 20, 300, 192), (256, 20, 300, 192), (1024, 20, 300, 192)]),
    (llsq, "llsq", [(1024, 128), (4096, 128), (16392, 128)]),
    (lse, "lse", [(20000,), (160000,), (1280000,)]),
    (det, "det", [(8,), (9,), (10,)]),
    (ode, "ode", [(1000, 100), (10000, 100), (100000, 100)]),
    (lbm, "lbm", [(16, 16, 16, 10), (32, 32, 32, 10), (64, 64, 64, 10)]),
]


def cases(small: bool, only: list[str] | None, middle: bool = False) -> list[Callable[[], Case]]:
    """What makes the rows of the report, by growing size: those of the programs whose name begins like one of `only`.
    `small` ones take seconds altogether; `middle` is one size of each, the smaller one of two in the middle."""
    return [
        lambda make=make, size=size: make(*size)
        for make, name, sizes in (SMALL if small else FULL)
        if not only or name.startswith(tuple(only))
        for size in (sizes[(len(sizes) - 1) // 2 :][:1] if middle else sizes)
    ]
