"""Maps read what earlier ones have computed of the same elements, or compute it again, by a minimum cut."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad import legality
from futad.core import ir
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import INTERP, MULTICORE, C
from tests.support.needs import needs_cxx
from tests.support.slow import slow_but

# What is computed of a row of a matrix and of its neighbour, and whether maps read what was computed: in a loop, and
# outside of loops, where there are no more arrays than before.
ROWS = {
    "softmax": ("let es = map f64.exp x let s = f64.sum es in map (\\a -> f64.exp a / (1 + s)) x", True, False),
    "of a value": ("let c = f64.sum y let es = map (\\a -> f64.sin (a - c)) x"
                   " in map (\\a -> f64.sin (a - c) * es[0]) x", True, True),
    "of two": ("let es = map2 (\\a b -> a ** b) x y in map2 (\\b a -> a ** b + es[0]) y x", True, True),
    "twice": ("let es = map f64.exp x let s = f64.sum es in map (* s) (map2 (+) (map (\\a -> f64.exp a * s) x)"
              " (map (\\a -> f64.exp a + es[0]) x))", True, True),
    "a part": ("let es = map (\\a -> f64.sin a * 2) x in map (\\a -> f64.cos (f64.sin a * 2) + es[0]) x", True, True),
    "cheap": ("let es = map (* 2) x in map (\\a -> a * 2 + es[0]) x", False, False),
    "other elements": ("let es = map f64.exp x in map (\\b -> f64.exp b + es[0]) y", False, False),
    "other value": ("let (c, d) = (f64.sum y, f64.sum x) let es = map (\\a -> f64.sin (a - c)) x"
                    " in map (\\a -> f64.sin (a - d) * es[0]) x", False, False),
    "other order": ("let es = map2 (\\a b -> a ** b) x y in map2 (\\a b -> b ** a + es[0]) x y", False, False),
    "not elements": ("let es = map (\\_ -> f64.exp y[0]) x in map (\\a -> a + f64.exp y[0]) es", False, False),
    "overwritten": ("let es = map f64.exp x let s = f64.sum es let es[0] = s let ys = map (\\a -> 2 * f64.exp a) x"
                    " in map2 (+) es ys", False, False),
}  # fmt: skip


def program(body: str) -> str:
    return f"""
    def row [m] (x: [m]f64) (y: [m]f64): [m]f64 = {body}
    entry f [n][m] (xs: [n][m]f64): [n][m]f64 = map (\\i -> row xs[i] xs[(i + 1) % n]) (iota n)
    entry g [n][m] (xs: [n][m]f64): [n][m]f64 =
      loop xs = xs for i < 2 do map (\\i -> row xs[i] xs[(i + 1) % n]) (iota n)
    entry h [m] (x: [m]f64) (y: [m]f64): [m]f64 = row x y"""


def fires(text: str, target: futad.target.Target = C) -> int:
    with counting() as counts:
        compile_program(compile_text(text), target=target, check=True)
    return counts["element-cut"]


# The exponential for vector lanes need not be that for scalars, so an element is not compared with one of another map.
COMPARED = """
def clamp (e: f64) = f64.min (f64.max (f64.min (f64.max (f64.min e 7) 0.1) 9) 0.2) 8
entry g [m] (x: [m]f64) =
  let es = map (\\a -> clamp (ELEMENT)) x
  let s = f64.sum (scan (+) 0 es)
  in (es, map (\\a -> let e = ELEMENT let r = clamp e in if r == e then r + s else s) x)
"""


def test_what_is_compared_is_not_read_from_another_map() -> None:
    assert fires(COMPARED.replace("ELEMENT", "f64.exp a")) == 0
    assert fires(COMPARED.replace("ELEMENT", "a / 3")) == 1  # the same bits wherever it is computed
    with legality.dropping("element-cut/equal to what is computed again"):
        assert fires(COMPARED.replace("ELEMENT", "f64.exp a")) == 1


@pytest.mark.parametrize("row", ROWS)
def test_where_it_is_done(row: str) -> None:
    body, in_loop, outside = ROWS[row]
    head, f, g, h = program(body).split("entry")
    assert (fires(f"{head} entry {g}") > 0) == in_loop
    assert (fires(f"{head} entry {h}") > 0) == outside
    assert (fires(program(body), MULTICORE) > 0) == (in_loop or outside)
    assert fires(program(body), INTERP) == 0


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("row", slow_but(["softmax", "overwritten"], ROWS))
def test_equal_to_the_interpreter(row: str) -> None:
    text = program(ROWS[row][0])
    plain, made = futad.compile(text, backend="interp"), futad.compile(text, backend="c", check=True)
    for n, m in ((2, 3), (1, 1), (0, 2), (3, 17)):
        xs = np.abs(np.random.default_rng(n + m).normal(size=(n, m)))
        for name, args in (("f", [xs]), ("g", [xs]), ("h", [xs[0], xs[-1]] if n else [])):
            if args:
                np.testing.assert_allclose(getattr(made, name)(*args), getattr(plain, name)(*args), rtol=1e-12)


LOSS = """
def logsumexp [m] (v: [m]f64): f64 =
  let top = f64.maximum v in top + f64.log (f64.sum (map (\\u -> f64.exp (u - top)) v))
entry value [n][m] (xs: [n][m]f64): f64 =
  let logs = loop xs for _i < 2 do map (\\x -> let z = logsumexp x in map (\\u -> u - z) x) xs
  in f64.sum (map (\\x -> x[0]) logs)
entry gradient [n][m] (xs: [n][m]f64): [n][m]f64 = vjp value xs 1"""


@pytest.mark.slow
def test_derivative_of_rows() -> None:
    """Exponentials that a return sweep needs are those of the sums, also where elements tie, are infinite or NaN."""
    assert fires(LOSS, C) > 0
    made, plain = (futad.compile(LOSS, backend=b) for b in ("c", "interp"))
    rows = np.array([[1.0, 2.0, 2.0], [0.0, -np.inf, 1.0], [np.nan, 1.0, 0.0], [700.0, -700.0, 3.0]])
    softmax = np.exp(rows - rows.max(axis=1, keepdims=True))
    softmax /= softmax.sum(axis=1, keepdims=True)
    expected = np.eye(1, 3) - softmax
    np.testing.assert_allclose(made.gradient(rows), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(made.gradient(rows), plain.gradient(rows), rtol=1e-12)
    smooth = np.random.default_rng(1).normal(size=(4, 6))
    direction, step = np.random.default_rng(2).normal(size=(4, 6)), 1e-5
    slope = (made.value(smooth + step * direction) - made.value(smooth - step * direction)) / (2 * step)
    np.testing.assert_allclose((made.gradient(smooth) * direction).sum(), slope, rtol=1e-7)


def leaves(text: str) -> list[tuple[int, int, int]]:
    """Of each map outside of maps: the arrays it reads and the arrays it makes, and how many tanh it computes."""
    fun = compile_program(compile_text(text), target=C, check=True).funs["f"]
    out = []
    for s in fun.body.stms:
        if isinstance(s.exp, ir.Mapping):
            ops = [t.exp.op for t in ir.statements(s.exp.lam.stms) if isinstance(t.exp, ir.Op)]
            out.append((len(s.exp.arrays), len(s.pat), ops.count("tanh")))
    return out


# What a map makes, a barrier that keeps the two from being one, and what the other one needs.
PAIR = """
def row (x: f64): (f64, f64) = let t = f64.tanh (3 * x) in (t, {made})
entry f (xs: [{n}]f64): [{n}]f64 =
  let (_, bs) = unzip (map row xs)
  let s = f64.sum (map (\\b -> f64.sqrt b) (scan (+) 0 bs))
  in map2 (\\x b -> let t = f64.tanh (3 * x) in s * {needed}) xs bs"""


@pytest.mark.parametrize(
    ("n", "made", "needed", "expected"),
    [
        ("100", "t + 1", "(t + b)", (1, 0)),  # known to be small: t is stored, b computed of it
        ("100000000", "t + 1", "(t + b)", (1, 0)),  # t is handed over in place of b
        ("100000000", "t + 1", "x * b", (2, 0)),  # nothing to gain
        ("100", "f64.exp t", "(t * b)", (2, 0)),  # both are stored
        ("100000000", "f64.exp t", "(t * b)", (2, 1)),  # t would be one array more
    ],
)
def test_as_many_arrays_as_before(n: str, made: str, needed: str, expected: tuple[int, int]) -> None:
    """The arrays that the last map reads, and how many tanh it computes."""
    first, *_, last = leaves(PAIR.format(n=n, made=made, needed=needed))
    assert (last[0], last[2]) == expected
    assert first[1] == (3 if n == "100" and "exp" in made else 2)


def test_an_array_that_is_there_is_read_in_place_of_one_that_is_not_needed_then() -> None:
    """The hidden values are factors of a product anyway; what they are made of is not needed after that."""
    text = """
    entry f [n] (w: [n][n]f64) (x: [n][n]f64): [n][n]f64 =
      let mul a b = map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) (transpose b)) a
      let p = mul x w
      let h = map (map (f64.max 0)) p
      let q = mul h w
      in map2 (map2 (\\a b -> if f64.max 0 a == 0 then 0 else b)) p q"""
    program = compile_program(compile_text(text), target=C, check=True)
    body = next(iter(program.funs.values())).body
    first = next(s.pat[0] for s in body.stms if isinstance(s.exp, ir.MatMul))
    assert sum(first in ir.stm_free(s) for s in body.stms) == 1
    x = np.random.default_rng(1).normal(size=(2, 40, 40))
    h = np.maximum(x[1] @ x[0], 0)
    assert np.allclose(futad.compile(text, backend="c").f(*x), np.where(h == 0, 0, h @ x[0]), rtol=1e-13, atol=1e-12)


def test_a_failure_keeps_its_place() -> None:
    """Of a division that is computed in the lambda made anew."""
    text = """
entry f (xs: [100]f64) (ys: [100]i64): f64 =
  let s = i64.f64 (f64.sum (map f64.sqrt (scan (+) 0 (map (\\x -> f64.exp x + 1) xs))))
  in f64.sum (map2 (\\x y -> f64.exp x + f64.i64 (s / y)) xs ys)"""
    assert fires(text) > 0
    xs, ys = np.linspace(0, 1, 100), np.arange(100) - 7
    messages = []
    for backend in ("interp", "c"):
        with pytest.raises(ZeroDivisionError) as found:
            futad.compile(text, backend=backend).f(xs, ys)
        messages.append(str(found.value))
    assert messages[0] == messages[1] and ":4:" in messages[0]
