"""The records that a run has kept (`ir.Keep`) and not read yet.

A record's handle is its number, 0 is none.  What an attempt that is repeated has kept and read is taken back (Note
[Batched evaluation] in `interp_machine.py`).
"""

from __future__ import annotations

import numpy as np

from futad.errors import InternalError


class Records:
    """The records there are; what has been kept and read since, for attempts that are repeated."""

    def __init__(self) -> None:
        self.made = self.were_read = 0
        self._values: dict[int, list[np.ndarray]] = {}
        self._log: list[tuple[int, list[np.ndarray] | None]] = []  # handle; what it had, if it was read

    def clear(self) -> None:
        self.made = self.were_read = 0
        self._values.clear()
        self._log.clear()

    @property
    def left(self) -> int:
        """How many have not been read."""
        return len(self._values)

    def keep(self, values: list[np.ndarray]) -> int:
        self.made += 1
        self._values[self.made] = values
        self._log.append((self.made, None))
        return self.made

    def read(self, handle: int) -> list[np.ndarray]:
        found = self._values.pop(handle, None)
        if found is None:
            raise InternalError(f"record {handle} is read twice, or was never kept")
        self._log.append((handle, found))
        self.were_read += 1
        return found

    def mark(self) -> int:
        return len(self._log)

    def back(self, mark: int) -> None:
        """As it was at that mark."""
        while len(self._log) > mark:
            handle, values = self._log.pop()
            if values is None:
                self._values.pop(handle, None)
            else:
                self._values[handle] = values
                self.were_read -= 1


__all__ = ["Records"]
