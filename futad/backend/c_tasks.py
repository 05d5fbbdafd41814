"""C for tasks that may run at once: the second of two is a function of its own, which whoever is free may call.

It gets the values of the variables around it in a structure that lies in the frame of the function that forks, and
leaves its results there (`kernels/tasks.h`).  For its accumulators see Note [Accumulators of tasks] in `imp/tasks.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.backend.c_threads import declarations
from futad.backend.emit import c_type
from futad.imp.ir import product
from futad.imp.tasks import Fork, Own, Reach
from futad.imp.walk import statements

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter


def emit(em: CEmitter, s: Fork) -> None:
    """The second task's function; here the fork, the first task, and the join."""
    number = em.number_of_tasks
    em.number_of_tasks += 1
    name = f"futad_task_{number}"
    inside = declarations(s.second)
    mentioned = [n for x in (*s.second, *s.added) for n in x.mentions()]
    around = [n for n in dict.fromkeys(mentioned) if n in em.declared]
    assigned = {n for x in statements(s.second) for n in x.assigns()}
    results = [n for n in around if n not in inside and n in assigned]
    captured = [n for n in around if n not in inside and n not in assigned]
    home = "struct futad_slot *home;" if em.home else ""
    members = ["struct futad_task task;", home, *[f"{em.declared[n]}{n};" for n in (*captured, *results)]]
    members += [f"bool apart_{a.pointer};" for a in s.added]
    head = f"static __attribute__((noinline)) void {name}(struct futad_task *task, struct futad_context *ctx)"
    em.declarations += ["", f"struct {name} {{", *[f"  {m}" for m in members if m], "};", f"{head};"]
    _function(em, s, name, head, captured, results)
    label = f"joined_{number}"
    values = [f"task.run = {name}", *([f"home = {em.home}"] if home else []), *[f"{n} = {n}" for n in captured]]
    values += [f"apart_{a.pointer} = {_apart(em, a.reach, a.others)}" for a in s.added]
    em.line("{")
    em.depth += 1
    em.line(f"struct {name} given;")
    em.line("const bool offered = futad_forks(ctx);")
    em.line("if (FUTAD_UNLIKELY(offered)) {")
    for value in values:
        em.line(f"  given.{value};")
    em.line("  futad_offer(ctx, &given.task);")
    em.line("}")
    em.line("{")
    em.depth += 1
    outer, em.label = em.label, label
    em.block(s.first)
    em.label = outer
    em.depth -= 1
    em.line("}")
    em.line(f"{label}: __attribute__((unused));")
    em.line("if (FUTAD_UNLIKELY(offered)) {")
    em.line("  if (!futad_retake(ctx)) {")
    em.line("    futad_await(ctx, &given.task);")
    if s.added:
        em.line("    if (!ctx->error.code) {")
        em.depth += 3
        em.block(s.sums)
        em.depth -= 3
        em.line("    }")
    for a in s.added:
        em.line(f"    if (given.{a.pointer} != {a.pointer}) free(given.{a.pointer});")
    em.line("  } else if (!ctx->error.code)")
    em.line(f"    {name}(&given.task, ctx);")
    em.line(f"  if (ctx->error.code) goto {outer};")
    for n in results:
        em.line(f"  {n} = given.{n};")
    em.line("} else {")
    em.depth += 1
    em.line(f"if (FUTAD_UNLIKELY(ctx->error.code)) goto {outer};")
    if any(isinstance(x, Fork) for x in statements(s.second)):  # its code is there once, however deep forks are nested
        for value in values:
            em.line(f"given.{value};")
        if s.added:
            em.line("given.task.taken = 0;")
        em.line(f"{name}(&given.task, ctx);")
        em.line(f"if (FUTAD_UNLIKELY(ctx->error.code)) goto {outer};")
        for n in results:
            em.line(f"{n} = given.{n};")
    else:
        em.block(s.second)
    em.depth -= 1
    em.line("}")
    em.depth -= 1
    em.line("}")


def _function(em: CEmitter, s: Fork, name: str, head: str, captured: list[str], results: list[str]) -> None:
    outer = em.lines, em.depth, em.label, em.home
    em.lines, em.depth, em.label, em.home = [], 1, "failed", "home" if em.home else ""
    em.line(f"struct {name} *const given = (struct {name} *)task;")
    if outer[3]:
        em.line("struct futad_slot *const home = given->home;")
    changed = {n for a in s.added for n in a.assigns()}
    for n in captured:
        em.line(f"{em.declared[n]}{'' if n in changed else 'const '}{n} = given->{n};")
    for n in results:
        em.line(f"{em.declared[n]}{n};")
    for a in s.added:
        em.line(f"if (FUTAD_UNLIKELY(task->taken) && !given->apart_{a.pointer}) {{")
        count = em.expr(product(a.shape))
        em.line(f"  given->{a.pointer} = {a.pointer} = futad_zeros(ctx, {count}, (int64_t)sizeof({c_type(a.elem)}));")
        em.line(f"  if (!{a.pointer}) goto {em.label};")
        for k, n in enumerate(a.strides):
            em.line(f"  {n} = {em.expr(product(a.shape[k + 1 :]))};")
        em.line("}")
    em.block(s.second)
    for n in results:
        em.line(f"given->{n} = {n};")
    body = em.lines
    em.lines, em.depth, em.label, em.home = outer
    em.regions += ["", f"{head} {{", *body, "failed: __attribute__((unused));", "}"]


def _apart(em: CEmitter, this: Reach, others: tuple[Reach, ...]) -> str:
    """Whether it has no memory in common with the others."""

    def end(r: Reach) -> str:
        return f"{r.pointer} + {em.expr(r.after)}"

    def start(r: Reach) -> str:
        return f"{r.pointer} - {em.expr(r.before)}"

    tests = [f"({end(this)} <= {start(r)} || {end(r)} <= {start(this)})" for r in others]
    return " && ".join(tests) or "true"


def own(em: CEmitter, s: Own) -> None:
    """See `Own`."""
    em.line(f"const bool {s.there} = given.{s.pointer} != {s.pointer};")
    em.line(f"const {c_type(s.elem)} *const {s.name} = given.{s.pointer};")
