"""Functions with an inverse of the program's own are differentiated as they would be without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from futad.core import ir


def opened(stms: Iterable[ir.Stm]) -> Iterator[ir.Stm]:
    """The statements with a copy of the function's code in place of each `WithInverse`.

    Those in scopes inside stay: the iterations of a loop may be undone by them.
    """
    for s in stms:
        e = s.exp
        if not isinstance(e, ir.WithInverse):
            yield s
            continue
        copy = ir.Renamer(dict(zip(e.lam.params, e.args, strict=True)))
        yield from opened(copy.stms(e.lam.stms))
        for v, r in zip(s.pat, e.lam.result, strict=True):
            yield ir.Stm((v,), ir.Alias(copy.atom(r)))
