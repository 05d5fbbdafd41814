# ruff: noqa: E501 (programs read better unbroken)
"""Transpositions around maps that take rows apart or put them together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.ir import Program
from futad.core.parse import parse_program
from futad.optimise.transpose_elimination import eliminate_transposes
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.testing.build import c_backend, without_accs
from tests.support.optimise_support import heads, passes, same_results

CASES = {
    "apart": "[n] (m: [3][n]f64) (k: i64): ([n]f64, [n]f64) = unzip (map (\\x -> (x[2], x[0])) (transpose m))",
    "together": """[n] (m: [3][n]f64) (k: i64): [3][n]f64 =
      let a = map (+ 1) m[0]
      let b = scan (+) 0 m[1]
      in transpose (map2 (\\x y -> [y, x, y]) a b)""",
    "records": """[n] (m: [3][n]f64) (k: i64): [3][n]f64 =
      let cells = map (\\x -> {p = x[0], q = (x[1], x[2])}) (transpose m)
      let step (c: {p: f64, q: (f64, f64)}) = {p = c.p * c.q.0 + c.q.1, q = (c.q.1, c.p)}
      let done = loop cells for _i < k do map step cells
      in transpose (map (\\c -> [c.q.0, c.p, c.q.1]) done)""",
    "gradient": """[n] (m: [3][n]f64) (k: i64): [3][n]f64 =
      let f (m: [3][n]f64) =
        let cells = unzip3 (map (\\x -> (x[0], x[1], x[2])) (transpose m))
        let (a, b, c) = loop (a, b, c) = cells for _i < k do (map2 (*) b c, map2 (+) a c, map f64.sin a)
        in transpose (map3 (\\a b c -> [c, a, b]) a b c)
      in vjp f m (map (map (* 0.5)) m)""",
    "shapes": """[n] (m: [3][n]f64) (k: i64): [3][2][n]f64 =
      map (\\r -> unflatten (sized (2 * n) (r ++ r))) (map (map (* 2)) m)""",
    "flat": """[n] (m: [3][n]f64) (k: i64): [3][n]f64 =
      let b = map (map (\\x -> [x, x + 1])) m
      in map (\\r -> map2 (+) (take n r :> [n]f64) (drop n r :> [n]f64)) (map flatten b)""",
    "changed": """[n] (m: [3][n]f64) (k: i64): ([n]f64, [n]f64, [3][n]f64) =
      let (a, b) = unzip (map (\\x -> (x[1], x[1])) (transpose m))
      let a = loop a = copy a for i < n do a with [i] = a[n - 1 - i] + f64.i64 k
      in (a, b, m)""",
    "twice": """[n] (m: [3][n]f64) (k: i64): ([3][n]f64, [n][2]f64) =
      let rows = map2 (\\x y -> [x, y]) m[0] m[1]
      let t = transpose rows
      in (map (\\r -> r) [t[0], t[1], t[0]], rows)""",
    "kept": """[n] (m: [3][n]f64) (k: i64): ([n]f64, [n]f64) =
      unzip (map (\\x -> (x[1], f64.sum x)) (transpose m))""",
}
TEXT = "".join(f"entry {name} {text}\n" for name, text in CASES.items())


def run(program: Any, name: str, n: int, k: int) -> list[Any]:
    m = np.random.default_rng(n).standard_normal((3, n))
    return program.run(name, [n, m, k])


@pytest.fixture(scope="module")
def core() -> Program:
    return without_accs(compile_program(compile_text(TEXT, "rows.fut"), check=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_same_results(core: Program, name: str) -> None:
    after = eliminate_transposes(core)
    check_program(after)
    backends = [c_backend(core), c_backend(core, multicore=True, grain=1)]
    for n in (0, 1, 2, 33, 300):
        for k in (0, 1, 4):
            expected = run(Interpreter(core), name, n, k)
            for program in (Interpreter(after), *backends):
                for a, e in zip(run(program, name, n, k), expected, strict=True):
                    assert np.shape(a) == np.shape(e)
                    np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12, err_msg=f"{name} {n} {k}")


@pytest.mark.slow
def test_what_is_left(core: Program) -> None:
    after = eliminate_transposes(core)
    for name in ("apart", "records", "gradient"):
        one = heads(Program({name: after.funs[name]}, "one"))
        before = heads(Program({name: core.funs[name]}, "one"))
        assert one["ArrayLit"] <= 1 and one["At"] >= 1
        assert one["Map"] < before["Map"]


@pytest.mark.slow
def test_arguments_stay_as_they_are() -> None:
    """Loops begin with the rows of the caller's matrix, which they do not overwrite."""
    core = compile_program(compile_text(TEXT, "rows.fut"))
    backend = c_backend(core)
    for name in CASES:
        m = np.random.default_rng(1).standard_normal((3, 50))
        kept = m.copy()
        first = [np.array(x) for x in backend.run(name, [50, m, 3])]
        np.testing.assert_array_equal(m, kept)
        assert not any(np.shares_memory(x, m) for x in backend.run(name, [50, m, 3]))
        for a, b in zip(first, backend.run(name, [50, m, 3]), strict=True):
            np.testing.assert_array_equal(a, b)


def test_nothing_to_do() -> None:
    text = "entry main [n] (m: [n][3]f64): [n]f64 = map (\\x -> x[0] + x[1]) m"
    core = compile_program(compile_text(text, "rows.fut"))
    assert all(f is core.funs[name] for name, f in eliminate_transposes(core).funs.items())


def by_hand(stms: str, result: str, ret: str) -> Program:
    return parse_program(
        "fun main [n_1: i64] (a_2: [3][n_1][n_1]f64, m_3: [n_1][2]f64, xs_4: [n_1]f64, ys_5: [2]f64)"
        f" -> (r_9: {ret}) = {{ {stms} in ({result}) }}"
    )


@pytest.mark.parametrize("order", ["0, 2, 1", "1, 0, 2", "1, 2, 0", "2, 0, 1", "2, 1, 0", "0, 1, 2"])
def test_rows_of_arrays_with_other_dimensions_first(order: str) -> None:
    """Only where the first two dimensions are exchanged are the rows parts of the array."""
    whole = ["3i64", "n_1", "n_1"]
    first, second, third = [whole[int(d)] for d in order.split(", ")]
    sizes = ", ".join([first, second, third])
    text = f"[{first}][{second}][{third}]f64".replace("3i64", "3")
    row = text[text.index("]") + 1 :]
    element = row[row.index("]") + 1 :]
    p = by_hand(
        rf"let t_10: {text} = rearrange(a_2, [{order}])"
        rf" let r_11: [{text[1 : text.index(']')]}]{element} = map({first}, [t_10], \(x_12: {row}) ->"
        rf" {{ let e_13: {element} = x_12[1i64] in (e_13) }})",
        "r_11", f"[{text[1 : text.index(']')]}]{element}",
    )  # fmt: skip
    q = passes(p, eliminate_transposes)
    assert (heads(q)["Map"] == 0) == (order == "1, 0, 2"), sizes
    for n in (2, 3, 4):
        rng = np.random.default_rng(n)
        shapes = (3, n, n), (n, 2), (n,), (2,)
        same_results(p, q, [n, *[rng.standard_normal(s) for s in shapes]])


def test_rows_are_what_the_map_returns() -> None:
    """And not what else its body makes: statements of no use, which passes may leave, are none of it."""
    p = by_hand(
        r"let rows_10: [n_1][2]f64 = map(n_1, [xs_4], \(x_11: f64) ->"
        r" { let lit_12: [2]f64 = arraylit([x_11, x_11], f64) in (ys_5) }) let t_13: [2][n_1]f64 = rearrange(rows_10, [1, 0])",
        "t_13", "[2][n_1]f64",
    )  # fmt: skip
    q = passes(p, eliminate_transposes)
    rng = np.random.default_rng(1)
    for n in (0, 3):
        same_results(p, q, [n, *[rng.standard_normal(s) for s in ((3, n, n), (n, 2), (n,), (2,))]])


def test_sizes_of_two_names() -> None:
    p = by_hand(
        r"let k_9: i64 = add(n_1, 1i64) let l_10: i64 = add(n_1, 1i64)"
        r" let u_11: [k_9]f64 = replicate([k_9], 2.0f64) let v_12: [l_10]f64 = replicate([l_10], 3.0f64)"
        r" let rows_13: [k_9][2]f64 = map(k_9, [u_11, v_12], \(x_14: f64, y_15: f64) ->"
        r" { let lit_16: [2]f64 = arraylit([x_14, y_15], f64) in (lit_16) })"
        r" let t_17: [2][k_9]f64 = rearrange(rows_13, [1, 0]) let s_18: [k_9]f64 = t_17[1i64] let x_19: f64 = s_18[0i64]",
        "x_19", "f64",
    )  # fmt: skip
    q = passes(p, eliminate_transposes)
    assert heads(q)["Map"] == 0
    same_results(p, q, [4, *[np.ones(s) for s in ((3, 4, 4), (4, 2), (4,), (2,))]])
