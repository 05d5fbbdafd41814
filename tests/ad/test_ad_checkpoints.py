"""What loops save for their return sweep, and how often they run: counted by the interpreter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.interp import HANDLERS, Interpreter
from futad.core.types import ArrayType
from futad.pipeline import compile_program
from futad.source import compile_text
from tests.support.ad_support import derivative, saved, statements


@dataclass
class Run:
    """What a run did: evaluations of each scalar operation, and for each place that makes room for saved values the
    largest number of elements."""

    ops: Counter[str] = field(default_factory=Counter)
    rooms: dict[int, int] = field(default_factory=dict)


@cache
def compiled(text: str) -> ir.Program:
    return compile_program(compile_text(text), check=True)


@pytest.fixture
def counted() -> Iterator[Any]:
    """A function that runs an entry of a program text, all passes done, and tells what it did."""
    run = Run()
    op, scratch = HANDLERS[ir.Op], HANDLERS[ir.Scratch]

    def count_op(m: Any, e: Any, stm: Any, sc: Any) -> Any:
        out = op(m, e, stm, sc)
        run.ops[e.op] += sc.lanes
        return out

    def count_scratch(m: Any, e: Any, stm: Any, sc: Any) -> Any:
        out = scratch(m, e, stm, sc)
        if stm.pat[0].name.endswith("_bar"):
            return out  # an adjoint, which the return sweep fills
        run.rooms[id(stm)] = max(run.rooms.get(id(stm), 0), int(np.size(out[0])))
        return out

    def go(text: str, entry: str, *args: Any) -> tuple[list[Any], Run]:
        run.ops.clear()
        run.rooms.clear()
        program = compiled(text)
        (name,) = [n for n, f in program.funs.items() if f.entry is not None and f.entry.name == entry]
        return Interpreter(program, batched=False).run(name, list(args)), run

    HANDLERS[ir.Op], HANDLERS[ir.Scratch] = count_op, count_scratch
    try:
        yield go
    finally:
        HANDLERS[ir.Op], HANDLERS[ir.Scratch] = op, scratch


# --- stripmine -----------------------------------------------------------------------------------------------------

# An iteration evaluates sinh, whose value its derivative needs, once (or, of arrays, once an element).
SCALAR = "loop y = x for i < n do 0.3 * f64.sinh y * f64.sinh y + x / (1 + f64.i64 i)"
STRIPPED = {
    "scalar": "#[stripmine({k})] " + SCALAR,
    "tuple": """
        (#[stripmine({k})] loop (y, j, odd) = (x, 1i32, false) for i < n do
          let s = f64.sinh y
          in (if odd then 0.3 * s * s * f64.i32 j else x - 0.2 * s * s, 1 - j, !odd)).0""",
    "updates": """
        f64.sum (#[stripmine({k})] loop ys = [x, 2 * x, 3 * x] for i < n do
          let s = f64.sinh ys[i % 3]
          in ys with [(i * i) % 3] = 0.02 * s * s + x)""",
    "bounded_while": """
        (#[stripmine({k})] #[bound({bound})] loop (y, i) = (x, 0) while i < n do
          (0.3 * f64.sinh y * f64.sinh y + x / (1 + f64.i64 i), i + 1)).0""",
    "bounded_while_updates": """
        f64.sum (#[stripmine({k})] #[bound({bound})] loop (ys, i) = ([x, 2 * x, 3 * x], 0) while i < n do
          let s = f64.sinh ys[i % 3]
          in (ys with [(i * i) % 3] = 0.02 * s * s + x, i + 1)).0""",
    "counted_while": """
        (#[stripmine({k})] loop (y, i) = (x, 0) while i < n do
          (0.3 * f64.sinh y * f64.sinh y + x / (1 + f64.i64 i), i + 1)).0""",
    "counted_until": """
        (#[stripmine({k})] loop (y, i) = (x, 0) while i < n && y < 1000 do
          (0.3 * f64.sinh y * f64.sinh y + x / (1 + f64.i64 i), i + 1)).0""",
    "growing": """
        let ys = #[stripmine({k})] loop ys: []f64 = [x] for i < n do
          let s = f64.sinh ys[length ys - 1]
          in map (* 0.9) ys ++ [s * s * 0.3 + x * ys[0]]
        in f64.sum ys""",
    "growing_while": """
        let (ys, _) = #[stripmine({k})] loop (ys: []f64, i) = ([x], 0) while i < n do
          let s = f64.sinh ys[length ys - 1]
          in (map (* 0.9) ys ++ [s * s * 0.3 + x * ys[0]], i + 1)
        in f64.sum ys""",
    "growing_bounded_while": """
        let (ys, _) = #[stripmine({k})] #[bound({bound})] loop (ys: []f64, i) = ([x], 0) while i < n do
          let s = f64.sinh ys[length ys - 1]
          in (map (* 0.9) ys ++ [s * s * 0.3 + x * ys[0]], i + 1)
        in f64.sum ys""",
}
# One run more counts iterations if the condition needs the value (else only what the condition needs runs once more),
# or elements.
COUNTS_FIRST = {"counted_until": 1, "growing": 1, "growing_bounded_while": 1, "growing_while": 1}


BOUND = 64


def stripped(name: str, k: int, bound: int = BOUND) -> str:
    body = STRIPPED[name].format(k=k, bound=bound)
    return f"""
    def f (n: i64) (x: f64): f64 = {body}
    entry rev (n: i64) (x: f64) = vjp (f n) x 1
    entry fwd (n: i64) (x: f64) = jvp (f n) x 1
    """


@pytest.mark.slow
@pytest.mark.parametrize("name", STRIPPED)
@pytest.mark.parametrize("k, n", [(1, 36), (2, 27), (3, 16), (2, 50), (2, 1), (2, 0)])
def test_stripmine(counted: Any, name: str, k: int, n: int) -> None:
    """The body runs k + 2 times, and every level has room for the (k + 1)-th root of n iterations (of whole arrays)."""
    text = stripped(name, k)
    (want,), _ = counted(text, "fwd", n, 0.7)
    (got,), run = counted(text, "rev", n, 0.7)
    assert got == pytest.approx(want, rel=1e-12)
    assert run.ops["sinh"] == (k + 2 + COUNTS_FIRST.get(name, 0)) * n
    size = n + 1 if name.startswith("growing") else 3 if "updates" in name else 1
    iterations = BOUND if "bounded" in name else n
    m = math.ceil(iterations ** (1 / (k + 1))) + 1
    assert len(run.rooms) >= k + 1
    assert all(room <= m * size for room in run.rooms.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", STRIPPED)
def test_without_stripmine_every_iteration_is_kept(counted: Any, name: str) -> None:
    n = 50
    _, run = counted(stripped(name, 0), "rev", n, 0.7)
    assert max(run.rooms.values()) >= (n * n // 2 if name.startswith("growing") else n)
    # How often a loop iterations, and how its arrays grow, are counted without their values here, but by counted_until.
    assert run.ops["sinh"] == (3 if name == "counted_until" else 2) * n


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bounded_while", "bounded_while_updates", "growing_bounded_while"])
def test_a_bound_that_is_not_reached(counted: Any, name: str) -> None:
    """Iterations that are not taken cost no run of the body."""
    text = stripped(name, 2)
    (want,), _ = counted(text, "fwd", 11, 0.7)
    (got,), run = counted(text, "rev", 11, 0.7)
    assert got == pytest.approx(want, rel=1e-12)
    assert run.ops["sinh"] == (4 + COUNTS_FIRST.get(name, 0)) * 11


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("name", ["bounded_while", "bounded_while_updates", "growing_bounded_while"])
def test_a_bound_that_is_exceeded_is_an_error(name: str, k: int) -> None:
    p = futad.compile(stripped(name, k, 10), backend="interp")
    assert p.rev(10, 0.7) == pytest.approx(p.fwd(10, 0.7), rel=1e-12)
    with pytest.raises(futad.Error, match="the loop runs more iterations than its bound of 10"):
        p.rev(11, 0.7)
    assert np.isfinite(p.fwd(11, 0.7))  # forward mode saves nothing


def test_the_attribute_wants_a_number() -> None:
    for bad in ("stripmine", "stripmine(x)"):
        text = f"entry rev (x: f64) = vjp (\\x -> #[{bad}] loop y = x for i < 9 do y * y) x 1"
        with pytest.raises(futad.Error, match="stripmine takes one number"):
            futad.compile(text, backend="interp").rev(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c"])
@pytest.mark.parametrize("name", STRIPPED)
def test_stripmine_compiled(name: str, backend: str) -> None:
    p = futad.compile(stripped(name, 2), backend=backend)
    assert p.rev(50, 0.7) == pytest.approx(p.fwd(50, 0.7), rel=1e-12)


# --- what is saved -------------------------------------------------------------------------------------------------

# Each is a function of x: [n]f64; after it the number of arrays that hold saved values.
SAVED = {
    "a sum": ("loop s = 0 for i < n do s + x[i] * x[i]", 0),
    "scaled": ("loop s = 1 for i < n do s * x[0]", 1),
    "linear in itself": ("loop s = 1 for i < n do 2 * s + f64.sin x[i]", 0),
    "one of two": ("(loop (a, b) = (1, 1) for i < n do (3 * a + b * b, f64.sin b + x[i])).0", 1),
    "both": ("(loop (a, b) = (1, 1) for i < n do (a * b, b * x[i])).0", 2),
    "in a condition": (
        "(loop (s, k) = (1, 0i64) for i < n do (if k % 3 == 0 then s + x[i] else s, (k * k + 1) % 7)).0", 1),
    "a counter": ("(loop (s, k) = (1, 5i32) for i < n do (s + x[i] * f64.i32 k, k + 3)).0", 0),
    "an unsigned counter": ("(loop (s, k) = (1, 5u8) for i < n do (s + x[i] * f64.u8 k, k - 3)).0", 0),
    "a counter of a while": ("(loop (s, k) = (1, 0) while k < n do (s + x[k] * x[k], k + 1)).0", 0),
    "a bool": ("(loop (s, b) = (1, true) for i < n do (if b then s * x[i] else s, !b)).0", 1),
    "an invariant array": ("loop s = 1 for i < n do s + f64.sum (map (* x[i]) x)", 0),
    "an array unread": ("f64.sum (loop ys = x for i < n do map (* 2) ys)", 0),
    "an array read": ("f64.sum (loop ys = x for i < n do map f64.sin ys)", 1),
    "an array updated": ("f64.sum (loop ys = copy x for i < n do ys with [i / 2] = f64.sin ys[i])", 1),
    "an updated place": (
        "(loop (ys, k) = (copy x, 0) for i < n do (ys with [k] = ys[i] * ys[k], (k * k + 1) % n)).0[0]", 3),
    "an array updated in a while": (
        "let (ys, _) = loop (ys, k) = (copy x, 0) while k < n do (ys with [k / 2] = f64.sin ys[k], k + 1) in ys[0]", 1),
    "an array updated in a bounded while": (
        "let (ys, _) = #[bound(9)] loop (ys, k) = (copy x, 0) while k < n do (ys with [k / 2] = f64.sin ys[k], k + 1)"
        " in ys[0]", 1),
    "nested": ("loop s = 1 for i < n do loop s for j < n do s * x[j]", 2),
    "nested, linear": ("loop s = 1 for i < n do loop s for j < n do s + x[i] * x[j]", 0),
}


def of_vector(body: str) -> str:
    return f"""
    def f [n] (x: [n]f64): f64 = {body}
    entry rev [n] (x: [n]f64) = vjp f x 1
    entry fwd [n] (x: [n]f64) = tabulate n (\\i -> jvp f x (tabulate n (\\j -> f64.bool (i == j))))
    """


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
def test_only_what_the_return_sweep_reads_is_saved(counted: Any, name: str) -> None:
    body, arrays = SAVED[name]
    text = of_vector(body)
    x = np.array([0.4, 1.2, 0.9, 0.5])
    (want,), _ = counted(text, "fwd", 4, x)
    (got,), _ = counted(text, "rev", 4, x)
    np.testing.assert_allclose(got, want, rtol=1e-13)
    assert saved(derivative(text)) == arrays


@pytest.mark.parametrize("loop", ["for i < n do", "while i < n do"])
def test_an_update_saves_elements_not_arrays(counted: Any, loop: str) -> None:
    """One element for an iteration, whatever the array holds; also in while loops."""
    text = f"""
    def f (n: i64) (x: [100]f64): f64 =
      let (ys, _) = loop (ys, {"i" if "while" in loop else "_k"}) = (copy x, 0i64) {loop}
        (ys with [i * i % 7] = f64.sin ys[i % 100], {"i + 1" if "while" in loop else "0"})
      in f64.sum ys
    entry rev (n: i64) (x: [100]f64) = vjp (f n) x 1
    entry fwd (n: i64) (x: [100]f64) = jvp (f n) x x
    """
    x = np.linspace(0.1, 1, 100)
    (want,), _ = counted(text, "fwd", 20, x)
    (got,), run = counted(text, "rev", 20, x)
    assert got @ x == pytest.approx(want, rel=1e-12)
    assert run.rooms and all(room == 20 for room in run.rooms.values())


INNER_WHILE = """
    def f (n: i64) (x: [100]f64): f64 =
      let ys = loop ys = copy x for i < n do
        let (ys, _) = %s loop (ys, j) = (ys, 0) while j < i %% 4 && ys[j] < 5 do
          (if j %% 3 == 2 then ys else ys with [(i * i + j) %% 7] = f64.sin (ys[i + j] * ys[j]) + 0.3, j + 1)
        in ys
      in f64.sum ys
    entry rev (n: i64) (x: [100]f64) = vjp (f n) x 1
    entry fwd (n: i64) (x: [100]f64) = jvp (f n) x x
    entry second (n: i64) (x: [100]f64) = (jvp (\\x -> vjp (f n) x 1) x x, vjp (\\x -> vjp (f n) x 1) x x)
"""


@pytest.mark.slow
def test_an_inner_while_with_a_bound_saves_elements(counted: Any) -> None:
    """As many for each outer iteration as the bound says, where without one it is the array."""
    x = np.linspace(0.1, 1, 100)
    bounded, plain = INNER_WHILE % "#[bound(3)]", INNER_WHILE % ""
    (want,), _ = counted(bounded, "fwd", 20, x)
    (got,), run = counted(bounded, "rev", 20, x)
    assert got @ x == pytest.approx(want, rel=1e-12)
    assert run.rooms and max(run.rooms.values()) == 20 * 3
    _, before = counted(plain, "rev", 20, x)
    assert max(before.rooms.values()) == 20 * 100
    (forward, reverse), _ = counted(bounded, "second", 20, x)
    np.testing.assert_allclose(reverse, forward, rtol=1e-12, atol=1e-14)
    (no_iterations,), _ = counted(bounded, "rev", 0, x)
    assert (no_iterations == 1).all()
    with pytest.raises(futad.Error, match="the loop runs more iterations than its bound of 2"):
        counted(INNER_WHILE % "#[bound(2)]", "rev", 20, x)


def test_scalars_stay_scalars() -> None:
    """The adjoints of a loop's scalars are scalar variables of the return sweep: nothing is written but the sum for
    the array that is read, and nothing is read but that and what was saved."""
    stms = derivative(of_vector("(loop (a, b, k) = (1, 1, 3) for i < n do (a * b, b * x[i] + a / f64.i64 k, k + 2)).0"))
    forward, back = [s.exp for s in stms if isinstance(s.exp, ir.For)]
    written = [s for s in statements(back.body) if isinstance(s.exp, ir.Update)]
    assert len(written) == 1
    arrays = [p for p in back.body.params if isinstance(p.type, ArrayType)]
    assert len(arrays) == 1 and len(back.body.params) >= 4
    assert sum(isinstance(p.type, ArrayType) for p in forward.body.params) == 2  # a and b of every iteration


# --- what is not repeated ------------------------------------------------------------------------------------------

# Each a function of x, of eight elements; after it how many exponentials reverse mode may take.
INVARIANT = {
    "scalar": ("let c = x[0] in loop s = x[1] for i < n do f64.sin s * f64.exp c", 1),
    "map": ("f64.sum (loop ys = x for i < n do map2 (*) (map f64.sin ys) (map f64.exp x))", 2 * 8),
    "reduction": ("loop s = x[1] for i < n do f64.sin s * f64.sum (map f64.exp x)", 2 * 8),
    "inner loop": ("let c = x[0] in loop s = x[1] for i < n do loop s for j < n do f64.sin s * f64.exp c", 1),
    "of the outer loop": ("loop s = x[1] for i < n do loop s for j < n do f64.sin s * f64.exp x[i]", 2 * 8),
    "while": ("let c = x[0] in (loop (s, i) = (x[1], 0) while i < n do (f64.sin s * f64.exp c, i + 1)).0", 1),
    "in a map": ("f64.sum (map (\\c -> loop s = c for i < n do f64.sin s * f64.exp c) x)", 8),
    "stripmined": ("let c = x[0] in #[stripmine(1)] loop s = x[1] for i < n do f64.sin s * f64.exp c", 1),
}


@pytest.mark.parametrize("name", INVARIANT)
def test_invariant_parts_leave_both_sweeps(counted: Any, name: str) -> None:
    """What no iteration changes is computed once (a map also in its own return sweep), not once an iteration."""
    body, limit = INVARIANT[name]
    text = of_vector(body)
    x = np.linspace(0.3, 0.9, 8)
    (want,), _ = counted(text, "fwd", 8, x)
    (got,), run = counted(text, "rev", 8, x)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert run.ops["exp"] <= limit


# --- programs ------------------------------------------------------------------------------------------------------

KINDS = {
    "nested": "loop s = c for i < n do loop s for j < i do f64.sin s * x[j] + x[i]",
    "three_deep": "loop s = c for i < n do loop s for j < i do loop s for k < j do f64.sin (s * x[k] + x[j] * x[i])",
    "negative_count": "loop s = c for i < n - 5 do s * x[i] + (loop t = s for j < 2 - n do t * x[0])",
    "negative_inner": """
        f64.sum (loop ys = copy x for i < n do loop ys for j < i64.min n (2 - i) do
                          ys with [j] = f64.sin ys[i] * c)""",
    "tuple": """
        let (a, (b, k), p) = loop (a, (b, k), p) = (c, (1, 0i64), true) for i < n do
          (if p then a * b else a + x[k], (b * x[i], (k * k + i) % n), b > 0.3)
        in a * b * f64.i64 (k + 1) * f64.bool p""",
    "record": """
        let r = loop r = {mean = c, count = 0i32, last = x} for i < n do
          {mean = r.mean + r.last[i] * x[i], count = r.count + 1, last = map (* r.mean) r.last}
        in r.mean * f64.i32 r.count + f64.sum r.last""",
    "branch_in_map": """
        f64.sum (map (\\v -> if v > 0.5 then loop s = v for i < n do f64.sin (s * x[i]) + c
                             else (loop (s, i) = (v, 0) while i < 3 && s > 0 do (s * s * c, i + 1)).0) x)""",
    "arrays_in_map": """
        f64.sum (map (\\v -> f64.sum (loop ys = map (* v) x for i < n do
                               if ys[i] > c then ys with [i] = ys[n - 1 - i] * v else map f64.sin ys)) x)""",
    "vjp_inside": "loop s = c for i < n do s + vjp (\\y -> f64.sin (y * s) * x[i]) x[i] 1",
    "jvp_inside": "loop s = c for i < n do s + jvp (\\y -> f64.sin (y * s) * x[i]) x[i] s",
    "vjp_of_a_loop_inside": """
        loop s = c for i < n do s + 0.1 * f64.sum (vjp (\\y -> loop t = s for j < n do f64.sin t * y[j]) x 1)""",
    "while_in_for_in_while": """
        (loop (s, k) = (c, 0) while k < 2 do
           (loop s for i < n do (loop (s, j) = (s, 0) while j < i do (f64.sin s + x[j], j + 1)).0, k + 1)).0""",
    "zero_iterations": "loop s = c * x[0] for i < 0 * n do s * s",
    "zero_iterations_while": "(loop (s, ys) = (c * x[0], copy x) while s < -1000 do (s * s, ys with [0] = s)).1[0] * c",
    "u8_count": "loop s = c for i < 5u8 do s * x[0] + f64.u8 i",
    "for_in": "loop s = c for v in x do f64.sin (s * v)",
    "swapped": "let (a, _) = loop (a, b) = (x, map (* c) x) for i < n do (map f64.sin b, a) in f64.sum a",
    "matrix_rows": """
        let m = loop m = replicate n (map (* c) x) for i < n do m with [i] = map f64.sin m[(i + 1) % n]
        in f64.sum (flatten m)""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_loops(name: str) -> None:
    """Reverse mode against forward mode and central differences, and against reverse mode twice."""
    text = f"""
    def f [n] (c: f64) (x: [n]f64): f64 = {KINDS[name]}
    entry value [n] (c: f64) (x: [n]f64) = f c x
    entry rev [n] (c: f64) (x: [n]f64) = vjp (\\(c, x) -> f c x) (c, x) 1
    entry fwd [n] (c: f64) (x: [n]f64) (dc: f64) (dx: [n]f64) = jvp (\\(c, x) -> f c x) (c, x) (dc, dx)
    entry fr [n] (c: f64) (x: [n]f64) =
      jvp (\\(c, x) -> vjp (\\(c, x) -> f c x) (c, x) 1) (c, x) (1, map (+ 1) x)
    entry rr [n] (c: f64) (x: [n]f64) =
      vjp (\\(c, x) -> vjp (\\(c, x) -> f c x) (c, x) 1) (c, x) (1, map (+ 1) x)
    """
    p = futad.compile(text, backend="interp")
    for n in (4, 2, 1):
        c, x = 0.6, np.array([0.45, 0.8, 0.3, 0.7])[:n]
        dc, dx = 0.9, np.array([0.3, -0.2, 0.5, 1.1])[:n]
        gc, gx = p.rev(c, x)
        along = p.fwd(c, x, dc, dx)
        assert gc * dc + gx @ dx == pytest.approx(along, rel=1e-11, abs=1e-13)
        h = 1e-6
        near = (p.value(c + h * dc, x + h * dx) - p.value(c - h * dc, x - h * dx)) / (2 * h)
        assert along == pytest.approx(near, rel=1e-6, abs=1e-8)
        for got, want in zip(p.rr(c, x), p.fr(c, x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_kinds_of_loops_compiled() -> None:
    for name in ("three_deep", "tuple", "branch_in_map", "arrays_in_map", "while_in_for_in_while", "swapped"):
        text = f"""
        def f [n] (c: f64) (x: [n]f64): f64 = {KINDS[name]}
        entry rev [n] (c: f64) (x: [n]f64) = vjp (\\(c, x) -> f c x) (c, x) 1
        """
        x = np.array([0.45, 0.8, 0.3, 0.7])
        want = futad.compile(text, backend="interp").rev(0.6, x)
        for got, w in zip(futad.compile(text, backend="c").rev(0.6, x), want, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-12)


INTEGERS = {
    "product": "loop s = k for i < n do s * x[i] + 1",
    "active counter": "(loop (s, c) = (0, k) for i < n do (s + x[i] * c * c, c + 3)).0",
    "recurrence": "i64.sum (loop ys = copy x for i < n - 1 do ys with [i + 1] = ys[i] * ys[i] - k)",
    "updates": "i64.sum (loop ys = copy x for i < n do ys with [(i * i) % n] = ys[i] * k + ys[(i * i) % n])",
    "while": "(loop (s, i) = (k, 0) while i < n do (s * s + x[i], i + 1)).0",
    "stripmined": "#[stripmine(1)] loop s = k for i < n do s * x[i] + s",
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_in_loops(name: str) -> None:
    """Integer adjoints are exact, those of a counter that depends on an argument too."""
    text = f"""
    def f [n] (k: i64) (x: [n]i64): i64 = {INTEGERS[name]}
    entry rev [n] (k: i64) (x: [n]i64) = vjp (\\(k, x) -> f k x) (k, x) 1
    entry fwd [n] (k: i64) (x: [n]i64) =
      let unit i = tabulate n (\\j -> i64.bool (i == j))
      in ( jvp (\\(k, x) -> f k x) (k, x) (1, replicate n 0)
         , tabulate n (\\i -> jvp (\\(k, x) -> f k x) (k, x) (0, unit i)))
    """
    p = futad.compile(text, backend="interp")
    for got, want in zip(p.rev(2, np.array([3, -1, 2, 5])), p.fwd(2, np.array([3, -1, 2, 5])), strict=True):
        np.testing.assert_array_equal(got, want)
