# ruff: noqa: E501 (programs read better unbroken)
"""Arrays that derivative code overwrites and still needs: copied, or the update taken back, with the same values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import futad
from futad.ad.tidy import take_back
from futad.ad.tidy.protect import protect
from futad.core import ir
from futad.core.check import check_program
from futad.core.parse import parse_program
from tests.support.optimise_support import same_results

SUM = r"\(a_90: f64, b_91: f64) -> { let d_92: f64 = add(a_90, b_91) in (d_92) }, [0.0f64], False)"


def total(k: int, v: str, size: str = "n_1") -> str:
    """The sum of an array, in names that no other of these has."""
    return f"let t_{k}: f64 = reduce({size}, [{v}], {SUM}".replace("_9", f"_{k}9")


WRITE = "let y_10: [n_1]f64 = update(x_4, [i_2], c_3, None)"
SCATTER = "let y_10: [n_1]f64 = scatter(k_5, [x_4], [is_6], [vs_7])"
CASES = {
    "old after new": (f"{WRITE} {total(11, 'y_10')} {total(12, 'x_4')}", "t_11, t_12", "f64;f64"),
    "new returned": (f"{WRITE} {total(12, 'x_4')}", "t_12, y_10", "f64;[n_1]f64"),
    "old returned": (f"{WRITE} {total(11, 'y_10')} {total(12, 'x_4')}", "t_11, t_12, x_4", "f64;f64;[n_1]f64"),
    "new after old": (f"{WRITE} {total(12, 'x_4')} {total(11, 'y_10')}", "t_11, t_12", "f64;f64"),
    "view of the old": (
        f"let v_13: [n_1]f64 = x_4[0i64:n_1:1i64] {WRITE} {total(11, 'y_10')} {total(14, 'v_13')} {total(12, 'x_4')} {total(15, 'v_13')}",
        "t_11, t_12, t_14, t_15", "f64;f64;f64;f64"),
    "view of the new": (
        f"{WRITE} let v_13: [n_1]f64 = y_10[0i64:n_1:1i64] {total(12, 'x_4')} {total(14, 'v_13')}", "t_12, t_14", "f64;f64"),
    "twice": (
        f"{WRITE} let z_16: [n_1]f64 = update(x_4, [0i64], c_3, None) {total(11, 'y_10')} {total(12, 'z_16')} {total(14, 'x_4')}",
        "t_11, t_12, t_14", "f64;f64;f64"),
    "one after the other": (
        f"{WRITE} let z_16: [n_1]f64 = update(y_10, [0i64], c_3, None) {total(12, 'z_16')} {total(11, 'y_10')} {total(14, 'x_4')}",
        "t_11, t_12, t_14", "f64;f64;f64"),
    "scattered": (f"{SCATTER} {total(11, 'y_10')} {total(12, 'x_4')}", "t_11, t_12", "f64;f64"),
    "scattered and returned": (f"{SCATTER} {total(12, 'x_4')}", "t_12, y_10", "f64;[n_1]f64"),
    "in an iteration": (
        rf"let (s_17: f64, r_18: [n_1]f64) = for(3i64, [c_3, x_4], \(j_19: i64, s_20: f64, z_21: [n_1]f64) -> {{"
        rf" {WRITE} {total(12, 'x_4')} let w_22: [n_1]f64 = update(z_21, [j_19], s_20, None) {total(11, 'z_21')}"
        " let u_23: f64 = add(t_11, t_12) in (u_23, y_10) })", "s_17, r_18", "f64;[n_1]f64"),
    "in a branch": (
        rf"let o_17: bool = lt(c_3, 0.5f64) let (s_18: f64, r_19: [n_1]f64) = if(o_17, {{ {WRITE} {total(12, 'x_4')} in (t_12, y_10) }}, {{ in (c_3, x_4) }})"
        f" {total(11, 'x_4')}", "s_18, r_19, t_11", "f64;[n_1]f64;f64"),
}  # fmt: skip


def anywhere(
    stms: list[ir.Stm], result: tuple[ir.Atom, ...], later: Any, root: Any, put_back: Any, p: int, x: ir.Var, y: ir.Var
) -> tuple[ir.Var, int] | None:
    """Where an update could be taken back, whether or not it saves a copy."""
    users = [q for q in range(p + 1, len(stms)) if x in ir.stm_free(stms[q])]
    at = users[0] if users else len(stms) if x in result else None
    return None if at is None else (y, at)


def protected(text: Sequence[str]) -> tuple[ir.Program, ir.Program]:
    stms, result, ret = text
    rets = ", ".join(f"r_{900 + k}: {t}" for k, t in enumerate(ret.split(";")))
    p = parse_program(
        "fun main [n_1: i64, k_5: i64] (i_2: i64, c_3: f64, x_4: [n_1]f64, is_6: [k_5]i64, vs_7: [k_5]f64)"
        f" -> ({rets}) = {{ {stms} in ({result}) }}"
    )
    f = p.funs["main"]
    new = ir.Lambda(f.body.params, tuple(protect(f.body.stms, f.body.result)), f.body.result)
    q = ir.Program({"main": ir.Fun("main", new, f.num_sizes, f.ret)})
    check_program(q)
    return p, q


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_values_stay(name: str, everywhere: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where updates are taken back that need not be: then more is copied."""
    if everywhere:
        monkeypatch.setattr(take_back, "_window", anywhere)
    p, q = protected(CASES[name])
    rng = np.random.default_rng(1)
    for n in (4, 6):
        args = [n, 3, 1, 0.25, rng.normal(size=n), np.array([2, 7, 0]), rng.normal(size=3)]
        same_results(p, q, args)


@pytest.mark.parametrize("op", ["with_vjp (\\qs -> qs) (\\rs d -> map2 (*) rs d)", "with_inverse (\\qs -> qs) (\\rs -> rs)"])
def test_a_function_with_its_own_derivative_may_return_its_argument(op: str) -> None:
    """What its derivative reads is the argument, which the program overwrites."""
    text = f"""
def f [n] (c: f64) (zs: [n]f64): f64 =
  let qs = map (* c) zs
  let rs = {op} qs
  let total = f64.sum (map (\\r -> r * r) rs)
  let qs = qs with [0] = 7
  in total + f64.sum (map2 (*) qs zs)
entry rev [n] (c: f64) (xs: [n]f64): (f64, [n]f64) = vjp (\\(c, xs) -> f c xs) (c, xs) 1"""
    c, xs = 0.5, np.array([1.0, 2.0, -3.0])
    (dc, dx), (ec, ex) = (futad.compile(text, backend="interp", check=True, method=m).rev(c, xs) for m in ("transform", "dual"))
    qs, own = c * xs, np.array([7, *(c * xs)[1:]])
    rs = 2 * qs * (qs if "vjp" in op else 1)
    past = np.array([0, *xs[1:]])
    assert dc == pytest.approx(np.sum(rs * xs) + np.sum(past * xs)) and ec == pytest.approx(dc)
    np.testing.assert_allclose(dx, rs * c + own + c * past)
    np.testing.assert_allclose(ex, dx)


SEEDS = """
def g [n] (v: [n]f64) : f64 = f64.sin v[0] * v[0]
entry twice [n] (v: [n]f64) (q: [n]f64) = let w = vjp (\\z -> vjp g z 1) v q in (w, map2 (+) w q)
entry put [n] (v: [n]f64) (q: [n]f64) = let (a, b) = vjp (\\(z, x) -> (copy z) with [0] = x) (v, 2) q in (a, b, f64.sum q)
entry looped [n] (v: [n]f64) (q: [n]f64) = loop v for _i < 2 do map2 (+) v (vjp (\\z -> vjp g z 1) v q)
entry mapped [n] (v: [n]f64) (q: [n]f64) = map (\\x -> vjp (\\(z, x) -> (copy z) with [0] = x) (v, x) q) v
"""


@pytest.mark.parametrize("backend", ["interp", "c"])
def test_cotangents_that_others_use_are_not_overwritten(backend):
    program = futad.compile(SEEDS, backend=backend, check=True)
    v, q = np.array([0.3, 0.5]), np.array([2.0, 3.0])
    second = 2.0 * (2 * np.cos(0.3) - 0.3 * np.sin(0.3))
    w, sums = program.twice(v, q)
    np.testing.assert_allclose(w, [second, 0])
    np.testing.assert_allclose(sums, [second + 2, 3])
    a, b, total = program.put(v, q)
    np.testing.assert_array_equal(a, [0, 3])
    assert (b, total) == (2, 5)
    x = 0.3 + second
    np.testing.assert_allclose(program.looped(v, q), [x + 2.0 * (2 * np.cos(x) - x * np.sin(x)), 0.5])
    bars, xs = program.mapped(v, q)
    np.testing.assert_array_equal(bars, [[0, 3], [0, 3]])
    np.testing.assert_array_equal(xs, [2, 2])
    np.testing.assert_array_equal(q, [2, 3])
