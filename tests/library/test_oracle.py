"""Every public function of futad.numpy, of the library and of the prelude beside an oracle of its own: values, first
and second derivatives, at ties, zeros, infinities, branch points and the ends of each type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import futad
import futad.numpy as fnp
from futad.library import HERE
from tests.support import oracle, oracle_arrays
from tests.support.needs import needs_cc

pytest.importorskip("mpmath")
from tests.support import oracle_array_table, oracle_linalg, oracle_numpy, oracle_solvers, oracle_stats
from tests.support.oracle_reasons import ALSO, ELSEWHERE, SAME

ROOT = Path(__file__).parents[2]
NUMBERS = [*oracle_numpy.CASES, *oracle_stats.CASES]
ARRAYS = [
    *[oracle_array_table.numpy_case(name) for name in oracle_array_table.NUMPY],
    *[
        oracle_arrays.ArrayCase(f"{file}.{name}", text, formula, points, at)
        for file, table in (
            ("stats", oracle_array_table.STATS),
            ("linalg", oracle_linalg.LINALG),
            ("prelude", oracle_array_table.PRELUDE),
        )
        for name, (text, formula, points, at) in table.items()
    ],
    *oracle_solvers.CASES,
]
# What the texts of cases call modules.
MODULES = {
    "special": 'import "futad/special"',
    "special_f64": "special",
    "special_f32": "special.mk_special f32",
    "stats_f64": 'import "futad/stats"',
    "stats_f32": "stats_f64.stats_f32",
    "linalg_f64": 'import "futad/linalg"',
    "linalg_f32": "linalg_f64.mk_linalg f32",
    "stencil_f64": 'import "futad/stencil"',
    "ode_f64": 'import "futad/ode"',
    "ode_f32": "ode_f64.mk_ode f32",
    "optim": 'import "futad/optim"',
}
# What is checked at once: functions that are formulas, of those the cheap ones.
QUICK = re.compile(
    r"numpy\.(logaddexp|power|logsumexp)$|"
    r"stats\.(softplus|sigmoid|log_sigmoid|logaddexp|normal_logcdf|cauchy_logpdf|softmax)$"
)


def failures(cases: Sequence[Any], types: Sequence[str], backend: str) -> list[str]:
    """What is wrong with these functions, compiled as one program."""
    todo = [(c, t) for c in cases for t in types if t in c.types]
    numbers = [c.name.split(".")[1] for c, _ in todo if isinstance(c, oracle.Case)]
    arrays = [c.name.split(".")[1] for c, _ in todo if not isinstance(c, oracle.Case)]
    source = [*oracle_numpy.head(numbers, types), *oracle_array_table.head(arrays, types)]
    for k, (c, t) in enumerate(todo):
        source.append((oracle if isinstance(c, oracle.Case) else oracle_arrays).entry(c, t, f"e{k}"))
    text = "\n".join(source)
    imports = [f"module {name} = {what}" for name, what in MODULES.items() if name.split("_")[0] in text]
    program = futad.compile("\n".join([*imports, text]), "oracle", backend=backend)
    return [
        x
        for k, (c, t) in enumerate(todo)
        for x in (oracle if isinstance(c, oracle.Case) else oracle_arrays).run(c, t, program.entries, f"e{k}")
    ]


def test_formulas():
    assert failures([c for c in [*NUMBERS, *ARRAYS] if QUICK.match(c.name)], ["f64"], "interp") == []


PARTS = 40


@pytest.mark.slow(apart=True)
@pytest.mark.parametrize("backend", ["interp", "c", "multicore", "emulated"])
@pytest.mark.parametrize("part", range(PARTS))
@needs_cc
def test_every_function(part, backend):
    cases = [*NUMBERS, *ARRAYS][part::PARTS]
    if backend == "emulated":  # a build of a case takes seconds there
        cases = cases[::4]
    assert failures(cases, ["f64", "f32"] if backend in ("interp", "c") else ["f64"], backend) == []


def public() -> set[str]:
    """The names of all public functions, with their file."""
    names = {f"numpy.{n}" for n, f in vars(fnp).items() if isinstance(f, FunctionType) and not n.startswith("_")}
    for file in HERE.glob("*.fut"):
        names |= {f"{file.stem}.{n}" for n in re.findall(r"^ *def ([\w']+)", file.read_text(), re.M)}
    prelude = (HERE.parent / "source" / "prelude.fut").read_text()
    return names | {f"prelude.{n.strip('()')}" for n in re.findall(r"^(?:val|def) ([^\s:]+)", prelude, re.M)}


def test_every_public_function_has_an_oracle():
    told = {c.name.split(" ")[0] for c in [*NUMBERS, *ARRAYS]} | set(ALSO)
    assert set(ALSO.values()) <= {c.name for c in ARRAYS}
    for folder, tables in ELSEWHERE.items():
        for files, names in tables.items():
            found = [p for f in files.split() for p in ([ROOT / f] if "." in f else (ROOT / f).rglob("*.*"))]
            text = "\n".join([p.read_text() for p in found if p.suffix in (".py", ".fut")])
            for name in names.split():
                pattern = rf"(?<![\w']){re.escape(name)}(?![\w'])" if re.match(r"\w", name) else re.escape(name)
                assert re.search(pattern, text), f"{name} is not in {files}"
                assert f"{folder}.{name}" not in told, f"{folder}.{name} is told twice"
                told.add(f"{folder}.{name}")
    for folder, names in SAME.items():
        for name, other in names.items():
            assert f"{folder}.{other}" in told and getattr(fnp, name) is getattr(fnp, other)
            told.add(f"{folder}.{name}")
    told |= {f"prelude.{n}" for n in ("map",)}
    assert public() <= told, sorted(public() - told)
    others = {n for n in told - public() if not n.startswith("prelude.")}  # those of numeric modules are no names of it
    assert not others, sorted(others)
