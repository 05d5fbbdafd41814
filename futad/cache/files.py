"""The cache's files: data under a name, compiled files under a key."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from futad.cache.folders import DAY, distrust, folder, in_temporary_folder, is_mine, private_dir, warn_once
from futad.cache.locks import Lock

_SUM = hashlib.sha256().digest_size

_built: dict[str, Path] = {}  # files in private folders, by name


# --- data --------------------------------------------------------------------------------------------------


def digest(*parts: str | bytes) -> str:
    """A key: the SHA-256 of the parts, each preceded by its length so that no two lists run together."""
    h = hashlib.sha256()
    for p in parts:
        raw = p.encode(errors="surrogateescape") if isinstance(p, str) else p  # names of files may be no text
        h.update(len(raw).to_bytes(8, "little"))
        h.update(raw)
    return h.hexdigest()


def _checksum(name: str, data: bytes) -> bytes:
    return bytes.fromhex(digest(name, data))


def read(name: str) -> bytes | None:
    """What `write` has kept under a name (perhaps in a folder of the cache, `ab/name`); None if there is nothing, or
    nothing whole and safe."""
    place, name = _split(name)
    raw = read_own(place / name) if place is not None else None
    return raw[_SUM:] if raw is not None and _checksum(name, raw[_SUM:]) == raw[:_SUM] else None


def write(name: str, data: bytes) -> None:
    """Keep data under a name, if the cache can be written."""
    place, name = _split(name)
    if place is not None:
        with contextlib.suppress(OSError):
            replace_file(place / name, _checksum(name, data) + data)


def _split(name: str) -> tuple[Path | None, str]:
    inner, _, last = name.rpartition("/")
    return folder(inner), last


def read_own(path: Path) -> bytes | None:
    """The bytes of a file that nobody else can have written; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            return None
        reason = distrust(about)
        if reason is None:
            try:
                data = file.read()
                if time.time() - about.st_mtime > DAY:
                    os.utime(fd)  # it is in use: what is not goes first
                return data
            except OSError:
                return None
    if not is_mine(about):
        warn_once(path, f"{path} in the cache is passed over: {reason}")
    return None


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file so that a reader sees the old one or all of the new one.  Raises OSError; nothing is left then."""
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:8]}-")
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


# --- compiled files ----------------------------------------------------------------------------------------


def find(key: str, ext: str) -> Path | None:
    """The file of `key`, if there is a good one."""
    place = folder(key[:2])
    return _valid(place, key + ext) if place is not None else None


def fetch(key: str, ext: str, build: Callable[[Path], None]) -> Path:
    """The file of `key`, built by `build(path)` (which writes the file at `path`) unless a good one is there.

    Errors of `build` pass through; errors of the cache itself only make it useless.  `build` is called again, with
    another path, if it raises an OSError because the disk is full.
    """
    place = folder(key[:2])
    if place is None:
        return build_privately(key, ext, build)
    found = _valid(place, key + ext)
    if found:
        return found
    lock = Lock(place / f"{key}.lock")
    if not lock.take():
        return build_privately(key, ext, build)
    try:
        return _valid(place, key + ext) or _build(key + ext, build, place)
    finally:
        lock.release()


def build_privately(key: str, ext: str, build: Callable[[Path], None]) -> Path:
    """The file of `key`, built in a folder of this process."""
    found = _built.get(key + ext)
    return found if found is not None and found.exists() else _build(key + ext, build, None)


def _build(name: str, build: Callable[[Path], None], place: Path | None) -> Path:
    def work(temporary: Path) -> Path:
        made = temporary / name
        build(made)
        if place is not None:
            try:
                data = made.read_bytes()
                replace_file(place / name, data, 0o700)
                replace_file(place / f"{name}.sum", _checksum(name, data).hex().encode())
                from futad.cache import sweep  # where nothing is built, a start is quicker without

                sweep.sometimes(place.parent)
                return place / name
            except OSError:
                pass
        own = private_dir(temporary.parent) / name  # on the same disk, so that it takes no more space
        os.replace(made, own)
        _built[name] = own
        return own

    return in_temporary_folder(work)


def _valid(place: Path, name: str) -> Path | None:
    data = read_own(place / name)
    total = read_own(place / f"{name}.sum") if data is not None else None
    return place / name if data is not None and total == _checksum(name, data).hex().encode() else None
