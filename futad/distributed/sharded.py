"""`shard`: an entry whose data are split along a size, evaluated shard by shard by an engine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from futad.api.argnums import Argnums
from futad.api.bind import Bound
from futad.api.program import Function
from futad.core.budget import Options
from futad.distributed.engines import Engine, Local, Made, Told
from futad.distributed.job import Column, Job, Split
from futad.distributed.phases import WHOLE, Input, Phase
from futad.distributed.recipes import Recipe, Unread, recipe_of, rows
from futad.errors import InputError, UsageError
from futad.runtime.structure import build_value, count_text, flatten_value

ENGINES = ("local", "dask", "mpi")
SHARDS = 8  # the least number, where none is told
SHARD_BYTES = 64 << 20  # of data in a shard, where no number is told
PATIENCE = 1800.0  # seconds, as long as a C compiler may take
WORTH = 0.02  # seconds of work a shard, below which one process is better


@dataclass(slots=True)
class PhaseReport:
    """What a phase of the last call took: seconds, tasks that were sent, bytes of values sent to and from them."""

    seconds: float
    tasks: int
    broadcast: int
    combined: int


@dataclass(slots=True)
class Report:
    """What the last call took.  Printed, it is a text of a few lines."""

    engine: str
    workers: int
    shards: int
    rows: int
    seconds: float = 0.0
    phases: list[PhaseReport] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.engine}: {count_text(self.rows, 'element')} in {count_text(self.shards, 'shard')}, "
                 f"{count_text(self.workers, 'worker')}: {self.seconds:.3g} s"]  # fmt: skip
        for k, p in enumerate(self.phases):
            lines.append(f"  phase {k}: {p.seconds:.3g} s, {count_text(p.tasks, 'task')}, {p.broadcast} bytes to each, "
                         f"{p.combined} bytes combined")  # fmt: skip
        work = sum([p.seconds for p in self.phases]) * self.workers / max(1, self.shards)
        if self.engine != "local" and work < WORTH:
            lines.append(f"  a shard is {work * 1000:.2g} ms of work: one process is better below {WORTH * 1000:.0f}")
        return "\n".join(lines)


class Sharded:
    """An entry over data in shards, which `shard` makes: called as the entry is."""

    def __init__(self, function: Function, over: str, engine: Engine, shards: int | None, progress: Any) -> None:
        self.function, self.over, self.engine = function, over, engine
        self._shards, self._progress = shards, progress
        self._splits: dict[Function, Split] = {}
        self._last = self._split(function)
        self.report: Report | None = None  # of the last call
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The entry's value; arguments as of the entry, those that are split also as recipes (`shard`)."""
        with self.engine.call():
            if kwargs:
                args = self.function.positional(args, kwargs)
            return self._call(self._split(self.function), args)

    def value_and_grad(self, *args: Any, argnums: Argnums = 0, **options: Unpack[Options]) -> Any:
        """The value and the gradient with respect to the arguments named, as of `futad.value_and_grad`; of an argument
        that is split an array of the whole."""
        with self.engine.call():
            derived = self.function.derivative("value_and_grad", argnums, **options)
            return self._call(self._split(derived), args)

    @property
    def phases(self) -> list[Phase]:
        """The phases of the last call, before the first one of the entry itself: each passes over the data once."""
        return self._last.plan.phases

    def explain(self, *, argnums: Argnums | None = None) -> str:
        """How the entry is split, or with `argnums` value and gradient: what is combined at the end of each phase, and
        what each value is, with its place in the source."""
        of = self.function if argnums is None else self.function.derivative("value_and_grad", argnums)
        plan = self._split(of).plan
        lines = [f"{of.__name__} over {self.over}: {count_text(len(plan.phases), 'phase')}, each reads the data"]
        for k, p in enumerate(plan.phases):
            lines.append(f"phase {k}: {count_text(p.statements, 'statement')} on each shard")
            lines += [f"  {'yields' if 'sharded' in text else 'combines'} {text}" for text in p.sums]
        return "\n".join([*lines, "values:", *[f"  {text}" for text in plan.texts]])

    def _split(self, f: Function) -> Split:
        if f not in self._splits:
            self._splits[f] = Split(f, self.over, self.engine.backend(f.executable.requested))
        return self._splits[f]

    # -- calls

    def _call(self, split: Split, args: Sequence[Any]) -> Any:
        began = time.perf_counter()
        self._last = split
        held: list[Any] = []  # arrays whose files last as long as they do
        core, columns, count = self._bind(split, args, held)
        shards = self._shards or self._chosen(columns)
        report = Report(self.engine.name, self.engine.workers(), shards, count)
        plan = split.plan
        values: dict[Input, Any] = {("argument", i): a for i, a in enumerate(core) if i not in columns}
        values[WHOLE, 0] = count
        with _progress(self._progress, shards * len(plan.phases)) as told:
            for level, phase in enumerate(plan.phases):
                self._step(split, phase.step, values)
                if not phase.run.outputs:
                    continue
                wanted = [*phase.run.inputs, *(phase.combine.inputs if phase.combine is not None else [])]
                sent = {i: values[i] for i in wanted if i in values}
                job = Job(split, level, sent, columns, count, shards)
                start = time.perf_counter()
                made = self.engine.run(job, _from(told, level * shards))
                self._take(phase, made, values)
                broadcast = sum([np.asarray(v).nbytes for v in sent.values()])
                report.phases.append(PhaseReport(time.perf_counter() - start, made.tasks, broadcast, made.sent))
                report.workers = made.workers
            self._step(split, plan.last, values)
        results = [x if kind == "number" else values[kind, x] for kind, x in plan.results]
        report.seconds = time.perf_counter() - began
        self.report = report
        sig = split.function.signature
        return build_value(sig.entry.result, iter([_own(r) for r in sig.visible(results)]))

    def _step(self, split: Split, step: Any, values: dict[Input, Any]) -> None:
        if step is not None:
            made = split.run(step, lambda i: values[i])
            values |= {("value", slot): v for slot, v in zip(step.outputs, made, strict=True)}

    def _take(self, phase: Phase, made: Made, values: dict[Input, Any]) -> None:
        """What a phase made."""
        if phase.combine is not None:
            values |= {("value", slot): v for slot, v in zip(phase.combine.outputs, made.sums, strict=True)}
        split = [(slot, d) for slot, d in zip(phase.run.outputs, phase.run.dims, strict=True) if d is not None]
        for k, (slot, dim) in enumerate(split):
            values["value", slot] = np.concatenate([own[k] for own in made.parts], axis=dim)

    def _chosen(self, columns: dict[int, Column]) -> int:
        total = sum([c.recipe.nbytes for c in columns.values()])
        return max(SHARDS, -(-total // SHARD_BYTES))

    def _bind(
        self, split: Split, args: Sequence[Any], held: list[Any]
    ) -> tuple[list[Any], dict[int, Column], int]:
        """The core arguments, those that are split as columns, and the size."""
        sig, plan = split.function.signature, split.plan
        entry = sig.entry
        if len(args) != len(entry.params):
            message = f"{entry.name} takes {count_text(len(entry.params), 'argument')}, not {len(args)}"
            raise UsageError(message, hint=sig.text())
        raw = [leaf for (name, t), value in zip(entry.params, args, strict=True)
               for leaf in ([value] if _is_source(value) else flatten_value(t, value, name, entry.name))]  # fmt: skip
        if len(raw) != len(sig.params):
            raise UsageError(f"{entry.name}: a recipe is for one array, not for a tuple or record of several")
        sizes = len(sig.size_names)
        leaves: list[Any] = []
        for k, (value, leaf) in enumerate(zip(raw, sig.params, strict=True)):
            if plan.params[sizes + k] is None:
                if _is_source(value):
                    raise UsageError(f"argument '{leaf.path}' is not split along {self.over}: it is no recipe")
                leaves.append(sig.converted(k, value))
            elif callable(value) and not hasattr(value, "shape"):
                leaves.append(value)
            else:
                found = recipe_of(value, leaf.path)
                if isinstance(found, Recipe):
                    probe = np.zeros((0,) * len(found.shape), found.dtype)
                    sig.converted(k, probe)
                    leaves.append(found)
                else:
                    held.append(sig.converted(k, found))
                    leaves.append(self.engine.recipe(held[-1]))
        known = [r.shape[plan.params[sizes + k] or 0] for k, r in enumerate(leaves) if isinstance(r, Recipe)]
        if plan.over >= sizes:
            known.append(int(leaves[plan.over - sizes]))
        for k, value in enumerate(leaves):
            if callable(value) and not isinstance(value, Recipe) and plan.params[sizes + k] is not None:
                if not known:
                    message = f"nothing tells how many rows the function for '{sig.params[k].path}' has"
                    raise UsageError(message, hint="futad.distributed.rows(function, count)")
                leaves[k] = rows(value, known[0]).recipe()
        core = sig.bind(leaves)
        columns = {
            i: Column(r, plan.params[i] or 0, sig.params[i - sizes].elem.dtype, sig.params[i - sizes].path)
            for i, r in enumerate(core) if isinstance(r, Recipe)
        }  # fmt: skip
        count = int(core[plan.over])
        if count < 0:
            raise InputError(f"{entry.name}: {self.over} is {count}")
        return core, columns, count


def _is_source(value: Any) -> bool:
    """Whether it is a recipe or a function of a range."""
    return isinstance(value, Recipe | Unread) or (callable(value) and not hasattr(value, "shape"))


def _own(r: Any) -> Any:
    return np.array(r) if isinstance(r, np.ndarray) and r.ndim else r


def _from(told: Told, first: int) -> Told:
    return lambda done: told(first + done)


@contextlib.contextmanager
def _progress(asked: Any, total: int) -> Iterator[Told]:
    """Whom shards are told to that are done: a function of (done, total), or a bar on the terminal."""
    if callable(asked):
        yield lambda done: asked(done, total)
        return
    if not asked:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("shards", total=total)
        yield lambda done: bar.update(task, completed=done)


def shard(
    f: Function, over: str, *, engine: str | None = None, shards: int | None = None, client: Any = None,
    folder: str | None = None, progress: bool | Callable[[int, int], None] = False, timeout: float | None = PATIENCE,
) -> Sharded:
    """The entry f with its data split along the size (or i64 parameter) `over`: called as f, with `value_and_grad`.

    What arrays have that dimension is split; it is given as an array, or as a recipe, of which each worker reads its
    part: a `numpy.memmap`, an array of Zarr, Dask or h5py, `parquet(path, columns)`, `rows(function, count)` or a
    function of (start, stop).  Others are the same for all.

    `engine`: 'local' (this process, one shard after the other: for data larger than memory), 'dask' (the workers of
    `client`, a `distributed.Client`; the default with one) or 'mpi' (all ranks of MPI.COMM_WORLD, which all make the
    same calls; `client`: another communicator).  `shards`: how many; they are ranges of equal size, combined in a tree
    that depends on their number alone, so results have the same bits on any workers.  `folder`: where arrays in memory
    are written once for Dask's workers, which all must see.  `progress`: True: a bar; or a function of (done, total).
    `timeout`: how many seconds a rank of MPI waits for another one that does not make the call, or finishes no shard,
    and a caller of Dask where there are no workers; None: for ever.

    Raises UsageError if f has no such size, UnsupportedError, with the place in the source, if the program does not
    split along it.  In a call, on all ranks of MPI if one fails: its own exception on that one, an ExecutionError that
    quotes it on the others.
    """
    if timeout is not None and not timeout > 0:
        raise UsageError(f"timeout must be a positive number of seconds or None, not {timeout!r}")
    if isinstance(f, Bound) or not isinstance(f, Function):
        raise UsageError("shard takes an entry of a program, without bound arguments")
    if shards is not None and (isinstance(shards, bool) or not isinstance(shards, int) or shards < 1):
        raise UsageError(f"shards must be a positive int, not {shards!r}")
    name = engine or ("dask" if client is not None else "local")
    made: Engine
    if name == "local":
        made = Local()
    elif name == "dask":
        from futad.distributed.with_dask import Dask

        made = Dask(client, folder, timeout)
    elif name == "mpi":
        from futad.distributed.with_mpi import MPI

        made = MPI(client, timeout)
    else:
        raise UsageError(f"no engine is called {engine!r}; there are: {', '.join(ENGINES)}")
    return Sharded(f, over, made, shards, progress)


__all__ = ["Report", "Sharded", "shard"]
