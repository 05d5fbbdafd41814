"""What a call costs on a device, counted from sizes: the counts themselves, and those of the benchmark programs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from futad.backend.device_cost import Account, count
from futad.core.ir import Program
from futad.errors import UsageError
from futad.flatten.kernel import DeviceModule
from futad.pipeline import compile_program
from futad.source import compile_text, load_program
from futad.testing.build import flattened
from tests.support.cli_helpers import Runner
from tests.support.paths import BENCHMARK_PROGRAMS as PROGRAMS


def cost(source: str, entry: str = "main", **sizes: int) -> Account:
    text = "entry" in source
    program = compile_program(compile_text(source, "main") if text else load_program(str(PROGRAMS / f"{source}.fut")))
    name = next(f.name for f in program.funs.values() if f.entry is not None and f.entry.name == entry)
    return count(flattened(program), program, name, sizes)


def test_a_map_reads_and_writes_everything_once() -> None:
    a = cost("entry main [n] (xs: [n]f64) (ys: [n]f32) = map2 (\\x y -> x * f64.f32 y + 1) xs ys", n=1000)
    assert (a.launches, a.transposes) == (1, 0)
    assert (a.total.read, a.total.written, a.total.flops) == (12000, 8000, 2000)
    assert a.least == (20000, 2000)


def test_what_many_threads_read_counts_once() -> None:
    source = "entry main [n][m] (xss: [n][m]f64) (ys: [m]f64) = map (map2 (*) ys) xss"
    a = cost(source, n=100, m=7)
    assert (a.total.read, a.total.written, a.total.flops) == (8 * 707, 8 * 700, 700)


def test_strided_and_gathered_accesses_are_counted() -> None:
    """Of what a warp's threads read from rows of eight f64 each takes a sector where eight would do; of what data
    choose as well; neighbours take no more than they must."""
    rows = "entry main [n][m] (xss: [n][m]f64) = map (\\xs -> loop s = 0 for x in xs do s * x + 1) xss"
    a = cost(rows, n=100_000, m=64).total
    assert a.strided / a.traffic == pytest.approx(0.72, abs=0.02) and a.gathered == 0
    turned = "entry main [n][m] (xss: [m][n]f64) = map (\\xs -> loop s = 0 for x in xs do s * x + 1) (transpose xss)"
    a = cost(turned, n=100_000, m=64).total
    assert (a.strided, a.gathered) == (0, 0) and a.traffic == pytest.approx(8 * 100_000 * 65, rel=0.01)
    a = cost("entry main [n] (xs: [n]f32) (is: [n]i64) = map (\\i -> xs[i]) is", n=100_000).total
    assert a.strided == 0 and 0.6 < a.gathered / a.traffic < 0.8
    # All threads of a warp read one element: that is a single sector.
    source = "entry main [n][m] (xs: [n]f64) (ys: [m]f64) = map (\\x -> loop s = x for y in ys do s * y + 1) xs"
    a = cost(source, n=100_000, m=64).total
    assert a.strided == 0


@pytest.mark.parametrize("columns", [3, 31, 32, 1000])
def test_sectors_of_a_matrix_read_in_order(columns: int) -> None:
    a = cost("entry main [n][m] (xss: [n][m]f32) = map (map (+ 1)) xss", n=4096, m=columns).total
    assert a.strided == a.gathered == 0 and a.traffic == pytest.approx(a.read + a.written, rel=0.15)


@pytest.mark.parametrize("n", [100, 100_000, 10_000_000])
def test_a_reduction_reads_everything_once(n: int) -> None:
    a = cost("entry main [n] (xs: [n]f64) = f64.sum (map f64.exp xs)", n=n)
    assert 8 * n <= a.total.read <= 8 * n * 1.01 + 100
    assert 2 * n <= a.total.flops <= 2 * n * 1.01 + 100
    assert a.least == (8 * n + 8, 2 * n)


def test_a_product_counts_its_matrices_once() -> None:
    source = """
entry main [n][m][k] (a: [n][k]f32) (b: [k][m]f32) =
  map (\\x -> map (\\y -> f32.sum (map2 (*) x y)) (transpose b)) a"""
    for n, m, k in ((1000, 500, 300), (20, 30, 40)):
        a = cost(source, n=n, m=m, k=k)
        assert (a.launches, a.total.flops) == (1, 2 * n * m * k)
        assert (a.total.read, a.total.written) == (4 * (n * k + k * m), 4 * n * m)


def test_loops_of_known_iterations_count_each() -> None:
    source = "entry main [n] (k: i64) (xs: *[n]f64) = loop xs for i < k do map (* 2) xs"
    a, b = cost(source, n=64, k=3), cost(source, n=64, k=30)
    assert a.launches == b.launches and b.total.flops == 10 * a.total.flops == 1920
    a, b = cost(source, n=1 << 15, k=3), cost(source, n=1 << 15, k=30)  # too wide for one block
    assert b.launches - a.launches == 27 and b.total.flops == 10 * a.total.flops == 30 << 15


def test_steps_are_those_of_one_thread() -> None:
    """A thread a point, or all that it does where points are few; a chain of launches is as long as all of them."""
    source = "entry main [n][m] (xss: [n][m]f64) = map (\\xs -> loop s = 0 for x in xs do s * x + 1) xss"
    for n in (100, 20_000):
        (r,) = cost(source, n=n, m=50).rows.values()
        assert (r.threads, r.cost.steps) == (n, pytest.approx(3 * 50, abs=5)), cost(source, n=n, m=50).table()
    source = "entry main [n] (xs: *[n]f64) = loop xs for i < n - 1 do xs with [i + 1] = xs[i] * 0.5 + xs[i + 1]"
    loop = cost(source, n=1000)
    assert max(r.cost.steps for r in loop.rows.values()) == pytest.approx(5 * 1000, abs=20), loop.table()
    long = cost("entry main [n] (xs: [n]f64) = f64.sum (map f64.exp xs)", n=100_000_000)
    assert long.total.steps >= 3 * 100_000_000 / (16 * 132 * 256)
    assert "steps" in long.table() and "at once" in long.table()


def test_updates_at_once_and_how_many_meet() -> None:
    source = """
entry main [n] (k: i64) (xs: [n]f64) (is: [n]i64): [k]f64 =
  vjp (\\w -> f64.sum (map2 (\\x i -> loop y = x for _j < 3 do f64.sin (y * w[i])) xs is)) (replicate k 1) 1"""
    a = cost(source, n=100_000, k=1000).total
    assert (a.atomics, a.meet) == (300_000, 300) and a.steps < 100
    a = cost(source, n=100_000, k=10).total
    assert a.atomics == 0 or a.meet == a.atomics / 10


def test_what_depends_on_values_is_said() -> None:
    source = "entry main [n] (xs: *[n]f64) = loop xs while f64.sum xs < 100 do map (* 2) xs"
    assert "one iteration" in " ".join(cost(source, n=64).notes)
    branch = "entry main [n] (xs: [n]f64) = if f64.sum xs < 1 then map (* 2) xs else map (\\x -> f64.exp (x + 1)) xs"
    a = cost(branch, n=64)
    assert any("branch" in s for s in a.notes) and a.total.written >= 512


def test_sizes_are_checked() -> None:
    source = "entry main [n][m] (xss: [n][m]f64) = map f64.sum xss"
    with pytest.raises(UsageError, match="missing: m"):
        cost(source, n=3)
    with pytest.raises(UsageError, match="nothing has the size z"):
        cost(source, n=3, m=4, z=5)


MAIN = """-- ==
-- input { [1.0, 2.0, 3.0] [4.0, 5.0, 6.0] }
-- output { 32.0 }
entry main [n] (xs: [n]f64) (ys: [n]f64): f64 = f64.sum (map2 (*) xs ys)
"""


@pytest.mark.slow
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture) -> None:
    futad = Runner(tmp_path, monkeypatch, capfdbinary)
    futad.file("dot.fut", MAIN)
    futad.file("plain.fut", MAIN.split("\n", 3)[3])
    futad.file("in", "[1.0, 2.0] [4.0, 5.0]")
    assert "parameters and results once         56" in futad("dev", "dot.fut", "--cost").out
    assert "parameters and results once         40" in futad("dev", "dot.fut", "--cost", "--input", "in").out
    assert "parameters and results once    16.01 k" in futad("dev", "dot.fut", "--cost", "--size", "n=1000").out
    for arguments, message in (
        (("plain.fut", "--cost"), "--size n=..."),
        (("dot.fut", "--cost", "--size", "n"), "NAME=NUMBER"),
        (("dot.fut", "--cost", "--size", "n=-1"), "negative"),
        (("dot.fut", "--cost", "-e", "mian"), "main"),
        (("dot.fut", "--size", "n=1"), "--size is for --cost"),
    ):
        done = futad("dev", *arguments)
        assert done.code == 2 and message in done.err, done


# --- the benchmark programs ---


def gmm_least(n: int, d: int, k: int) -> tuple[float, float]:
    """Bytes and operations of GMM's gradient.

    Bytes: parameters and results once, and the whitened points, which decide the weights that their adjoints need,
    written once and read once (to compute them again would take half as many operations again).  Operations: the
    products that make the whitened points and the factors' adjoints.
    """
    inputs = n * d + k * (1 + d + d * (d + 1) // 2)
    results = k * (1 + d + d * (d + 1) // 2)
    return 8 * (inputs + results + 2 * n * d * k), 4 * n * k * d * d


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "d", "k"),
    [(1000, 64, 200), (1000, 128, 200), (10_000, 32, 200), (10_000, 64, 25), (10_000, 128, 25), (10_000, 128, 200)],
)
def test_the_gradient_of_gmm(n: int, d: int, k: int) -> None:
    a = gmm_gradient(n, d, k)
    nbytes, flops = gmm_least(n, d, k)
    assert a.total.read + a.total.written <= 1.5 * nbytes
    assert a.total.flops <= 1.1 * a.least[1]
    # The products alone are less than everything; the rest is of lower order in d.
    assert flops <= a.total.flops <= (1.1 + 4 / d) * flops
    # Columns of many elements, and few columns that are long, are summed in parts of all of them, then these.
    many = 16 * 64 * 1024
    in_parts = sum(n * m > many or (m < 132 and n >= 8192) for m in (d, k)) + (k * d * d > many)
    # So are the sums of the factors' adjoints over all points, where their tiles are fewer than there is room for: with
    # them the means', each of which then takes one more launch.
    few = 2 * (k * (-(-d // 64)) ** 2 < 132)
    assert a.launches == 17 + in_parts + few + a.transposes and a.transposes == (k >= 32) and not a.notes


@cache
def compiled(name: str) -> tuple[DeviceModule, Program]:
    program = compile_program(load_program(str(PROGRAMS / f"{name}.fut")))
    return flattened(program), program


def gmm_gradient(n: int, d: int, k: int) -> Account:
    module, program = compiled("gmm")
    return count(module, program, "gradient", {"n": n, "d": d, "k": k, "l": d * (d + 1) // 2})


@pytest.mark.slow
def test_products_of_lstm_fill_the_card() -> None:
    """Each has a block a multiprocessor at least, the sums over all steps of a batch in parts."""
    module, program = compiled("lstm")
    a = count(module, program, "gradient", {"t": 20, "b": 1024, "d": 300, "h": 192, "o": 192})
    products = [r for r in a.rows.values() if r.what.startswith("product ")]
    assert len(products) >= 8 and min(r.blocks for r in products) >= 132
    assert sum("sums in parts" in r.what for r in products) == 3


@pytest.mark.slow
def test_a_time_step_of_lstm_takes_few_launches() -> None:
    """Those of one more step, forward and in the gradient."""
    module, program = compiled("lstm")

    def launches(entry: str, t: int) -> int:
        return count(module, program, entry, {"t": t, "b": 1024, "d": 300, "h": 192, "o": 300}).launches

    assert launches("objective", 21) - launches("objective", 20) <= 12
    # Both sweeps: a product and a map forward; back a map, and the product by which the step before gets its adjoint.
    # The predictions, what they add, and the weights' adjoints are of all steps at once.
    assert launches("gradient", 21) - launches("gradient", 20) <= 4


def kmeans(entry: str, n: int, d: int, k: int) -> Account:
    module, program = compiled("kmeans")
    return count(module, program, entry, {"n": n, "d": d, "k": k})


@pytest.mark.slow
def test_kmeans_of_many_clusters() -> None:
    """Distances never lie in memory: what the tiles make of each point, a least distance and its place, does, and is a
    64th of them."""
    n, d, k = 10_000, 256, 1024
    tiles = -(-k // 64)
    a = kmeans("objective", n, d, k)
    assert a.total.read + a.total.written <= 1.01 * (a.least[0] + 8 * 2 * n * (tiles + 1))
    a = kmeans("gradient", n, d, k)
    # Points are read again to be added to their clusters, whose centres are, too, to sums that start from zeros.
    nbytes = a.least[0] + 8 * n * d + 8 * 3 * k * d + 16 * 2 * n * (tiles + 1)
    assert a.total.read + a.total.written <= 1.01 * nbytes <= 2.4 * a.least[0]
    assert a.total.flops <= 1.01 * a.least[1] and a.total.strided + a.total.gathered <= 0.01 * a.total.traffic
    a = kmeans("newton_step", n, d, k)
    assert a.total.read + a.total.written <= 3 * a.least[0]


def test_kmeans_of_many_points() -> None:
    """Every point is read once: its block finds its cluster and adds it to a sum of its own, all in shared memory."""
    for entry in ("gradient", "hessian_diagonal", "newton_step"):
        a = kmeans(entry, n=494_019, d=35, k=5)
        assert a.total.read + a.total.written <= 1.01 * a.least[0] and a.total.flops <= 1.01 * a.least[1]
        assert a.total.traffic <= 3 * a.least[0] and a.total.strided + a.total.gathered <= 0.01 * a.total.traffic


@pytest.mark.slow
def test_lbm_is_made_where_it_is_returned() -> None:
    """The cells' last populations lie as the result does, so that nothing is transposed, and all is by neighbours."""
    module, program = compiled("lbm")
    for entry in ("primal", "gradient"):
        a = count(module, program, entry, {"z": 32, "y": 64, "x": 64, "steps": 10})
        assert a.transposes == 0 and a.total.strided + a.total.gathered <= 0.01 * a.total.traffic


STRIDED = {  # most of the traffic that only strided accesses take, and transposing copies
    ("ba", "jacobian"): ({"n": 100, "m": 10_000, "p": 50_000}, 0.03, 0),
    ("det", "gradient"): ({"ell": 10, "size": 100}, 0.01, 0),
    ("gmm", "gradient"): ({"n": 1000, "d": 128, "k": 200, "l": 128 * 129 // 2}, 0.14, 1),
    ("lstm", "gradient"): ({"t": 20, "b": 1024, "d": 300, "h": 192, "o": 300}, 0.01, 0),
    ("hand", "simple_jacobian"): ({"b": 22, "v": 544, "c": 2000}, 0.35, 0),
    # With 22 bones by a block each, not a thread, which takes 0.1 MB more of 54.
    ("hand", "complicated_jacobian"): ({"b": 22, "v": 544, "c": 2000, "t": 1000}, 0.26, 0),
    ("kmeans_sparse", "gradient"): ({"e": 1_000_000, "r": 6041, "k": 10, "d": 3706}, 0.01, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "entry"), STRIDED)
def test_neighbouring_threads_access_neighbours(name: str, entry: str) -> None:
    module, program = compiled(name)
    sizes, most, copies = STRIDED[name, entry]
    a = count(module, program, entry, sizes)
    assert a.total.strided <= most * a.total.traffic and a.transposes <= copies


@pytest.mark.parametrize(("n", "d"), [(1_000_000, 64), (100_000, 20), (1000, 6000)])
def test_columns_are_summed_by_neighbours(n: int, d: int) -> None:
    for source in ("map f64.sum (transpose xs)", "reduce (map2 (+)) (replicate d 0) xs"):
        a = cost(f"entry main [n][d] (xs: [n][d]f64) = {source}", n=n, d=d).total
        assert a.read + a.written <= 1.1 * 8 * n * d and a.traffic <= 1.2 * 8 * n * d
