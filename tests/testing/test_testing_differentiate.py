"""Programs of others, differentiated: what is right, wrong, refused, and what fails by itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import futad
from futad.errors import UsageError
from futad.testing import differentiate
from futad.testing.derivatives import Probe
from tests.support.needs import needs_cc

pytestmark = needs_cc

PROGRAM = """
-- ==
-- entry: dot
-- input { [1.0, 2.0] [3.0, 4.0] } output { 11.0 }
entry dot [n] (xs: [n]f64) (ys: [n]f64) = f64.sum (map2 (*) xs ys)
entry count [n] (xs: [n]f64) = n
entry kink (x: f64) = f64.abs (x - x) + f64.floor x
entry fails (x: f64) = assert (x > 1e9) x
"""
OWN = "entry own (x: f64) = with_vjp (\\x -> x * x) (\\_ b -> 7 * b) x\n"
BACKENDS = ("interp", "c")


def rows(tmp_path: Path, text: str) -> dict[tuple[str, str], differentiate.Row]:
    file = tmp_path / "main.fut"
    file.write_text(text)
    return {(r.entry, r.backend): r for r in differentiate.try_file(str(file), BACKENDS)}


@pytest.mark.slow
def test_entries_with_floats_in_and_out(tmp_path: Path) -> None:
    got = rows(tmp_path, PROGRAM)
    assert {e for e, _ in got} == {"dot", "kink", "fails"}
    assert [got["dot", b].status for b in BACKENDS] == ["right", "right"]
    assert got["fails", "interp"].status == "fails" and "Assertion is false" in got["fails", "interp"].detail


def test_a_program_that_does_not_compile_is_refused_with_its_reason(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "entry f (x: f64) = y\n").values()
    assert row.status == "refused" and "y" in row.detail


@pytest.mark.slow
def test_derivatives_of_its_own_may_be_anything(tmp_path: Path) -> None:
    assert {r.status for r in rows(tmp_path, OWN).values()} == {"right"}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["value", "jvp", "vjp"])
def test_a_wrong_backend_is_found(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(Probe, what if what != "value" else "call")

    def wrong(self: Probe, given: object) -> object:
        out = right(self, given)
        if self.f.executable.backend != "c":
            return out
        return [x * 2 for x in out] if what == "value" else {k: x * 2 for k, x in out.items()}

    monkeypatch.setattr(Probe, what if what != "value" else "call", wrong)
    got = rows(tmp_path, PROGRAM)
    assert got["dot", "interp"].status == "right" and got["dot", "c"].status == "wrong", got
    assert what in got["dot", "c"].detail or "<ybar" in got["dot", "c"].detail


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.fut").write_text(PROGRAM)
    (tmp_path / "b.fut").write_text("entry g (x: i64) = x\n")
    log = tmp_path / "log.json"
    assert differentiate.main([str(tmp_path), "--backends", "c", "--log", str(log)]) == 0
    assert "3 entries of 2 files" in capsys.readouterr().out
    assert {json.loads(line)["status"] for line in log.read_text().splitlines()} >= {"right", "fails"}
    assert differentiate.main([str(tmp_path), "--backends", "c", "--log", str(log)]) == 0
    assert "0 entries" in capsys.readouterr().out  # the log has them
    with pytest.raises(UsageError, match="no backend"):
        differentiate.main([str(tmp_path), "--backends", "gpu"])
    with pytest.raises(UsageError, match="no file"):
        differentiate.main([str(tmp_path / "c.fut")])


def test_where_rounding_decides() -> None:
    """Differences there say nothing: of a wave with far more iterations than digits, of the inverse of what is nearly
    0."""
    program = futad.compile(
        "entry wave (x: f64): f64 = f64.sin (1e17 * x)\n"
        "entry inverse (x: f64): f64 = 1 / (x - 0.7 + 1e-15)\n"
        "entry square (x: f64): f64 = x * x\n"
        "entry step (x: f64): f64 = if x < 0.5 then 1e30 * x else x",
        backend="interp",
    )
    at = [np.float64(0.7)]
    decides = {n: differentiate._derivatives(f, at).rounding_decides() for n, f in program.entries.items()}
    assert decides == {"wave": True, "inverse": True, "square": False, "step": False}
