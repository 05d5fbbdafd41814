"""The compiler's passes as a value that is printed, read, edited and run: a `Schedule`.

    pass simplify                                   a pass, in its place (`futad dev --list` names them)
    apply normalize(scale_out_of_sum)               a strategy, on every function
    enter: fold | unit                              the simplifier's rules, before the scopes inside a statement
    leave: acc_removed                              and after them
    nest "gmm.fut:55": jam(2) ; no rows             what is done to loops (`rewrite/choices.py`)
    rule NAME: ...                                  a rule of the user's own, in lines that are indented

`str` prints a schedule so, and `parse` reads it back.  A text without `pass` lines is the default schedule with
changes, which are made in the order in which they stand: `before PASS: STRATEGY`, `after PASS: STRATEGY`, `replace
PASS: STRATEGY`, `without NAME` (a pass, or a rule of the simplifier).  `--` begins a comment.

A strategy is a rule's name, `id`, `fail`, `S | S`, `S ; S`, brackets, `NAME(S, ...)` for the strategies of
`strategy.py`, and `fix(NAME -> S)`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from futad.errors import Span, UsageError
from futad.rewrite import strategy as st
from futad.rewrite.choices import NestChoice, nest_choice
from futad.rewrite.pattern import rule as text_rule
from futad.rewrite.rules.shipped import ENTER, LEAVE
from futad.rewrite.strategy import Rule, Rules, Strategy
from futad.rewrite.words import Picks, Words, nearest

WIDTH = 112  # columns of printed lists


@dataclass(frozen=True, slots=True)
class Step:
    """A pass by its name, or a strategy, the name of which is its text; `span`: where it stands."""

    name: str
    strategy: Strategy | None = None
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"pass {self.name}" if self.strategy is None else f"apply {self.name}"


@dataclass(frozen=True, eq=False)
class Schedule:
    """Passes and strategies in order; the simplifier's rules; what to do with nests; the user's own rules."""

    steps: tuple[Step, ...]
    enter: Strategy = field(default_factory=lambda: Rules(ENTER))
    leave: Strategy = field(default_factory=lambda: Rules(LEAVE))
    nests: tuple[NestChoice, ...] = ()
    rules: tuple[Rule, ...] = ()

    def __str__(self) -> str:
        python = "-- rule {}: written in Python"
        own = {r.name: str(getattr(r, "source", python.format(r.name))).strip("\n") for r in self.rules}
        lists = [_folded(f"{name}: {s.text}") for name, s in (("enter", self.enter), ("leave", self.leave))]
        return "\n".join([*own.values(), *lists, *map(str, self.steps), *map(str, self.nests)]) + "\n"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def names(self) -> list[str]:
        """The passes, and the strategies' texts."""
        return [s.name for s in self.steps]

    @property
    def own_rules(self) -> bool:
        """Whether the simplifier has other rules than it comes with."""
        return (self.enter.text, self.leave.text) != (Rules(ENTER).text, Rules(LEAVE).text)

    # -- changes: each gives another schedule, and raises UsageError where there is no pass of that name

    def before(self, name: str, strategy: Strategy | str) -> Schedule:
        """With a strategy right before a pass."""
        return self._with(name, lambda old, new: (new, old), strategy)

    def after(self, name: str, strategy: Strategy | str) -> Schedule:
        """With a strategy right after a pass."""
        return self._with(name, lambda old, new: (old, new), strategy)

    def replace(self, name: str, strategy: Strategy | str) -> Schedule:
        """With a strategy in place of a pass."""
        return self._with(name, lambda old, new: (new,), strategy)

    def without(self, name: str) -> Schedule:
        """Without a pass, a strategy (by its text), or a rule of the simplifier."""
        if name in self.names:
            return replace(self, steps=tuple([s for s in self.steps if s.name != name]))
        if name not in (known := _rule_names(self)):
            raise self._unknown(name, [*self.names, *known])
        return replace(self, enter=_less(self.enter, name), leave=_less(self.leave, name))

    def nest(self, place: str, choices: str) -> Schedule:
        """With choices for the nests of a line, as in a text: `nest("gmm.fut:55", "jam(2) ; no rows")`."""
        made = nest_choice(Words(f'"{place}": {choices}'))
        return replace(self, nests=(*self.nests, made))

    def _with(self, name: str, put: Callable[[Step, Step], tuple[Step, ...]], s: Strategy | str) -> Schedule:
        made = parse_strategy(s, {r.name: r for r in self.rules}) if isinstance(s, str) else s
        if not isinstance(made, Strategy):
            raise UsageError(f"a strategy is needed, not {type(made).__name__}")
        if name not in self.names:
            raise self._unknown(name, self.names)
        at = self.names.index(name)
        steps = (*self.steps[:at], *put(self.steps[at], Step(made.text, made)), *self.steps[at + 1 :])
        known = {r.name for r in self.rules}
        return replace(self, steps=steps, rules=(*self.rules, *[r for r in rules_in(made) if r.name not in known]))

    @staticmethod
    def _unknown(name: object, names: Sequence[str]) -> UsageError:
        return UsageError(f"the schedule has no '{name}'", hint=nearest(str(name), names))


def rules_in(s: Strategy) -> list[Rule]:
    """The rules of a user's own in a strategy: those that the simplifier does not have."""
    return [r for r in s.every_rule() if all(r is not own for own in (*ENTER, *LEAVE))]


def _less(s: Strategy, name: str) -> Strategy:
    return Rules([r for r in s.rules if r.name != name]) if isinstance(s, Rules) else s


def _rule_names(s: Schedule) -> list[str]:
    return [r.name for side in (s.enter, s.leave) if isinstance(side, Rules) for r in side.rules]


def _folded(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


# --- strategies from text ---------------------------------------------------------------------------------------------

_WITH_ONE: dict[str, Callable[[Strategy], Strategy]] = {
    "try": st.try_, "repeat": st.repeat, "some": st.some, "one": st.one, "all": st.all_, "topdown": st.topdown,
    "bottomup": st.bottomup, "innermost": st.innermost, "normalize": st.normalize,
}  # fmt: skip
_ATOMS = {"id": st.id_, "fail": st.fail}
KEYWORDS = (*_ATOMS, *_WITH_ONE, "seq", "choice", "fix", "where", "at", "limit", "alternatives")

def parse_strategy(text: str, rules: Mapping[str, Strategy] | None = None) -> Strategy:
    """The strategy of a text; `rules`: those of the user, by name.  Raises UsageError with the place."""
    words = Words(text)
    made = _choice(words, _known(rules or {}))
    words.end()
    return made


def _known(own: Mapping[str, Strategy]) -> dict[str, Strategy]:
    return {**{r.name: r for r in (*ENTER, *LEAVE)}, **own}


def _choice(w: Words, known: Mapping[str, Strategy]) -> Strategy:
    parts = [_sequence(w, known)]
    while w.take("|"):
        parts.append(_sequence(w, known))
    rules = [p for p in parts if isinstance(p, Rule)]
    return Rules(rules) if len(rules) == len(parts) > 1 else st.choice(*parts)


def _sequence(w: Words, known: Mapping[str, Strategy]) -> Strategy:
    parts = [_atom(w, known)]
    while w.take(";"):
        parts.append(_atom(w, known))
    return st.seq(*parts)


def _atom(w: Words, known: Mapping[str, Strategy]) -> Strategy:
    if w.take("("):
        inner = _choice(w, known)
        w.expect(")")
        return inner
    name = w.name("a strategy")
    if w.next != "(" or name in known:
        found = known.get(name) or _ATOMS.get(name)
        if found is None:
            raise w.error(f"no rule or strategy is called '{name}'", nearest(name, [*known, *KEYWORDS]), back=1)
        return found
    w.expect("(")
    made = _applied(w, name, known)
    w.expect(")")
    return made


def _applied(w: Words, name: str, known: Mapping[str, Strategy]) -> Strategy:
    if name in _WITH_ONE:
        return _WITH_ONE[name](_choice(w, known))
    if name in ("where", "at"):
        guard = st.where(w.quoted()) if name == "where" else st.at(w.quoted())
        return st.seq(guard, _choice(w, known)) if w.take(",") else guard
    if name == "limit":
        most = w.number()
        w.expect(",")
        return st.limit(most, _choice(w, known))
    if name == "fix":
        own = w.name("a name")
        w.expect("->")
        mark = w.at
        made: list[Strategy] = []

        def body(me: Strategy) -> Strategy:
            w.at = mark
            made.append(_choice(w, {**known, own: me}))
            return made[0]

        return st.fix(body)
    if name in ("alternatives", "seq", "choice"):
        parts = [_choice(w, known)]
        while w.take(","):
            parts.append(_choice(w, known))
        return w.pick(parts) if name == "alternatives" else st.seq(*parts) if name == "seq" else st.choice(*parts)
    raise w.error(f"no strategy is called '{name}'", nearest(name, KEYWORDS), back=2)


# --- schedules from text ----------------------------------------------------------------------------------------------


def parse_schedule(
    text: str, default: Schedule, file: str = "", picks: Picks | None = None
) -> Schedule:
    """The schedule of a text (see above), its changes made to `default`; `file` is for messages.  `picks`: which of
    each of the `alternatives`, in the order of the text.  Raises UsageError with the place and the cause."""
    if not isinstance(text, str):
        raise UsageError(f"a schedule's text must be a str, not {type(text).__name__}")
    blocks = list(_blocks(text))
    out = replace(default, steps=()) if any(b.startswith("pass ") for _, b in blocks) else default
    for line, block in blocks:
        out = _line(out, block, Words(block, file, line, picks))
    return out


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """What begins at the margin, with the lines after it that are indented, and the number of its first line."""
    block: list[str] = []
    first = 0
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        indented = line[:1].isspace() or plain == "=>"
        if block and (indented or not plain):
            block.append(line)
        elif plain and not plain.startswith("--"):
            if block:
                yield first, "\n".join(block)
            block, first = [line], number
    if block:
        yield first, "\n".join(block)


def _line(s: Schedule, block: str, w: Words) -> Schedule:
    kind = w.name("'pass', 'apply', 'before', 'nest' or the like")
    known = _known({r.name: r for r in s.rules})
    if kind == "rule":
        return replace(s, rules=(*s.rules, text_rule(block, w.file or "<rule>", w.line)))
    try:
        out = _change(s, kind, w, known)
    except UsageError as e:
        e.span = e.span or w.span
        raise
    w.end()
    return out


def _placed(place: Span | None, change: Callable[[], Schedule]) -> Schedule:
    """What a change gives; its errors are about the name at that place."""
    try:
        return change()
    except UsageError as e:
        e.span = e.span or place
        raise


def _change(s: Schedule, kind: str, w: Words, known: Mapping[str, Strategy]) -> Schedule:
    place = w.span
    if kind == "pass":
        return replace(s, steps=(*s.steps, Step(w.name("a pass"), span=place)))
    if kind == "apply":
        made = _choice(w, known)
        return replace(s, steps=(*s.steps, Step(made.text, made)))
    if kind in ("enter", "leave"):
        w.expect(":")
        found = _choice(w, known)
        rules = Rules([found]) if isinstance(found, Rule) else found
        return replace(s, enter=rules) if kind == "enter" else replace(s, leave=rules)
    if kind in ("before", "after", "replace"):
        name = w.name("a pass")
        w.expect(":")
        made = _choice(w, known)
        return _placed(place, lambda: getattr(s, kind)(name, made))
    if kind == "without":
        name = w.name("a pass or a rule")
        return _placed(place, lambda: s.without(name))
    if kind == "nest":
        return replace(s, nests=(*s.nests, nest_choice(w)))
    kinds = ("pass", "apply", "enter", "leave", "before", "after", "replace", "without", "nest", "rule")
    raise w.error(f"'{kind}' begins no line of a schedule", nearest(kind, kinds), back=1)


__all__ = ["Schedule", "Step", "parse_schedule", "parse_strategy", "rules_in"]
