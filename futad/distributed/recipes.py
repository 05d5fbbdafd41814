"""Data that workers read themselves: a recipe knows shape and dtype, and reads a range of a dimension.

A recipe is pickled to workers, the data are not: memory maps by the name of their file, arrays of Zarr and Dask by
themselves, HDF5 data sets by file and name, Parquet columns by path and names, anything else by a function of a range.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.errors import FileNotFound, InputError, ShapeError, UsageError

Array = np.ndarray[Any, Any]


def _range(dim: int, start: int, stop: int) -> tuple[slice, ...]:
    return (*[slice(None)] * dim, slice(start, stop))


@dataclass(frozen=True)
class Recipe:
    """An array of which ranges are read.  `shape`, `dtype`: of the whole."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, dim: int, start: int, stop: int) -> Array:
        """The elements from `start` to `stop` along a dimension."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=float)) * self.dtype.itemsize


@dataclass(frozen=True)
class InMemory(Recipe):
    """An array of this process; only its parts go to workers in other ones."""

    array: Array

    def read(self, dim: int, start: int, stop: int) -> Array:
        made: Array = self.array[_range(dim, start, stop)]
        return made


@dataclass(frozen=True)
class Mapped(Recipe):
    """A file of an array's elements from byte `offset` on.  Only the range that is read is mapped."""

    path: str
    offset: int
    order: str

    def read(self, dim: int, start: int, stop: int) -> Array:
        outer = 0 if self.order == "C" else len(self.shape) - 1
        if self.nbytes == 0 or start == stop:
            return np.zeros((*self.shape[:dim], stop - start, *self.shape[dim + 1 :]), self.dtype)
        first, last = (start, stop) if dim == outer else (0, self.shape[outer])
        step = self.nbytes // self.shape[outer]
        shape = tuple([last - first if i == outer else s for i, s in enumerate(self.shape)])
        order: Any = self.order
        try:
            made = np.memmap(self.path, self.dtype, "r", self.offset + first * step, shape, order)
        except FileNotFoundError:
            hint = "workers read memory maps themselves: put the file where all of them see it"
            raise FileNotFound(f"there is no file {self.path} on {os.uname().nodename}", hint=hint) from None
        except (OSError, ValueError) as e:  # it has become shorter, say
            raise InputError(f"{self.path} cannot be read: {e}") from None
        return made if dim == outer else made[_range(dim, start, stop)]


@dataclass(frozen=True)
class Sliced(Recipe):
    """An array of another library that pickles and has ranges: Zarr's, or Dask's (`compute`)."""

    array: Any

    def read(self, dim: int, start: int, stop: int) -> Array:
        part = self.array[_range(dim, start, stop)]
        return np.asarray(part.compute(scheduler="synchronous") if hasattr(part, "compute") else part)


@dataclass(frozen=True)
class HDF5(Recipe):
    """A data set of an HDF5 file."""

    path: str
    name: str

    def read(self, dim: int, start: int, stop: int) -> Array:
        import h5py

        try:
            with h5py.File(self.path, "r") as f:
                return np.asarray(f[self.name][_range(dim, start, stop)])
        except FileNotFoundError:
            raise FileNotFound(f"there is no file {self.path} on {os.uname().nodename}") from None
        except OSError as e:
            hint = "who calls must have it open for reading alone: h5py.File(file, 'r')"
            raise InputError(f"{self.path} cannot be read: {e}", hint=hint) from None


@dataclass(frozen=True)
class Parquet(Recipe):
    """Columns of a Parquet file, the second dimension if there are several.  Only row groups in range are read."""

    path: str
    columns: tuple[str, ...]

    def read(self, dim: int, start: int, stop: int) -> Array:
        import pyarrow.parquet as pq

        if dim:
            raise UsageError("a Parquet file is split by rows, and these are dimension 0")
        parts: list[Array] = []
        if not os.path.exists(self.path):
            raise FileNotFound(f"there is no file {self.path} on {os.uname().nodename}")
        with pq.ParquetFile(self.path) as f:
            at = 0
            for g in range(f.num_row_groups):
                rows = f.metadata.row_group(g).num_rows
                if at < stop and start < at + rows:
                    table = f.read_row_group(g, columns=list(self.columns))
                    cut = table.slice(max(0, start - at), min(stop, at + rows) - max(start, at))
                    parts.append(np.stack([self.column(cut, c) for c in self.columns], axis=-1).astype(self.dtype))
                at += rows
        made = np.concatenate(parts) if parts else np.zeros((0, len(self.columns)), self.dtype)
        return made if len(self.shape) == 2 else made[:, 0]

    def column(self, table: Any, name: str) -> Array:
        """A column; what is missing in it is NaN, which integers do not have."""
        there: Any = table[name]
        if there.null_count and self.dtype.kind != "f":
            hint = f"{self.dtype} has no value for these: fill them, or write the column as floats (NaN)"
            raise InputError(f"{self.path}: column '{name}' has rows without a value", hint=hint)
        made: Array = there.to_numpy()
        return made


@dataclass(frozen=True)
class Rows(Recipe):
    """What a function of a range along dimension 0 returns."""

    function: Callable[[int, int], Any]

    def read(self, dim: int, start: int, stop: int) -> Array:
        if dim:
            raise UsageError("a function of a range gives rows, dimension 0")
        made = np.asarray(self.function(start, stop))
        want = (stop - start, *self.shape[1:])
        if made.shape != want:
            raise ShapeError(f"the function of the rows {start} to {stop} gave shape {made.shape} in place of {want}")
        return made


@dataclass(frozen=True)
class Unread:
    """`count` rows that a function of a range gives: of which dtype and shape is asked in the call that reads them, as
    a rank of MPI that fails before a call fails without the others."""

    function: Callable[[int, int], Any]
    count: int

    def recipe(self) -> Recipe:
        made = np.asarray(self.function(0, 0))
        if made.ndim == 0 or made.shape[0] != 0:
            raise ShapeError(f"the function of no rows gave shape {made.shape}; its dimension 0 must be 0")
        return Rows((self.count, *made.shape[1:]), made.dtype, self.function)


def rows(function: Callable[[int, int], Any], count: int) -> Unread:
    """`count` rows that `function(start, stop)` makes or reads, an array whose dimension 0 is `stop - start`.

    In a call it is first called with an empty range, to learn dtype and shape.  It is pickled to workers: a function of
    a module, or with Dask any.
    """
    if not callable(function):
        raise UsageError(f"rows takes a function of (start, stop), not {type(function).__name__}")
    try:
        size = operator.index(count)
    except TypeError:
        size = -1
    if size < 0:
        raise UsageError(f"the number of rows must be an int from 0 on, not {count!r}")
    return Unread(function, size)


def parquet(path: str | os.PathLike[str], columns: str | Sequence[str]) -> Recipe:
    """Columns of a Parquet file: of one name [n], of a list of k names [n][k] (of the dtype that holds all).

    Rows without a value are NaN in columns of floats, and an InputError in others.
    """
    import pyarrow.parquet as pq
    from pyarrow import ArrowInvalid

    names = (columns,) if isinstance(columns, str) else tuple(columns)
    where = os.path.abspath(os.fspath(path))
    try:
        with pq.ParquetFile(where) as f:
            schema, count = f.schema_arrow, f.metadata.num_rows
    except FileNotFoundError:
        raise FileNotFound(f"there is no file {where}") from None
    except (ArrowInvalid, OSError) as e:
        raise InputError(f"{where} is no Parquet file: {e}") from None
    missing = [c for c in names if c not in schema.names]
    if missing or not names:
        wrong = f"no column '{missing[0]}'" if missing else "no columns are named of it"
        raise UsageError(f"{where} has {wrong}" if missing else wrong, hint=f"it has {', '.join(schema.names)}")
    dtype = np.result_type(*[schema.field(c).type.to_pandas_dtype() for c in names])
    shape = (count,) if isinstance(columns, str) else (count, len(names))
    return Parquet(shape, dtype, where, names)


def recipe_of(value: Any, path: str) -> Recipe | Array:
    """How workers get an argument of which each has a part; an array for what can only be given as one."""
    if isinstance(value, Recipe | Unread):
        return value if isinstance(value, Recipe) else value.recipe()
    if isinstance(value, np.memmap) and (order := _of_file(value)):
        if value.mode != "r":
            value.flush()
        return Mapped(value.shape, value.dtype, os.path.abspath(value.filename or ""), value.offset, order)
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, str | os.PathLike):
        hint = "np.load(file, mmap_mode='r'), zarr.open_array(file), futad.distributed.parquet(file, columns), ..."
        raise UsageError(f"argument '{path}': the name of a file does not say how it is read", hint=hint)
    module = type(value).__module__.partition(".")[0]
    if module == "h5py":
        if not value or not hasattr(value, "shape"):
            what = "its file is closed" if not value else f"a {type(value).__name__} of h5py"
            raise UsageError(f"argument '{path}' is no data set that can be read: {what}")
        return HDF5(tuple(value.shape), np.dtype(value.dtype), os.path.abspath(value.file.filename), value.name)
    if module in ("zarr", "dask") and hasattr(value, "shape"):
        if any(s != s for s in value.shape):
            raise UsageError(f"argument '{path}': the Dask array's sizes are not known", hint="compute_chunk_sizes()")
        return Sliced(tuple(value.shape), np.dtype(value.dtype), value)
    return np.asarray(value)


def _of_file(value: np.memmap[Any, Any]) -> str:
    """The order of a memory map whose values are those of its file, from its offset on; "" of views, which keep the
    offset of what they are views of, and of copies on write, which may have values that the file has not."""
    named = isinstance(value.filename, str | os.PathLike) and value.base is not None
    if not named or isinstance(value.base, np.memmap) or value.mode == "c":
        return ""
    return "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else ""


__all__ = ["InMemory", "Mapped", "Recipe", "Unread", "parquet", "recipe_of", "rows"]
