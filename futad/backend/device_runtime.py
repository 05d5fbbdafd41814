"""The CUDA C that every emitted file starts with: failures, memory of one thread."""

RUNTIME = r"""#include "futad_scalar.cuh"
#include "block.cuh"

/* The first failure wins; `error` is its code, place and four values. */
/* Whether an earlier kernel has failed: it wrote so before this one began, so that the read may be cached.  What this
 * kernel's own threads write meanwhile may be seen or not. */
FUTAD_INLINE bool futad_failed(const int64_t *error) {
#ifdef FUTAD_EMULATED
  return futad_peek(error) != 0;
#else
  return *error != 0;
#endif
}

static __device__ __noinline__ void futad_fail(int64_t *error, int64_t code, int64_t place, int64_t a, int64_t b,
                                               int64_t c, int64_t d) {
  if (atomicCAS((unsigned long long *)error, 0ULL, (unsigned long long)code) == 0ULL) {
    error[1] = place;
    error[2] = a;
    error[3] = b;
    error[4] = c;
    error[5] = d;
  }
}

/* Memory of one thread whose size only it knows: a piece of the launch's heap as long as that lasts, else by malloc,
 * which takes microseconds.  The first word of the heap says how much of it is taken; nothing is given back to it. */
struct futad_slot {
  void *data;
  int64_t bytes;
};
struct futad_heap {
  unsigned char *data;
  int64_t bytes;
};
enum { FUTAD_HEAP_HEAD = 16 };

FUTAD_INLINE void futad_release(const struct futad_heap *heap, const struct futad_slot *slot) {
  const uint64_t place = (uint64_t)slot->data - (uint64_t)heap->data;
  if (place >= (uint64_t)heap->bytes) free(slot->data);
}

FUTAD_INLINE void *futad_ensure(const struct futad_heap *heap, struct futad_slot *slot, int64_t count, int64_t size) {
  if (slot->data && count >= 0 && count <= slot->bytes / size) return slot->data;
  if (count < 0 || count > INT64_MAX / size - 64) return nullptr;
  futad_release(heap, slot);
  const int64_t bytes = (count * size + 16 + 15) / 16 * 16;
  const int64_t piece = bytes < 2 * slot->bytes ? 2 * slot->bytes : bytes;
  slot->data = nullptr;
  slot->bytes = bytes;
  if (piece <= heap->bytes) {
    const uint64_t at = atomicAdd((unsigned long long *)heap->data, (unsigned long long)piece) + FUTAD_HEAP_HEAD;
    if (at + (uint64_t)piece <= (uint64_t)heap->bytes) {
      slot->data = heap->data + at;
      slot->bytes = piece;
    }
  }
  if (!slot->data) slot->data = malloc((size_t)bytes);
  if (!slot->data) slot->bytes = 0;
  return slot->data;
}

template <class T>
FUTAD_DEV void futad_copy(T *to, const T *from, int64_t count) {
#ifdef FUTAD_LOOKED_UP_COPY
  FUTAD_LOOKED_UP_COPY(to, from, count * sizeof(T));
#endif
  if (to != from)
    for (int64_t i = 0; i < count; i++) to[i] = from[i];
}
"""
