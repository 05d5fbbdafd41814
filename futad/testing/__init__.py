"""Tools that test what the compiler makes: test blocks of programs, derivatives, random programs.

`derivatives` checks derivatives at a point (`check_grads`, `compare_jacobians`); `blocks`, `inputs`, `script` and
`compare` read and judge test blocks; `programs` and `skeletons` make random programs.  The names of `derivatives` are
imported on first use, since `futad test` needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from futad.testing import derivatives

    return getattr(derivatives, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
