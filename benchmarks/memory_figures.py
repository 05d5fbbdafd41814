"""What the commands of `memory.py` have in common: figures of one call in a process of its own, and bars on them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PROGRAMS = Path(__file__).parent / "programs"


@dataclass
class Bar:
    """What must hold of a figure."""

    what: str
    value: float
    most: float

    @property
    def holds(self) -> bool:
        return self.value <= self.most

    def __str__(self) -> str:
        return f"{'ok    ' if self.holds else 'MISSED'} {self.what}: {self.value:.3g} (at most {self.most:g})"


def peak() -> int:
    """The largest memory of this process since it was last reset, in kB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def one_call(call: Callable[[Any], Sequence[np.ndarray]], small: Any, large: Any) -> dict[str, Any]:
    """The figures of `call(large)`, and its results, after `call(small)`."""
    call(small)
    Path("/proc/self/clear_refs").write_text("5")
    before, start = peak(), time.process_time()
    results = call(large)
    seconds = time.process_time() - start
    return {"seconds": seconds, "kB": peak() - before, "results": [np.asarray(r).tolist() for r in results]}


def in_process(workload: str, *args: Any, what: str = "") -> Any:
    """What `memory.py` prints as JSON for these arguments when it is a worker, on one thread of one processor."""
    command = [sys.executable, str(Path(__file__).with_name("memory.py")), workload, "--worker", json.dumps(args)]
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    processor = {sorted(os.sched_getaffinity(0))[0]}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **one},
                          preexec_fn=lambda: os.sched_setaffinity(0, processor))  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{workload}{f' with {what}' if what else ''} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def measure(workload: str, length: Any, options: Mapping[str, Any], runs: int) -> dict[str, Any]:
    """The least processor time and the largest growth of so many processes."""
    found = [in_process(workload, length, options, what=str(options)) for _ in range(runs)]
    return min(found, key=lambda f: f["seconds"]) | {"kB": max(f["kB"] for f in found)}


def needed(module: str, install: str) -> None:
    """End the program with what to install, if the module is missing."""
    if importlib.util.find_spec(module) is None:
        raise SystemExit(f"{module} is not installed here: pip install {install}")


def differing(actual: Sequence[Any], expected: Sequence[Any]) -> int:
    """How many values of two gradients have not the same bits."""
    pairs = [(np.asarray(a), np.asarray(e)) for a, e in zip(actual, expected, strict=True)]
    return sum(int(np.count_nonzero(a.view(np.int64) != e.view(np.int64))) for a, e in pairs)


def relative(actual: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest difference, relative to the largest magnitude of each array."""
    pairs = [(np.asarray(a), np.asarray(e)) for a, e in zip(actual, expected, strict=True)]
    return float(max(np.abs(a - e).max() / np.abs(e).max() for a, e in pairs))
