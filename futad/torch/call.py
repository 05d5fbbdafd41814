"""Entries on components, tensors or numbers, as PyTorch sees them: `autograd.Function`s, and an operator."""

from __future__ import annotations

import hashlib
import pickle
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from futad.api.derivatives import vmap
from futad.api.program import Function
from futad.errors import DtypeError, Error, ShapeError, UsageError
from futad.runtime.exchange import device_array
from futad.runtime.structure import count_leaves
from futad.runtime.values import Leaf, leaf_text, widens
from futad.torch.components import DTYPES, NUMPY, binder, dispatches, given, here, in_batch, kind_of

from_numpy = torch.from_numpy
transforming: Callable[[], bool] = torch._C._are_functorch_transforms_active
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_function_modes: Callable[[], int] = torch._C._len_torch_function_stack


class Call:
    """An entry on the components of its arguments, tensors or numbers."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.params, self.results = f.signature.params, f.signature.results
        self.owner = [i for i, (_, t) in enumerate(f.entry.params) for _ in range(count_leaves(t))]
        self._expected = [(DTYPES.get(leaf.elem), len(leaf.dims), leaf.elem.dtype.type) for leaf in self.params]
        self.floats = [leaf.elem.is_float for leaf in self.results]
        self.all_floats = all(self.floats)
        self._own = [k for k, i in enumerate(self.owner) if i < len(f.entry.unique) and f.entry.unique[i]]
        self._operator: Any = None
        self._pulls: dict[Any, tuple[Call, list[int], bool]] = {}
        self._bind = binder(f)
        self._library: Any = None
        self._symbol = f.symbol
        self.plain = _plain(self)

    # -- calls

    def apply(self, leaves: Sequence[Any]) -> Any:
        """A tensor, or a tuple of them; seen by autograd."""
        if any(map(in_batch, leaves)):
            return self._of_batch(leaves, Call.apply)
        if not transforming():
            return self.plain(*leaves)
        if torch._ops._len_torch_dispatch_stack_pre_dispatch():
            raise UsageError("torch.func inside of torch.export (or of make_fx with pre_dispatch) is not supported: "
                             "PyTorch makes constants of what is differentiated there",
                             hint="export the entry of the derivative: futad.grad, futad.vmap")  # fmt: skip
        return self._dispatched(leaves) if _functionalising() else _Transformed.apply(self, *leaves)

    def run(self, leaves: Sequence[Any], inside: bool = False) -> Any:
        """The same, not seen by autograd: the entry's results, or the operator's (Note [Two ways in]).  `inside`: asked
        by the operator itself."""
        seen = not inside and (_modes() or (_function_modes() and torch._ops._len_torch_dispatch_stack_pre_dispatch()))
        if self._library is not None and not seen and (bound := self._bound(leaves)) is not None:
            core, _ = bound
            try:
                arrays = self._library.run_at(self._symbol, core)
            except (Error, MemoryError) as e:
                raise self.f.executable.explained(e) from None
            return from_numpy(arrays[0]) if len(arrays) == 1 else tuple([from_numpy(y) for y in arrays])
        if any(map(in_batch, leaves)):
            return self._of_batch(leaves, Call.run)
        if seen or (not inside and any(map(dispatches, leaves))):
            return self._dispatched(leaves)
        given = []
        for k, (x, (dtype, rank, number)) in enumerate(zip(leaves, self._expected, strict=True)):
            if isinstance(x, torch.Tensor) and x.dtype is dtype and x.ndim == rank and here(x):
                given.append(x.detach().contiguous().numpy() if rank else number(x.item()))
            else:
                given.append(self._converted(k, x))
        for k in self._own:
            given[k] = np.copy(given[k])
        made = [self._tensor(y) for y in self.f.call_leaves(given)]
        if self._bind is not None:
            self._library = self.f.executable.at_once()
        return made[0] if len(made) == 1 else tuple(made)

    def _dispatched(self, leaves: Sequence[Any]) -> Any:
        """The operator's results.  Raises UsageError where an integer is a tensor without a number."""
        like = next((x for x in leaves if isinstance(x, torch.Tensor)), None)
        operands = []
        for x, leaf in zip(leaves, self.params, strict=True):
            kind, dtype = kind_of(leaf), DTYPES[leaf.elem]
            if kind == "Tensor" and like is not None and isinstance(x, int | float):
                x = like.new_full((), x, dtype=dtype)  # of the class that tensors have here
            elif kind != "Tensor" and isinstance(x, torch.Tensor):
                try:
                    x = x.item()
                except RuntimeError as e:
                    raise UsageError(f"argument '{leaf.path}' of {self.f.__name__} is read when a call is traced, and "
                                     f"this tensor has no number: {e}", hint="give a Python number") from e  # fmt: skip
            operands.append(given(x, kind, dtype))
        made = self.operator()(*operands)
        return tuple(made) if isinstance(made, list) else made

    def _bound(self, leaves: Sequence[Any]) -> Any:
        try:
            return self._bind(leaves)
        except RuntimeError:  # a tensor without memory
            return None

    def _of_batch(self, leaves: Sequence[Any], how: _How) -> Any:
        """A call in `torch.autograd.grad(..., is_grads_batched=True)`, whose batches are none of torch.func."""
        level = torch._C._vmapmode_increment_nesting() - 1
        torch._C._vmapmode_decrement_nesting()
        dims = [0 if in_batch(x) else None for x in leaves]
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
        if not isinstance(x, torch.Tensor):
            return self.f.signature.converted(k, x)
        self.check(k, x)
        leaf = self.params[k]
        x = x.detach().to(DTYPES[leaf.elem])
        if not leaf.dims:
            return leaf.elem.dtype.type(x.item())
        return device_array(x.contiguous(), leaf.path) or x.contiguous().numpy()

    def check(self, k: int, x: torch.Tensor) -> None:
        """Raises DtypeError and ShapeError for a tensor that the component cannot be."""
        leaf, what = self.params[k], f"argument '{self.params[k].path}'"
        if x.ndim != len(leaf.dims):
            raise ShapeError(
                f"{what}: expected {leaf_text(leaf)}, which has rank {len(leaf.dims)}, got a tensor of shape "
                f"{tuple(x.shape)}"
            )
        given, want = NUMPY.get(x.dtype), DTYPES.get(leaf.elem)
        if given is None or not (given == leaf.elem.dtype or widens(given, leaf.elem.dtype)):
            raise DtypeError(
                f"{what}: expected {leaf_text(leaf)} ({want}), got a tensor of {x.dtype}",
                hint=f"convert it yourself if that is meant: {leaf.path.split('.')[-1]}.to({want})",
            )
        if x.layout is not torch.strided:
            raise DtypeError(f"{what}: expected {leaf_text(leaf)}, got a tensor of layout {x.layout}",
                             hint="make it dense if that is meant: .to_dense()")  # fmt: skip

    # -- other entries

    def _other(self, kind: str, active: tuple[int, ...]) -> Call:
        """That of a derivative."""
        return call_of(self.f.derivative(kind, active))

    def batched(self, dims: Sequence[int | None], leaves: Sequence[Any], size: int) -> tuple[Call, list[Any]]:
        """That of a batch, and the components with the batch first, for those where it is a dimension."""
        moved = [x if d is None or d == 0 else x.movedim(d, 0) for x, d in zip(leaves, dims, strict=True)]
        many = {i for i, d in zip(self.owner, dims, strict=True) if d is not None}
        for k, (i, d) in enumerate(zip(self.owner, dims, strict=True)):
            if i in many and d is None:  # others of its argument have the batch
                x = torch.as_tensor(moved[k], dtype=DTYPES[self.params[k].elem])
                moved[k] = x.expand(size, *x.shape)
        axes = [0 if i in many else None for i in range(len(self.f.entry.params))]
        return call_of(vmap(self.f, axes)), moved

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
            torch.zeros_like(torch.as_tensor(x, dtype=DTYPES[leaf.elem])) if t is None else t
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


_How = Callable[[Call, list[Any]], Any]


def call_of(f: Function) -> Call:
    made = f.derived("torch call", lambda: Call(f))
    assert isinstance(made, Call)
    return made


def _functionalising() -> bool:
    """Whether `torch.func.functionalize` is one of the active transformations.  Raises UsageError where it is together
    with a derivative, which PyTorch has for no operator."""
    kinds = {level.key() for level in torch._C._functorch.get_interpreter_stack() or ()}
    transform = torch._C._functorch.TransformType
    if transform.Functionalize not in kinds:
        return False
    if kinds & {transform.Grad, transform.Jvp}:
        raise UsageError("torch.func.functionalize of an entry cannot be differentiated by torch.func",
                         hint="leave functionalize out (entries change nothing), or use torch.autograd")  # fmt: skip
    return True


def _applied(call: Call, leaves: list[Any]) -> Any:
    return call.apply(leaves) if torch.is_grad_enabled() or transforming() else call.run(leaves)


def _cotangents(ctx: Any, call: Call, bars: Sequence[Any]) -> Sequence[Any]:
    """Cotangents for all components of the result, zeros for those that have none."""
    if call.all_floats:  # autograd has zeros for those that it does not know
        return bars
    like = next(bar for bar, is_float in zip(bars, call.floats, strict=True) if is_float and bar is not None)
    return [
        bar if bar is not None and leaf.elem.is_float else _zero(leaf, shape, like)
        for bar, shape, leaf in zip(bars, ctx.shapes, call.results, strict=True)
    ]


def _zero(leaf: Leaf, shape: Any, like: torch.Tensor) -> Any:
    """A zero as the operator takes it, of the class that tensors have here."""
    if kind_of(leaf) == "Tensor":
        return like.new_zeros(shape, dtype=DTYPES[leaf.elem])
    return False if leaf.elem.is_bool else 0


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def _restored(ctx: Any) -> Sequence[Any]:
    """The components of the arguments of a call."""
    if ctx.numbers is None:
        return ctx.saved_tensors
    return [x if n is None else n for x, n in zip(ctx.saved_tensors, ctx.numbers, strict=True)]


def _save(ctx: Any, call: Call, leaves: Sequence[Any], made: Any) -> None:
    ctx.numbers = None
    if not all(map(_is_tensor, leaves)):
        ctx.numbers = [None if _is_tensor(x) else x for x in leaves]
        leaves = [x if _is_tensor(x) else None for x in leaves]
    ctx.save_for_backward(*leaves)
    if forward_ad._current_level >= 0 or transforming():
        ctx.save_for_forward(*leaves)
    if not call.all_floats:
        each = made if isinstance(made, tuple) else (made,)
        ctx.shapes = [y.shape for y in each]
        ctx.mark_non_differentiable(*[y for y, f in zip(each, call.floats, strict=True) if not f])


def _plain(call: Call) -> Callable[..., Any]:
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
    def forward(call: Call, *leaves: Any) -> Any:
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
    def vmap(info: Any, in_dims: tuple[Any, ...], call: Call, *leaves: Any) -> Any:
        batched, moved = call.batched(in_dims[1:], leaves, info.batch_size)
        made = batched.apply(moved)
        return made, tuple([0] * len(made)) if isinstance(made, tuple) else 0


def _forward_mode(ctx: Any, call: Call, tangents: Sequence[Any]) -> Any:
    made = call.tangents(_restored(ctx), tangents, _applied)
    return tuple(made) if len(made) > 1 else made[0]


# --- the operator of compiled code


_registered: dict[str, Any] = {}
_registering = threading.RLock()  # PyTorch refuses a name that it knows


def _operator_of(call: Call) -> Any:
    with _registering:
        return _operator_once(call)


def _operator_once(call: Call) -> Any:
    f = call.f
    try:
        told = pickle.dumps(f)
    except TypeError:  # no source: by this very function
        told = repr((id(f), f.symbol)).encode()
    plain = re.sub(r"\W+", "_", f.__name__).strip("_")
    name = f"{plain}_{hashlib.sha256(told).hexdigest()[:16]}"
    if name in _registered:
        return _registered[name]
    params = ", ".join([f"{kind_of(leaf)} a{k}" for k, leaf in enumerate(call.params)])
    results = ", ".join(["Tensor"] * len(call.results))
    schema = f"({params}) -> {results if len(call.results) == 1 else f'({results})'}"

    def run(*leaves: Any) -> Any:
        return call.run(leaves, inside=True)

    def fake(*leaves: Any) -> Any:
        tensors = {k: x for k, x in enumerate(leaves) if isinstance(x, torch.Tensor)}
        for k, x in tensors.items():
            call.check(k, x)
        device = next((x.device for x in tensors.values()), "cpu")
        meta = any(x.is_meta for x in tensors.values())
        try:
            specs = [tuple(s.shape) for s in f.shapes_of_leaves(leaves)]
        except UsageError:  # sizes that are found by running
            if meta:
                raise
            context = torch.library.get_ctx()
            specs = [tuple([context.new_dynamic_size() for _ in leaf.dims]) for leaf in call.results]
        device = torch.device("meta") if meta else device
        made = [torch.empty(s, dtype=DTYPES[r.elem], device=device) for s, r in zip(specs, call.results, strict=True)]
        return made[0] if len(made) == 1 else tuple(made)

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save(ctx, call, inputs, tuple(output) if isinstance(output, list) else output)

    def how(other: Call, leaves: list[Any]) -> Any:
        kinds = [(kind_of(leaf), DTYPES[leaf.elem]) for leaf in other.params]
        return other.operator()(*[given(x, k, d) for x, (k, d) in zip(leaves, kinds, strict=True)])

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


__all__ = ["Call", "call_of", "transforming"]
