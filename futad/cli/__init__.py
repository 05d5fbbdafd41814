"""The command `futad`.  Each subcommand is a module with `arguments(parser)` and `run(args) -> exit code`.

Modules are imported only when their subcommand runs, so that `futad --help` is quick.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

COMMANDS: dict[str, str] = {
    "check": "parse and type-check a program",
    "run": "run an entry on values from stdin",
    "test": "run the test blocks of programs",
    "bench": "time the data sets of the test blocks",
    "gradcheck": "compare reverse mode, forward mode and central differences",
    "explain": "explain the code of an error message",
    "stub": "write the types of a program's entries for editors and type checkers",
    "dev": "show the IR after any pass, pass times and rule hits",
    "dataset": "generate random values in Futhark's formats",
    "tune": "measure thresholds for this machine's GPU",
    "cache": "show how much compiled code is kept on disk, or remove it",
    "gradbench": "answer messages of the benchmark suite GradBench",
    "c": "write the C that a program becomes",
    "multicore": "write the C for several threads that a program becomes",
    "cuda": "write the CUDA C that a program becomes",
}

_EPILOG = """\
Exit status: 0 all went well; 1 the program, its input or its tests failed; 2 wrong usage.
`futad SUBCOMMAND --help` documents each."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status and prints errors on stderr."""
    args = list(sys.argv[1:] if argv is None else argv)
    _replace_closed()
    _replace_careless()
    before = _listen()
    try:
        status = _dispatch(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _drop_output()  # whoever read it has gone
        return 141
    except OSError as e:
        return _output_failed(e)
    except KeyboardInterrupt as e:
        print(f"futad: {'terminated' if isinstance(e, Terminated) else 'interrupted'}", file=sys.stderr)
        return 143 if isinstance(e, Terminated) else 130
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as which it goes through the same places as an interrupt: the C compiler is stopped, and temporary
    files are removed."""


def _listen() -> Any:
    """Has SIGTERM raise Terminated; what it did before.  None where somebody else listens already."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return None

    def terminated(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
        raise Terminated

    return signal.signal(signal.SIGTERM, terminated)


def _output_failed(e: OSError) -> int:
    print(f"error: output: {e.strerror or e}", file=sys.stderr)
    _drop_output()
    return 1


def _drop_output() -> None:
    """What is still to be written goes nowhere: Python would complain again when it flushes."""
    _to_nowhere(sys.stdout.fileno())


def _to_nowhere(number: int) -> None:
    opened = os.open(os.devnull, os.O_WRONLY)
    os.dup2(opened, number)
    os.close(opened)


class _Messages(io.TextIOWrapper):
    """Messages: where they cannot be written all else goes on as if they were."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            _to_nowhere(self.fileno())
            return len(text)


def _replace_careless() -> None:
    """Python's standard files, where they are still those that it began with.  With PYTHONUNBUFFERED it would take no
    notice if a disk has room for a part of the output alone; and it would fail for a message that nobody can read."""
    out, messages = sys.__stdout__, sys.__stderr__
    if out is not None and sys.stdout is out and isinstance(out.buffer, io.RawIOBase):
        whole = open(out.fileno(), "w", encoding=out.encoding, errors=out.errors, closefd=False)
        whole.reconfigure(line_buffering=True)
        sys.stdout = whole
    if messages is not None and sys.stderr is messages:
        raw = io.FileIO(messages.fileno(), "w", closefd=False)
        sys.stderr = _Messages(io.BufferedWriter(raw), messages.encoding, messages.errors, line_buffering=True)


def _replace_closed() -> None:
    """Standard files that whoever started us has closed.  Their numbers are taken, so that no other file gets them; to
    read the one and to write the others fails as if they were closed, but for messages, which nobody would see."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))


def _dispatch(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        print(_usage(), file=sys.stdout if args else sys.stderr)
        return 0 if args else 2
    if args[0] in ("-V", "--version"):
        from futad import __version__

        print(f"futad {__version__}")
        return 0
    if args[0] not in COMMANDS:
        from difflib import get_close_matches

        near = get_close_matches(args[0], COMMANDS, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else f"; there are: {', '.join(COMMANDS)}"
        print(f"error: no subcommand is called '{args[0]}'{hint}", file=sys.stderr)
        return 2
    return _run_command(args[0], args[1:])


def _run_command(name: str, rest: list[str]) -> int:
    import argparse
    from importlib import import_module

    class Parser(argparse.ArgumentParser):
        def _print_message(self, message: str, file: Any = None) -> None:
            (file or sys.stderr).write(message)  # argparse itself would take no notice of errors

    module = import_module(f"futad.cli.{name}")
    parser = Parser(
        prog=f"futad {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.arguments(parser)
    try:
        parsed = parser.parse_args(rest)
    except SystemExit as e:
        return int(e.code or 0)
    return guarded(lambda: module.run(parsed))


def guarded(action: object) -> int:
    """Run `action()`; errors become a message on stderr and an exit status."""
    import warnings

    from futad.errors import Error, InternalError

    def show(message: object, *rest: object, **options: object) -> None:
        print(f"warning: {message}", file=sys.stderr)

    before = warnings.showwarning
    warnings.showwarning = show
    try:
        assert callable(action)
        return int(action())
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except InternalError as e:
        return _internal(e, str(e))
    except Error as e:
        print(e, file=sys.stderr)
        return e.exit_code
    except MemoryError:
        print("error: out of memory", file=sys.stderr)
        return 1
    except OSError as e:
        if e.filename is None:
            return _output_failed(e)
        print(f"error: {e.filename}: {e.strerror or e}", file=sys.stderr)
        return 1
    except RecursionError:
        print("error: the program or its input is nested too deeply", file=sys.stderr)
        return 1
    except Exception as e:
        return _internal(e, f"{type(e).__name__}: {e}")
    finally:
        warnings.showwarning = before


def _internal(error: BaseException, text: str) -> int:
    if os.environ.get("FUTAD_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    print(
        f"futad: internal error: {text.removeprefix('error: ')}\n"
        "This is a defect of futad. Please report it with the program and its input; "
        "FUTAD_DEBUG=1 shows where it happened.",
        file=sys.stderr,
    )
    return 1


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: futad SUBCOMMAND ...",
            "",
            "Compiles and differentiates array programs in Futhark's language.",
            "",
            *lines,
            "",
            _EPILOG,
        ]
    )
