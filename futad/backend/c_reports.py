"""C for reports of what a program binds: calls of a function that whoever checks the run has set.

    int64_t reporter(int64_t number, const void *data, const int64_t *words)

gets a binding's number; a scalar's address, and NULL; or where an array's first element is, and its shape and strides
(in elements).  Of an array that is one value everywhere `data` is that value.  Of one that counts they are the first
value and the step, and the words begin with the offset at which to count.  If the reporter returns anything but 0 the
run ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.backend.emit import c_type
from futad.imp import ir
from futad.imp.report import Reports

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter

RUNTIME = r"""
#include <signal.h>
#include <unistd.h>

typedef int64_t (*futad_reporter_t)(int64_t number, const void *data, const int64_t *words);
static _Thread_local futad_reporter_t futad_reporter;
#define FUTAD_REPORTER futad_reporter
static volatile int64_t futad_last = -1; /* the last binding that agreed */

static const int futad_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction futad_actions[sizeof futad_signals / sizeof *futad_signals];

static void futad_say(const char *text) {
  if (write(2, text, strlen(text)) < 0) return;
}

/* Tell how far the program came before it crashes. */
static void futad_crashed(int number) {
  futad_say("checked execution: crashed after ");
  futad_say(futad_last < 0 ? "no binding" : futad_reported[futad_last]);
  futad_say("\n");
  signal(number, SIG_DFL);
  raise(number);
}

void futad_report_to(futad_reporter_t reporter) {
  futad_reporter = reporter;
  futad_last = -1;
  for (size_t i = 0; i < sizeof futad_signals / sizeof *futad_signals; i++) {
    struct sigaction ours = {.sa_handler = futad_crashed};
    sigaction(futad_signals[i], reporter ? &ours : &futad_actions[i], reporter ? &futad_actions[i] : NULL);
  }
}

static __attribute__((noinline, unused)) bool futad_report(struct futad_context *ctx, int64_t number, const void *data,
                                                           const int64_t *words) {
  if (!futad_reporter) return false;
  if (!futad_reporter(number, data, words)) {
    futad_last = number;
    return false;
  }
  futad_fail(ctx, FUTAD_ASSERT, -1, 0, 0, 0, 0);
  return true;
}
"""


def runtime(reports: Reports) -> list[str]:
    """What reports need, in lines."""
    names = ", ".join([f'"{v!r}"' for v in reports.numbers] or ["NULL"])
    return [f"static const char *const futad_reported[] = {{{names}}};", *RUNTIME.splitlines()]


def emit(em: CEmitter, s: ir.Report) -> None:
    """A report, in one line."""
    t = c_type(s.elem)
    words = [em.expr(e) for e in (*s.shape, *s.strides)]
    if s.value is None:
        data = em.address(s.pointer, s.offset)
        em.line(f"if (futad_report(ctx, {s.number}, {data}, {_words(words)})) goto {em.label};")
        return
    values = em.expr(s.value)
    if s.step is not None:
        values += f", {em.expr(s.step)}"
        words.insert(0, em.expr(s.offset))
    given = _words(words) if s.shape or s.step is not None else "NULL"
    reported = f"const {t} reported[] = {{{values}}};"
    em.line(f"{{ {reported} if (futad_report(ctx, {s.number}, reported, {given})) goto {em.label}; }}")


def _words(words: list[str]) -> str:
    return f"(const int64_t[]){{{', '.join(words)}}}"
