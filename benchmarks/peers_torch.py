"""The programs in PyTorch, run eagerly; derivatives are PyTorch's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from peers import Calls, expansion, joints
from reference.physics_forms import DIRECTIONS, OPPOSITE, WEIGHTS

torch: Any = None


def torch_calls(program: str, args: tuple[Any, ...]) -> Calls | None:
    """The objective and derivative on `args`; None without PyTorch or without a version for it."""
    global torch
    if find_spec("torch") is None or program not in MAKERS:
        return None
    torch = import_module("torch")
    objective, derivative = MAKERS[program](*args)
    return lambda: arrays(objective()), lambda: arrays(derivative())


def arrays(result: Any) -> Any:
    """Tensors as arrays that share their memory."""
    return tuple(arrays(r) for r in result) if isinstance(result, tuple) else result.detach().numpy()


Made = tuple[Callable[[], Any], Callable[[], Any]]


def tensors(*values: Any) -> list[Any]:
    return [torch.as_tensor(v) for v in values]


def gradient(objective: Callable[..., Any], active: list[Any], rest: list[Any]) -> Made:
    """The objective, recording nothing, and its gradient by the active arguments, which come first."""

    def value() -> Any:
        with torch.no_grad():
            return objective(*active, *rest)

    def derivative() -> Any:
        inputs = [a.detach().requires_grad_() for a in active]
        results = torch.autograd.grad(objective(*inputs, *rest), inputs)
        return results[0] if len(results) == 1 else results

    return value, derivative


def gmm(alphas: Any, means: Any, icf: Any, x: Any, gamma: float, m: int) -> Made:
    (n, d), k = x.shape, len(alphas)
    column, row = tensors(*np.triu_indices(d, 1))
    dof = d + m + 1
    log_gamma_d = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (dof - j)) for j in range(d))
    constant = k * (dof * d * (math.log(gamma) - 0.5 * math.log(2.0)) - log_gamma_d)

    def objective(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
        diagonal, log_det = icf[:, :d].exp(), icf[:, :d].sum(dim=1)
        q = torch.diag_embed(diagonal)
        q = q.index_put((torch.arange(k)[:, None], row, column), icf[:, d:])
        y = torch.bmm(x[None] - means[:, None], q.transpose(1, 2))
        main = alphas[:, None] + log_det[:, None] - 0.5 * (y * y).sum(dim=2)
        prior = constant - 0.5 * gamma**2 * (q * q).sum() + m * log_det.sum()
        likelihood = torch.logsumexp(main, 0).sum() - n * torch.logsumexp(alphas, 0)
        return likelihood - 0.5 * n * d * math.log(2 * math.pi) + prior

    return gradient(objective, tensors(alphas, means, icf), tensors(x))


def lstm(wx: Any, wh: Any, bias: Any, wy: Any, by: Any, hidden: Any, state: Any, xs: Any, ys: Any) -> Made:
    """By torch's own LSTM, whose gates have the same order."""
    gates, h, d = wx.shape[0] * wx.shape[1], wx.shape[1], wx.shape[2]
    net = torch.nn.LSTM(d, h)
    zero = torch.zeros(gates)

    def objective(wx: Any, wh: Any, bias: Any, wy: Any, by: Any, hidden: Any, state: Any, xs: Any, ys: Any) -> Any:
        weights = {
            "weight_ih_l0": wx.reshape(gates, d), "weight_hh_l0": wh.reshape(gates, h),
            "bias_ih_l0": bias.reshape(gates), "bias_hh_l0": zero,
        }  # fmt: skip
        out, _ = torch.func.functional_call(net, weights, (xs, (hidden[None], state[None])))
        return ((out @ wy.T + by - ys) ** 2).mean()

    return gradient(objective, tensors(wx, wh, bias, wy, by), tensors(hidden, state, xs, ys))


def kmeans(points: Any, centroids: Any) -> Made:
    centroids, points = tensors(centroids, points)

    def cost(centroids: Any) -> Any:
        norms = (points**2).sum(dim=1)[:, None] + (centroids**2).sum(dim=1)
        return (norms - 2 * points @ centroids.T).min(dim=1).values.sum()

    def step() -> Any:
        g, h = torch.func.jvp(torch.func.grad(cost), (centroids,), (torch.ones_like(centroids),))
        return torch.where(h == 0, centroids, centroids - g / torch.where(h == 0, 1, h))

    def value() -> Any:
        with torch.no_grad():
            return cost(centroids)

    return value, step


def ba(cameras: Any, points: Any, weights: Any, seen: Any, features: Any) -> Made:
    cameras, points, weights, features = tensors(cameras, points, weights, features)
    by, of = tensors(seen[:, 0].astype(np.int64), seen[:, 1].astype(np.int64))

    def error(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
        r, x = camera[:3], point - camera[3:6]
        angle = torch.sqrt((r * r).sum())
        axis = r / angle
        across = torch.linalg.cross(axis, x)
        turned = torch.cos(angle) * x + torch.sin(angle) * across + (1 - torch.cos(angle)) * (axis * x).sum() * axis
        plane = turned[:2] / turned[2]
        square = (plane * plane).sum()
        distorted = plane * (1 + camera[9] * square + camera[10] * square**2)
        return weight * (camera[6] * distorted + camera[7:9] - feature)

    def objective() -> Any:
        with torch.no_grad():
            errors = torch.func.vmap(error)(cameras[by], points[of], weights, features)
            return errors, 1 - weights * weights

    def jacobian() -> Any:
        derived = torch.func.vmap(torch.func.jacrev(error, argnums=(0, 1, 2)))
        by_camera, by_point, by_weight = derived(cameras[by], points[of], weights, features)
        return torch.cat([by_camera, by_point, by_weight[:, :, None]], dim=2), -2 * weights

    return objective, jacobian


def hand(parents: Any, relatives: Any, inverses: Any, positions: Any, weights: Any, mirrored: bool, *rest: Any) -> Made:
    complicated = len(rest) == 5
    triangles, which, points, theta, us = rest if complicated else (None, *rest, None)
    relatives, inverses, theta, points, positions, weights, which = tensors(
        relatives, inverses, theta, points, positions, weights,
        (triangles[which] if complicated else which).ravel().astype(np.int64),
    )  # fmt: skip
    us = tensors(us)[0] if complicated else None
    bent, spread = tensors(*joints(len(parents)))
    flip = torch.tensor([-1.0 if mirrored else 1.0, 1.0, 1.0], dtype=theta.dtype)

    def rotation(r: Any) -> Any:
        angle = torch.sqrt((r * r).sum())
        x, y, z = (r / angle).unbind()
        zero = torch.zeros_like(x)
        cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
        return torch.eye(3, dtype=r.dtype) + torch.sin(angle) * cross + (1 - torch.cos(angle)) * cross @ cross

    def errors(theta: Any, us: Any) -> Any:
        padded = torch.cat([theta, torch.zeros(1, dtype=theta.dtype)])
        bends, spreads = padded[bent], padded[spread]
        cx, sx, cz, sz = bends.cos(), bends.sin(), spreads.cos(), spreads.sin()
        zero, one = torch.zeros_like(cx), torch.ones_like(cx)
        entries = [cz, -sz * cx, sz * sx, zero, sz, cz * cx, -cz * sx, zero, zero, sx, cx, zero, zero, zero, zero, one]
        local = relatives @ torch.stack(entries, dim=1).reshape(-1, 4, 4)
        absolutes: list[Any] = []
        for bone, parent in enumerate(parents):
            absolutes.append(local[bone] if parent < 0 else absolutes[parent] @ local[bone])
        moves = (torch.stack(absolutes) @ inverses)[:, :3]
        # Only the vertices that are looked at are moved if they are few, else all of them once.
        few = len(which) < len(positions)
        blended = torch.einsum("vb,bij->vij", weights[which] if few else weights, (rotation(theta[:3]) * flip) @ moves)
        vertices = torch.einsum("vij,vj->vi", blended, positions[which] if few else positions) + theta[3:6]
        vertices = vertices if few else vertices[which]
        if not complicated:
            return points - vertices
        corners = vertices.reshape(-1, 3, 3)
        u, v = us[:, :1], us[:, 1:]
        return points - (u * corners[:, 0] + v * corners[:, 1] + (1 - u - v) * corners[:, 2])

    def objective() -> Any:
        with torch.no_grad():
            return errors(theta, us)

    def jacobian() -> Any:
        by_theta = torch.func.jacfwd(lambda theta: errors(theta, us))(theta).reshape(-1, theta.numel())
        if not complicated:
            return by_theta
        seeds = [torch.tensor(s, dtype=us.dtype).expand_as(us) for s in ((1, 0), (0, 1))]
        return by_theta, tuple(torch.func.jvp(lambda us: errors(theta, us), (us,), (s,))[1] for s in seeds)

    return objective, jacobian


def dlstm(main: Any, extra: Any, state: Any, sequence: Any) -> Made:
    layers, bits = len(main) // 2, sequence.shape[1]

    def objective(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
        w, b = main[0::2].reshape(layers, 4, bits), main[1::2].reshape(layers, 4, bits)
        own = [(*w[i].unbind(), *b[i].unbind()) for i in range(layers)]
        hidden, cell = list(state[0::2].unbind()), list(state[1::2].unbind())
        out = []
        for x in (sequence[:-1] * extra[0]).unbind():
            for i, (wf, wi, wo, wc, bf, bi, bo, bc) in enumerate(own):
                forget, output = torch.sigmoid(x * wf + bf), torch.sigmoid(x * wo + bo)
                gate, change = torch.sigmoid(hidden[i] * wi + bi), torch.tanh(hidden[i] * wc + bc)
                cell[i] = cell[i] * forget + gate * change
                hidden[i] = x = output * torch.tanh(cell[i])
            out.append(x)
        y = torch.stack(out) * extra[1] + extra[2]
        return -(sequence[1:] * (y - torch.log(2 + y.exp().sum(dim=1, keepdim=True)))).mean()

    return gradient(objective, tensors(main, extra), tensors(state, sequence))


def llsq(x: Any, n: int) -> Made:
    t = torch.linspace(-1, 1, n, dtype=torch.float64)

    def objective(x: Any, t: Any) -> Any:
        powers = torch.linalg.vander(t, N=x.numel())
        return 0.5 * ((torch.sign(t) - powers @ x) ** 2).sum()

    return gradient(objective, tensors(x), [t])


def lse(x: Any) -> Made:
    return gradient(lambda x: torch.logsumexp(x, 0), tensors(x), [])


def det(n: int, a: Any) -> Made:
    signs, upper, lower = tensors(*expansion(n))

    def minor(m: list[list[Any]], row: int, columns: tuple[int, ...]) -> Any:
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

    return gradient(objective, tensors(a), [])


def ode(x: Any, steps: int) -> Made:
    h = 2 / steps
    one = torch.ones(1, dtype=torch.float64)

    def solve(x: Any) -> Any:
        def slope(y: Any) -> Any:
            return x * torch.cat([one, y[:-1]])

        y = torch.zeros_like(x)
        for _ in range(steps):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            k4 = slope(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y

    inputs = tensors(x)
    return gradient(solve, inputs, [])[0], gradient(lambda x: solve(x)[-1], inputs, [])[1]


def lbm(steps: int, kinds: Any, grid: Any, seed: Any) -> Made:
    offsets = (DIRECTIONS @ [1, grid.shape[3], grid.shape[3] * grid.shape[2]]).tolist()
    e, w = tensors(DIRECTIONS.astype(grid.dtype), WEIGHTS.astype(grid.dtype)[:, None])
    start, flags, seed = tensors(grid, kinds.ravel(), seed)
    fixed = torch.tensor([[0.005], [0.002], [0.0]], dtype=start.dtype)

    def simulate(grid: Any) -> Any:
        f = grid.reshape(19, -1)
        for _ in range(steps):
            f = torch.stack([torch.roll(p, o) for p, o in zip(f, offsets, strict=True)])
            rho = f.sum(dim=0)
            u = torch.where(flags == 2, fixed, e.T @ f / rho)
            along = e @ u
            equilibrium = w * rho * (1 + 3 * along + 4.5 * along**2 - 1.5 * (u**2).sum(dim=0))
            f = torch.where(flags == 1, f[OPPOSITE], f + 1.95 * (equilibrium - f))
        return f.reshape(grid.shape)

    def derivative() -> Any:
        inputs = start.detach().requires_grad_()
        return torch.autograd.grad(simulate(inputs), inputs, seed)[0]

    return gradient(simulate, [start], [])[0], derivative


MAKERS: dict[str, Callable[..., Made]] = {
    "gmm": gmm, "lstm": lstm, "kmeans": kmeans, "ba": ba, "hand": hand, "dlstm": dlstm, "llsq": llsq, "lse": lse,
    "det": det, "ode": ode, "lbm": lbm,
}  # fmt: skip
