"""From values in Futhark's formats to the arguments of an entry, and back to text or bytes."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from futad.core.showvalue import write_text
from futad.errors import FileError, InputError, file_error
from futad.runtime.structure import count_text
from futad.runtime.textvalues import Reader, Value, binary_bytes
from futad.runtime.values import Signature, leaf_text


def fit_values(signature: Signature, values: Sequence[Value], end: InputError) -> list[Any]:
    """The core arguments from values in order, one per flat component of the parameters.

    `end` is the error to raise, its message replaced, where values are missing.  Raises InputError with the
    place of the value that does not fit, ShapeError where sizes disagree.
    """
    leaves = signature.params
    if len(values) > len(leaves):
        extra = values[len(leaves)]
        raise InputError(
            f"{signature.name} takes {count_text(len(leaves), 'value')}, but there are {len(values)}",
            extra.place,
            hint=signature.text(),
        )
    if len(values) < len(leaves):
        raise InputError(
            f"{signature.name} takes {count_text(len(leaves), 'value')}, found {len(values)}; "
            f"the next is '{leaves[len(values)].path}' of type {leaf_text(leaves[len(values)])}",
            end.span,
            hint=signature.text(),
        )
    flat: list[Any] = []
    for leaf, value in zip(leaves, values, strict=True):
        what = f"argument '{leaf.path}'"
        if len(value.shape) != len(leaf.dims):
            raise InputError(f"{what}: expected {leaf_text(leaf)}, got {value.text()}", value.place)
        try:
            array = value.at_type(leaf.elem)
        except InputError as e:
            raise InputError(f"{what}: {e.message}", e.span) from None
        flat.append(np.ascontiguousarray(array) if leaf.dims else array[()])
    return signature.bind(flat)


def read_arguments(signature: Signature, data: bytes, name: str, *, wraps: bool = False) -> list[Any]:
    """The core arguments from the bytes of an input called `name`; `wraps`: see `Reader`."""
    reader = Reader(data, name, wraps=wraps)
    values = reader.all()
    try:
        return fit_values(signature, values, reader.error("the input ends here"))
    except InputError as e:
        if e.span is not None and e.source_line is None:
            e.source_line = reader.line(e.span.line)
        raise


def read_stdin() -> bytes:
    """All of standard input.  Raises FileError."""
    try:
        return sys.stdin.buffer.read()
    except OSError as e:
        raise FileError(f"<stdin>: {e.strerror or e}") from None


def read_data_file(path: Path) -> bytes:
    """The bytes of a data file, unpacked if its name ends in `.gz`.  Raises FileError."""
    packed = path.suffix == ".gz"
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            return file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as e:
        raise FileError(f"{path} is not a whole gzip file: {e}") from None
    except (OSError, ValueError) as e:
        raise file_error("read", path, e) from None


def write_results(results: Sequence[Any], out: BinaryIO, binary: bool) -> None:
    """Each result: a line of text, or its binary form."""
    for r in results:
        if binary:
            out.write(binary_bytes(r))
        else:
            text = io.StringIO()
            write_text(r, text)
            out.write(text.getvalue().encode() + b"\n")
