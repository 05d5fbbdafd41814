# ruff: noqa: E501 (programs read better unbroken)
"""Values of few components: points, frames, records and sums of them, as scalars are elsewhere: in arrays by rows and by
columns, captured by maps, carried by loops, updated in place.  Expressions are drawn by their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from futad.testing.skeletons.base import Dim, Gen, Param, Program

# s: a scalar, v: [D]t, m: [D][D]t, p: {at: [D]t, w: t}, and n of them: S, V, M, P; W: [D][n]t.
MANY = {"s": "S", "v": "V", "m": "M", "p": "P"}
KINDS = "svmpSVMW"


@dataclass(slots=True)
class _Env:
    """The variables of each type; counters below n, and below D."""

    of: dict[str, list[str]] = field(default_factory=dict)
    far: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)

    def plus(self, kind: str, name: str) -> _Env:
        of = {k: list(xs) for k, xs in self.of.items()}
        of.setdefault(kind, []).append(name)
        return _Env(of, list(self.far), list(self.near))

    def counting(self, far: str = "", near: str = "") -> _Env:
        of = {k: list(xs) for k, xs in self.of.items()}
        return _Env(of, self.far + [far] * bool(far), self.near + [near] * bool(near))


class _Typed:
    """Expressions of a type, `D` components each."""

    def __init__(self, g: Gen) -> None:
        self.g = g
        self.d = g.c(2, 2, 3, 3, 4)
        self.fuel = g.r.randint(8, 26)

    def type(self, kind: str) -> str:
        d, few = self.d, {"s": "t", "v": f"[{self.d}]t", "m": f"[{self.d}][{self.d}]t", "p": "point"}
        return few[kind] if kind in few else f"[{d}][n]t" if kind == "W" else f"[n]{few[kind.lower()]}"

    def near(self, e: _Env) -> str:
        """An index below D."""
        g = self.g
        return g.c(str(g.r.randrange(self.d)), *[g.c(k, f"(({k} + 1) % {self.d})", f"({self.d - 1} - {k})") for k in e.near])

    def far(self, e: _Env) -> str:
        """An index below n."""
        return self.g.c(*[self.g.at(k, "n") for k in e.far], self.g.other("n", *e.far), "0")

    def test(self, e: _Env) -> str:
        g = self.g
        whole = [f"{k} % 2 == 0" for k in e.far + e.near] + [f"{k} > 0" for k in e.far + e.near]
        if whole and g.p(0.6):
            return g.c(*whole)
        g.smooth = False
        return f"{self.of('s', e, 0)} < {g.c('0.1234', '-0.3217', '0.7071')}"

    def of(self, kind: str, e: _Env, depth: int) -> str:
        """An expression, in parentheses if it needs them."""
        known = e.of.get(kind, [])
        self.fuel -= 1
        if known and (depth <= 0 or self.fuel <= 0 or self.g.p(0.2)):
            return self.g.c(*known[-4:], *known)
        makers: dict[str, Callable[[_Env, int], str]] = {
            "s": self.scalar, "v": self.vector, "m": self.matrix, "p": self.point,
            "S": self.many, "V": self.many, "M": self.many, "W": self.columns, "P": self.many,
        }  # fmt: skip
        if kind in "SVMP":
            return f"({self.many(e, depth, kind.lower())})"
        return f"({makers[kind](e, depth)})"

    def scalar(self, e: _Env, depth: int) -> str:
        g, down = self.g, depth - 1
        if depth <= 0:
            return g.number()
        k = g.r.randrange(11)
        if k == 0:
            return f"dot {self.of('v', e, down)} {self.of('v', e, down)}"
        if k == 1:
            return f"{self.named('v', e, down)}[{self.near(e)}]"
        if k == 2:
            return f"{self.named('m', e, down)}[{self.near(e)}, {self.near(e)}]"
        if k == 3:
            return f"(squashed {self.of('p', e, down)}).w"
        if k == 4 and e.far:
            return f"{self.named('S', e, down)}[{self.far(e)}]"
        if k == 5:
            return f"if {self.test(e)} then {self.of('s', e, down)} else {self.of('s', e, down)}"
        if k == 6:
            x, j = g.name("x"), g.name("j")
            inner = e.plus("s", x).counting(near=j)
            if g.p(0.4):
                stop = g.c(f"{j} < {g.c('1', '2', str(self.d), *e.near)}", f"{j} < {self.d} && {x} < 0.4567")
                g.smooth = g.smooth and "&&" not in stop
                return f"(loop ({x}, {j}) = ({self.of('s', e, down)}, 0) while {stop} do (small ({self.of('s', e.plus('s', x), down)}), {j} + 1)).0"
            return f"loop {x} = {self.of('s', e, down)} for {j} < {self.d} do small ({self.of('s', inner, down)})"
        if k == 7:
            return f"small (t.sum {self.of('v', e, down)})"
        return g.mix(self.of("s", e, down), self.of("s", e, down))

    def named(self, kind: str, e: _Env, depth: int) -> str:
        """Something that can be indexed."""
        return self.of(kind, e, depth)

    def apart(self, array: str, value: str) -> str:
        """The value for a place of the array, copied if it may lie in it."""
        return f"(copy {value})" if array in value or self.g.p(0.3) else value

    def body(self, kind: str, e: _Env, depth: int) -> str:
        """Perhaps some variables first."""
        text = ""
        while self.g.p(0.35) and self.fuel > 0:
            k = self.g.c(*"svvmmp")
            x = self.g.name(k)
            text += f"let {x} : {self.type(k)} = {self.of(k, e, depth)} in "
            e = e.plus(k, x)
        return text + self.of(kind, e, depth)

    def vector(self, e: _Env, depth: int) -> str:
        g, d, down = self.g, self.d, depth - 1
        if depth <= 0:
            return f"replicate {d} {g.number()}"
        k = g.r.randrange(17)
        if k == 0:
            return "[" + ", ".join(self.of("s", e, down) for _ in range(d)) + "]"
        if k in (1, 2):
            x, y = g.name("x"), g.name("y")
            return f"map2 (\\{x} {y} -> {self.of('s', e.plus('s', x).plus('s', y), down)}) {self.of('v', e, down)} {self.of('v', e, down)}"
        if k == 3:
            return f"{self.named('m', e, down)}[{self.near(e)}]"
        if k == 4:
            return f"{self.named('m', e, down)}[:, {self.near(e)}]"
        if k == 5:
            return f"apply {self.of('m', e, down)} {self.of('v', e, down)}"
        if k == 6:
            row, y = g.name("v"), g.name("s")
            inner = e.plus("v", row).plus("s", y)
            m = self.of("m", e, down)
            return f"map2 (\\{row} {y} -> {self.body('s', inner, down)}) {g.c(m, f'(transpose {m})')} {self.of('v', e, down)}"
        if k == 7:
            return f"copy {self.of('v', e, down)} with [{self.near(e)}] = {self.of('s', e, down)}"
        if k == 8:
            j = g.name("j")
            return f"tabulate {d} (\\{j} -> {self.body('s', e.counting(near=j), down)})"
        if k == 9:
            return g.c("reverse", "rotate 1", "map small", "scan (+) 0", "copy", "map (* 0.5)") + " " + self.of("v", e, down)
        if k == 10 and e.far:
            return f"{self.named('V', e, down)}[{self.far(e)}]"
        if k == 11 and e.far:
            return f"{self.named('W', e, down)}[:, {self.far(e)}]"
        if k == 12:
            return f"(squashed {self.of('p', e, down)}).at"
        if k == 13:
            return f"if {self.test(e)} then {self.of('v', e, down)} else {self.of('v', e, down)}"
        if k == 14:
            u, j = g.name("u"), g.name("j")
            inner = e.plus("v", u).counting(near=j)
            if g.p(0.5):
                start, step = f"copy {self.of('v', e, down)}", f"{u} with [{self.near(inner)}] = {self.of('s', inner, down)}"
                return f"loop ({u}: *[{d}]t) = {start} for {j} < {g.c(2, d)} do {step}"
            return f"loop ({u}: [{d}]t) = {self.of('v', e, down)} for {j} < {g.c(2, d)} do map small {self.of('v', inner, down)}"
        if k == 15 and depth > 1:
            return f"map small (reduce (map2 (+)) (replicate {d} 0) {self.of('V', e, down)})"
        return f"map2 (+) {self.of('v', e, down)} {self.of('v', e, down)}"

    def matrix(self, e: _Env, depth: int) -> str:
        g, d, down = self.g, self.d, depth - 1
        if depth <= 0:
            return f"tabulate_2d {d} {d} (\\i j -> t.i64 (i + 2 * j) * 0.2)"
        k = g.r.randrange(15)
        if k == 0:
            return "[" + ", ".join(self.of("v", e, down) for _ in range(d)) + "]"
        if k in (1, 2):
            return f"{g.c('transpose', 'transpose', 'reverse', 'map reverse', 'map (map small)', 'copy')} {self.of('m', e, down)}"
        if k in (3, 4):
            return f"times {self.of('m', e, down)} {self.of('m', e, down)}"
        if k == 5:
            x, y = g.name("x"), g.name("y")
            inner = e.plus("s", x).plus("s", y)
            return f"map (\\{x} -> map (\\{y} -> {self.of('s', inner, down)}) {self.of('v', e.plus('s', x), down)}) {self.of('v', e, down)}"
        if k == 6:
            return f"copy {self.of('m', e, down)} with [{self.near(e)}] = {self.of('v', e, down)}"
        if k == 7:
            return f"copy {self.of('m', e, down)} with [:, {self.near(e)}] = {self.of('v', e, down)}"
        if k == 8:
            return f"copy {self.of('m', e, down)} with [{self.near(e)}, {self.near(e)}] = {self.of('s', e, down)}"
        if k == 9:
            i, j = g.name("i"), g.name("j")
            inner = e.counting(near=i).counting(near=j)
            return f"tabulate_2d {d} {d} (\\{i} {j} -> {self.of('s', inner, down)})"
        if k == 10:
            row, other = g.name("v"), g.name("v")
            inner = e.plus("v", row).plus("v", other)
            return f"map2 (\\{row} {other} -> {self.body('v', inner, down)}) {self.of('m', e, down)} (transpose {self.of('m', e, down)})"
        if k == 11 and e.far:
            return f"{self.named('M', e, down)}[{self.far(e)}]"
        if k == 12:
            return f"if {self.test(e)} then {self.of('m', e, down)} else {self.of('m', e, down)}"
        if k == 13:
            u, j = g.name("u"), g.name("j")
            inner = e.plus("m", u).counting(near=j)
            if g.p(0.5):
                start = f"copy {self.of('m', e, down)}"
                step = g.c(f"{u} with [{self.near(inner)}] = {self.apart(u, self.of('v', inner, down))}", f"{u} with [:, {self.near(inner)}] = {self.apart(u, self.of('v', inner, down))}",
                           f"{u} with [{self.near(inner)}, {self.near(inner)}] = {self.of('s', inner, down)}")  # fmt: skip
                return f"loop ({u}: *[{d}][{d}]t) = {start} for {j} < {g.c(2, d)} do {step}"
            return f"loop ({u}: [{d}][{d}]t) = {self.of('m', e, down)} for {j} < {g.c(2, d)} do map (map small) {self.of('m', inner, down)}"
        return f"map2 (map2 (+)) {self.of('m', e, down)} {self.of('m', e, down)}"

    def point(self, e: _Env, depth: int) -> str:
        g, down = self.g, depth - 1
        k = g.r.randrange(6)
        if depth > 0 and k == 0:
            return f"{self.of('p', e, down)} with w = {self.of('s', e, down)}"
        if depth > 0 and k == 1:
            return f"if {self.test(e)} then {self.of('p', e, down)} else {self.of('p', e, down)}"
        if depth > 0 and k == 2:
            q, j = g.name("p"), g.name("j")
            inner = e.plus("p", q).counting(near=j)
            return f"loop {q} = {self.of('p', e, down)} for {j} < {g.c(2, 3)} do squashed {self.of('p', inner, down)}"
        if depth > 0 and k == 3:
            shape = g.c(f"#ball {self.of('s', e, down)}", f"#box {self.of('v', e, down)}", f"#turned {self.of('m', e, down)}")
            other = g.c(f"#ball {self.of('s', e, down)}", f"#box {self.of('v', e, down)}", "#none")
            choice = f"if {self.test(e)} then {shape} else {other}" if g.p(0.6) else shape
            return f"of_shape ({choice}) {self.of('p', e, down)}"
        return f"{{at = {self.of('v', e, down)}, w = {self.of('s', e, down)}}}"

    def columns(self, e: _Env, depth: int) -> str:
        g, down = self.g, depth - 1
        k = g.r.randrange(3)
        if k == 0 and depth > 0:
            x, row = g.name("s"), g.name("S")
            return f"map2 (\\{x} ({row}: [n]t) -> {self.of('S', e.plus('s', x).plus('S', row), down)}) {self.of('v', e, down)} {self.of('W', e, down)}"
        if k == 1 and depth > 0:
            i = self.near(e)
            return f"copy {self.of('W', e, down)} with [{i}] = {self.of('S', e, down)}"
        return f"transpose {self.of('V', e, down)}"

    def many(self, e: _Env, depth: int, kind: str = "s") -> str:
        """n values of a kind."""
        g, d, down = self.g, self.d, depth - 1
        if depth <= 0:
            x = g.name("x")
            of = {"s": f"small {x}", "v": f"replicate {d} {x}", "m": f"replicate {d} (replicate {d} {x})", "p": f"{{at = replicate {d} {x}, w = 0.5}}"}[kind]
            return f"map (\\{x} -> {of}) xs"
        k = g.r.randrange(12)
        if k <= 3:
            names, arrays, inner = [], [], e
            for _ in range(g.c(1, 2, 2, 3)):
                of = g.c(*"svvmmp")
                x = g.name(of)
                arrays.append(self.of(MANY[of], e, down))
                names.append(f"({x}: {self.type(of)})")
                inner = inner.plus(of, x)
            return f"map{len(names) if len(names) > 1 else ''} (\\{' '.join(names)} -> {self.body(kind, inner, down)}) {' '.join(arrays)}"
        if k == 4:
            i = g.name("i")
            return f"tabulate n (\\{i} -> {self.body(kind, e.counting(far=i), down)})"
        if k in (5, 6) and kind != "p":
            a, i = g.name(MANY[kind]), g.name("i")
            inner = e.plus(MANY[kind], a).counting(far=i)
            head, first = g.counted(i, "n")
            place = self.far(inner)
            value = self.of(kind, inner, down)
            step = f"{a} with [{place}] = {value if kind == 's' else self.apart(a, value)}"
            if kind == "v" and g.p(0.3):
                step = f"{a} with [{place}, {self.near(inner)}] = {self.of('s', inner, down)}"
            if kind == "m" and g.p(0.5):
                step = f"{a} with [{place}, {g.c('', ':, ')}{self.near(inner)}] = {self.apart(a, self.of('v', inner, down))}"
            return f"loop ({a}: *{self.type(MANY[kind])}) = copy {self.of(MANY[kind], e, down)} {head} {first}{step}"
        if k == 7:
            op, zero = {"s": ("(+)", "0"), "v": ("(map2 (+))", f"(replicate {d} 0)"), "m": ("times", "unit"), "p": ("", "")}[kind]
            if op:
                squash = {"s": "map small", "v": "map (map small)", "m": "map (map (map small))"}[kind]
                return f"{squash} (scan {op} {zero} {self.of(MANY[kind], e, down)})"
        if k == 8 and kind in "sv":
            op, zero = {"s": ("(+)", "0"), "v": ("(map2 (+))", f"(replicate {d} 0)")}[kind]
            into = g.c(f"(copy {self.of(MANY[kind], e, down)})", f"(replicate n {zero})")
            return f"reduce_by_index {into} {op} {zero} is {self.of(MANY[kind], e, down)}"
        if k == 9 and kind in "svm":
            return f"scatter (copy {self.of(MANY[kind], e, down)}) (map (\\i -> {g.c('n - 1 - i', '2 * i', 'i - 1', '(i + 1) % n')}) (iota n)) {self.of(MANY[kind], e, down)}"
        if k == 10:
            return f"map (\\i -> {self.named(MANY[kind], e, down)}[i]) is"
        if kind == "v" and g.p(0.5):
            return f"transpose {self.of('W', e, down)}"
        if kind == "s" and g.p(0.5):
            return f"{self.named('W', e, down)}[{self.near(e)}]"
        return g.c("reverse", "rotate 1", "copy") + " " + self.of(MANY[kind], e, down)


def smalls(g: Gen) -> Program:
    """Some variables one after the other, each of others, of which some are the results."""
    y = _Typed(g)
    d = y.d
    unit = f"(tabulate_2d {d} {d} (\\i j -> if i == j then 1 else 0))"
    sum_ = g.c("t.sum (map2 (*) a b)", f"(loop s = 0 for j < {d} do s + a[j] * b[j])", " + ".join(f"a[{j}] * b[{j}]" for j in range(d)))
    helpers = f"""type point@ = {{at: [{d}]t, w: t}}
type shape@ = #none | #ball t | #box ([{d}]t) | #turned ([{d}][{d}]t)
def unit@ : [{d}][{d}]t = {unit}
def dot@ (a: [{d}]t) (b: [{d}]t) : t = {sum_}
def apply@ (a: [{d}][{d}]t) (x: [{d}]t) : [{d}]t = {g.c('map (dot@ x) a', 'map (%r -> dot@ r x) a', f'tabulate {d} (%i -> dot@ a[i] x)').replace('%', chr(92))}
def times@ (a: [{d}][{d}]t) (b: [{d}][{d}]t) : [{d}][{d}]t = {g.c('map (%r -> map (dot@ r) (transpose b)) a', f'tabulate_2d {d} {d} (%i j -> dot@ a[i] b[:, j])', 'map (apply@ (transpose b)) a', 'transpose (map (apply@ a) (transpose b))').replace('%', chr(92))}
def squashed@ (p: point@) : point@ = {{at = map small p.at, w = small (p.w + p.at[0])}}
def of_shape@ (s: shape@) (p: point@) : point@ = match s
  case #none -> p
  case #ball r -> {g.c('p with w = r * p.w', '{at = map (* r) p.at, w = p.w}')}
  case #box v -> {g.c('p with at = map2 (+) v p.at', '{at = v, w = dot@ v p.at}')}
  case #turned m -> {g.c('p with at = apply@ m p.at', '{at = apply@ (transpose m) p.at, w = m[0, 1]}')}
"""
    params = [Param("xs", ("n",)), Param("is", ("n",), "n")]
    env = _Env({"S": ["xs"]})
    for name, kind, shape in (("c", "s", ()), ("one", "v", (d,)), ("frame", "m", (d, d)), ("all", "V", ("n", d)), ("frames", "M", ("n", d, d)), ("columns", "W", (d, "n"))):
        if g.p(0.55) or kind in "vV":
            params.append(Param(name, shape))
            env = env.plus(kind, name)
    text, made = "", []
    for _ in range(g.c(1, 2, 2, 3, 4)):
        kind = g.c(*"svmSVVMWp")
        x = g.name(kind)
        y.fuel = max(y.fuel, 6)
        text += f"  let {x} : {y.type(kind)} = {y.of(kind, env, g.c(2, 3, 3, 4))} in\n"
        env = env.plus(kind, x)
        made.append((x, kind))
    shapes: dict[str, tuple[Dim, ...]] = {"s": (), "v": (d,), "m": (d, d), "S": ("n",), "V": ("n", d), "M": ("n", d, d), "W": (d, "n")}
    outs = [(f"{x}.at" if kind == "p" else x, shapes["v" if kind == "p" else kind]) for x, kind in made]
    outs = outs[-1:] if g.p(0.5) else outs[-3:]
    names = ["point", "shape", "unit", "dot", "apply", "times", "squashed", "of_shape"]
    text = _tagged(text, names)
    out = outs[0][0] if len(outs) == 1 else f"({', '.join(x for x, _ in outs)})"
    return g.program("smalls", params, [s for _, s in outs], f"{text}  {out}", helpers, {"n": 1}, {"n": 6})


def _tagged(text: str, names: list[str]) -> str:
    """The helpers' names as top-level ones."""
    import re

    return re.sub(rf"(?<![\w.#])({'|'.join(names)})\b", r"\1@", text)


FAMILIES = [smalls]
