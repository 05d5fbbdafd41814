"""Lowering of outermost nests to several threads.

Note [Parallel nests]
~~~~~~~~~~~~~~~~~~~~~
The width is cut into one contiguous part a thread.  Each thread has its own slots, so the sequential lowering of a
nest serves as the body unchanged.  What iterations share becomes one copy a thread:

- a reduction starts at its neutral element in every thread; the partial results are then combined in order, so
  for a given number of threads the answer is always the same;
- a scan is done part by part; then every part is combined with the total of those before it;
- an accumulator, and the target of a histogram, is the real one for the first thread and a copy filled with units
  for the others, added up afterwards; except accumulators that each iteration updates at places of its own
  (`accs/injective_updates.py`), which all threads share.

Without any of these nothing depends on the parts, and threads that are done with theirs help with the others'
(`backend/c_threads.py`).

Small work, and accumulators so large that the copies would cost more than the work, take one thread.

Copies of large arrays are shared out too, as are the additions of threads' copies of an accumulator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from futad.accs.injective_updates import SMALL, own_places, positions
from futad.core import ir as core
from futad.core.scalarops import OPS
from futad.core.types import I64, AccType, ArrayType, Atom, Const, Prim, Var
from futad.imp import ir
from futad.imp.elements import put, step
from futad.imp.ir import ONE, ZERO, Expr, Num, add, compare, mul, num, product, sub
from futad.imp.rows import by_rows, left_to
from futad.imp.thread_pool import UNKNOWN_WIDTH, ThreadPool
from futad.imp.transpose import transpose, transposition
from futad.imp.units import unit_of
from futad.imp.views import Acc, Fill, Mem, Value, View, dense_view
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.imp.carried import Carried
    from futad.imp.lower import Lowerer
    from futad.imp.soacs import SoacLoop

FEW_ROWS = 8  # of a copied matrix, that are not shared out
BLOCK = (64, 4096)  # of a matrix to be transposed: rows and columns of the result
RECURSION = 1 << 10  # operations that a recursive call is taken for
SMALLEST_WORK = 1 << 15  # scalar operations below which a nest of constant size is not worth a thread


def cost(lo: Lowerer, lam: core.Lambda) -> Expr:
    """About how many scalar operations one run of `lam` takes."""
    fixed = 1
    total: Expr = ZERO
    for stm in lam.stms:
        e = stm.exp
        if isinstance(e, core.Op):
            fixed += OPS[e.op].cost
        elif isinstance(e, core.If):
            total = add(total, cost(lo, e.then))
        elif inner := e.lambdas():
            width: Expr = ONE
            if isinstance(e, core.For):
                width = _known(lo, e.bound)
            elif isinstance(e, core.While):
                width = num(UNKNOWN_WIDTH)
            elif hasattr(e, "width"):
                width = _known(lo, e.width)
            body: Expr = ZERO
            for f in inner:
                body = add(body, cost(lo, f))
            total = add(total, mul(width, body))
        elif isinstance(e, core.Call):
            recurses = e.name in lo.recursive
            total = add(total, num(RECURSION) if recurses else cost(lo, lo.program.funs[e.name].body))
        elif isinstance(e, core.MatMul):
            assert isinstance(e.a.type, ArrayType)
            total = add(total, mul(_elements(lo, stm.pat), _known(lo, e.a.type.shape[1])))
        else:
            fixed += 1
            written: Sequence[Atom] = ()
            if isinstance(e, (core.Copy, core.Concat, core.Replicate)):
                written = stm.pat
            elif isinstance(e, (core.Update, core.UpdateAcc)):
                written = (e.value,)
            total = add(total, _elements(lo, written))
    return add(num(fixed), total)


def _elements(lo: Lowerer, atoms: Sequence[Atom]) -> Expr:
    """How many elements the arrays among them have."""
    total: Expr = ZERO
    for a in atoms:
        if isinstance(a.type, ArrayType):
            total = add(total, product([_known(lo, n) for n in a.type.shape]))
    return total


def _known(lo: Lowerer, a: Atom) -> Expr:
    if isinstance(a, Const):
        return num(int(a.value))
    v = lo.env.get(a)
    return v if isinstance(v, Expr) and v.type is I64 else num(UNKNOWN_WIDTH)


LEGAL = Legality("parallel-nests", "the iterations of a nest are shared out to threads")
ANY_PART = LEGAL.condition("parts in any order", "a thread folds parts that do not follow each other, or each anew")
DENSE = LEGAL.condition("accumulators dense", "copies of the accumulator are added up as if they were")
OWN_PLACES = LEGAL.condition("places of its own", "two threads add to one element at once")


def heavy(lo: Lowerer, width: Expr, work: Expr) -> bool:
    """Whether so many steps of so much work in all may be worth several threads."""
    return not (isinstance(width, Num) and width.value <= 1) and not (
        isinstance(work, Num) and work.value < SMALLEST_WORK
    )


def nest(n: SoacLoop) -> list[Value] | None:
    """Lower a nest for several threads; None if that is not possible or certainly not worth it."""
    lo, deferred = n.lo, left_to(n)
    accs = [v for v in n.inputs if isinstance(v, Acc)]
    if not DENSE(all(a.view.dense for a in accs)):
        return None
    if any(isinstance(x.type, Prim) is False for f in n.exp.scans for x in f.neutral):
        return None
    per_step = add(cost(lo, n.lam), _elements(lo, n.lam.result)) if n.lam is not None else ONE
    for f in n.exp.folds:
        per_step = add(per_step, cost(lo, f.lam))
    for p in deferred.values():
        per_step = add(per_step, mul(p.a.shape[1], p.b.shape[1]))
    work = mul(n.width, per_step)
    if not heavy(lo, n.width, work):
        return None
    extra: Expr = ZERO
    shared = _shared_accs(n)
    for k, a in enumerate(accs):
        if k in shared:
            work = _unless_large(lo, shared[k], work)
        else:
            extra = add(extra, a.view.count())
    LEGAL.fired()
    pool = ThreadPool(lo, n.width, work, extra)
    neutrals = [x for f in n.exp.folds for x in f.neutral]
    parts = [pool.array(_elem(x), not isinstance(x.type, Prim)) for x in neutrals]
    copied = [a for k, a in enumerate(accs) if k not in shared]
    copies = [pool.array(a.view.elem, True) for a in copied]
    thread, start, end = names = pool.names()
    lo.in_parallel = True
    with lo.block() as body:
        inputs: list[Value] = []
        own: list[View] = []
        for v in n.inputs:
            if isinstance(v, Acc) and v in copied:
                assert not v.fills, "what one thread fills no other one updates"
                mine = pool.private(v.view, thread, unit_of(_op(v), v.view.elem))
                own.append(mine)
                inputs.append(Acc(mine, v.op))
            else:
                inputs.append(v)
        folds = n.open_folds((), guard=True)
        if not by_rows(n, inputs, folds, start, end):
            n.loop(inputs, folds, start, end)
        values = [v for c in folds for v in c.finish()]
        for array, v in zip(parts, values, strict=True):
            pool.publish(array, thread, v)
        for array, mine in zip(copies, own, strict=True):
            pool.publish(array, thread, mine)
    lo.in_parallel = False
    lo.emit(pool.run(body, names, dynamic=ANY_PART(not neutrals and not copied) and not deferred))
    for array, a in zip(copies, copied, strict=True):
        _add_up(pool, array, a)
    folds = _combine(pool, n, parts)
    return n.results(folds)


def _shared_accs(n: SoacLoop) -> dict[int, list[Var]]:
    """The accumulators that each iteration updates at places of its own, so that threads need no copies of them: by
    number, with the variables that must be small for this."""
    if n.lam is None:
        return {}
    counters = positions(n.lam.params, n.arrays, n.lo.defs)
    params = [p for p in n.lam.params if isinstance(p.type, AccType)]
    found = {k: own_places(n.lam, p, counters, n.size, n.lo.defs) for k, p in enumerate(params)}
    return {k: small or [] for k, small in found.items() if OWN_PLACES(small is not None)}


def _unless_large(lo: Lowerer, small: Sequence[Var], work: Expr) -> Expr:
    """The work, or none (which one thread does) if some of the variables are large."""
    for v in small:
        x = lo.expr(v)
        inside = compare("&&", compare("<", num(-SMALL), x), compare("<", x, num(SMALL)))
        work = ir.Scalar("select", (inside, work, ZERO), I64, I64)
    return work


def _elem(a: Atom) -> Prim:
    return a.type if isinstance(a.type, Prim) else a.type.elem


def _op(a: Acc) -> str:
    return "or" if a.view.elem.is_bool and a.op == "add" else a.op


def _add_up(pool: ThreadPool, array: str, acc: Acc) -> None:
    """Add the copies of the other threads to the accumulator, each thread in a part of it."""
    lo, view = pool.lo, acc.view
    assert isinstance(view.base, Mem)
    count = lo.let(view.count(), "n")
    adders = ThreadPool(lo, count, mul(count, sub(pool.count, ONE)), ZERO)
    _, start, end = names = adders.names()
    lo.in_parallel = True
    with lo.block() as body:
        # A variable of the thread's own: the C compiler does not vectorise what goes through shared ones.
        total = lo.name("total")
        lo.emit(ir.Pointer(total, view.elem, view.base.pointer, view.offset))
        with lo.loop(pool.count, "t", ONE) as (t, _):
            copy = pool.subscribe(array, t, view.elem, (count,))
            with lo.loop(count, "i", start, end) as (i, loop):
                loop.independent = True
                lo.emit(ir.Store(total, i, copy.load((i,)), _op(acc)))
    lo.in_parallel = False
    lo.emit(adders.run(body, names, dynamic=False))


def _combine(pool: ThreadPool, n: SoacLoop, parts: list[str]) -> list[Carried]:
    """Fold the threads' results in order; scans are then completed with what comes before each part."""
    lo = pool.lo
    folds = n.open_folds(n.destinations, guard=True)
    if not folds:
        return []
    prefixes = [pool.array(_elem(x), False) for f in n.exp.scans for x in f.neutral]
    at = 0
    # Where there are no elements no operator runs: it may fail.
    some = ir.Scalar("select", (compare("<", ZERO, n.width), pool.count, ZERO), I64, I64)
    count = pool.count if isinstance(n.width, Num) else lo.let(some, "parts")
    for k, (carried, f) in enumerate(zip(folds, n.exp.folds, strict=True)):
        width = len(f)
        with lo.loop(count, "t") as (t, _):
            values: list[Value] = []
            for array, x in zip(parts[at:], f.neutral, strict=False):
                if isinstance(x.type, Prim):
                    values.append(lo.let(ir.Load(array, t, x.type), "v"))
                else:
                    values.append(pool.subscribe(array, t, _elem(x), lo.shape(x.type)))
            if k < len(n.exp.scans):
                for array, p in zip(prefixes[at:], f.lam.params[:width], strict=False):
                    lo.emit(ir.Store(array, t, lo.expr(p)))
            carried.commit(step(lo, f.lam, carried, values))
        at += width
    if n.exp.scans:
        _complete(pool, n, prefixes)
    return folds


def _complete(pool: ThreadPool, n: SoacLoop, prefixes: list[str]) -> None:
    """Second pass of scans: combine each element with what comes before its part."""
    lo = pool.lo
    names = pool.names()
    thread, start, end = names
    lo.in_parallel = True
    with lo.block() as body:
        pairs = zip(prefixes, _scan_outs(n), strict=True)
        firsts = [lo.let(ir.Load(array, thread, o.elem), "before") for array, o in pairs]
        with lo.loop(n.width, "i", start, end) as (i, loop):
            at = 0
            for f in n.exp.scans:
                k = len(f)
                outs = _scan_outs(n)[at : at + k]
                here = [lo.let(o.load((i,)), "x") for o in outs]
                for p, x in zip(f.lam.params, [*firsts[at : at + k], *here], strict=True):
                    lo.bind(p, x)
                for o, v in zip(outs, lo.scope(f.lam, repeats=True), strict=True):
                    assert isinstance(v, Expr)
                    lo.store(o, (i,), v)
                at += k
        loop.independent = all(isinstance(s, (ir.Decl, ir.Store)) for s in loop.body)
    lo.in_parallel = False
    lo.emit(ir.If(compare("<", ONE, pool.count), [pool.run(body, names, False)], []))


def _scan_outs(n: SoacLoop) -> list[View]:
    return [o for o in n.outs[n.n_accs : n.first_red] if o is not None]


def histogram(
    lo: Lowerer, e: core.Hist, targets: list[View], emit_loop: Callable[[list[View], Expr, Expr], None]
) -> bool:
    """Lower a histogram of scalars for several threads; False if it is not possible or not worth it.

    `emit_loop(targets, start, end)` emits the sequential loop over a part.
    """
    if not all(isinstance(x.type, Prim) for x in e.neutral) or not all(t.dense for t in targets):
        return False
    width = lo.let(lo.expr(e.width), "n")
    work = mul(width, add(num(4), cost(lo, e.lam)))
    if not heavy(lo, width, work):
        return False
    extra: Expr = ZERO
    for v in targets:
        extra = add(extra, v.count())
    pool = ThreadPool(lo, width, work, extra)
    shared = [pool.array(v.elem, True) for v in targets]
    thread, start, end = names = pool.names()
    lo.in_parallel = True
    with lo.block() as body:
        own = [pool.private(v, thread, lo.expr(x)) for v, x in zip(targets, e.neutral, strict=True)]
        emit_loop(own, start, end)
        for array, mine in zip(shared, own, strict=True):
            pool.publish(array, thread, mine)
    lo.in_parallel = False
    lo.emit(pool.run(body, names, False))
    k = len(targets)
    flat = [dense_view(lo.changing(v).base, (v.count(),), v.offset) for v in targets]
    with lo.loop(pool.count, "t", ONE) as (t, _):
        copies = [pool.subscribe(a, t, v.elem, v.shape) for a, v in zip(shared, flat, strict=True)]
        with lo.loop(flat[0].shape[0]) as (i, _loop):
            for p, v in zip(e.lam.params, [*flat, *copies], strict=True):
                lo.bind(p, lo.let(v.load((i,)), p.name))
            for v, x in zip(flat, lo.scope(e.lam, [None] * k, repeats=True), strict=True):
                put(lo, v, i, x)
    return True


def copy(lo: Lowerer, dst: View, src: View) -> bool:
    """Copy on several threads; False if it is certainly not worth it."""
    count = dst.count()
    if not heavy(lo, count, count):
        return False
    permuted = transposition(dst, src, range(dst.rank)) if lo.target.transposes else None
    if permuted is not None and dst.rank == 2:
        _blocks(lo, dst, src, permuted)
        return True
    if dst.rank > 1 and dst.dense and ((src.dense and isinstance(src.base, Mem)) or isinstance(src.base, Fill)):
        count = lo.let(count, "n")
        dst = dense_view(dst.base, (count,), dst.offset)
        src = dense_view(src.base, (count,), src.offset)
    d = 1 if dst.rank > 1 and isinstance(dst.shape[0], Num) and dst.shape[0].value < FEW_ROWS else 0
    pool = ThreadPool(lo, lo.let(dst.shape[d], "n"), count, ZERO)
    names = pool.names()
    lo.in_parallel = True
    with lo.block() as body:
        lo.copy_here(*[_part(lo, v, d, *names[1:]) for v in (dst, src)])
    lo.in_parallel = False
    lo.emit(pool.run(body, names, dynamic=True))
    return True


def _blocks(lo: Lowerer, dst: View, src: View, dims: Sequence[int]) -> None:
    """A transposition, in blocks that have whole tiles however narrow the matrix is."""
    sizes = [lo.let(dst.shape[d], "n") for d in dims]
    across = [
        lo.let(ir.Bin("/", add(n, num(b - 1)), num(b)), "blocks") for n, b in zip(sizes, BLOCK, strict=True)
    ]
    pool = ThreadPool(lo, lo.let(mul(*across), "steps"), mul(*sizes), ZERO)
    names = pool.names()
    with lo.block() as body, lo.loop(pool.steps, "block", *names[1:]) as (step, _):
        row = lo.let(ir.Bin("/", step, across[1]), "row")
        starts = [
            lo.let(mul(at, num(b)), "at") for at, b in zip((row, sub(step, mul(row, across[1]))), BLOCK, strict=True)
        ]
        parts: list[View] = []
        for v in (dst, src):
            shape, offset = list(v.shape), v.offset
            for d, n, b, at in zip(dims, sizes, BLOCK, starts, strict=True):
                shape[d] = ir.Scalar("min", (num(b), sub(n, at)), I64, I64)
                offset = add(offset, mul(at, v.strides[d]))
            parts.append(View(v.base, offset, v.strides, tuple(shape), False, v.injective))
        lo.emit(transpose(parts[0], parts[1], dims, [ZERO, ZERO]))
    lo.emit(pool.run(body, names, dynamic=True))


def _part(lo: Lowerer, v: View, d: int, start: Expr, end: Expr) -> View:
    """From `start` to before `end` of dimension d."""
    shape = (*v.shape[:d], lo.let(sub(end, start), "n"), *v.shape[d + 1 :])
    return View(v.base, add(v.offset, mul(start, v.strides[d])), v.strides, shape, v.dense and d == 0, v.injective)
