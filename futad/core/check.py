"""The checker of the core IR, run after every pass in test runs (`checks.checked`).

It checks scoping, unique binding, the types of operands, scopes and patterns, linearity of accumulators, and
that no array is used after it was certainly consumed.  Sizes are equal if they are the same atom after
following aliases, folding constants and numbering equal i64 operations; a pattern may bind sizes that its
later types mention.  Linear in the size of the program.
"""

from __future__ import annotations

from futad.core import (
    check_grid,  # noqa: F401  (it registers its rules, as does the next one)
    check_rules,  # noqa: F401
    ir,
)
from futad.core.checker import Checker


def check_program(p: ir.Program, pass_name: str | None = None, before: Checker | None = None) -> Checker:
    """Raises InternalError naming the pass, the function and the statement if `p` is not well-formed.  Functions that
    `before` has seen, which this gave for another program, are not looked at again."""
    checker = Checker(p, pass_name)
    for f in p.funs.values():
        if before is None or not checker.known(f, before):
            checker.fun(f)
    return checker
