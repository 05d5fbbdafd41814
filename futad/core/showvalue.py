"""How values print, in Futhark's text format (`futad/runtime/textvalues.py` describes and reads it)."""

from __future__ import annotations

from typing import Any, TextIO

import numpy as np

from futad.core.types import PRIMS, Prim

_BY_DTYPE = {p.dtype: p for p in PRIMS.values()}


def write_text(value: Any, out: TextIO) -> None:
    """A NumPy scalar or array in text format, floats in the shortest form that reads back the same."""
    array = np.asarray(value)
    name = prim_of(array.dtype).name
    if array.ndim == 0:
        out.write(_scalar_texts(array.reshape(1), name)[0])
    elif array.size == 0:
        out.write("empty(" + "".join(f"[{d}]" for d in array.shape) + f"{name})")
    else:
        texts = _scalar_texts(array.reshape(-1), name)
        for width in reversed(array.shape):
            texts = ["[" + ", ".join(texts[i : i + width]) + "]" for i in range(0, len(texts), width)]
        out.write(texts[0])


def prim_of(dtype: np.dtype[Any]) -> Prim:
    """The scalar type that has a NumPy type."""
    return _BY_DTYPE[dtype]


def _scalar_texts(flat: np.ndarray[Any, Any], name: str) -> list[str]:
    if name == "bool":
        return ["true" if x else "false" for x in flat.tolist()]
    if name[0] != "f":
        return [f"{x}{name}" for x in flat.tolist()]
    # NumPy finds the shortest digits of a type; Python lays them out, as NumPy does differently for each.
    texts = [repr(x) for x in (flat.tolist() if name == "f64" else [float(str(x)) for x in flat])]
    if not np.isfinite(flat).all():
        special = {"nan": f"{name}.nan", "inf": f"{name}.inf", "-inf": f"-{name}.inf"}
        return [special.get(t) or t + name for t in texts]
    return [t + name for t in texts]
