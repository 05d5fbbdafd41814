# ruff: noqa: E501 (programs read better unbroken)
"""Arrays of one to three dimensions looked at every way: transposed, backwards, in slices and with strides, flattened,
put together; maps, products, scans and updates in place of what is seen, and derivatives of such functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from futad.testing.skeletons.base import Gen, Param, Program, shape_type

Shape = tuple[str, ...]
PLAIN = ("n", "m", "2", "3")  # dimensions that are not empty


@dataclass(slots=True)
class _Scope:
    """Arrays with their shapes; counters with what they are below; scalars."""

    arrays: list[tuple[str, Shape]]
    counters: list[tuple[str, str]] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)

    def plus(self, name: str, shape: Shape) -> _Scope:
        if shape:
            return replace(self, arrays=[*self.arrays, (name, shape)])
        return replace(self, scalars=[*self.scalars, name])

    def counting(self, name: str, below: str) -> _Scope:
        return replace(self, counters=[*self.counters, (name, below)])


class _Maker:
    def __init__(self, g: Gen) -> None:
        self.g = g

    def index(self, sc: _Scope, d: str) -> str:
        """An index into a dimension that is not empty."""
        own = [k for k, below in sc.counters if below == d]
        any_ = [k for k, _ in sc.counters]
        return self.g.c(*[self.g.at(k, d) for k in own], self.g.other(d, *any_), "0", f"{d} - 1")

    def seen(self, sc: _Scope, x: str, shape: Shape) -> tuple[str, Shape]:
        """One more look at an array: the text and its shape."""
        g, rank = self.g, len(shape)
        a = shape[0]
        if rank == 3 and g.p(0.6):
            a, b, c = shape
            found = [(f"(transpose {x})", (b, a, c)), (f"(map transpose {x})", (a, c, b)), (f"(flatten {x} :> [{a} * {b}][{c}]t)", (f"{a} * {b}", c)), (f"(map flatten {x} :> [{a}][{b} * {c}]t)", (a, f"{b} * {c}"))]
            if b in PLAIN:
                found.append((f"{x}[:, {self.index(sc, b)}]", (a, c)))
            if c in PLAIN:
                found.append((f"{x}[:, :, {self.index(sc, c)}]", (a, b)))
            return g.c(*found)
        if rank == 2 and g.p(0.7):
            b = shape[1]
            found = [(f"(transpose {x})", (b, a)), (f"(transpose {x})", (b, a)), (f"(map reverse {x})", shape), (f"{x}[:, ::-1] :> [{a}][{b}]t", shape)]
            found += [(f"({x}[:, :{b} / 2] :> [{a}][{b} / 2]t)", (a, f"{b} / 2")), (f"({x}[:, ::2] :> [{a}][({b} + 1) / 2]t)", (a, f"({b} + 1) / 2"))] if b in PLAIN else []
            if b in PLAIN:
                found.append((f"{x}[:, {self.index(sc, b)}]", (a,)))
            if " " not in a + b:
                found.append((f"(flatten {x} :> [{a} * {b}]t)", (f"{a} * {b}",)))
            text, out = g.c(*found)
            return f"({text})" if ":>" in text else text, out
        rest, tail = shape[1:], shape_type(shape[1:])
        found = [(f"(reverse {x})", shape), (f"(rotate {g.c('1', '2', '(-1)')} {x})", shape), (f"({x}[::-1] :> [{a}]{tail})", shape)]
        if a in PLAIN:
            h = f"{a} / 2"
            found += [(f"({x}[:{h}] :> [{h}]{tail})", (h, *rest)), (f"({x}[{a} - {h}:] :> [{h}]{tail})", (h, *rest)), (f"({x}[::2] :> [({a} + 1) / 2]{tail})", (f"({a} + 1) / 2", *rest)),
                      (f"({x}[{a} - 1::-2] :> [({a} + 1) / 2]{tail})", (f"({a} + 1) / 2", *rest)), (f"({x}[{h}:] ++ {x}[:{h}] :> [{a}]{tail})", shape)]  # fmt: skip
            if rank > 1 or g.p(0.15):
                found += [(f"{x}[{self.index(sc, a)}]", rest)] * 2
        if " * " in a and "/" not in a:
            p, q = a.split(" * ")
            found += [(f"(unflatten ({x} :> [{p} * {q}]{tail}))", (p, q, *rest))] * 4 if rank < 3 else []
        return g.c(*found)

    def view(self, sc: _Scope, steps: int = 3) -> tuple[str, Shape]:
        """Some array, looked at in up to some steps."""
        x, shape = self.g.c(*sc.arrays)
        for _ in range(self.g.r.randint(0, steps)):
            if not shape:
                break
            x, shape = self.seen(sc, x, shape)
        return x, shape

    def like(self, sc: _Scope, shape: Shape) -> str:
        """Something of that shape."""
        for _ in range(14):
            x, found = self.view(sc)
            if found == shape:
                return x
        own = [x for x, s in sc.arrays if s == shape]
        if own and self.g.p(0.8):
            return self.g.c(*own)
        if not shape:
            return self.g.c(*sc.scalars, self.g.number())
        k = self.g.name("k")
        return f"(tabulate ({shape[0]}) (\\{k} -> {self.like(sc.counting(k, shape[0]), shape[1:])}))"

    def mapped(self, sc: _Scope, shape: Shape, *xs: str, depth: int = 0) -> str:
        """A function of the elements of arrays of that shape."""
        g = self.g
        if not shape:
            return g.mix(*xs, *([g.c(*sc.scalars)] if sc.scalars and g.p(0.3) else []))
        names = [g.name("r") for _ in xs]
        counted = g.p(0.2) and len(xs) < 4
        inner, heads, arrays = sc, list(names), list(xs)
        if counted:
            k = g.name("k")
            inner = sc.counting(k, shape[0])
            heads.append(k)
            arrays.append(f"(iota ({shape[0]}))")
        for x in names:
            if len(shape) > 1:
                inner = inner.plus(x, shape[1:])
        body = self.mapped(inner, shape[1:], *names, depth=depth + 1)
        if len(shape) > 1 and g.p(0.35):
            body = self.row(inner, names[0], body, shape[1:])
        of = [f"({x}: {shape_type(shape[1:])})" if x in names and len(shape) > 1 else x for x in heads]
        return f"(map{len(of) if len(of) > 1 else ''} (\\{' '.join(of)} -> {body}) {' '.join(arrays)})"

    def row(self, sc: _Scope, r: str, body: str, shape: Shape) -> str:
        """A row of that shape that is updated in a branch, or in a loop."""
        g, z = self.g, self.g.name("z")
        start = f"let {z} : *{shape_type(shape)} = copy {g.c(r, body)} in"
        if shape[0] not in PLAIN:
            return body
        inner = sc.plus(z, shape)
        put = self.put(inner, z, shape)
        if g.p(0.4) and sc.counters:
            k, _ = g.c(*sc.counters)
            return f"({start} if {k} % 2 == {g.c('0', '1')} then {put} else {g.c(z, self.put(inner, z, shape))})"
        k = g.name("k")
        step = self.put(inner.counting(k, shape[0]), z, shape)
        return f"({start} loop ({z}: *{shape_type(shape)}) = {z} for {k} < {g.c(shape[0], f'i64.min 2 {shape[0]}')} do {step})" if shape[0] != "2" else f"({start} {put})"

    def put(self, sc: _Scope, a: str, shape: Shape) -> str:
        """An update of a part of an array."""
        g, rank = self.g, len(shape)
        d = shape[0]
        h = f"{d} / 2"
        choices = [(f"[{self.index(sc, d)}]", shape[1:])] * 3
        choices += [(f"[:{h}]", (h, *shape[1:])), (f"[{d} - {h}:]", (h, *shape[1:])), ("[::-1]", shape), ("[::2]", (f"({d} + 1) / 2", *shape[1:]))]
        if rank >= 2 and shape[1] in PLAIN:
            j = self.index(sc, shape[1])
            choices += [(f"[:, {j}]", (d, *shape[2:])), (f"[{self.index(sc, d)}, {j}]", shape[2:]), (f"[:, {j}]", (d, *shape[2:]))]
        if rank == 3 and shape[2] in PLAIN:
            choices += [(f"[:, :, {self.index(sc, shape[2])}]", shape[:2]), (f"[{self.index(sc, d)}, :, {self.index(sc, shape[2])}]", (shape[1],))]
        place, part = g.c(*choices)
        value = self.mapped(sc, part, self.like(sc, part), *([self.like(sc, part)] if g.p(0.5) else []))
        if part and g.p(0.25):
            value = f"(copy {self.like(sc, part)})"
        elif part:
            value = f"({value} :> {shape_type(part)})"
        return f"{a} with {place} = {value}"

    def statement(self, sc: _Scope) -> tuple[str, str, Shape]:
        """A new array, or number: its definition, name and shape."""
        g = self.g
        y = g.name("y")
        k = g.r.randrange(11)
        x, shape = self.view(sc)
        if k <= 3 or not shape:
            text = self.mapped(sc, shape, x, *[self.like(sc, shape) for _ in range(g.r.randint(0, 2))])
        elif k <= 6 and all(d in PLAIN for d in shape):
            i = g.name("k")
            d = g.c(*[d for d in shape if d in "nm"] or ["3"])
            a = g.name("a")
            inner = sc.plus(a, shape).counting(i, d)
            head, first = g.counted(i, d)
            steps = "".join(f"let {a} : *{shape_type(shape)} = {self.put(inner, a, shape)} in " for _ in range(g.c(0, 0, 1)))
            text = f"loop ({a}: *{shape_type(shape)}) = copy {x} {head} {first}{steps}{self.put(inner, a, shape)}"
        elif k == 7 and len(shape) == 2:
            z, other = self.view(sc)
            if len(other) == 2 and other[0] == shape[1]:
                text, shape = f"map (\\(r: [{shape[1]}]t) -> map (\\(c: [{shape[1]}]t) -> small (t.sum (map2 (*) r c))) (transpose {z})) {x}", (shape[0], other[1])
            else:
                text, shape = f"map (\\(r: [{shape[1]}]t) -> {g.c('t.sum (map small r)', '(let s = reduce softmax (-1000) r in small s)', 'loop s = 0.3 for e in r do small (s + e)')}) {x}", shape[:1]
        elif k == 8:
            text = f"map small (scan (+) 0 {x})" if len(shape) == 1 else f"scan (map2 (+)) (replicate ({shape[1]}) 0) {x}" if len(shape) == 2 else f"map (map (scan (+) 0)) {x}"
        elif k == 9:
            z, other = self.view(sc)
            u = g.name("u")
            inner = sc.plus(u, shape)
            body = self.mapped(inner, shape, u, self.like(inner, shape))
            text = g.c(f"jvp (\\({u}: {shape_type(shape)}) -> {body}) {x} {self.like(sc, shape)}", f"vjp (\\({u}: {shape_type(shape)}) -> {body}) {x} {self.like(sc, shape)}")
        elif shape[0] in PLAIN:
            text = g.c(f"map (\\i -> let r = {x} in r[i % {shape[0]}]) is", f"scatter (copy {x}) (map (\\i -> {g.c(f'{shape[0]} - 1 - i', '2 * i', 'i - 1')}) (iota ({shape[0]}))) {self.like(sc, shape)}")
            shape = ("n", *shape[1:]) if text.startswith("map") else shape
        else:
            text = f"copy {x}"
        return f"  let {y} : {shape_type(shape)} = {text} in\n", y, shape


def views(g: Gen) -> Program:
    """Statements one after the other, of arrays that were there and new ones."""
    y = _Maker(g)
    params = [Param("x", ("n", "m")), Param("u", ("n",)), Param("is", ("n",), "n")]
    if g.p(0.6):
        params.append(Param("z", g.c(("n", "m", 3), ("m", "n", 2), ("n", 3, "m"), ("m", 2, 3))))
    if g.p(0.4):
        params.append(Param("w", g.c(("m", "m"), ("m", 3), ("n", "n"), ("m",))))
    sc = _Scope([(p.name, tuple(map(str, p.shape))) for p in params if p.bound is None])
    lets, outs = "", []
    for _ in range(g.r.randint(2, 5)):
        text, name, shape = y.statement(sc)
        lets += text
        sc = sc.plus(name, shape)
        if all(d in PLAIN for d in shape):
            outs.append((name, tuple(int(d) if d.isdigit() else d for d in shape)))
        else:
            flat = "flatten " * (len(shape) - 1)
            outs.append((f"t.sum ({flat}{name})" if len(shape) < 3 else f"t.sum (flatten (flatten {name}))", ()))
    outs = outs[-g.r.randint(1, 3) :]
    out = outs[0][0] if len(outs) == 1 else f"({', '.join(o for o, _ in outs)})"
    return g.program("views", params, [s for _, s in outs], f"{lets}  {out}", "", {"n": 1, "m": 1}, {"n": 9, "m": 7})


FAMILIES = [views]
