"""What reverse mode may keep of loops between its two sweeps.

A budget is an attribute of the statement that it is for, ("checkpoint", (name, value), ...): of a derivative, for all
of its loops, or of a loop.  So it is printed, parsed and part of a program's key like everything else of a program.

`budget_of` makes one of what users say, in Python, on the command line and in attributes of the language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import index
from typing import Any, Literal, TypedDict

from futad.core import ir
from futad.errors import Span, UsageError

ATTRIBUTE = "checkpoint"
PLACE = "place"  # the attribute of a loop that says where it stands in the source
MERGED = "merged"  # that of a loop which several are: how many
UNITS = {
    "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
ENGINES = ("transform", "dual")
METHODS = ("binomial", "bisection")
LIMITS = ("memory", "checkpoints", "reruns")
MOST = (1 << 63) - 1
_AMOUNT = re.compile(r"\s*(\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)\s*\Z")


class Options(TypedDict, total=False):
    """What users say of how derivatives are taken and what reverse mode may keep; see `chosen` and `budget_of`."""

    memory: int | str | None
    checkpoints: int | Literal["log"] | None
    reruns: int | None
    method: Literal["transform", "dual", "binomial", "bisection"] | None
    reversible: bool | float | Literal["exact"] | None


@dataclass(frozen=True, slots=True)
class Budget:
    """At most one of `memory`, `checkpoints` and `reruns` is given.

    `memory`: bytes that a loop keeps.  `checkpoints`: states that it keeps beside the first one; "log": as many as
    times that an iteration is run again.  `reruns`: how often an iteration may be run.  `method`: where a stretch
    between two states is split: where the fewest reruns follow, or in the middle.  `reversible`: whether iterations may
    be undone; with round-off up to a tolerance (True: 1e-8, 1e-3 for f32), or exactly by the bits that are lost; None
    leaves it to the compiler.  `nest`: whether loops inside one another, or one after the other, are split as one.
    """

    memory: int | None = None
    checkpoints: int | Literal["log"] | None = None
    reruns: int | None = None
    method: Literal["binomial", "bisection"] = "binomial"
    reversible: bool | float | Literal["exact"] | None = None
    nest: bool = True

    @property
    def limits(self) -> bool:
        """Whether it says how much may be kept."""
        return not (self.memory is None and self.checkpoints is None and self.reruns is None)

    @property
    def only_reversible(self) -> bool:
        """Whether it says nothing but how iterations may be undone."""
        return self.reversible is not None and self == Budget(reversible=self.reversible)

    def attribute(self) -> tuple[Any, ...]:
        """As an attribute of a statement, of values that text has."""
        given = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return (ATTRIBUTE, *given)

    @staticmethod
    def of(attrs: Sequence[Any]) -> Budget | None:
        """The budget among a statement's attributes."""
        found = next((a for a in attrs if isinstance(a, tuple) and a[0] == ATTRIBUTE), None)
        return None if found is None else Budget(**dict(found[1:]))


def place_of(attrs: Sequence[Any]) -> Span | None:
    """Where the source has the loop of a statement with these attributes, if that is known."""
    return next((a[1] for a in attrs if isinstance(a, tuple) and a[0] == PLACE), None)


def place_among(stms: Iterable[ir.Stm]) -> Span | None:
    """The first place in the source that statements know; code that a derivative has made knows those of what it is
    made of."""
    for s in stms:
        e = s.exp
        found = e.check if isinstance(e, ir.At | ir.Update) else e.place if isinstance(e, ir.Op | ir.Assert) else None
        found = found or next((p for lam in e.lambdas() if (p := place_among(lam.stms)) is not None), None)
        if found is not None:
            return found
    return None


def placed(stm: ir.Stm) -> tuple[Any, ...]:
    """The attributes of a loop's statement, with a place where one is known of it or of what is in it."""
    attrs = stm.attrs
    found = None if place_of(attrs) is not None else place_among((stm,))
    return attrs if found is None else (*attrs, (PLACE, found))


def merged(attrs: Sequence[Any]) -> int:
    """How many loops the one of a statement with these attributes is."""
    return next((int(a[1]) for a in attrs if isinstance(a, tuple) and a[0] == MERGED), 1)


def budgeted(program: ir.Program, budget: Budget | None) -> ir.Program:
    """The program with that budget for the reverse-mode derivatives in it that have none of their own."""
    if budget is None:
        return program
    attribute = budget.attribute()

    def scope(lam: ir.Lambda) -> ir.Lambda:
        stms = tuple([given(ir.map_scopes(s, scope)) for s in lam.stms])
        same = all(a is b for a, b in zip(stms, lam.stms, strict=True))
        return lam if same else ir.Lambda(lam.params, stms, lam.result)

    def given(s: ir.Stm) -> ir.Stm:
        if not isinstance(s.exp, ir.Vjp) or Budget.of(s.attrs) is not None:
            return s
        return ir.Stm(s.pat, s.exp, (*s.attrs, attribute))

    return ir.map_bodies(program, scope)


def amount(x: Any, name: str = "memory") -> int:
    """Bytes: a number, or a text such as "64MB", "4 MiB", "512kB" or "1e6".  `kB MB GB TB` are powers of 1000, `KiB MiB
    GiB TiB` of 1024.  Raises UsageError that says what is wrong, calling it `name`."""
    if not isinstance(x, str):
        return _whole(x, name, 0, 'bytes, or a text such as "64MB"')
    found = _AMOUNT.match(x)
    units = ", ".join(UNITS)
    if found is None:
        if re.match(r"\s*-", x):
            raise UsageError(f"{name} must not be negative: {x!r}")
        raise UsageError(f"{name}: {x!r} is no amount of memory", hint=f"a number of bytes, or with a unit: {units}")
    number, unit = found[1].replace("_", ""), found[2] or "B"
    if unit not in UNITS:
        near = [u for u in UNITS if u.lower() in (unit.lower(), f"{unit}b".lower())]
        meant = f"did you mean '{near[0]}'?" if near else f"there are: {units}"
        raise UsageError(f"{name}: no unit is called '{unit}'", hint=meant)
    if float(number) * UNITS[unit] > MOST:
        raise UsageError(f"{name}: {x.strip()} is more than an address space")
    digits = float(number) if re.search("[.eE]", number) else int(number)
    total = digits * UNITS[unit]
    if total != round(total):
        raise UsageError(f"{name}: {x.strip()} is no whole number of bytes")
    return round(total)


def budget_of(
    *,
    memory: Any = None,
    checkpoints: Any = None,
    reruns: Any = None,
    method: Any = None,
    reversible: Any = None,
    nest: bool = True,
) -> Budget | None:
    """The budget that options say, None if they say nothing.  With `method` alone, or without `nest`, as many states
    are kept as times that an iteration is run again ("log").  Raises UsageError for what is wrong or contradicts
    itself."""
    given = [name for name, x in zip(LIMITS, (memory, checkpoints, reruns), strict=True) if x is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} limit the same thing", hint="give one of them")
    if not given and method is None and reversible is None and nest:
        return None
    if method is not None and method not in METHODS:
        raise UsageError(f"method must be {' or '.join(map(repr, METHODS))}, not {method!r}")
    states: int | Literal["log"] | None = None
    if checkpoints is not None:
        log = isinstance(checkpoints, str) and checkpoints == "log"
        states = "log" if log else _whole(checkpoints, "checkpoints", 0, "states, or 'log'")
    if not given and (method is not None or not nest):
        states = "log"
    return Budget(
        None if memory is None else amount(memory),
        states,
        None if reruns is None else _whole(reruns, "reruns", 1, "times"),
        method or "binomial",
        _reversible(reversible),
        nest,
    )


def chosen(**options: Any) -> tuple[str, Budget | None]:
    """How derivatives are taken, one of `ENGINES` or "" where nothing is said, and the budget.  `method` says either
    that, or how loops are split, which is for derivatives by transformation.  Raises UsageError as `budget_of` does,
    and for a budget beside "dual"."""
    method = options.get("method")
    if method is not None and method not in (*ENGINES, *METHODS):
        raise UsageError(
            f"method must be 'transform' or 'dual' (how derivatives are taken), 'binomial' or 'bisection' (how loops "
            f"are split that keep less), not {method!r}"
        )
    if method not in ENGINES:
        return "", budget_of(**options)
    others = [name for name, x in options.items() if name != "method" and x is not None]
    if method == "dual" and others:
        raise UsageError(
            f"method='dual' keeps every backpropagator; {others[0]} is for derivatives by transformation",
            hint=f"leave out {' and '.join(others)}, or the method",
        )
    return method, budget_of(**{**options, "method": None})


def _whole(x: Any, name: str, least: int, of: str) -> int:
    """A whole number from `least` on."""
    try:
        n = int(x) if isinstance(x, float) and x == int(x) else index(x)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{name} must be a number of {of}, not {x!r}") from None
    if isinstance(x, bool):
        raise UsageError(f"{name} must be a number of {of}, not {x!r}")
    if n < least:
        raise UsageError(f"{name} must {'not be negative' if least == 0 else f'be at least {least}'}: {n}")
    if n > MOST:
        raise UsageError(f"{name}: {n} does not fit in 64 bits")
    return n


def _reversible(x: Any) -> bool | float | Literal["exact"] | None:
    if x is None or x is True or x is False:
        return x
    if isinstance(x, str) and x == "exact":
        return "exact"
    if not isinstance(x, float) or not x > 0:
        raise UsageError(f"reversible must be True, False, 'exact' or a tolerance above 0, not {x!r}")
    return float(x)


def reversible_of(text: str) -> Any:
    """The value of `reversible` as text has it: on, off, exact, or a tolerance."""
    words = {"on": True, "true": True, "off": False, "false": False, "exact": "exact"}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"reversible must be on, off, exact or a tolerance above 0, not '{text}'") from None


__all__ = [
    "ATTRIBUTE", "ENGINES", "MERGED", "METHODS", "PLACE", "UNITS", "Budget", "Options", "amount", "budget_of",
    "budgeted", "chosen", "merged", "place_among", "place_of", "placed", "reversible_of",
]  # fmt: skip
