"""Components of entries as tensors: which dtype each is, which tensors it can be, how compiled code gets them."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from futad.api.program import Function
from futad.core.types import PRIMS
from futad.runtime.values import Leaf

DTYPES = {p: getattr(torch, p.dtype.name) for p in PRIMS.values() if hasattr(torch, p.dtype.name)}
NUMPY = {dtype: p.dtype for p, dtype in DTYPES.items()}
_DISPATCHES_NOT = torch._C._disabled_torch_dispatch_impl


def kind_of(leaf: Leaf) -> str:
    """How a component is given to the operator."""
    if leaf.dims or leaf.elem.is_float:
        return "Tensor"
    return "bool" if leaf.elem.is_bool else "SymInt"


def given(x: Any, kind: str, dtype: Any) -> Any:
    """A component as the operator takes it."""
    if kind == "Tensor":
        return x if hasattr(x, "__torch_function__") else torch.as_tensor(x, dtype=dtype)
    return x.item() if isinstance(x, torch.Tensor) else x


def here(x: torch.Tensor) -> bool:
    """Whether NumPy can see a tensor's memory."""
    return x.is_cpu and x.layout is torch.strided and not x.is_neg()


def dispatches(x: Any) -> bool:
    """Whether calls with this component are somebody else's: of a class that dispatches itself, without elements."""
    if not isinstance(x, torch.Tensor):
        return hasattr(x, "__torch_function__")
    return type(x).__torch_dispatch__ is not _DISPATCHES_NOT or x.is_meta or torch._is_functional_tensor(x)


def in_batch(x: Any) -> bool:
    """Whether a tensor stands for a batch that is none of torch.func."""
    return isinstance(x, torch.Tensor) and bool(torch._C._functorch.is_legacy_batchedtensor(x))


def binder(f: Function) -> Any:
    """The function from components that are as they are needed to core arguments, arrays by their addresses, with what
    must live until the call is over; None if `Call.run` has to convert or to explain, as `fast_arguments.Plan`."""
    s = f.signature
    if type(f) is not Function or any(f.entry.unique) or any(leaf.elem not in DTYPES for leaf in s.params):
        return None
    if s.witnesses:  # the results bring sizes along
        return None
    values: dict[str, Any] = {"Tensor": torch.Tensor, "Parameter": torch.nn.Parameter, "strided": torch.strided}
    names = [f"a{k}" for k in range(len(s.params))]
    lines = ["def bind(leaves):", f"  {''.join([n + ', ' for n in names])}= leaves" if names else "  pass"]
    places: dict[int, str] = {}
    core = []
    for k, leaf in enumerate(s.params):
        values |= {f"dtype{k}": DTYPES[leaf.elem], f"exact{k}": float if leaf.elem.is_float else int}
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


__all__ = ["DTYPES", "NUMPY", "binder", "dispatches", "given", "here", "in_batch", "kind_of"]
