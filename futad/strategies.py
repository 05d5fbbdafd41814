"""Strategies, rules and schedules: what the compiler does, as values to read, edit and run (docs/strategies.md).

    from futad import strategies as s

    schedule = s.default().after("fuse", s.normalize(s.parse("fold | unit"))).nest("gmm.fut:55", "jam(2)")
    program = futad.load("gmm.fut", schedule=schedule)
    print(schedule, program.trace.hits)
"""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from futad.errors import Error, FileError, UsageError
from futad.pipeline import check_schedule, default_schedule
from futad.rewrite.pattern import parse_rules
from futad.rewrite.pattern import rule as _text_rule
from futad.rewrite.schedule import Schedule, Step, parse_strategy
from futad.rewrite.schedule import parse_schedule as _parse_schedule
from futad.rewrite.strategy import (
    Rule,
    Strategy,
    all_,
    alternatives,
    at,
    bottomup,
    choice,
    fail,
    fix,
    id_,
    innermost,
    limit,
    normalize,
    one,
    repeat,
    seq,
    some,
    topdown,
    try_,
    where,
)
from futad.rewrite.strategy import rule as _python_rule
from futad.rewrite.words import Picks

if TYPE_CHECKING:
    from futad.testing.rules import Report

id = id_


def default() -> Schedule:
    """The compiler's own schedule, of all targets."""
    return default_schedule()


def parse(text: str) -> Any:
    """The schedule of a text, or the strategy, if it is one in a single line: the inverse of `str`.

    Raises UsageError with the line and the cause.
    """
    if not isinstance(text, str):
        raise UsageError(f"a str with a schedule or a strategy is needed, not {type(text).__name__}")
    words = text.split(None, 1)
    first = words[0].rstrip(":") if words else ""
    return parse_schedule(text) if first in _LINES or "\n" in text.strip() or not words else parse_strategy(text)


_LINES = ("pass", "apply", "enter", "leave", "before", "after", "replace", "without", "nest", "rule", "--")


def parse_schedule(text: str, file: str = "", picks: Picks | None = None) -> Schedule:
    """The schedule of a text (`rewrite/schedule.py`), its changes made to the default one; `file` is for messages.
    `picks`: which of each of the `alternatives`, in the order of the text; the first, if it does not say."""
    return _parse_schedule(text, default(), file, picks)


def load_schedule(path: str | PathLike[str], picks: Picks | None = None) -> Schedule:
    """The schedule in a file, checked.  Raises FileError, and UsageError with the line and the cause."""
    name = fspath(path)
    try:
        text = Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileError(f"cannot read {name}: it is no text in UTF-8") from None
    except (OSError, ValueError) as e:  # ValueError: no path can be so
        raise FileError(f"cannot read {name}: {getattr(e, 'strerror', None) or e}") from None
    try:
        made = parse_schedule(text, name, picks)
        check(made)
    except Error as e:
        e.locate({name: text})
        if e.span is None:
            e.message = f"{name}: {e.message}"
        raise
    return made


def rule(what: str | type, *heads: type, changes: tuple[str, ...] = ()) -> Any:
    """The rule of a text (`rewrite/patterns/syntax.py` has the syntax), or what makes a function of a statement and a
    context a rule on constructs: `rule(ir.Reduce)`; `changes` is what it does not keep, of `CHANGES`.

    Raises RuleError, with the rule, the line and the cause, for a text that is no rule or not right by its types, by
    what is bound, by what may fail or is overwritten.
    """
    if isinstance(what, str):
        return _text_rule(what)
    return _python_rule(what, *heads, changes=changes)


def check_rule(rule: Rule, cases: int = 300, seed: int = 0, *, exact: bool = False) -> Report:
    """Look for a program in which a rule is wrong, in `cases` of those in which it applies (`testing/rules`): a report
    with `ok` and the least `counterexample`, printable, or None.  `exact`: floats to the last bit."""
    from futad.testing.rules import check_rule as check

    if not isinstance(rule, Rule) or cases < 1:
        raise UsageError("check_rule takes a rule and a number of cases, at least 1")
    return check(rule, cases, seed, exact=exact)


def check(schedule: Schedule) -> None:
    """Raises UsageError for a schedule that names a pass that does not exist, leaves out one that is needed (the
    expansion of derivatives, say), or has passes in an order in which they do not work."""
    if not isinstance(schedule, Schedule):
        raise UsageError(f"a schedule is needed, not {type(schedule).__name__}")
    check_schedule(schedule)


__all__ = [
    "Rule", "Schedule", "Step", "Strategy", "all_", "alternatives", "at", "bottomup", "check", "check_rule", "choice",
    "default", "fail", "fix", "id", "id_", "innermost", "limit", "load_schedule", "normalize", "one", "parse",
    "parse_rules", "parse_schedule", "repeat", "rule", "seq", "some", "topdown", "try_", "where",
]  # fmt: skip
