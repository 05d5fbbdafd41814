"""Mutations of valid programs: each is a program or an error with a place; none crashes the compiler or hangs it.

`FUTAD_FUZZ=N pytest tests/source/test_source_fuzz.py` tries N mutants;
`python tests/source/test_source_fuzz.py FIRST LAST` the seeds of a range, and says how they
ended.  A failing test names its seed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

import pytest

from futad.errors import Error, InternalError
from futad.source import compile_text
from futad.source.lexer import tokenize

PROGRAMS = sorted((Path(__file__).resolve().parents[1] / "programs").rglob("*.fut"))
CHUNKS = 12
PER_CHUNK = -(-int(os.environ.get("FUTAD_FUZZ", "720")) // CHUNKS)
LIMIT = 20  # seconds of the processor a mutant may take; valid programs of this size take a fraction of one


@cache
def pieces(path: Path) -> tuple[str, list[tuple[int, int]], list[str]]:
    """A program's text, where its tokens are, and their kinds."""
    text = path.read_text()
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    tokens = tokenize(text, str(path), {})[:-1]
    at = [(starts[t.line - 1] + t.col - 1, starts[t.end_line - 1] + t.end_col - 1) for t in tokens]
    return text, at, [t.kind for t in tokens]


def mutant(seed: int) -> str:
    """A program with one to three tokens deleted, doubled, swapped, or replaced by others of it.

    Every other change is between tokens of one kind: most of the rest are errors of syntax.
    """
    rng = random.Random(seed)
    text, at, kinds = pieces(rng.choice(PROGRAMS))
    words = [text[a:b] for a, b in at]
    gaps = [text[b:a] for (_, b), (a, _) in zip([(0, 0), *at], [*at, (len(text), 0)], strict=True)]
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        same = rng.random() < 0.6
        if same:
            j = rng.choice([k for k, kind in enumerate(kinds) if kind == kinds[i]])
        match rng.choice((2, 4)) if same else rng.randrange(5):
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

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


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


@pytest.mark.slow
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
    ends: Counter[str] = Counter()
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            ends[attempt(number)] += 1
        except Exception as problem:
            ends["crash"] += 1
            print(f"seed {number}: {type(problem).__name__}: {str(problem)[:300]}")
    print(", ".join(f"{count} {code or 'valid'}" for code, count in ends.most_common()))
