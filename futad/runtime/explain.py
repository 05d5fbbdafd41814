"""The text that says what loops kept, of what a program measured (`core/measures.py`)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from futad.core.measures import Facts, Measured
from futad.runtime.arena import bytes_text

NOTHING = "no loop of the last calls was reversed under a budget (memory, checkpoints, reruns: see docs/memory.md)"
WAYS = {"rerun": "run again from states", "undone": "undone iteration by iteration", "kept": "every iteration kept"}


def explained(measured: Iterable[Measured]) -> str:
    """A few lines a loop, in the order in which they were first told."""
    return "\n".join([_loop(m) for m in measured]) or NOTHING


def first_line(facts: Facts, state: int | None = None) -> str:
    """What is known without a call: the place, what was done with it, and what a state is."""
    known = dict(facts)
    place, inverse = known.get("loop"), known.get("inverse")
    text = f"{place.file}:{place.line} " if place is not None else ""
    text += f"{known.get('what') or 'loop'}: {WAYS.get(str(known.get('way')), known.get('way') or 'kept')}"
    size = "" if state is None else f" {bytes_text(state)}"
    names = f" ({known['state']})" if known.get("state") else ""
    text += f"; state{size}{names}" if size or names else ""
    return text + (f"; inverse: {inverse}" if inverse else "")


def _loop(m: Measured) -> str:
    """The lines of one loop: its facts, how often its iterations ran, and the memory."""
    lines = [first_line(m.facts, m.most.get("state")), _iterations(m), _memory(m.most), _deviation(m.most)]
    return "\n  ".join([line for line in lines if line])


def _iterations(m: Measured) -> str:
    parts = []
    iterations = m.sums.get("iterations")
    if iterations is not None:
        loops = "" if m.times == 1 else f" in {m.times:,} runs of the loop"
        parts.append(f"{iterations:,} iterations{loops}")
    if "states" in m.most:
        budget = f" {bytes_text(m.most['budget'])}" if "budget" in m.most else ""
        parts.append(f"{m.most['states']:,} states fit{budget}")
    text = ", ".join(parts)
    if iterations and "runs" in m.sums:
        least = f" (least possible: {m.sums['least'] / iterations:.1f})" if "least" in m.sums else ""
        text += f"{'; ' if text else ''}each iteration run {m.sums['runs'] / iterations:.1f} times{least}"
    return text


def _memory(most: Mapping[str, int]) -> str:
    parts = [f"{name} {bytes_text(most[name])}" for name in ("predicted", "held") if name in most]
    text = ", ".join(parts)
    if "without" in most:
        text += f"{'; ' if text else ''}without a budget {bytes_text(most['without'])} would be kept"
    return text


def _deviation(most: Mapping[str, int]) -> str:
    if "deviation" not in most:
        return ""
    allowed = f" (allowed {_real(most['allowed']):.2g})" if "allowed" in most else ""
    return f"came back within {_real(most['deviation']):.2g} of where it began{allowed}"


def _real(bits: int) -> float:
    """The f64 of these bits."""
    value: Any = struct.unpack("<d", struct.pack("<q", bits))[0]
    return float(value)


__all__ = ["explained", "first_line"]
