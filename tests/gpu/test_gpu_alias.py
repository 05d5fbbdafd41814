"""Which arrays of a kernel are declared to be apart from what it writes: as many as are, and none that is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from futad.backend.device_alias import CONST, DISJOINT, accesses, qualifiers
from futad.flatten import kernel as kir
from futad.flatten.kernel import Kernel
from futad.imp import ir
from futad.imp.walk import statements
from futad.pipeline import compile_program
from futad.runtime.device import EmulatedDevice
from futad.runtime.host import Runtime
from futad.source import load_program
from futad.testing.build import device_backend
from tests.support.device_support import OnDevice
from tests.support.layout_programs import KEPT, LAYOUTS
from tests.support.needs import needs_cxx
from tests.support.paths import BENCHMARK_PROGRAMS as PROGRAMS

SOURCE = """
entry scaled [n] (xs: [n]f64) (ys: [n]f64): [n]f64 = map2 (\\x y -> x * y + 1) xs ys
-- Each iteration reads what the iteration before has made, and makes the next in other memory.
entry iterations [n] (t: i64) (xs: [n]f64): [n]f64 =
  loop xs = xs for _i < t do map (\\i -> xs[(i + 1) % n] * 0.5 + xs[i]) (iota n)
-- Each iteration overwrites what it reads, element by element.
entry over [n] (t: i64) (xs: *[n]f64): [n]f64 = loop xs = xs for _i < t do map (\\x -> x * 0.5 + 1) xs
-- Two arrays change places; then a third takes part.
entry swapped [n] (t: i64) (xs: [n]f64): ([n]f64, [n]f64) =
  loop (xs, ys) = (xs, map (+ 1) xs) for i < t do
    (map2 (\\x y -> x * 0.5 + y) ys (rotate 1 xs), if i % 3 == 1 then ys else map (* 2) xs)
entry nested [n] (t: i64) (xs: [n]f64): [n]f64 =
  loop xs = xs for i < t do
    let ys = loop ys = rotate 1 xs for _j < i do map2 (\\a b -> a - 0.5 * b) ys (rotate 2 ys)
    in if i % 2 == 0 then map2 (+) xs ys else ys with [0] = xs[n - 1]
-- Updates in place of an array that is read beside it.
entry updated [n] (is: [n]i64) (xs: [n]f64): ([n]f64, [n]f64) =
  let ys = map (* 2) xs
  let zs = scatter (copy ys) is (map (+ 1) ys)
  let sums = reduce_by_index (map (* 3) zs) (+) 0 is ys
  in (zs, map2 (+) sums (scan (+) 0 ys))
entry halves [n] (xs: *[n]f64): [n]f64 =
  let m = n / 2
  let low = map (* 2) (take m xs)
  let xs[0:m] = map2 (+) low (take m (drop (n - m) xs))
  in xs
-- An array that each iteration makes anew, and writes by another name.
entry anew [n] (t: i64) (xs: [n]f64): f64 =
  loop s = 0 for i < t do
    let ys = replicate n s
    let ys[i % n] = xs[i % n]
    in 0.5 * s + f64.sum ys
"""
DEVICE = OnDevice(SOURCE, "alias.fut", check=True, loops_by_host=True)
ARGS: dict[str, list[Any]] = {
    "scaled": ["xs", "xs"], "iterations": [5, "xs"], "over": [4, "xs"], "swapped": [7, "xs"], "nested": [6, "xs"],
    "updated": ["is", "xs"], "halves": ["xs"], "anew": [5, "xs"],
}  # fmt: skip


def arguments(name: str, n: int) -> list[Any]:
    r = np.random.default_rng(n)
    arrays = {"xs": r.standard_normal(n), "is": r.permutation(n).astype(np.int64)}
    return [np.int64(n), *[arrays[x] if isinstance(x, str) else np.int64(x) for x in ARGS[name]]]


def kernels(entry: str) -> list[tuple[Kernel, dict[str, str]]]:
    """The kernels that an entry launches, and what is known of their parameters."""
    module = DEVICE.backend.module
    made = next(f for f in module.functions if f.name == DEVICE.symbol(entry))
    used = {s.kernel for s in statements(made.body) if isinstance(s, kir.Launch)}
    return [(k, q) for k, q in qualifiers(module).items() if k in used]


def known(entry: str) -> list[tuple[int, ...]]:
    """For each kernel how many pointers are constant, apart, and neither."""
    return [
        (sum(x == CONST for x in q.values()), sum(x == DISJOINT for x in q.values()),
         sum(p for _, _, p in k.params) - len(q))
        for k, q in kernels(entry)
    ]  # fmt: skip


@pytest.mark.slow
def test_what_is_only_read_and_what_is_only_written() -> None:
    assert known("scaled") == [(2, 1, 0)]
    assert known("iterations") == [(1, 1, 0)]  # whichever of the two memories is which in an iteration
    text = DEVICE.backend.source
    assert "const double *__restrict__ v_" in text and "double *__restrict__ v_" in text


def test_what_is_overwritten_is_neither() -> None:
    in_place = [k for k in known("over") if k[2]]
    assert in_place and all(k[:2] == (0, 0) for k in in_place)


class Checked(Runtime):
    """Looks at each launch whether memory that a kernel writes is that of a parameter that is apart from it."""

    kernels: list[Kernel]
    found: dict[Kernel, dict[str, str]]
    seen: int

    def launch(self, number: int, units: int, inner: int, args: Sequence[Any], counts: Sequence[int]) -> None:
        k = self.kernels[number]
        a = accesses(statements(k.body))
        assert a is not None or not self.found[k]
        where = {n: self.memory(x) for (n, _, p), x in zip(k.params, args, strict=True) if p and x is not None}
        for n, q in self.found[k].items():
            assert a is not None
            written = {m for m in where if a.find(m) in {a.find(x) for x in a.written}}
            same = {m for m in where if m != n and n in where and where[m] == where[n]}
            if q == CONST:
                assert not ({n} | same) & written, (k.name, n)
            else:
                assert a.find(n) not in {a.find(x) for x in a.read} and not same, (k.name, n)
            self.seen += 1
        super().launch(number, units, inner, args, counts)

    def memory(self, address: int) -> Any:
        """The slot, or an address that is in none."""
        for slot, (start, size) in self.arena.slots.items():
            if start <= address < start + size:
                return slot
        return address


def checked(device: OnDevice, name: str, args: Sequence[Any]) -> list[Any]:
    """The results of a call of which all launches are looked at."""
    running = device.on(EmulatedDevice())
    r = running.runtime
    r.__class__ = Checked
    assert isinstance(r, Checked)
    r.kernels, r.found, r.seen = device.backend.module.kernels, qualifiers(device.backend.module), 0
    for _ in range(2):  # the second time all slots are in one block
        out = running.run(device.symbol(name), args)
    assert r.seen or name == "over"
    return out


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ARGS)
def test_what_is_apart_is_apart_in_every_launch(name: str) -> None:
    for n in (1, 6, 70):
        args = arguments(name, n)
        got = checked(DEVICE, name, args)
        for x, y in zip(got, DEVICE.interpreted(name, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@needs_cxx
@pytest.mark.slow
def test_loops_that_save_and_layouts_are_apart_in_every_launch() -> None:
    xs = np.random.default_rng(2).standard_normal(6)
    for name in ("simple", "pair", "two_back", "kept", "matrices"):
        checked(KEPT, name, [np.int64(6), np.int64(4), xs])
    for name in ("columns", "both", "updated", "slope"):
        checked(LAYOUTS, name, [np.int64(6), xs])
    checked(LAYOUTS, "carried", [np.int64(6), np.int64(3), xs])


@pytest.mark.slow
def test_arrays_that_iterations_exchange_are_apart_in_lbm() -> None:
    """Of an iteration's kernel only what stays in the cell, which it overwrites, is not apart."""
    backend = device_backend(compile_program(load_program(str(PROGRAMS / "lbm.fut"))), loops_by_host=True)
    found = qualifiers(backend.module)
    primal = next(f for f in backend.module.functions if f.name == "primal")
    (iteration,) = [s.kernel for loop in primal.body if isinstance(loop, ir.For) for s in statements(loop.body)
                    if isinstance(s, kir.Launch)]  # fmt: skip
    pointers = [n for n, _, p in iteration.params if p]
    assert len(pointers) == 38 and len([n for n in pointers if n not in found[iteration]]) == 1
