"""Core IR to kernels: what runs on the grid, in a block, in one thread, and the host code around it.

`lower.DeviceLowerer` makes a `kernel.DeviceModule`; `report` tells what was not parallelised and why.
"""

from __future__ import annotations

from futad.core.ir import Lambda, Program, Trace, map_bodies, map_scopes
from futad.flatten.kernel import DeviceModule
from futad.imp.report import Reports


def flatten(program: Program) -> DeviceModule:
    """The kernels and the host code of a program that all passes have seen."""
    return lowered(prepared(program))


def lowered(program: Program, reports: Reports | None = None, memory_checked: bool = False) -> DeviceModule:
    """The kernels and the host code of a program as `prepared` made it; with `reports`, of what the host code binds;
    `memory_checked`: for checked execution of memory (docs/checking.md)."""
    from futad.flatten.lower import DeviceLowerer

    lowerer = DeviceLowerer(program)
    if memory_checked:
        from futad.flatten.watch import WatchingDevice

        lowerer = WatchingDevice(program)
    if reports is not None:
        lowerer.reports = reports
    return lowerer.device_module()


def prepared(program: Program) -> Program:
    """A program that all passes have seen as it is lowered for devices."""
    from futad.checks import checked
    from futad.flatten.prepare import prepare
    from futad.optimise.sequential import sequentialise

    program = checked(without_traces(program), "without-traces")
    program = checked(sequentialise(program), "sequentialise")
    return prepare(program)


def without_traces(program: Program) -> Program:
    """The program without what prints: devices cannot.  The same object if nothing does."""
    from futad.rewrite.simplify import simplify

    silent = map_bodies(program, _silent)
    return program if all(f is silent.funs[n] for n, f in program.funs.items()) else simplify(silent)


def _silent(lam: Lambda) -> Lambda:
    stms = tuple([map_scopes(s, _silent) for s in lam.stms if type(s.exp) is not Trace])
    same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, stms, lam.result)


def report(program: Program, why: bool = True) -> str:
    """One line a kernel: what it computes, over which space; with `why` what is done one after another."""
    module = flatten(program)
    lines = [f"{k.name:<20} {k.kind:<7} {k.what}" for k in module.kernels]
    if why:
        lines += ["", "not parallel:", *[f"  {w}" for w in module.why or ["nothing"]]]
    return "\n".join(lines) + "\n"


__all__ = ["flatten", "lowered", "prepared", "report", "without_traces"]
