"""Running compilers, whatever they do, and looking at what they have made.

FUTAD_CC may name anything that runs: a compiler that is broken, waits for ever, floods its output, leaves children
behind that keep it open, or writes nothing and says that all is well.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from futad.errors import BackendError

PATIENCE = 1800  # seconds that a compiler may take
VERSION = 60  # seconds that it may take to say which one it is
SILENCE = 1  # seconds after which a line tells of it
LEFT = 1  # seconds without output after its end: it has left somebody behind who keeps that open
MOST = 1 << 20  # bytes of what it says that are kept


# A shell that runs a command and ends with its status, 128 and the signal's number if it was ended by one.  Once the
# standard input closes, it ends at once, with all that runs in its session; the folder of temporary files goes.
_WATCHED = (
    "/bin/sh", "-c",
    'exec 3<&0; "$@" 3<&- </dev/null & made=$!; '
    '{ read -r nothing; rm -rf -- "$TMPDIR"; kill -9 0; } <&3 >/dev/null 2>&1 & watch=$!; '
    "exec 3<&-; wait $made 2>/dev/null; status=$?; kill $watch; exit $status",
    "futad",
)  # fmt: skip


def run_compiler(command: Sequence[str], work: Path) -> subprocess.CompletedProcess[str]:
    """Runs a compiler; its temporary files are in `work`, its messages in English.

    It ends with this process, however that ends, and the folder goes.  Raises BackendError if it takes longer than
    `PATIENCE`: other processes may wait for what it makes.
    """
    environment = {**os.environ, "TMPDIR": str(work), "LC_ALL": "C"}
    watch = _WATCHED if shutil.which(command[0]) else ()
    ends, ours = os.pipe()  # the system closes the other end with this process
    with os.fdopen(ours, "wb"), os.fdopen(ends, "rb") as told:
        done = _run(command, environment, PATIENCE, SILENCE, watch, told.fileno())
    if done is None:
        raise BackendError(f"the compiler {command[0]} has not finished after {PATIENCE} s, and was stopped")
    return done


def version_of(command: Sequence[str]) -> str | None:
    """What it says of itself; None if it fails or does not answer.  Raises OSError if it cannot be started."""
    done = _run([*command, "--version"], dict(os.environ), VERSION, None)
    return done.stdout if done is not None and done.returncode == 0 else None


def _run(
    command: Sequence[str], environment: dict[str, str], patience: float, silence: float | None,
    by: Sequence[str] = (), told: int = subprocess.DEVNULL,
) -> subprocess.CompletedProcess[str] | None:  # fmt: skip
    """None if it takes longer than `patience`.  After `silence` seconds a line on stderr tells of it.  `by`: what runs
    it, with the standard input `told`."""
    with subprocess.Popen(
        [*by, *command], stdin=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said = _said(process, patience, silence, command)
        except BaseException:
            _stop(process)
            raise
        if said is None:
            _stop(process)
            return None
    out, err = [text.decode(errors="replace") for text in said]
    status = process.returncode
    return subprocess.CompletedProcess(command, 128 - status if by and status > 128 else status, out, err)


def _stop(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)  # the compiler proper is a child of what was started


def _said(
    process: subprocess.Popen[bytes], patience: float, silence: float | None, command: Sequence[str]
) -> list[bytearray] | None:
    """What it writes until it ends; None if it does not."""
    assert process.stdout is not None and process.stderr is not None
    said = {stream.fileno(): bytearray() for stream in (process.stdout, process.stderr)}
    now = began = time.monotonic()
    with selectors.DefaultSelector() as open_ones:
        for stream in said:
            open_ones.register(stream, selectors.EVENT_READ)
        while open_ones.get_map():
            wait = min(LEFT, began + patience - now)
            ready = open_ones.select(max(0, wait if silence is None else min(wait, began + silence - now)))
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if not data:
                    open_ones.unregister(key.fileobj)
                elif len(kept := said[key.fd]) < MOST:
                    kept += data
            now = time.monotonic()
            if silence is not None and now - began > silence:
                silence = None
                if os.environ.get("FUTAD_PROGRESS") != "0":
                    name = short_name(command)
                    print(f"futad: compiling with {name}; the result is kept for the next time", file=sys.stderr)
            elif now - began > patience:
                return None
            elif not ready and process.poll() is not None and silence is None:
                break
    try:
        process.wait(max(0, began + patience - now))
    except subprocess.TimeoutExpired:
        return None
    return list(said.values())


def short_name(command: Sequence[str]) -> str:
    return "zig" if "ziglang" in command else Path(command[0]).name


def unfit(path: Path) -> str:
    """What is wrong with a library or an executable that a compiler has made; "" if nothing is.

    It is looked at before it is kept, and its parts and machine only where files are of the kind that this process is.
    """
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size == 0:
            return "wrote an empty file" if stat.S_ISREG(about.st_mode) else "wrote no file"
        with open(path, "rb") as file:
            head = file.read(64)
    except OSError:
        return "wrote no file"
    own = _head_of_this()
    if own[:4] != b"\x7fELF":
        return ""
    if head[:4] != own[:4] or len(head) < 64:
        return "wrote a file that is no machine code"
    if head[4:6] + head[18:20] != own[4:6] + own[18:20]:
        return "makes code for another machine"
    if int.from_bytes(head[16:18], sys.byteorder) not in (2, 3):  # a program or a library
        return "wrote a file that is not linked"
    if head[4:6] == b"\2\1":  # 64 bits: the table of sections is the file's end
        (at,), (size, count) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HH", head, 58)
        if at + size * count > about.st_size:
            return "wrote a file that is cut off"
    return ""


def _head_of_this() -> bytes:
    try:
        with open(sys.executable, "rb") as file:
            return file.read(64)
    except OSError:
        return b""


__all__ = ["run_compiler", "short_name", "unfit", "version_of"]
