# ruff: noqa: E501 (programs read better unbroken)
"""Numbers of all widths beside each other, in parameters, between and in results: integers of 8 to 64 bits that wrap
around, bools, floats of 16 to 64 bits, converted in maps, folds, scans, bins and loops."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program, is_float
from futad.testing.skeletons.integers import SIGNED, TYPES, Env, Typed

FLOATS = ("f16", "f32", "f64")
_FROM_T = {"f16": "half", "f32": "single", "f64": "double"}


class _Widths:
    """Vectors of n elements in scope, by the type of the elements."""

    def __init__(self, g: Gen) -> None:
        self.g = g
        self.whole = Typed(g)
        self.vectors: list[tuple[str, str]] = []
        self.scalars: list[tuple[str, str]] = [("s", "t")]

    def to(self, e: str, of: str, x: str) -> str:
        """The number x of type `of` as a float of type e: moderate, and that of an f16 small."""
        if e == of:
            return x
        if of == "bool":
            return f"({e}.bool {x})"
        if not is_float(of):
            return f"({e}.{of} ({x} % {self.g.c('5', '17', '100')}) * {self.g.c('0.1', '0.05')})"
        if of == "t":
            return f"({_FROM_T[e]} {x})"
        return f"(0.2 * {e}.f16 {x})" if of == "f16" else f"({e}.{of} {x})"

    def real(self, e: str, xs: list[tuple[str, str]]) -> str:
        """A float of type e made of one to three of these."""
        g = self.g
        parts = [self.to(e, of, x) for x, of in g.shuffled(xs)[: g.r.randint(1, 3)]]
        out = parts[0]
        for x in parts[1:]:
            k = g.number()
            out = g.c(f"({out} * {x})", f"({k} * {out} + {x})", f"({out} - {k} * {x})", f"({out} / (1.5 + {x} * {x}))", f"({e}.max {out} {x})" if g.p(0.4) else f"({out} + {x})")
        if "max" in out:
            g.smooth = False
        return f"({e}.sqrt (1 + {out} * {out}))" if g.p(0.15) else out

    def any(self, e: str, xs: list[tuple[str, str]], depth: int = 2) -> str:
        """A value of type e; of floats integers are made only as they are given, which is exact."""
        g = self.g
        given = [(x, of) for x, of in xs if is_float(of) and x.startswith("g")]
        ints = [(x, of) for x, of in xs if not is_float(of) and of != "bool"]
        if is_float(e):
            if g.p(0.2):
                return f"(if {self.any('bool', xs, 1)} then {self.real(e, xs)} else {self.real(e, xs)})"
            return self.real(e, xs)
        if e == "bool":
            bools = [x for x, of in xs if of == "bool"]
            if bools and g.p(0.4):
                return g.c(*bools, f"!{g.c(*bools)}", f"({g.c(*bools)} && {self.any('bool', [y for y in xs if y[1] != 'bool'], 0)})")
            if given and g.p(0.3):
                x, of = g.c(*given)
                g.smooth = False
                return f"({x} {g.c('<', '>', '<=', '>=')} {g.c('0.25', '0', '(-0.5)')})"
            return f"({self.whole.test(Env(one=ints), depth)})"
        self.whole.fuel = 8
        if given and g.p(0.2):
            x, of = g.c(*given)
            x = f"({g.c(*FLOATS)}.{of} {x})" if of != "t" and g.p(0.3) else x
            of = x[1:4] if x.startswith("(") else of
            g.smooth = False
            wide = f"(t.to_i64 {x})" if of == "t" else f"(i64.{of} {x})"
            return f"({self.whole.whole(e, Env(one=ints), 1)} + {e}.i64 {wide})" if of == "t" or e[0] == "u" or e == "i8" else f"({e}.{of} {x})"
        return self.whole.whole(e, Env(one=ints), depth)

    def elem(self) -> str:
        g = self.g
        return g.c("t", g.c(*FLOATS), g.c(*FLOATS), g.c(*TYPES), g.c(*TYPES), "bool")

    def over(self, e: str, most: int = 3) -> str:
        """A map to elements of type e."""
        g = self.g
        chosen = [g.c(*self.vectors) for _ in range(g.r.randint(1, most))]
        names = [(g.name("g" if a.startswith("p") else "h"), of) for a, of in chosen]
        every, arrays = [x for x, _ in names], [a if g.p(0.85) else f"(reverse {a})" for a, _ in chosen]
        xs = list(names)
        if g.p(0.3):
            i = g.name("k")
            every, arrays, xs = [*every, i], [*arrays, "(iota n)"], [*xs, (i, "i64")]
        xs += [g.c(*self.scalars)] if g.p(0.4) else []
        return f"map{len(every) if len(every) > 1 else ''} (\\{' '.join(every)} -> {self.any(e, xs)}) {' '.join(arrays)}"

    def statement(self) -> str:
        g, e, y = self.g, self.elem(), self.g.name("v")
        k = g.r.randrange(10)
        number = not e.startswith("b")
        if k == 0 and number:  # a fold in a type of its own
            s, op = g.name("s"), "sum" if is_float(e) or g.p(0.5) else g.c("maximum", "minimum", "product")
            fold = f"{e}.{op} ({self.over(e)})"
            self.scalars.append((s, e))
            fold = f"(let q = {fold} in q / (1 + q * q))" if is_float(e) else fold
            return f"  let {s} : {e} = {fold} in\n"
        if k == 1 and number:
            text = f"scan (+) 0 ({self.over(e, 2)})"
            text = f"map (\\q -> q / (1 + q * q)) ({text})" if is_float(e) else text
        elif k == 2 and number:
            op, neutral = ("(+)", "0") if is_float(e) or g.p(0.5) else g.c((f"{e}.max", f"{e}.lowest"), ("(^)", "0"), ("(*)", "1"))
            text = f"reduce_by_index (replicate n {neutral}) {op} {neutral} (map (\\k -> {g.c('k', 'k / 2', 'k * k % n')}) is) ({self.over(e, 2)})"
        elif k == 3:
            text = f"let w = {self.over(e)} in map (\\k -> w[k]) is"
        elif k == 4:
            at = g.c("i", "is[i]", "n - 1 - i")
            other = self.over(e)
            text = f"let w = {self.over(e)} in loop (u: *[n]{e}) = {other} for i < n do u with [{at}] = {'w[i]' if not number else g.c('w[i]', f'w[{at}]', 'u[is[i]]')}"
        elif k == 5:
            text = f"scatter ({self.over(e)}) (map (\\i -> {g.c('n - 1 - i', 'if i % 3 == 0 then i else -1', '2 * i')}) (iota n)) ({self.over(e)})"
        elif k == 6:  # pairs of two types
            f, p, q = self.elem(), g.name("g"), g.name("h")
            d = g.c("p", "q")
            text = f"let ({p}, {q}) = unzip (map2 (\\p q -> if {d} == {d} then (p, q) else (p, q)) ({self.over(f, 2)}) ({self.over(e, 2)})) in map2 (\\p q -> {self.any(e, [('p', f), ('q', e)])}) {p} {q}"
        elif k == 7 and number and not is_float(e):  # the greatest and where it is
            text = f"let (w, j) = reduce (\\(a, i) (b, j) -> if b > a || b == a && j < i then (b, j) else (a, i)) ({e}.lowest, i32.highest) (zip ({self.over(e)}) (map i32.i64 (iota n))) in map (\\k -> {g.c('w', f'{e}.i32 j', f'w - {e}.i64 k')}) is"
        else:
            text = self.over(e)
        self.vectors.append((y, e))
        return f"  let {y} : [n]{e} = {text} in\n"


def widths(g: Gen) -> Program:
    w = _Widths(g)
    params = [Param("px", ("n",)), Param("s"), Param("is", ("n",), "n")]
    for k in range(g.r.randint(1, 3)):
        e = g.c(*FLOATS, *TYPES, "bool")
        params.append(Param(f"p{k}", ("n",), elem=e))
    w.vectors = [(p.name, p.elem or "t") for p in params if p.shape and p.bound is None]
    body = "".join(w.statement() for _ in range(g.c(1, 2, 2, 3)))
    last, of = w.vectors[-1]
    outs: list[tuple[str, str, tuple[str, ...]]] = [(last, of, ("n",))]
    if of in SIGNED or of in TYPES or of == "bool" or g.p(0.4):
        e = g.c("t", *FLOATS)
        outs.append((w.over(e), e, ("n",)))
    if len(w.scalars) > 1:
        outs.append((w.scalars[-1][0], w.scalars[-1][1], ()))
    text = outs[0][0] if len(outs) == 1 else f"({', '.join(o for o, _, _ in outs)})"
    made = g.program("widths", params, [s for _, _, s in outs], f"{body}  {text}", outs=tuple(e for _, e, _ in outs))
    made.around, made.smooth = True, False
    made.precision = "f2" if "f16" in made.text else "f4"
    return made


FAMILIES = [widths]
