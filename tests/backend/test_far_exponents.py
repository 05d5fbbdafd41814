"""Exponentials in vector lanes of numbers far below zero (kernels/far_exponents.h)."""

import platform
import subprocess

import numpy as np
import pytest

import futad
from futad.runtime import cc
from tests.support.slow import slow_but

TEXT = """
entry doubles [n] (xs: [n]f64): [n]f64 = map f64.exp xs
entry floats [n] (xs: [n]f32): [n]f32 = map f32.exp xs
entry attention [n] (q: [n]f64): f64 =
  let scores = tabulate_2d n n (\\i j -> if j <= i then q[i] * q[j] else -1e9)
  let row s =
    let top = f64.maximum s
    let es = map (\\x -> f64.exp (x - top)) s
    in f64.sum (map2 (*) es q) / f64.sum es
  in f64.sum (map row scores)
"""
ENDS = [0.0, -0.0, -1e9, -1e300, -np.inf, np.inf, np.nan, 800.0, -87.5, -103.9, -104.0, -104.1, -708.5, -744.9, -745.2,
        -746.0, -746.1, 1.0]  # fmt: skip


@pytest.fixture(scope="module", params=["c", "multicore"])
def program(request):
    return futad.compile(TEXT, backend=request.param)


@pytest.mark.parametrize(("name", "dtype", "ulps"), [("doubles", np.float64, 4), ("floats", np.float32, 4)])
@pytest.mark.parametrize("far", [0.0, 0.2, 1.0])
def test_far_below_zero_it_is_zero(program, name, dtype, ulps, far):
    """In full vectors and what is left of them; one far number changes no other lane."""
    rng = np.random.default_rng(5)
    for n in (1, 3, 7, 16, 67, 1003):
        with np.errstate(all="ignore"):
            xs = np.where(rng.random(n) < far, rng.choice(ENDS, n), rng.uniform(-20, 5, n)).astype(dtype)
            got = getattr(program, name)(xs)
            want = np.exp(xs.astype(np.longdouble)).astype(dtype)
        np.testing.assert_array_max_ulp(got[np.isfinite(xs)], want[np.isfinite(xs)], ulps)
        np.testing.assert_array_equal(got[~np.isfinite(xs)], want[~np.isfinite(xs)])
        assert not got[xs < (-746 if dtype is np.float64 else -104)].any()


def test_a_mask_has_no_part_in_a_gradient(program):
    q = np.linspace(-1, 1, 37)
    value, gradient = futad.value_and_grad(program.attention)(q)

    def loss(q):
        scores = np.where(np.tri(37, dtype=bool), np.outer(q, q), -np.inf)
        es = np.exp(scores - scores.max(1, keepdims=True))
        return (es @ q / es.sum(1)).sum()

    steps = [(loss(q + h) - loss(q - h)) / 2e-6 for h in 1e-6 * np.eye(37)]
    np.testing.assert_allclose(value, loss(q), rtol=1e-12)
    np.testing.assert_allclose(gradient, steps, atol=1e-7)


@pytest.mark.skipif(platform.machine() != "x86_64" or cc.find_compiler().is_clang, reason="vectors of x86-64, for GCC")
@pytest.mark.parametrize("machine", slow_but(["haswell"], ["x86-64", "sandybridge", "haswell", "skylake-avx512"]))
def test_every_width_of_vectors_has_a_function(tmp_path, machine):
    """Also those that this machine does not run: each name that a loop may call is there."""
    for name, text in cc.headers().items():
        (tmp_path / name).write_text(text)
    source = tmp_path / "loop.c"
    source.write_text(
        '#define FUTAD_EXPONENTIALS 1\n#include "prelude.h"\n'
        "void f(int n, double *x, float *y) {\n"
        "  for (int i = 0; i < n; i++) x[i] = futad_exp_f64(x[i]);\n"
        "  for (int i = 0; i < n; i++) y[i] = futad_exp_f32(y[i]);\n}\n"
        "int main() { double x[99] = {0}; float y[99] = {0}; f(99, x, y); return x[98] != 1.0; }\n"
    )
    flags = [f"-march={machine}", "-O3", "-mprefer-vector-width=512", "-fno-math-errno", "-fno-trapping-math"]
    command = [*cc.find_compiler().command, *flags, f"-I{tmp_path}", str(source)]
    subprocess.run([*command, "-o", str(tmp_path / "loop"), *cc.link_flags()], check=True)
    symbols = subprocess.run(["nm", str(tmp_path / "loop")], capture_output=True, text=True, check=True).stdout
    assert "v_futad_exp" in symbols and "v_futad_expf" in symbols
