"""Derivatives by running the program: the interpreter over dual numbers.

`DualInterpreter` runs a core program as it was before any pass, `Jvp` and `Vjp` in it or not.  A derivative is a level:
its arguments become duals of that level, the function runs as any other code does, and what the results have become
tells the derivative: tangents, or backpropagators that are resolved then (`resolve.py`).  All constructs have the
interpreter's own rules, which move duals as they move arrays (`numbers.py`); only those that take derivatives, bring
one of their own, or fork tasks have rules here.  No rule of `futad/ad/` is used, nor of any other pass.

A map's body is evaluated once for all its iterations, so a statement in it is one backpropagator of as many elements
(Note [Batched evaluation] in `core/interp_machine.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.interp import HANDLERS, TOP, Interpreter, Value
from futad.core.interp_machine import Scope, Values, lift_value, rank_of
from futad.core.scalarops import ScalarOp
from futad.core.types import Atom, Var
from futad.dual import numbers
from futad.dual.numbers import Dual, at_level, under
from futad.dual.resolve import Counts, Level, Node, Reverse
from futad.registry import registering


class DualInterpreter(Interpreter):
    """Runs functions of a program with derivatives; `counts` are those of the last run.  With `threads` the branches of
    forks are resolved at once, where no derivative is inside another."""

    handlers = dict(HANDLERS)

    def __init__(self, program: ir.Program, *, threads: int = 1) -> None:
        super().__init__(program)
        self.threads = threads
        self.counts_of_run = Counts()
        self.open: list[Level] = []  # the derivatives being taken, outermost first
        self.again = False  # whether this is one more run of the same, for another direction

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        self.counts_of_run = Counts()
        self.open.clear()
        return super().run(name, args)

    def gradient(self, name: str, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The results of a function, and the gradient of the sum of all their floats: an array or scalar for each
        parameter of floats, None for others.  Raises as `run` does."""
        return self.deeply(self._gradient)(name, args)

    def _gradient(self, name: str, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        fun = self.program.funs[name]
        self.counts_of_run = Counts()
        self.open.clear()
        self.env = {}
        self.steps = self.calls = 0
        with np.errstate(all="ignore"):
            with self.level(True) as level:
                values = [self._input(p, a, False) for p, a in zip(fun.body.params, args, strict=True)]
                leaves = [level.leaf(v) if v.dtype.kind == "f" else None for v in values]
                duals = [v if n is None else Dual(level, v, n) for v, n in zip(values, leaves, strict=True)]
                try:
                    results = self.apply(fun.body, duals, TOP)
                finally:
                    self.show_traces()
            floats = [r for r in results if at_level(level, r) and r.dtype.kind == "f"]
            level.resolve([(r.slope, np.ones(r.shape, r.dtype)) for r in floats])
        zero = [None if n is None else np.zeros(n.shape, n.dtype) for n in leaves]
        found = [z if n is None or n.adjoint is None else n.adjoint for n, z in zip(leaves, zero, strict=True)]
        self.env.clear()
        return [numbers.plain(r) for r in results], [x if x is None or x.ndim else x[()] for x in found]

    # -- what values with derivatives do otherwise

    def evaluate(self, record: ScalarOp, args: Sequence[Value]) -> Value:
        return numbers.operate(record, args)

    def plain(self, v: Value) -> Value:
        return numbers.plain(v)

    def folds(self, op: str | None, values: Values) -> bool:
        return op == "add" or op is not None and numbers.top(values) is None

    def store(self, array: Value, at: Any, value: Value) -> Value:
        return numbers.put(array, at if isinstance(at, tuple) else (at,), value)

    def add_at(self, ufunc: np.ufunc, array: Value, at: Any, value: Value) -> Value:
        if numbers.top((array, value)) is None:
            return super().add_at(ufunc, array, at, value)
        return numbers.add_at(array, at, value)

    def print_trace(self, tag: str, value: Value) -> None:
        if not self.again:
            super().print_trace(tag, value)

    # -- derivatives

    @contextmanager
    def level(self, reverse: bool) -> Iterator[Any]:
        """While a derivative is taken."""
        number = len(self.open) + 1
        threads = self.threads if number == 1 else 1
        made = Reverse(number, counts=self.counts_of_run, threads=threads) if reverse else Level(number)
        self.open.append(made)
        try:
            yield made
        finally:
            self.open.pop()

    def whole(self, a: Atom, sc: Scope) -> Value:
        """A value of all iterations, each with its own."""
        v = lift_value(self.value(a), rank_of(a.type), sc.depth)
        return numbers.broadcast(v, sc.batch + v.shape[sc.depth :])

    @contextmanager
    def bound(self, values: dict[Var, Value]) -> Iterator[None]:
        """While variables have other values."""
        outer, self.env = self.env, {**self.env, **values}
        try:
            yield
        finally:
            self.env = outer


_handler: Any = registering(DualInterpreter.handlers)


def _fresh(values: Values) -> list[Value]:
    """Results that share memory with nothing, as those of other constructs do."""
    return [v.copy() if v.ndim else v[()] for v in values]


def _directions(m: DualInterpreter, e: ir.Jvp | ir.Vjp, sc: Scope) -> tuple[tuple[int, ...], list[tuple[Any, ...]]]:
    """The numbers of directions, and the index of each, iterations first."""
    dims = m.sizes(e.many, sc)
    return dims, [(slice(None),) * sc.depth + d for d in np.ndindex(*dims)]


def _gathered(rows: Sequence[Value], dims: tuple[int, ...], like: Value, sc: Scope) -> Value:
    """The derivatives along all directions as one value; `like` has the shape of one."""
    if not dims:
        return rows[0]
    shape = like.shape[: sc.depth] + dims + like.shape[sc.depth :]
    if not rows:
        return np.zeros(shape, like.dtype)
    return numbers.reshape(numbers.joined(rows, sc.depth, np.stack), shape)


def _lifted(values: Values, lam: ir.Lambda, sc: Scope) -> list[Value]:
    """A scope's results with all dimensions of iterations."""
    return [lift_value(v, rank_of(a.type), sc.depth) for v, a in zip(values, lam.result, strict=True)]


@_handler(ir.Jvp)
def _jvp(m: DualInterpreter, e: ir.Jvp, stm: ir.Stm, sc: Scope) -> Values:
    dims, directions = _directions(m, e, sc)
    args = [m.whole(a, sc) for a in e.args]
    tangents = [m.whole(t, sc) for t in e.tangents]
    if not directions:
        values = _lifted(m.apply(e.lam, args, sc), e.lam, sc)
    rows: list[list[Value]] = []
    again = m.again
    for at in directions:
        told = len(m.told)
        with m.level(False) as level:
            duals = [Dual(level, x, numbers.get(t, at)) for x, t in zip(args, tangents, strict=True)]
            results = m.apply(e.lam, duals, sc)
        results = _lifted(results, e.lam, sc)
        if rows:
            del m.told[told:]
        else:
            values, m.again = [under(level, r) for r in results], True
        rows.append([r.slope if at_level(level, r) else np.zeros(r.shape, r.dtype) for r in results])
    m.again = again
    return _fresh([*values, *[_gathered([row[j] for row in rows], dims, v, sc) for j, v in enumerate(values)]])


@_handler(ir.Vjp)
def _vjp(m: DualInterpreter, e: ir.Vjp, stm: ir.Stm, sc: Scope) -> Values:
    dims, directions = _directions(m, e, sc)
    args = [m.whole(a, sc) for a in e.args]
    with m.level(True) as level:
        leaves = [level.leaf(v) for v in args]
        results = m.apply(e.lam, [Dual(level, v, n) for v, n in zip(args, leaves, strict=True)], sc)
    values = [under(level, r) for r in results]
    reached = [(r, m.whole(y, sc)) for r, y in zip(results, e.adjoints, strict=True) if at_level(level, r)]
    rows: list[list[Value]] = []
    for at in directions:
        level.resolve([(r.slope, numbers.broadcast(numbers.get(y, at), r.shape)) for r, y in reached])
        rows.append([np.zeros(n.shape, n.dtype) if n.adjoint is None else n.adjoint for n in leaves])
        for n in leaves:
            n.clear()
        if len(directions) > 1:
            level.restart()
    return _fresh([*values, *[_gathered([row[j] for row in rows], dims, v, sc) for j, v in enumerate(args)]])


@_handler(ir.Par)
def _par(m: DualInterpreter, e: ir.Par, stm: ir.Stm, sc: Scope) -> Values:
    out: list[Value] = []
    with ExitStack() as forks:
        begins = [forks.enter_context(level.forked(2)) for level in m.open if isinstance(level, Reverse)]
        for lam in e.lambdas():
            for begin in begins:
                begin()
            out += m.exec(lam, sc)
    return out


@_handler(ir.WithInverse)
@_handler(ir.WithJvp)  # differentiated as the function that it is
def _with_inverse(m: DualInterpreter, e: ir.WithInverse | ir.WithJvp, stm: ir.Stm, sc: Scope) -> Values:
    return _fresh(m.apply(e.lam, [m.value(a) for a in e.args], sc))


@_handler(ir.WithVjp)
def _with_vjp(m: DualInterpreter, e: ir.WithVjp, stm: ir.Stm, sc: Scope) -> Values:
    return _fresh(_custom(m, e, [m.value(a) for a in e.args], sc))


def _custom(m: DualInterpreter, e: ir.WithVjp, args: Values, sc: Scope) -> Values:
    """A function with a derivative of its own for reverse mode; forward mode goes through the function.

    In reverse mode what it takes from outside has no derivative, and what it saved for its derivative has its own, of
    which second derivatives are made."""
    free = {v: m.env[v] for v in (*e.lam.free(), *e.pull.free()) if v in m.env}
    level = numbers.top([*args, *free.values()])
    if not isinstance(level, Reverse):
        return m.apply(e.lam, args, sc)
    outside = {v: under(level, x) for v, x in free.items()}
    with m.bound(outside):
        results = _custom(m, e, [under(level, a) for a in args], sc)
        own = [a for a in args if at_level(level, a)]
        if not own:
            return results
        saved = 2 * len(results) - len(e.pull.params)
        traced = m.apply(e.lam, args, sc)[:saved] if saved else []
    kept = [numbers.keep(r) for r in results]
    held = {v: numbers.keep(x) for v, x in outside.items()}
    seeds: list[Value] = [None] * len(results)

    def pull(joint: Node) -> None:
        adjoints = [np.zeros(r.shape, r.dtype) if y is None else y for r, y in zip(kept, seeds, strict=True)]
        seeds[:] = [None] * len(seeds)
        with level.adding, m.bound(held):
            parts = m.apply(e.pull, [*kept, *adjoints[saved:]], sc)
        for a, part, p in zip(args, parts, e.lam.params, strict=True):
            if at_level(level, a):
                a.slope.add(_sent(part, a, rank_of(p.type), sc))

    joint = level.record((), np.dtype(bool), [a.slope for a in own], pull)

    def seed(j: int) -> Any:
        def send(node: Node) -> None:
            seeds[j] = node.adjoint
            joint.add(np.bool_(True))

        return send

    out = list(traced)
    for j in range(saved, len(results)):
        out.append(Dual(level, results[j], level.record(results[j].shape, results[j].dtype, [joint], seed(j))))
    return out


def _sent(part: Value, a: Dual, rank: int, sc: Scope) -> Value:
    """What iterations send to an argument, those that are left out nothing."""
    part, shape = lift_value(part, rank, sc.depth), lift_value(a, rank, sc.depth).shape
    if sc.mask is not None:
        part = numbers.where(sc.mask.reshape(sc.mask.shape + (1,) * rank), part, part.dtype.type(0))
    return numbers.sum_to(numbers.broadcast(part, np.broadcast_shapes(part.shape, shape)), shape)


__all__ = ["DualInterpreter"]
