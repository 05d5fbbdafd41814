"""What a call of a device program did."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counts:
    """What one call did: kernels launched (in graphs too) and products left to the BLAS, graphs replayed and captured,
    scalars read by the host on the way, bytes uploaded, downloaded as results, and copied within the device."""

    launches: int = 0
    products: int = 0
    replayed: int = 0
    captured: int = 0
    reads: int = 0
    uploaded: int = 0
    downloaded: int = 0
    copied: int = 0
    path: list[int] = field(default_factory=list)  # the kernels launched, if `Runtime.trace` is set
