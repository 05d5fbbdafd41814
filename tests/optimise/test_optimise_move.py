# ruff: noqa: E501 (programs read better unbroken)
"""Inlining, hoisting and sinking."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad import checks
from futad.core import ir
from futad.core.check import check_program
from futad.core.parse import parse_program
from futad.errors import BoundsError, ExecutionError
from futad.optimise.hoist import hoist
from futad.optimise.inline import SMALL, inline
from futad.optimise.views import hoist_views
from futad.pipeline import compile_program
from futad.rewrite.simplify import simplify
from futad.target import C
from tests.support.optimise_support import heads, passes, run, same_results

AT = '@"t.fut:1:1-1:2"'


def fun(stms: str, result: str, ret: str) -> str:
    rets = ", ".join(f"r_{900 + k}: {t}" for k, t in enumerate(ret.split(";")))
    return (
        "fun main [n_1: i64] (x_3: f64, k_4: i64, c_5: bool, xs_6: [n_1]f64, ys_7: [n_1]f64)"
        f" -> ({rets}) = {{ {stms} in ({result}) }}"
    )


def arguments(n: int = 4, k: int = 2, c: bool = True) -> list[object]:
    rng = np.random.default_rng(1)
    return [n, 1.5, k, c, rng.normal(size=n), rng.normal(size=n)]


def inside(p: ir.Program, kind: type, op: str = "") -> int:
    """How many statements of a kind are in nested scopes."""

    def count(lam: ir.Lambda, depth: int) -> int:
        return sum(
            (depth > 0 and type(s.exp) is kind and (not op or s.exp.op == op))
            + sum(count(inner, depth + 1) for inner in s.exp.lambdas())
            for s in lam.stms
        )

    return count(p.funs["main"].body, 0)


def loop(stms: str, result: str, bound: str = "k_4") -> str:
    return rf"let r_50: f64 = for({bound}, [x_3], \(i_51: i64, a_52: f64) -> {{ {stms} in ({result}) }})"


def moved(stms: str, **nested: int) -> ir.Program:
    """After hoisting, this many of each operation are left in nested scopes; the results are the same."""
    p = parse_program(fun(stms, "r_50", "f64"))
    q = passes(p, simplify, hoist, simplify)
    for op, n in nested.items():
        kind = getattr(ir, op, ir.Op)
        assert inside(q, kind, "" if kind is not ir.Op else op) == n, f"{op}\n{q}"
    for args in (arguments(), arguments(c=False), arguments(k=0), arguments(n=1, k=1)):
        same_results(p, q, args)
    return q


def test_invariant_operations_leave_loops_and_maps():
    moved(loop("let e_53: f64 = exp(x_3) let f_54: f64 = mul(a_52, e_53)", "f_54"), exp=0, mul=1)
    moved(
        r"let m_40: [n_1]f64 = map(n_1, [xs_6], \(v_41: f64) -> { let e_42: f64 = exp(x_3) let w_43: f64 = mul(v_41, e_42) in (w_43) })"
        " let r_50: f64 = m_40[0i64]", exp=0)  # fmt: skip


def test_invariant_operations_leave_nests():
    moved(loop(r"let g_60: f64 = for(n_1, [a_52], \(i_61: i64, b_62: f64) -> {"
               " let e_63: f64 = exp(x_3) let e_64: f64 = sin(a_52) let h_65: f64 = mul(b_62, e_63) let h_66: f64 = add(h_65, e_64) in (h_66) })",
               "g_60"), exp=0, sin=1)  # fmt: skip


def test_whole_maps_and_reductions_leave():
    moved(loop(r"let m_60: [n_1]f64 = map(n_1, [xs_6], \(v_61: f64) -> { let e_62: f64 = exp(v_61) in (e_62) })"
               r" let s_63: f64 = reduce(n_1, [m_60], \(u_64: f64, v_65: f64) -> { let w_66: f64 = add(u_64, v_65) in (w_66) }, [0.0f64], False)"
               " let t_67: f64 = mul(a_52, s_63)", "t_67"), Map=0, Reduce=0)  # fmt: skip


def test_what_may_be_done_once_or_not_at_all_stays():
    once = "let n_54: i64 = select(c_5, 1i64, 0i64) " + loop("let e_53: f64 = exp(x_3) let f_54: f64 = mul(a_52, e_53)", "f_54", bound="n_54")
    moved(once, exp=1)
    q = moved(loop(once.replace("r_50", "g_60").replace("i_51", "i_61").replace("a_52", "b_62").replace("[x_3]", "[a_52]"), "g_60"), exp=1)
    same_results(q, q, arguments(c=False))


def test_read_only_allocations_leave_and_written_ones_stay():
    moved(loop(r"let z_60: [n_1]f64 = replicate([n_1], 2.0f64) let i_67: i64 = mod(i_51, n_1) let e_61: f64 = z_60[i_67]"
               " let t_62: f64 = mul(a_52, e_61)", "t_62"), Replicate=0)  # fmt: skip
    moved(loop(r"let z_60: [n_1]f64 = replicate([n_1], 2.0f64) let u_61: [n_1]f64 = update(z_60, [0i64], a_52, None)"
               r" let s_63: f64 = reduce(n_1, [u_61], \(u_64: f64, v_65: f64) -> { let w_66: f64 = add(u_64, v_65) in (w_66) }, [0.0f64], False)",
               "s_63"), Replicate=1)  # fmt: skip


def test_what_may_fail_stays_in_what_may_not_run():
    division = loop("let d_53: i64 = div(7i64, k_4) let e_54: f64 = to_f64(d_53) let f_55: f64 = mul(a_52, e_54)", "f_55")
    q = moved(division, div=1)
    assert run(q, arguments(k=0)) == [1.5]
    checked = loop(f"let e_54: f64 = xs_6[k_4]{AT} let f_55: f64 = mul(a_52, e_54)", "f_55", bound="n_1")
    p = parse_program(fun(checked, "r_50", "f64"))
    q = passes(p, simplify, hoist, simplify)
    assert inside(q, ir.At) == 1
    assert run(q, arguments(n=0, k=9)) == [1.5]
    with pytest.raises(BoundsError):
        run(q, arguments(n=2, k=9))


def test_what_may_fail_leaves_what_certainly_runs():
    checked = loop(f"let e_54: f64 = xs_6[k_4]{AT} let f_55: f64 = mul(a_52, e_54)", "f_55", bound="3i64")
    p = parse_program(fun(checked, "r_50", "f64"))
    q = passes(p, simplify, hoist, simplify)
    assert inside(q, ir.At) == 0
    same_results(p, q, arguments())
    with pytest.raises(BoundsError):
        run(q, arguments(k=9))


def test_assertions_stay():
    stms = loop(f'let t_53: bool = lt(k_4, 3i64) assert(t_53, "no", [], {AT}) let f_55: f64 = exp(a_52)', "f_55")
    q = moved(stms, Assert=1, lt=0)
    assert heads(q)["Assert"] == 1


def test_arrays_overwritten_in_the_loop_are_not_read_outside():
    stms = r"""let y_40: [n_1]f64 = copy(xs_6)
      let (s_45: f64, z_46: [n_1]f64) = for(k_4, [x_3, y_40], \(i_51: i64, a_52: f64, b_53: [n_1]f64) -> {
        let e_54: f64 = b_53[0i64] let f_55: f64 = exp(e_54) let g_56: [n_1]f64 = update(b_53, [0i64], a_52, None) in (f_55, g_56) })
      let e_57: f64 = z_46[0i64] let r_50: f64 = add(s_45, e_57)"""
    moved(stms, exp=1)


def test_single_branch_work_moves_into_the_branch():
    stms = r"""let m_40: [n_1]f64 = map(n_1, [xs_6], \(v_41: f64) -> { let e_42: f64 = exp(v_41) in (e_42) })
      let s_43: f64 = reduce(n_1, [m_40], \(u_44: f64, v_45: f64) -> { let w_46: f64 = add(u_44, v_45) in (w_46) }, [0.0f64], False)
      let l_47: f64 = lgamma(x_3)
      let r_50: f64 = if(c_5, { let t_48: f64 = mul(s_43, l_47) let u_49: f64 = exp(t_48) in (u_49) }, { in (x_3) })"""
    moved(stms, Map=1, Reduce=1, lgamma=1)


def test_work_of_both_branches_or_of_the_condition_stays():
    stms = r"""let l_47: f64 = lgamma(x_3)
      let g_49: f64 = exp(x_3) let d_46: bool = lt(g_49, 2.0f64)
      let r_50: f64 = if(d_46, { let t_48: f64 = exp(l_47) in (t_48) }, { in (l_47) })"""
    moved(stms, lgamma=0, exp=1)


# -- inlining


def calls(p: ir.Program) -> int:
    return heads(p)["Call"]


SQUARE = "fun square (x_201: f64) -> (r_202: f64){attrs} = {{ let t_203: f64 = mul(x_201, x_201) in (t_203) }}\n"
BIG_BODY = " ".join(f"let b_{300 + k}: f64 = mul(b_{299 + k}, 1.5f64)" for k in range(SMALL + 1))
BIG = f"fun big (b_299: f64) -> (r_298: f64) = {{ {BIG_BODY} in (b_{300 + SMALL}) }}\n"


def call(k: int, f: str, x: str) -> str:
    return f'let c_{k}: f64 = call("{f}", [{x}])'


def test_small_functions_are_inlined_everywhere():
    main = fun(f"{call(60, 'square', 'x_3')} {call(61, 'square', 'c_60')} let r_50: f64 = add(c_60, c_61)", "r_50", "f64")
    p = parse_program(SQUARE.format(attrs="") + main)
    q = passes(p, inline, simplify)
    assert calls(q) == 0 and heads(q)["mul"] == 3  # square keeps its own
    same_results(p, q, arguments())


def test_callees_first_through_several_levels():
    twice = f"fun twice (x_211: f64) -> (r_212: f64) = {{ {call(70, 'square', 'x_211')} {call(71, 'square', 'c_70')} in (c_71) }}\n"
    main = fun(f"{call(60, 'twice', 'x_3')} {call(61, 'twice', 'c_60')} let r_50: f64 = add(c_60, c_61)", "r_50", "f64")
    p = parse_program(SQUARE.format(attrs="") + twice + main)
    q = passes(p, inline, simplify)
    assert calls(q) == 0
    same_results(p, q, arguments())


def test_the_budget_keeps_big_functions(monkeypatch):
    monkeypatch.setattr("futad.optimise.inline.BUDGET", 2 * (SMALL + 1))
    many = " ".join(call(60 + k, "big", f"c_{59 + k}") for k in range(5)).replace("c_59", "x_3")
    p = parse_program(BIG + fun(f"{many} let r_50: f64 = neg(c_64)", "r_50", "f64"))
    q = passes(p, inline)
    assert calls(q) == 3
    same_results(p, q, arguments())


def test_once_called_big_functions_are_inlined(monkeypatch):
    monkeypatch.setattr("futad.optimise.inline.BUDGET", 0)
    p = parse_program(BIG + fun(f"{call(60, 'big', 'x_3')} let r_50: f64 = neg(c_60)", "r_50", "f64"))
    assert calls(passes(p, inline)) == 0


def test_everything_under_a_derivative_is_inlined(monkeypatch):
    monkeypatch.setattr("futad.optimise.inline.BUDGET", 0)
    ad = rf"let (p_31: f64, r_50: f64) = vjp(\(z_30: f64) -> {{ {call(60, 'big', 'z_30')} {call(61, 'big', 'c_60')} in (c_61) }}, [x_3], [1.0f64], [])"
    outside = " ".join(call(70 + k, "big", "x_3") for k in range(2))
    p = parse_program(BIG + fun(f"{ad} {outside} let s_90: f64 = add(c_70, c_71) let t_91: f64 = add(s_90, r_50)", "t_91", "f64"))
    q = passes(p, inline)
    assert calls(q) == 2 and inside(q, ir.Call) == 0


def test_noinline_holds_except_under_derivatives():
    ad = rf"let (p_31: f64, r_50: f64) = vjp(\(z_30: f64) -> {{ {call(60, 'square', 'z_30')} in (c_60) }}, [x_3], [1.0f64], [])"
    p = parse_program(SQUARE.format(attrs="") + fun(f"{ad} {call(61, 'square', 'x_3')} let t_91: f64 = add(c_61, r_50)", "t_91", "f64"))
    p.funs["square"].attrs = (("noinline",),)
    q = passes(p, inline)
    assert calls(q) == 1 and inside(q, ir.Call) == 0


def test_unreachable_functions_go():
    p = parse_program(SQUARE.format(attrs="") + BIG + fun(f"{call(60, 'square', 'x_3')} let r_50: f64 = neg(c_60)", "r_50", "f64"))
    scalar = ir.EntryType("scalar", "f64", p.funs["main"].ret[0].type)
    p.funs["main"].entry = ir.Entry("main", (), scalar)
    assert list(inline(p).funs) == ["main"]


def test_division_by_zero_is_still_an_error():
    p = parse_program(fun("let d_40: i64 = div(7i64, k_4) let r_50: f64 = to_f64(d_40)", "r_50", "f64"))
    q = passes(p, simplify, hoist, simplify)
    with pytest.raises(ExecutionError):
        run(q, arguments(k=0))


@pytest.mark.parametrize("body", [
    r"let is_20: [3]i64 = iota(3i64, 0i64, 1i64) let h_21: [3]i64 = scatter(3i64, [is_20], [ks_8], [ks_8])",
    r"let is_20: [3]i64 = iota(3i64, 0i64, 1i64) let v_22: [3]i64 = reshape(is_20, [3i64])"
    r" let h_21: [3]i64 = scatter(3i64, [v_22], [ks_8], [ks_8])",
])  # fmt: skip
def test_an_index_array_that_is_overwritten_stays_in_its_map(body):
    """Moved out of the map it would be consumed once an iteration, and made once."""
    text = (
        "fun main [n_1: i64] (xs_3: [n_1]i64, ks_8: [3]i64) -> (r_90: [n_1][3]i64) = {"
        rf" let r_50: [n_1][3]i64 = map(n_1, [xs_3], \(x_51: i64) -> {{ {body} in (h_21) }}) in (r_50) }}"
    )
    p = parse_program(text)
    q = hoist_views(p)
    check_program(q, "views")
    assert inside(q, ir.Iota) == 1
    same_results(p, q, [3, np.arange(3), np.array([2, 0, 7])])


def test_equal_inputs_of_what_was_inlined_once():
    """A function that is called once keeps its variables, whose sizes then have other names."""
    program = futad.compile("""
        entry value [n] (b: [n][n]f64): f64 =
          let dot (u: [n][n]f64) (v: [n][n]f64) = f64.sum (map2 (\\p q -> f64.sum (map2 (*) p q)) u v)
          in (loop s = dot b b for _i < 3 do s + dot b b) + dot b (transpose b)""", backend="interp")
    core = futad.value_and_grad(program.value).executable.core
    with checks.also(checks.IR):
        compile_program(core, target=C)
