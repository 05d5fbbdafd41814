"""Arguments bound by a plan: the same core arguments and the same errors as without one."""

from __future__ import annotations

import array
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import DtypeError, Error, ShapeError
from futad.runtime import ffi
from futad.runtime.fast_arguments import plan
from futad.runtime.values import Signature

SOURCE = """
entry mixed [n][m] (xs: [n]f64) (yss: [n][m]f32) (is: [m]i64) (x: f64) (y: f32) (b: bool) (k: u8): f64 =
  x + f64.f32 y + f64.bool b + f64.u8 k + f64.sum xs + f64.f32 (f32.sum (flatten yss)) + f64.i64 (i64.sum is)
entry sized (n: i64) (m: i64) (xs: [n]f64): f64 = f64.sum xs + f64.i64 m
entry consumed [n] (xs: *[n]f64): [n]f64 = xs with [0] = 7
entry fixed (xs: [3]f64): f64 = f64.sum xs
entry structured (p: (f64, f64)): f64 = p.0 + p.1
entry pairs [n] (ps: [n](f64, f64)): f64 = f64.sum (map (.0) ps)
"""


@pytest.fixture(scope="module")
def program() -> Any:
    return futad.compile(SOURCE, backend="c")


def without_plan(s: Signature) -> Signature:
    return dataclasses.replace(s, _plan=None)


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and np.asarray(a).dtype == np.asarray(b).dtype and repr(a) == repr(b)


GOOD: list[list[Any]] = [
    [np.ones(2), np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), True, 255],
    [np.ones(0), np.ones((0, 3), np.float32), np.arange(3), np.float64("nan"), np.float32(2), np.bool_(0), np.uint8(1)],
    [np.ones(0), np.ones((0, 0), np.float32), np.arange(0), float("inf"), np.float32(2), False, 0],
    [np.ones(1), np.ones((1, 1), np.float32), np.arange(1), -0.0, np.float32(2), False, 0],
]
CONVERTED: list[list[Any]] = [
    [[1.0, 2.0], np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), True, 2],
    [np.ones(4)[::2], np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), True, 2],
    [np.ones(2), np.ones((3, 2), np.float32).T, np.arange(3), 1.0, np.float32(2), True, 2],
    [np.ones(2, ">f8"), np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), True, 2],
    [np.ones(2), np.ones((2, 3), np.float32), np.arange(3), 1, 2.0, True, 2],
    [np.ones(2), np.ones((2, 3), np.float32), np.arange(3), np.array(1.0), np.float32(2), True, 2],
]
WRONG: list[list[Any]] = [
    [np.ones(2), np.ones((3, 3), np.float32), np.arange(3), 1.0, np.float32(2), True, 2],
    [np.ones(2), np.ones((2, 3), np.float32), np.arange(4), 1.0, np.float32(2), True, 2],
    [np.ones((2, 1)), np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), True, 2],
    [np.ones(2, np.int64), np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), True, 2],
    [np.ones(2), np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), 1, 2],
    [np.ones(2), np.ones((2, 3), np.float32), np.arange(3), True, np.float32(2), True, 2],
    [np.ones(2), np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), True, 256],
    [np.ones(2), np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), True, -1],
    [np.ones(2), np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), True, True],
    [np.ones(2), np.ones((2, 3), np.float32), np.arange(3), 1.0, np.float32(2), True],
]


@pytest.mark.parametrize("args", [*GOOD, *CONVERTED])
def test_core_arguments_are_the_same(program: Any, args: list[Any]) -> None:
    s = program.mixed.signature
    got, want = s.flatten(args), without_plan(s).flatten(args)
    assert len(got) == len(want) == 2 + 7
    assert all(int(a) == int(b) for a, b in zip(got[:2], want[:2], strict=True))
    assert all(same(a, b) for a, b in zip(got[2:], want[2:], strict=True))


@pytest.mark.parametrize("args", GOOD)
def test_a_plan_binds_what_needs_no_conversion(program: Any, args: list[Any]) -> None:
    made = plan(program.mixed.signature)
    assert made is not None
    bound = made.bind(args)
    assert bound is not None and all(b is a for a, b in zip(args, bound[2:], strict=True) if isinstance(a, np.ndarray))


@pytest.mark.parametrize("args", [*CONVERTED, *WRONG])
def test_a_plan_leaves_the_rest_alone(program: Any, args: list[Any]) -> None:
    made = plan(program.mixed.signature)
    assert made is not None and made.bind(args) is None


@pytest.mark.parametrize("args", WRONG)
def test_errors_are_the_same(program: Any, args: list[Any]) -> None:
    s = program.mixed.signature
    with pytest.raises(Error) as got:
        s.flatten(args)
    with pytest.raises(Error) as want:
        without_plan(s).flatten(args)
    assert type(got.value) is type(want.value) and str(got.value) == str(want.value)


@pytest.mark.slow
def test_numbers_that_are_sizes(program: Any) -> None:
    assert program.sized(2, -5, np.ones(2)) == -3.0
    assert program.sized(np.int64(0), 4, np.ones(0)) == 4.0
    for n in (1, 3, -1, -2):
        with pytest.raises(ShapeError, match="must equal argument 'n'"):
            program.sized(n, 0, np.ones(2))
    with pytest.raises(DtypeError):
        program.sized(2**63, 0, np.ones(2))


def test_consumed_arguments_stay_as_they_are(program: Any) -> None:
    xs = np.zeros(3)
    assert program.consumed(xs).tolist() == [7, 0, 0] and xs.tolist() == [0, 0, 0]


def test_results_share_no_memory(program: Any) -> None:
    echo = futad.compile("entry echo [n] (xs: [n]f64): ([n]f64, [n]f64) = (xs, xs)", backend="c").echo
    for n in (3, 100_000):
        xs = np.ones(n)
        a, b = echo(xs)
        assert not any(np.shares_memory(x, y) for x, y in ((xs, a), (xs, b), (a, b)))


def test_sizes_that_are_given(program: Any) -> None:
    made = plan(program.fixed.signature)
    assert made is not None and made.bind([np.ones(3)]) is not None and made.bind([np.ones(4)]) is None
    with pytest.raises(ShapeError, match="dimension 0 must be 3"):
        program.fixed(np.ones(4))


def test_a_signature_with_its_plan_pickles(program: Any) -> None:
    program.sized(2, 1, np.ones(2))
    again = pickle.loads(pickle.dumps(program.sized.signature))
    assert again.flatten([2, 1, np.ones(2)])[:2] == [2, 1]


def test_read_only_and_empty_arguments(program: Any) -> None:
    xs = np.ones(3)
    xs.flags.writeable = False
    assert program.fixed(xs) == 3.0
    assert program.pairs((np.ones(0), np.ones(0))) == 0.0


def test_addresses_of_arrays() -> None:
    read_only = np.ones(3)
    read_only.flags.writeable = False
    views = [np.ones((3, 4))[1:, 2:].T, np.ones(9)[::-2], np.frombuffer(b"12345678")]
    for x in [np.zeros(0), np.zeros((2, 0)), np.array(1.0), read_only, np.arange(5, dtype=np.int8)[3:], *views]:
        assert ffi._address(x) == ffi._by_name(x) == x.ctypes.data


def test_structures_have_no_plan(program: Any) -> None:
    assert all(plan(program[name].signature) is None for name in ("structured", "pairs"))
    assert program.structured((1.0, 2.0)) == 3.0


def test_addresses_of_many_arguments_are_found_at_once() -> None:
    prog = futad.compile(
        "entry f (a: f32) (x: [3]f64) (k: i8) (y: [3]f32) (m: [2][2]f64): f64 ="
        " f64.f32 a + x[1] + f64.i8 k + f64.f32 y[2] + m[1, 0]",
        backend="c",
    )
    x, y, m = np.arange(3.0), np.arange(3, dtype=np.float32), np.arange(4.0).reshape(2, 2)
    exact = [np.float32(0.5), x, np.int8(3), y, m]
    assert prog.f(*exact) == prog.f.call_leaves(exact)[0] == 8.5
    library = prog.f.executable.at_once()
    assert library is not None
    frame = library._frames[prog.f.symbol]
    assert frame.fill(exact) == []

    class Other(np.ndarray):
        pass

    # What is not of NumPy's own type, in order or of the dtype is found one by one.
    for others in ([x.view(Other)], [np.arange(6.0)[::2]], [x.astype(np.float32)], [x.astype(">f8")], [x.tolist()]):
        given = [exact[0], *others, *exact[2:]]
        assert library.run(prog.f.symbol, given) == [7.5 + np.asarray(others[0], np.float64)[1]]
    with pytest.raises(futad.errors.InternalError, match="argument 'm_.' has rank 1, not 2"):
        library.run(prog.f.symbol, [*exact[:4], x])
    with pytest.raises(ValueError):
        library.run(prog.f.symbol, exact[:4])


def test_lists_of_integers_that_no_type_of_numpy_holds() -> None:
    source = "entry whole [n] (x: [n]u64) = u64.sum x\nentry real [n] (x: [n]f64) = f64.sum x"
    made = futad.compile(source, backend="interp")
    assert made.whole([2**63, 1, 2]) == 2**63 + 3 and made.whole([2**64 - 1]) == 2**64 - 1
    assert made.real([2**63, -1, 0.5, 1e300]) == 1e300
    for given in ([2**63 + 1, -1], [2**64 - 1], [2**53 + 1], [2**53 + 1, 0.5]):
        with pytest.raises(DtypeError, match="is not exact in f64"):
            made.real(given)
    for given in ([2**63, -1], [2**64, 1]):
        with pytest.raises(DtypeError, match="does not fit u64"):
            made.whole(given)


def test_buffers_are_arrays(program: Any) -> None:
    xs = np.arange(3.0)
    assert program.fixed(memoryview(xs)) == program.fixed(array.array("d", xs)) == 3
    with pytest.raises(DtypeError, match=r"expected .*f64 \(float64\), got an array of int64"):
        program.fixed(array.array("q", [1, 2, 3]))
