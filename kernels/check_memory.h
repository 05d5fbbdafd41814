/* Checked execution: reads, writes and what is claimed of arrays, looked up in their elements' entries
 * (`check_arena.h`).  Included after the definition of a context. */
#ifndef FUTAD_CHECK_MEMORY_H
#define FUTAD_CHECK_MEMORY_H

#define FUTAD_CHECK 5
enum { FUTAD_READ, FUTAD_WRITE, FUTAD_MADE, FUTAD_RACE };

/* A finding: leaves the entry, or the thread's part. */
static __attribute__((noinline, cold, noreturn, unused)) void futad_found(struct futad_context *ctx, int64_t what,
                                                                          int64_t reader, uint64_t entry,
                                                                          uint64_t bound, int64_t place) {
  futad_fail(ctx, FUTAD_CHECK, -1, what, reader, (int64_t)entry, (int64_t)bound);
  ctx->watch.finding.what = what;
  ctx->watch.finding.reader = reader;
  ctx->watch.finding.entry = (int64_t)entry;
  ctx->watch.finding.bound = (int64_t)bound;
  ctx->watch.finding.place = place;
  ctx->watch.finding.by = ctx;
  longjmp(ctx->watch.stop, 1);
}

/* In a word, as `runtime/findings.py` has it. */
static __attribute__((unused)) const char *futad_kind_of_finding(int64_t what, uint64_t entry) {
  if (!entry) return "foreign";
  if (entry >> 63) return entry >> 62 & 1 ? "stale" : "uninitialised";
  return what == FUTAD_RACE ? "raced for" : what == FUTAD_READ ? "overwritten" : "stale";
}

/* The number of an element in its block. */
static __attribute__((noinline, cold, unused)) int64_t futad_place(const uint64_t *entry) {
  const int k = (int)(((uintptr_t)entry - FUTAD_SPACE(0)) >> 41);
  const uint64_t *first = entry;
  const uint64_t *const least = (const uint64_t *)(FUTAD_SPACE(k) + FUTAD_ENTRIES);
  if (!*entry) return -1;
  while (first > least && first[-1]) first--;
  return entry - first;
}

/* Time goes on: what has been written by now is older than what will be. */
FUTAD_INLINE uint64_t futad_now(struct futad_context *ctx) { return ctx->watch.clock += FUTAD_MOMENT; }

FUTAD_INLINE void futad_iteration(struct futad_context *ctx, int64_t loop, int64_t number) {
  const uint64_t now = futad_now(ctx);
  ctx->watch.iterations[ctx->watch.iterations_made++ % FUTAD_ITERATIONS] = (struct futad_iteration){now, loop, number};
}

/* A piece of a parallel nest begins.  Those that are told from each other are the last 63. */
static __attribute__((unused)) void futad_piece(struct futad_context *ctx) {
  const uint64_t number = 1 + __atomic_fetch_add(&futad_arena()->pieces, 1, __ATOMIC_RELAXED) % 63;
  ctx->watch.clock = (futad_now(ctx) & ~FUTAD_PIECES_MASK) | number << FUTAD_BINDING_BITS;
}

/* The time after a parallel nest, which no piece has. */
FUTAD_INLINE uint64_t futad_together_again(uint64_t latest) { return (latest & ~FUTAD_PIECES_MASK) + FUTAD_MOMENT; }

/* Whether another piece of the nest wrote an element that this one reads or writes. */
FUTAD_INLINE bool futad_raced(const struct futad_context *ctx, uint64_t e) {
  return e >= ctx->watch.nest && !(e & FUTAD_UNWRITTEN) && (e ^ ctx->watch.clock) & FUTAD_PIECES_MASK;
}

/* In which iteration a loop was at that time, -1 if that is not known any more. */
static int64_t futad_iteration_of(struct futad_context *ctx, int64_t loop, uint64_t time) {
  const struct futad_watch *const w = &ctx->watch;
  const uint64_t known = w->iterations_made < FUTAD_ITERATIONS ? w->iterations_made : FUTAD_ITERATIONS;
  for (uint64_t back = 1; back <= known; back++) {
    const struct futad_iteration *const iteration = &w->iterations[(w->iterations_made - back) % FUTAD_ITERATIONS];
    if (iteration->loop == loop && iteration->clock <= time) return iteration->number;
  }
  return -1;
}

/* For who reports: the finding, and a loop's iteration at a time (0: when it was found). */
void futad_finding(struct futad_context *ctx, int64_t *out) {
  memcpy(out, &ctx->watch.finding, 5 * sizeof *out);
}

int64_t futad_iteration_at(struct futad_context *ctx, int64_t loop, uint64_t time) {
  struct futad_context *const by = ctx->watch.finding.by ? ctx->watch.finding.by : ctx;
  const int64_t iteration = futad_iteration_of(by, loop, time ? time : by->watch.clock);
  return iteration < 0 && by != ctx ? futad_iteration_of(ctx, loop, time ? time : ctx->watch.clock) : iteration;
}

#define FUTAD_ANY (FUTAD_UNWRITTEN - 1) /* the time that all is older than */

/* Of each type: reads of an element written before `limit` by whoever, and copies of one, where what has not been written
 * in one place has not been in the other. */
#ifdef FUTAD_POOL_H
#define FUTAD_RACES(ctx, entry, who)           \
  if (FUTAD_UNLIKELY(futad_raced(ctx, *entry))) \
  futad_found(ctx, FUTAD_RACE, who, *entry, (ctx)->watch.nest, futad_place(entry))
#else
#define FUTAD_RACES(ctx, entry, who) ((void)0)
#endif
#define FUTAD_LOOKUP static inline __attribute__((unused, always_inline))
#define FUTAD_ACCESS(name, T, k)                                                                                  \
  FUTAD_LOOKUP T futad_read_##name(struct futad_context *ctx, const T *p, uint64_t limit, int64_t reader) {       \
    const uint64_t *const e = futad_words_of(p, k);                                                               \
    if (FUTAD_UNLIKELY(*e - 1 >= limit)) futad_found(ctx, FUTAD_READ, reader, *e, limit, futad_place(e));         \
    FUTAD_RACES(ctx, e, reader);                                                                                  \
    return *p;                                                                                                    \
  }                                                                                                               \
  FUTAD_INLINE void futad_move_##name(struct futad_context *ctx, T *to, const T *p, uint64_t limit,               \
                                      int64_t reader, int64_t by) {                                               \
    const uint64_t e = *futad_words_of(p, k);                                                                     \
    uint64_t *const there = futad_words_of(to, k);                                                                \
    const bool unwritten = e & FUTAD_UNWRITTEN && !(e & FUTAD_FREED);                                             \
    if (FUTAD_UNLIKELY(e - 1 >= limit && !unwritten))                                                             \
      futad_found(ctx, FUTAD_READ, reader, e, limit, futad_place(futad_words_of(p, k)));                          \
    if (FUTAD_UNLIKELY(!*there)) futad_found(ctx, FUTAD_WRITE, by, 0, 0, -1);                                     \
    FUTAD_RACES(ctx, futad_words_of(p, k), reader);                                                               \
    FUTAD_RACES(ctx, there, by);                                                                                  \
    *to = *p;                                                                                                     \
    *there = (unwritten ? FUTAD_UNWRITTEN | FUTAD_MOVED : ctx->watch.clock) | (uint64_t)by;                       \
  }
FUTAD_ACCESS(i8, int8_t, 0)
FUTAD_ACCESS(i16, int16_t, 1)
FUTAD_ACCESS(i32, int32_t, 2)
FUTAD_ACCESS(i64, int64_t, 3)
FUTAD_ACCESS(rec, int64_t, 3)
FUTAD_ACCESS(u8, uint8_t, 0)
FUTAD_ACCESS(u16, uint16_t, 1)
FUTAD_ACCESS(u32, uint32_t, 2)
FUTAD_ACCESS(u64, uint64_t, 3)
#ifdef FUTAD_HAS_F16
FUTAD_ACCESS(f16, futad_f16, 1)
#endif
FUTAD_ACCESS(f32, float, 2)
FUTAD_ACCESS(f64, double, 3)
FUTAD_ACCESS(bool, bool, 0)

FUTAD_LOOKUP void futad_wrote(struct futad_context *ctx, const void *p, int k, int64_t by) {
  uint64_t *const e = futad_words_of(p, k);
  if (FUTAD_UNLIKELY(!*e)) futad_found(ctx, FUTAD_WRITE, by, 0, 0, -1);
  FUTAD_RACES(ctx, e, by);
  *e = ctx->watch.clock | (uint64_t)by;
}

/* An element is read, and written next. */
FUTAD_LOOKUP void futad_changed(struct futad_context *ctx, const void *p, int k, int64_t by) {
  uint64_t *const e = futad_words_of(p, k);
  if (FUTAD_UNLIKELY(*e - 1 >= FUTAD_ANY)) futad_found(ctx, FUTAD_READ, by, *e, FUTAD_ANY, futad_place(e));
  FUTAD_RACES(ctx, e, by);
  *e = ctx->watch.clock | (uint64_t)by;
}

/* An array begins in a block: `count` elements from `data` on, of which the first `kept` have their values. */
static __attribute__((unused)) void futad_begin(void *data, void *block, int64_t kept, int64_t count, int k,
                                                int64_t by) {
  struct futad_block *const b = futad_block_of(block);
  const int64_t before = (int64_t)((uintptr_t)data - (uintptr_t)block) >> k;
  uint64_t *const entries = futad_words_of(block, k);
  for (int64_t i = before + kept; i < before + count; i++) entries[i] = FUTAD_UNWRITTEN | (uint64_t)by;
  for (int64_t i = before + count; i < b->marked; i++) entries[i] = 0;
  b->marked = before + count;
}

/* An array has been moved to another block, by a binding that is then noted. */
static __attribute__((unused)) void futad_moved(void *to, const void *from, int64_t count, int64_t size) {
  const int k = __builtin_ctzll((uint64_t)size);
  memcpy(futad_words_of(to, k), futad_words_of(from, k), (size_t)count * sizeof(uint64_t));
}

/* The dimensions of an array as loops over its memory: the last has the least stride, those that lie one after the other
 * are one, and there is always one.  The rank is 0 if there is no element. */
struct futad_extent {
  int rank;
  int64_t shape[16], strides[16];
};

static __attribute__((noinline, unused)) void futad_extent_of_many(struct futad_extent *x, int rank,
                                                                   const int64_t *shape, const int64_t *strides) {
  int count = 0;
  for (int d = 0; d < rank; d++) {
    if (shape[d] <= 0) {
      x->rank = 0;
      return;
    }
    if (shape[d] == 1) continue;
    int at = count++;
    for (; at > 0 && llabs(x->strides[at - 1]) < llabs(strides[d]); at--) {
      x->shape[at] = x->shape[at - 1];
      x->strides[at] = x->strides[at - 1];
    }
    x->shape[at] = shape[d];
    x->strides[at] = strides[d];
  }
  if (!count) {
    x->shape[0] = 1;
    x->strides[0] = 0;
    return;
  }
  int last = 0;
  for (int d = 1; d < count; d++) {
    if (x->strides[last] == x->shape[d] * x->strides[d]) {
      x->shape[last] *= x->shape[d];
    } else {
      last++;
      x->shape[last] = x->shape[d];
    }
    x->strides[last] = x->strides[d];
  }
  x->rank = last + 1;
}

/* Most arrays have one dimension. */
FUTAD_INLINE void futad_extent_of(struct futad_extent *x, int rank, const int64_t *shape, const int64_t *strides) {
  x->rank = 1;
  x->shape[0] = rank ? shape[0] : 1;
  x->strides[0] = rank ? strides[0] : 0;
  if (rank > 1) futad_extent_of_many(x, rank, shape, strides);
  else if (x->shape[0] <= 0) x->rank = 0;
}

/* The rows of an array's entries: `row`, with `count` entries a `step` apart. */
#define FUTAD_ROWS(row, count, step, first, rank, shape, strides, body)      \
  do {                                                                       \
    struct futad_extent x_;                                                  \
    futad_extent_of(&x_, rank, shape, strides);                              \
    const int last_ = x_.rank - 1;                                           \
    int64_t index_[16];                                                      \
    for (int d_ = 0; d_ < last_; d_++) index_[d_] = 0;                       \
    uint64_t *row = (first);                                                 \
    for (bool more_ = x_.rank > 0; more_;) {                                 \
      const int64_t count = x_.shape[last_], step = x_.strides[last_];       \
      body;                                                                  \
      int d_ = last_ - 1;                                                    \
      for (; d_ >= 0; d_--) {                                                \
        row += x_.strides[d_];                                               \
        if (++index_[d_] < x_.shape[d_]) break;                              \
        row -= x_.shape[d_] * x_.strides[d_];                                \
        index_[d_] = 0;                                                      \
      }                                                                      \
      more_ = d_ >= 0;                                                       \
    }                                                                        \
  } while (0)

/* Whether the condition, of an entry `e`, holds of one in the row: looked up without branches, in vectors. */
#define FUTAD_SOME(out, row, count, step, condition)  \
  bool out = false;                                   \
  if ((step) == 1) {                                  \
    for (int64_t i_ = 0; i_ < (count); i_++) {        \
      const uint64_t e = (row)[i_];                   \
      out |= (condition);                             \
    }                                                 \
  } else {                                            \
    for (int64_t i_ = 0; i_ < (count); i_++) {        \
      const uint64_t e = (row)[i_ * (step)];          \
      out |= (condition);                             \
    }                                                 \
  }

/* No other piece of the parallel nest wrote elements of an array. */
#ifdef FUTAD_POOL_H
static __attribute__((noinline, cold)) void futad_apart_of(struct futad_context *ctx, const void *p, int k, int rank,
                                                           const int64_t *shape, const int64_t *strides, int64_t who) {
  FUTAD_ROWS(row, count, step, futad_words_of(p, k), rank, shape, strides,
             for (int64_t i = 0; i < count; i++) FUTAD_RACES(ctx, (row + i * step), who));
}
#define FUTAD_APART(ctx, p, k, rank, shape, strides, who) \
  if ((ctx)->watch.nest != FUTAD_ALONE) futad_apart_of(ctx, p, k, rank, shape, strides, who)
#else
#define FUTAD_APART(ctx, p, k, rank, shape, strides, who) ((void)0)
#endif

/* All elements of an array were written since one time and before another; one that is made may be copied from memory
 * that was not written. */
static __attribute__((unused)) void futad_examine(struct futad_context *ctx, const void *p, int k, int rank,
                                                  const int64_t *shape, const int64_t *strides, uint64_t since,
                                                  uint64_t limit, int64_t what, int64_t reader) {
  FUTAD_APART(ctx, p, k, rank, shape, strides, reader);
  FUTAD_ROWS(row, count, step, futad_words_of(p, k), rank, shape, strides, {
    FUTAD_SOME(bad, row, count, step, e - since > limit - since);
    for (int64_t i = 0; FUTAD_UNLIKELY(bad) && i < count; i++) {
      const uint64_t *const e = row + i * step;
      if (*e - since > limit - since && !(what == FUTAD_MADE && *e & FUTAD_MOVED))
        futad_found(ctx, what, reader, *e, what == FUTAD_READ ? limit : since, futad_place(e));
    }
  });
}

/* All elements of an array were written before one time, or again since another, or never: one that is copied, or is in
 * its place. */
static __attribute__((unused)) void futad_examine_copied(struct futad_context *ctx, const void *p, int k, int rank,
                                                         const int64_t *shape, const int64_t *strides, uint64_t limit,
                                                         uint64_t since, int64_t reader) {
  FUTAD_APART(ctx, p, k, rank, shape, strides, reader);
  FUTAD_ROWS(row, count, step, futad_words_of(p, k), rank, shape, strides, {
    FUTAD_SOME(bad, row, count, step, e - 1 >= limit);
    for (int64_t i = 0; FUTAD_UNLIKELY(bad) && i < count; i++) {
      const uint64_t *const e = row + i * step;
      const bool unwritten = *e & FUTAD_UNWRITTEN && !(*e & FUTAD_FREED);
      if (*e - 1 >= limit && !unwritten && (*e < since || *e & FUTAD_UNWRITTEN))
        futad_found(ctx, FUTAD_READ, reader, *e, limit, futad_place(e));
    }
  });
}

static __attribute__((unused)) void futad_mark(struct futad_context *ctx, const void *p, int k, int rank,
                                               const int64_t *shape, const int64_t *strides, int64_t by) {
  const uint64_t now = ctx->watch.clock | (uint64_t)by;
  FUTAD_APART(ctx, p, k, rank, shape, strides, by);
  FUTAD_ROWS(row, count, step, futad_words_of(p, k), rank, shape, strides, {
    FUTAD_SOME(bad, row, count, step, !e);
    if (FUTAD_UNLIKELY(bad)) futad_found(ctx, FUTAD_WRITE, by, 0, 0, -1);
    for (int64_t i = 0; i < count; i++) row[i * step] = now;
  });
}

/* All of an array was written last by that binding. */
static __attribute__((unused)) void futad_examine_own(struct futad_context *ctx, const void *p, int k, int rank,
                                                      const int64_t *shape, const int64_t *strides, int64_t by) {
  FUTAD_ROWS(row, count, step, futad_words_of(p, k), rank, shape, strides, {
    FUTAD_SOME(bad, row, count, step, (e & FUTAD_BINDING) != (uint64_t)by);
    for (int64_t i = 0; FUTAD_UNLIKELY(bad) && i < count; i++) {
      const uint64_t *const e = row + i * step;
      if ((*e & FUTAD_BINDING) != (uint64_t)by) futad_found(ctx, FUTAD_READ, by, *e, *e, futad_place(e));
    }
  });
}

/* Whether two arrays of one shape lie in the same place. */
FUTAD_INLINE bool futad_same(const void *p, const int64_t *strides, const void *q, const int64_t *others, int rank,
                             const int64_t *shape) {
  bool same = p == q, none = false;
  for (int d = 0; d < rank; d++) {
    none |= shape[d] <= 0;
    same &= shape[d] <= 1 || strides[d] == others[d];
  }
  return same || none;
}

static __attribute__((unused)) void futad_moved_by(struct futad_context *ctx, void *to, int64_t count, int k, int64_t by) {
  uint64_t *const entries = futad_words_of(to, k);
  for (int64_t i = 0; i < count; i++)
    entries[i] = (entries[i] & FUTAD_UNWRITTEN ? FUTAD_UNWRITTEN | FUTAD_MOVED : ctx->watch.clock) | (uint64_t)by;
}

/* A copy: what has not been written in one array has not been in the other. */
static __attribute__((unused)) void futad_copied(struct futad_context *ctx, const void *to, const void *from, int k,
                                                 int64_t count, int64_t by) {
  uint64_t *const t = futad_words_of(to, k);
  const uint64_t *const f = futad_words_of(from, k), now = ctx->watch.clock | (uint64_t)by;
  if (t == f) return;
  FUTAD_APART(ctx, to, k, 1, &count, (const int64_t[]){1}, by);
  FUTAD_APART(ctx, from, k, 1, &count, (const int64_t[]){1}, by);
  FUTAD_SOME(foreign, t, count, 1, !e);
  FUTAD_SOME(nothing, f, count, 1, !e);
  if (FUTAD_UNLIKELY(foreign)) futad_found(ctx, FUTAD_WRITE, by, 0, 0, -1);
  if (FUTAD_UNLIKELY(nothing)) futad_found(ctx, FUTAD_READ, by, 0, FUTAD_ANY, -1);
  for (int64_t i = 0; i < count; i++)
    t[i] = f[i] & FUTAD_UNWRITTEN ? FUTAD_UNWRITTEN | FUTAD_MOVED | (uint64_t)by : now;
}

#endif
