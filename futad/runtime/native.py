"""The compiled code of an entry, for those who call it themselves: from C, Numba, Cython, another runtime."""

from __future__ import annotations

import threading
import weakref
from typing import Any, NamedTuple

import numpy as np

from futad.runtime.ffi import CLibrary, _Context
from futad.runtime.values import Signature


class NativeValue(NamedTuple):
    """An argument or a result of an entry's code: its name ("" for a size that a result brings along), dtype, rank."""

    name: str
    dtype: np.dtype[Any]
    rank: int


class NativeEntry:
    """The code of an entry, a C function at `address`:

        int64_t entry(void *context, void **arguments, int64_t *results)

    `arguments`: for each of `params`, sizes first, a pointer to a number or to an array's elements, dense, outer
    dimensions first; nothing is checked.  An array of a unique type may be overwritten.  `results`: `stride` words for
    each of `results`.  Of a number the first word holds it; of an array there are the address of its elements, a word
    that is the context's, and the shape.  The value is 0, or a code, of which `failure()` makes the exception.

    `context` is memory that the code works in, and in which results lie: one call at a time may use it, so `lock` is
    held from before a call until its results have been read.  Each `Function.native()` has a context of its own, and
    calls in different ones may run at once.  Code and context live as long as this object; they are not for a process
    forked later.  `key` is the same in every process for the same source, backend and machine ("" if the source is not
    known): for those who keep what they made of an entry.
    """

    def __init__(self, library: CLibrary, symbol: str, signature: Signature, key: str) -> None:
        self._library, self._context = library, _Context(library.lib)
        native = library.native(symbol)
        self.address, self.stride, self.context = native.call, native.stride, self._context.address
        self.lock, self.key = threading.Lock(), key
        code = library.layout.functions[symbol]
        leaves = iter(signature.results)
        names = [*signature.size_names, *[leaf.path for leaf in signature.params]]
        self.params = tuple([
            NativeValue(name, elem.dtype, rank) for name, (_, elem, rank) in zip(names, code.params, strict=True)
        ])  # fmt: skip
        self.results = tuple([
            NativeValue("" if i in signature.witnesses else next(leaves).path, elem.dtype, rank)
            for i, (elem, rank) in enumerate(code.results)
        ])  # fmt: skip
        weakref.finalize(self, self._context.close).atexit = False

    def failure(self) -> BaseException:
        """The exception of the last call in this context, which has failed, with its place; the lock is held."""
        return self._library.failure_in(self.context)

    def __repr__(self) -> str:
        return f"<native code of {len(self.params)} arguments and {len(self.results)} results at {self.address:#x}>"


__all__ = ["NativeEntry", "NativeValue"]
