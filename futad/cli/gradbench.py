"""A tool of GradBench (github.com/gradbench/gradbench): JSON messages on stdin, responses on stdout, one a line.

Knows all modules of the suite: hello, gmm, ba, ht, lstm, kmeans, llsq, lse, det, ode, particle, saddle.  Ends when
stdin does; a message that cannot be answered gets a response that says why.

Example: gradbench run --eval "gradbench eval hello" --tool "futad gradbench"
"""

from __future__ import annotations

import argparse
import io
import sys

from futad.cli import options


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_backend(parser)


def run(args: argparse.Namespace) -> int:
    from futad.gradbench.protocol import Tool

    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # what is no text is no message either
    Tool(args.backend).serve(sys.stdin, sys.stdout)
    return 0
