"""Functions that compute derivatives of a core program's functions.

    p = derived_program(program, "f", "vjp")          # adds f_vjp
    p = derived_program(p, "f_vjp", "jvp", name="f_hvp")

Coordinates.  Let `f = program.funs[name]` have size parameters s_1..s_m (m = num_sizes), value parameters
x_1..x_a (`argnums` counts these from 0, in core order: a tuple or record argument is several), and results
y_1..y_b, of which some may be *sizes* of later ones (an i64 that a later member of `f.ret` names in its type).

* kind 'vjp': parameters s.., e.., x.., ybar..; results y.., xbar.. .  One ybar per result that is not a size,
  in order; one xbar per x of `argnums`, in the order of `argnums`.  e.. are extra size parameters, one for
  each result size that a ybar's type names; they must equal the sizes the results turn out to have.
* kind 'jvp': parameters s.., x.., xdot..; results y.., ydot.. .  One xdot per x of `argnums`; one ydot per
  result that is not a size.

`argnums=None` means every x.  Derivatives have exactly the type of what they belong to; integers have integer
ones.  The new function has no `entry`.
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import I64, Atom, Const, Var, shape_of, subst_type
from futad.errors import UsageError


def result_sizes(fun: ir.Fun) -> list[int]:
    """Indices of the results that are sizes of later results."""
    named = {n for v in fun.ret for n in shape_of(v.type)}
    return [i for i, v in enumerate(fun.ret) if v in named]


def derived_program(
    program: ir.Program,
    entry: str,
    kind: str,
    argnums: Sequence[int] | None = None,
    name: str | None = None,
) -> ir.Program:
    """`program` with one more function (by default `{entry}_{kind}`), as the module's docstring says.

    The function's body holds a `Vjp` or `Jvp` node: the pass pipeline inlines the calls in it and expands it.
    Raises UsageError for an unknown function, kind or argument number.
    """
    fun = program.funs.get(entry)
    if fun is None:
        raise UsageError(f"no function is called '{entry}'; there are: {', '.join(program.funs)}")
    if kind not in ("vjp", "jvp"):
        raise UsageError(f"no kind of derivative is called '{kind}'; there are: vjp, jvp")
    count = len(fun.body.params) - fun.num_sizes
    wanted = list(range(count)) if argnums is None else list(argnums)
    for i in wanted:
        if not 0 <= i < count:
            raise UsageError(f"'{entry}' has {count} core arguments, so none is number {i}")
    new = (_vjp if kind == "vjp" else _jvp)(fun, wanted, name or f"{entry}_{kind}")
    return ir.Program({**program.funs, new.name: new}, program.name)


def _prepare(fun: ir.Fun, wanted: Sequence[int]) -> tuple[tuple[Var, ...], tuple[Var, ...], ir.Lambda]:
    """Fresh sizes and values of the derived function, and the lambda to differentiate: from the values of
    `wanted` to the results, everything else free in it."""
    copy = ir.Renamer()
    params = tuple([copy.bind(p) for p in fun.body.params])
    sizes, values = params[: fun.num_sizes], params[fun.num_sizes :]
    own = tuple([copy.bind(fun.body.params[fun.num_sizes + i]) for i in wanted])
    stms = tuple(copy.stms(fun.body.stms))
    lam = ir.Lambda(own, stms, tuple([copy.atom(r) for r in fun.body.result]))
    return sizes, values, lam


def _ret(fun: ir.Fun, mapping: dict[Var, Atom], which: Sequence[int], ret: list[Var]) -> None:
    """Append descriptions of the results `which`; result sizes met are added to `mapping`."""
    for i in which:
        v = fun.ret[i]
        fresh = Var(v.name, subst_type(v.type, mapping))
        mapping.setdefault(v, fresh)
        ret.append(fresh)


def _vjp(fun: ir.Fun, wanted: Sequence[int], name: str) -> ir.Fun:
    sizes, values, lam = _prepare(fun, wanted)
    skip = set(result_sizes(fun))
    mapping: dict[Var, Atom] = dict(zip(fun.body.params, (*sizes, *values), strict=True))
    extra: list[Var] = []
    checks = Builder()
    seed_types: dict[Var, Atom] = dict(mapping)
    for i, v in enumerate(fun.ret):
        if i in skip:
            n = Var(v.name, I64)
            extra.append(n)
            seed_types[v] = n
            same = checks.op("eq", lam.result[i], n)
            message = "the adjoint has size {}, but the result has size {}"
            checks.add(ir.Stm((), ir.Assert(same, message, (n, lam.result[i]), fun.span)))
    lam = ir.Lambda(lam.params, (*lam.stms, *checks.stms), lam.result)
    seeds: list[Var] = []
    given: list[Atom] = []
    for i, v in enumerate(fun.ret):
        if i in skip:
            given.append(Const(I64, 0))
        else:
            seed = Var(f"{v.name}_bar", subst_type(v.type, seed_types))
            seeds.append(seed)
            given.append(seed)
    args = tuple([values[i] for i in wanted])
    ret: list[Var] = []
    _ret(fun, mapping, range(len(fun.ret)), ret)
    ret += [Var(f"{a.name}_bar", a.type) for a in args]
    pat_types: dict[Var, Atom] = dict(zip(fun.body.params, (*sizes, *values), strict=True))
    pat: list[Var] = []
    _ret(fun, pat_types, range(len(fun.ret)), pat)
    pat += [Var(f"{a.name}_bar", a.type) for a in args]
    stm = ir.Stm(tuple(pat), ir.Vjp(lam, args, tuple(given)))
    body = ir.Lambda((*sizes, *extra, *values, *seeds), (stm,), tuple(pat))
    return ir.Fun(name, body, len(sizes) + len(extra), tuple(ret), None, fun.attrs, fun.span)


def _jvp(fun: ir.Fun, wanted: Sequence[int], name: str) -> ir.Fun:
    sizes, values, lam = _prepare(fun, wanted)
    skip = set(result_sizes(fun))
    args = tuple([values[i] for i in wanted])
    tangents = tuple([Var(f"{a.name}_tan", a.type) for a in args])
    everything = range(len(fun.ret))
    shown = [i for i in everything if i not in skip]
    pat: list[Var] = []
    mapping: dict[Var, Atom] = dict(zip(fun.body.params, (*sizes, *values), strict=True))
    _ret(fun, mapping, everything, pat)
    tans: list[Var] = []
    _ret(fun, mapping, everything, tans)
    ret: list[Var] = []
    mapping = dict(zip(fun.body.params, (*sizes, *values), strict=True))
    _ret(fun, mapping, everything, ret)
    _ret(fun, mapping, shown, ret)
    stm = ir.Stm((*pat, *tans), ir.Jvp(lam, args, tangents))
    result = (*pat, *[tans[i] for i in shown])
    return ir.Fun(
        name, ir.Lambda((*sizes, *values, *tangents), (stm,), result), len(sizes), tuple(ret), None, fun.attrs, fun.span
    )
