"""Numbers of elements of ranges and slices, beside what whole numbers of any size say, on every backend."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import AssertionFailed, BoundsError
from futad.target import C
from futad.testing.build import common

BACKENDS = ["interp", "c", "multicore", "emulated"]
TYPES = [f"{s}{bits}" for bits in (8, 16, 32, 64) for s in "iu"]
KINDS = {"to": "...", "up": "..<", "down": "..>"}
SHOWN = 300
MOST = 2**63 - 1

Answer = tuple[int, list[int]] | None


def limits(t: str) -> tuple[int, int]:
    bits = int(t[1:])
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if t[0] == "i" else (0, 2**bits - 1)


def expected(x: int, y: int | None, z: int, kind: str) -> Answer:
    """The number of elements and the first ones; None for a range that is an error."""
    step = (-1 if kind == "..>" else 1) if y is None else y - x
    if step == 0 or (kind == "..<" and step < 0) or (kind == "..>" and step > 0) or (z - x) * step < 0:
        return None
    whole, rest = divmod(abs(z - x), abs(step))
    count = whole + 1 if kind == "..." else whole + (rest > 0)
    return None if count > MOST else (count, [x + k * step for k in range(min(count, SHOWN))])


def literal(t: str, x: int) -> str:
    return f"({x}{t})" if x < 0 else f"{x}{t}"


def literals(t: str) -> dict[str, tuple[int, int | None, int, str]]:
    """Ranges of constants: of all the type's numbers, in steps, from its ends to 0."""
    low, high = limits(t)
    return {
        "all": (low, None, high, "..."),
        "to_zero": (low, None, 0, "..."),
        "from_zero": (0, None, high, "..<"),
        "backwards": (high, None, low, "..>"),
        "in_twos": (low, low + 2, high, "..."),
        "in_threes": (high, high - 3, low, "..>"),
        "in_halves": (low, low + (high - low) // 2 + 1, high, "..."),
        "long_steps": (low, high, high, "..<"),
        "near_the_top": (high - 5, high - 3, high, "..."),
    }


def text() -> str:
    out = [f"def shown 't (xs: []t) = (length xs, take (i64.min (length xs) {SHOWN}) xs)"]
    for t in TYPES:
        for name, kind in KINDS.items():
            out.append(f"entry {name}_{t} (x: {t}) (z: {t}) = shown (x{kind}z)")
            out.append(f"entry {name}_from_{t} (x: {t}) (y: {t}) (z: {t}) = shown (x..y{kind}z)")
        for name, (x, y, z, kind) in literals(t).items():
            second = "" if y is None else f"..{literal(t, y)}"
            out.append(f"entry {name}_{t} (_: bool) = shown ({literal(t, x)}{second}{kind}{literal(t, z)})")
    for name, index in SLICES.items():
        params = " ".join(f"({p}: i64)" for p in index if p in "ijs")
        out.append(f"entry slice_{name} (xs: []i64) {params} = xs[{index}]")
    for name, index in SLICES.items():
        for way, s in (("up", "2"), ("down", "-3")) if "s" in index else ():
            params = " ".join(f"({p}: i64)" for p in index if p in "ij")
            out.append(f"entry slice_{name}_{way} (xs: []i64) {params} = xs[{index.replace('s', s)}]")
    out.append("entry put (xs: *[]i64) (i: i64) (j: i64) (s: i64) = xs with [i:j:s] = map (+ 100) (copy xs[i:j:s])")
    return "\n".join(out)


SLICES = {"all": "i:j:s", "ends": "i:j", "tail": "i::s", "head": ":j:s", "whole": "::s", "from": "i:", "upto": ":j"}


def part(width: int, i: int | None, j: int | None, s: int) -> list[int] | None:
    """The positions of a slice; None for one that is an error."""
    if s == 0:
        return None
    i = (0 if s > 0 else width - 1) if i is None else i
    j = (width if s > 0 else -1) if j is None else j
    gap = (j - i) if s > 0 else (i - j)
    if gap < 0:
        return [] if -gap <= 2 * abs(s) - 2 else None  # as Futhark rounds
    count = -(-gap // abs(s))
    if count and not (0 <= i < width and 0 <= i + (count - 1) * s < width and (s > 0 or j >= -1)):
        return None
    return [i + k * s for k in range(count)]


@pytest.fixture(scope="module", params=BACKENDS)
def program(request: pytest.FixtureRequest) -> Any:
    return futad.compile(text(), name="ranges.fut", backend=request.param)


def answer(f: Any, *args: Any) -> Answer:
    try:
        count, first = f(*args)
    except AssertionFailed as e:
        assert "is invalid" in e.message or "more elements than" in e.message
        return None
    return int(count), [int(x) for x in first]


@pytest.mark.slow
@pytest.mark.parametrize("t", TYPES)
def test_ranges_of_constants(program: Any, t: str) -> None:
    for name, (x, y, z, kind) in literals(t).items():
        assert answer(program[f"{name}_{t}"], True) == expected(x, y, z, kind), (t, name)


@pytest.mark.slow
@pytest.mark.parametrize("t", TYPES)
def test_ranges_between_any_two_numbers(program: Any, t: str) -> None:
    low, high = limits(t)
    numbers = sorted({low, low + 1, low + 2, low + 7, low // 2, -1, 0, 1, 2, 5, high // 2, high - 6, high - 1, high})
    numbers = [x for x in numbers if low <= x <= high]
    for name, kind in KINDS.items():
        for x, z in itertools.product(numbers, numbers):
            assert answer(program[f"{name}_{t}"], x, z) == expected(x, None, z, kind), (t, kind, x, z)


@pytest.mark.slow
@pytest.mark.parametrize("t", TYPES)
def test_ranges_with_any_step(program: Any, t: str) -> None:
    low, high = limits(t)
    rng = random.Random(t)

    def number() -> int:
        near = rng.choice([low, 0, high, high // 2]) + rng.randint(-9, 9)
        return min(high, max(low, near if rng.random() < 0.7 else rng.randint(low, high)))

    for name, kind in KINDS.items():
        seen = set()
        for _ in range(150):
            x, y, z = number(), number(), number()
            want = expected(x, y, z, kind)
            seen.add(want is None)
            assert answer(program[f"{name}_from_{t}"], x, y, z) == want, (t, kind, x, y, z)
        assert seen == {True, False}


NUMBERS = [0, 1, 2, 3, 5, 6, 9, -1, -2, -3, -7, MOST, MOST - 1, -MOST - 1, -MOST, 2**62, -(2**62), 2**32]


@pytest.mark.slow
@pytest.mark.parametrize("width", [0, 1, 5])
def test_slices_of_any_numbers(program: Any, width: int) -> None:
    """Strides and ends up to the largest there are: the slice, or an error of the program's, never anything else."""
    xs = np.arange(10, 10 + width)
    rng = random.Random(width)
    for name, index in SLICES.items():
        letters = [p for p in index if p in "ijs"]
        tuples = list(itertools.product(NUMBERS, repeat=len(letters)))
        for numbers in rng.sample(tuples, min(len(tuples), 700)):
            given = dict(zip(letters, numbers, strict=True))
            want = part(width, given.get("i"), given.get("j"), given.get("s", 1))
            check(program[f"slice_{name}"], xs, numbers, want)
            for way, s in (("up", 2), ("down", -3)):
                if "s" in letters:
                    ends = numbers[:-1]
                    check(program[f"slice_{name}_{way}"], xs, ends, part(width, given.get("i"), given.get("j"), s))


def check(f: Any, xs: np.ndarray, numbers: tuple[int, ...], want: list[int] | None) -> None:
    what = (f.__name__, len(xs), numbers)
    try:
        got = [int(x) - 10 for x in f(xs, *numbers)]
    except (AssertionFailed, BoundsError):
        got = None
    assert got == want, what


@pytest.mark.slow
def test_updates_of_slices_of_any_numbers(program: Any) -> None:
    rng = random.Random(9)
    for i, j, s in rng.sample(list(itertools.product(NUMBERS, repeat=3)), 500):
        want = part(5, i, j, s)
        expected = np.arange(5)
        if want is None:
            with pytest.raises((AssertionFailed, BoundsError)):
                program.put(np.arange(5), i, j, s)
            continue
        expected[want] += 100
        np.testing.assert_array_equal(program.put(np.arange(5), i, j, s), expected)


def test_checks_that_are_not_needed_are_not_made() -> None:
    """Of ranges between places, and of what loops append to."""
    from futad.source import compile_text

    texts = [
        "entry f [n] (xs: [n]f64) = map (\\i -> f64.sum (map (\\j -> xs[j]) (i..<n))) (iota n)",
        "entry f [n] (xs: [n]f64) = map (\\i -> f64.sum (map (\\j -> xs[j]) (i + 1..<n))) (iota n)",
        "entry f [n] (xs: [n]f64) = map (\\i -> f64.sum (map (\\j -> xs[j]) (i...n - 1))) (iota n)",
        "entry f [n] (xs: [n]f64) = loop s = 0 for i < n do s + f64.sum (map (\\j -> xs[j] * s) (0...i))",
        "entry f [n] (xs: [n]f64) = map (\\i -> f64.sum (xs[:i] ++ xs[i:])) (iota n)",
        "entry f [n] (ys: [n]i64) = loop xs = [] for y in ys do xs ++ [y, y + 1]",
    ]
    for text in texts:
        assert "assert(" not in str(common(compile_text(text), C)), text


def test_places_at_strides_are_in_range() -> None:
    """A quotient times its divisor is at most the number, a quotient times more is not."""
    from futad.source import compile_text

    pairs = "entry f [n] (xs: [n]f64) = map (\\i -> xs[2 * i] * xs[2 * i + 1]) (iota (n / 2))"
    windows = (
        "entry f [n] (xs: [n]f64) = map (\\i -> f64.sum (map (\\p -> xs[2 * i + p]) (0..<3))) (iota ((n - 3) / 2 + 1))"
    )
    thirds = "entry f [n] (xs: [n]f64) = map (\\i -> xs[3 * i]) (iota (n / 2))"
    checks = [str(common(compile_text(text), C)).count(']@"') for text in (pairs, windows, thirds)]
    assert checks[:2] == [0, 0] and checks[2] > 0
