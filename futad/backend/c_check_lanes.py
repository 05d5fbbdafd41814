"""C that looks whether iterations which are said to be independent are (docs/checking.md, `kernels/check_lanes.h`).

The text is that of the C backends with calls before each access in such a loop.  Wrong lanes give right results where
the C compiler makes no vectors of them, so that tests alone would find them by chance."""

from __future__ import annotations

from futad.backend.c_emit import CEmitter
from futad.core.failure import FailureSite
from futad.imp import ir
from futad.imp.ir import Expr


class LaneCheckingEmitter(CEmitter):
    """See above."""

    interrupts = False
    watched = False  # in an iteration of a loop that is looked at

    def runtime(self) -> tuple[str, str]:
        runtime, threads = super().runtime()
        return f'{runtime.rstrip()}\n#include "check_lanes.h"\n', threads

    def plain_for(self, s: ir.For) -> None:
        if not s.independent or self.watched:
            super().plain_for(s)
            return
        self.line("futad_lanes_begin();")
        self.watched = True
        super().plain_for(s)
        self.watched = False
        place = len(self.module.places)
        self.module.places.append(FailureSite(None, s.var))
        self.line("if (FUTAD_UNLIKELY(futad_lanes.first != -1)) {")
        self.line(f"  futad_fail(ctx, FUTAD_LANES, {place}, futad_lanes.first, futad_lanes.second, 0, 0);")
        self.line(f"  goto {self.label};")
        self.line("}")

    def iteration(self, body: list[ir.Stmt], endless: bool = False) -> None:
        if self.watched:
            self.line("  futad_lanes_next();")
        super().iteration(body, endless)

    def expr(self, e: Expr) -> str:
        if self.watched and isinstance(e, ir.Load):
            text = f"{e.pointer}[{self.index(e.index)}]"
            return f"(*(__typeof__(&{text}))futad_lanes_read(&{text}))"
        return super().expr(e)

    def store(self, s: ir.Store) -> None:
        if self.watched:
            self.line(f"futad_lanes_write(&{s.pointer}[{self.index(s.index)}]);")
        super().store(s)


__all__ = ["LaneCheckingEmitter"]
