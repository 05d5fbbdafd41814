"""The benchmarks' JAX versions (`peers_jax.py`) as programs of futad, by `futad.jax.compile`: beside the programs by
hand in `programs/`, and beside JAX itself.

    python benchmarks/imported.py [--small] [--only NAME...] [--runs N] [--seconds S] [--json OUT]

A derivative is the gradient of an objective with one number as result, the Jacobian of the hand's, else the adjoint of
a seed.  futad takes it of the imported objective and of the entry written by hand, JAX by the function's own; they are
compared, to 1e-12 in f64, before anything is timed.  Times are medians of CPU time on one processor, all of a row in
turn.  The last lines say how many derivatives are within 1.3 of those of the programs by hand, and how many are slower
than JAX's.  Exit status 1 if an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cases import SMALL, Case, det, dlstm, gmm, hand, kmeans, lbm, llsq, lse, lstm, ode
from cases import ba as bundle

import futad

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = 2e-4  # seconds for a measurement: what the clock of the processor tells well
Array = np.ndarray[Any, np.dtype[Any]]
LIMIT, TOLERANCE = 1.3, {"float64": 1e-12, "float32": 2e-5}
# One size of each program, the smaller ones of the report's.
SIZES: list[tuple[Callable[..., Case], tuple[Any, ...]]] = [
    (gmm, (1000, 10, 25)), (kmeans, (100, 10000, 16)), (bundle, (49, 7776, 31843)), (hand, (10000, 800, False)),
    (dlstm, (2, 1024, 14)), (lstm, (64, 20, 300, 192)), (llsq, (1024, 128)), (lse, (160000,)), (det, (8,)),
    (ode, (1000, 100)), (lbm, (16, 16, 16, 10)),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Way:
    """How a program is differentiated: the arguments of the imported function and of the entry by hand, in the same
    order; "grad", "vjp" with a seed for each component of the result, or "jacfwd"."""

    kind: str
    imported: tuple[int, ...]
    by_hand: tuple[int, ...]
    seed: Callable[[list[Array]], list[Array]] = lambda results: []


def _random(results: list[Array]) -> list[Array]:
    r = np.random.default_rng(17)
    return [r.normal(size=x.shape).astype(x.dtype) for x in results]


def _last(results: list[Array]) -> list[Array]:
    (y,) = results
    return [np.eye(1, len(y), len(y) - 1)[0]]


WAYS = {
    "gmm": Way("grad", (0, 1, 2), (0, 1, 2)), "kmeans": Way("grad", (0,), (1,)),
    "ba": Way("vjp", (0, 1, 2), (0, 1, 2), _random), "hand simple": Way("jacfwd", (0,), (8,)),
    "dlstm": Way("grad", (0, 1), (0, 1)), "lstm": Way("grad", (0, 1, 2, 3, 4), (0, 1, 2, 3, 4)),
    "llsq": Way("grad", (0,), (0,)), "lse": Way("grad", (0,), (0,)), "det": Way("grad", (0,), (1,)),
    "ode": Way("vjp", (0,), (0,), _last), "lbm": Way("vjp", (0,), (2,), _random),
}  # fmt: skip


def leaves(tree: Any) -> list[Array]:
    """The arrays of a result."""
    if isinstance(tree, tuple | list):
        return [x for part in tree for x in leaves(part)]
    return [np.asarray(tree)]


def shaped_as(parts: list[Any], tree: Any) -> Any:
    return tuple(parts) if isinstance(tree, tuple) else parts[0]


def theirs(objective: Callable[..., Any], way: Way, seeds: list[Array], value: Any) -> Callable[..., Any]:
    """JAX's derivative."""
    import jax

    if way.kind == "vjp":
        bars = shaped_as([jax.numpy.asarray(s) for s in seeds], value)

        def pulled(*args: Any) -> Any:
            def active(*some: Any) -> Any:
                return objective(*[dict(zip(way.imported, some, strict=True)).get(i, a) for i, a in enumerate(args)])

            return jax.vjp(active, *[args[i] for i in way.imported])[1](bars)

        return pulled
    make = {"grad": jax.grad, "jacfwd": jax.jacfwd}[way.kind]
    return make(objective, argnums=way.imported)


def ours(f: futad.Function, way: tuple[int, ...], kind: str, args: list[Any], seeds: Any) -> Callable[[], Any]:
    """futad's derivative on these arguments."""
    of = f.derivative(kind, way)
    given = [*args, seeds] if kind == "vjp" else args
    return lambda: of(*given)


def times(calls: list[Callable[[], Any]], runs: int, seconds: float) -> list[float]:
    """Medians of CPU time of a call, in turn; of short calls as many at once as take `SAMPLE`."""
    taken: list[list[float]] = [[] for _ in calls]
    many = []
    for call in calls:
        call()
        start = time.process_time()
        call()
        many.append(max(1, math.ceil(SAMPLE / max(time.process_time() - start, 1e-6))))
    begin = time.perf_counter()
    while len(taken[0]) < runs or (time.perf_counter() - begin < seconds and len(taken[0]) < 200):
        for call, own, count in zip(calls, taken, many, strict=True):
            call()  # what others have left in the processor's caches counts for none
            start = time.process_time()
            for _ in range(count):
                call()
            own.append((time.process_time() - start) / count)
    return [statistics.median(own) for own in taken]


def distance(mine: list[Array], others: list[Array]) -> float:
    """The largest difference relative to the largest element."""
    worst = 0.0
    for x, y in zip(mine, others, strict=True):
        y = y.reshape(x.shape)
        worst = max(worst, float(np.abs(x - y).max() / max(np.abs(y).max(), 1e-300)))
    return worst


def measured(case: Case, runs: int, seconds: float) -> dict[str, Any]:
    """The row of a program."""
    import jax
    import peers_jax

    import futad.jax

    peers_jax.jax, peers_jax.jnp = jax, jax.numpy
    way = WAYS[case.name]
    objective, _, wanted = peers_jax.MAKERS[case.program](*case.args, *case.more)
    wanted = tuple([np.asarray(a) for a in wanted])
    imported = futad.jax.compile(objective, *wanted, name=case.program, backend="c")
    by_hand = futad.load(ROOT / "benchmarks" / "programs" / f"{case.program}.fut", backend="c")[case.objective]

    jitted = jax.jit(objective)
    inputs = [jax.numpy.asarray(a) for a in wanted]
    value = jitted(*inputs)
    seeds = way.seed(leaves(value))
    bars = shaped_as(seeds, value) if seeds else None
    derived = jax.jit(theirs(objective, way, seeds, value))
    made = by_hand(*case.args)
    same = [s.reshape(x.shape) for s, x in zip(seeds, leaves(made), strict=True)] if seeds else []
    hand_bars = shaped_as(same, made) if seeds else None
    groups = {
        "value": [lambda: imported(*wanted), lambda: by_hand(*case.args),
                  lambda: jax.block_until_ready(jitted(*inputs))],
        "derivative": [ours(imported, way.imported, way.kind, list(wanted), bars),
                       ours(by_hand, way.by_hand, way.kind, list(case.args), hand_bars),
                       lambda: jax.block_until_ready(derived(*inputs))],
    }  # fmt: skip
    row: dict[str, Any] = {"case": case.name, "size": case.size, "dtype": str(leaves(value)[0].dtype)}
    for what, calls in groups.items():
        made = [leaves(call()) for call in calls]
        row[what] = {"error": distance(made[0], made[2]), "error by hand": distance(made[1], made[2])}
        row[what]["seconds"] = times(calls, runs, seconds)
    return row


def show(row: dict[str, Any]) -> None:
    for what in ("value", "derivative"):
        part = row[what]
        mine, hand_, jax_ = [1e3 * s for s in part["seconds"]]
        print(
            f"{row['case'] + ' ' + row['size']:34} {what:10} {mine:9.3f} {hand_:9.3f} {jax_:9.3f} "
            f"{mine / hand_:8.2f} {mine / jax_:8.2f} {part['error']:9.1e}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="the sizes of tests")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs whose name begins so")
    parser.add_argument("--runs", type=int, default=5, help="timed rounds, at least (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="more rounds for so long (default 1)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the measurements here")
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    import jax

    jax.config.update("jax_enable_x64", True)
    sizes = [(make, sizes[0]) for make, _, sizes in SMALL] if options.small else SIZES
    print(f"{'milliseconds':45} {'imported':>9} {'by hand':>9} {'JAX':>9} {'/ hand':>8} {'/ JAX':>8} {'error':>9}")
    rows = []
    for make, size in sizes:
        case = make(*size)
        if options.only and not case.name.startswith(tuple(options.only)):
            continue
        rows.append(measured(case, options.runs, options.seconds))
        show(rows[-1])
    every = [r["derivative"]["seconds"] for r in rows]
    near = sum(t[0] <= LIMIT * t[1] for t in every)
    slower = [r["case"] for r, t in zip(rows, every, strict=True) if t[0] > t[2]]
    print(f"{near} of {len(rows)} derivatives are within {LIMIT} of those by hand (wanted: 8 of 11)")
    print(f"slower than JAX: {', '.join(slower) or 'none'} (wanted: none)")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    wrong = [r["case"] for r in rows for w in ("value", "derivative") if not r[w]["error"] <= TOLERANCE[r["dtype"]]]
    print(f"not within {TOLERANCE['float64']} of JAX (f32: {TOLERANCE['float32']}): {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
