/* A team of threads that work on the parts of a job.
 *
 *   futad_team_pays(ns)                   whether a job that takes one thread so many nanoseconds is worth several
 *   futad_team_run(parts, ns, run, job)   run(job, i) for each i < parts, on several threads if the team is free
 *   futad_team_rest()                     the call ends, no other job follows soon
 *   futad_team_threads()                  how many threads there are: OMP_NUM_THREADS, else the processors
 *   futad_team_set_threads(n)
 *
 * What sets it apart from OpenMP's teams, and is for jobs of some ten microseconds:
 *
 * - Whoever is free takes the next part, the caller first.  A thread that wakes late, because the machine has other
 *   work, finds nothing left to do and is waited for by nobody.
 * - A thread that wakes comes before work that has run for a while already, where Linux lets it (FUTAD_TEAM_SLICE).
 * - A thread is kept off the processors of the others.  Linux wakes a thread where it ran last, so that two that have
 *   once met on a processor take turns there for as long as jobs are short: on machines with two processors always.
 * - Between the jobs of one call threads spin for a while (FUTAD_TEAM_SPIN), after the call they sleep at once.
 * - After a fork the child has a team of its own.
 *
 * A process has one team: a library that is loaded beside others is given theirs (futad_team_share).  One caller at a
 * time has it; another one meanwhile does all parts itself.
 */
#ifndef FUTAD_TEAM_H
#define FUTAD_TEAM_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__) && !defined(FUTAD_TEAM_PORTABLE)
#define FUTAD_TEAM_LINUX 1
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#define FUTAD_TEAM_MOST 64     /* threads, the caller included */
#define FUTAD_TEAM_SPIN 30000  /* nanoseconds that a thread waits for the next job of a call before it sleeps */
#define FUTAD_TEAM_SLICE 100000 /* nanoseconds of a turn: who asks for short ones gets them sooner, not more time */
#define FUTAD_TEAM_CPUS 1024
#define FUTAD_TEAM_STACK ((size_t)8 << 20) /* bytes, as a program's own; some C libraries give threads much less */
/* Nanoseconds, by what `python benchmarks/calls.py` prints: a thread that sleeps is woken for a job of twice the first,
 * one that spins meets for one of the second; smaller jobs end as soon without it.  If smaller jobs follow each other
 * in a call, threads are woken after the third. */
#define FUTAD_TEAM_WAKING 10000
#define FUTAD_TEAM_MEETING 4000
#define FUTAD_TEAM_FOLLOWING 40000

#if defined(__x86_64__) || defined(__i386__)
#define FUTAD_TEAM_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define FUTAD_TEAM_PAUSE() __asm__ volatile("yield")
#else
#define FUTAD_TEAM_PAUSE() ((void)0)
#endif

struct futad_team_member {
  int32_t id;  /* the kernel's, 0 until it runs */
  int32_t cpu; /* where it was last; -1: unknown */
};

struct futad_team {
  /* The job's number, how many parts it has, and how many of these are taken: 32, 16 and 16 bits. */
  uint64_t state __attribute__((aligned(64)));
  void (*run)(void *, int64_t);
  void *job;
  uint32_t number;   /* the job's number again, to sleep on */
  uint32_t sleeping; /* threads that sleep, or are about to */
  uint32_t busy;     /* a call is going on, more jobs may follow */
  uint32_t done __attribute__((aligned(64))); /* parts that are done, to sleep on */
  uint32_t waiting;  /* whether the caller sleeps until all are */
  uint32_t taken;    /* whether somebody has the team */
  int32_t threads;   /* 0: not known yet */
  int32_t members;   /* threads beside the caller that exist */
  int64_t refused;   /* nanoseconds of jobs of this call that did not pay */
#ifndef FUTAD_TEAM_LINUX
  pthread_mutex_t mutex; /* all sleep by one, whichever library's code they are in */
  pthread_cond_t changed;
#endif
  struct futad_team_member member[FUTAD_TEAM_MOST];
};

#ifdef FUTAD_TEAM_LINUX
#define FUTAD_TEAM_NEW {0}
#else
#define FUTAD_TEAM_NEW {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}
#endif
static struct futad_team futad_team_own = FUTAD_TEAM_NEW;
static struct futad_team *futad_team = &futad_team_own;

/* The library's team, and another one's instead. */
__attribute__((visibility("default"))) void *futad_team_share(void *other) {
  if (other) futad_team = other;
  return futad_team;
}

#define FUTAD_TEAM_GET(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define FUTAD_TEAM_PUT(x, v) __atomic_store_n(&(x), v, __ATOMIC_SEQ_CST)

/* -- sleeping */

#ifdef FUTAD_TEAM_LINUX
static void futad_team_sleep(uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futad_team_wake(uint32_t *word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
#else
static void futad_team_sleep(uint32_t *word, uint32_t value) {
  pthread_mutex_lock(&futad_team->mutex);
  while (FUTAD_TEAM_GET(*word) == value) pthread_cond_wait(&futad_team->changed, &futad_team->mutex);
  pthread_mutex_unlock(&futad_team->mutex);
}
static void futad_team_wake(uint32_t *word, int count) {
  (void)word, (void)count;
  pthread_mutex_lock(&futad_team->mutex);
  pthread_cond_broadcast(&futad_team->changed);
  pthread_mutex_unlock(&futad_team->mutex);
}
#endif

static int64_t futad_team_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Wait until the word is another one: spinning, for so many nanoseconds and as long as `also` is not 0, then asleep. */
static bool futad_team_spin(const uint32_t *word, uint32_t value, const uint32_t *also) {
  const int64_t end = futad_team_clock() + FUTAD_TEAM_SPIN;
  do {
    for (int i = 0; i < 32; i++) {
      if (FUTAD_TEAM_GET(*word) != value) return true;
      if (!FUTAD_TEAM_GET(*also)) return false;
      FUTAD_TEAM_PAUSE();
    }
  } while (futad_team_clock() < end);
  return false;
}

/* -- processors */

static int32_t futad_team_cpu(void) {
#ifdef FUTAD_TEAM_LINUX
  unsigned cpu;
  return syscall(SYS_getcpu, &cpu, NULL, NULL) ? -1 : (int32_t)cpu;
#else
  return -1;
#endif
}

#ifdef FUTAD_TEAM_LINUX
/* Those this thread may use, a bit each; how many bytes of them the kernel knows. */
static long futad_team_allowed(uint64_t *mask) {
  memset(mask, 0, FUTAD_TEAM_CPUS / 8);
  return syscall(SYS_sched_getaffinity, 0, FUTAD_TEAM_CPUS / 8, mask);
}
#endif

/* Keep the sleeping members off each other's processors and the caller's, as far as there are enough. */
static void futad_team_spread(struct futad_team *t) {
#ifdef FUTAD_TEAM_LINUX
  uint64_t used[FUTAD_TEAM_CPUS / 64] = {0}, mask[FUTAD_TEAM_CPUS / 64];
  const int32_t here = futad_team_cpu();
  if (here < 0 || here >= FUTAD_TEAM_CPUS) return;
  used[here / 64] |= (uint64_t)1 << here % 64;
  for (int i = 0; i < t->members; i++) {
    struct futad_team_member *m = &t->member[i];
    const int32_t id = FUTAD_TEAM_GET(m->id), cpu = FUTAD_TEAM_GET(m->cpu);
    if (!id || cpu < 0 || cpu >= FUTAD_TEAM_CPUS) continue;
    const uint64_t bit = (uint64_t)1 << cpu % 64;
    if (!(used[cpu / 64] & bit)) {
      used[cpu / 64] |= bit;
      continue;
    }
    long bytes = futad_team_allowed(mask), left = 0;
    for (int k = 0; k < FUTAD_TEAM_CPUS / 64; k++) left |= (long)!!(mask[k] &= ~used[k]);
    if (bytes > 0 && left && !syscall(SYS_sched_setaffinity, id, bytes, mask))
      __atomic_store_n(&m->cpu, -1, __ATOMIC_RELEASE);
  }
#else
  (void)t;
#endif
}

/* Let this thread run soon after it is woken, on a processor that has other work too. */
static void futad_team_prompt(void) {
#if defined(FUTAD_TEAM_LINUX) && defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } turns = {0};
  if (syscall(SYS_sched_getattr, 0, &turns, sizeof turns, 0) || turns.policy) return;
  turns.size = sizeof turns;
  turns.runtime = FUTAD_TEAM_SLICE;
  (void)syscall(SYS_sched_setattr, 0, &turns, 0); /* kernels before 6.12 take no notice */
#endif
}

/* How many threads there are to be, the caller included. */
static int32_t futad_team_count(void) {
  const char *wanted = getenv("OMP_NUM_THREADS");
  long n = wanted ? strtol(wanted, NULL, 10) : 0;
#ifdef FUTAD_TEAM_LINUX
  uint64_t mask[FUTAD_TEAM_CPUS / 64];
  if (n < 1 && futad_team_allowed(mask) > 0) {
    n = 0;
    for (int k = 0; k < FUTAD_TEAM_CPUS / 64; k++) n += __builtin_popcountll(mask[k]);
  }
#endif
  if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : n > FUTAD_TEAM_MOST ? FUTAD_TEAM_MOST : (int32_t)n;
}

static inline int64_t futad_team_threads(void) {
  int32_t n = FUTAD_TEAM_GET(futad_team->threads);
  if (!n) FUTAD_TEAM_PUT(futad_team->threads, n = futad_team_count());
  return n;
}

/* From now on so many threads; those that exist stay. */
__attribute__((visibility("default"))) void futad_team_set_threads(int64_t n) {
  FUTAD_TEAM_PUT(futad_team->threads, n < 1 ? 1 : n > FUTAD_TEAM_MOST ? FUTAD_TEAM_MOST : (int32_t)n);
}

/* -- working */

/* Take and do parts of the current job until none is left. */
static void futad_team_work(struct futad_team *t) {
  for (;;) {
    uint64_t state = FUTAD_TEAM_GET(t->state);
    const uint64_t parts = state >> 16 & 0xffff, part = state & 0xffff;
    if (part >= parts) return;
    /* Another job's are not used: it has another number, so that the exchange fails. */
    void (*run)(void *, int64_t) = __atomic_load_n(&t->run, __ATOMIC_RELAXED);
    void *job = __atomic_load_n(&t->job, __ATOMIC_RELAXED);
    if (!__atomic_compare_exchange_n(&t->state, &state, state + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
    run(job, (int64_t)part);
    if (__atomic_add_fetch(&t->done, 1, __ATOMIC_SEQ_CST) == parts && __atomic_load_n(&t->waiting, __ATOMIC_SEQ_CST))
      futad_team_wake(&t->done, 1);
  }
}

static void *futad_team_member_main(void *own) {
  struct futad_team *t = futad_team;
  struct futad_team_member *m = own;
#ifdef FUTAD_TEAM_LINUX
  __atomic_store_n(&m->id, (int32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
#endif
  futad_team_prompt();
  uint32_t number = 0;
  for (;;) {
    futad_team_work(t);
    if (FUTAD_TEAM_GET(t->number) != number) {
      number = FUTAD_TEAM_GET(t->number);
      continue;
    }
    if (FUTAD_TEAM_GET(t->busy) && futad_team_spin(&t->number, number, &t->busy)) continue;
    __atomic_store_n(&m->cpu, futad_team_cpu(), __ATOMIC_RELEASE);
    __atomic_add_fetch(&t->sleeping, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&t->number, __ATOMIC_SEQ_CST) == number) futad_team_sleep(&t->number, number);
    __atomic_sub_fetch(&t->sleeping, 1, __ATOMIC_SEQ_CST);
  }
  return NULL;
}

/* In a new process only the caller is left. */
static void futad_team_forked(void) {
  struct futad_team *t = futad_team;
  const int32_t threads = t->threads;
  *t = (struct futad_team)FUTAD_TEAM_NEW;
  t->threads = threads;
}

/* Before the team is first taken, so that no process is made between the two. */
static void futad_team_watch(void) {
  static uint32_t watched;
  uint32_t none = 0;
  if (FUTAD_TEAM_GET(watched)) return;
  if (__atomic_compare_exchange_n(&watched, &none, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) &&
      pthread_atfork(NULL, NULL, futad_team_forked))
    FUTAD_TEAM_PUT(watched, 0);
}

/* As many members as wanted, or as the system gives. */
static void futad_team_grow(struct futad_team *t, int32_t wanted) {
  sigset_t all, before;
  pthread_attr_t detached;
  if (pthread_attr_init(&detached)) return;
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&detached, FUTAD_TEAM_STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of the program */
  while (t->members < wanted) {
    struct futad_team_member *m = &t->member[t->members];
    *m = (struct futad_team_member){0, -1};
    pthread_t thread;
    if (pthread_create(&thread, &detached, futad_team_member_main, m)) break;
    t->members++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&detached);
}

/* The parts one after the other. */
static __attribute__((unused)) void futad_team_alone(int64_t parts, void (*run)(void *, int64_t), void *job) {
  for (int64_t i = 0; i < parts; i++) run(job, i);
}

static __attribute__((unused)) bool futad_team_pays(int64_t ns) {
  struct futad_team *t = futad_team;
  if (ns < FUTAD_TEAM_MEETING || futad_team_threads() < 2) return false;
  const bool spins = FUTAD_TEAM_GET(t->busy) && FUTAD_TEAM_GET(t->sleeping) < (uint32_t)FUTAD_TEAM_GET(t->members);
  if (spins || ns >= 2 * FUTAD_TEAM_WAKING) return true;
  /* Callers at the same time may count together: that is as good. */
  const int64_t refused = __atomic_load_n(&t->refused, __ATOMIC_RELAXED) + ns;
  __atomic_store_n(&t->refused, refused < FUTAD_TEAM_FOLLOWING ? refused : 0, __ATOMIC_RELAXED);
  return refused >= FUTAD_TEAM_FOLLOWING;
}

static __attribute__((unused)) void futad_team_run(int64_t parts, int64_t ns, void (*run)(void *, int64_t), void *job) {
  struct futad_team *t = futad_team;
  uint32_t free = 0;
  futad_team_watch();
  if (parts < 2 || futad_team_threads() < 2 ||
      !__atomic_compare_exchange_n(&t->taken, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    /* Perhaps this thread itself is of the team: then its caller has it. */
    futad_team_alone(parts, run, job);
    return;
  }
  const int64_t most = futad_team_threads();
  int64_t helpers = ns > FUTAD_TEAM_WAKING ? ns / FUTAD_TEAM_WAKING : 1;
  if (helpers > most - 1) helpers = most - 1;
  if (helpers > parts - 1) helpers = parts - 1;
  if (t->members < helpers) futad_team_grow(t, (int32_t)helpers);
  __atomic_store_n(&t->run, run, __ATOMIC_RELAXED);
  __atomic_store_n(&t->job, job, __ATOMIC_RELAXED);
  __atomic_store_n(&t->done, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&t->waiting, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&t->busy, 1, __ATOMIC_RELAXED);
  const uint64_t number = (__atomic_load_n(&t->state, __ATOMIC_RELAXED) >> 32) + 1;
  FUTAD_TEAM_PUT(t->state, number << 32 | (uint64_t)parts << 16);
  FUTAD_TEAM_PUT(t->number, (uint32_t)number);
  const int32_t asleep = (int32_t)__atomic_load_n(&t->sleeping, __ATOMIC_SEQ_CST);
  const int32_t missing = (int32_t)helpers - (t->members - asleep);
  if (asleep > 0 && missing > 0) {
    futad_team_spread(t);
    futad_team_wake(&t->number, missing);
  }
  futad_team_work(t);
  for (uint32_t done; (done = FUTAD_TEAM_GET(t->done)) < parts;) {
    static const uint32_t always = 1;
    if (futad_team_spin(&t->done, done, &always)) continue;
    FUTAD_TEAM_PUT(t->waiting, 1);
    if (__atomic_load_n(&t->done, __ATOMIC_SEQ_CST) == done) futad_team_sleep(&t->done, done);
  }
  __atomic_store_n(&t->taken, 0, __ATOMIC_RELEASE);
}

static inline __attribute__((unused)) void futad_team_rest(void) {
  struct futad_team *t = futad_team;
  if (FUTAD_TEAM_GET(t->busy)) __atomic_store_n(&t->busy, 0, __ATOMIC_RELEASE);
  if (__atomic_load_n(&t->refused, __ATOMIC_RELAXED)) __atomic_store_n(&t->refused, 0, __ATOMIC_RELAXED);
}

#endif
