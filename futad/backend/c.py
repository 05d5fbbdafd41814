"""The C backends: `c` (one thread) and `multicore` (OpenMP).

The emitted source is one file.  Every entry becomes

    int64_t futad_entry_NAME(struct futad_context *ctx, void **args, struct futad_result *results)

where an argument points to a scalar or to an array's elements, and a result is a scalar's bits or an array's
address, the slot that owns it (-1: somebody else) and its shape.  The value is 0, or the code of the failure
described in `ctx->error`.  The context owns all temporary memory and is used by one call at a time.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from futad.backend.emit import Emitter, c_type
from futad.core import ir as core
from futad.core.types import ArrayType, Prim
from futad.errors import AssertionError_, BoundsError, InternalError, MemoryError_, RuntimeError_, UsageError
from futad.imp import ir
from futad.imp.ir import Expr, Num
from futad.imp.lower import ASSERT, BOUNDS, DIVISION, MEMORY, Lowerer

_RUNTIME = r"""#include "prelude.h"

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


class _Result(ctypes.Structure):
    """`struct futad_result`; the shape follows."""

    _fields_ = [("data", ctypes.c_int64), ("slot", ctypes.c_int64)]


COPY_LIMIT = 1 << 16  # bytes; smaller results are copied into NumPy's memory, larger ones change owner


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
        self._lib: Any = None
        self._context: Any = None
        self._lock = threading.Lock()
        self._functions = {f.name: f for f in self.module.functions}

    @property
    def source(self) -> str:
        """The C text; it includes `prelude.h`."""
        if self._source is None:
            self._source = CEmitter(self.module, self.multicore).text()
        return self._source

    @property
    def library(self) -> Any:
        """The compiled library (compiled on first use)."""
        if self._lib is None:
            from futad.runtime.cc import build_library

            lib = build_library(self.source, openmp=self.multicore)
            lib.futad_new.restype = ctypes.c_void_p
            lib.futad_take.restype = ctypes.c_void_p
            lib.futad_take.argtypes = [ctypes.c_void_p, ctypes.c_int64]
            lib.futad_free.argtypes = [ctypes.c_void_p]
            lib.futad_release.argtypes = [ctypes.c_void_p]
            for f in ("futad_memory", "futad_allocations"):
                getattr(lib, f).argtypes = [ctypes.c_void_p]
                getattr(lib, f).restype = ctypes.c_int64
            for name in self._functions:
                f = getattr(lib, f"futad_entry_{c_name(name)}")
                f.restype = ctypes.c_int64
                f.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
            self._context = lib.futad_new()
            if not self._context:
                raise MemoryError_("out of memory")
            self._finalizer = weakref.finalize(self, lib.futad_free, self._context)
            self._lib = lib
        return self._lib

    def memory(self) -> tuple[int, int]:
        """Bytes of temporary memory held, and how many times it has grown."""
        lib = self.library
        return lib.futad_memory(self._context), lib.futad_allocations(self._context)

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Run an entry on all of its core parameters (see docs/architecture.md, Backends).

        Raises BoundsError, AssertionError_, MemoryError_ or RuntimeError_ with the source place.
        """
        if name not in self._functions:
            raise UsageError(f"no entry is called '{name}'; there are: {', '.join(self._functions)}")
        f = self._functions[name]
        lib = self.library
        keep: list[np.ndarray[Any, Any]] = []
        for p, a in zip(f.params, args, strict=True):
            x = np.ascontiguousarray(a, dtype=p.type.dtype) if p.rank else np.array(a, dtype=p.type.dtype)
            if x.ndim != p.rank:
                raise InternalError(f"argument '{p.name}' has rank {x.ndim}, not {p.rank}")
            keep.append(x)
        pointers = (ctypes.c_void_p * max(1, len(keep)))(*[x.ctypes.data for x in keep])
        rank = max([len(r.shape) for g in self.module.functions for r in g.results] + [1])
        stride = 2 + rank
        raw = np.zeros(max(1, len(f.results)) * stride, np.int64)
        with self._lock:
            code = getattr(lib, f"futad_entry_{c_name(name)}")(
                self._context, ctypes.addressof(pointers), raw.ctypes.data
            )
            if code:
                raise self._failure()
            return [self._result(r, raw[i * stride : (i + 1) * stride]) for i, r in enumerate(f.results)]

    def _result(self, r: ir.Result, raw: np.ndarray[Any, Any]) -> Any:
        dtype = r.type.dtype
        if r.value is not None:
            return raw[:1].view(dtype)[0]
        shape = tuple(int(n) for n in raw[2 : 2 + len(r.shape)])
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        slot = int(raw[1])
        if count == 0:
            return np.empty(shape, dtype)
        # A slot taken by an earlier result of this call is empty; its memory stays valid while that result lives.
        address = int(raw[0])
        buffer = (ctypes.c_char * count).from_address(address)
        if count > COPY_LIMIT and slot >= 0 and self._lib.futad_take(self._context, slot) == address:
            weakref.finalize(buffer, self._lib.futad_release, address)
            return np.frombuffer(buffer, dtype).reshape(shape)
        return np.frombuffer(buffer, dtype).reshape(shape).copy()

    def _failure(self) -> Exception:
        words = (ctypes.c_int64 * 8).from_address(self._context)
        code, index, a, b = words[0], words[1], words[2], words[3]
        place = self.module.places[index] if index >= 0 else ir.Place(None)
        if code == BOUNDS:
            return BoundsError(f"index {a} is out of bounds for an array of size {b}", place.span)
        if code == DIVISION:
            return RuntimeError_("division by zero", place.span)
        if code == MEMORY:
            if a < 0:
                return MemoryError_(f"an array of negative size ({a}) is needed")
            if a == (1 << 63) - 1:
                return MemoryError_("an array is needed whose size exceeds the address space")
            return MemoryError_(f"out of memory: {a * b} bytes are needed for an array")
        assert code == ASSERT
        return AssertionError_(_fill(place, list(words[4:8])), place.span)


def _fill(place: ir.Place, words: list[int]) -> str:
    """An assertion's message with its values in place of the {}s."""
    text = place.message
    for t, w in zip(place.types, words, strict=False):
        if t.is_float:
            value: Any = np.array(w, np.int64).view(np.float64)[()]
        elif t.is_bool:
            value = "true" if w else "false"
        else:
            value = int(np.array(w, np.int64).astype(t.dtype))
        text = text.replace("{}", str(value), 1)
    return text


__all__ = ["ArrayType", "CBackend", "Num", "Prim"]
