"""The ladder from naive backpropagators to taping, on scalars, with what each rung costs.

Each rung differentiates the same straight-line programs: a program is a function of `Number`s, of which a rung makes
the backpropagators.  `Cost` counts calls of backpropagators, additions of adjoints, and cells touched: numbers in
vectors, nodes of balanced trees, elements of arrays and tapes.

Source: Smeding and Vákár, "Parallel dual-numbers reverse AD", 2024: sections 5 (naive), 6 (linear factoring, staging by
identifiers), 7 and 8 (Cayley transformation, maps of scalars), 9 (arrays), 10 (taping).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

Parts = Sequence[tuple[float, Any]]  # partial derivatives, each with a backpropagator


@dataclass(slots=True)
class Cost:
    calls: int = 0
    additions: int = 0
    cells: int = 0


@dataclass(slots=True)
class Number:
    """A scalar with its backpropagator."""

    value: float
    back: Any
    rung: Rung

    def __add__(self, o: Number) -> Number:
        return self.rung.number(self.value + o.value, [(1.0, self.back), (1.0, o.back)])

    def __mul__(self, o: Number) -> Number:
        return self.rung.number(self.value * o.value, [(o.value, self.back), (self.value, o.back)])


class Rung:
    """Backpropagators of one kind, over a number of inputs."""

    name: ClassVar[str]

    def __init__(self, inputs: int) -> None:
        self.inputs, self.cost = inputs, Cost()

    def number(self, value: float, parts: Parts) -> Number:
        return Number(value, self.node(parts), self)

    def leaf(self, i: int) -> Any:
        """The backpropagator of an input."""
        raise NotImplementedError

    def node(self, parts: Parts) -> Any:
        """The backpropagator of an operation's result."""
        raise NotImplementedError

    def gradient(self, back: Any) -> np.ndarray:
        """The adjoints of all inputs, for 1."""
        raise NotImplementedError


class Naive(Rung):
    """A function from an adjoint to the adjoints of all inputs."""

    name = "naive"

    def leaf(self, i: int) -> Any:
        def call(z: float) -> np.ndarray:
            self.cost.calls += 1
            self.cost.cells += self.inputs
            out = np.zeros(self.inputs)
            out[i] = z
            return out

        return call

    def node(self, parts: Parts) -> Any:
        def call(z: float) -> np.ndarray:
            self.cost.calls += 1
            out: np.ndarray | None = None
            for p, back in parts:
                vector = back(p * z)
                if out is not None:
                    self.cost.additions += 1
                    self.cost.cells += self.inputs
                out = vector if out is None else out + vector
            assert out is not None
            return out

        return call

    def gradient(self, back: Any) -> np.ndarray:
        return back(1.0)


@dataclass(slots=True, eq=False)
class Call:
    """A backpropagator that says which others it calls and what it adds to the inputs' adjoints: `at` is the input's
    number or None, `id` counts."""

    id: int
    parts: Parts = ()
    at: int | None = None


class Factored(Rung):
    """Calls are staged, and those of one backpropagator become one, f x + f y = f (x + y); the last staged is called
    first.  Each call has a vector of all inputs as a result, and these are added."""

    name = "factored"

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self.made = 0

    def leaf(self, i: int) -> Any:
        self.made += 1
        return Call(self.made, (), i)

    def node(self, parts: Parts) -> Any:
        self.made += 1
        return Call(self.made, parts)

    def staged(self, first: Call) -> Iterator[tuple[Call, float]]:
        """Each call with its argument, until none is left."""
        waiting: dict[Call, float] = {first: 1.0}
        while waiting:
            call, z = waiting.popitem()
            yield call, z
            for p, to in call.parts:
                self.cost.additions += to in waiting
                waiting[to] = waiting.get(to, 0.0) + p * z

    def gradient(self, back: Any) -> np.ndarray:
        total = np.zeros(self.inputs)
        for call, z in self.staged(back):
            self.cost.calls += 1
            own = np.zeros(self.inputs)
            if call.at is not None:
                own[call.at] = z
            total = total + own
            self.cost.additions += 1
            self.cost.cells += 2 * self.inputs
        return total


class Staged(Factored):
    """The call of the highest identifier comes first: then every call of it has been staged."""

    name = "staged by ids"

    def staged(self, first: Call) -> Iterator[tuple[Call, float]]:
        waiting: dict[int, tuple[Call, float]] = {first.id: (first, 1.0)}
        order = [-first.id]
        while order:
            call, z = waiting.pop(-heapq.heappop(order))
            yield call, z
            for p, to in call.parts:
                if to.id in waiting:
                    self.cost.additions += 1
                else:
                    heapq.heappush(order, -to.id)
                waiting[to.id] = (to, waiting.get(to.id, (to, 0.0))[1] + p * z)
            self.map(len(waiting), len(call.parts))

    def map(self, size: int, changes: int) -> None:
        """Changes of a map of that size."""


class Cayley(Staged):
    """A call changes the adjoints so far, a map of scalars, in place of making a vector that is added; the staged calls
    are a map as well."""

    name = "Cayley, maps"

    def map(self, size: int, changes: int) -> None:
        self.cost.cells += changes * max(1, size).bit_length()

    def gradient(self, back: Any) -> np.ndarray:
        adjoints: dict[int, float] = {}
        for call, z in self.staged(back):
            self.cost.calls += 1
            if call.at is not None:
                self.cost.additions += 1
                self.map(len(adjoints) + 1, 1)
                adjoints[call.at] = adjoints.get(call.at, 0.0) + z
        self.cost.cells += self.inputs
        return np.array([adjoints.get(i, 0.0) for i in range(self.inputs)])


class Arrays(Factored):
    """The maps are arrays, indexed by identifiers, that are overwritten."""

    name = "arrays"

    def gradient(self, back: Any) -> np.ndarray:
        calls: list[Call | None] = [None] * (back.id + 1)
        args = np.zeros(back.id + 1)
        adjoints = np.zeros(self.inputs)
        calls[back.id], args[back.id] = back, 1.0
        for i in range(back.id, 0, -1):
            self.cost.cells += 1
            call, z = calls[i], args[i]
            if call is None:
                continue
            self.cost.calls += 1
            if call.at is not None:
                adjoints[call.at] += z
                self.cost.cells += 1
            for p, to in call.parts:
                self.cost.additions += calls[to.id] is not None
                calls[to.id] = to
                args[to.id] += p * z
                self.cost.cells += 1
        return adjoints


class Taping(Rung):
    """Backpropagators are data, written to the array while the program runs: partial derivatives with identifiers."""

    name = "taping"

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self.tape: list[Parts] = []
        self.places = [0] * inputs

    def leaf(self, i: int) -> Any:
        self.places[i] = len(self.tape)
        return self.node(())

    def node(self, parts: Parts) -> Any:
        self.cost.cells += 1
        self.tape.append(parts)
        return len(self.tape) - 1

    def gradient(self, back: Any) -> np.ndarray:
        args = np.zeros(len(self.tape))
        args[back] = 1.0
        for i in range(back, -1, -1):
            self.cost.cells += 1
            self.cost.calls += args[i] != 0
            for p, to in self.tape[i]:
                self.cost.additions += args[to] != 0
                args[to] += p * args[i]
                self.cost.cells += 1
        return args[self.places]


RUNGS: tuple[type[Rung], ...] = (Naive, Factored, Staged, Cayley, Arrays, Taping)


def run(rung: type[Rung], f: Callable[[list[Number]], Number], xs: Sequence[float]) -> tuple[Cost, np.ndarray]:
    """The cost of the gradient of f at `xs`, and the gradient."""
    made = rung(len(xs))
    inputs = [Number(x, made.leaf(i), made) for i, x in enumerate(xs)]
    back = f(inputs).back
    return made.cost, made.gradient(back)


def doubling(k: int) -> Callable[[list[Number]], Number]:
    """x + x, k times: the naive backpropagator of each number is called twice by that of the next."""

    def f(xs: list[Number]) -> Number:
        y = xs[0]
        for _ in range(k):
            y = y + y
        return y

    return f


def fibonacci(k: int) -> Callable[[list[Number]], Number]:
    """Each number is the sum of the two before: calls meet only if the later number's come first."""

    def f(xs: list[Number]) -> Number:
        a = b = xs[0]
        for _ in range(k):
            a, b = b, b + a
        return b

    return f


def dot(xs: list[Number]) -> Number:
    """The scalar product of the two halves."""
    n = len(xs) // 2
    total = xs[0] * xs[n]
    for i in range(1, n):
        total = total + xs[i] * xs[n + i]
    return total


@dataclass(slots=True)
class Row:
    """What a rung costs; None where it takes too long."""

    name: str
    doubling: Cost | None
    fibonacci: Cost | None
    one_hot: Cost | None
    exponent: float
    values: list[float] = field(default_factory=list)


MOST = 1 << 22  # calls of a rung that is exponential
SIZES = (64, 256)  # of the dot products to which the exponent is fitted


def rows(depth: int, inputs: int = 1000) -> list[Row]:
    """The table.  `one_hot`: a doubling chain of depth `inputs` of the first of as many inputs; `exponent`: that of the
    cells touched by the gradient of a dot product, in its length."""
    out = []
    for rung in RUNGS:
        first = run(rung, doubling(depth), [1.0]) if rung is not Naive or 2 << depth <= MOST else None
        grows = rung in (Naive, Factored)
        second = run(rung, fibonacci(depth), [1.0]) if not grows or 1.7**depth * 4 <= MOST else None
        one_hot = run(rung, doubling(inputs), [1.0] + [0.0] * (inputs - 1))[0] if rung is not Naive else None
        cells = [run(rung, dot, [0.5 + 0.1 * i for i in range(2 * n)])[0].cells for n in SIZES]
        exponent = math.log(cells[1] / cells[0]) / math.log(SIZES[1] / SIZES[0])
        values = [float(r[1][0]) for r in (first, second) if r is not None]
        out.append(Row(rung.name, first and first[0], second and second[0], one_hot, exponent, values))
    return out


def table(depth: int) -> str:
    """The rungs as text."""
    head = ("rung", "calls", "additions", "cells", "calls, two before", "one-hot cells", "exponent")
    lines: list[tuple[str, ...]] = [head]
    for r in rows(depth):
        d, f, h = r.doubling, r.fibonacci, r.one_hot
        doubled = [f"{x:,}" for x in (d.calls, d.additions, d.cells)] if d else ["-"] * 3
        others = [f"{f.calls:,}" if f else "-", f"{h.cells:,}" if h else "-", f"{r.exponent:.2f}"]
        lines.append((r.name, *doubled, *others))
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    text = [f"{line[0]:<{widths[0]}}  " + "  ".join(f"{x:>{w}}" for x, w in zip(line[1:], widths[1:], strict=True))
            for line in lines]  # fmt: skip
    notes = [
        f"calls, additions, cells: x + x, {depth} times.",
        f"two before: each number is the sum of the two before it, {depth} times.",
        "one-hot cells: x + x a thousand times, of the first of a thousand inputs.",
        f"exponent: cells of a dot product's gradient as a power of its length, {SIZES[0]} to {SIZES[1]}.",
    ]
    return "\n".join([*text, "", *notes])


__all__ = ["RUNGS", "Cost", "Number", "Row", "Rung", "dot", "doubling", "fibonacci", "rows", "run", "table"]
