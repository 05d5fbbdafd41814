/* Tasks that may run at once, for programs that fork and join.
 *
 *   futad_forks(ctx)         whether others are to be offered a task here; else the caller does it when it comes to it
 *   futad_offer(ctx, task)   others may take the task from now on
 *   futad_retake(ctx)        whether nobody has taken the task that was offered last; then it is the caller's again
 *   futad_await(ctx, task)   one that was taken: do other tasks until it is done, and take over its failure
 *
 * A task lies in the frame of the function that forks, and offering it is storing its address: nothing is allocated.
 * Each member has a deque of FUTAD_DEQUE tasks (Chase and Lev, SPAA 2005, with a bound; memory orders: Le et al., PPoPP
 * 2013, with stores in place of fences).  The owner puts tasks in and takes them back at one end, others take from the
 * other end: those that were offered first, which are the largest.  Who waits for a task takes those of who has it
 * first.  While a deque is full its owner offers nothing, so that small tasks cost next to nothing.
 *
 * Once a task has failed nobody takes another one: what has been taken already is done to its end, as its failure may be
 * the one that comes first.  So a recursion without end ends when each thread has come to the end of its stack.
 *
 * Members are the thread that called, and the thread pool's, which come once the call has forked for a while, or at once
 * if the last one took long.  A thread that comes takes tasks on a stack of its own, with the context of its number.
 */

#include <sched.h>

#define FUTAD_DEQUE 8
#define FUTAD_FORKS 16           /* of a call, after which clocks are asked again whether others are to come */
#define FUTAD_ENOUGH_FORKING 20000 /* nanoseconds after which they are */
#define FUTAD_PATIENCE 2000      /* times that a member without a task looks for one before it sleeps for a while */

/* How a task that somebody else did failed. */
struct futad_failed {
  struct futad_error error;
  int64_t values[4];
  bool deep;
};

struct futad_task {
  void (*run)(struct futad_task *, struct futad_context *);
  struct futad_failed *failed;
  uint32_t done;
  uint32_t taken; /* the number of the member that took it, and one */
};

struct futad_member {
  int64_t bottom __attribute__((aligned(64))); /* where the owner puts the next task */
  int64_t top __attribute__((aligned(64)));    /* where others take the next one */
  struct futad_task *tasks[FUTAD_DEQUE];
  struct futad_members *all;
};

struct futad_members {
  struct futad_context *ctx;
  int64_t count;
  uint32_t over;   /* the call has no more tasks */
  uint32_t failed; /* one has failed: nobody takes another one */
  struct futad_member member[FUTAD_POOL_MOST];
};

static int64_t futad_forking = INT64_MAX / 2; /* nanoseconds from the first fork to the end of a call, of the last one */
static int64_t futad_taken_tasks;

/* How many tasks have been done by other threads than their call's so far. */
int64_t futad_tasks_taken(void) { return __atomic_load_n(&futad_taken_tasks, __ATOMIC_RELAXED); }

static const struct futad_failed futad_no_memory = {{FUTAD_MEMORY, -1, 0, 1}, {0, 1, 0, 0}, false};

/* Take a task of a member's and do it, if there is one. */
static bool futad_take_task(struct futad_context *ctx, struct futad_members *all, int64_t me, int64_t victim) {
  struct futad_member *const from = &all->member[victim];
  if (FUTAD_UNLIKELY(__atomic_load_n(&all->failed, __ATOMIC_RELAXED))) return false;
  int64_t top = __atomic_load_n(&from->top, __ATOMIC_SEQ_CST);
  if (top >= __atomic_load_n(&from->bottom, __ATOMIC_SEQ_CST)) return false;
  struct futad_task *const task = __atomic_load_n(&from->tasks[top % FUTAD_DEQUE], __ATOMIC_RELAXED);
  if (!__atomic_compare_exchange_n(&from->top, &top, top + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) return false;
  __atomic_store_n(&task->taken, (uint32_t)me + 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&futad_taken_tasks, 1, __ATOMIC_RELAXED);
  struct futad_stack *const stack = FUTAD_ON(ctx);
  struct futad_failed before = {ctx->error, {0}, stack->deep};
  memcpy(before.values, ctx->values, sizeof before.values);
  ctx->error.code = FUTAD_OK;
  stack->deep = false;
  task->run(task, ctx);
  if (FUTAD_UNLIKELY(ctx->error.code)) {
    struct futad_failed *failed = malloc(sizeof *failed);
    if (failed) {
      *failed = (struct futad_failed){ctx->error, {0}, stack->deep};
      memcpy(failed->values, ctx->values, sizeof failed->values);
    }
    __atomic_store_n(&all->failed, 1, __ATOMIC_RELAXED);
    task->failed = failed ? failed : (struct futad_failed *)&futad_no_memory;
  }
  ctx->error = before.error;
  memcpy(ctx->values, before.values, sizeof before.values);
  stack->deep = before.deep;
  __atomic_store_n(&task->done, 1, __ATOMIC_RELEASE);
  return true;
}

/* Take one of anybody's, and do it. */
static bool futad_take_any(struct futad_context *ctx, struct futad_members *all, int64_t me) {
  for (int64_t i = 1; i < all->count; i++)
    if (futad_take_task(ctx, all, me, (me + i) % all->count)) return true;
  return false;
}

/* Nothing was found, for so many times in a row. */
static void futad_look_again(int64_t times) {
  if (times < FUTAD_PATIENCE)
    FUTAD_POOL_PAUSE();
  else if (times % 64)
    sched_yield();
  else
    nanosleep(&(struct timespec){0, 50000}, NULL);
}

/* A thread of the pool as a member: it looks for tasks until the call is over. */
struct futad_comer {
  struct futad_members *all;
  int64_t me;
};

static void futad_take_tasks(void *given) {
  struct futad_comer *const c = given;
  struct futad_context *const ctx = c->all->ctx->threads[c->me];
  FUTAD_ON(ctx)->member = &c->all->member[c->me];
  for (int64_t times = 0; !__atomic_load_n(&c->all->over, __ATOMIC_ACQUIRE); times++) {
    if (futad_take_any(ctx, c->all, c->me)) times = 0;
    futad_look_again(times);
  }
}

static void futad_come(void *given, int64_t i) {
  struct futad_comer c = {given, i + 1};
  for (int64_t times = 0; !__atomic_load_n(&c.all->over, __ATOMIC_ACQUIRE); times++) {
    for (int64_t k = 0; k < c.all->count; k++) {
      struct futad_member *const m = &c.all->member[k];
      if (__atomic_load_n(&m->top, __ATOMIC_RELAXED) < __atomic_load_n(&m->bottom, __ATOMIC_RELAXED)) {
        /* A stack of its own is had only where there is something to do. */
        futad_on_stack(c.all->ctx->threads[c.me], futad_take_tasks, &c);
        return;
      }
    }
    futad_look_again(times);
  }
}

/* Call the pool's threads, if that pays. */
static __attribute__((noinline, cold)) bool futad_call_members(struct futad_context *ctx) {
  struct futad_stack *const stack = FUTAD_ON(ctx);
  if (ctx->inside || futad_pool_threads() < 2) return false;
  const int64_t now = futad_pool_clock();
  if (!stack->forked) stack->forked = now;
  if (now - stack->forked < FUTAD_ENOUGH_FORKING &&
      (now > stack->forked || !futad_pool_pays(__atomic_load_n(&futad_forking, __ATOMIC_RELAXED))))
    return false;
  struct futad_slot *const slot = &ctx->slots[FUTAD_TASKS_SLOT];
  if (!slot->data) {
    slot->data = aligned_alloc(64, sizeof(struct futad_members));
    if (!slot->data) return false;
    slot->bytes = sizeof(struct futad_members);
  }
  struct futad_members *const all = slot->data;
  int64_t n = 1;
  for (; n < futad_pool_threads(); n++) {
    if (!ctx->threads[n]) ctx->threads[n] = futad_new();
    if (!ctx->threads[n]) break;
    ctx->threads[n]->inside = true;
    ctx->threads[n]->error.code = FUTAD_OK;
  }
  memset(all, 0, sizeof(struct futad_members));
  all->ctx = ctx;
  all->count = n;
  for (int64_t i = 0; i < n; i++) all->member[i].all = all;
  if (n < 2 || !futad_pool_post(n - 1, n - 1, futad_come, all)) return false;
  stack->member = &all->member[0];
  return true;
}

FUTAD_INLINE bool futad_forks(struct futad_context *ctx) {
  struct futad_stack *const stack = FUTAD_ON(ctx);
  struct futad_member *const own = stack->member;
  if (FUTAD_LIKELY(own != NULL)) {
    const int64_t offered = __atomic_load_n(&own->bottom, __ATOMIC_RELAXED) - __atomic_load_n(&own->top, __ATOMIC_ACQUIRE);
    return offered < FUTAD_DEQUE;
  }
  return FUTAD_UNLIKELY(stack->forks++ % FUTAD_FORKS == 0) && futad_call_members(ctx);
}

FUTAD_INLINE void futad_offer(struct futad_context *ctx, struct futad_task *task) {
  struct futad_member *const own = FUTAD_ON(ctx)->member;
  const int64_t bottom = __atomic_load_n(&own->bottom, __ATOMIC_RELAXED);
  task->failed = NULL;
  task->done = task->taken = 0;
  __atomic_store_n(&own->tasks[bottom % FUTAD_DEQUE], task, __ATOMIC_RELAXED);
  __atomic_store_n(&own->bottom, bottom + 1, __ATOMIC_RELEASE);
}

FUTAD_INLINE bool futad_retake(struct futad_context *ctx) {
  struct futad_member *const own = FUTAD_ON(ctx)->member;
  const int64_t bottom = __atomic_load_n(&own->bottom, __ATOMIC_RELAXED) - 1;
  if (FUTAD_UNLIKELY(ctx->error.code)) __atomic_store_n(&own->all->failed, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&own->bottom, bottom, __ATOMIC_SEQ_CST);
  int64_t top = __atomic_load_n(&own->top, __ATOMIC_SEQ_CST);
  if (FUTAD_LIKELY(top < bottom)) return true;
  const bool mine = top == bottom && __atomic_compare_exchange_n(&own->top, &top, top + 1, false, __ATOMIC_SEQ_CST,
                                                                 __ATOMIC_RELAXED);
  __atomic_store_n(&own->bottom, bottom + 1, __ATOMIC_RELAXED);
  return mine;
}

static __attribute__((noinline, cold, unused)) void futad_await(struct futad_context *ctx, struct futad_task *task) {
  struct futad_stack *const stack = FUTAD_ON(ctx);
  struct futad_members *const all = stack->member->all;
  const int64_t me = stack->member - all->member;
  for (int64_t times = 0; !__atomic_load_n(&task->done, __ATOMIC_ACQUIRE); times++) {
    const uint32_t taken = __atomic_load_n(&task->taken, __ATOMIC_RELAXED);
    if ((taken && futad_take_task(ctx, all, me, (int64_t)taken - 1)) || futad_take_any(ctx, all, me)) times = 0;
    futad_look_again(times);
  }
  struct futad_failed *const failed = task->failed;
  if (FUTAD_LIKELY(!failed)) return;
  if (!ctx->error.code) { /* else the task that comes first has failed, too */
    ctx->error = failed->error;
    memcpy(ctx->values, failed->values, sizeof ctx->values);
    stack->deep = failed->deep;
  }
  if (failed != &futad_no_memory) free(failed);
}

/* Zeros that a task which was taken adds to in place of memory that is not its own; freed by who forked. */
static __attribute__((noinline, cold, unused)) void *futad_zeros(struct futad_context *ctx, int64_t count, int64_t size) {
  void *const data = calloc(count > 0 ? (size_t)count : 1, (size_t)size);
  if (!data) futad_fail(ctx, FUTAD_MEMORY, -1, count, size, 0, 0);
  return data;
}

/* A call that may fork, as what `futad_on_stack` runs. */
static void futad_enter_forking(void *given) {
  struct futad_entered *const e = given;
  struct futad_stack *const stack = FUTAD_ON(e->ctx);
  futad_enter(given);
  if (stack->forked) __atomic_store_n(&futad_forking, futad_pool_clock() - stack->forked, __ATOMIC_RELAXED);
  if (!stack->member) return;
  struct futad_members *const all = e->ctx->slots[FUTAD_TASKS_SLOT].data;
  __atomic_store_n(&all->over, 1, __ATOMIC_RELEASE);
  futad_pool_finish(all->count - 1);
}
