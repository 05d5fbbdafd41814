"""What constructs say about memory, and what follows: which variables may share it, and what may be overwritten."""

from __future__ import annotations

import pytest

from futad.core import ir
from futad.core.alias import aliases, overwritable, overwritten
from futad.core.check import check_program
from futad.core.node import NODES, Consumed, Repeated, Viewed, node
from futad.core.parse import parse_program
from futad.core.types import F64, Const, Var, array_of, i64
from futad.optimise.hoist import hoist_fun
from futad.rewrite.dce import dead_code
from futad.rewrite.simplify import simplify

CUSTOM = {ir.WithVjp, ir.WithJvp, ir.WithInverse, ir.Invert}
CONTROL = {ir.If, ir.Par, ir.For, ir.While, ir.Call, ir.Jvp, ir.Vjp, *CUSTOM}  # what their scopes or the function says
SCALAR = {ir.Op, ir.Trace, ir.Measure, ir.UpdateAcc, ir.Part, ir.Whole, ir.Keep}  # bind no array


def test_every_construct_says_where_its_arrays_lie() -> None:
    says = {c for c in NODES if c.fresh or "views" in vars(c) or "consumes" in vars(c)}
    assert says | CONTROL | SCALAR == set(NODES)
    assert not says & (CONTROL | SCALAR)


def test_a_construct_is_either_new_or_shares_memory() -> None:
    for c in NODES:
        assert sum((c.fresh, "views" in vars(c), "consumes" in vars(c))) <= 1, c


def test_what_overwrites_is_not_pure() -> None:
    assert {c for c in NODES if "consumes" in vars(c)} == {ir.Update, ir.Scatter, ir.Hist, ir.WithAcc}
    assert not any(c.pure for c in NODES if "consumes" in vars(c) or c.effect)


def test_scopes_that_run_once_at_most() -> None:
    scoped = {c for c in NODES if {"Lambda", "Lambdas"} & set(c.kinds.values())}
    assert {c for c in scoped if "repeats" not in vars(c)} == {ir.If, ir.WithAcc, ir.Jvp, ir.Vjp, *CUSTOM}


def test_roles_name_the_operands_in_order() -> None:
    (hist,) = _main(
        "let (a_5: [n_1]f64, b_6: [n_1]f64) = hist(n_1, [xs_2, ys_3], [is_4], [xs_2, ys_3],"
        " \\(p_7: f64, q_8: f64, r_9: f64, s_10: f64) -> { in (p_7, q_8) }, [0.0f64, 0.0f64])",
        "xs_2", "ys_3",
    )[1]  # fmt: skip
    e = hist.exp
    assert [v.name for v in e.consumes()] == ["xs", "ys"] and e.shares() == e.consumes()
    assert e.views() == () and e.repeats() == tuple(e.lambdas())


def _main(body: str, *result: str) -> tuple[ir.Program, tuple[ir.Stm, ...], dict[str, Var]]:
    ret = ", ".join(f"r_{90 + k}: [n_1]f64" for k in range(len(result)))
    p = parse_program(
        f"fun main [n_1: i64] (xs_2: [n_1]f64, ys_3: [n_1]f64, is_4: [n_1]i64) -> ({ret}) ="
        f" {{ {body} in ({', '.join(result)}) }}"
    )
    body_ = p.funs["main"].body
    named: dict[str, Var] = {}

    def walk(lam: ir.Lambda) -> None:
        named.update((v.name, v) for v in lam.params)
        for s in lam.stms:
            named.update((v.name, v) for v in s.pat)
            for inner in s.exp.lambdas():
                walk(inner)

    walk(body_)
    return p, body_.stms, named


OVERWRITTEN = [
    ("let a_5: [n_1]f64 = copy(xs_2) let v_6: [n_1]f64 = rearrange(a_5, [0]) let b_7: [n_1]f64 ="
     " update(v_6, [0i64], 1.0f64, None)", "b_7", {"a", "v", "b"}),
    ("let a_5: [n_1]f64 = copy(xs_2) let b_6: [n_1]f64 = for(n_1, [a_5], \\(i_7: i64, c_8: [n_1]f64) ->"
     " { let d_9: [n_1]f64 = update(c_8, [i_7], 1.0f64, None) in (d_9) })", "b_6", {"a", "b", "c", "d"}),
    ("let a_5: [n_1]f64 = copy(xs_2) let e_10: [n_1]f64 = copy(ys_3) let b_6: [n_1]f64 = if(true, { in (a_5) },"
     " { in (e_10) }) let d_9: [n_1]f64 = update(b_6, [0i64], 1.0f64, None)", "d_9", {"a", "b", "d", "e"}),
    ('let a_5: [n_1]f64 = copy(xs_2) let e_10: [n_1]f64 = assert(true, "never", [], None, [a_5])'
     " let d_9: [n_1]f64 = update(e_10, [0i64], 1.0f64, None)", "d_9", {"a", "d", "e"}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "result", "mutable"), OVERWRITTEN)
def test_what_shares_memory_with_the_overwritten_is_mutable(body: str, result: str, mutable: set[str]) -> None:
    p, stms, named = _main(body, result)
    check_program(p)
    found = aliases(p.funs["main"].body)
    assert {n for n, v in named.items() if found.mutable(v)} == mutable
    assert overwritten([named["a"]], stms[1:], found)
    assert not overwritten([named["xs"]], stms, found)


def test_memory_is_followed_in_its_direction_and_through_calls() -> None:
    """Two arrays of which one goes into a variable that is overwritten: the other keeps its memory."""
    text = """
    fun f [n_1: i64] (a_2: [n_1]f64) -> (r_3: [n_1]f64) = {
      let b_4: [n_1]f64 = update(a_2, [0i64], 1.0f64, None) in (b_4) }
    fun main [n_5: i64] (xs_6: [n_5]f64, c_7: bool) -> (r_8: [n_5]f64, q_9: [n_5]f64) = {
      let p_10: [n_5]f64 = copy(xs_6) let q_11: [n_5]f64 = if(c_7, { in (p_10) }, { in (xs_6) })
      let s_12: [n_5]f64 = copy(xs_6) let t_13: [n_5]f64 = f(n_5, s_12) in (t_13, q_11) }
    """
    p = parse_program(text.replace("f(n_5, s_12)", "call(\"f\", [n_5, s_12])"))
    got = {v.name for v in overwritable(p)}
    assert got == {"a", "s"}
    late = {v.name for v in overwritable(p, lambda e: (e.array,) if isinstance(e, ir.Copy) else ())}
    assert late == {"a", "s", "xs"}


@node
class Sweep(ir.Exp):
    """A construct that no pass has heard of: a scope that runs several times and overwrites an array."""

    array: Consumed[ir.Atom]
    step: Repeated[ir.Lambda]


NODES.remove(Sweep)


def test_a_role_is_of_operands_or_scopes() -> None:
    with pytest.raises(TypeError, match="Odd.size: no field can be Viewed"):

        @node
        class Odd(ir.Exp):
            size: Viewed[tuple[int, ...]]


def test_passes_treat_a_construct_that_they_do_not_list() -> None:
    xs, ys, kept, made = [Var(n, array_of(F64, i64(3))) for n in ("xs", "ys", "kept", "made")]
    p, q, r, dead = [Var(n, F64) for n in "pqrd"]
    one = Const(F64, 1)
    stms = (
        ir.Stm((q,), ir.Op("add", (p, one))),
        ir.Stm((r,), ir.Op("mul", (q, one))),
        ir.Stm((dead,), ir.Op("exp", (q,))),
    )
    body = (
        ir.Stm((ys,), ir.Copy(xs)),
        ir.Stm((kept,), ir.Copy(xs)),
        ir.Stm((made,), Sweep(ys, ir.Lambda((p,), stms, (r,)))),
    )
    lam = ir.Lambda((xs,), body, (made, kept))
    found = aliases(lam, lam.result)
    assert {v for v in (xs, ys, kept, made) if found.mutable(v)} == {ys, made}
    assert overwritten([ys], body[2:], found) and not overwritten([kept], body[2:], found)
    f = ir.Fun("main", lam, 0, (made, kept))
    (out,) = simplify(ir.Program({"main": f})).funs.values()
    (sweep,) = [s.exp for s in out.body.stms if isinstance(s.exp, Sweep)]
    assert [s.exp.op for s in sweep.step.stms if isinstance(s.exp, ir.Op)] == ["add"]  # x * 1, and what nobody uses
    assert sum(isinstance(s.exp, ir.Copy) for s in out.body.stms) == 2  # one is overwritten, both are returned
    assert dead_code(lam)[1] == 1
    assert hoist_fun(f).body is lam  # nothing leaves its scope before it is overwritten, nor goes past it
    swapped = sweep.consuming(lambda a: xs)
    assert isinstance(swapped, Sweep) and swapped.array is xs and swapped.step is sweep.step
