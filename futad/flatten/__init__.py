"""Core IR to kernels: what runs on the grid, in a block, in one thread, and the host code around it.

`lower.DeviceLowerer` makes a `kernel.DeviceModule`; `report` tells what was not parallelised and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.core.ir import Program
from futad.imp.report import Reports
from futad.target import CUDA, Target

if TYPE_CHECKING:
    from futad.flatten.kernel import DeviceModule


def flatten(
    program: Program, reports: Reports | None = None, memory_checked: bool = False, target: Target = CUDA
) -> DeviceModule:
    """The kernels and the host code of a program that all passes of a device have seen; with `reports`, of what the
    host code binds; `memory_checked`: for checked execution of memory (docs/checking.md).  Raises UsageError if what
    the target's choices ask for is impossible."""
    from futad.flatten.lower import DeviceLowerer

    lowerer = DeviceLowerer(program, target)
    if memory_checked:
        from futad.flatten.watch import WatchingDevice

        lowerer = WatchingDevice(program, target)
    if reports is not None:
        lowerer.reports = reports
    made = lowerer.device_module()
    if target.choices is not None:
        target.choices.lowered()
    return made


def report(program: Program, why: bool = True) -> str:
    """One line a kernel: what it computes, over which space; with `why` what is done one after another."""
    module = flatten(program)
    lines = [f"{k.name:<20} {k.kind:<7} {k.what}" for k in module.kernels]
    if why:
        lines += ["", "not parallel:", *[f"  {w}" for w in module.why or ["nothing"]]]
    return "\n".join(lines) + "\n"


__all__ = ["flatten", "report"]
