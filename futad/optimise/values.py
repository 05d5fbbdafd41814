"""Value numbers: equal numbers of two scopes' variables are equal values.

Scopes that are compared share a `Table`.  What is not understood has a number of its own.  Sums and differences of i32s
and of i64s are linear forms of others, as integers of so many bits are a ring: the order of sums does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from futad.core import ir
from futad.core.ir import Stm
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.types import I32, I64, AccType, Atom, Const, Prim, Var
from futad.legality import Legality

LEGAL = Legality("value-numbers", "values of two scopes are found to be equal", fires=False)
SAME_PLACE = LEGAL.condition("element read was written", "the element read is not the one the update wrote")
SAME_MAP = LEGAL.condition("element of the same map", "another map's element of the same array is taken for this one's")
READ_AT_ITERATION = LEGAL.condition("read at the iteration", "another iteration's value is read from the history")


READ = 3  # scalar operations that reading an element costs


class Table:
    """The numbers of keys: a tag, then numbers, names and atoms.  `varies`: of which the value is one of an element of
    a map's arrays."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.keys: list[tuple[Any, ...]] = []
        self.varies: list[bool] = []

    def linear(self, t: Prim, constant: int, terms: dict[int, int]) -> int:
        """The number of a linear form of integers of type `t`."""
        constant, terms = _wrapped(t, constant), {n: c for n, k in terms.items() if (c := _wrapped(t, k))}
        if not terms:
            return self.number("variable", Const(t, constant))
        if not constant and [*terms.values()] == [1]:
            return next(iter(terms))
        return self.number("linear", constant, *sorted(terms.items()))

    def form(self, number: int) -> tuple[int, dict[int, int]]:
        """The linear form that a number is of: a constant, and coefficients of values by their numbers."""
        tag, *parts = self.keys[number]
        if tag == "linear":
            return parts[0], dict(parts[1:])
        return (parts[0].value, {}) if tag == "variable" and type(parts[0]) is Const else (0, {number: 1})

    def number(self, *key: Any) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.keys)
            self.keys.append(key)
            parts = key[2:] if key[0] == "op" else [n for n, _ in key[2:]] if key[0] == "linear" else []
            self.varies.append(key[0] == "element" or any(self.varies[k] for k in parts))
        return self.numbers[key]


def _wrapped(t: Prim, x: int) -> int:
    """As a signed integer of the type's size."""
    half = 1 << (8 * t.bytes - 1)
    return (x + half) % (2 * half) - half


class Values:
    """The numbers of a scope's variables.  `iterations`: those that are the number of a loop's iteration.  `saved`:
    arrays with a row an iteration, and the number of what the row of this iteration is.  `outside`: definitions around
    the scopes."""

    def __init__(self, table: Table, iterations: Iterable[Atom] = (), outside: dict[Var, ir.Exp] | None = None) -> None:
        self.table = table
        self.outside = outside or {}
        self.number = table.number
        self.iteration = table.number("iteration")
        self.of: dict[Atom, int] = dict.fromkeys(iterations, self.iteration)
        self.saved: dict[Atom, int] = {}

    def inner(self) -> Values:
        """Numbers for a scope inside."""
        new = Values(self.table)
        new.of, new.saved = dict(self.of), self.saved
        return new

    def atom(self, a: Atom | Range) -> int:
        if isinstance(a, Range):
            return self.number("range", self.atom(a.start), self.atom(a.count), self.atom(a.stride))
        return self.of[a] if a in self.of else self.number("variable", a)

    def sum(self, t: Prim, a: int, b: int, sign: int) -> int:
        """The number of a + b or a - b, integers of type `t`, from theirs."""
        (x, left), (y, right) = self.table.form(a), self.table.form(b)
        terms = {n: left.get(n, 0) + sign * right.get(n, 0) for n in (*left, *right)}
        return self.table.linear(t, x + sign * y, terms)

    def forwards(self, counter: Var) -> int:
        """The number of an iteration is the counter, of any integer type."""
        t = counter.type
        assert isinstance(t, Prim)
        return self.of.setdefault(counter, self.iteration if t is I64 else self.number("iteration", t))

    def backwards(self, counter: Var, iteration: Var, last: Atom) -> None:
        """The number of an iteration is a variable that is `last - counter`."""
        t = counter.type
        assert isinstance(t, Prim)
        self.of[counter] = self.sum(t, self.atom(last), self.forwards(iteration), -1)

    def note(self, s: Stm) -> None:
        """Number what a statement binds."""
        e = s.exp
        match e:
            case ir.Op("add" | "sub", (a, b)) if s.pat[0].type in (I32, I64):
                sign = 1 if e.op == "add" else -1
                self.of.setdefault(s.pat[0], self.sum(s.pat[0].type, self.atom(a), self.atom(b), sign))
            case ir.Op(op, args):
                self.of.setdefault(s.pat[0], self.number("op", op, *map(self.atom, args)))
            case ir.Alias(a) | ir.Copy(a):
                self.of[s.pat[0]] = self.atom(a)
            case ir.At(a, index):
                places = [*map(self.atom, index)]
                if a in self.saved and READ_AT_ITERATION(places[0] == self.iteration):
                    self.of[s.pat[0]] = self.at(self.saved[a], places[1:])
                else:
                    self.of[s.pat[0]] = self.at(self.atom(a), places)
            case ir.Update(a, index, value):
                self.of[s.pat[0]] = self.number("update", self.atom(a), self.atom(value), *map(self.atom, index))
            case ir.ArrayLit(elems) if elems:
                self.of[s.pat[0]] = self.number("literal", *map(self.atom, elems))
            case ir.Replicate(shape, value):
                self.of[s.pat[0]] = self.number("replicate", self.atom(value), *map(self.atom, shape))
            case ir.Reshape(a, shape):
                self.of[s.pat[0]] = self.number("reshape", self.atom(a), *map(self.atom, shape))
            case ir.MatMul(a, b, ()):
                self.of[s.pat[0]] = self.number("matmul", self.atom(a), self.atom(b))
            case ir.Map():
                inside = self.mapped(e)
                for v, r in zip(s.pat, e.lam.result, strict=True):
                    self.of[v] = self.number("map", self.atom(e.width), inside.atom(r))

    def at(self, array: int, places: list[int]) -> int:
        """An element or row of an array, by what updates have written there."""
        while places and self.table.keys[array][0] == "update":
            _, before, value, *written = self.table.keys[array]
            if not SAME_PLACE(places[: len(written)] == written):
                break
            array, places = value, places[len(written) :]
        if not places:
            return array
        kind, *parts = self.table.keys[array]
        return self.number("at", *parts, *places) if kind == "at" else self.number("at", array, *places)

    def mapped(self, e: ir.Mapping) -> Values:
        """Numbers in a map, of scalar operations as functions of its inputs' elements: so that it does not matter what
        was fused."""
        inside = self.inner()
        for p, a in zip(e.lam.params, e.arrays, strict=True):
            kind, *parts = self.table.keys[self.atom(a)]
            inside.of[p] = parts[1] if kind == "map" else self.number("element", self.atom(a))
        for s in e.lam.stms:
            if type(s.exp) is ir.Op:
                inside.note(s)
        return inside


class NestedValues(Values):
    """Numbers also of what maps compute by maps and folds inside, and of what is added to accumulators.

    How many maps are around is a map's level; an element of a map of one level is a function of its place, whichever
    map it is of.  The parameters of an operator have numbers by the level of its scope and their places.
    """

    level = 0

    def atom(self, a: Atom | Range) -> int:
        if type(a) is Var and a not in self.of and isinstance(e := self.outside.get(a), ir.Iota | ir.Replicate):
            self.note(Stm((a,), e))  # as scopes have their own, too
        return super().atom(a)

    def inner(self) -> NestedValues:
        new = NestedValues(self.table, outside=self.outside)
        new.of, new.saved, new.level = dict(self.of), self.saved, self.level + 1
        return new

    def note(self, s: Stm) -> None:
        e = s.exp
        match e:
            case ir.Map():
                inside = self.mapped(e)
                for v, r in zip(s.pat, e.lam.result, strict=True):
                    self.of[v] = self.number("map", self.atom(e.width), inside.level, inside.atom(r))
            case ir.Reduce():
                inside = self.inner()
                for k, p in enumerate(e.lam.params):
                    inside.of[p] = self.number("parameter", inside.level, k)
                for t in e.lam.stms:
                    inside.note(t)
                parts = [*map(inside.atom, e.lam.result), self.atom(e.width), *map(self.atom, (*e.neutral, *e.arrays))]
                for k, v in enumerate(s.pat):
                    self.of[v] = self.number("reduce", k, *parts)
            case ir.WithAcc():
                for p, a in zip(e.lam.params, e.arrays, strict=True):
                    self.of[p] = self.number("accumulator", e.op, self.atom(a))
                for t in e.lam.stms:
                    self.note(t)
                for v, r in zip(s.pat, e.lam.result, strict=True):
                    self.of[v] = self.number("closed", self.atom(r)) if type(r.type) is AccType else self.atom(r)
            case ir.UpdateAcc(acc, index, value):
                self.of[s.pat[0]] = self.number("added", self.atom(acc), self.atom(value), *map(self.atom, index))
            case ir.If(cond, then, orelse):
                for t in (*then.stms, *orelse.stms):
                    self.note(t)
                for v, a, b in zip(s.pat, then.result, orelse.result, strict=True):
                    self.of[v] = self.number("if", *map(self.atom, (cond, a, b)))
            case ir.Rearrange(a, perm):
                self.of[s.pat[0]] = self.number("rearrange", perm, self.atom(a))
            case ir.Iota(count, start, step):
                self.of[s.pat[0]] = self.number("iota", *map(self.atom, (count, start, step)))
            case _:
                super().note(s)

    def mapped(self, e: ir.Mapping) -> NestedValues:
        inside = self.inner()
        for p, a in zip(e.lam.params, e.arrays, strict=True):
            key = self.table.keys[self.atom(a)]
            same = key[0] == "map" and type(p.type) is not AccType and SAME_MAP(key[2] == inside.level)
            inside.of[p] = key[3] if same else self.number("element", inside.level, self.atom(a))
        for s in e.lam.stms:
            inside.note(s)
        return inside


def computed(
    table: Table, params: Iterable[Var], arrays: Iterable[Atom], stms: Iterable[Stm]
) -> dict[Var, tuple[int, int]]:
    """What a map's body computes of elements by scalar operations, and of other elements that it reads: the number of
    each, and its cost with that of what it is made of."""
    values = Values(table)
    for p, a in zip(params, arrays, strict=True):
        values.of[p] = table.number("element", a)
    costs: dict[Atom, int] = {}
    out: dict[Var, tuple[int, int]] = {}
    for s in stms:
        if isinstance(s.exp, ir.At):
            values.note(s)
            costs[s.pat[0]] = READ
        if isinstance(s.exp, ir.Op):
            values.note(s)
            (v,) = s.pat
            costs[v] = OPS[s.exp.op].cost + sum([costs.get(a, 0) for a in s.exp.args])
            if table.varies[values.of[v]]:
                out[v] = values.of[v], costs[v]
    return out


__all__ = ["NestedValues", "Table", "Values", "computed"]
