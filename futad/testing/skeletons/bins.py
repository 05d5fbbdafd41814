# ruff: noqa: E501 (programs read better unbroken)
"""Histograms and scatters of one to three dimensions, with operators on tuples, records and rows: sums with counts,
extrema with places, the two greatest, means with variances, log-sum-exps."""

from __future__ import annotations

from dataclasses import dataclass

from futad.testing.skeletons.base import Gen, Param, Program


@dataclass(frozen=True, slots=True)
class _Operator:
    """On elements of type `of`: made of `x`, `y` and a number `i`; and the float that is made of a result `r`."""

    of: str
    op: str
    unit: str
    make: str
    back: str
    sharp: bool = False


_OPERATORS = (
    _Operator("(t, i64)", "\\(a, c) (b, d) -> (a + b, c + d)", "(0, 0)", "(E, i)", "(let (s, c) = r in s / (1 + t.i64 (c * c)))"),
    _Operator("(t, i64)", "\\(a, i) (b, j) -> if a > b || a == b && i < j then (a, i) else (b, j)", "(-1000, -1)", "(E, i)", "(let (s, j) = r in if j < 0 then 0.3 else s + 0.1 * t.i64 j)", True),
    _Operator("(t, t)", "\\(a, b) (c, d) -> (t.max a c, t.max (t.min a c) (t.max b d))", "(-9, -9)", "(E, -9)", "(let (p, q) = r in p - 0.5 * q)", True),
    _Operator("(t, t)", "\\(a, b) (c, d) -> let m = t.max a c in (m, b * t.exp (a - m) + d * t.exp (c - m))", "(-50, 0)", "(E, 1)", "(let (p, q) = r in p + t.log (1 + q))", True),
    _Operator("(t, t, t)", "\\(n, m, s) (k, l, u) -> if n + k == 0 then (0, 0, 0) else let d = l - m in (n + k, m + d * k / (n + k), s + u + d * d * n * k / (n + k))", "(0, 0, 0)", "(1, E, 0)", "(let (p, q, u) = r in q + 0.1 * u / (1 + p))"),
    _Operator("{k: t, v: t}", "\\p q -> if p.k <= q.k then p else q", "{k = 1000, v = 0}", "{k = E, v = y}", "(r.v * small r.k)", True),
    _Operator("[2]t", "map2 (\\a b -> a + b)", "[0, 0]", "[E, y]", "(r[0] * 0.3 - r[1])"),
    _Operator("[3]t", "map2 t.max", "[-9, -9, -9]", "[E, x, y]", "(r[0] + small (r[1] * r[2]))", True),
    _Operator("t", "(\\a b -> a + b + 0.2 * a * b)", "0", "(small (E))", "(small r)"),
    _Operator("(t, t)", "\\(a, b) (c, d) -> (a * c, b + d + 0.1 * b * d)", "(1, 0)", "(1 + 0.1 * small (E), small y)", "(let (p, q) = r in small (p - q))"),
    _Operator("t", "t.max", "(-1000)", "E", "(if r < -99 then 0.2 else r)", True),
    _Operator("t", "(*)", "1", "(1 + 0.2 * small (E))", "(small r)"),
)  # fmt: skip


def bins(g: Gen) -> Program:
    """One histogram after another, in a map or in a loop, and what is read back from it."""
    lets = ""
    x = "xs"
    for _ in range(g.r.randint(1, 2)):
        o = g.c(*_OPERATORS)
        g.smooth = g.smooth and not o.sharp
        made = o.make.replace("E", g.mix("x", "y"))
        dims = g.c(1, 1, 2, 2, 3)
        some = g.c("i % (m + 1)", "(i * i) % (m + 2) - 1", "is[i]", "is[i]", "m - i", "(is[i] + i) % m")
        more = [some, *[g.c("i % 3", "i % 2", "(i * 2 + 1) % 4 - 1", "i / 2") for _ in range(dims - 1)]]
        at = f"({', '.join(more)})" if dims > 1 else some
        sizes = ["m", "3", "2"][:dims]
        shape = "".join(f"[{s}]" for s in sizes)
        start = o.unit
        for s in reversed(sizes):
            start = f"replicate {s} ({start})"
        if o.of == "t" and dims == 1 and g.p(0.5):
            start = "copy ys"
        h, v = g.name("h"), g.name("v")
        name = f"reduce_by_index{'' if dims == 1 else f'_{dims}d'}"
        ats = f"(map (\\i -> {at}) (iota n))"
        values = f"(map3 (\\i x y -> {made}) (iota n) {x} us)"
        used = f"{name} ({start}) ({o.op}) ({o.unit}) {ats} {values}"
        if dims <= 2 and o.of == "t" and g.p(0.3):
            used = f"scatter{'' if dims == 1 else '_2d'} ({start}) (map (\\i -> {'i' if dims == 1 else '(i, i % 3)'}) (iota n)) {values}"
        place = "is[i]" + "".join(f", {g.c(f'i % {s}', '0')}" for s in sizes[1:])
        if g.p(0.3):
            lets += f"  let {h} = loop (h: *{shape}{o.of}) = {start} for _r < {g.c('2', '1', 'm')} do {used.replace(f'({start})', 'h', 1)} in\n"
        else:
            lets += f"  let {h} : {shape}{o.of} = {used} in\n"
        lets += f"  let {v} : [n]t = map2 (\\i x -> let r = {h}[{place}] in {g.mix('x', o.back)}) (iota n) {x} in\n"
        x = v
    params = [Param("xs", ("n",)), Param("us", ("n",)), Param("ys", ("m",)), Param("is", ("n",), "m")]
    return g.program("bins", params, [("n",)], f"{lets}  {x}", "", {"m": 1}, {"m": 5})


FAMILIES = [bins]
