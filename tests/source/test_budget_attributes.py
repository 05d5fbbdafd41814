"""`#[checkpoint(...)]` and `#[reversible(...)]`: what they say, where, and the errors and warnings about them."""

from __future__ import annotations

import pytest

import futad
from futad.core import ir
from futad.core.budget import Budget
from futad.core.parse import parse_program
from futad.core.text import program_text
from futad.errors import SourceError
from futad.pipeline import compile_program
from futad.source import check_text, compile_text

LOOP = "loop y = x for _i < 10 do f64.sin y"

SAID = {
    "#[checkpoint]": Budget(checkpoints="log"),
    "#[checkpoint()]": Budget(checkpoints="log"),
    "#[checkpoint(log)]": Budget(checkpoints="log"),
    "#[checkpoint(30)]": Budget(checkpoints=30),
    "#[checkpoint(1_000)]": Budget(checkpoints=1000),
    "#[checkpoint(checkpoints=30)]": Budget(checkpoints=30),
    "#[checkpoint(k)]": Budget(checkpoints=12),
    "#[checkpoint(reruns=k)]": Budget(reruns=12),
    "#[checkpoint(reruns=3)]": Budget(reruns=3),
    "#[checkpoint(reruns(3))]": Budget(reruns=3),
    '#[checkpoint(memory="4MB")]': Budget(memory=4000000),
    '#[checkpoint(memory("4 KiB"))]': Budget(memory=4096),
    "#[checkpoint(memory(4000))]": Budget(memory=4000),
    "#[checkpoint(memory=1e6)]": Budget(memory=1000000),
    "#[checkpoint(method=bisection)]": Budget(checkpoints="log", method="bisection"),
    "#[checkpoint(method(binomial))]": Budget(checkpoints="log"),
    "#[checkpoint(30, method=bisection, nest=false)]": Budget(checkpoints=30, method="bisection", nest=False),
    "#[checkpoint(nest=false)]": Budget(checkpoints="log", nest=False),
    "#[checkpoint(3, nest=true)]": Budget(checkpoints=3),
    "#[reversible]": Budget(reversible=True),
    "#[reversible(true)]": Budget(reversible=True),
    "#[reversible(false)]": Budget(reversible=False),
    "#[reversible(exact)]": Budget(reversible="exact"),
    '#[reversible("exact")]': Budget(reversible="exact"),
    "#[reversible(1e-10)]": Budget(reversible=1e-10),
    "#[reversible(0.5)]": Budget(reversible=0.5),
    "#[checkpoint(3)] #[reversible(exact)]": Budget(checkpoints=3, reversible="exact"),
    "#[reversible] #[stripmine(2)] #[checkpoint(3)]": Budget(checkpoints=3, reversible=True),
    "#[bound(10)] #[checkpoint(3)]": Budget(checkpoints=3),
}  # fmt: skip


def budgets(program: ir.Program, *kinds: type[ir.Exp]) -> list[Budget]:
    """Those of loops and derivatives, the outer ones first; no statement has two."""
    stms = [s for f in program.funs.values() for s in ir.statements(f.body.stms)]
    assert all(sum(a[0] == "checkpoint" for a in s.attrs) <= 1 for s in stms)
    return [b for s in stms if isinstance(s.exp, kinds or (ir.Exp,)) and (b := Budget.of(s.attrs)) is not None]


@pytest.mark.parametrize("attributes", SAID)
def test_what_attributes_say(attributes: str) -> None:
    constant = "let k = 12i64 in " if "k)" in attributes else ""
    text = f"entry f (x: f64) = {constant}{attributes} {LOOP}"
    assert check_text(text).warnings == []
    program = compile_text(text)
    assert budgets(program) == budgets(program, ir.For) == [SAID[attributes]]
    assert budgets(parse_program(program_text(program))) == [SAID[attributes]]
    kept = {a[0] for s in program.funs["f"].body.stms for a in s.attrs} - {"checkpoint", "place"}
    assert kept == {name for name in ("stripmine", "bound") if name in attributes}


@pytest.mark.parametrize("form", ["for i < n", "for x' in [1, 2]", "while y < 10"])
@pytest.mark.parametrize("attributes", ["#[checkpoint(3)]", "#[checkpoint(3)] #[bound(9)]"])
def test_all_forms_of_loops(form: str, attributes: str) -> None:
    text = f"entry f (n: i64) (x: f64) = {attributes} loop (y, zs) = (x, replicate n x) {form} do (y + 1, map (+ y) zs)"
    assert budgets(compile_text(text), ir.Loop) == [Budget(checkpoints=3)]


DERIVATIVES = {
    "#[checkpoint(3)] vjp g x 1": 1,
    "#[checkpoint(3)] #[reversible] vjp (\\x -> #[checkpoint(7)] loop y = x for _i < 3 do y * y) x 1": 2,
    "(#[checkpoint(3)] vjp2 g x 1).1": 1,
    "#[checkpoint(3)] mjp g x [1, 2] |> f64.sum": 0,
    "f64.sum (#[checkpoint(3)] mjp g x [1, 2])": 1,
    "(#[checkpoint(3)] (mjp2 g x [1, 2]: (f64, [2]f64))).0": 1,
    "#[checkpoint(3)] vjp g x (vjp g x 1)": 1,
    "vjp g x (#[checkpoint(3)] vjp g x 1)": 1,
    "f64.sum (map (\\x -> #[checkpoint(3)] vjp g x 1) [x, 2])": 1,
    "jvp (\\x -> #[checkpoint(3)] vjp g x 1) x 1": 1,
}


@pytest.mark.parametrize("expression", DERIVATIVES)
def test_derivatives(expression: str) -> None:
    text = f"def g (x: f64) = loop y = x for _i < 3 do f64.sin y\nentry f (x: f64) = {expression}"
    program = compile_text(text)
    found = budgets(program)
    assert len(found) == DERIVATIVES[expression] and len(check_text(text).warnings) == (not found)
    assert len(budgets(program, ir.Vjp)) == min(1, len(found))
    if len(found) == 2:
        assert found == [Budget(checkpoints=3, reversible=True), Budget(checkpoints=7)]
    without = expression.replace("#[checkpoint(3)]", "").replace("#[checkpoint(7)]", "").replace("#[reversible]", "")
    plain = futad.compile(text.replace(expression, without), backend="interp").f(0.7)
    assert futad.compile(text, backend="interp", check=True).f(0.7) == pytest.approx(plain, rel=1e-13)


def test_the_budget_of_a_loop_reaches_reverse_mode() -> None:
    """It survives the passes before `ad`, and a program's own budget does not take its place."""
    text = f"""
def g (x: f64) = #[checkpoint(3)] {LOOP}
entry f (x: f64) = #[checkpoint(5)] vjp g x 1
entry h (x: f64) = vjp g x 1
"""
    program = futad.compile(text, backend="interp", memory="1MB").core
    before = compile_program(program, stop_after="views")
    assert budgets(before, ir.Vjp) == [Budget(checkpoints=5), Budget(memory=1000000)]
    assert budgets(before, ir.For) == [Budget(checkpoints=3)] * 2


WRONG = {
    "#[checkpoint(reruns=3, memory=4)]": "memory and reruns limit the same thing",
    '#[checkpoint(memory="4mb")]': "memory: no unit is called 'mb'",
    "#[checkpoint(memory=-4)]": "found '=-'",
    "#[checkpoint(1.5)]": "checkpoints must be a number of states, or 'log', not 1.5",
    "#[checkpoint(reruns=0)]": "reruns must be at least 1",
    "#[checkpoint(reruns=true)]": "reruns must be a number of times, not True",
    "#[checkpoint(method=best)]": "method must be 'binomial' or 'bisection', not 'best'",
    "#[checkpoint(nest=3)]": "nest must be true or false",
    "#[checkpoint(nest=true)]": "says nothing",
    "#[checkpoint(lgo=3)]": "'checkpoint' takes no 'lgo'",
    "#[checkpoint(reruns(1, 2))]": "'checkpoint' takes no 'reruns' of this form",
    "#[checkpoint(reruns(log(3)))]": "reruns must be a number of times",
    "#[checkpoint(3, 4)]": "'checkpoints' is said twice",
    "#[checkpoint(3)] #[checkpoint(4)]": "'checkpoints' is said twice",
    "#[checkpoint(3)] #[unsafe] #[checkpoint(reruns=4)]": "checkpoints and reruns limit the same thing",
    "#[checkpoint(3)] #[checkpoint(reruns=4)]": "checkpoints and reruns limit the same thing",
    "#[checkpoint(memory=0x10)]": "the number 0x10 has no meaning in an attribute",
    "#[checkpoint(nothing)]": "unknown name 'nothing'",
    "#[checkpoint(x)]": "'x' is no constant",
    "#[reversible(1)]": "reversible must be",
    "#[reversible(0.0)]": "a tolerance above 0",
    "#[reversible(exact, 1e-3)]": "'reversible' takes one argument",
    "#[reversible(tolerance=1e-3)]": "reversible must be",
    "#[reversible] #[reversible(exact)]": "'reversible' is said twice",
}


@pytest.mark.parametrize("attributes", WRONG)
def test_wrong_attributes_are_errors_with_their_place(attributes: str) -> None:
    with pytest.raises(SourceError) as caught:
        compile_text(f"entry f (x: f64) =\n  {attributes} {LOOP}")
    e = caught.value
    assert WRONG[attributes] in e.message, e
    assert e.span is not None and e.span.line == 2 and 3 < e.span.col < 3 + len(attributes)
    others = {"found '=-'": "E0101", "the number 0x10": "E0102", "unknown name 'nothing'": "E0201"}
    assert e.code == next((code for text, code in others.items() if text in e.message), "E0106")


def test_without_effect() -> None:
    text = """#[checkpoint]
def f (x: f64) = #[checkpoint] f64.sin x
def g (#[reversible] x: f64) = x |> #[checkpoint(3)] vjp f x
def h (x: f64) = #[reversible] map (\\y -> y * x) [x]
def vjp2 (x: f64) (y: f64) (z: f64) = x + y + z
def k (x: f64) = #[checkpoint] vjp2 x x x
def m (x: f64) = #[chekpoint] (#[checkpoint] vjp f x 1)
"""
    shown = [(w.message, w.span.line) for w in check_text(text).warnings if "hides" not in w.message]
    none = "'checkpoint' has no effect here"
    assert shown == [
        (none, 1), (none, 2), ("'reversible' has no effect here", 3), (none, 3), ("'reversible' has no effect here", 4),
        (none, 6), ("unknown attribute 'chekpoint'", 7),
    ]  # fmt: skip
    assert check_text(text).warnings[-1].hint == "did you mean 'checkpoint'?"
