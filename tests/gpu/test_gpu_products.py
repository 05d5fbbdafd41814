"""Operands of products that are computed: their loads come first, where nothing but the element depends on them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from futad.backend.device_product import MOST, loads_first
from futad.core.types import F64, I64
from futad.flatten import kernel as kir
from futad.imp import ir
from tests.support.agreement import agree
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

ROW, COLUMN = ir.Ref("i", I64), ir.Ref("j", I64)


def load(name: str, pointer: str, index: ir.Expr) -> ir.Decl:
    return ir.Decl(name, F64, ir.Load(pointer, index, F64))


def ref(name: str) -> ir.Ref:
    return ir.Ref(name, F64)


def times(name: str, *factors: ir.Expr) -> ir.Decl:
    return ir.Decl(name, F64, ir.Scalar("mul", factors, F64, F64))


def functor(value: ir.Expr, *body: ir.Stmt) -> kir.Functor:
    return kir.Functor(["b", "i", "j"], None, [*body], [value])


def test_loads_and_arithmetic() -> None:
    at = ir.Decl("at", I64, ir.add(ir.mul(ROW, ir.num(7)), COLUMN))
    body = [at, load("x", "p", ir.Ref("at", I64)), times("y", ref("x"), ref("x")), load("w", "q", COLUMN)]
    found = loads_first(functor(ref("z"), *body, times("z", ref("y"), ref("w"))))
    assert found is not None
    assert [s.name for s in found.read] == ["at", "x", "w"]
    assert [v.name for v in found.values] == ["x", "w"]
    assert [s.name for s in found.rest] == ["y", "z"]


def test_an_index_that_is_read() -> None:
    body = [ir.Decl("k", I64, ir.Load("places", ROW, I64)), load("x", "p", ir.Ref("k", I64))]
    found = loads_first(functor(ref("y"), *body, times("y", ref("x"), ref("x"))))
    assert found is not None and [v.name for v in found.values] == ["x"] and len(found.read) == 2


def test_what_indices_make() -> None:
    scale = ir.Decl("s", F64, ir.Scalar("i64_f64", (ROW,), I64, F64))
    found = loads_first(functor(ref("y"), scale, load("x", "p", COLUMN), times("y", ref("x"), ref("s"))))
    assert found is not None
    assert [s.name for s in found.read] == ["s", "x"] and [v.name for v in found.values] == ["s", "x"]


@pytest.mark.parametrize(
    "refused",
    [
        functor(ref("y"), times("y", ref("c"), ref("c"))),  # nothing is read
        functor(ref("x"), load("x", "p", ROW), ir.Store("q", ROW, ref("x"))),
        functor(ref("x"), ir.Check(ir.compare("<", ROW, COLUMN), 0, 0), load("x", "p", ROW)),
        functor(ref("x"), ir.Decl("x", F64, ref("c"), mutable=True), load("y", "p", ROW)),
        functor(ref("y"), load("x", "p", ROW), times("y", ref("x"), ir.Scalar("i64_f64", (COLUMN,), I64, F64))),
        functor(ref("y"), ir.Decl("k", I64, ir.Load("p", ROW, I64)),
                times("y", ir.Scalar("i64_f64", (ir.Ref("k", I64),), I64, F64))),
        functor(ref(f"y{MOST}"), *[load(f"x{i}", "p", ir.num(i)) for i in range(MOST + 1)], times("y0", ref("x0")),
                *[times(f"y{i}", ref(f"y{i - 1}"), ref(f"x{i}")) for i in range(1, MOST + 1)]),
    ],
)  # fmt: skip
def test_operands_that_stay_in_one(refused: kir.Functor) -> None:
    assert loads_first(refused) is None


PROGRAM = """
def weighted [n][m] (w: [m]f64) (a: [n][m]f64) = map (map2 (\\w x -> -x * 0.5 * w) w) a
entry main [n][m][k] (w: [m]f64) (a: [n][m]f64) (b: [m][k]f64): [n][k]f64 =
  map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) (transpose b)) (weighted w a)
entry scaled [n][m][k] (w: [m]f64) (a: [n][m]f64) (b: [m][k]f64): [n][k]f64 =
  main w (map2 (\\r i -> map (* f64.i64 i) r) a (iota n)) b
entry gradient [n][m][k] (w: [m]f64) (a: [n][m]f64) (b: [m][k]f64) =
  vjp (\\(w, a, b) -> f64.sum (map f64.sum (main w a b))) (w, a, b) 1
"""


@pytest.mark.slow
@needs_cxx
def test_a_program() -> None:
    made = OnDevice(PROGRAM)
    assert "futad_compute<double, 1>(futad_functor2, futad_functor3)" in made.backend.source
    assert "futad_compute<double, 1>(futad_functor1)" not in made.backend.source  # each is in two parts
    rng = np.random.default_rng(0)
    for n, m, k in ((0, 3, 2), (3, 0, 2), (2, 3, 0), (1, 1, 1), (33, 65, 34), (70, 17, 65)):
        args = [m, n, k, rng.normal(size=m), rng.normal(size=(n, m)), rng.normal(size=(m, k))]
        for name in ("main", "scaled", "gradient"):
            assert agree(made.program, made.emulated, name, args, 1e-12)


# --- squared differences ----------------------------------------------------------------------------------------------


SQUARED = """
def pairs [n][m][d] (f: f64 -> f64 -> f64) (xs: [n][d]f64) (ys: [m][d]f64): [n][m]f64 =
  map (\\x -> map (\\y -> f64.sum (map2 f x y)) ys) xs
entry differences [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = pairs (\\a b -> (a - b) * (a - b)) xs ys
entry turned [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = pairs (\\a b -> let t = b - a in t * t) xs ys
entry nearest [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64): [n]f64 =
  map (\\x -> f64.minimum (map (\\y -> f64.sum (map2 (\\a b -> (a - b) * (a - b)) x y)) ys)) xs
entry gradient [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = vjp (\\(xs, ys) -> f64.sum (nearest xs ys)) (xs, ys) 1
"""
OTHERS = """
def pairs [n][m][d] (f: f64 -> f64 -> f64) (xs: [n][d]f64) (ys: [m][d]f64): [n][m]f64 =
  map (\\x -> map (\\y -> f64.sum (map2 f x y)) ys) xs
entry sums [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = pairs (\\a b -> (a + b) * (a + b)) xs ys
entry mixed [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = pairs (\\a b -> (a - b) * (b - a)) xs ys
entry products [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = pairs (\\a b -> (a - b) * a) xs ys
entry scaled [n][m][d] (xs: [n][d]f64) (ys: [m][d]f64) = pairs (\\a b -> (2 * a - b) * (2 * a - b)) xs ys
entry single [n][m][d] (xs: [n][d]f32) (ys: [m][d]f32): [n][m]f32 =
  map (\\x -> map (\\y -> f32.sum (map2 (\\a b -> (a - b) * (a - b)) x y)) ys) xs
"""


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize(("source", "by_products"), [(SQUARED, True), (OTHERS, False)])
def test_sums_of_squared_differences(source: str, by_products: bool) -> None:
    made = OnDevice(source)
    assert ("futad_square_step<" in made.backend.source) == by_products
    assert ("futad_step<" in made.backend.source) == (not by_products)
    rng = np.random.default_rng(1)
    for n, m, d in ((0, 3, 2), (3, 0, 2), (2, 3, 0), (1, 1, 1), (33, 34, 9), (9, 70, 17), (70, 5, 3)):
        for scale, shift in ((1.0, 0.0), (1e-9, 1e3)):
            xs, ys = rng.normal(size=(n, d)) * scale + shift, rng.normal(size=(m, d)) * scale + shift
            for entry in re.findall(r"entry (\w+)", source):
                kind, digits = (np.float32, 1e-5) if entry == "single" else (np.float64, 1e-11)
                fun, sizes = made.fun(entry), {"n": n, "m": m, "d": d}
                counts = [sizes[p.name.split("_")[0]] for p in fun.body.params[: fun.num_sizes]]
                args = [*counts, xs.astype(kind), ys.astype(kind)]
                for got, want in zip(made.run(entry, args), made.interpreted(entry, args), strict=True):
                    largest = np.abs(want).max(initial=0) if np.isfinite(want).all() else 1
                    np.testing.assert_allclose(got, want, rtol=digits, atol=digits * largest / 100, err_msg=entry)
