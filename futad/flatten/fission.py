"""Distribution of a map over the statements of its body, so that what is parallel inside joins the map's own width.

    map (\\x -> let a = f x let b = g a in b) xs   becomes   let as = map f xs in map g as

where f and g are parallel themselves.  Scalar statements and views between them are repeated wherever their results
are used; every other intermediate becomes an array with the map's width as its outer dimension.  An accumulator opened
in the body is opened around the map instead, over all iterations' arrays at once, with the iteration's number as first
index.  Accumulators of a scope around go through all parts that update them: updates commute, so those of one part may
all come before those of the next.  A map with such is distributed where that makes sums of its updates
(`update_sums.py`).  (Henriksen et al., "Futhark: Purely Functional GPU-Programming with Nested Parallelism and
In-Place Array Updates", 2017, section 5.)
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.node import Range
from futad.core.operator import divisor, row_operator
from futad.core.scope import uses_in
from futad.core.types import (
    I64,
    ONE,
    ZERO,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    array_of,
    row_type,
    shape_of,
)
from futad.fires import Transformation
from futad.legality import Legality

LEGAL = Legality("fission", "a map is distributed over the statements of its body")
REGULAR = LEGAL.condition("arrays regular", "what lies between two parts has a size of its own in each point")
SAME_PART = LEGAL.condition("same part of all rows", "each row has another part taken")
MADE_BEFORE = LEGAL.condition("operands made before", "what a part takes along is computed of what a later one makes")

SMALL = 8  # parallel constructs of at most this width are not worth being distributed

MANY = 512  # elements of constructs of such widths, one inside the other, that are worth it all the same
UNKNOWN = 1 << 16  # elements where a width is not known

CHEAP = (ir.Op, ir.At, ir.Rearrange, ir.Alias, ir.Iota, ir.Replicate, ir.Assert, ir.Reshape)


def widths(lam: ir.Lambda) -> list[Atom]:
    """The widths of the parallel constructs inside, those in loops and branches included."""
    out: list[Atom] = []
    for stm in lam.stms:
        e = stm.exp
        if isinstance(e, ir.Soac):
            out.append(e.width)
        elif isinstance(e, ir.MatMul):
            out += [*shape_of(e.a.type), *shape_of(e.b.type)]
        elif isinstance(e, ir.ArgSort):
            out += shape_of(e.keys.type)
        elif isinstance(e, (ir.Concat, ir.Copy)) or (isinstance(e, ir.Update) and isinstance(e.value.type, ArrayType)):
            out.append(shape_of(stm.pat[0].type)[0])
        elif isinstance(e, ir.Control):
            for inner in e.lambdas():
                out += widths(inner)
    return out


def wide(lam: ir.Lambda) -> bool:
    """Whether something inside is parallel and not known to be small."""
    return any(not (isinstance(w, Const) and w.value <= SMALL) for w in widths(lam)) or elements(lam) > MANY


def elements(lam: ir.Lambda, unknown: int = UNKNOWN) -> int:
    """How many elements the parallel constructs of a scope have, with those inside; `unknown`: of one of that width."""
    total = 0
    for e in [s.exp for s in lam.stms if isinstance(s.exp, ir.Soac)]:
        width = int(e.width.value) if isinstance(e.width, Const) else unknown
        total += width * max([1, *[elements(f, unknown) for f in e.lambdas()]])
    return total


def deep(lam: ir.Lambda) -> bool:
    """Whether a body has more parallelism than one dimension that a block could share out."""
    for stm in lam.stms:
        e = stm.exp
        if isinstance(e, ir.MatMul | ir.ArgSort):
            return True
        if isinstance(e, ir.Mapping) and wide(e.lam):
            return True
        if isinstance(e, ir.WithAcc) and deep(e.lam):
            return True
    return False


def summed(lam: ir.Lambda) -> bool:
    """Whether a body updates an accumulator at places that do not vary with the map, and does more than that: apart the
    updates are sums over the map (`update_sums.py`)."""
    accs = [p for p in lam.params if isinstance(p.type, AccType)]
    users = [s for s in lam.stms if any(p in ir.stm_free(s) for p in accs)] if accs else []
    if all(isinstance(s.exp, CHEAP) for s in lam.stms if s not in users) and len(lam.result) == len(accs):
        return False
    varying = {p for p in lam.params if p not in accs}
    for s in lam.stms:
        if not varying.isdisjoint(ir.stm_free(s)):
            varying.update(s.pat)
    return any(_same_place(s, varying) for s in users)


def sums_inside(lam: ir.Lambda) -> bool:
    """Whether a body, or that of a map in it, is worth being distributed for its updates."""
    return summed(lam) or any(
        isinstance(s.exp, ir.Mapping) and s.exp.accs and sums_inside(s.exp.lam) for s in lam.stms
    )


def opens(lam: ir.Lambda) -> bool:
    """Whether a body opens an accumulator around parallel updates of one that it was given: around the map the two are
    a nest's, whose dimensions are all there."""
    users = [s for s in lam.stms if isinstance(s.exp, ir.WithAcc) and wide(s.exp.lam)]
    return any(isinstance(v.type, AccType) for s in users for v in ir.stm_free(s))


def _same_place(stm: ir.Stm, varying: set[Var]) -> bool:
    """Whether a nest of maps does nothing but update accumulators by scalars, some at places that some variables say
    nothing of."""
    stms: list[ir.Stm] = [stm]
    while len(stms) == 1 and isinstance(e := stms[0].exp, ir.Map) and e.accs == len(stms[0].pat):
        varying = {*varying, *[p for p, a in zip(e.lam.params, e.arrays, strict=True) if a in varying]}
        stms = []
        for s in e.lam.stms:
            if any(isinstance(v.type, AccType) for v in ir.stm_free(s)):
                stms.append(s)
            elif not varying.isdisjoint(ir.stm_free(s)):
                varying.update(s.pat)
    updates = [s.exp for s in stms if isinstance(s.exp, ir.UpdateAcc)]
    scalars = len(updates) == len(stms) and all(isinstance(e.value.type, Prim) for e in updates)
    return scalars and any(varying.isdisjoint(e.index) for e in updates)


def looping(lam: ir.Lambda) -> bool:
    """Whether a scope has a loop of unknown length."""
    loops = [s.exp for s in ir.statements(lam.stms) if isinstance(s.exp, ir.Loop)]
    return any(not (isinstance(e, ir.For) and isinstance(e.bound, Const)) for e in loops)


def split(stm: ir.Stm) -> list[ir.Stm]:
    """A map with folds whose elements are parallel inside, or whose updates are sums: as a map, and folds of its
    results."""
    e = stm.exp
    return map_and_folds(stm) if isinstance(e, ir.Fused) and (wide(e.lam) or summed(e.lam)) else [stm]


def map_and_folds(stm: ir.Stm) -> list[ir.Stm]:
    """A map with folds as a map, and folds of its results; what is folded and follows from other results by scalar
    operations is computed by the folds."""
    e = stm.exp
    assert isinstance(e, ir.Fused)
    of, parts = e.parts(stm.pat), e.parts(e.lam.result)
    folded = parts.folded
    inputs: dict[Atom, Atom] = dict(zip(e.lam.params, e.arrays, strict=True))  # the folds', with their arrays
    inputs |= {a: v for a, v in zip(parts.mapped, of.mapped, strict=True)}
    later = {a: _scalars(a, e.lam, {*inputs, *folded} - {a}) for a in folded if a not in inputs}
    stms = {s for needed in later.values() for s in needed or ()}
    pat, results = list(of.accs), list(parts.accs)
    for a in later:
        if later[a] is None:
            pat.append(Var("x", array_of(a.type, e.width)))
            results.append(a)
            inputs[a] = pat[-1]
    lam = ir.Lambda(e.lam.params, e.lam.stms, (*results, *parts.mapped))
    out = [ir.Stm((*pat, *of.mapped), ir.Map(e.width, e.arrays, lam), stm.attrs)]
    used = {v for s in stms for v in ir.stm_free(s)} | set(folded)
    names = {a: Var("x", a.type) for a in inputs if a in used}
    rest = ir.Lambda((), tuple([s for s in e.lam.stms if s in stms]), tuple([names.get(a, a) for a in folded]))
    rest = ir.rename(rest, {a: v for a, v in names.items() if isinstance(a, Var)})
    lam = ir.Lambda(tuple(names.values()), rest.stms, rest.result)
    folds = ir.Fused(e.width, tuple([inputs[a] for a in names]), lam, e.scans, e.reduces)
    return [*out, ir.Stm(of.folded, folds)]


def _scalars(a: Atom, lam: ir.Lambda, known: set[Atom]) -> list[ir.Stm] | None:
    """The scalar operations that make a value of a scope from others that are known; None if that takes more."""
    made = {s.pat[0]: s for s in lam.stms if isinstance(s.exp, ir.Op)}
    local = {v for s in lam.stms for v in s.pat}
    stms: list[ir.Stm] = []
    todo = [a]
    while todo:
        x = todo.pop()
        if x not in local or x in known:
            continue
        if x not in made:
            return None
        stms.append(made[x])
        todo += made[x].exp.operands()
    return stms or None


class _InAccs(ir.Renamer):
    """Renames a body whose accumulators, but for those `outside`, get an outer dimension, indexed by `index`."""

    def __init__(self, mapping: dict[Var, Atom], width: Atom, index: Var, outside: set[Var]) -> None:
        super().__init__(mapping)
        self.width, self.index, self.outside = width, index, outside

    def bind(self, v: Var) -> Var:
        fresh = super().bind(v)
        if isinstance(fresh.type, AccType) and v not in self.outside:
            fresh.type = AccType(fresh.type.elem, (self.width, *fresh.type.shape))
        return fresh

    def exp(self, e: ir.Exp) -> ir.Exp:
        out = super().exp(e)
        if isinstance(e, ir.UpdateAcc) and isinstance(out, ir.UpdateAcc) and e.acc not in self.outside:
            out.index = (self.index, *out.index)
        return out


class Fission:
    """One map distributed."""

    def __init__(self, stm: ir.Stm) -> None:
        e = stm.exp
        assert isinstance(e, ir.Map)
        self.stm, self.e = stm, e
        self.out: list[ir.Stm] = []
        self.expanded: dict[Atom, Atom] = dict(zip(e.lam.params, e.arrays, strict=True))
        """Variables of the body with an array that has their values for all iterations."""
        self.cheap: dict[Var, ir.Stm] = {}
        self.bound: set[Atom] = set(e.lam.params)
        self.heavy = 0

    def run(self) -> list[ir.Stm] | None:
        """The statements instead of the map's; None if it cannot be distributed, or it would change nothing."""
        e = self.e
        if e.accs and not sums_inside(e.lam) and not opens(e.lam):
            return None  # updates at places of their own, or that contend, are best made where their values are
        stms: list[ir.Stm] = []
        for stm in e.lam.stms:
            for s in split(stm):
                apart = isinstance(s.exp, ir.Map) and (deep(s.exp.lam) or summed(s.exp.lam))
                inner = distribute(s) if apart else None
                stms += [s] if inner is None else inner
        for stm in stms:
            self.bound.update(stm.pat)
        self.uses = uses_in(stms, e.lam.result)
        asserts: list[ir.Stm] = []
        units = _units(stms)
        for at, unit in enumerate(units):
            stm = unit[-1]
            if isinstance(stm.exp, ir.Alias) and stm.exp.atom in self.expanded:
                self.expanded[stm.pat[0]] = self.expanded[stm.exp.atom]
                continue
            if any(v in self.expanded for v in stm.pat):
                continue  # a part has taken it along
            if isinstance(stm.exp, ir.Reshape) and self.reshaped(stm, stm.exp):
                continue
            if isinstance(stm.exp, CHEAP):
                for v in stm.pat:
                    self.cheap[v] = stm
                if isinstance(stm.exp, ir.Assert):
                    asserts.append(stm)
                continue
            if not REGULAR(not any(s in self.bound for v in stm.pat for s in shape_of(v.type))):
                return None
            if not self.group([*asserts, *unit], stm.pat, [s for u in units[at + 1 :] for s in u]):
                return None
            asserts = []
            self.heavy += 1
        if self.heavy < 2 and not any(isinstance(s.exp, ir.WithAcc) for s in self.out):
            return None
        rest = [a for a in e.lam.result if isinstance(a, Const) or a not in self.expanded]
        if rest or asserts:
            vars_ = [a for a in dict.fromkeys(rest) if isinstance(a, Var) and a in self.bound]
            self.group(asserts, vars_)
        names: dict[Atom, Var] = {}
        for v, a in zip(self.stm.pat, e.lam.result, strict=True):
            known = self.expanded.get(a) if isinstance(a, Var) else None
            if known is None:
                self.out.append(ir.Stm((v,), ir.Replicate((e.width,), a)))
            elif isinstance(v.type, AccType):
                names[known] = v
            else:
                self.out.append(ir.Stm((v,), ir.Alias(known)))
        if any(a in names for a in e.arrays):
            return None  # an accumulator that nothing updates
        if not names:
            return self.out
        return [ir.Stm(tuple([names.get(v, v) for v in s.pat]), s.exp, s.attrs) for s in self.out]

    def needed(self, stms: Sequence[ir.Stm], results: Sequence[Var]) -> tuple[list[ir.Stm], list[Var]]:
        """The cheap statements that others need, in order, and the variables of the body that must come in."""
        chosen: dict[ir.Stm, None] = {}
        inputs: dict[Var, None] = {}
        made = {v for s in stms for v in s.pat}
        done: set[Var] = {*made}

        def need(v: Var) -> None:
            if v in done or v not in self.bound:
                return
            done.add(v)
            if v in self.cheap:
                for x in ir.stm_free(self.cheap[v]):
                    need(x)
                chosen[self.cheap[v]] = None
            else:
                inputs[v] = None

        for stm in stms:
            for v in ir.stm_free(stm):
                need(v)
        for v in results:
            need(v)
        return list(chosen), list(inputs)

    def wide_type(self, t: Type) -> Type:
        return t if isinstance(t, AccType) else array_of(t, self.e.width)

    def group(self, stms: list[ir.Stm], results: Sequence[Var], later: Sequence[ir.Stm] = ()) -> bool:
        """A map that does these statements, and scalar operations of `later` ones; its results are expanded.  False if
        it is not known which accumulator each result is."""
        last = stms[-1].exp if stms else None
        if isinstance(last, ir.UpdateAcc):
            results = _ends(stms)
        if isinstance(last, ir.WithAcc) and self.with_acc(stms, last):
            return True
        if isinstance(last, ir.Concat) and len(stms) == 1 and self.concat(stms[0], last):
            return True
        if later:
            stms, results = self.taken_along(stms, results, later)
        cheap, inputs = self.needed(stms, results)
        accs = [v for v in inputs if isinstance(v.type, AccType)]
        if len(accs) > 1:
            # The results are in the order of these.
            if isinstance(last, ir.Screma):
                accs = [a for a in last.arrays if a in accs]
            elif not isinstance(last, ir.UpdateAcc):
                return False
        inputs = [*accs, *[v for v in inputs if v not in accs]]
        results = sorted(results, key=lambda v: not isinstance(v.type, AccType))
        body = ir.rename(ir.Lambda(tuple(inputs), (*cheap, *stms), tuple(results)))
        pat = tuple([Var(v.name, self.wide_type(v.type)) for v in results])
        arrays = tuple([self.expanded[v] for v in inputs])
        self.out.append(ir.Stm(pat, ir.Map(self.e.width, arrays, body)))
        self.expanded.update(zip(results, pat, strict=True))
        return True

    def taken_along(
        self, stms: list[ir.Stm], results: Sequence[Var], later: Sequence[ir.Stm]
    ) -> tuple[list[ir.Stm], Sequence[Var]]:
        """The statements and results of a part, with what later statements compute of its scalars, unless more would
        have to be kept for others then."""
        known = {*results}
        chosen: list[ir.Stm] = []
        for s in later:
            used = [v for v in ir.stm_free(s) if v in self.bound]
            if not isinstance(s.exp, ir.Op) or divisor(s.exp) is not None or known.isdisjoint(used):
                continue
            if MADE_BEFORE(all(v in known or v in self.expanded or self.is_made(v) for v in used)):
                chosen.append(s)
                known.update(s.pat)
        inside = uses_in(chosen)
        made = [v for v in (*results, *[v for s in chosen for v in s.pat]) if self.uses.get(v, 0) > inside.get(v, 0)]
        kept = [v for v in made if v not in self.e.lam.result]
        return ([*stms, *chosen], made) if chosen and len(kept) <= len(results) else (stms, results)

    def is_made(self, v: Var) -> bool:
        """Whether a variable follows, by cheap statements, from arrays that are there."""
        if v not in self.bound or v in self.expanded:
            return True
        return v in self.cheap and all(self.is_made(x) for x in ir.stm_free(self.cheap[v]))

    def view(self, v: Var) -> bool:
        """A part of each row as a part of the matrix, if that is the same for all rows."""
        e = self.cheap[v].exp if v in self.cheap else None
        if not isinstance(e, ir.At) or e.array not in self.expanded or e.check is not None:
            return False
        if not SAME_PART(not any(a in self.bound for a in e.operands() if a is not e.array)):
            return False
        whole = self.expanded[v] = Var(v.name, self.wide_type(v.type))
        rows = Range(ZERO, self.e.width, ONE)
        self.out.append(ir.Stm((whole,), ir.At(self.expanded[e.array], (rows, *e.index), None)))
        return True

    def reshaped(self, stm: ir.Stm, e: ir.Reshape) -> bool:
        """Rows that a part has made under another shape as the matrix under another shape."""
        (v,) = stm.pat
        if e.array in self.e.lam.params or e.array not in self.expanded or any(x in self.bound for x in e.shape):
            return False
        whole = self.expanded[v] = Var(v.name, self.wide_type(v.type))
        self.out.append(ir.Stm((whole,), ir.Reshape(self.expanded[e.array], (self.e.width, *e.shape))))
        return True

    def concat(self, stm: ir.Stm, e: ir.Concat) -> bool:
        """A map that puts rows together as one that puts matrices together, side by side."""
        width, size = self.e.width, e.size
        lengths = [shape_of(a.type)[0] for a in e.arrays]
        if any(n in self.bound for n in lengths):
            return False
        (v,) = stm.pat
        t = self.wide_type(v.type)
        assert isinstance(t, ArrayType)
        whole = Var(v.name, t)
        self.out.append(ir.Stm((whole,), ir.Scratch(t.elem, (width, size, *t.shape[2:]))))
        at: Atom = ZERO
        for a, n in zip(e.arrays, lengths, strict=True):
            if isinstance(a, Var) and a not in self.expanded and a in self.bound and not self.view(a):
                self.group([], [a])
            piece = self.expanded.get(a)
            if piece is None:
                piece = Var("piece", self.wide_type(a.type))
                self.out.append(ir.Stm((piece,), ir.Replicate((width,), a)))
            longer = Var(v.name, t)
            place = (Range(ZERO, width, ONE), Range(at, n, ONE))
            self.out.append(ir.Stm((longer,), ir.Update(whole, place, piece, None)))
            end = Var("at", I64)
            self.out.append(ir.Stm((end,), ir.Op("add", (at, n))))
            whole, at = longer, end
        self.expanded[v] = whole
        return True

    def with_acc(self, stms: list[ir.Stm], e: ir.WithAcc) -> bool:
        """A map of a WithAcc as a WithAcc of a map."""
        others = _others(e.lam)
        if others is None or not all(isinstance(a, Var) for a in e.arrays):
            return False
        width, k = self.e.width, len(e.arrays)
        pat = stms[-1].pat
        arrays: list[Atom] = []
        for a in e.arrays:
            assert isinstance(a, Var)
            if a not in self.expanded and a in self.bound:
                made = self.cheap[a].exp
                if isinstance(made, ir.Replicate) and not any(x in self.bound for x in made.operands()):
                    whole = Var(a.name, self.wide_type(a.type))
                    self.out.append(ir.Stm((whole,), ir.Replicate((width, *made.shape), made.value)))
                    arrays.append(whole)
                    continue
                self.group([], [a])
            if a in self.expanded:
                arrays.append(self.expanded[a])
            else:
                whole = Var(a.name, self.wide_type(a.type))
                self.out.append(ir.Stm((whole,), ir.Replicate((width,), a)))
                arrays.append(whole)
        inner = ir.Lambda((), e.lam.stms, e.lam.result)
        before = stms[:-1]
        probe = [v for v in inner.free() if v not in e.lam.params]
        cheap, inputs = self.needed(before, probe)
        outer = {v: _end(v, e.lam, others) for v in inputs if isinstance(v.type, AccType)}
        ends = [*e.lam.result[:k], *outer.values()]
        if None in ends or any(isinstance(a.type, AccType) for a in e.lam.result if a not in ends):
            return False
        order = [*range(k), *[e.lam.result.index(a) for a in outer.values() if a is not None]]
        order += [i for i in range(k, len(e.lam.result)) if i not in order]
        inputs = [*outer, *[v for v in inputs if v not in outer]]
        index, outer_index = Var("i", I64), Var("is", ArrayType(I64, (width,)))
        accs = tuple([Var(p.name, AccType(_acc(p).elem, (width, *_acc(p).shape))) for p in e.lam.params])
        inside = tuple([Var(p.name, a.type) for p, a in zip(e.lam.params, accs, strict=True)])
        renamer = _InAccs(dict(zip(e.lam.params, inside, strict=True)), width, index, others)
        params = tuple([renamer.bind(v) for v in inputs])
        body = renamer.stms([*cheap, *before, *e.lam.stms])
        results = tuple([renamer.atom(e.lam.result[i]) for i in order])
        lam = ir.Lambda((*inside, index, *params), tuple(body), results)
        mapped = ir.Map(width, (*accs, outer_index, *[self.expanded[v] for v in inputs]), lam)
        closed = tuple([Var(a.name, a.type) for a in accs])
        extras = tuple([Var(v.name, self.wide_type(v.type)) for v in pat[k:]])
        ends_of = (*closed, *extras)
        whole_lam = ir.Lambda(accs, (ir.Stm(tuple([ends_of[i] for i in order]), mapped),), ends_of)
        self.out.append(ir.Stm((outer_index,), ir.Iota(width, ZERO, ONE)))
        finals = tuple([Var(v.name, self.wide_type(v.type)) for v in pat])
        self.out.append(ir.Stm(finals, ir.WithAcc(tuple(arrays), e.op, whole_lam)))
        self.expanded.update(zip(pat, finals, strict=True))
        return True


def _units(stms: Sequence[ir.Stm]) -> list[list[ir.Stm]]:
    """Statements by themselves, but for updates that nothing but cheap statements stand between, which are one."""
    out: list[list[ir.Stm]] = []
    updates: list[ir.Stm] = []
    for s in stms:
        if isinstance(s.exp, ir.UpdateAcc):
            if not updates:
                out.append(updates)
            else:
                out.append(out.pop(out.index(updates)))  # after what its operands are made by
            updates.append(s)
            continue
        if not isinstance(s.exp, CHEAP):
            updates = []
        out.append([s])
    return out


def _end(acc: Var, lam: ir.Lambda, seen: set[Var]) -> Atom | None:
    """What an accumulator that a scope is given is at its end; None if something in it takes it that is no update or
    map.  All variables that it is in the scope are `seen`."""
    now: Atom = acc
    seen.add(acc)
    for s in lam.stms:
        if now not in ir.stm_free(s):
            continue
        if isinstance(s.exp, ir.UpdateAcc):
            now = s.pat[0]
        elif isinstance(s.exp, ir.Mapping) and now not in s.exp.lam.free():
            e = s.exp
            if _end(e.lam.params[e.arrays.index(now)], e.lam, seen) is None:
                return None
            now = s.pat[[a for a in e.arrays if isinstance(a.type, AccType)].index(now)]
        else:
            return None
        seen.add(s.pat[s.pat.index(now)])
    return now


def _others(lam: ir.Lambda) -> set[Var] | None:
    """The accumulators in the body of a WithAcc that are of another one in it; None if it is not known which are."""
    if not lam.has(ir.WithAcc):
        return set()
    own: set[Var] = set()
    if any(_end(p, lam, own) is None for p in lam.params):
        return None
    bound = [v for s in ir.statements(lam.stms) for v in (*s.pat, *[p for f in s.exp.lambdas() for p in f.params])]
    return {v for v in bound if isinstance(v.type, AccType)} - own


def _ends(stms: Sequence[ir.Stm]) -> list[Var]:
    """The accumulators after updates, in the order in which these first name them."""
    ends: dict[Atom, Var] = {}
    for s in stms:
        if isinstance(s.exp, ir.UpdateAcc):
            start = next((a for a, v in ends.items() if v is s.exp.acc), s.exp.acc)
            ends[start] = s.pat[0]
    return list(ends.values())


def _acc(p: Var) -> AccType:
    assert isinstance(p.type, AccType)
    return p.type


def distribute(stm: ir.Stm) -> list[ir.Stm] | None:
    """The statements that a deep map becomes, None if it stays as it is."""
    made = Fission(stm).run()
    if made is not None:
        LEGAL.fired()
    return made


# --- folds of arrays ------------------------------------------------------------------------------------------------


BY_COLUMNS = Transformation(
    "folds-by-columns",
    "a fold of rows by a map over them becomes a map of folds of columns",
    worth="folds of rows by maps need no loop over log2 n maps: hand tracking on a device 4 launches fewer",
)


def interchange(stm: ir.Stm) -> list[ir.Stm] | None:
    """A fold of rows whose operator maps over the rows, as a map of folds of the columns; None if it is not that."""
    e = stm.exp
    row = row_operator(e.lam) if isinstance(e, (ir.Reduce, ir.Scan)) else None
    if row is None or not isinstance(e, (ir.Reduce, ir.Scan)):
        return None
    BY_COLUMNS.fired()
    out: list[ir.Stm] = []
    columns: list[Var] = []
    for a in e.arrays:
        t = a.type
        assert isinstance(t, ArrayType)
        columns.append(Var("columns", ArrayType(t.elem, (t.shape[1], t.shape[0], *t.shape[2:]))))
        out.append(ir.Stm((columns[-1],), ir.Rearrange(a, (1, 0, *range(2, t.rank)))))
    op = ir.rename(row.lam)
    cols = tuple([Var("column", row_type(c.type)) for c in columns])
    nes = tuple([Var("neutral", row_type(a.type)) for a in e.neutral])
    results = tuple([Var(v.name, row_type(v.type) if isinstance(e, ir.Reduce) else _column(v.type)) for v in stm.pat])
    fold = e.rebuild(lambda a: a, lambda f: f)
    assert isinstance(fold, (ir.Reduce, ir.Scan))
    fold.arrays, fold.lam, fold.neutral = cols, op, nes
    fold_stm = ir.Stm(results, fold)
    body = interchange(fold_stm) or [fold_stm]
    lam = ir.Lambda((*cols, *nes), tuple(body), results)
    arrays = (*columns, *e.neutral)
    if isinstance(e, ir.Reduce):
        return [*out, ir.Stm(stm.pat, ir.Map(row.width, arrays, lam))]
    permuted = tuple([Var(v.name, array_of(r.type, row.width)) for v, r in zip(stm.pat, results, strict=True)])
    out.append(ir.Stm(permuted, ir.Map(row.width, arrays, lam)))
    for v, x in zip(stm.pat, permuted, strict=True):
        out.append(ir.Stm((v,), ir.Rearrange(x, (1, 0, *range(2, len(shape_of(x.type)))))))
    return out


def _column(t: Type) -> Type:
    """The type of a column of a matrix (of rows) of that type."""
    assert isinstance(t, ArrayType)
    return ArrayType(t.elem, (t.shape[0], *t.shape[2:]))
