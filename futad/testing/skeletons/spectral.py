# ruff: noqa: E501 (programs read better unbroken)
"""Butterflies, transforms, multigrid, prefix sums by hand: strides that double and halve."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program


def fft(g: Gen) -> Program:
    """Butterflies over arrays of 1, 2, 4 or 8 places: in place by pairs, or each stage a map."""
    q = g.r.randint(0, 3)
    n = 1 << q
    angle = g.c(f"0.7853981633974483 * t.i64 (j * {max(8 // max(n, 1), 1)})", "0.3 * t.i64 j + w[k]")
    if g.p(0.6):
        tmp = g.c("let a = re[p] in let b = im[p] in let c = re[o] in let d = im[o] in", "let c = re[o] in let d = im[o] in let a = re[p] in let b = im[p] in")
        writes = g.shuffled(["let re = re with [p] = a + x in", "let im = im with [p] = b + y in", "let re = re with [o] = a - x in", "let im = im with [o] = b - y in"])
        body = (f"  loop (re: *[{n}]t, im: *[{n}]t) = (copy r, copy s) for k < {q} do\n    let h = 1 << {g.c('k', f'({q} - 1 - k)')} in\n"
                f"    loop (re: *[{n}]t, im: *[{n}]t) = (re, im) for e < {n // 2} do\n      let j = e % h in let p = (e / h) * 2 * h + j in let o = p + h in\n"
                f"      let th = {angle} in {tmp}\n      let x = t.cos th * c - t.sin th * d in let y = t.sin th * c + t.cos th * d in\n      "
                + " ".join(writes) + "\n      (re, im)")  # fmt: skip
    else:
        part = f"let h = 1 << k in let j = i % h in let p = (i / (2 * h)) * 2 * h + j in let o = p + h in let th = {angle} in"
        sgn = "(if (i / h) % 2 == 0 then 1 else -1)"
        body = (f"  loop (re: [{n}]t, im: [{n}]t) = (r, s) for k < {q} do\n    let f = \\i -> {part} let sg : t = {sgn} in\n"
                f"      (re[p] + sg * (t.cos th * re[o] - t.sin th * im[o]), im[p] + sg * (t.sin th * re[o] + t.cos th * im[o])) in\n"
                f"    unzip (map f (iota {n}))")  # fmt: skip
    w = [Param("w", (3,))] if "w[k]" in angle else []
    return g.program("fft", [Param("r", (n,)), Param("s", (n,)), *w], [(n,), (n,)], body)


def haar(g: Gen) -> Program:
    """A wavelet transform: averages and differences, of a part that is halved each time."""
    q = g.r.randint(0, 3)
    n = 1 << q
    if g.p(0.5):
        body = (f"  loop (a: *[{n}]t) = copy x for k < {q} do\n    let h = {n} >> (k + 1) in\n    let old = {g.c('copy a', 'map small a')} in\n"
                f"    loop (a: *[{n}]t) = a for i < h do\n      let u = {g.mix('old[2 * i]', 'old[2 * i + 1]')} in let v = {g.mix('old[2 * i]', 'old[2 * i + 1]')} in\n"
                f"      {g.c('a with [i] = u with [h + i] = v', 'a with [h + i] = v with [i] = u')}")  # fmt: skip
    else:
        body = (f"  loop (a: *[{n}]t) = copy x for k < {q} do\n    let h = 1 << k in\n    loop (a: *[{n}]t) = a for e < {n // 2} do\n"
                f"      let p = (e / h) * 2 * h + e % h in let u = a[p] in let v = a[p + h] in\n      let a = a with [{g.c('p', 'p + h')}] = {g.mix('u', 'v')} in a with [{g.c('p', 'p + h')}] = {g.mix('u', 'v')}")  # fmt: skip
    return g.program("haar", [Param("x", (n,))], [(n,)], body)


def prefix(g: Gen) -> Program:
    """Prefix sums by hand: sequential, by doubling strides with two buffers, or up and down a tree in place."""
    op = g.c("{a} + {b}", "0.5 * {a} + {b}", "small ({a} + {b})", "t.max {a} {b}", "{a} * t.cos {b}")
    if "max" in op:
        g.smooth = False

    def f(a: str, b: str) -> str:
        return op.format(a=a, b=b)

    kind = g.r.randrange(4)
    if kind == 0:
        head, first = g.counted("i", "n - 1", 0.3)
        i, o = g.c(("i + 1", "i"), ("n - 2 - i", "n - 1 - i"))
        body = f"  loop (a: *[n]t) = copy x {head} {first}a with [{i}] = {f(f'a[{o}]', f'a[{i}]')}"
    elif kind == 1:
        body = f"  loop (a: [n]t) = x for k < 4 do let d = 1 << k in tabulate n (\\i -> if i < d then a[i] else {f('a[i - d]', 'a[i]')})"
    elif kind == 2:
        body = (f"  let (a, b) : ([n]t, [n]t) = loop (a: *[n]t, b: *[n]t) = (copy x, {g.c('copy x', 'replicate n 0.3')}) for k < 4 do\n    let d = 1 << k in\n"
                f"    let b : *[n]t = loop (b: *[n]t) = b for i < n do b with [i] = if i < d then a[i] else {f('a[i - d]', 'a[i]')} in ({g.c('b, a', 'b, a', 'copy b, b')})\n"
                f"  in map2 (\\p q -> p + 0.1 * q) a b")  # fmt: skip
    else:
        up = "loop (a: *[8]t) = copy x for k < 3 do let d = 1 << k in loop (a: *[8]t) = a for e < 4 >> k do let i = 2 * d * (e + 1) - 1 in a with [i] = " + f("a[i - d]", "a[i]")
        down = ("loop (a: *[8]t) = a with [7] = 0.2 for q < 3 do let d = 4 >> q in loop (a: *[8]t) = a for e < 1 << q do\n"
                "      let i = 2 * d * (e + 1) - 1 in let l = a[i - d] in let a = a with [i - d] = a[i] in a with [i] = " + f("l", "a[i]"))
        down = down.replace("a with [7] = 0.2 for", "(a with [7] = 0.2) for")
        return g.program("prefix", [Param("x", (8,))], [(8,)], f"  let a : *[8]t = {up} in\n    {down}")
    return g.program("prefix", [Param("x", ("n",))], [("n",)], body)


def multigrid(g: Gen) -> Program:
    """Smooth, restrict to half the points, correct, prolong; or all levels in one array."""
    f = g.mix("l", "r", "c")
    smooth = (f"def smooth@ [n] (u: [n]t) : [n]t = {g.c(f'tabulate n (%i -> let l = if i == 0 then 0.1 else u[i - 1] in let r = if i == n - 1 then 0 else u[i + 1] in let c = u[i] in {f})', f'loop (u: *[n]t) = copy u for i < n do let l = if i == 0 then 0.1 else u[i - 1] in let r = if i == n - 1 then 0 else u[i + 1] in let c = u[i] in u with [i] = {f}')}\n")
    smooth = smooth.replace("%i", "\\i")
    if g.p(0.6):
        down = g.mix("a", "b")
        helpers = (smooth + f"def coarse@ [n] (u: [n]t) : [n / 2]t = tabulate (n / 2) (\\i -> let a = u[2 * i] in let b = u[2 * i + 1] in {down})\n"
                   f"def fine@ [n][m] (e: [m]t) (u: [n]t) : [n]t = {g.c('tabulate n (%i -> if i / 2 < m then u[i] + 0.5 * e[i / 2] else u[i])', 'loop (u: *[n]t) = copy u for i < m do if 2 * i + 1 < n then u with [2 * i] = u[2 * i] + e[i] with [2 * i + 1] = u[2 * i + 1] + 0.5 * e[i] else u')}\n").replace("%i", "\\i")  # fmt: skip
        deep = g.p(0.5)
        mid = "smooth@ (fine@ (smooth@ (coarse@ c)) c)" if deep else "smooth@ c"
        body = f"  loop (u: [n]t) = x for r < {g.c('1', '2')} do\n    let u = smooth@ u in let c = smooth@ (coarse@ u) in let e = {mid} in smooth@ (fine@ e u)"
        return g.program("multigrid", [Param("x", ("n",))], [("n",)], body, helpers)
    # levels in one array: level k begins at 16 - 2 * (8 >> k), of 8 >> k points
    body = (f"  let a : *[15]t = replicate 15 0 in\n  let a = loop (a: *[15]t) = a for i < 8 do a with [i] = x[i] in\n"
            f"  let a = loop (a: *[15]t) = a for k < 3 do let h = 8 >> k in let o = 16 - 2 * h in let p = 16 - h in\n"
            f"    loop (a: *[15]t) = a for i < h / 2 do a with [p + i] = {g.mix('a[o + 2 * i]', 'a[o + 2 * i + 1]')} in\n"
            f"  let a = loop (a: *[15]t) = a for q < 3 do let k = 2 - q in let h = 8 >> k in let o = 16 - 2 * h in let p = 16 - h in\n"
            f"    loop (a: *[15]t) = a for i < h do a with [o + i] = {g.mix('a[o + i]', 'a[p + i / 2]')} in\n  a")  # fmt: skip
    return g.program("multigrid", [Param("x", (8,))], [(15,)], body)


def convolution(g: Gen) -> Program:
    """Filters forwards and backwards in place, polynomials multiplied into an array of sums."""
    if g.p(0.5):
        acc = f"z with [i + j] = z[i + j] + {g.c('x[i] * y[j]', g.mix('x[i]', 'y[j]'))}"
        body = f"  loop (z: *[n + m]t) = replicate (n + m) {g.number()} for i < n do loop (z: *[n + m]t) = z for j < m do {acc}"
        return g.program("convolution", [Param("x", ("n",)), Param("y", ("m",))], [()], f"  t.sum (map2 (\\i z -> z * t.sin (t.i64 i)) (iota (n + m)) ({body.strip()}))")
    f = g.mix("a[i]", "a[i + 1]", "y[0]")
    b = g.mix("a[i + 1]", "a[i]", "y[1]")
    body = (f"  let a : *[n]t = loop (a: *[n]t) = copy x for i < n - 1 do a with [{g.c('i', 'i + 1')}] = {f} in\n"
            f"  loop (a: *[n]t) = {g.c('a', 'map small a')} for q < n - 1 do let i = n - 2 - q in a with [{g.c('i', 'i + 1')}] = {b}")  # fmt: skip
    return g.program("convolution", [Param("x", ("n",)), Param("y", (2,))], [("n",)], body)


FAMILIES = [fft, haar, prefix, multigrid, convolution]
