"""Published figures of others, to be compared with ours as ratios to what each machine can do at best.

Measured by running the programs of the benchmark suites themselves, GradBench and ADBench (hand-written C++, or
Tapenade's derivatives of it where they were faster) and the Futhark compiler's C code for the programs of "AD for an
Array Language with Nested Parallelism", on a two-core machine with AVX-512; one thread, f64 unless said.
"""

from __future__ import annotations

from dataclasses import dataclass

# Of that machine with one thread: bytes a second read and written by copying, operations a second in matrix products.
COPY_BYTES, DGEMM_FLOPS, SGEMM_FLOPS = 30e9, 54e9, 103e9


@dataclass(frozen=True, slots=True)
class Figure:
    """Milliseconds on that machine, and which of its speeds they are scaled by."""

    case: str
    size: str
    who: str
    objective: float | None
    derivative: float | None
    speed: str = "dgemm_flops"


C, FUTHARK = "C++", "Futhark's C"
FIGURES = [
    Figure("gmm", "n=1000 d=64 K=200", C, 116, 483),
    Figure("gmm", "n=1000 d=10 K=200", C, 15, 30),
    Figure("ba", "n=257 m=65132 p=225911", C, 6.0, 84),
    Figure("ba", "n=356 m=226730 p=1255268", C, 34, 468),
    Figure("dlstm", "l=4 c=4096 b=14", C, 10.8, 39.7),
    Figure("hand complicated", "v=10000 c=800", C, 2.4, 10.6),
    Figure("hand simple", "v=10000 c=800", C, 2.4, 10.5),
    Figure("kmeans", "k=1000 n=10000 d=16", C, 54, 60),
    Figure("llsq", "n=16392 m=128", C, 1.63, 3.28),
    Figure("lse", "n=1280000", C, 9.4, 7.4, "copy_bytes"),
    Figure("det", "n=10", C, 30, 304),
    Figure("ode", "n=100000 s=100", C, 24, None, "copy_bytes"),
    Figure("gmm", "n=1000 d=64 K=200", FUTHARK, 445, 1892),
    Figure("ba", "n=257 m=65132 p=225911", FUTHARK, 7.6, 100),
    Figure("ba", "n=356 m=226730 p=1255268", FUTHARK, 42, 491),
    Figure("dlstm", "l=4 c=4096 b=14", FUTHARK, 12.6, 48),
    Figure("hand complicated", "v=10000 c=800", FUTHARK, 2.7, 125),
    Figure("hand simple", "v=10000 c=800", FUTHARK, 2.8, 117),
    Figure("kmeans", "k=1000 n=10000 d=16", FUTHARK, 60, 73),
    Figure("lse", "n=1280000", FUTHARK, 9.9, 16.8, "copy_bytes"),
    Figure("det", "n=10", FUTHARK, 634, 669),
    Figure("ode", "n=100000 s=100", FUTHARK, 45, 266, "copy_bytes"),
    Figure("lstm", "bs=1024 n=20 d=300 h=192", FUTHARK, 14400, 43600, "sgemm_flops"),
]
SPEEDS = {"copy_bytes": COPY_BYTES, "dgemm_flops": DGEMM_FLOPS, "sgemm_flops": SGEMM_FLOPS}


def scaled(case: str, size: str, what: str, threads: int, ceilings: dict[str, float]) -> list[dict[str, str | float]]:
    """Who published a figure for this row, and the seconds it would take on a machine with these ceilings.  All are
    for one thread."""
    found = []
    for f in FIGURES:
        milliseconds = f.objective if what == "objective" else f.derivative
        if (f.case, f.size) == (case, size) and threads == 1 and milliseconds is not None:
            found.append({"who": f.who, "seconds": milliseconds / 1e3 * SPEEDS[f.speed] / ceilings[f.speed]})
    return found
