# ruff: noqa: E501 (programs read better unbroken)
"""Expressions as in `crossed`, with what else the language has: types and sizes ascribed in expressions and patterns,
assertions that hold, literals in patterns, modules that are opened, arrays whose sizes only running tells."""

from __future__ import annotations

from futad.testing.skeletons.base import Gen, Program
from futad.testing.skeletons.crossed import HELPERS, TYPES, Crossed, drawn

_SIZES = """type vec@ [k] = [k]t
def kept@ [k] (c: t) (v: [k]t) : ?[l].[l]t = filter (\\z -> z < c) v
def cut@ [k] (v: [k]t) (i: i64) : ?[a][b].([a]t, [b]t) = (v[:i], v[i:])
def spread@ [k] (v: [k]t) (i: i64) : ?[l].[l]t = concat (replicate i 0.2) (reverse v)
def twice@ [k] (v: vec@ [k]) : [k + k]t = v ++ reverse v
def padded@ [k] (n: i64) (v: [k]t) (x: t) : [n]t = tabulate n (\\i -> if i < k then v[i] else x)
"""
_OPENED = """module type step@ = { type p val make : t -> p val next : p -> t -> p val get : p -> t }
module first@ : step@ = {
  type p = (t, i64)
  def make (x: t) : p = (x, 0)
  def next ((a, k): p) (x: t) : p = (NEXT, k + 1)
  def get ((a, k): p) : t = a / (1 + t.i64 k)
}
module second@ : step@ = {
  type p = {a: t, b: [2]t}
  def make (x: t) : p = {a = x, b = [x, 0.4]}
  def next (q: p) (x: t) : p = let a = q.a in q with a = NEXT with b = [q.b[1], small x]
  def get ({a, b}: p) : t = small (a + b[0] - b[1])
}
module over@ (S: step@) = {
  open S
  module inner = { def deep (x: t) : t = get (next (make x) (small x)) }
  open inner
  def fold [k] (v: [k]t) : t = get (foldl next (make 0.3) v)
  def each [k] (v: [k]t) : [k]t = map deep v
  def (+++) (x: t) (y: t) : t = small (get (next (make x) y))
}
module own@ = over@ WHICH
module named@ = { local def hidden@ (x: t) : t = HIDDEN def near@ (x: t) : t = small (hidden@ x) }
open named@
"""
_RESULT = {"s": "small (A + 0.5 * B)", "v": "map2 (\\p q -> small (p - 0.7 * q)) A B", "m": "map2 (map2 (\\p q -> small (p + q * 0.6))) A B"}  # fmt: skip


class _Forms(Crossed):
    """With more to draw from."""

    def __init__(self, g: Gen, left: int) -> None:
        super().__init__(g, left)
        self.makers["s"] += [self.s_module, self.s_unknown, self.s_unknown, self.s_function]
        self.makers["v"] += [self.v_module, self.v_piped, self.v_piped, *[self.v_unknown] * 4]
        self.makers["m"] += [lambda depth: f"map own@.each {self.make('m', depth)}"]
        self.shared += 2 * [self.ascribed, self.asserted, self.literals]

    def ascribed(self, kind: str, depth: int) -> str:
        """An expression, a pattern, a parameter or a result, with its type."""
        g, t = self.g, TYPES[kind]
        a = self.make(kind, depth)
        if kind == "v" and g.p(0.5):
            return g.c(f"{a} :> [n]t", f"({a} : vec@ [n]) :> [n]t", f"(\\(p: vec@ [n]) : [n]t -> map small p) {a}",
                       f"let [l] (p: [l]t) = {a} in (map small p) :> [n]t")  # fmt: skip
        k = g.c("s", "v")
        b = self.make(k, depth)
        (p, q), body = self.under(kind + k, lambda: self.make(kind, depth))
        u = TYPES[k]
        return g.c(f"{a} : {t}", f"let ({p}: {t}, {q}: {u}) = ({a}, {b}) in {body}", f"let {{f = ({p}: {t}), g = {q}}} = {{f = {a}, g = ({b} : {u})}} in {body}",
                   f"(\\({p}: {t}) ({q}: {u}) : {t} -> {body}) {a} {b}", f"let h ({p}: {t}, {q}: {u}) : {t} = {body} in h ({a}, ({b} : {u}))",
                   f"let h 'a (z: a) : a = z in {self.joined(kind, f'(h {a})', f'(h ({a} : {t}))')}")  # fmt: skip

    def joined(self, kind: str, a: str, b: str) -> str:
        return _RESULT[kind].replace("A", a).replace("B", b)

    def asserted(self, kind: str, depth: int) -> str:
        """What holds for all inputs, as far as floats are numbers; nobody can tell beforehand."""
        g = self.g
        i, a = self.place(), self.make(kind, depth)
        holds = g.c(lambda: f"{i} < n", lambda: f"!(t.abs (small {self.make('s', depth)}) > 0.6)", lambda: f"length {self.make('v', depth)} == n",
                    lambda: f"!(any (\\z -> t.abs (small z) > 0.6) {self.make('v', depth)})", lambda: f"{i} >= 0 && {i} != n")()  # fmt: skip
        if kind == "s" and g.p(0.4):
            return f"let j = {i} in assert (0 <= j && j < length {self.make('v', depth)}) {self.make('v', depth)}[j]"
        if kind == "v" and g.p(0.4):
            (x,), inside = self.under("s", lambda: self.make("s", depth))
            return f"map (\\{x} -> assert (!(t.abs (small {x}) > 0.6)) {inside}) {a}"
        return f"assert ({holds}) {a}"

    def literals(self, kind: str, depth: int) -> str:
        """Cases of numbers, characters and truth values, in tuples, records and payloads."""
        g = self.g
        i, j, c = self.place(), self.place(), self.condition(depth)
        a, b = self.make(kind, depth), self.make(kind, depth)
        (k,), of_place = self.under("i", lambda: self.make(kind, depth))
        (x,), of_float = self.under("s", lambda: self.make(kind, depth))
        return g.c(
            f"match ({i} % 3, {c}) case (0, true) -> {a} case (1, _) -> {b} case (_, false) -> {a} case _ -> let {k} = {i} in {of_place}",
            f"match i8.i64 ({i} % 4) - 2 case -2 -> {a} case -1 -> {b} case 0i8 -> {a} case _ -> {b}",
            f"match {{k = {i}, b = {c}}} case {{k = 0, b = _}} -> {a} case {{k = 1, b = true}} -> {b} case {{k = {k}, b = false}} -> {of_place} case _ -> {a}",
            f"match (if {c} then #at {i} else #one {self.make('s', depth)} : sum@ [n]) case #at 0 -> {a} case #at {k} -> {of_place} case #one {x} -> {of_float} case _ -> {b}",
            f"match (\"abca\")[{i} % 4] case 'a' -> {a} case 'b' -> {b} case _ -> {a}",
            f"match {c} case true -> {a} case false -> {b}",
            f"match (if {c} then 0.5 else {self.make('s', depth)}) case 0.5 -> {a} case {x} -> {of_float}",
            f"match (({i}, {j}), {i}) case ((0, 1), _) -> {a} case ((_, 0), {k}) -> {of_place} case (_, 2) -> {b} case ({k}, _) -> let {k} = {k}.0 in {of_place}",
        )  # fmt: skip

    def s_module(self, depth: int) -> str:
        a, b = self.make("s", depth), self.make("s", depth)
        return self.g.c(f"own@.fold {self.make('v', depth)}", f"own@.(deep {a} + get (make {b}))", f"near@ {a}", f"own@.inner.deep {a}", f"{a} own@.+++ {b}",
                        f"let z = near@ {a} in own@.(get (next (next (make {b}) z) z))")  # fmt: skip

    def s_function(self, depth: int) -> str:
        """Functions of the numeric modules that programs seldom use."""
        g = self.g
        a, b = self.make("s", depth), self.make("s", depth)
        if g.p(0.4):  # constant between steps, at places where floats hardly are
            g.smooth = False
            return g.c(f"small (t.{g.c('ceil', 'floor', 'trunc', 'round')} (1.37 * {a} + 0.123))", f"({a} - t.floor {a})", f"({a} % 0.7131)", f"t.copysign {a} ({b} - 0.1234)", f"t.sgn ({a} - 0.4321) * {b}",
                       f"(if t.isnan {a} || t.isinf {b} then 0.1 else {a})", f"t.i64 (t.to_i64 (3.7 * small {a})) * {b}")  # fmt: skip
        return g.c(f"small (t.atan2 ({a} - 0.1234) (1.5 + {b} * {b}))", f"small (t.hypot {a} (0.3 + {b} * {b}))", f"t.log1p ({a} * {a})", f"small (t.expm1 (small {a}))", f"t.cbrt (1.2 + {a} * {a}) - 1",
                   f"t.lerp {a} {b} 0.3", f"small (t.fma {a} {b} 0.4)", f"small (t.mad {a} {b} 0.6)", f"t.sinh (small {a})", f"t.asinh {a} * 0.5", f"t.acos (small {a}) * 0.3", f"t.atanh (small {a})", f"t.acosh (1.1 + {a} * {a}) * 0.2",
                   f"(1.1 + small {a}) ** (0.5 + small {b}) - 1", f"t.log2 (1.5 + {a} * {a})", f"t.log10 (2 + {a} * {a})", f"t.sinpi (small {a})", f"t.cospi (small {a})", f"t.erf {a} * 0.4", f"t.erfc {a} * 0.3",
                   f"t.gamma (1.6 + small {a}) - 0.9", f"t.lgamma (1.7 + small {a})", f"t.rsqrt (1.3 + {a} * {a})", f"t.recip (1.4 + {a} * {a})", f"t.ldexp (small {a}) 1i32")  # fmt: skip

    def v_piped(self, depth: int) -> str:
        """Functions put together, sections, names of fields and operators as functions, updates as statements."""
        g = self.g
        v, w, a = self.make("v", depth), self.make("v", depth), self.make("s", depth)
        i = self.place()
        return g.c(
            f"{v} |> map small |> map (+ {a}) |> map (\\z -> z * 0.5)", f"map (small >-> t.sin >-> (0.7 *)) {v}", f"map ({a} -) <| map2 (\\p q -> p `t.max` q) {v} {w}",
            f"zip3 {v} {w} (iota n) |> map (.0)", f"map (.b) (map2 (\\p q -> {{ a = p, b = p - q }}) {v} {w})", f"map2 (-) {v} (map small {w})",
            f"let u = copy {v} let u[{i}] = {a} let u[n - 1 - {i}] = small {w}[{i}] in u", f"map (reduce_comm (+) 0 >-> small) (map (\\z -> [z, {a}]) {v})", f"map3 (\\p q k -> if k % 2 == 0 then p else q) {v} {w} (indices {v})",
            f"map (curry (\\(p, q) -> small (p + q)) {a}) {v}", f"map (uncurry (\\p q -> small (p - q))) (zip {v} {w})", f"map4 (\\p q r s -> small (p + q - r * s)) {v} {w} {v} (replicate n {a})", f"map small (map ({v}[{i}] /) (map (\\z -> 1.3 + z * z) {w}))",
        )  # fmt: skip

    def v_module(self, depth: int) -> str:
        v, w = self.make("v", depth), self.make("v", depth)
        return self.g.c(f"own@.each {v}", f"map own@.deep {v}", f"map2 (own@.+++) {v} {w}", f"map near@ {v}", f"own@.(map2 (+++) {v} (each {w}))", f"replicate n (own@.fold {v})")

    def unknown(self, depth: int) -> str:
        """An array of some size."""
        g = self.g
        v, i, limit = self.make("v", depth), self.place(), g.c("0.1357", "(-0.3579)", "0.6421")
        kind = g.r.randrange(6)
        if kind == 0:
            g.smooth = False
            return f"kept@ {limit} {v}"
        if kind == 1:
            return g.c(f"(cut@ {v} {i}).{g.c(0, 1)}", f"(let [a] [b] (p: [a]t, q: [b]t) = cut@ {v} {i} in if a < b then q else p)")
        if kind == 2:
            return f"spread@ {v} {i}"
        if kind == 3:
            return f"twice@ {v}"
        q, k = g.name("q"), g.name("k")
        if kind == 4:
            self.scope["i"].append(k)
            more = self.make("s", depth)
            self.scope["i"].pop()
            return f"(loop ({q}: []t) = {v} for {k} < {g.c('n', '(i64.min 2 n)', i)} do if ({k} + {i}) % {g.c(2, 3)} == 0 then {q} ++ [{more}] else {q}[i64.min 1 (length {q}):])"
        g.smooth = False
        return f"(loop ({q}: []t) = {v} while length {q} > {i} && {q}[0] < {limit} do map small {q}[1:])"

    def s_unknown(self, depth: int) -> str:
        g = self.g
        q, z = g.name("q"), g.name("z")
        use = g.c(f"small (t.sum {q})", f"if length {q} > 0 then small ({q}[length {q} - 1] - {q}[0]) else 0.3", f"(loop s = 0.1 for {z} in {q} do small (s - {z}))", f"small (t.sum (map2 (*) {q} (reverse {q})))",
                  f"small (t.sum (scan (+) 0 {q}))", f"t.i64 (length {q}) * 0.05 + small (foldl (\\p {z} -> small (p + {z})) 0.4 {q})")  # fmt: skip
        return g.c(f"let {q} = {self.unknown(depth)} in {use}", f"let [l] ({q}: [l]t) = {self.unknown(depth)} in {use}", f"(\\{q} -> {use}) ({self.unknown(depth)})")

    def v_unknown(self, depth: int) -> str:
        g = self.g
        q = g.name("q")
        w, a = self.make("v", depth), self.make("s", depth)
        kind = g.r.randrange(5)
        if kind == 0:
            return f"padded@ n ({self.unknown(depth)}) {a}"
        if kind == 1:
            return f"let [l] ({q}: [l]t) = {self.unknown(depth)} in tabulate n (\\i -> if i < l then {q}[i] else {w}[i])"
        if kind == 2:
            return f"(let {q} = {self.unknown(depth)} in map small (take n ({q} ++ {w}))) :> [n]t"
        if kind == 3:  # in each iteration of a map another size
            (i,), inside = self.under("i", lambda: self.unknown(depth))
            return f"map (\\{i} -> let {q} = {inside} in small (t.sum {q} + t.i64 (length {q}))) (iota n)"
        return f"let {q} = map (\\z -> {g.mix('z', a)}) ({self.unknown(depth)}) in let {q} = scan (+) 0 {q} in padded@ n (map small {q}) {a}"


def forms(g: Gen) -> Program:
    sizes = "".join(f"{g.c('', '', '#[noinline] ')}{line}\n" if line.startswith("def") else f"{line}\n" for line in _SIZES.splitlines())
    helpers = _OPENED.replace("WHICH", g.c("first@", "second@")).replace("NEXT", f"small ({g.mix('a', 'x')})").replace("HIDDEN", g.mix("x"))
    return drawn(_Forms(g, g.r.randint(8, 22)), "forms", HELPERS + sizes + helpers)


FAMILIES = [forms]
