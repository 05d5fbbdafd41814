"""C of the scalar operations that are functions of floats, made of their records; `kernels/prelude.h` includes it.

    scalar_declarations.h   the functions of the C mathematical library
    scalar_vectors.h        those with vector variants, for clang (`kernels/clang_vectors.h`)
    scalar_functions.h      futad_NAME_f64 and futad_NAME_f32
    scalar_halves.h         futad_NAME_f16
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from futad.core.scalarops import OPS, ScalarOp
from futad.core.types import Prim, prim

SAME_BITS = "#define FUTAD_SAME_BITS 1\n"  # of a text for devices: products and sums do not contract
_F32, _F16 = prim("f32"), prim("f16")
_C = {"f64": ("double", ""), "f32": ("float", "f")}  # the type, and the suffix of the library's names
_VECTOR = {"": "FUTAD_CONST", "2.22": "FUTAD_VEC", "2.35": "FUTAD_VEC35"}


def same_bits(source: str) -> str:
    """The text of kernels, marked if they say `found`: these have to compute what others do to the bit."""
    return SAME_BITS + source if "futad_found_" in source else source


_made: list[tuple[list[ScalarOp], dict[str, str]]] = []  # the texts made last, and of what


OWN_VECTORS = ("exp", "tanh", "sin", "cos", "log")  # functions of the library that kernels/vector_functions.h has


def vector_functions(text: str) -> list[str]:
    """Those of `OWN_VECTORS` that the operations called in the text of C may call."""
    called = [OPS[name] for name in set(re.findall(r"\bfutad_(?:lanes_)?(\w+)_f(?:64|32)\(", text)) if name in OPS]
    words = {word for op in called for word in (op.library, *re.findall(r"\b(\w+?)(?:{s})?\(", op.define))}
    return [name for name in OWN_VECTORS if name in words]


def generated() -> dict[str, str]:
    """The texts by the names of their files."""
    ops = list(OPS.values())
    if not _made or _made[0][0] != ops:
        _made[:] = [(ops, _generated())]
    return _made[0][1]


def _generated() -> dict[str, str]:
    functions = [op for op in OPS.values() if _F32 in op.types and f"futad_{op.name}_{{T}}" in op.c_template(_F32)]
    vectors = [op for op in OPS.values() if op.library and op.vector]
    return {
        "scalar_declarations.h": "".join(map(_declared, [op for op in OPS.values() if op.library])),
        "scalar_vectors.h": "".join([f'FUTAD_VECTORS({op.library}, "{"v" * op.arity}")\n' for op in vectors]),
        "scalar_functions.h": "".join(line for op in functions for line in _functions(op)),
        "scalar_halves.h": "".join(map(_half, [op for op in functions if _F16 in op.types])),
    }


def _declared(op: ScalarOp) -> str:
    params = [", ".join([t] * op.arity) for t, _ in _C.values()]
    names = [f"{t} {op.library}{s}" for t, s in _C.values()]
    attribute = _VECTOR[op.vector]
    return "".join(f"{attribute} {name}({p});\n" for name, p in zip(names, params, strict=True))


def _functions(op: ScalarOp) -> Iterator[str]:
    body = op.define or (f"{op.library}{{s}}({', '.join('xyz'[: op.arity])})" if op.library else "")
    for name, (t, s) in _C.items() if body else ():
        yield _function(op, prim(name), t, body.replace("{t}", t).replace("{s}", s))


def _half(op: ScalarOp) -> str:
    if op.half == "":
        return ""
    args = ", ".join(f"(float){x}" for x in "xyz"[: op.arity])
    return _function(op, _F16, "futad_f16", op.half or f"(futad_f16)futad_{op.name}_f32({args})")


def _function(op: ScalarOp, t: Prim, c_type: str, body: str) -> str:
    result = "bool" if op.result_type(op.arg_types(t)).is_bool else c_type
    params = ", ".join(f"{c_type} {x}" for x in "xyz"[: op.arity])
    inside = body if "return" in body else f"return {body};"
    return f"FUTAD_INLINE {result} futad_{op.name}_{t.name}({params}) {{ {inside} }}\n"


__all__ = ["SAME_BITS", "generated", "same_bits", "vector_functions"]
