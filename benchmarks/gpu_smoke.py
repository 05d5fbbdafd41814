"""What goes wrong first on a card that has never run futad: small cases, each of one thing.

Each is a function of the backend's name that raises AssertionError, or whatever else, if its thing does not work.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import futad

SMOKE: dict[str, Callable[[str], None]] = {}


def smoke(f: Callable[[str], None]) -> Callable[[str], None]:
    SMOKE[f.__name__] = f
    return f


def near(got: Any, want: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=tolerance, atol=tolerance)


def runtime(program: Any) -> Any:
    return program.executor().running.runtime


STEPS = """
entry steps [n] (k: i64) (xs: [n]f64): [n]f64 =
  loop xs for _i < k do let s = f64.sum xs in map (\\x -> x / (1 + f64.abs s)) xs
entry chain [n] (k: i64) (a: [n][n]f64) (x: [n][n]f64): [n][n]f64 =
  loop x for _i < k do map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) (transpose a)) x
"""


def steps(k: int, xs: np.ndarray) -> np.ndarray:
    for _ in range(k):
        xs = xs / (1 + abs(xs.sum()))
    return xs


@smoke
def one_kernel(backend: str) -> None:
    program = futad.compile("entry main [n] (xs: [n]f64): [n]f64 = map (\\x -> x * 2 + 1) xs", backend=backend)
    near(program.main(np.arange(1000.0)), np.arange(1000.0) * 2 + 1)


@smoke
def reduce_scan_histogram(backend: str) -> None:
    program = futad.compile(
        "entry main [n] (xs: [n]f64) (is: [n]i64): (f64, [n]f64, [100]f64) =\n"
        "  (f64.sum xs, scan (+) 0 xs, reduce_by_index (replicate 100 0) (+) 0 is xs)", backend=backend,
    )  # fmt: skip
    xs, at = np.linspace(-1, 2, 100_003), np.arange(100_003) * 7 % 100
    total, sums, bins = program.main(xs, at)
    near(total, xs.sum(), 1e-9)
    near(sums, np.cumsum(xs), 1e-8)
    near(bins, np.bincount(at, xs, 100), 1e-9)


@smoke
def capture_and_replay(backend: str) -> None:
    program = futad.compile(STEPS, backend=backend)
    xs = np.linspace(0, 1, 50_000)  # too wide for one block to do all steps
    for _ in range(6):
        near(program.steps(6, xs), steps(6, xs))
    assert runtime(program).counts.replayed == 1, "the call was not replayed"


@smoke
def product_under_capture(backend: str) -> None:
    """By cuBLAS, where there is one."""
    program = futad.compile(STEPS, backend=backend)
    running = program.executor().running
    running.choose(running.device.limits.thresholds._replace(blas=1))
    r = np.random.default_rng(0)
    a, x = r.normal(size=(2, 96, 96)) / 10
    want = x @ a @ a @ a @ a @ a @ a
    for _ in range(6):
        near(program.chain(6, a, x), want)
    assert runtime(program).counts.replayed == 1, "the call was not replayed"


@smoke
def small_atomics(backend: str) -> None:
    """Types without an atomic of their own, where many updates meet."""
    for t, dtype in (("f16", "float16"), ("i8", "int8"), ("i16", "int16"), ("u8", "uint8"), ("f32", "float32")):
        program = futad.compile(
            f"entry main [n] (is: [n]i64) (xs: [n]{t}): [7]{t} = reduce_by_index (replicate 7 0) (+) 0 is xs",
            backend=backend,
        )
        at, xs = np.arange(700) % 7, np.ones(700, dtype)
        assert np.asarray(program.main(at, xs)).tolist() == [100] * 7, t


@smoke
def many_batches(backend: str) -> None:
    """More than the 65,535 blocks that a grid has in its third dimension (on the CPU that takes too long)."""
    b = 70_000 if backend == "cuda" else 70
    program = futad.compile(
        "entry main [b][n] (as: [b][n][n]f32) (bs: [b][n][n]f32): [b][n][n]f32 =\n"
        "  map2 (\\a b -> map (\\x -> map (\\y -> f32.sum (map2 (*) x y)) (transpose b)) a) as bs", backend=backend,
    )  # fmt: skip
    a = (np.arange(b * 4) % 7).astype("f4").reshape(b, 2, 2)
    near(program.main(a, a), a @ a, 1e-6)


@smoke
def two_streams(backend: str) -> None:
    """A program's memory serves two streams in turn, growing meanwhile."""
    if backend != "cuda":
        return
    import cupy

    program = futad.compile(STEPS, backend=backend)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    made = []
    for iteration, n in enumerate((1000, 100_000, 5000, 1_000_000, 200, 2_000_000)):
        with streams[iteration % 2] as stream:
            xs = np.linspace(0, 1, n)
            made.append((stream, program.steps(5, cupy.asarray(xs)), steps(5, xs)))
    for stream, out, want in made:
        with stream:
            near(out.get(), want, 1e-9)


@smoke
def memory_that_runs_out(backend: str) -> None:
    """A clear error; the program, and others, work as before."""
    if backend != "cuda":
        return
    program = futad.compile("entry main (n: i64): f64 = f64.sum (scan (+) 0 (replicate n 1))", backend=backend)
    near(program.main(10), 55)
    try:
        program.main(1 << 38)
    except futad.errors.OutOfMemory as e:
        assert "needed" in str(e), str(e)
    else:
        raise AssertionError("2 TB were had")
    near(program.main(10), 55)


@smoke
def failures_of_programs(backend: str) -> None:
    program = futad.compile("entry main [n] (xs: [n]f64) (is: [n]i64): [n]f64 = map (\\i -> xs[i]) is", backend=backend)
    for _ in range(4):
        try:
            program.main(np.ones(5), np.array([0, 1, 9, 3, 4]))
        except futad.BoundsError as e:
            assert "Index [9] out of bounds" in str(e)
        else:
            raise AssertionError("no failure")
        near(program.main(np.arange(5.0), np.arange(5)), np.arange(5.0))


@smoke
def failures_that_nobody_waits_for(backend: str) -> None:
    """Calls on arrays of the card return before they are done: failures are heard of later, results are no numbers."""
    if backend != "cuda":
        return
    import cupy

    program = futad.compile("entry main [n] (xs: [n]f64) (is: [n]i64): [n]f64 = map (\\i -> xs[i]) is", backend=backend)
    xs, wrong, right = cupy.arange(5.0), cupy.asarray([0, 1, 9, 3, 4]), cupy.arange(5)
    for _ in range(4):
        out = program.main(xs, wrong)
        try:
            futad.synchronise()
        except futad.BoundsError as e:
            assert "Index [9] out of bounds" in str(e)
        else:
            raise AssertionError("no failure")
        assert np.isnan(out.get()).all()
        near(program.main(xs, right).get(), np.arange(5.0))
        futad.synchronise()


@smoke
def arrays_of_pytorch(backend: str) -> None:
    """In and out without a copy through the host."""
    if backend != "cuda" or find_spec("torch") is None:
        return
    import torch

    program = futad.compile(STEPS, backend=backend)
    xs = torch.linspace(0, 1, 5000, dtype=torch.float64, device="cuda")
    out = program.steps(6, xs)
    assert runtime(program).counts.uploaded == runtime(program).counts.downloaded == 0
    near(torch.as_tensor(out, device="cuda").cpu().numpy(), steps(6, xs.cpu().numpy()))


@smoke
def arrays_of_jax(backend: str) -> None:
    if backend != "cuda" or find_spec("jax") is None:
        return
    import jax

    program = futad.compile(STEPS.replace("f64", "f32"), backend=backend)
    xs = jax.numpy.linspace(0, 1, 5000, dtype=jax.numpy.float32)
    out = program.steps(6, xs)
    assert runtime(program).counts.uploaded == runtime(program).counts.downloaded == 0
    near(out.get(), steps(6, np.asarray(xs)), 1e-4)


@smoke
def scalar_operations(backend: str) -> None:
    """Every operation of the table at every type, on special and random values, against NumPy's."""
    from futad.backend.cuda import open_device
    from futad.core import scalarops
    from futad.core.parse import parse_program
    from futad.testing.build import device_backend
    from tests.support.scalar_cases import CASES, inputs, tolerance

    text = "\n".join(_function(op, t, 40 * k) for k, (op, t) in enumerate(CASES, 1))
    running = device_backend(parse_program(text)).on(open_device(backend))
    wrong = []
    for op, t in CASES:
        args = inputs(op, t)
        if op.can_fail:  # a division by zero is an error of the program
            args = [a[args[-1] != 0] for a in args]
        want = np.asarray(scalarops.evaluate(op.name, *args))
        (got,) = running.run(f"{op.name}_{t.name}", [np.int64(want.size), *args])
        with np.errstate(all="ignore"):
            if op.result_type(op.arg_types(t)).is_float:
                a, e = got.astype("f8"), want.astype("f8")
                bad = np.isnan(a) != np.isnan(e)
                bad |= ~np.isnan(e) & (a != e) & ~(np.abs(a - e) <= tolerance(op, args, want))
            else:
                bad = got != want
        if bad.any():
            k = int(bad.argmax())
            case = f"{op.name} {t.name} of {[a[k] for a in args]}"
            wrong.append(f"{case} is {got[k]}, not {want[k]} ({bad.sum()} of {bad.size})")
    assert not wrong, f"{len(wrong)} operations: " + "; ".join(wrong[:20])


def _function(op: Any, t: Any, number: int) -> str:
    """The IR of a map by one operation; its variables are numbered from a number on."""
    types, r = op.arg_types(t), op.result_type(op.arg_types(t)).name
    n, out, made, y = (f"{name}_{number + k}" for k, name in enumerate(("n", "r", "m", "y")))
    arrays = [f"a_{number + 10 + i}" for i in range(len(types))]
    values = [f"x_{number + 20 + i}" for i in range(len(types))]
    params = ", ".join(f"{a}: [{n}]{p.name}" for a, p in zip(arrays, types, strict=True))
    inner = ", ".join(f"{x}: {p.name}" for x, p in zip(values, types, strict=True))
    body = f"{{ let {y}: {r} = {op.name}({', '.join(values)}) in ({y}) }}"
    return (
        f"fun {op.name}_{t.name} [{n}: i64] ({params}) -> ({out}: [{n}]{r}) = "
        f"{{ let {made}: [{n}]{r} = map({n}, [{', '.join(arrays)}], \\({inner}) -> {body}) in ({made}) }}"
    )
