"""Rules of functions that bring their own derivative, and of linear solves, which have one by a theorem.

What the derivative is, JAX is asked: the equation, alone, is differentiated by it, and that is traced.  A derivative
may call its function (which often gives it the value): inside, functions are their code, or there would be no end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import Atom
from futad.jax.jaxprs.lifted import Value, dense, op_at, whole
from futad.jax.jaxprs.table import Site, rule


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


def structs(avals: Sequence[Any]) -> list[Any]:
    return [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]


@rule("custom_jvp_call")
def _custom_jvp(s: Site, *args: Value) -> list[Value]:
    if s.importer.within_derivative:
        return s.importer.run(s.b, s.params["call_jaxpr"], args)
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
    lam = s.b.lambda_(inputs, body_of(s, s.params["call_jaxpr"], args))
    made = s.b.emit(ir.WithJvp(lam, s.b.lambda_(inputs * 2, pushed), tuple([dense(s.b, v) for v in operands])))
    return [whole(v) for v in made]


def body_of(s: Site, closed: Any, args: Sequence[Value]) -> Callable[..., list[Atom]]:
    """The code of a function of the operands that are no literals."""
    variables = list(dict.fromkeys([e for e in s.eqn.invars if not isinstance(e, core.Literal)]))

    def body(b: Builder, *xs: Atom) -> list[Atom]:
        given = dict(zip(variables, map(whole, xs), strict=True))
        full = [v if isinstance(e, core.Literal) else given[e] for e, v in zip(s.eqn.invars, args, strict=True)]
        return [dense(b, v) for v in s.importer.run(b, closed, full)]

    return body


@rule("custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom_vjp(s: Site, *args: Value) -> list[Value]:
    """The function with the derivative it brings, which computes again what the function saved for it.  Forward
    derivatives, which JAX refuses, are those of the function itself."""
    body = s.params.get("call_jaxpr") or s.params["fun_jaxpr"]
    if s.importer.within_derivative:
        return s.importer.run(s.b, body, args)
    f, avals, operands = alone(s, args)
    outs = [v.aval for v in s.eqn.outvars]
    inputs = [("x", v.type) for v in operands]
    code = body_of(s, body, args)

    def forward(b: Builder, *xs: Atom) -> list[Atom]:
        return [*xs, *code(b, *xs)]

    def pull(*xs: Any) -> list[Any]:
        count = len(avals)
        given = iter(xs[count:])
        cotangents = [next(given) if is_real(a) else none(a) for a in outs]
        adjoints = jax.vjp(f, *xs[:count])[1](cotangents)
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


@rule("custom_linear_solve")
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

