"""The everyday programs in PyTorch, as its users write them.

`torch.compile` compiles them, but for those in `EAGER`: it unrolls loops of Python, and takes minutes to hours for
hundreds of iterations."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.func import grad, grad_and_value, vmap
from torch.nn import functional as nn

EAGER = {
    "neural_ode", "hmc", "soft_dtw", "gru", "hmm", "kalman", "lotka_volterra", "heat", "conjugate_gradients",
    "sinkhorn", "recursive_filter",
}  # fmt: skip
SKIPPED = {"recursive_filter": "100,000 iterations of Python"}


def mixture(w, means, s, x):
    d = x.shape[1]
    z = ((x[:, None] - means) ** 2).sum(2) / torch.exp(s) ** 2
    logs = w - torch.logsumexp(w, 0) - d * (s + 0.5 * math.log(2 * math.pi)) - 0.5 * z
    return -torch.logsumexp(logs, 1).sum()


def neural_ode(w1, b1, w2, b2, y0, target):
    def f(y):
        return w2 @ torch.tanh(w1 @ y + b1) + b2

    y, h = y0, 0.01
    for _ in range(1000):
        k1 = f(y)
        k2 = f(y + 0.5 * h * k1)
        k3 = f(y + 0.5 * h * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return ((y - target) ** 2).sum()


def logistic(w, b, x, y):
    return torch.log(1 + torch.exp(-(2 * y - 1) * (x @ w + b))).mean() + 0.01 * (w**2).sum()


def hmc(q, p, x, y):
    def potential(w):
        return torch.log(1 + torch.exp(-(2 * y - 1) * (x @ w))).sum() + 0.5 * (w**2).sum()

    force, h = grad(potential), 0.02
    for _ in range(20):
        p = p - 0.5 * h * force(q)
        q = q + h * p
        p = p - 0.5 * h * force(q)
    return potential(q) + 0.5 * (p**2).sum()


def soft_dtw(a, b):
    big = torch.full((len(a),), 1e10, dtype=a.dtype)
    above = [torch.zeros_like(big)] + [big] * b.shape[1]
    for i in range(a.shape[1]):
        row = [big]
        for j in range(b.shape[1]):
            near = torch.stack([row[j], above[j], above[j + 1]])
            row.append((a[:, i] - b[:, j]) ** 2 - torch.logsumexp(-near, 0))
        above = row
    return above[-1].sum()


def bratu(u, lam):
    h = 1 / (len(u) + 1)
    v = nn.pad(u, (1, 1))
    return ((v[:-2] - 2 * u + v[2:] + h * h * lam * torch.exp(u)) ** 2).sum()


def barrier(s0, sigma, r, z):
    n, m = z.shape
    dt = 1 / m
    s = s0.expand(n)
    for i in range(m):
        moved = s * torch.exp((r - 0.5 * sigma**2) * dt + sigma * math.sqrt(dt) * z[:, i])
        s = torch.where(s > 90, moved, s)
    return torch.exp(-r) * torch.where(s > 90, torch.clamp(s - 100, min=0), 0).mean()


def deconvolution(image, blurred, kernel):
    h, w = image.shape
    p = nn.pad(image[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    blur = sum(kernel[i, j] * p[i : i + h, j : j + w] for i in range(3) for j in range(3))
    down, right = p[2:, 1:-1] - image, p[1:-1, 2:] - image
    return 0.5 * ((blur - blurred) ** 2).sum() + 0.05 * torch.sqrt(down**2 + right**2 + 1e-4).sum()


def gaussian_process(scale, noise, x, y):
    n = len(x)
    squares = (((x[:, None] - x) / scale) ** 2).sum(2)
    low = torch.linalg.cholesky(torch.exp(-0.5 * squares) + noise**2 * torch.eye(n, dtype=x.dtype))
    alpha = torch.linalg.solve_triangular(low, y[:, None], upper=False)
    return 0.5 * (alpha**2).sum() + torch.log(torch.diag(low)).sum() + 0.5 * n * math.log(2 * math.pi)


def convolution(k, bias, x):
    y = torch.relu(nn.conv2d(x[None], k, bias, padding=1))
    return (y**2).sum() / (x.shape[1] * x.shape[2])


def mlp(w1, b1, w2, b2, x, y):
    return nn.cross_entropy(torch.relu(x @ w1 + b1) @ w2 + b2, y)


def gru(wz, wr, wh, uz, ur, uh, x, y):
    s = torch.zeros_like(y)
    for t in range(x.shape[1]):
        v = x[:, t]
        z = torch.sigmoid(v @ wz.T + s @ uz.T)
        r = torch.sigmoid(v @ wr.T + s @ ur.T)
        n = torch.tanh(v @ wh.T + (r * s) @ uh.T)
        s = (1 - z) * s + z * n
    return ((s - y) ** 2).sum() / len(y)


def transformer(wq, wk, wv, w1, w2, x):
    def norm(v):
        return nn.layer_norm(v, v.shape[1:])

    y = norm(x)
    q, k, v = y @ wq, y @ wk, y @ wv
    x = x + torch.softmax(q @ k.T / math.sqrt(x.shape[1]), 1) @ v
    x = x + torch.relu(norm(x) @ w1) @ w2
    return (x**2).sum() / len(x)


def kmeans(centres, x):
    return ((x[:, None] - centres) ** 2).sum(2).amin(1).sum()


def factorisation(users, items, i, j, ratings):
    guess = (users[i] * items[j]).sum(1)
    return ((ratings - guess) ** 2).sum() + 0.01 * ((users**2).sum() + (items**2).sum())


def hmm(start, move, emit, seen):
    start, move, emit = torch.log_softmax(start, 0), torch.log_softmax(move, 1), torch.log_softmax(emit, 1)
    alpha = start + emit[:, seen[0]]
    for t in range(1, len(seen)):
        alpha = torch.logsumexp(alpha[:, None] + move, 0) + emit[:, seen[t]]
    return -torch.logsumexp(alpha, 0)


def kalman(q, r, z):
    dt = 0.1
    f = torch.eye(4, dtype=z.dtype)
    f[0, 2] = f[1, 3] = dt
    h = torch.eye(2, 4, dtype=z.dtype)
    one, two = torch.eye(4, dtype=z.dtype), torch.eye(2, dtype=z.dtype)
    x, p, total = torch.zeros(4, dtype=z.dtype), one, 0.0
    for i in range(len(z)):
        x, p = f @ x, f @ p @ f.T + q**2 * one
        s = h @ p @ h.T + r**2 * two
        y = z[i] - h @ x
        inv = torch.linalg.inv(s)
        gain = p @ h.T @ inv
        total = total + 0.5 * (torch.log(torch.linalg.det(s)) + y @ inv @ y + 2 * math.log(2 * math.pi))
        x, p = x + gain @ y, (one - gain @ h) @ p
    return total


def nbody(x, mass):
    r2 = ((x[:, None] - x) ** 2).sum(2) + 1e-2
    pairs = mass[:, None] * mass / torch.sqrt(r2)
    return -0.5 * torch.where(torch.eye(len(x), dtype=torch.bool), 0, pairs).sum()


def lotka_volterra(rates, start, seen):
    def f(s):
        x, y = s[0], s[1]
        return torch.stack([rates[0] * x - rates[1] * x * y, rates[2] * x * y - rates[3] * y])

    s, loss, h = start, 0.0, 0.001
    for i in range(len(seen)):
        for _ in range(100):
            k1 = f(s)
            k2 = f(s + 0.5 * h * k1)
            k3 = f(s + 0.5 * h * k2)
            k4 = f(s + h * k3)
            s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        loss = loss + ((s - seen[i]) ** 2).sum()
    return loss


def heat(u0, k, target):
    u = u0
    for _ in range(100):
        p = nn.pad(u[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        u = u + 0.2 * k * (around - 4 * u)
    return ((u - target) ** 2).sum()


def black_scholes(spot, sigma, rate, strike, time):
    def phi(x):
        return 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    d1 = (torch.log(spot / strike) + (rate + 0.5 * sigma**2) * time) / (sigma * torch.sqrt(time))
    d2 = d1 - sigma * torch.sqrt(time)
    return (spot * phi(d1) - strike * torch.exp(-rate * time) * phi(d2)).sum()


def conjugate_gradients(b, k):
    def apply(u):
        p = nn.pad(u, (1, 1, 1, 1))
        return (4 + k) * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]

    x, r, p, rr = torch.zeros_like(b), b, b, (b * b).sum()
    for _ in range(50):
        ap = apply(p)
        alpha = rr / (p * ap).sum()
        x, r = x + alpha * p, r - alpha * ap
        new = (r * r).sum()
        p, rr = r + new / rr * p, new
    return (x * b).sum()


def cox(w, x, died):
    score = x @ w
    return -(died * (score - torch.log(torch.cumsum(torch.exp(score), 0)))).sum()


def graph_network(w1, w2, x, source, to, y):
    def received(x):
        return torch.zeros_like(x).index_add(0, to, x[source])

    return nn.cross_entropy(received(torch.relu(received(x @ w1)) @ w2), y)


def vae(w1, b1, wm, bm, wv, bv, w2, b2, w3, b3, x, noise):
    hidden = torch.tanh(x @ w1 + b1)
    mean, logvar = hidden @ wm + bm, hidden @ wv + bv
    code = mean + torch.exp(0.5 * logvar) * noise
    out = torch.tanh(code @ w2 + b2) @ w3 + b3
    rebuilt = (torch.log(1 + torch.exp(out)) - x * out).sum()
    return (rebuilt + 0.5 * (mean**2 + torch.exp(logvar) - logvar - 1).sum()) / len(x)


def sinkhorn(x, y):
    eps, n, m = 0.1, len(x), len(y)
    cost = ((x[:, None] - y) ** 2).sum(2)
    g = torch.zeros(m, dtype=x.dtype)
    for _ in range(50):
        f = eps * (-math.log(n) - torch.logsumexp((g - cost) / eps, 1))
        g = eps * (-math.log(m) - torch.logsumexp((f[:, None] - cost) / eps, 0))
    return (cost * torch.exp((f[:, None] + g - cost) / eps)).sum()


def trimmed(x, scale):
    v = scale * x - 0.1
    kept = v[v > 0]
    mean = kept.mean()
    return mean + ((kept - mean) ** 2).mean()


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def bundle(cams, points, i, j, seen):
    def turned(w, x):
        angle = torch.sqrt(w @ w + 1e-12)
        axis = w / angle
        along = axis @ x * (1 - torch.cos(angle))
        return x * torch.cos(angle) + torch.linalg.cross(axis, x) * torch.sin(angle) + axis * along

    def loss(cam, x, s):
        y = turned(cam[:3], x) + cam[3:]
        return ((y[:2] / y[2] - s) ** 2).sum()

    return vmap(loss)(cams[i], points[j], seen).sum()


def calls(name: str, wrt: int, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value and value with gradient, as functions without arguments, compiled unless in `EAGER`.  Raises KeyError
    for what is in `SKIPPED`."""
    if name in SKIPPED:
        raise KeyError(SKIPPED[name])
    f = globals()[name]
    given = [torch.as_tensor(a, dtype=torch.float64 if isinstance(a, float) else None) for a in args]
    if name in EAGER:
        both = grad_and_value(f, argnums=tuple(range(wrt)))
        return lambda: f(*given), lambda: tuple(reversed(both(*given)))
    made = torch.compile(f)
    for a in given[:wrt]:
        a.requires_grad_(True)

    def with_gradient() -> Any:
        value = made(*given)
        return value.detach(), torch.autograd.grad(value, given[:wrt])

    def value() -> Any:
        with torch.no_grad():
            return made(*given)

    return value, with_gradient
