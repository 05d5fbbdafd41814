"""The C backends: maps one after another, a tile of their width at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.imp import ir
from futad.imp.loops.overlapped_tiling import BESIDE
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.testing.build import c_backend

TEXT = """
def before [n] (x: [n]f64): [n]f64 = sized n ([1] ++ take (n - 1) x)
def after [n] (x: [n]f64): [n]f64 = sized n (drop 1 x ++ [2])
def twice [n] (f: [n]f64 -> [n]f64) (x: [n]f64): [n]f64 = f (f x)
def down [n] (x: [n]f64): [n]f64 = map2 (\\a b -> f64.sin a + 0.5 * b) (before x) x
def up [n] (x: [n]f64): [n]f64 = map2 (\\a b -> f64.cos a - 0.5 * b) (after x) x
def both [n] (x: [n]f64): [n]f64 = map3 (\\a b c -> a * b - c) (before x) x (after x)

entry left [n] (x: [n]f64): [n]f64 = twice down (twice down x)
entry right [n] (x: [n]f64): [n]f64 = twice up (twice up x)
entry mixed [n] (x: [n]f64): [n]f64 = both (up (down (both x)))
entry gradient [n] (x: [n]f64): [n]f64 = vjp (\\x -> up (down (both x))) x (map (+ 1) x)
entry kept [n] (x: [n]f64): ([n]f64, [n]f64, [n]f64) =
  let a = down x
  let b = up a
  let d = both b
  in (both d, b, d)
entry iterations [n] (x: [n]f64): [n]f64 = loop x for _i < 5 do both (up (down x))
entry fields [n] (x: [n]f64): ([n]f64, [n]f64) =
  loop (v, p) = (x, map (* 0.5) x) for _i < 5 do
    let v = map3 (\\v a b -> v + 0.1 * (a - b)) v p (before p)
    let p = map3 (\\p a b -> p + 0.1 * (a - b)) p (after v) v
    in (v, p)
entry saved [n] (x: [n]f64): [n]f64 = vjp (\\x -> loop x for _i < 3 do both (down x)) x (map f64.exp x)
entry shorter [n] (x: [n]f64): []f64 =
  let a = down x
  let b = map2 (*) (drop 1 a) (take (n - 1) a)
  in map2 (-) (drop 1 b) (take (n - 2) b)
entry gathers [n] (x: [n]f64): [n]f64 =
  let a = down x
  let b = map2 (\\i a -> #[unsafe] x[i64.min (2 * i) (n - 1)] + a) (iota n) (before a)
  in up b
entry widths [n] (x: [n]f64): [n]i64 =
  let a = map (\\x -> i16.f64 (1000 * x)) x
  let b = map2 (\\p q -> i64.i16 (p * q)) a (sized n ([7i16] ++ take (n - 1) a))
  let d = map2 (\\p q -> p * q - 1) b (sized n (drop 1 b ++ [3i64]))
  in map2 (\\p q -> if p > q then p else q + 1) d (sized n ([9] ++ take (n - 1) d))
entry whole [n] (x: [n]f64): [n]f64 =
  let a = down x
  in map2 (\\i b -> #[unsafe] a[n - 1 - i] + b) (iota n) (before a)
entry backwards [n] (x: [n]f64): [n]f64 = map2 (+) (reverse (down x)) (before (down x))
entry summed [n] (x: [n]f64): [n]f64 =
  let a = down x
  let s = f64.sum a
  in map2 (\\a b -> a - b / s) a (before a)
entry checked [n] (x: [n]f64) : [n]f64 =
  let a = down x
  let b = up a
  in map2 (\\i b -> if b > 1e3 then x[i + n] else b) (iota n) (both b)
"""
IN_STRIPS = (
    "left", "right", "mixed", "gradient", "kept", "iterations", "saved", "shorter", "gathers", "widths", "checked",
)  # fmt: skip
PLAIN = ("whole", "backwards", "summed", "fields")
"""The first three need all of an array before the next can begin; the last one updates in place what it then reads
from beside."""
SIZES = (3, 4, 31, 513, 1024, 1025, 1026, 2049, 5000)


@pytest.mark.slow
@pytest.mark.parametrize("name", (*IN_STRIPS, *PLAIN))
def test_as_the_interpreter(core: Any, backend: CBackend, name: str) -> None:
    smallest = () if name in ("shorter", "gathers") else (0, 1, 2)
    for n in (*smallest, *SIZES):
        x = np.random.default_rng(n).uniform(-1, 1, n)
        try:
            expected = Interpreter(core).run(name, [n, x])
        except Exception as error:
            with pytest.raises(type(error)):
                backend.run(name, [n, x])
            continue
        for a, e in zip(backend.run(name, [n, x]), expected, strict=True):
            assert np.shape(a) == np.shape(e) and np.asarray(a).dtype == np.asarray(e).dtype
            np.testing.assert_allclose(a, e, rtol=1e-11, atol=1e-11, err_msg=f"{name} {n}")


@pytest.mark.slow
def test_special_values(core: Any, backend: CBackend) -> None:
    """Tiles change the order of the work, not what is computed."""
    # On as many threads: the suite compiles these with other flags, by which sums round differently.
    plain = c_backend(core, '"thread_pool.h"' in backend.source, tiles=False)
    assert "_tile" in backend.source and "_tile" not in plain.source
    x = np.random.default_rng(1).standard_normal(4099)
    x[[0, 1, 1023, 1024, 1030, 2047, 3000, 4098]] = [np.nan, np.inf, -0.0, np.nan, -np.inf, 1e308, 5e-324, np.inf]
    for name in IN_STRIPS:
        if name not in ("widths", "checked"):
            for a, b in zip(backend.run(name, [x.size, x]), plain.run(name, [x.size, x]), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, err_msg=name)


@pytest.mark.slow
def test_failures_are_where_they_were(core: Any, backend: CBackend) -> None:
    x = np.full(3000, 0.5)
    x[2999] = 1e9
    with pytest.raises(Exception, match=r"tiling\.fut:\d+") as expected:
        Interpreter(core).run("checked", [x.size, x])
    with pytest.raises(type(expected.value)) as raised:
        backend.run("checked", [x.size, x])
    assert str(raised.value) == str(expected.value)


def tiles(body: list[ir.Stmt]) -> int:
    """The loops over tiles in statements."""
    return sum(
        (isinstance(s, ir.For) and s.var.endswith("_tile"))
        + sum(tiles(getattr(s, part, [])) for part in ("body", "then", "orelse"))
        for s in body
    )


@pytest.mark.slow
def test_what_is_done_in_tiles(core: Any, backend: CBackend) -> None:
    functions = {f.name: f for f in backend.module.functions}
    assert [name for name in IN_STRIPS if not tiles(functions[name].body)] == []
    assert [name for name in PLAIN if tiles(functions[name].body)] == []


@pytest.mark.slow
def test_intermediate_arrays_need_no_memory(core: Any) -> None:
    backend = c_backend(core)
    n = 100_000
    backend.run("left", [n, np.zeros(n)])
    held, _ = backend.memory()
    assert held < 2 * 8 * n


@pytest.mark.slow
def test_long_chains_end() -> None:
    """A tile does not read far beyond its ends however many maps there are."""
    step = "def f [n] (x: [n]f64): [n]f64 = map2 (-) (sized n ([1] ++ take (n - 1) x)) x\n"
    count = BESIDE + 9
    text = f"{step}entry main [n] (x: [n]f64): [n]f64 = {'f (' * count}x{')' * count}"
    core = compile_program(compile_text(text, "chain.fut"), check=True)
    x = np.random.default_rng(2).standard_normal(3000)
    backend = c_backend(core)
    np.testing.assert_array_equal(backend.run("main", [3000, x])[0], Interpreter(core).run("main", [3000, x])[0])
    loops = [s for f in backend.module.functions for s in f.body if isinstance(s, ir.For) and s.var.endswith("_tile")]
    assert len(loops) >= 2


def random_entry(rng: np.random.Generator, name: str) -> str:
    """Maps over arrays made before, from beside or straight; some are results, some are updated in a loop."""
    arrays, lines = ["x", "y"], []
    for k in range(int(rng.integers(3, 10))):
        views = [
            rng.choice(["{}", "before {}", "after {}", "reverse {}" if k % 9 == 8 else "{}"]).format(
                rng.choice(arrays[-4:])
            )
            for _ in range(int(rng.integers(1, 4)))
        ]
        names = [f"e{i}" for i in range(len(views))]
        value = " + ".join(f"{rng.integers(1, 9) / 8} * {e}" for e in names)
        lines.append(f"let a{k} = map{len(views)} (\\{' '.join(names)} -> {value}) {' '.join(f'({v})' for v in views)}")
        arrays.append(f"a{k}")
    results = [arrays[-1], *rng.choice(arrays[2:], 2)]
    body = "\n  ".join(lines)
    if rng.random() < 0.5:
        inner = "\n    ".join(lines)
        return (
            f"entry {name} [n] (x: [n]f64) (y: [n]f64): ([n]f64, [n]f64) =\n"
            f"  loop (x, y) for _i < 3 do\n    {inner}\n    in ({results[0]}, {results[1]})\n"
        )
    return (
        f"entry {name} [n] (x: [n]f64) (y: [n]f64): ([n]f64, [n]f64, [n]f64) =\n  {body}\n  in ({', '.join(results)})\n"
    )


@pytest.mark.slow
def test_random_chains() -> None:
    rng = np.random.default_rng(7)
    names = [f"chain{k}" for k in range(10)]
    text = TEXT[: TEXT.index("def twice")] + "".join(random_entry(rng, name) for name in names)
    core = compile_program(compile_text(text.replace("map1", "map"), "chains.fut"), check=True)
    backend = c_backend(core)
    threads = c_backend(core, multicore=True, grain=1)
    assert sum(bool(tiles(f.body)) for f in backend.module.functions) > len(names) // 2
    for name in names:
        for n in (2, 5, 1100):
            args = [n, *np.random.default_rng(n).uniform(-1, 1, (2, n))]
            expected = Interpreter(core).run(name, args)
            for run in (backend, threads):
                for a, e in zip(run.run(name, args), expected, strict=True):
                    np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-10, err_msg=f"{name} {n}\n{text}")
