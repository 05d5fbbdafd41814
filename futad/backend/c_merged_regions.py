"""C for loops whose iterations are parallel nests: one region around all of the loop (`kernels/merged_regions.h`).

    for t < m: { nest: map over u, into v; exchange u and v }

is a function that each of several threads runs from the first iteration to the last.  What lies between the nests, such
as the exchange, all of them do, on variables of their own; of the nests they share out the parts, and wait for each
other after each.  So threads meet once in a nest, with no job to hand over: nests of a microsecond gain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from futad.backend import c_threads
from futad.core.types import I64
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Expr, Ref, add, compare, mul, num, sub
from futad.imp.walk import has_load, parts, refs, statements, substitute
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter

LEGAL = Legality("merged-regions", "the threads of a loop's nests run all of the loop, and meet after each nest")
ALIKE = LEGAL.condition("the same in each thread", "threads do again, or read too soon, what is done once for all")

HAD_ONCE = LEGAL.condition("memory had once", "an array is where another one was put meanwhile")

LONGEST = 1000  # statements of a loop


@dataclass(frozen=True, slots=True)
class MergedRegion:
    """A loop that runs so many `nests` with so much work, by what is known before it; the memory that is had before."""

    loop: ir.For
    nests: Expr
    work: Expr
    arrays: list[ir.Ensure]


def possible(em: CEmitter, loop: ir.For) -> MergedRegion | None:
    """The loop as one region; None if it has no nests, or not nests alone."""
    if not (em.multicore and em.merges) or em.merged or loop.step != 1 or loop.independent:
        return None
    parallel = [s for s in statements([loop]) if isinstance(s, ir.Parallel)]
    if not parallel or not all(s.dynamic for s in parallel):
        return None
    every = [s for s in statements([loop]) if not isinstance(s, ir.Report)]
    if len(every) > LONGEST or any(isinstance(s, ir.Invoke) and s.name in em.recursing for s in every):
        return None
    between = [*_between([loop])]
    arrays = [s for s in between if isinstance(s, ir.Ensure)]
    if not ALIKE(all(isinstance(s, ir.Ensure) or _alike(s) for s in between)) or not HAD_ONCE(_once(arrays, every)):
        return None
    known: dict[str, Expr] = {}
    found = _work(loop, known)
    if found is None:
        return None
    nests, work = found
    arrays = [_had(s, count=substitute(s.count, known)) for s in arrays]
    changing = {n for s in every for n in (*s.defines(), *s.assigns())}
    sizes: list[Expr] = [nests, work, *[s.count for s in arrays]]
    if any(refs(e) & changing for e in sizes):
        return None
    return MergedRegion(replace(loop, body=_without(loop.body)), nests, work, arrays)


def _once(arrays: Sequence[ir.Ensure], every: Sequence[ir.Stmt]) -> bool:
    """Whether nothing else in the loop has memory of these arrays' slots."""
    slots = Counter(s.slot for s in every if isinstance(s, ir.Ensure | ir.SlotRef))
    return all(isinstance(s.slot, int) and slots[s.slot] == 1 for s in arrays)


def _had(s: ir.Ensure, count: Expr) -> ir.Ensure:
    """What has the memory before the loop.  Where the pointer changes in an iteration it is another variable, as each
    iteration begins with the pointer as it was."""
    return replace(s, name=f"{s.name}_first" if s.mutable else s.name, count=count, mutable=False)


def _without(body: list[ir.Stmt]) -> list[ir.Stmt]:
    """The statements between nests, where the memory is had before."""
    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Ensure) and s.mutable:
            out.append(ir.Pointer(s.name, s.elem, _had(s, s.count).name, mutable=True))
        elif not isinstance(s, ir.Ensure):
            out.append(s if isinstance(s, ir.Parallel) else s.map_bodies(_without))
    return out


def _between(body: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    """The statements, those of nests apart."""
    for s in body:
        yield s
        if not isinstance(s, ir.Parallel):
            for inner in s.bodies():
                yield from _between(inner)


def _alike(s: ir.Stmt) -> bool:
    """Whether each thread may execute the statement for itself: it changes nothing but variables of the function, and
    reads nothing else."""
    if isinstance(s, ir.Parallel):
        return True
    kinds = ir.Decl | ir.Assign | ir.Accumulate | ir.Pointer | ir.SetPointer | ir.Swap | ir.Check | ir.Threads
    # Where there are reports there is one thread.
    return isinstance(s, ir.Report) or (isinstance(s, kinds | ir.Seq | ir.If | ir.For) and not has_load(s))


def _work(loop: ir.For, known: dict[str, Expr]) -> tuple[Expr, Expr] | None:
    """The nests of a loop, and their work; `known`: what variables are, to which those inside are added."""
    nests: Expr = ZERO
    work: Expr = ZERO
    for s in _in_sequence(loop.body):
        if isinstance(s, ir.Decl) and s.init is not None and not s.mutable:
            known[s.name] = substitute(s.init, known)
        elif isinstance(s, ir.Threads):
            nests, work = add(nests, num(1)), add(work, substitute(s.work, known))
        elif isinstance(s, ir.For):
            if (found := _work(s, known)) is None:
                return None
            nests, work = add(nests, found[0]), add(work, found[1])
        elif isinstance(s, ir.If) and any(isinstance(x, ir.Parallel) for x in statements([s])):
            return None
    count = ir.Scalar("max", (ZERO, sub(substitute(loop.bound, known), substitute(loop.start, known))), I64, I64)
    return mul(count, nests), mul(count, work)


def _in_sequence(body: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    for s in body:
        if isinstance(s, ir.Seq):
            yield from _in_sequence(s.body)
        else:
            yield s


def emit(em: CEmitter, merged: MergedRegion) -> None:
    """The loop's function, and here the call."""
    LEGAL.fired()
    loop = merged.loop
    name = f"futad_merged_{em.number_of_regions}"
    em.number_of_regions += 1
    inside = c_threads.declarations([loop])
    em.declared |= c_threads.declarations(merged.arrays)
    mentioned = {*loop.mentions()}
    used = [n for n in em.declared if n in mentioned and n not in inside]
    assigned = {n for s in statements([loop]) for n in s.assigns()}
    types = {n: em.declared[n] for n in used}
    # What only reports need has lines of its own, without which the code is the one that runs unchecked.
    needed = {n for s in statements([loop]) if not isinstance(s, ir.Report) for n in _own_names(s)}
    fields = {n: n if n in needed else f"futad_reported_{n}" for n in used}
    em.declarations += ["", f"struct {name} {{", "  struct futad_merged merged;"]
    em.declarations += [f"  {t}{fields[n]};" for n, t in types.items()]
    # Who comes late reads what they were.
    em.declarations += [f"  {t}{n}_after;" for n, t in types.items() if n in assigned]
    em.declarations += ["};", f"static void {name}(void *job, struct futad_context *ctx, int64_t worker);"]
    em.regions += _function(em, loop, name, types, fields, assigned)
    em.line("{")
    em.depth += 1
    em.line("static struct futad_speed speed;")
    em.line(f"const int64_t nests = {em.expr(merged.nests)}, work = {em.expr(merged.work)};")
    for s in merged.arrays:  # a loop without iterations needs none
        some = ir.Scalar("select", (compare("<", ZERO, Ref("nests", I64)), ONE, ZERO), I64, I64)
        em.ensure(replace(s, count=mul(some, s.count)))
    em.line("const int64_t most = futad_threads(ctx, INT64_MAX, work, 0);")
    em.line("const int64_t workers = futad_merged_workers(most, nests, work, &speed);")
    em.line(f"struct {name} region;")
    for n in used:
        em.line(f"region.{fields[n]} = {n};")
    em.line(f"futad_merged_run(&region.merged, {name}, ctx, most, workers, nests, work, &speed);")
    for n in used:
        if n in assigned:
            em.line(f"{n} = region.{n}_after;")
    em.line(f"if (FUTAD_UNLIKELY(futad_gather(ctx, workers))) goto {em.label};")
    em.depth -= 1
    em.line("}")


def _own_names(s: ir.Stmt) -> set[str]:
    """The names that a statement has itself, not those nested in it."""
    return {*s.names(), *[n for e in parts(s) for n in e.names()]}


def _function(
    em: CEmitter, loop: ir.For, name: str, types: Mapping[str, str], fields: Mapping[str, str], assigned: set[str]
) -> list[str]:
    outer = em.lines, em.depth, em.label, em.asks
    em.lines, em.depth, em.label, em.asks, em.merged = [], 1, "failed", False, True
    head = f"void {name}(void *job, struct futad_context *ctx, int64_t worker)"
    em.lines += ["", f"static __attribute__((noinline)) {head} {{"]
    em.line(f"struct {name} *const region = job;")
    em.line("struct futad_merged *const merged = &region->merged;")
    em.line("int64_t number = 0;")
    for n, t in types.items():
        em.line(f"{t}{'' if n in assigned else 'const '}{n} = region->{fields[n]};")
    em.plain_for(loop)
    if changed := [n for n in types if n in assigned]:
        em.line("if (!worker) {")
        for n in changed:
            em.line(f"  region->{n}_after = {n};")
        em.line("}")
    em.depth = 0
    em.line("failed: __attribute__((unused));")
    em.line("  if (FUTAD_UNLIKELY(ctx->error.code)) __atomic_store_n(&merged->failed, 1, __ATOMIC_RELEASE);")
    em.line("}")
    made = em.lines
    em.lines, em.depth, em.label, em.asks = outer
    em.merged = False
    return made


def emit_nest(em: CEmitter, s: ir.Parallel) -> None:
    """A nest, in a merged region's function."""
    unit = c_threads.LANES if c_threads.in_lanes(s.body) else 1
    em.line("{")
    em.depth += 1
    claim = f"futad_merged_nest(merged, number++, {em.expr(s.steps)}, {em.works[s.threads]}, {unit})"
    em.line(f"for (struct futad_claim claim = {claim}; futad_merged_next(merged, worker, &claim);) {{")
    em.depth += 1
    em.line(f"const int64_t {s.start} = claim.start, {s.end} = claim.end;")
    em.block(s.body)
    em.depth -= 1
    em.line("}")
    em.line("if (futad_merged_failed(merged)) goto failed;")
    em.depth -= 1
    em.line("}")


__all__ = ["emit", "emit_nest", "possible"]
