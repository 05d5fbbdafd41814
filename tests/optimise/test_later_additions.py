"""Maps that find by a fold where to add, in two."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.fires import counting
from futad.optimise.later_additions import later_additions
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.slow import slow_but

DISTANCE = "let distance a b = f64.sum (map2 (\\p q -> (p - q) ** 2) a b)"
NEAREST = f"""
entry value [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): f64 =
  {DISTANCE} in f64.sum (map (\\p -> f64.minimum (map (distance p) cs)) x)
"""
# Of cs [k][d] and x [n][d]: whether the map is split in two.
LOSSES = {
    NEAREST: True,
    # The farthest centre of the nearest few; the weight is handed on, too.
    f"""
entry value [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): f64 =
  {DISTANCE} in f64.sum (map (\\p -> f64.sin (f64.maximum (map (distance p) cs))) x)
""": True,
    # All centres are added to.
    f"""
entry value [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): f64 =
  {DISTANCE} in f64.sum (map (\\p -> f64.sum (map (\\c -> f64.exp (- distance p c)) cs)) x)
""": False,
    # Data say where, no fold.
    """
entry value [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): f64 =
  f64.sum (map (\\p -> f64.sum (map2 (*) p cs[i64.f64 (f64.abs p[0] * 8) % k])) x)
""": False,
}
BOTH = """
entry both [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): (f64, [k][d]f64) = (value cs x, vjp (\\c -> value c x) cs 1)
entry curve [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): [k][d]f64 =
  jvp (\\c -> vjp (\\c -> value c x) c 1) cs (map (map f64.cos) cs)
"""
SHAPES = [(1, 0, 2), (1, 1, 1), (3, 5, 2), (17, 40, 3)]


@pytest.mark.parametrize("number", slow_but([2], range(len(LOSSES))))
def test_additions_come_later(number: int) -> None:
    loss, splits = list(LOSSES.items())[number]
    with counting() as counts:
        compile_program(compile_text(loss + BOTH), check=True, target=C)
    assert (counts["later-additions"] > 0) is splits
    compare(loss, "c")


def compare(loss: str, backend: str) -> None:
    expected, made = (futad.compile(loss + BOTH, backend=b) for b in ("interp", backend))
    for k, n, d in SHAPES:
        r = np.random.default_rng(k)
        cs, x = r.integers(-2, 3, (k, d)) / 2, r.integers(-2, 3, (n, d)) / 2  # ties
        if n == 40:
            x[3, 1] = np.nan
        for entry in ("both", "curve"):
            found, wanted = (getattr(p, entry)(cs, x) for p in (made, expected))
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11, err_msg=f"{entry} {k} {n} {d}")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["multicore", "emulated"])
def test_the_nearest_on_others(backend: str) -> None:
    compare(NEAREST, backend)
    r = np.random.default_rng(2)
    cs, x = r.normal(size=(11, 5)), r.normal(size=(30_000, 5))
    found, wanted = (futad.compile(NEAREST + BOTH, backend=b).both(cs, x) for b in (backend, "c"))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-10)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-9, atol=1e-9)


OVERWRITTEN = """fun main [k_1: i64, d_2: i64, n_3: i64] (cs_4: [k_1][d_2]f64, x_5: [n_3][d_2]f64) -> (r_6:
          [k_1][d_2]f64, s_7: [n_3][d_2]f64) = {
  let z_8: [k_1][d_2]f64 = replicate([k_1, d_2], 0.0f64)
  let is_9: [k_1]i64 = iota(k_1, 0i64, 1i64)
  let (w_10: [k_1][d_2]f64, s_11: [n_3][d_2]f64) = withacc([z_8], "add", \\(a_12: acc([k_1][d_2]f64)) -> {
    let (b_13: acc([k_1][d_2]f64), s_14: [n_3][d_2]f64) = map(n_3, [a_12, x_5], \\(c_15: acc([k_1][d_2]f64), p_16:
          [d_2]f64) -> {
      let q_17: f64 = p_16[0i64]
      let ds_18: [k_1]f64 = map(k_1, [cs_4], \\(y_19: [d_2]f64) -> { let e_20: f64 = y_19[0i64] let f_21: f64 =
          sub(e_20, q_17) let g_22: f64 = mul(f_21, f_21) in (g_22) })
      let least_23: f64 = reduce(k_1, [ds_18], \\(h_24: f64, i_25: f64) -> { let j_26: f64 = min(h_24, i_25) in
          (j_26) }, [inff64], True)
      let at_27: i64 = fused(k_1, [is_9, ds_18], \\(l_28: i64, m_29: f64) -> { let n_30: bool = eq(m_29, least_23)
          let o_31: i64 = select(n_30, l_28, k_1) in (o_31) }, [], [Fold(\\(t_32: i64, u_33: i64) -> { let v_34:
          i64 = min(t_32, u_33) in (v_34) }, [k_1], True)])

      let ok_35: bool = lt(at_27, k_1)
      let acc_41: acc([k_1][d_2]f64) = if(ok_35, {
        let row_38: [d_2]f64 = map(d_2, [p_16], \\(x_39: f64) -> { let y_40: f64 = mul(x_39, 3.0f64) in (y_40) })
        let acc_43: acc([k_1][d_2]f64) = updateacc(c_15, [at_27], row_38)
        in (acc_43)
      }, { in (c_15) })
      let new_42: [d_2]f64 = update(p_16, [0i64], 7.0f64, None)
      in (acc_41, new_42)
    })
    in (b_13, s_14)
  })
  in (w_10, s_11)
}
"""


def test_elements_that_the_first_map_overwrites() -> None:
    """The second one reads them as they were: they are copies then."""
    program = parse_program(OVERWRITTEN)
    split = later_additions(program)
    assert split is not program
    check_program(split)
    r = np.random.default_rng(1)
    args = [np.int64(3), np.int64(2), np.int64(5), r.normal(size=(3, 2)), r.normal(size=(5, 2))]
    expected = Interpreter(program).run("main", args)
    for run in (Interpreter(split).run, CBackend(program).run, CBackend(split).run):
        for found, wanted in zip(run("main", args), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
