"""Parameters of JAX's primitives: each one is honoured, or refused by name; none is ignored (Note [Parameters])."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

import futad  # noqa: E402
import futad.jax  # noqa: E402
import futad.jax.jaxprs.importer  # noqa: E402, F401 (the rules register themselves)
from futad.errors import FutadWarning  # noqa: E402
from futad.jax.jaxprs.table import HINTS, RULES, Site, Unsupported  # noqa: E402
from tests.hosts.test_jaxprs_table import POINTWISE, RANDOM, SMOOTH, A, V, X, numbers, words  # noqa: E402
from tests.support.jaxprs import agrees, same  # noqa: E402


@jax.custom_vjp
def own(x: Any) -> Any:
    return jnp.sin(x)


own.defvjp(lambda x: (own(x), x), lambda x, g: (g * jnp.cos(x),))

# Parameters that are not as usual, and primitives that the other tables do not have.
MORE: list[tuple[Callable[..., Any], Any]] = [
    (lambda x: lax.reduce_window(x, 1.0, lax.mul, (2,), (1,), "VALID"), V), (own, V),
    (lambda x: lax.composite(lambda y: jnp.sin(y), name="test.sin", version=1)(x), V),
    (lambda x: jax.checkpoint(jnp.sin, prevent_cse=False, policy=jax.checkpoint_policies.dots_saveable)(x), V),
    (lambda x: jax.debug.print("{}", x), V), (lambda x: jax.debug.callback(lambda y: None, x), V),
    (lax.optimization_barrier, V), (lambda x: lax.zeta(x, x), V), (lambda x: lax.random_gamma_grad(x, x), V),
    (lambda x: lax.scan(lambda c, y: (c + y, y), 0.0, x, unroll=2, reverse=True), V),
    (lambda x: jax.random.clone(jax.random.wrap_key_data(x)), np.zeros(2, np.uint32)),
    (lambda x: jax.jit(jnp.sin, inline=True, donate_argnums=0)(x), V),
    (lambda x: lax.sort(x, is_stable=False), V), (lambda x: lax.linalg.svd(x, compute_uv=False), A),
    (lambda x: lax.linalg.eigh(x, sort_eigenvalues=False), A), (lambda x: lax.slice(x, (1,), (3,)), V),
    (lambda x: lax.dot(x, x, precision="highest", preferred_element_type=jnp.float64), np.float32(V)),
    (lambda x: lax.eq_to_p.bind(x, x), V),
    (lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), V),
]  # fmt: skip
HAS_OUT_DTYPE = "out_dtype" in inspect.signature(lax.mul).parameters  # from JAX 0.10 on
if HAS_OUT_DTYPE:
    MORE.append((lambda x: lax.mul(x, x, out_dtype=jnp.float64), np.float32(V)))


def programs() -> Iterator[tuple[Callable[..., Any], Any]]:
    """The programs of all tables, with their arguments."""
    yield from [(f, numbers(dtypes[0], count)) for f, dtypes, count in POINTWISE.values()]
    yield from SMOOTH.values()
    yield from [(lambda k, f=f: words(f(k)), [np.zeros(2, np.uint32)]) for f in RANDOM.values()]
    yield from [(f, [x]) for f, x in MORE]


def jaxprs_of(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for part in value:
            yield from jaxprs_of(part)
    elif hasattr(value, "eqns"):
        yield value


def walked(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for inner in jaxprs_of(value):
                yield from walked(inner)


@cache
def parameters() -> dict[str, list[dict[str, Any]]]:
    """Of each primitive those of its equations, in all programs of the tables."""
    out: dict[str, list[dict[str, Any]]] = {}
    with jax.enable_x64(True):
        for f, args in programs():
            for eqn in walked(jax.make_jaxpr(f)(*args)):
                out.setdefault(eqn.primitive.name, []).append(dict(eqn.params))
    return out


# Names of other versions of JAX, what only its explicit sharding makes, what random numbers are made of on the way.
UNMET = {
    "threefry2x32", "iota_2x32_shape", "random_gamma_grad",
    "pjit", "closed_call", "core_call", "checkpoint", "remat", "expand_dims", "copy_p", "scatter_add", "scatter_mul",
    "scatter_min", "scatter_max", "custom_vjp_call_jaxpr", "pvary", "sharding_constraint", "empty", "empty2",
    "dim_as_value",
    "stack", "unstack", "mulhi",  # from JAX 0.10 on
}  # fmt: skip


def test_every_parameter_is_declared() -> None:
    met = parameters()
    assert set(RULES) - set(met) <= UNMET
    for name in set(RULES) & set(met):
        rule = RULES[name]
        declared = rule.reads | rule.free | set(rule.only)
        for params in met[name]:
            rule.check(params)
            assert {n for n, value in params.items() if value is not None} <= declared, name


@pytest.mark.parametrize("value", [False, 0, "auto", jnp.float32])
def test_what_a_rule_does_not_declare_is_refused(value: Any) -> None:
    for name, rule in RULES.items():
        for params in parameters().get(name, [{}])[:1]:
            undeclared = [n for n in params if n not in rule.reads | rule.free and n not in rule.only]
            for other in ("new_in_jax", *undeclared):
                rule.check({**params, other: None})
                with pytest.raises(Unsupported, match=f"with {other}={getattr(value, '__name__', value)} is not"):
                    rule.check({**params, other: value})
    for name in ("qr", "tridiagonal_solve", "dot_general", "scatter", "reduce_window", "jit", "conv_general_dilated"):
        for restricted in RULES[name].only:
            with pytest.raises(Unsupported, match=f"with {restricted}=other is not supported"):
                RULES[name].check({restricted: "other"})


def test_hints_have_a_reason_and_are_used() -> None:
    used = {name for rule in RULES.values() for name in rule.free}
    assert all(HINTS.values()) and set(HINTS) <= used


class Seen(dict[str, Any]):
    """Parameters that note which of them are read."""

    def __init__(self, params: dict[str, Any], name: str, read: set[tuple[str, str]]) -> None:
        super().__init__(params)
        self.name, self.read = name, read

    def __getitem__(self, name: str) -> Any:
        self.read.add((self.name, name))
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add((self.name, name))
        return super().get(name, default)


@pytest.mark.slow
def test_what_a_rule_declares_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[tuple[str, str]] = set()
    plain = Site.__init__

    def watched(self: Any, *args: Any) -> None:
        plain(self, *args)
        self.params = Seen(self.params, self.name, read)

    monkeypatch.setattr(Site, "__init__", watched)
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutadWarning)
        for f, args in programs():
            futad.jax.compile(f, *args, backend="interp")
    there = {(name, p) for name, every in parameters().items() if name in RULES for params in every for p in params}
    declared = {(name, p) for name, p in there if p in RULES[name].reads}
    assert declared - read == {("random_gamma", "log_space")}  # JAX's own sampler is handed all of them
    assert len(declared) > 100


@pytest.mark.skipif(not HAS_OUT_DTYPE, reason="this version of JAX has no such products")
def test_a_product_of_another_type() -> None:
    """Both factors become what the result is; their adjoints are of their own types."""
    x = np.float32([1.1, -2.3, 0.7])
    agrees(lambda x, y: lax.mul(x, y, out_dtype=jnp.float64), [x, x[::-1].copy()])
    agrees(lambda x, y: lax.mul(x, y, out_dtype=jnp.int32), [np.int8([100, -7]), np.int8([100, 9])])

    def f(x: Any) -> Any:
        return (lax.mul(x, jnp.sin(x), out_dtype=jnp.float64) ** 2).sum()

    with jax.enable_x64(True):
        made = futad.grad(futad.jax.compile(f, x, backend="interp"))(x)
        same(made, jax.grad(f)(jnp.asarray(x)), 1e-6)


REFUSED = {
    "with accuracy=AccuracyMode.HIGHEST": lambda x: lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST),
    "with precision=BF16_BF16_F32": lambda x: lax.dot(x, x, precision=lax.DotAlgorithmPreset.BF16_BF16_F32),
    "with pivoting=True": lambda x: lax.linalg.qr(jnp.outer(x, x), pivoting=True),
    "with subset_by_index=(0, 1)": lambda x: lax.linalg.eigh(jnp.outer(x, x), subset_by_index=(0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_name_primitive_parameter_value_and_line(text: str) -> None:
    with pytest.raises(futad.errors.UsageError, match=rf"(?s)test_jaxprs_parameters.py:\d+.*'\w+' {re.escape(text)}"):
        futad.jax.compile(REFUSED[text], np.float32(X[0]), backend="interp")
