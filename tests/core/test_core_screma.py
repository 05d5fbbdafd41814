"""Maps, scans and reductions as one: their parts by position, and fused ones taken apart."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.core.text import program_text
from futad.core.types import i64

ADD = r"Fold(\(a_90: f64, b_91: f64) -> { let c_92: f64 = add(a_90, b_91) in (c_92) }, [0.0f64], False)"
MAX = r"Fold(\(a_93: f64, b_94: f64) -> { let c_95: f64 = max(a_93, b_94) in (c_95) }, [-inff64], True)"
FUSED = rf"""
fun main [n_1: i64] (xs_2: [n_1]f64) -> (acc_3: [n_1]f64, scan_4: [n_1]f64, red_5: f64, map_6: [n_1]f64) = {{
  let zs_7: [n_1]f64 = replicate([n_1], 0.0f64)
  let (acc_8: [n_1]f64, scan_9: [n_1]f64, red_10: f64, map_11: [n_1]f64) = withacc([zs_7], "add",
    \(a_12: acc([n_1]f64)) -> {{
      let is_13: [n_1]i64 = iota(n_1, 0i64, 1i64)
      let (a_14: acc([n_1]f64), scan_15: [n_1]f64, red_16: f64, map_17: [n_1]f64) =
        fused(n_1, [a_12, xs_2, is_13], \(a_18: acc([n_1]f64), x_19: f64, i_20: i64) -> {{
          let y_21: f64 = mul(x_19, 2.0f64)
          let z_22: f64 = sub(x_19, 1.0f64)
          let a_23: acc([n_1]f64) = updateacc(a_18, [i_20], z_22)
          in (a_23, y_21, z_22, x_19) }}, [{ADD}], [{MAX}])
      in (a_14, scan_15, red_16, map_17) }})
  in (acc_8, scan_9, red_10, map_11) }}
"""


def _fused(p: ir.Program) -> tuple[ir.Stm, ir.Fused]:
    (inner,) = [s.exp.lam for s in p.funs["main"].body.stms if isinstance(s.exp, ir.WithAcc)]
    stm = inner.stms[-1]
    assert isinstance(stm.exp, ir.Fused)
    return stm, stm.exp


def test_the_parts_of_a_fused_map() -> None:
    p = parse_program(FUSED)
    check_program(p)
    assert program_text(parse_program(program_text(p))).count("Fold(") == 2
    stm, e = _fused(p)
    parts = e.parts([v.name for v in stm.pat])
    assert parts == (("a",), [("scan",)], [("red",)], ("map",))
    assert parts.folded == ("scan", "red")
    assert (e.accs, e.first_reduced, e.first_mapped) == (1, 2, 3)
    assert [len(f) for f in e.folds] == [1, 1] and e.folds == e.scans + e.reduces
    assert e.repeats() == tuple(e.lambdas()) == (e.lam, e.scans[0].lam, e.reduces[0].lam)
    assert e.operands()[-2:] == [e.scans[0].neutral[0], e.reduces[0].neutral[0]]


@pytest.mark.parametrize(("cls", "word"), [(ir.Reduce, "reduce"), (ir.Scan, "scan")])
def test_a_fold_alone_has_no_map(cls: type, word: str) -> None:
    kind, more = ("f64", ", True") if cls is ir.Reduce else ("[n_1]f64", "")
    p = parse_program(
        f"fun main [n_1: i64] (xs_2: [n_1]f64) -> (r_3: {kind}) = {{ let r_4: {kind} = {word}(n_1, [xs_2],"
        rf" \(a_5: f64, b_6: f64) -> {{ let c_7: f64 = add(a_5, b_6) in (c_7) }}, [0.0f64]{more}) in (r_4) }}"
    )
    (stm,) = p.funs["main"].body.stms
    e = stm.exp
    assert isinstance(e, cls) and isinstance(e, ir.Screma) and e.mapper is None and e.accs == 0
    (f,) = e.folds
    assert (f.lam, f.neutral, f.comm) == (e.lam, e.neutral, cls is ir.Reduce)  # type: ignore[attr-defined]
    assert e.parts(stm.pat).folded == stm.pat and e.first_mapped == 1
    if isinstance(e, ir.Reduce):
        fused = ir.as_fused(e)
        assert fused.lam.result == fused.lam.params and fused.reduces[0].lam is e.lam


def test_a_map_has_no_folds() -> None:
    e = ir.Map(i64(3), (), ir.Lambda((), (), ()))
    assert e.folds == () and e.first_mapped == 0 and e.over((), e.lam).lam is e.lam


def test_a_fused_map_taken_apart_means_the_same() -> None:
    p = parse_program(FUSED)
    xs = np.array([1.5, -2.0, 4.0])
    before = Interpreter(p).run("main", [np.int64(3), xs])
    stm, _ = _fused(p)
    (outer,) = [s for s in p.funs["main"].body.stms if isinstance(s.exp, ir.WithAcc)]
    assert isinstance(outer.exp, ir.WithAcc)
    lam = outer.exp.lam
    apart = ir.unfused(stm)
    assert [type(s.exp) for s in apart] == [ir.Map, ir.Scan, ir.Reduce]
    outer.exp.lam = ir.Lambda(lam.params, (*lam.stms[:-1], *apart), lam.result)
    check_program(p)
    after = Interpreter(p).run("main", [np.int64(3), xs])
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(after[0], xs - 1)
    np.testing.assert_array_equal(after[1], np.cumsum(xs * 2))
    assert after[2] == 3.0
