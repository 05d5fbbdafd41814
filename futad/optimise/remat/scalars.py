"""Products and costly scalars of iterations are saved for the return sweep.

    loop x for i < n do hs[i] = x; p = matmul x w; ys = map (.. exp ..) p
    loop .. for j < n do let i = n-1-j; x = hs[i]; p = matmul x w; map (.. exp ..) ..
      -->
    loop .. for i < n do hs[i] = x; ps[i] = p; ..
    loop .. for j < n do let i = n-1-j; ... ps[i] ...
"""

from __future__ import annotations

from collections import Counter

from futad.core import ir
from futad.core.types import I64, Atom, Const, Type, Var, elem_of, shape_of
from futad.optimise.remat.legal import OUTSIDE
from futad.optimise.remat.policy import Policy
from futad.optimise.remat.sweeps import Sweeps
from futad.optimise.values import Values


def products(pair: Sweeps, policy: Policy) -> bool:
    """Products of saved loop variables: of as many rows, so that memory grows by the ratio of columns only."""
    carried = {pair.forward.atom(p) for p in pair.f.body.params}
    made: dict[int, tuple[int, Var]] = {}
    for k, s in enumerate(pair.f.body.stms):
        if type(s.exp) is ir.MatMul:
            made.setdefault(pair.forward.atom(s.pat[0]), (k, s.pat[0]))
    final: dict[int, Var] = {}
    for k, s in enumerate(pair.r.body.stms):
        e, v = s.exp, s.pat[0] if s.pat else None
        if type(e) is not ir.MatMul or v is None or (number := pair.back.atom(v)) not in made:
            continue
        at, product = made[number]
        length = shape_of(e.a.type)[1]
        cost = 2 * length.value if type(length) is Const else policy.dear
        if pair.back.atom(e.a) in carried and policy.saves(cost, 1, 1) and pair.outside(product.type):
            if number not in final:
                final[number] = pair.save(at, product)
            pair.stms[1][k] = pair.read(v, final[number], k)
    return bool(final)


def scalars(pair: Sweeps, policy: Policy) -> bool:
    """Costly scalars of maps."""
    if pair.size is None and pair.f.bound.type is not I64:
        return False
    made: dict[int, tuple[int, Var]] = {}
    for k, e in _maps(pair.f):
        if OUTSIDE(e.width not in pair.own[0]):
            made |= {n: (k, v) for n, v in _costly(policy, pair.forward, e).items() if n not in made}
    keys = [pair.forward.table.keys[n] for n in pair.back.saved.values()]
    widths = {k: e.width for k, e in _maps(pair.f)}
    room = {k: _rows_of(pair, width) for k, width in widths.items()}
    kept = [made[key[2]] for key in keys if key[0] == "map" and key[2] in made]  # by earlier rounds
    before, taken = len(kept), sum(_bytes_of(pair, v.type, widths[k]) or 0 for k, v in kept)
    final: dict[int, Var] = {}
    for k, e in _maps(pair.r):
        known: dict[Var, tuple[Var, Var]] = {}  # a scalar -> all iterations' rows of it, its element of one
        for n, v in _costly(policy, pair.back, e).items():
            if n not in final and n in made and policy.saves(policy.dear, before + len(final) + 1, room[made[n][0]]):
                size = _bytes_of(pair, v.type, e.width)
                if not policy.caches(size, taken):
                    continue
                taken += size or 0
                final[n] = pair.save_scalar(*made[n])
            if n in final:
                known[v] = final[n], Var(v.name, v.type)
        if known:
            pair.read_scalars(k, e, known)
    return bool(final)


def own_scalars(pair: Sweeps, policy: Policy) -> bool:
    """Costly scalars of the iterations themselves."""
    if pair.size is None or not policy.own_scalars:
        return False
    made: dict[int, tuple[int, Var]] = {}
    for k, s in enumerate(pair.f.body.stms):
        if policy.costly(s.exp):
            made.setdefault(pair.forward.atom(s.pat[0]), (k, s.pat[0]))
    final: dict[int, Var] = {}
    for k, s in enumerate(pair.r.body.stms):
        n = pair.back.atom(s.pat[0]) if policy.costly(s.exp) else None
        if n in made and (n in final or policy.saves(policy.dear, len(final) + 1, len(pair.back.saved))):
            if n not in final:
                final[n] = pair.save(*made[n])
            pair.stms[1][k] = [pair.row(s.pat[0], final[n])]
    return bool(final)


def _rows_of(pair: Sweeps, width: Atom) -> int:
    """How many rows of that length an iteration saves of the loop variables anyway; one at least."""
    size = width.value if type(width) is Const else 1
    names = Counter([width] if type(width) is Var else [])
    return max(1, sum(t.known_size for t in pair.rows if t.unknown_sizes == names) // max(size, 1))


def _bytes_of(pair: Sweeps, t: Type, width: Atom) -> int | None:
    """Of so many scalars in all iterations, if that is known."""
    if type(pair.f.bound) is not Const or type(width) is not Const:
        return None
    return pair.f.bound.value * width.value * elem_of(t).bytes


def _maps(loop: ir.For) -> list[tuple[int, ir.Map]]:
    """The maps without scopes inside among the loop's statements, by place."""
    maps = [(k, s.exp) for k, s in enumerate(loop.body.stms) if type(s.exp) is ir.Map]
    return [(k, e) for k, e in maps if not any(t.exp.lambdas() for t in e.lam.stms)]


def _costly(policy: Policy, values: Values, e: ir.Map) -> dict[int, Var]:
    """The scalars of a map's elements that cost much, by their numbers."""
    inside, out = values.mapped(e), dict[int, Var]()
    for s in e.lam.stms:
        if policy.costly(s.exp) and values.table.varies[inside.atom(s.pat[0])]:
            out.setdefault(inside.atom(s.pat[0]), s.pat[0])
    return out


__all__ = ["own_scalars", "products", "scalars"]
