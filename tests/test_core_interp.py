"""The interpreter: semantics of every construct, batched and one by one."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core.interp import Interpreter
from futad.core.parse import parse_program


def both(text: str, *args, name: str = "main"):
    """The results of the batched evaluation, which must equal those one by one, and so the counts."""
    p = parse_program(text)
    fast, slow = Interpreter(p, count=True), Interpreter(p, count=True, batched=False, in_place=True)
    a, b = fast.run(name, list(args)), slow.run(name, list(args))
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-13)
        assert np.asarray(x).dtype == np.asarray(y).dtype
    assert fast.counts == slow.counts
    return a


MATMUL = r"""
fun main [n_1: i64, k_2: i64, m_3: i64] (a_4: [n_1][k_2]f64, b_5: [k_2][m_3]f64) -> (r_6: [n_1][m_3]f64) = {
  let bt_7: [m_3][k_2]f64 = rearrange(b_5, [1, 0])
  let r_8: [n_1][m_3]f64 = map(n_1, [a_4], \(row_9: [k_2]f64) -> {
    let out_10: [m_3]f64 = map(m_3, [bt_7], \(col_11: [k_2]f64) -> {
      let ps_12: [k_2]f64 = map(k_2, [row_9, col_11], \(x_13: f64, y_14: f64) -> {
        let z_15: f64 = mul(x_13, y_14) in (z_15) })
      let s_16: f64 = reduce(k_2, [ps_12], \(x_17: f64, y_18: f64) -> {
        let z_19: f64 = add(x_17, y_18) in (z_19) }, [0.0f64], False)
      in (s_16) })
    in (out_10) })
  in (r_8) }
"""


@pytest.mark.parametrize("n,k,m", [(3, 4, 5), (1, 1, 1), (0, 3, 2), (2, 0, 2), (2, 3, 0)])
def test_matmul(n, k, m):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(n, k)), rng.normal(size=(k, m))
    (r,) = both(MATMUL, n, k, m, a, b)
    np.testing.assert_allclose(r, a @ b, rtol=1e-12)
    assert r.shape == (n, m)
