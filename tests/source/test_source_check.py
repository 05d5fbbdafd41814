"""Type and size inference: schemes of good programs, places and words for bad ones."""

from __future__ import annotations

import re

import pytest

from futad.errors import Error, FileError, ScopeError, TypeCheckError
from futad.source import ast as A
from futad.source import check_file, check_text
from futad.source.pretty import show_type
from tests.support.processor_time import within


def types(text: str) -> dict[str, str]:
    """The inferred type of each top-level definition."""
    checked = check_text(text, "t.fut")
    return {f.name: show_type(f.binding.scheme.type) for f in checked.funs if f.binding and f.binding.scheme}


def type_of(text: str) -> str:
    """The type of the last definition, its sizes and type parameters renamed in order of occurrence."""
    shown = list(types(text).values())[-1]
    names: dict[str, str] = {}
    return re.sub(r"\bd(\d+)\b", lambda m: names.setdefault(m.group(), f"d{len(names)}"), shown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f x = x", "a -> a"),
        ("def f x = x + 1", "i32 -> i32"),
        ("def f x = x + 1.5", "f64 -> f64"),
        ("def f (x: f32) = x + 1", "f32 -> f32"),
        ("def f (x: bool) y = x == y", "bool -> bool -> bool"),
        ("def f g x = g (g x)", "(a -> a) -> a -> a"),
        ("def f xs = map (\\x -> x * 2.0) xs", "[d0]f64 -> [d0]f64"),
        ("def f [n] (xs: [n]f64) (ys: [n]f64) = map2 (+) xs ys", "[n]f64 -> [n]f64 -> [n]f64"),
        ("def f (xs: []f64) (ys: []f64) = map2 (*) xs ys", "[d0]f64 -> [d0]f64 -> [d0]f64"),
        ("def f xs = reduce (+) 0 xs", "[d0]i32 -> i32"),
        ("def f n = iota n", "(n: i64) -> [n]i64"),
        ("def f n = iota (n + 1)", "(n: i64) -> [n + 1]i64"),
        ("def f (n: i64) = let m = n * 2 in iota m", "(n: i64) -> [n * 2]i64"),
        ("def f (n: i64) = replicate n (replicate 3 0f32)", "(n: i64) -> [n][3]f32"),
        ("def f (xs: []i32) : []i32 = filter (> 0) xs", "[d0]i32 -> ?[k?].[k?]i32"),
        ("def f (xs: []i32) = (\\ys : []i32 -> filter (> 0) ys) xs", "[d0]i32 -> ?[k?].[k?]i32"),
        ("def f (n: i64) : [][]i64 = let m = n + 1 in replicate m (iota n)", "(n: i64) -> [n + 1][n]i64"),
        ("def f xs = filter (> 0) xs", "[d0]i32 -> ?[k?].[k?]i32"),
        ("def f [n] (xs: [n]i32) = xs[1:]", "[n]i32 -> [n - 1]i32"),
        ("def f [n] (xs: [n]i32) = xs[:n - 1]", "[n]i32 -> [n - 1]i32"),
        ("def f (xs: [10]i32) = xs[2:5]", "[10]i32 -> [3]i32"),
        ("def f [n] (xs: [n]i32) (i: i64) = xs[i:i + 3]", "[n]i32 -> i64 -> [3]i32"),
        ("def f [n] (xs: [n]i32) = xs[::-1]", "[n]i32 -> [n]i32"),
        ("def f [n] (xs: [n]i32) (k: i32) = xs[:k]", "[n]i32 -> i32 -> ?[n?].[n?]i32"),
        ("def f [n][m] (x: [n][m]f64) = transpose x", "[n][m]f64 -> [m][n]f64"),
        ("def f [n][m] (x: [n][m]f64) = unflatten (flatten x)", "[n][m]f64 -> [n][m]f64"),
        ("def f [n][m] (x: [n][m]f64) = map (map (+ 1)) x", "[n][m]f64 -> [n][m]f64"),
        ("def f [n][m] (x: [n * m]f64) : [n][m]f64 = unflatten x", "[n * m]f64 -> [n][m]f64"),
        ("def f [n] (x: [n]f64) (y: [n + 1]f64) = map2 (+) y (x ++ [1])", None),
        ("def f b (xs: []i32) = if b then xs else [1, 2]", "bool -> [d0]i32 -> ?[n?].[n?]i32"),
        ("def f [n] b (xs: [n]i32) = if b then xs else map (+ 1) xs", "bool -> [n]i32 -> [n]i32"),
        ("def f (n: i32) = loop xs = [1] for i < n do xs ++ [i]", "i32 -> ?[n?].[n?]i32"),
        ("def f [n] (x: [n]f64) = loop x for i < 10 do map (+ 1) x", "[n]f64 -> [n]f64"),
        ("def f [n] (x: [n][n]f64) = loop x for i < 10 do transpose x", "[n][n]f64 -> [n][n]f64"),
        ("def f p = p.x + 1.0", None),
        ("def f (a: []f64) = let x = map f64.abs a in loop a for i < 9 do map (* a[i]) x", "[d0]f64 -> [d0]f64"),
        ("def f (p: {x: f64, y: i32}) = p with x = 2", "{x: f64, y: i32} -> {x: f64, y: i32}"),
        ("def f = \\(x, y) -> (y, x)", "(a, b) -> (b, a)"),
        ("def f xs = map (.0) (zip xs (indices xs))", "[d0]a -> [d0]a"),
        ("def f x = x |> f64.exp |> (+ 1)", "f64 -> f64"),
        ("def f = f64.exp >-> f64.sqrt", "f64 -> f64"),
        ("type t [n] 'a = {xs: [n]a}\ndef f [n] (x: t [n] i32) = x.xs[0]", "{xs: [n]i32} -> i32"),
        ("def f = f64.(sqrt pi + 1)", "f64"),
        ("def f [n] (xs: [n]f64) = vjp (\\x -> f64.sum x) xs 1", "[n]f64 -> [n]f64"),
        ("def f [n] (g: [n]f64 -> f64) x = vjp g x 1", "([n]f64 -> f64) -> [n]f64 -> [n]f64"),
        ("def f (x: f32) = (f64.f32 x, i64.f32 x, bool.f32 x)", "f32 -> (f64, i64, bool)"),
        ('def f = "h\\u{e9}"', "[3]u8"),
        ("def f = 0..2..<10i64", None),
        ("def f (n: i64) = 0..<n", "(n: i64) -> [n]i64"),
        ("def f (n: i64) = 1...n", "(n: i64) -> [n]i64"),
        ("def f [n] (x: []f64) = x :> [n]f64", "[d0]f64 -> [n]f64"),
        ("def g [n] (xs: [n]i32) (ys: [n]i32) = xs\ndef f a b = g (filter (> 0) a) b", None),
        ("def f [n] 'a (x: [n]a) = (x, length x)", "[n]a -> ([n]a, i64)"),
        ("def f (n: i64) (x: [n]f64) = x[0]", "(n: i64) -> [n]f64 -> f64"),
        ("def (+++) (a: f64) b = a * 2 + b\ndef f = 1 +++ 2", "f64"),
        ("def f = let g 't (x: t) = x in (g 1i8, g true)", "(i8, bool)"),
        ("def f (x: f64) = let g x = x in (g 1, g x)", "f64 -> (f64, f64)"),
        ("def f (xs: []f64) (ys: []f64) = let g x = x in (g xs, g ys)", "[d0]f64 -> [d1]f64 -> ([d0]f64, [d1]f64)"),
        ("def none = []", "[0]a"),
        (
            "def f (b: bool) (xss: [][]i32) = if b then [] : [][]i32 else xss",
            "bool -> [d0][d1]i32 -> ?[n?].[n?][d1]i32",
        ),
        ("def f b (xs: []i32) = if b then xs: []i32 else [1]", "bool -> [d0]i32 -> ?[n?].[n?]i32"),
        ("def f b (xs: []i32) = let ys: []i32 = xs in if b then ys else [1]", "bool -> [d0]i32 -> ?[n?].[n?]i32"),
        ("def none: [][]i32 = []", "[0][d0]i32"),
        ("def f (a: i64) (b: i64) = a + 1...b", "(a: i64) -> (b: i64) -> [b - ((a + 1) - 1)]i64"),
        ("def f (n: i64) = 0..2..<n", "i64 -> ?[n?].[n?]i64"),
        (
            "def f (n: i64) = let (m, _) = (n, 0) in (iota m, \\(_: [m]i64) -> iota (m + 1))",
            "i64 -> ?[m].([m]i64, [m]i64 -> [m + 1]i64)",
        ),
        ("def g [n] (xs: [n + 1]i64) = n\ndef f = g [1, 2, 3]", "i64"),
        ("def f (n: i64) = tabulate_2d n 3 (\\i j -> i * j)", "(n: i64) -> [n][3]i64"),
        ("type o = #none | #some i32\ndef f (x: o) = match x case #none -> 0 case #some y -> y", None),
    ],
)
def test_inference(text: str, expected: str | None) -> None:
    if expected is None:
        try:
            types(text)
        except Error as err:
            assert err.span is not None
        return
    assert type_of(text) == expected


@pytest.mark.parametrize(
    ("text", "kind", "place", "words"),
    [
        ("def f = x", ScopeError, (1, 9), ["unknown name 'x'"]),
        ("def f xs = mapp id xs", ScopeError, (1, 12), ["did you mean 'map'"]),
        ("def f (x: f65) = x", ScopeError, (1, 11), ["unknown type", "did you mean 'f64'"]),
        ("def f = f64.exq 1", ScopeError, (1, 9), ["no member 'exq'", "f64.exp"]),
        ("def f (xs: [n]f64) = xs", ScopeError, (1, 13), ["unknown size 'n'", "[n]"]),
        ("def f = 1i32 + 2i64", TypeCheckError, (1, 16), ["argument 2 of '+'", "expected i32", "found i64"]),
        ("def f = if 1 then 2 else 3", TypeCheckError, (1, 12), ["condition of 'if'", "bool"]),
        ("def f = if true then 1 else 2.5f32 > 1", TypeCheckError, (1, 29), ["branches", "bool"]),
        ("def f = map f64.exp 1.0", TypeCheckError, (1, 21), ["argument 2 of 'map'", "[]f64"]),
        ("def f (x: i32) = f64.abs y x", ScopeError, (1, 26), ["'y'"]),
        ("def f (x: i32) = x 1", TypeCheckError, (1, 18), ["not a function", "i32"]),
        ("def f = true 3", TypeCheckError, (1, 9), ["what is applied here is not a function", "bool"]),
        ("def f (x: {a: i32}) = (.a[0]) x", TypeCheckError, (1, 31), ["expected {a: []_, ...}", "found {a: i32}"]),
        ("def g x = x + 1\ndef f = g 1 2", TypeCheckError, (2, 13), ["takes 1 argument", "2 are given"]),
        ("def f [n][m] (x: [n]f64) (y: [m]f64) = map2 (+) x y", TypeCheckError, (1, 51), ["[n]f64", "[m]f64", ":>"]),
        ("def f [n] (x: [n]f64): [n+1]f64 = x", TypeCheckError, (1, 35), ["[n + 1]f64", "[n]f64"]),
        ("def f (xs: []i32) = map2 (+) (filter (> 0) xs) xs", TypeCheckError, (1, 48), ["size", "call's result"]),
        ("def f (xs: [][]i32) = map (filter (> 0)) xs", TypeCheckError, (1, 28), ["differ"]),
        ("def f (ns: []i64) = map iota ns", TypeCheckError, (1, 25), ["'n'"]),
        ("def f = [1, true]", TypeCheckError, (1, 13), ["elements of an array"]),
        ("def f = [\\x -> x + 1]", TypeCheckError, (1, 10), ["functions cannot be put into arrays"]),
        ("def f (x: {a: i32}) = x.b", TypeCheckError, (1, 23), ["no field 'b'"]),
        ("def f (x: {alpha: i32}) = x.alpa", TypeCheckError, (1, 27), ["did you mean 'alpha'"]),
        ("def f x = x.a", TypeCheckError, (1, 7), ["annotate"]),
        ("def f (x: i32) = x[0]", TypeCheckError, (1, 18), ["only arrays"]),
        ("def f (x: []i32) = x[0, 1]", TypeCheckError, (1, 20), ["1 dimension"]),
        ("def f (x: []i32) = x[1.5]", TypeCheckError, (1, 22), ["an index", "integer"]),
        ("def f (x, x) = x", ScopeError, (1, 11), ["bound twice"]),
        ("def f x x = x", TypeCheckError, (1, 9), ["declared twice"]),
        ("def f (x: (i32, i32)) = let (a, b, c) = x in a", TypeCheckError, (1, 29), ["tuple of 3"]),
        ("entry f x = x", TypeCheckError, (1, 1), ["polymorphic"]),
        ("entry f (g: i32 -> i32) = g 1", TypeCheckError, (1, 10), ["function"]),
        ("def f xs n = zip xs (iota n)", TypeCheckError, (1, 10), ["not known before it", "earlier parameter"]),
        ("def f [n] (x: i32) = n", TypeCheckError, (1, 7), ["'n' of 'f' does not occur"]),
        ("def f = length (rep 0)", TypeCheckError, (1, 9), ["cannot be inferred"]),
        ("def f = x where y", ScopeError, (1, 9), ["'x'"]),
        ("type t = []i32", TypeCheckError, (1, 1), ["unknown size", "type~"]),
        ("type t [n] = [n]i32\ndef f (x: t) = x", TypeCheckError, (2, 11), ["takes 1 argument"]),
        ("def f (x: i32) = x : f32", TypeCheckError, (1, 18), ["f32", "i32"]),
        ("def f = loop x = 0 for i < 10 do true", TypeCheckError, (1, 34), ["loop"]),
        ("def f [n] (x: [n]i32) = loop (y: [n]i32) = x for i < 3 do y ++ y", TypeCheckError, (1, 59), ["size"]),
        ("def f (b: bool) = if b then (\\x -> x + 1) else (\\x -> x)", TypeCheckError, (1, 19), ["function"]),
        ("def f (x: bool) = match x case true -> 1", TypeCheckError, (1, 19), ["false"]),
        ("def f (1, x) = x", TypeCheckError, (1, 7), ["match every value"]),
        ("def f = 300: u8", TypeCheckError, (1, 9), ["does not fit in u8"]),
        ("def f x = x x", TypeCheckError, (1, 11), ["infinite"]),
        ("def f 'a 'a (x: a) = x", TypeCheckError, (1, 10), ["declared twice"]),
        ("def f 'a (x: a) = x + x", TypeCheckError, (1, 19), ["number"]),
        ("def f (x: i64) = replicate true x", TypeCheckError, (1, 28), ["i64", "bool"]),
        ("def f [n] (x: [n]i32) = x with [0] = 1.5", TypeCheckError, (1, 38), ["new value"]),
        ('def f = 1 / "a"', TypeCheckError, (1, 13), ["argument 2"]),
        ("def f = \\x -> -x : bool", TypeCheckError, (1, 15), ["bool"]),
        ("def f = let g x = x in (g 1i8, g true)", TypeCheckError, (1, 32), ["'g' is used for bool", "let g 't"]),
        ("def f x = let [n] (n: [n]i32) = x in n", ScopeError, (1, 11), ["'n' is bound twice"]),
        ("def f x = loop [n] (n: [n]i32) = x for _i < 3i32 do n", ScopeError, (1, 11), ["'n' is bound twice"]),
        ("def f n: [n]i64 = 1..2..<n + 1", TypeCheckError, (1, 19), ["the length of a range"]),
        ("def f [n] (xs: [n]i32): [n]i64 = iota (length xs)", TypeCheckError, (1, 34), ["size length xs"]),
        ("def g [n] (xs: [n + 1]i64) = n\ndef f [m] (xs: [m]i64) = g xs", TypeCheckError, (2, 28), ["[_ + 1]i64"]),
        ("def f (x: i64, _: bool): [0][x]i32 = []", TypeCheckError, (1, 26), ["only a part of a parameter"]),
        (
            "def f (b: bool) = let (n, _) = if b then (1, 0) else (2, 0) in \\(_: [n]bool) -> 1",
            TypeCheckError,
            (1, 1),
            ["a function whose parameter has size n"],
        ),
        ("def f: (k: i64) -> [k]i32 -> i64 = \\_ xs -> length xs", TypeCheckError, (1, 39), ["does not name"]),
        ("type^ t = []bool -> bool", TypeCheckError, (1, 11), ["parameter has an unknown size"]),
        ("def f 'a '~b (g: a -> b) (x: a) = [g x]", TypeCheckError, (1, 36), ["'b is a lifted type"]),
        ("def f '~b (x: b) = copy x", TypeCheckError, (1, 25), ["'b is a lifted type"]),
        (
            "def f (b: bool) (xs: []i32) = if b then filter (> 0) xs else ???",
            TypeCheckError,
            (1, 62),
            ["needs the size k?"],
        ),
        (
            "def g [n] (_: [n]i32 -> i32) (_: [n]i32) = 0\ndef f (xs: []i32) = g (\\_ -> 0) <| filter (> 0) xs",
            TypeCheckError,
            (2, 24),
            ["this function's parameter, a [k?]i32"],
        ),
        (
            "type^ o 'a = #none | #some a\n"
            "def f (b: bool) (xs: []i32): o ([]i32) = if b then #none else #some (filter (> 0) xs)",
            TypeCheckError,
            (2, 52),
            ["'#none'", "before it is computed"],
        ),
        ("def f = [1] ++ (([2] ++) <| loop xs = [] for _i < 9i32 do xs ++ xs)", TypeCheckError, (1, 17), ["n?"]),
        (
            "type~ s = #a ([]i32) | #b ([]i32)\ndef f xs = let v: s = #a xs in v == v",
            TypeCheckError,
            (2, 19),
            ["this size"],
        ),
        ("def f = let [n][m] (xs: [n][m]i64) = [] in (n, m)", TypeCheckError, (1, 9), ["size 'm' cannot be"]),
        (
            "def f = let [n] (g: [n]i32 -> i32) = (\\(_: [3]i32) -> 1) in (n, g [1, 2, 3])",
            TypeCheckError,
            (1, 9),
            ["'n'"],
        ),
        ("entry f (b: bool): []i32 = if b then ??? else ???", TypeCheckError, (1, 1), ["size that nothing determines"]),
        ("def f [n] = (iota n, filter (> 5) (iota n))", TypeCheckError, (1, 1), ["size parameter (n)"]),
    ],
)
def test_errors(text: str, kind: type[Error], place: tuple[int, int], words: list[str]) -> None:
    with pytest.raises(Error) as got:
        check_text(text, "t.fut")
    err = got.value
    assert isinstance(err, kind), repr(err)
    assert err.span is not None and (err.span.line, err.span.col) == place, str(err)
    assert err.source_line == text.split("\n")[place[0] - 1]
    for w in words:
        assert w in str(err), str(err)


def test_result_for_lowering() -> None:
    checked = check_text("def h [n] (x: [n]f64) = x[0]\nentry main (y: []f64) = h y + f64.pi", "t.fut")
    h, main = checked.funs
    assert checked.entries == [main]
    body = main.body
    assert isinstance(body, A.EApp) and isinstance(body.fun, A.EApp) and isinstance(body.fun.arg, A.EApp)
    call = body.fun.arg.fun
    assert isinstance(call, A.EVar) and call.binding is h.binding and len(call.sargs) == 1
    assert isinstance(body.arg, A.EVar) and body.arg.binding is not None and body.arg.binding.kind == "intrinsic"
    assert main.implicit and main.implicit[0].kind == "size"


def test_imports(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.fut").write_text('import "b"\ndef twice x = scale 2 x\nlocal def hidden = 1\n')
    (tmp_path / "lib" / "b.fut").write_text("def scale (k: f64) x = k * x\n")
    (tmp_path / "main.fut").write_text('import "lib/a"\nentry main x = twice x\n')
    checked = check_file(tmp_path / "main.fut")
    assert [f.name for f in checked.funs] == ["scale", "twice", "hidden", "main"]
    (tmp_path / "bad.fut").write_text('import "lib/a"\ndef f = hidden\n')
    with pytest.raises(ScopeError, match="hidden"):
        check_file(tmp_path / "bad.fut")
    (tmp_path / "none.fut").write_text('def a = 1\nimport "nowhere"\n')
    with pytest.raises(FileError, match="nowhere") as missing:
        check_file(tmp_path / "none.fut")
    assert missing.value.span is not None and missing.value.span.line == 2
    (tmp_path / "c1.fut").write_text('import "c2"\n')
    (tmp_path / "c2.fut").write_text('import "c1"\n')
    with pytest.raises(ScopeError, match="cycle"):
        check_file(tmp_path / "c1.fut")
    with pytest.raises(FileError, match="no such file"):
        check_file(tmp_path / "absent.fut")
    (tmp_path / "latin.fut").write_bytes(b"def f = 1\n-- \xe9\n")
    with pytest.raises(FileError, match="UTF-8") as latin:
        check_file(tmp_path / "latin.fut")
    assert latin.value.span is not None and (latin.value.span.line, latin.value.span.col) == (2, 4)


@pytest.mark.slow
def test_five_hundred_lines_check_quickly() -> None:
    block = """
def f{i} [n][m] (xs: [n][m]f64) (w: [m]f64) : [n]f64 =
  let dot a b = f64.sum (map2 (*) a b)
  let ys = map (\\row -> dot row w) xs
  let k = f64.i64 (n + {i})
  in map (\\y -> if y > k then f64.exp (-y) else y / k + 1) ys
"""
    text = "".join(block.replace("{i}", str(i)) for i in range(84))
    assert text.count("\n") > 500
    check_text("def warm = 1", "t.fut")
    assert within(2, lambda: check_text(text, "t.fut"))


@pytest.mark.parametrize("rhs", ["x + x", "x * x + 1", "(x ^ (x >> 16)) * 0x45d9f3b", "i64.max x x + i64.min x 1"])
def test_long_chains_of_sizes_stay_cheap(rhs: str) -> None:
    text = "def f (x: i64) =\n" + f"  let x = {rhs}\n" * 60 + "  in iota x"
    assert within(1, lambda: check_text(text, "t.fut"))
