"""Warnings: on stderr with their place, without effect on the exit status."""

from __future__ import annotations

import pytest

from futad.cli import main
from futad.source.lints import WITH_BINDING

SAFETY = "Safety check required at run time, unless it is shown that this cannot fail"

CASES = [
    ("def f (xs: []f64) (i: i64) = #[warn(safety_checks)] xs[i]", (1, 53), SAFETY),
    ("def g (xs: []i64) (i: i64) = xs[i]\ndef f (is: []i64) = #[warn(safety_checks)] map (g is) is", (1, 30), SAFETY),
    ("def f (x: i64) = #[warn(safety_checks)] (10 / x + 1)", (1, 45), SAFETY),
    ("def f (x: []i64) = #[warn(safety_checks)] take 3 x", (1, 43), SAFETY),
    ("def f (x: f64) = #[warn(other)] x", (1, 20), "the attribute '#[warn]' has no effect"),
    (
        "def f (xs: [][]i32) (ys: [][]i32) = xs == ys",
        (1, 40),
        "comparing arrays by '==' is deprecated, and will stop working in Futhark",
    ),
    (
        "def f [n] (xs: [n](i32, i32)) (ys: [n](i32, i32)) = xs != ys",
        (1, 56),
        "comparing arrays by '!=' is deprecated, and will stop working in Futhark",
    ),
    ("def f (n: i64) = iota (let m = n + 2 in m * m)", (1, 24), WITH_BINDING),
    ("def f (xs: []i64) = xs[:let m = 2 in m * m]", (1, 24), WITH_BINDING),
    (
        "module type a = {type t}\nmodule type b = {type t}\nmodule type c = {include a include b}",
        (3, 28),
        "Inclusion shadows type 't'",
    ),
    ("type t = (i32, f64)\ndef f (x: *t) = x", (2, 11), "declaring (i32, f64) as unique has no effect"),
    ("def plus x y = x + y", (1, 18), "the type of this is ambiguous: i32 is taken"),
    ("def f (x: f64) = let y = x in x", (1, 22), "'y' is not used"),
    ("def f (x: f64) = let (a, b) = (x, x) in a", (1, 26), "'b' is not used"),
    ("def f (x: f64) = let g y = y in x", (1, 18), "'g' is not used"),
    ("def filter (x: f64) = x", (1, 1), "this hides the prelude's 'filter'"),
    ("def f (x: f64) = let last = x in last", (1, 22), "this hides the prelude's 'last'"),
    ("def f (x: f64) = #[unrol] x", (1, 20), "unknown attribute 'unrol'"),
    ("#[fast]\ndef f (x: f64) = x", (1, 3), "unknown attribute 'fast'"),
    ("def f (x: f64) = if x > 0 then x else ???", (1, 39), "a hole (???): evaluating it is an error"),
    (
        "def f (x: f64) = vjp (\\x -> i32.f64 (3 * x)) x 2",
        (1, 18),
        "the derivative of the result's integers is taken as if 'i32.f64' did not round",
    ),
    (
        "def g (x: f64) = (t64 x, x)\ndef f (x: f64) = (x |> jvp2 g <| 1).1.0",
        (2, 24),
        "the derivative of the result's integers is taken as if 'i32.f64' did not round",
    ),
    (
        "def f (x: f64) (xs: []f64) = reduce (+) x xs",
        (1, 41),
        "a fold by '+' has to begin with 0: each thread begins with this value",
    ),
    (
        "def f (xss: [][2]f64) = map (\\(xs: [2]f64) -> loop s = 0 for x in xs do scan (f64.*) s xs |> last) xss",
        (1, 86),
        "a fold by '*' has to begin with 1: each thread begins with this value",
    ),
    (
        "def f (xs: []i32) = reduce_comm (+) 1 xs",
        (1, 37),
        "a fold by '+' has to begin with 0: each thread begins with this value",
    ),
    (
        "def f (xs: *[9]i64) = loop ys = xs for i < 9 do copy ys with [i] = i",
        (1, 49),
        "each iteration of the loop copies all of 'ys' to change a part of it",
    ),
    (
        "def f (xs: *[9]i64) = loop xs for i < 9 do let ys = copy xs let ys[i] = i in ys",
        (1, 53),
        "each iteration of the loop copies all of 'xs' to change a part of it",
    ),
]


def check(text: str, tmp_path, capsys) -> tuple[int, str]:
    path = tmp_path / "a.fut"
    path.write_text(text)
    status = main(["check", str(path)])
    out, err = capsys.readouterr()
    assert out == ""
    return status, err


@pytest.mark.parametrize("text, place, message", CASES, ids=[c[2][:30] for c in CASES])
def test_warning(text, place, message, tmp_path, capsys):
    status, err = check(text, tmp_path, capsys)
    first, line, caret = err.splitlines()[:3]
    assert status == 0
    assert first == f"{tmp_path / 'a.fut'}:{place[0]}:{place[1]}: warning: {message}"
    assert line == text.split("\n")[place[0] - 1]
    assert caret.index("^") == place[1] - 1
    assert err.count("warning:") == 1


@pytest.mark.parametrize(
    "text",
    [
        "def f (x: f64) = let _y = x in x",
        "def f (x: f64) (y: f64) = x",
        "def f (x: f64) = let n = 3i64 in (replicate n x : [n]f64)",
        "def f (xs: *[9]i64) = loop ys = xs for i < 9 do ys with [i] = i",
        "def f (xs: [9]i64) = loop s = 0 for i < 9 do s + (copy xs with [i] = i)[0]",
        "def f (xs: *[9]i64) = loop xs for i < 9 do let ys = copy xs let ys[i] = i in map2 (+) xs ys",
        "def f (xs: *[9]i64) = loop xs for i < 9 do let ys = copy xs in map (+ i) ys",
        "def f (x: f64) = vjp (\\x -> f64.i64 (i64.f64 (3 * x))) x 2",
        "def f (x: f64) = jvp (\\(x: f64) -> (x, 3i64)) x 1",
        "def f (k: i64) = jvp (\\k -> k * i64.f64 2.5) k 1",
        "def f (x: f64) = jvp f64.to_bits x 1",
        "module m = { def map f xs = map f xs }",
        "def f (x: f64) (xs: []f64) = reduce (**) x (map (reduce (*) 1.0) [xs])",
        "def f (op: f64 -> f64 -> f64) (x: f64) (xs: []f64) = reduce op x xs",
        "def f (xs: []f64) = let zero = 0 in reduce (+) zero xs + reduce f64.max xs[0] xs",
        "def f (x: f64) (xs: []f64) = foldl (+) x xs",
        "#[noinline]\ndef f (x: f64) = #[unsafe] x",
        "module m (p: { val k: i64 }) = { def g (x: i64) = x + p.k }\nmodule a = m { def k = 1i64 }",
    ],
)
def test_no_warning(text, tmp_path, capsys):
    assert check(text, tmp_path, capsys) == (0, "")


def test_imports_do_not_warn_and_parametric_modules_warn_once(tmp_path, capsys):
    (tmp_path / "lib.fut").write_text("def g (x: f64) = let y = x in x")
    text = """import "lib"
module m (p: { val k: i64 }) = { def g (x: i64) = let y = x in x + p.k }
module a = m { def k = 1i64 }
module b = m { def k = 2i64 }
"""
    status, err = check(text, tmp_path, capsys)
    assert status == 0
    assert err.count("warning:") == 1
    assert ":2:55: warning: 'y' is not used" in err
