# ruff: noqa: E501 (programs read better unbroken)
"""Layered recurrences: states as rows of arrays that are updated in place, histories, ring buffers."""

from __future__ import annotations

from futad.testing.skeletons.base import Dim, Gen, Param, Program


def stacked(g: Gen) -> Program:
    """A stack of layers with one to three state vectors each, the states rows of arrays [l][d]."""
    many = g.r.randint(1, 3)
    names = ["h", "c", "e"][:many]
    matrices = g.p(0.3)
    iterations: Dim = "n"
    layers = g.c("l", "l", str(g.r.randint(1, 4)))
    d = "d"
    params = [Param("x", ("n", d)), Param("w", (layers if layers == "l" else int(layers), d, d) if matrices else _dims(layers, d))]
    rows = _dims(layers, d)
    params += [Param("s", rows)] if g.p(0.5) or layers == "l" else []
    init = {k: ("copy s" if len(params) > 2 and k == "h" else _fill(g, layers, d)) for k in names}
    state = ", ".join(f"{k}: *[{layers}][{d}]t" for k in names)
    history = g.p(0.6)
    # what a layer makes of its input `u`, its weights and its old states
    lets: list[str] = []
    weigh = "map (\\r -> t.sum (map2 (*) r u)) w[j]" if matrices else f"map2 (\\a b -> {g.mix('a', 'b', sharp=0)}) w[j] u"
    below = f"(if j == 0 then copy x[{g.saved('i', 'n')}] else copy {names[0]}[j - 1]) :> [{d}]t"
    if g.p(0.25):
        below = f"tabulate {d} (\\p -> if j == 0 then x[i, p] else {names[0]}[j - 1, p])"
    lets.append(f"let u : [{d}]t = {below}")
    lets.append(f"let z : [{d}]t = {weigh}")
    olds = {k: f"{k}[j]" for k in names}
    for k in names:
        if g.p(0.3):
            lets.append(f"let {k}o = {g.copied(f'{k}[j]')}")
            olds[k] = f"{k}o"
    news: dict[str, str] = {}
    done: list[str] = []
    updates: list[str] = []
    for k in g.shuffled(names):
        inputs = ["z", olds[k], *[f"{q}v" for q in done]]
        if g.p(0.3):
            inputs.append(olds[g.c(*names)])
        inputs = list(dict.fromkeys(inputs))[:4]
        formals = ["pqrs"[i] for i in range(len(inputs))]
        expr = g.mix(*formals)
        lets.append(f"let {k}v = map{len(inputs) if len(inputs) > 1 else ''} (\\{' '.join(formals)} -> {expr}) {' '.join(map(_arg, inputs))}")
        done.append(k)
        news[k] = f"{k}v"
        updates.append(k)
    place = {k: g.c("j", "j", "j", f"{layers} - 1 - j") for k in names}
    if many > 1 and g.p(0.3):  # one value into two arrays
        a, b = g.r.sample(names, 2)
        news[a] = news[b]
    inner = "\n        ".join(x + " in" for x in lets)
    outs = ", ".join(f"{k} with [{place[k]}] = {g.copied(news[k]) if g.p(0.3) else news[k]}" for k in names)
    one = outs if many > 1 else outs
    head, first = g.counted("j", layers, 0.15)
    loop = f"loop ({state}) = ({', '.join(names)}) {head}\n        {first}{inner}\n        ({one})"
    last = f"{layers} - 1" if layers != "l" else "l - 1"
    row = f"(if {layers} == 0 then replicate {d} 0.1 else copy {names[-1]}[{last}]) :> [{d}]t" if layers == "l" else f"{names[-1]}[{last}]"
    if history:
        at = g.saved("i", "n")
        body = (f"  loop ({state}, ys: *[n][{d}]t) = ({', '.join(init[k] for k in names)}, replicate n (replicate {d} 0)) for i < {iterations} do\n"
                f"    let ({', '.join(names)}) : ({', '.join(f'*[{layers}][{d}]t' for _ in names)}) =\n      {loop} in\n"
                f"    let row : [{d}]t = {row} in\n"
                f"    ({', '.join(names)}, ys with [{at}] = row)")  # fmt: skip
        return g.program("stacked", params, [rows] * many + [("n", d)], body)
    body = (f"  loop ({state}) = ({', '.join(init[k] for k in names)}) for i < {iterations} do\n      {loop}")
    return g.program("stacked", params, [rows] * many, body)


def _dims(layers: str, d: str) -> tuple[Dim, ...]:
    return (int(layers) if layers.isdigit() else layers, d)


def _fill(g: Gen, layers: str, d: str) -> str:
    return g.c(f"replicate {layers} (replicate {d} {g.number()})",
               f"tabulate_2d {layers} {d} (\\p q -> 0.1 * t.i64 (p + 2 * q))")  # fmt: skip


def _arg(x: str) -> str:
    return x


def packed(g: Gen) -> Program:
    """States of all layers in one array: as rows [2 * l], as [l][2][d], or flat with slices."""
    kind = g.c("rows", "planes", "flat", "words")
    upd = [g.mix("p", "q", "r"), g.mix("p", "q", "r")]
    params = [Param("x", ("n", "d")), Param("w", ("l", "d"))]
    if kind == "rows":
        order = g.shuffled([0, 1])
        where = {0: g.c("j", "2 * j"), 1: ""}
        where[1] = "l + j" if where[0] == "j" else "2 * j + 1"
        prev = "j - 1" if where[0] == "j" else "2 * j - 2"
        lets = [f"let u = (if j == 0 then copy x[{g.at('i', 'n')}] else copy s[{prev}]) :> [d]t"]
        between = g.p(0.5)
        first = f"let v{order[0]} = map3 (\\p q r -> {upd[0]}) u s[{where[order[0]]}] w[j]"
        again = f"s[{where[order[0]]}]" if between else f"v{order[0]}"
        second = f"let v{order[1]} = map3 (\\p q r -> {upd[1]}) s[{where[order[1]]}] {again} u"
        if between:
            lets += [first, f"let s = s with [{where[order[0]]}] = v{order[0]}", second, f"let s = s with [{where[order[1]]}] = v{order[1]}"]
        else:
            lets += [first, second] + [f"let s = s with [{where[q]}] = v{q}" for q in g.shuffled([0, 1])]
        body = (f"  loop (s: *[l + l][d]t) = replicate (l + l) (replicate d {g.number()}) for i < n do\n"
                f"    loop (s: *[l + l][d]t) = s for j < l do\n      " + "\n      ".join(x + " in" for x in lets) + "\n      s")  # fmt: skip
        body = f"  let s : [l + l][d]t =\n{body}\n  in (t.sum (flatten s), s[:l] :> [l][d]t, s[l:] :> [l][d]t)"
        return g.program("packed", params, [(), ("l", "d"), ("l", "d")], body)
    if kind == "planes":
        parts = g.r.randint(2, 4)
        lets = ["let u = (if j == 0 then copy x[i] else copy s[j - 1, 0]) :> [d]t"]
        for k in g.shuffled(range(parts)):
            src = g.r.randrange(parts)
            lets.append(f"let s = s with [j, {k}] = map3 (\\p q r -> {g.mix('p', 'q', 'r')}) {g.c('u', 'w[j]')} s[j, {src}] s[j, {k}]")
        body = (f"  loop (s: *[l][{parts}][d]t) = tabulate_3d l {parts} d (\\a b c -> 0.1 * t.i64 (a + b - c)) for i < n do\n"
                f"    loop (s: *[l][{parts}][d]t) = s for j < l do\n      " + "\n      ".join(x + " in" for x in lets) + "\n      s")  # fmt: skip
        return g.program("packed", params, [("l", parts, "d")], body)
    if kind == "flat":
        lets = ["let u = (if j == 0 then copy x[i] else copy s[(j - 1) * d:j * d]) :> [d]t",
                f"let o = {g.copied('s[j * d:(j + 1) * d]')} :> [d]t",
                f"let v = map3 (\\p q r -> {upd[0]}) u o w[j]"]  # fmt: skip
        put = "s with [j * d:(j + 1) * d] = v"
        if g.p(0.4):
            put = "loop (s: *[l * d]t) = s for p < d do s with [j * d + p] = v[p]"
        body = (f"  loop (s: *[l * d]t) = replicate (l * d) {g.number()} for i < n do\n"
                f"    loop (s: *[l * d]t) = s for j < l do\n      " + "\n      ".join(x + " in" for x in lets) + f"\n      {put}")  # fmt: skip
        return g.program("packed", params, [("l", "d")], f"  unflatten (\n{body})")
    # single elements of rows, one after the other
    body = (f"  loop (s: *[l][d]t) = copy w for i < n do\n    loop (s: *[l][d]t) = s for j < l do\n"
            f"      loop (s: *[l][d]t) = s for p < d do\n"
            f"        let a = if j == 0 then x[i, {g.at('p', 'd')}] else s[j - 1, {g.at('p', 'd')}] in\n"
            f"        s with [j, {g.c('p', 'p', 'd - 1 - p')}] = {g.mix('a', 's[j, p]', g.c('w[j, p]', 's[j, ' + g.at('p', 'd') + ']'))}")  # fmt: skip
    return g.program("packed", params, [("l", "d")], body)


def twice(g: Gen) -> Program:
    """A value that is written into several arrays, at different places, and read from them again."""
    many = g.r.randint(2, 3)
    names = ["a", "b", "c"][:many]
    row = g.p(0.7)
    shape: tuple[Dim, ...] = ("l", "d") if row else ("l",)
    ty = "".join(f"[{s}]" for s in shape) + "t"
    state = ", ".join(f"{k}: *{ty}" for k in names)
    reads = []
    for k in names:
        if g.p(0.5):
            reads.append(f"{k}[{g.at('j', 'l')}]")
    reads = reads[:2]
    formals = ["p", "q", "r"][: 1 + len(reads)]
    f = g.mix(*formals)
    src = f"x[{g.at('j', 'l')}]"
    value = f"map{len(formals) if len(formals) > 1 else ''} (\\{' '.join(formals)} -> {f}) {' '.join([src, *reads])}"
    if not row:
        value = f"(\\{' '.join(formals)} -> {f}) {' '.join([src, *reads])}"
    lets = [f"let v = {value}"]
    if g.p(0.3):
        lets.append("let u = " + g.c("copy v", f"map (\\z -> {g.mix('z')}) v", "v") if row else f"let u = {g.mix('v')}")
    else:
        lets.append("let u = v")
    outs = []
    for k in names:
        at = g.c("j", "j", "l - 1 - j", "(j + 1) % l")
        outs.append(f"{k} with [{at}] = {g.c('v', 'v', 'u')}")
    inits = [g.c(f"replicate l (replicate d {g.number()})" if row else f"replicate l {g.number()}", "copy x") for _ in names]
    body = (f"  loop ({state}) = ({', '.join(inits)}) for i < {g.c('1', '2', 'l')} do\n  loop ({state}) = ({', '.join(names)}) for j < l do\n    "
            + "\n    ".join(x + " in" for x in lets) + f"\n    ({', '.join(outs)})")  # fmt: skip
    return g.program("twice", [Param("x", shape)], [shape] * many, body)


def ring(g: Gen) -> Program:
    """A scalar or vector recurrence with a ring buffer of the last values, and a history."""
    k = g.r.randint(1, 4)
    vector = g.p(0.5)
    lag = g.r.randint(0, k)
    old = f"r[(i + {lag}) % {k}]"
    if vector:
        f = g.mix("p", "q", "o")
        value = f"map3 (\\p q o -> {f}) x[i] {old} r[i % {k}]"
        body = (f"  loop (r: *[{k}][d]t, ys: *[n][d]t) = (replicate {k} (replicate d {g.number()}), replicate n (replicate d 0)) for i < n do\n"
                f"    let v = {value} in\n    (r with [i % {k}] = {g.c('v', 'copy v')}, ys with [{g.saved('i', 'n')}] = v)")  # fmt: skip
        return g.program("ring", [Param("x", ("n", "d"))], [(k, "d"), ("n", "d")], body)
    f = g.mix("x[i]", old, "s")
    extra = g.c("s", f"r[(i + 1) % {k}] * w[i % {k}]")
    body = (f"  loop (s, r: *[{k}]t, ys: *[n]t) = ({g.number()}, copy w, replicate n 0) for i < n do\n"
            f"    let v = {f} in\n    let e = {extra} in\n"
            f"    ({g.mix('v', 'e')}, r with [i % {k}] = v, ys with [{g.saved('i', 'n')}] = {g.c('v', 'e', 'v + e')})")  # fmt: skip
    return g.program("ring", [Param("x", ("n",)), Param("w", (k,))], [(), (k,), ("n",)], body)


def both_ways(g: Gen) -> Program:
    """Two recurrences in opposite directions over the same input, their histories combined."""
    f, b = g.mix("p", "q", "w"), g.mix("p", "q", "w")
    one = (f"loop (h, hs: *[n][d]t) = (replicate d {g.number()}, replicate n (replicate d 0)) for i < n do\n"
           f"      let h = map3 (\\p q w -> {f}) x[i] h v in (h, hs with [i] = h)")  # fmt: skip
    two = (f"loop (h, hs: *[n][d]t) = (replicate d {g.number()}, {g.c('replicate n (replicate d 0)', 'copy x')}) for q < n do\n"
           f"      let i = n - 1 - q in\n      let h = map3 (\\p q w -> {b}) {g.c('x[i]', 'hs[i]')} h v in (h, hs with [i] = {g.copied('h')})")  # fmt: skip
    if g.p(0.4):  # the second over what the first made
        two = two.replace("x[i]", "fs[i]").replace("copy x", "copy fs")
    body = (f"  let (e, fs) : ([d]t, [n][d]t) =\n    {one} in\n  let (o, bs) : ([d]t, [n][d]t) =\n    {two} in\n"
            f"  (map2 (+) e o, map2 (map2 (\\p q -> {g.mix('p', 'q')})) fs {g.c('bs', '(reverse bs)')})")  # fmt: skip
    return g.program("both_ways", [Param("x", ("n", "d")), Param("v", ("d",))], [("d",), ("n", "d")], body)


FAMILIES = [stacked, packed, twice, ring, both_ways]
