"""Places that are sums of iterations: integers in a nest by its axes, elements of arrays by such integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.builder import Builder
from futad.core.nest import Nest, Read
from futad.core.node import Range
from futad.core.types import I64, ONE, ZERO, Atom, Const, Var, i64


@dataclass(frozen=True, slots=True)
class Form:
    """`steps` times the axes (pairs, by axis), `rest` (the same, of integers from outside the nest), and a number."""

    steps: tuple[tuple[int, int], ...] = ()
    rest: tuple[tuple[Var, int], ...] = ()
    number: int = 0

    @property
    def axes(self) -> list[int]:
        """The axes in it."""
        return [k for k, _ in self.steps]

    def step(self, axis: int) -> int:
        """How it moves with an axis."""
        return dict(self.steps).get(axis, 0)

    def start(self, b: Builder) -> Atom:
        """Its value in the first iteration."""
        out: Atom = i64(self.number) if self.number or not self.rest else ZERO
        for v, times in self.rest:
            term: Atom = v if times == 1 else b.op("mul", v, i64(times))
            out = term if out is ZERO else b.op("add", out, term)
        return ZERO if isinstance(out, Const) and out.value == 0 else out


def _sum(x: Form, y: Form, times: int = 1) -> Form:
    steps, rest = dict(x.steps), dict(x.rest)
    for k, n in y.steps:
        steps[k] = steps.get(k, 0) + times * n
    for v, n in y.rest:
        rest[v] = rest.get(v, 0) + times * n
    kept = tuple(sorted((k, n) for k, n in steps.items() if n))
    return Form(kept, tuple([(v, n) for v, n in rest.items() if n]), x.number + times * y.number)


def _times(x: Form, n: int) -> Form:
    return _sum(Form(), x, n)


@dataclass(slots=True)
class Iterations:
    """The axes of a nest: their `sizes`, the parts of arrays that its parameters are (`reads`, by axis), and the
    statements in it (`made`, by what they bind; all that is bound: `bound`).  `counters`: arrays 0, 1, ..."""

    counters: set[Var]
    sizes: list[Atom] = field(default_factory=list)
    reads: dict[Var, Read] = field(default_factory=dict)
    made: dict[Var, ir.Stm] = field(default_factory=dict)
    bound: set[Var] = field(default_factory=set)

    def enter(self, lam: ir.Lambda) -> None:
        """The statements of a scope."""
        self.bound.update(lam.params)
        for s in lam.stms:
            self.bound.update(s.pat)
            self.made.update(dict.fromkeys(s.pat, s))

    def inside(self, m: ir.Map) -> None:
        """One axis more: that of a map in the nest."""
        self.enter(m.lam)
        outside = self.bound - self.counters  # what counts does not depend on where it does
        self.reads = Nest([], (), [], outside).elements(m.arrays, m.lam, len(self.sizes), self.reads)
        self.sizes.append(m.width)

    def form(self, a: Atom) -> Form | None:
        """An i64 as a sum of iterations; None if it is something else."""
        if isinstance(a, Const):
            return Form(number=int(a.value)) if a.type is I64 else None
        if a.type is not I64:
            return None
        if a not in self.bound:
            return Form(rest=((a, 1),))
        read = self.reads.get(a)
        if read is not None:
            return Form(((read.levels[0], 1),)) if read.array in self.counters and len(read.levels) == 1 else None
        e = self.made[a].exp if a in self.made else None
        if isinstance(e, ir.Alias):
            return self.form(e.atom)
        if not isinstance(e, ir.Op) or e.op not in ("add", "sub", "mul", "neg"):
            return None
        forms = [self.form(x) for x in e.args]
        if any(f is None for f in forms):
            return None
        x, *more = [f for f in forms if f is not None]
        if e.op == "neg":
            return _times(x, -1)
        (y,) = more
        if e.op == "mul":
            for p, q in ((x, y), (y, x)):
                if not p.steps and not p.rest:
                    return _times(q, p.number)
            return None
        return _sum(x, y, 1 if e.op == "add" else -1)

    def place(self, a: Var) -> tuple[Var, list[Form]] | None:
        """The array from outside and the place in it that a scalar is read at without a check; None if it is not."""
        read = self.reads.get(a)
        if read is not None:
            return (read.array, _of(read, ())) if not read.rest else None
        e = self.made[a].exp if a in self.made else None
        if not isinstance(e, ir.At) or e.check is not None or not isinstance(e.array, Var):
            return None
        return self.within(e)

    def within(self, e: ir.At) -> tuple[Var, list[Form]] | None:
        """The array from outside and the place in it that a full index is, checked or not."""
        if not isinstance(e.array, Var):
            return None
        index = [self.form(i) if not isinstance(i, Range) else None for i in e.index]
        forms = [f for f in index if f is not None]
        if len(forms) != len(index):
            return None
        part = self.reads.get(e.array)
        if part is None:
            return None if e.array in self.bound else (e.array, forms)
        return (part.array, _of(part, forms)) if len(part.rest) == len(forms) else None


def _of(read: Read, rest: Iterable[Form]) -> list[Form]:
    """The index of an element of a part, dimension by dimension."""
    at = dict(zip(read.dims, [Form(((level, 1),)) for level in read.levels], strict=True))
    at |= dict(zip(read.rest, rest, strict=True))
    return [at[d] for d in sorted(at)]


def every_value(steps: Iterable[tuple[int, Atom]]) -> bool:
    """Whether a sum of axes times steps takes all values between its least and its largest: each step is no longer than
    what the smaller ones reach (sizes that are not known reach 0)."""
    reach = 0
    for step, size in sorted([(abs(step), size) for step, size in steps], key=lambda x: x[0]):
        if step > reach + 1:
            return False
        reach += step * (size.value - 1) if isinstance(size, Const) and size.value > 0 else 0
    return True


def extent(b: Builder, steps: Iterable[tuple[int, Atom]]) -> tuple[Atom, Atom]:
    """The least value of such a sum, and how many it takes from there on, if all sizes are positive."""
    least: Atom = ZERO
    count: Atom = ONE
    for step, size in steps:
        last = b.op("sub", size, ONE)
        reach = last if abs(step) == 1 else b.op("mul", last, i64(abs(step)))
        count = b.op("add", count, reach)
        if step < 0:
            least = b.op("sub", least, reach)
    return least, count


__all__ = ["Form", "Iterations", "every_value", "extent"]
