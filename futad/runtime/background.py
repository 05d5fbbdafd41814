"""Libraries that a process of its own compiles, one after the other; it goes on if this process ends."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from futad import cache
from futad.errors import Error
from futad.runtime import cc

ROOT = Path(__file__).resolve().parent.parent.parent
END = b"\n"  # the line after the last job
START = "from futad.runtime.background import main; main()"


class Builds:
    """What such a process is to do; it begins at `end`, or when this process ends.  If it fails, or cannot be started,
    nothing is in the cache."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if getattr(sys, "frozen", False):
            return  # a program that is packed together with Python would start itself
        before = os.environ.get("PYTHONPATH")
        path = os.pathsep.join([str(ROOT), before]) if before else str(ROOT)
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-S", "-c", START],  # without packages, which take longer than small programs
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, "PYTHONPATH": path, "FUTAD_PROGRESS": "0"},
            )  # fmt: skip

    def add(self, wanted: cc.Build, *, yields: int = 0, only_here: bool = False) -> None:
        """One more, for which, and for those after it, the process `yields` so much more to others (see `os.nice`).
        `only_here`: it is left out if this process has ended."""
        if self._process is None:
            return
        job = {
            "yields": yields, "waits": os.getpid() if only_here else None,
            "key": wanted.key, "command": wanted.compiler.command, "version": wanted.compiler.version,
            "options": wanted.options, "source": cc.standalone(wanted.source),
        }  # fmt: skip
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """There are no more: it begins."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError), self._process.stdin as jobs:
                jobs.write(END)  # children that this process has forked may keep the pipe open

    def wait(self) -> None:
        """Until one more is built, or will not be."""
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.readline()

    def finish(self) -> None:
        """Until all are, after `end`."""
        if self._process is not None and self._process.stdout is not None:
            with self._process.stdout as told:
                told.read()
            self._process.wait()


def main() -> None:
    """What the process does."""
    for line in list(itertools.takewhile(END.__ne__, sys.stdin.buffer)):
        job = json.loads(line)
        if job["waits"] not in (None, os.getppid()):
            continue
        os.nice(job["yields"])
        compiler = cc.Compiler(tuple(job["command"]), job["version"])
        wanted = cc.Build(job["key"], compiler, job["source"], tuple(job["options"]))
        with contextlib.suppress(Error, OSError):
            cache.fetch(wanted.key, ".so", wanted)
        with contextlib.suppress(OSError):  # nobody is there
            os.write(1, b"\n")


__all__ = ["Builds", "main"]
