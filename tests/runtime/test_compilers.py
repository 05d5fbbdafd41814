"""FUTAD_CC names anything that runs: whatever it does, an error that names it, nothing in the cache, nobody left."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import futad
from futad.errors import BackendError, FutadWarning
from futad.runtime import cc, compiler_runs
from tests.support.needs import needs_cc
from tests.support.paths import ROOT

SOURCE = "int answer(int x) { return x + 41; }\n"
PROGRAM = "entry main (x: i64): i64 = x + 1"
GCC = shutil.which(cc.find_compiler().command[0]) if cc.compiler_available() else "cc"
ANSWER = '[ "$1" = --version ] && { echo mycc 1; exit; }\n'
OUT = 'for a; do [ "$o" ] && out=$a; o=; [ "$a" = -o ] && o=1; done\n'  # what is to be written


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a folder of temporary files of this test alone."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(cc, "_loaded", {})
    cc._find.cache_clear()
    return tmp_path


def left(own: Path) -> list[str]:
    """Files and folders that are left, but for the stamp of the cache, when builds in the background are done, too."""
    until = time.monotonic() + 60
    while True:
        found = [p for top in ("cache", "tmp") for p in (own / top).rglob("*") if p.is_file() or p.name[:6] == ".futad"]
        names = [p.name for p in found if p.name != ".swept" and not p.name.endswith(".tables")]
        if not names or time.monotonic() > until:
            return names
        time.sleep(0.05)


def script(folder: Path, text: str, name: str = "mycc") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# What it does where it is to compile, and what is said of it.
WRITES = {
    "nothing": ("exit 0", "it wrote no file"),
    "nothing, and warns": ("echo careful >&2", "it wrote no file:\ncareful"),
    "an empty file": (': > "$out"', "it wrote an empty file"),
    "text": ('echo no code > "$out"', "it wrote a file that is no machine code"),
    "a folder": ('mkdir "$out"', "it wrote no file"),
    "a link to nothing": ('ln -s /no/where "$out"', "it wrote no file"),
    "a pipe": ('mkfifo "$out"', "it wrote no file"),
    "no file, and removes its folder": ('rm -rf "$TMPDIR"; exit 1', "it left a folder in which .*No such file"),
    "nothing, without a word": ("exit 3", "it ended with status 3"),
    "nothing, as it was killed": ("kill -9 $$", "it ended by signal 9"),
    "no words but bytes": (r"printf '\377\376\000' >&2; exit 1", ""),
}
COMPILES = {
    "a file that is cut off": (f'{GCC} "$@"; head -c 9000 "$out" > "$out.x"; mv "$out.x" "$out"', "that is cut off"),
    "for another machine": (
        f"{GCC} \"$@\"; printf '\\363\\001' | dd of=\"$out\" bs=1 seek=18 conv=notrunc 2>/dev/null",
        "makes code for another machine",
    ),
    "an object": (f'{GCC} -c -w -xc -o "$out" - < /dev/null', "a file that is not linked"),
}


@pytest.mark.parametrize("what", [*WRITES, *[pytest.param(w, marks=[needs_cc, pytest.mark.slow]) for w in COMPILES]])
def test_what_it_writes(own: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    text, said = (WRITES | COMPILES)[what]
    path = script(own, ANSWER + OUT + text)
    for variable, build in (
        ("FUTAD_CC", lambda: cc.build_library(SOURCE)),
        ("FUTAD_CC", lambda: cc.build_program(SOURCE + "int main(void) { return 0; }")),
        ("FUTAD_CXX", lambda: cc.build_cxx(SOURCE)),
    ):
        if variable == "FUTAD_CXX" and "removes" in what:
            continue
        monkeypatch.setenv(variable, str(path))
        with pytest.raises(BackendError, match=f"(?s)compiler {path} does not work:.*{said}"):
            build()
    assert left(own) == []


@needs_cc
def test_a_library_of_something_else(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = f'echo "int other;" | {GCC} -shared -fPIC -xc -o "$out" -'
    monkeypatch.setenv("FUTAD_CC", str(script(own, ANSWER + OUT + other)))
    with pytest.raises(BackendError, match="the C compiler does not work: .*undefined symbol"):
        futad.compile(PROGRAM, backend="c").main(1)


@needs_cc
def test_what_it_says_beside(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings, much of them, no answer to --version, a read from the standard input: all is well."""
    chatty = f'cat; echo warning >&2; [ "$1" = --version ] && exit; head -c 3000000 /dev/zero; exec {GCC} "$@"'
    monkeypatch.setenv("FUTAD_CC", str(script(own, chatty)))
    assert cc.build_library(SOURCE).answer(1) == 42


@pytest.mark.parametrize("value", ["true", "echo", "/bin/true -x", "true '"])
def test_commands_that_are_no_compilers(own: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """By the backend `c` an error; by `auto` a warning, and the interpreter, also with a quick build first."""
    monkeypatch.delenv("FUTAD_QUICK")
    monkeypatch.setenv("FUTAD_CC", value)
    program = futad.compile(PROGRAM, backend="c")
    said = "wrote no file" if "'" not in value else "No closing quotation"
    with pytest.raises(BackendError, match=said):
        program.main(1)
    with pytest.warns(FutadWarning) as warned:
        assert futad.compile(PROGRAM).main(1) == 2
        for thread in threading.enumerate():
            if thread.name == "futad-build":
                thread.join(100)
    [text] = [str(w.message) for w in warned]
    assert "running on the slow interpreter: " in text and said in text
    assert left(own) == []


def test_values_that_name_no_compiler(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "plain").write_text("#!/bin/sh\nexit 0\n")
    (own / "loop").symlink_to(own / "loop")
    for name, data in (("bytes", os.urandom(64)), ("empty", b""), ("lost", b"#!/no/such/shell\n")):
        (own / name).write_bytes(data)
        (own / name).chmod(0o755)
    script(own, "exit 1", "fails")
    script(own, "kill -9 $$", "dies")
    for name in ("plain", "loop", "bytes", "lost", "fails", "dies", "", "missing", "x" * 5000, "a\nb"):
        value = str(own / name)
        monkeypatch.setenv("FUTAD_CC", value)
        with pytest.raises(BackendError, match="FUTAD_CC is .*, which is not a C compiler that runs"):
            cc.build_library(SOURCE)
    for value, said in (("'", "No closing"), ("''", "not a C compiler that runs"), ("~/cc", "not a C compiler")):
        monkeypatch.setenv("FUTAD_CC", value)
        with pytest.raises(BackendError, match=f"FUTAD_CC is .*{said}"):
            cc.build_library(SOURCE)
    monkeypatch.delenv("FUTAD_CC")
    monkeypatch.setenv("FUTAD_CFLAGS", "-DX='")
    for backend in ("c", "multicore"):
        with pytest.raises(BackendError, match="FUTAD_CFLAGS is .*No closing quotation"):
            futad.compile(PROGRAM, backend=backend).main(1)


@needs_cc
@pytest.mark.parametrize("value", ["{0}/my tools/mycc", "'{0}/my tools/mycc' -DX=1", "{0}/my\\ tools/mycc"])
def test_paths_with_spaces(own: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    path = script(own, f'exec {GCC} "$@"', "my tools/mycc")
    monkeypatch.setenv("FUTAD_CC", value.format(own))
    assert cc.build_library(SOURCE).answer(1) == 42
    assert cc.find_compiler().command[0] == str(path)
    assert cc.compiler_file().startswith(str(path)), "programs that are kept are those of this compiler"


def test_who_waits_for_ever_is_stopped(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the children it waits for; where it was to say its version, and where it was to compile."""
    for variable in ("VERSION", "PATIENCE"):
        monkeypatch.setattr(compiler_runs, variable, 0.5)
    waits = f"sleep 300 & echo $! >> {own}/children; wait"
    for text, said in ((waits, "is not a C compiler that runs"), (ANSWER + waits, "has not finished after 0.5 s"),
                       (ANSWER + "while :; do echo much; done", "has not finished after 0.5 s")):  # fmt: skip
        monkeypatch.setenv("FUTAD_CC", str(script(own, text)))
        cc._find.cache_clear()
        with pytest.raises(BackendError, match=said):
            cc.build_library(SOURCE)
    for child in (own / "children").read_text().split():
        with open(f"/proc/{child}/stat") if Path(f"/proc/{child}").exists() else open(os.devnull) as state:
            assert state.read().rpartition(")")[2].split()[:1] in ([], ["Z"])
    assert left(own) == []


@needs_cc
def test_who_leaves_somebody_behind_is_not_waited_for(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that a compiler starts keeps its standard output open."""
    monkeypatch.setattr(compiler_runs, "PATIENCE", 60)
    for variable in ("LEFT", "SILENCE"):
        monkeypatch.setattr(compiler_runs, variable, 0.1)
    text = f'{ANSWER}sleep 30 & echo $! > {own}/server; exec {GCC} "$@"'
    monkeypatch.setenv("FUTAD_CC", str(script(own, text)))
    assert cc.build_library(SOURCE).answer(1) == 42
    os.kill(int((own / "server").read_text()), 9)  # it is there: nobody has waited until it ended


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["run p.fut -b c", "test p.fut -b c", "c p.fut --executable", "multicore p.fut --server", "bench p.fut -b c"],
)
def test_commands(own: Path, command: str) -> None:
    (own / "p.fut").write_text(f"-- ==\n-- input {{ 1i64 }} output {{ 2i64 }}\n{PROGRAM}\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "FUTAD_CC": "true", "TMPDIR": str(own / "tmp")}
    done = subprocess.run([sys.executable, "-m", "futad", *command.split()], cwd=own, env=env, input="1", text=True,
                          capture_output=True, timeout=100)  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "the C compiler true does not work: it wrote no file" in done.stderr + done.stdout
    assert left(own) == []
    assert sorted(p.name for p in own.iterdir()) in (["p.fut", "tmp"], ["cache", "p.fut", "tmp"])


def test_what_is_fit(own: Path) -> None:
    """This Python is, and what the compiler has made."""
    assert compiler_runs.unfit(Path(sys.executable)) == ""
    assert stat.S_ISREG(os.stat(sys.executable).st_mode)
    if cc.compiler_available():
        assert compiler_runs.unfit(Path(cc.build_library(SOURCE)._name)) == ""
