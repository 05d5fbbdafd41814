"""The CPU simulator: what CUDA's words do on it, and what it reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import futad
from futad.errors import InternalError
from futad.runtime import emulated
from futad.runtime.emulated import EmulatedModule

BASIC = """
#include "futad_scalar.cuh"
FUTAD_KERNEL __launch_bounds__(256) total(int64_t n, const double *x, double *out) {
  FUTAD_SHARED(double, s, 256);
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? futad_exp_f64(x[i]) : 0;
  __syncthreads();
  for (int k = 128; k; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, s[0]);
}
"""


def total_inputs(n: int) -> tuple[np.ndarray, np.ndarray, list[object]]:
    x = np.linspace(0, 1, n)
    out = np.zeros(1)
    return x, out, [np.int64(n), x, out]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_block_sum(seed: int | None) -> None:
    x, out, args = total_inputs(5000)
    EmulatedModule(BASIC, seed=seed).launch("total", 20, 256, 0, args)
    assert out[0] == pytest.approx(np.exp(x).sum(), rel=1e-12)


WORDS = """
#include "device.cuh"
FUTAD_KERNEL warp(int32_t *x, double *y, uint32_t *votes) {
  int t = threadIdx.x;
  x[t] = __shfl_up_sync(FUTAD_ALL, t, 1);
  x[64 + t] = __shfl_down_sync(FUTAD_ALL, t, 3, 8);
  x[128 + t] = __shfl_xor_sync(FUTAD_ALL, t, 5);
  x[192 + t] = __shfl_sync(FUTAD_ALL, t, 34);
  y[t] = __shfl_sync(FUTAD_ALL, t * 0.5, 31 - t % 32);
  votes[t] = __ballot_sync(FUTAD_ALL, t % 3 == 0);
  votes[64 + t] = __any_sync(FUTAD_ALL, t == 40) * 2 + __all_sync(FUTAD_ALL, t < 32);
  votes[128 + t] = __match_any_sync(FUTAD_ALL, t % 4);
  unsigned half = t % 32 < 16 ? 0x0000ffffu : 0xffff0000u; /* two halves on their own ways */
  int sum = t;
  if (t % 32 < 16) {
    for (int d = 8; d; d /= 2) sum += __shfl_xor_sync(half, sum, d);
  } else {
    for (int d = 1; d < 16; d *= 2) sum += __shfl_xor_sync(half, sum, d);
    __syncwarp(half);
  }
  votes[192 + t] = sum;
}
FUTAD_KERNEL barriers(int32_t *counts) {
  counts[threadIdx.x] = __syncthreads_count(threadIdx.x % 3 == 0) * 100 + __syncthreads_or(threadIdx.x == 5) * 10
      + __syncthreads_and(threadIdx.x < 64);
}
FUTAD_KERNEL places(uint32_t *out) {
  unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = block * 1000 + thread;
}
FUTAD_KERNEL dynamic(double *out) {
  FUTAD_DYNAMIC_SHARED(double, memory);
  memory[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = memory[blockDim.x - 1 - threadIdx.x];
}
FUTAD_KERNEL atomics(int32_t *i, uint32_t *u, unsigned long long *l, float *f, double *d) {
  atomicAdd(i, 2); atomicMin(i + 1, -(int)threadIdx.x); atomicMax(i + 2, (int)threadIdx.x);
  atomicSub(i + 3, 1); atomicCAS(i + 4, 0, (int)threadIdx.x + 7);
  atomicInc(u, 9); atomicDec(u + 1, 9); atomicOr(u + 2, 1u << threadIdx.x % 32);
  atomicAnd(u + 3, ~(1u << threadIdx.x % 8)); atomicXor(u + 4, threadIdx.x);
  atomicAdd(l, 1ull << 40); atomicMax(l + 1, (unsigned long long)threadIdx.x);
  atomicAdd(f, 0.5f); atomicAdd(d, 0.25);
  atomicExch(u + 5, 3u);
}
FUTAD_KERNEL last_to_first(uint32_t *flags) { /* block b waits for block b + 1 */
  if (threadIdx.x == 0) {
    while (blockIdx.x + 1 < gridDim.x && !futad_load_acquire(flags + blockIdx.x + 1)) FUTAD_SPIN();
    futad_store_release(flags + blockIdx.x, 1);
  }
}
FUTAD_KERNEL some_wait(int32_t n) { if (threadIdx.x < n) __syncthreads(); }
FUTAD_KERNEL two_barriers(int32_t n) {
  if (threadIdx.x < n) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
FUTAD_KERNEL half_a_warp() { if (threadIdx.x % 2) __syncwarp(); }
FUTAD_KERNEL stops() { if (threadIdx.x == 3) __trap(); }
FUTAD_KERNEL past_the_end(int32_t n, int32_t *x) { x[threadIdx.x + n] = 1; }
FUTAD_KERNEL past_shared(int32_t n, int32_t *x) {
  FUTAD_SHARED(int32_t, memory, 32);
  memory[threadIdx.x + n] = 1;
  x[threadIdx.x] = memory[threadIdx.x];
}
FUTAD_KERNEL past_dynamic(int32_t n) {
  FUTAD_DYNAMIC_SHARED(int32_t, memory);
  memory[threadIdx.x + n] = 1;
}
"""


@pytest.fixture(scope="module")
def words() -> EmulatedModule:
    return EmulatedModule(WORDS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 3])
def test_warp_operations(words: EmulatedModule, seed: int | None) -> None:
    x, y, votes = np.zeros((4, 64), "int32"), np.zeros(64), np.zeros((4, 64), "uint32")
    words.launch("warp", 1, 64, 0, [x, y, votes], seed=seed)
    t = np.arange(64)
    lane, base = t % 32, t // 32 * 32
    np.testing.assert_array_equal(x[0], np.where(lane == 0, t, t - 1))
    np.testing.assert_array_equal(x[1], np.where(t % 8 + 3 < 8, t + 3, t))
    np.testing.assert_array_equal(x[2], t ^ 5)
    np.testing.assert_array_equal(x[3], base + 2)
    np.testing.assert_array_equal(y, (base + 31 - lane) * 0.5)
    ballots = [sum(1 << i for i in range(32) if (b + i) % 3 == 0) for b in (0, 32)]
    np.testing.assert_array_equal(votes[0], np.repeat(ballots, 32))
    np.testing.assert_array_equal(votes[1], np.repeat([1, 2], 32))
    np.testing.assert_array_equal(votes[2], 0x11111111 << (t % 4))
    np.testing.assert_array_equal(votes[3], t.reshape(4, 16).sum(axis=1).repeat(16))


@pytest.mark.slow
def test_without_assembly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch of other processors."""
    monkeypatch.setattr(emulated, "_FLAGS", [*emulated._FLAGS, "-DFUTAD_EMU_PORTABLE"])
    x, out, args = total_inputs(5000)
    EmulatedModule(BASIC, seed=4).launch("total", 20, 256, 0, args)
    assert out[0] == pytest.approx(np.exp(x).sum(), rel=1e-12)


def test_barriers_that_count(words: EmulatedModule) -> None:
    counts = np.zeros(65, "int32")
    words.launch("barriers", 1, 65, 0, [counts])
    np.testing.assert_array_equal(counts, 22 * 100 + 10)


def test_extents(words: EmulatedModule) -> None:
    out = np.zeros(24 * 30, "uint32")
    words.launch("places", (2, 3, 4), (5, 2, 3), 0, [out])
    np.testing.assert_array_equal(out, (np.arange(24)[:, None] * 1000 + np.arange(30)).reshape(-1))
    with pytest.raises(InternalError, match="no such launch"):
        words.launch("places", 1, 1025, 0, [out])
    with pytest.raises(InternalError, match="no such launch"):
        words.launch("places", 0, 32, 0, [out])


def test_dynamic_shared_memory(words: EmulatedModule) -> None:
    out = np.zeros(100)
    words.launch("dynamic", 3, 100, 800, [out])
    np.testing.assert_array_equal(out, np.arange(100)[::-1])


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_atomics(words: EmulatedModule, seed: int | None) -> None:
    i, u, wide = np.zeros(5, "int32"), np.array([0, 0, 0, 255, 0, 0], "uint32"), np.zeros(2, "uint64")
    f, d = np.zeros(1, "float32"), np.zeros(1)
    words.launch("atomics", 4, 50, 0, [i, u, wide, f, d], seed=seed)
    assert i[:4].tolist() == [400, -49, 49, -200] and 7 <= i[4] < 57
    assert u.tolist() == [0, 0, 2**32 - 1, 0, 0, 3]
    assert wide.tolist() == [200 << 40, 49] and f[0] == 100 and d[0] == 50


def test_blocks_that_wait_for_later_ones(words: EmulatedModule) -> None:
    """In order that is a deadlock; at random it depends on who is resident."""
    with pytest.raises(InternalError, match=r"block \(0, 0, 0\), thread \(0, 0, 0\) spins without end at line"):
        words.launch("last_to_first", 3, 1, 0, [np.zeros(3, "uint32")])
    flags = np.zeros(2, "uint32")
    words.launch("last_to_first", 2, 33, 0, [flags], seed=1)
    assert flags.all()


@pytest.mark.slow
def test_seeds_decide_the_order() -> None:
    """Which block's thread comes last differs between seeds, and does not for one seed."""
    module = EmulatedModule(
        '#include "device.cuh"\n'
        "FUTAD_KERNEL order(uint32_t *next, uint32_t *who) { who[atomicAdd(next, 1u)] = blockIdx.x; }"
    )

    def order(seed: int | None) -> list[int]:
        who = np.zeros(60, "uint32")
        module.launch("order", 20, 3, 0, [np.zeros(1, "uint32"), who], seed=seed)
        return who.tolist()

    assert order(None) == sorted(order(None))
    assert order(5) == order(5) != order(6)
    assert sorted(order(5)) == order(None)


@pytest.mark.parametrize(
    ("kernel", "args", "message"),
    [
        ("some_wait", [7], r"block \(0, 0, 0\): thread \(0, 0, 0\) waits at the barrier of line \d+; "
         r"thread \(7, 0, 0\) has left the kernel"),
        ("two_barriers", [7], r"thread \(7, 0, 0\) is at the barrier of line \d+ while others"),
        ("half_a_warp", [], r"thread \(1, 0, 0\) waits at the warp operation of line \d+; "
         r"thread \(0, 0, 0\) has left the kernel"),
        ("stops", [], "__trap at line"),
    ],
)  # fmt: skip
def test_reports(words: EmulatedModule, kernel: str, args: list[int], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        words.launch(kernel, 2, 64, 0, [np.int32(a) for a in args])
    # The device is as good as new.
    words.launch("some_wait", 1, 64, 0, [np.int32(64)])


def test_arguments_that_do_not_fit(words: EmulatedModule) -> None:
    x = np.zeros(64, "int32")
    with pytest.raises(InternalError, match="takes 1 arguments, not 2"):
        words.launch("some_wait", 1, 1, 0, [np.int32(1), x])
    with pytest.raises(InternalError, match="argument 0: a value of 4 bytes expected, a value of 8 bytes given"):
        words.launch("some_wait", 1, 1, 0, [np.int64(1)])
    with pytest.raises(InternalError, match="argument 0: a value of 4 bytes expected, a pointer given"):
        words.launch("some_wait", 1, 1, 0, [x])
    with pytest.raises(InternalError, match="argument 1: a pointer expected"):
        words.launch("past_the_end", 1, 1, 0, [np.int32(1), np.int64(1)])
    with pytest.raises(InternalError, match="not int"):
        words.launch("some_wait", 1, 1, 0, [1])
    with pytest.raises(InternalError, match="no kernel 'nothing'"):
        words.launch("nothing", 1, 1, 0, [])


@pytest.mark.slow
def test_address_sanitizer() -> None:
    module = EmulatedModule(WORDS, sanitize="address")
    x = np.zeros(32, "int32")
    module.launch("past_the_end", 1, 32, 0, [np.int32(0), x])
    assert x.all()
    line = WORDS[: WORDS.index("x[threadIdx.x + n] = 1")].count("\n") + 1
    with pytest.raises(InternalError, match=rf"heap-buffer-overflow[^\n]*\n\s*in past_the_end at kernels.cu:{line}"):
        module.launch("past_the_end", 1, 32, 0, [np.int32(1), x])
    module.launch("past_shared", 2, 32, 0, [np.int32(0), x])
    with pytest.raises(InternalError, match="heap-buffer-overflow"):
        module.launch("past_shared", 1, 32, 0, [np.int32(1), x])
    module.launch("past_dynamic", 2, 32, 128, [np.int32(0)])
    with pytest.raises(InternalError, match="heap-buffer-overflow"):
        module.launch("past_dynamic", 1, 32, 124, [np.int32(0)])
    with pytest.raises(InternalError, match="deadlock"):
        module.launch("some_wait", 1, 32, 0, [np.int32(1)])


@pytest.mark.slow
def test_thread_sanitizer() -> None:
    """A barrier that is missing, and blocks that write the same place."""
    x, out, args = total_inputs(500)
    module = EmulatedModule(BASIC, sanitize="thread")
    module.launch("total", 2, 256, 0, args)
    assert out[0] == pytest.approx(np.exp(x).sum(), rel=1e-12)
    mutant = BASIC.replace("threadIdx.x + k];\n    __syncthreads();", "threadIdx.x + k];")
    assert mutant != BASIC
    with pytest.raises(InternalError, match=r"data race\n\s*in total at kernels.cu:\d+"):
        EmulatedModule(mutant, sanitize="thread").launch("total", 2, 256, 0, args)
    blocks = BASIC.replace("atomicAdd(out, s[0])", "*out += s[0]")
    with pytest.raises(InternalError, match="data race"):
        EmulatedModule(blocks, sanitize="thread").launch("total", 2, 256, 0, args)


@pytest.mark.slow
def test_pieces_of_one_array_under_a_sanitizer() -> None:
    """Views share their array's copy, so that what is written through one is there in the others."""
    module = EmulatedModule(
        '#include "device.cuh"\nFUTAD_KERNEL copy(const double *x, double *y) { y[threadIdx.x] = x[threadIdx.x] + 1; }',
        sanitize="address",
    )
    arena = np.arange(20.0)
    module.launch("copy", 1, 5, 0, [arena[2:7], arena[10:15]])
    np.testing.assert_array_equal(arena[10:15], np.arange(3, 8))
    np.testing.assert_array_equal(arena[:10], np.arange(10))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="mappings are counted on Linux")
def test_programs_keep_few_mappings() -> None:
    """A process may have 65,530; a block of 1,024 threads has a stack and a guard for each while it runs."""

    def mappings() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    before = 0
    for name in ("first", "second"):  # the first one loads libraries, too
        before = mappings()
        p = futad.compile(f"entry {name} [n][m] (xs: [n][m]f64) = map f64.sum xs", backend="emulated")
        assert np.array_equal(p[name](np.ones((3, 5000))), [5000.0] * 3)
    assert mappings() - before < 40
