# ruff: noqa: E501 (programs read better unbroken)
"""Programs that are nothing but updates in place: rows, columns, slices and elements of arrays, of values made from
rows that are read before or after, in loops around loops, with aliases and copies."""

from __future__ import annotations

from dataclasses import dataclass, field

from futad.testing.skeletons.base import Gen, Param, Program

ARRAY = "*[n][d]t"


@dataclass(slots=True)
class _Scope:
    """Arrays that may be updated; arrays, vectors of n and vectors of d elements (these with what they share memory
    with) that may be read; scalars; counters that are below n."""

    arrays: list[str]
    wholes: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    vectors: dict[str, set[str]] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)

    def inside(self, arrays: list[str], counter: str) -> _Scope:
        """For a loop over some of the arrays: what shares their memory is not to be read there."""
        disjoint = {v: of for v, of in self.vectors.items() if not of & set(arrays)}
        return _Scope(
            arrays, list(self.wholes), list(self.columns), disjoint, list(self.scalars), [*self.counters, counter]
        )


class _Body:
    def __init__(self, g: Gen) -> None:
        self.g = g
        self.budget = g.r.choice((2, 3, 3, 4, 5, 6, 8))

    def place(self, s: _Scope) -> str:
        return self.g.c(*[self.g.at(c, "n") for c in s.counters], self.g.other("n", *s.counters))

    def vector(self, s: _Scope) -> tuple[str, set[str]]:
        """A vector to read, and what it shares memory with."""
        kind = self.g.r.randrange(4)
        if kind == 0 and s.vectors:
            v = self.g.c(*s.vectors)
            return v, s.vectors[v]
        if kind == 1:
            a = self.g.c("x", "y", *s.wholes)
            return f"{a}[{self.place(s)}]", {a}
        a = self.g.c(*s.arrays)
        return f"{a}[{self.place(s)}]", {a}

    def made(self, s: _Scope) -> str:
        """A new vector."""
        g = self.g
        reads = [self.vector(s)[0] for _ in range(g.r.randint(1, 3))]
        names = ["p", "q", "r"][: len(reads)]
        more = [g.c(*s.scalars)] if s.scalars and g.p(0.4) else []
        return f"map{len(reads) if len(reads) > 1 else ''} (\\{' '.join(names)} -> {g.mix(*names, *more)}) {' '.join(reads)}"

    def statements(self, s: _Scope, depth: int, most: int) -> list[str]:
        out = []
        for _ in range(self.g.r.randint(1, most)):
            if self.budget <= 0:
                break
            self.budget -= 1
            kinds = [self.value, self.value, self.put, self.put, self.elements, self.alias, self.number, self.rows, self.chosen, self.nest]
            kinds += [self.pair, self.pair, self.whole, self.anew, self.folded, self.maybe]
            if depth >= 2:
                kinds.remove(self.nest)
            out.append(self.g.c(*kinds)(s, depth))
        return out

    def changed(self, s: _Scope, a: str) -> None:
        """What shares a's memory is gone."""
        s.vectors = {v: of for v, of in s.vectors.items() if a not in of}

    def value(self, s: _Scope, depth: int) -> str:
        text = self.made(s)
        v = self.g.name("v")
        s.vectors[v] = set()
        return f"let {v} : [d]t = {text} in"

    def alias(self, s: _Scope, depth: int) -> str:
        a = self.g.c(*s.arrays)
        r = self.g.name("r")
        if self.g.p(0.5):
            s.vectors[r] = set()
            return f"let {r} : [d]t = copy {a}[{self.place(s)}] in"
        s.vectors[r] = {a}
        return f"let {r} : [d]t = {a}[{self.place(s)}] in"

    def number(self, s: _Scope, depth: int) -> str:
        v = self.vector(s)[0]
        x = self.g.name("s")
        if s.columns and self.g.p(0.4):
            v = self.g.c(*s.columns)
            s.scalars.append(x)
            return f"let {x} = {self.g.mix(f'{v}[{self.place(s)}]', f'{v}[{self.place(s)}]')} in"
        text = self.g.c(f"t.sum {v}", f"t.sum (map2 (*) {v} {self.vector(s)[0]})", f"(loop z = 0.3 for p < d do {self.g.mix('z', v + '[p]')})")
        s.scalars.append(x)
        return f"let {x} = small ({text}) in"

    def whole(self, s: _Scope, depth: int) -> str:
        """A new array of all rows of one or two others."""
        g = self.g
        w = g.name("w")
        a, b = g.c("x", *s.arrays, *s.wholes), g.c("y", *s.arrays, *s.wholes)
        text = g.c(f"map (map (\\z -> {g.mix('z')})) {a}", f"map2 (map2 (\\p q -> {g.mix('p', 'q')})) {a} {b}",
                   f"transpose (map (\\c -> map (\\z -> {g.mix('z')}) c) (transpose {a}))", f"copy (reverse {a})",
                   f"tabulate_2d n d (\\i j -> {g.mix(a + '[i, j]', b + '[n - 1 - i, j]')})")  # fmt: skip
        s.wholes.append(w)
        return f"let {w} : [n][d]t = {text} in"

    def folded(self, s: _Scope, depth: int) -> str:
        """A number of each row."""
        g = self.g
        c = g.name("c")
        a, b = g.c("x", *s.arrays, *s.wholes), g.c("y", *s.arrays, *s.wholes)
        text = g.c(f"map (\\r -> small (t.sum r)) {a}", f"map2 (\\r e -> small (t.sum (map2 (*) r e))) {a} {b}",
                   f"map (\\i -> loop z = 0.1 for p < d do {g.mix('z', a + '[i, p]')}) (iota n)")  # fmt: skip
        s.columns.append(c)
        return f"let {c} : [n]t = {text} in"

    def anew(self, s: _Scope, depth: int) -> str:
        """An array that takes the place of one that is updated."""
        g = self.g
        a = g.c(*s.arrays)
        b = g.c("x", *s.arrays, *s.wholes)
        text = g.c(f"map2 (map2 (\\p q -> {g.mix('p', 'q')})) {a} {b}", f"map (map (\\z -> {g.mix('z')})) {b}", f"copy {b}",
                   f"scatter {a} (map (\\q -> n - 1 - q) (iota n)) (map (map (\\z -> {g.mix('z')})) {b})",
                   f"map2 (\\r i -> if i == {g.c(*s.counters)} then map (\\z -> {g.mix('z')}) r else r) {a} (iota n)")  # fmt: skip
        if text.endswith("else r) " + a + " (iota n)"):
            text = f"copy ({text})"
        self.changed(s, a)
        return f"let {a} : {ARRAY} = {text} in"

    def maybe(self, s: _Scope, depth: int) -> str:
        """A vector that one branch computes."""
        g = self.g
        v = g.name("v")
        one, two = self.made(s), f"copy {self.vector(s)[0]}"
        s.vectors[v] = set()
        return f"let {v} : [d]t = if {g.c(*s.counters)} % {g.c(2, 3)} == 0 then {one} else {two} in"

    def put(self, s: _Scope, depth: int) -> str:
        a = self.g.c(*s.arrays)
        v, of = self.vector(s)
        if self.g.p(0.4):
            v, of = f"({self.made(s)})", set()
        if a in of:
            v = f"(copy {v})"
        at = self.place(s)
        self.changed(s, a)
        return f"let {a} : {ARRAY} = {a} with [{at}] = {v} in"

    def pair(self, s: _Scope, depth: int) -> str:
        """Two values that are made first and then written, perhaps to one place."""
        g = self.g
        v, w = g.name("v"), g.name("v")
        a, b = g.c(*s.arrays), g.c(*s.arrays)
        lets = [f"let {v} : [d]t = {self.made(s)} in", f"let {w} : [d]t = {self.made(s)} in"]
        puts = [f"let {a} : {ARRAY} = {a} with [{self.place(s)}] = {v} in",
                f"let {b} : {ARRAY} = {b} with [{self.place(s)}] = {w} in"]  # fmt: skip
        self.changed(s, a)
        self.changed(s, b)
        return " ".join(lets + g.shuffled(puts))

    def chosen(self, s: _Scope, depth: int) -> str:
        """An update in one branch or both."""
        g = self.g
        a = g.c(*s.arrays)
        vs = []
        for _ in range(2):
            v, of = self.vector(s)
            vs.append(f"(copy {v})" if a in of or g.p(0.2) else v)
        cond = g.c(f"{g.c(*s.counters)} % 2 == 0", f"{g.c(*s.counters)} < n / 2", *[f"{x} < 0.13" for x in s.scalars])
        if " < 0.13" in cond:
            g.smooth = False
        other = a if g.p(0.5) else f"{a} with [{self.place(s)}] = {vs[1]}"
        text = f"let {a} : {ARRAY} = if {cond} then {a} with [{self.place(s)}] = {vs[0]} else {other} in"
        self.changed(s, a)
        return text

    def elements(self, s: _Scope, depth: int) -> str:
        """A loop over the elements of a row, or over columns."""
        g = self.g
        a, e = g.c(*s.arrays), self.place(s)
        free = [v for v, of in s.vectors.items() if a not in of]
        reads = [f"{g.c(*s.arrays)}[{self.place(s)}, {g.at('p', 'd')}]", f"{a}[{e}, {g.at('p', 'd')}]", *[f"{v}[{g.at('p', 'd')}]" for v in free[:2]]]
        self.changed(s, a)
        head, first = g.counted("p", "d", 0.3)
        if g.p(0.3):
            column = g.c(f"map (\\z -> {g.mix('z')}) {a}[:, {g.at('p', 'd')}]", f"map2 (\\z y -> {g.mix('z', 'y')}) {a}[:, p] x[:, {g.at('p', 'd')}]")
            return f"let {a} : {ARRAY} = loop ({a}: {ARRAY}) = {a} {head} {first}{a} with [:, {g.c('p', 'd - 1 - p')}] = {column} in"
        return f"let {a} : {ARRAY} = loop ({a}: {ARRAY}) = {a} {head} {first}{a} with [{e}, {g.c('p', 'p', 'd - 1 - p')}] = {g.mix(*g.r.sample(reads, min(len(reads), g.r.randint(1, 3))))} in"

    def rows(self, s: _Scope, depth: int) -> str:
        """A block of rows at once, from a counter on or up to it."""
        g = self.g
        a, c = g.c(*s.arrays), g.c(*s.counters)
        src = g.c("x", *s.arrays)
        f = f"map (map (\\z -> {g.mix('z')}))"
        to, of = g.c((f"{c}:", f"{src}[{c}:]"), (f":{c}", f"{src}[:{c}]"), (f"{c}:", f"{src}[:n - {c}]"), (f":{c}", f"{src}[n - {c}:]"))
        size = f"n - {c}" if to.endswith(":") else c
        value = f"{f} {of}" if src == a or g.p(0.6) else of
        self.changed(s, a)
        return f"let {a} : {ARRAY} = {a} with [{to}] = ({value} :> [{size}][d]t) in"

    def nest(self, s: _Scope, depth: int) -> str:
        """A loop over some of the arrays, which may come back in another order."""
        g = self.g
        arrays = g.r.sample(s.arrays, g.r.randint(1, len(s.arrays)))
        q = g.name("j")
        inner = s.inside(arrays, q)
        lets = self.statements(inner, depth + 1, 4)
        back = g.shuffled(arrays) if g.p(0.3) else arrays
        for a in arrays:
            self.changed(s, a)
        head, first = g.counted(q, "n", 0.2)
        params = ", ".join(f"{a}: {ARRAY}" for a in arrays)
        types = ", ".join(ARRAY for _ in arrays)
        lhs = f"({', '.join(arrays)}) : ({types})" if len(arrays) > 1 else f"{arrays[0]} : {ARRAY}"
        return f"let {lhs} = loop ({params}) = ({', '.join(arrays)}) {head} {first}\n        " + "\n        ".join(lets) + f"\n        ({', '.join(back)}) in"


def inplace(g: Gen) -> Program:
    """Two or three arrays, updated at random."""
    b = _Body(g)
    arrays = ["a", "b", "c"][: g.r.randint(1, 3)]
    s = _Scope(arrays, counters=["i"])
    lets = b.statements(s, 0, 6)
    back = g.shuffled(arrays) if g.p(0.25) else arrays
    inits = [g.c("copy x", "copy y", f"replicate n (replicate d {g.number()})", "map (map small) x") for _ in arrays]
    head, first = g.counted("i", "n", 0.2)
    state = ", ".join(f"{a}: {ARRAY}" for a in arrays)
    body = f"  loop ({state}) = ({', '.join(inits)}) {head} {first}\n    " + "\n    ".join(lets) + f"\n    ({', '.join(back)})"
    return g.program("inplace", [Param("x", ("n", "d")), Param("y", ("n", "d"))], [("n", "d")] * len(arrays), body)


FAMILIES = [inplace]
