"""What `futad c` and `futad multicore` share: writing the C that a program becomes, and building it."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from futad.cli import options

if TYPE_CHECKING:
    from futad.backend.c import CBackend
    from futad.core.ir import Program


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_file(parser)
    options.add_budget(parser)
    parser.add_argument("-o", "--output", metavar="OUT", help="where to write (default: stdout)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--library",
        action="store_true",
        help="write OUT.c and its header OUT.h (OUT defaults to the program's name)",
    )
    kind.add_argument(
        "--executable",
        action="store_true",
        help="build OUT, which reads values on stdin and writes results (its own --help tells more), and write OUT.c",
    )
    kind.add_argument(
        "--server", action="store_true", help="build OUT, which speaks Futhark's server protocol, and write OUT.c"
    )


def emit(args: argparse.Namespace, multicore: bool) -> int:
    """Write the source; with --library the header too, with --executable and --server what it builds."""
    from futad.backend.c import CBackend
    from futad.errors import UsageError
    from futad.pipeline import compile_program
    from futad.runtime import cc
    from futad.target import MULTICORE, C

    if args.output and not Path(args.output).name:
        raise UsageError(f"-o {args.output} is a folder: name a file")
    if args.executable or args.server:
        return _build(args, multicore)
    target = MULTICORE if multicore else C
    program = compile_program(options.load_core(args.file, options.budget_of(args)), target=target)
    backend = CBackend(program, target)
    if args.library:
        base = Path(args.output) if args.output else Path(Path(args.file).stem)
        base = base.with_suffix("") if base.suffix in (".c", ".h") else base
        source, header = base.with_name(f"{base.name}.c"), base.with_name(f"{base.name}.h")
        text = f"{_build_comment(source, multicore)}{cc.standalone(backend.source)}"
        write_file(source, text)
        write_file(header, header_text(backend, program, base.name))
        return 0
    output = Path(args.output) if args.output else None
    text = f"{_build_comment(output or Path('program.c'), multicore)}{cc.standalone(backend.source)}"
    if output is None:
        sys.stdout.write(text)
    else:
        write_file(output, text)
    return 0


def _build(args: argparse.Namespace, multicore: bool) -> int:
    """Build an executable and write its source beside it."""
    from futad.backend.c import CBackend
    from futad.backend.c_program import program_text
    from futad.errors import UsageError
    from futad.pipeline import compile_program
    from futad.runtime import cc
    from futad.target import MULTICORE, C

    output = Path(args.output) if args.output else Path(Path(args.file).stem)
    if output.suffix in (".c", ".h", ".fut") or output.exists() and not output.is_file():
        raise UsageError(f"-o {output} would be the executable: name one that is no source file, folder or device")
    target = MULTICORE if multicore else C
    program = compile_program(options.load_core(args.file, options.budget_of(args)), target=target)
    if not any(f.entry for f in program.funs.values()):
        raise UsageError(f"{args.file} has no entry (declare one with `entry`)")
    text = program_text(CBackend(program, target), server=args.server)
    source = output.with_name(f"{output.name}.c")
    made = cc.build_program(text, threads=multicore)
    comment = _build_comment(source, multicore, executable=True)
    write_file(source, f"{comment}{cc.standalone(text)}")
    write_file(output, made, executable=True)
    return 0


def _build_comment(source: Path, multicore: bool, executable: bool = False) -> str:
    """The command that builds a shared library, or an executable, from the source."""
    from futad.errors import BackendError
    from futad.runtime import cc

    try:
        compiler = cc.find_compiler()
        flags = cc.compile_flags(threads=multicore, compiler=compiler, once=True)
        command = [*compiler.command, *flags]
    except BackendError:
        command = ["cc", "-std=gnu11", "-O3", *(["-pthread"] if multicore else [])]
    out = source.with_suffix("" if executable else ".so").name
    kind = [] if executable else ["-fPIC", "-shared"]
    line = shlex.join([*command, *kind, source.name, "-o", out, *cc.link_flags()])
    return f"/* {line} */\n"


def header_text(backend: CBackend, program: Program, name: str) -> str:
    """The declarations a caller of the library needs."""
    from futad.runtime.values import entry_text

    layout = backend.layout()
    guard = "FUTAD_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in name).upper() + "_H"
    lines = [
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
        "/* Owns all temporary memory; used by one call at a time. */",
        "struct futad_context;",
        "",
        "/* A scalar's bits in `data`; or an array's address, the slot that owns it (-1: none), its shape. */",
        "struct futad_result {",
        "  void *data;",
        "  int64_t slot;",
        f"  int64_t shape[{layout.max_rank}];",
        "};",
        "",
        "struct futad_context *futad_new(void);",
        "void futad_free(struct futad_context *ctx);",
        "",
        "/* Results are valid until the next call; to keep one longer, take its slot and release it later. */",
        "void *futad_take(struct futad_context *ctx, int64_t slot);",
        "void futad_release(void *data);",
        "",
        "/* Entries return 0, or 1 (index out of bounds), 2 (assertion), 3 (division by zero), 4 (memory).",
        "   args[i] points to a scalar or to an array's elements in row-major order. */",
    ]
    for symbol, f in layout.functions.items():
        entry = program.funs[symbol].entry
        shown = entry_text(entry) if entry is not None else symbol
        names = [v.name for v in program.funs[symbol].body.params]
        pairs = zip(names, f.params, strict=True)
        args = ", ".join(_plain_type(elem.name, rank, name) for name, (_, elem, rank) in pairs)
        results = ", ".join(_plain_type(elem.name, rank, "") for elem, rank in f.results)
        lines += [
            "",
            f"/* {shown}",
            f"   args: {args or 'none'}",
            f"   results: {results or 'none'} */",
            f"int64_t {f.symbol}(struct futad_context *ctx, void **args, struct futad_result *results);",
        ]
    return "\n".join([*lines, "", "#endif", ""])


def _plain_type(elem: str, rank: int, label: str) -> str:
    return ("[]" * rank + elem + (f" {label}" if label else "")).replace("*/", "* /")


def write_file(path: Path, text: bytes | str, executable: bool = False) -> None:
    """Write atomically: whoever reads `path` sees the old file or the whole new one.  Raises FileError.

    A link stays one, and its target is written; what is no regular file (/dev/stdout, a pipe) is written to.
    """
    from futad import cache
    from futad.errors import file_error

    data = text.encode(errors="surrogateescape") if isinstance(text, str) else text  # names of files may be no text
    try:
        real = Path(os.path.realpath(path))
        if real.exists() and not real.is_file() and not real.is_dir():
            real.write_bytes(data)
        else:
            cache.replace_file(real, data, (0o777 if executable else 0o666) & ~_umask())
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as e:
        raise file_error("write", path, e) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
