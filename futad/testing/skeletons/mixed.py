# ruff: noqa: E501 (programs read better unbroken)
"""Numbers of f16, f32 and f64 beside each other: converted inside maps, folds, loops and derivatives, in tuples and
records.  What is computed in f16 has a small part in the results."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Param, Program

_DOWN = {"f16": "half", "f32": "single", "f64": "double"}
_KINDS = ("t", "f16", "f32", "f64")


class _Mixed:
    """Vectors of n in scope, by the type of their elements."""

    def __init__(self, g: Gen) -> None:
        self.g = g
        self.vectors: dict[str, list[str]] = {k: [] for k in _KINDS} | {"t": ["xs", "ys"]}

    def to(self, kind: str, of: str, x: str) -> str:
        """The number x, of another type; that of an f16 made small."""
        if kind == of:
            return x
        if of == "t":
            return f"({_DOWN[kind]} {x})"
        up = f"{kind}.{of} {x}" if kind != "t" else f"t.{of} {x}"
        return f"(0.2 * {up})" if of == "f16" and kind != "f16" else f"({up})"

    def op(self, e: str, x: str, y: str) -> str:
        """A moderate function of two numbers of type e."""
        g = self.g
        k, h = g.number(), g.number()
        return g.c(f"({k} * {x} + {h} * {y})", f"({e}.sin {x} * {y})", f"({x} / (1 + {y} * {y}))", f"({e}.exp (-({x} * {x})) * {e}.cos {y})", f"({e}.tanh ({x} + {k} * {y}))",
                   f"({e}.sqrt (1 + {x} * {x}) - {k} * {y})", f"({y} - {k} * {e}.cos {x})", f"({x} + {e}.log (1.5 + {y} * {y}))")  # fmt: skip

    def vector(self) -> tuple[str, str]:
        """A name and its type."""
        kind = self.g.c(*[k for k in _KINDS for _ in self.vectors[k][-2:]])
        return self.g.c(*self.vectors[kind][-2:]), kind

    def statement(self) -> str:
        g = self.g
        (a, ka), (b, kb) = self.vector(), self.vector()
        e, f = g.c("f16", "f32", "f32", "f64", "t"), g.c("f32", "f64", "t")
        name = g.name("v")
        x, y, z = self.to(e, ka, "x"), self.to(e, kb, "y"), self.op(e, "p", "q")
        maker = g.r.randrange(11)
        both = f"let p = {x} in let q = {y} in"
        if maker <= 1:
            text = f"map2 (\\x y -> {both} {z}) {a} {b}"
        elif maker == 2:  # a sum of another type than the terms
            e = f
            total = f"{f}.sum (map2 (\\x y -> {self.op(f, self.to(f, ka, 'x'), self.to(f, kb, 'y'))}) {a} {b})"
            text = f"let s = {total} in map (\\x -> {self.op(f, self.to(f, ka, 'x'), '(s / (1 + s * s))')}) {a}"
        elif maker == 3:
            e = f
            text = f"map (\\s -> s / (1 + s * s)) (scan (+) 0 (map (\\x -> {self.to(f, ka, 'x')}) {a}))"
        elif maker == 4:  # a loop's variables of two types
            step = f"({e}.tanh {self.op(e, 's', x)}, {f}.sin {self.op(f, 'r', self.to(f, ka, 'x'))})"
            text = f"let (s, r) = loop (s: {e}, r: {f}) = (0.3, 0.7) for x in {a} do {step} in map (\\y -> {self.op(e, y, 's')} + {self.to(e, f, 'r')}) {b}"
        elif maker == 5:
            at = g.c("i", "n - 1 - i", "(i * 2 + 1) % n")
            text = f"loop (w: *[n]{e}) = map (\\x -> {x}) {a} for i < n do let y = {b}[i] in w with [{at}] = {e}.tanh {self.op(e, 'w[i]', y)}"
        elif maker == 6:
            e = f
            values = f"(map (\\x -> {self.to(f, ka, 'x')}) {a})"
            text = f"map (\\s -> s / (1 + s * s)) (reduce_by_index (map (\\y -> {self.to(f, kb, 'y')}) {b}) (+) 0 (map (\\i -> (i * i) % n) (iota n)) {values})"
        elif maker == 7:
            e = f
            matrix = f"map (\\y -> map (\\x -> {self.op(f, self.to(f, ka, 'x'), self.to(f, kb, 'y'))}) {a}) {b}"
            text = f"let m = {matrix} in let w = map (\\x -> {self.to(f, ka, 'x')}) {a} in map (\\r -> {f}.tanh ({f}.sum (map2 (*) r w))) m"
        elif maker == 8:  # an array of records, and a fold of tuples
            h = g.c("f16", "f32")
            made = f"map2 (\\x y -> {{ a = {self.to(h, ka, 'x')}, b = {y} }}) {a} {b}"
            fold = f"reduce (\\(a, i, b) (c, j, d) -> (a {f}.+ c, i + j, b + d)) (0: {f}, 0i32, 0: t) (map2 (\\x y -> ({self.to(f, ka, 'x')}, 1, {self.to('t', kb, 'y')})) {a} {b})"
            text = f"let rs = {made} in let (u, c, v) = {fold} in let u = {self.to(e, f, '(u / (1 + u * u))')} in let v = {self.to(e, 't', '(small v)')} in map (\\r -> let p = {self.to(e, h, 'r.a')} in let q = r.b * v in {z} + u / {e}.i32 (1 + c)) rs"
        elif maker == 9:  # derivatives of what is computed in another type
            x, y = self.to(f, ka, "x"), self.to(e, kb, "y")
            way = g.c(f"vjp (\\p -> let p = {self.to(e, f, 'p')} in {z}) {x} 1", f"jvp (\\q -> let p = {self.to(e, f, x)} in {z}) q 1")
            text = f"map2 (\\x y -> let q = {y} in let d = {way} in d / (1 + d * d)) {a} {b}"
            e = f if way.startswith("vjp") else e
        else:
            g.smooth = False
            limit = g.c("0.1234", "(-0.3217)", "0.7071")
            text = f"map2 (\\x y -> {both} if {self.to('f64', ka, 'x') if ka != 'f16' else 'f64.f16 x'} < {limit} then {z} else {self.op(e, 'q', 'p')}) {a} {b}"
        self.vectors[e].append(name)
        return f"  let {name} : [n]{e} = {text} in\n"


def mixed(g: Gen) -> Program:
    made = _Mixed(g)
    body = "".join(made.statement() for _ in range(g.r.randint(2, 6)))
    (a, ka), (b, kb) = made.vector(), made.vector()
    out = f"(map (\\x -> {made.to('t', ka, 'x')}) {a}, small (t.sum (map (\\x -> {made.to('t', kb, 'x')}) {b})))"
    params = [Param("xs", ("n",)), Param("ys", ("n",))]
    program = g.program("mixed", params, [("n",), ()], f"{body}  {out}", "", {"n": 1})
    program.smooth, program.precision = False, "f4"
    return program


FAMILIES = [mixed]
