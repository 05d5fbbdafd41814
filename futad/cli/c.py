"""Write the sequential C that a program becomes."""

from __future__ import annotations

import argparse

from futad.cli.emit import arguments, emit

__all__ = ["arguments", "run"]


def run(args: argparse.Namespace) -> int:
    return emit(args, multicore=False)
