"""Values of sum types from Python: a constructor's name with its arguments."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import futad
from futad.errors import DtypeError, InputError, ShapeError

SOURCE = """
type kernel = #rbf f64 | #linear | #poly f64 i64
entry k [n] (kern: kernel) (x: [n]f64): f64 =
  match kern
  case #rbf s -> f64.sum (map (\\v -> f64.exp (-s * v * v)) x)
  case #linear -> f64.sum x
  case #poly a p -> f64.sum (map (\\v -> (v + a) ** f64.i64 p) x)
entry made (i: i64) (a: f64): kernel = if i == 0 then #rbf a else if i == 1 then #linear else #poly a i

type part = #l f32 | #m [2]f32 | #k i64 bool
def one (v: part): f32 = match v case #l x -> x case #m y -> y[0] + y[1] case #k i b -> f32.i64 i + f32.bool b
entry each [n] (v: [n]part): [n]f32 = map one v
entry grid [n][m] (v: [n][m]part): f32 = f32.sum (flatten (map (map one) v))
entry echo [n] (v: [n]part): [n]part = v
entry nested (v: #a part | #b {x: part, y: f32}): f32 = match v case #a p -> one p case #b r -> one r.x * r.y
entry sized [n] (a: [n]f32) (v: #vec ([n]f32) i64 | #pairs ([n](f32, i64)) | #none): f32 =
  match v case #vec x i -> f32.sum x + f32.i64 i case #pairs p -> f32.sum (map (.0) p) case #none -> f32.sum a
"""
PROGRAM = futad.compile(SOURCE, backend="interp")
X = np.arange(3.0)
PARTS = [("l", 1.5), ("m", [1.0, 2.0]), ("k", 3, True), ("l", 2.5)]


def test_constructors_and_their_arguments():
    np.testing.assert_allclose(PROGRAM.k(("rbf", 1.3), X), np.sum(np.exp(-1.3 * X * X)))
    assert PROGRAM.k("linear", X) == PROGRAM.k(("linear",), X) == 3.0
    assert PROGRAM.k(("poly", 1.0, 2), X) == 14.0
    assert [PROGRAM.made(i, 1.5) for i in range(3)] == [("rbf", 1.5), ("linear",), ("poly", 1.5, 2)]
    for i in range(3):
        assert PROGRAM.k(PROGRAM.made(i, 1.5), X) == PROGRAM.k([("rbf", 1.5), "linear", ("poly", 1.5, 2)][i], X)


def test_a_record_of_all_parts():
    parts = {"#": np.int8(2), "#rbf.0": 1.3, "#poly.0": 0.0, "#poly.1": 0}
    assert PROGRAM.k(parts, X) == PROGRAM.k(("rbf", 1.3), X)


def test_arrays_of_sums():
    want = [1.5, 3.0, 4.0, 2.5]
    for given in (PARTS, tuple(PARTS), PROGRAM.echo(PARTS)):
        np.testing.assert_array_equal(PROGRAM.each(given), np.float32(want))
    assert PROGRAM.each([]).shape == (0,) and PROGRAM.each([("k", 1, False)]) == [1]
    assert PROGRAM.each([("m", np.float32([1, 2])), ("l", np.float32(3))]).tolist() == [3, 3]
    assert PROGRAM.grid([PARTS, PARTS]) == 22
    assert PROGRAM.echo(PARTS)["#"].tolist() == [1, 2, 0, 1]


def test_arguments_that_are_structures():
    assert PROGRAM.nested(("a", ("l", 2.0))) == 2.0
    assert PROGRAM.nested(("b", {"x": ("k", 1, True), "y": 3.0})) == 6.0
    a = np.ones(3, np.float32)
    assert PROGRAM.sized(a, ("vec", [1.0, 2.0, 3.0], 1)) == 7
    assert PROGRAM.sized(a, ("pairs", [(1.0, 1), (2.0, 2), (0.0, 3)])) == 3
    assert PROGRAM.sized(a, "none") == 3
    with pytest.raises(ShapeError, match="size n is 3 by argument 'a'"):
        PROGRAM.sized(a, ("vec", [1.0, 2.0], 1))


@pytest.mark.slow
def test_derivatives_have_the_constructor():
    name, slope = futad.grad(PROGRAM.k)(("rbf", 1.3), X)
    assert name == "rbf"
    np.testing.assert_allclose(slope, -np.sum(X * X * np.exp(-1.3 * X * X)))
    value, (by_kernel, by_x) = futad.value_and_grad(PROGRAM.k, argnums=(0, 1))(("poly", 1.0, 2), X)
    assert value == 14.0 and by_kernel == ("poly", 12.0, 0) and by_x.tolist() == [2.0, 4.0, 6.0]
    assert futad.grad(PROGRAM.k)("linear", X) == ("linear",)
    for tangent in (("rbf", 1.0), {"#": None, "#rbf.0": 1.0, "#poly.0": None, "#poly.1": None}):
        np.testing.assert_allclose(futad.jvp(PROGRAM.k, (("rbf", 1.3), X), (tangent, None))[1], slope)
    assert futad.jvp(PROGRAM.made, (0, 1.5), (None, 2.0)) == (("rbf", 1.5), ("rbf", 2.0))
    value, pull = futad.vjp(PROGRAM.made, 0, 1.5)
    assert value == ("rbf", 1.5) and pull(("rbf", 3.0))[1] == 3.0 and pull(None)[1] == 0.0
    futad.testing.check_grads(PROGRAM.k, ("rbf", 1.3), X)


def test_bound_mapped_and_pickled():
    bound = futad.bind(PROGRAM.k, kern=("rbf", 1.3))
    assert bound(X) == pickle.loads(pickle.dumps(bound))(X) == PROGRAM.k(("rbf", 1.3), X)
    mapped = futad.vmap(PROGRAM.k, in_axes=(None, 0))
    assert mapped("linear", np.ones((2, 3))).tolist() == [3.0, 3.0]
    assert PROGRAM.k.shapes(("rbf", 1.0), (3,)).shape == ()


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (("rbf",), ShapeError, r"'rbf' has 1 argument, not 0\nhint: write \('rbf', f64\)"),
        ("rbf", ShapeError, "'rbf' has 1 argument, not 0"),
        (("poly", 1.0), ShapeError, "'poly' has 2 arguments, not 1"),
        (("cubic", 1.0), InputError, r"'cubic' is no constructor of kernel\nhint: write \('linear',\) or"),
        ((), InputError, "no constructor"),
        ((1, 2), InputError, "int 1 is no constructor"),
        (3, DtypeError, "expected kernel, got int 3"),
        (None, DtypeError, "expected kernel, got None"),
        (("rbf", "x"), DtypeError, "'kern.#rbf.0': expected f64, got str 'x'"),
        ({"#": 0}, InputError, "field '#poly.0' is missing"),
        ({"#": 3, "#poly.0": 0.0, "#poly.1": 0, "#rbf.0": 1.0}, InputError, "'kern.#' of k: 3 is no constructor"),
    ],
)
def test_what_is_no_value_of_the_sum(given, error, said):
    with pytest.raises(error, match=said):
        PROGRAM.k(given, X)


@pytest.mark.parametrize("tag", [-1, 3, 127])
def test_tags_that_are_no_constructors(tag):
    parts = dict(PROGRAM.echo(PARTS))
    parts["#"][2] = tag
    with pytest.raises(InputError, match=f"'v.#' of echo: {tag} is no constructor of .*\n.* 0 'k', 1 'l', 2 'm'"):
        PROGRAM.echo(parts)
    assert PROGRAM.each(dict(PROGRAM.echo([]))).shape == (0,)
