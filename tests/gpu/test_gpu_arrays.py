"""Arrays of other libraries: in device memory they go in and come out without a copy, in CPU memory they are viewed."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import DtypeError, ShapeError, UsageError
from futad.runtime import exchange
from futad.runtime.device import EmulatedArray, EmulatedDevice
from futad.runtime.deviceprogram import DeviceProgram
from tests.support.foreign_arrays import Foreign, Tensor
from tests.support.needs import needs_cxx

SOURCE = """
entry scale [n] (k: f64) (xs: [n]f64): [n]f64 = map (* k) xs
entry dot [n] (xs: [n]f64) (ys: [n]f64): f64 = f64.sum (map2 (*) xs ys)
entry sums [n][m] (xss: [n][m]f32): [n]f32 = map f32.sum xss
entry set [n] (xs: *[n]f64) (i: i64): *[n]f64 = xs with [i] = 0
entry fill [n] (xs: *[n]f64): *[n]f64 = loop xs for i < n do xs with [i] = f64.i64 i + xs[n - 1 - i]
entry put [n][m] (xs: *[n]f64) (is: [m]i64) (vs: [m]f64): *[n]f64 = scatter xs is vs
entry both [n] (p: (i64, [n]f64)): (i64, [n]f64) = (p.0 + 1, map (+ f64.i64 p.0) p.1)
entry same [n] (xs: [n]f64): [n]f64 = xs
entry loss [n] (w: [n]f64) (x: [n]f64): f64 = f64.sum (map2 (\\a b -> f64.sin (a * b)) w x)
"""


@pytest.fixture(autouse=True)
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of the emulated device: a real CuPy, if there is one, has no card to ask about streams."""
    monkeypatch.delitem(sys.modules, "cupy", raising=False)


@pytest.fixture(scope="module")
def prog() -> futad.Program:
    return futad.compile(SOURCE, "arrays.fut", backend="emulated")


@pytest.fixture
def there(prog: futad.Program) -> DeviceProgram:
    return prog.executor().running


def passed(there: DeviceProgram) -> set[int]:
    """The addresses that kernels have been given."""
    return {v for f in there.runtime.frames for v, t in zip(f.values(), f.fields, strict=True) if t is None}


XS = np.linspace(-1, 2, 37)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("kind", [Foreign, Tensor])
def test_in_and_out_without_a_copy(prog: futad.Program, there: DeviceProgram, kind: type[Foreign]) -> None:
    device = there.device
    assert isinstance(device, EmulatedDevice)
    xs = kind(device, XS)
    before = device.done.copy()
    out = prog.scale(3.0, xs)
    done = device.done - before
    assert isinstance(out, EmulatedArray) and out.shape == (37,) and out.dtype == np.float64
    assert xs.address in passed(there)
    # Nothing went to the host or came from it; the one copy is the result's, out of the program's own memory.
    assert not done["upload"] and not done["download"] and done["copy"] == 1 and done["alloc"] <= 2
    assert there.runtime.counts.uploaded == there.runtime.counts.downloaded == there.runtime.counts.copied == 0
    np.testing.assert_array_equal(out.numpy(), 3 * XS)
    # What came out goes in again.
    again = prog.scale(2.0, out)
    assert out.address in passed(there)
    np.testing.assert_array_equal(again.numpy(), 6 * XS)
    np.testing.assert_array_equal(xs.host, XS)


@pytest.mark.slow
@needs_cxx
def test_scalars_come_back_only_when_asked_for(prog: futad.Program, there: DeviceProgram) -> None:
    xs, ys = Foreign(there.device, XS), Tensor(there.device, XS[::-1])
    before = there.device.done["download"]
    out = prog.dot(xs, ys)
    assert isinstance(out, EmulatedArray) and out.shape == () and there.device.done["download"] == before
    assert out.item() == pytest.approx(XS @ XS[::-1])
    # A number computed there is a number here, where a number is wanted.
    assert prog.scale(out, XS)[0] == pytest.approx(XS @ XS[::-1] * XS[0])


@needs_cxx
def test_numpy_beside_device_arrays(prog: futad.Program, there: DeviceProgram) -> None:
    out = prog.dot(Foreign(there.device, XS), XS)
    assert isinstance(out, EmulatedArray) and out.item() == pytest.approx(XS @ XS)
    assert there.runtime.counts.uploaded == XS.nbytes
    assert isinstance(prog.dot(XS, XS), np.float64)
    k, xs = prog.both((3, Foreign(there.device, XS)))
    assert k.item() == 4
    np.testing.assert_array_equal(xs.numpy(), XS + 3)


@needs_cxx
@pytest.mark.parametrize("kind", [Foreign, Tensor])
@pytest.mark.parametrize(
    "view", [lambda a: a.T, lambda a: a[::2, ::3], lambda a: a[::-1, 1:4], lambda a: a[:, :1], lambda a: a[:0]]
)
def test_any_strides(prog: futad.Program, there: DeviceProgram, kind: type[Foreign], view: Any) -> None:
    m = np.arange(35, dtype="f4").reshape(5, 7)
    out = prog.sums(kind(there.device, m, view=view))
    np.testing.assert_allclose(out.numpy(), view(m).sum(axis=1), rtol=1e-6)


@needs_cxx
def test_consumed_and_returned_arguments_stay_the_callers(prog: futad.Program, there: DeviceProgram) -> None:
    xs = Foreign(there.device, XS)
    out = prog.set(xs, 2)
    assert out.numpy()[2] == 0 and out.address != xs.address
    np.testing.assert_array_equal(xs.host, XS)
    for name, args in (("fill", ()), ("put", (np.array([0, 3]), np.array([7.0, 8.0])))):
        want = prog.entries[name](XS, *args)
        np.testing.assert_array_equal(prog.entries[name](xs, *args).numpy(), want)
        np.testing.assert_array_equal(xs.host, XS)
    same = prog.same(xs)
    assert same.address != xs.address
    np.testing.assert_array_equal(same.numpy(), XS)
    frozen = Foreign(there.device, XS)
    frozen.about["data"] = (frozen.address, True)
    np.testing.assert_array_equal(prog.same(frozen).numpy(), XS)


@needs_cxx
def test_streams(prog: futad.Program, there: DeviceProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer's stream is waited for; DLPack is told ours."""
    waited: list[int] = []
    monkeypatch.setattr(there.device, "wait_for", waited.append)
    prog.dot(Foreign(there.device, XS, stream=7), Foreign(there.device, XS))
    assert waited == [7]
    Tensor.streams.clear()
    monkeypatch.setattr(exchange, "current_stream", lambda: 99)
    prog.scale(1.0, Tensor(there.device, XS))
    assert Tensor.streams == [99]


@pytest.mark.slow
@needs_cxx
def test_derivatives(prog: futad.Program, there: DeviceProgram) -> None:
    w, x = Foreign(there.device, XS), Foreign(there.device, XS + 1)
    want = np.cos(XS * (XS + 1)) * (XS + 1)
    np.testing.assert_allclose(futad.grad(prog.loss)(XS, XS + 1), want, rtol=1e-12)
    f = futad.value_and_grad(prog.loss)
    device = f.executable.executor().running.device  # a derivative is a program of its own, on the same GPU
    w, x = Foreign(device, XS), Foreign(device, XS + 1)
    value, gradient = f(w, x)
    assert value.item() == pytest.approx(np.sin(XS * (XS + 1)).sum())
    np.testing.assert_allclose(gradient.numpy(), want, rtol=1e-12)


class Refusing:
    """As a torch tensor that requires grad."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    @property
    def __cuda_array_interface__(self) -> Any:
        raise self.error


@needs_cxx
def test_what_does_not_fit(prog: futad.Program, there: DeviceProgram) -> None:
    device = there.device
    with pytest.raises(DtypeError, match=r"argument 'xs': expected \[\]f64 \(float64\), got .* of float32"):
        prog.scale(1.0, Foreign(device, XS.astype("f4")))
    with pytest.raises(ShapeError, match=r"'xss'.*rank 2, got an array of shape \(37,\)"):
        prog.sums(Foreign(device, XS.astype("f4")))
    with pytest.raises(ShapeError, match="dimension 0 is 3, but size n is 37"):
        prog.dot(Foreign(device, XS), Foreign(device, XS[:3]))
    with pytest.raises(UsageError, match="'xs': the array is in memory of another device"):
        prog.scale(1.0, Foreign(EmulatedDevice(), XS))
    with pytest.raises(DtypeError, match="argument 'xs': tests does not give its array away: detach it"):
        prog.scale(1.0, Refusing(RuntimeError("detach it")))
    masked = Foreign(device, XS)
    masked.about["mask"] = masked
    with pytest.raises(DtypeError, match="masked"):
        prog.scale(1.0, masked)
    with pytest.raises(DtypeError, match="<c16 are not accepted"):
        prog.scale(1.0, Foreign(device, XS.astype("c16")))
    half = Tensor(device, XS.astype("f2"))
    with pytest.raises(DtypeError, match=r"expected \[\]f64 \(float64\), got .* of float16"):
        prog.scale(1.0, half)


def test_gpu_arrays_on_cpu_backends() -> None:
    host = futad.compile(SOURCE, "arrays.fut", backend="interp")
    with pytest.raises(UsageError, match=r"'xs' is in GPU memory, but the program runs on 'interp'[\s\S]*cuda"):
        host.scale(1.0, Foreign(EmulatedDevice(), XS))


class OnCpu:
    """A CPU array of a library that speaks DLPack only, as in its first versions."""

    def __init__(self, values: Any) -> None:
        self.host = values

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self.host.__dlpack__(**options)


class WithArray:
    """A CPU array that NumPy sees by `__array__`, as torch's and JAX's."""

    def __init__(self, values: Any) -> None:
        self.host = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.host


@pytest.mark.parametrize("kind", [OnCpu, WithArray])
def test_cpu_arrays_of_other_libraries(kind: Any) -> None:
    host = futad.compile(SOURCE, "arrays.fut", backend="interp")
    flat = host.scale.signature.flatten((2.0, kind(XS)))
    assert flat[-1].ctypes.data == XS.ctypes.data
    np.testing.assert_array_equal(host.scale(2.0, kind(XS)), 2 * XS)
    m = np.arange(12, dtype="f4").reshape(3, 4)
    np.testing.assert_array_equal(host.sums(kind(m.T)), m.sum(axis=0))
    np.testing.assert_array_equal(host.scale(2.0, kind(XS.astype("f4"))), 2 * XS.astype("f4").astype("f8"))
    with pytest.raises(DtypeError, match=r"argument 'xs': expected \[\]f64 \(float64\), got an array of int64"):
        host.scale(2.0, kind(np.arange(37)))
    kept = XS.copy()
    host.set(kind(kept), 0)
    np.testing.assert_array_equal(kept, XS)


def test_torch_and_jax_on_the_cpu() -> None:
    host = futad.compile(SOURCE, "arrays.fut", backend="interp")
    torch = pytest.importorskip("torch")
    xs = torch.tensor(XS)
    assert host.scale.signature.flatten((2.0, xs))[-1].ctypes.data == xs.data_ptr()
    np.testing.assert_array_equal(host.scale(2.0, xs), 2 * XS)
    with pytest.raises(DtypeError, match="argument 'xs'.*grad"):
        host.scale(2.0, xs.clone().requires_grad_())
    with pytest.raises(DtypeError, match="argument 'xs'"):
        host.scale(2.0, xs.to(torch.bfloat16))
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    ys = jax.numpy.asarray(XS)
    assert host.scale.signature.flatten((2.0, ys))[-1].ctypes.data == ys.unsafe_buffer_pointer()
    np.testing.assert_array_equal(host.set(ys, 1)[1], 0.0)
    with pytest.raises(DtypeError, match="argument 'xs'.*bfloat16"):
        host.scale(2.0, ys.astype("bfloat16"))
