# ruff: noqa: E501 (programs read better unbroken)
"""Functions that can be undone: leapfrog and coupling steps, integers that are mixed, permutations; loops of them under
budgets, `invert` of them, loops that write each element once; sequences of products and of cells."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program


def _coupled(g: Gen, arrays: bool) -> str:
    """Some steps that change one of x and y by a function of the other, c and i; what is done to integers beside."""
    out = ""
    for _ in range(g.r.randint(1, 3)):
        a, b = g.c(("x", "y"), ("y", "x"))
        f = g.mix(b, "c", g.c("0.3", "t.i64 i * 0.1"))
        kind = g.r.randrange(6)
        sign = g.c("+", "-")
        if kind <= 2:
            step = f"{a} {sign} {f}"
        elif kind == 3:
            step = f"{a} * (1.1 + small {f})"
        elif kind == 4:
            step = f"{a} / (1.2 + t.sin {f} * 0.4) {sign} 0.1"
        else:
            step = f"{g.number()} - {a} {sign} {f}"
        if arrays:
            lets = g.c(f"map3 (\\x y c -> {step}) x y cs", f"map3 (\\x y c -> {step}) x {g.c('y', '(rotate 1 y)', '(reverse y)')} cs" if a == "x" else f"map3 (\\x y c -> {step}) (rotate (-1) x) y cs")
            out += f"let {a} = {lets} in "
            if g.p(0.2):
                out += f"let {a} = {g.c('reverse', 'rotate 1', 'rotate (-2)')} {a} in "
        else:
            out += f"let {a} = {step} in "
        if g.p(0.2):
            out += "let (x, y) = (y, x) in "
    return out


def _budget(g: Gen) -> str:
    return g.c("", "", "#[reversible(1e-7)] ", "#[reversible(exact)] ", "#[checkpoint] ", "#[checkpoint(2)] ", "#[checkpoint(reruns=1)] ")


def coupled(g: Gen) -> Program:
    """Loops of steps that can be undone, of numbers or arrays, with words beside; there and back by `invert`."""
    arrays = g.p(0.5)
    step = _coupled(g, arrays)
    ty = "[n]t" if arrays else "t"
    sizes = "[n] " if arrays else ""
    cparam = "(cs: [n]t)" if arrays else "(c: t)"
    cname = "cs" if arrays else "c"
    words = g.p(0.4) and not arrays
    head = f"def step@ {sizes}{cparam} (i: i64) (x: {ty}, y: {ty}) : ({ty}, {ty}) = {step}(x, y)\n"
    kind = g.r.randrange(4)
    n = g.c("3", "m", "5", "m + 1") if kind != 3 else g.c("2", "3")
    if kind == 3:  # there and back
        head += f"def there@ {sizes}{cparam} (xy: ({ty}, {ty})) : ({ty}, {ty}) = loop xy for i < {n} do step@ {cname} i xy\n"
        use = f"invert (there@ {cname}) (x, y)"
        if g.p(0.4):
            use = f"let (x, y) = {use} in let (x, y) = there@ {cname} (x, y) in there@ {cname} (x, y)"
    elif words:
        mix = g.c("(w << 5 | w >> 27) ^ 12345", "w * 5 + 3", "(w ^ (w >> 13)) + u32.i64 i", "w + 1013904223")
        use = f"let (x, y, _) = {_budget(g)}loop (x, y, w) = (x, y, 123456789u32) for i < {n} do let (x, y) = step@ c i (x + t.u32 (w % 9) * 0.02, y) in (x, y, {mix}) in (x, y)"
    else:
        use = f"{_budget(g)}loop (x, y) = (x, y) for i < {n} do step@ {cname} i (x, y)"
    if arrays:
        ps = [Param("x", ("n",)), Param("y", ("n",)), Param("cs", ("n",)), *([Param("z", ("m",))] if "m" in n else [])]
        return g.program("coupled", ps, [("n",), ("n",)], f"  let (x, y) = {use} in (map small x, map small y)", head, {}, {"m": 4})
    ps = [Param("xs", ("n",)), Param("ys", ("n",)), Param("c"), *([Param("z", ("m",))] if "m" in n else [])]
    if g.p(0.5):
        return g.program("coupled", ps, [("n",), ("n",)], f"  unzip (map2 (\\x y -> let (x, y) = {use} in (small x, small y)) xs ys)", head, {}, {"m": 4})
    return g.program("coupled", ps, [(), ()], f"  let (x, y) = (t.sum xs, 0.3 * t.sum ys) in let (x, y) = {use} in (small x, small y)", head, {}, {"m": 4})


def leapfrog(g: Gen) -> Program:
    """Kicks and drifts: what ends one step begins the next."""
    force = g.c("t.sin q", "q * t.exp (-q * q)", g.mix("q", "k", sharp=0), "t.cos (q + k)", "t.tanh q + 0.1 * q")
    pair = g.p(0.3)
    if pair:  # all on all
        kick = f"map3 (\\k q p -> p - 0.5 * h * k * (({force}) + t.sum (map (\\u -> small (q - u)) qs))) ks qs ps"
    else:
        kick = f"map3 (\\k q p -> p - 0.5 * h * k * ({force})) ks qs ps"
    drift = g.c("map2 (\\q p -> q + h * p) qs ps", "map3 (\\q p k -> q + h * p / (1.1 + k * k)) qs ps ks", "map2 (\\q p -> q + h * t.tanh p) qs ps")
    order = g.c(f"let ps = {kick} in let qs = {drift} in let ps = {kick} in", f"let ps = {kick} in let qs = {drift} in let ps = {kick} in",
                f"let qs = {drift} in let ps = {kick} in let qs = {drift} in", f"let ps = {kick} in let qs = {drift} in")  # fmt: skip
    more = ", e + 0.1 * t.sum (map2 (*) ps ps)" if g.p(0.3) else ""
    start = "(qs, ps, 0.0)" if more else "(qs, ps)"
    names = "(qs, ps, e)" if more else "(qs, ps)"
    loop = f"{_budget(g)}loop {names} = {start} for i < {g.c('m', '4', '3')} do {order} (qs, ps{more})"
    end = "t.sum (map3 (\\k q p -> 0.5 * p * p + k * (1 - t.cos q)) ks qs ps)" + (" + small e" if more else "")
    one = f"let h = small h in let {names} = {loop} in {end}"
    ps = [Param("h"), Param("ks", ("n",)), Param("qs", ("n",)), Param("ps", ("n",))]
    if "i < m" in loop:
        ps.append(Param("z", ("m",)))
    if g.p(0.3):  # scalars
        body = f"  map3 (\\k q p -> let (q, p) = {_budget(g)}loop (q, p) = (q, p) for i < 4 do let p = p - 0.2 * h * ({force}) in let q = q + h * p in let p = p - 0.2 * h * ({force}) in (q, p) in small (q * p)) ks qs ps"
        return g.program("leapfrog", ps[:4], [("n",)], body)
    return g.program("leapfrog", ps, [()], f"  {one}", "", {}, {"m": 5})


def once(g: Gen) -> Program:
    """Arrays of which loops write each element once, promised or not: triangles, dynamic programs, recurrences."""
    promise = g.c("#[true_dep] ", "#[true_dep] ", "")
    kind = g.r.randrange(5)
    if kind == 0:
        f = g.mix("v[i]", g.c("v[i / 2]", "v[0]", "x[i]"), "x[i + 1]")
        body = f"  loop ({promise}v: *[n]t) = copy x for i < n - 1 do v with [i + 1] = {f}"
        return g.program("once", [Param("x", ("n",))], [("n",)], body, "", {"n": 1})
    if kind == 1:
        f = g.mix("v[is[i]]", "x[i]")
        body = f"  loop ({promise}v: *[n + 1]t) = replicate (n + 1) p for i < n do v with [i + 1] = (let k = is[i] in if k <= i then {f.replace('is[i]', 'k')} else x[i])"
        return g.program("once", [Param("x", ("n",)), Param("p"), Param("is", ("n",), "n")], [()], f"  let v ={body} in t.sum v", "", {"n": 1})
    if kind == 2:  # a triangle by rows, element by element
        s = g.c("t.sum (map2 (*) l[i, :j] l[j, :j])", "(loop s = 0 for k < j do s + l[i, k] * l[j, k])", "t.sum (map (\\k -> l[i, k] * l[j, k]) (iota j))")
        d = "t.sqrt (2.5 + small (x[i, i] - s))"
        e = "small ((x[i, j] - s) / l[j, j])"
        body = f"  loop (l: *[n][n]t) = tabulate_2d n n (\\_ _ -> 0) for i < n do loop (l: *[n][n]t) = l for j < i + 1 do let s = {s} in l with [i, j] = (if i == j then {d} else {e})"
        return g.program("once", [Param("x", ("n", "n"))], [("n", "n")], body, "", {}, {"n": 6})
    if kind == 3:  # substitution with many right-hand sides, rows by rows
        s = g.c("t.sum (map2 (*) l[i, :i] y[:i, c])", "(loop s = 0 for k < i do s + l[i, k] * y[k, c])")
        order = g.c("for i < n do loop (y: *[n][m]t) = y for c < m do", "for c < m do loop (y: *[n][m]t) = y for i < n do")
        body = f"  loop (y: *[n][m]t) = copy x {order} let s = {s} in y with [i, c] = small ((x[i, c] - s) / (1.3 + l[i, i] * l[i, i]))"
        return g.program("once", [Param("x", ("n", "m")), Param("l", ("n", "n"))], [("n", "m")], body, "", {}, {"n": 6, "m": 6})
    f = g.mix("d[i, j]", "d[i + 1, j]", "d[i, j + 1]", "x[i]", "y[j]")
    order = g.c("for i < n do loop (PROMd: *[n + 1][m + 1]t) = d for j < m do", "for j < m do loop (PROMd: *[n + 1][m + 1]t) = d for i < n do").replace("PROM", promise)
    body = f"  let d = loop ({promise}d: *[n + 1][m + 1]t) = tabulate_2d (n + 1) (m + 1) (\\i j -> 0.1 * t.i64 (i - j)) {order} d with [i + 1, j + 1] = {f} in (d[n, m], t.sum d[n])"
    return g.program("once", [Param("x", ("n",)), Param("y", ("m",))], [(), ()], body, "", {}, {"n": 6, "m": 6})


def cells(g: Gen) -> Program:
    """Products of all time steps with a matrix before a loop, which reads one in each iteration."""
    mm = "def mm@ [p][q][r] (a: [p][q]t) (b: [q][r]t) : [p][r]t = map (\\row -> map (\\col -> t.sum (map2 (*) row col)) (transpose b)) a\n"
    act = g.mix("z", "q", sharp=0.05)
    made = g.c("map (\\x -> mm@ x w) xs", "map (\\x -> map (map2 (+) c) (mm@ x w)) xs", "map (\\x -> map (map small) (mm@ x w)) xs", "map (\\x -> mm@ x (map (map (* 0.5)) w)) xs")
    at = g.c("zs[i]", "zs[i]", "zs[s - 1 - i]")
    step = g.c(f"map2 (map2 (\\z q -> {act})) {at} (mm@ y u)", f"let z1 = mm@ y u in map2 (map2 (\\z q -> {act})) {at} z1", f"map2 (\\r y -> map2 (\\z q -> {act}) r y) {at} y",
               f"let h = mm@ y u in map3 (map3 (\\z q o -> (1 - logistic q) * o + logistic q * ({act}))) {at} h y")  # fmt: skip
    body = f"  let zs = {made} in\n  let y = {g.c('', '', '#[checkpoint] ')}loop (y: [e][h]t) = replicate e (replicate h 0.1) for i < s do {step} in"
    tail = g.c(" t.sum (flatten y)", " t.sum (flatten y) + t.sum (flatten zs[0])" if g.p(0.3) else " t.sum (map t.sum y)")
    least = {"s": 1} if "zs[0]" in tail else {}
    ps = [Param("xs", ("s", "e", "d")), Param("w", ("d", "h")), Param("u", ("h", "h")), Param("c", ("h",))]
    return g.program("cells", ps, [()], f"{body}{tail}", mm, least, {"s": 5, "e": 4, "d": 4, "h": 5})


FAMILIES = [coupled, leapfrog, once, cells]
