"""What `futad c` and `futad multicore` share: writing the C that a program becomes."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from futad.cli import options


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_file(parser)
    parser.add_argument("-o", "--output", metavar="OUT", help="where to write (default: stdout)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--library",
        action="store_true",
        help="write OUT.c, OUT.h and the shared library OUT.so (OUT defaults to the program's name)",
    )
    kind.add_argument("--executable", action="store_true", help=argparse.SUPPRESS)


def write_file(path: Path, data: bytes) -> None:
    """Write atomically: whoever reads `path` sees the old file or the whole new one.  Raises FileError."""
    from futad.errors import FileError

    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(data)
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as e:
        raise FileError(f"cannot write {path}: {e.strerror}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def emit(args: argparse.Namespace, multicore: bool) -> int:
    from futad.errors import UsageError

    if args.executable:
        raise UsageError(
            "--executable is not available: the emitted C has no main(); use --library, or `futad run`"
        )
    from futad.backend.c import CBackend
    from futad.pipeline import compile_program
    from futad.runtime import cc
    from futad.source import load_program

    program = compile_program(load_program(args.file))
    backend = CBackend(program, multicore=multicore)
    text = cc.standalone(backend.source).encode()
    if not args.library:
        if args.output:
            write_file(Path(args.output), text)
        else:
            sys.stdout.buffer.write(text)
        return 0
    base = Path(args.output or Path(args.file).stem)
    base = base.with_suffix("") if base.suffix in (".c", ".h", ".so") else base
    write_file(base.with_suffix(".c"), text)
    return 0
