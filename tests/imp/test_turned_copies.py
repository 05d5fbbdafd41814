from contextlib import contextmanager

import numpy as np
import pytest

from futad import checks
from futad.backend.c import CBackend
from futad.core.check import check_program
from futad.core.parse import parse_program
from futad.errors import CheckFailure
from futad.imp import soacs
from futad.imp.lower import Lowerer
from futad.imp.views import View
from futad.target import MULTICORE, C

# All iterations of a map read a small matrix by columns.  The inner map is its last use in an iteration, and makes an
# array of the same shape row by row.
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
M, XS = np.arange(1.0, 7.0).reshape(3, 2), np.arange(2.0, 10.0).reshape(4, 2)
EXPECTED = XS[:, 1] * M[2, 1] + XS[:, 0] * M[1, 0]


@pytest.mark.parametrize("carries", [set(), {checks.MEMORY}], ids=["plain", "checked"])
def test_a_copy_that_each_iteration_reads_is_not_overwritten(carries):
    program = parse_program(TEXT)
    check_program(program)
    (got,) = CBackend(program, carries=frozenset(carries)).run("main", [M, XS])
    np.testing.assert_array_equal(got, EXPECTED)


@pytest.mark.slow
@pytest.mark.parametrize("target", [C, MULTICORE], ids=["c", "multicore"])
@pytest.mark.parametrize("copied_by", ["materialise", "copy"])
def test_the_check_of_memory_asks_nobody_whether_the_copy_is_live(copied_by, target, monkeypatch):
    @contextmanager
    def not_bound(lo, lams, iterations, asked):
        """The copies are put in the variables' place, and no root knows that they are there."""
        (lam,) = lams
        turned = {v: x for v in lam.free() if isinstance(x := lo.env[v], View) and x.rank == 2 and lo.nests == 0}
        for v, x in turned.items():
            if copied_by == "materialise":
                lo.env[v] = lo.materialise(x, heap=True)
            else:
                rows = lo.alloc(x.elem, x.shape, heap=True)
                Lowerer.copy(lo, rows, x)
                lo.env[v] = rows
            for root in lo.env[v].roots:
                root.pinned += 1
        yield
        lo.env.update(turned)

    monkeypatch.setattr(soacs, "packed", not_bound)
    program = parse_program(TEXT)
    (got,) = CBackend(program, carries=frozenset()).run("main", [M, XS])
    assert (got != EXPECTED).any()
    with pytest.raises(CheckFailure) as failure:
        CBackend(program, target, carries=frozenset({checks.MEMORY})).run("main", [M, XS])
    assert "overwritten memory" in str(failure.value)
    assert ("read as 'm' (an argument)" if copied_by == "materialise" else "read as 't' (") in str(failure.value)
    assert "last written by 'b' (map) in iteration 0, 0" in str(failure.value)
