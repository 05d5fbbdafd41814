"""The variables a loop carries from iteration to iteration.

Note [Loop variables]
~~~~~~~~~~~~~~~~~~~~~
An array a loop carries is reached through a pointer `cur`.  If nothing in the body may overwrite it, `cur` first
points at the initial value itself; otherwise at memory the loop owns (the initial value's own, if it is dead).
The body's result is wanted in `next`, a buffer distinct from `cur`, and the two pointers are exchanged at the end
of an iteration; a result that is `cur` itself, updated in place, needs nothing.  A result computed by a map that reads
`cur` only at the position it writes goes straight into `cur`.  Small arrays of constant size live on the stack and
are copied instead, so that the C compiler can keep them in registers.  Where the size varies from iteration to
iteration, the buffers are two slots that are exchanged; on C an array that is appended to stays in its slot, which
grows by half when it is full, and one of which a slice is kept stays where it is.  A loop inside that goes on with such
an array does so in its slots.

Where variables take each other's values (`(xs, ys)` becomes `(ys with [i] = v, xs)`, say), the values of this
iteration, updated in place, are the memory of the next one, and their pointers change places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import BOOL, I64, ArrayType, Atom, Var
from futad.imp import ir
from futad.imp.dispatch import STACK_LIMIT, Destination
from futad.imp.ir import ZERO, Expr, Num, Ref, is_leaf
from futad.imp.placement import in_step
from futad.imp.sharing import saved
from futad.imp.views import Acc, Hint, Mem, Root, SlotDestination, Value, View, dense_view
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer

CARRIED = Legality("loop variables", "a loop's arrays stay in one or two pieces of memory", fires=False)
ALONE = CARRIED.condition("begins alone", "the next values of two variables that begin as one would be one")
BEGINS = CARRIED.condition("first value not needed", "iterations would overwrite an array that others read")
EITHER = CARRIED.condition("this or the next buffer", "memory that is given back would be the variable's value")
SAME = CARRIED.condition("in its own memory", "the value would be left in memory that the variable does not point to")
OWN_SLOTS = CARRIED.condition("the outer variable dead", "the loop around would read what the inner one overwrote")


def small_type(lo: Lowerer, t: ArrayType, bound: Sequence[Var]) -> bool:
    """Whether the type's size is a constant that fits the stack; `bound` are variables not yet known."""
    if not lo.on_stack or any(s in bound for s in t.shape):
        return False
    count = ir.product(lo.shape(t))
    return isinstance(count, Num) and count.value <= STACK_LIMIT


def named_strides(lo: Lowerer, v: View) -> View:
    """The view with its strides in variables."""
    strides = tuple([lo.let(s, "s") for s in v.strides])
    return View(v.base, v.offset, strides, v.shape, v.dense, v.injective)


class Carried:
    """The variables of one loop: declared on construction, bound to the body's parameters, `commit`ted at the end
    of each iteration, and read after the loop with `finish`."""

    def __init__(
        self, lo: Lowerer, params: Sequence[Var], inits: Sequence[Value], body: core.Lambda,
        destinations: Sequence[Destination] = (),
    ) -> None:
        """`body.result` are the values of the next iteration, in the order of `params`."""
        self.lo = lo
        self.vars: list[_Scalar | Cell | _Array | Acc] = []
        self.params = list(params)
        for i, (p, init) in enumerate(zip(params, inits, strict=True)):
            if isinstance(init, Acc):
                self.vars.append(init)
                lo.bind(p, init)
            elif isinstance(init, Expr):
                self.vars.append(lo.loop_cell(p, init, body, body.result[i]) or _Scalar(lo, p, init))
            else:
                shared = any(j != i and isinstance(o, View) and o.roots & init.roots for j, o in enumerate(inits))
                destination = destinations[i] if i < len(destinations) else None
                cls = _Small if small_type(lo, _array(p), self.params) else _Buffer
                self.vars.append(cls(lo, p, init, body, body.result[i], destination, self.params, shared))

        self.cycles = [c for c in _cycles(self.params, body) if all(isinstance(self.vars[i], _Buffer) for i in c)]

    def destinations(self) -> list[Destination]:
        """Where the body should put its results."""
        destinations: list[Destination] = []
        for v in self.vars:
            w = v.destination if isinstance(v, _Array) else None
            destinations.append(Hint(w, v.cur) if isinstance(v, _Array) and isinstance(w, View) else w)
        return destinations

    def vector(self) -> View | None:
        """The one variable there is, if it is a vector that stays where it lies."""
        v = self.vars[0] if len(self.vars) == 1 else None
        return v.cur if isinstance(v, _Array) and v.destination is v.cur and v.cur.rank == 1 else None

    def pointers(self) -> set[str]:
        """The pointers to the arrays among the variables."""
        places = [x for v in self.vars if isinstance(v, _Array) for x in (v.cur, v.destination) if isinstance(x, View)]
        return {x.base.pointer for x in places if isinstance(x.base, Mem)}

    def commit(self, values: Sequence[Value]) -> None:
        """Emit the end of an iteration: the variables take the body's results, all at once."""
        lo = self.lo
        exchanged = [c for c in self.cycles if self._exchanged(c, values)]
        moving = {i for c in exchanged for i in c}
        written = [
            var.written(v) if i not in moving and isinstance(var, _Array) and isinstance(v, View) else None
            for i, (var, v) in enumerate(zip(self.vars, values, strict=True))
        ]
        values = saved(lo, values, written)
        lo.turning(self.params, values)
        for i, (var, v) in enumerate(zip(self.vars, values, strict=True)):
            if i in moving:
                continue
            if isinstance(var, _Array):
                assert isinstance(v, View)
                var.collect(v)
            elif isinstance(var, Cell):
                assert isinstance(v, Expr)
                var.collect(v)
        if any(isinstance(var, Cell) for var in self.vars):
            # What is in memory is read before that changes.
            values = [self._keep(v) if isinstance(var, _Scalar) and isinstance(v, Expr) and not is_leaf(v) else v
                      for var, v in zip(self.vars, values, strict=True)]  # fmt: skip
        names = {v.name for v in self.vars if isinstance(v, _Scalar)}
        scalars: list[tuple[str, Expr]] = []
        for cycle in exchanged:
            _Buffer.exchange([v for v in map(self.vars.__getitem__, cycle) if isinstance(v, _Buffer)])
        for i, (var, v) in enumerate(zip(self.vars, values, strict=True)):
            if i in moving:
                continue
            if isinstance(var, _Array | Cell):
                var.iteration()
            elif isinstance(var, _Scalar):
                assert isinstance(v, Expr)
                if not (isinstance(v, Ref) and v.name == var.name):
                    scalars.append((var.name, v))
        if len(scalars) > 1:
            # A result that is another loop variable must be read before that changes.
            scalars = [(n, self._keep(v) if isinstance(v, Ref) and v.name in names else v) for n, v in scalars]
        for n, v in scalars:
            lo.emit(ir.Assign(n, v))
        lo.next_iteration(self.params)

    def _exchanged(self, cycle: list[int], values: Sequence[Value]) -> bool:
        """Whether each variable of the cycle takes the memory of the one after it: so it is where lowering has updated
        what the IR consumes where it lies."""
        for i, j in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            v, there = values[i], self.vars[j]
            assert isinstance(v, View) and isinstance(there, _Buffer)
            if there.varying or not (v.same_place(there.cur) and v.shape == there.cur.shape):
                return False
        return True

    def _keep(self, v: Expr) -> Expr:
        name = self.lo.name("old")
        self.lo.emit(ir.Decl(name, v.type, v))
        return Ref(name, v.type)

    def finish(self) -> list[Value]:
        """The values after the loop."""
        return [
            v.finish() if isinstance(v, _Array | Cell) else v if isinstance(v, Acc) else Ref(v.name, v.type)
            for v in self.vars
        ]


def _cycles(params: Sequence[Var], body: core.Lambda) -> list[list[int]]:
    """Variables of one type of which each takes, perhaps after updates, the value of the next one."""
    origin: dict[Atom, Atom] = {}
    for stm in body.stms:
        match stm.exp:
            case core.Alias(a):
                origin[stm.pat[0]] = a
            case e:
                origin.update(zip(stm.pat, e.consumes(), strict=False))
    places: dict[Atom, int] = {p: i for i, p in enumerate(params)}
    after: dict[int, int] = {}
    for i, a in enumerate(body.result):
        while a in origin:
            a = origin[a]
        if a in places and a.type == params[i].type:
            after[i] = places[a]
    cycles: list[list[int]] = []
    seen: set[int] = set()
    for i in after:
        chain: list[int] = []
        at: int | None = i
        while at is not None and at not in seen:
            seen.add(at)
            chain.append(at)
            at = after.get(at)
        if at is not None and at in chain:
            cycle = chain[chain.index(at) :]
            cycles += [cycle] if len(cycle) > 1 else []
    return cycles


def _array(p: Var) -> ArrayType:
    assert isinstance(p.type, ArrayType)
    return p.type


class _Scalar:
    def __init__(self, lo: Lowerer, p: Var, init: Expr) -> None:
        self.name = lo.name(p.name)
        self.type = init.type
        lo.emit(ir.Decl(self.name, init.type, init, mutable=True))
        lo.bind(p, Ref(self.name, init.type))


class Cell:
    """A carried scalar in memory, this iteration's value and the next one's."""

    def collect(self, v: Expr) -> None:
        """Put the iteration's result where the next iteration's value is."""
        raise NotImplementedError

    def iteration(self) -> None:
        """Make that value current."""
        raise NotImplementedError

    def finish(self) -> Expr:
        """The value after the loop."""
        raise NotImplementedError


class _Array:
    """A carried array; `cur` is its value in this iteration, `destination` the place for the next one."""

    cur: View
    destination: View | SlotDestination

    def written(self, v: View) -> View | Root | None:
        """Where the iteration's result is collected, if it is not there already."""
        raise NotImplementedError

    def collect(self, v: View) -> None:
        """Bring the iteration's result out of the way of what other variables still read."""
        raise NotImplementedError

    def iteration(self) -> None:
        """Make the collected result current."""
        raise NotImplementedError

    def finish(self) -> View:
        """The array after the loop."""
        raise NotImplementedError


class _Small(_Array):
    """On the stack, where the initial value lies if that is dead; the result is copied back."""

    def __init__(
        self, lo: Lowerer, p: Var, init: View, body: core.Lambda, result: Atom, destination: Destination,
        params: list[Var], shared: bool,
    ) -> None:
        t = _array(p)
        self.lo = lo
        on_stack = init.dense and all(r.stack for r in init.roots)
        if on_stack and ALONE(not shared) and BEGINS(lo.can_overwrite(init, body.free())):
            self.cur = init
        else:
            self.cur = lo.alloc(t.elem, lo.shape(t), None, p.name)
            lo.copy(self.cur, init)
        self.destination = self.cur if in_step(lo, body, p, result) else lo.alloc(t.elem, lo.shape(t), None, "next")
        lo.bind(p, self.cur)

    def written(self, v: View) -> View | Root | None:
        assert isinstance(self.destination, View)
        return None if v.same_place(self.cur) or v.same_place(self.destination) else self.destination

    def collect(self, v: View) -> None:
        self.changed = not v.same_place(self.cur)
        if self.changed:
            assert isinstance(self.destination, View)
            self.lo.copy(self.destination, v)

    def iteration(self) -> None:
        if self.changed:
            assert isinstance(self.destination, View)
            self.lo.copy(self.cur, self.destination)

    def finish(self) -> View:
        return self.cur


class _Buffer(_Array):
    """In slots, or where the initial value lies; see Note [Loop variables]."""

    def __init__(
        self, lo: Lowerer, p: Var, init: View, body: core.Lambda, result: Atom, destination: Destination,
        params: list[Var], shared: bool,
    ) -> None:
        t = _array(p)
        self.lo, self.type = lo, t
        self.varying = any(s in params for s in t.shape)
        in_place = not self.varying and in_step(lo, body, p, result)
        self.owned = in_place or p in lo.consumed
        target = destination if isinstance(destination, View) and destination.dense and not self.varying else None
        ours = init.dense and isinstance(init.base, Mem) and not any(r.stack for r in init.roots)
        free = ours and ALONE(not shared) and BEGINS(lo.can_overwrite(init, body.free()))
        if not (free if self.owned else ours):
            init = lo.materialise(init, target if self.owned else None, heap=True)
            free = True
        if lo.target.builds_in_place and not self.varying:
            self.owned = free  # one more buffer is enough then
        assert isinstance(init.base, Mem)
        self.start = init
        for r in init.roots:
            r.pinned += 1
        self.pointer = lo.name(p.name)
        lo.emit(ir.Pointer(self.pointer, t.elem, init.base.pointer, init.offset, mutable=True))
        self.pre = lo.seq()
        # Within an iteration `cur` and `next` are distinct memory, though they change places between iterations.
        self.cur_root = Root(None, self.owned, t.elem)
        cur = dense_view(Mem(self.pointer, t.elem, frozenset((self.cur_root,))), lo.shape(t))
        self.cur = cur if self.varying else named_strides(lo, cur)
        self.next_root = Root(None, True, t.elem)
        self.next_name, self.spare_name = lo.name("next"), lo.name("spare")
        self.shares = self.varying and not shared and takes_over(lo, destination, init, body)
        if self.shares:
            assert isinstance(destination, SlotDestination)
            self.next_name, self.spare_name, self.next_root = destination.slot, destination.spare, destination.root
        if in_place:
            self.destination = self.cur
        elif self.varying:
            grown = self.cur if lo.target.grows else None
            self.destination = SlotDestination(self.next_name, self.next_root, grown, self.spare_name)
        else:
            base = Mem(self.next_name, t.elem, frozenset((self.next_root,)))
            self.destination = View(base, ZERO, self.cur.strides, self.cur.shape, True)
        self.swapped = False
        self.partners: list[_Buffer] = []
        lo.bind(p, self.cur)

    def written(self, v: View) -> View | Root | None:
        if v.same_place(self.cur) or self._stays(v):
            return None
        return self.destination.root if isinstance(self.destination, SlotDestination) else self.destination

    def _stays(self, v: View) -> bool:
        """Whether the pointer can go to where the result is."""
        return (self.lo.target.grows or not self.varying) and v.dense and bool(v.roots) and EITHER(self._has(v.roots))

    def collect(self, v: View) -> None:
        """See Note [Loop variables]; a branch's result may be `cur` or `next`, which only running it tells."""
        lo = self.lo
        if SAME(v.same_place(self.cur)):
            self.result = None
        elif self._stays(v):
            self.result = v
        elif self.destination is self.cur:
            # The map that was to write here wrote to another variable with the same result.
            lo.copy(self.cur, v)
            self.result = None
        else:
            self.result = lo.move(v, self.destination)

    def iteration(self) -> None:
        lo, v = self.lo, self.result
        if v is None:
            return
        assert isinstance(v.base, Mem)
        self.swapped = True
        steps: list[ir.Stmt] = []
        if self.varying:
            lo.emit(ir.SetPointer(self.pointer, v.base.pointer, v.offset))
            # Without arrays that grow the result is in `next`, whatever it was before.
            lo.emit(
                ir.Spare(self.next_name, self.spare_name, self.pointer)
                if lo.target.grows
                else ir.Swap(self.next_name, self.spare_name)
            )
            return
        elif self.owned:
            steps.append(ir.Swap(self.pointer, self.next_name, self.type.elem))
        else:
            steps.append(ir.SetPointer(self.pointer, self.next_name))
            steps.append(ir.Swap(self.next_name, self.spare_name, self.type.elem))
        if self.cur_root in v.roots:
            # The names stand for pointers here, not for scalars; only their identity matters.
            changed = ir.Bin("!=", Ref(v.base.pointer, I64), Ref(self.pointer, I64), BOOL)
            lo.emit(ir.If(changed, steps, []))
        else:
            lo.out += steps

    def _has(self, roots: frozenset[Root]) -> bool:
        return roots <= {self.cur_root, self.next_root}

    @staticmethod
    def exchange(cycle: list[_Buffer]) -> None:
        """Each variable takes the memory of the next one."""
        for var, after in zip(cycle, cycle[1:], strict=False):
            var.lo.emit(ir.Swap(var.pointer, after.pointer, var.type.elem))
        for var in cycle:
            var.partners = [v for v in cycle if v is not var]

    def finish(self) -> View:
        lo, t = self.lo, self.type
        for r in self.start.roots:
            r.pinned -= 1
        roots = self.start.roots.union(*[v.start.roots for v in self.partners])
        saved, lo.out = lo.out, self.pre
        if self.shares:
            roots |= {self.next_root}
        elif self.varying or self.destination is not self.cur:
            for name in (self.next_name, self.spare_name):
                root = lo.new_root(t.elem, fresh=True)
                assert root.slot is not None
                roots |= {root}
                if self.varying:
                    lo.emit(ir.SlotRef(name, root.slot))
                elif self.swapped:
                    lo.emit(ir.Ensure(name, t.elem, root.slot, self.cur.count(), mutable=True))
                    if self.owned:
                        break
        lo.out = saved
        base = Mem(self.pointer, t.elem, roots)
        if self.varying:
            return dense_view(base, lo.shape(t))
        if not self.swapped and not self.partners:
            return View(self.start.base, self.start.offset, self.start.strides, self.start.shape, True)
        return View(base, ZERO, self.cur.strides, self.cur.shape, True)


def takes_over(lo: Lowerer, destination: Destination, init: View, body: core.Lambda) -> bool:
    """Whether a loop begins with what a variable of the loop around it is, in place of that, and ends with what that
    is in the next iteration: then it has that variable's slots for its own."""
    grown = destination.grown if isinstance(destination, SlotDestination) else None
    if grown is None or init.roots != grown.roots:
        return False
    inside = body.free()
    return OWN_SLOTS(not lo.roots_live(init.roots) and not any(v in inside for r in init.roots for v in r.vars))
