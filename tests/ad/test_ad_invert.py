"""`invert f y`: the argument of a function, computed of its result."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.legality import dropping
from futad.optimise.inline import inline
from futad.pipeline import compile_program
from futad.rewrite.simplify import simplify
from futad.source import compile_text
from tests.support.ad_support import differences, duality, second_order
from tests.support.invertible import function
from tests.support.needs import has_cxx, needs_cxx
from tests.support.slow import slow_but

# A function of c and of an argument, the type of its argument, and whether no comparison is needed.
ROWS = {
    "sum": ("\\x -> x + c", "f64", True),
    "product": ("\\x -> 3 - x * (c + 2)", "f64", True),
    "quotient": ("\\x -> (c + 2) / x", "f64", True),
    "integers": ("\\x -> (x ^ (x << 3)) * 7 - i32.f64 c", "i32", True),
    "pair": ("\\(x, y) -> (x * f64.exp y, y + f64.sin (x * f64.exp y))", "(f64, f64)", True),
    "rotation": ("\\(x, y) -> (f64.cos c * x - f64.sin c * y, f64.sin c * x + f64.cos c * y)", "(f64, f64)", True),
    "record": ("\\{a, b} -> {b = a + b, a = b * 2}", "{a: f64, b: f64}", True),
    "elements": ("map (\\x -> x * 3 + c)", "[4]f64", True),
    "order": ("\\xs -> rotate 1 (reverse xs)", "[4]f64", True),
    "transposed": ("\\xs -> map (map (+ c)) (transpose xs)", "[3][2]f64", True),
    "halves": ("\\xs -> let (a, b) = (xs[:2], xs[2:]) in map2 (+) b (map f64.sin a) ++ a", "[4]f64", True),
    "update": ("\\xs -> copy xs with [1] = xs[1] * 3 + c * xs[2]", "[4]f64", True),
    "swap": ("\\xs -> let ys = copy xs let ys[1] = xs[2] let ys[2] = xs[1] in ys", "[4]f64", True),
    "running sum": ("\\xs -> loop ys = copy xs for i < 3 do ys with [i + 1] = ys[i + 1] + f64.sin ys[i]",
                    "[4]f64", True),
    "loop": ("\\x -> loop x for i < 5 do x * 1.5 + c * f64.i64 i", "f64", True),
    "loop of a pair": ("\\(x, y) -> loop (x, y) for _i < 5 do (y, x + c * f64.sin y)", "(f64, f64)", True),
    "loop in a map": ("map (\\x -> loop x for i < 3 do x * 1.5 + c * f64.i64 i)", "[4]f64", True),
    "branch": ("\\x -> if c > 1 then x + 1 else x * 3 - c", "f64", False),
    "branch of arrays": ("\\xs -> if c > 1 then map (+ 1) xs else reverse xs", "[4]f64", True),
    "tells the branch": ("\\(x, k) -> (if k then x + 1 else x * 2, !k)", "(f64, bool)", False),
    "twice": ("\\x -> (x + 1, f64.exp x)", "f64", False),
    "constant": ("\\x -> (x + 1, 2)", "f64", False),
    "joined twice": ("\\(xs: [2]f64) -> xs ++ xs", "[2]f64", False),
    "wider": ("\\x -> f64.f32 x", "f32", False),
    "own inverse": ("\\x -> with_inverse f64.sinh f64.asinh (x + c)", "f64", False),
    "inverse": ("invert (\\x -> x * 3 + c)", "f64", True),
    "composed": ("(\\x -> x + c) >-> invert (\\x -> x * 2) >-> (\\x -> 1 - x)", "f64", True),
    "asserted": ("\\x -> let y = assert (x > -100) x in y + 1", "f64", False),
    "sum type": ("\\(x: #a f64 | #b i32) -> match x case #a y -> (true, y, 0i32) case #b k -> (false, 0, k)",
                 "(#a f64 | #b i32)", None),
}  # fmt: skip
GOOD = [name for name, row in ROWS.items() if row[2] is not None]
FLOATS = [name for name in GOOD if "i32" not in ROWS[name][1] and "bool" not in ROWS[name][1] and name != "wider"]


def program(name: str) -> str:
    f, t, _ = ROWS[name]
    return f"""
        entry there (c: f64) (x: {t}) = let f = {f} in f x
        entry back (c: f64) (x: {t}) = let f = {f} in invert f (f x)
        entry again (c: f64) (x: {t}) = let f = {f} in f (invert f (f x))
        entry same (c: f64) (x: {t}) = let f = {f} in invert (invert f) x"""


def argument(t: str, rng: Random) -> Any:
    """A value of a type as text."""
    if t.startswith("["):
        n, rest = re.match(r"\[(\d+)\](.*)", t).groups()  # type: ignore[union-attr]
        return np.array([argument(rest, rng) for _ in range(int(n))])
    if t.startswith(("(", "{")):
        parts = re.findall(r"(?:(\w+): )?(\w+)(?=[,)}])", t)
        return {k: argument(p, rng) for k, p in parts} if parts[0][0] else tuple(argument(p, rng) for _, p in parts)
    if t == "bool":
        return rng.random() < 0.5
    return np.dtype({"f64": float, "f32": np.float32, "i32": np.int32}[t]).type(rng.uniform(-5, 5))


def close(got: Any, want: Any, scale: float = 1e-9) -> None:
    """Integers are equal, floats to so much of the largest of them."""
    if isinstance(want, dict):
        got, want = list(got.values()), list(want.values())
    if isinstance(want, tuple | list):
        for x, y in zip(got, want, strict=True):
            close(x, y, scale)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind == "f":
        assert np.abs(got - want).max(initial=0) <= scale * (1 + np.abs(want).max(initial=0))
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", GOOD)
def test_arguments_come_back(name: str) -> None:
    made = futad.compile(program(name), backend="interp", check=True)
    for seed in range(5):
        rng = Random(seed)
        c, x = rng.uniform(-1.5, 3), argument(ROWS[name][1], rng)
        close(made.back(c, x), x)
        close(made.again(c, x), made.there(c, x))
        if ROWS[name][0] not in ("f64.sinh",):
            close(made.same(c, x), made.there(c, x))


@pytest.mark.parametrize("name", GOOD)
def test_what_needs_no_comparison_has_none(name: str) -> None:
    """An assertion says that the function is run again."""
    f, t, needs_none = ROWS[name]
    core = compile_text(f"entry main (c: f64) (x: {t}) = let f = {f} in invert f (f x)")
    text = str(compile_program(core, stop_after="simplify-invert", check=True))
    assert ("does not give this value" in text) == (not needs_none)
    unsafe = compile_text(f"entry main (c: f64) (x: {t}) = let f = {f} in #[unsafe] invert f (f x)")
    assert "does not give this value" not in str(compile_program(unsafe, stop_after="simplify-invert", check=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(list(FLOATS)[::8], FLOATS))
def test_derivatives(name: str) -> None:
    """Of the code; and the tangent of what comes back, put forward again, is the one that was given."""
    f, t, _ = ROWS[name]
    text = f"entry f (c: f64) (x: {t}) = let f = {f} in invert f (f x)"
    p = simplify(inline(simplify(compile_text(text))))
    p = compile_program(p, passes=["asserts", "invert", "simplify-invert"], check=True)
    rng = Random(1)
    for c in (0.3, 1.7):
        x = argument(t, rng)
        args = [c, *(list(x.values()) if isinstance(x, dict) else x if isinstance(x, tuple) else [x])]
        differences(p, args)
        duality(p, args)
        second_order(p, args)
        made = futad.compile(f"""
            entry main (c: f64) (x: {t}) (d: {t}) =
              let f = {f} let y = f x let dy = jvp f x d in jvp (invert f) y dy""", backend="interp", check=True)
        d = argument(t, rng)
        close(made.main(c, x, d), d)


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_backends(backend: str) -> None:
    for name in GOOD:
        t = ROWS[name][1]
        text = program(name)
        if name in FLOATS:
            text += f"\nentry grad (c: f64) (x: {t}) = let f = {ROWS[name][0]} in vjp (\\x -> invert f (f x)) x x"
        made, reference = futad.compile(text, backend=backend), futad.compile(text, backend="interp")
        x = argument(t, Random(3))
        for entry in ("back", "again", "same", *(["grad"] if name in FLOATS else [])):
            close(getattr(made, entry)(0.7, x), getattr(reference, entry)(0.7, x), 1e-12)


# --- random programs --------------------------------------------------------------------------------------------------


def random_program(seed: int, t: str) -> tuple[str, list[Any]]:
    rng = Random(seed)
    text = function(rng, t, rng.randrange(1, 7)) + f"""
        entry there [n] (c: {t}) (x: {t}) (y: {t}) (xs: [n]{t}) = f c (x, y, xs)
        entry back [n] (c: {t}) (x: {t}) (y: {t}) (xs: [n]{t}) = invert (f c) (f c (x, y, xs))
        entry again [n] (c: {t}) (x: {t}) (y: {t}) (xs: [n]{t}) = f c (invert (f c) (x, y, xs))
        entry same [n] (c: {t}) (x: {t}) (y: {t}) (xs: [n]{t}) = invert (invert (f c)) (x, y, xs)"""
    n = rng.choice([4, 4, 5, 9])

    def some(*shape: int) -> Any:
        size, dtype = int(np.prod(shape)), f"{t[0]}{int(t[1:]) // 8}"
        if t.startswith("f"):
            return np.array([rng.uniform(-2, 2) for _ in range(size)], dtype).reshape(shape)[()]
        values = [rng.choice([0, 1, 7, rng.getrandbits(int(t[1:]))]) for _ in range(size)]
        return np.array(values, f"u{dtype[1:]}").view(dtype).reshape(shape)[()]

    return text, [some(), some(), some(), some(n)]


@pytest.mark.slow
@pytest.mark.parametrize("t", ["u32", "i64", "u8", "f64"])
@pytest.mark.parametrize("seed", slow_but(range(2), range(12)))
def test_random_functions_are_inverted(t: str, seed: int) -> None:
    check_random(seed, t, "interp")


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_random_functions_on_backends(backend: str) -> None:
    for seed in range(12, 20):
        for t in ("u32", "f64"):
            check_random(seed, t, backend)


def check_random(seed: int, t: str, backend: str) -> None:
    """Of integers what comes back is what was, to the bit."""
    text, args = random_program(seed, t)
    made = futad.compile(text, backend=backend, check=backend == "interp")
    close(made.back(*args), args[1:])
    close(made.again(*args), args[1:])
    close(made.same(*args), made.there(*args))


# --- errors -----------------------------------------------------------------------------------------------------------

LOST = {
    "maximum": ("\\x -> f64.max x 0.5 + 1", "'x' does not follow from max(x, 0.5f64)"),
    "in a loop": ("\\x -> loop x for i < 3 do f64.max x 0.5 + f64.i64 i", "'x' does not follow from max(x, 0.5f64)"),
    "in a map": ("\\x -> (map (\\z -> z * z) [x, x + 1])[0]", "'x' does not follow from "),
    "branch": ("\\x -> if x < 3 then x - 1 else x + 7", "as nothing tells whether lt(x, 3.0f64)"),
    "while": ("\\x -> loop x while x < 10 do x + 1", "'x' does not follow from 'go' = while(...)"),
    "left out": ("\\(x, y) -> x + 0 * y", "does not follow from"),
    "not used": ("\\(x, _z: f64) -> x", "nothing of '_z' is left"),
    "even": ("\\x -> f64.i32 (x * 6)", "'x' does not follow from to_f64(mul(x, 6i32))"),
    "derivative": ("vjp (\\z -> z * z * z) 3", "'x' does not follow from 'y' = vjp(...)"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_what_is_lost_is_named(name: str) -> None:
    f, says = LOST[name]
    text = f"entry main (y: f64) =\n  invert ({f}) y"
    with pytest.raises(futad.UnsupportedError, match=re.escape(says)) as e:
        futad.compile(text, backend="interp").main(1.0)
    assert str(e.value).startswith("main:2:3: error: the function cannot be inverted: ")
    assert e.value.hint == "with_inverse gives a function an inverse of its own"


def test_a_value_that_is_not_given_is_an_error() -> None:
    text = """
        entry pair (a: f64) (b: f64) = invert (\\x -> (x + 1, x + 2)) (a, b)
        entry ints (a: [4]i64) = invert (\\(xs: [2]i64) -> xs ++ xs :> [4]i64) a
        entry wide (a: f64) = invert f64.f32 a"""
    made = futad.compile(text, backend="interp")
    assert made.pair(2.0, 3.0) == 1 and made.wide(0.5) == 0.5
    np.testing.assert_array_equal(made.ints([1, 2, 1, 2]), [1, 2])
    for call in (lambda: made.pair(2.0, 3.1), lambda: made.ints([1, 2, 1, 3]), lambda: made.wide(0.1 * 3e38),
                 lambda: made.pair(2.0, np.nan)):
        if call is not None:
            with pytest.raises(futad.errors.AssertionFailed, match="the function that is inverted does not give"):
                call()
    with dropping("invert/the function gives that"):
        assert futad.compile(text, backend="interp").pair(2.0, 3.1) == pytest.approx(1.1)


@pytest.mark.slow
def test_an_index_that_is_not_in_the_array_is_an_error() -> None:
    """The function's own checks are not those of a value that it does not give."""
    text = """
        entry place [n] (ys: [n]f64) (k: i64) =
          (invert (\\(xs: [n]f64, k) -> (copy xs with [k] = xs[k] * 2, k)) (ys, k)).0
        entry part [n] (ys: [n]f64) (k: i64) =
          (invert (\\(x: f64, k: i64) -> (x + ys[k], k)) (3, k)).0"""
    for backend in ("interp", "c") if has_cxx() else ("interp",):
        made = futad.compile(text, backend=backend)
        ys = np.arange(1.0, 4.0)
        np.testing.assert_array_equal(made.place(ys, 1), [1, 1, 3])
        assert made.part(ys, 1) == 1
        for k in (-1, 3, 1 << 40):
            for entry in (made.place, made.part):
                with pytest.raises(futad.errors.ExecutionError, match="out of bounds"):
                    entry(ys, k)


def test_sizes() -> None:
    """They are those of the function's parameter; empty arrays, and one element."""
    text = """
        def f [n] (xs: [n]f64) : [n]f64 = map (* 2) (reverse xs)
        entry main [n] (ys: [n]f64) = invert f ys
        entry rows [n][m] (ys: [n][m]f64) = map (invert f) ys
        entry some (ys: []f64) = let zs = filter (> 0) ys in invert f zs
        entry joined [n] (m: i64) (ys: [n]f64) =
          invert (\\(xs: [m]f64, zs: [n - m]f64) -> map (+ 1) xs ++ zs :> [n]f64) ys
        entry pieces [n] (ys: [n]f64) = invert (\\(xs: [n]f64, k: f64) -> (map (+ k) xs, k)) (ys, 2)"""
    made = futad.compile(text, backend="interp", check=True)
    for n in (0, 1, 4):
        ys = np.arange(1.0, n + 1)
        np.testing.assert_array_equal(made.main(ys), ys[::-1] / 2)
        np.testing.assert_array_equal(made.some(ys), ys[::-1] / 2)
        np.testing.assert_array_equal(made.rows(np.stack([ys, 3 * ys])), np.stack([ys, 3 * ys])[:, ::-1] / 2)
        np.testing.assert_array_equal(made.pieces(ys)[0], ys - 2)
        for k in range(n + 1):
            xs, zs = made.joined(k, ys)
            np.testing.assert_array_equal(np.concatenate([xs + 1, zs]), ys)


def test_a_size_that_nothing_tells_is_an_error() -> None:
    text = "entry main (y: f64) = length (invert (\\(xs: []f64) -> f64.sum xs) y)"
    with pytest.raises(futad.errors.TypeCheckError, match="nothing here determines it"):
        futad.compile(text)


def test_no_comparison_where_nothing_needs_the_result() -> None:
    made = futad.compile("entry main (y: f64) = let _ = invert (\\x -> (x, 1)) (y, 2) in y", backend="interp")
    assert made.main(3.0) == 3


def test_nan_and_infinity() -> None:
    made = futad.compile("""
        entry plain (y: f64) = invert (\\x -> x * 2 + 1) y
        entry compared (y: f64) = invert (\\x -> (x * 2 + 1, x * 2 + 1)) (y, y)""", backend="interp")
    assert np.isnan(made.plain(np.nan)) and made.plain(np.inf) == np.inf == made.compared(np.inf)
    with pytest.raises(futad.errors.AssertionFailed):
        made.compared(np.nan)


def test_the_core_text_is_read_back() -> None:
    p = compile_text(program("loop of a pair"))
    again = parse_program(str(p))
    check_program(again, "parse")
    assert again.funs["back"].body.has(ir.Invert)
    assert re.sub(r"_\d+", "", str(again)) == re.sub(r"_\d+", "", str(p))


def test_unexpanded_inverses_are_not_run() -> None:
    with pytest.raises(futad.errors.InternalError, match="run the invert pass first"):
        Interpreter(compile_text("entry main (y: f64) = invert (\\x -> x + 1) y")).run("main", [1.0])


def test_loops_of_inverses_are_undone(kept: Any) -> None:
    """Nothing is kept of a loop whose iterations are inverses."""
    text = """
        def g (y: u32) : u32 = invert (\\x -> (x ^ (x << 7)) * 13) y
        entry main (n: i64) (a: f64) = vjp (\\a -> (loop (s, y) = (a, 17u32) for _i < n do
          (s + f64.sin (a * f64.u32 (y >> 28)), g y)).0) a 1"""
    (got,), room = kept(text, "main", 9, 0.3)
    (want,), much = kept(text.replace("vjp", "#[reversible(false)] vjp"), "main", 9, 0.3)
    assert got == want and room < much
