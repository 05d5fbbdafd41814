"""Pictures of functions: the dataflow of the core IR after any pass; and of a program's calls.

`figure.py` decides what is drawn (a box for each statement, nested scopes as boxes around boxes; `calls.py`: one for
each function), `layout.py` where, `svg.py` how.  networkx is imported here alone: that takes longer than most programs
take to compile.
"""

from __future__ import annotations

import json
from typing import Any

from futad.core.ir import Fun, Program
from futad.draw.calls import LEGEND, calls_figure
from futad.draw.figure import Box, figure
from futad.draw.layout import placed
from futad.draw.svg import document


def picture(fun: Fun, title: str) -> str:
    """The function's dataflow as an SVG document; the same text whenever the function is the same."""
    return document(placed(figure(fun)), title)


def described(fun: Fun) -> str:
    """The boxes of the picture as JSON, those inside a box nested in it."""
    return _described(figure(fun))


def calls_picture(program: Program, title: str) -> str:
    """Which functions of a program call which, as an SVG document."""
    return document(placed(calls_figure(program)), title, LEGEND)


def calls_described(program: Program) -> str:
    """The boxes of that picture as JSON."""
    return _described(calls_figure(program))


def _described(box: Box) -> str:
    return json.dumps(_box(box), indent=1, ensure_ascii=False) + "\n"


def _box(box: Box) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": box.kind, "text": box.lines or [box.title], "binds": box.binds, "sweep": box.sweep}
    out |= {"in": [p.label for p in box.ins], "out": [p.label for p in box.outs], "note": box.note}
    return out | ({"inside": [_box(b) for b in box.inside]} if box.inside else {})


__all__ = ["calls_described", "calls_picture", "described", "picture"]
