/* Checked execution: records of calls (docs/checking.md), in place of `records.h`.
 *
 * A record is a table in the space of words: how many values it has, a number of its own, and where each value lies, in
 * a block of its own in the space of its elements.  So values have entries as all arrays do, and all blocks go back when
 * the record is given back.  What the program has of a record is where its table lies, from the beginning of the space,
 * and above that its number: who gives one back or reads it again later is told even if another record lies there now.
 */
#ifndef FUTAD_CHECK_RECORDS_H
#define FUTAD_CHECK_RECORDS_H

#define FUTAD_RECORD_BITS 36 /* of a place in a space: FUTAD_ROOM */
#define FUTAD_RECORD_HEAD 2  /* words before where the values lie */

struct futad_records {
  int64_t made, back; /* in this call */
  int64_t bytes;
};

static struct futad_records *futad_records_in(struct futad_context *ctx) {
  struct futad_slot *const slot = &ctx->slots[FUTAD_RECORDS_SLOT];
  if (!slot->data) slot->data = calloc(1, sizeof(struct futad_records));
  if (!slot->data) futad_fail(ctx, FUTAD_MEMORY, -1, sizeof(struct futad_records), 1, 0, 0);
  return slot->data;
}

/* The table of a record that has not been given back. */
static int64_t *futad_record_table(struct futad_context *ctx, int64_t record, int64_t by) {
  const uintptr_t at = (uint64_t)record & (((uint64_t)1 << FUTAD_RECORD_BITS) - 1);
  int64_t *const table = (int64_t *)(FUTAD_SPACE(3) + at);
  const uint64_t entry = *futad_words_of(table, 3);
  if (FUTAD_UNLIKELY(!entry || entry & FUTAD_UNWRITTEN)) futad_found(ctx, FUTAD_READ, by, entry, FUTAD_ANY, -1);
  if (FUTAD_UNLIKELY(table[1] != (int64_t)((uint64_t)record >> FUTAD_RECORD_BITS)))
    futad_found(ctx, FUTAD_READ, by, FUTAD_UNWRITTEN | FUTAD_FREED | (entry & FUTAD_BINDING), FUTAD_ANY, -1);
  return table;
}

/* A record of so many values, by the numbers and the sizes of their elements; 0 and a failure if memory is short. */
static __attribute__((unused)) int64_t futad_record(struct futad_context *ctx, int64_t values, const int64_t *counts,
                                                    const int64_t *classes, int64_t by) {
  struct futad_records *const r = futad_records_in(ctx);
  int64_t bytes = (FUTAD_RECORD_HEAD + values) * 8;
  int64_t *const table = r ? futad_block(&bytes, 8) : NULL;
  if (r && !table) futad_fail(ctx, FUTAD_MEMORY, -1, bytes, 1, 0, 0);
  if (!table) return 0;
  futad_begin(table, table, 0, FUTAD_RECORD_HEAD + values, 3, by);
  table[0] = 0;
  table[1] = (int64_t)(__atomic_add_fetch(&futad_arena()->records, 1, __ATOMIC_RELAXED) << FUTAD_RECORD_BITS >>
                       FUTAD_RECORD_BITS);
  for (int64_t i = 0; i < values; i++) {
    const int k = (int)classes[i];
    int64_t room;
    void *block = NULL;
    if (!__builtin_mul_overflow(counts[i] > 0 ? counts[i] : 1, (int64_t)1 << k, &room))
      block = futad_block(&room, (int64_t)1 << k);
    if (!block) {
      futad_fail(ctx, FUTAD_MEMORY, -1, counts[i], (int64_t)1 << k, 0, 0);
      return 0;
    }
    futad_begin(block, block, 0, counts[i], k, by);
    table[FUTAD_RECORD_HEAD + i] = (int64_t)(intptr_t)block;
    table[0] = i + 1;
    r->bytes += counts[i] << k;
  }
  for (int64_t i = 0; i < FUTAD_RECORD_HEAD + values; i++) futad_wrote(ctx, table + i, 3, by);
  r->made++;
  return (int64_t)((uint64_t)table[1] << FUTAD_RECORD_BITS | ((uintptr_t)table - FUTAD_SPACE(3)));
}

/* Where a value of the record lies. */
static __attribute__((unused)) void *futad_record_value(struct futad_context *ctx, int64_t record, int64_t i,
                                                        int64_t by) {
  const int64_t *const table = futad_record_table(ctx, record, by);
  if (FUTAD_UNLIKELY(i >= table[0])) futad_found(ctx, FUTAD_READ, by, 0, FUTAD_ANY, -1);
  return (void *)(intptr_t)table[FUTAD_RECORD_HEAD + i];
}

static __attribute__((unused)) void futad_record_over(struct futad_context *ctx, int64_t record, int64_t by) {
  struct futad_records *const r = futad_records_in(ctx);
  int64_t *const table = futad_record_table(ctx, record, by);
  for (int64_t i = 0; i < table[0]; i++) futad_drop((void *)(intptr_t)table[FUTAD_RECORD_HEAD + i]);
  futad_drop(table);
  if (r) r->back++;
}

static void futad_records_clear(struct futad_context *ctx) {
  struct futad_records *const r = ctx->slots[FUTAD_RECORDS_SLOT].data;
  if (r) *r = (struct futad_records){0};
  for (int i = 1; i < FUTAD_MOST_THREADS; i++)
    if (ctx->threads[i]) futad_records_clear(ctx->threads[i]);
}

static void futad_records_free(void *data) { free(data); }

/* Of the last call: records made, those of them not given back, bytes of values that have been had. */
static void futad_records_add(const struct futad_context *ctx, int64_t *out) {
  const struct futad_records *const r = ctx->slots[FUTAD_RECORDS_SLOT].data;
  if (r) {
    out[0] += r->made;
    out[1] += r->made - r->back;
    out[2] += r->bytes;
  }
  for (int i = 1; i < FUTAD_MOST_THREADS; i++)
    if (ctx->threads[i]) futad_records_add(ctx->threads[i], out);
}

void futad_records_of(struct futad_context *ctx, int64_t *out) {
  out[0] = out[1] = out[2] = 0;
  futad_records_add(ctx, out);
}

#endif
