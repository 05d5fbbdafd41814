"""Checking derivatives: reverse mode against forward mode against central differences.

`check_grads` compares along random directions, to any order; `compare_jacobians` every component of the
Jacobian.  Differences are of fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h with h = eps^(1/5),
whose truncation and rounding errors are both about eps^(4/5) (Abramowitz and Stegun, 25.3.6).  Where they disagree
with forward mode they are taken again with smaller steps, as h may be large for the arguments at hand; of two steps in
turn that differ least the smaller one counts (Ridders, Advances in Engineering Software 4, 1982).  At a kink
(min, max, abs, comparisons) differences are wrong when a step crosses it; forward and reverse mode still
agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from futad import checks
from futad.api.argnums import has_floats
from futad.api.derivatives import _derived, _entry
from futad.api.program import Function
from futad.errors import UsageError
from futad.runtime.structure import leaf_types
from futad.runtime.values import Leaf

# Tolerances by bytes of the narrowest float: of differences, and of forward against reverse mode.
_NUMERIC = {8: 1e-6, 4: 2e-2, 2: 0.3}
_EXACT = {8: 1e-10, 4: 1e-3, 2: 5e-2}
Leaves = list[Any]


class GradientError(AssertionError):
    """Derivatives disagree; the message says where and by how much."""


@dataclass(slots=True)
class Place:
    """A component of an argument or result: `ys[2,3]`."""

    leaf: int
    path: str
    index: tuple[int, ...]

    def __str__(self) -> str:
        return self.path + (f"[{', '.join(map(str, self.index))}]" if self.index else "")


@dataclass(slots=True)
class Finding:
    """One derivative computed two ways; `error` is relative to the scale of that row."""

    what: str
    output: Place
    input: Place
    got: float
    expected: float
    error: float
    tolerance: float

    def __str__(self) -> str:
        return (
            f"d {self.output} / d {self.input}: {self.what}: {self.got:.10g} against {self.expected:.10g} "
            f"(error {self.error:.2g}, tolerance {self.tolerance:.2g})"
        )


@dataclass(slots=True)
class Report:
    """The worst disagreement of each comparison, and how many derivatives were compared."""

    compared: int = 0
    skipped: int = 0
    worst: dict[str, Finding] = field(default_factory=dict)

    @property
    def failures(self) -> list[Finding]:
        return [f for f in self.worst.values() if not f.error <= f.tolerance]

    def add(self, finding: Finding) -> None:
        self.compared += 1
        old = self.worst.get(finding.what)
        if old is None or not finding.error <= old.error:
            self.worst[finding.what] = finding


class Probe:
    """A function at one point, with everything by flat components: values, tangents, cotangents."""

    def __init__(self, f: Function, leaves: Leaves) -> None:
        self.f = f
        self.leaves = leaves
        self.active = tuple([i for i, (_, t) in enumerate(f.entry.params) if has_floats(t)])
        if not self.active:
            raise UsageError(f"no argument of {f.__name__} holds floating-point numbers")
        owner = [i for i, (_, t) in enumerate(f.entry.params) for _ in leaf_types(t)]
        self.active_leaves = [j for j, i in enumerate(owner) if i in self.active]
        self.float_leaves = [j for j in self.active_leaves if f.signature.params[j].elem.is_float]
        self.value = self.call(leaves)
        self.float_results = [j for j, leaf in enumerate(f.signature.results) if leaf.elem.is_float]
        if not self.float_results:
            raise UsageError(f"the result of {f.__name__} holds no floating-point numbers")
        used = [f.signature.params[j] for j in self.float_leaves]
        used += [f.signature.results[j] for j in self.float_results]
        self.bytes = min(leaf.elem.bytes for leaf in used)

    def call(self, leaves: Leaves) -> Leaves:
        return self.f.call_leaves([_copy(x) for x in leaves])

    @property
    def step(self) -> float:
        return float(np.finfo(f"f{self.bytes}").eps) ** 0.2

    def forward(self) -> Function:
        return _derived(self.f, "jvp", self.active, False)

    def backward(self, engine: str = "") -> Function:
        return _derived(self.f, "vjp", self.active, False, engine)

    def tangent_leaves(self, tangents: dict[int, Any]) -> Leaves:
        """The arguments of `forward()`: the tangents given, zero for other components."""
        own = [_copy(x) for x in self.leaves]
        return own + [tangents.get(j, np.zeros_like(self.leaves[j])) for j in self.active_leaves]

    def cotangent_leaves(self, cotangents: dict[int, Any]) -> Leaves:
        """The arguments of `backward()`."""
        own = [_copy(x) for x in self.leaves]
        return own + [cotangents.get(j, np.zeros_like(y)) for j, y in enumerate(self.value)]

    def jvp(self, tangents: dict[int, Any]) -> dict[int, Any]:
        out = self.forward().call_leaves([_value(x) for x in self.tangent_leaves(tangents)])
        derivatives = out[len(self.value) :]
        return {j: derivatives[j] for j in self.float_results}

    def vjp(self, cotangents: dict[int, Any], engine: str = "") -> dict[int, Any]:
        out = self.backward(engine).call_leaves([_value(x) for x in self.cotangent_leaves(cotangents)])
        adjoints = dict(zip(self.active_leaves, out, strict=True))
        return {j: adjoints[j] for j in self.float_leaves}

    def steadiest(self, tangents: dict[int, Any], first: dict[int, Any]) -> dict[int, Any]:
        """Differences with smaller and smaller steps, `first` with the usual one: for each component those that differ
        least from the ones before."""
        best, least, before = dict(first), {j: np.full(np.shape(d), np.inf) for j, d in first.items()}, first
        for k in range(1, 6):
            now = self.differences(tangents, self.step * 0.25**k)
            for j, d in now.items():
                change = np.abs(d - before[j])
                better = change < least[j]
                best[j], least[j] = np.where(better, d, best[j]), np.where(better, change, least[j])
            before = now
        return best

    def differences(self, tangents: dict[int, Any], step: float | None = None) -> dict[int, Any]:
        """The derivative along `tangents` by central differences of fourth order."""
        h = step or self.step

        def at(t: float) -> Leaves:
            moved = list(self.leaves)
            for j, v in tangents.items():
                x = np.asarray(self.leaves[j])
                moved[j] = _value((x.astype(np.float64) + t * np.asarray(v, np.float64)).astype(x.dtype))
            return [np.asarray(r).astype(np.float64) for r in self._same_shapes(self.call(moved))]

        with np.errstate(all="ignore"):
            f1, b1, f2, b2 = at(h), at(-h), at(2 * h), at(-2 * h)
            return {j: (8 * (f1[j] - b1[j]) - (f2[j] - b2[j])) / (12 * h) for j in self.float_results}

    def _same_shapes(self, results: Leaves) -> Leaves:
        if any(np.shape(a) != np.shape(b) for a, b in zip(results, self.value, strict=True)):
            raise GradientError(
                f"the result of {self.f.__name__} changes its shape near this point: no derivative to compare"
            )
        return results

    def direction(self, rng: np.random.Generator) -> dict[int, Any]:
        return {j: _random_like(rng, self.leaves[j]) for j in self.float_leaves}

    def codirection(self, rng: np.random.Generator) -> dict[int, Any]:
        return {j: _random_like(rng, self.value[j]) for j in self.float_results}


@checks.also(checks.IR)
def check_grads(
    f: Function,
    *args: Any,
    modes: Sequence[str] = ("fwd", "rev"),
    order: int = 2,
    seed: int = 0,
    rtol: float | None = None,
) -> None:
    """Check the derivatives of f at `args` along random directions, up to `order`.

    `modes`: 'fwd' compares jvp with central differences, 'rev' <ybar, J v> with <J^T ybar, v>.  `rtol`
    replaces the tolerance of the differences (1e-6 for f64, 2e-2 for f32, 0.3 for f16), which is relative to
    the largest of 1, the value and the derivative.  Raises GradientError (an AssertionError) where they disagree,
    UsageError if `order` is no positive int or `rtol` no positive number.
    """
    f = _entry(f, "check_grads")
    if not isinstance(order, int) or isinstance(order, bool) or order < 1:
        raise UsageError(f"order must be an int of at least 1, not {order!r}")
    if rtol is not None and not (isinstance(rtol, int | float) and rtol > 0):
        raise UsageError(f"rtol must be a positive number, not {rtol!r}")
    unknown = set(modes) - {"fwd", "rev"}
    if unknown or not modes:
        raise UsageError(f"modes are 'fwd' and 'rev', not {tuple(modes)!r}")
    leaves = f.signature.flatten(args)[len(f.signature.size_names) :]
    _check(f, leaves, tuple(modes), order, np.random.default_rng(seed), rtol)


def _check(
    f: Function,
    leaves: Leaves,
    modes: tuple[str, ...],
    order: int,
    rng: np.random.Generator,
    rtol: float | None,
) -> None:
    if order < 1:
        return
    probe = Probe(f, leaves)
    tangents, cotangents = probe.direction(rng), probe.codirection(rng)
    numeric = probe.differences(tangents)
    tolerance = _NUMERIC[probe.bytes] if rtol is None else rtol
    along = probe.jvp(tangents) if "fwd" in modes else numeric
    if "fwd" in modes:
        try:
            _forward(probe, along, numeric, tolerance)
        except GradientError:
            numeric = probe.steadiest(tangents, numeric)
            _forward(probe, along, numeric, tolerance)
    if "rev" in modes:
        adjoints = probe.vjp(cotangents)
        left = sum(_dot(cotangents[j], along[j]) for j in probe.float_results)
        right = sum(_dot(adjoints[j], tangents[j]) for j in probe.float_leaves)
        size = sum(_dot(np.abs(cotangents[j]), np.abs(along[j])) for j in probe.float_results)
        near = (_EXACT[probe.bytes] if "fwd" in modes else tolerance) * max(1.0, size)
        if not abs(left - right) <= near:
            raise GradientError(
                f"{f.__name__}: reverse mode: <ybar, J v> = {left:.10g}, but <J^T ybar, v> = {right:.10g} "
                f"(tolerance {near:.2g})"
            )
    if order > 1 and "fwd" in modes:
        arguments = [_value(x) for x in probe.tangent_leaves(tangents)]
        _check(probe.forward(), arguments, modes, order - 1, rng, rtol)
    if order > 1 and "rev" in modes:
        arguments = [_value(x) for x in probe.cotangent_leaves(cotangents)]
        _check(probe.backward(), arguments, modes, order - 1, rng, rtol)


def _forward(probe: Probe, along: dict[int, Any], numeric: dict[int, Any], tolerance: float) -> None:
    for j in probe.float_results:
        scale = _scale(probe.value[j], numeric[j], along[j])
        _agree(probe.f, "jvp", probe.f.signature.results[j], along[j], numeric[j], tolerance * scale)


def _agree(f: Function, what: str, leaf: Leaf, got: Any, want: Any, tolerance: float) -> None:
    error = np.abs(np.asarray(got, np.float64) - np.asarray(want, np.float64))
    bad = ~(error <= tolerance)
    if bad.any():
        at = np.unravel_index(int(np.argmax(np.where(bad, error, -1))), error.shape)
        place = Place(0, leaf.path, tuple([int(i) for i in at]))
        raise GradientError(
            f"{f.__name__}: {what} of {place} is {np.asarray(got)[at]:.10g}, central differences give "
            f"{np.asarray(want)[at]:.10g} (tolerance {tolerance:.2g})"
        )


@checks.also(checks.IR)
def compare_jacobians(
    f: Function,
    leaves: Leaves,
    *,
    seed: int = 0,
    limit: int = 200,
    step: Callable[[], None] = lambda: None,
    engine: str = "",
) -> Report:
    """Compare every derivative of f by forward mode, reverse mode and central differences; with `engine` "dual" reverse
    mode by dual numbers too.

    `leaves` are flat arguments.  Beyond `limit` components of the arguments (or results) a random sample of
    that many is taken.  `step` is called after each component, for a progress bar.
    """
    probe = Probe(f, leaves)
    rng = np.random.default_rng(seed)
    report = Report()
    inputs = _places(f.signature.params, probe.leaves, probe.float_leaves)
    outputs = _places(f.signature.results, probe.value, probe.float_results)
    inputs, left_out = _sample(rng, inputs, limit)
    outputs, also = _sample(rng, outputs, limit)
    report.skipped = left_out + also
    rows, others = [], []
    for out in outputs:
        cotangent = {out.leaf: _hot(probe.value[out.leaf], out.index)}
        rows.append(probe.vjp(cotangent))
        if engine:
            others.append(probe.vjp(cotangent, engine))
        step()
    columns, numeric = [], []
    for place in inputs:
        tangents = {place.leaf: _hot(probe.leaves[place.leaf], place.index)}
        columns.append(probe.jvp(tangents))
        numeric.append(probe.differences(tangents))
        step()
    for i, out in enumerate(outputs):
        largest = max([abs(float(np.asarray(c[out.leaf])[out.index])) for c in columns], default=0.0)
        size = max(1.0, abs(float(np.asarray(probe.value[out.leaf])[out.index])))
        scale = size if not np.isfinite(largest) else max(size, largest)
        for k, place in enumerate(inputs):
            reverse = float(np.asarray(rows[i][place.leaf])[place.index])
            forward = float(np.asarray(columns[k][out.leaf])[out.index])
            central = float(np.asarray(numeric[k][out.leaf])[out.index])
            compared = [
                ("reverse against forward", reverse, forward, _EXACT[probe.bytes]),
                ("forward against differences", forward, central, _NUMERIC[probe.bytes]),
                ("reverse against differences", reverse, central, _NUMERIC[probe.bytes]),
            ]
            if engine:
                other = float(np.asarray(others[i][place.leaf])[place.index])
                compared.append((f"{engine} against reverse", other, reverse, _EXACT[probe.bytes]))
            for what, got, want, tolerance in compared:
                error = 0.0 if got == want or (np.isnan(got) and np.isnan(want)) else abs(got - want) / scale
                report.add(Finding(what, out, place, got, want, error, tolerance))
    return report


def _places(leaves: Sequence[Leaf], values: Leaves, which: Sequence[int]) -> list[Place]:
    return [Place(j, leaves[j].path, index) for j in which for index in np.ndindex(*np.shape(values[j]))]


def _sample(rng: np.random.Generator, places: list[Place], limit: int) -> tuple[list[Place], int]:
    if len(places) <= limit:
        return places, 0
    chosen = sorted(rng.choice(len(places), limit, replace=False).tolist())
    return [places[i] for i in chosen], len(places) - limit


def _hot(like: Any, index: tuple[int, ...]) -> Any:
    out = np.zeros_like(np.asarray(like))
    out[index] = 1
    return _value(out)


def _random_like(rng: np.random.Generator, like: Any) -> Any:
    a = np.asarray(like)
    return _value(rng.standard_normal(a.shape).astype(a.dtype))


def _value(x: Any) -> Any:
    """An array, or the NumPy scalar of one of rank 0."""
    a = np.asarray(x)
    return a if a.ndim else a[()]


def _copy(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _dot(x: Any, y: Any) -> float:
    return float(np.sum(np.asarray(x, np.float64) * np.asarray(y, np.float64)))


def _scale(*values: Any) -> float:
    return max(1.0, *[float(np.max(np.abs(np.asarray(v, np.float64)), initial=0.0)) for v in values])
