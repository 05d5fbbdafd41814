"""The C backends: `c` (one thread) and `multicore` (a thread pool).

The emitted source is one file.  Every entry becomes

    int64_t futad_entry_NAME(struct futad_context *ctx, void **args, struct futad_result *results)

where an argument points to a scalar or to an array's elements, and a result is a scalar's bits or an array's
address, the slot that owns it (-1: somebody else) and its shape.  The value is 0, or the code of the failure
described in `ctx->error`.  The context owns all temporary memory and is used by one call at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from futad import checks
from futad.backend.c_emit import CEmitter, c_name
from futad.core import ir as core
from futad.core.measures import Measured
from futad.deep import deep
from futad.errors import BackendError
from futad.imp.lower import Lowerer
from futad.imp.report import NO_REPORTS, Reports
from futad.imp.watch import Watching
from futad.runtime.ffi import CFunction, CLibrary, Layout
from futad.target import C, Target

GRAIN = 1 << 13  # scalar operations that are worth a thread


class CBackend:
    """A program compiled to C, which all passes of `target` have seen.

    Where the target has a thread pool each thread gets at least `grain` scalar operations (by default GRAIN); `carries`
    are the checks of docs/checking.md that the code carries, by default those that FUTAD_CHECK names; with those of
    memory and values it is compiled twice and each call made twice.
    """

    fresh = True

    @deep
    def __init__(
        self, program: core.Program, target: Target = C, grain: int | None = None, carries: frozenset[str] | None = None
    ) -> None:
        grain = GRAIN if grain is None else grain
        carries = checks.modes() if carries is None else carries
        self.memory_checked: CBackend | None = None
        if carries >= {checks.MEMORY, checks.VALUES}:
            # Checked memory takes other code; values and lanes are checked in the code that runs unchecked.
            carries -= {checks.MEMORY}
            self.memory_checked = CBackend(program, target, grain, carries=frozenset({checks.MEMORY}))
        if target.choices is not None:
            from futad.imp.loops.schedule import known

            target.choices.of(program, known)
        self.program = program
        self.multicore, self.stops = target.pool, target.stops
        self.hurried = target.stops  # whether the compiler is to be done soon
        self.grain = 1 if checks.MEMORY in carries else grain  # more pieces, more races to find
        lowerer_class: type[Lowerer] = Lowerer
        self.emitter: type[CEmitter] = CEmitter
        if checks.MEMORY in carries:
            from futad.backend.c_checked import CheckedEmitter
            from futad.optimise.tasks import in_order

            program = in_order(program)  # races between tasks are not looked for

            lowerer_class, self.emitter = Watching, CheckedEmitter
        elif checks.LANES in carries:
            from futad.backend.c_check_lanes import LaneCheckingEmitter

            self.emitter = LaneCheckingEmitter
        self.reports = Reports() if checks.VALUES in carries else None
        lowerer = lowerer_class(program, target)
        lowerer.reports = self.reports or NO_REPORTS
        self.module = lowerer.module()
        if target.choices is not None:
            target.choices.lowered()
        self.bindings, self.loops = tuple(lowerer.bindings), tuple(lowerer.loops)
        self.plan = lowerer.reports.plan()
        self._source: str | None = None
        self._compiled: CLibrary | None = None

    @property
    def source(self) -> str:
        """The C text; it includes `prelude.h`."""
        if self._source is None:
            emitter = self.emitter(self.module, self.multicore, self.grain)
            emitter.reports, emitter.stops = self.reports, self.stops
            self._source = deep(emitter.text)()
        return self._source

    @property
    def library(self) -> Any:
        """The shared library (compiled on first use)."""
        return self.compiled.lib

    @property
    def compiled(self) -> CLibrary:
        """The library ready to be called (compiled on first use)."""
        if self._compiled is None:
            from futad.runtime.cc import INSTALL_HINT, QUICK_FLAGS, build_library

            flags = QUICK_FLAGS if self.hurried else ()
            library = build_library(self.source, threads=self.multicore, flags=flags)
            if self.reports is None:
                try:
                    self._compiled = CLibrary(library, self.layout())
                except AttributeError as e:  # a library, but of something else
                    raise BackendError(f"the C compiler does not work: {e}", hint=INSTALL_HINT) from None
            else:
                from futad.runtime.valuecheck import CheckedLibrary

                first = self.memory_checked.compiled if self.memory_checked is not None else None
                self._compiled = CheckedLibrary(library, self.layout(), self.program, self.plan, first)
        return self._compiled

    @property
    def is_compiled(self) -> bool:
        return self._compiled is not None

    def unhurried(self) -> CBackend:
        """The same text, for which the compiler takes its time."""
        made = copy.copy(self)
        made.hurried, made._compiled = False, None
        return made

    def layout(self) -> Layout:
        """How the entries are called."""
        functions = {
            f.name: CFunction(
                f"futad_entry_{c_name(f.name)}",
                tuple([(p.name, p.type, p.rank) for p in f.params]),
                tuple([(r.type, 0 if r.value is not None else len(r.shape)) for r in f.results]),
            )
            for f in self.module.functions
            if not f.local
        }
        places = tuple(self.module.places)
        rank = max([r for f in functions.values() for _, r in f.results] + [1])
        return Layout(functions, places, rank, self.bindings, self.loops, self.module.sites)

    def measured(self) -> list[Measured]:
        """What the last call told of itself."""
        return self.compiled.measured()

    def memory(self) -> tuple[int, int]:
        """Bytes of temporary memory held, and how many times it has grown."""
        return self.compiled.memory()

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Run an entry on all of its core parameters (see docs/architecture.md, Backends).

        Raises BoundsError, AssertionFailed, OutOfMemory or ExecutionError with the source place.
        """
        return self.compiled.run(name, args)

    def run_into(self, name: str, args: Sequence[Any], outs: Sequence[Any]) -> None:
        """See `CLibrary.run_into`."""
        self.compiled.run_into(name, args, outs)

    def timed(self, name: str, args: Sequence[Any]) -> tuple[float, list[Any]]:
        """As `run`, with the seconds the compiled code took."""
        return self.compiled.timed(name, args)


__all__ = ["CBackend"]
