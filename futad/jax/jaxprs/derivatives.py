"""Rules of functions that bring their own derivative, and of linear solves, which have one by a theorem.

What the derivative is, JAX is asked: the equation, alone, is differentiated by it, and that is traced.  A derivative
may call its function (which often gives it the value): inside, functions are their code, or there would be no end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from futad.core import ir
from futad.core.builder import Builder, Ex
from futad.core.types import Atom
from futad.jax.jaxprs.elementwise import apply
from futad.jax.jaxprs.library import of_numbers
from futad.jax.jaxprs.lifted import Value, dense, op_at, whole
from futad.jax.jaxprs.randomness import key_type
from futad.jax.jaxprs.table import Site, rule

Code = Callable[[Builder, Sequence[Value]], Sequence[Value]]


def is_real(aval: Any) -> bool:
    return bool(jax.numpy.issubdtype(aval.dtype, np.floating))


def none(aval: Any) -> Any:
    """The tangent or cotangent that JAX has for what is not differentiated."""
    return np.zeros(aval.shape, jax.dtypes.float0)


def alone(s: Site, args: Sequence[Value]) -> tuple[Callable[..., Any], list[Any], list[Value]]:
    """The equation as a function of JAX of its operands that are no literals, with their types and what they are."""
    operands = {v: a for v, a in zip(s.eqn.invars, args, strict=True) if not isinstance(v, core.Literal)}
    eqn = s.eqn.replace(outvars=[core.Var(v.aval) for v in s.eqn.outvars])
    jaxpr = s.importer.jaxpr.replace(constvars=[], invars=list(operands), outvars=eqn.outvars, eqns=[eqn])
    f = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, []))
    return f, [v.aval for v in operands], list(operands.values())


def variables_of(s: Site) -> list[Any]:
    """The operands that are no literals, each once."""
    return list(dict.fromkeys([e for e in s.eqn.invars if not isinstance(e, core.Literal)]))


def structs(avals: Sequence[Any]) -> list[Any]:
    return [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]


@rule("custom_jvp_call", reads="call_jaxpr", hints="jvp_jaxpr_fun num_consts symbolic_zeros")
def _custom_jvp(s: Site, *args: Value) -> list[Value]:
    return with_jvp_of_jax(s, args, lambda b, given: s.importer.run(b, s.params["call_jaxpr"], given))


def with_jvp_of_jax(s: Site, args: Sequence[Value], code: Code) -> list[Value]:
    """The equation as `code` with the derivative that JAX has for it."""
    if s.importer.within_derivative:
        return list(code(s.b, args))
    f, avals, operands = alone(s, args)
    outs = [v.aval for v in s.eqn.outvars]
    count = len(avals)

    def push(*xs: Any) -> list[Any]:
        tangents = [t if is_real(a) else none(a) for t, a in zip(xs[count:], avals, strict=True)]
        made = jax.jvp(f, xs[:count], tuple(tangents))[1]
        return [t if is_real(a) else jax.numpy.zeros(a.shape, a.dtype) for t, a in zip(made, outs, strict=True)]

    def pushed(b: Builder, *given: Atom) -> list[Atom]:
        with s.importer.derivative():
            return [dense(b, v) for v in s.importer.traced(b, push, structs(avals) * 2, list(map(whole, given)))]

    inputs = [("x", v.type) for v in operands]
    lam = s.b.lambda_(inputs, body_of(s, code, args))
    made = s.b.emit(ir.WithJvp(lam, s.b.lambda_(inputs * 2, pushed), tuple([dense(s.b, v) for v in operands])))
    return [whole(v) for v in made]


@rule("random_gamma", reads="log_space")
def _random_gamma(s: Site, key: Value, shape: Value) -> list[Value]:
    """JAX's own sampler, with the derivative that the implicit function theorem gives it."""
    key_type(s)
    f = functools.partial(s.eqn.primitive.impl, **s.params)
    avals = [v.aval for v in s.eqn.invars]
    return with_jvp_of_jax(s, [key, shape], lambda b, given: s.importer.traced(b, f, avals, given))


@rule("bessel_i0e", "bessel_i1e")
def _bessel(s: Site, x: Value) -> list[Value]:
    def of_number(e: Ex) -> Ex:
        return of_numbers(s.name, e)

    return with_jvp_of_jax(s, [x], lambda b, given: [apply(Site(s.importer, b, s.eqn, s.place), of_number, *given)])


def body_of(s: Site, code: Code, args: Sequence[Value]) -> Callable[..., list[Atom]]:
    """The code of a function of the operands that are no literals."""
    variables = variables_of(s)

    def body(b: Builder, *xs: Atom) -> list[Atom]:
        given = dict(zip(variables, map(whole, xs), strict=True))
        full = [v if isinstance(e, core.Literal) else given[e] for e, v in zip(s.eqn.invars, args, strict=True)]
        return [dense(b, v) for v in code(b, full)]

    return body


@rule("custom_vjp_call", "custom_vjp_call_jaxpr", reads="call_jaxpr fun_jaxpr num_consts",
      hints="fwd_jaxpr_thunk bwd out_trees symbolic_zeros")  # fmt: skip
def _custom_vjp(s: Site, *args: Value) -> list[Value]:
    """The function with the derivative it brings, which computes again what the function saved for it.  Forward
    derivatives, which JAX refuses, are those of the function itself.

    What the function closes over (its first operands, `num_consts`) JAX does not differentiate; it refuses functions
    where such a value depends on what is.  The adjoint there is NaN, which nobody reads elsewhere."""
    body = s.params.get("call_jaxpr") or s.params["fun_jaxpr"]
    if s.importer.within_derivative:
        return s.importer.run(s.b, body, args)
    f, avals, operands = alone(s, args)
    outs = [v.aval for v in s.eqn.outvars]
    inputs = [("x", v.type) for v in operands]
    code = body_of(s, lambda b, given: s.importer.run(b, body, given), args)
    given_to_it = [v for v in s.eqn.invars[s.params.get("num_consts", 0) :] if not isinstance(v, core.Literal)]
    active = [v in given_to_it for v in variables_of(s)]

    def forward(b: Builder, *xs: Atom) -> list[Atom]:
        return [*xs, *code(b, *xs)]

    def pull(*xs: Any) -> list[Any]:
        count = len(avals)
        given = iter(xs[count:])
        cotangents = [next(given) if is_real(a) else none(a) for a in outs]

        def of_active(*some: Any) -> Any:
            it = iter(some)
            return f(*[next(it) if varies else x for x, varies in zip(xs[:count], active, strict=True)])

        found = iter(jax.vjp(of_active, *[x for x, varies in zip(xs, active, strict=False) if varies])[1](cotangents))
        adjoints = [next(found) if varies else jax.numpy.full(a.shape, jax.numpy.nan, a.dtype) if is_real(a) else None
                    for a, varies in zip(avals, active, strict=True)]  # fmt: skip
        return [g if is_real(a) else jax.numpy.zeros(a.shape, a.dtype) for g, a in zip(adjoints, avals, strict=True)]

    def backward(b: Builder, *given: Atom) -> list[Atom]:
        count = len(avals)
        adjoints = [whole(g) for g, a in zip(given[count + len(outs) :], outs, strict=True) if is_real(a)]
        types = [*structs(avals), *[t for t, a in zip(structs(outs), outs, strict=True) if is_real(a)]]
        with s.importer.derivative():
            return [dense(b, v) for v in s.importer.traced(b, pull, types, [*map(whole, given[:count]), *adjoints])]

    lam = s.b.lambda_(inputs, forward)
    results = [r.type for r in lam.result]
    params = [*[("y", t) for t in results], *[("g", t) for t in results[len(avals) :]]]
    made = s.b.emit(ir.WithVjp(lam, s.b.lambda_(params, backward), tuple([dense(s.b, v) for v in operands])))
    return [whole(v) for v in made[len(avals) :]]


@rule("custom_linear_solve", reads="const_lengths jaxprs")
def _custom_linear_solve(s: Site, *args: Value) -> list[Value]:
    """The solution x of A x = b from a solver S whose own derivative does not count: x + S (b - A x), where x on the
    right is S b without derivatives.

    Its value is x, improved; its derivative S (db - dA x), as the implicit function theorem has it.  A second step
    makes second derivatives right, in which S changes."""
    b, lengths, jaxprs = s.b, s.params["const_lengths"], s.params["jaxprs"]
    parts, at = {}, 0
    for name in ("matvec", "vecmat", "solve", "transpose_solve"):
        count = getattr(lengths, name)
        parts[name] = args[at : at + count]
        at += count
    right = list(args[at:])
    run = s.importer.run
    x = [op_at(b, "stop_gradient", v) for v in run(b, jaxprs.solve, [*parts["solve"], *right])]
    for _ in range(2):
        product = run(b, jaxprs.matvec, [*parts["matvec"], *x])
        rest = [op_at(b, "sub", r, y) for r, y in zip(right, product, strict=True)]
        x = [op_at(b, "add", v, d) for v, d in zip(x, run(b, jaxprs.solve, [*parts["solve"], *rest]), strict=True)]
    return x

