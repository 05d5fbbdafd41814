"""Scalars of a kernel as far as they are known without a run: means, what they depend on, and the values in a warp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.core.scalarops import OPS
from futad.core.types import Prim


class _Unknown:
    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()

_INDEX: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "in_bounds": lambda a, b: 0 <= a < b,
    "&&": lambda a, b: a and b,
    "||": lambda a, b: a or b,
}


def index(op: str, a: Any, b: Any) -> Any:
    """Index arithmetic on numbers."""
    return _INDEX[op](a, b)


def evaluate(op: str, arg: Prim, args: Sequence[Any]) -> Any:
    """A scalar operation of the table on numbers."""
    with np.errstate(all="ignore"):
        x = OPS[op].eval(*[np.bool_(a) if isinstance(a, (bool, np.bool_)) else arg.dtype.type(a) for a in args])
    return x.item() if hasattr(x, "item") else x


Lanes = Any  # an array of a warp's values, one number for all, or None where data decide
WARP, SECTOR = 32, 32
LANES = np.arange(WARP, dtype=np.float64)
SOME = 4096.0  # stands for a number that is the same in all threads, but not known


_LONG = 500  # characters of a value's text


@dataclass(slots=True)
class Value:
    """A scalar in a kernel: its mean over the launch if that is known, whether it is the same everywhere, what loops it
    depends on with their iterations, a text that is the same for equal accesses, and the values in one warp; `drawn`:
    those that data decide, at random."""

    mean: float | None
    deps: dict[str, float]
    key: str
    fixed: bool = False
    lanes: Lanes = SOME
    drawn: bool = False

    def __post_init__(self) -> None:
        if len(self.key) > _LONG:  # texts of values that are used twice each would double with every operation
            self.key = f"~{hash(self.key):x}"


def constant(x: Any) -> Value:
    if x is UNKNOWN:
        return Value(None, {}, "?")
    return Value(float(x), {}, f"{float(x):g}", True, float(x))


def uniform(lanes: Lanes) -> bool:
    return lanes is not None and (isinstance(lanes, float) or bool((lanes == lanes[0]).all()))


def warp_lanes(op: str, x: Lanes, y: Lanes) -> Lanes:
    """Index arithmetic on a warp's values."""
    if x is None or y is None:
        return None
    with np.errstate(all="ignore"):
        match op:
            case "+":
                return x + y
            case "-":
                return x - y
            case "*":
                return x * y
            case "/":
                return np.floor_divide(x, y) if np.all(y) else 0.0
            case "%":
                return np.mod(x, y) if np.all(y) else 0.0
            case "<" | "lt":
                return (x < y) + 0.0
            case "<=" | "le":
                return (x <= y) + 0.0
            case "==" | "eq":
                return (x == y) + 0.0
            case "!=" | "ne":
                return (x != y) + 0.0
            case "in_bounds":
                return ((x >= 0) & (x < y)) + 0.0
            case "min":
                return np.minimum(x, y)
            case "max":
                return np.maximum(x, y)
            case "&&":
                return x * y
            case "||":
                return np.maximum(x, y)
    return 0.0 if uniform(x) and uniform(y) else None


def chosen(xs: Sequence[Value]) -> Lanes:
    """What a selection gives a warp: nothing is known if data decide."""
    c, x, y = [v.lanes for v in xs]
    if c is None or x is None or y is None:
        return None
    return np.where(c, x, y) if not uniform(c) else x if np.all(c) else y


WHOLE = {"add": "+", "sub": "-", "mul": "*", "div": "/", "quot": "/", "mod": "%", "rem": "%",
          **{op: op for op in ("lt", "le", "eq", "ne", "min", "max")}}


def neighbours(n: float) -> Lanes:
    """Neighbouring ones of `n` indices, from the middle."""
    return np.minimum(LANES + WARP * (n // (2 * WARP)), max(n - 1, 0.0))


def drawn_lanes(lanes: Lanes) -> Lanes:
    """What a warp loads from such places: one value from each."""
    return lanes if lanes is None else SOME if uniform(lanes) else np.mod(lanes * 1_000_003, 65_521.0) * 64


def any_lanes(xs: Sequence[Value]) -> Lanes:
    return SOME if all(uniform(x.lanes) for x in xs) else None
