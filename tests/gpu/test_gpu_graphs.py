"""Repeated calls: nothing is allocated, nothing copied in secret, and what does not change is replayed as graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from futad.backend.cuda import DeviceBackend
from futad.errors import BoundsError, InternalError, OutOfMemory
from futad.pipeline import compile_program
from futad.runtime import graph_capture
from futad.runtime.arena import Arena, bytes_text
from futad.runtime.device import EmulatedDevice, Frame
from futad.runtime.deviceprogram import DeviceProgram
from futad.runtime.exchange import device_array
from futad.source import compile_text
from futad.testing.build import device_backend
from tests.support.needs import needs_cxx

# Each iteration is a map and a sum, so that it has launches enough; `until` reads its condition in every iteration.
SOURCE = """
def iteration [n] (xs: [n]f64): [n]f64 =
  let s = f64.sum xs
  let ys = map (\\x -> x / (1 + f64.abs s / 300)) xs
  let t = f64.sum (map (\\y -> y * y) ys)
  in map (\\y -> y - 1e-5 * t) ys
entry steps [n] (k: i64) (a: f64) (xs: [n]f64): [n]f64 = map (* a) (loop xs for _i < k do iteration xs)
entry until [n] (limit: f64) (xs: [n]f64): (i64, [n]f64) =
  loop (k, xs) = (0, xs) while f64.sum xs > limit do (k + 1, iteration (iteration xs))
entry gather [n][m] (xs: [n]f64) (is: [m]i64): f64 =
  let ys = map (\\i -> xs[i]) is
  in f64.sum (iteration (iteration ys))
entry grown [n] (k: i64) (xs: [n]f64): [k]f64 =
  let s = f64.sum (iteration (iteration xs))
  in map (\\i -> s + f64.i64 i) (iota k)
entry total [n] (xs: [n]f64): f64 = f64.sum xs
entry checked [n] (xs: [n]f64): f64 =
  let ys = iteration (iteration xs)
  let s = f64.sum ys
  in assert (s < 100) s
"""


@pytest.fixture(scope="module")
def made() -> DeviceBackend:
    return device_backend(compile_program(compile_text(SOURCE, "main")), loops_by_host=True)


@pytest.fixture
def program(made: DeviceBackend) -> DeviceProgram:
    return DeviceProgram(EmulatedDevice(), made.layout, made.source, made.host, made.constants)


XS = np.linspace(0.1, 1, 300)


def done(program: DeviceProgram, call: Callable[[], Any]) -> tuple[Any, Counter[str]]:
    """What a call returns, and what it made the device do."""
    device = program.device
    assert isinstance(device, EmulatedDevice)
    before = device.done.copy()
    return call(), device.done - before


def on_device(program: DeviceProgram, xs: np.ndarray) -> Any:
    """A device array with these contents, as the argument of a core function."""
    ((made, address),) = program.device.results([(xs.dtype, xs.shape)])
    program.device.upload(address, xs)
    return device_array(made, "xs")


@pytest.mark.slow
@needs_cxx
def test_the_host_code_does_not_run_again(program: DeviceProgram) -> None:
    xs = on_device(program, XS)
    args = [300, 3, 2.0, xs]
    first, work = done(program, lambda: program.run("steps", args))
    assert not work["graph"] and work["launch"] > 6 and program.runtime.counts.launches == work["launch"]
    second, _ = done(program, lambda: program.run("steps", args))
    assert program.runtime.counts.captured == 1
    program._functions["steps"] = None  # type: ignore[assignment]
    third, work = done(program, lambda: program.run("steps", args))
    # One graph; memory for the result and its copy.  No kernel, upload or download beside.
    assert work == Counter(graph=1, alloc=1, copy=1, wait=1)
    assert program.runtime.counts.replayed == 1 and program.runtime.counts.launches > 6
    assert first[0].numpy().tolist() == second[0].numpy().tolist() == third[0].numpy().tolist()
    # The graph reads the argument's memory, not what was in it.
    program.device.upload(xs.address, XS * 2)
    fourth = program.run("steps", args)[0].numpy()
    np.testing.assert_allclose(fourth, interpreted("steps", [300, 3, 2.0, XS * 2]), rtol=1e-12)
    assert fourth.tolist() != third[0].numpy().tolist()


def interpreted(name: str, args: list[Any]) -> Any:
    """The first result, from the interpreter."""
    from futad.core.interp import Interpreter

    return Interpreter(compile_program(compile_text(SOURCE, "main"))).run(name, args)[0]


@pytest.mark.slow
@needs_cxx
def test_other_numbers_addresses_or_sizes_are_other_graphs(program: DeviceProgram) -> None:
    xs = on_device(program, XS)
    calls = {
        "a": [300, 3, 2.0, xs], "number": [300, 3, 3.0, xs], "iterations": [300, 4, 2.0, xs],
        "address": [300, 3, 2.0, on_device(program, XS + 1)], "size": [200, 3, 2.0, on_device(program, XS[:200])],
    }  # fmt: skip
    want = {k: program.run("steps", a)[0].numpy().tolist() for k, a in calls.items()}
    assert len({tuple(w) for w in want.values()}) == len(calls)
    for _ in range(3):
        for k, a in calls.items():
            assert program.run("steps", a)[0].numpy().tolist() == want[k], k
    assert program.runtime.counts.replayed == 1
    assert not np.array_equal(graph_capture.word(np.float64(0.0)), graph_capture.word(np.float64(-0.0)))


@needs_cxx
def test_slots_that_move_invalidate_graphs(program: DeviceProgram) -> None:
    xs = on_device(program, XS)
    small, large = [300, 10, xs], [300, 5000, xs]
    want = program.run("grown", small)[0].numpy().tolist()
    program.run("grown", small)
    program.run("grown", small)
    assert program.runtime.counts.replayed == 1
    version = program.runtime.arena.version
    big = program.run("grown", large)[0].numpy()
    assert program.runtime.arena.version > version
    assert program.run("grown", small)[0].numpy().tolist() == want
    assert program.runtime.counts.replayed == 0 and program.runtime.counts.captured == 1
    for _ in range(3):
        assert program.run("grown", large)[0].numpy().tolist() == big.tolist()
        assert program.run("grown", small)[0].numpy().tolist() == want
    assert program.runtime.counts.replayed == 1


@pytest.mark.slow
@needs_cxx
def test_a_loop_that_the_host_must_watch(program: DeviceProgram) -> None:
    """Stretches between reads are graphs; the same course is replayed, another one captured from where it departs."""
    xs = on_device(program, XS)
    args = [300, 20.0, xs]
    (k, ys), _ = done(program, lambda: program.run("until", args))
    iterations = k.item()
    assert iterations >= 2
    reads = program.runtime.counts.reads
    assert iterations <= reads <= iterations + 1  # the conditions, nothing else
    program.run("until", args)
    program.run("until", args)
    counts = program.runtime.counts
    assert counts.replayed >= iterations and counts.captured == 0 and counts.reads == reads
    program.device.upload(xs.address, XS / 3)  # leaves the loop elsewhere
    again, other = program.run("until", args)
    want = interpreted("until", [300, 20.0, XS / 3])
    assert again.item() == int(want) != iterations
    assert program.runtime.counts.replayed > 0
    fresh = program.run("until", [300, 20.0, XS / 3])
    assert other.numpy().tolist() == fresh[1].tolist() and again.item() == fresh[0]
    program.device.upload(xs.address, XS)
    assert program.run("until", args)[1].numpy().tolist() == ys.numpy().tolist()


@needs_cxx
def test_failures_in_graphs(program: DeviceProgram) -> None:
    is_ = np.arange(20)
    there = on_device(program, is_)
    args = [300, 20, on_device(program, XS), there]
    want = program.run("gather", args)[0].item()
    for _ in range(2):
        assert program.run("gather", args)[0].item() == want
    assert program.runtime.counts.replayed == 1
    for bad in (300, -1):
        program.device.upload(there.address, np.where(is_ == 7, bad, is_))
        with pytest.raises(BoundsError, match=rf"Index \[{bad}\] out of bounds for array of shape \[300\]") as e:
            program.run("gather", args)
        assert e.value.span is not None and program.runtime.counts.replayed == 1
        program.device.upload(there.address, is_)
        assert program.run("gather", args)[0].item() == want  # the failure does not stick


@needs_cxx
def test_a_failure_while_capturing(program: DeviceProgram) -> None:
    there = on_device(program, np.arange(20))
    args = [300, 20, on_device(program, XS), there]
    want = program.run("gather", args)[0].item()
    program.device.upload(there.address, np.full(20, 999))
    with pytest.raises(BoundsError, match=r"Index \[999\]"):
        program.run("gather", args)
    assert program.runtime.step is None
    program.device.upload(there.address, np.arange(20))
    for _ in range(3):
        assert program.run("gather", args)[0].item() == want


@needs_cxx
def test_without_graphs(made: DeviceBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_GRAPHS", "0")
    program = DeviceProgram(EmulatedDevice(), made.layout, made.source, made.host, made.constants)
    xs = on_device(program, XS)
    for _ in range(3):
        _, work = done(program, lambda: program.run("steps", [300, 3, 2.0, xs]))
        assert not work["graph"] and work["launch"]


@pytest.mark.slow
@needs_cxx
def test_long_stretches_are_cut_and_many_reads_not_captured(
    program: DeviceProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("futad.runtime.host.MOST_NODES", 5)
    xs = on_device(program, XS)
    want = program.run("steps", [300, 6, 2.0, xs])[0].numpy().tolist()
    for _ in range(2):
        assert program.run("steps", [300, 6, 2.0, xs])[0].numpy().tolist() == want
    assert program.runtime.counts.replayed > 3 and program.runtime.counts.captured == 0
    monkeypatch.setattr(graph_capture, "MOST_STEPS", 2)
    out = program.run("until", [300, 20.0, xs])
    for _ in range(3):
        again = program.run("until", [300, 20.0, xs])
        assert [x.numpy().tolist() for x in again] == [x.numpy().tolist() for x in out]
    counts = program.runtime.counts
    assert counts.replayed >= 1 and counts.captured == 0 and counts.launches > 0


@needs_cxx
def test_memory_in_steady_state(program: DeviceProgram) -> None:
    """NumPy in and out: after the first call only the transfers remain, and one block holds all memory."""
    args = [300, 3, 2.0, XS]
    program.run("steps", args)
    device = program.device
    assert isinstance(device, EmulatedDevice)
    for _ in range(3):
        out, work = done(program, lambda: program.run("steps", args))
        assert work["alloc"] == 0 and work["upload"] == 1 and work["download"] == 1
        counts = program.runtime.counts
        assert (counts.uploaded, counts.downloaded, counts.reads) == (XS.nbytes, XS.nbytes, 0)
    assert len(device.buffers) == 2  # the block, and the record of failures
    program.close()
    assert len(device.buffers) == 1


@needs_cxx
def test_out_of_device_memory_names_the_array(made: DeviceBackend) -> None:
    device = EmulatedDevice(memory=100_000)
    program = DeviceProgram(device, made.layout, made.source, made.host, made.constants)
    program.run("grown", [300, 10, XS])
    with pytest.raises(OutOfMemory, match=r"^Error: out of device memory: 800 kB .* '\w+', beside .*; .* are free"):
        program.run("grown", [300, 100_000, XS])
    with pytest.raises(OutOfMemory, match="400 kB are needed for the array 'xs'"):
        program.run("grown", [50_000, 10, np.ones(50_000)])
    assert program.run("grown", [300, 2, XS])[0].shape == (2,)  # and goes on
    assert bytes_text(999) == "999 bytes" and bytes_text(12_345_678_901) == "12.3 GB"


def test_slots_that_do_not_fit_in_one_block() -> None:
    """Two slots fit beside each other, but not when a block for both is wanted at once with something else there."""
    device = EmulatedDevice(memory=4096)
    arena = Arena(device)
    a = arena.ensure("a", 1000, "a", lambda: None)
    b = arena.ensure("b", 500, "b", lambda: None)
    assert a != b and arena.nbytes == 1024 + 512
    arena.consolidate()
    assert len(device.buffers) == 1 and arena.slots["b"][0] - arena.slots["a"][0] == 1024
    version = arena.version
    arena.consolidate()
    assert arena.ensure("a", 900, "a", lambda: None) == arena.slots["a"][0] and arena.version == version
    with pytest.raises(OutOfMemory, match=r"4 kB are needed for the array 'c', beside 1.54 kB"):
        arena.ensure("c", 4000, "c", lambda: None)
    with pytest.raises(OutOfMemory, match="address space"):
        arena.ensure("d", 1 << 47, "d", lambda: None)


def test_nothing_but_work_while_capturing() -> None:
    device = EmulatedDevice()
    at = device.alloc(64)
    device.begin_capture()
    device.zero(at, 64)
    for forbidden in (
        lambda: device.alloc(64), lambda: device.upload(at, XS[:1]), lambda: device.download(at, XS[:1].copy()),
        device.synchronise, device.begin_capture,
    ):  # fmt: skip
        with pytest.raises(InternalError, match="while a graph is being captured"):
            forbidden()
    graph = device.end_capture()
    device.upload(at, XS[:8])
    graph.launch()
    out = np.ones(8)
    device.download(at, out)
    assert not out.any()


def test_frames_pack_every_type() -> None:
    types = [np.dtype(t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?")]
    values = [-1, -2, -3, -(2**63), 255, 65535, 2**32 - 1, 2**64 - 1, 0.1, 0.1, 0.1, True]
    frame = Frame("f", [None, *types])
    frame.pack(0xDEADBEEF, *[t.type(v) for t, v in zip(types, values, strict=True)])
    got = frame.values()
    assert got[0] == 0xDEADBEEF
    assert got[1:] == [t.type(v) for t, v in zip(types, values, strict=True)]
    assert [g.dtype for g in got[1:]] == types
    assert frame.table[3] == frame.table[0] + 24 and frame.address


@needs_cxx
def test_timed_calls_are_like_others(program: DeviceProgram) -> None:
    """Warm-up, a plain run, a captured one, then replays; short calls are never captured."""
    seconds = program.timed("steps", [300, 3, 2.0, XS], 4)
    assert len(seconds) == 4 and all(s > 0 for s in seconds)
    assert program.runtime.counts.replayed == 1 and program.runtime.counts.uploaded == 0
    program.run("total", [300, XS])
    program.timed("total", [300, XS], 4)
    assert program.runtime.counts.replayed == 0 and 0 < program.runtime.counts.launches < graph_capture.ENOUGH_LAUNCHES
