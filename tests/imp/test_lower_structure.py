"""What lowering makes of source programs: the shape of the core code, sizes, instances, entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.types import I64, Const, shape_of
from futad.errors import Error, UnsupportedError
from futad.source import compile_text
from tests.support.processor_time import within


def lowered(text: str) -> ir.Program:
    program = compile_text(text, "test.fut")
    check_program(program, "lowering")
    return program


def stms(lam: ir.Lambda) -> Iterator[ir.Stm]:
    for s in lam.stms:
        yield s
        for inner in s.exp.lambdas():
            yield from stms(inner)


def counts(program: ir.Program) -> Counter[str]:
    return Counter(type(s.exp).__name__ for f in program.funs.values() for s in stms(f.body))


def ops(program: ir.Program) -> Counter[str]:
    everything = [s.exp for f in program.funs.values() for s in stms(f.body)]
    return Counter(e.op for e in everything if isinstance(e, ir.Op))


def run(text: str, *args: Any, entry: str = "main") -> list[Any]:
    return Interpreter(lowered(text)).run(entry, list(args))


# --- representation -------------------------------------------------------------------------------------


def test_zip_unzip_and_projections_are_free() -> None:
    text = "entry main [n] (xs: [n]f64) (ys: [n]i32) = let (a, b) = unzip (zip xs ys) in (a, b, xs)"
    assert not counts(lowered(text))


def test_arrays_of_records_are_records_of_arrays() -> None:
    text = """
    type p = {x: f64, at: (i32, bool)}
    entry main [n] (ps: [n]p) = map (\\p -> p with x = p.x + 1) ps
    """
    main = lowered(text).funs["main"]
    types = [str(v.type).replace(repr(main.body.params[0]), "n") for v in main.ret]
    assert types == ["[n]f64", "[n]i32", "[n]bool"]
    (entry,) = [main.entry]
    assert entry is not None and [n for n, _ in entry.params] == ["ps"]


def test_a_map_of_several_results_is_one_map() -> None:
    text = "entry main [n] (xs: [n]f64) = unzip3 (map (\\x -> (x + 1, x * 2, x)) xs)"
    assert counts(lowered(text))["Map"] == 1


def test_functions_leave_no_trace() -> None:
    text = """
    def apply f x = f x
    entry main (x: i32) = let fs = (\\y -> y + x, (* 2)) in apply fs.0 (apply fs.1 x)
    """
    program = lowered(text)
    assert set(program.funs) == {"main"} and counts(program) == {"Op": 2}


# --- sizes ----------------------------------------------------------------------------------------------


def test_equal_sizes_share_one_atom() -> None:
    text = "entry main [n] (xs: [n]f64) = (iota (n + 1), map (\\x -> replicate (n + 1) x) xs, concat xs [1])"
    program = lowered(text)
    assert ops(program)["add"] == 1
    size, *arrays = program.funs["main"].ret
    assert {shape_of(v.type)[-1] for v in arrays} == {size}


def test_unknown_sizes_come_before_their_arrays() -> None:
    text = "entry main (xs: []f64) = filter (> 0) xs"
    main = lowered(text).funs["main"]
    size, array = main.ret
    assert size.type is I64 and shape_of(array.type) == (size,)


def test_branches_that_agree_bind_no_size() -> None:
    text = "entry main [n] (b: bool) (xs: [n]f64) = if b then map (+ 1) xs else xs"
    main = lowered(text).funs["main"]
    branch = next(s for s in main.body.stms if isinstance(s.exp, ir.If))
    assert len(branch.pat) == 1 and shape_of(branch.pat[0].type) == main.body.params[:1]


def test_branches_that_differ_bind_the_size() -> None:
    text = "entry main (b: bool) (xs: []f64) = if b then filter (> 1) xs else [1.0, 2.0]"
    main = lowered(text).funs["main"]
    branch = next(s for s in main.body.stms if isinstance(s.exp, ir.If) and len(s.pat) == 2)
    size, array = branch.pat
    assert shape_of(array.type) == (size,)


def test_loops_carry_sizes_that_vary() -> None:
    text = "entry main (n: i64) = loop xs = [1i32] for _i < n do xs ++ xs"
    main = lowered(text).funs["main"]
    loop = next(s for s in main.body.stms if isinstance(s.exp, ir.For))
    assert [v.type is I64 for v in loop.pat] == [True, False]
    assert loop.exp.operands()[1] is Const(I64, 1)


def test_loops_keep_sizes_that_stay() -> None:
    text = "entry main [n] (xs: *[n]i32) = loop ys = xs for i < n do ys with [i] = 0"
    main = lowered(text).funs["main"]
    loop = next(s for s in main.body.stms if isinstance(s.exp, ir.For))
    assert len(loop.pat) == 1 and counts(lowered(text)) == {"For": 1, "Update": 1}


def test_size_arguments_are_passed_once() -> None:
    text = """
    #[noinline]
    def f [n] (k: i64) (xs: [n]f64) (ys: [n]f64) = map2 (\\x y -> x * y + f64.i64 k) xs ys
    entry main [n] (xs: [n]f64) = f n xs xs
    """
    program = lowered(text)
    (f,) = [g for name, g in program.funs.items() if name != "main"]
    assert f.num_sizes == 1 and len(f.body.params) == 3


def test_coercion_is_checked() -> None:
    text = "entry main [n] (k: i64) (xs: [n]f64) = xs :> [k]f64"
    assert counts(lowered(text))["Assert"] == 1
    text = "entry main [n] (xs: [n]f64) = xs :> [n]f64"
    assert counts(lowered(text))["Assert"] == 0


def test_size_expressions_of_parameters_are_checked_once() -> None:
    text = """
    entry main [n][m] (xs: [n]f64) (ys: [m]f64) (zs: [n * m]f64): [n * m]f64 = map (+ f64.i64 (n * m)) zs
    """
    program = lowered(text)
    # That the argument has this size, and that the product is one of i64, which is computed in f64.
    assert counts(program)["Assert"] == 2 and ops(program)["mul"] == 3


# --- instances ------------------------------------------------------------------------------------------

LARGE = """
def large [n] (xs: [n]f64) (k: f64): f64 =
  let a = f64.sum (map (* k) xs)
  let b = f64.sum (map (+ k) xs)
  let c = f64.maximum (map (\\x -> x * a - b) xs)
  in a * b + c
"""


def test_a_function_is_lowered_once() -> None:
    text = LARGE + "entry main [n] (xs: [n]f64) = (large xs 1, large xs 2, map (\\k -> large xs k) xs)"
    program = lowered(text)
    assert len(program.funs) == 2 and counts(program)["Call"] == 3


def test_instances_differ_by_structure_not_by_size() -> None:
    text = """
    def large 'a [n] (f: a -> f64) (xs: [n]a): f64 =
      let a = f64.sum (map f xs)
      let b = f64.sum (map (\\x -> f x + a) xs)
      in f64.maximum (map (\\x -> f x * a - b) xs) + f64.minimum (map f xs)
    def id_ (x: f64) = x
    entry main (xs: []f64) (ys: []f64) (zs: []i32) = large id_ xs + large id_ ys + large f64.i32 zs
    """
    program = lowered(text)
    assert len(program.funs) == 3 and counts(program)["Call"] == 3


def test_captured_values_become_parameters() -> None:
    text = """
    def large [n] (f: f64 -> f64) (xs: [n]f64): f64 =
      let a = f64.sum (map f xs)
      let b = f64.sum (map (\\x -> f x + a) xs)
      in f64.maximum (map (\\x -> f x * a - b) xs) + f64.minimum (map f xs)
    entry main (xs: []f64) (k: f64) =
      let f x = x * k
      in large f xs + large f (map (+ 1) xs)
    """
    program = lowered(text)
    (instance,) = [f for n, f in program.funs.items() if n != "main"]
    assert len(instance.body.params) == 3 and counts(program)["Call"] == 2


def test_nesting_does_not_multiply_code() -> None:
    head = "def g0 [n] (xs: [n]f64): f64 = f64.sum (map (\\x -> x * x + 1) (map (\\x -> x / 2 - x * x) xs))\n"
    for i in range(1, 12):
        more = " + ".join(f"g{i - 1} (map (+ {j}) xs)" for j in range(4))
        head += f"def g{i} [n] (xs: [n]f64): f64 = {more}\n"
    program = lowered(head + "entry main (xs: []f64) = g11 xs")
    assert sum(counts(program).values()) < 400


def test_constants_are_computed_once() -> None:
    text = """
    def table = map (\\i -> f64.i64 i * 3 + f64.exp (f64.i64 i) - 2 * f64.i64 i) (iota 100)
    entry main [n] (is: [n]i64) = map (\\i -> table[i] + table[i + 1]) is
    """
    program = lowered(text)
    main = program.funs["main"]
    assert counts(program)["Call"] == 1 and isinstance(main.body.stms[0].exp, ir.Call)


# --- control --------------------------------------------------------------------------------------------


def test_cheap_conditions_are_not_branches() -> None:
    text = "entry main (x: i32) (y: i32) = x > 0 && y > 0 || x == y"
    assert counts(lowered(text))["If"] == 0


def test_conditions_that_can_fail_are_branches() -> None:
    text = "entry main (x: i32) (y: i32) = x != 0 && y / x > 0"
    assert counts(lowered(text))["If"] == 1
    assert run(text, 0, 1) == [False]


def test_while_conditions_are_computed_at_entry_and_end() -> None:
    text = "entry main (x: i32) = loop y = x while y < 10 do y * 2"
    main = lowered(text).funs["main"]
    loop = next(s.exp for s in main.body.stms if isinstance(s.exp, ir.While))
    assert len(loop.inits) == 2 and len(loop.body.stms) == 2


def test_attributes_reach_the_statement() -> None:
    text = """
    entry main (x: f64) =
      #[stripmine(2)] loop (#[true_dep] a, b) = (x, 1) for i < 64 do (a * b, b + a)
    """
    main = lowered(text).funs["main"]
    loop = next(s for s in main.body.stms if isinstance(s.exp, ir.For))
    assert [a[:2] for a in loop.attrs if a[0] != "place"] == [("stripmine", 2), ("true_dep", "a")]
    assert [v.name for v in loop.exp.lambdas()[0].params] == ["i", "a", "b"]


def test_unsafe_drops_checks() -> None:
    text = "entry main (xs: []i32) (i: i64) = #[unsafe] xs[i]"
    (at,) = [s.exp for s in stms(lowered(text).funs["main"].body)]
    assert isinstance(at, ir.At) and at.check is None


def test_checks_carry_their_place() -> None:
    text = "entry main (xs: []i32) (i: i64) =\n  xs[i]"
    (at,) = [s.exp for s in stms(lowered(text).funs["main"].body)]
    assert isinstance(at, ir.At) and at.check is not None and (at.check.line, at.check.col) == (2, 3)


# --- differentiation ------------------------------------------------------------------------------------


def test_derivatives_flatten_their_arguments() -> None:
    text = """
    entry main [n] (xs: [n]f64) (k: f64) =
      vjp2 (\\(ys, c) -> (f64.sum ys * c, c)) (xs, k) (1, 2)
    """
    (vjp,) = [s for s in stms(lowered(text).funs["main"].body) if isinstance(s.exp, ir.Vjp)]
    assert [len(vjp.exp.args), len(vjp.exp.adjoints), len(vjp.pat)] == [2, 2, 4]  # type: ignore[attr-defined]


def test_a_vector_derivative_is_one_statement() -> None:
    text = "entry main [n] (x: f64) (dxs: [n]f64) = jmp2 (\\y -> y * y) x dxs"
    program = lowered(text)
    assert counts(program)["Jvp"] == 1 and counts(program)["Map"] == 0


# --- entries --------------------------------------------------------------------------------------------


def test_entry_view() -> None:
    text = """
    type vec = [3]f64
    -- | Adds.
    entry add [n] (v: vec) (ws: *[n](f64, i32)) (_: {a: bool, b: u8}): (vec, i64) = (v, length ws)
    """
    entry = lowered(text).funs["add"].entry
    assert entry is not None and entry.doc == "Adds."
    (v, t), (ws, u), (third, r) = entry.params
    assert (v, ws, third) == ("v", "ws", "arg2")
    assert (t.kind, t.text, t.dims) == ("array", "vec", (3,))
    assert u.kind == "array" and u.dims == ("n",)
    assert isinstance(u.elem, ir.EntryType) and u.elem.kind == "tuple"
    assert r.kind == "record" and [n for n, _ in r.fields] == ["a", "b"]
    assert entry.unique == (False, True, False)
    assert (entry.result.kind, entry.result.text) == ("tuple", "(vec, i64)")


def test_result_sizes_that_are_arguments() -> None:
    main = lowered("entry main (n: i64) (x: f64) = replicate n x").funs["main"]
    assert shape_of(main.ret[0].type) == (main.body.params[0],)


# --- limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "entry main (f: i32 -> i32) = f 1",
        "entry main 'a (x: a) = x",
    ],
)
def test_what_is_not_supported_says_so(text: str) -> None:
    with pytest.raises(Error) as e:
        compile_text(text, "test.fut")
    assert e.value.span is not None and type(e.value).__name__ in ("UnsupportedError", "TypeCheckError")


def test_elements_of_varying_size_are_refused() -> None:
    with pytest.raises(Error) as e:
        compile_text("entry main (n: i64) = map (\\i -> iota i) (iota n)", "test.fut")
    assert not isinstance(e.value, UnsupportedError) or e.value.span is not None


@pytest.mark.slow
def test_lowering_is_fast() -> None:
    text = "".join(
        f"def g{i} [n] (xs: [n]f64) (k: f64): [n]f64 =\n"
        f"  let ys = map (\\x -> x * k + {i}) xs\n"
        f"  let s = f64.sum ys\n"
        f"  let zs = map2 (\\a b -> if a > b then a - s else b * s) xs ys\n"
        f"  in loop zs for j < 3 do map (+ f64.i64 j) zs\n\n"
        for i in range(83)
    )
    text += "entry main (xs: []f64) = " + " + ".join(f"f64.sum (g{i} xs {i})" for i in range(83))
    from futad.source import check_text
    from futad.source.lower import lower

    checked = check_text(text, "test.fut")
    assert within(0.6, lambda: lower(checked))
