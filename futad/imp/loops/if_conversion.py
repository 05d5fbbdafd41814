"""If-conversion, and what else brings statements of a map's body to the form in which several iterations can be done
at a time (see `outer_vectorise.py`): without groups, without pointers into arrays of others, without branches that only
compute scalars, and with additions to memory as such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from dataclasses import replace

from futad.core.scalarops import OPS
from futad.imp import ir
from futad.imp.ir import Expr, Ref
from futad.imp.walk import loads_in, parts, refs, rewritten, statements
from futad.legality import Legality

LEGAL = Legality("if-conversion", "branches in lanes compute both sides; sums in memory become additions to it")
READS_NOTHING = LEGAL.condition("sides read nothing", "the side not taken reads out of range")
THE_ELEMENT = LEGAL.condition("the element added to", "another element than the one read is stored")
NOT_WRITTEN = LEGAL.condition("not written between", "another value than the one read is added to")
NOTHING_SINCE = LEGAL.condition("nothing since the sum", "what is added changes before it is")
UNSEEN = LEGAL.condition("old and new unseen", "others use the element, or the sum")


Inside = Callable[[ir.Load], bool]


def _nowhere(x: ir.Load) -> bool:
    return False


def if_converted(body: list[ir.Stmt], folds: Set[str], inside: Inside = _nowhere) -> list[ir.Stmt]:
    """The statements in this form; `folds`: pointers to arrays that the map folds into, which are added to as such;
    `inside`: whether what is read is there, whatever the iteration does."""
    return _straight(_placed(_flat(body), {}), folds, inside)


def _flat(body: list[ir.Stmt]) -> list[ir.Stmt]:
    """The statements, without grouping."""
    return [t for s in body for t in (_flat(s.body) if isinstance(s, ir.Seq) else [s.map_bodies(_flat)])]


def _placed(body: list[ir.Stmt], at: dict[str, tuple[str, Expr]]) -> list[ir.Stmt]:
    """The statements without pointers into other arrays than their own: these are indexed instead.  `at`: the array
    and offset of such pointers.  None of them is set to another array: a body that does so is not done in blocks."""
    own = {s.name for s in body if isinstance(s, (ir.Ensure, ir.Stack))}

    def load(e: Expr) -> Expr:
        if isinstance(e, ir.Load) and e.pointer in at:
            base, offset = at[e.pointer]
            return ir.Load(base, ir.add(offset, e.index), e.type)
        return e

    def there(e: Expr) -> Expr:
        return rewritten(e, load) if any(x.pointer in at for x in loads_in(e)) else e

    def go(s: ir.Stmt) -> ir.Stmt:
        s = (s.map_exprs(there) if at else s).map_bodies(lambda inside: _placed(inside, at))
        if isinstance(s, ir.Store) and s.pointer in at:
            base, offset = at[s.pointer]
            return replace(s, pointer=base, index=ir.add(offset, s.index))
        return s

    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Pointer) and s.base is not None and s.base not in own:
            base, offset = at.get(s.base, (s.base, ir.ZERO))
            at[s.name] = base, ir.add(offset, there(s.offset))
        else:
            out.append(go(s))
    return out


def _straight(body: list[ir.Stmt], folds: Set[str], inside: Inside) -> list[ir.Stmt]:
    """The statements with both sides computed of branches that only compute scalars, which may differ by lane."""
    out: list[ir.Stmt] = []
    for s in body:
        match s:
            case ir.For(body=inner):
                out.append(replace(s, body=additions(_straight(inner, folds, inside), folds)))
            case ir.If(cond, then, orelse):
                yes, no = [_settled(_straight(side, folds, inside)) for side in (then, orelse)]
                out += _both(cond, yes, no, inside) or [ir.If(cond, yes, no)]
            case _:
                out.append(s)
    return out


def _settled(body: list[ir.Stmt]) -> list[ir.Stmt]:
    """The statements with what is declared without a value and set once, by a branch that is none any more, declared
    where it is set."""
    if not any(isinstance(s, ir.Assign) for s in body):
        return body
    sets = Counter(n for s in statements(body) for n in s.assigns())
    here = {s.name for s in body if isinstance(s, ir.Assign) and sets[s.name] == 1}
    late = {s.name: s.type for s in body if isinstance(s, ir.Decl) and s.init is None and s.name in here}
    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Assign) and s.name in late:
            out.append(ir.Decl(s.name, late[s.name], s.value))
        elif not (isinstance(s, ir.Decl) and s.name in late):
            out.append(s)
    return out


def _both(cond: Expr, then: list[ir.Stmt], orelse: list[ir.Stmt], inside: Inside) -> list[ir.Stmt] | None:
    """Both sides, and then what each assigns by choice; None if a side does more than that.  What is assigned are the
    branch's results, which nothing in it reads; and what may fail is checked by a statement before it."""
    made: list[ir.Stmt] = []
    values: list[dict[str, Expr]] = []
    for side in (then, orelse):
        set_: dict[str, Expr] = {}
        for s in side:
            if not READS_NOTHING(all(map(inside, loads_in(s)))):
                return None
            if isinstance(s, ir.Decl) and s.init is not None and not s.mutable:
                made.append(s)
            elif isinstance(s, ir.Assign):
                set_[s.name] = s.value
            else:
                return None
        values.append(set_)
    yes, no = values
    if yes.keys() != no.keys():
        return None
    LEGAL.fired()
    chosen = [
        ir.Assign(name, e if e == no[name] else ir.Scalar("select", (cond, e, no[name]), e.type, e.type))
        for name, e in yes.items()
    ]
    return [*made, *chosen]


def additions(body: list[ir.Stmt], folds: Set[str]) -> list[ir.Stmt]:
    """`x = p[i]; t = x + e; p[i] = t`, where nothing else mentions x and t, as the addition to memory that it is, for
    pointers p to such arrays; in branches, too."""
    if not any(isinstance(s, ir.Store) and s.pointer in folds for s in statements(body)):
        return body
    uses = Counter(name for s in statements(body) for name in s.uses())
    made: dict[str, tuple[int, Expr]] = {}  # by variable: where it is declared, and as what
    written: dict[str, int] = {}  # by pointer or variable: where last
    since = -1  # the last statement that is no such declaration
    gone: set[str] = set()
    out: list[ir.Stmt] = []
    for k, s in enumerate(body):
        if isinstance(s, ir.Decl) and not s.mutable and s.init is not None:
            made[s.name] = k, s.init
            out.append(s)
            continue
        if isinstance(s, ir.Store) and s.pointer in folds and s.op is None and isinstance(s.value, Ref):
            at, total = made.get(s.value.name, (-1, s.value))
            terms = total.args if isinstance(total, ir.Scalar) and total.op == "add" else ()
            for old, e in zip(terms, terms[::-1], strict=True):
                if not isinstance(old, Ref) or old.name not in made:
                    continue
                read, was = made[old.name]
                there = THE_ELEMENT(was == ir.Load(s.pointer, s.index, total.type))
                last = max(written.get(name, -1) for name in (s.pointer, *refs(s.index)))
                same = there and NOT_WRITTEN(last < read) and NOTHING_SINCE(since < at)
                if same and UNSEEN(uses[old.name] == uses[s.value.name] == 1):
                    LEGAL.fired()
                    gone |= {old.name, s.value.name}
                    s = ir.Store(s.pointer, s.index, e, "add")
                    break
        elif isinstance(s, ir.If):
            s = s.map_bodies(lambda inside: additions(inside, folds))
        since = k
        written |= {name: k for t in statements([s]) for name in (*t.writes(), *t.assigns())}
        out.append(s)
    return [s for s in out if not (isinstance(s, ir.Decl) and s.name in gone)]


def can_fail(e: Expr) -> bool:
    """Whether computing the expression can fail."""
    return any(isinstance(x, ir.Scalar) and OPS[x.op].can_fail and x.type.is_integral for x in parts(e))
