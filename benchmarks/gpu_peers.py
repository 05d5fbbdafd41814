"""The workloads of the device suite for PyTorch (eager and compiled), `torch.nn.LSTM` and JAX."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from gpu_workloads import Arrays, Contender, Workload

PEERS = ("torch", "nn.LSTM", "jax", "torch.compile")  # the one that takes longest to warm up comes last


def peers(w: Workload, args: Arrays, cuda: bool) -> Iterator[tuple[str, Callable[[], Contender] | str]]:
    """By name what makes each contender, or why there is none."""
    for name in PEERS:
        if name == "nn.LSTM" and w.program != "lstm":
            continue
        package = "jax" if name == "jax" else "torch"
        if find_spec(package) is None:
            yield name, f"{package} is not installed"
        elif name == "torch.compile" and w.program == "kmeans_sparse":
            yield name, "torch.compile does not take sparse matrices"
        else:
            yield name, lambda name=name: _MAKERS[name](w, args, cuda)  # type: ignore[misc]


def reference(w: Workload, args: Arrays, cuda: bool) -> tuple[list[Any], list[Any]] | None:
    """The primal and gradient in f64, by PyTorch, else by JAX; None if neither is installed."""
    wide = tuple([a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else a for a in args])
    for package, make in (("torch", torch_eager), ("jax", jax_jitted)):
        if find_spec(package) is not None:
            made = make(w, wide, cuda)
            out = made.fetch(made.primal()), made.fetch(made.gradient())
            made.free()
            return out
    return None


# --- PyTorch ----------------------------------------------------------------------------------------------


def torch_eager(w: Workload, args: Arrays, cuda: bool) -> Contender:
    return _torch("torch", w, args, cuda, lambda f: f)


def torch_compiled(w: Workload, args: Arrays, cuda: bool) -> Contender:
    torch = import_module("torch")
    return _torch("torch.compile", w, args, cuda, lambda f: torch.compile(f, dynamic=False))


def torch_lstm(w: Workload, args: Arrays, cuda: bool) -> Contender:
    """`torch.nn.LSTM` (cuDNN's on a card) with the same weights, its output layer by hand."""
    torch = import_module("torch")
    wx, wh, bias, wy, by, h0, c0, xs, ys = _tensors(args, cuda)
    layer = torch.nn.LSTM(xs.shape[2], h0.shape[1]).to(xs.device, xs.dtype)
    with torch.no_grad():
        for name, value in (("weight_ih_l0", wx), ("weight_hh_l0", wh), ("bias_ih_l0", bias)):
            getattr(layer, name).copy_(value.reshape(getattr(layer, name).shape))
        layer.bias_hh_l0.zero_()
    layer.bias_hh_l0.requires_grad_(False)
    weights = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, wy, by]

    def objective() -> Any:
        out, _ = layer(xs, (h0[None], c0[None]))
        return ((out @ wy.T + by - ys) ** 2).mean()

    for p in weights:
        p.requires_grad_(True)

    def primal() -> Any:
        with torch.no_grad():
            return objective()

    def gradient() -> Any:
        grads = torch.autograd.grad(objective(), weights)
        return [g.reshape(a.shape) for g, a in zip(grads, args[:5], strict=True)]

    return Contender("nn.LSTM", primal, gradient, _fetch, _torch_timer(cuda), free=_torch_free(cuda))


def _torch(name: str, w: Workload, args: Arrays, cuda: bool, wrap: Callable[[Any], Any]) -> Contender:
    torch = import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    tensors = _tensors(args, cuda)
    if w.program == "lstm":
        cell = wrap(_torch_cell)
        f, wanted = lambda *a: _torch_lstm_loss(cell, *a), 5
    elif w.program == "gmm":
        constant = _wishart(w, args)
        f, wanted = wrap(lambda *a: _torch_gmm(constant, *a)), 3
    elif w.program == "kmeans":
        f, wanted = wrap(_torch_kmeans), -1
    else:
        values, columns, starts, centroids = tensors
        shape = (w.sizes["n"], w.sizes["d"])
        matrix = torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)
        row = torch.repeat_interleave(torch.arange(shape[0], device=values.device), starts.diff())
        norms = torch.zeros(shape[0], dtype=values.dtype, device=values.device).index_add_(0, row, values * values)
        del row
        tensors, f, wanted = [matrix, norms, centroids], _torch_sparse, -1
    active = tensors[:wanted] if wanted > 0 else tensors[wanted:]
    for t in active:
        t.requires_grad_(True)

    def primal() -> Any:
        with torch.no_grad():
            return f(*tensors)

    def gradient() -> Any:
        return list(torch.autograd.grad(f(*tensors), active))

    return Contender(name, primal, gradient, _fetch, _torch_timer(cuda), free=_torch_free(cuda))


def _tensors(args: Arrays, cuda: bool) -> list[Any]:
    torch = import_module("torch")
    device = "cuda" if cuda else "cpu"
    return [torch.tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in args]


def _fetch(results: Any) -> list[Any]:
    return [r.detach().cpu().numpy() for r in (results if isinstance(results, list) else [results])]


def _torch_timer(cuda: bool) -> Callable[[Callable[[], Any], int], list[float]]:
    torch = import_module("torch")
    return lambda call, runs: timed(call, runs, lambda _: torch.cuda.synchronize() if cuda else None)


def _torch_free(cuda: bool) -> Callable[[], None]:
    torch = import_module("torch")
    return torch.cuda.empty_cache if cuda else lambda: None


def timed(call: Callable[[], Any], runs: int, wait: Callable[[Any], None]) -> list[float]:
    """Seconds of each of some runs, each waited for; before them, one that is not timed."""
    wait(call())
    out = []
    for _ in range(runs):
        start = time.perf_counter()
        wait(call())
        out.append(time.perf_counter() - start)
    return out


def _wishart(w: Workload, args: Arrays) -> float:
    """The constant of the mixture's prior."""
    d, k, gamma, m = w.sizes["d"], w.sizes["K"], float(args[4]), int(args[5])
    dof = d + m + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (dof - i)) for i in range(d))
    prior = k * (dof * d * (math.log(gamma) - 0.5 * math.log(2.0)) - log_gamma)
    return prior - 0.5 * w.sizes["n"] * d * math.log(2 * math.pi)


def _torch_gmm(constant: float, alphas: Any, means: Any, icf: Any, x: Any, gamma: float, m: int) -> Any:
    torch = import_module("torch")
    (n, d), k = x.shape, alphas.shape[0]
    column, row = torch.triu_indices(d, d, 1, device=x.device)
    logs = icf[:, :d]
    below = torch.zeros((k, d, d), dtype=x.dtype, device=x.device)
    which = torch.arange(k, device=x.device)[:, None]
    factors = torch.diag_embed(torch.exp(logs)) + below.index_put((which, row[None], column[None]), icf[:, d:])
    y = torch.matmul(x[None] - means[:, None], factors.transpose(1, 2))
    sums = logs.sum(1)
    main = alphas[:, None] + sums[:, None] - 0.5 * (y * y).sum(2)
    prior = -0.5 * float(gamma) ** 2 * (factors * factors).sum() + m * sums.sum()
    return torch.logsumexp(main, 0).sum() - n * torch.logsumexp(alphas, 0) + prior + constant


def _torch_cell(z: Any, wh: Any, h: Any, c: Any) -> tuple[Any, Any]:
    torch = import_module("torch")
    i, f, g, o = (z + h @ wh.T).chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _torch_lstm_loss(cell: Any, wx: Any, wh: Any, bias: Any, wy: Any, by: Any, h: Any, c: Any, xs: Any, ys: Any) -> Any:
    torch = import_module("torch")
    zs = xs @ wx.reshape(-1, wx.shape[2]).T + bias.reshape(-1)
    flat, out = wh.reshape(-1, wh.shape[2]), []
    for z in zs:
        h, c = cell(z, flat, h, c)
        out.append(h)
    return ((torch.stack(out) @ wy.T + by - ys) ** 2).mean()


def _torch_kmeans(points: Any, centroids: Any) -> Any:
    squares = (points * points).sum(1)[:, None] + (centroids * centroids).sum(1)[None]
    return (squares - 2 * points @ centroids.T).min(1).values.sum()


def _torch_sparse(matrix: Any, norms: Any, centroids: Any) -> Any:
    products = matrix @ centroids.T.contiguous()
    return (norms[:, None] + (centroids * centroids).sum(1)[None] - 2 * products).min(1).values.sum()


# --- JAX --------------------------------------------------------------------------------------------------


def jax_jitted(w: Workload, args: Arrays, cuda: bool) -> Contender:
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    jnp = jax.numpy
    device = jax.devices("gpu" if cuda else "cpu")[0]
    arrays = [jax.device_put(a, device) if isinstance(a, np.ndarray) else a for a in args]
    objective: Callable[..., Any]
    if w.program == "gmm":
        constant = _wishart(w, args)
        active, rest = arrays[:3], arrays[3]
        gamma, m = float(args[4]), int(args[5])

        def objective(active: Any, x: Any) -> Any:
            alphas, means, icf = active
            n, d = x.shape
            column, row = np.triu_indices(d, 1)
            logs = icf[:, :d]
            factors = jax.vmap(jnp.diag)(jnp.exp(logs)).at[:, row, column].set(icf[:, d:])
            y = jnp.einsum("kij,knj->kni", factors, x[None] - means[:, None])
            sums = logs.sum(1)
            main = alphas[:, None] + sums[:, None] - 0.5 * (y * y).sum(2)
            prior = -0.5 * gamma**2 * (factors * factors).sum() + m * sums.sum()
            lse = jax.scipy.special.logsumexp
            return lse(main, axis=0).sum() - n * lse(alphas) + prior + constant

    elif w.program == "lstm":
        active, rest = arrays[:5], arrays[5:]

        def objective(active: Any, rest: Any) -> Any:
            (wx, wh, bias, wy, by), (h0, c0, xs, ys) = active, rest
            zs = xs @ wx.reshape(-1, wx.shape[2]).T + bias.reshape(-1)
            flat = wh.reshape(-1, wh.shape[2])

            def step(carry: Any, z: Any) -> Any:
                h, c = carry
                i, f, g, o = jnp.split(z + h @ flat.T, 4, axis=1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h

            _, out = jax.lax.scan(step, (h0, c0), zs)
            return ((out @ wy.T + by - ys) ** 2).mean()

    elif w.program == "kmeans":
        active, rest = [arrays[1]], arrays[0]

        def objective(active: Any, points: Any) -> Any:
            (centroids,) = active
            squares = (points * points).sum(1)[:, None] + (centroids * centroids).sum(1)[None]
            return (squares - 2 * points @ centroids.T).min(1).sum()

    else:
        n = w.sizes["n"]
        row = jax.device_put(np.repeat(np.arange(n), np.diff(args[2])), device)
        active, rest = [arrays[3]], (arrays[0], arrays[1], row)

        def objective(active: Any, rest: Any) -> Any:
            (centroids,), (values, columns, row) = active, rest
            products = values[:, None] * (values[:, None] - 2 * centroids.T[columns])
            sums = jax.ops.segment_sum(products, row, n, indices_are_sorted=True)
            return (sums + (centroids * centroids).sum(1)[None]).min(1).sum()

    value, gradient = jax.jit(objective), jax.jit(jax.grad(objective))
    return Contender(
        "jax", lambda: value(active, rest), lambda: gradient(active, rest),
        lambda out: [np.asarray(x) for x in (out if isinstance(out, list) else [out])],
        lambda call, runs: timed(call, runs, jax.block_until_ready),
    )  # fmt: skip


_MAKERS = {"torch": torch_eager, "torch.compile": torch_compiled, "nn.LSTM": torch_lstm, "jax": jax_jitted}
