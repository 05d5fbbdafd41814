# ruff: noqa: E501 (programs read better unbroken)
"""Scans and folds by operators that are no plain sums: which do not commute, keep one of their operands, choose, compose
functions, carry counts and flags; on numbers, tuples, records and rows, forwards and backwards, whole or by segments."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from futad.testing.skeletons.base import Gen, Program
from futad.testing.skeletons.vectors import MAKERS, Vectors, program_of


@dataclass(frozen=True, slots=True)
class _Monoid:
    """An associative operator on values `one`, of operands called a and b (their components a0, a1 .. and b0, b1 ..)."""

    types: tuple[str, ...]
    neutral: tuple[str, ...]
    op: tuple[str, ...]
    made: tuple[str, ...]  # of the numbers x, y and the index i
    seen: str  # a number, of the components r0, r1 ..
    smooth: bool = True
    lets: str = ""

    def parts(self, x: str) -> str:
        names = [f"{x}{k}" for k in range(len(self.types))]
        return names[0] if len(names) == 1 else f"({', '.join(names)})"

    def of(self, components: tuple[str, ...]) -> str:
        return components[0] if len(components) == 1 else f"({', '.join(components)})"

    @property
    def type(self) -> str:
        return self.of(self.types)


T2, LOW, HIGH = ("t", "t"), "(-1000)", "1000"
_SMALL = "(x / (1 + x * x))"
TABLE = (
    # composition of maps x -> a x + b, of clamps, of x -> max (x + a) b
    _Monoid(T2, ("1", "0"), ("a0 * b0", "a1 * b0 + b1"), (f"(1.2 * {_SMALL})", "y"), "r1"),
    _Monoid(T2, ("1", "0"), ("a0 * b0", "b0 * a1 + b1"), ("(0.5 + t.bool (i % 3 != 0) * 0.4)", "x * y"), "r1 - r0"),
    _Monoid(T2, (LOW, HIGH), ("t.max b0 (t.min b1 a0)", "t.max b0 (t.min b1 a1)"), ("t.min x y", "t.max x y"), "t.max r0 (t.min r1 0.3)", False),
    _Monoid(T2, ("0", LOW), ("a0 + b0", "t.max (a1 + b0) b1"), ("x", "y"), "t.max (0.2 + r0) r1", False),
    # what was there last, or first
    _Monoid(("t", "bool"), ("0", "false"), ("if b1 then b0 else a0", "a1 || b1"), ("(if i % 3 == 1 || is[i] == i then x else 0)", "i % 3 == 1 || is[i] == i"), "r0"),
    _Monoid(("t", "bool"), ("0", "false"), ("if a1 then a0 else b0", "a1 || b1"), ("(if is[i] % 2 == 1 then y else 0)", "is[i] % 2 == 1"), "r0 + t.bool r1"),
    # by segments: sums, greatest ones, products
    _Monoid(("t", "bool"), ("0", "false"), ("if b1 then b0 else a0 + b0", "a1 || b1"), ("x", "i % 4 == 2 || is[i] == 0"), "r0"),
    _Monoid(("bool", "t"), ("false", LOW), ("a0 || b0", "if b0 then b1 else t.max a1 b1"), ("is[i] > i", "x"), "r1", False),
    _Monoid(("bool", "t", "t"), ("false", "1", "0"), ("a0 || b0", "if b0 then b1 else a1 * b1", "if b0 then b2 else a2 * b1 + b2"), ("i % 5 == 0", "(0.9 * y / (1 + y * y))", "x"), "r2 + r1"),
    # extrema and where they are; the two greatest
    _Monoid(("t", "i64"), (LOW, "(-1)"), ("if b0 > a0 then b0 else a0", "if b0 > a0 then b1 else a1"), ("x", "i"), "r0 + t.i64 r1 * 0.01", False),
    _Monoid(("t", "i64", "t"), (HIGH, "(-1)", "0"), ("if b0 < a0 then b0 else a0", "if b0 < a0 then b1 else a1", "if b0 < a0 then b2 else a2"), ("x", "is[i]", "y"), "r2 - t.i64 r1 * 0.01", False),
    _Monoid(T2, (LOW, LOW), ("t.max a0 b0", "if b0 > a0 then t.max a0 b1 else t.max a1 b0"), ("x", LOW), "r0 + t.max (-2) r1", False),
    # sums beside others: log-sum-exp, variance, products and their sums, matrices
    _Monoid(T2, (LOW, "0"), ("m", "a1 * t.exp (a0 - m) + b1 * t.exp (b0 - m)"), ("x", "1"), "r0 + t.log r1", False, "let m = t.max a0 b0 in "),
    _Monoid(("t", "t", "t"), ("0", "0", "0"), ("c", "(if c > 0 then a1 + (b1 - a1) * b0 / c else 0)", "(if c > 0 then a2 + b2 + (b1 - a1) * (b1 - a1) * a0 * b0 / c else 0)"), ("1", "x", "0"), "r1 + r2 / (r0 + 1)", True, "let c = a0 + b0 in "),
    _Monoid(("t", "t", "t"), ("1", "0", "1"), ("a0 * b0", "a0 * b1 + a1 * b2", "a2 * b2"), ("(0.9 * x / (1 + x * x))", "y", "0.7"), "r1 + r0"),
    _Monoid(("t", "t", "t", "t"), ("1", "0", "0", "1"), ("a0 * b0 + a1 * b2", "a0 * b1 + a1 * b3", "a2 * b0 + a3 * b2", "a2 * b1 + a3 * b3"), ("0.7", "(0.4 * x)", "(0.3 * y / (1 + y * y))", "0.5"), "r0 + r1 - r2 * r3"),
    _Monoid(T2, ("1", "0"), ("a0 * b0 - a1 * b1", "a0 * b1 + a1 * b0"), (f"{_SMALL}", "(y / (1.1 + y * y))"), "r0 + 2 * r1"),
    # the greatest sum of a segment, the longest run, brackets that are open
    _Monoid(("t", "t", "t", "t"), ("0", "0", "0", "0"), ("t.max (t.max a0 b0) (a2 + b1)", "t.max a1 (a3 + b1)", "t.max b2 (a2 + b3)", "a3 + b3"), ("t.max 0 x", "t.max 0 x", "t.max 0 x", "x"), "r0 + 0.1 * r3", False),
    _Monoid(("i64", "i64", "i64", "i64"), ("0", "0", "0", "0"), ("a0 + b0", "if a1 == a0 then a0 + b1 else a1", "if b2 == b0 then b0 + a2 else b2", "i64.max (i64.max a3 b3) (a2 + b1)"), ("1", "is[i] % 2", "is[i] % 2", "is[i] % 2"), "t.i64 (r3 * 2 + r1 - r2) * 0.1 + 0 * t.i64 r0"),
    _Monoid(("i32", "i32"), ("0", "0"), ("a0 + i32.max 0 (b0 - a1)", "b1 + i32.max 0 (a1 - b0)"), ("i32.bool (is[i] % 3 == 0)", "i32.bool (is[i] % 3 != 0)"), "t.i32 (r0 - 2 * r1) * 0.1"),
    # integers and bools
    _Monoid(("i8",), ("1",), ("a0 * b0",), ("i8.i64 (is[i] * 2 + 1)",), "t.i8 r0 * 0.01"),
    _Monoid(("u16",), ("0",), ("a0 ^ b0",), ("u16.i64 (is[i] * 77 + i)",), "t.u16 (r0 % 101) * 0.01"),
    _Monoid(("i16",), ("i16.lowest",), ("i16.max a0 b0",), ("i16.i64 (is[i] * 7 % 13 - 6)",), "t.i16 (i16.max (-9) r0) * 0.1"),
    _Monoid(("u64", "u64"), ("1", "0"), ("a0 * b0", "a1 * b0 + b1"), ("u64.i64 (2 * i + 3)", "u64.i64 is[i]"), "t.u64 (r1 % 1009) * 0.01"),
    _Monoid(("bool",), ("false",), ("a0 != b0",), ("is[i] % 3 == 1",), "t.bool r0"),
    _Monoid(("i64", "i64"), ("0", "i64.highest"), ("a0 + b0", "if a1 < b1 then a1 else b1"), ("1", "is[i] * 5 % 11"), "t.i64 (r0 + i64.min 20 r1) * 0.1"),
    _Monoid(("i64",), ("(-1)",), ("if b0 < 0 then a0 else b0",), ("if is[i] % 3 == 0 then i else -1",), "t.i64 r0 * 0.1"),
)  # fmt: skip


def _drawn(g: Gen) -> _Monoid:
    """One of the table, or two of it side by side."""
    one = g.c(*TABLE)
    if not g.p(0.12):
        return one
    two, k = g.c(*TABLE), len(one.types)

    def moved(x: str) -> str:
        for at in reversed(range(len(two.types))):
            for name in "abr":
                x = _renamed(x, f"{name}{at}", f"{name}{at + k}")
        return _renamed(_renamed(x, "m", "m2"), "c", "c2")

    return _Monoid(
        one.types + two.types, one.neutral + two.neutral, one.op + tuple(map(moved, two.op)), one.made + two.made,
        f"({one.seen}) - 0.5 * ({moved(two.seen)})", one.smooth and two.smooth, one.lets + moved(two.lets),
    )  # fmt: skip


def _renamed(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{old}\b", new, text)


def _values(v: Vectors, o: _Monoid) -> str:
    """An array of the operator's values."""
    need = "x y i"
    if any(" y" in f" {part}".replace("(", " ") for part in o.made) or v.g.p(0.3):
        return f"map3 (\\{need} -> {o.of(o.made)}) {v.view()} {v.view()} (iota n)"
    return f"map2 (\\x i -> let y = 0.5 * x in {o.of(o.made)}) {v.view()} (iota n)"


def _operator(v: Vectors, o: _Monoid) -> str:
    """The operator as a function, here or at the top."""
    text = f"{o.lets}{o.of(o.op)}"
    if v.g.p(0.3):
        name = v.g.name("op")
        v.helpers.append(f"def {name}@ ({o.parts('a')}: {o.type}) ({o.parts('b')}: {o.type}) : {o.type} = {text}\n")
        return f"{name}@"
    return f"(\\({o.parts('a')}: {o.type}) ({o.parts('b')}: {o.type}) -> {text})"


def scanned(v: Vectors) -> str:
    g, o = v.g, _drawn(v.g)
    g.smooth &= o.smooth
    e, r = g.name("e"), g.name("z")
    values, op = _values(v, o), _operator(v, o)
    if g.p(0.25):
        values = f"reverse ({values})"
    text = f"scan {op} {o.of(o.neutral)} {e}"
    if g.p(0.25):  # what is before each place
        i = g.name("i")
        text = f"let {r} = {text} in map (\\{i} -> if {i} == 0 then {o.of(o.neutral)} else {r}[{i} - 1]) (iota n)"
    shape = f"({e}: [n]({o.type}))"
    back = g.c(f"map (\\{o.parts('r')} -> {o.seen}) {r}", f"map2 (\\{o.parts('r')} x -> {g.cheap('x', f'small ({o.seen})')}) {r} {v.array()}")
    return f"let {shape} = {values} in let {r} = {text} in {back}"


def reduced(v: Vectors) -> str:
    g, o = v.g, _drawn(v.g)
    g.smooth &= o.smooth
    x, q = g.name("x"), g.name("q")
    fold = f"reduce {_operator(v, o)} {o.of(o.neutral)} ({_values(v, o)})"
    return f"let {q} = (let {o.parts('r')} = {fold} in {o.seen}) in map (\\{x} -> {g.cheap(x, f'small {q}')}) {v.array()}"


def rows(v: Vectors) -> str:
    """In each iteration of a map, of a row that the iteration makes."""
    g, o = v.g, _drawn(v.g)
    g.smooth &= o.smooth
    k, z = g.name("k"), g.name("z")
    size = g.c("3", "n", "5")
    at = "j" if size == "n" else "(j + 1) % n"
    made = o.of(o.made)
    values = f"tabulate {size} (\\j -> let i = {at} in let x = {v.array()}[i] * ({z} + 0.3) + t.i64 j * 0.0137 in let y = {v.array()}[i] - {z} in {made})"
    op = _operator(v, o)
    if g.p(0.5):
        fold = f"(let {o.parts('r')} = reduce {op} {o.of(o.neutral)} ({values}) in small ({o.seen}))"
    else:
        fold = f"small (t.sum (map (\\{o.parts('r')} -> {o.seen}) (scan {op} {o.of(o.neutral)} ({values}))))"
    return f"map2 (\\{z} {k} -> {fold} + 0.1 * t.i64 {k}) {v.view()} (iota n)"


def binned(v: Vectors) -> str:
    """In bins, where the operator commutes: of a table's those that do."""
    g = v.g
    o = g.c(*[replace(o) for o in TABLE if o.op in _COMMUTING])
    g.smooth &= o.smooth
    to = g.c("is", "map (\\k -> k / 2) is", "map (\\k -> k * 3 % n) is", "map (\\k -> k - 1) (iota n)")
    r, b = g.name("z"), o.parts("r")
    return f"let {r} = reduce_by_index (replicate n {o.of(o.neutral)}) {_operator(v, o)} {o.of(o.neutral)} ({to}) ({_values(v, o)}) in map (\\{b} -> small ({o.seen})) {r}"


_COMMUTING = {o.op for o in TABLE if o.op in (
    ("a0 * b0",), ("a0 ^ b0",), ("i16.max a0 b0",), ("a0 != b0",), ("a0 * b0 - a1 * b1", "a0 * b1 + a1 * b0"),
    ("t.max a0 b0", "if b0 > a0 then t.max a0 b1 else t.max a1 b0"), ("m", "a1 * t.exp (a0 - m) + b1 * t.exp (b0 - m)"),
    ("a0 + b0", "if a1 < b1 then a1 else b1"),
)}  # fmt: skip

MAKERS["monoids"] = (scanned, scanned, scanned, reduced, rows, binned)


def monoids(g: Gen) -> Program:
    return program_of(g, "monoids")


FAMILIES = [monoids]
