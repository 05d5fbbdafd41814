"""The C backends: quotients and remainders of the same numbers by one division."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c_divisions import divided_once
from futad.core.types import I64, PRIMS
from futad.imp import ir
from futad.imp.ir import Ref, Scalar, num
from futad.source import load_program
from futad.target import C
from futad.testing.build import c_backend, common

TYPES = [t.name for t in PRIMS.values() if t.is_integral]
TEXT = (
    "\n".join(
        f"""
entry floor_{t} [n] (xs: [n]{t}) (ys: [n]{t}): ([n]{t}, [n]{t}) =
  unzip (map2 (\\x y -> (x / y, x % y)) xs ys)
entry zero_{t} [n] (xs: [n]{t}) (ys: [n]{t}): ([n]{t}, [n]{t}) =
  unzip (map2 (\\x y -> (x %% y, x // y)) xs ys)
"""
        for t in TYPES
    )
    + """
entry digits (base: i64) (x: i64): [8]i64 =
  let (ds, _) = loop (ds, x) = (replicate 8 0, x) for i < 8 do (ds with [i] = x % base, x / base)
  in ds
entry known (x: i64): (i64, i64) = (x / 10, x % 10)
"""
)


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    return {b: futad.compile(TEXT, name="divisions", backend=b) for b in ("interp", "c")}


@pytest.mark.slow
@pytest.mark.parametrize("t", TYPES)
def test_as_the_interpreter(programs: dict[str, Any], t: str) -> None:
    info = np.iinfo(PRIMS[t].dtype)
    values = {int(v) for v in (info.min, info.min + 1, -7, -3, -1, 0, 1, 2, 3, 7, 100, info.max) if v >= info.min}
    pairs = [(x, y) for x in sorted(values) for y in sorted(values - {0})]
    xs, ys = (np.array(side, PRIMS[t].dtype) for side in zip(*pairs, strict=True))
    for name in (f"floor_{t}", f"zero_{t}"):
        expected, got = (programs[b][name](xs, ys) for b in ("interp", "c"))
        for x, y in zip(got, expected, strict=True):
            np.testing.assert_array_equal(x, y)


def test_loops(programs: dict[str, Any]) -> None:
    for base, x in ((10, 12345678), (-3, 1000), (7, -5)):
        np.testing.assert_array_equal(*(programs[b].digits(base, x) for b in ("interp", "c")))


def test_one_division_each(tmp_path: Any) -> None:
    file = tmp_path / "divisions.fut"
    file.write_text(TEXT)
    source = c_backend(common(load_program(str(file)), C)).source
    program = source[source.index("int64_t futad_entry_floor") :]
    for t in TYPES:
        found = [program.count(f"futad_{op}_{t}(") for op in ("mod", "rem")]
        assert found == [int(t == "i64"), 0], t  # by a constant


def decl(name: str, op: str, *args: ir.Expr) -> ir.Decl:
    return ir.Decl(name, I64, Scalar(op, args, I64, I64))


X, Y, Z = (Ref(n, I64) for n in "xyz")


@pytest.mark.parametrize(
    "body",
    [
        [decl("r", "mod", X, Y), ir.Assign("x", Z), decl("q", "div", X, Y)],
        [decl("q", "div", X, Y), ir.If(Z, [ir.Assign("y", Z)], []), decl("r", "mod", X, Y)],
        [decl("r", "mod", X, Y), decl("q", "quot", X, Y)],
        [decl("r", "rem", X, Y), decl("q", "div", X, Y)],
        [decl("r", "mod", X, Y), decl("q", "div", Y, X)],
        [decl("r", "mod", X, num(10)), decl("q", "div", X, num(10))],
    ],
)
def test_what_stays(body: list[ir.Stmt]) -> None:
    assert divided_once(body) is body


def test_the_order_of_the_others() -> None:
    other = ir.Store("p", X, Z)
    q, r = decl("q", "quot", X, Y), decl("r", "rem", X, Y)
    first, between, last = divided_once([r, other, q])
    assert isinstance(first, ir.Seq) and first.body[0] is q and between is other
    assert isinstance(last, ir.Seq) and not last.body
    same, between, less = divided_once([q, other, r])
    assert same is q and between is other and made(less) == made(first.body[1])


def made(s: ir.Stmt) -> tuple[str, Any]:
    assert isinstance(s, ir.Decl)
    return s.name, s.init
