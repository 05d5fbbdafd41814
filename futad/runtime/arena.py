"""The memory a program's calls use: one block of the device, planned by what earlier calls needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from futad.errors import EXCEEDS, OutOfMemory
from futad.runtime.device import Device

_ALIGN = 256
_ADDRESS_SPACE = 1 << 46


class Arena:
    """Slots of memory that grow and persist, so that a call like one before allocates nothing.

    What a call needs shows only as it runs, so a slot that grows gets memory of its own at first; `consolidate`,
    between calls, moves all slots into one block.  Contents do not survive a call.  `version` changes whenever a slot
    does.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.slots: dict[Any, tuple[int, int]] = {}
        self.block: int | None = None
        self.own: dict[Any, int] = {}  # slots that have memory of their own
        self.version = 0
        self.allocations = 0

    @property
    def nbytes(self) -> int:
        """Bytes in slots."""
        return sum(n for _, n in self.slots.values())

    def ensure(self, slot: Any, nbytes: int, label: str, before: Callable[[], None]) -> int:
        """The slot's address, its memory at least `nbytes`; `before` is called if that must be allocated.

        Raises OutOfMemory that names the array `label`.
        """
        found = self.slots.get(slot)
        if found is not None and nbytes <= found[1]:
            return found[0]
        if nbytes > _ADDRESS_SPACE:
            raise OutOfMemory(EXCEEDS)
        before()
        want = nbytes
        if found is not None:
            want += nbytes // 4  # sizes that grow step by step are not to mean an allocation each
            del self.slots[slot]  # first, as an interrupt may come between: then the memory is lost, and not used again
            if slot in self.own:
                self.device.free(self.own.pop(slot))
        want = _rounded(want)
        self.version += 1
        try:
            address = self._alloc(want)
        except OutOfMemory:
            try:
                address = self._alloc(want := _rounded(nbytes))
            except OutOfMemory:
                raise self._short(nbytes, label) from None
        self.own[slot] = address
        self.slots[slot] = address, want
        return address

    def consolidate(self) -> None:
        """Move all slots into one block, if some have memory of their own."""
        if not self.own or (len(self.own) == 1 and self.block is None):
            return
        sizes = {slot: n for slot, (_, n) in self.slots.items()}
        self.release()
        try:
            self.block = at = self._alloc(sum(sizes.values()))
        except OutOfMemory:
            return  # in pieces it may fit
        for slot, n in sizes.items():
            self.slots[slot] = at, n
            at += n

    def release(self) -> None:
        """Give all memory back."""
        addresses = [*self.own.values(), *([self.block] if self.block is not None else [])]
        self.version += 1
        self.slots, self.own, self.block = {}, {}, None  # before any is freed: see `ensure`
        for address in addresses:
            self.device.free(address)

    def _alloc(self, nbytes: int) -> int:
        self.allocations += 1
        return self.device.alloc(nbytes)

    def _short(self, nbytes: int, label: str) -> OutOfMemory:
        free = self.device.free_bytes()
        rest = "" if free is None else f"; {bytes_text(free)} are free"
        what = f"the array '{label}'" if label else "an array"
        return OutOfMemory(
            f"out of device memory: {bytes_text(nbytes)} are needed for {what}, beside {bytes_text(self.nbytes)} that "
            f"the program holds{rest}"
        )


def _rounded(nbytes: int) -> int:
    return max(_ALIGN, -(-nbytes // _ALIGN) * _ALIGN)


def bytes_text(n: int) -> str:
    """A number of bytes as messages show it."""
    for unit, size in (("EB", 10**18), ("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= 0.9995 * size:  # what rounds to 1000 of a unit is 1 of the next
            return f"{n / size:.3g} {unit}"
    return f"{n} bytes"
