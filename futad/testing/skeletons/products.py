# ruff: noqa: E501 (programs read better unbroken)
"""Convolutions, correlations and stencils with borders, and products over several axes, transposed and batched, with
strides; maps that look at neighbours, one after another; folds and scans whose operator multiplies matrices."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program


def _border(g: Gen, x: str, i: str, n: str) -> str:
    """An element of a row, beyond its ends another one or zero."""
    kind = g.c("zero", "zero", "clamp", "wrap", "mirror")
    if kind == "zero":
        return f"(if {i} >= 0 && {i} < {n} then {x}[{i}] else 0)"
    if kind == "clamp":
        return f"{x}[i64.max 0 (i64.min ({n} - 1) ({i}))]"
    if kind == "wrap":
        return f"{x}[({i} + {n}) % {n}]"
    return f"(let q = {i} in {x}[if q < 0 then (-q) % {n} else if q >= {n} then (2 * {n} - 2 - q + {n}) % {n} else q])"


def windows(g: Gen) -> Program:
    """Sums over windows in one or two dimensions, several channels or several images."""
    then = g.mix("s", "c")
    off = g.c("- 1", "+ 0", "- 2", "+ 1", "- k / 2")
    dims = g.c(1, 1, 2, 2)
    k = g.c("k", "k", "3")
    kn = 3 if k == "3" else "k"
    sign = g.c("i + p", "i + p", "i - p", "2 * i + p", "i + 2 * p")
    if dims == 1:
        valid = g.p(0.25) and sign == "i + p"
        if valid:  # no border: what is read is there
            term = "w[p] * x[i + p]" if g.p(0.6) else f"{g.mix('w[p]', 'c')} * x[i + p]"
            width = "n - 2" if k == "3" else "n - k + 1"
            body = f"  let r = map (\\i -> let s = t.sum (map (\\p -> {term}) (iota {k})) in {then}) (iota (i64.max 0 ({width})))"
            return g.program("windows", [Param("x", ("n",)), Param("w", (kn,)), Param("c")], [()], f"{body}\n  in t.sum r", "", {"n": 1, "k": 1} if k == "k" else {"n": 1}, {"k": 4})
        at = _border(g, "x", f"({sign} {off})", "n")
        if k == "3":
            at = at.replace("k / 2", "1")
        rows = g.c("plain", "plain", "channels", "batch")
        if rows == "plain":
            inner = f"map (\\i -> let s = t.sum (map (\\p -> w[p] * {at}) (iota {k})) in {then}) (iota n)"
            return g.program("windows", [Param("x", ("n",)), Param("w", (kn,)), Param("c")], [("n",)], f"  {inner}", "", {"n": 1}, {"k": 4})
        if rows == "channels":
            cell = f"t.sum (map2 (\\x w -> t.sum (map (\\p -> w[p] * {at}) (iota {k}))) xs w)"
            inner = f"map (\\w -> map (\\i -> let s = {cell} in {then}) (iota n)) ws"
            return g.program("windows", [Param("xs", ("d", "n")), Param("ws", ("e", "d", kn)), Param("c")], [("e", "n")], f"  {inner}", "", {"n": 1}, {"k": 4, "d": 3, "e": 3})
        inner = f"map (\\x -> map (\\i -> let s = t.sum (map (\\p -> w[p] * {at}) (iota {k})) in {then}) (iota n)) xs"
        return g.program("windows", [Param("xs", ("d", "n")), Param("w", (kn,)), Param("c")], [("d", "n")], f"  {inner}", "", {"n": 1}, {"k": 4, "d": 4})
    off2 = g.c(off, "- 1")
    ij = (f"(i + p {off})", f"(j + q {off2})")
    if g.p(0.6):
        at = f"(let (a, b) = {'(' + ij[0] + ', ' + ij[1] + ')'} in if a >= 0 && a < n && b >= 0 && b < m then x[a, b] else 0)"
    elif g.p(0.5):
        at = f"x[i64.max 0 (i64.min (n - 1) {ij[0]}), i64.max 0 (i64.min (m - 1) {ij[1]})]"
    else:
        at = f"x[({ij[0]} + 2 * n) % n, ({ij[1]} + 2 * m) % m]"
    at = at.replace("k / 2", "1")
    kk, names = (3, "3") if k == "3" else ("k", "k")
    terms = g.c(
        f"t.sum (map (\\p -> t.sum (map (\\q -> w[p, q] * {at}) (iota {names}))) (iota {names}))",
        f"t.sum (flatten (map (\\p -> map (\\q -> w[p, q] * {at}) (iota {names})) (iota {names})))",
        f"t.sum (flatten (tabulate_2d {names} {names} (\\p q -> {at} * w[p, q])))",
        f"(loop s = 0 for p < {names} do loop s for q < {names} do s + w[p, q] * {at})",
    )  # fmt: skip
    cell = f"let s = {terms} in {then}"
    if g.p(0.25):
        body = f"  map (\\x -> map (\\i -> map (\\j -> {cell}) (iota m)) (iota n)) xs"
        return g.program("windows", [Param("xs", ("d", "n", "m")), Param("w", (kk, kk)), Param("c")], [("d", "n", "m")], body, "", {"n": 1, "m": 1}, {"k": 3, "d": 2, "n": 6, "m": 6})
    body = f"  map (\\i -> map (\\j -> {cell}) (iota m)) (iota n)"
    if g.p(0.2):
        body = f"  let y : [n][m]t = {body.strip()} in\n  let x = map (map small) y in {body.strip()}"
    return g.program("windows", [Param("x", ("n", "m")), Param("w", (kk, kk)), Param("c")], [("n", "m")], body, "", {"n": 1, "m": 1}, {"k": 4, "n": 7, "m": 7})


def einsums(g: Gen) -> Program:
    """Sums of products over named axes, factors with these in any order, transposed in between."""
    tensors: dict[str, str] = {}
    for x in ("x", "y", "z"):
        tensors[x] = "".join(g.shuffled("nmkd")[: g.c(1, 2, 2, 3)])
    lets = ""
    names = dict(tensors)
    last = ("x", tensors["x"])
    for _ in range(g.r.randint(1, 3)):
        used = [g.c(*names) for _ in range(g.c(1, 2, 2, 3))]
        if last[0] not in used:
            used[0] = last[0]
        axes = sorted({q for x in used for q in names[x]})
        kept = "".join(g.shuffled(axes)[: g.c(1, 1, 2, 2, 3)])
        summed = [q for q in axes if q not in kept]

        def read(x: str) -> str:
            return f"{x}[{', '.join('a' + q for q in names[x])}]"

        product = " * ".join(read(x) for x in used)
        if g.p(0.2):
            product = f"{product} * {g.number()}"
        body = f"({product})"
        for q in summed:
            body = f"(t.sum (map (\\a{q} -> {body}) (iota {q})))"
        if g.p(0.7):
            body = f"small {body}"
        for q in reversed(kept):
            body = f"(map (\\a{q} -> {body}) (iota {q}))"
        y = g.name("y")
        if len(kept) == 2 and g.p(0.3):
            body, kept = f"(transpose {body})", kept[::-1]
        elif len(kept) == 3 and g.p(0.3):
            body, kept = f"(map transpose {body})", kept[0] + kept[2] + kept[1]
        ty = "".join(f"[{q}]" for q in kept) + "t"
        lets += f"  let {y} : {ty} = {body} in\n"
        names[y] = kept
        last = (y, kept)
    params = [Param(x, tuple(s)) for x, s in tensors.items()]
    used_sizes = {q for s in tensors.values() for q in s}
    return g.program("einsums", params, [tuple(last[1])], f"{lets}  {last[0]}", "", {}, {q: 6 for q in used_sizes})


def stencils(g: Gen) -> Program:
    """Maps one after another, each of which looks at neighbours of the last one's, with the ends as they are or around."""
    lets, x = "", "x"
    for _ in range(g.r.randint(2, 5)):
        y = g.name("y")
        a, b = g.c((-1, 1), (-1, 0), (0, 1), (-2, 1))
        kind = g.r.randrange(6)
        f = g.mix("l", "z", "r", g.c("u[i]", "x[i]", "0.3"))
        if kind == 0:
            body = f"map (\\i -> let (l, z, r) = ({x}[(i + n + {a}) % n], {x}[i], {x}[(i + {b}) % n]) in {f}) (iota n)"
        elif kind == 1:
            body = f"map (\\i -> let (l, z, r) = ({x}[i64.max 0 (i + {a})], {x}[i], {x}[i64.min (n - 1) (i + {b})]) in {f}) (iota n)"
        elif kind == 2:
            body = f"map (\\i -> let z = {x}[i] in if i + {a} < 0 || i + {b} >= n then z else let (l, r) = ({x}[i + {a}], {x}[i + {b}]) in {f}) (iota n)"
        elif kind >= 4:
            before, after = f"([0.3] ++ take (n - 1) {x} :> [n]t)", f"(drop 1 {x} ++ [p] :> [n]t)"
            left, right = (before, x) if a <= -1 and b <= 0 else (x, after) if a == 0 else (before, after)
            body = f"map4 (\\l z r i -> {f}) {left} {x} {right} (iota n)"
        else:
            body = f"map4 (\\l z r i -> {f}) (rotate ({a}) {x}) {x} (rotate ({b}) {x}) (iota n)"
        lets += f"  let {y} : [n]t = {body.replace('+ -', '- ')} in\n"
        x = y
    end = g.c(x, f"(loop (v: [n]t) = {x} for _j < 3 do map (\\i -> small (v[(i + 1) % n] - 0.4 * v[i] + u[i])) (iota n))")
    return g.program("stencils", [Param("x", ("n",)), Param("u", ("n",)), Param("p")], [("n",)], f"{lets}  {end}", "", {"n": 1})


def chains(g: Gen) -> Program:
    """Folds and scans whose operator is no map: products of matrices, affine maps, transfer matrices with a shift."""
    d = g.c("2", "2", "3")
    op = g.c("\\a b -> map (\\r -> map (\\c -> t.sum (map2 (*) r c)) (transpose b)) a",
             f"\\a b -> map (\\r -> map (\\c -> {g.c('softmax', 't.max')} (t.maximum (map2 (+) r c)) (-50)) (transpose b)) a",
             f"\\a b -> tabulate_2d {d} {d} (\\i j -> loop s = 0 for k < {d} do s + a[i, k] * b[k, j])")  # fmt: skip
    add = "maximum" in op
    if add:
        g.smooth = False
    unit = f"(tabulate_2d {d} {d} (\\i j -> if i == j then {'0' if add else '1'} else {'(-9)' if add else '0'}))"
    f = g.mix("x", "t.cos (t.i64 (i * 2 + j) + w)")
    one = f"(\\x -> tabulate_2d {d} {d} (\\i j -> (if i == j then 0.6 else 0.1) + 0.3 * small {f}))"
    kind = g.r.randrange(4)
    n = int(d)
    if kind == 0:
        return g.program("chains", [Param("xs", ("n",)), Param("w")], [(n, n)], f"  reduce ({op}) {unit} (map {one} xs)")
    if kind == 1:
        return g.program("chains", [Param("xs", ("n",)), Param("w")], [("n",)], f"  map (\\a -> small (t.sum (flatten a))) (scan ({op}) {unit} (map {one} xs))")
    if kind == 2:
        return g.program("chains", [Param("xss", ("m", "n")), Param("w")], [("m",)], f"  map (\\xs -> let a = reduce ({op}) {unit} (map {one} xs) in small (a[0, 1] + a[1, 0])) xss", "", None, {"m": 4})
    return g.program("chains", [Param("xs", ("n",)), Param("w"), Param("v", (n,))], [(n,)], f"  let a = reduce ({op}) {unit} (map {one} xs) in map (\\r -> small (t.sum (map2 (*) r v))) a")


FAMILIES = [windows, einsums, stencils, chains]
