"""Statements about parts of arrays, solved for the arrays.

| statement with known result | solved for |
|---|---|
| slices, or elements, that cover an array | the array |
| `update` | the value; the old array, if the old element is known |
| an element that another array has, too | the element |
| a swap of two elements that may be one | by a swap |

An array shares its elements with copies, slices and concatenations of it, and with what updates at other places make
of it: places whose difference is a number that is not 0, or that are converted from such integers.
"""

from __future__ import annotations

from collections.abc import Iterator

from futad.ad.inverse.solver import LEGAL, NOT_WHOLE, ROWS, Solver, is_const
from futad.core import ir
from futad.core.node import Range
from futad.core.types import I64, ONE, ZERO, ArrayType, Atom, Const, Prim, Var, elem_of, shape_of
from futad.rewrite.ranges import Poly, constant, plus, times

COVERS = LEGAL.condition("slices cover", "elements between slices, or after them, are lost")
SAME_PLACE = LEGAL.condition("element of that place", "the old value of another element is put back")
OTHER_PLACE = LEGAL.condition("element of another place", "the new value of an element is taken for the old one")

MOST = 64  # places that are looked at for one element

# A place of an array: an index for each of the first dimensions, as a polynomial, or a slice.
_Slots = tuple["Poly | Range", ...]
# A slice or an element of an array: the first position, how many, the statement, whether from the last to the first.
_Piece = tuple[Poly, Poly, ir.Stm, bool]

# --- slices ----------------------------------------------------------------------------------------------------------


def _at(s: Solver, stm: ir.Stm) -> None:
    """Slices that cover an array, or all of its elements one by one."""
    e = stm.exp
    assert isinstance(e, ir.At)
    if stm.pat[0] not in s.known:
        unknown = s.value(e.array) is None and _index(s, e.index) is not None
        found = _element(s, e.array, e.index, stm) if unknown else None
        if found is not None:
            s.learn(stm.pat[0], found)
        return
    for x, _ in _parts(s, e):
        if isinstance(x, Var) and s.value(x) is None:
            _cover(s, x, stm)


def _cover(s: Solver, x: Var, stm: ir.Stm) -> None:
    shape = s.values(shape_of(x.type))
    if shape is None:
        return
    pieces: list[_Piece] = []
    for p in s.stms:
        if isinstance(p.exp, ir.At) and p.pat[0] in s.known:
            pieces += [(start, count, p, way < 0) for array, (start, count, way) in _parts(s, p.exp) if array is x]
    taken = _in_order(pieces, poly_of(s, shape_of(x.type)[0]))
    if not taken:  # nor for an array without elements: there is nothing to learn it from
        return
    parts: list[Atom] = []
    for _, _, p, backwards in taken:
        part = s.known[p.pat[0]]
        assert isinstance(p.exp, ir.At)
        if not isinstance(p.exp.index[0], Range):
            part = s.b.let(ir.Replicate((ONE,), part), "part")
        elif backwards:
            n = s.value(p.exp.index[0].count)
            assert n is not None
            part = s.b.let(ir.At(part, (Range(s.b.op("sub", n, ONE), n, Const(I64, -1)),)), "part")
        parts.append(part)
        if p is not stm:
            s.also(p)
    s.learn(x, parts[0] if len(parts) == 1 else s.b.let(ir.Concat(tuple(parts), shape[0]), x.name))


def _parts(s: Solver, e: ir.At) -> Iterator[tuple[Atom, tuple[Poly, Poly, int]]]:
    """The arrays of which an element or a slice is a part, its array and those that it is itself a slice of; the lowest
    position, how many, and 1, or -1 if they are from the last to the first."""
    if len(e.index) != 1:
        return
    (i,) = e.index
    i = i if isinstance(i, Range) else Range(i, ONE, ONE)
    start, count, stride = poly_of(s, i.start), poly_of(s, i.count), _direction(i)
    while stride:
        yield e.array, (start if stride > 0 else plus(plus(start, count, -1), constant(1)), count, stride)
        below = s.defined(e.array, ir.At)
        if not isinstance(below, ir.At) or len(below.index) != 1 or not isinstance(below.index[0], Range):
            return
        e, i = below, below.index[0]
        start = plus(poly_of(s, i.start), start, _direction(i))
        stride *= _direction(i)


def _direction(i: Range) -> int:
    """1 or -1, from the first to the last position or the other way; 0 for other steps."""
    return i.stride.value if isinstance(i.stride, Const) and i.stride.value in (1, -1) else 0


def _in_order(pieces: list[_Piece], size: Poly) -> list[_Piece] | None:
    """Pieces that follow one another from the first element to the last."""
    found = next(_from({}, pieces, size), None)
    if found is not None:
        return found
    some = [p for p in pieces if p[0] == {}]
    return some[:1] if some and COVERS(False) else None


def _from(at: Poly, pieces: list[_Piece], size: Poly) -> Iterator[list[_Piece]]:
    if at == size:
        yield []
        return
    for p in pieces:
        if p[0] == at:
            for rest in _from(plus(at, p[1]), [q for q in pieces if q is not p], size):
                yield [p, *rest]


# --- elements --------------------------------------------------------------------------------------------------------


def _update(s: Solver, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Update)
    r = s.known.get(stm.pat[0])
    index = _index(s, e.index)
    if index is None:
        return
    if r is None:
        if s.value(e.value) is None and s.value(e.array) is None:
            new = _element(s, stm.pat[0], e.index, stm)
            if new is not None:
                s.learn(e.value, new)
                s.also(stm, 1 - NOT_WHOLE)
        return
    if _swap(s, stm, r, index):
        return
    if s.value(e.value) is None:
        part = s.b.let(ir.At(r, index), "new")
        s.learn(e.value, part if not isinstance(part.type, ArrayType) else s.b.let(ir.Copy(part), "new"))
    if s.value(e.array) is None:
        old = _element(s, e.array, e.index, None)
        if old is not None:
            s.learn(e.array, s.b.let(ir.Update(r, index, old), "old"))


def _element(s: Solver, a: Atom, index: ir.Index, by: ir.Stm | None) -> Atom | None:
    """The element of `a` there, if that is known: it has been read or written, or another array has it.

    `by`: a statement that reads or writes it, and is not asked itself; others are not asked what they read.
    """
    if not isinstance(a, Var):
        return None
    wanted = _slots(s, index)
    for array, slots in _places(s, a, wanted):
        known = s.value(array)
        if known is not None:
            at = _code(s, slots)
            if at is None:
                continue
            part = s.b.let(ir.At(known, at), "new")
            return part if not isinstance(part.type, ArrayType) else s.b.let(ir.Copy(part), "new")
        for p in s.users.get(array, ()) if by is None else ():
            e = p.exp
            if isinstance(e, ir.At) and e.array is array and p.pat[0] in s.known and _is_there(s, e.index, slots):
                s.also(p)
                return s.known[p.pat[0]]
        made = s.made.get(array)
        if made is not None and made is not by and isinstance(made.exp, ir.Update):
            value = s.value(made.exp.value)
            if value is not None and _is_there(s, made.exp.index, slots):
                if by is None:
                    s.also(made)
                return value
    for p in s.stms if by is None else ():  # what was read may be shown to be that element, where not the other way
        e = p.exp
        if isinstance(e, ir.At) and isinstance(e.array, Var) and p.pat[0] in s.known and len(e.index) == len(wanted):
            if (a, wanted) in _places(s, e.array, _slots(s, e.index)):
                s.also(p)
                return s.known[p.pat[0]]
    return None


def _slots(s: Solver, index: ir.Index) -> _Slots:
    return tuple([i if isinstance(i, Range) else poly_of(s, i) for i in index])


def _is_there(s: Solver, index: ir.Index, slots: _Slots) -> bool:
    if len(index) != len(slots):
        return False
    return SAME_PLACE(_slots(s, index) == slots)


def _places(s: Solver, a: Var, slots: _Slots) -> Iterator[tuple[Var, _Slots]]:
    """The arrays that have the element of `a` there, and where: copies, parts, and what has it as a part; before and
    after updates at other places."""
    queue: list[tuple[Atom, _Slots | None]] = [(a, slots)]
    seen: list[tuple[Var, _Slots]] = []
    while queue and len(seen) < MOST:
        array, at = queue.pop(0)
        if at is None or not isinstance(array, Var) or (array, at) in seen:
            continue
        seen.append((array, at))
        yield array, at
        made = s.made.get(array)
        if made is not None:
            queue += [(b, there) for b, there in _of_operands(s, made.exp, at)]
        queue += [(p.pat[0], there) for p in s.users.get(array, ()) for there in _of_result(s, p.exp, array, at)]


def _of_operands(s: Solver, e: ir.Exp, at: _Slots) -> Iterator[tuple[Atom, _Slots | None]]:
    """Where operands have what a result has at `at`."""
    match e:
        case ir.Copy() | ir.Alias():
            yield e.operands()[0], at
        case ir.Update() if OTHER_PLACE(_disjoint(s, at, e.index)):
            yield e.array, at
        case ir.Rearrange() if len(at) == len(e.perm):
            yield e.array, tuple([at[e.perm.index(d)] for d in range(len(at))])
        case ir.Concat() if not isinstance(at[0], Range):
            start: Poly = {}
            for k, b in enumerate(e.arrays):
                size = poly_of(s, shape_of(b.type)[0])
                here = plus(at[0], start, -1)
                if (k == 0 or _at_least(here, 0)) and (k == len(e.arrays) - 1 or _at_least(plus(size, here, -1), 1)):
                    yield b, (here, *at[1:])
                start = plus(start, size)
        case ir.At():
            left = list(at)
            out: list[Poly | Range] = []
            for i in e.index:
                if not isinstance(i, Range):
                    out.append(poly_of(s, i))
                    continue
                inside = left.pop(0) if left else i
                if isinstance(inside, Range):
                    return
                out.append(plus(poly_of(s, i.start), times(poly_of(s, i.stride), inside)))
            yield e.array, (*out, *left)


def _of_result(s: Solver, e: ir.Exp, array: Var, at: _Slots) -> Iterator[_Slots]:
    """Where a result has what its operand `array` has at `at`."""
    match e:
        case ir.Copy() | ir.Alias():
            yield at
        case ir.Update() if e.array is array and OTHER_PLACE(_disjoint(s, at, e.index)):
            yield at
        case ir.Rearrange() if len(at) == len(e.perm):
            yield tuple([at[d] for d in e.perm])
        case ir.Concat() if not isinstance(at[0], Range):
            start: Poly = {}
            for b in e.arrays:
                if b is array:
                    yield (plus(at[0], start), *at[1:])
                start = plus(start, poly_of(s, shape_of(b.type)[0]))
        case ir.At() if e.array is array and len(e.index) <= len(at):
            out: list[Poly | Range] = []
            for i, here, n in zip(e.index, at, shape_of(array.type), strict=False):
                if isinstance(here, Range):
                    return
                if not isinstance(i, Range):
                    if poly_of(s, i) != here:
                        return
                    continue
                place = _within(s, i, here, poly_of(s, n))
                if place is None:
                    return
                out.append(place)
            if out or len(e.index) < len(at):
                yield (*out, *at[len(e.index) :])


def _within(s: Solver, i: Range, at: Poly, size: Poly) -> Poly | None:
    """The position in a slice, of an array of that size, of the element that the array has at `at`."""
    if not _direction(i):
        return None
    start, count = poly_of(s, i.start), poly_of(s, i.count)
    first, end = start, plus(start, count)  # the lowest position of the slice, and the one after the highest
    here = plus(at, start, -1)
    if i.stride.value < 0:
        end = plus(start, constant(1))
        first = plus(end, count, -1)
        here = plus(start, at, -1)
    above = first == {} or _at_least(plus(at, first, -1), 0)
    return here if above and (end == size or _at_least(plus(end, at, -1), 1)) else None


def _at_least(p: Poly, k: int) -> bool:
    """Whether the polynomial is a number, no less than k; where sizes and places in arrays are added none wraps."""
    return not set(p) - {()} and k <= p.get((), 0) < 1 << 62


def _disjoint(s: Solver, at: _Slots, index: ir.Index) -> bool:
    """Whether two places differ in a dimension that both fix, by a constant."""
    for x, i in zip(at, index, strict=False):
        if not isinstance(x, Range) and not isinstance(i, Range):
            if _differ(plus(x, poly_of(s, i), -1), 64):
                return True
            a, b = _narrow(s, x), _narrow(s, poly_of(s, i))
            if a is not None and b is not None and a.type is b.type:
                if _differ(plus(poly_of(s, a), poly_of(s, b), -1), elem_of(a.type).bits):
                    return True
    return False


def _differ(difference: Poly, bits: int) -> bool:
    return set(difference) == {()} and difference[()] % (1 << bits) != 0


def _narrow(s: Solver, p: Poly) -> Atom | None:
    """The integer that an index is converted from: indices differ where these do."""
    v = next(iter(p))[0] if len(p) == 1 and len(next(iter(p))) == 1 and p[next(iter(p))] == 1 else None
    e = s.defined(v, ir.Op) if isinstance(v, Var) else None
    if isinstance(e, ir.Op) and e.op == "to_i64" and isinstance(e.args[0].type, Prim) and e.args[0].type.is_integral:
        return e.args[0]
    return None


def _code(s: Solver, slots: _Slots) -> ir.Index | None:
    """The places as code; None where a variable is not known."""
    out: list[Atom | Range] = []
    for p in slots:
        if isinstance(p, Range):
            found = s.values([p.start, p.count, p.stride])
            if found is None:
                return None
            out.append(Range(*found))
            continue
        total: Atom = ZERO
        for variables, c in p.items():
            factors = s.values(variables)
            if factors is None:
                return None
            term: Atom = Const(I64, (c + (1 << 63)) % (1 << 64) - (1 << 63))
            for x in factors:
                term = x if is_const(term, 1) else s.b.op("mul", term, x)
            total = term if is_const(total, 0) else s.b.op("add", total, term)
        out.append(total)
    return tuple(out)


def poly_of(s: Solver, a: Atom) -> Poly:
    """An integer as a polynomial of variables of its type, modulo 2^bits."""
    if isinstance(a, Const):
        return constant(a.value)
    e = s.defined(a, ir.Op)
    if isinstance(e, ir.Op) and elem_of(a.type).is_integral and e.op in ("add", "sub", "mul"):
        x, y = poly_of(s, e.args[0]), poly_of(s, e.args[1])
        return times(x, y) if e.op == "mul" else plus(x, y, 1 if e.op == "add" else -1)
    assert isinstance(a, Var)
    return {(a,): 1}


def _index(s: Solver, index: ir.Index) -> ir.Index | None:
    out: list[Atom | Range] = []
    for i in index:
        found = s.values([i.start, i.count, i.stride] if isinstance(i, Range) else [i])
        if found is None:
            return None
        out.append(Range(*found) if isinstance(i, Range) else found[0])
    return tuple(out)


def _swap(s: Solver, stm: ir.Stm, r: Atom, index: ir.Index) -> bool:
    """`x` with x[j] at i and x[i] at j: the same again undoes it, be i and j one."""
    e = stm.exp
    assert isinstance(e, ir.Update)
    first = s.defined(_source(s, e.array), ir.Update)
    if not isinstance(first, ir.Update) or s.value(first.array) is not None:
        return False
    x = _source(s, first.array)
    old, new = s.defined(e.value, ir.At), s.defined(first.value, ir.At)
    if not isinstance(old, ir.At) or not isinstance(new, ir.At) or old.array is not x or new.array is not x:
        return False
    other = _index(s, first.index)
    fixed = not any(isinstance(i, Range) for i in (*e.index, *first.index))
    if other is None or not fixed or old.index != first.index or not SAME_PLACE(new.index == e.index):
        return False
    here, there = s.b.let(ir.At(r, index), "here"), s.b.let(ir.At(r, other), "there")
    if isinstance(here.type, ArrayType):
        here, there = s.b.let(ir.Copy(here), "here"), s.b.let(ir.Copy(there), "there")
    back = s.b.let(ir.Update(r, other, here), "swapped")
    s.learn(first.array, s.b.let(ir.Update(back, index, there), "swapped"))
    s.also(stm)
    return True


def _source(s: Solver, a: Atom) -> Atom:
    """The array that `a` is a copy of."""
    while True:
        e = s.defined(a, ir.Copy) or s.defined(a, ir.Alias)
        if e is None:
            return a
        (a,) = e.operands()


ROWS.update({ir.At: _at, ir.Update: _update})
