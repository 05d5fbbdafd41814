"""What prints left out, for targets that cannot print."""

from __future__ import annotations

from futad.core.ir import Lambda, Trace, map_scopes


def without_traces(lam: Lambda) -> Lambda:
    """The scope, and those in it, without `Trace`; the same object if there is none."""
    stms = tuple([map_scopes(s, without_traces) for s in lam.stms if type(s.exp) is not Trace])
    same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, stms, lam.result)


__all__ = ["without_traces"]
