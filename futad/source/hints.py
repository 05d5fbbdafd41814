"""What to write instead, for what people type who come from NumPy, Python or C: names, operators, conversions."""

from __future__ import annotations

import re

from futad.source import numeric
from futad.source.types import SType, TArray, TMeta, TPrim, TRecord, resolve

# Names that are none, and what says the same.
NAMES = {
    "False": "false",
    "True": "true",
    "arange": "iota n",
    "argmax": "reduce over zip xs (indices xs)",
    "array": "[1, 2, 3]",
    "concatenate": "xs ++ ys",
    "cumsum": "scan (+) 0 xs",
    "dot": "f64.sum (map2 (*) xs ys)",
    "enumerate": "zip (indices xs) xs",
    "eye": "tabulate_2d n n (\\i j -> f64.bool (i == j))",
    "float": "f64.i64 n",
    "fold": "reduce, for operators that are associative, or foldl",
    "int": "i64.f64 x",
    "len": "length xs",
    "linspace": "map (\\i -> a + h * f64.i64 i) (iota n)",
    "matmul": "map (\\row -> map (\\column -> f64.sum (map2 (*) row column)) (transpose b)) a",
    "max": "f64.max x y of two numbers, f64.maximum xs of an array",
    "mean": "f64.sum xs / f64.i64 (length xs)",
    "min": "f64.min x y of two numbers, f64.minimum xs of an array",
    "ones": "replicate n 1",
    "ones_like": "map (const 1) xs",
    "prod": "f64.product xs",
    "range": "iota n, or a..<b",
    "return": "a function's body is its value: def f x = x",
    "shape": "length xs, or a size parameter: [n]f64",
    "size": "length xs, or a size parameter: [n]f64",
    "sort": "a sort of your own, or of a package under lib/",
    "where": "if c then a else b, in a map",
    "zeros": "replicate n 0",
    "zeros_like": "map (const 0) xs",
}
TYPES = {
    "float": "f64", "double": "f64", "float64": "f64", "float32": "f32", "half": "f16", "int": "i64", "int64": "i64",
    "int32": "i32", "integer": "i64", "long": "i64", "uint8": "u8", "byte": "u8", "boolean": "bool", "real": "f64",
    "string": "[]u8", "str": "[]u8",
}  # fmt: skip
_OPERATOR = re.compile(r"argument \d+ of '([^\w']+)'$")
_FUNCTION = re.compile(r"argument \d+ of '([\w.]+)'$")


def of_name(name: str, is_type: bool) -> str | None:
    """For a name that is not in scope."""
    if is_type:
        return f"the type is called {TYPES[name]}" if name in TYPES else None
    if name in NAMES:
        return f"here that is {NAMES[name]}"
    members = numeric.module_members("f64")
    if name in members:
        params = members[name].split()[:-1]
        if not params:
            return f"it is in the types' modules: f64.{name}"
        if "[" in params[0]:
            return f"it is in the types' modules: f64.{name} xs"
        if params == ["t"]:
            return f"it is in the types' modules: f64.{name} x of a number, map f64.{name} xs of an array"
        return f"it is in the types' modules: f64.{name}"
    return None


def of_size(name: str) -> str:
    """For a type without parameters that is followed by one in brackets."""
    return f"an array's type has its size in front: [n]{name}"


def of_argument(name: str) -> str | None:
    """For a variable of that name as the argument of what is no function."""
    operator = {"and": "&&", "or": "||"}.get(name)
    return f"'{operator}' is the {name} of two bools" if operator else None


def of_types(what: str, actual: SType, expected: SType) -> str | None:
    """For a value, described by `what`, of another type than is expected."""
    found, wanted = resolve(actual), resolve(expected)
    if operator := _OPERATOR.match(what):
        if operator[1] == "^" and _is_float(found):
            return "'^' is the exclusive or of bits; powers are x ** 2"
        if type(found) is TArray and type(wanted) is not TArray:
            return f"element by element: map2 ({operator[1]}) xs ys of two arrays, map ({operator[1]} y) xs of one"
    function = _FUNCTION.match(what)
    if type(found) is TArray and type(wanted) is TPrim and function:
        inner = _innermost(found)
        whole = {"max": "maximum", "min": "minimum"}.get(function[1].rpartition(".")[2])
        if type(inner) is TPrim and inner.prim is wanted.prim and whole and _depth(found) == 1:
            return f"of all elements: {function[1].rpartition('.')[0]}.{whole} xs"
        if type(inner) is TPrim and inner.prim is wanted.prim:
            mapped = f"map {function[1]} xs" if _depth(found) == 1 else f"map (map {function[1]}) xs"
            return f"element by element: {mapped}"
    if type(found) is TRecord and type(wanted) in (TPrim, TArray) and function and found.fields[:1]:
        if [n for n, _ in found.fields] == [str(k) for k in range(len(found.fields))]:
            return f"arguments stand side by side, without commas: {function[1]} x y"
    a, b = _innermost(found), _innermost(wanted)
    if type(a) is TPrim and type(b) is TPrim and a.prim is not b.prim and _depth(found) == _depth(wanted):
        if not a.prim.is_bool and not b.prim.is_bool:
            conversion = f"{b.prim.name}.{a.prim.name}"
            return f"convert it: map {conversion} xs" if _depth(found) == 1 else f"convert it: {conversion} x"
    return None


def _is_float(t: SType) -> bool:
    return (type(t) is TPrim and t.prim.is_float) or (type(t) is TMeta and t.kind == "float")


def _innermost(t: SType) -> SType:
    while type(t) is TArray:
        t = resolve(t.elem)
    return t


def _depth(t: SType) -> int:
    depth = 0
    while type(t) is TArray:
        depth, t = depth + 1, resolve(t.elem)
    return depth


__all__ = ["of_argument", "of_name", "of_size", "of_types"]
