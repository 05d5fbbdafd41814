import numpy as np

from futad.backend.c import CBackend
from futad.core.check import check_program
from futad.core.parse import parse_program

# A small matrix by columns is turned round before the map, whose iterations all read it.  The inner map is its last use
# in an iteration, and makes an array of the same shape row by row.
TEXT = """
fun main (m_1: [3][2]f64, xs_2: [4][2]f64) -> (r_3: [4]f64) = {
  let t_4: [2][3]f64 = rearrange(m_1, [1, 0])
  let r_5: [4]f64 = map(4i64, [xs_2], \\(x_6: [2]f64) -> {
    let a_7: [2][3]f64 = map(2i64, [t_4, x_6], \\(row_8: [3]f64, s_9: f64) -> {
      let b_10: [3]f64 = map(3i64, [row_8], \\(e_11: f64) -> { let p_12: f64 = mul(e_11, s_9) in (p_12) })
      in (b_10)
    })
    let u_13: f64 = a_7[1i64, 2i64]
    let v_14: f64 = a_7[0i64, 1i64]
    let w_15: f64 = add(u_13, v_14)
    in (w_15)
  })
  in (r_5)
}
"""


def test_a_copy_that_each_iteration_reads_is_not_overwritten():
    program = parse_program(TEXT)
    check_program(program)
    m, xs = np.arange(1.0, 7.0).reshape(3, 2), np.arange(2.0, 10.0).reshape(4, 2)
    (got,) = CBackend(program).run("main", [m, xs])
    np.testing.assert_array_equal(got, xs[:, 1] * m[2, 1] + xs[:, 0] * m[1, 0])
