# ruff: noqa: E501 (programs read better unbroken)
"""Linear algebra in place: factorisations, substitutions, relaxations, rotations."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program

A = Param("a", ("n", "n"))
B = Param("v", ("n",))
M = "*[n][n]t"


def _dominant(g: Gen) -> str:
    """`a` made such that no pivot is small."""
    return g.c("tabulate_2d n n (\\i j -> small a[i, j] + (if i == j then t.i64 n + 1 else 0))",
               "map2 (\\i r -> map2 (\\j z -> if i == j then 2 + t.i64 n + t.sin z else small z) (iota n) r) (iota n) a",
               "(let m = map (map small) a in loop (m: *[n][n]t) = m for i < n do m with [i, i] = m[i, i] + t.i64 n + 1)")  # fmt: skip


def lu(g: Gen) -> Program:
    """Elimination in place, by elements, by rows or by columns; mostly the determinant or the factors."""
    kind = g.r.randrange(4)
    if kind == 0:
        inner = (f"loop (m: {M}) = m for i < n - 1 - k do\n      let i = {g.c('i + k + 1', 'n - 1 - i')} in\n      let f = m[i, k] / m[k, k] in\n"
                 f"      let m : {M} = {g.c('m with [i, k] = f', 'm')} in\n      loop (m: {M}) = m for q < n - 1 - k do let j = k + 1 + q in m with [i, j] = m[i, j] - f * m[k, j]")  # fmt: skip
    elif kind == 1:
        inner = (f"loop (m: {M}) = m for q < n - 1 - k do\n      let i = k + 1 + q in\n      let f = m[i, k] / m[k, k] in\n"
                 f"      let row : [n]t = map2 (\\p r -> p - f * r) m[i] m[k] in m with [i] = {g.c('row', '(row with [k] = f)')}")  # fmt: skip
    elif kind == 2:
        inner = "tabulate_2d n n (\\i j -> if i > k && j >= k then m[i, j] - m[i, k] * m[k, j] / m[k, k] else m[i, j])"
    else:
        inner = (f"let c : [n]t = map (\\i -> if i > k then m[i, k] / m[k, k] else 0) (iota n) in\n      let r = copy m[k] in\n"
                 f"      loop (m: {M}) = m for j < n do m with [:, j] = map3 (\\z f i -> if i > k then z - f * r[j] else z) m[:, j] c (iota n)")  # fmt: skip
    body = f"  let m : [n][n]t = loop (m: {M}) = {_dominant(g)} for k < n do\n    {inner}\n  in "
    out, shape = g.c(("m", ("n", "n")), ("t.product (map (\\i -> 0.3 * m[i, i]) (iota n))", ()),
                     ("map2 (\\i z -> m[i, n - 1 - i] * z) (iota n) v", ("n",)))  # fmt: skip
    return g.program("lu", [A, B], [shape], body + out)


def substitution(g: Gen) -> Program:
    """Triangular systems, forwards and backwards, the solution in place of the right side."""
    first = "m[i, j] * x[j]" if g.p(0.7) else g.mix("m[i, j]", "x[j]")
    down = (f"loop (x: *[n]t) = {g.copied('v', True)} for i < n do\n    let s = {g.c('loop s = x[i] for j < i do s - ' + first, 'x[i] - t.sum (tabulate i (%j -> ' + first + '))')} in x with [i] = s / m[i, i]")
    up = (f"loop (x: *[n]t) = {g.c('copy x', 'map small x')} for q < n do\n    let i = n - 1 - q in\n"
          f"    let s = loop s = x[i] for p < q do let j = n - 1 - p in s - m[i, j] * x[j] in x with [i] = s / m[i, i]")
    # column by column
    if g.p(0.35):
        down = (f"loop (x: *[n]t) = {g.copied('v', True)} for j < n do\n    let x : *[n]t = x with [j] = x[j] / m[j, j] in\n"
                f"    loop (x: *[n]t) = x for q < n - 1 - j do let i = j + 1 + q in x with [i] = x[i] - m[i, j] * x[j]")
    body = f"  let m : [n][n]t = {_dominant(g)} in\n  let x : [n]t = {down} in\n".replace("%j", "\\j")
    return g.program("substitution", [A, B], [("n",)], body + (f"  {up}" if g.p(0.6) else "  x"))


def cholesky(g: Gen) -> Program:
    """In place in the lower triangle, by rows or by columns."""
    spd = "tabulate_2d n n (\\i j -> 0.3 * t.sum (map2 (*) a[i] a[j]) + (if i == j then 1.5 else 0))"
    if g.p(0.5):
        inner = (f"loop (m: {M}) = m for j < i + 1 do\n      let s = loop s = m[i, j] for k < j do s - m[i, k] * m[j, k] in\n"
                 f"      m with [i, j] = if i == j then t.sqrt s else s / m[j, j]")  # fmt: skip
        body = f"loop (m: {M}) = {spd} for i < n do\n    {inner}"
    else:
        inner = (f"let d = t.sqrt m[k, k] in\n    let m : {M} = m with [k, k] = d in\n"
                 f"    let m : {M} = loop (m: {M}) = m for q < n - 1 - k do m with [k + 1 + q, k] = m[k + 1 + q, k] / d in\n"
                 f"    loop (m: {M}) = m for q < n - 1 - k do let j = k + 1 + q in\n"
                 f"      loop (m: {M}) = m for p < n - j do let i = j + p in m with [i, j] = m[i, j] - m[i, k] * {g.c('m[j, k]', 'copy m[j, k]')}")  # fmt: skip
        body = f"loop (m: {M}) = {spd} for k < n do\n    {inner}"
    out, shape = g.c(("m", ("n", "n")), ("t.sum (map (\\i -> t.log (0.1 + m[i, i])) (iota n))", ()))
    return g.program("cholesky", [A], [shape], f"  let m : [n][n]t = {body}\n  in {out}")


def givens(g: Gen) -> Program:
    """Rotations of two rows: both are written from the old values of both."""
    order = g.c("let p = map2 (\\x y -> c * x + s * y) m[k] m[i] in let q = map2 (\\x y -> c * y - s * x) m[k] m[i] in",
                "let q : [n]t = map2 (\\x y -> c * y - s * x) m[k] m[i] in let p : [n]t = map2 (\\x y -> c * x + s * y) m[k] m[i] in",
                "let o = copy m[k] in let e = copy m[i] in let p = map2 (\\x y -> c * x + s * y) o e in let q = map2 (\\x y -> c * y - s * x) o e in")  # fmt: skip
    write = g.c("m with [k] = p with [i] = q", "m with [i] = q with [k] = p")
    angle = g.c("let r = t.sqrt (m[k, k] * m[k, k] + m[i, k] * m[i, k] + 0.01) in let c = m[k, k] / r in let s = m[i, k] / r in",
                "let c = t.cos m[i, k] in let s = t.sin m[i, k] in")  # fmt: skip
    if g.p(0.35):
        rot = (f"loop (m: {M}) = m for j < n do let x = m[k, j] in let y = m[i, j] in\n"
               f"        {g.c('m with [k, j] = c * x + s * y with [i, j] = c * y - s * x', 'm with [i, j] = c * y - s * x with [k, j] = c * x + s * y')}")  # fmt: skip
    else:
        rot = f"{order}\n        {write}"
    loops = "for q < n - 1 - k do\n      let i = " + g.c("k + 1 + q", "n - 1 - q") + " in"
    if g.p(0.3):
        loops = "for q < n - 1 do\n      let i = (k + 1 + q) % n in"
    body = f"  loop (m: {M}) = {g.c('copy a', _dominant(g))} for k < n do\n    loop (m: {M}) = m {loops}\n        {angle}\n        {rot}"
    return g.program("givens", [A], [("n", "n")], body)


def householder(g: Gen) -> Program:
    """Reflections of the columns, or of the rows, that remain."""
    size = g.c("n", "m")
    params = [Param("a", ("n", "m"))]
    apply = g.c("loop (r: *[n][m]t) = r for j < m do let s = 2 * t.sum (map2 (*) u r[:, j]) / w in r with [:, j] = map2 (\\z y -> z - s * y) r[:, j] u",
                "let s : [m]t = map (\\c -> 2 * t.sum (map2 (*) u c) / w) (transpose r) in map2 (\\row y -> map2 (\\z q -> z - q * y) row s) r u",
                "loop (r: *[n][m]t) = r for j < m do let s = (loop s = 0 for i < n do s + u[i] * r[i, j]) * 2 / w in loop (r: *[n][m]t) = r for i < n do r with [i, j] = r[i, j] - s * u[i]")  # fmt: skip
    sign = "1" if g.p(0.6) else "(if r[k, k] < 0 then -1 else 1)"
    if sign != "1":
        g.smooth = False
    body = (f"  let r : [n][m]t = loop (r: *[n][m]t) = copy a for k < i64.min n m do\n"
            f"    let norm = t.sqrt (0.2 + t.sum (map (\\i -> if i < k then 0 else r[i, k] * r[i, k]) (iota n))) in\n"
            f"    let u : [n]t = tabulate n (\\i -> if i < k then 0 else if i == k then r[i, k] + {sign} * norm else r[i, k]) in\n"
            f"    let w = 0.3 + t.sum (map (\\z -> z * z) u) in\n    {apply}\n  in ")  # fmt: skip
    out, shape = g.c(("r", ("n", "m")), (f"map t.sum {'r' if size == 'n' else '(transpose r)'}", (size,)))
    return g.program("householder", params, [shape], body + out)


def relaxation(g: Gen) -> Program:
    """Gauss-Seidel, Jacobi, successive over-relaxation: on a system, a line or a grid."""
    kind = g.r.randrange(4)
    omega = g.c("1", "0.8", "1.2", "v[i]" if kind < 2 else "0.9")
    iterations = g.c("2", "3", "n")
    if kind == 0:
        order = g.c("let i = q in ", "let i = n - 1 - q in ", "let i = (q * 2) % n in ")
        s = g.c("loop s = v[i] for j < n do if j == i then s else s - m[i, j] * x[j]", "v[i] - t.sum (map2 (*) m[i] x) + m[i, i] * x[i]")
        body = (f"  let m : [n][n]t = {_dominant(g)} in\n  loop (x: *[n]t) = {g.c('replicate n 0', 'copy v')} for r < {iterations} do\n"
                f"    loop (x: *[n]t) = x for q < n do {order}let s = {s} in x with [i] = x[i] + {omega} * (s / m[i, i] - x[i])")  # fmt: skip
        return g.program("relaxation", [A, B], [("n",)], body)
    if kind == 1:
        f = g.mix("x[(i + n - 1) % n]", "x[(i + 1) % n]", "x[i]", "v[i]")
        step = g.c(f"loop (x: *[n]t) = x for i < n do x with [i] = {f}", f"tabulate n (\\i -> {f})",
                   f"loop (x: *[n]t) = x for c < 2 do loop (x: *[n]t) = x for h < (n + 1 - c) / 2 do let i = 2 * h + c in x with [i] = {f}")  # fmt: skip
        return g.program("relaxation", [B], [("n",)], f"  loop (x: *[n]t) = copy v for r < {iterations} do {step}")
    p = Param("u", ("n", "m"))
    f = g.mix("x[i - 1, j]", "x[i + 1, j]", "x[i, j - 1]", "x[i, j + 1]", "u[i, j]")
    if kind == 2:
        oi, oj = g.c("p + 1", "n - 2 - p"), g.c("q + 1", "m - 2 - q")
        body = (f"  loop (x: *[n][m]t) = copy u for r < 2 do\n    loop (x: *[n][m]t) = x for p < n - 2 do\n      loop (x: *[n][m]t) = x for q < m - 2 do\n"
                f"        let i = {oi} in let j = {oj} in x with [i, j] = x[i, j] + {g.c('1', '0.7')} * ({f} - x[i, j])")  # fmt: skip
        return g.program("relaxation", [p], [("n", "m")], body)
    body = (f"  let (x, y) : ([n][m]t, [n][m]t) =\n   loop (x: *[n][m]t, y: *[n][m]t) = (copy u, {g.c('copy u', 'replicate n (replicate m 0)')}) for r < {g.c('2', '3')} do\n"
            f"    let y : *[n][m]t = {g.c('tabulate_2d n m (%i j -> if i == 0 || j == 0 || i == n - 1 || j == m - 1 then x[i, j] else ' + f + ')', 'loop (y: *[n][m]t) = y for p < n - 2 do loop (y: *[n][m]t) = y for q < m - 2 do let i = p + 1 in let j = q + 1 in y with [i, j] = ' + f)} in\n"
            f"    {g.c('(y, x)', '(y, x)', '(copy y, y)')}\n  in map2 (map2 (\\p q -> p + 0.5 * q)) x y").replace("%i", "\\i")  # fmt: skip
    return g.program("relaxation", [p], [("n", "m")], body)


def powers(g: Gen) -> Program:
    """Power iteration, Gram-Schmidt in place, and products of a matrix with itself."""
    if g.p(0.5):
        body = (f"  loop (q: *[n][m]t) = {g.c('copy a', 'map (map t.sin) a')} for i < n do\n"
                f"    let q : *[n][m]t = loop (q: *[n][m]t) = q for j < i do\n      let s = t.sum (map2 (*) q[i] {g.c('q[j]', 'a[j]')}) in\n"
                f"      q with [i] = {g.c('map2 (%x y -> x - s * y) q[i] q[j]', 'map2 (%y x -> x - s * y) q[j] q[i]')} in\n"
                f"    let w = t.sqrt (0.3 + t.sum (map (\\z -> z * z) q[i])) in q with [i] = map (/ w) q[i]").replace("%x", "\\x").replace("%y", "\\y")  # fmt: skip
        return g.program("powers", [Param("a", ("n", "m"))], [("n", "m")], body)
    norm = g.c("t.sqrt (0.1 + t.sum (map (\\z -> z * z) y))", "(1 + t.sum (map (\\z -> t.abs z) y))", "1.7")
    keep = g.p(0.5)
    body = (f"  loop (x: [n]t{', hs: *[3][n]t' if keep else ''}) = {'(v, replicate 3 (replicate n 0))' if keep else 'v'} for r < 3 do\n"
            f"    let y : [n]t = map (\\row -> t.sum (map2 (*) row x)) {g.c('a', '(transpose a)')} in let w = {norm} in let x = map (/ w) y in {'(x, hs with [r] = x)' if keep else 'x'}")  # fmt: skip
    return g.program("powers", [A, B], [("n",), (3, "n")] if keep else [("n",)], body)


FAMILIES = [lu, substitution, cholesky, givens, householder, relaxation, powers]
