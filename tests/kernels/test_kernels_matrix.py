"""Matrix product, transposition and sorting templates on the CPU simulator."""

from __future__ import annotations

import numpy as np
import pytest

from futad.runtime.emulated import EmulatedModule
from tests.support.kernel_sources import GEMM, GEMM_ACCUMULATED, GEMM_FUSED, GEMM_SHAPES, GEMM_SQUARES, RADIX, TRANSPOSE


@pytest.fixture(scope="module")
def gemm() -> EmulatedModule:
    return EmulatedModule(GEMM)


@pytest.fixture(scope="module")
def squares() -> EmulatedModule:
    return EmulatedModule(GEMM_SQUARES)


@pytest.fixture(scope="module")
def transpose() -> EmulatedModule:
    return EmulatedModule(TRANSPOSE)


@pytest.fixture(scope="module")
def radix() -> EmulatedModule:
    return EmulatedModule(RADIX)


def strides(x: np.ndarray) -> list[np.int64]:
    return [np.int64(s // x.itemsize) for s in x.strides]


def run_gemm(
    module: EmulatedModule, name: str, kernel: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, splits: int = 1
) -> None:
    """c[z] = a[z] @ b[z], with `splits` parts of the sum in consecutive matrices of c."""
    _, bm, bn, _, tm, tn = GEMM_SHAPES[name]
    (batches, m, k), n = a.shape, b.shape[2]
    grid = (-(-m // bm) * -(-n // bn), 1, batches * splits)
    args = [a, *strides(a), b, *strides(b), c, *strides(c)]
    module.launch(
        kernel, grid, bm // tm * (bn // tn), 0, [*args, *map(np.int64, (batches, splits, m, n, k))]
    )


def matrices(name: str, batches: int, m: int, n: int, k: int, left: int, right: int) -> tuple[np.ndarray, ...]:
    """Small integers (sums are exact), each contiguous along the index the kernel expects."""
    rng = np.random.default_rng(m * 1000 + n * 100 + k)
    dtype = "float64" if name.startswith("f64") else "float32"
    a, b = rng.integers(-4, 5, (batches, m, k)).astype(dtype), rng.integers(-4, 5, (batches, k, n)).astype(dtype)
    if not left:
        a = np.ascontiguousarray(a.transpose(0, 2, 1)).transpose(0, 2, 1)
    if not right:
        b = np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)
    return a, b


GEMM_KERNELS = [
    (name, left, right)
    for name in GEMM_SHAPES
    for left, right in ([(0, 1), (1, 0)] if name in ("f32_large", "f64") else [(1, 1)])
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "left", "right"), GEMM_KERNELS, ids=str)
def test_gemm(gemm: EmulatedModule, name: str, left: int, right: int) -> None:
    """Whole tiles, one less and one more, tall-skinny ones, no sum at all, batches, splits of the sum."""
    _, bm, bn, bk, _, _ = GEMM_SHAPES[name]
    shapes = [
        (1, bm, bn, bk), (1, bm - 1, bn + 1, 2 * bk + 1), (2, bm + 1, bn - 1, bk - 1), (1, 1, 1, 1),
        (3, 2, 5, 37), (1, bm + 3, 1, 3), (1, 3, 4, 0),
    ]  # fmt: skip
    for batches, m, n, k in shapes:
        a, b = matrices(name, batches, m, n, k, left, right)
        c = np.full((batches, m, n), 99, a.dtype)
        run_gemm(gemm, name, f"set_{name}_{left}{right}", a, b, c)
        np.testing.assert_array_equal(c, a @ b)
    a, b = matrices(name, 2, 5, 6, 100, left, right)
    for splits in (2, 3, 50):
        parts = np.full((2 * splits, 5, 6), 99, a.dtype)
        run_gemm(gemm, name, f"set_{name}_{left}{right}", a, b, parts, splits)
        np.testing.assert_array_equal(parts.reshape(2, splits, 5, 6).sum(axis=1), a @ b)


@pytest.mark.slow
@pytest.mark.parametrize("name", GEMM_ACCUMULATED)
def test_gemm_accumulates_any_layout(gemm: EmulatedModule, name: str) -> None:
    """Operands and result with strides that suit nobody: steps, reversed and swapped indices."""
    left, right = (0, 1) if name == "f64" else (1, 1)
    a, b = matrices(name, 2, 33, 18, 40, left, right)
    a, b = a[:, ::2, ::-1], b[:, ::-1, ::3]
    start = np.arange(2 * 17 * 6, dtype=a.dtype).reshape(2, 6, 17)
    c = start.copy().transpose(0, 2, 1)
    run_gemm(gemm, name, f"add_{name}_{left}{right}", a, b, c)
    np.testing.assert_array_equal(c, start.transpose(0, 2, 1) + a @ b)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "_first"])
@pytest.mark.parametrize("seed", [None, 5])
def test_what_a_product_takes_along(seed: int | None, first: str) -> None:
    """Operands that are computed at once, or read first, of elements that are there; consumed results, sums of rows:
    for every shape, at the edges of tiles, fewer blocks than batches."""
    module = EmulatedModule(GEMM_FUSED, seed=seed)
    for name, (_, bm, bn, bk, tm, tn) in GEMM_SHAPES.items():
        if name.endswith("narrow"):
            continue
        sizes = ((2, bm + 1, bn + 3, bk + 1), (3, 5, 2, 1), (1, bm, bn, 2 * bk), (2, 3, 4, 0), (1, 4, 0, 5))
        for batches, m, n, k in sizes:
            inner = (m + k) % 2
            x, b, dtype = *matrices(name, batches, m, n, k, 1, 1), "float64" if "64" in name else "float32"
            weight, bias = np.arange(batches * k, dtype=dtype).reshape(batches, k) % 3, np.arange(n, dtype=dtype) % 5
            tiles = -(-n // bn)
            c, sums = np.full((batches, m, n), 99, dtype), np.full((batches, m), 99, dtype)
            rows = np.full((batches, m, tiles), 99, dtype)
            grid = (-(-m // bm) * max(1, tiles), 1, max(1, batches - 1))
            stored = x if inner else x.transpose(0, 2, 1).copy()
            outside = np.zeros(1, np.int64)
            args = [stored, weight, b, bias, c, rows, sums, outside, *map(np.int64, (batches, m, n, k))]
            module.launch(f"fused_{name}_{inner}{first}", grid, bm // tm * (bn // tn), 0, args)
            a = 2 * x * weight[:, None, :]
            want = a @ (b + 1) + bias
            np.testing.assert_array_equal(c, want)
            assert outside == 0
            np.testing.assert_array_equal(sums, a.sum(axis=2))
            squares = np.concatenate([want**2, np.zeros((batches, m, tiles * bn - n), dtype)], axis=2)
            np.testing.assert_array_equal(rows, squares.reshape(batches, m, tiles, bn).sum(axis=3))


def pairs(kind: str, m: int, n: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose squared distances products lose, or do not, digits of."""
    x, y = rng.normal(size=(m, k)), rng.normal(size=(n, k))
    if kind == "near":
        y = x[rng.integers(0, m, n)] + 1e-9 * y if m else y
    elif kind == "far away":
        x, y = x + 1e7, y + 1e7
    elif kind == "equal":
        y = x[rng.integers(0, m, n)] if m else y
    elif kind in ("huge", "tiny"):
        scale = 1e150 if kind == "huge" else 1e-155
        x, y = scale * x, scale * y
    elif kind == "special":
        x.ravel()[::7], y.ravel()[::11] = np.inf, np.nan
        x.ravel()[3::13], y.ravel()[2::5] = 1e200, 0
    return x, y


KINDS = ("plain", "near", "far away", "equal", "huge", "tiny", "special")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_squared_differences(squares: EmulatedModule, kind: str) -> None:
    """As exact as if the squares were added, up to seven bits, whatever the data; zero where rows are the same."""
    rng = np.random.default_rng(KINDS.index(kind))
    for name, (t, bm, bn, bk, tm, tn) in GEMM_SHAPES.items():
        if t == "float":
            continue
        for m, n, k in ((bm + 1, bn + 3, 2 * bk + 1), (5, 2, 1), (bm, bn, bk), (3, 4, 0), (2, 9, 40)):
            x, y = pairs(kind, m, n, k, rng)
            tiles = -(-n // bn)
            c, rows = np.full((m, n), 99, x.dtype), np.full((m, tiles), 99, x.dtype)
            args = [x, y, c, rows, x.dtype.type(0.0), *map(np.int64, (m, n, k))]
            squares.launch(f"squares_{name}", (-(-m // bm) * tiles, 1, 1), bm // tm * (bn // tn), 0, args)
            with np.errstate(all="ignore"):
                difference = (x[:, None, :] - y[None, :, :]).astype(np.longdouble)
                want = (difference**2).sum(axis=2).astype(x.dtype)
            eps = 64 * 2 * (k + 2) * np.finfo(x.dtype).eps
            np.testing.assert_allclose(c, want, rtol=eps, atol=np.finfo(x.dtype).tiny * k)
            if kind == "equal" and k:
                same = (x[:, None, :] == y[None, :, :]).all(axis=2)
                assert same.any() and (c[same] == 0).all()
            with np.errstate(all="ignore"):
                sums = np.concatenate([c, np.zeros((m, tiles * bn - n), c.dtype)], axis=1).reshape(m, tiles, bn)
                np.testing.assert_allclose(rows, sums.sum(axis=2), rtol=100 * np.finfo(x.dtype).eps * bn)


@pytest.mark.slow
def test_division_of_indices() -> None:
    """In 32 bits and in more."""
    source = """#include "futad_scalar.cuh"
FUTAD_KERNEL divide(int64_t n, const int64_t *a, const int64_t *b, int64_t *q, int64_t *r) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    q[i] = futad_quotient(a[i], b[i]);
    r[i] = futad_remainder(a[i], b[i]);
  }
}"""
    some = [0, 1, 2, 3, 7, 1000, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**40 + 5, 2**62, 2**63 - 1]
    a, b = [np.array(x) for x in zip(*[(x, y) for x in some for y in some if y], strict=True)]
    q, r = np.zeros_like(a), np.zeros_like(a)
    EmulatedModule(source).launch("divide", 1, 32, 0, [np.int64(len(a)), a, b, q, r])
    np.testing.assert_array_equal(q, a // b)
    np.testing.assert_array_equal(r, a % b)


@pytest.mark.slow
@pytest.mark.parametrize(("t", "dtype"), [("f32", "float32"), ("f64", "float64"), ("u8", "uint8")])
def test_transpose(transpose: EmulatedModule, t: str, dtype: str) -> None:
    shapes = [(1, 0, 3), (1, 1, 1), (2, 31, 33), (1, 32, 32), (3, 1, 100), (2, 65, 40)]
    for batches, rows, cols in shapes:
        x = (np.arange(batches * rows * cols) % 251).astype(dtype).reshape(batches, rows, cols)
        y = np.zeros((batches, cols, rows), dtype)
        args = [x, y, *map(np.int64, x.shape)]
        for grid in (1, 7):
            y[...] = 0
            transpose.launch(f"transpose_{t}", grid, 256, 0, args)
            np.testing.assert_array_equal(y, x.transpose(0, 2, 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 9])
@pytest.mark.parametrize("t", ["i32", "i64"])
def test_radix_sort(radix: EmulatedModule, t: str, seed: int | None) -> None:
    """Stable, by keys of both signs and all bytes, of few distinct keys and of many."""
    dtype = np.dtype({"i32": "int32", "i64": "int64"}[t])
    info = np.iinfo(dtype)
    for n in (1, 31, 33, 511, 512, 513, 2000):
        rng = np.random.default_rng(n)
        for low, high in ((info.min, info.max), (-3, 3)):
            keys = rng.integers(low, high, n, dtype, endpoint=True)
            order = np.argsort(keys, kind="stable")
            a, b = (keys.copy(), np.empty_like(keys)), (np.empty(n, dtype), np.empty(n, dtype))
            tiles = -(-n // 512)
            counts, state = np.zeros(256 * tiles, "uint32"), np.zeros(3 + 3 * tiles, "uint32")
            for step, shift in enumerate(range(0, dtype.itemsize * 8, 8)):
                grid = max(1, tiles - 1)
                radix.launch(f"count_{t}", grid, 128, 0, [a[0], np.int64(n), np.int32(shift), counts], seed=seed)
                radix.launch("scan_counts", tiles, 128, 0, [counts, np.int64(tiles), state], seed=seed)
                payload = None if step == 0 else b[0]
                out = [a[1], b[1], np.int64(n), np.int32(shift), counts]
                radix.launch(f"scatter_{t}", grid, 128, 0, [a[0], payload, *out], seed=seed)
                a, b = a[::-1], b[::-1]
            np.testing.assert_array_equal(a[0], keys[order])
            np.testing.assert_array_equal(b[0], order)
