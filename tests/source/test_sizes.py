"""Sizes that no array can have: an error with its place, wherever the array would be, also if nothing makes it."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.errors import AssertionFailed
from futad.runtime import cc
from tests.support.needs import has_cxx

SOURCE = """
entry outside (n: i64) = replicate n 1i32
entry in_map (n: i64) = map (\\m -> i64.sum (map (\\i -> i * i) (iota m))) [2, n]
entry of_map (n: i64) = map (\\m -> i64.sum (tabulate m (\\i -> i * i))) [2, n]
entry unused (n: i64) = map (\\m -> let xs = scan (+) 0 (replicate m 1i64) in if m < 0 then 5 else xs[m - 1]) [2, n]
entry in_loop (n: i64) = loop s = 0 for i < 3 do s + i64.sum (scan (+) 0 (iota (n + 2 - i)))
entry in_branch (n: i64) = if n > 3 then 0 else i64.sum (scan (+) 0 (iota (n + i64.bool (n == 1))))
entry bins (n: i64) = map (\\m -> i32.sum (reduce_by_index (replicate m 0) (+) 0 [1, 2] [1i32, 1])) [2, n]
def inner (n: i64): []i64 = scan (+) 0 (iota n)
entry called (n: i64) = map (\\m -> i64.sum (inner m)) [2, n]
"""
PRODUCTS = """
entry two (n: i64) (m: i64) = length (flatten (replicate n (replicate m 0i32)))
entry three (n: i64) (m: i64) = length (flatten_3d (replicate n (replicate m (replicate 1024 0i32))))
entry mapped (n: i64) (m: i64) = length (flatten (map (\\i -> map (* i) (iota m)) (iota n)))
entry each (n: i64) (m: i64) = map (\\k -> length (flatten (replicate n (replicate (m * k) 0i32)))) [1, 1]
entry given [n][m] (xs: [n][m]i64) = length (flatten (transpose xs))
"""
BACKENDS = ["interp", *(["c"] if cc.compiler_available() else []), *(["emulated"] if has_cxx() else [])]


def line_of(entry: str, source: str) -> int:
    before = source[: source.index(f"entry {entry} ")]
    return before.count("\n") + 1 - (entry == "called")


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_negative(backend: str) -> None:
    program = futad.compile(SOURCE, "sizes.fut", backend=backend)
    for entry in program:
        program[entry](1)
        text = r"Range 0\.\.1\.\.<-\d is invalid: an array of negative size is needed"
        with pytest.raises(AssertionFailed, match=text) as e:
            program[entry](-1)
        assert e.value.span is not None and e.value.span.line == line_of(entry, SOURCE), entry


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_too_large(backend: str) -> None:
    program = futad.compile(PRODUCTS, "sizes.fut", backend=backend)
    for entry in ("two", "three", "mapped", "each"):
        factor = 1024 if entry == "three" else 1
        for n, m in ((3, 4), (0, 1 << 62), (1 << 62, 0), (1 << 20, 1 << 20)):
            assert np.all(program[entry](n, m) == n * m * factor), (entry, n, m)
        for n, m in ((1 << 32, 1 << 32), (1 << 31, 1 << 32), (3 << 40, 7 << 40), (1 << 30, 1 << 30)):
            with pytest.raises(AssertionFailed, match=f"{n} times {m}.* elements exceeds the address space") as e:
                program[entry](n, m)
            assert e.value.span is not None and e.value.span.line == line_of(entry, PRODUCTS), entry
    assert program["given"](np.zeros((3, 4), int)) == 12
    assert "exceeds" not in str(futad.compile(PRODUCTS.splitlines()[-1], backend="interp")["given"].unit.core)


JOINED = """
entry two (n: i64) (m: i64) = length (replicate n 1u8 ++ replicate m 2u8)
entry units (n: i64) (m: i64) = length (map (\\_ -> 1u8) (replicate n () ++ replicate m ()))
entry rows (n: i64) (m: i64) = length (replicate n [1u8, 2] ++ replicate m [3, 4])
entry mapped (n: i64) (m: i64) = map (\\k -> length (iota (k + n) ++ iota m)) [0, 0]
entry of_rows (n: i64) (m: i64) = map (\\row -> length (row ++ replicate m 1u8)) (replicate 2 (replicate n 0u8))
entry sliced (n: i64) (m: i64) = length ((replicate n 0u8)[0:] ++ copy (replicate m 1u8)[:m])
entry given [n] (xs: [n]i64) (ys: []i64) = (map (* 2) xs ++ [1] ++ ys)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_joined(backend: str) -> None:
    """The number of elements of two arrays together, whether or not anything makes them."""
    program = futad.compile(JOINED, "sizes.fut", backend=backend)
    most = (1 << 63) - 1
    for entry in ("two", "units", "rows", "mapped", "of_rows", "sliced"):
        for n, m in ((3, 4), (0, most), (most, 0), (most - 5, 5), (1 << 62, (1 << 62) - 1)):
            assert np.all(program[entry](n, m) == n + m), (entry, n, m)
        for n, m in ((most, 1), (1, most), (1 << 62, 1 << 62), (most, most)):
            with pytest.raises(AssertionFailed, match=f"an array of {n} and {m} elements has more") as e:
                program[entry](n, m)
            assert e.value.span is not None and e.value.span.line == line_of(entry, JOINED), entry
    np.testing.assert_array_equal(program["given"]([1, 2], [7]), [2, 4, 1, 7])
    assert "elements has more" not in str(futad.compile(JOINED.splitlines()[-1], backend="interp")["given"].unit.core)


HEAD = """
def app '~a (f: (() -> a) -> a) (x: () -> a) : a = f x
def one '~a (f: (i64 -> a) -> a) (x: i64 -> a) : a = f x
def two '~a (f: (i64 -> a) -> a) (x: i64 -> a) : (a, a) = (x 1, f x)
def late '~a (x: i64 -> a) (f: (i64 -> a) -> a) : a = f x
def either '~a (p: bool) (f: () -> a) (g: () -> a) : a = if p then f () else g ()
def often '~a (n: i64) (f: (() -> a) -> a) (x: () -> a) : a = loop x = x () for _i < n do f (\\() -> x)
def call (g: () -> []i64) = g ()
def replaced [n] (a: {s: [0][n]i64, t: i64}) : {s: [0][2]i64, t: i64} = a with s = []
"""
# Sizes are coerced, replaced and left open: an expression of `xs`, which is [1, -2, 3], and what it is.
OPEN = [
    ("let [k] (w: [k]i64) = xs in filter (> -9) w :> [k]i64", [1, -2, 3]),
    ("let [k] (w: [k]i64) = xs in map2 (+) w (iota 3 :> [k]i64)", [1, -1, 5]),
    ("(\\(u: []i64) -> let [k] (w: [k]i64) = u in map2 (+) w (iota 3 :> [k]i64)) xs", [1, -1, 5]),
    ("(replaced {s = replicate 0 xs, t = 3}).t |> iota", [0, 1, 2]),
    ("let f r y = r with a = y in (f {a = xs, b = 2i64} xs).a", [1, -2, 3]),
    ("app (\\g -> g ()) (\\() -> xs)", [1, -2, 3]),
    ("app (\\(g: () -> []i64) -> g ()) (\\() -> xs)", [1, -2, 3]),
    ("app call (\\() -> filter (> 0) xs)", [1, 3]),
    ("app (\\(g: () -> []i64) -> g () ++ g ()) (\\() -> filter (> 2) xs)", [3, 3]),
    ("one (\\(g: i64 -> []i64) -> g 1 ++ g 2) (\\i -> xs[:i])", [1, 1, -2]),
    ("let (a, b) = two (\\(g: i64 -> []i64) -> g 1 ++ g 2) (\\i -> xs[:i]) in a ++ b", [1, 1, 1, -2]),
    ("late (\\i -> xs[:i]) (\\(g: i64 -> []i64) -> g 1 ++ g 2)", [1, 1, -2]),
    ("either (xs[0] > 0) (\\() -> filter (> 0) xs) (\\() -> xs)", [1, 3]),
    ("often 2 (\\(g: () -> []i64) -> g () ++ g ()) (\\() -> xs[:1])", [1, 1, 1, 1]),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["interp", pytest.param("c", marks=pytest.mark.slow)])
def test_sizes_that_are_left_open(backend: str) -> None:
    text = HEAD + "\n".join(f"entry e{k} (xs: []i64) : []i64 = {e}" for k, (e, _) in enumerate(OPEN))
    program = futad.compile(text, backend=backend)
    for k, (e, want) in enumerate(OPEN):
        assert program[f"e{k}"](np.array([1, -2, 3])).tolist() == want, e
    for k in (0, 1, 2):
        with pytest.raises(AssertionFailed, match="cannot match shape"):
            program[f"e{k}"](np.array([1, -10, 3, 4]))


@pytest.mark.parametrize(
    "expression",
    [
        "late (\\i -> xs[:i]) (\\g -> map2 (+) (g 1) (g 2))",
        "late (\\i -> xs[:i]) (\\(g: i64 -> [2]i64) -> map2 (+) (g 1) (g 2))",
        "one (\\(g: i64 -> []i64) -> map2 (+) (g 1) (g 2)) (\\i -> xs[:i])",
        "one (\\g -> map2 (+) (g 1) (g 2)) (\\i -> xs[:i])",
        "let (a, b) = two (\\(g: i64 -> []i64) -> g 1 ++ g 2) (\\i -> xs[:i]) in map2 (+) a b",
        "map2 (+) xs (app call (\\() -> xs))",
    ],
)
def test_values_of_a_lifted_type_are_not_of_one_size(expression: str) -> None:
    with pytest.raises(futad.errors.TypeCheckError, match="size"):
        futad.compile(f"{HEAD}entry main (xs: []i64) : []i64 = {expression}", backend="interp")
