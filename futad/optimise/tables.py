"""Tables of what scalar code computes from sums of iterations: each value once.

    at (i + p) (j + q) for all i, j, p, q    -->    map (\\u -> map (\\v -> at u v)), read at u = i + p, v = j + q

The sums are the table's *keys*; no iteration is in two of them, so every pair of keys is met.  Where a sum skips values
(i + 2 * p, with one i), these have the element of the last one before: code may fail where no iteration runs it.  Of a
sum with a step that is not known (i + d * p) each iteration is a key by itself, but where it is made of sums without
(w * (i + p) + j + q), which are keys then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from futad.core import ir
from futad.core.builder import Builder
from futad.core.contraction import Factor, fixed
from futad.core.nest import Read
from futad.core.types import ONE, ZERO, Atom, Const, Prim, Var, i64
from futad.legality import Legality
from futad.optimise.affine import Form, Iterations, every_value, extent

LEGAL = Legality("tables", "scalar code of sums of iterations is run once for each sum", fires=False)
KEYS_APART = LEGAL.condition("no iteration in two sums", "a value is computed that no iteration asks for, or may fail")
EVERY_VALUE = LEGAL.condition("each sum is met", "a place between is read that may be out of range")

LONGEST = 4  # a step that skips values: so many times as many are computed as are read

Steps = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Table:
    """Scalar code, the scalar `value`, of iterations `at`: by the sums of these (`keys`).  `apart`:
    iterations of some sum are keys by themselves.  `made`: integers that are computed of keys."""

    at: Iterations
    value: Var
    keys: list[Steps] = field(default_factory=list)
    apart: bool = False
    made: set[Var] = field(default_factory=set)

    @property
    def forms(self) -> list[Form]:
        """Where an iteration finds its value, dimension by dimension, but for where that begins."""
        return [Form(k) for k in self.keys]

    # -- what it depends on

    def found(self) -> bool:
        """Find the keys; whether the value is scalar code of these."""
        if not self._visit(self.value) or not self.keys:
            return False
        axes = [k for key in self.keys for k, _ in key]
        if not KEYS_APART(len(set(axes)) == len(axes)):
            return False
        return EVERY_VALUE(all(self._met(key) or _gaps(key) is not None for key in self.keys))

    def _met(self, key: Steps) -> bool:
        return every_value([(n, self.at.sizes[k]) for k, n in key])

    def _key(self, steps: Steps) -> None:
        if steps and steps not in self.keys:
            self.keys.append(steps)

    def _visit(self, a: Atom) -> bool:
        at = self.at
        if isinstance(a, Const) or a not in at.bound:
            return True
        form = at.form(a)
        if form is not None and form.scaled:
            made: set[Var] = set()
            parts = self._parts(a, made)
            if any(len(part.axes) > 1 for part in parts):
                self.made |= made
                for part in parts:
                    self._key(part.steps)
                return True
            self.apart = True
            for axis in reversed(form.axes):  # those of the result last
                self._key(((axis, 1),))
            return True
        if form is not None:
            self._key(form.steps)
            return True
        read = at.reads.get(a)
        if read is not None:
            self._read(read)
            return not read.rest
        s = at.made.get(a)
        return s is not None and self._statement(s)

    def _parts(self, a: Atom, made: set[Var]) -> list[Form]:
        """The sums with known steps that an integer is computed of, by way of what is `made` of these."""
        form = self.at.form(a)
        if form is None or not form.scaled or not isinstance(a, Var):
            return [form] if form is not None else []
        made.add(a)
        return [part for x in self.at.made[a].exp.operands() for part in self._parts(x, made)]

    def _read(self, read: Read) -> None:
        for level in read.levels:
            self._key(((level, 1),))

    def _statement(self, s: ir.Stm) -> bool:
        e = s.exp
        if isinstance(e, ir.At):
            if any(not isinstance(i, Var | Const) for i in e.index) or not isinstance(s.pat[0].type, Prim):
                return False
            if isinstance(e.array, Var) and (read := self.at.reads.get(e.array)) is not None:
                self._read(read)
            elif e.array in self.at.bound:
                return False
            return all(self._visit(i) for i in e.index if isinstance(i, Var))
        if isinstance(e, ir.If):
            for lam in e.lambdas():
                self.at.enter(lam)
            inner = [t for lam in e.lambdas() for t in lam.stms]
            own = {v for t in inner for v in t.pat}
            free = [v for v in ir.stm_free(s) if v not in own and isinstance(v.type, Prim)]
            results = [a for lam in e.lambdas() for a in lam.result]
            inner.sort(key=lambda t: not isinstance(t.exp, ir.At))  # keys in the order of the dimensions that are read
            return all(map(self._statement, inner)) and all(map(self._visit, [*free, *results]))
        return isinstance(e, ir.Op | ir.Alias) and all(map(self._visit, e.operands()))

    # -- the table

    def built(self, b: Builder) -> Factor:
        """The table, and where iterations find their values."""
        at = self.at
        some = None  # whether there are iterations
        for size in at.sizes:
            if not isinstance(size, Const):
                positive = b.op("lt", ZERO, size)
                some = positive if some is None else b.op("and", some, positive)
        starts: list[Atom] = []
        sizes: list[Atom] = []
        guarded = False  # one dimension without elements is enough
        empty = any(isinstance(n, Const) and n.value <= 0 for n in at.sizes)
        for key in self.keys:
            least, count = extent(b, [(n, at.sizes[k]) for k, n in key])
            starts.append(least)
            ((first, step), *more) = key
            if step == 1 and not more and len(self.keys) > len(sizes) + (not guarded):
                sizes.append(at.sizes[first])
                continue
            guarded = True
            sizes.append(ZERO if empty else count if some is None else b.op("select", some, count, ZERO))
        table = self._level(b, starts, sizes, [])
        steps = fixed([[dict(key).get(k, 0) for k in range(len(at.sizes))] for key in self.keys])
        origin = tuple([x if x is ZERO else b.op("sub", ZERO, x) for x in starts])
        return Factor(table, origin, steps)

    def _level(self, b: Builder, starts: list[Atom], sizes: list[Atom], at: list[Atom]) -> Var:
        k = len(at)
        places = b.let(ir.Iota(sizes[k], ZERO, ONE), "is")

        def body(inner: Builder, u: Var) -> list[Atom]:
            place: Atom = u if self._met(self.keys[k]) else self._before(inner, u, self.keys[k])
            place = place if starts[k] is ZERO else inner.op("add", place, starts[k])
            if k + 1 < len(self.keys):
                return [self._level(inner, starts, sizes, [*at, place])]
            return [_Copy(self, inner, [*at, place], {}).atom(self.value)]

        return b.map_(body, places, hint="table")[0]

    def _before(self, b: Builder, u: Var, key: Steps) -> Atom:
        """The last value of a sum of an axis and so many times another that is not after `u`."""
        axis, step = _gaps(key) or (key[0][0], 1)
        rest = b.op("mod", u, i64(step))
        reached = b.op("min", rest, b.op("sub", self.at.sizes[axis], ONE))
        return b.op("add", b.op("sub", u, rest), reached)


def _gaps(key: Steps) -> tuple[int, int] | None:
    """The first axis of a key, and the step of the other one, if there is one other, that skips few values, and the
    first moves by one."""
    pairs = [(x, y) for x, y in ((key[0], key[-1]), (key[-1], key[0])) if abs(x[1]) == 1 and abs(y[1]) <= LONGEST]
    return (pairs[0][0][0], abs(pairs[0][1][1])) if len(key) == 2 and pairs else None


@dataclass(slots=True)
class _Copy:
    """The table's code for one value of each key."""

    table: Table
    b: Builder
    values: list[Atom]
    done: dict[Var, Atom]

    def atom(self, a: Atom) -> Atom:
        at = self.table.at
        if isinstance(a, Const) or (a not in at.bound and a not in self.done):
            return a
        if a not in self.done:
            form = at.form(a) if a not in self.table.made else None
            read = at.reads.get(a)
            if form is not None:
                self.done[a] = self._form(form)
            elif read is not None:
                self.done[a] = self.b.at(read.array, *self._index(read, ()))
            else:
                self.statement(at.made[a])
        return self.done[a]

    def _form(self, form: Form) -> Atom:
        start = form.start(self.b)
        for axis in form.axes if form.scaled else ():
            by = form.stride(self.b, axis)
            start = self.b.op("add", start, self.b.op("mul", by, self.values[self.table.keys.index(((axis, 1),))]))
        if not form.steps or form.scaled:
            return start
        value = self.values[self.table.keys.index(form.steps)]
        return value if start is ZERO else self.b.op("add", value, start)

    def _index(self, read: Read, rest: tuple[Atom, ...]) -> list[Atom]:
        level = [self.values[self.table.keys.index(((k, 1),))] for k in read.levels]
        at = dict(zip(read.dims, level, strict=True)) | dict(zip(read.rest, rest, strict=True))
        return [at[d] for d in sorted(at)]

    def statement(self, s: ir.Stm) -> None:
        e, b = s.exp, self.b
        if isinstance(e, ir.At):
            index = tuple([self.atom(i) for i in e.index if isinstance(i, Var | Const)])
            read = self.table.at.reads.get(e.array) if isinstance(e.array, Var) else None
            array = e.array if read is None else read.array
            place = index if read is None else tuple(self._index(read, index))
            new: ir.Exp = ir.At(array, place, e.check)
        elif isinstance(e, ir.If):
            inner = {v for lam in e.lambdas() for t in lam.stms for v in t.pat}
            for v in ir.stm_free(s):
                if v not in inner and isinstance(v.type, Prim):
                    self.atom(v)
            new = e.rebuild(self.atom, self._branch)
        else:
            new = e.rebuild(self.atom, lambda lam: lam)
        out = tuple([Var(v.name, v.type, v.at) for v in s.pat])
        b.add(ir.Stm(out, new, s.attrs))
        self.done.update(zip(s.pat, out, strict=True))

    def _branch(self, lam: ir.Lambda) -> ir.Lambda:
        inner = _Copy(self.table, Builder(), self.values, dict(self.done))
        for s in lam.stms:
            inner.statement(s)
        result = tuple([inner.atom(a) for a in lam.result])
        return ir.Lambda((), tuple(inner.b.stms), result)


def table_of(at: Iterations, value: Atom) -> Table | None:
    """The table of a scalar of a nest; None if it is no scalar code of sums of iterations."""
    if not isinstance(value, Var):
        return None
    table = Table(at, value)
    return table if table.found() else None


__all__ = ["Table", "table_of"]
