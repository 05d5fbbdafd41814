"""Values and gradients of recurrences in layers and of dynamic programs, on all backends, against dual numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.runtime import cc
from tests.support.duals import gradient
from tests.support.needs import has_cxx
from tests.support.recurrence_forms import DYNAMIC, HEAD, LAYERED, Form

BACKENDS = ["interp", "c", "multicore", "emulated"]
NEAR = 1e-10
_compiled: dict[tuple[str, str], Any] = {}


def compiled(which: str, forms: list[Form], backend: str) -> Any:
    if backend != "interp" and not cc.compiler_available() or backend == "emulated" and not has_cxx():
        pytest.skip("no compiler")
    if (which, backend) not in _compiled:
        text = HEAD + "".join(f.source() for f in forms)
        _compiled[which, backend] = futad.compile(text, f"{which}.fut", backend=backend)
    return _compiled[which, backend]


def check(program: Any, form: Form, sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(len(form.name) + sum(sizes.values()))
    args = [rng.normal(size=s)[()] * 0.9 for s in form.shapes(tuple(s for _, s in form.params), sizes)]
    seeds = [rng.normal(size=s)[()] for s in form.shapes(form.results, sizes)]
    values, parts = gradient(form.python, args, seeds)
    got = program[f"{form.name}_value"](*args)
    for g, w in zip(got if len(values) > 1 else [got], values, strict=True):
        np.testing.assert_allclose(g, w, rtol=NEAR, atol=NEAR)
    got = program[f"{form.name}_grad"](*args, *seeds)
    for g, w in zip(got if len(parts) > 1 else [got], parts, strict=True):
        np.testing.assert_allclose(g, w, rtol=NEAR, atol=NEAR)


@pytest.mark.slow(apart=True)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", LAYERED, ids=lambda f: f.name)
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_layers(layers: int, form: Form, backend: str) -> None:
    program = compiled("layered", LAYERED, backend)
    check(program, form, {"l": layers, "d": 3, "n": 4})
    check(program, form, {"l": layers, "d": 1, "n": 1})


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", DYNAMIC, ids=lambda f: f.name)
def test_dynamic_programs(form: Form, backend: str) -> None:
    program = compiled("dynamic", DYNAMIC, backend)
    for n, m in ((5, 4), (3, 6), (2, 3)):
        check(program, form, {"n": n, "m": m})


def test_there_are_twenty_dynamic_programs() -> None:
    assert len({f.body for f in DYNAMIC}) >= 20
