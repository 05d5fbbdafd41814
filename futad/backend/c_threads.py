"""C for parallel regions: each is a function of its own, called by a thread pool (`kernels/thread_pool.h`).

A region gets the values of the variables around it in a structure, and keeps them in constants of its own: what threads
share the C compiler would have to read again and again.

Where nothing depends on the parts, each is done in pieces, and whoever has done his own helps with the others': a
thread that the machine interrupts holds up no more than a piece, and yet the next region finds in its cache what it
wrote in this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.backend.emit import c_type
from futad.core.types import REC
from futad.imp import ir, records
from futad.imp.claims import Receive
from futad.imp.walk import statements

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter

SHORT_BODY = 250  # statements a map, of a region that is emitted for one thread as well
LANES = 32  # steps that a loop may take at a time: no part is shorter unless it has to be


def emit(em: CEmitter, s: ir.Parallel) -> None:
    """The region's function, and here the call."""
    name = f"futad_region_{em.number_of_regions}"
    em.number_of_regions += 1
    captured = captures(s, em.declared)
    members = ["struct futad_job job", *[f"{t}{variable}" for variable, t in captured.items()]]
    values = [f"{{{name}, ctx, 0}}", *captured]
    if s.dynamic:
        members += ["struct futad_taken *taken", "int64_t pieces"]
        values += ["taken", "pieces"]
    em.declarations += ["", f"struct {name} {{", *[f"  {f};" for f in members], "};", f"static {_head(s, name)};"]
    em.regions += _region(em, s, name, captured)
    n, work = s.threads, em.works[s.threads]
    opened = 1
    em.line("{")
    em.depth += 1
    em.line("static struct futad_speed speed;")
    if s.dynamic:
        opened += 1
        em.line(f"const int64_t parts = {n};")
        em.line("{")
        em.depth += 1
        em.line(f"const int64_t {n} = futad_together(parts, {work}, &speed);")
    # The body once more for one thread, where the call costs as much as some ten operations; but compiling it twice
    # costs time.
    if len([*statements(s.body)]) <= SHORT_BODY * s.maps:
        opened += 1
        em.line(f"if (FUTAD_LIKELY({n} == 1)) {{")
        em.depth += 1
        em.line(f"const int64_t {s.thread} = 0, {s.start} = 0, {s.end} = {em.expr(s.steps)};")
        if s.dynamic:
            em.line("const bool watched = futad_watched(parts, &speed);")
            em.line("const int64_t began = watched ? futad_pool_clock() : 0;")
        em.block(s.body)
        if s.dynamic:
            em.line(f"if (watched) futad_took(futad_pool_clock() - began, {work}, &speed);")
        em.depth -= 1
        em.line("} else {")
        em.depth += 1
    if s.dynamic:
        em.line("struct futad_taken taken[FUTAD_POOL_MOST];")
        em.line(f"const int64_t pieces = futad_divide(taken, {n}, {work}, &speed);")
    em.line(f"struct {name} region = {{{', '.join(values)}}};")
    em.line(f"futad_parallel(&region.job, {n}, {str(s.dynamic).lower()}, {work}, &speed);")
    em.line(f"if (FUTAD_UNLIKELY(futad_gather(ctx, {n}))) goto {em.label};")
    for _ in range(opened):
        em.depth -= 1
        em.line("}")


def _head(s: ir.Parallel, name: str) -> str:
    return f"void {name}(void *job, struct futad_context *ctx, int64_t {s.thread})"


def _region(em: CEmitter, s: ir.Parallel, name: str, captured: dict[str, str]) -> list[str]:
    """The function."""
    outer = em.lines, em.depth, em.label, em.asks
    em.lines, em.depth, em.label = [], 0, "failed"
    em.asks = deep = any(isinstance(x, ir.Invoke) and x.name in em.recursing for x in statements(s.body))
    em.line("")
    em.line(f"static __attribute__((noinline)) {_head(s, name + '_on' if deep else name)} {{")
    em.depth = 1
    em.line(f"struct {name} *const region = job;")
    for variable, t in captured.items():
        em.line(f"{t}const {variable} = region->{variable};")
    n, steps = s.threads, em.expr(s.steps)
    if s.dynamic:
        unit = LANES if in_lanes(s.body) else 1
        em.line("struct futad_taken *const taken = region->taken;")
        em.line("const int64_t pieces = region->pieces;")
        em.line(f"const int64_t iterations = pieces > {n} ? {n} : 1;")
        em.line(f"const int64_t chunk = futad_chunk({steps}, pieces, {unit});")
        em.line("for (int64_t iteration = 0; iteration < iterations; iteration++) {")
        em.line(f"  const int64_t part = ({s.thread} + iteration) % {n};")
        em.line(f"  const int64_t first = futad_part({steps}, part, {n}, {LANES});")
        em.line(f"  const int64_t last = futad_part({steps}, part + 1, {n}, {LANES});")
        em.line("  for (int64_t at = 0;;) {")
        em.depth += 2
        em.line("if (iterations > 1) at = __atomic_fetch_add(&taken[part].steps, chunk, __ATOMIC_RELAXED);")
        em.line(f"const int64_t {s.start} = first + at;")
        em.line(f"if ({s.start} >= last) break;")
        em.line(f"const int64_t {s.end} = iterations > 1 && {s.start} + chunk < last ? {s.start} + chunk : last;")
        em.piece()
        em.block(s.body)
        em.line("if (iterations == 1) break;")
        em.depth -= 2
        em.line("  }")
        em.line("}")
    else:
        em.line(f"const int64_t {s.start} = futad_part({steps}, {s.thread}, {n}, {LANES});")
        em.line(f"const int64_t {s.end} = futad_part({steps}, {s.thread} + 1, {n}, {LANES});")
        em.piece()
        em.block(s.body)
    em.depth = 0
    em.line("failed: __attribute__((unused));")
    em.line("}")
    if deep:
        em.line("")
        em.line(f"static __attribute__((noinline)) {_head(s, name)} {{")
        em.line(f"  struct futad_piece piece = {{{name}_on, job, ctx, {s.thread}}};")
        em.line("  futad_on_stack(ctx, futad_do_piece, &piece);")
        em.line("}")
    made = em.lines
    em.lines, em.depth, em.label, em.asks = outer
    return made


def in_lanes(body: Sequence[ir.Stmt]) -> bool:
    """Whether the steps are taken some at a time."""
    return any(
        isinstance(s, ir.Blocks | ir.VectorisedFor | ir.While)
        or (isinstance(s, ir.For) and (s.independent or s.step > 1))
        or (isinstance(s, ir.If) and in_lanes(s.then))
        for s in body
    )


def captures(s: ir.Parallel, declared: dict[str, str]) -> dict[str, str]:
    """The variables of the function around a region that it uses, and their types."""
    inside = declarations(s.body)
    own = {s.thread, s.start, s.end}
    used = [name for name in dict.fromkeys(s.mentions()) if name in declared]
    return {name: declared[name] for name in used if name not in inside and name not in own}


def declared_in(f: ir.Function) -> dict[str, str]:
    """The types, as captured variables have them, of a function's variables: its own and all of its statements'."""
    out = {p.name: c_type(p.type) + (" *" if p.rank else " ") for p in f.params}
    out |= {r.slot: "struct futad_slot *" for r in f.results if r.slot}
    return out | declarations(f.body)


def declarations(body: Sequence[ir.Stmt]) -> dict[str, str]:
    """The types of the variables that statements declare, nested ones included."""
    out: dict[str, str] = {}
    for s in statements(body):
        match s:
            case ir.Decl(name, t):
                out[name] = f"{c_type(t)} "
            case records.Keep(name):
                out[name] = f"{c_type(REC)} "
            case records.Field() | ir.Pointer() | ir.Stack() | ir.Ensure() | ir.Append() | ir.Subscribe() | Receive():
                out[s.name] = f"{c_type(s.elem)} *"
            case ir.SlotRef(name):
                out[name] = "struct futad_slot *"
            case ir.Threads(name):
                out[name] = "int64_t "
            case ir.PerThread(name, elem, pointer):
                out[name] = f"{c_type(elem)} *{'*' if pointer else ''}"
            case ir.For(var):
                out[var] = "int64_t "
            case ir.Parallel(_, thread, start, end):
                out |= dict.fromkeys((thread, start, end), "int64_t ")
    return out
