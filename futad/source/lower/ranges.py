"""How many elements ranges and slices have.

Numbers of elements are exact: no difference or sum wraps around, whatever the type of the ends and however far apart
they are.  What is narrower than 64 bits is counted in i64, and 64 bits in u64 where a distance may be too much for i64.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.node import Range
from futad.core.types import FALSE, I64, TRUE, U64, Atom, Const, Prim, i64
from futad.errors import Span
from futad.source import ast
from futad.source.lower.core import Lowerer, handles
from futad.source.lower.scope import Scope
from futad.source.lower.sizes import bind_sizes
from futad.source.lower.values import Arr, Frame, Leaf, Value

MOST = (1 << 63) - 1  # elements that an array can have, as far as its type is concerned


@handles(ast.ERange)
def lower_range(lw: Lowerer, e: ast.ERange, fr: Frame) -> Value:
    """`Iota` with the number of elements; what cannot be counted is an error at run time."""
    b = lw.b
    start = lw.scalar(e.start, fr)
    second = None if e.second is None else lw.scalar(e.second, fr)
    end = lw.scalar(e.end, fr)
    t = start.type
    assert isinstance(t, Prim)
    step: Atom = Const(t, -1 if e.kind == "..>" else 1) if second is None else b.scalar("sub", second, start)
    count, valid, fits = range_count(b, start, second, end, e.kind)
    span = lw.check_span(e.span)
    if span is not None:
        shown = tuple([x for x in (start, second, end) if x is not None])
        text = f"Range {{}}{'' if second is None else '..{}'}{e.kind}{{}}"
        for ok, why in ((valid, "is invalid"), (fits, "has more elements than an array can have")):
            if ok is not TRUE:
                b.emit(ir.Assert(ok, f"{text} {why}.", shown, span))
    v: Value = Arr((count,), Leaf(b.let(ir.Iota(count, start, step), "range")))
    if e.type is not None:
        bind_sizes(e.type, v, fr)
    return v


def range_count(b: Scope, start: Atom, second: Atom | None, end: Atom, kind: str) -> tuple[Atom, Atom, Atom]:
    """The number of elements (i64), whether the range is valid, and whether its elements are as many as i64 can count.

    Valid: the second number is not the first, it lies towards the end, and the first is not beyond the end.
    """
    t = start.type
    assert isinstance(t, Prim)
    if t.bits < 64:
        # Distances of narrow numbers are small in i64.
        return _count(b, b.convert(I64, start), second and b.convert(I64, second), b.convert(I64, end), kind, True)
    return _count(b, start, second, end, kind, False)


def _count(
    b: Scope, start: Atom, second: Atom | None, end: Atom, kind: str, narrow: bool
) -> tuple[Atom, Atom, Atom]:
    t = start.type
    assert isinstance(t, Prim)
    inclusive = kind == "..."
    step: int | None = -1 if kind == "..>" else 1
    if second is not None:
        step = int(second.value) - int(start.value) if type(start) is Const and type(second) is Const else None
    if step is not None:
        up = step > 0
        if step == 0 or (kind == "..<" and not up) or (kind == "..>" and up):
            return i64(0), FALSE, TRUE
        near, far = (start, end) if up else (end, start)
        valid = b.scalar("le", near, far)
        # From a number that is not negative no other is too far.
        near_by = narrow or t is I64 and type(near) is Const and near.value >= (inclusive and abs(step) == 1)
        if abs(step) == 1 or near_by:
            distance = b.convert(I64, b.scalar("sub", far, near))
            most = Const(U64, MOST - inclusive)
            fits: Atom = TRUE if near_by else b.scalar("le", b.convert(U64, distance), most)
            return _steps(b, distance, i64(abs(step)), inclusive), valid, fits
        magnitude: Atom = Const(U64, abs(step))
    else:
        assert second is not None
        down = b.scalar("lt", second, start)
        near, far = b.scalar("select", down, end, start), b.scalar("select", down, start, end)
        valid = b.scalar("and", b.scalar("ne", second, start), b.scalar("le", near, far))
        if kind != "...":
            valid = b.scalar("and", valid, down if kind == "..>" else b.scalar("not", down))
        low, high = b.scalar("select", down, second, start), b.scalar("select", down, start, second)
        if narrow:
            size = b.scalar("max", b.scalar("sub", high, low), i64(1))
            return _steps(b, b.scalar("sub", far, near), size, inclusive), valid, TRUE
        magnitude = b.scalar("max", b.convert(U64, b.scalar("sub", high, low)), Const(U64, 1))
    count = _steps(b, b.convert(U64, b.scalar("sub", far, near)), magnitude, inclusive)
    # Only where the step is 1 could there be 2^64 elements, which count as 0.
    fits = b.scalar("le", b.scalar("sub", count, Const(U64, 1)), Const(U64, MOST - 1))
    if not inclusive:
        fits = b.scalar("le", count, Const(U64, MOST))
    return b.convert(I64, count), valid, fits


def _steps(b: Scope, distance: Atom, step: Atom, inclusive: bool) -> Atom:
    """How many multiples of `step`, with 0, are less than `distance`, or at most that: i64 or u64, not negative."""
    t = distance.type
    assert isinstance(t, Prim)
    one = Const(t, 1)
    if step is one:
        return b.scalar("add", distance, one) if inclusive else distance
    whole = b.scalar("quot", distance, step)
    return b.scalar("add", whole, one if inclusive else b.scalar("min", b.scalar("rem", distance, step), one))


# --- slices ---------------------------------------------------------------------------------------------


Slot = tuple[Atom | None, Atom | None, Atom | None]


def resolve_slots(
    lw: Lowerer, dims: tuple[Atom, ...], slots: list[Atom | Slot], span: Span
) -> list[Atom | Range]:
    """The index of an array of such sizes, its slices checked for a sensible number of elements."""
    out: list[Atom | Range] = []
    for d, s in zip(dims, slots, strict=False):
        out.append(slice_range(lw, d, s, span) if isinstance(s, tuple) else s)
    return out


def slice_range(lw: Lowerer, width: Atom, slot: Slot, span: Span) -> Range:
    """`start:end:stride` of a dimension.  The indexing checks its ends, unless it is empty; here, its direction.

    As in Futhark a slice that runs the wrong way is empty if it is shorter than its stride, and an error otherwise.
    """
    b = lw.b
    start, end, stride = slot
    message = f"Index [{{}}:{{}}{'' if stride is None else ':{}'}] out of bounds for array of shape [{{}}]."
    shown = () if stride is None else (stride,)
    stride = i64(1) if stride is None else stride
    if type(stride) is Const:
        if stride.value == 0:
            b.emit(ir.Assert(FALSE, "slice with stride 0", (), span))
            return Range(i64(0), i64(0), i64(1))
        down: Atom = TRUE if stride.value < 0 else FALSE
    else:
        down = b.scalar("lt", stride, i64(0))
    first = start if start is not None else _choice(b, down, b.scalar("sub", width, i64(1)), i64(0))
    last = end if end is not None else _choice(b, down, i64(-1), width)
    low, high = _choice(b, down, last, first), _choice(b, down, first, last)
    ok = b.scalar("le", low, high)
    if type(stride) is Const and (abs(stride.value) == 1 or start is None and end is None):
        # Where the distance wraps around, one of the ends is outside of the array.
        count = _steps(b, b.scalar("sub", high, low), i64(abs(stride.value)), False)
    else:
        size = b.convert(U64, _choice(b, down, b.scalar("neg", stride), stride))
        size = b.scalar("max", size, Const(U64, 1))
        there = b.convert(I64, _steps(b, b.convert(U64, b.scalar("sub", high, low)), size, False))
        count = b.scalar("select", ok, there, i64(0))
        back = b.convert(U64, b.scalar("sub", low, high))
        short = b.scalar("lt", b.scalar("sub", back, b.scalar("quot", back, Const(U64, 2))), size)
        # Downwards the last element may be the array's first, but the end no further than beside it.
        inside = b.scalar("or", b.scalar("eq", count, i64(0)), b.scalar("le", i64(-1), last))
        ok = b.scalar("select", ok, _choice(b, down, inside, TRUE), short)
        if type(stride) is not Const:
            ok = b.scalar("and", b.scalar("ne", stride, i64(0)), ok)
    if (start is not None or end is not None or type(stride) is not Const) and not lw.unchecked:
        b.emit(ir.Assert(ok, message, (first, last, *shown, width), span))
    return Range(first, count, stride)


def _choice(b: Scope, cond: Atom, x: Atom, y: Atom) -> Atom:
    """`select`, decided where the condition is known."""
    return b.scalar("select", cond, x, y) if type(cond) is not Const else x if cond is TRUE else y
