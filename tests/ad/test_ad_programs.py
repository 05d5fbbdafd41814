"""Differentiated programs in the source language: attributes of loops, many directions, given derivatives, and what
is left of accumulators in the derivatives of the benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.interp import Interpreter
from futad.core.types import shape_of
from futad.pipeline import compile_program
from futad.source import compile_text, load_program
from futad.testing.build import without_accs
from tests.support.cli_helpers import Runner
from tests.support.paths import BENCHMARK_PROGRAMS as PROGRAMS


def program(text: str) -> Any:
    return futad.compile(text, backend="interp")


# --- true_dep -----------------------------------------------------------------------------------------------

TRUE_DEP = """
def good [n] (xs: [n]f64) =
  loop #[true_dep] ys = copy xs for i < n - 1 do ys with [i + 1] = ys[i] * ys[i] * xs[i]
def bad [n] (xs: [n]f64) =
  loop #[true_dep] ys = copy xs for i < n - 1 do ys with [i] = ys[i] * ys[i + 1]
def inner [n] (xs: [n]f64) =
  loop #[true_dep] ys = copy xs for i < n do
    let s = loop s = 0 for j < i do s + ys[j] * f64.i64 j
    in if i > 2 then ys with [i] = s * xs[i] else ys with [i] = xs[i] + s
def late [n] (xs: [n]f64) =
  loop #[true_dep] ys = copy xs for i < n do
    let s = loop s = 0 for j < i do s + ys[j] * f64.i64 j
    in if i > 2 then ys with [0] = s * xs[i] else ys with [i] = xs[i] + s
def rows [n] (xs: [n]f64) =
  let ys = loop #[true_dep] ys = replicate n xs for i < n - 1 do ys with [i + 1] = copy (map2 (*) ys[i] xs)
  in flatten ys
def bad_rows [n] (xs: [n]f64) =
  let ys = loop #[true_dep] ys = replicate n xs for i < n - 1 do ys with [i] = copy (map2 (*) ys[i] xs)
  in flatten ys
def unseen [n] (xs: [n]f64) =
  loop #[true_dep] ys = copy xs for i < n do
    ys with [i] = f64.sum (map (\\j -> ys[j] * ys[j]) (iota i)) + xs[i]
def snapshot [n] (xs: [n]f64) =
  let (ys, _) = loop (#[true_dep] ys, s) = (copy xs, 0) for i < n - 1 do
    let old = copy ys
    let ys = ys with [i] = 2 * f64.i64 i
    in (ys, s + old[i] * old[i])
  in ys
"""
TRUE_DEP += "".join(
    f"entry {f}_rev [n] (xs: [n]f64) = vjp (\\xs -> f64.sum ({f} xs)) xs 1\n"
    f"entry {f}_fwd [n] (xs: [n]f64) = tabulate n (\\i -> jvp (\\xs -> f64.sum ({f} xs)) xs"
    " (replicate n 0 with [i] = 1))\n"
    for f in ("good", "bad", "inner", "late", "rows", "bad_rows", "unseen", "snapshot")
)
XS = np.array([0.5, 0.3, 0.8, 1.1, 0.2])


@pytest.fixture(scope="module")
def true_dep() -> Any:
    return program(TRUE_DEP)


@pytest.mark.parametrize("f", ["good", "inner", "rows", "unseen", "snapshot"])
def test_true_dep(true_dep: Any, f: str) -> None:
    got, want = getattr(true_dep, f"{f}_rev")(XS), getattr(true_dep, f"{f}_fwd")(XS)
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("f", ["bad", "late", "bad_rows"])
def test_a_wrong_true_dep_is_an_error(true_dep: Any, f: str) -> None:
    with pytest.raises(futad.Error, match="true_dep of ys is wrong.*overwritten after it was read"):
        getattr(true_dep, f"{f}_rev")(XS)


# --- loops over arrays whose shapes change ------------------------------------------------------------------

SHAPES = """
def grow (n: i64) (x: f64) =
  let ys = loop xs = [x, 2 * x] for i < n do map (\\v -> v * v + f64.i64 i) xs ++ [x * f64.sum xs]
  in f64.sum ys
def until (x: f64) =
  let (ys, _) = loop (xs, s) = ([x, 2 * x], 0) while s < 4 do (map (\\v -> v * v + s) (xs ++ [x * f64.sum xs]), s + 1)
  in f64.sum ys
def shrink [n] (x: f64) (xs: [n]f64) =
  let (_, p) = loop (ys: []f64, p: f64) = (copy xs :> []f64, 1) while length ys > 0 do
    (map (* 2) (filter (> 2) (map (\\y -> y / (4 + x)) ys)), p * f64.sum ys)
  in p
entry grow_rev (x: f64) = vjp (grow 3) x 1
entry grow_fwd (x: f64) = jvp (grow 3) x 1
entry until_rev (x: f64) = vjp until x 1
entry until_fwd (x: f64) = jvp until x 1
entry second_rr (x: f64) = vjp (\\x -> vjp until x 1) x 1
entry second_fr (x: f64) = jvp (\\x -> vjp until x 1) x 1
entry second_ff (x: f64) = jvp (\\x -> jvp until x 1) x 1
entry shrink_rev [n] (xs: [n]f64) = vjp (\\(x, xs) -> shrink x xs) (0.1, xs) 1
entry shrink_fwd [n] (xs: [n]f64) =
  ( jvp (\\(x, xs) -> shrink x xs) (0.1, xs) (1, replicate n 0)
  , tabulate n (\\i -> jvp (\\(x, xs) -> shrink x xs) (0.1, xs) (0, replicate n 0 with [i] = 1)))
"""


@pytest.fixture(scope="module")
def shapes() -> Any:
    return program(SHAPES)


@pytest.mark.slow
@pytest.mark.parametrize("f", ["grow", "until"])
def test_growing_arrays(shapes: Any, f: str) -> None:
    assert getattr(shapes, f"{f}_rev")(0.25) == pytest.approx(getattr(shapes, f"{f}_fwd")(0.25), rel=1e-13)


def test_growing_arrays_twice(shapes: Any) -> None:
    want = shapes.second_ff(0.25)
    assert shapes.second_rr(0.25) == pytest.approx(want, rel=1e-12)
    assert shapes.second_fr(0.25) == pytest.approx(want, rel=1e-12)


def test_shrinking_arrays(shapes: Any) -> None:
    xs = np.array([10.0, 20.0, 3.0, 40.0])
    for got, want in zip(shapes.shrink_rev(xs), shapes.shrink_fwd(xs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


# --- many directions ----------------------------------------------------------------------------------------

MANY = """
def f [n][m] (w: [m]f64) (xss: [n][m]f64): [n]f64 =
  map (\\xs -> f64.sum (map2 (\\x w -> f64.sin (x * w) * f64.exp w) xs w)) xss
entry one [n][m] (w: [m]f64) (xss: [n][m]f64) (ds: [1][m]f64) = {op}jmp (\\w -> f w xss) w ds
entry three [n][m] (w: [m]f64) (xss: [n][m]f64) (ds: [3][m]f64) = {op}jmp (\\w -> f w xss) w ds
entry back1 [n][m] (w: [m]f64) (xss: [n][m]f64) (ds: [1][n]f64) = {op}mjp (\\w -> f w xss) w ds
entry back3 [n][m] (w: [m]f64) (xss: [n][m]f64) (ds: [3][n]f64) = {op}mjp (\\w -> f w xss) w ds
"""


@pytest.mark.parametrize("op", ["", "#[unroll] "])
def test_one_primal_for_many_directions(op: str) -> None:
    """Sines, cosines and exponentials are computed as often for three directions as for one."""
    unit = load_text(MANY.format(op=op))
    n, m = 4, 5
    rng = np.random.default_rng(1)
    w, xss = rng.normal(size=m), rng.normal(size=(n, m))
    for entry, size in (("one", m), ("three", m), ("back1", n), ("back3", n)):
        d = 3 if "3" in entry or entry == "three" else 1
        calls = transcendental(unit, entry, [m, n, w, xss, rng.normal(size=(d, size))])
        assert calls["cos"] == n * m and calls["sin"] <= n * m and calls["exp"] <= 2 * n * m, (entry, calls)


def load_text(text: str) -> ir.Program:
    return compile_program(compile_text(text), check=True)


def transcendental(unit: ir.Program, entry: str, args: list[Any]) -> dict[str, int]:
    """How often each of these operations is evaluated."""
    from futad.core.interp import HANDLERS

    counts = {"sin": 0, "cos": 0, "exp": 0}
    evaluate = HANDLERS[ir.Op]

    def counted(m: Any, e: Any, stm: Any, sc: Any) -> Any:
        out = evaluate(m, e, stm, sc)
        if e.op in counts:
            counts[e.op] += int(np.size(out[0]))
        return out

    HANDLERS[ir.Op] = counted
    try:
        Interpreter(unit).run(entry, args)
    finally:
        HANDLERS[ir.Op] = evaluate
    return counts


# --- products -----------------------------------------------------------------------------------------------

PRODUCT = """
def f [n] (xs: [n]f64) = f64.product xs
entry hessian [n] (xs: [n]f64) = jmp (\\xs -> vjp f xs 1) xs (tabulate n (\\i -> replicate n 0 with [i] = 1))
entry twice [n] (xs: [n]f64) = mjp (\\xs -> vjp f xs 1) xs (tabulate n (\\i -> replicate n 0 with [i] = 1))
"""


@pytest.fixture(scope="module")
def product() -> Any:
    return program(PRODUCT)


@pytest.mark.parametrize("xs", [[2, 3, 5, 7], [0, 3, 5, 7], [2, 0, 0, 7], [0, 0, 0, 7], [0, 0, 0, 0], [0, 0, 1, 1]])
def test_second_derivatives_of_products(product: Any, xs: list[float]) -> None:
    """Of any two elements the product of the others, zeros or not; 0 on the diagonal."""
    n = len(xs)

    def others(i: int, j: int) -> float:
        return 0 if i == j else float(np.prod([xs[k] for k in range(n) if k not in (i, j)]))

    want = [[others(i, j) for j in range(n)] for i in range(n)]
    for entry in (product.hessian, product.twice):
        np.testing.assert_allclose(entry(np.array(xs, float)), want, rtol=1e-15)


# --- scans --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op, unit, cells",
    [
        ("\\(a, b) (c, d) -> (a * c, b * c + d)", "(1, 0)", 2),
        ("\\(a, b) (c, d) -> (a * c, b + a * d)", "(1, 0)", 3),
        ("\\(a, b) (c, d) -> (a * c + b * d, a * d + b * c)", "(1, 0)", 4),
    ],
)
def test_scans_compose_what_is_not_always_zero(op: str, unit: str, cells: int) -> None:
    """Diagonal, triangular and full Jacobians of two components: the adjoint's scan is over 2 + cells numbers."""
    text = f"""
    def f [n] (ab: [n](f64, f64)) = f64.sum (map (\\(a, b) -> a * b) (scan ({op}) {unit} ab))
    entry fwd [n] (a: [n]f64) (b: [n]f64) =
      let unit i = tabulate n (\\j -> f64.bool (i == j))
      in ( tabulate n (\\i -> jvp f (zip a b) (zip (unit i) (replicate n 0)))
         , tabulate n (\\i -> jvp f (zip a b) (zip (replicate n 0) (unit i))))
    entry rev2 [n] (a: [n]f64) (b: [n]f64) = unzip (vjp f (zip a b) 1)
    """
    p = program(text)
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=6), rng.normal(size=6)
    for got, want in zip(p.rev2(a, b), p.fwd(a, b), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    unit_ = compile_program(compile_text(text), stop_after="simplify-ad")
    (fun,) = [f for f in unit_.funs.values() if f.entry is not None and f.entry.name == "rev2"]
    scans = [s.exp for _, s in scopes(fun.body) if isinstance(s.exp, ir.Scan)]
    assert [len(e.neutral) for e in scans] == [2, 2 + cells]


# --- given derivatives --------------------------------------------------------------------------------------

GIVEN = """
def f (x: f64) = with_vjp (\\x -> x * 2) (\\c d -> d + f64.sqrt c) x
def g (x: f64, y: f64) = with_vjp_tape (\\(x, y) -> ((x, y), f64.sin x * y)) (\\((x, y), d) -> (10 * x * d, y)) (x, y)
def h [n] (c: f64) (xs: [n]f64) = with_vjp (map (* c)) (\\ys ds -> map2 (*) ys ds) xs
entry value (x: f64) = f x
entry rev (x: f64) = vjp f x 1
entry fwd (x: f64) = jvp f x 1
entry twice (x: f64) = vjp (\\x -> vjp f x 1) x 1
entry tape (x: f64) (y: f64) = vjp2 g (x, y) 3
entry free (c: f64) = vjp (\\c -> f64.sum (h c [1, 2])) c 1
entry free_fwd (c: f64) = jvp (\\c -> f64.sum (h c [1, 2])) c 1
entry array [n] (xs: [n]f64) = vjp (h 3) xs (replicate n 2)
entry inside [n] (xs: [n]f64) = vjp (\\xs -> f64.sum (map f xs)) xs 1
entry many [n] (xs: [n]f64) = mjp (h 3) xs (replicate 2 (replicate n 2))
"""


def test_given_derivatives() -> None:
    p = program(GIVEN)
    assert p.value(2.5) == 5.0
    assert p.rev(2.0) == 3.0
    assert p.fwd(2.0) == 2.0
    # The derivative of d + sqrt(f x), with f's derivative under the adjoint 1/4 being 1/4 + sqrt 4.
    assert p.twice(2.0) == 2.25
    value, (dx, dy) = p.tape(0.5, 4.0)
    assert value == pytest.approx(np.sin(0.5) * 4) and dx == 15.0 and dy == 4.0
    assert p.free(3.0) == 0.0
    assert p.free_fwd(3.0) == 3.0
    np.testing.assert_array_equal(p.array(np.array([1.0, 2.0])), [6.0, 12.0])
    np.testing.assert_array_equal(p.inside(np.array([2.0, 8.0])), [3.0, 5.0])
    np.testing.assert_array_equal(p.many(np.array([1.0, 2.0])), [[6.0, 12.0]] * 2)


# --- accumulators in the derivatives of the benchmarks ------------------------------------------------------


def scopes(lam: ir.Lambda, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ir.Stm]]:
    for s in lam.stms:
        yield path, s
        for inner in s.exp.lambdas():
            yield from scopes(inner, (*path, type(s.exp).__name__))


def nested(name: str, entry: str) -> list[tuple[int, ir.Stm]]:
    """The statements of a differentiated benchmark as C backends take it, each with how many maps it is inside of."""
    unit = without_accs(compile_program(load_program(str(PROGRAMS / name))))
    (fun,) = [f for f in unit.funs.values() if f.entry is not None and f.entry.name == entry]
    repeats = ("Map", "Fused")
    return [(sum(p in repeats for p in path), s) for path, s in scopes(fun.body)]


@pytest.mark.slow
def test_gmm_gradient_has_no_accumulator_in_the_hot_nest() -> None:
    """The k n d d work is two matrix products per cluster; nothing over n points is accumulated.

    What is left puts a d by d matrix per cluster together from its packed triangle: nothing over points.
    """
    stms = nested("gmm.fut", "gradient")
    assert sum(isinstance(s.exp, ir.MatMul) for _, s in stms) == 2
    opened = [s for _, s in stms if isinstance(s.exp, ir.WithAcc)]
    assert len(opened) == 1
    read = [v for v in ir.stm_free(opened[0]) if shape_of(v.type)]
    rank = {len(shape_of(v.type)) for v in read}
    points = [v for _, s in stms if isinstance(s.exp, ir.MatMul) for v in s.exp.operands() if v in read]
    assert rank <= {1, 2} and not points
    updates = [s.exp for _, s in stms if isinstance(s.exp, ir.UpdateAcc)]
    assert len(updates) == 2 and all(len(shape_of(e.acc.type)) == 1 for e in updates)


@pytest.mark.slow
def test_lstm_gradient_has_no_accumulator() -> None:
    """The adjoints of the weights are products, those of biases sums of rows."""
    stms = nested("lstm.fut", "gradient")
    assert sum(isinstance(s.exp, ir.MatMul) for _, s in stms) >= 8
    assert not any(isinstance(s.exp, ir.WithAcc | ir.UpdateAcc) for _, s in stms)


@pytest.mark.slow
def test_kmeans_derivatives_update_once_a_point() -> None:
    """One row for each point, at a place that depends on data: not inside the nest over clusters and coordinates."""
    for entry in ("gradient", "newton_step"):
        stms = nested("kmeans.fut", entry)
        updates = [(depth, s.exp) for depth, s in stms if isinstance(s.exp, ir.UpdateAcc)]
        assert len(updates) == (1 if entry == "gradient" else 2)
        made = {v: s.exp for _, s in stms for v in s.pat}
        for depth, e in updates:
            assert depth == 1 and len(e.index) == 1
            assert isinstance(made[e.index[0]], ir.Reduce | ir.Fused)  # the nearest centroid's


def test_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture) -> None:
    """A line for each accumulator."""
    cli = Runner(tmp_path, monkeypatch, capfdbinary)
    cli.file("w.fut",
        "def dot [m] (x: [m]f64) (y: [m]f64) = f64.sum (map2 (*) x y)\n"
        "entry g [n][k] (is: [n]i64) (w: [k]f64) =\n"
        "  vjp (\\w -> f64.sum (map (\\i -> w[i] * w[0] * w[i]) is)) w 1\n"
    )
    out = cli("dev", "w.fut", "--after", "accs", "--why")
    assert out.code == 0
    lines = out.out.splitlines()
    assert lines and all(": kept: " in line or ": reduced: " in line or ": removed: " in line for line in lines)
    assert len({line.split(":")[0] for line in lines}) == len(lines)
    assert cli("dev", "w.fut", "--why").code == 2
