# ruff: noqa: E501 (programs read better unbroken)
"""Choices: ranges that a branch guards, whose lengths may be negative where it is not taken; searches by `while` loops in
branches; extrema that are compared with values computed once more; tables read at places computed of floats."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program

V = "*[n]t"


class _Ranges:
    """Uses of a range from `lo` to below `hi` of `v`, and of counters in scope."""

    def __init__(self, g: Gen, counters: list[str]) -> None:
        self.g, self.counters = g, counters

    def bounds(self) -> str:
        """Two numbers, of which the second may be less."""
        g = self.g
        ends = ["d", "e", "n", "n - d", "e - d", "n - e - 1", "0", *self.counters, *[f"{c} - 1" for c in self.counters], *[f"{c} + e" for c in self.counters], *[f"n - {c}" for c in self.counters]]
        return f"let lo = {g.c(*ends)} in let hi = {g.c(*ends)} in"

    def number(self) -> str:
        g = self.g
        return g.c("t.sum v[lo:hi]", "t.sum (map (\\j -> v[lo + j] * x[n - 1 - lo - j]) (iota (hi - lo)))", f"(loop s = 0.2 for j < hi - lo do {g.mix('s', 'v[lo + j]')})",
                   f"reduce softmax (-1000) (map (\\z -> {g.mix('z', 'c')}) v[lo:hi])", "(if hi > lo then last v[lo:hi] * head x[lo:hi] else 0.3)",
                   f"(let u = filter (\\z -> z < 0.4321) v[lo:hi] in {g.mix('t.sum u', 'c')})", "t.sum (map2 (*) v[lo:hi] (reverse x[lo:hi]))")  # fmt: skip

    def array(self) -> str:
        """`v`, of which the range is overwritten."""
        g = self.g
        value = g.mix("v[lo + j]", g.c("x[lo + j]", "v[hi - 1 - j]", "c", "x[j]"))
        step = g.c("v with [lo + j] = VALUE", "v with [hi - 1 - j] = VALUE", "if j % 2 == 0 then v with [lo + j] = VALUE else v",
                   "if x[lo + j] < 0.3217 then v with [lo + j] = VALUE else v with [hi - 1 - j] = small v[lo + j]").replace("VALUE", value)  # fmt: skip
        twice = "loop (v: *[n]t) = v for q < j + 1 do let w = copy v[lo + q:lo + j + 1] in v with [lo + q] = small (t.sum w + c)"
        return g.c(f"(loop (v: {V}) = v for j < hi - lo do {step})", f"(loop (v: {V}) = v for j < hi - lo do {step})", f"(let w = map (\\z -> {g.mix('z', 'c')}) v[lo:hi] in v with [lo:hi] = w)",
                   "(let w = copy (reverse v[lo:hi]) in v with [lo:hi] = w)", "(let w = scan (+) 0 x[lo:hi] in v with [lo:hi] = w)", f"(loop (v: {V}) = v for j < hi - lo do {twice})",
                   f"(loop (v, j) = (v, lo) while j < hi && v[j] < 0.8642 do (v with [j] = {g.mix('v[j]', 'c')} + 0.2, j + 1)).0")  # fmt: skip

    def guarded(self, use: str, other: str) -> str:
        g = self.g
        also = g.c("", "", " && v[lo] < 0.5432" if "v[lo]" not in other else "")
        inside = "0 <= lo && lo <= hi && hi <= n" + (also.replace(" && ", " && lo < n && ") if also else "")
        g.smooth = g.smooth and not also and "<" not in use
        if g.p(0.25):
            return f"(if lo > hi || lo < 0 || hi > n then {other} else {use})"
        return f"(if {inside} then {use} else {other})"


def guards(g: Gen) -> Program:
    """Such ranges at the top, in loops, and in maps."""
    body = "  let v = copy x in let c = y[0] in\n"
    outs: list[tuple[str, tuple[str, ...]]] = []
    for _ in range(g.r.randint(1, 3)):
        kind = g.r.randrange(4)
        i = g.name("i")
        r = _Ranges(g, [i] if kind in (1, 2) else [])
        other = g.c("c", "0.4", "v[0]", "x[n - 1]")
        keep = g.c("v", f"(v with [0] = {g.mix('v[0]', 'c')})")
        if kind == 0:
            body += f"  let v : {V} = {r.bounds()} {r.guarded(r.array(), keep)} in\n"
        elif kind == 1:
            more = f"let c = {r.bounds()} {r.guarded(r.number(), other)} in " if g.p(0.5) else ""
            head, first = g.counted(i, g.c("n", "3", "m", "e"))
            body += f"  let v : {V} = loop (v: {V}) = v {head} {first}{more}{r.bounds()} {r.guarded(r.array(), keep)} in\n"
        elif kind == 2:
            s = g.name("s")
            text = f"map2 (\\{i} c -> {r.bounds()} {r.guarded(r.number(), other)}) (iota m) y"
            body += f"  let {s} : [m]t = {text} in let c = t.sum {s} in\n"
            outs.append((s, ("m",)))
        else:
            s = g.name("s")
            body += f"  let {s} : t = {r.bounds()} {r.guarded(r.number(), other)} in let c = small {s} in\n"
            outs.append((s, ()))
    outs = [*outs[-2:], ("v", ("n",))]
    out = outs[0][0] if len(outs) == 1 else f"({', '.join(o for o, _ in outs)})"
    params = [Param("x", ("n",)), Param("y", ("m",)), Param("d", (), 6), Param("e", (), 6)]
    return g.program("guards", params, [s for _, s in outs], f"{body}  {out}", "", {"n": 1, "m": 1})


def searches(g: Gen) -> Program:
    """Roots, steps and places found by `while` loops, in branches, loops and maps."""
    g.smooth = False
    f = g.mix("z", "p", sharp=0)
    head = f"def f@ (p: t) (z: t) : t = {f}\n".replace("f@", "g@")
    newton = "(loop (z, j) = (z, 0) while j < 6 && t.abs (g@ p z) > 0.0123 do let d = jvp (g@ p) z 1 in (z - 0.5 * g@ p z * d / (0.2 + d * d), j + 1)).0"
    halves = "(let (a, b, _) = loop (a, b, j) = (z - 2, z + 2, 0) while j < 7 && b - a > 0.1234 do let m = 0.5 * (a + b) in if g@ p m > 0.0321 then (a, m, j + 1) else (m, b, j + 1) in a + 0.1 * g@ p b)"
    line = "(let (s, _) = loop (s, j) = (1, 0) while j < 5 && g@ p (z - s) > g@ p z - 0.0213 do (0.5 * s, j + 1) in z - s * g@ p z)"
    fixed = "(loop z = z while t.abs z < 0.7654 do 1.3 * z + t.copysign 0.2 z + 0.01 * small p)"
    walk = f"(let (v, _, _) = loop (v: {V}, i, j) = (copy x, 0, 0) while j < n && v[i] < 0.6789 do (v with [i] = {g.mix('v[i]', 'z')} + 0.2, (i * 2 + 1) % n, j + 1) in t.sum v * 0.3)"
    nested = "(loop (s, j) = (z, 0) while j < 3 do let (q, _) = loop (q, k) = (s, 0) while k < j + 1 && q < 0.7531 do (g@ p q + 0.3, k + 1) in (small (s + q), j + 1)).0"

    def found() -> str:
        return g.c(newton, halves, line, fixed, walk, nested)

    choice = g.c(f"if p < {g.c('0.1234', '-0.2345')} then {found()} else {g.c(found(), 'z', 'small p')}", found(),
                 f"if z * p > 0.0567 then (loop z = z for k < 3 do if z < 0.2109 then {found()} else {g.mix('z', 'p')}) else {found()}")  # fmt: skip
    kind = g.r.randrange(4)
    if kind == 0:
        return g.program("searches", [Param("x", ("n",)), Param("y", ("n",))], [("n",)], f"  map2 (\\z p -> {choice}) x y", head, {"n": 1})
    if kind == 1:
        body = f"  loop (v: {V}) = copy x for i < n do\n    let z = v[i] in let p = y[(i + 1) % n] in let z = {choice} in v with [{g.c('i', '(i * 2) % n', 'n - 1 - i')}] = small z"
        return g.program("searches", [Param("x", ("n",)), Param("y", ("n",))], [("n",)], body, head, {"n": 1})
    if kind == 2:
        body = f"  map (\\p -> t.sum (map (\\z -> {choice}) x)) y"
        return g.program("searches", [Param("x", ("n",)), Param("y", ("m",))], [("m",)], body, head, {"n": 1})
    body = f"  let (s, w) = loop (s, w) = (0.1, y) for z in x do let p = w[0] in let z = {choice} in (small (s + z), map (\\q -> {g.mix('q', 'z')}) w) in (s, w)"
    return g.program("searches", [Param("x", ("n",)), Param("y", ("m",))], [(), ("m",)], body, head, {"n": 1, "m": 1})


def ties(g: Gen) -> Program:
    """Extrema, places and thresholds, with equal values computed once more, or in another order."""
    g.smooth = False
    e = g.c("x * y", "x * y + 0.3", "(x - y) * (x - y)", "t.sin x * y", "t.exp (-x * x) + y", "x / (1 + y * y)", g.mix("x", "y", sharp=0))
    other = e.replace("x * y", "y * x")
    most, least = g.c(("t.max", "(-1000)"), ("t.min", "1000"))
    best = f"reduce {most} {least} ps"
    ps = f"map2 (\\x y -> {e}) xs ys"
    again = g.c("ps", f"(map2 (\\x y -> {other}) xs ys)", ps if ps.startswith("(") else f"({ps})")
    kind = g.r.randrange(7)
    if kind == 0:
        body = f"  let ps = {ps} in let m = {best} in map2 (\\p x -> if p == m then {g.c('p * p', 'x * 3', 'm * x')} else {g.mix('p', 'x')}) {again} xs"
    elif kind == 1:
        op = g.c("(if a < b || a == b && i < j then (a, i) else (b, j))", "(if a >= b then (a, i) else (b, j))", "(if b < a then (b, j) else (a, i))")
        unit = "(1000, 0)" if "a < b" in op or "b < a" in op else "(-1000, 0)"
        body = f"  let ps = {ps} in let (p, i) = reduce (\\(a, i) (b, j) -> {op}) {unit} (zip {again} (iota n)) in map (\\x -> {g.mix('x', 'p', 'ys[i]')}) xs"
    elif kind == 2:
        body = f"  map (\\x -> let ps = map (\\y -> {e}) ys in let m = {best} in t.sum (map (\\y -> if {other} == m then {g.mix('x', 'y')} else 0) ys)) xs"
    elif kind == 3:
        body = f"  map2 (\\x y -> {g.c('t.max', 't.min')} ({e}) ({other}) + t.abs (({e}) - ({other})) + t.max 0 ({e}) + t.min 1 (t.max (-1) ({g.c('x', 'y', e)}))) xs ys"
    elif kind == 4:
        body = (f"  let (m, at) = loop (m, at) = ({least}, 0) for i < n do let (x, y) = (xs[i], ys[i]) in let p = {e} in if {g.c('p > m', 'p >= m', 'm < p')} then (p, i) else (m, at)\n"
                f"  in map2 (\\x y -> ({other}) - m + x * xs[at]) xs ys")  # fmt: skip
    elif kind == 5:  # the greatest in windows, and where they are taken
        body = (f"  let ps = {ps} in let qs : [n]t = map (\\i -> {most} ps[i] ({most} ps[(i + 1) % n] ps[(i + 2) % n])) (iota n)\n"
                f"  in map3 (\\p q x -> if p == q then x * q else {g.mix('p', 'q')}) {again} qs xs")  # fmt: skip
    else:
        body = (f"  let ps = {ps} in let rs = reduce_by_index (replicate n {least}) {most} {least} (map (\\i -> (i * i) % n) (iota n)) ps\n"
                f"  in map3 (\\i p x -> if rs[(i * i) % n] == p then p * x else small p) (iota n) {again} xs")  # fmt: skip
    return g.program("ties", [Param("xs", ("n",)), Param("ys", ("n",))], [("n",)], body, "", {"n": 1})


def lookups(g: Gen) -> Program:
    """Tables read at several places that are computed of floats from 0 to 3.1, which nobody may need later."""
    g.smooth = False
    bounded = g.p(0.4)

    def floor(x: str) -> str:
        return f"i64.max 0 (i64.min 4 (t.to_i64 ({x} * {g.c('0.83', '1.73')})))" if bounded else f"t.to_i64 {x}"

    made = g.c("scan t.max 0 (map (\\y -> t.min 3 (y * y)) ys)", "scan t.max 0.1 (map (\\y -> t.abs (t.sin (3 * y)) * 2.7) ys)",
               "map (\\y -> t.abs (t.sin (3 * y)) * 2.7) ys", "loop (xs: [n]t) = map t.abs ys for i < 3 do map (\\x -> t.abs (t.sin (x + t.i64 i)) * 3.1) xs")  # fmt: skip
    k = g.c(floor("x"), floor("x"), floor("x"), floor("z"), "if x > 0.9123 then 1 else 0", "(i + 1) % 5")
    j = g.c("k + 1", "k + 2", floor("z"), floor("x"), "i % 8")
    reads = g.shuffled(["tab[k]", "tab[k + 1]", "tab[j]", "tab[k + 2]"])[: g.r.randint(2, 4)]
    terms = [g.mix(r, "x", g.c("x", "y", "z"), depth=2) for r in reads]
    at = g.r.randrange(len(terms))
    terms[at] = g.c(terms[at], f"(if {g.c('x > 0.8123', 'z < y', 'k > 1')} then {terms[at]} else {g.c('x', 'small z', 'x * tab[j]')})")
    value = f"{'' if bounded else '#[unsafe] '}let k = {k} in let j = {j} in {' + '.join(terms)}"
    kind = g.r.randrange(3)
    if kind == 0:
        body = f"  let xs : [n]t = {made} in map4 (\\x y z i -> {value}) xs ys (map (\\y -> t.abs (t.sin y)) ys) (iota n)"
    elif kind == 1:
        rows = "map (\\a -> map (\\b -> t.abs (t.sin (a + b)) * 2.3) ys) xs"
        body = (f"  let xs : [n]t = {made} in let rows = {rows}\n"
                f"  in map2 (\\row y -> t.sum (map3 (\\x z i -> {value}) row xs (iota n))) rows ys")  # fmt: skip
    else:
        body = f"  let xs : [n]t = {made} in loop xs for l < 3 do map4 (\\x y z i -> t.abs (small ({value})) * 4.1) xs ys (map (\\y -> t.abs (t.sin y)) ys) (iota n)"
    return g.program("lookups", [Param("tab", (8,)), Param("ys", ("n",))], [("n",)], body, "", {"n": 1})


FAMILIES = [guards, searches, ties, lookups]
