"""What `#[checkpoint(...)]` and `#[reversible(...)]` say of a loop or a derivative: a budget (`core/budget.py`).

    #[checkpoint]                     as many states as times that an iteration is run again
    #[checkpoint(30)]                 states beside the first one
    #[checkpoint(reruns=3)]           or reruns(3), which Futhark's grammar has, too
    #[checkpoint(memory="4MB")]
    #[checkpoint(method=bisection)]   #[checkpoint(nest=false)]
    #[reversible]   #[reversible(1e-10)]   #[reversible(exact)]   #[reversible(false)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from futad.core.budget import Budget, budget_of
from futad.errors import TypeCheckError, UsageError
from futad.source import ast as A
from futad.source.sizes import is_intrinsic

NAMES = ("checkpoint", "reversible")
REVERSE = ("vjp", "vjp2", "mjp", "mjp2")
KEYS = ("memory", "reruns", "method", "nest")
WRONG = "E0106"


def attributes_of(e: A.Expr) -> tuple[list[A.Attr], A.Expr]:
    """The attributes of that kind that stand before an expression, and what else stands there."""
    if not isinstance(e, A.EAttr):
        return [], e
    found, rest = attributes_of(e.expr)
    if e.attr.name in NAMES:
        return [e.attr, *found], rest
    if rest is e.expr:
        return found, e
    other = A.EAttr(e.span, e.attr, rest)
    other.type = e.type
    return found, other


def takes_one(e: A.Expr) -> bool:
    """Whether an expression is one that a budget is for, whatever attributes and types are with it: a loop, or a
    reverse-mode derivative."""
    while isinstance(e, A.EAttr | A.EAscript | A.ECoerce):
        e = e.expr
    if isinstance(e, A.ELoop):
        return True
    while isinstance(e, A.EApp):
        e = e.fun
    return isinstance(e, A.EVar) and e.name in REVERSE and is_intrinsic(e)


def budget(attrs: list[A.Attr], constant: Callable[[str, A.Attr], Any]) -> Budget:
    """The budget that attributes say together; `constant` is the value of a name.  Raises TypeCheckError."""
    said: dict[str, Any] = {}
    for a in attrs:
        for name, value in _options(a, constant).items():
            if name in said:
                raise TypeCheckError(f"'{name}' is said twice", a.span, code=WRONG)
            said[name] = value
        try:
            made = budget_of(**said)
        except UsageError as e:
            raise TypeCheckError(e.message, a.span, hint=e.hint, code=WRONG) from None
    if made is None:  # `nest=true` alone
        raise TypeCheckError("the attribute says nothing", attrs[-1].span, code=WRONG)
    return made


def _options(a: A.Attr, constant: Callable[[str, A.Attr], Any]) -> dict[str, Any]:
    """The options that one attribute says."""
    if a.name == "reversible":
        if len(a.args) > 1:
            raise TypeCheckError("'reversible' takes one argument", a.span, code=WRONG)
        (x,) = a.args or (True,)
        return {"reversible": constant(x, a) if type(x) is str and x != "exact" else _plain(x)}
    out: dict[str, Any] = {} if a.args else {"checkpoints": "log"}
    for x in a.args:
        name, value = ("checkpoints", x) if not isinstance(x, A.Attr) else (x.name, x.args[0])
        if name not in (*KEYS, "checkpoints") or isinstance(x, A.Attr) and len(x.args) > 1:
            hint = f"a number of states, 'log', or one of {', '.join(f'{k}=...' for k in KEYS)}"
            raise TypeCheckError(f"'checkpoint' takes no '{name}' of this form", a.span, hint=hint, code=WRONG)
        if name in out:
            raise TypeCheckError(f"'{name}' is said twice", a.span, code=WRONG)
        if name == "nest" and not isinstance(value, bool):
            raise TypeCheckError("nest must be true or false", a.span, code=WRONG)
        named = type(value) is str and name != "method" and value != "log"
        out[name] = constant(value, a) if named else _plain(value)
    return out


def _plain(x: Any) -> Any:
    return str(x) if isinstance(x, A.AttrText) else x


__all__ = ["NAMES", "attributes_of", "budget", "takes_one"]
