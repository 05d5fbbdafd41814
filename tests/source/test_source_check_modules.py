"""Modules, parametric modules and module types."""

from __future__ import annotations

import pytest

import futad
from futad.errors import ScopeError, TypeCheckError
from futad.source import check_file, check_text
from futad.source.pretty import show_type

VEC = """
module type vec = { type t type v val add: v -> v -> v val norm: v -> t }
module mk (F: float): vec with t = F.t = {
  type t = F.t
  type v = {x: t, y: t}
  def add (a: v) (b: v) : v = {x = F.(a.x + b.x), y = a.y F.+ b.y}
  def norm (a: v) = F.(sqrt (a.x * a.x + a.y * a.y))
  def hidden = 1
}
module v64 = mk f64
module v32 = mk f32
"""


def last_type(text: str) -> str:
    checked = check_text(text, "t.fut")
    binding = checked.funs[-1].binding
    assert binding is not None and binding.scheme is not None
    return show_type(binding.scheme.type)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("module m = { def two = 2i64 module n = { def three = 3f32 } }\ndef f = (m.two, m.n.three)", "(i64, f32)"),
        ("module m = { type t = f32 def id (x: t) = x }\ndef f (x: m.t) = m.id x", "f32 -> f32"),
        ("module m = { local def h = 1i8 def g = h }\nopen m\ndef f = g", "i8"),
        ("module m = { open { def a = 1u8 } }\ndef f = m.a", "u8"),
        ("module m = { def (+) (x: i32) (y: i32) = x - y }\ndef f x y = x m.+ y", "i32 -> i32 -> i32"),
        ("module m = { def x = 1.5f32 }\ndef f y = m.(x + y)", "f32 -> f32"),
        (VEC + "def f a b = v64.norm (v64.add a b)", "v -> v -> f64"),
        (VEC + "def f a = v32.norm a", "v -> f32"),
        ("module F (P: {val k: i64}) (Q: {val x: f32}) = {def g = replicate P.k Q.x}\n"
         "module m = F {def k = 3i64} {def x = 2f32}\ndef f = m.g", None),
        ("module m = \\(P: {type t}) -> {type u = P.t}\nmodule k = m {type t = i8}\ndef f (x: k.u) = x", "i8 -> i8"),
        ("module i = i32\ndef f = i.max 1 2", "i32"),
        ("module type s = {val g [n]: [n]i32 -> [n]i32}\nmodule m: s = {def g xs = map (+ 1) xs}\n"
         "def f = m.g [1]", "[1]i32"),
    ],
)  # fmt: skip
def test_modules(text: str, expected: str | None) -> None:
    shown = last_type(text)
    assert expected is None or shown == expected


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("module m = {def a = 1}\ndef f = m.b", ScopeError, ["'m'", "no value 'b'"]),
        ("module m = {def alpha = 1}\ndef f = m.alpa", ScopeError, ["did you mean 'm.alpha'"]),
        ("open mm", ScopeError, ["unknown module 'mm'"]),
        ("module m: {val x: i32} = {def y = 1}", TypeCheckError, ["lacks 'x'"]),
        ("module m: {val x: i32} = {def x = true}", TypeCheckError, ["'x' has type bool", "i32"]),
        ("module m: {type t} = {}", TypeCheckError, ["lacks type 't'"]),
        ("module m: nosig = {}", ScopeError, ["unknown module type"]),
        ("module m = {def a = 1} {def b = 2}", TypeCheckError, ["takes no parameter"]),
        ("module F (P: {val k: i64}) = {}\nmodule m = F {def j = 1}", TypeCheckError, ["lacks 'k'"]),
        ("module m = {local def a = 1}\ndef f = m.a", ScopeError, ["no value 'a'"]),
        (VEC + "def f = v64.hidden", ScopeError, ["hidden"]),
        ("def a = 1\ndef a = 2", ScopeError, ["defined twice"]),
        ("val x: i32", TypeCheckError, ["module types"]),
        ("module type t = {val f: []i32 -> i32}", TypeCheckError, ["'f'", "does not name the size"]),
        ("module type t = {val f: i32 -> ([]i32 -> i32) -> i32}", TypeCheckError, ["does not name the size"]),
        ("module type t = {val f: (x: i32) -> (x: i32) -> i32}", TypeCheckError, ["'x' is declared twice"]),
        ("module m: {type t [n]} = {type t [n] = [n + 1]i32}", TypeCheckError, ["cannot be abstract", "'n'"]),
        ("module m: {type^ t [n]} = {type^ t [n] = [n]i32 -> i32}", TypeCheckError, ["cannot be abstract", "'n'"]),
        (
            "module type a = {type t '^a}\nmodule type b = a with t 'a = a",
            TypeCheckError,
            ["'^t", "may stand for more"],
        ),
        ("module m: {type~ t val x: t} = {type~ t = []i32 def x = [1i32]}", TypeCheckError, ["'x'", "is no function"]),
        ("module m (p: {type t val x: t}) = {}\ndef f = m.x", TypeCheckError, ["'m' is a parametric module"]),
        (
            "module m: {type t 'a 'b val mk 'a 'b: a -> b -> t a b} = {type t 'a 'b = a def mk x _ = x}\n"
            "entry f [n] (_: m.t i64 ([n]i64)) = n",
            TypeCheckError,
            ["size parameter 'n' of 'f'"],
        ),
        (
            "module m: {type~ t val mk: i64 -> t} = {type~ t = []i64 def mk n = iota n}\ndef f n = [m.mk n]",
            TypeCheckError,
            ["t is a lifted type"],
        ),
    ],
)
def test_module_errors(text: str, kind: type[Exception], words: list[str]) -> None:
    with pytest.raises(kind) as got:
        check_text(text, "t.fut")
    for w in words:
        assert w in str(got.value), str(got.value)


def test_imported_modules(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.fut").write_text("module m = {def x = 1i64}\ndef y = 2f32\nentry z = 3i8\n")
    (tmp_path / "b.fut").write_text('module a = import "a"\ndef f = (a.m.x, a.y)\n')
    (tmp_path / "c.fut").write_text('open import "a"\nmodule n = {open import "b"}\nentry g = (m.x, n.f)\n')
    checked = check_file(tmp_path / "c.fut")
    assert [e.name for e in checked.entries] == ["g"]
    assert [f.name for f in checked.funs] == ["x", "y", "z", "f", "g"]


# What `x/d.fut` may say with `mk`, and what it is applied to: `f` is that of `x/a.fut` in all of them.
ONE = "{type t = i32}"
IMPORTS_INSIDE = {
    "in the body": ('module mk (P: {type t}) = { import "a" def g (x: i32) = f x }', ONE),
    "local": ('module mk (P: {type t}) = { local import "a" def g (x: i32) = f x }', ONE),
    "as a module": ('module mk (P: {type t}) = { module m = import "a" def g (x: i32) = m.f x }', ONE),
    "opened": ('module mk (P: {type t}) = { open import "a" def g (x: i32) = f x }', ONE),
    "is the body": ('module mk (P: {type t}) = import "b"', ONE),
    "in a module": ('module mk (P: {type t}) = { module m = { import "a" def h (x: i32) = f x } def g = m.h }', ONE),
    "of any type": ('module mk (P: real) = { import "a" def g (x: i32) = f x }', "f64"),
    "two parameters": ('module mk (P: {type t}) (Q: {type t}) = { import "a" def g (x: i32) = f x }', f"{ONE} {ONE}"),
    "in a parametric one": (
        """module mk (P: {type t}) = {
             module inner (Q: {type t}) = { import "a" def g (x: i32) = f x }
             open inner P
           }""",
        ONE,
    ),
    "of one applied there": (
        """module inner (Q: {type t}) = { import "a" def g (x: i32) = f x }
           module mk (P: {type t}) = inner P""",
        ONE,
    ),
    "of one applied elsewhere": ('module mk (P: {type t}) = { module m = import "y/e" open m.mk P }', ONE),
    "of a lambda": ('module mk = \\(P: {type t}) -> { import "a" def g (x: i32) = f x }', ONE),
}


@pytest.mark.parametrize("decoy", [True, False], ids=["another there", "none there"])
@pytest.mark.parametrize(("text", "args"), IMPORTS_INSIDE.values(), ids=IMPORTS_INSIDE)
def test_imports_in_parametric_modules_are_of_their_file(text, args, decoy, tmp_path):
    files = {
        "x/a.fut": "def f (x: i32) = x + 1",
        "x/b.fut": 'import "a" def g (x: i32) = f x',
        "x/d.fut": text,
        "x/y/a.fut": "def f (x: i32) = x + 1",
        "x/y/e.fut": 'module mk (Q: {type t}) = { import "a" def g (x: i32) = f x }',
        "main.fut": f'import "x/d"\nmodule k = mk {args}\ndef main (x: i32) = k.g x',
    }
    if decoy:
        files |= {"a.fut": "def f (x: i32) = x + 100", "main.fut": 'local import "a"\n' + files["main.fut"]}
    (tmp_path / "x" / "y").mkdir(parents=True)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert futad.load(tmp_path / "main.fut", backend="interp").main(1) == 2


@pytest.mark.parametrize("body", ['import "a" def g (x: i32) = f x', "def g (x: i32) = t32 (r32 x + 1)"])
def test_what_parametric_modules_use_first(body, tmp_path):
    """Files and functions of the prelude that are first met in the body of a parametric module stay in the program."""
    (tmp_path / "a.fut").write_text("def f (x: i32) = x + 1")
    text = f"module mk (P: {{type t}}) = {{ {body} }} module k = mk {{type t = i32}} def main (x: i32) = k.g x"
    (tmp_path / "main.fut").write_text(text)
    assert futad.load(tmp_path / "main.fut", backend="interp").main(1) == 2
