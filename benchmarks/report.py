"""A page with plots from the measurements of `cpu.py`: time against size, ratio to peers, derivative over objective,
share of the machine's ceiling, speed-up by threads.

    python benchmarks/cpu.py --threads 1 2 --json cpu.json && python benchmarks/report.py cpu.json report.html

The output is one HTML file with everything in it; --plots FOLDER writes the plots as files too.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from speedup import Speedup, least_work, limit, speedup, summary

Row = dict[str, Any]

NAMES = {"c": "futad c", "multicore": "futad multicore", "numpy": "NumPy", "jax": "JAX", "torch": "PyTorch",
         "C++": "C++ (published)", "Futhark's C": "Futhark's C (published)"}  # fmt: skip
COLOURS = {"c": "#1f4e9c", "multicore": "#3f9b5f", "numpy": "#8a8a8a", "jax": "#e08214", "torch": "#c0392b",
           "C++": "#7b4fa3", "Futhark's C": "#a0703c"}  # fmt: skip
MARKERS = {"c": "o", "multicore": "s", "numpy": "v", "jax": "D", "torch": "^", "C++": "P", "Futhark's C": "X"}
OURS = ("c", "multicore")
PARTS = ("objective", "derivative")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", type=Path, help="JSON that cpu.py wrote")
    parser.add_argument("page", type=Path, help="the HTML file to write")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write the plots here as well")
    options = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        print("error: the report needs matplotlib: pip install matplotlib", file=sys.stderr)
        return 1
    matplotlib.use("agg")
    record = json.loads(options.measurements.read_text())
    plots = {name: png(figure) for name, figure in figures(record)}
    options.page.write_text(page(record, plots))
    if options.plots:
        options.plots.mkdir(parents=True, exist_ok=True)
        for name, data in plots.items():
            (options.plots / f"{name.replace(' ', '_')}.png").write_bytes(data)
    return 0


# --- Measurements ------------------------------------------------------------------------------------


def median(row: Row, who: str) -> float | None:
    return next((t["median"] for t in row["times"] if t["who"] == who), None)


def best_of_ours(row: Row) -> float:
    return min(m for who in OURS if (m := median(row, who)) is not None)


def others(row: Row) -> dict[str, float]:
    """Seconds of everyone else: measured here, and published figures as scaled."""
    found = {t["who"]: t["median"] for t in row["times"] if t["who"] not in OURS}
    return found | {p["who"]: p["seconds"] for p in row["published"]}


def label(row: Row) -> str:
    return f"{row['case']}  {row['size']}"


def pairs(rows: list[Row]) -> list[tuple[Row, Row]]:
    """Objective and derivative of each case."""
    return list(zip(rows[::2], rows[1::2], strict=True))


def threads_of(record: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[Row]]]:
    for ceiling in record["ceilings"]:
        yield ceiling, [r for r in record["rows"] if r["threads"] == ceiling["threads"]]


# --- Page --------------------------------------------------------------------------------------------

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0 }
td, th { padding: .15em .7em; text-align: right; white-space: nowrap }
td:first-child, th:first-child, td:nth-child(2) { text-align: left }
thead th { border-bottom: 2px solid #888 } tbody tr:nth-child(4n+3), tbody tr:nth-child(4n+4) { background: #f4f4f2 }
td.best { font-weight: 600 } td.wrong { color: #c00 } img { max-width: 100% } .note { color: #666 }
"""


def page(record: dict[str, Any], plots: dict[str, bytes]) -> str:
    """The whole document."""
    machine, runs = html.escape(record["machine"]), len(record["rows"][0]["times"][0]["seconds"])
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>futad on the CPU</title><style>{STYLE}</style>",
        f"<h1>futad on the CPU</h1><p>{machine}. Medians of {runs} runs in turn; with one thread of CPU time, else of "
        "wall time. All answers were compared with NumPy's before anything was timed. Published figures are scaled by "
        "this machine's speed in copying and matrix products over that of the machine they were measured on.</p>",
    ]
    for ceiling, rows in threads_of(record):
        threads = ceiling["threads"]
        parts += [
            f"<h2>{threads} thread{'s' * (threads > 1)}</h2>",
            f"<p>The machine copies {ceiling['copy_bytes'] / 1e9:.1f} GB/s (one thread) and multiplies matrices at "
            f"{ceiling['dgemm_flops'] / 1e9:.0f} (f64) and {ceiling['sgemm_flops'] / 1e9:.0f} (f32) GFLOP/s.</p>",
            *[image(name, data) for name, data in plots.items() if name.endswith(f" {threads}")],
            table(rows),
            *([gains_table(rows, threads)] if threads > 1 else []),
        ]
    return "\n".join(parts) + "\n"


def image(name: str, data: bytes) -> str:
    return f"<p><img alt='{html.escape(name)}' src='data:image/png;base64,{base64.b64encode(data).decode()}'></p>"


def table(rows: list[Row]) -> str:
    """Milliseconds of everyone, the fastest in bold, and the largest relative error of an answer."""
    names = [who for who in NAMES if any(median(r, who) for r in rows)]
    lines = ["<table><thead><tr><th>case</th><th></th>" + "".join(f"<th>{NAMES[n]}</th>" for n in names)]
    lines.append("<th>error</th></tr></thead><tbody>")
    for r in rows:
        fastest = min(t["median"] for t in r["times"])
        cells = []
        for n in names:
            m = median(r, n)
            best = " class='best'" if m == fastest else ""
            cells.append(f"<td{best}>{1e3 * m:.3g}</td>" if m is not None else "<td></td>")
        error = max(t["error"] for t in r["times"])
        wrong = " class='wrong'" if error > r["tolerance"] else ""
        lines.append(
            f"<tr><td>{html.escape(label(r))}</td><td>{r['what']}</td>{''.join(cells)}<td{wrong}>{error:.0e}</td></tr>"
        )
    return "\n".join([*lines, "</tbody></table><p class='note'>Milliseconds; the fastest in bold.</p>"])


def gains_table(rows: list[Row], threads: int) -> str:
    """How many times faster `multicore` is than `c`, what the machine gave, and which rows fall short."""
    found = [(r, s) for r in rows if (s := speedup(r))]
    lines = [
        f"<table><thead><tr><th>case</th><th></th><th>c / multicore</th><th>best runs</th><th>{threads} copies of c at "
        "once</th><th>limit</th></tr></thead><tbody>"
    ]
    for r, s in found:
        wrong = " class='wrong'" if s.missed else ""
        machine = "" if s.machine is None else f"{s.machine:.2f}"
        lines.append(
            f"<tr><td>{html.escape(label(r))}</td><td>{r['what']}</td><td{wrong}>{s.gain:.2f}</td><td>{s.best:.2f}</td>"
            f"<td>{machine}</td><td>{s.verdict}</td></tr>"
        )
    note = (
        f"Speed-up by {threads} threads. Rows have the work for it where c takes at least "
        f"{1e3 * least_work(threads):.2f} ms. {summary([s for _, s in found])}."
    )
    return "\n".join([*lines, f"</tbody></table><p class='note'>{note}</p>"])


# --- Plots -------------------------------------------------------------------------------------------


def figures(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each plot with its name, which ends in the number of threads."""
    for ceiling, rows in threads_of(record):
        n = ceiling["threads"]
        title = f"{n} thread{'s' * (n > 1)}"
        yield f"time against size {n}", sizes_plot(rows, title)
        yield f"ratio to others {n}", ratios_plot(rows, title)
        yield f"derivative over objective {n}", overheads_plot(rows, title)
        if any(r["bound"] for r in rows):
            yield f"share of the ceiling {n}", shares_plot(rows, title)
        if n > 1:
            yield f"speed-up {n}", threads_plot(rows, title)


def png(figure: Any) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120)
    return out.getvalue()


def canvas(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for a in axes.flat:
        a.spines[["top", "right"]].set_visible(False)
        a.tick_params(labelsize=8)
    return figure, axes


def legend(figure: Any, who: list[str], extra: Sequence[Any] = ()) -> None:
    """One legend below all plots of the figure."""
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], color=COLOURS[w], marker=MARKERS[w], linestyle="", label=NAMES[w]) for w in who]
    figure.legend(handles=[*marks, *extra], loc="outside lower center", ncols=7, fontsize=8, frameon=False)


def plain(axis: Any) -> None:
    """Numbers on a logarithmic axis as people write them, and enough of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,), numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())


def sizes_plot(rows: list[Row], title: str) -> Any:
    """A small plot for each program: milliseconds of everyone against the work, both logarithmic."""
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(r["case"] for r in rows))
    columns = 4
    lines = -(-len(names) // columns)
    figure, axes = canvas(lines, columns, 12, 0.9 + 2.6 * lines)
    present = [w for w in NAMES if any(median(r, w) for r in rows)]
    for a, name in zip(axes.flat, names, strict=False):
        mine = [r for r in rows if r["case"] == name]
        for part, style in zip(PARTS, ("--", "-"), strict=True):
            own = sorted((r for r in mine if r["what"] == part), key=lambda r: r["work"])
            for who in present:
                points = [(r["work"], 1e3 * m) for r in own if (m := median(r, who)) is not None]
                if points:
                    face = COLOURS[who] if part == "derivative" else "white"
                    a.plot(*zip(*points, strict=True), style, color=COLOURS[who], marker=MARKERS[who], markersize=4,
                           linewidth=1, markerfacecolor=face)  # fmt: skip
        a.set_xscale("log")
        a.set_yscale("log")
        plain(a.yaxis)
        ticks = {r["work"]: r["size"] for r in mine}
        a.set_xticks(list(ticks), [short_size(s) for s in ticks.values()], fontsize=6.5)
        a.minorticks_off()
        a.margins(x=0.12)
        a.set_title(name, fontsize=10)
        a.grid(alpha=0.25)
    for a in list(axes.flat)[len(names) :]:
        a.set_visible(False)
    for line in axes:
        line[0].set_ylabel("ms", fontsize=8)
    kinds = [Line2D([], [], color="black", linestyle=s, label=p) for p, s in zip(PARTS, ("--", "-"), strict=True)]
    legend(figure, present, kinds)
    figure.suptitle(f"Time against size, {title}", fontsize=12, x=0.01, ha="left")
    return figure


def short_size(size: str) -> str:
    """One equation a line, and long numbers in thousands."""
    out = []
    for part in size.split():
        name, equals, number = part.partition("=")
        if number.isdigit() and int(number) >= 10000:
            number = f"{int(number) / 1000:.4g}k"
        out.append(name + equals + number)
    return "\n".join(out)


def dots(
    axes: Any, labels: list[str], series: dict[str, list[float | None]], reference: float | None, log: bool = True
) -> None:
    """A line for each label, with a mark for each series."""
    axes.set_axisbelow(True)
    axes.set_yticks(range(len(labels)), labels, fontsize=7.5)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    for i in range(0, len(labels), 2):
        axes.axhspan(i - 0.5, i + 0.5, color="#f4f4f2", zorder=0)
    if log:
        axes.set_xscale("log")
    for who, values in series.items():
        points = [(v, i) for i, v in enumerate(values) if v is not None]
        if points:
            axes.plot(*zip(*points, strict=True), color=COLOURS[who], marker=MARKERS[who], markersize=5, linestyle="")
    if log:
        plain(axes.xaxis)
    if reference is not None:
        axes.axvline(reference, color="black", linewidth=1)
    axes.grid(axis="x", alpha=0.3)


def ratios_plot(rows: list[Row], title: str) -> Any:
    """Everyone else's time over that of the faster of our backends; right of the line we are faster."""
    both = pairs(rows)
    figure, axes = canvas(1, 2, 12, 1.6 + 0.24 * len(both))
    present = [w for w in NAMES if any(w in others(r) for r in rows)]
    for a, part, of in zip(axes[0], PARTS, zip(*both, strict=True), strict=True):
        series = {w: [others(r)[w] / best_of_ours(r) if w in others(r) else None for r in of] for w in present}
        dots(a, [label(r) for r in of], series, 1)
        a.set_title(part, fontsize=10)
        a.set_xlabel("time / futad's (right of the line futad is faster)", fontsize=8)
    axes[0][1].set_yticklabels([])
    legend(figure, present)
    figure.suptitle(f"Times of others over futad's, {title}", fontsize=12, x=0.01, ha="left")
    return figure


def overheads_plot(rows: list[Row], title: str) -> Any:
    """The derivative's time over the objective's."""
    both = pairs(rows)
    figure, axes = canvas(1, 1, 9, 1.6 + 0.24 * len(both))
    series: dict[str, list[float | None]] = {}
    for who in NAMES:
        values = []
        for objective, derivative in both:
            times = [others(r).get(who) if who not in OURS else median(r, who) for r in (objective, derivative)]
            values.append(times[1] / times[0] if times[0] and times[1] else None)
        if any(values):
            series[who] = values
    dots(axes[0][0], [label(a) for a, _ in both], series, 1)
    axes[0][0].set_xlabel("derivative / objective", fontsize=8)
    legend(figure, list(series))
    figure.suptitle(f"What a derivative costs, {title}", fontsize=12, x=0.01, ha="left")
    return figure


def shares_plot(rows: list[Row], title: str) -> Any:
    """The least time that matrix products or moving data take on this machine over the time taken."""
    bound = [r for r in rows if r["bound"]]
    figure, axes = canvas(1, 1, 9, 1.6 + 0.22 * len(bound))
    present = [w for w in NAMES if any(median(r, w) for r in bound)]
    series = {w: [100 * r["bound"] / m if (m := median(r, w)) is not None else None for r in bound] for w in present}
    dots(axes[0][0], [f"{label(r)}  {r['what']}" for r in bound], series, 100, log=False)
    axes[0][0].set_xlim(left=0)
    axes[0][0].set_xlabel("% of the ceiling: dense matrix products, or copying", fontsize=8)
    legend(figure, present)
    figure.suptitle(f"Share of what the machine can do, {title}", fontsize=12, x=0.01, ha="left")
    return figure


def threads_plot(rows: list[Row], title: str) -> Any:
    """How many times faster `multicore` is than `c`, which has one thread, in the same run: filled marks where the row
    has the work for it.  Crosses are what copies of `c` reach at once, the line is the limit."""
    from matplotlib.lines import Line2D

    both = pairs(rows)
    figure, axes = canvas(1, 2, 12, 1.6 + 0.2 * len(both))
    for a, part, of in zip(axes[0], PARTS, zip(*both, strict=True), strict=True):
        dots(a, [label(r) for r in of], {}, limit(of[0]["threads"]), log=False)
        found: list[tuple[int, Speedup]] = [(i, s) for i, r in enumerate(of) if (s := speedup(r))]
        for enough, face in ((True, COLOURS["multicore"]), (False, "white")):
            points = [(s.gain, i) for i, s in found if s.enough == enough]
            if points:
                a.plot(*zip(*points, strict=True), "s", color=COLOURS["multicore"], markersize=5, markerfacecolor=face)
        machine = [(s.machine, i) for i, s in found if s.machine is not None]
        if machine:
            a.plot(*zip(*machine, strict=True), "x", color=COLOURS["c"], markersize=5)
        a.set_xlim(left=0)
        a.set_title(part, fontsize=10)
        a.set_xlabel("c / multicore", fontsize=8)
    axes[0][1].set_yticklabels([])
    marks = [
        Line2D([], [], color=COLOURS["multicore"], marker="s", linestyle="", label="c / multicore"),
        Line2D([], [], color=COLOURS["multicore"], marker="s", linestyle="", markerfacecolor="white",
               label="too little work"),
        Line2D([], [], color=COLOURS["c"], marker="x", linestyle="", label="copies of c at once"),
    ]  # fmt: skip
    legend(figure, [], marks)
    figure.suptitle(f"Speed-up by {title}", fontsize=12, x=0.01, ha="left")
    return figure


if __name__ == "__main__":
    sys.exit(main())
