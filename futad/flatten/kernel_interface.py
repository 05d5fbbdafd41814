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
        if isinstance(s, ir.Ensure) and isinstance(s.slot, str) and kind in kir.TOGETHER:  # it would be shared
            raise NotInBlock
        if isinstance(s, ir.SlotRef) and isinstance(s.slot, int) and s.slot not in made.local_slots:
            if kind in kir.TOGETHER and _sharing(lo, kind, s.slot) != 1:
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
            ensures.setdefault(s.slot, []).append((s, _room(lo, s.count, decls, own)))
    replaced: dict[str, ir.Stmt] = {}  # declarations by their names
    by_thread: dict[str, str] = {}
    for slot, uses in ensures.items():
        sharing = _sharing(lo, made.kind, slot)
        if slot in named or any(n is None for _, n in uses):
            if sharing != 1:
                raise NotInBlock
            made.local_slots.append(slot)
            continue
        count: Expr = ir.ZERO
        for _, n in uses:
            assert n is not None
            count = n if count == ir.ZERO or count == n else ir.Scalar("max", (count, n), n.type, n.type)
        count = lo.let(count, "n")
        name = lo.name("scratch")
        unit = Ref("futad_thread" if sharing == 1 else "futad_block", ir.ZERO.type)
        made.scratch.append(kir.Scratch(name, uses[0][0].elem, lo.slots, count, sharing))
        lo.slots += 1
        for s, _ in uses:
            replaced[s.name] = ir.Pointer(s.name, s.elem, name, ir.mul(unit, count), s.mutable)
            if sharing == 1 and made.kind != "single":
                by_thread[s.name] = name
    side_by_side = coalesce_private.SIDE_BY_SIDE.name
    for name in lo.tried(side_by_side, lambda: coalesce_private.interleaved(body, by_thread, lo.name) or None) or ():
        del replaced[name]
    for inside in blocks(body):
        inside[:] = [replaced.get(s.name, s) if isinstance(s, ir.Ensure) else s for s in inside]


def _sharing(lo: DeviceLowerer, kind: str, slot: int) -> int:
    """How many threads of a kernel have a slot's memory together: 1, a warp, or 0: all that do a unit."""
    if kind not in kir.TOGETHER or slot in lo.thread_slots:
        return 1
    return kir.WARP if slot in lo.warp_slots else 0


def _word(what: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in what.split(" ")[0])


def _room(lo: DeviceLowerer, count: Expr, decls: dict[str, Expr | None], own: set[str]) -> Expr | None:
    """How many elements an array needs room for, in terms of the host's names; None if that is not known."""
    known = _on_host(count, decls, own)
    if known is not None or lo.alone is None:
        return known
    match count:
        case Ref(name) if name in lo.alone.by_name:
            return lo.alone.by_name[name]
        case Ref(name) if (init := decls.get(name)) is not None:
            return _room(lo, init, decls, own)
        case ir.Bin("*" | "+" as op, a, b):
            left, right = [_room(lo, x, decls, own) for x in (a, b)]
            return None if left is None or right is None else (ir.mul if op == "*" else ir.add)(left, right)
    return None


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
