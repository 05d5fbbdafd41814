"""The GPU backend over a stand-in for CuPy: streams, graphs, memory, cuBLAS, and what it says without a card."""

from __future__ import annotations

import builtins
import itertools
import struct
import sys
from typing import Any

import numpy as np
import pytest

import futad
from futad.backend import backends
from futad.backend.cuda import open_device
from futad.errors import BackendError, BoundsError, OutOfMemory, UsageError
from futad.runtime import cubin, cublas
from futad.runtime.cublas import blas_plan
from futad.runtime.cupydevice import CupyDevice
from futad.runtime.device import EmulatedDevice, Product
from tests.support import fake_cupy
from tests.support.device_support import BY_HOST
from tests.support.needs import needs_cxx

SOURCE = """
def iteration [n] (xs: [n]f64): [n]f64 =
  let s = f64.sum xs
  in map (\\x -> x / (1 + f64.abs s)) xs
entry steps [n] (k: i64) (xs: [n]f64): [n]f64 = loop xs for _i < k do iteration xs
entry gather [n][m] (xs: [n]f64) (is: [m]i64): [m]f64 = map (\\i -> xs[i]) is
entry product [n][m][k] (a: [n][k]f64) (b: [k][m]f64): [n][m]f64 =
  map (\\x -> map (\\y -> f64.sum (map2 (*) x y)) (transpose b)) a
entry products [b][n][m][k] (as: [b][n][k]f32) (bs: [b][m][k]f32): [b][n][m]f32 =
  map2 (\\a b -> map (\\x -> map (\\y -> f32.sum (map2 (*) x y)) b) a) as bs
"""


@pytest.fixture(params=[0, 1, 2], ids="seed{}".format)
def card(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> fake_cupy.Card:
    """One for each of some orders in which streams do their work."""
    return fake_cupy.install(monkeypatch, fake_cupy.Card(seed=request.param))


XS = np.linspace(0, 1, 50)


def steps(xs: np.ndarray, k: int) -> np.ndarray:
    for _ in range(k):
        xs = xs / (1 + abs(xs.sum()))
    return xs


@pytest.mark.slow
@needs_cxx
def test_cupy_in_and_out(card: fake_cupy.Card) -> None:
    prog = futad.compile(SOURCE, "g.fut", backend="cuda", schedule=BY_HOST)
    np.testing.assert_allclose(prog.steps(4, XS), steps(XS, 4), rtol=1e-13)
    xs = fake_cupy.array(card, XS)
    prog.steps(4, xs)
    prog.steps(4, xs)
    card.log.clear()
    out = prog.steps(4, xs)
    assert isinstance(out, fake_cupy.Array)
    # Replayed on the caller's stream; nothing waits for the card; the one allocation is the result's.
    kinds = [entry[0] for entry in card.log]
    assert kinds == ["graph", "alloc", "launch", "record"], card.log
    assert card.log[0][1] == 0 and card.log[0][2] >= 8
    np.testing.assert_allclose(out.get(), steps(XS, 4), rtol=1e-13)


MANY = """
entry many [n] (xs: [n]f64) (is: [1]i64) (i: i64):
    ([n]f64, f64, [n]i32, i64, f32, [n]bool, [0]f64, u8, [n]f64, (i64, bool), i8, [n]u16) =
  let x = f64.sum (map (\\i -> xs[i]) is)
  in (map (+ x) xs, x, map i32.f64 xs, n + 1, 1.5, map (> 0.5) xs, [], 200, map (* 2) xs, (i - 7, i > 3), -3,
      map u16.f64 (map (* 9) xs))
"""


@pytest.mark.slow
@needs_cxx
def test_many_results_of_all_kinds(card: fake_cupy.Card) -> None:
    """More than a launch hands over; small ones share an allocation; scalars that the host has; a failed call's."""
    many = futad.compile(MANY, "many.fut", backend="cuda").many
    xs = fake_cupy.array(card, XS)

    def flat(value: Any) -> list[Any]:
        return [x for v in value for x in flat(v)] if isinstance(value, tuple) else [value]

    for i in (3, 4, 4, 4):
        place = fake_cupy.array(card, np.array([i]))
        card.log.clear()
        got = flat(many(xs, place, i))
        assert sum(entry[0] == "alloc" for entry in card.log) <= 1 + (i == 3) * 50
        assert [entry[2] for entry in card.log if entry[0] == "launch"][-2:] == ["futad_hand_over"] * 2
        want = [XS + XS[i], XS[i], XS.astype("i4"), 51, np.float32(1.5), XS > 0.5, XS[:0], np.uint8(200), 2 * XS, i - 7,
                i > 3, np.int8(-3), (9 * XS).astype("u2")]  # fmt: skip
        for x, y in zip(got, want, strict=True):
            assert x.shape == np.shape(y)
            np.testing.assert_array_equal(x.get(), y)
    lost = flat(many(xs, fake_cupy.array(card, np.array([50])), 4))
    card.finish()
    assert all(np.isnan(x.host()).all() for x in lost if x.dtype.kind == "f")
    assert all((x.host() == (~x.dtype.type(0))).all() for x in lost if x.dtype.kind in "iu")
    assert all((x.host().view("u1") == 1).all() for x in lost if x.dtype.kind == "b")
    with pytest.raises(BoundsError, match=r"Index \[50\] out of bounds"):
        futad.synchronise()


@pytest.mark.slow
@needs_cxx
def test_streams(card: fake_cupy.Card) -> None:
    prog = futad.compile(SOURCE, "g.fut", backend="cuda", schedule=BY_HOST)
    xs = fake_cupy.array(card, XS)
    for stream in (card.legacy, fake_cupy.Stream(card, 9), card.legacy):
        with stream:
            for _ in range(3):
                card.log.clear()
                out = prog.steps(5, xs)
                used = {e[1] for e in card.log if e[0] in ("launch", "copy", "graph", "zero")}
                assert used <= {stream.ptr, 101, 102, 103} and stream.ptr in used
                assert card.current is stream
        np.testing.assert_allclose(out.get(), steps(XS, 5), rtol=1e-13)
    # A change of streams is ordered by an event: the program's memory is the same.
    with fake_cupy.Stream(card, 10):
        card.log.clear()
        prog.steps(5, xs)
        assert card.log[:2] == [("record", 0), ("wait", 10)]
    # What is made on another stream is waited for.
    about = dict(xs.__cuda_array_interface__, stream=9)
    other = type("Other", (), {"__cuda_array_interface__": about})()
    card.log.clear()
    prog.steps(5, other)
    assert ("record", 9) in card.log and ("wait", 0) in card.log


@pytest.mark.slow
@needs_cxx
def test_failures_and_strides(card: fake_cupy.Card) -> None:
    prog = futad.compile(SOURCE, "g.fut", backend="cuda", schedule=BY_HOST)
    with pytest.raises(BoundsError, match=r"Index \[50\] out of bounds"):
        prog.gather(XS, np.array([1, 50]))
    m = fake_cupy.array(card, XS.reshape(5, 10))
    back = fake_cupy.Array((4,), "f8", fake_cupy.Pointer(card, m.data.ptr + 8 * 33), (-80,))
    np.testing.assert_array_equal(prog.gather(back, fake_cupy.array(card, np.array([0, 3]))).get(), XS[[33, 3]])
    with pytest.raises(UsageError, match="'xs': the array is in memory of another device, the program runs on GPU 0"):
        prog.steps(1, fake_cupy.Array((4,), "f8", fake_cupy.Pointer(card, 4096)))


@pytest.mark.slow
@needs_cxx
def test_out_of_memory(card: fake_cupy.Card, monkeypatch: pytest.MonkeyPatch) -> None:
    prog = futad.compile(SOURCE, "g.fut", backend="cuda", schedule=BY_HOST)
    prog.steps(1, XS)
    card.room = card.pool.used + 1024
    with pytest.raises(OutOfMemory, match=r"8 MB are needed for the array 'xs', .* kB are free"):
        prog.steps(1, np.ones(1_000_000))
    np.testing.assert_allclose(prog.steps(2, XS), steps(XS, 2), rtol=1e-13)  # of use as before


IRREGULAR = "entry sums [n] (ks: [n]i64): [n]i64 = map (\\k -> i64.sum (scan (+) 0 (map (* k) (iota k)))) ks"


@pytest.mark.slow
@needs_cxx
def test_memory_that_threads_allocate(card: fake_cupy.Card) -> None:
    """Made before the kernels are loaded, which is the last moment; not for programs without."""
    card.room = 1 << 30
    assert futad.compile(SOURCE, "g.fut", backend="cuda", schedule=BY_HOST).steps(1, XS).shape == (50,)
    assert card.heap == 8 << 20
    prog = futad.compile(IRREGULAR, backend="cuda")
    assert prog.sums(np.array([3, 0, 4])).tolist() == [12, 0, 40]
    assert card.heap == 256 << 20  # a sixteenth of the card's memory would be less
    other = futad.compile(IRREGULAR.replace("sums", "again"), backend="cuda")
    card.heap = 8 << 20  # as if others had made it
    assert other.again(np.array([3, 0, 4])).tolist() == [12, 0, 40] and card.heap == 8 << 20
    with pytest.raises(OutOfMemory, match=r"281 TB are needed for an array of one thread, of the 8.39 MB that all"):
        other.again(np.array([3, 1 << 45]))
    assert other.again(np.array([2])).tolist() == [2]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("tf32", [False, True])
def test_large_products_go_to_cublas(card: fake_cupy.Card, monkeypatch: pytest.MonkeyPatch, tf32: bool) -> None:
    if tf32:
        monkeypatch.setenv("FUTAD_TF32", "1")
    prog = futad.compile(SOURCE, "g.fut", backend="cuda", schedule=BY_HOST)
    r = np.random.default_rng(1)
    a, b = r.normal(size=(7, 5)), r.normal(size=(5, 9))
    np.testing.assert_allclose(prog.product(a, b), a @ b, rtol=1e-13)
    assert not card.products
    running = prog.executor().running
    running.choose(running.device.limits.thresholds._replace(blas=100))
    np.testing.assert_allclose(prog.product(a, b), a @ b, rtol=1e-13)
    assert [p[0] for p in card.products] == ["float64"] and running.runtime.counts.products == 1
    assert ("math", 3 if tf32 else 0) in card.log
    x, y = r.normal(size=(3, 6, 4)).astype("f4"), r.normal(size=(3, 8, 4)).astype("f4")
    np.testing.assert_allclose(prog.products(x, y), x @ y.transpose(0, 2, 1), rtol=1e-5)
    assert card.products[-1][0] == "float32" and card.products[-1][-1] == 3
    running.choose(running.device.limits.thresholds._replace(blas=10**6))
    before = len(card.products)
    prog.product(a, b)
    assert len(card.products) == before


@pytest.mark.slow
@needs_cxx
def test_without_cublas_products_stay_with_the_kernels(
    card: fake_cupy.Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ImportError("libcublas.so.13: cannot open shared object file")

    monkeypatch.setattr(cublas, "load", missing)
    prog = futad.compile(SOURCE, "g.fut", backend="cuda", schedule=BY_HOST)
    running = prog.executor().running
    running.choose(running.device.limits.thresholds._replace(blas=1))
    a, b = np.arange(35.0).reshape(7, 5), np.arange(45.0).reshape(5, 9)
    for _ in range(2):
        np.testing.assert_allclose(prog.product(a, b), a @ b, rtol=1e-13)
    assert running.runtime.counts.products == 0 and running.runtime.counts.launches >= 1


def test_every_layout_of_a_product() -> None:
    """All strides a matrix may have, in all three places, against NumPy; layouts without a unit stride are refused."""
    device = EmulatedDevice()
    r = np.random.default_rng(2)

    def matrix(rows: int, columns: int, layout: str) -> tuple[np.ndarray, tuple[int, int, int, int]]:
        memory = np.ndarray((2, 12, 13), "f8", device.view(device.alloc(2 * 12 * 13 * 8)))
        memory[...] = r.normal(size=memory.shape)
        view = {"row": memory[:, :rows, :columns], "column": memory.transpose(0, 2, 1)[:, :rows, :columns],
                "odd": memory[:, : 2 * rows : 2, : 2 * columns : 2]}[layout]  # fmt: skip
        step, row, column = [s // 8 for s in view.strides]
        return view, (view.ctypes.data, row, column, step)

    for (m, n, k), layouts in itertools.product(
        [(3, 4, 5), (1, 4, 3), (4, 1, 3), (3, 4, 1), (1, 1, 1)], itertools.product(("row", "column", "odd"), repeat=3)
    ):
        (a, pa), (b, pb), (c, pc) = matrix(m, k, layouts[0]), matrix(k, n, layouts[1]), matrix(m, n, layouts[2])
        for accumulate in (False, True):
            want = a @ b + (c if accumulate else 0)
            plan = blas_plan(Product(np.dtype("f8"), m, n, k, pa, pb, pc, 2, accumulate))
            if plan is None:
                assert "odd" in layouts
                continue
            (ta, x, lda, sa), (tb, y, ldb, sb), (z, ldc, sc), (mm, nn, kk) = plan
            fake_cupy.column_major(device, np.float64, (ta, tb, mm, nn, kk), (x, lda, sa), (y, ldb, sb), (z, ldc, sc),
                                   float(accumulate), 2)  # fmt: skip
            np.testing.assert_allclose(c, want, rtol=1e-13)
    huge = Product(np.dtype("f8"), 2, 2, 1 << 31, (0, 1 << 31, 1, 0), (0, 2, 1, 0), (0, 2, 1, 0), 1, False)
    assert blas_plan(huge) is None


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batches", [1, 3])
def test_the_calls_of_cublas(card: fake_cupy.Card, dtype: Any, batches: int) -> None:
    """What is passed to it, in which order: the stand-in computes from that as a column-major BLAS does, every layout
    and edge size; one matrix may serve the whole batch; what lies around the result stays."""
    device = CupyDevice()
    device.open_blas()
    r = np.random.default_rng(3)
    size = np.dtype(dtype).itemsize
    wholes: list[np.ndarray] = []

    def matrix(rows: int, columns: int, column_major: bool, shared: bool) -> tuple[np.ndarray, tuple[int, ...]]:
        shape = (batches, columns + 2, rows + 1) if column_major else (batches, rows + 1, columns + 2)
        address = device.alloc(int(np.prod(shape)) * size)
        memory = np.ndarray(shape, dtype, card.memory.view(address))
        memory[...] = r.integers(-4, 5, shape)  # products and sums are exact
        wholes.append(memory)
        view = (memory.transpose(0, 2, 1) if column_major else memory)[:, :rows, :columns]
        if shared:
            view = np.broadcast_to(view[:1], view.shape)
        step, row, column = [s // size for s in view.strides]
        return view, (address, row, column, step)

    for (m, n, k), layouts in itertools.product(
        [(3, 4, 5), (1, 4, 3), (4, 1, 3), (3, 4, 1), (1, 1, 1), (33, 17, 9)], itertools.product((False, True), repeat=3)
    ):
        for accumulate, shared in itertools.product((False, True), (False, True)):
            wholes.clear()
            a, pa = matrix(m, k, layouts[0], shared)
            b, pb = matrix(k, n, layouts[1], False)
            c, pc = matrix(m, n, layouts[2], False)
            want = a @ b + (c if accumulate else 0)
            (whole,) = [w for w in wholes if w.ctypes.data == c.ctypes.data]
            around = np.ones(whole.shape, bool)
            (around.transpose(0, 2, 1) if layouts[2] else around)[:, :m, :n] = False
            before = whole[around]
            p = Product(np.dtype(dtype), m, n, k, pa, pb, pc, batches, accumulate)  # type: ignore[arg-type]
            assert device.product(p)
            card.finish()
            np.testing.assert_array_equal(c, want)
            np.testing.assert_array_equal(whole[around], before)
    assert {p[0] for p in card.products} == {np.dtype(dtype).name} and {p[-1] for p in card.products} == {batches}


# --- what is missing -----------------------------------------------------------------------------------------


def test_no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] in ("cupy", "cupy_backends")]:
        monkeypatch.delitem(sys.modules, name)
    plain = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "cupy":
            raise ModuleNotFoundError("No module named 'cupy'")
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BackendError, match=r"needs CuPy[\s\S]*pip install 'futad\[cuda13\]'[\s\S]*'multicore', 'c'"):
        open_device("cuda")


@pytest.mark.parametrize(
    ("card", "says"),
    [
        (fake_cupy.Card(count=0), "there is no NVIDIA GPU"),
        (fake_cupy.Card(status=100), "there is no NVIDIA GPU"),
        (fake_cupy.Card(status=35, driver=0), "no NVIDIA driver is installed"),
        (fake_cupy.Card(status=35, driver=12040), r"driver knows CUDA 12.4, but this CuPy needs 13.0[\s\S]*cuda12"),
        (fake_cupy.Card(status=999), "no GPU can be used: cudaError"),
    ],
)
def test_no_card(monkeypatch: pytest.MonkeyPatch, card: fake_cupy.Card, says: str) -> None:
    fake_cupy.install(monkeypatch, card)
    with pytest.raises(BackendError, match=rf"{says}[\s\S]*'multicore', 'c' and 'interp' work without[\s\S]*emulated"):
        open_device("cuda")


@needs_cxx
def test_a_driver_that_does_not_load_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cupy.install(monkeypatch, fake_cupy.Card(driver=12040))
    with pytest.raises(BackendError, match=r"driver does not load the kernels: CUDA_ERROR_UNSUPPORTED[\s\S]*cuda12"):
        futad.compile(SOURCE, backend="cuda").steps(1, XS)


@pytest.mark.parametrize("headers", [(64, 56, 3, 400, 64, 5), (400, 56, 3, 64, 64, 5)])
def test_a_cubin_has_its_last_byte(headers: tuple[int, ...]) -> None:
    """CuPy's NVRTC drops it; tools refuse the file then."""
    programs, size, count, sections, section_size, section_count = headers
    code = bytearray(max(programs + size * count, sections + section_size * section_count))
    code[:5] = b"\x7fELF\2"
    struct.pack_into("<QQ", code, 32, programs, sections)
    struct.pack_into("<4H", code, 54, size, count, section_size, section_count)
    assert cubin.whole(bytes(code[:-1])) == cubin.whole(bytes(code)) == bytes(code)
    assert cubin.whole(b"text") == b"text"


def test_no_compiler_for_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    real = cubin.compile_cubin
    fake_cupy.install(monkeypatch, fake_cupy.Card())
    monkeypatch.setattr(cubin, "compile_cubin", real)
    monkeypatch.setenv("FUTAD_NVCC", "/nowhere/nvcc")
    with pytest.raises(BackendError, match=r"neither NVRTC nor nvcc[\s\S]*futad\[cuda13\][\s\S]*'emulated'"):
        futad.compile(SOURCE, backend="cuda").steps(1, XS)


@pytest.mark.slow
@needs_cxx
def test_auto_takes_a_gpu_that_answers(card: fake_cupy.Card, monkeypatch: pytest.MonkeyPatch) -> None:
    prog = futad.compile(SOURCE)
    monkeypatch.setattr(backends, "gpu_answers", lambda: True)
    np.testing.assert_allclose(prog.steps(2, XS), steps(XS, 2), rtol=1e-13)
    assert prog.backend == "cuda"
    monkeypatch.setattr(CupyDevice, "__init__", lambda self: (_ for _ in ()).throw(BackendError("no", hint="do")))
    other = futad.compile(SOURCE)
    with pytest.warns(futad.FutadWarning, match="not using the GPU: no; do"):
        other.steps(2, XS)
    assert other.backend in ("multicore", "c", "interp")
