"""The functions of futad/stencil, futad/ode and futad/optim, each with its oracle."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np

from tests.support.oracle_array_table import V6
from tests.support.oracle_arrays import ArrayCase, Vector

# --- futad/stencil ---

BORDERS = {"zero": "constant", "clamp": "edge", "reflect": "symmetric", "mirror": "reflect", "periodic": "wrap"}


def padded(x: Any, before: Sequence[int], after: Sequence[int], border: str) -> Any:
    """NumPy's borders of an array of mpmath's numbers, by the places of its elements."""
    places = np.pad(np.arange(1, x.size + 1).reshape(x.shape), list(zip(before, after, strict=True)), BORDERS[border])
    return np.vectorize(lambda p: x.ravel()[p - 1] if p else mp.mpf(0), otypes=[object])(places)


def correlated(k: Any, x: Any, stride: int = 1) -> Any:
    """The sums of products wherever all of k is inside of x."""
    shape = tuple((n - m) // stride + 1 for n, m in zip(x.shape, k.shape, strict=True))
    out = np.empty(shape, object)
    for at in np.ndindex(*shape):
        part = x[tuple(slice(i * stride, i * stride + m) for i, m in zip(at, k.shape, strict=True))]
        out[at] = mp.fsum((part * k).ravel())
    return out


def stencil_case(kind: str, border: str, two: bool) -> tuple[str, Callable[..., Any], list[Vector]]:
    """Of k [3] or [2][3], x [5] or [4][5]."""
    ks, xs = ((2, 3), (4, 5)) if two else ((3,), (5,))
    nk, nx = math.prod(ks), math.prod(xs)
    what, where = kind.split("_")
    text = "\\v -> let v = v :> [{}]@ let k = {} let x = {} in {}".format(
        nk + nx,
        "unflatten (v[:6] :> [2*3]@)" if two else "v[:3] :> [3]@",
        "unflatten (v[6:] :> [4*5]@)" if two else "v[3:] :> [5]@",
        ("flatten ({})" if two else "{}").format(
            f"stencil_@.{kind}{'_2d' if two else ''} {'#' + border if where == 'same' else ''} k x"
        ),
    )

    def oracle(v: Sequence[Any]) -> list[Any]:
        k, x = np.array(v[:nk], object).reshape(ks), np.array(v[nk:], object).reshape(xs)
        k = np.flip(k) if what == "convolve" else k
        if where == "same":
            x = padded(x, [m // 2 for m in ks], [m - 1 - m // 2 for m in ks], border)
        elif where == "full":
            x = padded(x, [m - 1 for m in ks], [m - 1 for m in ks], "zero")
        return list(correlated(k, x).ravel())

    numbers = np.random.default_rng(5).integers(-8, 8, nk + nx) / 4
    return text, oracle, [tuple(numbers.tolist())]


def stencils() -> list[ArrayCase]:
    out = []
    for two in (False, True):
        for kind in (
            "correlate_valid",
            "correlate_same",
            "correlate_full",
            "convolve_valid",
            "convolve_same",
            "convolve_full",
        ):
            for border in BORDERS if kind.endswith("same") else ["zero"]:
                text, oracle, points = stencil_case(kind, border, two)
                out.append(
                    ArrayCase(f"stencil.{kind}{'_2d' if two else ''} {border}", text, oracle, points, types=("f64",))
                )
    x20 = tuple((np.random.default_rng(6).integers(-8, 8, 20) / 4).tolist())
    for border in BORDERS:

        def one(v: Any, b: str = border) -> list[Any]:
            return list(padded(np.array(v, object), [2], [3], b))

        def plane(v: Any, b: str = border) -> list[Any]:
            return list(padded(np.array(v, object).reshape(4, 5), [2, 1], [1, 3], b).ravel())

        def beside(v: Any, b: str = border) -> list[Any]:
            p = padded(np.array(v, object), [1], [1], b)
            return [p[i] * p[i + 2] - p[i + 1] for i in range(len(v))]

        def crossed(v: Any, b: str = border) -> list[Any]:
            p = padded(np.array(v, object).reshape(4, 5), [1, 1], [1, 1], b)
            return [p[i, j + 1] * p[i + 1, j] - p[i + 2, j + 2] for i in range(4) for j in range(5)]

        out += [
            ArrayCase(f"stencil.pad {border}", f"\\v -> stencil_@.pad #{border} 2 3 v", one, [V6], types=("f64",)),
            ArrayCase(
                f"stencil.pad_2d {border}",
                f"\\v -> flatten (stencil_@.pad_2d #{border} 2 1 1 3 (unflatten (v :> [4*5]@)))",
                plane,
                [x20],
                types=("f64",),
            ),
            ArrayCase(
                f"stencil.stencil {border}",
                f"\\v -> stencil_@.stencil #{border} (\\at -> at (-1) * at 1 - at 0) v",
                beside,
                [V6],
                types=("f64",),
            ),
            ArrayCase(
                f"stencil.stencil_2d {border}",
                f"\\v -> flatten (stencil_@.stencil_2d #{border} (\\at -> at (-1) 0 * at 0 (-1) - at 1 1)"
                " (unflatten (v :> [4*5]@)))",
                crossed,
                [x20],
                types=("f64",),
            ),
        ]

    def channels(v: Any) -> list[Any]:
        k, x = np.array(v[:12], object).reshape(3, 2, 2), np.array(v[12:], object).reshape(2, 5)
        return [y for o in range(3) for y in sum(correlated(k[o, c], x[c], 2) for c in range(2))]

    def channels_2d(v: Any) -> list[Any]:
        k, x = np.array(v[:12], object).reshape(3, 1, 2, 2), np.array(v[12:], object).reshape(1, 4, 5)
        return [y for o in range(3) for y in correlated(k[o, 0], x[0], 2).ravel()]

    numbers = tuple((np.random.default_rng(7).integers(-8, 8, 32) / 4).tolist())
    text = "\\v -> let v = v :> [{}]@ in flatten{} (stencil_@.{} (unflatten{} (v[:12] :> [{}]@)) 2"
    text += " (unflatten{} (v[12:] :> [{}]@)))"
    return [
        *out,
        ArrayCase(
            "stencil.channels",
            text.format(22, "", "channels", "_3d", "3*2*2", "", "2*5"),
            channels,
            [numbers[:22]],
            types=("f64",),
        ),
        ArrayCase(
            "stencil.channels_2d",
            text.format(32, "_3d", "channels_2d", "_4d", "3*1*2*2", "_3d", "1*4*5"),
            channels_2d,
            [numbers],
            types=("f64",),
        ),
    ]


# --- futad/ode: of y' = f t y with a number p, a vector y and the end t1; the same steps of mpmath's numbers ---


def slope(p: Any, t: Any, y: Sequence[Any]) -> list[Any]:
    return [y[1], -p * mp.sin(y[0]) + t * y[1]]


def stepped(kind: str, p: Any, t: Any, h: Any, y: list[Any]) -> list[Any]:
    def at(s: Any, k: Sequence[Any]) -> list[Any]:
        return [a + s * b for a, b in zip(y, k, strict=True)]

    k1 = slope(p, t, y)
    if kind == "euler":
        return at(h, k1)
    k2 = slope(p, t + h / 2, at(h / 2, k1))
    if kind == "midpoint":
        return at(h, k2)
    k3 = slope(p, t + h / 2, at(h / 2, k2))
    k4 = slope(p, t + h, at(h, k3))
    return at(h / 6, [a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)])


def integrated(kind: str, steps: int) -> Callable[[Sequence[Any]], list[Any]]:
    def made(v: Sequence[Any]) -> list[Any]:
        p, t1, y = v[0], v[1], list(v[2:])
        for i in range(steps):
            y = stepped(kind, p, t1 / steps * i, t1 / steps, y)
        return y

    return made


def rk4_times(v: Sequence[Any]) -> list[Any]:
    out = list(v[2:])
    for t in (v[1], 2 * v[1]):
        y, t0 = out[-2:], t - v[1]
        for i in range(2):
            y = stepped("rk4", v[0], t0 + v[1] / 2 * i, v[1] / 2, y)
        out += y
    return out


def leapfrog(v: Sequence[Any]) -> list[Any]:
    h, q, p = v[0], v[1:3], v[3:5]
    for _ in range(4):
        p = [a - h / 2 * mp.sin(b) for a, b in zip(p, q, strict=True)]
        q = [a + h * b for a, b in zip(q, p, strict=True)]
        p = [a - h / 2 * mp.sin(b) for a, b in zip(p, q, strict=True)]
    return [*q, *p]


def turned(v: Sequence[Any]) -> list[Any]:
    """y' = p (y1, -y0), exactly."""
    c, s = mp.cos(v[0] * v[1]), mp.sin(v[0] * v[1])
    return [c * v[2] + s * v[3], c * v[3] - s * v[2]]


F = "let v = v :> [4]@ let f t (y: [2]@) = [y[1], -v[0] * @.sin y[0] + t * y[1]] let y = v[2:] :> [2]@ in "
G = "let v = v :> [4]@ let f _ (y: [2]@) = [v[0] * y[1], -v[0] * y[0]] let y = v[2:] :> [2]@ in "
Y0: list[Vector] = [(1.5, 0.75, 0.5, -0.25), (0.0, 0.5, 0.0, 0.0)]
ODES = "ode_@."
ADAPTIVE = (1 << 23, 1 << 26, 1 << 30)  # to the tolerance
ODE: list[ArrayCase] = [
    *[
        ArrayCase(f"ode.{k}", f"\\v -> {F}{ODES}{k} f 3 0 v[1] y", integrated(k, 3), Y0)
        for k in ("euler", "midpoint", "rk4")
    ],
    *[
        ArrayCase(f"ode.{k}_step", f"\\v -> {F}{ODES}{k}_step f v[1] 0 y", integrated(k, 1), Y0)
        for k in ("euler", "midpoint", "rk4")
    ],
    ArrayCase("ode.steps_of", f"\\v -> {F}{ODES}steps_of ({ODES}rk4_step f) 3 0 v[1] y", integrated("rk4", 3), Y0),
    ArrayCase("ode.rk4_at", f"\\v -> {F}flatten ({ODES}rk4_at f 2 [0, v[1], 2 * v[1]] y)", rk4_times, Y0),
    ArrayCase(
        "ode.leapfrog",
        f"\\v -> let v = v :> [5]@ let (q, p) = {ODES}leapfrog"
        f" (map (\\x -> -(@.sin x))) 4 v[0] v[1:3] v[3:5] in q ++ p",
        leapfrog,
        [(0.25, 0.5, -1.0, 0.75, 0.0)],
    ),
    ArrayCase(
        "ode.rk45",
        f"\\v -> {G}{ODES}rk45 f ({ODES}tolerance 1e-10) 0 v[1] y",
        turned,
        [(1.5, 0.75, 0.5, -0.25), (-2.0, 3.0, 0.0, 1.0)],
        within=ADAPTIVE,
        types=("f64",),
    ),
    ArrayCase(
        "ode.rk45_at",
        f"\\v -> {G}flatten ({ODES}rk45_at f ({ODES}tolerance 1e-10) [0, v[1] / 2, v[1]] y).0",
        lambda v: [*v[2:], *turned([v[0], v[1] / 2, *v[2:]]), *turned(v)],
        [(1.5, 0.75, 0.5, -0.25)],
        within=ADAPTIVE,
        types=("f64",),
    ),
    ArrayCase(
        "ode.tolerance",
        f"\\v -> let o = {ODES}tolerance v[0] in [o.relative, o.absolute, @.i64 o.most]",
        lambda v: [v[0], v[0], 100000],
        [(1e-6,)],
    ),
]

# --- futad/optim ---

Q = "let v = v :> [4]@ let f (x: [2]f64) = v[0] * (x[0] - v[1]) ** 2 + (x[1] - v[2] * x[0]) ** 2 in "


def descended(v: Sequence[Any], how: str) -> list[Any]:
    x, m, s = [v[3], mp.mpf(1)], [mp.mpf(0)] * 2, [mp.mpf(0)] * 2
    for k in range(1, 4):
        b = x[1] - v[2] * x[0]
        g = [2 * v[0] * (x[0] - v[1]) - 2 * v[2] * b, 2 * b]
        if how == "down":
            x = [a - mp.mpf("0.125") * c for a, c in zip(x, g, strict=True)]
            continue
        m = [mp.mpf(0.9) * a + (1 - mp.mpf(0.9)) * c for a, c in zip(m, g, strict=True)]
        s = [mp.mpf(0.999) * a + (1 - mp.mpf(0.999)) * c * c for a, c in zip(s, g, strict=True)]
        x = [
            a - mp.mpf("0.125") * (c / (1 - mp.mpf(0.9) ** k)) / (mp.sqrt(d / (1 - mp.mpf(0.999) ** k)) + mp.mpf(1e-8))
            for a, c, d in zip(x, m, s, strict=True)
        ]
    return x


START: list[Vector] = [(1.5, 0.5, -0.75, 2.0), (0.25, -2.0, 1.0, 3.0)]
X0 = "[v[3], 1]"
SOLVED = (1 << 24, 1 << 28, 1 << 30)  # to the tolerance
CG = "let v = v :> [5]f64 let a (w: [3]f64) (x: [2]f64) = [w[0] * x[0] + w[1] * x[1], w[1] * x[0] + w[2] * x[1]] in "


def solved(v: Sequence[Any]) -> list[Any]:
    return list(mp.lu_solve(mp.matrix([[v[0], v[1]], [v[1], v[2]]]), mp.matrix(v[3:])))


def quadratic(v: Sequence[Any]) -> Any:
    return v[0] * (v[3] - v[1]) ** 2 + (1 - v[2] * v[3]) ** 2


def gradient(v: Sequence[Any]) -> list[Any]:
    b = 1 - v[2] * v[3]
    return [2 * v[0] * (v[3] - v[1]) - 2 * v[2] * b, 2 * b]


OPTIM: list[ArrayCase] = [
    ArrayCase(
        "optim.gradient_descent",
        f"\\v -> {Q}optim.gradient_descent f 0.125 3 {X0}",
        lambda v: descended(v, "down"),
        START,
        types=("f64",),
    ),
    ArrayCase(
        "optim.adam",
        f"\\v -> {Q}optim.adam f (optim.adam_options 0.125) 3 {X0}",
        lambda v: descended(v, "adam"),
        START,
        within=(1 << 10, 1 << 14, 1 << 18),
        types=("f64",),
    ),
    ArrayCase(
        "optim.adam_each",
        f"\\v -> {Q}optim.adam_each (\\_ -> f) (optim.adam_options 0.125) 3 {X0}",
        lambda v: descended(v, "adam"),
        START,
        within=(1 << 10, 1 << 14, 1 << 18),
        types=("f64",),
    ),
    ArrayCase(
        "optim.adam_step adam_start",
        f"\\v -> {Q}(loop s = optim.adam_start {X0} for _i < 3i64 do optim.adam_step"
        f" (optim.adam_options 0.125) (optim.gradient f s.x) s).x",
        lambda v: descended(v, "adam"),
        START,
        within=(1 << 10, 1 << 14, 1 << 18),
        types=("f64",),
    ),
    ArrayCase(
        "optim.value_and_gradient",
        f"\\v -> {Q}let (y, g) = optim.value_and_gradient f {X0} in [y] ++ g",
        lambda v: [quadratic(v), *gradient(v)],
        START,
        types=("f64",),
    ),
    ArrayCase("optim.gradient", f"\\v -> {Q}optim.gradient f {X0}", gradient, START, types=("f64",)),
    ArrayCase(
        "optim.hessian_times",
        f"\\v -> {Q}optim.hessian_times f {X0} [1, 2]",
        lambda v: [2 * v[0] + 2 * v[2] ** 2 - 4 * v[2], 4 - 2 * v[2]],
        START,
        types=("f64",),
    ),
    ArrayCase(
        "optim.cg",
        f"\\v -> {CG}optim.cg (a v[:3]) 0 2 v[3:]",
        solved,
        [(4.0, 1.0, 3.0, 0.5, -2.0)],
        within=(1 << 8, 1 << 10, 1 << 16),
        types=("f64",),
    ),
    # Reverse mode alone: forward mode differentiates the iterations.
    ArrayCase(
        "optim.cg_with",
        f"\\v -> {CG}optim.cg_with a 1e-14 10 v[:3] v[3:]",
        solved,
        [(4.0, 1.0, 3.0, 0.5, -2.0)],
        within=SOLVED,
        types=("f64",),
    ),
]
CASES = [*stencils(), *ODE, *OPTIM]
