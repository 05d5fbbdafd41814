"""Show how much compiled code is kept on disk, or remove it.

Without options: the folder, how many things it holds, and their bytes.  The folder is FUTAD_CACHE_DIR, else futad in
XDG_CACHE_HOME, else ~/.cache/futad.  Thresholds of `futad tune` are not counted, and stay (`futad tune --forget`).
"""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--size", action="store_true", help="print the number of bytes alone")
    what.add_argument("--clear", action="store_true", help="remove it; programs are compiled again when they run")


def run(args: argparse.Namespace) -> int:
    from futad import cache
    from futad.cache import sweep
    from futad.errors import FileError

    top = cache.folder()
    if top is None:
        raise FileError(f"the cache folder {cache.cache_dir()} cannot be used")
    found = sweep.clear(top) if args.clear else sweep.contents(top)
    if args.size:
        print(found.size)
    elif args.clear:
        print(f"removed {len(found.entries)} entries, {found.size} bytes, from {top}")
    else:
        print(f"folder   {top}\nentries  {len(found.entries)}\nbytes    {found.size}")
    return 0
