"""Lock files: one process builds a file while others wait."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from futad import forks
from futad.errors import warn

try:
    import fcntl
except ImportError:  # no POSIX locks here: two processes may both build, and the later rename wins
    fcntl = None  # type: ignore[assignment]


PATIENCE = 60.0  # seconds to wait without a word


class Lock:
    """A lock file, held by one process; the system lets go of it if that dies.  It is removed when it is not needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd: int | None = None
        forks.watch(self)

    def forked(self) -> None:
        """See `futad/forks.py`: the parent's lock would last as long as the child has it open too."""
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
                self._wait(fd)
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

    def _wait(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            timer = threading.Timer(PATIENCE, self._complain)
            timer.daemon = True
            timer.start()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
            finally:
                timer.cancel()

    def _complain(self) -> None:
        text = f"waiting for another process that compiles the same code; it holds {self.path}"
        warn(text)

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


def remove_stale(path: Path) -> None:
    """Remove a lock file that no process holds.  Whoever waits for it finds that out and makes another."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(fd)
