# ruff: noqa: E501 (programs read better unbroken)
"""Programs of a few statements on vectors of n elements, for the kinds that are many small programs: each statement is
drawn from the makers of its own kind, or now and then from those of another one, so that they meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from futad.testing.skeletons.base import Gen, Param, Program

Maker = Callable[["Vectors"], str]
MAKERS: dict[str, Sequence[Maker]] = {}  # by kind; each file adds its own
ORDINARY = ("handover", "aliases", "masks", "borders", "clamps", "monoids", "duplicates")


@dataclass(slots=True)
class Vectors:
    """What is in scope: vectors of n floats, scalars, counters below n (where there is one, n is not 0)."""

    g: Gen
    arrays: list[str]
    scalars: list[str]
    counters: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    depth: int = 0

    def plus(self, *arrays: str, scalars: Sequence[str] = (), counters: Sequence[str] = ()) -> Vectors:
        """The scope inside of something."""
        return replace(
            self, arrays=[*self.arrays, *arrays], scalars=[*self.scalars, *scalars],
            counters=[*self.counters, *counters], depth=self.depth + 1,
        )  # fmt: skip

    def array(self) -> str:
        return self.g.c(*self.arrays, *self.arrays[-2:])

    def view(self) -> str:
        """A vector, or another look at one."""
        x = self.array()
        if self.g.p(0.7):
            return x
        return self.g.c(f"(reverse {x})", f"(rotate 1 {x})", f"(rotate (-3) {x})", f"({x}[::-1] :> [n]t)", f"(copy {x})")

    def place(self) -> str:
        """An index below n; there is a counter."""
        g, i = self.g, self.g.c(*self.counters)
        return g.c(i, i, g.at(i, "n"), f"is[{i}]", f"is[{g.at(i, 'n')}]", g.other("n", *self.counters))

    def number(self, *own: str) -> str:
        """A scalar made of these and perhaps others."""
        g = self.g
        more = [g.c(*self.scalars)] if self.scalars and g.p(0.4) else []
        if self.counters and g.p(0.4):
            more.append(f"{self.array()}[{self.place()}]")
        return g.cheap(*own, *more) if own or more else g.number()

    def test(self, *own: str) -> str:
        """A condition; one in three compares floats."""
        g = self.g
        xs = [*own, *self.scalars]
        if xs and (g.p(0.35) or not self.counters):
            g.smooth = False
            return f"{g.c(*xs)} {g.c('<', '>')} {g.c('0.1234', '(-0.3217)', '0.5077')}"
        if not self.counters:
            return g.c("n % 2 == 0", "n > 8", "n < 3")
        i = g.c(*self.counters)
        return g.c(f"{i} % 2 == 0", f"{i} % 3 != 1", f"is[{i}] < {i}", f"is[{i}] % 2 == 1", f"{i} < n / 2", f"{i} == n - 1", f"{i} > 0 && {i} < n - 1", f"is[{i}] == {i} || {i} % 4 == 3")

    def over(self, body: Callable[[Vectors, list[str]], str], most: int = 3) -> str:
        """A map over some vectors with what `body` makes of their elements; the index may be at hand."""
        g = self.g
        names = [g.name("x") for _ in range(g.r.randint(1, most))]
        arrays = [self.view() for _ in names]
        counters: list[str] = []
        if g.p(0.6):
            counters = [g.name("i")]
            arrays.append("(iota n)")
        text = body(self.plus(scalars=names, counters=counters), names)
        every = [*names, *counters]
        return f"map{len(every) if len(every) > 1 else ''} (\\{' '.join(every)} -> {text}) {' '.join(arrays)}"

    def some(self, kind: str) -> str:
        """What a maker of that kind makes."""
        return self.g.c(*MAKERS[kind])(self)

    def sum(self, x: str) -> str:
        return f"small (t.sum {x})"


def program_of(g: Gen, kind: str, others: Sequence[str] = (), special: bool = False) -> Program:
    """One or two statements, the first of that kind, more of `others` too; results are the last vector, and perhaps a
    scalar."""
    v = Vectors(g, ["xs", "ys"], ["s"])
    lets = ""
    for k in range(g.c(1, 1, 1, 2, 2)):
        y = g.name("y")
        text = v.some(kind if k == 0 or g.p(0.5) else g.c(*(others or ORDINARY)))
        lets += f"  let {y} : [n]t = {text} in\n"
        v.arrays.append(y)
    last = v.arrays[-1]
    outs: list[tuple[str, tuple[str, ...]]] = [(f"map small {last}" if g.p(0.5) else last, ("n",))]
    if g.p(0.5):
        outs.append((v.sum(g.c(*v.arrays[2:])), ()))
    body = lets + "  " + (outs[0][0] if len(outs) == 1 else f"({', '.join(o for o, _ in outs)})")
    params = [Param("xs", ("n",)), Param("ys", ("n",)), Param("s"), Param("is", ("n",), "n")]
    made = g.program(kind, params, [s for _, s in outs], body, "".join(v.helpers))
    made.around, made.special = True, special
    return made
