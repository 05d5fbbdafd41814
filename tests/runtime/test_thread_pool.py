"""The threads of `multicore` (`kernels/thread_pool.h`): every chunk of a job is done once, by whoever is free."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import futad
from futad.errors import BackendError
from futad.runtime import cc
from futad.runtime.cc import build_library
from futad.runtime.ffi import share_pool
from tests.support.paths import ROOT

KERNELS = ROOT / "kernels"

SOURCE = """
#include "prelude.h"
#include "thread_pool.h"
static void count(void *job, int64_t i) { __atomic_add_fetch(&((int64_t *)job)[i], 1, __ATOMIC_RELAXED); }

/* So many jobs, with a rest after some of them; whether each chunk of each was done once. */
int jobs(int64_t threads, int64_t chunks, int64_t jobs) {
  int64_t counts[FUTAD_POOL_MOST] = {0};
  futad_pool_set_threads(threads);
  for (int64_t i = 1; i <= jobs; i++) {
    futad_pool_run(chunks, INT64_MAX, count, counts);
    for (int64_t p = 0; p < FUTAD_POOL_MOST; p++)
      if (counts[p] != (p < chunks ? i : 0)) return 0;
    if (i % 3 == 0) futad_pool_idle();
    if (i % 50 == 0) usleep(100);
  }
  futad_pool_idle();
  return 1;
}
void futad_pool_end(void) { futad_pool_idle(); }
/* A thread is about to sleep, or to wake others. */
void hold(void) {
#ifndef FUTAD_POOL_LINUX
  pthread_mutex_lock(&futad_pool->mutex);
#endif
  futad_pool->taken = 1;
}
void let_go(void) {
#ifndef FUTAD_POOL_LINUX
  pthread_mutex_unlock(&futad_pool->mutex);
#endif
  futad_pool->taken = 0;
}
int workers(void) { return futad_pool->workers; }
int asleep(void) { return (int)futad_pool->sleeping; }

/* What the first chunk waits for another one does, so two threads are needed. */
static int met;
static void meet(void *job, int64_t i) {
  const int64_t end = futad_pool_clock() + 10000000000;
  __atomic_add_fetch(&met, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&met, __ATOMIC_SEQ_CST) < 2 && futad_pool_clock() < end) FUTAD_POOL_PAUSE();
}
int meeting(void) {
  met = 0;
  futad_pool_set_threads(2);
  futad_pool_run(2, INT64_MAX, meet, NULL);
  return met;
}
/* Which of some jobs of a call with so many nanoseconds each are worth several threads, a bit each. */
int64_t paying(int64_t ns, int64_t count, int awake) {
  int64_t bits = 0;
  futad_pool_idle();
  for (int i = 0; i < 1000 && futad_pool->sleeping < (uint32_t)futad_pool->workers; i++) usleep(1000);
  for (int64_t i = 0; i < count; i++) {
    if (awake) meeting();
    bits |= (int64_t)futad_pool_pays(ns) << i;
  }
  futad_pool_idle();
  return bits;
}
/* Several threads have taken so long for a job that one does in `ns`. */
void balance(int64_t ns, int64_t took) { futad_pool_balance(futad_pool, ns, took); }
/* Which of some jobs of one kind several threads are to do, and which of the others are measured. */
int64_t several(int64_t ns, int64_t count, int64_t measured) {
  struct futad_speed speed = {0};
  int64_t bits = 0;
  for (int64_t i = 0; i < count; i++) {
    if (futad_pool_several(ns, &speed)) bits |= !measured ? (int64_t)1 << i : 0;
    else if (futad_pool_watched(&speed)) {
      bits |= measured ? (int64_t)1 << i : 0;
      futad_pool_took(ns, 1, true, &speed);
    }
  }
  futad_pool_idle();
  return bits;
}
/* What is expected of a job after three, each measured in one thread or in several. */
int64_t expected(int64_t a, int one_a, int64_t b, int one_b, int64_t c, int one_c) {
  struct futad_speed speed = {0};
  futad_pool_took(a, 10, one_a, &speed);
  futad_pool_took(b, 10, one_b, &speed);
  futad_pool_took(c, 10, one_c, &speed);
  return futad_pool_expected(10, 1, &speed);
}
/* The nanoseconds of a worker's slice, as the kernel says; 0 if it does not. */
int64_t slice(void) {
  int64_t attributes[8] = {0}; /* the fourth is the run time */
#ifdef FUTAD_POOL_LINUX
  for (int i = 0; i < 1000 && futad_pool->sleeping < (uint32_t)futad_pool->workers; i++) usleep(1000);
  if (syscall(SYS_sched_getattr, futad_pool->worker[0].id, attributes, sizeof attributes, 0)) return 0;
#endif
  return attributes[3];
}
/* A worker that was last where the caller is: whether it may not run there any more. */
int spread(void) {
#ifdef FUTAD_POOL_LINUX
  uint64_t mask[FUTAD_POOL_CPUS / 64], here;
  struct futad_pool_worker *m = &futad_pool->worker[0];
  m->cpu = futad_pool_cpu();
  here = (uint64_t)m->cpu;
  futad_pool_spread(futad_pool);
  memset(mask, 0, sizeof mask);
  syscall(SYS_sched_getaffinity, m->id, sizeof mask, mask);
  return m->cpu == -1 && !(mask[here / 64] >> here % 64 & 1);
#else
  return 1;
#endif
}
"""


@pytest.fixture(scope="module", params=["", "-DFUTAD_POOL_PORTABLE"])
def pool(request: pytest.FixtureRequest) -> ctypes.CDLL:
    try:
        return build_library(SOURCE, threads=True, flags=[request.param] if request.param else [])
    except BackendError:
        pytest.skip("no C compiler")


def jobs(pool: ctypes.CDLL, threads: int, chunks: int, count: int) -> bool:
    return bool(pool.jobs(ctypes.c_int64(threads), ctypes.c_int64(chunks), ctypes.c_int64(count)))


@pytest.mark.parametrize(("threads", "chunks"), [(1, 1), (1, 5), (2, 0), (2, 2), (3, 2), (3, 64), (8, 7)])
def test_every_chunk_is_done_once(pool: ctypes.CDLL, threads: int, chunks: int) -> None:
    assert jobs(pool, threads, chunks, 2000 if threads <= 3 else 200)
    assert pool.workers() < 8


def test_callers_at_the_same_time(pool: ctypes.CDLL) -> None:
    good = []
    callers = [threading.Thread(target=lambda: good.append(jobs(pool, 2, 3, 3000))) for _ in range(3)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert good == [True] * 3


def test_chunks_are_done_at_the_same_time(pool: ctypes.CDLL) -> None:
    assert all(pool.meeting() == 2 for _ in range(20))
    pool.futad_pool_end()


def test_workers_sleep_after_a_call(pool: ctypes.CDLL) -> None:
    assert jobs(pool, 3, 3, 10)
    # By tries, not by the clock: a machine that stands still for seconds takes one of them.
    assert any(pool.asleep() == pool.workers() or time.sleep(0.001) for _ in range(60_000))
    assert pool.workers() > 0


def test_which_jobs_pay(pool: ctypes.CDLL) -> None:
    assert jobs(pool, 2, 2, 10)
    pool.paying.restype = ctypes.c_int64

    def paying(ns: int, awake: bool, count: int = 8) -> int:
        return pool.paying(ctypes.c_int64(ns), ctypes.c_int64(count), awake)

    assert paying(1_000, False) == 0
    assert paying(10_000, False) == 0b10001000  # four make the threshold
    assert paying(100_000, False) == 0b11111111
    assert any(paying(10_000, True, 1) for _ in range(200))  # either may be interrupted until the other one sleeps
    assert paying(1_000, True) == 0
    pool.futad_pool_set_threads(ctypes.c_int64(1))
    assert paying(100_000, False) == 0
    pool.futad_pool_set_threads(ctypes.c_int64(2))


def test_short_jobs_rest_after_losses(pool: ctypes.CDLL) -> None:
    """Note [Rests]: a rest is so many nanoseconds of short jobs, twice as many the next time."""
    pool.paying.restype = ctypes.c_int64
    pool.futad_pool_set_threads(ctypes.c_int64(2))

    def balance(ns: int, took: int) -> None:
        pool.balance(ctypes.c_int64(ns), ctypes.c_int64(took))

    def refused(ns: int, count: int) -> int:
        return count - pool.paying(ctypes.c_int64(ns), ctypes.c_int64(count), False).bit_count()

    balance(100_000, 0)  # whatever was before: a gain, and no rest
    assert refused(100_000, 30) == 0
    balance(100_000, 140_000)
    assert refused(100_000, 30) == 0  # less than what was saved
    for rest in (10, 20, 40):
        balance(10_000, 4_000_000)
        assert refused(300_000, 30) == 0  # long jobs do not rest
        assert refused(100_000, 50) == rest
    balance(100_000, 30_000)
    balance(100_000, 70_000)  # gains enough to begin with short rests again
    balance(10_000, 4_000_000)
    assert refused(100_000, 50) == 10
    balance(100_000, 0)


def test_short_jobs_are_measured_in_one_thread(pool: ctypes.CDLL) -> None:
    pool.several.restype = ctypes.c_int64
    pool.futad_pool_set_threads(ctypes.c_int64(2))
    pool.balance(ctypes.c_int64(100_000), ctypes.c_int64(0))

    def several(ns: int, measured: bool) -> int:
        return pool.several(ctypes.c_int64(ns), ctypes.c_int64(62), ctypes.c_int64(measured))

    assert several(100_000, False) == (1 << 62) - 1 - 0b10
    assert several(100_000, True) == 0b10
    assert several(300_000, False) == (1 << 62) - 1
    assert several(1_000, False) == 0
    assert several(1_000, True) == sum(1 << i for i in range(62) if i == 0 or i % 8 == 1)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ([(100, 1), (100, 1), (100, 1)], 100),
        ([(100, 0), (40, 1), (100, 0)], 40),  # several threads say how long it takes one until that is measured
        ([(100, 0), (100, 0), (40, 1)], 40),
        ([(40, 1), (20, 1), (20, 1)], 25),  # less time says more than more
        ([(160, 1), (1000, 1), (170, 1)], 170),
        ([(160, 1), (176, 1), (161, 1)], 161),
        ([(1_000_000, 1), (800_000, 0), (900_000, 0)], 900_000),  # long ones are done by several threads alone
    ],
)
def test_what_jobs_are_expected_to_take(pool: ctypes.CDLL, measured: list[tuple[int, int]], expected: int) -> None:
    pool.expected.restype = ctypes.c_int64
    args = [f(x) for ns, one in measured for f, x in ((ctypes.c_int64, ns), (ctypes.c_int, one))]
    assert pool.expected(*args) == expected


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_worker_is_kept_off_the_callers_processor(pool: ctypes.CDLL) -> None:
    for _ in range(3000):  # the caller may move in between, and does where others compute
        assert jobs(pool, 2, 2, 10)
        if any(pool.spread() for _ in range(20)):
            return
        time.sleep(0.01)
    raise AssertionError("no worker was moved off the caller's processor")


KERNEL = tuple(int(x) for x in re.findall(r"\d+", platform.release())[:2]) if sys.platform == "linux" else (0, 0)


@pytest.mark.skipif(KERNEL < (6, 12), reason="a kernel on which threads do not choose their slice")
def test_worker_has_short_slices(pool: ctypes.CDLL, request: pytest.FixtureRequest) -> None:
    """So that it runs soon after it is woken, whatever else its processor does."""
    assert jobs(pool, 2, 2, 10)
    pool.slice.restype = ctypes.c_int64
    portable = request.node.callspec.params["pool"] != ""
    assert pool.slice() == (0 if portable else 100_000)


@pytest.mark.slow
def test_programs_share_one_pool(pool: ctypes.CDLL) -> None:
    others = [build_library(f"{SOURCE}int other{k};\n", threads=True, flags=["-O1"]) for k in range(2)]
    for library in others:
        share_pool(library)
    assert jobs(others[0], 3, 3, 10)
    workers = others[0].workers()
    assert workers >= 2 and others[1].workers() == workers
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir())) if tasks.exists() else 0
    assert jobs(others[1], 3, 3, 10)
    assert others[1].workers() == workers
    assert others[1].meeting() == 2, "a worker that runs another library's code is woken"
    others[1].futad_pool_end()
    assert not tasks.exists() or len(list(tasks.iterdir())) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork_while_a_thread_has_the_pool(pool: ctypes.CDLL) -> None:
    assert jobs(pool, 2, 2, 10)
    pool.hold()
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        os._exit(0 if pool.meeting() == 2 and jobs(pool, 3, 3, 300) else 1)
    pool.let_go()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert jobs(pool, 2, 2, 10)


WATCHED = """
#include "prelude.h"
#include "thread_pool.h"
struct job { int64_t done[3], next; double x[1024]; };
static void add(void *job, int64_t i) {
  struct job *j = job;
  j->done[i]++;
  for (int64_t k; (k = __atomic_fetch_add(&j->next, 16, __ATOMIC_RELAXED)) < 1024;)
    for (int64_t q = k; q < k + 16; q++) j->x[q] += 1;
}
int main(void) {
  static struct job j;
  futad_pool_set_threads(3);
  for (int64_t iteration = 1; iteration <= 3000; iteration++) {
    j.next = 0;
    futad_pool_run(3, INT64_MAX, add, &j);
    for (int i = 0; i < 3; i++)
      if (j.done[i] != iteration) return 1;
    for (int k = 0; k < 1024; k++)
      if (j.x[k] != iteration) return 2;
    if (iteration % 3 == 0) futad_pool_idle();
    if (iteration % 100 == 0) usleep(100);
  }
  return 0;
}
"""


def watched(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """A run of `WATCHED` under the thread sanitizer, with headers in the folder instead of those of `kernels/`."""
    for name, text in cc.headers().items():
        if not (folder / name).exists():
            (folder / name).write_text(text)
    (folder / "watched.c").write_text(WATCHED)
    build = ["-O1", "-g", "-o", "watched", "-w", "-fsanitize=thread", *flags, "-I.", "watched.c", "-lm"]
    try:
        made = subprocess.run(["cc", *build, "-pthread"], cwd=folder, capture_output=True, text=True, timeout=300)
    except FileNotFoundError:
        pytest.skip("no C compiler")
    if made.returncode:
        assert "error:" not in made.stderr, made.stderr  # of the program itself
        pytest.skip(f"no thread sanitizer: {made.stderr[:200]}")
    # Where the address space is laid out at random the sanitizer may find no place for its shadow.
    fixed = ["setarch", platform.machine(), "-R"] if shutil.which("setarch") else []
    done = subprocess.run([*fixed, "./watched"], cwd=folder, capture_output=True, text=True, timeout=300)
    if "unexpected memory mapping" in done.stderr or "setarch:" in done.stderr:
        pytest.skip(done.stderr[:200])
    return done


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["-DFUTAD_POOL_PORTABLE"]], ids=["linux", "portable"])
def test_no_races(tmp_path: Path, flags: list[str]) -> None:
    """Threads see what the caller wrote before a job, and the caller what they wrote, by the pool's own order alone."""
    done = watched(tmp_path, *flags)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_race_is_found(tmp_path: Path) -> None:
    """If workers said without any order that they are done."""
    text = (KERNELS / "thread_pool.h").read_text()
    assert text.count("add_fetch(&t->done, 1, __ATOMIC_SEQ_CST)") == 1
    weaker = text.replace("(&t->done, 1, __ATOMIC_SEQ_CST)", "(&t->done, 1, __ATOMIC_RELAXED)")
    (tmp_path / "thread_pool.h").write_text(weaker)
    done = watched(tmp_path)
    assert done.returncode != 0 and "data race" in done.stderr


FORKS = """
import os, sys
import numpy as np
import futad
os.environ["OMP_NUM_THREADS"] = "2"
prog = futad.compile("entry main (xs: []f64) = f64.sum (map f64.exp xs)", backend="multicore")
xs = np.linspace(0, 1, 300_000)
want = prog.main(xs)
child = os.fork()
if child == 0:
    os._exit(0 if prog.main(xs) == want else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) or int(prog.main(xs) != want))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_after_a_fork() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_number_of_threads_decides_the_answer() -> None:
    """Not who is free: sums of the same chunks are added in the same order, also while somebody else has the pool."""
    prog = futad.compile("entry main (xs: []f64) = f64.sum (map f64.sin xs)", backend="multicore")
    xs = np.random.default_rng(1).standard_normal(200_000)
    want = prog.main(xs)
    results: list[float] = []
    callers = [threading.Thread(target=lambda: results.extend(prog.main(xs) for _ in range(50))) for _ in range(2)]
    other = futad.compile("entry main (xs: []f64) = f64.product (map f64.cos xs)", backend="multicore")
    callers.append(threading.Thread(target=lambda: [other.main(xs) for _ in range(50)]))
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert results == [want] * 100
