"""Entries as functions of PyTorch: on tensors, with derivatives of any order.

    loss = futad.torch.function(prog.loss)
    loss(w, x, y).backward()

What comes back works under autograd (double backward, forward mode), `torch.func` (grad, vmap, jacrev, ...),
`torch.compile(fullgraph=True)` around or inside of these, `torch.export`, `make_fx`, with fake and meta tensors, in
DistributedDataParallel, and in the workers of a DataLoader.  Tensors in CPU memory go in, and results come out, without
a copy where they are dense.

Note [Two ways in]
~~~~~~~~~~~~~~~~~~
Eager code calls an `autograd.Function`: its plain form, one for each entry, which knows that as a variable of its
functions and so needs no argument for it; or the one with `setup_context`, which torch.func needs and which costs more,
while a transformation is active.  Code that is being compiled or functionalised calls a custom operator, whose fake
results are those of `Function.shapes`.  Both call derivatives of entries, which are entries again, so both nest.
Operators of PyTorch know no derivatives of torch.func: in code that is compiled with these inside, calls stay as they
are until the graph is traced.

At the bottom of an `autograd.Function`, where its entry would run (`Call.run`), the operator is called instead if
somebody has to see the call: a dispatch mode (`make_fx`, `FakeTensorMode`, AOTAutograd), tensors of a class that
dispatches itself, tensors without elements (device meta).  The operator's own kernel always runs the entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from futad.api.program import Function
from futad.errors import UsageError
from futad.imports import when_imported
from futad.runtime.structure import Record, build_value, count_leaves, flatten_value

try:
    import torch
    from torch.utils import _pytree as pytree
except ImportError as e:
    raise ImportError("futad.torch needs PyTorch: pip install 'futad[torch]'") from e

from futad.torch.call import Call, transforming
from futad.torch.components import DTYPES, given, kind_of

_is_compiling = torch.compiler.is_compiling
_calls: WeakValueDictionary[str, Call] = WeakValueDictionary()  # by the names of their operators


def _transformed(name: str, *leaves: Any) -> Any:
    """A call inside of a transformation of torch.func, which the compiler leaves for later as it is."""
    return _calls[name].apply(leaves)


when_imported("torch._dynamo", lambda: torch._dynamo.allow_in_graph(_transformed))
pytree.register_pytree_node(
    Record,
    lambda r: (list(r.values()), list(r)),
    lambda values, names: Record(zip(names, values, strict=True)),
    serialized_type_name="futad.Record",
    flatten_with_keys_fn=lambda r: ([(pytree.MappingKey(name), value) for name, value in r.items()], list(r)),
)


def function(f: Function) -> TorchFunction:
    """The entry f as a function of tensors: its arguments are tensors and numbers, tuples and dicts of these.

    Results are tensors of the entry's dtypes and structure.  Numbers that are differentiated with respect to are
    tensors of rank 0.  Components of integers and bools have no gradient.  Raises as f does: DtypeError and ShapeError
    name the argument, errors of the program have its place.
    """
    if not isinstance(f, Function):
        raise UsageError(f"futad.torch.function takes an entry of a program, not {type(f).__name__}",
                         hint="pass prog.name itself")  # fmt: skip
    made = f.derived("torch", lambda: TorchFunction(f))
    assert isinstance(made, TorchFunction)
    return made


class TorchFunction:
    """An entry as a function of tensors; see `function`.  `op` is its operator for `torch.library`."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.__name__, self.__qualname__, self.__doc__ = f.__name__, f.__qualname__, f.__doc__
        self.__signature__ = f.__signature__
        self._call = Call(f)
        self._apply = self._call.plain
        self.op = self._call.operator()
        self._name = str(self.op)
        _calls[self._name] = self._call
        self._types = tuple([(name, t) for name, t in f.entry.params])
        self._count = len(self._types)
        self._plain = all(t.kind in ("scalar", "array") and count_leaves(t) == 1 for _, t in f.entry.params)
        self._single = f.entry.result.kind in ("scalar", "array") and len(f.signature.results) == 1
        self._result = f.entry.result
        self._kinds = tuple([kind_of(leaf) for leaf in f.signature.params])
        self._torch_dtypes = tuple([DTYPES.get(leaf.elem) for leaf in f.signature.params])

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return function, (self.f,)

    def __repr__(self) -> str:
        return f"<futad.torch function of {self.f!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != self._count:
            args = self.f.positional(args, kwargs)
        leaves = args if self._plain else self._flat(args)
        if _is_compiling() and transforming():
            made = _transformed(self._name, *leaves)
        elif _is_compiling():
            made = self.op(*[given(x, k, d) for x, k, d in zip(leaves, self._kinds, self._torch_dtypes, strict=True)])
        elif transforming():
            made = self._call.apply(leaves)
        else:
            made = self._apply(*leaves)
        if self._single:
            return made
        return build_value(self._result, iter(made if isinstance(made, tuple | list) else (made,)))

    def _flat(self, args: Sequence[Any]) -> list[Any]:
        out: list[Any] = []
        for (name, t), value in zip(self._types, args, strict=True):
            out += flatten_value(t, value, name, self.__name__)
        return out


class Module(torch.nn.Module):
    """An entry as a layer: the arguments in `params` are its parameters, by name; it is called with the others.

        layer = futad.torch.Module(prog.layer, w=torch.randn(3, 4), b=torch.zeros(4))

    Of a tuple or record each floating-point component is a parameter, called `w__a`; integers are buffers.
    """

    def __init__(self, f: Function, **params: Any) -> None:
        super().__init__()
        self.function = function(f)
        names = list(f.__signature__.parameters)
        if unknown := [n for n in params if n not in names]:
            raise UsageError(f"{f.__name__} has no argument '{unknown[0]}'; there are: {', '.join(names)}")
        self._own = {names.index(n): f.entry.params[names.index(n)][1] for n in params}
        self._parts: dict[int, list[str]] = {}
        first = [sum([count_leaves(t) for _, t in f.entry.params[:i]]) for i in range(len(names))]
        for i, t in self._own.items():
            leaves = flatten_value(t, params[names[i]], names[i], f.__name__)
            self._parts[i] = []
            for k, x in enumerate(leaves):
                leaf = f.signature.params[first[i] + k]
                name = re.sub(r"\W+", "__", leaf.path)
                tensor = torch.as_tensor(x, dtype=DTYPES[leaf.elem]).detach().clone()
                if leaf.elem.is_float:
                    self.register_parameter(name, torch.nn.Parameter(tensor))
                else:
                    self.register_buffer(name, tensor)
                self._parts[i].append(name)

    def forward(self, *args: Any) -> Any:
        """The entry's value; `args`: its other arguments."""
        rest, every = iter(args), []
        for i in range(len(self.function.f.entry.params)):
            if i in self._own:
                every.append(build_value(self._own[i], iter([getattr(self, name) for name in self._parts[i]])))
            else:
                every.append(next(rest, None))
        return self.function(*every)


__all__ = ["Module", "TorchFunction", "function"]
