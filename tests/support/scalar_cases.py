"""Inputs of every scalar operation at every type, and how far a result may be off."""

from __future__ import annotations

import numpy as np

from futad.core import scalarops
from futad.core.scalarops import OPS, ScalarOp
from futad.core.types import BOOL, Prim

C_TYPES = {
    "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f16": "futad_f16", "f32": "float", "f64": "double", "bool": "bool",
}  # fmt: skip

CASES = [(op, t) for op in OPS.values() for t in op.types]


def specials(t: Prim) -> np.ndarray:
    """The values at which operations go wrong, and ordinary ones."""
    if t is BOOL:
        return np.array([False, True])
    if t.is_integral:
        lo, hi = np.iinfo(t.dtype).min, np.iinfo(t.dtype).max
        near = [
            0,
            1,
            2,
            3,
            5,
            7,
            t.bits - 1,
            t.bits,
            t.bits + 1,
            hi,
            hi - 1,
            hi // 2,
            hi // 3,
            lo,
            lo + 1,
            lo // 2,
        ]
        values = near + ([-1, -2, -3, -7, -t.bits] if t.kind == "int" else [])
        return np.array(sorted(set(values)), dtype=object).astype(t.dtype)
    info = np.finfo(t.dtype)
    reals = [
        0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.3, 1.5, 2.0, 2.5, 3.0, 3.7, 5.0, 7.25, 10.0, 30.0, 127.5,
        200.0, 1000.5, np.inf, float(info.max), float(info.tiny), float(info.eps),
        float(info.smallest_subnormal),
    ]  # fmt: skip
    if t.bits >= 32:
        reals += [2.0**31, 2.0**31 - 1, 2.0**32, 2.0**63, 2.0**64, 1e30]
    return np.array(reals + [-v for v in reals] + [np.nan], dtype=t.dtype)


def inputs(op: ScalarOp, t: Prim) -> list[np.ndarray]:
    """All combinations of the special values, flat."""
    pools = [specials(a) for a in op.arg_types(t)]
    if op.name == "fma":
        pools = [p[::3] for p in pools]
    grids = np.meshgrid(*pools, indexing="ij")
    flat = [np.ascontiguousarray(g.reshape(-1)) for g in grids]
    if op.can_fail and t.is_integral:
        keep = flat[1] != 0
        flat = [np.ascontiguousarray(f[keep]) for f in flat]
    return flat


# Units in the last place: libmvec promises 4; formulas of our own round their intermediates.
ULPS = {
    "digamma": 64,
    "trigamma": 64,
    "polygamma": 64,
    "lgamma": 16,
    "gamma": 16,
    "asinpi": 6,
    "acospi": 6,
    "atanpi": 6,
    "atan2pi": 6,
}


def tolerance(op: ScalarOp, args: list[np.ndarray], expected: np.ndarray) -> np.ndarray:
    """The error allowed: some ulp of the result, or of the terms where the formula itself cancels."""
    size = np.abs(expected.astype("float64"))
    wide = [np.abs(a.astype("float64")) for a in args]
    if op.name == "fma":
        size = wide[0] * wide[1] + wide[2]
    elif op.name in ("mod", "digamma", "trigamma", "tanpi", "tan"):
        size = size + size**2 + 1
    elif op.name == "polygamma":
        # Left of 0 there are poles all around, which cancel halfway for even orders.
        size = size + np.where(args[1] < 0, np.abs(scalarops.evaluate("polygamma", args[0], np.abs(args[1]) % 1)), 0)
    elif op.name in ("sinpi", "cospi", "sin", "cos", "lgamma"):
        size = size + 1
    info = np.finfo(expected.dtype)
    return ULPS.get(op.name, 4) * (size * float(info.eps) + float(info.smallest_subnormal))
