"""Bools whose bytes are neither 0 nor 1 (a view of other bytes, a file): true, as NumPy has it, by every way in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.cli import main
from tests.support import fake_cupy
from tests.support.cli_helpers import Runner
from tests.support.foreign_arrays import Foreign, Tensor
from tests.support.needs import needs_cc, needs_cxx

SOURCE = """
entry count [n] (xs: [n]bool): i64 = i64.sum (map i64.bool xs)
entry rows [n][m] (xss: [n][m]bool): [n]i64 = map (\\xs -> i64.sum (map i64.bool xs)) xss
entry flip [n] (xs: [n]bool): [n]bool = map (\\x -> !x) xs
entry same [n] (k: i64) (xs: [k]bool) (ys: [n]bool): ([k]bool, bool, [n]bool) = (xs, and xs, ys)
entry put [n] (xs: *[n]bool): *[n]bool = xs with [0] = false
entry pick [n] (b: bool) (xs: [n]bool): [n]f64 = map (\\x -> if x == b then 1 else 2) xs
entry pairs [n] (xs: [n](bool, i32)): i32 = i32.sum (map (\\(b, i) -> i * i32.bool b) xs)
"""
BYTES = np.array([0, 1, 2, 255, 128, 3, 0, 0, 64, 1], np.uint8)
ODD, PLAIN = BYTES.view(np.bool_), BYTES != 0
BACKENDS = [
    "interp",
    pytest.param("c", marks=needs_cc),
    pytest.param("multicore", marks=needs_cc),
    pytest.param("emulated", marks=needs_cxx),
]


def alike(got: Any, want: Any) -> None:
    """Results are equal, and bools among them are 0 or 1."""
    results, wanted = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for g, w in zip(results, wanted, strict=True):
        g = np.asarray(g.numpy() if hasattr(g, "numpy") else g)
        np.testing.assert_array_equal(g, w)
        if g.dtype == np.bool_:
            assert g.tobytes() == np.asarray(w).tobytes()


def check_all(prog: futad.Program, odd: Any, long: Any, wide: Any) -> None:
    """The entries on an array, a long one and a matrix whose values are those of `PLAIN`, repeated."""
    plain = PLAIN
    alike(prog.count(odd), 7)
    alike(prog.count(long), 7 * 500)
    alike(prog.rows(wide), np.full(4, 7))
    alike(prog.flip(odd), ~plain)
    alike(prog.same(10, odd, odd), (plain, np.False_, plain))
    alike(prog.put(odd), plain)
    alike(prog.pick(True, odd), np.where(plain, 1.0, 2.0))
    alike(prog.pairs((odd, np.arange(10, dtype=np.int32))), np.arange(10)[plain].sum())


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_numpy_arrays(backend: str) -> None:
    prog = futad.compile(SOURCE, "bools.fut", backend=backend)
    check_all(prog, ODD, np.tile(ODD, 500), np.tile(ODD, (4, 1)))
    strided = np.repeat(BYTES, 2)[::2].view(np.bool_)
    alike(prog.count(strided), 7)
    alike(prog.count(np.zeros(0, np.bool_)), 0)
    alike(prog.pick(np.array([2], np.uint8).view(np.bool_)[0], PLAIN), np.where(PLAIN, 1.0, 2.0))
    assert ODD.tobytes() == BYTES.tobytes(), "the argument is as it was"
    alike(prog.flip(PLAIN), ~PLAIN)  # after a call that made a copy


@pytest.mark.slow
@needs_cc
def test_dlpack() -> None:
    """Of a library whose arrays are in CPU memory."""

    class Given:
        def __dlpack__(self, **options: Any) -> Any:
            return ODD.copy().__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    prog = futad.compile(SOURCE, "bools.fut", backend="c")
    alike(prog.count(Given()), 7)
    alike(prog.flip(Given()), ~PLAIN)


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("kind", [Foreign, Tensor])
def test_device_arrays(kind: type[Foreign], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy", raising=False)  # a real one has no card to ask about streams
    prog = futad.compile(SOURCE, "bools.fut", backend="emulated")
    device = prog.executor().running.device
    check_all(prog, kind(device, ODD), kind(device, np.tile(ODD, 500)), kind(device, np.tile(ODD, (4, 1))))
    alike(prog.count(kind(device, np.tile(ODD, (4, 1)), view=lambda a: a[:, 1])), 4)
    alike(prog.flip(kind(device, np.repeat(BYTES, 2).view(np.bool_), view=lambda a: a[::-2])), ~PLAIN[::-1])


@needs_cxx
def test_cupy_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    card = fake_cupy.install(monkeypatch, fake_cupy.Card())

    def on_card(values: np.ndarray) -> fake_cupy.Array:
        return fake_cupy.array(card, values)

    prog = futad.compile(SOURCE, "bools.fut", backend="cuda")
    for _ in range(3):  # captured, then replayed
        assert prog.count(on_card(ODD)).item() == 7
        assert prog.flip(on_card(ODD)).get().tobytes() == (~PLAIN).tobytes()
        assert prog.rows(on_card(np.tile(ODD, (4, 1)))).get().tolist() == [7] * 4


def binary(data: np.ndarray) -> bytes:
    """An array of bools in binary format with exactly these bytes."""
    return b"b\2" + bytes([data.ndim]) + b"bool" + np.array(data.shape, "<u8").tobytes() + data.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_binary_input(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    run = Runner(tmp_path, monkeypatch, capfdbinary)
    run.file("b.fut", SOURCE)
    assert run("run", "b.fut", "-e", "count", "-b", backend, stdin=binary(BYTES)).out == "7i64\n"
    code, out, _ = run.raw("run", "b.fut", "-e", "same", "-b", backend, "-B", stdin=b"10 " + 2 * binary(BYTES))
    assert code == 0 and out == binary_of(PLAIN) + b"b\2\0bool\0" + binary_of(PLAIN)
    code, out, _ = run.raw("run", "b.fut", "-e", "pick", "-b", backend, stdin=b"b\2\0bool\x02" + binary(BYTES[:3]))
    assert code == 0 and out == b"[2.0f64, 1.0f64, 1.0f64]\n"


def binary_of(values: np.ndarray) -> bytes:
    return binary(values.view(np.uint8))


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("subcommand", ["c", "multicore"])
def test_executables_and_servers(subcommand: str, tmp_path: Path) -> None:
    (tmp_path / "b.fut").write_text(SOURCE)
    for kind in ("executable", "server"):
        assert main([subcommand, str(tmp_path / "b.fut"), f"--{kind}", "-o", str(tmp_path / kind)]) == 0
    command = [str(tmp_path / "executable"), "-b", "-e", "same"]
    done = subprocess.run(command, input=b"10 " + 2 * binary(BYTES), capture_output=True, timeout=300)
    assert done.stdout == binary_of(PLAIN) + b"b\2\0bool\0" + binary_of(PLAIN)
    (tmp_path / "values").write_bytes(binary(BYTES) + b"b\2\0bool\x80")
    script = "restore values xs []bool b bool\ncall count n xs\nstore n n\nstore b b\nstore xs xs\n"
    done = subprocess.run([str(tmp_path / "server")], input=script.encode(), capture_output=True, timeout=300,
                          cwd=tmp_path)  # fmt: skip
    assert b"FAILURE" not in done.stdout
    assert (tmp_path / "n").read_bytes() == b"b\2\0 i64" + np.int64(7).tobytes()
    assert (tmp_path / "b").read_bytes() == b"b\2\0bool\1"
    assert (tmp_path / "xs").read_bytes() == binary_of(PLAIN)


LIBRARY = """
#include <stdio.h>
#include "b.h"
int main(void) {
  struct futad_context *ctx = futad_new();
  struct futad_result result;
  int64_t n = 3, sum;
  unsigned char xs[] = {0, 7, 1}, b = 9;
  void *counted[] = {&n, xs}, *picked[] = {&n, &b, xs};
  for (int iteration = 0; iteration < 3; iteration++) {
    if (futad_entry_count(ctx, counted, &result)) return 1;
    __builtin_memcpy(&sum, &result.data, 8);
    if (sum != 2) return 2;
    if (futad_entry_pick(ctx, picked, &result)) return 3;
    if (((double *)result.data)[0] != 2 || ((double *)result.data)[1] != 1) return 4;
  }
  if (xs[1] != 7) return 5;
  futad_free(ctx);
  return 0;
}
"""


@pytest.mark.slow
@needs_cc
def test_libraries(tmp_path: Path) -> None:
    (tmp_path / "b.fut").write_text(SOURCE)
    assert main(["c", str(tmp_path / "b.fut"), "--library", "-o", str(tmp_path / "b")]) == 0
    (tmp_path / "use.c").write_text(LIBRARY)
    from futad.runtime import cc

    build = ["cc", "-std=gnu11", "-O2", "-w", "use.c", "b.c", "-o", "use", *cc.link_flags()]
    subprocess.run(build, cwd=tmp_path, check=True, timeout=300)
    assert subprocess.run(["./use"], cwd=tmp_path, timeout=300).returncode == 0
