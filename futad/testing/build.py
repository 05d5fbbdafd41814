"""Backends of programs that the passes which all targets share have seen, or none; for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from futad.backend import c, quick
from futad.backend.c import CBackend
from futad.backend.cuda import DeviceBackend
from futad.core.ir import Program
from futad.flatten import flatten
from futad.flatten.kernel import DeviceModule
from futad.pipeline import COMMON, PASSES, compile_program, own_passes
from futad.rewrite.choices import Choice, Choices, NestChoice
from futad.target import CUDA, MULTICORE, C, Target


def common(program: Program, target: Target, check: bool = False) -> Program:
    """The program after the passes that all targets share, as they do for this one."""
    return compile_program(program, target=target, stop_after=COMMON, check=check)


def lowered(program: Program, target: Target) -> Program:
    """The program after the passes that are the target's own."""
    return compile_program(program, target=target, passes=own_passes(target))


def prepared(program: Program) -> Program:
    """The program as devices lower it."""
    return lowered(program, CUDA)


def without_accs(program: Program) -> Program:
    """The program after the pass accs, fused again."""
    return compile_program(program, target=C, passes=[p.name for p in PASSES if "accs" in (p.name, p.after)])


def c_backend(
    program: Program, multicore: bool = False, grain: int | None = None, carries: frozenset[str] | None = None,
    **more: Any,
) -> CBackend:  # fmt: skip
    """The program on a C backend; `more` are fields of the target."""
    target = replace(MULTICORE if multicore else C, **more)
    return CBackend(lowered(program, target), target, grain, carries)


@contextmanager
def smallest_pieces() -> Iterator[None]:
    """Within it threads share nests however small these are."""
    before, c.GRAIN = c.GRAIN, 1
    try:
        yield
    finally:
        c.GRAIN = before


@contextmanager
def middle_builds() -> Iterator[None]:
    """Within it the code of C is that of middle builds (`backend/quick.py`), of programs that have one."""

    def made(program: Program, target: Target) -> CBackend:
        full = quick.differs(program)
        return CBackend(program, target) if full else CBackend(program, quick.TARGET).unhurried()

    with patch.object(c, "CBackend", made):
        yield


def device_backend(
    program: Program, carries: frozenset[str] | None = None, *, loops_by_host: bool = False
) -> DeviceBackend:
    """The program on a device; `loops_by_host`: none is run by one block."""
    if not loops_by_host:
        return DeviceBackend(prepared(program), carries)
    target = replace(CUDA, choices=Choices((NestChoice("*", (Choice("one-block", no=True),)),)))
    return DeviceBackend(lowered(program, target), carries, target=target)


def flattened(program: Program) -> DeviceModule:
    """The kernels and the host code of the program."""
    return flatten(prepared(program))


__all__ = [
    "c_backend", "common", "device_backend", "flattened", "lowered", "middle_builds", "prepared", "smallest_pieces",
    "without_accs",
]  # fmt: skip
