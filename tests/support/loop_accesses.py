"""Random loops that read and write one array at affine places: as core programs, and run by hand to see whether an
element is overwritten after it was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import BOOL, F64, I64, ONE, TRUE, ZERO, ArrayType, Atom, Const, Var, i64
from tests.support.ad_support import make


@dataclass(frozen=True)
class Affine:
    """i * of_i + j * of_j + k * of_k + o * of_o + n * of_n + m * of_m + constant: j counts the inner loop, k a map in
    the loop, o a map around it."""

    of_i: int = 0
    of_j: int = 0
    of_k: int = 0
    of_o: int = 0
    of_n: int = 0
    of_m: int = 0
    constant: int = 0

    def value(self, env: dict[str, int]) -> int:
        return sum(getattr(self, f"of_{v}") * x for v, x in env.items()) + self.constant

    def emit(self, b: Builder, env: dict[str, Atom]) -> Atom:
        out: Atom = i64(self.constant)
        for v, x in env.items():
            if c := getattr(self, f"of_{v}"):
                out = b.op("add", out, x if c == 1 else b.op("mul", x, i64(c)))
        return out


@dataclass(frozen=True)
class Read:
    """v = sin v + 0.7 * x[index] (nothing out of range); fewer indices than dimensions read and add a row."""

    index: tuple[Affine, ...]


@dataclass(frozen=True)
class Sum:
    """v = v + 0.5 * the sum over k < count of x[index], in a map."""

    count: Affine
    index: tuple[Affine, ...]


@dataclass(frozen=True)
class Write:
    """x[index] = v * (first coordinate of a row), if in range."""

    index: tuple[Affine, ...]


@dataclass(frozen=True)
class Branch:
    """then if left < right else orelse."""

    left: Affine
    right: Affine
    then: tuple[Any, ...]
    orelse: tuple[Any, ...]


@dataclass(frozen=True)
class Inner:
    """for j < count, or while."""

    count: Affine
    body: tuple[Any, ...]
    counts: bool = False


@dataclass(frozen=True)
class Nest:
    """for i < count (or a while loop that counts), over an array of `rank` dimensions n and m; `mapped`: in a map over
    o < n, each with an array of its own."""

    rank: int
    count: Affine
    body: tuple[Any, ...]
    counts: bool = False
    mapped: bool = False


# --- run by hand ---------------------------------------------------------------------------------------------------


class Overwritten(Exception):
    """An element is overwritten after it was read."""


def conflicts(nest: Nest, n: int, m: int) -> bool:
    """Whether an element is overwritten after it was read, for an array of n by m."""
    read: set[tuple[int, ...]]
    shape = (n, m)[: nest.rank]

    def cells(index: Sequence[Affine], env: dict[str, int]) -> list[tuple[int, ...]]:
        at = tuple([a.value(env) for a in index])
        if not all(0 <= p < d for p, d in zip(at, shape, strict=False)):
            return []
        rest = [()] if len(at) == len(shape) else [(q,) for q in range(shape[-1])]
        return [(*at, *r) for r in rest]

    def run(body: Sequence[Any], env: dict[str, int]) -> None:
        for s in body:
            match s:
                case Read():
                    read.update(cells(s.index, env))
                case Sum():
                    for k in range(s.count.value(env)):
                        read.update(cells(s.index, env | {"k": k}))
                case Write():
                    if not read.isdisjoint(cells(s.index, env)):
                        raise Overwritten
                case Branch():
                    run(s.then if s.left.value(env) < s.right.value(env) else s.orelse, env)
                case Inner():
                    for j in range(s.count.value(env)):
                        run(s.body, env | {"j": j})

    try:
        for o in range(n if nest.mapped else 1):
            read = set()
            outer = {"n": n, "m": m, "o": o}
            for i in range(nest.count.value(outer)):
                run(nest.body, outer | {"i": i})
    except Overwritten:
        return True
    return False


# --- as a core program ---------------------------------------------------------------------------------------------


def program(nest: Nest, attrs: tuple[Any, ...] = ()) -> ir.Program:
    """f (x: [n]f64 or [n][m]f64) (c: f64) (ms: [m]f64): the array after the loop, and a scalar; or arrays of those.
    The loop has these attributes."""
    array = "[n][m]f64" if nest.rank == 2 else "[n]f64"

    def f(b: Builder, sizes: dict[str, Atom], x: Var, c: Var, ms: Var) -> list[Atom]:
        env = {"n": sizes["n"], "m": sizes["m"], "o": ZERO}

        def loop(q: Builder, env: dict[str, Atom]) -> list[Atom]:
            def iteration(z: Builder, i: Atom, x: Atom, v: Atom) -> list[Atom]:
                return emit(z, nest.body, env | {"i": i}, x, v)

            return repeat(q, nest.count.emit(q, env), q.let(ir.Copy(x)), c, iteration, nest.counts, attrs)

        if not nest.mapped:
            return loop(b, env)
        where = b.let(ir.Iota(sizes["n"], ZERO, ONE))
        return list(b.map_(lambda q, o: loop(q, env | {"o": o}), where))

    return make([array, "f64", "[m]f64"], f)


def repeat(
    b: Builder,
    count: Atom,
    x: Atom,
    v: Atom,
    iteration: Callable[[Builder, Atom, Atom, Atom], list[Atom]],
    counts: bool,
    attrs: tuple[Any, ...] = (),
) -> list[Atom]:
    """`iteration` for i < count on an array and a scalar, in a for loop or in a while loop that counts."""
    if not counts:
        body = b.lambda_([("i", I64), ("x", x.type), ("v", F64)], iteration)
        return list(b.emit(ir.For(count, (x, v), body), "x", "v", attrs=attrs))

    def step(q: Builder, go: Var, x: Var, v: Var, i: Var) -> list[Atom]:
        x2, v2 = iteration(q, i, x, v)
        i2 = q.op("add", i, ONE)
        return [q.op("lt", i2, count), x2, v2, i2]

    body = b.lambda_([("go", BOOL), ("x", x.type), ("v", F64), ("i", I64)], step)
    start = b.op("lt", ZERO, count)
    return list(b.emit(ir.While((start, x, v, ZERO), body), "go", "x", "v", "i", attrs=attrs))[1:3]


def add(q: Builder, x: Atom, y: Atom) -> list[Atom]:
    return [q.op("add", x, y)]


def summed(b: Builder, xs: Atom) -> Atom:
    op = b.lambda_([("x", F64), ("y", F64)], add)
    return b.emit(ir.Reduce(xs.type.shape[0], (xs,), op, (Const(F64, 0.0),)))[0]  # type: ignore[union-attr]


def emit(b: Builder, stms: Sequence[Any], env: dict[str, Atom], x: Atom, v: Atom) -> list[Atom]:
    """The array and the scalar after the statements."""
    shape = x.type.shape  # type: ignore[union-attr]

    def inside(c: Builder, index: Sequence[Affine], env: dict[str, Atom]) -> tuple[Atom, list[Atom]]:
        at = [a.emit(c, env) for a in index]
        ok: Atom = TRUE
        for p, d in zip(at, shape, strict=False):
            ok = c.op("and", ok, c.op("and", c.op("le", ZERO, p), c.op("lt", p, d)))
        return ok, at

    def read(c: Builder, index: Sequence[Affine], env: dict[str, Atom]) -> Atom:
        ok, at = inside(c, index, env)

        def element(q: Builder) -> list[Atom]:
            e = q.at(x, *at)
            return [summed(q, e) if isinstance(e.type, ArrayType) else e]

        return c.emit(ir.If(ok, c.body(element), c.body(lambda q: [Const(F64, 0.0)])), types=[F64])[0]

    for s in stms:
        match s:
            case Read():
                v = b.op("add", b.op("sin", v), b.op("mul", read(b, s.index, env), Const(F64, 0.7)))
            case Sum():
                count = b.op("max", s.count.emit(b, env), ZERO)
                where = b.let(ir.Iota(count, ZERO, ONE))
                (parts,) = b.map_(lambda q, k, s=s: [read(q, s.index, env | {"k": k})], where)
                v = b.op("add", v, b.op("mul", summed(b, parts), Const(F64, 0.5)))
            case Write():
                ok, at = inside(b, s.index, env)
                row = shape[len(at) :]

                def put(q: Builder, at: list[Atom] = at, row: Any = row, v: Atom = v, x: Atom = x) -> list[Atom]:
                    new = q.op("mul", v, Const(F64, 1.1))
                    return [q.let(ir.Update(x, tuple(at), q.let(ir.Replicate(row, new)) if row else new))]

                (x,) = b.emit(ir.If(ok, b.body(put), b.body(lambda q, x=x: [x])), "x", types=[x.type])
            case Branch():
                cond = b.op("lt", s.left.emit(b, env), s.right.emit(b, env))
                sides = [
                    b.body(lambda q, part=part, x=x, v=v: emit(q, part, env, x, v)) for part in (s.then, s.orelse)
                ]
                x, v = b.emit(ir.If(cond, *sides), "x", "v", types=[x.type, F64])
            case Inner():

                def iteration(q: Builder, j: Atom, x: Atom, v: Atom, s: Inner = s) -> list[Atom]:
                    return emit(q, s.body, env | {"j": j}, x, v)

                x, v = repeat(b, s.count.emit(b, env), x, v, iteration, s.counts)
    return [x, v]


# --- random ones ---------------------------------------------------------------------------------------------------


@st.composite
def affine(draw: Any, *variables: str) -> Affine:
    """Mostly one variable up or down, and a little more."""
    of = {f"of_{v}": draw(st.sampled_from([0, 0, 1, 1, -1, 2])) for v in variables}
    return Affine(**of, of_n=draw(st.sampled_from([0, 0, 0, 1])), constant=draw(st.integers(-2, 2)))


def index(rank: int, *variables: str) -> Any:
    size = st.just(1) if rank == 1 else st.integers(1, 2)
    return size.flatmap(lambda k: st.tuples(*[affine(*variables)] * k))


def accesses(rank: int, variables: tuple[str, ...]) -> Any:
    return st.one_of(
        index(rank, *variables).map(Read),
        index(rank, *variables).map(Write),
        st.builds(Sum, affine(*variables), index(rank, *variables, "k")),
    )


def statements(rank: int, variables: tuple[str, ...], depth: int) -> Any:
    simple = accesses(rank, variables)
    if depth == 0:
        return st.lists(simple, min_size=1, max_size=3).map(tuple)
    inside = statements(rank, variables, depth - 1)
    nested = [simple, simple, st.builds(Branch, affine(*variables), affine(*variables), inside, inside)]
    if "j" not in variables:
        body = statements(rank, (*variables, "j"), depth - 1)
        nested.append(st.builds(Inner, affine(*variables), body, st.booleans()))
    return st.lists(st.one_of(*nested), min_size=1, max_size=3).map(tuple)


def bodies(rank: int, variables: tuple[str, ...]) -> Any:
    """A read, a write, and whatever else, in any order."""
    more = st.one_of(st.just(()), st.just(()), statements(rank, variables, 1))
    parts = st.tuples(accesses(rank, variables), index(rank, *variables).map(Write), more)
    return parts.flatmap(lambda p: st.permutations([p[0], p[1], *p[2]])).map(tuple)


def nest(rank: int, mapped: bool) -> Any:
    count = st.builds(Affine, of_n=st.sampled_from([1, 1, 2]), constant=st.integers(-2, 1))
    body = bodies(rank, ("i", "o") if mapped else ("i",))
    return st.builds(Nest, st.just(rank), count, body, st.booleans(), st.just(mapped))


nests = st.tuples(st.integers(1, 2), st.sampled_from([False, False, True])).flatmap(lambda p: nest(*p))
