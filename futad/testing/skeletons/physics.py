# ruff: noqa: E501 (programs read better unbroken)
"""Simulation and estimation: particles in cells, filters, beams, stencils with buffers that change places, bodies."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program

X = Param("x", ("n",))


def particles(g: Gen) -> Program:
    """Charges put on a grid, a field from it, particles moved by the field; some iterations."""
    k = g.r.randint(1, 4)
    cells = g.c(f"map (\\i -> (i * 3 + s) % {k}) (iota n)", f"map2 (\\c i -> (c + i) % {k}) cell (iota n)", "cell")
    deposit = g.c(f"reduce_by_index (replicate {k} 0) (+) 0 cs (map (\\p -> {g.mix('p')}) pos)",
                  f"(loop (grid: *[{k}]t) = replicate {k} 0.1 for i < n do grid with [cs[i]] = grid[cs[i]] + {g.mix('pos[i]')})",
                  "reduce_by_index (copy field) (+) 0 cs pos")  # fmt: skip
    solve = g.c(f"tabulate {k} (\\i -> {g.mix('rho[i]', f'rho[(i + 1) % {k}]')})", "scan (+) 0 rho",
                f"(loop (e: *[{k}]t) = copy rho for i < {k} do e with [i] = {g.mix('e[i]', f'e[(i + {k} - 1) % {k}]')})")  # fmt: skip
    push = g.mix("p", "v", "field[c]")
    move = g.mix("p", "v", sharp=0)
    body = (f"  let (pos, vel, field) : ([n]t, [n]t, [{k}]t) =\n   loop (pos: [n]t, vel: [n]t, field: [{k}]t) = (x, y, replicate {k} 0.2) for s < {g.c(1, 2, 3)} do\n"
            f"    let cs = {cells} in\n    let rho : [{k}]t = {deposit} in\n    let field : [{k}]t = {solve} in\n"
            f"    let vel = map3 (\\p v c -> {push}) pos vel cs in\n    (map2 (\\p v -> {move}) pos vel, vel, field)\n  in (pos, vel, field)")  # fmt: skip
    params = [X, Param("y", ("n",))]
    if "cell" in cells:
        params.append(Param("cell", ("n",), k))
    return g.program("particles", params, [("n",), ("n",), (k,)], body)


def kalman(g: Gen) -> Program:
    """A filter of two states: predicted and corrected in records, in small arrays in place, or in matrices."""
    if g.p(0.5):
        hist = g.p(0.5)
        body = (f"  loop (m: [2]t, c: *[2][2]t{', hs: *[n]t' if hist else ''}) = ([0.1, {g.number()}], [[1, 0.1], [0.1, 1.5]]{', replicate n 0' if hist else ''}) for i < n do\n"
                f"    let m = [m[0] + 0.3 * m[1], {g.mix('m[1]', 'm[0]', sharp=0)}] in\n"
                f"    let p = {g.c('tabulate_2d 2 2 (%a b -> c[a, b] + 0.2 * c[b, a] + (if a == b then 0.1 else 0))', 'map (map (* 1.1)) c')} in\n"
                f"    let s = p[0, 0] + 0.7 + w * w in let k0 = p[0, 0] / s in let k1 = p[1, 0] / s in let e = x[i] - m[0] in\n"
                f"    let c : *[2][2]t = copy p in\n    let c = c with [0, 0] = (1 - k0) * p[0, 0] with [1, 1] = p[1, 1] - k1 * p[0, 1] in\n"
                f"    let c = c with [0, 1] = {g.c('(1 - k0) * c[0, 1]', 'c[0, 1] - k0 * p[0, 1]')} in let c = c with [1, 0] = c[0, 1] in\n"
                f"    ([m[0] + k0 * e, m[1] + k1 * e], c{', hs with [' + g.saved('i', 'n') + '] = e' if hist else ''})").replace("%a", "\\a")  # fmt: skip
        return g.program("kalman", [X, Param("w")], [(2,), (2, 2), ("n",)] if hist else [(2,), (2, 2)], body)
    d = g.r.randint(1, 3)
    body = (f"  loop (m: [{d}]t, c: [{d}][{d}]t) = (replicate {d} {g.number()}, tabulate_2d {d} {d} (\\i j -> if i == j then 1.3 else 0.1)) for i < n do\n"
            f"    let m = map (\\r -> small (t.sum (map2 (*) r m))) o in\n"
            f"    let p = map (\\r -> map (\\q -> 0.5 * t.sum (map2 (*) r q) + 0.2) {g.c('c', 'o', '(transpose c)')}) c in\n"
            f"    let s = 1.1 + p[0, 0] * p[0, 0] in let g = map (\\r -> r[0] / s) p in let e = x[i] - m[0] in\n"
            f"    (map2 (\\a b -> a + b * e) m g, map2 (\\r q -> map2 (\\u v -> small (u - q * v)) r p[0]) p g)")  # fmt: skip
    return g.program("kalman", [X, Param("o", (d, d))], [(d,), (d, d)], body)


def beam(g: Gen) -> Program:
    """The k best of all continuations, kept in small arrays by insertion in place."""
    g.smooth = False
    k = g.r.randint(1, 3)
    grow = g.mix("s[b]", "x[i, a]", sharp=0)
    soft = g.c("", " * 0.9 + 0.05")
    body = (f"  loop (s: *[{k}]t) = tabulate {k} (\\b -> 0.1 * t.i64 b + {g.number()}) for i < n do\n"
            f"    let o = {g.c('copy s', 's')} in\n"
            f"    let best : *[{k}]t = loop (best: *[{k}]t) = replicate {k} (-9) for b < {k} do loop (best: *[{k}]t) = best for a < m do\n"
            f"      let v = {grow.replace('s[b]', 'o[b]')} in\n"
            f"      (loop (best: *[{k}]t, v) = (best, v) for q < {k} do if v > best[q] then (let w = best[q] in (best with [q] = v, w)) else (best, v)).0\n"
            f"    in map (\\z -> small z{soft}) best")  # fmt: skip
    return g.program("beam", [Param("x", ("n", "m"))], [(k,)], body)


def stencil(g: Gen) -> Program:
    """Waves and reactions on a line or grid, of two or three buffers that change places."""
    if g.p(0.5):
        f = g.mix("a[i]", "a[(i + 1) % n]", "a[(i + n - 1) % n]", "b[i]", "v[i]" if g.p(0.5) else "w")
        new = g.c(f"tabulate n (\\i -> {f})", f"(loop (o: *[n]t) = {g.c('copy b', 'replicate n 0')} for i < n do o with [i] = {f})")
        third = g.p(0.3)
        if third:
            body = (f"  let (a, b, c) : ([n]t, [n]t, [n]t) = loop (a: [n]t, b: [n]t, c: [n]t) = (x, v, map (* 0.5) x) for r < {g.c(1, 2, 3)} do\n"
                    f"    let o : [n]t = {new} in ({g.c('o, a, b', 'o, a, c', 'c, o, a', 'o, c, a')})\n  in map3 (\\p q z -> p + 0.3 * q - z) a b c")  # fmt: skip
        else:
            body = (f"  let (a, b) : ([n]t, [n]t) = loop (a: [n]t, b: [n]t) = (x, v) for r < {g.c(1, 2, 3)} do let o : [n]t = {new} in {g.c('(o, a)', '(o, a)', '(b, o)', '(o, b)', '(o, o)')}\n"
                    f"  in map2 (\\p q -> {g.mix('p', 'q')}) a b")  # fmt: skip
        return g.program("stencil", [X, Param("v", ("n",)), Param("w")], [("n",)], body)
    f = g.mix("u[i, j]", "u[(i + 1) % n, j]", "u[i, (j + m - 1) % m]", "v[i, j]")
    h = g.mix("u[i, j]", "v[i, j]", "v[(i + n - 1) % n, (j + 1) % m]")
    second = g.c("u", "o")
    body = (f"  loop (u: [n][m]t, v: [n][m]t) = (x, y) for r < {g.c(1, 2)} do\n    let o : [n][m]t = tabulate_2d n m (\\i j -> {f}) in\n"
            f"    let w : [n][m]t = {g.c('tabulate_2d n m (%i j -> ' + h.replace('u[', second + '[') + ')', 'loop (v: *[n][m]t) = copy v for i < n do loop (v: *[n][m]t) = v for j < m do v with [i, j] = ' + h.replace('u[', second + '['))} in\n"
            f"    {g.c('(o, w)', '(w, o)')}").replace("%i", "\\i")  # fmt: skip
    return g.program("stencil", [Param("x", ("n", "m")), Param("y", ("n", "m"))], [("n", "m"), ("n", "m")], body)


def bodies(g: Gen) -> Program:
    """All pairs: forces by a map of sums, or by a loop over pairs that updates both."""
    force = g.c("(q - p) / (0.5 + (q - p) * (q - p))", g.mix("p", "q", sharp=0))
    if g.p(0.5):
        acc = f"map (\\p -> t.sum (map (\\q -> {force}) x)) x"
    else:
        acc = (f"loop (f: *[n]t) = replicate n 0 for i < n do loop (f: *[n]t) = f for k < n - 1 - i do\n      let j = i + 1 + k in let p = x[i] in let q = x[j] in let e = {force} in\n"
               f"      {g.c('f with [i] = f[i] + e with [j] = f[j] - e', 'f with [j] = f[j] - e with [i] = f[i] + e', 'let f = f with [i] = f[i] + e in f with [j] = f[j] - e')}")  # fmt: skip
    body = (f"  loop (x: [n]t, v: [n]t) = (x, v) for r < {g.c(1, 2)} do\n    let a : [n]t = {acc} in\n    let v = map2 (\\p q -> p + 0.1 * q) v a in\n"
            f"    (map2 (\\p q -> {g.c('p + 0.1 * q', g.mix('p', 'q'))}) x v, v)")  # fmt: skip
    return g.program("bodies", [X, Param("v", ("n",))], [("n",), ("n",)], body)


def clusters(g: Gen) -> Program:
    """Points assigned to the nearest centre, centres moved; hard or soft."""
    k = g.r.randint(1, 3)
    g.smooth = False
    if g.p(0.6):
        near = f"map (\\p -> (loop (b, d) = (0, 99) for c < {k} do let e = (p - cs[c]) * (p - cs[c]) in if e < d then (c, e) else (b, d)).0) x"
        sums = g.c(f"reduce_by_index (replicate {k} 0) (+) 0 near x", f"(loop (s: *[{k}]t) = replicate {k} 0 for i < n do s with [near[i]] = s[near[i]] + x[i])",
                   f"map (\\c -> t.sum (map2 (\\b p -> if b == c then p else 0) near x)) (iota {k})")  # fmt: skip
        body = (f"  loop (cs: [{k}]t) = y for r < 2 do\n    let near = {near} in\n    let sums : [{k}]t = {sums} in\n"
                f"    let counts : [{k}]i64 = reduce_by_index (replicate {k} 0) (+) 0 near (replicate n 1) in\n    map3 (\\s m c -> (s + c) / (t.i64 m + 1)) sums counts cs")  # fmt: skip
    else:
        body = (f"  loop (cs: [{k}]t) = y for r < 2 do\n    let w = map (\\p -> let e = map (\\c -> t.exp (-((p - c) * (p - c)))) cs in let s = t.sum e in map (/ s) e) x in\n"
                f"    map2 (\\c u -> (c + t.sum (map2 (*) u x)) / (1 + t.sum u)) cs (transpose w)")  # fmt: skip
    return g.program("clusters", [X, Param("y", (k,))], [(k,)], body)


FAMILIES = [particles, kalman, beam, stencil, bodies, clusters]
