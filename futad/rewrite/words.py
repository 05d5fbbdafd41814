"""The words of strategies and schedules as text, with their places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TypeVar

from futad.errors import Span, UsageError

T = TypeVar("T")


class Picks:
    """Which of each of the `alternatives` of a text is meant, in the order of the text: `chosen`, the first where that
    says nothing.  `sizes`: of how many each is one, once the text is read."""

    def __init__(self, chosen: Sequence[int] = ()) -> None:
        self.chosen = chosen
        self.sizes: list[int] = []

    def of(self, count: int) -> int:
        """The number of the next one."""
        self.sizes.append(count)
        at = len(self.sizes) - 1
        return self.chosen[at] if at < len(self.chosen) else 0


_WORD = re.compile(r'\s*(?:--[^\n]*|(?P<word>"[^"\n]*"|->|[A-Za-z_][\w-]*|\d+|[^\s\w]))?')
_NAME = re.compile(r"[A-Za-z_][\w-]*\Z")


class Words:
    """The words of a text that begins on a line of a file, read from the first to the last."""

    def __init__(self, text: str, file: str = "", line: int = 1, picks: Picks | None = None) -> None:
        self.text, self.file, self.line, self.picks = text, file, line, picks or Picks()
        self.words: list[tuple[str, int]] = []
        self.at = at = 0
        while at < len(text):
            m = _WORD.match(text, at)
            assert m is not None
            if m["word"] is not None:
                self.words.append((m["word"], m.start("word")))
            at = max(m.end(), at + 1)

    @property
    def next(self) -> str:
        """The next word, empty at the end."""
        return self.words[self.at][0] if self.at < len(self.words) else ""

    @property
    def span(self) -> Span | None:
        """The place of the next word; None if the text is of no file."""
        if not self.file:
            return None
        word, start = self.words[self.at] if self.at < len(self.words) else ("", len(self.text))
        row, column = self.text.count("\n", 0, start), start - self.text.rfind("\n", 0, start)
        return Span(self.file, self.line + row, column, self.line + row, column + max(1, len(word)))

    def error(self, message: str, hint: str = "", back: int = 0) -> UsageError:
        """An error at the next word, or `back` words before it."""
        self.at -= back
        place = self.span
        self.at += back
        return UsageError(message, place, hint=hint)

    def take(self, word: str) -> bool:
        """Whether that is the next word, which is then read."""
        found = self.next == word
        self.at += found
        return found

    def expect(self, word: str) -> None:
        """Read that word.  Raises UsageError if another one comes."""
        if not self.take(word):
            raise self.error(f"'{word}' is expected, not {self._shown()}")

    def name(self, what: str) -> str:
        """Read a name; `what` is for the error that there is none."""
        word = self.next
        if not _NAME.match(word):
            raise self.error(f"{what} is expected, not {self._shown()}")
        self.at += 1
        return word

    def number(self) -> int:
        """Read a number."""
        word = self.next
        if not word.isdecimal():
            raise self.error(f"a number is expected, not {self._shown()}")
        self.at += 1
        return int(word)

    def quoted(self) -> str:
        """Read a text in quotation marks."""
        word = self.next
        if len(word) < 2 or word[0] != '"':
            raise self.error(f'a text in "quotation marks" is expected, not {self._shown()}')
        self.at += 1
        return word[1:-1]

    def pick(self, parts: Sequence[T]) -> T:
        """The one of the alternatives that is meant."""
        return parts[self.picks.of(len(parts))]

    def end(self) -> None:
        """Raises UsageError if there are words left."""
        if self.next:
            raise self.error(f"nothing more is expected here, not {self._shown()}")

    def _shown(self) -> str:
        return f"'{self.next}'" if self.next else "the end"


def nearest(name: str, names: Sequence[str]) -> str:
    """Which of the names may have been meant."""
    near = get_close_matches(name, names, n=3)
    return f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(dict.fromkeys(names))}"


__all__ = ["Picks", "Words", "nearest"]
