"""Folders of the repository."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
BENCHMARKS = ROOT / "benchmarks"
BENCHMARK_PROGRAMS = BENCHMARKS / "programs"
ADBENCH = ROOT.parent / "shared" / "data" / "adbench"  # not part of the repository
