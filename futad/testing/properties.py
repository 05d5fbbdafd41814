"""Property tests: an entry of a `property:` line must be true for every value one can think of.

Candidates are random and grow.  A counterexample is made smaller before it is reported: arrays shorter, numbers nearer
to zero.  An entry's `#[prop(gen(f), shrink(g), size(n))]` names other entries, `f (size: i64) (seed: u64)` that makes
the candidates and `g (x: t) (seed: u64): t` that makes one smaller, and the largest size.  What `f` makes is only made
smaller by `g`, since other values may be none that it would make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from futad.api.program import Function, Program
    from futad.runtime.values import Signature

CANDIDATES = 100
LARGEST = 20  # size of the last candidate, unless the attribute says another
TRIES = 500  # to make a counterexample smaller
IN_VAIN = 30  # of them one after the other, with a function of the program's
FEW = 20  # elements of an array that are made smaller one by one


def check_property(program: Program, name: str, seed: int = 1) -> str | None:
    """None if no candidate makes the property false, else the one that does.

    Raises UsageError (no such entry), InputError (an entry that is no property), and what the program raises.
    """
    import numpy as np

    from futad.core.types import PRIMS
    from futad.errors import InputError
    from futad.testing.compare import text_of

    function = program[name]
    results = function.signature.results
    if len(results) != 1 or results[0].elem is not PRIMS["bool"] or results[0].dims:
        raise InputError(f"'{name}' is no property: it returns {function.entry.result.text}, not bool")
    options = _options(program, function)
    generator = program[options["gen"]] if "gen" in options else None
    largest = int(options.get("size", LARGEST))
    rng = np.random.default_rng(seed)
    for i in range(CANDIDATES):
        size = largest * i // (CANDIDATES - 1)
        if generator is not None:
            made = generator(np.int64(size), np.uint64(rng.integers(0, 1 << 64, dtype=np.uint64)))
            flat = function.signature.flatten(made if len(function.entry.params) != 1 else (made,))
        else:
            flat = function.signature.bind(candidate(function.signature, rng, size))
        if not holds(function, flat):
            fails = _Fails(function)
            if "shrink" in options:
                flat = shrunk_by(program[options["shrink"]], fails, flat, rng)
            elif generator is None:
                flat = shrunk(fails, flat)
            return "false for " + " ".join(text_of(v) for v in flat[len(function.signature.size_names) :])
    return None


def holds(function: Function, flat: list[Any]) -> bool:
    """Whether the property is true for these arguments, which a run may overwrite: it gets copies."""
    import numpy as np

    copies = [v.copy() if isinstance(v, np.ndarray) else v for v in flat]
    (answer,) = function.signature.visible(function.executable.run(function.symbol, copies))
    return bool(answer)


class _Fails:
    """Whether arguments are a counterexample; counts how often that was asked."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.tries = 0

    def __call__(self, flat: list[Any]) -> bool:
        from futad.errors import Error

        self.tries += 1
        try:
            return not holds(self.function, flat)
        except Error:  # another failure than the one to be explained
            return False


def shrunk(fails: _Fails, flat: list[Any]) -> list[Any]:
    """A counterexample from which no step of `smaller` leads to another, if it is found in time."""
    found = True
    while found:
        found = False
        for candidate in smaller(fails.function.signature, flat):
            if fails.tries >= TRIES:
                return flat
            if fails(candidate):
                flat, found = candidate, True
                break
    return flat


def shrunk_by(function: Function, fails: _Fails, flat: list[Any], rng: Any) -> list[Any]:
    """The last counterexample that the program's own function makes of one.  Raises what that function raises."""
    import numpy as np

    from futad.errors import InputError

    want = fails.function.signature
    first, vain = len(want.size_names), 0
    while vain < IN_VAIN and fails.tries < TRIES:
        seed = np.uint64(rng.integers(0, 1 << 64, dtype=np.uint64))
        leaves = [v.copy() if isinstance(v, np.ndarray) else v for v in flat[first:]]
        if len(function.signature.params) != len(leaves) + 1:
            raise InputError(f"'{function.__name__}' does not take what the property takes, and a u64")
        given = function.signature.bind([*leaves, seed])
        made = function.signature.visible(function.executable.run(function.symbol, given))
        candidate = want.bind(made)
        same = all(np.array_equal(a, b, equal_nan=False) for a, b in zip(candidate[first:], flat[first:], strict=True))
        if not same and fails(candidate):
            flat, vain = candidate, 0
        else:
            vain += 1
    return flat


def smaller(signature: Signature, flat: list[Any]) -> Iterator[list[Any]]:
    """Arguments one step smaller than these: fewer rows, then numbers nearer to zero."""
    import numpy as np

    first = len(signature.size_names)
    named = sorted({d[1] for leaf in signature.params for d in leaf.dims if not isinstance(d, int)})
    for i in named:
        n = int(flat[i])
        for m in sorted({0, n // 2, n - 1} & set(range(n))):
            for start in sorted({0, n - m}):
                out = list(flat)
                out[i] = np.asarray(m).astype(np.asarray(flat[i]).dtype)[()]
                for j, leaf in enumerate(signature.params):
                    mine = [not isinstance(d, int) and d[1] == i for d in leaf.dims]
                    where = [slice(start, start + m) if here else slice(None) for here in mine]
                    if any(mine):
                        out[first + j] = np.ascontiguousarray(flat[first + j][tuple(where)])
                yield out
    for j in range(len(signature.params)):
        if first + j in named:
            continue
        for x in nearer(flat[first + j]):
            yield [*flat[: first + j], x, *flat[first + j + 1 :]]


def nearer(x: Any) -> Iterator[Any]:
    """A number or array with one or all of its numbers nearer to zero."""
    import numpy as np

    a = np.asarray(x)
    if not a.any():  # NaN counts as something
        return
    steps: list[Callable[[Any], Any]] = [lambda v: v * 0 if np.isfinite(v) else v.dtype.type(0)]
    if a.dtype.kind == "f":
        steps += [np.trunc, lambda v: v / 2]
    elif a.dtype.kind in "iu":
        steps += [lambda v: v.dtype.type(int(int(v) / 2)), lambda v: v.dtype.type(int(v) - (1 if v > 0 else -1))]
    yield np.zeros_like(a)[()] if a.ndim == 0 else np.zeros_like(a)
    places = [i for i in np.ndindex(*a.shape) if a[i]] if a.size <= FEW else []
    for place in places:
        for step in steps:
            with np.errstate(all="ignore"):
                new = step(a[place]) if a.dtype.kind != "b" else np.bool_(False)
            if new == new and new != a[place]:
                out = a.copy()
                out[place] = new
                yield out if a.ndim else out[()]


def _options(program: Program, function: Function) -> dict[str, Any]:
    """What `#[prop(...)]` says: the argument of each option by its name."""
    out: dict[str, Any] = {}
    for attribute in program.core.funs[function.symbol].attrs:
        if isinstance(attribute, tuple) and attribute[:1] == ("prop",):
            out.update({a.name: a.args[0] for a in attribute[1:] if getattr(a, "args", ())})
    return out


def candidate(signature: Signature, rng: Any, size: int) -> list[Any]:
    """Random flat arguments that fit together, arrays of at most `size` rows; numbers small or of their whole type."""
    import numpy as np

    first = len(signature.size_names)
    named = {d[1] for leaf in signature.params for d in leaf.dims if not isinstance(d, int)}
    sizes = {i: int(rng.integers(0, size + 1)) for i in named}
    leaves: list[Any] = []
    for i, leaf in enumerate(signature.params):
        t = leaf.elem
        shape = [d if isinstance(d, int) else sizes[d[1]] for d in leaf.dims]
        made: Any
        if first + i in named:
            made = np.asarray(sizes[first + i])
        elif t.is_bool:
            made = rng.random(shape) < 0.5
        elif t.is_float:
            made = rng.standard_normal(shape) * max(1, size)
        elif rng.random() < 0.5:
            info = np.iinfo(t.dtype)
            made = rng.integers(max(info.min, -size), min(info.max, size), shape, endpoint=True)
        else:
            info = np.iinfo(t.dtype)
            made = rng.integers(info.min, info.max, shape, dtype=t.dtype, endpoint=True)
        array = np.asarray(made).astype(t.dtype)
        leaves.append(array if array.ndim else array[()])
    return leaves
