"""What chains save (`chains.py`) as a list of records, where an iteration keeps a record (`rules/records.py`).

What `update_log.py` saves in arrays of as many elements as there are iterations is here a list of records: each update
keeps what it overwrites, and the record of the update before.  So nothing needs to be known of how many there are, and
a branch that is not taken keeps nothing.  The return sweep goes through the list from its end, and reads each once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from futad.ad.history.chains import Element, Elements, Finder
from futad.ad.history.threads import History, Log, State, Undoer, logged
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import REC, Atom, Type, Var

Link = Literal["link"]


class RecordLog(Log[Link], History):
    """The end of the list, in both sweeps; what an iteration saves has no place."""

    back = (REC,)

    def keys(self, elements: Elements) -> dict[Link, Type]:
        return {"link": REC}

    def keep(self, b: Builder, now: dict[Link, Atom], el: Element, at: ir.Atoms, values: Sequence[Atom]) -> None:
        now["link"] = b.let(ir.Keep((now["link"], *values)), "log")

    def read(self, b: Builder, el: Element, at: ir.Atoms, values: Sequence[Var], state: State) -> State:
        before = Var("log", REC)
        b.add(ir.Stm((before, *values), ir.Kept(*state)))
        return (before,)


def logging(stms: Sequence[ir.Stm], elements: Elements, link: Atom) -> tuple[list[ir.Stm], Atom]:
    """The statements with a list of records added that begins with `link`; its end."""
    now: dict[Link, Atom] = {"link": link}
    return logged(RecordLog(), stms, elements, (), now), now["link"]


def undone(b: Builder, finder: Finder, y: Var, elements: Elements, link: Atom, env: Mapping[Var, Atom]) -> Var:
    """Emit the code that takes back the updates of a list of records, given the array `y` after them; the array before
    them.  `env`: loop indices of the forward code to those of the iteration."""
    return Undoer(finder, RecordLog()).run(b, y, elements, (), env, (link,))[0]


__all__ = ["logging", "undone"]
