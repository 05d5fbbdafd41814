"""Places that are sums of iterations: integers in a nest by its axes, elements of arrays by such integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.builder import Builder
from futad.core.nest import Nest, Read
from futad.core.node import Range
from futad.core.operator import may_fail
from futad.core.types import I64, ONE, ZERO, Atom, Const, Var, i64
from futad.optimise.digits import Digits, Products, Size, digits_of


@dataclass(frozen=True, slots=True)
class Form:
    """`steps` times the axes (pairs, by axis), `rest` (the same, of integers from outside the nest), and a number;
    `scaled`: axes times such integers, with a number each (dilations that are not known)."""

    steps: tuple[tuple[int, int], ...] = ()
    rest: tuple[tuple[Var, int], ...] = ()
    number: int = 0
    scaled: tuple[tuple[tuple[int, Var], int], ...] = ()

    @property
    def axes(self) -> list[int]:
        """The axes in it."""
        return sorted({k for k, _ in self.steps} | {k for (k, _), _ in self.scaled})

    def step(self, axis: int) -> int | None:
        """How it moves with an axis; None if that is not known."""
        return None if any(k == axis for (k, _), _ in self.scaled) else dict(self.steps).get(axis, 0)

    def stride(self, b: Builder, axis: int) -> Atom:
        """The same as an atom."""
        rest = tuple([(v, n) for (k, v), n in self.scaled if k == axis])
        return Form((), rest, dict(self.steps).get(axis, 0)).start(b)

    def start(self, b: Builder) -> Atom:
        """Its value in the first iteration."""
        out: Atom = i64(self.number) if self.number or not self.rest else ZERO
        for v, times in self.rest:
            term: Atom = v if times == 1 else b.op("mul", v, i64(times))
            out = term if out is ZERO else b.op("add", out, term)
        return ZERO if isinstance(out, Const) and out.value == 0 else out


def total(x: Form, y: Form, times: int = 1) -> Form:
    """x + times y."""
    steps, rest, scaled = dict(x.steps), dict(x.rest), dict(x.scaled)
    for k, n in y.steps:
        steps[k] = steps.get(k, 0) + times * n
    for v, n in y.rest:
        rest[v] = rest.get(v, 0) + times * n
    for pair, n in y.scaled:
        scaled[pair] = scaled.get(pair, 0) + times * n
    kept = tuple(sorted((k, n) for k, n in steps.items() if n))
    left = tuple([(v, n) for v, n in rest.items() if n])
    return Form(kept, left, x.number + times * y.number, tuple([(p, n) for p, n in scaled.items() if n]))


def _times(x: Form, n: int) -> Form:
    return total(Form(), x, n)


def _product(x: Form, y: Form) -> Form | None:
    """x times a number or an integer from outside, which y is."""
    if y.steps or y.scaled:
        return None
    if not y.rest:
        return _times(x, y.number)
    ((v, n), *more) = y.rest
    if more or y.number or x.rest or x.scaled:
        return None
    return Form((), ((v, n * x.number),) if x.number else (), 0, tuple([((k, v), n * step) for k, step in x.steps]))


@dataclass(slots=True)
class Iterations:
    """The axes of a nest: their `sizes`, the parts of arrays that its parameters are (`reads`, by axis), and the
    statements in it (`made`, by what they bind; all that is bound: `bound`).  `counters`: arrays 0, 1, ...; `products`:
    integers that are products.  Iterations of some are several axes, which `digits` are, if all `split` are what they
    seem (`digits.py`).  `outside`: copies, to be put before the nest, of what forms need of its statements."""

    counters: set[Var]
    products: Products = field(default_factory=dict)
    sizes: list[Atom] = field(default_factory=list)
    digits: dict[Var, Form] = field(default_factory=dict)
    split: list[Size] = field(default_factory=list)
    reads: dict[Var, Read] = field(default_factory=dict)
    made: dict[Var, ir.Stm] = field(default_factory=dict)
    bound: set[Var] = field(default_factory=set)
    outside: list[ir.Stm] = field(default_factory=list)
    copied: dict[Var, Var] = field(default_factory=dict)

    def enter(self, lam: ir.Lambda) -> None:
        """The statements of a scope."""
        self.bound.update(lam.params)
        for s in lam.stms:
            self.bound.update(s.pat)
            self.made.update(dict.fromkeys(s.pat, s))

    def inside(self, m: ir.Map) -> None:
        """The axes of one map more in the nest."""
        self.enter(m.lam)
        outside = self.bound - self.counters  # what counts does not depend on where it does
        digits = self._digits(m)
        level = len(self.sizes) if digits is None else -1
        self.reads = Nest([], (), [], outside).elements(m.arrays, m.lam, level, self.reads)
        if digits is None:
            self.sizes.append(m.width)
            return
        self.reads = {v: r for v, r in self.reads.items() if level not in r.levels}
        self.digits |= {v: Form(((len(self.sizes) + k, 1),)) for v, k in digits.parts.items()}
        self.split.append(digits.whole)
        b = Builder()
        self.sizes += [size.atom(b) for size in digits.sizes]
        self.outside += b.stms

    def _digits(self, m: ir.Map) -> Digits | None:
        counts = [p for a, p in zip(m.arrays, m.lam.params, strict=True) if a in self.counters]
        found = [digits_of(m, p, self.products) for p in counts]
        return next((d for d in found if d is not None), None)

    def form(self, a: Atom) -> Form | None:
        """An i64 as a sum of iterations; None if it is something else."""
        if isinstance(a, Const):
            return Form(number=int(a.value)) if a.type is I64 else None
        if a.type is not I64:
            return None
        if a not in self.bound:
            return Form(rest=((a, 1),))
        if a in self.digits:
            return self.digits[a]
        read = self.reads.get(a)
        if read is not None:
            return Form(((read.levels[0], 1),)) if read.array in self.counters and len(read.levels) == 1 else None
        e = self.made[a].exp if a in self.made else None
        if isinstance(e, ir.Alias):
            return self.form(e.atom)
        if not isinstance(e, ir.Op):
            return None
        return self._operation(e) or (Form(rest=((self.before(a), 1),)) if self.steady(a) else None)

    def _operation(self, e: ir.Op) -> Form | None:
        if e.op not in ("add", "sub", "mul", "neg"):
            return None
        forms = [self.form(x) for x in e.args]
        if any(f is None for f in forms):
            return None
        x, *more = [f for f in forms if f is not None]
        if e.op == "neg":
            return _times(x, -1)
        (y,) = more
        if e.op == "mul":
            return _product(x, y) or _product(y, x)
        return total(x, y, 1 if e.op == "add" else -1)

    def steady(self, a: Atom) -> bool:
        """Whether a scalar is computed of what comes from outside of the nest, and cannot fail."""
        if isinstance(a, Const) or a not in self.bound:
            return True
        e = self.made[a].exp if a in self.made and a not in self.reads else None
        return isinstance(e, ir.Op) and not may_fail(e) and all(map(self.steady, e.args))

    def before(self, a: Var) -> Var:
        """Such a scalar before the nest."""
        if a not in self.copied:
            e = self.made[a].exp
            there = {x: self.before(x) for x in e.operands() if isinstance(x, Var) and x in self.bound}
            new = e.rebuild(lambda x: there.get(x, x) if isinstance(x, Var) else x, lambda lam: lam)
            self.copied[a] = Var(a.name, a.type, a.at)
            self.outside.append(ir.Stm((self.copied[a],), new))
        return self.copied[a]

    def place(self, a: Var, checks: bool = False) -> tuple[Var, list[Form], bool] | None:
        """The array from outside and the place in it that a scalar is read at without a check, or with `checks` if
        there are any, and whether there is one; None if it is not."""
        read = self.reads.get(a)
        if read is not None:
            return (read.array, _of(read, ()), False) if not read.rest else None
        e = self.made[a].exp if a in self.made else None
        if not isinstance(e, ir.At) or (e.check is not None and not checks) or not isinstance(e.array, Var):
            return None
        place = self.within(e)
        return None if place is None else (*place, e.check is not None)

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


__all__ = ["Form", "Iterations", "every_value", "extent", "total"]
