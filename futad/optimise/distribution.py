"""Maps split (distributed): a map of some of the statements, then one of the rest.

    map (\\x -> let y = f x in g x y) xs   -->   let ys = map f xs in map2 g xs ys
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.alias import Aliases, consumed_roots
from futad.core.builder import Builder
from futad.core.ir import Lambda, Renamer, Stm
from futad.core.types import AccType, Atom, Prim, Var, array_of, shape_of
from futad.legality import Legality
from futad.optimise.subst import Subst
from futad.rewrite.dce import effects

LEGAL = Legality("distribution", "a map becomes two, one of them of the values that the other needs", fires=False)
SHARED_REGULAR = LEGAL.condition("shared values regular", "what two maps share has a size of its own in each iteration")
REGULAR = LEGAL.condition("values regular", "what is computed for all iterations first has a size of its own in each")
UNCONSUMED = LEGAL.condition("rest reads nothing overwritten", "the first map overwrites what the rest reads after it")


@dataclass(slots=True)
class Split:
    """A map split around one of its statements: the map `before`, the arrays (with their parameters) that the rest
    takes, the values wanted as arrays, and the statements of the rest."""

    before: list[Stm]
    arrays: list[tuple[Atom, Var]]
    wanted: list[Var]
    rest: list[Stm]

    def remaining(self, s: Stm, swap: dict[Var, Atom] | None = None) -> Stm:
        """The map `s` of the rest, with some variables replaced."""
        e = s.exp
        assert type(e) is ir.Map
        sub = Subst(dict(swap or {}))
        result = [sub.atom(a) for a in e.lam.result]
        return map_over(e.width, self.arrays, sub.stms(self.rest), s.pat, result, attrs=s.attrs)


def split(e: ir.Map, at: int, need: list[Var]) -> Split | None:
    """A map split around its statement `at`, which uses `need`; None if that is not right."""
    lam = e.lam
    bound = binders(lam)
    rows = dict(zip(lam.params, e.arrays, strict=True))
    # A reshaped row is a row of the reshaped array: it need not be stored for itself.
    views: dict[Var, ir.Reshape] = {}
    sources: dict[Var, Var] = {}
    for v in need:
        x = lam.stms[bound[v]].exp if v in bound else None
        if type(x) is ir.Reshape and type(x.array) is Var and (x.array in bound or x.array in rows):
            views[v], sources[v] = x, x.array
    original = need
    need = [sources.get(v, v) for v in need]
    wanted = {bound[v] for v in need if v in bound}
    part = wanted | _slice(lam.stms, wanted, stop=lambda t: False)
    if any(threads(lam.stms[i]) for i in part):
        return None
    if any(lam.stms[i].exp.effect for i in part):
        return None
    live: list[Var] = []
    rest = [i for i in range(len(lam.stms)) if i not in part and i != at]
    used = {v for i in rest for v in ir.stm_free(lam.stms[i])} | {a for a in lam.result if type(a) is Var}
    for i in sorted(part):
        live += [v for v in lam.stms[i].pat if v in used or v in need]
    if not REGULAR(all(_escapes(v, bound, lam) for v in [*live, *need])):
        return None
    if not UNCONSUMED(not any(v in _overwritten([lam.stms[i] for i in part]) for v in live)):
        return None
    outs = [Var(v.name, array_of(v.type, e.width)) for v in live]
    out: list[Stm] = []
    if part:
        out.append(_submap(e, [lam.stms[i] for i in sorted(part)], outs, list(live)))
    arrays: list[tuple[Atom, Var]] = list(zip(e.arrays, lam.params, strict=True))
    arrays += list(zip(outs, live, strict=True))
    whole = dict(zip(live, outs, strict=True))
    vectors: list[Var] = []
    for v, wanted_as in zip(need, original, strict=True):
        a = whole[v] if v in whole else rows.get(v)
        if type(a) is not Var:
            return None
        if wanted_as in views:
            b = Builder()
            a = b.let(ir.Reshape(a, (e.width, *views[wanted_as].shape)), "flat")
            out += b.stms
        vectors.append(a)
    return Split(out, arrays, vectors, [t for i, t in enumerate(lam.stms) if i != at and i not in part])


def by_accumulator(s: Stm, by_update: bool = False) -> list[Stm]:
    """A map that threads accumulators as one map an accumulator, or `by_update` one for each statement that updates
    one, after one for everything else.

    What an accumulator's map needs of the rest it gets as an array, but for the product that an update adds
    and for integer arithmetic, which it does again.  Additions may be made in any order (`core/types.py`, `AccType`).
    """
    e = s.exp
    assert type(e) is ir.Map
    lam = e.lam
    params = [p for p in lam.params if isinstance(p.type, AccType)]
    if not params:
        return [s]
    bound = binders(lam)
    chains: list[list[int]] = []
    for p, r in zip(params, lam.result, strict=False):
        chain = _chain(lam.stms, p, r)
        if chain is None:
            return [s]
        chains.append(chain)
    updating = {i for chain in chains for i in chain}
    # The statements of each map, in their order: of an accumulator, those that update it.
    split_up = [[[i] for i in chain] if by_update and chain else [chain] for chain in chains]
    maps = [(k, part) for k, parts in enumerate(split_up) for part in parts]
    shared: dict[Var, None] = {}
    wanted: list[list[int]] = []
    for _, part in maps:
        keep = set(part)
        for i in part:
            x = lam.stms[i].exp
            if type(x) is ir.UpdateAcc and type(x.value) is Var and x.value in bound:
                if not isinstance(x.value.type, Prim):
                    return [s]  # the contributions of all iterations at once could be too large
                keep.add(bound[x.value])
        keep |= _slice(lam.stms, keep, stop=_not_integer)
        for i in sorted(keep):
            free = ir.stm_free(lam.stms[i])
            shared.update((v, None) for v in free if v in bound and bound[v] not in keep | updating)
        wanted.append(sorted(keep))
    if not SHARED_REGULAR(all(_escapes(v, bound, lam) for v in shared)):
        return [s]
    plain = [(v, r) for v, r in zip(s.pat, lam.result, strict=True) if not isinstance(v.type, AccType)]
    if len(maps) == 1 and not plain and not shared:
        return [s]
    out: list[Stm] = []
    extra = [Var(v.name, array_of(v.type, e.width)) for v in shared]
    rest = [t for i, t in enumerate(lam.stms) if i not in updating]
    if plain or shared or effects(rest):
        out.append(_submap(e, rest, [v for v, _ in plain] + extra, [r for _, r in plain] + list(shared)))
    inputs = list(zip(e.arrays, lam.params, strict=True))
    accs = [(a, p) for a, p in inputs if isinstance(p.type, AccType)]  # as far as they are updated
    others = [(a, p) for a, p in inputs if not isinstance(p.type, AccType)] + list(zip(extra, shared, strict=True))
    for (k, part), stms in zip(maps, wanted, strict=True):
        last = lam.stms[part[-1]].pat[0] if part else params[k]
        done = s.pat[k] if last is lam.result[k] else Var(last.name, last.type)
        out.append(map_over(e.width, [accs[k], *others], [lam.stms[i] for i in stms], [done], [last], rename=True))
        accs[k] = done, last
    return out


# --- helpers ------------------------------------------------------------------------------------------------


def binders(lam: Lambda) -> dict[Var, int]:
    """The statement that binds each variable of the scope."""
    return {v: i for i, s in enumerate(lam.stms) for v in s.pat}


def _overwritten(stms: list[Stm]) -> set[Var]:
    """The arrays, and views of arrays, that the statements overwrite."""
    views = Aliases()
    for s in stms:
        for v, a in zip(s.pat, s.exp.views(), strict=False):
            views.join(v, a)
    gone = {v for s in stms for v in consumed_roots(s.exp, views)}
    return {v for s in stms for v in s.pat if views.root(v) in gone} | gone


def threads(s: Stm) -> bool:
    """Whether the statement passes an accumulator on."""
    return any(isinstance(v.type, AccType) for v in s.pat)


def _chain(stms: tuple[Stm, ...], acc: Var, result: Atom) -> list[int] | None:
    """The statements that update one accumulator from the parameter to the result, each updating no other."""
    out: list[int] = []
    now: Atom = acc
    for i, s in enumerate(stms):
        if now in ir.stm_free(s):
            if len(s.pat) != 1 or not isinstance(s.pat[0].type, AccType):
                return None
            out.append(i)
            now = s.pat[0]
    return out if now is result else None


def _not_integer(s: Stm) -> bool:
    return type(s.exp) is not ir.Op or not isinstance(s.pat[0].type, Prim) or s.pat[0].type.is_float


def _slice(stms: tuple[Stm, ...], roots: set[int], stop: Callable[[Stm], bool]) -> set[int]:
    """The statements that those at `roots` depend on (without them), going no further at `stop` statements."""
    bound = {v: i for i, s in enumerate(stms) for v in s.pat}
    out: set[int] = set()
    work = list(roots)
    while work:
        for v in ir.stm_free(stms[work.pop()]):
            i = bound.get(v)
            if i is None or i in out or i in roots or stop(stms[i]):
                continue
            out.add(i)
            work.append(i)
    return out


def _escapes(v: Var, bound: dict[Var, int], lam: Lambda) -> bool:
    """Whether `v` can be a mapped result: no accumulator, its sizes known outside."""
    if isinstance(v.type, AccType):
        return False
    return not any(x in bound or x in lam.params for x in shape_of(v.type))


def map_over(
    width: Atom,
    arrays: list[tuple[Atom, Var]],
    stms: Sequence[Stm],
    pat: Sequence[Var],
    result: Sequence[Atom],
    *,
    attrs: tuple[object, ...] = (),
    rename: bool = False,
) -> Stm:
    """A map over the arrays whose parameters are used (all accumulators stay)."""
    free = ir.Lambda((), tuple(stms), tuple(result)).free()
    kept = [(a, p) for a, p in arrays if p in free or isinstance(p.type, AccType)]
    kept.sort(key=lambda x: not isinstance(x[1].type, AccType))
    lam = Lambda(tuple([p for _, p in kept]), tuple(stms), tuple(result))
    if rename:
        lam = Renamer().lam(lam)
    return Stm(tuple(pat), ir.Map(width, tuple([a for a, _ in kept]), lam), attrs)


def _submap(e: ir.Map, stms: list[Stm], pat: list[Var], result: list[Atom]) -> Stm:
    """A map over `e`'s plain arrays, its variables renamed."""
    arrays = [(a, p) for a, p in zip(e.arrays, e.lam.params, strict=True) if not isinstance(p.type, AccType)]
    return map_over(e.width, arrays, stms, pat, result, rename=True)


__all__ = ["Split", "binders", "by_accumulator", "map_over", "split", "threads"]
