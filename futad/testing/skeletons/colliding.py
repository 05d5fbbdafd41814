# ruff: noqa: E501 (programs read better unbroken)
"""Small rows written at places that are data, which may be the same one twice: in maps over rows, loops over the rows of
a matrix, and rows that loops carry; in both sides of branches, read between and afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from futad.testing.skeletons.base import Dim, Gen, Param, Program

PLACES = ("p", "q")  # data: the same place in some iterations


@dataclass(slots=True)
class _Rows:
    """Statements on a row `r` of `d` elements; `scalars` may be read, `counters` are below d."""

    g: Gen
    d: int
    scalars: list[str]
    counters: list[str] = field(default_factory=list)
    fuel: int = 7

    def inside(self) -> _Rows:
        """A scope of its own."""
        return replace(self, scalars=list(self.scalars), fuel=3)

    def place(self) -> str:
        """A place in the row: mostly one that data say."""
        g, d = self.g, self.d
        if g.p(0.7):
            return g.c(*PLACES)
        some = g.c(*PLACES, *self.counters)
        return g.c(str(g.r.randrange(d)), f"({some} + 1) % {d}", f"{d - 1} - {some}", f"(p + q) % {d}", f"({g.c('i64.min', 'i64.max')} p q)", f"(if {self.test()} then p else q)")

    def test(self) -> str:
        """Mostly of data that are no floats: no kink."""
        g = self.g
        if g.p(0.75):
            return g.c("p == q", "p < q", "(p + i) % 2 == 0", "i % 3 != 1", "q > 0")
        g.smooth = False
        return f"{g.c(*self.scalars)} < {g.c('0.1234', '-0.3217', '0.5077')}"

    def value(self, *written: str) -> str:
        """A number; of the row it reads those of the places that were written before, if it is to."""
        g = self.g
        reads = [f"r[{g.c(*written) if written else self.place()}]"] if g.p(0.45) else []
        return g.mix(*reads, *g.shuffled(self.scalars)[: g.r.randint(1, 2)])

    def stored(self, place: str, *written: str) -> str:
        return f"let r = r with [{place}] = {self.value(*written)} in"

    def body(self, most: int, depth: int = 0) -> list[str]:
        out = []
        for _ in range(self.g.r.randint(2, most)):
            self.fuel -= 1
            if self.fuel < 0:
                break
            out.append(self.statement(depth))
        return out or [self.stored(self.place())]

    def statement(self, depth: int) -> str:
        g, k = self.g, self.g.r.randrange(12)
        if k == 0:
            y = g.name("y")
            text = f"let {y} = {g.c(f'r[{self.place()}]', f'r[{self.place()}] - r[{self.place()}]', 'small (t.sum r)')} in"
            self.scalars.append(y)
            return text
        if k == 1:  # two places change their values
            one, other = self.place(), self.place()
            return f"let (u, v) = (r[{one}], r[{other}]) in let r = r with [{one}] = v in let r = r with [{other}] = {g.c('u', 'u', 'small (u + 0.3 * v)')} in"
        if k == 2 and depth < 2:
            j = g.name("j")
            inner = replace(self.inside(), counters=[*self.counters, j])
            stores = " ".join(inner.stored(g.c(j, inner.place())) for _ in range(g.r.randint(1, 2)))
            return f"let r = loop (r: *[{self.d}]t) = r for {j} < {g.c(self.d, min(2, self.d))} do {stores} r in"
        if k == 3:  # a new row
            one, two = g.mix("e", g.c(*self.scalars)), g.mix("e", "f")
            made = g.c(f"map (\\e -> {one}) r", "copy r", f"map2 (\\e f -> {two}) r (reverse r)")
            return f"let r = {made} in"
        if k == 4 and self.d >= 2:
            lo = f"(i64.min {g.c(*PLACES)} {self.d - 2})"
            return f"let r = r with [{lo}:{lo} + 2] = [{self.value()}, {self.value()}] in"
        if k == 5:  # places that are added to: in whichever order
            return f"let r = reduce_by_index r (+) 0 [{self.place()}, {self.place()}] [{g.c(*self.scalars)}, {g.mix(*self.scalars[:2])}] in"
        if k <= 8 and depth < 2:
            return f"let r = {self.branch(depth)} in"
        place = self.place()
        return self.stored(place) + (f" {self.stored(g.c(*PLACES))}" if g.p(0.3) else "")

    def branch(self, depth: int) -> str:
        g = self.g
        if g.p(0.25):
            return f"(if {self.test()} then {self.stored(self.place())} r else r)"
        if g.p(0.4):  # both sides at the same places
            return self.twins("r", "r")
        sides = [" ".join([*self.inside().body(3, depth + 1), "r"]) for _ in range(2)]
        return f"(if {self.test()} then {sides[0]} else {sides[1]})"

    def twins(self, one: str, other: str) -> str:
        """A row that begins as `one` or the `other` and is written at the same places, in two orders."""
        g = self.g
        places = [g.c(*PLACES) if g.p(0.85) else self.place() for _ in range(g.r.randint(1, 2))] + list(PLACES)
        sides = []
        for start in (one, other):
            at = g.shuffled(places) + ([g.c(*places)] if g.p(0.6) else [])
            known = [[str(g.r.randrange(self.d)), *at[:k]] if g.p(0.85) else [] for k in range(len(at))]
            first = "" if start == "r" else f"let r = {start} in "
            stores = [self.stored(place, *before) for place, before in zip(at, known, strict=True)]
            sides.append(first + " ".join([*stores, "r"]))
        return f"(if {self.test()} then {sides[0]} else {sides[1]})"


def colliding(g: Gen) -> Program:
    """Rows that are made by a map, written in a matrix, or carried from one iteration to the next."""
    d = g.c(1, 2, 2, 3, 3, 4, 4, 5, 6)
    kind = g.c(0, 0, 1, 2, 3, 4)
    rows = _Rows(g, d, ["w", "x[0]", f"x[{d - 1}]"])
    ps = [Param("xs", ("n", d)), Param("ws", ("n",)), *[Param(f"{p}s", ("n",), d) for p in PLACES]]
    head = "let (x, w, p, q) = (xs[i], ws[i], ps[i], qs[i]) in"
    rest = g.c("r[p]", "r[q]", f"r[{rows.place()}] + r[{rows.place()}]", "t.sum r")
    if kind <= 2:
        begun = [g.c("copy x", "map small x", f"map (\\e -> {g.mix('e', 'w')}) x", f"replicate {d} w") for _ in range(2)]
        start = f"let r = {begun[0]} in"
        if kind == 0:  # both sides of a branch make the row
            start = f"let r = {rows.twins(*begun)} in"
            rows.fuel = g.c(0, 0, 0, 1, 3)
        stores = rows.body(5) if rows.fuel else []
        body = "\n    ".join([start, *stores])
        out = "r"
        results: list[tuple[Dim, ...]] = [("n", d)]
        if g.p(0.4):
            out = f"(r, {g.mix(rest)})"
            results.append(("n",))
        made = f"map (\\i ->\n    {head} {body}\n    {out}) (iota n)"
        return g.program("colliding", ps, results, f"  {made}" if out == "r" else f"  unzip ({made})")
    if kind == 3:  # the rows of a matrix, one after the other
        head_, first = g.counted("i", "n")
        body = "\n    ".join([f"let r = copy m[{g.c('i', 'i', g.at('i', 'n'))}] in", *rows.body(5)])
        back = g.c("m with [i] = r", f"let m = m with [i] = r in m with [{g.at('i', 'n')}, p] = {g.mix(rest, 'm[i, q]')}")
        start = g.c("copy xs", "map (map small) xs", f"replicate n (replicate {d} 0.3)")
        return g.program("colliding", ps, [("n", d)], f"  loop (m: *[n][{d}]t) = {start} {head_} {first}{head}\n    {body}\n    {back}")
    head_, first = g.counted("i", "n")  # one row
    body = "\n    ".join(rows.body(5))
    squash = g.c("map small r", "map small r", f"r with [q] = {g.mix(rest, 'w')}")
    if squash.startswith("r"):  # values stay moderate
        squash = f"let r = {squash} in map small r"
    loop = f"loop (r: *[{d}]t) = replicate {d} 0.3 {head_} {first}{head}\n    {body}\n    {squash}"
    return g.program("colliding", ps, [(d,)], f"  {loop}")


FAMILIES = [colliding]
