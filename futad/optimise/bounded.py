"""A function with `#[bound(d)]`, at most d activations of which are there at once, is a loop with a stack.

    f x = if c x then b x else g x (f (h x))

becomes a loop over a program counter.  A function's body is cut behind its calls and where branches with calls meet:
into blocks, one of which an iteration runs.  Variables that a later block of the same activation reads are in arrays of
d elements (or d arrays of a size that is the same in all activations), at the depth of the activation; arguments and
results are in variables of the loop.  What is the same in all activations is read from outside.  There is no other
memory, so devices run it; and its derivatives are those of a loop, which keeps what updates overwrite.

Right because an activation binds each variable once, and a block reads it only behind the block that binds it: when it
is read, the element at the activation's depth was written by that activation, or by none that is still there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from futad.core import ir
from futad.core.budget import PLACE, place_of
from futad.core.builder import Builder
from futad.core.callgraph import Component, components
from futad.core.calls import calls
from futad.core.ir import Fun, Lambda, Program, Stm
from futad.core.roots import Roots
from futad.core.types import BOOL, I64, ONE, ZERO, ArrayType, Atom, Const, Prim, Type, Var, elem_of, i64, shape_of
from futad.errors import Span, UnsupportedError
from futad.fires import Transformation
from futad.optimise.constant_arguments import constant_arguments
from futad.optimise.tail_calls import changing
from futad.rewrite.rules.control import one_after_the_other

BOUND = "bound"  # the attribute of a function: how many activations of it there may be at once
STEP = Transformation(
    "bounded-recursion",
    "a function that calls itself at most a given number of times deep is a loop with a stack",
    worth="asked for by an attribute: devices have no other recursion",
)
WITHOUT = "without '#[bound]' the backends 'interp', 'c' and 'multicore' run it"
KINDS: tuple[tuple[type[ir.Exp], str], ...] = (
    (ir.Map, "a map"), (ir.Reduce, "a reduction"), (ir.Scan, "a scan"), (ir.Loop, "a loop"),
    (ir.Derivative, "a derivative"),
)  # fmt: skip


def bounded(program: Program) -> Program:
    """The program with such functions as loops; the same one if there are none.  Raises UnsupportedError for calls that
    are not in sequences and branches, and for what has no constant size."""
    groups = components(program)
    if not any(g.cyclic and any(bound_of(program.funs[n]) is not None for n in g) for g in groups):
        return program
    program = constant_arguments(program)  # so sizes that are written in types are constants
    funs = dict(program.funs)
    for group in groups:
        marked = [name for name in group if bound_of(program.funs[name]) is not None]
        if group.cyclic and marked:
            if len(marked) > 1:
                names = " and ".join(f"'{called(n)}'" for n in marked)
                raise _refusal(program.funs[marked[1]].span, f"{names} call each other, and all have a bound",
                               "leave it at one of them")
            funs[marked[0]] = _Machine(_alone(program, group, marked[0])).fun()
            STEP.fired()
    made = Program(funs, program.name)
    order = [name for group in components(made) for name in group]
    return Program({name: funs[name] for name in order}, program.name)


def bound_of(f: Fun) -> int | None:
    """The bound that a function declares; the source's checker has seen to it that it is a positive number."""
    return next((a[1] for a in f.attrs if a[0] == BOUND and len(a) == 2), None)


def called(name: str) -> str:
    """What the source calls a function of the core IR."""
    return re.sub(r"_\d+$", "", name)


def _refusal(span: Span | None, message: str, hint: str) -> UnsupportedError:
    return UnsupportedError(message, span, hint=f"{hint}; {WITHOUT}")


def _alone(program: Program, group: Component, name: str) -> Fun:
    """A function of a group as one that calls itself: copies of the others in the place of their calls."""
    others = {n: program.funs[n] for n in group if n != name}
    rest = Program(others, program.name)
    for g in components(rest):
        if g.cyclic:
            f = others[g[0]]
            raise _refusal(f.span, f"'{called(f.name)}' calls itself other than by way of '{called(name)}'",
                           "give the bound to a function that is on all cycles of calls")
    f = program.funs[name]
    body = Lambda(f.body.params, tuple(_sequence(f.body.stms, name, others)), f.body.result)
    return Fun(name, body, f.num_sizes, f.ret, f.entry, f.attrs, f.span)


def _sequence(stms: Iterable[Stm], name: str, others: dict[str, Fun]) -> Iterator[Stm]:
    """The statements with calls of the others as copies, and tasks with calls one after the other."""
    for s in stms:
        e = s.exp
        if isinstance(e, ir.Call) and e.name in others:
            f = others[e.name]
            r = ir.Renamer(dict(zip(f.body.params, e.args, strict=True)))
            yield from _sequence(r.stms(f.body.stms), name, others)
            results = [r.atom(a) for a in f.body.result]
            yield from [Stm((v,), ir.Alias(a)) for v, a in zip(s.pat, results, strict=True)]
        elif any(calls(lam).keys() & {name, *others} for lam in e.lambdas()):
            if isinstance(e, ir.Par):
                yield from _sequence(one_after_the_other(s), name, others)
            else:
                yield ir.map_scopes(s, lambda x: Lambda(x.params, tuple(_sequence(x.stms, name, others)), x.result))
        else:
            yield s


# --- a body in blocks ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Block:
    """What one iteration runs.  Its parameters are the function's, the results of a call ("result"), or those of a
    branch, which are on the stack ("join")."""

    params: tuple[Var, ...]
    kind: str
    code: _Code = field(init=False)


@dataclass(slots=True, eq=False)
class _Return:
    atoms: tuple[Atom, ...]


@dataclass(slots=True, eq=False)
class _Enter:
    """A call, and where it returns to."""

    args: tuple[Atom, ...]
    to: _Block


@dataclass(slots=True, eq=False)
class _Goto:
    args: tuple[Atom, ...]
    to: _Block


@dataclass(slots=True, eq=False)
class _Branch:
    cond: Atom
    sides: tuple[_Code, _Code]


@dataclass(slots=True, eq=False)
class _Code:
    stms: list[Stm]
    end: _Return | _Enter | _Goto | _Branch


def _ends(c: _Code) -> Iterator[_Return | _Enter | _Goto]:
    if isinstance(c.end, _Branch):
        for side in c.end.sides:
            yield from _ends(side)
    else:
        yield c.end


def _all(c: _Code) -> Iterator[Stm]:
    yield from c.stms
    if isinstance(c.end, _Branch):
        for side in c.end.sides:
            yield from _all(side)


class _Blocks:
    """The blocks of a function, the first one first."""

    def __init__(self, f: Fun) -> None:
        self.f = f
        first = _Block(f.body.params, "first")
        self.all = [first]
        first.code = self._code(f.body.stms, f.body.result, None)
        self._live: dict[_Block, frozenset[Var]] = {}

    def _code(self, stms: Sequence[Stm], result: tuple[Atom, ...], then: _Block | None) -> _Code:
        """The code of a scope, which goes to a block with its results, or returns them."""
        for k, s in enumerate(stms):
            before, rest, e = list(stms[:k]), stms[k + 1 :], s.exp
            if isinstance(e, ir.Call) and e.name == self.f.name:
                return _Code(before, _Enter(e.args, self._block(s.pat, "result", rest, result, then)))
            if not any(calls(lam)[self.f.name] for lam in e.lambdas()):
                continue
            if not isinstance(e, ir.If):
                self._refuse(s)
            assert isinstance(e, ir.If)
            to = then if not rest and result == s.pat else self._block(s.pat, "join", rest, result, then)
            sides = [self._code(lam.stms, lam.result, to) for lam in (e.then, e.orelse)]
            return _Code(before, _Branch(e.cond, (sides[0], sides[1])))
        return _Code(list(stms), _Return(result) if then is None else _Goto(result, then))

    def _block(
        self, params: tuple[Var, ...], kind: str, stms: Sequence[Stm], result: tuple[Atom, ...], then: _Block | None
    ) -> _Block:
        out = _Block(params, kind)
        self.all.append(out)
        out.code = self._code(stms, result, then)
        return out

    def _refuse(self, s: Stm) -> None:
        inside = [x for lam in s.exp.lambdas() for x in ir.statements(lam.stms)]
        call = next(x for x in inside if isinstance(x.exp, ir.Call) and x.exp.name == self.f.name)
        place = place_of(s.attrs) or next((v.at for v in (*call.pat, *s.pat) if v.at is not None), self.f.span)
        what = next((text for kind, text in KINDS if isinstance(s.exp, kind)), "a construct over arrays")
        raise _refusal(place, f"'{called(self.f.name)}', which has a bound, calls itself in {what}",
                       "its calls can stand in sequences and branches of its body")

    def live(self, b: _Block) -> frozenset[Var]:
        """The variables that a block, or one behind it in the same activation, reads; its parameters included."""
        if b not in self._live:
            self._live[b] = frozenset(self._read(b.code, True))
        return self._live[b]

    def read(self, b: _Block) -> set[Var]:
        """The variables that a block reads itself, without those that it binds."""
        return self._read(b.code, False)

    def _read(self, c: _Code, behind: bool) -> set[Var]:
        out: set[Atom] = set()
        end = c.end
        if isinstance(end, _Branch):
            out.add(end.cond)
            for side in end.sides:
                out |= self._read(side, behind)
        elif isinstance(end, _Return):
            out.update(end.atoms)
        else:
            needed = self.live(end.to)
            joins = isinstance(end, _Goto)  # what nobody reads behind it is not written
            pairs = zip(end.to.params, end.args, strict=True) if joins else ()
            out.update([a for p, a in pairs if p in needed] if joins else end.args)
            if behind:
                out |= needed.difference(end.to.params)
        for s in c.stms:
            out.update(ir.stm_free(s))
        bound = {v for s in c.stms for v in s.pat}
        return {v for v in out if isinstance(v, Var) and v not in bound}


# --- the loop --------------------------------------------------------------------------------------------------------

State = list[Atom]  # the program counter, the depth, arguments, results, where to return to, variables by depth


class _Machine:
    def __init__(self, f: Fun) -> None:
        self.f = f
        bound = bound_of(f)
        assert bound is not None
        self.bound = i64(bound)
        self.blocks = _Blocks(f)
        self.end = i64(len(self.blocks.all))
        self.number = {b: i64(k) for k, b in enumerate(self.blocks.all)}
        entered = [e for b in self.blocks.all for e in _ends(b.code) if isinstance(e, _Enter)]
        params = f.body.params
        own = changing(params, [e.args for e in entered])
        self.same = {p for p in params if p not in own}
        read = self.blocks.live(self.blocks.all[0])
        self.params = [p for p in params if p in own and p in read]
        kept = {v for b in self.blocks.all[1:] for v in self.blocks.live(b) if b.kind == "join" or v not in b.params}
        self.kept = sorted(kept - self.same, key=lambda v: v.id)
        for v in (*self.params, *self.kept, *f.ret):
            self._sized(v)
        self.returns = list(dict.fromkeys(e.to for e in entered))
        self.slots = [
            Var("pc", I64), Var("depth", I64), *[Var(p.name, p.type) for p in self.params],
            *[Var(v.name, v.type) for v in f.ret], Var("back", ArrayType(I64, (self.bound,))),
            *[Var(v.name, self._stacked(v.type)) for v in self.kept],
        ]  # fmt: skip
        at = 2
        self.param_at = {p: at + k for k, p in enumerate(self.params)}
        at += len(self.params)
        self.ret_at = at
        self.back_at = at + len(f.ret)
        self.kept_at = {v: self.back_at + 1 + k for k, v in enumerate(self.kept)}

    def _sized(self, v: Var) -> None:
        """Refuse what has no place of a known size."""
        if not isinstance(v.type, Prim | ArrayType):
            what = "is no number or array"
        elif any(isinstance(n, Var) and n not in self.same for n in shape_of(v.type)):
            what = "has a size that is not the same in all calls"
        else:
            return
        role = "its result" if v in self.f.ret else f"'{v.name}'"
        raise _refusal(v.at or self.f.span, f"'{called(self.f.name)}' has a bound, but {role} {what}",
                       "pass the whole array, and where the part begins and ends")

    def _stacked(self, t: Type) -> ArrayType:
        return ArrayType(elem_of(t), (self.bound, *shape_of(t)))

    def fun(self) -> Fun:
        """The function as a loop."""
        f, b = self.f, Builder()
        inits: State = [ZERO, ZERO, *self.params, *[b.zeros(v.type, v.name) for v in f.ret]]
        inits.append(b.let(ir.Replicate((self.bound,), self.end), "back"))
        inits += [b.zeros(self._stacked(v.type), v.name) for v in self.kept]
        going, inner = Var("going", BOOL), Builder()
        state = [Var(v.name, v.type) for v in self.slots]
        out = self._choose(inner, state, 0, len(self.blocks.all))
        again = inner.op("lt", out[0], self.end, hint="going")
        body = Lambda((going, *state), tuple(inner.stms), (again, *out))
        pat = [Var(v.name, v.type) for v in self.slots]
        attrs = ((PLACE, f.span),) if f.span is not None else ()
        b.add(Stm((Var("going", BOOL), *pat), ir.While((Const(BOOL, True), *inits), body), attrs))
        result = tuple(pat[self.ret_at : self.back_at])
        rest = tuple([a for a in f.attrs if a[0] != BOUND])
        return Fun(f.name, Lambda(f.body.params, tuple(b.stms), result), f.num_sizes, f.ret, f.entry, rest, f.span)

    def _choose(self, b: Builder, state: list[Var], low: int, high: int) -> State:
        """Emit the blocks of these numbers; the state after the one that the counter says."""
        if high - low == 1:
            return self._block(b, state, self.blocks.all[low])
        middle = (low + high) // 2
        cond = b.op("lt", state[0], i64(middle), hint="low")
        sides: list[tuple[Builder, State]] = []
        for part in ((low, middle), (middle, high)):
            inner = Builder()
            sides.append((inner, self._choose(inner, state, *part)))
        return self._join(b, cond, sides)

    def _join(self, b: Builder, cond: Atom, sides: Sequence[tuple[Builder, State]]) -> State:
        """Emit the branch; what its sides agree on is no result of it."""
        (one, x), (other, y) = sides
        apart = [k for k, (p, q) in enumerate(zip(x, y, strict=True)) if p is not q]
        pat = tuple([Var(self.slots[k].name, self.slots[k].type) for k in apart])
        bodies = [Lambda((), tuple(c.stms), tuple([s[k] for k in apart])) for c, s in sides]
        b.add(Stm(pat, ir.If(cond, bodies[0], bodies[1])))
        out = list(x)
        for k, v in zip(apart, pat, strict=True):
            out[k] = v
        return out

    def _block(self, b: Builder, state: list[Var], block: _Block) -> State:
        """Emit a block; the state after it."""
        r = ir.Renamer()
        roots = Roots(_all(block.code))
        written = {x for s in ir.statements(_all(block.code)) for a in s.exp.consumes() for x in roots.of(a)}
        given: dict[Var, Var] = {}
        if block.kind == "first":
            given = {p: state[k] for p, k in self.param_at.items()}
        elif block.kind == "result":
            given = {v: state[self.ret_at + k] for k, v in enumerate(block.params)}
        for v in sorted(self.blocks.read(block) | set(given), key=lambda v: v.id):
            if v in given or v in self.same:
                x: Var = given.get(v, v)
                r.mapping[v] = b.let(ir.Copy(x), v.name) if v in written else x
            else:
                x = b.at(state[self.kept_at[v]], state[1], hint=v.name)
                # What follows may overwrite the stack.
                r.mapping[v] = b.let(ir.Copy(x), v.name) if isinstance(v.type, ArrayType) else x
        on_stack = self.blocks.live(block).difference(given)
        return self._code(b, state, block.code, r, on_stack)

    def _code(self, b: Builder, state: list[Var], c: _Code, r: ir.Renamer, on_stack: Iterable[Var]) -> State:
        """Emit code of a block; `on_stack`: what need not be written there any more."""
        b.extend(r.stms(c.stms))
        end = c.end
        if isinstance(end, _Branch):
            sides: list[tuple[Builder, State]] = []
            for side in end.sides:
                inner = Builder()
                sides.append((inner, self._code(inner, state, side, ir.Renamer(r.mapping), on_stack)))
            return self._join(b, r.atom(end.cond), sides)
        out: State = list(state)
        depth = state[1]
        if isinstance(end, _Return):
            for k, a in enumerate(end.atoms):
                out[self.ret_at + k] = self._own(b, r.atom(a))
            out[1] = b.op("sub", depth, ONE, hint="depth")
            out[0] = self._back(b, state)
            return out
        if isinstance(end, _Goto):
            needed = self.blocks.live(end.to)
            for p, a in zip(end.to.params, end.args, strict=True):
                if p in needed:
                    self._write(b, out, p, r.atom(a))
            self._save(b, out, r, needed.difference(end.to.params, on_stack))
            out[0] = self.number[end.to]
            return out
        self._save(b, out, r, self.blocks.live(end.to).difference(end.to.params, on_stack))
        deeper = b.op("add", depth, ONE, hint="depth")
        fits = b.op("lt", deeper, self.bound, hint="fits")
        message = f"recursion of '{called(self.f.name)}' is deeper than its bound of {{}}"
        b.add(Stm((), ir.Assert(fits, message, (self.bound,), self.f.span)))
        if len(self.returns) > 1:
            to = ir.Update(state[self.back_at], (deeper,), self.number[end.to], self.f.span)
            out[self.back_at] = b.let(to, "back")
        for p, a in zip(self.f.body.params, end.args, strict=True):
            if p in self.param_at:
                out[self.param_at[p]] = self._own(b, r.atom(a))
        out[0], out[1] = self.number[self.blocks.all[0]], deeper
        return out

    def _back(self, b: Builder, state: list[Var]) -> Atom:
        """The block that the activation returns to."""
        if len(self.returns) > 1:
            return b.at(state[self.back_at], state[1], hint="pc")
        first = b.op("eq", state[1], ZERO, hint="first")
        return b.op("select", first, self.end, self.number[self.returns[0]], hint="pc")

    def _save(self, b: Builder, out: State, r: ir.Renamer, variables: Iterable[Var]) -> None:
        for v in sorted(variables, key=lambda v: v.id):
            if v not in self.same:
                self._write(b, out, v, r.atom(v))

    def _write(self, b: Builder, out: State, v: Var, value: Atom) -> None:
        k = self.kept_at[v]
        out[k] = b.let(ir.Update(out[k], (out[1],), value), v.name)

    @staticmethod
    def _own(b: Builder, a: Atom) -> Any:
        """An array in memory that nothing else is in."""
        return b.let(ir.Copy(a), "own") if isinstance(a.type, ArrayType) else a


__all__ = ["BOUND", "bound_of", "bounded", "called"]
