# ruff: noqa: E501 (programs read better unbroken)
"""Queues, stacks, linked structures and sparse matrices: indices that data hold."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program

NEXT = Param("next", ("n",), "n")
X = Param("x", ("n",))


def stack(g: Gen) -> Program:
    """A stack in an array: pushed and popped by what the program says, its depth a loop variable."""
    push = g.mix("x[i]", "top")
    pop = g.mix("s[d - 1]", "s[d - 2]", "x[i]")
    when = g.c("ops[i] == 0", "i % 3 == 2", "ops[i] < 2")
    body = (f"  let (s, d, out) = loop (s: *[n + 1]t, d, out: *[n]t) = (replicate (n + 1) {g.number()}, 1, replicate n 0) for i < n do\n"
            f"    let top = s[d - 1] in\n"
            f"    if {when} && d > 1 then let v = {pop} in (s with [d - 2] = v, d - 1, out with [i] = {g.c('v', 'top')})\n"
            f"    else let v = {push} in (s with [{g.c('d', 'd', 'i + 1')}] = v, {g.c('d + 1', 'd + 1')}, out with [{g.saved('i', 'n')}] = v)\n"
            f"  in (s[d - 1] + 0.1 * t.sum s, out)")  # fmt: skip
    return g.program("stack", [X, Param("ops", ("n",), 3)], [(), ("n",)], body)


def queue(g: Gen) -> Program:
    """A queue in a ring: taken from the front, put at the back, perhaps two at a time."""
    k = g.r.randint(2, 5)
    f = g.mix("a", "x[i]")
    two = g.p(0.4)
    body = (f"  let (q, h, e, s) = loop (q: *[{k}]t, h: i64, e: i64, s) = (tabulate {k} (\\i -> 0.2 * t.i64 i), 0, 2, {g.number()}) for i < n do\n"
            f"    let a = q[h % {k}] in let v = {f} in\n    let s = {g.mix('s', 'a')} in\n"
            + (f"    let q : *[{k}]t = q with [e % {k}] = v in let w = {g.mix('v', 'a')} in\n    if i % 2 == 0 then (q with [(e + 1) % {k}] = w, h + 1, e + 2, s) else (q, h + 1, e + 1, s)\n" if two else
               f"    (q with [e % {k}] = v, h + 1, e + 1, s)\n") + "  in (s, q, t.i64 (e - h) * 0.1 * s)")  # fmt: skip
    return g.program("queue", [X], [(), (k,), ()], body)


def linked(g: Gen) -> Program:
    """Lists followed by index: a walk that reads and writes, pointers doubled, parents before children."""
    kind = g.r.randrange(4)
    if kind == 0:
        body = (f"  let (a, at, s) = loop (a: *[n]t, at: i64, s) = (copy x, 0, {g.number()}) for i < n do\n"
                f"    let v = {g.mix('a[at]', 's')} in (a with [{g.c('at', 'next[at]', 'i')}] = v, next[at], {g.mix('s', 'v')})\n  in (a, s + 0.1 * t.i64 at)")  # fmt: skip
        return g.program("linked", [X, NEXT], [("n",), ()], body, least={"n": 1})
    if kind == 1:
        body = (f"  (loop (v: [n]t, nx: [n]i64) = (x, next) for k < 3 do\n    (map2 (\\z i -> {g.mix('z', 'v[i]')}) v nx, map (\\i -> nx[i]) nx)).0")
        return g.program("linked", [X, NEXT], [("n",)], body)
    if kind == 2:  # a tree: the parent of i is below i
        up = g.p(0.5)
        body = (f"  loop (a: *[n]t) = {g.c('copy x', 'map t.sin x')} for q < n - 1 do\n    let i = {'n - 1 - q' if up else 'q + 1'} in let p = next[i] % i in\n    "
                + (f"a with [p] = {g.mix('a[p]', 'a[i]')}" if up else f"a with [i] = {g.mix('a[i]', 'a[p]')}"))  # fmt: skip
        return g.program("linked", [X, NEXT], [("n",)], body)
    body = (f"  let a : *[n][d]t = copy y in\n  loop (a: *[n][d]t) = a for i < n do\n    let j = next[i] in\n"
            f"    let v : [d]t = map2 (\\p q -> {g.mix('p', 'q')}) a[j] a[i] in\n    {g.c('a with [i] = v', 'a with [j] = v', 'let a = a with [j] = v in a with [i] = v', 'a with [i] = v with [j] = copy v')}")  # fmt: skip
    return g.program("linked", [Param("y", ("n", "d")), NEXT], [("n", "d")], body)


def union(g: Gen) -> Program:
    """Union-find with weights: roots by while loops, parents and weights in place."""
    find = "loop r = {} while p[r] != r do p[r]"
    comp = g.p(0.4)
    body = (f"  let (p, w) = loop (p: *[n]i64, w: *[n]t) = (iota n, copy x) for i < n do\n"
            f"    let u = {find.format('i')} in let v = {find.format('next[i]')} in\n"
            f"    if u == v then (p, w with [u] = {g.mix('w[u]', 'x[i]')})\n"
            f"    else let s = {g.mix('w[u]', 'w[v]')} in (p with [{'u'}] = v{' with [i] = v' if comp else ''}, {g.c('w with [v] = s', 'w with [v] = s with [u] = 0.5 * s')})\n"
            f"  in (w, t.sum (map2 (\\i r -> if i == r then w[i] else 0) (iota n) p))")  # fmt: skip
    return g.program("union", [X, NEXT], [("n",), ()], body)


def sparse(g: Gen) -> Program:
    """Products with matrices by coordinates or rows; forward and transposed; updates by index in loops."""
    params = [Param("w", ("k",)), Param("row", ("k",), "n"), Param("col", ("k",), "n"), X]
    prod = g.c("v * z", g.mix("v", "z"))
    kind = g.r.randrange(5)
    if kind == 0:
        body = f"  reduce_by_index {g.c('(copy x)', '(replicate n 0)')} (+) 0 row (map2 (\\v c -> let z = x[c] in {prod}) w col)"
    elif kind == 1:
        body = f"  loop (y: *[n]t) = {g.c('copy x', 'replicate n 0')} for e < k do let v = w[e] in let z = {g.c('x', 'y')}[col[e]] in y with [row[e]] = {g.c('y[row[e]] + ' + prod, prod)}"
    elif kind == 2:
        body = (f"  loop (y: [n]t) = x for r < {g.c('2', '3')} do\n    let z = reduce_by_index (replicate n 0) (+) 0 {g.c('row', 'col')} (map2 (\\v c -> let z = y[c] in {prod}) w {g.c('col', 'row')}) in\n"
                f"    map2 (\\p q -> {g.mix('p', 'q')}) y z")  # fmt: skip
    elif kind == 3:  # rows of k / n elements, one after the other
        body = (f"  map (\\i -> let lo = i * k / n in let hi = (i + 1) * k / n in loop s = {g.number()} for e < hi - lo do let v = w[lo + e] in let z = x[col[lo + e]] in s + {prod}) (iota n)")
    else:
        # Of several values for one place any may stay, so the places are different.
        body = f"  scatter (copy x) (map (\\e -> if e < n then e else -1) (iota k)) (map2 (\\v c -> let z = x[c] in {prod}) w col)"
    return g.program("sparse", params, [("n",)], body, least={"n": 1})


def permuted(g: Gen) -> Program:
    """Elements moved about in place: cycles, reversals, rotations, rows exchanged."""
    kind = g.r.randrange(4)
    f = g.mix("p", "q")
    if kind == 0:
        body = f"  loop (a: *[n]t) = copy x for i < n / 2 do let j = n - 1 - i in let p = a[i] in let q = a[j] in {g.c(f'a with [i] = q with [j] = {f}', f'a with [j] = {f} with [i] = q', f'let a = a with [i] = {f} in a with [j] = a[i] + p')}"
        return g.program("permuted", [X], [("n",)], body)
    if kind == 1:
        body = (f"  loop (a: *[n][d]t) = copy y for i < n do\n    let j = next[i] in\n    let r : *[d]t = copy a[i] in\n"
                f"    {g.c('let a = a with [i] = copy a[j] in a with [j] = r', 'let s : *[d]t = copy a[j] in a with [j] = r with [i] = s', 'let a : *[n][d]t = a with [j] = map2 (%p q -> ' + f + ') r a[j] in a with [i] = map2 (%p q -> ' + f + ') r a[j]')}").replace("%p", "\\p")  # fmt: skip
        return g.program("permuted", [Param("y", ("n", "d")), NEXT], [("n", "d")], body)
    if kind == 2:
        src = g.c("rotate 1 a", "reverse a", "map2 (\\p q -> " + f + ") a (reverse a)")
        body = f"  loop (a: *[n]t) = copy x for i < 3 do let b : *[n]t = copy ({src}) in if n > 0 then b with [i % n] = {g.mix('b[(i + 1) % n]', 'a[0]')} else b"
        return g.program("permuted", [X], [("n",)], body)
    body = (f"  loop (a: *[n]t) = copy x for i < n do let c = {g.c('i', 'n - i')} in let h = a[:c] in let e = a[c:] in let b : *[n]t = copy ((e ++ h) :> [n]t) in\n"
            f"    b with [i] = {g.mix('b[i]', 'a[i]')}")  # fmt: skip
    return g.program("permuted", [X], [("n",)], body)


FAMILIES = [stack, queue, linked, union, sparse, permuted]
