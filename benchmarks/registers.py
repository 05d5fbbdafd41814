"""What the kernels of the benchmark programs need of a multiprocessor: `python benchmarks/registers.py [PROGRAM ...]`.

Of each kernel the registers of a thread, bytes spilled, bytes of static shared memory of a block, and for which part of
the warps that a multiprocessor can hold these leave room, from what the compiler for GPUs reports; no GPU is needed.
Kernels of one thread are left out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from futad.backend.cuda import DeviceBackend
from futad.errors import Error
from futad.pipeline import compile_program
from futad.runtime.cubin import Resources, compile_cubin
from futad.source import load_program
from futad.target import CUDA

PROGRAMS = Path(__file__).resolve().parent / "programs"
THREADS = {"thread": 128, "warp": 128, "block": 256, "tile": 256}  # of a block, at most, by the kind of kernel
REGISTERS, WARPS, BLOCKS = 1 << 16, 64, 32  # of a multiprocessor of sm_80 and sm_90
SHARED = {"sm_80": 164 << 10, "sm_90": 228 << 10}
RESERVED = 1 << 10  # bytes of shared memory of each block that are the driver's


def occupancy(r: Resources, threads: int, shared: int) -> float:
    """The part of a multiprocessor's warps that blocks of so many threads can be."""
    warps = threads // 32
    of_a_warp = -(-32 * r.registers // 256) * 256
    blocks = min(BLOCKS, WARPS // warps, REGISTERS // (of_a_warp * warps), shared // (r.shared + RESERVED))
    return blocks * warps / WARPS


def table(name: str, arch: str, least: float) -> list[str]:
    """A line for each kernel of a program with an occupancy of at most `least`."""
    made = DeviceBackend(compile_program(load_program(str(PROGRAMS / f"{name}.fut")), target=CUDA))
    if not made.names:
        return []
    kernels = {made.names[k]: k for k in made.module.kernels}
    rows = []
    for symbol, r in compile_cubin(made.source, arch).kernels.items():
        k = kernels[symbol]
        if k.kind == "single":
            continue
        part = occupancy(r, THREADS[k.kind], SHARED[arch])
        if part <= least:
            rows.append((part, f"{name:<14}{r.registers:>4}{r.spills:>7}{r.shared:>8}{part:>7.0%}  {k.kind:<7}"
                               f"{k.line or '':>4}  {k.what[:80]}"))  # fmt: skip
    return [text for _, text in sorted(rows, key=lambda row: row[0])]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="what benchmark kernels need of a multiprocessor")
    parser.add_argument("programs", nargs="*", default=sorted(p.stem for p in PROGRAMS.glob("*.fut")))
    parser.add_argument("--arch", choices=sorted(SHARED), default="sm_90")
    parser.add_argument("--most", type=float, default=1.0, metavar="PART", help="only kernels with room for no more")
    options = parser.parse_args(argv)
    print(f"{'program':<14}{'regs':>4}{'spills':>7}{'shared':>8}{'warps':>7}  {'kind':<7}{'line':>4}  what")
    try:
        for name in options.programs:
            for line in table(name, options.arch, options.most):
                print(line)
    except Error as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
