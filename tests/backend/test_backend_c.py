"""The C backend against the interpreter: every construct, edge sizes, aliasing traps, memory.

Some cases use an array after an update consumed it: the backend must not rely on that promise.
"""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import futad
from futad import checks
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.testing.build import c_backend

# One program, so one compilation.  Each function is a case and takes (n, xs: [n]f64, ks: [n]i64).
CASES = {
    "square": r"""-> (r_9: [n_1]f64) = {
      let ys_4: [n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> { let t_6: f64 = mul(x_5, x_5) in (t_6) })
      in (ys_4) }""",
    "dot": r"""-> (r_9: f64) = {
      let ys_4: [n_1]f64 = map(n_1, [xs_2, xs_2], \(x_5: f64, y_6: f64) -> { let t_7: f64 = mul(x_5, y_6) in (t_7) })
      let s_8: f64 = reduce(n_1, [ys_4], \(a_10: f64, b_11: f64) -> { let c_12: f64 = add(a_10, b_11) in (c_12) },
        [0.0f64], False)
      in (s_8) }""",
    "argmax": r"""-> (r_9: f64, r_10: i64) = {
      let is_4: [n_1]i64 = iota(n_1, 0i64, 1i64)
      let (m_5: f64, i_6: i64) = reduce(n_1, [xs_2, is_4],
        \(a_11: f64, i_12: i64, b_13: f64, j_14: i64) -> {
          let c_15: bool = lt(a_11, b_13)
          let m_16: f64 = select(c_15, b_13, a_11)
          let k_17: i64 = select(c_15, j_14, i_12)
          in (m_16, k_17) }, [-inff64, -1i64], False)
      in (m_5, i_6) }""",
    "minimum": r"""-> (r_9: f64, r_8: i64) = {
      let m_5: f64 = reduce(n_1, [xs_2],
        \(a_11: f64, b_13: f64) -> { let c_15: f64 = min(a_11, b_13) in (c_15) }, [inff64], True)
      let k_6: i64 = reduce(n_1, [ks_3],
        \(a_21: i64, b_23: i64) -> { let c_25: i64 = max(a_21, b_23) in (c_25) }, [-9223372036854775808i64], True)
      in (m_5, k_6) }""",
    "prefix": r"""-> (r_9: [n_1]f64, r_8: [n_1]i64) = {
      let (s_4: [n_1]f64, t_5: [n_1]i64) = scan(n_1, [xs_2, ks_3],
        \(a_11: f64, i_12: i64, b_13: f64, j_14: i64) -> {
          let m_16: f64 = add(a_11, b_13)
          let k_17: i64 = mul(i_12, j_14)
          in (m_16, k_17) }, [0.0f64, 1i64])
      in (s_4, t_5) }""",
    "outer": r"""-> (r_9: [n_1][n_1]f64, r_8: [n_1][n_1]f64) = {
      let m_4: [n_1][n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> {
        let row_6: [n_1]f64 = map(n_1, [xs_2], \(y_7: f64) -> { let t_8: f64 = sub(x_5, y_7) in (t_8) })
        in (row_6) })
      let t_10: [n_1][n_1]f64 = rearrange(m_4, [1, 0])
      let u_11: [n_1][n_1]f64 = rearrange(t_10, [1, 0])
      let z_12: [n_1][n_1]f64 = map(n_1, [t_10, u_11], \(a_13: [n_1]f64, b_14: [n_1]f64) -> {
        let row_15: [n_1]f64 = map(n_1, [a_13, b_14], \(y_16: f64, z_17: f64) -> {
          let e_18: f64 = add(y_16, z_17)
          let f_19: f64 = add(e_18, z_17) in (f_19) })
        in (row_15) })
      in (z_12, t_10) }""",
    "column_sums": r"""-> (r_9: [n_1]f64) = {
      let m_4: [n_1][n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> {
        let row_6: [n_1]f64 = map(n_1, [xs_2], \(y_7: f64) -> { let t_8: f64 = sub(x_5, y_7) in (t_8) })
        in (row_6) })
      let z_20: [n_1]f64 = replicate([n_1], 0.0f64)
      let s_21: [n_1]f64 = reduce(n_1, [m_4], \(a_10: [n_1]f64, b_11: [n_1]f64) -> {
        let c_12: [n_1]f64 = map(n_1, [a_10, b_11], \(p_13: f64, q_14: f64) -> {
          let t_15: f64 = add(p_13, q_14) in (t_15) }) in (c_12) }, [z_20], False)
      in (s_21) }""",
    "row_scan": r"""-> (r_9: [n_1][n_1]f64) = {
      let m_4: [n_1][n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> {
        let row_6: [n_1]f64 = map(n_1, [xs_2], \(y_7: f64) -> { let t_8: f64 = sub(x_5, y_7) in (t_8) })
        in (row_6) })
      let z_20: [n_1]f64 = replicate([n_1], 0.0f64)
      let s_21: [n_1][n_1]f64 = scan(n_1, [m_4], \(a_10: [n_1]f64, b_11: [n_1]f64) -> {
        let c_12: [n_1]f64 = map(n_1, [a_10, b_11], \(p_13: f64, q_14: f64) -> {
          let t_15: f64 = add(p_13, q_14) in (t_15) }) in (c_12) }, [z_20])
      in (s_21) }""",
    "matrix_chain": r"""-> (r_9: [2][2]f64) = {
      let z_50: [2]f64 = arraylit([1.0f64, 0.0f64], f64)
      let z_51: [2]f64 = arraylit([0.0f64, 1.0f64], f64)
      let i_4: [2][2]f64 = arraylit([z_50, z_51], [2]f64)
      let ms_5: [n_1][2][2]f64 = map(n_1, [xs_2], \(x_6: f64) -> {
        let a_7: [2]f64 = arraylit([x_6, 1.0f64], f64)
        let b_8: [2]f64 = arraylit([0.25f64, x_6], f64)
        let m_10: [2][2]f64 = arraylit([a_7, b_8], [2]f64)
        in (m_10) })
      let p_11: [2][2]f64 = reduce(n_1, [ms_5], \(a_12: [2][2]f64, b_13: [2][2]f64) -> {
        let bt_14: [2][2]f64 = rearrange(b_13, [1, 0])
        let c_15: [2][2]f64 = map(2i64, [a_12], \(r_16: [2]f64) -> {
          let row_17: [2]f64 = map(2i64, [bt_14], \(q_18: [2]f64) -> {
            let ps_19: [2]f64 = map(2i64, [r_16, q_18], \(u_20: f64, v_21: f64) -> {
              let w_22: f64 = mul(u_20, v_21) in (w_22) })
            let s_23: f64 = reduce(2i64, [ps_19], \(e_24: f64, f_25: f64) -> {
              let g_26: f64 = add(e_24, f_25) in (g_26) }, [0.0f64], False)
            in (s_23) })
          in (row_17) })
        in (c_15) }, [i_4], False)
      in (p_11) }""",
    "swap_loop": r"""-> (r_9: [n_1]f64, r_8: [n_1]f64) = {
      let ys_4: [n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> { let t_6: f64 = neg(x_5) in (t_6) })
      let (a_10: [n_1]f64, b_11: [n_1]f64) = for(5i64, [xs_2, ys_4],
        \(i_12: i64, p_13: [n_1]f64, q_14: [n_1]f64) -> { in (q_14, p_13) })
      in (a_10, b_11) }""",
    "swap_update": r"""-> (r_9: [n_1]f64, r_8: [n_1]f64, r_7: [n_1]f64) = {
      let ys_4: [n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> { let t_6: f64 = neg(x_5) in (t_6) })
      let (a_10: [n_1]f64, b_11: [n_1]f64) = for(n_1, [ys_4, ys_4],
        \(i_12: i64, p_13: [n_1]f64, q_14: [n_1]f64) -> {
          let e_15: f64 = q_14[i_12]@"x.fut:1:1-1:2"
          let f_17: f64 = add(e_15, 10.0f64)
          let p_16: [n_1]f64 = update(p_13, [i_12], f_17, None)
          in (q_14, p_16) })
      in (a_10, b_11, ys_4) }""",
    "scalar_rotation": r"""-> (r_9: i64, r_8: i64, r_7: i64) = {
      let (a_10: i64, b_11: i64, c_12: i64) = for(n_1, [1i64, 2i64, 3i64],
        \(i_13: i64, p_14: i64, q_15: i64, s_16: i64) -> { let t_17: i64 = add(p_14, q_15) in (q_15, s_16, t_17) })
      in (a_10, b_11, c_12) }""",
    "update_kept": r"""-> (r_9: [n_1]f64, r_8: [n_1]f64) = {
      let ys_4: [n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> { let t_6: f64 = neg(x_5) in (t_6) })
      let zs_7: [n_1]f64 = ys_4[0i64:n_1:1i64]
      let c_20: bool = lt(0i64, n_1)
      let us_8: [n_1]f64 = if(c_20, {
         let vs_10: [n_1]f64 = update(ys_4, [0i64], 7.0f64, None) in (vs_10) }, { in (ys_4) })
      in (us_8, zs_7) }""",
    "update_parameter": r"""-> (r_9: [n_1]f64) = {
      let c_20: bool = lt(0i64, n_1)
      let us_8: [n_1]f64 = if(c_20, {
         let vs_10: [n_1]f64 = update(xs_2, [0i64], 7.0f64, None) in (vs_10) }, { in (xs_2) })
      in (us_8) }""",
    "branch_then_update": r"""-> (r_9: [n_1]f64, r_8: [n_1]f64) = {
      let as_4: [n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> { let t_6: f64 = neg(x_5) in (t_6) })
      let bs_10: [n_1]f64 = map(n_1, [xs_2], \(x_11: f64) -> { let t_12: f64 = add(x_11, 1.0f64) in (t_12) })
      let c_20: bool = lt(3i64, n_1)
      let us_8: [n_1]f64 = if(c_20, { in (as_4) }, { in (bs_10) })
      let vs_13: [n_1]f64 = map(n_1, [us_8], \(x_14: f64) -> { let t_15: f64 = mul(x_14, 2.0f64) in (t_15) })
      let (ws_16: [n_1]f64) = for(n_1, [us_8], \(i_17: i64, w_18: [n_1]f64) -> {
        let y_19: [n_1]f64 = update(w_18, [i_17], 3.0f64, None) in (y_19) })
      let o_21: [n_1]f64 = map(n_1, [ws_16, bs_10], \(x_22: f64, y_23: f64) -> {
         let t_24: f64 = add(x_22, y_23) in (t_24) })
      in (o_21, vs_13) }""",
    "rows_updated": r"""-> (r_9: [n_1][n_1]f64) = {
      let m_4: [n_1][n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> {
        let row_6: [n_1]f64 = map(n_1, [xs_2], \(y_7: f64) -> { let t_8: f64 = sub(x_5, y_7) in (t_8) })
        in (row_6) })
      let last_30: i64 = sub(n_1, 1i64)
      let rev_31: [n_1][n_1]f64 = m_4[last_30:n_1:-1i64]
      let z_12: [n_1][n_1]f64 = map(n_1, [m_4, rev_31], \(a_13: [n_1]f64, b_14: [n_1]f64) -> {
        let a_20: [n_1]f64 = update(a_13, [0i64], 100.0f64, None)
        let row_15: [n_1]f64 = map(n_1, [a_20, b_14], \(y_16: f64, z_17: f64) -> {
          let e_18: f64 = add(y_16, z_17) in (e_18) })
        in (row_15) })
      in (z_12) }""",
    "own_rows": r"""-> (r_9: [n_1][n_1]f64, r_8: [n_1][n_1]f64) = {
      let m_4: [n_1][n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> {
        let row_6: [n_1]f64 = map(n_1, [xs_2], \(y_7: f64) -> { let t_8: f64 = sub(x_5, y_7) in (t_8) })
        in (row_6) })
      let (p_10: [n_1][n_1]f64, q_11: [n_1][n_1]f64) = map(n_1, [m_4], \(r_12: [n_1]f64) -> { in (r_12, xs_2) })
      in (p_10, q_11) }""",
    "shift_in_place": r"""-> (r_9: [n_1]f64) = {
      let ys_4: [n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> { let t_6: f64 = neg(x_5) in (t_6) })
      let m_7: i64 = sub(n_1, 1i64)
      let k_10: i64 = max(m_7, 0i64)
      let src_8: [k_10]f64 = ys_4[0i64:k_10:1i64]
      let zs_11: [n_1]f64 = update(ys_4, [1i64:k_10:1i64], src_8, None)
      in (zs_11) }""",
    "reverse_concat": r"""-> (r_8: i64, r_9: [r_8]f64) = {
      let last_4: i64 = sub(n_1, 1i64)
      let rev_5: [n_1]f64 = xs_2[last_4:n_1:-1i64]
      let two_6: i64 = mul(n_1, 2i64)
      let size_7: i64 = add(two_6, 2i64)
      let ab_10: [2]f64 = arraylit([1.0f64, 2.0f64], f64)
      let all_11: [size_7]f64 = concat([xs_2, ab_10, rev_5], size_7)
      in (size_7, all_11) }""",
    "reshaped": r"""-> (r_9: [2][n_1]f64, r_8: [n_1][2]f64) = {
      let z_4: [2][n_1]f64 = replicate([2i64], xs_2)
      let t_5: [n_1][2]f64 = rearrange(z_4, [1, 0])
      let two_6: i64 = mul(n_1, 2i64)
      let flat_7: [two_6]f64 = reshape(t_5, [two_6])
      let a_10: [2][n_1]f64 = reshape(flat_7, [2i64, n_1])
      in (a_10, t_5) }""",
    "scattered": r"""-> (r_9: [n_1]f64, r_8: [n_1]f64) = {
      let z_4: [n_1]f64 = replicate([n_1], 0.5f64)
      let a_5: [n_1]f64 = scatter(n_1, [z_4], [ks_3], [xs_2])
      in (a_5, z_4) }""",
    "scattered_rows": r"""-> (r_9: [n_1][2]f64) = {
      let z_4: [n_1][2]f64 = replicate([n_1, 2i64], 0.5f64)
      let v_6: [n_1][2]f64 = map(n_1, [xs_2], \(x_7: f64) -> { let r_10: [2]f64 = arraylit([x_7, x_7], f64) in (r_10) })
      let a_5: [n_1][2]f64 = scatter(n_1, [z_4], [ks_3], [v_6])
      in (a_5) }""",
    "histogram": r"""-> (r_9: [3]f64, r_8: [3]f64, r_7: [3]i64) = {
      let z_4: [3]f64 = replicate([3i64], 0.5f64)
      let a_5: [3]f64 = hist(n_1, [z_4], [ks_3], [xs_2],
        \(x_10: f64, y_11: f64) -> { let t_12: f64 = add(x_10, y_11) in (t_12) }, [0.0f64])
      let y_13: [3]f64 = replicate([3i64], -inff64)
      let j_20: [3]i64 = replicate([3i64], -1i64)
      let (b_14: [3]f64, c_15: [3]i64) = hist(n_1, [y_13, j_20], [ks_3], [xs_2, ks_3],
        \(x_16: f64, i_17: i64, y_18: f64, k_19: i64) -> {
           let c_21: bool = lt(x_16, y_18)
           let t_22: f64 = select(c_21, y_18, x_16)
           let u_23: i64 = select(c_21, k_19, i_17) in (t_22, u_23) }, [-inff64, -1i64])
      in (a_5, b_14, c_15) }""",
    "row_histogram": r"""-> (r_9: [3][n_1]f64) = {
      let m_4: [n_1][n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> {
        let row_6: [n_1]f64 = map(n_1, [xs_2], \(y_7: f64) -> { let t_8: f64 = sub(x_5, y_7) in (t_8) })
        in (row_6) })
      let z_14: [3][n_1]f64 = replicate([3i64, n_1], 0.5f64)
      let ne_15: [n_1]f64 = replicate([n_1], 0.0f64)
      let h_16: [3][n_1]f64 = hist(n_1, [z_14], [ks_3], [m_4], \(a_17: [n_1]f64, b_18: [n_1]f64) -> {
        let c_19: [n_1]f64 = map(n_1, [a_17, b_18], \(p_20: f64, q_21: f64) -> {
          let t_22: f64 = add(p_20, q_21) in (t_22) }) in (c_19) }, [ne_15])
      in (h_16) }""",
    "accumulated": r"""-> (r_9: [n_1]f64, r_8: [2][n_1]f64, r_7: f64) = {
      let z_4: [n_1]f64 = replicate([n_1], 0.5f64)
      let w_5: [2][n_1]f64 = replicate([2i64, n_1], 1.0f64)
      let (a_6: [n_1]f64, b_10: [2][n_1]f64, e_11: f64) = withacc([z_4, w_5], "add",
        \(p_12: acc([n_1]f64), q_13: acc([2][n_1]f64)) -> {
          let is_14: [n_1]i64 = iota(n_1, 0i64, 1i64)
          let (p_15: acc([n_1]f64), q_16: acc([2][n_1]f64), ys_17: [n_1]f64) = map(n_1, [p_12, q_13, xs_2, ks_3, is_14],
            \(p_20: acc([n_1]f64), q_21: acc([2][n_1]f64), x_22: f64, k_23: i64, i_24: i64) -> {
              let p_25: acc([n_1]f64) = updateacc(p_20, [k_23], x_22)
              let p_26: acc([n_1]f64) = updateacc(p_25, [i_24], 2.0f64)
              let q_27: acc([2][n_1]f64) = updateacc(q_21, [k_23], xs_2)
              let q_28: acc([2][n_1]f64) = updateacc(q_27, [1i64, i_24], x_22)
              let y_29: f64 = exp(x_22)
              in (p_26, q_28, y_29) })
          let s_30: f64 = reduce(n_1, [ys_17], \(u_31: f64, v_32: f64) -> { let c_33: f64 = add(u_31, v_32) in (c_33) },
            [0.0f64], False)
          in (p_15, q_16, s_30) })
      in (a_6, b_10, e_11) }""",
    "fused": r"""-> (r_9: [n_1]f64, r_8: f64, r_7: i64, r_6: [n_1]f64, r_5: [n_1][n_1]f64) = {
      let (a_10: [n_1]f64, b_11: f64, c_12: i64, d_13: [n_1]f64, e_14: [n_1][n_1]f64) = fused(n_1, [xs_2, ks_3],
        \(x_15: f64, k_16: i64) -> {
          let y_17: f64 = mul(x_15, 2.0f64)
          let z_18: f64 = sin(x_15)
          let r_19: [n_1]f64 = map(n_1, [xs_2], \(u_20: f64) -> { let v_21: f64 = mul(u_20, y_17) in (v_21) })
          in (y_17, z_18, k_16, y_17, r_19) },
        [Fold(\(p_22: f64, q_23: f64) -> { let s_24: f64 = add(p_22, q_23) in (s_24) }, [0.0f64], False)],
        [Fold(\(p_25: f64, q_26: f64) -> { let s_27: f64 = max(p_25, q_26) in (s_27) }, [-inff64], True),
         Fold(\(p_28: i64, q_29: i64) -> { let s_30: i64 = add(p_28, q_29) in (s_30) }, [0i64], True)])
      in (a_10, b_11, c_12, d_13, e_14) }""",
    "filtered": r"""-> (r_8: i64, r_9: [r_8]f64) = {
      let e_4: [0]f64 = arraylit([], f64)
      let (m_5: i64, ys_6: [m_5]f64) = for(n_1, [0i64, e_4], \(i_10: i64, k_11: i64, ys_12: [k_11]f64) -> {
        let x_13: f64 = xs_2[i_10]
        let c_14: bool = lt(0.0f64, x_13)
        let (k_15: i64, zs_16: [k_15]f64) = if(c_14, {
            let k_17: i64 = add(k_11, 1i64)
            let x_18: [1]f64 = arraylit([x_13], f64)
            let zs_19: [k_17]f64 = concat([ys_12, x_18], k_17)
            in (k_17, zs_19) }, { in (k_11, ys_12) })
        in (k_15, zs_16) })
      in (m_5, ys_6) }""",
    "while_loop": r"""-> (r_9: f64, r_8: i64) = {
      let (c_4: bool, x_5: f64, i_6: i64) = while([true, 100.0f64, 0i64], \(c_10: bool, x_11: f64, i_12: i64) -> {
        let y_13: f64 = div(x_11, 2.0f64)
        let j_14: i64 = add(i_12, 1i64)
        let c_15: bool = lt(1.0f64, y_13)
        in (c_15, y_13, j_14) })
      in (x_5, i_6) }""",
    "in_place_map_loop": r"""-> (r_9: [n_1]f64) = {
      let (a_4: [n_1]f64) = for(3i64, [xs_2], \(i_10: i64, p_11: [n_1]f64) -> {
        let q_12: [n_1]f64 = map(n_1, [p_11, xs_2], \(u_13: f64, v_14: f64) -> {
          let t_15: f64 = mul(u_13, v_14) in (t_15) })
        in (q_12) })
      in (a_4) }""",
    "stencil_loop": r"""-> (r_9: [n_1]f64) = {
      let is_4: [n_1]i64 = iota(n_1, 0i64, 1i64)
      let (a_5: [n_1]f64) = for(4i64, [xs_2], \(i_10: i64, p_11: [n_1]f64) -> {
        let q_12: [n_1]f64 = map(n_1, [is_4, p_11], \(j_13: i64, u_14: f64) -> {
          let k_15: i64 = add(j_13, 1i64)
          let k_16: i64 = mod(k_15, n_1)
          let v_17: f64 = p_11[k_16]@"x.fut:3:4-3:9"
          let t_18: f64 = add(u_14, v_17) in (t_18) })
        in (q_12) })
      in (a_5) }""",
    "small_loop": r"""-> (r_9: [3]f64, r_8: [3]f64) = {
      let z_4: [3]f64 = arraylit([1.0f64, 2.0f64, 3.0f64], f64)
      let (a_5: [3]f64, b_6: [3]f64) = for(n_1, [z_4, z_4], \(i_10: i64, p_11: [3]f64, q_12: [3]f64) -> {
        let x_13: f64 = q_12[0i64]
        let r_14: [3]f64 = update(p_11, [1i64], x_13, None)
        let s_15: [3]f64 = q_12[2i64:3i64:-1i64]
        in (s_15, r_14) })
      in (a_5, b_6) }""",
    "one_result_twice": r"""-> (r_9: [n_1]f64, r_8: [n_1]f64, r_7: [2]f64, r_6: [2]f64) = {
      let ys_4: [n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> { let t_6: f64 = neg(x_5) in (t_6) })
      let (a_10: [n_1]f64, b_11: [n_1]f64) = for(4i64, [xs_2, ys_4],
        \(i_12: i64, p_13: [n_1]f64, q_14: [n_1]f64) -> {
          let s_15: [n_1]f64 = map(n_1, [p_13, q_14], \(x_16: f64, y_17: f64) -> {
            let z_19: f64 = mul(x_16, 0.5f64)
            let t_18: f64 = sub(y_17, z_19) in (t_18) })
          in (s_15, s_15) })
      let c_20: [2]f64 = arraylit([1.0f64, 2.0f64], f64)
      let d_21: [2]f64 = arraylit([3.0f64, 5.0f64], f64)
      let (e_22: [2]f64, f_23: [2]f64) = for(n_1, [c_20, d_21],
        \(i_24: i64, p_25: [2]f64, q_26: [2]f64) -> {
          let s_27: [2]f64 = map(2i64, [p_25, q_26], \(x_28: f64, y_29: f64) -> {
            let z_31: f64 = mul(x_28, 0.5f64)
            let t_30: f64 = sub(y_29, z_31) in (t_30) })
          in (s_27, s_27) })
      in (a_10, b_11, e_22, f_23) }""",
    "virtual_loop": r"""-> (r_9: [n_1]f64, r_8: [n_1]i64, r_7: [n_1][n_1]f64) = {
      let js_4: [n_1]i64 = iota(n_1, 5i64, 1i64)
      let m_5: [n_1][n_1]f64 = replicate([n_1, n_1], 1.0f64)
      let (a_10: [n_1]f64, b_11: [n_1]i64, c_12: [n_1][n_1]f64) = for(3i64, [xs_2, js_4, m_5],
        \(i_13: i64, p_14: [n_1]f64, q_15: [n_1]i64, s_16: [n_1][n_1]f64) -> {
          let x_17: f64 = to_f64(i_13)
          let z_18: [n_1]f64 = replicate([n_1], x_17)
          let t_19: [n_1]i64 = iota(n_1, i_13, -2i64)
          let u_20: [n_1][n_1]f64 = replicate([n_1], p_14)
          in (z_18, t_19, u_20) })
      in (a_10, b_11, c_12) }""",
    "branches": r"""-> (r_9: [n_1]f64) = {
      let ys_4: [n_1]f64 = map(n_1, [xs_2, ks_3], \(x_5: f64, k_6: i64) -> {
        let c_7: bool = lt(x_5, 0.0f64)
        let r_8: f64 = if(c_7, { let t_10: f64 = neg(x_5) in (t_10) }, { let u_11: f64 = sqrt(x_5) in (u_11) })
        let d_12: bool = ne(k_6, 0i64)
        let s_13: i64 = if(d_12, { let q_14: i64 = div(100i64, k_6) in (q_14) }, { in (0i64) })
        let f_15: f64 = to_f64(s_13)
        let w_16: f64 = add(r_8, f_15)
        in (w_16) })
      in (ys_4) }""",
    "called": r"""-> (r_9: [n_1]f64) = {
      let a_4: [n_1]f64 = call("helper", [n_1, xs_2])
      let b_5: [n_1]f64 = call("helper", [n_1, a_4])
      in (b_5) }""",
    "called_apart": r"""-> (r_9: [n_1]f64, r_7: i64, r_8: [r_7]f64) = {
      let rev_20: i64 = sub(n_1, 1i64)
      let zs_21: [n_1]f64 = xs_2[rev_20:n_1:-1i64]
      let (s_4: f64, k_5: i64, a_6: [k_5]f64) = call("apart", [n_1, zs_21])
      let (t_7: f64, k_10: i64, b_11: [k_10]f64) = call("apart", [k_5, a_6])
      let ys_12: [n_1]f64 = map(n_1, [xs_2], \(x_13: f64) -> {
        let e_14: [1]f64 = arraylit([x_13], f64)
        let (u_15: f64, k_16: i64, c_17: [k_16]f64) = call("apart", [1i64, e_14])
        let d_18: f64 = add(u_15, s_4)
        let d_19: f64 = add(d_18, t_7)
        in (d_19) })
      in (ys_12, k_10, b_11) }""",
    "placed_rows": r"""-> (r_9: [2][n_1]f64, r_8: [n_1][n_1]f64) = {
      let a_4: [n_1]f64 = map(n_1, [xs_2], \(x_5: f64) -> { let t_6: f64 = neg(x_5) in (t_6) })
      let b_10: [2][n_1]f64 = arraylit([a_4, xs_2], [n_1]f64)
      let z_11: [n_1][n_1]f64 = replicate([n_1, n_1], 0.0f64)
      let (m_12: [n_1][n_1]f64) = for(n_1, [z_11], \(i_13: i64, m_14: [n_1][n_1]f64) -> {
        let r_15: [n_1]f64 = map(n_1, [xs_2, a_4], \(x_16: f64, y_17: f64) -> {
          let d_19: f64 = sub(x_16, y_17)
          let i_20: f64 = to_f64(i_13)
          let t_18: f64 = mul(d_19, i_20) in (t_18) })
        let m_21: [n_1][n_1]f64 = update(m_14, [i_13], r_15, None)
        let d_22: f64 = m_21[i_13, i_13]
        let e_23: f64 = add(d_22, 1.0f64)
        let m_24: [n_1][n_1]f64 = update(m_21, [i_13, i_13], e_23, None)
        in (m_24) })
      in (b_10, m_12) }""",
    "placed_row_reads": r"""-> (r_9: [n_1][n_1]f64) = {
      let z_11: [n_1][n_1]f64 = map(n_1, [xs_2], \(x_30: f64) -> { in (xs_2) })
      let (m_12: [n_1][n_1]f64) = for(n_1, [z_11], \(i_13: i64, m_14: [n_1][n_1]f64) -> {
        let last_31: i64 = sub(n_1, 1i64)
        let old_32: [n_1]f64 = m_14[i_13, last_31:n_1:-1i64]
        let r_15: [n_1]f64 = map(n_1, [xs_2, old_32], \(x_16: f64, y_17: f64) -> {
          let d_19: f64 = sub(x_16, y_17) in (d_19) })
        let m_21: [n_1][n_1]f64 = update(m_14, [i_13], r_15, None)
        in (m_21) })
      in (m_12) }""",
}

HELPER = r"""
fun apart [n_9101: i64] (ys_9102: [n_9101]f64) -> (r_9103: f64, k_9104: i64, s_9105: [k_9104]f64)
  attrs [["noinline"]] = {
  let s_9106: f64 = reduce(n_9101, [ys_9102], \(a_9107: f64, b_9108: f64) -> {
    let t_9109: f64 = add(a_9107, b_9108) in (t_9109) }, [0.0f64], False)
  let k_9110: i64 = add(n_9101, 1i64)
  let e_9111: [1]f64 = arraylit([s_9106], f64)
  let z_9112: [k_9110]f64 = concat([ys_9102, e_9111], k_9110)
  in (s_9106, k_9110, z_9112)
}
fun helper [n_9001: i64] (ys_9002: [n_9001]f64) -> (r_9003: [n_9001]f64) = {
  let z_9004: [n_9001]f64 = map(n_9001, [ys_9002], \(x_9005: f64) -> {
    let t_9006: f64 = add(x_9005, 1.0f64) in (t_9006) })
  in (z_9004)
}
"""


def _unique(text: str, k: int) -> str:
    return re.sub(r"([a-z])_(\d+)\b", lambda m: f"{m[1]}_{100 * k + int(m[2])}", text)


@functools.cache
def build():
    text = HELPER
    for k, (name, body) in enumerate(CASES.items(), start=1):
        head = f"\nfun {name} [n_1: i64] (xs_2: [n_1]f64, ks_3: [n_1]i64) "
        text += head + _unique(body, 0) if k == 0 else _unique(head + body, k)
    program = parse_program(text)
    return program


@pytest.fixture(scope="module")
def compiled():
    """Both backends; `multicore` takes threads even for the smallest work."""
    program = build()
    with checks.checking(()):  # `update_kept` reads what it has overwritten, which backends allow and the IR does not
        multicore = c_backend(program, multicore=True, grain=1)
        sequential = c_backend(program)
    with pytest.MonkeyPatch.context() as env:
        env.setenv("FUTAD_CFLAGS", "-O1")  # compiles in half the time
        multicore.library.futad_pool_set_threads(3)
    return {"c": sequential, "multicore": multicore}


def inputs(n):
    rng = np.random.default_rng(n)
    return [np.int64(n), rng.standard_normal(n), rng.integers(-1, 4, n)]


@functools.cache
def reference(name, n):
    return Interpreter(build()).run(name, inputs(n))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 37, 100])
@pytest.mark.parametrize("name", CASES)
def test_against_interpreter(compiled, backend, name, n):
    args = inputs(n)
    kept = [np.copy(a) for a in args]
    expected = reference(name, n)
    for _ in range(2):  # the second time on used memory
        got = compiled[backend].run(name, args)
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            assert np.asarray(g).dtype == np.asarray(e).dtype
            np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-12)
        for a, k in zip(args, kept, strict=True):
            np.testing.assert_array_equal(a, k)


@pytest.mark.slow
def test_a_store_before_a_copy_of_a_small_array_is_there():
    """GCC 12.2 made one vector store of it and others, and dropped that: the last element was off by one."""
    source = """
def g (xs: [4]f64): f64 = f64.sum (loop ys = copy xs for i < 3 do
  let a = loop s = xs[i] for _j < 3 do s * ys[i]
  let b = loop s = xs[i + 1] for _j < 3 do s + ys[i] * xs[i + 1]
  in ys with [i + 1] = a * b)
entry grad (xs: [4]f64) = vjp g xs 1
"""
    x = np.array([0.7, 0.45, 1.2, 0.9])
    want = futad.compile(source, backend="interp").grad(x)
    for backend in ("c", "multicore"):
        np.testing.assert_allclose(futad.compile(source, backend=backend).grad(x), want, rtol=1e-12)
