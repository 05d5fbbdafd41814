"""Many directions, and batches: `jmp`, `mjp`, `vmap`; `hvp` of some arguments."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import futad
from futad.api.program import Program
from futad.errors import ShapeError, UsageError

SOURCE = """
entry field [n] (w: {a: [n]f64, b: f64}) (x: [n]f64) (k: i64): ([n]f64, f64) =
  let y = map2 (\\a x -> f64.sin (a * x) + w.b * x ** f64.i64 k) w.a x
  in (y, f64.sum y * w.b)
entry loss [n] (w: {a: [n]f64, b: f64}) (x: [n]f64) (k: i64): f64 =
  f64.sum (map2 (\\a x -> f64.sin (a * x) + w.b * w.b * x ** f64.i64 k) w.a x)
entry positive (xs: []f64): []f64 = map (** 2) (filter (> 0) xs)
entry grow (x: f64): f64 = loop y = x while y < 100 do y * 2 + 1
entry outer [n][m] (x: [n]f64) (y: [m]f64): [n][m]f64 = map (\\a -> map (* a) y) x
entry copies (k: i64) (x: f64): [k]f64 = replicate k x
entry set [n] (xs: *[n]f64) (i: i64) (x: f64): [n]f64 = xs with [i] = x
entry second (xs: []f64): f64 = xs[1]
entry longer [n] (xs: [n]f64) (k: i64): [n + k]f64 = concat xs (replicate k (f64.sum xs))
entry inner [n] (xs: [n]f64): [2 * n][n - 1]f64 = replicate (2 * n) (map (** 2) (tail xs))
entry parts [n][m] (a: [n][m]f64) (c: f64): ([m][n]f64, f64, {r: [n]f64}) =
  (transpose a, c * a[0, 0], {r = map f64.sum a})
"""
X = np.array([0.5, -1.0, 2.0])
W = {"a": np.array([1.0, 2.0, -1.0]), "b": 0.25}


@pytest.fixture(scope="module", params=["interp", "c"])
def prog(request: pytest.FixtureRequest) -> Program:
    return futad.compile(SOURCE, backend=request.param)


@pytest.mark.slow
def test_many_directions_are_directions_one_by_one(prog: Program) -> None:
    rng = np.random.default_rng(1)
    along = {"a": rng.normal(size=(4, 3)), "b": rng.normal(size=4)}
    value, many = futad.jmp(prog.field, (W, X, 2), (along, None, None))
    for i in range(4):
        one = futad.jvp(prog.field, (W, X, 2), ({"a": along["a"][i], "b": along["b"][i]}, None, None))
        np.testing.assert_allclose(many[0][i], one[1][0], rtol=1e-14)
        np.testing.assert_allclose(many[1][i], one[1][1], rtol=1e-14)
        np.testing.assert_array_equal(value[0], one[0][0])
    # <ybar, J v> = <J^T ybar, v>
    value, pull = futad.mjp(prog.field, W, X, 2)
    bars = rng.normal(size=(5, 3)), rng.normal(size=5)
    adjoints = pull(bars)
    assert adjoints[2] is None and adjoints[0].a.shape == (5, 3) and adjoints[1].shape == (5, 3)
    forward = bars[0] @ many[0].T + np.outer(bars[1], many[1])
    backward = adjoints[0].a @ along["a"].T + np.outer(adjoints[0].b, along["b"])
    np.testing.assert_allclose(forward, backward, rtol=1e-12)


@pytest.mark.slow
def test_parts_that_are_none_are_zero(prog: Program) -> None:
    _, (dy, dz) = futad.jmp(prog.field, (W, X, 2), ({"a": None, "b": np.ones(2)}, None, None))
    assert dy.tolist() == [(X**2).tolist()] * 2 and dz.shape == (2,)
    _, pull = futad.mjp(prog.field, W, X, 2, argnums=1)
    only = pull((None, np.array([1.0, 0.0])))
    assert only.shape == (2, 3) and not only[1].any() and only[0].any()
    assert pull((np.zeros((0, 3)), None)).shape == (0, 3)


@pytest.mark.slow
def test_results_of_unknown_size(prog: Program) -> None:
    xs = np.array([1.0, -2.0, 3.0])
    value, pull = futad.mjp(prog.positive, xs)
    assert value.tolist() == [1, 9]
    assert pull(np.eye(2))[0].tolist() == [[2, 0, 0], [0, 0, 6]]
    assert futad.jmp(prog.positive, (xs,), (np.eye(3),))[1].tolist() == [[2, 0], [0, 0], [0, 6]]


def test_wrong_directions(prog: Program) -> None:
    with pytest.raises(UsageError, match="jmp: all tangents are None"):
        futad.jmp(prog.second, (X,), (None,))
    with pytest.raises(UsageError, match="mjp: all cotangents are None"):
        futad.mjp(prog.second, X)[1](None)
    with pytest.raises(UsageError, match="cotangents have one more dimension"):
        futad.mjp(prog.second, X)[1](1.0)
    with pytest.raises(ShapeError, match="tangents"):
        futad.jmp(prog.second, (X,), (np.ones((2, 4)),))


@pytest.mark.slow
def test_hvp_of_some_arguments(prog: Program) -> None:
    v = {"a": np.array([1.0, 0.0, 2.0]), "b": -1.0}
    whole = futad.hvp(prog.loss, (W, X, 2), (v, None, 5))
    assert whole[1] is None and whole[2] is None
    one = futad.hvp(prog.loss, (W, X, 2), v, argnums=0)
    assert str(one) == str(whole[0])
    both = futad.hvp(prog.loss, (W, X, 2), (None, v), argnums=(1, 0))
    assert both[0].shape == (3,) and both[1].b == one.b
    np.testing.assert_array_equal(both[1].a, one.a)
    h = 1e-5
    moved = [{"a": W["a"] + s * v["a"], "b": W["b"] + s * v["b"]} for s in (h, -h)]
    up, down = [futad.grad(prog.loss, 1)(w, X, 2) for w in moved]
    np.testing.assert_allclose(both[0], (up - down) / (2 * h), rtol=1e-8)
    with pytest.raises(UsageError, match="argnums names 2 arguments, but tangents has 1"):
        futad.hvp(prog.loss, (W, X, 2), (v,), argnums=(0, 1))


@pytest.mark.slow
def test_a_batch_is_calls_one_by_one(prog: Program) -> None:
    starts = np.array([1.0, 5.0, 200.0, 99.0])
    assert futad.vmap(prog.grow)(starts).tolist() == [prog.grow(x) for x in starts]
    slopes = futad.vmap(futad.grad(prog.grow))(starts)
    assert slopes.tolist() == [futad.grad(prog.grow)(x) for x in starts]
    many = {"a": np.stack([W["a"], X]), "b": np.array([0.25, 1.0])}
    y, z = futad.vmap(prog.field, (0, None, None))(many, X, 3)
    for i in range(2):
        expected = prog.field({"a": many["a"][i], "b": many["b"][i]}, X, 3)
        np.testing.assert_allclose(y[i], expected[0], rtol=1e-15)
        np.testing.assert_allclose(z[i], expected[1], rtol=1e-15)


@pytest.mark.slow
def test_batches_along_other_dimensions_nest_and_differentiate(prog: Program) -> None:
    x, y = np.arange(6.0).reshape(3, 2), np.arange(4.0)
    batched = futad.vmap(prog.outer, (1, None))
    np.testing.assert_array_equal(batched(x, y), x.T[:, :, None] * y)
    twice = futad.vmap(batched, (None, 0))
    np.testing.assert_array_equal(twice(x, np.stack([y, y + 1]))[1], x.T[:, :, None] * (y + 1))
    _, pull = futad.vjp(batched, x, y)
    np.testing.assert_allclose(pull(np.ones((2, 3, 4)))[1], np.full(4, x.sum()))
    assert batched.shapes((3, 5), (4,)).shape == (5, 3, 4)
    assert batched(np.zeros((3, 0)), y).shape == (0, 3, 4)


def test_consumed_arguments_of_a_batch(prog: Program) -> None:
    xs = np.zeros(3)
    many = futad.vmap(prog.set, (None, 0, 0))(xs, np.array([0, 2]), np.array([1.0, 2.0]))
    assert many.tolist() == [[1, 0, 0], [0, 0, 2]] and not xs.any()


@pytest.mark.slow
def test_what_has_no_batch(prog: Program) -> None:
    with pytest.raises(UsageError, match="the results of copies may differ in shape from one to the next"):
        futad.vmap(prog.copies)
    with pytest.raises(UsageError, match="'n' of first is a size, which all of a batch have in common"):
        futad.vmap(futad.compile("entry first (n: i64) (xs: [n]f64) = f64.sum xs", backend="interp").first)
    assert futad.vmap(prog.copies, (None, 0))(2, [1.0, 2.0]).tolist() == [[1, 1], [2, 2]]
    with pytest.raises(UsageError, match="the results of positive may differ in shape"):
        futad.vmap(prog.positive)
    with pytest.raises(UsageError, match="in_axes names no argument"):
        futad.vmap(prog.second, None)
    with pytest.raises(UsageError, match="second has 1 arguments, but in_axes has 2"):
        futad.vmap(prog.second, (0, 0))
    for axes in (-1, True, 1.5, "0"):
        with pytest.raises(UsageError, match="in_axes"):
            futad.vmap(prog.second, axes)
    with pytest.raises(UsageError, match="'xs' of second has no dimension 2"):
        futad.vmap(prog.second, 2)
    with pytest.raises(futad.BoundsError, match=r"Index \[1\] out of bounds"):
        futad.vmap(prog.second)(np.ones((2, 1)))


@pytest.mark.slow
def test_sizes_that_all_of_a_batch_have_in_common(prog: Program) -> None:
    xs = np.arange(8.0).reshape(2, 4)
    batched = futad.vmap(prog.longer, (0, None))
    np.testing.assert_array_equal(batched(xs, 2), [prog.longer(x, 2) for x in xs])
    assert batched.shapes((5, 3), 4).shape == (5, 7) and batched(xs, 0).shape == (2, 4)
    np.testing.assert_array_equal(futad.vmap(batched, (0, None))(xs[None], 1), batched(xs, 1)[None])
    _, pull = futad.vjp(batched, xs, 2)
    np.testing.assert_array_equal(pull(np.ones((2, 6)))[0], np.full((2, 4), 3.0))
    with pytest.raises(UsageError, match="the results of longer may differ in shape from one to the next"):
        futad.vmap(prog.longer)
    np.testing.assert_array_equal(futad.vmap(prog.inner)(xs), [prog.inner(x) for x in xs])
    assert futad.vmap(prog.inner)(np.ones((0, 4))).shape == (0, 8, 3)
    assert futad.vmap(prog.inner)(np.ones((0, 0))).shape == (0, 0, 0)
    with pytest.raises(futad.BoundsError, match=r"Index \[\S+\] out of bounds for array of shape \[0\]"):
        futad.vmap(prog.inner)(np.ones((2, 0)))


@pytest.mark.slow
def test_batches_at_other_dimensions_of_results(prog: Program) -> None:
    rng = np.random.default_rng(2)
    a, c = rng.normal(size=(5, 3, 4)), rng.normal(size=5)
    plain = futad.vmap(prog.parts)(a, c)
    turned, scaled, sums = futad.vmap(prog.parts, out_axes=(2, 0, 1))(a, c)
    np.testing.assert_array_equal(turned, np.moveaxis(plain[0], 0, 2))
    np.testing.assert_array_equal(scaled, plain[1])
    np.testing.assert_array_equal(sums.r, plain[2].r.T)
    bound = futad.vmap(futad.bind(prog.parts, c=2.0), out_axes=(1, 0, 0))
    assert bound(a)[0].shape == (4, 5, 3) and bound.shapes((5, 3, 4))[0].shape == (4, 5, 3)
    columns = futad.vmap(prog.longer, (1, None), 1)
    np.testing.assert_array_equal(columns(a[0], 1)[:, 0], prog.longer(a[0][:, 0], 1))
    _, pull = futad.vjp(columns, a[0], 1)
    np.testing.assert_array_equal(pull(np.ones((4, 4)))[0], np.full((3, 4), 2.0))
    assert pickle.loads(pickle.dumps(columns)) is columns
    wrong = {(0, 0): "has 3 parts, but out_axes has 2", -1: "counted from 0, not -1", None: "counted from 0, not None",
             1: "out_axes holds 1, but a result of .* has 1 dim"}  # fmt: skip
    for axes, text in wrong.items():
        with pytest.raises(UsageError, match=text):
            futad.vmap(prog.parts, out_axes=axes)


RECURSIVE = """
ATTRS
def go [n] (x: [n]f64) (i: i64) (w: f64) : (f64, f64) =
  if i >= n then (w, 0.2) else
  let (a, p) = go x (2 * i + 1) w
  let (b, q) = go x (2 * i + 2) w
  in (a * b - w, p * q * x[i])
entry direct [n] (x: [n]f64) (p: f64) = (go x 0 p).0
entry loops [n] (x: [n]f64) (p: f64) = loop p for _i < 3 do let r = go x 0 p in f64.sin (r.0 + r.1)
entry maps [n] (x: [n]f64) (p: f64) = f64.sum (map (\\y -> let r = go x 0 (p + y) in r.0 * r.1) x)
entry updated [n] (x: *[n]f64) (p: f64) = let r = go (x with [0] = p) 1 p in r.0 * r.1
"""


@pytest.mark.parametrize("attrs", ["", "#[again]"])
@pytest.mark.parametrize("backend", ["interp", pytest.param("c", marks=pytest.mark.slow)])
def test_recursion_in_many_directions(attrs: str, backend: str) -> None:
    """The value is that of one call, not one for each direction."""
    p = futad.compile(RECURSIVE.replace("ATTRS", attrs), backend=backend)
    x, w = np.array([0.3, 0.4, 0.5]), 1.1
    tangents = np.vstack([np.eye(3), np.zeros((1, 3))]), np.array([0, 0, 0, 1.0])
    for name in ("direct", "loops", "maps", "updated"):
        f = getattr(p, name)
        of_x, of_w = futad.grad(f, (0, 1))(x, w)
        want = np.array([*of_x, of_w])
        for k in (4, 1, 0):
            value, along = futad.jmp(f, (x, w), [t[:k] for t in tangents])
            assert np.shape(value) == () and value == pytest.approx(f(x.copy(), w), rel=1e-12)
            np.testing.assert_allclose(along, want[:k], rtol=1e-11, atol=1e-13)
            value, pull = futad.mjp(f, x.copy(), w)
            back = pull(np.arange(1.0, k + 1))
            assert np.shape(value) == () and value == pytest.approx(f(x.copy(), w), rel=1e-12)
            np.testing.assert_allclose(back[0], np.outer(np.arange(1, k + 1), of_x), rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(back[1], np.arange(1, k + 1) * of_w, rtol=1e-11, atol=1e-13)
