"""What the examples have in common: their command line, and pictures where matplotlib is installed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

PALETTE = ("#1b6ca8", "#c65d21", "#3f9b5f", "#7b4fa3", "#8a8a8a")


def run(name: str, document: str, main: Callable[[bool], Callable[[Any], Any]]) -> None:
    """Calls `main(small)`, which prints what it finds, and saves what the function that it returns draws."""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a small size: a second altogether")
    parser.add_argument("--out", type=Path, default=Path(f"{name}.svg"), help="the picture: .svg or .png")
    options = parser.parse_args()
    draw = main(options.small)
    try:
        import matplotlib
    except ImportError:
        print("no picture: pip install matplotlib")
        return
    matplotlib.use("agg")
    matplotlib.rcParams |= {"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9}
    matplotlib.rcParams |= {"font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"]}
    matplotlib.rcParams |= {"axes.spines.top": False, "axes.spines.right": False}
    from matplotlib import pyplot

    draw(pyplot).savefig(options.out, dpi=90, metadata={"Date": None} if options.out.suffix == ".svg" else None)
    print(f"picture: {options.out}")
