/* Whether the iterations of a loop that are said to be independent are (docs/checking.md): none may write an element
   that another one reads or writes.  `backend/c_check_lanes.py` emits the calls; a loop that is being looked at has no
   such loop inside. */
#define FUTAD_LANES 7 /* a code of `ctx->error` */

enum { FUTAD_SEEN_BITS = 12, FUTAD_SEEN = 1 << FUTAD_SEEN_BITS };

/* Which iterations have had an element: the last one that wrote it, the only one that read it; -1 is none, -2 several. */
struct futad_seen {
  const void *at;
  uint64_t loop;
  int64_t reader, writer;
};

static __thread struct {
  struct futad_seen seen[FUTAD_SEEN];
  uint64_t loop; /* entries of other loops are empty */
  int64_t iteration, entries, first, second;
} futad_lanes;

static __attribute__((unused)) void futad_lanes_begin(void) {
  futad_lanes.loop++;
  futad_lanes.iteration = futad_lanes.first = futad_lanes.second = -1;
  futad_lanes.entries = 0;
}

/* Lanes are neighbours, so a full table may forget. */
static __attribute__((unused)) void futad_lanes_next(void) {
  futad_lanes.iteration++;
  if (futad_lanes.entries > FUTAD_SEEN / 2) {
    futad_lanes.loop++;
    futad_lanes.entries = 0;
  }
}

static struct futad_seen *futad_lanes_entry(const void *at) {
  uint64_t h = (uint64_t)(uintptr_t)at * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FUTAD_SEEN_BITS);
  struct futad_seen *e = &futad_lanes.seen[h];
  while (e->loop == futad_lanes.loop && e->at != at) e = &futad_lanes.seen[h = (h + 1) % FUTAD_SEEN];
  if (e->loop != futad_lanes.loop) {
    *e = (struct futad_seen){at, futad_lanes.loop, -1, -1};
    futad_lanes.entries++;
  }
  return e;
}

static void futad_lanes_met(int64_t other) {
  if (futad_lanes.first != -1) return;
  futad_lanes.first = other;
  futad_lanes.second = futad_lanes.iteration;
}

static __attribute__((unused)) const void *futad_lanes_read(const void *at) {
  struct futad_seen *e = futad_lanes_entry(at);
  if (e->writer >= 0 && e->writer != futad_lanes.iteration) futad_lanes_met(e->writer);
  e->reader = e->reader == -1 || e->reader == futad_lanes.iteration ? futad_lanes.iteration : -2;
  return at;
}

static __attribute__((unused)) void futad_lanes_write(const void *at) {
  struct futad_seen *e = futad_lanes_entry(at);
  if (e->writer >= 0 && e->writer != futad_lanes.iteration) futad_lanes_met(e->writer);
  if (e->reader != -1 && e->reader != futad_lanes.iteration) futad_lanes_met(e->reader);
  e->writer = futad_lanes.iteration;
}
