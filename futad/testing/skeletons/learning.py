# ruff: noqa: E501 (programs read better unbroken)
"""Learning and integration: layers of networks, attention, derivatives inside of programs, steps of solvers, scans."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program

X = Param("x", ("n",))
A = Param("a", ("n", "d"))


def network(g: Gen) -> Program:
    """Layers of products and elementwise functions; normalised, with a residual, with weights that are shared or not."""
    act = g.mix("z", "b")
    prod = g.c("t.sum (map2 (*) row col)", f"t.sum (map2 (\\p q -> {g.mix('p', 'q')}) row col)")
    norm = g.c("y", "map (\\r -> let m = t.sum r / (1 + t.i64 d) in let s = t.sqrt (0.5 + t.sum (map (\\z -> (z - m) * (z - m)) r)) in map (\\z -> (z - m) / s) r) y",
               "map (\\r -> let e = map t.exp (map small r) in let s = 1 + t.sum e in map (/ s) e) y")  # fmt: skip
    iterations = g.c("1", "2", "l")
    w = "w[k]" if iterations == "l" else "w[0]"
    if iterations != "l":
        params = [A, Param("w", (1, "d", "d")), Param("v", ("d",))]
    else:
        params = [A, Param("w", ("l", "d", "d")), Param("v", ("d",))]
    keep = g.c("y", "map2 (map2 (+)) y h", "map2 (map2 (\\p q -> small (p + 0.5 * q))) h y")
    body = (f"  loop (h: [n][d]t) = a for k < {iterations} do\n    let y : [n][d]t = map (\\row -> map2 (\\col b -> let z = {prod} in {act}) {g.c('(transpose ' + w + ')', w)} v) h in\n"
            f"    let y : [n][d]t = {norm} in {keep}")  # fmt: skip
    return g.program("network", params, [("n", "d")], body)


def attention(g: Gen) -> Program:
    """Rows that look at all rows, or at those before them."""
    score = g.c("t.sum (map2 (*) q k)", "-(t.sum (map2 (\\p r -> (p - r) * (p - r)) q k))", f"t.sum (map2 (\\p r -> {g.mix('p', 'r', sharp=0)}) q k)")
    past = g.c("", "", " * (if j <= i then 1 else 0)")
    stable = g.p(0.5)
    if stable:
        g.smooth = g.smooth and "t.abs" not in score
    shift = "let m = reduce t.max (-1000) s in " if stable else "let m = 0 in "
    weights = f"let s : [n]t = map (\\k -> {score}) a in {shift}let e = map2 (\\z j -> t.exp (0.3 * (z - m)){past}) s (iota n) in let c = 0.01 + t.sum e in map (/ c) e"
    mixed = g.c("map (\\col -> t.sum (map2 (*) w col)) (transpose u)", "(loop (o: [d]t) = replicate d 0 for j < n do map2 (\\z y -> z + w[j] * y) o u[j])",
                "reduce (map2 (+)) (replicate d 0) (map2 (\\z r -> map (* z) r) w u)")  # fmt: skip
    body = f"  map2 (\\q i -> let w : [n]t = ({weights}) in {mixed}) a (iota n)"
    if "j <= i" not in past:
        body = f"  map (\\q -> let w : [n]t = ({weights}) in {mixed}) a"
    return g.program("attention", [A, Param("u", ("n", "d"))], [("n", "d")], body)


def descent(g: Gen) -> Program:
    """A loop that takes derivatives: descent with momentum, Newton's steps, Hamiltonian motion."""
    g.smooth = True
    loss = g.c(f"t.sum (map2 (\\p q -> {g.mix('p', 'q', sharp=0)}) w x)",
               f"(loop s = 0.1 for i < n do {g.mix('s', 'w[i]', 'x[i]', sharp=0)})",
               f"t.sum (map (\\i -> {g.mix('w[i]', 'w[(i + 1) % n]', sharp=0)}) (iota n))",
               f"(let u : *[n]t = copy w in let u = loop (u: *[n]t) = u for i < n do u with [i] = {g.mix('u[i]', 'u[n - 1 - i]', sharp=0)} in t.sum u)")  # fmt: skip
    kind = g.r.randrange(3)
    head = f"def loss@ [n] (x: [n]t) (w: [n]t) : t = {loss}\n"
    iterations = g.c(1, 2, 3)
    if kind == 0:
        body = (f"  loop (w: [n]t, m: [n]t) = (v, replicate n 0) for r < {iterations} do\n    let d = vjp (\\w -> loss@ x w) w 1 in\n"
                f"    let m = map2 (\\p q -> 0.5 * p + q) m d in (map2 (\\p q -> p - 0.1 * q) w m, m)")  # fmt: skip
        return g.program("descent", [X, Param("v", ("n",))], [("n",), ("n",)], body, head)
    if kind == 1:
        body = (f"  loop (w: [n]t) = v for r < {iterations} do\n    let d = vjp (\\w -> loss@ x w) w 1 in let h = jvp (\\w -> vjp (\\w -> loss@ x w) w 1) w d in\n"
                f"    map3 (\\p q z -> small (p - q / (1.5 + z * z))) w d h")  # fmt: skip
        return g.program("descent", [X, Param("v", ("n",))], [("n",)], body, head)
    body = (f"  loop (w: *[n]t, p: *[n]t) = (copy v, copy x) for r < {iterations} do\n    let d = vjp (\\w -> loss@ x w) w 1 in\n"
            f"    let p : *[n]t = loop (p: *[n]t) = p for i < n do p with [i] = p[i] - 0.1 * d[i] in\n"
            f"    let w : *[n]t = loop (w: *[n]t) = w for i < n do w with [{g.c('i', 'n - 1 - i')}] = w[i] + 0.1 * p[i] in (w, p)")  # fmt: skip
    return g.program("descent", [X, Param("v", ("n",))], [("n",), ("n",)], body, head)


def solver(g: Gen) -> Program:
    """Steps of Euler's, midpoint or Runge-Kutta's method, of a vector or of a few numbers, with a history."""
    f = g.c(f"tabulate n (\\i -> {g.mix('y[i]', 'y[(i + 1) % n]', 'c')})", f"map2 (\\p q -> {g.mix('p', 'q', 'c')}) y (rotate 1 y)",
            f"map (\\p -> {g.mix('p', 'c')}) y")  # fmt: skip
    head = f"def slope@ [n] (c: t) (y: [n]t) : [n]t = {f}\ndef along@ [n] (h: t) (k: [n]t) (y: [n]t) : [n]t = map2 (\\p q -> p + h * q) y k\n"
    step = g.c("along@ h (slope@ c y) y", "let k = slope@ c y in along@ h (slope@ c (along@ (0.5 * h) k y)) y",
               "let k1 = slope@ c y in let k2 = slope@ c (along@ (h / 2) k1 y) in let k3 = slope@ c (along@ (h / 2) k2 y) in let k4 = slope@ c (along@ h k3 y) in\n"
               "      map4 (\\p a b e -> p + h / 6 * (a + 2 * b + e)) (along@ (h / 6) k4 y) k1 k2 k3")  # fmt: skip
    iterations = g.c("m", "3")
    hist = g.p(0.5)
    if hist:
        body = (f"  loop (y: [n]t, hs: *[m][n]t) = (x, replicate m (replicate n 0)) for i < m do\n    let h = 0.1 + 0.01 * t.i64 i in let y : [n]t = {step} in\n"
                f"    (y, hs with [{g.saved('i', 'm')}] = y)")  # fmt: skip
        return g.program("solver", [X, Param("c"), Param("u", ("m",))], [("n",), ("m", "n")], body, head)
    grow = g.p(0.4)
    loop = f"loop (y: [n]t) = x for i < {iterations} do let h = 0.1{' + 0.1 * u[i]' if iterations == 'm' else ''} in {step}"
    if grow:
        g.smooth = False
        loop = f"(loop (y: [n]t, i) = (x, 0) while i < 6 && t.sum (map t.abs y) < 7.7 do let h = 0.1 + 0.05 * t.i64 i in ({step}, i + 1)).0"
    return g.program("solver", [X, Param("c"), Param("u", ("m",))], [("n",)], f"  {loop}", head)


def scans(g: Gen) -> Program:
    """Linear recurrences, running extremes and segments by scans, in loops and maps; folds of pairs."""
    kind = g.r.randrange(4)
    if kind == 0:
        body = (f"  let fs = scan (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (map2 (\\p q -> (small p, {g.mix('p', 'q')})) x v) in\n"
                f"  map2 (\\(a, b) z -> {g.mix('a', 'b', 'z')}) fs x")  # fmt: skip
    elif kind == 1:
        op = g.c("t.max", "t.min", "(+)", "softmax")
        g.smooth = g.smooth and op in ("(+)", "softmax")
        unit = {"t.max": "(-1000)", "t.min": "1000", "(+)": "0", "softmax": "(-1000)"}[op]
        body = f"  loop (y: [n]t) = x for r < {g.c(1, 2, 3)} do let z = scan {op} {unit} y in map3 (\\p q w -> {g.mix('p', 'q', 'w')}) {g.c('z', '(reverse z)')} y v"
    elif kind == 2:
        body = (f"  let ss = scan (\\(f, a) (h, b) -> (f || h, if h then b else a + b)) (false, 0) (map2 (\\i z -> (i % 3 == 0, {g.mix('z')})) (iota n) x) in\n"
                f"  map2 (\\(_, s) q -> {g.mix('s', 'q')}) ss v")  # fmt: skip
    else:
        body = (f"  let (m, w) = reduce (\\(a, b) (c, d) -> let k = t.max a c in (k, b * t.exp (a - k) + d * t.exp (c - k))) (-1000, 0) (map (\\z -> ({g.mix('z')}, 1)) x) in\n"
                f"  map2 (\\p q -> p * t.exp (small (q - m)) / (1 + w)) v x")  # fmt: skip
        g.smooth = False
    return g.program("scans", [X, Param("v", ("n",))], [("n",)], body)


def pieces(g: Gen) -> Program:
    """Arrays put together from parts and taken apart, records and tuples of arrays that loops carry."""
    kind = g.r.randrange(4)
    if kind == 0:
        body = (f"  let h = n / 2 in\n  let (p, q) = (x[:h], x[h:]) in\n  let q = map (\\z -> {g.mix('z')}) q in let p = {g.c('map small p', 'reverse p', 'p')} in\n"
                f"  let y : [n]t = ({g.c('q ++ p', 'p ++ q')}) :> [n]t in map2 (\\a b -> {g.mix('a', 'b')}) y v")  # fmt: skip
    elif kind == 1:
        body = (f"  let st = loop (st: {{u: [n]t, w: [n]t, s: t}}) = {{u = x, w = v, s = 0.1}} for r < {g.c(1, 2, 3)} do\n"
                f"    let u = map2 (\\p q -> {g.mix('p', 'q', 'st.s')}) st.u st.w in let st = st with u = {g.c('u', 'st.w')} in\n"
                f"    let st = st with w = {g.c('u', 'map small st.u', 'reverse u')} in st with s = {g.mix('st.s', 't.sum u')} in\n  map2 (\\p q -> p + st.s * q) st.u st.w")  # fmt: skip
    elif kind == 2:
        body = (f"  let ps : [n](t, [2]t) = map2 (\\p q -> ({g.mix('p', 'q')}, [p, {g.mix('q')}])) x v in\n"
                f"  let qs : [n](t, [2]t) = loop (qs: *[n](t, [2]t)) = copy ps for i < n - 1 do\n    let (a, r) = copy qs[i] in qs with [i + 1] = ({g.mix('a', 'r[0]')}, [r[1], a]) in\n"
                f"  map (\\(a, r) -> a * r[0] + r[1]) qs")  # fmt: skip
    else:
        body = (f"  loop (y: *[n]t) = copy x for i < n do\n    let part = map (\\z -> {g.mix('z', 'v[i]')}) y[:i] in\n"
                f"    let y : *[n]t = copy ((part ++ y[i:]) :> [n]t) in y with [i] = {g.mix('y[i]', 'v[n - 1 - i]')}")  # fmt: skip
    return g.program("pieces", [X, Param("v", ("n",))], [("n",)], body)


def growing(g: Gen) -> Program:
    """Arrays that loops append to, take from, or filter: their sizes are known when the loop has run."""
    last = "(if length u > 0 then u[length u - 1] else 0.3)"
    first = "(if length u > 0 then u[0] else 0.2)"
    new = g.mix("e", "f", g.c("t.sum v", "t.i64 i * 0.1"))
    grow = g.c("u ++ [z]", "u ++ [z]", "u ++ [z, small z]", "[z] ++ u", "u ++ map small u[:length u / 2]", "(u ++ [z])[1:]",
               "filter (\\y -> y < 0.61) (u ++ [z])", "if i % 2 == 0 then u ++ [z] else u[:length u - length u / 3]",
               f"(let w : *[]t = u ++ [z] in w with [length w - 1] = {g.mix('z', 'e')})", "map small u ++ [z]")  # fmt: skip
    if "filter" in grow:
        g.smooth = False
    body = (f"  let u = loop (u: []t) = {g.c('copy x', '[]', 'map small x', 'x[:n / 2]')} for i < {g.c('4', 'm', '(n % 4 + 1)')} do\n"
            f"    let e = {g.c(last, first)} in let f = {g.c(last, first, 't.sum u')} in let z = {new} in\n    {grow}\n"
            f"  in ({g.c('t.sum (map2 (%z j -> z * t.cos (t.i64 j)) u (indices u))', 'small (t.sum u)', '(loop s = 0.1 for z in u do small (s + z))')}, t.sum u + t.i64 (length u))").replace("%z", "\\z")  # fmt: skip
    most = {"m": 9} if "length u / 2" in grow else {}  # of iterations, each of which makes it half as long again
    return g.program("growing", [X, Param("v", ("m",))], [(), ()], body, most=most)


FAMILIES = [growing, network, attention, descent, solver, scans, pieces]
