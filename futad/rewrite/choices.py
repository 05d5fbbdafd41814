"""What is done to nests of loops, as data: names of nests, what a schedule asks of them, and what became of it.

A nest is a map, fold or scan of the program that a backend is given, at any depth; on devices also what else has a
grid.  Its name is the line of the source
that it comes from, `gmm.fut:55`; several of one line are numbered, `gmm.fut:55#2`, and a name without a number means
all of them for which it is possible.  `*` means all nests, and is no error where that is none.

    nest "gmm.fut:55": jam(2)                       this, and no other transformation of its loop, or an error
    nest "gmm.fut:55#2": checks-first ; vector-lanes
    nest "gmm.fut:48": no rows                      all but this one
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from os.path import basename

from futad.core.ir import Lambda, Program, Screma, Stm
from futad.errors import Span, UsageError
from futad.rewrite.words import Words

SAID = "the schedule says so"


@dataclass(frozen=True, slots=True)
class Choice:
    """A transformation that is asked for, with numbers, or forbidden (`no`)."""

    name: str
    args: tuple[int, ...] = ()
    no: bool = False

    def __str__(self) -> str:
        given = f"({', '.join(map(str, self.args))})" if self.args else ""
        return f"{'no ' * self.no}{self.name}{given}"


@dataclass(frozen=True, slots=True)
class NestChoice:
    """What a schedule asks of the nests of a name; `span`: where it stands."""

    place: str
    choices: tuple[Choice, ...]
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f'nest "{self.place}": {" ; ".join(map(str, self.choices))}'


def nest_choice(w: Words) -> NestChoice:
    """Read `"PLACE": CHOICE ; CHOICE ...`, where `CHOICE` is `NAME`, `NAME(NUMBER, ...)` or `no NAME`, or
    `alternatives(CHOICE, ...)`.  Raises UsageError."""
    span = w.span
    place = w.quoted()
    file, _, line = place.partition("#")[0].rpartition(":")
    if place != "*" and not (file and line.isdecimal()):
        raise w.error(f"'{place}' names no nest", 'a nest is named by its line, "FILE:LINE", or "FILE:LINE#NUMBER"', 1)
    w.expect(":")
    found = [_choice(w)]
    while w.take(";"):
        found.append(_choice(w))
    return NestChoice(place, tuple(found), span)


def _choice(w: Words) -> Choice:
    if w.take("alternatives"):
        w.expect("(")
        parts = [_choice(w)]
        while w.take(","):
            parts.append(_choice(w))
        w.expect(")")
        return w.pick(parts)
    no = w.take("no")
    name = w.name("a transformation")
    args: list[int] = []
    if not no and w.take("("):
        args.append(w.number())
        while w.take(","):
            args.append(w.number())
        w.expect(")")
    return Choice(name, tuple(args), no)


# --- nests ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Nest:
    """A map, fold or scan: its name, what it is, how many of them are around it; what is asked of it, and why that
    `failed`; what was `done`, and why what else could have been was `refused`; `ways`: on a device, the template, and
    the versions of which the host takes the first whose condition holds."""

    name: str
    stm: Stm
    function: str
    depth: int
    asked: list[Choice] = field(default_factory=list)
    done: list[Choice] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    ways: list[str] = field(default_factory=list)
    failed: dict[Choice, str] = field(default_factory=dict)

    @property
    def forced(self) -> list[Choice]:
        """The transformations that are asked for."""
        return [c for c in self.asked if not c.no]

    def allows(self, name: str) -> bool:
        """Whether a transformation is not forbidden; if it is, that is noted as the reason."""
        if not any(c.no and c.name == name for c in self.asked):
            return True
        self.refused[name] = SAID
        return False

    def was(self, name: str, *args: int, at: int | None = None) -> None:
        """A transformation was done, before those from number `at` on."""
        made = Choice(name, args)
        if made not in self.done:
            self.done.insert(len(self.done) if at is None else at, made)
        self.refused.pop(name, None)

    def was_not(self, name: str, reason: str) -> None:
        """A transformation was not done, at one of the places where it could have been."""
        if not any(c.name == name for c in self.done):
            self.refused[name] = reason

    def __str__(self) -> str:
        e = self.stm.exp
        kind = type(e).__name__.lower()
        done = " ; ".join(map(str, self.done))
        text = f'nest "{self.name}": {done}' if done else f'-- nest "{self.name}":'
        of = getattr(e, "width", "") or (f"{self.stm.pat[0].type}" if self.stm.pat else "nothing")
        lines = [f"{text:<48}  -- {'  ' * self.depth}{kind} of {of}, in {self.function}"]
        lines += [f"  -- {'  ' * self.depth}{way}" for way in self.ways]
        by_reason: dict[str, list[str]] = {}
        for name, why in self.refused.items():
            by_reason.setdefault(why, []).append(name)
        lines += [f"  -- {'  ' * self.depth}refused {', '.join(names)}: {why}" for why, names in by_reason.items()]
        return "\n".join(lines)


class Choices:
    """The nests of a program, with what schedules ask of them.  `aliases`: other names of transformations."""

    def __init__(self, asked: tuple[NestChoice, ...] = ()) -> None:
        self.asked = asked
        self.nests: dict[Stm, Nest] = {}
        self.named: list[tuple[NestChoice, Choice, list[Nest]]] = []

    def of(self, program: Program, known: Callable[[Choice], Choice]) -> None:
        """Find the nests of the program that a backend is given.  `known`: a choice as the backend calls it, or a
        UsageError.  Raises UsageError if there are none of a name that is asked for."""
        self.nests = {n.stm: n for n in nests_of(program)}
        self.named.clear()
        for c in self.asked:
            found = [n for n in self.nests.values() if _is_called(n.name, c.place)]
            if not found and c.place != "*":
                names = ", ".join(dict.fromkeys(n.name for n in self.nests.values())) or "none"
                raise UsageError(f"there is no nest '{c.place}'", c.span, hint=f"there are: {names}")
            for choice in c.choices:
                try:
                    made = known(choice)
                except UsageError as e:
                    e.span = e.span or c.span
                    raise
                self.named.append((c, made, found))
                for n in found:
                    n.asked.append(made)

    def becomes(self, nest: Nest, stm: Stm) -> None:
        """What a backend is to be told of the nest, which is this statement from now on."""
        self.nests[stm] = nest

    @property
    def every(self) -> list[Nest]:
        """The nests, each once, in order."""
        return list(dict.fromkeys(self.nests.values()))

    def lowered(self) -> None:
        """After lowering to loops, as `done`: what was asked for and not done has failed."""
        for n in self.every:
            for c in n.forced:
                if all(d.name != c.name for d in n.done):
                    n.failed[c] = n.failed.get(c, "") or n.refused.get(c.name, "it is nothing that this is tried on")
        self.done()

    def done(self) -> None:
        """Raises UsageError if what is asked for was possible for none of the nests of a name, with the reason."""
        for asked, c, found in self.named:
            bad = [n for n in found if c in n.failed]
            # Where it would not be done it need not be forbidden.
            good = [n for n in found if c not in n.failed and (not c.no or n.refused.get(c.name) == SAID)]
            if asked.place != "*" and bad and not good:
                raise UsageError(f"'{c}' is impossible for the nest {bad[0].name}: {bad[0].failed[c]}", asked.span)

    def __str__(self) -> str:
        on_device = any(n.ways for n in self.every)
        return "\n".join(str(n) for n in self.every if n.ways or not on_device)


def _is_called(name: str, asked: str) -> bool:
    if asked == "*":
        return True
    if "#" not in asked:
        name = name.partition("#")[0]
    return name == basename(asked)


def nests_of(program: Program) -> Iterator[Nest]:
    """All nests in the order of the text, outer ones before those inside."""
    found = [n for f in program.funs.values() for n in _within(f.body, f.name, 0, f.span)]
    counts: dict[str, int] = {}
    for name, _ in found:
        counts[name] = counts.get(name, 0) + 1
    seen: dict[str, int] = {}
    for name, n in found:
        seen[name] = seen.get(name, 0) + 1
        n.name = f"{name}#{seen[name]}" if counts[name] > 1 else name
        yield n


def _within(lam: Lambda, function: str, depth: int, around: Span | None) -> Iterator[tuple[str, Nest]]:
    for s in lam.stms:
        here = next((v.at for v in s.pat if v.at is not None), around)
        is_nest = isinstance(s.exp, Screma) or s.grid is not None
        if is_nest:
            name = f"{basename(here.file)}:{here.line}" if here is not None else function
            yield name, Nest("", s, function, depth)
        if s.grid is not None:
            for v in s.grid.versions:
                if v.body is not None:
                    yield from _within(v.body, function, depth + 1, here)
        for inner in s.exp.lambdas():
            yield from _within(inner, function, depth + is_nest, here)


__all__ = ["Choice", "Choices", "Nest", "NestChoice", "nest_choice", "nests_of"]
