"""A kernel whose inside is lowered, as it is launched: its parameters, and the memory that its threads or blocks have
for themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.flatten import coalesce_private
from futad.flatten import kernel as kir
from futad.flatten.kernel import Kernel
from futad.imp import ir
from futad.imp.ir import Expr, Ref
from futad.imp.walk import blocks, statements

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer


class NotInBlock(Exception):
    """A construct has no lowering in block mode."""


def with_interface(lo: DeviceLowerer, body: list[ir.Stmt], kind: str, what: str) -> Kernel:
    """The kernel with that inside.  Raises NotInBlock where the threads of a block would share what each needs."""
    made = Kernel(f"k{len(lo.kernels)}_{_word(what or 'step')}", kind, body, what, line=lo.line)
    _share_out(lo, made)
    for s in statements(body):
        if isinstance(s, ir.Ensure) and isinstance(s.slot, str) and kind == "block":  # it would be shared
            raise NotInBlock
        if isinstance(s, ir.SlotRef) and isinstance(s.slot, int) and s.slot not in made.local_slots:
            if kind == "block" and s.slot not in lo.thread_slots:
                raise NotInBlock
            made.local_slots.append(s.slot)
    made.fails = any(isinstance(s, (ir.Check, ir.Ensure)) for s in statements(body))
    made.params = [p for p in kir.free_names(body) if p[0] not in kir.PROVIDED]
    return made


def _share_out(lo: DeviceLowerer, made: Kernel) -> None:
    """Memory whose size the host knows becomes part of one piece for all threads, or blocks; the rest is allocated
    by the thread."""
    body = made.body
    own = {name for s in statements(body) for name in s.defines()}
    decls = {s.name: s.init for s in statements(body) if isinstance(s, ir.Decl) and not s.mutable}
    named = {s.slot for s in statements(body) if isinstance(s, ir.SlotRef)}
    ensures: dict[int, list[tuple[ir.Ensure, Expr | None]]] = {}
    for s in statements(body):
        if isinstance(s, ir.Ensure) and isinstance(s.slot, int):
            ensures.setdefault(s.slot, []).append((s, _on_host(s.count, decls, own)))
    replaced: dict[str, ir.Stmt] = {}  # declarations by their names
    by_thread: dict[str, str] = {}
    for slot, uses in ensures.items():
        per_block = made.kind == "block" and slot not in lo.thread_slots
        if slot in named or any(n is None for _, n in uses):
            if per_block:
                raise NotInBlock
            made.local_slots.append(slot)
            continue
        count: Expr = ir.ZERO
        for _, n in uses:
            assert n is not None
            count = n if count == ir.ZERO or count == n else ir.Scalar("max", (count, n), n.type, n.type)
        count = lo.let(count, "n")
        name = lo.name("scratch")
        unit = Ref("futad_block" if per_block else "futad_thread", ir.ZERO.type)
        made.scratch.append(kir.Scratch(name, uses[0][0].elem, lo.slots, count, per_block))
        lo.slots += 1
        for s, _ in uses:
            replaced[s.name] = ir.Pointer(s.name, s.elem, name, ir.mul(unit, count), s.mutable)
            if not per_block and made.kind != "single":
                by_thread[s.name] = name
    side_by_side = coalesce_private.SIDE_BY_SIDE.name
    for name in lo.tried(side_by_side, lambda: coalesce_private.interleaved(body, by_thread, lo.name) or None) or ():
        del replaced[name]
    for inside in blocks(body):
        inside[:] = [replaced.get(s.name, s) if isinstance(s, ir.Ensure) else s for s in inside]


def _word(what: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in what.split(" ")[0])


def _on_host(e: Expr, decls: dict[str, Expr | None], own: set[str]) -> Expr | None:
    """The expression in terms of the host's names, None if it depends on the kernel's work."""
    match e:
        case Ref(name) if name in own:
            init = decls.get(name)
            return None if init is None else _on_host(init, decls, own)
        case ir.Load():
            return None
    parts = [_on_host(x, decls, own) for x in e.exprs()]
    found = [x for x in parts if x is not None]
    return None if len(found) < len(parts) else e.map_exprs(lambda _: found.pop(0))


__all__ = ["NotInBlock", "with_interface"]
