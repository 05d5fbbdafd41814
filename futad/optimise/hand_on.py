"""What an iteration computes of its result, and the next one again of its variable, is handed on from one to the other.

    loop q = q0 for ... do                          loop (q, s) = (q0, sin q0) for ... do
      let p = f (sin q)                               let p = f s
      let q = g q p                         -->       let q = g q p
      in q + h (sin q) ...                            let s = sin q

Also of the elements of arrays that one map of the iteration reads and yields.  So a step of the leapfrog rule, whose
force at the end is that at the beginning of the next one, computes it once ("first same as last" of Runge-Kutta pairs:
Dormand and Prince, "A family of embedded Runge-Kutta formulae", 1980).
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.ir import Lambda, Program, Stm
from futad.core.scalarops import OPS
from futad.core.types import Atom, Const, Prim, Var, array_of
from futad.legality import Legality

LEGAL = Legality(
    "hand-on",
    "what an iteration computes of its result is not computed again by the next one",
    worth="the gradient of leapfrog.fut, undone, 20,000 steps of 16 springs 2.28 to 2.15 ms: three sines and cosines a "
    "step in place of six; `futad.load` with `strategies.default().without(\"hand-on\")`",
)
SAME_OPERANDS = LEGAL.condition("same operands", "the next iteration computes it with another operand")
FROM_OUTSIDE = LEGAL.condition("operands of all iterations", "an operand has another value in the next iteration")

LEAST_COST = 10  # of an operation; a cheaper one costs less than an array more that goes through memory


def hand_on(program: Program) -> Program:
    """Hand on dear operations, in every loop of known length."""
    return ir.map_bodies(program, _scope)


def _scope(lam: Lambda) -> Lambda:
    stms: list[Stm] = []
    for s in lam.stms:
        s = ir.map_scopes(s, _scope)
        stms += _loop(s)
    same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(stms), lam.result)


def _loop(s: Stm) -> list[Stm]:
    """The loop with the variables that are handed on, and before it what they begin with."""
    e = s.exp
    if type(e) is not ir.For:
        return [s]
    inside = {*e.body.params, *[v for x in e.body.stms for v in x.pat]}
    before: list[Stm] = []
    for q in range(len(e.inits)):
        assert type(e) is ir.For
        x, r = e.variables[q], e.body.result[q]
        if type(r) is not Var or r is x:
            continue
        if type(x.type) is Prim:
            stms, more = _handed(e.body.stms, x, r, inside)
            for c, op, new in more:
                start = Var(c.name, c.type)
                before.append(Stm((start,), _of(op, x, e.inits[q])))
                s, e = _carrying(s, e, stms, start, c, new)
            continue
        at = next((k for k, m in enumerate(e.body.stms) if r in m.pat), None)
        m = None if at is None else e.body.stms[at].exp
        if at is None or type(m) is not ir.Map or x not in m.arrays or m.width in inside:
            continue
        p, y = m.lam.params[m.arrays.index(x)], m.lam.result[e.body.stms[at].pat.index(r)]
        if type(p.type) is not Prim or type(y) is not Var:
            continue
        own = inside | {*m.lam.params, *[v for t in m.lam.stms for v in t.pat]}
        stms, more = _handed(m.lam.stms, p, y, own)
        if not more:
            continue
        old = e.body.stms[at]
        starts, rows, ends = [], [], []
        for c, op, _ in more:
            i, t = Var(p.name, p.type), Var(c.name, c.type)
            one = Lambda((i,), (Stm((t,), _of(op, p, i)),), (t,))
            rows.append(Var(c.name, array_of(c.type, m.width)))
            starts.append(Var(c.name, rows[-1].type))
            ends.append(Var(c.name, rows[-1].type))
            before.append(Stm((starts[-1],), ir.Map(m.width, (e.inits[q],), one)))
        lam = Lambda((*m.lam.params, *[c for c, _, _ in more]), stms, (*m.lam.result, *[n for _, _, n in more]))
        new_map = Stm((*old.pat, *ends), ir.Map(m.width, (*m.arrays, *rows), lam), old.attrs)
        body = tuple([new_map if k == at else t for k, t in enumerate(e.body.stms)])
        for start, row, end in zip(starts, rows, ends, strict=True):
            s, e = _carrying(s, e, body, start, row, end)
        inside |= {*rows, *ends}
    return [*before, s]


def _carrying(s: Stm, e: ir.For, stms: Sequence[Stm], start: Var, param: Var, result: Atom) -> tuple[Stm, ir.For]:
    """The loop with one more variable."""
    body = Lambda((*e.body.params, param), tuple(stms), (*e.body.result, result))
    e = ir.For(e.bound, (*e.inits, start), body)
    return Stm((*s.pat, Var(param.name, param.type)), e, s.attrs), e


def _handed(
    stms: Sequence[Stm], x: Var, y: Var, inside: set[Var]
) -> tuple[tuple[Stm, ...], list[tuple[Var, ir.Op, Var]]]:
    """The statements with operations of x taken from variables, if the same is computed of y; these variables, the
    operation of x of each, and what has its next value."""
    ops = [t for t in stms if type(t.exp) is ir.Op and OPS[t.exp.op].cost >= LEAST_COST]
    out = list(stms)
    more: list[tuple[Var, ir.Op, Var]] = []
    for t in ops:
        e = t.exp
        assert type(e) is ir.Op
        if x not in e.args or not FROM_OUTSIDE(all(a is x or type(a) is Const or a not in inside for a in e.args)):
            continue
        then = tuple([y if a is x else a for a in e.args])
        others = [u for u in ops if u is not t and _op(u).op == e.op]
        again = next((u for u in others if SAME_OPERANDS(_op(u).args == then)), None)
        if again is not None:
            LEGAL.fired()
            c = Var(t.pat[0].name, t.pat[0].type)
            out[out.index(t)] = Stm(t.pat, ir.Alias(c))
            more.append((c, e, again.pat[0]))
    return tuple(out), more


def _op(s: Stm) -> ir.Op:
    assert type(s.exp) is ir.Op
    return s.exp


def _of(op: ir.Op, x: Var, value: Atom) -> ir.Op:
    return ir.Op(op.op, tuple([value if a is x else a for a in op.args]), op.place)


__all__ = ["hand_on"]
