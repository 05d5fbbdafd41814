"""Operators of folds in typed programs: recognised in all forms, as those of core are; and what folds by them may not
begin with."""

from __future__ import annotations

import pytest

from futad.core import ir
from futad.core.operator import operators_of
from futad.errors import Lint
from futad.pipeline import compile_program
from futad.source import ast as A
from futad.source import check_text, compile_text, load_program
from futad.source.operators import components
from tests.support.paths import ROOT

# Operators, by the type of what they combine, with the operations of their components.
OPERATORS = [
    ("f64", "(+)", "add"),
    ("i32", "(i32.*)", "mul"),
    ("f64", "\\a b -> a + b", "add"),
    ("f64", "\\a b -> b * a", "mul"),
    ("f64", "\\a b -> let s: f64 = a + b in s", "add"),
    ("f64", "\\a -> \\b -> (a + b: f64)", "add"),
    ("f64", "plus", "add"),
    ("f64", "apart 3", None),
    ("f64", "later", "add"),
    ("u8", "(^)", "xor"),
    ("f64", "f64.max", "max"),
    ("f64", "\\a b -> b - a", None),
    ("f64", "\\a b -> a - b", "sub"),
    ("f64", "\\a b -> a + a", None),
    ("f64", "\\a b -> a + b + a", None),
    ("f64", "\\a b -> a + 2 * b", None),
    ("f64", "\\_ b -> b", None),
    ("[2]f64", "map2 (+)", "add"),
    ("[2]f64", "\\a b -> map2 (*) b a", "mul"),
    ("[2]f64", "\\a b -> map2 (\\x y -> y + x) a b", "add"),
    ("[2][3]f64", "map2 (map2 plus)", "add"),
    ("[2]f64", "rows", "add"),
    ("[2]f64", "\\a b -> map2 (+) a (reverse b)", None),
    ("[2]f64", "\\a b -> map2 (\\x _ -> x + a[0]) a b", None),
    ("(f64, i64)", "\\(a, i) (b, j) -> (a * b, i + j)", "mul add"),
    ("(f64, i64)", "\\p q -> (p.0 + q.0, q.1 * p.1)", "add mul"),
    ("(f64, i64)", "\\p q -> let (a, i) = p let (b, j) = q in (plus a b, i + j)", "add add"),
    ("(f64, f64)", "\\(a, b) (c, d) -> (b + d, a + c)", None),
    ("(f64, [2]f64)", "\\(a, r) (b, q) -> (a + b, map2 (*) r q)", "add mul"),
    ("{x: f64, y: f64}", "\\p q -> {x = p.x + q.x, y = q.y + p.y}", "add add"),
    ("{x: f64, y: f64}", "\\{x, y} q -> {x = x + q.x, y = y * q.y}", "add mul"),
]
HELPERS = """
def plus (a: f64) (b: f64) = b + a
def apart (w: f64) (a: f64) (b: f64) = a + w * b
def later = plus
def rows (a: [2]f64) (b: [2]f64) = map2 plus a b
"""



def reduced(op: str, of: str) -> str:
    return f"{HELPERS}\nentry main [n] (z: {of}) (xs: [n]{of}) = reduce ({op}) z xs"


@pytest.mark.parametrize("of, op, want", OPERATORS)
def test_they_are_those_of_core(of: str, op: str, want: str | None) -> None:
    text = reduced(op, of)
    main = next(f for f in check_text(text).funs if f.name == "main")
    assert type(main.body) is A.EApp and type(main.body.fun) is A.EApp and type(main.body.fun.fun) is A.EApp
    found = [c for _, c in sorted(components(main.body.fun.fun.arg, {}).items())]
    core = compile_program(compile_text(text), stop_after="simplify-inlined")
    (lam,) = [s.exp.lam for s in core.funs["main"].body.stms if isinstance(s.exp, ir.Reduce)]
    assert [c.operator.op for c in found] == (want or "").split()
    assert tuple(c.operator for c in found) == (operators_of(lam) or ())


HEAD = """
module nums = { module t = f64 }
def plus (a: f64) (b: f64) = b + a
def two: f64 = 2
def none: f64 = 0
def zeros () = [none, 0, 0f64]
"""
# What follows, and what of it the warning is at.
SEEN = [
    ("def f (z: [2]f64) (xs: [][2]f64) = reduce (map2 (+)) z xs", "z xs"),
    ("def f (xs: [][2]f64) = reduce (map2 (+)) [0, 1] xs", "[0, 1]"),
    ("def f [k] (xs: [][k]f64) = reduce (map2 (+)) (replicate k 1) xs", "(replicate k 1)"),
    ("def f [k] (xs: [][k]f64) = let ones = rep 1 in scan (map2 (+)) ones xs", "ones xs"),
    ("def f [k] (xs: [][k]f64) = reduce (\\r q -> map2 (*) q r) (replicate k 0) xs", "(replicate k 0)"),
    ("def f (x: f64) (xs: []f64) = reduce (\\a b -> a + b) x xs", "x xs"),
    ("def f (x: f64) (xs: []f64) = reduce (\\a b -> let s = b + a in s) x xs", "x xs"),
    ("def f (x: f64) (xs: []f64) = xs |> reduce_comm plus x", "x"),
    ("def f (x: f64) (xs: []f64) = let add a b = plus a b in reduce add x xs", "x xs"),
    ("def f (xs: []f64) = reduce plus two xs", "two xs"),
    ("def f (xs: []f64) = exscan (+) (-1) xs", "(-1)"),
    ("def f (xs: []f64) = reduce (nums.t.+) (nums.t.i64 3) xs", "(nums.t.i64 3)"),
    ("def f (xs: []f64) = let x = xs[0] in reduce (+) x xs", "x xs"),
    ("def f [n] (xs: [n]i64) = reduce (+) n xs", "n xs"),
    ("def f (xs: []u8) = reduce (^) 7 xs", "7"),
    ("def f (p: {x: f64}) (xs: []f64) = reduce (+) p.x xs", "p.x xs"),
    ("def f (p: (f64, f64)) (xs: []f64) = let (a, _) = p in reduce (+) a xs", "a xs"),
    ("def f (x: f64) (xs: [](f64, i64)) = reduce (\\(a, i) (b, j) -> (a + b, i64.max i j)) (x, 0) xs", "x, 0"),
    ("def f (xs: [](f64, i64)) = reduce (\\p q -> (p.0 * q.0, p.1 + q.1)) (0, 0) xs", "0, 0)"),
    ("def f (xs: []{a: f64}) = reduce (\\p q -> {a = p.a + q.a}) {a = 1} xs", "1}"),
    ("def f (is: []i64) (xs: []f64) = hist (+) 1 9 is xs", "1 9"),
    ("def f (x: f64) (is: []i64) (xs: []f64) = reduce_by_index (replicate 9 5) plus x is xs", "x is"),
    ("def f (xs: []f64) = loop s = 0 for i < 3 do reduce (+) (f64.i64 i) xs", "(f64.i64 i)"),
    ("def f (o: #a f64 | #b) (xs: []f64) = match o case #a x -> reduce (+) x xs case #b -> 0", "x xs"),
    ("def f (xs: []f64) = let g x = reduce (+) x xs in g 0", "x xs"),
]


@pytest.mark.parametrize("text, at", SEEN)
def test_what_folds_may_not_begin_with_is_seen(text: str, at: str) -> None:
    warnings = folds(HEAD + text)
    line = HEAD.count("\n") + 1
    assert len(warnings) == 1 and warnings[0].span is not None
    start = text.rindex(at) + at.startswith("(")
    assert (warnings[0].span.line, warnings[0].span.col) == (line, start + 1)
    unit = 1 if "'*'" in str(warnings[0]) else 0
    assert f"has to begin with {unit}: each thread begins with this value" in str(warnings[0])


UNSEEN = [
    "def f [k] (xs: [][k]f64) = reduce (map2 (+)) (replicate k 0) xs",
    "def f (xs: [][2]f64) = reduce (map2 (*)) [1, 1.0] xs",
    "def f (xs: [][3]f64) = reduce (map2 (+)) (zeros ()) xs",
    "def f (z: [2]f64) (xs: [][2]f64) = reduce (map2 f64.max) z xs",
    "def f (z: [2]f64) (xs: [][2]f64) = reduce (\\a b -> map2 (+) (map2 (*) z a) b) z xs",
    "def f (xs: []f64) = reduce plus none xs",
    "def f (xs: []f64) = exscan (+) (-0.0) xs",
    "def f (xs: []f64) = let z = none in reduce (+) z xs",
    "def f (xs: []f64) = reduce (nums.t.+) (nums.t.i64 0) xs",
    "def f (x: f64) (xs: []f64) = reduce (+) (x - x) xs",
    "def f (x: f64) (xs: []f64) = foldl plus x xs",
    "def f (x: f64) (xs: []f64) = reduce (\\a b -> a + b + 0.5 * a * b) x xs",
    "def f (op: f64 -> f64 -> f64) (x: f64) (xs: []f64) = reduce (\\a b -> op a b) x xs",
    "def f (x: f64) (xs: [](f64, f64)) = reduce (\\(a, m) (b, l) -> (a + b, f64.max m l)) (0, x) xs",
    "def f (xs: []bool) = reduce (||) true xs",
    "def f (xs: []u8) = reduce (|) 7 xs",
    "def f (xs: []i64) = reduce (\\a b -> if a == 0 then b else a) 7 xs",
    "def f (is: []i64) (xs: []f64) = reduce_by_index (replicate 9 5) (+) 0 is xs",
    "def f 'a (op: a -> a -> a) (x: a) (xs: []a) = reduce op x xs",
    "def add 't (plus: t -> t -> t) (x: t) (y: t) = plus x y\ndef f (x: f64) (xs: []f64) = reduce (add (-)) x xs",
]


@pytest.mark.parametrize("text", UNSEEN)
def test_what_they_may_begin_with_is_left_alone(text: str) -> None:
    assert folds(HEAD + text) == []


def folds(text: str) -> list[Lint]:
    return [w for w in check_text(text).warnings if "a fold by" in str(w)]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["tests/programs", "benchmarks", "futad/library"])
def test_no_program_is_warned_of(folder: str) -> None:
    warned: list[Lint] = []
    files = sorted((ROOT / folder).rglob("*.fut"))
    for path in files:
        load_program(path, warned.append)
    assert len(files) > 5
    assert [str(w) for w in warned if "a fold by" in str(w)] == []
