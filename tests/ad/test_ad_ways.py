"""Whether a loop saves something in each iteration is known before any code for it is made."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from futad.ad.history.save import Saver, Ways
from futad.core.types import ArrayType
from futad.pipeline import compile_program
from futad.source import load_program
from tests.support.paths import ROOT


@pytest.mark.slow
def test_saves_is_what_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[bool, bool]] = []
    save = Saver.save

    def compared(self: Saver, which: Sequence[int], ways: Ways) -> None:
        save(self, which, ways)
        arrays = any(isinstance(p.type, ArrayType) for p in self.params)  # and sums, where it is undone with round-off
        found.append((ways.saves, arrays))

    monkeypatch.setattr(Saver, "save", compared)
    for name in ("inverse", "loops"):
        compile_program(load_program(str(ROOT / "tests" / "legality" / f"{name}.fut")), stop_after="ad")
    assert {*found} == {(True, True), (False, False)}
