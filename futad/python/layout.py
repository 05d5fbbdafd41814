"""Documents: text that breaks into lines where a line is too short for it.

The algorithm is Wadler's ("A prettier printer", 2003) in the strict form of Lindig ("Strictly pretty", 2000).
"""

from __future__ import annotations

from dataclasses import dataclass

WIDTH = 100


@dataclass(frozen=True, slots=True)
class Line:
    """A space, or the end of a line; `hard` is always the latter."""

    hard: bool = False


@dataclass(frozen=True, slots=True)
class Soft:
    """Nothing, or the end of a line."""


@dataclass(frozen=True, slots=True)
class Nest:
    """What follows line ends inside is indented."""

    by: int
    doc: Doc


@dataclass(frozen=True, slots=True)
class Align:
    """What follows line ends inside begins in the column where this does."""

    doc: Doc


@dataclass(frozen=True, slots=True)
class Group:
    """On one line if that is long enough."""

    doc: Doc


@dataclass(frozen=True, slots=True)
class Mark:
    """The line of text where this stands came from the place."""

    place: object


Doc = str | Line | Soft | Nest | Align | Group | Mark | tuple["Doc", ...]

# A document, and how tightly its outermost operator binds.
Written = tuple[Doc, int]
LET, OR, AND, COMPARE, BITS, SHIFT, SUM, PRODUCT, POWER, APPLY, ATOM = range(11)

SPACE = Line()
HARD = Line(hard=True)


def join(docs: list[Doc], between: Doc) -> Doc:
    """The documents with another one between."""
    out: list[Doc] = []
    for i, d in enumerate(docs):
        out += [between, d] if i else [d]
    return tuple(out)


def application(head: str, args: list[Doc]) -> Doc:
    """A function applied to atoms."""
    return Group((head, Nest(2, tuple([x for a in args for x in (SPACE, a)]))))


def enclosed(docs: list[Doc], left: str = "(", right: str = ")") -> Doc:
    """`(a, b, c)`."""
    return Group((left, Align(join(docs, (",", SPACE))), right))


def show(doc: Doc, width: int = WIDTH) -> tuple[str, dict[int, object]]:
    """The text, and the places of its lines, which count from 1."""
    out: list[str] = []
    places: dict[int, object] = {}
    column, line = 0, 1
    todo: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while todo:
        indent, flat, d = todo.pop()
        if isinstance(d, str):
            out.append(d)
            column += len(d)
        elif isinstance(d, tuple):
            todo += [(indent, flat, x) for x in reversed(d)]
        elif isinstance(d, Nest):
            todo.append((indent + d.by, flat, d.doc))
        elif isinstance(d, Align):
            todo.append((column, flat, d.doc))
        elif isinstance(d, Mark):
            if d.place is not None:
                places.setdefault(line, d.place)
        elif isinstance(d, Group):
            todo.append((indent, flat or _fits(width - column, d.doc), d.doc))
        elif flat and not (isinstance(d, Line) and d.hard):
            out.append(" " if isinstance(d, Line) else "")
            column += isinstance(d, Line)
        else:
            out.append("\n" + " " * indent)
            column, line = indent, line + 1
    lines = "".join(out).split("\n")
    return "\n".join([x.rstrip() for x in lines]), places


def _fits(room: int, doc: Doc) -> bool:
    """Whether the document has room on one line."""
    todo: list[Doc] = [doc]
    while todo and room >= 0:
        d = todo.pop()
        if isinstance(d, str):
            room -= len(d)
        elif isinstance(d, tuple):
            todo += reversed(d)
        elif isinstance(d, Nest | Align | Group):
            todo.append(d.doc)
        elif isinstance(d, Line):
            if d.hard:
                return False
            room -= 1
    return room >= 0


__all__ = [
    "AND", "APPLY", "ATOM", "BITS", "COMPARE", "HARD", "LET", "OR", "POWER", "PRODUCT", "SHIFT", "SPACE", "SUM",
    "WIDTH", "Align", "Doc", "Group", "Line", "Mark", "Nest", "Soft", "Written", "application", "enclosed", "join",
    "show",
]  # fmt: skip
