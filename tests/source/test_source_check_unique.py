"""Consumption: what may be updated in place, and what may be used afterwards."""

from __future__ import annotations

import pytest

from futad.errors import ConsumptionError
from futad.source import check_text


@pytest.mark.parametrize(
    "text",
    [
        "def f (xs: *[]i32) = xs with [0] = 1",
        "def f (xs: *[]i32) = let xs[0] = 1 let xs[1] = xs[0] in xs",
        "def f (xs: []i32) = copy xs with [0] = 1",
        "def f (n: i64) = iota n with [0] = 1",
        "def f (xs: *[]i32) = (xs with [1] = xs[0]) with [0] = 2",
        "def f (xs: *[]i32) n = loop xs for i < n do xs with [i] = i",
        "def f (xs: []i32) n = loop ys = copy xs for i < n do ys with [i] = xs[i]",
        "def f [n] (xs: *[n]i32) (is: [n]i64) = scatter xs is (copy xs)",
        "def f [n] (is: [n]i64) = reduce_by_index (replicate 10 0) (+) 0 is (map i32.i64 is)",
        "def g (xs: *[]i32) = xs with [0] = 1\ndef f (xs: []i32) = g (map (+ 1) xs)",
        "def f (p: {a: *[]i32, b: []i32}) = let q = p.a with [0] = 1 in (q, p.b)",
        "def f (p: *{a: []i32, b: []i32}) = let q = p.a with [0] = 1 in (q, p.b)",
        "def f (x: *[]i32) b = if b then x with [0] = 1 else x with [0] = 2",
        "def f (xss: *[][]i32) = xss with [0] = copy xss[1]",
        "def f (xs: []i32) : *[]i32 = map (+ 1) xs",
        "def g xs = map (+ 1) xs\ndef f (xs: []i32) = g xs with [0] = 1",
        "def f (xss: [][]i32) = map (\\xs -> copy xs with [0] = 1) xss",
        "def f (n: i64) = loop (a, b) = (iota n, iota n) for i < n do (b with [i] = 0, a)",
        "def g x = (x, 1)\ndef f (xs: *[]i32) = let (a, _) = g 2 in xs with [0] = a",
    ],
)
def test_allowed(text: str) -> None:
    check_text(text, "t.fut")


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("def f (xs: []i32) = xs with [0] = 1", (1, 21), ["parameter that is not unique", "copy xs"]),
        ("def f (xs: *[]i32) = let ys = xs with [0] = 1 in xs", (1, 50), ["'xs'", "line 1, column 31"]),
        ("def f (xs: *[]i32) = let zs = xs[1:] let ys = xs with [0] = 1 in zs", (1, 66), ["'zs'", "'xs'"]),
        ("def f (xs: *[]i32) = map (\\i -> xs with [i] = 1) (iota 3)", (1, 33), ["lambda"]),
        ("def f (xs: *[]i32) n = loop y = 0 for i < n do let z = xs with [0] = y in z[0]", (1, 56), ["a loop"]),
        ("def f n = let xs = iota n in loop ys = xs for i < n do ys with [i] = xs[0]", (1, 40), ["inside the loop"]),
        ("def f n = let xs = iota n let ys = loop ys = xs for i < n do ys with [i] = 0 in xs", (1, 81), ["'xs'"]),
        ("def f (xs: *[]i32) = let g i = xs[i] let ys = xs with [0] = 1 in g 0", (1, 66), ["'g'", "'xs'"]),
        ("def f (xs: []i32) : *[]i32 = xs", (1, 30), ["unique", "'xs'", "copy"]),
        ("def f (xs: *[]i32) : (*[]i32, *[]i32) = (xs, xs)", (1, 41), ["shares 'xs'"]),
        ("def g (xs: *[]i32) = xs[0]\ndef f (xs: *[]i32) = g xs + xs[0]", (2, 29), ["'xs'"]),
        ("def g (xs: *[]i32) (y: []i32) = xs\ndef f (xs: *[]i32) = g xs xs", (2, 27), ["another"]),
        ("def g ((a, b): (*[]i32, []i32)) = a\ndef f (xs: *[]i32) = g (xs, xs)", (2, 24), ["share 'xs'"]),
        ("def f (xs: *[]i32) = scatter xs (indices xs) xs", (1, 46), ["another"]),
        ("def f (xss: *[][]i32) = xss with [0] = xss[1]", (1, 40), ["overwrites"]),
        ("def c = [1, 2]\ndef f x = c with [0] = x", (2, 11), ["constant"]),
        ("def c = [1, 2]\ndef g () = c\ndef f x = g () with [0] = x", (2, 12), ["constant"]),
        ("def g (xs: *[]i32) = xs[0]\ndef f (xss: [][]i32) = map g xss", (2, 28), ["consumes its argument"]),
        ("def g (x: *[]i32) (i: i64) = x[i]\ndef f (x: *[]i32) = map (g x) [0, 1]", (2, 28), ["partial"]),
        ("def f (x: *[]i32) b = let y = if b then x with [0] = 1 else [2] in (x, y)", (1, 69), ["'x'"]),
        ("def f (p: *{a: []i32, b: []i32}) = let q = p.a with [0] = 1 in p.a", (1, 64), ["'p.a'"]),
        ("def c = [1, 2]\ndef f b = if b then c else [3, 4]", (2, 11), ["the result of 'f'", "constant 'c'", "copy c"]),
        ("def c = [1, 2]\ndef f = \\b -> if b then c else [3, 4]", (2, 15), ["this lambda", "constant 'c'"]),
        ("def c = [1, 2]\ndef f (x: i32) = let g (y: i32) = (y, c) in g x", (2, 35), ["'g'", "constant 'c'"]),
        (
            "def f n = loop (a, b) = (iota n, iota n) for i < n do let c = b with [0] = a[0] in (c, c)",
            (1, 55),
            ["share 'c'"],
        ),
    ],
)
def test_refused(text: str, place: tuple[int, int], words: list[str]) -> None:
    with pytest.raises(ConsumptionError) as got:
        check_text(text, "t.fut")
    err = got.value
    assert err.span is not None and (err.span.line, err.span.col) == place, str(err)
    for w in words:
        assert w in str(err), str(err)
