"""The quick look before the rules of one-hot sums: where it finds nothing, none of them applies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from futad.core import ir
from futad.core.alias import stale
from futad.pipeline import compile_program
from futad.rewrite.dce import asserting_functions
from futad.rewrite.may_vanish import may_sum_one_hot
from futad.rewrite.onehot import SCHEDULE, one_hot_tangents
from futad.rewrite.rules.hot import HOT_SUMS
from futad.rewrite.rules.hot_bins import HOT_BINS, HOT_ENTER
from futad.rewrite.simplify import simplify_fun
from futad.rewrite.strategy import Stats
from futad.source import compile_text, load_program
from futad.testing.fuzz.cases import case
from tests.support.paths import ROOT
from tests.support.slow import slow_but

# What moves histograms needs no zeros: alone it is `hoist`'s.
RULES = {r.name for r in (*HOT_SUMS, *HOT_BINS, *HOT_ENTER)} - {"bins_outside"}
OF_SUMS = {"hot_sum", "hot_hist"}  # also where there are no tangents
PROGRAMS = ("tests/legality/onehot.fut", "benchmarks/programs/forward.fut", "benchmarks/programs/particle.fut")
NONE = (
    "benchmarks/programs/lstm.fut", "benchmarks/programs/rsbench.fut", "benchmarks/programs/gmm.fut",
    "tests/programs/filter_partition.fut",
)  # fmt: skip


def applied(program: ir.Program) -> Iterator[tuple[ir.Fun, set[str]]]:
    """The functions, and the rules that apply to each without the look."""
    asserting, written = asserting_functions(program), stale(program)
    for f in program.funs.values():
        stats = Stats()
        simplify_fun(f, False, asserting, SCHEDULE, stats, written)
        found = RULES & stats.hits.keys()
        tangents = any(ir.DERIVED in s.attrs for s in ir.statements(f.body.stms))
        yield f, found if tangents else found & OF_SUMS


def without_tangents(program: ir.Program) -> ir.Program:
    return compile_program(program, stop_after="simplify-ad")


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS)
def test_no_rule_applies_where_nothing_is_found(path):
    some = 0
    for f, found in applied(without_tangents(load_program(ROOT / path))):
        assert may_sum_one_hot(f) or not found, (f.name, found)
        some += bool(found)
    assert some


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_but(["few_places"], ["forward_gradient", "few_places"]))
def test_the_same_of_random_programs(kind):
    some = 0
    for seed in range(40):
        program = without_tangents(compile_text(case(kind, seed, "f64", ("fwd",)).text()))
        for f, found in applied(program):
            assert may_sum_one_hot(f) or not found, (seed, f.name, found)
            some += bool(found)
    assert some > 10


@pytest.mark.slow
@pytest.mark.parametrize("path", NONE)
def test_programs_of_other_things_are_not_gone_through(path):
    program = without_tangents(load_program(ROOT / path))
    assert not any(map(may_sum_one_hot, program.funs.values()))
    assert one_hot_tangents(program) is program
