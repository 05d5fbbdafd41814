"""Iterations of loops run backwards: what they begin with computed of what they end with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.ad.inverse.iteration import Backwards, backwards
from futad.ad.inverse.kept import exposed
from futad.api.program import Program
from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.types import PRIMS, Var, elem_of, shape_of, subst_type
from futad.optimise.inline import inline
from futad.pipeline import compile_program
from futad.rewrite.simplify import simplify
from futad.source import compile_text
from futad.testing.fuzz.batch import Task, run
from tests.support.ad_support import differences, duality, like, second_order
from tests.support.needs import needs_cxx
from tests.support.paths import ROOT
from tests.support.slow import slow_but

INTS = [t.name for t in PRIMS.values() if t.is_integral]


def inlined(text: str) -> ir.Program:
    """The program as it is when it is differentiated, or nearly."""
    return simplify(inline(simplify(compile_text(text))))


class Turn:
    """The iteration of the loop in the entry `f` of a program text, forwards and backwards."""

    def __init__(self, text: str, rounding: bool = False, demanded: bool = False) -> None:
        program = inlined(text)
        (fun,) = program.funs.values()
        at = next(k for k, s in enumerate(fun.body.stms) if isinstance(s.exp, ir.Loop))
        before, loop = fun.body.stms[:at], fun.body.stms[at].exp
        assert isinstance(loop, ir.Loop)
        self.own = loop.variables
        body = loop.body
        every = range(len(self.own))
        self.ways = backwards(body, self.own, every, (), (), (), lambda q: 1e9, rounding, demanded)
        self.undone = {q: way for way in self.ways for q in way.group}
        params = fun.body.params
        self.sizes = fun.num_sizes
        self.inner = params
        stms, kept = body.stms, []
        for v in [v for way in self.ways for v in way.kept]:
            stms, value = exposed(stms, v)
            kept.append(value)
        forward = ir.Lambda((*params, *body.params), (*before, *stms), (*body.result, *kept))
        self.forward = self._program(forward, self.sizes)
        self.backward = [self._backward(params, before, way) for way in self.ways]

    def _program(self, lam: ir.Lambda, sizes: int) -> Interpreter:
        lam = ir.rename(lam)
        mapping: dict[Any, Any] = {}
        ret = tuple([Var("r", subst_type(a.type, mapping)) for a in lam.result])
        program = ir.Program({"g": ir.Fun("g", lam, sizes, ret)})
        check_program(program, "test")
        return Interpreter(program)

    def _backward(self, params: Any, before: Any, way: Backwards) -> Interpreter:
        code = way.code
        return self._program(ir.Lambda((*params, *code.params), (*before, *code.stms), code.result), self.sizes)

    def check(self, seed: int = 0, index: int = 2, tol: float = 0.0, **given: Any) -> None:
        """Random values before an iteration are those that its inverse finds."""
        rng = np.random.default_rng(seed)
        args = [given.get(p.name) for p in self.inner]
        n = given.get("n", 7)
        args = [n if a is None and p.name in "nm" else a for a, p in zip(args, self.inner, strict=True)]

        def value(v: Var) -> Any:
            t = elem_of(v.type)
            shape = [d.value if not isinstance(d, Var) else n for d in shape_of(v.type)]
            if t.is_integral:
                info = np.iinfo(t.dtype)
                return rng.integers(info.min, info.max, size=shape, dtype=t.dtype, endpoint=True)[()]
            return like(rng, np.zeros(shape, t.dtype))

        args = [value(p) if a is None else a for a, p in zip(args, self.inner, strict=True)]
        begin = [given.get(x.name, value(x)) for x in self.own]
        out = self.forward.run("g", [*args, np.int64(index), *[np.copy(x) for x in begin]])
        after, kept = out[: len(begin)], list(out[len(begin) :])
        for way, back in zip(self.ways, self.backward, strict=True):
            mine, kept = kept[: len(way.kept)], kept[len(way.kept) :]
            states = [np.copy(after[q]) for q in way.group]
            got = back.run("g", [*args, np.int64(index), *states, *[begin[q] for q in way.given], *mine])
            for q, g in zip(way.group, got, strict=True):
                if tol:
                    np.testing.assert_allclose(g, begin[q], rtol=tol, atol=tol)
                else:
                    assert np.asarray(g).tobytes() == np.asarray(begin[q]).tobytes()


# --- rows of the table, exact -----------------------------------------------------------------------------------------

SCALARS = {
    "add": "x + {t}.i64 i",
    "sub": "{t}.i64 i - x",
    "sum": "x + 3 - c + {t}.i64 i * c",
    "xor": "x ^ c",
    "not": "!x",
    "neg": "-x",
    "odd": "x * 13 + c",
    "negative odd": "(x - c) * {t}.i64 (-7)",
    "shift left": "x ^ (x << 3)",
    "shift left by one": "x ^ (x << 1)",
    "shift right": "x ^ (x >>> 2)",
    "rotation": "(x << 3) | (x >>> {rest})",
    "generator": "let x = x ^ (x << 3) let x = x ^ (x >>> 5) in (x ^ (x << 7)) * 5 + 1",
    "select": "if c < 3 then x + 5 else x * 3 - c",
    "same condition": "let y = if c < 3 then x + 5 else x ^ 7 in if c < 3 then y * 3 else !y",
    "unknown condition": "if x < 3 then x + 5 else x * 3 - c",
}


@pytest.mark.parametrize("t", INTS)
@pytest.mark.parametrize("row", SCALARS)
def test_integers_come_back_exactly(row: str, t: str) -> None:
    body = SCALARS[row].format(t=t, rest=PRIMS[t].bits - 3)
    turn = Turn(f"entry f (n: i64) (c: {t}) (x: {t}) = loop x for i < n do {body}")
    assert set(turn.undone) == {0}
    assert len(turn.undone[0].kept) == (row == "unknown condition")
    for seed in range(20):
        turn.check(seed)


BOOLS = {"not": "!x", "xor": "x != c", "equal": "x == c", "select": "if c then !x else x"}


@pytest.mark.parametrize("row", BOOLS)
def test_bools_come_back(row: str) -> None:
    turn = Turn(f"entry f (n: i64) (c: bool) (x: bool) = loop x for i < n do {BOOLS[row]}")
    assert set(turn.undone) == {0}
    for seed in range(8):
        turn.check(seed)


STATES = {
    "feistel": ("(x: u32) (y: u32)", "(x, y)", "(y, x ^ (y * y + u32.i64 i * c))"),
    "in turn": ("(x: u32) (y: u32)", "(x, y)", "let x = x + y * c let y = y - (x >> 3) * x in (x, y)"),
    "swap if": ("(x: u32) (y: u32)", "(x, y)", "if c > 7 then (y + 1, x) else (x, y)"),
    "same width": ("(x: u32) (y: i32)", "(x, y)", "(u32.i32 y * 3, i32.u32 (x + c))"),
    "count and state": ("(x: u64) (k: i64)", "(x, k)", "(x * 3 + u64.i64 k, k + i)"),
    "elements": ("(xs: [n]u32) (ys: [n]u32)", "(xs, ys)",
                 "let xs = map2 (\\x y -> x + y * c) xs ys in (xs, map2 (^) ys (map (* 7) xs))"),
    "neighbours": ("(xs: [n]u32) (ys: [n]u32)", "(xs, ys)",
                   "let xs = tabulate n (\\j -> xs[j] + ys[(j + 1) % n]) in (xs, map2 (\\y x -> y * 5 - x) ys xs)"),
    "nested maps": ("(xs: [n][3]u32) (ys: [n]u32)", "(xs, ys)",
                    "(map2 (\\r y -> map (\\x -> (x ^ (x << 5)) + y) r) xs ys, map (+ c) ys)"),
    "reversed": ("(xs: [n]f64)", "xs", "reverse xs"),
    "rotated": ("(xs: [n]f64)", "xs", "rotate 3 xs"),
    "rotated by i": ("(xs: [n]f64)", "xs", "rotate i (reverse xs)"),
    "transposed": ("(xs: [3][3]f64)", "xs", "transpose xs"),
    "halves": ("(xs: [8]i32)", "xs", "let (a, b) = (xs[:4], xs[4:]) in map2 (+) b (map (* c) a) ++ a :> [8]i32"),
    "update": ("(xs: [n]u32)", "copy xs", "xs with [2] = xs[2] * 9 + c"),
    "row update": ("(xs: [n][3]u32)", "copy xs", "xs with [i] = map (+ c) xs[i]"),
    "swap": ("(xs: [n]f32)", "copy xs", "let t = xs[i] let xs[i] = xs[(i * 5) % n] let xs[(i * 5) % n] = t in xs"),
    "triple": ("(xs: [3]u32)", "xs", "[xs[1], xs[2] + 1, xs[0] * 3]"),
    "inner loop": ("(x: u32) (y: u32)", "(x, y)", "loop (x, y) for j < 5 do (y, x ^ (y * y + u32.i64 (i + j)))"),
    "inner loop of arrays": ("(xs: [n]u32)", "xs", "loop xs for j < 4 do map (\\x -> x * 3 + u32.i64 (j * i)) xs"),
}  # fmt: skip


@pytest.mark.parametrize("row", STATES)
def test_states_come_back_exactly(row: str) -> None:
    params, init, body = STATES[row]
    c = "i32" if row == "halves" else "u32"
    names = init.removeprefix("copy ")
    text = f"entry f (n: i64) (c: {c}) {params} = loop {names} = {init} for i < n do {body}"
    turn = Turn(text)
    assert set(turn.undone) == set(range(len(turn.own)))
    for seed in range(5):
        turn.check(seed)


# What branches decide of what is lost: a state, and how many bools an iteration keeps.
DECIDED = {
    "merge": ("(a: i64) (b: i64)", "(a, b)", 2,
              "if xs[a % n] < ys[b % n] then (a + 1, b) else if xs[a % n] > ys[b % n] then (a, b + 1)"
              " else (a + xs[b % n], b + 1)"),
    "in both branches": ("(a: i64) (b: i64)", "(a, b)", 3,
                         "if a < b then (if a % 3 == 0 then (b, a + 7) else (a, b ^ a))"
                         " else if b % 5 == 1 then (a * 3, b - 1) else (a + b, b)"),
    "chain of four": ("(a: i64)", "a", 3,
                      "if a % 7 == 1 then a + 1 else if a % 5 == 2 then a * 3 else if a % 3 == 0 then a ^ n else -a"),
    "known outside": ("(a: i64) (b: i64)", "(a, b)", 1,
                      "if n % 2 == 1 then (if a < 5 then (a + b * b, b + i) else (b, a - i)) else (a, b + 1)"),
    "division where it can": ("(a: i64)", "a", 2,
                              "if a % 2 == 0 then (if a != 0 && 12 / a == 1 then a + 1 else a - 1) else a + 9"),
    "of an array": ("(as: [n]i64) (b: i64)", "(as, b)", 2,
                    "if as[b % n] % 2 == 0 then (map (+ b) as, b + 1)"
                    " else if b % 3 == 0 then (reverse as, b - 1) else (as, b * 5)"),
}  # fmt: skip


@pytest.mark.parametrize("row", DECIDED)
def test_conditions_in_branches_are_kept(row: str) -> None:
    params, names, bools, body = DECIDED[row]
    head = f"entry f (n: i64) (xs: [n]i64) (ys: [n]i64) {params} ="
    turn = Turn(f"{head} loop {names} for i < n do {body}", demanded=True)
    assert set(turn.undone) == set(range(len(turn.own)))
    assert len({v for way in turn.ways for v in way.kept}) == bools
    for seed in range(20):
        turn.check(seed)


MERGE = """
def f (n: i64) (x: f64): f64 =
  let rows = map (\\k -> k * k % 7 - k) (iota (n + 1))
  let go (s, a, b) i =
    if rows[a] < rows[b] + i then (s, a + 1, b)
    else if rows[a] > 3 then (s * x, a, b + 1)
    else (s + x * f64.i64 rows[b], a + 1, b + 1)
  let (s, a, b) = ATTRIBUTE loop s = (x, 0, 0) for i < n do go s i
  in s + f64.i64 (a - b)
entry gradient (n: i64) (x: f64): f64 = vjp (f n) x 1"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_a_merge_is_undone_where_that_is_asked_for(backend: str) -> None:
    ways = ("#[reversible(1e-6)]", "#[reversible(false)]", "")
    undone, kept, plain = [futad.compile(MERGE.replace("ATTRIBUTE", w), backend=backend) for w in ways]
    for n in (0, 1, 2, 23):
        assert plain.gradient(n, 0.7) == kept.gradient(n, 0.7)
        assert undone.gradient(n, 0.7) == pytest.approx(kept.gradient(n, 0.7), rel=1e-9)


LOST = {
    "even factor": "x * 6",
    "and": "x & 7",
    "signed shift": "x ^ (x >> 1)",
    "sum with itself": "x + x * c",
    "maximum": "i32.max x c",
    "constant": "c",
    "narrower": "i32.i16 (i16.i32 x)",
    "two bits of three": "(x << 3) | (x >>> 28)",
    "one side": "if c > 3 then x + 1 else c",
}


@pytest.mark.parametrize("row", LOST)
def test_what_is_lost_does_not_come_back(row: str) -> None:
    turn = Turn(f"entry f (n: i64) (c: i32) (x: i32) = loop x for i < n do {LOST[row]}")
    assert not turn.undone


LOST_STATES = {
    "slices with a gap": ("(xs: [n]f64)", "concat xs[1:] xs[1:2]"),
    "another element": ("(xs: [n]f64)", "tabulate n (\\j -> xs[(j * 2) % n])"),
    "floats": ("(xs: [n]f64)", "map (+ 0.5) xs"),
}


@pytest.mark.parametrize("row", LOST_STATES)
def test_arrays_that_are_lost_do_not_come_back(row: str) -> None:
    params, body = LOST_STATES[row]
    text = f"entry f (n: i64) {params} = loop xs for i < n do ({body}) :> [n]f64"
    assert not Turn(text).undone


# --- whole programs ---------------------------------------------------------------------------------------------------

# A function of x, and how many bytes an iteration keeps.
PROGRAMS = {
    "generator": ("""
        loop (s, r) = (x, 123456789u32) for i < n do
          let r = r * 1664525 + 1013904223
          let r = r ^ (r >> 15)
          in (s + x * f64.u32 (r >> 8) / 1e7, r)""", 0),
    "while": ("""
        loop (s, r) = (x, 7u32) while r % 16 != 3 && n > 0 do
          (s + x * f64.u32 (r >> 8) / 1e7, r * 1664525 + 1013904223)""", 0),
    "bounded while": ("""
        #[bound(50)] loop (s, r) = (x, 7u32) while r % 16 != 3 && n > 0 do
          (s + x * f64.u32 (r >> 8) / 1e7, r * 1664525 + 1013904223)""", 0),
    "condition": ("""
        loop (s, r) = (x, 12i32) for i < n do
          (s + x * f64.i32 r, if r % 3 == 0 then r * 5 + 1 else r - 7)""", 1),
    "alternating": ("""
        loop (s, odd) = (x, false) for i < n do (if odd then s * x else s + f64.i64 i, !odd)""", 8),
    "permuted": ("""
        let (s, ys) = loop (s, ys) = (0, map (\\k -> x * f64.i64 k) (iota 5)) for i < n do
          (s + x * ys[i % 5], rotate 1 (reverse ys))
        in (s + ys[0], ys)""", 0),
    "in a map": ("""
        (f64.sum (map (\\k -> (loop (s, r) = (x, u32.i64 k) for i < n do
          (s + x * f64.u32 (r >> 8) / 1e7, r * 1664525 + 1013904223)).0) (iota 3)), 0)""", 0),
    "split": ("""
        #[stripmine(1)] loop (s, r) = (x, 7u32) for i < n do
          (f64.sin s + x * f64.u32 (r >> 8) / 1e7, r * 1664525 + 1013904223)""", None),
}  # fmt: skip


def program(name: str) -> str:
    return f"entry f (n: i64) (x: f64): f64 = ({PROGRAMS[name][0]}).0".replace("\\\\", "\\")


def derived(name: str) -> str:
    return program(name) + """
        entry reverse (n: i64) (x: f64) : f64 = vjp (f n) x 1
        entry forward (n: i64) (x: f64) : f64 = jvp (f n) x 1
        entry twice (n: i64) (x: f64) : f64 = jvp (reverse n) x 1
        entry backwards (n: i64) (x: f64) : f64 = vjp (reverse n) x 1"""


@pytest.mark.parametrize("n", slow_but([23], [0, 1, 2, 23]))
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_what_is_kept(kept: Any, name: str, n: int) -> None:
    bytes_ = PROGRAMS[name][1]
    (got,), room = kept(derived(name), "reverse", n, 0.7)
    (want,), _ = kept(derived(name), "forward", n, 0.7)
    assert got == pytest.approx(want, rel=1e-12)
    if bytes_ is not None:
        assert room == bytes_ * n
    (got,), _ = kept(derived(name), "twice", n, 0.7)
    (want,), _ = kept(derived(name), "backwards", n, 0.7)
    assert got == pytest.approx(want, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_rules(name: str) -> None:
    p = inlined(program(name))
    n = np.int64(5)
    duality(p, [n, 0.7], argnums=[1])
    differences(p, [n, 0.7])
    second_order(p, [n, 0.7])


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
@pytest.mark.parametrize("name", slow_but(["generator"], PROGRAMS))
def test_backends(name: str, backend: str) -> None:
    made = futad.compile(derived(name), backend=backend)
    reference = futad.compile(derived(name), backend="interp")
    for n in (0, 1, 7):
        assert made.reverse(n, 0.7) == pytest.approx(reference.reverse(n, 0.7), rel=1e-12)


def test_a_size_is_not_replaced_by_what_comes_back() -> None:
    text = """
        entry f [n] (xs: [n]f64): f64 =
          let ys = map f64.sin xs
          let (s, _) = loop (s, r) = (f64.sum ys, n) for i < n do (s * f64.i64 (r % 5 + 1), r * 5 + 1)
          in s + ys[0]"""
    xs = np.arange(3.0)
    got = futad.grad(futad.compile(text, backend="interp", check=True).f)(xs)
    np.testing.assert_allclose(got, (4 * 2 * 2 + np.array([1, 0, 0])) * np.cos(xs))


# --- floats -----------------------------------------------------------------------------------------------------------

FLOATS = {
    "sum": ("(x: f64)", "x", "x + 0.5 * f64.i64 i"),
    "difference": ("(x: f64)", "x", "2 - x"),
    "product": ("(x: f64) (y: f64)", "(x, y)", "(x * (2 + y), y + 1)"),
    "quotient": ("(x: f64) (y: f64)", "(x, y)", "(x / (2 + f64.sin y), 3 * y)"),
    "under a fraction": ("(x: f64) (y: f64)", "(x, y)", "((1 + y * y) / x, y - 2)"),
    "twice": ("(x: f64) (y: f64)", "(x, y)", "(x + x * y * y, y + 1)"),
    "rotation": ("(x: f64) (y: f64)", "(x, y)", "(0.8 * x - 0.6 * y, 0.6 * x + 0.8 * y)"),
    "shear": ("(x: f64) (y: f64)", "(x, y)", "let x = x + 3 * y in (x, y - x / 4)"),
    "three": ("(x: f64) (y: f64) (z: f64)", "(x, y, z)", "(x + y - z, 2 * x - y, -(z + 3 * y))"),
    "coupling": ("(xs: [n]f64) (ys: [n]f64)", "(xs, ys)",
                 "let ys = map2 (\\x y -> y * f64.exp x + f64.sin x) xs ys in (map2 (+) xs (map f64.cos ys), ys)"),
    "leapfrog": ("(qs: [n]f64) (ps: [n]f64)", "(qs, ps)",
                 """let force j = f64.sin (qs[(j + 1) % n] - qs[j])
                    let ps = tabulate n (\\j -> ps[j] + 0.1 * force j)
                    in (map2 (\\q p -> q + 0.1 * p) qs ps, ps)"""),
    "momentum": ("(ws: [n]f64) (vs: [n]f64)", "(ws, vs)",
                 "let vs = map2 (\\w v -> 0.9 * v - 0.1 * w * w) ws vs in (map2 (+) ws vs, vs)"),
    "inner loop": ("(x: f64) (y: f64)", "(x, y)", "loop (x, y) for j < 4 do (y, x + f64.sin y * f64.i64 j)"),
    "known condition": ("(x: f64) (y: f64)", "(x, y)", "(if i < 3 then x + y else x * 2, y + 1)"),
}  # fmt: skip


@pytest.mark.parametrize("row", FLOATS)
def test_floats_come_back_nearly(row: str) -> None:
    params, names, body = FLOATS[row]
    text = f"entry f (n: i64) {params} = loop {names} for i < n do {body}"
    assert not Turn(text).undone
    turn = Turn(text, rounding=True)
    assert set(turn.undone) == set(range(len(turn.own)))
    for seed in range(5):
        turn.check(seed, tol=1e-12)


def gradient(body: str, **how: Any) -> Any:
    """The derivative in x of a function of n and x."""
    made = futad.compile(f"entry f (n: i64) (x: f64) (a: f64): f64 = {body}", backend="interp")
    return lambda *args: futad.grad(made.f, argnums=1, **how)(*args)


SCALED = "(loop (x, y) = (x, 0) for i < n do (x * a, y + f64.sin x)).1"
DRIFT = {
    "heat": "(loop (x, y, s) = (x, a, 0) for i < n do (0.6 * x + 0.4 * y, 0.4 * x + 0.6 * y, s + f64.sin x * y)).2",
    "mean": "(loop (x, y) = (x, 1) for i < n do let x = 0.5 * x + 0.5 * f64.sin y in (x, y * a + f64.cos x)).1",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRIFT)
def test_what_loses_digits_is_an_error(name: str) -> None:
    says = "does not come to where it was: '[xy]' is off by .* after 66 iterations"  # 200 are three stretches
    with pytest.raises(futad.errors.AssertionFailed, match=says):
        gradient(DRIFT[name], reversible=True)(200, 0.7, 0.01)
    assert gradient(DRIFT[name], reversible="exact")(200, 0.7, 0.01) == gradient(DRIFT[name])(200, 0.7, 0.01)


@pytest.mark.slow
def test_a_state_on_the_way_is_exact() -> None:
    """x is 0 in the end; without states on the way it would stay 0 to the beginning."""
    want = gradient(SCALED)(200, 0.7, 0.01)
    assert gradient(SCALED, reversible=True)(200, 0.7, 0.01) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(
    "x, a", [(np.inf, 1.0), (-np.inf, 0.9), (np.nan, 1.0), (0.3, 0.0), (0.3, np.nan), (1e300, 1e30)]
)
def test_infinities_and_nan_never_pass(x: float, a: float) -> None:
    with pytest.raises(futad.errors.AssertionFailed, match="does not come to where it was"):
        gradient(SCALED, reversible=True)(3, x, a)


@pytest.mark.slow
def test_the_tolerance_is_the_users() -> None:
    want = gradient(SCALED)(5, 0.7, 0.3)
    for how in (1e-12, True, np.inf):
        assert gradient(SCALED, reversible=how)(5, 0.7, 0.3) == pytest.approx(want, rel=1e-12)
    with pytest.raises(futad.errors.AssertionFailed, match="where 1.7e-30 is allowed"):
        gradient(SCALED, reversible=1e-30)(35, 0.7, 0.7)


def test_a_demand_that_cannot_be_met_names_the_variable_and_the_statement() -> None:
    body = "(#[reversible] loop (x, y) = (x, 0) for i < n do (f64.max (x * a) 1, y + f64.sin x)).1"
    says = r"1:58: .* cannot be run backwards: 'x' does not follow from max\(mul\(x, a\), 1.0f64\)"
    with pytest.raises(futad.UnsupportedError, match=says):
        gradient(body)(3, 0.7, 2.0)
    lost = ("if x * a > 1 then 7 else x + y", r"select\("), ("loop x while x < 9 do f64.max x 1 * 2", r"max\(")
    for lossy, shown in lost:
        with pytest.raises(futad.UnsupportedError, match=rf"1:58: .* 'x' does not follow from .*{shown}"):
            gradient(body.replace("f64.max (x * a) 1", lossy))(3, 0.7, 2.0)
    gradient(body.replace("#[reversible]", "#[reversible(false)]"))(3, 0.7, 2.0)
    gradient(body.replace("#[reversible]", ""), reversible=True)(3, 0.7, 2.0)


WHY = {
    "reversible": ("(x); inverse: yes (r), no ('x' does not follow from max(mul(x, x), 0.1f64))",
                   "f64.max (x * x) 0.1"),
    "checkpoint(3)": ("(x r); inverse: no ('x' comes back with round-off, which only reversible= allows)", "a - x"),
    "reversible(1e-9)": ("undone iteration by iteration; state (x r); inverse: yes (x r)", "a - x"),
    "reversible(false)": ("every iteration kept; state (x r)", "a - x"),
}


@pytest.mark.parametrize("how", WHY)
def test_what_is_told_of_a_loop(how: str) -> None:
    says, body = WHY[how]
    text = f"""
        def f (n: i64) (a: f64) (x: f64) : f64 =
          (loop (x, y, r) = (x, 0, 3u32) for i < n do ({body}, y + x * x * f64.u32 r, r * 5 + u32.i64 i)).1
        entry g (n: i64) (a: f64) (x: f64) : f64 = #[{how}] vjp (f n a) x 1"""
    program = futad.compile(text, backend="interp")
    program.g(9, 0.5, 0.7)
    assert str(program.explain_memory()).splitlines()[0].endswith(says)


def test_undoing_can_be_switched_off(kept: Any) -> None:
    text = derived("generator").replace("vjp (f n)", "#[reversible(false)] vjp (f n)", 1)
    (got,), room = kept(text, "reverse", 9, 0.7)
    (want,), _ = kept(derived("generator"), "reverse", 9, 0.7)
    assert got == want and room == 9 * 4


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("backend", slow_but(["interp", "c"], ["interp", "c", "multicore", "emulated"]))
def test_leapfrog(backend: str) -> None:
    made = futad.load(str(ROOT / "benchmarks/programs/leapfrog.fut"), backend=backend)
    rng = np.random.default_rng(3)
    args = (0.05, *rng.random((3, 4)))
    for n in (0, 1, 100):
        plain = futad.grad(made.loss, argnums=(2, 3, 4))(n, *args)
        for got, want in zip(futad.grad(made.loss, argnums=(2, 3, 4), reversible=True)(n, *args), plain, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@needs_cxx
@pytest.mark.parametrize("backend", slow_but(["interp", "c"], ["interp", "c", "multicore"]))
def test_sums_on_the_way_of_arrays_in_maps(backend: str) -> None:
    """Each sum has an operator of its own: with one for two, variables were bound twice, and C had wrong sums."""
    text = """
        def run [n] (x: [n]f64) (v: [n]f64) : ([n]f64, [n]f64) =
          loop (x, v) = (x, v) for _r < 2 do
            let a = map (\\p -> f64.sum (map (\\q -> f64.log (1.2 + p * p) + q) x)) x
            let v = map2 (\\p q -> p + 0.1 * q) v a
            in (map2 (\\p q -> p + 0.1 * q) x v, v)
        def f [n][b] (x: [n]f64) (v: [b][n]f64) : f64 =
          f64.sum (map (\\v -> let (x, v) = run x v in f64.sum (map2 (*) x v)) v)
        entry plain [n][b] (x: [n]f64) (v: [b][n]f64) = vjp (\\(x, v) -> f x v) (x, v) 1
        entry undone [n][b] (x: [n]f64) (v: [b][n]f64) = #[reversible(1e-12)] vjp (\\(x, v) -> f x v) (x, v) 1"""
    made = futad.compile(text, backend=backend, check=True)
    rng = np.random.default_rng(4)
    x, v = rng.normal(size=8), rng.normal(size=(2, 8))
    for got, want in zip(made.undone(x, v), made.plain(x, v), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)


def test_a_budget_below_the_state_at_the_beginning_is_an_error() -> None:
    says = r"where the loop begins \(x\) takes 8 bytes, and there are 7"
    with pytest.raises(futad.errors.AssertionFailed, match=says):
        gradient("(loop (x, y) = (x, 0) for i < n do (a - x, y + x * x)).1", memory=7, reversible=True)(9, 0.7, 0.9)


@pytest.mark.slow
def test_what_was_solved_for_is_not_computed_again() -> None:
    """The sine of a kick is the undoing's and the derivative's, beside those of the iterations forwards and run again;
    without the mark a sum stays as it rounds."""
    text = """
        def f [n] (m: i64) (qs: [n]f64) : f64 =
          f64.sum (loop (qs, ps) = (qs, map (+ 1) qs) for _i < m do
            let ps = map2 (\\q p -> p - 0.1 * f64.sin q) qs ps in (map2 (\\q p -> q + 0.1 * p) qs ps, ps)).0
        entry reverse [n] (m: i64) (qs: [n]f64) = #[reversible] vjp (f m) qs 1
        entry plain [n] (m: i64) (qs: [n]f64) = vjp (f m) qs 1
        entry sums (x: f64) (y: f64) = ((x + y) - y, (x - y) + y, (x * y) / y, (x / y) * y, y - (y - x))"""
    compiled = compile_program(compile_text(text), check=True)
    funs = {name: str(ir.Program({name: f})) for name, f in compiled.funs.items()}
    assert funs["reverse"].count("sin(") == 3 and funs["reverse"].count("cos(") == 1
    assert [round(float(x), 17) for x in Interpreter(compiled).run("sums", [0.1, 1e16])][:2] == [0.0, 0.0]
    for n in (0, 1, 70):
        qs = np.array([0.3, -1.0])
        got, want = [Interpreter(compiled).run(name, [2, n, qs])[0] for name in ("reverse", "plain")]
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.slow
def test_an_array_without_elements_is_not_put_together() -> None:
    """A loop of no iterations over arrays of no elements, under two derivatives: found by the fuzzer."""
    done = run(Task(0, "interp", "f64", (("fft", 12020352),), ("revrev",)))
    assert done.findings == [] and done.calls


RELAXED = """
def f [n] (x: [n]f64): [n]f64 =
  loop (x: *[n]f64) = copy x for _r < 2 do
    loop (x: *[n]f64) = x for i < n - 2 do
      x with [i + 1] = x[i + 1] + 1 * (x[i] * f64.cos x[i + 2] - x[i + 1])
entry back [n] (x: [n]f64) (s: [n]f64) = #[reversible(exact)] vjp f x s
entry kept [n] (x: [n]f64) (s: [n]f64) = #[reversible(false)] vjp f x s
"""


def test_an_element_that_a_step_drops_is_kept() -> None:
    """`x + 1 * (y - x)` is y: no equation gives back x."""
    prog = futad.compile(RELAXED, backend="interp")
    x, s = np.linspace(0.5, 2.0, 100), np.linspace(-1.0, 1.0, 100)  # more than may be mended
    np.testing.assert_allclose(prog.back(x, s), prog.kept(x, s), rtol=1e-13)


@pytest.mark.parametrize("body", [
    "b[::-1] :> [n]f64", "copy (b[::-1] :> [n]f64)", "b[n / 2:] ++ b[:n / 2] :> [n]f64", "reverse (b[::-1] :> [n]f64)",
    "flatten (transpose (unflatten (b :> [2 * (n / 2)]f64))) :> [n]f64", "(rotate 1 (b[::-1])) :> [n]f64",
])  # fmt: skip
def test_what_is_found_has_its_variables_type(body: str) -> None:
    """Sizes that are equal only by an assertion: what is computed backwards names them as the loop's variable does."""
    text = f"""
        def f [n] (xs: [n]f64) = loop (b, c) = (xs, xs) for i < n / 2 do (({body}), map2 (*) b c)
        entry main [n] (xs: [n]f64) (y: [n]f64) = vjp f xs (y, y)
    """
    core = compile_text(text)
    compile_program(core, passes=("inline", "asserts", "invert", "ad"), check=True)
    x, y = np.array([0.5, -1.25, 2.0, 1.5]), np.array([1.0, 2.0, -0.5, 3.0])
    one, other = Program(core, backend="interp"), Program(core, engine="dual")
    np.testing.assert_allclose(one.main(x, y), other.main(x, y), rtol=1e-12)
