"""C for checked execution of memory (docs/checking.md): each access to an array goes by its element's entry
(`kernels/check_memory.h`).

The text is that of the C backends with arrays in memory that has entries (`kernels/check_arena.h`), loads and stores
that look them up, bulk operations that examine and mark whole arrays, and the claims of `imp/watch.py`.  Loops stay as
they are lowered: one iteration after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from futad.backend.c_emit import CEmitter
from futad.backend.c_runtime import RUNTIME, THREADS
from futad.backend.emit import Emitter, c_type
from futad.core.types import I64, Prim
from futad.imp import ir
from futad.imp.claims import Claim, EnsureFor, Iteration, KeptApart, Now, Receive
from futad.imp.contraction import Contract
from futad.imp.ir import Expr, mul
from futad.imp.records import Field, Release

# What of the runtime is different: memory comes from the spaces, and a context knows the time.
CHANGES = [
    ("slot->data = futad_alloc(&wanted);", "slot->data = futad_block(&wanted, size);"),
    ("if (to && kept) memcpy(to, data, (size_t)(kept * size));",
     "if (to && kept) memcpy(to, data, (size_t)(kept * size)), futad_moved(to, data, kept, size);"),
    ("if (to) memcpy(to, data, (size_t)(kept * size));",
     "if (to) memcpy(to, data, (size_t)(kept * size)), futad_moved(to, data, kept, size);"),
    ("  struct futad_slot slots[FUTAD_SLOTS];\n",
     "  struct futad_slot slots[FUTAD_SLOTS];\n  struct futad_watch watch;\n"),
    ("  futad_records_free(ctx->slots[FUTAD_RECORDS_SLOT].data);\n",
     "  futad_records_free(ctx->slots[FUTAD_RECORDS_SLOT].data);\n"
     "  ctx->slots[FUTAD_RECORDS_SLOT].data = NULL;\n"),
    ('#include "prelude.h"\n', '#include "prelude.h"\n#include "check_arena.h"\n'),
    ("FUTAD_INLINE int64_t futad_real_bits", '#include "check_memory.h"\n\nFUTAD_INLINE int64_t futad_real_bits'),
]  # fmt: skip

# Threads begin with the time of the one that they help; it goes on from the latest of theirs.
THREAD_CHANGES = [
    ("    ctx->threads[i]->inside = true;\n",
     "    ctx->threads[i]->inside = true;\n    ctx->threads[i]->watch.clock = ctx->watch.clock;\n"),
    ("  j->body(job, i ? j->ctx->threads[i] : j->ctx, i);\n",
     "  futad_stopped(j, i ? j->ctx->threads[i] : j->ctx, i);\n"),
    ("static void futad_job_chunk(",
     "static void futad_stopped(struct futad_job *j, struct futad_context *ctx, int64_t i) {\n"
     "  jmp_buf outer;\n"
     "  memcpy(outer, ctx->watch.stop, sizeof outer);\n"
     "  ctx->watch.nest = ctx->watch.clock + FUTAD_MOMENT;\n"
     "  if (!setjmp(ctx->watch.stop)) j->body(j, ctx, i);\n"
     "  ctx->watch.nest = FUTAD_ALONE;\n"
     "  memcpy(ctx->watch.stop, outer, sizeof outer);\n"
     "}\n\n"
     "static void futad_job_chunk("),
    ("  if (ctx->error.code) return ctx->error.code;\n  for (int64_t i = 1; i < n; i++)\n",
     "  for (int64_t i = 1; i < n; i++)\n"
     "    if (ctx->threads[i]->watch.clock > ctx->watch.clock) ctx->watch.clock = ctx->threads[i]->watch.clock;\n"
     "  ctx->watch.clock = futad_together_again(ctx->watch.clock);\n"
     "  if (ctx->error.code) return ctx->error.code;\n  for (int64_t i = 1; i < n; i++)\n"),
    ("      memcpy(ctx->values, ctx->threads[i]->values, sizeof ctx->values);\n",
     "      memcpy(ctx->values, ctx->threads[i]->values, sizeof ctx->values);\n"
     "      ctx->watch.finding = ctx->threads[i]->watch.finding;\n"),
    # All nests are in pieces; threads are woken for those that are worth it, as races are found whoever does a piece.
    ("  const int64_t ns = futad_expected(work, speed);\n",
     "  const int64_t ns = futad_pool_expected((double)work, FUTAD_SPEED, speed);\n  chosen = false;\n"),
]  # fmt: skip


def changed(text: str, changes: list[tuple[str, str]]) -> str:
    """The text with each piece, which is in it once, replaced."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class CheckedEmitter(CEmitter):
    """C for checked execution."""

    interrupts = False
    records_header = "check_records.h"
    merges = False  # races are looked for in each nest

    def __init__(self, module: ir.Module, multicore: bool, grain: int) -> None:
        super().__init__(module, multicore, grain)
        self.handlers[Receive] = self.receive
        self.handlers[Iteration] = lambda s: self.line(f"futad_iteration(ctx, {s.loop}, {self.expr(s.number)});")
        self.handlers[Claim] = self.claim
        self.handlers[EnsureFor] = self.ensure
        self.handlers[KeptApart] = self.keep_apart
        self.handlers[Release] = self.release
        self.plain: set[str] = set()  # arrays that are not in the spaces

    def runtime(self) -> tuple[str, str]:
        text = changed(RUNTIME, CHANGES)
        return re.sub(r"(?<!\w)free\((?!ctx\))", "futad_drop(", text), changed(THREADS, THREAD_CHANGES)

    def body(self, f: ir.Function) -> None:
        if f.local:
            super().body(f)
            return
        # A finding comes back here; what is done is in a function of its own, which the compiler can then optimise.
        self.line("if (setjmp(ctx->watch.stop)) goto failed;")
        self.line("ctx->watch.nest = FUTAD_ALONE;")
        self.line("futad_now(ctx);")  # no time is 0, as entries of no array are
        super().body(f)

    def piece(self) -> None:
        self.line("futad_piece(ctx);")

    # -- accesses

    def expr(self, e: Expr) -> str:
        if isinstance(e, Now):
            return "futad_now(ctx)"
        if isinstance(e, ir.Load) and e.pointer not in self.plain:
            limit, reader = (e.origin.limit, e.origin.binding) if e.origin is not None else ("FUTAD_ANY", 0)
            return f"futad_read_{e.type.name}(ctx, &{e.pointer}[{self.index(e.index)}], {limit}, {reader})"
        return super().expr(e)

    def store(self, s: ir.Store) -> None:
        if s.pointer in self.plain:
            super().store(s)
            return
        t, at = s.value.type, "(*at)"
        if s.op is None and isinstance(s.value, ir.Load) and s.value.pointer not in self.plain:
            self.move(s, s.value)
            return
        self.line("{")
        self.depth += 1
        self.line(f"{c_type(t)} *const at = &{s.pointer}[{self.index(s.index)}];")
        value = self.expr(s.value)
        if s.op is not None:
            self.line(f"futad_changed(ctx, at, {size_class(t)}, {s.by});")
        if s.op is None:
            self.line(f"{at} = {value};")
        elif s.op == "add" and t.is_float:
            self.line(f"{at} += {value};")
        else:
            self.line(f"{at} = {self.operation(s.op, [at, value], t, t)};")
        if s.op is None:
            self.line(f"futad_wrote(ctx, at, {size_class(t)}, {s.by});")
        self.depth -= 1
        self.line("}")

    def move(self, s: ir.Store, x: ir.Load) -> None:
        """What is stored was only loaded: a copy of an element, which is no use of its value."""
        places = f"&{s.pointer}[{self.index(s.index)}], &{x.pointer}[{self.index(x.index)}]"
        limit, reader = (x.origin.limit, x.origin.binding) if x.origin is not None else ("FUTAD_ANY", s.by)
        self.line(f"futad_move_{x.type.name}(ctx, {places}, {limit}, {reader}, {s.by});")

    def block(self, body: list[ir.Stmt]) -> None:
        Emitter.block(self, body)

    def for_(self, s: ir.For) -> None:
        Emitter.for_(self, s)

    def per_thread(self, s: ir.PerThread) -> None:
        self.plain.add(s.name)
        super().per_thread(s)

    # -- memory

    def ensure(self, s: ir.Ensure) -> None:
        super().ensure(s)
        if isinstance(s, EnsureFor):
            self.line(f"if ((void *){s.name} != (void *)({self.address(s.source, s.offset)}))")
        self.line(f"futad_begin({s.name}, {s.name}, 0, {self.size(s.count)}, {size_class(s.elem)}, {s.by});")

    def append(self, s: ir.Append) -> None:
        source = self.address(s.source, s.offset)
        super().append(s)
        self.line(f"if ({s.name} != {source})")
        self.line(f"  futad_moved_by(ctx, {s.name}, {self.size(s.kept)}, {size_class(s.elem)}, {s.by});")
        args = f"{self.size(s.kept)}, {self.size(s.count)}, {size_class(s.elem)}, {s.by}"
        self.line(f"futad_begin({s.name}, {s.slot}->data, {args});")

    def receive(self, s: Receive) -> None:
        t, count = c_type(s.elem), self.size(s.count)
        self.line(f"{t} *const {s.name} = futad_ensure(ctx, {self.slot(s.slot)}, {count}, sizeof({t}));")
        self.line(f"if (FUTAD_UNLIKELY(!{s.name})) goto {self.label};")
        self.line(f"futad_begin({s.name}, {s.name}, 0, {count}, {size_class(s.elem)}, {s.by});")
        self.line(f"memcpy({s.name}, {s.source}, {count} * sizeof({t}));")
        self.mark(s.name, ir.ZERO, (s.count,), (ir.ONE,), s.elem, s.by)

    # -- records

    def keep_apart(self, s: KeptApart) -> None:
        counts = f"(const int64_t[]){{{', '.join(map(self.size, s.counts)) or '0'}}}"
        classes = f"(const int64_t[]){{{', '.join(str(size_class(t)) for t in s.elems) or '0'}}}"
        self.line(f"const int64_t {s.name} = futad_record(ctx, {len(s.elems)}, {counts}, {classes}, {s.by});")
        self.line(f"if (FUTAD_UNLIKELY(!{s.name})) goto {self.label};")

    def field(self, s: Field) -> None:
        t = c_type(s.elem)
        self.line(f"{t} *const {s.name} = futad_record_value(ctx, {self.expr(s.record)}, {s.number}, {s.by});")

    def release(self, s: Release) -> None:
        self.line(f"futad_record_over(ctx, {self.expr(s.record)}, {s.by});")

    # -- bulk operations

    def copy(self, s: ir.Copy) -> None:
        super().copy(s)
        args = f"{self.address(s.target, s.offset)}, {self.address(s.source, s.source_offset)}"
        self.line(f"futad_copied(ctx, {args}, {size_class(s.elem)}, {self.expr(s.count)}, {s.by});")

    def transpose(self, s: ir.Transpose) -> None:
        i, j = s.sizes
        self.examine(s.source, s.source_offset, (j, i), (s.source_stride, ir.ONE), s.elem, s.by)
        super().transpose(s)
        self.mark(s.target, s.offset, (i, j), (s.stride, ir.ONE), s.elem, s.by)

    def gemm(self, s: ir.Gemm) -> None:
        m, n, k = s.sizes
        for (pointer, offset, *strides), sizes in ((s.a, (m, k)), (s.b, (k, n))):
            self.examine(pointer, offset, sizes, strides, s.elem, s.by)
        pointer, offset, *strides = s.c
        if s.accumulate:
            self.examine(pointer, offset, (m, n), strides, s.elem, s.by)
        super().gemm(s)
        self.mark(pointer, offset, (m, n), strides, s.elem, s.by)

    def contract(self, s: Contract) -> None:
        for (pointer, offset, strides), whole in zip((s.a, s.b), s.whole, strict=True):
            if whole is not None:
                self.examine(pointer, *whole, s.elem, s.by)
                continue
            moving = [(n, step) for n, step in zip(s.sizes, strides, strict=True) if step != ir.ZERO]
            empty = [n for n, step in zip(s.sizes, strides, strict=True) if step == ir.ZERO]
            sizes = [n for n, _ in moving]
            for n in empty[: len(sizes) * len(empty)]:  # nothing is read without iterations
                sizes[0] = mul(sizes[0], ir.Scalar("min", (ir.ONE, n), I64, I64))
            self.examine(pointer, offset, sizes, [step for _, step in moving], s.elem, s.by)
        super().contract(s)
        pointer, offset, strides = s.c
        self.mark(pointer, offset, s.sizes[: s.outs], strides, s.elem, s.by)

    def pack(self, s: ir.Pack) -> None:
        super().pack(s)
        k = s.sizes[0]
        self.mark(s.name, mul(s.start, k), (mul(ir.sub(s.end, s.start), k),), (ir.ONE,), s.elem, s.by)

    def examine(
        self, pointer: str, offset: Expr, sizes: Sequence[Expr], strides: Sequence[Expr], elem: Prim, by: int
    ) -> None:
        """All elements have been written."""
        place = f"{self.address(pointer, offset)}, {size_class(elem)}, {self.extent(sizes, strides)}"
        self.line(f"futad_examine(ctx, {place}, 1, FUTAD_ANY, FUTAD_READ, {by});")

    def mark(
        self, pointer: str, offset: Expr, sizes: Sequence[Expr], strides: Sequence[Expr], elem: Prim, by: int
    ) -> None:
        """All elements are written."""
        place = f"{self.address(pointer, offset)}, {size_class(elem)}, {self.extent(sizes, strides)}"
        self.line(f"futad_mark(ctx, {place}, {by});")

    def extent(self, sizes: Sequence[Expr], strides: Sequence[Expr]) -> str:
        """Arguments: the rank, sizes and strides."""
        return f"{len(sizes)}, {self.numbers(sizes)}, {self.numbers(strides)}"

    # -- claims

    def claim(self, s: Claim) -> None:
        a, k = s.array, size_class(s.array.elem)
        place = f"{self.address(a.pointer, a.offset)}, {k}, {self.extent(a.shape, a.strides)}"
        reader = s.origin.binding if s.origin is not None else s.about
        made = f"futad_examine(ctx, {place}, {s.since}, FUTAD_ANY, FUTAD_MADE, {s.about});"
        match s.kind:
            case "read":
                assert s.origin is not None
                self.line(f"futad_examine(ctx, {place}, 1, {s.origin.limit}, FUTAD_READ, {reader});")
            case "copied":
                assert s.origin is not None
                self.line(f"futad_examine_copied(ctx, {place}, {s.origin.limit}, FUTAD_ANY, {reader});")
            case "made":
                self.line(made)
            case "mine":
                self.line(f"futad_mark(ctx, {place}, {s.about});")
            case "own":
                self.line(f"futad_examine_own(ctx, {place}, {s.about});")
            case "holds" | "stays":
                assert s.other is not None
                o = s.other
                here = f"{self.address(a.pointer, a.offset)}, {self.numbers(a.strides)}"
                there = f"{self.address(o.pointer, o.offset)}, {self.numbers(o.strides)}"
                same = f"futad_same({here}, {there}, {len(a.shape)}, {self.numbers(a.shape)})"
                if s.kind == "stays":
                    self.line(f"if (!{same}) {made}")
                else:
                    assert s.origin is not None
                    self.line(f"if (!{same}) {made}")
                    self.line(f"else futad_examine_copied(ctx, {place}, {s.origin.limit}, {s.since}, {reader});")


def size_class(t: Prim) -> int:
    """The space that elements of the type are in: the logarithm of their size."""
    return (t.bits // 8).bit_length() - 1


__all__ = ["CheckedEmitter"]
