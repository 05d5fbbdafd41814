"""Sums and dear functions of them in loops of their own (`imp/loops/distribute.py`)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.types import F64, I64
from futad.fires import counting
from futad.imp import ir
from futad.imp.ir import Load, Ref, Scalar
from futad.imp.loops.distribute import distributed
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import TARGETS
from tests.support.slow import slow_but

HEAD = "entry main [m][n] (a: [m][n]f64) (b: [m][n]f64) (x: [n]f64) (c: [m]f64) = {}"
DOT = "f64.sum (map2 (*) {} x)"
NESTS = {
    "affine": (f"map2 (\\row c -> f64.tanh ({DOT.format('row')} + c)) a c", 1),
    "two sums": (f"map2 (\\r s -> f64.exp ({DOT.format('r')}) / (1 + f64.exp ({DOT.format('s')}))) a b", 1),
    "a fold": (f"f64.sum (map2 (\\row c -> f64.log (1 + f64.exp (c * {DOT.format('row')}))) a c)", 1),
    "a row of each": (f"map2 (\\row c -> let t = f64.tanh ({DOT.format('row')} - c) in map (* t) row) a c", 1),
    "cheap": (f"map2 (\\row c -> 2 * {DOT.format('row')} + c) a c", 0),
    "no sums": ("map (\\c -> f64.exp (f64.sin c)) c", 0),
}
SIZES = [(0, 3), (1, 0), (1, 1), (3, 5), (64, 4), (65, 9), (130, 33)]


def arguments(m: int, n: int) -> tuple[np.ndarray, ...]:
    r = np.random.default_rng(m * 100 + n)
    return tuple(0.5 * r.normal(size=s) for s in ((m, n), (m, n), (n,), (m,)))


def fired(text: str, backend: str = "c") -> int:
    target = TARGETS[backend]
    with counting() as counts:
        CBackend(compile_program(compile_text(text), target=target, check=True), target)
    return counts["loop-distribution"]


@pytest.mark.parametrize("name", NESTS)
def test_where_it_fires(name):
    body, fires = NESTS[name]
    assert min(fired(HEAD.format(body)), 1) == fires


@pytest.mark.slow
@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_all_agree(backend):
    names = [f"entry_{k}" for k in range(len(NESTS))]
    bodies = [body for body, _ in NESTS.values()]
    text = "\n".join(HEAD.replace("main", n).format(body) for n, body in zip(names, bodies, strict=True))
    expected, program = futad.compile(text, backend="interp"), futad.compile(text, backend=backend)
    for name, nest in zip(names, NESTS, strict=True):
        for m, n in SIZES:
            got, want = [p[name](*arguments(m, n)) for p in (program, expected)]
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12, err_msg=nest)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_gradients(backend):
    """The return sweep adds to memory after the functions; by the interpreter's and by differences."""
    text = HEAD.format(f"f64.sum ({NESTS['two sums'][0]})")
    gradient = text.replace("entry main", "def f") + (
        "\nentry main [m][n] (a: [m][n]f64) (b: [m][n]f64) (x: [n]f64) (c: [m]f64) = vjp (\\x -> f a b x c) x 1"
    )
    assert backend == "emulated" or fired(gradient, backend)
    main, plain = [futad.compile(text, backend=b).main for b in (backend, "interp")]
    for m, n in ((1, 1), (70, 5)):
        args = arguments(m, n)
        found = futad.grad(main, argnums=(0, 1, 2))(*args)
        for g, e in zip(found, futad.grad(plain, argnums=(0, 1, 2))(*args), strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-11)
        h = np.zeros(n)
        h[0] = 1e-6
        ahead, behind = [plain(*args[:2], args[2] + d, args[3]) for d in (h, -h)]
        assert abs((ahead - behind) / 2e-6 - found[2][0]) < 1e-5 * max(1, abs(found[2][0]))


@pytest.mark.slow
def test_failures_come_in_order():
    """Checks stay with the first part; where a later one would fail the loop stays as it is."""
    first = "map2 (\\row c -> f64.tanh (f64.sum (map2 (*) row x) + x[i64.f64 c])) a c"
    last = (
        "map2 (\\row c -> let t = f64.tanh (f64.sum (map2 (*) row x)) "
        "in t + f64.sum (map (* t) row) + x[i64.f64 (c + t)]) a c"
    )
    m, n = 5, 4
    for body in (first, last):
        program = futad.compile(HEAD.format(body), backend="c")
        a, b, x, _ = arguments(m, n)
        with pytest.raises(futad.Error, match=r"Index \[9\] out of bounds"):
            program.main(0 * a, b, x, np.array([0.0, 1, 9, 2, 7]))


@pytest.mark.slow
def test_recurrence():
    """A recurrent network's steps and their gradient."""
    text = (
        "entry main [h][d][t] (w: [h][d]f64) (u: [h][h]f64) (x: [t][d]f64): f64 =\n"
        "  let step s v = map3 (\\r q e -> let z = f64.tanh (f64.sum (map2 (*) r v) + f64.sum (map2 (*) q s))\n"
        "                               in (1 - z) * e + z) w u s\n"
        "  in f64.sum (loop s = replicate h 0 for i < t do step s x[i])"
    )
    r = np.random.default_rng(1)
    args = [0.3 * r.normal(size=s) for s in ((66, 3), (66, 66), (2, 3))]
    expected = futad.value_and_grad(futad.compile(text, backend="interp").main, argnums=(0, 1, 2))(*args)
    assert fired(text) > 0
    for backend in ("c", "multicore"):
        value, parts = futad.value_and_grad(futad.compile(text, backend=backend).main, argnums=(0, 1, 2))(*args)
        np.testing.assert_allclose(value, expected[0], rtol=1e-12)
        for g, e in zip(parts, expected[1], strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", slow_but(range(3), range(20)))
def test_random_bodies(seed):
    """Sums, functions of them, and rows made of these, in random order."""
    r = Random(seed)
    known, lets = ["c"], []
    for k in range(r.randint(2, 6)):
        a, b = r.choice(known), r.choice(known)
        row = r.choice(["r", "s"])
        lets.append(f"let v{k} = " + r.choice([
            f"f64.sum (map2 (*) {row} x)", f"f64.sum (map (\\e -> e * {a}) {row})", f"f64.tanh ({a} + {b})",
            f"f64.exp (f64.sin {a})", f"{a} * {b}", f"f64.maximum (map (+ {a}) {row})",
            f"(loop y = {a} for e in {row} do 0.5 * y + e)",
        ]))  # fmt: skip
        known.append(f"v{k}")
    end = r.choice(["V", "V", "f64.sum (map (* V) r)"]).replace("V", known[-1])
    text = HEAD.format(f"map3 (\\r s c -> {' '.join(lets)} in {end} + {r.choice(known)}) a b c")
    if r.random() < 0.4:
        text = text.replace("= map3", "= f64.sum (map3") + ")"
    expected = futad.compile(text, backend="interp")
    for backend in ("c", "multicore"):
        program = futad.compile(text, backend=backend)
        for m, n in ((1, 2), (67, 6)):
            np.testing.assert_allclose(
                program.main(*arguments(m, n)), expected.main(*arguments(m, n)), rtol=1e-9, atol=1e-10, err_msg=text
            )


AT, J = Ref("i", I64), Ref("j", I64)


def _op(op: str, *args: ir.Expr) -> Scalar:
    return Scalar(op, args, F64, F64)


def _f(name: str) -> Ref:
    return Ref(name, F64)


def _loop(*after: ir.Stmt, function: ir.Expr | None = None, first: tuple[ir.Stmt, ...] = ()) -> ir.For:
    """for i: { s = 0; for j: s += a[j]; t = exp(s); y[i] = t; after }"""
    total = ir.For("j", Ref("m", I64), [ir.Accumulate("s", "add", Load("a", J, F64))], independent=True)
    total.partials = [ir.Partial("s", F64, "add", ir.Num(0.0, F64))]
    body = [*first, ir.Decl("s", F64, ir.Num(0.0, F64), mutable=True), total,
            ir.Decl("t", F64, function or _op("exp", _f("s"))), ir.Store("y", AT, _f("t")), *after]  # fmt: skip
    return ir.For("i", Ref("n", I64), body, map=True)


def _inner(*body: ir.Stmt) -> ir.For:
    return ir.For("k", Ref("m", I64), list(body))


def test_loops_that_only_add_are_parts_of_their_own():
    """One that adds to two arrays, and another one to a third; sums that are handed on are not parted from theirs."""
    loops = [replace(_inner(ir.Store(to, Ref("k", I64), _f("t"), "add")), independent=True) for to in ("u", "v")]
    made = _made(_loop(*loops))
    assert made is not None and isinstance(made[0], ir.For)
    inside = [[s for s in part.body if isinstance(s, ir.For)] for part in made[0].body if isinstance(part, ir.For)]
    assert [len(x) for x in inside] == [1, 0, 1, 1]


def _made(loop: ir.For) -> list[ir.Stmt] | None:
    names = iter(range(100))
    return distributed(loop, True, lambda hint: f"{hint}_{next(names)}", frozenset(), lambda part: [part])


def test_parts_that_do_not_run_apart():
    """What two parts continue, assign, or could fail at, keeps the loop whole; what one part does alone does not."""
    add = ir.Store("z", Ref("k", I64), _f("t"), "add")
    assert _made(_loop()) is not None and _made(_loop(_inner(add))) is not None
    # a fold that the functions read and a later part continues
    fold = _inner(ir.Accumulate("acc", "add", _f("t")))
    assert _made(_loop(fold)) is not None
    assert _made(_loop(fold, function=_op("exp", _op("add", _f("s"), _f("acc"))))) is None
    # memory that two parts add to
    assert _made(_loop(ir.Store("z", AT, _f("t"), "add"), _inner(add))) is None
    # but not if it is rows apart of one accumulator
    view = object()
    first, last = [replace(s, row=(view, (k,))) for k, s in ((0, ir.Store("z", AT, _f("t"), "add")), (1, add))]
    assert _made(_loop(first, _inner(last))) is not None
    assert _made(_loop(first, _inner(replace(last, row=(view, (0,)))))) is None
    assert _made(_loop(first, _inner(replace(last, row=(object(), (1,)))))) is None
    assert _made(_loop(first, _inner(last, ir.Accumulate("s", "add", Load("z", J, F64))))) is None
    # a variable of the first part that the last one changes
    own = ir.Decl("v", F64, ir.Num(1.0, F64), mutable=True)
    assert _made(_loop(_inner(ir.Accumulate("v", "add", _f("t"))), first=(own,))) is None
    # a check in the last part
    check = ir.Check(Scalar("lt", (Ref("k", I64), Ref("n", I64)), I64, I64), 1, 0)
    assert _made(_loop(_inner(check))) is None
    # what a part stores and a later one reads: memory that could be an iteration's own
    assert _made(_loop(_inner(ir.Accumulate("acc", "add", Load("y", Ref("k", I64), F64))))) is None
