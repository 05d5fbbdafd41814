"""The on-disk cache of compiled code and of what else takes long to make; and folders for temporary files.

A compiled file is `KEY.EXT` with its checksum `KEY.EXT.sum`, in a folder named by the key's first letters; other data
is a file that begins with its checksum (`read`, `write`).  All are renamed into place, so a reader sees whole files;
the checksum, which covers the name too, catches what a full disk or a crash left behind.  A lock file a key lets one
process build while the others wait.

What is in the cache is run.  So the folder, those in it and the files must belong to this user (or to the system's
administrator), and nobody else may write to them: folders are made for the user alone, files of others are passed over,
and a folder that others can write to is not used at all, which a warning says.  A cache that cannot be used is replaced
by private folders that die with the process.

Files are built in a temporary folder, or beside the cache if there is no space for temporary files, and moved then: a
full disk costs the cached file, not the program.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from futad.errors import FileError, FutadWarning
from futad.runtime import forks

try:
    import fcntl
except ImportError:  # no POSIX locks here: two processes may both build, and the later rename wins
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what writing to a disk without space fails with
_SUM = hashlib.sha256().digest_size

_private: dict[Path, Path] = {}  # by the folder they are in
_built: dict[str, Path] = {}  # files in private folders, by name
_warned: set[Path] = set()


# --- folders -----------------------------------------------------------------------------------------------


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
        return _private_dir(Path(tempfile.gettempdir()))


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
        if _is_mine(about) and about.st_mode & 0o022 and not chosen:
            # Of a time when folders were made with the rights that the user's others have.
            path.chmod(about.st_mode & 0o7755)
            about = path.stat()
    except OSError:
        return None
    reason = distrust(about)
    if reason is None:
        return path
    if path not in _warned:
        _warned.add(path)
        remedy = f"chmod go-w {path}" if _is_mine(about) else "name a folder of your own in FUTAD_CACHE_DIR"
        warnings.warn(
            f"the cache folder {path} is not used: {reason}, so what is in it is not safe to run; {remedy}",
            FutadWarning,
            stacklevel=2,
        )
    return None


def distrust(about: os.stat_result) -> str | None:
    """Why a file or folder may have been made or changed by somebody else; None if it cannot have been."""
    if not hasattr(os, "geteuid"):
        return None
    if about.st_uid not in (os.geteuid(), 0):
        return f"it belongs to {_user(about.st_uid)}"
    if about.st_mode & 0o022:
        return "others may write to it"
    return None


def _is_mine(about: os.stat_result) -> bool:
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
            made = Path(tempfile.mkdtemp(prefix=".futad-", dir=root))
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


def _private_dir(root: Path) -> Path:
    """A folder of this process in another one, removed at exit."""
    found = _private.get(root)
    if found is None or not found.is_dir():
        found = _private[root] = Path(tempfile.mkdtemp(prefix=".futad-", dir=root))
        atexit.register(_remove, found, os.getpid())
    return found


def _remove(path: Path, process: int) -> None:
    if process == os.getpid():  # not at the end of a process that was forked from it
        shutil.rmtree(path, ignore_errors=True)


# --- data --------------------------------------------------------------------------------------------------


def digest(*parts: str | bytes) -> str:
    """A key: the SHA-256 of the parts, each preceded by its length so that no two lists run together."""
    h = hashlib.sha256()
    for p in parts:
        raw = p.encode() if isinstance(p, str) else p
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
                return file.read()
            except OSError:
                return None
    if not _is_mine(about) and path not in _warned:
        _warned.add(path)
        warnings.warn(f"{path} in the cache is passed over: {reason}", FutadWarning, stacklevel=2)
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
    lock = _Lock(place / f"{key}.lock")
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
                return place / name
            except OSError:
                pass
        own = _private_dir(temporary.parent) / name  # on the same disk, so that it takes no more space
        os.replace(made, own)
        _built[name] = own
        return own

    return in_temporary_folder(work)


def _valid(place: Path, name: str) -> Path | None:
    data = read_own(place / name)
    total = read_own(place / f"{name}.sum") if data is not None else None
    return place / name if data is not None and total == _checksum(name, data).hex().encode() else None


class _Lock:
    """A lock file, held by one process; the system lets go of it if that dies.  It is removed when it is not needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd: int | None = None
        forks.watch(self)

    def forked(self) -> None:
        """See `forks.py`: the parent's lock would last as long as the child has it open too."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def take(self) -> bool:
        """Wait for the lock; False if there cannot be one."""
        while True:
            fd = -1
            try:
                fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
                self.fd = fd
                if fcntl is None:
                    return True
                fcntl.flock(fd, fcntl.LOCK_EX)
                mine, there = os.fstat(fd), os.stat(self.path)
                if (mine.st_ino, mine.st_dev) == (there.st_ino, there.st_dev):
                    return True
            except FileNotFoundError:
                if fd < 0:
                    return False
            except OSError:
                self.release(remove=False)
                return False
            self.release(remove=False)  # whoever had it removed it

    def release(self, remove: bool = True) -> None:
        fd, self.fd = self.fd, None
        if fd is None:
            return
        if fcntl is not None:
            if remove:
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
            # A child that was forked meanwhile has it open too, so closing would not be enough.
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)

