"""Time and memory of the nest's gradient against its budget, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memory_figures import Bar, measure

OUT = Path(__file__).resolve().parents[1] / "docs" / "memory.svg"
BUDGETS = [2**k * 1000 for k in range(5, 17)]  # bytes; a state of the nest takes 8,040
LENGTH = 3203


def plot(out: str | None, runs: int, length: int = LENGTH) -> tuple[list[dict[str, Any]], list[Bar]]:
    """The rows, and bars: what loops hold is within the budget, and the process grows by no more than a tenth above."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plain = measure("adaptive", length, {}, runs)
    rows = [{"budget": b, **measure("adaptive", length, {"memory": b}, runs)} for b in BUDGETS]
    for row in rows:
        print(f"{row['budget'] // 1000:>8,} kB: held {row['held'] // 1000:>8,} kB, grew by {row['kB']:>7,} kB, "
              f"{row['seconds']:.3f} CPU s", flush=True)  # fmt: skip
    print(f" without a budget: grew by {plain['kB']:,} kB, {plain['seconds']:.3f} CPU s")
    plt.rcParams.update({"svg.hashsalt": "futad", "svg.fonttype": "none", "font.size": 10})
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(6.4, 6), layout="constrained")
    mega = [r["budget"] / 1e6 for r in rows]
    above.plot(mega, [r["seconds"] / plain["seconds"] for r in rows], "o-", label="with a budget")
    above.axhline(1, color="0.4", linestyle="--", label="without")
    above.set(ylabel="processor time of the gradient,\nwithout a budget = 1", ylim=(0, None))
    below.plot(mega, mega, color="0.7", label="the budget")
    below.plot(mega, [r["held"] / 1e6 for r in rows], "o-", label="states held")
    below.plot(mega, [r["kB"] * 1024 / 1e6 for r in rows], "x", color="C3", label="growth of the process")
    below.axhline(plain["kB"] * 1024 / 1e6, color="0.4", linestyle="--", label="growth without a budget")
    below.set(xlabel="budget in MB", ylabel="MB", xscale="log", yscale="log")
    for axes in (above, below):
        axes.legend()
        axes.grid(alpha=0.3)
    figure.savefig(out or OUT, metadata={"Date": None} if str(out or OUT).endswith(".svg") else None)
    plt.close(figure)
    # Pages that the small call has left are no growth, and a call's own arrays are some kB.
    return [{"budget": None, **plain}, *rows], [
        Bar("bytes held over the budget", max(r["held"] / r["budget"] for r in rows), 1),
        Bar("growth over what is predicted and 64 kB",
            max(r["kB"] * 1024 / (r["predicted"] + 65536) for r in rows), 1.1),
        Bar("largest relative error", max(r["error"] for r in rows), 1e-7),
    ]  # fmt: skip
