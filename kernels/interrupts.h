/* Calls that an interrupt (SIGINT, Ctrl-C) ends wherever they are, without a test in their loops.
 *
 *   futad_arm(on)             from Python's main thread: calls that it makes with futad_call may be interrupted, or not
 *   futad_call(ctx, args, results)   the entry whose address is args[-1]; FUTAD_STOPPED if it was interrupted
 *   futad_hold(), futad_go_on(held)  around what must be done to its end: whatever allocates, frees, takes a lock
 *   futad_abandonable(run, job, i)   a pool's thread does a part of such a call
 *   futad_to_stop()           whether the calling thread is to end the call as if a check had failed
 *
 * A call has no effect but on its context's memory, and on that of arguments it may overwrite, so it can be abandoned
 * at any instruction but those between `futad_hold` and `futad_go_on`; its context is then emptied.  The handler of
 * SIGINT is put before Python's, which notes KeyboardInterrupt.  It sends SIGURG to each of the threads that do a part of
 * the call.  The handler of that jumps out of the thread's part, to where this began; after `futad_hold` the jump is
 * made by `futad_go_on`, and a part that begins later finds that it is not to be done.
 *
 * Functions that recurse hold: their activations have memory.  In place of the jump the end of the thread's stack is
 * moved, so that the next activation fails as if there was no room for it (recursion.h), as do loops that may take long.
 *
 * A process has one struct futad_interrupts: libraries are given that of the first one (futad_interrupts_share).
 * Executables end by the signal, as do calls by threads other than Python's main one, and those from JAX, when they end.
 */
#ifndef FUTAD_INTERRUPTS_H
#define FUTAD_INTERRUPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FUTAD_STOPPED 6 /* a code of `ctx->error` */
#define FUTAD_NOWHERE ((char *)UINTPTR_MAX) /* the end of a stack that has no room */

#if defined(__PIC__) && !defined(__PIE__) && (defined(__unix__) || defined(__APPLE__)) && !defined(FUTAD_UNINTERRUPTED)
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#define FUTAD_INTERRUPTS_MOST 65 /* threads: Python's main one first, then the pool's */
#define FUTAD_INTERRUPTS_GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
/* Seen by a handler on this thread in the order of the program. */
#define FUTAD_INTERRUPTS_PUT(x, v) \
  (__atomic_signal_fence(__ATOMIC_SEQ_CST), __atomic_store_n(&(x), v, __ATOMIC_SEQ_CST))

struct futad_thread {
  pthread_t thread;
  jmp_buf *back; /* where its part of the call began; NULL: it has none, or holds */
  char **end;    /* of the stack that recursive functions have in it */
};

struct futad_interrupts {
  struct futad_thread of[FUTAD_INTERRUPTS_MOST];
  uint32_t count;    /* threads */
  uint32_t joining;  /* one joins */
  uint32_t armed;
  uint32_t calls;    /* so far */
  uint32_t running;  /* the number of the call under way, 0: none */
  uint32_t stopping; /* that of the one which is to end */
  void (*interrupt)(int, siginfo_t *, void *);
  void (*urgent)(int, siginfo_t *, void *);
  struct sigaction before_interrupt, before_urgent;
};

static struct futad_interrupts futad_interrupts_own = {.count = 1};
static struct futad_interrupts *futad_interrupts = &futad_interrupts_own;

/* The library's, and another one's instead. */
__attribute__((visibility("default"))) void *futad_interrupts_share(void *other) {
  if (other) futad_interrupts = other;
  return futad_interrupts;
}

/* The calling thread, while a call is under way that may be interrupted and it may have a part in it. */
static __attribute__((noinline, cold)) struct futad_thread *futad_me_of(struct futad_interrupts *all) {
  const pthread_t self = pthread_self();
  uint32_t count = __atomic_load_n(&all->count, __ATOMIC_ACQUIRE);
  if (count > FUTAD_INTERRUPTS_MOST) count = FUTAD_INTERRUPTS_MOST;
  for (uint32_t i = 0; i < count; i++)
    if (pthread_equal(all->of[i].thread, self)) return &all->of[i];
  return NULL;
}
static inline struct futad_thread *futad_me(void) {
  struct futad_interrupts *const all = futad_interrupts;
  return __builtin_expect(FUTAD_INTERRUPTS_GET(all->running) != 0, 0) ? futad_me_of(all) : NULL;
}

static inline bool futad_ending(struct futad_interrupts *all) {
  const uint32_t stopping = __atomic_load_n(&all->stopping, __ATOMIC_SEQ_CST);
  return __builtin_expect(stopping != 0, 0) && stopping == FUTAD_INTERRUPTS_GET(all->running);
}

/* Whether the calling thread has begun a call that may be interrupted. */
static inline __attribute__((unused)) bool futad_calls(void) {
  struct futad_interrupts *const all = futad_interrupts;
  return FUTAD_INTERRUPTS_GET(all->running) && pthread_equal(all->of[0].thread, pthread_self());
}

static inline __attribute__((unused)) bool futad_to_stop(void) {
  struct futad_interrupts *const all = futad_interrupts;
  return futad_ending(all) && futad_calls();
}

static __attribute__((unused)) void *futad_hold(void) {
  struct futad_thread *const me = futad_me();
  if (!me) return NULL;
  jmp_buf *const back = me->back;
  FUTAD_INTERRUPTS_PUT(me->back, NULL);
  return back;
}

static __attribute__((unused)) void futad_go_on(void *held) {
  if (!held) return;
  struct futad_interrupts *const all = futad_interrupts;
  FUTAD_INTERRUPTS_PUT(futad_me_of(all)->back, held);
  if (futad_ending(all)) longjmp(*(jmp_buf *)held, 1);
}

/* From now on functions recurse on a stack with that end, or on none. */
static __attribute__((unused)) void futad_stack_runs(char **end) {
  struct futad_thread *const me = futad_me();
  if (!me) return;
  FUTAD_INTERRUPTS_PUT(me->end, end);
  if (end && futad_ending(futad_interrupts)) __atomic_store_n(end, FUTAD_NOWHERE, __ATOMIC_RELAXED);
}

static __attribute__((noinline, unused)) void futad_abandonable(void (*run)(void *, int64_t), void *job, int64_t i) {
  struct futad_thread *const me = futad_me();
  jmp_buf back;
  if (!me) {
    run(job, i);
    return;
  }
  if (!_setjmp(back)) {
    FUTAD_INTERRUPTS_PUT(me->back, &back);
    if (!futad_ending(futad_interrupts)) run(job, i);
  }
  FUTAD_INTERRUPTS_PUT(me->back, NULL);
}

/* A thread of the pool, which lives as long as the process; and in a new process, where there is none. */
static __attribute__((unused)) void futad_interrupts_join(void) {
  struct futad_interrupts *const all = futad_interrupts;
  while (__atomic_exchange_n(&all->joining, 1, __ATOMIC_ACQUIRE)) continue;
  const uint32_t i = all->count;
  if (i < FUTAD_INTERRUPTS_MOST) {
    all->of[i] = (struct futad_thread){pthread_self(), NULL, NULL};
    __atomic_store_n(&all->count, i + 1, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&all->joining, 0, __ATOMIC_RELEASE);
  sigset_t urgent;
  sigemptyset(&urgent);
  sigaddset(&urgent, SIGURG);
  pthread_sigmask(SIG_UNBLOCK, &urgent, NULL);
}

__attribute__((visibility("default"))) void futad_interrupts_forked(void) {
  struct futad_interrupts *const all = futad_interrupts;
  all->count = 1;
  all->joining = all->armed = all->running = all->stopping = 0;
  all->of[0].back = NULL;
  all->of[0].end = NULL;
}

/* -- signals */

/* In a handler: the calling thread leaves its part of the call. */
static void futad_go_back(struct futad_interrupts *all) {
  struct futad_thread *const me = futad_ending(all) ? futad_me_of(all) : NULL;
  if (!me) return;
  if (me->end) __atomic_store_n(me->end, FUTAD_NOWHERE, __ATOMIC_RELAXED);
  if (me->back) longjmp(*me->back, 1);
}

static void futad_before(const struct sigaction *before, int signal, siginfo_t *about, void *where) {
  if (before->sa_flags & SA_SIGINFO)
    before->sa_sigaction(signal, about, where);
  else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
    before->sa_handler(signal);
}

static void futad_on_interrupt(int signal, siginfo_t *about, void *where) {
  struct futad_interrupts *const all = futad_interrupts;
  const int error = errno;
  futad_before(&all->before_interrupt, signal, about, where);
  const uint32_t running = FUTAD_INTERRUPTS_GET(all->running), count = __atomic_load_n(&all->count, __ATOMIC_ACQUIRE);
  if (running) {
    const pthread_t self = pthread_self();
    __atomic_store_n(&all->stopping, running, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < count; i++)
      if (!pthread_equal(all->of[i].thread, self)) pthread_kill(all->of[i].thread, SIGURG);
    futad_go_back(all);
  }
  errno = error;
}

static void futad_on_urgent(int signal, siginfo_t *about, void *where) {
  struct futad_interrupts *const all = futad_interrupts;
  const int error = errno;
  futad_before(&all->before_urgent, signal, about, where);
  futad_go_back(all);
  errno = error;
}

/* A handler before the one that there is; false if that is not a function. */
static bool futad_install(int signal, struct sigaction *before, void (**ours)(int, siginfo_t *, void *),
                          void (*handler)(int, siginfo_t *, void *), bool always) {
  struct sigaction now;
  if (sigaction(signal, NULL, &now)) return false;
  if (*ours && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == *ours) return true;
  if (!always && !(now.sa_flags & SA_SIGINFO) && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) return false;
  *before = now;
  *ours = handler;
  now.sa_sigaction = handler;
  now.sa_flags = (now.sa_flags & ~SA_RESETHAND) | SA_SIGINFO | SA_NODEFER | (always ? SA_RESTART : 0);
  sigemptyset(&now.sa_mask); /* so that a jump out of the handler leaves nothing blocked */
  return sigaction(signal, &now, NULL) == 0;
}

__attribute__((visibility("default"))) void futad_arm(int32_t on) {
  struct futad_interrupts *const all = futad_interrupts;
  all->of[0].thread = pthread_self();
  all->armed = on && futad_install(SIGURG, &all->before_urgent, &all->urgent, futad_on_urgent, true) &&
               futad_install(SIGINT, &all->before_interrupt, &all->interrupt, futad_on_interrupt, false);
}

#else
#define FUTAD_UNINTERRUPTED 1
static inline __attribute__((unused)) void *futad_hold(void) { return NULL; }
static inline __attribute__((unused)) void futad_go_on(void *held) { (void)held; }
static inline __attribute__((unused)) bool futad_to_stop(void) { return false; }
static inline __attribute__((unused)) bool futad_calls(void) { return false; }
static inline __attribute__((unused)) void futad_abandonable(void (*run)(void *, int64_t), void *job, int64_t i) { run(job, i); }
static inline __attribute__((unused)) void futad_stack_runs(char **end) { (void)end; }
static inline __attribute__((unused)) void futad_interrupts_join(void) {}
static inline __attribute__((unused)) void futad_interrupts_forked(void) {}
#endif

#endif
