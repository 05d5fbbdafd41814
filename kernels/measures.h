/* Numbers that a program tells of its run (futad/core/measures.py): FUTAD_MEASURES words in the last slot of each
 * thread's context, had when the thread first tells one.
 */

/* A site that begins at word `at` is passed: of so many values the sums grow, and the largest are kept. */
static __attribute__((noinline, cold, unused)) void futad_measure(struct futad_context *ctx, int64_t at, int64_t count,
                                                          const int64_t *values) {
  struct futad_slot *const slot = &ctx->slots[FUTAD_SLOTS - 1];
  if (!slot->data) {
    int64_t bytes = (FUTAD_MEASURES * 8 + 63) / 64 * 64;
    slot->data = futad_alloc(&bytes);
    if (!slot->data) return; /* what is told is no part of the result */
    memset(slot->data, 0, (size_t)bytes);
    slot->bytes = bytes;
  }
  int64_t *words = (int64_t *)slot->data + at;
  *words++ += 1;
  for (int64_t i = 0; i < count; i++, words += 2) {
    words[0] = (int64_t)((uint64_t)words[0] + (uint64_t)values[i]);
    if (values[i] > words[1]) words[1] = values[i];
  }
}

/* A call begins. */
static __attribute__((unused)) void futad_measures_clear(struct futad_context *ctx) {
  struct futad_slot *const slot = &ctx->slots[FUTAD_SLOTS - 1];
  if (slot->data) memset(slot->data, 0, FUTAD_MEASURES * 8);
  ctx->peak = 0;
  for (int i = 1; i < FUTAD_MOST_THREADS; i++)
    if (ctx->threads[i]) futad_measures_clear(ctx->threads[i]);
}

/* The words of a thread, 0 being the caller; NULL if it has told nothing. */
const int64_t *futad_measures(struct futad_context *ctx, int64_t thread) {
  if (thread >= FUTAD_MOST_THREADS || (thread && !ctx->threads[thread])) return NULL;
  return (thread ? ctx->threads[thread] : ctx)->slots[FUTAD_SLOTS - 1].data;
}

int64_t futad_measures_threads(void) { return FUTAD_MOST_THREADS; }
