# ruff: noqa: E501 (programs read better unbroken)
"""Masks: elements that conditions choose, in maps, loops and folds; loops of a map whose iterations stop apart; what is
written, added or kept where a condition holds."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Program
from futad.testing.skeletons.vectors import MAKERS, Vectors, program_of


def _value(w: Vectors, xs: list[str], depth: int) -> str:
    """A number by nested conditions, some of them with bindings and loops inside."""
    g = w.g
    k = g.r.randrange(7)
    if depth <= 0 or k == 0:
        return w.number(g.c(*xs))
    if k <= 3:
        return f"(if {w.test(*xs)} then {_value(w, xs, depth - 1)} else {_value(w, xs, depth - 1)})"
    if k == 4:
        e = g.name("e")
        return f"(let {e} = {w.number(*xs)} in if {w.test(e)} then {_value(w.plus(), [*xs, e], depth - 1)} else {e})"
    if k == 5:
        return f"({w.number(*xs)} * t.bool ({w.test(*xs)} && {w.test(*xs)}))"
    return f"({repeated(w, xs)})"


def repeated(w: Vectors, xs: list[str]) -> str:
    """A loop inside of an iteration, whose end depends on the iteration."""
    g = w.g
    e, j = g.name("e"), g.name("j")
    i = g.c(*w.counters) if w.counters else None
    step = g.cheap(e, *xs[:1], sharp=0)
    if g.p(0.4):
        step = f"if {w.test(e)} then {step} else {g.number()} * {e}"
    start = g.c(*xs, g.number())
    if i is not None and g.p(0.5):
        most = g.c(f"{i} % 4", f"is[{i}] % 3", f"i64.min {i} 5", f"if {w.test()} then 3 else 0")
        return f"loop {e} = {start} for {j} < {most} do small ({step} + t.i64 {j} * 0.1)"
    g.smooth = False
    stop = g.c(f"{j} < 6 && t.abs {e} > 0.2345", f"{j} < 4 && {e} < 0.8123", f"t.abs {e} > 0.1357 && {j} < 9")
    return f"(loop ({e}, {j}) = ({start}, 0i32) while {stop} do (small (0.9 * {step}), {j} + 1)).0"


def chosen(v: Vectors) -> str:
    return v.over(lambda w, xs: _value(w, xs, v.g.r.randint(1, 3)))


def masked(v: Vectors) -> str:
    """By an array of bools, of integers or of what a comparison gives."""
    g = v.g
    m, x, y = g.name("m"), g.name("x"), g.name("x")
    head = v.over(lambda w, xs: w.test(*xs))
    use = g.c(
        f"map3 (\\{m} {x} {y} -> if {m} then {g.cheap(x)} else {g.cheap(x, y)})", f"map3 (\\{m} {x} {y} -> t.bool {m} * {x} + t.bool (!{m}) * {y})",
        f"map3 (\\{m} {x} {y} -> if {m} && {y} > {x} then {y} else 0)", f"map3 (\\{m} {x} {y} -> {x} - {y} * t.i32 (i32.bool {m}))",
    )  # fmt: skip
    g.smooth = False
    return f"let {m} : [n]bool = {head} in {use} {m} {v.view()} {v.view()}"


def kept(v: Vectors) -> str:
    """What a filter keeps, folded or put back where it was."""
    g = v.g
    q, k, x, i, c = g.name("k"), g.name("n"), g.name("x"), g.name("i"), g.name("c")
    g.smooth = False
    keep = f"filter (\\{x} -> {g.c(f'{x} > 0.1234', f'{x} < 0.5077 || {x} > 1.3', f't.abs {x} < 0.6531')}) {v.view()}"
    if g.p(0.4):
        y = g.name("x")
        total = g.c(f"t.sum (map (\\{x} -> {g.cheap(x)}) {q})", f"t.maximum (map small {q} ++ [0.1])", f"t.i64 (length {q}) * 0.1", f"t.sum (map2 (\\{x} {i} -> {x} * t.i64 ({i} % 3)) {q} (indices {q}))")
        return f"let {q} = {keep} in let {c} = {total} in map (\\{y} -> {g.cheap(y, f'small {c}')}) {v.array()}"
    w = v.plus(counters=[i])
    where = f"filter (\\{i} -> {w.test(f'{v.array()}[{i}]')}) (iota n)"
    value = f"map (\\{i} -> {w.number(f'{v.array()}[{i}]')}) {k}"
    return f"let {k} = {where} in scatter (copy {v.array()}) {k} ({value})"


def written(v: Vectors) -> str:
    """Places that are written where a condition holds: by a loop, or by a scatter to no place else."""
    g = v.g
    a, i, x = g.name("a"), g.name("i"), g.name("x")
    w = v.plus(counters=[i])
    x = f"{v.array()}[{i}]"
    if g.p(0.4):
        to = f"map (\\{i} -> if {w.test(x)} then {g.c(i, f'n - 1 - {i}', f'({i} + 1) % n')} else -1) (iota n)"
        return f"scatter (copy {v.array()}) ({to}) {v.view()}"
    w = w.plus(a)
    step = f"{a} with [{w.place()}] = {w.number(x)}"
    other = g.c(a, a, f"{a} with [{w.place()}] = {w.number(x)}")
    return f"loop ({a}: *[n]t) = copy {v.array()} for {i} < n do if {w.test(x)} then {step} else {other}"


def folded(v: Vectors) -> str:
    """A loop over a vector whose state some iterations leave as it was, or that stops early."""
    g = v.g
    s, c, x, i, y = g.name("s"), g.name("c"), g.name("x"), g.name("i"), g.name("x")
    w = v.plus(scalars=[s], counters=[i])
    a = v.array()
    if g.p(0.5):
        g.smooth = False
        text = f"loop ({s}, {c}) = ({g.number()}, 0i64) for {i} < n do let {x} = {a}[{i}] in if {w.test(x)} then (small ({w.number(x)} + {s}), {c} + 1) else ({s}, {c})"
    else:
        text = f"loop ({s}, {c}) = ({g.number()}, 0) while {c} < n && {g.c(f'{a}[{c}] < 0.9123', f't.abs {s} < 0.8765', f'is[{c}] != {c}')} do (small ({s} + {a}[{c}]), {c} + {g.c('1', '2', f'1 + is[{c}] % 2')})"
        g.smooth = False
    return f"let ({s}, {c}) = {text} in map (\\{y} -> {g.cheap(y, s)} + t.i64 {c} * 0.01) {v.array()}"


def counted(v: Vectors) -> str:
    """Positions by a prefix sum of flags: compaction and expansion by hand."""
    g = v.g
    f, p, i, m = g.name("f"), g.name("p"), g.name("i"), g.name("m")
    w = v.plus(counters=[i])
    a = v.array()
    flags = f"map (\\{i} -> if {w.test(f'{a}[{i}]')} then 1{g.c('i64', 'i64', 'i32')} else 0) (iota n)"
    kind = "i32" if "1i32" in flags else "i64"
    places = f"map2 (\\{f} {p} -> if {f} == 1 then i64.{kind} {p} - 1 else {g.c('-1', 'n')}) {f} (scan (+) 0 {f})"
    back = f"let {m} = scatter (replicate n 0) {p} {v.array()} in map (\\{i} -> {m}[{g.c(i, f'is[{i}]')}]) (iota n)"
    return f"let {f} : [n]{kind} = {flags} in let {p} : [n]i64 = {places} in {back}"


MAKERS["masks"] = (chosen, chosen, chosen, masked, kept, written, folded, counted)


def masks(g: Gen) -> Program:
    return program_of(g, "masks")


FAMILIES = [masks]
