"""Programs in the text of core IR that several tests use."""

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
