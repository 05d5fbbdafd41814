"""The numeric modules (`f64.exp`, `i64.max`, `i32.f64`) and the overloaded operators: their types.

Each member is an intrinsic, made when a program first mentions it; source/lower/numeric.py lowers them.
"""

from __future__ import annotations

from futad.core.scalarops import OPS
from futad.core.types import PRIMS
from futad.registry import once
from futad.source.types import Binding, Scheme, SizeVar, SType, TArray, TFun, TParam, TPrim

_T = {n: TPrim(p) for n, p in PRIMS.items()}
_BITS = {"f16": "u16", "f32": "u32", "f64": "u64"}

# Types of members that are no scalar operation, over the module's own type t; `[]t` is an array of any size.
_COMMON = {"highest lowest": "t", "sum product maximum minimum": "[]t t", "to_i64": "t i64"}
_BITS_OF = {"num_bits": "i32", "get_bit": "i32 t i32", "set_bit": "i32 t i32 t"}
_INTEGRAL = {**_BITS_OF, "mad_hi": "t t t t"}
_FLOAT = {
    **_BITS_OF,
    "recip": "t t",
    "lerp mad": "t t t t",
    "from_fraction": "i64 i64 t",
    "to_f64": "t f64",
    "inf nan pi e epsilon": "t",
    "from_bits": "u t",
    "to_bits": "t u",
}

# Overloaded operators: the kind of their operands, and whether they compare.
_OPERATORS = {
    **{op: ("num", False) for op in ("+", "-", "*", "/", "%", "**")},
    **{op: ("int", False) for op in ("//", "%%", "<<", ">>", ">>>")},
    **{op: ("bits", False) for op in ("&", "|", "^")},
    **{op: ("ord", True) for op in ("<", "<=", ">", ">=")},
    **{op: ("eq", True) for op in ("==", "!=")},
}

# The kinds of the type parameters of operators.
KINDS: dict[Binding, str] = {}


def module_members(module: str) -> dict[str, str]:
    """The members of a numeric module and their types in the tables' notation (conversions apart)."""
    p = PRIMS[module]
    tables = [] if p.is_bool else [_COMMON, _FLOAT if p.is_float else _INTEGRAL]
    members = {name: spec for table in tables for names, spec in table.items() for name in names.split()}
    for op in OPS.values():
        *params, _, result = op.sig.replace("a", "t").split() if op.source else ("", "")
        for name, swapped in op.names(p):
            members[name] = " ".join([*(params[::-1] if swapped else params), result])
    return members


def is_module(name: str) -> bool:
    return name in PRIMS


@once
def member(module: str, name: str) -> Binding | None:
    """The intrinsic `module.name`, or None if there is none."""
    if module not in PRIMS:
        return None
    own = _T[module]
    spec = module_members(module).get(name)
    if spec is None:
        if name in PRIMS:
            return Binding(f"{module}.{name}", "intrinsic", Scheme((), (), TFun(_T[name], own)))
        return None
    sizes: list[Binding] = []
    *params, result = spec.split()

    def of(word: str) -> SType:
        if word == "t":
            return own
        if word == "u":
            return _T[_BITS[module]]
        if word == "[]t":
            sizes.append(Binding("n", "size"))
            return TArray(SizeVar(sizes[-1]), own)
        return _T[word]

    t = of(result)
    for p in reversed(params):
        t = TFun(of(p), t)
    return Binding(f"{module}.{name}", "intrinsic", Scheme((), tuple(sizes), t))


@once
def operator(name: str) -> Binding | None:
    """The overloaded operator of that name, or None."""
    found = _OPERATORS.get(name)
    if found is None:
        return None
    kind, compares = found
    b = Binding("t", "tparam")
    KINDS[b] = kind
    t = TParam(b)
    result: SType = _T["bool"] if compares else t
    return Binding(name, "intrinsic", Scheme((b,), (), TFun(t, TFun(t, result))))
