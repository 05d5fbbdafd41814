"""Entries as operations of PyTensor, and so of PyMC.

    logp = futad.pytensor.op(prog.logp)
    pymc.Potential("likelihood", logp(mu, sigma, data))

An operation differentiates by entries that futad makes of its own one, which are operations again: gradients of any
order, forward mode (`pushforward`), and batches (`pytensor.graph.replace.vectorize_graph`: `futad.vmap`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from futad.api.derivatives import vmap
from futad.api.program import Function
from futad.errors import DtypeError, ShapeError, UsageError
from futad.runtime.structure import build_value, count_leaves, flatten_value
from futad.runtime.values import Leaf, leaf_text, widens

# In Numba's mode PyTensor says of each operation without code for Numba that Python runs it, as this one always is.
warnings.filterwarnings("ignore", r"Numba will use object mode to run futad\{", UserWarning)

try:
    import pytensor.tensor as pt
    from pytensor.gradient import DisconnectedType
    from pytensor.graph.basic import Apply, Variable
    from pytensor.graph.op import Op
    from pytensor.graph.replace import _vectorize_node
    from pytensor.tensor.exceptions import ShapeError as UnknownShape
    from pytensor.tensor.type import TensorType
except ImportError as e:
    raise ImportError("futad.pytensor needs PyTensor: pip install 'futad[pytensor]'") from e


def op(f: Function) -> PytensorFunction:
    """The entry f as a function of PyTensor's variables: its arguments are variables, arrays and numbers, tuples and
    dicts of these.

    Results are variables of the entry's dtypes and structure.  Components of integers and bools have no gradient.
    Raises DtypeError and ShapeError (a rank) that name the argument when it is applied; sizes that disagree and errors
    of the program arrive when the graph is run, as f raises them, with what PyTensor adds to their text.
    """
    if not isinstance(f, Function):
        raise UsageError(f"futad.pytensor.op takes an entry of a program, not {type(f).__name__}",
                         hint="pass prog.name itself")  # fmt: skip
    made = f.derived("pytensor", lambda: PytensorFunction(f))
    assert isinstance(made, PytensorFunction)
    return made


class PytensorFunction:
    """An entry as a function of variables; see `op`.  `op` is the operation, on the components of the arguments."""

    def __init__(self, f: Function) -> None:
        self.f, self.op = f, _op_of(f)
        self.__name__, self.__qualname__, self.__doc__ = f.__name__, f.__qualname__, f.__doc__
        self.__signature__ = f.__signature__

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return op, (self.f,)

    def __repr__(self) -> str:
        return f"<futad.pytensor function of {self.f!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        f = self.f
        if kwargs or len(args) != len(f.entry.params):
            args = f.positional(args, kwargs)
        leaves: list[Any] = []
        for (name, t), value in zip(f.entry.params, args, strict=True):
            leaves += flatten_value(t, value, name, self.__name__)
        return build_value(f.entry.result, iter(self.op(*leaves, return_list=True)))


class EntryOp(Op):
    """An entry on the components of its arguments; one object for an entry."""

    __props__ = ("f",)

    def __init__(self, f: Function) -> None:
        self.f = f
        self.params, self.results = f.signature.params, f.signature.results
        self.owner = [i for i, (_, t) in enumerate(f.entry.params) for _ in range(count_leaves(t))]
        self._own = [k for k, i in enumerate(self.owner) if i < len(f.entry.unique) and f.entry.unique[i]]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _op_of, (self.f,)

    def __str__(self) -> str:
        return f"futad{{{self.f.__name__}}}"

    def make_node(self, *leaves: Any) -> Any:
        given = [self._variable(k, x) for k, x in enumerate(leaves)]
        return Apply(self, given, [_type(leaf)() for leaf in self.results])

    def _variable(self, k: int, x: Any) -> Any:
        """A component of the arguments as a variable of its type.  Raises DtypeError, ShapeError."""
        leaf = self.params[k]
        if not isinstance(x, Variable):
            x = pt.as_tensor_variable(self.f.signature.converted(k, x))
        elif not isinstance(x.type, TensorType):
            x = pt.as_tensor_variable(x)
        if x.type.ndim != len(leaf.dims):
            raise ShapeError(
                f"argument '{leaf.path}': expected {leaf_text(leaf)}, which has rank {len(leaf.dims)}, got a variable "
                f"of rank {x.type.ndim}"
            )
        given, want = np.dtype(x.type.dtype), leaf.elem.dtype
        if given == want:
            return x
        if not widens(given, want):
            raise DtypeError(
                f"argument '{leaf.path}': expected {leaf_text(leaf)} ({want.name}), got a variable of {given.name}",
                hint=f"convert it yourself if that is meant: {leaf.path.split('.')[-1]}.astype('{want.name}')",
            )
        return x.astype(want.name)

    def perform(self, node: Any, inputs: Sequence[Any], output_storage: Any) -> None:
        given = [
            np.ascontiguousarray(x) if leaf.dims else leaf.elem.dtype.type(x)
            for leaf, x in zip(self.params, inputs, strict=True)
        ]
        for k in self._own:
            given[k] = np.copy(given[k])
        for cell, made in zip(output_storage, self.f.call_leaves(given), strict=True):
            cell[0] = np.asarray(made)

    def infer_shape(self, fgraph: Any, node: Any, shapes: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Raises PyTensor's ShapeError, which makes it run the operation, for a size found by running."""
        first = len(self.f.signature.size_names)
        sizes = {
            dim[1]: size
            for leaf, shape in zip(self.params, shapes, strict=True)
            for dim, size in zip(leaf.dims, shape, strict=True)
            if not isinstance(dim, int)
        }

        def known(i: int) -> Any:
            return sizes[i] if i in sizes else node.inputs[i - first]

        def size(dim: Any) -> Any:
            if isinstance(dim, int):
                return dim
            where, i = dim
            return known(i) if where == "arg" else self.f.computed_sizes()[i][1](known)

        try:
            return [tuple([size(d) for d in leaf.dims]) for leaf in self.results]
        except (KeyError, TypeError):  # no formula, or one with operations that variables do not have
            raise UnknownShape(f"a size of the result of {self.f.__name__} is found by running it") from None

    # -- derivatives

    def connection_pattern(self, node: Any) -> list[list[bool]]:
        return [[p.elem.is_float and r.elem.is_float for r in self.results] for p in self.params]

    def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        bars = [
            pt.zeros_like(y, dtype=leaf.elem.dtype.name) if isinstance(bar.type, DisconnectedType) else bar
            for y, bar, leaf in zip(outputs, cotangents, self.results, strict=True)
        ]
        active = self._active([leaf.elem.is_float for leaf in self.params])
        if not active:
            return [DisconnectedType()() for _ in inputs]
        made = iter(_op_of(self.f.derivative("vjp", active))(*inputs, *bars, return_list=True))
        found = [next(made) if i in active else None for i in self.owner]
        return [
            DisconnectedType()() if bar is None or not leaf.elem.is_float else bar
            for leaf, bar in zip(self.params, found, strict=True)
        ]

    def pushforward(self, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        given = [_tangent(t) and leaf.elem.is_float for t, leaf in zip(tangents, self.params, strict=True)]
        active = self._active(given)
        if not active:
            return [DisconnectedType()() for _ in self.results]
        directions = [
            t if told else pt.zeros_like(x)
            for x, t, told, i in zip(inputs, tangents, given, self.owner, strict=True)
            if i in active
        ]
        made = _op_of(self.f.derivative("jvp", active))(*inputs, *directions, return_list=True)[len(self.results) :]
        return [t if leaf.elem.is_float else DisconnectedType()() for t, leaf in zip(made, self.results, strict=True)]

    def _active(self, wanted: Sequence[bool]) -> tuple[int, ...]:
        """The arguments that have a component among those wanted."""
        return tuple(sorted({i for i, w in zip(self.owner, wanted, strict=True) if w}))


if not hasattr(Op, "pullback"):  # PyTensor 2

    def _pushed(op: EntryOp, inputs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """None stands for nothing there."""
        made = op.pushforward(inputs, (), tangents)
        return [None if isinstance(t.type, DisconnectedType) else t for t in made]

    EntryOp.L_op, EntryOp.R_op = EntryOp.pullback, _pushed


def _op_of(f: Function) -> EntryOp:
    made = f.derived("pytensor op", lambda: EntryOp(f))
    assert isinstance(made, EntryOp)
    return made


def _type(leaf: Leaf) -> Any:
    return TensorType(leaf.elem.dtype.name, tuple([d if isinstance(d, int) else None for d in leaf.dims]))


def _tangent(t: Any) -> bool:
    return t is not None and not isinstance(t.type, DisconnectedType)


@_vectorize_node.register(EntryOp)
def _batched(op: EntryOp, node: Any, *inputs: Any) -> Any:
    """The operation of a batch: `futad.vmap` over one dimension that holds all of the batch's.  Where that refuses,
    what PyTensor does for all operations: one after the other."""
    ranks = [x.type.ndim - len(leaf.dims) for x, leaf in zip(inputs, op.params, strict=True)]
    many = op._active([rank > 0 for rank in ranks])
    try:
        batched = _op_of(vmap(op.f, [0 if i in many else None for i in range(len(op.f.entry.params))]))
    except UsageError:
        return _vectorize_node.dispatch(Op)(op, node, *inputs)
    wide = max(ranks)
    shapes = [
        [1 if known == 1 else size for known, size in zip(x.type.shape[:rank], tuple(x.shape), strict=False)]
        for x, rank in zip(inputs, ranks, strict=True)
        if rank
    ]
    outer = tuple(pt.broadcast_shape(*shapes, arrays_are_shapes=True)) if len(shapes) > 1 else tuple(shapes[0])
    count = pt.prod(pt.stack(outer), dtype="int64")
    given = []
    for x, rank, leaf, i in zip(inputs, ranks, op.params, op.owner, strict=True):
        if i in many:
            inner = tuple(x.shape)[rank:]
            x = pt.broadcast_to(x, (*outer, *inner)).reshape((count, *inner), ndim=1 + len(leaf.dims))
        given.append(x)
    made = batched(*given, return_list=True)
    return [
        y.reshape((*outer, *tuple(y.shape)[1:]), ndim=wide + len(leaf.dims))
        for y, leaf in zip(made, op.results, strict=True)
    ]


__all__ = ["EntryOp", "PytensorFunction", "op"]
