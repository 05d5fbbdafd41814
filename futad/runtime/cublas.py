"""Matrix products by cuBLAS, called by ctypes.

CuPy's own calls of cuBLAS refuse a stream that is being captured; cuBLAS itself does not.  One handle serves a process
and device (it costs memory and time to make).  Each program brings a workspace of its own: without one cuBLAS would
allocate, which puts allocations into graphs, and one for all would be written by programs on several streams at a time.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from typing import Any

import numpy as np

from futad.runtime.device import Product

WORKSPACE = 32 << 20  # bytes, as cuBLAS's documentation advises for sm_90; less serves others
_NO_TRANSPOSE, _TRANSPOSE = 0, 1  # cublasOperation_t
_DEFAULT_MATH, _TF32_MATH = 0, 3  # cublasMath_t
_STATUS = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED", 7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH", 11: "CUBLAS_STATUS_MAPPING_ERROR", 13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR", 15: "CUBLAS_STATUS_NOT_SUPPORTED",
}  # fmt: skip

_i, _p, _l = ctypes.c_int, ctypes.c_void_p, ctypes.c_longlong
_SINGLE = (_p, _i, _i, _i, _i, _i, _p, _p, _i, _p, _i, _p, _p, _i)
_STRIDED = (_p, _i, _i, _i, _i, _i, _p, _p, _i, _l, _p, _i, _l, _p, _p, _i, _l, _i)
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasCreate_v2": (_p,),
    "cublasSetStream_v2": (_p, _p),
    "cublasSetWorkspace_v2": (_p, _p, ctypes.c_size_t),
    "cublasSetMathMode": (_p, _i),
    "cublasSgemm_v2": _SINGLE,
    "cublasDgemm_v2": _SINGLE,
    "cublasSgemmStridedBatched": _STRIDED,
    "cublasDgemmStridedBatched": _STRIDED,
}


class BlasError(RuntimeError):
    """A call of cuBLAS failed."""


def load() -> Any:
    """The library, its functions with their types; of the version that CuPy is for.  Raises ImportError."""
    # CuPy finds it wherever it is installed, and has loaded it then: as an attribute, importing it finds less.
    libs = importlib.import_module("cupy_backends.cuda.libs")
    runtime = importlib.import_module("cupy").cuda.runtime
    name = f"libcublas.so.{int(runtime.runtimeGetVersion()) // 1000}"
    try:
        libs.cublas  # noqa: B018
        lib = ctypes.CDLL(name)
        for function, types in SIGNATURES.items():
            getattr(lib, function).argtypes = types
    except (OSError, AttributeError) as e:
        raise ImportError(f"{name}: {e}") from None
    return lib


class _Handle:
    """cuBLAS's state of one device: full precision unless FUTAD_TF32=1 asks for tensor cores in f32."""

    def __init__(self) -> None:
        self.lib = load()
        self.lock = threading.Lock()  # a stream is set, then used
        made = ctypes.c_void_p()
        self.call("cublasCreate_v2", ctypes.byref(made))
        self.handle = made.value
        mode = _TF32_MATH if os.environ.get("FUTAD_TF32") == "1" else _DEFAULT_MATH
        self.call("cublasSetMathMode", self.handle, mode)

    def call(self, function: str, *args: Any) -> None:
        status = getattr(self.lib, function)(*args)
        if status:
            raise BlasError(f"{function}: {_STATUS.get(status, f'status {status}')}")


_handles: dict[tuple[int, int], _Handle] = {}
_making = threading.Lock()


def _handle(device: int) -> _Handle:
    with _making:
        key = os.getpid(), device
        if key not in _handles:
            _handles[key] = _Handle()
        return _handles[key]


class Blas:
    """The products of one program: on the stream they are given, with the program's workspace.

    Not to be made while a stream is being captured.  Raises ImportError without cuBLAS, BlasError if it fails.
    """

    def __init__(self, device: int, workspace: int) -> None:
        """`workspace`: the address of WORKSPACE bytes on the device."""
        self.of = _handle(device)
        self.workspace = workspace
        self.numbers = {t: (np.zeros((), t), np.ones((), t)) for t in (np.float32, np.float64)}

    def product(self, p: Product, stream: int) -> bool:
        """Compute a product; False if cuBLAS has none for it."""
        plan = blas_plan(p)
        if plan is None:
            return False
        zero, one = self.numbers[p.dtype.type]
        alpha, beta = one.ctypes.data, (one if p.accumulate else zero).ctypes.data
        letter = "D" if p.dtype == np.float64 else "S"
        (ta, a, lda, sa), (tb, b, ldb, sb), (c, ldc, sc), sizes = plan
        of = self.of
        with of.lock:
            of.call("cublasSetStream_v2", of.handle, stream)
            of.call("cublasSetWorkspace_v2", of.handle, self.workspace, WORKSPACE)  # setting a stream forgets it
            if p.batches == 1:
                args = (ta, tb, *sizes, alpha, a, lda, b, ldb, beta, c, ldc)
                of.call(f"cublas{letter}gemm_v2", of.handle, *args)
            else:
                strided = (ta, tb, *sizes, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, p.batches)
                of.call(f"cublas{letter}gemmStridedBatched", of.handle, *strided)
        return True


_Operand = tuple[int, int, int, int]


def blas_plan(p: Product) -> tuple[_Operand, _Operand, tuple[int, int, int], tuple[int, int, int]] | None:
    """The arguments of a column-major BLAS for a product; None if some matrix has no unit stride.

    A row-major c is the column-major transpose of itself, so the BLAS is given c' = b' a'; then its operands are
    (whether transposed, address, leading dimension, step), c's (address, leading dimension, step), and (m, n, k).
    """
    m, n, a, b, c = p.m, p.n, p.a, p.b, p.c
    if c[2] != 1 and n > 1:  # column-major, or no unit stride: the transpose of everything is row-major
        m, n, a, b, c = n, m, _flip(b), _flip(a), _flip(c)
    if (c[2] != 1 and n > 1) or (m > 1 and c[1] < n) or max(m, n, p.k, *a[1:3], *b[1:3], c[1], p.batches) >= 1 << 31:
        return None
    left, right = _operand(b, p.k, n), _operand(a, m, p.k)
    if left is None or right is None:
        return None
    return left, right, (c[0], max(c[1], n, 1), c[3]), (n, m, p.k)


def _flip(x: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    return x[0], x[2], x[1], x[3]


def _operand(x: tuple[int, int, int, int], rows: int, columns: int) -> _Operand | None:
    """A matrix of `rows` by `columns` whose transpose is to be used, as (transposed, address, leading, step)."""
    address, row, column, step = x
    if (column == 1 or columns == 1) and (rows == 1 or row >= columns):
        return _NO_TRANSPOSE, address, max(row if rows > 1 else columns, columns, 1), step
    if (row == 1 or rows == 1) and (columns == 1 or column >= rows):
        return _TRANSPOSE, address, max(column if columns > 1 else rows, rows, 1), step
    return None


__all__ = ["WORKSPACE", "Blas", "BlasError", "blas_plan"]
