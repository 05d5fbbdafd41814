"""The front end on a program of a thousand lines with modules: time, and the size of what it makes."""

from __future__ import annotations

import pytest

from futad.source import compile_text
from tests.support.processor_time import within

HEAD = """
module type ring = {
  type t
  val zero: t
  val one: t
  val add: t -> t -> t
  val mul: t -> t -> t
  val of_f64: f64 -> t
}
module doubles: ring with t = f64 = {
  type t = f64
  def zero = 0f64
  def one = 1f64
  def add (a: t) (b: t) = a + b
  def mul (a: t) (b: t) = a * b
  def of_f64 (x: f64) = x
}
module singles: ring with t = f32 = {
  type t = f32
  def zero = 0f32
  def one = 1f32
  def add (a: t) (b: t) = a + b
  def mul (a: t) (b: t) = a * b
  def of_f64 (x: f64) = f32.f64 x
}
"""

LAYER = """
module layerN (R: ring) = {
  type t = R.t
  type pair = {a: t, b: t}
  type shape = #square t | #circle t | #rect t t

  def dot [n] (xs: [n]t) (ys: [n]t): t =
    reduce R.add R.zero (map2 R.mul xs ys)

  def matvec [n][m] (a: [n][m]t) (x: [m]t): [n]t =
    map (\\row -> dot row x) a

  def area (s: shape): t =
    match s
    case #square x -> R.mul x x
    case #circle r -> R.mul (R.of_f64 f64.pi) (R.mul r r)
    case #rect x y -> R.mul x y

  def steps [n] (k: i64) (x: [n]t): [n]t =
    loop x for i < k do
      let y = map (\\v -> R.add v (R.of_f64 (f64.i64 i))) x
      in map2 R.mul x y

  def pairs [n] (xs: [n]t): [n]pair =
    map (\\x -> {a = x, b = R.add x R.one}) xs

  def total [n] (ps: [n]pair): t =
    let as = map (.a) ps
    let bs = map (.b) ps
    in R.add (dot as bs) (reduce R.add R.zero as)
}

module lN_64 = layerN doubles
module lN_32 = layerN singles

entry runN [n] (xs: [n]f64) (k: i64): f64 =
  let a = map (\\i -> map (\\x -> x * f64.i64 i) xs) (iota n)
  let y = lN_64.matvec a xs
  let z = lN_32.total (lN_32.pairs (map f32.f64 y))
  in lN_64.dot y (lN_64.steps k xs) + f64.f32 z + lN_64.area (#rect 1 2)
"""


@pytest.mark.slow
def test_a_thousand_lines_with_modules():
    text = HEAD + "".join(LAYER.replace("N", str(i)) for i in range(25))
    assert text.count("\n") > 1000
    compile_text("entry f (x: f64) = x")
    assert within(3, lambda: compile_text(text))
    program = compile_text(text)
    # Code grows with the program, not with the applications of modules times their uses.
    assert len(program.funs) <= 5 * 25
    assert len(str(program).splitlines()) < 2 * text.count("\n")
