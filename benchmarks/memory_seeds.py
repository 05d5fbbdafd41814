"""The applications of two papers beside their published figures: Siskind and Pearlmutter, Divide-and-conquer
checkpointing for arbitrary programs with no user annotation, OMS 33, 2018, section 6; Liu and Zhao, Differentiate
everything with a reversible programming language, 2020, section 5 (NiLang; a Xeon 6230 at 2.1 GHz, a Titan V).

Ours are processor times of backend `c` on one thread of this machine, medians of runs in turn.  Other machines' times
are printed to be seen, ratios of one machine's are what is judged.  O: the objective, G: its gradient, B = G - O,
H: the Hessian, J: the Jacobian.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import memory_inputs as inputs
import numpy as np
from memory_figures import PROGRAMS, Bar, in_process, measure, one_call, relative

Row = dict[str, Any]
BESSEL = {"Julia O": 18e-9, "NiLang O": 32e-9, "NiLang G": 201e-9, "NiLang G, GPU": 1.4e-9, "Tapenade G": 141e-9,
          "ReverseDiff G": 1406e-9, "Zygote G": 22596e-9}  # fmt: skip
DOT = {"Julia O": 3.493e-4, "NiLang O": 4.675e-4, "NiLang B": 5.821e-4}
MUL = {"Julia O": 8.005e-5, "NiLang O": 9.332e-5, "NiLang B": 2.214e-4}
# By dimensions: Julia O, NiLang G, ForwardDiff G, (NiLang + ForwardDiff) H, ForwardDiff H.
EMBEDDING = {
    2: (4.477e-6, 1.509e-5, 1.518e-5, 4.528e-4, 2.378e-4),
    4: (4.729e-6, 1.690e-5, 4.053e-5, 1.025e-3, 2.380e-3),
    6: (4.959e-6, 1.872e-5, 6.732e-5, 1.740e-3, 6.903e-3),
    8: (5.196e-6, 2.076e-5, 1.184e-4, 2.577e-3, 1.967e-2),
    10: (5.567e-6, 2.266e-5, 1.701e-4, 3.558e-3, 3.978e-2),
}
# By dimensions and clusters: Julia O, NiLang O, Tapenade O, NiLang G, Tapenade G.
MIXTURE = {
    (2, 5): (9.844e-3, 3.655e-3, 1.484e-3, 9.102e-3, 5.484e-3),
    (10, 5): (1.166e-2, 1.425e-2, 3.747e-3, 3.709e-2, 1.434e-2),
    (2, 200): (2.797e-1, 1.040e-1, 4.836e-2, 2.830e-1, 2.205e-1),
    (10, 50): (9.745e-2, 1.389e-1, 3.578e-2, 3.556e-1, 1.497e-1),
    (64, 5): (3.903e-2, 7.388e-2, 5.314e-2, 6.652e-1, 4.396e-1),
    (64, 10): (7.476e-2, 1.491e-1, 1.069e-1, 1.449, 9.588e-1),
    (64, 25): (2.284e-1, 4.176e-1, 2.583e-1, 3.590, 2.586),
    (64, 200): (3.593, 5.462, 2.200, 33.42, 24.42),
}
# By cameras, points and observations: Julia O, NiLang O, Tapenade O, NiLang J, its GPU's, Tapenade J.
BUNDLE = {
    (49, 7776, 31843): (2.020e-3, 2.708e-3, 1.632e-3, 1.651e-2, 1.354e-4, 1.940e-2),
    (372, 47423, 204472): (1.292e-2, 1.757e-2, 1.056e-2, 1.182e-1, 4.329e-4, 1.255e-1),
    (93, 61203, 287451): (1.812e-2, 2.438e-2, 1.540e-2, 1.668e-1, 5.997e-4, 1.769e-1),
    (1197, 126327, 563734): (3.563e-2, 4.877e-2, 2.927e-2, 3.273e-1, 1.735e-3, 3.489e-1),
    (245, 198739, 1091386): (6.904e-2, 9.536e-2, 5.687e-2, 6.375e-1, 2.861e-3, 6.720e-1),
    (1544, 942409, 4750193): (3.447e-1, 4.170e-1, 2.481e-1, 2.785, 1.021e-2, 2.935),
    (4585, 1324582, 9125125): (6.671e-1, 8.020e-1, 4.780e-1, 5.535, 2.179e-2, 6.027),
}
# Resident kB at l = 53 and 3203.
NEST = {"Tapenade": (5_372, 374_484), "Tapenade, binomial": (3_400, 35_180), "VLAD": (621_740, 77_224_956),
        "VLAD, bisection": (11_616, 18_124)}  # fmt: skip


def seeds(only: Sequence[str] | None, small: bool) -> tuple[list[Row], list[Bar]]:
    """The rows of all applications or those, each in a process of its own, and the bars on them."""
    if unknown := [name for name in only or () if name not in APPLICATIONS]:
        raise SystemExit(f"no application is called {unknown[0]!r}; there are: {', '.join(APPLICATIONS)}")
    rows: list[Row] = []
    for name in only or APPLICATIONS:
        for size in range(_sizes(name, small)):
            row = in_process("seeds", name, size, small)
            rows.append(row)
            print("\n".join(_shown(row)), flush=True)
    return rows, [Bar(f"{r['name']}, {r['size']}: {what}", *limits) for r in rows for what, *limits in r["bars"]]


def _shown(row: Row) -> list[str]:
    def line(figures: dict[str, Any]) -> str:
        return ", ".join(f"{k} {v if isinstance(v, str) else time_text(v)}" for k, v in figures.items())

    published = [f"    published: {line(row['published'])}"] if row["published"] else []
    return [f"{row['name']}, {row['size']}: {line(row['ours'])}", *published]


def time_text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def measured(name: str, size: int, small: bool) -> Row:
    """A row, in this process."""
    label, ours, published, bars = APPLICATIONS[name](size, small)
    return {"name": name, "size": label, "ours": ours, "published": published, "bars": bars}


Found = tuple[str, dict[str, Any], dict[str, Any], list[tuple[str, float, float]]]


def times(calls: dict[str, Callable[[], Any]], small: bool) -> dict[str, float]:
    """Seconds of each, medians."""
    from cpu import interleaved

    found = interleaved(2 if small else 5, calls, 1, 0 if small else 1)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def program(name: str, **options: Any) -> Any:
    import futad

    return futad.load(str(PROGRAMS / f"{name}.fut"), backend="c", **options)


def bessel(size: int, small: bool) -> Found:
    p = program("bessel", reversible=True)
    z = np.ones(64 if small else 4000)
    t = times({"O": lambda: p.value(2, z), "G": lambda: p.gradient(2, z)}, small)
    told = p.explain_memory()
    found = [call(2, z[:1])[0] for call in (p.value, p.gradient, p.second)]
    error = relative(found, [0.1149034849319005, 0.2102436158811326, 0.1344668116589958])
    ours = {name: s / z.size for name, s in t.items()} | {"J'' of 1": f"{found[2]:.9f}"}
    bars = [
        ("G over O", t["G"] / t["O"], 4.0),
        ("loops whose iterations are kept", float("undone" not in told), 0),
        ("largest relative error of value and both derivatives", error, 1e-6),
    ]
    return f"J_2(1), an element of {z.size:,}", ours, BESSEL, bars


def sparse_dot(size: int, small: bool) -> Found:
    n = 50 if small else 1000
    args = inputs.sparse_dot(n)
    p = program("sparse_dot")
    t = times({"O": lambda: p.value(*args), "G": lambda: p.gradient(*args)}, small)
    x_bar, y_bar = p.gradient(*args)
    value = p.value(*args)
    bars = [
        ("B over O", t["G"] / t["O"] - 1, 1.67),
        ("relative error of <x, dx> and <y, dy>",
         max(abs(args[2] @ x_bar / value - 1), abs(args[5] @ y_bar / value - 1)), 1e-9),
    ]  # fmt: skip
    return f"{n} x {n}, density 0.05", t | {"B": t["G"] - t["O"]}, DOT, bars


def sparse_mul(size: int, small: bool) -> Found:
    n = 50 if small else 1000
    args = inputs.sparse_mul(n)
    seed = np.random.default_rng(2).normal(size=(n, 2))
    p = program("sparse_mul")
    t = times({"O": lambda: p.value(*args), "G": lambda: p.gradient(*args, seed)}, small)
    along = (p.value(*args) * seed).sum()
    found = [(a * g).sum() for a, g in zip(args[2:], p.gradient(*args, seed), strict=True)]
    bars = [
        ("B over O", t["G"] / t["O"] - 1, 2.8),
        ("relative error along the arguments", relative(found, [along, along]), 1e-9),
    ]
    return f"complex, {n} x {n}, density 0.05", t | {"B": t["G"] - t["O"]}, MUL, bars


def embedding(size: int, small: bool) -> Found:
    d = [*EMBEDDING][size]
    p = program("petersen")
    (batch,) = inputs.embeddings(8 if small else 500, d)
    many = times({"O": lambda: p.losses(batch), "G": lambda: p.gradients(batch)}, small)
    o, g = many["O"] / len(batch), many["G"] / len(batch)
    h = times({"H": lambda: p.hessian(batch[0])}, small)["H"]
    names = ("Julia O", "NiLang G", "ForwardDiff G", "(NiLang+F) H", "ForwardDiff H")
    bars = [("G over O", g / o, 3.4)]
    if d == max(EMBEDDING):
        bars.append(("H over G", h / g, 160))
    return f"{d} dimensions", {"O": o, "G": g, "H": h}, dict(zip(names, EMBEDDING[d], strict=True)), bars


def least_dimension(p: Any, most: int = 6, starts: int = 20) -> dict[int, float]:
    """The least loss found in 1, 2, .. dimensions, up to the first with one below 1e-10: by Newton's method in a trust
    region from random places, two vertices fixed."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(1)
    found: dict[int, float] = {}
    for d in range(1, most + 1):
        losses = []
        for _ in range(starts):
            x = rng.normal(size=(10, d))

            def all_of(free: np.ndarray, x: np.ndarray = x) -> np.ndarray:
                return np.concatenate([x[:2], free.reshape(8, -1)])

            losses.append(minimize(
                lambda f: p.loss(all_of(f)), x[2:].ravel(), method="trust-exact",
                jac=lambda f: p.gradient(all_of(f))[2:].ravel(),
                hess=lambda f, d=d: p.hessian(all_of(f))[2:, :, 2:].reshape(8 * d, 8 * d),
                options={"gtol": 1e-10, "maxiter": 200},
            ).fun)  # fmt: skip
            if losses[-1] < 1e-10:
                break
        found[d] = float(min(losses))
        if found[d] < 1e-10:
            break
    return found


def dimension(size: int, small: bool) -> Found:
    found = least_dimension(program("petersen"), starts=4 if small else 20)
    last = max(found)
    ours = {f"{d}:": f"{loss:.2g}" for d, loss in found.items()} | {"least dimension": str(last)}
    return "least loss by dimensions, Newton in a trust region", ours, {}, [("least loss", found[last], 1e-10)]


def mixture(size: int, small: bool) -> Found:
    import cases

    d, k = [*MIXTURE][size]
    case = cases.gmm(100 if small else 10_000, d, k)
    p = program("gmm")
    t = times({"O": lambda: p.objective(*case.args), "G": lambda: p.gradient(*case.args)}, small)
    names = ("Julia O", "NiLang O", "Tapenade O", "NiLang G", "Tapenade G")
    parameters = k * (1 + d + d * (d + 1) // 2)
    published = dict(zip(names, MIXTURE[d, k], strict=True))
    return f"{parameters:,} parameters", t, published, [("G over O", t["G"] / t["O"], 3.0)]


def bundle(size: int, small: bool) -> Found:
    import cases

    n, m, p = [*BUNDLE][size]
    case = cases.ba(n, m, p)
    prog = program("ba")
    t = times({"O": lambda: prog.objective(*case.args), "J": lambda: prog.jacobian(*case.args)}, small or p > 10**6)
    names = ("Julia O", "NiLang O", "Tapenade O", "NiLang J", "NiLang J, GPU", "Tapenade J")
    published = dict(zip(names, BUNDLE[n, m, p], strict=True))
    return f"{p:,} observations", t, published, [("J over O", t["J"] / t["O"], 8.3)]


def nest(size: int, small: bool) -> Found:
    lengths = (13, 53) if small else (53, 3203)
    found = [measure("adaptive", n, {"checkpoints": 9}, 1) for n in lengths]
    kB = [f["kB"] for f in found]
    published = {who: f"{a:,} -> {b:,} kB" for who, (a, b) in NEST.items()}
    bars = [
        ("kB that memory grows by from the shorter to the longer", kB[1] - kB[0], 512),
        ("largest relative error", max(f["error"] for f in found), 1e-7),
    ]
    ours = {"10 states": f"{kB[0]:,} -> {kB[1]:,} kB of growth", "G": found[1]["seconds"]}
    return f"l = {lengths[0]} and {lengths[1]}", ours, published, bars


def _beside(name: str, make: Callable[[int], Sequence[Any]], short: int, long: int) -> Found:
    """A gradient with iterations undone, then the one that keeps them; `make`: arguments by the number of iterations.
    The growth has the results in it; that of the second could be less by what the first has left."""
    args = {n: make(n) for n in (short, long)}
    programs = {"undone": program(name, reversible=True), "kept": program(name)}
    found = {way: one_call(lambda n, p=p: p.gradient(*args[n]), short, long) for way, p in programs.items()}
    ours = {way: f"{time_text(f['seconds'])} and {f['kB']:,} kB" for way, f in found.items()}
    bars = [
        ("loops whose iterations are kept", float("undone" not in programs["undone"].explain_memory()), 0),
        ("largest relative difference", relative(found["undone"]["results"], found["kept"]["results"]), 1e-8),
        ("growth in kB beside that where all are kept", found["undone"]["kB"] / max(found["kept"]["kB"], 1), 1),
    ]
    return f"{long} iterations", ours, {}, bars


def flow(size: int, small: bool) -> Found:
    return _beside("realnvp", lambda layers: inputs.flow(layers, 50 if small else 5000), 2, 32)


def training(size: int, small: bool) -> Found:
    return _beside("hypersgd", lambda steps: inputs.training(steps, *((20, 50) if small else (50, 20_000))), 2, 100)


APPLICATIONS: dict[str, Callable[[int, bool], Found]] = {
    "nest": nest, "bessel": bessel, "sparse-dot": sparse_dot, "sparse-mul": sparse_mul, "embedding": embedding,
    "dimension": dimension, "mixture": mixture, "bundle": bundle, "flow": flow, "training": training,
}  # fmt: skip


def _sizes(name: str, small: bool) -> int:
    """How many rows an application has."""
    tables: dict[str, dict[Any, Any]] = {"embedding": EMBEDDING, "mixture": MIXTURE, "bundle": BUNDLE}
    return 1 if small or name not in tables else len(tables[name])
