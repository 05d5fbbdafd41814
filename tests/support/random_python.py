"""Random programs in Python: the same function of Python on NumPy's arrays and on traced values.

A program is a list of steps, each of which adds a value to those before it; bodies of maps, loops and branches are
lists too, and read what is outside of them.  Steps are drawn while they run on arrays whose sizes have little in
common: shapes that are equal there are equal for all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Values = list[Any]
Step = Callable[[Any, Values], Any]
GENERIC = (7, 11)  # n and d


class NumPy:
    """NumPy with the constructs of futad.numpy."""

    map = staticmethod(lambda f, *xs: np.stack([f(*rows) for rows in zip(*xs, strict=True)]))
    take = staticmethod(lambda x, i: np.take(x, i, axis=0))

    @staticmethod
    def logsumexp(x, axis):
        most = np.max(x, axis, keepdims=True)
        return np.squeeze(np.log(np.sum(np.exp(x - most), axis, keepdims=True)) + most, axis)

    @staticmethod
    def loop(n, body, state):
        for i in range(n):
            state = body(i, state)
        return state

    @staticmethod
    def cond(test, yes, no):
        return yes() if test else no()

    @staticmethod
    def reduce(op, neutral, xs):
        for x in xs:
            neutral = op(neutral, x)
        return neutral

    @staticmethod
    def scan(op, neutral, xs):
        return np.stack([neutral := op(neutral, x) for x in xs])

    @staticmethod
    def added(x, places, rows):
        out = x.copy()
        np.add.at(out, places, rows)
        return out

    @staticmethod
    def replaced(x, i, row):
        out = x.copy()
        out[i] = row
        return out

    def __getattr__(self, name):
        return getattr(np, name)


class Traced:
    """futad.numpy with the names that NumPy has no function for."""

    def __init__(self, module):
        self.module = module
        self.int64 = module.i64

    added = staticmethod(lambda x, places, rows: x.at[places].add(rows))
    replaced = staticmethod(lambda x, i, row: x.at[i].set(row))

    def __getattr__(self, name):
        return getattr(self.module, name)


def run(steps: Sequence[Step], m: Any, values: Sequence[Any]) -> Any:
    """The last value."""
    all_values = list(values)
    for step in steps:
        all_values.append(step(m, all_values))
    return all_values[-1]


class Program:
    """A random function of x [n][d], y [n][d], r [d], c [n] and a number."""

    def __init__(self, seed: int, steps: int = 9) -> None:
        self.rng = np.random.default_rng(seed)
        self.steps = self._grow(arguments(GENERIC, seed), steps, 2)

    def __call__(self, m: Any, *args: Any) -> Any:
        return run(self.steps, m, args)

    # -- steps

    def _grow(self, values: Sequence[Any], count: int, depth: int) -> list[Step]:
        """Steps that begin with these values; the last one reads several of the newest."""
        known, steps = list(values), []
        kinds = [self._scalar, self._pointwise, self._pointwise, self._along, self._shaped, self._moved]
        kinds += [self._gathered, self._folded] + [self._map, self._loop, self._branch] * (depth > 0)
        while len(steps) < count:
            step = kinds[self.rng.integers(len(kinds))](known, depth)
            value = step and step(NumPy(), known)
            if step is None or np.size(value) == 0 or np.size(value) > 3000 or np.ndim(value) > 3:
                continue
            assert np.all(np.isfinite(value))
            known.append(value)
            steps.append(step)
        newest = range(len(known) - 3, len(known))
        steps.append(lambda m, v: m.tanh(sum(m.sum(v[k]) for k in newest) / 7) + v[-1])
        return steps

    def _one(self, values: Values, least: int = 0, most: int = 3) -> int | None:
        """One of the values of so many dimensions, later ones more often."""
        fit = [k for k, v in enumerate(values) if least <= np.ndim(v) <= most]
        return fit[-1 - min(int(self.rng.geometric(0.3)) - 1, len(fit) - 1)] if fit else None

    def _pick(self, *some: Any) -> Any:
        return some[self.rng.integers(len(some))]

    def _scalar(self, values: Values, depth: int) -> Step | None:
        k, name = self._one(values), self._pick("sin", "cos", "tanh", "arctan", "abs", "expm1", "sqrt", "log1p", "exp")
        tame = name in ("expm1", "exp")
        positive = name in ("sqrt", "log1p")
        return lambda m, v: getattr(m, name)(m.tanh(v[k]) if tame else v[k] * v[k] + 0.5 if positive else v[k])

    def _pointwise(self, values: Values, depth: int) -> Step | None:
        """Of two values of which one is of the other's shape, of its rows', or a column."""
        i, j = self._one(values), self._one(values)
        a, b = np.shape(values[i]), np.shape(values[j])
        column = len(a) == len(b) + 1 and a[:-1] == b
        if a[len(a) - len(b) :] != b and not column:
            return None
        i, j, column = (j, i, False) if not column and self.rng.random() < 0.5 else (i, j, column)
        other = (lambda v: v[j][..., None]) if column and np.ndim(values[j]) else (lambda v: v[j])
        ways: list[Step] = [
            lambda m, v: v[i] + other(v),
            lambda m, v: v[i] - 2 * other(v),
            lambda m, v: m.sin(v[i] * other(v)),
            lambda m, v: v[i] / (other(v) * other(v) + 1),
            lambda m, v: m.maximum(v[i], other(v)),
            lambda m, v: m.where(v[i] > other(v), v[i], other(v) * 0.5),
            lambda m, v: m.where((v[i] < 0.3) & ~(other(v) < -0.2), other(v), -v[i]),
            lambda m, v: m.arctan2(v[i], other(v) * other(v) + 0.3),
        ]
        return self._pick(*ways)

    def _along(self, values: Values, depth: int) -> Step | None:
        k = self._one(values, 1)
        axis = int(self.rng.integers(-np.ndim(values[k]), np.ndim(values[k])))
        name = self._pick("sum", "mean", "max", "min", "logsumexp", "cumsum", "sort", "flip", "var", "roll", "keep")
        if name == "keep":
            return lambda m, v: v[k] - m.mean(v[k], axis=axis, keepdims=True)
        if name == "roll":
            return lambda m, v: m.roll(v[k], 2, axis)
        if name == "cumsum":
            return lambda m, v: m.tanh(m.cumsum(v[k], axis=axis) / 3)
        return lambda m, v: m.tanh(getattr(m, name)(v[k], axis=axis))

    def _shaped(self, values: Values, depth: int) -> Step | None:
        k = self._one(values, 1)
        rank = np.ndim(values[k])
        order = [int(i) for i in self.rng.permutation(rank)]
        ways: list[Step] = [
            lambda m, v: m.transpose(v[k], order),
            lambda m, v: m.reshape(v[k], -1),
            lambda m, v: v[k][:, None],
            lambda m, v: m.stack([v[k], v[k] * 2], axis=-1),
            lambda m, v: m.concatenate([v[k], v[k][::-1]]),
            lambda m, v: v[k][..., ::-1],
            lambda m, v: v[k][1:],
            lambda m, v: v[k][:-1] * v[k][1:],
            lambda m, v: v[k][::2],
        ]
        return self._pick(*ways)

    def _moved(self, values: Values, depth: int) -> Step | None:
        """Products of matrices and vectors."""
        i, j = self._one(values, 1, 2), self._one(values, 1, 2)
        if np.shape(values[i])[-1] != np.shape(values[j])[0]:
            return None
        return lambda m, v: m.sin(v[i] @ v[j])

    def _gathered(self, values: Values, depth: int) -> Step | None:
        k, i = self._one(values, 1, 2), self._one(values, 1, 1)
        if i is None:
            return None

        def places(m: Any, v: Values) -> Any:
            return m.astype(m.abs(v[i]) * 1000, m.int64) % v[k].shape[0]

        ways: list[Step] = [
            lambda m, v: v[k][places(m, v)],
            lambda m, v: v[k][-1] * v[k][0],
            lambda m, v: v[k][m.argmax(v[k], axis=0)] if np.ndim(values[k]) == 1 else v[k][m.argmin(v[k][:, 0])],
            lambda m, v: m.replaced(v[k], 0, v[k][-1] * 0.5),
        ]
        if np.ndim(values[k]) == 1:
            ways.append(lambda m, v: m.tanh(m.added(v[k], places(m, v), m.sin(v[i]))))
        return self._pick(*ways)

    def _folded(self, values: Values, depth: int) -> Step | None:
        k = self._one(values, 1, 2)
        fold = self._pick("reduce", "scan")
        name, least = self._pick(("maximum", -9.0), ("add", 0.0))

        def op(m: Any) -> Any:
            return (lambda a, b: m.maximum(a, b)) if name == "maximum" else (lambda a, b: a + b)

        def neutral(m: Any, v: Values) -> Any:
            return m.full(v[k].shape[1:], least) if np.ndim(values[k]) > 1 else least

        return lambda m, v: m.tanh(getattr(m, fold)(op(m), neutral(m, v), m.tanh(v[k])))

    # -- steps with steps inside

    def _inner(self, values: Sequence[Any], depth: int) -> list[Step]:
        return self._grow(values, int(self.rng.integers(1, 4)), depth - 1)

    def _map(self, values: Values, depth: int) -> Step | None:
        k = self._one(values, 1, 2)
        inner = self._inner([*values, values[k][0]], depth)
        return lambda m, v: m.map(lambda row: run(inner, m, [*v, row]), v[k])

    def _loop(self, values: Values, depth: int) -> Step | None:
        k = self._one(values, 0, 2)
        inner = self._inner([*values, values[k]], depth)
        alike = np.shape(run(inner, NumPy(), [*values, values[k]])) == np.shape(values[k])

        def body(m: Any, v: Values, i: Any, state: Any) -> Any:
            made = run(inner, m, [*v, state])
            return m.tanh(made if alike else state * 0.5 + m.sum(made) * 0.01) + 0.1 * i

        return lambda m, v: m.loop(3, lambda i, state: body(m, v, i, state), v[k])

    def _branch(self, values: Values, depth: int) -> Step | None:
        k = self._one(values)
        yes, no = self._inner(values, depth), self._inner(values, depth)
        return lambda m, v: m.cond(
            m.sum(v[k]) > 0.1, lambda: m.sin(m.sum(run(yes, m, v))), lambda: m.cos(m.sum(run(no, m, v)))
        )


def arguments(sizes: tuple[int, int], seed: int) -> Values:
    """x, y, r, c and the number."""
    n, d = sizes
    rng = np.random.default_rng([seed, n, d])
    x, y = rng.normal(size=(2, n, d))
    return [x, y, rng.normal(size=d), rng.normal(size=n), np.float64(rng.normal())]
