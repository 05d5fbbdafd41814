"""The hyperbolic tangent in vector lanes (kernels/vector_tanh.h)."""

import platform
import subprocess

import numpy as np
import pytest

import futad
from futad.runtime import cc
from tests.support.slow import slow_but

TEXT = """
entry main [n] (xs: [n]f64): [n]f64 = map f64.tanh xs
entry loss [n] (xs: [n]f64): f64 = f64.sum (map (\\x -> f64.tanh x ** 2) xs)
"""
ENDS = [0.0, -0.0, 5e-324, -1e-310, 1e-20, -1e-9, 0.17, 0.173287, 0.34657, -0.54, 0.55, 19.06, 21.9, 22.0, -22.1, 1e300,
        np.inf, -np.inf, np.nan]  # fmt: skip


@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_within_units_of_the_last_place(backend):
    """In full vectors and what is left of them, zeros with their signs."""
    program = futad.compile(TEXT, backend=backend)
    rng = np.random.default_rng(3)
    for n in (0, 1, 3, 7, 8, 16, 67, 5003):
        tiny = rng.normal(size=n) * 2.0 ** -rng.integers(0, 60, n)
        xs = np.where(rng.random(n) < 0.5, tiny, rng.normal(0, 5, n))
        xs = np.where(rng.random(n) < 0.2, rng.choice(ENDS, n), xs)
        got, want = program.main(xs), np.tanh(xs.astype(np.longdouble)).astype(np.float64)
        np.testing.assert_array_max_ulp(got[xs == xs], want[xs == xs], 4)
        assert np.isnan(got[xs != xs]).all()
        np.testing.assert_array_equal(np.signbit(got[xs == xs]), np.signbit(xs[xs == xs]))
    xs = np.linspace(-3, 3, 101)
    t = np.tanh(xs)
    np.testing.assert_allclose(futad.grad(program.loss)(xs), 2 * t * (1 - t * t), rtol=1e-13, atol=1e-16)


@pytest.mark.skipif(platform.machine() != "x86_64" or cc.find_compiler().is_clang, reason="vectors of x86-64, for GCC")
@pytest.mark.parametrize(("machine", "own"), [("x86-64", 0), ("sandybridge", 0), ("haswell", 1), ("skylake-avx512", 1)])
def test_every_width_of_vectors_has_a_function(tmp_path, machine, own):
    """Also those that this machine does not run: each name that a loop may call is there."""
    for name, text in cc.headers().items():
        (tmp_path / name).write_text(text)
    source = tmp_path / "loop.c"
    source.write_text(
        '#define FUTAD_TANHS 1\n#include "prelude.h"\n'
        "void f(int n, double *x) { for (int i = 0; i < n; i++) x[i] = futad_tanh_f64(x[i]); }\n"
        "int main() { double x[99] = {0}; f(99, x); return x[98] != 0.0; }\n"
    )
    flags = [f"-march={machine}", "-O3", "-mprefer-vector-width=512", "-fno-math-errno", "-fno-trapping-math"]
    command = [*cc.find_compiler().command, *flags, f"-I{tmp_path}", str(source)]
    subprocess.run([*command, "-o", str(tmp_path / "loop"), *cc.link_flags()], check=True)
    symbols = subprocess.run(["nm", str(tmp_path / "loop")], capture_output=True, text=True, check=True).stdout
    assert ("v_futad_tanh" in symbols) == bool(own)
