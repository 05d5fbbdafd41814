"""What maps inside compute of invariant arrays' elements is computed once (`optimise/hoist_elements.py`)."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import INTERP, C
from tests.support.slow import slow_but

NESTS = {
    "a map in a map": ("map (\\x -> f64.sum (map2 (\\s w -> w * x * f64.exp s) ss xs)) xs", 1),
    "two maps out": ("map (\\x -> f64.sum (map (\\y -> f64.sum (map (\\s -> x * y * f64.exp s) ss)) xs)) xs", 1),
    "in a loop": ("map (\\x -> loop a = x for _i < 3 do a + f64.sum (map (\\s -> a * f64.tanh (s * s)) ss)) xs", 1),
    "of an index": ("map (\\x -> f64.sum (map (\\i -> x * f64.sqrt (f64.sin (f64.i64 i))) (iota n))) xs", 1),
    "with an assertion": ("map (\\x -> f64.sum (map (\\s -> assert (x < 9 + s) (x * f64.exp s)) ss)) xs", 1),
    "cheap": ("map (\\x -> f64.sum (map (\\s -> x * (s + 1)) ss)) xs", 0),
    "of the row": ("map (\\x -> f64.sum (map (\\s -> f64.exp (x * s)) ss)) xs", 0),
    "of an array inside": ("map (\\x -> f64.sum (map (\\z -> x * f64.exp z) (scan (+) x ss))) xs", 0),
    "in a branch": ("map (\\x -> if x > 9 then f64.sum (map (\\s -> x * f64.exp s) ss) else x) xs", 1),
    "a branch inside": ("map (\\x -> f64.sum (map (\\s -> if x < s then x * f64.exp s else s) ss)) xs", 1),
    "made before the branch": (
        "map (\\x -> f64.sum (map (\\s -> let d = s * s in if x < s then (if x < d then f64.exp d else d) else 0) ss)) "
        "xs",
        1,
    ),
    "rows in a loop": (
        "let m = [ss, xs] in flatten (loop a = map (map (* 2)) m for _i < 3 do "
        "map2 (map2 (\\s y -> if y > s then y / f64.exp s else s)) m a) |> take n",
        1,
    ),
    "rows and an element of each": (
        "let (m, c) = ([ss, xs], [1, 2]) in loop a = xs for _i < 3 do "
        "map (+ f64.sum (map2 (\\r k -> f64.sum (map2 (\\s x -> x * f64.exp (k * s)) r a)) m c)) a",
        1,
    ),
    "rows made inside": (
        "loop a = xs for _i < 3 do map2 (+) a (map (\\r -> f64.sum (map f64.exp r)) (replicate n a))",
        0,
    ),
    "a quotient in a loop": ("loop a = xs for _i < 3 do map2 (\\s y -> y + 1 / (s + 9)) ss a", 1),
    "a quotient in a map": ("map (\\x -> f64.sum (map (\\s -> x / (1 / (s + 9))) ss)) xs", 0),
    "functions of one": (
        "loop a = xs for _i < 3 do map2 (\\s y -> let q = f64.exp s in (1 - q) * y / (1 + q) + y) ss a",
        1,
    ),
    "the row in a branch": ("map (\\x -> f64.sum (map (\\s -> if x < s then f64.exp (x * s) else s) ss)) xs", 0),
}
TEXT = "entry main [n] (xs: [n]f64) (ss: [n]f64): [n]f64 = {}"


@pytest.mark.parametrize("name", NESTS)
def test_where_it_fires(name):
    body, fires = NESTS[name]
    with counting() as counts:
        compile_program(compile_text(TEXT.format(body)), target=C, check=True)
    assert min(counts["hoist-elements"], 1) == fires


@pytest.mark.slow
@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore", "emulated"]))
def test_all_agree(backend):
    names = [name.replace(" ", "_") for name in NESTS]
    text = "\n".join(TEXT.replace("main", n).format(body) for n, (body, _) in zip(names, NESTS.values(), strict=True))
    expected, program = futad.compile(text, backend="interp"), futad.compile(text, backend=backend)
    for name in names:
        for n in (0, 1, 7):
            xs, ss = np.linspace(0.5, 2, n), np.linspace(-1, 1, n)
            np.testing.assert_allclose(program[name](xs, ss), expected[name](xs, ss), rtol=1e-12, err_msg=name)


def test_one_array_in_place_of_two():
    """What `1 - q` and `1 + q` are made of is kept, not both."""
    text = str(compile_program(compile_text(TEXT.format(NESTS["functions of one"][0])), target=C))
    before, _ = text.split("for(", 1)
    assert before.count("exp(") == 1 and "sub(1.0f64" not in before and "add(1.0f64" not in before


def test_it_is_computed_once():
    """One exponential an element of `ss`, not one a pair."""
    text = str(compile_program(compile_text(TEXT.format(NESTS["a map in a map"][0])), target=C))
    assert text.count("exp(") == 1 and text.index("exp(") < text.index("fused(")
    assert "exp(" in str(compile_program(compile_text(TEXT.format(NESTS["cheap"][0].replace("s + 1", "f64.exp x")))))


@pytest.mark.slow
def test_what_would_fail_stays():
    nest = "map (\\x -> i64.sum (map (\\d -> x * (9 / d + 8 / d + 7 / d)) ds)) xs"
    text = f"entry main [n][m] (xs: [n]i64) (ds: [m]i64) = {nest}"
    empty = futad.compile(text, backend="c").main(np.zeros(0, np.int64), np.zeros(3, np.int64))
    assert empty.shape == (0,)
    with pytest.raises(futad.Error, match="division by zero"):
        futad.compile(text, backend="c").main(np.ones(1, np.int64), np.zeros(3, np.int64))


@pytest.mark.slow
def test_what_a_branch_guards_stays():
    nest = "map (\\x -> i64.sum (map (\\d -> if d != 0 then x * (9 / d + 8 / d + 7 / d) else 0) ds)) xs"
    text = f"entry main [n][m] (xs: [n]i64) (ds: [m]i64) = {nest}"
    got = futad.compile(text, backend="c").main(np.array([1, 2]), np.array([0, 3]))
    np.testing.assert_array_equal(got, [7, 14])


def _term(r: Random, depth: int) -> str:
    if depth == 0:
        return r.choice(["x", "s", "t", "0.5", "c"])
    f = r.choice(["f64.exp (0.1 * A)", "f64.tanh A", "f64.cos A", "A + B", "A * B", "A - B", "f64.max A B"])
    return "(" + f.replace("A", _term(r, depth - 1)).replace("B", _term(r, depth - 1)) + ")"


@pytest.mark.slow
@pytest.mark.parametrize("seed", slow_but(range(3), range(25)))
def test_random_nests(seed):
    """Nests with random terms of the elements: values and gradients as the interpreter's."""
    r = Random(seed)
    inner = f"map2 (\\s t -> {_term(r, 4)}) ss (map (\\s -> {r.choice(['s', 'f64.sin s', 's * c'])}) ss)"
    fold = r.choice(["f64.sum", "f64.maximum", "\\v -> (scan (+) 0 v)[0]"])
    nest = f"map (\\x -> ({fold}) ({inner})) xs"
    if r.random() < 0.4:
        nest = f"(loop xs = xs for _k < 2 do map (\\x -> f64.tanh x) ({nest}))"
    text = f"entry main [n] (xs: [n]f64) (ss: [n]f64) (c: f64): f64 = f64.sum ({nest})"
    n = r.randint(1, 9)
    args = np.linspace(0.1, 1.3, n), np.linspace(-0.7, 0.9, n), 0.3
    expected = futad.compile(text, backend="interp")
    for backend in ("c", "multicore"):
        program = futad.compile(text, backend=backend)
        np.testing.assert_allclose(program.main(*args), expected.main(*args), rtol=1e-11, atol=1e-12)
    found = futad.grad(program.main, argnums=(0, 1))(*args)
    for a, b in zip(found, futad.grad(expected.main, argnums=(0, 1))(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_not_for_the_interpreter():
    with counting() as counts:
        compile_program(compile_text(TEXT.format(NESTS["a map in a map"][0])), target=INTERP)
    assert counts["hoist-elements"] == 0
