"""Value and gradient from shards are those of the whole; what does not split is refused with its place."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core.check import check_program
from futad.distributed import shard
from futad.distributed.phases import split
from futad.distributed.tree import Tree
from futad.errors import DtypeError, ShapeError, UnsupportedError, UsageError
from futad.pipeline import compile_program
from tests.support.sharding import NAMES, arguments, flat, same_bits


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_value_and_gradient_are_those_of_the_whole(name):
    f, args, argnums = arguments(name)
    want = flat(futad.value_and_grad(f, argnums=argnums)(*args))
    for shards in (1, 3, 60):  # with 60 some are empty
        sharded = shard(f, over="n", shards=shards)
        got = flat(sharded.value_and_grad(*args, argnums=argnums))
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape and g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12 * max(1, np.abs(w).max(initial=0)))
        np.testing.assert_allclose(sharded(*args), f(*args), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("n", (0, 1))
@pytest.mark.parametrize("name", ("kmeans.objective", "looped", "columns", "histogram"))
def test_no_data_and_one_row(name, n):
    f, args, argnums = arguments(name, n)
    want = futad.value_and_grad(f, argnums=argnums)(*args)
    got = shard(f, "n", shards=4).value_and_grad(*args, argnums=argnums)
    for g, w in zip(flat(got), flat(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_are_well_formed_programs(name):
    f, _, argnums = arguments(name)
    derived = f.derivative("value_and_grad", argnums)
    core = compile_program(derived.executable.core, stop_after="simplify-ad")
    plan, parts = split(core, derived.symbol, "n")
    check_program(parts, "split")
    assert plan.phases and len(parts.funs) >= 2


@pytest.mark.slow
def test_phases_end_where_a_sum_is_needed():
    f, args, argnums = arguments("gmm.objective")
    sharded = shard(f, over="n")
    assert len(sharded.phases) == 2  # the columns' means first
    text = sharded.explain(argnums=argnums)
    assert "[d]f64, partial, combined by add" in text and "gmm.fut:44" in text
    sharded.value_and_grad(*args, argnums=argnums)
    assert len(sharded.report.phases) == 2 and "41 elements in 8 shards" in str(sharded.report)
    lse, _, _ = arguments("lse.primal")
    assert "combined by max" in shard(lse, "n").explain()


SPLITS_NOT = {
    "scan": ("f64.sum (scan (+) 0 (map (* a) x))", "a scan over the data"),
    "neighbour": ("f64.sum (tabulate n (\\i -> x[i] * next x i * a))", "'x' is read at other rows"),
    "pairs": ("f64.sum (map (\\v -> f64.sum (map (\\u -> u * v * a) x)) x)", "'x' is read at other rows"),
    "first": ("x[0] * a * f64.sum x", "some of the rows of 'x' are taken"),
    "proved": ("if n > 0 then x[0] * a * f64.sum x else a", "some of the rows of 'x' are taken"),
    "slice": ("f64.sum (map2 (\\u v -> u * v * a) (take (n - 1) x) (drop 1 x :> [n - 1]f64))", "some of the rows"),
    "scatter": ("f64.sum (scatter (map (* a) x) (map (\\v -> i64.f64 v) x) x)", "a scatter to computed places"),
    "steps": ("loop s = a for _i < 3 do f64.sum (map (* s) x)", "must be combined within a loop"),
    "until": ("loop s = a while s < 3 do s + f64.sum (map (* s) x)", "must be combined within a loop"),
    "merged": ("f64.sum (flatten (map (\\v -> [v, v * a]) x))", "a reshape merges"),
    "two ways": (
        "f64.sum (map (\\i -> if i == 0 then f64.maximum (map (* a) x) else f64.sum (map (* a) x)) (iota 3))",
        "is combined in two ways",
    ),
    "no sum": ("loop s = a for i < 2 do if i == 1 then f64.minimum (map (* a) x) else s", "is not a sum of the shards"),
    "either": ("if a > 0 then f64.maximum (map (* a) x) else a", "is not a sum of the shards' parts"),
    "joined": ("f64.sum (x ++ map (* a) x)", "arrays are put one after another"),
}
HELPERS = """
def at [n] (x: [n]f64) (i: i64): f64 = x[i]
def next [n] (x: [n]f64) (i: i64): f64 = at x ((i + 1) % n)
"""


@pytest.mark.parametrize("name", SPLITS_NOT)
def test_what_does_not_split_is_refused_with_the_place(name):
    body, why = SPLITS_NOT[name]
    f = futad.compile(f"{HELPERS}entry f [n] (x: [n]f64) (a: f64): f64 =\n  {body}\n", "it.fut", backend="interp").f
    with pytest.raises(UnsupportedError, match=r"it\.fut:\d+:\d+: error: the program does not split along n") as e:
        shard(f, over="n")
    assert why in str(e.value)
    assert e.value.span.line == (3 if name == "neighbour" else 5)


def test_a_matrix_of_the_size_is_refused():
    f = futad.compile("entry f [n] (x: [n][n]f64): f64 = f64.sum (map f64.sum x)", "it.fut", backend="interp").f
    with pytest.raises(UnsupportedError, match=r"it\.fut:1:.*two dimensions of size n"):
        shard(f, over="n")


def test_a_sort_is_refused():
    source = """
    entry f [n] (k: [n]i64) (x: [n]f64): f64 =
      let order = map (.1) (reduce_by_index (replicate n (0, 0)) (\\u _ -> u) (0, 0) k (zip k (iota n)))
      in f64.sum (map (\\i -> x[i]) order)"""
    with pytest.raises(UnsupportedError, match="it.fut:"):
        shard(futad.compile(source, "it.fut", backend="interp").f, over="n")


def test_wrong_calls():
    f, args, _ = arguments("logistic")
    with pytest.raises(UsageError, match="no size or i64 parameter called 'm'; there are: n, d"):
        shard(f, over="m")
    with pytest.raises(UsageError, match="no engine is called 'spark'; there are: local, dask, mpi"):
        shard(f, over="n", engine="spark")
    with pytest.raises(UsageError, match="shards must be a positive int"):
        shard(f, over="n", shards=0)
    with pytest.raises(UsageError, match="without bound arguments"):
        shard(futad.bind(f, w=args[2]), over="n")
    with pytest.raises(UsageError, match="an entry of a program"):
        shard(len, over="n")
    sharded = shard(f, over="n")
    with pytest.raises(UsageError, match="takes 3 arguments, not 2"):
        sharded(*args[:2])
    with pytest.raises(ShapeError, match="'y' of .*dimension 0 is 40"):
        sharded(args[0], args[1][:40], args[2])
    with pytest.raises(DtypeError, match="'x'"):
        sharded(args[0].astype(complex), *args[1:])
    with pytest.raises(UsageError, match="is not split along n"):
        sharded(args[0], args[1], lambda start, stop: args[2])


def test_a_tree_has_the_same_order_whoever_comes_first():
    def order(ranges, count):
        tree = Tree(count, lambda x, y: f"({x}{y})")
        for first, last in ranges:
            own = Tree(count, lambda x, y: f"({x}{y})")
            for k in range(first, last):
                own.add((0, k), str(k))
            for node, value in own.nodes.items():
                tree.add(node, value)
        return tree.root()

    assert order([(0, 5)], 5) == "(((01)(23))4)"
    for count in range(1, 12):
        whole = order([(0, count)], count)
        for cut in range(count):
            assert order([(cut, count), (0, cut)], count) == order([(0, cut), (cut, count)], count) == whole


@pytest.mark.slow
def test_an_operator_of_two_values():
    f, args, argnums = arguments("farthest")
    assert shard(f, "n", shards=7)(*args) == f(*args)
    with pytest.raises(UnsupportedError, match="a scan over the data"):  # its derivative has one
        shard(f, "n").value_and_grad(*args, argnums=argnums)


def test_the_order_of_an_operator_that_does_not_commute():
    source = """
    entry f [n] (x: [n]f64) (a: f64): f64 =
      let (p, q) = reduce (\\(p, q) (r, s) -> (p * r, q * r + s)) (1, 0) (map (\\v -> (1 + v * a, v)) x)
      in p + q"""
    f = futad.compile(source, backend="interp").f
    x = np.random.default_rng(0).normal(size=13) * 0.1
    np.testing.assert_allclose(shard(f, "n", shards=5)(x, 0.5), f(x, 0.5), rtol=1e-13)


@pytest.mark.slow
def test_progress_and_compiled_code():
    f, args, argnums = arguments("kmeans.objective", 100)
    compiled = futad.load(f.executable.origin.main, backend="c").objective
    told = []
    sharded = shard(compiled, over="n", shards=5, progress=lambda done, total: told.append((done, total)))
    got = sharded.value_and_grad(*args, argnums=argnums)
    assert told == [(k, 5) for k in range(1, 6)]
    for g, w in zip(flat(got), flat(futad.value_and_grad(compiled, argnums=argnums)(*args)), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12)
    assert same_bits(got, sharded.value_and_grad(*args, argnums=argnums))


@pytest.mark.slow
def test_the_emulated_device():
    f, args, argnums = arguments("kmeans.objective", 20)
    device = futad.load(f.executable.origin.main, backend="emulated").objective
    got = shard(device, over="n", shards=2).value_and_grad(*args, argnums=1)
    for g, w in zip(flat(got), flat(futad.value_and_grad(f, argnums=1)(*args)), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12)
