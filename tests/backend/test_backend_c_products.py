"""Matrix products on the C backends: computed where a map puts its result, vectors summed where the sum lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.imp import ir
from futad.pipeline import compile_program
from futad.source import load_program
from futad.testing.build import c_backend

TEXT = """
def mm [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n][m]f64 =
  map (\\row -> map (\\column -> f64.sum (map2 (*) row column)) (transpose b)) a

entry shifted [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): ([c][n][d]f64, [c][n]f64) =
  unzip (map (\\q -> unzip (map (\\row -> let y = map2 (-) row s in (y, f64.sum (map (\\t -> t * t) y)))
                               (mm xs q))) qs)
entry doubled [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): [c][n][d]f64 =
  map (\\q -> map (map2 (+) s) (mm xs q)) qs
entry twice_read [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): [c][n][d]f64 =
  map (\\q -> map (\\row -> let t = f64.sum row in map2 (\\a b -> a * b + t) row s) (mm xs q)) qs
entry reversed [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): [c][n][d]f64 =
  map (\\q -> map (\\row -> map2 (*) (reverse row) s) (mm xs q)) qs
entry turned [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): [n][d]f64 =
  loop ys = copy xs for q in qs do map2 (\\y p -> map3 (\\a b c -> a + b * c) y p s) ys (mm ys q)
entry steps [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): [n][d]f64 =
  loop ys = copy xs for q in qs do map (map2 (+) s) (mm ys q)
entry kept [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): ([c][n][d]f64, [c][d]f64) =
  unzip (map (\\q -> let p = mm xs q in (map (map2 (+) s) p, map f64.sum (transpose p))) qs)
entry layers [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): [n][d]f64 =
  let w = map (map2 (+) s) (transpose (map (map (* 0.5)) (mm (transpose xs) xs)))
  in loop ys = copy xs for _i < c + 1 do
       map (\\y -> map2 (\\row b -> f64.tanh (f64.sum (map2 (*) row y) + b)) w s) ys
entry gates [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): [c][n][2][d]f64 =
  map (\\q -> let w = map (\\row -> sized (2 * d) (row ++ s)) q
              in map (\\y -> map (map2 (+) s) (unflatten (sized (2 * d) y))) (mm xs w)) qs
entry saved [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): [n][d]f64 =
  vjp (\\xs -> f64.sum (map f64.sum (loop ys = xs for q in qs do map (map2 (\\b y -> f64.sin (y * b)) s) (mm ys q))))
      xs 1

entry centres [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): ([n][d]f64, [d]f64, [c]f64) =
  let scaled = map (\\x -> map2 (\\a b -> a * b) x s) xs
  in (scaled, reduce_comm (map2 (+)) (replicate d 0) (map (map (\\a -> 2 * a + 1)) scaled),
      map (\\q -> f64.sum (map f64.sum q)) qs)
entry started [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): ([d]f64, [d]f64, [c]f64) =
  (map2 (+) s (reduce (map2 (+)) (replicate d 0) (map (map (\\a -> a * a)) xs)), map (* 2) s,
   map (\\q -> f64.sum q[0]) (map (map (map (+ 1))) qs))
entry smallest [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): [c][d]f64 =
  map (\\q -> reduce (map2 f64.min) s (map (map2 (*) s) q)) qs
def total [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): f64 =
  f64.sum (map (\\q -> f64.sum (map (\\row -> f64.exp (f64.sum (map2 (\\a b -> (a - b) * a) row s))) (mm xs q))) qs)
entry value [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): f64 = total qs s xs
entry gradient [c][n][d] (qs: [c][d][d]f64) (s: [d]f64) (xs: [n][d]f64): ([c][d][d]f64, [d]f64) =
  vjp (\\(qs, s) -> total qs s xs) (qs, s) 1
"""
NAMES = ["shifted", "doubled", "twice_read", "reversed", "turned", "steps", "kept", "layers", "gates", "saved",
         "centres", "started", "smallest", "gradient"]  # fmt: skip


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    return {b: futad.compile(TEXT, name="products", backend=b) for b in ("interp", "c", "multicore")}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_as_the_interpreter(programs: dict[str, Any], backend: str, name: str) -> None:
    for c, n, d in ((2, 7, 3), (3, 20, 10), (1, 40, 33), (2, 0, 4), (0, 4, 5), (2, 3, 1)):
        r = np.random.default_rng(c + 10 * n + 100 * d)
        args = [0.3 * r.standard_normal(s) for s in ((c, d, d), (d,), (n, d))]
        args[2][:1] = 0
        expected, got = (programs[b][name](*args) for b in ("interp", backend))
        for a, e in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, expected)), strict=True):
            # An element is a sum, of terms as large as the largest element, which may cancel.
            np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12 * max(1, np.max(np.abs(e), initial=0)))


@pytest.mark.slow
def test_nan_stays(programs: dict[str, Any]) -> None:
    qs, s, xs = np.zeros((2, 9, 9)), np.zeros(9), np.ones((12, 9))
    xs[3, 4] = np.nan
    for name in ("shifted", "doubled"):
        for backend in ("interp", "c", "multicore"):
            result = programs[backend][name](qs, s, xs)
            ys = result[0] if name == "shifted" else result
            assert np.isnan(ys[:, 3]).all() and (np.delete(ys, 3, 1) == 0).all()
    total = programs["c"].centres(qs, s, xs)[1]
    assert np.isnan(total[4]) and (np.delete(total, 4) == 12).all()


@pytest.mark.slow
def test_gradients_are_slopes(programs: dict[str, Any]) -> None:
    r = np.random.default_rng(5)
    qs, s, xs = (0.3 * r.standard_normal(shape) for shape in ((2, 6, 6), (6,), (11, 6)))
    dqs, ds = r.standard_normal(qs.shape), r.standard_normal(s.shape)
    gqs, gs = programs["c"].gradient(qs, s, xs)
    h = 1e-6
    up, down = (programs["c"].value(qs + e * dqs, s + e * ds, xs) for e in (h, -h))
    assert (gqs * dqs).sum() + (gs * ds).sum() == pytest.approx((up - down) / (2 * h), rel=1e-7)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ir.Module:
    file = tmp_path_factory.mktemp("products") / "products.fut"
    file.write_text(TEXT)
    return c_backend(compile_program(load_program(str(file)))).module


def statements(body: list[ir.Stmt]) -> list[ir.Stmt]:
    out = []
    for s in body:
        out += [s, *statements(getattr(s, "body", []))]
    return out


@pytest.mark.parametrize(("name", "slots"), [
    ("shifted", 2), ("doubled", 1), ("twice_read", 2), ("reversed", 2), ("kept", 3), ("centres", 3), ("gates", 2)])
def test_memory(module: ir.Module, name: str, slots: int) -> None:
    """That of the results, and of a product that is not read once and in order."""
    (f,) = [f for f in module.functions if f.name == name]
    assert sum(isinstance(s, ir.Ensure) for s in statements(f.body)) == slots


def test_a_transpose_is_packed_once(module: ir.Module) -> None:
    (f,) = [f for f in module.functions if f.name == "layers"]
    loops = [s for s in f.body if isinstance(s, ir.For) and any(isinstance(t, ir.Gemm) for t in statements(s.body))]
    (product,) = [s for s in statements(loops[-1].body) if isinstance(s, ir.Gemm)]
    packs = [s for t in f.body if isinstance(t, ir.If) for s in t.then if isinstance(s, ir.Pack)]
    assert product.packed is not None and product.packed[0] in [s.name for s in packs]
    assert not any(isinstance(s, ir.Pack) for s in statements(loops[-1].body))
