"""Maps around loops that carry scalars, a block of iterations at a time.

    for i: { t = f(i); y = 0; for j: y = y * t + x[j]; s += g(t, y) }
  becomes, for i in steps of some lanes,
    { for l: { t[l] = f(i + l); y[l] = 0 }; for j: for l: y[l] = y[l] * t[l] + x[j]; for l: s += g(t[l], y[l]) }

so that vector lanes have work although each j waits for the one before.  An array that an iteration has for itself,
such as the values that a reverse sweep needs, lies with the elements of all lanes side by side.  Where the inner loop
has much to compute, lanes may gather what they read and scatter what they write.  Branches that only compute scalars
are computed on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace

from futad.core.scalarops import OPS
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.vectorise import count_refs, expressions, loads_in, rewritten

LARGEST = 60  # statements of an inner loop
MUCH = 20  # cost of an inner loop for which lanes may read and write where it suits each of them


def block(loop: ir.For, body: list[ir.Stmt]) -> ir.Blocks | None:
    """A map's loop (with this body) in blocks; None unless it has inner loops that carry scalars, which all iterations
    take equally often, and nothing else that could differ between iterations but scalars and places in memory."""
    if loop.step != 1 or not any(isinstance(s, ir.For) for s in body):
        return None
    body = _straight(_placed(_flat(body), {}))
    shape = _Shape({loop.var})
    if not shape.takes(body, inner=False) or not shape.carried or shape.stored & shape.read:
        return None
    if shape.apart and _cost(body) < MUCH:
        return None
    # What the map itself reduces is seen by nothing inside.
    if shape.partials & shape.mentioned.keys():
        return None
    # The sizes are needed before the first block.
    if any(_refs(n) & shape.made for n in shape.sizes):
        return None
    plain = ir.For(loop.var, loop.bound, body, loop.start, map=True)
    return ir.Blocks(plain, frozenset(shape.arrays), tuple(shape.sizes), frozenset(shape.made - shape.varying))


def _flat(body: list[ir.Stmt]) -> list[ir.Stmt]:
    """The statements, without grouping."""
    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Seq):
            out += _flat(s.body)
        elif isinstance(s, ir.If):
            out.append(ir.If(s.cond, _flat(s.then), _flat(s.orelse)))
        else:
            out.append(replace(s, body=_flat(s.body)) if isinstance(s, ir.For) else s)
    return out


def _placed(body: list[ir.Stmt], at: dict[str, tuple[str, Expr]]) -> list[ir.Stmt]:
    """The statements without pointers into other arrays than their own: these are indexed instead.  `at`: the array
    and offset of such pointers."""
    own = {s.name for s in body if isinstance(s, (ir.Ensure, ir.Stack))}
    moved = {s.name for s in _all(body) if isinstance(s, ir.SetPointer)}

    def load(e: Expr) -> Expr:
        if isinstance(e, ir.Load) and e.pointer in at:
            base, offset = at[e.pointer]
            return ir.Load(base, ir.add(offset, e.index), e.type)
        return e

    def go(s: ir.Stmt) -> ir.Stmt:
        match s:
            case ir.Decl(init=e) if e is not None:
                return replace(s, init=rewritten(e, load))
            case ir.Assign(value=e) | ir.Accumulate(value=e):
                return replace(s, value=rewritten(e, load))
            case ir.Store(pointer, index, value):
                base, offset = at.get(pointer, (pointer, ir.ZERO))
                return replace(
                    s, pointer=base, index=ir.add(offset, rewritten(index, load)), value=rewritten(value, load)
                )
            case ir.Check(cond, values=values):
                return replace(s, cond=rewritten(cond, load), values=tuple([rewritten(e, load) for e in values]))
            case ir.For(bound=bound, body=inside, start=start):
                return replace(
                    s, bound=rewritten(bound, load), start=rewritten(start, load), body=_placed(inside, at)
                )
            case ir.If(cond, then, orelse):
                return ir.If(rewritten(cond, load), _placed(then, at), _placed(orelse, at))
        return s

    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Pointer) and s.base is not None and s.base not in own and s.name not in moved:
            base, offset = at.get(s.base, (s.base, ir.ZERO))
            at[s.name] = base, ir.add(offset, rewritten(s.offset, load))
        else:
            out.append(go(s))
    return out


def _all(body: list[ir.Stmt]) -> Iterator[ir.Stmt]:
    """The statements, with those inside others."""
    for s in body:
        yield s
        if isinstance(s, ir.For):
            yield from _all(s.body)
        elif isinstance(s, ir.If):
            yield from _all(s.then)
            yield from _all(s.orelse)


def _straight(body: list[ir.Stmt]) -> list[ir.Stmt]:
    """The statements with both sides computed of branches that only compute scalars, which may differ by lane."""
    out: list[ir.Stmt] = []
    for s in body:
        match s:
            case ir.For(body=inside):
                out.append(replace(s, body=_straight(inside)))
            case ir.If(cond, then, orelse):
                sides = [_straight(then), _straight(orelse)]
                out += _both(cond, *sides) or [ir.If(cond, *sides)]
            case _:
                out.append(s)
    return out


def _both(cond: Expr, then: list[ir.Stmt], orelse: list[ir.Stmt]) -> list[ir.Stmt] | None:
    """Both sides, and then what each assigns by choice; None if a side does more than that."""
    made: list[ir.Stmt] = []
    values: list[dict[str, Expr]] = []
    for side in (then, orelse):
        set_: dict[str, Expr] = {}
        for s in side:
            if any(_can_fail(e) or any(True for _ in loads_in(e)) or _refs(e) & set_.keys() for e in expressions(s)):
                return None
            if isinstance(s, ir.Decl) and s.init is not None and not s.mutable:
                made.append(s)
            elif isinstance(s, ir.Assign):
                set_[s.name] = s.value
            else:
                return None
        values.append(set_)
    yes, no = values
    if yes.keys() != no.keys() or any(_refs(e) & yes.keys() for e in (*yes.values(), *no.values())):
        return None
    chosen = [
        ir.Assign(name, e if e == no[name] else ir.Scalar("select", (cond, e, no[name]), e.type, e.type))
        for name, e in yes.items()
    ]
    return [*made, *chosen]


def _cost(body: list[ir.Stmt]) -> int:
    """The largest cost of a turn of an inner loop."""
    most = 0
    for s in body:
        if isinstance(s, ir.For):
            own = sum(_of(e) for x in s.body if not isinstance(x, ir.For) for e in expressions(x))
            most = max(most, own, _cost(s.body))
    return most


def _of(e: Expr) -> int:
    match e:
        case ir.Scalar(op, args):
            return OPS[op].cost + sum(map(_of, args))
        case ir.Bin(_, a, b):
            return 1 + _of(a) + _of(b)
    return 0


@dataclass(slots=True)
class _Shape:
    """What the body of a map does.  `varying`: scalars that differ between iterations; `made`: all that the body
    declares; `arrays`: what an iteration has for itself, and `sizes` in bytes; `stored` and `read`: other arrays;
    `apart`: in an inner loop these are read or written at places that differ between iterations."""

    varying: set[str]
    made: set[str] = field(default_factory=set)
    arrays: set[str] = field(default_factory=set)
    sizes: list[Expr] = field(default_factory=list)
    stored: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    partials: set[str] = field(default_factory=set)
    apart: bool = False
    mentioned: dict[str, int] = field(default_factory=dict)
    carried: bool = False

    def takes(self, body: list[ir.Stmt], inner: bool) -> bool:
        """Whether the statements (of an inner loop, or the map's own) can be done for several iterations at a time."""
        return all(self.statement(s, inner) and self.expressions(s, inner) for s in body)

    def statement(self, s: ir.Stmt, inner: bool) -> bool:
        match s:
            case ir.Decl(name, init=init, mutable=mutable):
                self.made.add(name)
                if mutable or init is None or any(True for _ in loads_in(init)) or self.differs(init):
                    self.varying.add(name)
            case ir.Assign(name):
                self.carried |= inner
                return name in self.made
            case ir.Accumulate(name):
                if name not in self.made:
                    self.partials.add(name)
                    return not inner
            case ir.Store(pointer, index, value, op):
                if pointer in self.arrays:
                    return op is None and not self.differs(index)
                self.stored.add(pointer)
                if not inner or op is None:
                    self.apart |= inner and self.differs(index)
                    return op is None
                return op == "add" and value.type.is_float and not self.differs(index)
            case ir.For(var, bound, inside, start, step=step):
                self.made.add(var)
                if step != 1 or self.differs(bound) or self.differs(start) or len(inside) > LARGEST:
                    return False
                return self.takes(inside, inner=True)
            case ir.Ensure(name, elem, slot, count):
                self.arrays.add(name)
                self.sizes.append(ir.mul(count, ir.num(elem.bits // 8)))
                return isinstance(slot, int)
            case ir.Stack(name, elem, count):
                self.arrays.add(name)
                self.sizes.append(ir.num(count * elem.bits // 8))
            case ir.Pointer(name, base=base, offset=offset):
                self.arrays.add(name)
                return base in self.arrays and offset == ir.ZERO
            case ir.Copy(target, offset, source, source_offset, count):
                return {target, source} <= self.arrays and not any(map(self.differs, (offset, source_offset, count)))
            case ir.If(cond, then, orelse):
                count_refs(cond, self.mentioned)
                loaded = {x.pointer for x in loads_in(cond)}
                return not loaded and not self.differs(cond) and self.takes(then, inner) and self.takes(orelse, inner)
            case ir.Check(cond, values=values):
                return not any(self.differs(e) or any(True for _ in loads_in(e)) for e in (cond, *values))
            case _:
                return False
        return True

    def expressions(self, s: ir.Stmt, inner: bool) -> bool:
        """Whether all iterations can compute the statement's expressions together; notes what they mention."""
        for e in expressions(s):
            count_refs(e, self.mentioned)
            if inner and _can_fail(e):
                return False
            for x in loads_in(e):
                if x.pointer not in self.arrays:
                    self.read.add(x.pointer)
                    self.apart |= inner and self.differs(x.index)
                elif self.differs(x.index):
                    return False
        return True

    def differs(self, e: Expr) -> bool:
        """Whether the expression is another one in each iteration."""
        return bool(_refs(e) & self.varying) or any(x.pointer in self.arrays for x in loads_in(e))


def _refs(e: Expr) -> Set[str]:
    uses: dict[str, int] = {}
    count_refs(e, uses)
    return uses.keys()


def _can_fail(e: Expr) -> bool:
    match e:
        case ir.Scalar(op, args):
            return (OPS[op].can_fail and e.type.is_integral) or any(_can_fail(a) for a in args)
        case ir.Bin(_, a, b):
            return _can_fail(a) or _can_fail(b)
    return False
