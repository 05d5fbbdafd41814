"""Figures of the pages from stored measurements: the chart and the table of README.md, the tables of
docs/performance.md.

    python benchmarks/everyday.py --threads 2 --json benchmarks/results/everyday.json
    python benchmarks/cpu.py --threads 2 --middle --json benchmarks/results/cpu.json
    python benchmarks/figures.py [--check]

Writes docs/performance.svg, and in both pages what stands between `<!-- figures: NAME -->` and `<!-- end -->`.  With
--check nothing is written; exit status 1 if a file is not what the measurements give.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
CHART = ROOT / "docs" / "performance.svg"
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md")
FIRST_PAGE = ("kmeans", "mixture", "neural_ode", "deconvolution", "gaussian_process", "gru")  # of the README's table
TUNED = {"gmm": "mixture (ADBench)", "ba": "bundle adjustment", "kmeans": "k-means, Newton",
         "hand simple": "hand tracking", "dlstm": "D-LSTM",
         "lstm": "LSTM", "llsq": "least squares", "lse": "log-sum-exp", "det": "determinant",
         "ode": "ODE", "lbm": "lattice Boltzmann"}  # fmt: skip
EVERYDAY = {"neural_ode": "neural ODE", "hmc": "HMC", "soft_dtw": "soft DTW", "bratu": "Bratu's equation",
            "barrier": "barrier option", "gaussian_process": "Gaussian process", "mlp": "dense net", "gru": "GRU",
            "kmeans": "k-means", "hmm": "hidden Markov", "kalman": "Kalman filter", "nbody": "n bodies",
            "lotka_volterra": "Lotka-Volterra", "heat": "heat equation", "black_scholes": "Black-Scholes",
            "cox": "Cox regression", "vae": "VAE", "sinkhorn": "Sinkhorn", "trimmed": "trimmed squares",
            "rosenbrock": "Rosenbrock", "bundle": "bundle adjustment"}  # fmt: skip
QUARTER = 0.25  # of the bound, which dense regular rows should reach
_PEERS = {"jax": "JAX", "torch": "PyTorch"}
_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds of a program's value and gradient, by system; `first` and `hundred` until the first and the hundredth
    gradient of a process, `memory` in bytes that a gradient takes; `bound` the least seconds of value and gradient,
    `dense` whether to be near them."""

    name: str
    value: dict[str, float]
    gradient: dict[str, float]
    first: dict[str, float]
    memory: dict[str, float]
    bound: dict[str, float] = field(default_factory=dict)
    dense: bool = False
    hundred: dict[str, float] = field(default_factory=dict)

    def share(self, what: str) -> float | None:
        """Of the machine's bound that futad's value or gradient reaches."""
        ours: float = getattr(self, what)["futad"]
        return self.bound[what] / ours if what in self.bound else None

    @property
    def cost(self) -> float:
        """The gradient with its value, in values."""
        return self.gradient["futad"] / self.value["futad"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args()
    stale = [path for path, text in made().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if options.check:
            print(f"{path.relative_to(ROOT)} is not what the measurements give", file=sys.stderr)
        else:
            path.write_text(made()[path])
    return 1 if options.check and stale else 0


def made() -> dict[Path, str]:
    """The text of each file that shows figures."""
    every, tuned = everyday(_read("everyday")), measured(_read("cpu"))
    blocks = {
        "few": few(every),
        "everyday": table(every) + "\n\n" + summary(every) + "\n",
        "tuned": table(tuned) + "\n\n" + summary(tuned) + "\n",
    }
    texts = {CHART: chart(every, tuned)}
    for page in PAGES:
        texts[page] = _BLOCK.sub(lambda m: f"{m[1]}{blocks[m[2]].rstrip()}\n{m[3]}", page.read_text())
    return texts


# --- measurements -----------------------------------------------------------------------------------------------------


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def everyday(record: dict[str, Any]) -> list[Row]:
    """What `everyday.py` measured; a system without an answer, or with a wrong one, has no figures."""

    def of(row: dict[str, Any], what: str) -> dict[str, float]:
        return {who: found[what] for who, found in row["systems"].items() if what in found}

    def row(r: dict[str, Any]) -> Row:
        bound = {what: found["seconds"] for what, found in r.get("bound", {}).items() if what != "failed"}
        figures = [of(r, what) for what in ("value", "gradient", "first", "memory")]
        return Row(r["row"], *figures, bound, r.get("dense", False), of(r, "hundred"))

    return [row(r) for r in record["rows"] if not r["wrong"]]


def measured(record: dict[str, Any]) -> list[Row]:
    """What `cpu.py` measured; of futad the faster of `c` and `multicore`."""

    def of(row: dict[str, Any]) -> dict[str, float]:
        times = {t["who"]: t["median"] for t in row["times"] if t["error"] <= row["tolerance"]}
        ours = {"futad": min(times[who] for who in ("c", "multicore") if who in times)}
        return ours | {who: seconds for who, seconds in times.items() if who in _PEERS}

    pairs = list(zip(record["rows"][::2], record["rows"][1::2], strict=True))
    return [Row(a["case"], of(a), of(b), {}, {}) for a, b in pairs if a["case"] in TUNED]


def ratio(times: dict[str, float], peers: Iterable[str] = _PEERS, least: float = 0) -> float | None:
    """What the best of the peers takes, in what futad takes; None without one.  Less than `least` counts as that."""
    found = [times[p] for p in peers if p in times]
    return max(min(found), least) / max(times["futad"], least) if found and "futad" in times else None


def name_of(row: Row) -> str:
    return (EVERYDAY if row.first else TUNED).get(row.name, row.name.replace("_", " "))


# --- tables -----------------------------------------------------------------------------------------------------------


def number(x: float | None) -> str:
    if x is None:
        return ""
    return f"{x:.0f}" if x >= 9.95 else f"{x:.1f}" if x >= 0.995 else f"{x:.2f}"


def percent(x: float | None) -> str:
    return "" if x is None else f"{x:.0%}"


def few(rows: Sequence[Row]) -> str:
    """The README's table."""
    lines = ["| program | gradient / value | JAX / futad | PyTorch / futad |", "|---|---|---|---|"]
    by_name = {r.name: r for r in rows}
    for row in [by_name[name] for name in FIRST_PAGE]:
        cells = [number(row.cost), *[number(ratio(row.gradient, [p])) for p in _PEERS]]
        lines.append(f"| {name_of(row)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> str:
    """All ratios of all rows; shares of the bound, if these are known."""
    whole, bounded = bool(rows[0].first), any(r.bound for r in rows)
    head = ["program", "gradient / value", "JAX: value", "gradient", "PyTorch: value", "gradient"]
    head += ["JAX: first gradient", "hundredth", "memory"] if whole else []
    head += ["of the bound: value", "gradient"] if bounded else []
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for r in rows:
        cells = [number(r.cost), *[number(ratio(t, [p])) for p in _PEERS for t in (r.value, r.gradient)]]
        if whole:
            alone = [ratio(r.first, ["jax"]), ratio(r.hundred, ["jax"]), ratio(r.memory, ["jax"], 1 << 18)]
            cells += map(number, alone)
        cells += [percent(r.share(what)) for what in ("value", "gradient")] if bounded else []
        lines.append(f"| {name_of(r)}{'*' * (bounded and r.dense)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """A sentence on values and one on gradients."""
    lines = []
    for what, times in (("Values", [r.value for r in rows]), ("Gradients", [r.gradient for r in rows])):
        found = [x for t in times if (x := ratio(t)) is not None]
        ahead = sum(x >= 1 for x in found)
        lines.append(f"{what}: futad is {number(mean(found))} times as fast as the faster of JAX and PyTorch "
                     f"(geometric mean), and not behind in {ahead} of {len(found)} rows.")  # fmt: skip
    cost = statistics.median([r.cost for r in rows])
    lines.append(f"A gradient with its value costs {number(cost)} values (median).")
    dense = [r for r in rows if r.dense and r.bound]
    if dense:
        lines += ["", "*Of the bound*: the least time for the operations and bytes that a program needs, at the",
                  "ceilings that small kernels reach in the same run for products, functions and copying, over futad's",
                  "time (`benchmarks/bound.py`)."]  # fmt: skip
        parts = []
        for what in ("value", "gradient"):
            under = [f"{name_of(r)} {percent(x)}" for r in dense if (x := r.share(what)) is not None and x < QUARTER]
            left_out = f" (not {', '.join(under)})" if under else ""
            parts.append(f"{len(dense) - len(under)} {what}s{left_out}")
        lines.append(f"Of the {len(dense)} dense regular rows (*) {' and '.join(parts)} reach a quarter of it.")
    return "\n".join(lines)


def mean(found: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, found)))


# --- the chart --------------------------------------------------------------------------------------------------------

PITCH, TOP, NAMES, WIDTH = 16, 62, 128, 300  # pixels: from row to row, above the rows, for names, of a panel's bars
LEFT, RIGHT = 0.2, 100.0  # ratios at the borders
DARK, PALE, BEHIND, PALE_BEHIND = "#1b6ca8", "#9fc5e0", "#c65d21", "#eebd9f"


def chart(every: Sequence[Row], tuned: Sequence[Row]) -> str:
    """Bars of how many times as fast futad is, on a logarithmic scale: untuned programs and tuned ones."""
    height = TOP + PITCH * max(len(every), len(tuned)) + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" width="900" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="11">',
        f'<rect width="900" height="{height}" fill="#ffffff"/>',
        text(12, 20, "How many times as fast as the faster of JAX and PyTorch", size=14, weight="bold"),
        *panel(10, "Textbook programs as first written, none tuned (torch.compile)", every),
        *panel(460, "Programs of published benchmarks, tuned (PyTorch: eager)", tuned),
        *legend(470, TOP + PITCH * len(tuned) + 70),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def panel(left: int, title: str, rows: Sequence[Row]) -> Iterable[str]:
    ordered = sorted(rows, key=lambda r: -(ratio(r.gradient) or 1))
    bottom = TOP + PITCH * len(ordered)
    yield text(left + 2, TOP - 18, title, weight="bold")
    for tick in (0.25, 0.5, 1, 2, 5, 10, 20, 50):
        x, one = place(left, tick), tick == 1
        yield line(x, TOP - 6, bottom, "#444444" if one else "#dddddd", 1.2 if one else 0.8)
        yield text(x, bottom + 13, f"{tick:g}", anchor="middle", colour="#555555")
    for k, row in enumerate(ordered):
        y = TOP + PITCH * k
        yield text(left + NAMES - 6, y + 10, name_of(row), anchor="end")
        gradient, value = ratio(row.gradient), ratio(row.value)
        if gradient is not None:
            yield bar(left, y + 1, 7, gradient, DARK if gradient >= 1 else BEHIND)
            yield text(place(left, max(gradient, value or 1, 1)) + 4, y + 9, number(gradient), size=9, colour="#555555")
        if value is not None:
            yield bar(left, y + 9, 4, value, PALE if value >= 1 else PALE_BEHIND)


def legend(left: int, top: int) -> Iterable[str]:
    both = ((DARK, BEHIND, "gradient with its value"), (PALE, PALE_BEHIND, "value"))
    for k, (colour, other, what) in enumerate(both):
        y = top + 18 * k
        yield f'<rect x="{left}" y="{y}" width="14" height="8" fill="{colour}"/>'
        yield f'<rect x="{left + 18}" y="{y}" width="14" height="8" fill="{other}"/>'
        yield text(left + 40, y + 8, f"{what} (where futad is slower: orange)")
    yield text(left, top + 50, "Two threads, f64 unless the program says f32; axes are logarithmic.",
               colour="#555555")  # fmt: skip


def place(left: int, x: float) -> float:
    share = math.log(min(max(x, LEFT), RIGHT) / LEFT) / math.log(RIGHT / LEFT)
    return round(left + NAMES + WIDTH * share, 1)


def bar(left: int, y: float, height: float, x: float, colour: str) -> str:
    a, b = sorted((place(left, 1), place(left, x)))
    return f'<rect x="{a:g}" y="{y:g}" width="{max(b - a, 0.6):.1f}" height="{height:g}" fill="{colour}"/>'


def line(x: float, top: float, bottom: float, colour: str, width: float) -> str:
    return f'<line x1="{x:g}" x2="{x:g}" y1="{top:g}" y2="{bottom:g}" stroke="{colour}" stroke-width="{width:g}"/>'


def text(x: float, y: float, what: str, *, size: float = 11, anchor: str = "start", weight: str = "normal",
         colour: str = "#222222") -> str:  # fmt: skip
    style = f'font-size="{size:g}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(what)}</text>'


if __name__ == "__main__":
    sys.exit(main())
