/* The deques of tasks (kernels/tasks.h) under schedules drawn by a seed: members are coroutines, and may be exchanged
 * before each atomic operation. Stores wait in a buffer of their member's until they are drawn: in any order but for
 * those of one place, and but for a release, before which all earlier ones are done. So what a processor may do with
 * stores is done here on any; loads are in order. A tree of tasks is run; each of its leaves is to be run once, the
 * sum of all is to be known after the join, and of leaves that fail the first is to be reported.
 *
 *     deque SEED SCHEDULES MEMBERS DEPTH      prints the first schedule that goes wrong, and how; exit status 1 then
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#define MOST 4
#define STACK (1 << 16)
#define STORES 256
#define STEPS 100000 /* of a schedule, after which it does not end */

static uint64_t state;
static uint32_t drawn(uint32_t below) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (uint32_t)((state >> 20) % below);
}

struct store {
  void *place;
  uint64_t value;
  size_t size;
  bool release;
};
static struct store stores[MOST][STORES];
static int waiting[MOST], now, members;
static int64_t steps;
static ucontext_t there[MOST], end;
static char stacks[MOST][STACK];
static const char *wrong;

static void go_wrong(const char *how) {
  if (!wrong) wrong = how;
  setcontext(&end);
}

static bool may_be_done(int m, int k) {
  if (stores[m][k].release && k) return false;
  for (int i = 0; i < k; i++)
    if (stores[m][i].place == stores[m][k].place) return false;
  return true;
}

static void done(int m, int k) {
  memcpy(stores[m][k].place, &stores[m][k].value, stores[m][k].size);
  memmove(&stores[m][k], &stores[m][k + 1], sizeof(struct store) * (size_t)(--waiting[m] - k));
}

static void all_done(int m) {
  while (waiting[m]) done(m, 0);
}

/* Another member goes on, perhaps; some stores are done. */
static void step(void) {
  if (++steps > STEPS) go_wrong("does not end");
  for (int m = 0; m < members; m++)
    if (waiting[m] && drawn(3) == 0) {
      const int k = (int)drawn((uint32_t)waiting[m]);
      if (may_be_done(m, k)) done(m, k);
    }
  const int before = now, next = (int)drawn((uint32_t)members);
  if (next != before && drawn(2)) {
    now = next;
    swapcontext(&there[before], &there[next]);
  }
}

static void put(void *place, uint64_t value, size_t size, int order) {
  step();
  if (waiting[now] == STORES || order == __ATOMIC_SEQ_CST) all_done(now);
  if (order == __ATOMIC_SEQ_CST)
    memcpy(place, &value, size);
  else
    stores[now][waiting[now]++] = (struct store){place, value, size, order == __ATOMIC_RELEASE};
}

static uint64_t got(const void *place, size_t size) {
  step();
  uint64_t value = 0;
  for (int k = waiting[now] - 1; k >= 0; k--)
    if (stores[now][k].place == place) return stores[now][k].value;
  memcpy(&value, place, size);
  return value;
}

static void both(int order) {
  step();
  if (order >= __ATOMIC_RELEASE) all_done(now);
}

#define __atomic_store_n(p, v, order) put(p, (uint64_t)(v), sizeof *(p), order)
#define __atomic_load_n(p, order) ((__typeof__(*(p)))got(p, sizeof *(p)))
#define __atomic_add_fetch(p, v, order) (both(order), *(p) += (v))
#define __atomic_compare_exchange_n(p, old, v, weak, order, other) \
  (both(order), *(p) == *(old) ? (*(p) = (v), true) : (*(old) = *(p), false))

/* What tasks.h is given. */
#define FUTAD_INLINE static inline
#define FUTAD_LIKELY(x) (x)
#define FUTAD_UNLIKELY(x) (x)
#define FUTAD_POOL_MOST MOST
#define FUTAD_POOL_PAUSE() step()
#define FUTAD_STACK_SLOT 0
#define FUTAD_TASKS_SLOT 1
#define FUTAD_ON(ctx) ((struct futad_stack *)(ctx)->slots[FUTAD_STACK_SLOT].data)
enum { FUTAD_OK, FUTAD_MEMORY };
struct futad_error {
  int64_t code, place, a, b;
};
struct futad_slot {
  void *data;
  int64_t bytes;
};
struct futad_context {
  struct futad_error error;
  int64_t values[4];
  struct futad_slot slots[2];
  struct futad_context **threads;
  bool inside;
};
struct futad_stack {
  bool deep;
  struct futad_member *member;
  uint64_t forks;
  int64_t forked;
};
struct futad_entered {
  struct futad_context *ctx;
};
static void futad_on_stack(struct futad_context *ctx, void (*run)(void *), void *given) { (void)ctx, run(given); }
static struct futad_context *futad_new(void) { return NULL; }
static int64_t futad_pool_threads(void) { return 1; }
static int64_t futad_pool_clock(void) { return 0; }
static bool futad_pool_pays(int64_t last) { return last > 0; }
static bool futad_pool_post(int64_t n, int64_t k, void (*run)(void *, int64_t), void *given) {
  return n && k && run && given;
}
static void futad_pool_finish(int64_t n) { (void)n; }
static void futad_fail(struct futad_context *ctx, int64_t code, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  (void)a, (void)b, (void)c, (void)d, (void)e;
  ctx->error.code = code;
}
static void futad_enter(void *given) { (void)given; }

#include "tasks.h"

/* The tree. */
static struct futad_context contexts[MOST];
static struct futad_stack on[MOST];
static struct futad_members all;
static int64_t runs[1 << 12], failing[2];

struct job {
  struct futad_task task;
  int64_t depth, id, sum;
};

static int64_t tree(struct futad_context *ctx, int64_t depth, int64_t id);

static void run_job(struct futad_task *task, struct futad_context *ctx) {
  struct job *const j = (struct job *)task;
  const int64_t sum = tree(ctx, j->depth, j->id);
  __atomic_store_n(&j->sum, sum, __ATOMIC_RELAXED);
}

static int64_t tree(struct futad_context *ctx, int64_t depth, int64_t id) {
  if (!depth) {
    if (runs[id]++) go_wrong("a task is done twice");
    if (id == failing[0] || id == failing[1]) ctx->error.code = 10 + id;
    return 1;
  }
  if (!futad_forks(ctx)) {
    const int64_t first = tree(ctx, depth - 1, 2 * id);
    return ctx->error.code ? 0 : first + tree(ctx, depth - 1, 2 * id + 1);
  }
  struct job j;
  memset(&j, 1, sizeof j);
  j.task.run = run_job, j.depth = depth - 1, j.id = 2 * id + 1;
  futad_offer(ctx, &j.task);
  const int64_t first = tree(ctx, depth - 1, 2 * id);
  if (futad_retake(ctx)) return ctx->error.code ? 0 : first + tree(ctx, j.depth, j.id);
  futad_await(ctx, &j.task);
  return first + __atomic_load_n(&j.sum, __ATOMIC_RELAXED);
}

static int64_t depth, sum;

static void member(int m) {
  if (!m) {
    sum = tree(&contexts[0], depth, 0);
    all_done(0);
    setcontext(&end);
  }
  for (;;) {
    futad_take_any(&contexts[m], &all, m);
    step();
  }
}

static void schedule(void) {
  memset(&all, 0, sizeof all);
  memset(runs, 0, sizeof runs);
  memset(contexts, 0, sizeof contexts);
  memset(waiting, 0, sizeof waiting);
  all.ctx = &contexts[0], all.count = members;
  const bool fails = drawn(3) == 0;
  for (int k = 0; k < 2; k++) failing[k] = fails ? (int64_t)drawn(1u << depth) : -1;
  steps = now = 0, wrong = NULL;
  for (int m = 0; m < members; m++) {
    on[m] = (struct futad_stack){.member = &all.member[m]};
    all.member[m].all = &all;
    contexts[m].slots[FUTAD_STACK_SLOT].data = &on[m];
    getcontext(&there[m]);
    there[m].uc_stack.ss_sp = stacks[m], there[m].uc_stack.ss_size = STACK, there[m].uc_link = &end;
    makecontext(&there[m], (void (*)(void))member, 1, m);
  }
  volatile bool begun = false;
  getcontext(&end);
  if (!begun) {
    begun = true;
    setcontext(&there[0]);
  }
  if (wrong) return;
  const int64_t first = failing[0] < failing[1] ? failing[0] : failing[1];
  if (contexts[0].error.code != (fails ? 10 + first : 0)) wrong = "another failure is reported";
  if (fails) return;
  if (sum != 1 << depth) wrong = "the sum is wrong";
  for (int64_t i = 0; i < 1 << depth; i++)
    if (runs[i] != 1) wrong = "a task is not done";
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  const int64_t seed = atoll(argv[1]), count = atoll(argv[2]);
  members = atoi(argv[3]), depth = atoll(argv[4]);
  for (int64_t i = 0; i < count; i++) {
    state = (uint64_t)(seed + i) * 0x9E3779B97F4A7C15u + 1;
    for (int k = 0; k < 8; k++) drawn(2);
    schedule();
    if (wrong) return printf("schedule %lld: %s\n", (long long)(seed + i), wrong), 1;
  }
  return printf("%lld tasks were taken\n", (long long)futad_taken_tasks), 0;
}
