"""Failures of calls that nobody waits for: on arrays of a card, over the stand-in, whose work is done late."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import futad
from futad.errors import AssertionFailed, BoundsError
from futad.runtime.cupydevice import CupyDevice
from futad.runtime.deviceprogram import MOST_UNHEARD
from tests.support import fake_cupy
from tests.support.needs import needs_cxx
from tests.support.paths import ROOT

SOURCE = """
entry gather [n][m] (xs: [n]f64) (is: [m]i64): ([m]f64, [m]i32, [m]bool, f64) =
  let ys = map (\\i -> xs[i]) is
  in (ys, map i32.f64 ys, map (> 0) ys, f64.sum ys)
entry read [n] (xs: [n]f64) (is: [n]i64) (k: i64): [n]f64 =
  let ys = map (\\i -> xs[i]) is
  in loop ys while f64.sum ys < f64.i64 k do map (+ 1) ys
entry positive [n] (xs: [n]f64): [n]f64 = map (\\x -> assert (x > 0) (x + 1)) xs
entry safe [n] (xs: [n]f64): [n]f64 = map (* 2) xs
"""
XS = np.arange(1.0, 51.0)
GOOD, BAD = np.array([3, 0, 49]), np.array([3, 50, 49])
NOTE = r"a call of 'gather' failed before; its results"


@pytest.fixture(params=range(4), ids="seed{}".format)
def card(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> fake_cupy.Card:
    return fake_cupy.install(monkeypatch, fake_cupy.Card(seed=request.param))


@pytest.fixture
def prog(card: fake_cupy.Card) -> futad.Program:
    return futad.compile(SOURCE, "late.fut", backend="cuda")


def waits(card: fake_cupy.Card) -> list[str]:
    return [e[0] for e in card.log if e[0] in ("synchronise", "download", "wait for event")]


@pytest.mark.slow
@needs_cxx
def test_nobody_waits(card: fake_cupy.Card, prog: futad.Program) -> None:
    """A call that can fail, on arrays of the card, is started and left; with graphs too."""
    xs, places = fake_cupy.array(card, XS), fake_cupy.array(card, GOOD)
    for _ in range(4):
        card.log.clear()
        out = prog.gather(xs, places)
        assert waits(card) == []
    for got, want in zip(out, (XS[GOOD], XS[GOOD].astype("i4"), np.ones(3, bool), XS[GOOD].sum()), strict=True):
        np.testing.assert_array_equal(got.get(), want)
    futad.synchronise()


@pytest.mark.slow
@needs_cxx
def test_results_that_go_to_the_host_are_waited_for_once(card: fake_cupy.Card, prog: futad.Program) -> None:
    prog.positive(XS)
    card.log.clear()
    np.testing.assert_array_equal(prog.positive(XS), XS + 1)
    assert waits(card) == ["download", "synchronise"]  # both of the result
    with pytest.raises(AssertionFailed):
        prog.positive(-XS)
    np.testing.assert_array_equal(prog.positive(XS), XS + 1)


@pytest.mark.slow
@needs_cxx
def test_a_failure_is_heard_of(card: fake_cupy.Card, prog: futad.Program) -> None:
    """By `synchronise`; until then what the failed call handed over does not look like results."""
    xs = fake_cupy.array(card, XS)
    for _ in range(3):  # the last one replayed
        floats, ints, bools, total = prog.gather(xs, fake_cupy.array(card, BAD))
        assert np.isnan(floats.get()).all() and (ints.get() == -1).all() and bools.get().view("u1").tolist() == [1] * 3
        assert np.isnan(total.get())
        with pytest.raises(BoundsError, match=r"Index \[50\] out of bounds") as e:
            futad.synchronise()
        assert "its results are not valid" in e.value.notes[-1]
        futad.synchronise()  # once
        np.testing.assert_array_equal(prog.gather(xs, fake_cupy.array(card, GOOD))[0].get(), XS[GOOD])


@pytest.mark.slow
@needs_cxx
def test_a_card_that_is_done_before_the_call_is(
    card: fake_cupy.Card, prog: futad.Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call returns all the same: whether it raises does not hang on who is faster."""
    xs = fake_cupy.array(card, XS)
    hold = CupyDevice.hold
    monkeypatch.setattr(CupyDevice, "hold", lambda self, owner: (hold(self, owner), card.finish()))
    for _ in range(3):
        floats = prog.gather(xs, fake_cupy.array(card, BAD))[0]
        assert np.isnan(floats.get()).all()
        with pytest.raises(BoundsError, match=r"Index \[50\] out of bounds"):
            prog.gather(xs, fake_cupy.array(card, GOOD))
        np.testing.assert_array_equal(prog.gather(xs, fake_cupy.array(card, GOOD))[0].get(), XS[GOOD])


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("after", ["safe", "gather", "read", "on the host"])
def test_a_later_call_raises_it(card: fake_cupy.Card, prog: futad.Program, after: str) -> None:
    """Also one that fails itself by what it is handed, and with others in between."""
    xs = fake_cupy.array(card, XS)
    prog.gather(xs, fake_cupy.array(card, BAD))
    with pytest.raises(BoundsError, match=r"Index \[50\] out of bounds") as e:
        for _ in range(MOST_UNHEARD + 2):
            if after == "safe":
                prog.safe(xs)
                card.finish()
            elif after == "gather":
                prog.gather(xs, fake_cupy.array(card, GOOD))
            elif after == "read":
                prog.read(xs, fake_cupy.array(card, np.arange(50)), 3000)
            else:
                prog.positive(XS)
    assert any("a call of 'gather' failed before" in n for n in e.value.notes)
    futad.synchronise()
    np.testing.assert_array_equal(prog.safe(xs).get(), 2 * XS)
    np.testing.assert_array_equal(prog.gather(xs, fake_cupy.array(card, GOOD))[0].get(), XS[GOOD])
    futad.synchronise()


@needs_cxx
def test_who_wants_to_waits(card: fake_cupy.Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_SYNC", "1")
    prog = futad.compile(SOURCE, "late.fut", backend="cuda")
    with pytest.raises(BoundsError, match=r"Index \[50\] out of bounds"):
        prog.gather(fake_cupy.array(card, XS), fake_cupy.array(card, BAD))


@needs_cxx
def test_a_program_that_is_closed(card: fake_cupy.Card, prog: futad.Program) -> None:
    prog.gather(fake_cupy.array(card, XS), fake_cupy.array(card, BAD))
    with pytest.raises(BoundsError, match=r"Index \[50\]"):
        prog.executor().running.close()


SCRIPT = f"""
import sys
import numpy as np, pytest, futad
from tests.support import fake_cupy
card = fake_cupy.install(pytest.MonkeyPatch(), fake_cupy.Card())
prog = futad.compile({SOURCE!r}, "late.fut", backend="cuda")
prog.gather(fake_cupy.array(card, np.arange(50.0)), fake_cupy.array(card, np.array([3, 50])))
"""


@pytest.mark.slow
@needs_cxx
def test_the_end_of_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert "Index [50] out of bounds" in done.stderr and "a call of 'gather' failed" in done.stderr
    assert "Traceback" not in done.stderr
