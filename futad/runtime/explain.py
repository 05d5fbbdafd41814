"""The text that says what loops kept, of what a program measured (`core/measures.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from futad.core.measures import MEMORY, WRITTEN, Facts, Measured, real_of
from futad.runtime.arena import bytes_text

NOTHING = "no loop of the last calls was reversed under a budget (memory, checkpoints, reruns: see docs/memory.md)"
WAYS = {"rerun": "run again from states", "undone": "undone iteration by iteration", "kept": "every iteration kept"}


def explained(measured: Iterable[Measured]) -> str:
    """A few lines a loop, in the order in which they were first told, and the memory of a program besides: of its
    results too, once nobody has them."""
    lines: list[str] = []
    reserved = held = 0
    for m in measured:
        if {MEMORY, WRITTEN} & m.most.keys():
            others = m.most[WRITTEN] - held if WRITTEN in m.most else m.most[MEMORY] - reserved
            lines.append(f"other temporaries {bytes_text(max(0, others))}")
            reserved = held = 0
        else:
            lines.append(_loop(m))
            held += m.most.get("held", 0)
            reserved += m.most.get("predicted", m.most.get("budget", m.most.get("held", 0)))
    return "\n".join(lines) or NOTHING


def first_line(facts: Facts, state: int | None = None, fixed: bool = True, way: str | None = None) -> str:
    """What is known without a call: the place, what was done with it (`way`, if a call said), and what a state is, with
    the bytes of the largest if that is known, or of all if they are `fixed`."""
    known = dict(facts) | ({} if way is None else {"way": way})
    place, inverse = known.get("loop"), known.get("inverse")
    text = f"{place.file}:{place.line} " if place is not None else ""
    text += f"{known.get('what') or 'loop'}: {WAYS.get(str(known.get('way')), known.get('way') or 'kept')}"
    size = "" if state is None else f"{'' if fixed else ' at most'} {bytes_text(state)}"
    names = f" ({known['state']})" if known.get("state") else ""
    text += f"; state{size}{names}" if size or names else ""
    return text + (f"; inverse: {inverse}" if inverse else "")


def _loop(m: Measured) -> str:
    """The lines of one loop: its facts, how often its iterations ran, and the memory."""
    whole = "block" in m.most and m.sums["runs"] == m.sums["iterations"]
    state = None if whole else m.most.get("state")
    first = first_line(m.facts, state, "states" in m.most, "kept" if whole else None)
    lines = [first, _iterations(m), _memory(m.most), _deviation(m.most)]
    return "\n  ".join([line for line in lines if line])


def _iterations(m: Measured) -> str:
    parts = []
    iterations = m.sums.get("iterations")
    if iterations is not None:
        loops = "" if m.times == 1 else f" in {m.times:,} runs of the loop"
        blocks = f" in blocks of {m.most['block']:,}" if "block" in m.most and m.most["states"] else ""
        parts.append(f"{iterations:,} iterations{loops}{blocks}")
    if "states" in m.most:
        budget = f" {bytes_text(m.most['budget'])}" if "budget" in m.most else ""
        parts.append(f"{m.most['states']:,} states fit{budget}" if m.most["states"] else f"all of which fit{budget}")
    if "points" in m.most:
        parts.append(f"{m.most['points']:,} states compared")
    if "whole" in m.most:
        parts.append(f"lost bits of each kept, {m.most['whole']:,} values whole")
    text = ", ".join(parts)
    if "states" not in m.most and "budget" in m.most:
        text += f"; states share {bytes_text(m.most['budget'])}"
    if iterations and "runs" in m.sums:
        runs = m.sums.get("least")
        if runs is None and m.times == 1 and "states" in m.most and "block" not in m.most:
            runs = least_runs(iterations + 1, m.most["states"])
        least = "" if runs is None else f" (least possible: {runs / iterations:.1f})"
        text += f"{'; ' if text else ''}each iteration run {m.sums['runs'] / iterations:.1f} times{least}"
    return text


def least_runs(n: int, states: int) -> int:
    """How often iterations are run at least to reverse n of them with so many states, the first one among them:
    t n - C(states + t, t - 1), with the least t for which C(states + t, t) >= n.  A loop whose forward sweep goes to
    the end reverses one more than it has, as that needs the loop's results.  Source: Griewank and Walther, ACM TOMS
    26(1), 2000."""
    if states == 1:
        return n * (n - 1) // 2
    t, reach = 0, 1
    while reach < n:
        t += 1
        reach = reach * (states + t) // t
    return t * n - math.comb(states + t, t - 1) if t else 0


def _memory(most: Mapping[str, int]) -> str:
    parts = [f"{name} {bytes_text(most[name])}" for name in ("predicted", "held") if name in most]
    text = ", ".join(parts)
    if "without" in most:
        text += f"{'; ' if text else ''}without a budget {bytes_text(most['without'])} would be kept"
    return text


def _deviation(most: Mapping[str, int]) -> str:
    if "deviation" not in most:
        return ""
    allowed = f" (allowed {real_of(most['allowed']):.2g})" if "allowed" in most else ""
    return f"came back within {real_of(most['deviation']):.2g} of where it began{allowed}"


__all__ = ["explained", "first_line", "least_runs"]
