"""Indices of 32 and of 64 bits: the same results, which launches take which, and arrays that only 64 bits reach."""

from __future__ import annotations

import bisect
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from futad.backend.cuda import DeviceBackend
from futad.core.interp import Interpreter
from futad.core.ir import Program
from futad.pipeline import compile_program
from futad.runtime.device import EmulatedDevice
from futad.runtime.deviceprogram import DeviceProgram
from futad.runtime.exchange import device_array
from futad.source import compile_text
from futad.testing.build import device_backend
from tests.support.needs import needs_cxx

pytestmark = needs_cxx

SOURCE = """
entry nest [n][m] (xss: [n][m]f64) (ys: [m]f64) = map (\\xs -> map2 (\\x y -> x * y + 1) xs ys) xss
entry turned [n][m] (xss: [n][m]f64) = map (\\xs -> map (+ 1) (reverse xs)) (transpose xss)
entry rows [n][m] (xss: [n][m]f64) = map (\\xs -> f64.sum xs / f64.maximum xs) xss
entry total [n][m] (xss: [n][m]f64) = f64.sum (flatten xss)
entry prefix [n][m] (xss: [n][m]f64) = scan (+) 0 (flatten xss)
entry counts [n][m] (xss: [n][m]f64) =
  hist (+) 0 7 (map (\\x -> i64.f64 (x * 4)) (flatten xss)) (map (const 1i64) (flatten xss))
entry product [n][m] (xss: [n][m]f64) = map (\\xs -> map (\\ys -> f64.sum (map2 (*) xs ys)) xss) xss
entry data [n][m] (xss: [n][m]f64) =
  let k = 3000000000 + n
  in (map (\\i -> i * k + m * k) (iota n), map (\\i -> i / (k / 7)) (map (* (k * 5)) (iota m)))
entry picked [n][m] (xs: [n]i8) (is: [m]i64) = map (\\i -> xs[i]) is
entry row [n][m][k] (xss: [n][m]i8) (r: i64) (is: [k]i64) = map (\\i -> xss[r, i]) is
entry far (k: i64) (n: i64) = map (\\i -> (i + k) % 1000) (iota n)
"""
SIZED = ("nest", "turned", "rows", "total", "prefix", "counts", "product", "data")


@cache
def program() -> Program:
    return compile_program(compile_text(SOURCE, "main"))


@cache
def backend() -> DeviceBackend:
    return device_backend(program())


def running(narrow: int | None = None) -> tuple[EmulatedDevice, DeviceProgram]:
    """On a device that takes so many elements for too many for 32 bits."""
    device = EmulatedDevice()
    if narrow is not None:
        device.limits = replace(device.limits, narrow=narrow)  # type: ignore[misc]
    made = backend()
    return device, DeviceProgram(device, made.layout, made.source, made.host, made.constants)


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [0, 100, None])
def test_results(narrow: int | None) -> None:
    """With all indices wide, some, and none."""
    device, p = running(narrow)
    r = np.random.default_rng(5)
    for name in SIZED:
        for shape in ((3, 5), (40, 50), (1, 300)):
            xss = r.uniform(0.1, 2, shape)
            args: list[Any] = [*shape, xss, *([r.uniform(size=shape[1])] if name == "nest" else [])]
            for x, y in zip(p.run(name, args), Interpreter(program()).run(name, args), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, err_msg=f"{name} {shape}")
    assert (True in device.modules) == (narrow is not None)


@pytest.mark.slow
def test_data_are_not_indices() -> None:
    """Large numbers that the program computes with, also where they begin as sizes or parameters."""
    device, p = running()
    want = Interpreter(program()).run("far", [12, 30])[0]
    assert p.run("far", [12, 30])[0].tolist() == want.tolist() and True not in device.modules
    for k in (1 << 31, (1 << 40) + 7, -(1 << 33)):
        want = Interpreter(program()).run("far", [k, 30])[0]
        assert p.run("far", [k, 30])[0].tolist() == want.tolist()


def unmapped(device: EmulatedDevice, shape: tuple[int, ...]) -> tuple[np.ndarray, Any]:
    """An array of bytes on the device that takes memory only where it is written, and it as an argument."""
    host = np.zeros(shape, "i1")
    bisect.insort(device.starts, host.ctypes.data)
    device.buffers[host.ctypes.data] = host.reshape(-1).view("u1")
    about = {"shape": shape, "typestr": "|i1", "data": (host.ctypes.data, False), "strides": None, "version": 3}
    return host, device_array(type("Array", (), {"__cuda_array_interface__": about})(), "xs")


@pytest.mark.slow
def test_arrays_of_more_than_two_to_the_31_elements() -> None:
    device, p = running()
    n = (1 << 31) + 1000
    there = np.array([5, (1 << 31) - 1, 1 << 31, n - 1])
    assert p.run("picked", [9, 4, np.arange(9, dtype="i1"), np.array([8, 0, 1, 2])])[0].tolist() == [8, 0, 1, 2]
    assert True not in device.modules
    host, xs = unmapped(device, (n,))
    host[there] = [1, 2, 3, 4]
    got = p.run("picked", [n, 4, xs, there])[0]
    assert got.numpy().tolist() == [1, 2, 3, 4] and True in device.modules
    host, xs = unmapped(device, (3, 1 << 30))
    host[2, there[:2] // 2] = [5, 6]
    got = p.run("row", [3, 1 << 30, 2, xs, 2, there[:2] // 2])[0]
    assert got.numpy().tolist() == [5, 6]
