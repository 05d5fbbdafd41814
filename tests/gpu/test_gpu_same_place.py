"""Which updates of memory the threads of a warp are thought to make at one place, and what becomes of the others."""

from __future__ import annotations

import re

import pytest

from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import CUDA
from futad.testing.build import device_backend

POLYNOMIAL = "loop y = 0f64 for j < m do y * x + c[j]"
TOGETHER = {
    "a vector that all points read": f"map (\\x -> {POLYNOMIAL}) xs",
    "backwards": "map (\\x -> loop y = 0f64 for j < m do y * x + c[m - 1 - j]) xs",
    "one element": "map (\\x -> f64.sin (x * c[0])) xs",
    "behind a branch": f"map (\\x -> if x > 0 then {POLYNOMIAL} else f64.exp x) xs",
}
APART = {
    "the point's own": "map2 (\\x i -> x * c[i % m] * c[(i * i) % m]) xs (iota n)",
    "what the point says": "map2 (\\x i -> f64.sin (x * c[i])) xs is",
    "where the point's own loop came to":
        "map (\\x -> (loop (y, k) = (x, 0) while y > 0.1 && k < m do (y * 0.5 * c[k], k + 1)).0) xs",
    "from the point on": "map2 (\\x i -> loop y = 0f64 for j < 9 do y * x + c[(i + j) % m]) xs is",
}
TEXT = "entry f [n][m] (c: [m]f64) (xs: [n]f64) (is: [n]i64) = vjp (\\c -> {}) c (map (+ 1) xs)"


def updates(body: str) -> tuple[list[str], int]:
    """The calls in the kernels that update memory, and how often the transformation fired."""
    with counting() as counts:
        source = device_backend(compile_program(compile_text(TEXT.format(body), "m.fut"), target=CUDA)).source
    return re.findall(r"(futad_update\w*)<FUTAD_ATOMIC_ADD>\(&", source), counts["combined-updates"]


@pytest.mark.parametrize("name", TOGETHER)
def test_updates_at_the_same_place(name: str) -> None:
    made, fired = updates(TOGETHER[name])
    assert set(made) == {"futad_update_together"} and fired > 0


@pytest.mark.parametrize("name", APART)
def test_updates_at_places_of_their_own(name: str) -> None:
    made, fired = updates(APART[name])
    assert set(made) <= {"futad_update"} and fired == 0
