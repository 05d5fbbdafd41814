/* Atomic updates for every type and operator, and histograms (reduce_by_index) by way of shared memory.
 *
 * The operator is associative and commutative, and names in `enum { atomic = FUTAD_ATOMIC_... }` how one update is
 * made.
 */
#ifndef FUTAD_HISTOGRAM_CUH
#define FUTAD_HISTOGRAM_CUH
#include "block.cuh"

enum {
  FUTAD_ATOMIC_CAS, /* a loop of compare-and-swap: any operator on 1, 2, 4 or 8 bytes */
  FUTAD_ATOMIC_ADD, /* the machine's own, for scalars that have one; the loop for those that do not */
  FUTAD_ATOMIC_MIN,
  FUTAD_ATOMIC_MAX,
  FUTAD_ATOMIC_AND,
  FUTAD_ATOMIC_OR,
  FUTAD_ATOMIC_XOR
};

/* Compare-and-swap of words of 1, 2, 4 and 8 bytes; both return what was there. */
#ifdef FUTAD_EMULATED
FUTAD_INLINE uint8_t futad_cas(uint8_t *p, uint8_t expected, uint8_t desired) {
  return futad_emu::compare_and_swap(p, expected, desired);
}
#else
FUTAD_INLINE uint8_t futad_cas(uint8_t *p, uint8_t expected, uint8_t desired) {
  /* Within the aligned word around it, until the other bytes hold still. */
  uint32_t *word = (uint32_t *)((uint64_t)p & ~3ull), seen = *(volatile uint32_t *)word;
  int shift = (int)((uint64_t)p & 3) * 8;
  for (;;) {
    uint8_t old = (uint8_t)(seen >> shift);
    if (old != expected) return old;
    uint32_t made = (seen & ~(255u << shift)) | (uint32_t)desired << shift, was = atomicCAS(word, seen, made);
    if (was == seen) return old;
    seen = was;
  }
}
#endif
FUTAD_INLINE uint16_t futad_cas(uint16_t *p, uint16_t expected, uint16_t desired) {
  return atomicCAS((unsigned short *)p, (unsigned short)expected, (unsigned short)desired);
}
FUTAD_INLINE uint32_t futad_cas(uint32_t *p, uint32_t expected, uint32_t desired) {
  return atomicCAS((unsigned *)p, expected, desired);
}
FUTAD_INLINE uint64_t futad_cas(uint64_t *p, uint64_t expected, uint64_t desired) {
  return atomicCAS((unsigned long long *)p, expected, desired);
}

template <int SIZE>
struct futad_word_of;
#define FUTAD_WORD_OF(size, word) \
  template <>                     \
  struct futad_word_of<size> {    \
    typedef word type;            \
  };
FUTAD_WORD_OF(1, uint8_t)
FUTAD_WORD_OF(2, uint16_t)
FUTAD_WORD_OF(4, uint32_t)
FUTAD_WORD_OF(8, uint64_t)

template <class Op>
FUTAD_DEV void futad_cas_update(const Op &op, typename Op::T *p, typename Op::T value) {
  typedef typename Op::T T;
  typedef typename futad_word_of<(int)sizeof(T)>::type W;
  union Both {
    T value;
    W word;
    FUTAD_DEV Both() {}
  } old, made;
  W seen = futad_peek((const W *)p); /* what follows notices if it was wrong */
  for (;;) {
    old.word = made.word = seen;
    made.value = op.combine(old.value, value);
    W was = futad_cas((W *)p, seen, made.word);
    if (was == seen) return;
    seen = was;
  }
}

/* The operations for which a word is as good as unsigned. */
template <int ATOMIC, class W>
FUTAD_DEV void futad_atomic_bits(W *p, W value) {
  if constexpr (ATOMIC == FUTAD_ATOMIC_ADD) atomicAdd(p, value);
  if constexpr (ATOMIC == FUTAD_ATOMIC_MIN) atomicMin(p, value);
  if constexpr (ATOMIC == FUTAD_ATOMIC_MAX) atomicMax(p, value);
  if constexpr (ATOMIC == FUTAD_ATOMIC_AND) atomicAnd(p, value);
  if constexpr (ATOMIC == FUTAD_ATOMIC_OR) atomicOr(p, value);
  if constexpr (ATOMIC == FUTAD_ATOMIC_XOR) atomicXor(p, value);
}

/* p[0] = op(p[0], value) as one step; T is a scalar or a struct of 1, 2, 4 or 8 bytes. */
template <class Op>
FUTAD_DEV void futad_atomic_update(const Op &op, typename Op::T *p, typename Op::T value) {
  typedef typename Op::T T;
  if constexpr (Op::atomic == FUTAD_ATOMIC_CAS || sizeof(T) < 4) {
    futad_cas_update(op, p, value);
  } else {
    constexpr bool real = (T)0.5f != (T)0, negative = (T)-1 < (T)0, four = sizeof(T) == 4;
    if constexpr (real) {
      if constexpr (Op::atomic == FUTAD_ATOMIC_ADD) {
        atomicAdd(p, value);
      } else {
        futad_cas_update(op, p, value);
      }
    } else if constexpr (negative && four && Op::atomic == FUTAD_ATOMIC_MIN) {
      atomicMin((int *)p, (int)value);
    } else if constexpr (negative && four && Op::atomic == FUTAD_ATOMIC_MAX) {
      atomicMax((int *)p, (int)value);
    } else if constexpr (negative && Op::atomic == FUTAD_ATOMIC_MIN) {
      atomicMin((long long *)p, (long long)value);
    } else if constexpr (negative && Op::atomic == FUTAD_ATOMIC_MAX) {
      atomicMax((long long *)p, (long long)value);
    } else if constexpr (four) {
      futad_atomic_bits<Op::atomic>((unsigned *)p, (unsigned)value);
    } else {
      futad_atomic_bits<Op::atomic>((unsigned long long *)p, (unsigned long long)value);
    }
  }
}

/* Runs `body()` while holding a lock, which is 0 when free.  Threads of one warp may want the same lock, so the one
 * that has it does its work inside the loop. */
template <class Body>
FUTAD_DEV void futad_locked(uint32_t *lock, const Body &body) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0u, 1u) == 0) {
      __threadfence();
      body();
      __threadfence();
      atomicExch(lock, 0u);
      done = true;
    } else {
      FUTAD_SPIN();
    }
  }
}

/* A scalar operator that `f(left, right)` computes, updates made as KIND says. */
template <class V, int KIND, class F>
struct futad_atomic_operation {
  typedef V T;
  enum { commutative = 1, atomic = KIND };
  F f;
  T start;
  FUTAD_DEV T neutral() const { return start; }
  FUTAD_DEV T combine(T x, T y) const { return f(x, y); }
};
template <class V, int KIND, class F>
FUTAD_DEV futad_atomic_operation<V, KIND, F> futad_atomic_operator(const F &f, V start) {
  return futad_atomic_operation<V, KIND, F>{f, start};
}

/* One update of memory, made as KIND says. */
template <int KIND, class T, class F>
FUTAD_DEV void futad_update(T *p, T value, const F &f) {
  futad_atomic_update(futad_atomic_operator<T, KIND>(f, value), p, value);
}

/* The same where all threads of a warp may be at one place: then their values are combined, and one of them updates.
 * The operator is associative and commutative. */
template <int KIND, class T, class F>
FUTAD_DEV void futad_update_together(T *p, T value, const F &f) {
#ifndef FUTAD_EMULATED
  if (__activemask() == FUTAD_ALL) {
    int same;
    __match_all_sync(FUTAD_ALL, (unsigned long long)p, &same);
    if (same) {
      value = futad_warp_reduce(futad_operator<T>(f, value), value);
      if (futad_lane() != 0) return;
    }
  }
#endif
  futad_update<KIND>(p, value, f);
}

/* --- sub-histograms in shared memory: each block adds up its own, and in the end adds that to memory ------------------
 *
 * `op` is an operator, `at(bin)` the address of a bin; updates are calls of a functor `add(bin, value)`, for bins within
 * 0 <= bin < bins. */

/* Updates of those of the bins that are here. */
template <class Op>
struct futad_shared_adder {
  const Op &op;
  typename Op::T *sub;
  int64_t first, count;
  FUTAD_DEV void operator()(int64_t bin, typename Op::T value) const {
    bin -= first;
    if (bin >= 0 && bin < count) futad_atomic_update(op, sub + bin, value);
  }
};

/* `body(block, blocks, add)` with a sub-histogram of CELLS bins, of which another block has others if they are more: of
 * `ceil(bins / CELLS)` consecutive blocks all are the same `block` of `blocks`.  Their number is a multiple of that. */
template <int CELLS, class Op, class At, class Body>
FUTAD_DEV void futad_with_subhist(const Op &op, int64_t bins, const At &at, const Body &body) {
  typedef typename Op::T T;
  FUTAD_SHARED(T, sub, CELLS);
  uint32_t passes = bins > CELLS ? (uint32_t)((bins + CELLS - 1) / CELLS) : 1;
  int64_t first = (int64_t)(blockIdx.x % passes) * CELLS;
  int64_t count = bins - first < CELLS ? bins - first : CELLS;
  for (int64_t k = threadIdx.x; k < count; k += blockDim.x) sub[k] = op.neutral();
  __syncthreads();
  body(blockIdx.x / passes, gridDim.x / passes, futad_shared_adder<Op>{op, sub, first, count});
  __syncthreads();
  for (int64_t k = threadIdx.x; k < count; k += blockDim.x) futad_atomic_update(op, at(first + k), sub[k]);
}

/* `update(i, add)` for each i below n. */
template <int CELLS, class Op, class At, class Update>
FUTAD_DEV void futad_subhist_points(const Op &op, int64_t n, int64_t bins, const At &at, const Update &update) {
  futad_with_subhist<CELLS>(op, bins, at, [&](uint32_t block, uint32_t blocks, const futad_shared_adder<Op> &add) {
    int64_t step = (int64_t)blocks * blockDim.x;
    for (int64_t i = (int64_t)block * blockDim.x + threadIdx.x; i < n; i += step) update(i, add);
  });
}

/* Points that read rows of `columns` elements of type R, `load(i, j)`, and then update `width` places each: as many at a
 * time as have room among ROOM elements in shared memory, at least one and at most one a thread.  `before(i, row)` of
 * each, by one thread, is what `update(i, j, row, before, add)` needs, for j below `width`. */
template <int CELLS, int ROOM, class R, class Before, class Op, class At, class Load, class First, class Update>
FUTAD_DEV void futad_subhist_rows(const Op &op, int64_t n, int64_t columns, int64_t width, int64_t bins, const At &at,
                                  const Load &load, const First &before, const Update &update) {
  FUTAD_SHARED(R, rows, ROOM);
  FUTAD_SHARED(Before, made, 256);
  int d = (int)columns, w = (int)width, t = (int)threadIdx.x, threads = (int)blockDim.x;
  int apart = d | 1; /* neighbouring rows begin in different banks */
  int most = ROOM / apart < threads ? ROOM / apart : threads;
  futad_with_subhist<CELLS>(op, bins, at, [&](uint32_t block, uint32_t blocks, const futad_shared_adder<Op> &add) {
    for (int64_t first = (int64_t)block * most; first < n; first += (int64_t)blocks * most) {
      int count = n - first < most ? (int)(n - first) : most;
      for (int e = t; e < count * d; e += threads) {
        int p = (int)((uint32_t)e / (uint32_t)d), j = e - p * d;
        rows[p * apart + j] = load(first + p, j);
      }
      __syncthreads();
      if (t < count) made[t] = before(first + t, rows + t * apart);
      __syncthreads();
      for (int e = t; e < count * w; e += threads) {
        int p = (int)((uint32_t)e / (uint32_t)w), j = e - p * w;
        update(first + p, j, rows + p * apart, made[p], add);
      }
      __syncthreads();
    }
  });
}

#endif
