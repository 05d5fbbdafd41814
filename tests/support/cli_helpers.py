"""Running the command line in this process or in one of its own."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from futad.cli import main


@dataclass
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


class Runner:
    """Runs `futad ARGS` in this process, in a folder of its own, with text or bytes on stdin."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.capture = capfdbinary
        monkeypatch.chdir(folder)

    def file(self, name: str, text: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    def raw(self, *args: str, stdin: str | bytes = b"") -> tuple[int, bytes, bytes]:
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        self.capture.readouterr()
        code = main(args)
        captured = self.capture.readouterr()
        return code, captured.out, captured.err

    def __call__(self, *args: str, stdin: str | bytes = b"") -> Done:
        code, out, err = self.raw(*args, stdin=stdin)
        return Done(code, out.decode(), err.decode())


def shell(command: str, cwd: Path, **kw: object) -> subprocess.CompletedProcess[str]:
    """A shell command line in which `futad` is this interpreter's."""
    line = command.replace("futad ", f"{sys.executable} -m futad ")
    return subprocess.run(["sh", "-c", line], cwd=cwd, capture_output=True, text=True, timeout=300, **kw)


@contextmanager
def killed_at_the_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """Whatever happens to the test, nothing of the process is left to a later one."""
    try:
        yield
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
