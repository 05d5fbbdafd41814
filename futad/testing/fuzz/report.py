"""What a run says: progress, tables, the files of findings, the log that several runs add to."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from futad import legality
from futad.fires import DECLARED
from futad.testing.fuzz.batch import Finding, Outcome
from futad.testing.fuzz.cases import MODES, case, inputs


class Report:
    """Adds up outcomes."""

    def __init__(self, out: TextIO, keep: Path | None) -> None:
        self.out = out
        self.keep = keep
        self.start = self.said = time.monotonic()
        self.programs = self.calls = self.ties = 0
        self.tried: Counter[tuple[str, str, str]] = Counter()
        self.wrong: Counter[tuple[str, str, str]] = Counter()
        self.findings: list[Finding] = []
        self.fires: Counter[str] = Counter()

    def add(self, o: Outcome) -> None:
        self.programs += o.programs
        self.calls += o.calls
        self.ties += o.ties
        self.tried += o.tried
        self.fires += o.fires
        for f in o.findings:
            self.findings.append(f)
            self.wrong[f.kind, f.mode, f.backend] += 1
            first = f.detail.splitlines()[0][:200] if f.detail else ""
            print(f"{f.what}: {f.kind} {f.seed}, {f.mode} on {f.backend}, {f.sizes or ''} {first}", file=self.out)
            if f.suspect:
                print(f"    suspect: {f.suspect.splitlines()[0]}", file=self.out)
            if self.keep is not None:
                save(self.keep, f)
        if time.monotonic() - self.said > 10:
            self.said = time.monotonic()
            self.progress()

    def progress(self) -> None:
        seconds = time.monotonic() - self.start
        print(
            f"{seconds:6.0f} s: {self.programs} programs, {self.calls} calls, {len(self.findings)} findings",
            file=self.out,
            flush=True,
        )

    def coverage(self) -> str:
        """How often each transformation was applied to the programs, and those that never were."""
        legality.load_all()
        declared = {t.name for t in DECLARED.values() if t.fires}
        lines = [f"{times:8} {name}" for name, times in self.fires.most_common()]
        silent = sorted(declared - self.fires.keys())
        return "\n".join([*lines, f"{len(silent)} of {len(declared)} never: {', '.join(silent)}"])

    def table(self) -> str:
        """Programs tried and findings, by kind and by mode and backend."""
        kinds = sorted({k for k, _, _ in self.tried})
        backends = sorted({b for _, _, b in self.tried})
        modes = [m for m in MODES if any(t[1] == m for t in self.tried)]

        def cell(**given: str) -> str:
            def total(c: Counter[tuple[str, str, str]]) -> int:
                names = ("kind", "mode", "backend")
                return sum(n for k, n in c.items() if all(k[names.index(a)] == v for a, v in given.items()))

            bad = total(self.wrong)
            return f"{total(self.tried)}" + (f" ({bad})" if bad else "")

        rows = [["kind", *modes, *backends]]
        for k in kinds:
            rows.append([k, *[cell(kind=k, mode=m) for m in modes], *[cell(kind=k, backend=b) for b in backends]])
        rows.append(["all", *[cell(mode=m) for m in modes], *[cell(backend=b) for b in backends]])
        for b in backends:
            rows.append([f"on {b}", *[cell(mode=m, backend=b) for m in modes], *["" for _ in backends]])
        wide = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join(x.ljust(w) if i == 0 else x.rjust(w) for i, (x, w) in enumerate(zip(r, wide, strict=True)))
            for r in rows
        ]
        return "\n".join(lines)

    def summary(self, seed: int) -> dict[str, Any]:
        """What goes into a log."""
        from futad import __version__

        by = lambda i, c: dict(sorted(_sums(c, i).items()))  # noqa: E731
        return {
            "futad": __version__, "seed": seed, "seconds": round(time.monotonic() - self.start),
            "programs": self.programs, "calls": self.calls, "rounding decides": self.ties,
            "findings": len(self.findings),
            "programs by kind": by(0, self.tried), "derivatives by mode": by(1, self.tried),
            "derivatives by backend": by(2, self.tried), "findings by kind": by(0, self.wrong),
        }  # fmt: skip


def _sums(c: Counter[tuple[str, str, str]], i: int) -> Counter[str]:
    out: Counter[str] = Counter()
    for k, n in c.items():
        out[k[i]] += n
    return out


def append(log: Path, entry: dict[str, Any]) -> dict[str, int]:
    """Add a run to a log, a line of JSON each; the sums over all of them."""
    with log.open("a", encoding="utf-8") as f:
        f.write(json.dumps(entry) + "\n")
    runs = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {k: sum(r[k] for r in runs) for k in ("seconds", "programs", "calls", "findings")} | {"runs": len(runs)}


def save(folder: Path, f: Finding) -> Path:
    """The program of a finding as a file, with its inputs and what was wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{f.kind}-{f.seed}-{f.mode.replace('+', '-')}-{f.backend}.fut"
    modes = tuple(m for m in f.mode.split("+") if m in MODES)
    c = case(f.kind, f.seed, f.elem, modes)
    given = inputs(c, f.number, f.sizes or None)
    lines = [f"{f.what} on {f.backend}, entry {f.mode}, sizes {given.sizes}, seed {f.seed}", *f.detail.splitlines()]
    lines += f"suspect: {f.suspect}".splitlines() if f.suspect else []
    with np.printoptions(precision=17, threshold=10000):
        lines += [f"argument {i}: {a!r}" for m in modes[:1] for i, a in enumerate(given.given(m))]
    text = "".join(f"-- {x}\n" for line in lines for x in line.splitlines())
    text += "\n" + c.text()
    if f.text:
        path.with_suffix(".whole.fut").write_text(text, encoding="utf-8")
        text = f"-- {f.what} on {f.backend}, entry {f.mode}, sizes {f.sizes}\n-- made small from {c.name}\n\n" + f.text
    path.write_text(text, encoding="utf-8")
    return path
