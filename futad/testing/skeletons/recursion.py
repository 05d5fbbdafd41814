# ruff: noqa: E501 (programs read better unbroken)
"""Functions that call themselves: over halves of an array, down a number, through a heap or a table, as the last step or
not, with a bound or without; what all calls are given is a constant or passed on."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program


def tails(g: Gen) -> Program:
    """Calls as the last thing of a branch, of which there are some: a loop, with arrays and numbers handed on."""
    step = g.mix("s", "x[i % n]", "w")
    again = [f"go@ x (i + {g.c('1', '2')}) ({step}) v w"]
    update = g.c(f"v with [i % n] = {g.mix('v[i % n]', 's')}", f"v with [(i * 2 + 1) % n] = {g.mix('s', 'w')}", f"(let u = copy (map (\\z -> {g.mix('z', 's')}) v) in u)", "v")
    again.append(f"let q = {g.mix('s', 'w', 'x[(i + 1) % n]')} in go@ x (i + 1) q ({update}) {g.c('w', '(small (w + q))', '0.3')}")
    if g.p(0.4):
        again.append(f"let q = (loop q = s for k < 2 do {g.mix('q', 'x[k % n]')}) in go@ x (i + 2) (small q) v w")
    ends = g.c("i >= m", "i >= n", f"i >= m || s > {g.c('0.9123', '1.4321')}")
    g.smooth = g.smooth and "s >" not in ends
    test = g.c("i % 2 == 0", "i % 3 != 1", "v[i % n] < 0.2345")
    g.smooth = g.smooth and "v[" not in test
    tree = again[0]
    for a in again[1:]:
        tree = f"if {test} then {a} else {tree}" if g.p(0.6) else f"if {test} then {tree} else {a}"
        test = "i % 5 < 2"
    out = g.c(g.mix("s", "w"), g.mix("s", "x[0]"), "small s + t.sum v")
    attr = "#[bound(90)]\n" if g.p(0.2) else ""
    head = f"{attr}def go@ [n] (x: [n]t) (i: i64) (s: t) (v: *[n]t) (w: t) : (t, [n]t) = if {ends} then ({out}, v) else {tree}\n".replace("i >= m", "i >= 7")
    if attr:
        head = head.replace("(v: *[n]t)", "(v: [n]t)").replace("v with", "(copy v) with")
    kind = g.r.randrange(3)
    start = "copy x" if not attr else "x"
    if kind == 0:
        return g.program("tails", [Param("x", ("n",)), Param("p")], [(), ("n",)], f"  go@ x {g.c('0', '1', '3')} 0.2 ({start}) p", head, {"n": 1})
    if kind == 1:
        return g.program("tails", [Param("x", ("n",)), Param("y", ("m",))], [("m",)], f"  map (\\p -> (go@ x 0 p ({start}) {g.c('0.5', 'p')}).0) y", head, {"n": 1})
    body = f"  let (s, v) = go@ x 0 p ({start}) 0.4 in loop s for i < m do (go@ v i (small (s + y[i])) ({start.replace('x', 'v')}) 0.4).0"
    return g.program("tails", [Param("x", ("n",)), Param("y", ("m",)), Param("p")], [()], body, head, {"n": 1})


def trees(g: Gen) -> Program:
    """Folds over halves, down counters and through heaps, of numbers, tuples and rows; some as tasks, some bounded."""
    of, ty = g.c(("t", "t"), ("t", "t"), ("(t, t)", "(t, t)"), ("[k]t", "[k]t"), ("[3]t", "[3]t"))
    bounded = g.p(0.4)
    if of == "[k]t" and bounded:
        of = ty = "[3]t"
    rows = of.startswith("[")
    if g.p(0.15):
        return numbers(g)
    shape = g.c("halves", "halves", "heap", "down", "mutual")
    f = g.mix("a", "b", "w")
    leaf = g.mix("x[i]", "w")
    if rows:
        d = of[1 : of.index("]")]
        leaf = f"map (\\z -> {g.mix('z', 'x[i]')}) y" if of == "[k]t" else f"[x[i], {g.mix('x[i]', 'w')}, 0.3]"
        node = f"map2 (\\a b -> {f}) l r"
        if g.p(0.5):  # with a matrix, as a cell has
            node = f"let h = map2 (\\a b -> {f}) l r in tabulate {d} (\\q -> small (t.sum (map2 (\\z j -> z * t.cos (w + t.i64 (q + j))) h (iota {d}))))"
        empty = f"replicate {d} w"
    elif of == "t":
        node = f"let (a, b) = (l, r) in {f}"
        empty = "w"
    else:
        node = f"let (a, p) = l in let (b, q) = r in ({f}, {g.mix('p', 'q', 'a')})"
        leaf = f"({leaf}, {g.mix('x[i]', 'w')})"
        empty = "(w, 0.2)"
    if g.p(0.3):
        g.smooth = False
        node = f"if w + x[i] < {g.c('0.2345', '0.6543')} then l else {node}"
    sizes = "[n] [k]" if of == "[k]t" else "[n]"
    args, params = ("x y", "(x: [n]t) (y: [k]t)") if of == "[k]t" else ("x", "(x: [n]t)")
    if g.p(0.25) and not bounded and shape == "halves":  # an argument that no call changes
        params, args = params + " (c: i64)", args + " c"
        leaf = leaf if rows else leaf.replace("x[i]", "(x[i] * t.i64 (c % 3))")
    again = "#[again]\n" if g.p(0.1) else ""
    head = f"#[bound({g.c('72', '80')})]\n" if bounded else again
    w2 = g.c("w", "w", "(small (w + 0.4))", "(0.7 * w)")
    both = "let l = f@ ARGS LW in let r = f@ ARGS RW in"
    if g.p(0.3):
        both = "let (l, r) = par (\\z -> f@ ARGS LZ) (\\z -> f@ ARGS RZ) (W, W) in"
    f2 = "go@"

    def calls(left: str, right: str) -> str:
        return both.replace("f@ ARGS LW", f"{f2} {args} {left} {w2}").replace("f@ ARGS RW", f"{f2} {args} {right} {w2}").replace("f@ ARGS LZ", f"{f2} {args} {left} z").replace("f@ ARGS RZ", f"{f2} {args} {right} z").replace("W", w2)

    if shape == "halves":
        text = f"{head}def go@ {sizes} {params} (i: i64) (e: i64) (w: t) : {ty} = if e <= i then {empty} else if e - i == 1 then {leaf} else let m = (i + e) / 2 in {calls('i m', 'm e')} {node}\n"
        call = "0 n"
    elif shape == "heap":
        text = f"{head}def go@ {sizes} {params} (i: i64) (w: t) : {ty} = if i >= n then {empty} else if 2 * i + 1 >= n then {leaf} else {calls('(2 * i + 1)', '(2 * i + 2)')} {node}\n"
        call = "0"
    elif shape == "down":
        text = f"{head}def go@ {sizes} {params} (i: i64) (w: t) : {ty} = if i >= n then {empty} else let l = go@ {args} (i + 1) {w2} in let r = {leaf} in {node}\n"
        call = "0"
    else:
        head2 = head if bounded else ""
        text = (f"{head2}def go@ {sizes} {params} (i: i64) (w: t) : {ty} = if i >= n then {empty} else let l = to@ {args} (i + 1) {w2} in let r = {leaf} in {node}\n"
                f"def to@ {sizes} {params} (i: i64) (w: t) : {ty} = if i >= n then {empty} else if i % 3 == 0 then {leaf} else go@ {args} (i + 1) {w2}\n")  # fmt: skip
        call = "0"
    down = {"t": "r", "(t, t)": "small (r.0 + r.1)"}.get(of, "t.sum r")
    given = args.replace(" c", f" {g.c('2', '4')}")
    kind = g.r.randrange(3)
    ps = [Param("x", ("n",)), *([Param("y", ("k",))] if of == "[k]t" else [])]
    if kind == 0:
        return g.program("trees", [*ps, Param("p")], [()], f"  let r = go@ {given} {call} p in {down}", text, {"n": 1}, {"k": 4})
    if kind == 1:
        return g.program("trees", [*ps, Param("ps", ("m",))], [("m",)], f"  map (\\p -> let r = go@ {given} {call} p in {down}) ps", text, {"n": 1}, {"k": 4, "m": 5})
    return g.program("trees", [*ps, Param("p")], [()], f"  loop p for _j < 3 do let r = go@ {given} {call} p in small ({down})", text, {"n": 1}, {"k": 4})


def numbers(g: Gen) -> Program:
    """A function of numbers alone."""
    one, other = g.mix("w", "u"), g.mix("l", "r", "u")
    test = g.c("i <= 0", "i <= 1", "i <= 0 || w > 0.8765")
    g.smooth = g.smooth and "w >" not in test
    two = g.c("let l = go@ (i - 1) (0.6 * w) u in let r = go@ (i - 2) W u in", "let (l, r) = par (\\w -> go@ (i - 1) w u) (\\w -> go@ (i - 2) w u) (0.7 * w, W) in",
              "let l = go@ (i - 1) W (small u) in let r = if l < 0.3456 then w else go@ (i - 2) w l in")  # fmt: skip
    g.smooth = g.smooth and "l <" not in two
    text = f"def go@ (i: i64) (w: t) (u: t) : t = if {test} then {one} else {two.replace('W', g.c('w', '(small (w + u))'))} {other}\n"
    if g.p(0.3):
        return g.program("trees", [Param("x", ("n",)), Param("p")], [("n",)], "  map (\\w -> go@ 5 w p) x", text)
    return g.program("trees", [Param("x", ("n",)), Param("p")], [()], "  let i = i64.min n 7 in go@ i p (t.sum x)", text)


FAMILIES = [tails, trees]
