"""Expressions of traces: functions of the prelude applied to values, sizes and lambdas; indexing; coercions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.python.layout import APPLY, ATOM, HARD, LET, SPACE, Doc, Group, Nest, Written, application, enclosed
from futad.python.sizes import Size
from futad.python.values import Exp, Scope, Value, identical, is_in, values_in

if TYPE_CHECKING:
    from futad.python.writer import Writer

# A part of an application: text as it stands, a size, a value, or a lambda.
Part = str | Size | Value | Scope


class Call(Exp):
    """A function applied to arguments."""

    def __init__(self, head: str, *args: Part, hint: str = "t", attributes: Sequence[str] = ()) -> None:
        self.head, self.args, self.hint, self.attributes = head, args, hint, tuple(attributes)

    def operands(self) -> Sequence[Value]:
        return [a for a in self.args if isinstance(a, Value)]

    def inner(self) -> Sequence[Value]:
        return values_in(*[a for a in self.args if isinstance(a, Size)])

    def scopes(self) -> Sequence[Scope]:
        return [a for a in self.args if isinstance(a, Scope)]

    def part(self, w: Writer, a: Part) -> Doc:
        """An argument's text."""
        if isinstance(a, str):
            return a
        if isinstance(a, Size):
            return w.size_atom(a)
        return w.function(a) if isinstance(a, Scope) else w.use(a)

    def doc(self, w: Writer) -> Written:
        made = application(self.head, [self.part(w, a) for a in self.args])
        return attributed(self.attributes, made, APPLY)

    def applied(self, w: Writer, params: Sequence[Value]) -> Doc | None:
        count = len(params)
        if self.attributes or not identical(self.args[-count:], params):
            return None
        first = self.args[:-count]
        if any(is_in(a, params) for a in first) or self.scopes():
            return None
        if not all(isinstance(a, str | Value) for a in first) or any(is_in(v, params) for v in self.inner()):
            return None
        if not first:
            return self.head
        return ("(", application(self.head, [self.part(w, a) for a in first]), ")")


def attributed(attributes: Sequence[str], doc: Doc, level: int) -> Written:
    """An expression with attributes before it."""
    if not attributes:
        return doc, level
    return (*[f"#[{a}] " for a in attributes], doc), LET


class Soac(Call):
    """A function of the prelude that applies a lambda to the rows of arrays: `head f parts... xs ys`.

    `takes`: which parameters of the lambda are parts of one argument, where rows are tuples; the arrays are zipped
    then, and what comes out is unzipped.
    """

    def __init__(
        self, head: str, function: Scope, parts: Sequence[Part | Sequence[Value]], arrays: Sequence[Value], *,
        takes: Sequence[Sequence[int]] = (), results: int = 1, attributes: Sequence[str] = (), hint: str = "t",
    ) -> None:  # fmt: skip
        flat: list[Part] = []
        for p in parts:
            flat += [p] if isinstance(p, str | Size | Value | Scope) else p
        super().__init__(head, function, *flat, *arrays, hint=hint, attributes=attributes)
        self.function, self.parts, self.arrays, self.takes, self.count = function, parts, arrays, takes, results

    def doc(self, w: Writer) -> Written:
        docs: list[Doc] = [self._lambda(w)]
        for p in self.parts:
            if isinstance(p, list | tuple):
                docs.append(enclosed([w.use(v, LET) for v in p]) if len(p) > 1 else w.use(p[0]))
            elif isinstance(p, Size | str | Value | Scope):
                docs.append(self.part(w, p))
        arrays = [w.use(a) for a in self.arrays]
        head = self.head
        if head == "map":
            if len(arrays) > 5:
                docs.append(zipped(arrays))
            else:
                head = f"map{len(arrays)}" if len(arrays) > 1 else "map"
                docs += arrays
        else:
            docs.append(zipped(arrays) if len(arrays) > 1 else arrays[0])
        made, level = attributed(self.attributes, application(head, docs), APPLY)
        if self.count == 1:
            return made, level
        if self.count > 5:
            return unpacked(w, made, self.count), LET
        return application(f"unzip{self.count if self.count > 2 else ''}", [("(", made, ")")]), APPLY

    def _lambda(self, w: Writer) -> Doc:
        if self.head == "map":
            count = len(self.arrays)
            return w.function(self.function, [list(range(count))] if count > 5 else None, packed=True)
        return w.function(self.function, self.takes or None)

    def applied(self, w: Writer, params: Sequence[Value]) -> Doc | None:
        if self.count > 1 or self.attributes or not identical(self.arrays, params) or len(params) > 5:
            return None
        if self.head != "map" or any(is_in(v, params) for v in values_outside(self.function)):
            return None
        return ("(", application(f"map{len(params)}" if len(params) > 1 else "map", [self._lambda(w)]), ")")


def values_outside(scope: Scope) -> set[Value]:
    """The values that a lambda reads from outside."""
    out = {v for v in scope.results if v.scope is not scope}
    for stm in scope.stms:
        out |= {v for v in (*stm.exp.operands(), *stm.exp.inner()) if v.scope is not scope}
        for inner in stm.exp.scopes():
            out |= {v for v in values_outside(inner) if v.scope is not scope}
    return out


def unpacked(w: Writer, doc: Doc, count: int) -> Doc:
    """An array of more than five parts, in groups (`packed`), as arrays."""
    lets: list[Doc] = []
    names: list[Doc] = []
    with w.block():
        while count > 5:
            four, rest = [w.letter() for _ in range(4)], w.letter()
            lets.append((f"let ({', '.join([*four, rest])}) = unzip5 (", doc, ")", HARD))
            names += four
            doc, count = rest, count - 4
        last = [w.letter() for _ in range(count)]
        lets.append((f"let ({', '.join(last)}) = unzip{count if count > 2 else ''} ", doc, HARD))
    return (*lets, "in ", enclosed([*names, *last]))


def zipped(arrays: list[Doc]) -> Doc:
    """Arrays as one of tuples: `(zip a b)`."""
    if len(arrays) == 1:
        return arrays[0]
    if len(arrays) > 5:
        arrays = [*arrays[:4], zipped(arrays[4:])]
    return ("(", application(f"zip{len(arrays) if len(arrays) > 2 else ''}", arrays), ")")


Place = Value | Size | tuple[Size | None, Size | None, int | None]


class Index(Exp):
    """`x[i, a:b, :]`: for each dimension a number, or (from, to, step) with None for what is left out."""

    def __init__(self, array: Value, places: Sequence[Place]) -> None:
        self.array, self.places = array, places

    def operands(self) -> Sequence[Value]:
        return (self.array, *[p for p in self.places if isinstance(p, Value)])

    def inner(self) -> Sequence[Value]:
        sizes = [s for p in self.places for s in (p[:2] if isinstance(p, tuple) else [p])]
        return values_in(*[s for s in sizes if isinstance(s, Size)])

    def doc(self, w: Writer) -> Written:
        if isinstance(first := self.places[0], tuple) and all(is_whole(p) for p in self.places[1:]):
            low, high, step = first
            if step is None and (low is None) != (high is None):
                head, size = ("drop", low) if high is None else ("take", high)
                assert size is not None
                return application(head, [w.size_atom(size), w.use(self.array)]), APPLY
        last = max((i for i, p in enumerate(self.places) if not is_whole(p)), default=0)
        made: list[Doc] = []
        for p in self.places[: last + 1]:
            if isinstance(p, Value):
                made.append(w.use(p, LET))
            elif isinstance(p, Size):
                made.append(w.size(p)[0])
            else:
                low, high, step = p
                text: list[Doc] = [w.size(low)[0] if low is not None else "", ":"]
                text.append(w.size(high)[0] if high is not None else "")
                made.append((*text, f":{step}" if step is not None else ""))
        return (w.use(self.array), enclosed(made, "[", "]")), ATOM


def is_whole(place: object) -> bool:
    """Whether an index is `:`."""
    return isinstance(place, tuple) and place == (None, None, None)


class Coerce(Exp):
    """`x :> [n]f64`: an array whose sizes are said to be these, which running checks."""

    def __init__(self, array: Value, dims: Sequence[Size]) -> None:
        self.array, self.dims = array, tuple(dims)

    def operands(self) -> Sequence[Value]:
        return (self.array,)

    def inner(self) -> Sequence[Value]:
        return values_in(*self.dims)

    def doc(self, w: Writer) -> Written:
        return ("(", w.use(self.array, LET + 1), " :> ", w.type(self.array.elem, self.dims), ")"), ATOM


class Update(Exp):
    """An array with another value at a place."""

    hint = "updated"

    def __init__(self, array: Value, places: Sequence[Value | Size], value: Value) -> None:
        self.array, self.places, self.value = array, places, value

    def operands(self) -> Sequence[Value]:
        return (self.array, *[p for p in self.places if isinstance(p, Value)], self.value)

    def inner(self) -> Sequence[Value]:
        return values_in(*[p for p in self.places if isinstance(p, Size)])

    def doc(self, w: Writer) -> Written:
        at: list[Doc] = [w.use(p, LET) if isinstance(p, Value) else w.size(p)[0] for p in self.places]
        return ("(copy ", w.use(self.array), ") with ", enclosed(at, "[", "]"), " = ", w.use(self.value, LET + 1)), LET


class Branch(Exp):
    """`if c then a else b`, each branch a scope."""

    def __init__(self, test: Value, yes: Scope, no: Scope) -> None:
        self.test, self.branches = test, (yes, no)

    def operands(self) -> Sequence[Value]:
        return (self.test,)

    def scopes(self) -> Sequence[Scope]:
        return self.branches

    def doc(self, w: Writer) -> Written:
        docs = []
        for scope in self.branches:
            with w.block():
                docs.append(w.body(scope))
        yes, no = docs
        made = ("if ", w.use(self.test, LET + 1), SPACE, "then ", Nest(5, yes), SPACE, "else ", Nest(5, no))
        return Group(made), LET


class Loop(Exp):
    """`loop pattern = initial for i < n do body`, or `while`."""

    hint = "state"

    def __init__(
        self, initial: Sequence[Value], body: Scope, count: Value | None, test: Scope | None, attributes: Sequence[str]
    ) -> None:
        self.initial, self.body, self.count, self.test, self.attributes = initial, body, count, test, attributes

    def operands(self) -> Sequence[Value]:
        return (*self.initial, *([self.count] if self.count is not None else []))

    def scopes(self) -> Sequence[Scope]:
        return [self.body] if self.test is None else [self.body, self.test]

    def doc(self, w: Writer) -> Written:
        start = [w.use(v, LET) for v in self.initial]
        count = w.use(self.count, LET + 1) if self.count is not None else ""
        with w.block():
            names: list[Doc] = [*w.params(self.body, ["i"] if self.test is None else ())]
            head: Doc
            if self.test is None:
                head, names = ("for ", names[0], " < ", count), names[1:]
            else:
                w.names |= {b: w.names[a] for a, b in zip(self.body.params, self.test.params, strict=True)}
                with w.block():
                    head = ("while ", w.body(self.test))
            body = w.body(self.body)
        pattern, first = (names[0], start[0]) if len(names) == 1 else (enclosed(names), enclosed(start))
        made = ("loop ", pattern, " = ", first, " ", head, " do", Nest(2, (SPACE, body)))
        return attributed(self.attributes, Group(made), LET)


class Derivative(Exp):
    """`vjp f x y`, and its like: a lambda of one argument, of one or several parts, and two arguments."""

    def __init__(
        self, head: str, functions: Sequence[Scope], first: Sequence[Value], second: Sequence[Value],
        groups: Sequence[int],
    ) -> None:  # fmt: skip
        """`groups`: of how many values each part of the result is a tuple."""
        self.head, self.functions, self.first, self.second, self.groups = head, functions, first, second, groups
        self.flat = len(groups) == 1

    def pattern(self, names: Sequence[str]) -> str:
        left = list(names)
        parts = []
        for k in self.groups:
            part, left = left[:k], left[k:]
            parts.append(part[0] if k == 1 else f"({', '.join(part)})")
        return parts[0] if self.flat else f"({', '.join(parts)})"

    def operands(self) -> Sequence[Value]:
        return (*self.first, *self.second)

    def scopes(self) -> Sequence[Scope]:
        return self.functions

    def doc(self, w: Writer) -> Written:
        def tuple_of(values: Sequence[Value]) -> Doc:
            return w.use(values[0]) if len(values) == 1 else enclosed([w.use(v, LET) for v in values])

        count = len(self.first)
        docs = [w.function(self.functions[0], [list(range(count))])]
        for scope in self.functions[1:]:  # of the results and their adjoints
            results = len(scope.params) // 2
            docs.append(w.function(scope, [list(range(results)), list(range(results, 2 * results))]))
        docs += [tuple_of(self.first), *([tuple_of(self.second)] if self.second else [])]
        return application(self.head, docs), APPLY


__all__ = [
    "Branch", "Call", "Coerce", "Derivative", "Index", "Loop", "Part", "Place", "Soac", "Update", "attributed",
    "is_whole", "unpacked", "zipped",
]  # fmt: skip
