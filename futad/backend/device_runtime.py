"""The CUDA C that every emitted file starts with: failures, memory of one thread, atomics."""

RUNTIME = r"""#include "futad_scalar.cuh"
#include "block.cuh"

/* The first failure wins; `error` is its code, place and four values. */
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

/* Memory of one thread whose size only it knows. */
struct futad_slot {
  void *data;
  int64_t bytes;
};

FUTAD_INLINE void *futad_ensure(struct futad_slot *slot, int64_t count, int64_t size) {
  if (slot->data && count >= 0 && count <= slot->bytes / size) return slot->data;
  if (count < 0 || count > INT64_MAX / size - 64) return nullptr;
  free(slot->data);
  slot->bytes = count * size + 16;
  slot->data = malloc((size_t)slot->bytes);
  if (!slot->data) slot->bytes = 0;
  return slot->data;
}

template <class T>
FUTAD_DEV void futad_copy(T *to, const T *from, int64_t count) {
  if (to != from)
    for (int64_t i = 0; i < count; i++) to[i] = from[i];
}

/* --- atomics ------------------------------------------------------------------------------------------- */

template <int BYTES>
struct futad_atom;
template <>
struct futad_atom<4> {
  typedef unsigned type;
};
template <>
struct futad_atom<8> {
  typedef unsigned long long type;
};

/* A first guess at a word that others change; what follows notices if it was wrong. */
template <class W>
FUTAD_DEV W futad_peek(const W *p) {
#ifdef FUTAD_EMULATED
  return futad_load_acquire(p);
#else
  return *(const volatile W *)p;
#endif
}

/* *p = f(*p, value) at once; a value of less than four bytes is changed within its word. */
template <class T, class F>
FUTAD_DEV void futad_update(T *p, T value, F f) {
  if constexpr (sizeof(T) >= 4) {
    typedef typename futad_atom<sizeof(T)>::type W;
    W *word = (W *)p, seen = futad_peek(word), before;
    do {
      before = seen;
      union {
        W w;
        T t;
      } made;
      made.w = before;
      made.t = f(made.t, value);
      seen = atomicCAS(word, before, made.w);
    } while (seen != before);
  } else {
    unsigned at = (unsigned)((size_t)p & 3);
    unsigned *word = (unsigned *)((char *)p - at), seen = futad_peek(word), before;
    do {
      before = seen;
      union made_t {
        unsigned w;
        T t[4 / sizeof(T)];
        FUTAD_DEV made_t() {}
      } made;
      made.w = before;
      made.t[at / sizeof(T)] = f(made.t[at / sizeof(T)], value);
      seen = atomicCAS(word, before, made.w);
    } while (seen != before);
  }
}

#define FUTAD_ATOMIC_INT(op)                                                                              \
  FUTAD_INLINE void futad_atomic##op(uint32_t *p, uint32_t v) { atomic##op((unsigned *)p, (unsigned)v); } \
  FUTAD_INLINE void futad_atomic##op(uint64_t *p, uint64_t v) {                                           \
    atomic##op((unsigned long long *)p, (unsigned long long)v);                                           \
  }
#define FUTAD_ATOMIC_BITS(op)                                                                             \
  FUTAD_ATOMIC_INT(op)                                                                                    \
  FUTAD_INLINE void futad_atomic##op(int32_t *p, int32_t v) { atomic##op((unsigned *)p, (unsigned)v); }   \
  FUTAD_INLINE void futad_atomic##op(int64_t *p, int64_t v) {                                             \
    atomic##op((unsigned long long *)p, (unsigned long long)v);                                           \
  }
#define FUTAD_ATOMIC_ORDER(op)                                                                            \
  FUTAD_ATOMIC_INT(op)                                                                                    \
  FUTAD_INLINE void futad_atomic##op(int32_t *p, int32_t v) { atomic##op((int *)p, (int)v); }             \
  FUTAD_INLINE void futad_atomic##op(int64_t *p, int64_t v) { atomic##op((long long *)p, (long long)v); }
FUTAD_ATOMIC_BITS(Add)
FUTAD_ATOMIC_BITS(And)
FUTAD_ATOMIC_BITS(Or)
FUTAD_ATOMIC_BITS(Xor)
FUTAD_ATOMIC_ORDER(Min)
FUTAD_ATOMIC_ORDER(Max)
FUTAD_INLINE void futad_atomicAdd(float *p, float v) { atomicAdd(p, v); }
FUTAD_INLINE void futad_atomicAdd(double *p, double v) { atomicAdd(p, v); }
"""
