"""Mutations of valid programs: each is a program or an error with a place; none crashes the compiler or hangs it.

`python tests/test_source_fuzz.py FIRST LAST` tries the seeds of a range; a failing test names its seed.
"""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

import pytest

from futad.errors import Error, InternalError
from futad.source import compile_text
from futad.source.lexer import tokenize

PROGRAMS = sorted((Path(__file__).resolve().parent / "programs").rglob("*.fut"))
CHUNKS, PER_CHUNK = 12, 60
LIMIT = 20  # seconds a mutant may take; valid programs of this size take a fraction of one


@cache
def pieces(path: Path) -> tuple[str, list[tuple[int, int]]]:
    """A program's text, and where its tokens are."""
    text = path.read_text()
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    tokens = tokenize(text, str(path), {})[:-1]
    at = [(starts[t.line - 1] + t.col - 1, starts[t.end_line - 1] + t.end_col - 1) for t in tokens]
    return text, at


def mutant(seed: int) -> str:
    """A program with one to three tokens deleted, doubled, swapped, or replaced by others of it."""
    rng = random.Random(seed)
    text, at = pieces(rng.choice(PROGRAMS))
    words = [text[a:b] for a, b in at]
    gaps = [text[b:a] for (_, b), (a, _) in zip([(0, 0), *at], [*at, (len(text), 0)], strict=True)]
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        match rng.randrange(5):
            case 0:
                words[i] = ""
            case 1:
                words[i] += " " + words[i]
            case 2:
                words[i], words[j] = words[j], words[i]
            case 3:
                j = min(i + 1, len(words) - 1)
                words[i], words[j] = words[j], words[i]
            case _:
                words[i] = words[j]
    return gaps[0] + "".join(w + g for w, g in zip(words, gaps[1:], strict=True))


@contextmanager
def deadline(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(seed: int) -> str:
    """'' for a valid mutant, its error's code or kind for a wrong one; anything but an `Error` passes through."""
    text = mutant(seed)
    try:
        with deadline(LIMIT):
            compile_text(text, "mutant.fut")
    except InternalError:
        raise
    except Error as err:
        assert str(err).startswith(("mutant.fut:", "error: ")), f"{str(err)!r} has no place"
        return err.code or type(err).__name__
    return ""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_mutant_crashes_the_compiler(chunk: int) -> None:
    seen = set()
    for seed in range(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK):
        try:
            seen.add(attempt(seed))
        except Exception as err:
            raise AssertionError(f"seed {seed}: {type(err).__name__}: {err}") from err
    # Most mutants are wrong in one way or another.
    assert len(seen) >= 3


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            attempt(number)
        except Exception as problem:
            print(f"seed {number}: {type(problem).__name__}: {str(problem)[:300]}")
