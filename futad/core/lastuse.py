"""Aliases and last uses: which updates may happen in place.

    uses = analyse(program)["main"]
    uses.in_place(stm)      an Update, Scatter, Hist or WithAcc may overwrite its arrays
    uses.loop_copies(stm)   the inits (positions) of a For or While to copy before it starts
    uses.blocks(v)          the blocks the array `v` may lie in

Note [Blocks].  A *block* is the memory one statement (or parameter) creates, named by its variable.  An array
variable lies in one or more blocks: `Alias`, `At`, `Rearrange` and `Reshape` lie where their source does; the
result of a branch may lie in the blocks of either; the result of an in-place update where its source did;
every other array is fresh, results of second-order constructs included.  A construct may overwrite an array
if all its blocks are owned here and no variable in them is used afterwards, nor otherwise by the construct
itself.  Blocks made outside a scope that may run several times are not owned inside it; nor are the caller's
arrays, unless unique; nor the parameters of second-order constructs.

Note [Loops].  A loop variable is a block of its own, owned by the body.  If the body overwrites it, the
initial value must be owned and dead after the loop; where it is not, it is listed in `loop_copies` and must
be copied once, before the loop, so that each iteration still costs only what it writes.  Where variables
change places, what the body overwrites is in a later iteration what another variable began with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from futad.core import ir
from futad.core.callgraph import components
from futad.core.types import ArrayType, Atom, Var

Blocks = frozenset[Var]
_NONE: Blocks = frozenset()
_NOT_OWNED = -1


class LastUse:
    """The decisions for one function."""

    def __init__(self) -> None:
        self._overwrites: dict[ir.Stm, tuple[bool, ...]] = {}
        self._loop_copies: dict[ir.Stm, tuple[int, ...]] = {}
        self._blocks: dict[Var, Blocks] = {}
        self.returns: tuple[Blocks, ...] = ()  # per result: the blocks it may lie in

    def in_place(self, stm: ir.Stm) -> bool:
        """Whether all arrays that `stm` consumes may be overwritten (False if it consumes none)."""
        flags = self._overwrites.get(stm, ())
        return bool(flags) and all(flags)

    def loop_copies(self, stm: ir.Stm) -> tuple[int, ...]:
        """The positions in `stm.exp.inits` to copy before the loop `stm` (see Note [Loops])."""
        return self._loop_copies.get(stm, ())

    def in_place_stms(self) -> list[ir.Stm]:
        """All statements with `in_place`."""
        return [s for s in self._overwrites if self.in_place(s)]

    def all_loop_copies(self) -> dict[ir.Stm, tuple[int, ...]]:
        """`loop_copies` of every loop."""
        return self._loop_copies

    def blocks(self, v: Var) -> Blocks:
        """The blocks that array `v` may lie in; empty for scalars."""
        return self._blocks.get(v, _NONE)


def unique_params(f: ir.Fun) -> set[Var]:
    """The parameters that the caller gives away."""
    if f.entry is None or not any(f.entry.unique):
        return set()
    out: set[Var] = set()
    rest = iter(f.body.params[f.num_sizes :])
    for (_, t), unique in zip(f.entry.params, f.entry.unique, strict=True):
        group = [next(rest) for _ in range(_leaves(t))]
        out.update(group if unique else ())
    return out


def _leaves(t: ir.EntryType) -> int:
    if t.kind == "array" and isinstance(t.elem, ir.EntryType):
        return _leaves(t.elem)
    return sum(_leaves(f) for _, f in t.fields) if t.kind in ("tuple", "record") else 1


def analyse(p: ir.Program) -> dict[str, LastUse]:
    """The analysis of every function.  Linear in the program, but for nests of loops that permute arrays."""
    out: dict[str, LastUse] = {}
    for group in components(p):
        if group.cyclic:
            _together(p, group, out)
        else:
            out[group[0]] = _Analysis(p, out).fun(p.funs[group[0]])
    return out


def _together(p: ir.Program, group: Sequence[str], out: dict[str, LastUse]) -> None:
    """The analysis of functions that call each other: where their results lie is a least fixed point."""
    known: dict[str, tuple[tuple[frozenset[Var], bool], ...]] = {}
    for name in group:
        out[name] = LastUse()
        out[name].returns = tuple([_NONE for _ in p.funs[name].body.result])
    while True:
        before = dict(known)
        for name in group:
            body = p.funs[name].body
            out[name] = _Analysis(p, out).fun(p.funs[name])
            params = frozenset(body.params)
            known[name] = tuple([(blocks & params, bool(blocks - params)) for blocks in out[name].returns])
        if known == before:
            return


def _began_as(ends: Mapping[Var, Blocks], own: Set[Var]) -> dict[Var, set[Var]]:
    """For each loop variable, those with whose initial values it may lie in one block in some iteration."""
    began = {}
    for p in own:
        found, todo = {p}, [p]
        while todo:
            new = (ends[todo.pop()] & own) - found
            found |= new
            todo += new
        began[p] = found
    return began


class _Frame:
    """A scope under analysis: the position reached, and the last position that uses each array."""

    __slots__ = ("level", "index", "last", "made")

    def __init__(self, lam: ir.Lambda, level: int) -> None:
        self.level = level  # number of enclosing scopes that may run several times
        self.index = -1
        self.last: dict[Var, int] = {}
        self.made: set[Var] = set()  # blocks of this scope
        for i, s in enumerate(lam.stms):
            for v in arrays_used(s.exp):
                self.last[v] = i
        for a in lam.result:
            if type(a) is Var:
                self.last[a] = len(lam.stms)


def arrays_used(e: ir.Exp) -> Iterable[Var]:
    """The array variables an expression uses, those free in its scopes included."""
    for a in e.operands():
        if type(a) is Var and type(a.type) is ArrayType:
            yield a
    for lam in e.lambdas():
        for v in lam.free():
            if type(v.type) is ArrayType:
                yield v


class _Analysis:
    def __init__(self, program: ir.Program, done: dict[str, LastUse]) -> None:
        self.program = program
        self.done = done
        self.out = LastUse()
        self.where = self.out._blocks
        self.holders: dict[Var, dict[Var, None]] = {}  # block -> variables in it
        self.level: dict[Var, int] = {}  # block -> level of the scope that owns it
        self.frames: list[_Frame] = []
        self.written: set[Var] = set()  # blocks overwritten so far

    def fun(self, f: ir.Fun) -> LastUse:
        unique = unique_params(f)
        frame = _Frame(f.body, 0)
        for v in f.body.params:
            self.fresh(v, 0 if v in unique else _NOT_OWNED)
        self.scope(f.body, frame)
        self.out.returns = tuple([self.of(a) for a in f.body.result])
        return self.out

    # -- blocks

    def of(self, a: Atom) -> Blocks:
        return self.where.get(a, _NONE) if type(a) is Var else _NONE

    def put(self, v: Var, blocks: Blocks) -> None:
        if type(v.type) is ArrayType:
            self.where[v] = blocks
            for b in blocks:
                self.holders.setdefault(b, {})[v] = None

    def fresh(self, v: Var, level: int, frame: _Frame | None = None) -> None:
        if type(v.type) is ArrayType:
            self.level[v] = level
            self.put(v, frozenset((v,)))
            if frame is not None:
                frame.made.add(v)

    def live(self, block: Var, skip: Var | None = None) -> bool:
        """Whether a variable in the block (other than `skip`) is used after the statement under analysis."""
        for v in self.holders.get(block, ()):
            if v is not skip and any(f.last.get(v, -1) > f.index for f in self.frames):
                return True
        return False

    def may_overwrite(self, a: Atom, others: Iterable[Var], frame: _Frame) -> bool:
        """Whether the current statement may overwrite `a`, which it uses besides `others`."""
        mine = self.of(a)
        if not mine or any(self.level.get(b, _NOT_OWNED) < frame.level or self.live(b) for b in mine):
            return False
        return not any(mine & self.of(v) for v in others)

    # -- scopes

    def scope(self, lam: ir.Lambda, frame: _Frame) -> None:
        self.frames.append(frame)
        for i, s in enumerate(lam.stms):
            frame.index = i
            self.stm(s, frame)
        frame.index = len(lam.stms)
        self.frames.pop()

    def nested(self, lam: ir.Lambda, level: int) -> _Frame:
        frame = _Frame(lam, level)
        self.scope(lam, frame)
        return frame

    def stm(self, s: ir.Stm, frame: _Frame) -> None:
        e = s.exp
        match e:
            case _ if e.consumes():
                self.consumer(s, e, frame)
            case ir.If():
                then = self.nested(e.then, frame.level)
                orelse = self.nested(e.orelse, frame.level)
                inner = then.made | orelse.made
                results = [self.of(a) | self.of(b) for a, b in zip(e.then.result, e.orelse.result, strict=True)]
                self.leave(s.pat, results, inner, frame)
            case ir.Par():
                made: set[Var] = set()
                for lam in e.lambdas():
                    made |= self.nested(lam, frame.level + 1).made
                self.leave(s.pat, [self.of(a) for lam in e.lambdas() for a in lam.result], made, frame)
            case ir.Loop():
                self.loop(s, e.body, e.variables, e.inits, frame)
            case ir.Call():
                self.call(s, e, frame)
            case _:
                for lam in e.lambdas():
                    for p in lam.params:
                        self.fresh(p, _NOT_OWNED)
                    self.nested(lam, frame.level + 1)
                for v in s.pat[len(e.views()) :]:
                    self.fresh(v, frame.level, frame)
                for v, a in zip(s.pat, e.views(), strict=False):
                    self.put(v, self.of(a))

    def consumer(self, s: ir.Stm, e: ir.Exp, frame: _Frame) -> None:
        arrays = e.consumes()
        used = list(arrays_used(e))
        flags = []
        for a in arrays:
            others = list(used)
            if type(a) is Var and a in others:
                others.remove(a)
            flags.append(self.may_overwrite(a, others, frame))
        self.out._overwrites[s] = tuple(flags)
        extras: Sequence[Blocks] = ()
        inner: set[Var] = set()
        for a, ok in zip(arrays, flags, strict=True):
            if ok:
                self.written |= self.of(a)
        for lam in e.lambdas():
            if isinstance(e, ir.WithAcc):
                inner = self.nested(lam, frame.level).made
                extras = [self.of(r) for r in lam.result[len(arrays) :]]
            else:
                for p in lam.params:
                    self.fresh(p, _NOT_OWNED)
                self.nested(lam, frame.level + 1)
        for v, a, ok in zip(s.pat, arrays, flags, strict=False):
            if ok:
                self.put(v, self.of(a))
            else:
                self.fresh(v, frame.level, frame)
        self.leave(s.pat[len(arrays) :], extras, inner, frame)

    def leave(self, pat: Sequence[Var], results: Sequence[Blocks], inner: set[Var], frame: _Frame) -> None:
        """Binds results of a nested scope; its own blocks become blocks of the first result that has them."""
        renamed: dict[Var, Var] = {}
        for v, blocks in zip(pat, results, strict=True):
            if type(v.type) is not ArrayType:
                continue
            mine: set[Var] = set()
            for b in blocks:
                if b in inner:
                    b = renamed.setdefault(b, v)
                mine.add(b)
            for b in mine:
                if b is v:
                    self.level[v] = frame.level
                    frame.made.add(v)
            self.put(v, frozenset(mine))

    def loop(self, s: ir.Stm, body: ir.Lambda, params: Sequence[Var], inits: ir.Atoms, frame: _Frame) -> None:
        starts = [self.of(a) for a in inits]
        sets: list[Blocks] = [frozenset((p,)) if type(p.type) is ArrayType else _NONE for p in params]
        own = {p for p in params if type(p.type) is ArrayType}
        for p in own:
            self.level[p] = frame.level + 1
        before = set(self.written)
        for i in range(len(params)):  # inits that share memory
            for j in range(i):
                if starts[i] & starts[j]:
                    sets[i] = sets[j] = sets[i] | sets[j]
        while True:
            self.written = set(before)
            for p, blocks in zip(params, sets, strict=True):
                self.put(p, blocks)
            inner = self.nested(body, frame.level + 1)
            ends = [self.of(r) for r in body.result]
            wider = list(sets)
            for i, end in enumerate(ends):
                wider[i] |= frozenset([b for b in end if b not in inner.made and b not in own])
                for j in range(i):
                    if end & ends[j]:
                        wider[i] = wider[j] = wider[i] | wider[j]
            if wider == sets:
                break
            sets = wider
        began = _began_as(dict(zip(params, ends, strict=True)), own)
        overwritten = {b for p in self.written & own for b in began[p]}
        self.written -= own
        used = [v for v in body.free() if type(v.type) is ArrayType]
        copies = []
        for i, a in enumerate(inits):
            if not (sets[i] & overwritten):
                continue
            others = [x for j, x in enumerate(inits) if j != i and type(x) is Var] + used
            if self.may_overwrite(a, others, frame):
                self.written |= starts[i]
            else:
                copies.append(i)
        self.out._loop_copies[s] = tuple(copies)
        # After the loop: what was inside, and for blocks of loop variables those of their inits.
        whole = [_NONE if i in copies else starts[i] for i in range(len(params))]
        results = []
        for i, end in enumerate(ends):
            after = set(end | whole[i])
            for p in {b for q in (end | {params[i]}) & own for b in began[q]}:
                at = params.index(p)
                after |= {p} if at in copies else whole[at]
            results.append(frozenset(after))
        self.leave(s.pat, results, inner.made | own, frame)

    def call(self, s: ir.Stm, e: ir.Call, frame: _Frame) -> None:
        callee = self.program.funs[e.name]
        args = dict(zip(callee.body.params, e.args, strict=True))
        results, inner = [], set()
        for blocks in self.done[e.name].returns:
            mine: set[Var] = set()
            for b in blocks:
                if b in args:
                    mine |= self.of(args[b])
                else:
                    mine.add(b)
                    inner.add(b)
            results.append(frozenset(mine))
        self.leave(s.pat, results, inner, frame)
