"""Functions of floats in vector lanes (kernels/vector_functions.h), and how far all of them are from the truth."""

import platform
import subprocess

import numpy as np
import pytest
import ulps

import futad
from futad.core.scalarops import OPS
from futad.runtime import cc
from tests.support.slow import slow_but

OWN = ["exp", "sin", "cos", "log", "tanh"]
MAPS = [f"entry {f}_{t} [n] (xs: [n]{t}): [n]{t} = map {t}.{f} xs" for f in OWN for t in ("f64", "f32")]
TEXT = "\n".join(MAPS) + """
entry loss [n] (xs: [n]f64): f64 = f64.sum (map (\\x -> f64.tanh x ** 2) xs)
entry attention [n] (q: [n]f64): f64 =
  let scores = tabulate_2d n n (\\i j -> if j <= i then q[i] * q[j] else -1e9)
  let row s =
    let top = f64.maximum s
    let es = map (\\x -> f64.exp (x - top)) s
    in f64.sum (map2 (*) es q) / f64.sum es
  in f64.sum (map row scores)
"""
ENDS = [0.0, -0.0, 5e-324, -5e-324, 1e-310, -1e-310, 2.3e-308, -1e-45, 1e-40, 1e-20, -1e-9, 0.17, 0.173287, 0.34657,
        -0.54, 1.0, 0.7071067811865475, 0.7071067811865476, 1.4142135623730951, np.pi, -np.pi / 2, 22.0, -22.1, 88.8,
        -87.5, -103.9, -104.1, 708.1, 709.78, 709.79, 800.0, -708.5, -744.9, -745.2, -746.1, 4194303.9, -4194304.1,
        1e15, -1e9, 1e300, -1e300, np.inf, -np.inf, np.nan]  # fmt: skip
# Those of AVX-512, and of all processors that have fused multiplication and addition.
LIMITS = {"exp": 1.5, "sin": 1.5, "cos": 1.5, "log": 1.5} if "avx512f" in cc.cpu() else {"exp": 1.5}
if not {"fma", "avx2"} <= set(cc.cpu().split()):
    LIMITS = {}


@pytest.fixture(scope="module", params=slow_but(["c"], ["c", "multicore"]))
def program(request):
    return futad.compile(TEXT, backend=request.param)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", OWN)
def test_within_units_of_the_last_place(program, name, dtype):
    """In full vectors and what is left of them; ends and masks among other numbers change no other lane."""
    entry = getattr(program, f"{name}_{'f64' if dtype is np.float64 else 'f32'}")
    limit = LIMITS.get(name, 4.0) if dtype is np.float64 else 4.0
    rng = np.random.default_rng(3)
    for n in (0, 1, 3, 7, 8, 16, 67, 5003):
        tiny = rng.normal(size=n) * 2.0 ** -rng.integers(0, 60, n)
        xs = np.where(rng.random(n) < 0.3, tiny, rng.normal(0, 20, n))
        with np.errstate(all="ignore"):
            xs = np.where(rng.random(n) < 0.2, rng.choice(ENDS, n), xs).astype(dtype)
            got, want = entry(xs), getattr(np, name)(xs.astype(np.longdouble))
        np.testing.assert_array_less(ulps.ulps(got, want, dtype), limit)
        zero = xs == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [op.name for op in OPS.values() if op.vector])
def test_no_function_is_further_than_documented(name):
    """Beside mpmath, as `python benchmarks/ulps.py` prints it."""
    (found,) = ulps.table([OPS[name]], points=20_000)
    assert found.error64 <= LIMITS.get(name, 4.0) and found.error32 <= 4.0, found


def test_derivatives(program):
    xs = np.linspace(-3, 3, 101)
    t = np.tanh(xs)
    np.testing.assert_allclose(futad.grad(program.loss)(xs), 2 * t * (1 - t * t), rtol=1e-13, atol=1e-16)


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
    """Also those that this machine does not run: each name that a loop may call is there, ours where it is to be."""
    for name, text in cc.headers().items():
        (tmp_path / name).write_text(text)
    source = tmp_path / "loop.c"
    loops = "".join(f"  for (int i = 0; i < n; i++) x[i] = futad_{f}_f64(x[i]);\n" for f in OWN)
    source.write_text(
        "".join(f"#define FUTAD_OWN_{f} 1\n" for f in OWN) + '#include "prelude.h"\n'
        f"void f(int n, double *x, float *y) {{\n{loops}  for (int i = 0; i < n; i++) y[i] = futad_exp_f32(y[i]);\n}}\n"
        "int main() { double x[99] = {0}; float y[99] = {0}; f(99, x, y); return y[98] != 1.0; }\n"
    )
    flags = [f"-march={machine}", "-O3", "-mprefer-vector-width=512", "-fno-math-errno", "-fno-trapping-math"]
    command = [*cc.find_compiler().command, *flags, f"-I{tmp_path}", str(source)]
    subprocess.run([*command, "-o", str(tmp_path / "loop"), *cc.link_flags()], check=True)
    listed = subprocess.run(["nm", str(tmp_path / "loop")], capture_output=True, text=True, check=True).stdout
    own = {line.split()[-1] for line in listed.splitlines() if " U " not in line}
    for name in OWN:
        made = any(symbol.startswith("_ZGV") and symbol.endswith(f"v_{name}") for symbol in own)
        assert made == (machine == "skylake-avx512" or (machine == "haswell" and name in ("exp", "tanh"))), name
