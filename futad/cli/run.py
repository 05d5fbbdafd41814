"""Run an entry: values on stdin in Futhark's text or binary format, results on stdout, one a line.

A tuple or record argument is given as one value per component, an array of tuples as one array per component.

Example: echo '[1.0, 2.0, 3.0]' | futad run sum.fut
"""

from __future__ import annotations

import argparse
import sys

from futad.cli import options


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_file(parser)
    options.add_entry(parser)
    options.add_backend(parser)
    parser.add_argument("-B", "--binary", action="store_true", help="write results in binary format")


def run(args: argparse.Namespace) -> int:
    from futad.runtime.inputs import read_arguments, write_results

    program = options.load(args.file, args.backend)
    function = options.entry_of(program, args.entry)
    signature = function.signature
    data = sys.stdin.buffer.read() if signature.params else b""
    flat = read_arguments(signature, data, "<stdin>")
    results = function.unit.executor().run(function.core_name, flat)
    write_results(signature.visible(results), sys.stdout.buffer, args.binary)
    sys.stdout.buffer.flush()
    return 0
