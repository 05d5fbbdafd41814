"""The deques of tasks under drawn schedules of operations and stores, and with one of their conditions dropped."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from futad.runtime import cc
from tests.support.needs import needs_cc

pytestmark = needs_cc
HARNESS = Path(__file__).parents[1] / "support" / "deque.c"

#: What makes the deques right (`kernels/tasks.h`), and the code without it.
MUTANTS = {
    "the oldest task is taken": ("&from->tasks[top % FUTAD_DEQUE]", "&from->tasks[(top + 1) % FUTAD_DEQUE]"),
    "one of those who take it has it": (
        "__atomic_compare_exchange_n(&from->top, &top, top + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)",
        "(__atomic_store_n(&from->top, top + 1, __ATOMIC_SEQ_CST), true)",
    ),
    "an empty deque has none": ("if (top >= __atomic", "if (false && top >= __atomic"),
    "its beginning is read before its end": (
        """int64_t top = __atomic_load_n(&from->top, __ATOMIC_SEQ_CST);
  if (top >= __atomic_load_n(&from->bottom, __ATOMIC_SEQ_CST)) return false;""",
        """const int64_t bottom = __atomic_load_n(&from->bottom, __ATOMIC_SEQ_CST);
  int64_t top = __atomic_load_n(&from->top, __ATOMIC_SEQ_CST);
  if (top >= bottom) return false;""",
    ),
    "the owner takes its last one as others do": (
        """top == bottom && __atomic_compare_exchange_n(&own->top, &top, top + 1, false, __ATOMIC_SEQ_CST,
                                                                 __ATOMIC_RELAXED);""",
        "top == bottom;",
    ),
    "the end is where it was if another one has it": (
        "  __atomic_store_n(&own->bottom, bottom + 1, __ATOMIC_RELAXED);\n  return mine;", "  return mine;"
    ),
    "others know what the owner takes before it looks": (
        "__atomic_store_n(&own->bottom, bottom, __ATOMIC_SEQ_CST)",
        "__atomic_store_n(&own->bottom, bottom, __ATOMIC_RELEASE)",
    ),
    "a task is there before it is offered": (
        "__atomic_store_n(&own->bottom, bottom + 1, __ATOMIC_RELEASE)",
        "__atomic_store_n(&own->bottom, bottom + 1, __ATOMIC_RELAXED)",
    ),
    "none is written over": ("offered < FUTAD_DEQUE", "offered <= FUTAD_DEQUE"),
    "who forked waits": ("!__atomic_load_n(&task->done, __ATOMIC_ACQUIRE)", "false"),
    "a task is not done when it is offered": ("task->done = task->taken = 0;", "task->taken = 0;"),
    "what it gives is there when it is done": (
        "__atomic_store_n(&task->done, 1, __ATOMIC_RELEASE)", "__atomic_store_n(&task->done, 1, __ATOMIC_RELAXED)"
    ),
    "its failure is taken over": ("  if (FUTAD_LIKELY(!failed)) return;", "  return;"),
    "the first failure is reported": ("if (!ctx->error.code) { /*", "if (true) { /*"),
    "its failure is not that of who takes it": ("  ctx->error = before.error;\n", ""),
}  # fmt: skip


def run(folder: Path, text: str, schedules: int) -> subprocess.CompletedProcess[str]:
    """Of trees with deques of two tasks, which are full at times."""
    (folder / "tasks.h").write_text(text.replace("#define FUTAD_DEQUE 8", "#define FUTAD_DEQUE 2"))
    made = folder / "deque"
    compiler = cc.find_compiler()
    flags = ["-O1", "-std=gnu11", "-w", f"-I{folder}"]
    subprocess.run([*compiler.command, *flags, str(HARNESS), "-o", str(made)], check=True)
    for members in (2, 3):
        done = subprocess.run([str(made), "1", str(schedules), str(members), "5"], capture_output=True, text=True)
        if done.returncode:
            return done
    return done


def test_each_task_is_done_once(tmp_path):
    done = run(tmp_path, cc.headers()["tasks.h"], 2000)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split()[0]) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("condition", MUTANTS)
def test_a_condition_that_is_dropped_is_found(condition, tmp_path):
    right, without = MUTANTS[condition]
    real = cc.headers()["tasks.h"]
    assert real.count(right) == 1
    done = run(tmp_path, real.replace(right, without), 20000)
    assert done.returncode != 0
