"""Property tests: an entry of a `property:` line must be true for every value one can think of.

Candidates are random and grow, so the counterexample that is reported is about as small as there is one.  An entry's
`#[prop(gen(f), size(n))]` names another entry `f (size: i64) (seed: u64)` that makes the candidates, and their
largest size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from futad.api import Function, Program
    from futad.runtime.values import Signature

CANDIDATES = 100
LARGEST = 20  # size of the last candidate, unless the attribute says another


def check_property(program: Program, name: str, seed: int = 1) -> str | None:
    """None if no candidate makes the property false, else the one that does.

    Raises UsageError (no such entry), ValueError_ (an entry that is no property), and what the program raises.
    """
    import numpy as np

    from futad.compare import text_of
    from futad.core.types import PRIMS
    from futad.errors import ValueError_

    function = program[name]
    results = function.signature.results
    if len(results) != 1 or results[0].elem is not PRIMS["bool"] or results[0].dims:
        raise ValueError_(f"'{name}' is no property: it returns {function.entry.result.text}, not bool")
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
        shown = " ".join(text_of(v) for v in flat[len(function.signature.size_names) :])
        (holds,) = function.signature.visible(function.unit.run(function.core_name, flat))
        if not holds:
            return f"false for {shown}"
    return None


def _options(program: Program, function: Function) -> dict[str, Any]:
    """What `#[prop(...)]` says: the argument of each option by its name."""
    out: dict[str, Any] = {}
    for attribute in program.core.funs[function.core_name].attrs:
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
