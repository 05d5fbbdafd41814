"""Loops in reverse mode: dependence analysis and `#[true_dep]`; see test_ad_checkpoints.py for what loops save."""

from __future__ import annotations

import os
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import futad
from futad.ad.history import final
from futad.ad.history.final import noted, prepared
from futad.core import ir
from tests.support.ad_support import Derivs, derivative, dot, like, saved
from tests.support.loop_accesses import Nest, conflicts, nests
from tests.support.loop_accesses import program as nest_program
from tests.support.slow import slow_but

SCALE = float(os.environ.get("FUTAD_PROGRAMS", "1"))


# --- dependence analysis, on random loops ------------------------------------------------------------------------


def claims(program: ir.Program) -> bool:
    """Whether the analysis finds something at the outermost loop."""
    stms = prepared(program.funs["f"].body).stms
    if isinstance(stms[-1].exp, ir.Map):
        stms = stms[-1].exp.lam.stms
    return any(noted(s) for s in stms)


@pytest.mark.slow
@settings(max_examples=round(40 * SCALE))
@given(nests)
def test_what_the_analysis_claims_holds(nest: Nest) -> None:
    """No element is overwritten after it was read, at any of many sizes; and the gradient is that of the log."""
    program = nest_program(nest)
    if not claims(program):
        return
    columns = (0, 1, 2, 4) if nest.rank == 2 else (0,)
    assert not any(conflicts(nest, n, m) for n in range(7) for m in columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(final, "stays", lambda *args: False)
        slow = Derivs(program, [0, 1])
    fast = Derivs(program, [0, 1])
    rng = np.random.default_rng(1)
    for n, m in ((1, 1), (0, 2), (4, 3)):
        args = [rng.normal(size=(n, m)[: nest.rank]), 0.6, rng.normal(size=m)]
        seeds = [like(rng, r) for r in fast.primal(args)]
        got, want = fast.vjp(args, seeds)[1], slow.vjp(args, seeds)[1]
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)

        def at(t: float, args: list[Any] = args, seeds: list[Any] = seeds) -> float:
            return dot(seeds, fast.primal([args[0] + t, args[1] + t, args[2]]))

        near = (at(1e-6) - at(-1e-6)) / 2e-6
        np.testing.assert_allclose(dot(got, [np.ones_like(x) for x in got]), near, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@settings(max_examples=round(25 * SCALE))
@given(nests)
def test_a_promise_is_kept_or_an_error(nest: Nest) -> None:
    """Where the promise is checked instead of proved: an error exactly if an element is overwritten after it was
    read, else the gradient of the log."""
    program, promised = nest_program(nest), nest_program(nest, (("true_dep", "x"),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(final, "stays", lambda *args: False)
        if not claims(promised):
            return
        slow, checked = Derivs(program, [0, 1]), Derivs(promised, [0, 1])
    rng = np.random.default_rng(1)
    for n, m in ((1, 1), (2, 3), (5, 3)):
        args = [rng.normal(size=(n, m)[: nest.rank]), 0.6, rng.normal(size=m)]
        seeds = [like(rng, r) for r in slow.primal(args)]
        if conflicts(nest, n, m):
            with pytest.raises(futad.Error, match="true_dep of x is wrong"):
                checked.vjp(args, seeds)
            continue
        for x, y in zip(checked.vjp(args, seeds)[1], slow.vjp(args, seeds)[1], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_the_analysis_claims_something() -> None:
    """Of the random loops without such a conflict it finds a third at least (the others are odd)."""
    found = free = 0

    @settings(max_examples=100)
    @given(nests)
    def count(nest: Nest) -> None:
        nonlocal found, free
        columns = (0, 1, 2, 4) if nest.rank == 2 else (0,)
        if not any(conflicts(nest, n, m) for n in range(6) for m in columns):
            free += 1
            found += claims(nest_program(nest))

    count()
    assert free >= 20 and 3 * found >= free


# --- dependence analysis, on programs ----------------------------------------------------------------------------

# Each is a function of an array x that ends as a scalar.
PROVED = {
    "recurrence": "f64.sum (loop ys = copy x for i < n - 1 do ys with [i + 1] = ys[i] * ys[i] * x[i])",
    "two_back": """
        f64.sum (loop ys = copy x for i < n - 2 do ys with [i + 2] = ys[i] * ys[i + 1] + x[i])""",
    "downwards": """
        f64.sum (loop ys = copy x for i < n - 1 do ys with [n - 2 - i] = f64.sin ys[n - 1 - i] * x[i])""",
    "guarded": """
        f64.sum (loop ys = replicate n 1 for i < n do
          ys with [i] = (if i > 0 then ys[i - 1] * ys[i - 1] else 1) * x[i])""",
    "branches": """
        f64.sum (loop ys = copy x for i < n - 1 do
          if x[i] > 0.4 then ys with [i + 1] = ys[i] * ys[i] else ys with [i + 1] = f64.sin ys[i])""",
    "in_one_branch": """
        f64.sum (loop ys = copy x for i < n - 1 do
          if x[i] > 0.4 then ys with [i + 1] = ys[i] * ys[i] else ys)""",
    "even_and_odd": """
        f64.sum (loop ys = replicate (2 * n) 0.5 for i < n do
          ys with [2 * i] = ys[2 * i + 1] * x[i] * ys[2 * n - 1])""",
    "two_loops_over_one": """
        let ys = loop ys = copy x for i < n - 1 do ys with [i + 1] = ys[i] * ys[i]
        in f64.sum (loop zs = copy ys for i < n - 1 do zs with [i + 1] = zs[i] * zs[i] * ys[i])""",
    "all_before": """
        f64.sum (loop ys = copy x for i < n do
          ys with [i] = f64.sum (map (\\j -> ys[j] * ys[j]) (iota i)) + x[i])""",
    "maximum_before": """
        f64.sum (loop ys = copy x for i < n do
          ys with [i] = if i > 0 then f64.maximum (map (\\j -> ys[j] * x[i - j]) (iota i)) else x[0])""",
    "slices": """
        f64.sum (loop ys = copy x for i < n do ys with [i] = f64.sum (map (\\y -> y * y) ys[:i]) * x[i] + 0.1)""",
    "triangle": """
        f64.sum (loop ys = copy x for i < n do
          ys with [i] = loop s = x[i] for j < i do s * f64.cos ys[j])""",
    "table": """
        let t = replicate (n + 1) (replicate (n + 1) 1)
        let t = loop t for i < n do loop t for j < n do
          t with [i + 1, j + 1] = if x[i] < x[j] then t[i, j] * x[i] else t[i, j + 1] * t[i + 1, j]
        in t[n, n]""",
    "flat_table": """
        let t = replicate ((n + 1) * n) 1
        let t = loop t for i < n do loop t for j < n do
          t with [(i + 1) * n + j] = f64.sin t[i * n + j] * x[j] + x[i]
        in t[n * n]""",
    "rows": """
        let ys = loop ys = replicate n x for i < n - 1 do ys with [i + 1] = copy (map2 (*) ys[i] x)
        in f64.sum (flatten ys)""",
    "upper_triangle_by_columns": """
        let t = loop t = replicate n (replicate n 1) for j < n do loop t for i < j do
          t with [i, j] = t[i, j - 1] * x[i] * x[j]
        in f64.sum (flatten t)""",
    "in_a_map": """
        f64.sum (map (\\c -> f64.sum (loop ys = copy x for i < n - 1 do ys with [i + 1] = ys[i] * ys[i] * c)) x)""",
    "in_a_map_of_rows": """
        f64.sum (map (\\r -> f64.sum (loop ys = copy r for i < n - 1 do ys with [i + 1] = ys[i] * ys[i] * x[i]))
                     (map (\\c -> map (* c) x) x))""",
    "in_a_branch": """
        if x[0] > 0 then f64.sum (loop ys = copy x for i < n - 1 do ys with [i + 1] = ys[i] * ys[i]) else x[0]""",
    "small_index": "f64.sum (loop ys = replicate 9 x[0] for i < 8 do ys with [i + 1] = ys[i] * ys[i] + x[1])",
    "while_counts": """
        let (ys, _) = loop (ys, i) = (copy x, 0) while i + 1 < n do (ys with [i + 1] = ys[i] * ys[i] * x[i], i + 1)
        in f64.sum ys""",
    "stripmined": """
        f64.sum (#[stripmine(1)] loop ys = copy x for i < n - 1 do ys with [i + 1] = ys[i] * ys[i] * x[i])""",
}
REFUSED = {
    "in_place": "f64.sum (loop ys = copy x for i < n do ys with [i] = ys[i] * ys[i])",
    "neighbour_overwritten": "f64.sum (loop ys = copy x for i < n - 1 do ys with [i] = ys[i + 1] * ys[i] * x[i])",
    "wrong_way": "f64.sum (loop ys = copy x for i < n - 1 do ys with [n - 1 - i] = f64.sin ys[0] * ys[n - 2 - i])",
    "same_place": "f64.sum (loop ys = copy x for i < n do ys with [0] = ys[0] * x[i] * ys[n - 1])",
    "unknown_place": """
        f64.sum (loop ys = copy x for i < n do ys with [(i * i + 1) % n] = f64.sin ys[i] * x[i])""",
    "one_too_far": """
        f64.sum (loop ys = copy x for i < n - 1 do
          ys with [i] = f64.sum (map (\\j -> ys[j] * ys[j]) (iota (i + 2))) + x[i])""",
    "second_iteration": """
        let ys = loop ys = copy x for t < 2 do loop ys for i < n - 1 do ys with [i + 1] = ys[i] * ys[i] + x[t]
        in f64.sum ys""",
    "exchange": """
        let (ys, zs) = loop (ys, zs) = (copy x, map (* 2) x) for i < n - 1 do (zs, ys with [i + 1] = ys[i] * zs[i])
        in f64.sum ys + f64.sum zs""",
    "old_version": """
        let (ys, s) = loop (ys, s) = (copy x, 0) for i < n - 1 do
          let old = copy ys
          let ys = ys with [i] = x[i] * f64.sin s
          in (ys, s + old[i] * old[i])
        in f64.sum ys + s""",
    "while_stands": """
        let (ys, _, _) = loop (ys, i, k) = (copy x, 0, 0) while k < n do
          (ys with [i] = ys[i] * ys[i] * x[k], (if x[k] > 0.4 then i + 1 else i), k + 1)
        in f64.sum ys""",
}
XS = np.array([0.5, 0.3, 0.8, 1.1, 0.2, 0.7])


def entries(body: str) -> str:
    return f"""
    def f [n] (x: [n]f64): f64 = {body}
    entry rev [n] (x: [n]f64) = vjp f x 1
    entry fwd [n] (x: [n]f64) = tabulate n (\\i -> jvp f x (tabulate n (\\j -> f64.bool (i == j))))
    """


def gradients_agree(text: str) -> None:
    p = futad.compile(text, backend="interp")
    for n in (6, 2, 1):
        try:
            want = p.fwd(XS[:n])
        except futad.Error:
            continue  # this program wants more elements
        np.testing.assert_allclose(p.rev(XS[:n]), want, rtol=1e-12, atol=1e-14)
    assert p.rev(XS).shape == (6,)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROVED)
def test_what_can_be_proved_saves_nothing(name: str) -> None:
    text = entries(PROVED[name])
    gradients_agree(text)
    stms = derivative(text)
    scalars = {"triangle": 1}  # the inner loop's s
    assert saved(stms) == scalars.get(name, 0)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_overwritten_is_saved(name: str) -> None:
    text = entries(REFUSED[name])
    gradients_agree(text)
    assert saved(derivative(text)) >= 1


def test_the_return_sweep_repeats_no_update() -> None:
    """Of a table filled by two loops it re-executes what it reads, not the loops that fill the table."""
    stms = derivative(entries(PROVED["table"]))
    loops = [s.exp for s in stms if isinstance(s.exp, ir.For)]
    assert len(loops) == 4  # two forward, two backward


def test_an_inner_loop_whose_array_is_made_each_iteration() -> None:
    """Only the outer loop saves, its scalar."""
    text = """
    def f [n] (x: [n]f64) (c: f64): f64 = loop s = c for t < n do
      let ys = loop ys = [s, 1, 1] for i < 2 do ys with [i + 1] = ys[i] * ys[i] * x[0]
      in f64.sin ys[2]
    entry rev [n] (x: [n]f64) (c: f64) = vjp (f x) c 1
    entry fwd [n] (x: [n]f64) (c: f64) = jvp (f x) c 1
    """
    p = futad.compile(text, backend="interp")
    assert p.rev(XS, 0.3) == pytest.approx(p.fwd(XS, 0.3), rel=1e-12)
    assert saved(derivative(text)) == 1  # s


@pytest.mark.slow
def test_second_derivatives() -> None:
    text = f"""
    def f [n] (x: [n]f64): f64 = {PROVED["recurrence"]}
    def g [n] (x: [n]f64): f64 = {PROVED["table"]}
    def unit n i = tabulate n (\\j -> f64.bool (i == j))
    entry fr [n] (x: [n]f64) = tabulate n (\\i -> jvp (\\x -> vjp f x 1) x (unit n i))
    entry rr [n] (x: [n]f64) = tabulate n (\\i -> vjp (\\x -> vjp f x 1) x (unit n i))
    entry rf [n] (x: [n]f64) = tabulate n (\\i -> vjp (\\x -> jvp f x (unit n i)) x 1)
    entry gfr [n] (x: [n]f64) = tabulate n (\\i -> jvp (\\x -> vjp g x 1) x (unit n i))
    entry grr [n] (x: [n]f64) = tabulate n (\\i -> vjp (\\x -> vjp g x 1) x (unit n i))
    entry many [n] (x: [n]f64) = mjp (\\x -> vjp f x 1) x (tabulate n (\\i -> unit n i))
    """
    p = futad.compile(text, backend="interp")
    for other in (p.rr, p.rf, p.many):
        np.testing.assert_allclose(other(XS), p.fr(XS), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(p.grr(XS[:3]), p.gfr(XS[:3]), rtol=1e-10, atol=1e-12)


# --- the attribute -------------------------------------------------------------------------------------------------

# Loops over ys, from a copy of x, that are right or wrong about the attribute; `is` are places the compiler does not
# know, one after the other.
PROMISED = {
    "places": "loop #[true_dep] ys = copy x for i < n - 1 do ys with [is[i] + 1] = ys[is[i]] * ys[is[i]] * x[i]",
    "rows": """
        flatten (loop #[true_dep] ys = replicate n x for i < n - 1 do
          ys with [is[i] + 1] = copy (map2 (*) ys[is[i]] x)) |> f64.sum |> replicate n""",
    "in_maps": """
        loop #[true_dep] ys = copy x for i < n do
          ys with [is[i]] = f64.sum (map (\\j -> ys[is[j]] * ys[is[j]]) (iota i)) + x[i]""",
    "in_nested_maps": """
        loop #[true_dep] ys = copy x for i < n do
          let pair j k = if k > 0 then ys[is[j]] * ys[is[k - 1]] else 0
          let a = map (\\j -> f64.sum (map (pair j) (iota (j + 1)))) (iota i)
          in ys with [is[i]] = f64.sum a + x[i]""",
    "in_loops_in_maps": """
        loop #[true_dep] ys = copy x for i < n do
          let a = map (\\j -> loop s = x[j] for k < j do s * ys[is[k]]) (iota i)
          in ys with [is[i]] = f64.sum a + x[i]""",
    "slices": """
        loop #[true_dep] ys = copy x for i < n do ys with [is[i]] = f64.sum (map (\\y -> y * y) ys[:is[i]]) + x[i]""",
    "while": """
        (loop (#[true_dep] ys, i) = (copy x, 0) while is[i] + 1 < n do
           (ys with [is[i] + 1] = ys[is[i]] * ys[is[i]] * x[i], i + 1)).0""",
    "inner_while": """
        loop #[true_dep] ys = copy x for i < n do
          let (s, _) = loop (s, j) = (x[i], 0) while j < i do (s * ys[is[j]] + 1, j + 1)
          in ys with [is[i]] = s""",
    "array_in_inner_while": """
        loop #[true_dep] ys = copy x for i < n do
          let (ys, _) = loop (ys, j) = (ys, 0) while j < 1 do
            (ys with [is[i]] = x[i] * (if i > 0 then ys[i - 1] else 1), j + 1)
          in if i + 1 < n then ys else ys""",
}
BROKEN = {
    "places": "loop #[true_dep] ys = copy x for i < n - 1 do ys with [is[i]] = ys[is[i]] * x[i]",
    "rows": """
        flatten (loop #[true_dep] ys = replicate n x for i < n - 1 do
          ys with [is[i]] = copy (map2 (*) ys[is[i] + 1] x)) |> f64.sum |> replicate n""",
    "in_maps": """
        loop #[true_dep] ys = copy x for i < n do
          ys with [is[i]] = f64.sum (map (\\j -> ys[is[j]] * ys[is[j]]) (iota n)) + x[i]""",
    "in_nested_maps": """
        loop #[true_dep] ys = copy x for i < n do
          let a = map (\\j -> f64.sum (map (\\k -> ys[is[j]] * ys[is[k]]) (iota (i + 1)))) (iota i)
          in ys with [is[i]] = f64.sum a + x[i]""",
    "in_loops_in_maps": """
        loop #[true_dep] ys = copy x for i < n do
          let a = map (\\j -> loop s = x[j] for k < j + 2 do s * ys[is[k]]) (iota i)
          in ys with [is[i]] = f64.sum a + x[i]""",
    "whole": """
        loop #[true_dep] ys = copy x for i < n do ys with [is[i]] = f64.sum ys * x[i]""",
    "slices": """
        loop #[true_dep] ys = copy x for i < n - 1 do ys with [is[i]] = f64.sum (map (\\y -> y * y) ys[:is[i] + 2])""",
    "while": """
        (loop (#[true_dep] ys, i) = (copy x, 0) while is[i] + 1 < n do
           (ys with [is[i]] = ys[is[i] + 1] * ys[is[i]], i + 1)).0""",
    "inner_while": """
        loop #[true_dep] ys = copy x for i < n do
          let (s, _) = loop (s, j) = (x[i], 0) while j <= i do (s * ys[is[j]] + 1, j + 1)
          in ys with [is[i]] = s""",
    "array_in_inner_while": """
        loop #[true_dep] ys = copy x for i < n do
          let (ys, _) = loop (ys, j) = (ys, 0) while j < 2 do (ys with [is[i]] = f64.sin x[i] * ys[is[i]], j + 1)
          in ys""",
}
IS = np.arange(6)


def annotated(loop: str) -> str:
    return f"""
    def f [n] (is: [n]i64) (x: [n]f64): [n]f64 = {loop}
    entry rev [n] (is: [n]i64) (x: [n]f64) = vjp (f is) x (iota n |> map f64.i64)
    entry fwd [n] (is: [n]i64) (x: [n]f64) =
      let unit i = tabulate n (\\j -> f64.bool (i == j))
      in tabulate n (\\i -> f64.sum (map2 (*) (map f64.i64 (iota n)) (jvp (f is) x (unit i))))
    """


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISED)
def test_a_promise_that_holds_saves_nothing_but_scalars(name: str) -> None:
    text = annotated(PROMISED[name])
    p = futad.compile(text, backend="interp")
    np.testing.assert_allclose(p.rev(IS, XS), p.fwd(IS, XS), rtol=1e-11, atol=1e-13)
    scalars = {"in_loops_in_maps": 1, "inner_while": 1}  # the inner loop's s
    assert saved(derivative(text)) == scalars.get(name, 0)


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_promise_is_an_error_with_its_place(name: str) -> None:
    p = futad.compile(annotated(BROKEN[name]), backend="interp")
    with pytest.raises(futad.Error, match=r":[2-6]:\d+: Error: the attribute true_dep of ys is wrong.*overwritten"):
        p.rev(IS, XS)


@pytest.mark.slow
@pytest.mark.parametrize("k, name", [(1, "places"), (2, "in_maps"), (1, "while")])
def test_promises_of_loops_that_are_split(k: int, name: str) -> None:
    def split(loop: str) -> str:
        return annotated(loop.replace("loop #[true", f"#[stripmine({k})] loop #[true").replace(
            "loop (#[true", f"#[stripmine({k})] loop (#[true"))

    p = futad.compile(split(PROMISED[name]), backend="interp")
    np.testing.assert_allclose(p.rev(IS, XS), p.fwd(IS, XS), rtol=1e-11, atol=1e-13)
    stms = derivative(split(PROMISED[name]))
    assert all(s.exp.elem.is_integral for s in stms if isinstance(s.exp, ir.Scratch))  # no array of floats
    with pytest.raises(futad.Error, match="true_dep of ys is wrong"):
        futad.compile(split(BROKEN[name]), backend="interp").rev(IS, XS)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "emulated"])
def test_promises_are_checked_by_compiled_code(backend: str) -> None:
    for name in ("in_maps", "while"):
        text = annotated(PROMISED[name])
        want = futad.compile(text, backend="interp").rev(IS, XS)
        np.testing.assert_allclose(futad.compile(text, backend=backend).rev(IS, XS), want, rtol=1e-12)
        with pytest.raises(futad.Error, match="true_dep of ys is wrong"):
            futad.compile(annotated(BROKEN[name]), backend=backend).rev(IS, XS)


@pytest.mark.slow
def test_a_promise_about_what_cannot_be_checked_changes_nothing() -> None:
    """Reads by the operator of a reduction: saved as without the attribute."""
    loop = "loop {} ys = copy x for i < n do ys with [is[i]] = x[i] * reduce (\\a b -> a + b + a * b * ys[is[0]]) 0 x"
    with_it, without = annotated(loop.format("#[true_dep]")), annotated(loop.format(""))
    p = futad.compile(with_it, backend="interp")
    np.testing.assert_allclose(p.rev(IS, XS), p.fwd(IS, XS), rtol=1e-11, atol=1e-13)
    assert saved(derivative(with_it)) == saved(derivative(without)) > 0


CHOLESKY = """
entry fwd [n] (a: [n][n]f64): f64 =
  let l = loop l = replicate n (replicate n 0) for i < n do
            loop l for j < i + 1 do
              let s = f64.sum (map2 (*) l[i, :j] l[j, :j])
              in if i {} j then l with [i, j] = f64.sqrt (a[i, i] - s) else l with [i, j] = (a[i, j] - s) / l[j, j]
  in f64.sum (map f64.sum l)
entry rev [n] (a: [n][n]f64): [n][n]f64 = vjp fwd a 1
"""


@pytest.mark.parametrize(("comparison", "kept"), [("==", 0), ("<=", 0), (">", 1)])
def test_places_that_differ_are_in_order(comparison: str, kept: int) -> None:
    """Off the diagonal j < i, as j <= i: a Cholesky decomposition keeps nothing.  (With `>` it is none: the columns of
    the diagonal are read where they are written.)"""
    assert (saved(derivative(CHOLESKY.format(comparison))) > 0) == (kept > 0)


@pytest.mark.slow
@pytest.mark.parametrize(("comparison", "backend"), slow_but(
    [("==", "interp"), ("<=", "c")], product(["==", "<="], ["interp", "c", "multicore", "emulated"])
))
def test_nothing_kept_is_right(comparison: str, backend: str) -> None:
    a = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
    p = futad.compile(CHOLESKY.format(comparison), backend=backend)
    for i, j in ((0, 0), (1, 0), (2, 1), (2, 2), (0, 2)):
        h = np.zeros((3, 3))
        h[i, j] = 1e-6
        assert abs((p.fwd(a + h) - p.fwd(a - h)) / 2e-6 - p.rev(a)[i, j]) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "multicore"])
def test_promises_are_checked_in_tasks(backend: str) -> None:
    """Backends that keep tasks see what these read."""
    for place in ("i", "i + 1"):
        p = futad.compile(f"""
def f [n] (xs: [n]f64): f64 = f64.sum (loop #[true_dep] ys = copy xs for i < n - 1 do
  let (a, b) = par (\\z -> loop s = z for j < 3 do s * ys[{place}]) (\\z -> loop s = z for j < 3 do s + z) (xs[i], 1)
  in ys with [i + 1] = a * b)
entry gradient [n] (xs: [n]f64) = vjp f xs 1
""", backend=backend)  # fmt: skip
        if place == "i":
            assert np.isfinite(p.gradient(np.linspace(0.4, 1, 6))).all()
        else:
            with pytest.raises(futad.Error, match="true_dep of ys is wrong"):
                p.gradient(np.linspace(0.4, 1, 6))
