# ruff: noqa: E501 (programs read better unbroken)
"""Loops that hand several arrays over in one iteration: they change places, one is replaced and another is updated, some
may be overwritten and some are what was there before; and branches, functions and loops that give back aliases."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Program
from futad.testing.skeletons.vectors import MAKERS, Vectors, program_of


def _iterations(g: Gen) -> str:
    """Of a loop whose counter is below n; of no iteration if n is 0."""
    return g.c("n", "n", "i64.min 3 n", "n / 2", "i64.min 1 n")


def _element(v: Vectors, own: list[str]) -> str:
    """A number made of elements of these arrays."""
    g = v.g
    return v.number(*[f"{a}[{v.place()}]" for a in g.shuffled(own)[: g.r.randint(1, 2)]])


def handed(v: Vectors) -> str:
    """Arrays that may be overwritten: permuted, with updates in place; new ones between them."""
    g = v.g
    names = [g.name("a") for _ in range(g.r.randint(2, 4))]
    i, s = g.name("i"), g.name("s")
    w = v.plus(*names, scalars=[s], counters=[i])
    steps = ""
    for _ in range(g.r.randint(0, 3)):
        a = g.c(*names)
        k = g.r.randrange(5)
        if k <= 1:
            steps += f"let {a} = {a} with [{w.place()}] = {_element(w, names)} in "
        elif k == 2:
            steps += f"let {a} = if {w.test()} then {a} with [{w.place()}] = {_element(w, names)} else {a} in "
        elif k == 3:
            x, y = g.name("x"), g.name("x")
            steps += f"let {a} = map2 (\\{x} {y} -> {g.cheap(x, y, s)}) {g.c(*names)} {g.c(*names)} in "
        else:
            steps += f"let {s} = {v.g.cheap(s, f'{a}[{w.place()}]')} in "
    out = g.shuffled(names) if g.p(0.7) else list(names)
    for k, a in enumerate(out):
        if g.p(0.25):
            out[k] = f"copy {g.c(*v.arrays)}" if g.p(0.5) else f"copy {a}"
        elif g.p(0.25):
            e = g.name("e")
            steps += f"let {e} = {_element(w, names)} in "
            out[k] = f"{a} with [{w.place()}] = {e}"
    number = f"small {s}" if g.p(0.4) else f"small ({s} + {g.c(*v.arrays)}[{w.place()}])"
    head, first = g.counted(i, _iterations(g))
    starts = ", ".join(f"copy {v.array()}" for _ in names)
    return f"let ({s}, {', '.join(names)}) = loop ({s}: t, {', '.join(f'{a}: *[n]t' for a in names)}) = ({g.number()}, {starts}) {head} {first}{steps}({number}, {', '.join(out)}) in {_used(v, names, s)}"


def _used(v: Vectors, names: list[str], s: str) -> str:
    """A vector made of some of these."""
    g = v.g
    some = g.shuffled(names)[: g.r.randint(1, 3)]
    if g.p(0.3):
        return some[0]
    xs = [g.name("x") for _ in some]
    return f"map{len(xs) if len(xs) > 1 else ''} (\\{' '.join(xs)} -> {g.cheap(*xs, s)}) {' '.join(some)}"


def chosen(v: Vectors, depth: int = 0) -> str:
    """A branch whose sides are arrays that were there, or views of them, or new ones."""
    g = v.g

    def side() -> str:
        k = g.r.randrange(6)
        if k <= 2:
            return v.view()
        if k == 3 and depth < 2:
            return f"({chosen(v, depth + 1)})"
        x = g.name("x")
        return f"map (\\{x} -> {g.cheap(x, *v.scalars[-1:])}) {v.view()}"

    return f"if {v.test()} then {side()} else {side()}"


def passed(v: Vectors) -> str:
    """Arrays that a loop passes on from iteration to iteration as they are: of the outside, of each other, in branches."""
    g = v.g
    names = [g.name("b") for _ in range(g.r.randint(2, 3))]
    c, i, x, y = g.name("a"), g.name("i"), g.name("x"), g.name("x")
    w = v.plus(*names, counters=[i])

    def one() -> str:
        k = g.r.randrange(7)
        if k <= 2:
            return g.c(*names)
        if k <= 4:
            return f"(if {w.test()} then {g.c(*names, *v.arrays)} else {g.c(*names, *v.arrays)})"
        if k == 5:
            return w.view()
        return f"(map2 (\\{x} {y} -> {g.cheap(x, y)}) {g.c(*names)} {w.view()})"

    both = f"({', '.join(one() for _ in names)})"
    if g.p(0.3):
        both = f"if {w.test()} then {both} else ({', '.join(g.shuffled(names))})"
    own = f"{c} with [{w.place()}] = {_element(w, names)}"
    tuple_ = f"({', '.join(names)})"
    starts = ", ".join(v.array() for _ in names)
    ends = f"map2 (\\{x} {y} -> {g.cheap(x, y)}) {names[0]} {g.c(c, names[-1])}"
    return f"let ({c}, {tuple_}) = loop ({c}: *[n]t, {tuple_}: ({', '.join('[n]t' for _ in names)})) = (copy {v.array()}, ({starts})) for {i} < {_iterations(g)} do let {tuple_} = {both} in ({own}, {tuple_}) in {ends}"


def overwritten(v: Vectors) -> str:
    """A branch's alias is copied, then overwritten; what it was an alias of is read afterwards."""
    g = v.g
    a, b, i, x, y = g.name("a"), g.name("c"), g.name("i"), g.name("x"), g.name("x")
    w = v.plus(a, b, counters=[i])
    step = f"{b} with [{w.place()}] = {_element(w, [a, b])}"
    if g.p(0.4):
        step = f"if {w.test()} then {step} else {b}"
    after = f"map2 (\\{x} {y} -> {g.cheap(x, y)}) {g.c(a, v.array())} {b}"
    return f"let {a} = {chosen(v)} in let {b} = loop ({b}: *[n]t) = copy {g.c(a, a, v.array())} for {i} < {_iterations(g)} do {step} in {after}"


def pairs(v: Vectors) -> str:
    """Tuples, records and sums of arrays, twice the same one among them, through branches and functions."""
    g = v.g
    f, a, b, x, y = g.name("pick"), g.name("a"), g.name("a"), g.name("x"), g.name("x")
    k = g.r.randrange(4)
    two, other = (f"({v.array()}, {v.array()})" for _ in "ab")
    if k == 0:
        v.helpers.append(f"def {f}@ [n] (c: bool) (a: [n]t) (b: [n]t) : ([n]t, [n]t) = if c then (a, b) else {g.c('(b, a)', '(b, b)', '(a, a)')}\n")
        text = f"let ({a}, {b}) = {f}@ ({v.test()}) {v.view()} {v.view()} in"
    elif k == 1:
        text = f"let ({a}, {b}) = if {v.test()} then {two} else if {v.test()} then {other} else ({v.view()}, {v.view()}) in"
    elif k == 2:
        q = g.name("q")
        text = f"let {q} : #one ([n]t) | #two ([n]t) ([n]t) = if {v.test()} then #one {v.array()} else #two {v.array()} {v.view()} in let ({a}, {b}) = match {q} case #one u -> (u, {g.c('u', v.array())}) case #two u w -> {g.c('(u, w)', '(w, u)')} in"
    else:
        q = g.name("q")
        text = f"let {q} = if {v.test()} then {{p = {v.array()}, q = {v.array()}}} else {{p = {v.view()}, q = {v.array()}}} in let ({a}, {b}) = ({q}.{g.c('p', 'q')}, {q}.{g.c('p', 'q')}) in"
    return f"{text} map2 (\\{x} {y} -> {g.cheap(x, y)}) {a} {b}"


def inside(v: Vectors) -> str:
    """Rows that a branch in a map picks, as they are or changed in place."""
    g = v.g
    i, r, x = g.name("i"), g.name("r"), g.name("x")
    w = v.plus(counters=[i])
    row = chosen(w)
    w = w.plus(r)
    kind = g.r.randrange(3)
    if kind == 0:
        use = f"{r}[{w.place()}]"
    elif kind == 1:
        c = g.name("c")
        use = f"(let {c} = copy {r} with [{w.place()}] = {_element(w, [r])} in let {c} = {c} with [{w.place()}] = {_element(w, [r, c])} in {c}[{w.place()}] - {r}[{w.place()}])"
    else:
        use = f"small (t.sum (map (\\{x} -> {g.cheap(x)}) {r}))"
    return f"map (\\{i} -> let {r} = {row} in {use}) (iota n)"


MAKERS["handover"] = (handed, handed, handed, passed)
MAKERS["aliases"] = (chosen, passed, overwritten, overwritten, pairs, pairs, inside)


def handover(g: Gen) -> Program:
    return program_of(g, "handover")


def aliases(g: Gen) -> Program:
    return program_of(g, "aliases")


FAMILIES = [handover, aliases]
