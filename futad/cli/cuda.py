"""Write the CUDA C that a program's kernels become, and on the side of the host the Python that launches them.

The text needs no header: `nvcc -arch=sm_90 -cubin OUT` compiles it.  With --host the host code is written instead.

Example: futad cuda gmm.fut -o gmm.cu
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from futad.cli import options

# nvcc says of each name that nothing uses that it does not; generated text has many.
HEAD = """/* nvcc -arch=sm_90 -cubin {name} */
#ifdef __NVCC__
#pragma nv_diag_suppress 177
#endif
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_file(parser)
    options.add_budget(parser)
    parser.add_argument("-o", "--output", metavar="OUT", help="where to write (default: stdout)")
    parser.add_argument("--host", action="store_true", help="write the host code")
    for option in ("--library", "--executable", "--server"):
        parser.add_argument(option, action="store_true", help="not for this backend: the host side is Python")


def run(args: argparse.Namespace) -> int:
    from futad.backend.cuda import DeviceBackend
    from futad.cli.emit import write_file
    from futad.errors import UsageError
    from futad.pipeline import compile_program
    from futad.runtime.kerneltext import expand
    from futad.target import CUDA

    if args.library or args.executable or args.server:
        raise UsageError(
            "the host side of CUDA programs is Python, so there is no library or executable to build",
            hint="`futad run -b cuda` runs a program, `import futad` calls it from Python; "
            "`futad c` and `futad multicore` build libraries, executables and servers",
        )
    made = DeviceBackend(compile_program(options.load_core(args.file, options.budget_of(args)), target=CUDA))
    output = Path(args.output) if args.output else None
    if args.host:
        text = made.host
    else:
        name = output.name if output else "program.cu"
        text = HEAD.format(name=name) + expand(made.source, name=name)
    if output is None:
        sys.stdout.write(text)
    else:
        write_file(output, text)
    return 0
