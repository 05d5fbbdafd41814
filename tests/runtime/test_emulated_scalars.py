"""Every scalar operation at every type as CUDA C on the CPU simulator equals the table's NumPy evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core import scalarops
from futad.core.scalarops import OPS, ScalarOp
from futad.runtime import cubin
from futad.runtime.emulated import EmulatedModule
from tests.support.needs import needs_toolkit
from tests.support.scalar_cases import C_TYPES, CASES, inputs, tolerance


def kernel_source() -> str:
    """One kernel for each operation and type."""
    out = ['#include "futad_scalar.cuh"']
    for op, t in CASES:
        args = op.arg_types(t)
        result = op.result_type(args)
        expr = op.c_template(t).format(
            *[f"x{i}[i]" for i in range(len(args))],
            t=C_TYPES[t.name], T=t.name, r=C_TYPES[result.name], u=C_TYPES[t.name.replace("i", "u")],
        )  # fmt: skip
        params = "".join(f", const {C_TYPES[a.name]} *x{i}" for i, a in enumerate(args))
        out.append(
            f"FUTAD_KERNEL {op.name}_{t.name}(int64_t n, {C_TYPES[result.name]} *r{params}) {{\n"
            f"  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) r[i] = {expr};\n}}"
        )
    return "\n".join(out)


@pytest.fixture(scope="module")
def module() -> EmulatedModule:
    return EmulatedModule(kernel_source())


@pytest.mark.slow
@pytest.mark.parametrize("op", list(OPS.values()), ids=lambda op: op.name)
def test_device_equals_numpy(module: EmulatedModule, op: ScalarOp) -> None:
    for t in op.types:
        args = inputs(op, t)
        expected = np.asarray(scalarops.evaluate(op.name, *args))
        actual = np.empty_like(expected)
        n = expected.size
        module.launch(f"{op.name}_{t.name}", -(-n // 256), 256, 0, [np.int64(n), actual, *args])
        if not op.result_type(op.arg_types(t)).is_float:
            bad = actual != expected
        else:
            with np.errstate(all="ignore"):
                a, e = actual.astype("float64"), expected.astype("float64")
                bad = np.isnan(a) != np.isnan(e)
                bad |= ~np.isnan(e) & (a != e) & ~(np.abs(a - e) <= tolerance(op, args, expected))
        where = np.flatnonzero(bad)[:8]
        table = [([a[i] for a in args], actual[i], expected[i]) for i in where]
        assert not len(where), f"{op.name} at {t}: {np.count_nonzero(bad)} of {n}; args, device, NumPy: {table}"


@pytest.mark.slow
@needs_toolkit
def test_compiles_for_a_card() -> None:
    """Every operation at f64, f32, f16 and i64 in one module: the words it uses are CUDA's too."""
    lines = kernel_source().split("FUTAD_KERNEL ")
    chosen = [k for k in lines[1:] if k.split("(")[0].rsplit("_", 1)[1] in ("f16", "i64")]
    assert cubin.compile_cubin("FUTAD_KERNEL ".join([lines[0], *chosen]), "sm_90").kernels
