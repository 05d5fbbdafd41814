"""The cache's size: what is in it, and what goes when it outgrows its limit or was left behind.

Only names that the cache itself gives are touched, since FUTAD_CACHE_DIR may be a folder with other things in it; and
thresholds (`tuned/`), which cost measurements, stay until `futad tune --forget`.  To remove a library that a process
has loaded does no harm: its memory keeps the file.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from futad.cache.folders import DAY, PREFIX, is_mine
from futad.cache.locks import remove_stale

LIMIT = 1 << 30
_PAUSE = 3600.0  # between two sweeps
_STAMP = ".swept"
_KEY = re.compile(r"([0-9a-f]{64})(\.[a-z]+){0,2}")
_TABLES = re.compile(r"(grammar|prelude)-[0-9a-f]{24}\.(tables|tree)")
_TEMPORARY = re.compile(r"\.([0-9a-f]{8}|grammar-|prelude-)-\w+")


@dataclass(slots=True)
class Entry:
    """What is kept under one key: its files, their bytes, and when one was last made or used."""

    files: list[str] = field(default_factory=list)
    size: int = 0
    last: float = 0.0


@dataclass(slots=True)
class Contents:
    """What is in the cache: entries by key; locks and processes' temporary files and folders, with their times."""

    entries: dict[str, Entry] = field(default_factory=dict)
    locks: dict[str, float] = field(default_factory=dict)
    temporary: dict[str, float] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(e.size for e in self.entries.values())


def contents(top: Path) -> Contents:
    """What is in the cache folder `top`."""
    found = Contents()
    for item in _scan(top):
        if item.is_dir(follow_symlinks=False):
            if re.fullmatch("[0-9a-f]{2}", item.name):
                for inner in _scan(item):
                    _add(found, inner)
            elif item.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    found.temporary[item.path] = item.stat(follow_symlinks=False).st_mtime
        else:
            _add(found, item)
    return found


def _scan(folder: str | os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as items:
        yield from items


def _add(found: Contents, item: os.DirEntry[str]) -> None:
    with contextlib.suppress(OSError):  # another process may remove it meanwhile
        about = item.stat(follow_symlinks=False)
        if _TEMPORARY.fullmatch(item.name):
            found.temporary[item.path] = about.st_mtime
        elif item.name.endswith(".lock") and _KEY.fullmatch(item.name):
            found.locks[item.path] = about.st_mtime
        elif (m := _KEY.fullmatch(item.name) or _TABLES.fullmatch(item.name)) is not None:
            entry = found.entries.setdefault(m[1] if m.re is _KEY else m[0], Entry())
            entry.files.append(item.path)
            entry.size += about.st_size
            entry.last = max(entry.last, about.st_mtime)


def clear(top: Path) -> Contents:
    """Remove all entries, and what is stale; what there was."""
    return _reduce(top, 0)


def sweep(top: Path) -> Contents:
    """Remove what is stale, and the entries used longest ago, until the others are within the limit."""
    return _reduce(top, LIMIT)


def _reduce(top: Path, limit: int) -> Contents:
    found, now = contents(top), time.time()
    left = found.size
    for entry in sorted(found.entries.values(), key=lambda e: e.last):
        if left <= limit:
            break
        left -= entry.size
        for path in entry.files:
            _remove(path)
    for path, last in found.locks.items():
        if now - last > DAY:
            remove_stale(Path(path))
    for path, last in {**found.temporary, **left_behind()}.items():
        if now - last > DAY:
            _remove(path)
    return found


def left_behind() -> dict[str, float]:
    """Folders of temporary files that this user's processes have made, and those that were killed have left."""
    found: dict[str, float] = {}
    for item in _scan(tempfile.gettempdir()):
        with contextlib.suppress(OSError):
            about = item.stat(follow_symlinks=False)
            if item.name.startswith(PREFIX) and stat.S_ISDIR(about.st_mode) and is_mine(about):
                found[item.path] = about.st_mtime
    return found


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        os.unlink(path)


def sometimes(top: Path) -> None:
    """Sweep if nobody did so within the last hour."""
    stamp = top / _STAMP
    with contextlib.suppress(OSError):
        if stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < _PAUSE:
            return
        stamp.touch(mode=0o600)
        sweep(top)
