"""The chart and the tables of README and docs/performance.md are what the stored measurements give."""

from __future__ import annotations

import json

import pytest

figures = pytest.importorskip("figures")  # of benchmarks/


def test_pages_and_chart_are_up_to_date():
    for path, text in figures.made().items():
        assert path.read_text() == text, f"python benchmarks/figures.py writes {path.name} anew"


def test_all_rows_are_shown_and_all_answers_were_right():
    every = json.loads((figures.RESULTS / "everyday.json").read_text())
    assert len(every["rows"]) == 30 and not any(r["wrong"] for r in every["rows"])
    assert every["size"] == 1 and every["threads"] == 2
    tuned = figures.measured(figures._read("cpu"))
    assert {r.name for r in tuned} == set(figures.TUNED)
    chart = figures.CHART.read_text()
    for row in [*figures.everyday(every), *tuned]:
        assert f">{figures.escape(figures.name_of(row))}<" in chart


def test_ratios():
    row = figures.Row("x", {"futad": 2.0, "jax": 4.0, "torch": 1.0}, {"futad": 5.0}, {}, {})
    assert figures.ratio(row.value) == 0.5 and figures.ratio(row.value, ["jax"]) == 2
    assert figures.ratio(row.gradient) is None and row.cost == 2.5
    assert figures.ratio({"futad": 1.0, "jax": 3.0}, ["jax"], 10) == 1
    assert figures.mean([2.0, 8.0]) == pytest.approx(4)


def test_shares_of_the_bound_are_shown_where_they_are_known():
    def row(name, dense, **bound):
        times = [{"futad": t, "jax": t} for t in (2.0, 5.0, 1.0)]
        return figures.Row(name, *times, {}, bound, dense)

    without = [row("mlp", True), row("hmm", False)]
    assert "bound" not in figures.table(without) + figures.summary(without)
    known = [row("mlp", True, value=1.0, gradient=1.0), row("vae", True, value=0.2, gradient=2.0), row("hmm", False)]
    lines = figures.table(known).splitlines()
    assert lines[0].endswith("| of the bound: value | gradient |")
    assert lines[2].startswith("| dense net* |") and lines[2].endswith("| 50% | 20% |")
    assert lines[4].startswith("| hidden Markov |") and lines[4].endswith("|  |  |")
    assert len({line.count("|") for line in lines}) == 1
    end = "(*) 1 values (not VAE 10%) and 1 gradients (not dense net 20%) reach a quarter of it."
    assert figures.summary(known).endswith(f"Of the 2 dense regular rows {end}")


def test_everyday_rows_keep_their_bounds():
    systems = {"futad": {"value": 2.0, "gradient": 3.0, "first": 1.0, "memory": 8}}
    found = {"value": {"seconds": 0.5}, "gradient": {"seconds": 1.5}}
    common = {"wrong": "", "systems": systems, "dense": True}
    rows = [{"row": "mlp", "bound": found, **common}, {"row": "vae", "bound": {"failed": "no memory"}, **common}]
    first, second = figures.everyday({"rows": rows})
    assert (first.share("value"), first.share("gradient"), first.dense) == (0.25, 0.5, True)
    assert second.share("value") is None


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda p: p.name)
def test_the_first_page_can_be_read(page):
    text = page.read_text()
    cells = [c for line in text.splitlines() if line.startswith("|") for c in line.split("|")]
    assert text.count("<!-- figures:") == text.count("<!-- end -->") > 0
    if page.name == "README.md":
        assert len(text.splitlines()) < 120
        assert max(map(len, cells)) < 120


def test_places_of_bars():
    """On a logarithmic scale, and within the panel."""
    decade = figures.place(0, 10) - figures.place(0, 1)
    assert figures.place(0, 20) - figures.place(0, 2) == pytest.approx(decade, abs=0.2)
    assert figures.place(0, 1e-9) == figures.place(0, figures.LEFT) < figures.place(0, 1) < figures.place(0, 1e9)
    assert figures.place(0, 1e9) <= figures.NAMES + figures.WIDTH
