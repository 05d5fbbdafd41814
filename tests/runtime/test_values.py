"""Users' values to core arguments and back; Futhark's value formats."""

from __future__ import annotations

import io
from collections import namedtuple
from fractions import Fraction

import futhark_data
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import futad
from futad.core import ir
from futad.core.showvalue import write_text
from futad.core.types import F32, F64, I8, I32, I64, PRIMS, U8, ArrayType, Prim, Var, i64
from futad.errors import DtypeError, InputError, ShapeError, UsageError
from futad.runtime.structure import Record, build_value
from futad.runtime.textvalues import Reader, binary_bytes
from futad.runtime.values import Signature, signature_of, widens

NUMBERS = [np.dtype(t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")]


def scalar(p: Prim) -> ir.EntryType:
    return ir.EntryType("scalar", p.name, p)


def array(elem: Prim | ir.EntryType, *dims: str | int) -> ir.EntryType:
    text = elem.name if isinstance(elem, Prim) else elem.text
    return ir.EntryType("array", "".join(f"[{d}]" for d in dims) + text, elem, dims)


def tuple_of(*ts: ir.EntryType) -> ir.EntryType:
    return ir.EntryType(
        "tuple",
        "(" + ", ".join(t.text for t in ts) + ")",
        None,
        (),
        tuple((str(i), t) for i, t in enumerate(ts)),
    )


def record(**fields: ir.EntryType) -> ir.EntryType:
    text = "{" + ", ".join(f"{n}: {t.text}" for n, t in fields.items()) + "}"
    return ir.EntryType("record", text, None, (), tuple(fields.items()))


def signature(*params: tuple[str, ir.EntryType], unique: tuple[bool, ...] = ()) -> Signature:
    """The signature of `main` with those parameters and the result ()."""
    sizes: dict[str, Var] = {}
    values: list[Var] = []

    def leaves(t: ir.EntryType, outer: tuple[str | int | None, ...]) -> None:
        if t.kind in ("scalar", "array"):
            if isinstance(t.elem, ir.EntryType):
                leaves(t.elem, outer + t.dims)
                return
            dims = outer + t.dims
            assert isinstance(t.elem, Prim)
            shape = tuple(
                i64(d) if isinstance(d, int) else sizes.setdefault(d, Var(d, I64)) for d in dims if d is not None
            )
            values.append(Var("v", ArrayType(t.elem, shape) if shape else t.elem))
            return
        for _, f in t.fields:
            leaves(f, outer)

    for _, t in params:
        leaves(t, ())
    body = ir.Lambda((*sizes.values(), *values), (), ())
    entry = ir.Entry("main", params, tuple_of(), unique)
    return signature_of(ir.Fun("main", body, len(sizes), (), entry))


XS = ("xs", array(F64, "n"))
XS_YS = signature(XS, ("ys", array(F64, "n")))
MATRIX = signature(("a", array(F64, "n", "m")), ("b", array(F32, "m", 3)))


def test_sizes_come_first_and_arrays_pass_unchanged():
    xs, ys = np.arange(3.0), np.ones(3)
    n, a, b = XS_YS.flatten([xs, ys])
    assert n == 3 and a is xs and b is ys


def test_sizes_must_agree_between_arguments():
    with pytest.raises(ShapeError) as e:
        XS_YS.flatten([np.zeros(3), np.zeros(4)])
    assert "argument 'ys' of main: dimension 0 is 4, but size n is 3 by argument 'xs'" in str(e.value)


def test_fixed_sizes_are_checked():
    with pytest.raises(ShapeError, match=r"'b' of main: dimension 1 must be 3, but the array has shape \(2, 4\)"):
        MATRIX.flatten([np.zeros((5, 2)), np.zeros((2, 4), np.float32)])


def test_the_rank_is_checked():
    with pytest.raises(ShapeError, match=r"expected \[\]\[\]f64, which has rank 2, got an array of shape \(3,\)"):
        MATRIX.flatten([np.zeros(3), np.zeros((2, 3), np.float32)])
    with pytest.raises(ShapeError, match="argument 'xs': .*got a scalar"):
        XS_YS.flatten([1.0, 2.0])


def test_the_number_of_arguments_is_checked():
    with pytest.raises(UsageError, match="main takes 2 arguments, not 1"):
        XS_YS.flatten([np.zeros(3)])


@pytest.mark.parametrize("dtype", ["int64", "uint64", "longdouble", "bool", "complex128", "U3", "object"])
def test_another_dtype_is_an_error_that_names_the_argument(dtype):
    with pytest.raises(DtypeError, match="argument 'xs': expected .*f64"):
        XS_YS.flatten([np.zeros(3).astype(dtype), np.zeros(3)])


@pytest.mark.parametrize("want", NUMBERS)
@pytest.mark.parametrize("given", NUMBERS)
def test_numbers_are_widened_where_none_is_lost(given, want):
    """One dtype's numbers are taken for another's if all of them, up to its limits, are numbers of that."""
    about = np.finfo(given) if given.kind == "f" else np.iinfo(given)
    ends = [about.min, about.max, *([about.tiny, 1 + about.eps] if given.kind == "f" else [about.max - 1])]
    numbers = [Fraction(float(x)) if given.kind == "f" else Fraction(int(x)) for x in ends]
    with np.errstate(all="ignore"):
        kept = [np.array([x], given).astype(want)[0] for x in ends]
    held = want.kind == "f" or given.kind != "f"
    held = held and all(np.isfinite(k) and Fraction(k.item()) == x for k, x in zip(kept, numbers, strict=True))
    assert widens(given, want) == held


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "int8", "uint8"])
def test_arrays_and_numpy_numbers_are_widened(dtype):
    n, xs, ys = XS_YS.flatten([np.arange(3).astype(dtype), [np.dtype(dtype).type(2)] * 3])
    assert n == 3 and xs.dtype == ys.dtype == np.float64 and (xs.tolist(), ys.tolist()) == ([0, 1, 2], [2, 2, 2])
    swapped = np.arange(3).astype(dtype).astype(np.dtype(dtype).newbyteorder())
    assert XS_YS.flatten([swapped, np.zeros(3)])[1].tolist() == [0, 1, 2]


def test_a_dtype_error_says_how_to_convert():
    with pytest.raises(DtypeError) as e:
        XS_YS.flatten([np.zeros(3, np.int64), np.zeros(3)])
    assert e.value.hint == "convert it yourself if that is meant: xs.astype(np.float64)"


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0)[::2],
        np.arange(3.0)[::-1],
        np.arange(3.0).astype(">f8"),
        np.frombuffer(np.arange(3.0).tobytes(), "f8"),
        [0, 1.0, 2],
        (0.0, 1.0, 2.0),
        [np.float64(0), 1.0, 2.0],
    ],
)
def test_layouts_byte_orders_and_lists_are_accepted(value):
    n, xs, _ = XS_YS.flatten([value, np.zeros(3)])
    assert n == 3 and xs.dtype == np.float64 and xs.dtype.isnative and xs.flags.c_contiguous
    assert xs.shape == (3,) and xs[1] in (1.0, 2.0)


def test_unaligned_data_are_copied():
    raw = np.frombuffer(b"\0" + np.arange(3.0).tobytes(), np.uint8)[1:]
    xs = XS_YS.flatten([raw.view(np.float64), np.zeros(3)])[1]
    assert xs.flags.aligned and xs.tolist() == [0, 1, 2]


def test_other_libraries_arrays_are_viewed():
    class Foreign:
        def __init__(self, a):
            self.__array_interface__ = a.__array_interface__
            self.keep = a

    class Packed:
        def __init__(self, a):
            self.a = a

        def __dlpack__(self, **kw):
            return self.a.__dlpack__(**kw)

        def __dlpack_device__(self):
            return self.a.__dlpack_device__()

    xs = np.arange(3.0)
    got = XS_YS.flatten([Foreign(xs), Packed(xs)])
    assert np.shares_memory(got[1], xs) and np.shares_memory(got[2], xs)


@pytest.mark.parametrize(
    "value, message",
    [
        (None, "got None"),
        ("abc", "got str 'abc'"),
        ({1: 2}, "got a value of type dict"),
        ([[1.0], [1.0, 2.0]], "differ in length"),
        (["a", "b"], "got a list of 'a'"),
        ([None], "got a list of None"),
        ([1j], "got a list of 1j"),
        (2j, "got a complex number"),
        ([2**53 + 1], "the int 9007199254740993 is not exact in f64"),
        ([10**400], "not exact in f64"),
        ([True, False], "got the bool True"),
        (np.ma.masked_array([1.0, 2.0]), "masked arrays"),
        ([np.int64(1)], "got an array of int64"),
    ],
)
def test_what_is_no_array_of_f64(value, message):
    with pytest.raises(InputError) as e:
        XS_YS.flatten([value, np.zeros(3)])
    assert "argument 'xs'" in str(e.value) and message in str(e.value)


SCALARS = {p.name: signature(("x", scalar(p))) for p in PRIMS.values()}


@pytest.mark.parametrize(
    "prim, value, expected",
    [
        ("f64", 2, 2.0),
        ("f32", 0.1, np.float32(0.1)),
        ("f16", 1, np.float16(1)),
        ("i8", -128, -128),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("bool", True, True),
        ("f64", np.float64(0.5), 0.5),
        ("i64", np.array(3), 3),
        ("f64", float("inf"), float("inf")),
    ],
)
def test_numbers(prim, value, expected):
    (x,) = SCALARS[prim].flatten([value])
    assert type(x) is PRIMS[prim].dtype.type and x == expected


@pytest.mark.parametrize(
    "prim, value, message",
    [
        ("i8", 128, "128 does not fit i8 (-128 to 127)"),
        ("u8", -1, "-1 does not fit u8"),
        ("i64", 2**63, "does not fit i64"),
        ("i32", 1.0, "got the float 1.0"),
        ("i32", True, "got the bool True"),
        ("bool", 1, "got the number 1"),
        ("f32", 2**24 + 1, "not exact in f32"),
        ("f16", 1e6, "too large for f16"),
        ("f32", np.float64(1), "got a NumPy scalar of float64"),
        ("i32", np.int64(1), "got a NumPy scalar of int64"),
        ("f64", np.zeros(1), "rank 0, got an array of shape (1,)"),
        ("f64", [1.0], "rank 0"),
    ],
)
def test_numbers_that_do_not_fit(prim, value, message):
    with pytest.raises(InputError) as e:
        SCALARS[prim].flatten([value])
    assert message in str(e.value)


def test_empty_lists_take_the_sizes_that_others_give():
    sig = signature(("a", array(F64, "n", "m")), ("b", array(F64, "m")))
    n, m, a, b = sig.flatten([[], [1.0, 2.0]])
    assert (n, m, a.shape) == (0, 2, (0, 2))
    assert [np.shape(v) for v in sig.flatten([[], []])] == [(), (), (0, 0), (0,)]
    assert sig.flatten([[[], []], []])[2].shape == (2, 0)


def test_a_size_may_be_another_argument():
    sizes = Var("n", I64)
    body = ir.Lambda((sizes, Var("xs", ArrayType(F64, (sizes,)))), (), ())
    sig = signature_of(
        ir.Fun("f", body, 0, (), ir.Entry("f", (("n", scalar(I64)), ("xs", array(F64, "n"))), tuple_of()))
    )
    assert sig.flatten([2, [1.0, 2.0]])[0] == 2
    with pytest.raises(ShapeError, match="'xs' of f: dimension 0 is 2, but must equal argument 'n', which is 3"):
        sig.flatten([3, [1.0, 2.0]])


def test_unique_arguments_are_copied():
    xs = np.zeros(3)
    assert signature(XS, unique=(True,)).flatten([xs])[1] is not xs
    assert signature(XS).flatten([xs])[1] is xs


POINT = record(x=scalar(F64), ys=array(I32, "n"))
STRUCTURED = signature(("p", POINT), ("q", tuple_of(scalar(F64), array(F64, "n"))))


def test_records_and_tuples():
    flat = STRUCTURED.flatten([{"ys": [1, 2], "x": 3}, (1.0, [1, 2])])
    assert flat[0] == 2 and flat[1] == 3.0 and flat[2].tolist() == [1, 2] and flat[3] == 1.0
    point = namedtuple("point", "x ys")(3.0, [1, 2])
    assert STRUCTURED.flatten([point, (1.0, [1, 2])])[2].tolist() == [1, 2]


@pytest.mark.parametrize(
    "p, q, message",
    [
        ({"x": 1.0}, (1.0, [1]), "argument 'p' of main: field 'ys' is missing; the fields are x, ys"),
        ({"x": 1.0, "ys": [1], "z": 2}, (1.0, [1]), "there is no field 'z'"),
        (1.0, (1.0, [1]), "expected a record with x, ys"),
        ({"x": 1.0, "ys": [1]}, (1.0,), "argument 'q' of main: expected a tuple of 2, got 1"),
        ({"x": 1.0, "ys": [1]}, 5, "expected a tuple (f64, [n]f64), got int 5"),
        ({"x": 1.0, "ys": [1.5]}, (1.0, [1]), "argument 'p.ys': expected []i32, got the float 1.5"),
        ({"x": 1.0, "ys": [1]}, (1.0, [1, 2]), "argument 'q.1' of main: dimension 0 is 2, but size n is 1"),
    ],
)
def test_structures_that_do_not_fit(p, q, message):
    with pytest.raises((InputError, UsageError)) as e:
        STRUCTURED.flatten([p, q])
    assert message in str(e.value)


PAIRS = signature(("ps", array(tuple_of(scalar(F64), scalar(I64)), "n")))


@pytest.mark.parametrize(
    "value",
    [
        ([1.0, 2.0], [3, 4]),
        (np.array([1.0, 2.0]), np.array([3, 4])),
        [(1.0, 3), (2.0, 4)],
        np.array([(1.0, 3), (2.0, 4)], [("a", "f8"), ("b", "i8")]),
    ],
)
def test_arrays_of_tuples(value):
    n, a, b = PAIRS.flatten([value])
    assert n == 2 and a.tolist() == [1, 2] and b.tolist() == [3, 4] and b.dtype == np.int64


def test_arrays_of_records():
    sig = signature(("ps", array(record(a=scalar(F64), b=array(I64, 2)), "n")))
    one = sig.flatten([[{"a": 1.0, "b": [1, 2]}, {"a": 2.0, "b": [3, 4]}]])
    two = sig.flatten([{"a": [1.0, 2.0], "b": [[1, 2], [3, 4]]}])
    assert one[0] == two[0] == 2
    assert all(np.array_equal(x, y) for x, y in zip(one[1:], two[1:], strict=True))
    assert sig.flatten([[]])[2].shape == (0, 2)


def test_results_are_rebuilt():
    t = tuple_of(scalar(F64), record(a=array(F64, "n"), b=scalar(I64)), array(tuple_of(scalar(F64), scalar(F64)), "n"))
    got = build_value(t, iter([1.0, np.zeros(2), 3, np.ones(2), np.zeros(2)]))
    assert got[0] == 1.0 and isinstance(got[1], Record) and got[1].b == got[1]["b"] == 3
    assert isinstance(got[2], tuple) and got[2][0].tolist() == [1, 1]
    with pytest.raises(AttributeError, match="no field 'c'; it has a, b"):
        _ = got[1].c


def test_sizes_of_results_are_not_shown():
    m = Var("m", I64)
    ret = (m, Var("ys", ArrayType(F64, (m,))))
    entry = ir.Entry("f", (), ir.EntryType("array", "[]f64", F64, (None,)))
    sig = signature_of(ir.Fun("f", ir.Lambda((), (), ()), 0, ret, entry))
    assert sig.unflatten([np.int64(2), np.ones(2)]).tolist() == [1, 1]
    both = ir.Entry("f", (), tuple_of(scalar(I64), array(F64, "m")))
    assert signature_of(ir.Fun("f", ir.Lambda((), (), ()), 0, ret, both)).unflatten([2, np.ones(2)])[0] == 2


def test_results_share_no_memory_with_arguments():
    xs = np.arange(3.0)
    entry = ir.Entry("f", (XS, XS), tuple_of(array(F64, "n"), array(F64, "n")))
    sig = Signature(entry, ("n",), (), ())
    a, b = sig.unflatten([xs, xs[::-1]], [xs])
    assert not np.shares_memory(a, xs) and not np.shares_memory(a, b) and b.flags.c_contiguous


# --- formats ------------------------------------------------------------------------------------------------


def read(data: bytes | str):
    return Reader(data.encode() if isinstance(data, str) else data, "in").all()


@pytest.mark.parametrize(
    "text, prim, expected",
    [
        ("1", I32, 1),
        ("-7i64", I64, -7),
        ("0x1F", I32, 31),
        ("0b101u8", U8, 5),
        ("1_000", I32, 1000),
        ("1.5", F64, 1.5),
        ("1", F64, 1.0),
        ("3f32", F32, 3.0),
        ("1e-3f64", F64, 1e-3),
        ("0x1.8p3f64", F64, 12.0),
        ("-f64.inf", F64, -np.inf),
        ("-128", I8, -128),
        ("true", PRIMS["bool"], True),
        ("[1, 2, 3]", I64, [1, 2, 3]),
        ("[[1.0f32, 2.0f32], [3.0f32, 4.0f32]]", F32, [[1, 2], [3, 4]]),
        ("[1.5, f64.nan]", F64, [1.5, np.nan]),
        ("[ -- comment\n 1,\n2 ]", I32, [1, 2]),
        ('"ab\\n"', U8, [97, 98, 10]),
        ("empty([0][2]f64)", F64, np.zeros((0, 2))),
        ("[0x10, 2]", I32, [16, 2]),
        ("[18446744073709551615]", PRIMS["u64"], [2**64 - 1]),
        ("1e9f16", PRIMS["f16"], np.inf),
        ("[1e9f16]", PRIMS["f16"], [np.inf]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_text_values(text, prim, expected):
    (value,) = read(text)
    got = value.at_type(prim)
    assert got.dtype == prim.dtype and np.array_equal(got, np.asarray(expected, prim.dtype), equal_nan=prim.is_float)


@pytest.mark.parametrize(
    "text, place, message",
    [
        ("[1, 2", "1:6", "found the end of the input"),
        ("[1 2]", "1:4", "expected ',' or ']'"),
        ("[1, [2]]", "1:5", "the rows of an array differ in shape"),
        pytest.param("[" * 100_000, "1:33", "an array of more than 32 dimensions", id="brackets"),
        pytest.param("[" * 50_000 + "1" + "]" * 50_000, "1:33", "more than 32 dimensions", id="a deep array"),
        ("\n  1x", "2:3", "expected a value, found '1x'"),
        ("[]", "1:1", "an empty array must be written with its type"),
        ("300u8", "1:1", "300 does not fit u8"),
        ("[1, true]", "1:5", "an element of type bool in an array of int"),
        ("[1i32, 2i64]", "1:8", "an element of type i64 in an array of i32"),
        ("empty([3]f32)", "1:1", "needs a dimension of size 0"),
        ("empty([-1]f32)", "1:1", "a size is negative"),
        ("(1, 2)", "1:1", "expected a value, found '('"),
        ("é", "1:1", "found 'é'"),
        (b"\xff", "1:1", "expected a value"),
        (b"b\x03\x00 f64", "1:1", "version 3 is not known"),
        (b"b\x02\x00 f6", "1:1", "cut off in its header"),
        (b"b\x02\x00 g64" + b"\0" * 8, "1:1", "is not a type"),
        (b"b\x02\x01 f64" + b"\xff" * 8, "1:1", "too large"),
        (b"b\x02\x01 f64" + b"\x02" + b"\0" * 7 + b"\0" * 9, "1:1", "needs 16 bytes, but only 9 follow"),
    ],
)
def test_malformed_values(text, place, message):
    with pytest.raises(InputError) as e:
        read(text)
    assert str(e.value).startswith(f"in:{place}: error: ") and message in str(e.value)


@pytest.mark.parametrize("name", ["i8", "u8", "i64", "u64"])
@pytest.mark.parametrize("form", ["{}{}", "[1, {}{}]", "[[{}, 2{}]]"])
def test_integers_beyond_their_type_are_refused_and_wrap_in_test_blocks(name, form):
    prim, at = PRIMS[name], -1 if "1, " in form else 0
    low, high = (0, 2**prim.bits - 1) if name[0] == "u" else (-(2 ** (prim.bits - 1)), 2 ** (prim.bits - 1) - 1)
    for suffix in ("", name):
        for number in (low - 1, high + 1, high + 100, -(3**50), 7**40):
            text = form.format(number, suffix)
            with pytest.raises(InputError, match=rf"does not fit {name}"):
                read(text)[0].at_type(prim)
            (value,) = Reader(text.encode(), "in", wraps=True).all()
            got = value.at_type(prim)
            assert got.dtype == prim.dtype and (int(got.flat[at]) - number) % 2**prim.bits == 0
        for number in (low, high):
            assert int(read(form.format(number, suffix))[0].at_type(prim).flat[at]) == number


STRINGS = [
    ('"a\\n\\x41"', b"a\nA"), ('"\u00e9"', b"\xc3\xa9"),
    ('"\\u{e9}\\65\\o101\\0"', b"\xc3\xa9AA\0"), ('"\\x{1F600}\\u20ac"', "\U0001f600\u20ac".encode()),
    ('"\\"\\\\\\q\\xg\\o8\\u{41"', b'"\\qxgo8u{41'), ('"\\a\\b\\f\\v\\r\\t"', b"\a\b\f\v\r\t"),
]  # fmt: skip


def test_strings_are_the_same_in_values_and_in_programs():
    program = futad.compile("\n".join(f"entry s{k} = {text}" for k, (text, _) in enumerate(STRINGS)), backend="interp")
    for k, (text, want) in enumerate(STRINGS):
        (value,) = read(text)
        assert value.at_type(U8).tobytes() == want == program[f"s{k}"]().tobytes()
    for bad in ('"\\xd800"', '"\\x110000"', '"\\u{ffffffffffffffffffff}"'):
        with pytest.raises(InputError, match="an escape names no Unicode character"):
            read(bad)


def test_literals_convert_only_exactly():
    with pytest.raises(InputError, match="does not fit i8"):
        read("[1, 300]")[0].at_type(I8)
    with pytest.raises(InputError, match="expected i32, got decimals"):
        read("1.5")[0].at_type(I32)
    with pytest.raises(InputError, match="expected f64, got i32"):
        read("1i32")[0].at_type(F64)
    with pytest.raises(InputError, match="not exact in f32"):
        read("[16777217]")[0].at_type(F32)


ELEMENTS = {
    p: st.booleans()
    if p.is_bool
    else st.floats(width=p.bits)
    if p.is_float
    else st.integers(int(np.iinfo(p.dtype).min), int(np.iinfo(p.dtype).max))
    for p in PRIMS.values()
}


@st.composite
def arrays(draw):
    prim = draw(st.sampled_from(list(PRIMS.values())))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    flat = draw(st.lists(ELEMENTS[prim], min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    return prim, np.array(flat, prim.dtype).reshape(shape)


@pytest.mark.slow
@settings(max_examples=150)
@given(arrays())
def test_values_survive_both_formats(case):
    prim, a = case
    out = io.StringIO()
    write_text(a if a.ndim else a[()], out)
    for data in (out.getvalue().encode(), binary_bytes(a)):
        (value,) = read(b"-- c\n " + data + b"\n")
        assert value.type is prim and value.shape == a.shape
        assert np.array_equal(value.at_type(prim), a, equal_nan=prim.is_float)


@pytest.mark.slow
@settings(max_examples=60)
@given(arrays())
def test_the_binary_format_is_the_public_one(case):
    prim, a = case
    (theirs,) = futhark_data.loadb(binary_bytes(a))
    assert theirs.dtype == a.dtype and np.array_equal(theirs, a, equal_nan=prim.is_float)
    assert bytes(futhark_data.construct_binary_value(a)) == binary_bytes(a)


def test_text_and_binary_may_follow_each_other():
    data = b"1i64 " + binary_bytes(np.arange(3.0)) + b" [true] " + binary_bytes(np.int8(-1))
    a, b, c, d = read(data)
    assert a.data == 1 and b.data.tolist() == [0, 1, 2] and c.data.tolist() == [True] and d.data == -1


def test_large_arrays_are_read_fast_and_exactly():
    a = np.random.default_rng(0).standard_normal((300, 100))
    out = io.StringIO()
    write_text(a, out)
    (value,) = read(out.getvalue())
    assert np.array_equal(value.at_type(F64), a)
