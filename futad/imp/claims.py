"""What checked execution adds to the imperative IR (docs/checking.md), and where lowering tells what that needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.bindings import Binding, Loop
from futad.core import ir as core
from futad.core.types import U64, Prim, Var
from futad.frozen import frozen
from futad.imp.ir import ZERO, Ensure, Expr, Origin, Param, Stmt
from futad.imp.node import Declared, Node, Pointed, Read, Static, Text, Used
from futad.imp.records import Keep
from futad.imp.views import Value, View


@frozen
class Now(Expr):
    """The time; whatever is written from here on is later."""

    type: Prim = U64


@dataclass(slots=True, eq=False)
class Receive(Stmt):
    """Declare `name` as a pointer to a copy, in the slot, of the `count` elements that the caller has at `source`."""

    name: Declared
    elem: Prim
    source: Read
    count: Expr
    slot: int
    by: int = 0


@dataclass(slots=True, eq=False)
class Iteration(Stmt):
    """The loop of that number is in this iteration."""

    loop: int
    number: Expr


@dataclass(slots=True, eq=False)
class Doing(Stmt):
    """What follows is of the binding of that number: for host code, which does not say so of each statement."""

    binding: int


@dataclass(slots=True, eq=False)
class Region(Node):
    """An array in memory."""

    pointer: Read
    offset: Expr
    strides: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    elem: Prim


@dataclass(slots=True, eq=False)
class Claim(Stmt):
    """Stop unless what `kind` says of the array is so; `about` is the binding that it is said about.

    "read": it is as `origin` has it.  "made": all of it was written since `since`.  "holds": it is in the place of
    `other`, which is as `origin` has it, or was all written since.  "stays": it is in the place of `other`, or was all
    written since.  "own": nobody but `about` has written it since "mine", which marks all of it.
    """

    kind: Text
    array: Region
    about: int
    since: Used = ""
    origin: Origin | None = None
    other: Region | None = None


@dataclass(slots=True, eq=False)
class KeptApart(Keep):
    """A record whose values lie in blocks of their own: their elements and numbers of these."""

    elems: Static = ()
    counts: tuple[Expr, ...] = ()
    by: int = 0


@dataclass(slots=True, eq=False)
class EnsureFor(Ensure):
    """Memory for a copy of the array at `source`, which lies there already if the slot is that array's."""

    source: Pointed = ""
    offset: Expr = ZERO


class Unchecked:
    """A lowering's remarks, which only checked execution needs (`watch.py`).  `plain`: loops stay as lowering makes
    them, one iteration after the other."""

    plain = False
    bindings: Sequence[Binding] = ()
    loops: Sequence[Loop] = ()

    def bind(self, var: Var, value: Value) -> None:
        """The variable has that value."""
        raise NotImplementedError

    def define(self, var: Var, value: Value, e: core.Exp) -> None:
        """A statement gives the variable that value."""
        self.bind(var, value)

    def turning(self, params: Sequence[Var], values: Sequence[Value]) -> None:
        """An iteration ends, whose results are these."""

    def next_iteration(self, params: Sequence[Var]) -> None:
        """Loop variables have the values of the next iteration."""

    def reads(self, v: View) -> None:
        """A statement to come reads the array as a whole."""

    def changing(self, v: View) -> View:
        """The array, which may have changed since it was bound."""
        return v

    def keep(self, name: str, size: Expr, values: Sequence[tuple[Prim, Expr]]) -> Stmt:
        """What makes a record of so many bytes; its values by their elements and the numbers of these."""
        return Keep(name, size)

    def receive(self, param: Param, shape: Sequence[Expr]) -> None:
        """An array of the caller is an argument."""
