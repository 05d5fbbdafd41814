"""Variables of a loop: which of them are sizes, and those that count; how many iterations loops in it take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from futad.core.builder import Builder
from futad.core.types import Atom, Const, Prim, Type, Var, shape_of


def varying(some: Sequence[Var], params: Sequence[Var]) -> list[int]:
    """The positions among loop variables of the sizes that `some` of them have."""
    own = {p: q for q, p in enumerate(params)}
    return sorted({own[n] for x in some for n in shape_of(x.type) if isinstance(n, Var) and n in own})


def convert(b: Builder, t: Type, a: Atom) -> Atom:
    assert isinstance(t, Prim)
    return b.convert(t, a)


def counted(start: Atom, step: int) -> Callable[[Builder, Atom, Var], Atom]:
    """A variable that is `start` and goes up by `step`."""

    def begin(b: Builder, iteration: Atom, after: Var) -> Atom:
        assert isinstance(start.type, Prim)
        by = b.convert(start.type, iteration)
        if step != 1:
            unsigned = start.type.kind == "uint"
            by = b.op("mul", by, Const(start.type, step % (1 << start.type.bits) if unsigned else step))
        return by if isinstance(start, Const) and start.value == 0 else b.op("add", start, by)

    return begin


@dataclass(slots=True)
class Counts:
    """How many iterations the `while` loops in a loop's body take in each iteration: by their first results in the copy
    that is executed again, a variable that is to have it; `origins`: these results in the forward sweep.  The arrays
    that hold it, by these variables."""

    origins: dict[Var, Var]
    asked: dict[Var, Var] = field(default_factory=dict)
    arrays: dict[Var, Var] = field(default_factory=dict)


__all__ = ["Counts", "convert", "counted", "varying"]
