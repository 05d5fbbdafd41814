"""One record is all that a scalar operation needs: names in the source, C, derivatives, documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.cli.ops import table
from futad.core import scalarlib
from futad.core.scalarops import FLOATS, OPS, REDUCTIONS, ScalarOp
from futad.core.types import PRIMS
from futad.source.numeric import module_members
from futad.testing import check_grads
from tests.support.cli_helpers import Runner
from tests.support.needs import has_cxx, needs_cc
from tests.support.slow import slow_but

SOFTPLUS = ScalarOp(
    "softplus", "a -> a", FLOATS, lambda x: np.log1p(np.exp(x)), "futad_softplus_{T}({0})",
    (lambda x, r: 1 / (1 + (-x).exp()),), source="softplus", define="log1p{s}(exp{s}(x))", cost=30,
)  # fmt: skip
# Of the mathematical library, with two arguments, and under two names.
REACH = ScalarOp(
    "reach", "a a -> a", FLOATS, lambda x, y: np.maximum(x - y, 0).astype(np.asarray(x).dtype),
    "futad_reach_{T}({0}, {1})", (lambda x, y, r: y.op("lt", x).to(x), lambda x, y, r: -y.op("lt", x).to(x)),
    source="reach behind~", library="fdim",
)  # fmt: skip

TEXT = """
entry plus64 (xs: []f64) = map f64.softplus xs
entry plus32 (xs: []f32) = map f32.softplus xs
entry plus16 (xs: []f16) = map f16.softplus xs
entry ahead (xs: []f64) (y: f64) = map (\\x -> f64.reach x y) xs
entry behind (xs: []f64) (y: f64) = map (f64.behind y) xs
entry total (xs: []f64) (y: f64): f64 = f64.sum (map (\\x -> f64.softplus (x * y) + f64.reach x (y * 0.5)) xs)
entry constant (y: f64) = f64.softplus 0 + f64.reach y 1
entry many (xs: []f64) = f64.sum (map (\\x -> loop s = x for _i < 3 do f64.softplus (s - 1)) xs)
"""
BACKENDS = [
    "interp", pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=needs_cc),
    pytest.param("emulated", marks=pytest.mark.skipif(not has_cxx(), reason="no C++ compiler")),
]  # fmt: skip


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    for record in (SOFTPLUS, REACH):
        monkeypatch.setitem(OPS, record.name, record)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operation_is_added_by_one_record(added: None, backend: str) -> None:
    p = futad.compile(TEXT, backend=backend)
    xs = np.linspace(-4, 4, 67)
    for name, dtype, tolerance in (("plus64", "f8", 1e-14), ("plus32", "f4", 1e-6), ("plus16", "f2", 2e-3)):
        got = np.asarray(p[name](xs.astype(dtype)))
        assert got.dtype == dtype
        np.testing.assert_allclose(got.astype("f8"), np.log1p(np.exp(xs.astype(dtype).astype("f8"))), rtol=tolerance)
    np.testing.assert_allclose(p.ahead(xs, 0.3), np.maximum(xs - 0.3, 0), rtol=1e-15)
    np.testing.assert_allclose(p.behind(xs, 0.3), np.maximum(xs - 0.3, 0), rtol=1e-15)
    assert p.constant(3.0) == pytest.approx(np.log(2) + 2, rel=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_it_is_differentiated(added: None, backend: str) -> None:
    """Both modes against central differences, and against the formula."""
    p = futad.compile(TEXT, backend=backend)
    xs, y = np.array([-1.7, 0.2, 0.9, 3.1]), 1.3
    check_grads(p.total, xs, y)
    check_grads(p.many, xs)
    dxs, dy = futad.grad(p.total, argnums=(0, 1))(xs, y)
    s = 1 / (1 + np.exp(-xs * y))
    np.testing.assert_allclose(dxs, s * y + (xs > y / 2), rtol=1e-13)
    assert dy == pytest.approx((s * xs).sum() - 0.5 * (xs > y / 2).sum(), rel=1e-13)


def test_it_is_listed(added: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    out = Runner(tmp_path, monkeypatch, capfdbinary)("dev", "--ops").out
    lines = {line.split()[0]: line.split() for line in out.splitlines()[1:]}
    assert lines["softplus"] == "softplus a -> a floats softplus futad_softplus_f64(x) 1 / (1 + exp(-x))".split()
    assert lines["reach"][5:9] == ["floats", "reach", "behind", "futad_reach_f64(x,"]


def test_every_operation_is_listed() -> None:
    lines = table().splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(OPS)
    for line, op in zip(lines[1:], OPS.values(), strict=True):
        assert op.sig in line and all(name in line.split() for p in op.types for name, _ in op.names(p))
        assert line.endswith("-") == (op.partials is None), op.name


def test_names_of_the_source_are_of_one_operation() -> None:
    for module, p in PRIMS.items():
        names = [name for op in OPS.values() for name, _ in op.names(p)]
        assert len(set(names)) == len(names), module
        assert set(names) <= set(module_members(module))


def test_what_the_c_is_made_of() -> None:
    texts = scalarlib.generated()
    assert "FUTAD_VEC35 double tanh(double);" in texts["scalar_declarations.h"].splitlines()
    functions = texts["scalar_functions.h"].splitlines()
    assert "FUTAD_INLINE float futad_atan2_f32(float x, float y) { return atan2f(x, y); }" in functions
    assert "FUTAD_INLINE bool futad_isnan_f64(double x) { return x != x; }" in functions
    for op in OPS.values():
        if op.library:
            assert f"double {op.library}(" in texts["scalar_declarations.h"]
        if op.define or op.library:
            assert f" futad_{op.name}_f64(" in texts["scalar_functions.h"], op.name
    assert set(REDUCTIONS) == {"add", "mul", "min", "max", "and", "or", "xor"}


@pytest.mark.parametrize("backend", [b if b == "interp" else pytest.param(*b.values, marks=[*b.marks, pytest.mark.slow])
                                     for b in BACKENDS])  # fmt: skip
def test_extrema_of_zeros(backend: str) -> None:
    """Of equal numbers `min` and `max` are the second, in maps, scans, loops and of constants, whatever else is
    computed; a reduction of zeros of one sign is that zero."""
    source = "".join(
        f"""entry pair_{t} (x: {t}) (y: {t}) = ({t}.min x y, {t}.max x y, {t}.min y x, {t}.max y x)
entry maps_{t} (xs: []{t}) (ys: []{t}) = (map2 {t}.min xs ys, map2 {t}.max xs ys)
entry constants_{t} (xs: []{t}) = (map (\\x -> {t}.min x 0) xs, map ({t}.min 0) xs, map ({t}.max (-0.0)) xs)
entry scans_{t} (xs: []{t}) = (scan {t}.min {t}.inf xs, scan {t}.max (-{t}.inf) xs)
entry loops_{t} (xs: []{t}) = loop (m, k) = (0, xs[0]) for x in xs do ({t}.min m x, {t}.max k x)
entry folds_{t} (xs: []{t}) = ({t}.minimum xs, {t}.maximum xs)
"""
        for t in ("f16", "f32", "f64")
    )
    program = futad.compile(source, backend=backend)
    for t in ("f16", "f32", "f64"):
        zeros = np.tile(np.array([0.0, -0.0, -0.0, 0.0, -0.0], PRIMS[t].dtype), 9)
        for x, y in ((0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0)):
            got = program[f"pair_{t}"](zeros.dtype.type(x), zeros.dtype.type(y))
            assert list(np.signbit(got)) == [np.signbit(y), np.signbit(y), np.signbit(x), np.signbit(x)]
        others = np.roll(zeros, 1)
        for got, want in (
            *[(r, others) for r in program[f"maps_{t}"](zeros, others)],
            *zip(program[f"constants_{t}"](zeros), (np.zeros(45), zeros, zeros), strict=True),
            *[(r, zeros) for r in program[f"scans_{t}"](zeros)],
            *[(r, zeros[-1]) for r in program[f"loops_{t}"](zeros)],
            *[(r, 0.0) for r in program[f"folds_{t}"](np.abs(zeros))],
            *[(r, -0.0) for r in program[f"folds_{t}"](-np.abs(zeros))],
        ):
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
            np.testing.assert_array_equal(got, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("t", slow_but(["f64"], ["f32", "f64"]))
def test_extrema_of_extrema(backend: str, t: str) -> None:
    """One NaN is ignored, wherever it is; of equal zeros it is the same one as on the interpreter."""
    source = "".join(
        f"entry {op}_{k} (xs: []{t}) (ys: []{t}) (zs: []{t}) = map3 (\\x y z -> {e}) xs ys zs\n"
        for op in ("min", "max")
        for k, e in enumerate((f"{t}.{op} x ({t}.{op} y z)", f"{t}.{op} ({t}.{op} x y) z"))
    )
    values = np.array([np.nan, -np.inf, -1, -0.0, 0.0, 2, np.inf], "f4" if t == "f32" else "f8")
    args = [a.ravel() for a in np.meshgrid(values, values, values)]
    program, reference = (futad.compile(source, backend=b) for b in (backend, "interp"))
    for name in ("min_0", "min_1", "max_0", "max_1"):
        got, wanted = program[name](*args), reference[name](*args)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))
