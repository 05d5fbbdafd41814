"""Maps with branches that read memory, as straight lines.

    for i: { if 0 < i: b = x[i - 1] else: b = c; y[i] = f(x[i], b) }
  becomes
    for i: { e = 0 < i ? x[i - 1] : 0; b = 0 < i ? e : c; y[i] = f(x[i], b) }

so that it can be done in vector lanes: both sides of a branch are computed, and each read is made only where its side
is taken, which vectors have masks for.  What a side checks is checked unless the other one is taken, and what it adds
to memory stays under the branch, for the loops that add (`stage_additions.py`).  (If-conversion: Allen, Kennedy,
Porterfield and Warren, "Conversion of Control Dependence to Data Dependence", 1983.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from futad.core.scalarops import OPS
from futad.core.types import BOOL, I32, I64, Prim
from futad.fires import Transformation, refused
from futad.imp import ir
from futad.imp.ir import Expr, Guarded, Hidden, Load, Num, Ref, Scalar, Stmt, num
from futad.imp.loops.facts import EACH, HEAVY, LANES_COST, LoopFacts, cost
from futad.imp.loops.gathers import gathered
from futad.imp.walk import has_load, loads_in, needed, parts, refs, rewritten, statements, used
from futad.legality import Legality

LEGAL = Legality(
    "guarded-reads",
    "a map with branches that read memory runs in lanes, each of which reads what its side of the branch does",
    worth="4.4 to 1.2 ms: `without.py guarded-reads tests/legality/guarded.fut:reads_far --values [100000]{i,f}64`",
)
READ_THERE = LEGAL.condition("read where taken", "the side not taken reads out of range")
CHECKED_THERE = LEGAL.condition("checked where taken", "the side not taken fails")
DIVIDES_NOT = LEGAL.condition("no division but by constants", "the side not taken divides by zero")


STAGED = Transformation(
    "staged-reads",
    "reads that vectors have no masks for, or that they cannot gather, are made before, into buffers",
    worth="4.3 to 1.2 ms: `without.py 'no staged-reads' tests/legality/guarded.fut:reads_far --values [100000]{i,f}64`",
)

BLOCK = 128  # iterations whose reads are in buffers
MOST = 16  # buffers


class _Refused(Exception):
    """The body has something that lanes cannot do."""


def with_guarded_reads(
    loop: ir.For, named: Callable[[str], str], inside: Callable[[Load], bool], asked: bool = False
) -> ir.For | None:
    """The map's loop with a straight line in place of branches that compute scalars, check and add to memory; None if
    it has none with reads or checks, or has other ones, or too much of its work would be done in vain.  `named` makes
    names of variables; `inside`: whether what is read is there, whatever the iteration does; `asked`: whether it pays
    or not."""
    if loop.step != 1 or not any(isinstance(s, ir.If) for s in loop.body):
        return refused("it has no branches")
    if any(k > 1 for k in Counter(n for s in statements(loop.body) for n in s.defines()).values()):
        return refused("two variables of its body have one name")
    line = _Line(named, inside)
    try:
        line.side(loop.body, None)
    except _Refused as e:
        return refused(str(e))
    if not line.changed:
        return refused("its branches only add to memory")
    checks = any(isinstance(s, ir.Check) for s in line.out)
    if not checks and not asked and cost(line.out) < HEAVY:
        return refused("it computes little: the C compiler makes vectors of it by itself if that pays")
    return replace(loop, body=_hidden(line.out))


class _Line:
    """The straight line, as far as it goes."""

    def __init__(self, named: Callable[[str], str], inside: Callable[[Load], bool]) -> None:
        self.named, self.inside = named, inside
        self.out: list[Stmt] = []
        self.changed = False

    def side(self, body: list[Stmt], mask: Expr | None) -> dict[str, Expr]:
        """Add the statements, as done where the mask holds.  The values that they give to variables of others."""
        given: dict[str, Expr] = {}
        later: dict[str, ir.Decl] = {}  # what a branch after it gives a value
        for s in body:
            if given.keys() & refs(s):
                raise _Refused("a side of a branch reads its result")
            match s:
                case ir.Decl(n, init=None):
                    later[n] = s
                case ir.Decl(init=init, mutable=False) if init is not None:
                    self.out.append(replace(s, init=self.read(init, mask)))
                case ir.Assign(n, value) if mask is not None:
                    given[n] = self.variable(self.read(value, mask)) if has_load(value) else self.read(value, mask)
                case ir.Check(cond):
                    cond = self.read(cond, mask)
                    if not CHECKED_THERE(mask is None):
                        assert mask is not None
                        cond = ir.Bin("||", _not(mask), cond, BOOL)
                    self.out.append(replace(s, cond=cond))
                case ir.If(cond) if is_addition(s):
                    here = self.read(cond, mask)
                    self.out.append(replace(s, cond=here if mask is None else _both(self.variable(mask), here)))
                case ir.If():
                    self.branch(s, mask, later)
                case ir.Store(op=op) if op is not None and mask is not None:
                    self.out.append(ir.If(mask, [s], []))
                case ir.Store() | ir.Accumulate() | ir.Assign() if mask is None:
                    self.out.append(s)
                case _:
                    raise _Refused("its branches do more than scalars, checks and additions")
        if later:
            raise _Refused("a variable is given its value in a loop")
        return given

    def branch(self, s: ir.If, mask: Expr | None, later: dict[str, ir.Decl]) -> None:
        """Add both sides of a branch, and what they give the variables `later` by choice."""
        if cost(statements([*s.then, *s.orelse])) > LANES_COST:
            raise _Refused("a side of a branch computes much")
        self.changed = True
        taken = self.variable(self.read(s.cond, mask))
        values: list[dict[str, Expr]] = []
        for side, holds in ((s.then, taken), (s.orelse, _not(taken))):
            plain = not any(has_load(t) or isinstance(t, (ir.Check, ir.Store)) for t in statements(side))
            here = holds if mask is None or plain else _both(mask, holds)
            values.append(self.side(side, here if plain or not side else self.variable(here)))
        yes, no = values
        if yes.keys() != no.keys() or not yes.keys() <= later.keys():
            raise _Refused("a variable has another value after one side of a branch only")
        for n, value in yes.items():
            t = later.pop(n).type
            chosen = value if value == no[n] else Scalar("select", (taken, value, no[n]), t, t)
            self.out.append(ir.Decl(n, t, chosen))

    def variable(self, e: Expr) -> Expr:
        """A variable with the value of the expression, or the expression if that is one."""
        if isinstance(e, (Ref, Num)):
            return e
        name = self.named("here")
        self.out.append(ir.Decl(name, e.type, e))
        return Ref(name, e.type)

    def read(self, e: Expr, mask: Expr | None) -> Expr:
        """The expression as computed in all lanes, with reads only where the mask holds."""
        if mask is None:
            return e
        if not DIVIDES_NOT(not any(map(_may_fail, parts(e)))):
            raise _Refused("a side of a branch divides by what may be zero")
        if READ_THERE(all(map(self.inside, loads_in(e)))):
            return e
        return rewritten(e, lambda x: Guarded(mask, x, x.type) if isinstance(x, Load) and not self.inside(x) else x)


def _hidden(body: list[Stmt]) -> list[Stmt]:
    """The statements with the conditions of reads hidden from the C compiler, if something is compared that is computed
    from what is read: it would compute that in the branch around the read, and GCC has no vectors of bools that are
    results of branches."""
    read: set[str] = set()
    compared = False
    for s in body:
        if isinstance(s, ir.Decl):
            from_reads = bool(refs(s) & read)
            compared |= s.type.is_bool and from_reads
            if from_reads or any(isinstance(e, Guarded) for e in parts(s)):
                read.add(s.name)

    def go(e: Expr) -> Expr:
        return replace(e, cond=Hidden(e.cond, I32 if e.type.bits == 32 else I64)) if isinstance(e, Guarded) else e

    return [s.map_exprs(lambda e: rewritten(e, go)) for s in body] if compared else body


def masked_in_vectors(facts: LoopFacts, e: Guarded) -> bool:
    """Whether vectors have such reads: of elements side by side, of 32 bits or more.  (GCC has masked gathers for some
    machines only.)"""
    return facts.beside(e.load.index) and e.type.bits >= 32


def staged_reads(
    loop: ir.For, named: Callable[[str], str], then: Callable[[ir.For], list[Stmt]], asked: bool = False
) -> list[Stmt] | None:
    """The map's loop by blocks, each after a loop that makes the reads that vectors have no masks for, or that they
    cannot gather, one by one, and puts what they read into buffers; None if there are none, or finding their places is
    not much less work than what lanes compute.  Places of gathered elements are found before, in lanes.  `then` is what
    else is done to the loop; `asked`: whether it pays or not."""
    narrow = gathered(loop)
    apart = set(narrow)
    if guarded := [(s, e) for s in loop.body for e in parts(s) if isinstance(e, Guarded)]:
        facts = LoopFacts(loop.var, loop.body)
        apart |= {s for s, e in guarded if not masked_in_vectors(facts, e)}
    if not apart:
        return refused("its branches read no elements, or such that lie side by side")
    if not all(isinstance(s, ir.Decl) for s in apart) or any(isinstance(s, ir.Check) for s in loop.body):
        return refused("its iterations make checks")
    name = named("r")
    start, end = Ref(f"{name}_block", I64), Ref(f"{name}_end", I64)
    here = ir.sub(Ref(loop.var, I64), start)
    word = I32 if any(e.type.bits == 32 for s in loop.body for x in s.exprs() for e in parts(x)) else I64
    lanes: list[Stmt] = []
    buffers: dict[str, tuple[ir.Stack, ir.Store]] = {}
    for s in loop.body:
        if isinstance(s, ir.Decl) and s in apart:
            buffer, value = f"{name}_read_{len(buffers)}", Ref(s.name, s.type)
            put: Expr = _number(value, word) if s.type.is_bool else value
            buffers[buffer] = ir.Stack(buffer, put.type, BLOCK), ir.Store(buffer, here, put)
            read: Expr = Load(buffer, here, put.type)
            read = Scalar("lt", (Num(0, word), read), word, BOOL) if s.type.is_bool else read
            s = replace(s, init=read)
        lanes.append(s)
    lanes = used(lanes)
    left = [buffers[p] for p in dict.fromkeys(x.pointer for s in lanes for x in loads_in(s)) if p in buffers]
    puts: list[Stmt] = []
    places: list[ir.Store] = []
    for _, kept in left:
        load = next((g for d, g in narrow.items() if refs(kept.value) & set(d.defines())), None)
        if load is not None and not apart & set(needed(loop.body, [load.index])):
            at = f"{name}_at_{len(places)}"
            places.append(ir.Store(at, here, load.index))
            kept = replace(kept, value=Load(load.pointer, Load(at, here, I64), load.type))
        puts.append(kept)
    found: list[Stmt] = [*needed(loop.body, places), *places]
    reads = [*needed(loop.body, puts), *puts]
    if not asked and cost(lanes) < max(HEAVY, cost(reads), EACH * len(puts)):
        return refused("lanes would compute little beside the reads in its branches")
    if len(puts) > MOST:
        return refused(f"its branches make {len(puts)} reads, {MOST} at most have buffers")
    done = then(ir.For(loop.var, end, lanes, start, map=True))
    last = Scalar("min", (ir.add(start, num(BLOCK)), loop.bound), I64, I64)
    first = ir.For(loop.var, end, reads, start, map=True)
    stacks = [*[stack for stack, _ in left], *[ir.Stack(p.pointer, I64, BLOCK) for p in places]]
    before = then(ir.For(loop.var, end, found, start, map=True)) if places else []
    inside = [*stacks, ir.Decl(end.name, I64, last), *before, first, *done]
    return [ir.For(start.name, loop.bound, inside, loop.start, step=BLOCK)]


def _may_fail(e: Expr) -> bool:
    """Whether the operation is a division of integers by what may be zero."""
    if not isinstance(e, Scalar) or not OPS[e.op].can_fail or not e.type.is_integral:
        return False
    return not (isinstance(e.args[-1], Num) and e.args[-1].value != 0)


def is_addition(s: Stmt) -> bool:
    """Whether the statement is a branch that only adds to memory, or does nothing."""
    return isinstance(s, ir.If) and not s.orelse and all(isinstance(t, ir.Store) and t.op is not None for t in s.then)


def _number(e: Expr, t: Prim) -> Expr:
    return Scalar("select", (e, Num(1, t), Num(0, t)), t, t)


def _not(e: Expr) -> Expr:
    return Scalar("not", (e,), BOOL, BOOL)


def _both(a: Expr, b: Expr) -> Expr:
    return Scalar("and", (a, b), BOOL, BOOL)


__all__ = ["is_addition", "masked_in_vectors", "staged_reads", "with_guarded_reads"]
