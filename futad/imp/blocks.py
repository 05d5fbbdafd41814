"""Maps around loops that carry scalars, a block of iterations at a time.

    for i: { t = f(i); y = 0; for j: y = y * t + x[j]; s += g(t, y) }
  becomes, for i in steps of some lanes,
    { for l: { t[l] = f(i + l); y[l] = 0 }; for j: for l: y[l] = y[l] * t[l] + x[j]; for l: s += g(t[l], y[l]) }

so that vector lanes have work although each j waits for the one before.  An array that an iteration has for itself,
such as the values that a reverse sweep needs, lies with the elements of all lanes side by side.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace

from futad.core.scalarops import OPS
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.vectorise import count_refs, expressions, loads_in

LARGEST = 60  # statements of an inner loop


def block(loop: ir.For, body: list[ir.Stmt]) -> ir.Blocks | None:
    """A map's loop (with this body) in blocks; None unless it has inner loops that carry scalars, which all iterations
    take equally often, and nothing else that could differ between iterations but scalars."""
    if loop.step != 1 or not any(isinstance(s, ir.For) for s in body):
        return None
    body = _flat(body)
    shape = _Shape({loop.var})
    if not shape.takes(body, inner=False) or not shape.carried or shape.stored & shape.read:
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


@dataclass(slots=True)
class _Shape:
    """What the body of a map does.  `varying`: scalars that differ between iterations; `made`: all that the body
    declares; `arrays`: what an iteration has for itself, and `sizes` in bytes; `stored` and `read`: other arrays."""

    varying: set[str]
    made: set[str] = field(default_factory=set)
    arrays: set[str] = field(default_factory=set)
    sizes: list[Expr] = field(default_factory=list)
    stored: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    partials: set[str] = field(default_factory=set)
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
                if inner:
                    return op == "add" and value.type.is_float and not self.differs(index)
                return op is None
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
                if (inner or x.pointer in self.arrays) and self.differs(x.index):
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
