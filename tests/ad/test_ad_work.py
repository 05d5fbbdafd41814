"""Work of derivatives, by the interpreter's counts after the whole pass pipeline: asserted, not measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from futad.core import ir
from futad.core.builder import Builder
from futad.core.interp import Interpreter, Work
from futad.core.types import F64, I64, Const, array_of, i64, one, zero
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import INTERP, C
from futad.testing.build import common
from futad.testing.programs.core_derived import derived_program
from tests.support.ad_cases import operator, total
from tests.support.ad_cases_all import CASES
from tests.support.ad_support import make, sizes_of

rng = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return rng.normal(size=shape)


def gradient_program(program: ir.Program, sequential: bool = False) -> ir.Program:
    """f and f_vjp, the latter without primal results, through every pass."""
    p = derived_program(program, "f", "vjp")
    f, g = p.funs["f"], p.funs["f_vjp"]
    n = len(f.ret)
    body = ir.Lambda(g.body.params, g.body.stms, g.body.result[n:])
    g = ir.Fun("f_vjp", body, g.num_sizes, g.ret[n:])
    return common(ir.Program({"f": f, "f_vjp": g}), C if sequential else INTERP, check=True)


def work(program: ir.Program, name: str, args: Sequence[Any]) -> dict[str, Work]:
    run = Interpreter(program, count=True)
    run.run(name, list(args))
    return run.counts


def ops(counts: dict[str, Work]) -> int:
    return sum(w.ops for w in counts.values())


def moved(counts: dict[str, Work]) -> int:
    return sum(w.read + w.written for w in counts.values())


class Cost:
    """Scalar operations and elements moved by a function and by its gradient."""

    def __init__(self, program: ir.Program, sequential: bool = False) -> None:
        self.source = program
        self.program = gradient_program(program, sequential)

    def of(self, args: Sequence[Any]) -> tuple[int, int, int, int]:
        """(ops of f, ops of the gradient, elements moved by f, by the gradient)."""
        given = sizes_of(self.source, args) + list(args)
        results = Interpreter(self.program).run("f", given)
        primal = work(self.program, "f", given)
        reverse = work(self.program, "f_vjp", given + [np.ones_like(r) for r in results])
        return ops(primal), ops(reverse), moved(primal), moved(reverse)


def sum_of(q: Builder, n: Any, xs: Any) -> Any:
    return q.emit(ir.Reduce(n, (xs,), operator(q, "add"), (zero(F64),)))[0]


def test_perfect_nest_reexecutes_nothing() -> None:
    """sum_ijk exp(x_ijk w_k): per element mul, exp and add forward; the gradient needs mul and exp once,
    the seed's product, and a product (with an addition for w) for either adjoint."""

    def f(b, s, x, w):
        def row(q, r):
            return sum_of(q, s["k"], q.zip_with(lambda z, u, v: z.op("exp", z.op("mul", u, v)), r, w))

        planes = b.zip_with(lambda q, plane: sum_of(q, s["m"], q.zip_with(row, plane)), x)
        return [sum_of(b, s["n"], planes)]

    n, m, k = 5, 6, 7
    cost = Cost(make(["[n][m][k]f64", "[k]f64"], f))
    primal, reverse, _, _ = cost.of([normal(n, m, k) * 0.1, normal(k)])
    elements = n * m * k
    assert 3 * elements <= primal <= 3 * elements + n * m + n + 10
    assert reverse <= 6 * elements + n * m * 2 + 20


def dot(q: Builder, n: Any, x: Any, y: Any) -> Any:
    return sum_of(q, n, q.zip_with(lambda z, u, v: z.op("mul", u, v), x, y))


def matmul(b, s, x, y):
    cols = b.let(ir.Rearrange(y, (1, 0)))
    return b.map_(lambda q, r: q.map_(lambda z, c: [dot(z, s["m"], r, c)], cols), x)


def matvec(b, s, x, y):
    return b.map_(lambda q, r: [dot(q, s["m"], r, y)], x)


def distances(b, s, x, y):
    """The distance of each row to the nearest of y's rows."""

    def one_row(q, r):
        def to(z, c):
            d = z.zip_with(lambda w, u, v: w.op("sub", u, v), r, c)
            return [dot(z, s["d"], d, d)]

        (all_,) = q.map_(to, y)
        return q.emit(ir.Reduce(s["k"], (all_,), operator(q, "min"), (Const(F64, np.inf),)))

    return b.map_(one_row, x)


def softmax_rows(b, s, x):
    def row(q, r):
        top = q.emit(ir.Reduce(s["m"], (r,), operator(q, "max"), (Const(F64, -np.inf),)))[0]
        e = q.zip_with(lambda z, v: z.op("exp", z.op("sub", v, top)), r)
        return [q.op("log", sum_of(q, s["m"], e))]

    return b.map_(row, x)


def map_of_loop(b, s, x):
    def f(q, v):
        body = q.lambda_([("i", I64), ("y", F64)], lambda z, i, y: [z.op("add", z.op("sin", y), v)])
        return q.emit(ir.For(i64(20), (v,), body))

    return b.map_(f, x)


def loop_of_map(b, s, x, w):
    def iteration(q, i, y):
        return [q.zip_with(lambda z, u, v: z.op("tanh", z.op("mul", u, v)), y, w)]

    return b.emit(ir.For(i64(10), (x,), b.lambda_([("i", I64), ("y", x.type)], iteration)))


def scan_then_map(b, s, x):
    (ys,) = b.emit(ir.Scan(s["n"], (x,), operator(b, "add"), (zero(F64),)))
    return b.map_(lambda q, y: [q.op("exp", y)], ys)


def gathered_sums(b, s, x, ix):
    def one_row(q, r):
        return [sum_of(q, s["m"], q.zip_with(lambda z, i: z.op("sin", z.at(x, i)), r))]

    return b.map_(one_row, ix)


def segment_products(b, s, x):
    return b.map_(lambda q, r: q.emit(ir.Reduce(s["m"], (r,), operator(q, "mul"), (one(F64),))), x)


def interactions(b, s, x, w):
    """sum_j w_j / (1 + (x_i - x_j)^2), for every i."""

    def one_row(q, u):
        def pair(z, v, w):
            d = z.op("sub", u, v)
            return z.op("div", w, z.op("add", Const(F64, 1.0), z.op("mul", d, d)))

        return [sum_of(q, s["n"], q.zip_with(pair, x, w))]

    return b.map_(one_row, x)


def histogram_of_rows(b, s, x, ix):
    """Sums of squares of rows, by group."""
    norms = b.map_(lambda q, r: [dot(q, s["m"], r, r)], x)
    start = b.let(ir.Replicate((i64(5),), zero(F64)))
    return b.emit(ir.Hist(s["n"], (start,), (ix,), tuple(norms), operator(b, "add"), (zero(F64),)))


def largest_of_rows(b, s, x, ix):
    """Of columns, by group."""
    row = array_of(F64, s["m"])
    start = b.let(ir.Replicate((i64(5), s["m"]), Const(F64, -np.inf)))
    lam = b.lambda_([("x", row), ("y", row)], lambda q, x, y: [q.zip_with(lambda z, u, v: z.op("max", u, v), x, y)])
    return b.emit(ir.Hist(s["n"], (start,), (ix,), (x,), lam, (b.let(ir.Replicate((s["m"],), Const(F64, -np.inf))),)))


NESTS: list[tuple[Callable[..., Any], list[str], Callable[[int], list[Any]]]] = [
    (matmul, ["[n][m]f64", "[m][k]f64"], lambda n: [normal(n, 8), normal(8, 9)]),
    (matvec, ["[n][m]f64", "[m]f64"], lambda n: [normal(n, 10), normal(10)]),
    (distances, ["[n][d]f64", "[k][d]f64"], lambda n: [normal(n, 8), normal(6, 8)]),
    (softmax_rows, ["[n][m]f64"], lambda n: [normal(n, 10)]),
    (scan_then_map, ["[n]f64"], lambda n: [normal(n) * 0.1]),
    (gathered_sums, ["[k]f64", "[n][m]i64"], lambda n: [normal(9), rng.integers(0, 9, (n, 7))]),
    (interactions, ["[n]f64", "[n]f64"], lambda n: [normal(n), normal(n)]),
    (histogram_of_rows, ["[n][m]f64", "[n]i64"], lambda n: [normal(n, 10), rng.integers(0, 5, n)]),
    (segment_products, ["[n][m]f64"], lambda n: [normal(n, 10)]),
]


@pytest.mark.parametrize("nest", NESTS, ids=lambda n: n[0].__name__)
def test_nests_cost_at_most_four_times_the_primal(nest: Any) -> None:
    f, params, make_args = nest
    cost = Cost(make(params, f))
    args = make_args(40)
    primal, reverse, moved_p, moved_r = cost.of(args)
    size = sum(np.size(a) for a in args)
    assert reverse <= 4 * primal + 2 * size
    assert moved_r <= 4 * moved_p + 8 * size


def test_bins_of_extrema_of_rows_are_made_once() -> None:
    """Seven operations an element: the largest; whether this is it, and the first place where it is; whether this is
    that place.  A histogram of each column would make the bins again."""
    primal, reverse, _, _ = Cost(make(["[n][m]f64", "[n]i64"], largest_of_rows)).of(
        [normal(40, 10), rng.integers(0, 5, 40)]
    )
    assert reverse <= 7 * primal


SEQUENTIAL: list[tuple[Callable[..., Any], list[str], Callable[[int], list[Any]]]] = [
    (map_of_loop, ["[n]f64"], lambda n: [normal(n)]),
    (loop_of_map, ["[n]f64", "[n]f64"], lambda n: [normal(n), normal(n)]),
]


@pytest.mark.parametrize("nest", SEQUENTIAL, ids=lambda n: n[0].__name__)
def test_sequential_loops_run_twice(nest: Any) -> None:
    """Forward with checkpoints, and again turn by turn: the primal twice and the adjoint's at most 3 more."""
    f, params, make_args = nest
    args = make_args(40)
    primal, reverse, _, _ = Cost(make(params, f)).of(args)
    assert reverse <= 5 * primal + 2 * sum(np.size(a) for a in args)


LOOPS: list[tuple[str, Callable[[int], list[Any]]]] = [
    ("for_updates_array", lambda n: [normal(n)]),
    ("for_updates_in_branches", lambda n: [normal(n), 0.7]),
    ("for_reads_array", lambda n: [normal(n), 0.7]),
    ("for_invariant_array", lambda n: [normal(n), normal(n)]),
    ("for_swaps", lambda n: [normal(n), 0.7, 2]),
]


@pytest.mark.slow
@pytest.mark.parametrize("name, make_args", LOOPS, ids=lambda x: x if isinstance(x, str) else "")
def test_iterations_of_loops_cost_a_constant(name: str, make_args: Callable[[int], list[Any]]) -> None:
    """Ten times the iterations over a ten times larger array: about ten times the work, not a hundred."""
    c = next(c for c in CASES if c.name == name)
    cost = Cost(make(c.params, c.f))
    small, large = cost.of(make_args(40)), cost.of(make_args(400))
    assert large[1] <= 12 * small[1]
    assert large[3] <= 12 * small[3]


@pytest.mark.slow
def test_a_scatter_costs_what_it_writes() -> None:
    """A loop of scatters of 3 elements into a large array: no iteration touches the whole array."""

    def f(b, s, xs, vs, ix):
        def iteration(q, i, xs):
            new = q.zip_with(lambda z, v, j: z.op("mul", v, z.at(xs, j)), vs, ix)
            return q.emit(ir.Scatter(s["k"], (xs,), (ix,), (new,)))

        body = b.lambda_([("i", I64), ("xs", xs.type)], iteration)
        return [total(b, b.emit(ir.For(i64(30), (b.let(ir.Copy(xs)),), body))[0])]

    cost = Cost(make(["[n]f64", "[k]f64", "[k]i64"], f))
    ix = np.array([5, 2, 7])
    small = cost.of([normal(100), normal(3), ix])
    large = cost.of([normal(1000), normal(3), ix])
    assert large[3] - small[3] <= 30 * 900


@pytest.mark.slow
def test_a_general_histogram_sorts_by_bin() -> None:
    """Work O(n) beside one sort, all of it parallel."""

    def f(b, s, d, vs, ix):
        def op(q, x, y):
            return [q.op("add", q.op("add", x, y), q.op("mul", x, y))]

        lam = b.lambda_([("x", F64), ("y", F64)], op)
        return b.emit(ir.Hist(s["k"], (b.let(ir.Copy(d)),), (ix,), (vs,), lam, (zero(F64),)))

    cost = Cost(make(["[n]f64", "[k]f64", "[k]i64"], f))
    n = 1000

    def ops_of(bins: int, n: int = n) -> int:
        return cost.of([normal(bins), normal(n) * 0.1, rng.integers(0, bins, n)])[1]

    one_bin, many = ops_of(1), ops_of(63)
    assert one_bin <= 60 * n and many <= one_bin + 30 * 63
    assert ops_of(63, 10 * n) <= 10.1 * many

    body = cost.program.funs["f_vjp"].body
    assert len(every(body, ir.ArgSort)) == 1 and not every(body, ir.For) and not every(body, ir.While)

    # On one thread it is not sorted: work O(n), however many bins.
    cost = Cost(cost.source, sequential=True)
    assert ops_of(1) <= 25 * n and ops_of(1023) == ops_of(1)


def every(lam: ir.Lambda, kind: type) -> list[ir.Stm]:
    """The statements of a kind in a scope, inner ones too."""
    own = [s for s in lam.stms if isinstance(s.exp, kind)]
    return own + [x for s in lam.stms for inner in s.exp.lambdas() for x in every(inner, kind)]


def iterations_by_digits(body: ir.Lambda) -> int:
    """How many loops there are, each of which iterations as often as a size has binary digits."""
    loops = every(body, ir.For)
    for s in loops:
        (iterations,) = [x.exp for x in body.stms if s.exp.bound in x.pat]  # type: ignore[attr-defined]
        assert isinstance(iterations, ir.Op) and iterations.op == "sub" and iterations.args[0] is i64(64)
    return len(loops)


def scan_of(params: Sequence[str], k: int, op: Any, cls: type = ir.Scan) -> ir.Program:
    """A scan or reduction of k numbers with an operator of 2k, whose neutral elements do not matter."""

    def f(b, s, *xs):
        lam = b.lambda_([("x", xs[0].type.elem)] * (2 * k), op)
        return b.emit(cls(s["n"], xs, lam, (zero(xs[0].type.elem),) * k))

    return make(params, f)


@pytest.mark.slow
def test_a_scan_over_arrays_is_parallel() -> None:
    """Work O(n) in 2 log n steps: five numbers an element, or rows, by a tree of segments."""
    c = next(c for c in CASES if c.name == "reduce_scan_rows_free")
    cost = Cost(make(c.params, c.f))
    assert iterations_by_digits(cost.program.funs["f_vjp"].body) == 2
    small, large = cost.of([normal(50, 2), 0.7]), cost.of([normal(500, 2), 0.7])
    assert large[1] <= 10.5 * small[1] and large[3] <= 10.5 * small[3]


CELLS = {
    # operator on (a, c) and (b, d) -> cells of the 2 x 2 matrices that are computed
    "diagonal": (lambda q, a, c, b, d: [q.op("mul", a, b), q.op("add", q.op("mul", b, c), d)], 2),
    "triangular": (lambda q, a, c, b, d: [q.op("mul", a, b), q.op("add", c, q.op("mul", a, d))], 3),
    "full": (
        lambda q, a, c, b, d: [
            q.op("sub", q.op("mul", a, b), q.op("mul", c, d)),
            q.op("add", q.op("mul", a, d), q.op("mul", c, b)),
        ],
        4,
    ),
}


@pytest.mark.parametrize("kind", CELLS)
def test_matrices_of_scans_have_the_cells_they_need(kind: str) -> None:
    """k x k Jacobians: those that are diagonal or triangular are seen, and no more of them computed or composed."""
    op, cells = CELLS[kind]
    body = gradient_program(scan_of(["[n]f64", "[n]f64"], 2, op)).funs["f_vjp"].body
    widths = [len(f) for s in every(body, ir.Fused) for f in s.exp.scans]  # type: ignore[attr-defined]
    widths += [len(s.exp.neutral) for s in every(body, ir.Scan)]  # type: ignore[attr-defined]
    assert len(widths) == 2 and max(widths) == 2 + cells


# Of vectors x and y of n elements, a scalar: nests of every two constructs of the paper's section 4.
NESTED = {
    "maps in maps in maps": """
        f64.sum (flatten (flatten (map (\\u -> map (\\v -> map (\\w ->
          f64.exp (u * v) * f64.sin (v * w) / (1 + w * w)) x) y) x)))""",
    "reductions in maps": "f64.sum (map (\\u -> f64.tanh (f64.sum (map2 (\\v w -> f64.exp (u * v) * w) x y))) x)",
    "scans in maps": """
        f64.sum (map (\\u -> f64.sum (map2 (\\a b -> f64.exp (-a * b)) (scan (+) 0 (map (* u) x)) y)) x)""",
    "gathers in maps": """
        f64.sum (map (\\i -> f64.sum (map (\\j -> f64.sin (x[(i * j) % n] * y[j])) (iota n))) (iota n))""",
    "branches in maps": """
        f64.sum (flatten (map (\\u ->
          map2 (\\v w -> if u > v then f64.sin (u * v) * w else f64.exp (u - v) + w * w) x y) x))""",
    "loops in maps": """
        f64.sum (map (\\u -> loop z = u for i < 20 do
          let k = f64.sin z - u * z
          let l = f64.sin (z + 0.05 * k) - u * (z + 0.05 * k)
          in z + 0.1 * l) x)""",
    "loops in branches in maps": """
        f64.sum (map (\\u ->
          if u > 0.5 then loop z = u for i < 10 do f64.sin (z * u) + z / (1 + u * u)
          else (loop (z, i) = (u, 0) while i < 8 do (f64.exp (-z * u) * z + u, i + 1)).0) x)""",
    "maps in loops": """
        f64.sum (loop z = x for i < 5 do
          map (\\u -> u + 0.01 * f64.sum (map2 (\\v q -> let d = v - u in q * d / (1 + d * d)) z y)) z)""",
    "loops in loops": """
        let t = replicate (n + 1) (replicate (n + 1) 1)
        let t = loop t for i < n do loop t for j < n do
          let c = (x[i] - y[j]) * (x[i] - y[j])
          in t with [i + 1, j + 1] = c + f64.exp (-t[i, j]) * t[i + 1, j] + 0.5 * t[i, j + 1]
        in t[n, n]""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED)
def test_nested_constructs_cost_at_most_four_times_the_primal(name: str) -> None:
    text = f"""
    def f [n] (x: [n]f64) (y: [n]f64): f64 = {NESTED[name]}
    entry value [n] (x: [n]f64) (y: [n]f64) = f x y
    entry gradient [n] (x: [n]f64) (y: [n]f64) = vjp (\\(x, y) -> f x y) (x, y) 1
    """
    program = compile_program(compile_text(text), check=True)
    names = {f.entry.name: n for n, f in program.funs.items() if f.entry is not None}
    for n in (20, 60):
        args = [n, np.linspace(0.2, 0.9, n), np.linspace(0.4, 0.7, n)]
        primal, reverse = (ops(work(program, names[e], args)) for e in ("value", "gradient"))
        assert reverse <= 4 * primal + 2 * 2 * n


def test_the_adjoint_of_an_extremum_stays_one_element() -> None:
    """The gradient in w of the least of n costs: every cost once, and the derivative of one of them (paper, 5.1.1)."""

    def f(b, s, x, w):
        def cost(q, r):
            d = q.zip_with(lambda z, u, v: z.op("sin", z.op("mul", u, v)), r, w)
            return [dot(q, s["m"], d, d)]

        (costs,) = b.map_(cost, x)
        return b.emit(ir.Reduce(s["n"], (costs,), operator(b, "min"), (Const(F64, np.inf),)))

    p = make(["[n][m]f64", "[m]f64"], f)
    q = derived_program(p, "f", "vjp", [1])
    body = q.funs["f_vjp"].body
    g = ir.Fun("f_vjp", ir.Lambda(body.params, body.stms, body.result[1:]), 2, q.funs["f_vjp"].ret[1:])
    program = compile_program(ir.Program({"f": q.funs["f"], "f_vjp": g}), check=True)
    n, m = 200, 20
    args = [n, m, normal(n, m), normal(m)]
    primal, reverse = work(program, "f", args), work(program, "f_vjp", [*args, 1.0])
    assert ops(reverse) <= ops(primal) + 4 * n + 12 * m
    assert moved(reverse) <= moved(primal) + 8 * n + 20 * m
