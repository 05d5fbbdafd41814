"""The objective of a Gaussian mixture model and its gradient, on a data file that ships with futad.

python examples/gmm.py [FILE in ADBench's format]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from futad.datasets import read_gmm

import futad

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    data = read_gmm(sys.argv[1] if len(sys.argv) > 1 else ROOT / "datasets" / "gmm_n200_d3_K5.txt")
    program = futad.load(ROOT / "benchmarks" / "programs" / "gmm.fut")
    gradient = futad.value_and_grad(program.objective, argnums=(0, 1, 2))
    args = (data.alphas, data.means, data.icf, data.x, data.gamma, data.m)
    value, adjoints = gradient(*args)  # compiles
    start = time.perf_counter()
    value, adjoints = gradient(*args)
    seconds = time.perf_counter() - start
    norm = np.sqrt(sum(np.sum(a * a) for a in adjoints))
    print(f"n = {len(data.x)}, d = {data.x.shape[1]}, K = {len(data.alphas)}")
    print(f"objective      {value:.12g}")
    print(f"gradient norm  {norm:.12g}")
    print(f"both in {seconds * 1e3:.3f} ms on backend {gradient.executable.backend}")


if __name__ == "__main__":
    main()
