"""Loops of few iterations and small arrays in branches of a map become scalars, so that the map runs in vector lanes.

    for i: { if c: for k < 3: b[k] = x[3 i + k] / l else: for k < 3: b[k] = 0; for k < 3: y[3 i + k] = b[k] + 1 }
  becomes
    for i: { if c: b_0 = x[3 i] / l; b_1 = x[3 i + 1] / l; b_2 = ... else: b_0 = 0; b_1 = 0; b_2 = 0
             y[3 i] = b_0 + 1; y[3 i + 1] = b_1 + 1; y[3 i + 2] = b_2 + 1 }

What both sides of a branch store at the same places is stored after it, and what an iteration reads of that is the
value that it stored.  The branches are then of scalars alone, which are chosen by interval (`split_index.py`) or under
masks (`guarded_reads.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field, replace

from futad.core.types import Prim
from futad.fires import refused
from futad.imp import ir
from futad.imp.ir import ZERO, Expr, Load, Num, Ref, Stmt, num
from futad.imp.loops.if_conversion import if_converted
from futad.imp.loops.vectorise import accumulations
from futad.imp.walk import rewritten, statements
from futad.legality import Legality

LEGAL = Legality(
    "branches-written-out",
    "loops of few iterations and small arrays in branches of a map become scalars, and the map runs in vector lanes",
    worth="a cloth of springs 1.23 to 0.53 ms: `benchmarks/without.py branches-written-out"
    " tests/programs/cloth.fut:swayed --values '[20][24][3]f64' '[20][24][3]f64'`",
)
READ_BACK = LEGAL.condition("read where it was stored", "another element is read than the one that was stored")
STORED_APART = LEGAL.condition("stored apart", "of two values for one element the first one is read, or stored last")

FEW = 4  # iterations of a loop that is written out
SHORTEST = 16  # iterations of the map, if their number is known
SMALL = 16  # elements of an array that becomes scalars
LARGEST = 300  # statements that are made


class _Refused(Exception):
    """The body has something that does not become scalars."""


Place = tuple[str, Expr]


def branches_written_out(loop: ir.For, folds: Set[str], asked: bool = False) -> ir.For | None:
    """The map's loop with branches of scalars alone; None if it has no branches with loops inside, or does more than
    scalars.  `folds`: pointers to arrays that it folds into; `asked`: however many statements that are."""
    branches = [s for s in loop.body if isinstance(s, ir.If)]
    if loop.step != 1 or not any(isinstance(t, ir.For) for s in branches for t in statements([s])):
        return refused("there are no loops in its branches")
    if isinstance(count := ir.sub(loop.bound, loop.start), Num) and count.value < SHORTEST:
        return refused("it is short")
    if any(k > 1 for k in Counter(n for s in statements(loop.body) for n in s.defines()).values()):
        return refused("two variables of its body have one name")
    work = _Written()
    try:
        work.body(accumulations(if_converted(loop.body, folds)), "")
    except _Refused as e:
        return refused(str(e))
    if sum(1 for _ in statements(work.out)) > (LARGEST if not asked else LARGEST * FEW):
        return refused(f"more than {LARGEST} statements would be made")
    return replace(loop, body=work.out)


@dataclass(slots=True)
class _Written:
    """Scalars in place of what a body, or a side of a branch, does; `now`: the values of variables, `arrays`: of the
    elements of small arrays, None before they have one; `stored`: what this iteration has stored.  `later`: what the
    side stores, after the branch."""

    out: list[Stmt] = field(default_factory=list)
    now: dict[str, Expr] = field(default_factory=dict)
    own: dict[str, Prim] = field(default_factory=dict)
    arrays: dict[str, list[Expr | None]] = field(default_factory=dict)
    stored: dict[Place, Expr] = field(default_factory=dict)
    later: dict[Place, Expr] | None = None
    names: list[int] = field(default_factory=lambda: [0])

    def body(self, body: list[Stmt], suffix: str) -> None:
        for s in body:
            self.statement(s, suffix)

    def statement(self, s: Stmt, suffix: str) -> None:
        match s:
            case ir.Decl(name, t, init, mutable):
                if mutable:
                    self.own[name] = t
                    self.now.pop(name, None)
                if init is not None:
                    self.set(name, self.value(init), self.fresh() if mutable else suffix)
            case ir.Assign(name, value) if name in self.own:
                self.set(name, self.value(value), self.fresh())
            case ir.Accumulate(name, op, value) if name in self.now:
                t = value.type
                self.set(name, ir.Scalar(op, (self.now[name], self.value(value)), t, t), self.fresh())
            case ir.Stack(name, _, count) if count <= SMALL:
                self.arrays[name] = [None] * count
            case ir.Store(pointer, index, value, op):
                self.store(pointer, self.value(index), self.value(value), op)
            case ir.Copy(target, offset, source, start, Num(count), elem) if count <= SMALL:
                for k in range(int(count)):
                    value = self.value(Load(source, ir.add(start, num(k)), elem))
                    self.store(target, self.value(ir.add(offset, num(k))), value, None)
            case ir.For(var, Num(end), inside, Num(start)) if 0 <= end - start <= FEW * s.step:
                for k in range(int(start), int(end), s.step):
                    self.now[var] = num(k)
                    self.body(accumulations(inside), f"{suffix}_{k}w")
            case ir.Check():
                self.out.append(s.map_exprs(self.value))
            case ir.If(cond, then, orelse) if then and orelse:
                self.branch(self.value(cond), then, orelse, suffix)
            case _:
                raise _Refused(f"it has loops of more than {FEW} iterations inside, or does more than scalars")

    def fresh(self) -> str:
        self.names[0] += 1
        return f"_{self.names[0]}w"

    def set(self, name: str, value: Expr, suffix: str) -> None:
        """The variable has this value from here on."""
        self.now[name] = self.named(name, value, suffix)

    def named(self, name: str, value: Expr, suffix: str) -> Expr:
        """The value, as a variable."""
        if isinstance(value, (Ref, Num)):
            return value
        made = f"{name}{suffix}"
        self.out.append(ir.Decl(made, value.type, value))
        return Ref(made, value.type)

    def value(self, e: Expr) -> Expr:
        """The expression, of the values that its variables and elements have now."""

        def there(x: Expr) -> Expr:
            if isinstance(x, Ref):
                if x.name in self.own and x.name not in self.now:
                    raise _Refused("a variable is read before it has a value")
                return self.now.get(x.name, x)
            match x:
                case Load():
                    return self.element(x)
                case ir.Bin("+", a, b):
                    return ir.add(a, b)
                case ir.Bin("*", a, b):
                    return ir.mul(a, b)
            return x

        return rewritten(e, there)

    def element(self, x: Load) -> Expr:
        if x.pointer in self.arrays:
            found = self.arrays[x.pointer][self.at(x.pointer, x.index)]
            if found is None:
                raise _Refused("an element is read before it has a value")
            return found
        if not READ_BACK(all(p != x.pointer for p, _ in self.stored)):
            if (x.pointer, x.index) not in self.stored:
                raise _Refused("it reads what it stores")
            return self.stored[x.pointer, x.index]
        return x

    def at(self, pointer: str, index: Expr) -> int:
        """Which element of a small array it is."""
        if not isinstance(index, Num) or not 0 <= index.value < len(self.arrays[pointer]):
            raise _Refused("the places in a small array are not known")
        return int(index.value)

    def store(self, pointer: str, index: Expr, value: Expr, op: str | None) -> None:
        if pointer in self.arrays:
            k = self.at(pointer, index)
            if op is not None:
                old = self.arrays[pointer][k]
                if old is None:
                    raise _Refused("an element is read before it has a value")
                value = ir.Scalar(op, (old, value), value.type, value.type)
            self.arrays[pointer][k] = self.named(pointer, value, self.fresh())
            return
        if op is not None:
            raise _Refused("it adds to memory")
        if not STORED_APART(all(p != pointer or e == index or _apart(e, index) for p, e in self.stored)):
            raise _Refused("it stores at places that may be the same")
        value = self.named(pointer, value, self.fresh())
        self.stored[pointer, index] = value
        if self.later is not None:
            self.later[pointer, index] = value
        else:
            self.out.append(ir.Store(pointer, index, value))

    def branch(self, cond: Expr, then: list[Stmt], orelse: list[Stmt], suffix: str) -> None:
        """Both sides, which give values to variables of their own for what they change and store."""
        sides = [self.side(s, suffix) for s in (then, orelse)]
        yes, no = sides
        assert yes.later is not None and no.later is not None
        if yes.later.keys() != no.later.keys():
            raise _Refused("the sides of a branch store at different places")
        made: list[Stmt] = []

        def chosen(name: str, a: Expr | None, b: Expr | None) -> Expr | None:
            if a is None or b is None or a == b:
                return a if a == b else None
            x = Ref(f"{name}{self.fresh()}", a.type)
            made.append(ir.Decl(x.name, a.type, mutable=True))
            yes.out.append(ir.Assign(x.name, a))
            no.out.append(ir.Assign(x.name, b))
            return x

        for name in self.own:
            now = chosen(name, yes.now.get(name), no.now.get(name))
            if now is None:
                self.now.pop(name, None)
            else:
                self.now[name] = now
        for name in self.arrays:
            pairs = zip(yes.arrays[name], no.arrays[name], strict=True)
            self.arrays[name] = [chosen(name, a, b) for a, b in pairs]
        stores: list[Stmt] = []
        for (pointer, index), a in yes.later.items():
            value = chosen(pointer, a, no.later[pointer, index])
            assert value is not None
            self.stored[pointer, index] = value
            if self.later is None:
                stores.append(ir.Store(pointer, index, value))
            else:
                self.later[pointer, index] = value
        self.out += [*made, ir.If(cond, yes.out, no.out), *stores]

    def side(self, body: list[Stmt], suffix: str) -> _Written:
        inside = _Written([], dict(self.now), dict(self.own), {}, dict(self.stored), {}, self.names)
        inside.arrays = {name: list(elements) for name, elements in self.arrays.items()}
        if self.later:
            raise _Refused("a side of a branch stores, and then branches")
        inside.body(body, suffix)
        return inside


def _apart(x: Expr, y: Expr) -> bool:
    """Whether two places differ by a number."""
    (a, m), (b, n) = _offset(x), _offset(y)
    return a == b and m != n


def _offset(e: Expr) -> tuple[Expr, int]:
    """A place as one that is counted from, and a number."""
    match e:
        case Num(k):
            return ZERO, int(k)
        case ir.Bin("+", a, b):
            (x, m), (y, n) = _offset(a), _offset(b)
            return ir.add(x, y), m + n
    return e, 0


__all__ = ["branches_written_out"]
