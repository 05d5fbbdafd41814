"""The functions of futad/linalg, each with its oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp

from tests.support.oracle_array_table import A3, B3, LARGE, PAIR, V6, X3, Row, flat, matrix, times
from tests.support.oracle_arrays import Vector

# --- futad/linalg ---

LA = "linalg_@."
SPD: Vector = (4.0, 1.0, -0.5, 1.0, 3.0, 0.25, -0.5, 0.25, 2.0)
PIVOT: Vector = (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, 1.0, -2.0, 0.25)
DIAGONAL: Vector = (3.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, -2.0)
WIDE: Vector = (1e-6, 2.0, 3.0, 4.0, 1e5, 6.0, -7.0, 8.0, 1.0)
MA = "let a = unflatten (v[:9] :> [3*3]@) in "
MB = "let v = v :> [18]@ let a = unflatten (v[:9] :> [3*3]@) let b = unflatten (v[9:] :> [3*3]@) in "
MX = "let v = v :> [12]@ let a = unflatten (v[:9] :> [3*3]@) let x = v[9:] :> [3]@ in "


def sym(a: Any) -> Any:
    """The symmetric matrix whose lower triangle this is."""
    return mp.matrix([[a[max(i, j), min(i, j)] for j in range(a.cols)] for i in range(a.rows)])


def tri(a: Any, keep: Callable[[int, int], bool], unit: bool = False) -> Any:
    return mp.matrix(
        [[1 if unit and i == j else a[i, j] if keep(i, j) else 0 for j in range(a.cols)] for i in range(a.rows)]
    )


def low(a: Any) -> Any:
    return tri(a, lambda i, j: i >= j)


def high(a: Any) -> Any:
    return tri(a, lambda i, j: i <= j)


def chol(a: Any) -> Any:
    n = a.rows
    out = mp.zeros(n)
    for j in range(n):
        for i in range(j, n):
            s = a[i, j] - mp.fsum([out[i, k] * out[j, k] for k in range(j)])
            out[i, j] = mp.sqrt(s) if i == j else s / out[j, j]
    return out


def many(a: Any, b: Any) -> Any:
    return a**-1 * b


def qr_of(a: Any) -> tuple[Any, Any]:
    """With R's diagonal above 0."""
    r = chol(a.T * a).T
    return a * r**-1, r


def lu_of(a: Any) -> tuple[Any, list[int]]:
    n, a, order = a.rows, a.copy(), list(range(a.rows))
    for j in range(n):
        p = max(range(j, n), key=lambda i: (abs(a[i, j]), -i))
        for k in range(n):
            a[j, k], a[p, k] = a[p, k], a[j, k]
        order[j], order[p] = order[p], order[j]
        for i in range(j + 1, n):
            a[i, j] /= a[j, j]
            for k in range(j + 1, n):
                a[i, k] -= a[i, j] * a[j, k]
    return a, order


def two_of(f: Callable[[Any, Any], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    return lambda v: flat(f(matrix(v[:9], 3, 3), matrix(v[9:], 3, 3)))


def with_x(f: Callable[[Any, Any], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    return lambda v: list(f(matrix(v[:9], 3, 3), mp.matrix(v[9:])))


def of_a(f: Callable[[Any], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    def made(v: Sequence[Any]) -> list[Any]:
        x = f(matrix(v[:9], 3, 3))
        return flat(x) if isinstance(x, mp.matrix) else [x]

    return made


AB: list[Vector] = [(*A3, *B3), (*DIAGONAL, *A3), (*PIVOT, *A3)]
AX: list[Vector] = [(*A3, *X3), (*DIAGONAL, *X3)]
SQUARE: list[Vector] = [A3, DIAGONAL, PIVOT]
TRIANGLES: list[Vector] = [(*A3, *X3), (*DIAGONAL, *X3), (*WIDE, *X3)]
TALL: Vector = (1.0, 2.0, -0.5, 0.25, 3.0, -0.75, -0.5, 1.25)


def symmetric_function(f: Callable[[Any], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    def made(v: Sequence[Any]) -> list[Any]:
        w, q = mp.eigsy(sym(matrix(v, 3, 3)))
        return flat(q * mp.diag([f(x) for x in w]) * q.T)

    return made


def singular(v: Sequence[Any]) -> list[Any]:
    a = matrix(v, 4, 2)
    return sorted([mp.sqrt(x) for x in mp.eigsy(a.T * a, eigvals_only=True)], reverse=True)


def polar(v: Sequence[Any]) -> list[Any]:
    a = matrix(v, 4, 2)
    w, q = mp.eigsy(a.T * a)
    return flat(a * q * mp.diag([1 / mp.sqrt(x) for x in w]) * q.T)


LINALG: dict[str, Row] = {
    "dot": (f"\\v -> {PAIR}[{LA}dot xs ys]", lambda v: [mp.fsum(map(times, v[:3], v[3:]))], [V6, (0.0,) * 6], {}),
    "outer": (f"\\v -> {PAIR}flatten ({LA}outer xs ys)", lambda v: [a * b for a in v[:3] for b in v[3:]], [V6], {}),
    "matvec": (f"\\v -> {MX}{LA}matvec a x", with_x(lambda a, x: a * x), AX, {}),
    "vecmat": (f"\\v -> {MX}{LA}vecmat x a", with_x(lambda a, x: a.T * x), AX, {}),
    "matmul": (f"\\v -> {MB}flatten ({LA}matmul a b)", two_of(lambda a, b: a * b), AB, {}),
    "matadd": (f"\\v -> {MB}flatten ({LA}matadd a b)", two_of(lambda a, b: a + b), AB, {}),
    "matsub": (f"\\v -> {MB}flatten ({LA}matsub a b)", two_of(lambda a, b: a - b), AB, {}),
    "diagonal": (f"\\v -> {MA}{LA}diagonal a", lambda v: [v[0], v[4], v[8]], SQUARE, {}),
    "from_diagonal": (f"\\v -> flatten ({LA}from_diagonal v)", lambda v: flat(mp.diag(v)), [X3], {}),
    "trace_of": (f"\\v -> {MA}[{LA}trace_of a]", lambda v: [v[0] + v[4] + v[8]], SQUARE, {}),
    "norm": (
        f"\\v -> [{LA}norm v]",
        lambda v: [mp.sqrt(mp.fsum([x * x for x in v]))],
        [V6, LARGE, (0.0, 0.0, 3.0, 0.0)],
        {},
    ),
    "frobenius": (f"\\v -> {MA}[{LA}frobenius a]", lambda v: [mp.sqrt(mp.fsum([x * x for x in v]))], SQUARE, {}),
    "lower": (f"\\v -> {MA}flatten ({LA}lower a)", of_a(low), SQUARE, {}),
    "upper": (f"\\v -> {MA}flatten ({LA}upper a)", of_a(high), SQUARE, {}),
    "solve_lower": (f"\\v -> {MX}{LA}solve_lower a x", with_x(lambda a, x: many(low(a), x)), TRIANGLES, {}),
    "solve_lower_t": (f"\\v -> {MX}{LA}solve_lower_t a x", with_x(lambda a, x: many(low(a).T, x)), TRIANGLES, {}),
    "solve_upper": (f"\\v -> {MX}{LA}solve_upper a x", with_x(lambda a, x: many(high(a), x)), TRIANGLES[:2], {}),
    "solve_upper_t": (f"\\v -> {MX}{LA}solve_upper_t a x", with_x(lambda a, x: many(high(a).T, x)), TRIANGLES[:2], {}),
    "solve_lower_many": (
        f"\\v -> {MB}flatten ({LA}solve_lower_many a b)",
        two_of(lambda a, b: many(low(a), b)),
        AB[:2],
        {},
    ),
    "solve_lower_t_many": (
        f"\\v -> {MB}flatten ({LA}solve_lower_t_many a b)",
        two_of(lambda a, b: many(low(a).T, b)),
        AB[:2],
        {},
    ),
    "solve_upper_many": (
        f"\\v -> {MB}flatten ({LA}solve_upper_many a b)",
        two_of(lambda a, b: many(high(a), b)),
        AB[:2],
        {},
    ),
    "solve_upper_t_many": (
        f"\\v -> {MB}flatten ({LA}solve_upper_t_many a b)",
        two_of(lambda a, b: many(high(a).T, b)),
        AB[:2],
        {},
    ),
    "cholesky": (
        f"\\v -> {MA}flatten ({LA}cholesky a)",
        of_a(lambda a: chol(sym(a))),
        [SPD, (4.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 2.0)],
        {},
    ),
    "cholesky_solve": (
        f"\\v -> {MX}{LA}cholesky_solve a x",
        with_x(lambda a, x: many(low(a) * low(a).T, x)),
        TRIANGLES[:2],
        {},
    ),
    "cholesky_solve_many": (
        f"\\v -> {MB}flatten ({LA}cholesky_solve_many a b)",
        two_of(lambda a, b: many(low(a) * low(a).T, b)),
        AB[:2],
        {},
    ),
    "cholesky_logdet": (
        f"\\v -> {MA}[{LA}cholesky_logdet a]",
        lambda v: [2 * mp.log(v[0] * v[4] * v[8])],
        [A3, SPD],
        {},
    ),
    "lu": (
        f"\\v -> {MA}let (f, rows) = {LA}lu a in flatten f ++ map @.i64 rows",
        lambda v: [*flat(lu_of(matrix(v, 3, 3))[0]), *lu_of(matrix(v, 3, 3))[1]],
        SQUARE,
        {},
    ),
    "lu_exchanges": (
        f"\\v -> {MA}let (f, _, ps) = {LA}lu_exchanges a in flatten f ++ map @.i64 ps",
        lambda v: [*flat(lu_of(matrix(v, 3, 3))[0]), *((1, 2, 2) if v[0] == 0 or abs(v[0]) < 1e-9 else (0, 1, 2))],
        SQUARE,
        {},
    ),
    "solve": (f"\\v -> {MX}{LA}solve a x", with_x(many), [*AX, (*PIVOT, *X3)], {}),
    "solve_many": (f"\\v -> {MB}flatten ({LA}solve_many a b)", two_of(many), AB, {}),
    "inv": (f"\\v -> {MA}flatten ({LA}inv a)", of_a(lambda a: a**-1), SQUARE, {}),
    "slogdet": (
        f"\\v -> {MA}let (s, l) = {LA}slogdet a in [s, l]",
        lambda v: [mp.sign(mp.det(matrix(v, 3, 3))), mp.log(abs(mp.det(matrix(v, 3, 3))))],
        SQUARE,
        {},
    ),
    "logdet": (f"\\v -> {MA}[{LA}logdet a]", lambda v: [mp.log(abs(mp.det(matrix(v, 3, 3))))], SQUARE, {}),
    "det": (f"\\v -> {MA}[{LA}det a]", lambda v: [mp.det(matrix(v, 3, 3))], SQUARE, {}),
    "qr": (
        f"\\v -> let a = unflatten (v :> [4*2]@) let (q, r) = {LA}qr a let s = map @.sgn ({LA}diagonal r)\n"
        "    in flatten (map (map2 (*) s) q) ++ flatten (map2 (\\s row -> map (s *) row) s r)",
        lambda v: [*flat(qr_of(matrix(v, 4, 2))[0]), *flat(qr_of(matrix(v, 4, 2))[1])],
        [TALL, (2.0, 1.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0), (0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0)],
        {},
    ),
    "lstsq": (
        f"\\v -> let v = v :> [12]@ in {LA}lstsq (unflatten (v[:8] :> [4*2]@)) (v[8:] :> [4]@)",
        lambda v: list(many(matrix(v[:8], 4, 2).T * matrix(v[:8], 4, 2), matrix(v[:8], 4, 2).T * mp.matrix(v[8:]))),
        [(*TALL, 1.0, -2.0, 0.5, 3.0)],
        {},
    ),
    "eigh": (
        f"\\v -> {MA}let (w, q) = {LA}eigh a in"
        f" w ++ flatten ({LA}matmul (map (map2 (\\x y -> @.exp x * y) w) q) (transpose q))",
        lambda v: [*sorted(mp.eigsy(sym(matrix(v, 3, 3)), eigvals_only=True)), *symmetric_function(mp.exp)(v)],
        [SPD, A3, DIAGONAL],
        {},
    ),
    "svd": (
        f"\\v -> let (u, s, vt) = {LA}svd (unflatten (v :> [4*2]@)) in s ++ flatten ({LA}matmul u vt)",
        lambda v: [*singular(v), *polar(v)],
        [TALL, (2.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0)],
        {},
    ),
}
