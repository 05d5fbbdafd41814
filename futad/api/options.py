"""The options by which callers say what reverse mode may keep, as keywords of functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from futad.core.budget import Options
from futad.errors import Error, outside

F = TypeVar("F", bound=Callable[..., Any])

TEXT = """
    method: how derivatives are taken: "transform" (the default: by transforming the program) or "dual" (by running it,
    on the interpreter, with dual numbers: docs/dual.md).  Two other words of it belong to what follows.

    memory, checkpoints, reruns, method, reversible: what reverse mode may keep of {what} between its two sweeps
    (docs/memory.md); by default all that the return sweep reads.

    `memory`: bytes that loops keep, a number or a text such as "64MB" (`kB MB GB TB`: powers of 1000, `KiB MiB GiB
    TiB`: of 1024).  `checkpoints`: states that a loop keeps beside its first one; "log": as many as times that an
    iteration is run again.  `reruns`: how often an iteration may be run.  One of the three; each makes the gradient
    take more time in less memory, and is the same gradient.  `method`: "binomial" (the fewest runs) or "bisection".
    `reversible`: whether iterations may be undone in place of being kept: True (with a check that what comes back is
    within 1e-8 of what was, 1e-3 for f32), a tolerance, "exact" (the bits that are lost are kept), or False.
    Raises UsageError for an option that is wrong, or two that limit the same thing.
    """


def takes_budget(what: str) -> Callable[[F], F]:
    """Of a function that takes `Options` as keywords: its signature and its documentation name them."""

    def decorate(f: F) -> F:
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=t.__forward_arg__)
            for name, t in inspect.get_annotations(Options).items()
        ]
        plain = inspect.signature(f)
        own = [p for p in plain.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        signature = plain.replace(parameters=[*own, *keywords])

        @functools.wraps(f)
        def checked(*args: Any, **kwargs: Any) -> Any:
            unknown = next((name for name in kwargs if name not in signature.parameters), None)
            if unknown is not None:
                raise TypeError(f"{f.__name__}() got an unexpected keyword argument '{unknown}'")
            try:
                return f(*args, **kwargs)
            except Error as e:
                raise outside(e) from e.__cause__

        checked.__dict__["__signature__"] = signature
        checked.__doc__ = f"{inspect.cleandoc(f.__doc__ or '')}\n\n{inspect.cleandoc(TEXT.format(what=what))}\n"
        return cast(F, checked)

    return decorate


__all__ = ["takes_budget"]
