"""Write the C for several threads that a program becomes, or build it: a library, an executable, a server.

The C needs no header; its first line is a comment with the command that builds it.

Example: futad multicore sum.fut --executable -o sum; echo '[1.0, 2.0]' | ./sum
"""

from __future__ import annotations

import argparse

from futad.cli.emit import arguments, emit

__all__ = ["arguments", "run"]


def run(args: argparse.Namespace) -> int:
    return emit(args, multicore=True)
