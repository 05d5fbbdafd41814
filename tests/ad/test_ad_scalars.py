"""Every scalar operation x element type x mode, at special values; second order at ordinary ones.

The table is made from `OPS`: a new operation is tested without a line here.  (That first partial derivatives
agree with differences is tested with the operations themselves.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import futad
from futad.ad.expand import expand
from futad.core import ir
from futad.core.scalarops import FINITE, OPS, ScalarOp
from futad.core.types import F64, PRIMS, Prim, prim
from futad.testing.programs.core_derived import derived_program
from tests.support.ad_support import Derivs, like, make, many_directions, run, sizes_of

TYPES = list(PRIMS.values())


def points(t: Prim) -> np.ndarray:
    if t.is_bool:
        return np.array([False, True])
    if t.is_float:
        return np.array([0.0, -0.0, 0.5, 1.0, -1.0, 2.0, -2.5, 3.25, 40.0, np.inf, -np.inf, np.nan], t.dtype)
    info = np.iinfo(t.dtype)
    return np.array([1, 2, 3, 7, t.bits - 1, info.max, info.min + 1 if info.min else 5, 0], t.dtype)


def grid(op: ScalarOp, ts: list[Prim]) -> list[np.ndarray]:
    axes = []
    for i, t in enumerate(ts):
        p = points(t)
        if op.can_fail and i == 1 and not t.is_float:
            p = p[p != 0]
        axes.append(p)
    return [g.ravel() for g in np.meshgrid(*axes, indexing="ij")]


def elementwise(op: ScalarOp, ts: list[Prim]) -> ir.Program:
    return make([f"[n]{t.name}" for t in ts], lambda b, s, *xs: b.map_(lambda q, *e: [q.op(op.name, *e)], *xs))


@pytest.mark.slow
@pytest.mark.parametrize("t", TYPES, ids=lambda t: t.name)
def test_reverse_equals_forward_at_special_values(t: Prim) -> None:
    """J by unit tangents and by unit adjoints, bit for bit (NaN equal to NaN)."""
    for op in OPS.values():
        if t not in op.types:
            continue
        ts = op.arg_types(t)
        args = grid(op, ts)
        d = Derivs(elementwise(op, ts))
        y = d.primal(args)[0]
        unit = np.ones_like(y)
        _, xbar = d.vjp(args, [unit])
        if op.name.startswith(("to_", "bits_", "from_bits_")):
            continue  # linear between types: the transpose is the conversion back
        for i in range(len(args)):
            tangents = [np.ones_like(x) if i == j else np.zeros_like(x) for j, x in enumerate(args)]
            if np.issubdtype(y.dtype, np.floating) and (op.name in FINITE or op.name in ("div", "mod")):
                # Zero tangents times infinite numbers are NaN: ask for one argument alone.
                _, ydot = Derivs(d.program, [i]).jvp(args, [tangents[i]])
            else:
                _, ydot = d.jvp(args, tangents)
            if ydot[0].dtype == xbar[i].dtype:
                np.testing.assert_array_equal(ydot[0], xbar[i], err_msg=f"{op.name} argument {i}")
            else:
                assert not np.any(ydot[0]) and not np.any(xbar[i]), op.name


VALUES: dict[str, Any] = {
    # operation: [(arguments, partials)] that are easily got wrong
    "pow": [((0.0, 0.0), (0.0, 0.0)), ((0.0, 1.0), (1.0, 0.0)), ((0.0, 2.0), (0.0, 0.0)),
            ((2.0, 0.0), (0.0, np.log(2))), ((3.0, 1.0), (1.0, 3 * np.log(3))),
            ((-2.0, 3.0), (12.0, 0.0)), ((0.0, 0.5), (np.inf, 0.0))],
    "abs": [((0.0,), (0.0,)), ((-2.0,), (-1.0,))],
    "min": [((1.0, 1.0), (1.0, 0.0)), ((2.0, 1.0), (0.0, 1.0)),
            ((np.nan, 1.0), (0.0, 1.0)), ((1.0, np.nan), (1.0, 0.0))],
    "max": [((1.0, 1.0), (1.0, 0.0)), ((2.0, 1.0), (1.0, 0.0)), ((np.inf, 1.0), (1.0, 0.0))],
    "copysign": [((2.0, -1.0), (-1.0, 0.0)), ((-2.0, -1.0), (1.0, 0.0)), ((-2.0, 1.0), (-1.0, 0.0))],
    "mod": [((7.5, 2.0), (1.0, -3.0)), ((-7.5, 2.0), (1.0, 4.0))],
    "atan2": [((0.0, -1.0), (-1.0, 0.0)), ((1.0, 0.0), (0.0, -1.0)), ((1e200, 1e200), (5e-201, -5e-201)),
              ((3e-200, 4e-200), (0.16 / 1e-200, -0.12 / 1e-200))],
    "atan2pi": [((3e-200, 4e-200), (0.16 / 1e-200 / np.pi, -0.12 / 1e-200 / np.pi))],
    "gamma": [((1.0,), (-np.euler_gamma,)), ((2.0,), (1 - np.euler_gamma,)), ((-1.0,), (np.nan,))],
    "lgamma": [((1.0,), (-np.euler_gamma,)), ((np.inf,), (np.inf,))],
    "digamma": [((1.0,), (np.pi**2 / 6,)), ((-1.0,), (np.nan,)), ((np.inf,), (0.0,))],
    "trigamma": [((1.0,), (-2 * special.zeta(3),)), ((np.inf,), (0.0,)), ((0.0,), (-np.inf,)), ((-1.0,), (np.nan,))],
    "sqrt": [((0.0,), (np.inf,)), ((4.0,), (0.25,))],
    "log": [((0.0,), (np.inf,)), ((np.inf,), (0.0,))],
    "tanh": [((np.inf,), (0.0,)), ((0.0,), (1.0,))],
    "div": [((1.0, np.inf), (0.0, -0.0)), ((0.0, 2.0), (0.5, -0.0))],
}


@pytest.mark.parametrize("name", VALUES)
def test_known_partials(name: str) -> None:
    op = OPS[name]
    d = Derivs(elementwise(op, [F64] * op.arity))
    for at, want in VALUES[name]:
        got = d.vjp([np.array([x]) for x in at], [np.ones(1)])[1]
        np.testing.assert_allclose([g[0] for g in got], want, rtol=1e-14, err_msg=f"{name}{at}")


BOOL_TABLE = {
    "and": lambda x, y: (y, x),
    "or": lambda x, y: (~y, ~x),
    "xor": lambda x, y: (np.ones_like(x), np.ones_like(x)),
    "not": lambda x: (np.ones_like(x),),
}


@pytest.mark.parametrize("name", BOOL_TABLE)
def test_bool_adjoints(name: str) -> None:
    op = OPS[name]
    ts = [prim("bool")] * op.arity
    args = grid(op, ts)
    got = Derivs(elementwise(op, ts)).vjp(args, [np.ones_like(args[0])])[1]
    for g, w in zip(got, BOOL_TABLE[name](*args), strict=True):
        np.testing.assert_array_equal(g, w)


SMOOTH = [
    op for op in OPS.values()
    if op.partials and F64 in op.types and set(op.sig.split("->")[0].split()) == {"a"}
    and op.name != "nextafter"
]
# Where the default point 0.4 (0.7, 1.3 for further arguments) is outside the domain, or at a kink.
POINTS = {"acosh": (1.4,)}


@pytest.mark.parametrize("op", SMOOTH, ids=lambda op: op.name)
def test_second_order(op: ScalarOp) -> None:
    """jvp of vjp and vjp of vjp agree with differences of the first derivative."""
    k = op.arity
    x = [np.array([v]) for v in POINTS.get(op.name, (0.4, 0.7, 1.3)[:k])]
    v = [np.array([w]) for w in (0.9, -0.6, 0.35)[:k]]
    d = Derivs(elementwise(op, [F64] * k))
    seed = [np.array([1.25])]
    h = 1e-5
    up = d.vjp([a + h * w for a, w in zip(x, v, strict=True)], seed)[1]
    down = d.vjp([a - h * w for a, w in zip(x, v, strict=True)], seed)[1]
    p = expand(derived_program(d.base, "f_vjp", "jvp", range(k), "hvp"))
    hv = run(p, "hvp", [*sizes_of(d.program, x), *x, *seed, *v])[-k:]
    p = expand(derived_program(d.base, "f_vjp", "vjp", range(k), "vv"))
    vv = run(p, "vv", [*sizes_of(d.program, x), *x, *seed, np.zeros(1), *v])[-k:]
    for a, b, u, w in zip(hv, vv, up, down, strict=True):
        np.testing.assert_allclose(a, (u - w) / (2 * h), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_higher_derivatives_of_lgamma(backend: str) -> None:
    f = futad.compile("entry f (x: f64) = f64.lgamma x", backend=backend).f
    for order in range(5):
        f = futad.grad(f)
        for x in (2.5, 0.3, 40.0):
            assert f(x) == pytest.approx(special.polygamma(order, x), rel=1e-13), order


def family(t: Prim) -> tuple[list[tuple[ScalarOp, int]], ir.Program, list[np.ndarray]]:
    """All operations at a type in one program, each on its own grid of special values: they and how many arguments."""
    ops = [op for op in OPS.values() if t in op.types and all(n == "a" for n in op.sig.split("->")[0].split())]
    args: list[np.ndarray] = []
    sizes: dict[int, str] = {}
    params: list[str] = []
    for op in ops:
        own = grid(op, op.arg_types(t))
        args += own
        size = sizes.setdefault(len(own[0]), f"n{len(sizes)}")
        params += [f"[{size}]{t.name}"] * op.arity

    def f(b: Any, s: Any, *xs: Any) -> list[Any]:
        out = []
        for op in ops:
            own, xs = xs[: op.arity], xs[op.arity :]
            out += b.map_(lambda q, *e, op=op: [q.op(op.name, *e)], *own)
        return out

    return [(op, op.arity) for op in ops], make(params, f), args


@pytest.mark.slow
@pytest.mark.parametrize("t", TYPES, ids=lambda t: t.name)
def test_many_directions_and_second_order_at_special_values(t: Prim) -> None:
    """jmp and mjp give what jvp and vjp do, of the functions and of their derivatives; the second derivatives by
    jvp of vjp and by vjp of vjp are the same where both are numbers."""
    ops, program, args = family(t)
    d = Derivs(program)
    sizes = sizes_of(program, args)
    outs = d.primal(args)
    n = len(outs)
    many_directions(d.base, "f_jvp", [*sizes, *args], args, n)
    many_directions(d.base, "f_vjp", [*sizes, *args], outs, n)
    rng = np.random.default_rng(4)
    ybar, v = [like(rng, y) for y in outs], [like(rng, x) for x in args]
    every = range(len(args))
    forward = derived_program(d.base, "f_vjp", "jvp", every, "hvp")
    reverse = derived_program(d.base, "f_vjp", "vjp", every, "vv")
    many_directions(forward, "hvp", [*sizes, *args, *ybar], args, n + len(args), both=False)
    many_directions(reverse, "vv", [*sizes, *args, *ybar], [*outs, *args], n + len(args), both=False)
    hv = run(expand(forward), "hvp", [*sizes, *args, *ybar, *v])[-len(args) :]
    vv = run(expand(reverse), "vv", [*sizes, *args, *ybar, *map(np.zeros_like, outs), *v])[-len(args) :]
    at = 0
    for op, arity in ops:
        for a, b in zip(hv[at : at + arity], vv[at : at + arity], strict=True):
            if t.is_float:
                both = np.isfinite(a) & np.isfinite(b)
                if op.name == "pow":
                    both &= args[at] > 0  # elsewhere it has no derivative in the exponent, which is given as 0
                tol = 16 * float(np.finfo(t.dtype).eps)
                np.testing.assert_allclose(b[both], a[both], rtol=tol, atol=tol, err_msg=op.name)
            elif not op.can_fail and op.name != "pow":  # divisions and powers of integers are steps
                np.testing.assert_array_equal(b, a, err_msg=op.name)
        at += arity


@pytest.mark.parametrize(("x", "y", "want"), [(0.0, 2.0, 2.0), (-2.0, 3.0, -12.0), (0.0, 3.0, 0.0), (0.0, 0.0, 0.0),
                                              (0.0, 1.0, 0.0), (2.0, 3.0, 12.0)])  # fmt: skip
def test_second_derivatives_of_powers_where_the_exponent_has_one_too(x: float, y: float, want: float) -> None:
    """y (y - 1) x^(y-2): log x, which the exponent's derivative has, is of no account where x <= 0."""
    d = Derivs(elementwise(OPS["pow"], [F64, F64]))
    program = derived_program(d.base, "f_vjp", "jvp", range(2), "hvp")
    args = [np.array([x]), np.array([y])]
    one, nothing = np.ones(1), np.zeros(1)
    out = run(expand(program), "hvp", [1, *args, one, one, nothing])
    np.testing.assert_allclose(out[-2], [want], rtol=1e-14)
