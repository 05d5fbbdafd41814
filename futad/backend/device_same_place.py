"""Updates of memory that all threads of a warp may make at the same place.

    map over points: for j < m: x_bar[j] += seed * t      (the adjoint of a vector that all points read)

One after the other updates of one place take as long as there are threads, so these are combined within each warp, and
one thread makes the update.  What is found here is where to try: whether the place is the same the kernel sees when it
gets there (`futad_update_together` of kernels/histogram.cuh), so that nothing hangs on it but time.

A place is tried if no variable of it is known to differ between threads: their numbers do, what is computed from them,
and what is in memory that a thread has for itself.
"""

from __future__ import annotations

from futad.fires import Transformation
from futad.flatten import kernel as kir
from futad.flatten.kernel import Kernel
from futad.imp import ir
from futad.imp.ir import Stmt
from futad.imp.walk import statements

FIRED = Transformation(
    "combined-updates",
    "updates of one place by the threads of a warp are combined before",
    worth="the gradient of llsq.fut on an H100 1.45 to 0.07 ms: `benchmarks/gpu.py --only llsq`",
)

_THREADS = {"futad_tid", "futad_thread"}


def same_place(k: Kernel) -> set[int]:
    """The `id` of each atomic update of the kernel that is to be tried."""
    body = list(statements(k.body))
    atomics = [s for s in body if isinstance(s, kir.Atomic)]
    if not atomics:
        return set()
    differ = _differing(body)
    found = {id(s) for s in atomics if s.pointer not in differ and not differ & {*s.index.uses(), *s.index.reads()}}
    if found:
        FIRED.fired()
    return found


def _differing(body: list[Stmt]) -> set[str]:
    """The variables and pointers that differ between the threads of a warp, as far as is known."""
    differ, size = set(_THREADS), 0
    while size != len(differ):
        size = len(differ)
        for s in body:
            if _own(s) or differ & {*s.uses(), *s.reads()}:
                differ |= {*s.defines(), *s.assigns()}
    return differ


def _own(s: Stmt) -> bool:
    """Whether each thread has for itself what the statement declares."""
    match s:
        case kir.Stride(start=str() as start):
            return start in _THREADS
        case ir.Decl() | ir.For() | kir.Stride() | ir.Pointer(base=str()):
            return False
    return True


__all__ = ["same_place"]
