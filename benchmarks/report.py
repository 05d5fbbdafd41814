"""A page with plots from the measurements of `cpu.py`: times, derivative over objective, ratio to peers.

    python benchmarks/cpu.py --threads 1 2 --json cpu.json && python benchmarks/report.py cpu.json report.html

The output is one HTML file with everything in it.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

COLOURS = {"c": "tab:blue", "multicore": "tab:green", "numpy": "tab:gray", "jax": "tab:orange"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", type=Path, help="JSON that cpu.py wrote")
    parser.add_argument("page", type=Path, help="the HTML file to write")
    options = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        print("error: the report needs matplotlib: pip install matplotlib", file=sys.stderr)
        return 1
    matplotlib.use("agg")
    record = json.loads(options.measurements.read_text())
    options.page.write_text(page(record))
    return 0


def page(record: dict[str, Any]) -> str:
    """The whole document."""
    parts = [
        "<!doctype html><meta charset='utf-8'><title>futad on the CPU</title>",
        "<style>body{font:15px sans-serif;max-width:70em;margin:2em auto}td,th{padding:.2em .7em;text-align:right}"
        "td:first-child,th:first-child{text-align:left}tr:nth-child(even){background:#f3f3f3}img{max-width:100%}"
        "</style>",
        f"<h1>futad on the CPU</h1><p>{html.escape(record['machine'])}; medians of "
        f"{len(record['rows'][0]['times'][0]['seconds'])} runs.</p>",
    ]
    for ceiling in record["ceilings"]:
        rows = [r for r in record["rows"] if r["threads"] == ceiling["threads"]]
        parts += [
            f"<h2>{ceiling['threads']} thread{'s' * (ceiling['threads'] > 1)}</h2>",
            f"<p>The machine copies {ceiling['copy_bytes'] / 1e9:.1f} GB/s and multiplies matrices at "
            f"{ceiling['dgemm_flops'] / 1e9:.0f} (f64) and {ceiling['sgemm_flops'] / 1e9:.0f} (f32) GFLOP/s.</p>",
            table(rows),
            image("Time", lambda axes, rows=rows: times(axes, rows), len(rows)),
            image("Derivative over objective", lambda axes, rows=rows: overheads(axes, rows), len(rows) // 2),
            image("Times faster than a peer", lambda axes, rows=rows: speedups(axes, rows), len(rows)),
        ]
    return "\n".join(parts) + "\n"


def median(row: dict[str, Any], who: str) -> float | None:
    return next((t["median"] for t in row["times"] if t["who"] == who), None)


def label(row: dict[str, Any]) -> str:
    return f"{row['case']} {row['size']}"


def table(rows: list[dict[str, Any]]) -> str:
    """Milliseconds of everyone, and the largest relative error of an answer."""
    names = [who for who in COLOURS if any(median(r, who) for r in rows)]
    lines = ["<table><tr><th>case</th><th></th>" + "".join(f"<th>{n} ms</th>" for n in names) + "<th>error</th></tr>"]
    for r in rows:
        cells = [f"{1e3 * m:.2f}" if (m := median(r, n)) is not None else "" for n in names]
        error = max(t["error"] for t in r["times"])
        lines.append(
            f"<tr><td>{html.escape(label(r))}</td><td>{r['what']}</td>"
            + "".join(f"<td>{c}</td>" for c in cells)
            + f"<td>{error:.0e}</td></tr>"
        )
    return "\n".join([*lines, "</table>"])


def image(title: str, draw: Callable[[Any], None], bars: int) -> str:
    """A plot as an element with its data inside."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.5 + 0.32 * bars), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    draw(axes)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.4)
    axes.legend(loc="best")
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    data = base64.b64encode(out.getvalue()).decode()
    return f"<p><img alt='{title}' src='data:image/png;base64,{data}'></p>"


def bars(axes: Any, labels: list[str], series: dict[str, list[float | None]], colours: dict[str, str]) -> None:
    """Horizontal bars, a group for each label."""
    height = 0.8 / max(1, len(series))
    for i, (name, values) in enumerate(series.items()):
        places = [j + (i - (len(series) - 1) / 2) * height for j, v in enumerate(values) if v is not None]
        axes.barh(places, [v for v in values if v is not None], height, label=name, color=colours.get(name))
    axes.set_yticks(range(len(labels)), labels)


def times(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Milliseconds on a logarithmic scale."""
    present = [who for who in COLOURS if any(median(r, who) for r in rows)]
    series = {who: [1e3 * m if (m := median(r, who)) else None for r in rows] for who in present}
    bars(axes, [f"{label(r)}: {r['what']}" for r in rows], series, COLOURS)
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds")


def overheads(axes: Any, rows: list[dict[str, Any]]) -> None:
    """The derivative's time over the objective's."""
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    series: dict[str, list[float | None]] = {}
    for who in COLOURS:
        both = [(median(a, who), median(b, who)) for a, b in pairs]
        ratios = [b / a if a and b else None for a, b in both]
        if any(ratios):
            series[who] = ratios
    bars(axes, [label(a) for a, _ in pairs], series, COLOURS)
    axes.set_xlabel("derivative / objective")


def speedups(axes: Any, rows: list[dict[str, Any]]) -> None:
    """A peer's time over that of our fastest backend."""
    ours = [min(m for who in ("c", "multicore") if (m := median(r, who))) for r in rows]
    series: dict[str, list[float | None]] = {}
    for who in ("numpy", "jax"):
        ratios = [m / mine if (m := median(r, who)) else None for r, mine in zip(rows, ours, strict=True)]
        if any(ratios):
            series[who] = ratios
    bars(axes, [f"{label(r)}: {r['what']}" for r in rows], series, COLOURS)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("peer's time / futad's")


if __name__ == "__main__":
    sys.exit(main())
