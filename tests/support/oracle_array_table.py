"""The functions of arrays of futad.numpy, futad/stats, futad/linalg, futad/stencil, futad/ode and of the prelude, each
with its oracle."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp

import futad
import futad.numpy as fnp
from tests.support.oracle_arrays import ArrayCase, Stated, Vector

INF = math.inf
A3: Vector = (2.0, -1.0, 0.5, 0.25, 3.0, -0.75, -0.5, 1.25, 1.5)
B3: Vector = (0.5, 2.0, -0.25, 1.0, -3.0, 0.75, 1.5, 0.125, -2.0)
X3: Vector = (0.5, -2.0, 1.5)
V6: Vector = (0.5, -2.0, 1.5, 3.0, -0.25, 0.125)
SMALL: Vector = (1e-20, -3e-20, 2e-20, 1e-21, -1e-20, 5e-20)
LARGE: Vector = (1e15, -3e15, 2e15, 1e14, -1e15, 5e15)


def rows(v: Sequence[Any], n: int, m: int) -> list[list[Any]]:
    return [list(v[i * m : (i + 1) * m]) for i in range(n)]


def matrix(v: Sequence[Any], n: int, m: int) -> Any:
    return mp.matrix(rows(v, n, m))


def flat(a: Any) -> list[Any]:
    return [a[i, j] for i in range(a.rows) for j in range(a.cols)]


def mean(v: Sequence[Any]) -> Any:
    return mp.fsum(v) / len(v)


def var(v: Sequence[Any], less: int = 0) -> Any:
    return mp.fsum([(x - mean(v)) ** 2 for x in v]) / (len(v) - less)


def lse(v: Sequence[Any]) -> Any:
    top = max(v)
    return top + mp.log(mp.fsum([mp.exp(x - top) for x in v]))


def softmax(v: Sequence[Any]) -> list[Any]:
    return [mp.exp(x - lse(v)) for x in v]


def running(f: Callable[[Any, Any], Any], v: Sequence[Any]) -> list[Any]:
    out: list[Any] = []
    for x in v:
        out.append(f(out[-1], x) if out else x)
    return out


def fold(f: Callable[[Any, Any], Any], v: Sequence[Any]) -> Any:
    return running(f, v)[-1]


def times(a: Any, b: Any) -> Any:
    return a * b


# --- futad.numpy: functions of a vector of fnp and a module, and the same of mpmath's ---

TIED = (1.0, 3.0, 3.0, -2.0, 3.0, 0.0)
ZEROS = (0.0, 2.0, -3.0, 0.5, 1.0, 4.0)
TWO_ZEROS = (0.0, 2.0, -3.0, 0.0, 1.0, 4.0)
FEW = (64, 256, 2048)
Numpy = tuple[Callable[[Any], Any], Callable[..., Any], list[Vector], dict[Vector, Stated]]
SIXTH = [1 / 6] * 6
NUMPY: dict[str, Numpy] = {
    "sum": (fnp.sum, lambda v: [mp.fsum(v)], [V6, SMALL, LARGE], {}),
    "prod": (fnp.prod, lambda v: [fold(times, v)], [V6, ZEROS, TWO_ZEROS], {}),
    "max": (
        fnp.max,
        lambda v: [max(v)],
        [V6, SMALL],
        {TIED: ([3], [0, 1, 0, 0, 0, 0]), (-INF,) * 6: ([-INF], [None] * 6)},
    ),
    "min": (fnp.min, lambda v: [min(v)], [V6, SMALL], {(1.0, 0.0, 3.0, 0.0, 3.0, 0.0): ([0], [0, 1, 0, 0, 0, 0])}),
    "ptp": (fnp.ptp, lambda v: [max(v) - min(v)], [V6, SMALL], {TIED: ([5], [0, 1, 0, -1, 0, 0])}),
    "mean": (fnp.mean, lambda v: [mean(v)], [V6, SMALL, LARGE], {}),
    "var": (fnp.var, lambda v: [var(v)], [V6, SMALL, LARGE], {(0.5,) * 6: ([0], [0] * 6)}),
    "var ddof": (lambda v: fnp.var(v, ddof=1), lambda v: [var(v, 1)], [V6, SMALL, LARGE], {(0.5,) * 6: ([0], [0] * 6)}),
    "std": (fnp.std, lambda v: [mp.sqrt(var(v))], [V6, LARGE], {}),
    "norm": (
        fnp.norm,
        lambda v: [mp.sqrt(mp.fsum([x * x for x in v]))],
        [V6, LARGE, (0.0, 0.0, 3.0, 0.0, 0.0, 0.0)],
        {},
    ),
    "logsumexp": (
        fnp.logsumexp,
        lambda v: [lse(v)],
        [V6, TIED, SMALL, (0.0,) * 6, (1000.0, 999.0, 1000.0, 0.0, -1000.0, 5.0), (-1e4,) * 6],
        {
            (INF, 1.0, 0.0, -INF, 2.0, 3.0): ([INF], [None, 0, 0, 0, 0, 0]),
            (1e30,) * 6: ([1e30], SIXTH),
            (-INF, 1.0, 1.0, -INF, -INF, 1.0): ([1 + math.log(3)], [0, 1 / 3, 1 / 3, 0, 0, 1 / 3]),
            (-INF,) * 6: ([-INF], [None] * 6),
        },
    ),
    "cumsum": (fnp.cumsum, lambda v: running(lambda a, b: a + b, v), [V6, SMALL, LARGE], {}),
    "cumprod": (fnp.cumprod, lambda v: running(times, v), [V6, ZEROS, TWO_ZEROS], {}),
    "cummax": (fnp.cummax, lambda v: running(max, v), [V6, SMALL], {TIED: ([1, 3, 3, 3, 3, 3], [1, 5, 0, 0, 0, 0])}),
    "cummin": (fnp.cummin, lambda v: running(min, v), [V6, SMALL], {}),
    "sort": (fnp.sort, sorted, [V6, SMALL], {(3.0, 1.0, 0.0, -0.0, 1.0, INF): ([0, 0, 1, 1, 3, INF], [1] * 6)}),
    "dot": (lambda v: fnp.dot(v[:3], v[3:]), lambda v: [mp.fsum(map(times, v[:3], v[3:]))], [V6, (0.0,) * 6], {}),
    "outer": (
        lambda v: fnp.ravel(fnp.outer(v[:3], v[3:])),
        lambda v: [a * b for a in v[:3] for b in v[3:]],
        [V6, (0.0,) * 6],
        {},
    ),
    "matmul": (
        lambda v: fnp.ravel(fnp.matmul(fnp.reshape(v[:9], (3, 3)), fnp.reshape(v[9:], (3, 3)))),
        lambda v: flat(matrix(v[:9], 3, 3) * matrix(v[9:], 3, 3)),
        [(*A3, *B3)],
        {},
    ),
    "einsum": (
        lambda v: fnp.ravel(fnp.einsum("ij,kj->ik", fnp.reshape(v[:9], (3, 3)), fnp.reshape(v[9:], (3, 3)))),
        lambda v: flat(matrix(v[:9], 3, 3) * matrix(v[9:], 3, 3).T),
        [(*A3, *B3)],
        {},
    ),
    "diff": (fnp.diff, lambda v: [b - a for a, b in zip(v, v[1:], strict=False)], [V6], {}),
    "linspace": (
        lambda v: fnp.astype(fnp.linspace(v[0], v[1], 5), v.dtype),
        lambda v: [v[0] + (v[1] - v[0]) * k / 4 for k in range(5)],
        [(0.5, 3.0), (1.0, 1.0)],
        {},
    ),
    "trace": (lambda v: fnp.trace(fnp.reshape(v, (3, 3))), lambda v: [v[0] + v[4] + v[8]], [A3], {}),
    "where": (
        lambda v: fnp.where(v > 0, v * v, fnp.exp(v)),
        lambda v: [x * x if x > 0 else mp.exp(x) for x in v],
        [V6],
        {},
    ),
}


def traced(f: Callable[..., Any], name: str, size: int, t: str) -> str:
    scope: dict[str, Any] = {"f": f}
    exec(f"def {name}(v): return f(v)", scope)
    scope[name].__annotations__ = {"v": getattr(fnp, t)[size]}
    return re.sub(r"^entry ", "def ", futad.function(scope[name]).source(), flags=re.M)


NUMBERS = {"var ddof", *"sum prod max min ptp mean var std norm logsumexp dot trace".split()}  # of which results are


def symbol(name: str) -> str:
    return "npa_" + name.replace(" ", "_")


def numpy_case(name: str) -> ArrayCase:
    _, oracle, points, at = NUMPY[name]
    made = f"{symbol(name)}_@ (v :> [{len([*points, *at][0])}]@)"
    return ArrayCase(f"numpy.{name}", f"\\v -> [{made}]" if name in NUMBERS else f"\\v -> {made}", oracle, points, at)


def head(names: Sequence[str], types: Sequence[str]) -> list[str]:
    """The definitions that tracing makes of the functions of futad.numpy among these."""
    return [
        traced(NUMPY[n][0], f"{symbol(n)}_{t}", len([*NUMPY[n][2], *NUMPY[n][3]][0]), t)
        for n in dict.fromkeys(names)
        if n in NUMPY
        for t in types
    ]


# --- futad/stats ---

Row = tuple[str, Callable[..., Any], list[Vector], dict[Vector, Stated]]


def mvn(v: Sequence[Any]) -> list[Any]:
    mu, x = v[:3], v[12:]
    full = matrix(v[3:12], 3, 3)
    factor = mp.matrix([[full[i, j] if j <= i else 0 for j in range(3)] for i in range(3)])
    z = mp.lu_solve(factor, mp.matrix([a - b for a, b in zip(x, mu, strict=True)]))
    return [
        -mp.fsum([t * t for t in z]) / 2 - mp.fsum([mp.log(factor[i, i]) for i in range(3)]) - 3 * mp.log(2 * mp.pi) / 2
    ]


def dirichlet(v: Sequence[Any]) -> list[Any]:
    return [
        mp.loggamma(mp.fsum(v[:3]))
        + mp.fsum([(a - 1) * mp.log(x) - mp.loggamma(a) for a, x in zip(v[:3], v[3:], strict=True)])
    ]


def quantile(p: float, v: Sequence[Any]) -> Any:
    s, place = sorted(v), mp.mpf(p) * (len(v) - 1)
    i = int(mp.floor(place))
    return s[i] + (place - i) * (s[min(i + 1, len(v) - 1)] - s[i])


def covariance(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return mean([(x - mean(a)) * (y - mean(b)) for x, y in zip(a, b, strict=True)])


S = "stats_@."
PAIR = "let (xs, ys) = split (v :> [3 + 3]@) in "
LSE_AT = NUMPY["logsumexp"][3]
STATS: dict[str, Row] = {
    "logsumexp": (f"\\v -> [{S}logsumexp v]", lambda v: [lse(v)], NUMPY["logsumexp"][2], LSE_AT),
    "softmax": (
        f"{S}softmax",
        softmax,
        [V6, TIED, (0.0,) * 6, (1000.0, 999.0, 1000.0, 0.0, -1000.0, 5.0)],
        {(-INF, 1.0, 1.0, -INF, -INF, 1.0): ([0, 1 / 3, 1 / 3, 0, 0, 1 / 3], [0] * 6)},
    ),
    "log_softmax": (
        f"{S}log_softmax",
        lambda v: [x - lse(v) for x in v],
        [V6, TIED, (0.0,) * 6, (1000.0, 999.0, 1000.0, 0.0, -1000.0, 5.0)],
        {},
    ),
    "multivariate_normal_logpdf": (
        f"\\v -> let v = v :> [15]@ in [{S}multivariate_normal_logpdf"
        " (v[:3] :> [3]@) (unflatten (v[3:12] :> [3*3]@)) (v[12:] :> [3]@)]",
        mvn,
        [(*X3, *A3, *X3[::-1]), (*X3, 1e-3, 0.0, 0.0, 2.0, 1e3, 0.0, 0.0, 0.0, 1.0, *X3)],
        {},
    ),
    "dirichlet_logpdf": (
        f"\\v -> {PAIR}[{S}dirichlet_logpdf xs ys]",
        dirichlet,
        [(0.5, 2.0, 1.0, 0.2, 0.5, 0.3), (3.0, 2.0, 7.5, 1e-5, 0.9, 0.1)],
        {(1.0, 2.0, 1.0, 0.0, 0.5, 0.5): ([math.log(3)], [None] * 6)},
    ),
    "categorical_logpmf": (
        f"\\v -> map ({S}categorical_logpmf v) [0, 2, 5]",
        lambda v: [mp.log(v[k]) for k in (0, 2, 5)],
        [(0.1, 0.2, 1e-9, 0.3, 0.2, 0.2)],
        {},
    ),
    "categorical_logit_logpmf": (
        f"\\v -> map ({S}categorical_logit_logpmf v) [0, 2, 5]",
        lambda v: [v[k] - lse(v) for k in (0, 2, 5)],
        [V6, TIED, (0.0,) * 6],
        {},
    ),
    "mean": (f"\\v -> [{S}mean v]", lambda v: [mean(v)], [V6, SMALL, LARGE], {}),
    "variance": (f"\\v -> [{S}variance v]", lambda v: [var(v)], [V6, SMALL, LARGE], {(0.5,) * 6: ([0], [0] * 6)}),
    "sample_variance": (
        f"\\v -> [{S}sample_variance v]",
        lambda v: [var(v, 1)],
        [V6, SMALL, LARGE],
        {(0.5,) * 6: ([0], [0] * 6)},
    ),
    "stddev": (f"\\v -> [{S}stddev v]", lambda v: [mp.sqrt(var(v))], [V6, LARGE], {}),
    "covariance": (f"\\v -> {PAIR}[{S}covariance xs ys]", lambda v: [covariance(v[:3], v[3:])], [V6, SMALL, LARGE], {}),
    "correlation": (
        f"\\v -> {PAIR}[{S}correlation xs ys]",
        lambda v: [covariance(v[:3], v[3:]) / mp.sqrt(var(v[:3]) * var(v[3:]))],
        [V6, LARGE[:3] + V6[3:], (1.0, 2.0, 3.0, 2.0, 4.0, 6.0)],
        {},
    ),
    "covariance_matrix": (
        f"\\v -> flatten ({S}covariance_matrix (unflatten (v :> [3*2]@)))",
        lambda v: [covariance(v[i::2], v[j::2]) for i in range(2) for j in range(2)],
        [V6, LARGE],
        {},
    ),
    "quantiles": (
        f"\\v -> {S}quantiles [0, 0.25, 0.6, 1] v",
        lambda v: [quantile(p, v) for p in (0, 0.25, 0.6, 1)],
        [V6],
        {},
    ),
    "quantile": (f"\\v -> [{S}quantile 0.3 v]", lambda v: [quantile(0.3, v)], [V6[:5]], {}),
    "median": (f"\\v -> [{S}median v]", lambda v: [quantile(0.5, v)], [V6, V6[:5]], {}),
}

# --- the prelude ---

BINS = "[0, 2, 0, -1, 2, 0]"


def binned(f: Callable[[Any, Any], Any], start: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
    def made(v: Sequence[Any]) -> list[Any]:
        out = list(start)
        for i, x in zip((0, 2, 0, -1, 2, 0), v, strict=True):
            if i >= 0:
                out[i] = f(out[i], x)
        return out

    return made


ONES, NOUGHTS = [mp.mpf(1)] * 3, [mp.mpf(0)] * 3
PRODUCTS = [V6, ZEROS, TWO_ZEROS]
PRELUDE: dict[str, Row] = {
    "sum": ("\\v -> [@.sum v]", lambda v: [mp.fsum(v)], [V6, SMALL, LARGE], {}),
    "product": ("\\v -> [@.product v]", lambda v: [fold(times, v)], PRODUCTS, {}),
    "maximum": ("\\v -> [@.maximum v]", lambda v: [max(v)], [V6], {TIED: ([3], [0, 1, 0, 0, 0, 0])}),
    "minimum": ("\\v -> [@.minimum v]", lambda v: [min(v)], [V6], {TIED: ([-2], [0, 0, 0, 1, 0, 0])}),
    "reduce": (
        "\\v -> [reduce (*) 1 v, reduce (+) 0 v, reduce @.max (-@.inf) v, reduce (\\a b -> a + b + a * b) 0 v]",
        lambda v: [fold(times, v), mp.fsum(v), max(v), fold(times, [1 + x for x in v]) - 1],
        PRODUCTS,
        {},
    ),
    "reduce_comm": (
        "\\v -> [reduce_comm (*) 1 v, reduce_comm (\\a b -> a + b + a * b) 0 v]",
        lambda v: [fold(times, v), fold(times, [1 + x for x in v]) - 1],
        PRODUCTS,
        {},
    ),
    "scan": (
        "\\v -> scan (*) 1 v ++ scan (\\a b -> a + b + a * b) 0 v ++ scan @.min @.inf v",
        lambda v: [*running(times, v), *[x - 1 for x in running(times, [1 + x for x in v])], *running(min, v)],
        PRODUCTS,
        {},
    ),
    "exscan": (
        "\\v -> exscan (*) 1 v ++ exscan (+) 0 v",
        lambda v: [1, *running(times, v)[:-1], 0, *running(lambda a, b: a + b, v)[:-1]],
        PRODUCTS,
        {},
    ),
    "hist": (
        f"\\v -> hist (*) 1 3 {BINS} (v :> [6]@) ++ hist (+) 0 3 {BINS} (v :> [6]@)"
        f" ++ hist @.max 0 3 {BINS} (v :> [6]@)",
        lambda v: [*binned(times, ONES)(v), *binned(lambda a, b: a + b, NOUGHTS)(v), *binned(max, NOUGHTS)(v)],
        [V6, (2.0, 0.0, -3.0, 0.5, 0.25, 4.0)],
        {},
    ),
    "reduce_by_index": (
        f"\\v -> reduce_by_index (replicate 3 2) (*) 1 {BINS} (v :> [6]@)"
        f" ++ reduce_by_index (replicate 3 1) (\\a b -> a + b + a * b) 0 {BINS} (v :> [6]@)",
        lambda v: [
            *binned(times, [mp.mpf(2)] * 3)(v),
            *[x - 1 for x in binned(times, [mp.mpf(2)] * 3)([1 + x for x in v])],
        ],
        [V6, (2.0, 0.0, -3.0, 0.5, 0.25, 4.0)],
        {},
    ),
    "reduce_by_index_2d": (
        f"\\v -> flatten (reduce_by_index_2d (replicate 3 (replicate 1 2)) (*) 1"
        f" (map (\\i -> (i, 0)) {BINS}) (v :> [6]@))",
        binned(times, [mp.mpf(2)] * 3),
        [V6, (2.0, 0.0, -3.0, 0.5, 0.25, 4.0)],
        {},
    ),
    "reduce_by_index_3d": (
        f"\\v -> flatten_3d (reduce_by_index_3d (replicate 1 (replicate 3 (replicate 1 2))) (*) 1"
        f" (map (\\i -> (0, i, 0)) {BINS}) (v :> [6]@))",
        binned(times, [mp.mpf(2)] * 3),
        [V6, (2.0, 0.0, -3.0, 0.5, 0.25, 4.0)],
        {},
    ),
    "foldl": (
        "\\v -> [foldl (\\a x -> a * x + x) 1 v]",
        lambda v: [fold(lambda a, x: a * x + x, [mp.mpf(1), *v])],
        PRODUCTS,
        {},
    ),
    "foldr": (
        "\\v -> [foldr (\\x a -> a * x + x) 1 v]",
        lambda v: [fold(lambda a, x: a * x + x, [mp.mpf(1), *v[::-1]])],
        PRODUCTS,
        {},
    ),
    "iterate": (
        "\\v -> iterate 3 (map (\\x -> x * x - 1)) v",
        lambda v: [((x * x - 1) ** 2 - 1) ** 2 - 1 for x in v],
        [V6, ZEROS],
        {},
    ),
    "iterate_while": ("\\v -> [iterate_while (< 10) (\\x -> x * x) v[3]]", lambda v: [v[3] ** 4], [V6], {}),
    "iterate_until": ("\\v -> [iterate_until (> 10) (\\x -> x * x) v[3]]", lambda v: [v[3] ** 4], [V6], {}),
    "map": (
        "\\v -> map (\\x -> x * x) v ++ map1 (* 2) v ++ map2 (*) v v"
        " ++ map3 (\\a b c -> a * b + c) v v v ++ map4 (\\a b c d -> a * b * c * d) v v v v"
        " ++ map5 (\\a b c d e -> a * b * c - d * e) v v v v v",
        lambda v: [
            x
            for f in (
                lambda x: x * x,
                lambda x: 2 * x,
                lambda x: x * x,
                lambda x: x * x + x,
                lambda x: x**4,
                lambda x: x**3 - x * x,
            )
            for x in map(f, v)
        ],
        [V6, ZEROS],
        {},
    ),
}
