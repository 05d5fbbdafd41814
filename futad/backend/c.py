"""The C backends: `c` (one thread) and `multicore` (OpenMP).

The emitted source is one file.  Every entry becomes

    int64_t futad_entry_NAME(struct futad_context *ctx, void **args, struct futad_result *results)

where an argument points to a scalar or to an array's elements, and a result is a scalar's bits or an array's
address, the slot that owns it (-1: somebody else) and its shape.  The value is 0, or the code of the failure
described in `ctx->error`.  The context owns all temporary memory and is used by one call at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.backend.emit import Emitter, c_type
from futad.core import ir as core
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.lower import Lowerer
from futad.runtime.clib import MEMORY, CFunction, CLibrary, CPlace, Layout

_RUNTIME = r"""#include "prelude.h"
#include "gemm.h"

#if defined(__clang__)
#define FUTAD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define FUTAD_INDEPENDENT _Pragma("GCC ivdep")
#endif

struct futad_slot {
  void *data;
  int64_t bytes;
};

struct futad_result {
  void *data;
  int64_t slot;
  int64_t shape[FUTAD_MAX_RANK];
};

struct futad_context {
  struct futad_error error;
  int64_t values[4];
  int64_t allocations;
  struct futad_slot slots[FUTAD_SLOTS];
};

static __attribute__((noinline, cold, unused)) void futad_fail(struct futad_context *ctx, int64_t code, int64_t place,
                                                       int64_t a, int64_t b, int64_t c, int64_t d) {
  ctx->error = (struct futad_error){code, place, a, b};
  ctx->values[0] = a;
  ctx->values[1] = b;
  ctx->values[2] = c;
  ctx->values[3] = d;
}

FUTAD_INLINE int64_t futad_real_bits(double x) {
  int64_t r;
  memcpy(&r, &x, sizeof r);
  return r;
}

/* A product of sizes, INT64_MAX if it is too large. */
FUTAD_INLINE int64_t futad_size(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

static __attribute__((noinline, cold, unused)) void *futad_grow(struct futad_context *ctx, struct futad_slot *slot,
                                                        int64_t count, int64_t size) {
  int64_t bytes, wanted;
  if (count < 0 || __builtin_mul_overflow(count, size, &bytes) || bytes > INT64_MAX / 4) {
    futad_fail(ctx, FUTAD_MEMORY, -1, count < 0 ? count : INT64_MAX, size, 0, 0);
    return NULL;
  }
  wanted = slot->bytes ? bytes + bytes / 4 : bytes;
  wanted = (wanted + 127) / 64 * 64;
  free(slot->data);
  slot->data = aligned_alloc(64, (size_t)wanted);
  slot->bytes = slot->data ? wanted : 0;
  ctx->allocations++;
  if (!slot->data) futad_fail(ctx, FUTAD_MEMORY, -1, bytes, 1, 0, 0);
  return slot->data;
}

FUTAD_INLINE void *futad_ensure(struct futad_context *ctx, struct futad_slot *slot, int64_t count, int64_t size) {
  if (FUTAD_LIKELY((uint64_t)count <= (uint64_t)slot->bytes / (uint64_t)size && slot->data)) return slot->data;
  return futad_grow(ctx, slot, count, size);
}

FUTAD_INLINE void futad_copy(void *to, const void *from, int64_t bytes) {
  if (to != from) memcpy(to, from, (size_t)bytes);
}

struct futad_context *futad_new(void) { return calloc(1, sizeof(struct futad_context)); }

void futad_free(struct futad_context *ctx) {
  for (int64_t i = 0; i < FUTAD_SLOTS; i++) free(ctx->slots[i].data);
  free(ctx);
}

/* The caller takes over a slot's memory, to be given to futad_release. */
void *futad_take(struct futad_context *ctx, int64_t slot) {
  void *data = ctx->slots[slot].data;
  ctx->slots[slot].data = NULL;
  ctx->slots[slot].bytes = 0;
  return data;
}

void futad_release(void *data) { free(data); }

/* Bytes held in slots, and how often one has grown. */
int64_t futad_memory(struct futad_context *ctx) {
  int64_t sum = 0;
  for (int64_t i = 0; i < FUTAD_SLOTS; i++) sum += ctx->slots[i].bytes;
  return sum;
}

int64_t futad_allocations(struct futad_context *ctx) { return ctx->allocations; }
"""


class CEmitter(Emitter):
    """C for one or several threads."""

    def __init__(self, module: ir.Module, multicore: bool) -> None:
        super().__init__()
        self.module = module
        self.multicore = multicore
        self.label = "failed"

    def text(self) -> str:
        """The whole source file."""
        rank = max([len(r.shape) for f in self.module.functions for r in f.results] + [1])
        self.line(f"#define FUTAD_SLOTS {max(1, self.module.slots)}")
        self.line(f"#define FUTAD_MAX_RANK {rank}")
        self.lines += _RUNTIME.splitlines()
        for f in self.module.functions:
            self.function(f)
        return "\n".join(self.lines) + "\n"

    def function(self, f: ir.Function) -> None:
        self.line("")
        self.line(
            f"int64_t futad_entry_{c_name(f.name)}(struct futad_context *ctx, void **args, struct futad_result *results) {{"
        )
        self.depth = 1
        self.line("ctx->error.code = FUTAD_OK;")
        for i, p in enumerate(f.params):
            t = c_type(p.type)
            if p.rank:
                self.line(f"{t} *const {p.name} = args[{i}];")
            else:
                self.line(f"const {t} {p.name} = *({t} *)args[{i}];")
        self.block(f.body)
        for i, r in enumerate(f.results):
            if r.value is not None:
                self.line(f"{{ {c_type(r.type)} value = {self.expr(r.value)}; memcpy(&results[{i}].data, &value, sizeof value); }}")
                continue
            self.line(f"results[{i}].data = {self.address(r.pointer, r.offset)};")
            self.line(f"results[{i}].slot = {-1 if r.slot is None else r.slot};")
            for d, n in enumerate(r.shape):
                self.line(f"results[{i}].shape[{d}] = {self.expr(n)};")
        self.line("return FUTAD_OK;")
        self.depth = 0
        self.line("failed: __attribute__((unused));")
        self.line("  return ctx->error.code;")
        self.line("}")

    # -- memory and failure

    def slot(self, s: str | int) -> str:
        return s if isinstance(s, str) else f"&ctx->slots[{s}]"

    def slot_ref(self, s: ir.SlotRef) -> None:
        self.line(f"struct futad_slot *{s.name} = {self.slot(s.slot)};")

    def ensure(self, s: ir.Ensure) -> None:
        t = c_type(s.elem)
        const = "" if s.mutable else "const "
        self.line(f"{t} *{const}{s.name} = futad_ensure(ctx, {self.slot(s.slot)}, {self.size(s.count)}, sizeof({t}));")
        self.line(f"if (FUTAD_UNLIKELY(!{s.name})) goto {self.label};")

    def size(self, e: Expr) -> str:
        if isinstance(e, ir.Bin) and e.op == "*":
            return f"futad_size({self.size(e.left)}, {self.size(e.right)})"
        return self.expr(e)

    def check(self, s: ir.Check) -> None:
        values = [self.bits(v) for v in s.values[:4]]
        values += ["0"] * (4 - len(values))
        self.line(f"if (FUTAD_UNLIKELY(!{self.expr(s.cond)})) {{")
        self.line(f"  futad_fail(ctx, {s.code}, {s.place}, {', '.join(values)});")
        self.line(f"  goto {self.label};")
        self.line("}")

    def gemm(self, s: ir.Gemm) -> None:
        args = [self.expr(n) for n in s.sizes]
        for pointer, offset, rows, columns in (s.a, s.b, s.c):
            args += [self.address(pointer, offset), self.expr(rows), self.expr(columns)]
        function = f"futad_gemm_{'parallel_' if s.parallel else ''}{s.elem.name}"
        self.line(f"if (FUTAD_UNLIKELY({function}({', '.join(args)}, 0))) {{")
        self.line(f"  futad_fail(ctx, FUTAD_MEMORY, {s.place}, {self.expr(s.sizes[2])}, 256, 0, 0);")
        self.line(f"  goto {self.label};")
        self.line("}")

    def bits(self, v: Expr) -> str:
        return f"futad_real_bits((double){self.expr(v)})" if v.type.is_float else f"(int64_t){self.expr(v)}"

    # -- loops

    def for_(self, s: ir.For) -> None:
        if s.independent:
            groups: dict[str, list[str]] = {}
            for p in s.partials:
                groups.setdefault(_OMP[p.op], []).append(p.name)
            if groups:
                clauses = " ".join(f"reduction({op}:{','.join(names)})" for op, names in groups.items())
                self.line(f"#pragma omp simd {clauses}")
            else:
                self.line("FUTAD_INDEPENDENT")
        super().for_(s)


_OMP = {"add": "+", "mul": "*", "min": "min", "max": "max", "and": "&", "or": "|", "xor": "^"}


def c_name(name: str) -> str:
    """An entry's name in C."""
    return "".join(c if c.isalnum() and c.isascii() else f"_{ord(c):x}_" if c != "_" else "_" for c in name)


class CBackend:
    """A program compiled to C.

    `multicore` distributes work over OpenMP threads; `reassociate` lets sums of floats be taken in vector lanes.
    """

    def __init__(self, program: core.Program, multicore: bool = False, reassociate: bool = True) -> None:
        self.program = program
        self.multicore = multicore
        lowerer = Lowerer(program, parallel=multicore, reassociate=reassociate)
        self.module = lowerer.module()
        self._source: str | None = None
        self._compiled: CLibrary | None = None

    @property
    def source(self) -> str:
        """The C text; it includes `prelude.h`."""
        if self._source is None:
            self._source = CEmitter(self.module, self.multicore).text()
        return self._source

    @property
    def library(self) -> Any:
        """The shared library (compiled on first use)."""
        return self.compiled.lib

    @property
    def compiled(self) -> CLibrary:
        """The library ready to be called (compiled on first use)."""
        if self._compiled is None:
            from futad.runtime.cc import build_library

            self._compiled = CLibrary(build_library(self.source, openmp=self.multicore), self.layout())
        return self._compiled

    def layout(self) -> Layout:
        """How the entries are called."""
        functions = {
            f.name: CFunction(
                f"futad_entry_{c_name(f.name)}",
                tuple([(p.name, p.type, p.rank) for p in f.params]),
                tuple([(r.type, 0 if r.value is not None else len(r.shape)) for r in f.results]),
            )
            for f in self.module.functions
        }
        places = tuple([CPlace(p.span, p.message, p.types) for p in self.module.places])
        rank = max([r for f in functions.values() for _, r in f.results] + [1])
        return Layout(functions, places, rank)

    def memory(self) -> tuple[int, int]:
        """Bytes of temporary memory held, and how many times it has grown."""
        return self.compiled.memory()

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Run an entry on all of its core parameters (see docs/architecture.md, Backends).

        Raises BoundsError, AssertionError_, MemoryError_ or RuntimeError_ with the source place.
        """
        return self.compiled.run(name, args)


__all__ = ["CBackend", "CEmitter"]
