"""Jacobians and Hessians as sparse matrices of SciPy: `sparse_jacobian`, `sparse_hessian` (`matrix.py`).

Maps whose iterations read few elements have a block an iteration (`local.py`, `blocks.py`).  Of other entries the
pattern is found by probing the derivative (`pattern.py`), and columns or rows that share no place are computed along
one direction (`colours.py`), by products with many vectors at once (`products.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from futad.api.argnums import Argnums, has_floats, numbers
from futad.api.program import Function
from futad.errors import UsageError
from futad.runtime.values import entry_text

if TYPE_CHECKING:
    from futad.sparse.matrix import SparseMatrix


def sparse_jacobian(
    f: Function, argnums: Argnums = 0, pattern: Any = None, blocks: bool = True
) -> SparseMatrix:
    """The Jacobian of the entry f as a function of its arguments: a `scipy.sparse.csr_array`.

    Rows are the floating-point components of the result, columns those of the arguments that `argnums` names, in the
    order of the types, arrays by rows.  Its dtype is that of the result.

    `J(*args)` is the matrix, `J.pattern(*args)` the places that can hold something else than zero, `J.report` how it
    was computed.  Where f is maps whose iterations read a constant number of elements of these arguments, by indices
    that do not depend on them, the columns follow from the indices and the elements are computed a block an iteration.
    Else, or if `blocks` is false, the pattern is found by some more products than the matrix takes.  It is kept for
    arguments of the same shapes and integers, unless comparisons of floating-point numbers decide what f computes.
    `pattern`: one that holds all that is not zero, if that is known; what it lacks makes the matrix wrong.

    Raises UsageError if f has no floating-point number among its results or these arguments, and what f raises.
    """
    f, active = _checked(f, "sparse_jacobian", argnums)
    if not any(leaf.elem.is_float for leaf in f.signature.results):
        raise UsageError(f"sparse_jacobian: the result of {f.__name__} holds no floating-point numbers")
    return _matrix()(f, active, False, pattern, blocks)


def sparse_hessian(f: Function, argnums: Argnums = 0, pattern: Any = None) -> SparseMatrix:
    """The Hessian of the entry f, whose result is one number; see `sparse_jacobian`.

    Rows and columns are the floating-point components of the arguments that `argnums` names; the dtype is theirs.
    """
    f, active = _checked(f, "sparse_hessian", argnums)
    f.derivative("grad", active)  # raises if the result is not one number
    return _matrix()(f, active, True, pattern)


def _checked(f: Any, what: str, argnums: Argnums) -> tuple[Function, tuple[int, ...]]:
    if not isinstance(f, Function):
        raise UsageError(
            f"{what} takes an entry of a program, not {type(f).__name__}",
            hint="pass prog.name itself; choose the arguments to differentiate with argnums",
        )
    active = numbers(f.entry, argnums)
    for i in active:
        name, t = f.entry.params[i]
        if not has_floats(t):
            raise UsageError(f"{what}: argument '{name}' of {f.__name__} holds no floating-point numbers",
                             hint=entry_text(f.entry))  # fmt: skip
    return f, active


def _matrix() -> type[SparseMatrix]:
    """The class, for which SciPy is needed."""
    try:
        from futad.sparse.matrix import SparseMatrix
    except ImportError as e:
        raise ImportError("sparse matrices need SciPy: pip install 'futad[scipy]'") from e
    return SparseMatrix


__all__ = ["sparse_hessian", "sparse_jacobian"]
