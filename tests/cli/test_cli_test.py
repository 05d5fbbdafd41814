"""futad test, dev, gradcheck; test blocks."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from futad.errors import ParseError
from futad.runtime.textvalues import binary_bytes
from futad.testing.blocks import parse_test_blocks
from futad.testing.compare import mismatch, text_of
from tests.support.cli_helpers import Runner, shell


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    return Runner(tmp_path, monkeypatch, capfdbinary)


def blocks(text):
    return parse_test_blocks(text, Path("p.fut"))


# --- the grammar ---


def test_a_block_of_everything():
    spec = blocks(
        """-- A description.
-- ==
-- tags { slow no_c }
-- entry: f g
-- "first" nobench input { 1 [2.0, 3.0] }
-- output { true }
-- compiled random input { [10][2]f32 5i64 } auto output
-- input @data/in.gz
-- output @data/out
-- script input { gen 10i64 }
-- error: out of .*
-- input { } output { empty([0]i32) }
-- structure gpu { Screma 2 /SegMap/Iota 1 }
-- warning: unused .*

entry f = 1
-- ==
-- input { 1 }
"""
    )
    assert spec.tags == {"slow", "no_c"} and spec.error is None
    assert [c.entry for c in spec.cases] == ["f", "g"] * 5 + ["main"]
    first, _, random, _, file, _, script, _, empty, _, last = spec.cases
    assert first.name == "first" and first.tags == {"nobench"} and first.expected == "output"
    assert [v.text() for v in first.input.values] == ["integers", "[2]decimals"]
    assert random.expected == "auto" and random.tags == {"compiled", "random"}
    assert random.name == "[10][2]f32 5" and random.input.random[0].dims == (10, 2)
    assert file.name == "in" and file.input.path == Path("data/in.gz") and file.output.path == Path("data/out")
    assert script.input.script == " gen 10i64" and script.name == "gen 10i64" and script.error == "out of .*"
    assert empty.input.values == [] and empty.output.values[0].shape == (0,)
    assert last.expected == "success" and str(last.place) == "p.fut:18:4"
    assert spec.structures[0].pipeline == "gpu" and spec.structures[0].counts == {
        "Screma": 2,
        "/SegMap/Iota": 1,
    }
    assert spec.warnings == ["unused .*"]


def test_values_may_span_lines():
    (case,) = blocks("-- ==\n-- input { [1,\n-- 2] }\n-- output {\n--   3 }\n").cases
    assert case.input.values[0].data.tolist() == [1, 2] and str(case.output.values[0].place) == "p.fut:5:6"


def test_a_program_that_must_be_rejected():
    assert blocks("-- ==\n-- error: cannot .*\n").error == "cannot .*"
    assert blocks("-- ==\n-- error:\n").error == ""


@pytest.mark.parametrize(
    "text, place, message",
    [
        ("-- ==\n-- input { 1\n", "2:13", "expected '}', found the end of the block"),
        ("-- ==\n-- input { 1x }\n", "2:12", "expected a value, found '1x'"),
        ("-- ==\n-- inptu { 1 }\n", "2:10", "expected a test case"),
        ("-- ==\n-- input { 1 } auto\n", "2:20", "expected 'output' after 'auto'"),
        ("-- ==\n-- input { 1 } error: (\n", "2:23", "not a regular expression"),
        ("-- ==\n-- entry:\n-- input { 1 }\n", "2:10", "expected the name of an entry"),
        ("-- ==\n-- random input @x\n", "2:17", "takes types in braces"),
        ("-- ==\n-- tags { a\n", "2:12", "expected '}'"),
        ("-- ==\n-- input { 1 }\n-- structure { A 1 } x\n", "3:22", "expected the end of the test block"),
    ],
)
def test_malformed_blocks(text, place, message):
    with pytest.raises(ParseError) as e:
        blocks(text)
    assert str(e.value).startswith(f"p.fut:{place}: error: test block: ") and message in str(e.value), str(e.value)


# --- comparing ---


def test_tolerances():
    def same(a, b):
        return mismatch([np.asarray(a)], [np.asarray(b)]) is None

    assert same([1.0019, np.nan, np.inf], [1.0, np.nan, np.inf])
    assert not same([1.0021], [1.0]) and not same([np.inf], [-np.inf]) and not same([np.nan], [1.0])
    assert same([1000.0, 1.9], [1000.0, 0.0]) and not same([1000.0, 2.1], [1000.0, 0.0])
    assert not same([np.inf], [1.0]) and not same([1], [2]) and same([True], [True])
    assert mismatch([np.zeros(2)], [np.zeros(3)]) == "value #0: expected type [3]f64, got [2]f64"
    assert mismatch([np.zeros(1)], [np.float32(0)]) == "value #0: expected type f32, got [1]f64"
    assert text_of(np.zeros((20, 30))) == "an array of type [20][30]f64"
    assert mismatch([np.zeros((2, 2))], [np.eye(2)]) == (
        "value #0 at index [0, 0]: expected 1.0f64, got 0.0f64 (2 of 4 elements differ)"
    )
    assert mismatch([1], []) == "expected 0 values, got 1"


# --- futad test ---

GOOD = """-- ==
-- input { [1.0, 2.0] } output { 3.0 }
-- input { empty([0]f64) } output { 0 }
-- "wrong on purpose" notest input { [1.0] } output { 7.0 }
entry main (xs: []f64): f64 = f64.sum xs
-- ==
-- entry: at
-- input { [1, 2] 5i64 } error: Index .5. .* shape .2.
-- input { [1, 2] 1i64 } output { 2 1i64 }
entry at (xs: []i32) (i: i64): (i32, i64) = (xs[i], i)
"""


@pytest.mark.parametrize("backend", ["interp", "c"])
def test_passing_failing_and_skipped(futad, backend):
    futad.file("good.fut", GOOD)
    done = futad("test", "good.fut", "-b", backend)
    assert (done.code, done.out, done.err) == (0, "4 passed, 0 failed, 1 skipped\n", "")
    done = futad("test", "good.fut", "-b", backend, "-e", "at")
    assert done.out == "2 passed, 0 failed, 0 skipped\n"


def test_failures_are_explained(futad):
    futad.file(
        "bad.fut",
        "-- ==\n-- input { [1, 2, 3] } output { [2, 4, 7] }\n-- input { [1] } output { [2.5] }\n"
        "-- input { [1] } error: never\n-- input { [1.5] }\n-- input { [1] } output { [2] 3 }\n"
        "entry main (xs: []i32) = map (* 2) xs\n",
    )
    done = futad("test", "bad.fut", "-b", "interp")
    assert done.code == 1 and done.out.splitlines()[-1] == "0 passed, 5 failed, 0 skipped"
    assert 'bad.fut:2:4: entry main, #0 ("[1, 2, 3]"): failed' in done.out
    assert "  value #0 at index [2]: expected 7i32, got 6i32\n" in done.out
    assert "expected: [2i32, 4i32, 7i32]\n  actual:   [2i32, 4i32, 6i32]" in done.out
    assert "value #0: expected type [1]decimals, got [1]i32" in done.out
    assert "succeeded, but should have failed (never)" in done.out
    assert "argument 'xs': expected i32, got [1]decimals" in done.out
    assert "expected 2 values, got 1" in done.out


def test_values_are_as_the_language_writes_them(futad):
    """Those that name a case too."""
    futad.file(
        "values.fut",
        "-- ==\n-- input { [true, false] f32.nan [1u8, 2u8] } output { -f64.inf }\n"
        "entry main (_: []bool) (x: f32) (_: []u8) = f64.f32 x\n",
    )
    assert futad("test", "values.fut", "-b", "interp").out == (
        'values.fut:2:4: entry main, #0 ("[true, false] f32.nan [1u8, 2u8]"): failed\n'
        "  value #0: expected -f64.inf, got f64.nan\n  expected: -f64.inf\n  actual:   f64.nan\n"
        "0 passed, 1 failed, 0 skipped\n"
    )


def test_an_error_that_does_not_match(futad):
    futad.file("e.fut", "-- ==\n-- input { 0 } error: overflow\nentry main (x: i32): i32 = 1 / x\n")
    done = futad("test", "e.fut", "-b", "interp")
    assert done.code == 1 and "expected: overflow" in done.out and "Error: division by zero" in done.out


def test_programs_that_must_be_rejected(futad):
    futad.file("a.fut", "-- ==\n-- error: unknown.*yy\nentry main (x: i32) = yy\n")
    futad.file("b.fut", "-- ==\n-- error: something else\nentry main (x: i32) = yy\n")
    futad.file("c.fut", "-- ==\n-- error:\nentry main (x: i32) = x\n")
    done = futad("test", ".", "-b", "interp")
    assert done.out.splitlines()[-1] == "1 passed, 2 failed, 0 skipped"
    assert "b.fut: the error does not match" in done.out and "c.fut: compiles, but should be rejected" in done.out


def test_programs_that_do_not_compile_or_parse(futad):
    futad.file("sub/a.fut", "-- ==\n-- input { 1 }\n-- input { 2 }\nentry main (x: i32) = yy\n")
    futad.file("sub/b.fut", "-- ==\n-- input { 1\nentry main (x: i32) = x\n")
    futad.file("sub/c.fut", b"-- \xff\n")
    done = futad("test", "sub", "-b", "interp")
    assert done.code == 1 and done.out.splitlines()[-1] == "0 passed, 4 failed, 0 skipped"
    assert "sub/a.fut: does not compile" in done.out and "sub/b.fut:2:13: error: test block" in done.out
    assert "sub/c.fut is not UTF-8 text (byte 3)" in done.out


def test_data_files(futad):
    futad.file(
        "d.fut",
        "-- ==\n-- input @x.in.gz output @x.out\n-- input @no.in\nentry main (xs: []f64) = map (* 2) xs\n",
    )
    futad.file("x.in.gz", gzip.compress(b"[1.0, 2.0]"))
    futad.file("x.out", binary_bytes(np.array([2.0, 4.0])))
    done = futad("test", "d.fut", "-b", "interp")
    assert done.out.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
    assert "d.fut:3:10: error: cannot read no.in: No such file or directory" in done.out
    futad.file("x.in.gz", gzip.compress(b"[1.0, 2.0]")[:-5])
    assert "x.in.gz is not a whole gzip file" in futad("test", "d.fut", "-b", "interp").out


def test_comparing_large_arrays():
    """A piece at a time: the tolerance is that of the whole, the place named is in the whole."""
    want = np.linspace(-1, 100, 300_000).reshape(3, 100_000)
    want[0, 5], want[1, 7], want[2, 9] = np.nan, np.inf, -np.inf
    assert mismatch([want + 0.19], [want]) is None
    got = want.copy()
    got[2, 99_999] += 1
    assert mismatch([got], [want]) == "value #0 at index [2, 99999]: expected 100.0f64, got 101.0f64"
    got[0, 5] = 0
    problem = mismatch([got], [want])
    assert problem is not None and problem.endswith("(2 of 300000 elements differ)")
    assert "at index [0, 5]: expected f64.nan, got 0.0f64" in problem
    everywhere = np.full(200_000, np.nan)
    assert mismatch([everywhere], [everywhere]) is None
    assert mismatch([everywhere * 0 + 1], [np.full(200_000, -np.inf)]) is not None
    flags = np.zeros(200_000, bool)
    assert mismatch([flags], [flags]) is None
    assert "at index [199999]" in str(mismatch([flags], [np.arange(200_000) == 199_999]))


@pytest.mark.slow
def test_auto_output_of_a_long_run(futad, monkeypatch):
    """What takes the interpreter too many statements is compared with another backend."""
    others = []
    monkeypatch.setattr("futad.testing.inputs.LONG", 1000)
    monkeypatch.setattr("futad.testing.inputs._other_backend", lambda b: others.append(b) or "multicore")
    futad.file(
        "l.fut",
        "-- ==\n-- input { 20 } auto output\n-- input { 2000 } auto output\n"
        "entry main (n: i64): i64 = loop x = 1 for i < n do (x * 31 + i) % 1000003\n",
    )
    done = futad("test", "l.fut", "-b", "c")
    assert done.out.splitlines()[-1] == "2 passed, 0 failed, 0 skipped", done.out
    assert others == ["c", "c", "c"]  # for the limit of each run, and where that was passed


@pytest.mark.slow
def test_random_script_and_auto(futad):
    futad.file(
        "r.fut",
        "-- ==\n-- random input { [10]f64 3i64 } auto output\n-- script input { (gen 4i64, 2) } output { 12.0 }\n"
        "-- script input { let (a, b) = two 3 in (a, b) } output { 6.0 }\n-- script input { nix 4 }\n"
        "entry main [n] (xs: *[n]f64) (k: i64): f64 =\n  f64.sum (map (* f64.i64 k) (xs with [0] = 0))\n"
        "entry gen (n: i64): [n]f64 = tabulate n f64.i64\nentry two (n: i64) = (tabulate n f64.i64, 2i64)\n",
    )
    done = futad("test", "r.fut", "-b", "c")
    assert done.out.splitlines()[-1] == "3 passed, 1 failed, 0 skipped", done.out
    assert "r.fut:5:19: error: script input: no entry is called 'nix'" in done.out


def test_tags_choose(futad):
    futad.file("t.fut", "-- ==\n-- tags { disable }\n-- input { 1 }\n-- input { 2 }\nentry main (x: i32) = x\n")
    futad.file(
        "u.fut",
        "-- ==\n-- no_interp input { 1 }\n-- compiled input { 2 }\n-- slow input { 3 }\nentry main (x: i32) = x\n",
    )
    assert futad("test", "t.fut", "u.fut", "-b", "interp").out == "1 passed, 0 failed, 4 skipped\n"
    assert futad("test", "u.fut", "-b", "c", "--exclude", "slow").out == "2 passed, 0 failed, 1 skipped\n"


def test_missing_files_and_empty_folders(futad):
    assert futad("test", "no.fut").err == "error: cannot read no.fut: No such file or directory\n"
    (futad.folder / "empty").mkdir()
    assert futad("test", "empty").out == "0 passed, 0 failed, 0 skipped\n"


# --- futad dev ---

DOT = "entry main [n] (xs: [n]f64) (ys: [n]f64): f64 =\n  f64.sum (map2 (*) xs ys)\n"


def test_dev_prints_the_ir_after_a_pass(futad):
    futad.file("dot.fut", DOT)
    before = futad("dev", "dot.fut", "--after", "none").out
    after = futad("dev", "dot.fut").out
    assert "reduce(" in before and "map(" in before and "fused(" in after
    assert futad("dev", "dot.fut", "--passes", "simplify,inline").out != after
    assert futad("dev", "dot.fut", "--after", "ad", "--check").code == 0
    assert "fuse" in futad("dev", "dot.fut", "--list").out.split()


@pytest.mark.slow
def test_dev_prints_the_ir_in_a_process_of_its_own(tmp_path):
    (tmp_path / "dot.fut").write_text(DOT)
    for passes in ("none", "simplify", "hoist"):
        done = shell(f"futad dev dot.fut --after {passes}", tmp_path)
        assert done.returncode == 0 and "fun main [n_" in done.stdout


def test_dev_reports_times_rules_and_work(futad):
    futad.file("dot.fut", DOT)
    futad.file("in", "[1.0, 2.0, 3.0] [1.0, 1.0, 1.0]")
    out = futad("dev", "dot.fut", "--time").out
    assert out.startswith("pass ") and "\nfuse " in out and "program" not in out
    out = futad("dev", "dot.fut", "--stats", "--input", "in").out
    assert out.startswith("rule ") and "fuse_vertical" in out and "construct" in out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line}
    assert rows["all"][1] == "6"  # two arrays of three elements are read


@pytest.mark.parametrize(
    "args, message",
    [
        (["--after", "nix"], "error: no pass is called 'nix'; there are: in-order, simplify, bounded, tail-calls"),
        (["--passes", "simplify,nix"], "error: no pass is called 'nix'"),
        (["--passes", "simplify", "--after", "ad"], "error: --after ad: --passes does not run it"),
        (["--input", "x"], "error: --input is for --stats"),
        (["--stats", "--input", "-", "-e", "mian"], "no entry 'mian'; did you mean 'main'"),
    ],
)
def test_dev_with_wrong_arguments(futad, args, message):
    futad.file("dot.fut", DOT)
    done = futad("dev", "dot.fut", *args)
    assert done.code == 2 and message in done.err


# --- futad gradcheck ---


def test_gradcheck(futad):
    futad.file("f.fut", "entry main [n] (xs: [n]f64) (i: i64): f64 = xs[i] * f64.sum (map f64.exp xs)\n")
    done = futad("gradcheck", "f.fut", "-b", "interp", "--seed", "5")
    assert done.code == 0 and done.out.splitlines()[-1] == "9 comparisons, 0 beyond tolerance"
    assert "ok   worst d result / d xs[" in done.out
    assert futad("gradcheck", "f.fut", "-b", "interp", "--size", "n=2").out.splitlines()[-1].startswith("6 comp")
    done = futad("gradcheck", "f.fut", "-b", "interp", "--input", "-", stdin="[1.0] 0")
    assert done.out.splitlines()[-1] == "3 comparisons, 0 beyond tolerance"


def test_gradcheck_finds_a_kink_and_takes_the_test_blocks_input(futad):
    futad.file("k.fut", "-- ==\n-- input { 1.0 }\nentry main (x: f64): f64 = if x > 1 then 3 * x else x\n")
    done = futad("gradcheck", "k.fut", "-b", "interp")
    assert done.code == 1 and done.out.splitlines()[0] == "input of the test block at k.fut:2:4"
    assert "FAIL worst d result / d x: forward against differences: 1 against" in done.out
    assert done.out.splitlines()[-1] == "3 comparisons, 2 beyond tolerance"


@pytest.mark.parametrize(
    "args, message",
    [
        (["--size", "m=2"], "write NAME=N with NAME one of the size parameters (n)"),
        (["--size", "n"], "write NAME=N"),
        (["--seed", "-1"], "--seed must not be negative"),
        (["--seed", "1", "--input", "x"], "not with --input"),
        (["-e", "ints"], "no argument of ints holds floating-point numbers"),
        (["-e", "count"], "the result of count holds no floating-point numbers"),
    ],
)
def test_gradcheck_with_wrong_arguments(futad, args, message):
    futad.file(
        "f.fut",
        "entry main [n] (xs: [n]f64): f64 = xs[0]\nentry ints (x: i32): i32 = x\n"
        "entry count (x: f64): i64 = i64.f64 x\n",
    )
    done = futad("gradcheck", "f.fut", "-b", "interp", *args)
    assert done.code == 2 and message in done.err


def test_arguments_whose_sizes_do_not_fit_are_a_failure_of_the_call(futad):
    text = "-- ==\n-- input { [1] [1, 2] } error: dimension 0 is 2\n-- input { [1] [1] } error: .\ndef main [n] "
    done = futad("test", futad.file("p.fut", text + "(a: [n]i32) (b: [n]i32) = map2 (+) a b\n"), "-b", "interp")
    assert done.code == 1 and "succeeded, but should have failed" in done.out
    assert done.out.endswith("1 passed, 1 failed, 0 skipped\n")


SCRIPTS = """
-- ==
-- script input { (gen 4i64, 2f64) } output { 12.0 }
-- script input { (gen 4, 2) } output { 12.0 }
-- script input { let (a, b) = two 3i64 in (a, b) } output { 6.0 }
-- script input { let n = 3i64 in let xs = gen n in (xs, xs[1]) } output { 3.0 }
-- script input { ((rec 2i64).ys, (rec 2i64).k) } output { 3.0 }
-- script input { ((two 3i64).0, (two 3i64).1) } output { 6.0 }
-- script input { let ps = pairs 2i64 in let p = ps[1] in ([p.0, 5.0], p.1) } output { 12.0 }
-- script input { let r = made {ys = [1.0, 2.0], k = 4.0} in (r, 1) } output { 12.0 }
-- script input { (let n = 2i64 in gen n, start) } output { 7.0 }
-- script input { ($loaddata "values", 1.0) } output { 4.0 }
-- script input { (bytes ($loadbytes "raw"), 2.0) } output { 6.0 }
-- script input @made.script output { 12.0 }
entry main [n] (xs: [n]f64) (k: f64): f64 = k * f64.sum xs
entry gen (n: i64): [n]f64 = tabulate n f64.i64
entry two (n: i64) = (gen n, 2f64)
entry rec (n: i64) = {ys = gen n, k = 3f64}
entry pairs (n: i64): [n](f64, f64) = tabulate n (\\i -> (f64.i64 i, f64.i64 i * 2))
entry made (r: {ys: [2]f64, k: f64}): [2]f64 = map (* r.k) r.ys
entry start = 7f64
entry bytes [n] (b: [n]u8): [n]f64 = map f64.u8 b
"""


def test_the_language_of_script_input(futad):
    futad.file("values", "[1.5, 2.5]")
    futad.file("raw", b"\x01\x02")
    futad.file("made.script", "(gen 4i64, 2f64)")
    done = futad("test", futad.file("s.fut", SCRIPTS), "-b", "interp")
    assert done.out == "12 passed, 0 failed, 0 skipped\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("nix 3", "no entry is called 'nix'"),
        ("(gen 3i64, )x", "expected the end of the script"),
        ("(gen 3i64", "expected ')'"),
        ("(gen gen, 1)", "'gen' is not a value"),
        ("let n = 3i64 in (n[0], n)", "an array of rank 0 cannot be indexed so"),
        ("let xs = gen 2i64 in (xs, xs[2i64])", "Index [2] out of bounds for array of shape [2]"),
        ("(let n = 3i64 in gen n, n)", "no entry is called 'n'"),
        ("(two 3i64).2", "there is no field '2' here"),
        ("let (a, b) = gen 2i64 in (a, b)", "expected a tuple of 2"),
        ("{3 = 4}", "expected the name of a field"),
        ('($loaddata "missing", 1.0)', "cannot read missing"),
        ("gen 3i64", "main takes 2 arguments, not 1"),
        ("(gen 3.5, 1)", "argument 'n'"),
        ("", "expected a value"),
    ],
)
def test_wrong_scripts_are_errors_with_their_place(futad, script, message):
    text = SCRIPTS[SCRIPTS.index("entry main") :]
    done = futad("test", futad.file("s.fut", f"-- ==\n-- script input {{ {script} }}\n{text}"), "-b", "interp")
    assert done.code == 1 and message in done.out and "internal" not in done.out
    assert "s.fut:2:" in done.out and done.out.endswith("0 passed, 1 failed, 0 skipped\n")


PROPERTIES = """
-- ==
-- property: reverse_twice bounded sorted_already generated no_bool missing fails

#[prop]
entry reverse_twice [n] (xs: [n]i32) (k: i64) = and (map2 (==) (reverse (reverse xs)) xs) && (k == k)
#[prop]
entry bounded (n: i64) (xs: [n]u8) (y: f32): bool = length xs == n && (y <= 0 || y > 0)
#[prop]
entry sorted_already [n] (xs: [n]i8): bool = and (map (\\i -> i == 0 || xs[i - 1] <= xs[i]) (iota n))
entry three (size: i64) (seed: u64): [3]i64 = [size, i64.u64 (seed % 2), 7]
#[prop(gen(three), size(5))]
entry generated (xs: [3]i64): bool = xs[0] <= 5 && xs[1] < 2 && xs[2] == 7
entry no_bool (x: i32): i32 = x
entry fails (xs: []i32): bool = xs[5] > 3
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_properties(futad, backend):
    done = futad("test", futad.file("p.fut", PROPERTIES), "-b", backend)
    assert done.code == 1 and done.out.endswith("3 passed, 4 failed, 0 skipped\n"), done.out
    counterexample = done.out.split("property sorted_already: failed\n  false for [")[1].split("]")[0]
    values = [int(v.removesuffix("i8")) for v in counterexample.split(", ")]
    assert values != sorted(values) and len(values) < 8, "a small one"
    assert "'no_bool' is no property: it returns i32, not bool" in done.out
    assert "has no entry 'missing'" in done.out
    assert "Index [5] out of bounds" in done.out
    assert counterexample == "0i8, -1i8", "the smallest there is"
    done = futad("test", "p.fut", "-b", backend, "-e", "generated")
    assert done.out == "1 passed, 0 failed, 0 skipped\n"


SHRINKING = """
-- ==
-- property: below short in_step even_sum steps wrong unfit

#[prop(size(1000))]
entry below (x: i64): bool = x < 10
#[prop]
entry short [n] (xs: [n]f64) (b: bool): bool = n < 3 || b
#[prop]
entry in_step [n] (xs: [n]i32) (ys: [n]i32): bool = and (map2 (\\x y -> x * y < 5 && x * y > -5) xs ys)
entry evens (size: i64) (seed: u64): []i64 = map (\\i -> 2 * (i + i64.u64 (seed % 50))) (iota size)
#[prop(gen(evens))]
entry even_sum (xs: []i64): bool = i64.sum xs < 100
entry make (_size: i64) (seed: u64): {x: i64, y: i64} = {x = 100 + i64.u64 (seed % 100), y = 3}
entry less (p: {x: i64, y: i64}) (seed: u64) = if seed % 2 == 0 then p with x = p.x / 2 else p with x = p.x - 1
#[prop(gen(make), shrink(less))]
entry steps (p: {x: i64, y: i64}): bool = p.x < 17
#[prop(shrink(less))]
entry wrong (x: i64): bool = x < 0 && x > 0
#[prop(shrink(none))]
entry unfit (x: i64): bool = x < 0 && x > 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_counterexamples_are_made_smaller(futad, backend):
    done = futad("test", futad.file("s.fut", SHRINKING), "-b", backend)
    lines = done.out.splitlines()
    found = {lines[i].split()[2].rstrip(":"): lines[i + 1].strip() for i in range(0, len(lines) - 1, 2)}
    assert found["below"] == "false for 10i64"
    assert found["short"] == "false for [0.0f64, 0.0f64, 0.0f64] false"
    # Neither number can be halved or taken down by one.
    x, y = [int(v.strip("[]").removesuffix("i32")) for v in found["in_step"].removeprefix("false for ").split()]
    assert abs(x * y) >= 5 and abs(x * (abs(y) - 1)) < 5 and abs((abs(x) - 1) * y) < 5
    made = [int(v.removesuffix("i64")) for v in found["even_sum"].removeprefix("false for [").rstrip("]").split(", ")]
    assert sum(made) >= 100 and all(b - a == 2 for a, b in zip(made, made[1:], strict=False)), "as generated"
    assert found["steps"] == "false for 17i64 3i64"
    assert "'less' does not take what the property takes, and a u64" in found["wrong"]
    assert "has no entry 'none'" in found["unfit"]
    assert lines[-1] == "0 passed, 7 failed, 0 skipped"


def test_the_seed_chooses_the_candidates(futad):
    generated = """-- ==
-- property: odd
entry make (_size: i64) (seed: u64) = seed
#[prop(gen(make))]
entry odd (x: u64): bool = false
"""
    program = futad.file("g.fut", generated)
    outs = [futad("test", program, "-b", "interp", *seed).out for seed in ([], ["--seed", "1"], ["--seed", "2"])]
    assert outs[0] == outs[1] != outs[2]
    done = futad("test", program, "--seed", "-1")
    assert done.code == 2 and "the seed must not be negative" in done.err


@pytest.mark.slow
def test_warnings_and_structure(futad):
    text = """-- ==
-- input { 1 } output { 2 }
-- structure gpu { SegMap 1 }
-- warning: not used
-- warning: attribute '#.opaque
entry main (x: i32) = let y = 3 in #[opaque] (x + 1)
"""
    done = futad("test", futad.file("w.fut", text))
    assert done.out == "3 passed, 0 failed, 0 skipped\n"
    done = futad("test", "w.fut", "-v")
    assert "w.fut:3:14: structure: not checked" in done.out and done.out.endswith("3 passed, 0 failed, 0 skipped\n")
    done = futad("test", futad.file("n.fut", "-- ==\n-- input { 1 }\n-- warning: ^$\nentry main (x: i32) = x\n"))
    assert done.out == "2 passed, 0 failed, 0 skipped\n"
    bad = "-- ==\n-- input { 1 }\n-- warning: ^$\n-- warning: deprecated\nentry main (x: i32) = let y = 3 in x\n"
    done = futad("test", futad.file("b.fut", bad))
    assert done.code == 1 and done.out.endswith("1 passed, 2 failed, 0 skipped\n")
    assert "expected: ^$" in done.out and "b.fut:5:27: warning: 'y' is not used" in done.out
    assert "expected: deprecated" in done.out


TRICKY = """-- == a title
-- tags { slow-1 a_b }
-- entry: id twice
-- "named" input { "a\\"b{}" } output { [97u8, 34u8, 98u8, 123u8, 125u8] }
-- -- a comment inside
-- "no_such" no_nothing input { empty([0]u8) }
--   output { empty([0]u8) }
-- compiled nobench random input { [3]u8 } auto output

-- ==
-- entry: at
-- input { [1.0, f64.nan, -f64.inf] 1i64 } output { f64.nan }
-- input { [1.0] 1i64 } error: Index .1. out of .*shape .1.
-- input { [1.0] 1i64 }
-- error: bounds
-- script input { (ones 3i64, 2i64) } output { 1.0 }
-- script input { let p = pair in (p.0, p.1) } output { 5.0 }
-- input @ values.in
-- output @ values.out.gz

entry id (x: []u8) = x
entry twice (x: []u8) = (id x)
entry at (xs: []f64) (i: i64) = xs[i]
entry ones (n: i64) = replicate n 1f64
entry pair = ([4.0, 5.0], 1i64)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_tricky_blocks(futad, backend, tmp_path):
    import gzip

    program = futad.file("t.fut", TRICKY)
    (tmp_path / "values.in").write_text("[7.0] -- a comment\n0i64")
    (tmp_path / "values.out.gz").write_bytes(gzip.compress(b"7f64"))
    done = futad("test", program, "-b", backend)
    skipped = 2 if backend == "interp" else 0
    assert done.out == f"{12 - skipped} passed, 0 failed, {skipped} skipped\n", done.out
