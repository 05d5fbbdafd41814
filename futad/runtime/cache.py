"""The on-disk cache of compiled code.

An entry is a file `KEY.EXT` and its checksum `KEY.sum`.  Both are renamed into place, so a reader sees whole
files; the checksum catches what a full disk or a crash left behind.  A lock file a key lets one process build
while the others wait.  A cache that cannot be written is replaced by a private folder that dies with the
process.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # no POSIX locks here: two processes may both build, and the later rename wins
    fcntl = None  # type: ignore[assignment]

_private: Path | None = None


def cache_dir() -> Path:
    """FUTAD_CACHE_DIR, else futad/ under XDG_CACHE_HOME, else ~/.cache/futad.  May not exist."""
    own = os.environ.get("FUTAD_CACHE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    # The specification of XDG_CACHE_HOME says that relative paths are to be ignored.
    if base and os.path.isabs(base):
        return Path(base) / "futad"
    try:
        return Path.home() / ".cache" / "futad"
    except RuntimeError:
        return private_dir()


def private_dir() -> Path:
    """A folder of this process, removed at exit."""
    global _private
    if _private is None or not _private.is_dir():
        _private = Path(tempfile.mkdtemp(prefix="futad-"))
        atexit.register(shutil.rmtree, _private, ignore_errors=True)
    return _private


def digest(*parts: str | bytes) -> str:
    """A key: the SHA-256 of the parts, each preceded by its length so that no two lists run together."""
    h = hashlib.sha256()
    for p in parts:
        raw = p.encode() if isinstance(p, str) else p
        h.update(len(raw).to_bytes(8, "little"))
        h.update(raw)
    return h.hexdigest()


def fetch(key: str, ext: str, build: Callable[[Path], None]) -> Path:
    """The file of `key`, built by `build(path)` (which writes the file at `path`) unless a good one is there.

    Errors of `build` pass through; errors of the cache itself only make it useless.
    """
    folder = cache_dir() / key[:2]
    found = _valid(folder, key, ext)
    if found:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _lock(folder / f"{key}.lock")
        lock.__enter__()
    except OSError:
        return _build_private(key, ext, build)
    try:
        found = _valid(folder, key, ext)
        if found:
            return found
        try:
            work = Path(tempfile.mkdtemp(prefix=f".{key[:8]}-", dir=folder))
        except OSError:
            return _build_private(key, ext, build)
        try:
            return _build_into(folder, work, key, ext, build)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    finally:
        lock.__exit__(None, None, None)


def _valid(folder: Path, key: str, ext: str) -> Path | None:
    path = folder / f"{key}{ext}"
    try:
        expected = (folder / f"{key}.sum").read_text()
        actual = hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return None
    return path if expected == actual else None


def _build_into(folder: Path, work: Path, key: str, ext: str, build: Callable[[Path], None]) -> Path:
    made = work / f"out{ext}"
    build(made)
    try:
        total = work / "sum"
        total.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
        final = folder / f"{key}{ext}"
        os.replace(made, final)
        os.replace(total, folder / f"{key}.sum")
        return final
    except OSError:
        return _build_private(key, ext, build)


def _build_private(key: str, ext: str, build: Callable[[Path], None]) -> Path:
    path = private_dir() / f"{key}{ext}"
    if not path.exists():
        build(path)
    return path


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Holds the lock file; the system lets go of it if the process dies."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
