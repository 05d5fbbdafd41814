"""Numbers print in one way: by NumPy (`core/showvalue.py`) and by compiled programs (`kernels/values_text.h`)."""

from __future__ import annotations

import ctypes
import io
from pathlib import Path
from typing import Any

import numpy as np

from futad.core.showvalue import write_text
from futad.runtime import cc
from futad.runtime.textvalues import Reader
from tests.support.needs import needs_cc

SOURCE = """#include "prelude.h"
#include "values_text.h"
void show(const char *path, int prim, int64_t n, const void *data) {
  FILE *out = fopen(path, "w");
  futad_write_value(out, prim, 1, &n, data);
  fclose(out);
}
"""
PRIMS = {"f2": 8, "f4": 9, "f8": 10}


def numbers(dtype: str) -> Any:
    """All of f16; of the others powers of two, subnormal numbers and random bits."""
    bits, word = 8 * int(dtype[1]), f"u{dtype[1]}"
    if bits == 16:
        return np.arange(65536, dtype=word).view(dtype)
    powers = [1 << i for i in range(bits)] + [i << (23 if bits == 32 else 52) for i in range(1, 255)]
    random = np.random.default_rng(3).integers(0, 2**bits, 3000, dtype=word)
    return np.concatenate([np.array(powers, word), random]).view(dtype)


@needs_cc
def test_programs_print_as_python_does(tmp_path: Path) -> None:
    library = cc.build_library(SOURCE)
    for dtype, prim in PRIMS.items():
        data, path = numbers(dtype), tmp_path / dtype
        library.show(ctypes.c_char_p(bytes(path)), prim, ctypes.c_int64(len(data)), ctypes.c_void_p(data.ctypes.data))
        text = io.StringIO()
        write_text(data, text)
        assert path.read_text().split(", ") == text.getvalue().split(", ")
        back = Reader(text.getvalue().encode(), "values").value().own_array()
        np.testing.assert_array_equal(back, data)
        assert back.dtype == dtype


def test_numbers_print_as_they_are_written() -> None:
    for value, text in ((np.float16(1000), "1000.0f16"), (np.float32(2**24), "16777216.0f32"),
                        (np.float16(2**-6), "0.01563f16"), (np.float64(1e16), "1e+16f64")):  # fmt: skip
        out = io.StringIO()
        write_text(value, out)
        assert out.getvalue() == text
