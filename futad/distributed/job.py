"""Running the parts of a split function: what is sent to a worker, and what it does with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad import __version__
from futad.api.executable import Executable
from futad.api.program import Function
from futad.core import ir
from futad.distributed.phases import FIRST, LEFT, LOCAL, RIGHT, START, WHOLE, Input, Part, Plan, split
from futad.distributed.recipes import Recipe
from futad.distributed.tree import Node, Tree
from futad.errors import Error, ShapeError, UsageError
from futad.pipeline import compile_program

STOP = "simplify-ad"  # the pass after which a function is split: derivatives are expanded, nothing is fused


class Split:
    """A function, split along a size, and the code of its parts.  It pickles by the function's source and the plan."""

    def __init__(self, function: Function, size: str, backend: str, plan: Plan | None = None) -> None:
        self.function, self.size, self.backend = function, size, backend
        of = function.executable
        if of.engine != "transform":
            raise UsageError("a derivative by the method 'dual' does not split: it runs on the interpreter")
        made: ir.Program | None = None
        if plan is None:
            try:
                plan, made = self._split()
            except Error as e:
                e.locate(of.texts)
                raise
        self.plan = plan
        origin = of.origin and of.origin.then("shard", function.symbol, size)
        core = made if made is not None else lambda: self._split()[1]
        self.executable = Executable(core, backend, of.check, of.texts, None, of.schedule, "transform", origin)

    def _split(self) -> tuple[Plan, ir.Program]:
        core = compile_program(self.function.executable.core, stop_after=STOP)
        return split(core, self.function.symbol, self.size)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        function: Any = self.function.__reduce__()
        digest = function[1][0].__reduce__()[1][0]
        key = hashlib.sha256(repr((digest, self.function.symbol, self.size, self.backend)).encode()).hexdigest()
        return _restored, (key, __version__, self.function, self.size, self.backend, self.plan)

    def run(self, part: Part, given: Callable[[Input], Any]) -> list[Any]:
        """Run a part on its inputs.  Raises what the program raises."""
        try:
            executor = self.executable.executor()
            return list(executor.run(part.name, [given(i) for i in part.inputs]))
        except (Error, MemoryError, ValueError) as e:
            if (shown := self.executable.explained(e)) is e:
                raise
            raise shown from None


_known: dict[str, Split] = {}  # in workers, by what they were made of: each compiles or loads its code once


def _restored(key: str, version: str, function: Function, size: str, backend: str, plan: Plan) -> Split:
    if version != __version__:
        raise UsageError(f"the worker has futad {__version__}, and who calls it futad {version}",
                         hint="install the same version everywhere")  # fmt: skip
    return _known.get(key) or _known.setdefault(key, Split(function, size, backend, plan))


@dataclass(frozen=True)
class Column:
    """An argument of which each shard has a part: the recipe, the dimension, and what the program takes."""

    recipe: Recipe
    dim: int
    dtype: np.dtype[Any]
    path: str

    def read(self, start: int, stop: int) -> np.ndarray[Any, Any]:
        part = np.require(self.recipe.read(self.dim, start, stop), self.dtype, ["C", "A"])
        shape = self.recipe.shape
        want = (*shape[: self.dim], stop - start, *shape[self.dim + 1 :])
        if part.shape != want:
            message = f"argument '{self.path}': the elements {start} to {stop} have shape {part.shape}, not {want}"
            raise ShapeError(message)
        return np.asarray(part)


@dataclass(frozen=True)
class Job:
    """One phase of one call: what all shards need of it.  `count`: n; `values`: what steps and the caller give."""

    split: Split
    level: int
    values: Mapping[Input, Any]
    columns: Mapping[int, Column]
    count: int
    shards: int

    def bounds(self, shard: int) -> tuple[int, int]:
        """The rows of a shard."""
        return self.count * shard // self.shards, self.count * (shard + 1) // self.shards

    def combine(self, left: list[Any], right: list[Any]) -> list[Any]:
        """Partial values of two runs of shards as those of both."""
        part = self.split.plan.phases[self.level].combine
        if part is None:
            return []
        sides = {LEFT: left, RIGHT: right}
        return self.split.run(part, lambda i: sides[i[0]][i[1]] if i[0] in sides else self.values[i])

    def tree(self) -> Tree[list[Any]]:
        return Tree(self.shards, self.combine)

    def shard(self, number: int) -> tuple[list[Any], list[Any]]:
        """What the phase makes of a shard: partial values, and its parts of sharded ones."""
        phase = self.split.plan.phases[self.level]
        start, stop = self.bounds(number)
        own = {LOCAL: stop - start, WHOLE: self.count, START: start, FIRST: np.bool_(number == 0)}

        def given(i: Input) -> Any:
            if i[0] == "row":
                return self.columns[i[1]].read(start, stop)
            return own[i[0]] if i[0] in own else self.values[i]

        made = dict(zip(phase.run.outputs, self.split.run(phase.run, given), strict=True))
        sums = [made[slot] for slot in (phase.combine.outputs if phase.combine is not None else [])]
        dims = dict(zip(phase.run.outputs, phase.run.dims, strict=True))
        return sums, [made[slot] for slot in phase.run.outputs if dims[slot] is not None]

    def run(
        self, first: int, last: int, done: Callable[[int], None] = lambda shard: None
    ) -> tuple[dict[Node, list[Any]], list[list[Any]]]:
        """The shards from `first` to `last`, in order: nodes of the tree, and the parts of sharded results."""
        tree, parts = self.tree(), []
        for k in range(first, last):
            sums, own = self.shard(k)
            tree.add((0, k), sums)
            parts.append(own)
            done(k)
        return tree.nodes, parts


__all__ = ["Column", "Job", "Split"]
