"""How often each special transformation fires in which programs.

`futad dev --fires FOLDER...` prints it: the programs are compiled for `c`, `multicore` and the CPU simulator, up to
the text that a C compiler would be given.  A number is how often the transformation was applied in all of that; a
version that a backend tried and then rejected counts, too.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from futad import legality
from futad.core.ir import Program
from futad.errors import Error, UsageError
from futad.fires import DECLARED, Transformation, counting
from futad.testing.freeze import BACKENDS, emitted, programs

FEW = 3  # programs: a transformation that fires in fewer states why it is there
MISSING = "MISSING"


@dataclass(slots=True)
class Firing:
    """A transformation's numbers: by backend, in how many programs it fires and how often; and by program how often."""

    by_backend: dict[str, Counter[str]] = field(default_factory=lambda: {b: Counter() for b in BACKENDS})

    def programs(self) -> Counter[str]:
        """How often it fires, by program, on all backends together."""
        return sum(self.by_backend.values(), Counter())


def count(named: Iterable[tuple[str, Program]]) -> tuple[list[str], dict[str, Firing]]:
    """The names of the programs, and of all declared transformations what fires in them.

    A program that a backend refuses is counted up to there.
    """
    legality.load_all()
    names: list[str] = []
    found = {t.name: Firing() for t in DECLARED.values() if t.fires}
    for name, program in named:
        names.append(name)
        for backend in BACKENDS:
            with counting() as counts, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    emitted(program, backend)
                except Error:
                    pass
            for transformation, times in counts.items():
                found.setdefault(transformation, Firing()).by_backend[backend][name] += times
    return names, found


def table(names: list[str], found: dict[str, Firing]) -> str:
    """The numbers as text: a line for each transformation, those that fire in most programs first."""
    width = max([len(name) for name in found], default=0)
    lines = [f"{len(names)} programs", "", f"{'transformation':<{width}} {'programs':>8}"]
    lines[-1] += "".join(f" {b:>14}" for b in BACKENDS) + "   most, or why it is there"
    for name, firing in sorted(found.items(), key=lambda x: (-len(x[1].programs()), x[0])):
        where = firing.programs()
        line = f"{name:<{width}} {len(where):>8}"
        for b in BACKENDS:
            here = firing.by_backend[b]
            line += f" {f'{sum(here.values())} in {len(here)}' if here else '-':>14}"
        lines.append(f"{line}   {_remark(DECLARED.get(name), where)}".rstrip())
    return "\n".join(lines) + "\n"


def _remark(transformation: Transformation | None, where: Counter[str]) -> str:
    """The programs in which it fires most; of one that fires in few, where it does and why it is there."""
    if len(where) >= FEW:
        return ", ".join(f"{Path(name).stem} {times}" for name, times in where.most_common(FEW))
    reason = (transformation.worth if transformation is not None else "") or MISSING
    return f"{', '.join(Path(name).stem for name in sorted(where)) or 'none'}: {reason}"


def report(paths: list[Path]) -> str:
    """The table over the programs in files and folders; UsageError for one that does not exist or has no program."""
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
    names, found = count(programs(paths))
    if not names:
        raise UsageError(f"no program in {', '.join(map(str, paths))}")
    return table(names, found)
