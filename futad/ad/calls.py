"""Derivatives of functions that are called: of those that call themselves, which cannot be inlined.

Each derivative is a function of the program, made once for the function, which of its parameters matter, and the kind:

    jvp        f_jvp(x, dx) = f(x), f'(x) dx
    gradient   f_gradient(x) = f(x), f'(x)        of one float that depends on floats
    sweeps     f_forward(x) = f(x), record        of anything
               f_back(x, record, ybar, xbar)      adds ybar f'(x) to the accumulators xbar, of arrays; returns it, of x
    vjp        f_vjp(x, ybar) = ybar f'(x)        of anything; runs f's body again for what its return sweep reads

A call in the body of f becomes one of f_jvp, of f_gradient, or of f_forward and, in the return sweep, of f_back: so
they are recursive as f is, and so are the derivatives of functions that call each other, and derivatives of
derivatives.  What a record has says `kept.py`.  No derivative is taken of f_forward and f_back: where one is around,
and where `#[again]` stands at f, a call is one of f and of f_vjp, and nothing is saved between the sweeps.  What is
below an activation is run by f_vjp once more for each level above it that needs its value: a tree whose nodes only add
takes as long as f, one whose nodes multiply, as many times longer as it is deep.

Note [Gradients in one pass].  A return sweep is linear in the adjoint that it begins with.  If that is one number, it
can be done for the adjoint 1 as soon as the value is known, before the real one is, by which its results are multiplied
later: then the body is run once.  So are branches around calls (`rules/call.py`), which would be run by both sweeps.
What else is around calls, and calls of functions of other types, keep records for the body's own return sweep.

Note [Checked once].  A call of f_vjp or f_back follows one of f with the same arguments, so what f asserts holds, of
all calls inside.  The code that runs again is a function of its own (`again`), without assertions, and calls of it are
dead code where nothing reads their results.  What f prints it prints once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from futad.ad.activity import lambda_flow
from futad.ad.kept import cut
from futad.ad.registry import Flags, Functions, Sweeps
from futad.ad.reverse import SplitSweeps
from futad.core import ir
from futad.core.builder import Builder
from futad.core.calls import calls, reached
from futad.core.types import (
    I64,
    REC,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Var,
    elem_of,
    shape_of,
    subst_type,
    zero,
)
from futad.errors import UnsupportedError

AGAIN = ("again",)  # the attribute of a function that keeps no records

#: A function without the derivatives inside of it.
Plain = Callable[[ir.Fun], ir.Fun]
#: The code of a derivative of a scope, given the directions, and whether its calls keep records: into a builder;
#: results and derivatives.
Expand = Callable[[Builder, ir.Jvp | ir.Vjp, ir.Atoms, bool], tuple[list[Atom], list[Atom]]]
#: The same of a function whose sweeps become two.
ExpandSplit = Callable[[Builder, ir.Vjp, SplitSweeps], tuple[list[Atom], list[Atom]]]
#: The statements that results need.
Tidy = Callable[[list[ir.Stm], list[Atom]], list[ir.Stm]]


class Derived(Functions):
    """The functions of a program, those of them that are derivatives included."""

    def __init__(
        self, program: ir.Program, plain: Plain, expand: Expand, expand_split: ExpandSplit, tidy: Tidy
    ) -> None:
        self.program = program
        self.funs: dict[str, ir.Fun] = {}  # without derivatives inside
        self.making: list[str] = []
        self._plain, self._expand, self._expand_split, self._tidy = plain, expand, expand_split, tidy
        self._sweeps: dict[tuple[str, Flags, Flags], Sweeps] = {}
        self._todo: dict[str, Callable[[], None]] = {}
        self._flows: dict[tuple[str, Flags], Flags] = {}
        self._settling = False
        self._jvps: dict[tuple[str, Flags], tuple[ir.Fun, Flags]] = {}
        self._vjps: dict[tuple[str, Flags, Flags], tuple[ir.Fun, tuple[int, ...]]] = {}
        self._gradients: dict[tuple[str, Flags, bool], tuple[ir.Fun, int] | None] = {}
        self._again: dict[str, str] = {}
        self._effects: dict[str, bool] = {}

    def all(self) -> dict[str, ir.Fun]:
        """The program's functions without derivatives, and all that they need."""
        for name in self.program.funs:
            self.fun(name)
        while self._todo:
            self.fun(next(iter(self._todo)))
        return self.funs

    def fun(self, name: str) -> ir.Fun:
        """A function without derivatives inside.  Raises UnsupportedError if that needs its own derivative."""
        if name in self.making:
            f = self.program.funs.get(name) or self.funs[name]
            raise UnsupportedError(
                f"a derivative of '{f.name}' inside of its own definition would have to be taken as often as it calls "
                "itself",
                f.span,
            )
        if name in self._todo:
            self._during(name, self._todo.pop(name))
        elif name not in self.funs:

            def make() -> None:
                self.funs[name] = self._plain(self.program.funs[name])

            self._during(name, make)
        return self.funs[name]

    def _during(self, name: str, make: Callable[[], None]) -> None:
        self.making.append(name)
        try:
            make()
        finally:
            self.making.pop()

    def _signature(self, name: str) -> ir.Fun:
        """A function of which its parameters and results are asked."""
        return self.funs.get(name) or self.program.funs[name]

    def _new(self, name: str, params: Iterable[Var], ret: Iterable[Var], base: ir.Fun) -> ir.Fun:
        """A function without a body so far."""
        k = 1
        while f"{name}{k}" in self.funs or f"{name}{k}" in self.program.funs:
            k += 1
        name = f"{name}{k}"
        body = ir.Lambda(tuple(params), (), ())
        f = self.funs[name] = ir.Fun(name, body, base.num_sizes, tuple(ret), None, base.attrs, base.span)
        return f

    # -- activity

    def marked(self, e: ir.Call, active: set[Var]) -> Flags:
        f = self._signature(e.name)
        sizes = {n for p in (*f.body.params, *f.ret) for n in shape_of(p.type)} | {*f.body.params[: f.num_sizes]}
        pairs = zip(f.body.params, e.args, strict=True)
        return tuple([p not in sizes and type(a) is Var and a in active for p, a in pairs])

    def flow(self, name: str, params: Flags) -> Flags:
        key = name, params
        known = self._flows.get(key)
        if known is None:
            if not self._settling:
                self._ready(name)
            known = self._flows[key] = (False,) * len(self._signature(name).ret)
            if not self._settling:
                self._settle()
                known = self._flows[key]
        return known

    def _ready(self, name: str) -> None:
        """The bodies are made of all functions that a call of this one may call."""
        seen: set[str] = set()
        todo = [name]
        while todo:
            n = todo.pop()
            if n not in seen:
                seen.add(n)
                todo += calls(self.fun(n).body)

    def _settle(self) -> None:
        """The least flags for which all bodies agree."""
        self._settling = True
        before: dict[tuple[str, Flags], Flags] = {}
        while before != self._flows:
            before = dict(self._flows)
            for (name, params), now in before.items():
                new = lambda_flow(self.funs[name].body, params, set())
                self._flows[name, params] = tuple([a or b for a, b in zip(now, new, strict=True)])
        self._settling = False

    # -- derivatives

    def jvp(self, name: str, params: Flags) -> tuple[ir.Fun, Flags]:
        known = self._jvps.get((name, params))
        if known is not None:
            return known
        base = self._signature(name)
        results = self.flow(name, params)
        r = ir.Renamer()
        given = [r.bind(p) for p in base.body.params]
        tangents = [Var(f"{p.name}_tan", p.type) for p, f in zip(given, params, strict=True) if f]
        ret = [r.bind(v) for v in base.ret]
        more = [Var(f"{v.name}_tan", v.type) for v, f in zip(ret, results, strict=True) if f]
        fun = self._new(f"{name}_jvp", (*given, *tangents), (*ret, *more), base)
        self._jvps[name, params] = fun, results

        def make() -> None:
            lam = self._over(self.fun(name), params, given)
            args = tuple([p for p, f in zip(given, params, strict=True) if f])
            b = Builder()
            values, derivatives = self._expand(b, ir.Jvp(lam, args, tuple(tangents)), tuple(tangents), False)
            out = [*values, *[d for d, f in zip(derivatives, results, strict=True) if f]]
            fun.body = ir.Lambda(fun.body.params, tuple(self._tidy(b.stms, out)), tuple(out))

        self._todo[fun.name] = make
        return self._jvps[name, params]

    def vjp(self, name: str, params: Flags, results: Flags) -> tuple[ir.Fun, tuple[int, ...]]:
        known = self._vjps.get((name, params, results))
        if known is not None:
            return known
        base = self._signature(name)
        r = ir.Renamer()
        given = [r.bind(p) for p in base.body.params]
        seeds, sizes, own = _seeds(base, results, r)
        adjoints = [y for y in seeds if y is not None]
        ret = [Var(f"{p.name}_bar", p.type) for p, f in zip(given, params, strict=True) if f]
        fun = self._new(f"{name}_vjp", (*given, *own, *adjoints), ret, base)
        self._vjps[name, params, results] = fun, tuple(sizes)

        def make() -> None:
            lam = self._over(self.fun(self.again(name)), params, given)
            outs = tuple([a for a, f in zip(lam.result, results, strict=True) if f])
            args = tuple([p for p, f in zip(given, params, strict=True) if f])
            b = Builder()
            e = ir.Vjp(ir.Lambda(lam.params, lam.stms, outs), args, tuple(adjoints))
            _, derivatives = self._expand(b, e, tuple(adjoints), False)
            fun.body = ir.Lambda(fun.body.params, tuple(self._tidy(b.stms, derivatives)), tuple(derivatives))

        self._todo[fun.name] = make
        return self._vjps[name, params, results]

    def sweeps(self, name: str, params: Flags, results: Flags) -> Sweeps | None:
        base = self._signature(name)
        key = name, params, results
        if key in self._sweeps or AGAIN in base.attrs:
            return self._sweeps.get(key)
        r, r_back = ir.Renamer(), ir.Renamer()
        given = [r.bind(p) for p in base.body.params]
        ret = [r.bind(v) for v in base.ret]
        forward = self._new(f"{name}_forward", given, (*ret, Var("record", REC)), base)
        self._effects[forward.name] = self.checks(name)
        given_back = [r_back.bind(p) for p in base.body.params]
        seeds, sizes, own = _seeds(base, results, r_back)
        active = [p for p, f in zip(given_back, params, strict=True) if f]
        accs = {k: _acc(p) for k, p in enumerate(active) if isinstance(p.type, ArrayType)}
        record = Var("record", REC)
        mine = [y for y in seeds if y is not None]
        ends = [_acc(p) for p in active if isinstance(p.type, ArrayType)]
        ends += [Var(f"{p.name}_bar", p.type) for p in active if isinstance(p.type, Prim)]
        back = self._new(f"{name}_back", (*given_back, *own, record, *mine, *accs.values()), ends, base)
        self._effects[back.name] = False
        found = self._sweeps[key] = Sweeps(forward, back, tuple(sizes))

        def make() -> None:
            if forward.name in self._todo:
                del self._todo[forward.name]
            if back.name in self._todo:
                del self._todo[back.name]
            lam = self._over(self.fun(name), params, given_back)
            args = tuple([p for p, f in zip(given_back, params, strict=True) if f])
            b = Builder()
            split = SplitSweeps(accs, seeds)
            values, bars = self._expand_split(b, ir.Vjp(lam, args, ()), split)
            assert split.end is not None
            out = [bars[k] for k in accs] + [bar for k, bar in enumerate(bars) if k not in accs]
            names = ir.Renamer(dict(zip(given_back, given, strict=True)))
            both, rest = cut(b.stms, split.end, values, out, names)
            end = (*both.results, both.record)
            forward.body = ir.Lambda(forward.body.params, tuple(self._tidy(both.forward, list(end))), end)
            stms = self._tidy([*both.restored(record), *rest], out)
            back.body = ir.Lambda(back.body.params, tuple(stms), tuple(out))

        self._todo[forward.name] = self._todo[back.name] = make
        return found

    def gradient(self, name: str, params: Flags, keeps: bool) -> tuple[ir.Fun, int] | None:
        base = self._signature(name)
        keeps = keeps and AGAIN not in base.attrs
        key = name, params, keeps
        if key in self._gradients:
            return self._gradients[key]
        results = self.flow(name, params)
        at = [k for k, f in enumerate(results) if f]
        floats = [p.type for p, f in zip(base.body.params, params, strict=True) if f]
        floats += [base.ret[k].type for k in at]
        same = all(isinstance(t, Prim) and t.is_float and t is floats[0] for t in floats)
        if len(at) != 1 or not same or not all(isinstance(v.type, Prim) for v in base.ret):
            self._gradients[key] = None
            return None
        r = ir.Renamer()
        given = [r.bind(p) for p in base.body.params]
        ret = [r.bind(v) for v in base.ret]
        slopes = [Var(f"d_{p.name}", p.type) for p, f in zip(given, params, strict=True) if f]
        fun = self._new(f"{name}_gradient", given, (*ret, *slopes), base)
        self._gradients[key] = fun, at[0]

        def make() -> None:
            lam = self._over(self.fun(name), params, given)
            args = tuple([p for p, f in zip(given, params, strict=True) if f])
            types = [v.type for v in ret if isinstance(v.type, Prim)]
            ones = [Const(t, 1.0) if f else zero(t) for t, f in zip(types, results, strict=True)]
            b = Builder()
            values, derivatives = self._expand(b, ir.Vjp(lam, args, tuple(ones)), tuple(ones), keeps)
            out = [*values, *derivatives]
            fun.body = ir.Lambda(fun.body.params, tuple(self._tidy(b.stms, out)), tuple(out))

        self._todo[fun.name] = make
        return self._gradients[key]

    def _over(self, f: ir.Fun, params: Flags, given: list[Var]) -> ir.Lambda:
        """The body as a function of the parameters that are marked, of new variables; the others are the given ones."""
        r = ir.Renamer()
        own: list[Var] = []
        for p, x, marked in zip(f.body.params, given, params, strict=True):
            if marked:
                own.append(r.bind(p))
            else:
                r.mapping[p] = x
        stms = tuple(r.stms(f.body.stms))
        return ir.Lambda(tuple(own), stms, tuple([r.atom(a) for a in f.body.result]))

    # -- code that runs again

    def checks(self, name: str) -> bool:
        known = self._effects.get(name)
        if known is None:
            whole = ir.Program({**self.program.funs, **self.funs})
            effect = any(s.exp.effect for n in reached(whole, [name]) for s in ir.statements(whole.funs[n].body.stms))
            known = self._effects[name] = effect
        return known

    def again(self, name: str) -> str:
        """The function without what it asserts and prints, see Note [Checked once]."""
        known = self._again.get(name)
        if known is None:
            if not self.checks(name):
                known = self._again[name] = name
                return known
            base = self.fun(name)
            r = ir.Renamer()
            params = [r.bind(p) for p in base.body.params]
            fun = self._new(f"{name}_again", params, [r.bind(v) for v in base.ret], base)
            known = self._again[name] = self._again[fun.name] = fun.name
            self._effects[fun.name] = False
            stms, result = tuple(r.stms(base.body.stms)), tuple([r.atom(a) for a in base.body.result])
            fun.body = self._silent(ir.Lambda(tuple(params), stms, result))
        return known

    def _silent(self, lam: ir.Lambda) -> ir.Lambda:
        out: list[ir.Stm] = []
        for s in lam.stms:
            e = s.exp
            if isinstance(e, ir.Assert):
                out += [ir.Stm((v,), ir.Alias(a)) for v, a in zip(s.pat, e.of, strict=True)]
            elif isinstance(e, ir.Call):
                out.append(ir.Stm(s.pat, ir.Call(self.again(e.name), e.args), s.attrs))
            elif not e.effect:
                out.append(ir.map_scopes(s, self._silent))
        return ir.Lambda(lam.params, tuple(out), lam.result)


def _acc(p: Var) -> Var:
    return Var(f"{p.name}_bar", AccType(elem_of(p.type), shape_of(p.type)))


def _seeds(base: ir.Fun, results: Flags, r: ir.Renamer) -> tuple[list[Var | None], list[int], list[Var]]:
    """Variables for the adjoints of the results that are marked (None for others), of the parameters that `r` names;
    the results that are sizes of these, and variables for them."""
    marked = [v for v, f in zip(base.ret, results, strict=True) if f]
    mentioned = {n for v in marked for n in shape_of(v.type)}
    sizes = [k for k, v in enumerate(base.ret) if v in mentioned]
    own = [Var(base.ret[k].name, I64) for k in sizes]
    r.mapping.update(zip([base.ret[k] for k in sizes], own, strict=True))
    seeds = [
        Var(f"{v.name}_bar", subst_type(v.type, r.mapping)) if f else None
        for v, f in zip(base.ret, results, strict=True)
    ]
    return seeds, sizes, own


__all__ = ["Derived"]
