"""What data in shards cost beside one process.

python benchmarks/shards.py [--n 100000] [--d 64] [--k 25] [--runs N] [--engine local|dask|mpi]

The value and gradient of a Gaussian mixture.  `local`: 8 shards in this process over the entry itself, both on backend
'c'.  `dask`: two workers over one, beside two plain copies over one (two processes that each compute half of the points
without futad.distributed), which is what the machine gives.  Ratios of medians; the runs of what is compared alternate.
`mpi`: seconds of a step on the ranks that `mpirun -n R python benchmarks/shards.py --engine mpi` starts, and of a
combination of the same values alone.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import futad
from futad.distributed import shard

PROGRAM = Path(__file__).parent / "programs" / "gmm.fut"
BY = (0, 1, 2)


def arguments(n: int, d: int, k: int) -> tuple[Any, ...]:
    r = np.random.default_rng(0)
    return (r.normal(size=k), r.normal(size=(k, d)), 0.1 * r.normal(size=(k, d * (d + 1) // 2)), r.normal(size=(n, d)),
            1.0, 0)  # fmt: skip


def alternating(runs: int, *calls: Callable[[], Any]) -> list[float]:
    """The median seconds of each call, run in turns, after one that does not count."""
    taken: list[list[float]] = [[] for _ in calls]
    for turn in range(runs + 1):
        for call, own in zip(calls, taken, strict=True):
            start = time.perf_counter()
            call()
            if turn:
                own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in taken]


def local(args: tuple[Any, ...], runs: int) -> None:
    f = futad.load(PROGRAM, backend="c").objective
    whole, sharded = futad.value_and_grad(f, argnums=BY), shard(f, "n", shards=8)
    one, eight = alternating(runs, lambda: whole(*args), lambda: sharded.value_and_grad(*args, argnums=BY))
    print(f"one process {one:.3f} s; local, 8 shards {eight:.3f} s: {eight / one:.3f} of it")


def plain(half: int, sizes: tuple[int, int, int], begin: Any, end: Any, runs: int) -> None:
    """A copy that computes half of the points, whenever it is told to."""
    args = list(arguments(*sizes))
    args[3] = args[3][: half]
    f = futad.value_and_grad(futad.load(PROGRAM, backend="c").objective, argnums=BY)
    f(*args)
    for _ in range(runs):
        begin.wait()
        f(*args)
        end.wait()


def copies(count: int, sizes: tuple[int, int, int], runs: int) -> Callable[[], None]:
    """A call that has so many plain copies compute all points together."""
    context = mp.get_context("spawn")
    begin, end = context.Barrier(count + 1), context.Barrier(count + 1)
    for _ in range(count):
        context.Process(target=plain, args=(sizes[0] // count, sizes, begin, end, runs), daemon=True).start()

    def call() -> None:
        begin.wait()
        end.wait()

    return call


def dask(args: tuple[Any, ...], sizes: tuple[int, int, int], runs: int) -> None:
    from distributed import Client, LocalCluster

    calls: list[Callable[[], Any]] = [copies(1, sizes, runs + 1), copies(2, sizes, runs + 1)]
    f = futad.load(PROGRAM, backend="c").objective
    opened = []
    for workers in (1, 2):
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        client = Client(cluster)
        opened += [client, cluster]
        sharded = shard(f, "n", client=client, shards=8)
        calls.append(lambda sharded=sharded: sharded.value_and_grad(*args, argnums=BY))
    for call in calls[2:]:
        call()  # tasks are made by the work that they take: twice
        call()
    plain_one, plain_two, one, two = alternating(runs, *calls)
    print(f"plain copies: one {plain_one:.3f} s, two {plain_two:.3f} s: {plain_one / plain_two:.2f} times as fast")
    print(f"dask: one worker {one:.3f} s, two {two:.3f} s: {one / two:.2f} times as fast")
    print(sharded.report)
    small = [*args]
    small[3] = args[3][:64]
    (step,) = alternating(20, lambda: sharded.value_and_grad(*small, argnums=BY))
    print(f"dask: a step of 64 points, two workers, two phases: {step * 1000:.1f} ms")
    for x in opened:
        x.close()


def mpi(args: tuple[Any, ...], runs: int) -> None:
    from mpi4py import MPI

    f = futad.load(PROGRAM, backend="c").objective
    sharded = shard(f, "n", engine="mpi", shards=8)
    small = [*args]
    small[3] = args[3][:64]
    step, least = alternating(runs, lambda: sharded.value_and_grad(*args, argnums=BY),
                              lambda: sharded.value_and_grad(*small, argnums=BY))  # fmt: skip
    if MPI.COMM_WORLD.rank == 0:
        print(f"mpi: {MPI.COMM_WORLD.size} ranks {step:.3f} s; a step of 64 points, two phases: {least * 1000:.2f} ms")
        print(sharded.report)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("local", "dask", "mpi"), default="local")
    parser.add_argument("--runs", type=int, default=3)
    for name, size in (("n", 100_000), ("d", 64), ("k", 25)):
        parser.add_argument(f"--{name}", type=int, default=size)
    given = parser.parse_args()
    sizes = (given.n, given.d, given.k)
    args = arguments(*sizes)
    if given.engine == "local":
        local(args, given.runs)
    elif given.engine == "dask":
        dask(args, sizes, given.runs)
    else:
        mpi(args, given.runs)


if __name__ == "__main__":
    main()
