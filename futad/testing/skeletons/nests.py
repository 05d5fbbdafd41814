# ruff: noqa: E501 (programs read better unbroken)
"""Nests of maps, loops, folds and scans over sizes n, m and 3 in any order, drawn by the shapes of their results; modules
with parameters, functions of functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from futad.testing.skeletons.base import Gen, Param, Program, shape_type

Shape = tuple[str, ...]


@dataclass(slots=True)
class _Scope:
    scalars: list[str]
    arrays: list[tuple[str, Shape]]
    counters: list[tuple[str, str]] = field(default_factory=list)

    def plus(self, name: str, shape: Shape) -> _Scope:
        return replace(self, arrays=[*self.arrays, (name, shape)]) if shape else replace(self, scalars=[*self.scalars, name])

    def counting(self, name: str, below: str) -> _Scope:
        return replace(self, counters=[*self.counters, (name, below)])


class _Maker:
    def __init__(self, g: Gen, fuel: int) -> None:
        self.g, self.fuel = g, fuel

    def element(self, sc: _Scope) -> str:
        """An element of some array, at counters where there are such."""
        g = self.g
        x, shape = g.c(*sc.arrays)
        places = []
        for d in shape:
            own = [k for k, below in sc.counters if below == d]
            places.append(g.at(g.c(*own), d) if own and g.p(0.8) else g.other(d, *[k for k, _ in sc.counters]))
        return f"{x}[{', '.join(places)}]"

    def over(self, sc: _Scope, d: str) -> tuple[str, str, _Scope]:
        """Parameters of a map over d iterations, its arrays, its scope."""
        g = self.g
        found = [(x, s) for x, s in sc.arrays if s[0] == d]
        names, arrays = [], []
        for _ in range(g.r.randint(1, 2)):
            if found and g.p(0.7):
                x, s = g.c(*found)
                y = g.name("r" if len(s) > 1 else "z")
                names.append(f"({y}: {shape_type(s[1:])})")
                arrays.append(x)
                sc = sc.plus(y, s[1:])
            elif not any(a.startswith("(iota") for a in arrays):
                k = g.name("k")
                names.append(k)
                arrays.append(f"(iota {d})")
                sc = sc.counting(k, d)
        return " ".join(names), " ".join(arrays), sc

    def mapped(self, sc: _Scope, shape: Shape, depth: int) -> str:
        names, arrays, inner = self.over(sc, shape[0])
        k = names.count("(") or 0
        count = k + len([w for w in names.split() if w.startswith("k")])
        return f"(map{count if count > 1 else ''} (\\{names} -> {self.of(inner, shape[1:], depth - 1)}) {arrays})"

    def of(self, sc: _Scope, shape: Shape, depth: int) -> str:
        """Something of that shape."""
        g = self.g
        self.fuel -= 1
        low = depth <= 0 or self.fuel <= 0
        if not shape:
            return self.scalar(sc, low, depth)
        same = [x for x, s in sc.arrays if s == shape]
        if same and (low or g.p(0.15)):
            return g.c(*same)
        if low:
            k = g.name("k")
            return f"(tabulate {shape[0]} (\\{k} -> {self.of(sc.counting(k, shape[0]), shape[1:], depth - 1)}))"
        kind = g.r.randrange(12)
        if kind <= 4:
            return self.mapped(sc, shape, depth)
        if kind <= 7:  # a loop around
            z, k, d = g.name("w"), g.name("k"), g.c("n", "m", "3", "2", "2")
            inner = sc.plus(z, shape).counting(k, d)
            step = self.of(inner, shape, depth - 1)
            ty = shape_type(shape)
            if kind == 7 and d != "2":  # with a row, or an element, written in place
                inner = sc.plus(z, shape).counting(k, shape[0])
                value = self.of(inner, shape[1:], depth - 1)
                if shape[1:]:
                    value = f"(copy {value})"
                return f"(loop ({z}: *{ty}) = (copy {self.of(sc, shape, 0)}) for {k} < {shape[0]} do let row = {value} in {z} with [{k}] = row)"
            return f"(loop ({z}: {ty}) = {self.of(sc, shape, depth - 1)} for {k} < {d} do {_squashed(shape, step)})"
        if kind == 8:  # a scan of rows
            row = self.of(sc, shape, depth - 1)
            if len(shape) == 1:
                return f"(map small (scan (+) 0 {row}))"
            if len(shape) == 2:
                return f"(map (map small) (scan (map2 (+)) (replicate {shape[1]} 0) {row}))"
        if kind == 9 and len(shape) == 1:  # a fold of rows
            d = g.c("n", "m", "3")
            return f"(map small (reduce (map2 {g.c('(+)', '(+)', 't.max')}) (replicate {shape[0]} 0) {self.mapped(sc, (d, *shape), depth)}))"
        if kind == 10:
            g.smooth = False
            test = g.c(*[f"{k} % 2 == 0" for k, _ in sc.counters], f"{self.scalar(sc, True, 0)} < 0.2345")
            return f"(if {test} then {self.of(sc, shape, depth - 1)} else {self.of(sc, shape, depth - 1)})"
        if kind == 11 and len(shape) == 2:
            return f"(transpose {self.of(sc, shape[::-1], depth - 1)})"
        x = g.name("y")
        t = g.c((), (), *[s for _, s in sc.arrays])
        return f"(let {x} : {shape_type(t)} = {self.of(sc, t, depth - 1)} in {self.of(sc.plus(x, t), shape, depth - 1)})"

    def scalar(self, sc: _Scope, low: bool, depth: int) -> str:
        g = self.g
        if low:
            return g.c(self.element(sc), self.element(sc), *sc.scalars, *sc.scalars, g.number())
        d = g.c("n", "m", "3")
        k = g.r.randrange(8)
        if k <= 1:
            fold = g.c("t.sum", "t.sum", "reduce softmax (-1000)", "reduce (\\a b -> a + b + 0.1 * a * b) 0" if g.p(0.1) else "t.sum", "t.maximum" if d == "3" else "t.sum")
            g.smooth = g.smooth and fold != "t.maximum"
            return f"small ({fold} {self.mapped(sc, (d,), depth)})"
        if k <= 3:
            s, i = g.name("s"), g.name("k")
            inner = sc.plus(s, ()).counting(i, d)
            return f"(loop {s} = {self.scalar(sc, True, 0)} for {i} < {d} do small ({self.of(inner, (), depth - 1)} + 0.5 * {s}))"
        if k == 4:
            x = g.name("y")
            t = g.c((), *[s for _, s in sc.arrays if len(s) == 1])
            return f"(let {x} : {shape_type(t)} = {self.of(sc, t, depth - 1)} in {self.of(sc.plus(x, t), (), depth - 1)})"
        return g.mix(self.of(sc, (), depth - 1), self.of(sc, (), depth - 2))


def _squashed(shape: Shape, x: str) -> str:
    f = "small"
    for _ in shape[1:]:
        f = f"(map {f})"
    return f"map {f} {x}"


def nests(g: Gen) -> Program:
    """A nest of five or six levels, or two such one after the other."""
    make = _Maker(g, g.r.randint(14, 40))
    params = [Param("x", ("n", "m")), Param("u", ("n",)), Param("v", ("m",)), Param("c", (3,)), Param("p")]
    sc = _Scope(["p"], [("x", ("n", "m")), ("u", ("n",)), ("v", ("m",)), ("c", ("3",))])
    lets, y = "", "p"
    shape: Shape = ()
    for _ in range(g.c(1, 1, 2)):
        shape = g.c(("n",), ("n", "m"), ("m",), (), ("n",), ("3", "m"))
        y = g.name("y")
        lets += f"  let {y} : {shape_type(shape)} = {make.of(sc, shape, 6)} in\n"
        sc = sc.plus(y, shape)
        make.fuel = max(make.fuel, 12)
    result = tuple([int(d) if d.isdigit() else d for d in shape])
    return g.program("nests", params, [result], f"{lets}  {y}", "", {"n": 1, "m": 1}, {"n": 7, "m": 6})


_SCALARS = {
    "plain": ("t", "x", "x", "x + y", "x * y", "F"),
    "dual": ("(t, t)", "(x, 1)", "x.0 + 0.3 * x.1", "(x.0 + y.0, x.1 + y.1)", "(x.0 * y.0, x.0 * y.1 + x.1 * y.0)", "(let v = x.0 in (F, 0.5 * small x.1))"),
    "complex": ("{re: t, im: t}", "{re = x, im = 0.4}", "x.re - 0.2 * x.im", "{re = x.re + y.re, im = x.im + y.im}", "{re = x.re * y.re - x.im * y.im, im = x.re * y.im + x.im * y.re}", "(let v = x.re in {re = F, im = small x.im})"),
    "interval": ("[2]t", "[x - 0.1, x + 0.2]", "x[1] - 0.5 * x[0]", "map2 (+) x y", "(let ps = [x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1]] in [t.minimum ps, t.maximum ps])", "map (\\v -> F) x"),
    "choice": ("#left t | #right t t", "(if x < 0.1234 then #left x else #right x 0.5)", "(match x case #left a -> a case #right a b -> a * b)", "(match (x, y) case (#left a, #left b) -> #left (a + b) case (#right a b, #left d) -> #right (a + d) b case (#left d, #right a b) -> #right (a + d) b case (#right a b, #right d e) -> #right (a + d) (b * e))", "(match x case #left a -> (match y case #left b -> #left (a * b) case #right b d -> #right (a * b) d) case #right a b -> (match y case #left d -> #right (a * d) b case #right d e -> #left (a * b * d * e)))", "(match x case #left v -> #left (F) case #right v b -> #right (F) (small b))"),
}  # fmt: skip


def modules(g: Gen) -> Program:
    """Numbers of a user's own behind a module type, a module over them, and functions that are given functions."""
    name = g.c(*_SCALARS)
    of, lift, down, add, mul, one = _SCALARS[name]
    g.smooth = g.smooth and name not in ("interval", "choice")
    f = g.mix("v")
    one = one.replace("F", f)
    if name == "plain":
        one = f"(let v = x in {one})"
    helpers = (
        "module type scalar@ = { type s val lift : t -> s val down : s -> t val add : s -> s -> s val mul : s -> s -> s val one : s -> s }\n"
        f"module own@ : scalar@ = {{ type s = {of} def lift (x: t) : s = {lift} def down (x: s) : t = {down} def add (x: s) (y: s) : s = {add} def mul (x: s) (y: s) : s = {mul} def one (x: s) : s = {one} }}\n"
        "module over@ (S: scalar@) = {\n"
        "  def horner [n] (cs: [n]t) (x: t) : t = S.down (loop r = S.lift 0 for c in cs do S.one (S.add (S.mul r (S.lift x)) (S.lift c)))\n"
        "  def dot [n] (a: [n]t) (b: [n]t) : t = S.down (S.one (foldl S.add (S.lift 0) (map2 (\\x y -> S.one (S.mul (S.lift x) (S.lift y))) a b)))\n"
        "  def along [n] (a: [n]t) : [n]t = map S.down (loop r = map S.lift a for i < 2 do map2 S.add r (map S.one (rotate 1 r)))\n"
        "  def table [n] (a: [n]t) (x: t) : [n]t = map (\\y -> S.down (S.mul (S.one (S.lift x)) (S.lift y))) a\n"
        "}\nmodule made@ = over@ own@\n"
        "def applied@ 'a (f: a -> a) (count: i64) (x: a) : a = loop x = x for _i < count do f x\n"
        "def affine@ (a: t) (b: t) : t -> t = \\x -> small (a * x + b)\n"
        "def pairs@ 'a 'b 'c (f: a -> b) (h: a -> c) (x: a) : (b, c) = (f x, h x)\n"
        "def rows@ [n][m] (f: [m]t -> t) (x: [n][m]t) : [n]t = map f x\n"
    )  # fmt: skip
    lets, vectors, scalars = "", ["u"], ["p"]
    for _ in range(g.r.randint(2, 4)):
        v, s = g.name("v"), g.name("s")
        a, b, z = g.c(*vectors), g.c(*vectors), g.c(*scalars)
        kind = g.r.randrange(9)
        if kind == 0:
            lets += f"  let {s} = small (made@.horner {a} {z}) in\n"
        elif kind == 1:
            lets += f"  let {s} = small (made@.dot {a} {b}) in\n"
        elif kind == 2:
            lets += f"  let {v} : [n]t = map small (made@.along {a}) in\n"
        elif kind == 3:
            lets += f"  let {v} : [n]t = applied@ (map (affine@ {z} {g.number()})) {g.c('2', '3')} {a} in\n"
        elif kind == 4:
            row = g.c('scan (+) 0 r', 'map (affine@ (r[0]) 0.3) r', 'reverse r')
            lets += f"  let ({s}, {v}) = pairs@ t.sum (\\r -> {row}) {a} in let {v} : [n]t = map small {v} in\n"
        elif kind == 5:
            row = g.c("small (t.sum r)", f"made@.horner r {z}", "foldl (\\q e -> small (q + e)) 0.2 r", f"small (t.sum (made@.table r {z}))")
            lets += f"  let {v} : [n]t = rows@ (\\r -> {row}) x in\n"
        elif kind == 6:
            lets += f"  let {s} = {z} |> affine@ {g.number()} {z} |> applied@ (affine@ 0.4 {g.number()}) 2 |> small in\n"
        elif kind == 7:
            lets += f"  let {v} : [n]t = {a} |> map (affine@ {z} 0.2) |> scan (+) 0 |> map2 (\\q e -> {g.mix('q', 'e')}) {b} in\n"
        else:
            lets += f"  let {v} : [n]t = map (\\e -> small (vjp (\\q -> made@.horner {b} (q * e)) {z} 1)) {a} in\n"
        if f" {v} " in lets or f" {v})" in lets:
            vectors.append(v)
        if f"let {s} " in lets or f"({s}," in lets:
            scalars.append(s)
    params = [Param("x", ("n", "m")), Param("u", ("n",)), Param("p")]
    return g.program("modules", params, [("n",), ()], f"{lets}  ({vectors[-1]}, {scalars[-1]})", helpers, {"n": 1})


FAMILIES = [nests, modules]
