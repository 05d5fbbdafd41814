"""What is tried: programs of all kinds in one form, their derivatives as entries, their inputs."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from futad.core.types import PRIMS
from futad.errors import UsageError
from futad.testing import skeletons
from futad.testing.fuzz import budgets
from futad.testing.programs import source
from futad.testing.skeletons import Param, Program, is_float

# The derivatives: of first order forwards and backwards, of second order in all three ways that reverse mode is in.
# both: the value with the derivative in reverse mode; fwds, revs: derivatives in two directions at once.
FIRST = ("value", "fwd", "rev", "both", "fwds", "revs")
SECOND = ("fwdrev", "revfwd", "revrev")
MODES = FIRST + SECOND
SOURCE = "source"  # the random programs of `programs.source`
KINDS = (*skeletons.FAMILIES, SOURCE)


def kinds_named(names: Sequence[str]) -> list[str]:
    """The kinds of these names; none or `all`: all, `skeletons`: all but the random programs."""
    out: list[str] = []
    for name in names or ["all"]:
        if name == "all":
            out += KINDS
        elif name == "skeletons":
            out += skeletons.FAMILIES
        elif name in KINDS:
            out.append(name)
        else:
            raise UsageError(f"no kind of program is called '{name}'; there are: all, skeletons, {', '.join(KINDS)}")
    return list(dict.fromkeys(out))


# What the interpreter computes for a mode: the same, and what that is compared with.
_BESIDE = {
    "value": ("value",), "fwd": ("value", "fwd"), "rev": ("value", "fwd", "rev"),
    "both": ("value", "rev", "both"), "fwds": ("fwd", "fwds"), "revs": ("rev", "revs"), "fwdrev": ("rev", "fwdrev"),
    "revfwd": ("fwdrev", "revfwd"), "revrev": ("fwdrev", "revrev"),
}  # fmt: skip


@dataclass(slots=True)
class Case:
    """A program that is tried: its kind and seed make it, `modes` are the derivatives taken of it."""

    kind: str
    seed: int
    elem: str
    modes: tuple[str, ...]
    program: Program
    repeats: bool = False  # a scatter in it has several values for one place
    attribute: str = ""  # the budget of its derivatives

    @property
    def name(self) -> str:
        return f"{self.kind} {self.seed}"

    @property
    def calls(self) -> int:
        """How many inputs it is called with."""
        return 3 if self.program.around and "loop " not in self.program.text else 2  # the interpreter is slow at loops

    @property
    def precision(self) -> str:
        """By which tolerances results are compared."""
        return min(self.program.precision, "f8" if self.elem == "f64" else "f4")

    @property
    def reference(self) -> tuple[str, ...]:
        """The derivatives that the interpreter computes, to compare with; of kinds of many small programs no others
        beside these: dual numbers tell as much."""
        need = {m for mode in self.modes for m in ((mode,) if self.program.around else _BESIDE[mode])}
        return tuple(m for m in MODES if m in need)

    def source(self, tag: str) -> str:
        """The definitions, and the entries of `modes` and `reference`, which are called by their mode and `tag`."""
        entries = [entry(self.program, m, self.attribute) for m in MODES if m in (*self.modes, *self.reference)]
        text = "".join([self.program.text, *entries])
        text = re.sub(r"^entry (\w+)@", rf"entry \g<1>{tag}", text, flags=re.MULTILINE)
        return text.replace("@", f"_{tag}" if tag else "")  # a function f1 of one program is no f of the eleventh

    def text(self) -> str:
        """A program of this alone."""
        return head(self.kind, self.elem) + self.source("")


def head(kind: str, elem: str) -> str:
    """What programs of that kind have in front; equal for those that can share a file."""
    return source.head(elem) if kind == SOURCE else skeletons.HEAD.format(t=elem)


def case(kind: str, seed: int, elem: str, modes: Sequence[str], budgeted: bool = False) -> Case:
    """The program of that kind and seed; some have budgets, or all that are to be `budgeted`."""
    c = _plain(kind, seed, elem, modes)
    rng = budgets.drawn(kind, seed, budgeted)
    if rng is None:
        return c
    text = budgets.of_loops(rng, c.program.text)
    return replace(c, program=replace(c.program, text=text), attribute=budgets.attribute(rng))


def _plain(kind: str, seed: int, elem: str, modes: Sequence[str]) -> Case:
    if kind != SOURCE:
        return Case(kind, seed, elem, tuple(modes), skeletons.program(kind, seed))
    text, repeats = source.function(seed, elem, 6)
    params = (Param("xs", ("n",)), Param("ms", ("n", "k")), Param("s"))
    text = text.replace("def f ", "def f@ ", 1)
    made = Program(kind, text, ("n", "k"), params, ((), ("n",), ("k",), ()), smooth=True)
    return Case(kind, seed, elem, tuple(modes), made, repeats)


_SHARES = {"value": 38, "fwd": 6, "rev": 22, "both": 11, "fwds": 4, "revs": 5, "fwdrev": 7, "revfwd": 3, "revrev": 4}


def modes_of(rng: random.Random, elem: str) -> tuple[str, ...]:
    """The derivative that is taken of a program, as many programs find more than many derivatives of one; of one in two
    hundred all."""
    allowed = {m: share for m, share in _SHARES.items() if elem == "f64" or m in FIRST}
    if rng.random() < 0.005:
        return tuple(allowed)
    return (rng.choices(list(allowed), list(allowed.values()))[0],)


def entry(p: Program, mode: str, attribute: str = "") -> str:
    """The entry of that mode: its parameters are those of `f@`, then tangents, then cotangents, as it needs them.
    `attribute`: of derivatives in reverse mode."""
    sizes = "".join(f" [{s}]" for s in p.sizes)
    xs = " ".join(f"({q.name}: {q.type})" for q in p.params)
    ds = " ".join(f"(d_{q.name}: {q.type})" for q in p.floats)
    ys = " ".join(f"(y_{i}: {t})" for i, t in enumerate(p.result_types))
    x, d, y = (_tuple(names) for names in (
        [q.name for q in p.floats], [f"d_{q.name}" for q in p.floats], [f"y_{i}" for i in range(len(p.results))]
    ))  # fmt: skip
    f = f"(\\{x} -> f@ {' '.join(q.name for q in p.params)})"
    if mode == "value":
        return f"entry value@{sizes} {xs} = f@ {' '.join(q.name for q in p.params)}\n"
    # The second direction is the place itself, and the cotangents backwards.
    outs = p.outs or ("",) * len(p.results)
    halves = [f"(0.5 * y_{i})" if is_float(e) else f"y_{i}" for i, e in enumerate(outs)]
    back = _tuple([f"(reverse y_{i})" if shape else halves[i] for i, shape in enumerate(p.results)])
    vjp, mjp = f"{attribute}vjp", f"{attribute}mjp"
    body, more = {
        "fwd": (f"jvp {f} {x} {d}", ds),
        "rev": (f"{vjp} {f} {x} {y}", ys),
        "both": (f"{vjp}2 {f} {x} {y}", ys),
        "fwds": (f"jmp {f} {x} [{d}, {x}]", ds),
        "revs": (f"{mjp} {f} {x} [{y}, {back}]", ys),
        "fwdrev": (f"jvp (\\{x} -> {vjp} {f} {x} {y}) {x} {d}", f"{ds} {ys}"),
        "revfwd": (f"{vjp} (\\{x} -> jvp {f} {x} {d}) {x} {y}", f"{ds} {ys}"),
        "revrev": (f"{vjp} (\\{x} -> {vjp} {f} {x} {y}) {x} {d}", f"{ds} {ys}"),
    }[mode]
    return f"entry {mode}@{sizes} {xs} {more} = {body}\n"


def _tuple(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


@dataclass(slots=True)
class Inputs:
    """Sizes, and values for them: arguments, a tangent and a cotangent (of floats only)."""

    sizes: dict[str, int]
    args: list[Any]
    tangents: list[Any]
    cotangents: list[Any]

    def given(self, mode: str, args: Sequence[Any] | None = None) -> list[Any]:
        """The arguments of the entry of that mode."""
        own = list(self.args if args is None else args)
        if mode in ("fwd", "fwds", *SECOND):
            own += self.tangents
        if mode in ("rev", "both", "revs", *SECOND):
            own += self.cotangents
        return own


_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9)
_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0)
_DTYPES = {p.name: p.dtype for p in PRIMS.values()}
_AROUND = (7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)  # the lengths of vectors
_MANY = (16, 17, 31, 33, 40, 64, 70)  # around what goes through vectors and blocks of iterations at a time


def inputs(c: Case, number: int, sizes: dict[str, int] | None = None) -> Inputs:
    """The inputs of that number of a program: always the same.  The first ones are small."""
    p = c.program
    rng = np.random.default_rng([zlib.crc32(c.kind.encode()), c.seed, number])
    if sizes is None:
        sizes = {}
        for s in p.sizes:
            top = min(p.most.get(s, 9), 4 if number == 0 else 9)
            if c.kind == SOURCE:
                top = min(top, 5)
            choices = [z for z in _SIZES if p.least.get(s, 0) <= z <= top]
            sizes[s] = int(rng.choice(choices))
        free = [s for s in p.sizes if s not in p.most]
        if number > 0 and p.around and free:
            sizes[str(rng.choice(free))] = int(rng.choice(_AROUND))
        elif number > 0 and c.seed % 4 == 1 and free and p.text.count("loop ") <= 1:
            sizes[str(rng.choice(free))] = int(rng.choice(_MANY))
    dtype = np.dtype({"f64": "f8", "f32": "f4"}[c.elem])
    tied = ties(c, number)

    def floats(shape: Sequence[str | int], elem: str = "", special: bool = False) -> Any:
        dims = [sizes[d] if isinstance(d, str) else d for d in shape]
        values = rng.choice([0.0, 0.0, 1.0, -1.0, 0.5], dims) if tied else rng.normal(size=dims) * 0.8
        if special:
            values = np.where(rng.random(dims) < rng.choice([0.05, 0.3, 0.6]), rng.choice(_SPECIAL, dims), values)
        return np.asarray(values).astype(_DTYPES.get(elem, dtype))[()]

    def any_of(q: Param) -> Any:
        """Numbers of all sizes, those at the ends of the type among them."""
        of = np.dtype(_DTYPES[q.elem])
        dims = [sizes[d] if isinstance(d, str) else d for d in q.shape]
        if of.kind == "b":
            return np.asarray(rng.random(dims) < 0.5)[()]
        info = np.iinfo(of)
        ends = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1], of)
        wide = rng.integers(info.min, info.max, dims, of, endpoint=True)
        low = rng.integers(max(info.min, -20), 20, dims, of)
        return np.where(rng.random(dims) < 0.2, rng.choice(ends, dims), np.where(rng.random(dims) < 0.5, wide, low))[()]

    def bounded(q: Param) -> Any:
        assert q.bound is not None
        top = sizes[q.bound] if isinstance(q.bound, str) else q.bound
        dims = [sizes[d] if isinstance(d, str) else d for d in q.shape]
        return np.asarray(rng.integers(0, max(top, 1), dims), np.int64)[()]

    def argument(q: Param) -> Any:
        if q.is_float:
            return floats(q.shape, q.elem, p.special)
        return any_of(q) if q.bound is None else bounded(q)

    args = [argument(q) for q in p.params]
    tied = False
    tangents = [floats(q.shape, q.elem) for q in p.floats]
    outs = p.outs or ("",) * len(p.results)
    cotangents = [floats(r, e) if is_float(e) else _zeros(r, e, sizes) for r, e in zip(p.results, outs, strict=True)]
    return Inputs(sizes, args, tangents, cotangents)


def _zeros(shape: Sequence[str | int], elem: str, sizes: dict[str, int]) -> Any:
    """The cotangent of integers."""
    return np.zeros([sizes[d] if isinstance(d, str) else d for d in shape], _DTYPES[elem])[()]


def ties(c: Case, number: int) -> bool:
    """Whether these inputs have equal numbers in them: then there are no differences to compare with."""
    return number > 0 and c.seed % 23 == 7 and not c.program.around
