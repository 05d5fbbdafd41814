"""Every subcommand on what is no program, no values, no option: exit code 1 or 2 and a line that says why, with its
place where there is one; never a traceback, never an internal error."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from futad.cli import COMMANDS
from tests.support.cli_helpers import Done, Runner
from tests.support.slow import slow_but

GOOD = b"""-- ==
-- entry: main
-- input { [1.0, 2.0] } output { 3.0 }
entry main [n] (xs: [n]f64): f64 = f64.sum xs
entry scalar (x: f64): f64 = x * x
"""
HEAD = b"entry main (x: f64) = x"
# Texts: what is said of them ("" if they are good), from the place on where that is one.
FILES: dict[str, tuple[bytes, str]] = {
    "good.fut": (GOOD, ""), "bom.fut": (b"\xef\xbb\xbf" + GOOD, ""), "crlf.fut": (GOOD.replace(b"\n", b"\r\n"), ""),
    "empty.fut": (b"", ""), "space.fut": (b" \n\n", ""), "a name with spaces.fut": (GOOD, ""),
    "binary.fut": (bytes(range(256)) * 8, "no text|UTF-8"), "utf16.fut": (GOOD.decode().encode("utf16"), "UTF-8"),
    "latin.fut": ("-- é\n".encode("latin1") + HEAD, "UTF-8"), "nul.fut": (HEAD + b"\0\n", r"nul.fut:1:24: error: "),
    "syntax.fut": (b"entry main (x: f64 = x\n", r"syntax.fut:1:\d+: error: "),
    "type.fut": (b"entry main (x: f64): i64 =\r\n  x\n", r"type.fut:2:3: error: "),
    "import.fut": (b'import "nosuch"\n' + HEAD, r"import.fut:1:\d+: error: "),
    "folder.fut.fut": (b'import "dir"\n' + HEAD, r"folder.fut.fut:1:\d+: error: "),
    "cycle.fut": (b'import "cycle"\n' + HEAD, r"cycle.fut:1:\d+: error: "),
    "imports binary.fut": (b'import "binary"\n' + HEAD, r"binary.fut"),
    "number.fut": (b"entry main (x: i32): i32 = x + 99999999999999999999", r"number.fut:1:32: error: "),
}  # fmt: skip
BLOCKS = {
    "values": b"-- input { [1.0, }", "entry": b"-- entry: nosuch\n-- input { 1.0 }", "file": b"-- input @ nosuch.in",
    "folder": b"-- input @ dir", "header": b"-- input @ cut.bin", "gzip": b"-- input @ cut.in.gz",
    "size": b"-- random input { [-3]f64 }", "kind": b"-- random input { [3]wrong }", "script": b"-- input { nosuch 3 }",
    "data": b'-- script input { $loaddata "nosuch" }', "many": b"-- input { 1.0 2.0 }", "type": b"-- input { true }",
}  # fmt: skip
PATHS = ["missing.fut", "dir", "dir.fut", "loop.fut", "gone.fut", "", "a\nb", "x" * 300 + ".fut", "/dev/null", "/",
         "/proc/self/mem", "nosuch/good.fut", "good.fut/", "~/good.fut", "-", "\udcff.fut"]  # fmt: skip
READERS = ("check", "run", "test", "bench", "gradcheck", "stub", "dev", "c", "multicore", "cuda")
MORE = {"run": ["-b", "interp"], "test": ["-b", "interp"], "bench": ["-b", "interp", "-r", "1"],
        "gradcheck": ["-b", "interp", "-e", "scalar"], "tune": ["-b", "emulated", "-r", "1"]}  # fmt: skip
VALUES = [b"", b"\0", b"\xff\xfe", b"[1.0", b"[1.0]]", b"1.0", b"[[1.0]]", b'"x"', b"99999999999999999999999", b"{x=1}",
          b"empty([0]i64)", b"empty([99999999999999999999]f64)", b"b\2\1 f64" + b"\xff" * 8, b"b\2\1 f64\2" + bytes(10),
          b"b\x09\1 f64", b"b\2\1 zzz\1" + bytes(7), b"[" * 100_000, b"[1.0 2.0]", b"(1,2)", "é".encode(), b"true",
          b"0x", b"[1.0] extra", b"1.0f99", b"1i99", b"'x'", b"[true, 1.0]", b"[[1.0],[1.0,2.0]]", b"b"]  # fmt: skip
WRONG = ["", "x", "-1", "1e9", "99999999999999999999", "nan", "-inf", "1.5", "é", ",", "=", "N=", "=3", "N=x", "N=-1",
         "/", "dir", "missing", "[1.0]", " ", "'", "\udcff"]  # fmt: skip
# Options with a value, and which of the wrong ones they take all the same.
OPTIONS = {
    "check": {"--strategy": ()}, "stub": {"-o": ("files",)}, "gradbench": {"-b": ()},
    "run": {"-e": (), "-b": (), "--memory": ("numbers",), "--checkpoints": (), "--reruns": (), "--method": (),
            "--reversible": ("numbers",), "--strategy": (), "-x": ("1e9", "1.5", "nan")},
    "test": {"-e": ("any",), "-b": (), "--seed": ("numbers",), "--exclude": ("any",)},
    "bench": {"--json": ("files",), "--max-seconds": ("any",), "-e": ("any",)},
    "gradcheck": {"-e": (), "--seed": ("numbers",), "--input": (), "--size": (), "--limit": ("numbers",),
                  "--engine": ()},
    "dev": {"--passes": ("",), "--after": (), "--fires": ("",), "--check-rules": (), "--input": (),
            "--graph": ("files",), "--size": (), "-e": ("",)},
    "dataset": {"-g": (), "-s": ("numbers",), "--i32-bounds": (), "--f64-bounds": ()},
    "tune": {"--size": (), "--strategies": ()}, "c": {"-o": ("files",)}, "cuda": {"-o": ("files",)},
}  # fmt: skip


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.setenv("FUTAD_CFLAGS", "-O0")
    made = Runner(tmp_path, monkeypatch, capfdbinary)
    for name, (data, _) in FILES.items():
        made.file(name, data)
    made.file("cut.bin", b"b\2\1 f64\xff\xff")
    made.file("cut.in.gz", b"\x1f\x8b\x08\0garbage")
    for name in ("dir", "dir.fut"):
        (tmp_path / name).mkdir()
    os.symlink("loop.fut", tmp_path / "loop.fut")
    os.symlink("nowhere.fut", tmp_path / "gone.fut")
    return made


def refused(done: Done, codes: tuple[int, ...] = (1, 2)) -> bool:
    """An error that is told, not one that nobody has thought of."""
    text = done.err + done.out
    told = done.code == 0 or text.strip() != ""
    return done.code in codes and told and not re.search("Traceback|internal err", text)


@pytest.mark.parametrize("command", slow_but(["check"], READERS))
def test_files(futad, command):
    for name, (_, said) in FILES.items():
        done = futad(command, name, *MORE.get(command, ()), stdin="[1.0, 2.0]")
        if command in ("test", "bench") and said and name not in ("binary.fut", "utf16.fut", "latin.fut"):
            assert refused(done, (0, 1)), (name, done)  # without a test block nothing is compiled
        elif said:
            assert refused(done, (1,)) and re.search(said, done.err + done.out), (name, done)
        else:
            assert refused(done, (0, 1, 2)), (name, done)
    for path in PATHS:
        done = futad(command, path, *MORE.get(command, ()))
        none = path in ("/dev/null", "good.fut/") or command in ("test", "bench")  # of what they look for
        assert refused(done, (0, 1, 2) if none else (1,)), (path, done)


@pytest.mark.parametrize("command", slow_but(["test"], ["test", "bench"]))
def test_blocks(futad, command):
    for name, block in BLOCKS.items():
        path = futad.file(f"block {name}.fut", b"-- ==\n" + block + b"\n-- output { 1.0 }\n" + HEAD)
        done = futad(command, path, *MORE[command])
        assert refused(done, (1,)), (name, done)


@pytest.mark.parametrize("command", slow_but(["run", "gradbench"], ["run", "gradcheck", "dataset", "gradbench"]))
def test_values(futad, command):
    args = {"run": ["good.fut", "-b", "interp"], "gradcheck": ["good.fut", "-b", "interp", "--input", "-"]}
    for value in VALUES:
        done = futad(command, *args.get(command, ()), stdin=value)
        if command == "gradbench":
            assert done.code == 0 and (not value or '"error"' in done.out) and refused(done, (0,)), (value, done)
        elif command == "run":
            assert refused(done, (1,)) and re.search(r"^<stdin>:\d+:\d+: error: ", done.err, re.M), (value, done)
        else:
            assert refused(done, (0, 1)), (value, done)


@pytest.mark.parametrize("command", slow_but(["c", "dataset", "check"], sorted(OPTIONS)))
def test_options(futad, command):
    before = sorted(os.listdir(futad.folder))
    for option, takes in OPTIONS[command].items():
        for wrong in WRONG:
            file = [] if command in ("dataset", "gradbench") else ["good.fut"]
            more = ["-g", "i32"] if option.endswith("bounds") else ["--cost"] if option == "--input" != file else []
            more = more if command in ("dataset", "dev") else []
            done = futad(command, *file, *MORE.get(command, ()), option, wrong, *more, stdin="[1.0, 2.0]")
            assert refused(done, (0, 1, 2) if takes else (1, 2)), (option, wrong, done)
    if not any("files" in takes for takes in OPTIONS[command].values()):
        assert sorted(os.listdir(futad.folder)) == before, "nothing is written"


def test_words(futad):
    for args in ([""], ["-"], ["--"], ["nosuch"], ["\udcff"], ["run", "--", "-x"], ["run", "good.fut", "more"],
                 ["run", "-x"], ["dataset", "-g"], ["cache", "more"], ["explain", "E9999"], ["explain", "a", "b"],
                 ["dev"], ["check", "good.fut", "good.fut"], ["c", "good.fut", "-o", "good.fut", "--executable"],
                 ["c", "good.fut", "--executable", "--server"], ["stub", "good.fut", "-o", "dir"],
                 ["stub", "good.fut", "-o", "nosuch/x"], ["dev", "good.fut", "--graph", "nosuch/x.svg"],
                 ["bench", "good.fut", "-b", "interp", "-r", "1", "--json", "dir"],
                 ["dev", "--fires", "missing"]):  # fmt: skip
        assert refused(futad(*args)), args
    for command in COMMANDS:
        assert refused(futad(command, "--no-such-option"), (2,)), command


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_files_without_permission(futad):
    Path(futad.folder / "good.fut").chmod(0)
    for command in READERS:
        done = futad(command, "good.fut", *MORE.get(command, ()))
        assert refused(done, (1,)) and "Permission denied" in done.err + done.out


def test_the_handler_of_sigterm_is_given_back(futad):
    before = signal.getsignal(signal.SIGTERM)
    assert futad("--version").code == 0 and signal.getsignal(signal.SIGTERM) == before
