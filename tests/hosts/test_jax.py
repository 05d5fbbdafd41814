"""Entries in JAX: `futad.jax.function`."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.api.program import Program
from futad.errors import AssertionFailed, BoundsError, DtypeError, FutadWarning, ShapeError, UsageError
from tests.support.benchmark_programs import program
from tests.support.slow import slow_but

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

import futad.jax  # noqa: E402

SOURCE = """
entry layer [n][m] (w: [m][n]f64) (x: [n]f64): [m]f64 = map (\\r -> f64.tanh (f64.sum (map2 (*) r x))) w
entry loss [n] (w: {a: [n]f64, b: f64, k: i64}) (x: [n]f64): f64 =
  f64.sum (map2 (\\a x -> f64.sin (a * x) + w.b * w.b * x ** f64.i64 w.k) w.a x)
entry many [n] (x: [n]f64) (k: i64): {s: [n]f64, k: i64, t: (f64, bool)} =
  {s = map f64.sin x, k = k + 1, t = (f64.sum x, k > 2)}
entry narrow [n] (x: [n]f32) (s: f32): [n]f32 = map (* s) x
entry set [n] (xs: *[n]f64) (i: i64) (x: f64): [n]f64 = xs with [i] = x
entry positive (xs: []f64): []f64 = map (** 2) (filter (> 0) xs)
entry capped (x: f64): f64 = assert (x < 2) (x * x * x)
entry copies (k: i64) (x: f64): [k]f64 = replicate k (x * x)
entry first (k: i64) (x: [k]f64): f64 = x[0] * x[0]
entry tiny (x: f64): f64 = x * 0.5
entry pick [n] (x: [n]f32) (is: []i64): f32 = f32.sum (map (\\i -> x[i] * x[i]) is)
entry count [n] (x: [n]f32): i64 = i64.sum (map (\\x -> i64.bool (x > 0)) x)
"""


# Errors of custom calls in compiled code: JAX 0.10 raises a ValueError once a function has succeeded.
COMPILED_ERRORS = (jax.errors.JaxRuntimeError, ValueError)


@pytest.fixture(scope="module", autouse=True)
def wide() -> Iterator[None]:
    """64-bit types, for these tests alone."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module")
def prog() -> Program:
    return futad.compile(SOURCE, "net.fut", backend="c")


def randn(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def plain_layer(w: Any, x: Any) -> Any:
    return jnp.tanh(w @ x)


def plain_loss(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.sin(w["a"] * x) + w["b"] * w["b"] * x ** w["k"])


def same(mine: Any, theirs: Any, rtol: float = 1e-12) -> None:
    assert jax.tree.structure(mine) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


# -- values and derivatives


@pytest.mark.parametrize("staged", slow_but((True,), (False, True)))
def test_derivatives_are_jaxs(prog: Program, staged: bool) -> None:
    """First and second ones of an entry with an array as its result, in both modes, and each over the other."""
    layer, w, x = futad.jax.function(prog.layer), randn(3, 4), randn(4, seed=1)
    jit = jax.jit if staged else lambda f: f
    same(jit(layer)(w, x), plain_layer(w, x))
    same(jax.jvp(jit(layer), (w, x), (w + 1, x)), jax.jvp(plain_layer, (w, x), (w + 1, x)))
    for d in (jax.jacrev, jax.jacfwd):
        same(jit(d(layer, (0, 1)))(w, x), d(plain_layer, (0, 1))(w, x))

    def squares(f: Any) -> Any:
        return lambda x: jnp.sum(f(w, x) ** 2)

    for second in (jax.hessian, lambda f: jax.jacrev(jax.jacrev(f)), lambda f: jax.jacfwd(jax.jacfwd(f))):
        same(jit(second(squares(layer)))(x), second(squares(plain_layer))(x))


@pytest.mark.parametrize("staged", slow_but((True,), (False, True)))
def test_derivatives_of_losses(prog: Program, staged: bool) -> None:
    """One number as the result: value and gradient at once; records, numbers, integers."""
    loss, x = futad.jax.function(prog.loss), randn(3, seed=1) ** 2
    jit = jax.jit if staged else lambda f: f
    w = {"a": randn(3), "b": jnp.asarray(0.5), "k": 2}

    def of(f: Any) -> Any:
        return lambda a, b: f({"a": a, "b": b, "k": 2}, x)

    args = (w["a"], w["b"])
    same(jit(jax.value_and_grad(of(loss), (0, 1)))(*args), jax.value_and_grad(of(plain_loss), (0, 1))(*args))
    same(jit(jax.hessian(of(loss), (0, 1)))(*args), jax.hessian(of(plain_loss), (0, 1))(*args), 1e-11)
    same(jax.jvp(jit(of(loss)), args, args), jax.jvp(of(plain_loss), args, args))
    third = jax.jacfwd(jax.hessian(of(loss)))
    same(jit(third)(*args), jax.jacfwd(jax.hessian(of(plain_loss)))(*args), 1e-11)


def test_the_dot_product_identity(prog: Program) -> None:
    """<ybar, J t> = <J^T ybar, t>, through the primitive and its transpose, also with some tangents alone."""
    layer, w, x = futad.jax.function(prog.layer), randn(3, 4), randn(4, seed=1)
    _, push = jax.linearize(layer, w, x)
    t, bar = (randn(3, 4, seed=2), randn(4, seed=3)), randn(3, seed=4)
    _, pull = jax.vjp(layer, w, x)
    both = sum(jnp.vdot(a, b) for a, b in zip(pull(bar), t, strict=True))
    np.testing.assert_allclose(jnp.vdot(bar, push(*t)), both, rtol=1e-12)
    (only,) = jax.linear_transpose(lambda t: jax.jvp(layer, (w, x), (w * 0, t))[1], x)(bar)
    same(only, pull(bar)[1])


def test_integers_and_bools_are_constants(prog: Program) -> None:
    many, x = futad.jax.function(prog.many), randn(3)
    made = jax.jit(many)(x, jnp.asarray(3))
    assert (int(made.k), bool(made.t[1])) == (4, True) and made.k.dtype == np.int64 and list(made) == ["s", "k", "t"]
    value, pull = jax.vjp(many, x, 3)
    bars = futad.Record(s=2 * x, k=np.zeros((), jax.dtypes.float0), t=(1.0, np.zeros((), jax.dtypes.float0)))
    along, number = pull(bars)
    same(along, jnp.cos(x) * 2 * x + 1)
    assert number.dtype == jax.dtypes.float0 or number == 0
    _, moved = jax.jvp(many, (x, 3), (x, np.zeros((), jax.dtypes.float0)))
    same(moved.s, jnp.cos(x) * x)
    assert moved.k.dtype == jax.dtypes.float0 and moved.t[1].dtype == jax.dtypes.float0
    g = jax.grad(futad.jax.function(prog.loss), allow_int=True)({"a": x, "b": 0.5, "k": 2}, x)
    assert g["k"].dtype == jax.dtypes.float0


def test_empty_arrays_and_not_a_number(prog: Program) -> None:
    layer, loss = futad.jax.function(prog.layer), futad.jax.function(prog.loss)
    empty = jnp.zeros((0, 2))
    for f in (layer, jax.jit(layer)):
        assert f(empty, jnp.ones(2)).shape == (0,) and f(jnp.zeros((2, 0)), jnp.ones(0)).tolist() == [0, 0]
        assert jax.jacrev(f, 1)(empty, jnp.ones(2)).shape == (0, 2)
    gradient = jax.jit(jax.grad(lambda a: loss({"a": a, "b": 1.0, "k": 2}, a)))(jnp.zeros(0))
    assert gradient.shape == (0,)
    made = jax.jit(jax.grad(lambda x: jnp.sum(layer(jnp.ones((1, 2)), x))))(jnp.array([jnp.nan, 1.0]))
    assert np.isnan(made).all()


def test_sizes_that_are_numbers(prog: Program) -> None:
    """A number that a shape depends on is known when it is traced; one that must agree with a shape is checked."""
    copies, first = futad.jax.function(prog.copies), futad.jax.function(prog.first)
    same(jax.jit(lambda x: copies(3, x))(2.0), jnp.full(3, 4.0))
    same(jax.jit(jax.jacrev(lambda x: copies(np.int64(3), x)))(2.0), jnp.full(3, 4.0))
    same(jax.vmap(lambda x: copies(2, x))(jnp.arange(3.0)), jnp.stack([jnp.arange(3.0) ** 2] * 2, 1))
    with pytest.raises(UsageError, match="depends on the value of argument 'k': give the number"):
        jax.jit(copies)(3, 2.0)
    x = jnp.array([3.0, 1.0])
    same(jax.jit(jax.grad(first, 1))(jnp.asarray(2), x), jnp.array([6.0, 0.0]))
    with pytest.raises(jax.errors.JaxRuntimeError, match="argument 'x' of first: dimension 0 is 2, where 5 is needed"):
        jax.jit(first)(jnp.asarray(5), x).block_until_ready()
    with pytest.raises(ShapeError, match="argument 'x' of first: dimension 0 is 2, where 5 is needed by argument 'k'"):
        jax.jit(lambda x: first(5, x))(x)


def test_sizes_found_by_running_are_for_calls_outside_of_jit(prog: Program) -> None:
    positive = futad.jax.function(prog.positive)
    assert positive(jnp.array([1.0, -2.0, 3.0])).tolist() == [1, 9]
    with pytest.raises(UsageError, match="the shape of the result of positive is found by running it"):
        jax.jit(positive)(jnp.ones(3))
    with pytest.raises(UsageError, match="may differ in shape"):
        jax.vmap(positive)(jnp.ones((2, 3)))


def test_arguments_are_never_changed(prog: Program) -> None:
    setter, xs = futad.jax.function(prog.set), jnp.zeros(3)
    for f in (setter, jax.jit(setter)):
        assert f(xs, 1, 5.0).tolist() == [0, 5, 0] and not xs.any()
    assert jax.jit(jax.grad(lambda xs: setter(xs, 1, 5.0).sum()))(xs).tolist() == [1, 0, 1] and not xs.any()


# -- transformations


@pytest.mark.slow
def test_batches(prog: Program) -> None:
    layer, loss = futad.jax.function(prog.layer), futad.jax.function(prog.loss)
    w, xs = randn(3, 4), randn(4, 5, seed=1)
    for jit in (lambda f: f, jax.jit):
        same(jit(jax.vmap(layer, (None, 1)))(w, xs), jax.vmap(plain_layer, (None, 1))(w, xs))
        each = jit(jax.vmap(jax.grad(lambda x: layer(w, x).sum()), 1))(xs)
        same(each, jax.vmap(jax.grad(lambda x: plain_layer(w, x).sum()), 1)(xs))
        twice = jit(jax.vmap(jax.vmap(layer, (None, 0)), (0, None)))(jnp.stack([w, 2 * w]), xs.T)
        same(twice[1], plain_layer(2 * w, xs).T)
    # A record of which one component has the batch; its Jacobian, each point's along all directions.
    a, x = randn(5, 3), randn(3, seed=2) ** 2
    some = jax.vmap(lambda a: loss({"a": a, "b": 0.5, "k": 2}, x))(a)
    same(some, jnp.stack([plain_loss({"a": row, "b": 0.5, "k": 2}, x) for row in a]))
    for d in (jax.jacfwd, jax.jacrev):
        same(jax.vmap(d(layer, 1), (None, 1))(w, xs), jax.vmap(d(plain_layer, 1), (None, 1))(w, xs))
    nested = jax.jacfwd(jax.vmap(jax.jacfwd(layer, 1), (None, 1)), 1)(w, xs)
    same(nested, jax.jacfwd(jax.vmap(jax.jacfwd(plain_layer, 1), (None, 1)), 1)(w, xs))
    both = jax.vmap(lambda w, x: jax.jvp(lambda w: layer(w, x), (w,), (w,))[1])(jnp.stack([w, w + 1]), xs.T[:2])
    same(both[1], jax.jvp(lambda w: plain_layer(w, xs.T[1]), (w + 1,), (w + 1,))[1])


@pytest.mark.slow
def test_scan_checkpoint_and_branches(prog: Program) -> None:
    layer = futad.jax.function(prog.layer)
    w, x = randn(4, 4), randn(4, seed=1)

    def steps(f: Any, wrap: Any) -> Any:
        inner = wrap(lambda w, x: f(w, x) + x)
        return lambda w: jnp.sum(jax.lax.scan(lambda x, _: (inner(w, x), x), x, None, length=5)[0])

    expected = jax.value_and_grad(steps(plain_layer, lambda f: f))(w)
    for wrap in (lambda f: f, jax.checkpoint):
        same(jax.jit(jax.value_and_grad(steps(layer, wrap)))(w), expected)
    same(jax.grad(jax.checkpoint(steps(layer, lambda f: f)))(w), expected[1])

    def chosen(f: Any) -> Any:
        return lambda w, b: jnp.sum(jax.lax.cond(b, lambda w: f(w, x), lambda w: w[0], w))

    same(jax.jit(jax.grad(chosen(layer)))(w, True), jax.grad(chosen(plain_layer))(w, True))
    made = jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, layer(w, s[1])), (0, x))[1]
    same(made, plain_layer(w, plain_layer(w, plain_layer(w, x))))


def test_32_bits(prog: Program) -> None:
    narrow, pick = futad.jax.function(prog.narrow), futad.jax.function(prog.pick)
    with jax.enable_x64(False):
        x = jnp.arange(3.0)
        for f in (narrow, jax.jit(narrow)):
            assert f(x, 2).dtype == np.float32 and f(x, 0.5).tolist() == [0, 0.5, 1]
        # Integers of 32 bits are what JAX has for those of 64.
        for f in (pick, jax.jit(pick)):
            assert f(x, jnp.array([1, 2, 2])) == 9 and f(x, [2, 2]) == 8
            assert jax.grad(f)(x, jnp.array([1, 2, 2])).tolist() == [0, 2, 8]
        assert jax.jit(jax.vmap(pick, (None, 0)))(x, jnp.array([[1, 2], [2, 2]])).tolist() == [5, 8]
        with pytest.raises(DtypeError, match="argument 'is' does not fit int32"):
            pick(x, [1 << 40])
        with pytest.raises(UsageError, match="'w' of layer is of f64, but JAX has 64-bit types switched off"):
            futad.jax.function(prog.layer)(x, x)
        with pytest.raises(UsageError, match="'result' of count is of i64"):
            futad.jax.function(prog.count)(x)
    assert narrow(jnp.arange(3, dtype=jnp.float16), 2).tolist() == [0, 2, 4]
    assert jax.jit(narrow)(jnp.ones(2, jnp.float32), 0.1).dtype == np.float32  # a Python number that jit traced


def test_subnormal_numbers(prog: Program) -> None:
    """XLA's threads flush them to zero."""
    made = jax.jit(futad.jax.function(prog.tiny))(jnp.float64(4e-320))
    assert np.asarray(made) == np.float64(4e-320) * 0.5 > 0


def test_threads(prog: Program) -> None:
    """Several threads call one entry, each with its own numbers and errors."""
    setter = jax.jit(futad.jax.function(prog.set))
    f = jax.jit(jax.grad(lambda w, x: futad.jax.function(prog.layer)(w, x).sum()))
    x, wrong, done = randn(64), [], []
    f(randn(64, 64), x).block_until_ready()

    def work(seed: int) -> None:
        w = randn(64, 64, seed=seed)
        expected = jax.grad(lambda w: plain_layer(w, x).sum())(w)
        wrong.extend([seed for _ in range(20) if not np.allclose(f(w, x), expected, rtol=1e-10)])
        for k in range(100 * seed, 100 * seed + 20):
            with pytest.raises(COMPILED_ERRORS, match=rf"Index \[{k + 10}\] out of bounds"):
                setter(x[:3], k + 10, 0.0).block_until_ready()
        done.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and sorted(done) == [0, 1, 2, 3]


SHARDED = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import pickle, sys
import jax, jax.numpy as jnp, numpy as np
import futad.jax
from jax.sharding import PartitionSpec as P
jax.config.update("jax_enable_x64", True)
layer = futad.jax.function(pickle.load(open(sys.argv[1], "rb")))
mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
w, xs = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4))), jnp.arange(32.0).reshape(8, 4) / 9

def each(w, xs):
    value, bar = jax.value_and_grad(lambda w: jnp.sum(jax.vmap(layer, (None, 0))(w, xs)))(w)
    return jax.lax.psum(value, "i"), bar

def whole(w, xs):
    return jnp.sum(jnp.tanh(xs @ w.T))

value, bar = jax.value_and_grad(whole)(w, xs)
for check in (True, False):
    if check:
        body = each
    else:  # without types that tell what differs, the sum over devices is written by hand
        body = lambda w, xs: tuple([jax.lax.psum(y, "i") for y in jax.value_and_grad(
            lambda w: jnp.sum(jax.vmap(layer, (None, 0))(w, xs)))(w)])
    sharded = jax.shard_map(body, mesh=mesh, in_specs=(P(), P("i")), out_specs=(P(), P()), check_vma=check)
    for f in (jax.jit(sharded), sharded):
        mine = f(w, xs)
        np.testing.assert_allclose(mine[0], value, rtol=1e-12)
        np.testing.assert_allclose(mine[1], bar, rtol=1e-12)
print("equal")
"""


@pytest.mark.slow
def test_two_devices(prog: Program, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(pickle.dumps(prog.layer))
    done = subprocess.run([sys.executable, "-c", SHARDED, str(tmp_path / "f")], capture_output=True, text=True)
    assert done.stdout.strip() == "equal", done.stderr[-3000:]


CACHED = """
import pickle, sys
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", sys.argv[2])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if "cache_hits" in name else None)
import futad.jax
layer = futad.jax.function(pickle.load(open(sys.argv[1], "rb")))
made = jax.jit(jax.value_and_grad(lambda x: layer(jnp.ones((2, 3)), x).sum()))(jnp.arange(3.0))
print(len(hits), float(made[0]), made[1].tolist())
"""


@pytest.mark.slow
def test_what_xla_keeps_on_disk_is_right_in_another_process(prog: Program, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(pickle.dumps(prog.layer))
    command = [sys.executable, "-c", CACHED, str(tmp_path / "f"), str(tmp_path / "cache")]
    runs = [subprocess.run(command, capture_output=True, text=True) for _ in range(2)]
    assert not any(r.returncode for r in runs), runs[0].stderr[-3000:]
    (before, first), (after, second) = [r.stdout.split(maxsplit=1) for r in runs]
    assert first == second and first.startswith("1.99") and int(after) > int(before) == 0


# -- errors


def test_errors_of_the_program_have_their_place(prog: Program) -> None:
    capped, setter = futad.jax.function(prog.capped), futad.jax.function(prog.set)
    for _ in range(2):
        with pytest.raises(AssertionFailed, match=r"net.fut:10:\d+: Error: "):
            capped(3.0)
        with pytest.raises(BoundsError, match=r"net.fut:8:\d+: Error: Index \[3\] out of bounds for array"):
            setter(jnp.zeros(2), 3, 0.0)
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"net.fut:8:\d+: Error: Index \[3\] out of bounds"):
            jax.jit(setter)(jnp.zeros(2), 3, 0.0).block_until_ready()
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"(?s)net.fut:10:\d+: Error: .*entry capped.*\^\^\^"):
            jax.jit(jax.grad(capped))(3.0).block_until_ready()
    assert jax.jit(capped)(1.0) == 1
    staged, xs = jax.jit(setter), jnp.zeros(2)
    assert staged(xs, 1, 2.0).tolist() == [0, 2]  # JAX calls compiled code directly from here on
    for _ in range(2):
        with pytest.raises(COMPILED_ERRORS, match=r"net.fut:8:\d+: Error: Index \[3\] out of bounds for array"):
            staged(xs, 3, 0.0).block_until_ready()
    assert staged(xs, 0, 2.0).tolist() == [2, 0]


def test_wrong_arguments_are_named(prog: Program) -> None:
    layer, narrow = futad.jax.function(prog.layer), futad.jax.function(prog.narrow)
    w, x = randn(3, 4), randn(4)
    for f in (layer, jax.jit(layer)):
        with pytest.raises(ShapeError, match="argument 'x' of layer: dimension 0 is 5"):
            f(w, randn(5))
        with pytest.raises(ShapeError, match="argument 'x': expected .*f64, which has rank 1, got an array of shape"):
            f(w, w)
    for wrong in (jnp.float64, jnp.int64, jnp.bfloat16, jnp.complex128):
        with pytest.raises(DtypeError, match="argument 'x': expected .*float32.*got an array of") as e:
            jax.jit(narrow)(jnp.ones(2, wrong), 1.0)
        assert "x.astype(jnp.float32)" in str(e.value)
    with pytest.raises(UsageError, match="layer: missing a required argument: 'x'"):
        layer(w)
    with pytest.raises(DtypeError, match="argument 'x'"):
        layer(w, None)
    with pytest.raises(ShapeError, match="argument 'w': of an empty list"):
        futad.jax.function(prog.layer)([], [1.0])
    with pytest.raises(UsageError, match="takes an entry of a program, not function"):
        futad.jax.function(lambda x: x)
    with pytest.raises(DtypeError, match="(?s)argument 'w'.*hint: futad.jax.function.f. takes what JAX traces"):
        jax.jit(prog.layer)(w, x)
    assert layer is futad.jax.function(prog.layer) and pickle.loads(pickle.dumps(layer)) is layer
    same(layer(x=x, w=w), layer(w, x))


def test_compiled_code_whose_entries_were_not_traced_here(prog: Program) -> None:
    """As what another process has exported: an entry is known by its program's source, and so are its derivatives."""
    from futad.jax.calls import handler
    from futad.jax.calls.entries import call_of

    def made(entry: str, recipe: str) -> Any:
        call = jax.ffi.ffi_call(handler.TARGET, jax.ShapeDtypeStruct((), np.float64))
        return jax.jit(lambda x: call(x, entry=entry, name="lost", recipe=recipe))(3.0).block_until_ready()

    futad.jax.function(prog.loss)  # so that XLA knows the handler
    text = "entry f (x: f64) = x * x + 41"
    there = call_of(futad.compile(text, backend="c").f.derivative("grad", 0))
    for recipe in ("", there.recipe):
        with pytest.raises(jax.errors.JaxRuntimeError, match="does not know the entry 'lost'.*\n.*futad.jax.function"):
            made(there.digest, recipe)
    known = futad.jax.function(futad.compile(text, backend="c").f)
    assert made(there.digest, there.recipe) == 6 and made(known._call.digest, known._call.recipe) == 50
    with pytest.raises(jax.errors.JaxRuntimeError, match="does not know the entry 'lost'"):
        made("0" * 64, there.recipe)


@pytest.mark.slow
def test_exported_functions_have_symbolic_sizes(prog: Program) -> None:
    export = pytest.importorskip("jax.export")
    layer, w = futad.jax.function(prog.layer), randn(2, 3)
    (n,) = export.symbolic_shape("n")
    allowed = [export.DisabledSafetyCheck.custom_call("futad_call")]
    spec = [jax.ShapeDtypeStruct((2, n), np.float64), jax.ShapeDtypeStruct((n,), np.float64)]
    made = export.export(jax.jit(jax.jacrev(layer)), disabled_checks=allowed)(*spec)
    for x in (randn(3), randn(1)):
        same(made.call(w[:, : len(x)], x), jax.jacrev(plain_layer)(w[:, : len(x)], x))


def test_other_backends_and_bound_entries(prog: Program) -> None:
    slow = futad.compile(SOURCE, "slow.fut", backend="interp")
    layer, w, x = futad.jax.function(slow.layer), randn(3, 4), randn(4, seed=1)
    with pytest.warns(FutadWarning, match="slow.fut is called through jax.pure_callback"):
        same(jax.jit(layer)(w, x), plain_layer(w, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(jax.jit(jax.jacrev(layer))(w, x), jax.jacrev(plain_layer)(w, x))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"slow.fut:10:\d+: Error: "):
        jax.jit(futad.jax.function(slow.capped))(3.0).block_until_ready()
    with pytest.raises(AssertionFailed, match=r"slow.fut:10:\d+: Error: "):
        futad.jax.function(slow.capped)(3.0)
    bound = futad.jax.function(futad.bind(prog.layer, w=np.asarray(w)))
    same(jax.jit(jax.jacrev(bound))(x), jax.jacrev(plain_layer, 1)(w, x))
    threads = futad.compile(SOURCE, backend="multicore")
    same(jax.jit(jax.jacrev(futad.jax.function(threads.layer)))(w, x), jax.jacrev(plain_layer)(w, x))


def test_programs_without_a_source_run(prog: Program) -> None:
    made = Program(prog.core, backend="c")
    same(jax.jit(jax.grad(futad.jax.function(made.capped)))(1.5), jnp.asarray(3 * 1.5**2))


# -- programs of the benchmarks

BENCHMARKS = {
    "gmm": lambda p: (p.objective, (randn(2), randn(2, 2, seed=1), randn(2, 3, seed=2), randn(4, 2, seed=3), 1.0, 0)),
    "kmeans": lambda p: (p.objective, (randn(5, 2), randn(2, 2, seed=1))),
    "lse": lambda p: (p.primal, (randn(4),)),
    "det": lambda p: (p.primal, (2, randn(4))),
    "leapfrog": lambda p: (p.loss, (3, 0.1, abs(randn(2)), randn(2, seed=1), randn(2, seed=2))),
    "lstm64": lambda p: (p.objective, tuple([randn(*s, seed=i) for i, s in enumerate(
        [(4, 2, 2), (4, 2, 2), (4, 2), (1, 2), (1,), (1, 2), (1, 2), (2, 1, 2), (2, 1, 1)])])),
}  # fmt: skip


@pytest.mark.parametrize("name", slow_but(("lse",), BENCHMARKS))
def test_derivatives_of_benchmark_programs(name: str) -> None:
    """First and second ones in both modes against differences; outside of `jit` and inside the same."""
    from jax.test_util import check_grads

    f, args = BENCHMARKS[name](program(name, "c"))
    active = [i for i, x in enumerate(args) if isinstance(x, jax.Array)]
    made = futad.jax.function(f)

    def of(*given: Any) -> Any:
        full = dict(enumerate(args)) | dict(zip(active, given, strict=True))
        return made(*full.values())

    given = [args[i] for i in active]
    check_grads(of, given, order=1 if name == "lstm64" else 2, rtol=1e-6, atol=1e-6, eps=1e-4)
    same(jax.jit(jax.jacrev(of))(*given), jax.jacrev(of)(*given), 1e-13)
    gradient = futad.grad(f, active[0])(*args) if f.entry.result.kind == "scalar" else None
    if gradient is not None:
        same(jax.jit(jax.grad(of))(*given), jnp.asarray(gradient), 1e-13)
