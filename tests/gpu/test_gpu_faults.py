"""What a GPU does that the CPU does not: captures that fail, faults of kernels, memory that runs out, several streams.

Over the stand-in for CuPy, which does work late and in any order that CUDA allows (`fake_card.py`).
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import DeviceError, FutadWarning, OutOfMemory
from futad.runtime import cublas
from futad.runtime.cupydevice import CupyDevice
from tests.support import fake_cupy
from tests.support.device_support import BY_HOST
from tests.support.fake_card import Event
from tests.support.needs import needs_cxx

pytestmark = needs_cxx

SOURCE = """
entry chain [n] (k: i64) (a: [n][n]f64) (x: [n][n]f64): [n][n]f64 =
  loop x for _i < k do map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) (transpose a)) x
entry mixed [n] (k: i64) (a: [n][n]f64) (x: [n][n]f64): [n][n]f64 =
  loop x for _i < k do
    map (map f64.tanh) (map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) (transpose a)) x)
entry turned [n] (k: i64) (xs: [n]f64): [n]f64 =
  loop xs for _i < k do let s = f64.sum xs in map (\\x -> x / (1 + f64.abs s)) xs
entry last [n] (k: i64) (xs: *[n]f64): *[n]f64 =
  loop xs for _i < k do let s = f64.sum xs in xs with [0] = xs[0] / 2 + s / 64
entry none [n] (k: i64) (xs: [n]f64): ([0]f64, [n]f64) =
  (replicate 0 1f64, loop xs for _i < k do let s = f64.sum xs in map (\\x -> x / (1 + f64.abs s)) xs)
"""
R = np.random.default_rng(0)
A, X = R.normal(size=(9, 9)) / 3, R.normal(size=(9, 9))
XS = np.linspace(0, 1, 50)


@pytest.fixture(params=range(4), ids="seed{}".format)
def card(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> fake_cupy.Card:
    return fake_cupy.install(monkeypatch, fake_cupy.Card(seed=request.param))


def program(blas: int = 1 << 24) -> Any:
    """The program, with products of so many multiplications given to cuBLAS."""
    made = futad.compile(SOURCE, "faults.fut", backend="cuda", schedule=BY_HOST)
    running = made.executor().running
    running.choose(running.device.limits.thresholds._replace(blas=blas))
    return made


def counts(prog: Any) -> Any:
    return prog.executor().running.runtime.counts


def turned(xs: np.ndarray, k: int) -> np.ndarray:
    for _ in range(k):
        xs = xs / (1 + abs(xs.sum()))
    return xs


def chain(k: int, f: Any = lambda x: x) -> np.ndarray:
    x = X
    for _ in range(k):
        x = f(x @ A)
    return x


# --- graphs ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("entry", "f"), [("chain", lambda x: x), ("mixed", np.tanh)])
def test_products_are_captured_and_replayed(card: fake_cupy.Card, entry: str, f: Any) -> None:
    """CuPy's own cuBLAS refuses a captured stream; a loop of nothing but products is worth a graph as well.  Those of
    the other entry are computed with what follows them."""
    prog = program(blas=100)
    want = chain(6, f)
    for call in range(5):
        np.testing.assert_allclose(getattr(prog, entry)(6, A, X), want, rtol=1e-12)
        # The first call has memory made, the third is captured.
        assert (counts(prog).captured, counts(prog).replayed) == [(0, 0), (0, 0), (1, 0), (0, 1), (0, 1)][call]
    assert len(card.products) == (18 if entry == "chain" else 0)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["mixed", "last"])
def test_a_capture_that_fails_is_not_tried_again(card: fake_cupy.Card, entry: str) -> None:
    """The call runs without, from its arguments on, which what was done may have overwritten."""
    prog = program(blas=100)
    args = (8, A, X) if entry == "mixed" else (8, XS)
    want = futad.compile(SOURCE, backend="interp").entries[entry](*args)
    run = getattr(prog, entry)
    for _ in range(2):
        np.testing.assert_allclose(run(*args), want, rtol=1e-12)
    with fake_cupy.planted(card, "end_capture"), pytest.warns(FutadWarning, match="without CUDA graphs.*Invalidated"):
        np.testing.assert_allclose(run(*args), want, rtol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            card.log.clear()
            np.testing.assert_allclose(run(*args), want, rtol=1e-12)
            assert not [e for e in card.log if e[0] == "graph"]
    other = (6, *args[1:])  # another call is captured still
    for _ in range(3):
        card.log.clear()
        run(*other)
    assert [e for e in card.log if e[0] == "graph"]


@pytest.mark.slow
def test_nothing_to_zero_is_no_node(card: fake_cupy.Card) -> None:
    prog = program()
    device = prog.executor().running.device
    device.enter()
    device.begin_capture()
    device.zero(0, 0)
    assert not device.side.captured
    device.end_capture()
    for _ in range(3):
        empty, xs = prog.none(6, XS)
        assert empty.shape == (0,)
        np.testing.assert_allclose(xs, turned(XS, 6), rtol=1e-12)


# --- faults ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_a_fault_of_a_kernel(card: fake_cupy.Card, calls: int) -> None:
    """Before, while and after a call is captured: the cause and no other error; then the GPU is of no use."""
    prog = program()
    for _ in range(calls):
        prog.turned(6, XS)
    name = next(e for e in card.log if e[0] == "launch")[2]
    with (
        fake_cupy.planted(card, name),
        pytest.raises(DeviceError, match="the GPU failed: cudaErrorIllegalAddress: an illegal memory access") as e,
    ):
        prog.turned(6, XS)
    assert "start it again" in str(e.value) and "FUTAD_SYNC=1" in str(e.value)
    assert e.value.__cause__ is not None
    with pytest.raises(DeviceError, match="cudaErrorIllegalAddress"):
        prog.turned(6, XS)


@pytest.mark.slow
def test_which_kernel_it_was(card: fake_cupy.Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_SYNC", "1")
    prog = program()
    prog.turned(2, XS)
    name = [e for e in card.log if e[0] == "launch"][-1][2]
    with fake_cupy.planted(card, name), pytest.raises(DeviceError) as e:
        prog.turned(2, XS)
    assert re.search(
        rf"the GPU failed in kernel {name} \(map over \[n\] for \w+, line \d+\) on 1 by 1 blocks of 128 threads "
        r"with \(50, ",
        str(e.value),
    )


@pytest.mark.slow
def test_a_launch_that_is_refused_leaves_the_program_usable(
    card: fake_cupy.Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    prog = program()
    plain = CupyDevice.launch

    def refused(self: Any, frame: Any, blocks: Any, threads: int, wide: bool = False) -> None:
        plain(self, frame, (blocks[0], 65536), threads, wide)

    with monkeypatch.context() as m:
        m.setattr(CupyDevice, "launch", refused)
        text = r"the GPU failed in kernel \w+ \(.*, line \d+\).*CUDA_ERROR_INVALID_VALUE"
        with pytest.raises(DeviceError, match=text) as e:
            prog.turned(6, XS)
    assert "start it again" not in str(e.value)
    for _ in range(4):
        np.testing.assert_allclose(prog.turned(6, XS), turned(XS, 6), rtol=1e-12)


@pytest.mark.slow
def test_a_blas_that_fails(card: fake_cupy.Card, monkeypatch: pytest.MonkeyPatch) -> None:
    prog = program(blas=100)
    np.testing.assert_allclose(prog.chain(6, A, X), chain(6), rtol=1e-12)
    device = prog.executor().running.device
    before = device.blas.workspace
    device.blas.workspace = 0
    with pytest.raises(DeviceError, match=r"in the BLAS, in place of kernel .*: cublasSetWorkspace_v2: .*INVALID"):
        prog.chain(5, A, X)
    device.blas.workspace = before
    np.testing.assert_allclose(prog.chain(6, A, X), chain(6), rtol=1e-12)


# --- memory ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pools_are_emptied_before_memory_is_short(card: fake_cupy.Card) -> None:
    """Of results too, and of memory that another stream's pool keeps."""
    prog = program()
    xs = fake_cupy.array(card, np.ones(100_000))
    prog.turned(1, xs)
    prog.turned(1, xs)
    with fake_cupy.Stream(card, 50):
        kept = [card.pool.take(1 << 20) for _ in range(4)]
        kept.clear()  # on another stream: no use to this one as it is
    card.room = card.pool.used + 1000
    first = prog.turned(1, xs)
    np.testing.assert_allclose(first.get(), turned(np.ones(100_000), 1))
    card.pool.free_all_blocks()
    card.room = card.pool.used + 1000
    with pytest.raises(OutOfMemory, match="800000 bytes cannot be allocated"):
        prog.turned(1, xs)
    card.room = 1 << 40
    np.testing.assert_allclose(prog.turned(1, xs).get(), turned(np.ones(100_000), 1))


@pytest.mark.slow
def test_memory_that_a_launch_or_a_graph_needs(card: fake_cupy.Card, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such calls are made again when the pools are empty, and fail as those that allocate if that does not help."""
    prog = program()
    prog.turned(6, XS)
    plain, left = CupyDevice.launch, [1]

    def short(self: Any, *args: Any, **named: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise fake_cupy.CUDADriverError(2, "CUDA_ERROR_OUT_OF_MEMORY: out of memory")
        plain(self, *args, **named)

    monkeypatch.setattr(CupyDevice, "launch", short)
    np.testing.assert_allclose(prog.turned(1, XS), turned(XS, 1), rtol=1e-12)
    left[0] = 1000
    with pytest.raises(OutOfMemory, match=r"out of device memory in kernel .*: CUDA_ERROR_OUT_OF_MEMORY"):
        prog.turned(1, XS)
    left[0] = 0
    np.testing.assert_allclose(prog.turned(1, XS), turned(XS, 1), rtol=1e-12)


@pytest.mark.slow
def test_large_memory_goes_back_to_others(card: fake_cupy.Card) -> None:
    """When slots move into one block, the pool does not keep what they were in."""
    prog = program()
    device = prog.executor().running.device
    prog.turned(2, np.ones(3 << 20))
    held = prog.executor().running.runtime.memory()[0]
    assert card.pool.free_bytes() < 1 << 20
    assert card.pool.used < 1.1 * held + (1 << 20)
    assert not device.held


# --- streams --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_memory_that_grows_on_another_stream(card: fake_cupy.Card) -> None:
    """What a program gives back may be in use by work of the present stream, which the pool of the first does not
    know."""
    prog = program()
    streams = [fake_cupy.Stream(card, 60 + i, blocking=False) for i in range(3)]
    made: list[Any] = []
    for iteration, n in enumerate((2000, 100, 4000, 3000, 9000, 200, 12000)):
        with streams[iteration % 3] as stream:
            values = np.linspace(0, 1, n)
            made.append((stream, prog.turned(3, fake_cupy.array(card, values)), turned(values, 3)))
    for stream, out, want in made:
        with stream:
            np.testing.assert_allclose(out.get(), want, rtol=1e-12)


@pytest.mark.slow
def test_arrays_of_the_caller_are_let_go(card: fake_cupy.Card) -> None:
    prog = program()
    device = prog.executor().running.device
    for _ in range(5):
        xs = fake_cupy.array(card, XS)
        out = prog.turned(2, xs)
        out.get()
    assert len(device.held) == 1  # the work of the others is done
    assert all(isinstance(e, Event) for e, _ in device.held)


def test_what_runs_says_its_versions(card: fake_cupy.Card) -> None:
    text = CupyDevice().describe()
    assert "driver for CUDA 13.0, runtime 13.0, compiler of kernels " in text


def test_the_functions_of_cublas_are_declared() -> None:
    """As many types as cuBLAS's header has parameters."""
    lengths = {name: len(types) for name, types in cublas.SIGNATURES.items()}
    assert lengths["cublasDgemm_v2"] == 14 and lengths["cublasSgemmStridedBatched"] == 18
