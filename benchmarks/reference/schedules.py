"""Schedules of states and reruns, simulated: what the loops that reverse mode makes are compared with.

A schedule is a list of steps: ("run", a, b), iterations a to b; ("keep", a), the state before iteration a; ("drop", a);
("reverse", a), iteration a.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Split = Callable[[int, int], int]
Steps = list[tuple[str, int, int]]


def times(n: int, states: int) -> int:
    """The least t with C(states + t, t) >= n: how often an iteration is run at most."""
    t = 0
    while math.comb(states + t, t) < n:
        t += 1
    return t


def least(n: int, states: int) -> int:
    """How many runs are needed at least until the last of n iterations can start, and for those before it again.

    Source: Griewank and Walther, ACM TOMS 26(1), 2000.
    """
    t = times(n, states)
    return t * n - math.comb(states + t, t - 1) if t else 0


def binomial(n: int, free: int) -> int:
    """After how many of n iterations to keep a state, with room for `free`."""
    s = free + 1
    t = times(n, s)
    one = math.comb(s + t - 1, t - 1) if t else 0
    two = math.comb(s + t - 2, t - 1) if t else 0
    return max(min(one, n - two), n - math.comb(s - 1 + t, t), 1)


def bisection(n: int, free: int) -> int:
    return 1 if n <= free + 1 else max(n // 2, 1)


def stack(n: int, states: int, split: Split) -> Steps:
    """As the return sweep does it, one iteration after the other, with a stack of states."""
    out: Steps = []
    kept: list[int] = []
    at = 0
    while at < n:  # the first descent is that of one iteration more
        kept.append(at)
        out.append(("keep", at, 0))
        free = states - len(kept)
        to = at + split(n + 1 - at, free) if free else n
        out.append(("run", at, to))
        at = to
    for i in reversed(range(n)):
        at = first = kept[-1]
        while at < i:
            free = states - len(kept)
            to = at + split(i + 1 - at, free) if free else i
            out.append(("run", at, to))
            at = to
            if free and to < i:
                kept.append(to)
                out.append(("keep", to, 0))
        out.append(("reverse", i, 0))
        if first == i:
            out.append(("drop", kept.pop(), 0))
    return out


def binary(n: int, states: int, split: Split) -> Steps:
    """A binary tree of stretches, the right one first.  Source: Siskind and Pearlmutter, OMS 33, 2018, figure 13."""
    out: Steps = []

    def stretch(a: int, b: int, free: int) -> None:
        if b - a == 1 or free == 0:
            _leaf(out, a, b)
        else:
            k = a + split(b - a, free)
            out.append(("run", a, k))
            stretch(k, b, free - 1)
            stretch(a, k, free)

    stretch(0, n, states - 1)
    return out


def _leaf(out: Steps, a: int, b: int) -> None:
    """Iterations of which only the first one's state is there."""
    for i in reversed(range(a, b)):
        if i > a:
            out.append(("run", a, i))
        out.append(("reverse", i, 0))


def treeverse(n: int, states: int, split: Split) -> Steps:
    """A tree of as many children as there is room for: each call descends to the right end, then goes back over its
    children.  Source: Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
    differentiation", OMS 1, 1992, figure 4."""
    out: Steps = []

    def node(a: int, b: int, free: int) -> None:
        children: list[tuple[int, int, int]] = []
        while free > 0 and b - a > 1:
            k = a + split(b - a, free)
            out.append(("run", a, k))
            children.append((a, k, free))
            a, free = k, free - 1
        _leaf(out, a, b)
        for child in reversed(children):
            node(*child)

    node(0, n, states - 1)
    return out


def runs(steps: Steps) -> int:
    """How many iterations are run."""
    return sum(b - a for what, a, b in steps if what == "run")


def most(steps: Steps) -> int:
    """How many states are there at once."""
    live = peak = 0
    for what, _, _ in steps:
        live += {"keep": 1, "drop": -1}.get(what, 0)
        peak = max(peak, live)
    return peak


def online(n: int, states: int, split: Split) -> tuple[int, list[int], int]:
    """The runs of a loop of unknown length, the states that are there when the return sweep begins, and how many there
    are at most from then on."""
    kept: list[int] = []
    stride = 1
    for i in range(n):
        if i % stride == 0 and len(kept) == states:
            kept, stride = kept[::2], 2 * stride
        if i % stride == 0:
            kept.append(i)
    good, target, read = kept[:1], 0, 0
    for free in range(states - 1, 0, -1):
        if target >= n or read + 1 >= len(kept):
            break
        target += split(n + 1 - target, free)
        before = read
        while read + 1 < len(kept) and kept[read + 1] <= target:
            read += 1
        if read > before:
            good.append(kept[read])
    total, there, peak = n, [*good], len(good)
    for i in reversed(range(n)):
        at = first = there[-1]
        while at < i:
            free = states - len(there)
            to = at + split(i + 1 - at, free) if free else i
            if free and to < i:
                there.append(to)
                peak = max(peak, len(there))
            at = to
        total += i - first
        if first == i:
            there.pop()
    return total, good, peak
