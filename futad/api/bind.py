"""Entries with some arguments bound.

    loss = futad.bind(prog.loss, x=data, y=labels)
    futad.value_and_grad(loss)(w)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from futad.api.derivatives import _entry
from futad.api.derive import MOVED, VMAP
from futad.api.program import Function
from futad.core.budget import Budget
from futad.errors import Error, UsageError, outside
from futad.runtime.fast_arguments import Plan, plan
from futad.runtime.native import NativeEntry
from futad.runtime.shapes import Spec
from futad.runtime.structure import build_value, count_leaves, count_text
from futad.runtime.values import Signature, entry_text


def bind(f: Function, *args: Any, **kwargs: Any) -> Function:
    """The entry f with arguments bound: the first ones to `args`, of which `...` stays free, others by name.

    What comes back is called with the others, and derivatives of it are derivatives with respect to these; `argnums`
    count the free ones.  Bound arrays are not copied: those of them that f takes as they are (of its dtype, dense) are
    seen as they are when it is called.  Raises UsageError for an argument that f does not have.
    """
    f = _entry(f, "bind")
    given: dict[int, Any] = {i: a for i, a in enumerate(args) if a is not ...}
    if len(args) > len(f.entry.params):
        message = f"bind: {f.__name__} takes {count_text(len(f.entry.params), 'argument')}, not {len(args)}"
        raise UsageError(message, hint=entry_text(f.entry))
    names = list(f.__signature__.parameters)
    for name, value in kwargs.items():
        if name not in names:
            raise UsageError(f"bind: {f.__name__} has no argument '{name}'", hint=entry_text(f.entry))
        if names.index(name) in given:
            raise UsageError(f"bind: argument '{name}' of {f.__name__} is given twice")
        given[names.index(name)] = value
    return Bound(f, given) if given else f


@dataclass(slots=True)
class _FreeSignature(Signature):
    """The signature of what is left of an entry: it knows no sizes, which the whole entry finds."""

    convert: Callable[[Sequence[Any]], list[Any]] = field(default=list, compare=False, repr=False)

    def flatten(self, args: Sequence[Any]) -> list[Any]:
        return self.convert(args)

    def bind(self, leaves: list[Any]) -> list[Any]:
        return leaves


class Bound(Function):
    """An entry with arguments bound; see `bind`.  `of`: the entry, `given`: values by the numbers of arguments."""

    of: Function
    given: dict[int, Any]
    free: list[int]

    def __init__(self, of: Function, given: Mapping[int, Any]) -> None:
        self.of, self.given = of, dict(given)
        if isinstance(of, Bound):  # one level is enough
            self.of, self.given = of.of, {**of.given, **{of.free[i]: value for i, value in given.items()}}
        of = self.of
        entry, whole = of.entry, of.signature
        self.free = [i for i in range(len(entry.params)) if i not in self.given]
        owner = [i for i, (_, t) in enumerate(entry.params) for _ in range(count_leaves(t))]
        self._free_leaves = [k for k, i in enumerate(owner) if i in self.free]
        self._bound: dict[int, Any] = {}
        for i, value in self.given.items():
            self._bound |= zip([k for k, o in enumerate(owner) if o == i], whole.components(i, value), strict=True)
            if all(isinstance(self._bound[k], np.ndarray | np.generic) for k, o in enumerate(owner) if o == i):
                leaves = [self._bound[k] for k, o in enumerate(owner) if o == i]
                self.given[i] = build_value(entry.params[i][1], iter(leaves))
        self._own = [k for k in self._bound if owner[k] < len(entry.unique) and entry.unique[owner[k]]]
        unique = tuple([entry.unique[i] for i in self.free if i < len(entry.unique)])
        left = replace(entry, params=tuple([entry.params[i] for i in self.free]), unique=unique)
        params = tuple([whole.params[k] for k in self._free_leaves])
        converted = _FreeSignature(left, (), params, whole.results, whole.witnesses, whole.docs, convert=self._leaves)
        self._plan: Plan | None | Literal[False] = False  # not made yet
        super().__init__(of.executable, of.symbol, converted)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Bound, (self.of, self.given)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            if self._plan is False:
                self._plan = self._planned()
            if self._plan is not None and (flat := self._plan.bind(args)) is not None:
                try:
                    return self.of.on_flat(flat)
                except Error as e:
                    raise outside(e) from e.__cause__
        out = {}
        if "out" in kwargs and "out" not in self.__signature__.parameters:
            out = {"out": kwargs.pop("out")}
        return self.of(*self._all(self.positional(args, kwargs) if kwargs else args), **out)

    def _planned(self) -> Plan | None:
        """How calls are bound that give what is free.  Of bound arrays it has views: their elements are as they are
        when it is called, their shapes stay."""
        values = list(self._bound.values())
        if type(self.of) is not Function or not all(type(v) is np.ndarray or isinstance(v, np.generic) for v in values):
            return None
        return plan(self.of.signature, {k: v.view() if type(v) is np.ndarray else v for k, v in self._bound.items()})

    def call_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        return self.of.call_leaves(self.all_leaves(leaves))

    def call_into(self, leaves: Sequence[Any], outs: Sequence[np.ndarray[Any, Any]]) -> None:
        self.of.call_into(self.all_leaves(leaves), outs)

    def native(self) -> NativeEntry:
        raise UsageError(f"{self.__name__} has bound arguments, which its code does not know",
                         hint="take that of the entry itself")  # fmt: skip

    def shapes_of_leaves(self, leaves: Sequence[Any]) -> list[Spec]:
        return self.of.shapes_of_leaves(self.all_leaves(leaves))

    def _derive(
        self, kind: str, active: tuple[Any, ...], single: bool, engine: str = "", budget: Budget | None = None
    ) -> Function:
        def make() -> Function:
            if kind == VMAP:
                axes = dict(zip(self.free, active, strict=True))
                inner = tuple([axes.get(i) for i in range(len(self.of.entry.params))])
            elif kind == MOVED:
                inner = active
            else:
                inner = tuple([self.free[i] for i in active])
            return Bound(self.of._derive(kind, inner, single, engine, budget), self.given)

        made = self.derived((kind, active, single, engine, budget), make)
        assert isinstance(made, Function)
        return made

    def _all(self, args: Sequence[Any]) -> list[Any]:
        """The arguments of the whole entry."""
        if len(args) != len(self.free):
            count = count_text(len(self.free), "argument")
            raise UsageError(f"{self.__name__} takes {count}, not {len(args)}", hint=self.signature.text())
        every = dict(zip(self.free, args, strict=True)) | self.given
        return [every[i] for i in range(len(every))]

    def all_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """The components of all arguments, from those of the free ones; what the entry may overwrite is copied."""
        every = dict(zip(self._free_leaves, leaves, strict=True)) | self._bound
        every |= {k: np.copy(every[k]) for k in self._own}
        return [every[k] for k in range(len(every))]

    def _leaves(self, args: Sequence[Any]) -> list[Any]:
        """The components of the arguments that are free, all having been looked at."""
        flat = self.of.signature.flatten(self._all(args))
        return [flat[len(self.of.signature.size_names) + k] for k in self._free_leaves]


__all__ = ["Bound", "bind"]
