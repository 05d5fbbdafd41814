"""The programs in JAX, compiled; derivatives are JAX's own."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from peers import Calls, expansion, joints
from reference.physics_forms import DIRECTIONS, OPPOSITE, WEIGHTS

jax: Any = None
jnp: Any = None


def jax_calls(program: str, args: tuple[Any, ...]) -> Calls | None:
    """The compiled objective and derivative on `args`; None without JAX or without a version for it."""
    global jax, jnp
    if find_spec("jax") is None or program not in MAKERS:
        return None
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy
    objective, derivative, wanted = MAKERS[program](*args)
    inputs = [jnp.asarray(a) for a in wanted]
    value, derived = jax.jit(objective), jax.jit(derivative)
    return lambda: jax.block_until_ready(value(*inputs)), lambda: jax.block_until_ready(derived(*inputs))


# Objective, derivative, and the arguments of both; everything else is a constant to the compiler.
Made = tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]


def gradient(objective: Callable[..., Any], count: int) -> Callable[..., Any]:
    """By the first `count` arguments."""
    return jax.grad(objective, argnums=0 if count == 1 else tuple(range(count)))


def gmm(alphas: Any, means: Any, icf: Any, x: Any, gamma: float, m: int) -> Made:
    (n, d), k = x.shape, len(alphas)
    column, row = np.triu_indices(d, 1)

    def objective(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
        diagonal, log_det = jnp.exp(icf[:, :d]), icf[:, :d].sum(axis=1)
        q = jnp.zeros((k, d, d)).at[:, row, column].set(icf[:, d:])
        q = q + jax.vmap(jnp.diag)(diagonal)
        y = jnp.einsum("kij,knj->kni", q, x[None] - means[:, None])
        main = alphas[:, None] + log_det[:, None] - 0.5 * (y * y).sum(axis=2)
        dof = d + m + 1
        lgammas = jax.scipy.special.gammaln(0.5 * (dof - jnp.arange(d))).sum()
        log_gamma_d = 0.25 * d * (d - 1) * jnp.log(jnp.pi) + lgammas
        constant = k * (dof * d * (jnp.log(gamma) - 0.5 * jnp.log(2.0)) - log_gamma_d)
        prior = constant - 0.5 * gamma**2 * (q * q).sum() + m * log_det.sum()
        likelihood = jax.scipy.special.logsumexp(main, axis=0).sum() - n * jax.scipy.special.logsumexp(alphas)
        return likelihood - 0.5 * n * d * jnp.log(2 * jnp.pi) + prior

    return objective, gradient(objective, 3), (alphas, means, icf, x)


def lstm(wx: Any, wh: Any, bias: Any, wy: Any, by: Any, hidden: Any, state: Any, xs: Any, ys: Any) -> Made:
    def objective(wx: Any, wh: Any, bias: Any, wy: Any, by: Any, hidden: Any, state: Any, xs: Any, ys: Any) -> Any:
        inputs = jnp.einsum("ghd,tbd->tgbh", wx, xs) + bias[:, None, :]

        def step(carry: Any, z: Any) -> Any:
            hidden, state = carry
            i, f, g, o = z + jnp.einsum("ghe,be->gbh", wh, hidden)
            state = jax.nn.sigmoid(f) * state + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(state)
            return (hidden, state), hidden

        _, hiddens = jax.lax.scan(step, (hidden, state), inputs)
        return ((hiddens @ wy.T + by - ys) ** 2).mean()

    return objective, gradient(objective, 5), (wx, wh, bias, wy, by, hidden, state, xs, ys)


def kmeans(points: Any, centroids: Any) -> Made:
    def cost(centroids: Any, points: Any) -> Any:
        norms = (points**2).sum(axis=1)[:, None] + (centroids**2).sum(axis=1)
        return (norms - 2 * points @ centroids.T).min(axis=1).sum()

    def step(centroids: Any, points: Any) -> Any:
        slope = jax.grad(lambda c: cost(c, points))
        g, h = jax.jvp(slope, (centroids,), (jnp.ones_like(centroids),))
        return jnp.where(h == 0, centroids, centroids - g / jnp.where(h == 0, 1, h))

    return cost, step, (centroids, points)


def ba(cameras: Any, points: Any, weights: Any, seen: Any, features: Any) -> Made:
    def error(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
        r, x = camera[:3], point - camera[3:6]
        angle = jnp.sqrt((r * r).sum())
        axis = r / angle
        turned = jnp.cos(angle) * x + jnp.sin(angle) * jnp.cross(axis, x) + (1 - jnp.cos(angle)) * (axis @ x) * axis
        plane = turned[:2] / turned[2]
        square = (plane * plane).sum()
        distorted = plane * (1 + camera[9] * square + camera[10] * square**2)
        return weight * (camera[6] * distorted + camera[7:9] - feature)

    def chosen(cameras: Any, points: Any) -> Any:
        return cameras[seen[:, 0]], points[seen[:, 1]]

    def objective(cameras: Any, points: Any, weights: Any, features: Any) -> Any:
        return jax.vmap(error)(*chosen(cameras, points), weights, features), 1 - weights * weights

    def jacobian(cameras: Any, points: Any, weights: Any, features: Any) -> Any:
        by_camera, by_point, by_weight = jax.vmap(jax.jacrev(error, argnums=(0, 1, 2)))(
            *chosen(cameras, points), weights, features
        )
        by_weights = -2 * weights
        return jnp.concatenate([by_camera, by_point, by_weight[:, :, None]], axis=2), by_weights

    return objective, jacobian, (cameras, points, weights, features)


def hand(parents: Any, relatives: Any, inverses: Any, positions: Any, weights: Any, mirrored: bool, *rest: Any) -> Made:
    complicated = len(rest) == 5
    triangles, which, points, theta, us = rest if complicated else (None, *rest, None)
    which = (triangles[which] if complicated else which).ravel()

    def rotation(r: Any) -> Any:
        angle = jnp.sqrt((r * r).sum())
        x, y, z = r / angle
        cross = jnp.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        return jnp.eye(3) + jnp.sin(angle) * cross + (1 - jnp.cos(angle)) * cross @ cross

    def errors(theta: Any, us: Any, positions: Any, weights: Any, points: Any) -> Any:
        bends, spreads = (jnp.concatenate([theta, jnp.zeros(1)])[index] for index in joints(len(parents)))
        cx, sx, cz, sz = jnp.cos(bends), jnp.sin(bends), jnp.cos(spreads), jnp.sin(spreads)
        zero, one = jnp.zeros_like(cx), jnp.ones_like(cx)
        entries = [cz, -sz * cx, sz * sx, zero, sz, cz * cx, -cz * sx, zero, zero, sx, cx, zero, zero, zero, zero, one]
        local = relatives @ jnp.stack(entries, axis=1).reshape(-1, 4, 4)
        absolutes: list[Any] = []
        for bone, parent in enumerate(parents):
            absolutes.append(local[bone] if parent < 0 else absolutes[parent] @ local[bone])
        moves = (jnp.stack(absolutes) @ inverses)[:, :3]
        iteration = rotation(theta[:3]) * (jnp.array([-1, 1, 1]) if mirrored else 1)
        # Only the vertices that are looked at are moved if they are few, else all of them once.
        few = which.size < len(positions)
        blended = jnp.einsum("vb,bij->vij", weights[which] if few else weights, iteration @ moves)
        vertices = jnp.einsum("vij,vj->vi", blended, positions[which] if few else positions) + theta[3:6]
        vertices = vertices if few else vertices[which]
        if not complicated:
            return points - vertices
        corners = vertices.reshape(-1, 3, 3)
        u, v = us[:, :1], us[:, 1:]
        return points - (u * corners[:, 0] + v * corners[:, 1] + (1 - u - v) * corners[:, 2])

    def jacobian(theta: Any, us: Any, *others: Any) -> Any:
        by_theta = jax.jacfwd(errors)(theta, us, *others).reshape(-1, theta.size)
        if not complicated:
            return by_theta
        seeds = [jnp.broadcast_to(jnp.array(s, float), us.shape) for s in ((1, 0), (0, 1))]
        by_us = [jax.jvp(lambda us: errors(theta, us, *others), (us,), (s,))[1] for s in seeds]
        return by_theta, by_us

    return errors, jacobian, (theta, us if complicated else 0.0, positions, weights, points)


def dlstm(main: Any, extra: Any, state: Any, sequence: Any) -> Made:
    layers, bits = len(main) // 2, sequence.shape[1]

    def objective(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
        w, b = (part.reshape(layers, 4, bits) for part in (main[0::2], main[1::2]))

        def layer(x: Any, own: Any) -> Any:
            w, b, hidden, cell = own
            forget, output = jax.nn.sigmoid(x * w[0] + b[0]), jax.nn.sigmoid(x * w[2] + b[2])
            gate, change = jax.nn.sigmoid(hidden * w[1] + b[1]), jnp.tanh(hidden * w[3] + b[3])
            cell = cell * forget + gate * change
            hidden = output * jnp.tanh(cell)
            return hidden, (hidden, cell)

        def step(carry: Any, x: Any) -> Any:
            hiddens, cells = carry
            x = x * extra[0]
            news = []
            for i in range(layers):
                x, new = layer(x, (w[i], b[i], hiddens[i], cells[i]))
                news.append(new)
            return tuple(jnp.stack(part) for part in zip(*news, strict=True)), x

        _, out = jax.lax.scan(step, (state[0::2], state[1::2]), sequence[:-1])
        y = out * extra[1] + extra[2]
        return -(sequence[1:] * (y - jnp.log(2 + jnp.exp(y).sum(axis=1, keepdims=True)))).mean()

    return objective, gradient(objective, 2), (main, extra, state, sequence)


def llsq(x: Any, n: int) -> Made:
    t = np.linspace(-1, 1, n)

    def objective(x: Any, t: Any) -> Any:
        return 0.5 * ((jnp.sign(t) - jnp.polyval(x[::-1], t)) ** 2).sum()

    return objective, gradient(objective, 1), (x, t)


def lse(x: Any) -> Made:
    return jax.scipy.special.logsumexp, gradient(jax.scipy.special.logsumexp, 1), (x,)


def det(n: int, a: Any) -> Made:
    signs, upper, lower = expansion(n)

    def minor(m: Any, row: int, columns: tuple[int, ...]) -> Any:
        if len(columns) == 1:
            return m[row][columns[0]]
        parts = [m[row][c] * minor(m, row + 1, columns[:i] + columns[i + 1 :]) for i, c in enumerate(columns)]
        return sum(p if i % 2 == 0 else -p for i, p in enumerate(parts))

    def objective(a: Any) -> Any:
        square = a.reshape(n, n)
        product = signs
        for row, columns in enumerate(upper.T):
            product = product * square[row, columns]
        rest = [[square[row, columns] for columns in lower.T] for row in range(upper.shape[1], n)]
        return (product * minor(rest, 0, tuple(range(lower.shape[1])))).sum()

    return objective, gradient(objective, 1), (a,)


def ode(x: Any, steps: int) -> Made:
    h = 2 / steps

    def solve(x: Any) -> Any:
        def slope(y: Any) -> Any:
            return x * jnp.concatenate([jnp.ones(1), y[:-1]])

        def step(y: Any, _: Any) -> Any:
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            k4 = slope(y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return jax.lax.scan(step, jnp.zeros_like(x), None, length=steps)[0]

    return solve, jax.grad(lambda x: solve(x)[-1]), (x,)


def lbm(steps: int, kinds: Any, grid: Any, seed: Any) -> Made:
    offsets = DIRECTIONS @ [1, grid.shape[3], grid.shape[3] * grid.shape[2]]
    e, w = DIRECTIONS.astype(grid.dtype), WEIGHTS.astype(grid.dtype)[:, None]

    def simulate(grid: Any, flags: Any) -> Any:
        def step(f: Any, _: Any) -> Any:
            f = jnp.stack([jnp.roll(f[i], int(o)) for i, o in enumerate(offsets)])
            rho = f.sum(axis=0)
            u = jnp.where(flags == 2, jnp.array([[0.005], [0.002], [0.0]], f.dtype), e.T @ f / rho)
            along = e @ u
            equilibrium = w * rho * (1 + 3 * along + 4.5 * along**2 - 1.5 * (u**2).sum(axis=0))
            return jnp.where(flags == 1, f[np.array(OPPOSITE)], f + 1.95 * (equilibrium - f)), None

        return jax.lax.scan(step, grid.reshape(19, -1), None, length=steps)[0].reshape(grid.shape)

    def derivative(grid: Any, flags: Any, seed: Any) -> Any:
        return jax.vjp(lambda g: simulate(g, flags), grid)[1](seed)[0]

    return (lambda grid, flags, seed: simulate(grid, flags)), derivative, (grid, kinds.ravel(), seed)


MAKERS: dict[str, Callable[..., Made]] = {
    "gmm": gmm, "lstm": lstm, "kmeans": kmeans, "ba": ba, "hand": hand, "dlstm": dlstm, "llsq": llsq, "lse": lse,
    "det": det, "ode": ode, "lbm": lbm,
}  # fmt: skip
