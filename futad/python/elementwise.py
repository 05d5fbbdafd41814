"""Scalar operations, and arrays of equal shapes, or of shapes that NumPy would broadcast, element by element.

An expression of several operations on arrays is written as one map over what it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from futad.core.types import PRIMS
from futad.python.layout import (
    AND,
    APPLY,
    ATOM,
    BITS,
    COMPARE,
    LET,
    OR,
    POWER,
    PRODUCT,
    SHIFT,
    SPACE,
    SUM,
    Doc,
    Group,
    Nest,
    Written,
    application,
    enclosed,
)
from futad.python.place import fail
from futad.python.sizes import Size, size
from futad.python.values import DTYPES, Exp, Value, elem_of, identical, let
from futad.python.writer import parenthesised

if TYPE_CHECKING:
    from futad.python.arrays import Array
    from futad.python.writer import Writer

MAX_LITERAL = 4096  # elements of an array that stands in the text


@dataclass(frozen=True, slots=True)
class Op:
    """A scalar operation: an operator that binds at `level`, or a member of a numeric module."""

    text: str
    level: int = APPLY
    result: str = ""  # the element type, if it is not the operands'
    chains: bool = True  # `a op b op c` is `(a op b) op c`

    def write(self, elem: str, args: Sequence[Written], whole: Sequence[bool]) -> Written:
        """Applied to scalars; `whole`: which of them are literals without a type."""
        if self.level == APPLY:
            return application(self.named(elem), [parenthesised(d, n, ATOM) for d, n in args]), APPLY
        (a, m), (b, n) = args
        left = parenthesised(a, m, self.level if self.chains else self.level + 1)
        right = parenthesised(b, n, self.level + 1)
        return Group((left, f" {self.text}", Nest(2, (SPACE, right)))), self.level

    def named(self, elem: str) -> str:
        """The function that it is."""
        if self.level < APPLY:
            return f"({self.text})"
        return self.text if elem == "bool" and self.text == "not" else f"{elem}.{self.text}"


OPERATORS = {
    "add": Op("+", SUM), "subtract": Op("-", SUM), "multiply": Op("*", PRODUCT), "divide": Op("/", PRODUCT),
    "remainder": Op("%", PRODUCT), "power": Op("**", POWER, chains=False),
    "equal": Op("==", COMPARE, "bool", False), "not_equal": Op("!=", COMPARE, "bool", False),
    "less": Op("<", COMPARE, "bool", False), "less_equal": Op("<=", COMPARE, "bool", False),
    "greater": Op(">", COMPARE, "bool", False), "greater_equal": Op(">=", COMPARE, "bool", False),
    "logical_and": Op("&&", AND), "logical_or": Op("||", OR),
    "bitwise_and": Op("&", BITS, chains=False), "bitwise_or": Op("|", BITS, chains=False),
    "bitwise_xor": Op("^", BITS, chains=False),
    "left_shift": Op("<<", SHIFT, chains=False), "right_shift": Op(">>", SHIFT, chains=False),
    "maximum": Op("max"), "minimum": Op("min"), "absolute": Op("abs"), "sign": Op("sgn"), "logical_not": Op("not"),
    "invert": Op("not"), "negative": Op("neg"),
}  # fmt: skip
OF_BOOLS = {  # what operations on numbers are of bools, and of which type their operands are then
    **{op: (OPERATORS["logical_or"], "bool") for op in ("+", "max", "||")},
    **{op: (OPERATORS["logical_and"], "bool") for op in ("*", "min", "&&")},
    **{OPERATORS[k].text: (OPERATORS[k], "i8") for k in ("divide", "remainder", "power", "left_shift", "right_shift")},
}
_FLOAT = {
    "exp": "", "exp2": "", "expm1": "", "log": "", "log2": "", "log10": "", "log1p": "", "sqrt": "", "cbrt": "",
    "sin": "", "cos": "", "tan": "", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "", "cosh": "",
    "tanh": "", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "floor": "", "ceil": "", "rint": "round",
    "trunc": "", "arctan2": "atan2", "hypot": "", "copysign": "", "nextafter": "", "gammaln": "lgamma", "erf": "",
    "erfc": "", "digamma": "",
}  # fmt: skip
FLOAT_OPERATORS = {name: Op(text or name) for name, text in _FLOAT.items()}
_MOD = OPERATORS["remainder"]
TESTS = {"isnan": Op("isnan", result="bool"), "isinf": Op("isinf", result="bool")}


class Literal(Exp):
    """A number."""

    trivial = True

    def __init__(self, value: Any, elem: str) -> None:
        self.value, self.elem = value, elem

    def doc(self, w: Writer) -> Written:
        return self.text(True)

    def text(self, typed: bool) -> Written:
        """The number, with its type unless something else tells that."""
        x, p = self.value, PRIMS[self.elem]
        if p.is_bool:
            return ("true" if x else "false"), ATOM
        if p.is_integral:
            made = str(int(x))
        elif not np.isfinite(x):
            made = f"{self.elem}.{'nan' if np.isnan(x) else 'inf'}"
            return (f"-{made}", LET) if x < 0 else (made, ATOM)
        else:
            made = str(x) if typed else str(x).removesuffix(".0")
        made += self.elem if typed else ""
        return made, LET if made.startswith("-") else ATOM


class ArrayLiteral(Exp):
    """An array whose elements are known."""

    hint = "table"

    def __init__(self, value: np.ndarray[Any, Any], elem: str) -> None:
        self.value, self.elem = value, elem

    def doc(self, w: Writer) -> Written:
        if self.value.size == 0:
            return f"([] : {''.join(f'[{n}]' for n in self.value.shape)}{self.elem})", ATOM
        return self._rows(self.value), ATOM

    def _rows(self, part: np.ndarray[Any, Any]) -> Doc:
        if part.ndim == 0:
            return Literal(part[()], self.elem).text(True)[0]
        return enclosed([self._rows(row) for row in part], "[", "]")


class Expand(Exp):
    """An array with dimensions of one element inserted, by their places in the result."""

    def __init__(self, array: Value, places: tuple[int, ...]) -> None:
        self.array, self.places = array, places

    def operands(self) -> Sequence[Value]:
        return (self.array,)

    def doc(self, w: Writer) -> Written:
        return self._written(w, w.use(self.array), 0, len(self.array.dims) + len(self.places))

    def _written(self, w: Writer, doc: Doc, level: int, rank: int) -> Written:
        if not any(p >= level for p in self.places):
            return doc, ATOM
        if level in self.places:
            inner, _ = self._written(w, doc, level + 1, rank)
            return ("[", inner, "]"), ATOM
        with w.block():
            a = w.letter()
            body = self._written(w, a, level + 1, rank)[0]
        return application("map", [(f"(\\{a} -> ", body, ")"), doc]), APPLY


class Apply(Exp):
    """A scalar operation on numbers, or on arrays element by element."""

    def __init__(self, op: Op, elem: str, args: Sequence[Value], dims: tuple[Size, ...]) -> None:
        self.op, self.elem, self.args, self.dims = op, elem, args, dims
        self.views = [_view(a, dims) for a in args] if dims else []

    def operands(self) -> Sequence[Value]:
        return [b for b, axes in self.views if axes[0] == "m"] if self.dims else self.args

    def inner(self) -> Sequence[Value]:
        return [b for b, axes in self.views if axes[0] != "m"] if self.dims else ()

    def applied(self, w: Writer, params: Sequence[Value]) -> Doc | None:
        if not self.dims:
            return self._section() if identical(self.args, params) else None
        return self._nested_section(0) if identical([b for b, _ in self.views], params) else None

    def _section(self) -> str | None:
        return self.op.named(self.elem) if not isinstance(self.op, Where | Convert) else self.op.section(self.elem)

    def _nested_section(self, level: int) -> str | None:
        """What a map over dimension `level - 1` applies, if it needs no lambda."""
        s = self._section()
        for _ in self.dims[level:]:
            s = s and f"(map{_count(len(self.args))} {s})"
        plain = all(set(axes) <= {"m"} for _, axes in self.views) and len({b for b, _ in self.views}) == len(self.args)
        return s if plain and len(self.args) <= 5 else None

    def doc(self, w: Writer) -> Written:
        if not self.dims:
            return self.scalar(w, {})
        leaves: list[tuple[Value, str]] = []
        self._leaves(w, leaves)
        if len(leaves) == len(self.args) and not any(self._deeper(w, a) for a in self.args):
            inner = self._nested_section(1)
            if inner is not None:
                return application(f"map{_count(len(leaves))}", [inner, *[w.use(b) for b, _ in leaves]]), APPLY
        docs = {leaf: w.use(leaf[0]) for leaf in leaves}
        return self._nest(w, 0, leaves, docs), APPLY

    def _deeper(self, w: Writer, a: Value) -> Apply | None:
        """The operation that computes an operand, if it is written in this one's map."""
        e = a.exp
        return e if isinstance(e, Apply) and e.dims == self.dims and w.inline(a) else None

    def _leaves(self, w: Writer, out: list[tuple[Value, str]]) -> None:
        for a, view in zip(self.args, self.views, strict=True):
            if (e := self._deeper(w, a)) is not None:
                e._leaves(w, out)
            elif not (view[0].exp is not None and view[0].exp.trivial) and not _among(view, out):
                out.append(view)

    def _nest(self, w: Writer, level: int, leaves: list[tuple[Value, str]], docs: dict[tuple[Value, str], Doc]) -> Doc:
        if level == len(self.dims):
            return self.scalar(w, docs)[0]
        mapped = [leaf for leaf in leaves if leaf[1][level] == "m"]
        if not mapped:  # dimensions of one element that are literals alone
            inner = ("(", self._nest(w, level + 1, leaves, docs), ")")
            return application("replicate", [w.size_atom(self.dims[level]), inner])
        inside = {leaf: (doc, "[0]") if leaf[1][level] == "1" else doc for leaf, doc in docs.items()}
        with w.block():
            names: dict[tuple[Value, str], Doc] = {leaf: w.letter() for leaf in mapped}
            body = self._nest(w, level + 1, leaves, inside | names)
        return over(list(names.values()), body, [docs[leaf] for leaf in mapped])

    def scalar(self, w: Writer, docs: dict[tuple[Value, str], Doc]) -> Written:
        """The operation on scalars, `docs` for those that maps have bound."""
        args: list[Written] = []
        whole = [isinstance(a.exp, Literal) for a in self.args]
        for i, a in enumerate(self.args):
            view = self.views[i] if self.views else (a, "")
            e = self._deeper(w, a) if self.dims else None
            if e is not None:
                args.append(e.scalar(w, docs))
            elif view in docs:
                args.append((docs[view], ATOM))
            elif isinstance(a.exp, Literal):
                args.append(a.exp.text(typed=self.op.level < APPLY and all(whole)))
            else:
                args.append(w.written(view[0]))
        return self.op.write(self.elem, args, whole)


@dataclass(frozen=True, slots=True)
class Where(Op):
    """`if` of three scalars."""

    def write(self, elem: str, args: Sequence[Written], whole: Sequence[bool]) -> Written:
        (c, _), (a, _), (b, _) = args
        typed = "" if not all(whole[1:]) else f" : {elem}"
        a = ("(", a, typed, ")") if typed else a
        return Group(("if ", c, SPACE, "then ", a, SPACE, "else ", b)), LET

    def section(self, elem: str) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class Convert(Op):
    """A number of the type `text` as one of another type."""

    def named(self, elem: str) -> str:
        return f"{elem}.{self.text}"

    def section(self, elem: str) -> str | None:
        return self.named(elem)


@dataclass(frozen=True, slots=True)
class Negate(Op):
    """`-x`."""

    def write(self, elem: str, args: Sequence[Written], whole: Sequence[bool]) -> Written:
        return ("-", parenthesised(*args[0], ATOM)), LET


def _among(view: tuple[Value, str], views: Sequence[tuple[Value, str]]) -> bool:
    return any(view[0] is v and view[1] == axes for v, axes in views)


def _count(k: int) -> str:
    return "" if k == 1 else str(k)


def over(names: list[Doc], body: Doc, arrays: list[Doc]) -> Doc:
    """A map of a lambda over any number of arrays."""
    if len(names) <= 5:
        head: list[Doc] = [x for n in names for x in (n, " ")]
        lam = Group(("(\\", *head, "->", Nest(2, (SPACE, body)), ")"))
        return application(f"map{_count(len(names))}", [lam, *arrays])
    pattern, zipped = zip_all(names, arrays)
    return application("map", [Group(("(\\", pattern, " ->", Nest(2, (SPACE, body)), ")")), zipped])


def zip_all(names: list[Doc], arrays: list[Doc]) -> tuple[Doc, Doc]:
    """A pattern and the arrays zipped, in groups of at most five."""
    if len(names) > 5:
        pattern, zipped = zip_all(names[4:], arrays[4:])
        names, arrays = [*names[:4], pattern], [*arrays[:4], zipped]
    return enclosed(names), ("(", application(f"zip{_count(len(arrays))}", arrays), ")")


def _view(a: Value, dims: tuple[Size, ...]) -> tuple[Value, str]:
    """The array behind an operand, and of each dimension of the result whether it has it ("m"), has one element there
    ("1"), or does not have it ("-")."""
    e = a.exp
    base, places = (e.array, e.places) if isinstance(e, Expand) else (a, ())
    missing = len(dims) - len(a.dims)
    axes = "-" * missing
    for i, d in enumerate(a.dims):
        if i in places:
            axes += "-"
        else:
            axes += "1" if d.known == 1 and dims[missing + i].known != 1 else "m"
    return base, axes


def broadcast(shapes: Sequence[tuple[Size, ...]], what: str) -> tuple[Size, ...]:
    """The shape that NumPy's rules give an operation on arrays of these.  Raises TraceError."""
    rank = max(map(len, shapes), default=0)
    out: list[Size] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in shapes if len(s) >= -axis]
        wide = [s for s in sizes if s.known != 1]
        if any(s != wide[0] for s in wide[1:]):
            other = next(s for s in wide if s != wide[0])
            shown = " and ".join([shape_text(s) for s in shapes if s])
            fail(f"{what}: shapes {shown} do not fit: size {wide[0]} is not known to be {other}",
                 _sized(wide[0], other))  # fmt: skip
        out.append(wide[0] if wide else size(1))
    return tuple(out)


def _sized(a: Size, b: Size) -> str | None:
    """How to say that sizes are equal, where they can be."""
    if a.known is not None and b.known is not None:
        return None
    unknown, wanted = (b, a) if b.known is None else (a, b)
    shown = wanted.known if wanted.known is not None else repr(str(wanted))
    return f"where they are equal, say so: x.sized({shown}), of the array x whose size is {unknown}"


def shape_text(dims: Sequence[Size]) -> str:
    """A shape as messages write it."""
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


def is_weak(x: Any) -> bool:
    """Whether it is a number of Python's, which takes the type of what it meets."""
    return type(x) in (bool, int, float)


def common(args: Sequence[Any]) -> str:
    """The element type of an operation on these, by NumPy's rules."""
    args = [x.weak if isinstance(x, Value) and x.weak is not None else x for x in args]
    plain = [DTYPES[x.elem] if isinstance(x, Value) else x if is_weak(x) else np.asarray(x) for x in args]
    return elem_of(np.result_type(*plain))


def literal(x: Any, elem: str) -> Array:
    """A number of Python's or NumPy's, or an array, as a value."""
    try:
        value = np.asarray(x, DTYPES[elem])
    except OverflowError:
        fail(f"{x} is not a {elem}")
    if value.size > MAX_LITERAL:
        fail(f"an array of {value.size} elements would stand in the program's text", "pass it as an argument")
    if value.ndim == 0:
        made = let(Literal(value[()], elem), elem)
        made.as_size = size(int(value)) if elem == "i64" else None
        return made
    return let(ArrayLiteral(value, elem), elem, [size(n) for n in value.shape])


def as_value(x: Any, what: str = "an operand") -> Array:
    """A traced value, or a constant as one.  Raises TraceError."""
    if isinstance(x, Value):
        return cast("Array", x)
    if is_weak(x):
        return literal(x, common([x]))
    if isinstance(x, np.ndarray | np.generic):
        return literal(x, elem_of(x.dtype))
    if isinstance(x, list | tuple) and not any(isinstance(part, Value) for part in x):
        try:
            return literal(made := np.asarray(x), elem_of(made.dtype))
        except ValueError:
            fail(f"{what}: a list whose rows are of different lengths")
    if isinstance(x, list | tuple):
        fail(f"{what} is a {type(x).__name__} of traced values", "make an array of it by fnp.stack")
    fail(f"{what} is of type {type(x).__name__}", "traced functions compute with numbers, arrays, and what fnp makes")


def convert(x: Any, elem: str) -> Array:
    """The value with elements of that type."""
    if not isinstance(x, Value):
        return literal(x, elem) if is_weak(x) else convert(as_value(x), elem)
    v = cast("Array", x)
    if v.elem == elem:
        return v
    if isinstance(v.exp, Literal):
        return literal(v.exp.value.item(), elem)
    if elem == "bool":
        return apply(OPERATORS["not_equal"], v.elem, [v, literal(0, v.elem)])
    return apply(Convert(v.elem), elem, [v])


def apply(op: Op, elem: str, args: Sequence[Any]) -> Array:
    """An operation on values of one element type (of which `elem` is the module's), broadcast."""
    dims = broadcast([a.dims for a in args], op.text)
    made = let(Apply(op, elem, args, dims), op.result or elem, dims)
    if elem == "i64" and op.text in "+-*" and not dims and all(a.as_size is not None for a in args):
        a, b = [x.as_size for x in args]
        made.as_size = a + b if op.text == "+" else a - b if op.text == "-" else a * b
    return made


def same(op: Op, *args: Any) -> Array:
    """An operation on values that NumPy's rules give one element type."""
    args = tuple([x if is_weak(x) else as_value(x) for x in args])
    elem = common(args)
    if elem == "bool" and not op.result:
        if op.text not in OF_BOOLS:
            fail(f"there is no {op.text} of bools", "write ^ for whether they differ" if op.text == "-" else None)
        op, elem = OF_BOOLS[op.text]
    return apply(op, elem, [convert(x, elem) for x in args])


def floating(op: Op, *args: Any) -> Array:
    """An operation on floats; integers become f64."""
    args = tuple([x if is_weak(x) else as_value(x) for x in args])
    elem = common(args)
    if not PRIMS[elem].is_float:
        elem = "f64"
    return apply(op, elem, [convert(x, elem) for x in args])


def where(condition: Any, a: Any, b: Any) -> Array:
    """`a` where the condition is true, else `b`."""
    test = convert(as_value(condition), "bool")
    a, b = [x if is_weak(x) else as_value(x) for x in (a, b)]
    elem = common([a, b])
    args = [test, convert(a, elem), convert(b, elem)]
    dims = broadcast([x.dims for x in args], "where")
    return let(Apply(Where("if"), elem, args, dims), elem, dims)


def divide(a: Any, b: Any) -> Array:
    """`a / b`; of integers as f64, as NumPy's."""
    return floating(OPERATORS["divide"], a, b)


def floor_divide(a: Any, b: Any) -> Array:
    """`a // b`, rounded down.  An integer divided by 0 is an error when the program runs."""
    a, b = [x if is_weak(x) else as_value(x) for x in (a, b)]
    if PRIMS[common([a, b])].is_float:
        # The quotient of what is left is a whole number but for rounding, which floor(a / b) would make one less of.
        whole = floating(FLOAT_OPERATORS["rint"], divide(same(OPERATORS["subtract"], a, same(_MOD, a, b)), b))
        return where(same(OPERATORS["equal"], b, 0), divide(a, b), whole)
    return same(OPERATORS["divide"], a, b)


def power(a: Any, b: Any) -> Array:
    """`a ** b`; of an integer by a negative one an error when the program runs."""
    return same(OPERATORS["power"], a, b)


def negative(a: Any) -> Array:
    """`-a`, with the type of a."""
    v = as_value(a)
    if v.elem == "bool":
        fail("there is no - of bools", "write ~x")
    if isinstance(v.exp, Literal):
        return literal(-v.exp.value.item(), v.elem)
    made = apply(Negate("neg"), v.elem, [v])
    made.as_size = size(0) - v.as_size if v.as_size is not None else None
    return made


def invert(a: Any) -> Array:
    """`~a`: of bools whether they are false, of integers all bits the other way."""
    v = as_value(a)
    return apply(OPERATORS["logical_not"], v.elem, [v])


def bitwise(name: str, a: Any, b: Any) -> Array:
    """`&`, `|` or `^` of integers; of bools whether both, any, or one of them is true."""
    a, b = [x if is_weak(x) else as_value(x) for x in (a, b)]
    elem = common([a, b])
    if elem == "bool":
        return same(OPERATORS["not_equal" if name == "xor" else f"logical_{name}"], a, b)
    if PRIMS[elem].is_float:
        fail(f"there is no bitwise {name} of floats")
    return same(OPERATORS[f"bitwise_{name}"], a, b)


def logical(name: str, a: Any, b: Any) -> Array:
    """`and` or `or` of what is not 0."""
    return apply(OPERATORS[f"logical_{name}"], "bool", [convert(as_value(a), "bool"), convert(as_value(b), "bool")])


__all__ = [
    "FLOAT_OPERATORS", "OPERATORS", "TESTS", "Apply", "ArrayLiteral", "Convert", "Expand", "Literal", "Negate", "Op",
    "apply", "as_value", "bitwise", "broadcast", "common", "convert", "divide", "floating",
    "floor_divide", "invert", "is_weak", "literal", "logical", "negative", "over", "power", "same",
    "shape_text", "where", "zip_all",
]  # fmt: skip
