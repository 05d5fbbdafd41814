"""The command line on input and surroundings that are wrong: an error of a line or two, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import futad as package
from futad.errors import Error
from tests.support.cli_helpers import Runner, killed_at_the_end, shell

COMMANDS = ["check", "run", "test", "bench", "gradcheck", "c", "multicore", "cuda", "dev"]


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    return Runner(tmp_path, monkeypatch, capfdbinary)


def said_well(text: str) -> bool:
    return text != "" and "Traceback" not in text and "internal error" not in text


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_are_no_programs(futad, command):
    (futad.folder / "folder").mkdir()
    futad.file("garbage", bytes(range(128, 256)) * 4)
    futad.file("zeros", b"\0" * 100)
    os.symlink("loop", futad.folder / "loop")
    for name in ("missing", "folder", "garbage", "zeros", "loop", "x" * 300, "a\nb"):
        if name == "folder" and command in ("test", "bench"):
            continue  # a folder of programs, here of none
        done = futad(command, name)
        if command in ("test", "bench") and name == "zeros":
            continue  # no test block in it: nothing is compiled
        assert done.code == 1 and said_well(done.err + done.out), (name, done)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_unknown_options(futad, command):
    done = futad(command, "--help")
    assert done.code == 0 and done.out.startswith(f"usage: futad {command}")
    done = futad(command, "p.fut", "--no-such-option")
    assert done.code == 2 and "--no-such-option" in done.err
    if command != "run":
        assert futad(command).code == 2


PROGRAM = "entry main (n: i64) (xs: []f64): []f64 = replicate n (f64.sum xs)\n"


@pytest.mark.parametrize("backend", ["interp", "c"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (b"", "<stdin>:1:1: error: main takes 2 values, found 0"),
        (b"1", "found 1; the next is 'xs' of type []f64"),
        (b"1 [1.0] 2", "<stdin>:1:9: error: main takes 2 values, but there are 3"),
        (b"1.0 [1.0]", "<stdin>:1:1: error: argument 'n': expected i64, got decimals"),
        (b"1 [[1.0]]", "<stdin>:1:3: error: argument 'xs': expected []f64, got [1][1]decimals"),
        (b"1 [1.0", "expected ',' or ']' in an array, found the end of the input"),
        (b"1 b\x02\x01 f64\xff\xff", "a binary value is cut off in its header"),
        (b"1 b\x02\x01 f64" + b"\xff" * 7 + b"\x3f", "of a binary value are too large"),
        (bytes(range(128, 256)), "expected a value"),
        (b"-1 [1.0]", "Range 0..1..<-1 is invalid: an array of negative size is needed"),
        (b"9223372036854775807 [1.0]", "an array is needed whose size exceeds the address space"),
        (b"300000000000000 [1.0]", "out of memory"),
    ],
)
def test_values_that_do_not_do(futad, backend, values, message):
    done = futad("run", futad.file("p.fut", PROGRAM), "-b", backend, stdin=values)
    assert done.code == 1 and done.out == "" and message in done.err and said_well(done.err)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["c", "p.fut", "-o", "no/x.c"],
        ["multicore", "p.fut", "--library", "-o", "no/x"],
        ["c", "p.fut", "--server", "-o", "no/x"],
        ["cuda", "p.fut", "-o", "no/x.cu"],
        ["bench", "p.fut", "--json", "no/x"],
        ["c", "p.fut", "-o", "folder"],
    ],
)
def test_output_that_cannot_be_written(futad, command):
    futad.file("p.fut", PROGRAM)
    (futad.folder / "folder").mkdir()
    done = futad(*command)
    assert done.code == 1 and "cannot write" in done.err and said_well(done.err)
    assert sorted(p.name for p in futad.folder.iterdir()) == ["folder", "p.fut"], "nothing is left half-written"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["run p.fut <&-", "check p.fut >&-", "c p.fut >&-", "--version >&- <&-", "frob 2>&-"]
)
def test_closed_streams(futad, command):
    futad.file("p.fut", PROGRAM)
    done = shell(f"futad {command}", futad.folder)
    assert done.returncode in (0, 1, 2) and "Traceback" not in done.stderr and "internal" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["--help", "c p.fut", "dev p.fut"])
def test_a_full_disk(futad, command):
    futad.file("p.fut", PROGRAM)
    done = shell(f"futad {command} > /dev/full", futad.folder)
    assert (done.returncode, done.stderr) == (1, "error: output: No space left on device\n")


@pytest.mark.slow
def test_an_interrupt_stops_compiled_code(futad):
    """Python's handler of signals would wait for the code to return, which this never does."""
    futad.file("p.fut", "entry main (n: i64): i64 = loop x = n while x > 0 do x * 3 % 1000 + 1\n")
    command = [sys.executable, "-m", "futad", "run", "p.fut", "-b", "c"]
    process = subprocess.Popen(command, cwd=futad.folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with killed_at_the_end(process):
        process.stdin.write("3")
        process.stdin.close()
        process.stdin = None
        stat = f"/proc/{process.pid}/stat"
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:  # until it has been computing for a while
            time.sleep(0.2)
            with open(stat) as f:
                if int(f.read().rsplit(")", 1)[1].split()[11]) > 120:
                    break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode in (-signal.SIGINT, 130) and "Traceback" not in err


def test_errors_are_there_by_the_packages_name():
    for name in ("BoundsError", "ShapeError", "DtypeError", "UsageError", "ParseError", "BackendError", "FileError"):
        assert issubclass(getattr(package, name), Error) and name in dir(package) and name in package.__all__
    with pytest.raises(package.ParseError):
        package.compile("entry main = ")
    with pytest.raises(AttributeError, match="no attribute 'NoSuchError'"):
        _ = package.NoSuchError


@pytest.mark.slow
def test_a_program_compiled_before_runs_without_the_compiler(futad):
    """What a cached run imports: nothing of the front end, the IR or the passes."""
    futad.file("p.fut", "entry main (x: i32): i32 = x + 1\n")
    assert shell("echo 1 | futad run p.fut -b c", futad.folder).stdout == "2i32\n"
    code = (
        "import sys; from futad.cli import main; main(['run', 'p.fut', '-b', 'c']); "
        "print(sorted(m for m in sys.modules if m.startswith('futad.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=futad.folder, input="1", capture_output=True, text=True)
    assert done.stdout == "2i32\n"
    for part in ("source", "core.ir", "pipeline", "imp", "backend.c", "api", "optimise", "ad"):
        assert f"'futad.{part}'" not in done.stderr
