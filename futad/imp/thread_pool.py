"""The threads of a parallel nest, as code that is emitted names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core.types import I64, Prim
from futad.imp import ir
from futad.imp.ir import ZERO, Expr, Ref, compare
from futad.imp.views import Mem, Root, Value, View, dense_view

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

UNKNOWN_WIDTH = 16  # assumed for an inner loop whose width is not known outside


class ThreadPool:
    """The threads of one parallel nest: names, and the copies made for each."""

    def __init__(self, lo: Lowerer, steps: Expr, work: Expr, extra: Expr) -> None:
        self.lo, self.steps = lo, steps
        self.count = Ref(lo.name("threads"), I64)
        lo.emit(ir.Threads(self.count.name, steps, lo.let(work, "work"), lo.let(extra, "extra")))

    def run(self, body: list[ir.Stmt], names: Sequence[Ref], dynamic: bool) -> ir.Parallel:
        thread, start, end = [r.name for r in names]
        return ir.Parallel(self.count.name, thread, start, end, self.steps, body, dynamic)

    def names(self) -> tuple[Ref, Ref, Ref]:
        """Fresh names for the thread's number, and the start and end of its part."""
        lo = self.lo
        return Ref(lo.name("thread"), I64), Ref(lo.name("start"), I64), Ref(lo.name("end"), I64)

    def array(self, elem: Prim, pointer: bool) -> str:
        name = self.lo.name("part")
        self.lo.emit(ir.PerThread(name, elem, pointer))
        return name

    def publish(self, array: str, thread: Ref, v: Value) -> None:
        """Let others see this thread's value."""
        lo = self.lo
        if isinstance(v, View):
            if not v.dense or not isinstance(v.base, Mem) or any(r.stack for r in v.roots):
                v = lo.materialise(v, heap=True)
            assert isinstance(v.base, Mem)
            name = lo.name("p")
            lo.emit(ir.Pointer(name, v.elem, v.base.pointer, v.offset))
            lo.emit(ir.Publish(array, thread.name, name))
        else:
            assert isinstance(v, Expr)
            lo.emit(ir.Store(array, thread, v))

    def subscribe(self, array: str, thread: Expr, elem: Prim, shape: Sequence[Expr]) -> View:
        """The array that a thread published."""
        lo = self.lo
        name = lo.name("p")
        assert isinstance(thread, Ref)
        lo.emit(ir.Subscribe(name, elem, array, thread.name))
        return dense_view(Mem(name, elem, frozenset((Root(None, False, elem),))), shape)

    def private(self, target: View, thread: Ref, unit: Expr) -> View:
        """The target itself for the first thread, a copy filled with `unit` for the others."""
        lo = self.lo
        assert isinstance(target.base, Mem)
        name = lo.name("mine")
        lo.emit(ir.Pointer(name, target.elem, target.base.pointer, target.offset, mutable=True))
        with lo.block() as body:
            copy = lo.alloc(target.elem, target.shape, None, "copy", heap=True)
            assert isinstance(copy.base, Mem)
            lo.emit(ir.SetPointer(name, copy.base.pointer))
            with lo.loop(copy.count()) as (i, loop):
                loop.independent = True
                lo.emit(ir.Store(name, i, unit))
        lo.emit(ir.If(compare("!=", thread, ZERO), body, []))
        base = Mem(name, target.elem, frozenset((Root(None, True, target.elem),)))
        return View(base, ZERO, target.strides, target.shape, True)
