"""vjp, jvp, grad and their relatives, by JAX's conventions."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.interp import HANDLERS, Interpreter
from futad.errors import ShapeError, UsageError
from futad.pipeline import compile_program
from futad.testing import GradientError, check_grads, compare_jacobians

SOURCE = """
entry f [n] (w: [n]f64) (x: [n]f64) (k: i64): f64 = f64.sum (map2 (\\a b -> f64.sin (a * b)) w x) * f64.i64 k
entry g [n][m] (a: [n][m]f64) (x: [m]f64): [n]f64 = map (\\r -> f64.sum (map2 (*) r (map (** 2) x))) a
entry h (p: {x: f64, y: f64}) (s: f64): (f64, {u: f64}) = (p.x * p.y * s, {u = p.x + s * s})
entry pos (xs: []f64): []f64 = map (\\x -> x * x) (filter (> 0) xs)
entry own [n] (xs: *[n]f64): [n]f64 = xs with [0] = xs[0] * xs[1]
entry ints (n: i64) (m: i64): i64 = n * n * m
entry f32s [n] (xs: [n]f32): f32 = f32.sum (map (\\x -> x * x * x) xs)
entry pairs [n] (ps: [n](f64, f64)): f64 = f64.sum (map (\\(a, b) -> a * b) ps)
def with_kink (x: f64): f64 = if x > 0.1 then 100 * x else x
entry wrong (x: f64): f64 = with_kink x
"""
W, X = np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.3, -0.7])
COS = 3 * np.cos(W * X)


@pytest.fixture(scope="module", params=["interp", "c"])
def prog(request):
    return futad.compile(SOURCE, "d.fut", backend=request.param)


@pytest.mark.slow
def test_grad(prog):
    df = futad.grad(prog.f)
    assert np.allclose(df(W, X, 3), COS * X, rtol=1e-14)
    dw, dx = futad.grad(prog.f, (0, 1))(W, X, 3)
    assert np.allclose(dw, COS * X, rtol=1e-14) and np.allclose(dx, COS * W, rtol=1e-14)
    assert np.allclose(futad.grad(prog.f, -2)(W, X, 3), dx)
    value, dw2 = futad.value_and_grad(prog.f)(W, X, 3)
    assert np.isclose(value, prog.f(W, X, 3), rtol=1e-15) and np.allclose(dw2, dw, rtol=1e-15)


def test_a_gradient_is_an_entry(prog):
    df = futad.grad(prog.f)
    assert futad.grad(prog.f) is df
    assert df.__name__ == "grad(f)" and list(inspect.signature(df).parameters) == ["w", "x", "k"]
    assert "grad(f) (w: [n]f64) (x: [n]f64) (k: i64): [n]f64" in df.__doc__
    with pytest.raises(ShapeError, match="argument 'x' of grad\\(f\\)"):
        df(W, X[:2], 3)


@pytest.mark.slow
def test_integers_have_adjoints_only_when_named(prog):
    _, pull = futad.vjp(prog.f, W, X, 3)
    assert pull(1.0)[2] is None
    assert futad.grad(prog.f, 2)(W, X, 3).dtype == np.int64
    assert futad.vjp(prog.ints, 3, 5, argnums=0)[1](1) == 30
    assert futad.vjp(prog.ints, 3, 5, argnums=(0, 1))[1](2) == (60, 18)
    with pytest.raises(UsageError, match="no argument of ints holds floating-point numbers"):
        futad.vjp(prog.ints, 3, 5)


def test_grad_needs_one_float_result(prog):
    with pytest.raises(UsageError, match=r"grad needs .* one floating-point number as result; g returns \[n\]f64") as e:
        futad.grad(prog.g)
    assert "jacrev" in e.value.hint
    with pytest.raises(UsageError, match="ints returns i64"):
        futad.grad(prog.ints)


@pytest.mark.parametrize(
    "argnums, message",
    [
        (3, "argnums 3 is out of range: f has 3 arguments"),
        ((0, -3), "names an argument twice"),
        ((), "argnums is empty"),
        ("w", "must be an int or a sequence of ints"),
        ((0.5,), "must be an int or a sequence of ints"),
    ],
)
def test_wrong_argnums(prog, argnums, message):
    with pytest.raises(UsageError, match=message):
        futad.grad(prog.f, argnums)


def test_argnums_in_another_order():
    """What belongs to an argument comes at its place in argnums."""
    f = futad.compile("entry f [n] (a: [n]f64) (b: f64): f64 = f64.sum a * b", backend="interp").f
    a, b = np.array([1.0, 2.0]), 3.0
    for made in (
        futad.grad(f, (1, 0))(a, b), futad.value_and_grad(f, (1, 0))(a, b)[1], futad.jacfwd(f, (1, 0))(a, b),
        futad.jacrev(f, (1, 0))(a, b), futad.vjp(f, a, b, argnums=(1, 0))[1](1.0),
    ):  # fmt: skip
        assert made[0] == 3 and made[1].tolist() == [3, 3]


def test_argnums_may_be_numpys(prog):
    assert futad.grad(prog.f, np.int64(0)) is futad.grad(prog.f, 0)


def test_only_entries_are_differentiated():
    with pytest.raises(UsageError, match="grad takes an entry of a program, not function"):
        futad.grad(lambda x: x)


@pytest.mark.slow
def test_vjp_and_jvp(prog):
    a = np.arange(6.0).reshape(2, 3)
    y, pull = futad.vjp(prog.g, a, X)
    assert np.allclose(y, a @ X**2)
    da, dx = pull([1.0, -1.0])
    assert np.allclose(da, np.outer([1, -1], X**2)) and np.allclose(dx, 2 * X * (a[0] - a[1]))
    y2, dy = futad.jvp(prog.g, (a, X), (None, np.ones(3)))
    assert np.allclose(y2, y) and np.allclose(dy, a @ (2 * X))
    y2, dy = futad.jvp(prog.g, (a, X), (None, None))
    assert np.allclose(y2, y) and (dy == 0).all()


def test_vjp_remembers_its_arguments(prog):
    x = X.copy()
    _, pull = futad.vjp(prog.g, np.eye(3), x)
    before = pull(np.ones(3))[1]
    x[:] = 100
    assert (pull(np.ones(3))[1] == before).all()


def test_cotangents_and_tangents_are_checked(prog):
    _, pull = futad.vjp(prog.g, np.eye(3), X)
    with pytest.raises(ShapeError, match=r"cotangent: expected shape \(3,\), got \(2,\)"):
        pull(np.ones(2))
    with pytest.raises(futad.Error, match="argument 'cotangent'.*int64"):
        pull(np.ones(3, np.int64))
    with pytest.raises(ShapeError, match="x_tangent"):
        futad.jvp(prog.g, (np.eye(3), X), (None, np.ones(4)))
    with pytest.raises(UsageError, match="g has 2 arguments, but tangents has 1 entries"):
        futad.jvp(prog.g, (np.eye(3), X), (X,))
    with pytest.raises(UsageError, match="args must be a tuple"):
        futad.jvp(prog.g, X, (X,))


class Bag:
    """A record as an object with attributes."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


UNSIZED = """
entry bag (xs: []f64): {a: f64, u: []f64} = {a = f64.sum xs, u = map (* 3) (filter (> 0.5) xs)}
entry rows (xs: []f64): [](f64, i32) = filter (\\(x, _) -> x > 0.5) (zip xs (map i32.i64 (indices xs)))
entry some [n] (r: {a: f64, b: [n]f64}) (ps: [](f64, i32)): f64 =
  r.a * f64.sum r.b + f64.sum (map (\\(x, k) -> x * f64.i32 k) ps)
"""


@pytest.mark.slow
def test_cotangents_of_results_of_unknown_size():
    """Whatever form they have, they are compared with the value: nothing is read past their end."""
    p = futad.compile(UNSIZED, backend="c")
    x = np.arange(4.0)
    for u in (np.ones(2), [1.0], [], np.zeros(0), np.ones(4)):
        with pytest.raises(ShapeError, match=r"cotangent.u: expected shape \(3,\), got"):
            futad.vjp(p.bag, x)[1]({"a": 1.0, "u": u})
        with pytest.raises(futad.Error, match=f"the cotangent has {len(u)} elements where the value has 3"):
            futad.vjp(p.bag, x)[1](Bag(a=1.0, u=u))
    with pytest.raises(ShapeError):
        futad.vjp(p.rows, x)[1](([], [1, 1, 1]))
    with pytest.raises(futad.Error, match="the cotangent has 1 elements where the value has 3"):
        futad.vjp(p.rows, x)[1]([(1.0, 0)])
    assert futad.vjp(p.bag, x)[1](Bag(a=1.0, u=[1.0, 1.0, 2.0]))[0].tolist() == [1, 4, 4, 7]
    assert futad.vjp(p.rows, x)[1]([(1.0, 0), (2.0, 0), (3.0, 0)])[0].tolist() == [0, 1, 2, 3]
    empty = np.zeros(0)
    assert futad.vjp(p.bag, empty)[1]({"a": 1.0, "u": []})[0].shape == (0,)


def test_none_stands_for_zeros_of_the_types_own_kind():
    """Also beside lists of Python ints, in records that are objects, and in arrays of tuples."""
    p = futad.compile(UNSIZED, backend="interp")
    pairs = ([1, 2], [3, 4])
    for r in ({"a": 2, "b": [1, 2]}, Bag(a=2, b=[1, 2])):
        assert futad.jvp(p.some, (r, pairs), ({"a": 1, "b": None}, None)) == (17, 3)
        assert futad.jvp(p.some, (r, pairs), ({"a": None, "b": [1, 1]}, ([1, 1], None))) == (17, 11)
        assert futad.jvp(p.some, (r, [(1, 3), (2, 4)]), ({"b": [1, 1]}, None)) == (17, 4)
        assert futad.jvp(p.some, (r, pairs), (None, None)) == (17, 0)
    _, pull = futad.vjp(p.rows, np.arange(4.0))
    assert pull(([1.0, 2.0, 3.0], None))[0].tolist() == [0, 1, 2, 3] and not pull(None)[0].any()


@pytest.mark.slow
def test_structures(prog):
    y, pull = futad.vjp(prog.h, {"x": 2.0, "y": 3.0}, 4.0)
    assert y[0] == 24 and y[1].u == 18
    dp, ds = pull((1.0, None))
    assert (dp.x, dp.y, ds) == (12, 8, 6)
    dp, ds = pull((None, {"u": 1.0}))
    assert (dp.x, dp.y, ds) == (1, 0, 8)
    _, dy = futad.jvp(prog.h, ({"x": 2.0, "y": 3.0}, 4.0), ({"x": 1.0}, None))
    assert dy[0] == 12 and dy[1].u == 1
    with pytest.raises(ShapeError, match="cotangent: expected a tuple of 2, got 1"):
        pull((1.0,))
    with pytest.raises(futad.Error, match=r"cotangent.1: there is no field 'v'; the fields are u"):
        pull((1.0, {"v": 1.0}))


def test_arrays_of_records_with_arrays():
    p = futad.compile(
        "type r = {a: f64, b: [2](f64, [3]i64)}\n"
        "entry mk (n: i64): [n]r = tabulate n (\\i -> {a = f64.i64 i, b = replicate 2 (1.5, replicate 3 i)})\n"
        "entry total [n] (rs: [n]r): f64 = f64.sum (map (\\r -> r.a * f64.sum (map (.0) r.b)) rs)\n",
        backend="interp",
    )
    rs = p.mk(3)
    assert rs.b[1].shape == (3, 2, 3)
    assert p.total(rs) == 9 == p.total([{"a": 3.0, "b": [(1.0, [1, 2, 3]), (2.0, [4, 5, 6])]}])
    assert futad.grad(p.total)(rs).b[0].tolist() == [[0, 0], [1, 1], [2, 2]]
    _, dy = futad.jvp(p.total, (rs,), ({"a": np.ones(3), "b": None},))
    assert dy == 9


@pytest.mark.slow
def test_arrays_of_tuples(prog):
    ps = (np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    da, db = futad.grad(prog.pairs)(ps)
    assert da.tolist() == [3, 4] and db.tolist() == [1, 2]
    _, pull = futad.vjp(prog.pairs, [(1.0, 3.0), (2.0, 4.0)])
    assert pull(1.0)[0][0].tolist() == [3, 4]


@pytest.mark.slow
def test_results_of_unknown_size(prog):
    xs = np.array([1.0, -2.0, 3.0])
    y, pull = futad.vjp(prog.pos, xs)
    assert y.tolist() == [1, 9] and pull([1.0, 1.0])[0].tolist() == [2, 0, 6]
    with pytest.raises(ShapeError):
        pull(np.ones(3))
    assert futad.jvp(prog.pos, (xs,), (np.ones(3),))[1].tolist() == [2, 6]
    assert futad.jacfwd(prog.pos)(xs).tolist() == [[2, 0, 0], [0, 0, 6]]
    assert futad.jacrev(prog.pos)(xs).tolist() == [[2, 0, 0], [0, 0, 6]]


@pytest.mark.slow
def test_consuming_entries(prog):
    xs = np.array([2.0, 3.0])
    for jacobian in (futad.jacfwd(prog.own), futad.jacrev(prog.own)):
        assert jacobian(xs).tolist() == [[3, 2], [0, 1]]
    assert xs.tolist() == [2, 3]
    _, pull = futad.vjp(prog.own, xs)
    assert pull([1.0, 1.0])[0].tolist() == [3, 3] and xs.tolist() == [2, 3]


@pytest.mark.slow
def test_jacobians(prog):
    a = np.arange(6.0).reshape(2, 3)
    for jac in (futad.jacfwd, futad.jacrev):
        assert np.allclose(jac(prog.g, 1)(a, X), a * 2 * X)
        da, dx = jac(prog.g, (0, 1))(a, X)
        want = np.zeros((2, 2, 3))
        want[0, 0] = want[1, 1] = X**2
        assert np.allclose(da, want) and np.allclose(dx, a * 2 * X)
        first, second = jac(prog.h)({"x": 2.0, "y": 3.0}, 4.0)
        assert (first.x, first.y, second.u.x, second.u.y) == (12, 8, 1, 0)
    assert futad.jacfwd(prog.g)(np.zeros((0, 3)), X).shape == (0, 0, 3)


@pytest.mark.slow
def test_second_derivatives(prog):
    want = np.diag(-3 * np.sin(W * X) * X * X)
    assert np.allclose(futad.hessian(prog.f)(W, X, 3), want)
    assert np.allclose(futad.jacrev(futad.grad(prog.f))(W, X, 3), want)
    v = np.array([1.0, 2.0, -1.0])
    product = futad.hvp(prog.f, (W, X, 3), (v, None, None))
    assert np.allclose(product[0], want @ v) and product[1:] == (None, None)
    (ww, wx), (xw, xx) = futad.hessian(prog.f, (0, 1))(W, X, 3)
    cross = np.diag(3 * (np.cos(W * X) - W * X * np.sin(W * X)))
    assert np.allclose(ww, want) and np.allclose(wx, cross) and np.allclose(xw, cross.T)
    assert np.allclose(xx, np.diag(-3 * np.sin(W * X) * W * W))


@pytest.mark.slow
def test_third_derivatives(prog):
    third = futad.jacfwd(futad.hessian(prog.f))(W, X, 3)
    want = np.zeros((3, 3, 3))
    want[range(3), range(3), range(3)] = -3 * np.cos(W * X) * X**3
    assert np.allclose(third, want)


@pytest.mark.parametrize("jacobian", [futad.jacfwd, futad.jacrev])
def test_jacobians_run_the_primal_once_for_many_directions(jacobian):
    """Two executions of the primal (forward, and again in the return sweep) for every block of 64 directions."""
    text = "entry f [n] (xs: [n]f64): [n]f64 = map (\\x -> loop y = x for i < 5 do f64.sin y) xs"
    f = futad.compile(text, backend="interp").f
    program = compile_program(jacobian(f).executable.core)
    sines = [0]
    evaluate = HANDLERS[ir.Op]

    def counted(m, e, stm, sc):
        out = evaluate(m, e, stm, sc)
        sines[0] += np.size(out[0]) if e.op == "sin" else 0
        return out

    (name,) = program.funs
    HANDLERS[ir.Op] = counted
    try:
        for n in (3, 40, 130):
            sines[0] = 0
            (got,) = Interpreter(program).run(name, [n, np.linspace(0, 1, n)])
            blocks = -(-n // 64)
            assert got.shape == (n, n) and 5 * n <= sines[0] <= 2 * 5 * n * blocks
    finally:
        HANDLERS[ir.Op] = evaluate


@pytest.mark.slow
def test_jacobians_of_more_directions_than_a_block():
    text = "entry f [n][m] (a: f64) (xs: [n][m]f64): ([n]f64, f64) = (map (\\r -> a * f64.product r) xs, a)"
    f = futad.compile(text, backend="interp").f
    xs = np.random.default_rng(1).normal(size=(70, 2))
    for jacobian in (futad.jacfwd, futad.jacrev):
        (ya, yx), (aa, ax) = jacobian(f, (0, 1))(3.0, xs)
        want = np.zeros((70, 70, 2))
        want[range(70), range(70)] = 3 * xs[:, ::-1]
        assert np.allclose(yx, want) and np.allclose(ya, xs[:, 0] * xs[:, 1])
        assert aa == 1 and not ax.any() and ax.shape == (70, 2)


@pytest.mark.slow
def test_single_precision_stays_so(prog):
    xs = np.array([1.0, 2.0], np.float32)
    d = futad.grad(prog.f32s)(xs)
    assert d.dtype == np.float32 and d.tolist() == [3, 12]
    assert futad.hessian(prog.f32s)(xs).dtype == np.float32


@pytest.mark.slow
def test_check_grads_passes_where_derivatives_are_right(prog):
    check_grads(prog.f, W, X, 3, order=2)
    check_grads(prog.g, np.arange(6.0).reshape(2, 3), X, order=1)
    check_grads(prog.h, {"x": 2.0, "y": 3.0}, 4.0, order=2, modes=("rev",))
    check_grads(prog.f32s, np.array([1.0, 2.0], np.float32), order=1)
    check_grads(prog.own, np.array([2.0, 3.0]), order=1)


def test_check_grads_fails_at_a_kink(prog):
    with pytest.raises(GradientError, match="wrong: jvp of result is .*, central differences give"):
        check_grads(prog.wrong, 0.1, order=1)
    with pytest.raises(UsageError, match="modes are"):
        check_grads(prog.f, W, X, 3, modes=("backward",))


@pytest.mark.slow
def test_compare_jacobians_names_the_worst(prog):
    report = compare_jacobians(prog.wrong, [np.float64(0.1)])
    assert [f.what for f in report.failures] == ["forward against differences", "reverse against differences"]
    assert "d result / d x: forward against differences: 1 against" in str(report.failures[0])
    fine = compare_jacobians(prog.f, [W, X, np.int64(3)], limit=4)
    assert not fine.failures and fine.compared == 12 and fine.skipped == 2


@pytest.mark.parametrize("wrong", [{"order": 0}, {"order": -1}, {"order": 1.5}, {"order": True}, {"rtol": -1.0},
                                   {"rtol": 0}, {"rtol": "a"}, {"modes": ()}, {"modes": ("fwd", "back")}])  # fmt: skip
def test_a_check_that_checks_nothing_is_refused(prog, wrong):
    with pytest.raises(UsageError):
        check_grads(prog.f, W, X, 3, **wrong)


def test_all_directions_at_once_need_no_map_of_blocks():
    """Where the number of directions is known and small; the values are the same either way."""
    text = "entry f [n] (x: [n]f64): [n]f64 = map2 (\\a b -> a * a * b) x (reverse x)\n"
    known = "entry g (x: [5]f64) (y: [2]f64): [5]f64 = map2 (\\a b -> a * a * b + y[1]) x (reverse x)\n"
    program = futad.compile(text + known, backend="interp")
    x, y = np.arange(1.0, 6), np.array([3.0, 4.0])
    for kind in ("jacfwd", "jacrev"):
        open_, shut = program.f.derivative(kind), program.g.derivative(kind, (0, 1))
        assert "blocks" in str(open_.executable.core)
        assert "blocks" not in str(shut.executable.core)
        by_x, by_y = shut(x, y)
        np.testing.assert_array_equal(by_x, open_(x)[0])
        np.testing.assert_array_equal(by_y, np.tile([0.0, 1.0], (5, 1)))
