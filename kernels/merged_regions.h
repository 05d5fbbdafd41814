/* Merged regions: the threads of a loop whose iterations are parallel nests.
 *
 * All workers run the loop, each with variables of its own, and of each nest their parts; they wait for each other after
 * each nest, as at a barrier.  So a nest costs two lines of cache that change hands, where a job of the pool costs ten:
 * loops of nests of a microsecond gain.
 *
 * Nobody waits for a thread that the machine does not let run.  A part is taken before it is done, by its own worker or,
 * where that one is not here or late, by another one; who comes late finds that all has been taken, nest after nest,
 * until he has caught up.  For each part there are two counts that only grow, of pieces taken and of pieces done, and
 * nest number k is the pieces from k * pieces on. */
#ifndef FUTAD_MERGED_REGIONS_H
#define FUTAD_MERGED_REGIONS_H

#define FUTAD_MERGED_PART 400     /* nanoseconds of a nest that a worker is worth */
#define FUTAD_MERGED_PATIENCE 200 /* times that a worker looks for another one's part before it takes it */
#define FUTAD_MERGED_LONG 20000   /* times after which it lets others run */

struct futad_merged {
  struct futad_job job;
  int64_t count;  /* workers */
  int64_t pieces; /* of a part, at most FUTAD_PIECES */
  int64_t failed;
  struct {
    int64_t taken __attribute__((aligned(64)));
    int64_t done __attribute__((aligned(64)));
    int64_t here; /* whether its worker has come, and was not late last time */
  } part[FUTAD_POOL_MOST];
};

/* A worker's way through a nest. */
struct futad_claim {
  int64_t start, end; /* the steps of the piece that it has taken */
  int64_t steps, parts, unit, number, part;
};

#define FUTAD_MERGED_GET(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)

/* How many workers a loop is worth, of `most` that its work is for. */
static inline int64_t futad_merged_workers(int64_t most, int64_t nests, int64_t work, struct futad_speed *speed) {
  if (FUTAD_LIKELY(most < 2)) return 1;
#ifdef FUTAD_REPORTER
  if (FUTAD_REPORTER) return 1; /* what lies between nests is reported once, in the thread that calls */
#endif
  const int64_t n = FUTAD_GRAIN > 1 ? futad_expected(work, speed) / nests / FUTAD_MERGED_PART : most;
  return futad_together(n < most ? n : most, work, speed);
}

/* All of the loop, of so many nests. */
static __attribute__((noinline, unused)) void futad_merged_run(
    struct futad_merged *t, void (*body)(void *, struct futad_context *, int64_t), struct futad_context *ctx, int64_t most,
    int64_t n, int64_t nests, int64_t work, struct futad_speed *speed) {
  const int64_t ns = futad_expected(work, speed);
  t->job = (struct futad_job){body, ctx, 0};
  t->count = n;
  t->failed = 0;
  const int64_t start = most > 1 ? futad_pool_clock() : 0;
  if (n > 1) {
    const int64_t each = ns / nests / (n * FUTAD_PIECE);
    t->pieces = each < 1 ? 1 : each > FUTAD_PIECES ? FUTAD_PIECES : each;
    for (int64_t i = 0; i < n; i++) t->part[i].taken = t->part[i].done = t->part[i].here = 0;
    if (futad_pool_post(n, n - 1, futad_job_chunk, t)) {
      ctx->inside = true;
      futad_pool_finish(n);
      ctx->inside = false;
      const int64_t took = futad_pool_clock() - start;
      if (futad_pool_measured(speed) && ns < FUTAD_POOL_SHORT) futad_pool_balance(futad_pool, ns, took);
      futad_pool_took(took * n, (double)work, false, speed);
      return;
    }
  }
  t->count = t->pieces = 1;
  body(t, ctx, 0);
  if (most > 1) futad_pool_took(futad_pool_clock() - start, (double)work, true, speed);
}

/* The steps of a piece that has been taken. */
static inline bool futad_merged_piece(const struct futad_merged *t, struct futad_claim *claim, int64_t part, int64_t piece) {
  claim->part = part;
  if (claim->parts == 1) {
    claim->start = part || piece ? claim->steps : 0;
    claim->end = claim->steps;
    return true;
  }
  const int64_t first = futad_part(claim->steps, part, claim->parts, 32);
  const int64_t last = futad_part(claim->steps, part + 1, claim->parts, 32);
  const int64_t chunk = t->pieces > 1 ? futad_chunk(claim->steps, claim->parts * t->pieces, claim->unit) : last - first;
  const int64_t at = first + piece * chunk, end = piece == t->pieces - 1 ? last : at + chunk;
  claim->start = at < last ? at : last;
  claim->end = end < last ? end : last;
  return true;
}

/* Take a piece of a part in this nest, if one is left: which. */
/* (Counts of later nests are larger, so whoever is late takes none.) */
static inline int64_t futad_merged_take(struct futad_merged *t, int64_t part, int64_t number) {
  const int64_t pieces = t->pieces, end = (number + 1) * pieces;
  int64_t next = __atomic_load_n(&t->part[part].taken, __ATOMIC_RELAXED);
  while (next < end)
    if (__atomic_compare_exchange_n(&t->part[part].taken, &next, next + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return next - number * pieces;
  return -1;
}

/* What is left for a worker that has done its own part: pieces of others, or to wait for these; false: all is done. */
static __attribute__((noinline)) bool futad_merged_others(struct futad_merged *t, int64_t me, struct futad_claim *claim) {
  const int64_t all = (claim->number + 1) * t->pieces;
  for (int64_t k = 0; k < t->count; k++) {
    const int64_t i = (me + k) % t->count; /* its own part, too: another one may have it */
    for (int64_t tries = 0; FUTAD_MERGED_GET(t->part[i].done) < all; tries++) {
      if (FUTAD_MERGED_GET(t->failed)) return false;
      const bool here = __atomic_load_n(&t->part[i].here, __ATOMIC_RELAXED);
      if (!here || t->pieces > 1 || tries % FUTAD_MERGED_PATIENCE == FUTAD_MERGED_PATIENCE - 1) {
        const int64_t piece = futad_merged_take(t, i, claim->number);
        if (piece >= 0) {
          if (here && t->pieces == 1) __atomic_store_n(&t->part[i].here, 0, __ATOMIC_RELAXED);
          return futad_merged_piece(t, claim, i, piece);
        }
      }
      if (tries > FUTAD_MERGED_LONG && tries % 64 == 0) sched_yield();
      FUTAD_POOL_PAUSE();
    }
  }
  return false;
}

/* Begin a nest.  As for a nest by itself one thread does what is too little for several (and what only one may do). */
static inline struct futad_claim futad_merged_nest(const struct futad_merged *t, int64_t number, int64_t steps, int64_t work,
                                                int64_t unit) {
  const int64_t parts = work < 2 * FUTAD_GRAIN || steps < 2 ? 1 : t->count;
  return (struct futad_claim){0, 0, steps, parts, unit, number, -1};
}

/* The worker's next piece of the nest; false when the nest is done. */
static inline bool futad_merged_next(struct futad_merged *t, int64_t me, struct futad_claim *claim) {
  if (t->count == 1) {
    claim->end = claim->steps;
    return claim->part++ < 0;
  }
  if (claim->part >= 0) __atomic_add_fetch(&t->part[claim->part].done, 1, __ATOMIC_RELEASE);
  if (claim->part < 0 || claim->part == me) {
    if (!__atomic_load_n(&t->part[me].here, __ATOMIC_RELAXED)) __atomic_store_n(&t->part[me].here, 1, __ATOMIC_RELAXED);
    const int64_t piece = futad_merged_take(t, me, claim->number);
    if (piece >= 0) return futad_merged_piece(t, claim, me, piece);
  }
  return futad_merged_others(t, me, claim);
}

static inline bool futad_merged_failed(const struct futad_merged *t) { return FUTAD_UNLIKELY(FUTAD_MERGED_GET(t->failed)); }

#endif
