# ruff: noqa: E501 (programs read better unbroken)
"""Sorts in place, of numbers or of numbers with what they carry."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program


def _swap(g: Gen, i: str, j: str, soft: bool) -> str:
    """Two places of `a` in order, by a branch, by least and greatest, or softly."""
    if soft:
        return f"(let p = a[{i}] in let q = a[{j}] in a with [{i}] = softmin p q with [{j}] = softmax p q)"
    kind = g.r.randrange(4)
    if kind == 0:
        return f"(if a[{i}] > a[{j}] then (let p = a[{i}] in let q = a[{j}] in a with [{i}] = q with [{j}] = p) else a)"
    if kind == 1:
        return f"(let p = a[{i}] in let q = a[{j}] in let a = a with [{i}] = t.min p q in a with [{j}] = t.max p q)"
    if kind == 2:
        return f"(let p = a[{i}] in let q = a[{j}] in let less = p <= q in let a = a with [{j}] = (if less then q else p) in a with [{i}] = if less then p else q)"
    return f"(let o = {g.c('copy a', 'a')} in let (p, q) = if o[{i}] > o[{j}] then (o[{j}], o[{i}]) else (o[{i}], o[{j}]) in let a = copy o in a with [{i}] = p with [{j}] = q)"


def _input(g: Gen) -> str:
    return g.c("copy x", f"map (\\z -> {g.mix('z', sharp=0)}) x", "copy (reverse x)", "map2 (\\i z -> z + 0.01 * t.i64 i) (iota n) x")


def _finish(g: Gen, family: str, sort: str, n: str | int = "n") -> Program:
    """The sorted array, used in some way that depends on the order."""
    g.smooth = g.smooth and "softmin" in sort
    body = f"  let a : [{n}]t = {sort}\n  in "
    out, shape = g.c(("a", (n,)), (f"map2 (\\i z -> z * t.cos (t.i64 i)) (iota {n}) a", (n,)), ("t.sum (map2 (*) a x)", ()),
                     ("scan (+) 0 a", (n,)))  # fmt: skip
    return g.program(family, [Param("x", (n,))], [shape], body + out)


def exchange(g: Gen) -> Program:
    """Bubble sort, odd-even transposition, comb, selection."""
    soft = g.p(0.25)
    src = _input(g)
    kind = g.r.randrange(4)
    sw = _swap(g, "j", "j + 1", soft)
    if kind == 0:
        sort = f"loop (a: *[n]t) = {src} for i < n do loop (a: *[n]t) = a for j < n - 1 - i do {sw}"
    elif kind == 1:
        sort = f"loop (a: *[n]t) = {src} for i < n do loop (a: *[n]t) = a for h < (n - i % 2) / 2 do let j = 2 * h + i % 2 in {sw}"
    elif kind == 2:
        sort = f"loop (a: *[n]t) = {src} for i < n do\n      let m = loop m = i for q < n - i do if a[i + q] < a[m] then i + q else m in\n      let v = a[i] in let w = a[m] in a with [m] = v with [i] = w"
    else:
        sort = (f"(loop (a: *[n]t, on) = ({src}, true) while on do\n      loop (a: *[n]t, on) = (a, false) for j < n - 1 do\n"
                f"        if a[j] > a[j + 1] then (let p = a[j] in let q = a[j + 1] in (a with [j] = q with [j + 1] = p, true)) else (a, on)).0")  # fmt: skip
    return _finish(g, "exchange", sort)


def insertion(g: Gen) -> Program:
    """Insertion sort: a hole that moves down while what is above it is greater."""
    src = _input(g)
    if g.p(0.5):
        sort = (f"loop (a: *[n]t) = {src} for i < n do\n      let v = a[i] in\n"
                f"      let (a, j) = loop (a: *[n]t, j) = (a, i) while j > 0 && a[j - 1] > v do (a with [j] = a[j - 1], j - 1) in a with [j] = v")  # fmt: skip
    elif g.p(0.5):
        sort = (f"loop (a: *[n]t) = {src} for i < n do\n      (loop (a: *[n]t, v) = (a, a[i]) for j < i + 1 do if a[j] > v then (let w = a[j] in (a with [j] = v, w)) else if j == i then (a with [j] = v, v) else (a, v)).0")
    else:
        sort = f"loop (a: *[n]t) = {src} for i < n do loop (a: *[n]t) = a for q < i do let j = i - 1 - q in {_swap(g, 'j', 'j + 1', g.p(0.2))}"
    return _finish(g, "insertion", sort)


def bitonic(g: Gen) -> Program:
    """A sorting network over 1, 2, 4 or 8 places: in place, or each stage a map."""
    q = g.r.randint(0, 3)
    n = 1 << q
    src = _input(g).replace("(iota n)", f"(iota {n})")
    if g.p(0.5):
        sw = _swap(g, "lo", "hi", False)
        sort = (f"loop (a: *[{n}]t) = {src} for k < {q} do loop (a: *[{n}]t) = a for m < k + 1 do\n      let h = 1 << (k - m) in loop (a: *[{n}]t) = a for e < {n // 2} do\n"
                f"        let p = (e / h) * 2 * h + e % h in let (lo, hi) = if (p >> (k + 1)) % 2 == 0 then (p, p + h) else (p + h, p) in {sw}")  # fmt: skip
    else:
        sort = (f"loop (a: [{n}]t) = {src} for k < {q} do loop (a: [{n}]t) = a for m < k + 1 do\n      let h = 1 << (k - m) in\n"
                f"      tabulate {n} (\\i -> let o = i ^ h in if (i < o) == ((i >> (k + 1)) % 2 == 0) then t.min a[i] a[o] else t.max a[i] a[o])")  # fmt: skip
    return _finish(g, "bitonic", sort, n)


def heap(g: Gen) -> Program:
    """Heap sort: sifting down in place, by a while loop."""
    sift = ("def sift@ [n] (a: *[n]t) (s: i64) (e: i64) : *[n]t =\n"
            "  (loop (a: *[n]t, r) = (a, s) while 2 * r + 1 < e do\n"
            "    let c = 2 * r + 1 in let c = if c + 1 < e && a[c] < a[c + 1] then c + 1 else c in\n"
            "    if a[r] < a[c] then (let p = a[r] in let q = a[c] in (a with [r] = q with [c] = p, c)) else (a, e)).0\n")  # fmt: skip
    sort = (f"let a : *[n]t = loop (a: *[n]t) = {_input(g)} for q < n / 2 do sift@ a (n / 2 - 1 - q) n in\n"
            f"    loop (a: *[n]t) = a for q < n - 1 do let e = n - 1 - q in let p = a[0] in let r = a[e] in {g.c('sift@ (a with [0] = r with [e] = p) 0 e', 'let a = a with [e] = p in let a = a with [0] = r in sift@ a 0 e')}")  # fmt: skip
    p = _finish(g, "heap", sort)
    p.text = sift + p.text
    return p


def carried(g: Gen) -> Program:
    """Pairs sorted by their keys: two arrays, or rows of one, that move together."""
    g.smooth = False
    if g.p(0.5):
        body = (f"  loop (k: *[n]t, v: *[n][d]t) = ({g.c('copy x', 'map small x')}, copy y) for i < n do\n    loop (k: *[n]t, v: *[n][d]t) = (k, v) for j < n - 1 - i do\n"
                f"      if k[j] > k[j + 1] then\n        let p = k[j] in let q = k[j + 1] in let r : *[d]t = copy v[j] in let s : *[d]t = copy v[j + 1] in\n"
                f"        (k with [j] = q with [j + 1] = p, v with [j] = s with [j + 1] = r) else (k, v)")  # fmt: skip
        return g.program("carried", [Param("x", ("n",)), Param("y", ("n", "d"))], [("n",), ("n", "d")], body)
    body = ("  let idx : [n]i64 = loop (idx: *[n]i64) = iota n for i < n do loop (idx: *[n]i64) = idx for j < n - 1 - i do\n"
            "    if x[idx[j]] > x[idx[j + 1]] then (let p = idx[j] in let q = idx[j + 1] in idx with [j] = q with [j + 1] = p) else idx in\n"
            f"  {g.c('map (%i -> y[i]) idx', 'loop (o: *[n][d]t) = replicate n (replicate d 0) for i < n do o with [i] = y[idx[i]]', 'scatter (replicate n (replicate d 0)) idx y')}").replace("%i", "\\i")  # fmt: skip
    return g.program("carried", [Param("x", ("n",)), Param("y", ("n", "d"))], [("n", "d")], body)


FAMILIES = [exchange, insertion, bitonic, heap, carried]
