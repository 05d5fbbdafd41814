"""The cache's folder, whom it belongs to, and folders for temporary files."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from futad.errors import FileError, warn

T = TypeVar("T")

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what writing to a disk without space fails with
DAY = 24 * 3600.0
PREFIX = ".futad-"  # of folders for temporary files

_private: dict[Path, Path] = {}  # by the folder they are in
_warned: set[Path] = set()


def cache_dir() -> Path:
    """FUTAD_CACHE_DIR, else futad/ under XDG_CACHE_HOME, else ~/.cache/futad.  May not exist, nor be fit for use."""
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
        return private_dir(Path(tempfile.gettempdir()))


def folder(inner: str = "") -> Path | None:
    """The cache's folder, or one in it, made if it is not there; None if it cannot be used, and with a warning if that
    is because of what others may do to it."""
    top = cache_dir()
    path = _own_folder(top)
    return path if path is None or not inner else _own_folder(path / inner)


def _own_folder(path: Path) -> Path | None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = path.stat()
        if not stat.S_ISDIR(about.st_mode):
            return None
        chosen = bool(os.environ.get("FUTAD_CACHE_DIR")) and path == cache_dir()
        if is_mine(about) and about.st_mode & 0o022 and not chosen:
            # Of a time when folders were made with the rights that the user's others have.
            path.chmod(about.st_mode & 0o7755)
            about = path.stat()
    except OSError:
        return None
    reason = distrust(about)
    if reason is None:
        return path
    remedy = f"chmod go-w {path}" if is_mine(about) else "name a folder of your own in FUTAD_CACHE_DIR"
    warn_once(path, f"the cache folder {path} is not used: {reason}, so what is in it is not safe to run; {remedy}")
    return None


def warn_once(path: Path, text: str) -> None:
    """A FutadWarning about a file or folder, one in a process."""
    if path not in _warned:
        _warned.add(path)
        warn(text)


def distrust(about: os.stat_result) -> str | None:
    """Why a file or folder may have been made or changed by somebody else; None if it cannot have been."""
    if not hasattr(os, "geteuid"):
        return None
    if about.st_uid not in (os.geteuid(), 0):
        return f"it belongs to {_user(about.st_uid)}"
    if about.st_mode & 0o022:
        return "others may write to it"
    return None


def is_mine(about: os.stat_result) -> bool:
    """Whether a file belongs to this user."""
    return not hasattr(os, "geteuid") or about.st_uid == os.geteuid()


def _user(number: int) -> str:
    try:
        import pwd

        return f"user {pwd.getpwuid(number).pw_name}"
    except (ImportError, KeyError):
        return f"user {number}"


def in_temporary_folder(work: Callable[[Path], T]) -> T:
    """What `work` gives, called with a new folder that is removed afterwards: among temporary files, or if it finds the
    disk full there, in the cache.  Raises FileError if there is no space in either."""
    problem: OSError | None = None
    tried: list[Path] = []
    for root in _roots():
        try:
            made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        except OSError as e:
            problem = problem or e
            tried.append(root)
            continue
        try:
            return work(made)
        except OSError as e:
            if e.errno not in FULL:
                raise
            problem = e
            tried.append(root)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    where = " nor ".join(map(str, tried)) or "any folder"
    why = problem.strerror if problem is not None else "there is no folder for them"
    raise FileError(
        f"temporary files cannot be written, neither in {where}: {why}" if len(tried) > 1
        else f"temporary files cannot be written in {where}: {why}",
        hint="make space there, or name another folder in TMPDIR",
    )  # fmt: skip


def _roots() -> Iterator[Path]:
    seen = set()
    with contextlib.suppress(OSError):
        seen.add(first := Path(tempfile.gettempdir()))
        yield first
    second = folder()
    if second is not None and second not in seen:
        yield second


def private_dir(root: Path) -> Path:
    """A folder of this process in another one, removed at exit."""
    found = _private.get(root)
    if found is None or not found.is_dir():
        found = _private[root] = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        atexit.register(_remove, found, os.getpid())
    return found


def _remove(path: Path, process: int) -> None:
    if process == os.getpid():  # not at the end of a process that was forked from it
        shutil.rmtree(path, ignore_errors=True)
