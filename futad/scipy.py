"""Entries as what SciPy takes: objectives, residuals and linear operators, with exact derivatives.

    r = futad.scipy.minimize(prog.loss, (w, x, y), method="L-BFGS-B")
    r.x                                   # of the structure of w, a record say

The arguments that `argnums` names are the unknowns.  Their floating-point components are the elements of SciPy's
vector, in the order of the type; integers in them stay as they are.  The program's errors come through SciPy as they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from futad.api.argnums import Argnums, is_single, numbers
from futad.api.program import Function
from futad.errors import ShapeError, UsageError
from futad.runtime.structure import build_value, count_leaves, flatten_value

try:
    import scipy.optimize
    import scipy.sparse.linalg
except ImportError as e:
    raise ImportError("futad.scipy needs SciPy: pip install 'futad[scipy]'") from e

Vector = np.ndarray[Any, np.dtype[np.float64]]
_NO_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")  # which take products with the Hessian
_MATRICES = ("dogleg", "trust-exact")  # which take the Hessian itself
DENSE = 1 << 24  # elements of a Jacobian that is made as a matrix if nothing else is said


class Unknowns:
    """The arguments of an entry as a vector of f64 and back.

    `x0`: the vector of the arguments as given.  `ravel(tree)`, `unravel(vector)`: between them, for `argnums` a single
    number the argument, else a tuple.
    """

    def __init__(self, f: Function, args: Sequence[Any], argnums: Argnums = 0) -> None:
        if not isinstance(f, Function):
            raise UsageError(f"futad.scipy takes an entry of a program, not {type(f).__name__}",
                             hint="pass prog.name itself")  # fmt: skip
        if not isinstance(args, tuple | list):
            raise UsageError(f"args must be a tuple with the arguments of {f.__name__}, not {type(args).__name__}")
        self.f, self.active, self.single = f, numbers(f.entry, argnums), is_single(argnums)
        self._leaves = f.signature.flatten(args)[len(f.signature.size_names) :]
        counts = [count_leaves(t) for _, t in f.entry.params]
        self._of = [list(range(sum(counts[:i]), sum(counts[: i + 1]))) for i in range(len(counts))]
        self._own = [k for i, u in enumerate(f.entry.unique) if u for k in self._of[i]]
        every = [k for i in self.active for k in self._of[i]]
        self.floats = [k for k in every if f.signature.params[k].elem.is_float]
        self.kept = [k in self.floats for k in every]
        if not self.floats:
            names = ", ".join([f"'{f.entry.params[i][0]}'" for i in self.active])
            raise UsageError(f"no floating-point numbers are in {names} of {f.__name__}")
        self.shapes = [np.shape(self._leaves[k]) for k in self.floats]
        self.starts = np.cumsum([0, *[int(np.prod(s, dtype=int)) for s in self.shapes]])
        self.size = int(self.starts[-1])
        self.x0 = self.vector([self._leaves[k] for k in self.floats])

    def vector(self, leaves: Sequence[Any]) -> Vector:
        """The floating-point components as one vector."""
        return np.concatenate([np.asarray(x, np.float64).ravel() for x in leaves])

    def parts(self, x: Any) -> list[Any]:
        """The floating-point components of a vector, of their dtypes and shapes."""
        x = np.asarray(x)
        if x.size != self.size:
            raise ShapeError(f"the unknowns of {self.f.__name__} are {self.size} numbers, not {x.size}")
        x = x.reshape(-1)
        pieces = zip(self.floats, self.shapes, self.starts, self.starts[1:], strict=False)
        return [
            x[start:stop].reshape(shape).astype(self.f.signature.params[k].elem.dtype, copy=False)[()]
            for k, shape, start, stop in pieces
        ]

    def leaves(self, x: Any) -> list[Any]:
        """The components of all arguments of the entry; those that it may overwrite are copies."""
        out = list(self._leaves)
        for k, part in zip(self.floats, self.parts(x), strict=True):
            out[k] = _dense(part)
        for k in self._own:
            out[k] = np.copy(out[k])
        return out

    def filled(self, x: Any) -> list[Any]:
        """The components of a vector, and zeros for what of the unknowns is no floating-point number."""
        given = dict(zip(self.floats, self.parts(x), strict=True))
        every = [k for i in self.active for k in self._of[i]]
        return [_dense(given[k]) if k in given else np.zeros_like(self._leaves[k])[()] for k in every]

    def filled_rows(self, rows: Any) -> list[Any]:
        """As `filled` for the rows of a matrix at once."""
        each = [self.filled(row) for row in rows]
        return [np.array([leaves[j] for leaves in each]) for j in range(len(self.kept))]

    def only_floats(self, leaves: Sequence[Any]) -> list[Any]:
        """Of something for each component of the unknowns those of floating-point ones."""
        return [x for x, kept in zip(leaves, self.kept, strict=True) if kept]

    def unravel(self, x: Any) -> Any:
        """The arguments whose components a vector has."""
        given = dict(zip(self.floats, self.parts(x), strict=True))
        trees = [
            build_value(self.f.entry.params[i][1], iter([_own(given.get(k, self._leaves[k])) for k in self._of[i]]))
            for i in self.active
        ]
        return trees[0] if self.single else tuple(trees)

    def ravel(self, tree: Any, what: str = "x") -> Vector:
        """The vector of arguments.  Numbers stand for arrays full of them."""
        found: list[Any] = []
        for i, value in zip(self.active, (tree,) if self.single else tree, strict=True):
            name, t = self.f.entry.params[i]
            found += flatten_value(t, value, f"{what} for {name}", self.f.__name__)
        out = []
        for leaf, shape in zip(self.only_floats(found), self.shapes, strict=True):
            given = np.asarray(leaf, np.float64)
            if given.shape not in ((), shape):
                raise ShapeError(f"{what}: a part of shape {shape} is needed, got one of shape {given.shape}")
            out.append(np.broadcast_to(given, shape))
        return self.vector(out)


def _dense(x: Any) -> Any:
    return np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x


def _own(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


class Objective(Unknowns):
    """An entry with one number as result, as a function of a vector; see `objective`."""

    def __init__(self, f: Function, args: Sequence[Any], argnums: Argnums = 0) -> None:
        super().__init__(f, args, argnums)
        f.derivative("grad", self.active)  # raises if the result is not one number

    def value(self, x: Any) -> float:
        """The value alone."""
        return float(self.f.call_leaves(self.leaves(x))[0])

    def fun(self, x: Any) -> tuple[float, Vector]:
        """The value and the gradient, as `scipy.optimize.minimize` takes them with `jac=True`."""
        value, *gradient = self.f.derivative("value_and_grad", self.active).call_leaves(self.leaves(x))
        return float(value), self.vector(self.only_floats(gradient))

    def hessp(self, x: Any, p: Any) -> Vector:
        """The Hessian times a vector, no Hessian being made."""
        along = self.f.derivative("grad", self.active).derivative("jvp", self.active)
        made = along.call_leaves([*self.leaves(x), *self.filled(p)])
        return self.vector(self.only_floats(made[len(self.kept) :]))

    def hess(self, x: Any) -> np.ndarray[Any, Any]:
        """The Hessian."""
        along = self.f.derivative("grad", self.active).derivative("jmp", self.active)
        made = along.call_leaves([*self.leaves(x), *self.filled_rows(np.eye(self.size))])
        return _columns(self.only_floats(made[len(self.kept) :]), self.size)


class Residuals(Unknowns):
    """An entry as a function from a vector to a vector, of all floating-point components of its result."""

    def __init__(self, f: Function, args: Sequence[Any], argnums: Argnums = 0) -> None:
        super().__init__(f, args, argnums)
        self.results = [j for j, leaf in enumerate(f.signature.results) if leaf.elem.is_float]
        if not self.results:
            raise UsageError(f"the result of {f.__name__} holds no floating-point numbers")
        self._value = self.f.call_leaves(self.leaves(self.x0))
        self.rows = sum([np.size(self._value[j]) for j in self.results])

    def value(self, x: Any) -> Vector:
        """The vector of the result."""
        return self._result(self.f.call_leaves(self.leaves(x)))

    def _result(self, leaves: Sequence[Any]) -> Vector:
        return self.vector([leaves[j] for j in self.results])

    def _cotangents(self, u: Any) -> list[Any]:
        """The components of a cotangent, or of as many as a matrix has rows."""
        u = np.asarray(u, np.float64)
        out, start = [], 0
        for j, value in enumerate(self._value):
            value = np.asarray(value)
            if j not in self.results:
                out.append(np.zeros((*u.shape[:-1], *value.shape), value.dtype)[()])
                continue
            part = u[..., start : start + value.size].reshape((*u.shape[:-1], *value.shape))
            out.append(np.ascontiguousarray(part, value.dtype).reshape(part.shape)[()])
            start += value.size
        return out

    def push(self, x: Any, v: Any) -> Vector:
        """The Jacobian times a vector."""
        along = self.f.derivative("jvp", self.active)
        return self._result(along.call_leaves([*self.leaves(x), *self.filled(v)])[len(self._value) :])

    def pull(self, x: Any, u: Any) -> Vector:
        """The Jacobian's transpose times a vector."""
        back = self.f.derivative("vjp", self.active)
        made = back.call_leaves([*self.leaves(x), *self._cotangents(np.asarray(u).ravel())])
        return self.vector(self.only_floats(made))

    def push_many(self, x: Any, columns: Any) -> np.ndarray[Any, Any]:
        """The Jacobian times a matrix."""
        along = self.f.derivative("jmp", self.active)
        made = along.call_leaves([*self.leaves(x), *self.filled_rows(np.asarray(columns).T)])[len(self._value) :]
        return _columns([made[j] for j in self.results], np.shape(columns)[1]).T

    def pull_many(self, x: Any, columns: Any) -> np.ndarray[Any, Any]:
        """The Jacobian's transpose times a matrix."""
        back = self.f.derivative("mjp", self.active)
        made = back.call_leaves([*self.leaves(x), *self._cotangents(np.asarray(columns).T)])
        return _columns(self.only_floats(made), np.shape(columns)[1]).T

    def jac(self, x: Any) -> np.ndarray[Any, Any]:
        """The Jacobian, along the fewer of its rows and columns."""
        if self.size <= self.rows:
            return self.push_many(x, np.eye(self.size))
        return self.pull_many(x, np.eye(self.rows)).T

    def operator(self, x: Any) -> scipy.sparse.linalg.LinearOperator:
        """The Jacobian as what multiplies vectors and matrices."""
        x = np.array(x, np.float64)
        return scipy.sparse.linalg.LinearOperator(
            (self.rows, self.size),
            matvec=lambda v: self.push(x, v),
            rmatvec=lambda u: self.pull(x, u),
            matmat=lambda v: self.push_many(x, v),
            rmatmat=lambda u: self.pull_many(x, u),
            dtype=np.float64,
        )


def _columns(leaves: Sequence[Any], count: int) -> np.ndarray[Any, Any]:
    """Components that have one more dimension, of that size, in front, as the rows of a matrix."""
    return np.concatenate([np.asarray(x, np.float64).reshape(count, -1) for x in leaves], axis=1)


def objective(f: Function, args: Sequence[Any], argnums: Argnums = 0) -> Objective:
    """An entry whose result is one number as a function of a vector, for SciPy's functions and others.

    `args`: the arguments of f, those of `argnums` the start.  What comes back has `fun` (value and gradient), `value`,
    `hessp`, `hess`, `x0`, `ravel` and `unravel`.
    """
    return Objective(f, args, argnums)


def linear_operator(f: Function, args: Sequence[Any], argnums: Argnums = 0) -> scipy.sparse.linalg.LinearOperator:
    """The Jacobian of f at `args`: J v by forward mode, J' u by reverse mode, products with matrices many at a time."""
    made = Residuals(f, args, argnums)
    return made.operator(made.x0)


def minimize(
    f: Function,
    args: Sequence[Any],
    argnums: Argnums = 0,
    method: str | Callable[..., Any] | None = None,
    bounds: Any = None,
    callback: Callable[[Any], Any] | None = None,
    **options: Any,
) -> scipy.optimize.OptimizeResult:
    """`scipy.optimize.minimize` of an entry whose result is one number, from `args` on.

    Methods that take a gradient, Hessian-vector products or a Hessian get exact ones.  `bounds`: SciPy's, or a pair
    of a lower and an upper one, each None, a number, or of the structure of the unknowns with numbers or arrays in it.
    `callback` is called with the unknowns in their structure.  `options`: as of SciPy's function (`tol`, `options`,
    `constraints`, ...).  In the result `x` has the structure of the unknowns, `vector` is SciPy's `x`.
    Raises what the program raises.
    """
    made = Objective(f, args, argnums)
    kind = method.lower() if isinstance(method, str) else ""
    if kind in _NO_GRADIENT:
        given: dict[str, Any] = {"fun": made.value}
    else:
        given = {"fun": made.fun, "jac": True}
    if kind in _PRODUCTS:
        given["hessp"] = made.hessp
    elif kind in _MATRICES:
        given["hess"] = made.hess
    if callback is not None:
        own = callback
        given["callback"] = lambda xk, *rest: own(made.unravel(xk))
    limits = _bounds(made, bounds)
    if limits is not None:
        given["bounds"] = limits
    result = scipy.optimize.minimize(x0=made.x0, method=method, **given, **options)
    return _restored(result, made)


def least_squares(
    f: Function, args: Sequence[Any], argnums: Argnums = 0, jac: str = "auto", bounds: Any = None, **options: Any
) -> scipy.optimize.OptimizeResult:
    """`scipy.optimize.least_squares` of an entry whose result's floating-point components are the residuals.

    `jac`: how SciPy has the Jacobian: "dense", "operator" (products with it alone, no matrix), or "auto", dense up to
    2^24 elements.  `bounds` and the result as of `minimize`; `options`: as of SciPy's function.
    """
    made = Residuals(f, args, argnums)
    if jac == "auto":
        jac = "dense" if made.rows * made.size <= DENSE else "operator"
    kinds = {"dense": made.jac, "operator": made.operator}
    if jac not in kinds:
        raise UsageError(f"jac is 'auto', {', '.join(map(repr, kinds))}, not {jac!r}")
    if jac == "operator":
        options.setdefault("tr_solver", "lsmr")
    limits = _bounds(made, bounds)
    if limits is not None:
        options["bounds"] = limits
    return _restored(scipy.optimize.least_squares(made.value, made.x0, jac=kinds[jac], **options), made)


def _bounds(made: Unknowns, bounds: Any) -> scipy.optimize.Bounds | None:
    if bounds is None or isinstance(bounds, scipy.optimize.Bounds):
        return bounds
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise UsageError("bounds are a pair of a lower and an upper one")
    low, high = [
        np.full(made.size, limit if b is None else b, np.float64)
        if b is None or isinstance(b, int | float)
        else made.ravel(b, "bounds")
        for b, limit in zip(bounds, (-np.inf, np.inf), strict=True)
    ]
    return scipy.optimize.Bounds(low, high)


def _restored(result: scipy.optimize.OptimizeResult, made: Unknowns) -> scipy.optimize.OptimizeResult:
    result["vector"] = result.x
    result["x"] = made.unravel(result.x)
    return result


__all__ = ["Objective", "Residuals", "Unknowns", "least_squares", "linear_operator", "minimize", "objective"]
