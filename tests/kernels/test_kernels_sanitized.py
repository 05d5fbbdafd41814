"""Kernel templates under the sanitizers, and mutants of them that the sanitizers must catch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from futad.errors import InternalError
from futad.runtime.emulated import EmulatedModule
from futad.runtime.kerneltext import expand
from tests.support.kernel_sources import (
    BLOCK,
    GEMM,
    GEMM_FUSED,
    GEMM_SQUARES,
    HISTOGRAM,
    LAST,
    LOCKS,
    RADIX,
    SCAN,
    SUBHIST_ROWS,
    TRANSPOSE,
    pick,
)

I64 = np.int64
Launch = tuple[str, Any, int, int, list[Any]]


def block_launches() -> list[Launch]:
    a, b, ra, rb = np.ones((4, 256), "int64")
    return [("linear_blocks", 1, 128, 0, [a, b, ra, rb, I64(2), I64(128), np.zeros(512, "int64")])]


def upto_launches() -> list[Launch]:
    a, b, ra, rb = np.ones((4, 192), "int64")
    return [("linear_upto", 1, 96, 0, [a, b, ra, rb, I64(2), I64(96), np.zeros(384, "int64")])]


def scan_launches() -> list[Launch]:
    a, b, ra, rb = np.ones((4, 999), "int64")
    state = np.zeros(3 + 4 * (1 + 2 * 4), "uint32")
    return [("linear_flat", 3, 128, 0, [a, b, ra, rb, I64(1), I64(999), state])]


def histogram_launches() -> list[Launch]:
    out: list[Launch] = []
    at = np.arange(200) % 11 - 1
    for t, dtype in (("f64", "float64"), ("u8", "uint8"), ("f16", "float16")):
        args = [I64(200), I64(9), at, np.ones(200, dtype), np.ones(9, dtype)]
        out += [(f"global_add_{t}", 2, 64, 0, args), (f"blocks_add_{t}", 6, 64, 0, args)]
    return out


def locks_launches() -> list[Launch]:
    at = np.arange(100) % 5
    best, where, locks = np.ones(5), np.zeros(5, "int64"), np.zeros(16, "uint32")
    return [("locked_best", 2, 32, 0, [I64(100), I64(5), at, np.ones(100) * 2, best, where, locks])]


def rows_launches() -> list[Launch]:
    x = np.arange(400, dtype="float64").reshape(200, 2) % 7
    return [("rows_f64", 2, 64, 0, [I64(200), I64(2), I64(3), x, np.zeros((3, 2)), np.zeros(3)])]


def transpose_launches() -> list[Launch]:
    x = np.ones((1, 33, 65))
    return [("transpose_f64", 2, 256, 0, [x, np.zeros(x.size), I64(1), I64(33), I64(65)])]


def gemm_launches() -> list[Launch]:
    a, b, c = np.ones((33, 50)), np.ones((50, 33)), np.ones((33, 33))
    args = [a, I64(0), I64(50), I64(1), b, I64(0), I64(33), I64(1), c, I64(0), I64(33), I64(1)]
    return [("set_f64_small_11", (4, 1, 1), 256, 0, [*args, I64(1), I64(1), I64(33), I64(33), I64(50)])]


def fused_launches() -> list[Launch]:
    x, b, weight, bias, c = np.ones((66, 50)), np.ones((100, 33)), np.ones(100), np.ones(33), np.ones((66, 33))
    rows, sums = np.zeros((66, 2)), np.zeros(66)
    outside = np.zeros(1, "int64")
    args = [x, weight, b, bias, c, rows, sums, outside, I64(2), I64(33), I64(33), I64(50)]
    return [("fused_f64_small_1_first", (4, 1, 1), 256, 0, args)]


def squares_launches() -> list[Launch]:
    x, y, c, rows = np.ones((66, 20)), np.zeros((70, 20)), np.ones((66, 70)), np.zeros((66, 2))
    return [("squares_f64", (4, 1, 1), 256, 0, [x, y, c, rows, np.float64(0), I64(66), I64(70), I64(20)])]


def radix_launches() -> list[Launch]:
    keys = np.arange(900, dtype="int32")[::-1] // 5 * 77
    counts, state = np.zeros(512, "uint32"), np.zeros(3 + 3, "uint32")
    out = [np.empty(900, "int32"), np.empty(900, "int32"), I64(900), np.int32(0), np.cumsum(counts_of(keys, 2))]
    out[-1] = out[-1].astype("uint32")
    return [
        ("count_i32", 1, 128, 0, [keys.copy(), I64(900), np.int32(0), counts]),
        ("scan_counts", 1, 128, 0, [counts, I64(2), state]),
        ("scatter_i32", 1, 128, 0, [keys.copy(), None, *out]),
    ]


def counts_of(keys: np.ndarray, tiles: int) -> np.ndarray:
    """How often each lowest byte occurs in each tile of 512 keys, bytes first."""
    parts = [np.bincount(keys[512 * t : 512 * t + 512] & 255, minlength=256) for t in range(tiles)]
    return np.stack(parts, axis=1).reshape(-1)


def last_launches() -> list[Launch]:
    return [("sum_up", 3, 64, 0, [np.ones(500, "int64"), I64(500), np.zeros(192, "int64"), np.zeros(64, "int64"),
                                  np.zeros(1, "uint32")])]  # fmt: skip


#: name: the source with the kernels that are launched, the functions whose barriers are tried, the launches
CASES: dict[str, tuple[str, str, Callable[[], list[Launch]]]] = {
    "block": (pick(BLOCK, "linear_blocks"), "futad_block_scan", block_launches),
    "upto": (pick(BLOCK, "linear_upto"), "futad_block_reduce_upto|futad_block_scan_upto", upto_launches),
    "last": (LAST, "futad_last_block", last_launches),
    "scan": (pick(SCAN, "linear_flat"), "load|store|futad_look_back|futad_scan_flat", scan_launches),
    "histogram": (pick(HISTOGRAM, "(global|blocks)_add_(f64|u8|f16)"), "futad_with_subhist", histogram_launches),
    "subhist_rows": (SUBHIST_ROWS, "futad_subhist_rows", rows_launches),
    "locks": (LOCKS, "futad_locked", locks_launches),
    "transpose": (pick(TRANSPOSE, "transpose_f64"), "futad_transpose", transpose_launches),
    "gemm": (pick(GEMM, "set_f64_small_11"), "futad_gemm", gemm_launches),
    "gemm_fused": (
        pick(GEMM_FUSED, "fused_f64_small_1_first"), "futad_gemm|futad_sums_of|futad_row_folds", fused_launches
    ),
    "gemm_squares": (pick(GEMM_SQUARES, "squares_f64"), "futad_gemm|futad_sums_of", squares_launches),
    "radix": (
        pick(RADIX, "(count|scatter)_i32|scan_counts"), "futad_radix_count|futad_radix_scatter", radix_launches
    ),
}  # fmt: skip

#: blocks in order, interleaved (one after the other, what they do is ordered by that), and threads in lockstep
MODES: tuple[dict[str, Any], ...] = ({}, {"seed": 1}, {"seed": 2, "lockstep": True})

# The k-th barrier or fence of the functions under test is left out where this variable of the environment says so.
SWITCH = "FUTAD_TEST_MUTANT"
PROLOGUE = f"""
static const int futad_mutant = getenv("{SWITCH}") ? atoi(getenv("{SWITCH}")) : -1;
#define FUTAD_MUTANT_LOAD(k, ...) (futad_mutant != (k) ? futad_load_acquire(__VA_ARGS__) : futad_peek(__VA_ARGS__))
#define FUTAD_MUTANT_STORE(k, ...) \\
  if (futad_mutant != (k)) futad_store_release(__VA_ARGS__); \\
  else futad_poke(__VA_ARGS__)
"""
BARRIER = re.compile(r"__sync(?:threads|warp)\(\);|__threadfence\(\);|\bfutad_(?:load_acquire|store_release)\(")
FUNCTION = re.compile(r"FUTAD_(?:DEV|INLINE) [^;{}=]*?(\w+)\(")
OTHERS = ("futad_load_acquire", "futad_store_release")  # whose fences are tried where they are called


def with_mutants(source: str, functions: str) -> tuple[str, list[str]]:
    """The whole text, each barrier and fence of the functions made optional, and in which function each of them is."""
    text, found = expand(source), list[str]()

    def optional(m: re.Match[str]) -> str:
        name = [f[1] for f in FUNCTION.finditer(text, 0, m.start())][-1]
        if not re.fullmatch(functions, name) or name in OTHERS:
            return m[0]
        found.append(f"{name}: {m[0]}")
        if m[0].endswith("("):
            return f"FUTAD_MUTANT_{'LOAD' if 'load' in m[0] else 'STORE'}({len(found) - 1}, "
        return f"if (futad_mutant != {len(found) - 1}) {m[0]}"

    return PROLOGUE + BARRIER.sub(optional, text), found


@pytest.mark.slow(apart=True)
@pytest.mark.parametrize("name", list(CASES))
def test_address_sanitizer_finds_nothing(name: str) -> None:
    source, _, launches = CASES[name]
    module = EmulatedModule(source, sanitize="address")
    for launch in launches():
        module.launch(*launch)


@pytest.mark.slow(apart=True)
@pytest.mark.parametrize("name", list(CASES))
def test_thread_sanitizer_finds_dropped_barriers_and_fences(name: str) -> None:
    """Nothing in the templates as they are; a race in each template that lacks one of its barriers or fences."""
    source, functions, launches = CASES[name]
    text, barriers = with_mutants(source, functions)
    assert {b.split(":")[0] for b in barriers} == set(filter(None, functions.split("|")))
    module = EmulatedModule(text, sanitize="thread")
    for launch in launches():
        for mode in MODES:
            module.launch(*launch, **mode)
    missed = []
    for mutant, function in enumerate(barriers):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SWITCH, str(mutant))
            if not any(is_caught(module, launch) for launch in launches()):
                missed.append((mutant, function))
    assert not missed


ORDER = """
#include "device.cuh"
FUTAD_KERNEL take(unsigned *next, int *out) {
  for (int iteration = 0; iteration < 3; iteration++) out[iteration * blockDim.x + threadIdx.x] = atomicAdd(next, 1u);
}
FUTAD_KERNEL handed_on(int *value, unsigned *flag, int *out) {
  if (threadIdx.x == 0) {
    *value = 7;
    futad_poke(flag, 1u);
  } else {
    while (!futad_peek(flag)) FUTAD_SPIN();
    *out = *value;
  }
}
"""


@pytest.mark.slow
def test_threads_in_lockstep() -> None:
    """All have taken their first number before one takes a second; then the one that was last goes first."""
    module = EmulatedModule(ORDER)
    out = np.zeros((3, 40), "int32")
    module.launch("take", 1, 40, 0, [np.zeros(1, "uint32"), out], lockstep=True)
    up = np.arange(40)
    assert sorted(out[0]) == list(up) and sorted(out[1]) == list(40 + up) and sorted(out[2]) == list(80 + up)
    assert list(out[1] - 40) == list(39 - out[0]) and list(out[2] - 80) == list(out[0])


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["", "before", "after"])
def test_only_fences_order_what_atomics_hand_on(missing: str) -> None:
    """Atomics alone do not, as on a card; a barrier of the sanitizer's own thread would hide that."""
    text = ORDER
    if missing != "before":
        text = text.replace("*value = 7;", "*value = 7; __threadfence();")
    if missing != "after":
        text = text.replace("*out = *value;", "__threadfence(); *out = *value;")
    module = EmulatedModule(text, sanitize="thread")
    arguments = [np.zeros(1, "int32"), np.zeros(1, "uint32"), np.zeros(1, "int32")]
    assert is_caught(module, ("handed_on", 1, 2, 0, arguments)) == bool(missing)


def is_caught(module: EmulatedModule, launch: Launch) -> bool:
    for mode in MODES:
        try:
            module.launch(*launch, **mode)
        except InternalError as e:
            assert "data race" in str(e) or "deadlock" in str(e)
            return True
    return False
