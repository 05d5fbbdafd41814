"""C for tasks that may run at once: the second of two is a function of its own, which whoever is free may call.

It gets the values of the variables around it in a structure that lies in the frame of the function that forks, and
leaves its results there (`kernels/tasks.h`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.backend.c_threads import declarations
from futad.imp.tasks import Fork
from futad.imp.walk import statements

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter


def emit(em: CEmitter, s: Fork) -> None:
    """The second task's function; here the fork, the first task, and the join."""
    number = em.number_of_tasks
    em.number_of_tasks += 1
    name = f"futad_task_{number}"
    inside = declarations(s.second)
    around = [n for n in dict.fromkeys(n for x in s.second for n in x.mentions()) if n in em.declared]
    assigned = {n for x in statements(s.second) for n in x.assigns()}
    results = [n for n in around if n not in inside and n in assigned]
    captured = [n for n in around if n not in inside and n not in assigned]
    home = "struct futad_slot *home;" if em.home else ""
    members = ["struct futad_task task;", home, *[f"{em.declared[n]}{n};" for n in (*captured, *results)]]
    head = f"static __attribute__((noinline)) void {name}(struct futad_task *task, struct futad_context *ctx)"
    em.declarations += ["", f"struct {name} {{", *[f"  {m}" for m in members if m], "};", f"{head};"]
    _function(em, s, name, head, captured, results)
    label = f"joined_{number}"
    values = [f"task.run = {name}", *([f"home = {em.home}"] if home else []), *[f"{n} = {n}" for n in captured]]
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
    em.line("  if (!futad_retake(ctx))")
    em.line("    futad_await(ctx, &given.task);")
    em.line("  else if (!ctx->error.code)")
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
    for n in captured:
        em.line(f"{em.declared[n]}const {n} = given->{n};")
    for n in results:
        em.line(f"{em.declared[n]}{n};")
    em.block(s.second)
    for n in results:
        em.line(f"given->{n} = {n};")
    body = em.lines
    em.lines, em.depth, em.label, em.home = outer
    em.regions += ["", f"{head} {{", *body, "failed: __attribute__((unused));", "}"]
