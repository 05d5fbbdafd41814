/* A thread pool: workers that take the chunks of a job.
 *
 *   futad_pool_pays(ns)                   whether a job that takes one thread so many nanoseconds is worth several
 *   futad_pool_several(ns, speed)         the same of a job that is done again and again, by what it took so far
 *   futad_pool_took(ns, work, ...)        what it took
 *   futad_pool_run(chunks, ns, run, job)  run(job, i) for each i < chunks, on several threads if the pool is free
 *   futad_pool_post(chunks, helpers, run, job), futad_pool_finish(chunks)
 *                                         the same in two steps: the caller does something else between them
 *   futad_pool_idle()                     the call ends, no other job follows soon
 *   futad_pool_threads()                  how many threads there are: OMP_NUM_THREADS, else the processors
 *   futad_pool_set_threads(n)
 *
 * What sets it apart from OpenMP's teams, and is for jobs of some ten microseconds:
 *
 * - Whoever is free takes the next chunk, the caller first.  A thread that wakes late, because the machine has other
 *   work, finds nothing left to do and is waited for by nobody.
 * - A thread that wakes comes before work that has run for a while already, where Linux lets it (FUTAD_POOL_SLICE).
 * - A thread is kept off the processors of the others.  Linux wakes a thread where it ran last, so that two that have
 *   once met on a processor alternate there for as long as jobs are short: on machines with two processors always.
 * - Between the jobs of one call threads spin for a while (FUTAD_POOL_SPIN), after the call for another one that may
 *   follow (FUTAD_POOL_LINGER), but let others run meanwhile; then they sleep.
 * - Short jobs that several threads end later than one would, as happens where processors are shared with other
 *   programs, are left to one for a while (Note [Rests]).
 * - After a fork the child has a pool of its own.
 *
 * A process has one pool: a library that is loaded beside others is given theirs (futad_pool_share).  One caller at a
 * time has it; another one meanwhile does all chunks itself.
 */
#ifndef FUTAD_POOL_H
#define FUTAD_POOL_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "interrupts.h"
#if defined(__linux__) && !defined(FUTAD_POOL_PORTABLE)
#define FUTAD_POOL_LINUX 1
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#define FUTAD_POOL_MOST 64     /* threads, the caller included */
#define FUTAD_POOL_SPIN 30000  /* nanoseconds that a thread waits for the next job of a call before it sleeps */
#define FUTAD_POOL_LINGER 50000 /* and for the first job of the next call */
#define FUTAD_POOL_SLICE 100000 /* nanoseconds of a time slice: who asks for short ones gets them sooner, not more time */
#define FUTAD_POOL_CPUS 1024
#define FUTAD_POOL_STACK ((size_t)8 << 20) /* bytes, as a program's own; some C libraries give threads much less */
/* Nanoseconds, by what `python benchmarks/calls.py` prints: a thread that sleeps is woken for a job of twice the first,
 * one that spins meets for one of the second; smaller jobs end as soon without it.  If smaller jobs follow each other
 * in a call, threads are woken after the third. */
#define FUTAD_POOL_WAKING 10000
#define FUTAD_POOL_MEETING 4000
#define FUTAD_POOL_FOLLOWING 40000
/* Note [Rests]
 * ~~~~~~~~~~~~
 * A job is short if one thread does it in less than FUTAD_POOL_SHORT nanoseconds.  What two threads save of it is less
 * than what is lost when one of them has begun and the machine lets it wait: others' programs make such waits common, and
 * so do virtual machines, whose processors take long to wake.  So the pool keeps a balance of short jobs: what one thread
 * would have taken, less what several took.  A balance below -FUTAD_POOL_LOSS is begun anew after a rest, jobs of so many
 * nanoseconds that one thread does: FUTAD_POOL_REST first, then twice as long each time, up to FUTAD_POOL_RESTS and to
 * FUTAD_POOL_SHARE times what was lost, until a balance comes to FUTAD_POOL_LOSS.  So losses are a small part of the time,
 * and gains begin soon after the machine is free.
 *
 * That asks for how long a job takes one thread.  Parts in several threads take longer in all, so it is measured where one
 * does it: the second time that a short one is met, and one of FUTAD_POOL_ALONE times from then on. */
#define FUTAD_POOL_SHORT 200000
#define FUTAD_POOL_LOSS 50000
#define FUTAD_POOL_REST 1000000
#define FUTAD_POOL_RESTS 128000000
#define FUTAD_POOL_SHARE 256
#define FUTAD_POOL_ALONE 64
#define FUTAD_POOL_WATCHED 8 /* one of so many jobs that one thread does is measured: clocks cost time too */

#if defined(__x86_64__) || defined(__i386__)
#define FUTAD_POOL_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define FUTAD_POOL_PAUSE() __asm__ volatile("yield")
#else
#define FUTAD_POOL_PAUSE() ((void)0)
#endif

struct futad_pool_worker {
  int32_t id;  /* the kernel's, 0 until it runs */
  int32_t cpu; /* where it was last; -1: unknown */
};

struct futad_pool {
  /* The job's number, how many chunks it has, and how many of these are taken: 32, 16 and 16 bits. */
  uint64_t state __attribute__((aligned(64)));
  void (*run)(void *, int64_t);
  void *job;
  uint32_t number;   /* the job's number again, to sleep on */
  uint32_t sleeping; /* threads that sleep, or are about to */
  uint32_t busy;     /* a call is going on, more jobs may follow */
  uint32_t done __attribute__((aligned(64))); /* chunks that are done, to sleep on */
  uint32_t waiting;  /* whether the caller sleeps until all are */
  uint32_t taken;    /* whether somebody has the pool */
  uint32_t ours;     /* for a call that may be interrupted, see interrupts.h */
  void *held;
  int32_t threads;   /* 0: not known yet */
  int32_t workers;   /* threads beside the caller that exist */
  int64_t refused;   /* nanoseconds of jobs of this call that did not pay */
  int64_t balance;   /* Note [Rests]: nanoseconds that threads have saved */
  int64_t resting;   /* nanoseconds of jobs that one thread is still to do */
  int64_t rest;      /* how many there were, 0: none yet */
#ifndef FUTAD_POOL_LINUX
  pthread_mutex_t mutex; /* all sleep by one, whichever library's code they are in */
  pthread_cond_t changed;
#endif
  struct futad_pool_worker worker[FUTAD_POOL_MOST];
};

#ifdef FUTAD_POOL_LINUX
#define FUTAD_POOL_NEW {0}
#else
#define FUTAD_POOL_NEW {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}
#endif
static struct futad_pool futad_pool_own = FUTAD_POOL_NEW;
static struct futad_pool *futad_pool = &futad_pool_own;

/* The library's pool, and another one's instead. */
__attribute__((visibility("default"))) void *futad_pool_share(void *other) {
  if (other) futad_pool = other;
  return futad_pool;
}

#define FUTAD_POOL_GET(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define FUTAD_POOL_PUT(x, v) __atomic_store_n(&(x), v, __ATOMIC_SEQ_CST)

/* -- sleeping */

#ifdef FUTAD_POOL_LINUX
static void futad_pool_sleep(uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futad_pool_wake(uint32_t *word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
#else
static void futad_pool_sleep(uint32_t *word, uint32_t value) {
  pthread_mutex_lock(&futad_pool->mutex);
  while (FUTAD_POOL_GET(*word) == value) pthread_cond_wait(&futad_pool->changed, &futad_pool->mutex);
  pthread_mutex_unlock(&futad_pool->mutex);
}
static void futad_pool_wake(uint32_t *word, int count) {
  (void)word, (void)count;
  pthread_mutex_lock(&futad_pool->mutex);
  pthread_cond_broadcast(&futad_pool->changed);
  pthread_mutex_unlock(&futad_pool->mutex);
}
#endif

static int64_t futad_pool_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Wait until the word is another one: spinning, for so many nanoseconds and as long as `also` is not 0, then asleep. */
static bool futad_pool_spin(const uint32_t *word, uint32_t value, const uint32_t *also) {
  const int64_t end = futad_pool_clock() + FUTAD_POOL_SPIN;
  do {
    for (int i = 0; i < 32; i++) {
      if (FUTAD_POOL_GET(*word) != value) return true;
      if (!FUTAD_POOL_GET(*also)) return false;
      FUTAD_POOL_PAUSE();
    }
  } while (futad_pool_clock() < end);
  return false;
}

/* The same after a call, while nobody else wants the processor. */
static bool futad_pool_linger(const uint32_t *word, uint32_t value) {
  const int64_t end = futad_pool_clock() + FUTAD_POOL_LINGER;
  do {
    for (int i = 0; i < 32; i++) {
      if (FUTAD_POOL_GET(*word) != value) return true;
      FUTAD_POOL_PAUSE();
    }
    sched_yield();
  } while (futad_pool_clock() < end);
  return false;
}

/* -- processors */

static int32_t futad_pool_cpu(void) {
#ifdef FUTAD_POOL_LINUX
  unsigned cpu;
  return syscall(SYS_getcpu, &cpu, NULL, NULL) ? -1 : (int32_t)cpu;
#else
  return -1;
#endif
}

#ifdef FUTAD_POOL_LINUX
/* Those this thread may use, a bit each; how many bytes of them the kernel knows. */
static long futad_pool_allowed(uint64_t *mask) {
  memset(mask, 0, FUTAD_POOL_CPUS / 8);
  return syscall(SYS_sched_getaffinity, 0, FUTAD_POOL_CPUS / 8, mask);
}
#endif

/* Keep the sleeping workers off each other's processors and the caller's, as far as there are enough. */
static void futad_pool_spread(struct futad_pool *t) {
#ifdef FUTAD_POOL_LINUX
  uint64_t used[FUTAD_POOL_CPUS / 64] = {0}, mask[FUTAD_POOL_CPUS / 64];
  const int32_t here = futad_pool_cpu();
  if (here < 0 || here >= FUTAD_POOL_CPUS) return;
  used[here / 64] |= (uint64_t)1 << here % 64;
  for (int i = 0; i < t->workers; i++) {
    struct futad_pool_worker *m = &t->worker[i];
    const int32_t id = FUTAD_POOL_GET(m->id), cpu = FUTAD_POOL_GET(m->cpu);
    if (!id || cpu < 0 || cpu >= FUTAD_POOL_CPUS) continue;
    const uint64_t bit = (uint64_t)1 << cpu % 64;
    if (!(used[cpu / 64] & bit)) {
      used[cpu / 64] |= bit;
      continue;
    }
    long bytes = futad_pool_allowed(mask), left = 0;
    for (int k = 0; k < FUTAD_POOL_CPUS / 64; k++) left |= (long)!!(mask[k] &= ~used[k]);
    if (bytes > 0 && left && !syscall(SYS_sched_setaffinity, id, bytes, mask))
      __atomic_store_n(&m->cpu, -1, __ATOMIC_RELEASE);
  }
#else
  (void)t;
#endif
}

/* Let this thread run soon after it is woken, on a processor that has other work too. */
static void futad_pool_prompt(void) {
#if defined(FUTAD_POOL_LINUX) && defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } slice = {0};
  if (syscall(SYS_sched_getattr, 0, &slice, sizeof slice, 0) || slice.policy) return;
  slice.size = sizeof slice;
  slice.runtime = FUTAD_POOL_SLICE;
  (void)syscall(SYS_sched_setattr, 0, &slice, 0); /* kernels before 6.12 take no notice */
#endif
}

/* How many threads there are to be, the caller included. */
static int32_t futad_pool_count(void) {
  const char *wanted = getenv("OMP_NUM_THREADS");
  long n = wanted ? strtol(wanted, NULL, 10) : 0;
#ifdef FUTAD_POOL_LINUX
  uint64_t mask[FUTAD_POOL_CPUS / 64];
  if (n < 1 && futad_pool_allowed(mask) > 0) {
    n = 0;
    for (int k = 0; k < FUTAD_POOL_CPUS / 64; k++) n += __builtin_popcountll(mask[k]);
  }
#endif
  if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : n > FUTAD_POOL_MOST ? FUTAD_POOL_MOST : (int32_t)n;
}

static inline int64_t futad_pool_threads(void) {
  int32_t n = FUTAD_POOL_GET(futad_pool->threads);
  if (!n) {
    void *const held = futad_hold();
    FUTAD_POOL_PUT(futad_pool->threads, n = futad_pool_count());
    futad_go_on(held);
  }
  return n;
}

/* From now on so many threads; those that exist stay. */
__attribute__((visibility("default"))) void futad_pool_set_threads(int64_t n) {
  FUTAD_POOL_PUT(futad_pool->threads, n < 1 ? 1 : n > FUTAD_POOL_MOST ? FUTAD_POOL_MOST : (int32_t)n);
}

/* -- working */

/* Take and do chunks of the current job until none is left. */
static void futad_pool_work(struct futad_pool *t) {
  for (;;) {
    uint64_t state = FUTAD_POOL_GET(t->state);
    const uint64_t chunks = state >> 16 & 0xffff, chunk = state & 0xffff;
    if (chunk >= chunks) return;
    /* Another job's are not used: it has another number, so that the exchange fails. */
    void (*run)(void *, int64_t) = __atomic_load_n(&t->run, __ATOMIC_RELAXED);
    void *job = __atomic_load_n(&t->job, __ATOMIC_RELAXED);
    const uint32_t ours = __atomic_load_n(&t->ours, __ATOMIC_RELAXED);
    if (!__atomic_compare_exchange_n(&t->state, &state, state + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
    if (ours)
      futad_abandonable(run, job, (int64_t)chunk);
    else
      run(job, (int64_t)chunk);
    if (__atomic_add_fetch(&t->done, 1, __ATOMIC_SEQ_CST) == chunks && __atomic_load_n(&t->waiting, __ATOMIC_SEQ_CST))
      futad_pool_wake(&t->done, 1);
  }
}

static void *futad_pool_worker_main(void *own) {
  struct futad_pool *t = futad_pool;
  struct futad_pool_worker *m = own;
#ifdef FUTAD_POOL_LINUX
  __atomic_store_n(&m->id, (int32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
#endif
  futad_pool_prompt();
  futad_interrupts_join();
  uint32_t number = 0;
  for (;;) {
    futad_pool_work(t);
    if (FUTAD_POOL_GET(t->number) != number) {
      number = FUTAD_POOL_GET(t->number);
      continue;
    }
    if (FUTAD_POOL_GET(t->busy) && futad_pool_spin(&t->number, number, &t->busy)) continue;
    if (!FUTAD_POOL_GET(t->busy) && futad_pool_linger(&t->number, number)) continue;
    __atomic_store_n(&m->cpu, futad_pool_cpu(), __ATOMIC_RELEASE);
    __atomic_add_fetch(&t->sleeping, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&t->number, __ATOMIC_SEQ_CST) == number) futad_pool_sleep(&t->number, number);
    __atomic_sub_fetch(&t->sleeping, 1, __ATOMIC_SEQ_CST);
  }
  return NULL;
}

/* In a new process only the caller is left. */
static void futad_pool_forked(void) {
  struct futad_pool *t = futad_pool;
  const int32_t threads = t->threads;
  *t = (struct futad_pool)FUTAD_POOL_NEW;
  t->threads = threads;
  futad_interrupts_forked();
}

/* Before the pool is first taken, so that no process is made between the two. */
static void futad_pool_watch(void) {
  static uint32_t watched;
  uint32_t none = 0;
  if (FUTAD_POOL_GET(watched)) return;
  if (__atomic_compare_exchange_n(&watched, &none, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) &&
      pthread_atfork(NULL, NULL, futad_pool_forked))
    FUTAD_POOL_PUT(watched, 0);
}

/* As many workers as wanted, or as the system gives. */
static void futad_pool_grow(struct futad_pool *t, int32_t wanted) {
  sigset_t all, before;
  pthread_attr_t detached;
  if (pthread_attr_init(&detached)) return;
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&detached, FUTAD_POOL_STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of the program */
  while (t->workers < wanted) {
    struct futad_pool_worker *m = &t->worker[t->workers];
    *m = (struct futad_pool_worker){0, -1};
    pthread_t thread;
    if (pthread_create(&thread, &detached, futad_pool_worker_main, m)) break;
    t->workers++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&detached);
}

/* The chunks one after the other. */
static __attribute__((unused)) void futad_pool_alone(int64_t chunks, void (*run)(void *, int64_t), void *job) {
  for (int64_t i = 0; i < chunks; i++) run(job, i);
}

static __attribute__((unused)) bool futad_pool_pays(int64_t ns) {
  struct futad_pool *t = futad_pool;
  if (ns < FUTAD_POOL_MEETING || futad_pool_threads() < 2) return false;
  /* Callers at the same time may count together: that is as good, here and below. */
  const int64_t resting = __atomic_load_n(&t->resting, __ATOMIC_RELAXED);
  if (resting > 0 && ns < FUTAD_POOL_SHORT) {
    __atomic_store_n(&t->resting, resting - ns, __ATOMIC_RELAXED);
    return false;
  }
  const bool spins = FUTAD_POOL_GET(t->sleeping) < (uint32_t)FUTAD_POOL_GET(t->workers);
  if (spins || ns >= 2 * FUTAD_POOL_WAKING) return true;
  const int64_t refused = __atomic_load_n(&t->refused, __ATOMIC_RELAXED) + ns;
  __atomic_store_n(&t->refused, refused < FUTAD_POOL_FOLLOWING ? refused : 0, __ATOMIC_RELAXED);
  return refused >= FUTAD_POOL_FOLLOWING;
}

/* Have threads begin with a job, unless somebody has the pool: then false. */
static __attribute__((unused)) bool futad_pool_post(int64_t chunks, int64_t helpers, void (*run)(void *, int64_t),
                                                    void *job) {
  struct futad_pool *t = futad_pool;
  uint32_t free = 0;
  futad_pool_watch();
  void *const held = futad_hold();
  if (!__atomic_compare_exchange_n(&t->taken, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    futad_go_on(held);
    return false;
  }
  t->held = held;
  __atomic_store_n(&t->ours, futad_calls(), __ATOMIC_RELAXED);
  if (t->workers < helpers) futad_pool_grow(t, (int32_t)helpers);
  __atomic_store_n(&t->run, run, __ATOMIC_RELAXED);
  __atomic_store_n(&t->job, job, __ATOMIC_RELAXED);
  __atomic_store_n(&t->done, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&t->waiting, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&t->busy, 1, __ATOMIC_RELAXED);
  const uint64_t number = (__atomic_load_n(&t->state, __ATOMIC_RELAXED) >> 32) + 1;
  FUTAD_POOL_PUT(t->state, number << 32 | (uint64_t)chunks << 16);
  FUTAD_POOL_PUT(t->number, (uint32_t)number);
  const int32_t asleep = (int32_t)__atomic_load_n(&t->sleeping, __ATOMIC_SEQ_CST);
  const int32_t missing = (int32_t)helpers - (t->workers - asleep);
  if (asleep > 0 && missing > 0) {
    futad_pool_spread(t);
    futad_pool_wake(&t->number, missing);
  }
  return true;
}

/* Do what nobody has begun with of the job that was posted, and wait for the others. */
static __attribute__((unused)) void futad_pool_finish(int64_t chunks) {
  struct futad_pool *t = futad_pool;
  futad_pool_work(t);
  for (uint32_t done; (done = FUTAD_POOL_GET(t->done)) < chunks;) {
    static const uint32_t always = 1;
    if (futad_pool_spin(&t->done, done, &always)) continue;
    FUTAD_POOL_PUT(t->waiting, 1);
    if (__atomic_load_n(&t->done, __ATOMIC_SEQ_CST) == done) futad_pool_sleep(&t->done, done);
  }
  void *const held = t->held;
  __atomic_store_n(&t->taken, 0, __ATOMIC_RELEASE);
  futad_go_on(held);
}

/* Several threads have done a job in so many nanoseconds, that one does in `ns`. */
static void futad_pool_balance(struct futad_pool *t, int64_t ns, int64_t took) {
  const int64_t balance = __atomic_load_n(&t->balance, __ATOMIC_RELAXED) + ns - took;
  const int64_t rest = __atomic_load_n(&t->rest, __ATOMIC_RELAXED);
  if (balance <= -FUTAD_POOL_LOSS) {
    const int64_t twice = rest < 1 ? FUTAD_POOL_REST : rest < FUTAD_POOL_RESTS ? 2 * rest : rest;
    const int64_t next = twice < -balance * FUTAD_POOL_SHARE ? twice : -balance * FUTAD_POOL_SHARE;
    __atomic_store_n(&t->rest, next, __ATOMIC_RELAXED);
    __atomic_store_n(&t->resting, next, __ATOMIC_RELAXED);
    __atomic_store_n(&t->balance, 0, __ATOMIC_RELAXED);
  } else {
    if (balance >= FUTAD_POOL_LOSS && rest) __atomic_store_n(&t->rest, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&t->balance, balance < FUTAD_POOL_LOSS ? balance : FUTAD_POOL_LOSS, __ATOMIC_RELAXED);
  }
}

/* `measured`: one thread has been seen to take `ns`. */
static __attribute__((unused)) void futad_pool_run_of(int64_t chunks, int64_t ns, bool measured,
                                                      void (*run)(void *, int64_t), void *job) {
  const bool balanced = measured && ns < FUTAD_POOL_SHORT;
  const int64_t start = balanced ? futad_pool_clock() : 0;
  const int64_t most = futad_pool_threads();
  int64_t helpers = ns > FUTAD_POOL_WAKING ? ns / FUTAD_POOL_WAKING : 1;
  if (helpers > most - 1) helpers = most - 1;
  if (helpers > chunks - 1) helpers = chunks - 1;
  /* Perhaps this thread itself is of the pool: then its caller has it. */
  if (chunks < 2 || most < 2 || !futad_pool_post(chunks, helpers, run, job))
    futad_pool_alone(chunks, run, job);
  else {
    futad_pool_finish(chunks);
    if (balanced) futad_pool_balance(futad_pool, ns, futad_pool_clock() - start);
  }
}

static __attribute__((unused)) void futad_pool_run(int64_t chunks, int64_t ns, void (*run)(void *, int64_t), void *job) {
  futad_pool_run_of(chunks, ns, false, run, job);
}

/* How long jobs of one kind take by their work.  By that it is decided who does the chunks, on which no answer depends, nor
 * is it wrong if callers at the same time count together. */
struct futad_speed {
  double ns; /* that an operation has taken so far, 0: none has */
  uint32_t times;
  uint32_t alone; /* whether one thread was measured */
};

static __attribute__((unused)) bool futad_pool_measured(const struct futad_speed *speed) {
  return __atomic_load_n(&speed->alone, __ATOMIC_RELAXED);
}

static __attribute__((unused)) double futad_pool_speed(const struct futad_speed *speed) {
  double ns;
  __atomic_load(&speed->ns, &ns, __ATOMIC_RELAXED);
  return ns;
}

/* The nanoseconds that one thread may take; `guess`: an operation, as long as nothing is known. */
static __attribute__((unused)) int64_t futad_pool_expected(double work, double guess, const struct futad_speed *speed) {
  const double known = futad_pool_speed(speed), ns = (known > 0 ? known : guess) * work;
  return ns < 1e15 ? (int64_t)ns : INT64_MAX;
}

/* Whether several threads do such a job, of which one takes so many nanoseconds about. */
static __attribute__((unused)) bool futad_pool_several(int64_t ns, struct futad_speed *speed) {
  const uint32_t times = __atomic_load_n(&speed->times, __ATOMIC_RELAXED);
  __atomic_store_n(&speed->times, times + 1, __ATOMIC_RELAXED);
  if (ns < FUTAD_POOL_SHORT && times % FUTAD_POOL_ALONE == 1) return false;
  return futad_pool_pays(ns);
}

/* Whether to measure one thread, after `futad_pool_several` has said so. */
static inline __attribute__((unused)) bool futad_pool_watched(const struct futad_speed *speed) {
  return !futad_pool_measured(speed) || __atomic_load_n(&speed->times, __ATOMIC_RELAXED) % FUTAD_POOL_WATCHED == 2;
}

/* So many nanoseconds it took, of all threads together.  What disturbs a job makes it slower, so less time says more than
 * more. */
static __attribute__((unused)) void futad_pool_took(int64_t ns, double work, bool alone, struct futad_speed *speed) {
  const double now = (double)ns / work, before = futad_pool_speed(speed);
  const double most = now < 2 * before ? now : 2 * before;
  const bool measured = futad_pool_measured(speed);
  if (!alone && measured && before * work < FUTAD_POOL_SHORT) return;
  const bool first = before <= 0 || (alone && !measured);
  double next = first ? now : now < before ? (before + now) / 2 : before + (most - before) / 16;
  __atomic_store(&speed->ns, &next, __ATOMIC_RELAXED);
  if (alone) __atomic_store_n(&speed->alone, 1, __ATOMIC_RELAXED);
}

static inline __attribute__((unused)) void futad_pool_idle(void) {
  struct futad_pool *t = futad_pool;
  if (FUTAD_POOL_GET(t->busy)) __atomic_store_n(&t->busy, 0, __ATOMIC_RELEASE);
  if (__atomic_load_n(&t->refused, __ATOMIC_RELAXED)) __atomic_store_n(&t->refused, 0, __ATOMIC_RELAXED);
}

#endif
