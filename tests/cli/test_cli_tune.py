"""`futad tune`: what it measures, keeps and says, and that programs use what it found."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.cli import main
from futad.errors import InternalError, UsageError
from futad.runtime import tuning
from futad.runtime.device import EmulatedDevice, Thresholds
from futad.testing.build import device_backend
from futad.testing.strategy_tuner import StrategyTuner
from futad.testing.tuner import Call, Tuner
from tests.support.needs import has_cxx, needs_cxx

SOURCE = """
def softmax [m] (xs: [m]f64): [m]f64 =
  let top = f64.maximum xs
  let es = map (\\x -> f64.exp (x - top)) xs
  let s = f64.sum es
  in map (/ s) es
-- ==
-- entry: rows
-- random input { [40][30]f64 }
-- random input { [3][200]f64 }
-- input { [[1.0]] } output { [[1.0]] }
entry rows [n][m] (xss: [n][m]f64): [n][m]f64 = map softmax xss
entry picked [n] (k: i64) (xs: [n]f64) (is: [n]i64): f64 = f64.sum (map (\\i -> xs[i]) is) + f64.i64 k
entry product [n][m][k] (a: [n][k]f64) (b: [k][m]f64): [n][m]f64 =
  map (\\x -> map (\\y -> f64.sum (map2 (*) x y)) (transpose b)) a
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program, and a store of thresholds of its own."""
    (tmp_path / "tuned").mkdir()
    monkeypatch.setattr(tuning, "store_path", lambda model: tmp_path / "tuned" / f"{model}.json")
    (tmp_path / "p.fut").write_text(SOURCE)
    return str(tmp_path / "p.fut")


def used(file: str) -> tuple[int, ...]:
    """The thresholds that a program loaded now runs with."""
    r = futad.load(file, backend="emulated").executor().running.runtime  # type: ignore[attr-defined]
    assert r.blas == r.thresholds.blas
    return tuple(r.thresholds)


OWN = EmulatedDevice.limits.thresholds


@pytest.mark.slow
@needs_cxx
def test_measured_kept_and_used(file: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Times made up: a block a row always takes longest, so that the thresholds must say "a thread a row".
    program = futad.load(file, backend="emulated")
    running: Any = program.executor().running  # type: ignore[attr-defined]
    kinds = [k.kind for k in running.layout.kernels]

    def timed(self: Any, name: str, args: Any, runs: int) -> list[float]:
        self.runtime.trace = True
        self.runtime.counts.path.clear()
        self.run(name, args)
        self.runtime.trace = False
        slow = any(kinds[k] == "block" for k in self.runtime.counts.path if k >= 0)
        return [1.0 if slow else 0.25] * runs

    monkeypatch.setattr(type(running), "timed", timed)
    assert used(file) == tuple(OWN)
    assert main(["tune", file, "-b", "emulated", "-r", "2"]) == 0
    out = capsys.readouterr().out
    assert "3 data sets" in out and "block_inner: 8 -> " in out
    kept = json.loads((tmp_path / "tuned" / "emulated.json").read_text())
    (entry,) = kept["programs"].values()
    assert kept["device"] == "emulated" and entry["file"] == "p.fut" and entry["seconds"] < entry["seconds_before"]
    assert entry["seconds"] == 0.25 and entry["thresholds"]["block_inner"] > 200
    assert used(file) == tuple(entry["thresholds"].values()) != tuple(OWN)
    xss = np.random.default_rng(0).normal(size=(40, 30))
    again = futad.load(file, backend="emulated")
    want = np.exp(xss) / np.exp(xss).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(again.rows(xss), want, rtol=1e-12)
    path = again.executor().running.runtime.counts  # type: ignore[attr-defined]
    assert path.launches == 1
    # --show and --forget.
    assert main(["tune", file, "-b", "emulated", "--show"]) == 0
    out = capsys.readouterr().out
    assert "p.fut on emulated: tuned" in out and "block_inner" in out and "never" in out
    assert main(["tune", file, "-b", "emulated", "--forget"]) == 0
    assert used(file) == tuple(OWN)
    assert main(["tune", file, "-b", "emulated", "--show"]) == 0
    assert "not tuned" in capsys.readouterr().out


@pytest.mark.slow
@needs_cxx
def test_really_measured(file: str, capsys: Any) -> None:
    assert main(["tune", file, "-b", "emulated", "-r", "1", "-e", "rows"]) == 0
    assert "3 data sets" in capsys.readouterr().out
    found = used(file)
    assert len(found) == len(OWN) and all(v >= 0 for v in found)
    xss = np.ones((40, 30))
    np.testing.assert_allclose(futad.load(file, backend="emulated").rows(xss), 1 / 30)


@pytest.mark.slow
@needs_cxx
def test_sizes_given(file: str, capsys: Any) -> None:
    assert main(["tune", file, "-b", "emulated", "-e", "picked", "--size", "n=20,k=3", "-r", "1"]) == 0
    assert "1 data sets" in capsys.readouterr().out
    for sizes, says in (
        ("n=20", "has a size or number 'k'"), ("n=20,k=3,z=1", "no size or number is called 'z'; there are: k, n"),
        ("n", "--size is written"), ("n=-1", "--size is written"),
    ):  # fmt: skip
        assert main(["tune", file, "-b", "emulated", "-e", "picked", "--size", sizes]) == 2
        assert says in capsys.readouterr().err


def test_wrong_usage(file: str, tmp_path: Path, capsys: Any) -> None:
    plain = tmp_path / "plain.fut"
    plain.write_text("entry main (x: f64): f64 = x\n")
    for command, status, says in (
        (["tune", file, "-b", "c"], 2, "backend 'c' has no thresholds to tune; choose -b cuda or emulated"),
        (["tune", file, "-b", "emulated", "-r", "0"], 2, "--runs"),
        (["tune", str(tmp_path / "none.fut"), "-b", "emulated"], 1, "none.fut"),
        (["tune"], 2, "FILE"),
    ):
        assert main(command) == status
        assert says in capsys.readouterr().err
    if has_cxx():
        assert main(["tune", str(plain), "-b", "emulated"]) == 2
        assert "has no data sets to measure" in capsys.readouterr().err
        assert main(["tune", file, "-b", "emulated", "-e", "rowz"]) == 2
        assert "did you mean rows" in capsys.readouterr().err
    assert main(["tune", "--help"]) == 0
    assert "thresholds" in capsys.readouterr().out


@needs_cxx
def test_versions_that_disagree_are_a_defect(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = futad.load(file, backend="emulated")
    running: Any = program.executor().running  # type: ignore[attr-defined]
    call = Call("rows", program.rows.symbol, [40, 30, np.ones((40, 30))])
    tuner = Tuner(running, [call], 1, print)
    tuner.results[0] = [np.zeros((40, 30))]
    with pytest.raises(InternalError, match="rows: versions of the program disagree"):
        tuner.search()


@pytest.mark.slow
@needs_cxx
def test_the_blas_threshold(file: str) -> None:
    """With a BLAS whose products count as free, all products go there; with a slow one none."""
    from futad.pipeline import compile_program
    from futad.source import load_program

    def blas(device: EmulatedDevice, p: Any) -> bool:
        def matrix(x: tuple[int, int, int, int], rows: int, columns: int) -> np.ndarray:
            size = p.dtype.itemsize
            return np.ndarray((rows, columns), p.dtype, device.view(x[0]), 0, (x[1] * size, x[2] * size))

        matrix(p.c, p.m, p.n)[...] = matrix(p.a, p.m, p.k) @ matrix(p.b, p.k, p.n)
        return True

    program = device_backend(compile_program(load_program(file)))
    r = np.random.default_rng(1)
    a, b = r.normal(size=(12, 9)), r.normal(size=(9, 7))
    f = futad.load(file).product
    name, args = f.symbol, f.signature.flatten((a, b))
    for free in (True, False):
        running = program.on(EmulatedDevice(blas=blas))
        tuner = Tuner(running, [Call("product", name, args)], 1, lambda text: None)

        def timed(*_: Any, counts: Any = running.runtime, free: bool = free) -> list[float]:
            return [0.0, 1.0 if bool(counts.counts.products) != free else 0.1]

        running.timed = timed  # type: ignore[method-assign]
        best = tuner.search()
        assert (best.blas <= 12 * 7 * 9) == free
        np.testing.assert_allclose(running.run(name, args)[0], a @ b, rtol=1e-12)
        assert running.runtime.counts.products == int(free)


def test_a_broken_store_is_none(file: str, tmp_path: Path) -> None:
    path = tmp_path / "tuned" / "emulated.json"
    for text in ("", "{", "[]", '{"programs": 3}', '{"programs": {"k": {"thresholds": {"blas": "x"}}}}'):
        path.write_text(text)
        assert tuning.stored("emulated", "k") is None
    assert tuning.store("emulated", "k", Thresholds(1, 2, 3, 4, 5, 6, 7, 8), {}) == path
    assert tuning.stored("emulated", "k") == Thresholds(1, 2, 3, 4, 5, 6, 7, 8)
    tuning.store("emulated", "other", Thresholds(8, 7, 6, 5, 4, 3, 2, 1), {})
    assert len(tuning.read_store("emulated")) == 2
    tuning.store("emulated", "k", None, {})
    assert list(tuning.read_store("emulated")) == ["other"]


# --- schedules ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_fastest_alternatives_of_a_schedule_are_written(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, best = tmp_path / "own.sched", tmp_path / "best.sched"
    given.write_text("after fuse: alternatives(id, fold, repeat(id))\nenter: alternatives(fold | unit, unit)\n")
    options = ["-b", "interp", "-e", "rows", "-r", "1", "--strategies", str(given), "--output", str(best)]
    assert main(["tune", file, *options]) == 0
    out = capsys.readouterr().out
    assert out.count(" ms\n") == 4 and "3, 2: the strategy repeat(id) does not end" in out
    made = futad.strategies.load_schedule(best)
    assert "alternatives" not in str(made) and {"id", "fold"} & set(made.names)
    assert main(["run", file, "-e", "picked", "-b", "interp", "--strategy", str(best)]) != 0, "it has no input"


@needs_cxx
@pytest.mark.slow
def test_choices_of_devices_are_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, given, best = tmp_path / "h.fut", tmp_path / "own.sched", tmp_path / "best.sched"
    program.write_text("entry main [n] (is: [n]i64) (xs: [n]f64) = reduce_by_index (replicate 3 0) (+) 0 is xs\n")
    given.write_text('nest "h.fut:1": alternatives(atomic, shared, no shared, locks)\n')
    options = ["-b", "emulated", "-r", "1", "--size", "n=500", "--strategies", str(given), "--output", str(best)]
    assert main(["tune", str(program), *options]) == 0
    out = capsys.readouterr().out
    assert out.count(" ms\n") == 3 and "4: 'locks' is impossible for the nest h.fut:1: its operator is atomic" in out
    assert re.search(r'nest "h.fut:1": (no )?(shared|atomic)\n$', best.read_text())


def climbing(cost: Any, sizes: list[int]) -> tuple[tuple[int, ...], list[str]]:
    lines: list[str] = []
    tuner = StrategyTuner(sizes, lambda picked: [(cost(picked), [np.float64(1)])], lines.append)
    return tuner.search(), lines


def test_few_alternatives_are_all_measured_and_many_are_climbed() -> None:
    assert climbing(lambda p: 1 + abs(p[0] - 2) + p[1], [4, 2])[0] == (2, 0)
    best, lines = climbing(lambda p: 1 + sum((x - 3) ** 2 for x in p), [5, 5, 5, 5])
    assert best == (3, 3, 3, 3) and len(lines) < 200
    assert climbing(lambda p: 1.0 - p[0] / 100, [2])[0] == (0,), "what is hardly faster is not worth it"


def test_alternatives_that_compute_something_else_are_refused() -> None:
    tuner = StrategyTuner([2], lambda p: [(1.0, [np.float64(p[0])])], print)
    with pytest.raises(UsageError, match="alternatives 2 compute something else than the first ones"):
        tuner.search()


def test_options_that_do_not_go_together(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.sched").write_text("after fuse: repeat(id)\n")
    for wrong, why in (
        (["--strategies", str(tmp_path / "own.sched"), "--show"], "it goes with no --show"),
        (["--output", "x"], "--output is for --strategies"),
        (["--strategies", str(tmp_path / "none")], "cannot read"),
        (["-b", "interp", "-r", "1", "--strategies", str(tmp_path / "own.sched")], "the first of the alternatives"),
    ):
        assert main(["tune", file, *wrong]) != 0
        assert why in capsys.readouterr().err
