"""A module's program (TEXT) on both C backends."""

from __future__ import annotations

from typing import Any

import pytest

from futad.backend.c import CBackend
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.testing.build import c_backend


@pytest.fixture(scope="module")
def core(request: pytest.FixtureRequest) -> Any:
    """After the passes."""
    return compile_program(compile_text(request.module.TEXT, f"{request.module.__name__.rpartition('_')[2]}.fut"))


@pytest.fixture(scope="module", params=["c", "multicore"])
def backend(core: Any, request: pytest.FixtureRequest) -> CBackend:
    """`multicore` shares out even small nests."""
    return c_backend(core, multicore=request.param == "multicore", grain=1)
