"""futad c --executable: what it reads, writes, measures, and how it fails."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from futad import legality
from futad.runtime.textvalues import Reader, binary_bytes
from futad.testing.build import c_backend
from tests.support.cli_helpers import Runner
from tests.support.needs import needs_cc
from tests.support.paths import ROOT, TESTS

pytestmark = needs_cc

PROGRAM = """
type point = {x: f64, y: i32}
entry main (x: i32) (ys: []f64): (i32, f64) = (x + 1, f64.sum ys)
entry id_i8 (x: [][]i8) = x
entry id_u64 (x: []u64) = x
entry id_i64 (x: i64) = x
entry id_f16 (x: []f16) = x
entry id_f32 (x: []f32) = x
entry id_f64 (x: []f64) = x
entry id_bool (x: [][][]bool) = x
entry id_u8 (x: []u8) = x
entry rows (x: [][]u8) = x
entry nothing: () = ()
entry answer: i32 = 42
entry sizes [n] [m] (k: i64) (x: [n][m]f64) (y: [k][n]f64) (z: [2]i32): (i64, i64, i64, [2]i32) = (n, m, k, z)
entry positive (x: []f64) : []f64 = filter (> 0) x
entry step [n] (x: *[n]i32): *[n]i32 = x with [0] = x[0] + 1
entry far (p: point) (ps: []point): ([]f64, point) = (map (.x) ps, p)
entry at (x: []i32) (i: i64): i32 = x[i]
entry claim (x: f64): f64 = assert (x > 0) x
entry divide (x: i32) (y: i32): i32 = x / y
entry large (n: i64): []i32 = iota n |> map i32.i64
entry matrix (n: i64): [n][n]f64 = tabulate_2d n n (\\i j -> f64.i64 (i * n + j) / 7)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    from futad.cli import main

    folder = tmp_path_factory.mktemp("executable")
    (folder / "p.fut").write_text(PROGRAM)
    assert main(["c", str(folder / "p.fut"), "--executable", "-o", str(folder / "prog")]) == 0
    return folder / "prog"


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    return Runner(tmp_path, monkeypatch, capfdbinary)


def call(program: Path, *args: str, stdin: str | bytes = b"") -> tuple[int, bytes, str]:
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    done = subprocess.run([str(program), *args], input=data, capture_output=True, timeout=300)
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.slow
def test_values_in_and_out(built):
    assert call(built, stdin="2 [1.5, 2]") == (0, b"3i32\n3.5f64\n", "")
    assert call(built, stdin="2i32 -- a comment\n [ 1.5f64 , 2f64 ] ")[:2] == (0, b"3i32\n3.5f64\n")
    assert call(built, "-e", "answer") == (0, b"42i32\n", "")
    assert call(built, "-e", "nothing") == (0, b"", "")
    assert call(built, "-n", stdin="2 [1.5]") == (0, b"", "")
    assert (built.parent / "prog.c").read_text().startswith("/* "), "the source stands beside it"


TEXTS = {
    "id_i8": ["[[1, -128], [0x7f, -0b11]]", "[[1i8]]", "empty([0][3]i8)", "empty( [ 2 ] [0]i8 )", "[[1_0, 2]]"],
    "id_u64": ["[18446744073709551615, 0]", "[0xffffffffffffffff]", "[7u64]", "empty([0]u64)"],
    "id_i64": ["-9223372036854775808", "9223372036854775807i64", "+5"],
    "id_f16": ["[1.5, 0.1, 6e-8, f16.nan, -f16.inf]", "[1f16, 0.333]"],
    "id_f32": ["[0.1, 1e-5, 1.5e20, 3.4028235e38, 1e-45, f32.nan, f32.inf, -0.0]", "[0x1.8p3]"],
    "id_f64": [
        "[0.1, 1e22, 1e-7, 123456789.123, 1e16, 1e15, 0.0001, 0.00001, -0.0, 5e-324, 1.7976931348623157e308]",
        "[1, 2.5, .5, 3., 1e3, 1_000.5, 0x1p-3, 2f64, f64.nan, -f64.inf, 9007199254740993.0, 0.30000000000000004]",
    ],
    "id_bool": ["[[[true, false]]]", "empty([1][0][2]bool)"],
    "id_u8": [
        '"text"', '"a\\n\\t\\"\\\\ é"', "[1, 2u8]", "empty([0]u8)",
        '"a\\n\\x41\\u{e9}\\65\\o101\\0\\a"', '"\\x{1F600}\\u20ac\\q\\xg\\o8\\u{41"',
    ],
    "rows": ['["ab", "cd"]', "[[1], [2]]"],
    "main": ["3 empty([0]f64)"],
    "far": ["1.5 2 [1.0, 2] [3, 4]"],
}


@pytest.mark.slow
@pytest.mark.parametrize("entry", TEXTS)
def test_text_reads_and_prints_as_futad_run_does(built, futad, entry):
    name = futad.file("p.fut", PROGRAM)
    for text in TEXTS[entry]:
        expected = futad("run", name, "-e", entry, "-b", "interp", stdin=text)
        assert expected.code == 0, expected.err
        assert call(built, "-e", entry, stdin=text) == (0, expected.out.encode(), "")


@pytest.mark.slow
def test_floats_print_in_the_shortest_form_that_reads_back(built):
    rng = np.random.default_rng(3)
    for dtype, word in ((np.float64, np.uint64), (np.float32, np.uint32), (np.float16, np.uint16)):
        bits = rng.integers(0, np.iinfo(word).max, 1000, dtype=word)
        values = bits.view(dtype)
        values = values[np.isfinite(values)]
        name = f"id_f{8 * values.itemsize}"
        code, out, _ = call(built, "-e", name, stdin=binary_bytes(values))
        assert code == 0
        back = Reader(out, "out").all()[0].data
        assert np.asarray(back, dtype).tobytes() == values.tobytes()
        texts = out.decode().strip("[]\n").split(", ")
        assert [digits(t.removesuffix(name[3:])) for t in texts] == [digits(str(v)) for v in values]


def digits(text: str) -> str:
    """The significant digits of a decimal."""
    return text.split("e")[0].replace(".", "").strip("-0")


def test_binary_values(built):
    x = np.arange(12, dtype=np.int8).reshape(3, 4)
    assert call(built, "-e", "id_i8", "-b", stdin=binary_bytes(x)) == (0, binary_bytes(x), "")
    mixed = b" 4 " + binary_bytes(np.array([0.5, 0.25]))
    assert call(built, stdin=mixed)[:2] == (0, b"5i32\n0.75f64\n")
    empty = np.zeros((0, 3), np.int8)
    assert call(built, "-e", "id_i8", "--binary-output", stdin=binary_bytes(empty))[1] == binary_bytes(empty)


def test_sizes_are_found_and_checked(built):
    good = "3 [[1.0, 2], [3, 4]] [[1.0, 2], [1, 2], [1, 2]] [7, 8]"
    assert call(built, "-e", "sizes", stdin=good)[1] == b"2i64\n2i64\n3i64\n[7i32, 8i32]\n"
    for wrong, message in (
        (good.replace("3 ", "4 ", 1), "dimension 0 is 3, but must equal argument 'k', which is 4"),
        (good.replace("[[1.0, 2], [3, 4]]", "[[1.0, 2]]"), "dimension 1 is 2, but size n is 1 by argument 'x'"),
        (good.replace("[7, 8]", "[7]"), "argument 'z' of sizes: dimension 0 must be 2, but is 1"),
    ):
        code, out, err = call(built, "-e", "sizes", stdin=wrong)
        assert code == 1 and out == b"" and message in err


BAD_INPUT = [
    ("main", "", "<stdin>:1:1: error: main takes 2 values, found 0; the next is 'x' of type i32"),
    ("main", "1", "main takes 2 values, found 1; the next is 'ys' of type []f64"),
    ("main", "1 [1.0] 3", "<stdin>:1:9: error: main takes 2 values, but there are more\n1 [1.0] 3\n        ^"),
    ("main", "1.5 [1.0]", "<stdin>:1:1: error: argument 'x': expected i32, got a decimal\n1.5 [1.0]\n^"),
    ("main", "1i64 [1.0]", "argument 'x': expected i32, got i64"),
    ("main", "true [1.0]", "expected i32, got bool"),
    ("main", "2147483648 [1.0]", "2147483648 does not fit i32"),
    ("main", "99999999999999999999999 [1.0]", "does not fit i32"),
    ("id_i8", "[[1, 200i8]]", "200i8 does not fit i8"),
    ("id_u8", "[1u8, -1u8]", "-1u8 does not fit u8"),
    ("id_u8", '"a\\xd800"', "<stdin>:1:1: error: argument 'x': an escape names no Unicode character"),
    ("main", "1 2.0", "argument 'ys': expected []f64"),
    ("main", "1 [1.0", "expected ',' or ']' in an array, found the end of the input"),
    ("main", "1 [1.0 2.0]", "expected ',' or ']' in an array"),
    ("main", "1 [[1.0]]", "expected f64, found '['"),
    ("main", "1 []", "an empty array must be written with its type"),
    ("main", "1 empty([1]f64)", "an empty array needs a dimension of size 0"),
    ("main", "1 empty([0]f32)", "expected []f64"),
    ("main", "1 empty([-1]f64)", "a size is negative"),
    ("main", "1 empty([99999999999999999999]f64)", "expected a size"),
    ("main", "1\n[1.0,\n  x]", "<stdin>:3:3: error: argument 'ys': expected a value, found 'x'\n  x]\n  ^"),
    ("main", "0x [1.0]", "expected a value, found '0x'"),
    ("main", "0x0x1 [1.0]", "expected a value"),
    ("main", "1e [1.0]", "expected a value, found '1e'"),
    ("main", "nan [1.0]", "expected a value, found 'nan'"),
    ("main", "é [1.0]", "expected a value, found 'é'"),
    ("id_f64", "[9007199254740993]", "an integer here is not exact in f64"),
    ("id_i8", "[[1], [2, 3]]", "the rows of an array differ in shape"),
    ("id_u8", '"abc', "the string has no end"),
    ("id_u8", "[256]", "256 does not fit u8"),
    ("id_u8", "[-1]", "-1 does not fit u8"),
    ("main", b"b\x03\x00 i32\x01\x00\x00\x00", "binary format version 3 is not known; it should be 2"),
    ("main", b"b\x02\x00 i64", "expected i32, got a binary value of rank 0 and type ' i64'"),
    ("main", b"b\x02", "cut off in its header"),
    ("main", b"b\x02\x00 i32\x01", "a binary value needs 4 bytes, but only 1 follow"),
    ("id_u64", b"b\x02\x01 u64" + b"\xff" * 8, "the sizes of a binary value are too large"),
    ("id_u64", b"b\x02\x01 u64" + b"\x00" * 6 + b"\x01\x00", "needs 2251799813685248 bytes, but only 0 follow"),
    ("id_u64", bytes(range(128, 256)), "expected"),
]


@pytest.mark.parametrize(("entry", "text", "message"), BAD_INPUT)
def test_bad_input_is_an_error_with_its_place(built, entry, text, message):
    code, out, err = call(built, "-e", entry, stdin=text)
    assert code == 1 and out == b""
    assert message in err and err.startswith("<stdin>:")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "text", "message"),
    [
        ("at", "[1, 2] 2", "Error: Index [2] out of bounds for array of shape [2]"),
        ("claim", "-1.0", "Error: Assertion is false: x > 0"),
        ("divide", "1 0", "Error: division by zero"),
        ("large", "-1", "Error: Range 0..1..<-1 is invalid: an array of negative size is needed"),
        ("large", "4611686018427387904", "Error: an array is needed whose size exceeds the address space"),
    ],
)
def test_a_failing_program_says_where_as_futad_run_does(built, futad, entry, text, message):
    code, out, err = call(built, "-e", entry, stdin=text)
    assert code == 1 and out == b"" and message in err
    expected = futad("run", futad.file("p.fut", PROGRAM), "-e", entry, "-b", "c", stdin=text).err
    assert err == expected.replace("p.fut:", f"{built.parent}/p.fut:")


def test_times_and_runs(built, tmp_path):
    times = tmp_path / "times"
    code, out, _ = call(built, "-e", "step", "-r", "5", "-t", str(times), stdin="[1, 2]")
    assert (code, out) == (0, b"[2i32, 2i32]\n"), "every run gets the argument as it was"
    assert len(times.read_text().split()) == 5 and all(int(t) >= 0 for t in times.read_text().split())
    call(built, "-e", "answer", "--write-runtime-to", str(times))
    assert len(times.read_text().split()) == 1
    assert call(built, "-e", "answer", "-L")[2].startswith("answer: ")


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["-e", "mian"], 2, "the program has no entry 'mian'; choose one with -e: main, "),
        (["--runs=0"], 2, "--runs takes a number"),
        (["--nonsense"], 2, "--help"),
        (["file"], 2, "values are read from stdin"),
        (["--param", "x=1"], 2, "no tuning parameters"),
        (["-t", "/no/such/folder/x"], 1, "cannot write /no/such/folder/x"),
    ],
)
def test_wrong_use(built, args, code, text):
    done = call(built, *args)
    assert done[0] == code and text in done[2]


def test_help_and_compatible_options(built):
    code, out, _ = call(built, "--help")
    assert code == 0 and b"--entry-point" in out
    args = ["-P", "-D", "--cache-file=x", "--tuning=y", "-e", "answer"]
    assert call(built, *args)[:2] == (0, b"42i32\n")
    assert call(built, "--print-params") == (0, b"", "")


def test_output_that_cannot_be_written_is_an_error(built):
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(built), "-e", "answer"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "No space left" in done.stderr


@pytest.mark.slow
def test_threads_and_many_elements(futad):
    name = futad.file("p.fut", "entry main (n: i64): []f64 = map (\\i -> f64.i64 i / 3) (iota n)\n")
    assert futad("multicore", name, "--executable").code == 0
    for threads in ("1", "3"):
        futad.monkeypatch.setenv("OMP_NUM_THREADS", threads)
        code, out, _ = call(futad.folder / "p", "-b", stdin="300000")
        assert code == 0 and out == binary_bytes(np.arange(300000) / 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["c", "none.fut", "--executable", "-o", "x"], 2, "none.fut has no entry"),
        (["c", "p.fut", "--executable", "-o", "x.c"], 2, "would be the executable"),
        (["c", "p.fut", "--executable", "--server"], 2, "not allowed with"),
        (["c", "p.fut", "--executable", "-o", "no/such/x"], 1, "cannot write no/such/x.c"),
        (["c", "bad.fut", "--executable", "-o", "x"], 1, "bad.fut:1:12: error: "),
        (["c", "missing.fut", "--server"], 1, "missing.fut"),
        (["cuda", "p.fut", "--executable"], 2, "the host side of CUDA programs is Python"),
        (["cuda", "p.fut", "--server", "-o", "x"], 2, "`futad c` and `futad multicore` build"),
    ],
)
def test_building_wrongly_leaves_nothing_behind(futad, args, code, text):
    futad.file("p.fut", "entry main = 1i32\n")
    futad.file("none.fut", "def f (x: i32) = x\n")
    futad.file("bad.fut", "def main = y\n")
    done = futad(*args)
    assert done.code == code and text in done.err
    assert sorted(p.name for p in futad.folder.iterdir()) == ["bad.fut", "none.fut", "p.fut"]


@pytest.mark.slow
def test_the_library_of_the_documentation(futad):
    """docs/executables.md: its C program, against the library of the entry it names."""
    import re
    import shlex

    text = (ROOT / "docs" / "executables.md").read_text()
    found = re.search(r"```c\n(.*?)```", text, re.DOTALL)
    assert found
    futad.file("use.c", found.group(1))
    name = futad.file("scale.fut", "entry scale [n] (k: f64) (xs: [n]f64): [n]f64 = map (* k) xs\n")
    assert futad("c", name, "--library").code == 0
    first = (futad.folder / "scale.c").read_text().splitlines()[0]
    command = shlex.split(first.removeprefix("/* ").removesuffix(" */"))
    subprocess.run(command, cwd=futad.folder, check=True)
    compiler = command[0]
    subprocess.run([compiler, "use.c", "./scale.so", "-o", "use"], cwd=futad.folder, check=True)
    done = subprocess.run(["./use"], cwd=futad.folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "2\n4\n6\n")


def test_output_that_is_a_link_or_a_device(futad):
    import os
    import stat

    name = futad.file("p.fut", "entry main = 1i32\n")
    os.symlink("real.c", futad.folder / "link.c")
    assert futad("c", name, "-o", "link.c").code == 0
    assert (futad.folder / "link.c").is_symlink() and (futad.folder / "real.c").read_text().startswith("/*")
    os.mkfifo(futad.folder / "pipe")
    reader = subprocess.Popen(["cat", "pipe"], cwd=futad.folder, stdout=subprocess.PIPE)
    assert futad("c", name, "-o", "pipe").code == 0
    text, _ = reader.communicate(timeout=300)
    assert text.startswith(b"/*") and stat.S_ISFIFO((futad.folder / "pipe").stat().st_mode)
    done = futad("c", name, "--executable", "-o", "pipe")
    assert done.code == 2 and stat.S_ISFIFO((futad.folder / "pipe").stat().st_mode)
    assert futad("c", name, "-o", "/dev/full").code == 1 and stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.slow
def test_the_cases_of_the_language_through_an_executable(tmp_path, monkeypatch):
    """Every case of tests/language: input written in binary format, output read back as text."""
    from dataclasses import replace

    from futad.backend.c_program import program_text
    from futad.checks import modes
    from futad.pipeline import compile_program
    from futad.runtime.cc import build_program
    from futad.testing.blocks import read_test_file
    from futad.testing.compare import mismatch
    from futad.testing.inputs import expected_values, make_input
    from tests.support.program_groups import compiled

    paths = tuple(sorted((TESTS / "language").glob("*.fut")))
    program = compiled(paths, "interp", modes())
    monkeypatch.setenv("FUTAD_CFLAGS", "-O0")
    binary = tmp_path / "all"
    binary.write_bytes(build_program(program_text(c_backend(compile_program(program.core)), server=False)))
    binary.chmod(0o755)
    count = 0
    for path in paths:
        for case in read_test_file(path).cases:
            case = replace(case, entry=f"{path.stem}__{case.entry}")
            function = program[case.entry]
            if case.expected != "output" or case.input.kind != "values":
                continue
            flat = make_input(program, function, case)[len(function.signature.size_names) :]
            code, out, err = call(binary, "-e", case.entry, stdin=b"".join(map(binary_bytes, flat)))
            assert code == 0, f"{case.place}: {err}"
            results = [np.asarray(v.data) for v in Reader(out, "out").all()]
            expected = expected_values(program, function, case, [], results)
            assert not isinstance(expected, str), f"{case.place}: {expected}"
            assert mismatch(results, expected) is None, f"{case.place}: {mismatch(results, expected)}"
            count += 1
    assert count > 100


# --- checked execution ------------------------------------------------------------------------------------------------

APPENDED = """
entry main (n: i64): []i64 = loop xs = [1, 2] for _i < n do xs ++ take 2 (reverse xs)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_memory_is_checked(futad, backend):
    """A program that reads what was overwritten, by a condition of the compiler left out, is stopped."""
    futad.monkeypatch.setenv("FUTAD_CHECK", "memory")
    futad.file("p.fut", APPENDED)
    assert futad(backend, "p.fut", "--executable", "-o", "right").code == 0
    assert call(futad.folder / "right", stdin="3") == (0, b"[1i64, 2i64, 2i64, 1i64, 1i64, 2i64, 2i64, 1i64]\n", "")
    with legality.dropping("appending/appended from elsewhere"):
        assert futad(backend, "p.fut", "--executable", "-o", "wrong").code == 0
    code, out, err = call(futad.folder / "wrong", stdin="9")
    assert (code, out) == (1, b"")
    assert re.match(r"error: checked execution: \w+ memory\nhint: .*names the values\n$", err)
