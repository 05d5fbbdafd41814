"""The interpreter in steps: it stops at every binding outside of maps, and goes on with the value it is told.

`Stepper.run_in_steps` is a generator that yields a `Binding` for each variable it is asked to stop at and is sent the
value to take over, or None to keep its own.  So somebody else's run of the same program can be compared with this one
binding by binding, each from the same inputs, and differences that are allowed do not add up.

Note [Rounding]
~~~~~~~~~~~~~~~
Compiled code may add floats in another order than the interpreter, contract operations, and use other approximations
of functions.  How much the result of a statement may differ for that depends on the statement and its inputs; no
tolerance fits all.  So it is measured (the idea of stochastic arithmetic: Vignes, "A stochastic arithmetic for reliable
scientific computation", 1993): `Stepper.spread` evaluates the statement again, many times, each operation's result
changed at random by some units in the last place, and a sum's by as many as it has terms.  What the results then differ
by is what rounding can do there.  An integer or a bool that comes out differently hangs on a rounded comparison or
conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.interp import HANDLERS, TOP, Acc, Interpreter, Value
from futad.core.scalarops import ScalarOp
from futad.core.types import Prim, Var
from futad.errors import ExecutionError, InternalError, Span

EXACT = frozenset(
    "neg abs sgn min max select floor ceil round trunc copysign nextafter sqrt ldexp".split()
)  # operations whose result is the same everywhere
INEXACT_COST = 5  # from this cost on an operation is a function that is approximated
ULPS = 4.0  # by which an operation's result is changed at most
RUNS = 48

# Bit patterns that no computation makes: the elements of an array that nobody has written.
_UNWRITTEN = {
    "float": {8: 0x7FF85CA7C4ED0001, 4: 0x7FC5CA7D, 2: 0x7E5D},
    "": {8: 0x5CA7C4ED5CA7C4ED, 4: 0x5CA7C4ED, 2: 0x5CA7, 1: 0x5C},
}


@dataclass(slots=True, eq=False)
class Binding:
    """A variable with the interpreter's value, the statement (None: a loop's variable at the start of an iteration) in
    its function, and the iterations of the loops around it, outermost first."""

    var: Var
    value: Value
    stm: ir.Stm | None
    function: str
    iterations: tuple[tuple[str, int], ...]
    span: Span | None


@dataclass(slots=True)
class Plan:
    """How compiled code reports what it binds.  `variables`: that of each report, by number; `sequences`: the numbers
    of those of arrays that count; `stops`: the variables that are reported wherever they are bound; `orders`: in which
    order the statements of a scope are evaluated, where not as they stand; `whole`: statements outside of maps that are
    evaluated at once, though they have scopes; `skipped`: variables that are not reported, and why."""

    variables: Sequence[Var]
    sequences: frozenset[int]
    stops: frozenset[Var]
    orders: Mapping[ir.Lambda, tuple[ir.Stm, ...]]
    whole: frozenset[ir.Stm]
    skipped: Mapping[Var, str]


class Stepper(Interpreter):
    """Runs functions of a program step by step, see above."""

    def __init__(self, program: ir.Program, plan: Plan) -> None:
        super().__init__(program)
        self.plan = plan
        self.function = ""
        self.iterations: list[tuple[str, int]] = []
        self.made: dict[Var, ir.Stm] = {}  # by which statement variables were bound that nobody stops at
        self.span: Span | None = None
        self.noise: np.random.Generator | None = None
        self.marks: dict[np.dtype[Any], Any] = {}  # the values of elements that nobody has written

    def run_in_steps(self, name: str, args: Sequence[Any]) -> Generator[Binding, Value | None, list[Value]]:
        """Run a function on all its parameters; its results."""
        fun = self.program.funs[name]
        self.env.clear()
        self.made.clear()
        self.iterations = []
        self.function, self.span = name, fun.span
        for p, a in zip(fun.body.params, args, strict=True):
            self.env[p] = _frozen(self._input(p, a, False))
        return (yield from self._scope(fun.body))

    # -- scopes outside of maps

    def _scope(self, lam: ir.Lambda) -> Generator[Binding, Value | None, list[Value]]:
        stops = self.plan.stops
        for stm in self.plan.orders.get(lam, lam.stms):
            self.span = span_of(stm) or self.span
            values = yield from self._statement(stm)
            for v, x in zip(stm.pat, values, strict=True):
                self.env[v] = _frozen(x)
                if v in stops:
                    yield from self._stop(v, stm)
                else:
                    self.made[v] = stm
        return [self.value(a) for a in lam.result]

    def _stop(self, v: Var, stm: ir.Stm | None) -> Generator[Binding, Value | None, None]:
        binding = Binding(v, self.env[v], stm, self.function, tuple(self.iterations), self.span)
        taken = yield binding
        if taken is not None:
            self.env[v] = _frozen(taken)

    def _statement(self, stm: ir.Stm) -> Generator[Binding, Value | None, Sequence[Value]]:
        e = stm.exp
        if stm in self.plan.whole or not isinstance(e, (ir.Control, ir.Call)):
            return HANDLERS[type(e)](self, e, stm, TOP)
        match e:
            case ir.If(cond, then, orelse):
                return (yield from self._scope(then if self.value(cond) else orelse))
            case ir.Par(first, second):
                results = yield from self._scope(first)
                return [*results, *(yield from self._scope(second))]
            case ir.For(bound, inits, body):
                return (yield from self._for(self.value(bound), [self.value(a) for a in inits], body))
            case ir.While(inits, body):
                return (yield from self._while([self.value(a) for a in inits], body))
            case ir.WithAcc(arrays, op, lam):
                accs = [Acc(np.array(self.value(a)), 0, op) for a in arrays]
                self.env.update(zip(lam.params, accs, strict=True))
                results = yield from self._scope(lam)
                return [*[a.data for a in accs], *results[len(accs) :]]
            case ir.Call(name, args):
                return (yield from self._call(name, [self.value(a) for a in args]))
        raise InternalError(f"no steps of {type(e).__name__}")

    def _for(
        self, bound: Any, state: list[Value], body: ir.Lambda
    ) -> Generator[Binding, Value | None, list[Value]]:
        self.iterations.append((body.params[0].name, 0))
        for i in range(int(bound)):
            self.iterations[-1] = (body.params[0].name, i)
            state = yield from self._iteration([bound.dtype.type(i), *state], body)
        self.iterations.pop()
        return state

    def _while(self, state: list[Value], body: ir.Lambda) -> Generator[Binding, Value | None, list[Value]]:
        self.iterations.append(("iteration", 0))
        while state[0]:
            state = yield from self._iteration(state, body)
            self.iterations[-1] = ("iteration", self.iterations[-1][1] + 1)
        self.iterations.pop()
        return state

    def _iteration(self, values: list[Value], body: ir.Lambda) -> Generator[Binding, Value | None, list[Value]]:
        for p, x in zip(body.params, values, strict=True):
            self.env[p] = _frozen(x)
        for p in body.params:
            if p in self.plan.stops:
                yield from self._stop(p, None)
        return (yield from self._scope(body))

    def _call(self, name: str, args: list[Value]) -> Generator[Binding, Value | None, list[Value]]:
        outer = self.function, self.span
        fun = self.program.funs[name]
        self.function, self.span = name, fun.span
        self.env.update(zip(fun.body.params, args, strict=True))
        results = yield from self._scope(fun.body)
        self.function, self.span = outer
        return results

    # -- how far rounding reaches

    def spread(self, b: Binding) -> Iterator[Value]:
        """What the binding's value may as well be: the statement evaluated again with operations that round
        differently, after those it takes values from that nobody has compared.  Empty if that cannot be done."""
        if b.stm is None or not self._at_once(b.stm):
            return
        chain = self._sources(b.stm)
        for seed in range(RUNS):
            saved, steps = dict(self.env), self.steps
            # What is added to is a copy.
            self.env |= {v: Acc(x.data.copy(), x.depth, x.op) for v, x in saved.items() if isinstance(x, Acc)}
            self.noise = np.random.default_rng(seed)
            try:
                for stm in chain:
                    values = HANDLERS[type(stm.exp)](self, stm.exp, stm, TOP)
                    self.env.update(zip(stm.pat, map(_frozen, values), strict=True))
                other = values[b.stm.pat.index(b.var)]
            except ExecutionError:
                continue  # rounded differently it fails
            finally:
                self.noise, self.env, self.steps = None, saved, steps
            yield other

    def _at_once(self, stm: ir.Stm) -> bool:
        parts = (ir.If, ir.Par, ir.Loop, ir.Call, ir.Keep, ir.Kept)
        return stm in self.plan.whole or not isinstance(stm.exp, parts)

    def _sources(self, stm: ir.Stm) -> list[ir.Stm]:
        """The statements that make what this one takes and nobody has compared, in order, and this one."""
        out: dict[ir.Stm, None] = {}

        def visit(s: ir.Stm) -> None:
            if s in out:
                return
            for v in ir.stm_free(s):
                if v in self.made and not isinstance(self.env[v], Acc) and self._at_once(self.made[v]):
                    visit(self.made[v])
            out[s] = None

        visit(stm)
        return list(out)

    def evaluate(self, record: ScalarOp, args: Sequence[Value]) -> Value:
        if self.noise is None or record.name in EXACT:
            return record.eval(*args)
        if record.cost >= INEXACT_COST and record.partials is not None:
            args = [self._changed(x, ULPS) for x in args]
        out = record.eval(*args)
        if record.name == "mul" and np.asarray(out).dtype.kind == "f" and self.noise.integers(2):
            # A product that is contracted with a sum is not rounded, and so does not overflow.
            most = np.finfo(np.asarray(out).dtype).max
            finite = np.isinf(out) & np.isfinite(args[0]) & np.isfinite(args[1])
            out = np.where(finite, np.copysign(most, out), out).astype(most.dtype)
        return out if record.name.startswith(("to_", "from_bits")) else self._changed(out, ULPS)

    def total(self, op: str, out: Value, size: Callable[[], Value], terms: int) -> Value:
        if self.noise is None or out.dtype.kind != "f" or op not in ("add", "mul"):
            return out
        if op == "mul":
            return self._changed(out, ULPS * terms)
        step = np.finfo(out.dtype).eps * max(ULPS, terms)
        return (out + self.noise.uniform(-1, 1, np.shape(out)) * step * size()).astype(out.dtype)

    def _changed(self, x: Value, ulps: float) -> Value:
        if x.dtype.kind != "f":
            return x
        assert self.noise is not None
        by = self.noise.uniform(-1, 1, np.shape(x)) * (ulps * float(np.finfo(x.dtype).eps))
        return np.asarray(x + x * by.astype(x.dtype) if x.ndim else x + x * x.dtype.type(by), x.dtype)

    # -- elements that nobody has written

    def unwritten(self, shape: tuple[int, ...], elem: Prim) -> np.ndarray:
        size = elem.bytes
        bits = 2 if elem.is_bool else _UNWRITTEN["float" if elem.is_float else ""][size]
        out = np.full(shape, bits, f"u{size}").view(elem.dtype)
        self.marks[elem.dtype] = bits
        return out

    def written(self, v: np.ndarray) -> np.ndarray | None:
        """Which elements somebody has written; None: all."""
        bits = self.marks.get(v.dtype)
        if bits is None:
            return None
        known = words(v) != bits
        return None if known.all() else known

    # -- what is printed is printed by the other run

    def print_trace(self, tag: str, value: Value) -> None:
        pass


def words(v: np.ndarray) -> np.ndarray:
    """The bits of an array's elements."""
    return v.view(f"u{v.dtype.itemsize}")


def _frozen(x: Value) -> Value:
    """The value, which nothing may overwrite: a statement can be evaluated again."""
    if isinstance(x, np.ndarray) and x.flags.writeable:
        x = x.view()
        x.flags.writeable = False
    return x


def span_of(stm: ir.Stm) -> Span | None:
    """The first source place that a statement names, or one inside it."""
    e = stm.exp
    span = getattr(e, "check", None) or getattr(e, "place", None)
    if span is not None:
        return span
    return first_span(s for lam in e.lambdas() for s in lam.stms)


def first_span(stms: Iterable[ir.Stm]) -> Span | None:
    """The first source place that statements name."""
    return next((span for s in stms if (span := span_of(s)) is not None), None)
