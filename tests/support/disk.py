"""A disk with little space."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of its own at `place`, with 512 KiB, which `fill` takes; skips where none can be mounted."""
    place.mkdir()
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], capture_output=True)
    except FileNotFoundError:
        pytest.skip("no mount")
    if done.returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, left: int) -> None:
    """Leaves so many bytes of space."""
    (place / "filling").unlink(missing_ok=True)
    about = os.statvfs(place)
    (place / "filling").write_bytes(bytes(max(0, about.f_bavail * about.f_frsize - left)))
