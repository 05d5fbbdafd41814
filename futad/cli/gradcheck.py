"""Compare the derivatives of an entry: reverse mode against forward mode against central differences, and with --engine
dual against reverse mode by dual numbers, which shares no rule with them.

Every component of the Jacobian is compared (of large arguments or results a random sample).  The arguments
are read from --input, or are those of the entry's first test block; without one, or with --seed or --size,
they are random: floats normal, sizes small, integers below every size.  Prints the worst disagreement of
each comparison; the exit status is 1 if one is beyond tolerance.  Where the call comes to an inverse,
`with_inverse f g` or `invert f`, that is compared, too: g (f x) with x, f (invert f y) with y.

Example: futad gradcheck gmm.fut -e objective --seed 3 --size d=2 --size l=3
"""

from __future__ import annotations

import argparse
from pathlib import Path

from futad import checks
from futad.cli import options


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_file(parser)
    options.add_entry(parser)
    options.add_backend(parser)
    options.add_budget(parser)
    parser.add_argument("--engine", choices=["dual"], help="compare with this as well: 'dual' (docs/dual.md)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of random input (default: 1)")
    parser.add_argument("--input", metavar="VALUES", help="a file of values for the entry ('-': stdin)")
    parser.add_argument("--size", metavar="NAME=N", action="append", default=[], help="a size of random input")
    parser.add_argument("--limit", type=int, default=200, metavar="N", help="components sampled at most (default: 200)")


@checks.also(checks.IR)
def run(args: argparse.Namespace) -> int:
    from futad.errors import UsageError
    from futad.runtime.inputs import read_arguments, read_data_file, read_stdin
    from futad.runtime.randomvalues import random_leaves, sizes_given
    from futad.testing import GradientError, compare_jacobians
    from futad.testing.inputs import make_input
    from futad.testing.inverses import compare_inverses

    if (args.seed or 0) < 0 or args.limit < 1:
        raise UsageError("--seed must not be negative, --limit at least 1")
    if args.input is not None and (args.size or args.seed is not None):
        raise UsageError("--size and --seed are for random input, not with --input")
    program = options.load(args.file, args.backend, options.budget_of(args))
    function = options.entry_of(program, args.entry)
    signature = function.signature
    seed = 1 if args.seed is None else args.seed
    if args.input is None:
        from futad.testing.blocks import read_test_file

        cases = [c for c in read_test_file(Path(args.file)).cases if c.entry == args.entry]
        if cases and args.seed is None and not args.size:
            print(f"input of the test block at {cases[0].place}")
            leaves = make_input(program, function, cases[0])[len(signature.size_names) :]
        else:
            leaves = random_leaves(signature, seed, sizes_given(signature, args.size))
    else:
        data = read_stdin() if args.input == "-" else read_data_file(Path(args.input))
        name = "<stdin>" if args.input == "-" else args.input
        leaves = read_arguments(signature, data, name)[len(signature.size_names) :]
    try:
        report = compare_jacobians(function, leaves, seed=seed, limit=args.limit, engine=args.engine or "")
    except GradientError as e:
        print(f"{args.file}: {args.entry}: {e}")
        return 1
    for finding in report.worst.values():
        mark = "ok  " if finding.error <= finding.tolerance else "FAIL"
        print(f"{mark} worst {finding}")
    inverses = compare_inverses(program.core, function, leaves)
    for inverse in inverses:
        print(f"{'FAIL' if inverse.fails else 'ok  '} {inverse}")
    left_out = f", {report.skipped} components left out" if report.skipped else ""
    failures = len(report.failures) + sum(i.fails for i in inverses)
    print(f"{report.compared + len(inverses)} comparisons{left_out}, {failures} beyond tolerance")
    return 1 if failures else 0
