# ruff: noqa: E501 (programs read better unbroken)
"""Gradients by n forward passes, and sums of what is zero but at few places, written in several ways."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program


def hot(g: Gen, i: str, n: str) -> str:
    """An array of n zeros but at place i, which is in range."""
    j = g.name("j")
    v = g.c("1", "1", "1", g.number())
    test = g.c(f"{j} == {i}", f"{i} == {j}", f"{j} - {i} == 0", f"{j} + 2 == {i} + 2", f"{n} - 1 - {j} == {n} - 1 - {i}")
    choice = g.c(f"if {test} then {v} else 0", f"{v} * t.bool ({test})", f"if {j} != {i} then 0 else {v}", f"t.bool ({test})")
    return g.c(
        f"tabulate {n} (\\{j} -> {choice})",
        f"map (\\{j} -> {choice}) (iota {n})",
        f"map2 (\\{j} z -> z + ({choice})) (iota {n}) (replicate {n} 0)",
        f"(replicate {n} 0 with [{i}] = {v})",
        f"scatter (replicate {n} 0) [{i}] [{v}]",
        f"sized {n} (replicate ({i}) 0 ++ [{v}] ++ replicate ({n} - 1 - ({i})) 0)",
        f"(tabulate {n} (\\r -> tabulate {n} (\\{j} -> t.bool (r == {j}))))[{i}]",
        f"copy (tabulate {n} (\\{j} -> {choice}))",
    )


def direction(g: Gen, i: str, n: str) -> str:
    """One-hot, sometimes at two places or one of another index."""
    k = g.r.random()
    if k < 0.75:
        return hot(g, i, n)
    if k < 0.85:
        return f"map2 (\\a b -> a + {g.number()} * b) ({hot(g, i, n)}) ({hot(g, g.c(f'(({i} + 1) % {n})', f'({n} - 1 - {i})', i), n)})"
    if k < 0.95:
        return f"map2 (\\a j -> if j % 2 == 0 then a else {g.c('0', '-a')}) ({hot(g, i, n)}) (iota {n})"
    return f"scan (+) 0 ({hot(g, i, n)})"


def scalar(g: Gen) -> str:
    """A function of `u: [n]t` (and `w: [n]t`, `is: [m]i64` from outside) with a scalar result."""
    k = g.r.randrange(10)
    if k == 0:
        return f"t.sum (map (\\x -> {g.mix('x')}) u)"
    if k == 1:
        return f"t.sum (map2 (\\x y -> {g.mix('x', 'y')}) u w)"
    if k == 2:
        return f"loop s = {g.number()} for x in u do s + {g.mix('x')}"
    if k == 3:
        return f"t.log (1 + t.sum (map (\\x -> t.exp ({g.mix('x')})) u))"
    if k == 4:
        return f"t.sum (tabulate n (\\j -> let a = u[j] in let b = u[{g.at('j', 'n')}] in {g.mix('a', 'b')}))"
    if k == 5:
        return f"t.sum (map (\\b -> let x = u[b] in {g.mix('x')}) is)"
    if k == 6:
        return f"let h = reduce_by_index (replicate n 0) (+) 0 is (map (\\b -> small u[{g.c('b', '(b + 1) % n')}]) is) in t.sum (map2 (\\a b -> {g.mix('a', 'b')}) h u)"
    if k == 7:
        f = g.mix("x", "y")
        op, neutral = g.c(("(+)", "0"), ("softmax", "(-1000)"))
        return f"t.sum (map2 (\\x y -> {f}) (scan {op} {neutral} u) w)"
    if k == 8:
        return f"loop s = 0.5 for j < n do {g.c(f'small (s + u[j] * {g.number()})', 's + s * 0.1 * u[j]', 'if j % 3 == 1 then s else s + w[j] * u[j] * u[j]')}"
    g.smooth = False
    return f"{g.c('t.sum', 't.maximum')} (map2 (\\x y -> if x < y then {g.mix('x')} else y) u w) * 0.5"


def forward_gradient(g: Gen) -> Program:
    """A gradient by a forward pass for each argument."""
    body = scalar(g)
    helpers = f"def of@ [n][m] (is: [m]i64) (w: [n]t) (u: [n]t) : t = {body}\n"
    f = "(of@ is w)"
    kind = g.r.randrange(5)
    d = direction(g, "i", "n")
    if kind == 0:
        out = f"  tabulate n (\\i -> jvp {f} x ({d}))"
    elif kind == 1:
        out = f"  map (\\d -> jvp {f} x d) (tabulate n (\\i -> {d}))"
    elif kind == 2:
        out = f"  jmp {f} x (tabulate n (\\i -> {d}))"
    elif kind == 3:
        out = f"  let (vs, ds) = unzip (tabulate n (\\i -> jvp2 {f} x ({d})))\n  in map2 (\\v d -> 0.5 * v + d) vs ds"
    else:
        out = f"  loop (o: *[n]t) = replicate n 0 for i < n do o with [{g.c('i', 'n - 1 - i')}] = jvp {f} x ({d})"
    params = [Param("is", ("m",), "n"), Param("w", ("n",)), Param("x", ("n",))]
    return g.program("forward_gradient", params, [("n",)], out, helpers, {"n": 1}, {"n": 5})


def few_places(g: Gen) -> Program:
    """Sums, loops and histograms of what is zero unless an index is at a certain place."""
    k = g.r.randrange(7)
    place = g.c("k", "k", "k + 1", "k - 2", "n - 1 - k", "p", "2 * k", "-1")
    test = g.c(f"j == {place}", f"j + 1 == {place}", f"{place} == n - 1 - j", f"j == {place} || j == k", f"j == {place} && j < 3", f"2 * j == {place}")
    value = g.mix("x", "y[k]")
    term = g.c(f"if {test} then {value} else 0", f"t.bool ({test}) * ({g.mix('x')})", f"if !({test}) then 0 else {value}")
    p = "let p = is[k % m] in " if "p" in place + term else ""
    if k < 2:
        body = f"t.sum (map2 (\\x j -> {term}) x (iota n))"
    elif k == 2:
        body = f"loop s = {g.number()} for j < n do let x = x[j] in s + ({term})"
    elif k == 3:
        body = f"loop s = y[k] for j < n do let x = x[j] in if {test} then {g.mix('s', 'x')} else s"
    elif k == 4:
        body = f"t.sum (map2 (\\b v -> if b == {g.c('k', 'k + 1', 'k - 1')} then {g.c('v', 'v * y[k]', 'small v')} else 0) is z)"
    elif k == 5:
        body = f"t.sum (map2 (*) y (reduce_by_index (replicate n 0) (+) 0 (map (\\j -> (j * 3 + 1) % n) (iota n)) (map2 (\\x j -> {term}) x (iota n))))"
    else:
        body = f"(map2 (\\x j -> {term}) x (iota n))[{g.c('k', 'n - 1 - k', '0')}]"
    params = [Param("is", ("m",), "n"), Param("z", ("m",)), Param("x", ("n",)), Param("y", ("n",))]
    return g.program("few_places", params, [("n",)], f"  tabulate n (\\k -> {p}{body})", "", {"n": 1, "m": 1}, {"n": 5, "m": 5})


FAMILIES = [forward_gradient, few_places]
