"""Inputs that are long: numbers of many digits, many values, and the memory they take while they are read."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import futad
from futad.core.literals import integer
from futad.core.types import PRIMS
from futad.errors import FileError, InputError, ParseError
from futad.runtime.inputs import read_data_file
from futad.runtime.textvalues import Reader, binary_bytes

LONG = 5000  # digits: Python reads and prints 4300


def test_integers() -> None:
    most = int(sys.float_info.max)
    for text, number in [
        ("0", 0), ("-0", 0), ("+12", 12), ("0" * LONG + "12", 12), ("-" + "0" * LONG, 0), (str(-most), -most),
        ("0x" + "0" * LONG + "fF", 255), ("-0b101", -5), ("0X10", 16), ("0B1", 1), (str(most + 1), None),
        ("9" * LONG, None), ("-" + "9" * LONG, None), ("0x" + "f" * LONG, None), ("0b" + "1" * LONG, None),
    ]:  # fmt: skip
        assert integer(text) == number, text[:20]
    for text in ("", "-", "12q", "0x", "q" * LONG):
        with pytest.raises(ValueError):
            integer(text)


@pytest.mark.parametrize("text", ["9" * LONG, "-" + "9" * LONG, "0x" + "f" * LONG, "[1, 2" + "0" * LONG + "]"])
@pytest.mark.parametrize("suffix", ["", "i64", "f64"])
def test_values_of_many_digits(text: str, suffix: str) -> None:
    if suffix == "f64":  # a float, which is infinite there
        if text.startswith("0x"):
            return
        text = text.replace("]", "f64]") if text[0] == "[" else text + suffix
        with np.errstate(over="ignore"):
            assert np.isinf(np.max(np.abs(Reader(text.encode(), "x").all()[0].at_type(PRIMS["f64"]))))
        return
    text = text.replace("]", suffix + "]") if text[0] == "[" else text + suffix
    with pytest.raises(InputError, match=r"x:1:\d+: error: a number of \d+ digits does not fit any type"):
        Reader(text.encode(), "x").all()
    with pytest.raises(InputError, match="a size is too large"):
        Reader(f"empty([0][{'9' * LONG}]i32)".encode(), "x").all()


@pytest.mark.parametrize("literal", ["9" * LONG, "9" * LONG + "i64", "0x" + "f" * LONG, "0b" + "1" * LONG + "u8"])
def test_literals_of_many_digits(literal: str) -> None:
    with pytest.raises(ParseError, match=r"a number of \d+ digits does not fit in any type \[E0103\]"):
        futad.compile(f"entry main (x: f64): f64 = x + {literal}")


def test_zeros_before_a_number_do_not_count() -> None:
    prog = futad.compile(f"entry main (x: i64): i64 = x + {'0' * LONG}7", backend="interp")
    assert prog.main(1) == 8
    assert Reader(b"0" * LONG + b"7i8", "x").all()[0].data == 7


@pytest.mark.parametrize("between", [b"\n", b" ", "\u00e4 ".encode(), b"-- \xc3\xa4\n"])
def test_reading_is_linear(between: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted by the bytes in which the reader looks for lines and columns."""
    if b"--" not in between and between.strip():
        between = b"--" + between + b"\n"
    looked = 0

    class Bytes(bytes):
        def rfind(self, what, start=0, end=None):
            nonlocal looked
            looked += (len(self) if end is None else end) - start
            return bytes.rfind(self, what, start, end)

        def count(self, what, start=0, end=None):
            nonlocal looked
            looked += (len(self) if end is None else end) - start
            return bytes.count(self, what, start, end)

        def __getitem__(self, at):
            nonlocal looked
            made = bytes.__getitem__(self, at)
            looked += len(made) if isinstance(at, slice) else 1
            return made

    data = Bytes(between.join(b"%d" % i for i in range(2000)))
    values = Reader(data, "x").all()
    assert [v.data for v in values] == list(range(2000))
    assert looked < 8 * len(data)


def test_places_whatever_the_order() -> None:
    data = "1 \u00e4 2\n\n  [3,\n 4] \u00e4\u00e4 5\n6".encode()
    reader = Reader(data, "x", line=7, col=3)
    at = {c: data.index(c) for c in (b"1", b"2", b"[", b"4", b"5", b"6")}
    want = {b"1": "7:3", b"2": "7:7", b"[": "9:3", b"4": "10:2", b"5": "10:8", b"6": "11:1"}
    for order in (list(at), list(at)[::-1], [b"5", b"1", b"6", b"6", b"2", b"4", b"["]):
        assert [str(reader.place(at[c])) for c in order] == [f"x:{want[c]}" for c in order]


def peak(data: bytes) -> tuple[float, float]:
    """Bytes that the value read from data takes, and that reading it took."""
    tracemalloc.start()
    values = Reader(data, "x").all()
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(values) == 1
    return kept, most


@pytest.mark.slow
def test_memory_of_reading() -> None:
    n = 100_000
    kept, most = peak(binary_bytes(np.arange(n, dtype=np.float64)))
    assert most < 9 * n, "a binary array is copied once"
    for text in (", ".join(f"{i}.5" for i in range(n)), ", ".join(map(str, range(n)))):
        kept, most = peak(f"[{text}]".encode())
        assert kept < 9 * n and most < 80 * n


def test_plain_integers_that_do_not_fit() -> None:
    """They are kept as 64 bits; a narrower type refuses them, and does not wrap them around."""
    (value,) = Reader(b"[[1, 2], [3, 300]]", "x").all()
    assert value.at_type(PRIMS["i16"]).tolist() == value.plain() == [[1, 2], [3, 300]]
    with pytest.raises(InputError, match="an integer here does not fit u8"):
        value.at_type(PRIMS["u8"])
    (value,) = Reader(b"[1, -1]", "x").all()
    with pytest.raises(InputError, match="does not fit u64"):
        value.at_type(PRIMS["u64"])
    (value,) = Reader(b"[1, 18446744073709551615]", "x").all()
    assert value.at_type(PRIMS["u64"])[1] == 2**64 - 1
    with pytest.raises(InputError, match="does not fit i64"):
        value.at_type(PRIMS["i64"])
    with pytest.raises(InputError, match="not exact in f64"):
        value.at_type(PRIMS["f64"])


def test_packed_files(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"[1, 2]"))
    assert read_data_file(path) == b"[1, 2]"
    path.write_bytes(gzip.compress(b"[1, 2]")[:-4])
    with pytest.raises(FileError, match="is not a whole gzip file"):
        read_data_file(path)
    path.write_bytes(b"[1, 2]")
    with pytest.raises(FileError, match="is not a whole gzip file"):
        read_data_file(path)
    with pytest.raises(FileNotFoundError):
        read_data_file(tmp_path / "none.gz")
