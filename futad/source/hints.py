"""What to write instead, for names that people type who come from NumPy, Julia, C, Haskell or JAX.

The expressions that are proposed contain the arguments as the program has them: they can be typed as they stand.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from futad.core.types import PRIMS, Prim
from futad.errors import Error, Span
from futad.source import ast as A
from futad.source import numeric
from futad.source.hint_syntax import COMMENT, ELSE_IF, FUNCTION, FUNCTIONS
from futad.source.hint_types import mapped, rank, scalar
from futad.source.written import arguments_after, atom, index_after, outside, parts, written

if TYPE_CHECKING:
    from futad.source.check import Checker

# Functions: the names of their arguments, and what says the same of them.
CALLS: dict[str, list[tuple[str, str]]] = {
    "arange": [("n", "iota {n}"), ("a b", "{a}..<{b}")],
    "array": [("xs", "{xs}")],
    "average": [("xs", "f64.sum {xs} / f64.i64 (length {xs})")],
    "ceil_div": [("n m", "({n} + {m} - 1) / {m}")],
    "clip": [("x a b", "f64.min {b} (f64.max {a} {x})")],
    "concatenate": [("xs ys", "{xs} ++ {ys}")],
    "cumprod": [("xs", "scan (*) 1 {xs}")],
    "cumsum": [("xs", "scan (+) 0 {xs}")],
    "diff": [("xs", "map2 (-) (tail {xs}) (init {xs})")],
    "dot": [("xs ys", "f64.sum (map2 (*) {xs} {ys})")],
    "enumerate": [("xs", "zip (indices {xs}) {xs}")],
    "eye": [("n", "tabulate_2d {n} {n} (\\i j -> f64.bool (i == j))")],
    "float": [("n", "f64.i64 {n}")],
    "fmap": [("f xs", "map {f} {xs}")],
    "fromIntegral": [("n", "f64.i64 {n}")],
    "fst": [("p", "{p}.0")],
    "full": [("n x", "replicate {n} {x}")],
    "grad": [("f x", "vjp {f} {x} 1")],
    "int": [("x", "i64.f64 {x}")],  # which cuts the fraction off as that does
    "len": [("xs", "length {xs}")],
    "linspace": [("a b n", "map (\\i -> {a} + ({b} - {a}) * f64.i64 i / f64.i64 ({n} - 1)) (iota {n})")],
    "matmul": [("a b", "map (\\row -> map (\\column -> f64.sum (map2 (*) row column)) (transpose {b})) {a}")],
    "max": [("xs", "f64.maximum {xs}"), ("x y", "f64.max {x} {y}")],
    "mean": [("xs", "f64.sum {xs} / f64.i64 (length {xs})")],
    "min": [("xs", "f64.minimum {xs}"), ("x y", "f64.min {x} {y}")],
    "mod": [("x y", "{x} % {y}")],
    "norm": [("xs", "f64.sqrt (f64.sum (map (\\x -> x * x) {xs}))")],
    "ones": [("n", "replicate {n} 1")],
    "ones_like": [("xs", "map (const 1) {xs}")],
    "pow": [("x y", "{x} ** {y}")],
    "power": [("x y", "{x} ** {y}")],
    "print": [("x", "trace {x}")],
    "println": [("x", "trace {x}")],
    "prod": [("xs", "f64.product {xs}")],
    "range": [("n", "iota {n}"), ("a b", "{a}..<{b}")],
    "ravel": [("a", "flatten {a}")],
    "realToFrac": [("x", "f64.f32 {x}")],
    "size": [("xs", "length {xs}")],
    "snd": [("p", "{p}.1")],
    "sqr": [("x", "{x} * {x}")],
    "square": [("x", "{x} * {x}")],
    "sum": [("xs", "f64.sum {xs}")],
    "value_and_grad": [("f x", "vjp2 {f} {x} 1")],
    "vmap": [("f xs", "map {f} {xs}")],
    "where": [("c x y", "if {c} then {x} else {y} of numbers, in a map")],
    "zeros": [("n", "replicate {n} 0")],
    "zeros_like": [("xs", "map (const 0) {xs}")],
    "zipWith": [("f xs ys", "map2 {f} {xs} {ys}")],
    "zipWith3": [("f xs ys zs", "map3 {f} {xs} {ys} {zs}")],
}
# Other names, and operators.
NAMES = {
    "False": "here that is false",
    "None": "every value is there: a type with one that may not be is #none | #some f64",
    "Nothing": "every value is there: a type with one that may not be is #none | #some f64",
    "True": "here that is true",
    "argmax": "here that is reduce over zip xs (indices xs)",
    "argmin": "here that is reduce over zip xs (indices xs)",
    "end": "the last element is last xs, the one before xs[length xs - 2]",
    "fold": "here that is reduce, for operators that are associative, or foldl",
    "null": "every value is there: a type with one that may not be is #none | #some f64",
    "nil": "every value is there: a type with one that may not be is #none | #some f64",
    "otherwise": "here that is true, or the last else",
    "NULL": "every value is there: a type with one that may not be is #none | #some f64",
    "shape": "a size is a parameter of the type, [n][m]f64, or length xs",
    "return": "a function's body is its value: def f x = x",
    "sort": "here that is a sort of your own, or of a package under lib/",
    "sorted": "here that is a sort of your own, or of a package under lib/",
    "div": "here that is '/' of integers, which rounds down; '//' rounds towards zero",
    "quot": "here that is '//' of integers",
    "rem": "here that is '%%' of integers",
    "<>": "'!=' compares for being different",
    "/=": "'!=' compares for being different; values do not change: let x = x / 2",
    "===": "'==' compares",
    "!==": "'!=' compares",
    "=/=": "'!=' compares for being different",
    "=<": "'<=' compares",
    "!!": "an element is xs[i]",
    "^^": "powers are x ** 2",
    "+=": "values do not change: let x = x + 1",
    "-=": "values do not change: let x = x - 1",
    "*=": "values do not change: let x = x * 2",
    "**=": "values do not change: let x = x ** 2",
    ">>=": "values do not change: let x = x >> 1",
    "=>": FUNCTION,
    "<-": "values do not change: let x = x + 1",
}
_NUMBERS = {
    f"{p}{bits}": f"{short}{bits}"
    for p, short in (("float", "f"), ("Float", "f"), ("int", "i"), ("Int", "i"), ("uint", "u"), ("UInt", "u"))
    for bits in (8, 16, 32, 64)
    if short != "f" or bits > 8
}
TYPES = {
    "float": "f64", "double": "f64", "half": "f16", "int": "i64", "integer": "i64", "long": "i64", "byte": "u8",
    "boolean": "bool", "real": "f64", "string": "[]u8", "str": "[]u8", "Float": "f32", "Double": "f64", "Int": "i64",
    "Integer": "i64", "Bool": "bool", "String": "[]u8", "char": "u8", "Char": "u8", "size_t": "i64", "usize": "i64",
    "isize": "i64", "number": "f64", "Real": "f64", "short": "i16", "unsigned": "u32", "void": "()", "None": "()",
    "uint": "u64", "list": "[]f64", "array": "[]f64", "vector": "[]f64", "Array": "[]f64", "Vector": "[]f64",
    "List": "[]f64", "Vec": "[]f64", "ndarray": "[]f64", "Matrix": "[][]f64", "matrix": "[][]f64",
    "tuple": "(f64, f64)", **_NUMBERS, **{f"{name}_t": t for name, t in _NUMBERS.items()},
}  # fmt: skip
ENDS = ("end", "done", "fi", "endif", "enddo", "endfor")
PACKAGES = ("np", "jnp", "numpy", "math", "Math", "torch", "cmath", "lax", "jax", "scipy", "tf")
# Members of the modules of numbers by the names that they have elsewhere.
MEMBERS = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "ln": "log", "fabs": "abs", "absolute": "abs", "sign": "sgn", "infinity": "inf", "NaN": "nan",
    "Inf": "inf", "PI": "pi", "power": "**", "pow": "**", "log1": "log1p", "ceiling": "ceil", "truncate": "trunc",
    "fmax": "max", "fmin": "min", "prod": "product", "negate": "neg", "negative": "neg", "square": "", "rint": "round",
    "reciprocal": "recip", "cumsum": "",
}  # fmt: skip


def of_value(ck: Checker, name: str, span: Span) -> str | None:
    """For a name that is not in scope, at its place."""
    if name in FUNCTIONS:
        return FUNCTION
    if name in ELSE_IF:
        return "write 'else if'"
    args = arguments_after(ck, span)
    if numeric.is_module(name):
        return f"{name} is a module: {name}.i64 {atom(args[0]) if len(args) == 1 else 'n'} converts an i64"
    before = ck.file.text.split("\n")[span.line - 1][: span.col - 1] if span.file == ck.file.path else ""
    if name in ENDS and not before.strip():
        return f"nothing ends with '{name}': leave it out"
    if name in NAMES:
        return NAMES[name]
    if name in CALLS and (made := call(name, args)) is not None:
        return f"here that is {made}"
    if name[-1] == "." and not name[0].isalnum():
        digits = args[0] if args and args[0].isdigit() else ""
        return f"a number has a digit before the point: 0.{digits}" if digits else f"the operator is '{name[:-1]}'"
    members = numeric.module_members("f64")
    other = MEMBERS.get(name, name) or name
    if other in members:
        params = members[other].split()[:-1]
        if not params:
            return f"it is in the types' modules: f64.{other}"
        if len(params) == 1 and "[" not in params[0]:
            x = atom(args[0]) if len(args) == 1 else "x"
            xs = x if len(args) == 1 else "xs"
            return f"it is in the types' modules: f64.{other} {x} of a number, map f64.{other} {xs} of an array"
        given = [atom(a) for a in args] if len(args) == len(params) else ["xs"] * ("[" in params[0])
        return f"it is in the types' modules: {' '.join([f'f64.{other}', *given])}"
    return COMMENT if "//" in before else None


# Functions that convert a number, and the type that they convert to.
CONVERSIONS = {"float": "f64", "double": "f64", "fromIntegral": "f64", "realToFrac": "f64", "int": "i64"}
# What NumPy takes of all elements of a matrix.
OF_ALL = ("average", "cumprod", "cumsum", "max", "mean", "min", "norm", "prod", "size", "sum")


def of_call(ck: Checker, name: str, args: list[A.Expr], said: str | None) -> str | None:
    """For a function that is not in scope where its arguments are; `said`: what is known without their types."""
    name = name.rpartition(".")[2]
    if type(args[0]) is A.ETuple and len(args) == 1 and name not in ("fst", "snd"):
        args = args[0].elems
    if len(args) == 1 and isinstance(args[0], A.ETuple | A.EArray) and name == "concatenate":
        args = args[0].elems
    if not args:
        return said
    try:
        args = [x if x.type is not None else ck.exp(x) for x in args]
    except Error:
        return said
    texts = [written(ck, x) for x in args]
    given = [t for t in texts if t is not None]
    ranks, p = [rank(x.type) for x in args], scalar(args[0].type)
    if len(given) < len(texts) or said is None:
        return said
    to = CONVERSIONS.get(name, name)
    if to in PRIMS and len(given) == 1 and p is not None:
        return f"here that is {to}.{p} {atom(given[0])}" if not ranks[0] else said
    if name in CALLS:
        made = of_ranks(name, given, ranks)
        return f"here that is {_of_type(made, p)}" if made is not None else None
    members = numeric.module_members("f64")
    other = MEMBERS.get(name, name)
    if members.get(other) == "t t" and len(given) == 1 and p is not None:
        p = p if numeric.member(p.name, other) is not None else PRIMS["f64"]
        return f"it is in the types' modules: {mapped(f'{p.name}.{other}', ranks[0], given[0])}"
    return said


def of_ranks(name: str, args: list[str], ranks: list[int]) -> str | None:
    """What says the same as a function of arguments of those ranks, as NumPy means it; None if that is not known."""
    if max(ranks) < 2:
        return call(name, args)
    if name in OF_ALL and len(args) == 1:
        flat = args[0]
        for _ in range(ranks[0] - 1):
            flat = f"(flatten {atom(flat)})"
        return call(name, [flat])
    if name in ("zeros_like", "ones_like") and len(args) == 1:
        return mapped(f"const {name == 'ones_like':d}", ranks[0], args[0])
    if name == "dot" and ranks == [2, 2]:
        return call("matmul", args)
    if name == "dot" and ranks == [2, 1]:
        return f"map (\\row -> f64.sum (map2 (*) row {atom(args[1])})) {atom(args[0])}"
    return call(name, args) if name in ("array", "concatenate", "enumerate", "len", "matmul", "vmap", "fmap") else None


def _of_type(text: str, p: Prim | None) -> str:
    """The text with the functions of f64 replaced by those of another type, where that has all of them."""
    used = re.findall(r"\bf64\.(\w+)", text)
    if p is None or p.is_bool or p.is_integral and "/" in text or "bool" in used:
        return text
    return text.replace("f64.", f"{p.name}.") if all(numeric.member(p.name, m) is not None for m in used) else text


def call(name: str, args: list[str]) -> str | None:
    """What says the same as a function of those arguments; of no arguments, as one of its usual ones."""
    if any(re.search(r"\w\s*=[^=]", a) for a in args):
        return None  # one that has a name: axis=0
    if len(args) > 1 and all(len(params.split()) == 1 for params, _ in CALLS[name]):
        args = [f"({', '.join(args)})"]
    if len(args) == 1 and (inside := re.fullmatch(r"[(\[](.*)[)\]]", args[0])) and len(CALLS[name][0][0].split()) > 1:
        args = parts(inside[1])
    for params, template in CALLS[name]:
        names = params.split()
        if len(names) == len(args) or not args:
            made = template.format(**dict(zip(names, [atom(a) for a in args] or names, strict=True)))
            return atom(made) if _OPERATOR.search(outside(made)) else made
    return None


_OPERATOR = re.compile(r" (?:[-+*/%]|\*\*|\+\+) |\.\.<")


def of_type(ck: Checker, name: str, span: Span) -> str | None:
    """For the name of a type that there is not."""
    before = ck.file.text.split("\n")[span.line - 1][: span.col - 1] if span.file == ck.file.path else ""
    if re.search(r"\blambda\b", before):
        return FUNCTION
    return f"the type is called {TYPES[name]}" if name in TYPES else None


def of_member(ck: Checker, module: str, name: str, span: Span) -> str | None:
    """For a name that a module of numbers lacks."""
    other = MEMBERS.get(name)
    args = arguments_after(ck, span)
    if other and other in numeric.module_members(module):
        if not other[0].isalpha():
            x, y = [atom(a) for a in args] if len(args) == 2 else ("x", "y")
            return f"here that is ({x} {other} {y})"
        return f"here that is {module}.{other}"
    if name in CALLS and (made := call(name, args)) is not None:
        floats = module[0] == "f" or "/" not in made and "f64.i64" not in made
        return f"here that is {made.replace('f64.', f'{module}.')}" if floats and module != "bool" else None
    return NAMES.get(name)


def of_package(ck: Checker, name: str, span: Span) -> str | None:
    """For `np.exp` and the like, whose module there is not."""
    first, _, rest = name.partition(".")
    rest = rest.rpartition(".")[2]
    if first not in PACKAGES:
        return None
    if rest in ck.prelude:
        return f"here that is {rest}"
    return of_value(ck, rest, span)


def of_field(ck: Checker, record: A.Expr, name: str, span: Span) -> str | None:
    """For `xs.sum` of what is no record, and for `.5`, which is no number."""
    text = getattr(record, "name", None) or written(ck, record)  # of `xs.sum` the place is that of all of it
    if name.isdigit() and text is not None and text.isdigit():
        return f"the type of a number is written out: {text}.{name}f32"
    if name.isdigit():
        return f"a number has a digit before the point: 0.{name}"
    if text is None:
        return None
    if re.fullmatch(r"[0-9]+", text):
        return f"a number has digits after its point: {text}.0"
    if name == "shape":
        k = index_after(ck, span)
        return f"{text}.shape[{k}] is length {atom(text)}{'[0]' * k}" if k is not None else NAMES["shape"]
    depth, p = rank(record.type), scalar(record.type)
    if name in ("map", "filter", "reduce", "scan"):
        args = arguments_after(ck, span)
        return f"here that is {' '.join([name, *[atom(a) for a in args or ['f']], atom(text)])}"
    if name in CALLS and len(CALLS[name][0][0].split()) == 1 and depth:
        if any("=" in a for a in arguments_after(ck, span)):
            return None
        made = of_ranks(name, [text], [depth])
        return f"here that is {_of_type(made, p)}" if made is not None else None
    if name in ("length", "transpose", "T", "reverse", "flatten", "copy"):
        return f"here that is {'transpose' if name == 'T' else name} {atom(text)}"
    members = numeric.module_members(p.name) if p is not None else {}
    return f"here that is {mapped(f'{p}.{name}', depth, text)}" if members.get(name) == "t t" else None


def of_array(name: str, sizes: list[str]) -> str:
    """For a type without parameters that is followed by sizes in brackets."""
    return f"an array's type has its size in front: {''.join(f'[{s}]' for s in sizes)}{TYPES.get(name, name)}"


def of_argument(name: str) -> str | None:
    """For a variable of that name as the argument of what is no function."""
    if name in ENDS:
        return f"nothing ends with '{name}': leave it out"
    operator = {"and": "&&", "or": "||"}.get(name)
    return f"'{operator}' is the {name} of two bools" if operator else None


__all__ = ["of_argument", "of_array", "of_field", "of_member", "of_package", "of_type", "of_value"]
