"""What is too large to be looked at: types, sizes, functions and modules that double, or are nested, without end.

A type that has itself twice in each of forty steps has 2^40 parts.  Walks over types, sizes and modules take time in
proportion to the parts, so what is made is measured, and refused where it has more than any program needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.errors import Span, UnsupportedError
from futad.source import ast as A
from futad.source.types import (
    Size,
    SizeExp,
    SizeVar,
    SType,
    TArray,
    TFun,
    TMeta,
    TParam,
    TPrim,
    TRecord,
    TSum,
    resolve,
    resolve_size,
)

if TYPE_CHECKING:
    from futad.source.check import Checker

CODE = "E0803"
MOST_PARTS = 1 << 16  # of a type
MOST_DIMENSIONS = 64  # of NumPy's arrays
MOST_LEVELS = 1000  # of types inside each other
MOST_FUNCTIONS = 256  # inside each other
MOST_MODULES = 64  # parametric ones inside each other, parameters of one included
MOST_ELABORATED = 1 << 17  # applications of modules, and members of module types
MOST_TERMS = 200  # of a size that is written
MOST_SIZE = 1000  # names and numbers in a size that calls made; a larger one is not known
MOST_CASES = 100_000  # steps of finding out whether cases cover every value

_EACH = 16  # for so many objects in a type, the type of one more expression is not measured
_MOST_PAUSE = 64  # expressions, in which a type does not double too often


class _TooLarge(Exception):
    pass


class Limits:
    """What a checker has measured."""

    def __init__(self) -> None:
        self.pause = 0  # expressions until the next one's type is measured
        self.elaborated = 0
        self.refused: UnsupportedError | None = None  # what is said once of all modules

    def type(self, t: SType | None, span: Span) -> None:
        """Require that an expression's type is not too large; types that are costly to measure are measured seldom."""
        if type(t) is TPrim or t is None:
            return
        if self.pause > 0:
            self.pause -= 1
        else:
            self.made(t, span)

    def made(self, t: SType, span: Span) -> None:
        """Require that a type that is applied to others is not too large."""
        if type(t) is TPrim:
            return
        known: dict[int, int] = {}
        try:
            parts = _parts(t, known, 0)
        except _TooLarge:
            said = f"a type of more than {MOST_LEVELS} levels"
            raise UnsupportedError(said, span, hint="hold what it has in arrays", code=CODE) from None
        self.pause = min(len(known) // _EACH, _MOST_PAUSE)
        if parts > MOST_PARTS:
            said = f"a type of more than {MOST_PARTS} parts"
            raise UnsupportedError(said, span, hint="hold what it has in arrays", code=CODE)

    def module(self, span: Span, times: int = 1) -> None:
        """Require that modules are not made without end."""
        self.elaborated += times
        if self.elaborated > MOST_ELABORATED:
            said = "the modules of this program are too large"
            self.refused = self.refused or UnsupportedError(said, span, code=CODE)
            raise self.refused


def _parts(t: SType, known: dict[int, int], level: int) -> int:
    """How many types a type has inside, written out; each object is looked at once."""
    t = resolve(t)
    if type(t) is TPrim or type(t) is TParam:
        return 1
    found = known.get(id(t))
    if found is not None:
        return found
    if level > MOST_LEVELS:
        raise _TooLarge
    known[id(t)] = 1  # of a meta that is not solved, and of what an infinite type has again
    total = 1
    if type(t) is TArray:
        total += _parts(t.elem, known, level + 1)
    elif type(t) is TRecord:
        for _, f in t.fields:
            total += _parts(f, known, level + 1)
    elif type(t) is TFun:
        total += _parts(t.param, known, level + 1) + _parts(t.result, known, level + 1)
    elif type(t) is TSum:
        for _, args in t.constrs:
            for a in args:
                total += _parts(a, known, level + 1)
    elif type(t) is TMeta and t.fields:
        for f in t.fields.values():
            total += _parts(f, known, level + 1)
    known[id(t)] = total
    return total


def dimensions(elem: SType, span: Span) -> None:
    """Require that arrays of such elements do not have too many dimensions."""
    rank, t = 1, resolve(elem)
    while type(t) is TArray and rank <= MOST_DIMENSIONS:
        rank, t = rank + 1, resolve(t.elem)
    if rank > MOST_DIMENSIONS:
        raise UnsupportedError(f"an array of more than {MOST_DIMENSIONS} dimensions", span)


def parameters(number: int, span: Span) -> None:
    """Require that a function has not too many parameters."""
    if number > MOST_LEVELS:
        raise UnsupportedError(f"a function of more than {MOST_LEVELS} parameters", span, code=CODE)


def functions(ck: Checker, span: Span) -> None:
    """Require that functions are not nested too deeply: types inside see all of them."""
    if ck.level > 2 * MOST_FUNCTIONS:
        raise UnsupportedError(f"more than {MOST_FUNCTIONS} functions inside each other", span, code=CODE)


def written(e: A.Expr) -> bool:
    """Whether a size that is written has few enough terms to be compared with others."""
    stack, terms = [e], 0
    while stack and terms <= MOST_TERMS:
        x = stack.pop()
        terms += 1
        if type(x) is A.EApp:
            stack += [x.fun, x.arg]
    return terms <= MOST_TERMS


def large(s: Size) -> bool:
    """Whether a size that calls made has more names and numbers than are compared with others."""
    stack, terms = [s], 0
    while stack and terms <= MOST_SIZE:
        x = resolve_size(stack.pop())
        terms += 1
        if type(x) is SizeExp:
            stack += x.args
    return terms > MOST_SIZE


OF_CALL = "the size of this call's result"


def small_sizes(ck: Checker, node: A.EApp, t: SType) -> SType:
    """A call's type in which a size that is large, such as that of `xs ++ xs` done twenty times, is not known."""
    if type(t) is not TArray:
        return t
    elem, size = small_sizes(ck, node, t.elem), t.size
    if large(size):
        b = ck.skolem("n", node.span, OF_CALL)
        node.new_sizes = (*node.new_sizes, b)
        size = SizeVar(b)
    return t if elem is t.elem and size is t.size else TArray(size, elem)


__all__ = [
    "CODE", "MOST_CASES", "MOST_MODULES", "MOST_TERMS", "OF_CALL", "Limits", "dimensions", "functions", "parameters",
    "small_sizes", "written",
]  # fmt: skip
