"""Helpers of the AD tests: build core functions, differentiate them, compare with differences and duality."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from futad.ad.expand import expand
from futad.core import ir
from futad.core.builder import Builder
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.types import (
    I64,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    array_of,
    i64,
    prim,
    subst_type,
)
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.testing.programs.core_derived import derived_program, result_sizes


def parse_type(text: str, sizes: dict[str, Var]) -> Type:
    """'[n][m]f64' with size variables made on first sight."""
    dims = re.findall(r"\[(\w+)\]", text)
    shape: list[Atom] = []
    for d in dims:
        if d.isdigit():
            shape.append(i64(int(d)))
        else:
            shape.append(sizes.setdefault(d, Var(d, I64)))
    return array_of(prim(text.rsplit("]", 1)[-1]), *shape)


def make(params: Sequence[str], f: Callable[..., Sequence[Atom]], name: str = "f") -> ir.Program:
    """A program of one function: `params` are types as text, `f(builder, sizes, *vars)` gives its results."""
    sizes: dict[str, Var] = {}
    vs = [Var(f"p{i}", parse_type(t, sizes)) for i, t in enumerate(params)]
    b = Builder()
    result = tuple(f(b, sizes, *vs))
    ret: list[Var] = []
    mapping: dict[Any, Atom] = {}
    for i, r in enumerate(result):
        v = Var(f"r{i}", subst_type(r.type, mapping))
        if isinstance(r, Var) and r not in sizes.values():
            mapping[r] = v
        ret.append(v)
    lam = ir.Lambda((*sizes.values(), *vs), tuple(b.stms), result)
    p = ir.Program({name: ir.Fun(name, lam, len(sizes), tuple(ret))})
    check_program(p, "make")
    return p


def sizes_of(program: ir.Program, args: Sequence[Any], name: str = "f") -> list[int]:
    """The size arguments that fit `args`."""
    fun = program.funs[name]
    found: dict[Any, int] = {}
    for p, a in zip(fun.body.params[fun.num_sizes :], args, strict=True):
        for n, k in zip(getattr(p.type, "shape", ()), np.shape(a), strict=True):
            found[n] = k
    return [found[n] for n in fun.body.params[: fun.num_sizes]]


def run(program: ir.Program, name: str, args: Sequence[Any]) -> list[Any]:
    return Interpreter(program).run(name, list(args))


class Derivs:
    """The vjp, jvp, and second-order forms of a function, expanded, checked and cached."""

    def __init__(self, program: ir.Program, argnums: Sequence[int] | None = None, name: str = "f") -> None:
        self.name = name
        self.program = program
        fun = program.funs[name]
        self.count = len(fun.body.params) - fun.num_sizes
        self.argnums = list(range(self.count)) if argnums is None else list(argnums)
        p = derived_program(program, name, "vjp", self.argnums)
        self.base = derived_program(p, name, "jvp", self.argnums)
        self.all = expand(self.base)
        check_program(self.all, "ad")
        self.skip = result_sizes(fun)

    def primal(self, args: Sequence[Any]) -> list[Any]:
        return run(self.all, self.name, sizes_of(self.program, args, self.name) + list(args))

    def vjp(self, args: Sequence[Any], seeds: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(results, adjoints of argnums)."""
        sizes = sizes_of(self.program, args, self.name)
        extra = [int(r) for i, r in enumerate(self.primal(args)) if i in self.skip]
        out = run(self.all, f"{self.name}_vjp", [*sizes, *extra, *args, *seeds])
        n = len(self.program.funs[self.name].ret)
        return out[:n], out[n:]

    def jvp(self, args: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(results, tangents of results that are not sizes)."""
        sizes = sizes_of(self.program, args, self.name)
        out = run(self.all, f"{self.name}_jvp", [*sizes, *args, *tangents])
        n = len(self.program.funs[self.name].ret)
        return out[:n], out[n:]


def nodes_of(lam: ir.Lambda) -> set[type]:
    """The classes of nodes in a scope, inner ones too."""
    out: set[type] = set()
    for s in lam.stms:
        out.add(type(s.exp))
        for inner in s.exp.lambdas():
            out |= nodes_of(inner)
    return out


def like(rng: np.random.Generator, x: Any) -> Any:
    """Random values of the shape and dtype of `x`."""
    x = np.asarray(x)
    if x.dtype.kind == "f":
        return rng.normal(size=x.shape).astype(x.dtype)[()]
    if x.dtype.kind == "b":
        return rng.integers(0, 2, size=x.shape).astype(bool)[()]
    return rng.integers(-9, 10, size=x.shape).astype(x.dtype)[()]


def dot(xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    """The inner product of the numbers in two lists of values; exact over integers."""
    total: Any = 0
    with np.errstate(all="ignore"):
        for x, y in zip(xs, ys, strict=True):
            x, y = np.asarray(x), np.asarray(y)
            if x.dtype.kind == "f":
                total = total + np.sum(x * y)
            elif x.dtype.kind != "b":
                total = total + sum(int(u) * int(v) for u, v in zip(x.flat, y.flat, strict=True))
    return total


def dot_bools(xs: Sequence[Any], ys: Sequence[Any]) -> bool:
    """The inner product of the bools in two lists of values, with or for +."""
    return any(np.any(x & y) for x, y in zip(xs, ys, strict=True) if np.asarray(x).dtype.kind == "b")


def duality(
    program: ir.Program,
    args: Sequence[Any],
    seed: int = 0,
    argnums: Sequence[int] | None = None,
    tol: float = 1e-12,
    bits: int = 64,
) -> None:
    """<ybar, J xdot> = <J^T ybar, xdot> and the primal results of both modes agree with the function.

    Over integers the two sides are equal modulo 2^bits.
    """
    d = Derivs(program, argnums)
    rng = np.random.default_rng(seed)
    want = d.primal(args)
    xdot = [like(rng, args[i]) for i in d.argnums]
    got, ydot = d.jvp(args, xdot)
    same(got, want)
    ybar = [like(rng, r) for i, r in enumerate(want) if i not in d.skip]
    got, xbar = d.vjp(args, ybar)
    same(got, want)
    for i, x in zip(d.argnums, xbar, strict=True):
        assert np.shape(x) == np.shape(args[i]) and np.asarray(x).dtype == np.asarray(args[i]).dtype
    assert dot_bools(ybar, ydot) == dot_bools(xbar, xdot)
    left, right = dot(ybar, ydot), dot(xbar, xdot)
    if np.asarray(left).dtype.kind == "f" or np.asarray(right).dtype.kind == "f":
        products = [np.asarray(a, float) * np.asarray(b, float) for a, b in zip(xbar, xdot, strict=True)]
        scale = float(sum(np.sum(np.abs(p)) for p in products))
        assert abs(left - right) <= tol * max(scale, 1e-300) or left == right, (left, right)
    else:
        assert (left - right) % 2**bits == 0, (left, right)


def same(got: Sequence[Any], want: Sequence[Any]) -> None:
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def differences(program: ir.Program, args: Sequence[Any], seed: int = 0, h: float = 1e-6, tol: float = 1e-6) -> None:
    """jvp against central differences along a random direction (float arguments and results)."""
    floats = [i for i, a in enumerate(args) if np.asarray(a).dtype.kind == "f"]
    d = Derivs(program, floats)
    rng = np.random.default_rng(seed)
    xdot = [like(rng, args[i]) for i in floats]

    def at(t: float) -> list[Any]:
        moved = list(args)
        for i, x in zip(floats, xdot, strict=True):
            moved[i] = args[i] + t * x
        return d.primal(moved)

    _, ydot = d.jvp(args, xdot)
    up, down = at(h), at(-h)
    keep = [i for i in range(len(up)) if i not in d.skip]
    for i, y in zip(keep, ydot, strict=True):
        if np.asarray(up[i]).dtype.kind != "f":
            continue
        fd = (np.asarray(up[i]) - np.asarray(down[i])) / (2 * h)
        np.testing.assert_allclose(y, fd, rtol=tol, atol=tol * max(1.0, float(np.max(np.abs(fd), initial=0.0))))


def second_order(program: ir.Program, args: Sequence[Any], seed: int = 0, tol: float = 1e-6, h: float = 1e-5) -> None:
    """vjp of jvp, jvp of vjp and vjp of vjp of a function of floats against each other and differences.

    With g(x) = J(x)^T ybar: jvp of vjp gives H v; vjp of vjp under the same v, and vjp of jvp, give H v too,
    as the Hessian of <ybar, f> is symmetric.
    """
    rng = np.random.default_rng(seed)
    floats = [i for i, a in enumerate(args) if np.asarray(a).dtype.kind == "f"]
    d = Derivs(program, floats)
    sizes = sizes_of(program, args)
    want = d.primal(args)
    extra = [int(r) for i, r in enumerate(want) if i in d.skip]
    outs = [r for i, r in enumerate(want) if i not in d.skip]
    ybar = [like(rng, r) for r in outs]
    v = [like(rng, args[i]) for i in floats]
    base = d.base
    a, m, nf = len(args), len(outs), len(floats)

    def gradient(t: float) -> list[Any]:
        moved = list(args)
        for i, x in zip(floats, v, strict=True):
            moved[i] = args[i] + t * x
        return d.vjp(moved, ybar)[1]

    fd = [(np.asarray(p) - np.asarray(q)) / (2 * h) for p, q in zip(gradient(h), gradient(-h), strict=True)]
    # jvp of vjp
    p = expand(derived_program(base, "f_vjp", "jvp", floats, "hvp"))
    check_program(p, "ad")
    hv = run(p, "hvp", [*sizes, *extra, *args, *ybar, *v])[-nf:]
    # vjp of vjp: seeds zero for the primal results
    p = expand(derived_program(base, "f_vjp", "vjp", floats, "vv"))
    check_program(p, "ad")
    shown = [np.zeros_like(r) for r in outs]
    vv = run(p, "vv", [*sizes, *extra, *extra, *args, *ybar, *shown, *v])[-nf:]
    # vjp of jvp
    p = expand(derived_program(base, "f_jvp", "vjp", floats, "vj"))
    check_program(p, "ad")
    vj = run(p, "vj", [*sizes, *extra, *args, *v, *shown, *ybar])[-nf:]
    assert a >= nf and m == len(ybar)
    for x, y, z, w in zip(hv, vv, vj, fd, strict=True):
        size = max(1.0, float(np.max(np.abs(w), initial=0.0)))
        np.testing.assert_allclose(x, w, rtol=tol, atol=tol * size)
        np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-9 * size)
        np.testing.assert_allclose(z, x, rtol=1e-9, atol=1e-9 * size)


def many_program(program: ir.Program, name: str, unroll: int = 0) -> ir.Program:
    """A derived function for many directions: the number of them, d, comes after its sizes, and directions given
    and computed have the outer dimension d.  With `unroll` d is that constant, and still a parameter."""
    fun = program.funs[name]
    copy = ir.Renamer()
    params = tuple([copy.bind(p) for p in fun.body.params])
    (stm,) = copy.stms(fun.body.stms)
    e = stm.exp
    assert isinstance(e, ir.Jvp | ir.Vjp)
    count = Var("d", I64)
    d: Atom = i64(unroll) if unroll else count
    b = Builder()
    wide: dict[Any, Var] = {}
    given: list[Atom] = []
    for x in e.tangents if isinstance(e, ir.Jvp) else e.adjoints:
        if isinstance(x, Var):
            wide[x] = Var(x.name, array_of(x.type, d))
            given.append(wide[x])
        else:
            given.append(b.let(ir.Replicate((d,), x)))
    k = len(e.lam.result)
    pat = list(stm.pat[:k])
    for v in stm.pat[k:]:
        wide[v] = Var(v.name, array_of(v.type, d))
        pat.append(wide[v])
    b.add(ir.Stm(tuple(pat), type(e)(e.lam, e.args, tuple(given), (d,)), (("unroll",),) if unroll else ()))
    result = tuple([wide.get(r, r) for r in map(copy.atom, fun.body.result)])
    n = fun.num_sizes
    body = ir.Lambda((*params[:n], count, *[wide.get(p, p) for p in params[n:]]), tuple(b.stms), result)
    ret: list[Var] = []
    mapping: dict[Any, Atom] = {}
    for r in result:
        v = Var("r", subst_type(r.type, mapping))
        if isinstance(r, Var) and r not in body.params:
            mapping.setdefault(r, v)
        ret.append(v)
    return ir.Program({"many": ir.Fun("many", body, n + 1, tuple(ret))})


def many_directions(
    program: ir.Program, name: str, args: Sequence[Any], dirs: Sequence[Any], skip: int, both: bool = True, d: int = 3
) -> None:
    """All directions at once, as wide code and with `both` unrolled too, give what one after the other does.

    `name` is a derived function, `args` its arguments before the directions (sizes included), `dirs` values of the
    shape of one direction, `skip` the number of primal results.
    """
    rng = np.random.default_rng(5)
    seeds = [[like(rng, x) for x in dirs] for _ in range(d)]
    one = expand(ir.Program({name: program.funs[name]}))
    each = [run(one, name, [*args, *s]) for s in seeds]
    stacked = [np.stack([np.asarray(s[i]) for s in seeds]) for i in range(len(dirs))]
    n = program.funs[name].num_sizes
    for unroll in (0, d) if both else (0,):
        p = expand(many_program(program, name, unroll))
        check_program(p, "ad")
        got = run(p, "many", [*args[:n], d, *args[n:], *stacked])
        same(got[:skip], each[0][:skip])
        for i, g in enumerate(got[skip:], skip):
            want = np.stack([np.asarray(r[i]) for r in each])
            if want.dtype.kind == "f":
                size = float(np.max(np.abs(want[np.isfinite(want)]), initial=1.0))
                tol = 1e-11 * float(np.finfo(want.dtype).eps / np.finfo(np.float64).eps)
                np.testing.assert_allclose(g, want, rtol=min(tol, 0.01), atol=min(tol, 0.01) * size)
            else:
                np.testing.assert_array_equal(g, want)


def directions(program: ir.Program, args: Sequence[Any], second: bool) -> None:
    """jmp and mjp of a function, with `second` of its vjp too, against jvp and vjp."""
    base = derived_program(derived_program(program, "f", "vjp"), "f", "jvp")
    sizes = sizes_of(program, args)
    want = run(expand(program), "f", [*sizes, *args])
    skip = result_sizes(program.funs["f"])
    extra = [int(r) for i, r in enumerate(want) if i in skip]
    outs = [r for i, r in enumerate(want) if i not in skip]
    many_directions(base, "f_jvp", [*sizes, *args], args, len(want))
    many_directions(base, "f_vjp", [*sizes, *extra, *args], outs, len(want))
    if second:
        floats = [i for i, a in enumerate(args) if np.asarray(a).dtype.kind == "f"]
        rng = np.random.default_rng(7)
        ybar = [like(rng, r) for r in outs]
        inner = [*sizes, *extra, *args, *ybar]
        results = len(want) + len(args)
        p = derived_program(base, "f_vjp", "jvp", floats, "hvp")
        many_directions(p, "hvp", inner, [args[i] for i in floats], results, both=False)
        p = derived_program(base, "f_vjp", "vjp", floats, "vv")
        many_directions(p, "vv", [*sizes, *extra, *extra, *args, *ybar], [*outs, *args], results, both=False)


class _Retype(ir.Renamer):
    """Renames with one element type in place of another."""

    def __init__(self, old: Prim, new: Prim) -> None:
        super().__init__()
        self.old, self.new = old, new

    def type(self, t: Type) -> Type:
        t = subst_type(t, self.mapping)
        if isinstance(t, ArrayType | AccType):
            return type(t)(self.new if t.elem is self.old else t.elem, t.shape)
        return self.new if t is self.old else t

    def atom(self, a: Atom) -> Atom:
        if isinstance(a, Const):
            return Const(self.new, self.value(a.value)) if a.type is self.old else a
        return super().atom(a)

    def value(self, x: Any) -> Any:
        """Infinities are the extremes of integer types."""
        if self.new.is_integral and abs(x) == np.inf:
            info = np.iinfo(self.new.dtype)
            return info.max if x > 0 else info.min
        return x

    def bind(self, v: Var) -> Var:
        self.mapping[v] = Var(v.name, self.type(v.type))
        return self.mapping[v]  # type: ignore[return-value]

    def exp(self, e: ir.Exp) -> ir.Exp:
        out = e.rebuild(self.atom, self.lam)
        if isinstance(out, ir.ArrayLit):
            out.type = self.type(e.type)  # type: ignore[attr-defined]
        elif isinstance(out, ir.Scratch) and out.elem is self.old:
            out.elem = self.new
        elif isinstance(out, ir.Op):
            out.op = out.op.replace(f"to_{self.old.name}", f"to_{self.new.name}")
        return out


def retyped(program: ir.Program, old: Prim, new: Prim) -> ir.Program:
    """The program at another element type."""
    r = _Retype(old, new)
    f = program.funs["f"]
    body = r.lam(f.body)
    out = ir.Program({"f": ir.Fun("f", body, f.num_sizes, tuple([r.bind(v) for v in f.ret]))})
    check_program(out, "retyped")
    return out


def statements(lam: ir.Lambda) -> Iterator[ir.Stm]:
    for s in lam.stms:
        yield s
        for inner in s.exp.lambdas():
            yield from statements(inner)


def derivative(text: str, entry: str = "rev") -> list[ir.Stm]:
    """All statements of an entry, its derivatives expanded."""
    program = compile_program(compile_text(text), stop_after="simplify-ad", check=True)
    (fun,) = [f for f in program.funs.values() if f.entry is not None and f.entry.name == entry]
    return list(statements(fun.body))


def saved(stms: list[ir.Stm]) -> int:
    """How many arrays are made for saved values: those that loops fill, but adjoints."""
    return sum(isinstance(s.exp, ir.Scratch) and not s.pat[0].name.endswith("_bar") for s in stms)
