"""What checked execution of memory found, in words (docs/checking.md; `kernels/check_memory.h` finds it)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from futad.bindings import Binding, Loop
from futad.errors import CheckFailure, Span

BITS = 20  # of an entry, for the number of a binding
UNWRITTEN, FREED = 1 << 63, 1 << 62
READ, WRITE, MADE, RACE = range(4)


def shown(number: int, bindings: Sequence[Binding], loops: Sequence[Loop], iteration_of: Callable[[int], int]) -> str:
    """A binding with the iterations of the loops around it; `iteration_of(loop)` is -1 if that is not known."""
    if not 0 < number < len(bindings):
        return "a value of its own"
    b = bindings[number]
    loop = b.loop
    iterations: list[str] = []
    while loop:
        iteration = iteration_of(loop)
        iterations.insert(0, "?" if iteration < 0 else str(iteration))
        loop = loops[loop].outer
    return f"'{b.name}' ({b.what}{f', {b.span}' if b.span else ''})" + (
        f" in iteration {', '.join(iterations)}" if iterations else ""
    )


def report(kind: str, here: str, there: str, element: int, span: Span | None) -> CheckFailure:
    """The error of a finding: what `here` reads, writes or is said to have, and who had the memory before (`there`)."""
    at = f"element {element} of its memory" if element >= 0 else "an element"
    texts = {
        "foreign read": f"foreign memory: {here} reads where no array is",
        "foreign write": f"foreign memory: {here} writes where no array is",
        "freed": f"stale memory: {here} reads what {there} has given back",
        "uninitialised": f"uninitialised memory: {here} reads {at}, memory for {there} that nobody has written",
        "overwritten": f"overwritten memory: {at}, read as {here}, was last written by {there}",
        "stale": f"stale memory: {here} is said to be there, but {at} was last written by {there}, before it began",
        "race": f"race: {here} needs {at}, which another piece of the same parallel nest wrote, as {there}",
    }
    hint = "this is a defect of futad; please report it with the program (FUTAD_CHECK=memory)"
    return CheckFailure(texts[kind], span, hint=hint)


def lanes_met(loop: str, first: int, second: int) -> CheckFailure:
    """The error of two iterations of the loop over a variable that are not independent."""
    return CheckFailure(
        f"lanes: iteration {second} of the loop over '{loop}', of iterations said to be independent, needs an element "
        f"that iteration {first} writes, or writes one that it needs",
        hint="this is a defect of futad; please report it with the program (FUTAD_CHECK=lanes)",
    )


def span_of(number: int, bindings: Sequence[Binding]) -> Span | None:
    """About where in the source a binding is."""
    return bindings[number].span if 0 < number < len(bindings) else None


def finding(
    words: Sequence[int], bindings: Sequence[Binding], loops: Sequence[Loop], iteration_at: Callable[[int, int], int]
) -> CheckFailure:
    """The error of a finding of compiled C; `words` are what it is, the reader, the entry, the time of the reader's
    value, and the number of the element in its block.  `iteration_at(loop, time)` is the iteration a loop was in, at
    time 0 the one it is in."""
    what, reader, entry, _, element = words[:5]
    entry &= (1 << 64) - 1
    time = 0 if entry & UNWRITTEN else entry >> BITS << BITS
    here = shown(reader, bindings, loops, lambda loop: iteration_at(loop, 0))
    there = shown(entry & ((1 << BITS) - 1), bindings, loops, lambda loop: iteration_at(loop, time))
    if entry == 0:
        kind = "foreign write" if what == WRITE else "foreign read"
    elif entry & UNWRITTEN:
        kind = "freed" if entry & FREED else "uninitialised"
    elif what == RACE:
        kind = "race"
    else:
        kind = "overwritten" if what == READ else "stale"
    return report(kind, here, there, element, span_of(reader, bindings))


__all__ = ["finding", "lanes_met", "report", "shown", "span_of"]
