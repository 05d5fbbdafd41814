# ruff: noqa: E501 (programs read better unbroken)
"""Rows of matrices: sorted, searched for the nearest, put side by side, added at places, zero but at one place, split
off their ends; folds of what filters keep; records of arrays taken apart and put together."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program

_SORT = """def order@ [n] (m: i64) (is: [n]i64) : [n]i64 =
  let bs = map (\\b -> map (\\i -> i64.bool (i == b)) is) (iota m)
  let ends = unflatten (scan (+) 0 (flatten bs))
  let places = map2 (\\i j -> ends[i, j] - 1) is (iota n)
  in scatter (replicate n 0) places (iota n)
def insertion@ [n] (xs: [n]t) : [n]t =
  loop (xs: *[n]t) = copy xs for i < n do
    (loop (xs, j) = (xs, i) while j > 0 && xs[j - 1] > xs[j] do
       let a = xs[j - 1] in let b = xs[j] in let xs = xs with [j - 1] = b in (xs with [j] = a, j - 1)).0
"""


def sorted_rows(g: Gen) -> Program:
    """Rows sorted by keys or values, and what is made of them in that order."""
    g.smooth = False
    kind = g.r.randrange(3)
    use = g.c("map (\\i -> row[i]) o", "scan (+) 0 (map (\\i -> small row[i]) o)", "map2 (\\i j -> row[i] * t.cos (t.i64 j)) o (iota n)")
    if kind == 0:
        body = f"  map2 (\\is row -> let o = order@ m is in {use}) iss xs"
        return g.program("sorted_rows", [Param("xs", ("n", "k")), Param("iss", ("n", "k"), "m"), Param("z", ("m",))], [("n", "k")], body.replace("(iota n)", "(iota k)"), _SORT, {"m": 1}, {"m": 4, "k": 6})
    if kind == 1:
        body = f"  map (\\row -> let s = insertion@ row in {g.c('s', 'map2 (*) s row', 'scan (+) 0 (map small s)')}) xs"
        return g.program("sorted_rows", [Param("xs", ("n", "k"))], [("n", "k")], body, _SORT, {}, {"k": 6})
    if kind == 2 and g.p(0.5):  # products by bins, of which the derivative sorts each row
        op, unit = g.c(("\\(a, b) (c, d) -> (a * c - b * d, a * d + b * c)", "(1, 0)"), ("\\(a, b) (c, d) -> (a * c, b * c + d)", "(1, 0)"))
        body = f"  map2 (\\is row -> map (\\(a, b) -> small (a + b)) (reduce_by_index (replicate m {unit}) ({op}) {unit} is (map (\\x -> (1 + 0.2 * small x, {g.mix('x', '0.4')})) row))) iss xs"
        return g.program("sorted_rows", [Param("xs", ("n", "k")), Param("iss", ("n", "k"), "m"), Param("z", ("m",))], [("n", "m")], body, "", {"m": 1}, {"m": 4})
    body = f"  let ss = map insertion@ xs in map2 (\\s w -> t.sum (map2 (*) s w)) ss {g.c('xs', '(map reverse xs)')}"
    return g.program("sorted_rows", [Param("xs", ("n", "k"))], [("n",)], body, _SORT, {}, {"k": 6})


def nearest(g: Gen) -> Program:
    """The nearest of some centres to each point: by value, by place, with the greatest and the second; what it costs."""
    g.smooth = False
    d = g.c("t.sum (map2 (\\a b -> (a - b) * (a - b)) p c)", "t.sum (map2 (\\a b -> t.abs (a - b)) p c)", f"t.sum (map2 (\\a b -> {g.mix('a', 'b', sharp=0)}) p c)", "(loop s = 0 for q < d do s + (p[q] - c[q]) * (p[q] - c[q]))")
    kind = g.r.randrange(6)
    ps = [Param("ps", ("n", "d")), Param("cs", ("k", "d"))]
    least = {"k": 1}
    best = g.c("t.minimum", "t.minimum", "t.maximum", "reduce t.min 1000")
    op = g.c("(\\(a, i) (b, j) -> if a < b || a == b && i < j then (a, i) else (b, j))", "(\\(a, i) (b, j) -> if b < a || a == b && j < i then (b, j) else (a, i))")
    if kind <= 1:
        body = f"  t.sum (map (\\p -> {g.c('', '', 'small ')}({best} (map (\\c -> {d}) cs))) ps)"
        return g.program("nearest", ps, [()], body, "", least)
    if kind == 2:
        body = f"  map (\\p -> let ds = map (\\c -> {d}) cs in let (m, i) = reduce {op} (1000, -1) (zip ds (iota k)) in small m + small cs[if i < 0 then 0 else i, 0]) ps"
        return g.program("nearest", ps, [("n",)], body, "", {"k": 1, "d": 1})
    if kind == 3:  # means of those that are nearest
        body = (f"  let is = map (\\p -> (reduce {op} (1000, 0) (zip (map (\\c -> {d}) cs) (iota k))).1) ps in\n"
                "  let sums = reduce_by_index (replicate k (replicate d 0)) (map2 (+)) (replicate d 0) is ps in\n"
                "  let counts = reduce_by_index (replicate k 0) (+) 0 is (replicate n 1i64) in\n"
                "  map3 (\\s q c -> map2 (\\a b -> if q == 0 then b else a / t.i64 q) s c) sums counts cs")  # fmt: skip
        return g.program("nearest", ps, [("k", "d")], body, "", least)
    if kind == 4:  # labels as rows that are zero but at one place
        hot = g.c("map (\\j -> if j == l then 1 else 0) (iota k)", "map (\\j -> t.bool (j == l)) (iota k)", "map (\\j -> if j == l then s else 0) (iota k)")
        f = g.c("t.sum (map2 (*) h row)", f"t.sum (map2 (\\a b -> a * {g.mix('b', 'a', sharp=0)}) h row)", "t.log (t.sum (map t.exp row)) - t.sum (map2 (*) h row)")
        body = f"  let hs = map2 (\\l row -> let s = t.sum row in {hot}) ls xs in map2 (\\h row -> {f}) hs xs"
        if g.p(0.4):
            body = f"  let hs = map2 (\\l row -> let s = t.sum row in {hot}) ls xs in map (\\h -> map (\\c -> t.sum (map2 (*) h c)) (transpose ws)) hs"
            return g.program("nearest", [Param("xs", ("n", "k")), Param("ws", ("k", "d")), Param("ls", ("n",), "k")], [("n", "d")], body, "", least)
        return g.program("nearest", [Param("xs", ("n", "k")), Param("ls", ("n",), "k")], [("n",)], body, "", least)
    body = f"  vjp (\\cs -> t.sum (map (\\p -> {best} (map (\\c -> {d}) cs)) ps)) cs 1"
    return g.program("nearest", ps, [("k", "d")], body, "", least)


def messages(g: Gen) -> Program:
    """Rows made for edges and added at nodes; rows read at places, changed, and written back."""
    f = g.mix("a", "b", "w")
    n = g.c("d", "d", "d", "3", "16")
    dims = int(n) if n.isdigit() else n
    row = g.c(f"map2 (\\a b -> {f}) xs[i] xs[j]", f"map2 (\\a b -> {f}) xs[i] (reverse xs[j])", f"map (\\a -> let b = t.sum xs[j] in {f}) xs[i]", f"tabulate {n} (\\q -> let a = xs[i, q] in let b = xs[j, ({n} - 1 - q)] in {f})")
    op = "(map2 (+))" if g.p(0.85) else "(map2 t.max)"
    unit = f"(replicate {n} 0)"
    if "max" in op:
        g.smooth = False
    start = g.c(f"(replicate m {unit})", "(copy xs)", "(map (map small) xs)")
    at = g.c("is", "js", "(map (\\i -> i - 1) is)", "(map2 (\\i j -> if i == j then -1 else i) is js)")
    made = f"(map3 (\\i j w -> {row}) is js ws)"
    use = f"reduce_by_index {start} {op} {unit} {at} {made}"
    if g.p(0.3):
        ty = f"[m][{n}]t"
        use = f"(loop (xs: {ty}) = xs for _r < 2 do map (map small) ({use.replace('(copy xs)', f'(replicate m {unit})')}))"
    ps = [Param("xs", ("m", dims)), Param("ws", ("n",)), Param("is", ("n",), "m"), Param("js", ("n",), "m")]
    out = use
    if g.p(0.3):
        out = f"let hs = {use} in map2 (map2 (\\a b -> {g.mix('a', 'b')})) hs xs"
    return g.program("messages", ps, [("m", dims)], f"  {out}", "", {"m": 1}, {"m": 5})


def kept(g: Gen) -> Program:
    """Folds of what is kept by a filter or partition: means, extrema, products, sums of rows; in maps and loops."""
    g.smooth = False
    test = g.c("x > 0.1234", "x < y", "x * y > -0.1", "small x < 0.2345", "i % 2 == 0", "i % 3 != 1 && x < 0.4")
    src = g.c("xs", "xs", "(map (\\x -> " + g.mix("x", "w", sharp=0) + ") xs)")
    z = f"(zip3 {src} ys (iota n))"
    fil = f"(filter (\\(x, y, i) -> {test}) {z})"
    if g.p(0.3):
        fil = f"(partition (\\(x, y, i) -> {test}) {z}).{g.c('0', '1')}"
    folds = [
        "t.sum (map (\\(x, y, _) -> x * y) k)", f"t.sum (map (\\(x, y, i) -> {g.mix('x', 'y', 't.cos (t.i64 i)')}) k)", "small (t.max (-9) (t.maximum (map (.0) k)))",
        "small (t.min 9 (t.minimum (map (\\(x, y, _) -> if x < y then x else y) k)))", "t.product (map (\\(x, _, _) -> 1 + 0.2 * small x) k)", "t.sum (map (.1) k) / (1 + t.i64 (length k))",
        "t.i64 (length k) * 0.3", "t.i64 (i64.sum (map (.2) k)) * 0.01 + t.sum (map (.0) k)", "reduce softmax (-50) (map (.1) k)", "foldl (\\s (x, y, _) -> small (s + x * y)) 0.1 k",
        "t.sum (scan (+) 0 (map (.0) k))", "(let u = t.sum (map (.0) k) in t.sum (map (\\(x, _, _) -> (x - u) * (x - u)) k))",
    ]  # fmt: skip
    uses = " + ".join(g.shuffled(folds)[: g.r.randint(1, 3)])
    body = f"let k = {fil} in small ({uses})"
    kind = g.r.randrange(3)
    ps = [Param("xs", ("n",)), Param("ys", ("n",)), Param("w")]
    if kind == 0:
        return g.program("kept", ps, [()], f"  {body}")
    if kind == 1:
        return g.program("kept", [*ps[:2], Param("ws", ("m",))], [("m",)], f"  map (\\w -> {body}) ws")
    return g.program("kept", [Param("xss", ("m", "n")), *ps[1:]], [("m",)], f"  map (\\xs -> {body}) xss")


def beside(g: Gen) -> Program:
    """Matrices put together along columns and rows, padded, turned round, cut, row by row sums, softmax and norms."""
    x, lets = "a", ""
    for _ in range(g.r.randint(1, 4)):
        y = g.name("y")
        kind = g.r.randrange(9)
        if kind <= 1:  # beside, then as many columns again
            other = g.c("o", "(map (map small) o)", f"(map reverse {x})")
            pairs = "map (\\r -> map2 (\\u v -> " + g.mix("u", "v") + ") (take m r) (drop m r)) c"
            half = g.c(pairs, "map (\\r -> tabulate m (\\j -> r[j * 2])) c", "map (\\r -> take m (map small r)) c")
            lets += f"  let c : [n][m + m]t = transpose (transpose {x} ++ transpose {other}) in let {y} : [n][m]t = {half} in\n"
        elif kind == 2:  # a column of zeros, or a turn
            lets += f"  let {y} : [n][m]t = {g.c(f'map (rotate 1) {x}', f'transpose (rotate 1 (transpose {x}))', f'transpose (take m (replicate 1 (replicate n 0) ++ transpose {x}))')} in\n"
        elif kind == 3:
            lets += f"  let {y} : [n][m]t = map (\\r -> let s = t.log (1 + t.sum (map t.exp r)) in map (\\v -> {g.mix('v', 's')}) r) {x} in\n"
        elif kind == 4:
            lets += f"  let {y} : [n][m]t = take n ({x} ++ map (map (* 0.5)) o) in let {y} : [n][m]t = map (map small) (reverse {y}) in\n"
        elif kind == 5:
            lets += f"  let {y} : [n][m]t = transpose (map (scan (+) 0) (transpose (map (map small) {x}))) in\n"
        elif kind == 6:
            lets += f"  let {y} : [n][m]t = map2 (\\r q -> map (\\v -> {g.mix('v', '0.3')}) (copy r) |> map2 (\\p v -> small (p - v)) q) {x} o in\n"
        elif kind == 7:
            lets += f"  let {y} : [n][m]t = map (\\r -> loop (r: *[m]t) = copy r for j < m - 1 do r with [j + 1] = small (r[j] + r[j + 1])) {g.c(x, f'(transpose (map (map small) (transpose {x})))')} in\n"
        else:
            lets += f"  let {y} : [n][m]t = map (\\r -> copy r) (transpose (map (\\c -> map (\\v -> {g.mix('v', '0.2')}) c) (transpose {x}))) in\n"
        x = y
    return g.program("beside", [Param("a", ("n", "m")), Param("o", ("n", "m"))], [("n", "m")], f"{lets}  {x}")


def components(g: Gen) -> Program:
    """Matrices whose rows are points of few components: taken apart, as records through loops, put together."""
    f, h = g.mix("a", "b", "w"), g.mix("b", "c", "a")
    k = g.r.randrange(10)
    if k == 7:  # rows made of many numbers
        d = g.c(8, 9, 12)
        made = ", ".join(g.mix("x", g.c("w", "y"), sharp=0.05) for _ in range(d))
        return g.program("components", [Param("u", ("n",)), Param("v", ("n",)), Param("w")], [("n", d)], f"  map2 (\\x y -> [{made}]) u v")
    if k >= 8:  # components as rows: records of columns, and columns of records
        d = g.c(2, 3)
        names = ["a", "b", "c"][:d]
        to = ", ".join(g.mix(*names) for _ in names)
        step = f"transpose (map (\\x -> let ({', '.join(names)}) = ({', '.join(f'x[{i}]' for i in range(d))}) in [{to}]) (transpose cs))"
        body = f"  {step}" if k == 8 else f"  loop (cs: [{d}][n]t) = cs for _i < m do {step}"
        return g.program("components", [Param("cs", (d, "n")), Param("z", ("m",))], [(d, "n")], body, "", {}, {"m": 4})
    few = g.c(2, 3, 4)
    names = ["a", "b", "c", "d"][:few]
    row = ", ".join(f"x[{i}]" for i in range(few))
    to = ", ".join([g.mix(*g.shuffled(names)[:2]) for _ in range(few)])
    pat = f"({', '.join(names)})"
    ps = [Param("xs", ("n", few)), Param("w")]
    if k == 0:
        body = f"  let ps = map (\\x -> ({row})) xs in map (\\{pat} -> [{to}]) ps"
    elif k == 1:
        body = f"  let ps = loop ps = map (\\x -> ({row})) xs for _i < 3 do map (\\{pat} -> ({to})) ps in map (\\{pat} -> [{', '.join(names)}]) ps"
    elif k == 2:
        body = f"  let ps = map (\\x -> {{a = x[0], b = x[1], c = w}}) xs in let qs = loop qs = ps for i < 2 do map2 (\\p q -> let (a, b, c) = (p.a, q.b, p.c) in {{a = {f}, b = {h}, c = small c}}) qs (rotate 1 qs) in map (\\p -> [{', '.join(['p.a', 'p.b', 'p.c', 'small p.a'][:few])}]) qs"
    elif k == 3:  # all pairs, componentwise
        body = f"  map (\\x -> reduce (map2 (+)) (replicate {few} 0) (map (\\y -> map2 (\\a b -> {f}) x y) xs)) xs"
    elif k == 4:  # few rows folded inside of a map
        body = f"  map (\\x -> reduce (map2 (+)) (replicate {few} 0) (map (\\q -> map (\\a -> let b = x[q] in {f}) x) (iota {few}))) xs"
    elif k == 5:  # rows picked by the iteration
        body = f"  map2 (\\x i -> if i % 2 == 0 then xs[(i + 1) % n] else map (\\a -> let b = x[0] in {f}) x) xs (iota n)"
    else:  # slices of what a map with steep slopes makes (infinite ones of elements left out are NaN for the interpreter)
        body = f"  let ys = map (\\x -> t.sqrt (t.abs x[0] + 0.0001) + x[1] * w) xs in let zs = {g.c('ys[1:]', 'init ys', 'take (n / 2) ys')} in let s = t.sum (map small zs) in map (map (\\a -> let b = s in {f})) xs"
        g.smooth = False
    return g.program("components", ps, [("n", few)], body, "", {"n": 1})


FAMILIES = [sorted_rows, nearest, messages, kept, beside, components]
