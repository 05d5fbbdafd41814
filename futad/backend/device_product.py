"""Matrix products of kernels: the call of `futad_gemm` (kernels/gemm.cuh) and the functions that it is given.

A product reads the next tile of its operands while it multiplies the one at hand.  Of an operand that is computed the
loads come first and the arithmetic last: where the arithmetic follows its loads at once, the first element's waits for
memory before the second one's loads begin, and the product with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.backend.emit import c_type
from futad.core.types import F64, I64
from futad.flatten import kernel as kir
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.walk import has_load, refs
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.backend.device_emit import DeviceEmitter

LEGAL = Legality(
    "squares-by-products",
    "the matrix units make sums of squared differences of products",
    worth="the matrix units of an H100 do 67 Tflop/s of f64, its other units 34; not measured",
)
SQUARES = LEGAL.condition("squares are added", "what is added to the sum is another term")

MOST = 4  # values that a thread keeps of an element: its registers are dear


def emit_product(em: DeviceEmitter, s: kir.Tile) -> None:
    t = c_type(s.elem)
    narrow = all(map(em.indices.narrow, (*s.sizes, s.batches)))
    args = []
    made = t if s.folds is None else em.tuple([x.type for x in s.folds.neutral])
    for role, x in zip("abc", (s.a, s.b, s.c), strict=True):
        if isinstance(x, kir.Matrix):
            kind = f"futad_matrix<{t}, {x.inner}>"
            if role == "c":
                kind = f"futad_matrix_accumulate<{t}>" if s.accumulate else f"futad_matrix<{t}, 1>"
            args.append(f"{kind}{{{', '.join([x.pointer, *map(em.expr, x.steps)])}}}")
        elif role == "c":
            args.append(f"futad_consume({_functor(em, x, made, narrow)})")
        else:
            args.append(f"futad_compute<{t}, {x.inner}>({_operand(em, x, t, narrow)})")
    args += [em.expr(s.batches), em.expr(s.splits), *[em.expr(x) for x in s.sizes]]
    if s.folds is not None or s.sums is not None or s.step is not None:
        args.append("futad_no_folds()" if s.folds is None else _row_folds(em, s.folds, made, narrow))
        args.append("futad_no_sums()" if s.sums is None else f"futad_sum_to({_functor(em, s.sums, t, narrow)})")
    if s.step is not None:
        assert s.start is not None
        params = [f"{t} {p.name}" for p in s.step.params]
        start = em.expr(s.start)
        if s.elem is F64 and SQUARES(adds_squares(s.step)):  # the matrix units' type
            LEGAL.fired()
            args.append(f"futad_square_step<{t}>({start})")
        else:
            args.append(f"futad_step<{t}>({start}, {em.function(s.step, params, [], t, [s.elem])})")
    shape = ", ".join(map(str, s.shape))
    em.line(f"futad_gemm<{t}, {shape}>({', '.join(args)});")


def _functor(em: DeviceEmitter, f: kir.Functor, made: str, narrow: bool) -> str:
    """Emits a function, and returns its name; `made`: the type of what it returns, `narrow`: its indices are
    `futad_ix`."""
    name = em.fresh("futad_functor")
    indices = f.args if f.elem is None else f.args[:-1]
    words = [em.counter(a, narrow) for a in indices]
    if f.elem is not None:
        words.append(f"{c_type(f.elem)} {f.args[-1]}")
    em.line(f"auto {name} = [=]({', '.join(words)}) -> {made if f.values else 'void'} {{")
    em.nested([*f.body])
    if f.values:
        em.line(f"  return {em.packed(f.values, made) if len(f.values) > 1 else em.expr(f.values[0])};")
    em.line("};")
    return name


def _row_folds(em: DeviceEmitter, s: kir.RowFolds, t: str, narrow: bool) -> str:
    """What a product folds its rows by, of type `t`."""
    places, values = s.put.params[:3], s.put.params[3:]
    params = [*[em.counter(p.name, narrow) for p in places], f"{t} futad_value"]
    put = em.function(s.put, params, em.unpacked(values, "futad_value"), "void", [])
    return f"futad_fold_to<{int(s.commutes)}>({em.operator(s.operator, s.neutral, t)}, {put})"


def adds_squares(step: kir.Function) -> bool:
    """Whether a product's step is `sum + (x - y) * (x - y)`."""
    total, x, y = step.params
    decls = [s for s in step.body if isinstance(s, ir.Decl) and not s.mutable]
    made: dict[str, Expr] = {s.name: s.init for s in decls if s.init is not None}

    def is_difference(e: Expr) -> bool:
        match made.get(e.name, e) if isinstance(e, ir.Ref) else e:
            case ir.Scalar("sub", args):
                return args in ((x, y), (y, x))
        return False

    def is_square(e: Expr) -> bool:
        match made.get(e.name, e) if isinstance(e, ir.Ref) else e:
            case ir.Scalar("mul", (a, b)):
                return a == b and is_difference(a)
        return False

    match step.results:
        case [ir.Scalar("add", (a, b))]:
            return a == total and is_square(b) or b == total and is_square(a)
    return False


# --- operands that are computed ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Parts:
    """`read` declares `values`, by loads and what their places take; `rest` makes of these the operand's element."""

    read: list[ir.Decl]
    values: list[ir.Ref]
    rest: list[ir.Decl]


def loads_first(f: kir.Functor) -> Parts | None:
    """An operand in two parts, or None if it has to stay in one.

    Another element of the matrix is read where there is none, which must change nothing: arrays are deferred only if
    no statement of theirs has an effect or can fail (`fused_products.price`).  What indices make is made with the
    loads; indices themselves do not go from one part to the other, as some of them are emitted in fewer bits.
    """
    decls = [s for s in f.body if isinstance(s, ir.Decl) and s.init is not None and not s.mutable]
    if len(decls) != len(f.body):
        return None
    used = {s.name: refs(s.init) for s in decls if s.init is not None}
    early = {s.name for s in decls if s.init is not None and has_load(s.init)}
    for s in reversed(decls):
        if s.name in early:
            early |= used[s.name]
    early |= _of_indices(f, decls)
    deferred = {name for s in decls if s.name not in early for name in used[s.name]}.union(*map(refs, f.values))
    values = [ir.Ref(s.name, s.type) for s in decls if s.name in early and s.name in deferred]
    if not 0 < len(values) <= MOST or any(v.type is I64 for v in values) or deferred & {*f.args}:
        return None
    return Parts([s for s in decls if s.name in early], values, [s for s in decls if s.name not in early])


def _of_indices(f: kir.Functor, decls: list[ir.Decl]) -> set[str]:
    """What an operand makes of its indices without reading."""
    made, read = {*f.args}, set[str]()
    for s in decls:
        assert s.init is not None
        used = refs(s.init)
        if has_load(s.init) or used & read:
            read.add(s.name)
        elif used & made:
            made.add(s.name)
    return made - {*f.args}


def _operand(em: DeviceEmitter, f: kir.Functor, t: str, narrow: bool) -> str:
    """Emits the functions of a computed operand, and returns their names."""
    found = loads_first(f)
    if found is None:
        return _functor(em, f, t, narrow)
    read = em.tuple([v.type for v in found.values])
    fetch = _functor(em, kir.Functor(f.args, None, [*found.read], [*found.values], f.inner), read, narrow)
    make = em.fresh("futad_functor")
    em.line(f"auto {make} = [=]({read} futad_read) -> {t} {{")
    for text in em.unpacked(found.values, "futad_read"):
        em.line(f"  {text}")
    em.nested([*found.rest])
    em.line(f"  return {em.expr(f.values[0])};")
    em.line("};")
    return f"{fetch}, {make}"
