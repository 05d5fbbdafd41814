# ruff: noqa: E501 (programs read better unbroken)
"""Integers of all types beside floats: words that wrap around, shifts, hashes and conversions, keys, flags, positions
and counts; floats are chosen, moved, scaled and summed by them.  Expressions are drawn by their types."""

from __future__ import annotations

from dataclasses import dataclass, field

from futad.testing.skeletons.base import Gen, Param, Program

SIGNED = ("i8", "i16", "i32", "i64")
TYPES = (*SIGNED, "u8", "u16", "u32", "u64")
BITS = {t: int(t[1:]) for t in TYPES}


@dataclass(slots=True)
class Env:
    """Integers and arrays of n of them, by their type; floats, and arrays of n of them; counters below n."""

    one: list[tuple[str, str]] = field(default_factory=list)
    many: list[tuple[str, str]] = field(default_factory=list)
    s: list[str] = field(default_factory=list)
    v: list[str] = field(default_factory=list)
    far: list[str] = field(default_factory=list)

    def plus(self, **more: object) -> Env:
        """With one more of each kind that is named."""
        return Env(**{k: [*getattr(self, k), *([more[k]] if k in more else [])] for k in self.__slots__})


class Typed:
    def __init__(self, g: Gen) -> None:
        self.g = g
        self.fuel = g.r.randint(12, 40)

    def literal(self, t: str) -> str:
        g, bits = self.g, BITS[t]
        top = 2 ** (bits - 1) - 1 if t in SIGNED else 2**bits - 1
        x = g.c(0, 1, 2, 3, 5, 7, 13, top, top - 1, top // 3, g.r.randint(0, min(top, 1000)))
        if t in SIGNED and g.p(0.3):
            return f"(-{x}{t})" if g.p(0.8) else f"{t}.lowest"
        return f"{x}{t}"

    def whole(self, t: str, e: Env, depth: int) -> str:
        """An integer of the type."""
        g, down = self.g, depth - 1
        self.fuel -= 1
        own = [x for x, of in e.one if of == t] + (e.far if t == "i64" else [])
        if depth <= 0 or self.fuel <= 0:
            if own and g.p(0.8):
                return g.c(*own)
            if e.one and g.p(0.6):
                x, of = g.c(*e.one)
                return f"({t}.{of} {x})"
            return f"({t}.i64 {g.c(*e.far)})" if e.far and g.p(0.7) else self.literal(t)

        def a() -> str:
            return self.whole(t, e, down)

        k = g.r.randrange(14)
        if k <= 3:
            return f"({a()} {g.c('+', '-', '*', '+', '-', '*', '&', '|', '^')} {a()})"
        if k == 4:
            return f"({a()} {g.c('<<', '>>')} {g.c(f'{g.r.randint(0, BITS[t])}{t}', f'({a()} & 7)', a())})"
        if k == 5:
            return f"({a()} {g.c('/', '%', '//', '%%')} ({a()} | 1))"
        if k == 6:
            return f"({t}.{g.c('abs', 'sgn')} {a()})" if g.p(0.5) else f"({t}.i32 ({t}.{g.c('popc', 'clz', 'ctz')} {a()}))"
        if k == 7:
            return f"({t}.{g.c('min', 'max')} {a()} {a()})"
        if k == 8:
            return f"(if {self.test(e, down)} then {a()} else {a()})"
        if k in (9, 10):
            of = g.c(*TYPES)
            return f"({t}.{of} {self.whole(of, e, down)})"
        if k == 11 and e.far:
            arrays = [x for x, of in e.many if of == t]
            if arrays:
                return f"{g.c(*arrays)}[{self.place(e)}]"
        if k == 12 and e.s:
            g.smooth = False
            return f"({t}.i64 (t.to_i64 ({g.c('7', '100', '0.5', '1e4', '1e12')} * {self.real(e, 1)})))"
        return f"(!{a()})" if g.p(0.3) else f"({t}.bool ({self.test(e, down)}))"

    def test(self, e: Env, depth: int) -> str:
        t = self.g.c(*TYPES)
        return f"{self.whole(t, e, depth - 1)} {self.g.c('<', '<=', '==', '!=', '>', '>=')} {self.whole(t, e, depth - 1)}"

    def place(self, e: Env) -> str:
        """An index below n, from a counter or any integer."""
        g = self.g
        if g.p(0.5):
            return g.c(*[g.at(k, "n") for k in e.far], g.other("n", *e.far))
        t = g.c(*TYPES)
        return f"i64.u64 (u64.{t} {self.whole(t, e, 1)} % u64.i64 n)"

    def anywhere(self, e: Env) -> str:
        """An index around the n places, or far out."""
        g, t = self.g, self.g.c(*TYPES)
        x = self.whole(t, e, 2)
        return g.c(f"i64.{t} ({x}) % (n + 2) - 1", f"i64.{t} {x}", f"i64.u64 (u64.{t} {x} % u64.i64 (n + 1))", f"i64.u8 (u8.{t} {x}) - 3")

    def real(self, e: Env, depth: int) -> str:
        """A float."""
        g, down = self.g, depth - 1
        self.fuel -= 1
        if depth <= 0 or self.fuel <= 0:
            return g.c(*e.s) if e.s and g.p(0.8) else g.number()
        k = g.r.randrange(9)
        if k <= 1:
            t = g.c(*TYPES)
            low = g.c("7", "15", "100")
            return f"(t.{t} ({self.whole(t, e, 2)} & {low}) * {g.c('0.125', '0.1', '(-0.02)')})"
        if k == 2:
            return f"(if {self.test(e, 2)} then {self.real(e, down)} else {self.real(e, down)})"
        if k == 3 and e.far and e.v:
            return f"{g.c(*e.v)}[{self.place(e)}]"
        if k == 4:
            return f"({self.real(e, down)} * t.bool ({self.test(e, 2)}))"
        return g.mix(self.real(e, down), self.real(e, down), depth=0)

    # -- arrays

    def over(self, e: Env) -> tuple[str, str, Env]:
        """The head of a map over some arrays, these, and the scope inside."""
        g = self.g
        names, arrays, inner = [], [], e
        i = g.name("k")
        inner = inner.plus(far=i)
        names.append(i)
        arrays.append("(iota n)")
        for _ in range(g.r.randint(0, 2)):
            if e.many and g.p(0.5):
                x, t = g.c(*e.many)
                y = g.name("h")
                inner = inner.plus(one=(y, t))
            else:
                x, y = g.c(*e.v), g.name("x")
                inner = inner.plus(s=y)
            names.append(y)
            arrays.append(x)
        k = len(names)
        return f"map{k if k > 1 else ''} (\\{' '.join(names)} -> ", f") {' '.join(arrays)}", inner

    def statement(self, e: Env) -> tuple[str, Env]:
        g = self.g
        k = g.r.randrange(16)
        t = g.c(*TYPES)
        head, tail, inner = self.over(e)
        if k <= 2:
            h = g.name("h")
            return f"let {h} : [n]{t} = {head}{self.whole(t, inner, 3)}{tail} in", e.plus(many=(h, t))
        if k <= 4:
            v = g.name("v")
            return f"let {v} : [n]t = {head}{self.real(inner, 3)}{tail} in", e.plus(v=v)
        if k == 5:  # a generator of numbers, carried and written down
            h, r, i = g.name("h"), g.name("r"), g.name("k")
            inside = e.plus(one=(r, t), far=i, many=(h, t))
            kept = f"loop ({r}: {t}, {h}: *[n]{t}) = ({self.literal(t)}, replicate n 0) for {i} < n do let {r} = {self.whole(t, inside, 3)} in ({r}, {h} with [{self.place(inside)}] = {g.c(r, self.whole(t, inside, 1))})"
            return f"let ({r}: {t}, {h}: [n]{t}) = {kept} in", e.plus(one=(r, t), many=(h, t))
        if k == 6 and e.many:
            x, t = g.c(*e.many)
            op, zero = g.c(("(+)", "0"), ("(*)", "1"), (f"{t}.max", f"{t}.lowest"), (f"{t}.min", f"{t}.highest"), ("(^)", "0"), ("(&)", f"(!(0{t}))"), ("(|)", "0"))
            r = g.name("r")
            if g.p(0.5):
                return f"let {r} : {t} = reduce {op} {zero} {x} in", e.plus(one=(r, t))
            return f"let {r} : [n]{t} = scan {op} {zero} {x} in", e.plus(many=(r, t))
        if k == 7 and e.many:
            x, t = g.c(*e.many)
            op, zero = g.c(("(+)", "0"), (f"{t}.max", f"{t}.lowest"), ("(^)", "0"), ("(|)", "0"), ("(*)", "1"))
            r, into = g.name("r"), [y for y, of in e.many if of == t]
            start = g.c(f"(copy {g.c(*into)})", f"(replicate n {zero})")
            return f"let {r} : [n]{t} = reduce_by_index {start} {op} {zero} ({head}{self.anywhere(inner)}{tail}) {x} in", e.plus(many=(r, t))
        if k in (8, 9):
            r = g.name("v")
            op, zero = g.c(("(+)", "0"), ("t.max", "(-9)"), ("(+)", "0"))
            if op != "(+)":
                g.smooth = False
            start = g.c(f"(copy {g.c(*e.v)})", f"(replicate n {zero})")
            return f"let {r} : [n]t = reduce_by_index {start} {op} {zero} ({head}{self.anywhere(inner)}{tail}) {g.c(*e.v)} in", e.plus(v=r)
        if k == 10:  # what a test keeps, in front, and where it came from
            p, c, o = g.name("p"), g.name("c"), g.name("o")
            x = g.c(*e.v)
            return (f"let {p} : [n]i64 = {head}i64.bool ({self.test(inner, 3)}){tail} in let {o} : [n]i64 = map2 (\\f o -> if f == 1 then o - 1 else -1) {p} (scan (+) 0 {p}) in\n"
                    f"  let {c} : [n]t = scatter (copy {g.c(*e.v)}) {o} {x} in", e.plus(v=c, many=(o, "i64")))  # fmt: skip
        if k == 11:  # sums of segments
            f, r = g.name("f"), g.name("v")
            op = g.c("a + b", "a + b", "t.max a b")
            if op != "a + b":
                g.smooth = False
            return (f"let {f} : [n]bool = {head}{self.test(inner, 3)}{tail} in\n"
                    f"  let {r} : [n]t = (unzip (scan (\\(a, f) (b, g) -> (if g then b else {op}, f || g)) (0, false) (zip {g.c(*e.v)} {f}))).0 in", e.plus(v=r))  # fmt: skip
        if k == 12:  # by a key, stably, one bit of it
            x = g.c(*e.v)
            b, z, at, r = g.name("b"), g.name("z"), g.name("p"), g.name("v")
            return (f"let {b} : [n]i64 = {head}i64.{t} ({self.whole(t, inner, 2)} & 1){tail} in let {z} = n - i64.sum {b} in\n"
                    f"  let {at} : [n]i64 = map3 (\\f o u -> if f == 1 then {z} + u - 1 else o) {b} (map2 (\\i u -> i - u) (iota n) (scan (+) 0 {b})) (scan (+) 0 {b}) in\n"
                    f"  let {r} : [n]t = scatter (replicate n 0) {at} {x} in", e.plus(v=r, many=(at, "i64")))  # fmt: skip
        if k == 13:  # the least key of each bin, and who has it
            x = g.c(*e.v)
            r, w = g.name("v"), g.name("h")
            kind = g.c("i32", "u16", "i64", "u8")
            return (f"let ({r}, {w}) : ([n]t, [n]{kind}) = unzip (reduce_by_index (replicate n (0, {kind}.highest)) (\\(a, i) (b, j) -> if i < j || (i == j && a < b) then (a, i) else (b, j)) (0, {kind}.highest)\n"
                    f"    ({head}{self.anywhere(inner)}{tail}) (zip {x} ({head}{self.whole(kind, inner, 2)}{tail}))) in", e.plus(v=r, many=(w, kind)))  # fmt: skip
        if k == 14:  # by halves
            r, q, lo, hi = g.name("v"), g.name("h"), g.name("lo"), g.name("hi")
            inside = e.plus(one=(lo, "i64"), s="x")
            return (f"let {q} : [n]i64 = map (\\x -> (loop ({lo}, {hi}) = (0, n - 1) while {lo} < {hi} do let m = ({lo} + {hi}) / 2 in if {g.c('xs[m] < x', 'm * 3 % 7 < 4', self.test(inside, 2))} then (m + 1, {hi}) else ({lo}, m)).0) xs in\n"
                    f"  let {r} : [n]t = map (\\i -> xs[i]) {q} in", e.plus(v=r, many=(q, "i64")))  # fmt: skip
        v, s, i = g.name("v"), g.name("s"), g.name("k")
        inside = e.plus(s=s, far=i, v=v)
        return (f"let ({s}, {v}: [n]t) = loop ({s}: t, {v}: *[n]t) = ({g.number()}, copy {g.c(*e.v)}) for {i} < n do let {s} = small {self.real(inside, 3)} in\n"
                f"    if {self.test(inside, 2)} then ({s}, {v} with [{self.place(inside)}] = {self.real(inside, 1)}) else ({s}, {v}) in", e.plus(v=v, s=s))  # fmt: skip


def integers(g: Gen) -> Program:
    """Statements one after the other, of integers and floats; floats are the results, and what integers are modulo
    1009."""
    y = Typed(g)
    e = Env(v=["xs", "ys"], many=[("is", "i64"), ("ks", "i64")])
    lets = []
    for _ in range(g.r.randint(2, 5)):
        y.fuel = max(y.fuel, 8)
        text, e = y.statement(e)
        lets.append(f"  {text}\n")
    outs: list[tuple[str, tuple[str, ...]]] = [(e.v[-1], ("n",))]
    x, t = e.many[-1]
    outs.append((f"map2 (\\h x -> t.{t} (h % {g.c('101', '127', '97')}) * 0.01 + small x) {x} {g.c(*e.v)}", ("n",)))
    if e.s:
        outs.append((e.s[-1], ()))
    if e.one:
        x, t = e.one[-1]
        outs.append((f"t.{t} ({x} % 101)", ()))
    outs = outs[: g.r.randint(1, len(outs))]
    body = "".join(lets) + "  " + (outs[0][0] if len(outs) == 1 else f"({', '.join(o for o, _ in outs)})")
    params = [Param("xs", ("n",)), Param("ys", ("n",)), Param("is", ("n",), "n"), Param("ks", ("n",), 100)]
    return g.program("integers", params, [s for _, s in outs], body, least={"n": 1})


FAMILIES = [integers]
