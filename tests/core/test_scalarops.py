"""Every scalar operation at every type: the C that is emitted for it equals the table's NumPy evaluation."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import warnings

import numpy as np
import pytest
from scipy import special

from futad.core import ir, scalarops
from futad.core.scalarmath import polygamma
from futad.core.scalarops import ALL, OPS, REDUCTIONS, ScalarOp
from futad.core.types import F16, Prim, prim
from futad.runtime import cc
from tests.support.needs import needs_cc
from tests.support.scalar_cases import C_TYPES, CASES, inputs, specials, tolerance


def function_name(op: ScalarOp, t: Prim) -> str:
    return f"test_{op.name}_{t.name}"


def c_source() -> str:
    """One loop over arrays for each operation and type."""
    out = ['#include "prelude.h"']
    for op, t in CASES:
        args = op.arg_types(t)
        result = op.result_type(args)
        expr = op.c_template(t).format(
            *[f"x{i}[i]" for i in range(len(args))],
            t=C_TYPES[t.name], T=t.name, r=C_TYPES[result.name], u=C_TYPES[t.name.replace("i", "u")],
        )  # fmt: skip
        params = "".join(f", const {C_TYPES[a.name]} *x{i}" for i, a in enumerate(args))
        head = f"void {function_name(op, t)}(int64_t n, {C_TYPES[result.name]} *restrict r{params})"
        out.append(f"{head} {{ for (int64_t i = 0; i < n; i++) r[i] = {expr}; }}")
    return "\n".join(out)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return cc.build_library(c_source())


def run_c(library: ctypes.CDLL, op: ScalarOp, t: Prim, args: list[np.ndarray]) -> np.ndarray:
    out = np.empty(args[0].shape, op.result_type(op.arg_types(t)).dtype)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (out, *args)]
    getattr(library, function_name(op, t))(ctypes.c_int64(out.size), *pointers)
    return out


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("op", list(OPS.values()), ids=lambda op: op.name)
def test_c_equals_numpy(library: ctypes.CDLL, op: ScalarOp) -> None:
    for t in op.types:
        args = inputs(op, t)
        expected = np.asarray(scalarops.evaluate(op.name, *args))
        actual = run_c(library, op, t, args)
        result = op.result_type(op.arg_types(t))
        assert expected.dtype == result.dtype, (op.name, t)
        if not result.is_float:
            bad = actual != expected
        else:
            with np.errstate(all="ignore"):
                a, e = actual.astype("float64"), expected.astype("float64")
                limit = tolerance(op, args, expected)
                bad = np.isnan(a) != np.isnan(e)
                bad |= ~np.isnan(e) & (a != e) & ~(np.abs(a - e) <= limit)
        where = np.flatnonzero(bad)[:8]
        table = [([a[i] for a in args], actual[i], expected[i]) for i in where]
        assert not len(where), (
            f"{op.name} at {t}: {np.count_nonzero(bad)} of {len(bad)}; args, C, NumPy: {table}"
        )


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize(
    "name", ["abs", "neg", "copysign", "floor", "ceil", "round", "trunc", "min", "max", "mod"]
)
def test_zero_signs(library: ctypes.CDLL, name: str) -> None:
    """-0.0 and 0.0 compare equal; these operations are defined by the sign they give a zero."""
    op = OPS[name]
    for t in (prim("f64"), prim("f32"), F16):
        args = inputs(op, t)
        expected = np.asarray(scalarops.evaluate(name, *args))
        actual = run_c(library, op, t, args)
        zero = expected == 0
        if name in ("min", "max"):
            # Of two zeros either may be the smaller.
            zero &= ~((args[0] == 0) & (args[1] == 0))
        np.testing.assert_array_equal(
            np.signbit(actual[zero]), np.signbit(expected[zero]), err_msg=f"{name} {t}"
        )


def test_signatures() -> None:
    """`result_type` accepts exactly the declared argument types."""
    for op, t in CASES:
        args = op.arg_types(t)
        assert op.arity == len(args)
        assert op.result_type(args) in ALL
        with pytest.raises(TypeError):
            op.result_type((*args, t))
        for other in ALL:
            if other not in op.types and "a" in op.sig.split("->")[0].split():
                with pytest.raises(TypeError):
                    op.result_type(tuple([other if a is t else a for a in args]))


def test_units_and_absorbers() -> None:
    for op, t in CASES:
        if op.arity != 2:
            continue
        values = specials(t)
        if t.is_float:
            values = values[np.isfinite(values)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if op.unit is not None:
                unit = np.full_like(values, op.unit(t))
                np.testing.assert_array_equal(scalarops.evaluate(op.name, values, unit), values)
                np.testing.assert_array_equal(scalarops.evaluate(op.name, unit, values), values)
            if op.absorber is not None:
                zero = np.full_like(values, op.absorber(t))
                np.testing.assert_array_equal(scalarops.evaluate(op.name, values, zero), zero)
            if op.name in REDUCTIONS:
                start = np.full_like(values, op.neutral(t))
                np.testing.assert_array_equal(scalarops.evaluate(op.name, start, values), values)
                if not t.is_float:  # in which order is not said
                    total = functools.reduce(op.ufunc(t), values)
                    np.testing.assert_array_equal(op.ufunc(t).reduce(values, dtype=values.dtype), total)


@pytest.mark.slow
def test_commutative_and_associative() -> None:
    for op, t in CASES:
        if op.arity != 2 or not (op.commutative or op.associative):
            continue
        values = specials(t)[::3]
        for x, y in itertools.product(values, repeat=2):
            if op.commutative:
                xy, yx = scalarops.evaluate(op.name, x, y), scalarops.evaluate(op.name, y, x)
                np.testing.assert_array_equal(xy, yx, err_msg=f"{op.name} {t}")
            if op.associative and not t.is_float:
                for z in values[::3]:
                    left = scalarops.evaluate(op.name, scalarops.evaluate(op.name, x, y), z)
                    right = scalarops.evaluate(op.name, x, scalarops.evaluate(op.name, y, z))
                    np.testing.assert_array_equal(left, right, err_msg=f"{op.name} {t}")


DIFFERENTIABLE = [
    op
    for op in OPS.values()
    if op.partials and not op.passes
    and any(t.is_float for t in op.types) and set(op.sig.split("->")[0].split()) == {"a"}
]
# Where a function is smooth: points of its domain away from branch points and jumps.
POINTS = {
    "acosh": [1.2, 3.0], "asin": [-0.6, 0.3], "acos": [-0.6, 0.3], "atanh": [-0.6, 0.3],
    "asinpi": [-0.6, 0.3], "acospi": [-0.6, 0.3], "log": [0.4, 3.0], "log2": [0.4, 3.0],
    "log10": [0.4, 3.0], "log1p": [-0.3, 2.0], "sqrt": [0.4, 3.0], "rsqrt": [0.4, 3.0],
    "pow": [0.4, 1.7], "gamma": [0.4, 3.3, -1.4], "lgamma": [0.4, 3.3, 12.5],
    "digamma": [0.4, 3.3, -1.4, 12.5], "trigamma": [0.4, 3.3, -1.4, 12.5],
    "sinpi": [0.2, 0.7], "cospi": [0.2, 0.7], "tanpi": [0.2, 0.7], "erf_inv": [-0.9, -0.2, 0.3, 0.7],
}  # fmt: skip


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_partials(op: ScalarOp) -> None:
    """Each partial derivative at f64 agrees with a central difference of the operation itself."""
    assert op.partials is not None and len(op.partials) == op.arity
    points = POINTS.get(op.name, [-1.7, -0.4, 0.3, 2.6])
    for args in itertools.product(points, repeat=op.arity):
        if (
            op.name in ("min", "max", "mod", "hypot", "atan2", "copysign", "nextafter")
            and len(set(args)) < op.arity
        ):
            continue
        for i, partial in enumerate(op.partials):
            expected = central_difference(op, args, i)
            actual = symbolic_partial(op, partial, args)
            assert actual == pytest.approx(expected, rel=2e-8, abs=2e-8), (op.name, args, i)


def central_difference(op: ScalarOp, args: tuple[float, ...], i: int) -> float:
    """Richardson's extrapolation of two central differences: error of order h**4."""

    def slope(h: float) -> float:
        up, down = list(args), list(args)
        up[i] += h
        down[i] -= h
        f = [float(scalarops.evaluate(op.name, *[np.float64(x) for x in xs])) for xs in (up, down)]
        return (f[0] - f[1]) / (2 * h)

    return (4 * slope(5e-4) - slope(1e-3)) / 3


def symbolic_partial(op: ScalarOp, partial: scalarops.Partial, args: tuple[float, ...]) -> float:
    """Builds the partial's IR over constants and evaluates it statement by statement."""
    from futad.core.builder import Builder, Ex
    from futad.core.types import Const, Var

    b = Builder()
    consts = [Const(prim("f64"), x) for x in args]
    result = b.op(op.name, *consts)
    value = partial(*[Ex(b, c) for c in consts], Ex(b, result))
    env: dict[Var, np.generic] = {}

    def get(atom: Const | Var) -> np.generic:
        return env[atom] if isinstance(atom, Var) else atom.type.dtype.type(atom.value)

    for stm in b.stms:
        assert isinstance(stm.exp, ir.Op)
        env[stm.pat[0]] = scalarops.evaluate(stm.exp.op, *[get(a) for a in stm.exp.args])
    return float(get(value.atom)) if isinstance(value, Ex) else float(value)


def test_polygamma() -> None:
    """Against SciPy right of 0; left of it by recurrence from there; special values; derivatives."""
    right = np.concatenate([np.linspace(0.01, 30, 200), [1e-3, 1e-8, 1e3, 1e8, 1e30, np.inf]])
    left = np.array([-0.3, -0.5, -1.25, -2.75, -7.4, -12.5, -0.001])
    for n in (1, 2, 3, 4, 7, 20):
        order = np.int32(n)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                scalarops.evaluate("polygamma", order, right), special.polygamma(n, right), rtol=4e-15
            )
        sign = (-1.0) ** (n + 1)
        poles = sum(sign * math.factorial(n) / (left + k) ** (n + 1) for k in range(14))
        want = poles + special.polygamma(n, left + 14)
        scale = np.abs(want) + math.factorial(n) / np.abs(left - np.rint(left)) ** (n + 1)  # poles either side
        assert np.all(np.abs(scalarops.evaluate("polygamma", order, left) - want) <= 4e-15 * scale), n
        poles = scalarops.evaluate("polygamma", order, np.array([-1.0, -8.0, -np.inf, np.nan]))
        assert np.all(np.isnan(poles))
        zeros = scalarops.evaluate("polygamma", order, np.array([0.0, -0.0]))
        np.testing.assert_array_equal(zeros, [sign * np.inf, np.inf])
        for x in (0.4, 3.3, -1.4, 12.5):
            slope = (polygamma(x + 1e-5, n) - polygamma(x - 1e-5, n)) / 2e-5
            assert polygamma(x, n + 1) == pytest.approx(slope, rel=1e-6 * (n + 1), abs=1e-6), (n, x)
    for n in (0, -3, 171, 2**31 - 1):
        assert np.isnan(scalarops.evaluate("polygamma", np.int32(n), np.float64(2.5)))
    assert polygamma(1.0, 2) == pytest.approx(-2 * special.zeta(3), rel=4e-15)
    assert polygamma(2.5, 1) == pytest.approx(float(scalarops.evaluate("trigamma", np.float64(2.5))), rel=4e-15)
