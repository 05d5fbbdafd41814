"""Write random values in Futhark's text format (or, with -b, the binary one) on stdout, one a line.

Integers are drawn from their whole type and floats from [0, 1), unless bounds are given.  Without -g, values
are read from stdin, text or binary, and written in the format asked for.

Example: futad dataset --seed 7 --i64-bounds 0:9 -g [4][2]f64 [4]i64
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

_PRIMS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64")


class _Ordered(argparse.Action):
    """Options whose order counts: collected as (option, value)."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option: str | None = None,
    ) -> None:
        assert values is not None
        items = [values] if isinstance(values, str) else list(values)
        namespace.ordered = [*namespace.ordered, *[(self.dest, v) for v in items]]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(ordered=[])
    parser.add_argument(
        "-g", "--generate", nargs="+", metavar="TYPE", action=_Ordered, help="such as i32 or [10][2]f64"
    )
    parser.add_argument("-b", "--binary", action="store_true", help="write in binary format")
    parser.add_argument("-s", "--seed", type=int, default=1, metavar="N", help="seed (default: 1)")
    parser.add_argument("-t", "--type", action="store_true", help="write the values' types instead")
    for name in _PRIMS:
        parser.add_argument(
            f"--{name}-bounds",
            dest=name,
            metavar="MIN:MAX",
            action=_Ordered,
            help=argparse.SUPPRESS
            if name != "i32"
            else "bounds (inclusive) for the types that follow; likewise for every other type",
        )


def run(args: argparse.Namespace) -> int:
    import numpy as np

    from futad.core.types import PRIMS
    from futad.errors import UsageError
    from futad.runtime.inputs import read_stdin, write_results
    from futad.runtime.randomvalues import parse_bounds, parse_type, random_value
    from futad.runtime.textvalues import Reader

    if args.seed < 0:
        raise UsageError("the seed must not be negative")
    rng = np.random.default_rng(args.seed)
    bounds: dict[str, tuple[float, float]] = {}
    generated = False
    out = sys.stdout.buffer
    values: list[Any] = []
    for option, text in args.ordered:
        if option != "generate":
            bounds[option] = parse_bounds(PRIMS[option], text)
            continue
        generated = True
        prim, dims = parse_type(text)
        values.append(random_value(rng, prim, dims, bounds.get(prim.name)))
    if not generated:
        values = [v.own_array() if v.shape else v.own_array()[()] for v in Reader(read_stdin(), "<stdin>").all()]
    if args.type:
        for v in values:
            name = next(p.name for p in PRIMS.values() if p.dtype == v.dtype)
            out.write(("".join(f"[{d}]" for d in np.shape(v)) + name + "\n").encode())
    else:
        write_results(values, out, args.binary)
    out.flush()
    return 0
