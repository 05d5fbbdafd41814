"""`method="dual"`: how derivatives are taken, as users say it."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core.budget import chosen

SOURCE = """
entry f [n] (xs: [n]f64) (k: f64): f64 = f64.sum (map (\\x -> f64.exp (x * k) / (1 + x * x)) xs)
entry two [n] (xs: [n]f64): (f64, [n]f64) = (f64.product xs, scan (*) 1 xs)
entry own [n] (xs: [n]f64): f64 =
  let g = vjp (\\ys -> f64.sum (map (\\y -> y * y * y) ys)) xs 1
  in f64.sum (map2 (*) g xs)
entry bad [n] (xs: [n]f64) (i: i64): f64 = xs[i] * xs[0]
"""
XS = np.array([0.5, -1.0, 2.0])


@pytest.fixture(scope="module")
def program() -> futad.Program:
    return futad.compile(SOURCE, backend="interp")


@pytest.mark.slow
def test_every_derivative_is_the_one_by_transformation(program: futad.Program) -> None:
    for method in ("dual", "transform"):
        g = futad.grad(program.f, argnums=(0, 1), method=method)
        assert g.executable.engine == method
    dual, plain = ({"method": m} for m in ("dual", "transform"))
    f = program.f
    for got, want in [
        (futad.grad(f, argnums=(0, 1), **dual)(XS, 0.3), futad.grad(f, argnums=(0, 1), **plain)(XS, 0.3)),
        (futad.value_and_grad(program.own, **dual)(XS), futad.value_and_grad(program.own)(XS)),
        ([futad.hessian(f, **dual)(XS, 0.3)], [futad.hessian(f)(XS, 0.3)]),
        (futad.jacrev(program.two, **dual)(XS), futad.jacfwd(program.two)(XS)),
        (futad.hvp(f, (XS, 0.3), (XS + 1, None), **dual)[:1], futad.hvp(f, (XS, 0.3), (XS + 1, None))[:1]),
    ]:
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    value, pull = futad.vjp(program.two, XS, **dual)
    want, other = futad.vjp(program.two, XS)
    assert value[0] == want[0]
    for cotangent in ((1.0, None), (None, XS)):
        np.testing.assert_allclose(pull(cotangent)[0], other(cotangent)[0], rtol=1e-13)


def test_derivatives_of_derivatives_are_taken_alike(program: futad.Program) -> None:
    g = futad.grad(program.f, method="dual")
    (_, along), (_, want) = (futad.jvp(h, (XS, 0.3), (XS, None)) for h in (g, futad.grad(program.f)))
    np.testing.assert_allclose(along, want, rtol=1e-13)
    assert futad.jacfwd(g).executable.engine == "dual"
    assert futad.jacrev(g, method="transform").executable.engine == "transform"


def test_whole_programs() -> None:
    program = futad.compile(SOURCE, backend="c", method="dual")
    assert program.own(XS) == pytest.approx(3 * np.sum(XS**3), rel=1e-14)
    assert program.backend == "interp"
    assert futad.compile(SOURCE, backend="interp", method="transform").own(XS) == program.own(XS)


def test_what_does_not_go_together(program: futad.Program) -> None:
    with pytest.raises(futad.UsageError, match="keeps every backpropagator; memory is for.*\nhint: leave out memory"):
        futad.grad(program.f, method="dual", memory="1MB")
    with pytest.raises(futad.UsageError, match="'transform' or 'dual'.*'binomial' or 'bisection'.*not 'taping'"):
        futad.grad(program.f, method="taping")
    assert chosen() == ("", None) and chosen(method="transform") == ("transform", None)
    engine, budget = chosen(method="transform", checkpoints=3)
    assert engine == "transform" and budget is not None and budget.checkpoints == 3
    engine, budget = chosen(method="bisection")
    assert engine == "" and budget is not None and budget.method == "bisection"


def test_errors_have_their_place(program: futad.Program) -> None:
    with pytest.raises(futad.BoundsError, match=r"Index \[3\] out of bounds for array of shape \[3\]") as e:
        futad.grad(program.bad, method="dual")(XS, 3)
    assert "xs[i] * xs[0]" in str(e.value)
