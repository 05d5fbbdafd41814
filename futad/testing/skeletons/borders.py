# ruff: noqa: E501 (programs read better unbroken)
"""Neighbours near the ends: reads that conditions guard, in all ways such conditions are written, indices clamped,
mirrored or taken around; sweeps in place, steps in time with two arrays; numbers clamped to ranges."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Program
from futad.testing.skeletons.vectors import MAKERS, Vectors, program_of


def _guarded(g: Gen, a: str, i: str, k: int, other: str, below: bool = True) -> str:
    """a[i + k] if there is one, else something else; `below`: i is an index itself."""
    at = f"{i} + {k}" if k > 0 else f"{i} - {-k}" if k < 0 else i
    low = g.c(f"{at} >= 0", f"{i} >= {-k}", f"{i} > {-k - 1}", f"!({at} < 0)")
    high = g.c(f"{at} < n", f"{i} < n - {k}" if k >= 0 else f"{i} < n + {-k}", f"{at} <= n - 1")
    need = low if below and k < 0 and g.p(0.6) else high if below and k > 0 and g.p(0.6) else g.c(f"{low} && {high}", f"{high} && {low}")
    if g.p(0.3):
        out = g.c(f"{at} < 0 || {at} >= n", f"{at} >= n || {at} < 0")
        return f"(if {out} then {other} else {a}[{at}])"
    return f"(if {need} then {a}[{at}] else {other})"


def _near(g: Gen, a: str, i: str) -> str:
    """An element near the i-th, whatever i is."""
    k = g.c(-1, 1, -1, 1, -2, 2, 3, -5, 8, 0)
    at = f"{i} + {k}" if k >= 0 else f"{i} - {-k}"
    return g.c(
        *[_guarded(g, a, i, k, g.c("0", g.number(), f"{a}[{i}]", f"{a}[n - 1]", f"{a}[0]"))] * 4,
        f"{a}[{clamped(g, at)}]", f"{a}[{clamped(g, at)}]", f"{a}[({at} + 2 * n) % n]" if abs(k) < 3 else f"{a}[({at}) %% n]" if k > 0 else f"{a}[({at} + 8 * n) % n]",
    )  # fmt: skip


def clamped(g: Gen, at: str) -> str:
    """An index below n from any index: clamped to the range, or mirrored at its ends."""
    last = "(n - 1)"
    return g.c(
        f"i64.max 0 (i64.min {last} ({at}))", f"i64.min (i64.max ({at}) 0) {last}", f"i64.min {last} (i64.max 0 ({at}))",
        f"if {at} < 0 then 0 else if {at} >= n then n - 1 else {at}", f"i64.max 0 (i64.min ({at}) {last})",
        f"i64.min {last} (i64.abs ({at}))", f"i64.max 0 (n - 1 - i64.abs (n - 1 - ({at})))",
    )  # fmt: skip


def stencil(v: Vectors) -> str:
    """A map over the places, each with some neighbours."""
    g = v.g
    i = g.name("i")
    near = [_near(g, v.array(), i) for _ in range(g.r.randint(1, 3))]
    inner = g.cheap(*near, *[f"{v.array()}[{i}]"][: g.r.randrange(2)])
    k = g.r.randrange(5)
    if k == 0:  # the inner ones apart
        inner = f"if {i} > 0 && {i} < n - 1 then {g.cheap(f'{v.array()}[{i} - 1]', f'{v.array()}[{i} + 1]')} else {inner}"
    elif k == 1:
        inner = f"if {i} == 0 then {g.cheap(near[0])} else if {i} == n - 1 then {g.number()} else {g.cheap(f'{v.array()}[{i} - 1]', near[-1])}"
    elif k == 2:
        inner = f"if {g.c(f'{i} < 2 || {i} + 2 >= n', f'{i} == 0 || {i} == n - 1', f'!({i} >= 1 && {i} + 1 < n)')} then {v.array()}[{i}] else {inner}"
    return g.c(f"map (\\{i} -> {inner}) (iota n)", f"tabulate n (\\{i} -> {inner})")


def steps(v: Vectors) -> str:
    """Steps in time: two arrays that change places, or one that is new each time."""
    g = v.g
    a, b, i, q, x = g.name("a"), g.name("b"), g.name("i"), g.name("q"), g.name("x")
    new = f"tabulate n (\\{i} -> {g.cheap(_near(g, a, i), _near(g, g.c(a, a, v.array()), i))})"
    count = g.c("2", "3", "n / 2")
    if g.p(0.5):
        return f"loop {a} = {v.array()} for {q} < {count} do {new}"
    also = f"map2 (\\{x} {i} -> {g.cheap(x, _near(g, a, i))}) {b} (iota n)"
    return f"(loop ({a}, {b}) = ({v.array()}, {v.array()}) for {q} < {count} do ({g.c(b, new)}, {g.c(a, also, new)})).{g.c(0, 1)}"


def sweep(v: Vectors) -> str:
    """One array, in place, from one end to the other, with the neighbours as they are by then."""
    g = v.g
    a, i = g.name("a"), g.name("i")
    value = g.cheap(f"{a}[{i}]", _near(g, a, i), *[_near(g, v.array(), i)][: g.r.randrange(2)])
    place = g.c(i, i, f"({clamped(g, f'{i} + {g.c(1, 2)}')})")
    step = f"{a} with [{place}] = small ({value})"
    if g.p(0.3):
        step = f"if {g.c(f'{i} > 0', f'{i} < n - 1', f'{i} % 2 == 1')} then {step} else {a}"
    head, first = g.counted(i, "n", 0.4)
    return f"loop ({a}: *[n]t) = copy {v.array()} {head} {first}{step}"


def windows(v: Vectors) -> str:
    """Sums over windows with what is outside left out; slices between clamped ends."""
    g = v.g
    i, j, k = g.name("i"), g.name("j"), g.c(1, 2, 3)
    a = v.array()
    kind = g.r.randrange(4)
    if kind == 0:
        lo, hi = g.name("lo"), g.name("hi")
        return f"map (\\{i} -> let {lo} = i64.max 0 ({i} - {k}) in let {hi} = i64.min n ({i} + {k} + {g.c(0, 1)}) in small (t.sum {a}[{lo}:{hi}])) (iota n)"
    if kind == 1:
        return f"map (\\{i} -> small (t.sum (map (\\{j} -> {_guarded(g, a, f'({i} + {j})', g.c(-1, -2, 1), '0', False)}) (iota {k + 2})))) (iota n)"
    if kind == 2:
        s = g.name("s")
        return f"map (\\{i} -> loop {s} = {g.number()} for {j} < {2 * k + 1} do small ({s} + {a}[{clamped(g, f'{i} + {j} - {k}')}] * {g.c(g.number(), f't.i64 {j} * 0.3')})) (iota n)"
    h = f"i64.min {k} n"
    return g.c(f"({a}[{h}:] ++ {a}[:{h}] :> [n]t)", f"(replicate ({h}) {g.number()} ++ {a}[:n - {h}] :> [n]t)", f"(map small {a}[:n - {h}] ++ reverse {a}[n - {h}:] :> [n]t)")


def planes(v: Vectors) -> str:
    """Places of a plane of n rows and few columns, with neighbours both ways."""
    g = v.g
    m, i, j, r, k = g.name("m"), g.name("i"), g.name("j"), g.name("r"), g.c(2, 3, 4)
    a = v.array()
    made = f"tabulate_2d n {k} (\\{i} {j} -> {a}[{i}] * (1 + t.i64 {j} * 0.2))"
    di, dj = g.c((-1, 0), (0, 1), (1, 1), (1, -1), (-1, -1), (0, -1))
    at = f"[{i} + {di}, {j} + {dj}]".replace("+ -", "- ")
    inside = [f"{i} + {di} >= 0", f"{i} + {di} < n", f"{j} + {dj} >= 0", f"{j} + {dj} < {k}"]
    if g.p(0.5):
        need = [t for t, d in zip(inside, (di < 0, di > 0, dj < 0, dj > 0), strict=True) if d]
    else:
        need = g.shuffled(inside)
    test = " && ".join(need).replace("+ -", "- ")
    body = f"if {test} then {g.cheap(f'{m}{at}', f'{m}[{i}, {j}]')} else {g.c('0', f'{m}[{i}, {j}]', g.number())}"
    if g.p(0.3):
        body = f"{m}[{clamped(g, f'{i} + {di}')}, i64.max 0 (i64.min {k - 1} ({j} + {dj}))] + 0.5 * ({body})".replace("+ -", "- ")
    ends = g.c(f"map t.sum {r}", f"map (\\{j} -> {j}[{k - 1}]) {r}", f"map (\\{j} -> {j}[0] - {j}[1]) {r}")
    return f"let {m} = {made} in let {r} = tabulate_2d n {k} (\\{i} {j} -> {body}) in {ends}"


def ranged(v: Vectors) -> str:
    """Numbers clamped to ranges, by minima and maxima and by conditions; integers saturated."""
    g = v.g
    g.smooth = False

    def clamp(x: str) -> str:
        lo, hi = g.c("(-0.5123)", "(-0.2345)", "0.0123"), g.c("0.5321", "0.8765")
        return g.c(
            f"t.max {lo} (t.min {hi} {x})", f"t.min {hi} (t.max {x} {lo})", f"(if {x} < {lo} then {lo} else if {x} > {hi} then {hi} else {x})",
            f"(if {x} > {hi} then {hi} else t.max {lo} {x})", f"t.min (t.max {lo} (t.min {x} {hi})) {hi}", f"t.i64 (i64.max (-1) (i64.min 1 (t.to_i64 (2.1357 * {x})))) * {x}",
            f"t.i8 (i8.max (-3) (i8.min 3 (i8.i64 (t.to_i64 (4.1357 * {x}))))) * 0.25", f"({x} - t.max {hi} {x} - t.min {lo} {x})", f"t.max 0 ({x}) - 0.1 * t.max 0 (- {x})",
        )  # fmt: skip

    return v.over(lambda w, xs: clamp(w.number(*xs)) if g.p(0.6) else w.number(*[f"({clamp(x)})" for x in xs]))


def slopes(v: Vectors) -> str:
    """Tables looked up between their entries, at places that are computed and clamped."""
    g = v.g
    x, p, k, a = g.name("x"), g.name("p"), g.name("k"), v.array()
    g.smooth = False
    low = clamped(g, k)
    look = f"let {p} = ({x} + 1.0357) * {g.c('2', 't.i64 n * 0.5')} in let {k} = t.to_i64 (t.floor {p}) in let w = t.max 0 (t.min 1 ({p} - t.i64 {k})) in (1 - w) * {a}[{low}] + w * {a}[{clamped(g, f'{k} + 1')}]"
    return f"map (\\{x} -> {look}) {v.view()}"


MAKERS["borders"] = (stencil, stencil, stencil, steps, steps, sweep, windows, planes)
MAKERS["clamps"] = (ranged, ranged, slopes, sweep, windows)


def borders(g: Gen) -> Program:
    return program_of(g, "borders")


def clamps(g: Gen) -> Program:
    return program_of(g, "clamps")


FAMILIES = [borders, clamps]
