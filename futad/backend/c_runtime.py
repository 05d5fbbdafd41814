"""The C that every emitted file starts with: contexts, slots, failures; threads for `multicore`."""

RUNTIME = r"""#include "prelude.h"
#include "interrupts.h"

#ifdef FUTAD_POOL_H
#define FUTAD_MOST_THREADS FUTAD_POOL_MOST
#else
#define FUTAD_MOST_THREADS 1
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

#if defined(__clang__)
#define FUTAD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define FUTAD_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Bytes of a vector register. */
#if defined(__AVX512F__)
#define FUTAD_VECTOR 64
#elif defined(__AVX__)
#define FUTAD_VECTOR 32
#else
#define FUTAD_VECTOR 16
#endif

#define FUTAD_ALIGNED __attribute__((aligned(FUTAD_VECTOR)))

/* A vector of f64, wherever it lies. */
typedef double futad_lanes_t __attribute__((vector_size(FUTAD_VECTOR), aligned(8), may_alias));

struct futad_slot {
  void *data;
  int64_t bytes;
};

struct futad_result {
  void *data;
  int64_t slot;
  int64_t shape[FUTAD_MAX_RANK];
};

struct futad_context {
  struct futad_error error;
  int64_t values[4];
  int64_t allocations;
#ifdef FUTAD_TELLS
  int64_t peak; /* what was written at a time, as far as arrays that grew were there twice */
#endif
  bool inside; /* a part of something that several threads do */
  struct futad_context *threads[FUTAD_MOST_THREADS]; /* those of others, from 1 on */
  struct futad_slot slots[FUTAD_SLOTS];
};

static __attribute__((noinline, cold, unused)) void futad_fail(struct futad_context *ctx, int64_t code, int64_t place,
                                                       int64_t a, int64_t b, int64_t c, int64_t d) {
  ctx->error = (struct futad_error){code, place, a, b};
  ctx->values[0] = a;
  ctx->values[1] = b;
  ctx->values[2] = c;
  ctx->values[3] = d;
}

FUTAD_INLINE int64_t futad_real_bits(double x) {
  int64_t r;
  memcpy(&r, &x, sizeof r);
  return r;
}

/* A product of sizes, INT64_MAX if it is too large. */
FUTAD_INLINE int64_t futad_size(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

/* Memory for arrays.  Large blocks are made of large pages where there are such: a fresh page costs as much as some
 * hundred operations. */
#define FUTAD_LARGE_PAGE ((int64_t)1 << 21)
static __attribute__((noinline, cold, unused)) void *futad_alloc(int64_t *bytes) {
  if (*bytes < 2 * FUTAD_LARGE_PAGE) return aligned_alloc(64, (size_t)*bytes);
  *bytes = (*bytes + FUTAD_LARGE_PAGE - 1) / FUTAD_LARGE_PAGE * FUTAD_LARGE_PAGE;
  void *data = aligned_alloc((size_t)FUTAD_LARGE_PAGE, (size_t)*bytes);
#ifdef MADV_HUGEPAGE
  if (data) madvise(data, (size_t)*bytes, MADV_HUGEPAGE);
#endif
  return data;
}

static __attribute__((noinline, cold, unused)) void *futad_grow(struct futad_context *ctx, struct futad_slot *slot,
                                                        int64_t count, int64_t size) {
  int64_t bytes, wanted;
  if (count < 0 || __builtin_mul_overflow(count, size, &bytes) || bytes > INT64_MAX / 4) {
    futad_fail(ctx, FUTAD_MEMORY, -1, count < 0 ? count : INT64_MAX, size, 0, 0);
    return NULL;
  }
  wanted = slot->bytes ? bytes + bytes / 4 : bytes;
  wanted = (wanted + 127) / 64 * 64;
  void *const held = futad_hold();
  free(slot->data);
  slot->data = futad_alloc(&wanted);
  slot->bytes = slot->data ? wanted : 0;
  ctx->allocations++;
  futad_go_on(held);
  if (!slot->data) futad_fail(ctx, FUTAD_MEMORY, -1, bytes, 1, 0, 0);
  return slot->data;
}

/* Whether there is memory is asked here, too: with a comparison of sizes alone gcc 12 takes loops after the caller's
 * check for code that is never run, and leaves them without vectors. */
FUTAD_INLINE void *futad_ensure(struct futad_context *ctx, struct futad_slot *slot, int64_t count, int64_t size) {
  if (FUTAD_LIKELY((uint64_t)count <= (uint64_t)slot->bytes / (uint64_t)size && slot->data)) return slot->data;
  return futad_grow(ctx, slot, count, size);
}

/* The same where it is done once in a call: less code. */
static __attribute__((noinline, unused)) void *futad_ensure_once(struct futad_context *ctx, struct futad_slot *slot,
                                                                 int64_t count, int64_t size) {
  return futad_ensure(ctx, slot, count, size);
}

/* An array of bools from outside: itself, or if it has bytes other than 0 and 1, a copy in the slot where these are 1.
 * NULL also if there is no array; that memory is short, the context's error says. */
static __attribute__((noinline, unused)) bool *futad_bools(struct futad_context *ctx, struct futad_slot *slot,
                                                           void *data, int64_t count) {
  const uint8_t *from = data;
  uint8_t all = 0;
  for (int64_t i = 0; i < count; i++) all |= from[i];
  if (FUTAD_LIKELY(all <= 1)) return data;
  uint8_t *to = futad_ensure(ctx, slot, count, 1);
  for (int64_t i = 0; to && i < count; i++) to[i] = from[i] != 0;
  return (bool *)to;
}

/* Whether the data are in the slot; an empty slot has none. */
FUTAD_INLINE bool futad_within(const struct futad_slot *slot, const void *data) {
  return (uintptr_t)data - (uintptr_t)slot->data < (uintptr_t)slot->bytes;
}

/* Exchange two slots if the data are in the first one. */
FUTAD_INLINE void futad_spare(struct futad_slot **slot, struct futad_slot **spare, const void *data) {
  struct futad_slot *first = *slot;
  if (!futad_within(first, data)) return;
  *slot = *spare;
  *spare = first;
}

#ifdef FUTAD_TELLS
static __thread int64_t futad_packed; /* bytes that this thread has packed factors of products in */
static int64_t futad_written(struct futad_context *ctx);
static int64_t futad_pages(const struct futad_slot *slot);
#endif

/* The first `kept` elements at `data`, with room for others behind them: where they are, if that is one of the slots,
 * which becomes `slot`, and it has the room; else in `slot`, which then grows by half at least. */
static __attribute__((unused)) void *futad_append(struct futad_context *ctx, struct futad_slot **slot,
                                                  struct futad_slot **spare, void *data, int64_t kept, int64_t count,
                                                  int64_t size) {
  futad_spare(spare, slot, data);
  struct futad_slot *own = *slot;
  if (!futad_within(own, data)) {
    void *to = futad_ensure(ctx, own, count, size);
    if (to && kept) memcpy(to, data, (size_t)(kept * size));
    return to;
  }
  int64_t before = (char *)data - (char *)own->data;
  if (FUTAD_LIKELY((uint64_t)count <= (uint64_t)(own->bytes - before) / (uint64_t)size)) return data;
  void *const held = futad_hold();
  struct futad_slot full = *own;
  *own = (struct futad_slot){NULL, 0};
  void *to = futad_grow(ctx, own, count > INT64_MAX / 2 ? INT64_MAX : count + count / 2, size);
  if (to) memcpy(to, data, (size_t)(kept * size));
#ifdef FUTAD_TELLS
  if (full.bytes >= 1 << 16) {
    int64_t both = futad_written(ctx) + futad_pages(&full);
    if (both > ctx->peak) ctx->peak = both;
  }
#endif
  free(full.data);
  futad_go_on(held);
  return to;
}

/* A library's call takes longer than copying a few words; the last ones may be copied twice. */
#define FUTAD_SHORT_COPY 256
FUTAD_INLINE void futad_copy(void *to, const void *from, int64_t bytes) {
  if (to == from) return;
  if (bytes < 32 || bytes > FUTAD_SHORT_COPY) {
    memcpy(to, from, (size_t)bytes);
    return;
  }
  for (int64_t at = 0; at < bytes - 32; at += 32) memcpy((char *)to + at, (const char *)from + at, 32);
  memcpy((char *)to + bytes - 32, (const char *)from + bytes - 32, 32);
}

static __attribute__((noinline, unused)) void futad_copy_once(void *to, const void *from, int64_t bytes) {
  futad_copy(to, from, bytes);
}

/* A piece of an array that is larger than the caches: stores past them spare reading what is overwritten. */
#if defined(__AVX512F__) && !defined(__clang__)
#define FUTAD_STREAM(to, v) __builtin_ia32_movntpd512((double *)(to), v)
#define FUTAD_STREAM_END() __builtin_ia32_sfence()
#elif defined(__AVX__) && !defined(__clang__)
#define FUTAD_STREAM(to, v) __builtin_ia32_movntpd256((double *)(to), v)
#define FUTAD_STREAM_END() __builtin_ia32_sfence()
#else
#define FUTAD_STREAM_END() ((void)0)
#endif
static inline __attribute__((unused)) void futad_stream(void *to, const void *from, int64_t bytes) {
#ifdef FUTAD_STREAM
  int64_t head = (int64_t)(-(uintptr_t)to % FUTAD_VECTOR);
  if (bytes >= head + FUTAD_VECTOR) {
    char *t = to;
    const char *f = from;
    memcpy(t, f, (size_t)head);
    int64_t i = head;
    for (; i + FUTAD_VECTOR <= bytes; i += FUTAD_VECTOR) FUTAD_STREAM(t + i, *(const futad_lanes_t *)(f + i));
    memcpy(t + i, f + i, (size_t)(bytes - i));
    return;
  }
#endif
  memcpy(to, from, (size_t)bytes);
}

#ifdef FUTAD_RECORDS_SLOT
static void futad_records_free(void *data);
#endif

struct futad_context *futad_new(void) { return calloc(1, sizeof(struct futad_context)); }

void futad_free(struct futad_context *ctx);

/* All memory of a context goes. */
static void futad_empty(struct futad_context *ctx) {
  for (int i = 1; i < FUTAD_MOST_THREADS; i++)
    if (ctx->threads[i]) futad_free(ctx->threads[i]);
#ifdef FUTAD_RECORDS_SLOT
  futad_records_free(ctx->slots[FUTAD_RECORDS_SLOT].data);
#endif
  for (int64_t i = 0; i < FUTAD_SLOTS; i++) free(ctx->slots[i].data);
}

void futad_free(struct futad_context *ctx) {
  futad_empty(ctx);
  free(ctx);
}

typedef int64_t futad_entry(struct futad_context *, void **, struct futad_result *);

#ifndef FUTAD_UNINTERRUPTED
/* A call that may be interrupted, see interrupts.h. */
static __attribute__((noinline)) int64_t futad_interruptible(struct futad_context *ctx, void **args,
                                                             struct futad_result *results) {
  struct futad_interrupts *const all = futad_interrupts;
  int64_t code = FUTAD_STOPPED;
  jmp_buf back;
  all->of[0].back = NULL;
  all->of[0].end = NULL;
  if (!++all->calls) all->calls = 1;
  FUTAD_INTERRUPTS_PUT(all->running, all->calls);
  if (!_setjmp(back)) {
    FUTAD_INTERRUPTS_PUT(all->of[0].back, &back);
    if (!futad_ending(all)) code = ((futad_entry *)args[-1])(ctx, args, results);
  }
  FUTAD_INTERRUPTS_PUT(all->of[0].back, NULL);
  const bool stopped = futad_ending(all);
  FUTAD_INTERRUPTS_PUT(all->running, 0);
  FUTAD_INTERRUPTS_PUT(all->stopping, 0);
  if (FUTAD_LIKELY(!stopped)) return code;
#ifdef FUTAD_POOL_H
  futad_pool_idle();
#endif
  futad_empty(ctx);
  memset(ctx, 0, sizeof *ctx);
  return ctx->error.code = FUTAD_STOPPED;
}
#endif

/* The entry whose address is args[-1]. */
int64_t futad_call(struct futad_context *ctx, void **args, struct futad_result *results) {
#ifndef FUTAD_UNINTERRUPTED
  const struct futad_interrupts *const all = futad_interrupts;
  if (all->armed && !all->running && pthread_equal(all->of[0].thread, pthread_self()))
    return futad_interruptible(ctx, args, results);
#endif
  return ((futad_entry *)args[-1])(ctx, args, results);
}

/* The slot whose memory this is, -1 if none. */
static __attribute__((noinline, unused)) int64_t futad_owner(struct futad_context *ctx, void *data) {
  for (int64_t i = 0; i < FUTAD_SLOTS; i++)
    if (data && ctx->slots[i].data == data) return i;
  return -1;
}

/* The caller takes over a slot's memory, to be given to futad_release. */
void *futad_take(struct futad_context *ctx, int64_t slot) {
  void *data = ctx->slots[slot].data;
  ctx->slots[slot].data = NULL;
  ctx->slots[slot].bytes = 0;
  return data;
}

void futad_release(void *data) { free(data); }

int64_t futad_slot_bytes(struct futad_context *ctx, int64_t slot) { return ctx->slots[slot].bytes; }

/* Memory taken from a slot comes back, to be used again; of that and what the slot has now the larger stays. */
void futad_return(struct futad_context *ctx, int64_t slot, void *data, int64_t bytes) {
  if (bytes > ctx->slots[slot].bytes) {
    void *smaller = ctx->slots[slot].data;
    ctx->slots[slot] = (struct futad_slot){data, bytes};
    data = smaller;
  }
  free(data);
}

/* Where the elements of NumPy's arrays lie. Of each argument `kinds` has the address of its dtype (0: a number, which
   is passed over) and its rank. An array is an object of `type` whose fields behind the head, of so many bytes, are
   those of NumPy's interface for C. Returns how many are as told and in order, up to the first that is not. */
struct futad_numpy_array {
  void *data;
  int rank;
  int64_t *sizes, *strides;
  void *base, *dtype;
  int flags;
};

int64_t futad_addresses(const intptr_t *objects, const int64_t *kinds, void **pointers, int64_t n, int64_t type,
                       int64_t head) {
  for (int64_t i = 0; i < n; i++) {
    if (!kinds[2 * i]) continue;
    if (((intptr_t *)(objects[i] + head))[-1] != type) return i;
    const struct futad_numpy_array *a = (const struct futad_numpy_array *)(objects[i] + head);
    if ((int64_t)(intptr_t)a->dtype != kinds[2 * i] || a->rank != kinds[2 * i + 1] || !(a->flags & 1)) return i;
    pointers[i] = a->data;
  }
  return n;
}

/* Bytes held in slots, and how often one has grown. */
int64_t futad_memory(struct futad_context *ctx) {
  int64_t sum = 0;
  for (int64_t i = 0; i < FUTAD_SLOTS; i++) sum += ctx->slots[i].bytes;
  for (int i = 1; i < FUTAD_MOST_THREADS; i++)
    if (ctx->threads[i]) sum += futad_memory(ctx->threads[i]);
  return sum;
}

#ifdef FUTAD_TELLS
/* Bytes of a slot that were written: the system gives no others memory. */
static int64_t futad_pages(const struct futad_slot *slot) {
#ifdef __linux__
  const int64_t page = 4096;
  int64_t skip = (int64_t)(-(uintptr_t)slot->data % (uintptr_t)page), pages = (slot->bytes - skip) / page;
  if (slot->bytes >= 1 << 16) {
    unsigned char there[1024];
    int64_t found = slot->bytes - pages * page;
    for (int64_t i = 0; i < pages; i += 1024) {
      int64_t n = pages - i < 1024 ? pages - i : 1024;
      if (mincore((char *)slot->data + skip + i * page, (size_t)(n * page), there)) return slot->bytes;
      for (int64_t k = 0; k < n; k++) found += page * (there[k] & 1);
    }
    return found;
  }
#endif
  return slot->bytes;
}

static int64_t futad_written(struct futad_context *ctx) {
  int64_t sum = 0;
  for (int64_t i = 0; i < FUTAD_SLOTS; i++) sum += futad_pages(&ctx->slots[i]);
  for (int i = 1; i < FUTAD_MOST_THREADS; i++)
    if (ctx->threads[i]) sum += futad_written(ctx->threads[i]);
  return sum;
}

/* The same of memory taken from a slot. */
int64_t futad_pages_of(void *data, int64_t bytes) {
  const struct futad_slot slot = {data, bytes};
  return futad_pages(&slot);
}

/* Bytes in slots that were written, or that were in the last call. */
int64_t futad_peak(struct futad_context *ctx) {
  int64_t now = futad_written(ctx);
  return (now > ctx->peak ? now : ctx->peak) + futad_packed;
}
#endif

int64_t futad_allocations(struct futad_context *ctx) {
  int64_t sum = ctx->allocations;
  for (int i = 1; i < FUTAD_MOST_THREADS; i++)
    if (ctx->threads[i]) sum += ctx->threads[i]->allocations;
  return sum;
}
"""

THREADS = r"""
/* How many threads to use: no more than the work pays for, copies of accumulators included. */
static inline int64_t futad_threads(struct futad_context *ctx, int64_t steps, int64_t work, int64_t extra) {
  if (work < 2 * FUTAD_GRAIN || steps < 2 || ctx->inside) return 1;
  int64_t n = futad_pool_threads();
  if (n > steps) n = steps;
  if (n > work / FUTAD_GRAIN) n = work / FUTAD_GRAIN;
  if (extra > 0 && FUTAD_GRAIN > 1 && n > work / (8 * extra)) n = work / (8 * extra);
  if (n < 1) n = 1;
  for (int64_t i = 1; i < n; i++) {
    if (!ctx->threads[i]) {
      void *const held = futad_hold();
      ctx->threads[i] = futad_new();
      futad_go_on(held);
    }
    if (!ctx->threads[i]) return i;
    ctx->threads[i]->inside = true;
    ctx->threads[i]->error.code = FUTAD_OK;
  }
  return n;
}

/* Steps that are taken together: about so many parts of all, each of whole units. */
static inline int64_t futad_chunk(int64_t steps, int64_t parts, int64_t unit) {
  return (steps / parts + unit) / unit * unit;
}

/* Where a thread's part begins, the same for all that a nest does with its parts: parts are as equal as can be, if
 * they are long they have whole units. */
static inline int64_t futad_part(int64_t steps, int64_t thread, int64_t threads, int64_t unit) {
  if (thread == threads) return steps;
  return steps < 8 * threads * unit ? steps * thread / threads : steps / unit * thread / threads * unit;
}

/* How long a region may take one thread, by its `work` and by its `speed`. */
#define FUTAD_SPEED 0.1
static inline int64_t futad_expected(int64_t work, const struct futad_speed *speed) {
  return FUTAD_GRAIN > 1 ? futad_pool_expected((double)work, FUTAD_SPEED, speed) : INT64_MAX;
}

/* The parts of a region whose answer does not depend on them: one if several threads do not do it sooner. */
static inline int64_t futad_together(int64_t n, int64_t work, struct futad_speed *speed) {
  return FUTAD_UNLIKELY(n > 1) && futad_pool_several(futad_expected(work, speed), speed) ? n : 1;
}

/* Whether to measure this time. */
static inline bool futad_watched(int64_t n, const struct futad_speed *speed) {
  return FUTAD_UNLIKELY(n > 1) && futad_pool_watched(speed);
}

static inline void futad_took(int64_t ns, int64_t work, struct futad_speed *speed) {
  futad_pool_took(ns, (double)work, true, speed);
}

/* Of a part that is done in pieces, as nothing depends on them: how many steps have been taken.  Each count has a cache
 * line of its own, as only who helps needs another one's. */
#define FUTAD_PIECES 8   /* of a part, at most */
#define FUTAD_PIECE 4000 /* nanoseconds that none need be shorter than */
struct futad_taken {
  int64_t steps __attribute__((aligned(64)));
};

/* How many pieces there are of all parts; if one of each, nobody counts. */
static inline int64_t futad_divide(struct futad_taken *taken, int64_t n, int64_t work,
                                   const struct futad_speed *speed) {
  int64_t each = n > 1 ? futad_expected(work, speed) / (n * FUTAD_PIECE) : 1;
  each = each < 1 ? 1 : each > FUTAD_PIECES ? FUTAD_PIECES : each;
  for (int64_t i = 0; each > 1 && i < n; i++) taken[i].steps = 0;
  return n * each;
}

/* What a region's structure begins with, so that threads find all that they need in one place. */
struct futad_job {
  void (*body)(void *region, struct futad_context *ctx, int64_t thread);
  struct futad_context *ctx;
  int64_t taken;
};

static void futad_job_chunk(void *job, int64_t i) {
  struct futad_job *j = job;
  const int64_t start = futad_pool_clock();
  j->body(job, i ? j->ctx->threads[i] : j->ctx, i);
  __atomic_add_fetch(&j->taken, futad_pool_clock() - start, __ATOMIC_RELAXED);
}

/* The threads' chunks of a region.  `chosen`: it is known already that several threads do it sooner. */
static __attribute__((noinline, cold, unused)) void futad_parallel(struct futad_job *job, int64_t n, bool chosen,
                                                                   int64_t work, struct futad_speed *speed) {
  const int64_t ns = futad_expected(work, speed);
  const bool measured = futad_pool_measured(speed);
  bool alone = n == 1;
  if (alone) {
    futad_job_chunk(job, 0);
  } else {
    alone = !chosen && !futad_pool_several(ns, speed);
    job->ctx->inside = true;
    if (alone)
      futad_pool_alone(n, futad_job_chunk, job);
    else
      futad_pool_run_of(n, ns, measured, futad_job_chunk, job);
    job->ctx->inside = false;
  }
  futad_pool_took(job->taken, (double)work, alone, speed);
}

/* Takes over the first thread's failure, if any failed. */
static inline int64_t futad_gather(struct futad_context *ctx, int64_t n) {
  if (FUTAD_UNLIKELY(futad_to_stop())) ctx->error.code = FUTAD_STOPPED;
  if (ctx->error.code) return ctx->error.code;
  for (int64_t i = 1; i < n; i++)
    if (ctx->threads[i]->error.code) {
      ctx->error = ctx->threads[i]->error;
      memcpy(ctx->values, ctx->threads[i]->values, sizeof ctx->values);
      return ctx->error.code;
    }
  return 0;
}
"""
