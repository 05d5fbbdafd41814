"""Additions to neighbouring places as sums of what is computed for each: stencils, and what is not one."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

# Of f [n][n]: what is summed after two steps.
STEPS = {
    "cut off": """tabulate_2d n n (\\i j ->
      let at a b = if a < 0 || a >= n || b < 0 || b >= n then 0 else u[a, b]
      in u[i, j] + k[i, j] * (at (i - 1) j + at (i + 1) j - 3 * at i (j - 1) + 2 * at i (j + 1)))""",
    "own at the border": """tabulate_2d n n (\\i j ->
      let at a b = if a < 0 || a >= n || b < 0 || b >= n then u[i, j] else u[a, b]
      in u[i, j] * k[i, j] + at (i - 2) j * at (i + 1) j)""",
    "inside alone": """tabulate_2d n n (\\i j ->
      if i == 0 || j == 0 || i == n - 1 || j == n - 1 then k[i, j]
      else u[i - 1, j] * u[i + 1, j] + u[i, j - 1] * k[i, j] + u[i, j + 1])""",
    "transposed": """tabulate_2d n n (\\i j ->
      (if j > 0 then u[j - 1, i] else 0) * (if j + 1 < n then u[j + 1, i] else 1))""",
    "rows": """map2 (\\r s -> tabulate n (\\j ->
      s[j] * (if j > 1 then r[j - 2] else 0) + (if j + 1 < n then r[j + 1] ** 2 else r[j]))) u k""",
}
OTHERS = {
    "to one place": "tabulate_2d n n (\\i j -> u[i, j] * k[0, j] + u[0, i])",
    "where data say": "tabulate_2d n n (\\i j -> u[i64.abs (i64.f64 (9 * k[i, j])) % n, j] * u[n - 1 - i, j])",
}


def source(step: str) -> str:
    return f"""
def steps [n] (u: [n][n]f64) (k: [n][n]f64): f64 =
  let step (u: [n][n]f64): [n][n]f64 = {step}
  in f64.sum (map f64.sum (loop u for _i < 2 do step u))
entry value [n] (u: [n][n]f64) (k: [n][n]f64): f64 = steps u k
entry back [n] (u: [n][n]f64) (k: [n][n]f64): ([n][n]f64, [n][n]f64) = vjp (\\(u, k) -> steps u k) (u, k) 1
"""


def fires(text: str) -> int:
    with counting() as counts:
        compile_program(compile_text(text), check=True, target=C)
    return counts["gathers"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*STEPS, *OTHERS])
def test_sums_are_those_of_the_additions(name: str) -> None:
    text = source((STEPS | OTHERS)[name])
    assert (fires(text) > 0) is (name in STEPS)
    expected, *others = (futad.compile(text, backend=b) for b in ("interp", "c", "multicore", "emulated"))
    for n in (1, 2, 3, 5, 37):
        u, k = np.random.default_rng(n).integers(-2, 3, (2, n, n)) / 4
        value, back = expected.value(u, k), expected.back(u, k)
        for made in others:
            np.testing.assert_allclose(made.value(u, k), value, rtol=1e-12)
            for a, b in zip(made.back(u, k), back, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def vector(summed: str) -> str:
    return f"vjp (\\x -> f64.sum (tabulate (n - 1) (\\i -> {summed}))) x 1"


# Of x [n]: whether its adjoint is gathered outside of loops, what is added being computed at each place.
ONCE = {
    "x[i] * f64.sin x[i + 1]": True,
    "100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2": True,
    "(if a[i] > 0 then f64.abs x[i] else a[i] * x[i]) * x[i + 1]": True,
    "(if x[i] > 0 then x[i] * x[i + 1] else x[i + 1])": False,  # data say whether is added
    "f64.sin (x[i] * x[i + 1])": False,  # both additions need a cosine
    "f64.i64 (i / i64.max 1 (i64.f64 x[i])) * x[i] * x[i + 1]": False,  # a division may fail
}


@pytest.mark.parametrize("summed", ONCE)
def test_a_vector_is_gathered_in_loops_or_where_that_is_cheap(summed: str) -> None:
    once = f"entry main [n] (x: [n]f64) (a: [n]f64): [n]f64 = {vector(summed)}"
    assert fires(once) == ONCE[summed]
    made, expected = (futad.compile(once, backend=b) for b in ("c", "interp"))
    for n in (1, 2, 3, 5, 50):
        x = np.linspace(-1, 1, n)
        x[n // 2 :: 3] = 0
        np.testing.assert_allclose(made.main(x, x[::-1]), expected.main(x, x[::-1]), rtol=1e-12, atol=1e-300)
    x[7], x[20] = np.nan, np.inf
    np.testing.assert_allclose(made.main(x, x[::-1]), expected.main(x, x[::-1]), rtol=1e-12, atol=1e-300)
    with pytest.raises(futad.Error, match="negative size"):
        made.main(x[:0], x[:0])


def test_a_vector_is_gathered_in_loops() -> None:
    text = f"entry main [n] (x: [n]f64): [n]f64 = loop x for _i < 3 do {vector('f64.sin (x[i] * x[i + 1])')}"
    assert fires(text) == 1
    x = np.linspace(-1, 1, 50)
    made, expected = (futad.compile(text, backend=b) for b in ("c", "interp"))
    np.testing.assert_allclose(made.main(x), expected.main(x), rtol=1e-12)


def test_iterations_of_a_map_that_moves_no_axis_are_all_added() -> None:
    text = """entry main [n] (x: [n][n]f64) (a: [n]f64): [n][n]f64 =
      vjp (\\x -> f64.sum (map f64.sum (tabulate_2d (n - 2) n (\\i j -> a[j] * x[i + 1, i] * x[i + 2, i])))) x 1"""
    assert fires(text) == 0
    x, a = np.arange(25.0).reshape(5, 5), np.arange(5.0)
    want = np.zeros((5, 5))
    for i in range(3):
        want[i + 1, i] += a.sum() * x[i + 2, i]
        want[i + 2, i] += a.sum() * x[i + 1, i]
    np.testing.assert_allclose(futad.compile(text, backend="c").main(x, a), want)


# Of x [n] in a loop: what is summed, with neighbours around the end.
AROUND = {
    "neighbours": "tabulate n (\\i -> x[i] * x[(i + 1) % n] - f64.sin x[(i + n - 1) % n])",
    "negative": "tabulate n (\\i -> x[i] * x[(i - 1) % n] - f64.sin x[(i - 7) % n])",
    "more than the size": "tabulate n (\\i -> x[(i + 5) % n] * x[i] + x[(i + n + n - 40) % n] ** 3)",
    "itself": "tabulate n (\\i -> x[(i + n) % n] * x[(i + 1) % n])",
    "by comparison": """tabulate n (\\i ->
      let next = if i == n - 1 then 0 else i + 1
      let last = if i == 0 then n - 1 else i - 1
      in x[i] * x[next] - f64.sin x[last])""",
    "by order": """tabulate n (\\i ->
      let next = if i + 1 < n then i + 1 else 0
      let last = if i > 0 then i - 1 else n - 1
      in x[i] * x[next] - f64.sin x[last])""",
    "by reversed order": """tabulate n (\\i ->
      let next = if n - 1 <= i then i + 1 - n else i + 1
      let last = if i < 1 then i - 1 + n else i - 1
      in x[i] * x[next] - f64.sin x[last])""",
    "by unequal": """tabulate n (\\i ->
      let next = if i + 1 != n then i + 1 else 0
      let last = if 0 != i then i - 1 else n - 1
      in x[i] * x[next] - f64.sin x[last])""",
    "in branches": """tabulate n (\\i ->
      (if i > 0 then x[(i + 1) % n] else 0) * x[i] + (if 2 * i < n then 3 * x[(i - 2) % n] else x[(i - 1) % n]))""",
}
CUT_OFF = {
    "clamped": "tabulate n (\\i -> x[i64.max 0 (i64.min (n - 1) (i + 1))] * x[i64.min (n - 1) (i64.max 0 (i - 1))])",
    "one side": "tabulate n (\\i -> x[i64.min (i + 1) (n - 1)] - f64.sin x[i64.max (i - 1) 0] * x[i])",
    "farther": "tabulate n (\\i -> x[i64.min (n - 1) (i + 3)] ** 2 * x[i64.max 0 (i - 2)])",
    "one alone": "tabulate n (\\i -> f64.sin x[i64.min (n - 1) (i + 2)])",
    "more iterations": "(tabulate (n + 3) (\\i -> f64.sin x[i64.min (n - 1) (i + 1)]))[:n]",
}
NOT_CUT_OFF = {
    # Not cheap enough to compute again in a loop.
    "in a branch": "tabulate n (\\i -> if i % 3 == 0 then x[i64.min (n - 1) (i + 1)] ** 2 else x[i64.max 0 (i - 1)])",
    "before the end": "tabulate n (\\i -> f64.sin x[i64.min (n - 1) (i64.max 1 (i - 1))] * x[i64.max 0 (i - 1)])",
    "by less": "tabulate n (\\i -> f64.sin x[i64.max 0 (i64.min (n - 2) (i + 1))] * x[i64.max 0 (i - 1)])",
    "two ends": "tabulate n (\\i -> f64.sin x[i64.max 0 (i64.min (n - 1) (2 * i - 1))] * x[i64.max 0 (i - 1)])",
}
NOT_AROUND = {
    "held at the end": """tabulate n (\\i ->
      let next = if i == n - 1 then i else i + 1
      let last = if i == 0 then 0 else i - 1
      in x[i] * x[next] - f64.sin x[last])""",
    "by less": "tabulate n (\\i -> let m = i64.max 1 (n - 1) in x[i] * x[(i + 1) % m] - f64.sin x[(i + m - 1) % m])",
    "more places": "tabulate (n + 2) (\\i -> x[i % n] * x[(i + 1) % n] - f64.sin x[(i + n - 1) % n])",
    "fewer places": "tabulate (n - n / 3) (\\i -> x[i] * x[(i + 1) % n] - f64.sin x[(i + n - 1) % n])",
    "toward zero": "tabulate n (\\i -> x[i] * x[(i + 1) %% n] - f64.sin x[(i + n - 1) %% n])",
}


def around(body: str) -> str:
    return f"""
def ring [n] (x: [n]f64): f64 =
  f64.sum (loop x for _i < 2 do let y = {body} in map (\\i -> y[i % length y] + 0.5 * x[i]) (iota n))
entry back [n] (x: [n]f64): [n]f64 = vjp ring x 1
entry second [n] (x: [n]f64) (dx: [n]f64): [n]f64 = jvp (\\x -> vjp ring x 1) x dx
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*AROUND, *CUT_OFF, *NOT_AROUND, *NOT_CUT_OFF])
def test_neighbours_around_the_end(name: str) -> None:
    text = around((AROUND | CUT_OFF | NOT_AROUND | NOT_CUT_OFF)[name])
    assert (fires(text) > 0) is (name in AROUND | CUT_OFF)
    expected, *others = (futad.compile(text, backend=b) for b in ("interp", "c", "multicore", "emulated"))
    for n in (0, 1, 2, 3, 5, 67):
        if n == 0 and name in ("more places", "more iterations"):
            continue  # no place is in range
        x, dx = np.random.default_rng(n).integers(-2, 3, (2, n)) / 4
        if n == 5:
            x[3] = np.nan
        back, second = expected.back(x), expected.second(x, dx)
        for made in others:
            np.testing.assert_allclose(made.back(x), back, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(made.second(x, dx), second, rtol=1e-12, atol=1e-12)


# Of x [n][m], places cut off at the ends: whether its adjoint is gathered outside of loops.
OF_TWO_AXES = {
    "f64.sqrt ((at x (i + 1) j - at x i j) ** 2 + at x i (j - 2) ** 2 + 1)": True,
    "if (i + j) % 3 == 0 then at x (i + 1) j ** 2 else f64.sin (at x i (j - 2))": True,
    "if x[i, j] > 0 then at x (i + 1) j ** 2 else at x i (j - 1)": False,  # data say whether is added
}


@pytest.mark.parametrize("element", OF_TWO_AXES)
def test_neighbours_cut_off_at_the_ends_of_two_axes(element: str) -> None:
    text = f"""entry main [n][m] (x: [n][m]f64): [n][m]f64 =
      let at (x: [n][m]f64) i j = x[i64.max 0 (i64.min (n - 1) i), i64.max 0 (i64.min (m - 1) j)]
      let f x = tabulate_2d n m (\\i j -> {element})
      in vjp (\\x -> f64.sum (flatten (f x))) x 1"""
    assert (fires(text) >= 2) is OF_TWO_AXES[element]
    made, expected = (futad.compile(text, backend=b) for b in ("c", "interp"))
    for shape in ((0, 3), (3, 0), (1, 1), (1, 3), (3, 2), (2, 40)):
        x = np.random.default_rng(1).normal(size=shape)
        np.testing.assert_allclose(made.main(x), expected.main(x), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["[n][m]", "[6][5]"])
def test_rows_and_columns_around_the_ends(sizes: str) -> None:
    n, m = ("n", "m") if sizes == "[n][m]" else ("6", "5")
    text = f"""
def torus {"[n][m]" if n == "n" else ""} (x: {sizes}f64): f64 =
  let x = loop x for _i < 2 do tabulate_2d {n} {m} (\\i j ->
    let near = map (\\r -> r * x[i, j])
      [x[(i + 1) % {n}, j], x[(i + {n} - 1) % {n}, j], x[i, (j + 1) % {m}], x[i, (j + {m} - 1) % {m}]]
    in f64.exp (-x[i, j]) + near[0] * near[1] - near[2] * near[3])
  in f64.sum (flatten x)
entry back (x: [][]f64): [][]f64 = vjp torus {"x" if n == "n" else "(x :> [6][5]f64)"} 1
"""
    assert fires(text) >= 2  # rows, columns
    expected, *others = (futad.compile(text, backend=b) for b in ("interp", "c", "multicore", "emulated"))
    for shape in [(0, 3), (3, 0), (1, 1), (1, 2), (2, 1), (2, 2), (3, 40), (6, 5)] if n == "n" else [(6, 5)]:
        x = np.random.default_rng(0).random(shape)
        for made in others:
            np.testing.assert_allclose(made.back(x), expected.back(x), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_additions_in_maps_that_fold() -> None:
    text = """entry back [n][m] (x: [n][m]f64): [n][m]f64 = vjp (\\x ->
      let x = loop x for _i < 2 do tabulate n (\\i ->
        let v = tabulate m (\\j -> f64.exp (x[i, j] - 0.1 * x[(i + 1) % n, j] * x[(i - 1) % n, j]))
        let s = f64.sum v
        in map (/ s) v)
      in f64.sum (map (\\r -> f64.sum (map (** 3) r)) x)) x 1"""
    assert fires(text) > 0
    expected, *others = (futad.compile(text, backend=b) for b in ("interp", "c", "multicore", "emulated"))
    for shape in [(0, 2), (1, 3), (2, 4), (3, 1), (9, 5), (40, 17)]:
        x = np.random.default_rng(0).random(shape)
        for made in others:
            np.testing.assert_allclose(made.back(x), expected.back(x), rtol=1e-12, atol=1e-12)


# Of x [n][m], tables with borders: the element at (i, j), of how many rows and columns.
TABLES = {
    "two sides": ("f64.sin (at x (i - 1) (j - 2)) * k[i % n, j % m]", "n + 2", "m + 4"),
    "one side": ("f64.sin (at x (i - 3) j)", "n + 3", "m"),
    "transposed": ("f64.sin (at x (j - 1) (i - 1))", "m + 2", "n + 2"),
    "several": ("f64.sin (at x (i - 1) (j - 1)) * at x i j", "n + 2", "m + 2"),
    "fewer": ("f64.sin (at x (i - 2) (j + 1))", "i64.max 0 (n - 1)", "m + 1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_tables_with_borders_cut_off_at_the_ends(name: str) -> None:
    element, rows, columns = TABLES[name]
    text = f"""entry main [n][m] (x: [n][m]f64) (k: [n][m]f64): [n][m]f64 =
      let at (x: [n][m]f64) i j = x[i64.max 0 (i64.min (n - 1) i), i64.max 0 (i64.min (m - 1) j)]
      in vjp (\\x -> f64.sum (flatten (tabulate_2d ({rows}) ({columns}) (\\i j -> {element})))) x 1"""
    assert (fires(text) > 0) is (name != "fewer")
    expected, *others = (futad.compile(text, backend=b) for b in ("interp", "c", "multicore", "emulated"))
    for shape in ((1, 1), (1, 2), (2, 1), (3, 2), (2, 3), (40, 37)):
        x, k = np.random.default_rng(shape[0]).normal(size=(2, *shape))
        if shape == (40, 37):
            x[0, 3], x[39, 36] = np.nan, np.inf
        for made in others:
            np.testing.assert_allclose(made.main(x, k), expected.main(x, k), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_a_convolution_of_what_is_held_at_the_ends() -> None:
    text = """entry main [n][m] (x: [n][m]f64) (k: [3][3]f64): [n][m]f64 =
      let at (x: [n][m]f64) i j = x[i64.max 0 (i64.min (n - 1) i), i64.max 0 (i64.min (m - 1) j)]
      in vjp (\\x -> f64.sum (flatten (tabulate_2d n m (\\i j -> let s =
        f64.sum (flatten (tabulate_2d 3 3 (\\p q -> k[p, q] * at x (i + p - 1) (j + q - 1)))) in s * s)))) x 1"""
    assert fires(text) == 1
    expected, made = (futad.compile(text, backend=b) for b in ("interp", "c"))
    for shape in ((0, 0), (0, 3), (3, 0), (1, 1), (2, 3), (5, 40)):
        x, k = np.random.default_rng(1).normal(size=shape), np.random.default_rng(2).normal(size=(3, 3))
        np.testing.assert_allclose(made.main(x, k), expected.main(x, k), rtol=1e-12, atol=1e-12)
