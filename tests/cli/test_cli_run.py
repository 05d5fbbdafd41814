"""futad check, run, c, multicore, dataset; and the command line as a whole."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time

import numpy as np
import pytest

from futad.cli import COMMANDS
from futad.runtime.textvalues import Reader, binary_bytes
from tests.support.cli_helpers import Runner, killed_at_the_end, shell
from tests.support.paths import ROOT
from tests.support.processor_time import is_below

PROGRAM = """
entry main [n] (xs: [n]f64) (k: i64): f64 = f64.sum xs * f64.i64 k
entry pair (x: i32): (i32, [2]bool) = (x + 1, [x > 0, x < 0])
entry nothing: i32 = 42
entry second (xs: []f64): f64 = xs[1]
entry rows [n] (ps: [n](i32, f32)): [n]i32 = map (.0) ps
"""


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    r = Runner(tmp_path, monkeypatch, capfdbinary)
    r.file("p.fut", PROGRAM)
    return r


def test_help_and_version(futad):
    assert futad("--help").out.startswith("usage: futad SUBCOMMAND")
    assert all(f"  {name} " in futad("--help").out for name in COMMANDS)
    assert futad("--version").out == "futad 0.1.0\n"
    done = futad()
    assert done.code == 2 and done.err.startswith("usage:")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_has_help_and_refuses_unknown_options(futad, name):
    done = futad(name, "--help")
    assert done.code == 0 and done.out.startswith(f"usage: futad {name}") and len(done.out) > 150
    done = futad(name, "--no-such-option")
    assert done.code == 2 and f"futad {name}: error:" in done.err


def test_help_imports_next_to_nothing():
    code = (
        "import sys; from futad.cli import main; main(['--help']); "
        "sys.exit(any(m in sys.modules for m in ('numpy', 'argparse', 'lark', 'rich', 'futad.errors')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_an_unknown_subcommand(futad):
    done = futad("chekc", "p.fut")
    assert (done.code, done.err) == (2, "error: no subcommand is called 'chekc'; did you mean 'check'?\n")


def test_check_is_silent_when_all_is_well(futad):
    done = futad("check", "p.fut")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_an_error_has_place_line_and_caret(futad):
    futad.file("bad.fut", "entry main (x: i32): i32 =\n  x + yy\n")
    done = futad("check", "bad.fut")
    assert done.code == 1 and done.out == ""
    first, line, caret = done.err.splitlines()[:3]
    assert re.match(r"bad\.fut:2:7: error: .*yy", first)
    assert line == "  x + yy" and caret == "      ^^"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c", "multicore", "auto"])
def test_run(futad, backend):
    done = futad("run", "p.fut", "-b", backend, stdin="[1.0, 2.5] 2")
    assert (done.code, done.out, done.err) == (0, "7.0f64\n", "")


def test_run_prints_one_result_a_line(futad):
    done = futad("run", "p.fut", "-e", "pair", "-b", "interp", stdin="-- five\n5")
    assert done.out == "6i32\n[true, false]\n"


def test_an_entry_without_parameters_reads_no_input(futad):
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError("stdin was read")

    futad.monkeypatch.setattr(sys, "stdin", Untouchable())
    from futad.cli import main

    futad.capture.readouterr()
    assert main(["run", "p.fut", "-e", "nothing", "-b", "interp"]) == 0
    assert futad.capture.readouterr().out == b"42i32\n"


def test_binary_in_and_out(futad):
    data = binary_bytes(np.array([1.0, 2.5])) + binary_bytes(np.int64(2))
    code, out, _ = futad.raw("run", "p.fut", "-B", "-b", "interp", stdin=data)
    assert code == 0 and out == binary_bytes(np.float64(7.0))


def test_arrays_of_tuples_are_one_array_a_component(futad):
    done = futad("run", "p.fut", "-e", "rows", "-b", "interp", stdin="[1, 2] [0.5f32, 1.5f32]")
    assert done.out == "[1i32, 2i32]\n"


def test_empty_arrays(futad):
    assert futad("run", "p.fut", "-b", "interp", stdin="empty([0]f64) 2").out == "0.0f64\n"
    done = futad("run", "p.fut", "-e", "rows", "-b", "interp", stdin="empty([0]i32) empty([0]f32)")
    assert done.out == "empty([0]i32)\n"


@pytest.mark.parametrize(
    "entry, stdin, code, message",
    [
        (
            "main",
            "[1.0, 2.0",
            1,
            "<stdin>:1:10: error: expected ',' or ']' in an array, found the end of the input",
        ),
        ("main", "[1.0] 2 3", 1, "<stdin>:1:9: error: main takes 2 values, but there are 3"),
        (
            "main",
            "[1.0]",
            1,
            "<stdin>:1:6: error: main takes 2 values, found 1; the next is 'k' of type i64",
        ),
        ("main", "[1.0f32] 2", 1, "<stdin>:1:1: error: argument 'xs': expected f64, got [1]f32"),
        ("main", "1.0 2", 1, "<stdin>:1:1: error: argument 'xs': expected []f64, got decimals"),
        ("main", "\n[1.0] 2.5", 1, "<stdin>:2:7: error: argument 'k': expected i64, got decimals"),
        ("pair", "3000000000", 1, "<stdin>:1:1: error: argument 'x': an integer here does not fit i32"),
        (
            "rows",
            "[1] [1.0f32, 2.0f32]",
            1,
            "error: argument 'ps.1' of rows: dimension 0 is 2, but size n is 1",
        ),
        ("second", "[1.0]", 1, "p.fut:5:33: Error: Index [1] out of bounds for array of shape [1]"),
        ("mian", "", 2, "error: p.fut has no entry 'mian'; did you mean main?"),
    ],
)
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_run_with_wrong_input(futad, backend, entry, stdin, code, message):
    done = futad("run", "p.fut", "-b", backend, "-e", entry, stdin=stdin)
    assert done.code == code and done.out == "" and done.err.startswith(message), done.err
    assert "Traceback" not in done.err


def test_a_program_without_main(futad):
    futad.file("q.fut", "entry f (x: f64): f64 = x\nentry g (x: f64): f64 = x\n")
    done = futad("run", "q.fut", "-b", "interp")
    assert (done.code, done.err) == (2, "error: q.fut has no entry 'main'; choose one with -e: f, g\n")
    futad.file("r.fut", "def f (x: f64): f64 = x\n")
    done = futad("run", "r.fut", "-b", "interp")
    assert done.code == 2 and "nor any other (declare one with `entry`)" in done.err


@pytest.mark.slow
def test_a_compiled_program_runs_without_the_compiler(futad):
    futad.monkeypatch.setenv("FUTAD_CACHE_DIR", str(futad.folder / "cache"))
    # A program of its own: a library that this process has loaded from another cache would not be put into this one.
    (futad.folder / "own.fut").write_text("entry main [n] (xs: [n]f64) (k: i64) = f64.i64 k * f64.sum xs + 0.25\n")
    assert futad("run", "own.fut", "-b", "c", stdin="[1.0] 2").out == "2.25f64\n"
    code = (
        "import sys; from futad.cli import main; status = main(['run', 'own.fut', '-b', 'c']); "
        "compiler = ('futad.source', 'futad.imp', 'futad.backend', 'lark'); "
        "known = ('futad.backend', 'futad.backend.aot_cache'); "  # which knows how to do without the others
        "sys.exit(status or [m for m in sys.modules if m.startswith(compiler) and m not in known] or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], input="[1.0, 4.0] 2", text=True, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "10.25f64\n", "")


@pytest.mark.slow
def test_a_changed_program_or_import_is_compiled_again(futad):
    futad.monkeypatch.setenv("FUTAD_CACHE_DIR", str(futad.folder / "cache"))
    futad.file("lib.fut", "def k: f64 = 2\n")
    futad.file("m.fut", 'import "lib"\nentry main (x: f64): f64 = x * k\n')
    assert futad("run", "m.fut", "-b", "c", stdin="3").out == "6.0f64\n"
    futad.file("lib.fut", "def k: f64 = 5\n")
    assert futad("run", "m.fut", "-b", "c", stdin="3").out == "15.0f64\n"
    futad.file("m.fut", 'import "lib"\nentry main (x: f64): f64 = x + k\n')
    assert futad("run", "m.fut", "-b", "c", stdin="3").out == "8.0f64\n"


@pytest.mark.slow
def test_a_damaged_cache_is_no_obstacle(futad):
    cache = futad.folder / "cache"
    futad.monkeypatch.setenv("FUTAD_CACHE_DIR", str(cache))
    for _ in range(2):
        assert futad("run", "p.fut", "-b", "c", stdin="[1.0] 2").out == "2.0f64\n"
        for path in [*cache.rglob("*.entries"), *cache.rglob("*.so")]:
            whole = path.read_bytes()
            path.unlink()  # this process has mapped the file: cutting it short in place would be felt at once
            path.write_bytes(whole[:50])


@pytest.mark.slow
def test_errors_of_a_cached_program_show_the_line(futad):
    futad.monkeypatch.setenv("FUTAD_CACHE_DIR", str(futad.folder / "cache"))
    texts = [futad("run", "p.fut", "-b", "c", "-e", "second", stdin="[1.0]").err for _ in range(2)]
    assert texts[0] == texts[1] and "entry second (xs: []f64): f64 = xs[1]" in texts[0]


@pytest.mark.slow
def test_a_cached_run_starts_computing_soon(futad):
    """0.4 s on an idle machine: here as processor time, which other work on the machine disturbs less, over
    that of importing NumPy alone."""
    futad.monkeypatch.setenv("FUTAD_CACHE_DIR", str(futad.folder / "cache"))
    futad("run", "p.fut", "-b", "c", stdin="[1.0] 2")

    def seconds(code: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", code], input=b"[1.0] 2", stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    ours = "from futad.cli import main; main(['run', 'p.fut', '-b', 'c'])"
    # NumPy takes 0.14 s on the machine of the 0.4 s.
    assert is_below(lambda: seconds(ours), lambda: seconds("import numpy"), 2.9)


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(tmp_path):
    (tmp_path / "p.fut").write_text("entry main (n: i64): [n]i64 = iota n\n")
    done = shell("echo 200000 | futad run p.fut -b interp | head -c 10", tmp_path)
    assert (done.stdout, done.stderr) == ("[0i64, 1i6", "")
    done = shell("futad dataset -g [100000]f64 | head -c 5 > /dev/null", tmp_path)
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
def test_a_full_disk_is_an_error_of_one_line(tmp_path):
    done = shell("futad dataset -g [3]f64 > /dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (1, "error: output: No space left on device\n")


@pytest.mark.slow
def test_an_interrupt_ends_quietly(tmp_path):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "futad",
            "run",
            str(ROOT / "benchmarks" / "programs" / "gmm.fut"),
            "-e",
            "objective",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "FUTAD_CACHE_DIR": str(tmp_path)},
        text=True,
    )
    with killed_at_the_end(process):
        process.stdin.write("[")
        process.stdin.flush()
        unread = b"\1"
        while any(unread):  # the program has read its input so far and waits for more
            time.sleep(0.05)
            unread = fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130 and "Traceback" not in err and out == ""


def test_defects_of_ours_say_so(futad):
    futad.monkeypatch.setattr("futad.source.load_program", lambda *_args, **_options: 1 / 0)
    done = futad("check", "p.fut")
    assert done.code == 1 and done.err.startswith("futad: internal error: ZeroDivisionError: division by zero\n")
    assert "report" in done.err and "Traceback" not in done.err
    futad.monkeypatch.setenv("FUTAD_DEBUG", "1")
    assert "Traceback" in futad("check", "p.fut").err


# --- c, multicore ---


def test_emitted_c_stands_alone(futad):
    done = futad("c", "p.fut")
    assert done.code == 0 and '#include "' not in done.out and "futad_entry_main" in done.out
    assert re.match(r"/\* .*-shared program\.c .* \*/\n", done.out)
    assert futad("multicore", "p.fut", "-o", "m.c").out == ""
    assert "-pthread " in (futad.folder / "m.c").read_text().splitlines()[0]


@pytest.mark.slow
def test_a_library_builds_and_runs(futad):
    assert futad("c", "p.fut", "--library", "-o", "lib").code == 0
    source = (futad.folder / "lib.c").read_text()
    command = re.match(r"/\* (.*) \*/", source).group(1)
    subprocess.run(["sh", "-c", command], cwd=futad.folder, check=True)
    user = '#include "lib.h"\nint main(void) { struct futad_context *c = futad_new();\n'
    user += "struct futad_result r[1];\n"
    user += "int64_t n = 2, k = 3; double xs[] = {1, 2}; void *args[] = {&n, xs, &k};\n"
    user += "if (futad_entry_main(c, args, r)) return 1; double y; __builtin_memcpy(&y, &r[0].data, 8);\n"
    user += "futad_free(c); return y == 9 ? 0 : 2; }\n"
    futad.file("user.c", user)
    build = "cc user.c -o user ./lib.so -Wl,-rpath,. && ./user"
    assert subprocess.run(["sh", "-c", build], cwd=futad.folder).returncode == 0
    assert ctypes.CDLL(str(futad.folder / "lib.so")).futad_entry_nothing


def test_output_that_cannot_be_written(futad):
    done = futad("c", "p.fut", "-o", "no/such/x.c")
    assert (done.code, done.err) == (1, "error: cannot write no/such/x.c: No such file or directory\n")


# --- dataset ---


def test_dataset(futad):
    done = futad("dataset", "-g", "[3]f32", "i8", "--seed", "3")
    values = Reader(done.out.encode(), "out").all()
    assert [v.text() for v in values] == ["[3]f32", "i8"]
    assert futad("dataset", "-g", "[3]f32", "i8", "--seed", "3").out == done.out
    assert futad("dataset", "-g", "[3]f32", "i8", "--seed", "4").out != done.out
    assert all(0 <= x < 1 for x in values[0].data)


def test_dataset_bounds_apply_to_what_follows(futad):
    done = futad("dataset", "--i32-bounds", "5:5", "-g", "[2]i32", "--i32-bounds=-1:-1", "-g", "i32", "bool")
    assert done.out.splitlines()[:2] == ["[5i32, 5i32]", "-1i32"]


def test_dataset_converts_between_formats(futad):
    _, binary, _ = futad.raw("dataset", "-b", stdin="[[1, 2], [3, 4]] 1.5f32 true")
    assert binary.startswith(b"b\x02\x02 i32")
    assert futad("dataset", stdin=binary).out == "[[1i32, 2i32], [3i32, 4i32]]\n1.5f32\ntrue\n"
    assert futad("dataset", "-t", stdin=binary).out == "[2][2]i32\nf32\nbool\n"


@pytest.mark.parametrize(
    "args, message",
    [
        (["-g", "[3]g32"], "error: '[3]g32' is not a type to generate"),
        (["-g", "[99999999999999999]f64"], "does not fit in memory"),
        (["--i8-bounds", "0:300", "-g", "i8"], "error: the bounds 0:300 do not fit i8"),
        (["--i8-bounds", "3:1", "-g", "i8"], "with min <= max"),
        (["--f64-bounds", "a:b", "-g", "f64"], "are written min:max"),
        (["--seed", "-1", "-g", "f64"], "error: the seed must not be negative"),
    ],
)
def test_dataset_with_wrong_arguments(futad, args, message):
    done = futad("dataset", *args)
    assert done.code == 2 and message in done.err
