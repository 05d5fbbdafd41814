/* Teams: the threads of a loop whose iterations are parallel nests.
 *
 * All members run the loop, each with variables of its own, and of each nest their parts; they wait for each other after
 * each nest, as at a barrier.  So a nest costs two lines of cache that change hands, where a job of the pool costs ten:
 * loops of nests of a microsecond gain.
 *
 * Nobody waits for a thread that the machine does not let run.  A part is taken before it is done, by its own member or,
 * where that one is not here or late, by another one; who comes late finds that all has been taken, nest after nest,
 * until he has caught up.  For each part there are two counts that only grow, of pieces taken and of pieces done, and
 * nest number k is the pieces from k * pieces on. */
#ifndef FUTAD_TEAM_H
#define FUTAD_TEAM_H

#define FUTAD_TEAM_PART 400     /* nanoseconds of a nest that a member is worth */
#define FUTAD_TEAM_PATIENCE 200 /* times that a member looks for another one's part before it takes it */
#define FUTAD_TEAM_LONG 20000   /* times after which it lets others run */

struct futad_team {
  struct futad_job job;
  int64_t count;  /* members */
  int64_t pieces; /* of a part, at most FUTAD_PIECES */
  int64_t failed;
  struct {
    int64_t taken __attribute__((aligned(64)));
    int64_t done __attribute__((aligned(64)));
    int64_t here; /* whether its member has come, and was not late last time */
  } part[FUTAD_POOL_MOST];
};

/* A member's way through a nest. */
struct futad_turn {
  int64_t start, end; /* the steps of the piece that it has taken */
  int64_t steps, parts, unit, number, part;
};

#define FUTAD_TEAM_GET(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)

/* How many members a loop is worth, of `most` that its work is for. */
static inline int64_t futad_team_members(int64_t most, int64_t nests, int64_t work, struct futad_speed *speed) {
  if (FUTAD_LIKELY(most < 2)) return 1;
  const int64_t n = FUTAD_GRAIN > 1 ? futad_expected(work, speed) / nests / FUTAD_TEAM_PART : most;
  return futad_together(n < most ? n : most, work, speed);
}

/* All of the loop, of so many nests. */
static __attribute__((noinline, unused)) void futad_team_run(
    struct futad_team *t, void (*body)(void *, struct futad_context *, int64_t), struct futad_context *ctx, int64_t most,
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
static inline bool futad_team_piece(const struct futad_team *t, struct futad_turn *turn, int64_t part, int64_t piece) {
  turn->part = part;
  if (turn->parts == 1) {
    turn->start = part || piece ? turn->steps : 0;
    turn->end = turn->steps;
    return true;
  }
  const int64_t first = futad_part(turn->steps, part, turn->parts, 32);
  const int64_t last = futad_part(turn->steps, part + 1, turn->parts, 32);
  const int64_t chunk = t->pieces > 1 ? futad_chunk(turn->steps, turn->parts * t->pieces, turn->unit) : last - first;
  const int64_t at = first + piece * chunk, end = piece == t->pieces - 1 ? last : at + chunk;
  turn->start = at < last ? at : last;
  turn->end = end < last ? end : last;
  return true;
}

/* Take a piece of a part in this nest, if one is left: which. */
/* (Counts of later nests are larger, so whoever is late takes none.) */
static inline int64_t futad_team_take(struct futad_team *t, int64_t part, int64_t number) {
  const int64_t pieces = t->pieces, end = (number + 1) * pieces;
  int64_t next = __atomic_load_n(&t->part[part].taken, __ATOMIC_RELAXED);
  while (next < end)
    if (__atomic_compare_exchange_n(&t->part[part].taken, &next, next + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return next - number * pieces;
  return -1;
}

/* What is left for a member that has done its own part: pieces of others, or to wait for these; false: all is done. */
static __attribute__((noinline)) bool futad_team_others(struct futad_team *t, int64_t me, struct futad_turn *turn) {
  const int64_t all = (turn->number + 1) * t->pieces;
  for (int64_t k = 0; k < t->count; k++) {
    const int64_t i = (me + k) % t->count; /* its own part, too: another one may have it */
    for (int64_t tries = 0; FUTAD_TEAM_GET(t->part[i].done) < all; tries++) {
      if (FUTAD_TEAM_GET(t->failed)) return false;
      const bool here = __atomic_load_n(&t->part[i].here, __ATOMIC_RELAXED);
      if (!here || t->pieces > 1 || tries % FUTAD_TEAM_PATIENCE == FUTAD_TEAM_PATIENCE - 1) {
        const int64_t piece = futad_team_take(t, i, turn->number);
        if (piece >= 0) {
          if (here && t->pieces == 1) __atomic_store_n(&t->part[i].here, 0, __ATOMIC_RELAXED);
          return futad_team_piece(t, turn, i, piece);
        }
      }
      if (tries > FUTAD_TEAM_LONG && tries % 64 == 0) sched_yield();
      FUTAD_POOL_PAUSE();
    }
  }
  return false;
}

/* Begin a nest.  As for a nest by itself one thread does what is too little for several (and what only one may do). */
static inline struct futad_turn futad_team_turn(const struct futad_team *t, int64_t number, int64_t steps, int64_t work,
                                                int64_t unit) {
  const int64_t parts = work < 2 * FUTAD_GRAIN || steps < 2 ? 1 : t->count;
  return (struct futad_turn){0, 0, steps, parts, unit, number, -1};
}

/* The member's next piece of the nest; false when the nest is done. */
static inline bool futad_team_next(struct futad_team *t, int64_t me, struct futad_turn *turn) {
  if (t->count == 1) {
    turn->end = turn->steps;
    return turn->part++ < 0;
  }
  if (turn->part >= 0) __atomic_add_fetch(&t->part[turn->part].done, 1, __ATOMIC_RELEASE);
  if (turn->part < 0 || turn->part == me) {
    if (!__atomic_load_n(&t->part[me].here, __ATOMIC_RELAXED)) __atomic_store_n(&t->part[me].here, 1, __ATOMIC_RELAXED);
    const int64_t piece = futad_team_take(t, me, turn->number);
    if (piece >= 0) return futad_team_piece(t, turn, me, piece);
  }
  return futad_team_others(t, me, turn);
}

static inline bool futad_team_failed(const struct futad_team *t) { return FUTAD_UNLIKELY(FUTAD_TEAM_GET(t->failed)); }

#endif
