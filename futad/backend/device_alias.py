"""Which arrays of a kernel share no memory with what it writes.

A compiler that knows this keeps what it has loaded, and loads what a kernel only reads by way of the read-only cache.
So of a kernel's parameters

- an array that it does not write, none of whose memory it writes by another name, is `const T *__restrict__`;
- an array that it writes and never reads, none of whose memory it has by another name, is `T *__restrict__`.  What
  threads tell each other through memory is both written and read, and stays as it is: barriers would not count.

What memory a pointer is of is known from the host code, which makes all of them: parameters of the entry, which
nothing writes, and slots, which do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from futad.core.union_find import UnionFind
from futad.flatten import kernel as kir
from futad.flatten.kernel import DeviceModule, Kernel
from futad.imp import ir
from futad.imp.walk import statements
from futad.legality import Legality

LEGAL = Legality("restrict", "a kernel's pointers are told to share no memory with others by which it writes")
READ_ONLY = LEGAL.condition("not written by another name", "what was read before a write is used after it")
ALONE = LEGAL.condition("not read, and known by one name", "what was read before a write is used after it")

MOST_STATES = 64  # ways in which pointers may point to memory at one place of the host code
CONST, DISJOINT = "const", "disjoint"

# Statements of which `_Accesses` knows what they do with memory; with any other in it a kernel's parameters stay plain.
_KNOWN = (
    ir.Decl, ir.Assign, ir.Accumulate, ir.Store, ir.Pointer, ir.SetPointer, ir.Stack, ir.SlotRef, ir.Ensure, ir.Swap,
    ir.Copy, ir.Gemm, ir.Check, ir.Seq, ir.For, ir.While, ir.If, kir.Guarded, kir.Stride, kir.Single, kir.Sync,
    kir.LastBlock, kir.Atomic, kir.Functor, kir.Tile, kir.Function, kir.Together, kir.ScanAll, kir.Transpose,
    kir.Locked, kir.RowsOut, kir.Stop, kir.ByWarps,
)  # fmt: skip


def qualifiers(module: DeviceModule) -> dict[Kernel, dict[str, str]]:
    """For each kernel, of which parameters what is known: `CONST` or `DISJOINT`."""
    host = _Host()
    for f in module.functions:
        host.block(f.body, [{kir.MEASURES: kir.MEASURES, **{p.name: p.name for p in f.params if p.rank}}])
    return {k: {} if k in host.unknown else _of_kernel(k, host.shared.get(k, set())) for k in module.kernels}


State = dict[str, str | int]  # the memory that pointers and slot variables are of: a slot, or a parameter's name


class _Host:
    """Host code run on what pointers point to, in all the ways that branches and loops allow.

    `shared`: for each kernel the pairs of parameters that are of the same memory in some launch; `unknown`: those of
    which that is not known.
    """

    def __init__(self) -> None:
        self.shared: dict[Kernel, set[frozenset[str]]] = {}
        self.unknown: set[Kernel] = set()

    def block(self, body: Sequence[ir.Stmt], states: list[State]) -> list[State]:
        for s in body:
            if isinstance(s, ir.If):
                states = _different([x for side in (s.then, s.orelse) for x in self.scoped(side, states)])
            elif isinstance(s, (ir.For, ir.While)):
                seen, new = states, states
                while new:
                    new = _different(self.scoped(s.body, new), seen)
                    seen = [*seen, *new]
                    if len(seen) > MOST_STATES:
                        self.forget([s])
                        break
                states = seen
            elif isinstance(s, ir.Seq):
                states = self.block(s.body, states)
            else:
                for state in states:
                    self.stmt(s, state)
            if len(states) > MOST_STATES:
                self.forget(body)
                return states[:1]
        return states

    def scoped(self, body: Sequence[ir.Stmt], states: list[State]) -> list[State]:
        """The states after a nested body, of which what is declared there is gone."""
        own = {n for s in body for n in s.defines()}
        after = self.block(body, [dict(x) for x in states])
        return _different([{n: m for n, m in x.items() if n not in own} for x in after])

    def stmt(self, s: ir.Stmt, state: State) -> None:
        match s:
            case ir.Ensure(name, slot=slot) | ir.SlotRef(name, slot):
                self.set(state, name, slot if isinstance(slot, int) else state.get(slot))
            case ir.Pointer(name, base=base) | ir.SetPointer(name, base):
                self.set(state, name, None if base is None else state.get(base))
            case ir.Swap(left, right):
                x, y = state.get(left), state.get(right)
                self.set(state, left, y)
                self.set(state, right, x)
            case kir.Launch(kernel):
                self.launch(kernel, state)

    def set(self, state: State, name: str, memory: str | int | None) -> None:
        if memory is None:
            state.pop(name, None)
        else:
            state[name] = memory

    def launch(self, k: Kernel, state: State) -> None:
        own = {x.name: x.slot for x in k.scratch}
        given = {n: own.get(n, state.get(n)) for n, _, pointer in k.params if pointer}
        if None in given.values():
            self.unknown.add(k)
        pairs = combinations(given, 2)
        self.shared.setdefault(k, set()).update(frozenset(p) for p in pairs if given[p[0]] == given[p[1]])

    def forget(self, body: Sequence[ir.Stmt]) -> None:
        """There are too many states to look at all."""
        self.unknown.update(s.kernel for s in statements(body) if isinstance(s, kir.Launch))


def _different(states: Sequence[State], seen: Sequence[State] = ()) -> list[State]:
    """The states without repetitions, and without those seen."""
    known = {frozenset(x.items()) for x in seen}
    out: list[State] = []
    for x in states:
        key = frozenset(x.items())
        if key not in known:
            known.add(key)
            out.append(x)
    return out


@dataclass(slots=True)
class _Accesses(UnionFind[str]):
    """What a kernel does with its pointers."""

    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    def stmt(self, s: ir.Stmt) -> None:
        self.read.update(s.reads())
        self.written.update(s.writes())
        match s:
            case ir.Pointer(name, base=base) | ir.SetPointer(name, base):
                if base is not None:
                    self.join(name, base)
            case ir.Swap(left, right):
                self.join(left, right)


def accesses(body: Iterable[ir.Stmt]) -> _Accesses | None:
    """What statements do with pointers; None if that is not known."""
    out = _Accesses()
    for s in body:
        if type(s) not in _KNOWN:
            return None
        out.stmt(s)
    return out


def _of_kernel(k: Kernel, shared: set[frozenset[str]]) -> dict[str, str]:
    a = accesses(statements(k.body))
    if a is None:
        return {}
    pointers = [n for n, _, pointer in k.params if pointer]
    read, written = {a.find(n) for n in a.read}, {a.find(n) for n in a.written}
    out: dict[str, str] = {}
    for n in pointers:
        same = [m for m in pointers if m != n and (frozenset((m, n)) in shared or a.find(m) == a.find(n))]
        if a.find(n) not in written:
            if READ_ONLY(not any(a.find(m) in written for m in same)):
                out[n] = CONST
        elif ALONE(a.find(n) not in read and not same):
            out[n] = DISJOINT
    if out:
        LEGAL.fired()
    return out


def constant_names(k: Kernel, found: dict[str, str]) -> set[str]:
    """The pointers of a kernel through which it only reads, those declared inside included."""
    a = accesses(statements(k.body))
    if a is None:
        return set()
    good = {a.find(n) for n, q in found.items() if q == CONST}
    bad = {a.find(n) for n, _, pointer in k.params if pointer and found.get(n) != CONST}
    names = {n for n, _, _ in k.params} | {d for s in statements(k.body) for d in s.defines()}
    return {n for n in names if a.find(n) in good - bad}


__all__ = ["DISJOINT", "CONST", "constant_names", "qualifiers"]
