/* Checked execution: where arrays lie, and for each of their elements who wrote it last (docs/checking.md).
 *
 * Arrays lie in one space for each size of elements (1, 2, 4, 8 bytes), at the same addresses for all libraries of a
 * process.  At a fixed distance from each element is its entry: 0 where no array is; else the time in the upper bits,
 * then the piece of a parallel nest (0 outside of any), and the number of the binding in the lower ones.  Memory that was given out and not written yet has FUTAD_UNWRITTEN in
 * its entry, and the binding that it was given to; what was given back FUTAD_FREED as well, and what such memory was
 * copied to FUTAD_MOVED.
 */
#ifndef FUTAD_CHECK_ARENA_H
#define FUTAD_CHECK_ARENA_H

#include <errno.h>
#include <setjmp.h>
#include <sys/mman.h>

#define FUTAD_SPACE(k) (((uintptr_t)0x10 << 40) + ((uintptr_t)(k) << 41)) /* of elements of 2^k bytes */
/* From a space to its entries: not a multiple of a page, or processors would take an entry for its element. */
#define FUTAD_ENTRIES (((uintptr_t)1 << 40) + 2112)
#define FUTAD_ROOM ((uintptr_t)1 << 36)                                  /* bytes of a space */
#define FUTAD_BINDING_BITS 20
#define FUTAD_BINDING (((uint64_t)1 << FUTAD_BINDING_BITS) - 1)
#define FUTAD_PIECE_BITS 6
#define FUTAD_PIECES_MASK ((((uint64_t)1 << FUTAD_PIECE_BITS) - 1) << FUTAD_BINDING_BITS)
#define FUTAD_MOMENT ((uint64_t)1 << (FUTAD_BINDING_BITS + FUTAD_PIECE_BITS))
#define FUTAD_UNWRITTEN ((uint64_t)1 << 63)
#define FUTAD_FREED ((uint64_t)1 << 62)
#define FUTAD_MOVED ((uint64_t)1 << 61)

/* What a space begins its blocks with: the exponent of their size, and how many elements have entries. */
struct futad_block {
  int64_t exponent;
  int64_t marked;
};
#define FUTAD_MARGIN 64 /* bytes before and after the elements of a block, which have no entries */

struct futad_arena {
  uint64_t ready;
  int lock;
  uint64_t pieces; /* that have begun */
  uintptr_t next[4];
  void *free[4][48];
  uint64_t records; /* of calls, that have been made */
};

FUTAD_INLINE uint64_t *futad_words_of(const void *p, int k) {
  return (uint64_t *)(FUTAD_SPACE(k) + FUTAD_ENTRIES + (((uintptr_t)p - FUTAD_SPACE(k)) << (3 - k)));
}

FUTAD_INLINE struct futad_block *futad_block_of(const void *data) {
  return (struct futad_block *)((uintptr_t)data - FUTAD_MARGIN);
}

/* The spaces of this process; NULL if they cannot be had. */
static __attribute__((noinline, cold)) struct futad_arena *futad_arena(void) {
  static struct futad_arena *known;
  if (known) return known;
  const size_t bytes = FUTAD_SPACE(4) - FUTAD_SPACE(0) + 4096;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | 0x100000 /* MAP_FIXED_NOREPLACE */;
  void *at = mmap((void *)FUTAD_SPACE(0), bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  struct futad_arena *arena = (struct futad_arena *)FUTAD_SPACE(4);
  if (at == (void *)FUTAD_SPACE(0)) {
    for (int k = 0; k < 4; k++) arena->next[k] = FUTAD_SPACE(k);
    __atomic_store_n(&arena->ready, 1, __ATOMIC_RELEASE);
  } else if (at != MAP_FAILED) {
    munmap(at, bytes);
    return NULL;
  } else if (errno != EEXIST) {
    return NULL;
  }
  while (!__atomic_load_n(&arena->ready, __ATOMIC_ACQUIRE)) {
  }
  return known = arena;
}

static void futad_lock_arena(struct futad_arena *arena) {
  while (__atomic_exchange_n(&arena->lock, 1, __ATOMIC_ACQUIRE)) {
  }
}

static void futad_unlock_arena(struct futad_arena *arena) { __atomic_store_n(&arena->lock, 0, __ATOMIC_RELEASE); }

/* A block for so many bytes of elements of that size; `bytes` becomes what it has. */
static __attribute__((noinline, cold)) void *futad_block(int64_t *bytes, int64_t size) {
  struct futad_arena *const arena = futad_arena();
  if (!arena || *bytes > (int64_t)FUTAD_ROOM / 2) return NULL;
  const int k = __builtin_ctzll((uint64_t)size);
  int exponent = 8;
  while (((int64_t)1 << exponent) < *bytes + 2 * FUTAD_MARGIN) exponent++;
  futad_lock_arena(arena);
  char *block = arena->free[k][exponent];
  if (block) {
    arena->free[k][exponent] = *(void **)(block + FUTAD_MARGIN);
  } else if (arena->next[k] + ((uintptr_t)1 << exponent) <= FUTAD_SPACE(k) + FUTAD_ROOM) {
    block = (char *)arena->next[k];
    arena->next[k] += (uintptr_t)1 << exponent;
  }
  futad_unlock_arena(arena);
  if (!block) return NULL;
  ((struct futad_block *)block)->exponent = exponent; /* what was marked of it before is so still */
  *bytes = ((int64_t)1 << exponent) - 2 * FUTAD_MARGIN;
  return block + FUTAD_MARGIN;
}

/* A block is given back: until it is given out again its entries say so. */
static __attribute__((noinline, cold, unused)) void futad_drop(void *data) {
  struct futad_arena *const arena = futad_arena();
  if (!arena || !data) return;
  struct futad_block *const block = futad_block_of(data);
  const int k = (int)(((uintptr_t)data - FUTAD_SPACE(0)) >> 41), exponent = (int)block->exponent;
  uint64_t *const entries = futad_words_of(data, k);
  for (int64_t i = 0; i < block->marked; i++)
    entries[i] = FUTAD_UNWRITTEN | FUTAD_FREED | (entries[i] & FUTAD_BINDING);
  futad_lock_arena(arena);
  *(void **)data = arena->free[k][exponent];
  arena->free[k][exponent] = block;
  futad_unlock_arena(arena);
}

/* A time that a record of a loop's iteration was made at; see futad_iteration. */
struct futad_iteration {
  uint64_t clock;
  int64_t loop, number;
};
#define FUTAD_ITERATIONS (1 << 14)

#define FUTAD_ALONE UINT64_MAX

/* What a context knows besides in this mode. */
struct futad_watch {
  uint64_t clock; /* the time and the piece, as in entries */
  uint64_t nest;  /* when the parallel nest began that this is a piece of; FUTAD_ALONE if there is none */
  jmp_buf stop;   /* where a finding leaves to */
  struct {
    int64_t what, reader, entry, bound, place;
    struct futad_context *by;
  } finding;
  uint64_t iterations_made;
  struct futad_iteration iterations[FUTAD_ITERATIONS]; /* the last ones */
};

#endif
