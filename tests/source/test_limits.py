"""What is nested, or doubles, without end: an answer or a clear error, soon.

Each construct is written as a function of how often.
"""

from __future__ import annotations

import time

import pytest

from futad.errors import UnsupportedError
from futad.source import check_text, compile_text


def doubled(first: str, step: str, last: str, n: int) -> str:
    return "\n".join([first, *[step.format(i=i, j=i + 1) for i in range(n)], last.format(n=n)])


def lets(first: str, step: str, last: str, n: int) -> str:
    return f"def main (x: i64) = let x0 = {first} " + doubled("", f"let x{{j}} = {step}", f"in {last}", n)


F = "def f (x: i64) = x"
NESTED = {
    "lambdas": lambda n: "def main (x: i64) = (" + "\\y -> (" * n + "x" + ")" * n + ") x",
    "lambdas side by side": lambda n: "def main (x: i64): i64 = (" + "\\_y -> " * n + "x) " + "x " * n,
    "applied lambdas": lambda n: "def main (x: i64): i64 = " + "(\\y -> " * n + "x" + ") x" * n,
    "local functions": lambda n: "def main (x: i64): i64 = " + "let f (y: i64) = " * n + "x" + " in f x" * n,
    "maps": lambda n: "def main (_: i64) = " + "map (\\_ -> " * n + "1i64" + ") (iota 1)" * n,
    "parameters": lambda n: "def f " + " ".join(f"(x{i}: i64)" for i in range(n)) + ": i64 = x0",
    "pairs": lambda n: "def main (x: i64) = let p = " + "(x, " * n + "x" + ")" * n + " in p.0",
    "pairs on the left": lambda n: "def main (x: i64) = let p = " + "(" * n + "x" + ", x)" * n + " in p.1",
    "pairs of literals": lambda n: "def main (x: i64) = let p = " + "(1, " * n + "2" + ")" * n + " in p.0 + x",
    "records": lambda n: "def main (x: i64) = let p = " + "{a = x, b = " * n + "x" + "}" * n + " in p.a",
    "pair types": lambda n: "type t = " + "(i64, " * n + "i64" + ")" * n + "\ndef main (x: i64) = x",
    "record types": lambda n: "type t = " + "{a: i64, b: " * n + "i64" + "}" * n + "\ndef main (x: i64) = x",
    "function types": lambda n: "type^ t = " + "i64 -> " * n + "i64\ndef main (x: i64) = x",
    "sum types": lambda n: "type t = " + "#a (" * n + "i64" + ")" * n + "\ndef main (x: i64) = x",
    "arguments of types": lambda n: "type p 'a = (a, i64)\ntype t = " + "p (" * n + "i64" + ")" * n + "\n" + F,
    "array types": lambda n: "def f (_a: " + "[]" * n + "i64) = 1i64",
    "array literals": lambda n: "def f = " + "[" * n + "1" + "]" * n,
    "terms of a size": lambda n: "def f (n: i64) (xs: [n" + " + 1" * n + "]i64) = length xs",
    "parameters of modules": lambda n: "module m " + "(P: {val x: i64}) " * n + "= { def y = P.x }",
    "conditions": lambda n: "def main (x: i64): i64 = " + "if x > 0 then x else " * n + "x",
    "matches": lambda n: "def main (x: i64): i64 = " + "match x case 0 -> 1 case _ -> " * n + "x",
    "lets": lambda n: "def main (x: i64): i64 = " + "let y = " * n + "x" + " in y" * n,
    "loops": lambda n: "def main (x: i64): i64 = " + "loop x = x for _i < 2 do " * n + "x",
    "pipes": lambda n: "def main (x: i64): i64 = x" + " |> (+ 1)" * n,
    "compositions": lambda n: "def main (x: i64): i64 = (" + "(+ 1) >-> " * n + "(+ 1)) x",
}
ANSWERED = ("conditions", "matches", "lets", "loops", "pipes", "compositions")


QUICK = ("lambdas", "parameters", "pair types", "function types", "array types", "terms of a size")


def seconds(text: str) -> tuple[float, UnsupportedError | None]:
    """What it takes to check a text, on a processor, and the error that it ends in."""
    start = time.process_time()
    try:
        check_text(text, "a.fut")
    except UnsupportedError as e:
        assert e.span is not None and e.source_line is not None and len(str(e)) < 1000, e
        return time.process_time() - start, e
    return time.process_time() - start, None


SOON = 40.0  # seconds: what grows without a limit takes hours


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NESTED])
def test_nested_3000_times(name: str) -> None:
    took, error = seconds(NESTED[name](3000))
    assert took < SOON and (error is None) is (name in ANSWERED), error


PAIR = "(x{i}, x{i})"
DOUBLED = {
    "pair types": lambda n: doubled("type t0 = i64", "type t{j} = (t{i}, t{i})", "def f (p: t{n}) = p.0", n),
    "record types": lambda n: doubled("type t0 = i64", "type t{j} = {{a: t{i}, b: t{i}}}", "def f (p: t{n}) = p.a", n),
    "sum types": lambda n: doubled("type t0 = i64", "type t{j} = #a t{i} | #b t{i}", "def f (_: t{n}) = 1i64", n),
    "function types": lambda n: doubled("type^ t0 = i64", "type^ t{j} = t{i} -> t{i}", "def f (_: t{n}) = 1i64", n),
    "arguments of types": lambda n: "type p 'a = (a, a)\ntype t = " + "p (" * n + "i64" + ")" * n + "\n" + F,
    "entry points": lambda n: doubled("type t0 = i64", "type t{j} = (t{i}, t{i})", "entry f (_: t{n}) = 1i64", n),
    "pairs": lambda n: lets("x", PAIR, "x", n),
    "pairs of results": lambda n: "def d 'a (x: a) = (x, x)\n" + lets("x", "d x{i}", "x", n),
    "pairs in one": lambda n: "def d 'a (x: a) = (x, x)\ndef f (x: i64) = (" + "d (" * n + "x" + ")" * n + ").0",
    "pairs of arguments": lambda n: "def f (x: i64) = " + "(\\y -> (y, y)) (" * n + "x" + ")" * n + " |> (\\_ -> x)",
    "arrays": lambda n: lets("[x]", "zip x{i} x{i}", "length x{n}", n),
    "loops": lambda n: lets("x", PAIR, "(loop p = x{n} for _i < 2 do p)", n),
    "polymorphic functions": lambda n: "def main (x: i64) = let f0 'a (y: a) = (y, y) "
    + doubled("", "let f{j} 'a (y: a) = f{i} (f{i} y)", "in f{n} x |> (\\_ -> x)", n),
    "modules": lambda n: doubled(
        "module m0 (P: {type t}) = { def f (x: i64) = x }",
        "module m{j} (P: {{type t}}) = {{ module a = m{i} P module b = m{i} P def f (x: i64) = a.f (b.f x) }}",
        F,
        n,
    ),
    "module types": lambda n: doubled(
        "module type s0 = {val f: i64 -> i64}", "module type s{j} = {{module a: s{i} module b: s{i}}}", F, n
    ),
    "sizes": lambda n: lets("[x]", "x{i} ++ x{i}", "length x{n}", n),
    "cases": lambda n: "type t = #a | #b\ndef f (p: ("
    + ", ".join("t" for _ in range(n))
    + ")) = match p"
    + "".join(f" case ({', '.join('#a' if j == i else '_' for j in range(n))}) -> {i}i64" for i in range(n))
    + " case ("
    + ", ".join("#b" for _ in range(n))
    + ") -> 0",
}


EASY = ("pair types", "sum types", "function types", "entry points", "pairs", "polymorphic functions", "sizes", "cases")


@pytest.mark.parametrize("name", [n if n in EASY else pytest.param(n, marks=pytest.mark.slow) for n in DOUBLED])
def test_doubled_40_times(name: str) -> None:
    took, error = seconds(DOUBLED[name](40))
    assert took < SOON and (error is None) is (name in ("sizes", "cases")), error


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        doubled("def f0 (x: i64) = x + 1", "def f{j} (x: i64) = f{i} (f{i} x)", "def main (x: i64) = f{n} x", 40),
        "def t 'a (f: a -> a) (x: a): a = f (f x)\ndef main (x: i64) = " + "t (" * 40 + "(+ 1)" + ")" * 40 + " x",
    ],
    ids=["functions", "function values"],
)
def test_functions_doubled_40_times(text: str) -> None:
    with pytest.raises(UnsupportedError, match="functions are applied more than"):
        compile_text(text, "a.fut")


def test_what_is_large_and_right() -> None:
    """Nothing that programs have is refused."""
    wide = ", ".join(["x"] * 2_000)
    pairs = "(x, " * 500 + "x" + ")" * 500
    assert check_text(f"def main (x: f64): f64 = let t = ({wide}) let p = {pairs} in t.0 + p.0", "a.fut").entries
    assert check_text(lets("x", PAIR, "x{n}" + ".0" * 10, 10), "a.fut").entries
    assert check_text(NESTED["lambdas"](200).replace("main", "f"), "a.fut").funs
