"""Checks the compiler's own rules: `python -m futad.testing.rules [--cases N] [--seed N] [NAME...]`.

A line a rule: how many programs it applied in, what it does not keep, or a counterexample.  All but what they say is
compared to the last bit.  Exit 1 if there is a counterexample, or a rule that never applied.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from futad.rewrite.rules.hot import HOT_SUMS
from futad.rewrite.rules.hot_bins import HOT_BINS, HOT_ENTER
from futad.rewrite.rules.shipped import ENTER, LEAVE
from futad.rewrite.strategy import Rule
from futad.testing.rules.soundness import Report, check_rule


def own_rules() -> list[Rule]:
    """The rules of the simplifier and of the pass one-hot, each once."""
    return list({r.name: r for r in (*ENTER, *LEAVE, *HOT_ENTER, *HOT_SUMS, *HOT_BINS)}.values())


def line(r: Rule, report: Report, seconds: float) -> str:
    """What the check of a rule found."""
    if not report.ok:
        return str(report)
    kept = f"; changes {', '.join(r.changes)}" if r.changes else ""
    return f"{r.name:<24} {report.cases:>6} cases of {report.tried:>6} programs {seconds:>6.1f} s{kept}"


def run(rules: Sequence[Rule], cases: int, seed: int, exact: bool) -> int:
    """Check each, printing a line of it; the number that is not right."""
    wrong = 0
    for r in rules:
        start = time.perf_counter()
        report = check_rule(r, cases, seed, exact=exact)
        wrong += not report.ok
        print(line(r, report, time.perf_counter() - start), flush=True)
    print(f"{len(rules)} rules, {wrong} not right")
    return wrong


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m futad.testing.rules", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--cases", type=int, default=300, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    args = parser.parse_args(argv)
    rules = [r for r in own_rules() if not args.names or r.name in args.names]
    return 1 if run(rules, args.cases, args.seed, exact=True) or not rules else 0


if __name__ == "__main__":
    sys.exit(main())
