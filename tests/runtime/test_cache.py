"""The cache: a full disk, folders and files of others, several processes."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from futad import cache
from futad.api.program import compile as compile_program
from futad.backend import aot_cache
from futad.cache import files, folders
from futad.errors import FileError, FutadWarning
from futad.runtime import cc, tuning
from futad.runtime.device import Thresholds
from futad.testing.build import c_backend
from tests.support.disk import fill, small_disk
from tests.support.needs import needs_cc
from tests.support.paths import ROOT

needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
SOMEBODY = 4711  # a user's number
THRESHOLDS = Thresholds(1, 2, 3, 4, 5, 6, 7, 8)


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone, and no library left in memory by another one."""
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cc, "_loaded", {})
    monkeypatch.setattr(folders, "_warned", set())
    monkeypatch.setattr(files, "_built", {})
    return tmp_path / "cache"


def counted(data: bytes = b"made") -> tuple[list[Path], Any]:
    """A builder of a file, and where it was called to write."""
    calls: list[Path] = []

    def build(path: Path) -> None:
        calls.append(path)
        path.write_bytes(data)

    return calls, build


def left_in(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


KEY = "ab" * 32


# --- what is kept ------------------------------------------------------------------------------------------


def test_folders_and_files_are_the_users_own(own: Path) -> None:
    calls, build = counted()
    cache.fetch(KEY, ".so", build)
    cache.write("data", b"text")
    cache.write("ab/data", b"text")
    tuning.store("card", "k", THRESHOLDS, {})
    for path in [own, *own.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    assert left_in(own) == [".swept", f"ab/{KEY}.so", f"ab/{KEY}.so.sum", "ab/data", "data", "tuned/card.json"]
    assert cache.read("data") == cache.read("ab/data") == b"text"


def test_a_file_under_another_name_is_not_taken(own: Path) -> None:
    calls, build = counted()
    other = "cd" * 32
    cache.fetch(KEY, ".so", build)
    for ext in (".so", ".so.sum"):
        (own / "cd").mkdir(mode=0o700, exist_ok=True)
        (own / "ab" / f"{KEY}{ext}").rename(own / "cd" / f"{other}{ext}")
    assert cache.find(other, ".so") is None
    cache.write("one", b"text")
    (own / "one").rename(own / "two")
    assert cache.read("two") is None


def test_damage_is_noticed(own: Path) -> None:
    cache.write("data", b"text")
    raw = (own / "data").read_bytes()
    for damaged in (raw[:-1], raw + b"x", b"", raw[:20]):
        (own / "data").write_bytes(damaged)
        assert cache.read("data") is None


def test_descriptions_are_plain_data(own: Path) -> None:
    """What is kept of a compiled program, through JSON and back."""
    text = """
    type point = {x: f64, y: (i8, bool)}
    type shape = #round f64 | #flat [2]i32
    entry main [n] (k: i64) (p: point) (ps: *[n][k]point) (s: shape): ([]f64, {a: f32, b: [n]shape}) =
      (filter (> 0) (map (\\r -> (assert (n > 1) r[0]).x) ps), {a = 1, b = replicate n s})
    -- | What it does.
    entry at (xs: []u8) (i: i64): u8 = xs[i]
    """
    prog = compile_program(text, "p.fut", backend="interp")
    signatures = {name: (f.symbol, f.signature) for name, f in prog.entries.items()}
    compiled = aot_cache.Compiled(signatures, KEY, c_backend(prog.core).layout())
    again = aot_cache.from_json(json.loads(json.dumps(aot_cache.to_json(compiled))))
    assert again == compiled and type(again.entries["at"][1].witnesses) is frozenset
    for wrong in ('{"": "Path"}', '{"": "Leaf"}', '{"x": 1}', '{"": "prim", "name": "f128"}'):
        with pytest.raises((KeyError, TypeError)):
            aot_cache.from_json(json.loads(wrong))


@needs_cc
def test_what_is_kept_runs_nothing_when_it_is_read(own: Path, tmp_path: Path) -> None:
    """No pickle: one that is put where the description of a program is makes the program be compiled again."""
    import pickle

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "sprung",)

    for body in (pickle.dumps(Trap()), b"null", b"[]", b"{}", b"\xff"):
        cache.write(f"ab/{KEY}.entries", body)
        assert aot_cache.find(KEY) is None
    assert not (tmp_path / "sprung").exists()


# --- others ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o720])
def test_a_folder_that_others_can_write_to(own: Path, mode: int) -> None:
    own.mkdir()
    own.chmod(mode)
    calls, build = counted()
    with pytest.warns(FutadWarning, match=f"the cache folder {own} is not used: others may write to it.*chmod go-w"):
        path = cache.fetch(KEY, ".so", build)
    assert path.read_bytes() == b"made" and own not in path.parents
    assert cache.fetch(KEY, ".so", build) == path and len(calls) == 1, "once a process is enough"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it has been said
        cache.write("data", b"text")
        assert cache.read("data") is None and cache.find(KEY, ".so") is None
        assert tuning.stored("card", "k") is None
    with pytest.raises(FileError, match=f"the cache folder {own} cannot be used"):
        tuning.store("card", "k", THRESHOLDS, {})
    assert left_in(own) == []


def test_a_folder_inside_that_others_could_write_to(own: Path) -> None:
    """Made by an earlier version under a lax umask: closed to others; files that they could write are not taken."""
    calls, build = counted()
    path = cache.fetch(KEY, ".so", build)
    path.parent.chmod(0o775)
    path.chmod(0o775)
    assert cache.find(KEY, ".so") is None
    assert path.parent.stat().st_mode & 0o022 == 0
    assert cache.fetch(KEY, ".so", build) == path and len(calls) == 2
    assert path.stat().st_mode & 0o022 == 0


def test_the_usual_folder_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FUTAD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    place = tmp_path / "xdg" / "futad"
    place.mkdir(parents=True)
    place.chmod(0o775)
    cache.write("data", b"text")
    assert cache.read("data") == b"text" and place.stat().st_mode & 0o777 == 0o755


@needs_root
def test_a_folder_of_somebody_else(own: Path) -> None:
    own.mkdir(mode=0o700)
    os.chown(own, SOMEBODY, -1)
    _, build = counted()
    with pytest.warns(FutadWarning, match=f"belongs to user {SOMEBODY}.*name a folder of your own in FUTAD_CACHE_DIR"):
        assert own not in cache.fetch(KEY, ".so", build).parents
    assert left_in(own) == []


@needs_root
@pytest.mark.parametrize("which", [".so", ".so.sum"])
def test_a_file_of_somebody_else(own: Path, which: str) -> None:
    calls, build = counted()
    path = cache.fetch(KEY, ".so", build)
    os.chown(path.with_name(KEY + which), SOMEBODY, -1)
    with pytest.warns(FutadWarning, match=f"{KEY}{which} in the cache is passed over: it belongs to user {SOMEBODY}"):
        assert cache.fetch(KEY, ".so", build) == path
    assert len(calls) == 2 and path.stat().st_uid == 0, "it is replaced"


@needs_root
def test_thresholds_and_tables_of_somebody_else(own: Path) -> None:
    path = tuning.store("card", "k", THRESHOLDS, {})
    assert tuning.stored("card", "k") == THRESHOLDS
    os.chown(path, SOMEBODY, -1)
    with pytest.warns(FutadWarning, match="card.json in the cache is passed over"):
        assert tuning.stored("card", "k") is None
    cache.write("grammar-x.tables", b"text")
    os.chown(own / "grammar-x.tables", SOMEBODY, -1)
    with pytest.warns(FutadWarning, match="grammar-x.tables in the cache is passed over"):
        assert cache.read("grammar-x.tables") is None


def test_links_are_not_followed(own: Path, tmp_path: Path) -> None:
    cache.write("data", b"text")
    (own / "data").rename(tmp_path / "elsewhere")
    (own / "data").symlink_to(tmp_path / "elsewhere")
    assert cache.read("data") is None
    cache.write("data", b"new")
    assert cache.read("data") == b"new" and not (own / "data").is_symlink()


@pytest.mark.slow
@needs_root
@needs_cc
def test_a_program_of_somebody_else_is_not_run(own: Path, tmp_path: Path) -> None:
    """From the command line, with the library and its description exchanged for another program's."""
    for name, k in (("mine", 2), ("theirs", 3)):
        (tmp_path / f"{name}.fut").write_text(f"entry main (x: i64): i64 = {k} * x\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "futad", "run", f"{name}.fut", "-b", "c"]
        return subprocess.run(command, cwd=tmp_path, env=env, input="7", capture_output=True, text=True, timeout=300)

    assert run("mine").stdout == "14i64\n"
    mine = next(own.rglob("*.so"))
    assert run("theirs").stdout == "21i64\n"
    theirs = next(p for p in own.rglob("*.so") if p != mine)
    mine.write_bytes(theirs.read_bytes())
    mine.with_name(f"{mine.name}.sum").write_text(cache.digest(mine.name, theirs.read_bytes()))
    assert run("mine").stdout == "21i64\n", "that is what would happen"
    for path in (mine, mine.with_name(f"{mine.name}.sum")):
        os.chown(path, SOMEBODY, -1)
    done = run("mine")
    assert done.stdout == "14i64\n" and "is passed over: it belongs to user 4711" in done.stderr


# --- a full disk -------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small") as place:
        yield place


PROGRAM = """
import sys
import futad
prog = futad.compile("entry main (x: f64): f64 = f64.sin x", backend="c")
print(prog.main(0.0))
"""


def python(text: str, folder: Path, **environment: str) -> tuple[int, str, str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("left", [0, 4096, 40_000])
def test_the_cache_is_full(small: Path, tmp_path: Path, left: int) -> None:
    """The program runs all the same, and neither disk has more files than before."""
    fill(small, left)
    (tmp_path / "temporary").mkdir()
    where = {"FUTAD_CACHE_DIR": str(small / "cache"), "TMPDIR": str(tmp_path / "temporary")}
    assert python(PROGRAM, tmp_path, **where) == (0, "0.0\n", "")
    assert left_in(tmp_path / "temporary") == []
    kept = (".so", ".sum", ".tables", ".entries", ".swept")
    assert [n for n in left_in(small) if not n.endswith(kept)] == ["filling"]
    (tmp_path / "p.fut").write_text("entry main (x: i64): i64 = x + 1\n")
    done = subprocess.run([sys.executable, "-m", "futad", "run", "p.fut", "-b", "c"], input="1", capture_output=True,
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), **where}, text=True)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "2i64\n", "")


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("left", [0, 4096])
def test_no_space_for_temporary_files(small: Path, tmp_path: Path, left: int) -> None:
    fill(small, left)
    where = {"FUTAD_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(small)}
    assert python(PROGRAM, tmp_path, **where) == (0, "0.0\n", "")
    assert left_in(small) == ["filling"]
    assert [n for n in left_in(tmp_path / "cache") if not n.endswith((".so", ".sum", ".tables", ".swept"))] == []


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("left", [4096, 20_000])
def test_no_space_at_all(small: Path, tmp_path: Path, left: int) -> None:
    fill(small, left)
    where = {"FUTAD_CACHE_DIR": str(small / "cache"), "TMPDIR": str(small)}
    text = PROGRAM.replace("print(prog.main(0.0))", "try: prog.main(0.0)\nexcept futad.FileError as e: print(e)")
    code, out, err = python(text, small, **where)
    assert (code, err) == (0, "")
    assert out.startswith("error: temporary files cannot be written") and "No space left on device\nhint: make" in out
    assert left_in(small) == ["filling"]


@pytest.mark.slow
@needs_cc
def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    """Which ends the linker by a signal."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, preexec_fn=limit, capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 1 and "FileError: error: temporary files cannot be written" in done.stderr
    assert "File too large" in done.stderr
    assert [n for n in left_in(tmp_path) if not n.startswith("cache/")] == []


def test_a_compiler_that_was_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the system, for lack of memory: no defect of futad."""
    script = tmp_path / "mycc"
    script.write_text("#!/bin/sh\ncase $1 in --version) echo mycc 1;; -O0) ;; *) kill -9 $$;; esac\n")
    script.chmod(0o755)
    monkeypatch.setenv("FUTAD_CC", str(script))
    from futad.errors import BackendError

    with pytest.raises(BackendError, match=f"the C compiler was stopped:\nit ended by signal {signal.SIGKILL}"):
        cc.build_library("int f(void) { return 1; }")


def test_building_again_elsewhere(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A builder that finds the disk full is called with a path on the other one; other errors pass through."""
    places: list[Path] = []

    def build(path: Path) -> None:
        places.append(path.parent)
        if len(places) == 1:
            raise OSError(errno.ENOSPC, "full")
        path.write_bytes(b"made")

    assert cache.fetch(KEY, ".so", build).read_bytes() == b"made"
    assert len(places) == 2 and places[1].parent == own and not any(p.exists() for p in places)

    def wrong(path: Path) -> None:
        raise OSError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        cache.fetch("cd" * 32, ".so", wrong)
    assert [n for n in left_in(own) if n.startswith("cd")] == []


def test_thresholds_on_a_full_disk(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(small / "cache"))
    tuning.store("card", "k", THRESHOLDS, {})
    fill(small, 0)
    with pytest.raises(FileError, match="cannot write .*card.json: No space left on device"):
        tuning.store("card", "other", THRESHOLDS, {"text": "x" * 100_000})
    assert tuning.stored("card", "k") == THRESHOLDS
    assert left_in(small) == ["cache/tuned/card.json", "filling"]


@pytest.mark.slow
def test_a_private_folder_goes_with_the_process_that_made_it(tmp_path: Path) -> None:
    """Not with one that was forked from it."""
    text = """
import os, sys
from pathlib import Path
from futad import cache
path = cache.build_privately("ab" * 32, ".so", lambda p: p.write_bytes(b"x"))
if os.fork() == 0:
    sys.exit(0)
os.wait()
assert path.exists()
print(path)
"""
    code, out, err = python(text, tmp_path, TMPDIR=str(tmp_path))
    assert (code, err) == (0, "") and not Path(out.strip()).parent.exists()
