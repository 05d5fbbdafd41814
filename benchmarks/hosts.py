"""What a call costs in another framework, and how soon a second process runs: python benchmarks/hosts.py

    --torch     futad.torch beside an empty `autograd.Function` of as many tensors, which saves its arguments and whose
                results and adjoints are memory without values, and beside futad without PyTorch (the entry, and its
                `vjp` on components); calls, and calls with their gradient (`torch.autograd.grad`).  The overhead is the
                time in PyTorch less that without
    --jax       futad.jax beside the same written in JAX, both jitted, and futad without JAX; calls, and calls with
                their gradient
    --start     a pickled gradient in a process of its own, its code in the cache: CPU time until it has run

Times are the least mean over many short batches, all of one row in one process.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import futad

SOURCE = """
entry cubes [n] (xs: [n]f64): f64 = f64.sum (map (\\x -> x * x * x) xs)
entry affine [n] (w: [n]f64) (x: [n]f64) (b: f64): f64 = f64.sum (map2 (*) w x) + b
"""
START = """
import time, pickle, sys
import numpy as np
begin = time.process_time()
f, args = pickle.load(sys.stdin.buffer)
f(*args)
print(time.process_time(), time.process_time() - begin)
"""


def least(calls: list[Callable[[], Any]], batches: int = 600, size: int = 15) -> list[float]:
    """Microseconds a call of each, in turns.  Batches take a millisecond or two, less than the time for which a busy
    machine lets a process run."""
    best = [float("inf")] * len(calls)
    for call in calls:
        for _ in range(20):
            call()
    for _ in range(batches):
        for i, call in enumerate(calls):
            begin = time.perf_counter()
            for _ in range(size):
                call()
            best[i] = min(best[i], (time.perf_counter() - begin) / size * 1e6)
    return best


def torch_rows() -> None:
    """The cost of calls in PyTorch."""
    import torch

    import futad.torch

    torch.set_num_threads(1)

    class Empty(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            ctx.save_for_backward(*xs)
            return torch.empty((), dtype=torch.float64)

        @staticmethod
        def backward(ctx: Any, bar: Any) -> Any:
            return tuple([torch.empty_like(x) for x in ctx.saved_tensors])

    def calls_of(f: futad.Function, shapes: list[tuple[int, ...]]) -> dict[str, list[Callable[[], Any]]]:
        """Of futad alone, of an empty Function, of futad in torch."""
        inner, pull = futad.torch.function(f), f.derivative("vjp")
        active = [torch.ones(s, dtype=torch.float64, requires_grad=True) for s in shapes]
        arrays = [np.ones(s)[()] for s in shapes]

        def with_gradient(call: Callable[..., Any]) -> Any:
            return torch.autograd.grad(call(*active), active)

        return {
            "value": [lambda: f(*arrays), lambda: Empty.apply(*active), lambda: inner(*active)],
            "value, then gradient": [
                lambda: (f(*arrays), pull.call_leaves([*arrays, np.float64(1)])),
                lambda: with_gradient(Empty.apply),
                lambda: with_gradient(inner),
            ],
        }

    program = futad.compile(SOURCE, backend="c")
    print(f"{'microseconds':28}{'futad':>8}{'empty':>8}{'in torch':>10}{'overhead':>10}{'of empty':>10}")
    worst = 0.0
    for entry, shapes in (("cubes", [(100,)]), ("affine", [(100,), (100,), ()])):
        for name, calls in calls_of(program[entry], shapes).items():
            alone, empty, inside = least(calls)
            ratio = (inside - alone) / empty
            worst = max(worst, ratio)
            print(f"{f'{entry}, {name}':28}{alone:8.1f}{empty:8.1f}{inside:10.1f}{inside - alone:10.1f}{ratio:10.2f}")
    print(f"overhead is at most {worst:.2f} times an empty autograd.Function (wanted: 1.3)")


def jax_rows() -> None:
    """The cost of calls in JAX."""
    import jax
    import jax.numpy as jnp

    import futad.jax

    jax.config.update("jax_enable_x64", True)
    program = futad.compile(SOURCE, backend="c")
    native = {"cubes": lambda xs: jnp.sum(xs * xs * xs), "affine": lambda w, x, b: jnp.sum(w * x) + b}
    print(f"{'microseconds':28}{'futad':>8}{'JAX':>8}{'in JAX':>10}{'over JAX':>10}")
    worst = -float("inf")
    for entry, shapes in (("cubes", [(100,)]), ("affine", [(100,), (100,), ()])):
        f, count = program[entry], tuple(range(len(shapes)))
        arrays, given = [np.ones(s)[()] for s in shapes], [jnp.ones(s) for s in shapes]
        inner = futad.jax.function(f)
        for name, alone, theirs, inside in (
            ("value", f, native[entry], inner),
            ("value and gradient", futad.value_and_grad(f, count),
             jax.value_and_grad(native[entry], count), jax.value_and_grad(inner, count)),
        ):  # fmt: skip

            def call(g: Callable[..., Any], args: list[Any] = given) -> Callable[[], Any]:
                jitted = jax.jit(g)
                return lambda: jax.block_until_ready(jitted(*args))

            times = least([lambda g=alone, args=arrays: g(*args), call(theirs), call(inside)])
            worst = max(worst, times[2] - times[1])
            print(f"{f'{entry}, {name}':28}{times[0]:8.1f}{times[1]:8.1f}{times[2]:10.1f}{times[2] - times[1]:10.1f}")
    print(f"a jitted call takes at most {worst:.1f} microseconds more than JAX's own (wanted: 15)")


def start_row() -> None:
    """The start of a worker."""
    program = futad.load(os.path.join(os.path.dirname(__file__), "programs", "kmeans.fut"), backend="c")
    points = np.random.default_rng(0).normal(size=(100, 4))
    f, args = futad.grad(program.objective, 1), (points, points[:5])
    f(*args)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pickle.dumps((f, args)))
        file.flush()
        seconds = []
        for _ in range(5):
            with open(file.name, "rb") as given:
                done = subprocess.run([sys.executable, "-c", START], stdin=given, capture_output=True, check=True)
            seconds.append([float(x) for x in done.stdout.split()])
    whole, own = min(seconds)
    print(f"a pickled gradient in a new process: {whole:.2f} s of CPU, {own:.2f} after NumPy (wanted: 0.3)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true", help="calls in PyTorch")
    parser.add_argument("--jax", action="store_true", help="calls in JAX")
    parser.add_argument("--start", action="store_true", help="the start of a worker")
    args = parser.parse_args()
    every = not (args.torch or args.jax or args.start)
    if args.start or every:
        start_row()
    if args.torch or every:
        torch_rows()
    if args.jax or every:
        jax_rows()


if __name__ == "__main__":
    main()
