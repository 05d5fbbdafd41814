"""The functions that a function becomes: steps, which whoever calls runs, and phases, which are run for each shard.

    step 0, phase 0 on all shards, its partial values combined two by two, step 1, phase 1, ...

A phase gets the shard's part of the arguments and what steps have made, and computes again what it needs of sharded
values of earlier phases: nothing is kept on workers, so any worker may run any phase of any shard, and the data may be
larger than all memory.  All are entries of one program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import I64, ArrayType, Atom, Const, Prim, Type, Var, elem_of, shape_of, subst_type
from futad.distributed import rules
from futad.distributed.classes import SAME, How, Partial, Replicated, Sharded, class_text
from futad.distributed.places import place_of
from futad.distributed.split import Splitter, is_cheap, sizes_in
from futad.errors import Span, UsageError

_ = rules  # they register themselves
WHOLE, START, FIRST = "whole", "start", "first"  # of phases: n, a shard's first row, if it is the first
LOCAL, LEFT, RIGHT = "rows", "left", "right"  # the shard's n; what is combined

Input = tuple[str, int]  # what it is, and which one: ("value", slot), ("row", parameter), ("left", output), ...


@dataclass(slots=True)
class Part:
    """A function of the split program: `inputs` in order, and the slots of what it makes.

    `dims`: of a phase's outputs that are sharded the dimension, None for partial ones.
    """

    name: str
    inputs: list[Input] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    dims: list[int | None] = field(default_factory=list)


@dataclass(slots=True)
class Phase:
    """One phase.  `step` runs before it, `combine` on pairs of its partial outputs.

    `sums`: for people, what is combined and how; `places`: where in the source.
    """

    step: Part | None
    run: Part
    combine: Part | None
    sums: list[str] = field(default_factory=list)
    places: list[Span] = field(default_factory=list)
    statements: int = 0


@dataclass(slots=True)
class Plan:
    """How a function is run on shards.

    `params`: of each core parameter the dimension that is split, None for a replicated one; `over`: the parameter that
    is the size; `results`: a slot or a number for each core result.
    """

    size: str
    over: int
    params: list[int | None]
    phases: list[Phase]
    last: Part | None
    results: list[tuple[str, Any]]
    texts: list[str] = field(default_factory=list)


def split(program: ir.Program, name: str, size: str) -> tuple[Plan, ir.Program]:
    """The plan of a function of a program (after derivatives are expanded) for a size, and the program of its parts.

    Raises UsageError if it has no such size, UnsupportedError with the place where it does not split.
    """
    return _Cutter(program, program.funs[name], size).cut()


class _Cutter:
    def __init__(self, program: ir.Program, fun: ir.Fun, size: str) -> None:
        self.program, self.fun = program, fun
        names = [v.name for v in fun.body.params if v.type is I64]
        if size not in names:
            sizes = ", ".join(names) or "none"
            raise UsageError(f"{fun.name} has no size or i64 parameter called '{size}'; there are: {sizes}")
        self.n = next(v for v in fun.body.params if v.name == size and v.type is I64)
        self.sp = sp = Splitter(self.n, size, fun)
        self.items = sp.scope(fun.body.stms)
        self.whole = Var(f"{size}_whole", I64)
        sp.classes[sp.first] = sp.classes[sp.offset] = Replicated(0)
        self.definer = {v: i for i, item in enumerate(self.items) for v in item.stm.pat}
        self.slots: dict[Var, int] = {}
        self.funs: dict[str, ir.Fun] = {n: f for n, f in program.funs.items() if f.entry is None}
        for a in fun.body.result:
            if isinstance(a, Var) and a is not self.n and not isinstance(sp.of(a), Sharded):
                sp.known(a)
        self.levels = max([i.level for i in self.items if i.shard], default=-1) + 1

    def slot(self, v: Var) -> int:
        return self.slots.setdefault(v, len(self.slots))

    # -- what is needed

    def canonical(self, v: Var) -> Var:
        """The variable that holds the value when it is combined."""
        c = self.sp.classes.get(v)
        if isinstance(c, Partial) and c.how.fold is not None:
            g = c.how.group[c.how.index]
            assert isinstance(g, Var)
            return g
        return v

    def in_shard(self, v: Var, level: int) -> bool:
        """Whether a phase computes a variable itself."""
        i = self.definer.get(v)
        if i is None:
            return False
        item = self.items[i]
        if not item.shard:
            return is_cheap(item.stm.exp)
        c = self.sp.classes[v]
        return not (isinstance(c, Partial) and c.level < level)

    def slice(self, outputs: Iterable[Var], level: int, shard: bool) -> tuple[list[int], dict[Var, None]]:
        """The statements that compute the outputs, by number, and the variables that come from elsewhere."""
        found: set[int] = set()
        outside: dict[Var, None] = {}
        todo = list(outputs)
        effects = [i for i, t in enumerate(self.items) if t.stm.exp.effect and (t.level, t.shard) == (level, shard)]
        found.update(effects)
        todo += [v for i in effects for v in ir.stm_free(self.items[i].stm)]
        while todo:
            v = todo.pop(0)
            i = self.definer.get(v)
            here = i is not None and (
                self.in_shard(v, level) if shard else not self.items[i].shard and self.items[i].level == level
            )
            if not here:
                if v not in outside:
                    outside[v] = None
                    todo += [s for s in shape_of(v.type) if isinstance(s, Var)]
            elif i is not None and i not in found:
                found.add(i)
                todo += ir.stm_free(self.items[i].stm)
        return sorted(found), outside

    def is_input(self, v: Var) -> bool:
        """Whether it is a parameter, or made for each shard."""
        return v in self.fun.body.params or v in (self.n, self.sp.first, self.sp.offset)

    # -- the parts

    def cut(self) -> tuple[Plan, ir.Program]:
        sp, body = self.sp, self.fun.body
        if not self.levels:
            raise UsageError(f"nothing in {self.fun.name} depends on data of size '{sp.size}'")
        ends = [self.canonical(a) for a in body.result if isinstance(a, Var) and a is not self.n]
        # What is needed whole, by steps and results, from the last phase to the first.
        whole: dict[Var, None] = dict.fromkeys([v for v in ends if not isinstance(sp.classes[v], Sharded)])
        outs: list[list[Var]] = [[] for _ in range(self.levels)]
        cuts: dict[int, tuple[list[int], dict[Var, None]]] = {}
        steps: dict[int, tuple[list[int], dict[Var, None]]] = {}
        for level in range(self.levels, -1, -1):
            if level < self.levels:
                wanted = [v for v in whole if isinstance(c := sp.classes[v], Partial) and c.level == level]
                wanted = list(dict.fromkeys([g for v in wanted for g in self.group(v)]))
                wanted += [v for v in ends if isinstance(c := sp.classes[v], Sharded) and c.level == level]
                outs[level] = [v for v in dict.fromkeys(wanted) if not self.is_input(v)]
                cuts[level] = self.slice(outs[level], level, True)
                whole |= dict.fromkeys([self.canonical(v) for v in cuts[level][1] if not self.is_input(v)])
                for v in outs[level]:
                    how = self.how(v)
                    frees = how.fold.lam.free() if how is not None and how.fold is not None else {}
                    whole |= dict.fromkeys([f for f in frees if not self.is_input(f)])
            made = [v for v in whole if (i := self.definer.get(v)) is not None and not self.items[i].shard
                    and self.items[i].level == level]  # fmt: skip
            steps[level] = self.slice(made, level, False)
            whole |= dict.fromkeys([self.canonical(v) for v in steps[level][1] if not self.is_input(v)])
        phases = []
        for level in range(self.levels):
            step = self.step(level, steps[level], whole)
            run = self.phase(level, cuts[level], outs[level])
            sums = [v for v in outs[level] if self.how(v) is not None]
            combine = self.combine(level, sums) if sums else None
            phase = Phase(step, run, combine)
            phase.sums = [f"{v.name}: {_type_text(v.type)}, {class_text(sp.classes[v])}" for v in outs[level]]
            found = [place_of(self.items[i].stm) for i in cuts[level][0] if self.items[i].shard]
            phase.places = list(dict.fromkeys([p for p in found if p is not None]))
            phase.statements = len(found)
            phases.append(phase)
        last = self.step(self.levels, steps[self.levels], whole)
        results = [self.end(a) for a in body.result]
        params = [sp.dim_of(p.type, None) for p in body.params]
        plan = Plan(sp.size, body.params.index(self.n), params, phases, last, results, self.texts())
        return plan, ir.Program(self.funs, self.program.name)

    def end(self, a: Atom) -> tuple[str, Any]:
        if isinstance(a, Const):
            return "number", a.type.dtype.type(a.value)
        if a is self.n or self.is_input(a):
            return "argument", self.fun.body.params.index(a)
        return "value", self.slot(self.canonical(a))

    def how(self, v: Var) -> How | None:
        c = self.sp.classes[v]
        return c.how if isinstance(c, Partial) else None

    def group(self, v: Var) -> list[Var]:
        how = self.how(v)
        return [g for g in how.group if isinstance(g, Var)] if how is not None and how.fold is not None else [v]

    def value(self, v: Var) -> Input:
        if v is self.n:
            return WHOLE, 0
        if v in self.fun.body.params:
            return ("row" if isinstance(self.sp.of(v), Sharded) else "argument"), self.fun.body.params.index(v)
        return "value", self.slot(self.canonical(v))

    def step(self, level: int, cut: tuple[list[int], dict[Var, None]], whole: dict[Var, None]) -> Part | None:
        members, outside = cut
        outputs = [v for i in members for v in self.items[i].stm.pat if v in whole]
        if not members:
            return None
        params = _ordered(outside)
        part = Part(f"step_{level}", [self.value(v) for v in params])
        outputs = _sized(outputs, params)
        part.outputs = [self.slot(v) for v in outputs]
        stms = tuple([self.items[i].stm for i in members])
        self.declare(part.name, ir.Lambda(tuple(params), stms, tuple(outputs)))
        return part

    def phase(self, level: int, cut: tuple[list[int], dict[Var, None]], outputs: list[Var]) -> Part:
        members, outside = cut
        sp = self.sp
        stms = tuple([self.apart(self.localised(self.items[i].stm), level) for i in members])
        free = dict.fromkeys([v for v in _free(stms, outputs)])
        params = _ordered(free)
        special = {self.n: (LOCAL, 0), self.whole: (WHOLE, 0), sp.first: (FIRST, 0), sp.offset: (START, 0)}
        part = Part(f"phase_{level}", [special[v] if v in special else self.value(v) for v in params])
        outputs = _sized(outputs, params)
        part.outputs = [self.slot(v) for v in outputs]
        part.dims = [c.dim if isinstance(c := sp.classes[v], Sharded) else None for v in outputs]
        self.declare(part.name, ir.Lambda(tuple(params), stms, tuple(outputs)))
        return part

    def combine(self, level: int, sums: list[Var]) -> Part:
        """The function from two partial values each to one."""
        b = Builder()
        left = {v: Var(f"{v.name}_left", v.type) for v in sums}
        right = {v: Var(f"{v.name}_right", v.type) for v in sums}
        made: dict[Var, Atom] = {}
        for v in sums:
            how = self.how(v)
            assert how is not None
            if how.fold is not None and v not in made:
                group = self.group(v)
                found = _folded(b, how.fold, how.depth, [left[g] for g in group], [right[g] for g in group])
                made |= dict(zip(group, found, strict=True))
            elif how.fold is None:
                made[v] = left[v] if how == SAME else _elementwise(b, how.op, left[v], right[v])
        free = [v for v in _free(tuple(b.stms), [*left.values(), *right.values()]) if v not in left.values()]
        params = _ordered([v for v in free if v not in right.values()]) + [*left.values(), *right.values()]
        scalars = [v for v in params if isinstance(v.type, Prim)]
        params = scalars + [v for v in params if v not in scalars]
        sides = {**{x: (LEFT, i) for i, x in enumerate(left.values())},
                 **{x: (RIGHT, i) for i, x in enumerate(right.values())}}  # fmt: skip
        part = Part(f"combine_{level}", [sides[v] if v in sides else self.value(v) for v in params])
        part.outputs = [self.slot(v) for v in sums]
        self.declare(part.name, ir.Lambda(tuple(params), tuple(b.stms), tuple([made[v] for v in sums])))
        return part

    def declare(self, name: str, lam: ir.Lambda) -> None:
        lam = ir.rename(lam)
        mapping: dict[Var, Atom] = {}
        ret = []
        for a in lam.result:
            v = Var(a.name if isinstance(a, Var) else "r", subst_type(a.type, mapping))
            if isinstance(a, Var):
                mapping.setdefault(a, v)
            ret.append(v)
        types = tuple([(f"{v.name}_{i}", _entry_type(v.type)) for i, v in enumerate(lam.params)])
        fields = tuple([(str(i), _entry_type(v.type)) for i, v in enumerate(ret)])
        entry = ir.Entry(name, types, ir.EntryType("tuple", name, None, (), fields), (), "")
        self.funs[name] = ir.Fun(name, lam, 0, tuple(ret), entry)

    def apart(self, s: ir.Stm, level: int) -> ir.Stm:
        """A statement of an earlier phase again, for its sharded values: its partial ones are not the combined ones."""
        def again(v: Var) -> bool:
            return isinstance(c := self.sp.classes[v], Partial) and c.level < level

        return ir.Stm(tuple([Var(v.name, v.type, v.at) if again(v) else v for v in s.pat]), s.exp, s.attrs)

    def localised(self, s: ir.Stm) -> ir.Stm:
        """A statement in a phase: the number n is that of all data, the size n the shard's."""
        if self.n not in ir.stm_free(s):
            return s
        e = s.exp

        def scope(lam: ir.Lambda) -> ir.Lambda:
            return ir.Lambda(lam.params, tuple([self.localised(t) for t in lam.stms]), tuple(map(number, lam.result)))

        def number(a: Atom) -> Atom:
            return self.whole if a is self.n else a

        new = e.rebuild(number, scope)
        if self.n in sizes_in(e):
            for f in ("width", "count", "size", "shape", "sizes"):
                if f in e.kinds:
                    setattr(new, f, getattr(e, f))
            if isinstance(e, ir.At | ir.Update) and isinstance(new, ir.At | ir.Update):
                index = [Range(j.start, i.count, j.stride) if isinstance(i, Range) and isinstance(j, Range) else j
                         for i, j in zip(e.index, new.index, strict=True)]
                new.index = tuple(index)
        return ir.Stm(s.pat, new, s.attrs)

    def texts(self) -> list[str]:
        """The classes of the values that have a name in the source, one a line."""
        out = []
        for item in self.items:
            for v in item.stm.pat:
                where = f"phase {item.level}" if item.shard else f"step {item.level}"
                at = f" ({v.at})" if v.at is not None else ""
                out.append(f"{where}: {v.name}: {_type_text(v.type)}, {class_text(self.sp.classes[v])}{at}")
        return out


def _ordered(vs: Iterable[Var]) -> list[Var]:
    """Parameters in an order in which sizes come before types that have them."""
    every = list(dict.fromkeys(vs))
    for v in list(every):
        every += [s for s in shape_of(v.type) if isinstance(s, Var)]
    every = list(dict.fromkeys(every))
    return [v for v in every if isinstance(v.type, Prim)] + [v for v in every if not isinstance(v.type, Prim)]


def _sized(outputs: Sequence[Var], params: Sequence[Var]) -> list[Var]:
    """Results in an order in which sizes come first, those that are no parameters being results too."""
    sizes = [s for v in outputs for s in shape_of(v.type) if isinstance(s, Var) and s not in params]
    return list(dict.fromkeys([*sizes, *outputs]))


def _free(stms: tuple[ir.Stm, ...], outputs: Sequence[Var]) -> list[Var]:
    """The variables that statements and what they make need from outside."""
    bound = {v for s in stms for v in s.pat}
    used = dict.fromkeys([v for s in stms for v in ir.stm_free(s)])
    used |= dict.fromkeys(outputs)
    used |= dict.fromkeys([s for v in outputs for s in shape_of(v.type) if isinstance(s, Var)])
    return [v for v in used if v not in bound]


def _elementwise(b: Builder, op: str, x: Atom, y: Atom) -> Atom:
    if isinstance(x.type, Prim):
        return b.op(op, x, y)
    return b.zip_with(lambda c, u, v: _elementwise(c, op, u, v), x, y)


def _folded(b: Builder, fold: ir.Fold, depth: int, xs: Sequence[Atom], ys: Sequence[Atom]) -> Sequence[Atom]:
    """An operator of several values, mapped over `depth` dimensions."""
    if not depth:
        return b.inline(fold.lam, (*xs, *ys))
    k = len(xs)
    return b.map_(lambda c, *rows: _folded(c, fold, depth - 1, rows[:k], rows[k:]), *xs, *ys)


def _entry_type(t: Type) -> ir.EntryType:
    scalar = ir.EntryType("scalar", elem_of(t).name, elem_of(t))
    if not isinstance(t, ArrayType):
        return scalar
    return ir.EntryType("array", _type_text(t), scalar, (None,) * t.rank)


def _type_text(t: Type) -> str:
    names = [str(s.value) if isinstance(s, Const) else s.name for s in shape_of(t)]
    return "".join(f"[{x}]" for x in names) + elem_of(t).name


__all__ = ["Part", "Phase", "Plan", "split"]
