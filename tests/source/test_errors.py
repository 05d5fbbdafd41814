"""A table of wrong programs and wrong calls: exit status, place and message of each, to the letter.

The cases are in `tests/errors/*.txt`:

    ##### a name
    >> FILE          a file's content follows
    << stdin         what stands on stdin follows
    $ ARGUMENTS      the command line; its backends are all of interp and c unless it has -b
    == STATUS        what stands on stderr (stdout is empty) follows

`python tests/source/test_errors.py` rewrites the expected parts from what futad says now, for review.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from futad.cli import main

FOLDER = Path(__file__).resolve().parents[1] / "errors"
_MARK = re.compile(r"(>>|<<|\$|==) (.*)")


@dataclass
class Case:
    """One command that fails."""

    name: str
    source: str
    files: dict[str, str] = field(default_factory=dict)
    stdin: str = ""
    command: str = ""
    status: int = 0
    stderr: str = ""


def read_cases(path: Path) -> list[Case]:
    cases = []
    for chunk in path.read_text().split("##### ")[1:]:
        name, _, body = chunk.partition("\n")
        case = Case(name.strip(), path.name)
        target, lines = "", body.splitlines()
        texts: dict[str, list[str]] = {}
        for line in lines:
            m = _MARK.match(line)
            if m is None:
                texts.setdefault(target, []).append(line)
                continue
            mark, rest = m.groups()
            if mark == "$":
                case.command = rest
            elif mark == "==":
                case.status = int(rest)
                target = "=="
            else:
                target = f"{mark} {rest}"
        for target, content in texts.items():
            text = "\n".join(content).rstrip("\n") + "\n"
            if target == "==":
                case.stderr = text
            elif target.startswith(">> "):
                case.files[target[3:]] = text
            elif target == "<< stdin":
                case.stdin = text
        cases.append(case)
    return cases


ALL = [case for path in sorted(FOLDER.glob("*.txt")) for case in read_cases(path)]


def run_case(case: Case, backend: str, folder: Path) -> tuple[int, str, str]:
    """Exit status, stdout and stderr in a folder with the case's files."""
    for name, text in case.files.items():
        # A byte that is not UTF-8 is written as \\xNN in the table.
        raw = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m.group(1), 16)]), text.encode())
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)
    args = shlex.split(case.command)
    if args[0] in ("run", "test", "gradcheck") and "-b" not in args:
        args += ["-b", backend]
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    before, stdin = os.getcwd(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(case.stdin.encode()))
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(args)
    finally:
        os.chdir(before)
        sys.stdin = stdin
    out.flush()
    return status, out.buffer.getvalue().decode(), err.getvalue()  # type: ignore[attr-defined]


def backends_of(case: Case) -> list[str]:
    """Those on which the outcome may differ."""
    return ["interp", "c"] if case.command.startswith("run ") else ["interp"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case, backend",
    [(c, b) for c in ALL for b in backends_of(c)],
    ids=[f"{c.source[:-4]}-{c.name.replace(' ', '_')}-{b}" for c in ALL for b in backends_of(c)],
)
def test_error(case, backend, tmp_path):
    status, out, err = run_case(case, backend, tmp_path)
    assert err == case.stderr
    assert (status, out) == (case.status, "")


def test_the_table_is_large_and_its_names_differ():
    assert len(ALL) >= 100
    assert len({c.name for c in ALL}) == len(ALL)
    assert all(c.status in (1, 2) and c.stderr.strip() for c in ALL)


def rewrite() -> None:
    """Put what futad says now in place of what the table expects."""
    for path in sorted(FOLDER.glob("*.txt")):
        chunks = []
        for chunk, case in zip(path.read_text().split("##### ")[1:], read_cases(path), strict=True):
            with tempfile.TemporaryDirectory() as folder:
                status, out, err = run_case(case, "interp", Path(folder))
            if out:
                print(f"{path.name}: {case.name}: output on stdout: {out!r}")
            given = re.split(r"^== ", chunk, flags=re.MULTILINE)[0].rstrip()
            chunks.append(f"##### {given}\n== {status}\n{err}")
        path.write_text("\n".join(chunks).rstrip("\n") + "\n")


if __name__ == "__main__":
    rewrite()
