"""Maps whose body loops over scalars, or takes branches and checks, and computes much in a straight line: that part in
vector lanes.

    for i: { y = 0; for j: y = g(i, j, y); out[i] = f(y) }
  becomes, for some i at a time,
    { for i: { y = 0; for j: y = g(i, j, y); ys[i] = y }; for i in lanes: out[i] = f(ys[i]) }

Without a loop inside the first part is what branches and checks need, and reads at places that come of these.

The first loop also makes the checks of the second part, so that the first one to fail is the one that was.  As the
loop is a map's, no iteration reads from arrays what another one writes to them; what the iterations share are its folds
of scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from futad.core.types import I64, Prim
from futad.fires import by_number, refused
from futad.imp import ir
from futad.imp.ir import Expr, Ref, add, num, sub
from futad.imp.loops.vectorise import annotate, with_checks_first
from futad.imp.walk import loads_in, refs, statements
from futad.legality import Legality

LEGAL = Legality(
    "loop-fission",
    "the first parts of some iterations run before their second parts",
    worth="a step of a connectionist temporal classification, 20,000 states: 0.66 to 0.14 ms (`main` of "
    "tests/imp/test_branches_apart.py)",
)
FOLDS_STAY = LEGAL.condition("folds in one part", "a part reads a fold that the other one has continued, or will have")

BEFORE_STORES = LEGAL.condition("reads before stores", "what an iteration has stored is read before")

TOGETHER = 64  # iterations
MOST = 8  # scalars that go from one part to the other


def fissioned(
    loop: ir.For, reassociate: bool, name: Callable[[str], str], asked: int | None = None
) -> ir.For | None:
    """The loop some iterations at a time, each part by itself; None unless the second is worth vector lanes, or it is
    `asked` for, by so many iterations (0: as many as usual)."""
    inner = [k for k, s in enumerate(loop.body) if isinstance(s, ir.For)]
    if loop.step != 1 or not inner and not any(isinstance(s, ir.If) for s in loop.body):
        return refused("there is no loop inside, and no branch")
    before, after = (loop.body[: inner[-1] + 1], loop.body[inner[-1] + 1 :]) if inner else _apart(loop.body)
    first = _First()
    if not inner and not BEFORE_STORES(not {x.pointer for s in before for x in loads_in(s)} & _written(after)):
        return None
    if not first.takes(before, first.declared):
        return refused("its first part, up to the last loop inside, changes more than scalars")
    *checks, second = with_checks_first(replace(loop, body=after, map=True))
    annotate(second, reassociate)
    if not second.independent:
        return refused("its second part, after the last loop inside, does not run in vector lanes")
    if not second.lanes and asked is None:
        return refused("its second part computes too little for vector lanes")
    used = {name for s in second.body for name in s.uses()}
    shared = [(n, t, name(n)) for n, t in first.declared.items() if n in used]
    if len(shared) > MOST:
        return refused(f"{len(shared)} scalars go from the first part to the second, at most {MOST} may")
    together = asked or TOGETHER
    by_number(together)
    continued = {p.name for p in second.partials}
    if not FOLDS_STAY(not continued & first.mentioned and not first.folded & used):
        return None
    here, end = name("first"), name("end")
    place = sub(Ref(loop.var, I64), Ref(here, I64))
    stored: list[ir.Stmt] = [ir.Store(array, place, Ref(n, t)) for n, t, array in shared]
    loaded: list[ir.Stmt] = [ir.Decl(n, t, ir.Load(array, place, t)) for n, t, array in shared]
    body: list[ir.Stmt] = [ir.Stack(array, t, together) for _, t, array in shared]
    stop: Expr = ir.Scalar("min", (add(Ref(here, I64), num(together)), loop.bound), I64, I64)
    body.append(ir.Decl(end, I64, stop))
    whole = [*before, *(s for c in checks for s in c.body), *stored]
    body.append(replace(loop, body=whole, start=Ref(here, I64), bound=Ref(end, I64)))
    body.append(replace(second, body=[*loaded, *second.body], start=Ref(here, I64), bound=Ref(end, I64)))
    return ir.For(here, loop.bound, body, loop.start, step=together)


def _written(body: list[ir.Stmt]) -> set[str]:
    return {p for s in statements(body) for p in s.writes()}


def _apart(body: list[ir.Stmt]) -> tuple[list[ir.Stmt], list[ir.Stmt]]:
    """The branches and checks, reads at places that come of branches, and all that these need; and the rest."""
    chosen: set[str] = set()  # what comes of branches
    wanted: set[int] = set()
    for k, s in enumerate(body):
        if isinstance(s, ir.If | ir.Check):
            wanted.add(k)
            chosen.update(n for t in statements([s]) for n in t.assigns())
        elif isinstance(s, ir.Decl):
            if any(refs(x.index) & chosen for x in loads_in(s)):
                wanted.add(k)
            if s.type is I64 and refs(s) & chosen:
                chosen.add(s.name)
    needed: set[str] = set()
    for k in range(len(body) - 1, -1, -1):
        s = body[k]
        if k in wanted or isinstance(s, ir.Decl) and s.name in needed:
            wanted.add(k)
            needed |= {n for t in statements([s]) for n in (*t.uses(), *t.assigns())}
    return [s for k, s in enumerate(body) if k in wanted], [s for k, s in enumerate(body) if k not in wanted]


@dataclass(slots=True)
class _First:
    """What the statements of a first part do: `declared` are its own scalars, `folded` those of folds that it changes,
    `mentioned` all that it reads."""

    declared: dict[str, Prim] = field(default_factory=dict)
    folded: set[str] = field(default_factory=set)
    mentioned: set[str] = field(default_factory=set)

    def takes(self, body: list[ir.Stmt], declared: dict[str, Prim]) -> bool:
        """Whether the statements change nothing but scalars: their own, which are added to `declared`, or folds'."""
        for s in body:
            self.mentioned |= refs(s)
            match s:
                case ir.Decl(n, t):
                    declared[n] = t
                case ir.Assign(n) | ir.Accumulate(n):
                    if n not in declared:
                        self.folded.add(n)
                case ir.Check():
                    pass
                case ir.For() | ir.If():
                    if not all(self.takes(inside, dict(declared)) for inside in s.bodies()):
                        return False
                case _:
                    return False
        return True


__all__ = ["fissioned"]
