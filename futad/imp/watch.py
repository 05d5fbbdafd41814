"""Lowering for checked execution (docs/checking.md): whose memory is read, who writes, and what is claimed of memory.

Note [Origins]
~~~~~~~~~~~~~~
Each array variable that a statement computes gets the time at which it was bound; whatever reads it later says so, and
memory that was written since then has been overwritten.  What only looks at another array (a row, a slice, a
transposition, a copy that shares memory) reads what that array is, from the time when that was bound.  A loop's
variables get the time at which each iteration begins.  A copy that lowering makes for itself is what it is of from the
time of the copy (`materialise`), and memory of no known time gets it when a variable is said to lie there (`Dated`): no
part of lowering can read a variable without.

Note [Claims]
~~~~~~~~~~~~~
Where lowering leaves out work because a value is in its place already, that is claimed, and looked up when the program
runs.  The claims follow from what a construct means, not from how it was lowered:

- an array that is made, by a map or a product say, was written as a whole since its statement began;
- after an update the array is where it was, or was written since; the part that is updated is where the value is, as
  the value was when it was bound, or was written since;
- of a concatenation or an array literal each piece is where that array is, or was written since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

from futad.bindings import Binding, Loop
from futad.core import ir as core
from futad.core.measures import Site
from futad.core.types import I64, U64, ArrayType, Atom, Prim, Type, Var
from futad.errors import Span
from futad.imp import ir
from futad.imp.claims import Claim, EnsureFor, Iteration, KeptApart, Now, Receive, Region
from futad.imp.dispatch import Destination
from futad.imp.indexing import indexed
from futad.imp.ir import ONE, ZERO, Expr, Ref, add
from futad.imp.lower import Lowerer, Scope
from futad.imp.views import AccumulateInto, Joined, Mem, Value, View
from futad.target import Target

ARGUMENT = "an argument"
MOST = (1 << 20) - 1  # the largest number of a binding


@runtime_checkable
class Writing(Protocol):
    """A statement that writes memory: it says by which binding."""

    by: int


def looks(e: core.Exp) -> bool:
    """Whether what a statement binds shares memory with an operand, or has none."""
    return bool(e.views()) or isinstance(e, core.Replicate)


class Dated(dict[Var, Value]):
    """The values of variables: one in memory of no known time is as it is when the variable gets it."""

    def __init__(self, lowering: Watching) -> None:
        super().__init__()
        self.lowering = lowering

    def __setitem__(self, var: Var, value: Value) -> None:
        super().__setitem__(var, self.lowering.with_time(var, value))


class Watching(Lowerer):
    """A lowering whose statements say what checked execution needs."""

    plain = True

    def __init__(self, program: core.Program, target: Target) -> None:
        self.bindings: list[Binding] = [Binding("", "", None, 0)]
        self.loops: list[Loop] = [Loop("", None, 0)]
        self.binding = 0  # the innermost one that is being lowered
        self.several: set[Var] = set()  # arrays of statements that make several, which have a number each
        self.around: list[int] = [0]  # loops
        self.counters: list[Ref] = []
        self.near: Span | None = None
        self.moved: View | None = None  # what the next memory that is had is for
        self.iterations: list[tuple[str, list[tuple[View, Region]]]] = []  # what loops go on with
        super().__init__(program, replace(target, tiles=False, moves=False))

    @property
    def watched(self) -> bool:
        """Whether what is lowered now is to say what it does."""
        return True

    # -- numbers

    def number(self, var: Var, what: str) -> int:
        """The number of a new binding."""
        self.bindings.append(Binding(var.name, what, self.near, self.around[-1]))
        return min(len(self.bindings) - 1, MOST)

    def function(self, fun: core.Fun, local: bool = False, in_frame: bool = False) -> ir.Function:
        self.near = fun.span
        return super().function(fun, local, in_frame)

    # -- memory

    def reset(self) -> None:
        super().reset()
        self.env = Dated(self)

    def materialise(self, v: View, destination: Destination = None, *, heap: bool = False) -> View:
        """A copy that lowering makes for itself is what the array is, from now on."""
        made = super().materialise(v, destination, heap=heap)
        if not self.watched or not isinstance(made.base, Mem):
            return made
        outer = self.binding
        if isinstance(v.base, Mem) and v.base.origin is not None:
            self.binding = v.base.origin.binding
        made = self.dated_view(made)
        self.binding = outer
        return made

    def move(self, v: View, destination: Destination) -> View:
        outer, self.moved = self.moved, v
        try:
            return super().move(v, destination)
        finally:
            self.moved = outer

    def emit(self, stmt: ir.Stmt) -> None:
        if isinstance(stmt, ir.Ensure) and self.moved is not None and isinstance(self.moved.base, Mem):
            base, at = self.moved.base, self.moved.offset
            stmt = EnsureFor(stmt.name, stmt.elem, stmt.slot, stmt.count, source=base.pointer, offset=at)
            self.moved = None
        if isinstance(stmt, ir.Stack) and self.watched:
            stmt = ir.Ensure(stmt.name, stmt.elem, self.slots, ir.num(stmt.count))
            self.slots += 1
        self.tag(stmt)
        super().emit(stmt)

    def tag(self, stmt: ir.Stmt) -> None:
        """Say of a statement which binding it is of."""
        if isinstance(stmt, ir.If):
            for s in (*stmt.then, *stmt.orelse):
                self.tag(s)
        elif isinstance(stmt, Writing) and stmt.by == 0:
            stmt.by = self.binding

    def receive(self, param: ir.Param, shape: Sequence[Expr]) -> None:
        given, name = f"given_{param.name}", param.name
        param.name = given
        count = ir.product(tuple(shape))
        self.argument(name, param)
        self.emit(Receive(name, param.type, given, count, self.slots))
        self.slots += 1

    def keep(self, name: str, size: Expr, values: Sequence[tuple[Prim, Expr]]) -> ir.Stmt:
        return KeptApart(name, size, tuple([t for t, _ in values]), tuple([n for _, n in values]))

    def argument(self, name: str, param: ir.Param) -> None:
        """What is bound next is an argument."""
        self.binding = self.number(Var(name.rpartition("_")[0], param.type), ARGUMENT)

    # -- origins

    def dated(self, value: Value) -> Value:
        """The array as it is now."""
        return self.dated_view(value) if self.watched and isinstance(value, View) else value

    def dated_view(self, value: View) -> View:
        if not isinstance(value.base, Mem):
            return value
        limit = self.name("time")
        self.emit(ir.Decl(limit, U64, Now(), mutable=True))
        return replace(value, base=replace(value.base, origin=ir.Origin(self.binding, limit)))

    def with_time(self, var: Var, value: Value) -> Value:
        """The variable's value, which is as it is now unless it is known since when."""
        if self.watched and isinstance(value, View) and isinstance(value.base, Mem) and value.base.origin is None:
            outer, what = self.binding, self.bindings[self.binding].what
            if what != ARGUMENT:
                self.binding = self.number(var, f"a variable of {what}")
            value = self.dated(value)
            self.binding = outer
        return value

    def bind(self, var: Var, value: Value) -> None:
        super().bind(var, self.with_time(var, value))

    def define(self, var: Var, value: Value, e: core.Exp) -> None:
        shared = looks(e)
        if isinstance(e, core.Copy) and isinstance(e.array, Var):
            shared = _alike(value, self.env.get(e.array))
        if not shared:
            outer = self.binding
            if var in self.several:
                self.binding = self.number(var, self.bindings[outer].what)
            value = self.dated(value)
            self.binding = outer
        super().define(var, value, e)

    def turning(self, params: Sequence[Var], values: Sequence[Value]) -> None:
        since = self.name("since")
        results: list[tuple[View, Region]] = []
        for p, v in zip(params, values, strict=True) if self.watched else ():
            now = self.env[p]
            if isinstance(v, View) and isinstance(v.base, Mem) and isinstance(now, View) and isinstance(now.base, Mem):
                was = self.name("was")
                self.emit(ir.Pointer(was, v.elem, v.base.pointer, v.offset))
                results.append((now, Region(was, ZERO, v.strides, v.shape, v.elem)))
        if results:
            self.emit(ir.Decl(since, U64, Now()))
        self.iterations.append((since, results))

    def next_iteration(self, params: Sequence[Var]) -> None:
        since, results = self.iterations.pop() if self.iterations else ("", [])
        for now, was in results:
            self.emit(Claim("stays", self.region(now), self.binding, since, None, was))
        self.renew(params)

    def renew(self, variables: Sequence[Var]) -> None:
        """The arrays are as they are now."""
        for p in variables if self.watched else ():
            v = self.env[p]
            if isinstance(v, View) and isinstance(v.base, Mem):
                assert v.base.origin is not None
                self.emit(ir.Assign(v.base.origin.limit, Now()))

    def changing(self, v: View) -> View:
        return replace(v, base=replace(v.base, origin=None)) if isinstance(v.base, Mem) else v

    # -- claims

    def region(self, v: View) -> Region:
        assert isinstance(v.base, Mem)
        return Region(v.base.pointer, v.offset, v.strides, v.shape, v.elem)

    def reads(self, v: View) -> None:
        if isinstance(v.base, Joined):
            for part in v.base.views:
                self.reads(part)
        elif self.watched and isinstance(v.base, Mem) and v.base.origin is not None:
            self.emit(Claim("read", self.region(v), self.binding, origin=v.base.origin))

    def made(self, v: Value | None, since: str) -> None:
        """All of the array was written since."""
        if isinstance(v, View) and isinstance(v.base, Mem):
            self.emit(Claim("made", self.region(v), self.binding, since))

    def holds(self, place: View, value: Value, since: str) -> None:
        """The array is the value, which may lie there already."""
        if not isinstance(place.base, Mem):
            return
        if isinstance(value, View) and isinstance(value.base, Mem) and value.base.origin is not None:
            claim = Claim("holds", self.region(place), self.binding, since, value.base.origin, self.region(value))
            self.emit(claim)
        else:
            self.made(place, since)

    def copy(self, dst: View, src: View) -> None:
        if not dst.same_place(src):
            self.uses(src)
        super().copy(dst, src)

    def uses(self, v: View) -> None:
        """Bulk copies read the array; what was never written in it may be copied."""
        if self.watched and isinstance(v.base, Mem) and v.base.origin is not None:
            self.emit(Claim("copied", self.region(v), self.binding, origin=v.base.origin))

    # -- statements

    def stm(self, stm: core.Stm, sc: Scope) -> None:
        e = stm.exp
        if not self.watched:
            super().stm(stm, sc)
            return
        arrays = [v for v in stm.pat if isinstance(v.type, ArrayType)]
        self.near = _span(e) or self.near
        outer, near = self.binding, self.near
        if stm.pat and (arrays or e.lambdas() or isinstance(e, core.Keep)):
            self.binding = self.number((arrays or stm.pat)[0], type(e).__name__.lower())
            self.begins(stm)
        since = ""
        if arrays and not (looks(e) or isinstance(e, core.Scratch)):
            since = self.name("since")
            self.emit(ir.Decl(since, U64, Now()))
        if isinstance(e, core.While):
            iteration = Ref(self.name("iteration"), I64)
            self.emit(ir.Decl(iteration.name, I64, ZERO, mutable=True))
            self.counters.append(iteration)
        before = {a: self.env[a] for a in e.operands() if isinstance(a, Var)}
        if isinstance(e, (core.Mapping, core.Scan)) and len(arrays) > 1:
            self.several.update(arrays)
        super().stm(stm, sc)
        if isinstance(e, core.While):
            self.counters.pop()
        if since:
            self.verify(stm, sc, before, since)
        if self.binding != outer:
            self.binding = outer
            self.ended()
        self.near = near

    def measure(self, site: Site, values: tuple[Expr, ...]) -> None:
        """Nothing: who checks memory asks for no numbers."""

    def begins(self, stm: core.Stm) -> None:
        """A statement with a number begins."""

    def ended(self) -> None:
        """It has ended; what follows is of the one around it."""

    def verify(self, stm: core.Stm, sc: Scope, before: dict[Var, Value], since: str) -> None:
        """Claim what the statement means."""
        e, values = stm.exp, [self.env[v] for v in stm.pat]
        match e:
            case core.Mapping() | core.Scan():
                made = [values[k] for k, v in enumerate(stm.pat) if self.is_made(e, k, sc.destinations.get(v))]
                for v in made:
                    self.made(v, since)
                self.disjoint([v for v in made if isinstance(v, View)])
            case core.MatMul():
                if stm.pat[0] not in sc.deferred:
                    self.made(values[0], since)
            case core.ArgSort() | core.Contraction():
                self.made(values[0], since)
            case core.Copy(a):
                if not _alike(values[0], self.operand_before(before, a)):
                    self.made(values[0], since)
            case core.Update(array, index, value):
                whole, was = values[0], self.operand_before(before, array)
                if isinstance(whole, View) and isinstance(whole.base, Mem):
                    part = indexed(self, whole, index, None)
                    self.holds(part, self.operand_before(before, value), since)
                    self.stays(whole, was, since)
            case core.Concat(arrays=arrays):
                at: Expr = ZERO
                whole = values[0]
                assert isinstance(whole, View)
                for a in arrays if isinstance(whole.base, Mem) else ():
                    piece = self.operand_before(before, a)
                    assert isinstance(piece, View)
                    self.holds(View(whole.base, whole.place((at,)), whole.strides, piece.shape), piece, since)
                    at = add(at, piece.shape[0])
            case core.ArrayLit(elems):
                whole = values[0]
                for i, a in enumerate(elems):
                    if isinstance(whole, View):
                        self.holds(whole.row((ir.num(i),)), self.operand_before(before, a), since)

    def operand_before(self, values: dict[Var, Value], a: Atom) -> Value:
        """What an operand was when its statement began."""
        return values[a] if isinstance(a, Var) else self.value(a)

    def disjoint(self, made: Sequence[View]) -> None:
        """The arrays that a statement makes have no memory in common."""
        bases = [v.base for v in made if isinstance(v.base, Mem)]
        if len(bases) < 2 or len(bases) < len(made):
            return
        for kind in ("mine", "own"):
            for v, base in zip(made, bases, strict=True):
                assert base.origin is not None
                self.emit(Claim(kind, self.region(v), base.origin.binding))
        for base in bases:
            assert base.origin is not None
            self.emit(ir.Assign(base.origin.limit, Now()))

    def stays(self, whole: View, was: Value | None, since: str) -> None:
        """The array is where it was, its elements at different places, or was written since."""
        for stride, n in zip(whole.strides, whole.shape, strict=True):
            if stride == ZERO and n != ONE:
                # What is updated is several elements at once: no time is late enough for this.
                never = self.name("since")
                self.emit(ir.Decl(never, U64, Now()))
                with self.block() as body:
                    self.made(whole, never)
                self.emit(ir.If(ir.compare("<", ONE, n), body, []))
        if isinstance(was, View) and isinstance(was.base, Mem):
            self.emit(Claim("stays", self.region(whole), self.binding, since, None, self.region(was)))
        else:
            self.made(whole, since)

    def is_made(self, e: core.Screma, k: int, destination: Destination) -> bool:
        """Whether result `k` of a map, scan or both is written as a whole: not what is folded or added to a sum, nor
        rows that are changed where they lie."""
        if isinstance(destination, AccumulateInto):
            return False
        if k < e.accs or e.first_reduced <= k < e.first_mapped:
            return False
        if e.mapper is None:
            return True
        lam = e.mapper
        r = lam.result[k]
        if not isinstance(r.type, ArrayType):
            return True
        maker = next((s.exp for s in lam.stms if r in s.pat), None)
        return isinstance(maker, (core.MatMul, core.Contraction, core.Scan, core.ArgSort))

    # -- loops

    @contextmanager
    def loop(self, *args: Any, **named: Any) -> Iterator[tuple[Ref, ir.For]]:
        with super().loop(*args, **named) as (i, loop):
            self.counters.append(i)
            yield i, loop
            self.counters.pop()

    def scope(
        self, lam: core.Lambda, destinations: Sequence[Destination] = (), *, repeats: bool = False
    ) -> list[Value]:
        if self.watched and len(self.scopes) == 1:
            results = super().scope(lam, destinations, repeats=repeats)
            for r in results:  # of a function
                if isinstance(r, View):
                    self.reads(r)
            return results
        if not self.watched or not repeats or not any(isinstance(v.type, ArrayType) for s in lam.stms for v in s.pat):
            return super().scope(lam, destinations, repeats=repeats)
        self.loops.append(Loop(self.bindings[self.binding].what, self.near, self.around[-1]))
        self.around.append(len(self.loops) - 1)
        for p in lam.params:
            v = self.env.get(p)
            origin = v.base.origin if isinstance(v, View) and isinstance(v.base, Mem) else None
            if origin is not None and self.bindings[origin.binding].name == p.name:
                self.bindings[origin.binding] = replace(self.bindings[origin.binding], loop=self.around[-1])
        if self.counters:
            iteration = self.counters[-1]
            self.emit(Iteration(self.around[-1], iteration))
            if iteration.name not in self.ranges:
                self.emit(ir.Assign(iteration.name, add(iteration, ONE)))
        values = super().scope(lam, destinations, repeats=True)
        self.around.pop()
        return values


def _alike(v: Value | None, w: Value | None) -> bool:
    """Whether two values are the same array in memory, or neither is in memory."""
    return isinstance(v, View) and isinstance(w, View) and v.same_place(w)


def _span(x: Any) -> Span | None:
    """The first place that is known in an expression."""
    if isinstance(x, Span):
        return x
    if isinstance(x, tuple):
        return next((s for s in map(_span, x) if s is not None), None)
    if isinstance(x, (Var, Type)) or not is_dataclass(x):
        return None
    return next((s for s in (_span(getattr(x, f.name)) for f in fields(x)) if s is not None), None)
