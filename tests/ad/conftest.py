"""Fixtures of the tests of derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core import ir
from futad.core.interp import HANDLERS, Interpreter
from futad.pipeline import compile_program
from futad.source import compile_text


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that runs an entry with the interpreter; its result, and how many bytes it made room for."""
    rooms: list[int] = []
    made: dict[str, ir.Program] = {}
    scratch = HANDLERS[ir.Scratch]

    def count(m: Any, e: Any, stm: Any, sc: Any) -> Any:
        out = scratch(m, e, stm, sc)
        rooms.append(np.asarray(out[0]).nbytes)
        return out

    def run(text: str, name: str, *args: Any) -> tuple[Any, int]:
        rooms.clear()
        if text not in made:
            made[text] = compile_program(compile_text(text), check=True)
        return Interpreter(made[text], batched=False).run(name, list(args)), sum(rooms)

    monkeypatch.setitem(HANDLERS, ir.Scratch, count)
    return run
