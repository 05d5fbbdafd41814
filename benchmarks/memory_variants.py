"""The variants of divide-and-conquer checkpointing: two trees, two splits, three limits (Siskind and Pearlmutter, OMS
33, 2018, section 5), on the nest of `programs/adaptive.fut`.

A binary tree and treeverse reverse the same iterations from the same states: one implementation, whose runs and states
are those of both references (`reference/schedules.py`).  All six have single iterations as leaves, and with that the
same gradient to the bit.
"""

from __future__ import annotations

from typing import Any

from memory_figures import PROGRAMS, Bar, relative
from memory_inputs import rotated
from reference.schedules import Split, binary, binomial, bisection, most, online, runs, stack, treeverse

LENGTH, SIZE = 803, 1000
SPLITS: dict[str, Split] = {"binomial": binomial, "bisection": bisection}
LIMITS: dict[str, dict[str, Any]] = {
    "space": {"checkpoints": 9},
    "time": {"reruns": 4},
    "logarithm": {"checkpoints": "log"},
}


def variants(length: int = LENGTH) -> tuple[list[dict[str, Any]], list[Bar]]:
    """The rows, and the bars on them.

    With a limit on space the length is not known beforehand: states are thinned out on the way (`online`).  The other
    limits need it, and count the iterations first.
    """
    import futad

    rows: list[dict[str, Any]] = []
    args = rotated(length, SIZE)
    print(f"l = {length}\n{'split':10} {'limit':10} {'iterations':>10} {'states':>7} {'runs':>8} "
          f"{'in theory':>10} {'binary':>8} {'treeverse':>10}")  # fmt: skip
    for method, split in SPLITS.items():
        for limit, options in LIMITS.items():
            program = futad.load(str(PROGRAMS / "adaptive.fut"), backend="c", method=method, **options)
            gradient = program.gradient(*args)
            [m] = [m for m in program._executable.measured() if "runs" in m.sums]
            n, allowed, held = m.sums["iterations"], m.sums["states"], m.sums["held"] // m.sums["state"]
            if limit == "space":
                total, _, peak = online(n, allowed, split)
            else:
                steps = stack(n, allowed, split)
                total, peak = runs(steps), most(steps)
            # The loop's results are one iteration more, whose state is the first to be reached.
            trees = {tree.__name__: runs(tree(n + 1, allowed, split)) for tree in (binary, treeverse)}
            row = {"method": method, "limit": limit, "iterations": n, "states": held, "runs": m.sums["runs"]}
            row |= {"theory": total, "peak": peak, **trees, "gradient": gradient.tobytes().hex()}
            row["error"] = relative([gradient], args[2:])
            rows.append(row)
            print(f"{method:10} {limit:10} {n:>10,} {held:>7,} {row['runs']:>8,} {total:>10,} {trees['binary']:>8,} "
                  f"{trees['treeverse']:>10,}", flush=True)  # fmt: skip
    counted = [r for r in rows if r["limit"] != "space"]
    return rows, [
        Bar("runs that are not those of theory", sum(r["runs"] != r["theory"] for r in rows), 0),
        Bar("states that are not those of theory", sum(r["states"] != r["peak"] for r in rows), 0),
        Bar("runs that are not a tree's where the length is counted",
            sum(not r["runs"] == r["binary"] == r["treeverse"] for r in counted), 0),
        Bar("trees that differ", sum(r["binary"] != r["treeverse"] for r in rows), 0),
        Bar("runs over a tree's where the length is not known", max(r["runs"] / r["binary"] for r in rows), 1.6),
        Bar("gradients with other bits", len({r["gradient"] for r in rows}) - 1, 0),
        Bar("largest relative error", max(r["error"] for r in rows), 1e-7),
    ]  # fmt: skip
