"""What the iterations of a loop compute apart from what it carries, for all iterations at once."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.testing.build import prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
def dot [n] (x: [n]f64) (y: [n]f64) = f64.sum (map2 (*) x y)
def mul [m][n][k] (a: [m][n]f64) (b: [n][k]f64): [m][k]f64 = map (\\x -> map (dot x) (transpose b)) a

-- The product with the input is for all iterations, that with the state is not.
def network [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64): f64 =
  let step (s: [b][h]f64) (x: [b][d]f64) = map2 (map2 (\\a c -> f64.sin (a + c))) (mul x w) (mul s v)
  let (_, total) = loop (s, total) = (replicate b (replicate h 0.1), 0) for i < t do
    let s = step s xs[i] in (s, total + f64.sum (map f64.sum s))
  in total

entry forward [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) = network xs w v
entry adjoint [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) =
  vjp (\\(xs, w, v) -> network xs w v) (xs, w, v) 1

-- What an iteration makes of its state is compared with a target, by parameters of its own.
entry predicted [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) =
  let loss (w: [d][h]f64, v: [h][h]f64, bias: [d]f64) =
    let (_, total) = loop (s, total) = (replicate b (replicate h 0.1), 0) for i < t do
      let s = map (map f64.sin) (mul s v)
      let ys = map (map2 (+) bias) (mul s (transpose w))
      in (s, total + f64.sum (map2 (\\p y -> f64.sum (map2 (\\a c -> (a - c) * (a - c)) p y)) ys xs[i]))
    in total + f64.sum (map f64.sin bias)
  in vjp loss (w, v, map (const 0.5) w) 1

-- Sums of products over all iterations, from something, and one that is read in between.
entry sums [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) =
  let plus = map2 (map2 (+))
  let ww = mul w (mul v (transpose w))
  in loop (a, c, s) = (ww, map (map f64.sin) ww, 0) for i < t do
    let y = map (map f64.cos) (mul xs[i] ww)
    in (plus a (mul (transpose xs[i]) y), plus c (mul (transpose y) xs[i]), s + c[0, 0])

-- Nothing but sums.
entry totals [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) =
  let ww = mul w (mul v (transpose w))
  in loop (a, c) = (ww, map (map (const 0)) ww) for i < t do
    let y = map (map f64.cos) (mul xs[i] ww)
    in (map2 (map2 (+)) a (mul (transpose xs[i]) y), map2 (map2 (+)) c (mul (transpose y) xs[i]))

-- Tables of all pairs are larger than what an iteration reads.
entry pairs [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) =
  loop s = 0 for i < t do
    let p = mul xs[i] (transpose xs[i])
    in f64.sum (map (\\r -> f64.sum (map (\\a -> a * f64.cos s) r)) p) + w[0, 0] + v[0, 0]

-- Other iterations' elements.
entry shifted [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) =
  loop s = replicate b (replicate h 1) for i < t do
    map2 (map2 (+)) (mul xs[(i + 1) % t] w) (mul s v)

-- A sum of products with other iterations' parts.
entry mirrored [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) =
  let ww = mul w (mul v (transpose w))
  in loop (a, c) = (replicate b (replicate d 0.1), ww) for i < t do
    let y = mul xs[i] ww
    in (map2 (map2 (\\p q -> f64.sin (p + q))) a y, map2 (map2 (+)) c (mul (transpose y) xs[t - 1 - i]))

-- Iterations are the second dimension, and the factors of sums what the loop carries, as it is and transposed.
entry carried [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) =
  let plus [n][m] (a: [n][m]f64) (c: [n][m]f64) = map2 (map2 (+)) a c
  let zeros n m = replicate n (replicate m 0)
  let ww = mul w (mul v (transpose w))
  let turned: [b][t][d]f64 = map (\\i -> map (\\x -> x[i]) xs) (iota b)
  in loop (s, p, q, r, e) = (zeros b d, ww, zeros d d, zeros d d, replicate d 0) for i < t do
    let x: [b][d]f64 = turned[:, i]
    let y = map2 (map2 (\\a c -> f64.sin (a + c))) x s
    in (y, plus p (mul (transpose y) (mul s ww)), plus q (mul (transpose s) x), plus r (mul (transpose x) y),
        map2 (+) e (map f64.sum (transpose y)))

-- Gates side by side: the sum has another shape than the product.
entry gates [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) =
  let loss (us: [3][h][h]f64) =
    (loop s = map (map f64.cos) (mul xs[0] w) for i < t do
      let zs = map (\\row -> map (\\u -> map (dot row) u) us) s
      let out = map (\\z -> map3 (\\a c e -> a * f64.cos c + e) z[0] z[1] z[2]) zs
      in map2 (map2 (\\a c -> f64.sin (a + c))) (mul xs[i] w) out)
    |> map f64.sum |> f64.sum
  in vjp loss (replicate 3 v) 1

-- A sum's own value is a factor.
entry squared [t][b][d][h] (xs: [t][b][d]f64) (w: [d][h]f64) (v: [h][h]f64) =
  let s0 = map (map (/ 100)) v
  in loop (s, y) = (s0, w) for i < t do
    (map2 (map2 (+)) s (mul s s), map2 (map2 (+)) y (map (map f64.sin) (mul (transpose xs[i]) (mul xs[i] w))))
"""
ENTRIES = ("forward", "adjoint", "predicted", "sums", "totals", "pairs", "shifted", "mirrored")
ENTRIES += ("carried", "gates", "squared")
DEVICE = OnDevice(SOURCE, "iterations.fut", check=True)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_equal_to_the_interpreter(name: str) -> None:
    own = DEVICE.emulated.device.limits.thresholds
    for t, b, d, h in [(0, 3, 2, 2), (1, 1, 1, 1), (4, 3, 5, 2), (3, 40, 6, 7), (2, 5, 3, 0), (2, 0, 3, 2)]:
        if (name in ("sums", "pairs") and h == 0) or (name == "gates" and t == 0):
            continue  # they look into the matrices
        rng = np.random.default_rng(t + b)
        args = [*map(np.int64, (t, b, d, h)), *[rng.standard_normal(n) for n in ((t, b, d), (d, h), (h, h))]]
        expected = DEVICE.interpreted(name, args)
        for tiles in (own.enough_tiles, 0):
            DEVICE.emulated.choose(own._replace(enough_tiles=tiles))
            for x, y in zip(DEVICE.run(name, args), expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


def launches(name: str) -> int:
    """Those of one more iteration."""
    counts = [DEVICE.count(name, {"t": t, "b": 100, "d": 30, "h": 40}).launches for t in (20, 21)]
    return counts[1] - counts[0]


@pytest.mark.slow
def test_a_iteration_launches_what_depends_on_the_iteration_before() -> None:
    assert launches("predicted") <= 5 and launches("sums") <= 3
    assert launches("totals") == 0


def test_what_is_taken_apart_is_well_typed() -> None:
    made = prepared(DEVICE.program)
    check_program(made)

    def inside(lam: ir.Lambda, loop: bool) -> int:
        mine = sum(isinstance(s.exp, ir.MatMul) and loop for s in lam.stms)
        return mine + sum(inside(f, loop or isinstance(s.exp, ir.For)) for s in lam.stms for f in s.exp.lambdas())

    counts = {name: inside(made.funs[DEVICE.symbol(name)].body, False) for name in ENTRIES}
    before = {name: inside(DEVICE.fun(name).body, False) for name in ENTRIES}
    assert (counts["predicted"], counts["sums"]) == (before["predicted"] - 4, before["sums"] - 2) == (2, 1)
    assert counts["carried"] == before["carried"] - 3 == 1 and counts["gates"] == before["gates"] - 2
    # What these would keep may be larger than what an iteration reads.
    assert all(counts[name] == before[name] > 0 for name in ("forward", "pairs", "shifted"))
