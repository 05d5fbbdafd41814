"""The everyday programs in JAX, as its users write them; `jax.jit` compiles them.

Rows with a loop that ends early have it masked: `jax.grad` refuses a `while_loop`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import erf, logsumexp


def mixture(w, means, s, x):
    d = x.shape[1]
    z = ((x[:, None] - means) ** 2).sum(2) / jnp.exp(s) ** 2
    logs = w - logsumexp(w) - d * (s + 0.5 * jnp.log(2 * jnp.pi)) - 0.5 * z
    return -logsumexp(logs, axis=1).sum()


def neural_ode(w1, b1, w2, b2, y0, target):
    def f(y):
        return w2 @ jnp.tanh(w1 @ y + b1) + b2

    def step(y, _):
        h = 0.01
        k1 = f(y)
        k2 = f(y + 0.5 * h * k1)
        k3 = f(y + 0.5 * h * k2)
        k4 = f(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    y, _ = lax.scan(step, y0, None, length=1000)
    return ((y - target) ** 2).sum()


def logistic(w, b, x, y):
    return jnp.log(1 + jnp.exp(-(2 * y - 1) * (x @ w + b))).mean() + 0.01 * (w**2).sum()


def hmc(q, p, x, y):
    def potential(w):
        return jnp.log(1 + jnp.exp(-(2 * y - 1) * (x @ w))).sum() + 0.5 * (w**2).sum()

    force, h = jax.grad(potential), 0.02

    def step(state, _):
        q, p = state
        p = p - 0.5 * h * force(q)
        q = q + h * p
        return (q, p - 0.5 * h * force(q)), None

    (q, p), _ = lax.scan(step, (q, p), None, length=20)
    return potential(q) + 0.5 * (p**2).sum()


def soft_dtw(a, b):
    def softmin(x, y, z):
        return -logsumexp(-jnp.stack([x, y, z]))

    def one(a, b):
        def cell(left, inputs):
            corner, above, cost = inputs
            new = cost + softmin(left, corner, above)
            return new, new

        def row(above, ai):
            cost = (ai - b) ** 2
            _, new = lax.scan(cell, 1e10, (above[:-1], above[1:], cost))
            return jnp.concatenate([jnp.array([1e10]), new]), None

        first = jnp.full(len(b) + 1, 1e10).at[0].set(0.0)
        final, _ = lax.scan(row, first, a)
        return final[-1]

    return jax.vmap(one)(a, b).sum()


def bratu(u, lam):
    h = 1 / (len(u) + 1)
    v = jnp.pad(u, 1)
    return ((v[:-2] - 2 * u + v[2:] + h * h * lam * jnp.exp(u)) ** 2).sum()


def barrier(s0, sigma, r, z):
    m = z.shape[1]
    dt = 1 / m

    def step(s, zs):
        moved = s * jnp.exp((r - 0.5 * sigma**2) * dt + sigma * jnp.sqrt(dt) * zs)
        return jnp.where(s > 90, moved, s), None

    s, _ = lax.scan(step, jnp.full(z.shape[0], s0), z.T)
    return jnp.exp(-r) * jnp.where(s > 90, jnp.maximum(s - 100, 0), 0).mean()


def deconvolution(image, blurred, kernel):
    h, w = image.shape
    p = jnp.pad(image, 1, mode="edge")
    blur = sum(kernel[i, j] * p[i : i + h, j : j + w] for i in range(3) for j in range(3))
    down, right = p[2:, 1:-1] - image, p[1:-1, 2:] - image
    return 0.5 * ((blur - blurred) ** 2).sum() + 0.05 * jnp.sqrt(down**2 + right**2 + 1e-4).sum()


def gaussian_process(scale, noise, x, y):
    n = len(x)
    squares = (((x[:, None] - x) / scale) ** 2).sum(2)
    low = jnp.linalg.cholesky(jnp.exp(-0.5 * squares) + noise**2 * jnp.eye(n))
    alpha = solve_triangular(low, y, lower=True)
    return 0.5 * (alpha**2).sum() + jnp.log(jnp.diag(low)).sum() + 0.5 * n * jnp.log(2 * jnp.pi)


def convolution(k, bias, x):
    y = lax.conv(x[None], k, (1, 1), "SAME")[0] + bias[:, None, None]
    return (jnp.maximum(y, 0) ** 2).sum() / (x.shape[1] * x.shape[2])


def mlp(w1, b1, w2, b2, x, y):
    scores = jnp.maximum(x @ w1 + b1, 0) @ w2 + b2
    return (logsumexp(scores, axis=1) - scores[jnp.arange(len(y)), y]).mean()


def gru(wz, wr, wh, uz, ur, uh, x, y):
    def step(s, v):
        z = nn.sigmoid(v @ wz.T + s @ uz.T)
        r = nn.sigmoid(v @ wr.T + s @ ur.T)
        n = jnp.tanh(v @ wh.T + (r * s) @ uh.T)
        return (1 - z) * s + z * n, None

    s, _ = lax.scan(step, jnp.zeros_like(y), x.transpose(1, 0, 2))
    return ((s - y) ** 2).sum() / len(y)


def transformer(wq, wk, wv, w1, w2, x):
    def norm(v):
        return (v - v.mean(1, keepdims=True)) / jnp.sqrt(v.var(1, keepdims=True) + 1e-5)

    y = norm(x)
    q, k, v = y @ wq, y @ wk, y @ wv
    x = x + nn.softmax(q @ k.T / jnp.sqrt(jnp.float32(x.shape[1])), axis=1) @ v
    x = x + jnp.maximum(norm(x) @ w1, 0) @ w2
    return (x**2).sum() / len(x)


def kmeans(centres, x):
    return ((x[:, None] - centres) ** 2).sum(2).min(1).sum()


def factorisation(users, items, i, j, ratings):
    guess = (users[i] * items[j]).sum(1)
    return ((ratings - guess) ** 2).sum() + 0.01 * ((users**2).sum() + (items**2).sum())


def hmm(start, move, emit, seen):
    start, move, emit = nn.log_softmax(start), nn.log_softmax(move, axis=1), nn.log_softmax(emit, axis=1)

    def step(alpha, o):
        return logsumexp(alpha[:, None] + move, axis=0) + emit[:, o], None

    alpha, _ = lax.scan(step, start + emit[:, seen[0]], seen[1:])
    return -logsumexp(alpha)


def kalman(q, r, z):
    dt = 0.1
    f = jnp.eye(4).at[0, 2].set(dt).at[1, 3].set(dt)
    h = jnp.eye(2, 4)

    def step(state, z):
        x, p = state
        x, p = f @ x, f @ p @ f.T + q**2 * jnp.eye(4)
        s = h @ p @ h.T + r**2 * jnp.eye(2)
        y = z - h @ x
        inv = jnp.linalg.inv(s)
        gain = p @ h.T @ inv
        loss = 0.5 * (jnp.log(jnp.linalg.det(s)) + y @ inv @ y + 2 * jnp.log(2 * jnp.pi))
        return (x + gain @ y, (jnp.eye(4) - gain @ h) @ p), loss

    _, losses = lax.scan(step, (jnp.zeros(4), jnp.eye(4)), z)
    return losses.sum()


def nbody(x, mass):
    r2 = ((x[:, None] - x) ** 2).sum(2) + 1e-2
    pairs = mass[:, None] * mass / jnp.sqrt(r2)
    return -0.5 * jnp.where(jnp.eye(len(x), dtype=bool), 0, pairs).sum()


def lotka_volterra(rates, start, seen):
    def f(s):
        x, y = s
        return jnp.stack([rates[0] * x - rates[1] * x * y, rates[2] * x * y - rates[3] * y])

    def step(s, _):
        h = 0.001
        k1 = f(s)
        k2 = f(s + 0.5 * h * k1)
        k3 = f(s + 0.5 * h * k2)
        k4 = f(s + h * k3)
        return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    def observation(s, seen):
        s, _ = lax.scan(step, s, None, length=100)
        return s, ((s - seen) ** 2).sum()

    _, losses = lax.scan(observation, start, seen)
    return losses.sum()


def heat(u0, k, target):
    def step(u, _):
        p = jnp.pad(u, 1, mode="edge")
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        return u + 0.2 * k * (around - 4 * u), None

    u, _ = lax.scan(step, u0, None, length=100)
    return ((u - target) ** 2).sum()


def black_scholes(spot, sigma, rate, strike, time):
    def phi(x):
        return 0.5 * (1 + erf(x / jnp.sqrt(2.0)))

    d1 = (jnp.log(spot / strike) + (rate + 0.5 * sigma**2) * time) / (sigma * jnp.sqrt(time))
    d2 = d1 - sigma * jnp.sqrt(time)
    return (spot * phi(d1) - strike * jnp.exp(-rate * time) * phi(d2)).sum()


def conjugate_gradients(b, k):
    def apply(u):
        p = jnp.pad(u, 1)
        return (4 + k) * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]

    def step(state, _):
        x, r, p, rr = state
        ap = apply(p)
        alpha = rr / (p * ap).sum()
        r = r - alpha * ap
        new = (r * r).sum()
        return (x + alpha * p, r, r + new / rr * p, new), None

    (x, *_), _ = lax.scan(step, (jnp.zeros_like(b), b, b, (b * b).sum()), None, length=50)
    return (x * b).sum()


def cox(w, x, died):
    score = x @ w
    return -(died * (score - jnp.log(jnp.cumsum(jnp.exp(score))))).sum()


def graph_network(w1, w2, x, source, to, y):
    def received(x):
        return jax.ops.segment_sum(x[source], to, len(y))

    scores = received(jnp.maximum(received(x @ w1), 0) @ w2)
    return (logsumexp(scores, axis=1) - scores[jnp.arange(len(y)), y]).mean()


def vae(w1, b1, wm, bm, wv, bv, w2, b2, w3, b3, x, noise):
    hidden = jnp.tanh(x @ w1 + b1)
    mean, logvar = hidden @ wm + bm, hidden @ wv + bv
    code = mean + jnp.exp(0.5 * logvar) * noise
    out = jnp.tanh(code @ w2 + b2) @ w3 + b3
    rebuilt = (jnp.log(1 + jnp.exp(out)) - x * out).sum()
    return (rebuilt + 0.5 * (mean**2 + jnp.exp(logvar) - logvar - 1).sum()) / len(x)


def sinkhorn(x, y):
    eps, n, m = 0.1, len(x), len(y)
    cost = ((x[:, None] - y) ** 2).sum(2)

    def step(state, _):
        f, g = state
        f = eps * (-jnp.log(n) - logsumexp((g - cost) / eps, axis=1))
        g = eps * (-jnp.log(m) - logsumexp((f[:, None] - cost) / eps, axis=0))
        return (f, g), None

    (f, g), _ = lax.scan(step, (jnp.zeros(n), jnp.zeros(m)), None, length=50)
    return (cost * jnp.exp((f[:, None] + g - cost) / eps)).sum()


def trimmed(x, scale):
    v = scale * x - 0.1
    kept = v > 0
    count = kept.sum()
    mean = jnp.where(kept, v, 0).sum() / count
    return mean + jnp.where(kept, (v - mean) ** 2, 0).sum() / count


def recursive_filter(c, x, y):
    def step(state, inputs):
        a, b = state
        now, before, y = inputs
        v = c[0] * now + c[1] * before - c[2] * a - c[3] * b
        return (v, a), (v - y) ** 2

    before = jnp.concatenate([jnp.zeros(1), x[:-1]])
    _, losses = lax.scan(step, (0.0, 0.0), (x, before, y))
    return losses.mean()


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def bundle(cams, points, i, j, seen):
    def turned(w, x):
        angle = jnp.sqrt(w @ w + 1e-12)
        axis = w / angle
        along = axis @ x * (1 - jnp.cos(angle))
        return x * jnp.cos(angle) + jnp.cross(axis, x) * jnp.sin(angle) + axis * along

    def loss(cam, x, s):
        y = turned(cam[:3], x) + cam[3:]
        return ((y[:2] / y[2] - s) ** 2).sum()

    return jax.vmap(loss)(cams[i], points[j], seen).sum()


def calls(name: str, wrt: int, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """The compiled value and value with gradient, as functions without arguments that wait for their results."""
    jax.config.update("jax_enable_x64", True)
    f = globals()[name]
    given = [jnp.asarray(a) for a in args]
    value, both = jax.jit(f), jax.jit(jax.value_and_grad(f, argnums=tuple(range(wrt))))
    return lambda: jax.block_until_ready(value(*given)), lambda: jax.block_until_ready(both(*given))
