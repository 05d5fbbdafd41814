"""Rules of control flow and of calls: cond, while, scan, jit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import BOOL, FALSE, I64, ONE, ZERO, Atom, Const, shape_of
from futad.errors import warn
from futad.jax.jaxprs.folds import reduced
from futad.jax.jaxprs.lifted import Value, dense, fixed, minus, pointwise, whole
from futad.jax.jaxprs.table import Site, elem_of_aval, is_one_of, rule, shape_of_aval


@rule("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "composite", reads="jaxpr call_jaxpr",
      hints="in_shardings out_shardings in_layouts out_layouts donated_invars ctx_mesh name keep_unused inline "
      "concrete prevent_cse differentiated policy attributes version",
      only={"compiler_options_kvs": is_one_of(())})  # fmt: skip
def _call(s: Site, *args: Value) -> list[Value]:
    closed = s.params.get("jaxpr") or s.params.get("call_jaxpr")
    return s.importer.run(s.b, closed, args)


@rule("debug_callback", "debug_print", hints="callback effect partitioned fmt ordered in_tree static_args "
      "np_printoptions has_placeholders logging_record")  # fmt: skip
def _debug(s: Site, *args: Value) -> list[Value]:
    """Left out, with a warning: it has no results, and compiled code nobody to tell."""
    warn(f"{s.place}: futad.jax.compile leaves out {s.name}: compiled code prints and calls nothing")
    return []


@rule("cond", reads="branches", hints="branches_platforms")
def _cond(s: Site, index: Value, *args: Value) -> list[Value]:
    """One of several branches; an index out of range is the nearest one."""
    branches = s.params["branches"]

    def branch(b: Builder, k: int) -> list[Atom]:
        return [dense(b, v) for v in s.importer.run(b, branches[k], args)]

    def choice(b: Builder, k: int) -> list[Atom]:
        if k == len(branches) - 1:
            return branch(b, k)
        here = index.atom if index.elem is BOOL else b.op("le", index.atom, Const(index.elem, k))
        then, orelse = b.body(lambda c: branch(c, k)), b.body(lambda c: choice(c, k + 1))
        if index.elem is BOOL:
            then, orelse = orelse, then
        return list(b.emit(ir.If(here, then, orelse)))

    return [Value(a, tuple(range(len(s.shape(i)))), s.shape(i)) for i, a in enumerate(choice(s.b, 0))]


def carried(b: Builder, values: Sequence[Value]) -> list[Atom]:
    """Values that a loop starts with."""
    return [dense(b, v) for v in values]


def merged(b: Builder, go: Atom, new: Value, old: Value) -> Value:
    """`new` where `go` holds, whose axes are the first ones of both."""
    holds = Value(go, tuple(range(len(shape_of(go.type)))), new.shape)
    return pointwise(b, lambda c, *xs: [c.op("select", *xs)], [holds, new, old], new.shape)[0]


@rule("while", reads="cond_nconsts body_nconsts cond_jaxpr body_jaxpr")
def _while(s: Site, *args: Value) -> list[Value]:
    """Runs as long as the condition holds.

    A condition that is an array is that of a batch: the loop runs as long as it holds anywhere, and elements of the
    batch stay as they are from where it does not."""
    p, run = s.params, s.importer.run
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    of_cond, of_body, init = args[:nc], args[nc : nc + nb], carried(s.b, args[nc + nb :])
    batch = s.sizes(p["cond_jaxpr"].out_avals[0].shape)

    def goes(b: Builder, state: Sequence[Atom]) -> list[Atom]:
        holds = run(b, p["cond_jaxpr"], [*of_cond, *map(whole, state)])[0]
        if not batch:
            return [holds.atom]
        return [reduced(b, holds, range(holds.rank), "or", FALSE).atom, dense(b, holds)]

    extra = 1 + bool(batch)

    def body(b: Builder, *rest: Atom) -> list[Atom]:
        state = rest[extra:]
        new = run(b, p["body_jaxpr"], [*of_body, *map(whole, state)])
        if batch:
            new = [merged(b, rest[1], v, whole(old)) for v, old in zip(new, state, strict=True)]
        made = [dense(b, v) for v in new]
        return [*goes(b, made), *made]

    first = goes(s.b, init)
    params = [("go", a.type) for a in first] + [("c", a.type) for a in init]
    made = s.b.emit(ir.While((*first, *init), s.b.lambda_(params, body)))
    return [whole(v) for v in made[extra:]]


@rule("platform_index", reads="platforms")
def _platform_index(s: Site) -> Value:
    """Which of several versions of a code is for CPUs, or for all."""
    platforms = s.params["platforms"]
    fits = [i for i, names in enumerate(platforms) if names is not None and "cpu" in names]
    return Value(s.const((fits or [i for i, names in enumerate(platforms) if names is None])[0]), (), ())


def scan_counts(params: Mapping[str, Any], operands: int) -> tuple[int, int]:
    """How many of a scan's operands are constants of it, and how many are carried on: the first ones, in this order.
    JAX tells these numbers up to 0.10, from 0.11 on a tree `ft_in` of the operands by kind."""
    if "ft_in" in params:
        consts, carried_on, _ = [len(list(part)) for part in params["ft_in"].update(list(range(operands))).unpack()]
        return consts, carried_on
    return params["num_consts"], params["num_carry"]


@rule("scan", reads="length jaxpr reverse num_consts num_carry ft_in", hints="unroll linear _split_transpose")
def _scan(s: Site, *args: Value) -> list[Value]:
    """A loop, or a map if nothing is carried.  What is put out goes into arrays made before."""
    p, b = s.params, s.b
    nc, nk = scan_counts(p, len(args))
    length, closed, back = s.importer.size(p["length"]), p["jaxpr"], p["reverse"]
    consts, init, xs = args[:nc], args[nc : nc + nk], args[nc + nk :]

    def rows(c: Builder, i: Atom) -> list[Value]:
        return [fixed(c, x, {0: i}) for x in xs]

    if not nk:
        mapped = [x for x in xs if 0 in x.axes]

        def one(c: Builder, *elements: Atom) -> list[Atom]:
            it = iter(elements)
            args = [
                Value(next(it) if 0 in x.axes else x.atom, tuple([d - 1 for d in x.axes if d]), x.shape[1:])
                for x in xs
            ]
            return [dense(c, v) for v in s.importer.run(c, closed, [*consts, *args])]

        arrays = [x.atom for x in mapped]
        if not arrays:
            arrays = [b.let(ir.Iota(length, ZERO, ONE))]
            return [whole(v) for v in b.map_(lambda c, _: one(c), *arrays)]
        return [whole(v) for v in b.map_(one, *arrays)]

    state = carried(b, init)
    outs = [(elem_of_aval(v.aval), s.sizes(shape_of_aval(v.aval))) for v in s.eqn.outvars[nk:]]
    rooms = [b.let(ir.Scratch(elem, shape)) for elem, shape in outs]

    def body(c: Builder, i: Atom, *rest: Atom) -> list[Atom]:
        at = c.op("sub", minus(c, length, 1), i) if back else i
        new = s.importer.run(c, closed, [*consts, *map(whole, rest[:nk]), *rows(c, at)])
        values = [dense(c, v) for v in new]
        filled = [c.let(ir.Update(r, (at,), v)) for r, v in zip(rest[nk:], values[nk:], strict=True)]
        return [*values[:nk], *filled]

    params = [("i", I64), *[("c", a.type) for a in state], *[("ys", r.type) for r in rooms]]
    made = b.emit(ir.For(length, (*state, *rooms), b.lambda_(params, body)))
    return [whole(v) for v in made]
