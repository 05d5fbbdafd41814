"""All tests check the IR after every pass; shares of slow tests, order, flags for C, what several tests need."""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import signal
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from futad import checks
from futad.runtime import cc
from tests.support.precompiled import with_precompiled

os.environ.setdefault(checks.VARIABLE, checks.IR)
os.environ.setdefault("FUTAD_QUICK", "0")  # one build of each program, and nothing in the background
os.environ.setdefault("FUTAD_PROGRESS", "0")  # whether a compiler takes long depends on the machine's load
# The same examples in every run, others with FUTAD_PROGRAMS; how long one takes depends on the machine.
settings.register_profile(
    "suite", deadline=None, database=None, derandomize="FUTAD_PROGRAMS" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.load_profile("suite")
# Flags for C, by folder: those of `c` (None: what users get), and those of `multicore`, which is the same loops four
# times.  Full optimisation takes three to four times as long as -O1, which vectorises loops marked `omp simd` too, and
# -O1 some time longer than -O0: no folder that needs results alone has it.
RESULTS_ALONE = (
    "source", "core", "rewrite", "optimise", "ad", "dual", "accs", "sparse", "flatten", "api", "python", "distributed",
    "library",
)  # fmt: skip
FLAGS: dict[str, tuple[str | None, str]] = {
    **dict.fromkeys(RESULTS_ALONE, ("-O1", "-O0")),
    **dict.fromkeys(("backend", "imp", "system"), (None, "-O1")),
}
# Tests start some thousand processes; without bytecode each would first compile the modules that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", metavar="K/N", type=share, help="of the slow tests the K-th of N shares, 0 <= K < N")


def share(text: str) -> tuple[int, int]:
    try:
        k, n = (int(part) for part in text.split("/"))
    except ValueError:
        k, n = 0, 0
    if not 0 <= k < n:
        raise argparse.ArgumentTypeError(f"{text!r} is no share: 0/7 is the first of seven")
    return k, n


def in_share(item: pytest.Item, k: int, n: int) -> bool:
    """Whether a slow test is in the k-th of n shares, which depends on names alone.

    The cases of a function are together, as they share what they compile, but for those marked `slow(apart=True)`.
    """
    slow = item.get_closest_marker("slow")
    apart = slow is not None and slow.kwargs.get("apart", False)
    name = item.nodeid if apart else item.nodeid.partition("[")[0]
    return zlib.crc32(name.encode()) % n == k


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Instead of xdist's chunks: workers start with equal shares and take from each other when they are done."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: Any) -> list[pytest.Item] | None:
    """Where slow tests are left out, their cases are not even made: there are more than of all others."""
    if collector.config.getoption("markexpr") != "not slow" or isinstance(obj, type):
        return None
    marks = [*collector.iter_markers("slow"), *[m for m in getattr(obj, "pytestmark", ()) if m.name == "slow"]]
    return [] if marks else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with slow tests come first in each worker's share, so that no worker is in a long test when the others end.

    Files stay whole, as tests of one share what it compiles.
    """
    chosen = config.getoption("--share")
    if chosen is not None:
        left = [i for i in items if i.get_closest_marker("slow") and not in_share(i, *chosen)]
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [i for i in items if i not in gone]
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    with_slow = {i.path for i in items if i.get_closest_marker("slow")}
    parts = [[i for i in items if i.path in with_slow], [i for i in items if i.path not in with_slow]]
    items[:] = [
        i for k in range(workers) for p in parts for i in p[len(p) * k // workers : len(p) * (k + 1) // workers]
    ]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Python looks for cycles among what tests make, and not each time among tests and modules, too."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)
def quick_builds(request: pytest.FixtureRequest) -> Iterator[None]:
    """C compiled no better than the folder needs, unless FUTAD_CFLAGS says otherwise."""
    given = os.environ.get("FUTAD_CFLAGS")
    one, several = (given, "") if given is not None else FLAGS.get(request.path.parent.name, (None, ""))
    build = cc.build_library

    def quick(source: str, *, threads: bool = False, flags: Sequence[str] = ()) -> ctypes.CDLL:
        more = [several] if several and threads and os.environ.get("FUTAD_CFLAGS") == one else []
        return build(source, threads=threads, flags=[*more, *flags])

    with pytest.MonkeyPatch.context() as patch:
        if one is not None:
            patch.setenv("FUTAD_CFLAGS", one)
        patch.setattr(cc, "build_library", quick)
        if request.config.pluginmanager.has_plugin("cacheprovider"):
            patch.setattr(cc, "build_cxx", with_precompiled(cc.build_cxx, request.config.cache.mkdir("futad-headers")))
        yield


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """Shells start what runs in the background with interrupts ignored, and what tests start would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
