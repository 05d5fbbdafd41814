"""The cache's size: what goes when it outgrows its limit, what stays, and `futad cache`."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from futad import cache
from futad.cache import sweep
from futad.cli import main
from futad.runtime import tuning
from futad.runtime.device import Thresholds

DAY = sweep.DAY
KEYS = [f"{i:02x}" * 32 for i in range(6)]


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone, in which nothing is ever swept but by the test."""
    place = tmp_path / "cache"
    monkeypatch.setenv("FUTAD_CACHE_DIR", str(place))
    place.mkdir(mode=0o700)
    (place / ".swept").touch()
    return place


def keep(key: str, size: int, days: float) -> Path:
    """A compiled file of that size, not used for so many days."""
    path = cache.fetch(key, ".so", lambda out: out.write_bytes(bytes(size)) and None)
    for file in path.parent.glob(f"{key}*"):
        age(file, days)
    return path


def age(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then), follow_symlinks=False)


def names(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_the_entries_used_longest_ago_go(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [keep(key, 1000, days) for key, days in zip(KEYS, (5, 3, 9, 1, 4, 2), strict=True)]
    monkeypatch.setattr(sweep, "LIMIT", 3 * (1000 + 64))
    before = sweep.sweep(own)
    assert len(before.entries) == 6 and before.size == 6 * (1000 + 64)
    assert [p.exists() for p in paths] == [False, True, False, True, False, True]
    assert not [n for n in names(own) if n.endswith(".sum") and KEYS[0] in n], "with its checksum"
    assert cache.fetch(KEYS[1], ".so", lambda out: pytest.fail("it is there")) == paths[1]
    sweep.sweep(own)
    assert sweep.contents(own).size == 3 * (1000 + 64), "within the limit nothing goes"


def test_what_is_used_stays(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEYS[:3]:
        keep(key, 1000, 3)
    assert cache.find(KEYS[0], ".so") is not None
    monkeypatch.setattr(sweep, "LIMIT", 2000)
    sweep.sweep(own)
    assert list(sweep.contents(own).entries) == [KEYS[0]]


def test_only_what_the_cache_made_goes(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FUTAD_CACHE_DIR may be a folder with other things in it."""
    keep(KEYS[0], 1000, 400)
    tuning.store("card", "k", Thresholds(1, 2, 3, 4, 5, 6, 7, 8), {})
    others = ["notes.txt", f"{KEYS[1]}x", "00/thesis.tex", "src/main.c", "0000/a.so", ".profile", "12/.hidden-file"]
    for name in others:
        (own / name).parent.mkdir(exist_ok=True)
        (own / name).write_text("mine")
        age(own / name, 400)
    (own / "11").symlink_to(own / "src")
    sweep.clear(own)
    assert names(own) == {*others, "tuned/card.json", ".swept"}


def test_what_was_left_behind_goes_after_a_day(own: Path) -> None:
    path = keep(KEYS[0], 10, 0)
    for days, mark in ((0.5, "new"), (1.5, "old")):
        folder = own / f".futad-{mark}"
        folder.mkdir()
        (folder / "program.c").write_text("int x;")
        for file in (path.with_name(f".{KEYS[0][:8]}-{mark}"), path.with_name(f"{KEYS[days > 1]}.lock")):
            file.touch()
            age(file, days)
        age(folder, days)
    held = path.with_name(f"{KEYS[2]}.lock")
    held.touch()
    age(held, 3)
    with held.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sweep.sweep(own)
    kept = {KEYS[0] + ".so", KEYS[0] + ".so.sum", f".{KEYS[0][:8]}-new", f"{KEYS[0]}.lock", f"{KEYS[2]}.lock"}
    assert names(own) == {f"00/{name}" for name in kept} | {".swept", ".futad-new/program.c"}


def test_what_killed_processes_left_among_temporary_files(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, days in ((".futad-old", 1.5), (".futad-new", 0.5), ("others", 9), (".futad-link", 9)):
        if name.endswith("link"):
            (tmp_path / name).symlink_to(tmp_path / "others")
        else:
            (tmp_path / name).mkdir()
            (tmp_path / name / "program.c").write_text("int x;")
        age(tmp_path / name, days)
    (tmp_path / ".futad-file").write_text("")
    age(tmp_path / ".futad-file", 9)
    sweep.sweep(own)
    assert {p.name for p in tmp_path.iterdir()} == {".futad-new", ".futad-link", ".futad-file", "others", "cache"}


def test_it_is_swept_once_an_hour_when_something_is_built(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "LIMIT", 2500)
    for i, key in enumerate(KEYS[:4]):
        keep(key, 1000, 9 - i)
    assert len(sweep.contents(own).entries) == 4
    age(own / ".swept", 0.1)
    keep(KEYS[4], 1000, 0)
    assert set(sweep.contents(own).entries) == {*KEYS[3:5]}
    assert time.time() - (own / ".swept").stat().st_mtime < 60
    (own / ".swept").unlink()
    keep(KEYS[5], 1000, 0)
    assert set(sweep.contents(own).entries) == {*KEYS[4:6]} and (own / ".swept").exists()


@pytest.mark.slow
def test_a_builder_that_waits_for_a_lock_that_is_swept(own: Path) -> None:
    """It notices that the file it waited for is gone, and makes another."""
    place = own / "00"
    place.mkdir(mode=0o700)
    lock = place / f"{KEYS[0]}.lock"
    lock.touch()
    with lock.open() as held, ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        made = pool.submit(keep, KEYS[0], 10, 0)
        time.sleep(0.2)
        assert not made.done()
        lock.unlink()
        fcntl.flock(held, fcntl.LOCK_UN)
        assert made.result(timeout=300).exists()
    assert not lock.exists()


def test_who_waits_long_says_so(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from futad.cache import locks

    monkeypatch.setattr(locks, "PATIENCE", 0.1)
    said = threading.Event()
    monkeypatch.setattr(locks, "warn", lambda text: (texts.append(text), said.set()))
    texts: list[str] = []
    place = own / "00"
    place.mkdir(mode=0o700)
    path = place / f"{KEYS[0]}.lock"
    with path.open("w") as held, ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        made = pool.submit(keep, KEYS[0], 10, 0)
        assert said.wait(300) and not made.done()
        path.unlink()
        fcntl.flock(held, fcntl.LOCK_UN)
        assert made.result(timeout=300).exists()
    assert texts == [f"waiting for another process that compiles the same code; it holds {path}"]


def test_the_command(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(KEYS[0], 1000, 0)
    cache.write(f"01/{KEYS[1]}.entries", b"{}")
    size = 1000 + 64 + 2 + 32
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"folder   {own}\nentries  2\nbytes    {size}\n"
    assert main(["cache", "--size"]) == 0
    assert capsys.readouterr().out == f"{size}\n"
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == f"removed 2 entries, {size} bytes, from {own}\n"
    assert main(["cache", "--size"]) == 0 and capsys.readouterr().out == "0\n"
    assert main(["cache", "--size", "--clear"]) == 2
    capsys.readouterr()
    own.chmod(0o777)
    assert main(["cache"]) == 1
    err = capsys.readouterr().err
    assert f"warning: the cache folder {own} is not used" in err and "cannot be used" in err
