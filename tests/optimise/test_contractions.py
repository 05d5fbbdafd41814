"""Convolutions as programs write them: values and derivatives are the interpreter's, which runs what is written."""

from __future__ import annotations

import functools
from itertools import product
from typing import Any

import numpy as np
import pytest

import futad
from futad import checks
from futad.backend.c import CBackend
from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.core.text import program_text
from futad.core.types import shape_of
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import MULTICORE, C
from tests.support.optimise_support import heads
from tests.support.slow import slow_but

BORDERS = {
    "zero": "if {i} < 0 || {i} >= {n} then 0 else {i}",
    "clamp": "i64.max 0 (i64.min ({n} - 1) ({i}))",
    "wrap": "({i}) % {n}",
}


def convolution(seed: int) -> tuple[str, list[int]]:
    """A random convolution in one or two dimensions, with or without channels, and the shape of its kernel."""
    rng = np.random.default_rng(seed)
    t, border = rng.choice(["f32", "f64"]), rng.choice(list(BORDERS))
    channels, two = bool(rng.integers(2)), bool(rng.integers(2))
    sizes = [int(n) for n in rng.integers(1, 5, 2)]
    dilation, flip, stride = int(rng.integers(1, 3)), bool(rng.integers(2)), int(rng.integers(1, 3))
    known, left_out, given = [bool(rng.integers(2)) for _ in range(3)]
    apart = "d" if given else dilation
    names = ("i", "p", "h", "m"), ("j", "q", "w", "n")
    dims = names if two else names[1:]
    places: list[str] = []
    inside: list[str] = []
    for (i, p, n, m), size in zip(dims, sizes, strict=False):
        moved = f"{stride} * {i}" if i == "i" else i
        place = f"({moved} + {apart} * ({m if not known else size} - 1 - {p}) - 1)" if flip else (
            f"({moved} + {apart} * {p} - 1)"
        )
        inside.append(f"({place} < 0 || {place} >= {n})")
        places.append(place if border == "zero" else BORDERS[border].format(i=place, n=n))
    at = f"x[{'b, ' if channels else ''}{', '.join(places)}]"
    outside = f"if {' || '.join(inside)} then 0 else"
    if border == "zero" and not left_out:
        at = f"({outside} {at})"
    term = f"k[{'a, b, ' if channels else ''}{', '.join(p for _, p, _, _ in dims)}] * {at}"
    if border == "zero" and left_out:
        term = f"({outside} {term})"
    for (_, p, _, m), size in reversed(list(zip(dims, sizes, strict=False))):
        term = f"{t}.sum (tabulate {size if known else m} (\\{p} -> {term}))"
    if channels:
        term = f"{t}.sum (tabulate c (\\b -> {term}))"
    for i, _, n, _ in reversed(dims):
        term = f"tabulate {n} (\\{i} -> {term})"
    if channels:
        term = f"tabulate o (\\a -> {term})"
    shape = [f"[{n}]" for _, _, n, _ in dims]
    window = [f"[{size if known else m}]" for (_, _, _, m), size in zip(dims, sizes, strict=False)]
    k = ("[o][c]" if channels else "") + "".join(window) + t
    x = ("[c]" if channels else "") + "".join(shape) + t
    y = ("[o]" if channels else "") + "".join(shape) + t
    own = ("[o][c]" if channels else "") + "".join(shape) + ("" if known else "".join(f"[{d[3]}]" for d in dims))
    source = f"""
def f {own} (d: i64) (k: {k}) (x: {x}): {y} = {term}
entry main {own} (d: i64) (k: {k}) (x: {x}): {y} = f d k x
entry back {own} (d: i64) (k: {k}) (x: {x}) (s: {y}): ({k}, {x}) = vjp (\\(k, x) -> f d k x) (k, x) s
entry fore {own} (d: i64) (k: {k}) (x: {x}) (dk: {k}) (dx: {x}): {y} = jvp (\\(k, x) -> f d k x) (k, x) (dk, dx)
entry again {own} (d: i64) (k: {k}) (x: {x}) (dk: {k}) (dx: {x}) (s: {y}): ({k}, {x}) =
  jvp (\\(k, x) -> vjp (\\(k, x) -> f d k x) (k, x) s) (k, x) (dk, dx)
"""
    return source, [dilation, 2 if channels else 0, *sizes[: len(dims)]]


def arguments(source: str, shape: list[int], n: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    dtype = np.float32 if "f32" in source else np.float64
    dilation, o, *window = shape
    space = (n, n + 1)[: len(window)]
    lead, c = ((o + 7, o), (o,)) if o else ((), ())
    shapes = [(*lead, *window), (*c, *space), (*lead, *window), (*c, *space), (*lead[:1], *space)]
    return [np.int64(dilation), *[rng.integers(-3, 4, s).astype(dtype) for s in shapes]]


def close(made: Any, expected: Any) -> None:
    tuples = [x if isinstance(x, tuple) else (x,) for x in (made, expected)]
    for a, b in zip(*tuples, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))  # sums of small integers


SEEDS = range(14)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "seed"), slow_but([("c", 0), ("c", 3), ("multicore", 5)], product(["c", "multicore"], SEEDS))
)
def test_random_convolutions(seed: int, backend: str) -> None:
    source, shape = convolution(seed)
    made, expected = futad.compile(source, backend=backend), futad.compile(source, backend="interp")
    for n in (1, 5, 40):
        d, k, x, dk, dx, s = arguments(source, shape, n, seed)
        calls = {"main": (d, k, x), "back": (d, k, x, s), "fore": (d, k, x, dk, dx), "again": (d, k, x, dk, dx, s)}
        for name, args in calls.items():
            if n < 40 or name == "main":
                close(getattr(made, name)(*args), getattr(expected, name)(*args))
        forward, (bk, bx) = made.fore(d, k, x, dk, dx), made.back(d, k, x, s)
        assert (forward * s).sum() == (bk * dk).sum() + (bx * dx).sum()


@pytest.mark.slow
@pytest.mark.parametrize("seeds", slow_but([range(3)], [range(3), SEEDS]), ids=str)
def test_most_of_them_are_contractions(seeds: range) -> None:
    with counting() as counts:
        for seed in seeds:
            compile_program(compile_text(convolution(seed)[0]), target=C, check=True)
    assert counts["contractions"] >= 3 * len(seeds) <= counts["adjoint-contractions"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", slow_but([0], [0, 3]))
def test_devices_run_them_as_written(seed: int) -> None:
    source, shape = convolution(seed)
    args = arguments(source, shape, 5, seed)[:3]
    made, expected = (futad.compile(source, backend=b) for b in ("emulated", "interp"))
    close(made.main(*args), expected.main(*args))


@pytest.mark.slow
@pytest.mark.parametrize("seed", slow_but([4], [1, 4, 6]))
def test_in_range_and_in_order(seed: int) -> None:
    """With all accesses to memory looked at."""
    source, shape = convolution(seed)
    program = compile_program(compile_text(source), target=MULTICORE)
    checked = CBackend(program, MULTICORE, carries=frozenset({checks.MEMORY}))
    d, k, x, _, _, s = arguments(source, shape, 5, seed)
    args = [*[int(n) for n in sizes_of(program.funs["back"], (d, k, x, s))], d, k, x, s]
    close(tuple(checked.run("back", args)), tuple(Interpreter(program).run("back", args)))


def sizes_of(fun: Any, args: tuple[Any, ...]) -> list[int]:
    known: dict[Any, int] = {}
    for p, a in zip(fun.body.params[fun.num_sizes :], args, strict=True):
        known.update(zip(shape_of(p.type), a.shape, strict=True))
    return [known[p] for p in fun.body.params[: fun.num_sizes]]


SHAPES = [(0, 5), (5, 0), (0, 0), (1, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "border"), slow_but([((0, 5), "zero"), ((1, 1), "wrap"), ((5, 0), "clamp")], product(SHAPES, BORDERS))
)
def test_empty_images(border: str, shape: tuple[int, int]) -> None:
    place = BORDERS[border].format(i="(i + p - 1)", n="h"), BORDERS[border].format(i="(j + q - 1)", n="w")
    outside = "i + p < 1 || i + p > h || j + q < 1 || j + q > w"
    at = f"x[{place[0]}, {place[1]}]" if border != "zero" else f"(if {outside} then 0 else x[i + p - 1, j + q - 1])"
    source = f"""entry main [h][w] (k: [3][3]f64) (x: [h][w]f64): [h][w]f64 = tabulate_2d h w (\\i j ->
      f64.sum (flatten (tabulate_2d 3 3 (\\p q -> k[p, q] * {at}))))"""
    k, x = np.arange(9.0).reshape(3, 3), np.ones(shape)
    made, expected = (futad.compile(source, backend=b) for b in ("c", "interp"))
    close(made.main(k, x), expected.main(k, x))
    for a, b in zip(*(futad.vjp(p.main, k, x)[1](np.ones(shape)) for p in (made, expected)), strict=True):
        close(a, b)


@pytest.mark.slow
def test_an_element_out_of_range_fails() -> None:
    source = """entry main [n] (k: [3]f64) (x: [n]f64): []f64 =
      tabulate n (\\i -> f64.sum (tabulate 3 (\\p -> k[p] * x[i + p])))"""
    for backend in ("c", "interp"):
        with pytest.raises(futad.errors.BoundsError, match=r"Index \[5\] out of bounds"):
            futad.compile(source, backend=backend).main(np.ones(3), np.ones(5))


@pytest.mark.slow
def test_not_finite() -> None:
    """An infinite element of the image is in the windows that have it, and in no others."""
    source, _ = convolution(0)
    x = np.ones(64)
    x[20] = np.inf
    source = """entry main [n] (k: [3]f64) (x: [n]f64): [n]f64 = tabulate n (\\i ->
      f64.sum (tabulate 3 (\\p -> k[p] * (if i + p < 1 || i + p > n then 0 else x[i + p - 1]))))"""
    y = futad.compile(source, backend="c").main(np.array([1.0, 2.0, 3.0]), x)
    assert np.isfinite(y).sum() == 61 and (y[19:22] == np.inf).all()


LEFT_OUT = """
def f [o][c][n] (d: i64) (k: [o][c][3]f64) (x: [c][n]f64): [o][n]f64 =
  map (\\f -> tabulate n (\\i -> f64.sum (map2 (\\g r -> f64.sum (map2 (\\a j ->
    let p = i + (1 - j) * d in if p < 0 || p >= n then 0 else a * r[p]) g (iota 3))) f x))) k
entry main [o][c][n] (d: i64) (k: [o][c][3]f64) (x: [c][n]f64): [o][n]f64 = f d k x
entry back [o][c][n] (d: i64) (k: [o][c][3]f64) (x: [c][n]f64) (s: [o][n]f64) = vjp (\\(k, x) -> f d k x) (k, x) s
"""


@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
@pytest.mark.parametrize("d", [0, 1, 7, -3, 1 << 40, 1 << 62])
def test_what_is_out_of_range_has_no_term(d: int, backend: str) -> None:
    """Whatever it would be multiplied by."""
    with counting() as counts:
        made = futad.compile(LEFT_OUT, backend=backend)
        rng = np.random.default_rng(d % 1000)
        for n in (0, 1, 6, 40):
            k, x, s = [rng.integers(-3, 4, shape).astype(float) for shape in ((3, 2, 3), (2, n), (3, n))]
            k[1, 0], s[:, :1] = [np.inf, 1, np.nan], -np.inf
            for name, args in (("main", (np.int64(d), k, x)), ("back", (np.int64(d), k, x, s))):
                close(getattr(made, name)(*args), getattr(interpreted(LEFT_OUT), name)(*args))
    assert counts["contractions"] and counts["adjoint-contractions"]


@pytest.mark.parametrize("d", [2, 0, -1, 1 << 62, -(1 << 62)])
def test_places_that_nothing_leaves_out_are_in_range(d: int) -> None:
    source = LEFT_OUT.replace("p < 0 || p >= n", "p < 0").replace("(1 - j)", "(0 - j)")
    made = futad.compile(source, backend="c")
    x, s = np.arange(80.0).reshape(2, 40), np.ones((3, 40))
    k = np.arange(18.0).reshape(3, 2, 3)
    if d >= 0:
        for name, args in (("main", (k, x)), ("back", (k, x, s))):
            close(*[getattr(p, name)(np.int64(d), *args) for p in (made, interpreted(source))])
    else:
        for call in (made.main, interpreted(source).main):
            with pytest.raises(futad.errors.BoundsError, match="out of bounds"):
                call(np.int64(d), k, x)


@functools.cache
def interpreted(source: str) -> Any:
    return futad.compile(source, backend="interp")


CORE = """
fun main [n_1: i64, m_2: i64] (a_3: [n_1][m_2]f64, b_4: [m_2]f64) -> (r_9: [n_1]f64) = {
  let r_8: [n_1]f64 = contraction([n_1, m_2], 1, a_3, [0i64, 0i64], [1i64, 0i64, 0i64, 1i64], b_4, [%s], [0i64, %s],
    [False, False])
  in (r_8)
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("backwards", [False, True])
def test_the_construct(backwards: bool) -> None:
    text = CORE % (("2i64", "-1i64") if backwards else ("0i64", "1i64"))
    program = parse_program(text)
    check_program(program)
    assert heads(parse_program(program_text(program))) == heads(program) and "contraction(" in program_text(program)
    a, b = np.arange(12.0).reshape(4, 3), np.array([1.0, -2.0, 5.0])
    expected = a @ (b[::-1] if backwards else b)
    args = [np.int64(4), np.int64(3), a, b]
    for run in (Interpreter(program).run, CBackend(compile_program(program, target=C)).run):
        close(run("main", args)[0], expected)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_an_assertion_stays_before_what_it_guards(backend: str) -> None:
    """Also one that nothing beside it needs."""
    source = """
entry guarded [n] (k: [3]f64) (x: [n]f64): [n]f64 =
  tabulate n (\\i -> assert (i + 2 < n) (f64.sum (tabulate 3 (\\p -> k[p] * x[i + p]))))
entry beside [n] (k: [3]f64) (x: [n]f64): [n]f64 =
  tabulate n (\\i -> let s = f64.sum (tabulate 3 (\\p -> k[p] * x[(i + p) % n])) in assert (i < 4) s)"""
    program = futad.compile(source, backend=backend)
    for entry in (program.guarded, program.beside):
        with pytest.raises(futad.errors.AssertionFailed):
            entry(np.ones(3), np.ones(6))
    close(program.beside(np.ones(3), np.ones(4)), np.full(4, 3.0))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_steps_that_skip_many_places(n: int) -> None:
    """A table of all between would be too large, or its size wrap around."""
    source = """entry main [n] (k: [5]f64) (x: [n]f64): [n]f64 =
      tabulate n (\\i -> f64.sum (tabulate 5 (\\p -> k[p] * x[(4611686018427387904 * p + i) % n])))"""
    k, x = np.arange(5.0), np.arange(float(n))
    made, expected = (futad.compile(source, backend=b) for b in ("c", "interp"))
    close(made.main(k, x), expected.main(k, x))


LAGS = """
def f [n][m] (k: [m]f64) (x: [n]f64) (y: [n]f64): [m]f64 =
  tabulate m (\\l -> k[l] * f64.sum (tabulate n (\\t -> x[t] * (if t + l < n then y[t + l] else 0))))
entry back [n][m] (k: [m]f64) (x: [n]f64) (y: [n]f64) (s: [m]f64) = vjp (\\(x, y) -> f k x y) (x, y) s
"""
STRIDED = """
def f [n][m][c] (k: [m]f64) (x: [n][c]f64): [n][c]f64 =
  tabulate_2d n c (\\i j -> f64.sum (tabulate m (\\p -> k[p] * (if 2 * i + p < n then x[2 * i + p, j] else 0))))
entry back [n][m][c] (k: [m]f64) (x: [n][c]f64) (s: [n][c]f64) = vjp (\\x -> f k x) x s
"""


@pytest.mark.slow
@pytest.mark.parametrize(("source", "otherwise"), [(LAGS, "contraction"), (STRIDED, "withacc")])
def test_adjoints_go_through_no_more_than_the_sums(source: str, otherwise: str) -> None:
    """Few lags of a long signal, or a short filter: each place of the signal is not met by all others."""
    program = compile_program(compile_text(source), target=C, stop_after="simplify-ad")
    (choice,) = [s.exp for s in program.funs["back"].body.stms if isinstance(s.exp, ir.If)]
    assert "contraction(" in str(choice.then) and f"{otherwise}(" in str(choice.orelse)
    made, expected = (futad.compile(source, backend=b) for b in ("c", "interp"))
    rng = np.random.default_rng(1)
    for n, m in [(0, 2), (2, 0), (1, 1), (30, 3), (9, 9), (3, 40)]:
        shapes = (m, n, n, m) if source is LAGS else (m, (n, 3), (n, 3))
        args = [rng.integers(-3, 4, shape).astype(float) for shape in shapes]
        close(made.back(*args), expected.back(*args))


@pytest.mark.parametrize(("n", "fires"), [(8, 0), (400, 1)])
def test_few_products_stay_where_they_are(n: int, fires: int) -> None:
    source = f"""entry main (k: [3]f64) (x: [{n}]f64): [{n}]f64 =
      tabulate {n} (\\i -> f64.sum (tabulate 3 (\\p -> k[p] * x[(i + p) % {n}])))"""
    with counting() as counts:
        compile_program(compile_text(source), target=C)
    assert counts["contractions"] == fires
