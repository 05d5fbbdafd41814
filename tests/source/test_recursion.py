"""Recursive functions in the source: what is in scope, Futhark's rules, groups that declare their types."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.errors import SourceError, UnsupportedError
from futad.source import check_text, compile_text

WRONG = [
    # where, what the message says
    ("def f (n: i64): i64 -> i64 = \\x -> if n == 0 then x else f (n - 1) x", (1, 17), "not first-order"),
    ("def f (n: i64) = (\\x -> if n == 0 then x else (f (n - 1)).0 (x + 1), n)", (1, 1), "not first-order"),
    ("def f '^a (x: a) (n: i64): a = if n == 0 then x else f x (n - 1)", None, "function"),
    ("def f (g: i64 -> i64) (n: i64): i64 = if n == 0 then 0 else let h = f g in h (n - 1)", (1, 69), "saturated"),
    ("def f (g: i64 -> i64) (n: i64): i64 = if n == 0 then g 0 else f (\\x -> g x) (n - 1)", (1, 66), "unchanged"),
    ("def f (g: i64 -> i64) (n: i64): i64 = let h = f in h g (n - 1)", (1, 47), "higher-order parameter"),
    ("def f [n] (xs: [n]i64) = if n == 0 then xs else f (drop 1 xs)", (1, 1), "has size"),
    ("def f 't (x: t) (n: i64): i64 = if n == 0 then 0 else f (x, x) (n - 1)", (1, 57), "argument 1"),
    ("def x: i64 = x + 1", (1, 14), "no function with parameters"),
    ("def f (n: i64): i64 = g n\ndef g (n: i64) = f n", (1, 23), "does not declare its type"),
    ("def f (n: i64): i64 = g n\ndef g (n: i64): i64 = n", (1, 23), "unknown name 'g'"),
    ("def f (n: i64): i64 = if n == 0 then true else f (n - 1)", (1, 48), "bool"),
    ("def f (n: i64): i64 = f n n", (1, 27), "takes 1 argument"),
]


@pytest.mark.parametrize(("text", "place", "said"), WRONG, ids=[said for _, _, said in WRONG])
def test_what_is_rejected(text, place, said):
    with pytest.raises(SourceError) as caught:
        check_text(text, "a.fut")
    assert said in str(caught.value)
    if place is not None:
        assert caught.value.span is not None and (caught.value.span.line, caught.value.span.col) == place


SUM = """
type t = #leaf i64 | #both i64 i64
def f (x: t): t =
  match x case #leaf n -> #leaf n case #both a b -> f (if a == 0 then #leaf b else #both (a - 1) (b + 2))
entry main (n: i64) = match f (#both n 1) case #leaf k -> k case #both _ _ -> 0
"""

RIGHT = [
    ("def f n = if n == 0i64 then 1 else n * f (n - 1)\nentry main (n: i64) = f n", [5], 120),
    ("def f 't (x: t) (n: i64): t = if n <= 0 then x else f x (n - 1)\nentry main (n: i64) = (f (n, 2) n).1", [3], 2),
    ("def f g n x = if n == 0i64 then x else f g (n - 1) (g x)\nentry main (n: i64) = f (+ 2) n 1i64", [4], 9),
    ("entry main (n: i64): i64 = if n <= 1 then n else main (n - 1) + main (n - 2)", [10], 55),
    ("def f (n: i64) = i64.sum (map (\\i -> f i + 1) (iota n))\nentry main (n: i64) = f n", [6], 63),
    # Of a group each name is known; a name of before is that of before where it is not the function itself.
    ("def a (n: i64): i64 = if n <= 0 then 0 else 1 + b (n - 1)\ndef b (n: i64): i64 = if n <= 0 then 0 else 10 + c n\n"
     "def c (n: i64): i64 = a (n - 1) + 100\nentry main (n: i64) = a n", [6], 333),
    # The declaration of `[]` in a group: any size.
    ("def f (xs: []i64): i64 = if length xs == 0 then 0 else xs[0] + g xs\n"
     "def g (xs: []i64): i64 = f (drop 1 xs)\nentry main (n: i64) = f (iota n)", [5], 10),
    ("module m = { def f (n: i64): i64 = if n == 0 then 0 else n + f (n - 1) }\nentry main (n: i64) = m.f n", [4], 10),
    ("module type t = { val k: i64 } module m (p: t) = { def f (n: i64): i64 = if n == 0 then p.k else f (n - 1) }\n"
     "module q = m { def k = 7i64 }\nentry main (n: i64) = q.f n", [4], 7),
    # A local function is not in scope of itself.
    ("def f (x: i64): i64 = x + 1\nentry main (n: i64) = let f (x: i64) = f (f x) in f n", [4], 6),
    (SUM, [3], 7),
]  # fmt: skip


@pytest.mark.parametrize(("text", "args", "value"), RIGHT)
def test_what_is_accepted(text, args, value):
    assert futad.compile(text, backend="interp").main(*args) == value


def test_one_instance_serves_all_calls():
    """The calls inside are calls of the same core function, closures and sizes included."""
    text = """
def f [n] (g: i64 -> i64) (xs: [n]i64): i64 = if n == 0 then 0 else g xs[0] + f g (drop 1 xs)
entry main [n] (k: i64) (xs: [n]i64) = f (\\x -> x * k) xs
"""
    program = compile_text(text)
    assert len([n for n in program.funs if n.startswith("f_")]) == 1
    assert futad.compile(text, backend="interp").main(2, [1, 2, 3]) == 12


@pytest.mark.slow
def test_unbounded_instances_are_an_error():
    text = """
def f x h (n: i64): i64 = if n == 0 then 0 else f (h x) h (n - 1)
entry main (n: i64) = f (\\(x: i64) -> x) (\\g -> \\x -> g x + 1) n
"""
    with pytest.raises(SourceError) as caught:
        futad.compile(text, backend="interp")
    assert "more and more different functions" in str(caught.value) or caught.value.code == "E0802"


@pytest.mark.parametrize(
    "body",
    [
        "map (\\g -> g * 2) xs",
        "let g = 2 in map (* g) xs",
        "let g (y: f64) = y + 1 in map g xs",
        "let (g, _) = (1, 2) in map (+ g) xs",
        "loop xs for g in xs do map (* g) xs",
        "loop xs for g < 3 do map (* f64.i64 g) xs",
        "loop g = xs while g[0] < 9 do map (+ 1) g",
        "match xs[0] case g -> map (+ g) xs",
        "let h [g] (ys: [g]f64) = map (+ f64.i64 g) ys in h xs",
    ],
)
def test_a_name_of_ones_own_is_no_call_of_a_later_function(body: str) -> None:
    """What a function binds itself may be called as one that calls it."""
    check_text(f"def f [n] (xs: [n]f64) : [n]f64 = {body} entry g (x: f64) = (f [x])[0]", "a.fut")


def test_a_parameter_is_no_call_of_a_later_function() -> None:
    check_text("def f [n] (g: f64) (xs: [n]f64) = map (* g) xs entry g (x: f64) = (f 1 [x])[0]", "a.fut")


def test_a_name_that_is_bound_elsewhere_is_a_call() -> None:
    with pytest.raises(UnsupportedError, match="'f' and 'g' call each other"):
        check_text("def f (x: f64) = (let g = x in g) + g x entry g (x: f64) = f x", "a.fut")


OUTER = """
module type one = { type t val one: t }
module wrap (P: one) = {
  type held 'a [n] = {vals: [n]a}
  def map 'a 'b [n] (f: a -> b) (x: held a [n]) : held b [n] = {vals = map f x.vals}
  def length 'a [n] (x: held a [n]) = length x.vals
  def one = P.one
}
module a = wrap {type t = i64 def one = 1i64}
module b = wrap {type t = f64 def one = 2f64}
def reduce op (xs: []i64) = reduce op 0 xs
def filter 'a (xs: []a) (p: a -> bool) = filter p xs
def next (x: i64) = x + 1
module more = { def next (x: i64) (y: i64) = next x + y }
def fact (n: i64): i64 = if n < 1 then 1 else n * fact (n - 1)
def take [n] (xs: [n]i64) (k: i64): i64 = if k == 0 then 0 else xs[k - 1] + take xs (k - 1)
entry mapped (xs: []i64) = (a.map (+ a.one) {vals = xs}).vals
entry rest (xs: []i64) =
  [reduce (+) xs, b.length {vals = xs}, more.next 2 3, fact 4, take xs 2, length (filter xs (> 1))]
"""


def test_a_name_in_its_definition_is_the_outer_one_where_itself_does_not_fit():
    """As in libraries for Futhark before 0.27; what fits as a recursive function is one."""
    program = futad.compile(OUTER, backend="interp")
    xs = np.array([1, 2, 3])
    assert program.mapped(xs).tolist() == [2, 3, 4]
    assert program.rest(xs).tolist() == [6, 3, 6, 24, 3, 2]
    said = [w.message for w in check_text(OUTER).warnings if "outside of this definition" in w.message]
    assert [m.split("'")[1] for m in said] == ["map", "length", "reduce", "filter", "next"]


def test_where_neither_fits_the_error_is_that_of_recursion():
    with pytest.raises(futad.Error, match=r"expected \[\]i32, found bool") as e:
        compile_text("def reverse (x: []i32) : []i32 = reverse true\nentry main (x: []i32) = reverse x")
    assert "'reverse' is the function that is being defined" in str(e.value)
