# ruff: noqa: E501 (programs read better unbroken)
"""Expressions drawn by their types: each construct of the language stands directly inside each other one.

Scalars, vectors of n, matrices of n by n, places, truth values, and values of a record and of a sum type; all bounded.
Decisions compare with odd thresholds, or places.
"""

from __future__ import annotations

from collections.abc import Callable

from futad.testing.skeletons.base import Gen, Param, Program, par

TYPES = {"s": "t", "v": "[n]t", "m": "[n][n]t", "i": "i64"}
HELPERS = """type pick@ [n] = { one: t, row: [n]t, at: i64, deep: { x: t, y: [n]t } }
type sum@ [n] = #none | #one t | #row ([n]t, t) | #at i64 | #two { x: t, y: t }
"""


class Crossed:
    """Expressions over the variables in scope, by type; `left` is how many constructs the program may still have."""

    def __init__(self, g: Gen, left: int) -> None:
        self.g, self.left = g, left
        self.scope: dict[str, list[str]] = {k: [] for k in "svmirc"}
        self.makers: dict[str, list[Callable[[int], str]]] = {
            "s": [self.s_op, self.s_op, self.s_fold, self.s_fold, self.s_loop, self.s_while, self.s_at, self.s_derivative, self.s_kept, self.s_part],
            "v": [self.v_map, self.v_map, self.v_map, self.v_scan, self.v_loop, self.v_loop, self.v_places, self.v_places, self.v_update, self.v_update, self.v_view, self.v_view, self.v_derivative, self.v_kept, self.v_pieces],
            "m": [self.m_map, self.m_map, self.m_view, self.m_update, self.m_loop, self.m_scan],
        }  # fmt: skip
        self.shared = [self.branch, self.match, self.local, self.field]  # of any type

    def make(self, kind: str, depth: int) -> str:
        """An expression of that type, in parentheses if it is not a name."""
        g = self.g
        if depth <= 0 or self.left <= 0 or g.p(0.08):
            return self.atom(kind)
        self.left -= 1
        maker = g.c(*self.makers[kind]) if g.p(0.78) else None
        text = maker(depth - 1) if maker else g.c(*self.shared)(kind, depth - 1)
        return f"({text})"

    def atom(self, kind: str) -> str:
        g = self.g
        if kind == "s" and g.p(0.25):
            return g.number()
        if kind == "i":
            return self.place()
        return g.c(*self.scope[kind][-4:], *self.scope[kind][:1])

    def place(self) -> str:
        """A place from 0 to below n."""
        g = self.g
        names = self.scope["i"]
        if not names or g.p(0.2):
            return g.c("0", "(n - 1)", "(n / 2)")
        i = g.c(*names[-3:])
        return g.c(i, i, f"(n - 1 - {i})", f"(({i} * 2 + 1) % n)", f"(({i} + 1) % n)")

    def under(self, kinds: str, body: Callable[[], str]) -> tuple[list[str], str]:
        """Names of these types, and what `body` makes with them in scope."""
        names = [self.g.name({"s": "x", "v": "v", "m": "w", "i": "i"}[k]) for k in kinds]
        for k, name in zip(kinds, names, strict=True):
            self.scope[k].append(name)
        text = body()
        for k in kinds:
            self.scope[k].pop()
        return names, text

    def lam(self, kinds: str, result: str, depth: int) -> str:
        names, body = self.under(kinds, lambda: self.make(result, depth))
        return f"(\\{' '.join(names)} -> {body})"

    def condition(self, depth: int) -> str:
        g = self.g
        g.smooth = False
        c = g.c(
            lambda: f"{self.make('s', depth)} < {g.c('0.1357', '0.4321', '(-0.2468)')}", lambda: f"{self.place()} {g.c('<', '==', '>=')} {self.place()}",
            lambda: f"{self.place()} % 2 == {g.c(0, 1)}", lambda: f"any (> {g.c('0.7531', '1.2345')}) {self.make('v', depth)}", lambda: f"all (< 0.9753) {self.make('v', depth)}",
        )()  # fmt: skip
        more = f"{c} {g.c('&&', '||')} {self.place()} < {self.place()}"
        return g.c(c, c, f"!({c})", f"({more})")

    # -- of any type

    def branch(self, kind: str, depth: int) -> str:
        return f"if {self.condition(depth)} then {self.make(kind, depth)} else {self.make(kind, depth)}"

    def sum_value(self, depth: int) -> str:
        g = self.g
        made = [
            lambda: "#none", lambda: f"#one {self.make('s', depth)}", lambda: f"#row ({self.make('v', depth)}, {self.make('s', depth)})",
            lambda: f"#at {self.place()}", lambda: f"#two {{ x = {self.make('s', depth)}, y = {self.make('s', depth)} }}",
        ]  # fmt: skip
        a, b = g.c(*made)(), g.c(*made)()
        return f"(if {self.condition(depth)} then {a} else {b})"

    def match(self, kind: str, depth: int) -> str:
        """The cases of a value of the sum type, by itself or of each element of an array of them."""
        (i,), value = self.under("i", lambda: self.sum_value(depth))
        one = self.under("s", lambda: self.make(kind, depth))
        row = self.under("vs", lambda: self.make(kind, depth))
        at = self.under("i", lambda: self.make(kind, depth))
        two = self.under("ss", lambda: self.make(kind, depth))
        cases = f"case #none -> {self.make(kind, depth)} case #one {one[0][0]} -> {one[1]} case #row ({row[0][0]}, {row[0][1]}) -> {row[1]} case #at {at[0][0]} -> {at[1]} case #two {{ x = {two[0][0]}, y = {two[0][1]} }} -> {two[1]}"
        c = self.g.name("c")
        made = f"let {c} = map (\\{i} : sum@ [n] -> {value}) (iota n) in"
        return f"{made} match {c}[{self.place()}] {cases}"

    def local(self, kind: str, depth: int) -> str:
        """What is bound first: a value, or a function that is called twice."""
        g = self.g
        k = g.c("s", "v", "m") if kind != "s" else g.c("s", "v")
        if g.p(0.5):
            value = self.make(k, depth)
            (name,), body = self.under(k, lambda: self.make(kind, depth))
            return f"let {name} = {value} in {body}"
        (x,), inside = self.under(k, lambda: self.make(kind, depth))
        h = g.name("h")
        return self.combined(kind, f"{h} {self.make(k, depth)}", f"{h} {self.make(k, depth)}", f"let {h} ({x}: {TYPES[k]}) : {TYPES[kind]} = {inside} in ")

    def combined(self, kind: str, a: str, b: str, before: str = "") -> str:
        zip_ = {"s": "small (X + 0.5 * Y)", "v": "map2 (\\p q -> small (p - 0.7 * q)) (X) (Y)", "m": "map2 (map2 (\\p q -> small (p + q * 0.6))) (X) (Y)"}[kind]
        return before + zip_.replace("X", a).replace("Y", b)

    def field(self, kind: str, depth: int) -> str:
        """Of a record whose fields are updated."""
        g = self.g
        r = g.name("r")
        made = f"let {r} : pick@ [n] = {{ one = {self.make('s', depth)}, row = {self.make('v', depth)}, at = {self.place()}, deep = {{ x = {self.make('s', depth)}, y = {self.make('v', depth)} }} }} in "
        own = {"s": [f"{r}.one", f"{r}.deep.x", f"{r}.row[{r}.at]"], "v": [f"{r}.row", f"{r}.deep.y"], "i": [f"{r}.at"]}
        for k, names in own.items():
            self.scope[k] += names
        changes = ""
        for _ in range(g.r.randint(0, 2)):
            f, k = g.c(("one", "s"), ("row", "v"), ("deep.x", "s"), ("deep.y", "v"))
            value = self.make(k, depth)
            changes += g.c(f"let {r} = {r} with {f} = {value} in ", f"let {r} = if {self.condition(depth)} then {r} with {f} = {value} else {r} in ",
                           f"let {r} = loop ({r}: pick@ [n]) = {r} for j < 2 do {r} with {f} = {value} in ")  # fmt: skip
        body = self.make(kind, depth)
        for k, names in own.items():
            del self.scope[k][-len(names):]
        return made + changes + body

    # -- scalars

    def s_op(self, depth: int) -> str:
        return self.g.mix(*[self.make("s", depth) for _ in range(self.g.r.randint(1, 2))])

    def s_fold(self, depth: int) -> str:
        g = self.g
        v = self.make("v", depth)
        kind = g.r.randrange(7)
        if kind == 0:
            return f"small (t.sum {v})"
        if kind == 1:
            return f"small (reduce (*) 1 (map (\\z -> 1 + 0.3 * small z) {v}))"
        if kind == 2:
            g.smooth = False
            return f"(reduce (\\(a, i) (b, j) -> if a > b || a == b && i < j then (a, i) else (b, j)) (-1000, n) (zip {v} (iota n))).0"
        if kind == 3:
            return f"(let (a, b) = reduce (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (zip (map small {v}) {self.make('v', depth)}) in small (a - b))"
        if kind == 4:
            return f"foldl {self.lam('ss', 's', depth)} {self.make('s', depth)} {v}"
        if kind == 5:
            return f"small (t.sum (map2 (\\p q -> t.sum (map2 (*) p q)) {self.make('m', depth)} (transpose {self.make('m', depth)})))"
        return f"small (t.sum (map {self.lam('v', 's', depth)} {self.make('m', depth)}))"

    def s_loop(self, depth: int) -> str:
        g = self.g
        x0, v0 = self.make("s", depth), self.make("v", depth)
        if g.p(0.4):
            names, body = self.under("ss", lambda: self.make("s", depth))
            return f"loop {names[0]} = {x0} for {names[1]} in {v0} do small {body}"
        (i, x, v), body = self.under("isv", lambda: f"(small {self.make('s', depth)}, {self.make('v', depth)})")
        return f"(loop ({x}, {v}: [n]t) = ({x0}, {v0}) for {i} < {g.c('n', '(i64.min 2 n)', self.place())} do {body}).0"

    def s_while(self, depth: int) -> str:
        g = self.g
        g.smooth = False
        x0 = self.make("s", depth)
        (i, x), body = self.under("is", lambda: self.make("s", depth))
        go = g.name("go")
        test = f"small {x} < {g.c('0.4913', '0.3719', '0.2357')}"
        return f"(loop ({x}, {i}, {go}) = ({x0}, 0, true) while {go} && {i} < n do let {x} = small {body} + 0.11 in ({x}, {i} + 1, {test})).0"

    def s_at(self, depth: int) -> str:
        g = self.g
        return g.c(lambda: f"{self.make('v', depth)}[{self.place()}]", lambda: f"{self.make('m', depth)}[{self.place()}, {self.place()}]",
                   lambda: f"(flatten {self.make('m', depth)})[{self.place()} * n + {self.place()}]",
                   lambda: f"last {self.make('v', depth)}")()  # fmt: skip

    def s_derivative(self, depth: int) -> str:
        g = self.g
        if g.p(0.5):
            return f"small (jvp {self.lam('s', 's', depth)} {self.make('s', depth)} {self.make('s', depth)})"
        return f"small (vjp {self.lam('s', 's', depth)} {self.make('s', depth)} 1)"

    def s_kept(self, depth: int) -> str:
        """Of what a filter keeps."""
        g = self.g
        g.smooth = False
        (x,), test = self.under("s", lambda: self.condition(depth - 1))
        v = self.make("v", depth)
        q = g.name("q")
        use = g.c(f"small (t.sum {q})", f"reduce t.max (-1) {q}", f"(loop a = 0.2 for z in {q} do small (a + z))", f"(if length {q} > 1 then {q}[1] - last {q} else 0.3)", f"t.i64 (length {q}) * 0.1")
        if g.p(0.5):
            return f"let {q} = filter (\\{x} -> {test}) {v} in {use}"
        return f"let ({q}, rest) = partition (\\{x} -> {test}) {v} in {use} - small (t.sum rest)"

    def s_part(self, depth: int) -> str:
        """Of the part of a vector before a place, or after it."""
        v, i = self.make("v", depth), self.place()
        return self.g.c(f"small (t.sum (take {i} {v}))", f"small (t.sum {v}[{i}:])", f"small (t.sum (map2 (*) {v}[:{i}] (reverse {v}[:{i}])))", f"foldr (\\a b -> small (a - b)) 0.1 {v}[:{i}]",
                        f"small (t.sum (map {self.lam('i', 's', depth)} (0..<{i})))")  # fmt: skip

    # -- vectors

    def v_map(self, depth: int) -> str:
        g = self.g
        attr = g.c("", "", "", "", "#[sequential] ", "#[unsafe] ")
        return attr + g.c(
            lambda: f"map {self.lam('s', 's', depth)} {self.make('v', depth)}", lambda: f"map2 {self.lam('ss', 's', depth)} {self.make('v', depth)} {self.make('v', depth)}",
            lambda: f"tabulate n {self.lam('i', 's', depth)}", lambda: f"map {self.lam('v', 's', depth)} {self.make('m', depth)}",
            lambda: f"map3 {self.lam('svi', 's', depth)} {self.make('v', depth)} {self.make('m', depth)} (iota n)",
            lambda: f"(unzip (map (\\z -> (small z, z * {self.make('s', depth)})) {self.make('v', depth)})).{g.c(0, 1)}",
            lambda: f"map {self.lam('i', 's', depth)} (0..1..<n) :> [n]t",
        )()  # fmt: skip

    def v_scan(self, depth: int) -> str:
        g = self.g
        v = self.make("v", depth)
        return g.c(f"map small (scan (+) 0 {v})", f"map small (scan (+) 0 {v}[::-1])", f"map (\\z -> small (z - 1)) (scan (*) 1 (map (\\z -> 1 + 0.3 * small z) {v}))",
                   f"map (\\(a, b) -> small (a + b)) (scan (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (zip (map small {v}) {self.make('v', depth)}))",
                   f"map small (reduce (map2 (+)) (replicate n 0) {self.make('m', depth)})")  # fmt: skip

    def v_loop(self, depth: int) -> str:
        g = self.g
        v0 = self.make("v", depth)
        count = g.c("n", "n", "(i64.min 2 n)", self.place())
        if g.p(0.35):
            (i, v), body = self.under("iv", lambda: self.make("v", depth))
            return f"loop ({v}: [n]t) = {v0} for {i} < {count} do map small {body}"
        (i, v), body = self.under("iv", lambda: f"with [{self.place()}] = small {self.make('s', depth)}")
        step = f"{v} {body}"
        if g.p(0.3):
            step = f"let keep = {i} % 3 != 1 in if keep then {step} else {v}"
        return f"loop ({v}: *[n]t) = copy {v0} for {i} < {count} do {step}"

    def v_places(self, depth: int) -> str:
        g = self.g
        (i,), to = self.under("i", lambda: g.c(self.place(), f"{self.place()} - 1", f"({self.place()} * {self.place()}) % (n + 1)"))
        places = f"(map (\\{i} -> {to}) (iota n))"
        v, w = self.make("v", depth), self.make("v", depth)
        if g.p(0.35):  # each place once
            return f"scatter (copy {v}) (map (\\i -> (i + {self.place()}) % n) (iota n)) {w}"
        op, unit = g.c(("(+)", "0"), ("t.max", "(-3)"), ("(\\a b -> a * b + a + b)", "0"))
        small = f"(map small {w})"
        if g.p(0.5):
            return f"map small (reduce_by_index (copy (map small {v})) {op} {unit} {places} {small})"
        return f"map (\\z -> if z < -2.5 then 0.1 else small z) (hist {op} {unit} n {places} {small})"

    def v_update(self, depth: int) -> str:
        g = self.g
        v, w = self.make("v", depth), self.make("v", depth)
        i = self.place()
        return g.c(f"copy {v} with [{i}] = {self.make('s', depth)}", f"let u = copy {v} in u with [{i}:] = copy {w}[{i}:]", f"let u = copy {v} in let z = copy u[:{i}] in u with [n - {i}:] = z",
                   f"let u = copy {v} in u with [::-1] = copy {w}", f"let u = copy {v} in let z = copy u[:n - 1] in u with [1:] = map2 (\\p q -> small (p + q)) z {w}[1:]",
                   f"let u = copy {v} in let z = map small u[::2] in u with [::2] = z")  # fmt: skip

    def v_view(self, depth: int) -> str:
        g = self.g
        m, v = self.make("m", depth), self.make("v", depth)
        i = self.place()
        return g.c(f"{m}[{i}]", f"{m}[:, {i}]", f"{v}[::-1]", f"rotate {i} {v}", f"reverse {v}", f"map (\\i -> {m}[i, i]) (iota n)", f"copy {m}[{i}]", f"(transpose {m})[{i}]",
                   f"tabulate n (\\i -> {m}[i, (i + {i}) % n])", f"replicate n {self.make('s', depth)}")  # fmt: skip

    def v_pieces(self, depth: int) -> str:
        """Put together from parts; what a filter keeps, padded."""
        g = self.g
        v, w, i = self.make("v", depth), self.make("v", depth), self.place()
        if g.p(0.6):
            return g.c(f"(take {i} {v} ++ drop {i} {w}) :> [n]t", f"({v}[{i}:] ++ {w}[:{i}]) :> [n]t", f"([{self.make('s', depth)}] ++ {v}[1:]) :> [n]t", f"concat {v}[:{i}] (reverse {w}[{i}:]) :> [n]t")
        g.smooth = False
        q = g.name("q")
        return f"let {q} = filter (> {g.c('0.1357', '(-0.3579)')}) {v} in tabulate n (\\i -> if i < length {q} then {q}[i] else {w}[i])"

    def v_derivative(self, depth: int) -> str:
        g = self.g
        v, w = self.make("v", depth), self.make("v", depth)
        return g.c(lambda: f"map small (vjp {self.lam('v', 's', depth)} {v} 1)", lambda: f"map small (vjp {self.lam('v', 'v', depth)} {v} {w})",
                   lambda: f"map small (jvp {self.lam('v', 'v', depth)} {v} {w})", lambda: f"map (\\z -> small (vjp {self.lam('s', 's', depth)} z 1)) {v}",
                   lambda: f"let (y, d) = jvp2 {self.lam('v', 'v', depth)} {v} {w} in map2 (\\p q -> small (p - q)) y d",
                   lambda: f"map small (jvp (\\z -> vjp {self.lam('v', 's', depth)} z 1) {v} {w})")()  # fmt: skip

    def v_kept(self, depth: int) -> str:
        """Of a while loop with a flag."""
        g = self.g
        g.smooth = False
        v0 = self.make("v", depth)
        (i, v), body = self.under("iv", lambda: self.make("v", depth))
        return f"(loop ({v}: [n]t, {i}, go) = ({v0}, 0, true) while go && {i} < n do let w = map small {body} in (w, {i} + 1, t.sum w > {g.c('0.0971', '0.5119', '-0.3117')})).0"

    # -- matrices

    def m_map(self, depth: int) -> str:
        return self.g.c(
            lambda: f"map {self.lam('v', 'v', depth)} {self.make('m', depth)}", lambda: f"map2 {self.lam('vs', 'v', depth)} {self.make('m', depth)} {self.make('v', depth)}",
            lambda: f"tabulate_2d n n {self.lam('ii', 's', depth)}", lambda: f"map {self.lam('i', 'v', depth)} (iota n)",
            lambda: f"map (\\p -> map (\\q -> small (p * q)) {self.make('v', depth)}) {self.make('v', depth)}", lambda: f"map (map {self.lam('s', 's', depth)}) {self.make('m', depth)}",
        )()  # fmt: skip

    def m_view(self, depth: int) -> str:
        m, w, i = self.make("m", depth), self.make("m", depth), self.place()
        return self.g.c(f"transpose {m}", f"reverse {m}", f"{m}[::-1, ::-1]", f"rotate {i} {m}", f"map reverse {m}", f"unflatten (rotate {i} (flatten {m}))", f"(take {i} {m} ++ drop {i} {w}) :> [n][n]t", f"replicate n {self.make('v', depth)}")

    def m_update(self, depth: int) -> str:
        m, v, i = self.make("m", depth), self.make("v", depth), self.place()
        return self.g.c(f"copy {m} with [{i}] = copy {v}", f"copy {m} with [:, {i}] = copy {v}", f"copy {m} with [{i}, {self.place()}] = {self.make('s', depth)}", f"let u = copy {m} in let z = copy u[{i}] in u with [:, {i}] = z",
                        f"let u = copy {m} in u with [{i}, :{i}] = copy {v}[:{i}]")  # fmt: skip

    def m_loop(self, depth: int) -> str:
        m0 = self.make("m", depth)
        (i, m), body = self.under("im", lambda: self.make("v", depth))
        if self.g.p(0.4):
            (i, m), whole = self.under("im", lambda: self.make("m", depth))
            return f"loop ({m}: [n][n]t) = {m0} for {i} < i64.min 2 n do map (map small) {whole}"
        return f"loop ({m}: *[n][n]t) = copy {m0} for {i} < n do let z = copy {body} in {m} with [{self.g.c(i, f'n - 1 - {i}', f':, {i}')}] = z"

    def m_scan(self, depth: int) -> str:
        return f"map (map small) (scan (map2 (+)) (replicate n 0) {self.make('m', depth)})"


def drawn(made: Crossed, family: str, helpers: str) -> Program:
    """A few such expressions, each over the ones before."""
    g = made.g
    made.scope |= {"s": ["a"], "v": ["x", "y"], "m": ["w"], "i": ["d"]}
    body = ""
    outs: list[tuple[str, tuple[str, ...]]] = []
    for _ in range(g.r.randint(1, 3)):
        kind = g.c("s", "v", "v", "m")
        name = g.name("o")
        body += f"  let {name} : {TYPES[kind]} = {made.make(kind, g.r.randint(2, 5))} in\n"
        made.scope[kind].append(name)
        outs.append((name, {"s": (), "v": ("n",), "m": ("n", "n")}[kind]))
    out = outs[0][0] if len(outs) == 1 else f"({', '.join(o for o, _ in outs)})"
    params = [Param("a"), Param("x", ("n",)), Param("y", ("n",)), Param("w", ("n", "n")), Param("d", (), "n")]
    return g.program(family, params, [s for _, s in outs], f"{body}  {par(out)}", helpers, {"n": 1}, {"n": 6})


def crossed(g: Gen) -> Program:
    return drawn(Crossed(g, g.r.randint(8, 24)), "crossed", HELPERS)


FAMILIES = [crossed]
