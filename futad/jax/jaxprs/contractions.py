"""The rule of products: dot_general over any batch and contraction dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import BOOL, Atom, Prim, shape_of, zero
from futad.jax.jaxprs.lifted import Value, nest, permuted, pointwise, whole
from futad.jax.jaxprs.table import Site, full_precision, rule

Labels = tuple[int, ...]
Operand = tuple[Value, Labels]


def _operations(elem: Prim) -> tuple[str, str]:
    """What products and sums are of these elements."""
    return ("and", "or") if elem is BOOL else ("mul", "add")


def contracted(b: Builder, x: Value, xs: Labels, y: Value, ys: Labels, out: Labels, summed: Labels, elem: Prim) -> Atom:
    """The sum over the labels `summed` of products of x and y, whose axes have these labels, for all of `out`, of which
    each is a label of x or y where that does not repeat.  Integer factors of bools count."""

    times, plus = _operations(elem)

    def ordered(v: Value, labels: Labels) -> tuple[Atom, Labels]:
        own = [labels[d] for d in v.axes]
        order = [k for k in (*out, *summed) if k in own]
        return permuted(b, v.atom, [own.index(k) for k in order]), tuple(order)

    def total(c: Builder, operands: Sequence[tuple[Atom, Labels]], left: Labels) -> Atom:
        if not left:
            p, q = [c.convert(elem, a) for a, _ in operands]
            return c.op(times, p, q)
        here = [i for i, (_, own) in enumerate(operands) if own and own[0] == left[0]]

        def body(d: Builder, *rows: Atom) -> Atom:
            there = dict(zip(here, rows, strict=True))
            inner = [(there[i], own[1:]) if i in there else (a, own) for i, (a, own) in enumerate(operands)]
            return total(d, inner, left[1:])

        terms = c.zip_with(body, *[operands[i][0] for i in here])
        lam = c.lambda_([("x", elem), ("y", elem)], lambda d, p, q: [d.op(plus, p, q)])
        return c.emit(ir.Reduce(shape_of(terms.type)[0], (terms,), lam, (zero(elem),), True))[0]

    operands = [ordered(x, xs), ordered(y, ys)]
    owned = [own for _, own in operands]

    def element(c: Builder, p: Atom, q: Atom) -> list[Atom]:
        rest = [tuple([k for k in own if k in summed]) for own in owned]
        return [total(c, list(zip((p, q), rest, strict=True)), summed)]

    outer = [(a, tuple([k for k in own if k in out])) for a, own in operands]
    return nest(b, element, outer, out)[0]


def _what_is_there(v: Value, labels: Sequence[int]) -> Operand:
    """What there is of an operand, with the labels of that."""
    return whole(v.atom), tuple([labels[d] for d in v.axes])


def _product(b: Builder, x: Operand, y: Operand, out: Labels, summed: Labels, elem: Prim) -> Atom:
    """As `contracted`.  Where it is one matrix product, operands are matrices: axes that lie side by side in one of
    them, and in the result, are one."""
    alone = [{k for k in own if k in out} for _, own in (x, y)]
    if not summed or not all(alone) or alone[0] & alone[1]:
        return contracted(b, *x, *y, out, summed, elem)
    sizes = {k: size for v, own in (x, y) for k, size in zip(own, v.shape, strict=True)}
    first = {k: k for k in out}  # of the axes that become one
    operands = []
    for v, own in (x, y):
        for before, k in itertools.pairwise(own):
            if before in out and k == before + 1 and k in out:
                first[k] = first[before]
        kept = tuple([k for k in own if first.get(k, k) == k])
        shape = tuple([b.size_mul([sizes[j] for j in own if first.get(j, j) == k]) for k in kept])
        operands.append((v if kept == own else whole(b.let(ir.Reshape(v.atom, shape))), kept))
    left = tuple([k for k in out if first[k] == k])
    made = contracted(b, *operands[0], *operands[1], left, summed, elem)
    return made if left == out else b.let(ir.Reshape(made, tuple([sizes[k] for k in out])))


@rule("dot_general", reads="dimension_numbers", result="preferred_element_type", hints="out_sharding",
      only={"precision": full_precision})  # fmt: skip
def _dot_general(s: Site, x: Value, y: Value) -> Value:
    (cx, cy), (bx, by) = s.params["dimension_numbers"]
    elem, shape = s.elem(), s.shape()
    # Labels: the result's axes first, then what is summed over.
    xs, ys = [-1] * x.rank, [-1] * y.rank
    label = 0
    for p, q in zip(bx, by, strict=True):
        xs[p] = ys[q] = label
        label += 1
    for labels, used in ((xs, (*cx, *bx)), (ys, (*cy, *by))):
        for d in range(len(labels)):
            if d not in used:
                labels[d] = label
                label += 1
    sums = []
    for p, q in zip(cx, cy, strict=True):
        xs[p] = ys[q] = label
        sums.append((label, p, q))
        label += 1
    own = {xs[d] for d in x.axes} | {ys[d] for d in y.axes}
    out = tuple([k for k in range(len(shape)) if k in own])
    summed = tuple([k for k, _, _ in sums if k in own])
    atom = _product(s.b, _what_is_there(x, xs), _what_is_there(y, ys), out, summed, elem)
    made = Value(atom, out, shape)
    if repeated := [x.shape[p] for k, p, _ in sums if k not in own]:
        times = s.b.convert(elem, s.b.size_mul(repeated))
        made = pointwise(s.b, lambda c, e: [c.op(_operations(elem)[0], e, times)], [made], shape)[0]
    return made
