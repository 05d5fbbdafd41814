# ruff: noqa: E501 (programs read better unbroken)
"""Places that are the same one twice: gathers whose adjoints meet, additions and extrema at data's places, rows that are
read and written where others are, slices that overlap, all of a vector at one place."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Program
from futad.testing.skeletons.vectors import MAKERS, Vectors, program_of


def _to(g: Gen, i: str) -> str:
    """A place that many i have."""
    return g.c(f"is[{i}]", f"is[is[{i}]]", f"{i} / 2", f"{i} * {i} % n", f"{i} % i64.min 3 n", "0", "n - 1", f"i64.min {i} is[{i}]", f"(is[{i}] + {i}) % n", f"i64.max 0 ({i} - 3)")


def gathered(v: Vectors) -> str:
    g, i = v.g, v.g.name("i")
    parts = [f"{v.array()}[{_to(g, i)}]" for _ in range(g.r.randint(1, 3))]
    w = v.plus(counters=[i])
    body = g.cheap(*parts)
    if g.p(0.3):
        body = f"if {w.test()} then {body} else {v.array()}[{_to(g, i)}]"
    return g.c(f"map (\\{i} -> {body}) (iota n)", f"map (\\{i} -> {g.cheap(*[p.replace(f'is[{i}]', i) for p in parts])}) is")


def added(v: Vectors) -> str:
    """Into bins: sums, products, extrema; of what is gathered, onto what is there."""
    g, i = v.g, v.g.name("i")
    kind = g.r.randrange(6)
    op, neutral = ("(+)", "0")
    if kind == 0:
        op, neutral = g.c(("t.max", "t.lowest"), ("t.min", "t.highest"))
        g.smooth = False
    elif kind == 1:
        op, neutral = "(*)", "1"
    to = f"map (\\{i} -> {_to(g, i)}) (iota n)"
    w = v.plus(counters=[i])
    values = f"map (\\{i} -> {w.number(f'{v.array()}[{_to(g, i)}]')}) (iota n)"
    start = g.c(f"(copy {v.array()})", f"(replicate n {neutral})") if op == "(+)" else f"(copy {v.array()})"
    out = f"reduce_by_index {start} {op} {neutral} ({to}) ({values})"
    return f"map small ({out})" if op == "(*)" else out


def stored(v: Vectors) -> str:
    """A loop that writes, adds and swaps at places that come again."""
    g = v.g
    a, i, e = g.name("a"), g.name("i"), g.name("e")
    w = v.plus(a, counters=[i])
    steps = ""
    for _ in range(g.r.randint(1, 3)):
        p, q = _to(g, i), _to(g, i)
        k = g.r.randrange(5)
        if k == 0:
            steps += f"let {a} = {a} with [{p}] = {g.cheap(f'{a}[{p}]', f'{v.array()}[{i}]')} in "
        elif k == 1:
            f = g.name("e")
            steps += f"let ({e}, {f}) = ({a}[{p}], {a}[{q}]) in let {a} = {a} with [{p}] = {f} in let {a} = {a} with [{q}] = {g.c(e, f'small ({e} + 0.5 * {f})')} in "
        elif k == 2:
            steps += f"let {a} = if {w.test()} then {a} with [{p}] = {w.number()} else {a} with [{q}] = {a}[{p}] in "
        elif k == 3:
            steps += f"let {e} = {a}[{p}] in let {a} = {a} with [{q}] = {g.cheap(e, f'{a}[{q}]')} in "
        else:
            steps += f"let {a} = {a} with [{p}] = small ({a}[{p}] + {v.array()}[{_to(g, i)}]) in "
    head, first = g.counted(i, "n")
    return f"loop ({a}: *[n]t) = copy {v.array()} {head} {first}{steps}{a}"


def sliced(v: Vectors) -> str:
    """Short slices written and read where others overlap them."""
    g = v.g
    a, i, lo, hi = g.name("a"), g.name("i"), g.name("lo"), g.name("hi")
    h = g.c(2, 3)
    x, y = g.name("x"), g.name("x")
    at = f"i64.min (n - {h}) ({_to(g, i)})"
    source = f"({a}[{hi}:{hi} + {h}] :> [{h}]t)"
    value = g.c(f"copy {source}", f"map (\\{x} -> {g.cheap(x)}) {source}", f"map2 (\\{x} {y} -> {g.cheap(x, y)}) {source} ({v.array()}[{lo}:{lo} + {h}] :> [{h}]t)", f"copy (reverse {source})")
    step = f"let {lo} = {at} in let {hi} = {f'i64.min (n - {h}) ({_to(g, i)})'} in {a} with [{lo}:{lo} + {h}] = {value}"
    return f"if n < {h} then {v.array()} else loop ({a}: *[n]t) = copy {v.array()} for {i} < n do {step}"


def scattered(v: Vectors) -> str:
    """The same value at a place however often it is written; places far out."""
    g, i = v.g, v.g.name("i")
    p = g.c(f"is[{i}]", f"{i} / 2", f"{i} % i64.min 3 n", "0", "n - 1", f"is[{i}] - 1", f"{i} / 3 * 2")
    e = g.name("e")
    value = f"map (\\{i} -> let {e} = {p} in {g.c(f't.i64 {e} * 0.1', f'{v.array()}[i64.max 0 (i64.min (n - 1) {e})]', g.number())}) (iota n)"
    return f"scatter (copy {v.array()}) (map (\\{i} -> {p}) (iota n)) ({value})"


def rowwise(v: Vectors) -> str:
    """Rows of a matrix gathered, added to and written at places that come again."""
    g = v.g
    m, i, r, d, x = g.name("m"), g.name("i"), g.name("r"), g.c(1, 2, 3), g.name("x")
    made = f"map (\\{x} -> tabulate {d} (\\j -> {x} * (1 + t.i64 j * 0.3))) {v.array()}"
    kind = g.r.randrange(4)
    if kind == 0:
        use = f"map (\\{i} -> let {r} = {m}[{_to(g, i)}] in t.sum {r} - {r}[is[{i}] % {d}]) (iota n)"
        return f"let {m} = {made} in {use}"
    if kind == 1:
        step = f"{m} with [{_to(g, i)}] = {g.c('copy', 'map small')} {m}[{_to(g, i)}]"
        made_again = f"loop ({m}: *[n][{d}]t) = {made} for {i} < n do {step}"
    elif kind == 2:
        step = f"{m} with [{_to(g, i)}, is[{i}] % {d}] = small ({m}[{_to(g, i)}, {i} % {d}] + {v.array()}[{i}])"
        made_again = f"loop ({m}: *[n][{d}]t) = {made} for {i} < n do {step}"
    else:
        made_again = f"reduce_by_index ({made}) (map2 (+)) (replicate {d} 0) (map (\\{i} -> {_to(g, i)}) (iota n)) ({made})"
    return f"let {m} = {made_again} in map (\\{r} -> small (t.sum {r}) + {r}[{d - 1}]) {m}"


def paired(v: Vectors) -> str:
    """Two indices of a plane, of which many are equal."""
    g = v.g
    m, i, j = g.name("m"), g.name("i"), g.name("j")
    value = f"map (\\{i} -> {v.plus(counters=[i]).number(f'{v.array()}[{i}]')}) (iota n)"
    made = f"reduce_by_index_2d (replicate n (replicate 2 0)) (+) 0 (map (\\{i} -> ({_to(g, i)}, is[{i}] % {g.c(2, 3)})) (iota n)) ({value})"
    return f"let {m} = {made} in map (\\{j} -> small ({m}[{j}, 0] - {m}[{_to(g, j)}, 1])) (iota n)"


MAKERS["duplicates"] = (gathered, gathered, added, added, stored, stored, sliced, scattered, rowwise, paired)


def duplicates(g: Gen) -> Program:
    return program_of(g, "duplicates")


FAMILIES = [duplicates]
