# ruff: noqa: E501 (programs read better unbroken)
"""Derivatives inside programs: of functions of tuples and records, integers among them, with several results; taken in
maps, loops and of each other, with what they are of captured from outside."""

from __future__ import annotations

from futad.testing.skeletons.base import Dim, Gen, Param, Program

N = "[n]t"


class _Function:
    """A function of a number, a vector, a vector in a record and an integer: `(a, v, r, k)`."""

    def __init__(self, g: Gen) -> None:
        self.g = g
        self.s = ["a", "r.p"]
        self.v = ["v", "r.q"]

    def scalar(self) -> str:
        g = self.g
        v = g.c(*self.v)
        return g.c(g.mix(g.c(*self.s), g.c(*self.s)), f"small (t.sum {v})", f"{v}[k % n]", f"{v}[{g.c('0', 'n - 1')}]", f"t.sum (map2 (*) {v} {g.c(*self.v)})",
                   f"reduce softmax (-1000) {v}", f"(loop s = {g.c(*self.s)} for x in {v} do {g.mix('s', 'x')})",
                   f"(loop (s, j) = ({g.c(*self.s)}, 0) while j < {g.c('k', '2', 'n')} && s < 0.8765 do ({g.mix('s', v + '[j % n]')} + 0.2, j + 1)).0",
                   f"(if k % 2 == {g.c('0', '1')} then {g.c(*self.s)} else {g.mix(f'{v}[0]')})", f"t.i64 k * 0.3 * {g.c(*self.s)}")  # fmt: skip

    def vector(self) -> str:
        g = self.g
        v, w, s = g.c(*self.v), g.c(*self.v), g.c(*self.s)
        return g.c(f"map2 (\\x y -> {g.mix('x', 'y', s)}) {v} {w}", f"map (\\x -> {g.mix('x', s)}) {v}", f"scan (+) 0 {v}", f"reverse {v}", f"rotate k {v}",
                   f"(loop (o: *{N}) = copy {v} for j < n do o with [{g.at('j', 'n')}] = {g.mix('o[j]', f'{w}[(j + k) % n]', s)})",
                   f"(copy {v} with [k % n] = {s})", f"reduce_by_index (copy {v}) (+) 0 is {w}", f"map (\\i -> {v}[i]) is",
                   f"(if {g.c('k > 1', s + ' < 0.2317')} then {v} else map small {w})", f"tabulate n (\\i -> loop s = {s} for j < i do {g.mix('s', f'{v}[j]')})",
                   f"map (\\row -> small (t.sum (map2 (*) row {v}))) {g.c('ms', '(transpose ms)')}")  # fmt: skip

    def lets(self) -> str:
        text = ""
        for _ in range(self.g.r.randint(1, 3)):
            if self.g.p(0.5):
                x, value = self.g.name("s"), self.scalar()
                text += f"  let {x} : t = {value} in\n"
                self.s.append(x)
            else:
                x, value = self.g.name("v"), self.vector()
                text += f"  let {x} : {N} = {value} in\n"
                self.v.append(x)
        return text


def gradients(g: Gen) -> Program:
    """Some uses of derivatives of two such functions."""
    g.smooth = False  # of some branches of floats
    fixed = f"(is: [n]i64) (ms: [n]{N})"
    helpers = f"type both@ [n] = {{p: t, q: {N}}}\n"
    f, h = _Function(g), _Function(g)
    helpers += f"def f1@ [n] {fixed} (a: t, v: {N}, r: both@ [n], k: i64) : (t, {N}, i64) =\n{f.lets()}  ({f.s[-1]} + 0.1 * {f.scalar()}, {f.vector()}, {g.c('k + 1', '2 * k', 'k', 'i64.max k 1')})\n"
    body = h.lets()
    if g.p(0.4):  # with the derivative of the first one inside
        body += "  let (o, e, _) = f1@ is ms (a, v, r, k) in\n"
        body += g.c("  let w = vjp (\\v -> (f1@ is ms (a, v, r, k)).0) v 0.7 in\n", "  let w = jvp (\\a -> (f1@ is ms (a, v, r, k)).1) a 0.5 in\n", "  let w = map (\\x -> small (vjp (\\a -> (f1@ is ms (a, v, r, k)).0) x 1)) v in\n")
        h.s.append("o")
        h.v += ["e", "w", "w"]
    helpers += f"def f2@ [n] {fixed} (a: t, v: {N}, r: both@ [n], k: i64) : t =\n{body}  small ({h.scalar()} + {h.scalar()})\n"
    scalars, vectors, lets = ["a"], ["v", "q"], ""

    def number() -> str:
        return g.c(*scalars, "0.6")

    def record() -> str:
        return f"{{p = {number()}, q = {g.c(*vectors)}}}"

    def point() -> str:
        return f"({number()}, {g.c(*vectors)}, {record()}, {g.c('k', '2', 'n', 'is[0]')})"

    def direction() -> str:
        return f"({g.c(number(), '1', '0')}, {g.c(*vectors)}, {{p = {g.c('0', '1')}, q = {g.c(*vectors, 'replicate n 0')}}}, {g.c('0', '0', '1')})"

    one, two = "(f1@ is ms)", "(f2@ is ms)"
    for _ in range(g.r.randint(1, 3)):
        s, v, w, m = g.name("s"), g.name("v"), g.name("w"), g.name("m")
        k = g.r.randrange(12)
        seeds = f"({g.c('1', number())}, {g.c(*vectors)}, {g.c('0', '1')})"
        if k == 0:
            lets += f"  let ({s}, {v}, _) = jvp {one} {point()} {direction()} in\n"
        elif k == 1:
            lets += f"  let ({s}, {v}, {w}r, _) = vjp {one} {point()} {seeds} in let {w} = map (+ {w}r.p) {w}r.q in\n"
        elif k == 2:
            lets += f"  let (({s}, {v}, _), ({s}b, {w}, _, _)) = vjp2 {one} {point()} {seeds} in let {s} = {s} - 0.5 * {s}b in\n"
        elif k == 3:
            lets += f"  let (({s}, {v}, {m}), ({s}d, {w}, {m}d)) = jvp2 {one} {point()} {direction()} in let {s} = {s} * {s}d + 0.01 * t.i64 (({m} + {m}d) % 7) in\n"
        elif k == 4:
            x = g.c("jvp (\\z -> vjp (\\z -> {f}) z 1) {v} {d}", "vjp (\\z -> jvp (\\z -> {f}) z {d}) {v} 1", "vjp (\\z -> vjp (\\z -> {f}) z 1) {v} {d}")
            inner = f"{two} ({number()}, z, {record()}, k)"
            lets += f"  let {v} : {N} = {x.format(f=inner, v=g.c(*vectors), d=g.c(*vectors))} in let {s} = small (t.sum {v}) in\n"
            vectors.append(v)
            scalars.append(s)
            continue
        elif k == 5:
            lets += f"  let {v} : {N} = map{g.c('', '')} (\\x -> small (vjp (\\a -> {two} (a, {g.c(*vectors)}, {record()}, k)) x 1)) {g.c(*vectors)} in let {s} = {v}[n - 1] in\n"
            vectors.append(v)
            scalars.append(s)
            continue
        elif k == 6:
            lets += f"  let {v} : {N} = loop (z: {N}) = {g.c(*vectors)} for j < {g.c('2', '3')} do let d = vjp (\\z -> {two} ({number()}, z, {record()}, j)) z 1 in map2 (\\x d -> x - 0.3 * small d) z d in let {s} = {v}[0] in\n"
            vectors.append(v)
            scalars.append(s)
            continue
        elif k == 7:
            lets += f"  let ({s}, _) = loop (x, j) = ({number()}, 0) while j < {g.c('2', '3', 'k % 4')} do let (y, d) = jvp2 (\\a -> {two} (a, {g.c(*vectors)}, {record()}, k)) x 1 in (x - 0.2 * y / (1 + d * d), j + 1) in\n"
            scalars.append(s)
            continue
        elif k == 8:
            lets += f"  let {m} : [n]{N} = vjp (\\ms -> f2@ is ms {point()}) ms {g.c('1', number())} in let {v} = map (\\r -> small (t.sum r)) {g.c(m, f'(transpose {m})')} in let {s} = {v}[0] in\n"
            vectors.append(v)
            scalars.append(s)
            continue
        elif k == 9:
            lets += f"  let {m} = jmp (\\z -> {two} ({number()}, z, {record()}, k)) {g.c(*vectors)} ms in let {v} : {N} = map small {m} in let {s} = {v}[0] in\n"
            vectors.append(v)
            scalars.append(s)
            continue
        elif k == 10:
            lets += f"  let {v} : {N} = vjp (\\(z: {N}) -> let y : *{N} = copy z in let y = y with [k % n] = {g.mix('z[0]', 'z[n - 1]')} in map2 (*) y {g.c(*vectors)}) {g.c(*vectors)} {g.c(*vectors)} in let {s} = {v}[0] in\n"
            vectors.append(v)
            scalars.append(s)
            continue
        else:
            lets += f"  let {v} : {N} = map2 (\\x i -> jvp (\\a -> {two} (a, {g.c(*vectors)}, {{p = x, q = {g.c(*vectors)}}}, i)) x 1) {g.c(*vectors)} is in let {s} = {v}[0] in\n"
            vectors.append(v)
            scalars.append(s)
            continue
        scalars.append(s)
        vectors += [v] if k in (0,) else [v, w]
    results: list[tuple[str, list[tuple[Dim, ...]]]] = [(vectors[-1], [("n",)]), (scalars[-1], [()]), (f"({scalars[-1]}, {vectors[-1]})", [(), ("n",)])]
    out, shapes = g.c(*results)
    params = [Param("is", ("n",), "n"), Param("ms", ("n", "n")), Param("a"), Param("v", ("n",)), Param("q", ("n",)), Param("k", (), 5)]
    return g.program("gradients", params, shapes, lets + "  " + out, helpers, {"n": 1}, {"n": 4})


FAMILIES = [gradients]
