"""A Gaussian mixture fitted on a local Dask cluster, the points read by the workers from a Zarr or Parquet file.

python examples/cluster.py [--data FILE.zarr|FILE.parquet] [--clusters K] [--steps N] [--workers W] [--points N]

Without `--data` a file is made first: Zarr where that is installed, else Parquet.  Prints the dashboard's address.
With SciPy the steps are L-BFGS's, else of gradient descent with momentum.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import futad
from futad.distributed import parquet, shard

PROGRAM = """
def logsumexp [k] (x: [k]f64): f64 =
  let top = f64.maximum x
  in top + f64.log (f64.sum (map (\\t -> f64.exp (t - top)) x))

-- The mean over the points of the negative log likelihood; widths are exponentials of `logs`, one a cluster.
entry loss [n][k][d] (weights: [k]f64) (means: [k][d]f64) (logs: [k]f64) (x: [n][d]f64): f64 =
  let term p = map3 (\\w m l -> let s = f64.sum (map2 (\\a b -> (a - b) * (a - b)) p m)
                               in w - f64.i64 d * l - 0.5 * s * f64.exp (-2 * l)) weights means logs
  in logsumexp weights - f64.sum (map (\\p -> logsumexp (term p)) x) / f64.i64 n
"""
CENTRES = np.array([[-2.0, 0.0], [2.0, 1.0], [0.0, 3.0]])


def made(folder: Path, count: int) -> Path:
    """A file of points around three centres."""
    r = np.random.default_rng(0)
    x = CENTRES[r.integers(0, 3, count)] + 0.5 * r.normal(size=(count, 2))
    try:
        import zarr
    except ImportError:
        import pyarrow
        from pyarrow.parquet import write_table

        path = folder / "points.parquet"
        write_table(pyarrow.table({"x": x[:, 0], "y": x[:, 1]}), path, row_group_size=max(1, count // 16))
        return path
    path = folder / "points.zarr"
    zarr.save(str(path), x)
    return path


def opened(path: str) -> Any:
    """The points: an array of Zarr, or the columns of a Parquet file."""
    if not os.path.exists(path):
        sys.exit(f"there is no file {path}")
    if path.endswith(".parquet"):
        import pyarrow.parquet as pq

        return parquet(path, pq.ParquetFile(path).schema_arrow.names)
    import zarr

    return zarr.open_array(path, mode="r")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    for name, default in (("clusters", 3), ("steps", 30), ("workers", 2), ("points", 200_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        sys.exit("this example needs Dask: pip install 'futad[dask]' zarr")
    with tempfile.TemporaryDirectory() as folder:
        points = opened(given.data or str(made(Path(folder), given.points)))
        with LocalCluster(n_workers=given.workers, threads_per_worker=1) as cluster, Client(cluster) as client:
            print(f"dashboard: {client.dashboard_link}", flush=True)
            fit(points, client, given.clusters, given.steps)


def fit(points: Any, client: Any, k: int, steps: int) -> None:
    from rich.console import Console
    from rich.progress import Progress

    f = futad.compile(PROGRAM, backend="c").loss
    sharded = shard(f, over="n", client=client)
    d = points.shape[1]
    start = points.read(0, 0, 4096) if hasattr(points, "read") else np.asarray(points[:4096])
    chosen = [start[0]]
    while len(chosen) < k:  # the point of the first ones that is farthest from those chosen
        chosen.append(start[np.argmin([-min(np.sum((p - c) ** 2) for c in chosen) for p in start])])
    v = np.concatenate([np.zeros(k), np.ravel(chosen), np.zeros(k)])

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        parts = v[:k], v[k : k + k * d].reshape(k, d), v[k + k * d :]
        value, grads = sharded.value_and_grad(*parts, points, argnums=(0, 1, 2))
        bar.update(task, completed=min(steps, bar.tasks[task].completed + 1), description=f"loss {value:.6f}")
        return float(value), np.concatenate([np.ravel(g) for g in grads])

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("loss", total=steps)
        try:
            from scipy.optimize import minimize
        except ImportError:
            speed = np.zeros_like(v)
            for _ in range(steps):
                speed = 0.8 * speed - 0.3 * loss(v)[1]
                v = v + speed
        else:
            v = minimize(loss, v, jac=True, method="L-BFGS-B", options={"maxfun": steps}).x
    means = v[k : k + k * d].reshape(k, d)
    print("means:\n" + "\n".join("  " + "  ".join(f"{c:8.4f}" for c in row) for row in means[np.argsort(means[:, 0])]))
    print(sharded.report)


if __name__ == "__main__":
    main()
