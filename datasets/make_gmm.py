"""Generates a Gaussian mixture file in ADBench's format.

    python datasets/make_gmm.py -n 200 -d 3 -k 5 --seed 1 > datasets/gmm_n200_d3_K5.txt

The points are drawn from the mixture that the parameters describe, perturbed, so that the gradient is neither
zero nor dominated by one cluster.
"""

from __future__ import annotations

import argparse
import sys
from typing import TextIO

import numpy as np


def write_gmm(out: TextIO, n: int, d: int, k: int, seed: int) -> None:
    """Writes n points of dimension d and k clusters; the same text for the same arguments."""
    rng = np.random.Generator(np.random.PCG64(seed))
    triangle = d * (d - 1) // 2
    alphas = 0.5 * rng.standard_normal(k)
    means = 2.0 * rng.standard_normal((k, d))
    log_diagonal = 0.3 * rng.standard_normal((k, d)) + 0.5
    lower = 0.4 * rng.standard_normal((k, triangle)) / max(1.0, np.sqrt(d))
    cluster = rng.integers(k, size=n)
    x = (
        means[cluster]
        + 0.3 * rng.standard_normal((n, d))
        + np.exp(-log_diagonal[cluster]) * rng.standard_normal((n, d))
    )
    print(d, k, n, file=out)
    for a in alphas:
        print(f"{a:.6f}", file=out)
    for row in [*means, *np.concatenate([log_diagonal, lower], axis=1), *x]:
        print(" ".join(f"{v:.6f}" for v in row), file=out)
    print("1.000000 0", file=out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-n", type=int, default=200, help="points (default 200)")
    parser.add_argument("-d", type=int, default=3, help="dimension (default 3)")
    parser.add_argument("-k", type=int, default=5, help="clusters (default 5)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if min(args.n, args.d, args.k) < 1:
        parser.error("-n, -d and -k must be positive")
    write_gmm(sys.stdout, args.n, args.d, args.k, args.seed)


if __name__ == "__main__":
    main()
