/* Records of calls, for their return sweeps: each is made once and given back once.
 *
 * Records lie one after the other in chunks of 64 KiB, which lie at multiples of that, so that a record's address tells
 * its chunk. A chunk counts the records that were made in it, and those given back; when all are, it is used again. Each
 * thread makes records in chunks of its own; others may give them back, which the owner learns when it looks. Chunks are
 * cut off blocks, which the context keeps from call to call. A larger record has a block of its own, for that call.
 */

#define FUTAD_CHUNK ((int64_t)1 << 16)
#define FUTAD_CHUNK_HEAD 64
#define FUTAD_MOST_BLOCK ((int64_t)1 << 22)

struct futad_chunk {
  struct futad_records *owner;
  struct futad_chunk *next;
  int64_t bytes;
  int64_t made, back; /* of the owner */
  int64_t others;     /* given back by other threads */
};

struct futad_block {
  struct futad_block *next;
  int64_t bytes, begun; /* how much of it has been cut off */
  char *data;
};

struct futad_records {
  char *at, *end; /* of the chunk that records are made in now */
  struct futad_chunk *now, *spare, *large;
  struct futad_block *blocks;
  int64_t made, back; /* in this call */
  int64_t taken, most; /* bytes of chunks that have records, and the most there were */
  int64_t bytes;       /* of all blocks */
};

#define FUTAD_RECORDS(ctx) ((struct futad_records *)(ctx)->slots[FUTAD_RECORDS_SLOT].data)

static void *futad_chunk_memory(struct futad_records *r) {
  struct futad_block *b = r->blocks;
  if (!b || b->begun == b->bytes) {
    const int64_t bytes = !b ? 4 * FUTAD_CHUNK : b->bytes < FUTAD_MOST_BLOCK ? 2 * b->bytes : FUTAD_MOST_BLOCK;
    struct futad_block *more = malloc(sizeof *more);
    if (!more) return NULL;
    *more = (struct futad_block){b, bytes, 0, aligned_alloc((size_t)FUTAD_CHUNK, (size_t)bytes)};
    if (!more->data) {
      free(more);
      return NULL;
    }
    r->blocks = b = more;
    r->bytes += bytes;
  }
  b->begun += FUTAD_CHUNK;
  return b->data + b->begun - FUTAD_CHUNK;
}

static __attribute__((noinline, unused)) int64_t futad_keep_more(struct futad_context *ctx, int64_t bytes) {
  struct futad_records *r = FUTAD_RECORDS(ctx);
  if (!r) {
    r = calloc(1, sizeof *r);
    ctx->slots[FUTAD_RECORDS_SLOT].data = r;
  }
  struct futad_chunk *c = NULL;
  int64_t size = FUTAD_CHUNK;
  if (r && bytes >= 0 && bytes <= FUTAD_CHUNK - FUTAD_CHUNK_HEAD) {
    c = r->spare;
    if (c) r->spare = c->next;
    else c = futad_chunk_memory(r);
    if (c) {
      /* what the others have given back of the chunk before is seen when the call ends */
      r->now = c;
      r->at = (char *)c + FUTAD_CHUNK_HEAD;
      r->end = (char *)c + FUTAD_CHUNK;
    }
  } else if (r && bytes >= 0 && bytes < INT64_MAX / 4) {
    size = (bytes + FUTAD_CHUNK_HEAD + FUTAD_CHUNK - 1) / FUTAD_CHUNK * FUTAD_CHUNK;
    c = aligned_alloc((size_t)FUTAD_CHUNK, (size_t)size);
  }
  if (!c) {
    futad_fail(ctx, FUTAD_MEMORY, -1, bytes, 1, 0, 0);
    return 0;
  }
  *c = (struct futad_chunk){r, NULL, size, 0, 0, 0};
  if (size > FUTAD_CHUNK) {
    c->next = r->large;
    r->large = c;
  }
  r->taken += size;
  if (r->taken > r->most) r->most = r->taken;
  ctx->slots[FUTAD_RECORDS_SLOT].bytes = r->bytes;
  c->made = 1;
  r->made++;
  if (size == FUTAD_CHUNK) r->at += bytes;
  return (int64_t)(intptr_t)((char *)c + FUTAD_CHUNK_HEAD);
}

/* A record of that many bytes, a multiple of 8; 0 and a failure if memory is short.  One of none takes 8: at the end of
 * a chunk its address would be another chunk's. */
static inline __attribute__((unused)) int64_t futad_keep(struct futad_context *ctx, int64_t bytes) {
  bytes = bytes ? bytes : 8;
  struct futad_records *const r = FUTAD_RECORDS(ctx);
  if (FUTAD_UNLIKELY(!r || (uint64_t)(r->end - r->at) < (uint64_t)bytes)) {
    void *const held = futad_hold();
    const int64_t more = futad_keep_more(ctx, bytes);
    futad_go_on(held);
    return more;
  }
  char *const record = r->at;
  r->at += bytes;
  r->now->made++;
  r->made++;
  return (int64_t)(intptr_t)record;
}

/* All records of a chunk of ours have been given back. */
static __attribute__((noinline, unused)) void futad_chunk_empty(struct futad_records *r, struct futad_chunk *c) {
  r->back += c->others;
  c->made = c->back = c->others = 0;
  if (c == r->now) {
    r->at = (char *)c + FUTAD_CHUNK_HEAD;
    return;
  }
  r->taken -= c->bytes;
  if (c->bytes == FUTAD_CHUNK) {
    c->next = r->spare;
    r->spare = c;
    return;
  }
  struct futad_chunk **link = &r->large;
  while (*link != c) link = &(*link)->next;
  *link = c->next;
  free(c);
}

static inline __attribute__((unused)) void futad_give_back(struct futad_context *ctx, int64_t record) {
  struct futad_records *const r = FUTAD_RECORDS(ctx);
  struct futad_chunk *const c = (struct futad_chunk *)(intptr_t)(record & ~(FUTAD_CHUNK - 1));
#ifdef FUTAD_POOL_H
  if (FUTAD_UNLIKELY(c->owner != r)) {
    __atomic_add_fetch(&c->others, 1, __ATOMIC_RELEASE);
    return;
  }
  const int64_t others = __atomic_load_n(&c->others, __ATOMIC_ACQUIRE);
#else
  const int64_t others = 0;
#endif
  c->back++;
  r->back++;
  if (FUTAD_UNLIKELY(c->back + others == c->made)) {
    void *const held = futad_hold();
    futad_chunk_empty(r, c);
    futad_go_on(held);
  }
}

/* Blocks are cut anew, and what a call has left is forgotten: for its first thread, and for the others. */
static void futad_records_clear(struct futad_context *ctx) {
  void *const held = futad_hold();
  struct futad_records *const r = FUTAD_RECORDS(ctx);
  if (r) {
    for (struct futad_chunk *c = r->large, *next; c; c = next) {
      next = c->next;
      free(c);
    }
    r->large = r->spare = r->now = NULL;
    r->at = r->end = NULL;
    r->made = r->back = r->taken = r->most = 0;
    for (struct futad_block *b = r->blocks; b; b = b->next) {
      for (int64_t at = 0; at < b->begun; at += FUTAD_CHUNK) {
        struct futad_chunk *const c = (struct futad_chunk *)(b->data + at);
        c->others = 0;
        c->next = r->spare;
        r->spare = c;
      }
    }
  }
  for (int i = 1; i < FUTAD_MOST_THREADS; i++)
    if (ctx->threads[i]) futad_records_clear(ctx->threads[i]);
  futad_go_on(held);
}

static void futad_records_free(void *data) {
  struct futad_records *const r = data;
  if (!r) return;
  for (struct futad_chunk *c = r->large, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  for (struct futad_block *b = r->blocks, *next; b; b = next) {
    next = b->next;
    free(b->data);
    free(b);
  }
}

/* Of the last call: records made, those of them not given back, bytes that they took at most. */
static void futad_records_add(const struct futad_context *ctx, int64_t *out) {
  const struct futad_records *const r = FUTAD_RECORDS(ctx);
  if (r) {
    out[0] += r->made;
    out[1] += r->made - r->back;
    out[2] += r->most;
    for (const struct futad_block *b = r->blocks; b; b = b->next)
      for (int64_t at = 0; at < b->begun; at += FUTAD_CHUNK) out[1] -= ((struct futad_chunk *)(b->data + at))->others;
    for (const struct futad_chunk *c = r->large; c; c = c->next) out[1] -= c->others;
  }
  for (int i = 1; i < FUTAD_MOST_THREADS; i++)
    if (ctx->threads[i]) futad_records_add(ctx->threads[i], out);
}

void futad_records_of(struct futad_context *ctx, int64_t *out) {
  out[0] = out[1] = out[2] = 0;
  futad_records_add(ctx, out);
}
