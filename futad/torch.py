"""Entries as functions of PyTorch: on tensors, with derivatives of any order.

    loss = futad.torch.function(prog.loss)
    loss(w, x, y).backward()

What comes back works under autograd (double backward, forward mode), `torch.func` (grad, vmap, jacrev, ...),
`torch.compile(fullgraph=True)`, DistributedDataParallel, and in the workers of a DataLoader.  Tensors in CPU memory go
in, and results come out, without a copy where they are dense.

Note [Two ways in]
~~~~~~~~~~~~~~~~~~
Eager code calls an `autograd.Function`: its plain form, one for each entry, which knows that as a variable of its
functions and so needs no argument for it; or the one with `setup_context`, which torch.func needs and which costs more,
while a transformation is active.  Code that is being compiled calls a custom operator, whose fake
results are those of `Function.shapes`.  Both call derivatives of entries, which are entries again, so both nest.
"""

from __future__ import annotations

import ctypes
import hashlib
import pickle
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from futad.api.derivatives import vmap
from futad.api.program import Function
from futad.core.types import PRIMS
from futad.errors import DtypeError, Error, ShapeError, UsageError
from futad.runtime.exchange import device_array
from futad.runtime.structure import build_value, count_leaves, flatten_value
from futad.runtime.values import Leaf, leaf_text, widens

try:
    import torch
    from torch.autograd import forward_ad
except ImportError as e:
    raise ImportError("futad.torch needs PyTorch: pip install 'futad[torch]'") from e

_DTYPES = {p: getattr(torch, p.dtype.name) for p in PRIMS.values() if hasattr(torch, p.dtype.name)}
_NUMPY = {dtype: p.dtype for p, dtype in _DTYPES.items()}
from_numpy = torch.from_numpy
_is_compiling = torch.compiler.is_compiling
_transforming: Callable[[], bool] = torch._C._are_functorch_transforms_active


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
        self._call = _Call(f)
        self._apply = self._call.plain
        self.op = self._call.operator()
        self._types = tuple([(name, t) for name, t in f.entry.params])
        self._count = len(self._types)
        self._plain = all(t.kind in ("scalar", "array") and count_leaves(t) == 1 for _, t in f.entry.params)
        self._single = f.entry.result.kind in ("scalar", "array") and len(f.signature.results) == 1
        self._result = f.entry.result
        self._kinds = tuple([_kind(leaf) for leaf in f.signature.params])
        self._torch_dtypes = tuple([_DTYPES.get(leaf.elem) for leaf in f.signature.params])

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return function, (self.f,)

    def __repr__(self) -> str:
        return f"<futad.torch function of {self.f!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != self._count:
            args = self.f.positional(args, kwargs)
        leaves = args if self._plain else self._flat(args)
        if _is_compiling():
            made = self.op(*[_given(x, k, d) for x, k, d in zip(leaves, self._kinds, self._torch_dtypes, strict=True)])
        elif _transforming():
            made = _Transformed.apply(self._call, *leaves)
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


def _kind(leaf: Leaf) -> str:
    """How a component is given to the operator."""
    if leaf.dims or leaf.elem.is_float:
        return "Tensor"
    return "bool" if leaf.elem.is_bool else "SymInt"


def _given(x: Any, kind: str, dtype: Any) -> Any:
    """A component as the operator takes it."""
    if kind == "Tensor":
        return x if isinstance(x, torch.Tensor) else torch.as_tensor(x, dtype=dtype)
    return x.item() if isinstance(x, torch.Tensor) else x


class _Call:
    """An entry on the components of its arguments, tensors or numbers."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.params, self.results = f.signature.params, f.signature.results
        self.owner = [i for i, (_, t) in enumerate(f.entry.params) for _ in range(count_leaves(t))]
        self._expected = [(_DTYPES.get(leaf.elem), len(leaf.dims), leaf.elem.dtype.type) for leaf in self.params]
        self.floats = [leaf.elem.is_float for leaf in self.results]
        self.all_floats = all(self.floats)
        self._own = [k for k, i in enumerate(self.owner) if i < len(f.entry.unique) and f.entry.unique[i]]
        self._operator: Any = None
        self._pulls: dict[Any, tuple[_Call, list[int], bool]] = {}
        self._bind = _binder(f)
        self._library: Any = None
        self._symbol = f.symbol
        self.plain = _plain(self)

    # -- calls

    def apply(self, leaves: Sequence[Any]) -> Any:
        """A tensor, or a tuple of them; seen by autograd."""
        if any(map(_in_batch, leaves)):
            return self._of_batch(leaves, _Call.apply)
        return _Transformed.apply(self, *leaves) if _transforming() else self.plain(*leaves)

    def run(self, leaves: Sequence[Any]) -> Any:
        """The same, not seen by autograd."""
        if self._library is not None and (bound := self._bound(leaves)) is not None:
            core, _ = bound
            try:
                arrays = self._library.run_at(self._symbol, core)
            except (Error, MemoryError) as e:
                raise self.f.executable.explained(e) from None
            return from_numpy(arrays[0]) if len(arrays) == 1 else tuple([from_numpy(y) for y in arrays])
        if any(map(_in_batch, leaves)):
            return self._of_batch(leaves, _Call.run)
        given = []
        for k, (x, (dtype, rank, number)) in enumerate(zip(leaves, self._expected, strict=True)):
            if isinstance(x, torch.Tensor) and x.dtype is dtype and x.ndim == rank and _here(x):
                given.append(x.detach().contiguous().numpy() if rank else number(x.item()))
            else:
                given.append(self._converted(k, x))
        for k in self._own:
            given[k] = np.copy(given[k])
        made = [self._tensor(y) for y in self.f.call_leaves(given)]
        if self._bind is not None:
            self._library = self.f.executable.at_once()
        return made[0] if len(made) == 1 else tuple(made)

    def _bound(self, leaves: Sequence[Any]) -> Any:
        try:
            return self._bind(leaves)
        except RuntimeError:  # a tensor without memory
            return None

    def _of_batch(self, leaves: Sequence[Any], how: _How) -> Any:
        """A call in `torch.autograd.grad(..., is_grads_batched=True)`, whose batches are none of torch.func."""
        level = torch._C._vmapmode_increment_nesting() - 1
        torch._C._vmapmode_decrement_nesting()
        dims = [0 if _in_batch(x) else None for x in leaves]
        given = [torch._remove_batch_dim(x, level, 0, 0) if d == 0 else x for x, d in zip(leaves, dims, strict=True)]
        size = next(len(x) for x, d in zip(given, dims, strict=True) if d == 0)
        other, moved = self.batched(dims, given, size)
        made = how(other, moved)
        if isinstance(made, tuple):
            return tuple([torch._add_batch_dim(y, 0, level) for y in made])
        return torch._add_batch_dim(made, 0, level)

    def _tensor(self, y: Any) -> torch.Tensor:
        if type(y) is np.ndarray:
            return torch.from_numpy(y)
        if isinstance(y, np.generic):
            return torch.from_numpy(np.array(y))
        return torch.from_dlpack(y)

    def _converted(self, k: int, x: Any) -> Any:
        """A component that is not what is expected, as the entry takes it.  Raises DtypeError and ShapeError."""
        leaf, what = self.params[k], f"argument '{self.params[k].path}'"
        if isinstance(x, torch.Tensor):
            if x.ndim != len(leaf.dims):
                raise ShapeError(
                    f"{what}: expected {leaf_text(leaf)}, which has rank {len(leaf.dims)}, got a tensor of shape "
                    f"{tuple(x.shape)}"
                )
            given, want = _NUMPY.get(x.dtype), _DTYPES.get(leaf.elem)
            if given is None or not (given == leaf.elem.dtype or widens(given, leaf.elem.dtype)):
                raise DtypeError(
                    f"{what}: expected {leaf_text(leaf)} ({want}), got a tensor of {x.dtype}",
                    hint=f"convert it yourself if that is meant: {leaf.path.split('.')[-1]}.to({want})",
                )
            if x.layout is not torch.strided:
                raise DtypeError(f"{what}: expected {leaf_text(leaf)}, got a tensor of layout {x.layout}",
                                 hint="make it dense if that is meant: .to_dense()")  # fmt: skip
            x = x.detach().to(want)
            if not leaf.dims:
                return leaf.elem.dtype.type(x.item())
            return device_array(x.contiguous(), leaf.path) or x.contiguous().numpy()
        return self.f.signature.converted(k, x)

    # -- other entries

    def _other(self, kind: str, active: tuple[int, ...]) -> _Call:
        """That of a derivative."""
        return _call_of(self.f.derivative(kind, active))

    def batched(self, dims: Sequence[int | None], leaves: Sequence[Any], size: int) -> tuple[_Call, list[Any]]:
        """That of a batch, and the components with the batch first, for those where it is a dimension."""
        moved = [x if d is None or d == 0 else x.movedim(d, 0) for x, d in zip(leaves, dims, strict=True)]
        many = {i for i, d in zip(self.owner, dims, strict=True) if d is not None}
        for k, (i, d) in enumerate(zip(self.owner, dims, strict=True)):
            if i in many and d is None:  # others of its argument have the batch
                x = torch.as_tensor(moved[k], dtype=_DTYPES[self.params[k].elem])
                moved[k] = x.expand(size, *x.shape)
        axes = [0 if i in many else None for i in range(len(self.f.entry.params))]
        return _call_of(vmap(self.f, axes)), moved

    # -- derivatives

    def adjoints(
        self, needed: tuple[bool, ...], leaves: Sequence[Any], bars: Sequence[Any], how: _How
    ) -> Sequence[Any]:
        """The adjoint of each component, None for those not needed or of integers."""
        if (known := self._pulls.get(needed)) is None:
            wanted = [n and leaf.elem.is_float for n, leaf in zip(needed, self.params, strict=True)]
            active = tuple(sorted({i for i, w in zip(self.owner, wanted, strict=True) if w}))
            if not active:
                return [None] * len(wanted)
            made = [k for k, i in enumerate(self.owner) if i in active]
            places = [made.index(k) if w else -1 for k, w in enumerate(wanted)]
            known = self._pulls[needed] = self._other("vjp", active), places, places == list(range(len(made)))
        pull, places, in_order = known
        found = how(pull, [*leaves, *bars])
        if not isinstance(found, tuple | list):
            found = (found,)
        return found if in_order else [found[i] if i >= 0 else None for i in places]

    def tangents(self, leaves: Sequence[Any], tangents: Sequence[Any], how: _How) -> list[Any]:
        """The tangent of each component of the result, None for those of integers."""
        active = tuple(sorted({i for i, t in zip(self.owner, tangents, strict=True) if t is not None}))
        given = [
            torch.zeros_like(torch.as_tensor(x, dtype=_DTYPES[leaf.elem])) if t is None else t
            for x, t, i, leaf in zip(leaves, tangents, self.owner, self.params, strict=True)
            if i in active
        ]
        made = how(self._other("jvp", active), [*leaves, *given])
        return [t if f else None for t, f in zip(made[len(self.results) :], self.floats, strict=True)]

    # -- the operator

    def operator(self) -> Any:
        """The custom operator, registered once under a name made of the program."""
        if self._operator is None:
            self._operator = _operator_of(self)
        return self._operator


_How = Callable[[_Call, list[Any]], Any]


def _call_of(f: Function) -> _Call:
    made = f.derived("torch call", lambda: _Call(f))
    assert isinstance(made, _Call)
    return made


def _here(x: torch.Tensor) -> bool:
    """Whether NumPy can see a tensor's memory."""
    return x.is_cpu and x.layout is torch.strided and not x.is_neg()


def _in_batch(x: Any) -> bool:
    """Whether a tensor stands for a batch that is none of torch.func."""
    return isinstance(x, torch.Tensor) and bool(torch._C._functorch.is_legacy_batchedtensor(x))


def _binder(f: Function) -> Any:
    """The function from components that are as they are needed to core arguments, arrays by their addresses, with what
    must live until the call is over; None if `_Call.run` has to convert or to explain, as `fast_arguments.Plan`."""
    s = f.signature
    if type(f) is not Function or any(f.entry.unique) or any(leaf.elem not in _DTYPES for leaf in s.params):
        return None
    if s.witnesses:  # the results bring sizes along
        return None
    values: dict[str, Any] = {"Tensor": torch.Tensor, "Parameter": torch.nn.Parameter, "strided": torch.strided}
    names = [f"a{k}" for k in range(len(s.params))]
    lines = ["def bind(leaves):", f"  {''.join([n + ', ' for n in names])}= leaves" if names else "  pass"]
    places: dict[int, str] = {}
    core = []
    for k, leaf in enumerate(s.params):
        values |= {f"dtype{k}": _DTYPES[leaf.elem], f"exact{k}": float if leaf.elem.is_float else int}
        tensor = f"(type(a{k}) is Tensor or type(a{k}) is Parameter)"
        fits = f"a{k}.dtype is dtype{k} and len(a{k}.shape) == {len(leaf.dims)} and a{k}.is_cpu"
        fits = f"{tensor} and {fits} and a{k}.layout is strided and not a{k}.is_neg()"
        if leaf.dims:
            lines += [f"  if not ({fits}): return None", f"  if not a{k}.is_contiguous(): a{k} = a{k}.contiguous()"]
            core.append(f"p{k}")
        else:
            if leaf.elem.name not in _NUMBERS:
                return None
            values[f"number{k}"] = _NUMBERS[leaf.elem.name].from_address
            exact = f"type(a{k}) is exact{k}"
            if not leaf.elem.is_float:
                exact += f" and 0 <= a{k} < {1 << 62}"  # others are explained
            lines += [f"  if {exact}: v{k} = a{k}", f"  elif {fits}: v{k} = number{k}(a{k}.data_ptr()).value",
                      "  else: return None"]  # fmt: skip
            core.append(f"v{k}")
            if leaf.elem.name == "i64":
                places[len(s.size_names) + k] = f"v{k}"
    for k, leaf in enumerate(s.params):
        if leaf.dims:
            lines.append(f"  {''.join([f's{k}_{d}, ' for d in range(len(leaf.dims))])}= a{k}.shape")
            for d, dim in enumerate(leaf.dims):
                known = str(dim) if isinstance(dim, int) else places.setdefault(dim[1], f"s{k}_{d}")
                if known != f"s{k}_{d}":
                    lines.append(f"  if s{k}_{d} != {known}: return None")
            lines += [f"  p{k} = a{k}.data_ptr()", f"  if not p{k}: return None"]  # an empty one
    if any(i not in places for i in range(len(s.size_names))):
        return None
    core = [places[i] for i in range(len(s.size_names))] + core
    lines.append(f"  return [{', '.join(core)}], ({''.join([n + ', ' for n in names])})")
    exec("\n".join(lines), values)
    return values["bind"]


_NUMBERS = {"f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64}


def _applied(call: _Call, leaves: list[Any]) -> Any:
    return call.apply(leaves) if torch.is_grad_enabled() or _transforming() else call.run(leaves)


def _cotangents(ctx: Any, call: _Call, bars: Sequence[Any]) -> Sequence[Any]:
    """Cotangents for all components of the result, zeros for those that have none."""
    if call.all_floats:  # autograd has zeros for those that it does not know
        return bars
    return [
        bar if bar is not None and leaf.elem.is_float else _zero(leaf, shape)
        for bar, shape, leaf in zip(bars, ctx.shapes, call.results, strict=True)
    ]


def _zero(leaf: Leaf, shape: Any) -> Any:
    """A zero as the operator takes it."""
    if _kind(leaf) == "Tensor":
        return torch.zeros(shape, dtype=_DTYPES[leaf.elem])
    return False if leaf.elem.is_bool else 0


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def _restored(ctx: Any) -> Sequence[Any]:
    """The components of the arguments of a call."""
    if ctx.numbers is None:
        return ctx.saved_tensors
    return [x if n is None else n for x, n in zip(ctx.saved_tensors, ctx.numbers, strict=True)]


def _save(ctx: Any, call: _Call, leaves: Sequence[Any], made: Any) -> None:
    ctx.numbers = None
    if not all(map(_is_tensor, leaves)):
        ctx.numbers = [None if _is_tensor(x) else x for x in leaves]
        leaves = [x if _is_tensor(x) else None for x in leaves]
    ctx.save_for_backward(*leaves)
    if forward_ad._current_level >= 0 or _transforming():
        ctx.save_for_forward(*leaves)
    if not call.all_floats:
        each = made if isinstance(made, tuple) else (made,)
        ctx.shapes = [y.shape for y in each]
        ctx.mark_non_differentiable(*[y for y, f in zip(each, call.floats, strict=True) if not f])


def _plain(call: _Call) -> Callable[..., Any]:
    """Calls where no transformation of torch.func is active."""

    class Plain(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *leaves: Any) -> Any:
            made = call.run(leaves)
            _save(ctx, call, leaves, made)
            return made

        @staticmethod
        def backward(ctx: Any, *bars: Any) -> Any:
            given = _cotangents(ctx, call, bars)
            return tuple(call.adjoints(ctx.needs_input_grad, _restored(ctx), given, _applied))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            return _forward_mode(ctx, call, tangents)

    return Plain.apply


class _Transformed(torch.autograd.Function):
    """A call inside of `torch.func`."""

    @staticmethod
    def forward(call: _Call, *leaves: Any) -> Any:
        return call.run(leaves)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        call, *leaves = inputs
        ctx.call = call
        _save(ctx, call, leaves, output)

    @staticmethod
    def backward(ctx: Any, *bars: Any) -> tuple[Any, ...]:
        given = _cotangents(ctx, ctx.call, bars)
        return (None, *ctx.call.adjoints(ctx.needs_input_grad[1:], _restored(ctx), given, _applied))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        return _forward_mode(ctx, ctx.call, tangents)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: _Call, *leaves: Any) -> Any:
        batched, moved = call.batched(in_dims[1:], leaves, info.batch_size)
        made = batched.apply(moved)
        return made, tuple([0] * len(made)) if isinstance(made, tuple) else 0


def _forward_mode(ctx: Any, call: _Call, tangents: Sequence[Any]) -> Any:
    made = call.tangents(_restored(ctx), tangents, _applied)
    return tuple(made) if len(made) > 1 else made[0]


# --- the operator of compiled code


_registered: dict[str, Any] = {}
_registering = threading.RLock()  # PyTorch refuses a name that it knows


def _operator_of(call: _Call) -> Any:
    with _registering:
        return _operator_once(call)


def _operator_once(call: _Call) -> Any:
    f = call.f
    try:
        told = pickle.dumps(f)
    except TypeError:  # no source: by this very function
        told = repr((id(f), f.symbol)).encode()
    plain = re.sub(r"\W+", "_", f.__name__).strip("_")
    name = f"{plain}_{hashlib.sha256(told).hexdigest()[:16]}"
    if name in _registered:
        return _registered[name]
    params = ", ".join([f"{_kind(leaf)} a{k}" for k, leaf in enumerate(call.params)])
    results = ", ".join(["Tensor"] * len(call.results))
    schema = f"({params}) -> {results if len(call.results) == 1 else f'({results})'}"

    def run(*leaves: Any) -> Any:
        return call.run(leaves)

    def fake(*leaves: Any) -> Any:
        device = next((x.device for x in leaves if isinstance(x, torch.Tensor)), "cpu")
        try:
            specs = [tuple(s.shape) for s in f.shapes_of_leaves(leaves)]
        except UsageError:  # sizes that are found by running
            context = torch.library.get_ctx()
            specs = [tuple([context.new_dynamic_size() for _ in leaf.dims]) for leaf in call.results]
        made = [torch.empty(s, dtype=_DTYPES[r.elem], device=device) for s, r in zip(specs, call.results, strict=True)]
        return made[0] if len(made) == 1 else tuple(made)

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save(ctx, call, inputs, tuple(output) if isinstance(output, list) else output)

    def how(other: _Call, leaves: list[Any]) -> Any:
        kinds = [(_kind(leaf), _DTYPES[leaf.elem]) for leaf in other.params]
        return other.operator()(*[_given(x, k, d) for x, (k, d) in zip(leaves, kinds, strict=True)])

    def backward(ctx: Any, *bars: Any) -> Any:
        return tuple(call.adjoints(ctx.needs_input_grad, _restored(ctx), _cotangents(ctx, call, bars), how))

    def batch(info: Any, in_dims: tuple[Any, ...], *leaves: Any) -> Any:
        other, moved = call.batched(in_dims, leaves, info.batch_size)
        made = how(other, moved)
        return made, tuple([0] * len(made)) if isinstance(made, tuple | list) else 0

    made = torch.library.custom_op(f"futad::{name}", run, mutates_args=(), schema=schema)
    made.register_fake(fake)
    made.register_autograd(backward, setup_context=setup)
    made.register_vmap(batch)
    _registered[name] = getattr(torch.ops.futad, name).default
    return _registered[name]


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
                tensor = torch.as_tensor(x, dtype=_DTYPES[leaf.elem]).detach().clone()
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
