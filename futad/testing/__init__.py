"""Tools that test what the compiler makes: derivatives of one's own programs, and random programs against the compiler.

`derivatives` checks derivatives at a point (`check_grads`, `compare_jacobians`); `programs` and `skeletons` make
random programs.
"""

from futad.testing.derivatives import (
    Finding,
    GradientError,
    Place,
    Probe,
    Report,
    check_grads,
    compare_jacobians,
)

__all__ = ["Finding", "GradientError", "Place", "Probe", "Report", "check_grads", "compare_jacobians"]
