"""Values computed in the place of the array that a later update gives them to: where, and never where somebody reads
what was there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.imp import ir
from futad.legality import dropping
from futad.runtime.device import EmulatedDevice
from futad.source import compile_text
from futad.target import C
from futad.testing.build import c_backend, common, device_backend
from tests.support.needs import has_cxx, needs_cxx

TEXT = """
-- One value, two arrays.
entry twice [n] [m] (xs: [n][m]f64): ([n][m]f64, [n][m]f64) =
  loop (a, b) = (replicate n (replicate m 1), replicate n (replicate m 2)) for i < n do
    let v = map f64.sin xs[i] in (a with [i] = v, b with [n - 1 - i] = v)
entry three_times [n] [m] (xs: [n][m]f64): ([n][m]f64, [n][m]f64) =
  loop (a, b) = (replicate n (replicate m 1), replicate n (replicate m 2)) for i < n / 2 do
    let v = map f64.sin xs[i] in ((a with [i] = v) with [n - 1 - i] = v, b with [n - 1 - i] = v)
-- The row before is read for the next one.
entry recurrence [n] [m] (xs: [n][m]f64): [n][m]f64 =
  loop a = copy xs for i < n - 1 do a with [i + 1] = map2 (\\x y -> f64.sin (x + y)) a[i] xs[i]
-- The update is not the next statement.
entry waits [n] [m] (xs: [n][m]f64): ([n][m]f64, f64) =
  loop (a, s) = (copy xs, 0) for i < n - 1 do
    let v = map2 (\\x y -> f64.sin (x + y)) a[i] xs[i]
    let s = s + f64.sum (scan (+) 0 a[i])
    in (a with [i + 1] = v, s)
-- As above, but what is read in between is the row to be written.
entry read_before [n] [m] (xs: [n][m]f64): ([n][m]f64, f64) =
  loop (a, s) = (copy xs, 0) for i < n - 1 do
    let v = map2 (\\x y -> f64.sin (x + y)) a[i] xs[i]
    let s = s + f64.sum (scan (+) 0 a[i + 1])
    in (a with [i + 1] = v, s)
-- Read by the statement itself: in step with what it writes, and not.
entry in_step [n] [m] (xs: [n][m]f64): [n][m]f64 =
  loop a = copy xs for i < n do a with [i] = map2 (\\x y -> f64.sin x * y) a[i] xs[i]
entry rows_in_step [n] [m] (xs: [n][m]f64): [2][n][m]f64 =
  loop a = replicate 2 (copy xs) for i < 4 do a with [i % 2] = map (map (\\x -> f64.sin x + 1)) a[i % 2]
entry reversed [n] [m] (xs: [n][m]f64): [n][m]f64 =
  loop a = copy xs for i < n do a with [i] = map2 (\\x y -> f64.sin x * y) (reverse a[i]) xs[i]
entry sums [n] [m] (xs: [n][m]f64): [2][n][m]f64 =
  loop a = replicate 2 (copy xs) for i < 4 do
    a with [i % 2] = map (\\row -> let s = f64.sum row in map (\\x -> f64.sin (x + s)) row) a[i % 2]
entry rows_twice [n] [m] (xs: [n][m]f64): ([2][n][m]f64, [n]f64) =
  loop (a, s) = (replicate 2 (copy xs), replicate n 0) for i < 4 do
    let (t, s) = unzip (map2 (\\row x -> (map f64.sin row, x + row[m / 2])) a[i % 2] s)
    in (a with [i % 2] = t, s)
entry beside [n] [m] (xs: [n][m]f64): [n][m]f64 =
  loop a = copy xs for i < n do let row = a[i] in
    a with [i] = map2 (\\x j -> f64.sin x + row[(j * 3) % m]) row (iota m)
entry scanned [n] [m] (xs: [n][m]f64): ([n][m]f64, [n][m]f64) =
  loop (a, b) = (copy xs, copy xs) for i < n do
    let v = map f64.sin a[i] let t = scan (+) 0 v in (a with [i] = v, b with [i] = t)
entry any_row [n] [m] (k: i64) (xs: [n][m]f64): [n][m]f64 =
  loop a = copy xs for i < n do a with [i] = scan (+) 0 a[i64.min (n - 1) (i64.abs (i * k) % n)]
-- Two results of one statement.
entry two_rows [n] [m] (xs: [n][m]f64): [n][m]f64 =
  loop a = copy xs for i < n / 2 do
    let (s, t) = unzip (map2 (\\x y -> (f64.sin (x + y), x * y)) xs[i] xs[n - 1 - i])
    in (a with [2 * i] = s) with [2 * i + 1] = t
entry one_row [n] [m] (k: i64) (xs: [n][m]f64): [n][m]f64 =
  loop a = copy xs for i < n do
    let (s, t) = unzip (map (\\x -> (f64.sin x, x * 2)) xs[i])
    in (a with [i64.min (n - 1) (i + k % 2)] = t) with [i] = s
-- The value is made before a row that may be the same one.
entry overwritten [n] [m] (k: i64) (xs: [n][m]f64): [n][m]f64 =
  loop a = copy xs for i < n do
    let t = scan (+) 0 xs[i]
    let s = map f64.sin xs[n - 1 - i]
    in (a with [i64.min (n - 1) (i * k)] = s) with [i] = t
-- By way of a shape, and as a part of a row.
entry reshaped [n] [m] (xs: [n][m]f64): [2][n * m]f64 =
  loop a = replicate 2 (replicate (n * m) 0) for i < 2 do
    a with [i] = flatten (map (map (\\x -> f64.sin x + f64.i64 i)) xs)
entry parts [n] [m] (xs: [n][m]f64): [2 * n][m]f64 =
  let a = replicate (2 * n) (replicate m 0)
  let a = a with [0:n] = map (map f64.sin) xs
  in a with [n:2 * n] = map (map f64.cos) (a[0:n] :> [n][m]f64)
-- The value is read later, and what it was written to is read again and written.
entry used_later [n] [m] (xs: [n][m]f64): ([n][m]f64, [n]f64) =
  loop (a, s) = (copy xs, replicate n 0) for i < n do
    let v = map2 (\\x y -> f64.sin (x + y)) xs[n - 1 - i] xs[i]
    let a = a with [i] = v
    in (a, s with [i] = f64.sum (scan (+) 0 v))
entry written_again [n] [m] (xs: [n][m]f64): ([n][m]f64, [n]f64) =
  loop (a, s) = (copy xs, replicate n 0) for i < n do
    let v = map2 (\\x y -> f64.sin (x + y)) xs[n - 1 - i] xs[i]
    let a = a with [i] = v
    let a = a with [i, 0] = 5
    in (a, s with [i] = f64.sum (scan (+) 0 (map (* a[i, m - 1]) v)))
-- What a copy shares its memory with is needed outside; and the caller's array is not ours.
entry kept [n] [m] (k: i64) (xs: [n][m]f64): ([n][m]f64, f64) =
  let a = map (map f64.cos) xs
  let b = copy a
  let c = if k > 1 then (let v = map f64.sin xs[n - 1] in a with [0] = v) else a
  in (c, f64.sum (scan (+) 0 b[0]))
entry callers [n] [m] (xs: *[n][m]f64): [n][m]f64 =
  let v = map (\\j -> f64.sin (f64.i64 j)) (iota m) in xs with [0] = v
entry borrowed [n] [m] (xs: [n][m]f64): ([n][m]f64, f64) =
  let ys = copy xs
  let v = map f64.sin xs[n - 1]
  let ys = ys with [0] = v
  in (ys, f64.sum (scan (+) 0 xs[0]))
-- A result lies where another one is wanted: in loops, maps, branches.
entry one_goes_there [n] [m] (xs: [n][m]f64): ([m]f64, [m]f64) =
  loop (a: *[m]f64, s: [m]f64) = (map f64.cos xs[0], copy xs[0]) for i < n do
    let a = scan f64.max 0 (map f64.sin a)
    let e = copy a
    in (a with [0] = f64.i64 i, e)
entry part_goes_there [n] [m] (xs: [n][m]f64): ([n][m]f64, [m]f64) =
  loop (a: *[n][m]f64, s: [m]f64) = (copy xs, copy xs[0]) for i < n do
    let a = map (scan f64.max 0) (map (map f64.sin) a)
    let e = copy a[i]
    in (a with [i, 0] = f64.i64 i, e)
entry row_taken [n] [m] (xs: [n][m]f64): ([n][m]f64, [m]f64) =
  loop (a: *[n][m]f64, t: [m]f64) = (copy xs, replicate m 0) for i < n do
    let e = copy a[i]
    let a = a with [i] = replicate m 0
    in (a, map2 (\\t e -> f64.sin (t + e)) t e)
entry in_a_map [n] [m] (xs: [n][m]f64): ([n][m]f64, [n][m]f64) =
  unzip (map (\\row ->
    let a = scan (+) 0 (map f64.sin row)
    let e = copy a
    in (a with [0] = 5, e)) xs)
entry in_a_branch [n] [m] (xs: [n][m]f64): ([n][m]f64, [n][m]f64) =
  unzip (map (\\row ->
    if row[0] > 0 then
      let a = scan (+) 0 (map f64.sin row)
      let e = copy a
      in (a with [0] = 5, e)
    else (map f64.cos row, scan f64.max 0 row)) xs)
-- A part of an earlier value of the loop variable is needed after a later update.
entry part_kept [n] [m] (xs: [n][m]f64): ([n][m]f64, [n][m]f64) =
  loop (a: *[n][m]f64, s: *[n][m]f64) = (copy xs, copy xs) for i < n do
    let r = copy a[(3 * i + 1) % n]
    let a = a with [(3 * i + 1) % n] = replicate m 0
    let a = a with [n - 1] = map2 (+) a[n - 1] r
    let e = copy (take i a)
    let a = a with [0:i] = replicate i (replicate m 0)
    let b = copy (take i a)
    let a = a with [0:i] = replicate i (replicate m 0.5)
    in (a, s with [0:i] = map3 (map3 (\\x y z -> f64.sin x + y * z)) e b (take i s))
-- A part of it is what the later update writes.
entry part_written [n] [m] (xs: [n][m]f64): ([n][m]f64, f64) =
  loop (a: *[n][m]f64, s) = (copy xs, 0) for i < n do
    let r = copy a[(3 * i + 1) % n]
    let a = a with [(3 * i + 1) % n] = replicate m 0
    let a = a with [n - 1] = map2 (+) a[n - 1] r
    let e = copy a[i]
    let a = a with [i] = replicate m 0
    let b = copy a[0]
    let a = a with [n - 1 - i] = e
    in (a, s + f64.sum (scan (+) 0 b))
-- All that an iteration makes is wanted in one place, and copies share what was made there first.
entry wanted [n] [m] (xs: [n][m]f64): ([n][m]f64, f64) =
  loop (a, s) = (copy xs, 0) for i < n do
    let b = map2 (map2 (\\x y -> f64.sin (x + y))) (reverse a) xs
    let old = copy b
    let c = b with [i] = xs[0]
    let newer = copy c
    let d = c with [n - 1 - i] = xs[0]
    in (d, s + f64.sum (flatten old) + f64.maximum (flatten newer))
entry wanted_of_any_size [n] [m] (xs: [n][m]f64): ([]f64, f64) =
  loop (a, s) = (flatten xs ++ [0.5], 0) for i < n do
    let b = filter (> -2) (map (\\x -> f64.sin (x + f64.i64 i)) (reverse a))
    let old = copy b
    let c = b with [0] = 3
    let newer = copy c
    let d = c with [length c - 1] = 4
    in (d, s + f64.sum old + f64.maximum newer)
"""
ARGUMENTS = {"any_row": (3,), "one_row": (2,), "overwritten": (1,), "kept": (2,)}
ENTRIES = (
    "twice", "three_times", "recurrence", "waits", "read_before", "in_step", "rows_in_step", "reversed", "sums",
    "rows_twice", "beside", "scanned", "any_row", "two_rows", "one_row", "overwritten", "reshaped", "parts",
    "used_later", "written_again", "kept", "callers", "borrowed",
    "part_kept", "part_written", "wanted", "wanted_of_any_size",
    "one_goes_there", "part_goes_there", "row_taken", "in_a_map", "in_a_branch",
)  # fmt: skip


def arguments(name: str, n: int, m: int) -> list[Any]:
    return [*ARGUMENTS.get(name, ()), np.random.default_rng(10 * n + m).standard_normal((n, m))]


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    backends = ["interp", "c", "multicore", *(["emulated"] if has_cxx() else [])]
    return {b: futad.compile(TEXT, name="placement.fut", backend=b) for b in backends}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_every_backend_equals_the_interpreter(name: str, programs: dict[str, Any]) -> None:
    for n, m in ((4, 3), (1, 1), (2, 5), (6, 70), (3, 0)):
        if m == 0 and name not in ("twice", "recurrence", "in_step", "two_rows", "parts", "reshaped"):
            continue
        args = arguments(name, n, m)
        copied = [np.copy(a) for a in args]
        expected = getattr(programs["interp"], name)(*args)
        for backend, program in programs.items():
            got = getattr(program, name)(*[np.copy(a) if np.ndim(a) else a for a in args])
            for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, expected)), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12, err_msg=f"{backend} {n} {m}")
        assert all(np.array_equal(a, b) for a, b in zip(args, copied, strict=True))


def lowered(name: str) -> CBackend:
    text = TEXT.replace("entry ", "def ").replace(f"def {name} ", f"entry {name} ")
    return c_backend(common(compile_text(text, "placement.fut"), C))


def statements(body: list[ir.Stmt]) -> list[ir.Stmt]:
    inner = [x for s in body for part in ("body", "then", "orelse") for x in statements(getattr(s, part, []))]
    return [*body, *inner]


def copies(name: str) -> int:
    """Copies inside of loops: whole arrays and rows."""
    (f,) = [f for f in lowered(name).module.functions if f.name == name]
    loops = [s for s in f.body if isinstance(s, ir.For | ir.While)]
    return Counter(type(s) for s in statements([x for s in loops for x in s.body]))[ir.Copy]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "copied"),
    [
        ("twice", 1), ("recurrence", 0), ("waits", 0), ("read_before", 1), ("in_step", 0), ("rows_in_step", 0),
        ("reversed", 1), ("sums", 1), ("two_rows", 0), ("reshaped", 0), ("used_later", 0), ("written_again", 1),
        ("row_taken", 1), ("part_goes_there", 1),
    ],
)  # fmt: skip
def test_values_are_computed_in_place(name: str, copied: int) -> None:
    assert copies(name) == copied


def test_a_row_that_is_taken_before_it_is_overwritten_is_copied_alone() -> None:
    (f,) = [f for f in lowered("row_taken").module.functions if f.name == "row_taken"]
    lengths = [s.count for s in f.body for s in statements(getattr(s, "body", [])) if isinstance(s, ir.Copy)]
    assert [type(length) for length in lengths] == [ir.Ref], "m elements, not n * m"


# Which program finds that a condition is not asked any more.
MUTANTS = [
    ("short-circuiting/unread by the statement itself", "reversed"),
    ("short-circuiting/unread later", "read_before"),
    ("short-circuiting/other updates elsewhere", "overwritten"),
    ("short-circuiting/other updates elsewhere", "one_row"),
    ("short-circuiting/memory ours", "callers"),
    ("short-circuiting/unread outside", "kept"),
    ("in step/read once", "rows_twice"),
    ("in place/not read later", "wanted"),
    ("in place/not read later", "wanted_of_any_size"),
    ("in place/no other result there", "one_goes_there"),
    ("in place/no other result there", "in_a_map"),
    ("in place/no other result there", "in_a_branch"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("condition", "name"), MUTANTS)
def test_no_condition_can_be_left_out(condition: str, name: str) -> None:
    n, m = 6, 19  # more than twice as many as there are lanes
    args = arguments(name, n, m)
    expected = getattr(futad.compile(TEXT, name="placement.fut", backend="interp"), name)(*args)
    expected = [np.copy(x) for x in (*(expected if isinstance(expected, tuple) else (expected,)), *args)]
    with dropping(condition):
        backend = lowered(name)
        got = backend.run(name, [np.int64(n), np.int64(m), *[np.int64(a) if np.ndim(a) == 0 else a for a in args]])
        got = got[len(got) + len(args) - len(expected) :]  # sizes come first
    same = [np.allclose(x, y, rtol=1e-10) for x, y in zip([*got, *args], expected, strict=True)]
    assert not all(same)


OVERLAPPING = {
    "shifted": """let k_5: i64 = sub(n_1, 1i64) let v_6: [k_5][m_2]f64 = x_4[0i64:k_5:1i64]
                  let y_7: [n_1][m_2]f64 = update(x_4, [1i64:k_5:1i64], v_6, None)""",
    "backwards": """let k_5: i64 = sub(n_1, 1i64) let v_6: [n_1][m_2]f64 = x_4[k_5:n_1:-1i64]
                    let y_7: [n_1][m_2]f64 = update(x_4, [0i64:n_1:1i64], v_6, None)""",
    "transposed": """let t_5: [m_2][n_1]f64 = rearrange(x_4, [1, 0]) let v_6: [n_1][m_2]f64 = reshape(t_5, [n_1, m_2])
                     let y_7: [n_1][m_2]f64 = update(x_4, [0i64:n_1:1i64], v_6, None)""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OVERLAPPING)
def test_an_update_reads_its_value_before_it_writes(name: str) -> None:
    """Source programs have no such update, but other passes may make one."""
    p = parse_program(rf"""fun main [n_1: i64, m_2: i64] (x_3: [n_1][m_2]f64) -> (r_900: [n_1][m_2]f64) = {{
      let c_8: [n_1][m_2]f64 = copy(x_3)
      let z_9: [n_1][m_2]f64 = for(3i64, [c_8], \(i_10: i64, x_4: [n_1][m_2]f64) -> {{ {OVERLAPPING[name]} in (y_7) }})
      in (z_9) }}""")
    executors: list[Any] = [Interpreter(p), c_backend(p), c_backend(p, multicore=True, grain=1)]
    if has_cxx():
        executors.append(device_backend(p))
        executors[-1].on(EmulatedDevice())
    for n, m in ((3, 4), (4, 4), (1, 1), (70, 33)):
        x = np.random.default_rng(n).standard_normal((n, m))
        want = x.copy()
        for _ in range(3):
            shifted = np.concatenate([want[:1], want[:-1]])
            want = {"shifted": shifted, "backwards": want[::-1], "transposed": want.T.reshape(n, m)}[name].copy()
        for e in executors:
            np.testing.assert_array_equal(e.run("main", [np.int64(n), np.int64(m), x.copy()])[0], want)


VERSIONS = """
entry value [n] [d] [b] (x: [n][d]f64) (y: [b][n][d]f64): ([b][n][d]f64, [b][n][d]f64) =
  unzip (map (\\(y: [n][d]f64) ->
    loop (a: *[n][d]f64, b: *[n][d]f64) = (copy y, copy x) for i < n do
      let v = map f64.atan b[n - 1]
      let b = b with [n - 1] = map2 (\\p q -> f64.sin p * q) b[0] x[(i + 1) % n]
      let a = a with [n - 1 - i] = v
      let b = b with [:i] = (map (map f64.tanh) b[:i] :> [i][d]f64)
      in (a, b)) y)
"""


@pytest.mark.slow
@needs_cxx
def test_a_place_is_computed_in_each_version_of_a_kernel() -> None:
    """A thread or a block does each point of the outer map: the index of the row is computed in both, after the row."""
    programs = [futad.compile(VERSIONS, name="versions.fut", backend=b) for b in ("emulated", "interp")]
    rng = np.random.default_rng(3)
    for n, d, b in ((3, 2, 3), (1, 1, 1), (4, 70, 2), (3, 2, 300)):
        x, y = rng.standard_normal((n, d)), rng.standard_normal((b, n, d))
        for got, want in zip(*[p.value(x, y) for p in programs], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
